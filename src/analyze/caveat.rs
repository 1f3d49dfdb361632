//! When a number may mislead, the report says so: each doubt is a named case, a plain sentence and
//! advice.

use serde::{Deserialize, Serialize};

use super::report::Named;

/// A kind of op with percentiles that rest on hardly any ops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FewOps {
    /// The kind.
    pub op: String,
    /// Ops that ended OK.
    pub ok: u64,
    /// By percentile: how many of them are above it.
    pub above: Named<u64>,
}

/// A reason to be careful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "case", rename_all = "snake_case")]
pub enum Caveat {
    /// The run did not reach the end of its trace.
    Incomplete {
        /// Rows it has.
        rows: u64,
        /// Rows of the trace.
        trace_rows: u64,
        /// Why it ended.
        because: String,
    },
    /// A signal ended the run.
    Interrupted,
    /// Lanes waited for the recorder.
    RecorderStalls {
        /// How often.
        count: u64,
    },
    /// Percentiles with hardly any ops above them.
    FewOps {
        /// The kinds concerned.
        ops: Vec<FewOps>,
    },
    /// An identity does not hold.
    CheckFailed {
        /// What must hold.
        what: String,
        /// The numbers.
        detail: String,
    },
    /// No schedule.
    Unpaced,
    /// Ops started long after their time.
    LargeLag {
        /// p99 of the lag.
        lag_p99: String,
        /// Median service time.
        service_p50: String,
    },
    /// The lag grew to the end of the run.
    NotSustained {
        /// Since when.
        since: String,
        /// By how much every second.
        growth: String,
        /// Who was the limit.
        cause: String,
    },
    /// Only footers were read.
    FromFooters {
        /// Files.
        files: usize,
    },
    /// The beginning is not like the rest, and was not cut.
    WarmUp {
        /// Where MSER-5 would cut.
        suggested: String,
    },
    /// The beginning was cut off.
    WarmUpCut {
        /// Up to when.
        until: String,
        /// Ops left out.
        ops: u64,
        /// Median lag just after.
        lag_after: String,
    },
    /// MSER-5 would cut half of the run.
    NoSteadyState,
    /// The file has no rows.
    Empty,
    /// No rows, but histograms: an imported HdrHistogram log.
    OnlyHistograms,
    /// Another tool logged it.
    Imported,
    /// A pair of different traces.
    NotCompared,
    /// Different operations were compared, because that was asked for.
    Unpaired,
    /// Response times are not compared.
    ResponseWithheld {
        /// For what reason.
        why: String,
    },
    /// Settings that both databases have, with different values.
    DifferentSettings {
        /// Name and both values.
        settings: String,
    },
    /// Too few runs to see what a restart changes.
    WithinRunOnly {
        /// Of the side with fewer.
        runs: usize,
    },
    /// Runs of different traces side by side.
    DifferentTraces,
    /// Runs with a different pace side by side.
    DifferentPace,
    /// Runs with different numbers of sessions side by side.
    DifferentSessions,
}

impl Caveat {
    /// What is the matter.
    pub fn text(&self) -> String {
        match self {
            Caveat::Incomplete { rows, trace_rows, because } => {
                format!(
                    "the run is incomplete: {rows} of {trace_rows} ops have a row (ended because: {because})"
                )
            }
            Caveat::Interrupted => "the run was interrupted".into(),
            Caveat::RecorderStalls { count } => {
                format!(
                    "a lane had to wait {count} times for the recorder: the harness, not the database, was the bottleneck"
                )
            }
            Caveat::FewOps { ops } => {
                let of_kind = |few: &FewOps| {
                    let above = few.above.0.iter().map(|(percentile, above)| match above {
                        0 => format!("p{percentile} is the slowest op itself"),
                        above => format!("p{percentile} has only {above} above it"),
                    });
                    format!("{} ({} OK) {}", few.op, few.ok, above.collect::<Vec<_>>().join(", "))
                };
                let kinds: Vec<String> = ops.iter().map(of_kind).collect();
                format!("too few ops for high percentiles: {}", kinds.join("; "))
            }
            Caveat::CheckFailed { what, detail } => format!("{what} does not hold: {detail}"),
            Caveat::Unpaced => {
                "unpaced: response = service. Each session sends its next op when the last is \
                                answered, so a stall delays only the ops in flight"
                    .into()
            }
            Caveat::LargeLag { lag_p99, service_p50 } => format!(
                "1 in 100 ops or more started late (p99 lag {lag_p99}, median service {service_p50}), and their wait \
                 is in the response times"
            ),
            Caveat::NotSustained { since, growth, cause } => format!(
                "not sustained: since {since} the lag grew by {growth} a second ({cause}), so the response times \
                 depend on the length of the run"
            ),
            Caveat::FromFooters { files } => format!(
                "made of the footers of {files} files: percentiles are those of histograms, up to 0.1 % too high, and \
                 nothing is said about time"
            ),
            Caveat::WarmUp { suggested } => {
                format!("the first {suggested} are not like the rest (MSER-5), and nothing was cut")
            }
            Caveat::WarmUpCut { until, ops, lag_after } => {
                let lag = if lag_after.is_empty() {
                    String::new()
                } else {
                    format!("; median lag there {lag_after}")
                };
                format!("the first {until} ({ops} ops) are left out{lag}")
            }
            Caveat::NoSteadyState => {
                "the run did not settle down: half of it or more is not like the rest (MSER-5)".into()
            }
            Caveat::Empty => "the result has no rows".into(),
            Caveat::OnlyHistograms => {
                "the result has histograms only, no rows: it was imported from an HdrHistogram log".into()
            }
            Caveat::Imported => {
                "imported: when each op was due was not logged, so response = service here and the lag \
                                 is unknown. Latencies are as rough as the log (microseconds)"
                    .into()
            }
            Caveat::NotCompared => "not compared: the runs replayed different operations".into(),
            Caveat::Unpaired => {
                "the operations of both sides are not the same ones, so small differences stay hidden".into()
            }
            Caveat::ResponseWithheld { why } => {
                format!("response times are not compared: {why}, so they depend on more than the database")
            }
            Caveat::DifferentSettings { settings } => {
                format!("the databases promise different things: {settings}")
            }
            Caveat::WithinRunOnly { runs } => format!(
                "intervals cover what varies within a run, not from restart to restart ({})",
                if *runs == 1 { "1 run a side".to_owned() } else { format!("{runs} runs a side") }
            ),
            Caveat::DifferentTraces => {
                "different traces: differences may come from the operations, not the databases".into()
            }
            Caveat::DifferentPace => {
                "the runs were paced differently: their response times answer different questions".into()
            }
            Caveat::DifferentSessions => "the runs used different numbers of sessions".into(),
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Caveat::Incomplete { .. } | Caveat::Interrupted => {
                "compare it only with runs cut at the same op, or replay it again"
            }
            Caveat::RecorderStalls { .. } => {
                "write the results to a faster disk, or leave the recorder a CPU of its own"
            }
            Caveat::FewOps { .. } => "replay more ops, or read lower percentiles",
            Caveat::CheckFailed { .. } => "do not trust this file; please report how it was made",
            Caveat::Unpaced => "replay with --target to see what users would wait at a fixed rate",
            Caveat::LargeLag { .. } => {
                "look for stalls in the windows with the longest response, or replay with a lower --target"
            }
            Caveat::NotSustained { .. } => "compare service times, or replay with a lower --target",
            Caveat::FromFooters { .. } => "leave --footers out to read the rows",
            Caveat::WarmUp { .. } => "look at the windows; --warmup auto leaves the beginning out",
            Caveat::WarmUpCut { .. } => "--warmup 0 shows the whole run",
            Caveat::NoSteadyState => "replay a longer trace; percentiles of this one depend on its length",
            Caveat::Empty => "nothing was replayed; there is nothing to report",
            Caveat::OnlyHistograms => "read it with --footers, to the precision of its histograms",
            Caveat::Imported => {
                "mind what the tool measures: most start the clock when the op is sent, so a stall counts once"
            }
            Caveat::NotCompared => {
                "replay the same trace file on each; --unpaired compares the distributions all the same"
            }
            Caveat::Unpaired => "replay the same trace on each",
            Caveat::ResponseWithheld { .. } => {
                "compare service times, or replay both with a --target that both can sustain"
            }
            Caveat::DifferentSettings { .. } => "set isolation and durability alike, or say that they differ",
            Caveat::WithinRunOnly { .. } => "replay at least 3 times a side, alternating",
            Caveat::DifferentTraces => "replay the same trace file on each database",
            Caveat::DifferentPace => "replay each with the same --target (or each without one)",
            Caveat::DifferentSessions => "replay each with the same --threads",
        }
    }

    /// With its words, as reports carry it.
    pub fn noted(self) -> NotedCaveat {
        NotedCaveat { text: self.text(), advice: self.advice().to_owned(), caveat: self }
    }
}

/// A caveat with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedCaveat {
    /// The case and its numbers.
    #[serde(flatten)]
    pub caveat: Caveat,
    /// What is the matter.
    pub text: String,
    /// What to do about it.
    pub advice: String,
}
