//! The command line: raw flags in, a plan out, and whatever a person sees. One file per subcommand;
//! all checks between flags happen here, none further in.

#[cfg(feature = "analyze")]
pub mod analyze;
#[cfg(feature = "analyze")]
pub mod compat;
pub mod demo;
pub mod gate;
pub mod generate;
pub mod import;
pub mod info;
pub mod inspect;
pub mod progress;
pub mod repair;
pub mod replay;
pub mod say;
pub mod settings;
pub mod verify;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::driver::TargetError;
use crate::replay::ResultLost;

/// Record, replay and analyse YCSB traces: the same operations on every database, every operation
/// kept.
#[derive(Debug, Parser)]
#[command(name = "ycsb-trace", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Exit codes: 0 done · 1 done, but a gate or the disk said no · 2 the request is wrong · \
3 the database cannot be used · 130 interrupted (results kept)

The three commands of a benchmark:
  ycsb-trace gen workloadd
  ycsb-trace replay --db cockroach --url postgres://root@localhost:26257/defaultdb
  ycsb-trace analyze results/*.parquet")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate the operations of a workload into trace files
    #[command(name = "gen")]
    Generate(generate::GenerateArgs),
    /// Execute a trace against a database and keep every operation
    Replay(replay::ReplayArgs),
    /// Load a table by a command line of YCSB or go-ycsb, with that tool's report
    #[cfg(feature = "analyze")]
    Load(compat::CompatArgs),
    /// Run a workload by a command line of YCSB or go-ycsb, with that tool's report
    #[cfg(feature = "analyze")]
    Run(compat::CompatArgs),
    /// Compute percentiles and compare results
    #[cfg(feature = "analyze")]
    Analyze(analyze::AnalyzeArgs),
    /// Decide whether what a replay with --verify saw can be right
    Verify(verify::VerifyArgs),
    /// Show what a trace or result file is
    Inspect(inspect::InspectArgs),
    /// Make a result of what another tool logged about its run
    Import(import::ImportArgs),
    /// Make results from the segments of a replay that was killed
    Repair(repair::RepairArgs),
    /// Generate, replay on two embedded databases and compare, in under a minute
    Demo(demo::DemoArgs),
    /// List the databases, or the options of one
    Databases(info::DatabasesArgs),
    /// List the built-in workloads, or print one
    Workloads(info::WorkloadsArgs),
    /// Print completions for a shell
    Completions(info::CompletionsArgs),
    /// Print the manual page (roff)
    Man,
}

impl Cli {
    /// Understands the words of a command line; `load` and `run` also as YCSB writes them.
    pub fn understand<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Result<Cli, clap::Error> {
        let words = words.into_iter().map(Into::into).collect();
        #[cfg(feature = "analyze")]
        let words = compat::words::in_our_form(words);
        let words: Vec<OsString> = words;
        Cli::try_parse_from(words)
    }
}

/// How a command that did its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As asked.
    Done,
    /// Done, but a gate said no.
    Refused,
    /// Ended by a signal; what was done is kept.
    Interrupted,
}

/// Executes a parsed command line.
pub fn run(cli: Cli) -> anyhow::Result<Verdict> {
    match cli.command {
        Command::Generate(args) => generate::run(&args),
        Command::Replay(args) => replay::run(&args),
        #[cfg(feature = "analyze")]
        Command::Load(args) => compat::run(&args, crate::trace::meta::Phase::Load),
        #[cfg(feature = "analyze")]
        Command::Run(args) => compat::run(&args, crate::trace::meta::Phase::Run),
        #[cfg(feature = "analyze")]
        Command::Analyze(args) => analyze::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Databases(args) => info::databases(&args),
        Command::Workloads(args) => info::workloads(&args),
        Command::Completions(args) => info::completions(&args),
        Command::Man => info::man(),
    }
}

/// The exit code of a command: the only place where codes are decided.
pub fn exit_code(outcome: &anyhow::Result<Verdict>) -> u8 {
    match outcome {
        Ok(Verdict::Done) => 0,
        Ok(Verdict::Refused) => 1,
        Ok(Verdict::Interrupted) => 130,
        Err(failure) if failure.is::<ResultLost>() => 1,
        Err(failure) => match failure.downcast_ref::<TargetError>() {
            Some(TargetError::Unusable(_)) => 3,
            _ => 2,
        },
    }
}

/// `250ms`, `1.5s`, `2m`, `1h`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write for example 250ms, 10s or 2m");
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let value: f64 = text[..unit_at].trim().parse().map_err(|_| wrong())?;
    let seconds = match &text[unit_at..] {
        "us" => value / 1e6,
        "ms" => value / 1e3,
        "" | "s" => value,
        "m" => value * 60.0,
        "h" => value * 3600.0,
        _ => return Err(wrong()),
    };
    std::time::Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units_and_bare_numbers_are_seconds() {
        assert_eq!(parse_duration("1.5s").unwrap().as_millis(), 1500);
        assert_eq!(parse_duration("250ms").unwrap().as_millis(), 250);
        assert_eq!(parse_duration("2").unwrap().as_secs(), 2);
        assert!(parse_duration("-1s").is_err());
        assert!(parse_duration("soon").unwrap_err().contains("\"soon\""));
    }
}
