//! The `ycsb-trace` program: parse, run, report; errors become exit codes here.

use std::process::ExitCode;

use clap::Parser;
use ycsb_trace::cli::{self, Cli};

fn main() -> ExitCode {
    let outcome = cli::run(Cli::parse());
    if let Err(failure) = &outcome {
        if is_broken_pipe(failure) {
            return ExitCode::SUCCESS;
        }
        eprintln!("error: {failure:#}");
    }
    ExitCode::from(cli::exit_code(&outcome))
}

/// Somebody closed our standard output, as `head` does: no error.
fn is_broken_pipe(failure: &anyhow::Error) -> bool {
    failure
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
