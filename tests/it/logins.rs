//! How MySQL's users prove who they are: Oracle's MySQL asks in other ways than MariaDB, and both are here.

use mysql_async::prelude::Queryable;
use ycsb_trace::driver::mysql::MySql;
use ycsb_trace::driver::{Driver, Preparation, Target};
use ycsb_trace::op::{Outcome, Recovery, Status};

use crate::support::mariadb;
use crate::support::mysqld::{self, TRUSTED, database, server};
use crate::support::{Place, block_on, open, refusal, table, target, with};

/// What happens to a user with this password: the table is missing if he is let in.
async fn login(user: &str, properties: &[(&str, &str)]) -> String {
    let parts = [("mysql.user", user), ("mysql.host", "127.0.0.1"), ("mysql.db", "mysql")];
    let base = with(Target { db: "mysql".to_owned(), ..Target::default() }, &parts);
    let driver: MySql = open(&with(base, properties));
    let said = refusal(driver.prepare(&table(), Preparation::UseExisting).await).to_string();
    if said.contains("there is no table usertable") { "let in".to_owned() } else { said }
}

#[test]
fn a_password_that_mysql_does_not_remember_is_told_so_that_nobody_else_hears_it() {
    block_on(async {
        let mut own = mysqld::client("mysql").await;
        let secret = "s3cret '\"\\é";
        own.exec_drop("CREATE USER sha@'%' IDENTIFIED WITH caching_sha2_password BY 's3cret \\'\"\\\\é'", ())
            .await
            .unwrap();
        own.query_drop("GRANT ALL ON *.* TO sha@'%'").await.unwrap();
        let port = server().port.to_string();
        let socket = server().daemon.folder.join("socket").to_str().unwrap().to_owned();
        // Not encrypted: this MySQL (8.0.15) has none of the ciphers that are still in use.
        for way in [vec![("mysql.port", port.as_str())], vec![("mysql.host", socket.as_str())]] {
            // The server forgets what it remembers of passwords.
            own.query_drop("FLUSH PRIVILEGES").await.unwrap();
            let by = |password: &'static str| [way.clone(), vec![("mysql.password", password)]].concat();
            for (said, expected) in [
                (login("sha", &by("wrong")).await, "refused user sha"),
                (login("sha", &way).await, "give -p mysql.password"),
            ] {
                assert!(said.contains(expected), "{way:?}: {said}");
            }
            let right = [way.clone(), vec![("mysql.password", secret)]].concat();
            // The second time the server remembers.
            for time in 1..=2 {
                assert_eq!(login("sha", &right).await, "let in", "{way:?}, time {time}");
            }
            assert!(login("sha", &by("wrong")).await.contains("refused user sha"), "{way:?}");
        }
    });
}

#[test]
fn the_server_says_by_which_way_a_user_is_let_in() {
    block_on(async {
        let mut own = mysqld::client("mysql").await;
        own.query_drop("CREATE USER native@'%' IDENTIFIED WITH mysql_native_password BY 's3cret'")
            .await
            .unwrap();
        own.query_drop("CREATE USER old@'%' IDENTIFIED WITH sha256_password BY 's3cret'").await.unwrap();
        own.query_drop("GRANT ALL ON *.* TO native@'%'").await.unwrap();
        let port = server().port.to_string();
        let by = |password| [("mysql.port", port.as_str()), ("mysql.password", password)];
        assert_eq!(login("native", &by("s3cret")).await, "let in");
        assert!(login("native", &by("wrong")).await.contains("refused user native"));
        assert_eq!(login(TRUSTED, &[("mysql.port", &port)]).await, "let in");
        let said = login("old", &by("s3cret")).await;
        assert!(said.contains("by sha256_password, which is not known here"), "{said}");

        let mut own = mariadb::client("mysql").await;
        own.query_drop("INSTALL SONAME 'auth_ed25519'").await.unwrap();
        own.query_drop("CREATE USER curve@'%' IDENTIFIED VIA ed25519 USING PASSWORD('s3cret')")
            .await
            .unwrap();
        own.query_drop("GRANT ALL ON *.* TO curve@'%'").await.unwrap();
        let port = mariadb::server().port.to_string();
        let by = |password| [("mysql.port", port.as_str()), ("mysql.password", password)];
        // Its nonces are of random bytes, zeros too.
        for time in 1..=20 {
            assert_eq!(login("curve", &by("s3cret")).await, "let in", "time {time}");
        }
        assert!(login("curve", &by("wrong")).await.contains("refused user curve"));
    });
}

#[test]
fn a_value_longer_than_a_packet_is_written_and_read_and_one_too_long_is_rejected() {
    block_on(async {
        let mut own = mysqld::client("mysql").await;
        own.query_drop("SET GLOBAL max_allowed_packet = 40 << 20").await.unwrap();
        let mut own = mariadb::client("mysql").await;
        own.query_drop("SET GLOBAL max_allowed_packet = 40 << 20").await.unwrap();
        for url in [database("long_values").await, mariadb::database("long_values").await] {
            let place: Place<MySql> = Place::at(target("mysql", &url));
            let mut session = place.filled(&table(), &[]).await;
            let long = "v".repeat((1 << 24) + 5);
            assert_eq!(session.insert("user1", &["a", &long, "c"]).await, Outcome::ok(1), "{url}");
            let read = session.read("user1").await.1;
            assert!(read.values() == ["a", &long, "c"], "{url}");
            let outcome = session.update("user1", &[(0, &"v".repeat(41 << 20))]).await;
            assert_eq!(outcome.status, Status::Rejected);
            let failure = outcome.failure.expect("a reason");
            assert_eq!(
                (failure.code.as_str(), failure.recovery),
                ("1153", Recovery::Fatal),
                "the session goes on"
            );
            assert_eq!(session.update("user1", &[(0, "x")]).await, Outcome::ok(1));
        }
    });
}
