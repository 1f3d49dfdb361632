//! `gen`: from a workload file and flags to trace files.

mod flags;
mod statements;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::flags::OptionFlags;
use super::Verdict;
use super::progress::{PLAIN_INTERVAL, Progress, bytes_text, count_text};
use super::say::{note, say};
use super::settings::{PropertyArgs, redacted, report_warnings};
use crate::generate::{self, Arrival, GenPlan, ValueMode};
use crate::trace::meta::{Phase, TraceMeta};
use crate::workload::builtin::{self, Form};
use crate::workload::{self, Properties, WorkloadSpec, visible};

/// Which phases to generate or replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Phases {
    /// Only the operations that fill the table
    Load,
    /// Only the operations that work on it
    Run,
    /// Both
    All,
}

impl Phases {
    /// The phases, in order.
    pub fn list(self) -> &'static [Phase] {
        match self {
            Phases::Load => &[Phase::Load],
            Phases::Run => &[Phase::Run],
            Phases::All => &[Phase::Load, Phase::Run],
        }
    }
}

/// How written values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Values {
    /// The bytes themselves: any tool can read them
    Inline,
    /// The seed they are made from: small files
    Seeded,
}

/// How arrival times are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalProcess {
    /// Evenly spaced
    Uniform,
    /// Independent exponential gaps, as from many independent users
    Poisson,
}

/// Arguments of `gen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ycsb-trace gen workloada
  ycsb-trace gen d --records 1000000 --ops 5000000 --seed 7 --values seeded
  ycsb-trace gen a --arrival poisson --rate 2000
  ycsb-trace gen oltp_read_write --tables 10 --table-size 100000 --ops 50000 --range-size 50
  ycsb-trace gen my.properties -p requestdistribution=zipfian --zipf exact --theta 1.1")]
pub struct GenerateArgs {
    /// Workload: a property file or a transactional workload (.toml), or the name of a built-in one
    /// (workloada … workloadf, a … f, go_workloada …, oltp_read_write …)
    workload: Option<String>,
    #[command(flatten)]
    properties: PropertyArgs,
    /// Seed of every random stream
    #[arg(long, alias = "rand-seed", default_value_t = 1)]
    seed: u64,
    /// Rows in the table (property recordcount)
    #[arg(long, value_name = "N")]
    records: Option<u64>,
    /// Operations of the run phase (property operationcount); transactions of a transactional workload
    #[arg(long, alias = "events", value_name = "N")]
    ops: Option<u64>,
    /// How written values are stored
    #[arg(long, value_enum, default_value_t = Values::Inline)]
    values: Values,
    /// Draw arrival times for the run phase; needs --rate
    #[arg(long, value_enum, requires = "rate")]
    arrival: Option<ArrivalProcess>,
    /// Arrivals per second
    #[arg(long, value_name = "R", requires = "arrival")]
    rate: Option<f64>,
    /// Whose hash makes the keys: ycsb or go-ycsb (property keys)
    #[arg(long, value_name = "TOOL")]
    keys: Option<String>,
    /// zipfian as YCSB does it (flat), or by the law itself: ycsb or exact (property zipf)
    #[arg(long, value_name = "MODE")]
    zipf: Option<String>,
    /// Exponent of Zipf's law with --zipf exact, any value ≥ 0 (property zipfian.constant)
    #[arg(long, value_name = "THETA")]
    theta: Option<f64>,
    /// Which phases to write
    #[arg(long, value_enum, default_value_t = Phases::All)]
    phase: Phases,
    /// Threads; the content does not depend on it
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write each phase as N files that together are the whole
    #[arg(long, value_name = "N", conflicts_with = "shard")]
    shards: Option<u64>,
    /// Write only part I of N (I from 0)
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    /// Folder for the trace files
    #[arg(short, long, value_name = "DIR", default_value = "traces")]
    output: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Print every effective property with the place it comes from, and stop
    #[arg(long)]
    show_config: bool,
    #[command(flatten)]
    options: OptionFlags,
}

/// Reads the workload and every setting on top of it.
fn properties(args: &GenerateArgs) -> Result<(String, Properties)> {
    let mut properties = Properties::new();
    let mut name = None;
    if let Some(workload) = &args.workload {
        let found = builtin::find(workload)?;
        properties.add_file(&found.label, &found.bytes)?;
        name = Some(found.name);
    }
    args.properties.read_into(&mut properties)?;
    let name = match (name, args.properties.files.last()) {
        (Some(name), _) => name,
        (None, Some(file)) => Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        (None, None) => {
            bail!("which workload? Name one (for instance workloada) or give a property file with -P")
        }
    };
    if let Some((known, _)) = args.options.0.first() {
        bail!(
            "--{} is an option of transactional workloads (oltp_read_write …, or a .toml file of yours), and {name} \
             is one of YCSB's; --records and --ops are its numbers of rows and operations, other properties are set with -p",
            known.name
        );
    }
    let flags = [
        ("recordcount", args.records.map(|value| value.to_string())),
        ("operationcount", args.ops.map(|value| value.to_string())),
        ("keys", args.keys.clone()),
        ("zipf", args.zipf.clone()),
        ("zipfian.constant", args.theta.map(|value| value.to_string())),
    ];
    for (property, value) in flags {
        if let Some(value) = value {
            properties.set(property, &value);
        }
    }
    Ok((name, properties))
}

/// The files of a phase: (index, count), or one whole file.
fn shards(args: &GenerateArgs) -> Result<Vec<Option<(u64, u64)>>> {
    if let Some(count) = args.shards {
        if count == 0 || count > 10_000 {
            bail!("--shards {count}: the number of files must be from 1 to 10,000");
        }
        return Ok((0..count).map(|index| (count > 1).then_some((index, count))).collect());
    }
    let Some(text) = &args.shard else { return Ok(vec![None]) };
    let parsed =
        text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    match parsed {
        Some((index, count)) if index < count => Ok(vec![Some((index, count))]),
        _ => bail!("--shard {text}: write part/parts with part from 0, for instance 0/3"),
    }
}

/// How arrivals are drawn, if they are.
fn arrival(args: &GenerateArgs) -> Result<Option<Arrival>> {
    Ok(match (args.arrival, args.rate) {
        (Some(process), Some(per_second)) => {
            if !(1e-6..=1e9).contains(&per_second) {
                bail!(
                    "--rate {per_second}: the rate must be from 0.000001 to 1,000,000,000 operations per second"
                );
            }
            if args.phase == Phases::Load {
                bail!("--arrival applies to the run phase, and --phase load writes none");
            }
            Some(match process {
                ArrivalProcess::Uniform => Arrival::Uniform { per_second },
                ArrivalProcess::Poisson => Arrival::Poisson { per_second },
            })
        }
        _ => None,
    })
}

/// Threads.
fn jobs(args: &GenerateArgs) -> usize {
    args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cpus| cpus.get()))
}

fn create_folder(args: &GenerateArgs) -> Result<()> {
    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot create the folder {}", args.output.display()))
}

/// Becomes true when the user wants to stop. A second signal ends the program at once, the default way.
fn signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// `gen`.
pub fn run(args: &GenerateArgs) -> Result<Verdict> {
    if let Some(workload) = &args.workload {
        let found = builtin::find(workload)?;
        if found.form == Form::Transactional {
            return statements::run(args, &found);
        }
    }
    let (name, properties) = properties(args)?;
    let phases = args.phase.list();
    let (load, run) = (phases.contains(&Phase::Load), phases.contains(&Phase::Run));
    let (spec, warnings) =
        WorkloadSpec::from_properties(&name, &properties, load, run).or_else(|failure| {
            report_warnings(&workload::doubts(&properties), false)?;
            Err(anyhow::Error::from(failure))
        })?;
    report_warnings(&warnings, args.properties.strict)?;
    if args.show_config {
        return show_config(&spec, &properties);
    }
    let arrival = arrival(args)?;
    let shards = shards(args)?;
    create_folder(args)?;
    let stop = signals()?;
    write_phases(args, &shards, |phase, shard, load_hash| {
        let plan = GenPlan {
            spec: &spec,
            seed: args.seed,
            phase,
            values: match args.values {
                Values::Inline => ValueMode::Inline,
                Values::Seeded => ValueMode::Seeded,
            },
            arrival: arrival.filter(|_| phase == Phase::Run),
            jobs: jobs(args),
            shard,
            load_hash,
        };
        write(&plan, args, &stop)
    })
}

/// Writes the files of every phase and shard; `write` is told the hash of the load trace when it makes
/// the run trace, and returns nothing if it was interrupted.
fn write_phases(
    args: &GenerateArgs,
    shards: &[Option<(u64, u64)>],
    mut write: impl FnMut(Phase, Option<(u64, u64)>, Option<String>) -> Result<Option<TraceMeta>>,
) -> Result<Verdict> {
    let mut load_hash = None;
    for &phase in args.phase.list() {
        let mut hash = 0u128;
        for &shard in shards {
            let Some(meta) = write(phase, shard, load_hash.clone())? else { return Ok(Verdict::Interrupted) };
            hash = hash.wrapping_add(u128::from_str_radix(&meta.content_hash, 16).unwrap_or(0));
        }
        if phase == Phase::Load && args.shard.is_none() {
            load_hash = Some(format!("{hash:032x}"));
        }
    }
    Ok(Verdict::Done)
}

/// Prints what decides the trace, defaults too, then what was set besides it.
fn show_config(spec: &WorkloadSpec, properties: &Properties) -> Result<Verdict> {
    let effective = spec.effective().iter().map(|(property, setting)| (*property, setting));
    let others =
        properties.iter().filter(|(property, _)| spec.effective().iter().all(|known| known.0 != *property));
    let mut out = std::io::stdout();
    for (property, setting) in effective.chain(others) {
        let value = visible(&redacted(property, &setting.value));
        writeln!(out, "{property}={value} ({})", setting.source)?;
    }
    Ok(Verdict::Done)
}

/// Writes one file, or finds that it is there already.
fn write(plan: &GenPlan<'_>, args: &GenerateArgs, stop: &AtomicBool) -> Result<Option<TraceMeta>> {
    let path = args.output.join(plan.file_name());
    if !args.force
        && let Some(meta) = generate::existing(plan, &path)?
    {
        return already_there(&path, meta, "operations");
    }
    let ops = plan.ops();
    let made = with_progress(plan.phase, ops.end - ops.start, |on_rows| {
        generate::generate(plan, &path, stop, on_rows)
    })?;
    finish(&path, made, |meta| {
        let mix: Vec<String> =
            meta.op_counts.iter().map(|(op, &count)| format!("{op} {}", count_text(count))).collect();
        let mix = if mix.is_empty() { String::new() } else { format!(" ({})", mix.join(", ")) };
        format!("{} operations{mix}", count_text(meta.rows))
    })
}

/// Says that the trace need not be written.
fn already_there(path: &Path, meta: TraceMeta, unit: &str) -> Result<Option<TraceMeta>> {
    let rows = count_text(meta.rows);
    say!("{} is there already, with the same content ({rows} {unit})", path.display())?;
    Ok(Some(meta))
}

/// Runs `generate`, which reports how much of `total` is done now and then.
fn with_progress<T>(phase: Phase, total: u64, generate: impl FnOnce(&mut dyn FnMut(u64)) -> T) -> T {
    let mut progress = Progress::new(&format!("gen {}", phase.name()), total, PLAIN_INTERVAL);
    let mut done = 0;
    let made = generate(&mut |more| {
        done += more;
        progress.set(done, "");
    });
    progress.finish();
    made
}

/// Says what was written (`what` of it), or that it was interrupted.
fn finish(
    path: &Path,
    made: Option<TraceMeta>,
    what: impl FnOnce(&TraceMeta) -> String,
) -> Result<Option<TraceMeta>> {
    let Some(meta) = made else {
        note!("interrupted: {} was not finished and is removed", path.display());
        return Ok(None);
    };
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    say!(
        "{}: {}, {}, seed {}, content {}",
        path.display(),
        what(&meta),
        bytes_text(bytes),
        meta.seed,
        &meta.content_hash[..16]
    )?;
    Ok(Some(meta))
}
