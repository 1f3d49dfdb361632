//! A database that stands still for two seconds: every operation that should have been answered
//! meanwhile has to show it.

use std::time::Duration;

use rusqlite::Connection;
use ycsb_trace::op::Status;

use crate::support::program::{Folder, sleep_until};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// Nearest rank.
fn percentile(values: &mut [u64], percent: usize) -> u64 {
    values.sort_unstable();
    values[(values.len() * percent).div_ceil(100) - 1]
}

#[test]
fn a_stall_of_two_seconds_is_in_the_response_times_of_all_operations_it_delayed() {
    let folder = Folder::in_memory();
    folder.ok("gen workloada --records 1000 --ops 10000 -p readproportion=0 -p updateproportion=1 \
         -p requestdistribution=uniform -p fieldcount=1");
    let replay = "replay --db sqlite workloada --url test.db --threads 8 \
                  -p sqlite.synchronous=OFF -p sqlite.journalmode=WAL";
    let calibrating = folder.ok(&format!("{replay} --phase all"));
    let calibration = calibrating.result(&folder);
    let busy_ns = calibrating.room_ns;
    let capacity = 10_000.0 * 1e9 / calibration.meta.elapsed_ns.saturating_sub(busy_ns).max(MS) as f64;
    assert!(capacity >= 5_000.0, "this machine is too slow for the test: {capacity:.0} updates/s");

    let mut running = folder.start(&format!("{replay} --phase run --target 1000 --interval 1s"));
    let begin = running.wait_for_start();
    let blocker = Connection::open(folder.path("test.db")).expect("the database opens");
    blocker.busy_timeout(Duration::from_secs(1)).expect("a setting of the connection");
    sleep_until(begin, Duration::from_millis(4_000));
    blocker.execute_batch("BEGIN EXCLUSIVE").expect("the lock is free at some time");
    sleep_until(begin, Duration::from_millis(6_000));
    blocker.execute_batch("COMMIT").expect("the lock is held");
    let ran = running.wait().expect_code(0);

    let replayed = ran.result(&folder);
    assert_eq!(replayed.count(Status::Ok), 10_000, "{:?}", replayed.meta.counts);
    let mut rows = replayed.rows.clone();
    rows.sort_by_key(|row| row.op_id);
    for pair in rows.windows(2) {
        let apart = pair[1].intended_ns - pair[0].intended_ns;
        assert!(apart.abs_diff(MS) <= US, "operations {} and the next are {apart} ns apart", pair[0].op_id);
    }

    let mut response: Vec<u64> = rows.iter().map(|row| row.end_ns - row.intended_ns).collect();
    let mut service: Vec<u64> = rows.iter().map(|row| row.end_ns - row.start_ns).collect();
    let lag: Vec<u64> = rows.iter().map(|row| row.start_ns - row.intended_ns).collect();
    for ((response, service), lag) in response.iter().zip(&service).zip(&lag) {
        assert_eq!(*response, service + lag);
    }
    let shares = [50, 90, 95, 99, 100].map(|percent| percentile(&mut response, percent) / MS);
    let [p50, p90, p95, p99, max] = shares;
    let measured = format!("p50, p90, p95, p99 and max are {shares:?} ms; capacity {capacity:.0}/s");
    // What others took of the processors may have come on top.
    let room = ran.room_ns / MS;
    assert!(p50 < 20 + room, "{measured}");
    assert!((1_000..=1_300 + room).contains(&p90), "{measured}");
    assert!((1_500..=1_700 + room).contains(&p95), "{measured}");
    assert!((1_880..=2_050 + room).contains(&p99), "{measured}");
    assert!((1_950..=2_300 + room).contains(&max), "{measured}");
    // Only eight operations were under way, and they alone saw the stall as slow service.
    let p99_of_service = percentile(&mut service, 99) / MS;
    assert!(p99_of_service < 300 + room, "service p99 {p99_of_service} ms; {measured}");
    assert!(percentile(&mut service, 100) / MS > 1_900);

    // Live, too: one line a second, and the backlog in those of the stall.
    let backlogs: Vec<u64> = ran.err.lines().filter_map(backlog).collect();
    assert!(backlogs.len() >= 8, "{}", ran.err);
    let most = backlogs.iter().copied().max().unwrap_or(0);
    // One line falls into the second half of the stall, at its beginning at worst.
    assert!((900..=2_300 + room).contains(&most), "{}", ran.err);
    assert!(backlogs[..3].iter().all(|&backlog| backlog < 500 + room), "{}", ran.err);
}

/// The number after "backlog" in a progress line.
fn backlog(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(" · backlog ")?;
    let text = rest.split(" · ").next()?;
    Some(text.replace(',', "").parse().expect("a number"))
}
