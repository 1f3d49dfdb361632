//! Which operation inserted a row? A read of the n-th row that the run inserts depends on the n-th
//! insert of the trace. Remembering every insert would take memory in proportion to the trace, so
//! only their number before every 256th operation is kept; the rest is drawn again when it is
//! needed, because kinds are a pure function of the index.

use std::sync::RwLock;

use crate::op::OpKind;
use crate::rng::{Purpose, Streams};
use crate::workload::OpChooser;

/// Operations between two counts. Finding an insert draws at most this many kinds, once per block
/// and cache.
pub const BLOCK_OPS: u64 = 256;

/// The kind of operation `index` of the run.
#[inline]
pub fn kind_of(chooser: &OpChooser, kinds: Streams, index: u64) -> OpKind {
    chooser.pick(kinds.at(index).unit())
}

/// The number of inserts before each block of the trace, as far as it has been counted.
#[derive(Debug, Default)]
pub struct InsertCounts(RwLock<Vec<u64>>);

impl InsertCounts {
    /// Counts the inserts in `BLOCK_OPS`-aligned blocks from operation `from` to `to`, given those
    /// before `from`; returns those before `to`.
    pub fn extend(&self, chooser: &OpChooser, seed: u64, from: u64, to: u64, mut inserts: u64) -> u64 {
        let kinds = Streams::of(seed, Purpose::Kind);
        let mut counted = Vec::with_capacity((to - from).div_ceil(BLOCK_OPS) as usize);
        for index in from..to {
            if index % BLOCK_OPS == 0 {
                counted.push(inserts);
            }
            inserts += u64::from(kind_of(chooser, kinds, index) == OpKind::Insert);
        }
        self.0.write().expect("no panic under this lock").extend(counted);
        inserts
    }

    /// The block that holds insert number `ordinal` (0-based), and the number of inserts before it.
    fn block_of(&self, ordinal: u64) -> (u64, u64) {
        let counts = self.0.read().expect("no panic under this lock");
        let block = counts.partition_point(|&before| before <= ordinal) - 1;
        (block as u64, counts[block])
    }
}

/// Finds inserts by their number, with a cache of the blocks looked at lately. One per thread.
pub struct InsertFinder<'a> {
    counts: &'a InsertCounts,
    chooser: &'a OpChooser,
    kinds: Streams,
    /// Slot = block mod size: (block, a bit per operation that inserts).
    cache: Vec<(u64, [u64; BLOCK_OPS as usize / 64])>,
}

impl<'a> InsertFinder<'a> {
    const SLOTS: u64 = 4096;

    /// Looks into `counts`, which must cover what will be asked for.
    pub fn new(counts: &'a InsertCounts, chooser: &'a OpChooser, seed: u64) -> InsertFinder<'a> {
        let cache = vec![(u64::MAX, [0; 4]); Self::SLOTS as usize];
        InsertFinder { counts, chooser, kinds: Streams::of(seed, Purpose::Kind), cache }
    }

    /// The operation that is insert number `ordinal` (0-based) of the trace.
    pub fn op_of(&mut self, ordinal: u64) -> u64 {
        let (block, before) = self.counts.block_of(ordinal);
        let slot = &mut self.cache[(block % Self::SLOTS) as usize];
        if slot.0 != block {
            let mut bits = [0u64; 4];
            for offset in 0..BLOCK_OPS {
                let inserts = kind_of(self.chooser, self.kinds, block * BLOCK_OPS + offset) == OpKind::Insert;
                bits[(offset / 64) as usize] |= u64::from(inserts) << (offset % 64);
            }
            *slot = (block, bits);
        }
        let mut rank = (ordinal - before) as u32;
        for (word, mut bits) in slot.1.into_iter().enumerate() {
            if rank >= bits.count_ones() {
                rank -= bits.count_ones();
                continue;
            }
            for _ in 0..rank {
                bits &= bits - 1;
            }
            return block * BLOCK_OPS + word as u64 * 64 + u64::from(bits.trailing_zeros());
        }
        unreachable!("insert {ordinal} is counted in block {block}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_insert_is_found_by_its_number() {
        let chooser = OpChooser::new(&[(OpKind::Read, 0.7), (OpKind::Insert, 0.3)]);
        let ops = 64 * BLOCK_OPS;
        let counts = InsertCounts::default();
        let first = counts.extend(&chooser, 5, 0, ops / 2, 0);
        let total = counts.extend(&chooser, 5, ops / 2, ops, first);
        let kinds = Streams::of(5, Purpose::Kind);
        let expected: Vec<u64> =
            (0..ops).filter(|&op| kind_of(&chooser, kinds, op) == OpKind::Insert).collect();
        assert_eq!(total, expected.len() as u64);
        let mut finder = InsertFinder::new(&counts, &chooser, 5);
        let found: Vec<u64> = (0..total).map(|ordinal| finder.op_of(ordinal)).collect();
        assert_eq!(found, expected);
    }
}
