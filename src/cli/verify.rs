//! `verify`: from a result to the traces that it belongs to, then what a person sees of the findings;
//! and with `--db` the comparison of the table with what the log allows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::Verdict;
use super::progress::count_text;
use super::replay::load_trace;
use super::settings::PropertyArgs;
use crate::driver::{self, Driver, Preparation, Rows, Session, TableSpec, Target, Visitor};
use crate::op::{Field, Op, OpKind, Status};
use crate::record::value_hash;
use crate::replay::current_thread_runtime;
use crate::trace::meta::TraceMeta;
use crate::trace::ops::TraceReader;
use crate::trace::runs::RunFile;
use crate::verify::{self, Category, Inputs, LastState, PART_EVENTS, Report};
use crate::workload::Properties;

/// Form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ycsb-trace replay --db postgres workloada --threads 16 --verify
  ycsb-trace verify results/workloada.run-postgres-20260101T000000Z.parquet
  ycsb-trace verify results/workloada.run-postgres-20260101T000000Z.parquet --db postgres --url postgres://…

Exit code 1 says that something is wrong. docs/verification.md says what each category means.")]
pub struct VerifyArgs {
    /// Result of a replay with --verify
    result: PathBuf,
    /// The trace that it replayed [default: looked for by its name]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The load trace whose rows were in the table [default: the one beside the trace]
    #[arg(long, value_name = "FILE")]
    load_trace: Option<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
    /// Events held in memory at once (24 bytes each): fewer means more passes over the files
    #[arg(long, value_name = "N", default_value_t = PART_EVENTS, hide_short_help = true)]
    part_events: u64,
    /// Also compare the table with what the log allows; nothing is written
    #[arg(long, value_name = "NAME")]
    db: Option<String>,
    /// Connection URL; a path for embedded databases
    #[arg(long, requires = "db")]
    url: Option<String>,
    #[command(flatten)]
    properties: PropertyArgs,
    /// Table name (property table), if not the trace's
    #[arg(long, value_name = "NAME", requires = "db")]
    table: Option<String>,
    /// Connections that read the table
    #[arg(long, value_name = "N", default_value_t = 4, requires = "db")]
    threads: u32,
}

/// The trace of a result: the one named, or found by its name, if its content is the one replayed.
fn find_trace(args: &VerifyArgs, result: &RunFile) -> Result<PathBuf> {
    let meta = &result.meta;
    let file = format!("{}.parquet", meta.trace);
    let beside = args.result.parent().unwrap_or(Path::new("."));
    let places = [PathBuf::from("traces"), PathBuf::from("."), beside.join("../traces"), beside.to_owned()];
    let candidates = match &args.trace {
        Some(path) => vec![path.clone()],
        None => places.iter().map(|place| place.join(&file)).filter(|path| path.is_file()).collect(),
    };
    for path in &candidates {
        if TraceReader::open(path)?.meta().content_hash == meta.trace_hash {
            return Ok(path.clone());
        }
    }
    match candidates.first() {
        Some(other) => bail!(
            "{} has other content than the trace that was replayed ({}); name that one with --trace",
            other.display(),
            meta.trace_hash
        ),
        None => bail!("{file} is not here and not in traces/; name it with --trace"),
    }
}

/// `verify`.
pub fn run(args: &VerifyArgs) -> Result<Verdict> {
    let result = RunFile::open(&args.result)?;
    let logged = result.meta.config.contains_key("verify");
    if !logged && args.db.is_none() {
        bail!(
            "{} holds no values that came back: replay with --verify (or compare the table with --db)",
            args.result.display()
        );
    }
    let trace = find_trace(args, &result)?;
    let meta = TraceReader::open(&trace)?.meta().clone();
    if meta.shard.is_some() {
        bail!("{} is a shard: what the others wrote is not in this result", trace.display());
    }
    let load = load_trace(args.load_trace.as_deref(), &trace, &meta)?;
    let inputs = Inputs { result, trace, load, part_events: args.part_events };
    let mut answer = Answer::default();
    if logged {
        let report = verify::verify(&inputs, |done, count| {
            if count > 1 {
                eprintln!("verify: part {done} of {count}");
            }
        })?;
        answer.clean &= report.is_clean();
        answer.history = Some(report);
    }
    if let Some(db) = &args.db {
        let table = driver::dispatch(db, Compare { args, db, inputs: &inputs, trace: &meta })??;
        answer.clean &= table.is_clean();
        answer.table = Some(table);
    }
    match args.format {
        Form::Json => println!("{}", serde_json::to_string_pretty(&answer).expect("plain data")),
        Form::Text => print!("{}", answer.text()),
    }
    Ok(if answer.clean { Verdict::Done } else { Verdict::Refused })
}

/// Everything that was found.
#[derive(Debug, Serialize)]
struct Answer {
    /// Nothing is wrong.
    clean: bool,
    /// What the operations of the run saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Report>,
    /// What the table holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<TableReport>,
}

impl Default for Answer {
    fn default() -> Answer {
        Answer { clean: true, history: None, table: None }
    }
}

/// Findings shown one by one; the JSON has more.
const SHOWN: usize = 20;

impl Answer {
    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(report) = &self.history {
            text += &format!(
                "{} operations, {} values that came back, {} registers: ",
                count_text(report.operations),
                count_text(report.values),
                count_text(report.registers)
            );
            text += if report.is_clean() { "every one can be right\n" } else { "VIOLATIONS\n" };
            for category in Category::ALL {
                if let Some(&count) = report.violations.get(category.name()) {
                    text += &format!("{}: {}\n", category.name(), count_text(count));
                    let named = report.findings.iter().filter(|finding| finding.category == category);
                    for finding in named.take(SHOWN) {
                        let field = finding.field.as_deref().map_or(String::new(), |name| format!(" {name}"));
                        text += &format!(
                            "  operation {}, key {}{field}: {}\n",
                            finding.op_id, finding.key, finding.what
                        );
                    }
                    if count > SHOWN as u64 {
                        text += &format!("  … and {} more\n", count_text(count - SHOWN as u64));
                    }
                }
            }
            for note in &report.notes {
                text += &format!("note: {note}\n");
            }
        }
        if let Some(table) = &self.table {
            text += &format!("table: {} keys, {} rows: ", count_text(table.keys), count_text(table.rows));
            text += if table.is_clean() { "as the confirmed operations allow\n" } else { "VIOLATIONS\n" };
            for (what, count) in &table.violations {
                text += &format!("{what}: {}\n", count_text(*count));
            }
            for finding in table.findings.iter().take(SHOWN) {
                text += &format!("  {finding}\n");
            }
        }
        text
    }
}

/// What the table holds, compared with what it may hold.
#[derive(Debug, Default, Serialize)]
struct TableReport {
    /// Keys of the traces.
    keys: u64,
    /// Rows in the table.
    rows: u64,
    /// What is wrong, with counts.
    violations: BTreeMap<String, u64>,
    /// The first of them.
    findings: Vec<String>,
    #[serde(skip)]
    found: u64,
}

impl TableReport {
    fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    fn add(&mut self, what: &str, finding: String) {
        *self.violations.entry(what.to_owned()).or_default() += 1;
        if self.findings.len() < 100 {
            self.findings.push(finding);
        }
    }

    fn merge(&mut self, other: TableReport) {
        self.keys += other.keys;
        self.found += other.found;
        for (what, count) in other.violations {
            *self.violations.entry(what).or_default() += count;
        }
        self.findings.extend(other.findings);
        self.findings.truncate(100);
    }
}

/// Compares the table of a driver's database.
struct Compare<'a> {
    args: &'a VerifyArgs,
    db: &'a str,
    inputs: &'a Inputs,
    trace: &'a TraceMeta,
}

/// The values of one row, or the keys of many.
#[derive(Default)]
struct Row {
    rows: u64,
    values: Vec<(u32, u64)>,
    last: String,
}

impl Rows for Row {
    fn row(&mut self, key: &str) {
        self.rows += 1;
        self.last.clear();
        self.last.push_str(key);
    }
    fn field(&mut self, number: u32, value: Option<&[u8]>) {
        self.values.push((number, value_hash(value)));
    }
}

impl Visitor for Compare<'_> {
    type Output = Result<TableReport>;

    fn visit<D: Driver>(self) -> Result<TableReport> {
        let mut properties = Properties::new();
        self.args.properties.read_into(&mut properties)?;
        super::settings::report_warnings(properties.warnings(), self.args.properties.strict)?;
        let target = Target {
            db: self.db.to_owned(),
            url: self.args.url.clone(),
            properties: properties
                .iter()
                .map(|(name, setting)| (name.to_owned(), setting.value.trim().to_owned()))
                .collect(),
            sessions: self.args.threads,
            op_timeout: None,
            load_batch: 1,
            seed: self.trace.seed,
        };
        let named = self.args.table.clone().or_else(|| target.property("table").map(str::to_owned));
        let table = TableSpec {
            name: named.unwrap_or_else(|| self.trace.table.clone()),
            fields: self.trace.field_names.clone(),
            field_length: self.trace.field_length,
            shapes: vec![(OpKind::Read, Vec::new())],
        };
        let driver = D::open(&target)?;
        current_thread_runtime()?.block_on(driver.prepare(&table, Preparation::UseExisting))?;
        let mut report = TableReport::default();
        for share in verify::shares(self.inputs)? {
            let states = verify::last_states(self.inputs, share)?;
            let each = states.len().div_ceil(self.args.threads.max(1) as usize).max(1);
            let compared: Vec<Result<TableReport>> = std::thread::scope(|scope| {
                let readers: Vec<_> = states
                    .chunks(each)
                    .zip(0..)
                    .map(|(states, session)| {
                        let (driver, table) = (&driver, &table);
                        scope.spawn(move || {
                            current_thread_runtime()?.block_on(async {
                                let session = driver.connect(table, session).await?;
                                compare(session, table, states).await
                            })
                        })
                    })
                    .collect();
                readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")).collect()
            });
            for part in compared {
                report.merge(part?);
            }
        }
        report.rows = current_thread_runtime()?
            .block_on(async { count_rows(driver.connect(&table, 0).await?, &table).await })?;
        if report.rows > report.found {
            let extra = report.rows - report.found;
            report.violations.insert("row of neither trace".to_owned(), extra);
        }
        Ok(report)
    }
}

/// Reads these rows and compares them.
async fn compare<S: Session>(mut session: S, table: &TableSpec, states: &[LastState]) -> Result<TableReport> {
    let mut report = TableReport { keys: states.len() as u64, ..TableReport::default() };
    for (id, state) in (0..).zip(states) {
        let op = Op { id, kind: OpKind::Read, key: &state.key, fields: &[], scan_len: 0 };
        let mut row = Row::default();
        let outcome = session.read(&op, &mut row).await;
        let key = &state.key;
        match outcome.status {
            Status::Ok => {}
            Status::NotFound => {
                if !state.may_be_absent {
                    report
                        .add("missing row", format!("key {key}: missing, although its insert was confirmed"));
                }
                continue;
            }
            other => bail!(
                "cannot read key {key}: {} {}",
                other.name(),
                outcome.failure.map(|failure| failure.message).unwrap_or_default()
            ),
        }
        report.found += 1;
        if !state.may_be_present {
            report
                .add("row that was deleted", format!("key {key}: there, although its delete was confirmed"));
        }
        for &(field, value) in &row.values {
            let decided = state.allowed.iter().any(|&(known, _)| known == field);
            if decided && state.allowed.binary_search(&(field, value)).is_err() {
                let name = table.fields.get(field as usize).map_or("?", String::as_str);
                report.add(
                    "wrong value",
                    format!(
                        "key {key} {name}: none of the values that can be the last one (hash {value:016x})"
                    ),
                );
            }
        }
    }
    Ok(report)
}

/// Counts the rows of the table, a page at a time.
async fn count_rows<S: Session>(mut session: S, table: &TableSpec) -> Result<u64> {
    const PAGE: u32 = 10_000;
    let first = [Field { number: 0, value: &[] }];
    let fields = if table.fields.is_empty() { &first[..0] } else { &first[..] };
    let mut start = String::new();
    let mut total = 0;
    loop {
        let mut page = Row::default();
        let op = Op { id: 0, kind: OpKind::Scan, key: &start, fields, scan_len: PAGE };
        let outcome = session.scan(&op, &mut page).await;
        if outcome.status != Status::Ok {
            let why = outcome.failure.map(|failure| failure.message).unwrap_or_default();
            bail!("cannot count the rows: {} {why}", outcome.status.name());
        }
        // Every page but the first begins with the last row of the one before.
        total += page.rows - u64::from(!start.is_empty() && page.rows > 0);
        if page.rows < u64::from(PAGE) {
            return Ok(total);
        }
        start = page.last;
    }
}
