//! What a replay keeps of the rows that come back. Without verification nothing; with it, a hash of
//! every value, and a verdict at once on what needs no history: the order of a scan, and values that
//! nothing ever wrote. Whether an old value was still allowed when it was read needs the whole log,
//! and `verify` decides that afterwards.

use std::cell::RefCell;
use std::sync::Arc;

use hdrhistogram::Histogram;
use rtrb::Producer;

use crate::clock::Clock;
use crate::driver::{Discard, Rows};
use crate::op::{Op, OpKind, Outcome, Recovery, Status};
use crate::record::{Tool, append_integrity_value, key_hash, value_hash};
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
    fn judge(&self, clock: &impl Clock, sink: &mut Self::Sink, op: &Op<'_>, outcome: Outcome) -> Outcome;
    /// Hands the hashes to the recorder; returns how many there were.
    fn hand_over(&self, sink: &mut Self::Sink) -> u32;
    /// After the run: what came of the checks, if values were checked against what they must be.
    fn checks(&self) -> Option<Checks> {
        None
    }
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
    fn judge(&self, _: &impl Clock, _sink: &mut Discard, _op: &Op<'_>, outcome: Outcome) -> Outcome {
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
    /// What values are checked against.
    pub known: Known,
    /// For messages.
    pub field_names: Arc<Vec<String>>,
}

/// What may come back.
pub enum Known {
    /// Nobody knows: values are only logged.
    Nothing,
    /// Every value that the traces write.
    Written(Arc<Fingerprints>),
    /// What `dataintegrity` makes of key and field.
    Integrity(IntegrityRule, RefCell<Checks>),
}

/// Makes the value of every field of every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegrityRule {
    /// Whose values they are.
    pub tool: Tool,
    /// Bytes of each.
    pub length: u32,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Right,
    Wrong,
    Nothing,
}

/// Checks of what reads returned.
#[derive(Debug, Clone)]
pub struct Checks {
    /// By [`Found`].
    pub counts: [u64; 3],
    /// Time of each, ns.
    pub took: Histogram<u64>,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { counts: [0; 3], took: Histogram::new(3).expect("3 digits are allowed") }
    }
}

impl Checks {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Checks) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.took.add(&other.took).expect("both grow as they must");
    }
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
    /// What the check of a read found, and how long it took (ns).
    checked: Option<(Found, u64)>,
    /// Memory for a value that must be.
    value: Vec<u8>,
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
        seen.checked = None;
        seen.latest.clear();
        seen.latest.push_str(op.key);
    }

    fn judge(&self, clock: &impl Clock, seen: &mut Seen, op: &Op<'_>, outcome: Outcome) -> Outcome {
        let mut wrong = None;
        if let (Known::Integrity(rule, _), OpKind::Read | OpKind::ReadModifyWrite) = (&self.known, op.kind) {
            let began_ns = clock.now_ns();
            wrong = self.wrong_field(*rule, seen, op);
            let found = match wrong {
                Some(_) => Found::Wrong,
                None if seen.hashes.is_empty() => Found::Nothing,
                None => Found::Right,
            };
            seen.checked = Some((found, clock.now_ns() - began_ns));
        }
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
        match (&self.known, wrong) {
            (Known::Written(written), _) => self.look_up(written, seen, op, outcome),
            (_, Some(what)) => mismatch("CORRUPT", what, outcome.rows),
            (_, None) => outcome,
        }
    }

    fn hand_over(&self, seen: &mut Seen) -> u32 {
        if let (Known::Integrity(_, checks), Some((found, took_ns))) = (&self.known, seen.checked.take()) {
            let mut checks = checks.borrow_mut();
            checks.counts[found as usize] += 1;
            checks.took.record(took_ns.max(1)).expect("it grows as it must");
        }
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

    fn checks(&self) -> Option<Checks> {
        match &self.known {
            Known::Integrity(_, checks) => Some(checks.take()),
            _ => None,
        }
    }
}

impl Verifier {
    /// The first value that is not what its key and field make it.
    fn wrong_field(&self, rule: IntegrityRule, seen: &mut Seen, op: &Op<'_>) -> Option<String> {
        for (&hash, &number) in seen.hashes.iter().zip(&seen.numbers) {
            let name = self.field_names.get(number as usize).map_or("?", String::as_str);
            seen.value.clear();
            append_integrity_value(rule.tool, op.key, name, rule.length as usize, &mut seen.value);
            if value_hash(Some(&seen.value)) != hash {
                return Some(format!(
                    "operation {}, key {}, {name}: another value than dataintegrity makes of them (hash {hash:016x})",
                    op.id, op.key
                ));
            }
        }
        None
    }

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
    use crate::clock::ManualClock;

    fn verifier() -> (Verifier, rtrb::Consumer<u64>) {
        let (log, hashes) = rtrb::RingBuffer::new(64);
        let verifier = Verifier {
            log: RefCell::new(log),
            known: Known::Nothing,
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
        verifier.judge(&ManualClock::default(), &mut seen, &op, Outcome::ok(keys.len() as u32))
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
        assert_eq!(verifier.judge(&ManualClock::default(), &mut seen, &op, Outcome::ok(1)), Outcome::ok(1));
        assert_eq!(verifier.hand_over(&mut seen), 3);
        let came: Vec<u64> = std::iter::from_fn(|| hashes.pop().ok()).collect();
        assert_eq!(came, [key_hash("a"), value_hash(Some(b"x")), value_hash(None)]);
        verifier.begin(&mut seen, &op);
        seen.row("a");
        verifier.judge(&ManualClock::default(), &mut seen, &op, Outcome::bare(Status::Conflict));
        assert_eq!(verifier.hand_over(&mut seen), 0);
    }
}
