//! `ycsb-trace analyze`: which results, which form, where to.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::Verdict;
use super::gate::{self, Gate, Measure, Statistic};
use super::say::note;
use crate::analyze::by::By;
use crate::analyze::pictures::pictures;
use crate::analyze::quantile::Percentile;
use crate::analyze::render::{FORMATS, Page, format, html, transactions as table};
use crate::analyze::report::{OpReport, Report, RunReport};
use crate::analyze::transactions;
use crate::analyze::{DEFAULT_PERCENTILES, Options, Warmup, analyze, hdr, percentiles};

/// Percentiles, rates and errors of one or more results, side by side.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// Result files, or folders of them; NAME=FILE puts a file on the side NAME of a comparison. Load
    /// and run phases are shown apart
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, default_value = "text", value_parser = formats())]
    pub format: String,
    /// Write the report to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite the output file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Percentiles to show [default: 50,90,95,99,99.9,99.99; with --format ycsb 50,95,99]
    #[arg(long, value_name = "LIST", value_parser = percentile_list)]
    pub percentiles: Option<PercentileList>,
    /// Length of the windows of the time series, such as 500ms, 1s or 1m
    #[arg(long, value_name = "D", default_value = "1s", value_parser = duration_ns)]
    pub window: u64,
    /// Group the ops by something else, too; key and size need --trace. txn and statement are for results of
    /// statement traces (oltp_read_write …): a line for each run's transactions, or for each of their
    /// statements, as text, markdown or json
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(By::NAMES.into_iter().chain(BY_TRANSACTION)))]
    pub by: Option<String>,
    /// The trace that was replayed
    #[arg(long, value_name = "FILE", requires = "by")]
    pub trace: Option<PathBuf>,
    /// Leave out the beginning of every run: this long, or `auto` = until it is like the rest
    #[arg(long, value_name = "auto|D|0", default_value = "0", value_parser = warmup)]
    pub warmup: Warmup,
    /// The side that the others are compared with: a label, name, run or file [default: the first]
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<String>,
    /// Differences up to this do not matter: verdicts say equivalent
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = margin)]
    pub margin: f64,
    /// Compare distributions instead of op by op, even those of different traces
    #[arg(long)]
    pub unpaired: bool,
    /// Compare each run with itself, too: whatever differs is a false alarm
    #[arg(long)]
    pub aa: bool,
    /// Read footers only, for thousands of files: those of one trace and database become one run, with
    /// percentiles up to 0.1 % too high and nothing over time
    #[arg(long, conflicts_with_all = ["aa", "warmup", "baseline", "by"])]
    pub footers: bool,
    /// End with exit code 1 if this is true of a run, for instance 'p99(READ) > 5ms'; may be repeated
    #[arg(long, value_name = "CONDITION", value_parser = gate::parse)]
    pub fail_if: Vec<Gate>,
}

fn warmup(text: &str) -> Result<Warmup, String> {
    match text {
        "auto" => Ok(Warmup::Auto),
        "0" => Ok(Warmup::Until(0)),
        length => {
            let complaint =
                |_| format!("{text:?} is neither `auto`, nor 0, nor a length such as 30s, 500ms or 2m");
            duration_ns(length).map(Warmup::Until).map_err(complaint)
        }
    }
}

/// A share such as `3%` or `0.03`.
fn margin(text: &str) -> Result<f64, String> {
    let complaint = || format!("{text:?} is not a margin: give a share below 100 %, such as 3% or 0.03");
    let share: f64 = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| complaint())? / 100.0,
        None => text.trim().parse().map_err(|_| complaint())?,
    };
    if (0.0..1.0).contains(&share) { Ok(share) } else { Err(complaint()) }
}

/// Percentiles as one argument.
#[derive(Debug, Clone)]
pub struct PercentileList(pub Vec<Percentile>);

fn percentile_list(text: &str) -> Result<PercentileList, String> {
    percentiles(text).map(PercentileList)
}

/// What `--by` can be for results of statement traces.
const BY_TRANSACTION: [&str; 2] = ["txn", "statement"];

/// Not a form of the report: it is made of the rows.
const HDR: &str = "hdr";
/// It shows more than the report holds: pictures of the rows.
const HTML: &str = "html";

/// Nor is this one, which knows transactions.
const SYSBENCH: &str = "sysbench";

/// The percentiles of a form when nobody names them.
pub(super) fn default_percentiles(format: &str) -> &'static str {
    if format == "ycsb" { "50,95,99" } else { DEFAULT_PERCENTILES }
}

fn formats() -> PossibleValuesParser {
    let of_reports = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.about));
    let about = "HdrHistogram log (V2) of one run, an interval per window, a tag per op and series";
    let of_rows = [
        PossibleValue::new(HTML).help("one page with charts, which opens without a network"),
        PossibleValue::new(HDR).help(about),
        PossibleValue::new(SYSBENCH).help("transactions as sysbench reports them"),
    ];
    PossibleValuesParser::new(of_reports.chain(of_rows))
}

/// A duration with its unit, in nanoseconds; not 0.
fn duration_ns(text: &str) -> Result<u64, String> {
    let complaint =
        || format!("{text:?} is not a duration: give a number and a unit, such as 500ms, 1s or 1m");
    let unit = text.find(|one: char| one.is_ascii_alphabetic()).ok_or_else(complaint)?;
    let (number, unit) = text.split_at(unit);
    let unit_ns = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return Err(complaint()),
    };
    let number: f64 = number.trim().parse().map_err(|_| complaint())?;
    let ns = (number * unit_ns).round();
    if (1.0..=1e18).contains(&ns) { Ok(ns as u64) } else { Err(complaint()) }
}

/// Analyses, and prints or writes the report.
pub fn run(args: &AnalyzeArgs) -> Result<Verdict> {
    let percentiles = match &args.percentiles {
        Some(list) => list.0.clone(),
        None => percentiles(default_percentiles(&args.format)).expect("the defaults are valid"),
    };
    let mut options = Options {
        percentiles,
        window_ns: args.window,
        warmup: args.warmup,
        margin: args.margin,
        baseline: args.baseline.clone(),
        unpaired: args.unpaired,
        self_check: args.aa,
        by: args
            .by
            .as_deref()
            .filter(|name| !BY_TRANSACTION.contains(name))
            .map(|name| By::new(name, args.trace.as_deref()))
            .transpose()?,
        footers: args.footers,
    };
    // A gate is judged by exact numbers, so what it asks about is in the report.
    for asked in args.fail_if.iter().filter_map(asked_percentile) {
        let percentile: Percentile = asked.parse().map_err(anyhow::Error::msg)?;
        if !options.percentiles.contains(&percentile) {
            options.percentiles.push(percentile);
        }
    }
    if let Some(output) = &args.output
        && !args.force
        && output.exists()
    {
        anyhow::bail!(
            "{} exists already; choose another name, or overwrite it with --force",
            output.display()
        );
    }
    let mut verdict = Verdict::Done;
    let mut judged = || -> Result<Report> {
        let report = analyze(&args.results, &options)?;
        for refusal in refusals(&args.fail_if, &report) {
            note!("{refusal}");
            verdict = Verdict::Refused;
        }
        Ok(report)
    };
    let of_transactions = args.by.as_deref().is_some_and(|by| BY_TRANSACTION.contains(&by));
    let mut text = |page: Page| match format(&args.format) {
        _ if of_transactions || args.format == SYSBENCH => {
            // Gates are about statements, in whatever form the report is.
            if !args.fail_if.is_empty() {
                judged()?;
            }
            by_transaction(args, page)
        }
        Some(format) => judged().map(|report| (format.render)(&report, page)),
        None if args.format == HTML => {
            let report = judged()?;
            Ok(html::render(&report, &pictures(&report)?))
        }
        None => {
            if !args.fail_if.is_empty() {
                judged()?;
            }
            hdr::log(&args.results, options.window_ns)
        }
    };
    match &args.output {
        None => {
            // The width of the terminal; what goes into a pipe or file is read at 100 columns.
            let width = comfy_table::Table::new().width().unwrap_or(100);
            let text = text(Page { width: Some(width) })?;
            match std::io::stdout().lock().write_all(text.as_bytes()) {
                // The reader of a pipe may have seen enough.
                Err(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => {}
                other => other.context("cannot write to standard output")?,
            }
        }
        Some(output) => {
            let text = text(Page::default())?;
            write(output, args.force, &text).with_context(|| format!("cannot write {}", output.display()))?;
        }
    }
    Ok(verdict)
}

/// The percentile that a gate asks for, as people write it.
fn asked_percentile(gate: &Gate) -> Option<String> {
    match gate.measure {
        Measure::Latency { statistic: Statistic::Quantile(quantile), .. } => {
            Some(((quantile * 1e8).round() / 1e6).to_string())
        }
        _ => None,
    }
}

/// What the gates say about each run.
fn refusals(gates: &[Gate], report: &Report) -> Vec<String> {
    let of_run = |gate: &Gate, run: &RunReport| {
        let op = match gate.kind {
            None => Some(&run.all),
            Some(kind) => run.ops.get(kind.name()).and_then(Option::as_ref),
        };
        let counts = op.map_or((0, 0), |op| (op.failed, op.ops));
        let value = op.filter(|op| op.ops > 0).and_then(|op| measured(gate, op));
        let refusal = gate.judge(value, counts)?;
        Some(if report.runs.len() > 1 { format!("{}: {refusal}", run.label) } else { refusal })
    };
    gates.iter().flat_map(|gate| report.runs.iter().filter_map(move |run| of_run(gate, run))).collect()
}

/// The exact number that a gate asks for, of the operations that ended OK; never answered is infinite.
fn measured(gate: &Gate, op: &OpReport) -> Option<f64> {
    match gate.measure {
        Measure::Latency { statistic, series } => {
            let (_, both) = op.series().into_iter().find(|(name, _)| *name == series)?;
            let ns = match statistic {
                Statistic::Mean => both.ok.mean_ns,
                Statistic::Max => both.ok.max_ns,
                Statistic::Quantile(_) => {
                    both.ok.percentiles.get(&asked_percentile(gate)?).copied().flatten()?.value_ns
                }
            };
            ns.map(|ns| ns as f64)
        }
        Measure::Rate => op.ops_per_second,
        Measure::Errors => Some(op.error_rate),
    }
}

/// The forms of statement traces.
fn by_transaction(args: &AnalyzeArgs, page: Page) -> Result<String> {
    let by = match args.by.as_deref() {
        Some("statement") => table::By::Statement,
        _ => table::By::Txn,
    };
    let without_effect = [
        ("--percentiles", args.percentiles.is_some()),
        ("--warmup", args.warmup != Warmup::Until(0)),
        ("--baseline", args.baseline.is_some()),
        ("--unpaired", args.unpaired),
        ("--aa", args.aa),
        ("--footers", args.footers),
        ("--trace", args.trace.is_some()),
    ];
    if let Some((flag, _)) = without_effect.iter().find(|(_, given)| *given) {
        let asked = args.by.as_ref().map_or("--format sysbench".to_owned(), |by| format!("--by {by}"));
        anyhow::bail!("{flag} has no effect on the tables of transactions; leave it or {asked} out");
    }
    let known = ["text", "markdown", "json", SYSBENCH];
    if !known.contains(&args.format.as_str()) {
        anyhow::bail!("--by has the formats {}, not {}", known.join(", "), args.format);
    }
    let reports = transactions::analyze(&args.results)?;
    Ok(match args.format.as_str() {
        SYSBENCH => table::sysbench(&reports),
        "json" => serde_json::to_string_pretty(&reports).expect("a report is plain data") + "\n",
        "markdown" => table::markdown(&reports, by),
        _ => table::text(&reports, by, page),
    })
}

fn write(output: &std::path::Path, force: bool, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    options.open(output)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: AnalyzeArgs,
    }

    #[test]
    fn arguments_are_checked() {
        let parse = |arguments: &[&str]| Command::try_parse_from([&["analyze"], arguments].concat());
        let args = parse(&["a.parquet"]).expect("one result is enough").args;
        assert_eq!(
            (args.format.as_str(), args.window, args.percentiles.is_none()),
            ("text", 1_000_000_000, true)
        );
        let complaint = |arguments: &[&str]| parse(arguments).expect_err("must be refused").to_string();
        assert!(complaint(&[]).contains("<RESULT>"));
        assert!(
            complaint(&["a", "--format", "pdf"])
                .contains("[possible values: text, markdown, json, ycsb, go-ycsb, csv, html, hdr, sysbench]")
        );
        assert!(complaint(&["a", "--percentiles", "50,101"]).contains("\"101\" is not a percentile"));
        assert!(complaint(&["a", "--window", "0s"]).contains("is not a duration"));
        assert!(complaint(&["a", "--window", "5"]).contains("is not a duration"));
        assert!(complaint(&["a", "--warmup", "long"]).contains("is neither `auto`"));
        assert!(complaint(&["a", "--margin", "100%"]).contains("is not a margin"));
        assert!(complaint(&["a", "--fail-if", "p99(REED) > 5ms"]).contains("this is no operation"));
        let args = parse(&["a", "--warmup", "auto", "--margin", "5 %"]).expect("valid").args;
        assert_eq!((args.warmup, args.margin), (Warmup::Auto, 0.05));
        assert_eq!(parse(&["a", "--window", "1.5m"]).expect("valid").args.window, 90_000_000_000);
    }
}
