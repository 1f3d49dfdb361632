//! The HTML report: what its charts are made of adds up, nothing from a file becomes markup, its size has
//! a bound, and a browser opens it without a complaint or a request. Screenshots of the last test run are in
//! `target/tmp/report`.

use std::path::{Path, PathBuf};
use std::process::Command;

use ycsb_trace::analyze::pictures::{Pictures, pictures};
use ycsb_trace::analyze::render::html::render;
use ycsb_trace::analyze::render::{Page, format};
use ycsb_trace::analyze::report::{
    Estimate, Groups, Interval, Named, Pair, Ratio, Report, Shape, ShapePoint, Side, Verdict,
};
use ycsb_trace::analyze::{Options, analyze};
use ycsb_trace::op::{NEVER_NS, OpKind, Sample, Status};
use ycsb_trace::trace::meta::ErrorMeta;

use crate::analyze::{Random, Run, mixed_run};
use crate::duckdb::python;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

fn report(paths: &[PathBuf]) -> (Report, Pictures) {
    let report = analyze(paths, &Options::default()).expect("valid results");
    let pictures = pictures(&report).expect("readable rows");
    (report, pictures)
}

fn page(paths: &[PathBuf]) -> String {
    let (report, pictures) = report(paths);
    render(&report, &pictures)
}

#[test]
fn stretches_of_a_chart_hold_every_op_and_their_percentiles_are_near_the_sorted_ones() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = mixed_run("sim", 3, 1);
    let samples = run.samples.clone();
    let (_, pictures) = report(&[run.write(folder.path(), 3_333)]);
    let picture = pictures.runs[0].as_ref().expect("a run with rows");
    assert_eq!((picture.cell_ns, picture.kinds.len()), (50 * MS, 5));
    assert!(picture.cells <= 200);
    let cell = |ns: u64| (ns / picture.cell_ns) as usize;
    for kind in &picture.kinds {
        let mine = |one: &&Sample| kind.op == "ALL" || one.kind.name() == kind.op;
        let rows: Vec<&Sample> = samples.iter().filter(mine).collect();
        let ok: Vec<&Sample> = rows.iter().copied().filter(|one| one.status.is_success()).collect();
        assert_eq!(kind.due.iter().sum::<u64>(), rows.len() as u64);
        assert_eq!(kind.failed.iter().sum::<u64>(), (rows.len() - ok.len()) as u64);
        assert_eq!(kind.done.iter().sum::<u64>(), ok.len() as u64);
        for (index, (p50, p99)) in kind.response.p50.iter().zip(&kind.response.p99).enumerate() {
            let mut responses: Vec<u64> = ok
                .iter()
                .filter(|one| cell(one.intended_ns) == index)
                .map(|one| one.end_ns - one.intended_ns)
                .collect();
            responses.sort_unstable();
            for (found, percent) in [(p50, 50), (p99, 99)] {
                let exact =
                    (responses.len() * percent).div_ceil(100).checked_sub(1).map(|rank| responses[rank]);
                assert_eq!(found.is_some(), exact.is_some());
                if let (Some(found), Some(exact)) = (found, exact) {
                    assert!(
                        found.abs_diff(exact) * 64 <= exact,
                        "{} {index} p{percent}: {found}, {exact}",
                        kind.op
                    );
                }
            }
            assert_eq!(kind.response.max[index], responses.last().copied());
            // At the end of a stretch: due but not started, started but not answered.
            let until = (index as u64 + 1) * picture.cell_ns;
            let started = |one: &&&Sample| one.start_ns != NEVER_NS;
            let waiting =
                rows.iter().filter(started).filter(|one| one.intended_ns < until && one.start_ns >= until);
            assert_eq!(kind.waiting[index], waiting.count() as u64, "{} {index}", kind.op);
            let answered = rows.iter().filter(started).filter(|one| one.end_ns != NEVER_NS);
            let in_flight = answered.filter(|one| one.start_ns < until && one.end_ns >= until);
            assert_eq!(kind.in_flight[index], in_flight.count() as u64);
        }
        let mut responses: Vec<u64> = ok.iter().map(|one| one.end_ns - one.intended_ns).collect();
        responses.sort_unstable();
        for (percent, found) in kind.curve.percent.iter().zip(&kind.curve.response) {
            let rank = ((percent * 1e7).round() as u128 * responses.len() as u128).div_ceil(1_000_000_000);
            let exact = responses[(rank as usize).max(1) - 1];
            assert!(exact.abs_diff(*found) * 2048 <= exact, "{percent} {found} {exact}");
        }
        assert_eq!(kind.curve.response.last(), responses.last());
    }
    let heat: u64 = picture.heat.columns.iter().flat_map(|column| column.iter().skip(1)).sum();
    assert_eq!(heat, samples.iter().filter(|one| one.status.is_success()).count() as u64);
}

#[test]
fn the_page_is_the_same_however_the_rows_are_spread() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pages = [50_000, 777].map(|rows| {
        let at = folder.path().join(rows.to_string());
        page(&[mixed_run("sim", 11, 2).write(&at, rows)])
    });
    assert!(pages[0] == pages[1]);
}

/// A run that uses every kind, every power of ten of latency, and more than a week.
fn long_run(db: &str, ops: u64) -> Run {
    let mut random = Random(9);
    let mut run = Run::new(db);
    for index in 0..ops {
        // The kinds of YCSB; statements have names of their own.
        let kind = OpKind::ALL[random.below(6) as usize];
        let octave = 8 + random.below(32);
        let service_ns = 1 + random.below(1 << octave);
        run.op(kind, Status::Ok, index * (700_000_000_000_000 / ops), random.below(40 * US), service_ns);
    }
    run
}

#[test]
fn the_size_of_a_page_does_not_grow_with_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let size = |ops: u64| {
        let at = folder.path().join(ops.to_string());
        page(&[long_run("sim", ops).write(&at, 1 << 20)]).len()
    };
    let (short, long) = (size(10_000), size(100_000));
    // Every cell of the heat map that can be used is used; only digits are added.
    assert!(long < 1_000_000 && long < short * 2, "{short} and {long} bytes");
    let runs: Vec<PathBuf> = (0..4)
        .map(|run| long_run(&format!("db{run}"), 5_000).write(&folder.path().join("many"), 1 << 20))
        .collect();
    // From 15 runs on, the stretches of all together are 3,000. Measured: 4.05 MB for 20 runs.
    let many = page(&runs).len();
    assert!(many < 5_000_000 / 15 * 4, "{many} bytes");
}

#[test]
fn a_page_begins_with_the_verdict_and_goes_on_to_ever_more_numbers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = ["sqlite", "fjall"].map(|db| mixed_run(db, 3, 1).write(folder.path(), 5_000));
    let page = page(&paths);
    let order =
        ["class=\"verdict ", "<table>", "class=\"charts\"", "class=\"statistics\"", "class=\"numbers\""];
    let places: Vec<usize> = order.iter().map(|one| page.find(one).expect("a part of the page")).collect();
    assert!(places.is_sorted(), "{places:?}");
    let statistics = &page[places[3]..places[4]];
    assert!(
        statistics.contains("fjall against SQLite") && statistics.contains("class=\"is-"),
        "{statistics}"
    );
    // Of one run there is nothing to be certain about.
    let alone = self::page(&paths[..1]);
    assert!(alone.contains("class=\"charts\"") && !alone.contains("class=\"statistics\""));
}

/// Two runs of one trace with a stall, failures, hostile names, and everything that a comparison can say.
fn everything(folder: &Path) -> (Report, Pictures) {
    let evil = "</script><script>window.injected=1</script><img src=x onerror=window.injected=1>";
    let mut slow = mixed_run("sqlite", 1, 4);
    for sample in slow.samples.iter_mut().filter(|one| (1_500 * MS..2_500 * MS).contains(&one.intended_ns)) {
        if sample.start_ns != NEVER_NS && sample.end_ns != NEVER_NS {
            // Nothing was answered from 1.5 to 2 s; then the backlog was worked off.
            let at = (2_000 * MS + (sample.intended_ns - 1_500 * MS) / 2).max(sample.start_ns);
            (sample.start_ns, sample.end_ns) = (at, at + (sample.end_ns - sample.start_ns));
        }
    }
    let mut fast = mixed_run("fjall", 1, 1);
    fast.meta.trace = format!("workloada {evil}");
    fast.meta.server.version = format!("1.2 {evil} & \"quoted\" 'too' \u{7} {{{{body}}}}");
    fast.codes[1] = format!("40001{evil}");
    fast.meta.errors = vec![ErrorMeta { code: evil.into(), message: format!("no: {evil}"), count: 3 }];
    let (mut report, pictures) = report(&[slow.write(folder, 6_000), fast.write(folder, 6_000)]);
    report.runs[1].label = format!("fjall {evil}");
    report.runs[0].groups = Some(Groups {
        by: "size".into(),
        about: format!("bytes of the values {evil}"),
        groups: Named(
            ["0–99", "100–999", evil].map(|name| (name.to_owned(), report.runs[0].all.clone())).into(),
        ),
    });
    for run in &mut report.runs {
        for (percentile, quantile) in &mut run.all.response.ok.percentiles.0 {
            let Some(quantile) = quantile.as_mut().filter(|_| percentile != "99.99") else { continue };
            let ns = quantile.value_ns.expect("OK ops are answered");
            quantile.interval =
                Some(Interval { low_ns: Some(ns * 9 / 10), high_ns: Some(ns * 6 / 5), effective: 0.4 });
        }
    }
    let comparison = &mut report.comparisons[0];
    comparison.sides = vec![
        Side { label: "sqlite".into(), runs: vec![0] },
        Side { label: format!("fjall {evil}"), runs: vec![1] },
    ];
    let estimate = |value: f64| Estimate { value, low: value * 0.93, high: value * 1.08 };
    let ratio = |op: &str, percentile: &str, value: f64, verdict: Verdict| Ratio {
        op: op.into(),
        series: "response".into(),
        percentile: percentile.into(),
        baseline_ns: Some(3 * MS),
        other_ns: Some((3e6 * value) as u64),
        ratio: Some(estimate(value)),
        detectable: Some(0.05),
        verdict_alone: verdict,
        verdict,
        p_adjusted: Some(0.01),
    };
    let ratios = [("READ", 1.0), ("UPDATE", 1.1), ("ALL", 1.05)].into_iter().flat_map(|(op, factor)| {
        [
            ratio(op, "50", 0.3 * factor, Verdict::Faster),
            ratio(op, "90", 0.9 * factor, Verdict::Inconclusive),
            ratio(op, "99", 1.0 * factor, Verdict::Equivalent),
            ratio(op, "99.9", 1.6 * factor, Verdict::Slower),
        ]
    });
    let points = (1..100).map(|percent| ShapePoint {
        percent: f64::from(percent),
        baseline_ns: 2 * MS,
        other_ns: MS,
        ratio: estimate(0.5 + f64::from(percent) / 120.0),
    });
    comparison.pairs = vec![Pair {
        baseline: 0,
        other: 1,
        paired: true,
        margin: 0.03,
        windows: 30,
        resamples: 2000,
        runs_per_side: [1, 1],
        ratios: ratios.collect(),
        shifts: Vec::new(),
        discordances: Vec::new(),
        shapes: vec![Shape {
            op: "ALL".into(),
            series: "response".into(),
            points: points.collect(),
            ks: estimate(0.2),
            wasserstein_ln: estimate(0.3),
            a12: estimate(0.6),
        }],
        throughput: None,
        goodput: None,
        variance: None,
        caveats: Vec::new(),
    }];
    (report, pictures)
}

/// Chromium, by any of its names; `YCSB_TRACE_CHROMIUM` names another one.
fn chromium() -> PathBuf {
    if let Some(chromium) = std::env::var_os("YCSB_TRACE_CHROMIUM") {
        return chromium.into();
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file())
        .expect("this test needs Chromium: scripts/setup test, or let YCSB_TRACE_CHROMIUM name it")
}

/// What a reader with a browser sees: see `tests/browser/report.py`.
fn visit(name: &str, page: &str) -> serde_json::Value {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join(name);
    std::fs::create_dir_all(&folder).expect("a writable folder");
    let file = folder.join("report.html");
    std::fs::write(&file, page).expect("writable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/report.py");
    let output =
        Command::new(python()).arg(script).args([chromium(), file, folder]).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_browser_opens_it_without_complaint_or_request_by_mouse_keyboard_phone_and_printer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (report, pictures) = everything(folder.path());
    let seen = visit("everything", &render(&report, &pictures));
    let none = serde_json::json!([]);
    assert_eq!(seen["errors"], none);
    assert_eq!(seen["requests"], none);
    assert_eq!(seen["injected"], 0);
    for count in ["empty_charts", "not_a_number", "unnamed", "sideways", "phone_sideways"] {
        assert_eq!(seen[count], 0, "{count}: {seen:#}");
    }
    assert_eq!(seen["overlaps"], none);
    assert_eq!(seen["phone_overlaps"], none);
    let charts: Vec<&str> =
        seen["charts"].as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
    let has = |start: &str| charts.iter().any(|one| one.starts_with(start));
    for chart in [
        "Latency over time",
        "Throughput, failures and backlog",
        "Latency by percentile",
        "Share of ops answered within a time",
        "Every response of SQLite",
        "By size: SQLite",
    ] {
        assert!(has(chart), "{chart}: {charts:?}");
    }
    assert!(
        charts.iter().any(|one| one.contains("compared with SQLite: ratio of percentiles")),
        "{charts:?}"
    );
    assert!(charts.iter().any(|one| one.contains("shift at every percentile")), "{charts:?}");
    assert!(seen["hover"].as_str().unwrap().contains("p99"), "{seen:#}");
    assert_ne!(seen["keys"][0], seen["keys"][1]);
    assert!(seen["keys"][1].as_str().unwrap().contains("p50"));
    let reached = seen["reached"].to_string();
    for element in ["\"svg\"", "\"button\"", "\"button#theme\"", "\"summary\"", "\"div\""] {
        assert!(reached.contains(element), "{element}: {reached}");
    }
    assert_eq!(seen["focus_unmarked"], none);
    let themes = &seen["themes"];
    assert_eq!(themes[1][0], "Theme: dark");
    assert!(themes[0][1] != themes[1][1] && themes[2][1] == themes[0][1], "{themes}");
    assert_eq!(seen["dark"], themes[1][1]);
    assert!(seen["toggle"][1].as_u64() < seen["toggle"][0].as_u64() && seen["toggle"][2] == "false");
    assert!(seen["op"].as_str().unwrap().contains("INSERT"), "{seen:#}");
    assert!(seen["table_rows"].as_u64().unwrap() > 90);
    assert!(seen["print_bytes"].as_u64().unwrap() > 10_000);
}

#[test]
fn a_page_without_rows_says_so_and_is_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = page(&[Run::new("sim").write(folder.path(), 10)]);
    assert!(text.contains("No operations, nothing to report"));
    assert!(text.contains("the result has no rows") && text.ends_with("</html>\n"));
    assert!(
        !text.contains("http://")
            || text.matches("http://").count() == text.matches("http://www.w3.org").count()
    );
    assert!(!text.contains("https://"));
}

#[test]
fn tables_fit_the_terminal_and_no_number_is_broken_over_two_lines() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runs: Vec<PathBuf> = ["sqlite", "fjall", "postgres", "cockroach", "mariadb", "riak"]
        .into_iter()
        .zip(1..)
        .map(|(db, slowness)| mixed_run(db, 1, slowness).write(folder.path(), 20_000))
        .collect();
    let report = analyze(&runs, &Options::default()).expect("valid results");
    let text = |width| (format("text").expect("a format").render)(&report, Page { width });
    let numbers = |text: &str| text.matches(" ms").count() + text.matches(" µs").count();
    let wide = text(None);
    for width in [60, 80, 100, 200] {
        let narrow = text(Some(width));
        let longest = narrow.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
        assert!(longest.chars().count() <= usize::from(width), "{width}: {longest}");
        assert!(numbers(&narrow) >= numbers(&wide), "{width}");
    }
}

#[test]
fn every_database_is_written_in_headings_as_its_makers_write_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut report, pictures) = report(&[mixed_run("sim", 1, 1).write(folder.path(), 20_000)]);
    for kind in ycsb_trace::driver::kinds() {
        report.runs[0].db = kind.names[0].into();
        let page = render(&report, &pictures);
        let (_, title) = page.split_once("<title>workloada on ").expect("a title");
        let (title, _) = title.split_once(" · ").expect("its end");
        assert!(kind.about.contains(title) || title == kind.names[0], "{title}: {}", kind.about);
        // A row of the table that is not there leaves the word as it is.
        let known = format!("(\"{}\", \"{title}\")", kind.names[0]);
        assert!(include_str!("../../src/analyze/render/names.rs").contains(&known), "{known}");
    }
}

#[test]
fn a_stall_is_seen_in_a_line_of_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut run = Run::new("sim");
    for second in 0..20 {
        for op in 0..100 {
            let service_ns = if second == 12 { 900 * MS } else { MS };
            run.op(OpKind::Read, Status::Ok, second * 1000 * MS + op * 10 * MS, 0, service_ns);
        }
    }
    let report = analyze(&[run.write(folder.path(), 20_000)], &Options::default()).expect("a valid result");
    for name in ["text", "markdown"] {
        let text = (format(name).expect("a format").render)(&report, Page::default());
        assert!(text.contains("▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁"), "{text}");
    }
}
