//! What is JDBC's own: the Java half, what may be missing, shards, batches, deadlines.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use ycsb_trace::driver::jdbc::Jdbc;
use ycsb_trace::driver::{Driver, Preparation, Session, Target, TargetError};
use ycsb_trace::op::{Field, Op, OpKind, Outcome, Recovery, Status};

use crate::support::daemon::free_port;
use crate::support::java::{herd, herd_jars, with_driver};
use crate::support::program::Folder;
use crate::support::{Collected, Place, block_on, open, refusal, table, target, with};

/// A database of H2, in this process.
fn h2(name: &str) -> Target {
    with_driver(&format!("jdbc:h2:mem:{name};DB_CLOSE_DELAY=-1"), "h2.jar")
}

#[test]
fn the_class_in_the_program_is_the_source_beside_it() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/driver/jdbc/Helper.java");
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("javac")
        .args(["--release", "8", "-g:none", "-Xlint:-options", "-d"])
        .arg(folder.path())
        .arg(source)
        .output()
        .expect("javac; see scripts/setup test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let fresh = fs::read(folder.path().join("ycsbtrace/Helper.class")).unwrap();
    let kept = fs::read(source.replace(".java", ".class")).unwrap();
    // Another compiler may order the constants otherwise: then what the classes declare is compared,
    // which is every member with its type and its instructions.
    if fresh != kept {
        let kept_folder = folder.path().join("kept");
        fs::create_dir(&kept_folder).unwrap();
        fs::write(kept_folder.join("Helper.class"), kept).unwrap();
        let code = |file: std::path::PathBuf| {
            let output = Command::new("javap").args(["-p", "-c"]).arg(file).output().expect("javap");
            let text = String::from_utf8(output.stdout).unwrap();
            let without_numbers = |line: &str| line.split('#').next().unwrap().to_owned();
            text.lines().map(without_numbers).collect::<Vec<_>>()
        };
        let fresh = code(folder.path().join("ycsbtrace/Helper.class"));
        assert!(
            fresh == code(kept_folder.join("Helper.class")),
            "Helper.class is not Helper.java: run scripts/helper-class"
        );
    }
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let refused = |target: Target| match Jdbc::open(&target) {
        Err(error) => error,
        Ok(driver) => refusal(block_on(driver.prepare(&table(), Preparation::CreateIfEmpty))),
    };
    let request = |target: Target, words: &[&str]| {
        let error = refused(target);
        assert!(matches!(error, TargetError::Request(_)), "{error}");
        words.iter().for_each(|word| assert!(error.to_string().contains(word), "{error} lacks {word}"));
    };
    let unusable = |target: Target, words: &[&str]| {
        let error = refused(target);
        assert!(matches!(error, TargetError::Unusable(_)), "{error}");
        words.iter().for_each(|word| assert!(error.to_string().contains(word), "{error} lacks {word}"));
    };
    let nobody = free_port();

    request(Target { db: "jdbc".to_owned(), ..Target::default() }, &["db.url"]);
    request(target("jdbc", "postgres://me:s3cret@h/d"), &["jdbc:"]);
    request(with(h2("a"), &[("jdbc.classpath", "/nowhere/x.jar")]), &["/nowhere/x.jar", "-cp"]);
    request(with(h2("a"), &[("jdbc.classpath", "/nowhere/*.jar")]), &["/nowhere/*.jar"]);
    request(with(h2("a"), &[("jdbc.fetchsize", "many")]), &["jdbc.fetchsize", "many"]);
    request(with(h2("a"), &[("jdbc.autocommit", "perhaps")]), &["jdbc.autocommit", "perhaps"]);
    request(with(h2("a"), &[("jdbc.isolation", "chaos")]), &["jdbc.isolation", "serializable"]);
    request(with(h2("a"), &[("db.driver", "java.lang.Object")]), &["java.lang.Object"]);
    unusable(with(h2("a"), &[("db.driver", "no.such.Driver")]), &["no.such.Driver", "h2.jar", "-cp"]);
    unusable(with_driver("jdbc:nothing:x", "h2.jar"), &["no JDBC driver", "jdbc:nothing:x", "-cp"]);
    unusable(
        with(with_driver("jdbc:nothing:x", "h2.jar"), &[("db.driver", "org.h2.Driver")]),
        &["org.h2.Driver", "does not accept"],
    );
    let postgres = |rest: &str| with_driver(&format!("jdbc:postgresql://{rest}"), "postgresql.jar");
    unusable(postgres(&format!("127.0.0.1:{nobody}/x")), &["nobody listens", "127.0.0.1"]);
    unusable(postgres("no-such-host.invalid/x"), &["no-such-host.invalid", "unknown"]);
    let mut herddb = target("herddb", &format!("jdbc:herddb:server:127.0.0.1:{}", herd().port));
    herddb = with(herddb, &[("jdbc.classpath", &herd_jars()), ("db.passwd", "wrong")]);
    unusable(herddb, &["db.passwd", "sa"]);
}

/// In a process of its own: there can be one Java machine in each.
#[test]
fn without_java_the_program_says_what_to_install() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 5 --ops 5 --phase load");
    let arguments = "replay --db jdbc workloada --url jdbc:h2:mem:x -p jdbc.java_home=/nowhere";
    let ran = folder.run(arguments).expect_code(3);
    for words in ["Java runtime", "default-jre-headless", "/nowhere", "JAVA_HOME"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    let ran = folder.run("replay --db jdbc workloada --url jdbc:h2:mem:x -p jdbc.jvmargs=-Xnonsense");
    let ran = ran.expect_code(3);
    assert!(ran.err.contains("jdbc.jvmargs"), "{}", ran.err);
}

#[cfg(feature = "postgres")]
#[test]
fn a_wrong_password_is_refused_and_never_shown() {
    use crate::support::postgres::{GUARDED, server};
    let folder = Folder::new();
    folder.ok("gen workloada --records 5 --ops 5 --phase load");
    let jar = crate::support::java::jars().join("drivers/postgresql.jar");
    let url = format!("jdbc:postgresql://127.0.0.1:{}/postgres?password=s3cr3t-a", server().port);
    let words = ["replay", "--db", "jdbc", "workloada", "--url", &url];
    let classpath = format!("jdbc.classpath={}", jar.display());
    let user = format!("db.user={GUARDED}");
    let more = ["-p", &classpath, "-p", &user, "-p", "db.passwd=s3cr3t-b"];
    let ran = folder.run_list(&[&words[..], &more[..]].concat()).expect_code(3);
    assert!(ran.err.contains(GUARDED) && ran.err.contains("db.passwd"), "{}", ran.err);
    assert!(!ran.err.contains("s3cr3t") && !ran.out.contains("s3cr3t"), "{}", ran.err);
}

#[test]
fn rows_are_in_the_shard_that_ycsb_would_look_in() {
    block_on(async {
        let urls = ["shard0", "shard1"].map(|name| format!("jdbc:h2:mem:{name};DB_CLOSE_DELAY=-1"));
        let place: Place<Jdbc> = Place::at(with_driver(&urls.join(";"), "h2.jar"));
        let info = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert_eq!(info.settings["shards"], "2");
        let mut session = place.session(&table()).await;
        // Their shards of 2 by YCSB's own code.
        let keys =
            [("user6284781860667377211", 1), ("user1820151046732198393", 0), ("user1000385178204227360", 0)];
        for (key, _) in keys {
            assert_eq!(session.insert(key, &["a", "b", "c"]).await, Outcome::ok(1));
            assert_eq!(session.read(key).await.0, Outcome::ok(1));
        }
        for (shard, url) in urls.iter().enumerate() {
            let alone: Place<Jdbc> = Place::at(with_driver(url, "h2.jar"));
            let mut session = alone.session(&table()).await;
            for (key, home) in keys {
                let expected = if home == shard { Status::Ok } else { Status::NotFound };
                assert_eq!(session.read(key).await.0.status, expected, "{key} in shard {shard}");
            }
        }
    });
}

#[test]
fn what_is_not_honoured_is_said_and_what_is_holds() {
    block_on(async {
        let properties = [
            ("db.batchsize", "1000"),
            ("jdbc.batchupdateapi", "true"),
            ("jdbc.autocommit", "false"),
            ("jdbc.fetchsize", "2"),
            ("db.driver", "org.h2.Driver"),
        ];
        let place: Place<Jdbc> = Place::at(with(h2("honour"), &properties));
        let mut session =
            place.filled(&table(), &[("user1", ["a", "b", "c"]), ("user2", ["a", "b", "c"])]).await;
        let info = place.driver.prepare(&table(), Preparation::UseExisting).await.unwrap();
        assert_eq!(info.settings["autocommit"], "false");
        for name in ["db.batchsize=1000", "jdbc.batchupdateapi=true"] {
            assert!(info.warnings.iter().any(|warning| warning.contains(name)), "{:?}", info.warnings);
        }
        // Committed at once: another connection sees it, and nothing is locked.
        let other: Place<Jdbc> = Place::at(h2("honour"));
        let mut other = other.session(&table()).await;
        assert_eq!(session.update("user1", &[(1, "x")]).await, Outcome::ok(1));
        assert_eq!(other.read("user1").await.1.values(), ["a", "x", "c"]);
        assert_eq!(other.update("user1", &[(1, "y")]).await, Outcome::ok(1));
        assert_eq!(session.read("user1").await.1.values(), ["a", "y", "c"]);
        assert_eq!(session.scan("user", 10).await.1.keys(), ["user1", "user2"]);
    });
}

/// Two sessions on a row: one holds it in a transaction of its own making.
#[test]
fn a_transaction_that_fails_changes_nothing() {
    block_on(async {
        let place: Place<Jdbc> = Place::at(h2("transactions"));
        let mut session = place.filled(&table(), &[("user1", ["a", "b", "c"])]).await;
        let mut rows = Collected::default();
        let write = |number, value: &'static [u8]| [Field { number, value }];
        let op = |fields| Op { id: 0, kind: OpKind::ReadModifyWrite, key: "user1", fields, scan_len: 0 };
        let (good, bad) = (write(2, b"new"), write(7, b"x"));
        let outcome = session.0.read_modify_write_transaction(&op(&good), &mut rows).await;
        assert_eq!((outcome, rows.values()), (Outcome::ok(1), vec!["a", "b", "c"]));
        let outcome = session.0.read_modify_write_transaction(&op(&bad), &mut Collected::default()).await;
        assert_eq!(outcome.status, Status::Rejected);
        // Outside of transactions again, with nothing left open.
        assert_eq!(session.update("user1", &[(0, "A")]).await, Outcome::ok(1));
        let other: Place<Jdbc> = Place::at(h2("transactions"));
        assert_eq!(other.session(&table()).await.read("user1").await.1.values(), ["A", "b", "new"]);
    });
}

#[test]
fn values_that_are_not_text_and_large_ones_are_told_apart() {
    block_on(async {
        let place: Place<Jdbc> = Place::at(h2("values"));
        let mut session = place.filled(&table(), &[]).await;
        let outcome = session.insert_fields("user1", &[(0, b"\xff\xfe")]).await;
        assert_eq!(outcome.status, Status::Rejected);
        assert!(outcome.failure.unwrap().message.contains("FIELD0"));
        assert_eq!(session.read("user1").await.0.status, Status::NotFound);
        // Larger than the buffer, in both directions and in the middle of a request.
        let large = "ü".repeat(300_000);
        let values = [large.as_str(), "b", large.as_str()];
        assert_eq!(session.insert("user2", &values).await, Outcome::ok(1));
        assert_eq!(session.read("user2").await.1.values(), values);
        assert_eq!(session.insert("user3", &values).await, Outcome::ok(1));
        assert_eq!(session.scan("user", 9).await.0, Outcome::ok(2));
    });
}

/// A server that accepts and then says nothing: the call must come back by the deadline's thread.
#[cfg(feature = "postgres")]
#[test]
fn an_operation_that_hangs_is_given_up_at_its_deadline() {
    use crate::support::postgres::{TRUSTED, client, database};
    block_on(async {
        let url = database("jdbc_hangs").await;
        let url = format!("jdbc:postgresql://{}", url.split_once('@').unwrap().1);
        let mut target = with(with_driver(&url, "postgresql.jar"), &[("db.user", TRUSTED)]);
        target.op_timeout = Some(Duration::from_millis(400));
        let place: Place<Jdbc> = Place::at(target);
        let mut session = place.filled(&table(), &[("user1", ["a", "b", "c"])]).await;
        let locker = client("jdbc_hangs").await;
        locker.batch_execute("BEGIN; SELECT * FROM usertable FOR UPDATE").await.unwrap();
        let begin = Instant::now();
        let value = [Field { number: 1, value: b"x" }];
        let op = Op { id: 7, kind: OpKind::Update, key: "user1", fields: &value, scan_len: 0 };
        let outcome = session.0.update(&op).await;
        assert!(begin.elapsed() >= Duration::from_millis(400), "{:?}", begin.elapsed());
        assert_eq!(outcome.status, Status::Timeout, "{outcome:?}");
        assert_eq!(outcome.failure.unwrap().recovery, Recovery::Ambiguous);
        let next = session.0.update(&Op { id: 8, ..op }).await;
        assert_eq!(next.status, Status::Unavailable, "the connection is gone");
    });
}

/// What `faults.rs` sees of PostgreSQL's own driver, through JDBC.
#[cfg(feature = "postgres")]
#[test]
fn a_server_that_dies_is_unavailable_and_a_new_connection_goes_on() {
    use crate::support::postgres::{Server, TRUSTED};
    let server = Server::start();
    let url = format!("jdbc:postgresql://127.0.0.1:{}/postgres", server.port);
    let place: Place<Jdbc> = Place::at(with(with_driver(&url, "postgresql.jar"), &[("db.user", TRUSTED)]));
    block_on(async {
        let mut writer = place.filled(&table(), &[("user1", ["a", "b", "c"])]).await;
        let mut reader = place.session(&table()).await;
        server.tell("kill");
        // The kernel closes the connections of the dead within moments; until then the server answers.
        let ended = |outcome: &Outcome| outcome.status != Status::Ok;
        let mut wrote = writer.update("user1", &[(1, "x")]).await;
        while !ended(&wrote) {
            wrote = writer.update("user1", &[(1, "x")]).await;
        }
        let failure = wrote.failure.expect("a reason");
        assert_eq!(
            (wrote.status, failure.recovery),
            (Status::Unavailable, Recovery::Ambiguous),
            "{failure:?}"
        );
        assert!(failure.code.starts_with("08") || failure.code.starts_with("57P"), "{failure:?}");
        let mut read = reader.read("user1").await.0;
        while !ended(&read) {
            read = reader.read("user1").await.0;
        }
        let failure = read.failure.expect("a reason");
        assert_eq!(
            (read.status, failure.recovery),
            (Status::Unavailable, Recovery::Reconnect),
            "{failure:?}"
        );
        server.tell("start");
        let mut again = place.driver.connect(&table(), 0).await;
        let begin = Instant::now();
        while again.is_err() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
            again = place.driver.connect(&table(), 0).await;
        }
        let mut session = crate::support::Calls(again.expect("the server is back"));
        assert_eq!(session.read("user1").await.0, Outcome::ok(1));
    });
}

/// Where neither aborting the connection nor cancelling the statement ends the call: the thread
/// is interrupted. Reading this view of H2 sleeps.
#[test]
fn a_call_that_cannot_be_aborted_is_interrupted() {
    block_on(async {
        let url = "jdbc:h2:mem:sleeps;DB_CLOSE_DELAY=-1;INIT=\
                   CREATE ALIAS IF NOT EXISTS DOZE FOR \"java.lang.Thread.sleep(long)\"\\;\
                   CREATE TABLE IF NOT EXISTS NAP AS SELECT 'user1' AS YCSB_KEY, 60000 AS MS\\;\
                   CREATE VIEW IF NOT EXISTS USERTABLE AS SELECT YCSB_KEY, \
                   CAST(DOZE(MS) AS VARCHAR) AS FIELD0, 'b' AS FIELD1, 'c' AS FIELD2 FROM NAP";
        let mut target = with_driver(url, "h2.jar");
        target.op_timeout = Some(Duration::from_millis(300));
        let driver: Jdbc = open(&target);
        let mut session = driver.connect(&table(), 0).await.expect("a session opens");
        let begin = Instant::now();
        let op = Op { id: 1, kind: OpKind::Read, key: "user1", fields: &[], scan_len: 0 };
        let outcome = session.read(&op, &mut Collected::default()).await;
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(50), "{took:?}");
        assert_eq!(outcome.status, Status::Timeout, "{outcome:?}");
        assert_eq!(outcome.failure.unwrap().recovery, Recovery::Reconnect);
    });
}
