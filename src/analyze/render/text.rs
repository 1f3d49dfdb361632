//! Tables for the terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

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
                let title = wrapped(&title, page.width, "", "  ");
                let longest = title.lines().map(|line| line.chars().count()).max().unwrap_or(0);
                out.push_str(&format!("{title}{}\n", "=".repeat(longest)));
            }
            Block::Heading(heading) => {
                out.push('\n');
                out.push_str(&wrapped(&heading, page.width, "", "  "));
            }
            Block::Lines(lines) => {
                for line in lines {
                    out.push_str(&wrapped(&line, page.width, "  ", "    "));
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
/// lines is read wrongly. They are as few as fit, and about equally wide: no column is left alone.
pub(super) fn table(head: &[String], rows: &[Vec<String>], page: Page) -> String {
    let Some(width) = page.width.map(|width| usize::from(width).max(40)) else {
        return framed(head, rows, page);
    };
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].as_str()).chain([head[column].as_str()]);
        // A blank on both sides, and what stands between two columns.
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + 3
    };
    let widths: Vec<usize> = (0..head.len()).map(widest).collect();
    let fewest = parts(&widths, width).len();
    let even = (0..width).map(|narrower| parts(&widths, narrower)).find(|parts| parts.len() == fewest);
    let part = |part: Vec<usize>| {
        let cells =
            |row: &[String]| -> Vec<String> { part.iter().map(|&column| row[column].clone()).collect() };
        let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
        framed(&cells(head), &rows, page)
    };
    let parts = even.unwrap_or_else(|| parts(&widths, width));
    parts.into_iter().map(part).collect::<Vec<_>>().join("\n")
}

/// Columns of each table, the first one and as many more as fit, or one.
fn parts(widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let mut parts = vec![vec![0]];
    // There is one border more than columns.
    let mut used = widths[0] + 1;
    for (column, wide) in widths.iter().enumerate().skip(1) {
        if used + wide > width && parts.last().is_some_and(|part| part.len() > 1) {
            parts.push(vec![0]);
            used = widths[0] + 1;
        }
        parts.last_mut().expect("there is one").push(column);
        used += wide;
    }
    parts
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
    // A name in two lines looks like two rows; what is too long for a line is broken elsewhere.
    let name = head.iter().chain(rows.iter().map(|row| &row[0])).map(|cell| cell.chars().count()).max();
    let room = page.width.map_or(usize::MAX, |width| usize::from(width.max(40)) * 2 / 3);
    if let (Some(column), true) = (table.column_mut(0), name.is_some_and(|name| name <= room)) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    table.trim_fmt()
}

/// A line, broken between words; `first` stands before it, `next` before what follows.
pub(super) fn wrapped(line: &str, width: Option<u16>, first: &str, next: &str) -> String {
    let width = width.map_or(usize::MAX, |width| usize::from(width).max(40));
    let mut out = String::from(first);
    let mut column = first.len();
    for (index, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(next);
            column = next.len();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// Every cell in one line, and every line within the width, wherever the name and one more column fit.
    #[test]
    fn a_table_fits_its_width_and_breaks_no_cell() {
        let mut random = Stream::from_key(1);
        for case in 0..400 {
            let width = 40 + random.below(90) as u16;
            let columns = 2 + random.below(8) as usize;
            let mut cell = |most: u64| -> String {
                (0..1 + random.below(most)).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
            };
            let mut row = || -> Vec<String> {
                (0..columns).map(|column| cell(if column == 0 { 19 } else { 14 })).collect()
            };
            let head = row();
            let rows = [row(), row(), row()];
            let page = Page { width: Some(width) };
            let text = table(&head, &rows, page);
            assert!(
                text.lines().all(|line| line.chars().count() <= usize::from(width)),
                "{case} {width}\n{text}"
            );
            let cells = head.iter().chain(rows.iter().flatten());
            for cell in cells {
                assert!(
                    text.split([' ', '|', '\n']).any(|word| word == cell),
                    "{case} {width}: {cell}\n{text}"
                );
            }
            // It is not broken up for nothing either: one column more would not have fitted.
            let parts = text.matches("+=").count();
            let whole = framed(&head, &rows, Page { width: None });
            let fits = whole.lines().all(|line| line.chars().count() <= usize::from(width));
            assert_eq!(parts == 1, fits, "{case} {width}\n{whole}");
        }
    }

    #[test]
    fn a_long_cell_is_broken_and_the_name_beside_it_is_not() {
        let row = |name: &str, text: String| vec![name.to_owned(), text];
        let rows = [row("settings", "synchronous=off, ".repeat(10)), row("a server", "x".repeat(70))];
        let text = table(&row("", String::new()), &rows, Page { width: Some(40) });
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("| settings ") && text.contains("| a server "), "{text}");
    }
}
