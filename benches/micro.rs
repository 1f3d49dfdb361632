//! The parts of a run, one by one: drawing a record, making a trace, claiming and logging, encoding a
//! result, percentiles.
//!
//!     cargo bench --bench micro [FILTER]
//!     cargo test --bench micro        # each once, so that they cannot rot: what CI does

#[path = "support/result.rs"]
mod result;
#[path = "support/sim.rs"]
mod sim;

use std::path::{Path, PathBuf};

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use ycsb_trace::generate::ValueMode;
use ycsb_trace::op::{NEVER_NS, OpKind, Sample, Status};
use ycsb_trace::record;
use ycsb_trace::replay::pace::Pace;
use ycsb_trace::rng::{Purpose, Stream, mix};
use ycsb_trace::trace::meta::Phase;
use ycsb_trace::trace::ops::TraceReader;
use ycsb_trace::trace::runs::RunWriter;
use ycsb_trace::workload::{Horizon, WorkloadSpec};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

const OPS: u64 = 65_536;

fn spec(workload: &str, distribution: &str) -> WorkloadSpec {
    let operations = OPS.to_string();
    let properties =
        [("recordcount", "100000"), ("operationcount", &operations), ("requestdistribution", distribution)];
    sim::spec(workload, &properties)
}

fn write_trace(folder: &Path, workload: &str) -> PathBuf {
    sim::write_trace(folder, &spec(workload, "zipfian"), Phase::Run, ValueMode::Seeded, 1)
}

#[divan::bench(args = ["uniform", "zipfian", "latest", "hotspot", "exponential", "sequential"])]
fn draw_a_record(bencher: Bencher, distribution: &str) {
    let spec = spec("workloada", distribution);
    let mut records = spec.key_chooser();
    bencher.counter(ItemsCount::new(1000u32)).bench_local(|| {
        for index in 0..1000 {
            let horizon = Horizon { choices: index, last: 99_999 };
            black_box(records.next(&mut Stream::at(1, Purpose::Key, index), horizon));
        }
    });
}

#[divan::bench]
fn make_a_value(bencher: Bencher) {
    let mut value = Vec::new();
    bencher.counter(BytesCount::new(100u32)).bench_local(|| {
        value.clear();
        record::append_value(black_box(7), 3, 100, &mut value);
    });
}

#[divan::bench(args = ["workloada", "workloadc"])]
fn generate_seeded(bencher: Bencher, workload: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = || write_trace(folder.path(), workload);
    bencher.counter(ItemsCount::new(OPS)).bench_local(write);
}

#[divan::bench(args = ["workloada", "workloadc"])]
fn decode_a_trace(bencher: Bencher, workload: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_trace(folder.path(), workload);
    bencher.counter(ItemsCount::new(OPS)).bench_local(|| {
        let mut reader = TraceReader::open(&path).expect("a trace");
        while let Some(block) = reader.next_block().expect("a block") {
            black_box(block.len());
        }
    });
}

/// The loop on a database that takes no time, with everything around it: threads, files, footer.
#[divan::bench(args = ["workloada", "workloadc"])]
fn claim_and_log(bencher: Bencher, workload: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = write_trace(folder.path(), workload);
    bencher.counter(ItemsCount::new(OPS)).bench_local(|| {
        let finished = sim::run(folder.path(), &trace, Pace::Unpaced, 1, 1);
        std::fs::remove_file(finished.path).expect("our own result");
    });
}

fn samples() -> Vec<Sample> {
    let sample = |op_id: u64| {
        let random = mix(op_id + 1);
        let start_ns = op_id * 10_000 + (random >> 40) % 60_000;
        Sample {
            op_id,
            intended_ns: op_id * 10_000,
            start_ns,
            end_ns: start_ns + 100_000 + random % 100_000,
            blocked_ns: NEVER_NS,
            read_end_ns: NEVER_NS,
            last_start_ns: NEVER_NS,
            txn: NEVER_NS,
            session: (random >> 20) as u32 % 16,
            rows: 1,
            attempts: 1,
            code: 0,
            batch: NEVER_NS,
            observed: 0,
            kind: if random.is_multiple_of(2) { OpKind::Read } else { OpKind::Update },
            status: Status::Ok,
        }
    };
    (0..OPS).map(sample).collect()
}

fn write_result(folder: &Path, samples: &[Sample]) -> PathBuf {
    let mut meta = result::footer(OPS, 16);
    let mut writer = RunWriter::create(folder, &mut meta).expect("a writable folder");
    samples.chunks(8192).for_each(|batch| writer.write(batch, &[]).expect("writable"));
    writer.finish(&meta).expect("writable")
}

#[divan::bench]
fn encode_a_result(bencher: Bencher) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let samples = samples();
    bencher.counter(ItemsCount::new(OPS)).bench_local(|| {
        std::fs::remove_file(write_result(folder.path(), &samples)).expect("our own result");
    });
}

#[cfg(feature = "analyze")]
#[divan::bench]
fn analyze_a_result(bencher: Bencher) {
    use ycsb_trace::analyze::{Options, analyze};
    let folder = tempfile::tempdir().expect("a temporary folder");
    let result = write_result(folder.path(), &samples());
    bencher.counter(ItemsCount::new(OPS)).bench_local(|| {
        let report = analyze(std::slice::from_ref(&result), &Options::default()).expect("a valid result");
        assert_eq!(report.runs[0].all.ops, OPS);
    });
}
