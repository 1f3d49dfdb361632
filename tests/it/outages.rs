//! Servers that go away, hang or refuse, the same for every database that has one: `faults.rs` does it
//! in depth on PostgreSQL, here each other server has to show that its driver notices, tells the
//! right thing, and comes back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ycsb_trace::op::{NEVER_NS, OpKind, Status};

use crate::support::daemon::Daemon;
use crate::support::program::{Folder, Replayed, ReplayedRow, Running, sleep_until};
use crate::support::relay::{Mode, Relay};

const MS: u64 = 1_000_000;

/// What differs between the databases.
struct Database {
    db: &'static str,
    /// Where the server shared by all tests listens.
    port: fn() -> u16,
    /// A URL for the relay or the server at this port, and a place of its own for this name.
    url: fn(port: u16, name: &str) -> String,
    /// Makes that place, if it has to be made.
    make: fn(name: &str),
    /// Starts a server that a test may end.
    own: fn() -> (u16, Daemon),
    /// Codes of a connection that was lost.
    lost: &'static [&'static str],
}

struct Place {
    folder: Folder,
    relay: Relay,
    url: String,
    db: &'static str,
}

impl Place {
    /// A small workload A, loaded, and a relay in front of the server.
    fn new(database: &Database, name: &str, records: u64, ops: u64) -> Place {
        let folder = Folder::in_memory();
        folder
            .ok(&format!("gen workloada --records {records} --ops {ops} -p fieldcount=2 -p fieldlength=20"));
        (database.make)(name);
        let relay = Relay::to((database.port)());
        let url = (database.url)(relay.port, name);
        let db = database.db;
        folder.ok(&format!("replay --db {db} workloada --url {url} --phase load --threads 4"));
        Place { folder, relay, url, db }
    }

    fn start(&self, options: &str) -> (Running, Instant) {
        let (db, url) = (self.db, &self.url);
        let mut running =
            self.folder.start(&format!("replay --db {db} workloada --url {url} --phase run {options}"));
        let begin = running.wait_for_start();
        (running, begin)
    }
}

fn at(begin: Instant, ms: u64) {
    sleep_until(begin, Duration::from_millis(ms));
}

fn first_success(rows: &[ReplayedRow], after_ns: u64) -> u64 {
    let rows = rows.iter().filter(|row| row.status == Status::Ok && row.start_ns > after_ns);
    rows.map(|row| row.end_ns).min().unwrap_or(NEVER_NS)
}

/// Those that failed: each by a lost connection, and only writes ambiguously.
#[track_caller]
fn lost(database: &Database, replayed: &Replayed) -> usize {
    let failed: Vec<_> = replayed.rows.iter().filter(|row| row.status != Status::Ok).collect();
    for row in &failed {
        assert_eq!(row.status, Status::Unavailable, "{row:?}");
        let code = row.code.strip_prefix("AMBIGUOUS ").unwrap_or(&row.code);
        assert!(database.lost.contains(&code), "{row:?}");
        assert!(row.code == code || row.kind == OpKind::Update, "a read is never ambiguous: {row:?}");
    }
    failed.len()
}

fn gone_for_a_while(database: &Database) {
    let place = Place::new(database, "gone", 200, 1000);
    let (running, begin) = place.start("--threads 8 --target 200");
    at(begin, 1_500);
    place.relay.set(Mode::Refuse);
    at(begin, 3_000);
    place.relay.set(Mode::Pass);
    let replayed = running.wait().expect_code(0).result(&place.folder);
    assert_eq!(replayed.unique_ids(), (0..1000).collect::<Vec<_>>());
    let failed = lost(database, &replayed);
    assert!((1..=8).contains(&failed), "{failed} failed");
    assert!(first_success(&replayed.rows, 1_700 * MS) >= 3_000 * MS);
    let late = replayed.rows.iter().find(|row| row.intended_ns == 2_000 * MS).expect("200/s");
    assert!(late.start_ns - late.intended_ns > 900 * MS, "{late:?}");
}

fn gone_for_a_while_with_retries(database: &Database) {
    let place = Place::new(database, "gone_retried", 200, 1000);
    let (running, begin) = place.start("--threads 8 --target 200 --retries 100 --max-error-rate 0");
    at(begin, 1_500);
    place.relay.set(Mode::Refuse);
    at(begin, 3_000);
    place.relay.set(Mode::Pass);
    let replayed = running.wait().expect_code(0).result(&place.folder);
    assert_eq!(replayed.count(Status::Ok), 1000, "{:?}", replayed.meta.counts);
    let retried: Vec<_> = replayed.rows.iter().filter(|row| row.attempts > 1).collect();
    assert!((1..=8).contains(&retried.len()), "{} were tried again", retried.len());
    for row in retried {
        assert!(row.last_start_ns > 3_000 * MS - 100 * MS, "{row:?}");
        assert!(row.end_ns - row.start_ns > 1_000 * MS, "all attempts are one latency: {row:?}");
    }
}

fn silent_during_a_run(database: &Database) {
    let place = Place::new(database, "silent", 100, 800);
    let (running, begin) = place.start("--threads 8 --target 200 --op-timeout 500ms");
    at(begin, 1_000);
    place.relay.set(Mode::Pause);
    at(begin, 2_500);
    place.relay.set(Mode::Pass);
    let replayed = running.wait().expect_code(0).result(&place.folder);
    assert_eq!(replayed.rows.len(), 800);
    let timeouts = replayed.count(Status::Timeout);
    assert!(timeouts >= 8, "{timeouts} time-outs");
    assert_eq!(replayed.count(Status::Ok) + timeouts, 800, "{:?}", replayed.meta.counts);
    for row in replayed.rows.iter().filter(|row| row.status == Status::Timeout) {
        assert_eq!(row.end_ns, NEVER_NS, "{row:?}");
        assert_eq!(row.code == "AMBIGUOUS", row.kind == OpKind::Update, "{row:?}");
    }
    let late = replayed.rows.iter().filter(|row| row.start_ns > 3_200 * MS);
    assert_eq!(late.map(|row| row.session).collect::<BTreeSet<_>>().len(), 8, "all are back");
}

fn hanging_at_the_end(database: &Database) {
    let place = Place::new(database, "hanging", 100, 10_000);
    let (running, begin) = place.start("--threads 4 --target 200 --duration 2s");
    at(begin, 1_000);
    place.relay.set(Mode::BlackHole);
    let replayed = running.wait().expect_code(0).result(&place.folder);
    // The limit of the run, and that for draining it.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(replayed.meta.ended_because, "time limit");
    assert_eq!(replayed.count(Status::Timeout), 4, "one on each connection: {:?}", replayed.meta.counts);
}

fn one_connection_lost(database: &Database) {
    let place = Place::new(database, "one_lost", 100, 400);
    let (running, begin) = place.start("--threads 4 --target 200");
    at(begin, 1_000);
    place.relay.cut_one();
    let replayed = running.wait().expect_code(0).result(&place.folder);
    assert!(lost(database, &replayed) <= 1);
    assert_eq!(replayed.rows.len(), 400);
}

fn killed_and_restarted(database: &Database) {
    let (port, server) = (database.own)();
    let url = (database.url)(port, "own");
    let (folder, db) = (Folder::in_memory(), database.db);
    folder.ok("gen workloada --records 100 --ops 1000 -p fieldcount=2 -p fieldlength=20");
    folder.ok(&format!("replay --db {db} workloada --url {url} --phase load"));
    let mut running =
        folder.start(&format!("replay --db {db} workloada --url {url} --phase run --threads 4 --target 100"));
    let begin = running.wait_for_start();
    for (down, up, word) in [(1_500, 2_500, "stop"), (5_500, 6_500, "kill")] {
        at(begin, down);
        server.tell(word);
        at(begin, up);
        server.tell("start");
    }
    let replayed = running.wait().expect_code(0).result(&folder);
    assert_eq!(replayed.rows.len(), 1000);
    let failed = lost(database, &replayed);
    assert!((1..=8).contains(&failed), "{failed} failed");
    for up in [2_500, 6_500] {
        assert_ne!(first_success(&replayed.rows, up * MS), NEVER_NS, "it serves again");
    }
}

fn refusals_at_the_start(database: &Database) {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 10 -p fieldcount=2");
    let db = database.db;
    let replay = |url: &str, more: &str, code: i32| {
        folder.run(&format!("replay --db {db} workloada --url {url} {more}")).expect_code(code).err
    };
    let nobody = replay(&(database.url)(crate::support::daemon::free_port(), "refused"), "", 3);
    assert!(nobody.contains("nobody listens"), "{nobody}");
    let url = (database.url)((database.port)(), "refused");
    let unknown = replay(&url.replace("127.0.0.1", "no-such-host.invalid"), "", 3);
    assert!(unknown.contains("is unknown"), "{unknown}");
    let nonsense = replay("nonsense://127.0.0.1", "", 2);
    assert!(nonsense.contains("--url"), "{nonsense}");
    (database.make)("refused");
    let empty = replay(&url, "--phase run", 3);
    assert!(empty.contains("--phase load"), "{empty}");
    replay(&url, "--phase load", 0);
    let again = replay(&url, "--phase load", 2);
    assert!(again.contains("already holds rows") && again.contains("--drop"), "{again}");
    replay(&url, "--phase load --drop", 0);
    let relay = Relay::to((database.port)());
    relay.set(Mode::BlackHole);
    let begin = Instant::now();
    let silent = replay(&(database.url)(relay.port, "refused"), &format!("-p {db}.connect-timeout=1"), 3);
    assert!(silent.contains("within 1 s"), "{silent}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!(folder.names("results").len(), 2, "only what was replayed has a result");
}

macro_rules! outages {
    ($($(#[$cfg:meta])* $module:ident: $database:expr;)*) => {
        $($(#[$cfg])*
        mod $module {
            use super::Database;
            use crate::support::together::together;

            const DATABASE: Database = $database;

            together! {
                fn a_server_that_is_gone_fails_what_was_under_way_and_delays_the_rest() {
                    crate::outages::gone_for_a_while(&DATABASE);
                }
                fn with_retries_a_server_that_is_gone_costs_time_and_no_operation() {
                    crate::outages::gone_for_a_while_with_retries(&DATABASE);
                }
                fn an_operation_without_an_answer_ends_at_its_deadline() {
                    crate::outages::silent_during_a_run(&DATABASE);
                }
                fn a_run_ends_on_time_although_its_operations_hang() {
                    crate::outages::hanging_at_the_end(&DATABASE);
                }
                fn one_lost_connection_of_many_fails_at_most_its_own_operation() {
                    crate::outages::one_connection_lost(&DATABASE);
                }
                fn a_server_that_is_killed_and_one_that_is_restarted_are_found_again() {
                    crate::outages::killed_and_restarted(&DATABASE);
                }
                fn what_cannot_be_used_is_refused_with_a_reason() {
                    crate::outages::refusals_at_the_start(&DATABASE);
                }
            }
        })*
    };
}

outages! {
    #[cfg(feature = "mysql")]
    mariadb: Database {
        db: "mysql",
        port: || crate::support::mariadb::server().port,
        url: |port, name| {
            format!("mysql://{}@127.0.0.1:{port}/outage_{name}", crate::support::mariadb::TRUSTED)
        },
        make: |name| {
            crate::support::block_on(crate::support::mariadb::database(&format!("outage_{name}")));
        },
        own: || {
            let server = crate::support::mariadb::Server::start(&[]);
            crate::support::block_on(async {
                use mysql_async::prelude::Queryable;
                let mut client = crate::support::mariadb::connect(server.port, "mysql").await.expect("it serves");
                client.query_drop("CREATE DATABASE outage_own").await.expect("created");
            });
            (server.port, server.daemon)
        },
        lost: &["2013", "1053", "1927", "1158", "1159"],
    };
    #[cfg(feature = "redis")]
    redis: Database {
        db: "redis",
        port: || crate::support::redis::server().port,
        url: |port, name| {
            let number = if name == "own" { 0 } else { crate::support::redis::database(&format!("outage_{name}")) };
            format!("redis://127.0.0.1:{port}/{number}")
        },
        make: |_| (),
        own: || {
            let server = crate::support::redis::Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
            (server.port, server.daemon)
        },
        lost: &["LOST", "LOADING"],
    };
}
