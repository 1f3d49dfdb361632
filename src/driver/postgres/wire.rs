//! The wire of a session: requests are written from the operation's own bytes into one buffer that is
//! used again, and answers are read where they arrived. Nothing is allocated while requests succeed.
//!
//! tokio-postgres opens the connection (`dial.rs`) and makes tables. In the timed loop its way of one
//! task for each connection, a channel for each answer and a shared buffer for each message cost 11,000
//! instructions a read; this costs a third. The messages are those of postgres-protocol, beneath both.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf, BufMut, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend::{self, BindError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use super::dial::Stream;

/// A parameter of a statement. The binary format of every text type is its bytes; the server checks
/// that they are text.
#[derive(Debug, Clone, Copy)]
pub enum Parameter<'a> {
    /// Text, for a parameter of a text type.
    Text(&'a [u8]),
    /// A number of rows.
    Count(i64),
    /// Text that the server reads as whatever type it expects.
    Literal(&'a [u8]),
}

impl Parameter<'_> {
    /// 0 for text that the server has to read, 1 for what it takes as it is.
    const fn format(&self) -> i16 {
        match self {
            Parameter::Literal(_) => 0,
            Parameter::Text(_) | Parameter::Count(_) => 1,
        }
    }

    /// Its type, where the server is not asked for it: TEXT or INT8.
    const fn kind(&self) -> u32 {
        match self {
            Parameter::Count(_) => 20,
            Parameter::Text(_) | Parameter::Literal(_) => 25,
        }
    }

    fn write(self, out: &mut BytesMut) {
        match self {
            Parameter::Text(bytes) | Parameter::Literal(bytes) => out.put_slice(bytes),
            Parameter::Count(count) => out.put_i64(count),
        }
    }
}

/// A statement that is ready to be executed.
#[derive(Debug, Clone)]
pub enum Prepared {
    /// The server knows it by a name, and takes so many parameters.
    Named(Arc<str>, usize),
    /// Its text is sent each time.
    Unnamed(Arc<str>),
}

/// Why a request failed.
#[derive(Debug)]
pub struct Failure {
    /// Who says so.
    pub cause: Cause,
    /// The request, or a part of it, may have reached the server.
    pub sent: bool,
}

/// Who says that a request failed.
#[derive(Debug)]
pub enum Cause {
    /// The server, by SQLSTATE and message.
    Server(String, String),
    /// The connection is gone, for this reason.
    Lost(String),
    /// The request cannot be put into a message.
    Request(String),
}

/// The row of an answer under way.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    columns: u16,
    body: &'a [u8],
}

impl<'a> Row<'a> {
    /// Its values from left to right; `None` is SQL's null.
    #[inline]
    pub fn values(self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut rest = self.body;
        (0..self.columns).map_while(move |_| {
            let length = rest.try_get_i32().ok()?;
            if length < 0 {
                return Some(None);
            }
            let (value, after) = rest.split_at_checked(length as usize)?;
            rest = after;
            Some(Some(value))
        })
    }
}

/// A connection that is used by one request at a time.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    /// The request.
    out: BytesMut,
    /// The answer as far as it has come.
    input: BytesMut,
    state: State,
    /// How many statements have got a name.
    named: usize,
}

#[derive(Debug)]
enum State {
    Idle,
    /// A request was sent whose answer has not been read to its end.
    Asked,
    /// Why nothing can be sent any more.
    Lost(String),
}

/// Room for the answers of most requests: what does not fit makes the buffer grow once.
const ROOM: usize = 16 * 1024;

impl Wire {
    /// On a stream that has just been let in.
    pub fn new(stream: Stream) -> Wire {
        let (out, input) = (BytesMut::with_capacity(ROOM), BytesMut::with_capacity(ROOM));
        Wire { stream, out, input, state: State::Idle, named: 0 }
    }

    /// Makes a statement known to the server by a name.
    pub async fn prepare(&mut self, text: &str) -> Result<Prepared, Failure> {
        let name = format!("s{}", self.named);
        self.out.clear();
        let written = frontend::parse(&name, text, [], &mut self.out)
            .and_then(|()| frontend::describe(b'S', &name, &mut self.out));
        written.map_err(|error| impossible(&error))?;
        frontend::sync(&mut self.out);
        let mut parameters = 0;
        self.exchange(|tag, mut body| {
            if tag == PARAMETERS {
                parameters = usize::from(body.try_get_u16().unwrap_or(0));
            }
        })
        .await?;
        self.named += 1;
        Ok(Prepared::Named(name.into(), parameters))
    }

    /// Executes a statement; `take` receives its rows as they come. Returns how many rows it returned or
    /// changed, by the server's own count.
    #[inline]
    pub async fn execute<'a, I>(
        &mut self,
        statement: &Prepared,
        parameters: I,
        mut take: impl FnMut(Row<'_>),
    ) -> Result<u32, Failure>
    where
        I: Iterator<Item = Parameter<'a>> + Clone,
    {
        self.out.clear();
        bind(statement, parameters, &mut self.out)?;
        let mut rows = 0;
        self.exchange(|tag, mut body| match tag {
            ROW => {
                let columns = body.try_get_u16().unwrap_or(0);
                take(Row { columns, body });
            }
            COMPLETE => rows = count(body),
            _ => {}
        })
        .await?;
        Ok(rows)
    }

    /// Executes a text without parameters whose rows nobody wants.
    pub async fn simple(&mut self, text: &str) -> Result<(), Failure> {
        self.out.clear();
        frontend::query(text, &mut self.out).map_err(|error| impossible(&error))?;
        self.exchange(|_, _| ()).await
    }

    /// Executes a COPY … FROM STDIN with this data. Returns the number of rows.
    pub async fn copy_in(&mut self, text: &str, data: &[u8]) -> Result<u32, Failure> {
        self.out.clear();
        frontend::query(text, &mut self.out).map_err(|error| impossible(&error))?;
        self.send().await?;
        // Without leave the server says why not, and is ready for something else.
        self.receive(|tag, _| tag == COPY_IN).await?;
        self.out.clear();
        frontend::CopyData::new(data).map_err(|error| impossible(&error))?.write(&mut self.out);
        frontend::copy_done(&mut self.out);
        self.write().await?;
        let mut rows = 0;
        self.receive(|tag, body| {
            if tag == COMPLETE {
                rows = count(body);
            }
            false
        })
        .await?;
        Ok(rows)
    }

    /// Sends what is in `out`, and hands the messages of the answer to `take`.
    #[inline]
    async fn exchange(&mut self, mut take: impl FnMut(u8, &[u8])) -> Result<(), Failure> {
        self.send().await?;
        self.receive(|tag, body| {
            take(tag, body);
            false
        })
        .await
    }

    /// Sends a request, unless the connection is known to be of no use: then nothing is sent.
    #[inline]
    async fn send(&mut self) -> Result<(), Failure> {
        std::future::poll_fn(|cx| {
            self.listen(cx);
            Poll::Ready(())
        })
        .await;
        match &self.state {
            State::Idle => self.state = State::Asked,
            State::Asked => self.state = State::Lost("an answer was not waited for".to_owned()),
            State::Lost(_) => {}
        }
        if let State::Lost(reason) = &self.state {
            return Err(Failure { cause: Cause::Lost(reason.clone()), sent: false });
        }
        self.write().await
    }

    #[inline]
    async fn write(&mut self) -> Result<(), Failure> {
        let written = async {
            self.stream.write_all(&self.out).await?;
            self.stream.flush().await
        };
        written.await.map_err(|error| self.lost(&error))
    }

    /// What the server says unasked. Without news this is no system call: tokio knows that the socket
    /// was read empty.
    #[inline]
    fn listen(&mut self, cx: &mut std::task::Context<'_>) {
        let mut bytes = [0; 64];
        while matches!(self.state, State::Idle) {
            let mut news = ReadBuf::new(&mut bytes);
            let reason = match Pin::new(&mut self.stream).poll_read(cx, &mut news) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) if news.filled().is_empty() => CLOSED.to_owned(),
                Poll::Ready(Ok(())) => {
                    self.input.extend_from_slice(news.filled());
                    match self.unasked() {
                        None => continue,
                        Some(reason) => format!("{CLOSED}: {reason}"),
                    }
                }
                Poll::Ready(Err(error)) => format!("{CLOSED}: {error}"),
            };
            self.state = State::Lost(reason);
        }
    }

    /// Notices and changed settings are no news; an error is the end.
    #[cold]
    fn unasked(&mut self) -> Option<String> {
        loop {
            let (tag, length) = match message(&self.input) {
                Ok(Some(message)) => message,
                Ok(None) => return None,
                Err(error) => return Some(error.to_string()),
            };
            match tag {
                ERROR => return Some(said(&self.input[5..length]).1),
                NOTICE | STATUS | NOTIFICATION => self.input.advance(length),
                _ => return Some("the server said what nobody had asked for".to_owned()),
            }
        }
    }

    /// Reads the answer to its end, or until `enough`.
    #[inline]
    async fn receive(&mut self, mut enough: impl FnMut(u8, &[u8]) -> bool) -> Result<(), Failure> {
        let mut refused = None;
        let broken = loop {
            let (tag, length) = match message(&self.input) {
                Ok(Some(message)) => message,
                Ok(None) => {
                    // For all of a message whose length is known already; most answers fit as they are.
                    self.input.reserve(missing(&self.input));
                    match self.stream.read_buf(&mut self.input).await {
                        Ok(0) => break io::ErrorKind::UnexpectedEof.into(),
                        Ok(_) => continue,
                        Err(error) => break error,
                    }
                }
                Err(error) => break error,
            };
            let body = &self.input[5..length];
            let done = match tag {
                READY => {
                    self.state = State::Idle;
                    true
                }
                ERROR => {
                    refused.get_or_insert_with(|| said(body));
                    false
                }
                tag => enough(tag, body),
            };
            self.input.advance(length);
            if done {
                return refused.map_or(Ok(()), |said| Err(Failure { cause: Cause::Server(said.0, said.1), sent: true }));
            }
        };
        let lost = self.lost(&broken);
        // What the server said last tells more.
        Err(refused.map_or(lost, |said| Failure { cause: Cause::Server(said.0, said.1), sent: true }))
    }

    /// The connection broke with a request under way.
    #[cold]
    fn lost(&mut self, error: &io::Error) -> Failure {
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => CLOSED.to_owned(),
            _ => format!("error communicating with the server: {error}"),
        };
        self.state = State::Lost(reason.clone());
        Failure { cause: Cause::Lost(reason), sent: true }
    }
}

const CLOSED: &str = "connection closed";

const COMPLETE: u8 = b'C';
const COPY_IN: u8 = b'G';
const ERROR: u8 = b'E';
const NOTICE: u8 = b'N';
const NOTIFICATION: u8 = b'A';
const PARAMETERS: u8 = b't';
const READY: u8 = b'Z';
const ROW: u8 = b'D';
const STATUS: u8 = b'S';

/// Longest message that a server can send: values end at 1 GB.
const LONGEST: usize = 1 << 30;

/// Tag and length, tag included, of the message that `input` begins with, if all of it is there.
#[inline]
fn message(input: &[u8]) -> io::Result<Option<(u8, usize)>> {
    let Some(length) = length(input) else { return Ok(None) };
    if !(5..=LONGEST).contains(&length) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not PostgreSQL's protocol"));
    }
    Ok((length <= input.len()).then_some((input[0], length)))
}

/// What the message that `input` begins with says its length is, tag included.
#[inline]
fn length(input: &[u8]) -> Option<usize> {
    let (head, _) = input.split_first_chunk::<5>()?;
    Some(1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize)
}

/// Room to make for what comes next, bytes.
#[inline]
fn missing(input: &[u8]) -> usize {
    length(input).unwrap_or(0).saturating_sub(input.len()).max(ROOM / 2)
}

/// The number at the end of a command's tag: `UPDATE 1`, `INSERT 0 1`, `SELECT 5`; 0 if it has none.
#[inline]
fn count(body: &[u8]) -> u32 {
    let digits = body.strip_suffix(&[0]).unwrap_or(body);
    let start = digits.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |position| position + 1);
    digits[start..].iter().fold(0_u32, |number, digit| number.wrapping_mul(10) + u32::from(digit - b'0'))
}

/// The messages that execute a statement, all its rows at once.
#[inline]
fn bind<'a, I>(statement: &Prepared, parameters: I, out: &mut BytesMut) -> Result<(), Failure>
where
    I: Iterator<Item = Parameter<'a>> + Clone,
{
    let name = match statement {
        Prepared::Named(name, _) => name,
        Prepared::Unnamed(text) => {
            let kinds = parameters.clone().map(|parameter| parameter.kind());
            frontend::parse("", text, kinds, out).map_err(|error| impossible(&error))?;
            ""
        }
    };
    let formats = parameters.clone().map(|parameter| parameter.format());
    let write = |parameter: Parameter<'_>, out: &mut BytesMut| {
        parameter.write(out);
        Ok(IsNull::No)
    };
    // Every column in its binary format, which for text is the text.
    let bound = frontend::bind("", name, formats, parameters, write, [1], out);
    bound.map_err(|error| match error {
        BindError::Conversion(error) => impossible(&*error),
        BindError::Serialization(error) => impossible(&error),
    })?;
    frontend::execute("", 0, out).map_err(|error| impossible(&error))?;
    frontend::sync(out);
    Ok(())
}

/// The protocol has no message for it: too long, too many parameters, or a zero byte in a text.
#[cold]
fn impossible(error: &dyn std::error::Error) -> Failure {
    Failure { cause: Cause::Request(error.to_string()), sent: false }
}

/// SQLSTATE and message of an error: fields of a letter and a text that a zero byte ends.
#[cold]
fn said(body: &[u8]) -> (String, String) {
    let (mut code, mut words) = (String::new(), String::new());
    for field in body.split(|byte| *byte == 0) {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        match field {
            [b'C', value @ ..] => code = text(value),
            [b'M', value @ ..] => words = text(value),
            _ => {}
        }
    }
    (code, words)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::task::Context;

    use super::*;
    use crate::driver::postgres::dial;
    use tokio::io::AsyncWrite;

    /// A server that says the same to every request, in pieces of `piece` bytes.
    struct Script {
        answer: Vec<u8>,
        at: usize,
        piece: usize,
        /// Then it closes the connection.
        ends: bool,
        heard: Arc<Mutex<Vec<u8>>>,
    }

    impl AsyncRead for Script {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let end = self.answer.len().min(self.at + self.piece).min(self.at + buffer.remaining());
            if self.at == end {
                return if self.ends { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            buffer.put_slice(&self.answer[self.at..end]);
            self.at = end;
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Script {
        fn poll_write(mut self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.heard.lock().unwrap().extend_from_slice(bytes);
            self.at = 0;
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl dial::Bytes for Script {}

    type Heard = Arc<Mutex<Vec<u8>>>;

    fn wire(answer: &[u8], piece: usize, ends: bool) -> (Wire, Heard) {
        let heard = Heard::default();
        let script = Script { answer: answer.to_vec(), at: answer.len(), piece, ends, heard: Arc::clone(&heard) };
        (Wire::new(Box::new(script)), heard)
    }

    /// A future that has to be ready at once.
    fn now<T>(future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        match future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn named(name: &str) -> Prepared {
        Prepared::Named(name.into(), 1)
    }

    /// BindComplete, two rows (`ab` and null, an empty text and `c`), CommandComplete, ReadyForQuery.
    const TWO_ROWS: &[u8] = b"2\0\0\0\x04\
        D\0\0\0\x10\0\x02\0\0\0\x02ab\xff\xff\xff\xff\
        D\0\0\0\x0f\0\x02\0\0\0\0\0\0\0\x01c\
        C\0\0\0\x0dSELECT 2\0Z\0\0\0\x05I";
    /// A unique violation, ReadyForQuery.
    const REFUSED: &[u8] = b"E\0\0\0\x22SERROR\0VERROR\0C23505\0Mdouble\0\0Z\0\0\0\x05I";
    /// A server that goes down says this, and closes the connection.
    const GOING_DOWN: &[u8] = b"E\0\0\0\x18SFATAL\0C57P01\0Mbye\0\0";

    fn key() -> impl Iterator<Item = Parameter<'static>> + Clone {
        [Parameter::Text(b"user1"), Parameter::Count(7)].into_iter()
    }

    #[test]
    fn a_request_is_three_messages_of_the_operations_own_bytes() {
        let (mut wire, heard) = wire(TWO_ROWS, 999, false);
        assert_eq!(now(wire.execute(&named("s0"), key(), |_| ())).unwrap(), 2);
        let bind = b"B\0\0\0\x29\0s0\0\0\x02\0\x01\0\x01\0\x02\0\0\0\x05user1\0\0\0\x08\0\0\0\0\0\0\0\x07\0\x01\0\x01";
        let rest = b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        assert_eq!(*heard.lock().unwrap(), [&bind[..], rest].concat());
    }

    #[test]
    fn without_a_name_the_text_and_its_types_come_first() {
        let (mut wire, heard) = wire(TWO_ROWS, 999, false);
        now(wire.execute(&Prepared::Unnamed("SELECT".into()), key(), |_| ())).unwrap();
        let parse = b"P\0\0\0\x16\0SELECT\0\0\x02\0\0\0\x19\0\0\0\x14B";
        assert!(heard.lock().unwrap().starts_with(parse));
    }

    #[test]
    fn rows_are_the_same_in_whatever_pieces_they_come() {
        for piece in 1..=TWO_ROWS.len() {
            let (mut wire, _) = wire(TWO_ROWS, piece, false);
            for _ in 0..3 {
                let mut rows = Vec::new();
                let take = |row: Row<'_>| {
                    rows.push(row.values().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>());
                };
                assert_eq!(now(wire.execute(&named("s0"), key(), take)).unwrap(), 2);
                let expected = [[Some(b"ab".to_vec()), None], [Some(vec![]), Some(b"c".to_vec())]];
                assert_eq!(rows, expected, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_refusal_is_the_servers_and_does_not_end_the_wire() {
        for piece in [1, 999] {
            let (mut wire, _) = wire(REFUSED, piece, false);
            for _ in 0..2 {
                let failure = now(wire.execute(&named("s0"), key(), |_| ())).unwrap_err();
                assert!(failure.sent);
                let Cause::Server(code, words) = failure.cause else { panic!("{failure:?}") };
                assert_eq!((code.as_str(), words.as_str()), ("23505", "double"));
            }
        }
    }

    #[test]
    fn what_the_server_said_last_tells_more_than_its_silence() {
        let (mut wire, _) = wire(GOING_DOWN, 999, true);
        wire.state = State::Asked;
        wire.input.extend_from_slice(GOING_DOWN);
        let failure = now(wire.receive(|_, _| false)).unwrap_err();
        assert!(matches!(failure.cause, Cause::Server(code, _) if code == "57P01"));
        assert!(matches!(wire.state, State::Lost(_)));
    }

    #[test]
    fn nothing_is_sent_where_nobody_listens_any_more() {
        for (unasked, reason) in [(GOING_DOWN, "connection closed: bye"), (b"", "connection closed")] {
            let heard = Heard::default();
            let answer = unasked.to_vec();
            let script = Script { answer, at: 0, piece: 3, ends: true, heard: Arc::clone(&heard) };
            let mut wire = Wire::new(Box::new(script));
            for _ in 0..2 {
                let failure = now(wire.execute(&named("s0"), key(), |_| ())).unwrap_err();
                assert!(!failure.sent, "so that a write is not ambiguous");
                assert!(matches!(&failure.cause, Cause::Lost(words) if words == reason), "{failure:?}");
            }
            assert!(heard.lock().unwrap().is_empty());
        }
    }

    #[test]
    fn a_notice_is_no_news() {
        let (mut wire, _) = wire(TWO_ROWS, 999, false);
        wire.input.extend_from_slice(b"N\0\0\0\x05\0S\0\0\0\x08a\0b\0");
        assert!(wire.unasked().is_none());
        assert_eq!(now(wire.execute(&named("s0"), key(), |_| ())).unwrap(), 2);
    }

    #[test]
    fn an_answer_that_was_not_waited_for_ends_the_wire() {
        let (mut wire, heard) = wire(&TWO_ROWS[..20], 999, false);
        {
            let statement = named("s0");
            let mut request = std::pin::pin!(wire.execute(&statement, key(), |_| ()));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(request.as_mut().poll(&mut cx).is_pending());
        }
        heard.lock().unwrap().clear();
        let failure = now(wire.execute(&named("s0"), key(), |_| ())).unwrap_err();
        assert!(!failure.sent && matches!(failure.cause, Cause::Lost(_)));
        assert!(heard.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_not_this_protocol_is_an_error_and_no_endless_wait() {
        for noise in [&b"H\0\0\0\0HTTP"[..], b"HTTP/1.1 400 Bad Request"] {
            let (mut wire, _) = wire(noise, 999, false);
            let failure = now(wire.execute(&named("s0"), key(), |_| ())).unwrap_err();
            assert!(matches!(&failure.cause, Cause::Lost(words) if words.contains("not PostgreSQL's protocol")));
        }
    }

    #[test]
    fn a_request_allocates_nothing() {
        let (mut wire, heard) = wire(TWO_ROWS, 999, false);
        let statement = named("s0");
        let mut ask = || {
            heard.lock().unwrap().clear();
            let rows = now(wire.execute(&statement, key(), |row| assert_eq!(row.values().count(), 2)));
            assert_eq!(rows.unwrap(), 2);
        };
        ask();
        let used = allocation_counter::measure(|| (0..100).for_each(|_| ask()));
        assert_eq!(used.count_total, 0);
    }
}
