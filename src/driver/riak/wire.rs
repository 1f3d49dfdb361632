//! Riak's protocol-buffers interface, as far as this driver speaks it: frames of a 4-byte big-endian
//! length, a code and a message, one request at a time. Fields and codes are those of Basho's
//! `riak_pb`. Written by hand: it is a hundred lines, and a generator would need a build step.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Message codes.
pub mod code {
    pub const ERROR: u8 = 0;
    pub const SERVER_INFO: u8 = 7;
    pub const SERVER_INFO_IS: u8 = 8;
    pub const GET: u8 = 9;
    pub const GOT: u8 = 10;
    pub const PUT: u8 = 11;
    pub const PUT_DONE: u8 = 12;
    pub const DELETE: u8 = 13;
    pub const DELETED: u8 = 14;
    pub const LIST_KEYS: u8 = 17;
    pub const KEYS: u8 = 18;
    pub const BUCKET: u8 = 19;
    pub const BUCKET_IS: u8 = 20;
    pub const INDEX: u8 = 25;
    pub const INDEXED: u8 = 26;
    pub const AUTH: u8 = 253;
    pub const AUTHENTICATED: u8 = 254;
    pub const START_TLS: u8 = 255;
}

/// Larger than any object Riak can hold, and than any sensible answer.
const LONGEST_FRAME: usize = 256 << 20;

/// A message under construction.
#[derive(Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    pub fn new() -> Message {
        Message::default()
    }

    /// Empties it, keeping its memory.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A field of bytes, text or a message.
    #[inline]
    pub fn bytes(&mut self, field: u32, value: &[u8]) -> &mut Message {
        self.varint(u64::from(field << 3 | 2));
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// A field of a number or a truth value.
    #[inline]
    pub fn number(&mut self, field: u32, value: u64) -> &mut Message {
        self.varint(u64::from(field << 3));
        self.varint(value);
        self
    }
}

/// A field of a message that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Number(_) => &[],
        }
    }

    pub fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) => 0,
        }
    }
}

/// The fields of a message, in its order. One that cannot be read ends it.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
    torn: bool,
}

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message, torn: false }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = self.varint()?;
        let number = (tag >> 3) as u32;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(usize::try_from(length).ok()?)?)
            }
            5 => Value::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((number, value))
    }

    /// The first value of a field, or an empty one.
    pub fn first(mut self, number: u32) -> Value<'a> {
        self.find(|field| field.0 == number).map_or(Value::Bytes(&[]), |field| field.1)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u32, Value<'a>)> {
        if self.rest.is_empty() || self.torn {
            return None;
        }
        let field = self.field();
        self.torn = field.is_none();
        field
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Riak's words.
    Said(String),
    /// The connection, in words.
    Broken(String),
    /// Nothing came in time.
    Late(Duration),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Broken(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the node closed the connection".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// What frames travel on.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection to a node.
pub struct Connection {
    pub stream: Box<dyn Stream>,
    out: Vec<u8>,
    /// What has come; a frame is in `begin..end`.
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Bytes of the buffer that have come.
    filled: usize,
    limit: Duration,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    pub fn new(stream: Box<dyn Stream>, limit: Duration) -> Connection {
        Connection {
            stream,
            out: Vec::new(),
            buffer: vec![0; 16 * 1024],
            begin: 0,
            end: 0,
            filled: 0,
            limit,
        }
    }

    /// Sends a request and waits for the first frame of its answer, which must have this code. The
    /// answer is in [`Connection::answer`].
    #[inline]
    pub async fn ask(&mut self, request: u8, message: &[u8], expected: u8) -> Result<(), Trouble> {
        self.out.clear();
        self.out.extend_from_slice(&(message.len() as u32 + 1).to_be_bytes());
        self.out.push(request);
        self.out.extend_from_slice(message);
        self.begin = 0;
        self.end = 0;
        self.filled = 0;
        let limit = self.limit;
        let talk = async {
            self.stream.write_all(&self.out).await?;
            self.stream.flush().await?;
            self.receive(expected).await
        };
        tokio::time::timeout(limit, talk).await.unwrap_or(Err(Trouble::Late(limit)))
    }

    /// Waits for one more frame of the answer.
    pub async fn more(&mut self, expected: u8) -> Result<(), Trouble> {
        let limit = self.limit;
        tokio::time::timeout(limit, self.receive(expected)).await.unwrap_or(Err(Trouble::Late(limit)))
    }

    async fn receive(&mut self, expected: u8) -> Result<(), Trouble> {
        // What follows the last frame belongs to the next.
        self.buffer.copy_within(self.end..self.filled, 0);
        self.filled -= self.end;
        self.begin = 0;
        self.end = 0;
        self.fill(5).await?;
        let length = u32::from_be_bytes(self.buffer[..4].try_into().expect("4 bytes")) as usize;
        if length == 0 || length > LONGEST_FRAME {
            return Err(Trouble::Broken("what came is not Riak's protocol".to_owned()));
        }
        self.fill(4 + length).await?;
        (self.begin, self.end) = (5, 4 + length);
        match self.buffer[4] {
            code if code == expected => Ok(()),
            code::ERROR => {
                let words = Fields::of(self.answer()).first(1).bytes();
                Err(Trouble::Said(String::from_utf8_lossy(words).into_owned()))
            }
            code => Err(Trouble::Broken(format!("an answer of kind {code} came, not {expected}"))),
        }
    }

    /// Reads until `needed` bytes are there.
    async fn fill(&mut self, needed: usize) -> Result<(), Trouble> {
        if self.buffer.len() < needed {
            self.buffer.resize(needed.next_power_of_two(), 0);
        }
        while self.filled < needed {
            let count = self.stream.read(&mut self.buffer[self.filled..]).await?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.filled += count;
        }
        Ok(())
    }

    /// The message of the frame that came last.
    #[inline]
    pub fn answer(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_as_it_was_written() {
        let mut message = Message::new();
        message.bytes(1, b"bucket").number(3, 300).bytes(16, b"").number(7, 1);
        assert_eq!(message.as_bytes()[..9], *b"\x0a\x06bucket\x18");
        let fields: Vec<_> = Fields::of(message.as_bytes()).collect();
        assert_eq!(
            fields,
            [
                (1, Value::Bytes(b"bucket")),
                (3, Value::Number(300)),
                (16, Value::Bytes(b"")),
                (7, Value::Number(1))
            ]
        );
        // A torn message ends where it is torn.
        let torn = &message.as_bytes()[..5];
        assert_eq!(Fields::of(torn).count(), 0);
    }

    /// What a real node was asked and what it answered: frames in both directions.
    fn documented(name: &str) -> (Vec<u8>, Vec<u8>) {
        let text = include_str!("../../../tests/golden/riak/documented.txt");
        let lines = text.lines().skip_while(|line| *line != name).skip(1);
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        for line in lines.take_while(|line| line.starts_with(['>', '<'])) {
            let digits: String = line[1..].split_whitespace().collect();
            let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
            if line.starts_with('>') { asked.extend(bytes) } else { answered.extend(bytes) }
        }
        assert!(!asked.is_empty() && !answered.is_empty(), "{name}");
        (asked, answered)
    }

    /// A connection to whoever answers as the documented node did, if it is asked the same.
    fn node(name: &str) -> (Connection, tokio::task::JoinHandle<()>) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let (asked, answered) = documented(name);
        let name = name.to_owned();
        let node = tokio::spawn(async move {
            let mut came = vec![0; asked.len()];
            theirs.read_exact(&mut came).await.expect("a request");
            assert_eq!(came, asked, "{name}");
            theirs.write_all(&answered).await.expect("it listens");
        });
        (Connection::new(Box::new(ours), Duration::from_secs(5)), node)
    }

    #[tokio::test]
    async fn requests_and_answers_are_those_that_basho_documented() {
        let (mut connection, node) = self::node("server info");
        connection.ask(code::SERVER_INFO, &[], code::SERVER_INFO_IS).await.unwrap();
        let fields = Fields::of(connection.answer());
        assert_eq!(fields.clone().first(1).bytes(), b"riak@127.0.0.1");
        assert_eq!(fields.first(2).bytes(), b"0.10");
        node.await.unwrap();

        let (mut connection, node) = self::node("fetch");
        let mut request = Message::new();
        request.bytes(1, b"b").bytes(2, b"k");
        connection.ask(code::GET, request.as_bytes(), code::GOT).await.unwrap();
        let answer = Fields::of(connection.answer());
        let content = Fields::of(answer.clone().first(1).bytes());
        assert_eq!(content.clone().first(1).bytes(), b"v2");
        assert_eq!(content.clone().first(5).bytes(), b"3SDlf4INKz8hNdhyImKIru");
        assert_eq!((content.clone().first(7).number(), content.first(8).number()), (1_271_442_363, 105_696));
        let vclock = answer.first(2).bytes();
        assert!(vclock.len() == 31 && vclock.starts_with(b"k\xcea```"), "{vclock:?}");
        node.await.unwrap();

        let (mut connection, node) = self::node("store");
        let mut content = Message::new();
        content.bytes(1, b"{\"foo\":\"bar\"}");
        request.clear();
        request.bytes(1, b"b").bytes(2, b"k").bytes(4, content.as_bytes()).number(5, 2).number(7, 1);
        connection.ask(code::PUT, request.as_bytes(), code::PUT_DONE).await.unwrap();
        let stored = Fields::of(Fields::of(connection.answer()).first(1).bytes());
        assert_eq!(stored.clone().first(1).bytes(), b"{\"foo\":\"bar\"}");
        assert_eq!((stored.clone().first(7).number(), stored.first(8).number()), (1_271_453_743, 406_416));
        node.await.unwrap();

        let (mut connection, node) = self::node("delete");
        request.clear();
        request.bytes(1, b"notabucket").bytes(2, b"k").number(3, 1);
        connection.ask(code::DELETE, request.as_bytes(), code::DELETED).await.unwrap();
        assert_eq!(connection.answer(), b"");
        node.await.unwrap();

        // An answer in three frames, which may all have come at once.
        let (mut connection, node) = self::node("list keys");
        request.clear();
        request.bytes(1, b"listkeys");
        connection.ask(code::LIST_KEYS, request.as_bytes(), code::KEYS).await.unwrap();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let answer = Fields::of(connection.answer());
            keys.extend(answer.clone().filter(|field| field.0 == 1).map(|field| field.1.bytes().to_vec()));
            if answer.first(2).number() == 1 {
                break;
            }
            connection.more(code::KEYS).await.unwrap();
        }
        assert_eq!(keys, [&b"4"[..], b"10", b"3"]);
        node.await.unwrap();

        let (mut connection, node) = self::node("index");
        request.clear();
        request.bytes(1, b"farm").bytes(2, b"animal_bin").number(3, 0).bytes(4, b"chicken");
        connection.ask(code::INDEX, request.as_bytes(), code::INDEXED).await.unwrap();
        let keys: Vec<_> = Fields::of(connection.answer()).map(|field| field.1.bytes()).collect();
        assert_eq!(keys, [&b"hen"[..], b"rooster"]);
        node.await.unwrap();
    }
}
