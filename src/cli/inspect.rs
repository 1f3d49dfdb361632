//! `inspect`: what a trace or result file is, from its footer, and the realised skew of a trace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use super::Verdict;
use super::progress::{bytes_text, count_text};
use super::replay::summary;
use super::say::say;
use crate::op::OpKind;
use crate::trace::meta::{RunMeta, TraceMeta};
use crate::trace::ops::TraceReader;
use crate::trace::{self, FileKind};

/// Operations looked at for the realised skew.
const SKEW_OPS: u64 = 5_000_000;

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Trace or result file
    file: PathBuf,
    /// Print the footer as JSON
    #[arg(long)]
    json: bool,
}

/// `inspect`.
pub fn run(args: &InspectArgs) -> Result<Verdict> {
    let opened = trace::open(&args.file)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&opened.footer)?)?;
        return Ok(Verdict::Done);
    }
    let bytes = opened.file.metadata().map_or(0, |file| file.len());
    match opened.kind {
        FileKind::Trace => print_trace(&args.file, &opened.meta()?, bytes)?,
        FileKind::Result => {
            let meta: RunMeta = opened.meta()?;
            say!(
                "{}: a result, format version {}, written by {}, {}",
                args.file.display(),
                meta.format_version,
                meta.generator,
                bytes_text(bytes)
            )?;
            say!("{}", summary(&meta))?;
            say!("trace {} ({})", meta.trace, meta.trace_hash)?;
            say!(
                "started {} on {} ({}, {} CPUs)",
                meta.started_at,
                meta.host.name,
                meta.host.system,
                meta.host.cpus
            )?;
            say!(
                "{} sessions on {} lanes · pace {} · order {}",
                meta.sessions,
                meta.lanes,
                meta.pace,
                meta.order
            )?;
            say!("settings of the database:")?;
            for (name, value) in &meta.server.settings {
                say!("  {name} = {value}")?;
            }
            for (op, text) in &meta.server.statements {
                say!("  {op}: {text}")?;
            }
            say!("settings of the replay:")?;
            for (name, value) in &meta.config {
                say!("  {name} = {value}")?;
            }
        }
    }
    Ok(Verdict::Done)
}

fn print_trace(path: &Path, meta: &TraceMeta, bytes: u64) -> Result<()> {
    say!(
        "{}: a {} trace of {}, format version {}, written by {}",
        path.display(),
        meta.phase.name(),
        meta.workload,
        meta.format_version,
        meta.generator
    )?;
    say!(
        "{} operations, {} ({:.1} bytes an operation), seed {}, {} values, content {}",
        count_text(meta.rows),
        bytes_text(bytes),
        bytes as f64 / meta.rows.max(1) as f64,
        meta.seed,
        meta.values,
        meta.content_hash
    )?;
    if let Some(shard) = meta.shard {
        say!(
            "part {} of {} of a trace of {} operations",
            shard.index,
            shard.count,
            count_text(shard.total_rows)
        )?;
    }
    if let Some(arrival) = &meta.arrival {
        say!("{} arrivals, {} per second", arrival.process, arrival.per_second)?;
    }
    for (op, count) in &meta.op_counts {
        say!(
            "  {op:<18} {:>14}  {:6.2} %",
            count_text(*count),
            *count as f64 * 100.0 / meta.rows.max(1) as f64
        )?;
    }
    if meta.dependent_ops > 0 {
        say!("{} operations wait for an insert of this trace", count_text(meta.dependent_ops))?;
    }
    if let Some(skew) = realised_skew(path)? {
        say!(
            "realised skew over {} choices of {} keys: hottest {:.2} %, top 10 {:.1} %, top 100 {:.1} %",
            count_text(skew.choices),
            count_text(skew.keys),
            skew.top(1),
            skew.top(10),
            skew.top(100)
        )?;
    }
    say!("settings that are not defaults:")?;
    for (name, property) in meta.properties.iter().filter(|(_, property)| property.source != "default") {
        say!("  {name} = {} ({})", property.value, property.source)?;
    }
    Ok(())
}

/// How often the keys of a trace are really chosen.
pub struct Skew {
    /// Operations that chose an existing key.
    pub choices: u64,
    /// Distinct keys chosen.
    pub keys: u64,
    /// Choices per key, descending.
    counts: Vec<u64>,
}

impl Skew {
    /// Percent of the choices that fall on the `n` hottest keys.
    pub fn top(&self, n: usize) -> f64 {
        self.counts.iter().take(n).sum::<u64>() as f64 * 100.0 / self.choices.max(1) as f64
    }
}

/// Counts the choices of the first [`SKEW_OPS`] operations; `None` if nothing chooses.
pub fn realised_skew(path: &Path) -> Result<Option<Skew>> {
    let mut reader = TraceReader::open(path)?;
    let mut counts: HashMap<Box<str>, u64> = HashMap::new();
    let mut choices = 0;
    while let Some(block) = reader.next_block()? {
        for row in (0..block.len()).filter(|&row| block.kind(row) != OpKind::Insert) {
            choices += 1;
            match counts.get_mut(block.key(row)) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(block.key(row).into(), 1);
                }
            }
        }
        if choices >= SKEW_OPS {
            break;
        }
    }
    let keys = counts.len() as u64;
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    Ok((choices > 0).then_some(Skew { choices, keys, counts }))
}
