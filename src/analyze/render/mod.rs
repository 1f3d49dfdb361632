//! The forms of a report. A format is a file here and a row in [`FORMATS`]; it sees the report and
//! nothing else.

mod answer;
mod csv;
pub mod go_ycsb;
pub mod html;
mod json;
mod markdown;
mod names;
mod spark;
mod table;
mod text;
pub mod transactions;
mod verdicts;
mod ycsb;

use super::report::Report;
pub use crate::units;

/// What the reader's screen is like.
#[derive(Debug, Clone, Copy, Default)]
pub struct Page {
    /// Characters per line; none = as wide as it takes.
    pub width: Option<u16>,
}

/// One format of `--format`.
pub struct FormatRow {
    /// As on the command line.
    pub name: &'static str,
    /// What it is good for.
    pub about: &'static str,
    /// The whole output, ending with a line feed.
    pub render: fn(&Report, Page) -> String,
}

/// Every format.
pub static FORMATS: &[FormatRow] = &[
    FormatRow { name: "text", about: "tables for the terminal", render: text::render },
    FormatRow { name: "markdown", about: "tables to paste into an issue", render: markdown::render },
    FormatRow {
        name: "json",
        about: "everything, for programs (schema: analysis/README.md)",
        render: json::render,
    },
    FormatRow { name: "ycsb", about: "as YCSB prints it, for scripts that parse that", render: ycsb::render },
    FormatRow { name: "go-ycsb", about: "as go-ycsb prints it", render: go_ycsb::render },
    FormatRow { name: "csv", about: "one line per number, for spreadsheets", render: csv::render },
];

/// The format of this name.
pub fn format(name: &str) -> Option<&'static FormatRow> {
    FORMATS.iter().find(|format| format.name == name)
}
