//! `gen` of a transactional workload.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};

use super::{GenerateArgs, Values, arrival, shards, signals};
use crate::cli::Verdict;
use crate::cli::progress::{PLAIN_INTERVAL, Progress, bytes_text, count_text};
use crate::cli::say::{note, say};
use crate::generate::statements::{self, StatementPlan};
use crate::trace::meta::{Phase, TraceMeta};
use crate::workload::Properties;
use crate::workload::builtin::Found;
use crate::workload::oltp::OltpSpec;

/// Writes the trace files of a transactional workload.
pub fn run(args: &GenerateArgs, found: &Found) -> Result<Verdict> {
    let spec = spec(args, found)?;
    for warning in &spec.warnings {
        note!("warning: {warning}");
    }
    if args.properties.strict && !spec.warnings.is_empty() {
        bail!("{} warning(s) about settings, and --strict was given", spec.warnings.len());
    }
    if args.show_config {
        for (name, setting) in spec.options.effective() {
            say!("{name}={} ({})", setting.value, setting.source)?;
        }
        return Ok(Verdict::Done);
    }
    if args.values == Values::Seeded {
        bail!("--values seeded: the parameters of statements are always stored as they are");
    }
    let arrival = arrival(args)?;
    let shards = shards(args)?;
    super::create_folder(args)?;
    let stop = signals()?;
    let mut load_hash = None;
    for &phase in args.phase.list() {
        let mut hash = 0u128;
        for &shard in &shards {
            let plan = StatementPlan {
                spec: &spec,
                seed: args.seed,
                phase,
                transactions: spec.transactions,
                arrival: arrival.filter(|_| phase == Phase::Run),
                jobs: super::jobs(args),
                shard,
                load_hash: load_hash.clone(),
            };
            let Some(meta) = write(&plan, args, &stop)? else { return Ok(Verdict::Interrupted) };
            hash = hash.wrapping_add(u128::from_str_radix(&meta.content_hash, 16).unwrap_or(0));
        }
        if phase == Phase::Load && args.shard.is_none() {
            load_hash = Some(format!("{hash:032x}"));
        }
    }
    Ok(Verdict::Done)
}

/// The workload with every setting on top of it.
fn spec(args: &GenerateArgs, found: &Found) -> Result<OltpSpec> {
    let mut settings = Properties::new();
    args.properties.read_into(&mut settings)?;
    if args.theta.is_some() || args.zipf.is_some() || args.keys.is_some() {
        bail!(
            "--keys, --zipf and --theta belong to YCSB's workloads; here it is -p rand-type=zipfian -p rand-zipfian-exp=…"
        );
    }
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let flags = [
        ("table-size", number(args.records)),
        ("operationcount", number(args.ops)),
        ("events", number(args.ops)),
        ("tables", number(args.tables)),
        ("table-size", number(args.table_size)),
        ("rand-type", args.rand_type.clone()),
    ];
    for (name, value) in flags {
        if let Some(value) = value {
            settings.set(name, &value);
        }
    }
    Ok(OltpSpec::parse(&found.name, &found.label, &found.bytes, &settings)?)
}

/// Writes one file, or finds that it is there already.
fn write(plan: &StatementPlan<'_>, args: &GenerateArgs, stop: &Arc<AtomicBool>) -> Result<Option<TraceMeta>> {
    let path = args.output.join(plan.file_name());
    if !args.force
        && let Some(meta) = statements::existing(plan, &path)?
    {
        let rows = count_text(meta.rows);
        say!("{} is there already, with the same content ({rows} statements)", path.display())?;
        return Ok(Some(meta));
    }
    let part = plan.part();
    let title = format!("gen {}", plan.phase.name());
    let mut progress = Progress::new(&title, part.end - part.start, PLAIN_INTERVAL);
    let mut done = 0;
    let made = statements::generate(plan, &path, stop, |transactions| {
        done += transactions;
        progress.set(done, "");
    });
    progress.finish();
    let Some(meta) = made? else {
        note!("interrupted: {} was not finished and is removed", path.display());
        return Ok(None);
    };
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    let what = match plan.phase {
        Phase::Load => format!(
            "{} rows for {} table(s) in {} statements",
            count_text(plan.spec.table_rows()),
            plan.spec.schema.tables.len(),
            count_text(meta.rows)
        ),
        Phase::Run => format!(
            "{} transactions, {} statements",
            count_text(meta.transactions.unwrap_or(0)),
            count_text(meta.rows)
        ),
    };
    say!(
        "{}: {what}, {}, seed {}, content {}",
        path.display(),
        bytes_text(bytes),
        meta.seed,
        &meta.content_hash[..16]
    )?;
    Ok(Some(meta))
}
