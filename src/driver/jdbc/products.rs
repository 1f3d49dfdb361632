//! What differs between the databases behind JDBC, as far as a YCSB table goes: data, chosen by the
//! name that the driver gives its database. One that is not here gets what YCSB's manual says, and
//! its scans what YCSB's binding sends.

use crate::driver::{KEY, TableSpec};

/// How a scan says how many rows it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `… LIMIT ?`
    Last,
    /// `… FETCH FIRST ? ROWS ONLY`
    Fetch,
    /// `SELECT TOP (?) …`: the number comes before the start key.
    Top,
}

/// A database.
#[derive(Debug)]
pub struct Product {
    /// `getDatabaseProductName()` contains it, or for the relatives of PostgreSQL, its `version()`.
    pub name: &'static str,
    /// The key column.
    key: &'static str,
    /// The type of a field.
    field: &'static str,
    /// What follows the columns inside the parentheses.
    constraint: &'static str,
    pub limit: Limit,
    /// Queries of one row and one column, for settings that change results.
    pub settings: &'static [(&'static str, &'static str)],
}

// Keys of 512 characters are within MySQL's 3,072 bytes for a key.
const PLAIN: Product = Product {
    name: "",
    key: "YCSB_KEY VARCHAR(255) NOT NULL PRIMARY KEY",
    field: "TEXT",
    constraint: "",
    limit: Limit::Last,
    settings: &[],
};

const POSTGRES_SETTINGS: &[(&str, &str)] = &[
    ("synchronous_commit", "SHOW synchronous_commit"),
    ("fsync", "SHOW fsync"),
    ("full_page_writes", "SHOW full_page_writes"),
    ("shared_buffers", "SHOW shared_buffers"),
    ("server_version", "SELECT version()"),
];

const MYSQL_SETTINGS: &[(&str, &str)] = &[
    ("innodb_flush_log_at_trx_commit", "SELECT @@innodb_flush_log_at_trx_commit"),
    ("sync_binlog", "SELECT @@sync_binlog"),
    ("innodb_buffer_pool_size", "SELECT @@innodb_buffer_pool_size"),
];

// The specific before the general.
static PRODUCTS: [Product; 12] = [
    Product { name: "CockroachDB", key: "YCSB_KEY VARCHAR PRIMARY KEY", ..PLAIN },
    Product { name: "-YB-", key: "YCSB_KEY VARCHAR", constraint: ", PRIMARY KEY (YCSB_KEY ASC)", ..PLAIN },
    Product {
        name: "PostgreSQL",
        key: "YCSB_KEY VARCHAR COLLATE \"C\" PRIMARY KEY",
        settings: POSTGRES_SETTINGS,
        ..PLAIN
    },
    Product {
        name: "MariaDB",
        key: "YCSB_KEY VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY",
        field: "LONGTEXT CHARACTER SET utf8mb4",
        settings: MYSQL_SETTINGS,
        ..PLAIN
    },
    Product {
        name: "MySQL",
        key: "YCSB_KEY VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin PRIMARY KEY",
        field: "LONGTEXT CHARACTER SET utf8mb4",
        settings: MYSQL_SETTINGS,
        ..PLAIN
    },
    // The layout of HerdDB's own YCSB runner.
    Product {
        name: "HerdDB",
        key: "YCSB_KEY VARCHAR(191) NOT NULL",
        field: "STRING",
        constraint: ", PRIMARY KEY(YCSB_KEY)",
        ..PLAIN
    },
    // Its TEXT is a CLOB, kept outside of the row.
    Product { name: "H2", key: "YCSB_KEY VARCHAR PRIMARY KEY", field: "VARCHAR", ..PLAIN },
    Product { name: "HSQL", field: "LONGVARCHAR", ..PLAIN },
    Product { name: "Derby", field: "VARCHAR(32672)", limit: Limit::Fetch, ..PLAIN },
    Product { name: "DB2", field: "VARCHAR(4000)", limit: Limit::Fetch, ..PLAIN },
    Product { name: "Oracle", field: "VARCHAR2(4000)", limit: Limit::Fetch, ..PLAIN },
    Product {
        name: "Microsoft SQL Server",
        key: "YCSB_KEY VARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY",
        field: "VARCHAR(MAX)",
        limit: Limit::Top,
        ..PLAIN
    },
];

static OTHER: Product = PLAIN;

impl Product {
    /// The product of this name, or for PostgreSQL's relatives of this version text.
    pub fn named(name: &str) -> &'static Product {
        PRODUCTS.iter().find(|product| name.contains(product.name)).unwrap_or(&OTHER)
    }

    pub fn create_table(&self, table: &TableSpec) -> String {
        let fields: String = table.fields.iter().map(|field| format!(", {field} {}", self.field)).collect();
        format!("CREATE TABLE {} ({}{fields}{})", table.name, self.key, self.constraint)
    }

    /// A scan as this database says it; `text` ends with `LIMIT ?`.
    pub fn scan(&self, text: &str) -> String {
        let Some(body) = text.strip_suffix(" LIMIT ?") else { return text.to_owned() };
        match self.limit {
            Limit::Last => text.to_owned(),
            Limit::Fetch => format!("{body} FETCH FIRST ? ROWS ONLY"),
            Limit::Top => body.replacen("SELECT", "SELECT TOP (?)", 1),
        }
    }
}

/// The condition-free query whose answer shows a table's columns.
pub fn look_at(table: &TableSpec) -> String {
    format!("SELECT * FROM {} WHERE 1 = 0", table.name)
}

/// A query that answers a row if the table has any.
pub fn any_row(table: &TableSpec) -> String {
    format!("SELECT {KEY} FROM {}", table.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_how_a_table_and_a_scan_are_written() {
        let table = TableSpec {
            name: "usertable".to_owned(),
            fields: vec!["FIELD0".to_owned(), "FIELD1".to_owned()],
            field_length: 100,
            shapes: vec![],
        };
        let create = |name| Product::named(name).create_table(&table);
        // The text of HerdDB's wiki.
        assert_eq!(
            create("HerdDB"),
            "CREATE TABLE usertable (YCSB_KEY VARCHAR(191) NOT NULL, FIELD0 STRING, FIELD1 STRING, \
             PRIMARY KEY(YCSB_KEY))"
        );
        // YCSB's manual.
        assert_eq!(
            create("Something else"),
            "CREATE TABLE usertable (YCSB_KEY VARCHAR(255) NOT NULL PRIMARY KEY, FIELD0 TEXT, FIELD1 TEXT)"
        );
        assert!(create("PostgreSQL").contains("COLLATE \"C\""));
        let scan = |name| Product::named(name).scan("SELECT A FROM t WHERE A >= ? ORDER BY A LIMIT ?");
        assert_eq!(scan("H2"), "SELECT A FROM t WHERE A >= ? ORDER BY A LIMIT ?");
        assert_eq!(scan("Apache Derby"), "SELECT A FROM t WHERE A >= ? ORDER BY A FETCH FIRST ? ROWS ONLY");
        assert_eq!(scan("Microsoft SQL Server"), "SELECT TOP (?) A FROM t WHERE A >= ? ORDER BY A");
    }
}
