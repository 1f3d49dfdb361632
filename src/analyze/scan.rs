//! Reading a result, several threads at a time. Whatever a thread adds up can be merged in any
//! order (whole-number sums, smallest and largest values), so the outcome does not depend on which
//! thread read what.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

use super::quantile::{Collector, Histogram, Request, Selector};
use super::sparse::{Filling, Sparse};
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
    /// end − start of ops that were answered, but not OK.
    ServiceFailed,
    /// Of the reads of read-modify-writes: end − start of those that found their row,
    ReadHalf,
    /// end − intended of the same,
    ReadHalfResponse,
    /// end − start of those that were answered, but did not.
    ReadHalfFailed,
    /// Of the updates of read-modify-writes: end − start of those that ended OK,
    UpdateHalf,
    /// and of those that were answered, but not OK.
    UpdateHalfFailed,
    /// (end − start) / rows of scans that ended OK and found some.
    PerRow,
}

/// Number of [`Distribution`]s.
const DISTRIBUTIONS: usize = 11;

/// Position of a kind's distribution among all distributions of a run.
pub fn position(kind: OpKind, distribution: Distribution) -> usize {
    kind as usize * DISTRIBUTIONS + distribution as usize
}

/// Histograms of a window: response, service, lag, each of the ops that ended OK.
pub const WINDOW_SERIES: usize = 3;

/// Ops of one kind with their intended start in one window; the last four by the clock. Failures are
/// `ops − ok`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowTally {
    /// Rows.
    pub ops: u64,
    /// Rows that ended OK.
    pub ok: u64,
    /// Sum of their responses.
    pub response_sum_ns: u128,
    /// The longest of their responses.
    pub response_max_ns: u64,
    /// Response, service and lag of them.
    pub histograms: [Sparse; WINDOW_SERIES],
    /// Ops whose end lies in this window.
    pub completed: u64,
    /// Of these, OK.
    pub completed_ok: u64,
    /// Time that ops spent in the database in this window, where it is the first or last of theirs.
    pub busy_ns: u64,
    /// Ops that are in the database from the start of this window on, to the end of it or longer, and
    /// were not before (less those that no longer are).
    pub throughout: i64,
}

/// Where rows are to be found, and what to make of their times.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// A result.
    pub file: &'a RunFile,
    /// Added to its times, so that parts of one run share a time line. Differences do not see it.
    pub offset_ns: u64,
}

/// How to look at rows.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Length of a window; not 0.
    pub window_ns: u64,
    /// Rows with an intended start before this are only counted in windows.
    pub from_ns: u64,
    /// An op that starts later than this after its time is late.
    pub late_ns: u64,
}

/// Where lag came from, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LagSums {
    /// The session was busy with an earlier op.
    pub server_ns: u128,
    /// Waiting for another op of the trace.
    pub order_ns: u128,
    /// Neither.
    pub client_ns: u128,
}

impl LagSums {
    /// The lag of one op; `free_ns` is when its session was done with the op before.
    fn add(&mut self, intended_ns: u64, start_ns: u64, blocked_ns: u64, free_ns: u64) {
        let lag = start_ns.saturating_sub(intended_ns);
        let order = if blocked_ns == NEVER_NS { 0 } else { blocked_ns.min(lag) };
        let server = free_ns.min(start_ns).saturating_sub(intended_ns).min(lag - order);
        self.server_ns += u128::from(server);
        self.order_ns += u128::from(order);
        self.client_ns += u128::from(lag - order - server);
    }

    fn merge(&mut self, other: LagSums) {
        self.server_ns += other.server_ns;
        self.order_ns += other.order_ns;
        self.client_ns += other.client_ns;
    }
}

/// One session within one row group: rows of a session are in the order of their execution.
struct Turn {
    /// Its first row waits for the row group before: intended start, start, blocked.
    first: (u64, u64, u64),
    /// Start and end of its latest row, and the end before that one's batch.
    start_ns: u64,
    end_ns: u64,
    free_ns: Option<u64>,
}

/// What the first scan adds up.
pub struct Tally {
    /// By [`position`]; allocated for the kinds that occur.
    histograms: Vec<Histogram>,
    present: [bool; KINDS],
    /// Rows per kind and status.
    pub counts: [[u64; STATUSES]; KINDS],
    /// Of the reads and of the updates that read-modify-writes are made of: how many per status.
    pub halves: [[u64; STATUSES]; 2],
    /// Read-modify-writes that ended OK without a word about when their read did.
    pub undivided: u64,
    /// Rows that did not end OK, by kind, status and code.
    pub failures: BTreeMap<(OpKind, Status, String), u64>,
    /// The first intended start.
    pub first_intended_ns: Option<u64>,
    /// The last answer.
    pub last_end_ns: Option<u64>,
    /// Rows whose times cannot be: an end before the start, a start before the intended start, or an
    /// OK without times.
    pub impossible: u64,
    /// The last intended start.
    pub last_intended_ns: Option<u64>,
    /// Windows by number and kind.
    pub windows: HashMap<(u64, OpKind), WindowTally>,
    /// Rows that were only counted in windows, by kind and status.
    pub cut: [[u64; STATUSES]; KINDS],
    /// Files read.
    pub files: usize,
    /// Answered rows, the cut ones too, and the time they spent in the database.
    pub answered: u64,
    /// ns.
    pub service_ns: u128,
    /// Rows that started late.
    pub late: u64,
    /// Where lag came from.
    pub lag: LagSums,
    /// Per part of the files read: the sessions in it.
    turns: BTreeMap<usize, BTreeMap<i32, Turn>>,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            histograms: Vec::new(),
            present: [false; KINDS],
            counts: [[0; STATUSES]; KINDS],
            halves: [[0; STATUSES]; 2],
            undivided: 0,
            failures: BTreeMap::new(),
            first_intended_ns: None,
            last_end_ns: None,
            impossible: 0,
            last_intended_ns: None,
            windows: HashMap::new(),
            cut: [[0; STATUSES]; KINDS],
            files: 0,
            answered: 0,
            service_ns: 0,
            late: 0,
            lag: LagSums::default(),
            turns: BTreeMap::new(),
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
                self.cut[kind][status] += other.cut[kind][status];
            }
        }
        for (mine, theirs) in self.halves.iter_mut().flatten().zip(other.halves.iter().flatten()) {
            *mine += theirs;
        }
        self.undivided += other.undivided;
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
        self.first_intended_ns =
            [self.first_intended_ns, other.first_intended_ns].into_iter().flatten().min();
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        self.last_intended_ns = self.last_intended_ns.max(other.last_intended_ns);
        self.impossible += other.impossible;
        self.late += other.late;
        self.answered += other.answered;
        self.service_ns += other.service_ns;
        self.lag.merge(other.lag);
        self.turns.extend(other.turns);
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

    /// The rows that count, with those that were cut: what the file holds.
    pub fn in_file(&self, kind: OpKind, status: Status) -> u64 {
        let at = |counts: &[[u64; STATUSES]; KINDS]| counts[kind as usize][status as usize];
        at(&self.counts) + at(&self.cut)
    }

    /// The kinds of YCSB, and the others that occur.
    pub fn kinds(&self) -> Vec<OpKind> {
        let occurs = |kind: &OpKind| {
            OpKind::YCSB.contains(kind) || self.counts[*kind as usize].iter().any(|count| *count > 0)
        };
        OpKind::ALL.into_iter().filter(occurs).collect()
    }

    /// Adds a batch of rows of one part of the files.
    fn add(&mut self, rows: &RunTimes, part: usize, offset_ns: u64, view: View, cache: &mut WindowCache) {
        let turns = self.turns.entry(part).or_default();
        for row in 0..rows.kinds.len() {
            let (kind, status) = (rows.kinds[row], rows.statuses[row]);
            let shifted = |ns: u64| if ns == NEVER_NS { ns } else { ns + offset_ns };
            let intended = shifted(rows.intended_ns[row] as u64);
            let (start, end) = (shifted(rows.start_ns[row]), shifted(rows.end_ns[row]));
            let latencies = Latencies::of(intended, start, end);
            let ok = status.is_success() && latencies.answered;
            cache.count(&mut self.windows, kind, intended, ok, status.is_success(), &latencies);
            if latencies.answered {
                self.answered += 1;
                self.service_ns += u128::from(latencies.service);
                cache.spend(&mut self.windows, kind, start, end, status.is_success());
            }
            if intended < view.from_ns {
                self.cut[kind as usize][status as usize] += 1;
                if latencies.started {
                    take_turn(turns, None, rows, row, [intended, start, end]);
                }
                continue;
            }
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
            self.last_intended_ns = self.last_intended_ns.max(Some(intended));
            if end != NEVER_NS {
                self.last_end_ns = self.last_end_ns.max(Some(end));
            }
            if latencies.impossible || (status.is_success() && !latencies.answered) {
                self.impossible += 1;
            }
            if latencies.started {
                self.late += u64::from(latencies.lag > view.late_ns);
                take_turn(turns, Some(&mut self.lag), rows, row, [intended, start, end]);
            }
            let base = kind as usize * DISTRIBUTIONS;
            for (distribution, value) in within(rows, row, &latencies).into_iter().flatten() {
                self.histograms[base + distribution as usize].record(value);
            }
            if kind == OpKind::ReadModifyWrite {
                match rows.read_end_ns.get(row) {
                    None | Some(&NEVER_NS) if status.is_success() => self.undivided += 1,
                    None => {}
                    Some(&NEVER_NS) => self.halves[0][status as usize] += 1,
                    Some(_) => {
                        self.halves[0][Status::Ok as usize] += 1;
                        self.halves[1][status as usize] += 1;
                    }
                }
            }
            if status.is_success() {
                if latencies.answered {
                    self.histograms[base + Distribution::Service as usize].record(latencies.service);
                    self.histograms[base + Distribution::Response as usize].record(latencies.response);
                    self.histograms[base + Distribution::LagOk as usize].record(latencies.lag);
                }
            } else {
                if latencies.started {
                    self.histograms[base + Distribution::LagFailed as usize].record(latencies.lag);
                }
                if latencies.answered {
                    self.histograms[base + Distribution::ServiceFailed as usize].record(latencies.service);
                }
                let code = rows.code(row);
                *self.failures.entry((kind, status, code.to_owned())).or_default() += 1;
            }
        }
    }

    /// The first rows of the sessions in each part wait for the part before. `part_of_file` says which
    /// parts belong to one file: sessions of different files are different ones.
    fn settle_turns(&mut self, file_of_part: impl Fn(usize) -> usize) {
        let mut free: HashMap<(usize, i32), u64> = HashMap::new();
        for (part, turns) in std::mem::take(&mut self.turns) {
            for (session, turn) in turns {
                let whose = (file_of_part(part), session);
                let (intended, start, blocked) = turn.first;
                if intended != NEVER_NS {
                    self.lag.add(intended, start, blocked, free.get(&whose).copied().unwrap_or(0));
                }
                free.insert(whose, turn.end_ns);
            }
        }
    }
}

/// The next row of a session: how long it waited for the one before it.
fn take_turn(
    turns: &mut BTreeMap<i32, Turn>,
    lag: Option<&mut LagSums>,
    rows: &RunTimes,
    row: usize,
    [intended, start, end]: [u64; 3],
) {
    let Some(&session) = rows.sessions.get(row) else { return };
    let blocked = rows.blocked_ns[row];
    let end = if end == NEVER_NS { start } else { end };
    match turns.get_mut(&session) {
        None => {
            let first = if lag.is_some() { (intended, start, blocked) } else { (NEVER_NS, 0, 0) };
            turns.insert(session, Turn { first, start_ns: start, end_ns: end, free_ns: None });
        }
        Some(turn) => {
            // Ops sent in one request share their start: they waited for the request before.
            if turn.start_ns != start {
                turn.free_ns = Some(turn.end_ns);
            }
            let free_ns = turn.free_ns.unwrap_or(0);
            if let Some(lag) = lag {
                lag.add(intended, start, blocked, free_ns);
            }
            (turn.start_ns, turn.end_ns) = (start, end);
        }
    }
}

impl WindowTally {
    /// What windows side by side hold, or one of several kinds.
    pub fn together(parts: &[&WindowTally]) -> WindowTally {
        let mut together = WindowTally::default();
        parts.iter().for_each(|part| together.add(part));
        together.histograms =
            std::array::from_fn(|series| Sparse::together(parts.iter().map(|part| &part.histograms[series])));
        together
    }

    /// Adds what another part of the window holds.
    pub fn merge(&mut self, other: &WindowTally) {
        self.add(other);
        self.histograms.iter_mut().zip(&other.histograms).for_each(|(one, other)| one.merge(other));
    }

    /// All but the histograms.
    fn add(&mut self, other: &WindowTally) {
        self.ops += other.ops;
        self.ok += other.ok;
        self.response_sum_ns += other.response_sum_ns;
        self.response_max_ns = self.response_max_ns.max(other.response_max_ns);
        self.completed += other.completed;
        self.completed_ok += other.completed_ok;
        self.busy_ns += other.busy_ns;
        self.throughout += other.throughout;
    }
}

/// Neighbouring rows mostly fall into the same window: remember one per kind.
struct WindowCache {
    window_ns: u64,
    /// The window of the entries below.
    number: u64,
    tallies: [WindowTally; KINDS],
    fillings: [[Filling; WINDOW_SERIES]; KINDS],
    /// A bit for each kind that has something in it.
    used: u64,
}

const _: () = assert!(KINDS <= u64::BITS as usize);

impl WindowCache {
    fn new(window_ns: u64) -> WindowCache {
        WindowCache {
            window_ns,
            number: 0,
            tallies: std::array::from_fn(|_| WindowTally::default()),
            fillings: std::array::from_fn(|_| Default::default()),
            used: 0,
        }
    }

    /// A row in the window of its intended start.
    #[inline]
    fn count(
        &mut self,
        windows: &mut HashMap<(u64, OpKind), WindowTally>,
        kind: OpKind,
        intended_ns: u64,
        known: bool,
        ok: bool,
        latencies: &Latencies,
    ) {
        let inside = intended_ns.wrapping_sub(self.number * self.window_ns) < self.window_ns;
        if !inside {
            self.flush(windows);
            self.number = intended_ns / self.window_ns;
        }
        self.used |= 1 << kind as usize;
        let tally = &mut self.tallies[kind as usize];
        tally.ops += 1;
        tally.ok += u64::from(ok);
        if known {
            tally.response_sum_ns += u128::from(latencies.response);
            tally.response_max_ns = tally.response_max_ns.max(latencies.response);
            let fillings = &mut self.fillings[kind as usize];
            fillings[0].record(latencies.response);
            fillings[1].record(latencies.service);
            fillings[2].record(latencies.lag);
        }
    }

    /// An answered row in the windows that it spent in the database.
    #[inline]
    fn spend(
        &mut self,
        windows: &mut HashMap<(u64, OpKind), WindowTally>,
        kind: OpKind,
        start_ns: u64,
        end_ns: u64,
        ok: bool,
    ) {
        let (window_ns, current) = (self.window_ns, self.number);
        self.used |= 1 << kind as usize;
        let tallies = &mut self.tallies;
        let mut at = |number: u64, change: &dyn Fn(&mut WindowTally)| match number == current {
            true => change(&mut tallies[kind as usize]),
            false => change(windows.entry((number, kind)).or_default()),
        };
        let (first, last) = (start_ns / window_ns, end_ns / window_ns);
        if first == last {
            at(first, &|tally| tally.busy_ns += end_ns.saturating_sub(start_ns));
        } else if first < last {
            at(first, &|tally| tally.busy_ns += (first + 1) * window_ns - start_ns);
            at(last, &|tally| tally.busy_ns += end_ns - last * window_ns);
            if first + 1 < last {
                at(first + 1, &|tally| tally.throughout += 1);
                at(last, &|tally| tally.throughout -= 1);
            }
        }
        at(last, &|tally| {
            tally.completed += 1;
            tally.completed_ok += u64::from(ok);
        });
    }

    fn flush(&mut self, windows: &mut HashMap<(u64, OpKind), WindowTally>) {
        let used = std::mem::take(&mut self.used);
        for kind in OpKind::ALL.into_iter().filter(|kind| used >> *kind as usize & 1 == 1) {
            let mut tally = std::mem::take(&mut self.tallies[kind as usize]);
            let fillings = &mut self.fillings[kind as usize];
            tally.histograms = std::array::from_fn(|series| fillings[series].take());
            if tally != WindowTally::default() {
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

/// The latencies of what an op is made of: the two requests of a read-modify-write, the rows of a scan.
fn within(rows: &RunTimes, row: usize, latencies: &Latencies) -> [Option<(Distribution, u64)>; 3] {
    use Distribution::{PerRow, ReadHalf, ReadHalfFailed, ReadHalfResponse, UpdateHalf, UpdateHalfFailed};
    let (ok, answered) = (rows.statuses[row].is_success(), latencies.answered);
    match (rows.kinds[row], rows.read_end_ns.get(row), rows.rows.get(row)) {
        (OpKind::ReadModifyWrite, Some(&NEVER_NS), _) => {
            [(!ok && answered).then_some((ReadHalfFailed, latencies.service)), None, None]
        }
        (OpKind::ReadModifyWrite, Some(&read_end_ns), _) => {
            let since = |from_ns: u64| read_end_ns.saturating_sub(from_ns);
            let update = rows.end_ns[row].saturating_sub(read_end_ns);
            [
                Some((ReadHalf, since(rows.start_ns[row]))),
                Some((ReadHalfResponse, since(rows.intended_ns[row] as u64))),
                answered.then_some((if ok { UpdateHalf } else { UpdateHalfFailed }, update)),
            ]
        }
        (OpKind::Scan, _, Some(&found)) if ok && answered && found > 0 => {
            [Some((PerRow, latencies.service / found as u64)), None, None]
        }
        _ => [None; 3],
    }
}

/// Does a file have ops of which more is to be told than one latency?
fn is_divided(file: &RunFile) -> bool {
    [OpKind::ReadModifyWrite, OpKind::Scan].iter().any(|kind| file.meta.counts.contains_key(kind.name()))
}

/// The independent parts of some files.
fn parts<'a>(sources: &[Source<'a>]) -> Vec<(Source<'a>, usize)> {
    let of = |source: &Source<'a>| {
        let source = *source;
        (0..source.file.row_groups()).map(move |row_group| (source, row_group))
    };
    sources.iter().flat_map(of).collect()
}

/// Reads every row group, each by whichever thread is free, into one state per thread.
pub(super) fn each_row_group<S: Send>(
    file: &RunFile,
    state: impl Fn() -> S + Sync,
    read: impl Fn(usize, &mut S) -> Result<(), FileError> + Sync,
) -> Result<Vec<S>, FileError> {
    each_part(file.row_groups(), state, read)
}

/// Does something with each of `count` parts, each by whichever thread is free, into one state per
/// thread.
pub fn each_part<S: Send, E: Send>(
    count: usize,
    state: impl Fn() -> S + Sync,
    read: impl Fn(usize, &mut S) -> Result<(), E> + Sync,
) -> Result<Vec<S>, E> {
    // Histograms are per thread, so more threads cost memory; eight saturate any disk.
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8).min(count).max(1);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut state = state();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= count {
                return Ok(state);
            }
            read(part, &mut state)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a scan does not panic")).collect()
    })
}

/// The first scan: everything but the percentiles.
pub fn tally(sources: &[Source], view: View) -> Result<Tally, FileError> {
    let ok = |(status, _): (&String, &u64)| status == Status::Ok.name();
    let all_ok = sources.iter().all(|one| one.file.meta.counts.values().flatten().all(ok));
    // Without a schedule nothing is late.
    let paced = sources.iter().any(|one| one.file.meta.pace != "unpaced");
    let row_groups = parts(sources);
    let files: Vec<usize> = sources
        .iter()
        .enumerate()
        .flat_map(|(file, source)| std::iter::repeat_n(file, source.file.row_groups()))
        .collect();
    let state = || (Tally::new(), WindowCache::new(view.window_ns));
    let read = |part: usize, (tally, cache): &mut (Tally, WindowCache)| {
        let (source, row_group) = row_groups[part];
        source.file.scan_requests(row_group, !all_ok, paced, is_divided(source.file), |rows| {
            tally.add(rows, part, source.offset_ns, view, cache)
        })
    };
    let states = each_part(row_groups.len(), state, read)?;
    let mut tally = Tally::new();
    for (mut part, mut cache) in states {
        cache.flush(&mut part.windows);
        tally.merge(part);
    }
    tally.files = sources.len();
    tally.settle_turns(|part| files[part]);
    tally.histograms.resize_with(KINDS * DISTRIBUTIONS, Histogram::default);
    Ok(tally)
}

/// The values of the requested ranks, by further scans where the tally does not settle them.
pub fn select(
    sources: &[Source],
    view: View,
    tally: &Tally,
    requests: Vec<Request>,
) -> Result<Vec<Vec<u64>>> {
    let row_groups = parts(sources);
    let mut selector = Selector::new(&tally.histograms, requests);
    while !selector.is_settled() {
        let collector = || selector.collector().expect("not settled yet");
        let parts = each_part(row_groups.len(), collector, |part, collector| {
            let (source, row_group) = row_groups[part];
            let from_ns = view.from_ns.saturating_sub(source.offset_ns);
            let divided = is_divided(source.file);
            let each = |rows: &RunTimes| collect(rows, from_ns, collector);
            source.file.scan_requests(row_group, false, false, divided, each)
        })?;
        let names = || sources.iter().map(|one| one.file.path().display().to_string()).collect::<Vec<_>>();
        selector
            .absorb(parts)
            .map_err(|_| anyhow!("{} changed while it was read; try again", names().join(", ")))?;
    }
    Ok(selector.answers())
}

fn collect(rows: &RunTimes, from_ns: u64, collector: &mut Collector) {
    for row in 0..rows.kinds.len() {
        let base = rows.kinds[row] as usize * DISTRIBUTIONS;
        if (rows.intended_ns[row] as u64) < from_ns {
            continue;
        }
        let latencies = Latencies::of(rows.intended_ns[row] as u64, rows.start_ns[row], rows.end_ns[row]);
        for (distribution, value) in within(rows, row, &latencies).into_iter().flatten() {
            collector.offer(base + distribution as usize, value);
        }
        if rows.statuses[row].is_success() {
            if latencies.answered {
                collector.offer(base + Distribution::Service as usize, latencies.service);
                collector.offer(base + Distribution::Response as usize, latencies.response);
                collector.offer(base + Distribution::LagOk as usize, latencies.lag);
            }
        } else if latencies.started {
            collector.offer(base + Distribution::LagFailed as usize, latencies.lag);
            if latencies.answered {
                collector.offer(base + Distribution::ServiceFailed as usize, latencies.service);
            }
        }
    }
}
