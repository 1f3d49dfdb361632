//! The options that people know from sysbench, in one table: names, flags of `gen`, their help and what is
//! accepted all follow from it. A workload has those that its file declares, with the file's defaults;
//! only those with a default here belong to every one. A user's own options need no row.

/// How the value of an option is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A whole number.
    Count,
    /// A number.
    Number,
    /// `on` or `off`.
    Switch,
    /// A word.
    Word,
}

/// An option of sysbench.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// As the flag is written; `_` is as good as `-`.
    pub name: &'static str,
    /// Of its value.
    pub form: Form,
    /// What it decides.
    pub about: &'static str,
    /// Its value in every workload that does not declare it.
    pub everywhere: Option<&'static str>,
}

const fn option(name: &'static str, form: Form, about: &'static str) -> Known {
    Known { name, form, about, everywhere: None }
}

const fn everywhere(name: &'static str, form: Form, value: &'static str, about: &'static str) -> Known {
    Known { name, form, about, everywhere: Some(value) }
}

use Form::{Count, Number, Switch, Word};

/// Every one, in the order of sysbench's help.
pub const KNOWN: &[Known] = &[
    option("tables", Count, "Tables"),
    option("table-size", Count, "Rows in each table"),
    option("auto-inc", Switch, "The database numbers new rows; off: the trace does"),
    option("secondary", Switch, "An index on id in place of the primary key"),
    option("create-secondary", Switch, "An index on k"),
    option("mysql-storage-engine", Word, "Storage engine of the tables, on MySQL and MariaDB"),
    option("point-selects", Count, "Rows read by id in a transaction"),
    option("range-selects", Switch, "Ranges are read at all"),
    option("range-size", Count, "Rows of a range"),
    option("simple-ranges", Count, "Ranges read in a transaction"),
    option("sum-ranges", Count, "Ranges added up in a transaction"),
    option("order-ranges", Count, "Ranges sorted in a transaction"),
    option("distinct-ranges", Count, "Ranges sorted without duplicates in a transaction"),
    option("index-updates", Count, "Updates of k, which has an index, in a transaction"),
    option("non-index-updates", Count, "Updates of c, which has none, in a transaction"),
    option("delete-inserts", Count, "Rows deleted and inserted again in a transaction"),
    option("skip-trx", Switch, "No BEGIN and COMMIT: each statement stands for itself"),
    option("random-points", Count, "Values in a list of select_random_points"),
    option("number-of-ranges", Count, "Ranges in a statement of select_random_ranges"),
    option("delta", Count, "Length of those ranges"),
    option("segments", Count, "Parts of the table that lists draw from in turn, as sysbench's threads do"),
    option("rows-per-statement", Count, "Rows in an INSERT of bulk_insert"),
    everywhere("rand-type", Word, "special", "Rows favoured: uniform, gaussian, special, pareto or zipfian"),
    everywhere("rand-spec-iter", Count, "12", "Numbers averaged by gaussian and special"),
    everywhere("rand-spec-pct", Number, "1", "Percent of the rows that special favours"),
    everywhere("rand-spec-res", Number, "75", "Percent of its draws that they get"),
    everywhere("rand-pareto-h", Number, "0.2", "Parameter h of pareto"),
    everywhere("rand-zipfian-exp", Number, "0.8", "Exponent of zipfian"),
];
