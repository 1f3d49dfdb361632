//! The `ycsb-trace` program: parse, run, report; errors become exit codes here.

use std::process::ExitCode;
use std::sync::Arc;

use ycsb_trace::cli::{self, Cli};

/// Blocks of columns are made and freed all the time. The C library gives large ones back to the
/// kernel, which then zeroes every page again; this allocator keeps them (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The stack that the first thread of a process has by default.
const STACK_BYTES: usize = 8 << 20;

/// The work is done on a second thread: a Java machine (`--db jdbc`) leaves the first one 1 MB of its stack and
/// guards the rest, where an analysis that went deeper ended the program.
fn main() -> ExitCode {
    report_full_disks();
    match std::thread::Builder::new().name("main".to_owned()).stack_size(STACK_BYTES).spawn(work) {
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(PANICKED)),
        Err(_) => work(),
    }
}

/// The exit code after a panic, as Rust has it.
const PANICKED: u8 = 101;

fn work() -> ExitCode {
    let outcome = cli::run(Cli::understand(std::env::args_os()).unwrap_or_else(|complaint| complaint.exit()));
    if let Err(failure) = &outcome {
        if is_broken_pipe(failure) {
            return ExitCode::SUCCESS;
        }
        cli::say::err(format_args!("error: {failure:#}"));
    }
    ExitCode::from(cli::exit_code(&outcome))
}

/// Writing beyond a limit on the size of files (`ulimit -f`) sends a signal that ends a program
/// without a word. With any handler for it the write fails instead, and that is reported like a
/// full disk.
fn report_full_disks() {
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Somebody closed our standard output, as `head` does: no error.
fn is_broken_pipe(failure: &anyhow::Error) -> bool {
    failure
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
