//! What the benchmarks replay, and on what: traces of built-in workloads, on the database that takes no time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ycsb_trace::driver::{Preparation, Target, sim::Sim};
use ycsb_trace::generate::{GenPlan, ValueMode, generate};
use ycsb_trace::replay::pace::Pace;
use ycsb_trace::replay::stop::Stop;
use ycsb_trace::replay::{Finished, Order, ReplayPlan, replay};
use ycsb_trace::trace::meta::Phase;
use ycsb_trace::workload::{Properties, WorkloadSpec, builtin};

/// A built-in workload with these properties on top.
pub fn spec(workload: &str, properties: &[(&str, &str)]) -> WorkloadSpec {
    let found = builtin::find(workload).expect("a built-in workload");
    let mut all = Properties::new();
    all.add_file(&found.label, &found.bytes).expect("well-formed");
    properties.iter().for_each(|(name, value)| all.set(name, value));
    WorkloadSpec::from_properties(workload, &all, true, true).expect("a workload").0
}

/// Writes a trace into the folder.
pub fn write_trace(
    folder: &Path,
    spec: &WorkloadSpec,
    phase: Phase,
    values: ValueMode,
    jobs: usize,
) -> PathBuf {
    let plan = GenPlan { spec, seed: 1, phase, values, arrival: None, jobs, shard: None, load_hash: None };
    let path = folder.join(format!("{}-{}", values.name(), plan.file_name()));
    generate(&plan, &path, &AtomicBool::new(false), |_| ()).expect("a trace").expect("not stopped");
    path
}

/// Replays it.
pub fn run(folder: &Path, trace: &Path, pace: Pace, sessions: u32, lanes: u32) -> Finished {
    let plan = ReplayPlan {
        trace: trace.to_owned(),
        target: Target { db: "sim".to_owned(), sessions, seed: 1, ..Target::default() },
        table: None,
        preparation: Preparation::UseExisting,
        sessions,
        lanes,
        pace,
        target_per_second: None,
        speed: 1.0,
        order: Order::Deps,
        retries: 0,
        op_timeout: None,
        drop_late: None,
        rmw: Default::default(),
        load_batch: 1,
        verification: None,
        results: folder.join("results"),
        time_limit: None,
        interval: Duration::from_secs(1),
        config: Default::default(),
    };
    replay::<Sim>(&plan, &Arc::new(Stop::default()), |_| ()).expect("a replay")
}
