//! Ending a replay before its end: politely, impatiently, and with violence.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use ycsb_trace::op::{NEVER_NS, Status};

use crate::support::program::{Folder, Replayed, Running, sleep_until};

/// Begins a run of 60 s at 500 operations/s on SQLite; returns it with the time of its start.
fn begin(folder: &Folder, options: &str) -> (Running, Instant) {
    folder.ok("gen workloada --records 1000 --ops 30000 -p fieldcount=2 -p fieldlength=20");
    folder.ok("replay --db sqlite workloada --url test.db --phase load");
    let mut running = folder.start(&format!(
        "replay --db sqlite workloada --url test.db --phase run --threads 4 --target 500 {options}"
    ));
    let start = running.wait_for_start();
    (running, start)
}

/// What a result that ends early has to be.
#[track_caller]
fn assert_interrupted(folder: &Folder, replayed: &Replayed, at_least: usize) {
    let meta = &replayed.meta;
    assert!(meta.interrupted && !meta.complete, "{}", meta.ended_because);
    assert_eq!((meta.trace_rows, meta.rows), (30_000, replayed.rows.len() as u64));
    assert!(replayed.unique_ids().len() >= at_least, "{} rows", replayed.rows.len());
    #[cfg(feature = "analyze")]
    {
        let shown = folder.ok(&format!("analyze {}", replayed.path.display()));
        assert!(shown.out.contains("interrupted"), "{}", shown.out);
    }
    #[cfg(not(feature = "analyze"))]
    let _ = folder;
}

#[test]
fn ctrl_c_ends_a_run_soon_with_everything_it_did() {
    let folder = Folder::in_memory();
    let (running, start) = begin(&folder, "");
    sleep_until(start, Duration::from_secs(5));
    running.signal(Signal::INT);
    let signalled = Instant::now();
    let ran = running.wait().expect_code(130);
    assert!(ran.since(signalled) < Duration::from_secs(3), "{:?}", ran.since(signalled));
    assert!(ran.err.contains("operations in flight may finish"), "{}", ran.err);
    let replayed = ran.result(&folder);
    let late_rows = (ran.room_ns / 2_000_000) as usize;
    assert_interrupted(&folder, &replayed, 2_400_usize.saturating_sub(late_rows));
    // Operations in flight were waited for, and none that was not due was started.
    assert!(
        replayed
            .rows
            .iter()
            .all(|row| row.end_ns != NEVER_NS && row.intended_ns < 5_200_000_000 + ran.room_ns)
    );
    assert!(folder.names("results").iter().all(|name| !name.starts_with('.')), "no segments are left");
}

#[test]
fn ctrl_c_ends_gen_and_removes_the_unfinished_file() {
    let folder = Folder::in_memory();
    let running = folder.start("gen workloada --records 10 --ops 1000000000 --values seeded --jobs 2");
    let partial = "workloada.run.parquet.partial".to_owned();
    let begin = Instant::now();
    while !folder.names("traces").contains(&partial) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", folder.names("traces"));
        std::thread::sleep(Duration::from_millis(10));
    }
    running.signal(Signal::INT);
    let signalled = Instant::now();
    let ran = running.wait().expect_code(130);
    assert!(ran.since(signalled) < Duration::from_secs(3), "{:?}", ran.since(signalled));
    assert!(ran.err.contains("workloada.run.parquet was not finished and is removed"), "{}", ran.err);
    assert_eq!(folder.names("traces"), ["workloada.load.parquet"]);
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_operations_in_flight() {
    let folder = Folder::in_memory();
    let (mut running, start) = begin(&folder, "-p sqlite.journalmode=DELETE");
    sleep_until(start, Duration::from_secs(1));
    let blocker = rusqlite::Connection::open(folder.path("test.db")).expect("the database opens");
    blocker.busy_timeout(Duration::from_secs(10)).expect("a setting of the connection");
    blocker.execute_batch("BEGIN EXCLUSIVE").expect("the lock is free at some time");
    // All four connections run into the lock.
    std::thread::sleep(Duration::from_millis(100));
    running.signal(Signal::INT);
    running.wait_for("operations in flight may finish");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!running.has_ended(), "it does not wait for operations in flight");
    running.signal(Signal::INT);
    let signalled = Instant::now();
    let ran = running.wait().expect_code(130);
    assert!(ran.since(signalled) < Duration::from_secs(1), "{:?}", ran.since(signalled));
    assert!(ran.err.contains("keeping what is there"), "{}", ran.err);
    let replayed = ran.result(&folder);
    assert_interrupted(&folder, &replayed, 400_usize.saturating_sub((ran.room_ns / 2_000_000) as usize));
    let hanging: Vec<_> = replayed.rows.iter().filter(|row| row.status == Status::Timeout).collect();
    assert_eq!(hanging.len(), 4, "each connection was inside an operation: {:?}", replayed.meta.counts);
    assert!(hanging.iter().all(|row| row.end_ns == NEVER_NS && row.start_ns + ran.room_ns > 900_000_000));
}

#[test]
fn a_killed_replay_loses_at_most_the_last_five_seconds() {
    let folder = Folder::in_memory();
    let (running, start) = begin(&folder, "");
    sleep_until(start, Duration::from_secs(3));
    let early = folder.run("repair").expect_code(2);
    assert!(early.err.contains("is still running"), "{}", early.err);
    assert_eq!(folder.names("results").iter().filter(|name| name.contains("run-")).count(), 1);

    // Just before the second segment would be closed, the worst moment.
    let alive = Duration::from_millis(8_700);
    sleep_until(start, alive);
    running.signal(Signal::KILL);
    let ran = running.wait();
    assert_eq!(ran.code, None);
    assert!(ran.results(&folder).is_empty());

    let repaired = folder.ok("repair");
    let path = repaired.out.split(": ").next().expect("the name of the file");
    let replayed = Replayed::read(&folder.path(path));
    assert_interrupted(&folder, &replayed, 0);
    assert!(replayed.meta.ended_because.contains("killed"), "{}", replayed.meta.ended_because);
    let older_ns = (alive - Duration::from_secs(5)).as_nanos() as u64;
    let due = (0..30_000u64).take_while(|op| op * 2_000_000 < older_ns).count();
    let kept = replayed.rows.iter().filter(|row| row.intended_ns < older_ns).count();
    assert_eq!(kept, due, "rows older than 5 s");
    let (rows, missing) = (replayed.rows.len(), 30_000 - replayed.rows.len());
    let counts = ycsb_trace::cli::progress::count_text;
    let said =
        format!("{} of 30,000 operations kept, {} missing", counts(rows as u64), counts(missing as u64));
    assert!(repaired.out.contains(&said), "{}", repaired.out);
    assert_eq!(folder.ok("repair").out.lines().count(), 1, "there is nothing left to repair");
}
