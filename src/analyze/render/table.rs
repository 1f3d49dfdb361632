//! A report as headings, sentences and tables, before it is text or markdown. Both formats show the
//! same blocks in the same order, so what a report contains is decided here, once.

use super::answer::answer;
use super::spark::over_time;
use super::units::{duration, exact, grouped, percent, rate};
use super::verdicts;
use crate::analyze::report::{Comparison, NotedCaveat, OpReport, Quantile, Report, RunReport, Summary};

/// A piece of a report.
pub(super) enum Block {
    /// A phase.
    Title(String),
    /// A part of it.
    Heading(String),
    /// Sentences, one per line.
    Lines(Vec<String>),
    /// A table whose first column is text and whose other columns are numbers.
    Table {
        /// Head of each column.
        head: Vec<String>,
        /// Cells, as many as in the head.
        rows: Vec<Vec<String>>,
    },
}

/// The whole report.
pub(super) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    for comparison in &report.comparisons {
        blocks.extend(blocks_of(report, comparison));
    }
    blocks.extend(verdicts::self_checks(report));
    blocks.push(Block::Heading("Definitions".into()));
    let definition = |(word, meaning): &(String, String)| format!("{word}: {meaning}");
    blocks.push(Block::Lines(report.definitions.0.iter().map(definition).collect()));
    blocks
}

/// One phase of it.
pub(super) fn blocks_of(report: &Report, comparison: &Comparison) -> Vec<Block> {
    let runs: Vec<&RunReport> = comparison.runs.iter().map(|&run| &report.runs[run]).collect();
    let mut blocks = Vec::new();
    phase(&mut blocks, report, comparison, &runs);
    blocks
}

/// A kind of op in one line: ops, rate, failures, percentiles of the response, the longest.
pub(super) fn overview_cells(report: &Report, op: &OpReport) -> Vec<String> {
    let mut cells = vec![grouped(op.ops), rate(op.ops_per_second), failed(op)];
    let response = &op.response.ok;
    cells.extend(
        report.percentiles.iter().map(|one| quantile(response.percentiles.get(one).and_then(Option::as_ref))),
    );
    cells.push(finite(response.max_ns));
    cells
}

fn phase(blocks: &mut Vec<Block>, report: &Report, comparison: &Comparison, runs: &[&RunReport]) {
    let name = match comparison.phase {
        crate::analyze::report::Phase::Load => "Load phase",
        crate::analyze::report::Phase::Run => "Run phase",
    };
    let title = if comparison.same_trace {
        format!("{name}: trace {} ({})", runs[0].trace, short_hash(&runs[0].trace_hash))
    } else {
        format!("{name}: different traces")
    };
    blocks.push(Block::Title(title));
    let kinds: Vec<&str> = runs[0]
        .ops
        .0
        .iter()
        .map(|(op, _)| op.as_str())
        .filter(|op| runs.iter().any(|run| of_kind(run, op).is_some()))
        .collect();
    let answer = answer(report, comparison);
    blocks.push(Block::Heading("In short".into()));
    let mut lines = vec![answer.headline];
    // What a comparison rests on has a table of its own below.
    if comparison.pairs.is_empty() {
        lines.extend(answer.details);
    }
    blocks.push(Block::Lines(lines));
    blocks.push(overview(report, runs, &kinds));
    let doubts = doubts(comparison, runs);
    if !doubts.is_empty() {
        blocks.push(Block::Heading("Caveats".into()));
        blocks.push(Block::Lines(doubts));
    }
    blocks.extend(verdicts::pairs(comparison));
    blocks.push(Block::Heading("Runs".into()));
    blocks.push(about_runs(runs, comparison.same_trace));
    blocks.extend(verdicts::over_time(runs));

    for op in &kinds {
        let reports: Vec<Option<&OpReport>> = runs.iter().map(|run| of_kind(run, op)).collect();
        blocks.push(Block::Heading((*op).to_owned()));
        about_op(blocks, report, runs, &reports);
    }
    if kinds.len() != 1 {
        let reports: Vec<Option<&OpReport>> = runs.iter().map(|run| Some(&run.all)).collect();
        blocks.push(Block::Heading("All ops together".into()));
        about_op(blocks, report, runs, &reports);
    }
    blocks.extend(verdicts::groups(report, runs));
    failures(blocks, runs);
    worst_windows(blocks, report, comparison, runs);
}

fn of_kind<'a>(run: &'a RunReport, op: &str) -> Option<&'a OpReport> {
    run.ops.get(op).and_then(Option::as_ref)
}

fn short_hash(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// One line per doubt, with the runs that share it.
fn doubts(comparison: &Comparison, runs: &[&RunReport]) -> Vec<String> {
    let mut doubts: Vec<(&NotedCaveat, Vec<&str>)> = Vec::new();
    for run in runs {
        for noted in &run.caveats {
            match doubts.iter_mut().find(|(known, _)| *known == noted) {
                Some((_, labels)) => labels.push(&run.label),
                None => doubts.push((noted, vec![&run.label])),
            }
        }
    }
    let advice = |noted: &NotedCaveat| format!("{}. Advice: {}.", noted.text, noted.advice);
    let common = comparison.caveats.iter().map(advice);
    let of_runs = doubts.iter().map(|(noted, labels)| format!("{}: {}", labels.join(", "), advice(noted)));
    common.chain(of_runs).collect()
}

fn about_runs(runs: &[&RunReport], same_trace: bool) -> Block {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, of: &dyn Fn(&RunReport) -> String| {
        let cells: Vec<String> = runs.iter().map(|run| of(run)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.push([vec![name.to_owned()], cells].concat());
        }
    };
    if !same_trace {
        row("trace", &|run| format!("{} ({})", run.trace, short_hash(&run.trace_hash)));
    }
    row("run", &|run| run.run_id.clone());
    row("server", &|run| run.server.version.clone());
    row("settings", &|run| {
        let settings = run.server.settings.iter().map(|(name, value)| format!("{name}={value}"));
        settings.collect::<Vec<_>>().join(", ")
    });
    row("pace", &|run| match (run.pace.as_str(), run.target_per_second) {
        ("rate", Some(target)) => format!("{} ops/s", rate(Some(target))),
        ("arrivals", _) if run.speed == 1.0 => "arrivals of the trace".into(),
        ("arrivals", _) => format!("arrivals of the trace at {}x speed", run.speed),
        (pace, _) => pace.to_owned(),
    });
    row("sessions", &|run| if run.sessions > 0 { run.sessions.to_string() } else { String::new() });
    row("order", &|run| run.order.clone());
    row("started", &|run| whole_seconds(&run.started_at));
    row("elapsed", &|run| duration(run.elapsed_ns));
    row("ended", &|run| {
        let complete = if run.complete { "complete" } else { "INCOMPLETE" };
        format!("{complete}, {}", run.ended_because)
    });
    Block::Table { head: head("", runs), rows }
}

/// `2026-01-02T03:04:05.678Z` without the fraction.
fn whole_seconds(timestamp: &str) -> String {
    match timestamp.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => timestamp.to_owned(),
    }
}

fn head(first: &str, runs: &[&RunReport]) -> Vec<String> {
    let mut head = vec![first.to_owned()];
    head.extend(runs.iter().map(|run| run.label.clone()));
    head
}

/// A series in one population, as a table shows it. Service and lag are shown for the successes; the
/// other populations are in the formats for programs.
struct Shown {
    name: &'static str,
    of: fn(&OpReport) -> &Summary,
}

fn shown(runs: &[&RunReport], reports: &[Option<&OpReport>]) -> Vec<Shown> {
    let any_failed = reports.iter().flatten().any(|op| op.failed > 0);
    let mut shown = vec![Shown { name: "response", of: |op| &op.response.ok }];
    if any_failed {
        shown[0].name = "response, OK";
        shown.push(Shown { name: "response, all attempts", of: |op| &op.response.all });
    }
    // Without a schedule the response is the service time and the lag is 0.
    if runs.iter().any(|run| !["unpaced", "unknown"].contains(&run.pace.as_str())) {
        let (service, lag) = if any_failed { ("service, OK", "lag, OK") } else { ("service", "lag") };
        shown.push(Shown { name: service, of: |op| &op.service.ok });
        shown.push(Shown { name: lag, of: |op| &op.lag.ok });
    }
    shown
}

/// What is shown of each series: smallest, mean, percentiles, largest.
fn metrics(report: &Report) -> Vec<String> {
    let percentiles = report.percentiles.iter().map(|percentile| format!("p{percentile}"));
    ["min".to_owned(), "mean".to_owned()].into_iter().chain(percentiles).chain(["max".to_owned()]).collect()
}

fn metric(summary: &Summary, metric: &str) -> String {
    match metric {
        "min" => finite(summary.min_ns),
        // One that was never answered makes the mean meaningless, and is itself the largest.
        "mean" if summary.unanswered > 0 => "-".into(),
        "max" if summary.unanswered > 0 => "never answered".into(),
        "mean" => finite(summary.mean_ns),
        "max" => finite(summary.max_ns),
        percentile => quantile(summary.percentiles.get(&percentile[1..]).and_then(Option::as_ref)),
    }
}

/// Counts and percentiles of one kind. One run: a column per series; several: a column per run.
fn about_op(blocks: &mut Vec<Block>, report: &Report, runs: &[&RunReport], reports: &[Option<&OpReport>]) {
    let shown = shown(runs, reports);
    if let [Some(op)] = reports {
        blocks.push(Block::Lines(vec![format!(
            "{} ops, {} ops/s, failed: {}",
            grouped(op.ops),
            rate(op.ops_per_second),
            failed(op)
        )]));
        let head = std::iter::once(String::new()).chain(shown.iter().map(|one| one.name.to_owned()));
        let row = |name: String| {
            let cells: Vec<String> = shown.iter().map(|one| metric((one.of)(op), &name)).collect();
            std::iter::once(name).chain(cells).collect()
        };
        let rows = metrics(report).into_iter().map(row).collect();
        blocks.push(Block::Table { head: head.collect(), rows });
        return;
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: String, of: &dyn Fn(&OpReport) -> String| {
        let cell = |report: &Option<&OpReport>| report.map_or_else(|| "-".to_owned(), of);
        rows.push(std::iter::once(name).chain(reports.iter().map(cell)).collect());
    };
    row("ops".into(), &|op| grouped(op.ops));
    row("ops/s".into(), &|op| rate(op.ops_per_second));
    row("failed".into(), &failed);
    for one in &shown {
        let all_attempts = one.name.ends_with("all attempts");
        for name in metrics(report).into_iter().filter(|name| !all_attempts || name.starts_with('p')) {
            row(format!("{} {name}", one.name), &|op| metric((one.of)(op), &name));
        }
    }
    blocks.push(Block::Table { head: head("", runs), rows });
}

fn failed(op: &OpReport) -> String {
    match op.failed {
        0 => "0".into(),
        failed => format!("{} ({})", grouped(failed), percent(op.error_rate)),
    }
}

fn finite(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

fn quantile(quantile: Option<&Quantile>) -> String {
    match quantile {
        None => "-".into(),
        Some(quantile) => quantile.value_ns.map_or_else(|| "never answered".to_owned(), duration),
    }
}

fn failures(blocks: &mut Vec<Block>, runs: &[&RunReport]) {
    let mut kinds: Vec<(&str, &str, &str)> = Vec::new();
    for failure in runs.iter().flat_map(|run| &run.failures) {
        let kind = (failure.op.as_str(), failure.status.as_str(), failure.code.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        return;
    }
    let rows = kinds.iter().map(|&(op, status, code)| {
        let name = if code.is_empty() { format!("{op} {status}") } else { format!("{op} {status} ({code})") };
        let count = |run: &&RunReport| {
            let same = run
                .failures
                .iter()
                .find(|one| (one.op.as_str(), one.status.as_str(), one.code.as_str()) == (op, status, code));
            grouped(same.map_or(0, |failure| failure.count))
        };
        std::iter::once(name).chain(runs.iter().map(count)).collect()
    });
    blocks.push(Block::Heading("Failures".into()));
    blocks.push(Block::Table { head: head("op, status (code)", runs), rows: rows.collect() });
    let message = |run: &RunReport| -> Vec<String> {
        let line = |code: &str, message: &str| format!("{} ({code}): {message}", run.label);
        let errors = run.errors.iter().filter(|error| !error.message.is_empty());
        errors
            .map(|error| line(if error.code.is_empty() { "no code" } else { &error.code }, &error.message))
            .collect()
    };
    let messages: Vec<String> = runs.iter().flat_map(|run| message(run)).collect();
    if !messages.is_empty() {
        blocks.push(Block::Lines(messages));
    }
}

fn worst_windows(blocks: &mut Vec<Block>, report: &Report, comparison: &Comparison, runs: &[&RunReport]) {
    // With a single window the table would repeat the maximum.
    if runs.iter().all(|run| run.all.windows.len() < 2) {
        return;
    }
    let rows = comparison.worst_windows.iter().map(|window| {
        let cells = window.response_max_ns.iter().zip(&window.failed).map(|(max, failed)| match failed {
            Some(failed) if *failed > 0 => format!("{} ({} failed)", finite(*max), grouped(*failed)),
            _ => finite(*max),
        });
        std::iter::once(format!("from {}", exact(window.start_ns))).chain(cells).collect()
    });
    let length = exact(report.window_ns);
    blocks.extend(over_time(report, runs));
    blocks.push(Block::Heading(format!("Windows of {length} (by intended start) with the longest response")));
    blocks.push(Block::Table { head: head("", runs), rows: rows.collect() });
}

/// The response of each kind in a line per run: what most people look for.
fn overview(report: &Report, runs: &[&RunReport], kinds: &[&str]) -> Block {
    let mut head = vec!["response, OK".to_owned(), "ops/s".into(), "failed".into()];
    head.extend(report.percentiles.iter().map(|percentile| format!("p{percentile}")));
    head.push("max".into());
    let mut rows = Vec::new();
    for op in kinds {
        for run in runs {
            let Some(of_kind) = of_kind(run, op) else { continue };
            let name = if runs.len() > 1 { format!("{op} {}", run.label) } else { (*op).to_owned() };
            // The count of ops is in the table of the kind.
            let cells = overview_cells(report, of_kind).into_iter().skip(1);
            rows.push(std::iter::once(name).chain(cells).collect());
        }
    }
    Block::Table { head, rows }
}
