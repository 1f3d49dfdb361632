//! Generates statement traces: (transactional workload, seed) → the rows of its transactions.
//!
//! A transaction is a function of its number, so parts are made in parallel and written in order. The
//! one thing carried along is the number of its first row: that of the rows before it.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use super::{Arrival, existing_trace, file_name, share};
use crate::op::OpKind;
use crate::statement::Statements;
use crate::trace::chunk::{ChunkBuilder, ChunkEncoder, EncodedChunk, Row, RowValues, TraceWriter};
use crate::trace::meta::{Phase, PropertyMeta, Shard, TraceMeta};
use crate::workload::oltp::{Maker, OltpSpec, RowOf};

/// Rows per chunk, roughly: a row group of the file.
const CHUNK_ROWS: u64 = 32_768;

/// What to generate.
#[derive(Debug)]
pub struct StatementPlan<'a> {
    /// The workload.
    pub spec: &'a OltpSpec,
    /// Seed of every stream.
    pub seed: u64,
    /// Which phase.
    pub phase: Phase,
    /// Transactions of the whole run phase.
    pub transactions: u64,
    /// Arrival times of transactions, if any.
    pub arrival: Option<Arrival>,
    /// Threads.
    pub jobs: usize,
    /// Part `0` of `1` parts: (index, count).
    pub shard: Option<(u64, u64)>,
    /// Content hash of the load trace, if it is known (run phase).
    pub load_hash: Option<String>,
}

/// Transactions that are made together, and what is known before them.
#[derive(Debug, Clone)]
struct Part {
    transactions: Range<u64>,
    first_row: u64,
    arrival_ns: u64,
}

impl StatementPlan<'_> {
    /// Transactions of the whole phase; the load's are INSERT statements.
    pub fn total(&self) -> u64 {
        match self.phase {
            Phase::Load => self.spec.load_rows(),
            Phase::Run => self.transactions,
        }
    }

    /// The transactions in this file.
    pub fn part(&self) -> Range<u64> {
        share(self.total(), self.shard)
    }

    /// `oltp_insert.run.parquet`, or `oltp_insert.run.0-of-3.parquet`.
    pub fn file_name(&self) -> String {
        file_name(&self.spec.name, self.phase, self.shard)
    }

    fn statements(&self) -> &Statements {
        match self.phase {
            Phase::Load => &self.spec.load_statements,
            Phase::Run => &self.spec.statements,
        }
    }

    /// The footer, but for what only the rows can tell.
    fn meta(&self) -> TraceMeta {
        let mut meta = TraceMeta::empty(&self.spec.name, self.phase);
        meta.seed = self.seed;
        meta.table = self.spec.schema.tables[0].name.clone();
        meta.shard = self.shard.map(|(index, count)| Shard { index, count, total_rows: self.total() });
        meta.arrival = self.arrival.map(Arrival::meta);
        let property = |(name, setting): (&str, crate::workload::Setting)| {
            (name.to_owned(), PropertyMeta { value: setting.value, source: setting.source.to_string() })
        };
        meta.properties = self.spec.options.effective().map(property).collect();
        meta.load_hash = self.load_hash.clone();
        meta.statements = self.statements().clone();
        meta.schema = Some(self.spec.schema.clone());
        let part = self.part();
        meta.transactions = Some(part.end - part.start);
        meta
    }

    /// The parts of this file, in order: a pass over the number of rows of each transaction.
    fn parts(&self, maker: &Maker<'_>) -> Vec<Part> {
        let constant = match self.phase {
            Phase::Load => Some(1),
            Phase::Run => maker.constant_rows(),
        };
        let rows_of = |number| constant.unwrap_or_else(|| maker.run_rows(number));
        let poisson = matches!(self.arrival, Some(Arrival::Poisson { .. }));
        let gap_ns = |number| match self.arrival {
            Some(arrival) if poisson => arrival.gap_ns(self.seed, number),
            _ => 0,
        };
        let wanted = self.part();
        let (mut first_row, mut arrival_ns) = match constant {
            Some(rows) if !poisson => (rows * wanted.start, 0),
            _ => (0..wanted.start).fold((0, 0), |(rows, ns), n| (rows + rows_of(n), ns + gap_ns(n))),
        };
        // A load's row holds many parameters.
        let most = if self.phase == Phase::Load { 512 } else { CHUNK_ROWS };
        let mut parts = Vec::new();
        let mut number = wanted.start;
        while number < wanted.end {
            let begin = Part { transactions: number..number, first_row, arrival_ns };
            let mut rows = 0;
            while number < wanted.end && rows < most {
                rows += rows_of(number);
                arrival_ns += gap_ns(number);
                number += 1;
            }
            first_row += rows;
            parts.push(Part { transactions: begin.transactions.start..number, ..begin });
        }
        parts
    }
}

/// Writes the trace to `path`. `on_transactions` is told how many are written; when `stop` becomes true
/// the unfinished file is removed and `None` returned.
pub fn generate(
    plan: &StatementPlan<'_>,
    path: &Path,
    stop: &AtomicBool,
    mut on_transactions: impl FnMut(u64),
) -> Result<Option<TraceMeta>> {
    let doing = || format!("cannot write {}", path.display());
    let kinds: Option<Vec<OpKind>> =
        plan.statements().0.iter().map(|statement| OpKind::register(&statement.name)).collect();
    let kinds = kinds.context("a workload may have up to 55 statements")?;
    let mut writer = TraceWriter::create(path, false).with_context(doing)?;
    let encoder = writer.encoder();
    let parts = plan.parts(&Maker::new(plan.spec, plan.seed));
    let mut meta = plan.meta();
    meta.first_op_id = parts.first().map_or(0, |part| part.first_row);
    let mut counts = vec![0u64; OpKind::ALL.len()];
    for together in parts.chunks(plan.jobs.max(1)) {
        let made: Vec<Result<(EncodedChunk, Vec<u64>)>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                together.iter().map(|part| scope.spawn(|| make(plan, part, &kinds, &encoder))).collect();
            threads.into_iter().map(|thread| thread.join().expect("making rows does not panic")).collect()
        });
        for (part, made) in together.iter().zip(made) {
            let (chunk, made) = match made.with_context(doing) {
                Ok(made) => made,
                Err(failure) => {
                    writer.abandon();
                    return Err(failure);
                }
            };
            if let Err(failure) = writer.append(chunk).with_context(doing) {
                writer.abandon();
                return Err(failure);
            }
            counts.iter_mut().zip(made).for_each(|(sum, more)| *sum += more);
            on_transactions(part.transactions.end - part.transactions.start);
        }
        if stop.load(Ordering::Relaxed) {
            writer.abandon();
            return Ok(None);
        }
    }
    for kind in OpKind::ALL.into_iter().filter(|&kind| counts[kind as usize] > 0) {
        meta.op_counts.insert(kind.name().to_owned(), counts[kind as usize]);
    }
    Ok(Some(writer.finish(meta).with_context(doing)?))
}

/// Makes and encodes one part; the counts are by kind.
fn make(
    plan: &StatementPlan<'_>,
    part: &Part,
    kinds: &[OpKind],
    encoder: &ChunkEncoder,
) -> Result<(EncodedChunk, Vec<u64>)> {
    let mut maker = Maker::new(plan.spec, plan.seed);
    let mut chunk = ChunkBuilder::new(1024);
    let mut counts = vec![0; OpKind::ALL.len()];
    let (mut id, mut arrival_ns) = (part.first_row, part.arrival_ns);
    for number in part.transactions.clone() {
        let mut at_ns = plan.arrival.map(|arrival| {
            if let Arrival::Poisson { .. } = arrival {
                arrival_ns += arrival.gap_ns(plan.seed, number);
            }
            arrival.at_ns(number, arrival_ns)
        });
        let each = |row: RowOf, lens: &[u32], bytes: &[u8]| {
            let (kind, table) = match row {
                RowOf::Begin => (OpKind::Begin, None),
                RowOf::Commit => (OpKind::Commit, None),
                RowOf::Statement { statement, table } => (kinds[statement], table),
            };
            counts[kind as usize] += 1;
            let first = lens.first().map_or(0, |&len| len as usize);
            let fields = table.map(|table| [table]);
            let row = Row {
                kind,
                key: &bytes[..first],
                fields: fields.as_ref().map(|table| &table[..]),
                values: if lens.is_empty() { RowValues::None } else { RowValues::Inline { lens, bytes } },
                scan_len: None,
                // The transaction's: its other statements start when the one before has ended.
                at_ns: at_ns.take(),
                after: None,
            };
            chunk.push_in(id, &row, Some(number));
            id += 1;
        };
        match plan.phase {
            Phase::Load => maker.load(number, each),
            Phase::Run => maker.run(number, each),
        }
    }
    Ok((encoder.encode(&mut chunk)?, counts))
}

/// Is there a trace at `path` that this plan would write again? An error if something else is there.
pub fn existing(plan: &StatementPlan<'_>, path: &Path) -> Result<Option<TraceMeta>> {
    // What only the rows can tell makes no difference, nor where an option was set.
    let bare = |meta: &TraceMeta| {
        let mut bare = TraceMeta { rows: 0, first_op_id: 0, load_hash: None, ..meta.clone() };
        bare.op_counts.clear();
        bare.content_hash.clear();
        bare.properties.values_mut().for_each(|property| property.source.clear());
        bare
    };
    existing_trace(path, |found| bare(found) == bare(&plan.meta()))
}
