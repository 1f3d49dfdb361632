//! One line per number, in long form: filter and pivot it as you like. Times are nanoseconds, counts
//! are counts; an empty value means that there is none (no op), `inf` that the op was never answered.

use std::fmt::Write;

use super::Page;
use crate::analyze::report::{OpReport, Report, RunReport, Summary};

pub(super) fn render(report: &Report, _page: Page) -> String {
    let mut out = String::from("run,phase,db,op,population,series,metric,value_ns\n");
    for run in &report.runs {
        lines_of_op(&mut out, run, "ALL", &run.all);
        for (op, of_kind) in &run.ops.0 {
            if let Some(of_kind) = of_kind {
                lines_of_op(&mut out, run, op, of_kind);
            }
        }
    }
    out
}

fn lines_of_op(out: &mut String, run: &RunReport, op: &str, report: &OpReport) {
    for (series, both) in report.series() {
        for (population, summary) in both.populations() {
            let start =
                [&run.run_id, run.phase.name(), &run.db, op, population, series].map(quoted).join(",");
            for (metric, value) in metrics(summary) {
                writeln!(out, "{start},{metric},{value}").expect("writing to a string");
            }
        }
    }
}

fn metrics(summary: &Summary) -> Vec<(String, String)> {
    let text = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let mut metrics = vec![
        ("count".to_owned(), summary.count.to_string()),
        ("unanswered".to_owned(), summary.unanswered.to_string()),
        ("min".to_owned(), text(summary.min_ns)),
        ("mean".to_owned(), text(summary.mean_ns)),
    ];
    for (percentile, quantile) in &summary.percentiles.0 {
        let value = match quantile {
            Some(quantile) if quantile.unanswered => "inf".to_owned(),
            Some(quantile) => text(quantile.value_ns),
            None => String::new(),
        };
        metrics.push((format!("p{percentile}"), value));
    }
    metrics.push(("max".to_owned(), text(summary.max_ns)));
    metrics
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
