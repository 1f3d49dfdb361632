//! Reading a result, several threads at a time. Whatever a thread adds up can be merged in any
//! order (whole-number sums, smallest and largest values), so the outcome does not depend on which
//! thread read what.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

use super::quantile::{Collector, Histogram, Request, Selector};
use crate::op::{NEVER_NS, OpKind, Status};
use crate::trace::FileError;
use crate::trace::runs::{RunFile, RunTimes};

/// Kinds of operations.
pub const KINDS: usize = OpKind::ALL.len();
/// Statuses.
pub const STATUSES: usize = Status::ALL.len();

/// What is kept per kind. Service and response need only the successes: in the population of all
/// attempts every other op is infinite. The lag of an op that failed is known if it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// end − start of ops that ended OK.
    Service,
    /// end − intended of ops that ended OK.
    Response,
    /// start − intended of ops that ended OK.
    LagOk,
    /// start − intended of ops that did not end OK.
    LagFailed,
}

/// Number of [`Distribution`]s.
const DISTRIBUTIONS: usize = 4;

/// Position of a kind's distribution among all distributions of a run.
pub fn position(kind: OpKind, distribution: Distribution) -> usize {
    kind as usize * DISTRIBUTIONS + distribution as usize
}

/// Ops of one kind with their intended start in one window. Failures are `ops − ok`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowTally {
    /// Rows.
    pub ops: u64,
    /// Rows that ended OK.
    pub ok: u64,
    /// Sum of their responses.
    pub response_sum_ns: u128,
    /// The longest of their responses.
    pub response_max_ns: u64,
}

/// What the first scan adds up.
pub struct Tally {
    /// By [`position`]; allocated for the kinds that occur.
    histograms: Vec<Histogram>,
    present: [bool; KINDS],
    /// Rows per kind and status.
    pub counts: [[u64; STATUSES]; KINDS],
    /// Rows that did not end OK, by kind, status and code.
    pub failures: BTreeMap<(OpKind, Status, String), u64>,
    /// The first intended start.
    pub first_intended_ns: Option<u64>,
    /// The last answer.
    pub last_end_ns: Option<u64>,
    /// Rows whose times cannot be: an end before the start, a start before the intended start, or an
    /// OK without times.
    pub impossible: u64,
    /// Windows by number and kind.
    pub windows: HashMap<(u64, OpKind), WindowTally>,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            histograms: Vec::new(),
            present: [false; KINDS],
            counts: [[0; STATUSES]; KINDS],
            failures: BTreeMap::new(),
            first_intended_ns: None,
            last_end_ns: None,
            impossible: 0,
            windows: HashMap::new(),
        }
    }

    fn merge(&mut self, other: Tally) {
        if self.histograms.len() < other.histograms.len() {
            self.histograms.resize_with(other.histograms.len(), Histogram::default);
        }
        self.histograms.iter_mut().zip(&other.histograms).for_each(|(one, other)| one.merge(other));
        for kind in 0..KINDS {
            self.present[kind] |= other.present[kind];
            for status in 0..STATUSES {
                self.counts[kind][status] += other.counts[kind][status];
            }
        }
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
        self.first_intended_ns =
            [self.first_intended_ns, other.first_intended_ns].into_iter().flatten().min();
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        self.impossible += other.impossible;
        for (window, tally) in other.windows {
            self.windows.entry(window).or_default().merge(&tally);
        }
    }

    /// The union of some distributions.
    pub fn union(&self, members: &[usize]) -> Histogram {
        let mut union = Histogram::default();
        members.iter().filter_map(|&member| self.histograms.get(member)).for_each(|one| union.merge(one));
        union
    }

    /// Adds a batch of rows.
    fn add(&mut self, rows: &RunTimes, window_ns: u64) {
        let mut cache = WindowCache::new(window_ns);
        for row in 0..rows.kinds.len() {
            let (kind, status) = (rows.kinds[row], rows.statuses[row]);
            let (intended, start, end) = (rows.intended_ns[row] as u64, rows.start_ns[row], rows.end_ns[row]);
            if !self.present[kind as usize] {
                self.present[kind as usize] = true;
                let wanted = (kind as usize + 1) * DISTRIBUTIONS;
                if self.histograms.len() < wanted {
                    self.histograms.resize_with(wanted, Histogram::default);
                }
            }
            self.counts[kind as usize][status as usize] += 1;
            self.first_intended_ns =
                Some(self.first_intended_ns.map_or(intended, |first| first.min(intended)));
            if end != NEVER_NS {
                self.last_end_ns = self.last_end_ns.max(Some(end));
            }
            let window = cache.at(&mut self.windows, kind, intended);
            window.ops += 1;
            let latencies = Latencies::of(intended, start, end);
            if latencies.impossible || (status.is_success() && !latencies.answered) {
                self.impossible += 1;
            }
            let base = kind as usize * DISTRIBUTIONS;
            if status.is_success() {
                window.ok += 1;
                if latencies.answered {
                    window.response_sum_ns += u128::from(latencies.response);
                    window.response_max_ns = window.response_max_ns.max(latencies.response);
                    self.histograms[base + Distribution::Service as usize].record(latencies.service);
                    self.histograms[base + Distribution::Response as usize].record(latencies.response);
                    self.histograms[base + Distribution::LagOk as usize].record(latencies.lag);
                }
            } else {
                if latencies.started {
                    self.histograms[base + Distribution::LagFailed as usize].record(latencies.lag);
                }
                let code = rows.code(row);
                *self.failures.entry((kind, status, code.to_owned())).or_default() += 1;
            }
        }
        cache.flush(&mut self.windows);
    }
}

impl WindowTally {
    fn merge(&mut self, other: &WindowTally) {
        self.ops += other.ops;
        self.ok += other.ok;
        self.response_sum_ns += other.response_sum_ns;
        self.response_max_ns = self.response_max_ns.max(other.response_max_ns);
    }
}

/// Neighbouring rows mostly fall into the same window: remember one per kind within a batch.
struct WindowCache {
    window_ns: u64,
    /// The window of the entries below.
    number: u64,
    tallies: [WindowTally; KINDS],
}

impl WindowCache {
    fn new(window_ns: u64) -> WindowCache {
        WindowCache { window_ns, number: 0, tallies: [WindowTally::default(); KINDS] }
    }

    #[inline]
    fn at(
        &mut self,
        windows: &mut HashMap<(u64, OpKind), WindowTally>,
        kind: OpKind,
        intended_ns: u64,
    ) -> &mut WindowTally {
        let inside = intended_ns.wrapping_sub(self.number * self.window_ns) < self.window_ns;
        if !inside {
            self.flush(windows);
            self.number = intended_ns / self.window_ns;
        }
        &mut self.tallies[kind as usize]
    }

    fn flush(&mut self, windows: &mut HashMap<(u64, OpKind), WindowTally>) {
        for kind in OpKind::ALL {
            let tally = std::mem::take(&mut self.tallies[kind as usize]);
            if tally.ops > 0 {
                windows.entry((self.number, kind)).or_default().merge(&tally);
            }
        }
    }
}

/// The three series of one row.
struct Latencies {
    service: u64,
    response: u64,
    lag: u64,
    started: bool,
    answered: bool,
    impossible: bool,
}

impl Latencies {
    #[inline]
    fn of(intended: u64, start: u64, end: u64) -> Latencies {
        let started = start != NEVER_NS;
        let answered = started && end != NEVER_NS;
        Latencies {
            service: end.saturating_sub(start),
            response: end.saturating_sub(intended),
            lag: start.saturating_sub(intended),
            started,
            answered,
            impossible: (started && start < intended) || (answered && end < start),
        }
    }
}

/// Reads every row group, each by whichever thread is free, into one state per thread.
pub(super) fn each_row_group<S: Send>(
    file: &RunFile,
    state: impl Fn() -> S + Sync,
    read: impl Fn(usize, &mut S) -> Result<(), FileError> + Sync,
) -> Result<Vec<S>, FileError> {
    let row_groups = file.row_groups();
    // Histograms are per thread, so more threads cost memory; eight saturate any disk.
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8).min(row_groups).max(1);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut state = state();
        loop {
            let row_group = next.fetch_add(1, Ordering::Relaxed);
            if row_group >= row_groups {
                return Ok(state);
            }
            read(row_group, &mut state)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a scan does not panic")).collect()
    })
}

/// The first scan: everything but the percentiles.
pub fn tally(file: &RunFile, window_ns: u64) -> Result<Tally, FileError> {
    let all_ok = file.meta.counts.values().flatten().all(|(status, _)| status == Status::Ok.name());
    let parts = each_row_group(file, Tally::new, |row_group, tally| {
        file.scan_times(row_group, !all_ok, |rows| tally.add(rows, window_ns))
    })?;
    let mut tally = Tally::new();
    parts.into_iter().for_each(|part| tally.merge(part));
    tally.histograms.resize_with(KINDS * DISTRIBUTIONS, Histogram::default);
    Ok(tally)
}

/// The values of the requested ranks, by further scans where the tally does not settle them.
pub fn select(file: &RunFile, tally: &Tally, requests: Vec<Request>) -> Result<Vec<Vec<u64>>> {
    let mut selector = Selector::new(&tally.histograms, requests);
    while !selector.is_settled() {
        let parts = each_row_group(
            file,
            || selector.collector().expect("not settled yet"),
            |row_group, collector| file.scan_times(row_group, false, |rows| collect(rows, collector)),
        )?;
        selector
            .absorb(parts)
            .map_err(|_| anyhow!("{} changed while it was read; try again", file.path().display()))?;
    }
    Ok(selector.answers())
}

fn collect(rows: &RunTimes, collector: &mut Collector) {
    for row in 0..rows.kinds.len() {
        let base = rows.kinds[row] as usize * DISTRIBUTIONS;
        let latencies = Latencies::of(rows.intended_ns[row] as u64, rows.start_ns[row], rows.end_ns[row]);
        if rows.statuses[row].is_success() {
            if latencies.answered {
                collector.offer(base + Distribution::Service as usize, latencies.service);
                collector.offer(base + Distribution::Response as usize, latencies.response);
                collector.offer(base + Distribution::LagOk as usize, latencies.lag);
            }
        } else if latencies.started {
            collector.offer(base + Distribution::LagFailed as usize, latencies.lag);
        }
    }
}
