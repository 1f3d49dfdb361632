//! Thousands of results in seconds: a report from their footers alone, without reading a row.
//!
//! Each footer holds an HdrHistogram per kind and series, of the ops that ended OK. Histograms add up
//! (percentiles do not), so the result is what one long run would have shown, to the histograms' width.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::caveat::Caveat;
use super::merge::{Member, add};
use super::quantile::Percentile;
use super::report::{IntegrityReport, Named, OpReport, Part, Quantile, RunReport, Series, Summary};
use super::{Options, report_of};
use crate::op::{OpKind, Status};
use crate::trace::meta::{IntegrityMeta, PACE_UNKNOWN, RunMeta};
use crate::trace::runs::RunFile;

/// Histograms of 3 digits: the largest error of a value.
pub const ERROR: f64 = 0.001;

/// Results of one phase, database and name become one run.
pub fn pool(files: Vec<(Option<String>, RunFile)>) -> Vec<Member> {
    type Key = (Option<String>, &'static str, String, String);
    let mut order: Vec<Key> = Vec::new();
    let mut pooled: BTreeMap<Key, Vec<RunFile>> = BTreeMap::new();
    for (name, file) in files {
        let trace =
            file.meta.shard.as_ref().map_or_else(|| file.meta.trace_hash.clone(), |one| one.of.clone());
        let key = (name, file.meta.phase.name(), file.meta.db.clone(), trace);
        if !pooled.contains_key(&key) {
            order.push(key.clone());
        }
        pooled.entry(key).or_default().push(file);
    }
    let member = |key: Key| {
        let files = pooled.remove(&key).expect("each key once");
        let mut meta = files[0].meta.clone();
        meta.elapsed_ns = files.iter().map(|file| file.meta.elapsed_ns).max().unwrap_or(0);
        meta.trace_rows = files.iter().map(|file| file.meta.trace_rows).sum();
        files[1..].iter().for_each(|file| add(&mut meta, &file.meta));
        let part = |file: &RunFile| Part {
            file: file.path().display().to_string(),
            shard: file.meta.shard.as_ref().map(|one| format!("{}/{}", one.index, one.count)),
            host: file.meta.host.name.clone(),
            started_at: file.meta.started_at.clone(),
            offset_ns: 0,
            rows: file.meta.rows,
        };
        let parts = if files.len() > 1 { files.iter().map(part).collect() } else { Vec::new() };
        Member { name: key.0, offsets_ns: vec![0; files.len()], files, meta, parts }
    };
    order.into_iter().map(member).collect()
}

/// The report of a run by its footers.
pub fn report(member: &Member, label: String, options: &Options) -> Result<RunReport> {
    let mut histograms: BTreeMap<(&str, &str), Histogram<u64>> = BTreeMap::new();
    for file in &member.files {
        for one in &file.meta.histograms {
            let unreadable = || format!("the histograms of {} cannot be read", file.path().display());
            let found = decoded(&one.hdr).with_context(unreadable)?;
            let fresh = || Histogram::new(3).expect("3 digits are allowed");
            let sum = histograms.entry((&one.op, &one.series)).or_insert_with(fresh);
            sum.add(&found).with_context(unreadable)?;
        }
    }
    let mut meta = member.meta.clone();
    if meta.counts.is_empty() {
        // An imported HdrHistogram log has no rows: its histograms say how many ops there were.
        for ((op, _), histogram) in &histograms {
            let ok = meta.counts.entry((*op).to_owned()).or_default().entry("OK".to_owned()).or_default();
            *ok = (*ok).max(histogram.len());
        }
    }
    let meta = &meta;
    let of = |kinds: &[OpKind]| op_report(meta, kinds, &histograms, &options.percentiles);
    let occurs = |kind: &OpKind| OpKind::YCSB.contains(kind) || meta.counts.contains_key(kind.name());
    let kinds: Vec<OpKind> = OpKind::ALL.into_iter().filter(occurs).collect();
    let all = of(&kinds);
    let ops = kinds.into_iter().map(|kind| {
        let report = of(&[kind]);
        (kind.name().to_owned(), (report.ops > 0).then_some(report))
    });
    let ops = Named(ops.collect());
    let mut run = report_of(member, label, all, ops);
    run.histogram_error = Some(ERROR);
    run.span_ns = meta.elapsed_ns;
    run.caveats.push(Caveat::FromFooters { files: member.files.len() }.noted());
    Ok(run)
}

fn op_report(
    meta: &RunMeta,
    kinds: &[OpKind],
    histograms: &BTreeMap<(&str, &str), Histogram<u64>>,
    percentiles: &[Percentile],
) -> OpReport {
    let count = |status: Status| -> u64 {
        let of = |kind: &OpKind| meta.counts.get(kind.name())?.get(status.name()).copied();
        kinds.iter().filter_map(of).sum()
    };
    let statuses: Vec<(String, u64)> = Status::ALL
        .into_iter()
        .map(|status| (status.name().to_owned(), count(status)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let ops: u64 = statuses.iter().map(|(_, count)| count).sum();
    let ok = count(Status::Ok);
    let no_response = !histograms.keys().any(|(_, series)| *series == "response");
    let series = |name: &str| {
        // Where due times are unknown, the response is the service time, as in the rows.
        let alone = name == "response" && meta.pace == PACE_UNKNOWN && no_response;
        let name = if alone { "service" } else { name };
        let mut sum = Histogram::<u64>::new(3).expect("3 digits are allowed");
        for found in kinds.iter().filter_map(|kind| histograms.get(&(kind.name(), name))) {
            sum.add(found).expect("it grows");
        }
        Series { ok: summary(&sum, 0, percentiles), all: summary(&sum, ops - ok, percentiles) }
    };
    let per_second = |count: u64| (meta.elapsed_ns > 0).then(|| count as f64 * 1e9 / meta.elapsed_ns as f64);
    OpReport {
        ops,
        ok,
        failed: ops - ok,
        error_rate: if ops == 0 { 0.0 } else { (ops - ok) as f64 / ops as f64 },
        ops_per_second: per_second(ops),
        ok_per_second: per_second(ok),
        statuses: Named(statuses),
        response: series("response"),
        service: series("service"),
        lag: series("lag"),
        failed_service: None,
        windows: Vec::new(),
    }
}

fn decoded(hdr: &str) -> Result<Histogram<u64>> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(hdr)?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|cause| anyhow::anyhow!("{cause}"))
}

/// What came of checking values, which only the footer says.
pub(super) fn integrity(meta: &RunMeta, percentiles: &[Percentile]) -> Result<Option<IntegrityReport>> {
    let Some(IntegrityMeta { ok, wrong, nothing, hdr }) = &meta.integrity else { return Ok(None) };
    let took = summary(&decoded(hdr)?, 0, percentiles);
    Ok(Some(IntegrityReport { ok: *ok, wrong: *wrong, nothing: *nothing, took }))
}

fn summary(histogram: &Histogram<u64>, unanswered: u64, percentiles: &[Percentile]) -> Summary {
    let known = histogram.len();
    let count = known + unanswered;
    let quantile = |percentile: &Percentile| {
        let quantile = (count > 0).then(|| {
            let rank = percentile.rank(count);
            let value_ns = (rank <= known).then(|| at_rank(histogram, rank));
            Quantile {
                value_ns,
                unanswered: value_ns.is_none(),
                above: count - rank,
                interval: None,
                insufficient: false,
            }
        });
        (percentile.text().to_owned(), quantile)
    };
    Summary {
        count,
        unanswered,
        min_ns: (known > 0).then(|| histogram.min()),
        mean_ns: (known > 0).then(|| histogram.mean().round() as u64),
        max_ns: (known > 0).then(|| histogram.max()),
        percentiles: Named(percentiles.iter().map(quantile).collect()),
    }
}

/// The value of a rank, counted from 1: the highest that the histogram does not tell from it.
fn at_rank(histogram: &Histogram<u64>, rank: u64) -> u64 {
    let mut below = 0;
    for bucket in histogram.iter_recorded() {
        below += bucket.count_at_value();
        if below >= rank {
            return bucket.value_iterated_to();
        }
    }
    histogram.max()
}
