//! `gen` of a transactional workload.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};

use super::{GenerateArgs, Values, arrival, shards, signals};
use crate::cli::Verdict;
use crate::cli::progress::count_text;
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
    super::write_phases(args, &shards, |phase, shard, load_hash| {
        let plan = StatementPlan {
            spec: &spec,
            seed: args.seed,
            phase,
            transactions: spec.transactions,
            arrival: arrival.filter(|_| phase == Phase::Run),
            jobs: super::jobs(args),
            shard,
            load_hash,
        };
        write(&plan, args, &stop)
    })
}

/// The workload with every setting on top of it.
fn spec(args: &GenerateArgs, found: &Found) -> Result<OltpSpec> {
    let mut settings = Properties::new();
    args.properties.read_into(&mut settings)?;
    if args.theta.is_some() || args.zipf.is_some() || args.keys.is_some() {
        bail!(
            "--keys, --zipf and --theta belong to YCSB's workloads; here it is --rand-type zipfian --rand-zipfian-exp …"
        );
    }
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    if let Some(ops) = number(args.ops) {
        settings.set("events", &ops);
    }
    if let Some(records) = number(args.records) {
        settings.set_flag("table-size", &records, "records");
    }
    for (known, value) in &args.options.0 {
        settings.set_flag(known.name, value, known.name);
    }
    Ok(OltpSpec::parse(&found.name, &found.label, &found.bytes, &settings)?)
}

/// Writes one file, or finds that it is there already.
fn write(plan: &StatementPlan<'_>, args: &GenerateArgs, stop: &Arc<AtomicBool>) -> Result<Option<TraceMeta>> {
    let path = args.output.join(plan.file_name());
    if !args.force
        && let Some(meta) = statements::existing(plan, &path)?
    {
        return super::already_there(&path, meta, "statements");
    }
    let part = plan.part();
    let made = super::with_progress(plan.phase, part.end - part.start, |on_transactions| {
        statements::generate(plan, &path, stop, on_transactions)
    })?;
    super::finish(&path, made, |meta| match plan.phase {
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
    })
}
