//! Record, replay and analyse YCSB traces.

#[cfg(feature = "analyze")]
pub mod analyze;
pub mod cli;
pub mod clock;
pub mod driver;
pub mod op;
pub mod rng;
pub mod trace;
