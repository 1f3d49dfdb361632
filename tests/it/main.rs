//! Tests from the outside: the program, the files and real databases. They are one binary, so that
//! it links once and one PostgreSQL server serves them all.

#[cfg(feature = "analyze")]
mod analyze;
#[cfg(feature = "analyze")]
mod compare;
#[cfg(feature = "analyze")]
mod compat;
mod contract;
#[cfg(feature = "sqlite")]
mod counts;
#[cfg(feature = "analyze")]
mod duckdb;
#[cfg(feature = "analyze")]
mod exchange;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod faults;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "mysql")]
mod galera;
mod golden;
mod hostile;
#[cfg(feature = "sqlite")]
mod interrupt;
#[cfg(feature = "jdbc")]
mod jdbc;
#[cfg(all(feature = "mysql", feature = "jdbc", target_os = "linux", target_arch = "x86_64"))]
mod logins;
mod memory;
#[cfg(feature = "analyze")]
mod merge;
#[cfg(all(feature = "analyze", feature = "postgres", feature = "sqlite"))]
mod mistakes;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod nodes;
#[cfg(all(feature = "analyze", feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod oltp;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod order;
#[cfg(any(feature = "mysql", feature = "redis"))]
mod outages;
#[cfg(feature = "postgres")]
mod postgres;
mod readme;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "analyze")]
mod reference;
#[cfg(feature = "analyze")]
mod report;
#[cfg(feature = "riak")]
mod riak;
#[cfg(feature = "postgres")]
mod secrets;
mod settings;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod stall;
mod streams;
mod structure;
mod support;
#[cfg(feature = "postgres")]
mod tls;
mod traces;
#[cfg(feature = "sqlite")]
mod verify;
