//! `demo`: the whole pipeline on databases that need no server. It executes the same command lines
//! that a user would type, and shows them.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser};

use super::say::say;
use super::{Cli, Verdict};

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Folder for everything the demo writes
    #[arg(long, value_name = "DIR", default_value = "demo")]
    dir: PathBuf,
}

/// `demo`.
pub fn run(args: &DemoArgs) -> Result<Verdict> {
    let dir = args.dir.display();
    std::fs::create_dir_all(args.dir.join("data"))?;
    let results = args.dir.join("results");
    let _ = std::fs::remove_dir_all(&results);
    let mut commands =
        vec![format!("ycsb-trace gen workloada --records 10000 --ops 20000 --seed 1 -o {dir}/traces")];
    for (db, file) in [("sqlite", "sqlite.db"), ("fjall", "fjall")] {
        commands.push(format!(
            "ycsb-trace replay --db {db} {dir}/traces/workloada --url {dir}/data/{file} --drop --threads 4 \
             --target 2000 --results {dir}/results"
        ));
    }
    for command in &commands {
        say!("\n$ {command}")?;
        let verdict = super::run(Cli::parse_from(command.split_whitespace()))?;
        if verdict != Verdict::Done {
            return Ok(verdict);
        }
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&results)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    files.sort();
    #[cfg(feature = "analyze")]
    {
        let runs: Vec<String> = files
            .iter()
            .map(|path| path.display().to_string())
            .filter(|path| path.contains("workloada.run"))
            .collect();
        say!("\n$ ycsb-trace analyze {}", runs.join(" "))?;
        let words = ["ycsb-trace", "analyze"].into_iter().map(str::to_owned).chain(runs);
        super::run(Cli::parse_from(words))?;
    }
    say!("\nEvery operation is in these files; any Parquet reader opens them (see analysis/README.md):")?;
    for file in &files {
        say!("  {}", file.display())?;
    }
    say!("Next: ycsb-trace inspect {dir}/traces/workloada.run.parquet, or replay --db postgres --url …")?;
    Ok(Verdict::Done)
}
