//! Tables to paste into an issue or a README.

use super::Page;
use super::table::{Block, blocks};
use crate::analyze::report::Report;

pub(super) fn render(report: &Report, _page: Page) -> String {
    let mut parts = Vec::new();
    for block in blocks(report) {
        parts.push(match block {
            Block::Title(title) => format!("## {}\n", escaped(&title)),
            Block::Heading(heading) => format!("### {}\n", escaped(&heading)),
            Block::Lines(lines) => lines.iter().map(|line| format!("* {}\n", escaped(line))).collect(),
            Block::Table { head, rows } => table(&head, &rows),
        });
    }
    parts.join("\n")
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|---|{}\n", "---:|".repeat(head.len() - 1));
    std::iter::once(line(head)).chain([rule]).chain(rows.iter().map(|row| line(row))).collect()
}

/// Error messages come from databases and may hold anything.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for one in text.chars() {
        match one {
            '\n' | '\r' => out.push(' '),
            '|' | '*' | '_' | '`' | '<' | '>' | '#' | '[' | ']' | '\\' => {
                // An underscore inside a word is harmless, and READ_MODIFY_WRITE stays readable.
                if one != '_' {
                    out.push('\\');
                }
                out.push(one);
            }
            one => out.push(one),
        }
    }
    out
}
