//! The footers: what a file says about itself, as JSON under one Parquet key. A file that says how
//! it came to be can be trusted years later, and thousands can be listed without reading a row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::statement::{Schema, Statements};

/// Which half of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Fills the table.
    Load,
    /// Works on it.
    Run,
}

impl Phase {
    /// As in file names.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Load => "load",
            Phase::Run => "run",
        }
    }
}

/// A property in force, and where its value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PropertyMeta {
    /// As text.
    pub value: String,
    /// `default`, `-p`, or `file:line`.
    pub source: String,
}

/// One of several files that together are one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// 0-based.
    pub index: u64,
    /// How many there are.
    pub count: u64,
    /// Operations of the whole trace.
    pub total_rows: u64,
}

/// How arrivals were drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrivalMeta {
    /// `uniform` or `poisson`.
    pub process: String,
    /// Operations per second.
    pub per_second: f64,
}

/// A combination of kind and fields that occurs in a trace, so that statements can be prepared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    /// Kind of the operation.
    pub op: String,
    /// Field numbers; empty = all.
    pub fields: Vec<u32>,
}

/// The footer of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceMeta {
    /// Always `trace`.
    pub kind: String,
    /// Version of the format.
    pub format_version: u32,
    /// Who wrote it.
    pub generator: String,
    /// Name of the workload.
    pub workload: String,
    /// Load or run.
    pub phase: Phase,
    /// Seed of every random stream.
    pub seed: u64,
    /// Table name.
    pub table: String,
    /// Names of the fields, in order.
    pub field_names: Vec<String>,
    /// Longest value that can occur, in bytes.
    pub field_length: u32,
    /// Operations in this file.
    pub rows: u64,
    /// `op_id` of the first one (0 unless this is a shard).
    pub first_op_id: u64,
    /// Which part of a trace this is, if it is one.
    pub shard: Option<Shard>,
    /// Operations per kind.
    pub op_counts: BTreeMap<String, u64>,
    /// Operations with an `after`.
    pub dependent_ops: u64,
    /// `inline` or `seeded`.
    pub values: String,
    /// How arrivals were drawn; none in a trace without arrival times.
    pub arrival: Option<ArrivalMeta>,
    /// Every combination of kind and fields that can occur.
    pub shapes: Vec<Shape>,
    /// Every workload property in force.
    pub properties: BTreeMap<String, PropertyMeta>,
    /// Sum over all rows of the 128-bit hash of each, in hexadecimal: independent of how the rows
    /// are spread over files, so the hashes of shards add up to the hash of the whole.
    pub content_hash: String,
    /// Content hash of the load trace that a run trace expects to find in the table.
    pub load_hash: Option<String>,
    /// Origin and licence of an imported trace.
    pub source: Option<String>,
    /// What the names of a statement trace stand for; none in a trace of YCSB operations.
    #[serde(default, skip_serializing_if = "Statements::is_empty")]
    pub statements: Statements,
    /// The tables of a statement trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// Transactions in this file, if it is a statement trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<u64>,
}

impl TraceMeta {
    /// A footer with nothing known but the name and the phase, to be filled in.
    pub fn empty(workload: &str, phase: Phase) -> TraceMeta {
        TraceMeta {
            kind: "trace".to_owned(),
            format_version: super::TRACE_VERSION,
            generator: super::GENERATOR.to_owned(),
            workload: workload.to_owned(),
            phase,
            seed: 0,
            table: "usertable".to_owned(),
            field_names: Vec::new(),
            field_length: 0,
            rows: 0,
            first_op_id: 0,
            shard: None,
            op_counts: BTreeMap::new(),
            dependent_ops: 0,
            values: "inline".to_owned(),
            arrival: None,
            shapes: Vec::new(),
            properties: BTreeMap::new(),
            content_hash: String::new(),
            load_hash: None,
            source: None,
            statements: Statements::default(),
            schema: None,
            transactions: None,
        }
    }

    /// What a session claims, and a rate counts: transactions in a statement trace, else operations.
    pub fn units(&self) -> u64 {
        self.transactions.unwrap_or(self.rows)
    }

    /// Which part of what a result of this trace is, if it is a shard.
    pub fn run_shard(&self) -> Option<RunShard> {
        let shard = self.shard?;
        let values: BTreeMap<&str, &str> =
            self.properties.iter().map(|(name, property)| (name.as_str(), property.value.as_str())).collect();
        let arrival = self.arrival.as_ref().map(|one| (&one.process, one.per_second));
        let source = (
            &self.workload,
            self.phase,
            self.seed,
            &self.table,
            &self.values,
            arrival,
            values,
            &self.load_hash,
        );
        let source = serde_json::to_string(&source).expect("plain data");
        Some(RunShard {
            index: shard.index,
            count: shard.count,
            total_rows: shard.total_rows,
            trace: format!("{}.{}", self.workload, self.phase.name()),
            of: format!("{:032x}", xxhash_rust::xxh3::xxh3_128(source.as_bytes())),
        })
    }

    /// The shapes as the drivers take them; kinds of a newer program are left out.
    pub fn driver_shapes(&self) -> Vec<(OpKind, Vec<u32>)> {
        self.shapes
            .iter()
            .filter_map(|shape| Some((OpKind::from_name(&shape.op)?, shape.fields.clone())))
            .collect()
    }
}

/// Who answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMeta {
    /// Host and port, or path.
    pub address: String,
    /// The server's version text.
    pub version: String,
    /// Isolation, durability and the like.
    pub settings: BTreeMap<String, String>,
    /// What was sent for each kind of operation (one of its shapes), where a database has statements.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statements: BTreeMap<String, String>,
}

/// The machine that ran the replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMeta {
    /// Host name.
    pub name: String,
    /// Operating system and kernel.
    pub system: String,
    /// CPUs available to the process.
    pub cpus: u64,
}

/// The cost of the harness itself, measured just before the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverheadMeta {
    /// Reading the clock once.
    pub clock_read_ns: u64,
    /// Lateness of a timed wait on this machine, median.
    pub wake_late_p50_ns: u64,
    /// Lateness of a timed wait, 99th percentile.
    pub wake_late_p99_ns: u64,
}

/// Whether a paced run kept its rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SustainedMeta {
    /// The lag did not grow to the end.
    pub sustained: bool,
    /// When it began to.
    pub since_ns: Option<u64>,
    /// How fast it grew, ns per second.
    pub lag_growth_ns_per_s: u64,
    /// Who was the limit.
    pub cause: Option<String>,
}

/// A kind of error with the number of times it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorMeta {
    /// The database's code.
    pub code: String,
    /// The first message with that code.
    pub message: String,
    /// How often.
    pub count: u64,
}

/// One latency distribution of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramMeta {
    /// Kind of the operation.
    pub op: String,
    /// `service`, `response` or `lag`, in nanoseconds.
    pub series: String,
    /// HdrHistogram V2 + zlib-free encoding, base64; operations that ended OK only.
    pub hdr: String,
}

/// What a collector of garbage did in the process of a replay: that of a Java machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorMeta {
    /// As the machine calls it.
    pub name: String,
    /// Collections during the run, connecting and closing included.
    pub count: u64,
    /// Time they took.
    pub time_ms: u64,
}

/// What came of checking the values that reads returned, with `dataintegrity`: YCSB's VERIFY.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrityMeta {
    /// Reads (those of read-modify-writes too) whose every value was as it must be.
    pub ok: u64,
    /// Reads that returned another value.
    pub wrong: u64,
    /// Reads that returned none: failed, or not found.
    pub nothing: u64,
    /// Time that a check took, ns: HdrHistogram V2, base64.
    pub hdr: String,
}

/// The pace of an imported result: whether its operations had due times, and which, was not logged.
pub const PACE_UNKNOWN: &str = "unknown";

/// How the transactions of a statement trace ended. Those in flight when a run was cut off, and those
/// never claimed, are in neither count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionsMeta {
    /// In the trace.
    pub planned: u64,
    /// Every statement ended OK.
    pub ok: u64,
    /// A statement failed, and the rest was taken back or never executed.
    pub failed: u64,
    /// Tries after the first, all transactions together.
    pub retries: u64,
}

/// Which part of a trace a result replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunShard {
    /// 0-based.
    pub index: u64,
    /// How many there are.
    pub count: u64,
    /// Operations of the whole trace.
    pub total_rows: u64,
    /// Name of the whole trace.
    pub trace: String,
    /// The same for all shards of a trace, and for no other trace: a hash of what it was generated from.
    pub of: String,
}

/// The footer of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunMeta {
    /// Always `result`.
    pub kind: String,
    /// Version of the format.
    pub format_version: u32,
    /// Who wrote it.
    pub generator: String,
    /// Name of this run, unique in its folder.
    pub run_id: String,
    /// Name of the trace.
    pub trace: String,
    /// Content hash of the trace.
    pub trace_hash: String,
    /// Load or run.
    pub phase: Phase,
    /// Operations in the trace.
    pub trace_rows: u64,
    /// Which part of a trace this is the result of, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<RunShard>,
    /// The name given to `--db`.
    pub db: String,
    /// Who answered.
    pub server: ServerMeta,
    /// Every setting of the replay, secrets removed.
    pub config: BTreeMap<String, String>,
    /// Connections.
    pub sessions: u32,
    /// Threads.
    pub lanes: u32,
    /// `unpaced`, `rate` (operations per second), `arrivals` (times of the trace) or [`PACE_UNKNOWN`].
    pub pace: String,
    /// Target of `rate`, operations per second.
    pub target_per_second: Option<f64>,
    /// Factor on the times of `arrivals`.
    pub speed: f64,
    /// `deps`, `key` or `none`.
    pub order: String,
    /// Where the replay ran.
    pub host: HostMeta,
    /// Start in UTC, RFC 3339.
    pub started_at: String,
    /// From the start to the end of the last operation.
    pub elapsed_ns: u64,
    /// Why the run ended: `trace exhausted`, `interrupted`, `time limit`, …
    pub ended_because: String,
    /// Every operation of the trace has its row.
    pub complete: bool,
    /// Ended by a signal.
    pub interrupted: bool,
    /// Rows in this file.
    pub rows: u64,
    /// Names of the statements of a statement trace, in its order; none for YCSB operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<String>,
    /// Transactions of a statement trace: in the trace, committed, and failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<TransactionsMeta>,
    /// Rows per kind and status; they add up to `rows`.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// First message and count of each error code.
    pub errors: Vec<ErrorMeta>,
    /// Cost of the harness.
    pub overhead: OverheadMeta,
    /// Times a lane had to wait for the recorder; not 0 means that the harness was the bottleneck.
    pub recorder_stalls: u64,
    /// Whether the rate was kept; none for an unpaced or very short run.
    #[serde(default)]
    pub sustained: Option<SustainedMeta>,
    /// Time that closing each connection took, ns, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closing_ns: Vec<u64>,
    /// What a Java machine in the process collected; none without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections: Vec<CollectorMeta>,
    /// What came of checking values; none without `dataintegrity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<IntegrityMeta>,
    /// Latency distributions.
    pub histograms: Vec<HistogramMeta>,
}
