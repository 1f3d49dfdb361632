//! Databases of several nodes that speak PostgreSQL's protocol, as far as they can be had here: a real
//! PostgreSQL behind a proxy with one port a node, which answers with the errors of CockroachDB and
//! YugabyteDB, cuts connections and understands CockroachDB's words. And PgBouncer, the real one.

use std::time::{Duration, Instant};

use ycsb_trace::driver::postgres::Postgres;
use ycsb_trace::driver::{Driver, Preparation};
use ycsb_trace::op::{Outcome, Recovery, Status};

use crate::support::daemon::{Daemon, folder, free_port, program};
use crate::support::pgwire::{AMBIGUOUS, CATALOG, DRAINING, Door, Fault, Plan, Proxy, RESTART};
use crate::support::postgres::{TRUSTED, client, database, server};
use crate::support::program::{Folder, Replayed};
use crate::support::{Place, block_on, open, refusal, table, target};

const ABC: [&str; 3] = ["a", "b", "c"];

const COCKROACH: &str = "CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15)";
const YUGABYTE: &str = "PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu";

/// A URL that names every node.
fn url(proxy: &Proxy, name: &str, settings: &str) -> String {
    let places: Vec<_> = proxy.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://{TRUSTED}@{}/{name}?sslmode=disable&{settings}", places.join(","))
}

fn nodes(name: &str, count: usize) -> Proxy {
    block_on(database(name));
    Proxy::new(count, server().port)
}

/// Opens sessions 0, 1 … and keeps them open; how many connections each node accepted meanwhile.
async fn connect(
    driver: &Postgres,
    count: u32,
    proxy: &Proxy,
    sessions: &mut Vec<<Postgres as Driver>::Session>,
) -> Vec<usize> {
    let before = proxy.accepted();
    for number in 0..count {
        sessions.push(driver.connect(&table(), number).await.unwrap());
    }
    proxy.accepted().iter().zip(&before).map(|(now, before)| now - before).collect()
}

#[test]
fn sessions_are_spread_over_the_nodes_in_turn() {
    let proxy = nodes("spread", 3);
    block_on(async {
        let driver: Postgres = open(&target("cockroach", &url(&proxy, "spread", "")));
        let info = driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert!(info.settings["hosts"].ends_with("(RoundRobin)"), "{:?}", info.settings);
        let mut sessions = Vec::new();
        assert_eq!(connect(&driver, 6, &proxy, &mut sessions).await, [2, 2, 2]);
        let in_order: Postgres =
            open(&target("cockroach", &url(&proxy, "spread", "load_balance_hosts=disable")));
        assert_eq!(
            connect(&in_order, 3, &proxy, &mut sessions).await[0],
            3,
            "libpq's order, if that is asked for"
        );
    });
}

#[test]
fn a_node_that_is_silent_draining_or_gone_is_left_for_another() {
    let proxy = nodes("failover", 3);
    block_on(async {
        for door in [Door::Silent, Door::Draining, Door::Closed] {
            proxy.door(0, door);
            let driver: Postgres = open(&target("cockroach", &url(&proxy, "failover", "connect_timeout=1")));
            driver.prepare(&table(), Preparation::DropAndCreate).await.unwrap();
            let tried = proxy.accepted()[0];
            for session in 0..3 {
                driver.connect(&table(), session).await.unwrap();
            }
            assert_eq!(proxy.accepted()[0], tried, "{door:?}: it is known, and tried last");
        }
        // Nobody is left.
        proxy.door(0, Door::Silent);
        proxy.door(1, Door::Draining);
        proxy.door(2, Door::Closed);
        let driver: Postgres = open(&target("cockroach", &url(&proxy, "failover", "connect_timeout=1")));
        let message = refusal(driver.prepare(&table(), Preparation::UseExisting).await).to_string();
        for words in ["does not answer", "is going down", "try another node", "cannot connect to"] {
            assert!(message.contains(words), "{words:?} is not in: {message}");
        }
    });
}

#[test]
fn a_connection_that_breaks_in_a_run_comes_back_on_another_node() {
    let proxy = nodes("moves", 2);
    let folder = Folder::new();
    folder.ok("gen workloada --records 20 --ops 2000 --seed 3");
    let url = url(&proxy, "moves", "connect_timeout=1");
    folder.ok(&format!("replay --db cockroach workloada --phase load --url {url}"));
    let mut run = folder.start(&format!(
        "replay --db cockroach workloada --phase run --url {url} --threads 2 --target 1000 --retries 5"
    ));
    run.wait_for_start();
    std::thread::sleep(Duration::from_millis(300));
    // Its connections end, and new ones are accepted and left without a word.
    proxy.door(0, Door::Silent);
    proxy.cut(0);
    let ran = run.wait().expect_code(0);
    let replayed = ran.result(&folder);
    assert_eq!(replayed.count(Status::Ok), 2000, "{}", ran.out);
    assert!(proxy.accepted()[1] >= 2, "session 0 moved: {:?}", proxy.accepted());
}

#[test]
fn yugabytes_nodes_are_found_by_asking_one_of_them() {
    let proxy = nodes("yb", 3);
    proxy.calls_itself(YUGABYTE);
    block_on(async {
        let own = client("yb").await;
        let rows: Vec<_> = proxy
            .ports
            .iter()
            .zip(["a", "b", "c"])
            .map(|(port, zone)| {
                format!("('127.0.0.1', {port}, 0, 'primary', 'cloud', 'region', '{zone}', '', 'u')")
            })
            .collect();
        own.batch_execute(&format!(
            "CREATE FUNCTION yb_servers() RETURNS TABLE (host text, port bigint, num_connections bigint, node_type text, \
             cloud text, region text, zone text, public_ip text, uuid text) LANGUAGE sql AS $$ VALUES {} $$",
            rows.join(", ")
        ))
        .await
        .unwrap();
        let first = format!("postgres://{TRUSTED}@127.0.0.1:{}/yb?load_balance=true", proxy.ports[0]);
        let driver: Postgres = open(&target("yugabyte", &first));
        let info = driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert!(info.settings["load_balance"].starts_with("by yb_servers(): "), "{:?}", info.settings);
        assert!(!info.settings.contains_key("dialect_note"), "{:?}", info.settings);
        assert!(proxy.has_seen("PRIMARY KEY (YCSB_KEY ASC)) SPLIT AT VALUES (('user10'), ('user14')"));
        let mut sessions = Vec::new();
        assert_eq!(connect(&driver, 6, &proxy, &mut sessions).await, [2, 2, 2]);

        let near: Postgres =
            open(&target("yugabyte", &format!("{first}&topology_keys=cloud.region.b:1,cloud.region.c:2")));
        near.prepare(&table(), Preparation::UseExisting).await.unwrap();
        assert_eq!(connect(&near, 3, &proxy, &mut sessions).await[1], 3, "zone b comes first");
        proxy.door(1, Door::Closed);
        assert_eq!(connect(&near, 1, &proxy, &mut sessions).await[2], 1, "then zone c");
    });
}

/// One update under a fault: how it ended, and what is in the row then.
async fn update_under(proxy: &Proxy, name: &str, fault: Fault) -> (Outcome, String) {
    let place: Place<Postgres> = Place::at(target("cockroach", &url(proxy, name, "")));
    place.driver.prepare(&table(), Preparation::DropAndCreate).await.unwrap();
    let mut session = place.session(&table()).await;
    assert_eq!(session.insert("user1", &ABC).await, Outcome::ok(1));
    proxy.plan(Plan { words: "UPDATE", every: 1, most: 1, fault });
    let outcome = session.update("user1", &[(1, "new")]).await;
    let own = client(name).await;
    // A statement whose connection was cut may still be on its way to its end.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let row = own.query_one("SELECT field1 FROM usertable", &[]).await.unwrap();
    (outcome, row.get(0))
}

#[test]
fn each_error_of_a_distributed_database_has_its_class() {
    let proxy = nodes("classes", 1);
    block_on(async {
        for (fault, status, recovery, code, row) in [
            (RESTART, Status::Conflict, Recovery::Retry, "40001", "b"),
            (AMBIGUOUS, Status::Unavailable, Recovery::Ambiguous, "40003", "new"),
            (DRAINING, Status::Unavailable, Recovery::Ambiguous, "57P01", "b"),
            (CATALOG, Status::Conflict, Recovery::Retry, "XX000", "b"),
            (Fault::CutBefore, Status::Unavailable, Recovery::Ambiguous, "08006", "b"),
            (Fault::CutAfter, Status::Unavailable, Recovery::Ambiguous, "08006", "new"),
        ] {
            let (outcome, found) = update_under(&proxy, "classes", fault).await;
            let failure = outcome.failure.expect("a reason");
            assert_eq!(
                (outcome.status, failure.recovery, &*failure.code),
                (status, recovery, code),
                "{fault:?}"
            );
            assert_eq!(found, row, "{fault:?}");
        }
        // A read that is cut off has had no effect, so there is nothing to wonder about.
        let place: Place<Postgres> = Place::at(target("cockroach", &url(&proxy, "classes", "")));
        let mut session = place.session(&table()).await;
        proxy.plan(Plan { words: "SELECT FIELD", every: 1, most: 1, fault: Fault::CutAfter });
        let failure = session.read("user1").await.0.failure.expect("a reason");
        assert_eq!(failure.recovery, Recovery::Reconnect);
    });
}

#[test]
fn faults_in_a_run_are_retried_as_their_class_allows_and_counted() {
    let proxy = nodes("retried", 2);
    proxy.calls_itself(COCKROACH);
    let folder = Folder::new();
    folder.ok("gen workloada --records 50 --ops 1500 --seed 5");
    let url = url(&proxy, "retried", "");
    folder.ok(&format!("replay --db cockroach workloada --phase load --url {url} --threads 2"));
    let plans = [
        ("UPDATE", 11, RESTART),
        ("UPDATE", 53, AMBIGUOUS),
        ("WHERE YCSB_KEY = $1", 71, DRAINING),
        ("WHERE YCSB_KEY = $1", 97, CATALOG),
        ("UPDATE", 101, Fault::CutAfter),
    ];
    for (words, every, fault) in plans {
        proxy.plan(Plan { words, every, most: usize::MAX, fault });
    }
    let ran = folder
        .ok(&format!("replay --db cockroach workloada --phase run --url {url} --threads 4 --retries 6"));
    let replayed = ran.result(&folder);
    assert_eq!(
        replayed.count(Status::Ok),
        1500,
        "updates are absolute, so every fault can be retried: {}",
        ran.out
    );
    let faults: usize = proxy.faults().iter().sum();
    let attempts: u32 = replayed.rows.iter().map(|row| row.attempts - 1).sum();
    assert!(faults > 50 && attempts as usize == faults, "{faults} faults, {attempts} further attempts");
    assert_eq!(replayed.meta.server.version, COCKROACH);
    assert_eq!(replayed.meta.server.settings["crdb_version"], COCKROACH);
    // Without retries each is a failure of its class.
    let ran = folder.ok(&format!(
        "replay --db cockroach workloada --phase run --url {url} --threads 4 --max-error-rate 0.5"
    ));
    let replayed = ran.result(&folder);
    for (status, code) in
        [(Status::Conflict, "40001"), (Status::Unavailable, "AMBIGUOUS 40003"), (Status::Conflict, "XX000")]
    {
        assert!(
            replayed.rows.iter().any(|row| row.status == status && row.code == code),
            "{code}: {}",
            ran.out
        );
    }
}

#[test]
fn cockroachs_own_words_are_used_when_asked_for() {
    let proxy = nodes("words", 1);
    proxy.calls_itself(COCKROACH);
    let folder = Folder::new();
    folder.ok("gen workloadd --records 30 --ops 200");
    let url = url(&proxy, "words", "");
    let settings = "-p pg.insert=upsert -p pg.as_of=-5s";
    for _ in 0..2 {
        // A second run on the same table: its inserts replace the rows of the first.
        let ran = folder.ok(&format!("replay --db cockroach workloadd --url {url} --drop {settings}"));
        assert_eq!(ran.result(&folder).count(Status::Ok), 200);
        let ran = folder.ok(&format!("replay --db cockroach workloadd --phase run --url {url} {settings}"));
        assert_eq!(ran.result(&folder).count(Status::Ok), 200, "{}", ran.out);
    }
    assert!(proxy.has_seen("UPSERT INTO usertable"));
    assert!(proxy.has_seen(" FROM usertable AS OF SYSTEM TIME '-5s' WHERE "));
}

/// The first reference benchmark: go-ycsb on CockroachDB, by its own command lines (host and port replaced).
#[cfg(feature = "analyze")]
#[test]
fn go_ycsbs_command_lines_for_cockroachdb_work_for_all_of_its_workloads() {
    use crate::support::reports::{GO_YCSB, end_of_go_ycsb, of_go_ycsb, result};
    let proxy = nodes("test", 1);
    proxy.calls_itself(COCKROACH);
    block_on(async {
        let own = client("postgres").await;
        own.batch_execute("CREATE ROLE root LOGIN SUPERUSER").await.unwrap();
    });
    let folder = Folder::new();
    let settings = format!(
        "--threads 96 -p pg.host=127.0.0.1 -p pg.port={} -p pg.user=root -p pg.db=test -p pg.sslmode=disable",
        proxy.ports[0]
    );
    let trusting = |line: &str| {
        let ran = folder.run(line).expect_code(0);
        assert!(!ran.err.contains("warning"), "every setting is honoured: {}", ran.err);
        ran
    };
    for (workload, measurements) in GO_YCSB {
        let load = trusting(&format!("load cockroach -P workloads/{workload} {settings} -p dropdata=true"));
        assert_eq!(end_of_go_ycsb(&load.out), of_go_ycsb(&["INSERT", "TOTAL"]), "{workload}");
        assert!(load.out.contains("Count: 1000, OPS: "), "{}", load.out);
        let replayed = result(&load, &folder);
        assert_eq!((replayed.count(Status::Ok), replayed.meta.sessions), (1000, 96));
        let run = trusting(&format!("run cockroach -P workloads/{workload} {settings}"));
        assert!(run.out.starts_with("Using request distribution '"), "{}", run.out);
        let total = run.out.lines().find(|line| line.starts_with("TOTAL  - Takes(s): ")).expect("a total");
        assert_eq!(end_of_go_ycsb(&run.out), of_go_ycsb(measurements), "{workload}");
        if workload != "workloadf" {
            assert!(total.contains(", Count: 1000, OPS: "), "every operation succeeded: {total}");
        }
        assert_eq!(result(&run, &folder).count(Status::Ok), 1000);
    }
    block_on(async {
        let own = client("test").await;
        let columns = "SELECT string_agg(column_name, ' ' ORDER BY ordinal_position) FROM information_schema.columns \
                       WHERE table_name = 'usertable'";
        let columns: String = own.query_one(columns, &[]).await.unwrap().get(0);
        assert_eq!(columns, "ycsb_key field0 field1 field2 field3 field4 field5 field6 field7 field8 field9");
        // The keys that a real go-ycsb has loaded: records 754 and 755 of 1000, and its first.
        for key in ["user6282602628620641459", "user6282603728132269670", "user6284781860667377211"] {
            let found: bool = own
                .query_one("SELECT EXISTS (SELECT 1 FROM usertable WHERE ycsb_key = $1)", &[&key])
                .await
                .unwrap()
                .get(0);
            assert!(found, "{key}");
        }
    });
}

#[test]
fn a_statement_that_was_given_up_is_cancelled_on_the_server() {
    block_on(async {
        let name = "cancelled";
        let url = database(name).await;
        let folder = Folder::new();
        folder.ok("gen workloada --records 10 --ops 20 -p readproportion=0 -p updateproportion=1");
        folder.ok(&format!("replay --db pg workloada --phase load --url {url}"));
        let own = client(name).await;
        own.batch_execute(
            "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$; \
             CREATE TRIGGER hang BEFORE UPDATE ON usertable FOR EACH ROW EXECUTE FUNCTION hang()",
        )
        .await
        .unwrap();
        let line = format!(
            "replay --db pg workloada --phase run --url {url} --threads 2 --op-timeout 200ms --max-error-rate 1"
        );
        let ran = tokio::task::spawn_blocking(move || {
            let ran = folder.run(&line).expect_code(0);
            let replayed = ran.result(&folder);
            (ran, replayed)
        });
        let (ran, replayed) = ran.await.expect("the program runs");
        assert_eq!(replayed.count(Status::Timeout), 20, "{}", ran.out);
        let begin = Instant::now();
        let hanging = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                       AND application_name = 'ycsb-trace' AND state = 'active'";
        while own.query_one(hanging, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "statements go on that nobody waits for");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// What is in the table, as one number.
async fn content(name: &str) -> String {
    let text = "SELECT md5(string_agg(usertable::text, '|' ORDER BY ycsb_key)) FROM usertable";
    client(name).await.query_one(text, &[]).await.unwrap().get(0)
}

#[test]
fn a_load_in_batches_keeps_a_row_for_every_operation_and_fills_the_same_table() {
    let name = "batches";
    let url = block_on(database(name));
    let folder = Folder::new();
    folder.ok("gen workloada --phase load --records 1003");
    folder.ok(&format!("replay --db pg workloada --url {url}"));
    let alone = block_on(content(name));
    for how in ["insert", "copy"] {
        let ran = folder.ok(&format!(
            "replay --db pg workloada --url {url} --drop --threads 3 --load-batch 50 -p pg.load={how}"
        ));
        let replayed = ran.result(&folder);
        assert_eq!(replayed.count(Status::Ok), 1003);
        assert_eq!(replayed.meta.config["load_batch"], "50");
        let mut batches: std::collections::BTreeMap<u64, Vec<_>> = std::collections::BTreeMap::new();
        for row in &replayed.rows {
            batches.entry(row.batch.expect("sent with others")).or_default().push(row);
        }
        assert!((21..60).contains(&batches.len()), "{} requests", batches.len());
        for (number, rows) in &batches {
            assert!(rows.len() <= 50 && rows.iter().any(|row| row.op_id == *number), "named after its first");
            let times = |row: &&crate::support::program::ReplayedRow| (row.start_ns, row.end_ns, row.session);
            assert!(rows.iter().all(|row| times(row) == times(&rows[0])), "they share start and end");
        }
        assert_eq!(block_on(content(name)), alone, "{how}");
    }
    // The rate is kept by rows, not by requests.
    let ran = folder.ok(&format!(
        "replay --db pg workloada --phase load --url {url} --drop --load-batch 20 --target 2000"
    ));
    let replayed = ran.result(&folder);
    for (number, row) in (0..).zip(&replayed.rows) {
        assert_eq!(row.intended_ns, number * 500_000, "every row has the intended start of its own");
    }
    let refused = folder.run("replay --db sim workloada --load-batch 10").expect_code(2);
    assert!(refused.err.contains("--load-batch: sim takes one row in a request here"), "{}", refused.err);
}

#[test]
fn a_batch_that_is_refused_is_executed_row_by_row_and_one_that_conflicts_is_sent_again() {
    let proxy = nodes("refused_batch", 1);
    let folder = Folder::new();
    folder.ok("gen workloada --phase load --records 200");
    let url = url(&proxy, "refused_batch", "");
    let several = "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11), ($12";
    proxy.plan(Plan {
        words: several,
        every: 3,
        most: 1,
        fault: Fault::Error("23505", "duplicate key value"),
    });
    proxy.plan(Plan { words: several, every: 4, most: 1, fault: RESTART });
    let ran = folder.ok(&format!("replay --db cockroach workloada --url {url} --load-batch 20 --retries 2"));
    let replayed = ran.result(&folder);
    assert_eq!(replayed.count(Status::Ok), 200, "{}", ran.out);
    let alone: Vec<_> = replayed.rows.iter().filter(|row| row.batch.is_none()).collect();
    assert_eq!(alone.len(), 20, "the rows of the batch that was refused");
    assert!(alone.iter().all(|row| row.attempts == 2));
    let again = replayed.rows.iter().filter(|row| row.batch.is_some() && row.attempts == 2).count();
    assert_eq!(again, 20, "the rows of the batch that was sent again");
    assert_eq!(proxy.faults(), [1, 1]);
}

/// PgBouncer in transaction mode in front of the server, which ends with the value; and its port.
fn bouncer(name: &str) -> (Daemon, u16) {
    let pgbouncer =
        program("pgbouncer").expect("this test needs PgBouncer; install it, e.g. apt-get install pgbouncer");
    let (folder, port) = (folder("ycsb-bouncer-"), free_port());
    let file = folder.join("pgbouncer.ini");
    let settings = format!(
        "[databases]\n{name} = host=127.0.0.1 port={} dbname={name} user={TRUSTED}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nauth_type = any\nunix_socket_dir =\npool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 200\n",
        server().port
    );
    std::fs::write(&file, settings).expect("its settings");
    let daemon = Daemon::start(&pgbouncer, &[file.to_str().expect("a path in UTF-8")], folder);
    daemon.wait_until("PgBouncer does not listen", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).map(drop)
    });
    (daemon, port)
}

#[test]
fn unnamed_statements_work_through_a_pooler_that_shares_connections() {
    block_on(database("pooled"));
    let (_pgbouncer, port) = bouncer("pooled");
    let folder = Folder::new();
    folder.ok("gen workloada --records 100 --ops 3000");
    let url = format!("postgres://{TRUSTED}@127.0.0.1:{port}/pooled");
    let line = format!("--db pg workloada --url {url} --threads 16 --drop");
    let ran = folder.ok(&format!("replay {line} -p pg.prepare=unnamed"));
    for result in ran.results(&folder) {
        let replayed = Replayed::read(&result);
        assert_eq!(replayed.count(Status::Ok), replayed.rows.len(), "{}", ran.out);
    }
    // Sixteen sessions on four connections with named statements: that is why the option exists.
    let named = folder.run(&format!("replay {line} --max-error-rate 0.01"));
    assert_ne!(named.code, Some(0), "named statements cannot work here: {}", named.out);
    let scans = folder.ok("gen workloadf --records 100 --ops 300");
    assert!(scans.out.contains("workloadf"));
    let ran = folder.ok(&format!(
        "replay --db pg workloadf --url {url} --threads 16 --drop --rmw transaction --retries 10 -p pg.prepare=unnamed"
    ));
    assert_eq!(ran.result(&folder).count(Status::Ok), 300, "{}", ran.out);
}
