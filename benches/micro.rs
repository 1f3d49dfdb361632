//! The parts of a run, one by one: drawing a record, making a trace, claiming and logging, encoding a
//! result, percentiles.
//!
//!     cargo bench --bench micro [FILTER]
//!     cargo test --bench micro        # each once, so that they cannot rot: what CI does

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use ycsb_trace::driver::{Preparation, Target, sim::Sim};
use ycsb_trace::generate::{GenPlan, ValueMode, generate};
use ycsb_trace::op::{NEVER_NS, OpKind, Sample, Status};
use ycsb_trace::record;
use ycsb_trace::replay::pace::Pace;
use ycsb_trace::replay::stop::Stop;
use ycsb_trace::replay::{Order, ReplayPlan, replay};
use ycsb_trace::rng::{Purpose, Stream, mix};
use ycsb_trace::trace::RESULT_VERSION;
use ycsb_trace::trace::meta::Phase;
use ycsb_trace::trace::ops::TraceReader;
use ycsb_trace::trace::runs::RunWriter;
use ycsb_trace::workload::{Horizon, Properties, WorkloadSpec, builtin};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

const OPS: u64 = 65_536;

fn spec(workload: &str, distribution: &str) -> WorkloadSpec {
    let found = builtin::find(workload).expect("a built-in workload");
    let mut properties = Properties::new();
    properties.add_file(&found.label, &found.bytes).expect("well-formed");
    properties.set("recordcount", "100000");
    properties.set("operationcount", &OPS.to_string());
    properties.set("requestdistribution", distribution);
    WorkloadSpec::from_properties(workload, &properties, true, true).expect("a workload").0
}

fn write_trace(folder: &Path, workload: &str, values: ValueMode, phase: Phase) -> PathBuf {
    let spec = spec(workload, "zipfian");
    let plan =
        GenPlan { spec: &spec, seed: 1, phase, values, arrival: None, jobs: 1, shard: None, load_hash: None };
    let path = folder.join(plan.file_name());
    generate(&plan, &path, &AtomicBool::new(false), |_| ()).expect("a trace").expect("not stopped");
    path
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
    let write = || write_trace(folder.path(), workload, ValueMode::Seeded, Phase::Run);
    bencher.counter(ItemsCount::new(OPS)).bench_local(write);
}

#[divan::bench(args = ["workloada", "workloadc"])]
fn decode_a_trace(bencher: Bencher, workload: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_trace(folder.path(), workload, ValueMode::Seeded, Phase::Run);
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
    let plan = ReplayPlan {
        trace: write_trace(folder.path(), workload, ValueMode::Seeded, Phase::Run),
        target: Target { db: "sim".to_owned(), sessions: 1, seed: 1, ..Target::default() },
        table: None,
        preparation: Preparation::UseExisting,
        sessions: 1,
        lanes: 1,
        pace: Pace::Unpaced,
        target_per_second: None,
        speed: 1.0,
        order: Order::Deps,
        retries: 0,
        op_timeout: None,
        drop_late: None,
        rmw: Default::default(),
        load_batch: 1,
        verification: None,
        results: folder.path().join("results"),
        time_limit: None,
        interval: std::time::Duration::from_secs(1),
        config: Default::default(),
    };
    bencher.counter(ItemsCount::new(OPS)).bench_local(|| {
        let finished = replay::<Sim>(&plan, &Arc::new(Stop::default()), |_| ()).expect("a replay");
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
    let meta = serde_json::json!({
        "kind": "result", "format_version": RESULT_VERSION, "generator": "bench", "run_id": "bench", "trace": "bench",
        "trace_hash": "0", "phase": "run", "trace_rows": OPS, "db": "sim", "config": {}, "sessions": 16, "lanes": 1,
        "server": { "address": "", "version": "", "settings": {} }, "pace": "rate", "target_per_second": 100_000.0,
        "speed": 1.0, "order": "none", "host": { "name": "", "system": "", "cpus": 2 }, "started_at": "",
        "elapsed_ns": 0, "ended_because": "", "complete": true, "interrupted": false, "rows": OPS,
        "counts": {}, "errors": [], "recorder_stalls": 0, "histograms": [],
        "overhead": { "clock_read_ns": 0, "wake_late_p50_ns": 0, "wake_late_p99_ns": 0 },
    });
    let mut meta = serde_json::from_value(meta).expect("a footer");
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
