//! go-ycsb's own report, for scripts that parse it: `READ   - Takes(s): 2.5, Count: 2500, OPS: 999.8, …`.
//!
//! `TOTAL` is every request that ended OK: a read-modify-write counts there as its read and its update.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Page;
use super::ycsb::{Measured, measured};
use crate::analyze::report::{Report, RunReport, Summary};

/// go-ycsb's line between the parts of its output.
pub const RULE: &str = "**********************************************";

pub(super) fn render(report: &Report, _page: Page) -> String {
    let mut out = String::new();
    for run in &report.runs {
        if report.runs.len() > 1 {
            writeln!(out, "# {}", run.run_id).expect("writing to a string");
        }
        writeln!(out, "{RULE}\nRun finished, takes {}", go_duration(run.elapsed_ns))
            .expect("writing to a string");
        let lines = lines(run);
        match run.config.get("outputstyle").map(|style| style.trim()) {
            Some("json") => out += &json(&lines),
            Some("table") => out += &table(&lines),
            _ => lines.iter().for_each(|line| out += &line.plain()),
        }
    }
    out
}

/// One operation of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// READ, READ_ERROR, TOTAL, …
    pub name: String,
    /// Seconds it was observed.
    pub takes_s: f64,
    /// How many.
    pub count: u64,
    /// Mean, smallest, largest, µs.
    pub avg_min_max_us: [u64; 3],
    /// Percentile → µs.
    pub percentiles_us: Vec<(String, u64)>,
}

impl Line {
    fn of(name: &str, takes_ns: u64, summary: &Summary) -> Line {
        let us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
        let percentiles = summary.percentiles.0.iter();
        Line {
            name: name.to_owned(),
            takes_s: takes_ns as f64 / 1e9,
            count: summary.count,
            avg_min_max_us: [summary.mean_ns, summary.min_ns, summary.max_ns].map(us),
            percentiles_us: percentiles
                .map(|(text, quantile)| (text.clone(), us(quantile.and_then(|quantile| quantile.value_ns))))
                .collect(),
        }
    }

    /// Column → text, in the order of go-ycsb.
    fn columns(&self) -> Vec<(String, String)> {
        let ops = if self.takes_s > 0.0 { self.count as f64 / self.takes_s } else { 0.0 };
        let [avg, min, max] = self.avg_min_max_us;
        let mut columns = vec![
            ("Takes(s)".to_owned(), format!("{:.1}", self.takes_s)),
            ("Count".to_owned(), self.count.to_string()),
            ("OPS".to_owned(), format!("{ops:.1}")),
            ("Avg(us)".to_owned(), avg.to_string()),
            ("Min(us)".to_owned(), min.to_string()),
            ("Max(us)".to_owned(), max.to_string()),
        ];
        columns
            .extend(self.percentiles_us.iter().map(|(text, us)| (format!("{text}th(us)"), us.to_string())));
        columns
    }

    /// The line as `outputstyle=plain` has it, with its line feed.
    pub fn plain(&self) -> String {
        let columns: Vec<_> =
            self.columns().into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("{:<6} - {}\n", self.name, columns.join(", "))
    }
}

fn lines(run: &RunReport) -> Vec<Line> {
    let mut lines = Vec::new();
    let total = run.requests.as_ref().map_or(&run.all.service.ok, |requests| &requests.all);
    if total.count > 0 {
        lines.push(Line::of("TOTAL", run.span_ns, total));
    }
    for Measured { name, service, failures, failed_service, .. } in measured(run) {
        if service.count > 0 {
            lines.push(Line::of(name, run.span_ns, service));
        }
        if failures > 0 {
            let mut line = match failed_service {
                Some(failed) => Line::of("", run.span_ns, failed),
                None => Line { percentiles_us: Vec::new(), ..Line::of("", run.span_ns, service) },
            };
            line.name = format!("{name}_ERROR");
            line.count = failures;
            lines.push(line);
        }
    }
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    lines
}

/// One line: an array of objects whose values are all texts and whose keys are sorted.
fn json(lines: &[Line]) -> String {
    let object = |line: &Line| {
        let mut object: BTreeMap<String, String> = line.columns().into_iter().collect();
        object.insert("Operation".to_owned(), line.name.clone());
        object
    };
    let objects: Vec<_> = lines.iter().map(object).collect();
    serde_json::to_string(&objects).expect("texts are JSON") + "\n"
}

fn table(lines: &[Line]) -> String {
    let Some(first) = lines.first() else { return String::new() };
    let columns = first.columns();
    let mut rows: Vec<Vec<String>> = vec![
        std::iter::once("OPERATION".to_owned())
            .chain(columns.iter().map(|(name, _)| name.to_uppercase()))
            .collect(),
    ];
    for line in lines {
        rows.push(
            std::iter::once(line.name.clone())
                .chain(line.columns().into_iter().map(|(_, value)| value))
                .collect(),
        );
    }
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let rule: String =
        widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect::<String>() + "+\n";
    let mut out = rule.clone();
    for (number, row) in rows.iter().enumerate() {
        for (column, width) in widths.iter().enumerate() {
            let text = row.get(column).map_or("", String::as_str);
            // Titles are centred, with the odd blank on the right; names stand left, numbers right.
            let text = match (number, column) {
                (0, _) => format!("{text:^width$}"),
                (_, 0) => format!("{text:<width$}"),
                _ => format!("{text:>width$}"),
            };
            write!(out, "| {text} ").expect("writing to a string");
        }
        out += "|\n";
        if number == 0 {
            out += &rule;
        }
    }
    out + &rule
}

/// Go's way to print a duration: `548.455µs`, `2.504130905s`, `1m2.5s`.
pub fn go_duration(ns: u64) -> String {
    let decimal = |value: u64, unit_ns: u64| {
        let rest = format!("{:0width$}", value % unit_ns, width = unit_ns.ilog10() as usize);
        let rest = rest.trim_end_matches('0');
        let dot = if rest.is_empty() { "" } else { "." };
        format!("{}{dot}{rest}", value / unit_ns)
    };
    match ns {
        0 => "0s".to_owned(),
        1..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}µs", decimal(ns, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(ns, 1_000_000)),
        _ => {
            let minutes = ns / 60_000_000_000;
            let seconds = decimal(ns % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_look_as_go_writes_them() {
        for (ns, text) in [
            (0, "0s"),
            (999, "999ns"),
            (548_455, "548.455µs"),
            (9_547_200, "9.5472ms"),
            (2_504_130_905, "2.504130905s"),
            (2_000_000_000, "2s"),
            (62_500_000_000, "1m2.5s"),
            (3_600_000_000_000, "1h0m0s"),
        ] {
            assert_eq!(go_duration(ns), text);
        }
    }

    #[test]
    fn a_line_is_go_ycsbs_line() {
        let percentiles = ["50", "90", "95", "99", "99.9", "99.99"];
        let values = [1099, 2237, 2277, 4279, 7907, 9383];
        let line = Line {
            name: "READ".to_owned(),
            takes_s: 2.5005,
            count: 2500,
            avg_min_max_us: [1125, 0, 9383],
            percentiles_us: percentiles.map(str::to_owned).into_iter().zip(values).collect(),
        };
        assert_eq!(
            line.plain(),
            "READ   - Takes(s): 2.5, Count: 2500, OPS: 999.8, Avg(us): 1125, Min(us): 0, Max(us): 9383, 50th(us): 1099, \
             90th(us): 2237, 95th(us): 2277, 99th(us): 4279, 99.9th(us): 7907, 99.99th(us): 9383\n"
        );
        let table = table(std::slice::from_ref(&line));
        assert!(table.starts_with("+-----------+----------+-------+-------+---------+"), "{table}");
        assert!(table.contains("\n| OPERATION | TAKES(S) | COUNT |  OPS  | AVG(US) |"), "{table}");
        assert!(table.contains("\n| READ      |      2.5 |  2500 | 999.8 |    1125 |"), "{table}");
        assert!(
            json(&[line])
                .starts_with(r#"[{"50th(us)":"1099","90th(us)":"2237","95th(us)":"2277","99.99th(us)""#)
        );
    }
}
