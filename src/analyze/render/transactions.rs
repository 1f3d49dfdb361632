//! Transactions as tables, and as sysbench reports them.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::units::{duration, grouped, rate};
use super::{Page, text};
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

/// A line for each run, or for each of its statements.
struct Lines {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Columns that say what a line is about.
    names: usize,
    /// Columns that may be the same in every line.
    may_be_alike: std::ops::Range<usize>,
    meaning: &'static str,
}

/// The tables as Markdown: always the same columns.
pub fn markdown(reports: &[TransactionReport], by: By) -> String {
    let lines = lines(reports, by);
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(&lines.head);
    table.add_rows(&lines.rows);
    for column in table.column_iter_mut().skip(lines.names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{}\n\n{}\n", text.join("\n"), lines.meaning)
}

/// The tables for a terminal: what is the same in every line is said once, above them.
pub fn text(reports: &[TransactionReport], by: By, page: Page) -> String {
    let lines = lines(reports, by);
    let alike = |column: usize| {
        lines.may_be_alike.contains(&column)
            && lines.rows.len() > 1
            && lines.rows.iter().all(|row| row[column] == lines.rows[0][column])
    };
    // Runs that differ in nothing keep a name.
    let named = |column: usize| column + 1 == lines.names && (0..lines.names).all(alike);
    let (said, kept): (Vec<usize>, Vec<usize>) =
        (0..lines.head.len()).partition(|&column| alike(column) && !named(column));
    let mut out = String::new();
    if !said.is_empty() {
        let said = said.iter().map(|&column| format!("{}: {}", lines.head[column], lines.rows[0][column]));
        out.push_str(&text::wrapped(&said.collect::<Vec<_>>().join(" · "), page.width, "", "  "));
    }
    // The names that are left are one column.
    let shown = |cell: &dyn Fn(usize) -> String| -> Vec<String> {
        let names: Vec<String> =
            kept.iter().filter(|&&column| column < lines.names).map(|&one| cell(one)).collect();
        let numbers = kept.iter().filter(|&&column| column >= lines.names).map(|&one| cell(one));
        std::iter::once(names.join(" ")).chain(numbers).collect()
    };
    // The shorter word, so that a line of them all has 100 characters.
    let head = shown(&|column| lines.head[column].replace("transactions/s", "txn/s"));
    let rows: Vec<Vec<String>> = lines.rows.iter().map(|row| shown(&|column| row[column].clone())).collect();
    out.push_str(&text::table(&head, &rows, page));
    out.push('\n');
    out + &text::wrapped(lines.meaning, page.width, "", "  ")
}

fn lines(reports: &[TransactionReport], by: By) -> Lines {
    let latencies = ["min", "avg", "p50", "p95", "p99", "max"];
    let first: &[&str] = match by {
        By::Txn => &["test", "database", "sessions", "transactions", "failed", "retries", "transactions/s"],
        By::Statement => &["test", "database", "statement", "sent", "failed", "share of time"],
    };
    let mut rows = Vec::new();
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
            row.push(rate(Some(report.per_second)));
            row.extend(cells(report.latency.as_ref()));
            rows.push(row);
            continue;
        }
        for statement in &report.statements {
            let mut row = head.to_vec();
            row.push(statement.name.clone());
            row.extend([statement.sent, statement.ops - statement.ok].map(grouped));
            row.push(format!("{:.1} %", statement.share * 100.0));
            row.extend(cells(statement.service.as_ref()));
            rows.push(row);
        }
    }
    Lines {
        head: first.iter().chain(&latencies).copied().collect(),
        rows,
        names: if by == By::Txn { 2 } else { 3 },
        may_be_alike: if by == By::Txn { 0..6 } else { 0..2 },
        meaning: match by {
            By::Txn => {
                "A transaction's latency = end of its last statement − intended start of its first, retries included."
            }
            By::Statement => {
                "A statement's latency = end − start; failed ones, and those never sent after them, have none."
            }
        },
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::transactions::StatementReport;
    use crate::trace::meta::TransactionsMeta;

    fn latency(ms: u64) -> Option<Latency> {
        let ns = ms * 1_000_000;
        Some(Latency {
            count: 1000,
            sum_ns: 1000 * ns,
            min_ns: ns / 2,
            mean_ns: ns as f64,
            p50_ns: ns,
            p95_ns: 2 * ns,
            p99_ns: 3 * ns,
            max_ns: 9 * ns,
        })
    }

    fn run(test: &str, db: &str, failed: u64) -> TransactionReport {
        let statement = |name: &str, class: Class, share: f64, ok: u64| StatementReport {
            name: name.to_owned(),
            class,
            ops: 1000,
            ok,
            sent: 1000,
            share,
            service: latency(1),
        };
        TransactionReport {
            path: format!("{test}-{db}.parquet"),
            test: test.to_owned(),
            phase: Phase::Run,
            db: db.to_owned(),
            version: "1".to_owned(),
            sessions: 16,
            elapsed_ns: 2_000_000_000,
            complete: true,
            transactions: TransactionsMeta { planned: 1000, ok: 1000 - failed, failed, retries: 7 },
            per_second: (1000 - failed) as f64 / 2.0,
            latency: latency(12),
            statements: vec![
                statement("BEGIN", Class::Other, 0.0625, 1000),
                statement("point_select", Class::Read, 0.9375, 1000 - failed),
            ],
            lost: 0,
            by_session: vec![500, 500 - failed],
            busy_by_session_ns: vec![1_000_000_000, 900_000_000],
        }
    }

    const MEANING: &str = "A transaction's latency = end of its last statement − intended start of its first, retries included.";

    #[test]
    fn what_all_lines_share_is_said_once_and_the_table_fits_the_terminal() {
        let suite = [run("oltp_read_only", "postgres", 0), run("oltp_write_only", "postgres", 0)];
        let expected = "\
database: postgres · sessions: 16 · transactions: 1,000 · failed: 0 · retries: 7
+------------------------------------------------------------------------------------+
| test              txn/s       min       avg       p50       p95       p99      max |
+====================================================================================+
| oltp_read_only      500   6.00 ms   12.0 ms   12.0 ms   24.0 ms   36.0 ms   108 ms |
| oltp_write_only     500   6.00 ms   12.0 ms   12.0 ms   24.0 ms   36.0 ms   108 ms |
+------------------------------------------------------------------------------------+
";
        assert_eq!(text(&suite, By::Txn, Page { width: Some(100) }), format!("{expected}{MEANING}\n"));
        let both = [run("oltp_read_only", "postgres", 0), run("oltp_read_only", "mariadb", 5)];
        let expected = "\
test: oltp_read_only
+-----------------------------------------------------------------+
| database statement       sent   failed   share of time      min |
+=================================================================+
| mariadb BEGIN           1,000        0           6.2 %   500 µs |
| mariadb point_select    1,000        5          93.8 %   500 µs |
| postgres BEGIN          1,000        0           6.2 %   500 µs |
| postgres point_select   1,000        0          93.8 %   500 µs |
+-----------------------------------------------------------------+
+-------------------------------------------------------------------------+
| database statement          avg       p50       p95       p99       max |
";
        let shown = text(&both, By::Statement, Page { width: Some(100) });
        assert!(shown.starts_with(expected), "{shown}");
        // Runs that differ in nothing keep a name; a single one keeps every column.
        let twice = text(&[both[0].clone(), both[0].clone()], By::Txn, Page { width: None });
        assert!(twice.contains("\n| database   txn/s "), "{twice}");
        let one = text(&both[..1], By::Txn, Page { width: None });
        assert!(one.contains("| test database             sessions   transactions   failed "), "{one}");
    }

    #[test]
    fn markdown_has_every_column_always() {
        let suite = [run("oltp_read_only", "postgres", 0), run("oltp_write_only", "postgres", 0)];
        let expected = "\
| test            | database | sessions | transactions | failed | retries | transactions/s |     min |     avg |     p50 |     p95 |     p99 |    max |
|-----------------|----------|----------|--------------|--------|---------|----------------|---------|---------|---------|---------|---------|--------|
| oltp_read_only  | postgres |       16 |        1,000 |      0 |       7 |            500 | 6.00 ms | 12.0 ms | 12.0 ms | 24.0 ms | 36.0 ms | 108 ms |
| oltp_write_only | postgres |       16 |        1,000 |      0 |       7 |            500 | 6.00 ms | 12.0 ms | 12.0 ms | 24.0 ms | 36.0 ms | 108 ms |
";
        assert_eq!(markdown(&suite, By::Txn), format!("{expected}\n{MEANING}\n"));
    }

    #[test]
    fn sysbenchs_report_is_that_of_sysbench() {
        let expected = "\
SQL statistics:
    queries performed:
        read:                            1000
        write:                           0
        other:                           1000
        total:                           2000
    transactions:                        995    (497.50 per sec.)
    queries:                             2000   (1000.00 per sec.)
    ignored errors:                      12     (6.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          2.0000s
    total number of events:              995

Latency (ms):
         min:                                    6.00
         avg:                                   12.00
         max:                                  108.00
         95th percentile:                       24.00
         sum:                                12000.00

Threads fairness:
    events (avg/stddev):           497.5000/2.50
    execution time (avg/stddev):   0.9500/0.05

";
        assert_eq!(sysbench(&[run("oltp_read_only", "postgres", 5)]), expected);
        let both = [run("oltp_read_only", "postgres", 5), run("oltp_read_only", "mariadb", 0)];
        assert!(
            sysbench(&both)
                .contains("\noltp_read_only on mariadb (oltp_read_only-mariadb.parquet)\nSQL statistics:")
        );
    }
}
