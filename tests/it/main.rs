//! Integration tests: one binary.

#[cfg(feature = "analyze")]
mod analyze;
#[cfg(feature = "analyze")]
mod duckdb;
