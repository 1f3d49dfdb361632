//! `replay`: from flags and properties to a plan, then what a person sees of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};

use super::Verdict;
use super::gate::{self, Gate};
use super::generate::Phases;
use super::parse_duration;
use super::progress::{self, PLAIN_INTERVAL, Progress, count_text, duration_text, rate_text};
use super::say::{note, say};
use super::settings::{PropertyArgs, redacted, redacted_url};
use crate::driver::{self, Driver, Preparation, ServerInfo, Target, Visitor};
use crate::op::OpKind;
use crate::record::Tool;
use crate::replay::observe::IntegrityRule;
use crate::replay::pace::{Pace, Rate, Speed};
use crate::replay::recorder::Snapshot;
use crate::replay::stop::Stop;
use crate::replay::{self, Event, Finished, Order, ReplayPlan, Rmw, Verification};
use crate::trace::meta::{Phase, RunMeta, TraceMeta};
use crate::trace::ops::TraceReader;
use crate::verify::written::{MOST_FINGERPRINTS, values_written};
use crate::workload::{Properties, Source};

/// Which operations wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    /// A read waits for the insert of its row
    Deps,
    /// Operations on one key keep the order of the trace
    Key,
    /// Nothing waits; what goes wrong because of that is labelled RACE
    None,
}

/// What `--verify` does with the values that come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VerifyArg {
    /// Check that each was written by somebody, and log its hash
    Check,
    /// Only log hashes
    Log,
    /// Check, and exit with code 1 if anything is wrong
    Fail,
}

impl VerifyArg {
    /// The name in a result's footer, under `config`.
    const fn name(self) -> &'static str {
        match self {
            VerifyArg::Check => "check",
            VerifyArg::Log => "log",
            VerifyArg::Fail => "fail",
        }
    }
}

/// How a read-modify-write is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RmwArg {
    /// A read, then an update, as YCSB does it
    Statements,
    /// One transaction of the database, retried as a whole by --retries
    Transaction,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ycsb-trace replay --db sqlite workloada --url /tmp/a.db --threads 8 --target 5000
  ycsb-trace replay --db postgres --url postgres://me@localhost/test --threads 16
  ycsb-trace replay --db cockroach -P workloads/workloadd --threads 96 -p pg.host=10.0.0.1 \\
      -p pg.port=26257 -p pg.user=root -p pg.db=test -p pg.sslmode=disable -p dropdata=true

`ycsb-trace databases` lists what --db can be.")]
pub struct ReplayArgs {
    /// Trace: a name (workloada), a path without the phase (traces/workloada), or a file; without
    /// one, the newest in traces/
    trace: Option<String>,
    /// Database: see `ycsb-trace databases`
    #[arg(long, value_name = "NAME")]
    db: String,
    /// Connection URL; a path for embedded databases
    #[arg(long)]
    url: Option<String>,
    #[command(flatten)]
    properties: PropertyArgs,
    /// Which phases to replay: all = create the table, load it, run
    #[arg(long, value_enum, default_value_t = Phases::All)]
    phase: Phases,
    /// Remove the table first, with all its rows (property dropdata)
    #[arg(long)]
    drop: bool,
    /// Table name (property table), if not the trace's
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Connections (property threadcount) [default: 1]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Operations (of a statement trace: transactions) per second (property target); in phase `all` it applies to the run, not the load
    #[arg(long, value_name = "R")]
    target: Option<f64>,
    /// Factor on the arrival times of the trace
    #[arg(long, value_name = "X")]
    speed: Option<f64>,
    /// Which operations wait for others
    #[arg(long, value_enum, default_value_t = OrderArg::Deps)]
    order: OrderArg,
    /// Threads that execute operations [default: one per CPU, at most one per connection]
    #[arg(long, value_name = "N")]
    lanes: Option<u32>,
    /// Tries after the first, where the error says that another may succeed
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Give an operation up after this time, close its connection and open another
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    op_timeout: Option<Duration>,
    /// Drop operations that could not start within this time of their intended start; without it
    /// they are executed late, as fast as the database can
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    drop_late: Option<Duration>,
    /// Rows that a load writes in one request, where the database can; they share its times
    #[arg(long, value_name = "N", default_value_t = 1)]
    load_batch: u32,
    /// How a read-modify-write is executed
    #[arg(long, value_enum, default_value_t = RmwArg::Statements)]
    rmw: RmwArg,
    /// Keep a hash of every value that comes back, and mark as MISMATCH what cannot be right;
    /// `ycsb-trace verify` then decides about the history
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true,
          default_missing_value = "check")]
    verify: Option<VerifyArg>,
    /// The load trace whose rows are in the table, for --verify [default: the one beside the run trace]
    #[arg(long, value_name = "FILE", requires = "verify")]
    load_trace: Option<PathBuf>,
    /// End the run after this time (property maxexecutiontime, in seconds)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Exit with code 1 if more than this share of the operations failed, e.g. 0.01
    #[arg(long, value_name = "SHARE")]
    max_error_rate: Option<f64>,
    /// Exit with code 1 if this is true of the run: 'p99(READ) > 5ms', 'p99.9(service, UPDATE) > 20ms',
    /// 'rate < 900', 'errors > 0.1%'; can be given several times
    #[arg(long, value_name = "CONDITION", value_parser = gate::parse)]
    fail_if: Vec<Gate>,
    /// Time between progress reports [default: 1s on a terminal, else 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    interval: Option<Duration>,
    /// Folder for the result files
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
}

/// The name of a trace and where its phases are.
#[derive(Debug, PartialEq, Eq)]
struct TraceFiles {
    load: Option<PathBuf>,
    run: Option<PathBuf>,
}

/// Finds the files that a name, a path without phase, or a file stands for.
fn find_trace(name: &str) -> Result<TraceFiles> {
    if name.ends_with(".parquet") {
        let path = PathBuf::from(name);
        if !path.is_file() {
            bail!("there is no trace file {name}");
        }
        let phase = TraceReader::open(&path)?.meta().phase;
        return Ok(match phase {
            Phase::Load => TraceFiles { load: Some(path), run: None },
            Phase::Run => TraceFiles { load: None, run: Some(path) },
        });
    }
    let bases = [
        PathBuf::from(name),
        Path::new("traces").join(name),
        Path::new("traces").join(format!("workload{name}")),
    ];
    for base in &bases {
        let file = |phase: Phase| {
            let mut path = base.as_os_str().to_owned();
            path.push(format!(".{}.parquet", phase.name()));
            Some(PathBuf::from(path)).filter(|path| path.is_file())
        };
        let found = TraceFiles { load: file(Phase::Load), run: file(Phase::Run) };
        if found.load.is_some() || found.run.is_some() {
            return Ok(found);
        }
    }
    bail!("there is no trace {name}, here or in traces/; generate it with `ycsb-trace gen {name}`")
}

/// The newest trace in `traces/`.
fn newest_trace() -> Result<String> {
    let mut newest: Option<(std::time::SystemTime, String)> = None;
    if let Ok(entries) = std::fs::read_dir("traces") {
        for entry in entries.flatten() {
            let path = entry.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let stem = [".load.parquet", ".run.parquet"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let Some(stem) = stem else { continue };
            let modified = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(std::time::UNIX_EPOCH);
            if newest.as_ref().is_none_or(|(time, _)| modified >= *time) {
                newest = Some((modified, format!("traces/{stem}")));
            }
        }
    }
    newest
        .map(|(_, name)| name)
        .context("there is no trace in traces/; generate one first, for instance `ycsb-trace gen workloada`")
}

/// The trace when none is named: that of the workload file among the property files, else the
/// newest. A workload file without a trace is an error: running another one would answer a question
/// that nobody asked.
fn trace_of(files: &[String], properties: &Properties) -> Result<TraceFiles> {
    let stem = |file: &str| Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for file in files.iter().rev() {
        if let Ok(found) = find_trace(&stem(file)) {
            note!("trace: {} (named like the property file)", stem(file));
            return Ok(found);
        }
    }
    let describes_workload = |file: &&String| {
        properties.iter().any(|(name, setting)| {
            (name == "workload" || name.ends_with("proportion"))
                && matches!(&setting.source, Source::File { path, .. } if path == *file)
        })
    };
    if let Some(file) = files.iter().rev().find(describes_workload) {
        bail!(
            "there is no trace of the workload {file}, here or in traces/; generate it with `ycsb-trace gen {file}`"
        );
    }
    let name = newest_trace()?;
    note!("trace: {name} (the newest in traces/)");
    find_trace(&name)
}

/// Numbers that may come from a flag or a property; blanks around them are ignored.
fn number<T: std::str::FromStr>(properties: &Properties, name: &str) -> Result<Option<T>> {
    let Some(setting) = properties.get(name) else { return Ok(None) };
    let text = setting.value.trim();
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => bail!("{name}={:?} ({}) is not a number", setting.value, setting.source),
    }
}

fn is_true(properties: &Properties, name: &str) -> bool {
    properties.get(name).is_some_and(|setting| {
        ["true", "1", "yes", "on"].contains(&setting.value.trim().to_ascii_lowercase().as_str())
    })
}

/// Workload properties were decided when the trace was generated: say so if somebody sets others.
fn warn_of_other_workload(properties: &Properties, trace: &TraceMeta) -> Vec<String> {
    let same = |one: &str, other: &str| {
        let (one, other) = (one.trim(), other.trim());
        one == other || matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
    };
    properties
        .iter()
        .filter(|(name, _)| !["table", "workload"].contains(name))
        .filter_map(|(name, setting)| {
            let inside = trace.properties.get(name)?;
            (!same(&inside.value, &setting.value)).then(|| {
                format!(
                    "{name}={} ({}) has no effect: the trace was generated with {name}={}",
                    setting.value, setting.source, inside.value
                )
            })
        })
        .collect()
}

/// Everything that the flags and properties say, before a trace is opened.
struct Request {
    files: TraceFiles,
    target: Target,
    properties: Properties,
    drop: bool,
    sessions: u32,
    rate: Option<f64>,
    speed: Option<f64>,
    time_limit: Option<Duration>,
}

fn interpret(args: &ReplayArgs) -> Result<Request> {
    let mut properties = Properties::new();
    args.properties.read_into(&mut properties)?;
    super::settings::report_warnings(properties.warnings(), args.properties.strict)?;
    let files = match &args.trace {
        Some(name) => find_trace(name)?,
        None => trace_of(&args.properties.files, &properties)?,
    };
    let sessions = args.threads.or(number(&properties, "threadcount")?).unwrap_or(1);
    if sessions == 0 || sessions > 10_000 {
        bail!("{sessions} connections: --threads (or threadcount) must be from 1 to 10,000");
    }
    if args.lanes == Some(0) {
        bail!("--lanes 0: at least one thread must execute operations");
    }
    let rate = args.target.or(number(&properties, "target")?).filter(|&rate| rate != 0.0);
    if let Some(rate) = rate
        && Rate::per_second(rate).is_none()
    {
        bail!("--target {rate}: the rate must be above 0 and at most 10^12 operations per second");
    }
    if let Some(speed) = args.speed {
        if Speed::factor(speed).is_none() {
            bail!("--speed {speed}: the factor must be above 0 and at most 1,000,000");
        }
        if rate.is_some() {
            bail!("--speed changes the times of the trace and --target replaces them: give one of the two");
        }
    }
    if !(1..=1000).contains(&args.load_batch) {
        bail!("--load-batch {}: a request takes from 1 to 1000 rows", args.load_batch);
    }
    if args.op_timeout.is_some_and(|timeout| timeout.is_zero()) {
        bail!("--op-timeout 0: no operation could be answered in time");
    }
    if let Some(share) = args.max_error_rate
        && !(0.0..=1.0).contains(&share)
    {
        bail!("--max-error-rate {share}: write a share from 0 to 1, for instance 0.01");
    }
    let limit: Option<f64> = number(&properties, "maxexecutiontime")?.filter(|&seconds: &f64| seconds > 0.0);
    let text = |(name, setting): (&str, &crate::workload::Setting)| {
        (name.to_owned(), setting.value.trim().to_owned())
    };
    Ok(Request {
        files,
        target: Target {
            db: args.db.clone(),
            url: args.url.clone(),
            properties: properties.iter().map(text).collect(),
            sessions,
            op_timeout: args.op_timeout,
            load_batch: args.load_batch,
            seed: 1,
        },
        drop: args.drop || is_true(&properties, "dropdata"),
        sessions,
        rate,
        speed: args.speed,
        time_limit: args.duration.or(limit.map(Duration::from_secs_f64)),
        properties,
    })
}

/// The plan of one phase.
fn plan(args: &ReplayArgs, request: &Request, phase: Phase, path: PathBuf) -> Result<ReplayPlan> {
    let reader = TraceReader::open(&path)?;
    let trace = reader.meta();
    if trace.phase != phase {
        bail!("{} is a {} trace, not a {} trace", path.display(), trace.phase.name(), phase.name());
    }
    if !trace.statements.is_empty() {
        refuse_for_statements(args, &request.target)?;
    }
    for warning in warn_of_other_workload(&request.properties, trace) {
        note!("warning: {warning}");
    }
    let paced_phase = phase == Phase::Run || args.phase == Phases::Load;
    let pace = match request.rate.filter(|_| paced_phase) {
        Some(rate) => Pace::Rate(Rate::per_second(rate).context("the rate was checked")?),
        None if trace.arrival.is_some() => {
            Pace::Arrivals(request.speed.and_then(Speed::factor).unwrap_or(Speed::ORIGINAL))
        }
        None if request.speed.is_some() && phase == Phase::Run => bail!(
            "--speed needs a trace with arrival times, and {} has none; generate it with --arrival, or use --target",
            path.display()
        ),
        None => Pace::Unpaced,
    };
    let default_interval = if progress::is_live() { Duration::from_secs(1) } else { PLAIN_INTERVAL };
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let mut target = request.target.clone();
    target.seed = trace.seed;
    let table = args.table.clone().or_else(|| target.property("table").map(str::to_owned));
    let mut config: BTreeMap<String, String> =
        target.properties.iter().map(|(name, value)| (name.clone(), redacted(name, value))).collect();
    if let Some(url) = &target.url {
        config.insert("url".to_owned(), redacted_url(url));
    }
    config.insert("table".to_owned(), table.clone().unwrap_or_else(|| trace.table.clone()));
    config.insert("seed".to_owned(), trace.seed.to_string());
    config.insert("rmw".to_owned(), args.rmw_mode().name().to_owned());
    if args.load_batch > 1 {
        config.insert("load_batch".to_owned(), args.load_batch.to_string());
    }
    let verification = match args.verify {
        Some(how) if phase == Phase::Run => {
            let integrity = integrity(trace).filter(|_| how != VerifyArg::Log);
            let only_log = how == VerifyArg::Log || integrity.is_some();
            let writes = if only_log { Vec::new() } else { args.writes(&path, trace)? };
            let name = if writes.is_empty() && integrity.is_none() { VerifyArg::Log } else { how }.name();
            config.insert("verify".to_owned(), name.to_owned());
            Some(Verification { writes, integrity })
        }
        _ => None,
    };
    Ok(ReplayPlan {
        trace: path,
        target,
        table,
        preparation: match (phase, request.drop) {
            (Phase::Run, _) => Preparation::UseExisting,
            (Phase::Load, true) => Preparation::DropAndCreate,
            (Phase::Load, false) => Preparation::CreateIfEmpty,
        },
        sessions: request.sessions,
        lanes: args.lanes.unwrap_or(cpus),
        target_per_second: request.rate.filter(|_| matches!(pace, Pace::Rate(_))),
        speed: request.speed.unwrap_or(1.0),
        pace,
        order: match args.order {
            OrderArg::Deps => Order::Deps,
            OrderArg::Key => Order::Key,
            OrderArg::None => Order::None,
        },
        retries: args.retries,
        op_timeout: args.op_timeout,
        drop_late: args.drop_late,
        rmw: args.rmw_mode(),
        load_batch: args.load_batch,
        verification,
        results: args.results.clone(),
        time_limit: request.time_limit,
        interval: args.interval.unwrap_or(default_interval).max(Duration::from_millis(50)),
        config,
    })
}

/// What the values of a trace with `dataintegrity` must be.
fn integrity(trace: &TraceMeta) -> Option<IntegrityRule> {
    let is = |name: &str, text: &str| {
        trace.properties.get(name).is_some_and(|property| property.value.trim().eq_ignore_ascii_case(text))
    };
    is("dataintegrity", "true").then(|| IntegrityRule {
        tool: if is("keys", "go-ycsb") { Tool::GoYcsb } else { Tool::Ycsb },
        length: trace.field_length,
    })
}

/// What makes no sense with a statement trace.
fn refuse_for_statements(args: &ReplayArgs, target: &Target) -> Result<()> {
    if args.verify.is_some() {
        bail!("--verify checks the operations of YCSB; what statements must answer is not known to it");
    }
    if args.order == OrderArg::Key {
        bail!("--order key: the statements of a transaction have their order, and transactions have none");
    }
    if args.table.is_some() || target.property("table").is_some() {
        bail!("--table: a statement trace names its tables itself; generate it with other names instead");
    }
    Ok(())
}

impl ReplayArgs {
    fn rmw_mode(&self) -> Rmw {
        match self.rmw {
            RmwArg::Statements => Rmw::Statements,
            RmwArg::Transaction => Rmw::Transaction,
        }
    }

    /// The traces that write everything that may come back; none, with a word on standard error, if
    /// that cannot be known.
    fn writes(&self, run: &Path, trace: &TraceMeta) -> Result<Vec<PathBuf>> {
        let only_logged = |why: String| {
            eprintln!("verify: values are only logged, not checked: {why}");
            Ok(Vec::new())
        };
        let Some(load) = load_trace(self.load_trace.as_deref(), run, trace)? else {
            return only_logged(format!(
                "there is no load trace beside {}; name it with --load-trace",
                run.display()
            ));
        };
        if trace.shard.is_some() {
            return only_logged("the other shards of this trace write too".to_owned());
        }
        let values = values_written(trace) + values_written(TraceReader::open(&load)?.meta());
        if values > MOST_FINGERPRINTS {
            return only_logged(format!(
                "the traces write {} values, and at most {} are kept in memory",
                count_text(values),
                count_text(MOST_FINGERPRINTS)
            ));
        }
        Ok(vec![load, run.to_owned()])
    }
}

/// The load trace that a run trace belongs to: the one named, which must be that, or the one beside
/// it, if it is that.
pub fn load_trace(named: Option<&Path>, run: &Path, trace: &TraceMeta) -> Result<Option<PathBuf>> {
    let beside = || {
        let name = run.file_name()?.to_str()?.strip_suffix(".run.parquet")?;
        Some(run.with_file_name(format!("{name}.load.parquet"))).filter(|path| path.is_file())
    };
    let Some(path) = named.map(Path::to_owned).or_else(beside) else { return Ok(None) };
    let found = TraceReader::open(&path)?;
    let belongs = found.meta().phase == Phase::Load
        && trace.load_hash.as_ref().is_none_or(|hash| *hash == found.meta().content_hash);
    if !belongs {
        let what = format!("{} is not the load trace that {} was made for", path.display(), run.display());
        if named.is_some() {
            bail!("{what}");
        }
        eprintln!("verify: {what}");
        return Ok(None);
    }
    Ok(Some(path))
}

/// `replay`.
pub fn run(args: &ReplayArgs) -> Result<Verdict> {
    narrated(args, &mut Ordinary { progress: None })
}

/// Who tells a person what happens.
pub(super) trait Narrator {
    /// The sessions are open, time begins.
    fn started(&mut self, plan: &ReplayPlan, server: &ServerInfo, trace: &TraceMeta, result: &Path);
    /// An interval has passed.
    fn progress(&mut self, snapshot: &Snapshot, backlog: Option<u64>);
    /// The rows of a load are there; so many of its tables have their indexes, too.
    fn finishing(&mut self, _done: usize, _tables: usize) {}
    /// The run has ended, and its result is on disk.
    fn finished(&mut self, finished: &Finished) -> Result<()>;
}

/// `replay`, told by somebody.
pub(super) fn narrated(args: &ReplayArgs, narrator: &mut dyn Narrator) -> Result<Verdict> {
    let request = interpret(args)?;
    let mut phases = Vec::new();
    for &phase in args.phase.list() {
        let (file, other) = match phase {
            Phase::Load => (&request.files.load, &request.files.run),
            Phase::Run => (&request.files.run, &request.files.load),
        };
        match file {
            Some(path) => phases.push((phase, path.clone())),
            // A single file was named, and both phases are the default: replay what is there.
            None if args.phase == Phases::All && other.is_some() => {}
            None => bail!("this trace has no {} phase", phase.name()),
        }
    }
    let plans: Vec<ReplayPlan> =
        phases.into_iter().map(|(phase, path)| plan(args, &request, phase, path)).collect::<Result<_>>()?;
    if plans.len() == 1 && plans[0].preparation == Preparation::UseExisting && args.phase == Phases::All {
        note!("only the run phase is there: it works on the table as it is");
    }
    let stop = Arc::new(Stop::default());
    listen_for_signals(&stop)?;
    let mut verdict = Verdict::Done;
    // Not being able to tell is no reason not to go on.
    let mut printed = Ok(());
    for (position, plan) in plans.iter().enumerate() {
        let finished = driver::dispatch(&args.db, Execute { plan, stop: &stop, narrator: &mut *narrator })??;
        printed = printed.and(narrator.finished(&finished));
        if let Some(failure) = finished.trace_failure {
            return Err(failure.into());
        }
        if finished.meta.ended_because == replay::LANE_PANICKED {
            bail!(
                "a part of this program failed, so the run is not complete; this is a bug, please report it"
            );
        }
        if finished.meta.interrupted {
            return Ok(Verdict::Interrupted);
        }
        let mismatches: u64 = finished.meta.counts.values().filter_map(|kinds| kinds.get("MISMATCH")).sum();
        if args.verify == Some(VerifyArg::Fail) && mismatches > 0 {
            eprintln!(
                "gate: {} operations are MISMATCH, and --verify=fail was given",
                count_text(mismatches)
            );
            verdict = Verdict::Refused;
        }
        if !passes(args.max_error_rate, &finished.meta) {
            verdict = Verdict::Refused;
        }
        // What is judged is the run; the load is, if nothing else was asked for.
        if position + 1 == plans.len() {
            for refusal in args.fail_if.iter().filter_map(|gate| gate.refusal(&finished.meta)) {
                note!("{refusal}");
                verdict = Verdict::Refused;
            }
        }
    }
    printed?;
    Ok(verdict)
}

/// First signal: let operations in flight finish and keep everything. Second: keep what is there,
/// now. Third: leave at once; `repair` can still make the result.
fn listen_for_signals(stop: &Arc<Stop>) -> Result<()> {
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
            .context("cannot listen for Ctrl-C")?;
    let stop = stop.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            match stop.request() {
                1 => note!(
                    "stopping: operations in flight may finish (press Ctrl-C again not to wait for them)"
                ),
                2 => note!("ending now: keeping what is there"),
                _ => std::process::exit(130),
            }
        }
    })?;
    Ok(())
}

struct Execute<'a> {
    plan: &'a ReplayPlan,
    stop: &'a Arc<Stop>,
    narrator: &'a mut dyn Narrator,
}

impl Visitor for Execute<'_> {
    type Output = Result<Finished>;

    fn visit<D: Driver>(self) -> Result<Finished> {
        replay::replay::<D>(self.plan, self.stop, |event| match event {
            Event::Started { server, trace, result } => {
                self.narrator.started(self.plan, &server, &trace, &result);
                for warning in &server.warnings {
                    note!("warning: {warning}");
                }
            }
            Event::Finishing { done, tables } => self.narrator.finishing(done, tables),
            Event::Progress { snapshot, backlog } => self.narrator.progress(&snapshot, backlog),
        })
    }
}

/// What `replay` says by itself.
struct Ordinary {
    progress: Option<Progress>,
}

impl Narrator for Ordinary {
    fn started(&mut self, plan: &ReplayPlan, server: &ServerInfo, trace: &TraceMeta, result: &Path) {
        note!("{}", started_text(plan, server, trace, result));
        // Snapshots come at the interval that was asked for: every one is a line.
        self.progress = Some(Progress::new(trace.phase.name(), trace.rows, Duration::ZERO));
    }

    fn progress(&mut self, snapshot: &Snapshot, backlog: Option<u64>) {
        let rate = snapshot.interval_rows as f64 * 1e9 / snapshot.interval_ns.max(1) as f64;
        let mut note = format!(" · {} now", rate_text(rate));
        if let (Some(p50), Some(p99)) = (snapshot.p50_ns, snapshot.p99_ns) {
            note += &format!(" · p50 {} p99 {}", duration_text(p50), duration_text(p99));
        }
        if let Some(backlog) = backlog {
            note += &format!(" · backlog {}", count_text(backlog));
        }
        if snapshot.failures > 0 {
            note += &format!(" · failed {}", count_text(snapshot.failures));
        }
        if let Some(progress) = &mut self.progress {
            progress.set(snapshot.rows, &note);
        }
    }

    fn finishing(&mut self, done: usize, tables: usize) {
        if done == 0 {
            if let Some(progress) = self.progress.take() {
                progress.finish();
            }
            self.progress = Some(Progress::new("indexes", tables as u64, PLAIN_INTERVAL));
        }
        if let Some(progress) = &mut self.progress {
            progress.set(done as u64, " tables");
        }
    }

    fn finished(&mut self, finished: &Finished) -> Result<()> {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
        print_summary(finished)
    }
}

/// The line that a run begins with.
pub(super) fn started_text(
    plan: &ReplayPlan,
    server: &ServerInfo,
    trace: &TraceMeta,
    result: &Path,
) -> String {
    format!(
        "{} {} ({}) on {} · {} {} · {} connection(s) · {} → {}",
        trace.phase.name(),
        trace.workload,
        &trace.content_hash[..trace.content_hash.len().min(8)],
        server.address,
        count_text(trace.units()),
        if trace.transactions.is_some() { "transactions" } else { "operations" },
        plan.sessions,
        pace_text(plan),
        result.display()
    )
}

fn pace_text(plan: &ReplayPlan) -> String {
    match plan.pace {
        Pace::Unpaced => "unpaced".to_owned(),
        Pace::Rate(_) => rate_text(plan.target_per_second.unwrap_or(0.0)),
        Pace::Arrivals(_) if plan.speed == 1.0 => "arrivals of the trace".to_owned(),
        Pace::Arrivals(_) => format!("arrivals of the trace × {}", plan.speed),
    }
}

fn failures(meta: &RunMeta) -> u64 {
    let ok = |statuses: &BTreeMap<String, u64>| statuses.get("OK").copied().unwrap_or(0);
    meta.rows - meta.counts.values().map(ok).sum::<u64>()
}

/// Is the share of failures acceptable? Without a limit, a run in which nothing succeeded is not.
fn passes(max_error_rate: Option<f64>, meta: &RunMeta) -> bool {
    let failed = failures(meta);
    if meta.rows == 0 {
        return true;
    }
    let share = failed as f64 / meta.rows as f64;
    match max_error_rate {
        Some(limit) if share > limit => {
            note!(
                "gate: {} of {} operations failed ({:.2} %), more than --max-error-rate {limit}",
                count_text(failed),
                count_text(meta.rows),
                share * 100.0
            );
            false
        }
        None if failed == meta.rows => {
            note!("gate: every operation failed");
            false
        }
        _ => true,
    }
}

/// The summary on standard output.
fn print_summary(finished: &Finished) -> Result<()> {
    say!("{}", summary(&finished.meta))?;
    say!("result: {}", finished.path.display())
}

/// Counts, rates and main percentiles of a run, from its footer.
pub fn summary(meta: &RunMeta) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let paced = meta.pace != "unpaced";
    let mut header = vec!["", "ops", "failed", "rate", "p50", "p95", "p99", "max"];
    if paced {
        header.push("service p99");
    }
    table.set_header(header.clone());
    let seconds = meta.elapsed_ns as f64 / 1e9;
    for kind in OpKind::ALL {
        let Some(statuses) = meta.counts.get(kind.name()) else { continue };
        let ops: u64 = statuses.values().sum();
        let failed = ops - statuses.get("OK").copied().unwrap_or(0);
        let rate = if seconds > 0.0 { rate_text(ops as f64 / seconds) } else { "-".to_owned() };
        let mut row = vec![kind.name().to_owned(), count_text(ops), count_text(failed), rate];
        match histogram(meta, kind, "response") {
            Some(response) => {
                row.extend([0.5, 0.95, 0.99].map(|q| duration_text(response.value_at_quantile(q))));
                row.push(duration_text(response.max()));
            }
            None => row.extend(["-", "-", "-", "-"].map(str::to_owned)),
        }
        if paced {
            let service = histogram(meta, kind, "service");
            row.push(
                service.map_or("-".to_owned(), |service| duration_text(service.value_at_quantile(0.99))),
            );
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!(
        "{} on {}: {} of {} operations in {:.2} s ({})\n",
        meta.trace,
        server_text(meta),
        count_text(meta.rows),
        count_text(meta.trace_rows),
        seconds,
        meta.ended_because
    );
    text += &table.to_string();
    if let Some(transactions) = &meta.transactions {
        text += &format!(
            "\ntransactions: {} of {} OK, {} failed, {} retries",
            count_text(transactions.ok),
            count_text(transactions.planned),
            count_text(transactions.failed),
            count_text(transactions.retries)
        );
        if seconds > 0.0 {
            text += &format!(" ({})", rate_text(transactions.ok as f64 / seconds));
        }
    }
    text += if paced { "\nresponse = end − intended start" } else { "\nunpaced: response = end − start" };
    for (kind, statuses) in &meta.counts {
        for (status, count) in statuses.iter().filter(|(status, _)| *status != "OK") {
            text += &format!("\n{kind} {status}: {}", count_text(*count));
        }
    }
    for error in meta.errors.iter().take(5) {
        text += &format!("\n{} × {}: {}", count_text(error.count), error.code, error.message);
    }
    if meta.counts.get("INSERT").is_some_and(|statuses| statuses.contains_key("DUPLICATE")) {
        text += "\nhint: rows to insert were there already, perhaps from an earlier run; --drop loads the table afresh";
    }
    match meta.config.get("verify").map(String::as_str) {
        Some("log") => text += "\nverify: values were logged; `ycsb-trace verify` checks them",
        Some(_) => {
            text += "\nverify: every value that came back was looked up; `ycsb-trace verify` decides about the history"
        }
        None => {}
    }
    if let Some(verdict) = &meta.sustained {
        text += &match (verdict.since_ns, &verdict.cause) {
            (Some(since_ns), Some(cause)) => format!(
                "\nNOT SUSTAINED since {}: lag grows by {} a second ({cause}). Response times depend on the length of \
                 the run; compare service times, or a lower --target",
                duration_text(since_ns),
                duration_text(verdict.lag_growth_ns_per_s)
            ),
            _ => "\nsustained: the database kept the rate".to_owned(),
        };
    }
    if meta.recorder_stalls > 0 {
        text += "\ncaution: the recorder could not keep up, so this program was the limit, not the database";
    }
    text
}

/// The database and its version, without what its builders add: `postgres (PostgreSQL 15.18)`.
fn server_text(meta: &RunMeta) -> String {
    let version = &meta.server.version;
    let end = [" (", " on ", ","].iter().filter_map(|mark| version.find(mark)).min().unwrap_or(version.len());
    let version = &version[..end];
    if version.starts_with(&meta.db) { version.to_owned() } else { format!("{} ({version})", meta.db) }
}

/// A histogram of the footer.
pub(super) fn histogram(meta: &RunMeta, kind: OpKind, series: &str) -> Option<hdrhistogram::Histogram<u64>> {
    use base64::Engine;
    let found = meta.histograms.iter().find(|found| found.op == kind.name() && found.series == series)?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(&found.hdr).ok()?;
    hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}
