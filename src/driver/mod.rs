//! Databases. A driver is one file that knows one family of databases and nothing about traces,
//! pacing, retries or statistics: it turns an [`Op`] into requests and the answer into an
//! [`Outcome`]. A new database is a new file here and a row in the table at the end of this one.
//!
//! What every driver promises, whatever its database calls things (the contract tests check it):
//! * a read or update of a missing row is NOT_FOUND, an insert of an existing row is DUPLICATE and
//!   changes nothing;
//! * a scan returns rows with key ≥ the start key, ascending in byte order, at most `scan_len`; an
//!   empty result is OK with 0 rows;
//! * keys that differ in any byte are different rows;
//! * every value of an answer is fetched and handed to the caller's [`Rows`];
//! * one method call is one operation, complete when it returns.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

use self::statements::{Call, no_sql};
use crate::op::{Op, OpKind, Outcome, Status};
use crate::statement::{Schema, Statements, Table, is_name};

/// Where and how to reach a database, as the user said it. No I/O has happened yet.
#[derive(Clone, Default)]
pub struct Target {
    /// The name given to `--db`, one of the driver's [`Kind::names`].
    pub db: String,
    /// `--url`: a connection URL; a path for embedded databases.
    pub url: Option<String>,
    /// Every property from `-P` and `-p`, e.g. `pg.host`; drivers read their own.
    pub properties: BTreeMap<String, String>,
    /// Sessions that will be opened, so that a driver can size what it shares.
    pub sessions: u32,
    /// Time after which an operation is given up. Needed only by drivers that block the thread: from
    /// outside, nobody could end their calls.
    pub op_timeout: Option<Duration>,
    /// Rows that a load writes in one request, 0 or 1 if each has its own.
    pub load_batch: u32,
    /// Seed of the run, for drivers that draw (the simulated one).
    pub seed: u64,
}

impl Target {
    /// The property `name`, if it was given and is not empty.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// The table a trace works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSpec {
    /// Table name, `usertable` by default.
    pub name: String,
    /// Names of the fields; [`crate::op::Field::number`] is a position in this list.
    pub fields: Vec<String>,
    /// Longest value the trace can write, in bytes.
    pub field_length: u32,
    /// Distinct (kind, fields) combinations in the trace (an empty field list = all), so that
    /// statements can be prepared before the clock starts. Others may still come.
    pub shapes: Vec<(OpKind, Vec<u32>)>,
}

/// The key column of every YCSB table.
pub const KEY: &str = "YCSB_KEY";

impl TableSpec {
    /// Refuses names that could be anything but a name in a statement, whatever the database: with
    /// the same names, a trace works on all of them. `schema` permits one dot in the table's name.
    pub fn check_names(&self, schema: bool) -> Result<(), TargetError> {
        let parts: Vec<&str> = self.name.split('.').collect();
        let most = if schema { 2 } else { 1 };
        if parts.len() > most || !parts.iter().all(|part| is_name(part)) {
            let dot = if schema { ", with at most one dot after a schema" } else { "" };
            return Err(TargetError::Request(format!(
                "{:?} cannot be the name of a table here: use letters, digits and _{dot}",
                self.name
            )));
        }
        match self.fields.iter().find(|field| !is_name(field) || field.eq_ignore_ascii_case(KEY)) {
            Some(field) => Err(TargetError::Request(format!(
                "{field:?} cannot be the name of a field here: use letters, digits and _, and not {KEY}"
            ))),
            None => Ok(()),
        }
    }
}

/// What may be done to the table before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// Create it if it is missing; refuse with [`TargetError::NotEmpty`] if it holds rows.
    CreateIfEmpty,
    /// Remove it with all its rows, then create it.
    DropAndCreate,
    /// Leave it as it is; refuse if it is missing or lacks a column.
    UseExisting,
}

/// Who answered, and the settings of theirs that change results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Host and port, or path. Never a password.
    pub address: String,
    /// The server's own version text.
    pub version: String,
    /// Isolation, durability and the like, by the database's own names.
    pub settings: BTreeMap<String, String>,
    /// What is sent for each kind of operation (one of its shapes), in the database's language.
    pub statements: BTreeMap<String, String>,
    /// What was asked for and is not done, in sentences for the person who asked.
    pub warnings: Vec<String>,
}

/// Why a target cannot be used. The message says what was being done, to what, and what to try.
#[derive(Debug, Error)]
pub enum TargetError {
    /// The request itself is wrong (a bad URL, an unknown option): exit code 2.
    #[error("{0}")]
    Request(String),
    /// The table already holds rows and may not be touched: exit code 2.
    #[error(
        "table {table} at {address} already holds rows, and loading would mix them with the trace's. \
         Use --drop to remove the table first, --phase run to work on it as it is, or another table (-p table=…)"
    )]
    NotEmpty {
        /// Table name.
        table: String,
        /// Where it is.
        address: String,
    },
    /// The database is unreachable, refuses us, or lacks the table: exit code 3.
    #[error("{0}")]
    Unusable(String),
}

/// One name of the `--db` option.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The name shown first, then its aliases.
    pub names: &'static [&'static str],
    /// One line for `databases`.
    pub about: &'static str,
    /// Used when no URL and no property says otherwise.
    pub default_address: &'static str,
    /// Properties this driver understands: (name, default, meaning).
    pub options: &'static [(&'static str, &'static str, &'static str)],
    /// A command line that a person can run after replacing host and names.
    pub example: &'static str,
    /// What holds if nothing is said, as (what, in words): `isolation`, `durability`, `an update` (what
    /// it means here), and what else a reader of a result has to know.
    pub defaults: &'static [(&'static str, &'static str)],
    /// The real server that the tests run on, or what stands in for it.
    pub tested_against: &'static str,
}

/// A family of databases. One value per run, shared by every lane.
pub trait Driver: Sized + Send + Sync + 'static {
    /// The databases it speaks to.
    const KINDS: &'static [Kind];
    /// Do its calls block the thread? Then each session gets a thread of its own.
    const BLOCKING: bool;
    /// One connection.
    type Session: Session;

    /// Understands the target's settings; no I/O.
    fn open(target: &Target) -> Result<Self, TargetError>;

    /// Creates or verifies the table, and asks who answered.
    fn prepare(
        &self,
        table: &TableSpec,
        preparation: Preparation,
    ) -> impl Future<Output = Result<ServerInfo, TargetError>>;

    /// Opens connection number `session` (0-based) with everything prepared for `table`.
    fn connect(
        &self,
        table: &TableSpec,
        session: u32,
    ) -> impl Future<Output = Result<Self::Session, TargetError>>;

    /// What the collectors of garbage of the driver's own runtime have done since the process began; none
    /// where there is no such runtime.
    fn collections(&self) -> Vec<Collector> {
        Vec::new()
    }

    /// Creates or verifies the tables of a statement trace, without its indexes, and asks who answered.
    fn prepare_schema(
        &self,
        _schema: &Schema,
        _preparation: Preparation,
    ) -> impl Future<Output = Result<ServerInfo, TargetError>> {
        async { Err(no_sql()) }
    }

    /// What follows when the rows of a table of a statement trace are there: its indexes, and the next
    /// number where the database gives rows their numbers.
    fn finish_table(
        &self,
        _schema: &Schema,
        _table: &Table,
    ) -> impl Future<Output = Result<(), TargetError>> {
        async { Err(no_sql()) }
    }

    /// Opens connection number `session` with the statements of a trace prepared.
    fn connect_statements(
        &self,
        _statements: &Statements,
        _session: u32,
    ) -> impl Future<Output = Result<Self::Session, TargetError>> {
        async { Err(no_sql()) }
    }
}

/// What a collector of garbage has done, in a process that has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// As its machine calls it.
    pub name: String,
    /// Collections.
    pub count: u64,
    /// Time they took.
    pub time_ms: u64,
}

/// Receives the rows of an answer, in the database's order: [`Rows::row`], then its fields.
pub trait Rows {
    /// The next row begins.
    fn row(&mut self, key: &str);
    /// A field of the current row; `None` is SQL's null.
    fn field(&mut self, number: u32, value: Option<&[u8]>);
}

/// Takes the rows and forgets them: what a replay without verification uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl Rows for Discard {
    #[inline]
    fn row(&mut self, _key: &str) {}
    #[inline]
    fn field(&mut self, _number: u32, value: Option<&[u8]>) {
        // A value that nobody looks at might not be decoded at all: it belongs to the work measured.
        std::hint::black_box(value);
    }
}

/// One connection. It stays on the thread that opened it; each method is exactly one operation.
pub trait Session {
    /// The most values (keys too) of new rows that it can write in one request ([`Session::insert_batch`]);
    /// 0 if a request has one row.
    const BATCH_VALUES: usize = 0;

    /// Writes new rows in one request, all of them or none: a row that is there already is an error of
    /// the whole. The operations have the same fields.
    fn insert_batch(&mut self, _ops: &[Op<'_>]) -> impl Future<Output = Outcome> {
        async { Outcome::UNSUPPORTED }
    }

    /// Fetches one row.
    fn read<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> impl Future<Output = Outcome>;
    /// Overwrites the given fields of one row.
    fn update(&mut self, op: &Op<'_>) -> impl Future<Output = Outcome>;
    /// Writes a new row.
    fn insert(&mut self, op: &Op<'_>) -> impl Future<Output = Outcome>;
    /// Fetches up to `scan_len` rows from `key` on, ascending.
    fn scan<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> impl Future<Output = Outcome>;
    /// Removes one row.
    fn delete(&mut self, op: &Op<'_>) -> impl Future<Output = Outcome>;

    /// Reads the row, then updates it if it was found; `was_found` is called between the two.
    fn read_modify_write<R: Rows>(
        &mut self,
        op: &Op<'_>,
        rows: &mut R,
        was_found: impl FnOnce(),
    ) -> impl Future<Output = Outcome> {
        async move {
            let found = self.read(&Op { fields: &[], ..*op }, rows).await;
            if found.status != Status::Ok {
                return found;
            }
            was_found();
            self.update(op).await
        }
    }

    /// Tells the server that nobody waits any more for the operation under way: it was given up, and the
    /// connection will be replaced. What it returns lives on its own.
    fn cancel(&mut self) -> impl Future<Output = ()> + 'static {
        std::future::ready(())
    }

    /// Reads the row and updates it if it was found, in one transaction of the database: no write of
    /// another session comes between. A failure means that nothing was changed, and keeps its class.
    fn read_modify_write_transaction<R: Rows>(
        &mut self,
        _op: &Op<'_>,
        _rows: &mut R,
    ) -> impl Future<Output = Outcome> {
        async { Outcome::UNSUPPORTED }
    }

    /// Executes one statement of a statement trace. No row at all is OK; an error in a transaction leaves
    /// it to the caller to take it back.
    fn call<R: Rows>(&mut self, _call: &Call<'_>, _rows: &mut R) -> impl Future<Output = Outcome> {
        async { Outcome::UNSUPPORTED }
    }
}

/// Executes one operation: the timed region of the program is one call of this. `was_found` is called when
/// the read of a read-modify-write has found its row.
#[inline]
pub async fn execute<S: Session, R: Rows>(
    session: &mut S,
    op: &Op<'_>,
    rows: &mut R,
    was_found: impl FnOnce(),
) -> Outcome {
    match op.kind {
        OpKind::Read => session.read(op, rows).await,
        OpKind::Update => session.update(op).await,
        OpKind::Insert => session.insert(op).await,
        OpKind::Scan => session.scan(op, rows).await,
        OpKind::ReadModifyWrite => session.read_modify_write(op, rows, was_found).await,
        OpKind::Delete => session.delete(op).await,
        // Statements are executed by `Session::call`.
        _ => Outcome::UNSUPPORTED,
    }
}

/// A job that is generic over the driver: dispatch happens once, by name, and everything below it
/// is monomorphised.
pub trait Visitor {
    /// What the job returns.
    type Output;
    /// Does the job with the driver that the name stands for.
    fn visit<D: Driver>(self) -> Self::Output;
}

/// Declares the table of databases: the kinds of every driver, and the dispatch by name.
macro_rules! drivers {
    ($($(#[$cfg:meta])? $module:ident :: $driver:ident),* $(,)?) => {
        $($(#[$cfg])? pub mod $module;)*

        /// The kinds of every driver in this build, in the order of the table.
        pub fn kinds() -> impl Iterator<Item = &'static Kind> {
            let families: &[&'static [Kind]] = &[$($(#[$cfg])? <$module::$driver as Driver>::KINDS),*];
            families.to_vec().into_iter().flatten()
        }

        /// Runs `visitor` with the driver of the database called `db`; an unknown name is an error
        /// that lists the known ones.
        pub fn dispatch<V: Visitor>(db: &str, visitor: V) -> Result<V::Output, TargetError> {
            $($(#[$cfg])? if <$module::$driver as Driver>::KINDS.iter().any(|kind| kind.names.contains(&db)) {
                return Ok(visitor.visit::<$module::$driver>());
            })*
            let known: Vec<_> = kinds().map(|kind| kind.names[0]).collect();
            Err(TargetError::Request(format!("no database is called {db:?}; there are {}", known.join(", "))))
        }
    };
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "jdbc", feature = "mysql", feature = "riak"))]
// Each SQL driver uses a part of it; a build without one of them leaves some of it over.
#[cfg_attr(not(all(feature = "sqlite", feature = "postgres", feature = "mysql")), allow(dead_code))]
mod sql;

pub mod statements;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "jdbc", feature = "mysql"))]
mod tables;

#[cfg(any(feature = "mysql", feature = "redis", feature = "postgres"))]
mod url;

#[cfg(feature = "tls")]
mod certificates;

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod any_name;

// The table of databases: one row each. A driver with several kinds (dialects) has one row.
drivers! {
    sim::Sim,
    #[cfg(feature = "sqlite")] sqlite::Sqlite,
    #[cfg(feature = "fjall")] fjall::Fjall,
    #[cfg(feature = "postgres")] postgres::Postgres,
    #[cfg(feature = "jdbc")] jdbc::Jdbc,
    #[cfg(feature = "mysql")] mysql::MySql,
    #[cfg(feature = "riak")] riak::Riak,
    #[cfg(feature = "redis")] redis::Redis,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_names() {
        let table = |name: &str, field: &str| TableSpec {
            name: name.to_owned(),
            fields: vec![field.to_owned()],
            field_length: 100,
            shapes: vec![],
        };
        assert!(table("usertable", "FIELD0").check_names(false).is_ok());
        assert!(table("public.usertable", "FIELD0").check_names(true).is_ok());
        for bad in ["", "a b", "a;drop table b", "a\"", "1a", "a.b.c", ".a", "straße"] {
            let error = table(bad, "FIELD0").check_names(true).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
        assert!(table("public.usertable", "FIELD0").check_names(false).is_err());
        assert!(table("usertable", "x--").check_names(false).is_err());
        assert!(table("usertable", "ycsb_key").check_names(false).is_err());
    }
}
