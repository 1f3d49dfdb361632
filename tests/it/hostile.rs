//! Files that are not what they should be: cut off, or with bytes changed anywhere. They give an
//! error (or, where the damage does not show, rows), never a panic, a hang or gigabytes of memory.

use std::path::Path;

use ycsb_trace::generate::{GenPlan, ValueMode, generate};
use ycsb_trace::rng::{Purpose, Stream};
use ycsb_trace::trace::meta::Phase;
use ycsb_trace::trace::ops::TraceReader;
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
        let mut stream = Stream::at(7, Purpose::Value, case);
        let mut damaged = bytes.clone();
        if case % 4 == 0 {
            damaged.truncate(stream.below(bytes.len() as u64) as usize);
        } else {
            for _ in 0..=stream.below(3) {
                let place = stream.below(damaged.len() as u64) as usize;
                damaged[place] ^= 1 << stream.below(8);
            }
        }
        std::fs::write(&bad, &damaged).unwrap();
        refused += u64::from(read_everything(&bad).is_err());
    }
    assert!(refused >= 150, "only {refused} of 400 damaged files were refused");
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
