//! Transactional workloads: tables, statements in SQL, and transactions made of them, read from a
//! TOML file. The OLTP tests of sysbench are such files; a user writes others the same way.
//!
//! Everything is resolved here, once: names become positions, options become numbers, and what is
//! wrong is said with its line. What remains ([`OltpSpec`]) only has to be drawn from.

mod file;
pub mod known;
mod make;
mod options;
mod rand;

use std::fmt;

pub use make::{Maker, RowOf};
pub use options::Options;
pub use rand::Rand;

use crate::statement::{Schema, Statements};

/// A line of a workload file, from 1; 0 is nowhere.
pub type Place = usize;

/// Something that cannot be meant, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Where in the file.
    pub place: Place,
    /// What, and what to try.
    pub what: String,
}

impl Trouble {
    fn nowhere(what: String) -> Trouble {
        Trouble { place: rand::NOWHERE, what }
    }

    /// The same, in this line unless it knows a better one.
    fn at(mut self, place: Place) -> Trouble {
        if self.place == rand::NOWHERE {
            self.place = place;
        }
        self
    }
}

/// Why a file is no transactional workload.
#[derive(Debug, thiserror::Error)]
pub struct OltpError {
    path: String,
    trouble: Trouble,
}

impl fmt::Display for OltpError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.trouble.place {
            rand::NOWHERE => write!(out, "{}: {}", self.path, self.trouble.what),
            line => write!(out, "{}:{line}: {}", self.path, self.trouble.what),
        }
    }
}

/// Where a value comes from. A draw of a step has a name, and statements take it by that name.
#[derive(Debug, Clone, PartialEq)]
enum Draw {
    /// The number of a row of the table, by `rand-type`.
    Row,
    /// A number of a range, by `rand-type`.
    Value {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
        /// The range is cut into so many parts, of which transactions (rows of a load) take turns.
        parts: u64,
    },
    /// A number of a range, every one alike.
    Uniform { low: i64, high: i64 },
    /// A template: `#` is a digit, `@` a letter.
    Text(String),
    /// A number of 32 bits (as SQL's INTEGER) that occurs only once in the trace.
    Unique,
    /// 1, 2, 3 … in each table.
    Sequence,
}

impl Draw {
    fn is_text(&self) -> bool {
        matches!(self, Draw::Text(_))
    }
}

/// A parameter of a statement: draws of the step, added up, and a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument {
    /// (position among the step's draws, subtract it)
    draws: Vec<(usize, bool)>,
    constant: i64,
}

/// A statement with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    statement: usize,
    arguments: Vec<Argument>,
    /// The statement names a table.
    on_table: bool,
    /// The statement has a repeat: it takes every group of the step at once.
    repeats: bool,
}

/// How a step chooses its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Every table alike.
    Uniform,
    /// By the number of the transaction, one after the other.
    RoundRobin,
}

/// Statements that share their table and their draws.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    group: usize,
    choice: Choice,
    times: u64,
    /// Groups of parameters, for statements with a repeat.
    repeat: u64,
    draws: Vec<Draw>,
    calls: Vec<Call>,
}

impl Step {
    fn of(&self, wanted: &Draw) -> u64 {
        let draws = self.draws.iter().filter(|draw| *draw == wanted).count() as u64;
        self.times * self.repeat * draws
    }
}

/// A kind of transaction.
#[derive(Debug, Clone, PartialEq)]
struct Transaction {
    weight: f64,
    begins: bool,
    steps: Vec<Step>,
}

impl Transaction {
    /// Rows in a trace: statements, BEGIN and COMMIT.
    fn rows(&self) -> u64 {
        let statements: u64 = self.steps.iter().map(|step| step.times * step.calls.len() as u64).sum();
        statements + if self.begins { 2 } else { 0 }
    }
}

/// Tables that are alike.
#[derive(Debug, Clone, PartialEq)]
struct Group {
    tables: Vec<String>,
    /// Rows loaded into each.
    load_rows: u64,
    /// Rows that draws choose from, at least 1.
    drawn_rows: u64,
    /// One for each column; none is the row's number.
    load: Vec<Option<Draw>>,
    rows_per_insert: u64,
}

/// A transactional workload, checked.
#[derive(Debug, Clone)]
pub struct OltpSpec {
    /// Name of the file, for the trace's name.
    pub name: String,
    /// The tables and their indexes.
    pub schema: Schema,
    /// Statements of the run.
    pub statements: Statements,
    /// Statements of the load: one INSERT for each group of tables.
    pub load_statements: Statements,
    /// Every option, with its source.
    pub options: Options,
    /// Transactions of the run, if the file or a setting says so.
    pub transactions: u64,
    /// Doubts.
    pub warnings: Vec<String>,
    rand: Rand,
    groups: Vec<Group>,
    kinds: Vec<Transaction>,
}

impl OltpSpec {
    /// Statements of the load trace.
    pub fn load_rows(&self) -> u64 {
        self.groups.iter().map(|group| group.inserts() * group.tables.len() as u64).sum()
    }

    /// Rows that the load trace puts into the tables.
    pub fn table_rows(&self) -> u64 {
        self.groups.iter().map(|group| group.load_rows * group.tables.len() as u64).sum()
    }
}

impl Group {
    /// INSERT statements for one table.
    fn inserts(&self) -> u64 {
        self.load_rows.div_ceil(self.rows_per_insert)
    }
}

#[cfg(test)]
mod tests;
