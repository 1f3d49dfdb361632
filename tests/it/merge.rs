//! Runs that are spread over several files: their rows are put together, and what does not belong together
//! is refused by name.

use std::path::{Path, PathBuf};
use std::process::Command;

use ycsb_trace::analyze::report::{Quantile, Report};
use ycsb_trace::analyze::{Options, analyze, percentiles};
use ycsb_trace::op::{OpKind, Status};
use ycsb_trace::trace::meta::RunShard;

use crate::analyze::{Random, Run, mixed_run};
use crate::duckdb::python;
use crate::support::program::Folder;

const MS: u64 = 1_000_000;

/// The result of a shard of 3: every machine has a third of the ops, one after the other. `slow`: of how
/// many ops one takes 100 ms instead of about 1 ms.
fn machine(folder: &Path, index: u64, slow: u64, change: impl FnOnce(&mut Run)) -> PathBuf {
    const OPS: u64 = 3000;
    let mut random = Random(index + 1);
    let mut run = Run::new("sim");
    for op in 0..OPS {
        let service = if op % slow == 0 { 100 * MS } else { MS + random.below(MS / 2) };
        let op_id = index * OPS + op;
        run.op(OpKind::Read, Status::Ok, op * 3 * MS, 0, service).op_id = op_id;
    }
    run.meta.run_id = format!("part-{index}");
    run.meta.host.name = format!("machine{index}");
    run.meta.trace = format!("w.run.{index}-of-3");
    run.meta.trace_hash = format!("{:032x}", 1000 + index);
    // The clocks of the machines are an hour apart.
    run.meta.started_at = format!("2026-01-02T0{index}:00:00Z");
    run.meta.shard =
        Some(RunShard { index, count: 3, total_rows: 3 * OPS, trace: "w.run".into(), of: "abc".into() });
    change(&mut run);
    run.write(folder, 1000)
}

fn options() -> Options {
    Options { percentiles: percentiles("50,99").expect("valid"), ..Options::default() }
}

fn p99(report: &Report, run: usize) -> u64 {
    quantile(report, run).value_ns.expect("answered")
}

fn quantile(report: &Report, run: usize) -> Quantile {
    report.runs[run].all.response.ok.percentiles.get("99").unwrap().unwrap()
}

#[test]
fn percentiles_of_shards_are_those_of_all_rows_and_not_an_average() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // 4 % of the ops are slow on one machine, 1 in 1000 on the others.
    let parts: Vec<PathBuf> = [25, 1000, 1000]
        .into_iter()
        .enumerate()
        .map(|(index, slow)| machine(folder.path(), index as u64, slow, |_| {}))
        .collect();
    // Each by itself, read as a run of its own.
    let alone = tempfile::tempdir().expect("a temporary folder");
    let by_itself = |index: usize, slow: u64| {
        let path = machine(alone.path(), index as u64, slow, |run| run.meta.shard = None);
        p99(&analyze(&[path], &options()).expect("a valid result"), 0)
    };
    let average = (by_itself(0, 25) + by_itself(1, 1000) + by_itself(2, 1000)) / 3;
    let report = analyze(&parts, &options()).expect("one run");
    assert_eq!(report.runs.len(), 1);
    let run = &report.runs[0];
    assert_eq!((run.rows, run.trace_rows, run.all.ops, run.sessions), (9000, 9000, 9000, 12));
    // 126 of 9000 rows are slow: more than 1 in 100.
    assert_eq!(p99(&report, 0), 100 * MS);
    assert!(average < 40 * MS, "the average of the three is {average}");
    assert!(run.checks.iter().all(|check| check.holds), "{:?}", run.checks);
    assert_eq!(run.trace, "w.run");
    assert_eq!(run.trace_hash, format!("{:032x}", 3003));
    let hosts: Vec<(&str, u64)> =
        run.parts.iter().map(|part| (part.host.as_str(), part.offset_ns / (3600 * 1000 * MS))).collect();
    assert_eq!(hosts, [("machine0", 0), ("machine1", 1), ("machine2", 2)]);
    // An hour between the clocks, and no latency longer than 100 ms.
    assert_eq!(run.all.response.ok.max_ns, Some(100 * MS));
    assert_eq!(run.all.lag.ok.max_ns, Some(0));
}

#[test]
fn what_is_missing_double_or_foreign_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let part = |index| machine(folder.path(), index, 100, |_| {});
    let parts = [part(0), part(1), part(2)];
    let twin = machine(folder.path(), 1, 100, |run| {
        run.meta.run_id = "twin".into();
        run.meta.started_at = "2026-01-02T09:00:00Z".into();
    });
    let foreign = machine(folder.path(), 2, 100, |run| {
        run.meta.run_id = "foreign".into();
        run.meta.shard.as_mut().unwrap().of = "other".into();
    });
    let faster = machine(folder.path(), 2, 100, |run| {
        run.meta.run_id = "faster".into();
        run.meta.speed = 2.0;
    });
    let complaint = |paths: &[&PathBuf]| {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).clone()).collect();
        format!("{:#}", analyze(&paths, &options()).expect_err("must be refused"))
    };
    let [a, b, c] = &parts;
    let missing = complaint(&[a, c]);
    assert!(missing.contains("part-0.parquet (shard 0/3 of w.run)"), "{missing}");
    assert!(missing.contains("other parts are missing: 1/3"), "{missing}");
    let double = complaint(&[a, b, c, &twin]);
    assert!(double.contains("part-1.parquet") && double.contains("twin.parquet"), "{double}");
    assert!(double.contains("the same shard twice"), "{double}");
    let other = complaint(&[a, b, &foreign]);
    assert!(other.contains("foreign.parquet (shard 2/3 of w.run) are parts of different traces"), "{other}");
    let unlike = complaint(&[a, b, &faster]);
    assert!(unlike.contains("cannot be one run") && unlike.contains("at speed 2"), "{unlike}");
}

/// From the generator to the report: shards of a trace, replayed apart, are a run of the whole trace.
#[test]
fn shards_that_were_replayed_apart_are_a_run_of_the_whole_trace() {
    let folder = Folder::new();
    folder.ok("gen workloadc --records 100 --ops 3000 --phase run -o whole");
    folder.ok("gen workloadc --records 100 --ops 3000 --phase run --shards 2");
    for shard in ["0-of-2", "1-of-2"] {
        folder
            .ok(&format!("replay --db sim traces/workloadc.run.{shard}.parquet --phase run --target 20000"));
    }
    folder.ok("replay --db sim whole/workloadc.run.parquet --phase run --target 20000 --results alone");
    let ran = folder.ok("analyze results alone --format json");
    let report: Report = serde_json::from_str(&ran.out).expect("a report");
    assert_eq!(report.runs.len(), 2);
    let merged = report.runs.iter().find(|run| !run.parts.is_empty()).expect("the shards");
    let alone = report.runs.iter().find(|run| run.parts.is_empty()).expect("the whole");
    assert_eq!((merged.rows, merged.trace_rows, merged.complete), (3000, 3000, true));
    assert_eq!(merged.trace_hash, alone.trace_hash);
    assert_eq!(merged.target_per_second, Some(40_000.0));
    assert!(merged.checks.iter().all(|check| check.holds), "{:?}", merged.checks);
}

#[test]
fn footers_alone_give_percentiles_within_their_stated_error() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 200 --ops 4000");
    for _ in 0..3 {
        folder.ok("replay --db sim workloada --drop --target 40000");
    }
    let json =
        |arguments: &str| -> Report { serde_json::from_str(&folder.ok(arguments).out).expect("a report") };
    let files: Vec<String> = folder
        .names("results")
        .into_iter()
        .filter(|name| name.contains(".run") && name.ends_with(".parquet"))
        .map(|name| format!("results/{name}"))
        .collect();
    assert_eq!(files.len(), 3);
    let pooled = json(&format!("analyze --footers --format json {}", files.join(" ")));
    let [run] = pooled.runs.as_slice() else { panic!("one run: {}", pooled.runs.len()) };
    assert_eq!((run.rows, run.all.ops, run.parts.len()), (12_000, 12_000, 3));
    assert_eq!(run.histogram_error, Some(0.001));
    let single = json(&format!("analyze --footers --format json {}", files[0]));
    let exact = json(&format!("analyze --format json {}", files[0]));
    for percentile in ["50", "90", "99", "99.9"] {
        let value = |report: &Report| {
            let found = report.runs[0].all.service.ok.percentiles.get(percentile).unwrap().unwrap();
            found.value_ns.unwrap() as f64
        };
        let error = value(&single) / value(&exact) - 1.0;
        assert!((0.0..=0.001).contains(&error), "p{percentile}: {error}");
    }
}

#[test]
fn json_reports_are_valid_by_their_schema() {
    const SCRIPT: &str = "
import json, sys
import jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for name in sys.argv[2:]:
    report = json.load(open(name), parse_constant=lambda text: sys.exit(f'{name}: {text} is no JSON'))
    for error in validator.iter_errors(report):
        sys.exit(f'{name}: {list(error.absolute_path)}: {error.message[:300]}')
";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut empty = Run::new("empty");
    empty.meta.run_id = "empty".into();
    let empty = empty.write(folder.path(), 10);
    let mixed =
        [mixed_run("a", 1, 1).write(folder.path(), 9000), mixed_run("b", 1, 2).write(folder.path(), 9000)];
    let parts: Vec<PathBuf> = (0..3).map(|index| machine(folder.path(), index, 100, |_| {})).collect();
    let checked = Options { self_check: true, ..Options::default() };
    let footers = Options { footers: true, ..Options::default() };
    let mut names = Vec::new();
    for (name, paths, options) in [
        ("empty", vec![empty], &checked),
        ("mixed", mixed.to_vec(), &checked),
        ("parts", parts.clone(), &checked),
        ("footers", parts, &footers),
    ] {
        let report = analyze(&paths, options).expect("valid results");
        let json = (ycsb_trace::analyze::render::format("json").unwrap().render)(&report, Default::default());
        let path = folder.path().join(format!("{name}.json"));
        std::fs::write(&path, json).expect("writable");
        names.push(path);
    }
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("analysis/report.schema.json");
    let output =
        Command::new(python()).args(["-c", SCRIPT]).arg(schema).args(&names).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_gate_on_results_shows_the_numbers_and_ends_with_code_1() {
    let folder = Folder::new();
    let written = machine(&folder.path(""), 0, 50, |run| run.meta.shard = None);
    let file = written.display().to_string();
    let refused = folder
        .run_list(&["analyze", &file, "--percentiles", "50", "--fail-if", "p99(READ) > 5ms"])
        .expect_code(1);
    assert!(
        refused
            .err
            .contains("gate: the p99 of the READ response times is 100 ms, so --fail-if 'p99(READ) > 5ms'"),
        "{}",
        refused.err
    );
    assert!(refused.out.contains("p99"), "what the gate asks about is in the report");
    folder.run_list(&["analyze", &file, "--fail-if", "p97(READ) > 5ms"]).expect_code(0);
    folder.run_list(&["analyze", &file, "--fail-if", "p97(REED) > 5ms"]).expect_code(2);
}

#[test]
fn ops_are_grouped_by_what_the_result_and_the_trace_say() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 50 --ops 2000 -p fieldlength=10");
    folder.ok("replay --db sim workloada --phase run --threads 4 --target 20000");
    let groups = |what: &str| {
        let ran = folder.ok(&format!("analyze results --format json --by {what}"));
        let report: Report = serde_json::from_str(&ran.out).expect("a report");
        let run = report.runs.into_iter().find(|run| run.groups.is_some()).expect("a run");
        let groups = run.groups.unwrap().groups.0;
        assert_eq!(groups.iter().map(|(_, op)| op.ops).sum::<u64>(), run.all.ops, "{what}");
        for (name, op) in &groups {
            assert_eq!(op.response.ok.count, op.ok, "{what} {name}");
            assert!(op.response.ok.max_ns <= run.all.response.ok.max_ns);
        }
        groups.into_iter().map(|(name, op)| (name, op.ops)).collect::<Vec<_>>()
    };
    assert_eq!(groups("session").len(), 4);
    let kinds: Vec<String> = groups("op").into_iter().map(|(name, _)| name).collect();
    assert_eq!(kinds, ["READ", "UPDATE"]);
    assert_eq!(groups("code"), [("OK".to_owned(), 2000)]);
    let by_key = groups("key --trace traces/workloada.run.parquet");
    assert_eq!(by_key.len(), 21);
    assert!(by_key[0].0.starts_with("user") && by_key[0].1 >= by_key[19].1, "{by_key:?}");
    assert_eq!(by_key[20].0, "others");
    let by_size = groups("size --trace traces/workloada.run.parquet");
    let names: Vec<&str> = by_size.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["no values", "8 to 15 bytes"]);
    folder.run("analyze results --by key").expect_code(2);
    let wrong = folder.run("analyze results --by key --trace traces/workloada.load.parquet").expect_code(2);
    assert!(wrong.err.contains("is not the trace that"), "{}", wrong.err);
}
