//! Files recorded by earlier versions of this program are read by today's, and today's program
//! still makes the same operations.
//!
//! The snapshots say what is in a file, row by row. If one changes without the file, the format has
//! drifted: raise its version (see `traces/README.md`) instead of accepting the new text.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use parquet::file::reader::{FileReader, SerializedFileReader};
use ycsb_trace::cli::{self, Cli, Verdict};
use ycsb_trace::trace::meta::TraceMeta;
use ycsb_trace::trace::ops::{OpBlock, TraceReader};
use ycsb_trace::trace::runs::RunFile;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn footer(meta: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(meta).expect("a footer is plain data")
}

/// A trace as text, through the reader that a replay uses.
fn trace_text(path: &Path) -> String {
    let mut reader = TraceReader::open(path).expect("a golden trace is readable");
    let mut text = footer(reader.meta()) + "\n";
    let mut rows = 0;
    while let Some(block) = reader.next_block().expect("a golden trace is readable to its end") {
        for row in 0..block.len() {
            writeln!(text, "{}", row_text(&block, row)).expect("writing to memory");
            rows += 1;
        }
    }
    assert_eq!(reader.meta().rows, rows);
    text
}

fn row_text(block: &OpBlock, row: usize) -> String {
    let mut text = format!("{} {} {}", block.id(row), block.kind(row).name(), block.key(row));
    if let Some(numbers) = block.field_numbers(row) {
        text += &format!(" fields {numbers:?}");
    }
    if let Some(values) = block.inline_values(row) {
        let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value).into_owned()).collect();
        text += &format!(" values {values:?}");
    }
    if let Some((seed, lens)) = block.seeded_values(row) {
        text += &format!(" value_seed {} value_lens {lens:?}", seed.cast_signed());
    }
    if block.scan_len(row) > 0 {
        text += &format!(" scan_len {}", block.scan_len(row));
    }
    if let Some(at_ns) = block.at_ns(row) {
        text += &format!(" at_ns {at_ns}");
    }
    if let Some(after) = block.after(row) {
        text += &format!(" after {after}");
    }
    if let Some(txn) = block.txn(row) {
        text += &format!(" txn {txn}");
    }
    text
}

/// A result as text: every column as any Parquet reader sees it.
fn result_text(path: &Path) -> String {
    let file = std::fs::File::open(path).expect("a golden result");
    let reader = SerializedFileReader::new(file).expect("a golden result is Parquet");
    let mut text = footer(&RunFile::open(path).expect("a golden result is readable").meta) + "\n";
    for row in reader.get_row_iter(None).expect("rows") {
        writeln!(text, "{}", row.expect("a row")).expect("writing to memory");
    }
    text
}

#[test]
fn an_inline_load_trace_of_version_1_is_readable() {
    insta::assert_snapshot!(trace_text(&golden("traces/golden/v1/workloada.load.parquet")));
}

#[test]
fn an_inline_run_trace_of_version_1_is_readable() {
    insta::assert_snapshot!(trace_text(&golden("traces/golden/v1/workloada.run.parquet")));
}

#[test]
fn a_seeded_trace_with_arrivals_and_dependencies_of_version_1_is_readable() {
    insta::assert_snapshot!(trace_text(&golden("traces/golden/v1/workloadd.run.parquet")));
}

#[test]
fn a_trace_of_version_1_without_operations_is_readable() {
    insta::assert_snapshot!(trace_text(&golden("traces/golden/v1/workloadc.run.parquet")));
}

#[test]
fn a_statement_trace_of_version_1_is_readable() {
    insta::assert_snapshot!(trace_text(&golden("traces/golden/v1/oltp_read_write.run.parquet")));
}

#[test]
fn a_result_of_version_1_with_a_stall_is_readable() {
    insta::assert_snapshot!(result_text(&golden("tests/golden/results/v1/workloadd.run-sim.parquet")));
}

#[test]
fn a_result_of_version_1_with_failures_is_readable() {
    insta::assert_snapshot!(result_text(&golden("tests/golden/results/v1/workloadd.run-sqlite.parquet")));
}

/// Version 2 has the column `read_end_ns`.
#[test]
fn a_result_of_version_2_says_when_the_reads_of_read_modify_writes_ended() {
    insta::assert_snapshot!(result_text(&golden("tests/golden/results/v2/workloadf.run-sqlite.parquet")));
}

/// What analyze reads is what the columns say.
#[test]
fn the_rows_of_a_result_are_read_as_they_are() {
    for name in ["v1/workloadd.run-sim", "v1/workloadd.run-sqlite", "v2/workloadf.run-sqlite"] {
        let path = golden(&format!("tests/golden/results/{name}.parquet"));
        let file = RunFile::open(&path).expect("a golden result is readable");
        let mut read = String::new();
        for group in 0..file.row_groups() {
            file.scan(group, |rows| {
                for row in 0..rows.op_id.len() {
                    let (kind, status) = (rows.kinds[row].name(), rows.statuses[row].name());
                    let times = [rows.intended_ns[row] as u64, rows.start_ns[row], rows.end_ns[row]];
                    writeln!(read, "{} {kind} {status} {times:?}", rows.op_id[row])
                        .expect("writing to memory");
                }
            })
            .expect("readable");
        }
        let reader = SerializedFileReader::new(std::fs::File::open(&path).expect("there")).expect("Parquet");
        let mut written = String::new();
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("a row").into_columns();
            let column = |name: &str| {
                let (_, value) =
                    row.iter().find(|(column, _)| column == name).expect("a column of the format");
                value.to_string().replace('"', "")
            };
            let times = ["intended_ns", "start_ns", "end_ns"].map(column).join(", ");
            writeln!(written, "{} {} {} [{times}]", column("op_id"), column("op"), column("status"))
                .expect("writing to memory");
        }
        assert_eq!(read, written, "{name}");
    }
}

/// How the golden traces were made; `-o` is added.
const COMMANDS: [&str; 4] = [
    "gen workloada --records 20 --ops 20 -p fieldcount=3 -p fieldlength=8",
    "gen workloadd --records 10 --ops 30 --seed 7 --values seeded --arrival poisson --rate 1000 --phase run \
     -p fieldcount=2 -p fieldlength=20 -p fieldlengthdistribution=uniform -p readallfields=false \
     -p readproportion=0.4 -p insertproportion=0.25 -p scanproportion=0.15 -p readmodifywriteproportion=0.1 \
     -p updateproportion=0.1 -p maxscanlength=5",
    "gen workloadc --ops 0 --phase run -p fieldcount=3 -p fieldlength=8",
    "gen oltp_read_write --ops 2 --table-size 20 --tables 2 -p point-selects=2 --phase run",
];

#[test]
fn the_same_commands_still_make_the_same_operations() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for command in COMMANDS {
        let output = ["-o", folder.path().to_str().expect("a path in UTF-8")];
        let words = ["ycsb-trace"].into_iter().chain(command.split_whitespace()).chain(output);
        assert_eq!(cli::run(Cli::parse_from(words)).expect(command), Verdict::Done);
    }
    let mut compared = 0;
    for entry in std::fs::read_dir(golden("traces/golden/v1")).expect("the golden traces").flatten() {
        let meta = |path: &Path| -> TraceMeta { TraceReader::open(path).expect("readable").meta().clone() };
        let (then, now) = (meta(&entry.path()), meta(&folder.path().join(entry.file_name())));
        assert_eq!(now.content_hash, then.content_hash, "{:?}", entry.file_name());
        assert_eq!((now.rows, now.dependent_ops), (then.rows, then.dependent_ops));
        assert_eq!(now.op_counts, then.op_counts);
        compared += 1;
    }
    assert_eq!(compared, 5);
}
