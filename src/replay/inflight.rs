//! What each session is doing, where others can see it. When a run ends without waiting for what is
//! under way (a hung database, a second Ctrl-C), every operation that was started still gets its row:
//! the recorder takes over those that nobody has answered.
//!
//! A session writes to a cache line of its own, without locks; who logs an operation is decided by
//! one exchange of its state, so that there are neither two rows of it nor none.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::op::{NEVER_NS, OpKind, Sample, Status};

/// Nothing is under way.
const IDLE: u8 = 0;
/// An operation has started and is not logged.
const BUSY: u8 = 1;
/// The session is logging it.
const LOGGING: u8 = 2;
/// The run is over: what was under way belongs to the recorder, and nothing may start.
const CLOSED: u8 = 3;

/// The operation that one session is executing.
#[derive(Debug)]
#[repr(align(128))]
pub struct InFlight {
    state: AtomicU8,
    kind: AtomicU8,
    attempts: AtomicU32,
    op_id: AtomicU64,
    intended_ns: AtomicU64,
    start_ns: AtomicU64,
    blocked_ns: AtomicU64,
    last_start_ns: AtomicU64,
    /// The transaction that is under way; [`NEVER_NS`] if operations are executed alone.
    txn: AtomicU64,
    /// Rows of that transaction that have ended: they are logged with its last one, because until
    /// then it may be tried again. Only its session locks it while the run goes on.
    ended: Mutex<Vec<Sample>>,
}

impl Default for InFlight {
    fn default() -> InFlight {
        InFlight {
            state: AtomicU8::new(IDLE),
            kind: AtomicU8::new(0),
            attempts: AtomicU32::new(0),
            op_id: AtomicU64::new(0),
            intended_ns: AtomicU64::new(0),
            start_ns: AtomicU64::new(0),
            blocked_ns: AtomicU64::new(0),
            last_start_ns: AtomicU64::new(0),
            txn: AtomicU64::new(NEVER_NS),
            ended: Mutex::default(),
        }
    }
}

/// What closing a session's cell found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Nothing was under way.
    Idle,
    /// This was, and its row is now the caller's to write.
    Unanswered(Sample),
    /// Its row is being logged at this moment: ask again.
    NotYet,
}

impl InFlight {
    /// An operation starts; false if the run is over and it must not.
    #[inline]
    #[must_use]
    pub fn begin(&self, op_id: u64, kind: OpKind, intended_ns: u64, start_ns: u64, blocked_ns: u64) -> bool {
        self.kind.store(kind as u8, Ordering::Relaxed);
        self.attempts.store(1, Ordering::Relaxed);
        self.op_id.store(op_id, Ordering::Relaxed);
        self.intended_ns.store(intended_ns, Ordering::Relaxed);
        self.start_ns.store(start_ns, Ordering::Relaxed);
        self.blocked_ns.store(blocked_ns, Ordering::Relaxed);
        self.last_start_ns.store(NEVER_NS, Ordering::Relaxed);
        self.exchange(IDLE, BUSY)
    }

    /// It is tried again.
    pub fn again(&self, attempts: u32, last_start_ns: u64) {
        self.attempts.store(attempts, Ordering::Relaxed);
        self.last_start_ns.store(last_start_ns, Ordering::Relaxed);
    }

    /// It has ended and will be logged; false if the recorder has taken it over and it must not.
    #[inline]
    #[must_use]
    pub fn end(&self) -> bool {
        self.exchange(BUSY, LOGGING)
    }

    /// It has been logged.
    #[inline]
    pub fn logged(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// The operations that follow are those of transaction `txn`.
    pub fn belong_to(&self, txn: u64) {
        self.txn.store(txn, Ordering::Relaxed);
    }

    /// Rows of the transaction under way that have ended and are not logged.
    pub fn ended(&self) -> MutexGuard<'_, Vec<Sample>> {
        self.ended.lock().expect("no panic under this lock")
    }

    /// Lets nothing start any more, and takes over what is under way.
    pub fn close(&self, session: u32) -> Closed {
        if self.exchange(IDLE, CLOSED) {
            return Closed::Idle;
        }
        if !self.exchange(BUSY, CLOSED) {
            let closed = self.state.load(Ordering::Acquire) == CLOSED;
            return if closed { Closed::Idle } else { Closed::NotYet };
        }
        Closed::Unanswered(Sample {
            op_id: self.op_id.load(Ordering::Relaxed),
            intended_ns: self.intended_ns.load(Ordering::Relaxed),
            start_ns: self.start_ns.load(Ordering::Relaxed),
            end_ns: NEVER_NS,
            blocked_ns: self.blocked_ns.load(Ordering::Relaxed),
            last_start_ns: self.last_start_ns.load(Ordering::Relaxed),
            txn: self.txn.load(Ordering::Relaxed),
            session,
            rows: 0,
            attempts: self.attempts.load(Ordering::Relaxed),
            code: 0,
            read_end_ns: NEVER_NS,
            batch: NEVER_NS,
            observed: 0,
            kind: OpKind::ALL[usize::from(self.kind.load(Ordering::Relaxed))],
            status: Status::Timeout,
        })
    }

    #[inline]
    fn exchange(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_has_one_owner_whoever_comes_first() {
        let cell = InFlight::default();
        assert!(cell.begin(7, OpKind::Scan, 1, 2, NEVER_NS));
        assert!(cell.end());
        assert_eq!(cell.close(3), Closed::NotYet, "its session is logging it");
        cell.logged();
        assert!(cell.begin(8, OpKind::Update, 10, 20, 5));
        cell.again(2, 30);
        let Closed::Unanswered(sample) = cell.close(3) else { panic!("operation 8 is under way") };
        assert_eq!((sample.op_id, sample.kind, sample.session), (8, OpKind::Update, 3));
        assert_eq!((sample.intended_ns, sample.start_ns, sample.end_ns), (10, 20, NEVER_NS));
        assert_eq!((sample.attempts, sample.last_start_ns, sample.blocked_ns), (2, 30, 5));
        assert!(!cell.end(), "the recorder has its row");
        assert_eq!(cell.close(3), Closed::Idle, "once only");
        assert!(!cell.begin(9, OpKind::Read, 0, 0, NEVER_NS), "nothing starts after the end");
    }
}
