//! What every driver promises, one test a promise and database: the module of a database holds one
//! test for every clause below.

use std::sync::Barrier;

use ycsb_trace::driver::{self, Driver, Preparation, Session, TableSpec, TargetError};
use ycsb_trace::op::{Field, Op, OpKind, Outcome, Recovery, Status};

use crate::support::{Calls, Collected, Place, block_on, refusal, table};

/// Declares, for every database, a module with one test for every clause.
macro_rules! contract {
    (databases: $databases:tt clauses: [$($clause:ident),* $(,)?]) => {
        contract!(@databases $databases [$($clause)*]);
    };
    (@databases { $($(#[$cfg:meta])* $database:ident: $driver:ty = $place:expr;)* } $clauses:tt) => {
        $(contract!(@database [$(#[$cfg])*] $database ($driver) ($place) $clauses);)*
    };
    (@database [$($cfg:tt)*] $database:ident ($driver:ty) ($place:expr) [$($clause:ident)*]) => {
        $($cfg)*
        mod $database {
            $(#[test]
            fn $clause() {
                crate::support::block_on(async {
                    let place: fn(&'static str) -> _ = $place;
                    super::$clause::<$driver>(place(stringify!($clause)).await).await;
                });
            })*
        }
    };
}

contract! {
    databases: {
        memory: crate::memory::Memory =
            |_| async { crate::support::Place::at(crate::support::target("memory", "")) };
        #[cfg(feature = "sqlite")]
        sqlite: ycsb_trace::driver::sqlite::Sqlite =
            |_| async { crate::support::Place::in_folder("sqlite", "test.db") };
        #[cfg(feature = "fjall")]
        fjall: ycsb_trace::driver::fjall::Fjall =
            |_| async { crate::support::Place::in_folder("fjall", "test.fjall") };
        #[cfg(feature = "postgres")]
        postgres: ycsb_trace::driver::postgres::Postgres =
            |clause| super::on_postgres("postgres", clause);
        #[cfg(feature = "postgres")]
        cockroach: ycsb_trace::driver::postgres::Postgres =
            |clause| super::on_postgres("cockroach", clause);
        #[cfg(feature = "postgres")]
        yugabyte: ycsb_trace::driver::postgres::Postgres =
            |clause| super::on_postgres("yugabyte", clause);
        #[cfg(feature = "jdbc")]
        jdbc_h2: ycsb_trace::driver::jdbc::Jdbc = |clause| async move {
            let url = format!("jdbc:h2:mem:{clause};DB_CLOSE_DELAY=-1");
            crate::support::Place::at(crate::support::java::with_driver(&url, "h2.jar"))
        };
        #[cfg(feature = "jdbc")]
        herddb: ycsb_trace::driver::jdbc::Jdbc =
            |clause| async move { crate::support::Place::at(crate::support::java::on_herd(clause)) };
        #[cfg(feature = "riak")]
        riak_strong: ycsb_trace::driver::riak::Riak = |_| async {
            let port = crate::support::riak::Node::start().port;
            crate::support::Place::at(crate::riak::on(port, &crate::riak::STRONG))
        };
        #[cfg(feature = "riak")]
        riak_eventual: ycsb_trace::driver::riak::Riak = |_| async {
            let port = crate::support::riak::Node::start().port;
            crate::support::Place::at(crate::riak::on(port, &crate::riak::EVENTUAL))
        };
        #[cfg(all(feature = "jdbc", feature = "mysql"))]
        jdbc_mariadb: ycsb_trace::driver::jdbc::Jdbc = |clause| async move {
            use crate::support::mariadb::{TRUSTED, database};
            let url = database(&super::legible("jdbc", clause)).await;
            let url = format!("jdbc:mariadb://{}", url.split_once('@').unwrap().1);
            let mut target = crate::support::java::with_driver(&url, "mariadb-java-client.jar");
            target.properties.insert("db.user".to_owned(), TRUSTED.to_owned());
            crate::support::Place::at(target)
        };
        #[cfg(all(feature = "jdbc", feature = "postgres"))]
        jdbc_postgres: ycsb_trace::driver::jdbc::Jdbc = |clause| async move {
            let url = crate::support::postgres::database(&super::legible("jdbc", clause)).await;
            let url = format!("jdbc:postgresql://{}", url.split_once('@').unwrap().1);
            let mut target = crate::support::java::with_driver(&url, "postgresql.jar");
            target.properties.insert("db.user".to_owned(), crate::support::postgres::TRUSTED.to_owned());
            crate::support::Place::at(target)
        };
        #[cfg(all(feature = "mysql", feature = "jdbc", target_os = "linux", target_arch = "x86_64"))]
        mysql: ycsb_trace::driver::mysql::MySql = |clause| async move {
            let name = super::legible("mysql", clause);
            let url = crate::support::mysqld::database(&name).await;
            if clause == "keys_that_differ_in_case_are_different_rows" {
                // This one is older (8.0.15) than the collation that tells blanks at the end apart.
                crate::support::mysqld::make_binary_table(&name).await;
            }
            crate::support::Place::at(crate::support::target("mysql", &url))
        };
        #[cfg(feature = "mysql")]
        mariadb: ycsb_trace::driver::mysql::MySql =
            |clause| super::on_mariadb("mariadb", clause);
        #[cfg(feature = "mysql")]
        tidb: ycsb_trace::driver::mysql::MySql =
            |clause| super::on_mariadb("tidb", clause);
        #[cfg(feature = "redis")]
        redis: ycsb_trace::driver::redis::Redis = |clause| async move {
            crate::support::Place::at(crate::support::target("redis", &crate::support::redis::url(clause)))
        };
        #[cfg(feature = "redis")]
        redis_cluster: ycsb_trace::driver::redis::Redis = |_| async {
            let (cluster, turn) = crate::support::redis::cluster();
            let mut target = crate::support::target("redis", &cluster.url());
            target.properties.insert("redis.cluster".to_owned(), "true".to_owned());
            crate::support::Place::at(target).holding(turn)
        };
    }
    clauses: [
        values_read_back_are_the_values_written,
        a_row_without_some_fields_has_nulls_there,
        a_read_of_one_field_answers_only_that_field,
        an_update_of_one_field_leaves_the_others,
        an_update_to_the_same_value_is_ok,
        a_missing_row_is_not_found,
        a_duplicate_insert_is_duplicate_and_changes_nothing,
        a_deleted_row_is_gone_and_can_be_inserted_again,
        a_read_modify_write_answers_the_row_before_and_writes_its_field,
        a_read_modify_write_says_when_its_read_has_found_the_row,
        a_transactional_read_modify_write_loses_no_update_of_another,
        a_batch_of_rows_is_written_whole_or_not_at_all,
        a_scan_is_in_byte_order_from_its_start_key_on,
        a_scan_past_the_end_is_ok_and_empty,
        a_scan_of_one_field_answers_only_that_field,
        keys_that_differ_in_case_are_different_rows,
        a_long_key_is_a_key,
        a_field_that_the_table_lacks_is_rejected,
        a_table_with_rows_is_refused_and_untouched,
        an_empty_table_is_used_as_it_is,
        dropping_removes_the_rows,
        a_missing_table_is_unusable,
        a_missing_column_is_unusable_by_name,
        a_name_that_could_be_a_statement_is_refused,
        of_two_inserts_of_a_key_at_once_one_is_duplicate,
        updates_of_different_fields_at_once_keep_both,
        who_answered_is_told,
    ]
}

/// A database of the test's own on the test's PostgreSQL.
#[cfg(feature = "postgres")]
async fn on_postgres(db: &str, clause: &str) -> Place<ycsb_trace::driver::postgres::Postgres> {
    let name = legible(db, clause);
    Place::at(crate::support::target(db, &crate::support::postgres::database(&name).await))
}

/// The name of a test's database: short, distinct and legible in the server's log.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn legible(db: &str, clause: &str) -> String {
    format!("{db}_{clause}").chars().take(60).collect()
}

/// A database of the test's own on the test's MariaDB.
#[cfg(feature = "mysql")]
async fn on_mariadb(db: &str, clause: &str) -> Place<ycsb_trace::driver::mysql::MySql> {
    let url = crate::support::mariadb::database(&legible(db, clause)).await;
    Place::at(crate::support::target(db, &url))
}

const ABC: [&str; 3] = ["a", "b", "c"];

async fn values_read_back_are_the_values_written<D: Driver>(place: Place<D>) {
    let printable: String = (0x20..0x60u8).map(char::from).collect();
    let long = "x".repeat(100_000);
    let rows: [(&str, [&str; 3]); 4] = [
        ("user1", [&printable, "'; DROP TABLE usertable; --", "\\x41\\\"`$1?%s"]),
        ("user2", ["", " ", "\t\r\n"]),
        ("ключ'\"\\3", ["é", "日本", "🦀"]),
        ("user4", [&long, "NULL", "\u{1}\u{7f}"]),
    ];
    let mut session = place.filled(&table(), &rows).await;
    for (key, values) in rows {
        let (outcome, row) = session.read(key).await;
        assert_eq!(outcome, Outcome::ok(1));
        assert_eq!(row.keys(), [key]);
        assert_eq!(row.values(), values);
    }
}

async fn a_row_without_some_fields_has_nulls_there<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[]).await;
    assert_eq!(session.insert_fields("user1", &[(2, b"c"), (0, b"a")]).await, Outcome::ok(1));
    let (_, rows) = session.read("user1").await;
    assert_eq!(rows.0[0].1, [(0, Some(b"a".to_vec())), (1, None), (2, Some(b"c".to_vec()))]);
}

async fn a_read_of_one_field_answers_only_that_field<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    let (outcome, rows) = session.read_fields("user1", &[1]).await;
    assert_eq!(outcome, Outcome::ok(1));
    assert_eq!(rows.0[0].1, [(1, Some(b"b".to_vec()))]);
    let (_, rows) = session.read_fields("user1", &[2, 0]).await;
    assert_eq!(rows.0[0].1, [(2, Some(b"c".to_vec())), (0, Some(b"a".to_vec()))]);
}

async fn an_update_of_one_field_leaves_the_others<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC), ("user2", ABC)]).await;
    assert_eq!(session.update("user1", &[(1, "longer than before")]).await, Outcome::ok(1));
    assert_eq!(session.read("user1").await.1.values(), ["a", "longer than before", "c"]);
    assert_eq!(session.update("user1", &[(2, ""), (0, "A")]).await, Outcome::ok(1));
    assert_eq!(session.read("user1").await.1.values(), ["A", "longer than before", ""]);
    assert_eq!(session.read("user2").await.1.values(), ABC);
}

async fn an_update_to_the_same_value_is_ok<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    assert_eq!(session.update("user1", &[(1, "b")]).await, Outcome::ok(1));
}

async fn a_missing_row_is_not_found<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    let not_found = Outcome::bare(Status::NotFound);
    let (outcome, rows) = session.read("user2").await;
    assert_eq!((outcome, rows.0.len()), (not_found.clone(), 0));
    assert_eq!(session.update("user2", &[(1, "x")]).await, not_found);
    assert_eq!(session.delete("user2").await, not_found);
    assert_eq!(session.read_modify_write("user2", 2, "x").await.0, not_found);
    assert_eq!(session.read("user2").await.0, not_found, "nothing has made it");
}

async fn a_duplicate_insert_is_duplicate_and_changes_nothing<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    let outcome = session.insert("user1", &["x", "y", "z"]).await;
    assert_eq!((outcome.status, outcome.rows), (Status::Duplicate, 0));
    assert_eq!(session.read("user1").await.1.values(), ABC);
}

async fn a_deleted_row_is_gone_and_can_be_inserted_again<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC), ("user2", ABC)]).await;
    assert_eq!(session.delete("user1").await, Outcome::ok(1));
    assert_eq!(session.read("user1").await.0.status, Status::NotFound);
    assert_eq!(session.scan("user", 10).await.1.keys(), ["user2"]);
    assert_eq!(session.insert("user1", &["x", "y", "z"]).await, Outcome::ok(1));
    assert_eq!(session.read("user1").await.1.values(), ["x", "y", "z"]);
}

async fn a_read_modify_write_answers_the_row_before_and_writes_its_field<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    let (outcome, before) = session.read_modify_write("user1", 2, "new").await;
    assert_eq!(outcome, Outcome::ok(1));
    assert_eq!(before.values(), ABC);
    assert_eq!(session.read("user1").await.1.values(), ["a", "b", "new"]);
}

async fn a_transactional_read_modify_write_loses_no_update_of_another<D: Driver>(place: Place<D>) {
    const ROUNDS: u32 = 20;
    drop(place.filled(&table(), &[("user1", ABC)]).await);
    let saw = at_once(&place.driver, &table(), async |number, session| {
        let mut saw = Vec::new();
        for round in 0..ROUNDS {
            let value = format!("{number}.{round}");
            loop {
                let (outcome, before) = session.read_modify_write_transaction("user1", 2, &value).await;
                match outcome.status {
                    Status::Ok => saw.push(before.values()[2].to_owned()),
                    // It was undone, and may be repeated whole.
                    Status::Conflict => continue,
                    status => assert_eq!(status, Status::Unsupported, "{outcome:?}"),
                }
                break;
            }
        }
        saw
    });
    let mut seen = saw.concat();
    let mut session = place.session(&table()).await;
    let last = session.read("user1").await.1.values()[2].to_owned();
    if seen.is_empty() {
        assert_eq!(last, "c", "an unsupported operation changes nothing");
        return;
    }
    // Each version was replaced by one transaction that had seen it.
    seen.push(last);
    seen.sort();
    let mut versions: Vec<String> =
        (0..2).flat_map(|number| (0..ROUNDS).map(move |round| format!("{number}.{round}"))).collect();
    versions.push("c".to_owned());
    versions.sort();
    assert_eq!(seen, versions);
}

async fn a_scan_is_in_byte_order_from_its_start_key_on<D: Driver>(place: Place<D>) {
    // Sorted by bytes; most languages sort them otherwise.
    let keys =
        ["USER2", "User1", "_user", "user", "user-1", "user1", "user10", "user2", "user_1", "usér", "é"];
    let mut shuffled: Vec<_> = keys.map(|key| (key, [key, "b", "c"])).into();
    shuffled.reverse();
    shuffled.swap(1, 5);
    let mut session = place.filled(&table(), &shuffled).await;
    let (outcome, rows) = session.scan("A", 100).await;
    assert_eq!(outcome, Outcome::ok(11));
    assert_eq!(rows.keys(), keys);
    for (key, fields) in &rows.0 {
        assert_eq!(fields[0], (0, Some(key.clone().into_bytes())), "values belong to their key");
        assert_eq!(fields.len(), 3);
    }
    assert_eq!(session.scan("user", 4).await.1.keys(), ["user", "user-1", "user1", "user10"], "inclusive");
    assert_eq!(session.scan("user11", 2).await.1.keys(), ["user2", "user_1"], "between two keys");
    assert_eq!(session.scan("user_1", 1).await.1.keys(), ["user_1"]);
    assert_eq!(session.scan("us\u{e9}r", 50).await.0, Outcome::ok(2), "fewer rows than asked for");
}

async fn a_scan_past_the_end_is_ok_and_empty<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    let (outcome, rows) = session.scan("user2", 10).await;
    assert_eq!((outcome, rows.0.len()), (Outcome::ok(0), 0));
}

async fn a_scan_of_one_field_answers_only_that_field<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC), ("user2", ["x", "y", "z"])]).await;
    let (outcome, rows) = session.scan_fields("user", 10, &[1]).await;
    assert_eq!(outcome, Outcome::ok(2));
    assert_eq!(rows.keys(), ["user1", "user2"]);
    assert_eq!(rows.0[1].1, [(1, Some(b"y".to_vec()))]);
}

async fn keys_that_differ_in_case_are_different_rows<D: Driver>(place: Place<D>) {
    let rows = [("user1", ABC), ("USER1", ["x", "y", "z"]), ("user1 ", ["1", "2", "3"])];
    let mut session = place.filled(&table(), &rows).await;
    for (key, values) in rows {
        assert_eq!(session.read(key).await.1.values(), values);
    }
    assert_eq!(session.delete("USER1").await, Outcome::ok(1));
    assert_eq!(session.read("user1").await.1.values(), ABC);
}

async fn a_long_key_is_a_key<D: Driver>(place: Place<D>) {
    let long = format!("user{}", "0".repeat(400));
    let mut session = place.filled(&table(), &[(&long, ABC)]).await;
    assert_eq!(session.read(&long).await.1.values(), ABC);
}

async fn a_field_that_the_table_lacks_is_rejected<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    assert_eq!(session.read_fields("user1", &[3]).await.0.status, Status::Rejected);
    assert_eq!(session.update("user1", &[(3, "x")]).await.status, Status::Rejected);
    assert_eq!(session.update("user1", &[]).await.status, Status::Rejected);
    assert_eq!(session.insert_fields("user2", &[(3, b"x")]).await.status, Status::Rejected);
    assert_eq!(session.read("user2").await.0.status, Status::NotFound);
    assert_eq!(session.read("user1").await.1.values(), ABC, "the session goes on");
}

async fn a_read_modify_write_says_when_its_read_has_found_the_row<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    let fields = [Field { number: 2, value: b"new" }];
    for (key, status, times) in [("user1", Status::Ok, 1), ("user2", Status::NotFound, 0)] {
        let (mut rows, mut found) = (Collected::default(), 0);
        let op = Op { id: 0, kind: OpKind::ReadModifyWrite, key, fields: &fields, scan_len: 0 };
        let outcome = driver::execute(&mut session.0, &op, &mut rows, || found += 1).await;
        assert_eq!((outcome.status, found), (status, times), "{key}");
    }
}

async fn a_batch_of_rows_is_written_whole_or_not_at_all<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user5", ABC)]).await;
    let rows = [("user1", ABC), ("user2", ["ä", "", "'"]), ("user3", ["x", "y", "z"]), ("user4", ABC)];
    if <D::Session as Session>::BATCH_VALUES == 0 || place.target.db == "herddb" {
        assert_eq!(session.insert_batch(&rows).await, Outcome::UNSUPPORTED);
        return;
    }
    assert_eq!(session.insert_batch(&rows[..3]).await, Outcome::ok(3));
    assert_eq!(session.read("user2").await.1.values(), ["ä", "", "'"]);
    // One of them is there: none is written, and the session goes on.
    let refused = session.insert_batch(&[rows[3], ("user5", ["x", "y", "z"]), ("user6", ABC)]).await;
    assert_eq!(refused.status, Status::Duplicate, "{refused:?}");
    assert_eq!(refused.failure.expect("a reason").recovery, Recovery::Fatal);
    assert_eq!(session.scan("", 10).await.1.keys(), ["user1", "user2", "user3", "user5"]);
    assert_eq!(session.read("user5").await.1.values(), ABC);
    assert_eq!(session.insert_batch(&rows[3..]).await, Outcome::ok(1), "a shorter one");
    // Nothing of it is in a transaction that is still open.
    let mut other = place.session(&table()).await;
    assert_eq!(other.scan("", 10).await.1.keys(), ["user1", "user2", "user3", "user4", "user5"]);
    assert_eq!(other.update("user1", &[(0, "z")]).await, Outcome::ok(1));
}

async fn a_table_with_rows_is_refused_and_untouched<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    let error = refusal(place.driver.prepare(&table(), Preparation::CreateIfEmpty).await);
    let message = error.to_string();
    assert!(matches!(error, TargetError::NotEmpty { .. }), "{message}");
    assert!(message.contains("usertable") && message.contains("--drop"), "{message}");
    assert_eq!(session.read("user1").await.1.values(), ABC);
    assert!(place.driver.prepare(&table(), Preparation::UseExisting).await.is_ok());
    assert_eq!(session.read("user1").await.1.values(), ABC);
}

async fn an_empty_table_is_used_as_it_is<D: Driver>(place: Place<D>) {
    let mut session = place.filled(&table(), &[("user1", ABC)]).await;
    session.delete("user1").await;
    drop(session);
    let mut session = place.filled(&table(), &[("user2", ABC)]).await;
    assert_eq!(session.scan("", 10).await.1.keys(), ["user2"]);
}

async fn dropping_removes_the_rows<D: Driver>(place: Place<D>) {
    drop(place.filled(&table(), &[("user1", ABC)]).await);
    let narrower = TableSpec { fields: vec!["OTHER".to_owned()], shapes: vec![], ..table() };
    place.driver.prepare(&narrower, Preparation::DropAndCreate).await.expect("dropped and created");
    let mut session = place.session(&narrower).await;
    assert_eq!(session.scan("", 10).await.0, Outcome::ok(0));
    assert_eq!(session.insert_fields("user1", &[(0, b"x")]).await, Outcome::ok(1));
    assert_eq!(session.read("user1").await.1.values(), ["x"], "the new layout holds");
    // Dropping what is not there is no error.
    let other = TableSpec { name: "other_table".to_owned(), ..table() };
    assert!(place.driver.prepare(&other, Preparation::DropAndCreate).await.is_ok());
}

async fn a_missing_table_is_unusable<D: Driver>(place: Place<D>) {
    let error = refusal(place.driver.prepare(&table(), Preparation::UseExisting).await);
    let message = error.to_string();
    assert!(matches!(error, TargetError::Unusable(_)), "{message}");
    assert!(message.contains("--phase load"), "{message}");
    // The same where the database exists, but not the table.
    drop(place.filled(&table(), &[]).await);
    let other = TableSpec { name: "other_table".to_owned(), ..table() };
    let message = refusal(place.driver.prepare(&other, Preparation::UseExisting).await).to_string();
    assert!(message.contains("other_table") && message.contains("--phase load"), "{message}");
}

async fn a_missing_column_is_unusable_by_name<D: Driver>(place: Place<D>) {
    drop(place.filled(&table(), &[("user1", ABC)]).await);
    let mut wider = table();
    wider.fields.push("FIELD3".to_owned());
    let error = refusal(place.driver.prepare(&wider, Preparation::UseExisting).await);
    let message = error.to_string();
    assert!(matches!(error, TargetError::Unusable(_)), "{message}");
    assert!(message.contains("usertable") && message.contains("FIELD3"), "{message}");
}

async fn a_name_that_could_be_a_statement_is_refused<D: Driver>(place: Place<D>) {
    for name in ["", "a b", "t; DROP TABLE u", "\"t\"", "t.u.v", "../t"] {
        let table = TableSpec { name: name.to_owned(), ..table() };
        let error = refusal(place.driver.prepare(&table, Preparation::DropAndCreate).await);
        assert!(matches!(error, TargetError::Request(_)), "{error}");
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
    let table = TableSpec { fields: vec!["F TEXT); --".to_owned()], ..table() };
    let error = refusal(place.driver.prepare(&table, Preparation::DropAndCreate).await);
    assert!(matches!(error, TargetError::Request(_)), "{error}");
}

/// Runs `job` on two sessions at once, each on a thread of its own as lanes are.
fn at_once<D: Driver, T: Send>(
    driver: &D,
    table: &TableSpec,
    job: impl AsyncFn(u32, &mut Calls<D::Session>) -> T + Sync,
) -> [T; 2] {
    let barrier = Barrier::new(2);
    let lane = |number: u32| {
        block_on(async {
            let mut session = Calls(driver.connect(table, number).await.expect("a session opens"));
            barrier.wait();
            job(number, &mut session).await
        })
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| lane(1));
        let mine = scope.spawn(|| lane(0));
        [mine.join().expect("lane 0"), other.join().expect("lane 1")]
    })
}

async fn of_two_inserts_of_a_key_at_once_one_is_duplicate<D: Driver>(place: Place<D>) {
    drop(place.filled(&table(), &[]).await);
    let keys: Vec<_> = (0..50).map(|number| format!("user{number}")).collect();
    let [mine, other] = at_once(&place.driver, &table(), async |number, session| {
        let mut statuses = Vec::new();
        for key in &keys {
            let outcome = session.insert(key, &[&number.to_string(), "b", "c"]).await;
            assert!(outcome.status != Status::Conflict, "the default settings wait: {outcome:?}");
            statuses.push(outcome.status);
        }
        statuses
    });
    let mut session = place.session(&table()).await;
    for ((key, mine), other) in keys.iter().zip(mine).zip(other) {
        let winner = match (mine, other) {
            (Status::Ok, Status::Duplicate) => "0",
            (Status::Duplicate, Status::Ok) => "1",
            both => panic!("{key}: {both:?}"),
        };
        assert_eq!(session.read(key).await.1.values(), [winner, "b", "c"]);
    }
}

async fn updates_of_different_fields_at_once_keep_both<D: Driver>(place: Place<D>) {
    drop(place.filled(&table(), &[("user1", ABC)]).await);
    at_once(&place.driver, &table(), async |number, session| {
        for round in 1..=50 {
            let outcome = session.update("user1", &[(number, &round.to_string())]).await;
            assert_eq!(outcome, Outcome::ok(1));
            let (_, rows) = session.read_fields("user1", &[number]).await;
            assert_eq!(rows.values(), [round.to_string()], "nobody else writes this field");
        }
    });
    let mut session = place.session(&table()).await;
    assert_eq!(session.read("user1").await.1.values(), ["50", "50", "c"]);
}

async fn who_answered_is_told<D: Driver>(place: Place<D>) {
    let info =
        place.driver.prepare(&table(), Preparation::CreateIfEmpty).await.expect("the table is created");
    assert!(!info.address.is_empty() && !info.version.is_empty());
    assert!(!info.settings.is_empty());
    assert!(info.settings.values().all(|value| !value.is_empty()), "{:?}", info.settings);
}
