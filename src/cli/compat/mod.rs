//! `load` and `run`: the command lines that people have, of YCSB and of go-ycsb. Each is `gen` of that
//! phase, `replay` and the report of that tool on standard output; what we say ourselves is on standard
//! error, and the trace and the result are kept.

mod status;
mod theirs;
pub mod words;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::theirs::Form;
use super::analyze::default_percentiles;
use super::parse_duration;
use super::progress::{PLAIN_INTERVAL, Progress, count_text};
use super::replay::{self, Narrator};
use super::say::{note, say};
use super::settings::{PropertyArgs, redacted, report_warnings};
use super::{Cli, Command, Verdict};
use crate::analyze::render::go_ycsb::RULE;
use crate::analyze::render::{self, FormatRow, Page};
use crate::analyze::{Options, analyze, percentiles};
use crate::driver::{self, ServerInfo, TargetError};
use crate::generate::{self, GenPlan, ValueMode};
use crate::replay::recorder::Snapshot;
use crate::replay::{Finished, ReplayPlan};
use crate::trace::meta::{Phase, TraceMeta};
use crate::workload::{Properties, WorkloadSpec, builtin, visible};

/// Arguments of `load` and `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ycsb-trace load cockroach -P workloads/workloadd --threads 96 -p pg.host=10.0.0.1 -p pg.port=26257 \\
      -p pg.user=root -p pg.db=test -p pg.sslmode=disable -p dropdata=true
  ycsb-trace run jdbc -s -P workloads/workloada -P herd.properties -cp herddb-jdbc-0.29.0.jar -threads 200

The options with one dash are YCSB's, the others go-ycsb's; the report on standard output is that of the
tool whose command line it is. docs/reference-benchmarks.md shows both beside each other.")]
pub struct CompatArgs {
    /// Database, by the name in either tool: see `ycsb-trace databases`
    db: Option<String>,
    /// YCSB's binding class (-db)
    #[arg(long, hide = true)]
    class: Option<String>,
    #[command(flatten)]
    properties: PropertyArgs,
    /// Connections (-threads; property threadcount)
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Operations per second (-target; property target)
    #[arg(long, value_name = "R")]
    target: Option<f64>,
    /// Seconds between go-ycsb's progress lines (property measurement.interval)
    #[arg(long, value_name = "S")]
    interval: Option<u64>,
    /// Table name (property table)
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// YCSB's progress lines (-s; property status)
    #[arg(long)]
    status: bool,
    /// Text at the beginning of those (-l; property label)
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// JDBC drivers (-cp; property jdbc.classpath)
    #[arg(long, value_name = "JARS")]
    cp: Vec<String>,
    /// Options of the Java virtual machine (-jvm-args; property jdbc.jvmargs)
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    jvm_args: Option<String>,
    /// Connection URL, instead of properties
    #[arg(long)]
    url: Option<String>,
    /// Remove the table first (property dropdata)
    #[arg(long)]
    drop: bool,
    /// Tries after the first (property core_workload_insertion_retry_limit, when loading)
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Give an operation up after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    op_timeout: Option<Duration>,
    /// Seed of the operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Form of the report: any of `analyze --format` [default: that of the tool]
    #[arg(long, value_name = "FORMAT")]
    report: Option<String>,
    /// Folder for the trace
    #[arg(long, value_name = "DIR", default_value = "traces")]
    traces: PathBuf,
    /// Folder for the result
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Whose command line it is, by its dashes
    #[arg(long, value_enum, hide = true)]
    form: Option<Form>,
}

/// `load` and `run`.
pub fn run(args: &CompatArgs, phase: Phase) -> Result<Verdict> {
    let Some(named) = args.class.as_ref().or(args.db.as_ref()) else {
        bail!(
            "which database? Name one, for instance `ycsb-trace {} pg -P workloads/workloada`",
            phase.name()
        )
    };
    let db = theirs::database(named);
    let Some(kind) = driver::kinds().find(|kind| kind.names.contains(&db)) else {
        let known: Vec<_> = driver::kinds().map(|kind| kind.names[0]).collect();
        let message = format!("no database is called {named:?}; there are {}", known.join(", "));
        return Err(TargetError::Request(message).into());
    };
    let (form, given) = understand(args, db, phase)?;
    let mut properties = Properties::new();
    given.read_into(&mut properties)?;
    let report = match args.report.as_deref().map(|name| (name, render::format(name))) {
        None => render::format(form.report()).expect("both are in the table"),
        Some((_, Some(format))) => format,
        Some((name, None)) => {
            let known: Vec<_> = render::FORMATS.iter().map(|format| format.name).collect();
            bail!("--report {name}: there is no such form; choose one of {}", known.join(", "))
        }
    };
    let (spec, warnings) = WorkloadSpec::from_properties(
        &workload_name(&given),
        &properties,
        phase == Phase::Load,
        phase == Phase::Run,
    )?;
    // What is wrong with the files themselves is said by the replay.
    let warnings: Vec<_> =
        warnings.into_iter().filter(|warning| !properties.warnings().contains(warning)).collect();
    let (load_batch, sentence) = theirs::load_batch(&properties, db, phase, spec.field_count as usize + 1)?;
    for sentence in theirs::without_effect(&properties, kind, load_batch > 1).into_iter().chain(sentence) {
        note!("warning: {sentence}");
    }
    report_warnings(&warnings, args.properties.strict)?;
    let stop = Arc::new(AtomicBool::new(false));
    let Some(trace) = trace(args, spec.clone(), phase, &stop)? else { return Ok(Verdict::Interrupted) };

    let text = |name: &str| properties.get(name).map(|setting| setting.value.trim().to_owned());
    let is_true = |name: &str| text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let seconds = |name: &str| text(name).and_then(|value| value.parse::<u64>().ok()).filter(|&s| s > 0);
    let status = args.status || is_true("status");
    let interval_s = match form {
        Form::Ycsb if status => seconds("status.interval").unwrap_or(10),
        Form::Ycsb => PLAIN_INTERVAL.as_secs(),
        Form::GoYcsb => args.interval.or_else(|| seconds("measurement.interval")).unwrap_or(10).max(1),
    };
    let mut command = vec!["ycsb-trace".to_owned(), "replay".to_owned(), "--db".to_owned(), db.to_owned()];
    command.push(trace.display().to_string());
    command.extend(["--phase".to_owned(), phase.name().to_owned()]);
    command.extend(["--interval".to_owned(), format!("{interval_s}s")]);
    command.extend(["--results".to_owned(), args.results.display().to_string()]);
    let options = [
        ("--url", args.url.clone()),
        ("--threads", args.threads.map(|threads| threads.to_string())),
        ("--target", args.target.map(|target| target.to_string())),
        ("--retries", retries(args, phase, &text).map(|retries| retries.to_string())),
        ("--load-batch", (load_batch > 1).then(|| load_batch.to_string())),
        ("--op-timeout", args.op_timeout.map(|timeout| format!("{}us", timeout.as_micros()))),
    ];
    command.extend(options.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))));
    command.extend(args.drop.then(|| "--drop".to_owned()));
    if spec.data_integrity && phase == Phase::Run {
        // go-ycsb ends with exit code 1 at the first value that is not what it must be.
        command.push(if form == Form::GoYcsb { "--verify=fail" } else { "--verify" }.to_owned());
    }
    command.extend(given.files.iter().flat_map(|file| ["-P".to_owned(), file.clone()]));
    command.extend(given.settings.iter().flat_map(|setting| ["-p".to_owned(), setting.clone()]));
    let Command::Replay(replay_args) = Cli::understand(command)?.command else {
        unreachable!("the command says replay")
    };
    let list = text("hdrhistogram.percentiles").filter(|_| report.name == "ycsb");
    let list = list.and_then(|list| percentiles(&list).ok());
    let default = || percentiles(default_percentiles(report.name)).expect("the defaults are valid");
    let mut narrator = Teller {
        form,
        status,
        label: args
            .label
            .clone()
            .or_else(|| text("label"))
            .map(|label| format!("{label} "))
            .unwrap_or_default(),
        properties: &properties,
        spec: &spec,
        report,
        percentiles: list.unwrap_or_else(default),
        export: text("exportfile")
            .or_else(|| text("measurement.output_file"))
            .filter(|file| !file.is_empty()),
        todo: 0,
        progress: None,
    };
    match form {
        Form::GoYcsb => narrator.head()?,
        Form::Ycsb if spec.data_integrity && report.name == "ycsb" => say!("Data integrity is enabled.")?,
        Form::Ycsb => {}
    }
    replay::narrated(&replay_args, &mut narrator)
}

/// Whose command line it is, and every setting that it stands for.
fn understand(args: &CompatArgs, db: &str, phase: Phase) -> Result<(Form, PropertyArgs)> {
    let files: Vec<String> = args.properties.files.iter().flat_map(|name| names_of_files(name)).collect();
    let mut given = PropertyArgs { files, ..args.properties.clone() };
    // First with the files that are there: they may say whose it is.
    let there = PropertyArgs {
        files: given.files.iter().filter(|file| Path::new(file).is_file()).cloned().collect(),
        ..given.clone()
    };
    let mut properties = Properties::new();
    there.read_into(&mut properties)?;
    let form = Form::of(args.form, &properties, db);
    for file in &mut given.files {
        if let Some(found) = comes_with_the_program(file, form) {
            note!("{file} is not here; using {found}");
            *file = found;
        }
    }
    let mut properties = Properties::new();
    given.read_into(&mut properties)?;
    let mut defaults: Vec<(&str, String)> = Vec::new();
    if form == Form::GoYcsb {
        defaults.push(("keys", "go-ycsb".to_owned()));
        if args.url.is_none() && properties.get("db.url").is_none() {
            defaults.extend(theirs::go_defaults(db).iter().map(|(name, value)| (*name, (*value).to_owned())));
        }
    }
    if form == Form::Ycsb && db == "redis" {
        // Its rows and its index, whose order is no order of keys.
        defaults.push(("redis.layout", "ycsb".to_owned()));
    }
    let mut cp = args.cp.clone();
    if matches!(db, "jdbc" | "herddb")
        && form == Form::Ycsb
        && let Some(drivers) = theirs::drivers(Path::new("."))
    {
        cp.extend(std::env::var("CLASSPATH"));
        cp.push(drivers.to_owned());
    }
    let cp = cp.join(":");
    defaults.extend((!cp.is_empty()).then_some(("jdbc.classpath", cp)));
    defaults.extend(args.jvm_args.clone().map(|jvm_args| ("jdbc.jvmargs", jvm_args)));
    if db == "sim" {
        defaults.extend(basic_delay(&properties)?);
    }
    let missing = defaults.into_iter().filter(|(name, _)| properties.get(name).is_none());
    let mut missing: Vec<_> = missing.map(|(name, value)| format!("{name}={value}")).collect();
    missing.extend(args.table.iter().map(|table| format!("table={table}")));
    // The command says it, whatever a file says.
    missing.push(format!("dotransactions={}", phase == Phase::Run));
    given.settings.extend(missing);
    Ok((form, given))
}

/// go-ycsb splits the value of `-P` at commas.
fn names_of_files(name: &str) -> Vec<String> {
    if Path::new(name).is_file() {
        vec![name.to_owned()]
    } else {
        name.split(',').map(str::to_owned).collect()
    }
}

/// The built-in workload that stands for a file which is not there.
fn comes_with_the_program(file: &str, form: Form) -> Option<String> {
    if Path::new(file).exists() {
        return None;
    }
    let name = Path::new(file).file_name()?.to_str()?;
    let name = if form == Form::GoYcsb { format!("go_{name}") } else { name.to_owned() };
    builtin::BUILTIN.iter().any(|(known, _)| *known == name).then(|| format!("built-in {name}"))
}

/// The delay of both tools' `basic`, in milliseconds; a drawn one has the same mean here.
fn basic_delay(properties: &Properties) -> Result<Option<(&'static str, String)>> {
    let Some(setting) = properties.get("basicdb.simulatedelay") else { return Ok(None) };
    let delay_ms: f64 =
        setting.value.trim().parse().with_context(|| {
            format!("basicdb.simulatedelay={:?} is no number of milliseconds", setting.value)
        })?;
    let drawn =
        properties.get("basicdb.randomizedelay").is_none_or(|setting| setting.value.trim() != "false");
    Ok((delay_ms > 0.0).then(|| match drawn {
        true => ("sim.latency", format!("exponential:{}us", (delay_ms * 500.0).round())),
        false => ("sim.latency", format!("{}us", (delay_ms * 1000.0).round())),
    }))
}

/// The name of the trace: that of the last property file which describes a workload.
fn workload_name(given: &PropertyArgs) -> String {
    let describes = |file: &&String| {
        let mut properties = Properties::new();
        let alone = PropertyArgs { files: vec![(*file).clone()], ..PropertyArgs::default() };
        alone.read_into(&mut properties).is_ok()
            && properties.iter().any(|(name, _)| name == "workload" || name.ends_with("proportion"))
    };
    let file = given.files.iter().rev().find(describes).or(given.files.last());
    let stem = |file: &String| {
        let file = file.strip_prefix("built-in ").unwrap_or(file);
        let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_suffix(".properties").map(str::to_owned).unwrap_or(name)
    };
    file.map_or_else(|| "workload".to_owned(), stem)
}

fn retries(args: &CompatArgs, phase: Phase, text: &impl Fn(&str) -> Option<String>) -> Option<u32> {
    let limit = || text("core_workload_insertion_retry_limit").and_then(|limit| limit.parse().ok());
    args.retries.or_else(|| limit().filter(|_| phase == Phase::Load))
}

/// A trace larger than this keeps the seeds of its values instead of the values.
const MOST_INLINE_BYTES: u64 = 4 << 30;

/// The trace of this phase: one that is there already and has the same content, or a new one beside
/// those that have not. None if the program was interrupted.
fn trace(
    args: &CompatArgs,
    mut spec: WorkloadSpec,
    phase: Phase,
    stop: &AtomicBool,
) -> Result<Option<PathBuf>> {
    let base = spec.name.clone();
    let row_bytes = u64::from(spec.field_count) * u64::from(spec.field_length);
    let rows = if phase == Phase::Load { spec.insert_count } else { spec.operation_count };
    // Values that follow from the keys have no seed.
    let large = rows.saturating_mul(row_bytes) > MOST_INLINE_BYTES && !spec.data_integrity;
    let values = if large { ValueMode::Seeded } else { ValueMode::Inline };
    let jobs = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    fn plan(spec: &WorkloadSpec, seed: u64, phase: Phase, values: ValueMode, jobs: usize) -> GenPlan<'_> {
        GenPlan { spec, seed, phase, values, arrival: None, jobs, shard: None, load_hash: None }
    }
    let mut fresh = None;
    for number in 1..=1000 {
        spec.name = if number == 1 { base.clone() } else { format!("{base}-{number}") };
        let own = plan(&spec, args.seed, phase, values, jobs);
        let path = args.traces.join(own.file_name());
        match generate::existing(&own, &path) {
            Ok(Some(meta)) => {
                note!("trace: {} is there already ({} operations)", path.display(), count_text(meta.rows));
                return Ok(Some(path));
            }
            // Load and run of one workload share a name, so that each finds the other.
            Ok(None) if fresh.is_none() => {
                let other = if phase == Phase::Load { Phase::Run } else { Phase::Load };
                let beside = plan(&spec, args.seed, other, values, jobs);
                let there = generate::existing(&beside, &args.traces.join(beside.file_name()));
                if let Ok(found) = there {
                    fresh = Some((spec.name.clone(), path, found));
                }
            }
            _ => {}
        }
        let nothing = [Phase::Load, Phase::Run]
            .iter()
            .all(|phase| !args.traces.join(format!("{}.{}.parquet", spec.name, phase.name())).exists());
        if nothing {
            break;
        }
    }
    let (name, path, beside) =
        fresh.context("there are 1000 other traces of this name; choose another --traces")?;
    spec.name = name;
    std::fs::create_dir_all(&args.traces)
        .with_context(|| format!("cannot create the folder {}", args.traces.display()))?;
    let load_hash = beside.filter(|_| phase == Phase::Run).map(|load| load.content_hash);
    let plan = GenPlan { load_hash, ..plan(&spec, args.seed, phase, values, jobs) };
    let mut progress = Progress::new(&format!("gen {}", phase.name()), plan.total_ops(), PLAIN_INTERVAL);
    let mut done = 0;
    let made = generate::generate(&plan, &path, stop, |rows| {
        done += rows;
        progress.set(done, "");
    });
    progress.finish();
    Ok(made?.map(|meta| {
        note!("trace: {} ({} operations)", path.display(), count_text(meta.rows));
        path
    }))
}

/// Tells what happens in the form of the tool whose command line it is.
struct Teller<'a> {
    form: Form,
    status: bool,
    label: String,
    properties: &'a Properties,
    spec: &'a WorkloadSpec,
    report: &'static FormatRow,
    percentiles: Vec<crate::analyze::quantile::Percentile>,
    /// The file of the report, if not standard output.
    export: Option<String>,
    todo: u64,
    progress: Option<Progress>,
}

impl Teller<'_> {
    /// What go-ycsb prints before it begins.
    fn head(&self) -> Result<()> {
        let spec = self.spec;
        let mut last = (spec.insert_start + spec.insert_count).saturating_sub(1);
        if spec.request_distribution() == "zipfian" {
            last += (spec.operation_count as f64 * spec.insert_fraction() * 2.0) as u64;
        }
        say!(
            "Using request distribution '{}' a keyrange of [{} {last}]",
            spec.request_distribution(),
            spec.insert_start
        )?;
        say!("***************** properties *****************")?;
        for (name, setting) in self.properties.iter() {
            say!("\"{name}\"=\"{}\"", visible(&redacted(name, &setting.value)))?;
        }
        say!("{RULE}")
    }

    fn tell_status(&self, snapshot: &Snapshot) {
        note!("{}", status::ycsb(&self.label, jiff::Timestamp::now(), snapshot, self.todo));
    }
}

impl Narrator for Teller<'_> {
    fn started(&mut self, plan: &ReplayPlan, server: &ServerInfo, trace: &TraceMeta, result: &Path) {
        note!("{}", replay::started_text(plan, server, trace, result));
        self.todo = trace.rows;
        if self.form == Form::Ycsb && self.status {
            let nothing = Snapshot {
                at_ns: 0,
                interval_ns: 0,
                rows: 0,
                interval_rows: 0,
                failures: 0,
                p50_ns: None,
                p99_ns: None,
                kinds: Vec::new(),
                requests: None,
            };
            self.tell_status(&nothing);
        } else if self.form == Form::Ycsb {
            self.progress = Some(Progress::new(trace.phase.name(), trace.rows, PLAIN_INTERVAL));
        }
    }

    fn progress(&mut self, snapshot: &Snapshot, _backlog: Option<u64>) {
        match self.form {
            Form::Ycsb if self.status => self.tell_status(snapshot),
            Form::Ycsb => {
                if let Some(progress) = &mut self.progress {
                    progress.set(snapshot.rows, "");
                }
            }
            // The last snapshot is the report's.
            Form::GoYcsb if snapshot.rows < self.todo => {
                let _ = super::say::out(format_args!("{}", status::go_ycsb(snapshot).trim_end()));
            }
            Form::GoYcsb => {}
        }
    }

    fn finished(&mut self, finished: &Finished) -> Result<()> {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
        if let Some(last) = finished.last.as_ref().filter(|_| self.form == Form::Ycsb && self.status) {
            self.tell_status(last);
        }
        for error in finished.meta.errors.iter().take(5) {
            note!("{} × {}: {}", count_text(error.count), error.code, error.message);
        }
        let options = Options { percentiles: self.percentiles.clone(), ..Options::default() };
        let report = analyze(std::slice::from_ref(&finished.path), &options)?;
        let text = (self.report.render)(&report, Page::default());
        match &self.export {
            // As both tools do, an existing file is replaced.
            Some(file) => {
                std::fs::write(file, text).with_context(|| format!("cannot write the report {file}"))?
            }
            None => match std::io::stdout().lock().write_all(text.as_bytes()) {
                Err(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => {}
                written => written.context("cannot write to standard output")?,
            },
        }
        note!("result: {}", finished.path.display());
        Ok(())
    }
}
