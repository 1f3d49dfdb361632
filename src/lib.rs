//! Record, replay and analyse YCSB traces.

#[cfg(feature = "analyze")]
pub mod analyze;
pub mod cli;
pub mod clock;
pub mod driver;
pub mod generate;
pub mod op;
pub mod record;
pub mod replay;
pub mod rng;
pub mod trace;
pub mod verify;
pub mod workload;
