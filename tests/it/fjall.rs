//! What is fjall's own.

use std::fs;

use ycsb_trace::driver::fjall::Fjall;
use ycsb_trace::driver::{Driver, Preparation, TableSpec, TargetError};
use ycsb_trace::op::{Outcome, Status};

use crate::support::{Place, block_on, open, refusal, table, target};

const ABC: [&str; 3] = ["a", "b", "c"];

#[test]
fn rows_survive_closing_with_every_durability() {
    for durability in ["none", "buffer", "fsync"] {
        let folder = tempfile::tempdir().unwrap();
        let mut target = target("fjall", folder.path().join("db").to_str().unwrap());
        target.properties.insert("fjall.durability".to_owned(), durability.to_owned());
        block_on(async {
            let place: Place<Fjall> = Place::at(target.clone());
            let mut session = place.filled(&table(), &[("user1", ABC), ("user2", ABC)]).await;
            assert_eq!(session.delete("user2").await, Outcome::ok(1));
            drop(session);
            drop(place);
            let place: Place<Fjall> = Place::at(target);
            let info = place.driver.prepare(&table(), Preparation::UseExisting).await.unwrap();
            assert_eq!(info.settings["durability"], durability);
            let mut session = place.session(&table()).await;
            assert_eq!(session.scan("", 10).await.1.keys(), ["user1"], "{durability}");
            assert_eq!(session.read("user1").await.1.values(), ABC);
        });
    }
}

#[test]
fn bytes_that_are_not_text_are_kept() {
    block_on(async {
        let place: Place<Fjall> = Place::in_folder("fjall", "db");
        let mut session = place.filled(&table(), &[]).await;
        assert_eq!(session.insert_fields("user1", &[(0, b"\xff\x00\xfe")]).await, Outcome::ok(1));
        let (_, rows) = session.read_fields("user1", &[0]).await;
        assert_eq!(rows.0[0].1, [(0, Some(b"\xff\x00\xfe".to_vec()))]);
    });
}

#[test]
fn a_row_of_another_layout_is_rejected_and_a_table_of_one_is_unusable() {
    block_on(async {
        let place: Place<Fjall> = Place::in_folder("fjall", "db");
        drop(place.filled(&table(), &[("user1", ABC)]).await);
        let narrower = TableSpec { fields: vec!["FIELD0".to_owned()], shapes: vec![], ..table() };
        let message = refusal(place.driver.prepare(&narrower, Preparation::UseExisting).await).to_string();
        assert!(message.contains("has other fields"), "{message}");
        let mut session = place.session(&narrower).await;
        assert_eq!(session.read("user1").await.0.status, Status::Rejected);
        assert_eq!(session.update("user1", &[(0, "x")]).await.status, Status::Rejected);
        assert_eq!(session.scan("", 10).await.0.status, Status::Rejected);
    });
}

#[test]
fn a_key_beyond_the_limits_is_rejected() {
    block_on(async {
        let place: Place<Fjall> = Place::in_folder("fjall", "db");
        let mut session = place.filled(&table(), &[]).await;
        for key in ["", &"x".repeat(65_536)] {
            assert_eq!(session.insert(key, &ABC).await.status, Status::Rejected);
            assert_eq!(session.read(key).await.0.status, Status::NotFound);
            assert_eq!(session.update(key, &[(0, "x")]).await.status, Status::NotFound);
            assert_eq!(session.delete(key).await.status, Status::NotFound);
        }
        assert_eq!(session.scan(&"x".repeat(65_536), 1).await.0.status, Status::Rejected);
    });
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().to_str().unwrap();
    fs::write(folder.path().join("letter.txt"), "mine").unwrap();
    let driver: Fjall = open(&target("fjall", url));
    let error = refusal(block_on(driver.prepare(&table(), Preparation::DropAndCreate)));
    assert!(matches!(error, TargetError::Unusable(_)), "{error}");
    assert!(error.to_string().contains("is not a fjall database"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was added");

    let place: Place<Fjall> = Place::in_folder("fjall", "db");
    block_on(place.driver.prepare(&table(), Preparation::CreateIfEmpty)).unwrap();
    let second: Fjall = open(&place.target);
    let error = refusal(block_on(second.prepare(&table(), Preparation::UseExisting)));
    assert!(error.to_string().contains("is open in another process"), "{error}");
}

#[test]
fn an_unknown_durability_is_refused_by_name() {
    let mut target = target("fjall", "/tmp/never-opened");
    target.properties.insert("fjall.durability".to_owned(), "maybe".to_owned());
    let error = refusal(Fjall::open(&target));
    assert!(matches!(error, TargetError::Request(_)), "{error}");
    assert!(error.to_string().contains("fjall.durability=\"maybe\""), "{error}");
}
