//! What other tools wrote about their runs, as rows and histograms of ours, and back.
//!
//! Nothing is invented: a log of raw latencies has no due times, no connections and no error codes,
//! so those stay unknown; an HdrHistogram log has no rows at all, so it becomes histograms only.
//! `analysis/README.md` says what each format lacks.

pub mod go_csv;
pub mod hdr_log;
pub mod ycsb_raw;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::op::{OpKind, Status};

/// A file that cannot be imported. The first line that makes no sense ends the import: rows left out
/// silently would be worse than none.
#[derive(Debug, Error)]
pub enum ImportError {
    /// It cannot be opened or read.
    #[error("cannot read {path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        cause: std::io::Error,
    },
    /// A line is not what the format says.
    #[error("{path}:{line}: {what}: {text:?}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What was expected.
        what: String,
        /// The line, or its beginning.
        text: String,
    },
    /// The file as a whole is not what the format says.
    #[error("{path}: {what}")]
    Whole {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to try.
        what: String,
    },
}

/// One measured operation: what it was, when it ran (since the Unix epoch) and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// Which kind, and how it ended.
    pub measurement: Measurement<'a>,
    /// Start, ns since the epoch.
    pub start_ns: u64,
    /// End, ns since the epoch.
    pub end_ns: u64,
}

/// What the name of a measurement says: `READ`, `UPDATE-FAILED`, `READ_ERROR`, `INSERT-NOT_FOUND` …
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement<'a> {
    /// Kind of the operation.
    pub kind: OpKind,
    /// How it ended, as far as the name tells.
    pub status: Status,
    /// The tool's own word for the failure; empty if it has none.
    pub code: &'a str,
}

/// Kinds by the names of YCSB and go-ycsb. The longer one first, where one begins another.
const KINDS: &[(&str, OpKind)] = &[
    ("READ-MODIFY-WRITE", OpKind::ReadModifyWrite),
    ("READ_MODIFY_WRITE", OpKind::ReadModifyWrite),
    ("READ", OpKind::Read),
    ("UPDATE", OpKind::Update),
    ("INSERT", OpKind::Insert),
    ("SCAN", OpKind::Scan),
    ("DELETE", OpKind::Delete),
];

/// YCSB's words for how an operation ended, and Riak's.
const STATUSES: &[(&str, Status)] = &[
    ("OK", Status::Ok),
    ("BATCHED_OK", Status::Ok),
    ("NOT_FOUND", Status::NotFound),
    ("SERVICE_UNAVAILABLE", Status::Unavailable),
    ("TIME_OUT", Status::Timeout),
    ("NOT_IMPLEMENTED", Status::Unsupported),
    ("BAD_REQUEST", Status::Rejected),
    ("FORBIDDEN", Status::Rejected),
];

impl Measurement<'_> {
    /// Reads a name; none if it measures something else (`CLEANUP`, `TOTAL`, `VERIFY`,
    /// `SCAN-LATENCY-PER-RECORD`, `BATCH_INSERT` …).
    pub fn from_name(name: &str) -> Option<Measurement<'_>> {
        let &(prefix, kind) = KINDS.iter().find(|(prefix, _)| name.starts_with(prefix))?;
        let rest = &name[prefix.len()..];
        let (status, code) = match rest {
            "" => (Status::Ok, ""),
            "-FAILED" | "_ERROR" => (Status::Error, ""),
            "-LATENCY-PER-RECORD" => return None,
            _ => {
                let code = rest.strip_prefix('-').filter(|code| !code.is_empty())?;
                let known = STATUSES.iter().find(|(word, _)| *word == code);
                let status = known.map_or(Status::Error, |(_, status)| *status);
                (status, if status == Status::Ok { "" } else { code })
            }
        };
        Some(Measurement { kind, status, code })
    }
}

/// Hands every line, without its end, to `each`; a complaint gets the file and the number.
fn each_line(path: &Path, mut each: impl FnMut(&str) -> Result<(), String>) -> Result<(), ImportError> {
    let io = |cause| ImportError::Io { path: path.to_owned(), cause };
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_dir() {
        return Err(io(std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder")));
    }
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut bytes = Vec::new();
    let mut line = 0;
    loop {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(io)? == 0 {
            return Ok(());
        }
        line += 1;
        let wrong = |what: String| {
            let text = String::from_utf8_lossy(&bytes).trim_end().chars().take(120).collect();
            ImportError::Line { path: path.to_owned(), line, what, text }
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("it is not text (UTF-8)".to_owned()))?;
        each(text.trim_end_matches(['\n', '\r'])).map_err(wrong)?;
    }
}

/// `name,number,number`.
fn fields(line: &str) -> Option<(&str, u64, u64)> {
    let mut fields = line.split(',');
    let name = fields.next()?;
    let time = fields.next()?.trim().parse().ok()?;
    let latency = fields.next()?.trim().parse().ok()?;
    (fields.next().is_none() && !name.is_empty()).then_some((name, time, latency))
}

/// A product of a time in a file, if it is one that can be: before the year 2262 in nanoseconds.
fn scaled(value: u64, unit_ns: u64) -> Result<u64, String> {
    value
        .checked_mul(unit_ns)
        .filter(|&ns| ns <= i64::MAX as u64)
        .ok_or_else(|| format!("{value} is no time that this program can keep"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_measurements_say_kind_and_ending() {
        let read = |name| Measurement::from_name(name).map(|one| (one.kind, one.status, one.code));
        assert_eq!(read("READ"), Some((OpKind::Read, Status::Ok, "")));
        assert_eq!(read("READ-MODIFY-WRITE"), Some((OpKind::ReadModifyWrite, Status::Ok, "")));
        assert_eq!(read("READ_MODIFY_WRITE_ERROR"), Some((OpKind::ReadModifyWrite, Status::Error, "")));
        assert_eq!(read("UPDATE-FAILED"), Some((OpKind::Update, Status::Error, "")));
        assert_eq!(read("READ-NOT_FOUND"), Some((OpKind::Read, Status::NotFound, "NOT_FOUND")));
        assert_eq!(read("INSERT-TIME_OUT"), Some((OpKind::Insert, Status::Timeout, "TIME_OUT")));
        assert_eq!(read("SCAN-UNEXPECTED_STATE"), Some((OpKind::Scan, Status::Error, "UNEXPECTED_STATE")));
        for other in ["CLEANUP", "TOTAL", "VERIFY", "SCAN-LATENCY-PER-RECORD", "BATCH_INSERT", "READS", ""] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
