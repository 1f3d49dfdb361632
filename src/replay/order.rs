//! Waiting for other operations of the trace. A read of a row that the run itself inserts names
//! that insert in `after`; under `--order deps` it starts only when the insert has completed, on
//! whatever session.
//!
//! It cannot deadlock: operations are claimed in trace order and `after` points backwards, so the
//! earliest unfinished operation never waits for anything.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

/// How an operation that others wait for has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Its effect is there.
    Met,
    /// It failed; what depends on it cannot be executed.
    Failed,
}

/// Which operations of a trace have completed: two bits each.
#[derive(Debug)]
pub struct Completions {
    first_op_id: u64,
    /// Bit 2i: operation i completed; bit 2i+1: and failed.
    bits: Vec<AtomicU64>,
    /// Sessions that wait for something; not 0 makes completions look for them.
    waiting: AtomicUsize,
    wakers: Mutex<HashMap<u64, Vec<Waker>>>,
}

impl Completions {
    /// For the operations `first_op_id .. first_op_id + rows`.
    pub fn new(first_op_id: u64, rows: u64) -> Completions {
        let words = rows.div_ceil(32) as usize;
        Completions {
            first_op_id,
            bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            waiting: AtomicUsize::new(0),
            wakers: Mutex::default(),
        }
    }

    /// How `op_id` ended, if it has. An operation outside this file (another shard's) counts as met.
    #[inline]
    pub fn state(&self, op_id: u64) -> Option<Completion> {
        let Some(index) = op_id.checked_sub(self.first_op_id) else { return Some(Completion::Met) };
        let Some(word) = self.bits.get((index / 32) as usize) else { return Some(Completion::Met) };
        match (word.load(Ordering::SeqCst) >> (index % 32 * 2)) & 0b11 {
            0b00 => None,
            0b01 => Some(Completion::Met),
            _ => Some(Completion::Failed),
        }
    }

    /// Notes that `op_id` has ended, and wakes whoever waits for it.
    #[inline]
    pub fn record(&self, op_id: u64, completion: Completion) {
        let Some(index) = op_id.checked_sub(self.first_op_id) else { return };
        let Some(word) = self.bits.get((index / 32) as usize) else { return };
        let bits: u64 = if completion == Completion::Met { 0b01 } else { 0b11 };
        word.fetch_or(bits << (index % 32 * 2), Ordering::SeqCst);
        // Sequentially consistent with `wait`: either it sees the bits, or we see that it waits.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let woken = self.wakers.lock().expect("no panic under this lock").remove(&op_id);
            woken.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// Returns when `op_id` has ended.
    pub async fn wait(&self, op_id: u64) -> Completion {
        if let Some(completion) = self.state(op_id) {
            return completion;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let completion = std::future::poll_fn(|context| {
            let mut wakers = self.wakers.lock().expect("no panic under this lock");
            match self.state(op_id) {
                Some(completion) => Poll::Ready(completion),
                None => {
                    wakers.entry(op_id).or_default().push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        completion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_remembered_and_other_operations_are_untouched() {
        let completions = Completions::new(100, 70);
        completions.record(133, Completion::Met);
        completions.record(134, Completion::Failed);
        assert_eq!(completions.state(132), None);
        assert_eq!(completions.state(133), Some(Completion::Met));
        assert_eq!(completions.state(134), Some(Completion::Failed));
        assert_eq!(completions.state(99), Some(Completion::Met), "an earlier shard's");
    }

    #[test]
    fn whoever_waits_is_woken_from_another_thread() {
        let completions = Completions::new(0, 1000);
        std::thread::scope(|scope| {
            for op_id in 0..1000 {
                let completions = &completions;
                if op_id % 100 == 0 {
                    scope.spawn(move || {
                        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                        let waits = (op_id..op_id + 100).map(|op_id| completions.wait(op_id));
                        for wait in waits {
                            assert_eq!(runtime.block_on(wait), Completion::Met);
                        }
                    });
                }
            }
            for op_id in (0..1000).rev() {
                completions.record(op_id, Completion::Met);
            }
        });
        assert_eq!(completions.waiting.load(Ordering::SeqCst), 0);
    }
}
