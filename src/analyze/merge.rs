//! Which files are one run?
//!
//! A trace can be generated as shards, and each shard replayed on a machine of its own. Percentiles of
//! parts cannot be averaged, so the rows are put together: a run whose trace is the whole one. Each
//! shard must be there once. Every latency comes from one machine's clock; what the clocks say about each
//! other only places the parts on a common time line, for windows and rates.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;

use super::report::Part;
use super::scan::Source;
use crate::trace::meta::{RunMeta, RunShard};
use crate::trace::runs::RunFile;

/// A run: one file, or several.
pub struct Member {
    /// The name it was given (`NAME=FILE`).
    pub name: Option<String>,
    /// At least one.
    pub files: Vec<RunFile>,
    /// Per file: when it started, after the first of them, ns.
    pub offsets_ns: Vec<u64>,
    /// The footer of the whole.
    pub meta: RunMeta,
    /// Described for the report; empty for a single file.
    pub parts: Vec<Part>,
}

impl Member {
    /// The files on a common time line.
    pub fn sources(&self) -> Vec<Source<'_>> {
        let of = |(file, &offset_ns)| Source { file, offset_ns };
        self.files.iter().zip(&self.offsets_ns).map(of).collect()
    }

    fn single(name: Option<String>, file: RunFile) -> Member {
        let meta = file.meta.clone();
        Member { name, files: vec![file], offsets_ns: vec![0], meta, parts: Vec::new() }
    }
}

/// Puts files together that are one run. Shards belong together if their name (`NAME=FILE`), phase and
/// database are the same.
pub fn members(files: Vec<(Option<String>, RunFile)>) -> Result<Vec<Member>> {
    type Key = (Option<String>, &'static str, String);
    let mut order: Vec<Result<Member, Key>> = Vec::new();
    let mut sharded: BTreeMap<Key, Vec<RunFile>> = BTreeMap::new();
    for (name, file) in files {
        if file.meta.shard.is_none() {
            order.push(Ok(Member::single(name, file)));
            continue;
        }
        let key = (name, file.meta.phase.name(), file.meta.db.clone());
        if !sharded.contains_key(&key) {
            order.push(Err(key.clone()));
        }
        sharded.entry(key).or_default().push(file);
    }
    let finish = |one: Result<Member, Key>| match one {
        Ok(member) => Ok(member),
        Err(key) => {
            let files = sharded.remove(&key).expect("each key once");
            together(key.0, files)
        }
    };
    order.into_iter().map(finish).collect()
}

/// What a file says it is a part of.
fn shard(file: &RunFile) -> &RunShard {
    file.meta.shard.as_ref().expect("only shards get here")
}

fn described(file: &RunFile) -> String {
    let shard = shard(file);
    format!("{} (shard {}/{} of {})", file.path().display(), shard.index, shard.count, shard.trace)
}

/// Makes one run of shards, or says which one is missing, too much, or of another trace.
fn together(name: Option<String>, mut files: Vec<RunFile>) -> Result<Member> {
    files.sort_by_key(|file| shard(file).index);
    let first = &files[0];
    let of = |file: &RunFile| (shard(file).of.clone(), shard(file).count, shard(file).total_rows);
    if let Some(foreign) = files.iter().find(|file| of(file) != of(first)) {
        bail!(
            "{} and {} are parts of different traces; give runs of different traces names: NAME=FILE",
            described(first),
            described(foreign)
        );
    }
    if let Some(twins) = files.windows(2).find(|two| shard(&two[0]).index == shard(&two[1]).index) {
        bail!(
            "{} and {} are the same shard twice; give each once, or, for several runs, each run a name: NAME=FILE",
            described(&twins[0]),
            described(&twins[1])
        );
    }
    let there: Vec<u64> = files.iter().map(|file| shard(file).index).collect();
    let missing: Vec<String> = (0..shard(first).count)
        .filter(|index| !there.contains(index))
        .map(|index| format!("{index}/{}", shard(first).count))
        .collect();
    if !missing.is_empty() {
        bail!(
            "{} is a part of a trace whose other parts are missing: {}. Give their results, too",
            described(first),
            missing.join(", ")
        );
    }
    let setup = |meta: &RunMeta| {
        format!("pace {} at speed {}, order {}, {}", meta.pace, meta.speed, meta.order, meta.server.version)
    };
    if let Some(other) = files.iter().find(|file| setup(&file.meta) != setup(&first.meta)) {
        bail!(
            "{} and {} cannot be one run: {} / {}",
            described(first),
            described(other),
            setup(&first.meta),
            setup(&other.meta)
        );
    }
    let mut starts_ns = Vec::new();
    for file in &files {
        let started: Timestamp = file
            .meta
            .started_at
            .parse()
            .with_context(|| format!("{} does not say when it started", file.path().display()))?;
        starts_ns.push(started.as_nanosecond());
    }
    let earliest = starts_ns.iter().min().copied().unwrap_or(0);
    let offsets_ns: Vec<u64> = starts_ns.iter().map(|start| (start - earliest) as u64).collect();
    let part = |(file, &offset_ns): (&RunFile, &u64)| Part {
        file: file.path().display().to_string(),
        shard: Some(format!("{}/{}", shard(file).index, shard(file).count)),
        host: file.meta.host.name.clone(),
        started_at: file.meta.started_at.clone(),
        offset_ns,
        rows: file.meta.rows,
    };
    let parts = files.iter().zip(&offsets_ns).map(part).collect();
    let meta = whole(&files, &offsets_ns);
    Ok(Member { name, files, offsets_ns, meta, parts })
}

/// The footer of the whole run.
fn whole(files: &[RunFile], offsets_ns: &[u64]) -> RunMeta {
    let mut meta = files[0].meta.clone();
    let shard = meta.shard.take().expect("only shards get here");
    (meta.trace, meta.trace_rows) = (shard.trace, shard.total_rows);
    // The hash of a trace is the sum over its rows, so those of its shards add up to it.
    let hash = |file: &RunFile| u128::from_str_radix(&file.meta.trace_hash, 16).unwrap_or(0);
    meta.trace_hash = format!("{:032x}", files.iter().map(hash).fold(0, u128::wrapping_add));
    let earliest = offsets_ns.iter().position(|&offset| offset == 0).unwrap_or(0);
    meta.started_at = files[earliest].meta.started_at.clone();
    let ends = files.iter().zip(offsets_ns).map(|(file, offset)| file.meta.elapsed_ns + offset);
    meta.elapsed_ns = ends.max().unwrap_or(0);
    let because = files.iter().find(|file| !file.meta.complete).unwrap_or(&files[0]);
    meta.ended_because = because.meta.ended_because.clone();
    meta.sustained =
        files.iter().filter_map(|file| file.meta.sustained.clone()).min_by_key(|verdict| verdict.sustained);
    for file in &files[1..] {
        add(&mut meta, &file.meta);
    }
    meta
}

/// Adds up what can be added.
pub fn add(meta: &mut RunMeta, other: &RunMeta) {
    meta.sessions += other.sessions;
    meta.lanes += other.lanes;
    meta.target_per_second =
        meta.target_per_second.zip(other.target_per_second).map(|(one, other)| one + other);
    meta.complete &= other.complete;
    meta.interrupted |= other.interrupted;
    meta.rows += other.rows;
    meta.recorder_stalls += other.recorder_stalls;
    for (op, statuses) in &other.counts {
        let sums = meta.counts.entry(op.clone()).or_default();
        statuses.iter().for_each(|(status, count)| *sums.entry(status.clone()).or_default() += count);
    }
    for error in &other.errors {
        match meta.errors.iter_mut().find(|one| one.code == error.code) {
            Some(one) => one.count += error.count,
            None => meta.errors.push(error.clone()),
        }
    }
    let (one, other_overhead) = (&mut meta.overhead, &other.overhead);
    one.clock_read_ns = one.clock_read_ns.max(other_overhead.clock_read_ns);
    one.wake_late_p50_ns = one.wake_late_p50_ns.max(other_overhead.wake_late_p50_ns);
    one.wake_late_p99_ns = one.wake_late_p99_ns.max(other_overhead.wake_late_p99_ns);
    meta.histograms.extend(other.histograms.iter().cloned());
}
