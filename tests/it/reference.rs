//! The reference benchmarks, by the command lines that their users have (docs/reference-benchmarks.md): host
//! and port replaced, and nothing else; but a benchmark of a million rows has a thousand here. Each runs
//! all workloads that it has, on the real server or the stand-in named there; then table, keys, counts and
//! the lines of the report are compared with what the other tool makes of them. go-ycsb on CockroachDB is
//! in `nodes.rs`.

use ycsb_trace::op::Status;

use crate::support::program::{Folder, Ran};
use crate::support::reports::{YCSB, of_ycsb, operations, result, shapes};

/// Keys that a real YCSB has loaded: records 0, 1 and 999.
const KEYS: [&str; 3] = ["user6284781860667377211", "user8517097267634966620", "user2071219101098386137"];

/// Rows and operations of these runs: what YCSB's workload files say.
const COUNT: usize = 1_000;

fn run(folder: &Folder, line: &str) -> Ran {
    let mut command = folder.command(&line.split_whitespace().collect::<Vec<_>>());
    // A run of a second is not worth an optimising compiler. The collector is the one of YCSB's sample.
    command.env("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseG1GC");
    Ran::of(command)
}

/// Runs a command line of YCSB, which must honour every setting but those that it has `warned` of, print
/// all that YCSB prints, and succeed with every operation.
fn ycsb(folder: &Folder, line: &str, threads: usize, measurements: &[&str], warned: &[&str]) -> Ran {
    let ran = run(folder, line).expect_code(0);
    let warnings: Vec<_> = ran.err.lines().filter(|line| line.contains("warning")).collect();
    assert_eq!(warnings, warned, "every other setting is honoured: {line}\n{}", ran.err);
    assert!(!format!("{}{}", ran.out, ran.err).contains("passwd=hdb"), "{}", ran.err);
    // A newer Java has one more of these.
    let mut lines = shapes(&ran.out);
    lines.retain(|line| !line.contains("_G1_Concurrent_GC]"));
    assert_eq!(lines, of_ycsb(measurements), "{line}");
    assert_eq!(operations(&ran.out, "CLEANUP"), threads);
    let replayed = result(&ran, folder);
    assert_eq!((replayed.rows.len(), replayed.meta.sessions as usize), (COUNT, threads), "{line}");
    ran
}

/// YCSB's workloads as its manual says: `load` and `run` make the command lines, `empty` removes the table.
/// Returns how many rows there are afterwards.
fn all_of_ycsb(
    folder: &Folder,
    threads: (usize, usize),
    load: impl Fn(&str) -> String,
    run: impl Fn(&str) -> String,
    empty: impl Fn(),
    warned: &[&str],
) -> usize {
    let mut rows = 0;
    for (workload, measurements) in YCSB {
        if ["workloada", "workloade"].contains(&workload) {
            empty();
            let ran = ycsb(folder, &load(workload), threads.0, &["CLEANUP", "INSERT"], warned);
            assert_eq!(result(&ran, folder).count(Status::Ok), COUNT);
            rows = COUNT;
        }
        let ran = ycsb(folder, &run(workload), threads.1, measurements, warned);
        let replayed = result(&ran, folder);
        assert_eq!(replayed.count(Status::Ok), COUNT, "{:?}", replayed.meta.counts);
        // Every operation is in the report: a read-modify-write as three.
        let of = |name| if measurements.contains(&name) { operations(&ran.out, name) } else { 0 };
        let modified = of("READ-MODIFY-WRITE");
        let sum = ["READ", "UPDATE", "INSERT", "SCAN"].map(of).into_iter().sum::<usize>() - modified;
        assert_eq!(sum, COUNT, "{}", ran.out);
        assert!(workload != "workloadf" || of("UPDATE") == modified && of("READ") == COUNT, "{}", ran.out);
        rows += of("INSERT");
    }
    rows
}

/// The third reference benchmark: YCSB's JDBC binding on HerdDB, with the property file of its wiki.
#[cfg(feature = "jdbc")]
#[test]
fn ycsbs_command_lines_for_herddb_work_for_all_workloads_with_200_threads() {
    use crate::support::java::{herd, herd_jar};
    let folder = Folder::new();
    let url = format!("jdbc:herddb:server:127.0.0.1:{}", herd().port);
    folder.write(
        "herd.properties",
        format!("db.driver=herddb.jdbc.Driver\ndb.url={url}\ndb.user=sa\ndb.passwd=hdb\n"),
    );
    // The one jar with all that the driver needs, under the name that it has in the published line.
    std::os::unix::fs::symlink(herd_jar(), folder.path("herddb-jdbc-0.29.0.jar")).expect("a link");
    let line = |verb: &str, workload: &str| {
        let jar = "herddb-jdbc-0.29.0.jar";
        format!("{verb} jdbc -s -P workloads/{workload} -P herd.properties -cp {jar} -threads 200")
    };
    let empty = || {
        let tables = herd().execute("SELECT table_name FROM systables WHERE table_name = 'usertable'");
        if !tables.is_empty() {
            herd().execute("DROP TABLE usertable");
        }
    };
    let load = |workload: &str| line("load", workload);
    let run = |workload: &str| line("run", workload);
    let rows = all_of_ycsb(&folder, (200, 200), load, run, empty, &[]);
    // The table is laid out as the wiki has it.
    let columns = herd().execute(
        "SELECT column_name, type_name, is_nullable FROM syscolumns WHERE table_name = 'usertable' \
         ORDER BY ordinal_position",
    );
    let expected = (0..10).map(|number| format!("row field{number}|string|1"));
    assert_eq!(
        columns,
        std::iter::once("row ycsb_key|string not null|0".to_owned()).chain(expected).collect::<Vec<_>>()
    );
    assert_eq!(herd().execute("SELECT COUNT(*) FROM usertable"), [format!("row {rows}")]);
    for key in KEYS {
        let found = herd().execute(&format!("SELECT ycsb_key FROM usertable WHERE ycsb_key = '{key}'"));
        assert_eq!(found, [format!("row {key}")]);
    }
}

/// The second reference benchmark: YCSB on YugabyteDB YSQL, by its JDBC binding and without Java. PostgreSQL
/// is in YugabyteDB's place, and both counts are 1,000 instead of 1,000,000 and 10,000,000.
#[cfg(all(feature = "jdbc", feature = "postgres"))]
#[test]
fn ycsbs_command_lines_for_yugabytedb_work_for_all_workloads_with_java_and_without() {
    use crate::support::block_on;
    use crate::support::java::jars;
    use crate::support::postgres::{client, database, server};
    block_on(async {
        database("ycsb").await;
        client("ycsb").await.batch_execute("CREATE ROLE yugabyte LOGIN SUPERUSER").await.expect("a role");
    });
    let no_java = "warning: db.driver (db.properties:1) has no effect: yugabyte does not know it \
                   (`ycsb-trace databases yugabyte` lists its options)";
    for (db, warned) in [("jdbc", &[][..]), ("yugabyte", &[no_java])] {
        let folder = Folder::new();
        let url = format!("jdbc:postgresql://127.0.0.1:{}/ycsb", server().port);
        folder.write(
            "db.properties",
            format!("db.driver=org.postgresql.Driver\ndb.url={url}\ndb.user=yugabyte\ndb.passwd=\n"),
        );
        // The line has no -cp: the driver is where YCSB's users have put it.
        std::fs::create_dir_all(folder.path("jdbc-binding/lib")).expect("a folder");
        let driver = folder.path("jdbc-binding/lib/postgresql-42.7.14.jar");
        std::os::unix::fs::symlink(jars().join("drivers/postgresql.jar"), driver).expect("a link");
        let files = |workload: &str| format!("-P db.properties -P workloads/{workload}");
        let load =
            |workload: &str| format!("load {db} -s {} -p recordcount={COUNT} -threads 32", files(workload));
        let run = |workload: &str| {
            let counts = format!("-p recordcount={COUNT} -p operationcount={COUNT}");
            format!("run {db} -s {} {counts} -threads 256", files(workload))
        };
        let execute =
            |text: &str| block_on(async { client("ycsb").await.batch_execute(text).await.unwrap() });
        let empty = || execute("DROP TABLE IF EXISTS usertable");
        let rows = all_of_ycsb(&folder, (32, 256), load, run, empty, warned);
        block_on(async {
            let own = client("ycsb").await;
            let columns = "SELECT string_agg(column_name || ' ' || data_type, ',' ORDER BY ordinal_position) \
                           FROM information_schema.columns WHERE table_name = 'usertable'";
            let columns: String = own.query_one(columns, &[]).await.unwrap().get(0);
            let names: Vec<_> = columns.split(',').map(|column| column.split(' ').next().unwrap()).collect();
            let fields: Vec<_> = (0..10).map(|number| format!("field{number}")).collect();
            assert_eq!(names[0], "ycsb_key");
            assert_eq!(names[1..], fields);
            let count: i64 = own.query_one("SELECT count(*) FROM usertable", &[]).await.unwrap().get(0);
            assert_eq!(count as usize, rows);
            for key in KEYS {
                let found = own.query("SELECT 1 FROM usertable WHERE ycsb_key = $1", &[&key]).await.unwrap();
                assert_eq!(found.len(), 1, "{key}");
            }
        });
    }
}

/// The fourth reference benchmark: YCSB on a Riak KV cluster, here a stand-in for its nodes.
#[cfg(feature = "riak")]
#[test]
fn ycsbs_command_lines_for_riak_work_for_all_workloads_in_both_modes() {
    use crate::support::riak::{CLUSTER, Node};
    for (strong, mode) in [(true, ""), (false, "-p riak.strong_consistency=false")] {
        let folder = Folder::new();
        let cell = std::cell::RefCell::new(Node::cluster(strong));
        let hosts =
            || format!("-p riak.hosts=127.0.0.1,127.0.0.2,127.0.0.3 -p riak.port={}", cell.borrow().port);
        let line = |verb: &str, workload: &str| {
            // Scans in strong mode go by a bucket of their own.
            let scans = match strong && workload == "workloade" {
                true => "-p riak.strong_consistent_scans_bucket_type=scans",
                false => "",
            };
            format!("{verb} riak -s -P workloads/{workload} {} -threads 64 {mode} {scans}", hosts())
        };
        let empty = || *cell.borrow_mut() = Node::cluster(strong);
        let load = |workload: &str| line("load", workload);
        let run = |workload: &str| line("run", workload);
        let rows = all_of_ycsb(&folder, (64, 64), load, run, empty, &[]);
        let node = cell.borrow();
        // The last load and the run after it, and before each of them one that prepared: 64 sessions on three nodes.
        let sessions = node.sessions();
        assert_eq!(sessions.iter().sum::<usize>(), 2 * (1 + 64), "{sessions:?}");
        assert!(sessions.iter().all(|&count| count >= 2 * (64 / CLUSTER.len())), "{sessions:?}");
        assert_eq!(node.count("ycsb"), rows);
        for key in KEYS {
            let object = node.object("ycsb", "usertable", key).expect(key);
            let record = &object.contents[0].value;
            assert_eq!(record.len(), 10 * (4 + 6 + 4 + 100), "ten fields with their names");
            assert!(record.starts_with(b"\0\0\0\x06field0\0\0\0\x64"));
            let number = key.trim_start_matches("user").as_bytes().to_vec();
            let indexes = if strong { vec![] } else { vec![(b"key_int".to_vec(), number)] };
            assert_eq!(object.contents[0].indexes, indexes);
        }
        drop(node);
        if strong {
            // As in YCSB: scans are not implemented then, and are said to be so.
            let line = format!("run riak -s -P workloads/workloade {} -threads 64", hosts());
            let ran = folder.run(&line);
            let returns = ran.out.lines().find(|line| line.starts_with("[SCAN], Return=")).expect("statuses");
            assert!(returns.starts_with("[SCAN], Return=NOT_IMPLEMENTED, "), "{returns}");
        }
    }
}

/// YCSB's manual of its Redis binding, on a real Redis.
#[cfg(feature = "redis")]
#[test]
fn ycsbs_command_lines_for_redis_work_for_all_workloads_and_make_its_layout() {
    use crate::support::redis::{ask, database, server, url};
    let folder = Folder::new();
    let place = format!(
        "-p redis.host=127.0.0.1 -p redis.port={} -p redis.db={}",
        server().port,
        database("reference")
    );
    let line =
        |verb: &str, workload: &str| format!("{verb} redis -s -P workloads/{workload} {place} -threads 8");
    let empty = || drop(ask(&url("reference"), "FLUSHDB"));
    let load = |workload: &str| line("load", workload);
    let rows = all_of_ycsb(&folder, (8, 8), load, |workload| line("run", workload), empty, &[]);
    let number = |words: &str| match ask(&url("reference"), words) {
        redis::Value::Int(number) => number as usize,
        other => panic!("{words}: {other:?}"),
    };
    assert_eq!(number("DBSIZE"), rows + 1, "rows, and YCSB's index of them");
    assert_eq!(number("ZCARD _indices"), rows);
    for key in KEYS {
        assert_eq!(number(&format!("HLEN {key}")), 10);
        assert_eq!(number(&format!("HSTRLEN {key} field9")), 100);
    }
}

/// go-ycsb's manual of its MySQL and TiDB bindings. MariaDB is in their place.
#[cfg(feature = "mysql")]
#[test]
fn go_ycsbs_command_lines_for_mysql_and_tidb_work_for_all_of_its_workloads() {
    use crate::support::block_on;
    use crate::support::mariadb::{TRUSTED, client, database, server};
    use crate::support::reports::{GO_YCSB, end_of_go_ycsb, of_go_ycsb};
    use mysql_async::prelude::Queryable;
    for db in ["mysql", "tidb"] {
        let name = format!("reference_{db}");
        block_on(database(&name));
        let folder = Folder::new();
        let port = server().port;
        let place = match db {
            "tidb" => format!("-p tidb.instances=127.0.0.1:{port},127.0.0.1:{port}"),
            _ => format!("-p mysql.host=127.0.0.1 -p mysql.port={port}"),
        };
        let place = format!("{place} -p mysql.user={TRUSTED} -p mysql.db={name} --threads 16");
        for (workload, measurements) in GO_YCSB {
            let line = |verb: &str| format!("{verb} {db} -P workloads/{workload} {place}");
            let load = folder.ok(&format!("{} -p dropdata=true", line("load")));
            let run = folder.ok(&line("run"));
            for (ran, measurements) in [(load, &["INSERT", "TOTAL"][..]), (run, measurements)] {
                assert!(!ran.err.contains("warning"), "every setting is honoured: {}", ran.err);
                assert_eq!(end_of_go_ycsb(&ran.out), of_go_ycsb(measurements), "{db} {workload}");
                let replayed = result(&ran, &folder);
                assert_eq!((replayed.count(Status::Ok), replayed.meta.sessions), (COUNT, 16));
            }
        }
        block_on(async {
            let mut own = client(&name).await;
            let columns = format!(
                "SELECT GROUP_CONCAT(CONCAT(column_name, ' ', column_key) ORDER BY ordinal_position SEPARATOR ',') \
                 FROM information_schema.columns WHERE table_schema = '{name}' AND table_name = 'usertable'"
            );
            let columns: String = own.query_first(columns).await.unwrap().unwrap();
            let fields: Vec<_> = (0..10).map(|number| format!("field{number} ")).collect();
            assert_eq!(columns.to_lowercase(), format!("ycsb_key pri,{}", fields.join(",")));
            // The keys that a real go-ycsb has loaded: records 754 and 755 of 1000, and its first.
            for key in ["user6282602628620641459", "user6282603728132269670", "user6284781860667377211"] {
                let text = format!("SELECT COUNT(*) FROM usertable WHERE YCSB_KEY = '{key}'");
                assert_eq!(own.query_first::<u32, _>(text).await.unwrap(), Some(1), "{key}");
            }
        });
    }
}

/// The collections of garbage in the report are those that the Java machine has logged itself.
#[cfg(feature = "jdbc")]
#[test]
fn the_collections_of_the_java_machine_are_in_the_report_of_ycsb() {
    let folder = Folder::new();
    let h2 = crate::support::java::jars().join("drivers/h2.jar");
    let line =
        format!("load jdbc -P workloads/workloada -p db.url=jdbc:h2:./x -cp {} -threads 2", h2.display());
    let mut words: Vec<_> = line.split_whitespace().collect();
    words.push("-jvm-args=-XX:+UseSerialGC -Xmn1m -Xlog:gc:file=gc.log");
    let ran = folder.run_list(&words).expect_code(0);
    let number = |begin: &str| -> u64 {
        let line = ran.out.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("no {begin} in {}", ran.out)).parse().expect("a number")
    };
    let log = std::fs::read_to_string(folder.path("gc.log")).expect("Java's own log");
    let logged = |what: &str| log.lines().filter(|line| line.contains(what)).count() as u64;
    let (young, full) =
        (number("[TOTAL_GCS_Copy], Count, "), number("[TOTAL_GCS_MarkSweepCompact], Count, "));
    assert!(young > 0, "{}", ran.out);
    assert_eq!((young, full), (logged("Pause Young"), logged("Pause Full")), "{log}");
    assert_eq!(number("[TOTAL_GCs], Count, "), young + full);
    let time =
        number("[TOTAL_GC_TIME_Copy], Time(ms), ") + number("[TOTAL_GC_TIME_MarkSweepCompact], Time(ms), ");
    assert_eq!(number("[TOTAL_GC_TIME], Time(ms), "), time);
    let share = 100.0 * time as f64 / number("[OVERALL], RunTime(ms), ") as f64;
    let shown = ran.out.lines().find_map(|line| line.strip_prefix("[TOTAL_GC_TIME_%], Time(%), "));
    assert!((shown.expect("a share").parse::<f64>().expect("a number") - share).abs() < 1e-9, "{}", ran.out);
}

/// What people get wrong, by the command lines of both tools: each has its own message and exit code, and no
/// message says the password.
#[cfg(all(feature = "jdbc", feature = "postgres", feature = "mysql", feature = "redis", feature = "riak"))]
#[test]
fn each_mistake_in_a_command_line_has_its_message_and_its_exit_code() {
    use crate::support::daemon::free_port;
    use crate::support::{java, mariadb, postgres, riak};
    let folder = Folder::new();
    let (pg, maria, node) = (postgres::server().port, mariadb::server().port, riak::Node::start());
    let h2 = java::jars().join("drivers/h2.jar");
    let (h2, nobody) = (h2.display(), free_port());
    let user = postgres::GUARDED;
    for (line, code, words) in [
        ("jdbc -threads 2".to_owned(), 2, "db.url"),
        (format!("jdbc -p db.url=postgres://h/x -cp {h2} -threads 2"), 2, "begins with jdbc:"),
        ("jdbc -p db.url=jdbc:h2:mem:x -cp nowhere.jar -threads 2".to_owned(), 2, "nowhere.jar"),
        (
            format!("jdbc -p db.driver=no.such.Driver -p db.url=jdbc:h2:mem:x -cp {h2} -threads 2"),
            3,
            "the JDBC driver no.such.Driver was not found",
        ),
        (
            "jdbc -p db.url=jdbc:h2:mem:x -p jdbc.java_home=/nowhere -threads 2".to_owned(),
            3,
            "JDBC needs a Java runtime",
        ),
        (
            format!("pg -p pg.port={pg} -p pg.user={user} -p pg.password=s3cret --threads 2"),
            3,
            "refused user guarded",
        ),
        (format!("pg -p pg.port={pg} -p pg.user={user} --threads 2"), 3, "asks for the password"),
        ("pg -p pg.host=no-such-host.invalid --threads 2".to_owned(), 3, "no-such-host.invalid"),
        (format!("cockroach -p pg.port={nobody} --threads 2"), 3, "nobody listens"),
        ("cockroach --url postgres://u:s3cret@h:port/d --threads 2".to_owned(), 2, "--url"),
        (
            format!("mysql -p mysql.port={maria} -p mysql.user={user} -p mysql.password=s3cret --threads 2"),
            3,
            "refused user guarded",
        ),
        ("tidb -p tidb.instances=no-such-host.invalid:4000 --threads 2".to_owned(), 3, "is unknown"),
        ("mysql --url mysql://u:s3cret@h:port/d --threads 2".to_owned(), 2, "is not a URL of a MySQL server"),
        ("redis -p redis.host=no-such-host.invalid -threads 2".to_owned(), 3, "is unknown"),
        (format!("redis -p redis.host=127.0.0.1 -p redis.port={nobody} -threads 2"), 3, "nobody listens"),
        ("redis -p redis.port=many -threads 2".to_owned(), 2, "redis.port"),
        (format!("riak -p riak.hosts=127.0.0.1 -p riak.port={nobody} -threads 2"), 3, "nobody listens"),
        ("riak -p riak.hosts=no-such-host.invalid -threads 2".to_owned(), 3, "check the name"),
        (
            format!("riak -p riak.port={} -p riak.bucket_type=missing -threads 2", node.port),
            3,
            "riak-admin bucket-type create missing",
        ),
        // Its type is not a consistent one, as YCSB's default wants it.
        (format!("riak -p riak.port={} -threads 2", node.port), 2, "riak.strong_consistency=false"),
    ] {
        let ran = folder.run(&format!("load {line} -P workloads/workloada"));
        let said = format!("{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(code), "{line}: {said}");
        assert!(ran.err.contains(words), "{line}: {words:?} is not in: {}", ran.err);
        assert!(!said.contains("s3cret"), "{line}: {said}");
    }
}

/// Batches by the settings of both tools: the table is the same, and every row says which request it was in.
#[cfg(all(feature = "jdbc", feature = "mysql", feature = "sqlite"))]
#[test]
fn a_load_in_batches_by_the_settings_of_both_tools_fills_the_same_table() {
    use crate::support::block_on;
    use crate::support::mariadb::{TRUSTED, client, database, server};
    use mysql_async::prelude::Queryable;
    let name = "reference_batches";
    block_on(database(name));
    let (folder, port) = (Folder::new(), server().port);
    folder.write(
        "db.properties",
        format!("db.driver=org.mariadb.jdbc.Driver\ndb.url=jdbc:mariadb://127.0.0.1:{port}/{name}\ndb.user={TRUSTED}\n"),
    );
    let jar = crate::support::java::jars().join("drivers/mariadb-java-client.jar");
    let java = format!("-P db.properties -cp {} -threads 2", jar.display());
    let place = format!("-p mysql.port={port} -p mysql.user={TRUSTED} -p mysql.db={name} -threads 2");
    let content = || -> String {
        let text = "SELECT SHA2(GROUP_CONCAT(CONCAT_WS('|', YCSB_KEY, field0, field4, field9) ORDER BY YCSB_KEY), 256) \
                    FROM usertable";
        let text = format!("SET STATEMENT group_concat_max_len = 1000000 FOR {text}");
        block_on(async { client(name).await.query_first(text).await.unwrap().unwrap() })
    };
    let mut contents = Vec::new();
    for (db, place, settings, rows) in [
        ("mysql", &place, "", 1),
        ("mysql", &place, "-p batch.size=50", 50),
        ("jdbc", &java, "-p db.batchsize=100 -p jdbc.batchupdateapi=true", 100),
        ("jdbc", &java, "-p db.batchsize=100 -p jdbc.autocommit=false", 100),
        // As in YCSB: without one of the two it has no effect, and that is said.
        ("jdbc", &java, "-p db.batchsize=100", 1),
    ] {
        let line = format!(
            "load {db} -P workloads/workloada {place} -p recordcount=507 -p dropdata=true {settings}"
        );
        let ran = folder.ok(&line);
        let warned = ran.err.contains("warning: db.batchsize=100 has no effect");
        assert_eq!(warned, rows == 1 && db == "jdbc", "{}", ran.err);
        let replayed = result(&ran, &folder);
        assert_eq!(replayed.count(Status::Ok), 507, "{line}");
        let mut batches: std::collections::BTreeMap<u64, usize> = std::collections::BTreeMap::new();
        for row in replayed.rows.iter().filter_map(|row| row.batch) {
            *batches.entry(row).or_default() += 1;
        }
        assert_eq!(batches.values().max().copied().unwrap_or(1), rows, "{line}");
        contents.push(content());
    }
    contents.dedup();
    assert_eq!(contents.len(), 1, "the same rows however they came");
}
