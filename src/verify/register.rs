//! Is the history of one register linearizable? A register is one field of one row. Since every
//! value names the write that made it, the operations fall into *clusters*: a write and the reads
//! that saw it. In any legal order a cluster is one piece, so only clusters need ordering, and that
//! is decided in n log n (Gibbons and Korach, *Testing shared memories*, 1997) where the general
//! question is NP-complete.
//!
//! Let m be the earliest end and M the latest start within a cluster. If an operation of A ended
//! before one of B began (m of A < M of B), then A comes before B. The history is linearizable if
//! and only if no read ended before its write began, and no two clusters come before each other: of
//! a longer circle, the cluster with the least m and the one before it always are such a pair.
//!
//! Ties count as concurrent, so that a clock too coarse for the operations never raises an alarm.

use crate::op::NEVER_NS;

/// An operation on the register, by its place in the caller's list, and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Which operation.
    pub op: u32,
    /// When it began.
    pub start: u64,
    /// When it ended; [`NEVER_NS`] for a write of which it is unknown whether it happened.
    pub end: u64,
}

/// A write and the reads that saw its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// The write.
    pub write: Span,
    /// Positions of the reads in the list.
    pub reads: std::ops::Range<usize>,
}

/// What cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// A read ended before the write of its value began.
    Future {
        /// The read.
        read: u32,
        /// The write.
        write: u32,
    },
    /// A read saw a value that had been overwritten before the read began.
    Stale {
        /// The read.
        read: u32,
        /// The write that it saw.
        write: u32,
        /// The write that it should have seen, or a later one.
        overwritten_by: u32,
    },
    /// Two values were seen in turns, whose writes were concurrent.
    Disordered {
        /// The latest read of the one.
        read: u32,
        /// Its write.
        write: u32,
        /// The latest read of the other, or its write.
        other_read: u32,
        /// Its write.
        other_write: u32,
    },
}

/// The part of a cluster that orders it.
struct Zone {
    cluster: usize,
    /// m: the earliest end of an operation.
    first_end: u64,
    /// M: the latest start of an operation.
    last_start: u64,
}

/// Reports what cannot be; nothing if and only if the history is linearizable.
pub fn decide(clusters: &[Cluster], reads: &[Span]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut zones = Vec::new();
    for (cluster, Cluster { write, reads: range }) in clusters.iter().enumerate() {
        let mut zone = Zone { cluster, first_end: write.end, last_start: write.start };
        let mut seen = write.end != NEVER_NS;
        for read in &reads[range.clone()] {
            if read.end < write.start {
                found.push(Violation::Future { read: read.op, write: write.op });
                continue;
            }
            seen = true;
            zone.first_end = zone.first_end.min(read.end);
            zone.last_start = zone.last_start.max(read.start);
        }
        // A write that nobody saw and that may not have happened orders nothing.
        if seen {
            zones.push(zone);
        }
    }
    // A value was certainly overwritten by a write that began after an operation on the value ended.
    let mut is_stale = vec![false; zones.len()];
    let overwriters = Earliest::new(&zones, |zone| clusters[zone.cluster].write.start);
    for (position, zone) in zones.iter().enumerate() {
        let Some(other) = overwriters.after(&zones, position) else { continue };
        let Cluster { write, reads: range } = &clusters[zone.cluster];
        let overwritten_by = clusters[zones[other].cluster].write.op;
        for read in &reads[range.clone()] {
            if read.end >= write.start && read.start > zones[other].first_end {
                found.push(Violation::Stale { read: read.op, write: write.op, overwritten_by });
                is_stale[position] = true;
            }
        }
    }
    // What remains: two clusters that come before each other.
    let mut disordered = Vec::new();
    let followers = Earliest::new(&zones, |zone| zone.last_start);
    for (position, zone) in zones.iter().enumerate() {
        let Some(other) = followers.after(&zones, position) else { continue };
        if zones[other].first_end < zone.last_start && !is_stale[position] && !is_stale[other] {
            disordered.push((position.min(other), position.max(other)));
        }
    }
    disordered.sort_unstable();
    disordered.dedup();
    for (one, other) in disordered {
        let latest = |zone: &Zone| {
            let Cluster { write, reads: range } = &clusters[zone.cluster];
            let seen = reads[range.clone()].iter().filter(|read| read.end >= write.start);
            (seen.max_by_key(|read| read.start).unwrap_or(write).op, write.op)
        };
        let ((read, write), (other_read, other_write)) = (latest(&zones[one]), latest(&zones[other]));
        found.push(Violation::Disordered { read, write, other_read, other_write });
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Finds, among the zones whose time (of some kind) is after a zone's m, the one with the least m.
struct Earliest {
    /// The times, falling: those after a moment are a beginning of this list.
    times: Vec<u64>,
    /// For each beginning, the zones with the least and the second least m.
    least: Vec<[usize; 2]>,
}

const NONE: usize = usize::MAX;

impl Earliest {
    fn new(zones: &[Zone], time: impl Fn(&Zone) -> u64) -> Earliest {
        let mut order: Vec<usize> = (0..zones.len()).collect();
        order.sort_by_key(|&zone| std::cmp::Reverse(time(&zones[zone])));
        let earlier =
            |one: usize, other: usize| other == NONE || zones[one].first_end < zones[other].first_end;
        let mut latest = [NONE; 2];
        let least = order.iter().map(|&zone| {
            let [first, second] = latest;
            if earlier(zone, first) {
                latest = [zone, first];
            } else if earlier(zone, second) {
                latest = [first, zone];
            }
            latest
        });
        let least = least.collect();
        Earliest { times: order.iter().map(|&zone| time(&zones[zone])).collect(), least }
    }

    /// For zone number `position`; not that zone itself.
    fn after(&self, zones: &[Zone], position: usize) -> Option<usize> {
        let after = self.times.partition_point(|&time| time > zones[position].first_end);
        let [first, second] = self.least[after.checked_sub(1)?];
        let other = if first == position { second } else { first };
        (other != NONE).then_some(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn span(op: u32, start: u64, end: u64) -> Span {
        Span { op, start, end }
    }

    /// (write, its reads), the first one the initial value.
    fn violations(history: &[(Span, &[Span])]) -> Vec<Violation> {
        let mut reads = Vec::new();
        let clusters: Vec<Cluster> = history
            .iter()
            .map(|(write, seen)| {
                let from = reads.len();
                reads.extend_from_slice(seen);
                Cluster { write: *write, reads: from..reads.len() }
            })
            .collect();
        decide(&clusters, &reads)
    }

    const INITIAL: Span = Span { op: 0, start: 0, end: 0 };

    #[test]
    fn a_read_during_a_write_may_see_either_value() {
        let write = span(1, 10, 20);
        assert_eq!(violations(&[(INITIAL, &[span(2, 11, 19)]), (write, &[span(3, 11, 19)])]), []);
        assert_eq!(violations(&[(INITIAL, &[span(2, 11, 12)]), (write, &[span(3, 13, 14)])]), []);
    }

    #[test]
    fn a_value_overwritten_before_the_read_began_is_stale() {
        let stale = Violation::Stale { read: 2, write: 0, overwritten_by: 1 };
        assert_eq!(violations(&[(INITIAL, &[span(2, 21, 22)]), (span(1, 10, 20), &[])]), [stale]);
        // Another read has seen the new value: the write is done, whatever its end.
        let unknown = span(1, 10, NEVER_NS);
        assert_eq!(violations(&[(INITIAL, &[span(2, 21, 22)]), (unknown, &[span(3, 15, 19)])]), [stale]);
        assert_eq!(violations(&[(INITIAL, &[span(2, 20, 22)]), (span(1, 10, 20), &[])]), [], "a tie");
    }

    #[test]
    fn every_late_read_is_named_and_no_early_one() {
        let reads = [span(2, 5, 6), span(3, 15, 30), span(4, 21, 22), span(5, 25, 26)];
        let named: Vec<u32> = violations(&[(INITIAL, &reads), (span(1, 10, 20), &[])])
            .into_iter()
            .map(|violation| match violation {
                Violation::Stale { read, .. } => read,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(named, [4, 5]);
    }

    #[test]
    fn a_read_is_stale_once_however_many_writes_it_should_have_seen() {
        let writes: Vec<Span> =
            (1..5).map(|op| span(op, 10 * u64::from(op), 10 * u64::from(op) + 5)).collect();
        let read = [span(9, 90, 95)];
        let mut history: Vec<(Span, &[Span])> = writes.iter().map(|write| (*write, &[][..])).collect();
        history.push((INITIAL, &read));
        assert_eq!(violations(&history), [Violation::Stale { read: 9, write: 0, overwritten_by: 1 }]);
    }

    #[test]
    fn a_write_that_may_not_have_happened_blames_nobody() {
        let unknown = span(1, 10, NEVER_NS);
        assert_eq!(violations(&[(INITIAL, &[span(2, 100, 110)]), (unknown, &[])]), []);
        // It may also happen long after its operation was given up.
        assert_eq!(violations(&[(INITIAL, &[span(2, 100, 110)]), (unknown, &[span(3, 200, 210)])]), []);
    }

    #[test]
    fn a_value_read_before_its_write_began_comes_from_elsewhere() {
        let future = Violation::Future { read: 2, write: 1 };
        assert_eq!(violations(&[(INITIAL, &[]), (span(1, 10, 20), &[span(2, 5, 9)])]), [future]);
    }

    #[test]
    fn two_values_seen_in_turns_are_disordered() {
        let one: (Span, &[Span]) = (span(1, 10, 100), &[span(3, 20, 21), span(5, 40, 41)]);
        let other: (Span, &[Span]) = (span(2, 10, 100), &[span(4, 30, 31), span(6, 50, 51)]);
        let found = violations(&[(INITIAL, &[]), one, other]);
        assert!(matches!(found[..], [Violation::Disordered { .. }]), "{found:?}");
    }

    /// A write or a read of a small history.
    #[derive(Debug, Clone, Copy)]
    struct Act {
        write: Option<usize>,
        sees: usize,
        start: u64,
        end: u64,
    }

    /// Tries every order.
    fn has_order(acts: &[Act], done: u32, value: usize) -> bool {
        let open = |index: usize| done & (1 << index) == 0;
        if (0..acts.len()).all(|index| !open(index) || acts[index].end == NEVER_NS) {
            return true;
        }
        (0..acts.len()).any(|index| {
            let act = acts[index];
            let next = || (0..acts.len()).all(|other| !open(other) || acts[other].end >= act.start);
            if !open(index) || !next() {
                return false;
            }
            match act.write {
                Some(written) => has_order(acts, done | 1 << index, written),
                None => act.sees == value && has_order(acts, done | 1 << index, value),
            }
        })
    }

    #[test]
    fn the_verdict_is_that_of_trying_every_order() {
        let mut verdicts = [0; 2];
        for case in 0..60_000 {
            let mut stream = Stream::from_key(case);
            let count = 2 + stream.below(5) as usize;
            let writes = 1 + stream.below(count as u64) as usize;
            let acts: Vec<Act> = (0..count)
                .map(|index| {
                    let start = 1 + stream.below(12);
                    let length = stream.below(8);
                    let unknown = index < writes && stream.below(4) == 0;
                    let end = if unknown { NEVER_NS } else { start + length };
                    let sees = stream.below(writes as u64 + 1) as usize;
                    Act { write: (index < writes).then_some(index + 1), sees, start, end }
                })
                .collect();
            let seen = |value: usize| -> Vec<Span> {
                let reads =
                    acts.iter().enumerate().filter(|(_, act)| act.write.is_none() && act.sees == value);
                reads.map(|(index, act)| span(index as u32 + 1, act.start, act.end)).collect()
            };
            let lists: Vec<Vec<Span>> = (0..=writes).map(seen).collect();
            let history: Vec<(Span, &[Span])> = lists
                .iter()
                .enumerate()
                .map(|(value, reads)| match value.checked_sub(1) {
                    None => (INITIAL, &reads[..]),
                    Some(index) => (span(value as u32, acts[index].start, acts[index].end), &reads[..]),
                })
                .collect();
            let legal = has_order(&acts, 0, 0);
            let found = violations(&history);
            assert_eq!(found.is_empty(), legal, "case {case}: {acts:?} {found:?}");
            verdicts[usize::from(legal)] += 1;
        }
        assert!(verdicts.iter().all(|&cases| cases > 5_000), "{verdicts:?}");
    }
}
