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
