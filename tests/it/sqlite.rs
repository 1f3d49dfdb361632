//! What is SQLite's own.

use std::fs;

use rusqlite::Connection;
use ycsb_trace::driver::sqlite::Sqlite;
use ycsb_trace::driver::{Driver, Preparation, TargetError};
use ycsb_trace::op::{Outcome, Recovery, Status};

use crate::support::{Place, block_on, open, refusal, table, target};

#[test]
fn a_table_that_go_ycsb_loaded_is_read() {
    block_on(async {
        let place: Place<Sqlite> = Place::in_folder("sqlite", "go.db");
        let path = place.target.url.clone().unwrap();
        let go = Connection::open(&path).unwrap();
        // Its layout, its lower-case fields, its values as blobs.
        go.execute_batch(
            "CREATE TABLE usertable (YCSB_KEY VARCHAR(64) PRIMARY KEY, FIELD0 VARCHAR(100), FIELD1 VARCHAR(100), \
             FIELD2 VARCHAR(100)); INSERT INTO usertable (YCSB_KEY, field0, field1, field2) \
             VALUES ('user1', X'61', 'b', 7)",
        )
        .unwrap();
        place.driver.prepare(&table(), Preparation::UseExisting).await.unwrap();
        let mut session = place.session(&table()).await;
        assert_eq!(session.read("user1").await.1.values(), ["a", "b", "7"]);
    });
}

#[test]
fn bytes_that_are_not_text_are_kept() {
    block_on(async {
        let place: Place<Sqlite> = Place::in_folder("sqlite", "test.db");
        let mut session = place.filled(&table(), &[]).await;
        assert_eq!(session.insert_fields("user1", &[(0, b"\xff\x00\xfe")]).await, Outcome::ok(1));
        let (_, rows) = session.read_fields("user1", &[0]).await;
        assert_eq!(rows.0[0].1, [(0, Some(b"\xff\x00\xfe".to_vec()))]);
    });
}

#[test]
fn without_waiting_a_locked_file_is_a_conflict_to_retry() {
    block_on(async {
        let mut place: Place<Sqlite> = Place::in_folder("sqlite", "test.db");
        place.target.properties.insert("sqlite.busy_timeout".to_owned(), "0".to_owned());
        place.driver = open(&place.target);
        let mut session = place.filled(&table(), &[("user1", ["a", "b", "c"])]).await;
        let other = Connection::open(place.target.url.as_ref().unwrap()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let outcome = session.update("user1", &[(1, "x")]).await;
        let failure = outcome.failure.expect("a reason");
        assert_eq!((outcome.status, failure.recovery), (Status::Conflict, Recovery::Retry));
        assert_eq!(failure.code, "SQLITE_BUSY");
        assert_eq!(session.read("user1").await.0, Outcome::ok(1), "readers do not wait");
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(session.update("user1", &[(1, "x")]).await, Outcome::ok(1));
    });
}

#[test]
fn settings_hold_and_are_told() {
    block_on(async {
        let mut place: Place<Sqlite> = Place::in_folder("sqlite", "test.db");
        let info = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert_eq!(info.settings["journal_mode"], "WAL");
        assert_eq!(info.settings["synchronous"], "NORMAL");
        for (name, value) in [("sqlite.journalmode", "delete"), ("sqlite.synchronous", "FULL")] {
            place.target.properties.insert(name.to_owned(), value.to_owned());
        }
        place.driver = open(&place.target);
        let info = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.unwrap();
        assert_eq!(info.settings["journal_mode"], "DELETE");
        assert_eq!(info.settings["synchronous"], "FULL");
        assert_eq!(info.settings["isolation"], "serializable");
    });
}

#[test]
fn a_file_that_cannot_be_used_is_refused_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| target("sqlite", folder.path().join(path).to_str().unwrap());
    let message = |path: &str| {
        let driver: Sqlite = open(&at(path));
        let error = refusal(block_on(driver.prepare(&table(), Preparation::CreateIfEmpty)));
        assert!(matches!(error, TargetError::Unusable(_)), "{error}");
        error.to_string()
    };
    assert!(message("missing/test.db").contains("there is no folder"));
    assert!(message("").contains("it is a folder"));
    fs::write(folder.path().join("words"), "not a database, but long enough to look at. ".repeat(100))
        .unwrap();
    assert!(message("words").contains("is not an SQLite database"));
}

#[test]
fn an_option_that_is_not_known_is_refused_by_name() {
    for (name, value) in [
        ("sqlite.journalmode", "WALL"),
        ("sqlite.synchronous", "1"),
        ("sqlite.busy_timeout", "1s"),
        ("sqlite.mode", "memory"),
        ("sqlite.cache", "big"),
    ] {
        let mut target = target("sqlite", "/tmp/never-opened.db");
        target.properties.insert(name.to_owned(), value.to_owned());
        let error = refusal(Sqlite::open(&target));
        assert!(matches!(error, TargetError::Request(_)) && error.to_string().contains(name), "{error}");
    }
    let error = refusal(Sqlite::open(&target("sqlite", ":memory:")));
    assert!(error.to_string().contains(":memory:"), "{error}");
}

#[test]
fn urls_of_each_form_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    for form in ["", "sqlite:", "sqlite://", "file:"] {
        let place: Place<Sqlite> = Place::at(target("sqlite", &format!("{form}{}", path.display())));
        block_on(place.driver.prepare(&table(), Preparation::CreateIfEmpty)).unwrap();
        assert!(path.is_file(), "{form}");
        fs::remove_file(&path).unwrap();
    }
}
