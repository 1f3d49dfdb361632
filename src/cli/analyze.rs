//! `ycsb-trace analyze`: which results, which form, where to.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::analyze::pictures::pictures;
use crate::analyze::quantile::Percentile;
use crate::analyze::render::{FORMATS, Page, format, html, transactions as table};
use crate::analyze::transactions;
use crate::analyze::{DEFAULT_PERCENTILES, Options, analyze, hdr, percentiles};

/// Percentiles, rates and errors of one or more results, side by side.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// Result files, or folders of them. Load and run phases are shown apart
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
    /// Of statement traces (oltp_read_write …): a line for each run's transactions, or for each of their
    /// statements with its share of the time, as text, markdown or json
    #[arg(long, value_name = "WHAT", value_parser = ["txn", "statement"])]
    pub by: Option<String>,
    /// Percentiles to show
    #[arg(long, value_name = "LIST", default_value = DEFAULT_PERCENTILES, value_parser = percentile_list)]
    pub percentiles: PercentileList,
    /// Length of the windows of the time series, such as 500ms, 1s or 1m
    #[arg(long, value_name = "D", default_value = "1s", value_parser = duration_ns)]
    pub window: u64,
}

/// Percentiles as one argument.
#[derive(Debug, Clone)]
pub struct PercentileList(pub Vec<Percentile>);

fn percentile_list(text: &str) -> Result<PercentileList, String> {
    percentiles(text).map(PercentileList)
}

/// Not a form of the report: it is made of the rows.
const HDR: &str = "hdr";
/// It shows more than the report holds: pictures of the rows.
const HTML: &str = "html";

/// Nor is this one, which knows transactions.
const SYSBENCH: &str = "sysbench";

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
pub fn run(args: &AnalyzeArgs) -> Result<()> {
    let options = Options { percentiles: args.percentiles.0.clone(), window_ns: args.window };
    if let Some(output) = &args.output
        && !args.force
        && output.exists()
    {
        anyhow::bail!(
            "{} exists already; choose another name, or overwrite it with --force",
            output.display()
        );
    }
    let text = |page: Page| match format(&args.format) {
        _ if args.by.is_some() || args.format == SYSBENCH => by_transaction(args),
        Some(format) => analyze(&args.results, &options).map(|report| (format.render)(&report, page)),
        None if args.format == HTML => {
            let report = analyze(&args.results, &options)?;
            Ok(html::render(&report, &pictures(&report)?))
        }
        None => hdr::log(&args.results, options.window_ns),
    };
    match &args.output {
        None => {
            // The width of the terminal; what goes into a pipe or file is read at 100 columns.
            let width = comfy_table::Table::new().width().unwrap_or(100);
            let text = text(Page { width: Some(width) })?;
            match std::io::stdout().lock().write_all(text.as_bytes()) {
                // The reader of a pipe may have seen enough.
                Err(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
                other => other.context("cannot write to standard output"),
            }
        }
        Some(output) => {
            let text = text(Page::default())?;
            write(output, args.force, &text).with_context(|| format!("cannot write {}", output.display()))
        }
    }
}

/// The forms of statement traces.
fn by_transaction(args: &AnalyzeArgs) -> Result<String> {
    let by = if args.by.as_deref() == Some("statement") { table::By::Statement } else { table::By::Txn };
    let known = ["text", "markdown", "json", SYSBENCH];
    if !known.contains(&args.format.as_str()) {
        anyhow::bail!("--by has the formats {}, not {}", known.join(", "), args.format);
    }
    let reports = transactions::analyze(&args.results)?;
    Ok(match args.format.as_str() {
        SYSBENCH => table::sysbench(&reports),
        "json" => serde_json::to_string_pretty(&reports).expect("a report is plain data") + "\n",
        format => table::tables(&reports, by, format == "markdown"),
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
        assert_eq!((args.format.as_str(), args.window, args.percentiles.0.len()), ("text", 1_000_000_000, 6));
        let complaint = |arguments: &[&str]| parse(arguments).expect_err("must be refused").to_string();
        assert!(complaint(&[]).contains("<RESULT>"));
        assert!(
            complaint(&["a", "--format", "pdf"])
                .contains("[possible values: text, markdown, json, csv, html, hdr, sysbench]")
        );
        assert!(complaint(&["a", "--percentiles", "50,101"]).contains("\"101\" is not a percentile"));
        assert!(complaint(&["a", "--window", "0s"]).contains("is not a duration"));
        assert!(complaint(&["a", "--window", "5"]).contains("is not a duration"));
        assert_eq!(parse(&["a", "--window", "1.5m"]).expect("valid").args.window, 90_000_000_000);
    }
}
