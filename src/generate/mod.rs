//! Generates traces: (workload, seed) → the operations, in a Parquet file.
//!
//! Chunks of operations are made and encoded in parallel and written in order. Only two numbers are
//! carried from one chunk to the next (inserts so far, sum of the arrival gaps), and they come from
//! the streams alone, so the content is the same whatever the number of threads or shards.

mod inserts;
mod rows;
pub mod statements;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex};

use anyhow::{Context, Result, bail};

use self::inserts::InsertCounts;
use self::rows::{Carry, Counts, RowMaker, SEEK_OPS};
use crate::op::OpKind;
use crate::rng::{Purpose, Stream};
use crate::trace::chunk::{ChunkBuilder, EncodedChunk, TraceWriter};
use crate::trace::meta::{ArrivalMeta, Phase, PropertyMeta, Shape, Shard, TraceMeta};
use crate::workload::{OpChooser, WorkloadSpec};

/// Operations per chunk, which is a row group of the file; fewer if rows are large.
const CHUNK_OPS: u64 = 65_536;

/// Largest chunk in memory, by the longest values that can occur: what is made, hashed, encoded and
/// compressed one after the other should still be in the processor's cache.
const CHUNK_BYTES: u64 = 8 << 20;

/// How written values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueMode {
    /// The bytes.
    Inline,
    /// The key of the stream they are made from, and their lengths.
    Seeded,
}

impl ValueMode {
    /// The name in a trace's footer.
    pub const fn name(self) -> &'static str {
        match self {
            ValueMode::Inline => "inline",
            ValueMode::Seeded => "seeded",
        }
    }
}

/// How arrival times are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// Evenly spaced.
    Uniform {
        /// Operations per second.
        per_second: f64,
    },
    /// A Poisson process: independent exponential gaps, as from many independent users.
    Poisson {
        /// Mean operations per second.
        per_second: f64,
    },
}

impl Arrival {
    /// As a trace's footer has it.
    fn meta(self) -> ArrivalMeta {
        let (process, per_second) = match self {
            Arrival::Uniform { per_second } => ("uniform", per_second),
            Arrival::Poisson { per_second } => ("poisson", per_second),
        };
        ArrivalMeta { process: process.to_owned(), per_second }
    }

    /// The gap before operation `index`, ns; whole nanoseconds, so that sums do not depend on the
    /// order of addition.
    fn gap_ns(self, seed: u64, index: u64) -> u64 {
        match self {
            Arrival::Uniform { .. } => 0,
            Arrival::Poisson { .. } if index == 0 => 0,
            Arrival::Poisson { per_second } => {
                let unit = Stream::at(seed, Purpose::Arrival, index).unit();
                libm::round(-libm::log(1.0 - unit) * 1e9 / per_second) as u64
            }
        }
    }

    /// Arrival of operation `index`, given the sum of the gaps up to it.
    fn at_ns(self, index: u64, gaps_ns: u64) -> u64 {
        match self {
            Arrival::Uniform { per_second } => {
                let per_gigasecond = (per_second * 1e9) as u128;
                (u128::from(index) * 1_000_000_000_000_000_000 / per_gigasecond) as u64
            }
            Arrival::Poisson { .. } => gaps_ns,
        }
    }
}

/// Part `index` of `count` about equal parts of `total`; all of it without a shard.
fn share(total: u64, shard: Option<(u64, u64)>) -> Range<u64> {
    let (index, count) = shard.unwrap_or((0, 1));
    let bound = |part: u64| (u128::from(total) * u128::from(part) / u128::from(count)) as u64;
    bound(index)..bound(index + 1)
}

/// `workloada.run.parquet`, or `workloada.run.0-of-3.parquet`.
fn file_name(name: &str, phase: Phase, shard: Option<(u64, u64)>) -> String {
    let phase = phase.name();
    match shard {
        None => format!("{name}.{phase}.parquet"),
        Some((index, count)) => format!("{name}.{phase}.{index}-of-{count}.parquet"),
    }
}

/// The footer of the trace that is at `path` already, if it is what would be written there again
/// (`is_same`); an error if something else is there.
fn existing_trace(path: &Path, is_same: impl FnOnce(&TraceMeta) -> bool) -> Result<Option<TraceMeta>> {
    if !path.exists() {
        return Ok(None);
    }
    let found: TraceMeta = crate::trace::open(path)
        .and_then(|opened| opened.expect(crate::trace::FileKind::Trace))
        .and_then(|opened| opened.meta())
        .with_context(|| {
            format!("{} is in the way; move it, or use --force to replace it", path.display())
        })?;
    if is_same(&found) {
        return Ok(Some(found));
    }
    bail!(
        "{} holds another trace (seed {}, {} operations); use --force to replace it, or -o for another folder",
        path.display(),
        found.seed,
        found.rows
    );
}

/// What to generate.
#[derive(Debug)]
pub struct GenPlan<'a> {
    /// The workload.
    pub spec: &'a WorkloadSpec,
    /// Seed of every stream.
    pub seed: u64,
    /// Which phase.
    pub phase: Phase,
    /// How values are stored.
    pub values: ValueMode,
    /// Arrival times, if any.
    pub arrival: Option<Arrival>,
    /// Threads.
    pub jobs: usize,
    /// Part `0` of `1` parts: (index, count).
    pub shard: Option<(u64, u64)>,
    /// Content hash of the load trace, if it is known (run phase).
    pub load_hash: Option<String>,
}

impl GenPlan<'_> {
    /// Operations of the whole trace.
    pub fn total_ops(&self) -> u64 {
        match self.phase {
            Phase::Load => self.spec.insert_count,
            Phase::Run => self.spec.operation_count,
        }
    }

    /// The operations in this file.
    pub fn ops(&self) -> Range<u64> {
        share(self.total_ops(), self.shard)
    }

    /// `workloada.run.parquet`, or `workloada.run.0-of-3.parquet`.
    pub fn file_name(&self) -> String {
        file_name(&self.spec.name, self.phase, self.shard)
    }

    /// Rows per chunk: a multiple of [`SEEK_OPS`].
    fn chunk_ops(&self) -> u64 {
        let row_bytes = match self.values {
            ValueMode::Seeded => u64::from(self.spec.field_count) * 8 + 64,
            ValueMode::Inline => {
                u64::from(self.spec.field_count) * (u64::from(self.spec.field_length) + 8) + 64
            }
        };
        (CHUNK_BYTES / row_bytes / SEEK_OPS * SEEK_OPS).clamp(SEEK_OPS, CHUNK_OPS)
    }

    /// The footer, but for what only the rows can tell.
    pub fn meta(&self) -> TraceMeta {
        let spec = self.spec;
        let mut meta = TraceMeta::empty(&spec.name, self.phase);
        meta.seed = self.seed;
        meta.table = spec.table.clone();
        meta.field_names = spec.field_names();
        meta.field_length = spec.field_length;
        meta.first_op_id = self.ops().start;
        meta.shard = self.shard.map(|(index, count)| Shard { index, count, total_rows: self.total_ops() });
        meta.values = self.values.name().to_owned();
        meta.arrival = self.arrival.map(Arrival::meta);
        meta.shapes = shapes(spec, self.phase);
        meta.properties = properties(spec);
        meta.load_hash = self.load_hash.clone();
        meta
    }
}

fn properties(spec: &WorkloadSpec) -> BTreeMap<String, PropertyMeta> {
    let entry = |(name, setting): &(&str, crate::workload::Setting)| {
        let meta = PropertyMeta { value: setting.value.clone(), source: setting.source.to_string() };
        ((*name).to_owned(), meta)
    };
    spec.effective().iter().map(entry).collect()
}

/// The combinations of kind and fields that can occur.
fn shapes(spec: &WorkloadSpec, phase: Phase) -> Vec<Shape> {
    let all: Vec<u32> = (0..spec.field_count).collect();
    let singles = || all.iter().map(|&field| vec![field]).collect::<Vec<_>>();
    let mut shapes = BTreeSet::new();
    let mut add = |kind: OpKind, fields: Vec<Vec<u32>>| {
        shapes.extend(fields.into_iter().map(|fields| Shape { op: kind.name().to_owned(), fields }));
    };
    if phase == Phase::Load {
        add(OpKind::Insert, vec![all.clone()]);
        return shapes.into_iter().collect();
    }
    let chooser = spec.op_chooser();
    for kind in OpKind::YCSB.into_iter().filter(|&kind| chooser.share(kind) > 0.0) {
        let fields = match kind {
            OpKind::Insert => vec![all.clone()],
            OpKind::Update | OpKind::ReadModifyWrite if spec.write_all_fields => vec![all.clone()],
            OpKind::Read if spec.read_all_fields && spec.read_all_fields_by_name => vec![all.clone()],
            OpKind::Read | OpKind::Scan if spec.read_all_fields => vec![Vec::new()],
            OpKind::Delete => vec![Vec::new()],
            _ => singles(),
        };
        add(kind, fields);
    }
    shapes.into_iter().collect()
}

/// The next chunk to make, and what is known before it.
struct Dispenser {
    next: u64,
    carry: Carry,
    /// Chunks written so far: nobody runs further ahead than a few chunks.
    written: u64,
    handed_out: u64,
}

struct Chunk {
    number: u64,
    from: u64,
    keep: Range<u64>,
    carry: Carry,
}

/// Writes the trace to `path`, which must not exist. `on_rows` is told how many rows are written;
/// when `stop` becomes true the unfinished file is removed and `None` returned.
pub fn generate(
    plan: &GenPlan<'_>,
    path: &Path,
    stop: &AtomicBool,
    mut on_rows: impl FnMut(u64),
) -> Result<Option<TraceMeta>> {
    if plan.spec.data_integrity && plan.values == ValueMode::Seeded {
        bail!(
            "dataintegrity=true: its values follow from the keys and not from a seed; leave out --values seeded"
        );
    }
    let doing = || format!("cannot write {}", path.display());
    let kinds = (plan.phase == Phase::Run && plan.total_ops() > 0).then(|| plan.spec.op_chooser());
    let counts = InsertCounts::default();
    // Those that prove their integrity repeat themselves.
    let mut writer = TraceWriter::create(path, !plan.spec.data_integrity).with_context(doing)?;
    let encoder = writer.encoder();
    let jobs = plan.jobs.max(1);
    let dispenser = Mutex::new(Dispenser { next: 0, carry: Carry::default(), written: 0, handed_out: 0 });
    let progress = Condvar::new();
    let ended = AtomicBool::new(false);
    let mut total = Counts::default();

    let written: Result<()> = std::thread::scope(|scope| {
        let (done, finished) = sync_channel::<(u64, Result<(EncodedChunk, Counts)>)>(jobs);
        for _ in 0..jobs {
            let (done, encoder) = (done.clone(), encoder.clone());
            let (kinds, counts, dispenser, progress, ended) =
                (&kinds, &counts, &dispenser, &progress, &ended);
            scope.spawn(move || {
                let mut maker =
                    RowMaker::new(plan.spec, plan.phase, plan.seed, plan.values, plan.arrival, kinds, counts);
                let mut rows = ChunkBuilder::new(plan.chunk_ops() as usize);
                while let Some(chunk) =
                    next_chunk(plan, kinds, counts, dispenser, progress, ended, jobs as u64)
                {
                    let made = maker.fill(chunk.from, chunk.keep, chunk.carry, &mut rows);
                    let encoded =
                        encoder.encode(&mut rows).map(|encoded| (encoded, made)).map_err(Into::into);
                    if done.send((chunk.number, encoded)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut early = BTreeMap::new();
        let mut next = 0;
        let mut append_all = || -> Result<()> {
            for (number, encoded) in &finished {
                early.insert(number, encoded);
                while let Some(encoded) = early.remove(&next) {
                    let (encoded, made) = encoded?;
                    let rows = encoded.rows;
                    writer.append(encoded).with_context(doing)?;
                    total.merge(&made);
                    next += 1;
                    dispenser.lock().expect("no panic under this lock").written = next;
                    progress.notify_all();
                    on_rows(rows);
                }
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            Ok(())
        };
        let written = append_all();
        ended.store(true, Ordering::Relaxed);
        progress.notify_all();
        drop(finished);
        written
    });
    if let Err(failure) = written {
        writer.abandon();
        return Err(failure);
    }
    if stop.load(Ordering::Relaxed) {
        writer.abandon();
        return Ok(None);
    }
    let mut meta = plan.meta();
    for kind in OpKind::YCSB {
        if total.kinds[kind as usize] > 0 {
            meta.op_counts.insert(kind.name().to_owned(), total.kinds[kind as usize]);
        }
    }
    meta.dependent_ops = total.dependent;
    Ok(Some(writer.finish(meta).with_context(doing)?))
}

/// Hands out chunks in order. What a chunk needs to know is counted here, one chunk after the
/// other: a few nanoseconds an operation.
fn next_chunk(
    plan: &GenPlan<'_>,
    kinds: &Option<OpChooser>,
    counts: &InsertCounts,
    dispenser: &Mutex<Dispenser>,
    progress: &Condvar,
    ended: &AtomicBool,
    jobs: u64,
) -> Option<Chunk> {
    let ops = plan.ops();
    let chunk_ops = plan.chunk_ops();
    let inserts = kinds.as_ref().filter(|kinds| kinds.share(OpKind::Insert) > 0.0);
    let mut state = dispenser.lock().expect("no panic under this lock");
    loop {
        if ended.load(Ordering::Relaxed) || state.next >= ops.end {
            return None;
        }
        if state.handed_out >= state.written + 3 * jobs {
            state = progress.wait(state).expect("no panic under this lock");
            continue;
        }
        let (from, to) = (state.next, (state.next + chunk_ops).min(ops.end));
        let carry = state.carry;
        if let Some(kinds) = inserts {
            state.carry.inserts = counts.extend(kinds, plan.seed, from, to, carry.inserts);
        }
        if let Some(arrival @ Arrival::Poisson { .. }) = plan.arrival {
            state.carry.arrival_ns += (from..to).map(|index| arrival.gap_ns(plan.seed, index)).sum::<u64>();
        }
        state.next = to;
        if to <= ops.start {
            continue;
        }
        let number = state.handed_out;
        state.handed_out += 1;
        return Some(Chunk { number, from, keep: from.max(ops.start)..to, carry });
    }
}

/// The properties that decide what a load trace holds: one made for another run phase is as good.
const LOAD_PROPERTIES: &[&str] = &[
    "recordcount",
    "insertstart",
    "insertcount",
    "fieldcount",
    "fieldnameprefix",
    "fieldlength",
    "minfieldlength",
    "fieldlengthdistribution",
    "fieldlengthhistogram",
    "insertorder",
    "zeropadding",
    "keyprefix",
    "keys",
    "table",
];

/// Is there a trace at `path` that this plan would write again? An error if something else is there.
pub fn existing(plan: &GenPlan<'_>, path: &Path) -> Result<Option<TraceMeta>> {
    existing_trace(path, |found| {
        let mut wanted = plan.meta();
        wanted.rows = found.rows;
        wanted.op_counts = found.op_counts.clone();
        wanted.dependent_ops = found.dependent_ops;
        wanted.content_hash = found.content_hash.clone();
        wanted.load_hash = found.load_hash.clone();
        let matters = |name: &str| plan.phase == Phase::Run || LOAD_PROPERTIES.contains(&name);
        let values = |meta: &TraceMeta| -> BTreeMap<String, String> {
            let used = meta.properties.iter().filter(|(name, _)| matters(name));
            used.map(|(name, property)| (name.clone(), property.value.clone())).collect()
        };
        if values(found) == values(&wanted) {
            wanted.properties = found.properties.clone();
        }
        *found == wanted
    })
}
