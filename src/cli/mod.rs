//! The command line: raw flags become plans here, and everything that is printed is printed here.

#[cfg(feature = "analyze")]
pub mod analyze;
