//! Record, replay and analyse YCSB traces.

pub mod clock;
pub mod driver;
pub mod op;
pub mod record;
pub mod rng;
pub mod workload;
