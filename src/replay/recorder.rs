//! Keeps every sample. One thread drains the lanes' ring buffers, adds up what the footer and the
//! live display need, and encodes the rows to disk. A lane never waits for the disk unless its ring
//! is full, and that is counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use rtrb::Consumer;

use super::inflight::{Closed, InFlight};
use super::lane::timed_out;
use super::sustained::LagPoint;
use super::{Failures, changes};
use crate::op::{NEVER_NS, OpKind, Outcome, Sample, Status};
use crate::trace::meta::{HistogramMeta, RunMeta};
use crate::trace::runs::RunWriter;

/// Closed segments are what a kill cannot take away: at most this much time is lost.
const SEGMENT_INTERVAL: Duration = Duration::from_millis(4_500);

/// Rows encoded at once.
const BATCH_ROWS: usize = 8_192;

/// The three latencies of an operation.
pub const SERIES: [&str; 3] = ["service", "response", "lag"];

/// Significant decimal digits of the histograms.
const DIGITS: u8 = 3;

fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("3 digits are allowed")
}

/// As in a footer.
pub(super) fn encoded(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("writing to memory");
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Latencies of operations that ended OK. Without a pace they start when they should, and all that is to
/// be said of them is their service time: it is counted once.
struct Latencies {
    /// Service times of operations without lag, which are their response times too.
    in_time: Histogram<u64>,
    /// The three series of those with lag.
    late: [Histogram<u64>; SERIES.len()],
}

impl Latencies {
    fn new() -> Box<Latencies> {
        Box::new(Latencies { in_time: histogram(), late: [histogram(), histogram(), histogram()] })
    }

    #[inline]
    fn add(&mut self, intended_ns: u64, start_ns: u64, end_ns: u64) {
        if start_ns == intended_ns {
            return count(&mut self.in_time, end_ns - start_ns);
        }
        let values = [end_ns - start_ns, end_ns - intended_ns, start_ns - intended_ns];
        self.late.iter_mut().zip(values).for_each(|(histogram, value)| count(histogram, value));
    }

    fn merge(&mut self, other: &Latencies) {
        merge(&mut self.in_time, &other.in_time);
        self.late.iter_mut().zip(&other.late).for_each(|(mine, theirs)| merge(mine, theirs));
    }

    /// One series, by its place in [`SERIES`].
    fn series(&self, series: usize) -> Histogram<u64> {
        let mut all = self.late[series].clone();
        if SERIES[series] == "lag" {
            all.record_n(0, self.in_time.len()).expect("0 is in every histogram");
        } else {
            merge(&mut all, &self.in_time);
        }
        all
    }
}

#[inline]
fn count(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value).expect("the histogram grows with its values");
}

fn merge(mine: &mut Histogram<u64>, theirs: &Histogram<u64>) {
    mine.add(theirs).expect("both have the same precision, and they grow");
}

/// Counts and distributions of a set of samples.
pub struct Tally {
    /// Rows per kind and status.
    pub counts: [[u64; Status::ALL.len()]; OpKind::ALL.len()],
    /// Per kind; made when a kind first occurs.
    latencies: [Option<Box<Latencies>>; OpKind::ALL.len()],
    /// Service times of the reads and of the updates that read-modify-writes are made of, those that ended OK.
    halves: Option<Box<[Histogram<u64>; 2]>>,
    /// The latest end of any operation.
    pub last_end_ns: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            counts: [[0; Status::ALL.len()]; OpKind::ALL.len()],
            latencies: std::array::from_fn(|_| None),
            halves: None,
            last_end_ns: 0,
        }
    }
}

impl Tally {
    /// Adds one sample.
    #[inline]
    pub fn add(&mut self, kind: OpKind, status: Status, intended_ns: u64, start_ns: u64, end_ns: u64) {
        self.counts[kind as usize][status as usize] += 1;
        if end_ns != NEVER_NS {
            self.last_end_ns = self.last_end_ns.max(end_ns);
        }
        if status != Status::Ok {
            return;
        }
        let latencies = self.latencies[kind as usize].get_or_insert_with(Latencies::new);
        latencies.add(intended_ns, start_ns, end_ns);
    }

    /// Adds the two requests of a read-modify-write whose read has found its row.
    fn add_halves(&mut self, sample: &Sample) {
        let Sample { start_ns, read_end_ns, end_ns, .. } = *sample;
        let halves = self.halves.get_or_insert_with(|| Box::new([histogram(), histogram()]));
        count(&mut halves[0], read_end_ns.saturating_sub(start_ns));
        if sample.status == Status::Ok {
            count(&mut halves[1], end_ns.saturating_sub(read_end_ns));
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Tally) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            let Some(theirs) = theirs else { continue };
            mine.get_or_insert_with(Latencies::new).merge(theirs);
        }
        if let Some(theirs) = &other.halves {
            let mine = self.halves.get_or_insert_with(|| Box::new([histogram(), histogram()]));
            mine.iter_mut().zip(theirs.iter()).for_each(|(mine, theirs)| merge(mine, theirs));
        }
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
    }

    /// Rows in all.
    pub fn rows(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Rows that did not end OK.
    pub fn failures(&self) -> u64 {
        self.counts.iter().map(|statuses| statuses.iter().sum::<u64>() - statuses[Status::Ok as usize]).sum()
    }

    /// One series of every kind together, by its place in [`SERIES`].
    pub fn all_kinds(&self, series: usize) -> Histogram<u64> {
        let mut all = histogram();
        for latencies in self.latencies.iter().flatten() {
            merge(&mut all, &latencies.series(series));
        }
        all
    }

    /// Writes the counts and distributions into a footer.
    pub fn fill(&self, meta: &mut RunMeta) {
        meta.rows = self.rows();
        meta.counts = BTreeMap::new();
        meta.histograms = Vec::new();
        for kind in OpKind::ALL {
            for status in Status::ALL {
                let count = self.counts[kind as usize][status as usize];
                if count > 0 {
                    let statuses = meta.counts.entry(kind.name().to_owned()).or_default();
                    statuses.insert(status.name().to_owned(), count);
                }
            }
            let Some(latencies) = &self.latencies[kind as usize] else { continue };
            for (number, series) in SERIES.iter().enumerate() {
                let histogram = latencies.series(number);
                let hdr = encoded(&histogram);
                let (op, series) = (kind.name().to_owned(), (*series).to_owned());
                meta.histograms.push(HistogramMeta { op, series, hdr });
            }
        }
    }
}

/// Service times of one kind of operation, those that ended OK.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Smallest, ns.
    pub min_ns: u64,
    /// Largest, ns.
    pub max_ns: u64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// [`Latency::QUANTILES`] of them, ns.
    pub quantiles_ns: [u64; 6],
}

impl Latency {
    /// What progress lines of other tools show.
    pub const QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

    /// Of one kind; reads and updates with those that read-modify-writes are made of.
    fn of(tally: &Tally, kind: OpKind) -> Option<Latency> {
        let half = match kind {
            OpKind::Read => tally.halves.as_ref().map(|halves| &halves[0]),
            OpKind::Update => tally.halves.as_ref().map(|halves| &halves[1]),
            _ => None,
        };
        let service = tally.latencies[kind as usize].as_ref().map(|of_kind| of_kind.series(0));
        Latency::of_sum(service.into_iter().chain(half.filter(|half| !half.is_empty()).cloned()))
    }

    /// Of everything that was sent as a request: of a read-modify-write, both.
    fn of_requests(tally: &Tally) -> Option<Latency> {
        let whole = |kind: &OpKind| *kind != OpKind::ReadModifyWrite || tally.halves.is_none();
        let kinds = OpKind::ALL.into_iter().filter(whole);
        let of_kinds =
            kinds.filter_map(|kind| tally.latencies[kind as usize].as_ref().map(|of_kind| of_kind.series(0)));
        Latency::of_sum(of_kinds.chain(tally.halves.iter().flat_map(|halves| halves.iter().cloned())))
    }

    fn of_sum(parts: impl Iterator<Item = Histogram<u64>>) -> Option<Latency> {
        let service = parts.reduce(|mut sum, part| {
            merge(&mut sum, &part);
            sum
        });
        let service = service?;
        Some(Latency {
            count: service.len(),
            min_ns: service.min(),
            max_ns: service.max(),
            mean_ns: service.mean(),
            quantiles_ns: Latency::QUANTILES.map(|quantile| service.value_at_quantile(quantile)),
        })
    }
}

/// A kind of operation in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KindSnapshot {
    /// Which.
    pub kind: OpKind,
    /// In the last interval; `None` without an OK operation.
    pub interval: Option<Latency>,
    /// Since the run began.
    pub total: Latency,
}

/// What the live display shows about the last interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Nanoseconds since the run began.
    pub at_ns: u64,
    /// Length of the interval.
    pub interval_ns: u64,
    /// Rows so far.
    pub rows: u64,
    /// Rows of the interval.
    pub interval_rows: u64,
    /// Rows so far that did not end OK.
    pub failures: u64,
    /// Median response of the interval; `None` without an OK operation.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the interval.
    pub p99_ns: Option<u64>,
    /// Every kind that has ended OK at least once; a read-modify-write counts as a read and an update, too.
    pub kinds: Vec<KindSnapshot>,
    /// Every request that has ended OK since the run began; a read-modify-write counts as two.
    pub requests: Option<Latency>,
}

/// What the recorder hands back at the end.
pub struct Recorded {
    /// Everything added up.
    pub tally: Tally,
    /// The median lag of every interval, in order.
    pub lags: Vec<LagPoint>,
    /// The writer with all rows, to be finished with the footer.
    pub writer: RunWriter,
    /// The first error of the disk: rows after it are lost, and the run was stopped.
    pub disk_failure: Option<anyhow::Error>,
}

/// How a recorder works.
pub struct Settings {
    /// Time between snapshots.
    pub interval: Duration,
    /// Where snapshots go; a full channel loses them, never delays the recorder.
    pub snapshots: SyncSender<Snapshot>,
}

/// The end of a lane's logs that the recorder holds.
pub struct LaneLog {
    /// One sample an operation.
    pub samples: Consumer<Sample>,
    /// Hashes of what came back, each operation's before its sample; with verification only.
    pub hashes: Option<Consumer<u64>>,
}

/// Samples on their way to the disk, with what they observed.
struct Batch {
    samples: Vec<Sample>,
    observed: Vec<u64>,
}

/// When not to wait for the lanes any longer.
pub struct Over<'a> {
    /// What each session is doing.
    pub in_flight: &'a [InFlight],
    /// Operations that a session can have under way at once: so many of them are one session's.
    pub per_session: u32,
    /// Has somebody said so?
    pub insisted: &'a dyn Fn() -> bool,
}

/// How long a session may take to log an operation that has ended when the run is over.
const LOGGING_LIMIT: Duration = Duration::from_secs(1);

/// Drains `lanes` until all of them have ended, or until it is not worth waiting any longer: then
/// operations that have started and were not answered get their rows here.
pub fn record(
    mut lanes: Vec<LaneLog>,
    mut writer: RunWriter,
    failures: &Failures,
    settings: &Settings,
    over: &Over<'_>,
    mut on_disk_failure: impl FnMut(),
) -> Recorded {
    let mut total = Tally::default();
    let mut lags = Vec::new();
    let mut interval = Tally::default();
    let mut interval_occupied_ns = 0;
    let mut interval_stalled = Duration::ZERO;
    let mut batch = Batch { samples: Vec::with_capacity(BATCH_ROWS), observed: Vec::new() };
    // Hashes whose sample has not come yet.
    let mut early: Vec<VecDeque<u64>> = lanes.iter().map(|_| VecDeque::new()).collect();
    let mut disk_failure: Option<anyhow::Error> = None;
    let began = Instant::now();
    let mut segment_began = began;
    let mut interval_began = began;
    let mut over_since = None;
    let mut unclosed: Vec<(u32, &InFlight)> =
        (0..).map(|cell: u32| cell / over.per_session).zip(over.in_flight).collect();
    loop {
        // Read before draining: what a lane pushed before it ended is seen below.
        let mut ended = lanes.iter().all(|lane| lane.samples.is_abandoned());
        if !ended && (over.insisted)() {
            let since = *over_since.get_or_insert_with(Instant::now);
            let mut take = |sample: Sample| {
                let Sample { kind, status, intended_ns, start_ns, end_ns, .. } = sample;
                interval.add(kind, status, intended_ns, start_ns, end_ns);
                batch.samples.push(sample);
            };
            unclosed.retain(|&(session, cell)| {
                let closed = cell.close(session);
                if closed == Closed::NotYet {
                    return true;
                }
                cell.ended().drain(..).for_each(&mut take);
                if let Closed::Unanswered(mut sample) = closed {
                    sample.code = failures.note(sample.kind, &unanswered(sample.kind), false);
                    take(sample);
                }
                false
            });
            ended = unclosed.is_empty() || since.elapsed() > LOGGING_LIMIT;
        }
        let mut drained = 0;
        for (lane, early) in lanes.iter_mut().zip(&mut early) {
            // Counted before the hashes are drained: those of every sample counted are then there.
            let available = lane.samples.slots();
            if let Some(hashes) = &mut lane.hashes {
                let arrived = hashes.slots();
                if let Ok(chunk) = hashes.read_chunk(arrived) {
                    early.extend(chunk);
                }
                drained += arrived;
            }
            let Ok(chunk) = lane.samples.read_chunk(available) else { continue };
            let (front, back) = chunk.as_slices();
            for sample in front.iter().chain(back) {
                interval.add(sample.kind, sample.status, sample.intended_ns, sample.start_ns, sample.end_ns);
                if sample.read_end_ns != NEVER_NS {
                    interval.add_halves(sample);
                }
                interval_occupied_ns += occupied_ns(sample, began);
                batch.samples.push(*sample);
                batch.observed.extend(early.drain(..sample.observed as usize));
                if batch.samples.len() >= BATCH_ROWS {
                    store(&mut writer, &mut batch, failures, &mut disk_failure);
                }
            }
            chunk.commit_all();
            drained += available;
        }
        if disk_failure.is_some() {
            on_disk_failure();
        }
        let now = Instant::now();
        if now - segment_began >= SEGMENT_INTERVAL || ended {
            store(&mut writer, &mut batch, failures, &mut disk_failure);
            if disk_failure.is_none() {
                disk_failure = writer.close_segment().err();
            }
            segment_began = now;
        }
        if now - interval_began >= settings.interval || ended {
            total.merge(&interval);
            let responses = interval.all_kinds(1);
            let quantile = |q| (!responses.is_empty()).then(|| responses.value_at_quantile(q));
            let _ = settings.snapshots.try_send(Snapshot {
                at_ns: (now - began).as_nanos() as u64,
                interval_ns: (now - interval_began).as_nanos() as u64,
                rows: total.rows(),
                interval_rows: interval.rows(),
                failures: total.failures(),
                p50_ns: quantile(0.5),
                p99_ns: quantile(0.99),
                kinds: OpKind::ALL
                    .into_iter()
                    .filter_map(|kind| {
                        let total = Latency::of(&total, kind)?;
                        Some(KindSnapshot { kind, interval: Latency::of(&interval, kind), total })
                    })
                    .collect(),
                requests: Latency::of_requests(&total),
            });
            if interval.rows() > 0 {
                let median_lag_ns = interval.all_kinds(2).value_at_quantile(0.5);
                let at_ns = (now - began).as_nanos() as u64;
                lags.push(LagPoint {
                    at_ns,
                    median_lag_ns,
                    occupied_ns: interval_occupied_ns,
                    stalled_ns: interval_stalled.as_nanos() as u64,
                });
            }
            interval = Tally::default();
            interval_occupied_ns = 0;
            interval_stalled = Duration::ZERO;
            interval_began = now;
        }
        if ended {
            return Recorded { tally: total, lags, writer, disk_failure };
        }
        if drained == 0 {
            let asleep = Instant::now();
            std::thread::sleep(PAUSE);
            interval_stalled += stall(asleep.elapsed());
        }
    }
}

/// For how long the operation kept its session: its service, and the waiting for operations before
/// it. One that was given up unanswered was given up just now.
#[inline]
fn occupied_ns(sample: &Sample, began: Instant) -> u64 {
    let blocked_ns = if sample.blocked_ns == NEVER_NS { 0 } else { sample.blocked_ns };
    if sample.start_ns == NEVER_NS {
        return blocked_ns;
    }
    let end_ns = if sample.end_ns == NEVER_NS { began.elapsed().as_nanos() as u64 } else { sample.end_ns };
    blocked_ns + end_ns.saturating_sub(sample.start_ns)
}

/// Between two looks at empty logs. Each look interrupts a lane or a server if every CPU is busy; the logs
/// have room for what arrives until the next.
const PAUSE: Duration = Duration::from_millis(8);

/// What a [`PAUSE`] that took this long says: waking up takes a few milliseconds at most, more is
/// time in which this process was not allowed to run.
fn stall(took: Duration) -> Duration {
    const USUAL: Duration = PAUSE.saturating_add(Duration::from_millis(8));
    if took > USUAL { took - PAUSE } else { Duration::ZERO }
}

/// The ending of an operation that nobody answered before the run was over.
fn unanswered(kind: OpKind) -> Outcome {
    let words = if changes(kind) { "it may have had its effect" } else { "it had no effect" };
    timed_out(&format!("no answer when the run was ended; {words}"))
}

/// Encodes the batch and empties it. After the first failure nothing more is written: what is on
/// disk stays a clean beginning of the run.
fn store(
    writer: &mut RunWriter,
    batch: &mut Batch,
    failures: &Failures,
    disk_failure: &mut Option<anyhow::Error>,
) {
    if disk_failure.is_none() {
        *disk_failure = writer.write_observed(&batch.samples, &failures.codes(), &batch.observed).err();
    }
    batch.samples.clear();
    batch.observed.clear();
}
