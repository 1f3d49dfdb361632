//! Tests from the outside: the program, the files and real databases. They are one binary, so that
//! it links once and one PostgreSQL server serves them all.

#[cfg(feature = "analyze")]
mod analyze;
mod contract;
#[cfg(feature = "analyze")]
mod duckdb;
#[cfg(feature = "fjall")]
mod fjall;
mod golden;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod readme;
#[cfg(feature = "sqlite")]
mod sqlite;
mod structure;
mod support;
