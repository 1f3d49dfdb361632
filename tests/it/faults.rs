//! Databases that go away, hang, say no or are too slow, and runs that are ended by force: nothing
//! hangs, every operation has its row, and the numbers say what happened. Each row of
//! `docs/faults.md` names the test here that stands for it.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rustix::process::Signal;
use ycsb_trace::op::{NEVER_NS, OpKind, Status};

use crate::support::block_on;
use crate::support::postgres::{Server, TRUSTED, client, database, server};
use crate::support::program::{Folder, Replayed, ReplayedRow, Running, sleep_until, write_reads};
use crate::support::relay::{Mode, Relay};
use crate::support::together::together;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A small workload A, loaded into a database of the shared server, and a relay in front of that.
struct Place {
    folder: Folder,
    relay: Relay,
    name: &'static str,
}

impl Place {
    /// So many operations on so many records.
    fn new(name: &'static str, records: u64, ops: u64, options: &str) -> Place {
        let folder = Folder::in_memory();
        folder.ok(&format!(
            "gen workloada --records {records} --ops {ops} -p fieldcount=2 -p fieldlength=20 {options}"
        ));
        let url = block_on(database(name));
        folder.ok(&format!("replay --db postgres workloada --url {url} --phase load --threads 4"));
        Place { folder, relay: Relay::to(server().port), name }
    }

    fn url(&self) -> String {
        format!("postgres://{TRUSTED}@127.0.0.1:{}/{}", self.relay.port, self.name)
    }

    /// Starts the run phase through the relay; returns it with the time of its start.
    fn start(&self, options: &str) -> (Running, Instant) {
        let url = self.url();
        let mut running =
            self.folder.start(&format!("replay --db postgres workloada --url {url} --phase run {options}"));
        let begin = running.wait_for_start();
        (running, begin)
    }
}

fn at(begin: Instant, ms: u64) {
    sleep_until(begin, Duration::from_millis(ms));
}

/// When the first operation that started after `after_ns` was done.
fn first_success(rows: &[ReplayedRow], after_ns: u64) -> u64 {
    let rows = rows.iter().filter(|row| row.status == Status::Ok && row.start_ns > after_ns);
    rows.map(|row| row.end_ns).min().unwrap_or(NEVER_NS)
}

/// Those that neither succeeded nor were meant to: each with the code of a lost connection.
#[track_caller]
fn assert_only_lost_connections(replayed: &Replayed, at_most: usize) -> usize {
    let failed: Vec<_> = replayed.rows.iter().filter(|row| row.status != Status::Ok).collect();
    for row in &failed {
        assert_eq!(row.status, Status::Unavailable, "{row:?}");
        let code = row.code.strip_prefix("AMBIGUOUS ").unwrap_or(&row.code);
        assert!(["08006", "57P01", "57P02"].contains(&code), "{row:?}");
        assert!(row.code == code || row.kind == OpKind::Update, "a read is never ambiguous: {row:?}");
        assert!(row.start_ns <= row.end_ns && row.end_ns != NEVER_NS, "{row:?}");
    }
    assert!(failed.len() <= at_most, "{} operations failed: {:?}", failed.len(), replayed.meta.counts);
    let counted: u64 = replayed.meta.errors.iter().map(|error| error.count).sum();
    assert!(counted >= failed.len() as u64, "{:?}", replayed.meta.errors);
    failed.len()
}

/// A server that is away from 5 s to 10 s of a run of 20 s.
fn lose_the_server(name: &'static str, options: &str, code: i32) -> Replayed {
    let place = Place::new(name, 1000, 4000, "");
    let (running, begin) = place.start(&format!("--threads 8 --target 200 {options}"));
    at(begin, 5_000);
    place.relay.set(Mode::Refuse);
    at(begin, 10_000);
    place.relay.set(Mode::Pass);
    let ran = running.wait().expect_code(code);
    let replayed = ran.result(&place.folder);
    let room_ns = ran.room_ns;
    assert_eq!(replayed.unique_ids(), (0..4000).collect::<Vec<_>>());
    let back = first_success(&replayed.rows, 6 * SECOND);
    assert!(
        (10 * SECOND..12 * SECOND + room_ns).contains(&back),
        "the first success was at {} ms",
        back / MS
    );
    // What was due meanwhile was executed late, and says so.
    let late = replayed.rows.iter().find(|row| row.intended_ns == 7 * SECOND).expect("200/s");
    assert!(late.start_ns - late.intended_ns > 2_900 * MS, "{late:?}");
    let last = replayed.rows.iter().map(|row| row.end_ns).max().expect("rows");
    assert!(last < 21 * SECOND + room_ns, "the backlog was not worked off: {} ms", last / MS);
    replayed
}

together! {

fn a_server_that_is_gone_for_five_seconds_fails_what_was_under_way_and_delays_the_rest() {
    let replayed = lose_the_server("server_lost", "--max-error-rate 0", 1);
    assert!(assert_only_lost_connections(&replayed, 8) > 0);
    assert!(replayed.rows.iter().all(|row| row.attempts == 1));
}

fn with_retries_a_server_that_is_gone_for_five_seconds_costs_time_and_no_operation() {
    let replayed = lose_the_server("server_lost_retried", "--retries 100 --max-error-rate 0", 0);
    assert_eq!(replayed.count(Status::Ok), 4000, "{:?}", replayed.meta.counts);
    let retried: Vec<_> = replayed.rows.iter().filter(|row| row.attempts > 1).collect();
    assert!((1..=8).contains(&retried.len()), "{} were tried again", retried.len());
    for row in retried {
        assert!(row.end_ns - row.start_ns > 4_500 * MS, "all attempts are one latency: {row:?}");
        assert!(row.last_start_ns > 10 * SECOND - 100 * MS, "{row:?}");
        assert_eq!(row.code, "", "{row:?}");
    }
}

fn a_server_that_is_killed_and_one_that_is_restarted_are_found_again_on_their_port() {
    let own = Server::start();
    let url = format!("postgres://{TRUSTED}@127.0.0.1:{}/postgres", own.port);
    let folder = Folder::in_memory();
    folder.ok("gen workloada --records 100 --ops 1200 -p fieldcount=2 -p fieldlength=20");
    folder.ok(&format!("replay --db postgres workloada --url {url} --phase load"));
    let mut running = folder.start(&format!(
        "replay --db postgres workloada --url {url} --phase run --threads 4 --target 100"
    ));
    let begin = running.wait_for_start();
    for (down, up, word) in [(2_000, 3_500, "kill"), (7_000, 8_500, "stop")] {
        at(begin, down);
        own.tell(word);
        at(begin, up);
        own.tell("start");
    }
    let ran = running.wait().expect_code(0);
    let replayed = ran.result(&folder);
    assert_eq!(replayed.rows.len(), 1200);
    assert!(assert_only_lost_connections(&replayed, 8) > 0);
    for up in [3_500, 8_500] {
        let back = first_success(&replayed.rows, (up - 1_000) * MS);
        assert!((up * MS..(up + 3_000) * MS + ran.room_ns).contains(&back), "back at {} ms", back / MS);
    }
}

fn of_several_hosts_another_one_serves_when_one_is_gone() {
    let place = Place::new("hosts", 100, 600, "");
    let other = Relay::to(server().port);
    let (first, second) = (place.relay.port, other.port);
    let mut running = place.folder.start(&format!(
        "replay --db postgres workloada --phase run --threads 8 --target 150 -p pg.user={TRUSTED} -p pg.db=hosts \
         -p pg.host=127.0.0.1,127.0.0.1 -p pg.port={first},{second} -p pg.load_balance_hosts=disable"
    ));
    let begin = running.wait_for_start();
    at(begin, 1_500);
    assert_eq!(other.accepted(), 0, "hosts are tried in turn");
    place.relay.set(Mode::Refuse);
    let ran = running.wait().expect_code(0);
    let replayed = ran.result(&place.folder);
    assert_only_lost_connections(&replayed, 8);
    assert_eq!(other.accepted(), 8);
    let back = first_success(&replayed.rows, 1_700 * MS);
    assert!(back < 2_500 * MS + ran.room_ns, "{} ms", back / MS);
    // And from the start, by a URL.
    let url = format!("postgres://{TRUSTED}@127.0.0.1:{first},127.0.0.1:{second}/hosts");
    let ran = place.folder.ok(&format!("replay --db postgres workloada --phase run --url {url}"));
    assert_eq!(ran.result(&place.folder).count(Status::Ok), 600);
}

fn an_operation_without_an_answer_ends_at_its_deadline_and_its_late_answer_is_nobodys() {
    let place = Place::new("deadline", 100, 1, "");
    // Every other read is of a row that does not exist: an answer to another one would be noticed.
    let keys: Vec<String> = (0..1000)
        .map(|id| if id % 2 == 0 { format!("there{}", id % 20) } else { format!("not{id}") })
        .collect();
    let reads: Vec<_> = keys.iter().map(|key| (key.as_str(), None)).collect();
    block_on(async {
        let insert = "INSERT INTO usertable SELECT 'there' || n, 'a', 'b' FROM generate_series(0, 19) n";
        client("deadline").await.batch_execute(insert).await.expect("inserted");
    });
    write_reads(&place.folder.path("traces/reads.run.parquet"), &reads, &["field0", "field1"]);
    let url = place.url();
    let mut running = place.folder.start(&format!(
        "replay --db postgres reads --url {url} --phase run --threads 8 --target 200 --op-timeout 300ms"
    ));
    let begin = running.wait_for_start();
    at(begin, 2_000);
    place.relay.set(Mode::Pause);
    at(begin, 3_500);
    // Now the held answers arrive.
    place.relay.set(Mode::Pass);
    let ran = running.wait().expect_code(0);
    assert!(ran.took < Duration::from_millis(8_000), "{:?}", ran.took);
    let replayed = ran.result(&place.folder);
    assert_eq!(replayed.rows.len(), 1000);
    // On a busy machine an operation can be late for its deadline without any fault.
    let paused = (1_700 * MS).saturating_sub(ran.room_ns)..3_600 * MS + ran.room_ns;
    let mut timeouts = 0;
    for row in &replayed.rows {
        match row.status {
            Status::Timeout => {
                assert_eq!((row.end_ns, row.attempts, row.code.as_str()), (NEVER_NS, 1, ""), "{row:?}");
                assert!(paused.contains(&row.start_ns), "{row:?}");
                timeouts += 1;
            }
            status => {
                let right = if row.op_id % 2 == 0 { Status::Ok } else { Status::NotFound };
                assert_eq!(status, right, "{row:?}");
            }
        }
    }
    assert!((8..100).contains(&timeouts), "{timeouts} time-outs");
    let last = |session| replayed.rows.iter().filter(move |row| row.session == session).max_by_key(|row| row.start_ns);
    let back = |session| last(session).is_some_and(|row| row.status != Status::Timeout);
    assert!((0..8).all(back), "a connection did not come back");
}

fn a_run_ends_on_time_although_its_operations_hang_and_each_of_them_has_its_row() {
    let place = Place::new("hanging", 100, 10_000, "");
    let (running, begin) = place.start("--threads 4 --target 200 --duration 2s");
    at(begin, 1_000);
    place.relay.set(Mode::BlackHole);
    let ran = running.wait().expect_code(0);
    // The limit of the run, and that for draining it.
    assert!(ran.since(begin) < Duration::from_millis(2_000 + 5_000 + 500), "{:?}", ran.since(begin));
    let replayed = ran.result(&place.folder);
    assert_eq!(replayed.meta.ended_because, "time limit");
    let hanging: Vec<_> = replayed.rows.iter().filter(|row| row.status == Status::Timeout).collect();
    assert_eq!(hanging.len(), 4, "one on each connection: {:?}", replayed.meta.counts);
    for row in hanging {
        assert!(row.start_ns + ran.room_ns > 900 * MS && row.end_ns == NEVER_NS, "{row:?}");
        assert_eq!(row.code == "AMBIGUOUS", row.kind == OpKind::Update, "{row:?}");
    }
    let ids = replayed.unique_ids();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>(), "every operation that was started");
}

fn a_server_that_never_comes_back_does_not_keep_a_run_from_its_end() {
    let place = Place::new("never_back", 100, 10_000, "");
    let (running, begin) = place.start("--threads 4 --target 100 --duration 3s");
    at(begin, 1_000);
    place.relay.set(Mode::Refuse);
    let ran = running.wait().expect_code(0);
    let replayed = ran.result(&place.folder);
    assert!(ran.since(begin) < Duration::from_millis(4_000), "{:?}", ran.since(begin));
    assert_eq!(replayed.meta.ended_because, "time limit");
    assert!(assert_only_lost_connections(&replayed, 4) > 0);
}

fn a_server_that_is_silent_from_the_start_is_exit_code_3() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 10 --phase run");
    let relay = Relay::to(server().port);
    relay.set(Mode::BlackHole);
    let url = format!("postgres://{TRUSTED}@127.0.0.1:{}/postgres?connect_timeout=1", relay.port);
    let ran = folder.run(&format!("replay --db postgres workloada --url {url}")).expect_code(3);
    assert!(ran.took < Duration::from_secs(5), "{:?}", ran.took);
    assert!(ran.err.contains("accepts connections but does not answer"), "{}", ran.err);
    assert!(folder.names("results").is_empty());
}

fn many_connections_do_not_come_back_all_at_once() {
    let place = Place::new("storm", 100, 1_000, "");
    let (running, begin) = place.start("--threads 64 --target 200 --retries 20");
    assert_eq!(place.relay.open(), 64);
    at(begin, 1_000);
    place.relay.set(Mode::Pause);
    place.relay.cut();
    at(begin, 2_500);
    assert_eq!(place.relay.open(), 8, "connections that are being opened");
    place.relay.set(Mode::Pass);
    let replayed = running.wait().expect_code(0).result(&place.folder);
    assert_eq!(replayed.count(Status::Ok), 1_000, "{:?}", replayed.meta.counts);
}

fn one_lost_connection_of_many_fails_at_most_its_own_operation() {
    let place = Place::new("one_lost", 100, 400, "");
    let (running, begin) = place.start("--threads 4 --target 200");
    at(begin, 1_000);
    place.relay.cut_one();
    let ran = running.wait().expect_code(0);
    let replayed = ran.result(&place.folder);
    assert_eq!(assert_only_lost_connections(&replayed, 1), 1);
    let on_time = |row: &ReplayedRow| row.end_ns - row.intended_ns < SECOND + ran.room_ns;
    assert!(replayed.rows.iter().all(on_time), "the others go on");
}

fn a_database_that_cannot_keep_the_rate_is_called_that_and_costs_no_memory() {
    // 100,000 are due each second, and at most 100 are done. A second run of the same trace, beside
    // it, has nothing to catch up with: both decode the same blocks, when ever this machine lets them.
    let place = Place::new("slow", 100, 700_000, "--values seeded");
    place.relay.delay(Duration::from_millis(20));
    let options = "--threads 4 --duration 6s --interval 500ms --target";
    let (running, _) = place.start(&format!("{options} 100000"));
    let (unhurried, _) = place.start(&format!("{options} 20"));
    let [with_backlog, without] = [peak_kb(&running), peak_kb(&unhurried)].map(|peak| peak.join().expect("a number"));
    let (ran, unhurried) = (running.wait().expect_code(0), unhurried.wait().expect_code(0));
    // Processes alike differ by 6 MB; a backlog of 600,000 operations is 27 bytes each.
    assert!(
        with_backlog < without + 16_000,
        "peak memory was {with_backlog} kB with a backlog and {without} without"
    );
    assert!(ran.err.contains("backlog "), "{}", ran.err);
    assert!(ran.out.contains("NOT SUSTAINED since "), "{}", ran.out);
    assert!(!unhurried.out.contains("NOT SUSTAINED"), "{}", unhurried.out);
    let replayed = ran.result(&place.folder);
    let verdict = replayed.meta.sustained.as_ref().expect("a paced run is judged");
    assert!(!verdict.sustained && verdict.since_ns.is_some_and(|since_ns| since_ns < 2 * SECOND + ran.room_ns));
    // By the rows: of each second, so much was added to the lag. The verdict has it from moments half a
    // second apart, of which a busy machine moves each by as much.
    let lag = |row: &ReplayedRow| row.start_ns - row.intended_ns;
    let first = replayed.rows.iter().min_by_key(|row| row.start_ns).expect("rows");
    let last = replayed.rows.iter().max_by_key(|row| row.start_ns).expect("rows");
    let growth = (lag(last) - lag(first)) as f64 / (last.start_ns - first.start_ns) as f64;
    assert!((0.99..1.0).contains(&growth), "{growth} s/s");
    assert!((500 * MS..1_500 * MS).contains(&verdict.lag_growth_ns_per_s), "{verdict:?}, {growth} s/s");
    // A machine that kept its processors from the program for a quarter of the run knows nothing better.
    let cause = verdict.cause.as_deref().expect("it was not sustained");
    let starved = cause == "client: this process was stopped or got no processor";
    let kept_busy = ran.room_ns > replayed.meta.elapsed_ns / 4;
    assert!(cause.starts_with("server") || starved && kept_busy, "{cause}, room {} ms", ran.room_ns / MS);
}

fn a_rate_that_a_stopped_program_misses_is_not_the_databases_fault() {
    let folder = Folder::in_memory();
    folder.ok("gen workloadc --records 10 --ops 100000 --phase run");
    let mut running = folder.start(
        "replay --db sim workloadc --phase run -p sim.latency=1ms --threads 4 --target 3000 --duration 5s --interval 500ms",
    );
    let begin = running.wait_for_start();
    // It runs for 20 ms of every 200: too little for 600 operations, of which 4 are under way at a time.
    // Were this thread woken as late as 100 ms after the 20, it would be too little still.
    while begin.elapsed() < Duration::from_millis(5_500) && !running.has_ended() {
        running.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(180));
        running.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(20));
    }
    let replayed = running.wait().expect_code(0).result(&folder);
    let verdict = replayed.meta.sustained.expect("a paced run is judged");
    assert!(!verdict.sustained, "{verdict:?}");
    assert_eq!(verdict.cause.as_deref(), Some("client: this process was stopped or got no processor"));
}

fn a_rate_beyond_this_machine_is_not_the_databases_fault_either() {
    let folder = Folder::in_memory();
    folder.ok("gen workloadc --records 10 --ops 3000000 --phase run --values seeded");
    let ran = folder.ok(
        "replay --db sim workloadc --phase run --threads 4 --target 50000000 --duration 3s --interval 200ms",
    );
    let verdict = ran.result(&folder).meta.sustained.expect("a paced run is judged");
    assert!(!verdict.sustained && verdict.cause.as_ref().is_some_and(|cause| cause.starts_with("client")), "{verdict:?}");
}

fn a_statement_that_never_ends_is_interrupted_at_its_deadline_also_where_calls_block() {
    let folder = Folder::in_memory();
    folder.ok("gen workloada --records 100 --ops 40 -p fieldcount=1 -p fieldlength=5");
    folder.ok("replay --db sqlite workloada --url test.db --phase load");
    let connection = rusqlite::Connection::open(folder.path("test.db")).expect("the database opens");
    // Computes for ever: no lock is waited for, so only an interruption from inside ends it.
    let endless = "CREATE TRIGGER endless BEFORE UPDATE ON usertable BEGIN SELECT count(*) FROM \
                   (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n); END";
    connection.execute_batch(endless).expect("created");
    let ran = folder.ok("replay --db sqlite workloada --url test.db --phase run --threads 2 --op-timeout 100ms");
    let replayed = ran.result(&folder);
    for row in &replayed.rows {
        let right = if row.kind == OpKind::Update { Status::Timeout } else { Status::Ok };
        assert_eq!(row.status, right, "{row:?}");
        assert_eq!(row.end_ns == NEVER_NS, right == Status::Timeout, "{row:?}");
    }
    assert!(replayed.count(Status::Timeout) > 5, "{:?}", replayed.meta.counts);
}

fn late_operations_are_dropped_if_that_is_asked_for_and_have_their_rows() {
    let place = Place::new("dropping", 100, 2_000, "");
    place.relay.delay(Duration::from_millis(10));
    let (running, _) = place.start("--threads 4 --target 500 --drop-late 500ms");
    let ran = running.wait().expect_code(0);
    let replayed = ran.result(&place.folder);
    let (done, dropped) = (replayed.count(Status::Ok), replayed.count(Status::Dropped));
    assert_eq!(done + dropped, 2_000);
    assert!(dropped > 500 && done > 0, "{done} done, {dropped} dropped");
    for row in replayed.rows.iter().filter(|row| row.status == Status::Ok) {
        assert!(row.start_ns - row.intended_ns < 520 * MS + ran.room_ns, "{row:?}");
    }
    assert!(replayed.meta.elapsed_ns < 4_800 * MS + ran.room_ns, "{} ms", replayed.meta.elapsed_ns / MS);
}

fn operations_on_one_key_keep_their_order_if_that_is_asked_for() {
    let place = Place::new("hot_key", 1, 2_000, "");
    let ran = place.folder.ok(&format!(
        "replay --db postgres workloada --url {} --phase run --threads 16 --order key",
        place.url()
    ));
    let mut rows = ran.result(&place.folder).rows;
    rows.sort_by_key(|row| row.op_id);
    for pair in rows.windows(2) {
        assert!(pair[0].end_ns <= pair[1].start_ns, "{:?} overlaps {:?}", pair[0], pair[1]);
    }
}

fn contention_is_a_conflict_and_with_retries_only_a_latency() {
    let place = Place::new("contended", 1, 1_000, "-p readproportion=0 -p updateproportion=1");
    let replay = |retries: &str| {
        let url = place.url();
        let serializable = "pg.options=-c default_transaction_isolation=serializable";
        let arguments = ["replay", "--db", "postgres", "workloada", "--url", &url, "--phase", "run"];
        let more = ["--threads", "16", "-p", serializable, "--retries", retries];
        let ran = place.folder.run_list(&[&arguments[..], &more[..]].concat()).expect_code(0);
        ran.result(&place.folder)
    };
    let once = replay("0");
    assert_eq!(once.meta.server.settings["transaction_isolation"], "serializable");
    let conflicts: Vec<_> = once.rows.iter().filter(|row| row.status != Status::Ok).collect();
    assert!(!conflicts.is_empty(), "{:?}", once.meta.counts);
    for row in conflicts {
        assert_eq!((row.status, row.code.as_str(), row.attempts), (Status::Conflict, "40001", 1));
    }
    let often = replay("1000");
    assert_eq!(often.count(Status::Ok), 1_000, "{:?}", often.meta.counts);
    let retried: Vec<_> = often.rows.iter().filter(|row| row.attempts > 1).collect();
    assert!(!retried.is_empty());
    // One latency with all attempts and the time between them, and that of the last one.
    assert!(retried.iter().all(|row| row.last_start_ns - row.start_ns > 5 * MS));
    let tries: u64 = often.rows.iter().map(|row| u64::from(row.attempts) - 1).sum();
    let counted = often.meta.errors.iter().find(|error| error.code == "40001").expect("counted");
    assert_eq!(counted.count, tries, "every attempt that failed is counted");
}

fn a_lock_that_is_held_ends_at_the_deadline_also_where_calls_block() {
    let folder = Folder::in_memory();
    folder.ok("gen workloada --records 100 --ops 400 -p fieldcount=2 -p fieldlength=20");
    folder.ok("replay --db sqlite workloada --url test.db --phase load");
    let mut running = folder.start(
        "replay --db sqlite workloada --url test.db --phase run --threads 4 --target 100 --op-timeout 300ms",
    );
    let begin = running.wait_for_start();
    let blocker = rusqlite::Connection::open(folder.path("test.db")).expect("the database opens");
    blocker.busy_timeout(Duration::from_secs(10)).expect("a setting of the connection");
    at(begin, 1_000);
    blocker.execute_batch("BEGIN IMMEDIATE").expect("the lock is free at some time");
    at(begin, 2_500);
    blocker.execute_batch("COMMIT").expect("the lock is held");
    let ran = running.wait().expect_code(0);
    let replayed = ran.result(&folder);
    assert_eq!(replayed.rows.len(), 400);
    assert_eq!(replayed.count(Status::Ok) + replayed.count(Status::Timeout), 400);
    let mut rows = replayed.rows;
    rows.sort_by_key(|row| (row.session, row.start_ns));
    let mut timeouts = 0;
    for pair in rows.windows(2).filter(|pair| pair[0].status == Status::Timeout) {
        assert_eq!((pair[0].end_ns, pair[0].kind), (NEVER_NS, OpKind::Update), "{:?}", pair[0]);
        assert_eq!(pair[0].code, "SQLITE_BUSY");
        assert!((
            (650 * MS).saturating_sub(ran.room_ns)..2_600 * MS + ran.room_ns).contains(&pair[0].start_ns), "{:?}", pair[0]);
        if pair[0].session == pair[1].session {
            let apart = pair[1].start_ns - pair[0].start_ns;
            assert!((300 * MS..400 * MS + ran.room_ns).contains(&apart), "given up after {} ms", apart / MS);
        }
        timeouts += 1;
    }
    assert!((4..=24).contains(&timeouts), "{timeouts} time-outs");
}

fn what_depends_on_a_failed_operation_is_unmet_at_once_and_the_reason_is_counted() {
    let folder = Folder::in_memory();
    folder.ok("gen workloadd --records 100 --ops 3000 -p fieldcount=2 -p fieldlength=20");
    folder.ok("replay --db sqlite workloadd --url test.db --phase load");
    let connection = rusqlite::Connection::open(folder.path("test.db")).expect("the database opens");
    let trigger = "CREATE TRIGGER no BEFORE INSERT ON usertable BEGIN SELECT RAISE(ABORT, 'full'); END";
    connection.execute_batch(trigger).expect("created");
    let ran = folder.ok("replay --db sqlite workloadd --url test.db --phase run --threads 4");
    let replayed = ran.result(&folder);
    let unmet = replayed.count(Status::Unmet);
    assert!(unmet > 100, "{:?}", replayed.meta.counts);
    assert!(replayed.count(Status::Rejected) > 50 && replayed.count(Status::NotFound) == 0);
    let reason = replayed.meta.errors.iter().find(|error| error.code == "UNMET").expect("counted");
    assert_eq!(reason.count, unmet as u64);
    assert!(ran.out.contains("the operation it depends on did not succeed"), "{}", ran.out);
}

fn an_operation_that_waits_for_itself_or_a_later_one_is_an_error_of_the_file() {
    let folder = Folder::new();
    for (after, name) in [(1, "self"), (2, "later")] {
        let path = folder.path(&format!("traces/{name}.run.parquet"));
        write_reads(&path, &[("a", None), ("b", Some(after)), ("c", None)], &["field0"]);
        let ran = folder.run(&format!("replay --db sim {name} --threads 2")).expect_code(2);
        let complaint = format!("operation 1 waits for operation {after}, which does not precede it");
        assert!(ran.err.contains(&complaint), "{}", ran.err);
    }
}

fn a_polite_signal_ends_a_run_like_ctrl_c() {
    let folder = Folder::in_memory();
    folder.ok("gen workloadc --records 10 --ops 100000 --phase run");
    let mut running = folder.start("replay --db sim workloadc --phase run --threads 4 --target 500");
    let begin = running.wait_for_start();
    at(begin, 1_000);
    running.signal(Signal::TERM);
    let ran = running.wait().expect_code(130);
    assert!(ran.since(begin) < Duration::from_secs(2), "{:?}", ran.since(begin));
    let replayed = ran.result(&folder);
    assert!(replayed.meta.interrupted && replayed.meta.ended_because == "interrupted");
    let room = (ran.room_ns / (2 * MS)) as usize;
    assert!((450_usize.saturating_sub(room)..600 + room).contains(&replayed.rows.len()), "{} rows", replayed.rows.len());
}

fn however_early_or_late_a_replay_is_killed_its_closed_segments_are_kept() {
    // Moments next to the closing of a segment, and others that no two runs of this test share.
    let mut drawn = ycsb_trace::rng::Stream::from_key(u64::from(std::process::id()));
    let drawn: Vec<u64> = (0..3).map(|_| drawn.below(9_500)).collect();
    eprintln!("killed also after {drawn:?} ms");
    std::thread::scope(|scope| {
        for after_ms in [0, 20, 1_300, 4_505, 7_100, 9_040].into_iter().chain(drawn) {
            scope.spawn(move || kill_after(after_ms));
        }
    });
}

fn a_replay_that_is_killed_before_its_first_or_after_its_last_row_does_not_stop_a_repair() {
    let folder = Folder::in_memory();
    folder.ok("gen workloadc --records 10 --ops 100 --phase run");
    let result = folder.ok("replay --db sim workloadc --phase run").results(&folder).remove(0);
    let name = result.file_name().expect("a file").to_string_lossy().into_owned();
    for left in [name.as_str(), "never_begun.parquet"] {
        std::fs::create_dir(folder.path(&format!("results/.{left}.segments"))).expect("a writable folder");
    }
    let repaired = folder.ok("repair");
    assert!(repaired.out.contains("nothing to repair"), "{}", repaired.out);
    assert_eq!(Replayed::read(&result).rows.len(), 100, "a complete result is left alone");
    assert_eq!(folder.names("results"), [".never_begun.parquet.segments", name.as_str()]);
}

fn every_fault_in_the_documentation_names_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let document = read("docs/faults.md");
    let (_, table) = document.split_once("## Faults, one by one").expect("a section");
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 20, "{} rows", rows.len());
    for row in rows {
        let test = row.trim_end_matches(" |").rsplit(" | ").next().expect("a column");
        // Names in backticks, each followed by its file in parentheses if that is another one.
        let names: Vec<&str> = test.split('`').collect();
        assert!(names.len() > 1, "{test}");
        for (name, after) in names[1..].chunks(2).map(|pair| (pair[0], pair.get(1).copied().unwrap_or_default())) {
            let file = match after.trim().trim_start_matches('(').split(')').next().unwrap_or_default() {
                "" | "," => "tests/it/faults.rs".to_owned(),
                file if file.contains('/') => file.to_owned(),
                file => format!("tests/it/{file}"),
            };
            assert!(read(&file).contains(&format!("fn {name}()")), "{file} has no test {name}");
        }
    }
}

fn gates_decide_the_exit_code_and_show_the_numbers() {
    let folder = Folder::in_memory();
    folder.ok("gen workloada --records 10 --ops 300");
    let replay = |conditions: &[&str]| {
        let mut arguments = vec!["replay", "--db", "sim", "workloada", "--threads", "2", "-p", "sim.latency=2ms"];
        arguments.extend(conditions.iter().flat_map(|condition| ["--fail-if", condition]));
        folder.run_list(&arguments)
    };
    replay(&["p99(READ) > 1s", "errors > 0.1%", "rate < 10", "max(service, UPDATE) > 5s"]).expect_code(0);
    let ran = replay(&["p50(READ) > 1ms", "rate > 10", "p50 > 1s"]).expect_code(1);
    assert!(ran.err.contains("gate: the p50 of the READ response times is 2."), "{}", ran.err);
    assert!(ran.err.contains("so --fail-if 'p50(READ) > 1ms' refuses the run"), "{}", ran.err);
    assert!(ran.err.contains("gate: the rate of all operations is "), "{}", ran.err);
    assert_eq!(ran.err.matches("gate:").count(), 2, "{}", ran.err);
    let ran = replay(&["p99(SCAN) > 1s"]).expect_code(1);
    assert!(ran.err.contains("the run has no SCAN operation to judge by"), "{}", ran.err);
    let ran = replay(&["p99(REED) > 5ms"]).expect_code(2);
    assert!(ran.err.contains("  p99(REED) > 5ms\n      ^"), "{}", ran.err);
    assert!(ran.out.is_empty());
}

}

/// Kills a replay this long after its start; nothing that was closed by then may be lost.
fn kill_after(after_ms: u64) {
    let folder = Folder::in_memory();
    folder.ok("gen workloadc --records 10 --ops 100000 --phase run");
    let mut running = folder.start("replay --db sim workloadc --phase run --target 1000");
    let begin = running.wait_for_start();
    at(begin, after_ms);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    let hidden = folder.names("results").into_iter().find(|name| name.ends_with(".segments"));
    let segments = format!("results/{}", hidden.expect("the folder of the run"));
    let closed: Vec<_> = folder
        .names(&segments)
        .into_iter()
        .filter(|name| name.ends_with(".parquet"))
        .map(|name| folder.path(&format!("{segments}/{name}")))
        .collect();
    assert!(closed.len() as u64 >= after_ms.saturating_sub(50) / 4_700, "{closed:?} after {after_ms} ms");
    let rows: u64 = closed.iter().map(|path| rows_of(path)).sum();
    let repaired = folder.ok("repair");
    let path = repaired.out.split(": ").next().expect("the name of the file");
    let replayed = Replayed::read(&folder.path(path));
    replayed.assert_it_adds_up();
    assert_eq!(replayed.rows.len() as u64, rows, "killed after {after_ms} ms");
    let ids = replayed.unique_ids();
    assert_eq!(ids, (0..rows).collect::<Vec<_>>(), "a beginning without gaps");
}

/// The most memory that a program has had when it ends (the last time it was asked, every 20 ms).
fn peak_kb(running: &Running) -> JoinHandle<u64> {
    let path = format!("/proc/{}/status", running.id());
    std::thread::spawn(move || {
        let mut peak = 0;
        loop {
            // One that has ended and was not waited for has no such line.
            let status = std::fs::read_to_string(&path).unwrap_or_default();
            let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) else { return peak };
            peak = line.trim_end_matches("kB").trim().parse().expect("a number");
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

fn rows_of(path: &Path) -> u64 {
    let file = std::fs::File::open(path).expect("a closed segment");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a closed segment is complete");
    builder.metadata().file_metadata().num_rows() as u64
}
