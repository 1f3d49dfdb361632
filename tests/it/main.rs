//! Tests from the outside: the program, the files and real databases. They are one binary, so that
//! it links once and one PostgreSQL server serves them all.

#[cfg(feature = "analyze")]
mod analyze;
mod contract;
#[cfg(feature = "sqlite")]
mod counts;
#[cfg(feature = "analyze")]
mod duckdb;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod order;
#[cfg(all(feature = "analyze", feature = "postgres", feature = "sqlite"))]
mod mistakes;
#[cfg(feature = "sqlite")]
mod interrupt;
#[cfg(feature = "postgres")]
mod secrets;
#[cfg(feature = "sqlite")]
mod stall;
#[cfg(feature = "postgres")]
mod postgres;
mod settings;
#[cfg(feature = "sqlite")]
mod sqlite;
mod support;
mod traces;
