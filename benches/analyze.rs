//! How long does a report of ten million ops take, and how long do the same percentiles take DuckDB?
//!
//!     cargo bench --bench analyze            # YCSB_TRACE_PYTHON or target/python as in the tests
//!
//! DuckDB answers a short query with `quantile_disc` over successes only, and with `-- full` also
//! `analysis/sql/percentiles.sql`, which computes the same numbers as we do (failures and all ops
//! together included) and takes minutes.

#[path = "support/result.rs"]
mod result;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use result::footer;
use ycsb_trace::analyze::{Options, analyze};
use ycsb_trace::op::{NEVER_NS, OpKind, Sample, Status};
use ycsb_trace::rng::mix;
use ycsb_trace::trace::runs::RunWriter;

const ROWS: u64 = 10_000_000;
const BLOCK: u64 = 1 << 16;

const SHORT: &str = "SELECT op, quantile_disc(end_ns - intended_ns, [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999]),
    quantile_disc(end_ns - start_ns, [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999]),
    quantile_disc(start_ns - intended_ns, [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999])
    FROM read_parquet(getvariable('result')) WHERE status = 'OK' GROUP BY op";

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let started = Instant::now();
    let result = write(folder.path());
    println!("wrote {ROWS} rows in {:.1} s", started.elapsed().as_secs_f64());

    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let started = Instant::now();
        let report = analyze(std::slice::from_ref(&result), &Options::default()).expect("a valid result");
        assert_eq!(report.runs[0].all.ops, ROWS);
        best = best.min(started.elapsed().as_secs_f64());
    }
    println!("analyze                {best:.2} s");

    let best_of =
        |runs: usize, sql: &str| (0..runs).map(|_| duckdb(&result, sql)).fold(f64::INFINITY, f64::min);
    let short = best_of(3, SHORT);
    println!("DuckDB, successes only {short:.2} s = {:.2} x analyze", short / best);
    // Minutes: it ranks every row of every population.
    if std::env::args().any(|arg| arg == "full") {
        let same = best_of(1, include_str!("../analysis/sql/percentiles.sql"));
        println!("DuckDB, same numbers   {same:.2} s = {:.2} x analyze", same / best);
    }
}

/// Two kinds, 0.1 % failures, latencies over four powers of ten.
fn write(folder: &Path) -> std::path::PathBuf {
    let mut meta = footer(ROWS, 1);
    meta.elapsed_ns = ROWS * 10_000;
    let mut writer = RunWriter::create(folder, &mut meta).expect("a writable folder");
    let mut samples = Vec::new();
    for op_id in 0..ROWS {
        let random = mix(op_id + 1);
        let intended_ns = op_id * 10_000;
        let start_ns = intended_ns + (random >> 40) % 60_000;
        let service_ns =
            (100_000 + random % 100_000) << ((random >> 20) % 1024).leading_zeros().saturating_sub(54);
        samples.push(Sample {
            op_id,
            intended_ns,
            start_ns,
            end_ns: start_ns + service_ns,
            blocked_ns: NEVER_NS,
            last_start_ns: NEVER_NS,
            txn: NEVER_NS,
            session: 0,
            rows: 1,
            attempts: 1,
            read_end_ns: NEVER_NS,
            batch: NEVER_NS,
            observed: 0,
            code: 0,
            kind: if random.is_multiple_of(2) { OpKind::Read } else { OpKind::Update },
            status: if random % 1000 == 7 { Status::Timeout } else { Status::Ok },
        });
        if samples.len() as u64 == BLOCK {
            writer.write(&samples, &[]).expect("writable");
            samples.clear();
        }
    }
    writer.write(&samples, &[]).expect("writable");
    writer.finish(&meta).expect("writable")
}

/// Seconds for one query, without starting Python and DuckDB.
fn duckdb(result: &Path, sql: &str) -> f64 {
    const SCRIPT: &str = "
import sys, time
import duckdb
connection = duckdb.connect()
connection.execute('SET enable_progress_bar = false')
connection.execute('SET VARIABLE result = ' + repr(sys.argv[1]))
connection.execute(\"SET VARIABLE percentiles = ['50', '90', '95', '99', '99.9', '99.99']\")
started = time.monotonic()
connection.execute(sys.argv[2]).fetchall()
print(time.monotonic() - started)
";
    let python = std::env::var("YCSB_TRACE_PYTHON").unwrap_or_else(|_| "target/python/bin/python".into());
    let output =
        Command::new(&python).args(["-c", SCRIPT]).arg(result).arg(sql).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("seconds")
}
