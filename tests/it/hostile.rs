//! Files that are not what they should be: cut off, or with bytes changed anywhere. They give an
//! error (or, where the damage does not show, rows), never a panic, a hang or gigabytes of memory.

use std::path::Path;

use ycsb_trace::generate::{GenPlan, ValueMode, generate};
use ycsb_trace::op::OpKind;
use ycsb_trace::rng::{Purpose, Stream};
use ycsb_trace::statement::{Column, ParamType, Schema, Statement, Statements, Table};
use ycsb_trace::trace::chunk::{ChunkBuilder, Row, RowValues, TraceWriter};
use ycsb_trace::trace::meta::{Phase, TraceMeta};
use ycsb_trace::trace::ops::TraceReader;
use ycsb_trace::trace::runs::RunFile;
use ycsb_trace::workload::{Properties, WorkloadSpec, builtin};

use crate::support::program::Folder;

fn read_everything(path: &Path) -> Result<u64, ycsb_trace::trace::FileError> {
    let mut reader = TraceReader::open(path)?;
    let mut bytes = 0;
    while let Some(block) = reader.next_block()? {
        for row in 0..block.len() {
            bytes += block.key(row).len() as u64;
            bytes += block.field_numbers(row).map_or(0, |fields| fields.len() as u64);
            bytes +=
                block.inline_values(row).map_or(0, |values| values.map(|value| value.len() as u64).sum());
            bytes += block.after(row).unwrap_or(0) & 1;
        }
        // Every row belongs to one unit.
        let rows: usize = (0..block.units()).map(|unit| block.rows_of(unit).len()).sum();
        assert_eq!(rows, block.len(), "{}", path.display());
    }
    Ok(bytes)
}

/// Every fourth file is cut off; in the others one to three bits are changed, anywhere.
fn damaged(bytes: &[u8], seed: u64, case: u64) -> Vec<u8> {
    let mut stream = Stream::at(seed, Purpose::Value, case);
    let mut damaged = bytes.to_vec();
    if case.is_multiple_of(4) {
        damaged.truncate(stream.below(bytes.len() as u64) as usize);
    } else {
        for _ in 0..=stream.below(3) {
            let place = stream.below(damaged.len() as u64) as usize;
            damaged[place] ^= 1 << stream.below(8);
        }
    }
    damaged
}

/// One of the recorded results.
fn golden_result() -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results");
    let mut found = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "parquet") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.swap_remove(0)
}

#[test]
fn a_damaged_trace_is_an_error_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let found = builtin::find("workloadd").unwrap();
    let mut properties = Properties::new();
    properties.add_file(&found.label, &found.bytes).unwrap();
    properties.set("operationcount", "300");
    properties.set("recordcount", "50");
    let spec = WorkloadSpec::from_properties("workloadd", &properties, true, true).unwrap().0;
    let plan = GenPlan {
        spec: &spec,
        seed: 1,
        phase: Phase::Run,
        values: ValueMode::Inline,
        arrival: None,
        jobs: 1,
        shard: None,
        load_hash: None,
    };
    let good = folder.path().join("good.parquet");
    generate(&plan, &good, &Default::default(), |_| ()).unwrap();
    let bytes = std::fs::read(&good).unwrap();
    let intact = read_everything(&good).unwrap();
    assert!(intact > 10_000);

    let bad = folder.path().join("bad.parquet");
    let mut refused = 0;
    for case in 0..400 {
        std::fs::write(&bad, damaged(&bytes, 7, case)).unwrap();
        refused += u64::from(read_everything(&bad).is_err());
    }
    assert!(refused >= 150, "only {refused} of 400 damaged files were refused");
}

/// Where the footer of a Parquet file begins.
fn footer_at(bytes: &[u8]) -> usize {
    let end = bytes.len() - 8;
    end - u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize
}

/// A small statement trace: its bytes.
fn statement_trace(folder: &Folder) -> Vec<u8> {
    folder.ok("gen oltp_read_write --tables 2 --table-size 50 --ops 40 -o good");
    std::fs::read(folder.path("good/oltp_read_write.run.parquet")).unwrap()
}

#[test]
fn damaged_rows_of_statements_are_an_error_and_never_a_panic() {
    let folder = Folder::in_memory();
    let bytes = statement_trace(&folder);
    // The footer stays: its statements would get slots of this process, for good.
    let (rows, footer) = bytes.split_at(footer_at(&bytes));
    let bad = folder.path("bad.parquet");
    let mut refused = 0;
    for case in (0..400).filter(|case| case % 4 != 0) {
        std::fs::write(&bad, [&damaged(rows, 11, case), footer].concat()).unwrap();
        refused += u64::from(read_everything(&bad).is_err());
    }
    // The others read otherwise: a parameter is as good as any.
    assert!(refused >= 100, "only {refused} of 300 damaged files were refused");
}

#[test]
fn a_damaged_statement_trace_is_replayed_to_where_it_is_damaged_or_refused() {
    let folder = Folder::in_memory();
    let bytes = statement_trace(&folder);
    let footer = footer_at(&bytes);
    let (mut refused, mut done) = (0, 0);
    for case in 0..48 {
        let broken = match case % 4 {
            // Of the bytes of this file the footer is the part that is read first.
            0 => [&bytes[..footer], &damaged(&bytes[footer..], 12, case + 1)].concat(),
            1 => damaged(&bytes, 13, 4 * case),
            _ => damaged(&bytes, 14, 4 * case + 1),
        };
        folder.write("bad.parquet", broken);
        let ran = folder.run("replay --db sim bad.parquet");
        assert!(!ran.err.contains("panicked"), "case {case}: {}", ran.err);
        match ran.code {
            Some(0) => done += 1,
            Some(2) => {
                refused += 1;
                assert!(ran.err.contains("bad.parquet"), "case {case}: {}", ran.err);
            }
            code => panic!("case {case}: exit code {code:?}: {}", ran.err),
        }
    }
    assert!(refused >= 20, "{refused} refused, {done} replayed");
}

/// A row of a trace made by hand: name, transaction, table, parameters.
type HandMade<'a> = (&'a str, Option<u64>, Option<u32>, &'a [&'a str]);

/// Writes rows, in row groups of so many, with a footer that explains `add_one` and `look`.
fn write_statements(path: &Path, rows: &[HandMade<'_>], group: usize, change: impl FnOnce(&mut TraceMeta)) {
    let statement = |name: &str, sql: &str, types: &[ParamType], returns_rows: bool| Statement {
        name: name.to_owned(),
        sql: sql.to_owned(),
        dialects: Default::default(),
        repeat: None,
        types: types.to_vec(),
        tables: vec!["counters".to_owned()],
        groups: 1,
        returns_rows,
    };
    let mut meta = TraceMeta::empty("by_hand", Phase::Run);
    meta.statements = Statements(vec![
        statement("add_one", "INSERT INTO {table} (id) VALUES ($1)", &[ParamType::Int], false),
        statement("look", "SELECT id FROM {table}", &[], true),
    ]);
    meta.schema = Some(Schema {
        tables: vec![Table {
            name: "counters".to_owned(),
            columns: vec![Column {
                name: "id".to_owned(),
                kind: "int".to_owned(),
                auto: false,
                default: None,
            }],
            primary_key: vec!["id".to_owned()],
            engine: None,
        }],
        indexes: Vec::new(),
    });
    let mut transactions: Vec<Option<u64>> = rows.iter().map(|row| row.1).collect();
    transactions.dedup();
    meta.transactions = Some(transactions.len() as u64);
    let mut writer = TraceWriter::create(path, false).unwrap();
    for statement in ["add_one", "look", "missing"] {
        OpKind::register(statement).expect("a free slot");
    }
    for (number, rows) in rows.chunks(group).enumerate() {
        let mut chunk = ChunkBuilder::new(rows.len());
        for (position, &(name, txn, table, parameters)) in rows.iter().enumerate() {
            let lens: Vec<u32> = parameters.iter().map(|text| text.len() as u32).collect();
            let bytes = parameters.concat();
            let fields = table.map(|table| [table]);
            let row = Row {
                kind: OpKind::from_name(name).expect("registered"),
                key: b"",
                fields: fields.as_ref().map(|table| &table[..]),
                values: RowValues::Inline { lens: &lens, bytes: bytes.as_bytes() },
                scan_len: None,
                at_ns: None,
                after: None,
            };
            let row = if parameters.is_empty() { Row { values: RowValues::None, ..row } } else { row };
            chunk.push_in((number * group + position) as u64, &row, txn);
        }
        writer.append(writer.encoder().encode(&mut chunk).unwrap()).unwrap();
    }
    change(&mut meta);
    writer.finish(meta).unwrap();
}

const GOOD: &[HandMade<'_>] = &[
    ("BEGIN", Some(0), None, &[]),
    ("add_one", Some(0), Some(0), &["1"]),
    ("look", Some(0), Some(0), &[]),
    ("COMMIT", Some(0), None, &[]),
    ("look", Some(1), Some(0), &[]),
    ("BEGIN", Some(2), None, &[]),
    ("add_one", Some(2), Some(0), &["2"]),
    ("COMMIT", Some(2), None, &[]),
];

#[test]
fn rows_that_make_no_transaction_are_refused_by_number_and_the_row_groups_do_not_matter() {
    let folder = Folder::in_memory();
    let replay = || folder.run("replay --db sim bad.parquet");
    for group in [1, 3, 100] {
        write_statements(&folder.path("bad.parquet"), GOOD, group, |_| ());
        let ran = replay().expect_code(0);
        let ended = ran.result(&folder).meta.transactions.expect("a statement trace");
        assert_eq!((ended.ok, ended.planned), (3, 3), "row groups of {group}");
    }
    // (row to replace or, beyond the end, to add; what to put there; complaint)
    let cases: &[(usize, HandMade<'_>, &str)] = &[
        (0, ("look", Some(0), Some(0), &[]), "operation 3 ends transaction 0 where it cannot end"),
        (2, ("COMMIT", Some(0), None, &[]), "operation 2 ends transaction 0 where it cannot end"),
        (2, ("BEGIN", Some(0), None, &[]), "operation 2 is a BEGIN within transaction 0"),
        (3, ("look", Some(0), Some(0), &[]), "transaction 0 ends with operation 3 and without COMMIT"),
        (3, ("COMMIT", Some(7), None, &[]), "transaction 0 ends with operation 2 and without COMMIT"),
        (4, ("COMMIT", Some(1), None, &[]), "operation 4 ends transaction 1 where it cannot end"),
        (7, ("look", Some(9), Some(0), &[]), "transaction 2 ends with operation 6 and without COMMIT"),
        (4, ("look", None, Some(0), &[]), "operation 4 belongs to no transaction"),
        (4, ("missing", Some(1), Some(0), &[]), "operations of kind \"missing\" are unknown to this program"),
        (4, ("READ", Some(1), Some(0), &[]), "operation 4 is \"READ\", which the footer does not explain"),
        (6, ("add_one", Some(2), Some(0), &[]), "operation 6 has 0 parameters, but add_one takes 1"),
        (6, ("add_one", Some(2), Some(0), &["1", "2"]), "operation 6 has 2 parameters, but add_one takes 1"),
        (4, ("look", Some(1), Some(0), &["1"]), "operation 4 has 1 parameters, but look takes 0"),
        (4, ("look", Some(1), Some(3), &[]), "operation 4 names table Some(3) of 1"),
        (4, ("look", Some(1), None, &[]), "operation 4 names table None of 1"),
    ];
    for (row, instead, complaint) in cases {
        let mut rows = GOOD.to_vec();
        rows[*row] = *instead;
        for group in [1, 3, 100] {
            write_statements(&folder.path("bad.parquet"), &rows, group, |_| ());
            let ran = replay().expect_code(2);
            assert!(ran.err.contains(complaint), "{complaint}, row groups of {group}: {}", ran.err);
            assert!(ran.err.contains("bad.parquet is inconsistent"), "{}", ran.err);
        }
    }
}

#[test]
fn a_footer_that_cannot_be_meant_is_refused_before_anything_is_sent() {
    let folder = Folder::in_memory();
    type Change = fn(&mut TraceMeta);
    let cases: &[(Change, &str)] = &[
        (
            |meta| meta.statements.0[0].sql = "INSERT INTO {table} VALUES ($1, $2)".to_owned(),
            "add_one uses $2",
        ),
        (|meta| meta.statements.0[0].groups = 1 << 40, "add_one has 1099511627776 groups of parameters"),
        (
            |meta| meta.schema.as_mut().unwrap().tables[0].name = "t; DROP TABLE x".to_owned(),
            "\"t; DROP TABLE x\" cannot be the name of a table or column",
        ),
        (
            |meta| meta.schema.as_mut().unwrap().tables[0].columns[0].name = "a b".to_owned(),
            "\"a b\" cannot be the name",
        ),
        (|meta| meta.statements.0[1].tables[0] = String::new(), "\"\" cannot be the name"),
        (|meta| meta.schema = None, "its statements have no tables"),
        (|meta| meta.transactions = None, "its footer does not say how many transactions"),
    ];
    for (change, complaint) in cases {
        write_statements(&folder.path("bad.parquet"), GOOD, 100, change);
        let ran = folder.run("replay --db sim bad.parquet").expect_code(2);
        assert!(ran.err.contains(complaint), "{complaint}: {}", ran.err);
        assert!(!ran.out.contains("result:"), "{complaint}: {}", ran.out);
    }
    // How many transactions there are is known when all have been read.
    write_statements(&folder.path("bad.parquet"), GOOD, 100, |meta| meta.transactions = Some(1 << 60));
    let ran = folder.run("replay --db sim bad.parquet").expect_code(2);
    assert!(
        ran.err.contains("it holds 3 transactions, but its footer says 1152921504606846976"),
        "{}",
        ran.err
    );
}

#[test]
fn a_damaged_result_is_an_error_and_never_a_panic() {
    let bytes = std::fs::read(golden_result()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.parquet");
    let mut refused = 0;
    for case in 0..400 {
        std::fs::write(&bad, damaged(&bytes, 9, case)).unwrap();
        let read = RunFile::open(&bad).and_then(|result| {
            (0..result.row_groups()).try_for_each(|group| result.scan(group, |rows| drop(rows.clone())))
        });
        refused += u64::from(read.is_err());
    }
    assert!(refused >= 150, "only {refused} of 400 damaged files were refused");
}

#[cfg(feature = "postgres")]
#[test]
fn any_text_is_a_url_or_an_error_that_does_not_repeat_it() {
    use ycsb_trace::driver::{Driver, Target, postgres::Postgres};
    let pieces = [
        "postgres://",
        "u",
        ":",
        "s3cret",
        "@",
        "[",
        "]",
        "%",
        "%4",
        "/",
        "?",
        "=",
        "&",
        "'",
        " ",
        "host",
        "é",
    ];
    for case in 0..5_000 {
        let mut stream = Stream::at(10, Purpose::Value, case);
        let text: String =
            (0..stream.below(12)).map(|_| pieces[stream.below(pieces.len() as u64) as usize]).collect();
        let target = Target { db: "postgres".to_owned(), url: Some(text.clone()), ..Target::default() };
        if let Err(refusal) = Postgres::open(&target) {
            assert!(!refusal.to_string().contains("s3cret"), "{text:?}: {refusal}");
        }
    }
}

#[test]
fn any_bytes_are_a_property_file_or_an_error() {
    for case in 0..2_000 {
        let mut stream = Stream::at(8, Purpose::Value, case);
        let alphabet = b"ab=: \\\t\n\r#!u0041\xc3\xa9\xff";
        let bytes: Vec<u8> =
            (0..stream.below(60)).map(|_| alphabet[stream.below(alphabet.len() as u64) as usize]).collect();
        let mut properties = Properties::new();
        let _ = properties.add_file("any", &bytes);
        let _ = WorkloadSpec::from_properties("any", &properties, true, true);
    }
}
