//! Exactly one row for each operation, also where counts and threads do not fit each other.

use std::path::PathBuf;
use std::time::Duration;

use ycsb_trace::op::Status;

use crate::support::program::{Folder, Generated, Ran, Replayed};

const WORKLOAD: &str = "gen workloada --records 100 -p fieldcount=2 -p fieldlength=20";

/// Replays both phases of a trace of so many operations; returns what came back from the run.
fn replay(folder: &Folder, ops: u64, options: &str) -> (Ran, PathBuf) {
    folder.ok(&format!("{WORKLOAD} --ops {ops}"));
    folder.ok("replay --db sqlite workloada --url test.db --phase load");
    let ran = folder.ok(&format!("replay --db sqlite workloada --url test.db --phase run {options}"));
    let replayed = ran.result(folder);
    assert_eq!(replayed.rows.len() as u64, ops);
    assert_eq!(replayed.unique_ids(), (0..ops).collect::<Vec<_>>());
    assert_eq!(replayed.count(Status::Ok) as u64, ops);
    let meta = &replayed.meta;
    assert!(meta.complete && !meta.interrupted, "{}", meta.ended_because);
    (ran, replayed.path)
}

#[test]
fn three_operations_on_64_connections_at_ten_per_second_are_three_rows_in_time() {
    let folder = Folder::in_memory();
    let (ran, path) = replay(&folder, 3, "--threads 64 --target 10");
    assert!(ran.took < Duration::from_secs(2), "{:?}", ran.took);
    let mut rows = Replayed::read(&path).rows;
    rows.sort_by_key(|row| row.op_id);
    let intended: Vec<u64> = rows.iter().map(|row| row.intended_ns).collect();
    assert_eq!(intended, [0, 100_000_000, 200_000_000]);
}

#[test]
fn operations_that_no_number_of_connections_divides_are_all_executed() {
    replay(&Folder::in_memory(), 1003, "--threads 7");
}

#[test]
fn a_result_says_which_trace_it_executed_and_how() {
    let folder = Folder::in_memory();
    folder.ok(&format!("{WORKLOAD} --ops 10 --seed 7"));
    let ran = folder.ok("replay --db sqlite workloada --url test.db -p sqlite.synchronous=OFF --threads 3");
    let [load, run] = ran.results(&folder).try_into().expect("two phases");
    for (phase, path) in [("load", load), ("run", run)] {
        let meta = Replayed::read(&path).meta;
        let trace = Generated::read(&folder.path(&format!("traces/workloada.{phase}.parquet"))).meta;
        assert_eq!((meta.trace_hash, meta.trace_rows), (trace.content_hash, trace.rows));
        assert_eq!((meta.phase, meta.sessions, meta.order.as_str()), (trace.phase, 3, "deps"));
        assert_eq!(meta.server.settings["synchronous"], "OFF");
        for (name, value) in
            [("seed", "7"), ("table", "usertable"), ("url", "test.db"), ("sqlite.synchronous", "OFF")]
        {
            assert_eq!(meta.config.get(name).map(String::as_str), Some(value), "{name}");
        }
        let shown = folder.ok(&format!("inspect {}", path.display())).out;
        assert!(shown.contains("  sqlite.synchronous = OFF\n"), "{shown}");
    }
}

#[test]
fn one_operation_is_one_row() {
    replay(&Folder::in_memory(), 1, "--threads 2");
}

#[test]
fn no_operation_is_a_result_without_rows_that_every_reader_opens() {
    let folder = Folder::in_memory();
    let (_, path) = replay(&folder, 0, "--threads 4");
    let shown = folder.ok(&format!("inspect {}", path.display()));
    assert!(shown.out.contains("0 of 0 operations"), "{}", shown.out);
    #[cfg(feature = "analyze")]
    {
        folder.ok(&format!("analyze {}", path.display()));
        let columns = crate::duckdb::columns(&path);
        let schema = ycsb_trace::trace::result_schema();
        let expected: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(columns, (expected.into_iter().map(str::to_owned).collect(), 0));
    }
}
