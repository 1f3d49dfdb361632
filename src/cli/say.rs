//! Words on the two standard streams. `println!` and `eprintln!` panic when nobody can be told any
//! more (`replay 2>&1 | head`, a full disk), and would take a replay of hours with them.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// A line on standard output. A reader that has seen enough is no error, and no reason to end.
pub fn out(line: Arguments<'_>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}") {
        Err(cause) if cause.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// A line on standard error; if that fails, there is nobody left to tell.
pub fn err(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a line on standard output: [`out`].
macro_rules! say {
    ($($words:tt)*) => { $crate::cli::say::out(format_args!($($words)*)) };
}

/// Prints a line on standard error: [`err`].
macro_rules! note {
    ($($words:tt)*) => { $crate::cli::say::err(format_args!($($words)*)) };
}

pub(crate) use {note, say};
