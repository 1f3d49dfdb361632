//! Comparisons that can be trusted: the studies behind the statistics, as tests. Everything is simulated
//! from fixed seeds, so an outcome here is a number, not luck.

use std::path::{Path, PathBuf};
use std::process::Command;

use ycsb_trace::analyze::bootstrap::{Sides, Windows};
use ycsb_trace::analyze::interval::{Share, woodruff};
use ycsb_trace::analyze::report::{Caveat, Pair, Report, Verdict};
use ycsb_trace::analyze::sparse::{Filling, Sparse};
use ycsb_trace::analyze::{Options, Warmup, analyze, percentiles};
use ycsb_trace::op::{OpKind, Status};
use ycsb_trace::trace::meta::SustainedMeta;

use crate::analyze::{Random, Run};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

impl Random {
    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }
}

/// One op of a simulated queue, seconds.
#[derive(Clone, Copy)]
struct Job {
    arrival: f64,
    start: f64,
    end: f64,
}

/// A queue with one server: `per_second` arrivals, 1000 a second can be served. The first 10 s are
/// dropped, so it begins as it goes on.
fn queue(seed: u64, per_second: f64, seconds: f64) -> Vec<Job> {
    // Neighbouring seeds of this generator give the same numbers, shifted by one.
    let mut random = Random(Random(seed).next());
    let (mut now, mut free) = (0.0, 0.0f64);
    let mut jobs = Vec::new();
    loop {
        now += random.exponential(1.0 / per_second);
        let start = free.max(now);
        free = start + random.exponential(0.001);
        if now >= 10.0 + seconds {
            return jobs;
        }
        if now >= 10.0 {
            jobs.push(Job { arrival: now - 10.0, start: start - 10.0, end: free - 10.0 });
        }
    }
}

fn response_ns(job: &Job) -> u64 {
    ((job.end - job.arrival) * 1e9) as u64
}

/// In windows of equally many ops, as comparisons cut runs.
fn windows(jobs: &[Job], count: usize) -> Windows {
    let mut filling = Filling::default();
    let window = |jobs: &[Job]| -> Sparse {
        jobs.iter().for_each(|job| filling.record(response_ns(job)));
        filling.take()
    };
    Windows::new(jobs.chunks(jobs.len().div_ceil(count)).map(window).collect())
}

/// In how many of so many runs something is true of p50, p90, p95 and p99; on all processors.
fn count(runs: u64, of: impl Fn(u64) -> [bool; 4] + Sync) -> [u64; 4] {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let of = &of;
    std::thread::scope(|scope| {
        let share = |first: u64| (first..runs).step_by(threads as usize).map(of).fold([0; 4], add);
        let shares: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        let counts = shares.into_iter().map(|share| share.join().expect("its assertions hold"));
        counts.fold([0; 4], |sum, counts| [0, 1, 2, 3].map(|q| sum[q] + counts[q]))
    })
}

fn add(sum: [u64; 4], seen: [bool; 4]) -> [u64; 4] {
    [0, 1, 2, 3].map(|q| sum[q] + u64::from(seen[q]))
}

/// Two identical systems must not be told apart more often than 1 in 20 times. (Tests that take ops for
/// independent tell them apart in 63 to 73 of 100.)
#[test]
fn identical_systems_are_called_different_no_more_often_than_promised() {
    const PAIRS: u64 = 1500;
    let alarms = count(PAIRS, |pair| {
        let one = [windows(&queue(2 * pair + 1, 700.0, 60.0), 60)];
        let other = [windows(&queue(2 * pair + 2, 700.0, 60.0), 60)];
        let sides = Sides { baseline: &one, other: &other, paired: false, seed: pair };
        let ratios = sides.ratios(&[0.5, 0.9, 0.95, 0.99]);
        let alarm = |q: usize| {
            let ratio = ratios[q].expect("60 s are enough");
            ratio.low > 0.0 || ratio.high < 0.0
        };
        [0, 1, 2, 3].map(alarm)
    });
    println!("A/A at 70 % load, {PAIRS} pairs: false alarms at p50, p90, p95, p99: {alarms:?}");
    assert!(alarms.iter().all(|&alarms| alarms <= PAIRS / 20), "{alarms:?} of {PAIRS}");
}

/// The response time of this queue is exactly exponential, so the true percentile is known.
#[test]
fn intervals_hold_the_truth_as_often_as_promised() {
    const RUNS: u64 = 300;
    let held = count(RUNS, |run| {
        let jobs = queue(10_000 + run, 700.0, 120.0);
        let mut sorted: Vec<u64> = jobs.iter().map(response_ns).collect();
        sorted.sort_unstable();
        let at = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted[rank.clamp(1, sorted.len()) - 1] as f64
        };
        [0.5, 0.9, 0.95, 0.99].map(|q| {
            let measured = at(q);
            let mut shares = vec![Share { ops: 0.0, below: 0.0 }; 120];
            for job in &jobs {
                let window = &mut shares[job.arrival as usize];
                window.ops += 1.0;
                window.below += f64::from(u8::from(response_ns(job) as f64 <= measured));
            }
            let ends = woodruff(&shares).expect("120 s are enough");
            let truth = -(1.0 - q).ln() / 300.0 * 1e9;
            at(ends.low) <= truth && truth <= at(ends.high)
        })
    });
    println!("coverage at 70 % load, {RUNS} runs: p50, p90, p95, p99: {held:?}");
    for held in held {
        let share = held as f64 / RUNS as f64;
        assert!((0.90..=0.97).contains(&share), "{held} of {RUNS}");
    }
}

/// A result of these jobs; each seed is a trace of its own.
fn result(folder: &Path, db: &str, trace: &str, jobs: &[Job]) -> PathBuf {
    let mut run = Run::new(db);
    run.meta.run_id = format!("{trace}-{db}");
    run.meta.trace_hash = trace.into();
    (run.meta.pace, run.meta.target_per_second) = ("arrivals".into(), None);
    for job in jobs {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let intended_ns = ns(job.arrival);
        let lag_ns = ns(job.start).saturating_sub(intended_ns);
        run.op(OpKind::Read, Status::Ok, intended_ns, lag_ns, 0).end_ns = intended_ns + response_ns(job);
    }
    run.write(folder, 20_000)
}

fn options(list: &str, margin: f64, unpaired: bool) -> Options {
    Options { percentiles: percentiles(list).expect("valid"), margin, unpaired, ..Options::default() }
}

fn compared(paths: &[PathBuf], options: &Options) -> Report {
    analyze(paths, options).expect("valid results")
}

fn only_pair(report: &Report) -> &Pair {
    let [comparison] = report.comparisons.as_slice() else { panic!("one phase") };
    let [pair] = comparison.pairs.as_slice() else { panic!("one pair: {:?}", comparison.pairs.len()) };
    pair
}

/// The simulation of the case, by Python's own generator.
const SCRIPT: &str = "
import random, sys
for seed in range(1, 41):
    r = random.Random(seed)
    now = free = 0.0
    while True:
        now += r.expovariate(700)
        service = r.expovariate(1000)
        start = max(now, free)
        free = start + service
        if now >= 70:
            break
        if now >= 10:
            print(seed, now - 10, start - 10, free - 10)
";

#[test]
fn forty_runs_of_one_system_are_hardly_ever_called_different() {
    let output = Command::new("python3").args(["-c", SCRIPT]).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut runs: Vec<Vec<Job>> = vec![Vec::new(); 40];
    for line in text.lines() {
        let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        let job = Job { arrival: numbers[1], start: numbers[2], end: numbers[3] };
        runs[numbers[0] as usize - 1].push(job);
    }
    assert_eq!(runs[0].len(), 41_778, "the rows that the case states");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut alarms, mut any) = ([0; 4], 0);
    for pair in 0..20 {
        let file = |index: usize| {
            result(folder.path(), &format!("s{index}"), &format!("trace{index}"), &runs[index])
        };
        let report = compared(&[file(2 * pair), file(2 * pair + 1)], &options("50,90,95,99,99.9", 0.0, true));
        if pair == 0 {
            let response = &report.runs[0].all.response.ok.percentiles;
            let us = |percentile| response.get(percentile).unwrap().unwrap().value_ns.unwrap() / 1000;
            assert_eq!([us("50"), us("99")], [2309, 13_823], "the percentiles that the case states");
        }
        let ratios = only_pair(&report).ratios.iter().filter(|ratio| ratio.series == "response");
        let mut seen = false;
        for (alarms, ratio) in alarms.iter_mut().zip(ratios) {
            let differs = [Verdict::Faster, Verdict::Slower].contains(&ratio.verdict_alone);
            *alarms += u32::from(differs);
            seen |= differs;
        }
        any += u32::from(seen);
    }
    println!("T17: of 20 pairs called different at p50, p90, p95, p99: {alarms:?}, at any {any}");
    assert!(alarms.iter().all(|&alarms| alarms <= 3) && any <= 5, "{alarms:?}, any {any}");
}

/// Two databases under one trace: each op has its own cost (a hundredfold range), the other database
/// takes `factor` of it, and both have noise of their own.
fn shared_trace(folder: &Path, db: &str, seed: u64, factor: f64, ops: u64) -> PathBuf {
    let (mut cost, mut own) = (Random(1), Random(seed));
    let mut run = Run::new(db);
    run.meta.run_id = format!("shared-{db}-{seed}");
    run.meta.started_at = format!("2026-01-02T03:04:{:02}Z", seed % 60);
    for index in 0..ops {
        let of_op = 0.2e6 * (4.6 * cost.unit()).exp();
        let noise = (0.1 * (own.unit() + own.unit() - 1.0)).exp();
        run.op(OpKind::Read, Status::Ok, index * MS, 20_000, (factor * of_op * noise) as u64);
    }
    run.write(folder, 20_000)
}

#[test]
fn a_small_difference_in_a_wide_distribution_is_found_by_pairing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = shared_trace(folder.path(), "a", 11, 1.0, 60_000);
    let b = shared_trace(folder.path(), "b", 12, 1.03, 60_000);
    let paired = compared(&[a.clone(), b.clone()], &options("50,90,99", 0.01, false));
    let apart = compared(&[a, b], &options("50,90,99", 0.01, true));
    let (paired, apart) = (only_pair(&paired), only_pair(&apart));
    assert!(paired.paired && !apart.paired);
    let ratio = |pair: &Pair| pair.ratios.iter().find(|one| one.percentile == "50").unwrap().clone();
    let (with, without) = (ratio(paired), ratio(apart));
    assert_eq!(with.verdict, Verdict::Slower, "{with:?}");
    assert_eq!(without.verdict, Verdict::Inconclusive, "{without:?}");
    let width = |one: &ycsb_trace::analyze::report::Ratio| one.ratio.unwrap().high - one.ratio.unwrap().low;
    println!(
        "3 % in a hundredfold range: interval {:.4} wide paired, {:.4} apart",
        width(&with),
        width(&without)
    );
    assert!(width(&with) < width(&without) / 2.0);
    let shift = paired.shifts.iter().find(|one| one.series == "service").unwrap();
    assert_eq!(shift.pairs, 60_000);
    assert!((shift.factor.value - 1.03).abs() < 0.002 && shift.factor.low > 1.025, "{shift:?}");
    assert!(shift.share_faster.high < 0.5, "{shift:?}");
    assert_eq!(shift.verdict, Verdict::Slower);
    assert!(apart.shifts.is_empty() && apart.discordances.is_empty());
}

#[test]
fn the_same_files_give_the_same_comparison_bit_for_bit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = shared_trace(folder.path(), "a", 1, 1.0, 20_000);
    let b = shared_trace(folder.path(), "b", 2, 1.0, 20_000);
    let options = options("50,99", 0.03, false);
    let json = |report: &Report| serde_json::to_string(report).expect("plain data");
    let first = compared(&[a.clone(), b.clone()], &options);
    assert_eq!(json(&first), json(&compared(&[a, b], &options)));
    let pair = only_pair(&first);
    assert!(pair.ratios.iter().all(|one| one.verdict == Verdict::Equivalent), "{:?}", pair.ratios);
    assert_eq!(pair.shapes.len(), 1);
    let shape = &pair.shapes[0];
    assert!(shape.points.iter().all(|one| one.ratio.low <= 1.01 && 0.99 <= one.ratio.high));
    assert!((shape.a12.value - 0.5).abs() < 0.01);
}

#[test]
fn response_times_of_a_run_that_was_not_sustained_are_not_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = shared_trace(folder.path(), "a", 1, 1.0, 20_000);
    let mut late = Run::new("b");
    for index in 0..20_000u64 {
        // 1.5 ms for each of the ops that are due every millisecond, one session.
        late.op(OpKind::Read, Status::Ok, index * MS, index * MS / 2, 3 * MS / 2);
    }
    late.meta.sustained = Some(SustainedMeta {
        sustained: false,
        since_ns: Some(S),
        lag_growth_ns_per_s: S / 2,
        cause: Some("server: every session was busy".into()),
    });
    let by_footer = late.write(folder.path(), 20_000);
    for (path, own_words) in [(by_footer, true), (unjudged(folder.path()), false)] {
        let report = compared(&[a.clone(), path], &options("50,99", 0.03, false));
        let load = report.runs[1].load.as_ref().expect("a paced run");
        assert_eq!(load.sustained, Some(false), "{load:?}");
        if own_words {
            assert_eq!(load.since_ns, Some(S));
        }
        let slope = load.lag_slope_ns_per_s.expect("long enough");
        assert!((slope.value / (S / 2) as f64 - 1.0).abs() < 0.05, "{slope:?}");
        let pair = only_pair(&report);
        for ratio in &pair.ratios {
            let withheld = ratio.series == "response";
            assert_eq!(ratio.verdict == Verdict::Withheld, withheld);
            assert_eq!(ratio.ratio.is_none() && ratio.other_ns.is_none(), withheld);
        }
        assert!(pair.caveats.iter().any(|noted| matches!(noted.caveat, Caveat::ResponseWithheld { .. })));
        assert!(pair.shifts.iter().chain(&[]).all(|shift| shift.series == "service"));
        assert!(pair.shapes.iter().all(|shape| shape.series == "service"));
    }
}

/// The same, by a program that did not judge its runs.
fn unjudged(folder: &Path) -> PathBuf {
    let mut late = Run::new("c");
    for index in 0..20_000u64 {
        late.op(OpKind::Read, Status::Ok, index * MS, index * MS / 2, 3 * MS / 2);
    }
    late.write(folder, 20_000)
}

#[test]
fn different_operations_are_not_compared_unless_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = result(folder.path(), "a", "one", &queue(1, 700.0, 30.0));
    let b = result(folder.path(), "b", "two", &queue(2, 700.0, 30.0));
    let refused = compared(&[a.clone(), b.clone()], &options("50", 0.03, false));
    let pair = only_pair(&refused);
    assert!(pair.ratios.is_empty() && pair.goodput.is_none());
    assert!(matches!(pair.caveats[0].caveat, Caveat::NotCompared));
    let asked = compared(&[a, b], &options("50", 0.03, true));
    assert!(!only_pair(&asked).ratios.is_empty());
}

#[test]
fn several_runs_a_side_see_what_a_restart_changes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Restarts of `a` differ by ±10 %, of which a single run knows nothing.
    let mut paths = Vec::new();
    for (run, factor) in [1.0, 1.1, 0.9, 1.05, 0.95].into_iter().enumerate() {
        let seed = 20 + run as u64;
        paths.push(shared_trace(folder.path(), "a", seed, factor, 10_000));
        paths.push(shared_trace(folder.path(), "b", 40 + seed, factor * 1.02, 10_000));
    }
    let report = compared(&paths, &options("50,99", 0.01, false));
    let comparison = &report.comparisons[0];
    assert_eq!(comparison.sides.len(), 2, "{:?}", comparison.sides);
    assert!(comparison.sides_chosen.contains("repetitions"));
    let pair = only_pair(&report);
    assert_eq!(pair.runs_per_side, [5, 5]);
    let median = &pair.ratios[0];
    let ratio = median.ratio.expect("enough");
    assert!(ratio.low < 0.95 && ratio.high > 1.09, "{ratio:?}");
    assert_eq!(median.verdict, Verdict::Inconclusive);
    let variance = pair.variance.expect("several runs");
    assert!((0.05..0.12).contains(&variance.between_runs), "{variance:?}");
    // Of one run each, the difference looks certain, and the report says what is not covered.
    let report = compared(&paths[..2], &options("50,99", 0.01, false));
    let pair = only_pair(&report);
    assert!(pair.caveats.iter().any(|noted| matches!(noted.caveat, Caveat::WithinRunOnly { runs: 1 })));
    assert!(pair.ratios[0].ratio.expect("enough").low > 1.0, "{:?}", pair.ratios[0]);
}

#[test]
fn sides_and_the_baseline_can_be_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |seed| shared_trace(folder.path(), "pg", seed, 1.0, 4_000);
    let paths: Vec<PathBuf> = (1..=3).map(file).collect();
    let named = |name: &str, path: &Path| PathBuf::from(format!("{name}={}", path.display()));
    let inputs = [named("before", &paths[0]), named("after", &paths[1]), named("after", &paths[2])];
    let wanted = Options { baseline: Some("after".into()), ..options("50", 0.03, false) };
    let report = compared(&inputs, &wanted);
    let sides: Vec<(&str, usize)> =
        report.comparisons[0].sides.iter().map(|side| (side.label.as_str(), side.runs.len())).collect();
    assert_eq!(sides, [("before", 1), ("after", 2)]);
    let pair = only_pair(&report);
    assert_eq!((pair.baseline, pair.other), (1, 0));
    // Without names, three runs that are all alike are three sides.
    let alike = compared(&paths, &options("50", 0.03, false));
    assert_eq!(alike.comparisons[0].sides.len(), 3);
    let error = analyze(&paths, &Options { baseline: Some("mysql".into()), ..options("50", 0.03, false) });
    let error = format!("{:#}", error.expect_err("no such side"));
    assert!(error.contains("names none of the sides: pg #1, pg #2, pg #3"), "{error}");
}

#[test]
fn a_baseline_that_is_not_there_is_told_before_any_row_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |db: &str| shared_trace(folder.path(), db, 1, 1.0, 4_000);
    let paths = [file("pg"), file("mysql")];
    for path in &paths {
        // The rows are spoilt, the footer is not.
        let mut bytes = std::fs::read(path).expect("just written");
        bytes[4..1000].fill(0xff);
        std::fs::write(path, bytes).expect("writable");
    }
    let complaint = |paths: &[PathBuf], baseline: &str| {
        let options = Options { baseline: Some(baseline.into()), ..options("50", 0.03, false) };
        format!("{:#}", analyze(paths, &options).expect_err("rows that cannot be read"))
    };
    let none = "--baseline \"oracle\" names none of the sides: pg, mysql";
    assert_eq!(complaint(&paths, "oracle"), none);
    assert_eq!(complaint(&paths[..1], "oracle"), "--baseline \"oracle\" names none of the sides: pg");
    let name = paths[1].file_name().expect("a file").to_str().expect("UTF-8");
    for known in ["mysql", name] {
        assert!(!complaint(&paths, known).contains("baseline"), "{}", complaint(&paths, known));
    }
}

#[test]
fn a_failure_on_one_side_only_is_counted_pair_by_pair() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let failing = |db: &str, every: u64| {
        let mut run = Run::new(db);
        for index in 0..12_000u64 {
            let status = if index % every == 0 { Status::Conflict } else { Status::Ok };
            run.op(OpKind::Update, status, index * MS, 0, MS);
        }
        run.write(folder.path(), 5_000)
    };
    let report = compared(&[failing("a", 100), failing("b", 150)], &options("50", 0.03, false));
    let one = &only_pair(&report).discordances[0];
    // 120 and 80 failures, of which 40 (every 300th) are of the same op.
    assert_eq!((one.neither, one.baseline_only, one.other_only), (40, 40, 80));
    assert_eq!(one.both, 12_000 - 160);
    assert!((one.difference.value - 40.0 / 12_000.0).abs() < 1e-9 && one.difference.low > 0.0);
}

#[test]
fn a_run_compared_with_itself_raises_few_alarms() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = result(folder.path(), "a", "one", &queue(1, 700.0, 120.0));
    let wanted = Options { self_check: true, ..options("50,90,99", 0.03, false) };
    let report = compared(&[a], &wanted);
    let [check] = report.self_checks.as_slice() else { panic!("one run") };
    assert_eq!((check.intervals, check.false_alarms), (3, 0), "{check:?}");
    assert!(check.ratios.iter().all(|one| one.detectable.unwrap() > 0.01));
}

#[test]
fn two_runs_of_one_database_check_themselves_and_each_other_and_a_real_difference_is_an_alarm() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let wanted = Options { self_check: true, ..options("50,90,99", 0.03, false) };
    let checks = |other_factor: f64| {
        let at = folder.path().join(other_factor.to_string());
        let paths =
            [shared_trace(&at, "pg", 1, 1.0, 20_000), shared_trace(&at, "pg", 2, other_factor, 20_000)];
        let checks = compared(&paths, &wanted).self_checks;
        let counts: Vec<(String, usize)> =
            checks.iter().map(|check| (check.of.clone(), check.false_alarms)).collect();
        // Three percentiles, of the response and, because there is a schedule, of the service.
        let intervals: Vec<usize> = checks.iter().map(|check| check.intervals).collect();
        assert_eq!(intervals, [3, 6, 3], "{checks:?}");
        counts
    };
    let named = |twins: usize| {
        vec![("pg #1".to_owned(), 0), ("pg #1 and pg #2".to_owned(), twins), ("pg #2".to_owned(), 0)]
    };
    assert_eq!(checks(1.0), named(0));
    // 5 % slower by nothing but its restart: the two halves of a run do not know, the two runs do.
    assert_eq!(checks(1.05), named(6));
    // Runs of different databases are no twins.
    let at = folder.path().join("different");
    let paths = [shared_trace(&at, "pg", 1, 1.0, 20_000), shared_trace(&at, "mysql", 2, 1.0, 20_000)];
    let of: Vec<String> = compared(&paths, &wanted).self_checks.into_iter().map(|check| check.of).collect();
    assert_eq!(of, ["pg", "mysql"]);
}

/// `shared_trace` with a beginning that is three times slower.
fn slow_to_start(folder: &Path, db: &str, seed: u64, warm_after_s: u64, factor: f64) -> PathBuf {
    let (mut cost, mut own) = (Random(1), Random(seed));
    let mut run = Run::new(db);
    run.meta.run_id = format!("slow-{db}-{seed}");
    for index in 0..60_000u64 {
        let slow = if index * MS < warm_after_s * S { 3.0 } else { 1.0 };
        let of_op = 0.2e6 * (1.0 + cost.unit());
        let noise = (0.1 * (own.unit() + own.unit() - 1.0)).exp();
        run.op(OpKind::Read, Status::Ok, index * MS, 20_000, (slow * factor * of_op * noise) as u64);
    }
    run.write(folder, 20_000)
}

#[test]
fn a_comparison_with_warm_up_cut_begins_where_both_are_warm_and_pairs_the_same_ops() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Both warm up, the other database longer; then it is the faster one by a tenth.
    let paths = [slow_to_start(folder.path(), "a", 3, 6, 1.0), slow_to_start(folder.path(), "b", 4, 15, 0.9)];
    let with = |warmup| compared(&paths, &Options { warmup, ..options("50,99", 0.03, false) });
    let cold = with(Warmup::Until(0));
    assert_ne!(only_pair(&cold).ratios[1].verdict, Verdict::Faster, "its beginning is the slowest of all");
    let warm = with(Warmup::Auto);
    let cuts: Vec<u64> =
        warm.runs.iter().map(|run| run.warmup.as_ref().expect("a scan").cut_ns / S).collect();
    // MSER cuts at least the whole slow beginning; of the noise after it a little or nothing, never half.
    assert!(cuts[0] >= 6 && cuts[1] >= 15 && cuts.iter().all(|&cut| cut < 30), "{cuts:?}");
    let pair = only_pair(&warm);
    assert!(pair.ratios.iter().all(|ratio| ratio.verdict == Verdict::Faster), "{:?}", pair.ratios);
    let truth = |value: f64| (value / 0.9 - 1.0).abs() < 0.01;
    assert!(pair.ratios.iter().all(|ratio| truth(ratio.ratio.expect("enough").value)), "{:?}", pair.ratios);
    let shift = &pair.shifts[0];
    assert_eq!(shift.pairs, 60_000 - cuts[0].max(cuts[1]) * 1000, "the ops that are due after both cuts");
    assert!(truth(shift.factor.value), "{shift:?}");
    for run in &warm.runs {
        assert!(run.caveats.iter().any(|noted| matches!(noted.caveat, Caveat::WarmUpCut { .. })));
    }
    // A cut that is asked for is the same for both.
    let asked = with(Warmup::Until(20 * S));
    assert_eq!(only_pair(&asked).shifts[0].pairs, 40_000);
}
