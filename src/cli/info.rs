//! What there is: databases, workloads, completions, the manual page.

use std::io::Write;

use anyhow::{Result, bail};
use clap::{Args, CommandFactory};
use comfy_table::{Table, presets};

use super::{Cli, Verdict};
use crate::driver;
use crate::workload::builtin;

/// Arguments of `databases`.
#[derive(Debug, Args)]
pub struct DatabasesArgs {
    /// Show the options of this one
    name: Option<String>,
}

/// `databases`.
pub fn databases(args: &DatabasesArgs) -> Result<Verdict> {
    let mut table = Table::new();
    // In a terminal as wide as it is; elsewhere as wide as the longest line.
    table.load_preset(presets::NOTHING).set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    let Some(name) = &args.name else {
        table.set_header(["--db", "also", "default address", "what it is"]);
        for kind in driver::kinds() {
            table.add_row([kind.names[0], &kind.names[1..].join(", "), kind.default_address, kind.about]);
        }
        writeln!(std::io::stdout(), "{table}")?;
        return Ok(Verdict::Done);
    };
    let Some(kind) = driver::kinds().find(|kind| kind.names.contains(&name.as_str())) else {
        let known: Vec<_> = driver::kinds().map(|kind| kind.names[0]).collect();
        bail!("no database is called {name:?}; there are {}", known.join(", "));
    };
    let mut out = std::io::stdout();
    writeln!(out, "{}: {}", kind.names.join(", "), kind.about)?;
    writeln!(out, "default address: {}", kind.default_address)?;
    for (what, words) in kind.defaults {
        writeln!(out, "{what}: {words}")?;
    }
    writeln!(out, "tested against: {}", kind.tested_against)?;
    writeln!(out, "example: {}", kind.example)?;
    table.set_header(["property (-p)", "default", "meaning"]);
    for (option, default, meaning) in kind.options {
        table.add_row([*option, *default, *meaning]);
    }
    writeln!(out, "{table}")?;
    Ok(Verdict::Done)
}

/// Arguments of `workloads`.
#[derive(Debug, Args)]
pub struct WorkloadsArgs {
    /// Print the file of this one
    name: Option<String>,
}

/// `workloads`.
pub fn workloads(args: &WorkloadsArgs) -> Result<Verdict> {
    let mut out = std::io::stdout();
    match &args.name {
        None => {
            for (name, text) in builtin::BUILTIN.iter().chain(builtin::TRANSACTIONAL) {
                let about = text.lines().next().unwrap_or_default().trim_start_matches('#').trim();
                writeln!(out, "{name:<22} {about}")?;
            }
        }
        Some(name) => out.write_all(&builtin::find(name)?.bytes)?,
    }
    Ok(Verdict::Done)
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    shell: clap_complete::Shell,
}

/// `completions`.
pub fn completions(args: &CompletionsArgs) -> Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ycsb-trace", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Verdict::Done)
}

/// `man`.
pub fn man() -> Result<Verdict> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    std::io::stdout().write_all(&page)?;
    Ok(Verdict::Done)
}
