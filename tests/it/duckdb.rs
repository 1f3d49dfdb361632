//! A second opinion: DuckDB reads the same result and must find the same numbers, to the nanosecond.

use std::path::{Path, PathBuf};
use std::process::Command;

use ycsb_trace::analyze::report::{OpReport, Report};
use ycsb_trace::analyze::{Options, analyze, percentiles};
#[cfg(feature = "sqlite")]
use ycsb_trace::trace::ops::{OpBlock, TraceReader};

use crate::analyze::mixed_run;
#[cfg(feature = "sqlite")]
use crate::support::program::Folder;

const PERCENTILES: &str = "0,50,90,95,99,99.5,99.9,99.99,99.999,100";

/// Python with duckdb.
pub fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("YCSB_TRACE_PYTHON") {
        return python.into();
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let python = target.join("python/bin/python");
    assert!(
        python.exists(),
        "this test needs Python with duckdb. Set it up with `python3 -m venv {0} && {0}/bin/pip install duckdb`, \
         or let YCSB_TRACE_PYTHON name an interpreter that has it",
        target.join("python").display()
    );
    python
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs statements and returns the rows of the last one.
pub fn duckdb(statements: &[&str]) -> Vec<serde_json::Value> {
    const SCRIPT: &str = "
import json, sys
import duckdb
connection = duckdb.connect()
# It would write to standard output if a query takes seconds.
connection.execute('SET enable_progress_bar = false')
for statement in json.load(sys.stdin):
    found = connection.execute(statement)
names = [column[0] for column in found.description]
json.dump([dict(zip(names, row)) for row in found.fetchall()], sys.stdout)
";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("statements.json");
    std::fs::write(&input, serde_json::to_string(statements).expect("plain text")).expect("writable");
    let output = Command::new(python())
        .args(["-c", SCRIPT])
        .stdin(std::fs::File::open(&input).expect("just written"))
        .output()
        .expect("Python starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{} failed (does it have the package duckdb?): {complaint}",
        python().display()
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub fn sql_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Compares every percentile of every op, series and population of a result with DuckDB's; returns
/// how many were compared.
pub fn assert_duckdb_agrees(result: &Path) -> usize {
    let options =
        Options { percentiles: percentiles(PERCENTILES).expect("valid percentiles"), ..Options::default() };
    let report: Report = analyze(&[result.to_owned()], &options).expect("a valid result");
    let run = &report.runs[0];
    let list: Vec<String> = report.percentiles.iter().map(|one| sql_text(one)).collect();
    let sql =
        std::fs::read_to_string(repository().join("analysis/sql/percentiles.sql")).expect("the SQL file");
    let rows = duckdb(&[
        &format!("SET VARIABLE result = {}", sql_text(&result.display().to_string())),
        &format!("SET VARIABLE percentiles = [{}]", list.join(", ")),
        &sql,
    ]);
    let theirs = |op: &str, series: &str, population: &str, percentile: &str| {
        let found = rows.iter().find(|row| {
            row["op"] == op
                && row["series"] == series
                && row["population"] == population
                && row["percentile"] == percentile
        });
        found.map(|row| (row["count"].as_u64().expect("a count"), row["value_ns"].as_u64()))
    };
    let kinds = run.ops.0.iter().filter_map(|(op, of_kind)| Some((op.as_str(), of_kind.as_ref()?)));
    let mut compared = 0;
    for (op, of_op) in kinds.chain([("ALL", &run.all)]) {
        let of_op: &OpReport = of_op;
        for (series, both) in of_op.series() {
            for (population, summary) in both.populations() {
                for (percentile, quantile) in &summary.percentiles.0 {
                    let ours = quantile.map(|quantile| (summary.count, quantile.value_ns));
                    assert_eq!(
                        ours,
                        theirs(op, series, population, percentile),
                        "{op} {series} {population} p{percentile}: ours, then DuckDB's"
                    );
                    compared += usize::from(ours.is_some());
                }
            }
        }
    }
    assert_eq!(compared, rows.len(), "DuckDB has numbers that we have not");
    compared
}

/// The columns that DuckDB sees in a Parquet file, and the number of rows.
pub fn columns(file: &Path) -> (Vec<String>, u64) {
    let file = sql_text(&file.display().to_string());
    let columns = duckdb(&[&format!("DESCRIBE SELECT * FROM {file}")]);
    let rows = duckdb(&[&format!("SELECT count(*) AS rows FROM {file}")]);
    let name = |column: &serde_json::Value| column["column_name"].as_str().expect("a name").to_owned();
    (columns.iter().map(name).collect(), rows[0]["rows"].as_u64().expect("a count"))
}

#[test]
fn duckdb_finds_the_same_percentiles() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let result = mixed_run("it's", 21, 3).write(folder.path(), 3_000);
    // 4 kinds and all together, 3 series, 2 populations, 10 percentiles.
    assert_eq!(assert_duckdb_agrees(&result), 5 * 3 * 2 * 10);
}

/// The whole way: generated, replayed on a real database behind schedule, read by both.
#[cfg(feature = "sqlite")]
#[test]
fn duckdb_finds_the_same_percentiles_in_a_replayed_result() {
    let folder = Folder::in_memory();
    folder.ok("gen workloada --records 500 --ops 5000 -p readmodifywriteproportion=0.2");
    let ran = folder.ok("replay --db sqlite workloada --url test.db --threads 4 --target 5000");
    let results = ran.results(&folder);
    assert_eq!(results.len(), 2);
    // Inserts; reads, updates and read-modify-writes. Each with all together.
    assert_eq!(assert_duckdb_agrees(&results[0]), 2 * 3 * 2 * 10);
    assert_eq!(assert_duckdb_agrees(&results[1]), 4 * 3 * 2 * 10);
}

#[test]
fn the_duckdb_example_of_the_readme_works() {
    let readme = std::fs::read_to_string(repository().join("analysis/README.md")).expect("the README");
    let (_, section) = readme.split_once("\n## DuckDB\n").expect("a section on DuckDB");
    let (_, block) = section.split_once("```sql\n").expect("an SQL example");
    let (sql, _) = block.split_once("```").expect("the end of the example");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let result = mixed_run("sim", 22, 1).write(folder.path(), 5_000);
    let rows = duckdb(&[&sql.replace("RESULT", &result.display().to_string())]);
    let report = analyze(&[result], &Options::default()).expect("a valid result");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let op = row["op"].as_str().expect("a kind");
        let ours = report.runs[0].ops.get(op).and_then(Option::as_ref).expect("the same kinds");
        assert_eq!(row["ops"], ours.ops, "{op}");
        assert_eq!(row["failed"], ours.failed, "{op}");
        assert_eq!(row["response_max_ns"].as_u64(), ours.response.ok.max_ns, "{op}");
        let p99 = ours.response.ok.percentiles.get("99").expect("a default").expect("not empty");
        assert_eq!(row["response_p99_ns"].as_u64(), p99.value_ns, "{op}");
    }
}

#[test]
fn the_footer_can_be_read_in_duckdb_as_the_readme_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let result = mixed_run("sim", 23, 1).write(folder.path(), 50_000);
    let sql =
        "SELECT decode(value) AS footer FROM parquet_kv_metadata('FILE') WHERE decode(key) = 'ycsb_trace'";
    let readme = std::fs::read_to_string(repository().join("analysis/README.md")).expect("the README");
    assert!(readme.contains(&sql.replace(" AS footer", "")), "the README shows another statement");
    let rows = duckdb(&[&sql.replace("FILE", &result.display().to_string())]);
    let footer: serde_json::Value =
        serde_json::from_str(rows[0]["footer"].as_str().expect("text")).expect("JSON");
    assert_eq!(footer["rows"], 20_000);
}

/// `traces/README.md` defines the content hash, and a script beside it follows that definition.
#[test]
fn the_content_hash_is_what_the_readme_of_traces_says() {
    let traces = std::fs::read_dir(repository().join("traces/golden/v1")).expect("the golden traces");
    let output = Command::new(python())
        .arg(repository().join("traces/content_hash.py"))
        .args(traces.flatten().map(|entry| entry.path()))
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 5);
}

/// A sum over each column of a trace, by name: what DuckDB is asked for, and what our reader says of a row.
#[cfg(feature = "sqlite")]
type Sum = (&'static str, fn(&OpBlock, usize) -> i128);

#[cfg(feature = "sqlite")]
const SUMS: &[Sum] = &[
    ("sum(op_id)", |rows, row| rows.id(row).into()),
    ("sum(octet_length(encode(key)) + if(key = '', 0, ord(key[-1:])))", |rows, row| {
        let key = rows.key(row);
        key.len() as i128 + i128::from(key.as_bytes().last().copied().unwrap_or(0))
    }),
    ("sum(list_sum(fields))", |rows, row| {
        rows.field_numbers(row).unwrap_or_default().iter().copied().map(i128::from).sum()
    }),
    ("sum(len(values))", |rows, row| rows.inline_values(row).map_or(0, |values| values.count() as i128)),
    ("sum(list_sum(list_transform(values, lambda one: octet_length(one))))", |rows, row| {
        rows.inline_values(row).map_or(0, |values| values.map(|value| value.len() as i128).sum())
    }),
    ("sum(value_seed % 1000000)", |rows, row| {
        rows.seeded_values(row).map_or(0, |(seed, _)| i128::from(seed.cast_signed() % 1_000_000))
    }),
    ("sum(list_sum(value_lens))", |rows, row| {
        rows.seeded_values(row).map_or(0, |(_, lens)| lens.iter().copied().map(i128::from).sum())
    }),
    ("sum(scan_len)", |rows, row| rows.scan_len(row).into()),
    ("sum(at_ns)", |rows, row| rows.at_ns(row).unwrap_or(0).into()),
    ("sum(after)", |rows, row| rows.after(row).unwrap_or(0).into()),
    ("sum(txn)", |rows, row| rows.txn(row).unwrap_or(0).into()),
];

#[test]
#[cfg(feature = "sqlite")]
fn a_trace_is_read_by_duckdb_as_by_us() {
    let folder = Folder::new();
    for gen_line in [
        "workloadd --records 300 --ops 2000 --arrival poisson --rate 1000",
        "workloada --records 300 --ops 2000 --values seeded -p writeallfields=true",
        "workloadf --records 300 --ops 2000 --values seeded -p fieldlength=5000",
        "workloade --records 300 --ops 500 -p dataintegrity=true",
        "oltp_read_write --tables 2 --table-size 100 --ops 100",
    ] {
        folder.ok(&format!("gen {gen_line}"));
    }
    let files = std::fs::read_dir(folder.path("traces")).expect("the traces");
    let mut checked = 0;
    for path in files.map(|entry| entry.expect("a file").path()) {
        let columns: Vec<String> = SUMS.iter().map(|(sum, _)| format!("coalesce({sum}, 0)::TEXT")).collect();
        let file = path.display().to_string().replace('\'', "''");
        let rows = duckdb(&[&format!("SELECT [{}] AS sums FROM '{file}'", columns.join(", "))]);
        let mut reader = TraceReader::open(&path).expect("a trace");
        let mut ours = vec![0; SUMS.len()];
        while let Some(block) = reader.next_block().expect("rows") {
            for row in 0..block.len() {
                ours.iter_mut().zip(SUMS).for_each(|(sum, (_, of_row))| *sum += of_row(&block, row));
            }
        }
        let theirs: Vec<i128> = rows[0]["sums"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|sum| sum.as_str().and_then(|sum| sum.parse().ok()).expect("a number as text"))
            .collect();
        assert_eq!(theirs, ours, "{}", path.display());
        checked += 1;
    }
    assert_eq!(checked, 10);
}
