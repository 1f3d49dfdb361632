//! `repair`: a result from the closed segments of a replay that was killed.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::Verdict;
use super::progress::count_text;
use super::say::say;
use crate::replay::recorder::Tally;
use crate::trace::runs;

/// Arguments of `repair`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Results folder, or the result file that was to be
    #[arg(default_value = "results")]
    path: PathBuf,
}

/// `repair`.
pub fn run(args: &RepairArgs) -> Result<Verdict> {
    let unfinished = runs::unfinished(&args.path)?;
    if unfinished.is_empty() {
        say!("{}: nothing to repair, no replay was cut off here", args.path.display())?;
    }
    let mut running = Vec::new();
    for run in unfinished {
        if run.is_running {
            running.push(run.target.display().to_string());
            continue;
        }
        let mut tally = Tally::default();
        run.scan(|rows| {
            for row in 0..rows.kinds.len() {
                let intended_ns = rows.intended_ns[row] as u64;
                tally.add(
                    rows.kinds[row],
                    rows.statuses[row],
                    intended_ns,
                    rows.start_ns[row],
                    rows.end_ns[row],
                );
            }
        })?;
        let mut meta = run.meta.clone();
        tally.fill(&mut meta);
        meta.elapsed_ns = tally.last_end_ns;
        meta.complete = meta.rows == meta.trace_rows;
        meta.ended_because = "killed; repaired from its segments".to_owned();
        let path = run.finish(&meta)?;
        say!(
            "{}: {} of {} operations kept, {} missing (not executed, or in flight or unsaved when it was killed)",
            path.display(),
            count_text(meta.rows),
            count_text(meta.trace_rows),
            count_text(meta.trace_rows - meta.rows)
        )?;
    }
    if !running.is_empty() {
        bail!(
            "the replay that writes {} is still running; let it end, or stop it with Ctrl-C, which keeps its result",
            running.join(" and ")
        );
    }
    Ok(Verdict::Done)
}
