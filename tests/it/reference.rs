//! The reference benchmarks, by the command lines that their users have (docs/reference-benchmarks.md): host,
//! port, user and the number of rows replaced, and nothing else. Each runs all workloads that it has, on the
//! real server or the stand-in named there; then table, keys, counts and the lines of the report are
//! compared with what the other tool makes of them. go-ycsb on CockroachDB is in `nodes.rs`.

use ycsb_trace::op::Status;

use crate::support::program::{Folder, Ran};
use crate::support::reports::{YCSB, of_ycsb, operations, result, shapes};

/// Keys that a real YCSB has loaded: records 0, 1 and 999.
const KEYS: [&str; 3] = ["user6284781860667377211", "user8517097267634966620", "user2071219101098386137"];

/// Within a word of a command line.
const BLANK: char = '\u{1f}';

/// Rows and operations of these runs: what YCSB's workload files say.
const COUNT: usize = 1_000;

/// Runs a command line of YCSB, which must honour every setting, print all that YCSB prints, but for what
/// must `differ`, and succeed with every operation.
fn ycsb(
    folder: &Folder,
    line: &str,
    threads: usize,
    measurements: &[&str],
    differ: impl Fn(Vec<String>) -> Vec<String>,
) -> Ran {
    let words: Vec<_> = line.split_whitespace().map(|word| word.replace(BLANK, " ")).collect();
    let ran = folder.run_list(&words).expect_code(0);
    assert!(!ran.err.contains("warning"), "every setting is honoured: {line}\n{}", ran.err);
    assert_eq!(shapes(&ran.out), differ(of_ycsb(measurements)), "{line}");
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
    differ: impl Fn(Vec<String>) -> Vec<String>,
) -> usize {
    let mut rows = 0;
    for (workload, measurements) in YCSB {
        if ["workloada", "workloade"].contains(&workload) {
            empty();
            let ran = ycsb(folder, &load(workload), threads.0, &["CLEANUP", "INSERT"], &differ);
            assert_eq!(result(&ran, folder).count(Status::Ok), COUNT);
            rows = COUNT;
        }
        let ran = ycsb(folder, &run(workload), threads.1, measurements, &differ);
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

/// Without the lines about the collections of a Java machine, which nobody counts here.
#[cfg(feature = "jdbc")]
fn without_collections(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|line| !line.starts_with("[TOTAL_GC")).collect()
}

/// A run of a second is not worth an optimising compiler.
#[cfg(feature = "jdbc")]
const JVM: &str = "-jvm-args=-XX:TieredStopAtLevel=1\u{1f}-XX:+UseSerialGC";

/// The third reference benchmark: YCSB's JDBC binding on HerdDB, with the property file of its wiki.
#[cfg(feature = "jdbc")]
#[test]
fn ycsbs_command_lines_for_herddb_work_for_all_workloads_with_200_threads() {
    use crate::support::java::{herd, herd_jars};
    let folder = Folder::new();
    let url = format!("jdbc:herddb:server:127.0.0.1:{}", herd().port);
    folder.write(
        "herd.properties",
        format!("db.driver=herddb.jdbc.Driver\ndb.url={url}\ndb.user=sa\ndb.passwd=hdb\n"),
    );
    let line = |verb: &str, workload: &str| {
        let jars = herd_jars();
        format!("{verb} jdbc -s -P workloads/{workload} -P herd.properties -cp {jars} -threads 200 {JVM}")
    };
    let empty = || {
        let tables = herd().execute("SELECT table_name FROM systables WHERE table_name = 'usertable'");
        if !tables.is_empty() {
            herd().execute("DROP TABLE usertable");
        }
    };
    let load = |workload: &str| line("load", workload);
    let run = |workload: &str| line("run", workload);
    let rows = all_of_ycsb(&folder, (200, 200), load, run, empty, without_collections);
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
    let again = folder.run(&line("load", "workloada")).expect_code(2);
    assert!(again.err.contains("already holds rows"), "{}", again.err);
    for ran in [again, folder.run(&line("run", "workloadc"))] {
        assert!(!ran.err.contains("hdb\n") && !ran.err.contains("passwd=hdb"), "{}", ran.err);
    }
}

/// The second reference benchmark: YCSB on YugabyteDB YSQL, by its JDBC binding and without Java. PostgreSQL
/// is in YugabyteDB's place.
#[cfg(all(feature = "jdbc", feature = "postgres"))]
#[test]
fn ycsbs_command_lines_for_yugabytedb_work_for_all_workloads_with_java_and_without() {
    use crate::support::block_on;
    use crate::support::java::jars;
    use crate::support::postgres::{TRUSTED, client, database, server};
    for db in ["jdbc", "yugabyte"] {
        let name = format!("reference_{db}");
        block_on(database(&name));
        let folder = Folder::new();
        let url = format!("jdbc:postgresql://127.0.0.1:{}/{name}", server().port);
        let driver = if db == "jdbc" { "db.driver=org.postgresql.Driver\n" } else { "" };
        folder.write("db.properties", format!("{driver}db.url={url}\ndb.user={TRUSTED}\ndb.passwd=\n"));
        let java = match db {
            "jdbc" => format!("-cp {} {JVM}", jars().join("drivers/postgresql.jar").display()),
            _ => String::new(),
        };
        let load = |workload: &str| {
            let files = format!("-P db.properties -P workloads/{workload}");
            format!("load {db} -s {files} -p recordcount={COUNT} -threads 32 {java}")
        };
        let run = |workload: &str| {
            let files = format!("-P db.properties -P workloads/{workload}");
            let counts = format!("-p recordcount={COUNT} -p operationcount={COUNT}");
            format!("run {db} -s {files} {counts} -threads 64 {java}")
        };
        let execute = |text: &str| block_on(async { client(&name).await.batch_execute(text).await.unwrap() });
        let differ = |lines| if db == "jdbc" { without_collections(lines) } else { lines };
        let empty = || execute("DROP TABLE IF EXISTS usertable");
        let rows = all_of_ycsb(&folder, (32, 64), load, run, empty, differ);
        block_on(async {
            let own = client(&name).await;
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
    use crate::support::riak::Node;
    for (strong, mode) in [(true, ""), (false, "-p riak.strong_consistency=false")] {
        let folder = Folder::new();
        let cell = std::cell::RefCell::new(Node::with_type_ycsb(strong));
        let hosts = || {
            let node = cell.borrow();
            format!("-p riak.hosts=127.0.0.1,127.0.0.1,127.0.0.1 -p riak.port={}", node.port)
        };
        let line = |verb: &str, workload: &str| {
            // Scans in strong mode go by a bucket of their own.
            let scans = match strong && workload == "workloade" {
                true => "-p riak.strong_consistent_scans_bucket_type=scans",
                false => "",
            };
            format!("{verb} riak -s -P workloads/{workload} {} -threads 64 {mode} {scans}", hosts())
        };
        let empty = || *cell.borrow_mut() = Node::with_type_ycsb(strong);
        let load = |workload: &str| line("load", workload);
        let run = |workload: &str| line("run", workload);
        let rows = all_of_ycsb(&folder, (64, 64), load, run, empty, |lines| lines);
        let node = cell.borrow();
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
    let rows = all_of_ycsb(&folder, (8, 8), load, |workload| line("run", workload), empty, |lines| lines);
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
