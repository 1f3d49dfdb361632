//! What is Redis's own: its errors, clusters, passwords, encryption, and YCSB's layout.

use std::time::Duration;

use redis::Value;
use ycsb_trace::driver::redis::Redis;
use ycsb_trace::driver::{Driver, Preparation, Target, TargetError};
use ycsb_trace::op::{Outcome, Recovery, Status};

use crate::support::daemon::{folder, free_port};
use crate::support::program::{Folder, sleep_until};
use crate::support::redis::{Cluster, Server, ask, url};
use crate::support::{Calls, Place, block_on, open, refusal, table, target, with};

const ABC: [&str; 3] = ["a", "b", "c"];
const PASSWORD: &str = "p@ss:w/o?r#d%41'\"\\é";

fn place(url: &str, properties: &[(&str, &str)]) -> Place<Redis> {
    Place::at(with(target("redis", url), properties))
}

fn failure(outcome: Outcome) -> (Status, Recovery, String) {
    let failure = outcome.failure.expect("a reason");
    (outcome.status, failure.recovery, failure.code)
}

fn words(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}

#[test]
fn rows_and_index_are_where_the_documentation_says() {
    block_on(async {
        let url = url("layout");
        let mut session = place(&url, &[]).filled(&table(), &[("user1", ABC)]).await;
        assert_eq!(session.insert("user2", &ABC).await, Outcome::ok(1));
        assert_eq!(words(&ask(&url, "HGETALL usertable:user1")), "FIELD0 a FIELD1 b FIELD2 c");
        assert_eq!(words(&ask(&url, "ZRANGE usertable.keys 0 -1 WITHSCORES")), "user1 0 user2 0");
        assert_eq!(words(&ask(&url, "LRANGE usertable.fields 0 -1")), "YCSB_KEY FIELD0 FIELD1 FIELD2");
    });
}

#[test]
fn ycsbs_layout_is_written_and_its_data_is_read() {
    block_on(async {
        let url = url("of_ycsb");
        let ycsb = [("redis.layout", "ycsb")];
        // As YCSB's binding writes them: HMSET, and ZADD with the hash code of the key.
        for (key, hash) in [("user1", 111_578_566), ("user2", 111_578_567), ("a", 97)] {
            ask(&url, &format!("HMSET {key} FIELD0 {key} FIELD1 b FIELD2 c"));
            ask(&url, &format!("ZADD _indices {hash} {key}"));
        }
        let place = place(&url, &ycsb);
        let info =
            place.driver.prepare(&table(), Preparation::UseExisting).await.expect("YCSB's rows are there");
        assert_eq!(info.settings["layout"], "ycsb");
        let mut session = place.session(&table()).await;
        assert_eq!(session.read("user2").await.1.values(), ["user2", "b", "c"]);
        assert_eq!(session.scan("a", 10).await.1.keys(), ["a", "user1", "user2"], "by hash code");
        assert_eq!(session.insert("user3", &ABC).await, Outcome::ok(1));
        assert_eq!(words(&ask(&url, "ZSCORE _indices user3")), "111578568");
        assert_eq!(words(&ask(&url, "HGET user3 FIELD2")), "c");
        assert_eq!(session.insert("user3", &["x", "y", "z"]).await.status, Status::Duplicate);
        assert_eq!(session.delete("user3").await, Outcome::ok(1));
        assert_eq!(words(&ask(&url, "EXISTS user3")), "0");
        let mut wider = table();
        wider.fields.push("FIELD3".to_owned());
        let message = refusal(place.driver.prepare(&wider, Preparation::UseExisting).await).to_string();
        assert!(message.contains("FIELD3"), "{message}");
        let message = refusal(place.driver.prepare(&table(), Preparation::CreateIfEmpty).await).to_string();
        assert!(message.contains("--drop"), "{message}");
        place.driver.prepare(&table(), Preparation::DropAndCreate).await.expect("dropped");
        assert_eq!(words(&ask(&url, "DBSIZE")), "0");
    });
}

#[test]
fn what_the_server_refuses_is_sorted_by_its_own_words() {
    block_on(async {
        let own = Server::start(&["--save", ""]);
        let url = format!("redis://127.0.0.1:{}", own.port);
        let mut session = place(&url, &[]).filled(&table(), &[("user1", ABC)]).await;
        ask(&url, "SCRIPT FLUSH");
        assert_eq!(session.update("user1", &[(0, "x")]).await, Outcome::ok(1), "it is loaded again");
        ask(&url, "CONFIG SET maxmemory 1");
        let outcome = session.insert("user2", &ABC).await;
        assert_eq!(failure(outcome), (Status::Unavailable, Recovery::Retry, "OOM".to_owned()));
        assert_eq!(session.read("user1").await.0, Outcome::ok(1), "the session goes on");
        ask(&url, "CONFIG SET maxmemory 0");
        ask(&url, &format!("REPLICAOF 127.0.0.1 {}", free_port()));
        let outcome = session.update("user1", &[(0, "y")]).await;
        assert_eq!(failure(outcome), (Status::Unavailable, Recovery::Reconnect, "READONLY".to_owned()));
        ask(&url, "REPLICAOF NO ONE");
        ask(&url, "DEL usertable:user1");
        ask(&url, "SET usertable:user1 text");
        let outcome = session.read("user1").await.0;
        assert_eq!(failure(outcome), (Status::Rejected, Recovery::Fatal, "WRONGTYPE".to_owned()));
    });
}

#[test]
fn a_lost_connection_is_ambiguous_only_for_a_write_in_flight() {
    block_on(async {
        let own = Server::start(&["--save", ""]);
        let url = format!("redis://127.0.0.1:{}", own.port);
        let place = place(&url, &[]);
        let mut reader = place.filled(&table(), &[("user1", ABC)]).await;
        let mut writer = place.session(&table()).await;
        // The server holds writes back, and then cuts the connection.
        ask(&url, "CLIENT PAUSE 5000 WRITE");
        let (outcome, ()) = tokio::join!(writer.update("user1", &[(0, "mine")]), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            ask(&url, "CLIENT KILL TYPE normal");
        });
        assert_eq!(failure(outcome), (Status::Unavailable, Recovery::Ambiguous, "LOST".to_owned()));
        let outcome = writer.update("user1", &[(0, "mine")]).await;
        assert_eq!(failure(outcome).1, Recovery::Reconnect, "known to be dead: not sent");
        let outcome = reader.read("user1").await.0;
        assert_eq!(failure(outcome), (Status::Unavailable, Recovery::Reconnect, "LOST".to_owned()));
    });
}

#[test]
fn passwords_work_in_every_way_and_are_never_told() {
    let own = Server::start(&["--save", "", "--requirepass", PASSWORD]);
    let port = own.port.to_string();
    let escaped: String = PASSWORD.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let silent = |message: &str| {
        for part in ["p@ss", "w/o", "r#d", "d%41", "s3cret", &escaped] {
            assert!(!message.contains(part), "{part:?} is in: {message}");
        }
    };
    block_on(async {
        let by_url = target("redis", &format!("redis://:{escaped}@127.0.0.1:{port}/0"));
        let by_property = Target { db: "redis".to_owned(), ..Target::default() };
        let by_property = with(by_property, &[("redis.port", &port), ("redis.password", PASSWORD)]);
        for target in [by_url, by_property] {
            let driver: Redis = open(&target);
            let message = refusal(driver.prepare(&table(), Preparation::UseExisting).await).to_string();
            assert!(message.contains("there is no table usertable"), "we got in: {message}");
        }
        let wrong = format!("s3cret{PASSWORD}");
        for (expected, properties) in [
            ("refused user default", vec![("redis.password", wrong.as_str())]),
            ("asks for the password", vec![]),
            ("refused user nobody", vec![("redis.password", PASSWORD), ("redis.user", "nobody")]),
            ("redis.cluster", vec![("redis.password", PASSWORD), ("redis.cluster", "true")]),
        ] {
            let base = Target { db: "redis".to_owned(), ..Target::default() };
            let driver: Redis = open(&with(with(base, &[("redis.port", &port)]), &properties));
            let error = refusal(driver.prepare(&table(), Preparation::UseExisting).await);
            assert!(matches!(error, TargetError::Unusable(_)), "{error}");
            assert!(error.to_string().contains(expected), "{expected:?} is not in: {error}");
            silent(&format!("{error} {error:?}"));
        }
    });
    // By the program: its words and its result say nothing either.
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20 -p fieldcount=1");
    for (password, code) in [(PASSWORD, 0), ("s3cretx", 3)] {
        let escaped: String = password.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for way in [
            format!("redis://:{escaped}@127.0.0.1:{port}/0"),
            format!("redis://127.0.0.1:{port}?password={escaped}"),
        ] {
            let ran = folder
                .run_list(&["replay", "--db", "redis", "workloada", "--drop", "--url", &way])
                .expect_code(code);
            silent(&format!("{}{}", ran.out, ran.err));
            for path in ran.results(&folder) {
                silent(&String::from_utf8_lossy(&std::fs::read(path).expect("readable")));
            }
        }
    }
}

#[test]
fn encryption_is_verified() {
    use crate::support::authority::Authority;
    let (authority, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    let folder = folder("ycsb-tls-");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::write(path("ca"), authority.pem()).unwrap();
    std::fs::write(path("foreign-ca"), foreign.pem()).unwrap();
    let shows = |name: &str, (certificate, key): (String, String)| {
        std::fs::write(path(name), certificate).unwrap();
        std::fs::write(path(&format!("{name}-key")), key).unwrap();
    };
    shows("localhost", authority.signs("server", &["localhost"], 2060));
    shows("client", authority.signs("client", &["client"], 2060));
    shows("stranger", foreign.signs("client", &["client"], 2060));
    let port = free_port().to_string();
    let (cert, key, ca) = (path("localhost"), path("localhost-key"), path("ca"));
    let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let own = Server::start(&[&["--save", "", "--tls-port", &port], &files[..]].concat());
    let (client, client_key) = (path("client"), path("client-key"));
    let (stranger, stranger_key, foreign_ca) = (path("stranger"), path("stranger-key"), path("foreign-ca"));
    let identity = [("redis.tls-cert", client.as_str()), ("redis.tls-key", &client_key)];
    let strange = [("redis.tls-cert", stranger.as_str()), ("redis.tls-key", &stranger_key)];
    let trust = ("redis.tls-ca", ca.as_str());
    let says = |host: &str, properties: &[(&str, &str)], expected: &str| {
        block_on(async {
            let place = place(&format!("rediss://{host}:{port}"), properties);
            let error = refusal(place.driver.prepare(&table(), Preparation::UseExisting).await);
            assert!(matches!(error, TargetError::Unusable(_)), "{error}");
            assert!(error.to_string().contains(expected), "{host} {properties:?}: {error}");
        });
    };
    let known = [&[trust], &identity[..]].concat();
    says("localhost", &known, "there is no table");
    says("localhost", &[trust], "wants a certificate of the client: give redis.tls-cert=FILE");
    says("localhost", &[&[trust], &strange[..]].concat(), "does not accept our certificate (redis.tls-cert)");
    says("localhost", &identity, "not signed by an authority in what this machine trusts");
    says(
        "localhost",
        &[&[("redis.tls-ca", foreign_ca.as_str())], &identity[..]].concat(),
        "is not signed by an authority",
    );
    says("127.0.0.1", &known, "is for another name");
    for (certificate, expected) in [
        (authority.signs("server", &["localhost"], 2021), "has expired"),
        (foreign.signs("server", &["localhost"], 2060), "is not signed by an authority"),
        (authority.signs("server", &["localhost"], 2060), "there is no table"),
    ] {
        shows("localhost", certificate);
        let reload = format!("CONFIG SET tls-cert-file {cert} tls-key-file {key}");
        ask(&format!("redis://127.0.0.1:{}", own.port), &reload);
        says("localhost", &known, expected);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_read_modify_write_transaction_is_one_step_and_loses_no_update() {
    let folder = Folder::in_memory();
    folder.ok("gen workloadf --records 1 --ops 1000 -p readmodifywriteproportion=1 -p readproportion=0");
    let url = url("transactions");
    let ran =
        folder.ok(&format!("replay --db redis workloadf --url {url} --threads 8 --rmw transaction --verify"));
    let replayed = ran.result(&folder);
    assert_eq!(replayed.count(Status::Ok), 1000, "{:?}", replayed.meta.counts);
    folder.ok(&format!("verify {} --db redis --url {url}", replayed.path.display()));
}

#[test]
fn a_node_of_a_cluster_that_is_not_asked_as_one_says_so() {
    let (cluster, _turn) = crate::support::redis::cluster();
    block_on(async {
        let mut refused = 0;
        for node in &cluster.nodes {
            let place = place(&format!("redis://127.0.0.1:{}", node.port), &[]);
            if let Err(error) = place.driver.prepare(&table(), Preparation::CreateIfEmpty).await {
                assert!(error.to_string().contains("redis.cluster=true"), "{error}");
                refused += 1;
            }
        }
        assert!(refused >= 2, "{refused} of 3 refused");
    });
}

#[test]
fn a_cluster_that_loses_a_node_serves_the_other_slots_and_every_operation_has_its_row() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let folder = Folder::in_memory();
    folder.ok("gen workloada --records 300 --ops 1600 -p fieldcount=2 -p fieldlength=20");
    let replay = format!("replay --db redis workloada --url {url} -p redis.cluster=true");
    folder.ok(&format!("{replay} --phase load --threads 4"));
    let mut running = folder.start(&format!("{replay} --phase run --threads 8 --target 200"));
    let begin = running.wait_for_start();
    sleep_until(begin, Duration::from_millis(2_000));
    cluster.nodes[2].daemon.tell("kill");
    sleep_until(begin, Duration::from_millis(4_000));
    cluster.nodes[2].daemon.tell("start");
    let replayed = running.wait().expect_code(0).result(&folder);
    assert_eq!(replayed.unique_ids(), (0..1600).collect::<Vec<_>>());
    let failed: Vec<_> = replayed.rows.iter().filter(|row| row.status != Status::Ok).collect();
    assert!(!failed.is_empty(), "{:?}", replayed.meta.counts);
    for row in failed {
        assert_eq!(row.status, Status::Unavailable, "{row:?} {:?}", replayed.meta.errors);
        let code = row.code.strip_prefix("AMBIGUOUS ").unwrap_or(&row.code);
        assert!(["LOST", "CLUSTERDOWN", "LOADING", "MOVED"].contains(&code), "{row:?}");
    }
    let ok_later =
        replayed.rows.iter().filter(|row| row.status == Status::Ok && row.start_ns > 4_500_000_000);
    assert!(ok_later.count() > 100, "{:?}", replayed.meta.counts);
}

#[test]
fn other_hosts_are_tried_in_turn() {
    block_on(async {
        let url = url("hosts").replace("127.0.0.1:", &format!("127.0.0.1:{},127.0.0.1:", free_port()));
        let place = place(&url, &[]);
        let mut session: Calls<_> = place.filled(&table(), &[("user1", ABC)]).await;
        assert_eq!(session.read("user1").await.1.values(), ABC);
    });
}
