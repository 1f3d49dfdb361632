//! YCSB's own report, for scripts that parse it: `[READ], 95thPercentileLatency(us), 1109`.
//!
//! Where the two tools differ, this says what is true here. Latencies are exact, YCSB's are those of
//! buckets. A read-modify-write is also there as READ and UPDATE, as in YCSB; but here its update is sent
//! only if its read has found the row, and one that failed is not among the successes.
//! The collections of garbage are those of the Java machine that JDBC needs; without one, those lines are 0.

use std::fmt::Write;

use super::Page;
use crate::analyze::report::{
    IntegrityReport, Named, OpReport, Quantile, Report, RequestReport, RunReport, Summary,
};
use crate::trace::meta::CollectorMeta;

pub(super) fn render(report: &Report, _page: Page) -> String {
    let mut out = String::new();
    for run in &report.runs {
        if report.runs.len() > 1 {
            line(&mut out, format_args!("# {}", run.run_id));
        }
        overall(&mut out, run);
        let interval = run.config.get("measurement.interval").map(|text| text.trim());
        let mut blocks = blocks(run, interval == Some("intended"));
        in_order_of_java(&mut blocks);
        blocks.iter().for_each(|block| block.write(&mut out, ""));
        if interval == Some("both") {
            let mut intended = self::blocks(run, true);
            in_order_of_java(&mut intended);
            for block in &mut intended {
                block.returns.clear();
                block.write(&mut out, "Intended-");
            }
        }
    }
    out
}

fn line(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("writing to a string");
}

fn overall(out: &mut String, run: &RunReport) {
    let run_time_ms = run.elapsed_ns / 1_000_000;
    // From the exact time: a run of less than a millisecond is not infinitely fast.
    let throughput = java_double(1e9 * run.all.ops as f64 / run.elapsed_ns.max(1) as f64);
    line(out, format_args!("[OVERALL], RunTime(ms), {run_time_ms}"));
    line(out, format_args!("[OVERALL], Throughput(ops/sec), {throughput}"));
    let mut collections = run.collections.clone();
    if collections.is_empty() {
        if matches!(run.db.as_str(), "jdbc" | "herddb") {
            // A result of an older version, or a Java machine that does not tell.
            return;
        }
        // The collectors that YCSB's sample reports name, so that every line keeps its place.
        let nothing = |name: &str| CollectorMeta { name: name.to_owned(), ..CollectorMeta::default() };
        collections = ["G1 Young Generation", "G1 Old Generation"].map(nothing).to_vec();
    }
    collections.iter_mut().for_each(|collector| collector.name = collector.name.replace(' ', "_"));
    // As many slots as Java's map makes for two or three of them.
    collections.sort_by_key(|collector| java_slot(&collector.name, 4));
    let share = |time_ms: u64| java_double(time_ms as f64 / run_time_ms.max(1) as f64 * 100.0);
    for CollectorMeta { name, count, time_ms } in &collections {
        line(out, format_args!("[TOTAL_GCS_{name}], Count, {count}"));
        line(out, format_args!("[TOTAL_GC_TIME_{name}], Time(ms), {time_ms}"));
        line(out, format_args!("[TOTAL_GC_TIME_%_{name}], Time(%), {}", share(*time_ms)));
    }
    let count = collections.iter().map(|collector| collector.count).sum::<u64>();
    let time_ms = collections.iter().map(|collector| collector.time_ms).sum::<u64>();
    line(out, format_args!("[TOTAL_GCs], Count, {count}"));
    line(out, format_args!("[TOTAL_GC_TIME], Time(ms), {time_ms}"));
    line(out, format_args!("[TOTAL_GC_TIME_%], Time(%), {}", share(time_ms)));
}

/// Everything about one measurement.
struct Block {
    name: String,
    latencies: Summary,
    /// YCSB's status → operations.
    returns: Vec<(&'static str, u64)>,
}

/// The measurements of a run, in the order in which YCSB would first have met them.
fn blocks(run: &RunReport, intended: bool) -> Vec<Block> {
    let (mut blocks, mut failed) = (Vec::new(), Vec::new());
    for measured in measured(run) {
        let Measured { name, response, service, statuses, failures, failed_service } = measured;
        let latencies = if intended { response } else { service };
        let returns = if name == "READ_MODIFY_WRITE" { Vec::new() } else { returns(statuses) };
        let name = name.replace('_', "-");
        blocks.push(Block { name: name.clone(), latencies: latencies.clone(), returns });
        if failures > 0 {
            // What was never answered has no latency, and still failed.
            let mut latencies = failed_service.cloned().unwrap_or_else(|| nothing(run));
            latencies.count = failures;
            failed.push(Block { name: format!("{name}-FAILED"), latencies, returns: Vec::new() });
        }
    }
    blocks.append(&mut failed);
    if let Some(per_row) = run.scan_per_row.as_ref().filter(|_| !intended) {
        let name = "SCAN-LATENCY-PER-RECORD".to_owned();
        blocks.push(Block { name, latencies: per_row.clone(), returns: Vec::new() });
    }
    if let Some(IntegrityReport { ok, wrong, nothing, took }) = &run.integrity {
        let mut returns = vec![("OK", *ok), ("UNEXPECTED_STATE", *wrong), ("ERROR", *nothing)];
        returns.retain(|(_, count)| *count > 0);
        blocks.push(Block { name: "VERIFY".to_owned(), latencies: took.clone(), returns });
    }
    if !run.closing_ns.is_empty() {
        let latencies = of_values(run, &run.closing_ns);
        blocks.push(Block { name: "CLEANUP".to_owned(), latencies, returns: Vec::new() });
    }
    blocks
}

/// What both tools measure under a name of its own: a kind of op, or requests of one kind.
pub(super) struct Measured<'a> {
    /// As in results: READ_MODIFY_WRITE.
    pub name: &'a str,
    /// Of those that ended OK.
    pub response: &'a Summary,
    /// Of those that ended OK.
    pub service: &'a Summary,
    /// How many per status.
    pub statuses: &'a Named<u64>,
    /// How many did not end OK.
    pub failures: u64,
    /// Of those that were answered.
    pub failed_service: Option<&'a Summary>,
}

/// Everything that they would have measured of this run, in the order of our kinds.
pub(super) fn measured(run: &RunReport) -> Vec<Measured<'_>> {
    let mut measured = Vec::new();
    for (name, of_kind) in &run.ops.0 {
        let requests = match (name.as_str(), &run.requests) {
            ("READ", Some(requests)) => Some(&requests.read),
            ("UPDATE", Some(requests)) => Some(&requests.update),
            _ => None,
        };
        if let Some(RequestReport { ok, failed, statuses, response, service, failed_service }) = requests
            && ok + failed > 0
        {
            let failed_service = failed_service.as_ref();
            measured.push(Measured { name, response, service, statuses, failures: *failed, failed_service });
        } else if let Some(OpReport { response, service, statuses, failed, failed_service, .. }) = of_kind {
            let (response, service, failed_service) = (&response.ok, &service.ok, failed_service.as_ref());
            measured.push(Measured { name, response, service, statuses, failures: *failed, failed_service });
        }
    }
    measured
}

fn nothing(run: &RunReport) -> Summary {
    of_values(run, &[])
}

/// A summary of ascending values, with the percentiles of the report.
fn of_values(run: &RunReport, ascending: &[u64]) -> Summary {
    let count = ascending.len() as u64;
    let quantile = |text: &str| {
        let percentile: crate::analyze::quantile::Percentile = text.parse().ok()?;
        let value_ns = *ascending.get(percentile.rank(count.max(1)) as usize - 1)?;
        Some(Quantile {
            value_ns: Some(value_ns),
            unanswered: false,
            above: 0,
            insufficient: false,
            interval: None,
        })
    };
    let names = run.all.service.ok.percentiles.0.iter().map(|(text, _)| text.clone());
    Summary {
        count,
        unanswered: 0,
        min_ns: ascending.first().copied(),
        mean_ns: (count > 0).then(|| ascending.iter().sum::<u64>() / count),
        max_ns: ascending.last().copied(),
        percentiles: Named(names.map(|text| (text.clone(), quantile(&text))).collect()),
    }
}

impl Block {
    fn write(&self, out: &mut String, prefix: &str) {
        let name = format!("{prefix}{}", self.name);
        let Summary { count, min_ns, mean_ns, max_ns, percentiles, .. } = &self.latencies;
        let us = |ns: &Option<u64>| ns.unwrap_or(0) / 1000;
        let average = java_double(mean_ns.unwrap_or(0) as f64 / 1000.0);
        line(out, format_args!("[{name}], Operations, {count}"));
        line(out, format_args!("[{name}], AverageLatency(us), {average}"));
        line(out, format_args!("[{name}], MinLatency(us), {}", us(min_ns)));
        line(out, format_args!("[{name}], MaxLatency(us), {}", us(max_ns)));
        for (percentile, quantile) in &percentiles.0 {
            let value = us(&quantile.and_then(|quantile| quantile.value_ns));
            line(out, format_args!("[{name}], {}PercentileLatency(us), {value}", ordinal(percentile)));
        }
        for (status, count) in &self.returns {
            line(out, format_args!("[{name}], Return={status}, {count}"));
        }
    }
}

/// YCSB's statuses in the order in which it prints them, and ours that are one of them.
const RETURNS: [(&str, &[&str]); 7] = [
    ("OK", &["OK"]),
    ("NOT_IMPLEMENTED", &["UNSUPPORTED"]),
    ("BAD_REQUEST", &["REJECTED"]),
    ("UNEXPECTED_STATE", &["MISMATCH"]),
    ("SERVICE_UNAVAILABLE", &["UNAVAILABLE"]),
    ("NOT_FOUND", &["NOT_FOUND"]),
    ("ERROR", &["ERROR", "DUPLICATE", "TIMEOUT", "CONFLICT", "DROPPED", "UNMET"]),
];

fn returns(statuses: &Named<u64>) -> Vec<(&'static str, u64)> {
    let count = |names: &[&str]| names.iter().filter_map(|name| statuses.get(name)).sum();
    let mut returns: Vec<_> = RETURNS.iter().map(|(theirs, ours)| (*theirs, count(ours))).collect();
    returns.retain(|(_, count)| *count > 0);
    returns
}

/// YCSB prints its measurements in the order of a Java hash map: by the low bits of their names' hash.
fn in_order_of_java(blocks: &mut [Block]) {
    // The table doubles when it is three quarters full.
    let slots: u32 = if blocks.len() > 12 { 32 } else { 16 };
    blocks.sort_by_key(|block| java_slot(&block.name, slots));
}

/// The place of a name in a Java hash map with so many slots, a power of two.
fn java_slot(name: &str, slots: u32) -> u32 {
    let hash = java_hash(name);
    (hash ^ (hash >> 16)) & (slots - 1)
}

/// Java's `String.hashCode` of an ASCII text.
fn java_hash(text: &str) -> u32 {
    text.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

/// `1st`, `2nd`, `95th`; with decimals YCSB writes the bare number: `99.9`.
fn ordinal(percentile: &str) -> String {
    let suffix = match percentile.parse::<u32>() {
        Err(_) => "",
        Ok(whole) => match (whole % 10, whole % 100) {
            (_, 11..=13) => "th",
            (1, _) => "st",
            (2, _) => "nd",
            (3, _) => "rd",
            _ => "th",
        },
    };
    format!("{percentile}{suffix}")
}

/// Java's `Double.toString`: at least one decimal, an exponent from 10⁷ on and below 10⁻³.
pub fn java_double(value: f64) -> String {
    if !value.is_finite() {
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        return if value < 0.0 { format!("-{name}") } else { name.to_owned() };
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').expect("the exponent was asked for");
    let dot = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{dot}E{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_java_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.001, "0.001"),
            (9.999e-4, "9.999E-4"),
            (1234.56789, "1234.56789"),
            (9_999_999.9, "9999999.9"),
            (1e7, "1.0E7"),
            (1.23456789e7, "1.23456789E7"),
            (1e21, "1.0E21"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(java_double(value), text);
        }
        let labels =
            ["0", "1", "2", "3", "11", "12", "13", "21", "50", "95", "99", "99.9", "100"].map(ordinal);
        let expected = [
            "0th", "1st", "2nd", "3rd", "11th", "12th", "13th", "21st", "50th", "95th", "99th", "99.9",
            "100th",
        ];
        assert_eq!(labels, expected);
    }

    /// The orders that real runs of YCSB printed.
    #[test]
    fn measurements_come_in_the_order_of_java() {
        let empty = Summary {
            count: 0,
            unanswered: 0,
            min_ns: None,
            mean_ns: None,
            max_ns: None,
            percentiles: Named(Vec::new()),
        };
        let ordered = |names: &[&str]| {
            let block = |name: &&str| Block {
                name: (*name).to_owned(),
                latencies: empty.clone(),
                returns: Vec::new(),
            };
            let mut blocks: Vec<Block> = names.iter().map(block).collect();
            in_order_of_java(&mut blocks);
            blocks.into_iter().map(|block| block.name).collect::<Vec<_>>()
        };
        assert_eq!(ordered(&["UPDATE", "READ", "CLEANUP"]), ["READ", "CLEANUP", "UPDATE"]);
        assert_eq!(ordered(&["SCAN", "INSERT", "CLEANUP"]), ["CLEANUP", "INSERT", "SCAN"]);
        assert_eq!(
            ordered(&["READ", "READ-FAILED", "UPDATE-FAILED", "UPDATE", "CLEANUP"]),
            ["READ", "UPDATE-FAILED", "CLEANUP", "READ-FAILED", "UPDATE"]
        );
        assert_eq!(java_hash("READ"), 2_511_254);
        assert_eq!(java_hash("UPDATE") as i32, -1_785_516_855);
    }
}
