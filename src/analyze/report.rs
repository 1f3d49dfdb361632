//! What an analysis says, as plain data. Every format is rendered from this and nothing else, and
//! its JSON form is a documented interface (`analysis/README.md`), so a field is renamed or removed
//! only together with [`SCHEMA_VERSION`].

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize, Serializer};

pub use super::caveat::{Caveat, NotedCaveat};
use super::quantile::Percentile;
pub use crate::trace::meta::{
    CollectorMeta, ErrorMeta, HostMeta, OverheadMeta, Phase, ServerMeta, SustainedMeta,
};

/// Version of the report's JSON form.
pub const SCHEMA_VERSION: u32 = 1;

/// What the numbers mean; printed with them.
pub const DEFINITIONS: &[(&str, &str)] = &[
    (
        "percentile",
        "nearest rank: the smallest value x such that at least that share of the ops took x or less; exact, no buckets",
    ),
    ("response", "end - intended start: what a client that keeps its schedule waits"),
    ("service", "end - start: what the database and its client library took"),
    ("lag", "start - intended start: how late the op was handed to the database"),
    ("OK", "successes only"),
    (
        "all attempts",
        "every op; one that did not end OK counts as never answered (infinite). Its lag is infinite only if it never started",
    ),
    ("rate", "ops divided by the time from the first intended start to the last answer"),
    (
        "95 % interval",
        "if the run were repeated under the same conditions, 19 of 20 such intervals would hold the true percentile; slow moments are allowed to come in clusters",
    ),
];

/// A map that keeps its order, so that percentiles and kinds stay in the order people expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Named<T> {
    /// The entry of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value)
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Named<T>, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Named<T>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a map")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Named(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Everything an analysis found.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`] of the program that made it.
    pub schema_version: u32,
    /// Who made it.
    pub generator: String,
    /// What the numbers mean, by word.
    pub definitions: Named<String>,
    /// The percentiles asked for, e.g. `99.9`.
    pub percentiles: Vec<String>,
    /// Length of a window.
    pub window_ns: u64,
    /// One entry per run, in the order given: a result file, or the files of one run that was spread
    /// over several.
    pub runs: Vec<RunReport>,
    /// Runs of the same phase, side by side: the load phase, then the run phase.
    pub comparisons: Vec<Comparison>,
    /// `--aa`: how often this method sees a difference where there is none.
    #[serde(default)]
    pub self_checks: Vec<SelfCheck>,
}

/// Runs of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Comparison {
    /// Load or run.
    pub phase: Phase,
    /// Positions in [`Report::runs`].
    pub runs: Vec<usize>,
    /// Did all of them replay the same operations?
    pub same_trace: bool,
    /// The windows with the longest responses in any of the runs, longest first.
    pub worst_windows: Vec<WorstWindow>,
    /// What to keep in mind when reading them side by side.
    pub caveats: Vec<NotedCaveat>,
    /// What is compared: each side is one run, or several repetitions of it. Empty with a single run.
    #[serde(default)]
    pub sides: Vec<Side>,
    /// How runs were put on sides, in words; empty if each run is a side of its own.
    #[serde(default)]
    pub sides_chosen: String,
    /// The baseline against each other side, in the order of `sides`. Empty with a single side.
    #[serde(default)]
    pub pairs: Vec<Pair>,
}

/// One of the things compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Side {
    /// Short name, unique in its comparison.
    pub label: String,
    /// Positions in [`Report::runs`].
    pub runs: Vec<usize>,
}

/// What can be said about one side beside the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, DeriveDeserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is below 1 − margin: less time than the baseline.
    Faster,
    /// The whole interval is above 1 + margin: more time than the baseline.
    Slower,
    /// The whole interval is within 1 ± margin.
    Equivalent,
    /// The interval allows more than one of these.
    Inconclusive,
    /// The data cannot even give an interval.
    Insufficient,
    /// Must not be compared; the pair's caveats say why.
    Withheld,
}

impl Verdict {
    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equivalent => "equivalent",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Insufficient => "insufficient",
            Verdict::Withheld => "withheld",
        }
    }
}

/// The baseline and one other side. Every ratio is *other / baseline*: below 1 the other side took
/// less time.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Pair {
    /// Position in [`Comparison::sides`].
    pub baseline: usize,
    /// Position in [`Comparison::sides`].
    pub other: usize,
    /// Were the same operations compared one by one (same trace)? Otherwise only their distributions
    /// were, each on its own.
    pub paired: bool,
    /// A difference up to this share does not matter in practice, e.g. 0.03.
    pub margin: f64,
    /// Windows (blocks of neighbouring ops) that were resampled, per run.
    pub windows: usize,
    /// Resamples of the bootstrap.
    pub resamples: usize,
    /// Runs per side: below 3, intervals hold only what varies within a run, not from restart to
    /// restart.
    pub runs_per_side: [usize; 2],
    /// Ratios of percentiles: per op (`ALL` last if there are several), series and percentile.
    pub ratios: Vec<Ratio>,
    /// Differences op by op; empty if not paired.
    pub shifts: Vec<PairedShift>,
    /// Ops that succeeded on one side only; empty if not paired.
    pub discordances: Vec<Discordance>,
    /// The whole distributions, percentile by percentile: the response (the service time where the
    /// response is withheld) per op.
    pub shapes: Vec<Shape>,
    /// Ops answered per second.
    pub throughput: Option<RateRatio>,
    /// Ops that ended OK, per second.
    pub goodput: Option<RateRatio>,
    /// Where the uncertainty comes from; none unless each side has at least two runs.
    pub variance: Option<VarianceShares>,
    /// When not to believe this pair.
    pub caveats: Vec<NotedCaveat>,
}

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, DeriveDeserialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One percentile of the other side divided by that of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Ratio {
    /// Kind of op, or `ALL`.
    pub op: String,
    /// `response` or `service`, of the ops that ended OK.
    pub series: String,
    /// E.g. `99.9`.
    pub percentile: String,
    /// The percentile of the baseline, ns (exact for one run; of all its rows together for several);
    /// none where withheld or without ops.
    pub baseline_ns: Option<u64>,
    /// The percentile of the other side, ns.
    pub other_ns: Option<u64>,
    /// other / baseline; none where withheld or insufficient.
    pub ratio: Option<Estimate>,
    /// The smallest true difference that a pair of runs like these would show four times in five, as a
    /// share: 0.05 = 5 %.
    pub detectable: Option<f64>,
    /// By this interval alone.
    pub verdict_alone: Verdict,
    /// After Holm's correction for all the percentiles, ops and sides looked at in the report: the one
    /// to quote.
    pub verdict: Verdict,
    /// How likely an interval like this is if the verdict were wrong, Holm-adjusted.
    pub p_adjusted: Option<f64>,
}

/// How much longer the *same* op took on the other side.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct PairedShift {
    /// Kind of op, or `ALL`.
    pub op: String,
    /// `response` or `service`.
    pub series: String,
    /// Ops that ended OK on both sides.
    pub pairs: u64,
    /// The typical factor, other / baseline: e to the Hodges–Lehmann pseudo-median of the window
    /// medians of ln(other/baseline).
    pub factor: Estimate,
    /// Share of ops faster on the other side, ties counted half: 0.5 = no difference.
    pub share_faster: Estimate,
    /// By `factor` and the margin.
    pub verdict: Verdict,
}

/// Success and failure of the same op on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Discordance {
    /// Kind of op, or `ALL`.
    pub op: String,
    /// OK on both.
    pub both: u64,
    /// OK on the baseline only.
    pub baseline_only: u64,
    /// OK on the other side only.
    pub other_only: u64,
    /// OK on neither.
    pub neither: u64,
    /// (other only − baseline only) / all: by how much the share of successes is higher on the other
    /// side. McNemar's difference, its interval over windows.
    pub difference: Estimate,
}

/// The shift function: how the two distributions differ at every percentile. For looking at, not for
/// verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Shape {
    /// Kind of op, or `ALL`.
    pub op: String,
    /// `response` or `service`.
    pub series: String,
    /// By ascending percentile: 1 … 99, 99.5, 99.9, 99.99 (as far as there are ops).
    pub points: Vec<ShapePoint>,
    /// Kolmogorov–Smirnov distance: the largest difference between the two shares of ops answered
    /// within a time, 0 to 1.
    pub ks: Estimate,
    /// Mean distance between the percentiles, of ln latency: 0.1 is about 10 %.
    pub wasserstein_ln: Estimate,
    /// Vargha–Delaney A: how often a random op of the baseline takes *longer* than a random op of the
    /// other side, ties half: 0.5 = no difference, above = the other side is faster.
    pub a12: Estimate,
}

/// One percentile of a [`Shape`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, DeriveDeserialize)]
pub struct ShapePoint {
    /// 0 to 100.
    pub percent: f64,
    /// ns, to 1/512.
    pub baseline_ns: u64,
    /// ns, to 1/512.
    pub other_ns: u64,
    /// other / baseline, with a *simultaneous* band: 19 of 20 bands hold the true curve everywhere.
    pub ratio: Estimate,
}

/// Ops per second of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, DeriveDeserialize)]
pub struct RateRatio {
    /// Ops per second.
    pub baseline: f64,
    /// Ops per second.
    pub other: f64,
    /// other / baseline: *above* 1 the other side did more. The interval is none with too few windows.
    pub ratio: f64,
    /// 95 % interval of `ratio`: low, high.
    pub interval: Option<(f64, f64)>,
}

/// Where the uncertainty of the median ratio comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, DeriveDeserialize)]
pub struct VarianceShares {
    /// Standard deviation of ln p50 from run to run of one side, 0.02 = 2 %.
    pub between_runs: f64,
    /// Standard deviation of ln p50 that a single run has by itself.
    pub within_run: f64,
}

/// `--aa`: one run compared with itself, its odd stretches against its even ones. Any difference it
/// sees is a false alarm.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct SelfCheck {
    /// Label of the run, or of both runs.
    pub of: String,
    /// What was split, in words.
    pub how: String,
    /// Intervals looked at.
    pub intervals: usize,
    /// Of these, not containing 1.
    pub false_alarms: usize,
    /// The rows, as in a comparison.
    pub ratios: Vec<Ratio>,
}

/// One window in several runs.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct WorstWindow {
    /// Start of the window, since the run began.
    pub start_ns: u64,
    /// Longest response to an OK op in it, per run; none where no op of the window ended OK.
    pub response_max_ns: Vec<Option<u64>>,
    /// Ops that did not end OK, per run; none where the run has no op in the window.
    pub failed: Vec<Option<u64>>,
}

/// One result file.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct RunReport {
    /// The file, as given.
    pub file: String,
    /// Short name in tables: the database, numbered where it occurs twice in a phase.
    pub label: String,
    /// Name of the run.
    pub run_id: String,
    /// Name of the trace.
    pub trace: String,
    /// Content hash of the trace.
    pub trace_hash: String,
    /// Load or run.
    pub phase: Phase,
    /// The name given to `--db`.
    pub db: String,
    /// Who answered.
    pub server: ServerMeta,
    /// Every setting of the replay.
    pub config: BTreeMap<String, String>,
    /// Connections.
    pub sessions: u32,
    /// Threads.
    pub lanes: u32,
    /// `unpaced`, `rate` or `arrivals`.
    pub pace: String,
    /// Target of `rate`.
    pub target_per_second: Option<f64>,
    /// Factor on the times of `arrivals`.
    pub speed: f64,
    /// Rule for dependent ops.
    pub order: String,
    /// Where the replay ran (the first part, if there are several).
    pub host: HostMeta,
    /// The files that make up this run, if it is spread over several (shards, machines); otherwise
    /// empty.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Made of footers alone: percentiles are those of histograms, and this is their largest relative
    /// error, e.g. 0.001. None: everything is exact.
    #[serde(default)]
    pub histogram_error: Option<f64>,
    /// Start in UTC.
    pub started_at: String,
    /// Duration by the footer.
    pub elapsed_ns: u64,
    /// Why the run ended.
    pub ended_because: String,
    /// Every op of the trace has its row.
    pub complete: bool,
    /// Ended by a signal.
    pub interrupted: bool,
    /// Ops in the trace.
    pub trace_rows: u64,
    /// Rows in the file.
    pub rows: u64,
    /// Times a lane had to wait for the recorder.
    pub recorder_stalls: u64,
    /// Whether the rate was kept, as the replay judged it; none for an unpaced or very short run.
    pub sustained: Option<SustainedMeta>,
    /// Cost of the harness.
    pub overhead: OverheadMeta,
    /// Time that closing each connection took, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closing_ns: Vec<u64>,
    /// What a Java machine in the process of the replay collected; none without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections: Vec<CollectorMeta>,
    /// What came of checking values against those that `dataintegrity` makes; none without it, and of a run
    /// that is spread over several files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<IntegrityReport>,
    /// The first intended start; none without rows.
    pub first_intended_ns: Option<u64>,
    /// The last answer; none if nothing was answered.
    pub last_end_ns: Option<u64>,
    /// From the first to the last: the divisor of every rate.
    pub span_ns: u64,
    /// What was cut off at the beginning, and what might have been.
    #[serde(default)]
    pub warmup: Option<WarmUp>,
    /// Could the database keep up, and who made ops late? None: unpaced.
    #[serde(default)]
    pub load: Option<Load>,
    /// Moments at which latency changed for good.
    #[serde(default)]
    pub change_points: Vec<ChangePoint>,
    /// Length of the windows that intervals rest on, ns; none without an interval.
    #[serde(default)]
    pub interval_window_ns: Option<u64>,
    /// Mean number of ops in the database at a time, over `span_ns`.
    #[serde(default)]
    pub in_flight_mean: Option<f64>,
    /// All ops together.
    pub all: OpReport,
    /// Each kind of op; null for a kind without rows.
    pub ops: Named<Option<OpReport>>,
    /// The requests that ops are made of, where a read-modify-write is a read and an update; none without
    /// read-modify-writes, and where it is not known when their reads ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    /// (end − start) / rows of the scans that ended OK and found some; none without such scans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan_per_row: Option<Summary>,
    /// `--by`: the same numbers (without windows) by something else than the kind.
    #[serde(default)]
    pub groups: Option<Groups>,
    /// Ops that did not end OK, by kind, status and the database's code.
    pub failures: Vec<FailureRow>,
    /// First message of each code.
    pub errors: Vec<ErrorMeta>,
    /// Identities that must hold.
    pub checks: Vec<Check>,
    /// When not to believe the numbers.
    pub caveats: Vec<NotedCaveat>,
}

/// What YCSB and go-ycsb measure: requests, of which a read-modify-write is two. An update is not sent
/// if its read did not find the row.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Requests {
    /// end − start of every request that ended OK.
    pub all: Summary,
    /// Reads, those of read-modify-writes among them.
    pub read: RequestReport,
    /// Updates, those of read-modify-writes among them.
    pub update: RequestReport,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct RequestReport {
    /// How many ended OK.
    pub ok: u64,
    /// How many did not.
    pub failed: u64,
    /// How many per status, those without any left out.
    pub statuses: Named<u64>,
    /// end − intended of those that ended OK; an update shares the intended start of its read.
    pub response: Summary,
    /// end − start of those that ended OK.
    pub service: Summary,
    /// end − start of those that were answered, but not OK; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_service: Option<Summary>,
}

/// Checks of the values that reads returned.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct IntegrityReport {
    /// Every value was as it must be.
    pub ok: u64,
    /// Another value came back.
    pub wrong: u64,
    /// None came back.
    pub nothing: u64,
    /// Time that a check took, from a histogram.
    pub took: Summary,
}

/// One file of a run that is spread over several.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Part {
    /// The file.
    pub file: String,
    /// Which shard it is, as `0/3`, if it says so.
    pub shard: Option<String>,
    /// Host name.
    pub host: String,
    /// Start in UTC, by that host's clock.
    pub started_at: String,
    /// Its start after the earliest start of all parts, by the hosts' clocks, ns. Only windows and
    /// rates use it: a latency comes from one clock.
    pub offset_ns: u64,
    /// Rows.
    pub rows: u64,
}

/// The beginning of a run that is not like the rest.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct WarmUp {
    /// `--warmup` as given: `auto`, a duration, or `0` (the default).
    pub asked: String,
    /// Ops with an intended start before this are in no number of the run except `windows`; 0 =
    /// nothing was cut. ns since the run began.
    pub cut_ns: u64,
    /// How many ops that were.
    pub cut_ops: u64,
    /// Where MSER-5 would cut: the larger of the next two. None: too few windows to say.
    pub suggested_ns: Option<u64>,
    /// By the window means of ln response.
    pub by_latency_ns: Option<u64>,
    /// By the ops answered per window.
    pub by_rate_ns: Option<u64>,
    /// MSER-5 would cut half of the run: it never settled down.
    pub no_steady_state: bool,
    /// Median lag in the first window after the cut: a backlog built up before is still in it.
    pub lag_at_cut_ns: Option<u64>,
}

/// Whether the rate was kept, and whose doing the lag is.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Load {
    /// Lag did not grow to the end. None: too short to tell.
    pub sustained: Option<bool>,
    /// When the lag began to grow, ns since the run began.
    pub since_ns: Option<u64>,
    /// Growth of the median lag, ns per second: Theil–Sen slope over the windows with its 95 %
    /// interval by block bootstrap.
    pub lag_slope_ns_per_s: Option<Estimate>,
    /// Ops answered within the time of the schedule, as a share of the ops scheduled.
    pub kept_pace: f64,
    /// Share of ops that started more than 10 ms and more than one op interval late.
    pub late_share: f64,
    /// Where lag came from, as shares of the whole lag (they add up to 1; all 0 without lag).
    pub lag_causes: LagCauses,
}

/// Shares of the whole lag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, DeriveDeserialize)]
pub struct LagCauses {
    /// Every session was still busy with an earlier op: the server was slow, or sessions are too few.
    pub server: f64,
    /// Waiting for the op that this one depends on (`blocked_ns`).
    pub order: f64,
    /// A session was free, yet the op started late: the machine of the replay.
    pub client: f64,
}

/// A moment at which latency changed for good.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct ChangePoint {
    /// Start of the first window after the change, ns since the run began.
    pub at_ns: u64,
    /// How often chance alone would show a change as clear as this (permutation test).
    pub p_value: f64,
    /// What moved by 5 % or more: median of the window medians of the response, before and after
    /// (from the last change to the next). The most changed first.
    pub moved: Vec<Moved>,
}

/// One kind of op at a [`ChangePoint`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Moved {
    /// Kind of op, or `ALL`.
    pub op: String,
    /// ns.
    pub before_ns: u64,
    /// ns.
    pub after_ns: u64,
}

/// The ops of a run by something else than their kind.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Groups {
    /// `op`, `key`, `size`, `session` or `code`.
    pub by: String,
    /// What a group is, in words with units.
    pub about: String,
    /// In the order of size, session number, statement, or (key, code) most ops first. Keys beyond the
    /// most frequent are together in the last group, `others`.
    pub groups: Named<OpReport>,
}

/// One kind of op, or all together.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct OpReport {
    /// Rows.
    pub ops: u64,
    /// Rows that ended OK.
    pub ok: u64,
    /// The others: `ops` = `ok` + `failed`.
    pub failed: u64,
    /// `failed` / `ops`.
    pub error_rate: f64,
    /// Ops per second; none if no time passed.
    pub ops_per_second: Option<f64>,
    /// Ops that ended OK per second.
    pub ok_per_second: Option<f64>,
    /// Rows per status; they add up to `ops`. Statuses without rows are left out.
    pub statuses: Named<u64>,
    /// end − intended.
    pub response: Series,
    /// end − start.
    pub service: Series,
    /// start − intended.
    pub lag: Series,
    /// end − start of the ops that were answered, but not OK; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_service: Option<Summary>,
    /// By intended start; windows without ops are left out.
    pub windows: Vec<Window>,
}

impl OpReport {
    /// The three series with their names, in the order of reports.
    pub fn series(&self) -> [(&'static str, &Series); 3] {
        [("response", &self.response), ("service", &self.service), ("lag", &self.lag)]
    }
}

/// One series, over two populations.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Series {
    /// Ops that ended OK.
    pub ok: Summary,
    /// All ops, what did not end OK being never answered.
    pub all: Summary,
}

impl Series {
    /// Nothing is known about any op.
    pub fn unknown(percentiles: &[Percentile]) -> Series {
        let none = Summary {
            count: 0,
            unanswered: 0,
            min_ns: None,
            mean_ns: None,
            max_ns: None,
            percentiles: Named(percentiles.iter().map(|one| (one.text().to_owned(), None)).collect()),
        };
        Series { ok: none.clone(), all: none }
    }

    /// Both populations with their names.
    pub fn populations(&self) -> [(&'static str, &Summary); 2] {
        [("ok", &self.ok), ("all", &self.all)]
    }
}

/// A distribution in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, DeriveDeserialize)]
pub struct Summary {
    /// Ops in the population.
    pub count: u64,
    /// Of these, never answered (lag: never started).
    pub unanswered: u64,
    /// Smallest of the others.
    pub min_ns: Option<u64>,
    /// Mean of the others, from an exact sum.
    pub mean_ns: Option<u64>,
    /// Largest of the others.
    pub max_ns: Option<u64>,
    /// By percentile; null in an empty population.
    pub percentiles: Named<Option<Quantile>>,
}

/// The value of a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, DeriveDeserialize)]
pub struct Quantile {
    /// The value; none if that op was never answered.
    pub value_ns: Option<u64>,
    /// The op of this rank was never answered: the percentile is infinite.
    pub unanswered: bool,
    /// Ops ranked above it.
    pub above: u64,
    /// How far the true percentile may be away; none for the lag, with `insufficient`, and in a report
    /// made of footers.
    #[serde(default)]
    pub interval: Option<Interval>,
    /// The run is too short to give an interval: slower ops occur in fewer than 10 windows, or the
    /// interval would reach the slowest op.
    #[serde(default)]
    pub insufficient: bool,
}

/// The 95 % interval of a percentile (Woodruff's, its variance allowing for the dependence between
/// neighbouring windows).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, DeriveDeserialize)]
pub struct Interval {
    /// Lower end, ns; none: never answered.
    pub low_ns: Option<u64>,
    /// Upper end, ns; none: never answered.
    pub high_ns: Option<u64>,
    /// So many independent ops would say as much as these dependent ones do, as a share of them: 0.1 =
    /// ten ops are worth one. At most 1.
    pub effective: f64,
}

/// Ops of one kind with an intended start in one window (`completed` and `in_flight`: by the clock).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, DeriveDeserialize)]
pub struct Window {
    /// Start of the window, since the run began.
    pub start_ns: u64,
    /// Length that ops can fall into: shorter than the others in the last window of the schedule.
    pub length_ns: u64,
    /// Rows.
    pub ops: u64,
    /// Rows that ended OK.
    pub ok: u64,
    /// The others.
    pub failed: u64,
    /// Ops answered in this window, in whatever way: their end lies in it.
    pub completed: u64,
    /// Of these, OK.
    pub completed_ok: u64,
    /// `completed` per second.
    pub rate: f64,
    /// `completed_ok` per second.
    pub goodput: f64,
    /// Mean number of ops in the database during the window.
    pub in_flight: f64,
    /// Mean response of the OK ones.
    pub response_mean_ns: Option<u64>,
    /// Their median response, to 1/256.
    pub response_p50_ns: Option<u64>,
    /// 90th percentile, to 1/256.
    pub response_p90_ns: Option<u64>,
    /// 99th percentile, to 1/256.
    pub response_p99_ns: Option<u64>,
    /// Longest response of the OK ones.
    pub response_max_ns: Option<u64>,
    /// Median service time of the OK ones, to 1/256.
    pub service_p50_ns: Option<u64>,
    /// Median lag of the OK ones, to 1/256.
    pub lag_p50_ns: Option<u64>,
}

/// Ops that failed in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct FailureRow {
    /// Kind.
    pub op: String,
    /// How they ended.
    pub status: String,
    /// The database's code; empty if it gave none.
    pub code: String,
    /// How many.
    pub count: u64,
}

/// An identity that must hold in every result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Check {
    /// What must hold.
    pub what: String,
    /// Does it?
    pub holds: bool,
    /// The numbers behind it.
    pub detail: String,
}
