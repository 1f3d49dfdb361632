//! Verification from the outside: what is right is never blamed, however concurrent, and what is
//! planted is found, with the operations that show it.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use ycsb_trace::op::{OpKind, Status};
use ycsb_trace::trace::chunk::{ChunkBuilder, Row, RowValues, TraceWriter};
use ycsb_trace::trace::runs::RunFile;

#[cfg(feature = "postgres")]
use crate::support::program::Replayed;
use crate::support::program::{Folder, Generated, TraceRow};

/// Verifies a result; its exit code must be 1 if there are violations, else 0.
#[track_caller]
fn verify(folder: &Folder, result: &Path, options: &str) -> Value {
    let ran = folder.run(&format!("verify {} --format json {options}", result.display()));
    let answer: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
    let clean = answer["clean"].as_bool().expect("a verdict");
    ran.expect_code(i32::from(!clean));
    answer
}

/// The operations of the findings; all must be of one category.
#[track_caller]
fn found(answer: &Value, category: &str) -> BTreeSet<u64> {
    let history = &answer["history"];
    let violations = history["violations"].as_object().expect("counts");
    assert!(violations.keys().eq([category]), "{history:#}");
    let findings = history["findings"].as_array().expect("a list");
    findings.iter().map(|finding| finding["op_id"].as_u64().expect("an operation")).collect()
}

#[track_caller]
fn assert_clean(answer: &Value) {
    assert!(answer["clean"].as_bool().expect("a verdict"), "{answer:#}");
    assert!(answer["history"]["values"].as_u64() > Some(0), "{answer:#}");
}

fn ids(rows: &[TraceRow], which: impl Fn(&TraceRow) -> bool) -> BTreeSet<u64> {
    rows.iter().filter(|row| which(row)).map(|row| row.id).collect()
}

/// The key that a trace reads most often.
fn favourite(trace: &Generated) -> String {
    let reads =
        |key: &str| trace.rows.iter().filter(|row| row.kind == OpKind::Read && row.key == key).count();
    trace.rows.iter().map(|row| &row.key).max_by_key(|key| reads(key)).expect("an operation").clone()
}

/// (tries, hashes that came back) of every operation, by id.
fn observations(path: &Path) -> Vec<(i32, usize)> {
    let file = RunFile::open(path).expect("a result");
    let mut seen = Vec::new();
    for group in 0..file.row_groups() {
        let scanned = file.scan_observations(group, |rows| {
            seen.extend(
                (0..rows.attempts.len())
                    .map(|row| (rows.columns.op_id[row], (rows.attempts[row], rows.observed(row).len()))),
            );
        });
        scanned.expect("readable rows");
    }
    seen.sort_unstable();
    seen.into_iter().map(|(_, of_op)| of_op).collect()
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;

    fn change(folder: &Folder, text: &str, parameters: &[&str]) {
        let connection = rusqlite::Connection::open(folder.path("test.db")).expect("the database opens");
        let changed = connection.execute(text, rusqlite::params_from_iter(parameters)).expect("a statement");
        assert_eq!(changed, 1);
    }

    #[test]
    fn exactly_the_reads_of_a_row_changed_from_outside_are_mismatches() {
        for lengths in [
            "-p fieldlength=0",
            "-p fieldlength=1",
            "-p fieldlength=30 -p fieldlengthdistribution=uniform -p keyprefix=ключ-é",
        ] {
            let folder = Folder::in_memory();
            folder.ok(&format!("gen workloadc --records 50 --ops 1500 -p fieldcount=4 {lengths}"));
            folder.ok("replay --db sqlite workloadc --url test.db --phase load --verify");
            let trace = Generated::read(&folder.path("traces/workloadc.run.parquet"));
            let key = favourite(&trace);
            let text = "UPDATE usertable SET field3 = 'x' WHERE ycsb_key = ?";
            change(&folder, text, &[&key]);
            let replay = "replay --db sqlite workloadc --url test.db --phase run --threads 4";
            let ran = folder.run(&format!("{replay} --verify=fail")).expect_code(1);
            let replayed = ran.result(&folder);
            let wrong: BTreeSet<u64> = replayed
                .rows
                .iter()
                .filter(|row| row.status == Status::Mismatch)
                .inspect(|row| assert_eq!(row.code, "CORRUPT"))
                .map(|row| row.op_id)
                .collect();
            let reads = ids(&trace.rows, |row| row.key == key);
            assert_eq!(wrong, reads, "{lengths}");
            assert_eq!(replayed.count(Status::Ok), 1500 - reads.len());
            let error = &replayed.meta.errors[0];
            assert_eq!((error.code.as_str(), error.count), ("CORRUPT", reads.len() as u64));
            assert!(error.message.contains(&format!("key {key}, field3")), "{}", error.message);

            let answer = verify(&folder, &replayed.path, "");
            let named = found(&answer, "corrupt");
            assert_eq!(answer["history"]["violations"]["corrupt"], reads.len());
            assert!(named.is_subset(&reads) && named.len() == reads.len().min(100));
            let finding = &answer["history"]["findings"][0];
            assert_eq!((&finding["key"], &finding["field"]), (&key.into(), &"field3".into()));

            // Without fail the exit code is 0: it is a property of the database, not of the run.
            folder.ok(&format!("{replay} --verify"));
        }
    }

    /// A trace that scans from the last key, from beyond it, and from before all.
    fn edge_scans(folder: &Folder) {
        let load = Generated::read(&folder.path("traces/workloade.load.parquet"));
        let run = Generated::read(&folder.path("traces/workloade.run.parquet"));
        let last = load.rows.iter().map(|row| row.key.as_str()).max().expect("a row");
        let mut chunk = ChunkBuilder::new(3);
        for (id, (key, scan_len)) in (0..).zip([(last, 10), ("v", 10), ("", 3)]) {
            let (kind, key) = (OpKind::Scan, key.as_bytes());
            let row = Row {
                kind,
                key,
                fields: None,
                values: RowValues::None,
                scan_len: Some(scan_len),
                at_ns: None,
                after: None,
            };
            chunk.push(id, &row);
        }
        let mut writer =
            TraceWriter::create(&folder.path("traces/edges.run.parquet"), false).expect("a file");
        let encoded = writer.encoder().encode(&mut chunk).expect("encoded");
        writer.append(encoded).expect("written");
        let mut meta = run.meta;
        meta.dependent_ops = 0;
        writer.finish(meta).expect("finished");
    }

    #[test]
    fn scans_are_verified_also_at_the_end_of_the_table_and_a_second_run_is_told_apart() {
        let folder = Folder::in_memory();
        folder.ok("gen workloade --records 200 --ops 1000 -p fieldcount=2 -p fieldlength=20");
        folder.ok("replay --db sqlite workloade --url test.db --phase load");
        edge_scans(&folder);
        let load = "--load-trace traces/workloade.load.parquet";
        let ran =
            folder.ok(&format!("replay --db sqlite edges --url test.db --phase run --verify=fail {load}"));
        let replayed = ran.result(&folder);
        assert_eq!(replayed.count(Status::Ok), 3);
        // A row is the hash of its key and one for each field.
        let rows: Vec<usize> = observations(&replayed.path).iter().map(|(_, hashes)| hashes / 3).collect();
        assert_eq!(rows, [1, 0, 3]);
        assert_clean(&verify(&folder, &replayed.path, load));

        let replay = "replay --db sqlite workloade --url test.db --phase run --threads 4 --verify";
        let replayed = folder.ok(replay).result(&folder);
        assert_eq!(replayed.count(Status::Ok), 1000);
        let scan = &replayed.meta.server.statements["SCAN"];
        assert!(scan.ends_with("WHERE YCSB_KEY >= ? ORDER BY YCSB_KEY LIMIT ?"), "{scan}");
        let trace = Generated::read(&folder.path("traces/workloade.run.parquet"));
        for (row, (_, hashes)) in trace.rows.iter().zip(observations(&replayed.path)) {
            assert!(hashes <= 3 * row.scan_len as usize, "operation {}", row.id);
        }
        assert_clean(&verify(&folder, &replayed.path, "--db sqlite --url test.db"));

        let again = folder.ok(replay);
        let replayed = again.result(&folder);
        let inserts = ids(&trace.rows, |row| row.kind == OpKind::Insert).len();
        assert_eq!(replayed.count(Status::Duplicate), inserts);
        assert_eq!(replayed.count(Status::Ok), 1000 - inserts);
        assert!(again.out.contains("hint: rows to insert were there already"), "{}", again.out);
        let answer = verify(&folder, &replayed.path, "");
        let notes = answer["history"]["notes"].to_string();
        assert!(notes.contains("not loaded afresh"), "{answer:#}");
    }

    #[test]
    fn a_row_that_scans_leave_out_has_vanished() {
        let folder = Folder::in_memory();
        folder
            .ok("gen workloade --records 60 --ops 400 -p fieldcount=2 -p fieldlength=12 -p maxscanlength=20");
        folder.ok("replay --db sqlite workloade --url test.db --phase load");
        let trace = Generated::read(&folder.path("traces/workloade.run.parquet"));
        let mut keys: Vec<String> = Generated::read(&folder.path("traces/workloade.load.parquet"))
            .rows
            .into_iter()
            .map(|row| row.key)
            .collect();
        keys.sort();
        let gone = &keys[30];
        change(&folder, "DELETE FROM usertable WHERE ycsb_key = ?", &[gone]);
        let ran = folder.ok("replay --db sqlite workloade --url test.db --phase run --threads 4 --verify");
        let answer = verify(&folder, &ran.result(&folder).path, "");
        let named = found(&answer, "vanished");
        // Certainly those that begin with it; others by how far they reach.
        let from_it = ids(&trace.rows, |row| row.kind == OpKind::Scan && row.key == *gone);
        assert!(!from_it.is_empty() && named.is_superset(&from_it), "{from_it:?} of {named:?}");
        for id in &named {
            let row = &trace.rows[*id as usize];
            assert!(row.kind == OpKind::Scan && row.key <= *gone, "{} {}", row.id, row.key);
        }
        assert_eq!(answer["history"]["findings"][0]["key"], gone.as_str());
        let in_parts = verify(&folder, &ran.result(&folder).path, "--part-events 500");
        assert_eq!(found(&in_parts, "vanished"), named);
    }

    #[test]
    fn a_result_without_values_and_a_wrong_trace_are_refused() {
        let folder = Folder::in_memory();
        folder.ok("gen workloadc --records 10 --ops 10 --seed 1");
        folder.ok("replay --db sqlite workloadc --url test.db --phase load");
        let plain = folder.ok("replay --db sqlite workloadc --url test.db --phase run").result(&folder);
        let ran = folder.run(&format!("verify {}", plain.path.display())).expect_code(2);
        assert!(ran.err.contains("replay with --verify"), "{}", ran.err);
        let logged =
            folder.ok("replay --db sqlite workloadc --url test.db --phase run --verify").result(&folder);
        let text = folder.ok(&format!("verify {}", logged.path.display()));
        assert!(text.out.contains("every one can be right"), "{}", text.out);
        folder.ok("gen workloadc --records 10 --ops 10 --seed 2 --force");
        let ran = folder.run(&format!("verify {}", logged.path.display())).expect_code(2);
        assert!(ran.err.contains("other content than the trace that was replayed"), "{}", ran.err);
    }

    #[test]
    fn the_table_is_compared_with_what_the_log_allows() {
        let folder = Folder::in_memory();
        folder.ok("gen workloada --records 40 --ops 400 -p fieldcount=1 -p fieldlength=20");
        let ran = folder.ok("replay --db sqlite workloada --url test.db --threads 4 --verify");
        let result = ran.result(&folder).path;
        let table = |answer: &Value| answer["table"].clone();
        let clean = verify(&folder, &result, "--db sqlite --url test.db");
        assert_clean(&clean);
        assert_eq!((&table(&clean)["keys"], &table(&clean)["rows"]), (&40.into(), &40.into()));

        // Back to its first value: a value of the trace, but not one that may be the last.
        let load = Generated::read(&folder.path("traces/workloada.load.parquet"));
        let run = Generated::read(&folder.path("traces/workloada.run.parquet"));
        let updated = run.rows.iter().find(|row| row.kind == OpKind::Update).expect("an update");
        let first = load.rows.iter().find(|row| row.key == updated.key).expect("its load");
        let value = String::from_utf8(first.values.clone().expect("values")[0].clone()).expect("text");
        change(&folder, "UPDATE usertable SET field0 = ? WHERE ycsb_key = ?", &[&value, &updated.key]);
        let other = load.rows.iter().find(|row| row.key != updated.key).expect("another row");
        change(&folder, "DELETE FROM usertable WHERE ycsb_key = ?", &[&other.key]);
        change(&folder, "INSERT INTO usertable VALUES ('zz', 'zz')", &[]);
        let answer = verify(&folder, &result, "--db sqlite --url test.db");
        let violations = &table(&answer)["violations"];
        assert_eq!(violations["wrong value"], 1, "{answer:#}");
        assert_eq!(violations["missing row"], 1, "{answer:#}");
        assert_eq!(violations["row of neither trace"], 1, "{answer:#}");
        assert!(table(&answer)["findings"].to_string().contains(&updated.key), "{answer:#}");
    }

    #[test]
    fn a_transaction_loses_no_update_on_embedded_databases() {
        for db in ["sqlite", "fjall"] {
            if db == "fjall" && cfg!(not(feature = "fjall")) {
                continue;
            }
            let folder = Folder::in_memory();
            folder.ok(
                "gen workloadf --records 1 --ops 2000 -p readmodifywriteproportion=1 -p readproportion=0",
            );
            let replay =
                format!("replay --db {db} workloadf --url test.{db} --threads 8 --rmw transaction --verify");
            let replayed = folder.ok(&replay).result(&folder);
            assert_eq!(replayed.count(Status::Ok), 2000, "{:?}", replayed.meta.counts);
            assert_eq!(replayed.meta.config["rmw"], "transaction");
            assert_clean(&verify(&folder, &replayed.path, &format!("--db {db} --url test.{db}")));
        }
    }

    #[test]
    fn concurrent_operations_never_give_a_false_alarm_on_sqlite() {
        no_false_alarm(|_| ["--db", "sqlite", "--url", "test.db"].map(str::to_owned).to_vec());
    }
}

#[cfg(feature = "fjall")]
#[test]
fn concurrent_operations_never_give_a_false_alarm_on_fjall() {
    no_false_alarm(|_| ["--db", "fjall", "--url", "test.fjall"].map(str::to_owned).to_vec());
}

/// Twenty seeds of everything at once on few rows, with long values and with such that several
/// writes share.
fn no_false_alarm(database: impl Fn(u64) -> Vec<String>) {
    let mut undecided = 0;
    for seed in 1..=20 {
        let folder = Folder::in_memory();
        let length = if seed % 5 == 0 { 1 } else { 12 };
        folder.ok(&format!(
            "gen workloada --seed {seed} --records 12 --ops 800 -p fieldcount=3 -p fieldlength={length} \
             -p readproportion=0.35 -p updateproportion=0.3 -p readmodifywriteproportion=0.25 \
             -p insertproportion=0.05 -p scanproportion=0.05 -p maxscanlength=10"
        ));
        let place = database(seed);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut replay = words("replay workloada --threads 8 --verify=fail --retries 3");
        replay.extend(place.iter().cloned());
        let ran = folder.run_list(&replay).expect_code(0);
        let result = ran.result(&folder).path;
        let parts = if seed % 2 == 0 { "--part-events 700" } else { "" };
        let mut command = words(&format!("verify {} --format json {parts}", result.display()));
        command.extend(place);
        let ran = folder.run_list(&command).expect_code(0);
        let answer: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_clean(&answer);
        undecided += answer["history"]["undecided"].as_u64().expect("a count");
    }
    assert!(undecided > 0, "values of one byte are shared");
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::support::block_on;
    use crate::support::postgres::{client, database};

    fn execute(name: &str, text: &str) {
        block_on(async { client(name).await.batch_execute(text).await.expect("a statement") });
    }

    /// A loaded database, its URL, and the run trace.
    fn loaded(folder: &Folder, name: &str, workload: &str, options: &str) -> (String, Generated) {
        folder.ok(&format!("gen {workload} -p fieldcount=1 -p fieldlength=20 {options}"));
        let url = block_on(database(name));
        folder.ok(&format!("replay --db postgres {workload} --url {url} --phase load"));
        (url, Generated::read(&folder.path(&format!("traces/{workload}.run.parquet"))))
    }

    fn replay(folder: &Folder, workload: &str, url: &str, options: &str) -> Replayed {
        let command = format!("replay --db postgres {workload} --url {url} --phase run --verify {options}");
        folder.ok(&command).result(folder)
    }

    const ONE_KEY: &str = "--records 1 --ops 2000 -p readmodifywriteproportion=1 -p readproportion=0";

    #[test]
    fn every_committed_transaction_under_contention_counts() {
        let folder = Folder::new();
        let (url, _) = loaded(&folder, "contention", "workloadf", ONE_KEY);
        let options = "--threads 16 --retries 50 --rmw transaction";
        let replayed = replay(&folder, "workloadf", &url, options);
        assert_eq!(replayed.rows.len(), 2000);
        assert_eq!(replayed.count(Status::Ok), 2000, "{:?}", replayed.meta.errors);
        let retried = observations(&replayed.path).iter().filter(|(attempts, _)| *attempts > 1).count();
        assert!(retried > 0, "nothing conflicted");
        assert_clean(&verify(&folder, &replayed.path, &format!("--db postgres --url {url}")));
    }

    #[test]
    fn without_retries_a_conflict_is_called_one() {
        let folder = Folder::new();
        let (url, _) = loaded(&folder, "conflicts", "workloadf", ONE_KEY);
        let replayed = replay(&folder, "workloadf", &url, "--threads 16 --rmw transaction");
        let conflicts = replayed.count(Status::Conflict);
        assert!(conflicts > 0);
        assert_eq!(replayed.count(Status::Ok) + conflicts, 2000, "{:?}", replayed.meta.errors);
        let conflicting = replayed.rows.iter().filter(|row| row.status == Status::Conflict);
        conflicting.for_each(|row| assert_eq!(row.code, "40001"));
        assert_clean(&verify(&folder, &replayed.path, &format!("--db postgres --url {url}")));
    }

    #[test]
    fn lost_updates_are_counted_where_they_are_allowed_and_blamed_where_not() {
        let folder = Folder::new();
        let (url, _) = loaded(&folder, "lost_updates", "workloadf", ONE_KEY);
        let statements = replay(&folder, "workloadf", &url, "--threads 16");
        let answer = verify(&folder, &statements.path, "");
        assert_clean(&answer);
        assert!(answer["history"]["lost_updates_allowed"].as_u64() > Some(0), "{answer:#}");

        folder.ok(&format!("replay --db postgres workloadf --url {url} --phase load --drop"));
        let options = "--threads 16 --rmw transaction -p pg.isolation=read-committed";
        let replayed = replay(&folder, "workloadf", &url, options);
        let answer = verify(&folder, &replayed.path, "");
        found(&answer, "lost update");
        let pair = answer["history"]["findings"][0]["ops"].as_array().expect("a list");
        assert_eq!(pair.len(), 2, "{answer:#}");
    }

    /// The most-read key of workload A, and a trigger that silently undoes every update of it.
    fn undoing(folder: &Folder, name: &str) -> (String, Generated, String) {
        let (url, trace) = loaded(folder, name, "workloada", "--records 30 --ops 600");
        let key = favourite(&trace);
        execute(
            name,
            &format!(
                "CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$; \
                 CREATE TRIGGER undo BEFORE UPDATE ON usertable FOR EACH ROW \
                 WHEN (OLD.ycsb_key = '{key}') EXECUTE FUNCTION undo()"
            ),
        );
        (url, trace, key)
    }

    #[test]
    fn reads_after_an_update_that_was_undone_are_stale() {
        let folder = Folder::new();
        let (url, trace, key) = undoing(&folder, "undone");
        let replayed = replay(&folder, "workloada", &url, "");
        assert_eq!(replayed.count(Status::Ok), 600, "a replay alone cannot see it");
        let of_key = |row: &TraceRow| row.key == key;
        let first =
            *ids(&trace.rows, |row| of_key(row) && row.kind == OpKind::Update).first().expect("an update");
        let expected = ids(&trace.rows, |row| of_key(row) && row.kind == OpKind::Read && row.id > first);
        assert!((1..100).contains(&expected.len()));
        let answer = verify(&folder, &replayed.path, "");
        assert_eq!(found(&answer, "stale"), expected);
        let finding = &answer["history"]["findings"][0];
        assert_eq!(finding["key"], key);
        let what = format!("read the value of the load, which operation {first} had overwritten before");
        assert_eq!(finding["what"], what);
    }

    #[test]
    fn stale_reads_are_found_among_concurrent_ones() {
        let folder = Folder::new();
        let (url, trace, key) = undoing(&folder, "undone_at_once");
        let replayed = replay(&folder, "workloada", &url, "--threads 8");
        let stale = found(&verify(&folder, &replayed.path, ""), "stale");
        let of_key = ids(&trace.rows, |row| row.key == key && row.kind == OpKind::Read);
        assert!(!stale.is_empty() && stale.is_subset(&of_key), "{stale:?}");
        // The last read began after all but a handful of operations had ended.
        assert!(stale.contains(of_key.last().expect("a read")), "{stale:?}");
    }

    #[test]
    fn a_value_changed_from_outside_is_corrupt_until_it_is_overwritten() {
        let folder = Folder::new();
        let (url, trace) = loaded(&folder, "outside", "workloada", "--records 30 --ops 600");
        let key = favourite(&trace);
        execute("outside", &format!("UPDATE usertable SET field0 = 'outside' WHERE ycsb_key = '{key}'"));
        let replayed = replay(&folder, "workloada", &url, "");
        let of_key = |row: &TraceRow| row.key == key;
        let first =
            *ids(&trace.rows, |row| of_key(row) && row.kind == OpKind::Update).first().expect("an update");
        let expected = ids(&trace.rows, |row| of_key(row) && row.kind == OpKind::Read && row.id < first);
        assert!(!expected.is_empty(), "the most-read key is read before it is written");
        assert_eq!(found(&verify(&folder, &replayed.path, ""), "corrupt"), expected);
        let online: BTreeSet<u64> =
            replayed.rows.iter().filter(|row| row.status == Status::Mismatch).map(|row| row.op_id).collect();
        assert_eq!(online, expected);
    }

    #[test]
    fn rows_deleted_from_outside_have_vanished() {
        let folder = Folder::new();
        let (url, trace) = loaded(&folder, "deleted", "workloada", "--records 30 --ops 600");
        let key = favourite(&trace);
        execute("deleted", &format!("DELETE FROM usertable WHERE ycsb_key = '{key}'"));
        let replayed = replay(&folder, "workloada", &url, "--threads 4");
        let expected = ids(&trace.rows, |row| row.key == key);
        let answer = verify(&folder, &replayed.path, "");
        assert_eq!(answer["history"]["violations"]["vanished"], expected.len());
        let named = found(&answer, "vanished");
        assert!(named.is_subset(&expected) && named.len() == expected.len().min(100));
    }

    #[test]
    fn an_insert_that_was_confirmed_and_is_not_there_has_vanished() {
        let folder = Folder::new();
        let (url, trace) = loaded(&folder, "lost_insert", "workloadd", "--records 30 --ops 2000");
        let inserted = ids(&trace.rows, |row| {
            row.kind == OpKind::Insert && trace.rows.iter().any(|other| other.after == Some(row.id))
        });
        let insert = &trace.rows[*inserted.first().expect("an insert that is read") as usize];
        let key = &insert.key;
        execute(
            "lost_insert",
            &format!(
                "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN DELETE FROM usertable WHERE ycsb_key = '{key}'; RETURN NULL; END $$; \
                 CREATE TRIGGER lose AFTER INSERT ON usertable FOR EACH ROW \
                 WHEN (NEW.ycsb_key = '{key}') EXECUTE FUNCTION lose()"
            ),
        );
        let replayed = replay(&folder, "workloadd", &url, "--threads 4");
        let expected = ids(&trace.rows, |row| row.key == *key && row.kind == OpKind::Read);
        let answer = verify(&folder, &replayed.path, "");
        assert_eq!(found(&answer, "vanished"), expected);
        let what = format!("not found, although operation {} had inserted the row before", insert.id);
        assert_eq!(answer["history"]["findings"][0]["what"], what);
    }

    fn with_options(name: &'static str, options: &'static str) -> impl Fn(u64) -> Vec<String> {
        move |seed| {
            let url = block_on(database(&format!("{name}_{seed}")));
            let words = ["--db", "postgres", "--url", &url, "-p", options];
            words.map(str::to_owned).to_vec()
        }
    }

    #[test]
    fn concurrent_operations_never_give_a_false_alarm_under_read_committed() {
        no_false_alarm(with_options("calm", "pg.options=-c default_transaction_isolation=read\\ committed"));
    }

    #[test]
    fn concurrent_operations_never_give_a_false_alarm_under_serializable() {
        no_false_alarm(with_options("strict", "pg.options=-c default_transaction_isolation=serializable"));
    }
}
