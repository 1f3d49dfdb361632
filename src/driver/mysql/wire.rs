//! MySQL's protocol on one connection, as far as this driver speaks it: prepared statements, plain
//! statements and their answers. Requests are written from the caller's slices into one buffer that is
//! reused, answers are read into another and handed on as slices of it.
//!
//! The library's own client costs 12,000 instructions for a row of ten values (a vector for each value, one
//! for each packet, a row, a list of parameters, some twenty allocations); here an operation allocates
//! nothing and copies each value once, in the buffer's `write`. What is not hot is the library's: packets
//! of the login, constants, scrambled passwords (`handshake`).
//!
//! The protocol: a packet is a length of 3 bytes, a number that counts the packets of a request and its
//! answer, and a payload; one of 16 MB - 1 is continued in the next. An answer is OK, an error, or columns
//! and rows: a count, a definition of each column, rows, and an end that looks like OK. MariaDB leaves the
//! definitions of a prepared statement out if they are those that it told before
//! (`MARIADB_CLIENT_CACHE_METADATA`).

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::task::{Context, Waker};

use mysql_common::constants::{CapabilityFlags, ColumnFlags, ColumnType, Command, StatusFlags};
use thiserror::Error;

use super::stream::Stream;

/// A packet with as much as this is continued in the next.
const LONGEST: usize = 0xff_ff_ff;

/// Bytes in front of a payload.
const HEADER: usize = 4;

/// Room for most answers, so that one read takes all of it.
const ROOM: usize = 32 << 10;

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug, Error)]
pub enum Error {
    /// The server's own words. The connection is as good as before.
    #[error("{message}")]
    Server { code: u16, state: String, message: String },
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the server closed the connection")]
    Closed,
    /// Nothing was sent, and the connection is as good as before.
    #[error("a request of {bytes} bytes is larger than max_allowed_packet, {limit}")]
    TooLarge { bytes: usize, limit: usize },
    /// What came is not the protocol, as far as it is known here.
    #[error("{0}")]
    Answer(&'static str),
    #[error("the server cannot encrypt connections")]
    NoEncryption,
    /// Something of ours that encryption needs is not as it should be.
    #[error("{0}")]
    Encryption(String),
    /// The server asks for what this client cannot do.
    #[error("{0}")]
    Login(String),
}

/// What a statement is given.
#[derive(Debug, Clone, Copy)]
pub enum Parameter<'a> {
    Bytes(&'a [u8]),
    Int(i64),
    Unsigned(u64),
}

impl Parameter<'_> {
    /// Its type as the protocol says it.
    #[inline]
    const fn kind(self) -> [u8; 2] {
        match self {
            Parameter::Bytes(_) => [ColumnType::MYSQL_TYPE_VAR_STRING as u8, 0],
            Parameter::Int(_) => [ColumnType::MYSQL_TYPE_LONGLONG as u8, 0],
            Parameter::Unsigned(_) => [ColumnType::MYSQL_TYPE_LONGLONG as u8, 0x80],
        }
    }

    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Parameter::Bytes(bytes) => {
                write_length(out, bytes.len());
                out.extend_from_slice(bytes);
            }
            Parameter::Int(number) => out.extend_from_slice(&number.to_le_bytes()),
            Parameter::Unsigned(number) => out.extend_from_slice(&number.to_le_bytes()),
        }
    }
}

#[inline]
fn write_length(out: &mut Vec<u8>, length: usize) {
    let bytes = (length as u64).to_le_bytes();
    match length {
        ..=0xfa => out.push(bytes[0]),
        0xfb..0x1_0000 => out.extend_from_slice(&[0xfc, bytes[0], bytes[1]]),
        0x1_0000..0x100_0000 => out.extend_from_slice(&[0xfd, bytes[0], bytes[1], bytes[2]]),
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Takes so many bytes from the front.
#[inline]
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(taken)
}

/// Takes a number of the length that its first byte says.
#[inline]
fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (&first, tail) = rest.split_first()?;
    *rest = tail;
    let count = match first {
        ..=0xfa => return Some(u64::from(first)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let mut bytes = [0; 8];
    bytes[..count].copy_from_slice(take(rest, count)?);
    Some(u64::from_le_bytes(bytes))
}

/// Takes bytes with their length in front.
#[inline]
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_number(rest)?;
    take(rest, usize::try_from(length).ok()?)
}

/// How the values of a column are written in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Text, blobs, decimals: a length, and that many bytes.
    Bytes,
    /// A number of so many bytes.
    Int { bytes: u8, unsigned: bool },
    /// Something of so many bytes that nobody asks for.
    Skipped(u8),
    /// A time: a length in one byte, and that many bytes.
    Time,
}

impl Kind {
    /// By the definition of a column: its last 13 bytes are of fixed length, the six names before are not.
    fn of(definition: &[u8]) -> Option<Kind> {
        use ColumnType as Type;
        let fixed = definition.last_chunk::<13>().filter(|fixed| fixed[0] == 12)?;
        let flags = ColumnFlags::from_bits_truncate(u16::from_le_bytes([fixed[8], fixed[9]]));
        let int = |bytes| Kind::Int { bytes, unsigned: flags.contains(ColumnFlags::UNSIGNED_FLAG) };
        Some(match Type::try_from(fixed[7]).ok()? {
            Type::MYSQL_TYPE_TINY => int(1),
            Type::MYSQL_TYPE_SHORT | Type::MYSQL_TYPE_YEAR => int(2),
            Type::MYSQL_TYPE_LONG | Type::MYSQL_TYPE_INT24 => int(4),
            Type::MYSQL_TYPE_LONGLONG => int(8),
            Type::MYSQL_TYPE_FLOAT => Kind::Skipped(4),
            Type::MYSQL_TYPE_DOUBLE => Kind::Skipped(8),
            Type::MYSQL_TYPE_NULL => Kind::Skipped(0),
            Type::MYSQL_TYPE_TIMESTAMP
            | Type::MYSQL_TYPE_DATE
            | Type::MYSQL_TYPE_NEWDATE
            | Type::MYSQL_TYPE_DATETIME
            | Type::MYSQL_TYPE_TIME => Kind::Time,
            _ => Kind::Bytes,
        })
    }
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// SQL's null; also a number with a fraction, a time, and a number above an `i64`: nobody compares those.
    Null,
    Bytes(&'a [u8]),
    Int(i64),
}

impl<'a> Value<'a> {
    /// Text, or nothing.
    #[inline]
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::Int(_) => None,
        }
    }
}

/// The values of a row, in its order. After the last, and where it is torn, there are no more.
#[derive(Debug)]
pub struct Row<'a> {
    rest: &'a [u8],
    /// Of a prepared statement: how each column is written, and a bit for each null.
    columns: Option<(&'a [Kind], &'a [u8])>,
    position: usize,
    torn: bool,
}

impl<'a> Row<'a> {
    /// A row of a prepared statement.
    #[inline]
    fn binary(packet: &'a [u8], columns: &'a [Kind]) -> Option<Row<'a>> {
        let mut rest = packet.get(1..)?;
        // The first two bits of the nulls mean nothing.
        let nulls = take(&mut rest, (columns.len() + 9) / 8)?;
        Some(Row { rest, columns: Some((columns, nulls)), position: 0, torn: false })
    }

    /// A row of a plain statement: everything is text.
    fn text(packet: &'a [u8]) -> Row<'a> {
        Row { rest: packet, columns: None, position: 0, torn: false }
    }

    #[inline]
    fn value(&mut self) -> Option<Value<'a>> {
        let Some((columns, nulls)) = self.columns else {
            if self.rest[0] == 0xfb {
                self.rest = &self.rest[1..];
                return Some(Value::Null);
            }
            return take_bytes(&mut self.rest).map(Value::Bytes);
        };
        let bit = self.position + 2;
        if nulls[bit / 8] & (1 << (bit % 8)) != 0 {
            return Some(Value::Null);
        }
        let skip = match columns[self.position] {
            Kind::Bytes => return take_bytes(&mut self.rest).map(Value::Bytes),
            Kind::Int { bytes, unsigned } => {
                let taken = take(&mut self.rest, usize::from(bytes))?;
                let negative = !unsigned && taken[taken.len() - 1] & 0x80 != 0;
                let mut number = [if negative { 0xff } else { 0 }; 8];
                number[..taken.len()].copy_from_slice(taken);
                let number = i64::from_le_bytes(number);
                return Some(if unsigned && number < 0 { Value::Null } else { Value::Int(number) });
            }
            Kind::Skipped(bytes) => bytes,
            Kind::Time => take(&mut self.rest, 1)?[0],
        };
        take(&mut self.rest, usize::from(skip))?;
        Some(Value::Null)
    }
}

impl<'a> Iterator for Row<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        let more = match self.columns {
            Some((columns, _)) => self.position < columns.len(),
            None => !self.rest.is_empty(),
        };
        if !more || self.torn {
            return None;
        }
        let value = self.value();
        self.torn = value.is_none();
        self.position += 1;
        value
    }
}

/// A statement that this connection has prepared: its place in [`Conn::prepared`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement(usize);

/// What is known of it.
#[derive(Debug)]
struct Prepared {
    /// The server's number.
    number: u32,
    /// How many parameters it takes.
    takes: usize,
    columns: Vec<Kind>,
    /// The types of the parameters that the server knows; none if it has to be told.
    types: Vec<[u8; 2]>,
}

/// Where in an answer we are.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Before OK, an error or a count of columns.
    First,
    /// So many definitions of columns are still to come.
    Columns(usize),
    /// The end of the definitions, of servers that mark it.
    EndOfColumns,
    Rows,
}

/// A connection.
pub struct Conn {
    pub stream: Stream,
    /// A request under construction.
    out: Vec<u8>,
    /// What has come, and how much of it is read already.
    input: Vec<u8>,
    begin: usize,
    filled: usize,
    /// So many bytes from `begin` on have to be there before there is a packet.
    wanted: usize,
    /// The number of the next packet.
    sequence: u8,
    /// A request is under way. Also after one that was given up or has broken: what comes next would
    /// belong to it, so that there can be no other one.
    busy: bool,
    /// Something of the last request was sent.
    sent: bool,
    affected: u64,
    prepared: Vec<Prepared>,
    /// The server's number of this connection.
    pub id: u32,
    /// What was agreed on.
    pub capabilities: CapabilityFlags,
    /// An answer says whether the definitions of its columns are in it.
    pub caches_columns: bool,
    /// The longest payload that the server takes.
    pub longest_request: usize,
}

impl Conn {
    /// One that has just been opened: the server begins.
    pub fn new(stream: Stream) -> Conn {
        Conn {
            stream,
            out: Vec::new(),
            input: vec![0; ROOM],
            begin: 0,
            filled: 0,
            wanted: HEADER,
            sequence: 0,
            busy: true,
            sent: false,
            affected: 0,
            prepared: Vec::new(),
            id: 0,
            capabilities: CapabilityFlags::empty(),
            caches_columns: false,
            longest_request: mysql_common::constants::DEFAULT_MAX_ALLOWED_PACKET,
        }
    }

    /// Has anything of the last request been sent? If not, it has had no effect.
    #[inline]
    pub fn sent(&self) -> bool {
        self.sent
    }

    /// Executes a prepared statement; answers the number of rows that it changed.
    #[inline]
    pub async fn execute<'p>(
        &mut self,
        statement: Statement,
        parameters: impl Iterator<Item = Parameter<'p>> + Clone,
        on_row: impl FnMut(&mut Row<'_>),
    ) -> Result<u64, Error> {
        self.begin()?;
        self.write_execute(statement, parameters)?;
        self.send().await?;
        self.answer(Some(statement), on_row).await
    }

    /// Executes a statement; answers the number of rows that it changed.
    pub async fn query(&mut self, text: &str, on_row: impl FnMut(&mut Row<'_>)) -> Result<u64, Error> {
        self.command(Command::COM_QUERY, text).await?;
        self.answer(None, on_row).await
    }

    /// Executes a statement whose rows nobody wants.
    pub async fn run(&mut self, text: &str) -> Result<(), Error> {
        self.query(text, |_| ()).await.map(drop)
    }

    /// Executes a statement; answers the values of every row as text, a null as an empty one.
    pub async fn ask(&mut self, text: &str) -> Result<Vec<Vec<String>>, Error> {
        let mut rows = Vec::new();
        let text_of = |value: Value<'_>| {
            value.bytes().map_or_else(String::new, |bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        self.query(text, |row| rows.push(row.map(text_of).collect())).await?;
        Ok(rows)
    }

    /// Executes a statement; answers the first value of its first row as text.
    pub async fn ask_one(&mut self, text: &str) -> Result<Option<String>, Error> {
        let rows = self.ask(text).await?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()))
    }

    /// Prepares a statement.
    pub async fn prepare(&mut self, text: &str) -> Result<Statement, Error> {
        self.command(Command::COM_STMT_PREPARE, text).await?;
        let packet = self.packet().await?;
        let [0, n0, n1, n2, n3, c0, c1, p0, p1, ..] = self.input[packet.clone()] else {
            return Err(self.no_answer(packet));
        };
        let takes = usize::from(u16::from_le_bytes([p0, p1]));
        let count = usize::from(u16::from_le_bytes([c0, c1]));
        self.skip(takes, |_| ()).await?;
        let mut columns = Vec::with_capacity(count);
        self.skip(count, |definition| columns.extend(Kind::of(definition))).await?;
        if columns.len() != count {
            return Err(Error::Answer("the type of a column is unknown"));
        }
        self.busy = false;
        let number = u32::from_le_bytes([n0, n1, n2, n3]);
        self.prepared.push(Prepared { number, takes, columns, types: Vec::new() });
        Ok(Statement(self.prepared.len() - 1))
    }

    /// The server forgets the statement; it is told with the next request.
    pub fn close(&mut self, statement: Statement) {
        if self.busy {
            return;
        }
        let from = self.out.len();
        self.out.extend_from_slice(&[0; HEADER]);
        self.out.push(Command::COM_STMT_CLOSE as u8);
        self.out.extend_from_slice(&self.prepared[statement.0].number.to_le_bytes());
        self.out[from] = (self.out.len() - from - HEADER) as u8;
    }

    /// Reads definitions of columns, and the mark behind them.
    async fn skip(&mut self, count: usize, mut each: impl FnMut(&[u8])) -> Result<(), Error> {
        for _ in 0..count {
            let packet = self.packet().await?;
            each(&self.input[packet]);
        }
        if count > 0 && !self.capabilities.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF) {
            self.packet().await?;
        }
        Ok(())
    }

    async fn command(&mut self, command: Command, text: &str) -> Result<(), Error> {
        self.begin()?;
        let from = self.out.len();
        self.out.extend_from_slice(&[0; HEADER]);
        self.out.push(command as u8);
        self.out.extend_from_slice(text.as_bytes());
        self.finish(from)?;
        self.send().await
    }

    /// Begins a request, unless the connection is known to have ended: then nothing is sent.
    #[inline]
    fn begin(&mut self) -> Result<(), Error> {
        self.sent = false;
        if self.busy {
            return Err(Error::Closed);
        }
        self.busy = true;
        if self.begin != self.filled {
            return Err(Error::Answer("the last answer has not ended where it should"));
        }
        (self.begin, self.filled, self.sequence) = (0, 0, 0);
        match self.stream.read_now(&mut self.input) {
            None => Ok(()),
            Some(read) => Err(self.unasked(read)),
        }
    }

    /// A server that closes a connection may say why, and nobody has asked.
    #[cold]
    fn unasked(&mut self, read: io::Result<usize>) -> Error {
        match read {
            Ok(0) => return Error::Closed,
            Ok(count) => self.filled = count,
            Err(error) => return error.into(),
        }
        let said = match self.next_packet() {
            Ok(Some(packet)) => server_error(&self.input[packet]),
            _ => None,
        };
        // Whatever it is, it is the connection's last word: it stays busy.
        said.unwrap_or(Error::Answer("the server speaks without being asked"))
    }

    #[inline]
    fn write_execute<'p>(
        &mut self,
        statement: Statement,
        parameters: impl Iterator<Item = Parameter<'p>> + Clone,
    ) -> Result<(), Error> {
        let Conn { out, prepared, .. } = self;
        let Prepared { number, takes, types, .. } = &mut prepared[statement.0];
        let from = out.len();
        let [n0, n1, n2, n3] = number.to_le_bytes();
        // No cursor, once.
        let head = [0, 0, 0, 0, Command::COM_STMT_EXECUTE as u8, n0, n1, n2, n3, 0, 1, 0, 0, 0];
        out.extend_from_slice(&head);
        if *takes > 0 {
            // None is null.
            out.resize(out.len() + takes.div_ceil(8), 0);
            let told_at = out.len();
            out.push(0);
            let mut known = types.iter();
            let as_known = parameters.clone().all(|parameter| {
                let same = known.next() == Some(&parameter.kind());
                if same {
                    parameter.write(out);
                }
                same
            });
            if !as_known || known.next().is_some() || types.is_empty() {
                // For the first time, or other ones than before: the server is told the types.
                out.truncate(told_at);
                out.push(1);
                types.clear();
                types.extend(parameters.clone().map(Parameter::kind));
                out.extend_from_slice(types.as_flattened());
                parameters.for_each(|parameter| parameter.write(out));
            }
        }
        if types.len() != *takes {
            types.clear();
            out.truncate(from);
            self.busy = false;
            return Err(Error::Answer("the statement takes another number of parameters"));
        }
        let finished = self.finish(from);
        if finished.is_err() {
            self.prepared[statement.0].types.clear();
        }
        finished
    }

    /// Writes the header of the packet that begins at `from`.
    #[inline]
    fn finish(&mut self, from: usize) -> Result<(), Error> {
        let bytes = self.out.len() - from - HEADER;
        if bytes > self.longest_request {
            self.out.truncate(from);
            self.busy = false;
            return Err(Error::TooLarge { bytes, limit: self.longest_request });
        }
        if bytes >= LONGEST {
            self.split(from);
            return Ok(());
        }
        self.out[from..from + HEADER].copy_from_slice(&header(bytes, self.sequence));
        self.sequence = self.sequence.wrapping_add(1);
        Ok(())
    }

    /// Writes what is too long for one packet as several. The last is shorter than the longest, if need be
    /// empty.
    #[cold]
    fn split(&mut self, from: usize) {
        let payload = self.out.split_off(from + HEADER);
        self.out.truncate(from);
        for begin in (0..=payload.len()).step_by(LONGEST) {
            let part = &payload[begin..payload.len().min(begin + LONGEST)];
            self.out.extend_from_slice(&header(part.len(), self.sequence));
            self.out.extend_from_slice(part);
            self.sequence = self.sequence.wrapping_add(1);
        }
    }

    /// Sends a packet of the login, where packets are numbered on.
    pub async fn send_packet(&mut self, payload: &[u8]) -> Result<(), Error> {
        let from = self.out.len();
        self.out.extend_from_slice(&[0; HEADER]);
        self.out.extend_from_slice(payload);
        self.finish(from)?;
        self.send().await
    }

    #[inline]
    async fn send(&mut self) -> Result<(), Error> {
        let mut written = 0;
        while written < self.out.len() {
            let Conn { stream, out, .. } = self;
            let count = poll_fn(|cx| stream.poll_write(cx, &out[written..])).await?;
            if count == 0 {
                return Err(Error::Closed);
            }
            self.sent = true;
            written += count;
        }
        poll_fn(|cx| self.stream.poll_flush(cx)).await?;
        self.out.clear();
        Ok(())
    }

    /// Reads an answer to its end. Of several results, only the first one's rows are handed on.
    #[inline]
    async fn answer(
        &mut self,
        statement: Option<Statement>,
        mut on_row: impl FnMut(&mut Row<'_>),
    ) -> Result<u64, Error> {
        self.affected = 0;
        let (mut state, mut first_result) = (State::First, true);
        loop {
            while let Some(packet) = self.next_packet()? {
                let next = self.step(state, packet, statement, first_result, &mut on_row)?;
                match next {
                    Step::On(next) => state = next,
                    Step::NextResult => (state, first_result) = (State::First, false),
                    Step::End => {
                        self.busy = false;
                        return Ok(self.affected);
                    }
                }
            }
            self.fill().await?;
        }
    }

    /// Takes one packet of an answer.
    #[inline]
    fn step(
        &mut self,
        state: State,
        packet: Range<usize>,
        statement: Option<Statement>,
        first_result: bool,
        on_row: &mut impl FnMut(&mut Row<'_>),
    ) -> Result<Step, Error> {
        let marks_columns = !self.capabilities.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF);
        let payload = &self.input[packet.clone()];
        let first = payload.first().copied();
        let longest_end = if marks_columns { 8 } else { LONGEST - 1 };
        match (state, first) {
            (_, Some(0xff)) => {
                if let Some(statement) = statement {
                    // Whether it got as far as to learn the types, it does not say.
                    self.prepared[statement.0].types.clear();
                }
                Err(self.no_answer(packet))
            }
            (State::Rows, Some(0xfe)) if payload.len() <= longest_end => {
                // The older end has two bytes of warnings first, the newer one is an OK.
                let status = if marks_columns { payload.get(3..5) } else { status_of_ok(payload) };
                ended(status.ok_or(TORN)?)
            }
            (State::Rows, Some(_)) => {
                if first_result {
                    let mut row = match statement {
                        Some(statement) => {
                            Row::binary(payload, &self.prepared[statement.0].columns).ok_or(TORN)?
                        }
                        None => Row::text(payload),
                    };
                    on_row(&mut row);
                    if row.torn {
                        return Err(TORN);
                    }
                }
                Ok(Step::On(State::Rows))
            }
            (State::First, Some(0x00)) => {
                let mut rest = &payload[1..];
                if first_result {
                    self.affected = take_number(&mut rest).ok_or(TORN)?;
                }
                ended(status_of_ok(payload).ok_or(TORN)?)
            }
            (State::First, Some(0xfb)) => Err(Error::Answer("the server asks for a file, and gets none")),
            (State::First, Some(_)) => {
                let mut rest = payload;
                let count = take_number(&mut rest).ok_or(TORN)? as usize;
                let follow = !self.caches_columns || rest.first() != Some(&0);
                let columns = statement.filter(|_| first_result).map(|place| &mut self.prepared[place.0].columns);
                match columns {
                    Some(columns) if follow => columns.clear(),
                    Some(columns) if columns.len() != count => {
                        return Err(Error::Answer("the columns of an answer are unknown"));
                    }
                    _ => {}
                }
                Ok(Step::On(match (follow, marks_columns) {
                    (true, _) => State::Columns(count),
                    (false, true) => State::EndOfColumns,
                    (false, false) => State::Rows,
                }))
            }
            (State::Columns(left), Some(_)) => {
                if let Some(statement) = statement.filter(|_| first_result) {
                    let kind = Kind::of(payload).ok_or(Error::Answer("the type of a column is unknown"))?;
                    self.prepared[statement.0].columns.push(kind);
                }
                Ok(Step::On(match left {
                    2.. => State::Columns(left - 1),
                    _ if marks_columns => State::EndOfColumns,
                    _ => State::Rows,
                }))
            }
            (State::EndOfColumns, Some(0xfe)) => Ok(Step::On(State::Rows)),
            (_, _) => Err(TORN),
        }
    }

    /// What a packet that is not an answer says: the server's error, after which it listens again.
    #[cold]
    pub fn no_answer(&mut self, packet: Range<usize>) -> Error {
        match server_error(&self.input[packet]) {
            Some(error) => {
                self.busy = false;
                error
            }
            None => TORN,
        }
    }

    /// The next packet of the login.
    pub async fn packet(&mut self) -> Result<Range<usize>, Error> {
        loop {
            if let Some(packet) = self.next_packet()? {
                return Ok(packet);
            }
            self.fill().await?;
        }
    }

    /// What is in a packet that came.
    pub fn payload(&self, packet: Range<usize>) -> &[u8] {
        &self.input[packet]
    }

    /// The login has succeeded, or a part of it: there may be requests.
    pub fn ready(&mut self) {
        self.busy = false;
    }

    /// Has everything that came been read?
    pub fn is_drained(&self) -> bool {
        self.begin == self.filled
    }

    /// The payload of the next packet, if all of it has come.
    #[inline]
    fn next_packet(&mut self) -> Result<Option<Range<usize>>, Error> {
        let Some(&[l0, l1, l2, sequence]) = self.input[self.begin..self.filled].first_chunk::<HEADER>() else {
            self.wanted = HEADER;
            return Ok(None);
        };
        let length = u32::from_le_bytes([l0, l1, l2, 0]) as usize;
        if sequence != self.sequence {
            return self.out_of_order(length);
        }
        if length == LONGEST {
            return self.join();
        }
        let (from, to) = (self.begin + HEADER, self.begin + HEADER + length);
        if self.filled < to {
            self.wanted = to - self.begin;
            return Ok(None);
        }
        self.sequence = sequence.wrapping_add(1);
        self.begin = to;
        Ok(Some(from..to))
    }

    /// What a server says when it closes a connection has a number of its own.
    #[cold]
    fn out_of_order(&mut self, length: usize) -> Result<Option<Range<usize>>, Error> {
        let (from, to) = (self.begin + HEADER, self.begin + HEADER + length);
        if self.begin + HEADER == self.filled && length > 0 {
            self.wanted = HEADER + 1;
            return Ok(None);
        }
        if length == 0 || length > ROOM || self.input[from] != 0xff {
            return Err(Error::Answer("what came is not the protocol of MySQL, or out of order"));
        }
        if self.filled < to {
            self.wanted = to - self.begin;
            return Ok(None);
        }
        self.begin = to;
        Ok(Some(from..to))
    }

    /// The payload of several packets that continue each other, made one.
    #[cold]
    fn join(&mut self) -> Result<Option<Range<usize>>, Error> {
        let length_at = |input: &[u8], at: usize| {
            u32::from_le_bytes([input[at], input[at + 1], input[at + 2], 0]) as usize
        };
        let mut to = self.begin;
        loop {
            if self.filled < to + HEADER {
                self.wanted = to + HEADER - self.begin;
                return Ok(None);
            }
            let length = length_at(&self.input, to);
            to += HEADER + length;
            if self.filled < to {
                self.wanted = to - self.begin;
                return Ok(None);
            }
            if length < LONGEST {
                break;
            }
        }
        let from = self.begin + HEADER;
        let (mut end, mut at) = (from, self.begin);
        while at < to {
            let length = length_at(&self.input, at);
            self.sequence = self.input[at + 3].wrapping_add(1);
            self.input.copy_within(at + HEADER..at + HEADER + length, end);
            end += length;
            at += HEADER + length;
        }
        self.begin = to;
        Ok(Some(from..end))
    }

    /// Reads until what is wanted is there.
    #[inline]
    async fn fill(&mut self) -> Result<(), Error> {
        // What is read already makes room.
        self.input.copy_within(self.begin..self.filled, 0);
        self.filled -= self.begin;
        self.begin = 0;
        if self.input.len() < self.wanted {
            self.input.resize(self.wanted.next_power_of_two(), 0);
        }
        while self.filled < self.wanted {
            let Conn { stream, input, filled, .. } = self;
            let count = poll_fn(|cx| stream.poll_read(cx, &mut input[*filled..])).await?;
            if count == 0 {
                return Err(Error::Closed);
            }
            self.filled += count;
        }
        Ok(())
    }
}

impl Drop for Conn {
    /// Says good-bye, or else the server counts an aborted connection.
    fn drop(&mut self) {
        if !self.busy {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = self.stream.poll_write(&mut cx, &[1, 0, 0, 0, Command::COM_QUIT as u8]);
            let _ = self.stream.poll_flush(&mut cx);
        }
    }
}

/// What follows a packet of an answer.
#[derive(Debug, Clone, Copy)]
enum Step {
    On(State),
    NextResult,
    End,
}

const TORN: Error = Error::Answer("an answer of the server's cannot be read");

#[inline]
fn header(bytes: usize, sequence: u8) -> [u8; HEADER] {
    let [l0, l1, l2, ..] = (bytes as u32).to_le_bytes();
    [l0, l1, l2, sequence]
}

/// The status of a packet OK: it follows the rows that were changed and the number that a row got.
#[inline]
fn status_of_ok(payload: &[u8]) -> Option<&[u8]> {
    let mut rest = &payload[1..];
    take_number(&mut rest)?;
    take_number(&mut rest)?;
    take(&mut rest, 2)
}

/// Is there another result?
#[inline]
fn ended(status: &[u8]) -> Result<Step, Error> {
    let status = u16::from_le_bytes([status[0], status[1]]);
    let more = status & StatusFlags::SERVER_MORE_RESULTS_EXISTS.bits() != 0;
    Ok(if more { Step::NextResult } else { Step::End })
}

/// The error that a packet tells. Before a login, there is no state in it.
fn server_error(payload: &[u8]) -> Option<Error> {
    let (&[0xff, c0, c1], rest) = payload.split_first_chunk::<3>()? else { return None };
    let (state, message) = match rest.split_first_chunk::<6>() {
        Some((&[b'#', ref state @ ..], message)) => (String::from_utf8_lossy(state).into_owned(), message),
        _ => ("HY000".to_owned(), rest),
    };
    let message = String::from_utf8_lossy(message).into_owned();
    Some(Error::Server { code: u16::from_le_bytes([c0, c1]), state, message })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::task::JoinHandle;

    use super::*;

    fn bytes(digits: &str) -> Vec<u8> {
        let digits: String = digits.split_whitespace().collect();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    /// One packet.
    fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
        [&header(payload.len(), sequence)[..], payload].concat()
    }

    /// A connection that is logged in, and its other end.
    fn pair() -> (Conn, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let mut conn = Conn::new(Stream::Socket(ours));
        conn.capabilities = CapabilityFlags::CLIENT_DEPRECATE_EOF;
        conn.caches_columns = true;
        conn.ready();
        (conn, theirs)
    }

    /// The other end is asked exactly this, and answers so; then it listens for the good-bye.
    fn served(script: Vec<(Vec<u8>, Vec<u8>)>) -> (Conn, JoinHandle<()>) {
        let (conn, mut theirs) = pair();
        let server = tokio::spawn(async move {
            for (number, (asked, answer)) in script.into_iter().enumerate() {
                let mut came = vec![0; asked.len()];
                theirs.read_exact(&mut came).await.expect("a request");
                assert!(came == asked, "request {number}: {came:02x?}\nnot {asked:02x?}");
                theirs.write_all(&answer).await.expect("it listens");
            }
            let mut rest = Vec::new();
            theirs.read_to_end(&mut rest).await.expect("an end");
            assert_eq!(rest, [1, 0, 0, 0, 1], "only COM_QUIT is left");
        });
        (conn, server)
    }

    fn texts<'a>(texts: &'a [&'a str]) -> impl Iterator<Item = Parameter<'a>> + Clone {
        texts.iter().map(|text| Parameter::Bytes(text.as_bytes()))
    }

    /// A definition of a column of this type.
    fn definition(kind: u8, flags: u16) -> Vec<u8> {
        let [f0, f1] = flags.to_le_bytes();
        [&b"\x03def\x01d\x01t\x01t\x01c\x01c"[..], &[12, 45, 0, 100, 0, 0, 0, kind, f0, f1, 0, 0, 0]].concat()
    }

    /// The runtime knows that something has come.
    async fn heard(conn: &Conn) {
        let Stream::Socket(stream) = &conn.stream else { unreachable!("it is a socket") };
        stream.readable().await.expect("it is open");
    }

    /// Remembers a statement, as if it had been prepared.
    fn statement(conn: &mut Conn, takes: usize, columns: Vec<Kind>) -> Statement {
        conn.prepared.push(Prepared { number: 1, takes, columns, types: Vec::new() });
        Statement(conn.prepared.len() - 1)
    }

    const OK: [u8; 11] = [7, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0];
    const ERROR: &[u8] = b"\x17\x00\x00\x01\xff\x48\x04#HY000No tables used";

    /// The bytes of MySQL's own documentation of COM_STMT_PREPARE, COM_STMT_EXECUTE and of a binary result.
    #[tokio::test]
    async fn a_statement_is_prepared_executed_and_answered_as_documented() {
        let execute = |length: &str, rest: &str| bytes(&format!("{length} 00 00 00 17 01 00 00 00 00 01 00 00 00 00 {rest}"));
        let answer = bytes(
            "01 00 00 01 01  1a 00 00 02 03 64 65 66 00 00 00 04 63 6f 6c 31 00 0c 08 00 06 00 00 00 fd 00 00 1f 00 00
             05 00 00 03 fe 00 00 02 00  09 00 00 04 00 00 06 66 6f 6f 62 61 72  05 00 00 05 fe 00 00 02 00",
        );
        let (mut conn, server) = served(vec![
            (
                [&[0x1c, 0, 0, 0, 0x16][..], b"SELECT CONCAT(?, ?) AS col1"].concat(),
                bytes(
                    "0c 00 00 01 00 01 00 00 00 01 00 02 00 00 00 00
                     17 00 00 02 03 64 65 66 00 00 00 01 3f 00 0c 3f 00 00 00 00 00 fd 80 00 00 00 00
                     17 00 00 03 03 64 65 66 00 00 00 01 3f 00 0c 3f 00 00 00 00 00 fd 80 00 00 00 00
                     05 00 00 04 fe 00 00 02 00
                     1a 00 00 05 03 64 65 66 00 00 00 04 63 6f 6c 31 00 0c 3f 00 00 00 00 00 fd 80 00 1f 00 00
                     05 00 00 06 fe 00 00 02 00",
                ),
            ),
            (execute("18", "01 fd 00 fd 00 03 66 6f 6f 03 62 61 72"), answer.clone()),
            // The types are known by now.
            (execute("14", "00 03 66 6f 6f 03 62 61 72"), answer.clone()),
            (execute("1c", "01 08 80 fd 00 02 00 00 00 00 00 00 00 03 62 61 72"), answer.clone()),
            (execute("1c", "01 08 00 fd 00 fe ff ff ff ff ff ff ff 03 62 61 72"), answer),
        ]);
        conn.capabilities = CapabilityFlags::empty();
        conn.caches_columns = false;
        let statement = conn.prepare("SELECT CONCAT(?, ?) AS col1").await.expect("it is prepared");
        let bar = Parameter::Bytes(b"bar");
        let cases = [
            [Parameter::Bytes(b"foo"), bar],
            [Parameter::Bytes(b"foo"), bar],
            [Parameter::Unsigned(2), bar],
            [Parameter::Int(-2), bar],
        ];
        for parameters in cases {
            let mut rows = Vec::new();
            let done = conn.execute(statement, parameters.into_iter(), |row| {
                rows.push(row.map(|value| value.bytes().expect("text").to_vec()).collect::<Vec<_>>());
            });
            assert_eq!(done.await.expect("an answer"), 0);
            assert_eq!(rows, [[b"foobar"]]);
        }
        drop(conn);
        server.await.expect("it was asked what it expects");
    }

    #[tokio::test]
    async fn columns_that_are_known_are_not_sent_again_and_others_replace_them() {
        let asked = bytes("0a 00 00 00 17 01 00 00 00 00 01 00 00 00");
        let end = |sequence| packet(sequence, &[0xfe, 0, 0, 2, 0, 0, 0]);
        let known = [packet(1, &[1, 0]), packet(2, b"\x00\x00\x01a"), end(3)].concat();
        let other = [packet(1, &[1, 1]), packet(2, &definition(8, 0x20)), packet(3, b"\x00\x00\x05\0\0\0\0\0\0\0"), end(4)];
        let again = [packet(1, &[1, 0]), packet(2, b"\x00\x00\x06\0\0\0\0\0\0\0"), end(3)].concat();
        let (mut conn, server) =
            served(vec![(asked.clone(), known), (asked.clone(), other.concat()), (asked, again)]);
        let statement = statement(&mut conn, 0, vec![Kind::Bytes]);
        for expected in [Value::Bytes(b"a"), Value::Int(5), Value::Int(6)] {
            let mut seen = 0;
            let done = conn.execute(statement, texts(&[]), |row| {
                assert_eq!(row.next(), Some(expected));
                assert_eq!(row.next(), None);
                seen += 1;
            });
            done.await.expect("an answer");
            assert_eq!(seen, 1);
        }
        drop(conn);
        server.await.expect("it was asked what it expects");
    }

    #[test]
    fn values_of_every_type_are_found_behind_each_other() {
        let unsigned = 0x20;
        let (mut columns, mut row) = (Vec::new(), vec![0; 1 + 3]);
        for (kind, flags, value) in [
            (1, 0, &b"\xff"[..]),
            (1, unsigned, b"\xff"),
            (2, 0, b"\x00\x80"),
            (13, unsigned, b"\xea\x07"),
            (3, 0, b"\xfe\xff\xff\xff"),
            (9, unsigned, b"\xff\xff\xff\xff"),
            (8, 0, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
            (8, unsigned, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
            (4, 0, b"1234"),
            (5, 0, b"12345678"),
            (6, 0, b""),
            (12, 0, b"\x041234"),
            (11, 0, b"\x00"),
            (246, 0, b"\x031.5"),
            (252, 0, b"\xfc\x03\x00abc"),
            (245, 0, b"\x02{}"),
            // A null.
            (253, 0, b""),
            (254, 0, b"\x01z"),
        ] {
            columns.push(Kind::of(&definition(kind, flags)).expect("a type"));
            row.extend_from_slice(value);
        }
        row[1 + (16 + 2) / 8] |= 1 << ((16 + 2) % 8);
        let mut read = Row::binary(&row, &columns).expect("a row");
        let int = Value::Int;
        let expected = [
            [int(-1), int(255), int(-32_768), int(2026), int(-2), int(4_294_967_295)],
            [int(-1), Value::Null, Value::Null, Value::Null, Value::Null, Value::Null],
            [Value::Null, Value::Bytes(b"1.5"), Value::Bytes(b"abc"), Value::Bytes(b"{}"), Value::Null, Value::Bytes(b"z")],
        ];
        assert_eq!(read.by_ref().collect::<Vec<_>>(), expected.as_flattened());
        assert!(!read.torn);
        // Wherever it is torn, it ends there.
        for length in 4..row.len() {
            let mut torn = Row::binary(&row[..length], &columns).expect("a row");
            assert!(torn.by_ref().count() < columns.len() && torn.torn, "{length}");
        }
        let mut text = Row::text(b"\x01a\xfb\x00\xfc\x01\x00b");
        let expected = [Value::Bytes(b"a"), Value::Null, Value::Bytes(b""), Value::Bytes(b"b")];
        assert_eq!(text.by_ref().collect::<Vec<_>>(), expected);
        assert!(!text.torn);
    }

    #[tokio::test]
    async fn after_an_error_the_connection_goes_on_and_the_server_is_told_the_types_again() {
        let execute = |length: u8, rest: &[u8]| {
            [&[length, 0, 0, 0, 0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0][..], rest].concat()
        };
        let (told, known) = (execute(16, b"\x01\xfd\x00\x01a"), execute(14, b"\x00\x01a"));
        let more = [packet(1, &[0, 1, 0, 0x0a, 0, 0, 0]), packet(2, &[0, 9, 0, 2, 0, 0, 0])].concat();
        let (mut conn, server) = served(vec![
            (told.clone(), OK.to_vec()),
            (known.clone(), ERROR.to_vec()),
            (told, OK.to_vec()),
            // A second result is read and forgotten.
            (known, more),
            // So are the rows of a statement that is not asked for them.
            (
                packet(0, b"\x03DO 1"),
                [packet(1, &[1, 1]), packet(2, &definition(8, 0)), packet(3, b"\x011"), packet(4, &[0xfe, 0, 0, 2, 0, 0, 0])].concat(),
            ),
        ]);
        let statement = statement(&mut conn, 1, vec![]);
        for failed in [false, true, false, false] {
            match conn.execute(statement, texts(&["a"]), |_| ()).await {
                Ok(rows) => assert!(!failed && rows == 1),
                Err(Error::Server { code, state, message }) => {
                    assert!(failed);
                    assert_eq!((code, state.as_str(), message.as_str()), (1096, "HY000", "No tables used"));
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        conn.run("DO 1").await.expect("it is done");
        drop(conn);
        server.await.expect("it was asked what it expects");
    }

    #[tokio::test]
    async fn what_a_server_says_before_it_is_asked_is_known_before_anything_is_sent() {
        // MySQL's word to a connection that was idle for too long; its number is 0 here and 1 there.
        for sequence in [0, 1] {
            let (mut conn, mut theirs) = pair();
            theirs.write_all(&packet(sequence, b"\xff\xbf\x0f#HY000idle")).await.unwrap();
            drop(theirs);
            heard(&conn).await;
            let said = conn.run("DO 1").await;
            assert!(matches!(said, Err(Error::Server { code: 4031, .. })) && !conn.sent(), "{said:?}");
            assert!(matches!(conn.run("DO 1").await, Err(Error::Closed)), "it was its last word");
        }
        let (mut conn, theirs) = pair();
        drop(theirs);
        heard(&conn).await;
        assert!(matches!(conn.run("DO 1").await, Err(Error::Closed)) && !conn.sent());
        let (mut conn, mut theirs) = pair();
        theirs.write_all(&OK).await.unwrap();
        heard(&conn).await;
        assert!(matches!(conn.run("DO 1").await, Err(Error::Answer(_))) && !conn.sent());
    }

    #[tokio::test]
    async fn a_connection_whose_request_was_given_up_takes_no_other() {
        let (mut conn, mut theirs) = pair();
        {
            let mut given_up = std::pin::pin!(conn.run("SELECT 1"));
            let polled = std::future::Future::poll(given_up.as_mut(), &mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        theirs.write_all(&OK).await.unwrap();
        assert!(matches!(conn.run("SELECT 2").await, Err(Error::Closed)));
        assert!(!conn.sent());
        let asked = packet(0, b"\x03SELECT 1");
        let mut came = vec![0; asked.len()];
        theirs.read_exact(&mut came).await.unwrap();
        assert_eq!(came, asked);
        drop(conn);
        let end = theirs.read(&mut came).await;
        assert!(!matches!(end, Ok(1..)), "no good-bye in the middle of something: {end:?}");
    }

    #[tokio::test]
    async fn what_is_too_long_for_a_packet_travels_in_several() {
        for length in [LONGEST - 30, LONGEST - 19, LONGEST - 18, LONGEST + 7, 2 * LONGEST - 23] {
            let (mut conn, mut theirs) = pair();
            conn.longest_request = 1 << 30;
            let statement = statement(&mut conn, 1, vec![Kind::Bytes]);
            let value = vec![b'v'; length];
            // In front of the value are the command, its type and its length.
            let payload = 14 + if length < 1 << 24 { 4 } else { 9 } + length;
            let server = tokio::spawn(async move {
                let (mut request, mut number) = (Vec::new(), 0);
                loop {
                    let mut head = [0; HEADER];
                    theirs.read_exact(&mut head).await.unwrap();
                    assert_eq!(head[3], number);
                    number += 1;
                    let begin = request.len();
                    let part = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
                    request.resize(begin + part, 0);
                    theirs.read_exact(&mut request[begin..]).await.unwrap();
                    if part < LONGEST {
                        break;
                    }
                }
                assert_eq!(request.len(), payload);
                // A row of the same value.
                let mut row = vec![0, 0];
                row.extend_from_slice(&request[14..]);
                theirs.write_all(&packet(number, &[1, 0])).await.unwrap();
                for begin in (0..=row.len()).step_by(LONGEST) {
                    number += 1;
                    theirs.write_all(&packet(number, &row[begin..row.len().min(begin + LONGEST)])).await.unwrap();
                }
                theirs.write_all(&packet(number + 1, &[0xfe, 0, 0, 2, 0, 0, 0])).await.unwrap();
            });
            let mut same = false;
            let done = conn.execute(statement, [Parameter::Bytes(&value)].into_iter(), |row| {
                same = row.next() == Some(Value::Bytes(&value));
            });
            done.await.expect("an answer");
            assert!(same, "{length}");
            server.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_request_that_the_server_would_not_take_is_not_sent() {
        let told = packet(0, b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x02as");
        let (mut conn, server) = served(vec![(told, OK.to_vec())]);
        conn.longest_request = 20;
        let statement = statement(&mut conn, 1, vec![]);
        let long = conn.execute(statement, texts(&["longer than that"]), |_| ()).await;
        assert!(matches!(long, Err(Error::TooLarge { bytes: 31, limit: 20 })), "{long:?}");
        assert!(matches!(conn.execute(statement, texts(&[]), |_| ()).await, Err(Error::Answer(_))));
        assert!(!conn.sent());
        // It goes on, and the server has not heard of any type yet.
        conn.execute(statement, texts(&["as"]), |_| ()).await.expect("an answer");
        drop(conn);
        server.await.expect("it was asked what it expects");
    }

    #[tokio::test]
    async fn no_answer_however_broken_is_taken_for_a_whole_one_or_ends_the_program() {
        let answer = [
            packet(1, &[2, 1]),
            packet(2, &definition(253, 0)),
            packet(3, &definition(8, 0)),
            packet(4, b"\x00\x00\x01a\x07\0\0\0\0\0\0\0"),
            packet(5, &[0xfe, 0, 0, 2, 0, 0, 0]),
        ]
        .concat();
        let ask = async |answer: &[u8]| {
            let (mut conn, mut theirs) = pair();
            let statement = statement(&mut conn, 0, vec![]);
            let answer = async {
                let mut asked = [0; 14];
                theirs.read_exact(&mut asked).await.expect("a request");
                theirs.write_all(answer).await.expect("it listens");
                drop(theirs);
            };
            let asked = conn.execute(statement, texts(&[]), |row| {
                std::hint::black_box(row.count());
            });
            tokio::join!(asked, answer).0
        };
        assert!(ask(&answer).await.is_ok());
        for length in 0..answer.len() {
            assert!(ask(&answer[..length]).await.is_err(), "{length} bytes");
        }
        for at in 0..answer.len() {
            for wrong in [0x00, 0x01, 0x7f, 0xfa, 0xfb, 0xfc, 0xfe, 0xff] {
                let mut broken = answer.clone();
                broken[at] = wrong;
                let _ = ask(&broken).await;
            }
        }
    }

    #[test]
    fn an_operation_allocates_nothing() {
        let row = b"\x00\x00\x0a0123456789\xfc\x00\x01".iter().copied().chain([b'v'; 256]).collect::<Vec<_>>();
        let answer = [packet(1, &[2, 0]), packet(2, &row), packet(3, &[0xfe, 0, 0, 2, 0, 0, 0])].concat();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let allocations = |operations: usize| {
            let counted = allocation_counter::measure(|| {
                runtime.block_on(async {
                    let (mut conn, mut theirs) = pair();
                    let statement = statement(&mut conn, 1, vec![Kind::Bytes, Kind::Bytes]);
                    for number in 0..operations {
                        let answered = async {
                            // The types are told once.
                            let mut asked = [0; 24];
                            theirs.read_exact(&mut asked[..if number == 0 { 24 } else { 22 }]).await.unwrap();
                            theirs.write_all(&answer).await.unwrap();
                        };
                        let mut bytes = 0;
                        let asked = conn.execute(statement, texts(&["user1"]), |row| {
                            bytes += row.map(|value| value.bytes().map_or(0, <[u8]>::len)).sum::<usize>();
                        });
                        tokio::join!(asked, answered).0.expect("an answer");
                        assert_eq!(bytes, 266);
                    }
                });
            });
            counted.count_total
        };
        allocations(1);
        assert_eq!(allocations(60), allocations(20));
    }
}
