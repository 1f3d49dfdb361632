//! What this program itself costs: generation, the replay loop on a database that takes no time,
//! pacing, and the size of results. Run with
//!
//!     cargo bench --bench pipeline [-- gen|null|pace|size]
//!
//! Absolute numbers depend on the machine and its mood; compare the ratios within one run.

#[path = "support/sim.rs"]
mod sim;

use std::path::{Path, PathBuf};
use std::time::Instant;

use sim::run;
use ycsb_trace::clock::process_cpu_ns;
use ycsb_trace::generate::ValueMode;
use ycsb_trace::replay::pace::{Pace, Rate};
use ycsb_trace::trace::meta::Phase;
use ycsb_trace::trace::ops::TraceReader;
use ycsb_trace::workload::WorkloadSpec;

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    type Bench = (&'static str, fn(&Path));
    let benches: [Bench; 4] =
        [("gen", bench_gen), ("null", bench_null), ("pace", bench_pace), ("size", bench_size)];
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            println!("\n== {name}");
            bench(folder.path());
        }
    }
}

fn spec(workload: &str, records: u64, ops: u64) -> WorkloadSpec {
    sim::spec(workload, &[("recordcount", &records.to_string()), ("operationcount", &ops.to_string())])
}

/// A trace, and the seconds it took.
fn write_trace(
    folder: &Path,
    spec: &WorkloadSpec,
    phase: Phase,
    values: ValueMode,
    jobs: usize,
) -> (PathBuf, f64) {
    let began = Instant::now();
    (sim::write_trace(folder, spec, phase, values, jobs), began.elapsed().as_secs_f64())
}

/// Generation on one core, and against zstd level 1 compressing the same values.
fn bench_gen(folder: &Path) {
    let a = spec("workloada", 100_000, 2_000_000);
    for round in 0..3 {
        let cpu = cpu_seconds();
        let (_, seconds) = write_trace(folder, &a, Phase::Run, ValueMode::Seeded, 1);
        println!(
            "seeded, workload A, one thread: {:.2} M ops/s, {:.0} ns of CPU an operation (round {round})",
            2.0 / seconds,
            (cpu_seconds() - cpu) * 500.0
        );
    }
    for round in 0..3 {
        let (path, seconds) = write_trace(folder, &a, Phase::Load, ValueMode::Inline, 1);
        let mut values = Vec::new();
        let mut reader = TraceReader::open(&path).expect("a trace");
        while let Some(block) = reader.next_block().expect("a block") {
            for row in 0..block.len() {
                block.inline_values(row).expect("inline").for_each(|value| values.extend_from_slice(value));
            }
        }
        let began = Instant::now();
        let compressed: usize = values
            .chunks(1 << 20)
            .map(|chunk| zstd::bulk::compress(chunk, 1).expect("compressible").len())
            .sum();
        let zstd_seconds = began.elapsed().as_secs_f64();
        println!(
            "inline 10 × 100 bytes, one thread: {:.0} MB/s of values, zstd-1 alone {:.0} MB/s: ratio {:.2} ({:.0} % compressed) (round {round})",
            values.len() as f64 / 1e6 / seconds,
            values.len() as f64 / 1e6 / zstd_seconds,
            zstd_seconds / seconds,
            compressed as f64 * 100.0 / values.len() as f64
        );
    }
}

/// The loop with no database under it, every operation logged and on disk.
fn bench_null(folder: &Path) {
    const OPS: u64 = 20_000_000;
    for (workload, sessions, lanes) in
        [("workloadc", 2, 2), ("workloadc", 1, 1), ("workloada", 2, 2), ("workloada", 1, 1)]
    {
        let (trace, _) = write_trace(folder, &spec(workload, 100_000, OPS), Phase::Run, ValueMode::Seeded, 2);
        for _ in 0..3 {
            let (began, cpu) = (Instant::now(), cpu_seconds());
            let finished = run(folder, &trace, Pace::Unpaced, sessions, lanes);
            let wall = began.elapsed().as_secs_f64();
            let cpu = cpu_seconds() - cpu;
            println!(
                "{workload}, {sessions} session(s), {lanes} lane(s): {:.2} M ops/s in the run, {:.2} M ops/s with set-up and joining; \
                 {:.0} ns of CPU an operation; {} recorder stalls; peak memory {} MB",
                finished.meta.rows as f64 * 1e3 / finished.meta.elapsed_ns as f64,
                finished.meta.rows as f64 / 1e6 / wall,
                cpu * 1e9 / finished.meta.rows as f64,
                finished.meta.recorder_stalls,
                peak_memory_mb()
            );
            std::fs::remove_file(finished.path).expect("our own result");
        }
        std::fs::remove_file(trace).expect("our own trace");
    }
}

/// Lateness of the pace on a database that takes no time.
fn bench_pace(folder: &Path) {
    for rate in [1_000.0, 5_000.0, 50_000.0] {
        let ops = (rate * 5.0) as u64;
        let (trace, _) = write_trace(folder, &spec("workloadc", 1000, ops), Phase::Run, ValueMode::Seeded, 2);
        let pace = Pace::Rate(Rate::per_second(rate).expect("a rate"));
        let finished = run(folder, &trace, pace, 16, 2);
        let mut lags: Vec<u64> = Vec::new();
        let result = ycsb_trace::trace::runs::RunFile::open(&finished.path).expect("a result");
        for group in 0..result.row_groups() {
            result
                .scan(group, |rows| {
                    lags.extend(
                        rows.start_ns
                            .iter()
                            .zip(rows.intended_ns.iter())
                            .map(|(start, &intended)| start - intended as u64),
                    );
                })
                .expect("rows");
        }
        lags.sort_unstable();
        let at = |q: f64| lags[((lags.len() as f64 * q).ceil() as usize).max(1) - 1] as f64 / 1e3;
        println!("{rate}/s: lag p50 {:.1} µs, p99 {:.1} µs, max {:.1} µs", at(0.5), at(0.99), at(1.0));
    }
}

/// Bytes per operation of a result and of a trace.
fn bench_size(folder: &Path) {
    const OPS: u64 = 2_000_000;
    let (trace, _) = write_trace(folder, &spec("workloada", 100_000, OPS), Phase::Run, ValueMode::Seeded, 2);
    let size = |path: &Path| std::fs::metadata(path).expect("a file").len() as f64 / OPS as f64;
    println!("trace, workload A, seeded: {:.1} bytes an operation", size(&trace));
    for (sessions, lanes) in [(1, 1), (16, 2)] {
        let finished = run(folder, &trace, Pace::Unpaced, sessions, lanes);
        println!("result, workload A, {sessions} session(s): {:.1} bytes an operation", size(&finished.path));
    }
}

/// CPU time of this process so far, in seconds: it says what an operation costs even on a machine
/// that is busy with something else.
fn cpu_seconds() -> f64 {
    process_cpu_ns() as f64 / 1e9
}

fn peak_memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}
