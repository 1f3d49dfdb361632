//! Reports of YCSB and go-ycsb: what real runs printed, and what of a report a script looks for.
//! The first line of each file in `tests/golden/reports` says how it was made.

use std::path::Path;

use super::program::{Folder, Ran, Replayed};

/// What a real run of the tool printed.
pub fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/reports").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
    text.split_once('\n').expect("a line that says where it comes from").1.to_owned()
}

/// A line with every number replaced: what is left is what a script looks for.
pub fn shape(line: &str) -> String {
    let mut shape = String::new();
    for part in line.split_inclusive([' ', ',', '|', '"', '=', '[']) {
        let (value, end) = match part.char_indices().next_back() {
            Some((at, last)) if " ,|\"=[".contains(last) => part.split_at(at),
            _ => (part, ""),
        };
        let end_bracket = value.ends_with(']');
        let value = value.trim_end_matches(']');
        let number = |text: &str| {
            text.contains(|c: char| c.is_ascii_digit() || c == '∞')
                && text.chars().all(|c| c.is_ascii_digit() || ".E-∞:".contains(c))
        };
        let unit = value.trim_end_matches(|c: char| c.is_alphabetic() || c == 'µ');
        let shown = if number(value) || (number(unit) && value.ends_with('s')) { "#" } else { value };
        shape += shown;
        shape += if end_bracket { "]" } else { "" };
        shape += end;
    }
    shape
}

pub fn shapes(text: &str) -> Vec<String> {
    text.lines().map(shape).collect()
}

/// The lines of go-ycsb's output without its list of properties, whose order is random there.
pub fn without_properties(text: &str) -> String {
    let property = |line: &&str| line.starts_with('"') && line.ends_with('"');
    text.lines().filter(|line| !property(line)).collect::<Vec<_>>().join("\n")
}

/// The result file that it named on standard error.
pub fn result(ran: &Ran, folder: &Folder) -> Replayed {
    let name =
        ran.err.lines().rev().find_map(|line| line.strip_prefix("result: ")).expect("a result is named");
    let replayed = Replayed::read(&folder.path(name));
    replayed.assert_it_adds_up();
    replayed
}

/// What YCSB prints of a run with these measurements, in this order, all of them with operations that
/// succeeded: the head of a real report, and a real block under each name.
pub fn of_ycsb(measurements: &[&str]) -> Vec<String> {
    let known = shapes(&sample("ycsb-text-run-a-status.stdout.txt"));
    let of =
        |name: &str| -> Vec<String> { known.iter().filter(|line| line.starts_with(name)).cloned().collect() };
    let mut expected = [of("[OVERALL]"), of("[TOTAL_GC")].concat();
    for name in measurements {
        // These have no statuses of their own.
        let bare = ["CLEANUP", "READ-MODIFY-WRITE", "SCAN-LATENCY-PER-RECORD"].contains(name);
        let block = of(if bare { "[CLEANUP]" } else { "[READ]" });
        expected.extend(
            block.iter().map(|line| format!("[{name}]{}", &line[line.find(']').expect("a name") + 1..])),
        );
    }
    expected
}

/// YCSB's workloads in the order of its manual, which loads for the first and again for the last, and the
/// measurements of each in the order in which YCSB prints them (that of its hash map).
pub const YCSB: [(&str, &[&str]); 6] = [
    ("workloada", &["READ", "CLEANUP", "UPDATE"]),
    ("workloadb", &["READ", "CLEANUP", "UPDATE"]),
    ("workloadc", &["READ", "CLEANUP"]),
    ("workloadf", &["READ", "READ-MODIFY-WRITE", "CLEANUP", "UPDATE"]),
    ("workloadd", &["READ", "CLEANUP", "INSERT"]),
    ("workloade", &["CLEANUP", "SCAN-LATENCY-PER-RECORD", "INSERT", "SCAN"]),
];

/// What go-ycsb prints of a run at its end with these measurements, by a real report.
pub fn of_go_ycsb(measurements: &[&str]) -> Vec<String> {
    let known = shapes(&sample("go-ycsb-run-f-plain.stdout.txt"));
    let total = known.iter().find(|line| line.starts_with("TOTAL  - ")).expect("a total");
    let line = |name: &&str| format!("{name:<6}{}", &total[6..]);
    std::iter::once("Run finished, takes #".to_owned()).chain(measurements.iter().map(line)).collect()
}

/// The measurements of go-ycsb's workloads.
pub const GO_YCSB: [(&str, &[&str]); 6] = [
    ("workloada", &["READ", "TOTAL", "UPDATE"]),
    ("workloadb", &["READ", "TOTAL", "UPDATE"]),
    ("workloadc", &["READ", "TOTAL"]),
    ("workloadd", &["INSERT", "READ", "TOTAL"]),
    ("workloade", &["INSERT", "SCAN", "TOTAL"]),
    ("workloadf", &["READ", "READ_MODIFY_WRITE", "TOTAL", "UPDATE"]),
];

/// The end of go-ycsb's output.
pub fn end_of_go_ycsb(text: &str) -> Vec<String> {
    let from = text.lines().position(|line| line.starts_with("Run finished")).expect("an end");
    text.lines().skip(from).map(shape).collect()
}

/// The number of operations under a name in YCSB's report.
#[track_caller]
pub fn operations(report: &str, name: &str) -> usize {
    let begin = format!("[{name}], Operations, ");
    let line = report.lines().find_map(|line| line.strip_prefix(&begin));
    line.unwrap_or_else(|| panic!("no {begin} in {report}")).parse().expect("a number")
}
