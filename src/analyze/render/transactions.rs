//! Transactions as tables, and as sysbench reports them.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::units::{duration, grouped};
use crate::analyze::transactions::{Class, Latency, TransactionReport};
use crate::trace::meta::Phase;

/// What a table has a line for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Each run's transactions.
    Txn,
    /// Each statement of each run.
    Statement,
}

/// The tables, for a terminal or for Markdown.
pub fn tables(reports: &[TransactionReport], by: By, markdown: bool) -> String {
    let mut table = Table::new();
    table.load_preset(if markdown { presets::ASCII_MARKDOWN } else { presets::NOTHING });
    let latencies = ["min", "avg", "p50", "p95", "p99", "max"];
    let first: &[&str] = match by {
        By::Txn => &["test", "database", "sessions", "transactions", "failed", "retries", "transactions/s"],
        By::Statement => &["test", "database", "statement", "sent", "failed", "share of time"],
    };
    table.set_header(first.iter().chain(&latencies).copied());
    let mut sorted: Vec<&TransactionReport> = reports.iter().collect();
    sorted.sort_by(|a, b| (&a.test, a.phase, &a.db, &a.path).cmp(&(&b.test, b.phase, &b.db, &b.path)));
    for report in sorted {
        let test = match report.phase {
            Phase::Run => report.test.clone(),
            Phase::Load => format!("{} (load)", report.test),
        };
        let ended = report.transactions;
        let head = [test, report.db.clone()];
        if by == By::Txn {
            let mut row = head.to_vec();
            row.extend([u64::from(report.sessions), ended.ok, ended.failed, ended.retries].map(grouped));
            row.push(format!("{:.1}", report.per_second));
            row.extend(cells(report.latency.as_ref()));
            table.add_row(row);
            continue;
        }
        for statement in &report.statements {
            let mut row = head.to_vec();
            row.push(statement.name.clone());
            row.extend([statement.sent, statement.ops - statement.ok].map(grouped));
            row.push(format!("{:.1} %", statement.share * 100.0));
            row.extend(cells(statement.service.as_ref()));
            table.add_row(row);
        }
    }
    let names = if by == By::Txn { 2 } else { 3 };
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let meaning = match by {
        By::Txn => {
            "a transaction's latency = end of its last statement − intended start of its first, retries included"
        }
        By::Statement => {
            "a statement's latency = end − start; failed ones, and those never sent after them, have none"
        }
    };
    let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{}\n\n{meaning}\n", text.join("\n"))
}

fn cells(latency: Option<&Latency>) -> Vec<String> {
    match latency {
        None => vec!["-".to_owned(); 6],
        Some(it) => {
            let values = [it.min_ns, it.mean_ns.round() as u64, it.p50_ns, it.p95_ns, it.p99_ns, it.max_ns];
            values.map(duration).to_vec()
        }
    }
}

/// The report of sysbench 1.0, for scripts that read it.
pub fn sysbench(reports: &[TransactionReport]) -> String {
    let mut text = String::new();
    for report in reports.iter().filter(|report| report.phase == Phase::Run) {
        if reports.len() > 1 {
            writeln!(text, "{} on {} ({})", report.test, report.db, report.path).expect("to memory");
        }
        one(report, &mut text);
    }
    text
}

fn one(report: &TransactionReport, text: &mut String) {
    let of = |class: Class| -> u64 {
        report.statements.iter().filter(|statement| statement.class == class).map(|one| one.sent).sum()
    };
    let (read, write, other) = (of(Class::Read), of(Class::Write), of(Class::Other));
    let total = read + write + other;
    let seconds = report.elapsed_ns as f64 / 1e9;
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let ended = report.transactions;
    let ignored = ended.retries + ended.failed;
    let ms = |ns: f64| ns / 1e6;
    let latency = report.latency;
    let of = |value: fn(&Latency) -> f64| latency.as_ref().map_or(0.0, |latency| ms(value(latency)));
    let counts: Vec<f64> = report.by_session.iter().map(|&count| count as f64).collect();
    let times: Vec<f64> = report.busy_by_session_ns.iter().map(|&ns| ns as f64 / 1e9).collect();
    let (events, events_deviation) = mean_and_deviation(&counts);
    let (busy, busy_deviation) = mean_and_deviation(&times);
    write!(
        text,
        "SQL statistics:
    queries performed:
        read:                            {read}
        write:                           {write}
        other:                           {other}
        total:                           {total}
    transactions:                        {:<6} ({:.2} per sec.)
    queries:                             {total:<6} ({:.2} per sec.)
    ignored errors:                      {ignored:<6} ({:.2} per sec.)
    reconnects:                          {:<6} ({:.2} per sec.)

General statistics:
    total time:                          {seconds:.4}s
    total number of events:              {}

Latency (ms):
         min:                            {:>12.2}
         avg:                            {:>12.2}
         max:                            {:>12.2}
         95th percentile:                {:>12.2}
         sum:                            {:>12.2}

Threads fairness:
    events (avg/stddev):           {events:.4}/{events_deviation:.2}
    execution time (avg/stddev):   {busy:.4}/{busy_deviation:.2}

",
        ended.ok,
        rate(ended.ok),
        rate(total),
        rate(ignored),
        report.lost,
        rate(report.lost),
        ended.ok,
        of(|latency| latency.min_ns as f64),
        of(|latency| latency.mean_ns),
        of(|latency| latency.max_ns as f64),
        of(|latency| latency.p95_ns as f64),
        of(|latency| latency.sum_ns as f64),
    )
    .expect("to memory");
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}
