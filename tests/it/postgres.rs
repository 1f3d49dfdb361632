//! What is PostgreSQL's own: its errors, its connections, and what must never be said.

use std::time::Duration;

use ycsb_trace::driver::postgres::Postgres;
use ycsb_trace::driver::{Driver, Preparation, TableSpec, Target};
use ycsb_trace::op::{Outcome, Recovery, Status};

use crate::support::daemon::free_port;
use crate::support::guarded::{
    assert_careless_urls_are_not_repeated, assert_refused_in_these_words, escaped,
};
use crate::support::postgres::{GUARDED, PASSWORD, client, database, server};
use crate::support::{Place, block_on, open, refusal, table, target, with};

const ABC: [&str; 3] = ["a", "b", "c"];

async fn place(name: &str) -> Place<Postgres> {
    Place::at(target("postgres", &database(name).await))
}

/// Waits until this many backends of the observer's database are in the given condition.
async fn until(observer: &tokio_postgres::Client, count: i64, condition: &str) {
    let text =
        format!("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {condition}");
    while observer.query_one(&text, &[]).await.unwrap().get::<_, i64>(0) != count {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

const BLOCKED: &str = "wait_event_type = 'Lock'";

#[test]
fn a_serialization_failure_is_a_conflict_to_retry() {
    block_on(async {
        let name = "serialization_failure";
        let options = [("pg.options", "-c default_transaction_isolation=serializable")];
        let mut place = place(name).await;
        place.target = with(place.target, &options);
        place.driver = open(&place.target);
        let info = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert_eq!(info.settings["transaction_isolation"], "serializable");
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;

        let (other, observer) = (client(name).await, client(name).await);
        other.batch_execute("BEGIN; UPDATE usertable SET field0 = 'other'").await.unwrap();
        let (outcome, ()) = tokio::join!(session.update("user1", &[(0, "mine")]), async {
            until(&observer, 1, BLOCKED).await;
            other.batch_execute("COMMIT").await.unwrap();
        });
        let failure = outcome.failure.expect("a reason");
        assert_eq!((outcome.status, failure.recovery), (Status::Conflict, Recovery::Retry));
        assert_eq!(failure.code, "40001");
        assert_eq!(session.update("user1", &[(0, "mine")]).await, Outcome::ok(1), "and a retry succeeds");
    });
}

#[test]
fn a_statement_timeout_is_a_timeout() {
    block_on(async {
        let name = "statement_timeout";
        let mut place = place(name).await;
        place.target = with(place.target, &[("pg.options", "-c statement_timeout=50ms")]);
        place.driver = open(&place.target);
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        let other = client(name).await;
        other.batch_execute("BEGIN; UPDATE usertable SET field0 = 'other'").await.unwrap();
        let outcome = session.update("user1", &[(0, "mine")]).await;
        assert_eq!((outcome.status, &*outcome.failure.unwrap().code), (Status::Timeout, "57014"));
    });
}

#[test]
fn a_lost_connection_is_unavailable_and_ambiguous_only_for_a_write_in_flight() {
    block_on(async {
        let name = "lost_connection";
        let place = place(name).await;
        let mut writer = place.filled(&table(), &[("user1", ABC)]).await;
        let mut idle = place.session(&table()).await;
        let (other, observer) = (client(name).await, client(name).await);
        let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE application_name = 'ycsb-trace' AND datname = current_database()";

        other.batch_execute("BEGIN; UPDATE usertable SET field0 = 'other'").await.unwrap();
        let (outcome, ()) = tokio::join!(writer.update("user1", &[(0, "mine")]), async {
            until(&observer, 1, BLOCKED).await;
            observer.query(terminate, &[]).await.unwrap();
        });
        let failure = outcome.failure.expect("a reason");
        assert_eq!((outcome.status, failure.recovery), (Status::Unavailable, Recovery::Ambiguous));
        assert_eq!(failure.code, "57P01");
        other.batch_execute("ROLLBACK").await.unwrap();
        until(&observer, 0, "application_name = 'ycsb-trace'").await;

        let outcome = idle.read("user1").await.0;
        let failure = outcome.failure.expect("a reason");
        assert_eq!((outcome.status, failure.recovery), (Status::Unavailable, Recovery::Reconnect));
        // By now the connection is known to be dead: a write is not sent, so it had no effect.
        let outcome = idle.update("user1", &[(0, "mine")]).await;
        let failure = outcome.failure.expect("a reason");
        assert_eq!((outcome.status, failure.recovery), (Status::Unavailable, Recovery::Reconnect));
        assert!(failure.message.starts_with("connection closed: "), "with the reason: {}", failure.message);

        let mut again = place.session(&table()).await;
        assert_eq!(again.read("user1").await.1.values(), ABC);
    });
}

#[test]
fn what_is_not_text_is_rejected_by_the_server() {
    block_on(async {
        let place = place("not_text").await;
        let mut session = place.filled(&table(), &[]).await;
        for bytes in [&b"\xff"[..], b"a\0b"] {
            let outcome = session.insert_fields("user1", &[(0, bytes)]).await;
            assert_eq!((outcome.status, &*outcome.failure.unwrap().code), (Status::Rejected, "22021"));
        }
        assert_eq!(session.insert("user1", &ABC).await, Outcome::ok(1), "the session goes on");
    });
}

#[test]
fn a_password_in_any_characters_works_by_property_and_escaped_in_a_url() {
    block_on(async {
        let name = "odd_password";
        database(name).await;
        let port = server().port.to_string();
        let parts = [("pg.user", GUARDED), ("pg.password", PASSWORD), ("pg.port", &port), ("pg.db", name)];
        let driver: Postgres = open(&with(Target { db: "pg".to_owned(), ..Target::default() }, &parts));
        assert!(driver.prepare(&table(), Preparation::UseExisting).await.is_err(), "no table yet");
        let escaped = escaped();
        let url = format!("postgres://{GUARDED}:{escaped}@127.0.0.1:{port}/{name}");
        for driver in [driver, open(&target("pg", &url))] {
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
        let cases: [(&str, &[(&str, &str)]); 6] = [
            ("refused user guarded", &[("pg.password", &wrong)]),
            ("asks for the password", &[]),
            ("there is no such database", &[("pg.password", PASSWORD), ("pg.db", "nowhere")]),
            (
                "is the server running at this host and port?",
                &[("pg.password", PASSWORD), ("pg.port", &closed)],
            ),
            ("is unknown", &[("pg.password", PASSWORD), ("pg.host", "no-such-host.invalid")]),
            ("nobody listens", &[("pg.password", PASSWORD), ("pg.host", "/nonexistent")]),
        ];
        let base = with(
            Target { db: "postgres".to_owned(), ..Target::default() },
            &[("pg.user", GUARDED), ("pg.port", &port), ("pg.db", "postgres"), ("pg.host", "127.0.0.1")],
        );
        assert_refused_in_these_words::<Postgres>(&base, &cases).await;
        assert_careless_urls_are_not_repeated::<Postgres>("postgres", &port).await;
    });
}

#[test]
fn a_socket_is_a_host() {
    block_on(async {
        let name = "by_socket";
        database(name).await;
        let url =
            format!("host={} port={} user=trusted dbname={name}", server().folder.display(), server().port);
        let place: Place<Postgres> = Place::at(target("postgres", &url));
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        assert_eq!(session.read("user1").await.1.values(), ABC);
    });
}

#[test]
fn a_key_column_in_another_order_is_scanned_in_byte_order_and_told() {
    block_on(async {
        let place = place("other_collation").await;
        let own = client("other_collation").await;
        own.batch_execute(
            "CREATE TABLE usertable (ycsb_key VARCHAR(64) COLLATE \"en-x-icu\" PRIMARY KEY, \
             field0 VARCHAR(100), field1 VARCHAR(100), field2 VARCHAR(100))",
        )
        .await
        .unwrap();
        let info = place.driver.prepare(&table(), Preparation::UseExisting).await.unwrap();
        assert!(info.settings["scan_order"].contains("en-x-icu"), "{:?}", info.settings);
        let mut session = place.session(&table()).await;
        for key in ["a", "B", "_", "é"] {
            assert_eq!(session.insert(key, &ABC).await, Outcome::ok(1));
        }
        assert_eq!(session.scan("B", 10).await.1.keys(), ["B", "_", "a", "é"]);
        assert_eq!(session.scan("_", 2).await.1.keys(), ["_", "a"]);
        // A table of our own is in byte order, and its index serves the scan.
        let info = place.driver.prepare(&table(), Preparation::DropAndCreate).await.unwrap();
        assert_eq!(info.settings["scan_order"], "by the index of YCSB_KEY");
    });
}

#[test]
fn a_column_that_holds_no_text_is_refused_by_name() {
    block_on(async {
        let place = place("other_types").await;
        let own = client("other_types").await;
        let text =
            "CREATE TABLE usertable (ycsb_key TEXT PRIMARY KEY, field0 TEXT, field1 INTEGER, field2 TEXT)";
        own.batch_execute(text).await.unwrap();
        let message = refusal(place.driver.prepare(&table(), Preparation::UseExisting).await).to_string();
        assert!(message.contains("FIELD1") && message.contains("integer"), "{message}");
    });
}

#[test]
fn a_table_can_be_in_a_schema() {
    block_on(async {
        let place = place("in_a_schema").await;
        client("in_a_schema").await.batch_execute("CREATE SCHEMA bench").await.unwrap();
        let table = TableSpec { name: "bench.usertable".to_owned(), ..table() };
        let mut session = place.filled(&table, &[("user1", ABC)]).await;
        assert_eq!(session.read("user1").await.1.values(), ABC);
        assert!(place.driver.prepare(&table, Preparation::UseExisting).await.is_ok());
    });
}

#[test]
fn another_dialect_on_postgresql_says_so() {
    block_on(async {
        for db in ["cockroach", "yugabyte"] {
            let name = format!("note_{db}");
            let place: Place<Postgres> = Place::at(target(db, &database(&name).await));
            let info = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
            assert_eq!(
                info.settings["dialect_note"],
                format!("{db} was asked for, PostgreSQL answered: the table is laid out for it")
            );
        }
        let place = place("note_none").await;
        let info = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert!(!info.settings.contains_key("dialect_note"));
        assert_eq!(info.settings["fsync"], "off");
        assert_eq!(info.settings["transaction_isolation"], "read committed");
    });
}
