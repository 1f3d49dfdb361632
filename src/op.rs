//! The words every part of the program shares: what an operation is, how one can end, and what is
//! kept about it. These types cross every boundary (trace → lane → driver → recorder → result), so
//! they are plain data, know no other module, and name every time they hold.

use std::sync::{RwLock, RwLockReadGuard};

/// A time that does not exist, for instance the end of an operation that was never answered.
pub const NEVER_NS: u64 = u64::MAX;

/// A number that nobody knows, for instance the connection of an operation that another tool logged.
pub const UNKNOWN: u32 = u32::MAX;

/// What an operation does. The names are the ones in trace and result files.
///
/// A statement trace names its statements itself. Each name gets a slot here when a file that uses
/// it is opened ([`OpKind::register`]), so that everything that counts, keeps and reports by kind
/// works for statements as it does for the six kinds of YCSB, at no cost where time is measured.
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
    /// Begin a transaction (statement traces).
    Begin,
    /// Make a transaction's changes last.
    Commit,
    /// Take a transaction's changes back.
    Rollback,
    #[doc(hidden)]
    Statement0,
    #[doc(hidden)]
    Statement1,
    #[doc(hidden)]
    Statement2,
    #[doc(hidden)]
    Statement3,
    #[doc(hidden)]
    Statement4,
    #[doc(hidden)]
    Statement5,
    #[doc(hidden)]
    Statement6,
    #[doc(hidden)]
    Statement7,
    #[doc(hidden)]
    Statement8,
    #[doc(hidden)]
    Statement9,
    #[doc(hidden)]
    Statement10,
    #[doc(hidden)]
    Statement11,
    #[doc(hidden)]
    Statement12,
    #[doc(hidden)]
    Statement13,
    #[doc(hidden)]
    Statement14,
    #[doc(hidden)]
    Statement15,
    #[doc(hidden)]
    Statement16,
    #[doc(hidden)]
    Statement17,
    #[doc(hidden)]
    Statement18,
    #[doc(hidden)]
    Statement19,
    #[doc(hidden)]
    Statement20,
    #[doc(hidden)]
    Statement21,
    #[doc(hidden)]
    Statement22,
    #[doc(hidden)]
    Statement23,
    #[doc(hidden)]
    Statement24,
    #[doc(hidden)]
    Statement25,
    #[doc(hidden)]
    Statement26,
    #[doc(hidden)]
    Statement27,
    #[doc(hidden)]
    Statement28,
    #[doc(hidden)]
    Statement29,
    #[doc(hidden)]
    Statement30,
    #[doc(hidden)]
    Statement31,
    #[doc(hidden)]
    Statement32,
    #[doc(hidden)]
    Statement33,
    #[doc(hidden)]
    Statement34,
    #[doc(hidden)]
    Statement35,
    #[doc(hidden)]
    Statement36,
    #[doc(hidden)]
    Statement37,
    #[doc(hidden)]
    Statement38,
    #[doc(hidden)]
    Statement39,
    #[doc(hidden)]
    Statement40,
    #[doc(hidden)]
    Statement41,
    #[doc(hidden)]
    Statement42,
    #[doc(hidden)]
    Statement43,
    #[doc(hidden)]
    Statement44,
    #[doc(hidden)]
    Statement45,
    #[doc(hidden)]
    Statement46,
    #[doc(hidden)]
    Statement47,
    #[doc(hidden)]
    Statement48,
    #[doc(hidden)]
    Statement49,
    #[doc(hidden)]
    Statement50,
    #[doc(hidden)]
    Statement51,
    #[doc(hidden)]
    Statement52,
    #[doc(hidden)]
    Statement53,
    #[doc(hidden)]
    Statement54,
}

/// The number of the first kind that has no name of its own.
const FIRST_SLOT: usize = 9;

/// Names of statements, by slot: a table that grows when files are opened. It is one for the process
/// because a kind must mean the same in every file of one analysis.
static STATEMENTS: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());

fn registered() -> RwLockReadGuard<'static, Vec<&'static str>> {
    STATEMENTS.read().expect("no panic under this lock")
}

impl OpKind {
    /// Every kind, in the order of their numbers; slots without a name too.
    pub const ALL: [OpKind; 64] = [
        OpKind::Insert,
        OpKind::Read,
        OpKind::Update,
        OpKind::Scan,
        OpKind::ReadModifyWrite,
        OpKind::Delete,
        OpKind::Begin,
        OpKind::Commit,
        OpKind::Rollback,
        OpKind::Statement0,
        OpKind::Statement1,
        OpKind::Statement2,
        OpKind::Statement3,
        OpKind::Statement4,
        OpKind::Statement5,
        OpKind::Statement6,
        OpKind::Statement7,
        OpKind::Statement8,
        OpKind::Statement9,
        OpKind::Statement10,
        OpKind::Statement11,
        OpKind::Statement12,
        OpKind::Statement13,
        OpKind::Statement14,
        OpKind::Statement15,
        OpKind::Statement16,
        OpKind::Statement17,
        OpKind::Statement18,
        OpKind::Statement19,
        OpKind::Statement20,
        OpKind::Statement21,
        OpKind::Statement22,
        OpKind::Statement23,
        OpKind::Statement24,
        OpKind::Statement25,
        OpKind::Statement26,
        OpKind::Statement27,
        OpKind::Statement28,
        OpKind::Statement29,
        OpKind::Statement30,
        OpKind::Statement31,
        OpKind::Statement32,
        OpKind::Statement33,
        OpKind::Statement34,
        OpKind::Statement35,
        OpKind::Statement36,
        OpKind::Statement37,
        OpKind::Statement38,
        OpKind::Statement39,
        OpKind::Statement40,
        OpKind::Statement41,
        OpKind::Statement42,
        OpKind::Statement43,
        OpKind::Statement44,
        OpKind::Statement45,
        OpKind::Statement46,
        OpKind::Statement47,
        OpKind::Statement48,
        OpKind::Statement49,
        OpKind::Statement50,
        OpKind::Statement51,
        OpKind::Statement52,
        OpKind::Statement53,
        OpKind::Statement54,
    ];

    /// The kinds of YCSB, which every driver knows.
    pub const YCSB: [OpKind; 6] =
        [OpKind::Insert, OpKind::Read, OpKind::Update, OpKind::Scan, OpKind::ReadModifyWrite, OpKind::Delete];

    /// The name in files and reports; of a slot that nothing is registered in, a dash.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Insert => "INSERT",
            OpKind::Read => "READ",
            OpKind::Update => "UPDATE",
            OpKind::Scan => "SCAN",
            OpKind::ReadModifyWrite => "READ_MODIFY_WRITE",
            OpKind::Delete => "DELETE",
            OpKind::Begin => "BEGIN",
            OpKind::Commit => "COMMIT",
            OpKind::Rollback => "ROLLBACK",
            slot => registered().get(slot as usize - FIRST_SLOT).copied().unwrap_or("-"),
        }
    }

    /// The kind with this name in a file, if there is one.
    pub fn from_name(name: &str) -> Option<OpKind> {
        let fixed = OpKind::ALL.into_iter().take(FIRST_SLOT).find(|kind| kind.name() == name);
        fixed.or_else(|| {
            let slot = registered().iter().position(|known| *known == name)?;
            OpKind::ALL.get(FIRST_SLOT + slot).copied()
        })
    }

    /// The kind with this name, with a slot of its own if it is new; none if all slots are taken.
    pub fn register(name: &str) -> Option<OpKind> {
        if let Some(known) = OpKind::from_name(name) {
            return Some(known);
        }
        let mut names = STATEMENTS.write().expect("no panic under this lock");
        if let Some(slot) = names.iter().position(|known| *known == name) {
            return OpKind::ALL.get(FIRST_SLOT + slot).copied();
        }
        let kind = OpKind::ALL.get(FIRST_SLOT + names.len()).copied()?;
        names.push(String::leak(name.to_owned()));
        Some(kind)
    }

    /// Does it stand for a statement that a trace names?
    pub const fn is_statement(self) -> bool {
        self as usize >= FIRST_SLOT
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

    /// The operation itself is wrong: a driver refuses it before it is sent.
    #[cold]
    pub fn rejected(message: impl Into<String>) -> Outcome {
        Outcome::failed(Status::Rejected, Recovery::Fatal, "", message)
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
    /// Of a read-modify-write: when its read (that of the last try) had found the row and the update began.
    /// [`NEVER_NS`] if it found none, if both were one request, and of every other kind.
    pub read_end_ns: u64,
    /// The part of the lag spent waiting for another operation of the trace.
    pub blocked_ns: u64,
    /// Start of the last attempt, if there was more than one.
    pub last_start_ns: u64,
    /// The transaction it is a part of, as in the trace; [`NEVER_NS`] if it is none.
    pub txn: u64,
    /// Which connection.
    pub session: u32,
    /// Rows returned or changed.
    pub rows: u32,
    /// 1 without retries, 0 if it was never tried.
    pub attempts: u32,
    /// Position of the database's code in the run's code table; 0 is "no code".
    pub code: u32,
    /// Operations that went to the database in one request share this number; [`NEVER_NS`] if it went alone.
    pub batch: u64,
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
            assert!(number >= FIRST_SLOT || OpKind::from_name(kind.name()) == Some(kind));
        }
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, number);
            assert_eq!(Status::from_name(status.name()), Some(status));
        }
        assert_eq!(OpKind::from_name("read"), None);
    }

    #[test]
    fn a_statement_has_one_slot_however_often_it_is_registered() {
        let kind = OpKind::register("op::tests::point").expect("there is room");
        assert!(kind.is_statement() && !OpKind::Rollback.is_statement());
        assert_eq!(OpKind::register("op::tests::point"), Some(kind));
        assert_eq!((OpKind::from_name("op::tests::point"), kind.name()), (Some(kind), "op::tests::point"));
        assert_eq!(OpKind::register("INSERT"), Some(OpKind::Insert));
        assert_ne!(OpKind::register("op::tests::range"), Some(kind));
    }
}
