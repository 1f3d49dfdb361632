//! Rows that a scan left out. A scan promises every row from its start key on, up to the number it was
//! asked for; the keys that both traces know and that should lie between those it returned, but do
//! not, are reads that did not find their row. Whether such a row had to be there is then decided as
//! for every other read.

use std::collections::HashMap;

use crate::op::OpKind;
use crate::record::key_hash;
use crate::trace::FileError;
use crate::trace::ops::TraceReader;

/// Keys and scans that are held in memory at most; some 60 bytes each.
const MOST: u64 = 4_000_000;

/// Keys looked at beyond the rows that were asked for: those that the run inserts or deletes may be
/// missing rightly, and an answer without any row must not name the whole table.
const LOOK_AHEAD: usize = 1_000;

/// What one scan was asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Rank of the first key that is not before its start key.
    first: u32,
    /// Rows.
    rows: u32,
}

/// The order of all keys of the traces, and what the scans were asked for.
#[derive(Debug)]
pub struct Scans {
    /// Hash of each key, in the byte order of the keys.
    hashes: Vec<u64>,
    /// Key hash → rank.
    ranks: HashMap<u64, u32>,
    /// Scan → what it was asked for.
    asked: HashMap<u64, Asked>,
}

impl Scans {
    /// Of these traces (load, run); `None` if the run has no scan, or keys and scans are too many to
    /// hold, which `note` is told.
    pub fn read(
        traces: &[&std::path::Path],
        mut note: impl FnMut(String),
    ) -> Result<Option<Scans>, FileError> {
        let mut entries = 0;
        let mut has_scans = false;
        for path in traces {
            let meta = TraceReader::open(path)?.meta().clone();
            entries += meta.rows;
            has_scans |= meta.op_counts.contains_key(OpKind::Scan.name());
        }
        if !has_scans {
            return Ok(None);
        }
        if entries > MOST {
            note(format!(
                "rows that scans leave out were not looked for: the traces have {entries} operations, more than {MOST}"
            ));
            return Ok(None);
        }
        let mut keys: Vec<Box<str>> = Vec::new();
        let mut starts: Vec<(u64, Box<str>, u32)> = Vec::new();
        for path in traces {
            let mut reader = TraceReader::open(path)?;
            while let Some(block) = reader.next_block()? {
                for row in 0..block.len() {
                    match block.kind(row) {
                        OpKind::Insert => keys.push(block.key(row).into()),
                        OpKind::Scan => {
                            starts.push((block.id(row), block.key(row).into(), block.scan_len(row)));
                        }
                        _ => {}
                    }
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let ask = |(id, start, rows): (u64, Box<str>, u32)| {
            (id, Asked { first: keys.partition_point(|key| *key < start) as u32, rows })
        };
        let asked = starts.into_iter().map(ask).collect();
        let hashes: Vec<u64> = keys.iter().map(|key| key_hash(key)).collect();
        let ranks = hashes.iter().zip(0..).map(|(&hash, rank)| (hash, rank)).collect();
        Ok(Some(Scans { hashes, ranks, asked }))
    }

    /// The keys (by their hashes) that scan `id` should have returned beside those it `saw`, if
    /// their rows were there.
    pub fn left_out(&self, id: u64, saw: impl ExactSizeIterator<Item = u64>) -> Vec<u64> {
        let Some(&Asked { first, rows }) = self.asked.get(&id) else { return Vec::new() };
        let (rows, returned) = (rows as usize, saw.len());
        let mut seen: Vec<u32> = saw.filter_map(|hash| self.ranks.get(&hash).copied()).collect();
        seen.sort_unstable();
        // With fewer rows than asked for it says that nothing follows.
        let end = if returned < rows {
            self.hashes.len() as u32
        } else {
            seen.last().map_or(first, |&last| last + 1)
        };
        let end = end.min(first.saturating_add((rows + LOOK_AHEAD) as u32));
        let missing = (first..end).filter(|rank| seen.binary_search(rank).is_err());
        missing.map(|rank| self.hashes[rank as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scans(first: u32, rows: u32) -> Scans {
        let hashes: Vec<u64> = (100..110).collect();
        let ranks = hashes.iter().zip(0..).map(|(&hash, rank)| (hash, rank)).collect();
        Scans { hashes, ranks, asked: [(7, Asked { first, rows })].into() }
    }

    #[test]
    fn between_the_rows_of_a_full_answer_nothing_may_be_missing() {
        let left_out = scans(2, 3).left_out(7, [102, 104, 106].into_iter());
        assert_eq!(left_out, [103, 105]);
    }

    #[test]
    fn an_answer_that_is_not_full_says_that_nothing_follows() {
        assert_eq!(scans(6, 5).left_out(7, [106, 107].into_iter()), [108, 109]);
        assert_eq!(scans(8, 5).left_out(7, [].into_iter()), [108, 109]);
        assert!(scans(10, 5).left_out(7, [].into_iter()).is_empty());
    }

    #[test]
    fn rows_that_no_trace_knows_count_as_returned() {
        assert!(scans(2, 3).left_out(7, [102, 999, 103].into_iter()).is_empty());
        assert!(scans(2, 3).left_out(8, [102].into_iter()).is_empty());
    }
}
