//! What is MySQL's own: its errors, its connections and their encryption, other tools' tables, and
//! what must never be said. A real MariaDB answers.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};
use ycsb_trace::driver::mysql::MySql;
use ycsb_trace::driver::{Driver, Preparation, TableSpec, Target, TargetError};
use ycsb_trace::op::{Outcome, Recovery, Status};

use crate::support::authority::Authority;
use crate::support::daemon::{folder, free_port};
use crate::support::guarded::{
    assert_careless_urls_are_not_repeated, assert_refused_in_these_words, escaped,
};
use crate::support::mariadb::{GUARDED, PASSWORD, Server, TRUSTED, client, database, server};
use crate::support::{Place, block_on, open, refusal, table, target, with};

const ABC: [&str; 3] = ["a", "b", "c"];

async fn place(name: &str) -> Place<MySql> {
    Place::at(target("mysql", &database(name).await))
}

/// The same with settings for every session.
async fn place_with(name: &str, settings: &str) -> Place<MySql> {
    let mut target = target("mysql", &database(name).await);
    target.properties.insert("mysql.session".to_owned(), settings.to_owned());
    Place::at(target)
}

fn failure(outcome: Outcome) -> (Status, Recovery, String) {
    let failure = outcome.failure.expect("a reason");
    (outcome.status, failure.recovery, failure.code)
}

/// Waits until a session of this database waits for a lock; answers its number.
async fn blocked(observer: &mut Conn, database: &str) -> u64 {
    let text = format!(
        "SELECT id FROM information_schema.processlist WHERE db = '{database}' AND info LIKE 'UPDATE%'"
    );
    loop {
        // The statement is there before it waits; a moment later it does.
        if let Some(id) = observer.query_first(text.as_str()).await.expect("an answer") {
            return id;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The error of killing a session that is gone already.
const NO_SUCH_THREAD: u16 = 1094;

/// A transaction of somebody else's that holds the lock of every row.
async fn holding(name: &str) -> Conn {
    let mut other = client(name).await;
    other.query_drop("START TRANSACTION").await.expect("begun");
    other.query_drop("UPDATE usertable SET field0 = 'other'").await.expect("locked");
    other
}

#[test]
fn a_lock_that_is_held_too_long_is_a_conflict_to_retry() {
    block_on(async {
        let name = "lock_timeout";
        let place = place_with(name, "innodb_lock_wait_timeout = 1").await;
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        let mut other = holding(name).await;
        let outcome = session.update("user1", &[(0, "mine")]).await;
        assert_eq!(failure(outcome), (Status::Conflict, Recovery::Retry, "1205".to_owned()));
        other.query_drop("ROLLBACK").await.unwrap();
        assert_eq!(session.update("user1", &[(0, "mine")]).await, Outcome::ok(1), "and a retry succeeds");
    });
}

#[test]
fn a_statement_that_the_server_ends_is_a_timeout() {
    block_on(async {
        let name = "statement_timeout";
        let place = place_with(name, "max_statement_time = 0.05").await;
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        let _other = holding(name).await;
        let outcome = session.update("user1", &[(0, "mine")]).await;
        assert_eq!(failure(outcome), (Status::Timeout, Recovery::Retry, "1969".to_owned()));
    });
}

#[test]
fn a_lost_connection_is_unavailable_and_ambiguous_only_for_a_write_in_flight() {
    block_on(async {
        let name = "lost_connection";
        let place = place(name).await;
        let mut writer = place.filled(&table(), &[("user1", ABC)]).await;
        let mut idle = place.session(&table()).await;
        let mut idle_writer = place.session(&table()).await;
        let mut other = holding(name).await;
        let mut observer = client("mysql").await;
        let (outcome, ()) = tokio::join!(writer.update("user1", &[(0, "mine")]), async {
            let id = blocked(&mut observer, name).await;
            observer.query_drop(format!("KILL CONNECTION {id}")).await.unwrap();
        });
        let (status, recovery, code) = failure(outcome);
        assert_eq!((status, recovery), (Status::Unavailable, Recovery::Ambiguous));
        assert!(["2013", "1927"].contains(&code.as_str()), "{code}");
        other.query_drop("ROLLBACK").await.unwrap();

        let others = format!(
            "SELECT id FROM information_schema.processlist WHERE db = '{name}' AND command = 'Sleep'"
        );
        // A session that has just been answered may not be listed as asleep yet, and one that was killed may still be.
        loop {
            let asleep: Vec<u64> = observer.query(others.as_str()).await.unwrap();
            if asleep.is_empty() {
                break;
            }
            for id in asleep {
                match observer.query_drop(format!("KILL CONNECTION {id}")).await {
                    Err(mysql_async::Error::Server(error)) if error.code == NO_SUCH_THREAD => {}
                    killed => killed.unwrap(),
                }
            }
        }
        // The end of the connection has come by now, and is seen before the write is sent.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (status, recovery, _) = failure(idle_writer.update("user1", &[(0, "mine")]).await);
        assert_eq!((status, recovery), (Status::Unavailable, Recovery::Reconnect));
        let (status, recovery, _) = failure(idle.read("user1").await.0);
        assert_eq!((status, recovery), (Status::Unavailable, Recovery::Reconnect));
        // By now the connection is known to be dead: a write is not sent, so it had no effect.
        let (status, recovery, _) = failure(idle.update("user1", &[(0, "mine")]).await);
        assert_eq!((status, recovery), (Status::Unavailable, Recovery::Reconnect));
        let mut again = place.session(&table()).await;
        assert_eq!(again.read("user1").await.1.values(), ABC);
    });
}

#[test]
fn what_is_not_text_and_what_is_too_long_for_its_column_is_rejected_not_cut() {
    block_on(async {
        let name = "rejected";
        let mut own = client("mysql").await;
        let place = place(name).await;
        own.query_drop(format!(
            "CREATE TABLE {name}.usertable (YCSB_KEY VARCHAR(64) PRIMARY KEY, FIELD0 VARCHAR(5), \
             FIELD1 VARCHAR(5), FIELD2 VARCHAR(5)) CHARACTER SET utf8mb4"
        ))
        .await
        .unwrap();
        place.driver.prepare(&table(), Preparation::UseExisting).await.unwrap();
        let mut session = place.session(&table()).await;
        for (bytes, code) in [(&b"\xff"[..], "1366"), (b"longer", "1406")] {
            let outcome = session.insert_fields("user1", &[(0, bytes)]).await;
            assert_eq!(failure(outcome), (Status::Rejected, Recovery::Fatal, code.to_owned()));
        }
        assert_eq!(session.insert("user1", &ABC).await, Outcome::ok(1), "the session goes on");
        // Where the server's own default is to cut, our sessions say otherwise.
        let lax = Server::start(&["--sql-mode=".to_owned()]);
        let url = format!("mysql://{TRUSTED}@127.0.0.1:{}/mysql", lax.port);
        let place: Place<MySql> = Place::at(target("mysql", &url));
        let mut lax = crate::support::mariadb::connect(lax.port, "mysql").await.unwrap();
        lax.query_drop("CREATE TABLE usertable (YCSB_KEY VARCHAR(64) PRIMARY KEY, FIELD0 VARCHAR(5), FIELD1 TEXT, FIELD2 TEXT)")
            .await
            .unwrap();
        let mut session = place.session(&table()).await;
        let outcome = session.insert_fields("user1", &[(0, b"longer")]).await;
        assert_eq!(failure(outcome), (Status::Rejected, Recovery::Fatal, "1406".to_owned()));
    });
}

#[test]
fn a_password_in_any_characters_works_by_property_and_escaped_in_a_url() {
    block_on(async {
        let name = "odd_password";
        database(name).await;
        let port = server().port.to_string();
        let parts = [
            ("mysql.user", GUARDED),
            ("mysql.password", PASSWORD),
            ("mysql.port", &port),
            ("mysql.db", name),
        ];
        let driver: MySql = open(&with(Target { db: "mariadb".to_owned(), ..Target::default() }, &parts));
        let escaped = escaped();
        let url = format!("mysql://{GUARDED}:{escaped}@127.0.0.1:{port}/{name}");
        for driver in [driver, open(&target("mysql", &url))] {
            let message = refusal(driver.prepare(&table(), Preparation::UseExisting).await).to_string();
            assert!(message.contains("there is no table usertable"), "we got in: {message}");
        }
    });
}

#[test]
fn no_refusal_tells_a_password() {
    block_on(async {
        let port = server().port.to_string();
        let closed = free_port().to_string();
        let wrong = format!("s3cret{PASSWORD}");
        let cases: [(&str, &[(&str, &str)]); 7] = [
            ("refused user guarded", &[("mysql.password", &wrong)]),
            ("give -p mysql.password", &[]),
            ("there is no database nowhere", &[("mysql.password", PASSWORD), ("mysql.db", "nowhere")]),
            (
                "is the server running at this host and port?",
                &[("mysql.password", PASSWORD), ("mysql.port", &closed)],
            ),
            ("is unknown", &[("mysql.password", PASSWORD), ("mysql.host", "no-such-host.invalid")]),
            ("nobody listens", &[("mysql.password", PASSWORD), ("mysql.host", "/nonexistent")]),
            ("cannot encrypt", &[("mysql.password", PASSWORD), ("mysql.ssl-mode", "REQUIRED")]),
        ];
        let base = with(
            Target { db: "mysql".to_owned(), ..Target::default() },
            &[
                ("mysql.user", GUARDED),
                ("mysql.port", &port),
                ("mysql.db", "mysql"),
                ("mysql.host", "127.0.0.1"),
            ],
        );
        assert_refused_in_these_words::<MySql>(&base, &cases).await;
        assert_careless_urls_are_not_repeated::<MySql>("mysql", &port).await;
    });
}

#[test]
fn of_several_hosts_each_connection_begins_with_its_own_and_goes_on_to_the_next() {
    block_on(async {
        let name = "several_hosts";
        let alive = server().port;
        database(name).await;
        let dead = free_port();
        let url = format!("mysql://{TRUSTED}@127.0.0.1:{dead},127.0.0.1:{alive}/{name}");
        for balance in ["true", "false"] {
            let place: Place<MySql> =
                Place::at(with(target("mysql", &url), &[("mysql.load_balance", balance)]));
            place.driver.prepare(&table(), Preparation::DropAndCreate).await.unwrap();
            for session in 0..3 {
                place.driver.connect(&table(), session).await.map(drop).expect("the second host serves");
            }
        }
        let nowhere = format!("mysql://{TRUSTED}@127.0.0.1:{dead},127.0.0.2:{dead}/{name}");
        let place: Place<MySql> = Place::at(target("mysql", &nowhere));
        let message = refusal(place.driver.connect(&table(), 0).await).to_string();
        assert!(
            message.contains("127.0.0.1") && message.contains("127.0.0.2"),
            "each has its line: {message}"
        );
    });
}

#[test]
fn a_socket_is_a_host() {
    block_on(async {
        let name = "by_socket";
        database(name).await;
        let socket = server().daemon.folder.join("socket");
        let parts = [("mysql.host", socket.to_str().unwrap()), ("mysql.user", TRUSTED), ("mysql.db", name)];
        let place: Place<MySql> =
            Place::at(with(Target { db: "mysql".to_owned(), ..Target::default() }, &parts));
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        assert_eq!(session.read("user1").await.1.values(), ABC);
    });
}

#[test]
fn a_table_of_go_ycsb_is_scanned_in_byte_order_and_told() {
    block_on(async {
        let name = "of_go_ycsb";
        let place = place(name).await;
        let mut own = client(name).await;
        // Its own statement; the character set is what most servers have.
        own.query_drop(
            "CREATE TABLE IF NOT EXISTS usertable (YCSB_KEY VARCHAR(64) PRIMARY KEY, FIELD0 VARCHAR(100), \
             FIELD1 VARCHAR(100), FIELD2 VARCHAR(100)) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        )
        .await
        .unwrap();
        let info = place.driver.prepare(&table(), Preparation::UseExisting).await.unwrap();
        assert!(info.settings["scan_order"].contains("utf8mb4_general_ci"), "{:?}", info.settings);
        assert!(info.statements.get("SCAN").is_some_and(|text| text.contains("CAST(YCSB_KEY AS BINARY)")));
        let mut session = place.session(&table()).await;
        for key in ["a", "B", "_", "é"] {
            assert_eq!(session.insert(key, &ABC).await, Outcome::ok(1));
        }
        assert_eq!(session.scan("B", 10).await.1.keys(), ["B", "_", "a", "é"]);
        assert_eq!(session.scan("_", 2).await.1.keys(), ["_", "a"]);
        // A table of our own is in byte order, and its index serves the scan.
        let info = place.driver.prepare(&table(), Preparation::DropAndCreate).await.unwrap();
        assert_eq!(info.settings["scan_order"], "by the index of YCSB_KEY");
        assert_eq!(info.settings["key_collation"], "utf8mb4_nopad_bin");
        let mut session = place.session(&table()).await;
        assert_eq!(session.insert("user1", &ABC).await, Outcome::ok(1));
        let scan = &info.statements["SCAN"].replacen('?', "'user1'", 1).replacen('?', "10", 1);
        let plan: mysql_async::Row = own.query_first(format!("EXPLAIN {scan}")).await.unwrap().unwrap();
        let extra = format!("{:?}", plan.unwrap().last().unwrap_or(&Value::NULL));
        assert!(!extra.contains("filesort") && !extra.contains("temporary"), "{extra}");
    });
}

#[test]
fn a_column_that_holds_no_text_and_a_key_that_is_none_are_refused_by_name() {
    block_on(async {
        let place = place("other_types").await;
        let mut own = client("other_types").await;
        for (definition, words) in [
            ("YCSB_KEY VARCHAR(64) PRIMARY KEY, field0 TEXT, field1 INTEGER, field2 TEXT", ["FIELD1", "int"]),
            ("YCSB_KEY VARCHAR(64), field0 TEXT, field1 TEXT, field2 TEXT", ["YCSB_KEY", "unique"]),
        ] {
            own.query_drop(format!("CREATE OR REPLACE TABLE usertable ({definition})")).await.unwrap();
            let message = refusal(place.driver.prepare(&table(), Preparation::UseExisting).await).to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    });
}

#[test]
fn a_table_can_be_in_another_database() {
    block_on(async {
        let place = place("one_database").await;
        database("another_database").await;
        let table = TableSpec { name: "another_database.usertable".to_owned(), ..table() };
        let mut session = place.filled(&table, &[("user1", ABC)]).await;
        assert_eq!(session.read("user1").await.1.values(), ABC);
        assert!(place.driver.prepare(&table, Preparation::UseExisting).await.is_ok());
    });
}

#[test]
fn who_answers_and_what_is_sent_is_on_record() {
    block_on(async {
        let place: Place<MySql> = Place::at(target("tidb", &database("on_record").await));
        let info = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert_eq!(
            info.settings["dialect_note"],
            "TiDB was asked for, MariaDB answered: the table is laid out for it"
        );
        assert!(info.version.contains("MariaDB"), "{}", info.version);
        assert_eq!(info.settings["tx_isolation"], "REPEATABLE-READ");
        assert_eq!(info.settings["innodb_flush_log_at_trx_commit"], "0");
        assert_eq!(
            info.statements["UPDATE"], "UPDATE usertable SET FIELD1 = ? WHERE YCSB_KEY = ?",
            "{:?}",
            info.statements
        );
        let place = self::place("on_record_too").await;
        let info = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert!(!info.settings.contains_key("dialect_note"));
    });
}

#[test]
fn a_transaction_locks_the_row_it_reads_so_that_no_update_is_lost() {
    block_on(async {
        let name = "locking";
        let place = place(name).await;
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        let field = [ycsb_trace::op::Field { number: 2, value: b"mine" }];
        let op = ycsb_trace::op::Op {
            id: 0,
            kind: ycsb_trace::op::OpKind::ReadModifyWrite,
            key: "user1",
            fields: &field,
            scan_len: 0,
        };
        let mut other = client(name).await;
        other.query_drop("START TRANSACTION").await.unwrap();
        other.query_drop("UPDATE usertable SET field2 = 'theirs' WHERE YCSB_KEY = 'user1'").await.unwrap();
        let mut observer = client("mysql").await;
        let mut rows = crate::support::Collected::default();
        use ycsb_trace::driver::Session as _;
        let (outcome, ()) = tokio::join!(session.0.read_modify_write_transaction(&op, &mut rows), async {
            let waits = format!(
                "SELECT id FROM information_schema.processlist WHERE db = '{name}' AND info LIKE '%FOR UPDATE'"
            );
            while observer.query_first::<u64, _>(waits.as_str()).await.unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            other.query_drop("COMMIT").await.unwrap();
        });
        assert_eq!(outcome, Outcome::ok(1));
        assert_eq!(rows.values(), ["a", "b", "theirs"], "it read what the other had committed");
        assert_eq!(session.read("user1").await.1.values(), ["a", "b", "mine"]);
    });
}

/// What MariaDB's JDBC driver makes of a certificate.
#[cfg(feature = "jdbc")]
fn by_jdbc(url: &str) -> String {
    use ycsb_trace::driver::jdbc::Jdbc;
    let driver =
        Jdbc::open(&crate::support::java::with_driver(url, "mariadb-java-client.jar")).expect("understood");
    // A lane's thread: Java keeps it for itself.
    let prepare = || block_on(driver.prepare(&table(), Preparation::DropAndCreate));
    match std::thread::scope(|scope| scope.spawn(prepare).join().expect("an answer")) {
        Ok(_) => "connected".to_owned(),
        Err(error) => {
            assert!(matches!(error, TargetError::Unusable(_)), "{error}");
            error.to_string()
        }
    }
}

#[test]
fn encryption_is_what_ssl_mode_says() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    let folder = folder("ycsb-tls-");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for (name, authority) in [("ca", &ours), ("foreign-ca", &foreign)] {
        std::fs::write(path(name), authority.pem()).unwrap();
    }
    // The server shows this certificate from its next start or FLUSH SSL on.
    let shows = |(certificate, key): (String, String), name: &str| {
        std::fs::write(path(name), certificate).unwrap();
        std::fs::write(path(&format!("{name}-key")), key).unwrap();
    };
    shows(ours.signs("server", &["localhost"], 2060), "server");
    shows(ours.signs("client", &["client"], 2060), "client");
    shows(foreign.signs("client", &["client"], 2060), "foreign");
    let tls = ["ca=ca", "cert=server", "key=server-key"].map(|pair| {
        let (option, name) = pair.split_once('=').unwrap();
        format!("--ssl-{option}={}", path(name))
    });
    let server = Server::start(&tls);
    block_on(async {
        let mut own = crate::support::mariadb::connect(server.port, "mysql").await.unwrap();
        own.query_drop("CREATE DATABASE d").await.unwrap();
        for (user, require) in [("secure", "SSL"), ("known", "X509")] {
            own.query_drop(format!("CREATE USER {user}@'%' REQUIRE {require}")).await.unwrap();
            own.query_drop(format!("GRANT ALL ON *.* TO {user}@'%'")).await.unwrap();
        }
        let port = server.port;
        // By name or by number: the certificate is for the name.
        let try_it = async |user: &str, host: &str, options: &str| {
            let url = format!("mysql://{user}@{host}:{port}/d?{options}");
            let driver: MySql = open(&target("mysql", &url));
            match driver.prepare(&table(), Preparation::DropAndCreate).await {
                Ok(_) => "connected".to_owned(),
                Err(error) => {
                    assert!(matches!(error, TargetError::Unusable(_)), "{error}");
                    error.to_string()
                }
            }
        };
        let ca = path("ca");
        let identity = format!("ssl-cert={}&ssl-key={}", path("client"), path("client-key"));
        let stranger = format!("ssl-cert={}&ssl-key={}", path("foreign"), path("foreign-key"));
        let (ip, name) = ("127.0.0.1", "localhost");
        for (user, host, options, expected) in [
            ("secure", ip, "ssl-mode=DISABLED".to_owned(), "refused user secure"),
            ("secure", ip, "ssl-mode=PREFERRED".to_owned(), "connected"),
            ("secure", ip, "ssl-mode=REQUIRED".to_owned(), "connected"),
            ("secure", ip, format!("ssl-mode=VERIFY_CA&ssl-ca={ca}"), "connected"),
            ("secure", ip, format!("ssl-ca={ca}"), "connected"),
            (
                "secure",
                ip,
                "ssl-mode=VERIFY_CA".to_owned(),
                "not signed by an authority in what this machine trusts",
            ),
            (
                "secure",
                ip,
                format!("ssl-mode=VERIFY_CA&ssl-ca={}", path("foreign-ca")),
                "foreign-ca; is that the right mysql.ssl-ca?",
            ),
            ("secure", ip, format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}"), "is for another name"),
            ("secure", name, format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}"), "connected"),
            ("known", ip, format!("ssl-mode=VERIFY_CA&ssl-ca={ca}"), "refused user known"),
            ("known", ip, format!("ssl-mode=VERIFY_CA&ssl-ca={ca}&{identity}"), "connected"),
            (
                "known",
                ip,
                format!("ssl-mode=VERIFY_CA&ssl-ca={ca}&{stranger}"),
                "does not accept our certificate (mysql.ssl-cert)",
            ),
        ] {
            let said = try_it(user, host, &options).await;
            assert!(said.contains(expected), "{user} {host} {options}\n{said}\nnot {expected:?}");
        }
        // Each wrong certificate of the server has its own message, where certificates are verified.
        let (full, any) = (format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}"), format!("ssl-ca={ca}"));
        for (certificate, says, without_name) in [
            (
                ours.signs("server", &["localhost"], 2021),
                "the certificate of localhost has expired",
                "has expired",
            ),
            (
                foreign.signs("server", &["localhost"], 2060),
                "is not signed by an authority in",
                "is not signed by",
            ),
            (ours.signs("server", &["db.example.com"], 2060), "is for another name", "connected"),
            (ours.signs("server", &["localhost"], 2060), "connected", "connected"),
        ] {
            shows(certificate, "server");
            own.query_drop("FLUSH SSL").await.unwrap();
            for (options, expected) in
                [(&full, says), (&any, without_name), (&"ssl-mode=REQUIRED".to_owned(), "connected")]
            {
                let said = try_it("secure", name, options).await;
                assert!(said.contains(expected), "{options}\n{said}\nnot {expected:?}");
            }
            #[cfg(feature = "jdbc")]
            {
                let full = format!("user=secure&sslMode=verify-full&serverSslCert={ca}");
                let said = by_jdbc(&format!("jdbc:mariadb://{name}:{port}/d?{full}"));
                let expected = if says.ends_with("another name") { says } else { without_name };
                assert!(said.contains(expected), "jdbc:\n{said}\nnot {expected:?}");
            }
        }
    });
    std::fs::remove_dir_all(folder).unwrap();
}
