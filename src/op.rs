//! The words every part of the program shares: what an operation is, how one can end, and what is
//! kept about it. These types cross every boundary (trace → lane → driver → recorder → result), so
//! they are plain data, know no other module, and name every time they hold.

/// A time that does not exist, for instance the end of an operation that was never answered.
pub const NEVER_NS: u64 = u64::MAX;

/// A number that nobody knows, for instance the connection of an operation that another tool logged.
pub const UNKNOWN: u32 = u32::MAX;

/// What an operation does. The names are the ones in trace and result files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OpKind {
    /// Write a new row with all its fields.
    Insert,
    /// Fetch one row by key.
    Read,
    /// Overwrite some fields of an existing row.
    Update,
    /// Fetch up to `scan_len` rows with key ≥ `key`, ascending.
    Scan,
    /// Fetch a row, then overwrite some of its fields: one operation, one latency.
    ReadModifyWrite,
    /// Remove one row by key.
    Delete,
}

impl OpKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [OpKind; 6] =
        [OpKind::Insert, OpKind::Read, OpKind::Update, OpKind::Scan, OpKind::ReadModifyWrite, OpKind::Delete];

    /// The name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            OpKind::Insert => "INSERT",
            OpKind::Read => "READ",
            OpKind::Update => "UPDATE",
            OpKind::Scan => "SCAN",
            OpKind::ReadModifyWrite => "READ_MODIFY_WRITE",
            OpKind::Delete => "DELETE",
        }
    }

    /// The kind with this name in a file, if there is one.
    pub fn from_name(name: &str) -> Option<OpKind> {
        OpKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Does it write values?
    pub const fn writes(self) -> bool {
        matches!(self, OpKind::Insert | OpKind::Update | OpKind::ReadModifyWrite)
    }
}

/// One field of an operation: its number in the table and, for a write, its new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// 0-based position among the table's fields.
    pub number: u32,
    /// The bytes to write; empty in a read or scan.
    pub value: &'a [u8],
}

/// One operation, ready to execute: everything is materialised before the clock starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op<'a> {
    /// Number of the operation in its trace.
    pub id: u64,
    /// What to do.
    pub kind: OpKind,
    /// The key as the database sees it.
    pub key: &'a str,
    /// Fields to write or to read; empty means all fields (reads and scans only). A
    /// read-modify-write reads the whole row and writes these.
    pub fields: &'a [Field<'a>],
    /// Rows asked for by a scan, otherwise 0.
    pub scan_len: u32,
}

/// How an operation ended. The names are the ones in result files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// Done as asked.
    Ok,
    /// The row to read, update or delete does not exist.
    NotFound,
    /// The row to insert already exists.
    Duplicate,
    /// No answer within the operation's deadline.
    Timeout,
    /// The connection failed, or the server refused to serve.
    Unavailable,
    /// The database gave up because of other transactions (serialization failure, deadlock, busy).
    Conflict,
    /// The database understood and said no (constraint, permission, bad value).
    Rejected,
    /// Any other failure.
    Error,
    /// The driver cannot do this kind of operation.
    Unsupported,
    /// Not executed, by the policy for late operations.
    Dropped,
    /// Not executed, because the operation it depends on failed.
    Unmet,
    /// Executed, but what came back is not what must be there.
    Mismatch,
}

impl Status {
    /// Every status, in the order of their numbers.
    pub const ALL: [Status; 12] = [
        Status::Ok,
        Status::NotFound,
        Status::Duplicate,
        Status::Timeout,
        Status::Unavailable,
        Status::Conflict,
        Status::Rejected,
        Status::Error,
        Status::Unsupported,
        Status::Dropped,
        Status::Unmet,
        Status::Mismatch,
    ];

    /// The name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::NotFound => "NOT_FOUND",
            Status::Duplicate => "DUPLICATE",
            Status::Timeout => "TIMEOUT",
            Status::Unavailable => "UNAVAILABLE",
            Status::Conflict => "CONFLICT",
            Status::Rejected => "REJECTED",
            Status::Error => "ERROR",
            Status::Unsupported => "UNSUPPORTED",
            Status::Dropped => "DROPPED",
            Status::Unmet => "UNMET",
            Status::Mismatch => "MISMATCH",
        }
    }

    /// The status with this name in a file, if there is one.
    pub fn from_name(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Only OK is a success: everything else counts as a failure in rates and as *never answered*
    /// in the percentiles of all attempts.
    pub const fn is_success(self) -> bool {
        matches!(self, Status::Ok)
    }
}

/// What can be done about a failure, decided by the driver that understands the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Nothing: the same request would fail again.
    Fatal,
    /// The request had no effect; it may be sent again on the same connection.
    Retry,
    /// The connection is gone or useless, and the request had no effect: connect again first.
    Reconnect,
    /// The connection is gone and the request may or may not have had its effect.
    Ambiguous,
}

/// Why an operation failed. Allocated on failures only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The database's own code: SQLSTATE, MySQL number, SQLite result name. Empty if there is none.
    pub code: String,
    /// The database's words, without secrets.
    pub message: String,
    /// What can be done about it.
    pub recovery: Recovery,
}

/// The result of executing an operation: failure is data here, never an `Err`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Rows returned or changed.
    pub rows: u32,
    /// The reason, if the database gave one.
    pub failure: Option<Box<Failure>>,
}

impl Outcome {
    /// Done, with this many rows returned or changed.
    pub const fn ok(rows: u32) -> Outcome {
        Outcome { status: Status::Ok, rows, failure: None }
    }

    /// An ending that needs no explanation, such as NOT_FOUND.
    pub const fn bare(status: Status) -> Outcome {
        Outcome { status, rows: 0, failure: None }
    }

    /// The driver has no such operation.
    pub const UNSUPPORTED: Outcome = Outcome::bare(Status::Unsupported);

    /// A failure with the database's code and words.
    pub fn failed(
        status: Status,
        recovery: Recovery,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Outcome {
        let failure = Failure { code: code.into(), message: message.into(), recovery };
        Outcome { status, rows: 0, failure: Some(Box::new(failure)) }
    }
}

/// Everything kept about one executed operation: one row of a result file. Times are nanoseconds
/// since the run began, on one monotonic clock; [`NEVER_NS`] stands for a time that does not exist.
/// In an imported result, [`UNKNOWN`] stands for a number and `NEVER_NS` for an intended start that the
/// other tool did not log.
///
/// lag = start − intended · service = end − start · response = end − intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The operation's number in its trace.
    pub op_id: u64,
    /// When it should have started, by the trace and the pace alone.
    pub intended_ns: u64,
    /// When it was handed to the driver.
    pub start_ns: u64,
    /// When the driver returned.
    pub end_ns: u64,
    /// The part of the lag spent waiting for another operation of the trace.
    pub blocked_ns: u64,
    /// Start of the last attempt, if there was more than one.
    pub last_start_ns: u64,
    /// Which connection.
    pub session: u32,
    /// Rows returned or changed.
    pub rows: u32,
    /// 1 without retries, 0 if it was never tried.
    pub attempts: u32,
    /// Position of the database's code in the run's code table; 0 is "no code".
    pub code: u32,
    /// Hashes of what came back that belong to it; they travel apart from it.
    pub observed: u32,
    /// What it did.
    pub kind: OpKind,
    /// How it ended.
    pub status: Status,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_in_both_directions() {
        for (number, kind) in OpKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(OpKind::from_name(kind.name()), Some(kind));
        }
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, number);
            assert_eq!(Status::from_name(status.name()), Some(status));
        }
        assert_eq!(OpKind::from_name("read"), None);
    }
}
