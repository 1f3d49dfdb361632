//! What other tools logged, as results, and results as logs for other tools. The oracles are files that
//! YCSB and go-ycsb wrote (`tests/golden/exchange`; line 1 of each says how), and HdrHistogram's reader
//! in Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use ycsb_trace::analyze::report::{OpReport, Report};
use ycsb_trace::analyze::{Options, analyze};
use ycsb_trace::op::Status;
use ycsb_trace::trace::runs::RunFile;

use crate::analyze::{Run, mixed_run};
use crate::duckdb::{duckdb, python, sql_text};
use crate::support::program::{Folder, Ran};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/exchange").join(name)
}

/// Imports files and returns the result.
fn import(folder: &Folder, arguments: &str) -> (PathBuf, Ran) {
    let ran = folder.ok(&format!("import {arguments}"));
    let path = ran.out.split(": ").next().expect("the name of the result");
    (folder.path(path), ran)
}

fn report(path: &Path) -> Report {
    analyze(&[path.to_owned()], &Options::default()).expect("a valid result")
}

fn of_kind<'a>(report: &'a Report, op: &str) -> &'a OpReport {
    report.runs[0].ops.get(op).and_then(Option::as_ref).unwrap_or_else(|| panic!("{op} has rows"))
}

fn decoded(text: &str) -> Histogram<u64> {
    let bytes = STANDARD.decode(text).expect("base64");
    Deserializer::new().deserialize(&mut bytes.as_slice()).expect("V2")
}

fn count(path: &Path, op: &str, status: Status) -> u64 {
    let file = RunFile::open(path).expect("a result");
    file.meta.counts.get(op).and_then(|statuses| statuses.get(status.name())).copied().unwrap_or(0)
}

/// `[READ], Average, 179.3` → 179.3
fn summary_of_ycsb(text: &str, op: &str, metric: &str) -> f64 {
    let prefix = format!("[{op}], {metric}, ");
    let value =
        text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("{prefix}"));
    value.parse().expect("a number")
}

#[test]
fn raw_data_of_ycsb_gives_the_numbers_of_its_own_summary() {
    let folder = Folder::new();
    for (name, prefix) in
        [("ycsb-text-run-a-raw.stdout.txt", ""), ("ycsb-text-run-a-hdr+raw.stdout.txt", "Raw")]
    {
        let text = std::fs::read_to_string(sample(name)).expect("a sample");
        let (path, ran) = import(&folder, &format!("ycsb-raw {} --db basic", sample(name).display()));
        assert!(ran.err.contains("left out, because they are no operations: CLEANUP (1)"), "{}", ran.err);
        let report = report(&path);
        for op in ["READ", "UPDATE"] {
            let found = of_kind(&report, op);
            let theirs = |metric| summary_of_ycsb(&text, &format!("{prefix}{op}"), metric);
            assert_eq!(found.ops as f64, theirs("Total Operations"), "{name} {op}");
            let service = &found.service.ok;
            assert_eq!(service.min_ns.unwrap() as f64, theirs("Min") * 1e3);
            assert_eq!(service.max_ns.unwrap() as f64, theirs("Max") * 1e3);
            assert_eq!(service.mean_ns.unwrap() as f64, (theirs("Average") * 1e3).round(), "{name} {op}");
        }
        assert!(report.runs[0].checks.iter().all(|check| check.holds), "{:?}", report.runs[0].checks);
        assert_eq!(report.runs[0].db, "basic");
    }
}

#[test]
fn what_a_log_does_not_say_is_null_and_not_zero() {
    let folder = Folder::new();
    let (path, _) = import(&folder, &format!("ycsb-raw {}", sample("ycsb-raw-file.csv").display()));
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    // The first row that was sampled began 300 µs before this second's 305th millisecond.
    assert_eq!(name, "ycsb-raw-file.run-imported-20261130T090717Z.parquet");
    let rows = duckdb(&[&format!(
        "SELECT count(*) AS ops, count(intended_ns) + count(session) + count(attempts) + count(rows) AS known,
                min(start_ns) AS first, max(end_ns) AS last, max(end_ns - start_ns) AS longest
         FROM read_parquet({})",
        sql_text(&path.display().to_string())
    )]);
    assert_eq!(
        rows[0],
        serde_json::json!({"ops": 20, "known": 0, "first": 0, "last": 300_000, "longest": 300_000})
    );
    let report = report(&path);
    let run = &report.runs[0];
    assert_eq!((run.pace.as_str(), run.started_at.as_str()), ("unknown", "2026-11-30T09:07:17.3047Z"));
    assert_eq!(run.all.response, run.all.service);
    assert_eq!((run.all.lag.ok.count, run.all.lag.ok.max_ns), (0, None));
    assert!(run.caveats.iter().any(|noted| noted.text.starts_with("imported: when each op was due")));
    let shown = folder.ok(&format!("analyze {}", path.display())).out;
    assert!(!shown.contains("lag p") && !shown.contains("sessions"), "{shown}");
    // The footer holds the one series that was measured.
    let series: Vec<String> = RunFile::open(&path)
        .unwrap()
        .meta
        .histograms
        .iter()
        .map(|one| format!("{}.{}", one.op, one.series))
        .collect();
    assert_eq!(series, ["READ.service", "UPDATE.service"]);
    folder.ok(&format!("inspect {}", path.display()));
}

#[test]
fn csv_of_go_ycsb_is_imported_without_its_totals() {
    let folder = Folder::new();
    let (path, ran) =
        import(&folder, &format!("go-ycsb-csv {} --db basic", sample("go-ycsb-run-d-raw.csv").display()));
    assert!(ran.err.contains("TOTAL (40)"), "{}", ran.err);
    assert!(ran.out.ends_with(": 40 operations\n"), "{}", ran.out);
    let read = count(&path, "READ", Status::Ok);
    let insert = count(&path, "INSERT", Status::Ok);
    assert_eq!((read, insert), (38, 2));
    // 1796029683360293 µs is the first start, and the last is 56 µs later.
    let report = report(&path);
    assert_eq!(report.runs[0].started_at, "2026-11-30T09:08:03.360293Z");
    assert_eq!(report.runs[0].last_end_ns, Some(56_000));
}

#[test]
fn failures_keep_the_tools_own_words() {
    let folder = Folder::new();
    folder.write(
        "raw.csv",
        "READ latency raw data: op, timestamp(ms), latency(us)\n\
         READ,1796029637305,300\n\
         READ-NOT_FOUND latency raw data: op, timestamp(ms), latency(us)\n\
         READ-NOT_FOUND,1796029637306,100\n\
         READ-MODIFY-WRITE-FAILED,1796029637307,50\n\
         INSERT-SERVICE_UNAVAILABLE,1796029637308,50\n",
    );
    let (path, _) = import(&folder, "ycsb-raw raw.csv");
    let report = report(&path);
    let failures: Vec<String> =
        report.runs[0].failures.iter().map(|one| format!("{} {} {}", one.op, one.status, one.code)).collect();
    assert_eq!(
        failures,
        ["INSERT UNAVAILABLE SERVICE_UNAVAILABLE", "READ NOT_FOUND NOT_FOUND", "READ_MODIFY_WRITE ERROR "]
    );
    folder.write("go.csv", "operation,timestamp_us,latency_us\nUPDATE_ERROR,1796029637305000,7\n");
    let (path, _) = import(&folder, "go-ycsb-csv go.csv");
    assert_eq!(count(&path, "UPDATE", Status::Error), 1);
}

#[test]
fn a_histogram_log_becomes_histograms_and_no_rows_are_invented() {
    let folder = Folder::new();
    let (path, ran) = import(&folder, &format!("hdr {} --db basic", sample("ycsb-hdr_READ.hdr").display()));
    assert!(ran.out.contains("1 histograms, no rows"), "{}", ran.out);
    let meta = RunFile::open(&path).expect("a result").meta;
    assert_eq!((meta.rows, meta.trace_rows, meta.counts.len()), (0, 0, 0));
    assert_eq!((meta.started_at.as_str(), meta.elapsed_ns), ("2026-11-30T09:07:17.815Z", 1_901_000_000));
    assert_eq!((meta.histograms[0].op.as_str(), meta.histograms[0].series.as_str()), ("READ", "service"));
    let histogram = decoded(&meta.histograms[0].hdr);
    // HdrHistogram's reader in Python finds in this log: 331 values, p50 0, p90 1, p99 16, max 2549 µs.
    assert_eq!(histogram.len(), 331);
    let microseconds = |ns: u64| ns / 1000;
    assert_eq!(
        [0.5, 0.9, 0.99].map(|q| microseconds(histogram.highest_equivalent(histogram.value_at_quantile(q)))),
        [0, 1, 16]
    );
    // 2549 µs is in the bucket of 2548 and 2549 there, of 2,547,712 to 2,549,759 ns here.
    assert_eq!(histogram.max(), histogram.highest_equivalent(2_549_000));
    let report = report(&path);
    assert!(report.runs[0].caveats.iter().any(|noted| noted.advice.contains("--footers")));
    let options = Options { footers: true, ..Options::default() };
    let report = analyze(&[path], &options).expect("a valid result");
    let read = of_kind(&report, "READ");
    assert_eq!((read.ops, read.response.ok.count, read.lag.ok.count), (331, 331, 0));
}

/// What HdrHistogram's reader in Python finds: per tag the count, p50, p99 and max.
fn python_reads(log: &Path) -> serde_json::Value {
    const SCRIPT: &str = "
import json, sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
whole = {}
intervals = {}
reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 1 << 62, 3))
while True:
    one = reader.get_next_interval_histogram()
    if one is None:
        break
    tag = one.get_tag()
    whole.setdefault(tag, HdrHistogram(1, 1 << 62, 3)).add(one)
    intervals[tag] = intervals.get(tag, 0) + 1
json.dump({tag: [intervals[tag], one.get_total_count(), one.get_value_at_percentile(50),
                 one.get_value_at_percentile(99), one.get_max_value()] for tag, one in whole.items()}, sys.stdout)
";
    let output = Command::new(python()).args(["-c", SCRIPT]).arg(log).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn an_exported_log_is_read_by_histogram_tools_and_says_the_same_as_the_rows() {
    let folder = Folder::new();
    let run = mixed_run("sim", 5, 1);
    let samples = run.samples.clone();
    let result = run.write(&folder.path("results"), 3_333);
    folder.ok(&format!("analyze {} --format hdr -o run.hdr", result.display()));
    let log = std::fs::read(folder.path("run.hdr")).expect("the log");
    let theirs = python_reads(&folder.path("run.hdr"));
    let mut compared = 0;
    for kind in ycsb_trace::op::OpKind::ALL {
        let rows = samples.iter().filter(|one| one.kind == kind && one.status.is_success());
        for (series, of) in [
            ("response", (|one| one.end_ns - one.intended_ns) as fn(&ycsb_trace::op::Sample) -> u64),
            ("service", |one| one.end_ns - one.start_ns),
            ("lag", |one| one.start_ns - one.intended_ns),
        ] {
            let tag = format!("{}.{series}", kind.name());
            let mut expected = Histogram::<u64>::new(3).unwrap();
            rows.clone().for_each(|one| expected.record(of(one)).unwrap());
            let mut found = Histogram::<u64>::new(3).unwrap();
            let mut windows = 0;
            for entry in IntervalLogIterator::new(&log) {
                let LogEntry::Interval(interval) = entry.expect("a line of a log") else { continue };
                if interval.tag().is_some_and(|one| one.as_str() == tag) {
                    found.add(decoded(interval.encoded_histogram())).expect("same digits");
                    windows += 1;
                }
            }
            if expected.is_empty() {
                assert!(theirs.get(&tag).is_none() && windows == 0, "{tag}");
                continue;
            }
            // The same values, bucket by bucket.
            assert_eq!(found, expected, "{tag}");
            // 20,000 ops, one every 0.25 ms, in windows of 1 s.
            assert_eq!(windows, 5);
            let numbers = serde_json::json!([
                5,
                expected.len(),
                expected.value_at_quantile(0.5),
                expected.value_at_quantile(0.99),
                expected.max()
            ]);
            assert_eq!(theirs[&tag], numbers, "{tag}");
            compared += 1;
        }
    }
    assert_eq!(compared, 12);
}

#[test]
fn a_log_goes_out_and_comes_back_as_it_was() {
    let folder = Folder::new();
    let result = mixed_run("sim", 7, 1).write(&folder.path("results"), 20_000);
    folder.ok(&format!("analyze {} --format hdr -o run.hdr --window 100ms", result.display()));
    let (path, _) = import(&folder, "hdr run.hdr --results back");
    folder.ok(&format!("analyze {} --format hdr -o again.hdr", path.display()));
    let (again, _) = import(&folder, "hdr again.hdr --results again");
    let [first, second] = [path, again].map(|path| RunFile::open(&path).expect("a result").meta.histograms);
    assert_eq!((first.len(), second.len()), (12, 12));
    for (first, second) in first.iter().zip(&second) {
        assert_eq!((&first.op, &first.series), (&second.op, &second.series));
        assert!(decoded(&first.hdr) == decoded(&second.hdr), "{} {}", first.op, first.series);
    }
}

#[test]
fn several_results_do_not_fit_into_one_log() {
    let folder = Folder::new();
    let one = mixed_run("one", 1, 1).write(&folder.path("results"), 20_000);
    let mut other = Run::new("other");
    other.op(ycsb_trace::op::OpKind::Read, Status::Ok, 0, 0, 5);
    let other = other.write(&folder.path("results"), 1);
    let ran =
        folder.run(&format!("analyze --format hdr {} {}", one.display(), other.display())).expect_code(2);
    assert!(ran.err.contains("makes the log of one run, but 2 results were given"), "{}", ran.err);
}

#[test]
fn files_that_are_something_else_are_refused_with_file_and_line() {
    let folder = Folder::new();
    let header = "READ latency raw data: op, timestamp(ms), latency(us)\n";
    folder.write("words.txt", "these are words\nand nothing but words\n");
    folder.write("binary", [0xff, 0xfe, 0x00, b'\n']);
    folder.write("negative.csv", format!("{header}READ,1796029637305,300\nREAD,1796029637305,-3\n"));
    folder.write("cut.csv", format!("{header}READ,1796029637305,300\nREAD,17960"));
    folder.write("early.csv", format!("{header}READ,0,300\n"));
    folder.write("late.csv", format!("{header}READ,99999999999999999,300\n"));
    folder.write("other.csv", format!("{header}CLEANUP,1796029637305,300\n"));
    folder.write("go.csv", "operation,timestamp_us,latency_us\nREAD;1;2\n");
    folder.write(
        "v1.hdr",
        "#[Logging for: READ]\n0.1,0.2,0.3,HISTggAAACB42pNpmSzMwMDAyAABzFAaxmey/wBhcAAAPNEChQ==\n",
    );
    folder.write("base64.hdr", "#[Logging for: READ]\n0.1,0.2,0.3,!!!\n");
    folder.write("unit.hdr", "Tag=READ,0.1,0.2,0.3,HISTFAAAAB142pNpmSzMwMDAyAABzFAaxmey/wBhcAAAPNEChQ==\n");
    folder.write(
        "tags.hdr",
        "#[Logging for: X]\nTag=GC,0.1,0.2,0.3,HISTFAAAAB142pNpmSzMwMDAyAABzFAaxmey/wBhcAAAPNEChQ==\n",
    );
    let percentiles = sample("go-ycsb-percentiles-READ.txt").display().to_string();
    for (arguments, complaint) in [
        ("ycsb-raw missing.csv", "cannot read missing.csv"),
        ("ycsb-raw .", "cannot read .: it is a folder"),
        ("ycsb-raw words.txt", "words.txt: no raw data of YCSB in it"),
        ("ycsb-raw binary", "binary:1: it is not text"),
        (
            "ycsb-raw negative.csv",
            "negative.csv:3: not a row of raw data (NAME,milliseconds,microseconds): \"READ,1796029637305,-3\"",
        ),
        ("ycsb-raw cut.csv", "cut.csv:3: not a row"),
        ("ycsb-raw early.csv", "early.csv:2: an operation that would have begun before 1970"),
        ("ycsb-raw late.csv", "late.csv:2: 99999999999999999 is no time that this program can keep"),
        ("ycsb-raw other.csv", "other.csv: it holds no operation"),
        ("go-ycsb-csv negative.csv", "negative.csv: no raw data of go-ycsb in it"),
        ("go-ycsb-csv go.csv", "go.csv:2: not a row"),
        ("hdr words.txt", "words.txt:1: not a line of an HdrHistogram log: \"these are words\""),
        ("hdr v1.hdr", "v1.hdr:2: a histogram that is not of version 2; YCSB 0.17 wrote version 1"),
        ("hdr base64.hdr", "base64.hdr:2: a histogram that is not base64"),
        ("hdr unit.hdr", "say --unit ns, us or ms"),
        ("hdr tags.hdr", "tags.hdr: no tag names an operation (GC)"),
        (&format!("hdr {percentiles}"), "a listing of percentiles, not a log"),
        ("csv go.csv", "[possible values: ycsb-raw, go-ycsb-csv, hdr]"),
        ("ycsb-raw words.txt --db ../up", "give letters, digits, - _ and ."),
    ] {
        let ran = folder.run(&format!("import {arguments}")).expect_code(2);
        assert!(ran.err.contains(complaint), "{arguments}: {complaint:?} is not in:\n{}", ran.err);
    }
    // Nothing is left behind.
    assert!(!folder.path("results").exists() || folder.names("results").is_empty());
    folder.ok("import hdr unit.hdr --unit us");
}
