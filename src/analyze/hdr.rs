//! A run as an HdrHistogram log: per window an interval for each op and series, so that the tools
//! around HdrHistogram (plotters, log processors in a dozen languages) can go on from here.
//!
//! It is made of the rows, one series a scan, and keeps of each window only the buckets that occur.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::{expand, open_all};
use crate::exchange::hdr_log::{self, Entry};
use crate::op::{NEVER_NS, OpKind};
use crate::trace::meta::{PACE_UNKNOWN, RunMeta};
use crate::trace::runs::{RunFile, RunTimes};

/// A series and how a row's latency in it is found.
type Series = (&'static str, fn(intended: u64, start: u64, end: u64) -> u64);

/// In the order of reports.
const SERIES: [Series; 3] = [
    ("response", |intended, _, end| end.saturating_sub(intended)),
    ("service", |_, start, end| end.saturating_sub(start)),
    ("lag", |intended, start, _| start.saturating_sub(intended)),
];

/// Latencies of one window, by the lowest value of their bucket.
type Buckets = HashMap<u64, u64>;

/// The log of one run: ops that ended OK, by intended start, in nanoseconds.
pub fn log(paths: &[PathBuf], window_ns: u64) -> Result<String> {
    let files: Vec<RunFile> = open_all(&expand(paths)?)?.into_iter().map(|(_, file)| file).collect();
    let [file] = files.as_slice() else {
        bail!("--format hdr makes the log of one run, but {} results were given", files.len());
    };
    let meta = &file.meta;
    let mut entries = if meta.rows > 0 {
        of_rows(file, window_ns)?
    } else {
        of_footer(file).with_context(|| unreadable(file))?
    };
    entries.sort();
    let began: jiff::Timestamp = meta
        .started_at
        .parse()
        .with_context(|| format!("{} says it was started at {:?}", file.path().display(), meta.started_at))?;
    let title = format!("{} of {} on {}", meta.run_id, meta.trace, meta.db);
    let base_ns = u64::try_from(began.as_nanosecond()).unwrap_or(0);
    Ok(hdr_log::write(&title.replace(['\r', '\n'], " "), base_ns, &entries))
}

fn unreadable(file: &RunFile) -> String {
    format!("the footer of {} holds a histogram that cannot be decoded", file.path().display())
}

/// Response and lag are not series of their own where due times are unknown.
fn series_of(meta: &RunMeta) -> &'static [Series] {
    if meta.pace == PACE_UNKNOWN { &SERIES[1..2] } else { &SERIES }
}

fn of_rows(file: &RunFile, window_ns: u64) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (name, of) in series_of(&file.meta) {
        let mut windows: BTreeMap<(u64, OpKind), Buckets> = BTreeMap::new();
        for row_group in 0..file.row_groups() {
            file.scan_times(row_group, false, false, |rows| add(rows, window_ns, *of, &mut windows))?;
        }
        for ((window, kind), buckets) in windows {
            let mut histogram = Histogram::<u64>::new(3).expect("3 digits are allowed");
            for (value, count) in buckets {
                histogram.record_n(value, count).expect("the histogram grows with its values");
            }
            let tag = format!("{}.{name}", kind.name());
            entries.push(Entry::new(tag, window * window_ns, window_ns, &histogram));
        }
    }
    Ok(entries)
}

fn add(
    rows: &RunTimes,
    window_ns: u64,
    of: fn(u64, u64, u64) -> u64,
    windows: &mut BTreeMap<(u64, OpKind), Buckets>,
) {
    for row in 0..rows.kinds.len() {
        let (intended, start, end) = (rows.intended_ns[row] as u64, rows.start_ns[row], rows.end_ns[row]);
        if rows.statuses[row].is_success() && start != NEVER_NS && end != NEVER_NS {
            let buckets = windows.entry((intended / window_ns, rows.kinds[row])).or_default();
            *buckets.entry(lowest(of(intended, start, end))).or_default() += 1;
        }
    }
}

/// The lowest value that a histogram of 3 digits does not tell from this one: the 11 highest bits.
fn lowest(value: u64) -> u64 {
    let dropped = 53u32.saturating_sub(value.leading_zeros());
    value >> dropped << dropped
}

/// A result without rows has one interval for each of its histograms.
fn of_footer(file: &RunFile) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for one in &file.meta.histograms {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&one.hdr)?;
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|cause| anyhow::anyhow!("{cause}"))?;
        entries.push(Entry::new(format!("{}.{}", one.op, one.series), 0, file.meta.elapsed_ns, &histogram));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_a_histogram_of_three_digits() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for value in [0, 1, 2047, 2048, 2049, 4095, 4096, 4099, 1_000_003, 400_000_000_001, u64::MAX / 4] {
            histogram.record(value).unwrap();
            assert_eq!(lowest(value), histogram.lowest_equivalent(value), "{value}");
        }
    }
}
