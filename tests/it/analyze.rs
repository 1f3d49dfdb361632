//! From written results to reports: exact numbers, honest words, and complaints about what is no
//! result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ycsb_trace::analyze::by::By;
use ycsb_trace::analyze::caveat::FewOps;
use ycsb_trace::analyze::render::{Page, format};
use ycsb_trace::analyze::report::{Caveat, Named, OpReport, Report, Summary};
use ycsb_trace::analyze::{Options, Warmup, analyze, percentiles};
use ycsb_trace::op::{NEVER_NS, OpKind, Sample, Status};
use ycsb_trace::trace::meta::{ErrorMeta, HostMeta, OverheadMeta, Phase, RunMeta, ServerMeta};
use ycsb_trace::trace::ops::TraceReader;
use ycsb_trace::trace::runs::RunWriter;

use crate::support::program::Folder;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// SplitMix64: the same rows on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// A result in the making.
pub struct Run {
    pub meta: RunMeta,
    pub samples: Vec<Sample>,
    pub codes: Vec<String>,
}

impl Run {
    pub fn new(db: &str) -> Run {
        let meta = RunMeta {
            kind: "result".into(),
            format_version: ycsb_trace::trace::RESULT_VERSION,
            generator: "ycsb-trace test".into(),
            run_id: format!("workloada.run-{db}-20260102T030405Z"),
            trace: "workloada".into(),
            trace_hash: "0123456789abcdef0123456789abcdef".into(),
            phase: Phase::Run,
            trace_rows: 0,
            shard: None,
            db: db.into(),
            server: ServerMeta {
                address: "localhost:5432".into(),
                version: format!("{db} 1.2.3"),
                settings: BTreeMap::from([("durability".into(), "full".into())]),
                statements: BTreeMap::new(),
            },
            config: BTreeMap::from([("threads".into(), "4".into())]),
            sessions: 4,
            lanes: 2,
            pace: "rate".into(),
            target_per_second: Some(1000.0),
            speed: 1.0,
            order: "deps".into(),
            host: HostMeta { name: "bench".into(), system: "Linux 6.1".into(), cpus: 2 },
            started_at: "2026-01-02T03:04:05Z".into(),
            elapsed_ns: 0,
            ended_because: "trace exhausted".into(),
            complete: true,
            interrupted: false,
            rows: 0,
            statements: Vec::new(),
            transactions: None,
            counts: BTreeMap::new(),
            errors: Vec::new(),
            overhead: OverheadMeta { clock_read_ns: 24, wake_late_p50_ns: 33_000, wake_late_p99_ns: 50_000 },
            recorder_stalls: 0,
            sustained: None,
            closing_ns: vec![],
            collections: vec![],
            integrity: None,
            histograms: Vec::new(),
        };
        Run { meta, samples: Vec::new(), codes: vec![String::new()] }
    }

    /// An op intended at a time, started `lag_ns` later, answered `service_ns` after that.
    pub fn op(
        &mut self,
        kind: OpKind,
        status: Status,
        intended_ns: u64,
        lag_ns: u64,
        service_ns: u64,
    ) -> &mut Sample {
        let start_ns = intended_ns + lag_ns;
        self.samples.push(Sample {
            op_id: self.samples.len() as u64,
            intended_ns,
            start_ns,
            end_ns: start_ns + service_ns,
            blocked_ns: NEVER_NS,
            last_start_ns: NEVER_NS,
            txn: NEVER_NS,
            session: 0,
            rows: 1,
            attempts: 1,
            read_end_ns: NEVER_NS,
            batch: NEVER_NS,
            observed: 0,
            code: 0,
            kind,
            status,
        });
        self.samples.last_mut().expect("just pushed")
    }

    /// Writes it in row groups of `rows_per_segment`, with a footer that fits the rows.
    pub fn write(mut self, folder: &Path, rows_per_segment: usize) -> PathBuf {
        self.meta.rows = self.samples.len() as u64;
        if self.meta.trace_rows == 0 {
            self.meta.trace_rows = self.meta.rows;
        }
        if self.meta.counts.is_empty() {
            for sample in &self.samples {
                let statuses = self.meta.counts.entry(sample.kind.name().into()).or_default();
                *statuses.entry(sample.status.name().into()).or_default() += 1;
            }
        }
        let ends = self.samples.iter().map(|sample| sample.end_ns).filter(|&end| end != NEVER_NS);
        self.meta.elapsed_ns = ends.max().unwrap_or(0);
        let mut writer = RunWriter::create(folder, &mut self.meta).expect("a writable folder");
        for rows in self.samples.chunks(rows_per_segment) {
            writer.write(rows, &self.codes).expect("writable");
            writer.close_segment().expect("writable");
        }
        writer.finish(&self.meta).expect("writable")
    }
}

/// A run of four kinds with every sort of ending; the databases differ in speed.
pub fn mixed_run(db: &str, seed: u64, slowness: u64) -> Run {
    let mut random = Random(seed);
    let mut run = Run::new(db);
    run.codes.push("40001".into());
    run.meta.errors.push(ErrorMeta {
        code: "40001".into(),
        message: "could not serialize access due to concurrent update".into(),
        count: 0,
    });
    for index in 0..20_000u64 {
        let kind = [OpKind::Read, OpKind::Read, OpKind::Update, OpKind::Insert, OpKind::Scan]
            [random.below(5) as usize];
        // Long-tailed: 2^k times something.
        let service_ns = ((50 * US + random.below(100 * US)) * slowness) << random.below(6);
        let lag_ns = random.below(40 * US) << random.below(4);
        let intended_ns = index * MS / 4;
        match random.below(1000) {
            0..4 if kind == OpKind::Update => {
                run.op(kind, Status::Conflict, intended_ns, lag_ns, service_ns).code = 1;
                run.meta.errors[0].count += 1;
            }
            4..6 => {
                run.op(kind, Status::Timeout, intended_ns, lag_ns, service_ns).end_ns = NEVER_NS;
            }
            6..9 if kind == OpKind::Read => {
                run.op(kind, Status::NotFound, intended_ns, lag_ns, service_ns);
            }
            9 => {
                let sample = run.op(kind, Status::Dropped, intended_ns, 0, 0);
                (sample.start_ns, sample.end_ns, sample.attempts) = (NEVER_NS, NEVER_NS, 0);
            }
            _ => {
                run.op(kind, Status::Ok, intended_ns, lag_ns, service_ns);
            }
        }
    }
    run
}

fn options(list: &str) -> Options {
    Options { percentiles: percentiles(list).expect("valid"), ..Options::default() }
}

fn analyze_all(paths: &[&Path]) -> Report {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    analyze(&paths, &Options::default()).expect("valid results")
}

fn of_kind<'a>(report: &'a Report, op: &str) -> &'a OpReport {
    report.runs[0].ops.get(op).and_then(Option::as_ref).expect("a kind with rows")
}

/// The value of a percentile; none = never answered.
fn value(summary: &Summary, percentile: &str) -> Option<u64> {
    summary.percentiles.get(percentile).expect("asked for").expect("not empty").value_ns
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// 1…10,000 µs and one of 400 s.
fn ten_thousand_and_one() -> Run {
    let mut latencies_us: Vec<u64> = (1..=10_000).collect();
    latencies_us.push(400_000_000);
    Random(16).shuffle(&mut latencies_us);
    let mut run = Run::new("sim");
    for (index, latency_us) in latencies_us.into_iter().enumerate() {
        run.op(OpKind::Read, Status::Ok, index as u64 * MS, 0, latency_us * US);
    }
    run
}

/// 970 OK of 1…970 ms, 30 failures of 1 ms.
fn thirty_failures() -> Run {
    let mut rows: Vec<(Status, u64)> = (1..=970).map(|ms| (Status::Ok, ms)).collect();
    rows.extend([(Status::Error, 1); 30]);
    Random(17).shuffle(&mut rows);
    let mut run = Run::new("sim");
    for (index, (status, ms)) in rows.into_iter().enumerate() {
        run.op(OpKind::Update, status, index as u64 * 10 * MS, 0, ms * MS);
    }
    run
}

#[test]
fn percentiles_are_exact_and_never_rounded_to_buckets() {
    let folder = folder();
    let report = analyze_all(&[&ten_thousand_and_one().write(folder.path(), 3_000)]);
    let response = &of_kind(&report, "READ").response;
    let expected_us =
        [("50", 5001), ("90", 9001), ("95", 9501), ("99", 9901), ("99.9", 9991), ("99.99", 10_000)];
    for (percentile, us) in expected_us {
        assert_eq!(value(&response.ok, percentile), Some(us * US), "p{percentile}");
        assert_eq!(value(&response.all, percentile), Some(us * US), "p{percentile}");
    }
    assert_eq!(response.ok.max_ns, Some(400_000_000 * US));
    assert_eq!(response.ok.min_ns, Some(US));
    let sum_ns = (50_005_000 + 400_000_000) * US;
    assert_eq!(response.ok.mean_ns, Some((sum_ns + 10_001 / 2) / 10_001));
    assert_eq!(response.ok.percentiles.get("99.99").unwrap().unwrap().above, 1);
    assert_eq!(report.runs[0].all.response, *response);
}

#[test]
fn failures_are_not_fast_successes() {
    let folder = folder();
    let path = thirty_failures().write(folder.path(), 300);
    let report = analyze(&[path], &options("50,97,97.1,99")).expect("a valid result");
    let update = of_kind(&report, "UPDATE");
    assert_eq!((update.ops, update.ok, update.failed, update.error_rate), (1000, 970, 30, 0.03));
    let response = &update.response;
    assert_eq!(value(&response.ok, "99"), Some(961 * MS));
    assert_eq!(value(&response.ok, "50"), Some(485 * MS));
    assert_eq!(value(&response.all, "50"), Some(500 * MS));
    assert_eq!(value(&response.all, "97"), Some(970 * MS));
    for beyond in ["97.1", "99"] {
        let quantile = response.all.percentiles.get(beyond).unwrap().unwrap();
        assert!(quantile.unanswered && quantile.value_ns.is_none(), "p{beyond}");
    }
    assert_eq!((response.all.count, response.all.unanswered), (1000, 30));
    let text = (format("text").unwrap().render)(&report, Page::default());
    assert!(text.contains("never answered"));
}

#[test]
fn kinds_without_rows_and_populations_without_ops_are_null() {
    let folder = folder();
    let mut run = Run::new("sim");
    run.op(OpKind::Read, Status::Ok, 0, 0, MS);
    run.op(OpKind::Scan, Status::Unsupported, MS, 0, US);
    let report = analyze_all(&[&run.write(folder.path(), 10)]);
    let text = (format("json").unwrap().render)(&report, Page::default());
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON that parses");
    let ops = &json["runs"][0]["ops"];
    assert!(ops.as_object().unwrap().contains_key("DELETE") && ops["DELETE"].is_null());
    assert!(ops["SCAN"]["response"]["ok"]["percentiles"]["99"].is_null());
    assert!(ops["SCAN"]["response"]["ok"]["max_ns"].is_null());
    assert_eq!(ops["SCAN"]["response"]["all"]["percentiles"]["50"]["unanswered"], true);
    assert_eq!(ops["READ"]["response"]["ok"]["percentiles"]["99"]["value_ns"], MS);
    let back: Report = serde_json::from_str(&text).expect("the report itself");
    assert_eq!(back, report);
}

#[test]
fn a_result_without_rows_is_a_report_that_says_so() {
    let folder = folder();
    let report = analyze_all(&[&Run::new("sim").write(folder.path(), 10)]);
    assert!(report.runs[0].all.response.ok.percentiles.get("99").unwrap().is_none());
    assert!(report.runs[0].caveats.iter().any(|noted| noted.caveat == Caveat::Empty));
    for format in ycsb_trace::analyze::render::FORMATS {
        assert!(!(format.render)(&report, Page::default()).is_empty());
    }
}

#[test]
fn response_service_and_lag_of_every_row_agree_with_sorting() {
    let folder = folder();
    let run = mixed_run("sim", 5, 1);
    let samples = run.samples.clone();
    let report = analyze_all(&[&run.write(folder.path(), 3_333)]);
    type Latency = fn(&Sample) -> u64;
    let series: [(&str, Latency); 3] = [
        ("response", |one| one.end_ns - one.intended_ns),
        ("service", |one| one.end_ns - one.start_ns),
        ("lag", |one| one.start_ns - one.intended_ns),
    ];
    let mut groups: Vec<(Option<OpKind>, &OpReport)> = vec![(None, &report.runs[0].all)];
    groups.extend(
        OpKind::ALL
            .into_iter()
            .filter_map(|kind| Some((Some(kind), report.runs[0].ops.get(kind.name())?.as_ref()?))),
    );
    assert_eq!(groups.len(), 5);
    for (kind, of_group) in groups {
        let rows: Vec<&Sample> =
            samples.iter().filter(|one| kind.is_none_or(|kind| one.kind == kind)).collect();
        for (name, of) in series {
            let (_, found) = of_group.series().into_iter().find(|(one, _)| *one == name).unwrap();
            let known =
                |one: &&&Sample| one.status.is_success() || (name == "lag" && one.start_ns != NEVER_NS);
            let mut ok: Vec<u64> =
                rows.iter().filter(|one| one.status.is_success()).map(|one| of(one)).collect();
            let mut all: Vec<u64> = rows.iter().filter(known).map(|one| of(one)).collect();
            all.resize(rows.len(), NEVER_NS);
            for (population, values) in [(&found.ok, &mut ok), (&found.all, &mut all)] {
                values.sort_unstable();
                assert_eq!(population.count, values.len() as u64);
                for (percentile, share) in
                    [("50", 5000), ("90", 9000), ("99", 9900), ("99.9", 9990), ("99.99", 9999)]
                {
                    let rank = (values.len() * share).div_ceil(10_000);
                    let expected = Some(values[rank - 1]).filter(|&value| value != NEVER_NS);
                    assert_eq!(value(population, percentile), expected, "{kind:?} {name} p{percentile}");
                }
            }
        }
    }
}

#[test]
fn rows_counts_statuses_and_windows_add_up() {
    let folder = folder();
    let report = analyze_all(&[&mixed_run("sim", 7, 1).write(folder.path(), 4_000)]);
    let run = &report.runs[0];
    assert!(run.checks.iter().all(|check| check.holds), "{:?}", run.checks);
    let kinds: Vec<&OpReport> = run.ops.0.iter().filter_map(|(_, one)| one.as_ref()).collect();
    assert_eq!(run.rows, kinds.iter().map(|one| one.ops).sum::<u64>());
    assert_eq!(run.all.failed, run.failures.iter().map(|one| one.count).sum::<u64>());
    for op in kinds.into_iter().chain([&run.all]) {
        assert_eq!(op.ops, op.ok + op.failed);
        assert_eq!(op.ops, op.statuses.0.iter().map(|(_, count)| count).sum::<u64>());
        assert_eq!(op.ops, op.windows.iter().map(|one| one.ops).sum::<u64>());
        assert_eq!(op.ok, op.windows.iter().map(|one| one.ok).sum::<u64>());
        let longest = op.windows.iter().filter_map(|one| one.response_max_ns).max();
        assert_eq!(op.response.ok.max_ns, longest);
    }
    // 20,000 ops, one every 0.25 ms, in windows of 1 s.
    let scheduled: Vec<u64> =
        run.all.windows.iter().filter(|one| one.ops > 0).map(|one| one.start_ns).collect();
    assert_eq!(scheduled, [0, 1000 * MS, 2000 * MS, 3000 * MS, 4000 * MS]);
    assert!(run.all.windows.iter().all(|one| [0, 4000].contains(&one.ops)));
    // What was answered after the schedule is in a window of its own.
    let answered =
        run.all.statuses.get("TIMEOUT").unwrap_or(&0) + run.all.statuses.get("DROPPED").unwrap_or(&0);
    assert_eq!(run.all.windows.iter().map(|one| one.completed).sum::<u64>(), run.all.ops - answered);
}

#[test]
fn a_footer_that_does_not_fit_its_rows_is_reported() {
    let folder = folder();
    let mut run = thirty_failures();
    run.meta.counts =
        BTreeMap::from([("UPDATE".into(), BTreeMap::from([("OK".into(), 1000), ("ERROR".into(), 0)]))]);
    run.samples[3].end_ns = run.samples[3].start_ns - 1;
    let report = analyze_all(&[&run.write(folder.path(), 300)]);
    let failed: Vec<&str> =
        report.runs[0].checks.iter().filter(|check| !check.holds).map(|check| check.what.as_str()).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed[0].starts_with("counts per op and status"));
    assert!(failed[1].starts_with("intended <= start"));
    let cases = report.runs[0].caveats.iter();
    assert_eq!(cases.filter(|noted| matches!(noted.caveat, Caveat::CheckFailed { .. })).count(), 2);
}

#[test]
fn doubts_are_named_cases_with_advice() {
    let folder = folder();
    let mut run = Run::new("sim");
    for index in 0..100 {
        run.op(OpKind::Read, Status::Ok, index * MS, 20 * MS, MS);
    }
    run.meta.trace_rows = 1000;
    (run.meta.complete, run.meta.interrupted) = (false, true);
    run.meta.ended_because = "interrupted".into();
    run.meta.recorder_stalls = 3;
    let path = run.write(folder.path(), 1000);
    let report = analyze(&[path], &options("50,99,99.9")).expect("a valid result");
    let caveats: Vec<&Caveat> = report.runs[0].caveats.iter().map(|noted| &noted.caveat).collect();
    assert_eq!(
        caveats,
        [
            &Caveat::Interrupted,
            &Caveat::Incomplete { rows: 100, trace_rows: 1000, because: "interrupted".into() },
            &Caveat::RecorderStalls { count: 3 },
            &Caveat::LargeLag { lag_p99: "20.0 ms".into(), service_p50: "1.00 ms".into() },
            &Caveat::FewOps {
                ops: vec![FewOps {
                    op: "READ".into(),
                    ok: 100,
                    above: Named(vec![("99".into(), 1), ("99.9".into(), 0)]),
                }]
            },
        ]
    );
}

#[test]
fn an_unpaced_run_says_that_response_is_service() {
    let folder = folder();
    let mut run = Run::new("sim");
    for index in 0..2000 {
        run.op(OpKind::Read, Status::Ok, index * MS, 0, MS + index);
    }
    (run.meta.pace, run.meta.target_per_second) = ("unpaced".into(), None);
    let report = analyze_all(&[&run.write(folder.path(), 1000)]);
    let read = of_kind(&report, "READ");
    assert_eq!(read.response, read.service);
    let text = (format("text").unwrap().render)(&report, Page::default());
    assert!(text.contains("unpaced: response = service"));
    assert!(!text.contains("lag p99"));
}

#[test]
fn lag_is_the_servers_or_the_clients_doing() {
    let folder = folder();
    // One session: the op before is answered 3 ms after this one is due, and it starts 4 ms late.
    let mut run = Run::new("sim");
    for index in 0..100u64 {
        let due = index * 10 * MS;
        let lag = if index == 0 { 0 } else { 4 * MS };
        let service = 13 * MS - lag;
        run.op(OpKind::Read, Status::Ok, due, lag, service);
    }
    let load = analyze_all(&[&run.write(folder.path(), 7)]).runs[0].load.clone().expect("a paced run");
    assert!((load.lag_causes.server - 0.75).abs() < 1e-9, "{load:?}");
    assert!((load.lag_causes.client - 0.25).abs() < 1e-9, "{load:?}");
    assert_eq!(load.late_share, 0.0);
}

#[test]
fn ops_in_the_database_fill_the_windows_between_start_and_end() {
    let folder = folder();
    let mut run = Run::new("sim");
    run.op(OpKind::Read, Status::Ok, 500 * MS, 0, 3000 * MS);
    run.op(OpKind::Read, Status::Ok, 4000 * MS, 0, 1000 * MS);
    let report = analyze_all(&[&run.write(folder.path(), 7)]);
    let run = &report.runs[0];
    let in_flight: Vec<(u64, f64)> =
        run.all.windows.iter().map(|one| (one.start_ns / MS, one.in_flight)).take(5).collect();
    assert_eq!(in_flight, [(0, 0.5), (1000, 1.0), (2000, 1.0), (3000, 0.5), (4000, 1.0)]);
    assert!(run.checks.iter().all(|check| check.holds), "{:?}", run.checks);
}

#[test]
fn a_warm_up_is_pointed_out_and_cut_only_when_asked() {
    let folder = folder();
    let mut run = Run::new("sim");
    for index in 0..40_000u64 {
        // The first 6 of 40 s are up to three times slower. After that every second has the same ops, so
        // that MSER's score is 0 wherever nothing of those 6 s is left: it must cut exactly them.
        let slow = 1.0 + 2.0 * (1.0 - index as f64 / 6000.0).max(0.0);
        let service = (1e6 * slow * (0.9 + 0.2 * (index * 619 % 1000) as f64 / 1000.0)) as u64;
        run.op(OpKind::Read, Status::Ok, index * MS, 0, service);
    }
    let path = run.write(folder.path(), 10_000);
    let with = |warmup| {
        let options = Options { warmup, ..Options::default() };
        analyze(std::slice::from_ref(&path), &options).expect("a valid result").runs.remove(0)
    };
    let whole = with(Warmup::Until(0));
    let suggested = whole.warmup.as_ref().unwrap().suggested_ns.unwrap();
    assert_eq!(suggested, 6_000 * MS);
    assert_eq!((whole.all.ops, whole.warmup.as_ref().unwrap().cut_ns), (40_000, 0));
    assert!(whole.caveats.iter().any(|noted| matches!(noted.caveat, Caveat::WarmUp { .. })));
    for (cut, warmup) in [(suggested, Warmup::Auto), (16_000 * MS, Warmup::Until(16_000 * MS))] {
        let run = with(warmup);
        assert_eq!(run.all.ops, 40_000 - cut / MS);
        assert_eq!(run.warmup.as_ref().unwrap().cut_ops, cut / MS);
        assert_eq!(run.all.windows.iter().map(|one| one.ops).sum::<u64>(), 40_000, "windows show all");
        assert!(run.checks.iter().all(|check| check.holds), "{:?}", run.checks);
        assert!(run.caveats.iter().any(|noted| matches!(noted.caveat, Caveat::WarmUpCut { .. })));
        assert!(run.all.response.ok.max_ns < whole.all.response.ok.max_ns);
    }
}

#[test]
fn intervals_hold_the_percentile_and_say_when_they_cannot() {
    let folder = folder();
    let report = analyze_all(&[&mixed_run("sim", 31, 1).write(folder.path(), 4_000)]);
    let run = &report.runs[0];
    assert_eq!(run.interval_window_ns, Some(125 * MS));
    for percentile in ["50", "90", "95", "99"] {
        let quantile = run.all.response.ok.percentiles.get(percentile).unwrap().unwrap();
        let interval = quantile.interval.expect("20,000 ops are enough");
        assert!(interval.low_ns <= quantile.value_ns && quantile.value_ns <= interval.high_ns);
        assert!(interval.effective > 0.0 && interval.effective <= 1.0 && !quantile.insufficient);
    }
    let highest = run.all.response.ok.percentiles.get("99.99").unwrap().unwrap();
    assert!(highest.insufficient && highest.interval.is_none() && highest.value_ns.is_some());
    assert!(run.all.lag.ok.percentiles.get("50").unwrap().unwrap().interval.is_none());
}

/// Two runs of one trace, and the load of one of them.
fn two_databases(folder: &Path) -> Vec<PathBuf> {
    let mut load = Run::new("sqlite");
    (load.meta.phase, load.meta.run_id) = (Phase::Load, "workloada.load-sqlite-20260102T030000Z".into());
    (load.meta.pace, load.meta.target_per_second) = ("unpaced".into(), None);
    let mut random = Random(3);
    for index in 0..15_000 {
        load.op(OpKind::Insert, Status::Ok, index * 100 * US, 0, 40 * US + random.below(60 * US));
    }
    vec![
        mixed_run("sqlite", 1, 4).write(folder, 6_000),
        mixed_run("fjall", 1, 1).write(folder, 6_000),
        load.write(folder, 6_000),
    ]
}

/// Of more keys than are counted at once, the frequent ones are found all the same, with their exact counts.
#[test]
fn hot_keys_are_found_and_counted_among_very_many() {
    let folder = Folder::in_memory();
    folder.ok("gen workloadc --records 300000 --ops 300000 --phase run --values seeded -p fieldcount=1 \
         -p requestdistribution=hotspot -p hotspotdatafraction=0.00005 -p hotspotopnfraction=0.1");
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let trace = folder.path("traces/workloadc.run.parquet");
    let mut reader = TraceReader::open(&trace).expect("a trace");
    while let Some(block) = reader.next_block().expect("readable rows") {
        (0..block.len()).for_each(|row| *counts.entry(block.key(row).to_owned()).or_default() += 1);
    }
    assert!(counts.len() > 131_072, "{} keys: as many as are counted outright", counts.len());
    let result = folder.ok("replay --db sim workloadc --phase run").results(&folder).remove(0);
    let by = By::new("key", Some(&trace)).expect("a trace");
    let options = Options { by: Some(by), ..options("50") };
    let groups = analyze(&[result], &options).expect("valid").runs.remove(0).groups.expect("groups");
    let mut expected: Vec<(&str, u64)> = counts.iter().map(|(key, &count)| (key.as_str(), count)).collect();
    expected.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
    // 15 hot keys of some 2,000 ops each; those after them have a handful, and equals among the others.
    assert!(expected[14].1 > 1_000 && expected[15].1 < 20, "{:?}", &expected[..20]);
    let mut found: Vec<(&str, u64)> =
        groups.groups.0.iter().take(20).map(|(key, op)| (key.as_str(), op.ops)).collect();
    found.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
    assert_eq!(found[..15], expected[..15]);
    let of = |keys: &[(&str, u64)]| -> Vec<u64> { keys[..20].iter().map(|(_, count)| *count).collect() };
    assert_eq!(of(&found), of(&expected), "no key that has no group is more frequent");
    assert_eq!(groups.groups.0.iter().map(|(_, op)| op.ops).sum::<u64>(), 300_000);
}

#[test]
fn reports_fit_terminals_of_every_width_as_pinned() {
    let folder = folder();
    let run = |db: &str, seed: u64, factor: u64| {
        let mut run = Run::new(db);
        let mut random = Random(seed);
        for index in 0..6_000u64 {
            let status = if index % 500 == 0 { Status::Conflict } else { Status::Ok };
            let service = factor * (200 * US + random.below(400 * US));
            run.op(OpKind::ReadModifyWrite, status, index * MS, random.below(9 * US), service).session =
                (index % 8) as u32;
        }
        run.write(folder.path(), 6_000)
    };
    let report =
        analyze(&[run("postgres", 1, 4), run("mariadb", 2, 5)], &options("50,99,99.9")).expect("valid");
    for width in [40, 60, 80, 120] {
        let text = (format("text").unwrap().render)(&report, Page { width: Some(width) });
        for line in text.lines() {
            assert!(line.chars().count() <= usize::from(width) || !line.contains(' '), "{width}: {line}");
        }
        // One page of it, not the definitions, which are the same sentences.
        let shown = text.split("\nDefinitions").next().expect("a report");
        insta::assert_snapshot!(format!("report_text_at_{width}"), shown);
    }
}

#[test]
fn reports_read_as_pinned() {
    let folder = folder();
    let mut report = analyze(&two_databases(folder.path()), &Options::default()).expect("valid results");
    for run in &mut report.runs {
        run.file = Path::new(&run.file).file_name().unwrap().to_string_lossy().into_owned();
    }
    for (name, width) in [("text", Some(100)), ("markdown", None), ("csv", None)] {
        let text = (format(name).unwrap().render)(&report, Page { width });
        insta::assert_snapshot!(format!("report_{name}"), text);
    }
    // The JSON of a small one; the large one has hundreds of windows.
    let mut small = Run::new("sim");
    for index in 0..20 {
        small.op(OpKind::Read, Status::Ok, index * 200 * MS, index * US, MS + index);
    }
    small.op(OpKind::Read, Status::NotFound, 4000 * MS, 10, MS);
    let mut report = analyze(&[small.write(folder.path(), 100)], &options("50,99")).expect("valid");
    report.runs[0].file = "small.parquet".into();
    report.generator = "ycsb-trace VERSION".into();
    insta::assert_snapshot!("report_json", (format("json").unwrap().render)(&report, Page::default()));
}

#[test]
fn only_like_is_put_beside_like() {
    let folder = folder();
    let paths = two_databases(folder.path());
    let report = analyze(&paths, &Options::default()).expect("valid results");
    let phases: Vec<(Phase, Vec<usize>)> =
        report.comparisons.iter().map(|one| (one.phase, one.runs.clone())).collect();
    assert_eq!(phases, [(Phase::Load, vec![2]), (Phase::Run, vec![0, 1])]);
    assert!(report.comparisons[1].same_trace && report.comparisons[1].caveats.is_empty());

    let mut other = mixed_run("sqlite", 9, 1);
    other.meta.trace_hash = "ffff".into();
    other.meta.started_at = "2026-01-02T04:04:05Z".into();
    other.meta.sessions = 8;
    other.meta.target_per_second = None;
    let report = analyze(&[paths[0].clone(), other.write(folder.path(), 6000)], &Options::default()).unwrap();
    let caveats: Vec<&Caveat> = report.comparisons[0].caveats.iter().map(|noted| &noted.caveat).collect();
    assert_eq!(caveats, [&Caveat::DifferentTraces, &Caveat::DifferentPace, &Caveat::DifferentSessions]);
    assert_eq!([&report.runs[0].label, &report.runs[1].label], ["sqlite #1", "sqlite #2"]);
    let text = (format("text").unwrap().render)(&report, Page::default());
    assert!(text.contains("different traces: differences may come from the operations, not the databases"));
}

#[test]
fn the_outcome_does_not_depend_on_how_rows_are_spread_over_row_groups() {
    let folder = folder();
    let one = analyze_all(&[&mixed_run("a", 11, 2).write(folder.path(), 50_000)]);
    let mut many = analyze_all(&[&mixed_run("b", 11, 2).write(folder.path(), 777)]);
    for (to, from) in many.runs.iter_mut().zip(&one.runs) {
        (to.file, to.label, to.run_id) = (from.file.clone(), from.label.clone(), from.run_id.clone());
        (to.db, to.server) = (from.db.clone(), from.server.clone());
        // The bootstrap of the slope is seeded by the footer, which names the database.
        let load = to.load.as_mut().expect("a paced run");
        load.lag_slope_ns_per_s = from.load.as_ref().and_then(|load| load.lag_slope_ns_per_s);
    }
    assert_eq!(one, many);
}

#[test]
fn a_folder_stands_for_the_results_in_it() {
    let folder = folder();
    two_databases(folder.path());
    std::fs::write(folder.path().join("notes.txt"), "not a result").unwrap();
    let report = analyze_all(&[folder.path()]);
    assert_eq!(report.runs.len(), 3);
}

#[test]
fn what_is_no_result_is_refused_with_advice() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let complaint = |paths: &[PathBuf]| {
        let error = analyze(paths, &Options::default()).expect_err("must be refused");
        format!("{error:#}")
    };
    let good = thirty_failures().write(folder.path(), 300);

    assert!(complaint(&[at("missing.parquet")]).contains("cannot read"));
    std::fs::write(at("text.parquet"), "hello").unwrap();
    assert!(complaint(&[at("text.parquet")]).contains("is not a complete Parquet file"));
    let bytes = std::fs::read(&good).unwrap();
    std::fs::write(at("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(complaint(&[at("cut.parquet")]).contains("ycsb-trace repair"));
    assert!(complaint(&[good.clone(), good.clone()]).contains("are the same run"));
    std::fs::create_dir(at("empty")).unwrap();
    assert!(complaint(&[at("empty")]).contains("holds no results"));

    let mut newer = thirty_failures();
    (newer.meta.format_version, newer.meta.run_id) = (99, "newer".into());
    assert!(complaint(&[newer.write(folder.path(), 300)]).contains("format version 99"));
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/golden/v1/workloadc.run.parquet");
    assert!(complaint(&[trace]).contains("is a trace, but a result is needed here"));

    // A replay that was killed leaves only its segments.
    let mut meta = Run::new("sim").meta;
    meta.run_id = "killed".into();
    let runs = at("killed");
    drop(RunWriter::create(&runs, &mut meta).unwrap());
    for path in [runs.join("killed.parquet"), runs.join(".killed.parquet.segments"), runs.clone()] {
        let complaint = complaint(&[path]);
        assert!(complaint.contains("unfinished run"), "{complaint}");
        assert!(complaint.contains(&format!("ycsb-trace repair {}", runs.display())), "{complaint}");
    }
}

#[test]
fn an_existing_output_file_is_kept_unless_forced() {
    use clap::Parser;
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ycsb_trace::cli::analyze::AnalyzeArgs,
    }
    let folder = folder();
    let result = thirty_failures().write(folder.path(), 300);
    let output = folder.path().join("report.json");
    let run = |more: &[&str]| {
        let mut arguments =
            vec!["analyze", result.to_str().unwrap(), "--format", "json", "-o", output.to_str().unwrap()];
        arguments.extend(more);
        ycsb_trace::cli::analyze::run(&Command::parse_from(arguments).args)
    };
    run(&[]).expect("a new file");
    serde_json::from_str::<Report>(&std::fs::read_to_string(&output).unwrap()).expect("the report");
    std::fs::write(&output, "precious").unwrap();
    assert!(run(&[]).expect_err("it exists").to_string().contains("--force"));
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "precious");
    run(&["--force"]).expect("forced");
    assert_ne!(std::fs::read_to_string(&output).unwrap(), "precious");
}
