//! Tests that need a database. They are one binary, so that one PostgreSQL server serves them all.

mod contract;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod support;
