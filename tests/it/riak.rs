//! What is Riak's own, on the stand-in of `support/riak.rs`.

use ycsb_trace::driver::riak::Riak;
use ycsb_trace::driver::{Driver, Preparation, Session, Target, TargetError};
use ycsb_trace::op::{Field, Op, OpKind, Outcome, Recovery, Status};

use crate::support::authority::Authority;
use crate::support::daemon::free_port;
use crate::support::program::{Folder, Replayed};
use crate::support::riak::Node;
use crate::support::{Collected, Place, block_on, refusal, table, target};

/// A target on this node, with these properties.
pub fn on(port: u16, properties: &[(&str, &str)]) -> Target {
    let mut target = target("riak", &format!("riak://127.0.0.1:{port}"));
    for (name, value) in properties {
        target.properties.insert((*name).to_owned(), (*value).to_owned());
    }
    target
}

/// Properties of eventual mode, without waiting for what is not there.
pub const EVENTUAL: [(&str, &str); 2] =
    [("riak.strong_consistency", "false"), ("riak.read_retry_count", "1")];

/// Properties of strong mode, with scans.
pub const STRONG: [(&str, &str); 2] =
    [("riak.bucket_type", "strong"), ("riak.strong_consistent_scans_bucket_type", "ycsb")];

const ABC: [&str; 3] = ["a", "b", "c"];

#[test]
fn records_and_their_index_are_stored_as_ycsb_stores_them() {
    block_on(async {
        let node = Node::start();
        let place: Place<Riak> = Place::at(on(node.port, &EVENTUAL));
        drop(place.filled(&table(), &[("user42", ABC)]).await);
        let object = node.object("ycsb", "usertable", "user42").expect("type, bucket and key");
        let record = b"\0\0\0\x06field0\0\0\0\x01a\0\0\0\x06field1\0\0\0\x01b\0\0\0\x06field2\0\0\0\x01c";
        assert_eq!(object.contents[0].value, record);
        assert_eq!(object.contents[0].indexes, [(b"key_int".to_vec(), b"42".to_vec())]);

        let node = Node::start();
        let place: Place<Riak> = Place::at(on(node.port, &STRONG));
        drop(place.filled(&table(), &[("user42", ABC)]).await);
        let object = node.object("strong", "usertable", "user42").expect("the record");
        assert_eq!((object.contents[0].value.as_slice(), object.contents[0].indexes.len()), (&record[..], 0));
        let beside = node.object("ycsb", "usertable", "user42").expect("what scans go by");
        assert_eq!(beside.contents[0].indexes, [(b"key_int".to_vec(), b"42".to_vec())]);
        assert_eq!(beside.contents[0].value, [0]);
    });
}

#[test]
fn siblings_are_read_by_the_youngest_and_resolved_by_an_update() {
    block_on(async {
        let node = Node::start();
        let mut properties = EVENTUAL.to_vec();
        properties.extend([("riak.bucket_type", "siblings"), ("riak.insert", "put")]);
        let place: Place<Riak> = Place::at(on(node.port, &properties));
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        // A write that names no version becomes a sibling.
        assert_eq!(session.insert("user1", &["x", "y", "z"]).await, Outcome::ok(1));
        let siblings = || node.object("siblings", "usertable", "user1").expect("there").contents.len();
        assert_eq!(siblings(), 2);
        assert_eq!(session.read("user1").await.1.values(), ["x", "y", "z"]);
        assert_eq!(session.update("user1", &[(1, "new")]).await, Outcome::ok(1));
        assert_eq!(siblings(), 1);
        assert_eq!(session.read("user1").await.1.values(), ["x", "new", "z"]);
    });
}

#[test]
fn an_update_replaces_the_record_if_that_is_asked_for() {
    block_on(async {
        for mode in [&EVENTUAL[..], &STRONG[..]] {
            let node = Node::start();
            let properties = [mode, &[("riak.update", "replace")]].concat();
            let place: Place<Riak> = Place::at(on(node.port, &properties));
            let mut session = place.filled(&table(), &[("user1", ABC)]).await;
            assert_eq!(session.update("user1", &[(1, "new")]).await, Outcome::ok(1));
            let fields = session.read("user1").await.1.0.remove(0).1;
            assert_eq!(fields, [(0, None), (1, Some(b"new".to_vec())), (2, None)]);
        }
    });
}

#[test]
fn scans_go_by_the_number_in_the_key_if_that_is_asked_for() {
    block_on(async {
        let keys = ["user9", "user10", "user100", "user11", "other10"];
        let rows: Vec<_> = keys.iter().map(|key| (*key, ABC)).collect();
        let node = Node::start();
        let place: Place<Riak> = Place::at(on(node.port, &[&EVENTUAL[..], &[("riak.scan", "2i")]].concat()));
        let mut session = place.filled(&table(), &rows).await;
        assert_eq!(session.scan("user9", 3).await.1.keys(), ["user9", "other10", "user10"]);
        assert_eq!(session.scan("user11", 9).await.1.keys(), ["user11", "user100"]);
        assert_eq!(session.scan("user", 9).await.0.status, Status::Rejected);
        let by_key: Place<Riak> = Place::at(on(node.port, &EVENTUAL));
        let mut session = by_key.session(&table()).await;
        assert_eq!(session.scan("user10", 9).await.1.keys(), ["user10", "user100", "user11", "user9"]);
        // A page that is full of tombstones is not the end.
        for key in ["user10", "user100"] {
            assert_eq!(session.delete(key).await, Outcome::ok(1));
        }
        assert_eq!(session.scan("user10", 2).await.1.keys(), ["user11", "user9"]);
    });
}

#[test]
fn without_a_second_bucket_strong_mode_has_no_scans_as_with_ycsb() {
    block_on(async {
        let node = Node::start();
        let place: Place<Riak> = Place::at(on(node.port, &[("riak.bucket_type", "strong")]));
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        assert_eq!(session.scan("user", 9).await.0, Outcome::UNSUPPORTED);
        assert_eq!(session.read("user1").await.0, Outcome::ok(1));
    });
}

#[test]
fn a_transaction_in_a_consistent_bucket_fails_if_somebody_wrote_in_between() {
    block_on(async {
        let node = Node::start();
        let place: Place<Riak> = Place::at(on(node.port, &STRONG));
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        let value = [Field { number: 1, value: b"mine" }];
        let op = Op { id: 0, kind: OpKind::ReadModifyWrite, key: "user1", fields: &value, scan_len: 0 };
        let outcome = session.0.read_modify_write_transaction(&op, &mut Collected::default()).await;
        assert_eq!(outcome, Outcome::ok(1));
        // Another client writes between its read and its write.
        struct Intruder(u16);
        impl ycsb_trace::driver::Rows for Intruder {
            fn row(&mut self, _key: &str) {
                let port = self.0;
                let write = move || {
                    block_on(async {
                        let place: Place<Riak> = Place::at(on(port, &STRONG));
                        let outcome = place.session(&table()).await.update("user1", &[(0, "theirs")]).await;
                        assert_eq!(outcome, Outcome::ok(1));
                    });
                };
                std::thread::spawn(write).join().expect("written");
            }
            fn field(&mut self, _number: u32, _value: Option<&[u8]>) {}
        }
        let outcome = session.0.read_modify_write_transaction(&op, &mut Intruder(node.port)).await;
        let failure = outcome.failure.expect("a reason");
        assert_eq!((outcome.status, failure.recovery), (Status::Conflict, Recovery::Retry));
        assert_eq!(session.read("user1").await.1.values(), ["theirs", "mine", "c"]);
    });
}

#[test]
fn what_a_starting_node_says_is_to_be_tried_again() {
    block_on(async {
        let node = Node::start();
        let place: Place<Riak> = Place::at(on(node.port, &EVENTUAL));
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        for words in ["all_nodes_down", "{insufficient_vnodes,0,need,2}"] {
            node.fail(Some(words));
            let outcome = session.update("user1", &[(1, "x")]).await;
            let failure = outcome.failure.expect("a reason");
            assert_eq!((outcome.status, failure.recovery), (Status::Unavailable, Recovery::Retry));
            assert!(words.contains(&failure.code), "{failure:?}");
            let error = refusal(place.driver.prepare(&table(), Preparation::UseExisting).await);
            assert!(
                matches!(error, TargetError::Unusable(_)) && error.to_string().contains("not serving yet"),
                "{error}"
            );
        }
        node.fail(None);
        assert_eq!(session.update("user1", &[(1, "x")]).await, Outcome::ok(1));
    });
}

#[test]
fn what_is_wrong_is_named_with_what_to_do() {
    let nobody = free_port();
    let node = Node::start();
    let refused = |target: Target| {
        let driver = Riak::open(&target).expect("understood");
        refusal(block_on(driver.prepare(&table(), Preparation::CreateIfEmpty)))
    };
    let error = refused(on(nobody, &EVENTUAL));
    assert!(
        matches!(error, TargetError::Unusable(_)) && error.to_string().contains("nobody listens"),
        "{error}"
    );
    let error = refused(on(node.port, &[("riak.bucket_type", "missing")]));
    assert!(matches!(error, TargetError::Unusable(_)), "{error}");
    assert!(error.to_string().contains("riak-admin bucket-type create missing"), "{error}");
    // Strong consistency is the default, and this type is not.
    let error = refused(on(node.port, &[]));
    assert!(matches!(error, TargetError::Request(_)), "{error}");
    assert!(error.to_string().contains("riak.strong_consistency=false"), "{error}");
    let error = refused(on(node.port, &[("riak.tls", "true")]));
    assert!(error.to_string().contains("refuses TLS"), "{error}");
}

#[test]
fn a_password_travels_by_tls_and_is_never_shown() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    let folder = Folder::new();
    folder.write("ca.pem", ours.pem());
    folder.write("other.pem", foreign.pem());
    let path = |name: &str| folder.path(name).to_str().expect("a path in UTF-8").to_owned();
    let (ca, other) = (path("ca.pem"), path("other.pem"));
    let good = Node::secure("ycsb", "s3cr3t", &ours.signs("riak", &["localhost"], 2060));
    let with = |node: &Node, host: &str, more: &[(&str, &str)]| {
        let mut properties = EVENTUAL.to_vec();
        properties.extend([("riak.user", "ycsb"), ("riak.password", "s3cr3t"), ("riak.cacert", &ca)]);
        properties.extend(more);
        Target { url: Some(format!("riak://{host}:{}", node.port)), ..on(node.port, &properties) }
    };
    block_on(async {
        let place: Place<Riak> = Place::at(with(&good, "localhost", &[]));
        let mut session = place.filled(&table(), &[("user1", ABC)]).await;
        assert_eq!(session.read("user1").await.1.values(), ABC);
    });
    let refused = |target: Target, expected: &str| {
        let driver = Riak::open(&target).expect("understood");
        let error = refusal(block_on(driver.prepare(&table(), Preparation::UseExisting)));
        assert!(matches!(error, TargetError::Unusable(_)), "exit code 3: {error}");
        let message = error.to_string();
        assert!(message.contains(expected), "{expected:?} is not in: {message}");
        assert!(!message.contains("wr0ng") && !message.contains("s3cr3t"), "{message}");
    };
    refused(with(&good, "localhost", &[("riak.password", "wr0ng")]), "riak.password");
    refused(with(&good, "localhost", &[("riak.user", ""), ("riak.tls", "false")]), "STARTTLS");
    // Each wrong certificate has its own message.
    let expired = Node::secure("ycsb", "s3cr3t", &ours.signs("riak", &["localhost"], 2021));
    let stranger = Node::secure("ycsb", "s3cr3t", &foreign.signs("riak", &["localhost"], 2060));
    let elsewhere = Node::secure("ycsb", "s3cr3t", &ours.signs("riak", &["db.example.com"], 2060));
    refused(with(&good, "127.0.0.1", &[]), "is for another name");
    refused(with(&elsewhere, "localhost", &[]), "is for another name");
    refused(with(&expired, "localhost", &[]), "has expired; it has to be renewed there");
    refused(with(&stranger, "localhost", &[]), "is not signed by an authority in");
    refused(with(&good, "localhost", &[("riak.cacert", &other)]), "is that the right riak.cacert?");
    // And on YCSB's command line, exit code 3.
    for (node, expected) in [(&expired, "has expired"), (&stranger, "is not signed by an authority in")] {
        let place = format!("-p riak.hosts=localhost -p riak.port={}", node.port);
        let who = format!("-p riak.user=ycsb -p riak.password=s3cr3t -p riak.cacert={ca}");
        let ran = folder.run(&format!("load riak -s -P workloads/workloada {place} {who} -threads 2"));
        let ran = ran.expect_code(3);
        assert!(ran.err.contains(expected) && !ran.err.contains("s3cr3t"), "{}", ran.err);
    }
}

#[test]
fn connections_go_to_the_nodes_in_turn_and_pass_over_a_dead_one() {
    block_on(async {
        let (one, two) = (Node::start(), Node::start());
        let nobody = free_port();
        let hosts = format!("127.0.0.1:{},127.0.0.1:{nobody},127.0.0.1:{}", one.port, two.port);
        let mut target = on(one.port, &EVENTUAL);
        target.url = None;
        target.properties.insert("riak.hosts".to_owned(), hosts);
        let place: Place<Riak> = Place::at(target);
        for number in 0..6 {
            let mut session =
                crate::support::Calls(place.driver.connect(&table(), number).await.expect("a node"));
            assert_eq!(session.insert(&format!("user{number}"), &ABC).await, Outcome::ok(1));
        }
        // Sessions 1 and 4 went on to the node after the dead one.
        assert_eq!((one.count("ycsb"), two.count("ycsb")), (2, 4));
    });
}

/// Command lines of YCSB's manual, host and port replaced, for each of its workloads.
#[test]
fn every_workload_runs_with_the_properties_of_ycsb() {
    let folder = Folder::new();
    for (mode, properties) in [("eventual", &EVENTUAL[..]), ("strong", &STRONG[..])] {
        let node = Node::start();
        for workload in ["workloada", "workloadb", "workloadc", "workloadd", "workloade", "workloadf"] {
            folder.ok(&format!("gen {workload} --records 200 --ops 300"));
            let mut words = vec!["replay", "--db", "riak", workload, "--threads", "4", "--drop"];
            let settings: Vec<String> = properties
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .chain(["riak.hosts=127.0.0.1".to_owned(), format!("riak.port={}", node.port)])
                .collect();
            settings.iter().for_each(|setting| words.extend(["-p", setting]));
            let ran = folder.run_list(&words).expect_code(0);
            for path in ran.results(&folder) {
                let meta = Replayed::read(&path).meta;
                let ok: u64 = meta.counts.values().filter_map(|statuses| statuses.get("OK")).sum();
                assert_eq!(ok, meta.rows, "{mode} {workload}: {:?}", meta.counts);
            }
        }
    }
}
