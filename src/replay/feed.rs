//! The trace is the queue. A reader thread decodes blocks of operations ahead of the clock; an idle
//! session claims the next row of the current block. There is no dispatcher and no channel, nothing
//! can fill up: when every session is busy, rows wait in the file.
//!
//! A claim is one atomic increment on a block that the lane holds already, so rows are claimed in
//! trace order, each exactly once, and a block is freed when the last session is done with it.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::Notify;
use xxhash_rust::xxh3::xxh3_64;

use super::order::Completions;
use crate::trace::FileError;
use crate::trace::ops::{OpBlock, TraceReader};

/// Blocks decoded ahead of the one being claimed.
const BLOCKS_AHEAD: usize = 6;

/// A decoded block and how far it has been claimed.
#[derive(Debug)]
pub struct Block {
    /// Position in the trace, 0, 1, 2 …
    number: u64,
    /// The operations.
    pub ops: OpBlock,
    /// Units before this block: transactions of a statement trace, else operations.
    pub first_unit: u64,
    /// Units in it.
    units: usize,
    claimed: AtomicUsize,
    /// Only one thread claims.
    one_lane: bool,
    /// For each row the operation before it on the same key, if that may still be unfinished.
    previous_on_key: Option<Vec<Option<NonZeroU64>>>,
}

impl Block {
    /// The operation before this row's on the same key, if the run keeps that order and it may
    /// still be unfinished.
    #[inline]
    pub fn previous_on_key(&self, row: usize) -> Option<u64> {
        self.previous_on_key.as_ref()?[row].map(|previous| previous.get() - 1)
    }

    /// The next row of this block that nobody has claimed; in a statement trace the next transaction,
    /// whose rows are [`OpBlock::rows_of`] it.
    #[inline]
    pub fn claim(&self) -> Option<usize> {
        let unit = if self.one_lane {
            // A locked increment waits until everything before it is written: 20 ns an operation.
            let unit = self.claimed.load(Ordering::Relaxed);
            self.claimed.store(unit + 1, Ordering::Relaxed);
            unit
        } else {
            self.claimed.fetch_add(1, Ordering::Relaxed)
        };
        (unit < self.units).then_some(unit)
    }
}

#[derive(Debug, Default)]
struct State {
    /// The current block and those decoded ahead.
    blocks: VecDeque<Arc<Block>>,
    /// Units in blocks that are claimed to their end and gone.
    exhausted_units: u64,
    /// Nothing more will come.
    ended: bool,
    /// Nothing more is wanted.
    closed: bool,
    failure: Option<FileError>,
}

/// Blocks of one trace, in order, for any number of lanes.
#[derive(Debug, Default)]
pub struct Feed {
    state: Mutex<State>,
    arrived: Notify,
    space: Condvar,
    one_lane: bool,
}

impl Feed {
    /// For a run of so many lanes.
    pub fn for_lanes(lanes: u32) -> Feed {
        Feed { one_lane: lanes == 1, ..Feed::default() }
    }

    /// Reads the whole trace into the feed; returns when everything is decoded or the feed is
    /// closed. Runs on a thread of its own.
    ///
    /// With `completions`, every row learns which operation precedes it on its key.
    pub fn fill(&self, mut reader: TraceReader, completions: Option<&Completions>) {
        let mut keys = completions.map(KeyOrder::new);
        let mut first_unit = 0;
        for number in 0.. {
            let next = reader.next_block();
            let previous = match (&mut keys, &next) {
                (Some(keys), Ok(Some(ops))) => Some(keys.previous(ops)),
                _ => None,
            };
            let mut state = self.state.lock().expect("no panic under this lock");
            match next {
                Ok(Some(ops)) => {
                    let (units, claimed, one_lane) = (ops.units(), AtomicUsize::new(0), self.one_lane);
                    let block = Block {
                        number,
                        ops,
                        first_unit,
                        units,
                        claimed,
                        one_lane,
                        previous_on_key: previous,
                    };
                    first_unit += units as u64;
                    state.blocks.push_back(Arc::new(block));
                }
                Ok(None) => state.ended = true,
                Err(failure) => {
                    state.failure = Some(failure);
                    state.ended = true;
                }
            }
            self.arrived.notify_waiters();
            let full = |state: &mut State| state.blocks.len() > BLOCKS_AHEAD && !state.closed;
            let state = self.space.wait_while(state, full).expect("no panic under this lock");
            if state.ended || state.closed {
                return;
            }
        }
    }

    /// The block to claim from after `exhausted` (the first one after `None`); `None` at the end.
    pub async fn block_after(&self, exhausted: Option<&Block>) -> Option<Arc<Block>> {
        let wanted = exhausted.map_or(0, |block| block.number + 1);
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            arrived.as_mut().enable();
            {
                let mut state = self.state.lock().expect("no panic under this lock");
                while state.blocks.front().is_some_and(|block| block.number < wanted) {
                    let gone = state.blocks.pop_front().expect("there is a front block");
                    state.exhausted_units = gone.first_unit + gone.units as u64;
                    self.space.notify_one();
                }
                // Another lane may be ahead of us: then our next block is exhausted and gone, and
                // the oldest one that is left comes next.
                if let Some(block) = state.blocks.front() {
                    return Some(block.clone());
                }
                if state.ended || state.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Lets the reader thread end before the end of the trace.
    pub fn close(&self) {
        self.state.lock().expect("no panic under this lock").closed = true;
        self.space.notify_all();
        self.arrived.notify_waiters();
    }

    /// Has every operation of the trace been claimed?
    pub fn is_exhausted(&self) -> bool {
        let state = self.state.lock().expect("no panic under this lock");
        let claimed = |block: &Arc<Block>| block.claimed.load(Ordering::Relaxed) >= block.units;
        state.closed || state.ended && state.blocks.iter().all(claimed)
    }

    /// Units claimed so far: transactions of a statement trace, else operations.
    pub fn claimed(&self) -> u64 {
        let state = self.state.lock().expect("no panic under this lock");
        state.blocks.front().map_or(state.exhausted_units, |block| {
            block.first_unit + block.claimed.load(Ordering::Relaxed).min(block.units) as u64
        })
    }

    /// What stopped the reading, if something did.
    pub fn take_failure(&self) -> Option<FileError> {
        self.state.lock().expect("no panic under this lock").failure.take()
    }
}

/// The latest operation on each key, for `--order key`.
struct KeyOrder<'a> {
    completions: &'a Completions,
    /// Hash of the key → operation. Two keys with one hash only wait for each other needlessly.
    latest: HashMap<u64, u64>,
    /// Entries at which completed operations are forgotten.
    sweep_at: usize,
}

impl KeyOrder<'_> {
    fn new(completions: &Completions) -> KeyOrder<'_> {
        KeyOrder { completions, latest: HashMap::new(), sweep_at: 1 << 16 }
    }

    /// For each row the operation before it on its key (plus one, so that none costs no space).
    fn previous(&mut self, ops: &OpBlock) -> Vec<Option<NonZeroU64>> {
        if self.latest.len() >= self.sweep_at {
            self.latest.retain(|_, op_id| self.completions.state(*op_id).is_none());
            self.sweep_at = (self.latest.len() * 2).max(1 << 16);
        }
        let previous = |row: usize| {
            let op_id = ops.id(row);
            let before = self.latest.insert(xxh3_64(ops.key(row).as_bytes()), op_id)?;
            NonZeroU64::new(before + 1)
        };
        (0..ops.len()).map(previous).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind;
    use crate::trace::chunk::{ChunkBuilder, Row, RowValues, TraceWriter};
    use crate::trace::meta::{Phase, TraceMeta};

    #[test]
    fn every_row_is_claimed_once_and_the_count_stays_when_the_trace_is_exhausted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.run.parquet");
        let mut writer = TraceWriter::create(&path, false).unwrap();
        let mut rows = ChunkBuilder::new(1000);
        for id in 0..1000 {
            let row = Row {
                kind: OpKind::Read,
                key: b"user1",
                fields: None,
                values: RowValues::None,
                scan_len: None,
                at_ns: None,
                after: None,
            };
            rows.push(id, &row);
        }
        let chunk = writer.encoder().encode(&mut rows).unwrap();
        writer.append(chunk).unwrap();
        writer.finish(TraceMeta::empty("t", Phase::Run)).unwrap();

        for lanes in [1, 2] {
            let feed = Feed::for_lanes(lanes);
            feed.fill(TraceReader::open(&path).unwrap(), None);
            assert_eq!(feed.claimed(), 0);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut claimed = 0;
            let mut block = runtime.block_on(feed.block_after(None));
            while let Some(current) = block {
                while current.claim().is_some() {
                    claimed += 1;
                    assert_eq!(feed.claimed(), claimed);
                }
                block = runtime.block_on(feed.block_after(Some(&current)));
            }
            assert_eq!((claimed, feed.claimed()), (1000, 1000));
        }
    }
}
