//! What an analysis says, as plain data. Every format is rendered from this and nothing else, and
//! its JSON form is a documented interface (`analysis/README.md`), so a field is renamed or removed
//! only together with [`SCHEMA_VERSION`].

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize, Serializer};

pub use super::caveat::{Caveat, NotedCaveat};
pub use crate::trace::meta::{ErrorMeta, HostMeta, OverheadMeta, Phase, ServerMeta, SustainedMeta};

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
    /// One entry per result file, in the order given.
    pub runs: Vec<RunReport>,
    /// Runs of the same phase, side by side: the load phase, then the run phase.
    pub comparisons: Vec<Comparison>,
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
    /// Where the replay ran.
    pub host: HostMeta,
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
    /// The first intended start; none without rows.
    pub first_intended_ns: Option<u64>,
    /// The last answer; none if nothing was answered.
    pub last_end_ns: Option<u64>,
    /// From the first to the last: the divisor of every rate.
    pub span_ns: u64,
    /// All ops together.
    pub all: OpReport,
    /// Each kind of op; null for a kind without rows.
    pub ops: Named<Option<OpReport>>,
    /// Ops that did not end OK, by kind, status and the database's code.
    pub failures: Vec<FailureRow>,
    /// First message of each code.
    pub errors: Vec<ErrorMeta>,
    /// Identities that must hold.
    pub checks: Vec<Check>,
    /// When not to believe the numbers.
    pub caveats: Vec<NotedCaveat>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Quantile {
    /// The value; none if that op was never answered.
    pub value_ns: Option<u64>,
    /// The op of this rank was never answered: the percentile is infinite.
    pub unanswered: bool,
    /// Ops ranked above it.
    pub above: u64,
}

/// Ops of one kind with an intended start in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, DeriveDeserialize)]
pub struct Window {
    /// Start of the window, since the run began.
    pub start_ns: u64,
    /// Rows.
    pub ops: u64,
    /// Rows that ended OK.
    pub ok: u64,
    /// The others.
    pub failed: u64,
    /// Mean response of the OK ones.
    pub response_mean_ns: Option<u64>,
    /// Longest response of the OK ones.
    pub response_max_ns: Option<u64>,
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
