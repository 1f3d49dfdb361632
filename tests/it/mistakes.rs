//! Mistakes are a table: arguments in, complaint out. Then those that need a database, a file in
//! the way or a full disk.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use rustix::process::{Resource, Rlimit, prlimit};
use ycsb_trace::trace::chunk::TraceWriter;
use ycsb_trace::trace::meta::{Phase, TraceMeta};

use crate::analyze::Run;
use crate::support::block_on;
use crate::support::postgres::{GUARDED, client, database, server};
use crate::support::program::{Folder, Ran, Replayed};

#[track_caller]
fn assert_says(ran: &Ran, fragments: &[&str]) {
    for fragment in fragments {
        assert!(ran.err.contains(fragment), "{fragment:?} is not in:\n{}", ran.err);
    }
}

/// A folder with everything that can be mistaken for something else.
fn folder_of_mistakes() -> Folder {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20");
    folder.ok("gen workloadb --records 10 --ops 20 --phase run");
    let result = folder.ok("replay --db sim workloada --phase run").results(&folder).remove(0);
    std::fs::rename(result, folder.path("result.parquet")).expect("the same folder");
    let trace = std::fs::read(folder.path("traces/workloada.run.parquet")).expect("just written");
    folder.write("cut.parquet", &trace[..trace.len() / 2]);
    folder.write("empty.parquet", "");
    folder.write("words.parquet", "these are words, and nothing but words");
    folder.write("in_the_way", "");
    foreign(&folder.path("foreign.parquet"));

    let newer = TraceMeta {
        format_version: 99,
        generator: "ycsb-trace 9.9.9".into(),
        ..TraceMeta::empty("future", Phase::Run)
    };
    let writer = TraceWriter::create(&folder.path("newer.parquet"), false).expect("a writable folder");
    writer.finish(newer).expect("a writable folder");
    let mut run = Run::new("sim");
    run.meta.format_version = 99;
    run.meta.generator = "ycsb-trace 9.9.9".into();
    let path = run.write(&folder.path("."), 1);
    std::fs::rename(path, folder.path("newer_result.parquet")).expect("the same folder");
    folder
}

/// A Parquet file of somebody else's.
fn foreign(path: &Path) {
    let column = Arc::new(Int64Array::from(vec![1, 2, 3])) as arrow_array::ArrayRef;
    let batch = RecordBatch::try_from_iter([("number", column)]).expect("one column");
    let file = File::create(path).expect("a writable folder");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("a writable folder");
    writer.close().expect("a writable folder");
}

/// (arguments, exit code, what the complaint has to contain)
const MISTAKES: &[(&str, i32, &[&str])] = &[
    // The command line itself.
    ("", 2, &["Usage:", "replay"]),
    ("frobnicate", 2, &["frobnicate"]),
    ("rplay --db sim", 2, &["rplay", "'replay'"]),
    ("gen workloada --recrods 5", 2, &["--recrods", "'--records'"]),
    ("gen workloada --values big", 2, &["big", "inline, seeded"]),
    ("replay workloada", 2, &["--db <NAME>"]),
    ("replay --db sim workloada --order random", 2, &["random", "deps", "none"]),
    ("replay --db sim workloada --interval soon", 2, &["\"soon\" is not a duration"]),
    ("replay --db sim workloada --threads 0", 2, &["0 connections", "--threads"]),
    ("replay --db sim workloada --threads 1000000", 2, &["1000000 connections", "10,000"]),
    ("replay --db sim workloada -p threadcount=two", 2, &["threadcount=\"two\" (-p) is not a number"]),
    ("replay --db sim workloada --lanes 0", 2, &["--lanes 0"]),
    ("replay --db sim workloada --target=-5", 2, &["--target -5", "above 0"]),
    ("replay --db sim workloada --target NaN", 2, &["--target NaN"]),
    ("replay --db sim workloada --speed 2", 2, &["--speed", "no", "arrival times", "--target"]),
    ("replay --db sim workloada --speed 2 --target 5", 2, &["--speed", "--target", "one of the two"]),
    ("replay --db sim workloada --max-error-rate 7", 2, &["--max-error-rate 7", "from 0 to 1"]),
    ("replay --db sim workloada -p sim.latency=slow", 2, &["sim.latency", "slow"]),
    // Names.
    ("replay --db oracle workloada", 2, &["\"oracle\"", "sim", "sqlite", "fjall", "postgres"]),
    ("databases oracle", 2, &["\"oracle\"", "sqlite"]),
    ("gen", 2, &["which workload?", "-P"]),
    ("gen workloadx", 2, &["no workload workloadx", "workloada", "go_workloadf"]),
    ("gen -P nothere.properties", 2, &["cannot read the property file nothere.properties"]),
    ("workloads workloadx", 2, &["workloadx", "workloada"]),
    ("gen workloada --shard 3/3", 2, &["--shard 3/3", "0/3"]),
    ("gen workloada --shards 0", 2, &["--shards 0"]),
    ("gen workloada --arrival poisson", 2, &["--rate"]),
    ("gen workloada --arrival poisson --rate 0", 2, &["--rate 0"]),
    ("gen workloada -o in_the_way", 2, &["cannot create the folder in_the_way"]),
    // Files.
    ("replay --db sim nothere", 2, &["no trace nothere", "ycsb-trace gen nothere"]),
    ("replay --db sim nothere.parquet", 2, &["no trace file nothere.parquet"]),
    ("replay --db sim workloadb --phase load", 2, &["no load phase"]),
    ("replay --db sim traces/workloada.load.parquet --phase run", 2, &["no run phase"]),
    ("replay --db sim cut.parquet", 2, &["cut.parquet is not a complete Parquet file", "copy it again"]),
    ("replay --db sim empty.parquet", 2, &["empty.parquet is not a complete Parquet file"]),
    ("replay --db sim words.parquet", 2, &["words.parquet is not a complete Parquet file"]),
    ("replay --db sim foreign.parquet", 2, &["foreign.parquet is a Parquet file, but neither a trace nor"]),
    ("replay --db sim result.parquet", 2, &["result.parquet is a result, but a trace is needed here"]),
    ("replay --db sim newer.parquet", 2, &["format version 99", "up to 1", "ycsb-trace 9.9.9"]),
    ("replay --db sim workloada --results in_the_way", 2, &["cannot write results", "in_the_way"]),
    ("analyze nothere.parquet", 2, &["nothere.parquet"]),
    ("analyze cut.parquet", 2, &["cut.parquet is not a complete Parquet file", "ycsb-trace repair"]),
    ("analyze foreign.parquet", 2, &["foreign.parquet is a Parquet file, but neither a trace nor"]),
    ("analyze newer_result.parquet", 2, &["format version 99", "up to 2", "ycsb-trace 9.9.9"]),
    ("analyze traces/workloada.run.parquet", 2, &["is a trace, but a result is needed here"]),
    ("analyze result.parquet --percentiles 101", 2, &["\"101\" is not a percentile"]),
    ("analyze result.parquet -o in_the_way", 2, &["in_the_way exists already", "--force"]),
    ("inspect words.parquet", 2, &["words.parquet is not a complete Parquet file"]),
    ("inspect nothere", 2, &["cannot read nothere"]),
    ("inspect .", 2, &["cannot read .", "folder"]),
    ("repair nothere", 2, &["cannot list nothere"]),
    // Targets.
    ("replay --db sqlite workloada --url missing/x.db", 3, &["no folder missing"]),
    ("replay --db sqlite workloada --url words.parquet", 3, &["words.parquet is not an SQLite database"]),
    ("replay --db sqlite workloada --url new.db --phase run", 3, &["new.db", "--phase load"]),
    ("replay --db sqlite workloada --url x.db -p sqlite.journalmode=LOUD", 2, &["journalmode", "WAL"]),
    ("replay --db sqlite workloada --url x.db --table a;b", 2, &["\"a;b\""]),
    ("replay --db postgres workloada --url postgres://127.0.0.1:1/x", 3, &["127.0.0.1:1"]),
    ("replay --db postgres workloada --url nonsense://127.0.0.1", 2, &["--url is not a connection URL"]),
];

#[test]
fn each_mistake_has_its_exit_code_and_a_complaint_that_names_it_and_changes_nothing() {
    let folder = folder_of_mistakes();
    let contents = || [".", "traces", "results"].map(|name| folder.names(name));
    let mut before = contents();
    let mut wrong = Vec::new();
    for (arguments, code, fragments) in MISTAKES {
        let ran = folder.run(arguments);
        let missing: Vec<_> = fragments.iter().filter(|fragment| !ran.err.contains(**fragment)).collect();
        let said = &ran.err;
        if ran.code != Some(*code) || !missing.is_empty() {
            wrong.push(format!(
                "{arguments}\n  code {:?}, not {code}; missing {missing:?} in: {said}",
                ran.code
            ));
        }
        if ran.out.contains("panicked") || said.contains("panicked") || said.contains("RUST_BACKTRACE") {
            wrong.push(format!("{arguments}\n  panicked: {said}"));
        }
        if contents() != before {
            before = contents();
            wrong.push(format!("{arguments}\n  left {before:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_server_that_refuses_is_exit_code_3_before_any_operation() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20 -p fieldcount=2");
    let url = block_on(database("refusals"));
    let port = server().port;
    let replay = |url: &str, options: &str| {
        folder.run(&format!("replay --db postgres workloada --url {url} {options}")).expect_code(3)
    };
    let wrong = replay(&format!("postgres://{GUARDED}:wrong@127.0.0.1:{port}/refusals"), "");
    assert_says(&wrong, &["refused user guarded", "password", "PGPASSWORD"]);
    let missing = replay(&url.replace("refusals", "no_such_database"), "");
    assert_says(&missing, &["no such database", "no_such_database"]);
    let no_table = replay(&url, "--phase run");
    assert_says(&no_table, &["no table usertable", "--phase load"]);
    block_on(async {
        let client = client("refusals").await;
        client.batch_execute("CREATE TABLE usertable (YCSB_KEY text, FIELD0 text)").await.expect("created");
    });
    let no_column = replay(&url, "--phase run");
    assert_says(&no_column, &["usertable", "no column field1"]);
    assert!(folder.names("results").is_empty());
}

#[test]
fn an_sqlite_table_without_the_traces_columns_is_exit_code_3() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20 -p fieldcount=2");
    let connection = rusqlite::Connection::open(folder.path("test.db")).expect("the database opens");
    connection.execute_batch("CREATE TABLE other (x)").expect("created");
    let replay = "replay --db sqlite workloada --url test.db --phase run";
    assert_says(&folder.run(replay).expect_code(3), &["no table usertable", "--phase load"]);
    connection.execute_batch("CREATE TABLE usertable (YCSB_KEY text, FIELD0 text)").expect("created");
    assert_says(&folder.run(replay).expect_code(3), &["no column field1"]);
    assert!(folder.names("results").is_empty());
}

#[test]
fn a_table_that_holds_rows_is_never_touched_without_being_told() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20 -p fieldcount=2");
    let url = block_on(database("precious"));
    let table = "CREATE TABLE usertable (YCSB_KEY text PRIMARY KEY, FIELD0 text, FIELD1 text); \
                 INSERT INTO usertable VALUES ('precious', 'a', 'b')";
    let content = "SELECT YCSB_KEY || FIELD0 || FIELD1 FROM usertable";
    let connection = rusqlite::Connection::open(folder.path("test.db")).expect("the database opens");
    connection.execute_batch(table).expect("created");
    block_on(async { client("precious").await.batch_execute(table).await.expect("created") });
    for target in ["sqlite --url test.db".to_owned(), format!("postgres --url {url}")] {
        let ran = folder.run(&format!("replay workloada --db {target}")).expect_code(2);
        assert_says(&ran, &["usertable", "already holds rows", "--drop", "--phase run"]);
    }
    assert!(folder.names("results").is_empty());
    let rows = |connection: &rusqlite::Connection| -> Vec<String> {
        let mut statement = connection.prepare(content).expect("the table is there");
        let rows = statement.query_map([], |row| row.get(0)).expect("the columns are there");
        rows.map(|row| row.expect("text")).collect()
    };
    assert_eq!(rows(&connection), ["preciousab"]);
    let found = block_on(async { client("precious").await.query(content, &[]).await.expect("readable") });
    assert_eq!(found.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["preciousab"]);

    // And when told.
    for target in ["sqlite --url test.db".to_owned(), format!("postgres --url {url}")] {
        folder.ok(&format!("replay workloada --db {target} --drop --phase load"));
    }
    assert_eq!(rows(&connection).len(), 10);
}

#[test]
fn an_existing_trace_is_reused_if_it_is_the_same_and_otherwise_left_alone() {
    let folder = Folder::new();
    let state = |name: &str| {
        let path = folder.path(name);
        let modified = std::fs::metadata(&path).and_then(|file| file.modified()).expect("it is there");
        (std::fs::read(&path).expect("readable"), modified)
    };
    let base = "gen workloada -p recordcount=10 -p operationcount=20";
    let names = ["traces/workloada.load.parquet", "traces/workloada.run.parquet"];
    folder.ok(base);
    let before = names.map(state);
    let again = folder.ok(base);
    assert_eq!(again.out.matches("is there already, with the same content").count(), 2, "{}", again.out);
    for other in ["--seed 2", "--records 11", "--values seeded", "-p fieldlength=5"] {
        let ran = folder.run(&format!("{base} {other}")).expect_code(2);
        let complaint = "workloada.load.parquet holds another trace (seed 1, 10 operations)";
        assert_says(&ran, &[complaint, "--force", "-o"]);
    }
    // What only the run phase reads makes another run trace and the same load trace.
    for other in ["--ops 21", "--arrival uniform --rate 5", "-p requestdistribution=latest"] {
        let ran = folder.run(&format!("{base} {other}")).expect_code(2);
        assert_says(&ran, &["workloada.run.parquet holds another trace (seed 1, 20 operations)"]);
        assert!(ran.out.contains("workloada.load.parquet is there already"), "{other}: {}", ran.out);
    }
    assert!(names.map(state) == before, "an existing trace was changed");

    folder.write("traces/workloadb.load.parquet", "mine");
    let ran = folder.run("gen workloadb --records 10 --ops 20").expect_code(2);
    assert_says(&ran, &["workloadb.load.parquet is in the way", "--force"]);
    assert_eq!(state("traces/workloadb.load.parquet").0, b"mine");
    folder.ok(&format!("{base} --seed 2 --force"));
    assert!(names.map(state) != before);
}

/// The program with a limit on the size of files, in blocks of 512 bytes: a disk that is full.
fn run_on_a_full_disk(folder: &Folder, blocks: u32, arguments: &str) -> Ran {
    let program = folder.command(&[arguments]);
    let mut shell = std::process::Command::new("sh");
    let script = format!("ulimit -f {blocks}; exec \"$0\" {arguments}");
    shell.arg("-c").arg(script).arg(program.get_program()).current_dir(folder.path("."));
    Ran::of(shell)
}

#[test]
fn a_disk_too_full_for_a_trace_is_reported_and_leaves_nothing_behind() {
    let folder = Folder::new();
    // One fails while it is written, the other, small enough to be buffered, at its end.
    for (records, blocks) in [(20_000, 64), (200, 8)] {
        let ran =
            run_on_a_full_disk(&folder, blocks, &format!("gen workloada --records {records} --phase load"));
        assert!(ran.code.is_some_and(|code| code != 0), "code {:?}: {}", ran.code, ran.err);
        assert_says(&ran, &["cannot write traces/workloada.load.parquet"]);
        assert!(folder.names("traces").is_empty(), "{:?}", folder.names("traces"));
    }
}

#[test]
fn a_disk_that_fills_up_when_the_segments_are_joined_keeps_every_row_for_a_repair() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20000 -p fieldcount=1 -p fieldlength=5 --phase run");
    let mut running = folder.start("replay --db sim workloada --phase run --target 2000");
    let begin = running.wait_for_start();
    let first_segment = || {
        let hidden = folder.names("results").into_iter().find(|name| name.ends_with(".segments"))?;
        let path = folder.path(&format!("results/{hidden}/000000.parquet"));
        Some(std::fs::metadata(path).ok()?.len())
    };
    let size = loop {
        match first_segment() {
            // It has its name when it is complete.
            Some(size) => break size,
            None => assert!(begin.elapsed() < Duration::from_secs(20), "no segment was closed"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // Room for another segment like it, but not for the three of this run in one file.
    let nearly_full = Rlimit { current: Some(size + size / 2), maximum: None };
    prlimit(Some(running.pid()), Resource::Fsize, nearly_full).expect("a child of this process");
    let ran = running.wait().expect_code(1);
    assert_says(
        &ran,
        &["the result could not be written", "results/.workloada.run-sim-", "ycsb-trace repair"],
    );
    assert!(
        folder.names("results").iter().all(|name| name.starts_with('.')),
        "{:?}",
        folder.names("results")
    );
    let repaired = folder.ok("repair");
    let path = repaired.out.split(": ").next().expect("the name of the file");
    let replayed = Replayed::read(&folder.path(path));
    assert_eq!(replayed.unique_ids(), (0..20_000).collect::<Vec<_>>());
}

#[test]
fn a_disk_that_fills_up_ends_the_replay_and_keeps_what_was_closed() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 60000 -p fieldcount=1 -p fieldlength=5 --phase run");
    let mut running = folder.start("replay --db sim workloada --phase run --target 2000");
    let begin = running.wait_for_start();
    let segments = || {
        let hidden = folder.names("results").into_iter().find(|name| name.ends_with(".segments"));
        hidden.map(|name| folder.names(&format!("results/{name}"))).unwrap_or_default()
    };
    while !segments().contains(&"000000.parquet".to_owned()) {
        assert!(begin.elapsed() < Duration::from_secs(20), "no segment was closed: {:?}", segments());
        std::thread::sleep(Duration::from_millis(20));
    }
    let full = Rlimit { current: Some(0), maximum: None };
    prlimit(Some(running.pid()), Resource::Fsize, full).expect("a child of this process");
    let since = Instant::now();
    let ran = running.wait().expect_code(1);
    assert!(ran.since(since) < Duration::from_secs(10), "{:?}", ran.since(since));
    assert_says(
        &ran,
        &["the result could not be written", "results/.workloada.run-sim-", "ycsb-trace repair"],
    );

    let again = run_on_a_full_disk(&folder, 1, "repair");
    assert!(again.code.is_some_and(|code| code != 0), "code {:?}: {}", again.code, again.err);
    assert_says(&again, &["cannot write"]);
    let repaired = folder.ok("repair");
    let path = repaired.out.split(": ").next().expect("the name of the file");
    let replayed = Replayed::read(&folder.path(path));
    assert!(replayed.rows.len() > 2_000 * 4, "{} rows", replayed.rows.len());
    let kept = replayed.unique_ids();
    assert_eq!(kept.last(), Some(&(kept.len() as u64 - 1)), "a beginning of the run without gaps");
    assert!(!replayed.meta.complete);
    assert_eq!(folder.names("results").len(), 1, "{:?}", folder.names("results"));
}
