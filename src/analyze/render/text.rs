//! Tables for the terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::Page;
use super::table::{Block, blocks};
use crate::analyze::report::Report;

pub(super) fn render(report: &Report, page: Page) -> String {
    let mut out = String::new();
    for block in blocks(report) {
        match block {
            Block::Title(title) => {
                if !out.is_empty() {
                    out.push('\n');
                }
                let underline = "=".repeat(title.chars().count());
                out.push_str(&format!("{title}\n{underline}\n"));
            }
            Block::Heading(heading) => out.push_str(&format!("\n{heading}\n")),
            Block::Lines(lines) => {
                for line in lines {
                    out.push_str(&wrapped(&line, page.width));
                }
            }
            Block::Table { head, rows } => {
                out.push_str(&table(&head, &rows, page));
                out.push('\n');
            }
        }
    }
    out
}

/// A table. One that is too wide becomes several, each with the first column: a number broken over two
/// lines is read wrongly.
fn table(head: &[String], rows: &[Vec<String>], page: Page) -> String {
    let width = page.width.map_or(usize::MAX, |width| usize::from(width).max(40));
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].as_str()).chain([head[column].as_str()]);
        // A border or a blank on both sides.
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + 2
    };
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for column in 1..head.len() {
        let wide = widest(column);
        if used.saturating_add(wide) > width || parts.is_empty() {
            parts.push(vec![0]);
            used = widest(0) + 2;
        }
        parts.last_mut().expect("just pushed").push(column);
        used += wide;
    }
    if parts.is_empty() {
        return framed(head, rows, page);
    }
    let part = |part: &Vec<usize>| {
        let cells =
            |row: &[String]| -> Vec<String> { part.iter().map(|&column| row[column].clone()).collect() };
        let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
        framed(&cells(head), &rows, page)
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n")
}

fn framed(head: &[String], rows: &[Vec<String>], page: Page) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_BORDERS_ONLY_CONDENSED).force_no_tty().set_header(head);
    match page.width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.max(40)),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    rows.iter().for_each(|row| {
        table.add_row(row);
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A line, broken between words; what follows is indented.
fn wrapped(line: &str, width: Option<u16>) -> String {
    let width = width.map_or(usize::MAX, |width| usize::from(width).max(40));
    let mut out = String::from("  ");
    let mut column = 2;
    for (index, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            out.push_str("\n    ");
            column = 4;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}
