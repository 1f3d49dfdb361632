//! Rows that the run itself inserts: no read may come before its insert, however slow that is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ycsb_trace::op::Status;

use crate::support::program::{Folder, Replayed};

const WORKLOAD: &str = "gen workloadd --records 1000 -p fieldcount=2 -p fieldlength=20";

/// Holds the write lock of an SQLite database in bursts of 20 ms while `work` is done.
#[cfg(feature = "sqlite")]
fn with_a_busy_writer<T>(database: &std::path::Path, work: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let connection = rusqlite::Connection::open(database).expect("the database opens");
            connection.busy_timeout(Duration::from_secs(60)).expect("a setting of the connection");
            while !ended.load(Ordering::Relaxed) {
                connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is free at some time");
                std::thread::sleep(Duration::from_millis(20));
                connection.execute_batch("COMMIT").expect("the lock is held");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        ended.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Nothing is missing or doubled, and nothing was read before it was there.
fn assert_in_order(replayed: &Replayed, ops: u64) {
    assert_eq!(replayed.meta.order, "deps");
    assert_eq!(replayed.unique_ids(), (0..ops).collect::<Vec<_>>());
    assert_eq!(replayed.count(Status::NotFound), 0);
    assert_eq!(replayed.count(Status::Ok) as u64, ops, "{:?}", replayed.meta.counts);
}

#[cfg(feature = "sqlite")]
#[test]
fn no_read_precedes_its_insert_on_sqlite_while_another_process_holds_the_write_lock() {
    let folder = Folder::in_memory();
    folder.ok(&format!("{WORKLOAD} --ops 20000"));
    folder.ok("replay --db sqlite workloadd --url test.db --phase load");
    let ran = with_a_busy_writer(&folder.path("test.db"), || {
        folder.ok("replay --db sqlite workloadd --url test.db --phase run --threads 16")
    });
    assert_in_order(&ran.result(&folder), 20_000);
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::support::block_on;
    use crate::support::postgres::{client, database};

    /// A database with the load phase in it, whose further inserts each take 20 ms.
    fn slow_to_insert(folder: &Folder, name: &str) -> String {
        let url = block_on(database(name));
        folder.ok(&format!("replay --db postgres workloadd --url {url} --phase load --threads 4"));
        block_on(async {
            let trigger = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                           $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$; \
                           CREATE TRIGGER slow BEFORE INSERT ON usertable FOR EACH ROW EXECUTE FUNCTION slow()";
            client(name).await.batch_execute(trigger).await.expect("a trigger is created");
        });
        url
    }

    #[test]
    fn no_read_precedes_its_insert_on_postgres_however_slow_inserts_are() {
        let folder = Folder::new();
        folder.ok(&format!("{WORKLOAD} --ops 20000"));
        let url = slow_to_insert(&folder, "in_order");
        let ran = folder.ok(&format!("replay --db postgres workloadd --url {url} --phase run --threads 16"));
        let replayed = ran.result(&folder);
        assert_in_order(&replayed, 20_000);
        assert!(replayed.meta.elapsed_ns > 800 * 20_000_000 / 16, "inserts were not slow");
    }

    #[test]
    fn a_read_that_did_not_wait_for_its_insert_is_labelled_a_race() {
        let folder = Folder::new();
        folder.ok(&format!("{WORKLOAD} --ops 5000"));
        let url = slow_to_insert(&folder, "racing");
        let ran = folder
            .ok(&format!("replay --db postgres workloadd --url {url} --phase run --threads 16 --order none"));
        let replayed = ran.result(&folder);
        assert_eq!(replayed.meta.order, "none");
        assert_eq!(replayed.rows.len(), 5_000);
        let races: Vec<_> = replayed.rows.iter().filter(|row| row.status == Status::NotFound).collect();
        assert!(!races.is_empty(), "no read came too early: {:?}", replayed.meta.counts);
        for race in &races {
            assert_eq!(race.code, "RACE", "operation {}", race.op_id);
        }
        assert!(replayed.rows.iter().all(|row| row.status == Status::NotFound || row.code.is_empty()));
        assert_eq!(replayed.meta.errors.len(), 1, "{:?}", replayed.meta.errors);
        assert_eq!(replayed.meta.errors[0].count, races.len() as u64);
        assert!(ran.out.contains("RACE"), "{}", ran.out);
    }
}
