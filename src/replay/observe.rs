//! What a replay keeps of the rows that come back. Without verification nothing; with it, a hash of
//! every value, and a verdict at once on what needs no history: the order of a scan, and values that
//! nothing ever wrote. Whether an old value was still allowed when it was read needs the whole log,
//! and `verify` decides that afterwards.

use std::cell::RefCell;
use std::sync::Arc;

use rtrb::Producer;

use crate::driver::{Discard, Rows};
use crate::op::{Op, OpKind, Outcome, Recovery, Status};
use crate::record::{key_hash, value_hash};
use crate::verify::written::Fingerprints;

/// Decides what a lane keeps of the rows that come back. A type parameter of the lane, so that
/// without verification the loop is compiled as if this did not exist.
pub trait Observer: 'static {
    /// Receives the rows of one session.
    type Sink: Rows;
    /// Must the samples of a lane be logged in the order of their hashes?
    const IN_ORDER: bool;

    /// A sink for a session.
    fn sink(&self) -> Self::Sink;
    /// Before the clock starts: forgets the last operation (or the last try of this one).
    fn begin(&self, sink: &mut Self::Sink, op: &Op<'_>);
    /// After the clock has stopped: what came back may turn an OK into a MISMATCH.
    fn judge(&self, sink: &mut Self::Sink, op: &Op<'_>, outcome: Outcome) -> Outcome;
    /// Hands the hashes to the recorder; returns how many there were.
    fn hand_over(&self, sink: &mut Self::Sink) -> u32;
}

/// Keeps nothing.
pub struct Unobserved;

impl Observer for Unobserved {
    type Sink = Discard;
    const IN_ORDER: bool = false;

    #[inline]
    fn sink(&self) -> Discard {
        Discard
    }
    #[inline]
    fn begin(&self, _sink: &mut Discard, _op: &Op<'_>) {}
    #[inline]
    fn judge(&self, _sink: &mut Discard, _op: &Op<'_>, outcome: Outcome) -> Outcome {
        outcome
    }
    #[inline]
    fn hand_over(&self, _sink: &mut Discard) -> u32 {
        0
    }
}

/// Keeps a hash of every value, and checks what can be checked at once.
pub struct Verifier {
    /// To the recorder, before the sample of the operation.
    pub log: RefCell<Producer<u64>>,
    /// Every value that the traces write; without them values are only logged.
    pub written: Option<Arc<Fingerprints>>,
    /// For messages.
    pub field_names: Arc<Vec<String>>,
}

/// In [`Seen::numbers`]: the hash is a key's.
const KEY: u32 = u32::MAX;

/// What came back to one session's current operation.
#[derive(Debug, Default)]
pub struct Seen {
    /// Hash of each value; in a scan, each row begins with the hash of its key.
    hashes: Vec<u64>,
    /// The field of each hash.
    numbers: Vec<u32>,
    is_scan: bool,
    rows: u32,
    /// The start key of a scan, then the key of its latest row.
    latest: String,
    in_order: bool,
}

impl Rows for Seen {
    #[inline]
    fn row(&mut self, key: &str) {
        if self.is_scan {
            self.hashes.push(key_hash(key));
            self.numbers.push(KEY);
            let first = self.rows == 0;
            let ascends = if first { *key >= *self.latest } else { *key > *self.latest };
            self.in_order &= ascends;
            self.latest.clear();
            self.latest.push_str(key);
        }
        self.rows += 1;
    }

    #[inline]
    fn field(&mut self, number: u32, value: Option<&[u8]>) {
        self.hashes.push(value_hash(value));
        self.numbers.push(number);
    }
}

impl Observer for Verifier {
    type Sink = Seen;
    const IN_ORDER: bool = true;

    fn sink(&self) -> Seen {
        Seen::default()
    }

    fn begin(&self, seen: &mut Seen, op: &Op<'_>) {
        seen.hashes.clear();
        seen.numbers.clear();
        seen.is_scan = op.kind == OpKind::Scan;
        seen.rows = 0;
        seen.in_order = true;
        seen.latest.clear();
        seen.latest.push_str(op.key);
    }

    fn judge(&self, seen: &mut Seen, op: &Op<'_>, outcome: Outcome) -> Outcome {
        if outcome.status != Status::Ok {
            // What a failed operation saw is no answer.
            seen.hashes.clear();
            return outcome;
        }
        if seen.is_scan && (!seen.in_order || seen.rows > op.scan_len) {
            let what = if seen.in_order {
                format!("the scan of operation {} answered {} rows of {}", op.id, seen.rows, op.scan_len)
            } else {
                format!("the rows of operation {} do not ascend from {}", op.id, op.key)
            };
            return mismatch("ORDER", what, outcome.rows);
        }
        match &self.written {
            Some(written) => self.look_up(written, seen, op, outcome),
            None => outcome,
        }
    }

    fn hand_over(&self, seen: &mut Seen) -> u32 {
        let mut log = self.log.borrow_mut();
        for &hash in &seen.hashes {
            // Without giving the turn to another session of this lane: its hashes would come between.
            while log.push(hash).is_err() {
                if log.is_abandoned() {
                    return 0;
                }
                std::thread::yield_now();
            }
        }
        seen.hashes.len() as u32
    }
}

impl Verifier {
    /// Was every value that came back written by somebody?
    fn look_up(&self, written: &Fingerprints, seen: &Seen, op: &Op<'_>, outcome: Outcome) -> Outcome {
        let mut key = key_hash(op.key);
        let mut row = 0;
        for (&hash, &number) in seen.hashes.iter().zip(&seen.numbers) {
            if number == KEY {
                key = hash;
                row += 1;
            } else if !written.contains(key, number, hash) {
                let name = self.field_names.get(number as usize).map_or("?", String::as_str);
                let place =
                    if seen.is_scan { format!("row {row} from {}", op.key) } else { op.key.to_owned() };
                let what = format!(
                    "operation {}, key {place}, {name}: a value that no operation writes (hash {hash:016x})",
                    op.id
                );
                return mismatch("CORRUPT", what, outcome.rows);
            }
        }
        outcome
    }
}

#[cold]
fn mismatch(code: &str, what: String, rows: u32) -> Outcome {
    Outcome { rows, ..Outcome::failed(Status::Mismatch, Recovery::Fatal, code, what) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verifier() -> (Verifier, rtrb::Consumer<u64>) {
        let (log, hashes) = rtrb::RingBuffer::new(64);
        let verifier = Verifier {
            log: RefCell::new(log),
            written: None,
            field_names: Arc::new(vec!["FIELD0".to_owned()]),
        };
        (verifier, hashes)
    }

    fn scan(start: &str, scan_len: u32, keys: &[&str]) -> Outcome {
        let (verifier, _hashes) = verifier();
        let op = Op { id: 1, kind: OpKind::Scan, key: start, fields: &[], scan_len };
        let mut seen = verifier.sink();
        verifier.begin(&mut seen, &op);
        keys.iter().for_each(|key| seen.row(key));
        verifier.judge(&mut seen, &op, Outcome::ok(keys.len() as u32))
    }

    #[test]
    fn a_scan_ascends_in_byte_order_from_its_start_and_is_not_longer_than_asked() {
        for keys in [&["b", "c"][..], &["b1", "é"], &[]] {
            assert_eq!(scan("b", 2, keys).status, Status::Ok, "{keys:?}");
        }
        for keys in [&["a", "b"][..], &["c", "b"], &["b", "b"], &["b", "c", "d"]] {
            let outcome = scan("b", 2, keys);
            assert_eq!(outcome.status, Status::Mismatch, "{keys:?}");
            assert_eq!(outcome.failure.expect("a reason").code, "ORDER");
        }
    }

    #[test]
    fn hashes_come_row_by_row_and_a_failed_operation_has_none() {
        let (verifier, mut hashes) = verifier();
        let op = Op { id: 1, kind: OpKind::Scan, key: "a", fields: &[], scan_len: 9 };
        let mut seen = verifier.sink();
        verifier.begin(&mut seen, &op);
        seen.row("a");
        seen.field(0, Some(b"x"));
        seen.field(1, None);
        assert_eq!(verifier.judge(&mut seen, &op, Outcome::ok(1)), Outcome::ok(1));
        assert_eq!(verifier.hand_over(&mut seen), 3);
        let came: Vec<u64> = std::iter::from_fn(|| hashes.pop().ok()).collect();
        assert_eq!(came, [key_hash("a"), value_hash(Some(b"x")), value_hash(None)]);
        verifier.begin(&mut seen, &op);
        seen.row("a");
        verifier.judge(&mut seen, &op, Outcome::bare(Status::Conflict));
        assert_eq!(verifier.hand_over(&mut seen), 0);
    }
}
