//! Transactional workloads on real databases: every statement of every transaction is accounted for,
//! one trace leaves the same tables everywhere, and sysbench's tables are ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use rusqlite::Connection;
use rustix::process::Signal;
use ycsb_trace::op::Status;
use ycsb_trace::trace::meta::{RunMeta, TraceMeta};
use ycsb_trace::trace::ops::TraceReader;
use ycsb_trace::trace::runs::RunFile;
use ycsb_trace::workload::builtin::TRANSACTIONAL;

use crate::support::postgres::{client, database, server};
use crate::support::program::{Folder, Ran, sleep_until};
use crate::support::{block_on, mariadb};

/// A transaction of a result: the name, status and attempts of each of its rows.
type Rows = Vec<(String, Status, i32)>;

struct Result {
    meta: RunMeta,
    transactions: BTreeMap<u64, Rows>,
}

impl Result {
    fn read(path: &Path) -> Result {
        let file = RunFile::open(path).unwrap_or_else(|error| panic!("{error}"));
        let mut rows = Vec::new();
        for group in 0..file.row_groups() {
            file.scan_transactions(group, |block| {
                rows.extend((0..block.txn.len()).map(|row| {
                    let name = block.columns.kinds[row].name().to_owned();
                    let times = (block.columns.intended_ns[row] as u64, block.columns.end_ns[row]);
                    let ended = (name, block.columns.statuses[row], block.attempts[row]);
                    (block.columns.op_id[row], block.txn[row], ended, times)
                }));
            })
            .expect("readable rows");
        }
        rows.sort_by_key(|row| row.0);
        let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
        assert_eq!(ids, (0..file.meta.rows as i64).collect::<Vec<_>>(), "every row once");
        let mut transactions: BTreeMap<u64, Rows> = BTreeMap::new();
        let mut before: Option<(u64, u64)> = None;
        for (_, txn, ended, (intended_ns, end_ns)) in rows {
            if let Some((last, last_end_ns)) = before
                && last == txn
                && ended.1 == Status::Ok
            {
                assert_eq!(intended_ns, last_end_ns, "a statement starts when the one before has ended");
            }
            before = Some((txn, end_ns));
            transactions.entry(txn).or_default().push(ended);
        }
        let result = Result { meta: file.meta, transactions };
        result.assert_it_adds_up();
        result
    }

    /// Rows = operations of the trace = the sum of all counts; a transaction is OK up to its end or up to
    /// the statement that failed, and UNMET after that.
    fn assert_it_adds_up(&self) {
        let meta = &self.meta;
        let counted: u64 = meta.counts.values().flat_map(|statuses| statuses.values()).sum();
        assert_eq!((meta.rows, counted), (meta.trace_rows, meta.trace_rows), "{:?}", meta.counts);
        let (mut ok, mut failed) = (0, 0);
        for (txn, rows) in &self.transactions {
            let good = rows.iter().take_while(|row| row.1 == Status::Ok).count();
            if good == rows.len() {
                ok += 1;
                assert!(rows.iter().all(|row| row.2 >= 1), "{txn}: {rows:?}");
                continue;
            }
            failed += 1;
            if rows[0].1 == Status::Dropped {
                assert!(rows.iter().all(|row| row.1 == Status::Dropped && row.2 == 0), "{txn}: {rows:?}");
                continue;
            }
            assert_ne!(rows[good].1, Status::Unmet, "{txn}: something failed first: {rows:?}");
            assert!(
                rows[good + 1..].iter().all(|row| row.1 == Status::Unmet && row.2 == 0),
                "{txn}: {rows:?}"
            );
        }
        let counts = meta.transactions.expect("a statement trace");
        assert_eq!((counts.ok, counts.failed), (ok, failed));
        assert_eq!(counts.planned, ok + failed, "none is missing");
    }
}

fn trace(folder: &Folder, name: &str) -> TraceMeta {
    TraceReader::open(&folder.path(name)).unwrap_or_else(|error| panic!("{error}")).meta().clone()
}

fn results(ran: &Ran, folder: &Folder) -> Vec<Result> {
    ran.results(folder).iter().map(|path| Result::read(path)).collect()
}

/// The result of the last phase that ran.
fn run_of(ran: &Ran, folder: &Folder) -> Result {
    results(ran, folder).pop().expect("a run")
}

/// Where a test's tables are.
struct Place {
    db: &'static str,
    url: String,
}

impl Place {
    fn postgres(name: &str) -> Place {
        Place { db: "postgres", url: block_on(database(name)) }
    }

    fn mariadb(name: &str) -> Place {
        Place { db: "mariadb", url: block_on(mariadb::database(name)) }
    }

    fn sqlite(folder: &Folder) -> Place {
        Place { db: "sqlite", url: folder.path("tables.db").display().to_string() }
    }

    fn replay(&self, folder: &Folder, arguments: &str) -> Ran {
        let mut list = vec!["replay", "--db", self.db, "--url", &self.url];
        list.extend(arguments.split_whitespace());
        folder.run_list(&list)
    }

    /// The rows of a table as text, in order, without the blanks that CHAR adds.
    fn rows(&self, query: &str) -> Vec<String> {
        if self.db == "sqlite" {
            let connection = Connection::open(&self.url).expect("the file of the test");
            let mut statement = connection.prepare(query).expect("a query");
            let columns = statement.column_count();
            let text = |row: &rusqlite::Row<'_>, column| {
                let value: rusqlite::types::Value = row.get(column).expect("a value");
                match value {
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    rusqlite::types::Value::Text(text) => text.trim_end().to_owned(),
                    other => format!("{other:?}"),
                }
            };
            let row = |row: &rusqlite::Row<'_>| {
                Ok((0..columns).map(|column| text(row, column)).collect::<Vec<_>>().join("|"))
            };
            return statement.query_map([], row).expect("rows").map(|row| row.expect("a row")).collect();
        }
        if self.db == "mariadb" {
            let name = self.url.rsplit('/').next().expect("a database").to_owned();
            let text = |value: &mysql_async::Value| match value {
                mysql_async::Value::Bytes(bytes) => String::from_utf8_lossy(bytes).trim_end().to_owned(),
                mysql_async::Value::Int(number) => number.to_string(),
                other => format!("{other:?}"),
            };
            return block_on(async {
                let mut conn = mariadb::client(&name).await;
                let rows: Vec<mysql_async::Row> = conn.query(query).await.expect("a query");
                let joined = |row: &mysql_async::Row| {
                    (0..row.len()).map(|column| text(&row[column])).collect::<Vec<_>>().join("|")
                };
                rows.iter().map(joined).collect()
            });
        }
        let name = self.url.rsplit('/').next().expect("a database").to_owned();
        block_on(async {
            let answer = client(&name).await.simple_query(query).await.expect("a query");
            let text = |message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => {
                    let values =
                        (0..row.len()).map(|column| row.get(column).unwrap_or("").trim_end().to_owned());
                    Some(values.collect::<Vec<_>>().join("|"))
                }
                _ => None,
            };
            answer.into_iter().filter_map(text).collect()
        })
    }
}

const SMALL: &str = "--table-size 300 --ops 40 --seed 3";

/// A small version of a test: of several tables where it has them.
fn small(name: &str) -> String {
    match name {
        "bulk_insert" => "--tables 2 --ops 40 --seed 3".to_owned(),
        _ if name.starts_with("select") => SMALL.to_owned(),
        _ => format!("{SMALL} --tables 2"),
    }
}

/// All eleven, with conflicts where tables are this small: what is retried ends OK, and every statement
/// has its row.
fn all_tests_on(place: &Place, folder: &Folder) {
    for (name, _) in TRANSACTIONAL {
        folder.ok(&format!("gen {name} {} -o traces", small(name)));
        let ran = place.replay(folder, &format!("{name} --drop --threads 4 --retries 50")).expect_code(0);
        let found = results(&ran, folder);
        let run = found.last().expect("a run");
        let planned = trace(folder, &format!("traces/{name}.run.parquet"));
        for (statement, count) in &planned.op_counts {
            let ok = run.meta.counts[statement].get("OK").copied();
            assert_eq!(ok, Some(*count), "{name} {statement} on {}: {:?}", place.db, run.meta.errors);
        }
        assert_eq!(run.meta.transactions.expect("transactions").ok, 40, "{name} on {}", place.db);
        if !["bulk_insert", "oltp_insert", "oltp_delete"].contains(name) {
            assert_eq!(place.rows("SELECT count(*) FROM sbtest1"), ["300"], "{name} on {}", place.db);
        }
    }
    // 40 inserts over two tables, and 20 statements of 1000 rows for each.
    folder.ok(&format!("gen oltp_insert {SMALL} --tables 2 --force"));
    place.replay(folder, "oltp_insert --drop --threads 4").expect_code(0);
    let both = "SELECT (SELECT count(*) FROM sbtest1) + (SELECT count(*) FROM sbtest2)";
    assert_eq!(place.rows(both), ["640"]);
    let highest = "SELECT max(id) FROM (SELECT id FROM sbtest1 UNION ALL SELECT id FROM sbtest2) AS ids";
    assert!(place.rows(highest)[0].parse::<u64>().unwrap() > 300, "new numbers go on after the loaded ones");
    place.replay(folder, "bulk_insert --drop --threads 4").expect_code(0);
    assert_eq!(place.rows("SELECT count(*), max(id), max(k) FROM sbtest2"), ["20000|20000|20000"]);
}

#[test]
fn all_eleven_tests_of_sysbench_run_on_sqlite_and_every_statement_is_there() {
    let folder = Folder::in_memory();
    all_tests_on(&Place::sqlite(&folder), &folder);
}

#[test]
fn all_eleven_tests_of_sysbench_run_on_postgresql_and_every_statement_is_there() {
    let folder = Folder::in_memory();
    all_tests_on(&Place::postgres("oltp_all"), &folder);
}

#[test]
fn all_eleven_tests_of_sysbench_run_on_mariadb_and_every_statement_is_there() {
    let folder = Folder::in_memory();
    all_tests_on(&Place::mariadb("oltp_all"), &folder);
}

#[test]
fn one_trace_replayed_by_one_session_leaves_the_same_tables_everywhere() {
    let folder = Folder::in_memory();
    folder.ok("gen oltp_read_write --tables 2 --table-size 150 --ops 60 -p delete-inserts=2 -o traces");
    let mut seen: Vec<Vec<String>> = Vec::new();
    for place in [Place::sqlite(&folder), Place::postgres("oltp_same"), Place::mariadb("oltp_same")] {
        place.replay(&folder, "oltp_read_write --drop --threads 1").expect_code(0);
        let mut rows = place.rows("SELECT id, k, c, pad FROM sbtest1 ORDER BY id");
        rows.extend(place.rows("SELECT id, k, c, pad FROM sbtest2 ORDER BY id"));
        assert_eq!(rows.len(), 300, "{}", place.db);
        // The load does not depend on the number of sessions either.
        place.replay(&folder, "oltp_read_write --drop --phase load --threads 3").expect_code(0);
        let loaded = place.rows("SELECT id, k, c, pad FROM sbtest1 ORDER BY id");
        assert_ne!(rows[..150], loaded, "the run changes something");
        rows.extend(loaded);
        seen.push(rows);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

/// Every transaction adds one to one of two rows, at the strictest isolation.
const COUNTER: &str = r#"
[options]
[[tables]]
name = "counters"
rows = "2"
columns = [{ name = "id", type = "int", load = "number" }, { name = "n", type = "bigint", load = "uniform 0 0" }]
primary-key = ["id"]
[statements.look]
sql = "SELECT n FROM {table} WHERE id = $1"
[statements.count]
sql = "UPDATE {table} SET n = n + 1 WHERE id = $1"
[statements.all]
sql = "SELECT sum(n) FROM {table}"
[[transactions]]
steps = [{ draw = { id = "uniform 1 2" }, run = ["look(id)", "all()", "count(id)"] }]
"#;

#[test]
fn under_real_conflicts_nothing_is_lost_and_nothing_is_done_twice() {
    let folder = Folder::in_memory();
    folder.write("counter.toml", COUNTER);
    folder.ok("gen counter.toml --ops 300 -o traces");
    let place = Place::postgres("oltp_conflicts");
    let serializable = "counter --threads 6 -p pg.options=-cdefault_transaction_isolation=serializable";
    // Some fail, and what they did is taken back: only what committed counts.
    let ran = place.replay(&folder, &format!("{serializable} --drop --max-error-rate 1")).expect_code(0);
    let run = run_of(&ran, &folder);
    let ended = run.meta.transactions.expect("transactions");
    assert!(ended.failed > 0, "six sessions on two rows without a conflict: {ended:?}");
    assert_eq!(ended.retries, 0);
    assert_eq!(place.rows("SELECT sum(n) FROM counters"), [ended.ok.to_string()]);
    assert!(run.meta.errors.iter().any(|error| error.code == "40001"), "{:?}", run.meta.errors);
    // With retries every one of them succeeds in the end, once.
    let ran = place.replay(&folder, &format!("{serializable} --drop --retries 1000")).expect_code(0);
    let run = run_of(&ran, &folder);
    let ended = run.meta.transactions.expect("transactions");
    assert_eq!((ended.ok, ended.failed), (300, 0));
    assert!(ended.retries > 0, "{ended:?}");
    assert_eq!(place.rows("SELECT sum(n) FROM counters"), ["300"]);
    let tries: i64 = run.transactions.values().map(|rows| i64::from(rows[0].2) - 1).sum();
    assert_eq!(tries as u64, ended.retries, "attempts of the rows and the footer agree");
    let alike = |rows: &Rows| rows.iter().all(|row| row.2 == rows[0].2);
    assert!(run.transactions.values().all(alike), "the whole transaction is tried again");
}

#[test]
fn sqlite_takes_back_what_it_refuses_when_its_lock_is_taken_late() {
    let folder = Folder::in_memory();
    folder.write("counter.toml", COUNTER);
    folder.ok("gen counter.toml --ops 300 -o traces");
    let place = Place::sqlite(&folder);
    let late = "counter --drop --threads 4 -p sqlite.begin=deferred";
    let ran = place.replay(&folder, &format!("{late} --max-error-rate 1")).expect_code(0);
    let ended = run_of(&ran, &folder).meta.transactions.expect("transactions");
    assert_eq!(place.rows("SELECT sum(n) FROM counters"), [ended.ok.to_string()]);
    let ran = place.replay(&folder, &format!("{late} --retries 1000")).expect_code(0);
    let ended = run_of(&ran, &folder).meta.transactions.expect("transactions");
    assert_eq!((ended.ok, ended.failed), (300, 0));
    assert_eq!(place.rows("SELECT sum(n) FROM counters"), ["300"]);
}

/// Each transaction adds one to two rows, always in the same order.
const PAIRS: &str = r#"
[[tables]]
name = "pairs"
rows = "2"
columns = [{ name = "id", type = "int", load = "number" }, { name = "n", type = "bigint", load = "uniform 0 0" }]
primary-key = ["id"]
[statements.count]
sql = "UPDATE {table} SET n = n + 1 WHERE id = $1"
[[transactions]]
steps = [{ run = ["count(1)", "count(2)"] }]
"#;

/// Somebody else holds a row: each transaction is given up at its second statement, and what it did before
/// is taken back at once, for otherwise the next one would already hang at its first.
fn given_up_transactions(place: &Place, hold: &dyn Fn(&dyn Fn())) {
    let folder = Folder::in_memory();
    folder.write("pairs.toml", PAIRS);
    folder.ok("gen pairs.toml --ops 4 -o traces");
    place.replay(&folder, "pairs --phase load").expect_code(0);
    hold(&|| {
        let limited = "pairs --phase run --threads 1 --op-timeout 400ms --retries 3 --max-error-rate 1";
        let run = run_of(&place.replay(&folder, limited).expect_code(0), &folder);
        for rows in run.transactions.values() {
            let ended: Vec<(&str, Status)> = rows.iter().map(|row| (row.0.as_str(), row.1)).collect();
            let expected = [
                ("BEGIN", Status::Ok),
                ("count", Status::Ok),
                ("count", Status::Timeout),
                ("COMMIT", Status::Unmet),
            ];
            assert_eq!(ended, expected, "{}: {:?}", place.db, run.meta.errors);
        }
        let ended = run.meta.transactions.expect("transactions");
        assert_eq!((ended.ok, ended.failed, ended.retries), (0, 4, 0), "{}", place.db);
    });
    assert_eq!(place.rows("SELECT sum(n) FROM pairs"), ["0"], "{}: nothing of them lasts", place.db);
    // The lock is gone, and so is every trace of the others.
    let run =
        place.replay(&folder, "pairs --phase run --threads 2 --op-timeout 30s --retries 9").expect_code(0);
    assert_eq!(results(&run, &folder)[0].meta.transactions.expect("transactions").ok, 4);
    assert_eq!(place.rows("SELECT sum(n) FROM pairs"), ["8"]);
}

/// Does something while another thread holds a lock: `lock` takes it, says so, and keeps it until told.
fn while_locked(lock: impl FnOnce(Sender<()>, Receiver<()>) + Send, meanwhile: &dyn Fn()) {
    let ((locked, is_locked), (done, is_done)) = (channel(), channel());
    // What it owns is dropped when `meanwhile` fails, so that the lock is let go then, too.
    std::thread::scope(move |scope| {
        scope.spawn(|| lock(locked, is_done));
        is_locked.recv().expect("the row is free");
        meanwhile();
        // Or the thread has gone, and says why.
        let _ = done.send(());
    });
}

#[test]
fn transactions_that_are_given_up_are_taken_back_at_once_by_postgresql() {
    let lock = |locked: Sender<()>, done: Receiver<()>| {
        block_on(async {
            let other = client("oltp_given_up").await;
            other.batch_execute("BEGIN; UPDATE pairs SET n = n WHERE id = 2").await.expect("the row is free");
            locked.send(()).expect("somebody waits");
            let _ = done.recv();
        });
    };
    let place = Place::postgres("oltp_given_up");
    given_up_transactions(&place, &|meanwhile| while_locked(lock, meanwhile));
}

#[test]
fn transactions_that_are_given_up_are_taken_back_at_once_by_mariadb() {
    let lock = |locked: Sender<()>, done: Receiver<()>| {
        block_on(async {
            let mut other = mariadb::client("oltp_given_up").await;
            for text in ["BEGIN", "UPDATE pairs SET n = n + 1 WHERE id = 2"] {
                other.query_drop(text).await.expect("the row is free");
            }
            locked.send(()).expect("somebody waits");
            let _ = done.recv();
            other.query_drop("ROLLBACK").await.expect("the connection is there");
        });
    };
    let place = Place::mariadb("oltp_given_up");
    given_up_transactions(&place, &|meanwhile| while_locked(lock, meanwhile));
}

/// SQLite has one lock for all; with BEGIN DEFERRED it is met at the first statement.
#[test]
fn a_transaction_that_is_given_up_on_sqlite_leaves_its_connection_usable() {
    let folder = Folder::in_memory();
    folder.write("pairs.toml", PAIRS);
    folder.ok("gen pairs.toml --ops 4 -o traces");
    let place = Place::sqlite(&folder);
    place.replay(&folder, "pairs --phase load").expect_code(0);
    let other = Connection::open(&place.url).expect("the file of the test");
    for (begin, failing) in [("immediate", 0), ("deferred", 1)] {
        other.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
        let limited = format!(
            "pairs --phase run --threads 1 --op-timeout 100ms --max-error-rate 1 -p sqlite.begin={begin}"
        );
        let run = run_of(&place.replay(&folder, &limited).expect_code(0), &folder);
        assert_eq!(run.meta.transactions.map(|ended| (ended.ok, ended.failed)), Some((0, 4)));
        for rows in run.transactions.values() {
            assert_eq!(rows[failing].1, Status::Timeout, "{begin}: {rows:?}");
        }
        other.execute_batch("ROLLBACK").expect("the lock is ours");
        assert_eq!(place.rows("SELECT sum(n) FROM pairs"), ["0"]);
    }
    place.replay(&folder, "pairs --phase run --threads 2 --op-timeout 30s").expect_code(0);
    assert_eq!(place.rows("SELECT sum(n) FROM pairs"), ["8"]);
}

const NO_SYSBENCH: &str = "this test needs sysbench; install it, e.g. apt-get install sysbench";

fn sysbench(arguments: &[&str]) -> String {
    let output = Command::new("sysbench").args(arguments).output().expect(NO_SYSBENCH);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Tables made by the real sysbench are replayed on, then the other way round.
fn both_ways(place: &Place, driver: &[&str], options: &[&str]) {
    let folder = Folder::in_memory();
    let named = ["oltp_read_write", "--tables=2", "--table-size=200", "--threads=1"];
    let common = [&named[..], options, driver].concat();
    let run = |command: &[&str]| sysbench(&[&common[..], command].concat());
    run(&["prepare"]);
    let options = options.join(" ");
    folder.ok(&format!("gen oltp_read_write --tables=2 --table-size=200 {options} --ops 30 -o traces"));
    place.replay(&folder, "oltp_read_write --phase run").expect_code(0);
    let before = place.rows("SELECT count(*), sum(k) FROM sbtest2");
    assert!(before[0].starts_with("200|"), "{before:?}");
    run(&["cleanup"]);
    place.replay(&folder, "oltp_read_write --phase load").expect_code(0);
    let report = run(&["run", "--events=30", "--time=0"]);
    assert!(report.contains("transactions:                        30"), "{report}");
    assert_eq!(place.rows("SELECT count(*) FROM sbtest1"), ["200"]);
}

#[test]
fn tables_of_sysbench_are_replayed_on_and_sysbench_runs_on_ours_with_postgresql() {
    let port = format!("--pgsql-port={}", server().port);
    let place = Place::postgres("oltp_sysbench");
    let driver = ["--db-driver=pgsql", "--pgsql-host=127.0.0.1", &port, "--pgsql-user=trusted"];
    both_ways(&place, &[&driver[..], &["--pgsql-db=oltp_sysbench"]].concat(), &[]);
}

#[test]
fn tables_of_sysbench_are_replayed_on_and_sysbench_runs_on_ours_with_mariadb() {
    let port = format!("--mysql-port={}", mariadb::server().port);
    let place = Place::mariadb("oltp_sysbench");
    let driver = ["--db-driver=mysql", "--mysql-host=127.0.0.1", &port, "--mysql-user=trusted"];
    both_ways(&place, &[&driver[..], &["--mysql-db=oltp_sysbench"]].concat(), &[]);
}

/// Columns and indexes of a table, as the database describes them.
fn layout(place: &Place) -> Vec<String> {
    let columns = "SELECT column_name, column_default, is_nullable";
    let (columns, indexes) = if place.db == "mariadb" {
        (
            format!(
                "{columns}, column_type, extra FROM information_schema.columns \
                 WHERE table_schema = DATABASE() AND table_name = 'sbtest1' ORDER BY ordinal_position"
            ),
            "SELECT index_name, non_unique, column_name FROM information_schema.statistics \
             WHERE table_schema = DATABASE() AND table_name = 'sbtest1' ORDER BY index_name",
        )
    } else {
        (
            format!(
                "{columns}, data_type, character_maximum_length FROM information_schema.columns \
                 WHERE table_name = 'sbtest1' ORDER BY ordinal_position"
            ),
            "SELECT indexdef FROM pg_indexes WHERE tablename = 'sbtest1' ORDER BY indexname",
        )
    };
    [place.rows(&columns), place.rows(indexes)].concat()
}

/// Both make a table with these options, and the databases see no difference.
fn the_same_layout(place: &Place, driver: &[&str], options: &[&str]) {
    let folder = Folder::in_memory();
    let named = [&["oltp_read_write", "--table-size=20"], driver, options].concat();
    let run = |command: &str| sysbench(&[&named[..], &[command]].concat());
    run("prepare");
    let theirs = layout(place);
    run("cleanup");
    folder.ok(&format!("gen oltp_read_write --table-size=20 --ops 1 {} -o traces", options.join(" ")));
    place.replay(&folder, "oltp_read_write --phase load --drop").expect_code(0);
    assert_eq!(layout(place), theirs, "{options:?}");
    run("cleanup");
}

#[test]
fn tables_are_laid_out_as_sysbench_lays_them_out() {
    let port = format!("--mysql-port={}", mariadb::server().port);
    let place = Place::mariadb("oltp_layout");
    let driver = ["--db-driver=mysql", "--mysql-host=127.0.0.1", &port, "--mysql-user=trusted"];
    let driver = [&driver[..], &["--mysql-db=oltp_layout"]].concat();
    for auto_inc in ["--auto-inc=on", "--auto-inc=off"] {
        for secondary in ["--secondary=on", "--secondary=off"] {
            the_same_layout(&place, &driver, &[auto_inc, secondary]);
        }
    }
    the_same_layout(&place, &driver, &["--create-secondary=off", "--mysql-storage-engine=aria"]);
    let port = format!("--pgsql-port={}", server().port);
    let place = Place::postgres("oltp_layout");
    let driver = ["--db-driver=pgsql", "--pgsql-host=127.0.0.1", &port, "--pgsql-user=trusted"];
    let driver = [&driver[..], &["--pgsql-db=oltp_layout"]].concat();
    // With --secondary=on sysbench's CREATE TABLE is one of MySQL's, which PostgreSQL refuses: nothing to compare.
    let theirs = [&driver[..], &["oltp_read_write", "--secondary=on", "prepare"]].concat();
    let output = Command::new("sysbench").args(theirs).output().expect(NO_SYSBENCH);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && said.contains("xid"), "{said}");
    for options in [["--auto-inc=on"], ["--auto-inc=off"], ["--create-secondary=off"]] {
        the_same_layout(&place, &driver, &options);
    }
}

/// With an index in place of the primary key everything runs as with one.
fn with_secondary_keys(place: &Place, indexes: &str, expected: &[&str]) {
    let folder = Folder::in_memory();
    for (name, options) in [
        ("oltp_read_write", "--secondary"),
        ("oltp_write_only", "--secondary --auto-inc=off"),
        ("oltp_insert", "--secondary"),
        ("oltp_insert", "--secondary --auto-inc=off"),
    ] {
        folder.ok(&format!("gen {name} {} {options} --force -o traces", small(name)));
        // Two sessions that delete a row and put it back could put it back twice: nothing forbids that here.
        let threads = if name == "oltp_insert" { 4 } else { 1 };
        let ran = place.replay(&folder, &format!("{name} --drop --threads {threads}")).expect_code(0);
        let run = run_of(&ran, &folder);
        let ended = run.meta.transactions.expect("transactions");
        assert_eq!((ended.ok, ended.failed), (40, 0), "{name} on {}: {:?}", place.db, run.meta.errors);
        assert_eq!(place.rows(indexes), expected, "{name} {options} on {}", place.db);
        let both = "SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM sbtest1 UNION ALL \
                    SELECT id + 100000000000 FROM sbtest2) AS ids";
        let rows = match (name, options) {
            ("oltp_insert", "--secondary") => 640,
            ("oltp_insert", _) => 40,
            _ => 600,
        };
        assert_eq!(place.rows(both), [format!("{rows}|{rows}")], "{name} {options} on {}", place.db);
    }
}

#[test]
fn tables_with_an_index_in_place_of_the_primary_key_load_and_run_on_sqlite() {
    let folder = Folder::in_memory();
    let indexes = "SELECT name || ' ' || sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'sbtest1' ORDER BY name";
    let expected =
        ["k_1 CREATE INDEX k_1 ON sbtest1 (k)", "xid_sbtest1 CREATE INDEX xid_sbtest1 ON sbtest1 (id)"];
    with_secondary_keys(&Place::sqlite(&folder), indexes, &expected);
}

#[test]
fn tables_with_an_index_in_place_of_the_primary_key_load_and_run_on_postgresql() {
    let indexes = "SELECT indexdef FROM pg_indexes WHERE tablename = 'sbtest1' ORDER BY indexname";
    let expected = [
        "CREATE INDEX k_1 ON public.sbtest1 USING btree (k)",
        "CREATE INDEX xid_sbtest1 ON public.sbtest1 USING btree (id)",
    ];
    with_secondary_keys(&Place::postgres("oltp_secondary"), indexes, &expected);
}

#[test]
fn tables_with_an_index_in_place_of_the_primary_key_load_and_run_on_mariadb() {
    let place = Place::mariadb("oltp_secondary");
    let indexes = "SELECT index_name, non_unique, column_name FROM information_schema.statistics \
                   WHERE table_schema = DATABASE() AND table_name = 'sbtest1' ORDER BY index_name";
    with_secondary_keys(&place, indexes, &["k_1|1|k", "xid|1|id"]);
    // Those that sysbench has made are replayed on, and the other way round.
    let port = format!("--mysql-port={}", mariadb::server().port);
    let driver = ["--db-driver=mysql", "--mysql-host=127.0.0.1", &port, "--mysql-user=trusted"];
    sysbench(&[&driver[..], &["--mysql-db=oltp_secondary", "--tables=2", "oltp_insert", "cleanup"]].concat());
    both_ways(&place, &[&driver[..], &["--mysql-db=oltp_secondary"]].concat(), &["--secondary=on"]);
}

/// A report with every number as # and every run of blanks as one: what is left is its shape.
fn shape(report: &str) -> String {
    let mut shape = String::new();
    for character in report.chars() {
        let character = if character.is_ascii_digit() { '#' } else { character };
        let repeats = matches!(character, '#' | ' ') && shape.ends_with(character);
        if !repeats {
            shape.push(character);
        }
    }
    shape.replace("#.#", "#")
}

#[test]
fn the_report_of_sysbench_has_the_shape_of_the_real_one() {
    let folder = Folder::in_memory();
    let port = format!("--pgsql-port={}", server().port);
    let place = Place::postgres("oltp_report");
    let driver = ["--db-driver=pgsql", "--pgsql-host=127.0.0.1", &port, "--pgsql-user=trusted"];
    let common = [&driver[..], &["--pgsql-db=oltp_report", "--table-size=200", "--threads=1"]].concat();
    let run = |command: &[&str]| sysbench(&[&common[..], &["oltp_read_write"], command].concat());
    run(&["prepare"]);
    let theirs = run(&["--events=50", "--time=0", "run"]);
    folder.ok("gen oltp_read_write --table-size 200 --ops 50 -o traces");
    let ran = place.replay(&folder, "oltp_read_write --phase run --threads 1").expect_code(0);
    let result = ran.results(&folder).pop().expect("a result").display().to_string();
    let ours = folder.run_list(&["analyze", "--format", "sysbench", &result]).expect_code(0).out;
    let begin = theirs.find("SQL statistics:").expect("sysbench's report");
    assert_eq!(shape(&ours), shape(&theirs[begin..]), "{ours}\n{theirs}");
    // A script that cuts columns out finds the numbers where they were: counts begin at one column, latencies
    // end at one.
    let columns = |report: &str| -> Vec<(String, usize)> {
        let lines = report.lines().filter(|line| line.contains(": "));
        let column = |line: &str| {
            let name = line.split(':').next().expect("a name").trim().to_owned();
            let is_latency = ["min", "avg", "max", "95th percentile", "sum"].contains(&name.as_str());
            let begin = name.len() + line.find(&name).expect("its name");
            let number = line[begin..].find(|c: char| c.is_ascii_digit()).expect("a number") + begin;
            (name, if is_latency { line.trim_end().len() } else { number })
        };
        lines.map(column).collect()
    };
    assert_eq!(columns(&ours), columns(&theirs[begin..]), "{ours}\n{theirs}");
    for line in [
        "read:                            700",
        "write:                           200",
        "transactions:                        50 ",
    ] {
        assert!(ours.contains(line) && theirs.contains(line), "{line:?}\n{ours}\n{theirs}");
    }
}

#[test]
fn draws_have_the_distribution_of_the_real_sysbench() {
    let folder = Folder::in_memory();
    folder.write(
        "draw.lua",
        "function event() for i = 1, 20000 do print(sysbench.rand.default(1, 1000)) end end",
    );
    folder.write(
        "draws.toml",
        r#"
[options]
table-size = 1000
[[tables]]
name = "t"
rows = "table-size"
columns = [{ name = "id", type = "int", load = "number" }]
primary-key = ["id"]
[statements.read]
sql = "SELECT id FROM {table} WHERE id = $1"
[[transactions]]
begin = "false"
steps = [{ draw = { id = "row" }, run = ["read(id)"] }]
"#,
    );
    let lua = folder.path("draw.lua").display().to_string();
    for rule in ["uniform", "gaussian", "special", "pareto"] {
        let kind = format!("--rand-type={rule}");
        let text = sysbench(&[&lua, &kind, "--events=1", "--time=0", "--verbosity=0", "run"]);
        let mut theirs: Vec<u64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        folder.ok(&format!("gen draws.toml --rand-type {rule} --ops 20000 --phase run --force -o traces"));
        let mut reader = TraceReader::open(&folder.path("traces/draws.run.parquet")).expect("a trace");
        let mut ours: Vec<u64> = Vec::new();
        while let Some(block) = reader.next_block().expect("readable") {
            ours.extend((0..block.len()).map(|row| block.key(row).parse::<u64>().expect("a number")));
        }
        assert_eq!((theirs.len(), ours.len()), (20_000, 20_000), "{rule}");
        theirs.sort_unstable();
        ours.sort_unstable();
        // Two-sample Kolmogorov-Smirnov: 0.02 has a chance below 0.001 if both follow one law.
        let share = |draws: &[u64], x: u64| draws.partition_point(|&draw| draw <= x) as f64 / 20_000.0;
        let distance = (1..=1000).map(|x| (share(&theirs, x) - share(&ours, x)).abs()).fold(0.0, f64::max);
        assert!(distance < 0.02, "{rule}: {distance}");
    }
}

#[test]
fn threads_and_shards_change_nothing_in_a_statement_trace() {
    let folder = Folder::in_memory();
    let mixed = COUNTER.to_owned()
        + "\n[[transactions]]\nweight = 2\nbegin = \"false\"\nsteps = [{ times = \"3\", draw = { id = \"row\" }, run = [\"look(id)\"] }]\n";
    folder.write("mixed.toml", mixed);
    let generate = |arguments: &str| {
        folder
            .ok(&format!("gen mixed.toml --ops 30000 --arrival poisson --rate 100 --phase run {arguments}"));
    };
    let rows = |name: &str| {
        let mut reader = TraceReader::open(&folder.path(name)).expect("a trace");
        let mut rows = Vec::new();
        while let Some(block) = reader.next_block().expect("readable") {
            rows.extend((0..block.len()).map(|row| {
                (block.id(row), block.kind(row), block.txn(row), block.at_ns(row), block.key(row).to_owned())
            }));
        }
        rows
    };
    generate("--jobs 1 -o one");
    generate("--jobs 5 -o five");
    generate("--shards 3 -o shards");
    let whole = rows("one/mixed.run.parquet");
    assert_eq!(whole, rows("five/mixed.run.parquet"));
    let hash = |name: &str| u128::from_str_radix(&trace(&folder, name).content_hash, 16).unwrap();
    assert_eq!(hash("one/mixed.run.parquet"), hash("five/mixed.run.parquet"));
    let parts: Vec<String> = (0..3).map(|part| format!("shards/mixed.run.{part}-of-3.parquet")).collect();
    let sum = parts.iter().fold(0u128, |sum, part| sum.wrapping_add(hash(part)));
    assert_eq!(sum, hash("one/mixed.run.parquet"));
    assert_eq!(whole, parts.iter().flat_map(|part| rows(part)).collect::<Vec<_>>());
    assert_eq!(parts.iter().map(|part| trace(&folder, part).transactions.unwrap()).sum::<u64>(), 30_000);
    let arrivals = whole.iter().filter(|row| row.3.is_some()).count();
    assert_eq!(arrivals, 30_000, "one for each transaction");
}

#[test]
fn a_rate_counts_transactions_and_a_retried_one_keeps_its_intended_start() {
    let folder = Folder::in_memory();
    folder.ok("gen oltp_write_only --ops 50 --table-size 100 -o traces");
    let sim = Place { db: "sim", url: String::new() };
    let ran = sim
        .replay(&folder, "oltp_write_only --phase run --target 1000 -p sim.conflicts=5 --retries 3")
        .expect_code(0);
    let path = ran.results(&folder).pop().expect("a result");
    let run = Result::read(&path);
    assert_eq!(run.meta.transactions.map(|ended| (ended.ok, ended.retries)), Some((50, 12)));
    let file = RunFile::open(&path).expect("a result");
    let mut intended = Vec::new();
    file.scan(0, |block| {
        intended.extend(
            (0..block.kinds.len())
                .filter(|&row| block.kinds[row].name() == "BEGIN")
                .map(|row| block.intended_ns[row]),
        );
    })
    .expect("readable");
    intended.sort_unstable();
    assert_eq!(intended, (0..50).map(|number| number * 1_000_000).collect::<Vec<i64>>());
    let ran = sim
        .replay(&folder, "oltp_write_only --phase run -p sim.conflicts=5 --max-error-rate 1")
        .expect_code(0);
    let run = run_of(&ran, &folder);
    assert_eq!(run.meta.transactions.map(|ended| (ended.ok, ended.failed)), Some((40, 10)));
    // Given up late: the whole transaction, so that none is executed in part.
    let late =
        "oltp_write_only --phase run --target 100000 --drop-late 1ms -p sim.latency=5ms --max-error-rate 1";
    let run = run_of(&sim.replay(&folder, late).expect_code(0), &folder);
    assert!(
        run.meta.counts["BEGIN"].get("DROPPED").is_some_and(|&dropped| dropped > 0),
        "{:?}",
        run.meta.counts
    );
}

#[test]
fn what_makes_no_sense_with_statements_is_refused_by_name() {
    let folder = Folder::in_memory();
    folder.ok("gen oltp_point_select --ops 5 --table-size 10 -o traces");
    folder.write("bad.toml", "[options]\ntables = 1\n[[tables]]\nname = 5\n");
    let place = Place::sqlite(&folder);
    for (arguments, complaint) in [
        ("--verify", "--verify checks the operations of YCSB"),
        ("--order key", "--order key: the statements of a transaction have their order"),
        ("--table other", "--table: a statement trace names its tables itself"),
    ] {
        let ran = place.replay(&folder, &format!("oltp_point_select {arguments}")).expect_code(2);
        assert!(ran.err.contains(complaint), "{}", ran.err);
    }
    let ran = place.replay(&folder, "oltp_point_select").expect_code(0);
    let result = ran.results(&folder).pop().expect("a run").display().to_string();
    // A gate is judged in every form, and what has no effect there is refused.
    for form in [["--by", "txn"], ["--by", "statement"], ["--format", "sysbench"], ["--format", "hdr"]] {
        let analyze = |more: &[&str]| folder.run_list(&[&["analyze", &result], &form[..], more].concat());
        let ran = analyze(&["--fail-if", "max(point_select) > 1us"]).expect_code(1);
        assert!(ran.err.contains("max(point_select)") && !ran.out.is_empty(), "{form:?}: {}", ran.err);
        analyze(&["--fail-if", "max(point_select) > 1h"]).expect_code(0);
        if form[1] != "hdr" {
            let ran = analyze(&["--aa"]).expect_code(2);
            assert!(ran.err.contains("--aa has no effect on the tables of transactions"), "{}", ran.err);
        }
    }
    let ran = place.replay(&folder, "oltp_point_select").expect_code(2);
    assert!(ran.err.contains("sbtest1") && ran.err.contains("already holds rows"), "{}", ran.err);
    let empty = Place { db: "sqlite", url: folder.path("none.db").display().to_string() };
    drop(Connection::open(&empty.url).and_then(|file| file.execute_batch("CREATE TABLE other (a)")));
    let ran = empty.replay(&folder, "oltp_point_select --phase run").expect_code(3);
    assert!(ran.err.contains("there is no table sbtest1"), "{}", ran.err);
    for (arguments, complaint) in [
        ("gen bad.toml", "bad.toml:4: invalid type: integer `5`, expected a string"),
        ("gen oltp_insert --rand-type normal", "rand-type=normal (--rand-type): expected uniform, gaussian"),
        ("gen oltp_insert --values seeded", "--values seeded: the parameters of statements"),
        ("gen oltp_insert -p table-sise=5 --strict", "did you mean table-size?"),
        ("gen oltp_read --ops 5", "no workload oltp_read"),
    ] {
        let ran = folder.run(arguments).expect_code(2);
        assert!(ran.err.contains(complaint), "{}", ran.err);
    }
    #[cfg(feature = "fjall")]
    {
        let fjall = Place { db: "fjall", url: folder.path("fjall").display().to_string() };
        let ran = fjall.replay(&folder, "oltp_point_select").expect_code(2);
        assert!(ran.err.contains("this trace consists of SQL statements"), "{}", ran.err);
    }
}

/// What people type for sysbench, and what that is told which has no such option.
#[test]
fn the_options_of_sysbench_are_flags_of_gen() {
    let folder = Folder::in_memory();
    let by_flag = "--tables=2 --table_size=50 --point-selects 1 --simple-ranges=2 --sum-ranges 0 --order_ranges=1 \
                   --distinct-ranges=0 --range-size=7 --index-updates 3 --non-index-updates=0 --delete-inserts=2 \
                   --skip-trx --rand-type=pareto --rand-pareto-h 0.1 --events 20 --rand-seed=5";
    let by_property = "-p tables=2 -p table-size=50 -p point-selects=1 -p simple-ranges=2 -p sum-ranges=0 \
                       -p order-ranges=1 -p distinct-ranges=0 -p range-size=7 -p index-updates=3 \
                       -p non-index-updates=0 -p delete-inserts=2 -p skip-trx=on -p rand-type=pareto \
                       -p rand-pareto-h=0.1 --ops 20 --seed 5";
    folder.ok(&format!("gen oltp_read_write {by_flag} -o flags"));
    folder.ok(&format!("gen oltp_read_write {by_property} -o properties"));
    for phase in ["load", "run"] {
        let of = |how: &str| trace(&folder, &format!("{how}/oltp_read_write.{phase}.parquet"));
        assert_eq!(of("flags").content_hash, of("properties").content_hash, "{phase}");
    }
    let counts = trace(&folder, "flags/oltp_read_write.run.parquet").op_counts;
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let names =
        ["BEGIN", "point_select", "simple_range", "order_range", "sum_range", "index_update", "insert"];
    assert_eq!(names.map(count), [0, 20, 40, 20, 0, 60, 40]);
    // Nothing is written again: it is the same trace.
    let again = folder.ok(&format!("gen oltp_read_write {by_property} -o flags"));
    assert!(again.out.contains("is there already"), "{}", again.out);
    let shown = folder.ok("gen oltp_insert --auto_inc=off --secondary --show-config").out;
    for line in ["auto-inc=off (--auto-inc)", "secondary=on (--secondary)", "tables=1 (default)"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    for (arguments, complaint) in [
        (
            "gen oltp_insert --point-selects 3",
            "built-in oltp_insert: --point-selects 3: this workload has no such option; it has --tables, --table-size",
        ),
        ("gen select_random_points --tables=2", "--tables 2: this workload has no such option"),
        ("gen bulk_insert --records 5", "--records 5: this workload has no such option; it has --tables"),
        ("gen workloada --range-size 5", "--range-size is an option of transactional workloads"),
        ("gen workloada --tables 5", "and workloada is one of YCSB's"),
        ("gen oltp_read_only --range-size many", "range-size=many (--range-size): expected a whole number"),
        ("gen oltp_read_only --point-selects -1", "point-selects is -1, and a count cannot be negative"),
        ("gen oltp_read_only --skip-trx=perhaps", "skip-trx=perhaps (--skip-trx): expected on or off"),
        ("gen oltp_read_only --point-select 5", "'--point-selects'"),
        ("gen oltp_read_only --mysql-storage-engine=a-b", "expected the name of a storage engine"),
    ] {
        let ran = folder.run(arguments).expect_code(2);
        assert!(ran.err.contains(complaint), "{arguments}: {}", ran.err);
    }
}

/// Through JDBC, on a database that no other driver speaks to: everything is counted here as well.
#[cfg(feature = "jdbc")]
#[test]
fn the_tests_of_sysbench_run_through_jdbc_on_h2() {
    let folder = Folder::in_memory();
    let url = format!("jdbc:h2:{}", folder.path("h2").display());
    let jar = crate::support::java::jars().join("drivers/h2.jar");
    let h2 = format!("-p jdbc.classpath={}", jar.display());
    let place = Place { db: "jdbc", url };
    for (name, several) in
        [("oltp_read_write", "--tables 2"), ("select_random_points", ""), ("oltp_insert", "")]
    {
        folder.ok(&format!("gen {name} {SMALL} {several} -o traces"));
        let ran =
            place.replay(&folder, &format!("{name} --drop --threads 2 --retries 50 {h2}")).expect_code(0);
        let run = run_of(&ran, &folder);
        assert_eq!(run.meta.transactions.expect("transactions").ok, 40, "{name}: {:?}", run.meta.errors);
    }
}

#[test]
fn a_run_that_is_cut_off_in_transactions_keeps_what_was_executed_of_them() {
    let folder = Folder::in_memory();
    folder.ok("gen oltp_write_only --ops 2000 --table-size 100 -o traces");
    // Answers stop for good after two seconds, in the middle of transactions.
    let mut running = folder.start(
        "replay --db sim oltp_write_only --phase run --threads 3 -p sim.latency=7ms -p sim.stalls=2s+1000s",
    );
    let begin = running.wait_for_start();
    sleep_until(begin, Duration::from_secs(4));
    running.signal(Signal::INT);
    running.wait_for("stopping");
    running.signal(Signal::INT);
    let ran = running.wait();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    let path = ran.results(&folder).pop().expect("a result");
    let file = RunFile::open(&path).expect("a result");
    let mut transactions: BTreeMap<u64, Vec<(i64, Status)>> = BTreeMap::new();
    for group in 0..file.row_groups() {
        file.scan_transactions(group, |block| {
            for row in 0..block.txn.len() {
                let ended = (block.columns.op_id[row], block.columns.statuses[row]);
                transactions.entry(block.txn[row]).or_default().push(ended);
            }
        })
        .expect("readable rows");
    }
    let (mut whole, mut cut) = (0, 0);
    for (txn, rows) in &mut transactions {
        rows.sort_unstable_by_key(|row| row.0);
        let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
        let first = *txn as i64 * 6;
        assert_eq!(
            ids,
            (first..first + rows.len() as i64).collect::<Vec<_>>(),
            "from its BEGIN on, each once"
        );
        let (last, before) = rows.split_last().expect("a row");
        assert!(before.iter().all(|row| row.1 == Status::Ok), "{txn}: {rows:?}");
        if last.1 == Status::Timeout {
            cut += 1;
        } else {
            assert_eq!((last.1, rows.len()), (Status::Ok, 6), "{txn}: {rows:?}");
            whole += 1;
        }
    }
    assert_eq!(cut, 3, "one on each connection");
    assert_eq!(file.meta.transactions.map(|ended| (ended.ok, ended.failed)), Some((whole, 0)));
}
