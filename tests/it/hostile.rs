//! Files that are not what they should be: cut off, or with bytes changed anywhere. They give an
//! error (or, where the damage does not show, rows), never a panic, a hang or gigabytes of memory.

use std::path::Path;

use ycsb_trace::generate::{GenPlan, ValueMode, generate};
use ycsb_trace::rng::{Purpose, Stream};
use ycsb_trace::trace::meta::Phase;
use ycsb_trace::trace::ops::TraceReader;
use ycsb_trace::trace::runs::RunFile;
use ycsb_trace::workload::{Properties, WorkloadSpec, builtin};

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
