//! A report as headings, sentences and tables, before it is text or markdown. Both formats show the
//! same blocks in the same order, so what a report contains is decided here, once.

use super::units::{duration, grouped, percent, rate};
use crate::analyze::report::{
    Comparison, NotedCaveat, OpReport, Quantile, Report, RunReport, Series, Summary,
};

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
        let runs: Vec<&RunReport> = comparison.runs.iter().map(|&run| &report.runs[run]).collect();
        phase(&mut blocks, report, comparison, &runs);
    }
    blocks.push(Block::Heading("Definitions".into()));
    let definition = |(word, meaning): &(String, String)| format!("{word}: {meaning}");
    blocks.push(Block::Lines(report.definitions.0.iter().map(definition).collect()));
    blocks
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
    let doubts = doubts(comparison, runs);
    if !doubts.is_empty() {
        blocks.push(Block::Heading("Caveats".into()));
        blocks.push(Block::Lines(doubts));
    }
    blocks.push(Block::Heading("Runs".into()));
    blocks.push(about_runs(runs, comparison.same_trace));

    let kinds: Vec<&str> = runs[0]
        .ops
        .0
        .iter()
        .map(|(op, _)| op.as_str())
        .filter(|op| runs.iter().any(|run| of_kind(run, op).is_some()))
        .collect();
    for op in &kinds {
        let reports: Vec<Option<&OpReport>> = runs.iter().map(|run| of_kind(run, op)).collect();
        blocks.push(Block::Heading((*op).to_owned()));
        blocks.push(about_op(report, runs, &reports));
    }
    if kinds.len() != 1 {
        let reports: Vec<Option<&OpReport>> = runs.iter().map(|run| Some(&run.all)).collect();
        blocks.push(Block::Heading("All ops together".into()));
        blocks.push(about_op(report, runs, &reports));
    }
    failures(blocks, runs);
    worst_windows(blocks, report, comparison, runs);
    let conclusions = conclusions(report, runs, &kinds);
    if !conclusions.is_empty() {
        blocks.push(Block::Heading("In short".into()));
        blocks.push(Block::Lines(conclusions));
    }
}

fn of_kind<'a>(run: &'a RunReport, op: &str) -> Option<&'a OpReport> {
    run.ops.get(op).and_then(Option::as_ref)
}

fn short_hash(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn doubts(comparison: &Comparison, runs: &[&RunReport]) -> Vec<String> {
    let line = |label: Option<&str>, caveat: &NotedCaveat| match label {
        Some(label) => format!("{label}: {}. Advice: {}.", caveat.text, caveat.advice),
        None => format!("{}. Advice: {}.", caveat.text, caveat.advice),
    };
    let mut lines: Vec<String> = comparison.caveats.iter().map(|caveat| line(None, caveat)).collect();
    for run in runs {
        lines.extend(run.caveats.iter().map(|caveat| line(Some(&run.label), caveat)));
    }
    lines
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
    row("sessions", &|run| run.sessions.to_string());
    row("order", &|run| run.order.clone());
    row("started", &|run| run.started_at.clone());
    row("elapsed", &|run| duration(run.elapsed_ns));
    row("ended", &|run| {
        let complete = if run.complete { "complete" } else { "INCOMPLETE" };
        format!("{complete}, {}", run.ended_because)
    });
    Block::Table { head: head("", runs), rows }
}

fn head(first: &str, runs: &[&RunReport]) -> Vec<String> {
    let mut head = vec![first.to_owned()];
    head.extend(runs.iter().map(|run| run.label.clone()));
    head
}

/// Counts and percentiles of one kind: a column per run.
fn about_op(report: &Report, runs: &[&RunReport], reports: &[Option<&OpReport>]) -> Block {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: String, of: &dyn Fn(&OpReport) -> String| {
        let cell = |report: &Option<&OpReport>| report.map_or_else(|| "-".to_owned(), of);
        rows.push(std::iter::once(name).chain(reports.iter().map(cell)).collect());
    };
    row("ops".into(), &|op| grouped(op.ops));
    row("ops/s".into(), &|op| rate(op.ops_per_second));
    let any_failed = reports.iter().flatten().any(|op| op.failed > 0);
    row("failed".into(), &|op| match op.failed {
        0 => "0".into(),
        failed => format!("{} ({})", grouped(failed), percent(op.error_rate)),
    });
    let unpaced = runs.iter().all(|run| run.pace == "unpaced");
    let all_series: &[(&str, fn(&OpReport) -> &Series)] =
        &[("response", |op| &op.response), ("service", |op| &op.service), ("lag", |op| &op.lag)];
    // Without a schedule the response is the service time and the lag is 0.
    let series = if unpaced { &all_series[..1] } else { all_series };
    for (name, of) in series {
        let mut populations: Vec<(&str, fn(&Series) -> &Summary)> = vec![("OK", |series| &series.ok)];
        if any_failed {
            populations.push(("all attempts", |series| &series.all));
        }
        for (population, pick) in populations {
            // "OK" goes without saying where everything is.
            let name = if any_failed { format!("{name}, {population}") } else { (*name).to_owned() };
            if population == "OK" {
                row(format!("{name} min"), &|op| finite(pick(of(op)).min_ns));
                row(format!("{name} mean"), &|op| finite(pick(of(op)).mean_ns));
            }
            for percentile in &report.percentiles {
                row(format!("{name} p{percentile}"), &|op| {
                    quantile(pick(of(op)).percentiles.get(percentile).and_then(Option::as_ref))
                });
            }
            if population == "OK" {
                row(format!("{name} max"), &|op| finite(pick(of(op)).max_ns));
            }
        }
    }
    Block::Table { head: head("", runs), rows }
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
        std::iter::once(format!("from {}", duration(window.start_ns))).chain(cells).collect()
    });
    let length = duration(report.window_ns);
    blocks.push(Block::Heading(format!("Windows of {length} (by intended start) with the longest response")));
    blocks.push(Block::Table { head: head("", runs), rows: rows.collect() });
}

/// The tail of each kind in one line, without judging what is noise.
fn conclusions(report: &Report, runs: &[&RunReport], kinds: &[&str]) -> Vec<String> {
    let Some(percentile) = report.percentiles.iter().find(|one| *one == "99").or(report.percentiles.last())
    else {
        return Vec::new();
    };
    let of_run = |run: &RunReport, op: &str| -> Option<String> {
        let op = of_kind(run, op)?;
        let text = quantile(op.response.ok.percentiles.get(percentile).and_then(Option::as_ref));
        let failed =
            if op.failed > 0 { format!(" ({} failed)", percent(op.error_rate)) } else { String::new() };
        Some(format!("{} {text}{failed}", run.label))
    };
    kinds
        .iter()
        .map(|op| {
            let runs: Vec<String> = runs.iter().filter_map(|run| of_run(run, op)).collect();
            format!("p{percentile} response {op}: {}", runs.join(", "))
        })
        .collect()
}
