//! `load` and `run`: the command lines of YCSB and go-ycsb, and reports that their users' scripts can
//! go on reading. What real runs of both tools printed is in `tests/golden/reports`; the first line of
//! each file says how it was made.

use ycsb_trace::op::OpKind;

use crate::support::program::Folder;
use crate::support::reports::{result, sample, shape, shapes, without_properties};

#[test]
fn shapes_are_what_is_left_without_numbers() {
    assert_eq!(shape("[READ], 95thPercentileLatency(us), 1109"), "[READ], 95thPercentileLatency(us), #");
    assert_eq!(shape("READ   - Takes(s): 2.5, Count: 2500"), "READ   - Takes(s): #, Count: #");
    assert_eq!(shape("Run finished, takes 2.504130905s"), "Run finished, takes #");
    assert_eq!(shape("[READ: Count=911, 50=1077, 99.99=18191] "), "[READ: Count=#, #=#, #=#] ");
}

#[test]
fn reports_of_load_and_run_have_every_line_of_ycsbs_in_its_order() {
    let folder = Folder::new();
    let load = folder.ok("load basic -s -P workloads/workloada -threads 4 -p basicdb.verbose=false");
    assert_eq!(shapes(&load.out), shapes(&sample("ycsb-text-load-a.stdout.txt")));
    assert_eq!(result(&load, &folder).rows.len(), 1000);
    let run = folder.ok(
        "run basic -P workloads/workloada -s -threads 4 -target 2000 -p operationcount=5000 -p status.interval=1 \
         -p basicdb.simulatedelay=1 -p basicdb.randomizedelay=false -p basicdb.verbose=false",
    );
    assert_eq!(shapes(&run.out), shapes(&sample("ycsb-text-run-a-status.stdout.txt")));
    assert!(!run.err.contains("warning"), "every setting is honoured: {}", run.err);
    let replayed = result(&run, &folder);
    assert_eq!((replayed.rows.len(), replayed.meta.sessions), (5000, 4));
    assert_eq!(replayed.meta.closing_ns.len(), 4);
    assert!(run.out.contains("\n[CLEANUP], Operations, 4\n"), "{}", run.out);

    // The lines on standard error, from the first with operations on.
    let status = |text: &str| -> Vec<String> {
        let is_status = |line: &&str| line.contains(" current ops/sec; est completion in");
        text.lines().filter(is_status).map(shape).collect()
    };
    let theirs = status(&sample("ycsb-text-run-a-status.stderr.txt"));
    let ours = status(&run.err);
    assert!(!ours.is_empty() && ours.iter().all(|line| *line == theirs[1]), "{ours:#?}\n{theirs:#?}");
    // The first has no operations yet, the last has them all.
    let lines: Vec<_> = run.err.lines().filter(|line| line.contains(" sec: ")).collect();
    assert!(lines[0].contains(" 0 sec: 0 operations; "), "{lines:#?}");
    let last = lines.last().expect("a line");
    assert!(last.contains(" sec: 5000 operations; ") && !last.contains("est completion"), "{lines:#?}");
}

#[test]
fn reports_follow_the_measurement_properties_of_ycsb() {
    let folder = Folder::new();
    let run = folder.ok("run basic -P workloads/workloade -threads 1");
    assert_eq!(shapes(&run.out), shapes(&sample("ycsb-text-run-e.stdout.txt")));
    // Version 0.17 does not measure scans per record, and has fewer percentiles.
    let run = folder.ok("run basic -P workloads/workloade -threads 1 -p hdrhistogram.percentiles=95,99");
    let mut ours = shapes(&run.out);
    ours.retain(|line| !line.starts_with("[SCAN-LATENCY-PER-RECORD]"));
    assert_eq!(ours, shapes(&sample("ycsb-0.17.0-text-run-e.stdout.txt")));
    let run = folder
        .ok("run basic -P workloads/workloada -threads 2 -target 5000 -p measurement.interval=both \
         -p hdrhistogram.percentiles=50,90,95,99,99.9,99.99");
    // The sample measures the intended times of CLEANUP too; those do not exist.
    let known: Vec<_> = shapes(&sample("ycsb-text-run-a-intended-both.stdout.txt"));
    let ours = shapes(&run.out);
    assert!(ours.iter().all(|line| known.contains(line)), "{ours:#?}");
    let missing: Vec<_> = known.iter().filter(|line| !ours.contains(line)).collect();
    assert!(missing.is_empty(), "{missing:#?}");

    let exported =
        folder.ok("run basic -P workloads/workloada -threads 2 -p exportfile=report.txt -p exporter=x.Y");
    assert_eq!(exported.out, "");
    let report = std::fs::read_to_string(folder.path("report.txt")).expect("the report");
    assert!(report.starts_with("[OVERALL], RunTime(ms), "), "{report}");
    assert!(exported.err.contains("warning: exporter (-p) has no effect"), "{}", exported.err);
}

/// Workload F: both tools measure a read-modify-write, and the read and the update it is made of.
#[test]
fn the_parts_of_a_read_modify_write_add_up_to_the_whole() {
    let folder = Folder::new();
    let settings = "-p basicdb.simulatedelay=1 -p basicdb.randomizedelay=false -p measurement.interval=both";
    let run = folder.ok(&format!("run basic -P workloads/workloadf -threads 4 -target 2000 {settings}"));
    let number = |begin: &str| -> f64 {
        let line = run.out.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("{begin} in {}", run.out)).parse().expect("a number")
    };
    let count = |name: &str| number(&format!("[{name}], Operations, "));
    let sum = |name: &str| count(name) * number(&format!("[{name}], AverageLatency(us), "));
    let whole = count("READ-MODIFY-WRITE");
    assert_eq!((count("READ"), count("UPDATE")), (1000.0, whole));
    // Of every operation, whoever prints it.
    let replayed = result(&run, &folder);
    let service_us = |kind: OpKind| -> f64 {
        let of_kind = replayed.rows.iter().filter(|row| row.kind == kind);
        of_kind.map(|row| (row.end_ns - row.start_ns) as f64 / 1e3).sum()
    };
    let total = service_us(OpKind::Read) + service_us(OpKind::ReadModifyWrite);
    let printed = sum("READ") + sum("UPDATE");
    assert!((printed - total).abs() < 1e-3 * total, "{printed} µs printed, {total} µs in the result");
    assert!((sum("READ-MODIFY-WRITE") - service_us(OpKind::ReadModifyWrite)).abs() < 1e-3 * total);
    // The update ends when the whole does, and both are due at the same time.
    let last = |name: &str| number(&format!("[Intended-{name}], MaxLatency(us), "));
    assert_eq!(last("UPDATE"), last("READ-MODIFY-WRITE"));
    assert!(number("[READ], MinLatency(us), ") >= 1000.0 && number("[UPDATE], MinLatency(us), ") >= 1000.0);
}

#[cfg(feature = "sqlite")]
#[test]
fn a_read_that_fails_is_a_failed_read_and_its_update_is_not_sent() {
    let folder = Folder::new();
    folder.ok("load sqlite -P workloads/workloadf --url t.db -threads 1 -p recordcount=500");
    let more = "-p recordcount=1000 -p requestdistribution=uniform -p readproportion=0 -p readmodifywriteproportion=1";
    let run = folder.ok(&format!("run sqlite -P workloads/workloadf --url t.db -threads 1 {more}"));
    let count = |begin: &str| -> usize {
        let line = run.out.lines().find_map(|line| line.strip_prefix(begin));
        line.map_or(0, |number| number.parse().expect("a number"))
    };
    let missing = count("[READ], Return=NOT_FOUND, ");
    assert!(missing > 100, "{}", run.out);
    assert_eq!(count("[READ-FAILED], Operations, "), missing);
    assert_eq!(count("[READ], Operations, "), 1000 - missing);
    assert_eq!(count("[UPDATE], Return=OK, "), 1000 - missing);
    assert_eq!(count("[READ-MODIFY-WRITE], Operations, "), 1000 - missing);
    assert!(!run.out.contains("[UPDATE-FAILED]"), "{}", run.out);
}

#[cfg(feature = "sqlite")]
#[test]
fn failures_are_reported_where_each_tool_has_them() {
    let folder = Folder::new();
    folder.ok("load sqlite -P workloads/workloada --url t.db -threads 1 -p recordcount=500");
    let both = "-P workloads/workloada --url t.db -p recordcount=1000 -p requestdistribution=uniform";
    let run = folder.ok(&format!("run sqlite -threads 1 {both}"));
    // The two tools give a missing row different names, so the status is left out.
    let status = |text: &str| -> Vec<String> {
        let bare = |line: String| line.replace("Return=NOT_FOUND", "Return=ERROR");
        shapes(text).into_iter().map(bare).collect()
    };
    assert_eq!(status(&run.out), status(&sample("ycsb-text-run-a-failures.stdout.txt")));

    folder.ok(
        "load sqlite -P workloads/workloada --url go.db --threads 1 -p recordcount=500 -p requestdistribution=uniform",
    );
    let both = both.replace("t.db", "go.db");
    let run = folder.ok(&format!("run sqlite --threads 1 -p operationcount=6 {both} --seed 3"));
    let lines = shapes(&without_properties(&run.out));
    let known = shapes(&without_properties(&sample("go-ycsb-run-a-errors.stdout.txt")));
    let unknown: Vec<_> =
        lines.iter().filter(|line| !known.contains(line) && !line.starts_with("READ   -")).collect();
    assert!(unknown.is_empty(), "{unknown:#?}\n{known:#?}");
    assert!(lines.iter().any(|line| line.starts_with("READ_ERROR - Takes(s): #, Count: #")), "{lines:#?}");
}

#[test]
fn reports_of_go_ycsb_have_every_line_of_its() {
    let folder = Folder::new();
    let load = folder.ok("load basic -P workloads/workloada --threads 1 -p insertcount=1000");
    assert_eq!(
        shapes(&without_properties(&load.out)),
        shapes(&without_properties(&sample("go-ycsb-load-a.stdout.txt")))
    );
    assert!(load.out.contains("\"recordcount\"=\"1000\"\n"), "{}", load.out);
    let keys = std::process::Command::new(env!("CARGO_BIN_EXE_ycsb-trace"))
        .args(["inspect", "--json", "traces/go_workloada.load.parquet"])
        .current_dir(folder.path("."))
        .output()
        .expect("the program starts");
    let footer = String::from_utf8(keys.stdout).expect("UTF-8");
    assert!(footer.contains("go-ycsb"), "its keys are go-ycsb's: {footer}");

    let plain = folder.ok(
        "run basic -P workloads/workloadf --threads 4 --target 1000 --interval 1 -p operationcount=2500 \
         -p basicdb.simulatedelay=3",
    );
    let known: Vec<_> = shapes(&without_properties(&sample("go-ycsb-run-f-plain.stdout.txt")));
    let ours = shapes(&without_properties(&plain.out));
    let (head, rest) = ours.split_at(3);
    let (intervals, tail) = rest.split_at(rest.len() - 6);
    assert_eq!((head, tail), (&known[..3], &known[known.len() - 6..]));
    assert!(!intervals.is_empty() && intervals.chunks(4).all(|lines| *lines == known[3..7]), "{ours:#?}");
    for style in ["json", "table"] {
        let run = folder.ok(&format!("run basic -P workloads/workloada --threads 1 -p outputstyle={style}"));
        let theirs = sample(&format!("go-ycsb-run-a-{style}.stdout.txt"));
        let tail = |text: &str| -> Vec<String> {
            let text = without_properties(text);
            let from = text.lines().position(|line| line.starts_with("Run finished")).expect("an end");
            // The width of a table follows its numbers.
            let bare = |line: String| line.replace(['-', ' '], "");
            text.lines().skip(from).map(shape).map(bare).collect()
        };
        assert_eq!(tail(&run.out), tail(&theirs), "{style}");
    }
}

#[test]
fn whose_command_line_it_is_decides_the_report_and_a_flag_overrules() {
    let folder = Folder::new();
    let ycsb = folder.ok("load basic -P workloads/workloada -threads 1");
    assert!(ycsb.out.starts_with("[OVERALL], RunTime(ms), "), "{}", ycsb.out);
    let forced = folder.ok("load basic -P workloads/workloada -threads 1 --report go-ycsb");
    assert!(forced.out.contains("\nINSERT - Takes(s): "), "{}", forced.out);
    assert!(forced.err.contains("traces/workloada.load.parquet is there already"), "{}", forced.err);
    // Another content: another file, and the first is left as it is.
    let other = folder.ok("load basic -P workloads/workloada -threads 1 -p recordcount=7");
    assert!(other.err.contains("trace: traces/workloada-2.load.parquet (7 operations)"), "{}", other.err);
    let run = folder.ok("run basic -P workloads/workloada -threads 1");
    assert!(run.err.contains("trace: traces/workloada.run.parquet"), "beside its load trace: {}", run.err);
    assert_eq!(folder.names("traces").len(), 3);
}

#[test]
fn what_is_not_honoured_is_named_and_mistakes_are_refused() {
    let folder = Folder::new();
    let warned = folder.ok(
        "load basic -P workloads/workloada -threads 1 -p warmuptime=5 -p pg.host=s3cret -p recordcuont=5 \
         -p measurementtype=raw -p silence=false",
    );
    for name in ["warmuptime", "pg.host", "measurementtype", "silence", "recordcuont"] {
        assert!(warned.err.contains(name), "{name}: {}", warned.err);
    }
    assert!(!warned.err.contains("s3cret"), "{}", warned.err);
    for (line, complaint) in [
        ("load", "which database?"),
        ("load nosuchdb -P workloads/workloada", "no database is called \"nosuchdb\""),
        ("load basic -P nowhere.properties", "nowhere.properties"),
        ("load basic -P workloads/workloada --report pdf", "there is no such form"),
        ("run basic -P workloads/workloada -threads 0", "threads"),
        ("run basic -P workloads/workloada -p basicdb.simulatedelay=soon", "basicdb.simulatedelay"),
    ] {
        let refused = folder.run(line).expect_code(2);
        assert!(refused.err.contains(complaint), "{line}: {}", refused.err);
        assert_eq!(refused.out.lines().filter(|line| line.contains("OVERALL")).count(), 0);
    }
}

/// Values of `dataintegrity` are those of the tool, and its report says what reads found of them.
#[cfg(feature = "sqlite")]
#[test]
fn values_with_data_integrity_are_checked_and_the_report_has_ycsbs_block_verify() {
    use crate::support::reports::of_ycsb;
    let folder = Folder::new();
    let line = |verb: &str| {
        format!("{verb} sqlite -P workloads/workloadf -threads 1 -p sqlite.db=x.db -p dataintegrity=true")
    };
    let load = folder.ok(&line("load"));
    assert!(load.out.starts_with("Data integrity is enabled.\n[OVERALL]"), "{}", load.out);
    let table = rusqlite::Connection::open(folder.path("x.db")).expect("the database opens");
    // A value that a real YCSB made, by tests/golden/vectors/dataintegrity.csv.
    let stored = "SELECT field0 FROM usertable WHERE YCSB_KEY = 'user8517097267634966620'";
    let stored: String = table.query_row(stored, [], |row| row.get(0)).expect("the row");
    assert_eq!(
        stored,
        "user8517097267634966620:field0:-557952823:-1809000828:-1392091277:962494139:111674936:1367579768:-15"
    );

    let run = folder.ok(&line("run"));
    assert!(!run.err.contains("warning"), "{}", run.err);
    let names = ["READ", "READ-MODIFY-WRITE", "CLEANUP", "UPDATE", "VERIFY"];
    let expected = [vec!["Data integrity is enabled.".to_owned()], of_ycsb(&names)].concat();
    assert_eq!(shapes(&run.out), expected);
    assert!(run.out.contains("\n[VERIFY], Operations, 1000\n"), "{}", run.out);
    assert!(run.out.contains("\n[VERIFY], Return=OK, 1000"), "{}", run.out);

    // Now some rows are missing and some hold what nobody wrote. One session: what each read finds is known,
    // and a read-modify-write of the wrong field puts it right, because it always writes the same.
    table.execute_batch("DELETE FROM usertable WHERE rowid % 5 = 0").expect("some rows go");
    table.execute_batch("UPDATE usertable SET field3 = 'x' WHERE rowid % 5 = 1").expect("some go wrong");
    let keys = |condition: &str| -> std::collections::HashSet<String> {
        let mut found = table.prepare(&format!("SELECT YCSB_KEY FROM usertable WHERE {condition}")).unwrap();
        found.query_map([], |row| row.get(0)).unwrap().map(|key| key.expect("a key")).collect()
    };
    let (there, mut wrong) = (keys("1"), keys("field3 = 'x'"));
    let mut expected = [0, 0, 0];
    let mut reader =
        ycsb_trace::trace::ops::TraceReader::open(&folder.path("traces/workloadf.run.parquet")).unwrap();
    while let Some(block) = reader.next_block().unwrap() {
        for row in 0..block.len() {
            let key = block.key(row);
            let found = if !there.contains(key) { 2 } else { usize::from(wrong.contains(key)) };
            expected[found] += 1;
            let writes = block.kind(row) == OpKind::ReadModifyWrite;
            if writes && block.field_numbers(row).unwrap_or_default().contains(&3) {
                wrong.remove(key);
            }
        }
    }
    assert!(expected.iter().all(|count| *count > 0), "{expected:?}");
    let run = folder.run(&line("run")).expect_code(0);
    let block: Vec<_> = run.out.lines().filter(|line| line.starts_with("[VERIFY], Return=")).collect();
    let [ok, unexpected, error] = expected;
    assert_eq!(
        block,
        [
            format!("[VERIFY], Return=OK, {ok}"),
            format!("[VERIFY], Return=UNEXPECTED_STATE, {unexpected}"),
            format!("[VERIFY], Return=ERROR, {error}"),
        ]
    );
    // The lines of the block are YCSB's.
    let of_block = |text: &str| -> Vec<String> {
        let mut lines = shapes(text);
        lines.retain(|line| line.starts_with("[VERIFY]") && !line.contains("UNEXPECTED_STATE"));
        lines
    };
    assert_eq!(of_block(&run.out), of_block(&sample("ycsb-text-run-f-dataintegrity.stdout.txt")));

    // go-ycsb ends with exit code 1 when a value is wrong; its keys and values are others.
    let theirs = |verb: &str| {
        format!(
            "{verb} sqlite -P workloads/workloadc --threads 1 -p sqlite.db=go.db -p dataintegrity=true --traces go"
        )
    };
    folder.ok(&theirs("load"));
    folder.ok(&theirs("run"));
    let table = rusqlite::Connection::open(folder.path("go.db")).expect("the database opens");
    table.execute_batch("UPDATE usertable SET field9 = 'x'").expect("all go wrong");
    assert!(folder.run(&theirs("run")).expect_code(1).err.contains("MISMATCH"));

    for (line, complaint) in [
        (line("load") + " -p fieldlengthdistribution=uniform", "a constant length"),
        ("gen workloada -p dataintegrity=true --values seeded".to_owned(), "leave out --values seeded"),
    ] {
        let refused = folder.run(&line).expect_code(2);
        assert!(refused.err.contains(complaint), "{line}: {}", refused.err);
    }
}
