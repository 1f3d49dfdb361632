//! MySQL and the databases that speak its protocol: MariaDB (also as a Galera cluster) and TiDB. The
//! server that answers decides how the table is laid out.
//!
//! Every operation is one prepared statement in its own (autocommit) transaction, one round trip,
//! except a read-modify-write. The protocol is spoken by `wire` and `handshake`: keys and values are written
//! from the trace into the request, and handed on as slices of the answer.
//!
//! Keys must be compared by their bytes, and MySQL's default collations know neither case nor
//! trailing blanks. A table made here has a key column of a binary collation that does not pad; for
//! an existing table with another one, scans are sorted by bytes, and a setting of the run says that
//! no index serves them.
//!
//! An update of a row to the values it has is one row found (`CLIENT_FOUND_ROWS`), not NOT_FOUND.
//! An insert is a plain INSERT: the INSERT IGNORE of go-ycsb would call a duplicate a success.

mod handshake;
mod statements;
mod stream;
mod target;
mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::handshake::Login;
use self::target::{Address, SslMode};
use self::wire::{Conn, Error, Parameter, Statement, Value};
use super::sql::{self, Placeholder, Statements, Wording, found, lost_connection};
use super::{Driver, KEY, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use super::statements::Call;
use crate::op::{Field, Op, OpKind, Outcome, Recovery, Status};
use crate::statement::{Schema, Table};

const UPDATE: (&str, &str) = ("an update", "UPDATE of the fields named; a missing row is NOT_FOUND, an unchanged one is not");

const OPTIONS: &[(&str, &str, &str)] = &[
    ("mysql.host", "127.0.0.1", "host, or path of the socket; several by commas, each with :port if need be; also $MYSQL_HOST"),
    ("mysql.port", "3306, tidb 4000", "port, or one for each host; also $MYSQL_TCP_PORT"),
    ("mysql.user", "root", "user; also db.user"),
    ("mysql.password", "", "password, in any characters; also db.passwd, $MYSQL_PWD"),
    ("mysql.db", "test", "database"),
    ("mysql.load_balance", "false, tidb true", "of several hosts, connection n begins with host n; otherwise with the first"),
    ("mysql.force_index", "true", "reads and scans say FORCE INDEX (`PRIMARY`), as go-ycsb's do"),
    ("mysql.session", "", "settings of every session, e.g. wsrep_sync_wait=1 or transaction_isolation='SERIALIZABLE'"),
    ("mysql.ssl-mode", "DISABLED", "DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"),
    ("mysql.ssl-ca", "", "certificates of the authorities to trust (PEM), instead of this machine's; also in the URL"),
    ("mysql.ssl-cert", "", "our certificate (PEM), if the server wants one; with mysql.ssl-key"),
    ("mysql.ssl-key", "", "its private key (PEM)"),
    ("mysql.connect-timeout", "10", "seconds that each host has to let us in"),
    ("tidb.instances", "", "hosts with ports by commas, instead of mysql.host"),
    ("tidb.cluster_index", "true", "TiDB: the rows are in the index of their keys (CLUSTERED)"),
    ("tidb.replica_read", "", "TiDB: tidb_replica_read of every session, e.g. follower or closest-replicas"),
    ("tidb.stale_read", "", "TiDB: seconds; reads and scans are AS OF TIMESTAMP so long ago (not those of a read-modify-write)"),
    ("db.url", "", "YCSB's jdbc:mysql://host:port/database, if there is no --url; else $DATABASE_URL"),
];

/// Which product answered: it decides about the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Product {
    MySql,
    MariaDb,
    TiDb,
}

impl Product {
    const fn name(self) -> &'static str {
        match self {
            Product::MySql => "MySQL",
            Product::MariaDb => "MariaDB",
            Product::TiDb => "TiDB",
        }
    }

    /// The one that `--db` asks for.
    fn asked(db: &str) -> Product {
        match db {
            "mariadb" => Product::MariaDb,
            "tidb" => Product::TiDb,
            _ => Product::MySql,
        }
    }

    /// The one with this `version()`.
    fn of_server(version: &str) -> Product {
        if version.contains("TiDB") {
            Product::TiDb
        } else if version.contains("MariaDB") {
            Product::MariaDb
        } else {
            Product::MySql
        }
    }
}

/// A server of this family, or several with the same data.
pub struct MySql {
    address: Address,
    asked: Product,
    /// Connection n begins with host n.
    load_balance: bool,
    force_index: bool,
    clustered: bool,
    stale_seconds: Option<u32>,
    /// What every session begins with.
    setup: Vec<String>,
    /// Operations have a deadline: those that were given up are ended on the server.
    kills: bool,
    /// Known after [`Driver::prepare`]: the key column is not in byte order.
    cast_scans: AtomicBool,
    /// Known after [`Driver::prepare`]: the key is the primary key.
    key_is_primary: AtomicBool,
}

/// A connection to it.
pub struct MySqlSession {
    conn: Conn,
    /// How it was opened, for another one that ends it.
    login: Login,
    table: TableSpec,
    texts: Texts,
    statements: Statements<Statement>,
    /// The INSERT of so many rows.
    batch_statement: Option<(usize, Statement)>,
    /// The read of a read-modify-write in a transaction; it locks the row.
    locking: Option<Statement>,
    /// Those of a statement trace.
    calls: Option<statements::Calls>,
    /// The server that knows this connection by its number, if that is sure and of use.
    server: Option<String>,
}

impl Driver for MySql {
    const KINDS: &'static [Kind] = &[
        Kind {
            names: &["mysql"],
            about: "MySQL; --url mysql://user:password@host:port/database",
            default_address: "127.0.0.1:3306",
            options: OPTIONS,
            example: "ycsb-trace replay --db mysql workloada --url mysql://me:secret@127.0.0.1:3306/test --threads 16",
            defaults: &[
                ("isolation", "the server's (repeatable read), each operation its own transaction"),
                ("durability", "the server's (innodb_flush_log_at_trx_commit=1: an acknowledged write is on disk)"),
                UPDATE,
            ],
            tested_against: "a real MySQL (8.0.15), and most of it on MariaDB in its place",
        },
        Kind {
            names: &["mariadb"],
            about: "MariaDB, also several as a Galera cluster",
            default_address: "127.0.0.1:3306",
            options: OPTIONS,
            example: "ycsb-trace replay --db mariadb workloada --url mariadb://me:secret@node1,node2,node3/test -p mysql.load_balance=true --threads 16",
            defaults: &[
                ("isolation", "the server's (repeatable read), each operation its own transaction"),
                ("durability", "the server's (innodb_flush_log_at_trx_commit=1: an acknowledged write is on disk)"),
                UPDATE,
            ],
            tested_against: "a real MariaDB (10.11), and a real Galera cluster of three",
        },
        Kind {
            names: &["tidb"],
            about: "TiDB, by MySQL's protocol",
            default_address: "127.0.0.1:4000",
            options: OPTIONS,
            example: "ycsb-trace replay --db tidb workloada -p tidb.instances=tidb1:4000,tidb2:4000 -p mysql.user=root -p mysql.db=test --threads 96",
            defaults: &[
                ("isolation", "the server's (snapshot, called repeatable read), each operation its own transaction"),
                ("durability", "the server's: an acknowledged write is on a majority of its replicas"),
                UPDATE,
            ],
            tested_against: "a real MariaDB (10.11) in its place, not TiDB itself",
        },
    ];
    const BLOCKING: bool = false;
    type Session = MySqlSession;

    fn open(target: &Target) -> Result<MySql, TargetError> {
        MySql::understand(target, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    async fn prepare(&self, table: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        table.check_names(true)?;
        let mut conn = self.any_host(0, async |conn, _| Ok(conn)).await?;
        let doing = |what: &'static str| move |error: Error| self.refused(what, &error);
        let version = conn.ask_one("SELECT version()").await.map_err(doing("ask for the version"))?;
        let version = version.unwrap_or_default();
        let server = Product::of_server(&version);

        if preparation == Preparation::DropAndCreate {
            let text = format!("DROP TABLE IF EXISTS {}", table.name);
            conn.run(&text).await.map_err(doing("drop the table"))?;
        }
        let mut columns = self.columns(&mut conn, table).await?;
        if preparation == Preparation::CreateIfEmpty && columns.is_some() {
            let text = format!("SELECT 1 FROM {} LIMIT 1", table.name);
            let row = conn.ask_one(&text).await.map_err(doing("look into the table"))?;
            if row.is_some() {
                return Err(TargetError::NotEmpty { table: table.name.clone(), address: self.address.words() });
            }
        }
        if preparation == Preparation::UseExisting && columns.is_none() {
            return Err(TargetError::Unusable(format!(
                "there is no table {} at {}; run the load phase first (--phase load), \
                 or name another table (-p table=…) or database",
                table.name,
                self.address.words()
            )));
        }
        if columns.is_none() {
            let known = "SHOW COLLATION WHERE `Collation` IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')";
            let collation = conn.ask_one(known).await.map_err(doing("ask for collations"))?;
            let text = self.create_table(table, server, collation.as_deref());
            conn.run(&text).await.map_err(doing("create the table"))?;
            columns = self.columns(&mut conn, table).await?;
        }

        let mut info = ServerInfo { address: self.address.words(), version, ..ServerInfo::default() };
        self.check_columns(table, &columns.unwrap_or_default(), &mut info)?;
        if server != self.asked && self.asked != Product::MySql {
            let (asked, server) = (self.asked.name(), server.name());
            let note = format!("{asked} was asked for, {server} answered: the table is laid out for it");
            info.settings.insert("dialect_note".to_owned(), note);
        }
        self.note_settings(&mut conn, &mut info).await?;
        info.statements = self.texts().of_trace(table);
        Ok(info)
    }

    async fn connect(&self, table: &TableSpec, session: u32) -> Result<MySqlSession, TargetError> {
        table.check_names(true)?;
        let first = if self.load_balance { session as usize % self.address.hosts.len() } else { 0 };
        let texts = self.texts();
        let mut shapes = sql::shapes(table);
        let modifies = table.shapes.iter().any(|(kind, _)| *kind == OpKind::ReadModifyWrite);
        if modifies {
            shapes.push((OpKind::ReadModifyWrite, vec![]));
        }
        let mut wanted = Vec::new();
        for (kind, fields) in shapes {
            let text = texts.of(table, kind, &fields).map_err(TargetError::Request)?;
            wanted.push((kind, fields, text));
        }
        let locking = texts.locking(table);
        // A host that lets us in but cannot serve (a node that lost its cluster) says so here.
        let prepared = self.any_host(first, async |mut conn, host| {
            let refused = |error: Error| self.unusable(host, &error);
            let login = self.address.login(host).map_err(refused)?;
            let mut statements = Statements::new();
            for (kind, fields, text) in &wanted {
                let statement = conn.prepare(text).await.map_err(refused)?;
                statements.add(*kind, fields.clone(), statement);
            }
            let locking = if modifies { Some(conn.prepare(&locking).await.map_err(refused)?) } else { None };
            let server = self.server(&mut conn).await;
            Ok((conn, login, statements, locking, server))
        });
        let (conn, login, statements, locking, server) = prepared.await?;
        let (table, batch_statement) = (table.clone(), None);
        Ok(MySqlSession { conn, login, table, texts, statements, batch_statement, locking, calls: None, server })
    }

    async fn prepare_schema(
        &self,
        schema: &Schema,
        preparation: Preparation,
    ) -> Result<ServerInfo, TargetError> {
        self.prepare_tables(schema, preparation).await
    }

    async fn finish_table(&self, schema: &Schema, table: &Table) -> Result<(), TargetError> {
        self.finish(schema, table).await
    }

    async fn connect_statements(
        &self,
        statements: &crate::statement::Statements,
        session: u32,
    ) -> Result<MySqlSession, TargetError> {
        let first = if self.load_balance { session as usize % self.address.hosts.len() } else { 0 };
        self.statement_session(statements, first).await
    }
}

/// Settings that change results, or that a reader of a result asks for.
const SETTINGS: &[&str] = &[
    "version",
    "version_comment",
    "transaction_isolation",
    "tx_isolation",
    "innodb_flush_log_at_trx_commit",
    "innodb_doublewrite",
    "innodb_buffer_pool_size",
    "innodb_flush_method",
    "log_bin",
    "sync_binlog",
    "max_connections",
    "sql_mode",
    "wsrep_on",
    "wsrep_cluster_name",
    "wsrep_sync_wait",
    "tidb_txn_mode",
    "tidb_enable_async_commit",
    "tidb_enable_1pc",
    "tidb_replica_read",
];

/// What `SHOW FULL COLUMNS` says about one.
struct Column {
    name: String,
    /// In lower case, without a length.
    kind: String,
    /// None for binary columns.
    collation: Option<String>,
    /// `PRI`, `UNI`, `MUL` or nothing.
    key: String,
}

impl MySql {
    fn understand(target: &Target, env: impl Fn(&str) -> Option<String>) -> Result<MySql, TargetError> {
        let asked = Product::asked(&target.db);
        let port = if asked == Product::TiDb { 4000 } else { 3306 };
        let address = Address::understand(target, port, env)?;
        let truth = |name: &str, default: bool| match target.property(name) {
            None => Ok(default),
            Some("true" | "1" | "on") => Ok(true),
            Some("false" | "0" | "off") => Ok(false),
            Some(other) => Err(TargetError::Request(format!("{name}={other:?} is neither true nor false"))),
        };
        // Where the server's own default is to cut a value that is too long, it must say so instead.
        let mut setup =
            vec!["SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')".to_owned()];
        if let Some(settings) = target.property("mysql.session") {
            setup.push(format!("SET SESSION {settings}"));
        }
        if let Some(replica) = target.property("tidb.replica_read") {
            if !replica.chars().all(|c| c.is_ascii_lowercase() || "-+".contains(c)) {
                let known = "leader, follower, leader-and-follower, closest-replicas, closest-adaptive, learner";
                let message = format!("tidb.replica_read={replica:?} is not a word of TiDB's; there are {known}");
                return Err(TargetError::Request(message));
            }
            setup.push(format!("SET SESSION tidb_replica_read = '{replica}'"));
        }
        let stale_seconds = match target.property("tidb.stale_read") {
            None => None,
            Some(text) => Some(text.trim_end_matches('s').parse().map_err(|_| {
                TargetError::Request(format!("tidb.stale_read={text:?} is not a number of seconds"))
            })?),
        };
        Ok(MySql {
            address,
            asked,
            load_balance: truth("mysql.load_balance", asked == Product::TiDb)?,
            force_index: truth("mysql.force_index", true)?,
            clustered: truth("tidb.cluster_index", true)?,
            stale_seconds,
            setup,
            kills: target.op_timeout.is_some(),
            cast_scans: AtomicBool::new(false),
            key_is_primary: AtomicBool::new(true),
        })
    }

    fn create_table(&self, table: &TableSpec, server: Product, collation: Option<&str>) -> String {
        // 512 characters: their bytes fit into every index of the family (3,072), and a key of YCSB's
        // with zeropadding fits into them. Lengths on values would cut or refuse some.
        let collation = collation.unwrap_or("utf8mb4_bin");
        let text = "CHARACTER SET utf8mb4";
        let fields: String = table.fields.iter().map(|field| format!(", {field} LONGTEXT {text}")).collect();
        let clustered = match (server, self.clustered) {
            (Product::TiDb, true) => " /*T![clustered_index] CLUSTERED */",
            (Product::TiDb, false) => " /*T![clustered_index] NONCLUSTERED */",
            _ => "",
        };
        format!(
            "CREATE TABLE {} ({KEY} VARCHAR(512) {text} COLLATE {collation} NOT NULL{fields}, \
             PRIMARY KEY ({KEY}){clustered})",
            table.name
        )
    }

    /// The columns of the table, or nothing if there is no such table.
    async fn columns(&self, conn: &mut Conn, table: &TableSpec) -> Result<Option<Vec<Column>>, TargetError> {
        match conn.ask(&format!("SHOW FULL COLUMNS FROM {}", table.name)).await {
            Ok(rows) => {
                // Field, Type, Collation, Null, Key, …
                let text = |row: &[String], position: usize| row.get(position).cloned().unwrap_or_default();
                let column = |row: &Vec<String>| Column {
                    name: text(row, 0),
                    kind: text(row, 1).split('(').next().unwrap_or_default().to_ascii_lowercase(),
                    collation: Some(text(row, 2)).filter(|collation| !collation.is_empty()),
                    key: text(row, 4),
                };
                Ok(Some(rows.iter().map(column).collect()))
            }
            Err(Error::Server { code: 1146, .. }) => Ok(None),
            Err(error) => Err(self.refused("look at the table's columns", &error)),
        }
    }

    /// Checks that the columns are there and hold text, and in which order the key's index is.
    fn check_columns(
        &self,
        table: &TableSpec,
        columns: &[Column],
        info: &mut ServerInfo,
    ) -> Result<(), TargetError> {
        let (name, address) = (&table.name, &info.address);
        let again = "load it again with --drop, or name another table (-p table=…)";
        let find = |wanted: &str| columns.iter().find(|column| column.name.eq_ignore_ascii_case(wanted));
        for needed in std::iter::once(KEY).chain(table.fields.iter().map(String::as_str)) {
            let Some(column) = find(needed) else {
                let existing: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
                return Err(TargetError::Unusable(format!(
                    "table {name} at {address} has no column {needed} (it has {}); {again}",
                    existing.join(", ")
                )));
            };
            if !["char", "text", "binary", "blob"].iter().any(|kind| column.kind.contains(kind)) {
                return Err(TargetError::Unusable(format!(
                    "column {needed} of table {name} at {address} is of type {}, not text; {again}",
                    column.kind
                )));
            }
        }
        let key = find(KEY).expect("just looked for");
        if key.key != "PRI" && key.key != "UNI" {
            return Err(TargetError::Unusable(format!(
                "{KEY} of table {name} at {address} is neither its primary nor a unique key, so that \
                 an insert would not find the row that is there; {again}"
            )));
        }
        self.key_is_primary.store(key.key == "PRI", Ordering::Relaxed);
        let in_bytes = key.collation.as_deref().is_none_or(|collation| collation.ends_with("_bin"));
        self.cast_scans.store(!in_bytes, Ordering::Relaxed);
        let collation = key.collation.as_deref().unwrap_or("binary");
        let order = if in_bytes {
            "by the index of YCSB_KEY".to_owned()
        } else {
            format!("by sorting: the index of YCSB_KEY is in the order of {collation}, scans are in byte order")
        };
        info.settings.insert("scan_order".to_owned(), order);
        info.settings.insert("key_collation".to_owned(), collation.to_owned());
        Ok(())
    }

    /// How statements are worded for the table that [`Driver::prepare`] found.
    fn texts(&self) -> Texts {
        let cast = self.cast_scans.load(Ordering::Relaxed);
        let hint = self.force_index && self.key_is_primary.load(Ordering::Relaxed);
        Texts {
            scan_key: if cast { "CAST(YCSB_KEY AS BINARY)" } else { KEY },
            hint: if hint { " FORCE INDEX (`PRIMARY`)" } else { "" },
            stale_seconds: self.stale_seconds,
        }
    }

    /// The settings of the server that change results.
    async fn note_settings(&self, conn: &mut Conn, info: &mut ServerInfo) -> Result<(), TargetError> {
        let names: Vec<_> = SETTINGS.iter().map(|name| format!("'{name}'")).collect();
        let text = format!("SHOW VARIABLES WHERE Variable_name IN ({})", names.join(", "));
        let pair = |row: Vec<String>| <[String; 2]>::try_from(row).ok().map(|[name, value]| (name, value));
        let variables = conn.ask(&text).await.map_err(|error| self.refused("tell its settings", &error))?;
        info.settings.extend(variables.into_iter().filter_map(pair));
        info.settings.retain(|_, value| !value.is_empty());
        if info.settings.get("wsrep_on").is_some_and(|value| value == "ON") {
            let size = conn.ask("SHOW STATUS LIKE 'wsrep_cluster_size'").await.unwrap_or_default();
            info.settings.extend(size.into_iter().filter_map(pair));
        }
        Ok(())
    }

    /// A connection to the first host, from number `first` on, that lets us in and with which `then`
    /// succeeds.
    async fn any_host<T>(
        &self,
        first: usize,
        then: impl AsyncFn(Conn, usize) -> Result<T, TargetError>,
    ) -> Result<T, TargetError> {
        let mut refusals: Vec<String> = Vec::new();
        for position in 0..self.address.hosts.len() {
            let host = (first + position) % self.address.hosts.len();
            let opened = tokio::time::timeout(self.address.connect_timeout, async {
                then(self.host(host).await?, host).await
            });
            match opened.await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(TargetError::Unusable(reason))) => refusals.push(reason),
                Ok(Err(error)) => return Err(error),
                Err(_) => refusals.push(format!(
                    "{} did not let us in within {} s; is it a MySQL server, is it well, and does a firewall \
                     let us through?",
                    self.address.host(host),
                    self.address.connect_timeout.as_secs()
                )),
            }
        }
        Err(TargetError::Unusable(refusals.join("\n")))
    }

    /// A connection to this host, with the session's settings.
    async fn host(&self, position: usize) -> Result<Conn, TargetError> {
        let unusable = |error: Error| self.unusable(position, &error);
        let login = self.address.login(position).map_err(unusable)?;
        let mut conn = login.connect().await.map_err(unusable)?;
        for text in &self.setup {
            conn.run(text).await.map_err(unusable)?;
        }
        // A Galera node without its cluster lets everybody in and prepares every statement, and then
        // executes none (1047). A MariaDB that is alone says Disconnected, others know no such status.
        let status = conn.ask("SHOW STATUS LIKE 'wsrep_cluster_status'").await.map_err(unusable)?;
        if status.iter().flatten().any(|word| word == "non-Primary") {
            return Err(TargetError::Unusable(format!(
                "{} is not serving: its wsrep_cluster_status is non-Primary; is its cluster complete?",
                self.address.host(position)
            )));
        }
        Ok(conn)
    }

    /// Which server this is. None if nothing will have to be ended there, or if it knows this connection
    /// by another number than we do: then there is something between us that might pass a KILL on to
    /// a server where the number is somebody else's.
    async fn server(&self, conn: &mut Conn) -> Option<String> {
        if !self.kills {
            return None;
        }
        let text = format!("SELECT CONNECTION_ID(), {SERVER}");
        let rows = conn.ask(&text).await.ok()?;
        let [number, server] = <[String; 2]>::try_from(rows.into_iter().next()?).ok()?;
        (number == conn.id.to_string()).then_some(server)
    }

    /// Why there is no connection to this host, and what to try.
    fn unusable(&self, position: usize, error: &Error) -> TargetError {
        let (host, user, database) = (self.address.host(position), &self.address.user, &self.address.database);
        let words = error.to_string();
        if let Some(complaint) = self.address.certificate_complaint(position, error) {
            return TargetError::Unusable(format!("cannot connect to {host}: {complaint}"));
        }
        TargetError::Unusable(match error {
            Error::Server { code, .. } => match code {
                1045 | 1698 | 1044 | 1251 | 1275 | 2059 if self.address.password.is_none() => format!(
                    "{host} refused user {user}: {words}; check -p mysql.user=…, \
                     and give -p mysql.password=… or MYSQL_PWD"
                ),
                1045 | 1698 | 1044 | 1251 | 1275 | 2059 => format!(
                    "{host} refused user {user}: {words}; check -p mysql.user=…, \
                     and -p mysql.password=… or MYSQL_PWD"
                ),
                1049 => format!(
                    "there is no database {database} at {host}: {words}; create it, or name another one (-p mysql.db=…)"
                ),
                1040 | 1203 | 1226 => format!(
                    "{host} has no connection left: {words}; open fewer sessions or raise max_connections"
                ),
                1129 | 1130 => format!("{host} does not admit this machine: {words}"),
                3159 => format!("{host} wants an encrypted connection: {words}; add -p mysql.ssl-mode=REQUIRED"),
                1047 | 1053 => format!("{host} is not serving: {words}; is its cluster complete?"),
                code => format!("{host} refused to prepare the session: {words} ({code})"),
            },
            Error::NoEncryption => format!(
                "{host} cannot encrypt connections; configure a certificate there, or use \
                 -p mysql.ssl-mode=DISABLED on a network you trust"
            ),
            Error::Encryption(_) => format!(
                "the encrypted connection to {host} failed: {words}; check mysql.ssl-mode, mysql.ssl-ca, \
                 mysql.ssl-cert and mysql.ssl-key"
            ),
            Error::Io(io) => match io.kind() {
                std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound => {
                    format!("nobody listens at {host}: {words}; is the server running at this host and port?")
                }
                std::io::ErrorKind::TimedOut => format!(
                    "{host} does not answer: {words}; is the host right, and does a firewall let us through?"
                ),
                _ if words.contains("lookup") => {
                    format!("the host of {host} is unknown: {words}; check its name")
                }
                // The client says so of a failed handshake too.
                _ if self.address.ssl_mode() != SslMode::Disabled && words.contains("certificate") => format!(
                    "the encrypted connection to {host} failed: {words}; check mysql.ssl-mode, mysql.ssl-ca, \
                     mysql.ssl-cert and mysql.ssl-key"
                ),
                _ => format!("cannot connect to {host}: {words}"),
            },
            _ => format!("cannot connect to {host}: {words}"),
        })
    }

    /// The connection is there, but what we asked for was refused.
    fn refused(&self, doing: &str, error: &Error) -> TargetError {
        let code = match error {
            Error::Server { code, .. } => format!(" ({code})"),
            _ => String::new(),
        };
        TargetError::Unusable(format!("{} refused to {doing}: {error}{code}", self.address.words()))
    }
}

/// Tells one server from another.
const SERVER: &str = "CONCAT(@@hostname, ':', @@port)";

/// Time for the request to end a connection that was given up.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// What statements say besides what all SQL databases say.
#[derive(Debug, Clone, Copy)]
struct Texts {
    scan_key: &'static str,
    hint: &'static str,
    stale_seconds: Option<u32>,
}

impl Texts {
    const fn wording(&self) -> Wording {
        Wording { placeholder: Placeholder::Question, scan_key: self.scan_key }
    }

    /// The statement for one shape; a read-modify-write's is its read.
    fn of(&self, table: &TableSpec, kind: OpKind, fields: &[u32]) -> Result<String, String> {
        let wording = self.wording();
        let stale = match self.stale_seconds {
            Some(seconds) if kind != OpKind::ReadModifyWrite => {
                format!(" AS OF TIMESTAMP NOW(6) - INTERVAL {seconds} SECOND")
            }
            _ => String::new(),
        };
        match kind {
            OpKind::Read | OpKind::Scan | OpKind::ReadModifyWrite => {
                let name = format!("{}{stale}{}", table.name, self.hint);
                let kind = if kind == OpKind::Scan { kind } else { OpKind::Read };
                sql::statement(&TableSpec { name, ..table.clone() }, wording, kind, fields)
            }
            _ => sql::statement(table, wording, kind, fields),
        }
    }

    /// The read of a read-modify-write in a transaction: without a lock, two sessions could read the
    /// same row and one would overwrite what the other wrote.
    fn locking(&self, table: &TableSpec) -> String {
        let read = self.of(table, OpKind::ReadModifyWrite, &[]);
        format!("{} FOR UPDATE", read.expect("all fields are fields of the table"))
    }

    /// What is sent for each kind of operation in the trace, for the record.
    fn of_trace(&self, table: &TableSpec) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for (kind, fields) in sql::shapes(table) {
            if let Ok(text) = self.of(table, kind, &fields) {
                texts.entry(kind.name().to_owned()).or_insert(text);
            }
        }
        texts
    }
}

impl MySqlSession {
    /// The statement for this shape; one that the trace did not announce is prepared now.
    #[inline]
    async fn statement(&mut self, kind: OpKind, fields: &[Field<'_>]) -> Result<Statement, Outcome> {
        if let Some(statement) = self.statements.get(kind, fields) {
            return Ok(*statement);
        }
        let numbers = sql::numbers(fields);
        let text = self.texts.of(&self.table, kind, &numbers);
        let text = text.map_err(Outcome::rejected)?;
        // Nothing of the operation has been sent yet, so a failure here is never ambiguous.
        let statement = self.conn.prepare(&text).await.map_err(|error| failure(&error, false))?;
        self.statements.add(kind, numbers, statement);
        Ok(statement)
    }

    async fn fetch<R: Rows>(&mut self, op: &Op<'_>, kind: OpKind, rows: &mut R) -> Result<u32, Outcome> {
        let asked = if kind == OpKind::ReadModifyWrite { &[] } else { op.fields };
        let statement = self.statement(kind, asked).await?;
        self.fetch_by(statement, op, asked, kind == OpKind::Scan, rows).await
    }

    async fn fetch_by<R: Rows>(
        &mut self,
        statement: Statement,
        op: &Op<'_>,
        asked: &[Field<'_>],
        scan: bool,
        rows: &mut R,
    ) -> Result<u32, Outcome> {
        let parameters = [Parameter::Bytes(op.key.as_bytes()), Parameter::Unsigned(u64::from(op.scan_len))];
        let parameters = parameters.into_iter().take(if scan { 2 } else { 1 });
        let fields = if asked.is_empty() { self.table.fields.len() } else { asked.len() };
        let (mut count, mut foreign) = (0, false);
        let fetched = self.conn.execute(statement, parameters, |row| {
            count += 1;
            let mut value = || row.next().and_then(Value::bytes);
            let key = if scan { value().and_then(|key| str::from_utf8(key).ok()) } else { Some(op.key) };
            foreign |= key.is_none();
            rows.row(key.unwrap_or_default());
            for position in 0..fields {
                rows.field(sql::number_of(asked, position), value());
            }
        });
        match fetched.await {
            Ok(_) if foreign => {
                let message = "a key in the answer is not UTF-8";
                Err(Outcome::failed(Status::Error, Recovery::Fatal, "", message))
            }
            Ok(_) => Ok(count),
            Err(error) => Err(failure(&error, false)),
        }
    }

    async fn change(&mut self, op: &Op<'_>, kind: OpKind, fields: &[Field<'_>]) -> Result<u32, Outcome> {
        let statement = self.statement(kind, fields).await?;
        // An INSERT takes the key first, the others last.
        let key_at = if kind == OpKind::Insert { 0 } else { fields.len() };
        let parameters = (0..=fields.len()).map(|position| {
            Parameter::Bytes(match position {
                _ if position == key_at => op.key.as_bytes(),
                _ => fields[position - usize::from(position > key_at)].value,
            })
        });
        match self.conn.execute(statement, parameters, |_| ()).await {
            Ok(rows) => Ok(rows as u32),
            Err(error) => Err(failure(&error, self.conn.sent())),
        }
    }
}

impl MySqlSession {
    /// One INSERT of several rows: all of them or none, since the table is a transactional one.
    async fn insert_rows(&mut self, ops: &[Op<'_>]) -> Result<u32, Outcome> {
        let fields = ops.first().map_or(&[][..], |op| op.fields);
        let statement = match &self.batch_statement {
            Some((rows, statement)) if *rows == ops.len() => *statement,
            // The first, and the last, which may be shorter.
            before => {
                if let Some((_, statement)) = before {
                    self.conn.close(*statement);
                }
                let text = sql::insert_rows(&self.table, self.texts.wording(), &sql::numbers(fields), ops.len());
                let text = text.map_err(Outcome::rejected)?;
                let statement = self.conn.prepare(&text).await.map_err(|error| failure(&error, false))?;
                self.batch_statement = Some((ops.len(), statement));
                statement
            }
        };
        let parameters = sql::insert_values(ops).map(Parameter::Bytes);
        match self.conn.execute(statement, parameters, |_| ()).await {
            Ok(rows) => Ok(rows as u32),
            Err(error) => Err(failure(&error, self.conn.sent())),
        }
    }
}

/// MySQL's number for "lost connection during query", which clients use for what they notice themselves.
const LOST_CONNECTION: &str = "2013";

/// A failure of a request; `wrote` if it was a write that may have reached the server.
#[cold]
fn failure(error: &Error, wrote: bool) -> Outcome {
    let message = error.to_string();
    match error {
        Error::Server { code, state, .. } => {
            let (status, recovery) = classify(*code, state, wrote);
            Outcome::failed(status, recovery, code.to_string(), message)
        }
        // Nothing was sent, and it would fail again.
        Error::TooLarge { .. } => Outcome::failed(Status::Rejected, Recovery::Fatal, "1153", message),
        Error::Io(_) | Error::Closed => {
            let (status, recovery) = lost_connection(wrote);
            Outcome::failed(status, recovery, LOST_CONNECTION, message)
        }
        // An answer that cannot be read: after it, the connection is of no use.
        _ => Outcome::failed(
            Status::Error,
            if wrote { Recovery::Ambiguous } else { Recovery::Reconnect },
            "",
            message,
        ),
    }
}

/// What an error number means here; the rest goes by its SQLSTATE.
fn classify(code: u16, state: &str, wrote: bool) -> (Status, Recovery) {
    match code {
        1062 | 1586 => (Status::Duplicate, Recovery::Fatal),
        // Deadlock (and Galera's failed certification), lock timeout, row changed since it was read,
        // lock not available: the statement had no effect.
        1213 | 1205 | 1020 | 3572 => (Status::Conflict, Recovery::Retry),
        // TiDB: write conflicts, and a schema that changed meanwhile.
        8002 | 8005 | 8022 | 8028 | 9007 => (Status::Conflict, Recovery::Retry),
        // TiDB: its placement driver or storage is too slow, busy or away.
        9001..=9005 => (Status::Unavailable, Recovery::Retry),
        // TiDB: "execution result undetermined".
        8501 => lost_connection(wrote),
        // TiDB: "transaction too large".
        8004 => (Status::Rejected, Recovery::Fatal),
        // A node without its cluster, or one that may only be read: another host may serve. It has
        // not executed the statement. So has none that no longer knows a prepared one.
        1047 | 1290 | 1243 => (Status::Unavailable, Recovery::Reconnect),
        // The server has closed a connection that was idle.
        4031 => (Status::Unavailable, Recovery::Reconnect),
        // Shutting down, killed, and what the server noticed of the network.
        // 1180 is Galera's when its cluster is lost at the commit.
        1053 | 1180 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1927 => lost_connection(wrote),
        1040 | 1203 | 1226 | 1614 => (Status::Unavailable, Recovery::Retry),
        // The statement was killed, or by a time limit of the server's.
        1317 | 1969 | 3024 => (Status::Timeout, Recovery::Retry),
        1615 => (Status::Conflict, Recovery::Retry),
        // Larger than max_allowed_packet; the server has closed the connection.
        1153 => (Status::Rejected, Recovery::Reconnect),
        // No value for a column that needs one, not this character set, a check of MySQL's.
        1364 | 1366 | 3819 => (Status::Rejected, Recovery::Fatal),
        _ => match state.get(..2).unwrap_or_default() {
            "08" => lost_connection(wrote),
            "40" => (Status::Conflict, Recovery::Retry),
            "22" | "23" | "42" => (Status::Rejected, Recovery::Fatal),
            _ => (Status::Error, Recovery::Fatal),
        },
    }
}

impl Session for MySqlSession {
    /// The protocol counts parameters in 16 bits.
    const BATCH_VALUES: usize = 65_535;

    async fn insert_batch(&mut self, ops: &[Op<'_>]) -> Outcome {
        self.insert_rows(ops).await.map_or_else(|failure| failure, Outcome::ok)
    }

    async fn read<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        found(self.fetch(op, OpKind::Read, rows).await)
    }

    async fn update(&mut self, op: &Op<'_>) -> Outcome {
        found(self.change(op, OpKind::Update, op.fields).await)
    }

    async fn insert(&mut self, op: &Op<'_>) -> Outcome {
        self.change(op, OpKind::Insert, op.fields).await.map_or_else(|failure| failure, Outcome::ok)
    }

    async fn scan<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        self.fetch(op, OpKind::Scan, rows).await.map_or_else(|failure| failure, Outcome::ok)
    }

    async fn delete(&mut self, op: &Op<'_>) -> Outcome {
        found(self.change(op, OpKind::Delete, &[]).await)
    }

    async fn read_modify_write<R: Rows>(
        &mut self,
        op: &Op<'_>,
        rows: &mut R,
        was_found: impl FnOnce(),
    ) -> Outcome {
        // A read of its own: where reads may be stale, this one may not.
        let read = found(self.fetch(op, OpKind::ReadModifyWrite, rows).await);
        if read.status != Status::Ok {
            return read;
        }
        was_found();
        self.update(op).await
    }

    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if let Err(error) = self.conn.run("START TRANSACTION").await {
            return failure(&error, false);
        }
        let mut outcome = self.read_and_update(op, rows).await;
        if outcome.status == Status::Ok {
            match self.conn.run("COMMIT").await {
                Ok(()) => return outcome,
                Err(error) => outcome = failure(&error, self.conn.sent()),
            }
        } else if let Some(failure) = &mut outcome.failure
            && failure.recovery == Recovery::Ambiguous
        {
            // What broke before the COMMIT has changed nothing.
            failure.recovery = Recovery::Reconnect;
        }
        let _ = self.conn.run("ROLLBACK").await;
        outcome
    }

    /// By a connection of its own. A server notices that nobody listens any more only when it answers;
    /// until then the locks of the transaction would stay.
    fn cancel(&mut self) -> impl Future<Output = ()> + 'static {
        let (login, number, server) = (self.login.clone(), self.conn.id, self.server.take());
        async move {
            let Some(server) = server else { return };
            let kill = async {
                let mut conn = login.connect().await?;
                let here = conn.ask_one(&format!("SELECT {SERVER}")).await?;
                if here.is_some_and(|here| here == server) {
                    conn.run(&format!("KILL CONNECTION {number}")).await?;
                }
                Ok::<(), Error>(())
            };
            let _ = tokio::time::timeout(KILL_TIMEOUT, kill).await;
        }
    }

    async fn call<R: Rows>(&mut self, call: &Call<'_>, rows: &mut R) -> Outcome {
        self.execute_call(call, rows).await
    }
}

impl MySqlSession {
    /// The inside of the transaction.
    async fn read_and_update<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if self.locking.is_none() {
            let text = self.texts.locking(&self.table);
            match self.conn.prepare(&text).await {
                Ok(statement) => self.locking = Some(statement),
                Err(error) => return failure(&error, false),
            }
        }
        let statement = self.locking.expect("just prepared");
        let read = found(self.fetch_by(statement, op, &[], false, rows).await);
        if read.status == Status::Ok { self.update(op).await } else { read }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mysql(db: &str, properties: &[(&str, &str)]) -> Result<MySql, TargetError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let target = Target {
            db: db.to_owned(),
            properties: properties.iter().map(owned).collect(),
            ..Target::default()
        };
        MySql::understand(&target, |_| None)
    }

    fn table() -> TableSpec {
        TableSpec {
            name: "usertable".to_owned(),
            fields: vec!["FIELD0".to_owned()],
            field_length: 100,
            shapes: vec![],
        }
    }

    #[test]
    fn the_server_that_answers_decides_the_layout() {
        let text = |properties: &[_], version, collation| {
            let Ok(mysql) = mysql("tidb", properties) else { panic!("understood") };
            mysql.create_table(&table(), Product::of_server(version), collation)
        };
        let key = "CREATE TABLE usertable (YCSB_KEY VARCHAR(512) CHARACTER SET utf8mb4 COLLATE";
        let rest = "NOT NULL, FIELD0 LONGTEXT CHARACTER SET utf8mb4, PRIMARY KEY (YCSB_KEY)";
        assert_eq!(
            text(&[], "10.11.19-MariaDB-0+deb12u1", Some("utf8mb4_nopad_bin")),
            format!("{key} utf8mb4_nopad_bin {rest})")
        );
        assert_eq!(text(&[], "8.0.40", Some("utf8mb4_0900_bin")), format!("{key} utf8mb4_0900_bin {rest})"));
        assert_eq!(
            text(&[], "5.7.25-TiDB-v7.1.0", None),
            format!("{key} utf8mb4_bin {rest} /*T![clustered_index] CLUSTERED */)")
        );
        assert!(
            text(&[("tidb.cluster_index", "false")], "8.0.11-TiDB-v8.5.0", None)
                .ends_with("PRIMARY KEY (YCSB_KEY) /*T![clustered_index] NONCLUSTERED */)")
        );
    }

    #[test]
    fn statements_are_hinted_and_stale_as_asked() {
        let of = |properties: &[_], kind| {
            let Ok(mysql) = mysql("tidb", properties) else { panic!("understood") };
            mysql.texts().of(&table(), kind, &[0]).expect("a statement")
        };
        assert_eq!(
            of(&[], OpKind::Read),
            "SELECT FIELD0 FROM usertable FORCE INDEX (`PRIMARY`) WHERE YCSB_KEY = ?"
        );
        let stale = [("tidb.stale_read", "5s"), ("mysql.force_index", "false")];
        assert_eq!(
            of(&stale, OpKind::Scan),
            "SELECT YCSB_KEY, FIELD0 FROM usertable AS OF TIMESTAMP NOW(6) - INTERVAL 5 SECOND \
             WHERE YCSB_KEY >= ? ORDER BY YCSB_KEY LIMIT ?"
        );
        assert_eq!(of(&stale, OpKind::ReadModifyWrite), "SELECT FIELD0 FROM usertable WHERE YCSB_KEY = ?");
        assert_eq!(of(&stale, OpKind::Update), "UPDATE usertable SET FIELD0 = ? WHERE YCSB_KEY = ?");
        let Ok(replica) = mysql("tidb", &[("tidb.replica_read", "closest-replicas")]) else {
            panic!("understood")
        };
        assert_eq!(replica.setup.last().expect("one"), "SET SESSION tidb_replica_read = 'closest-replicas'");
        assert!(mysql("tidb", &[("tidb.replica_read", "x'; DROP")]).is_err());
        assert!(mysql("tidb", &[("tidb.stale_read", "soon")]).is_err());
        assert!(mysql("mysql", &[("mysql.force_index", "maybe")]).is_err());
    }

    #[test]
    fn an_error_number_says_what_can_be_done() {
        let read = |code, state| classify(code, state, false);
        let write = |code, state| classify(code, state, true);
        assert_eq!(write(1062, "23000"), (Status::Duplicate, Recovery::Fatal));
        for code in [1213, 1205, 8002, 8005, 8022, 8028, 9007] {
            assert_eq!(write(code, "HY000"), (Status::Conflict, Recovery::Retry), "{code}");
        }
        for code in 9001..=9005 {
            assert_eq!(write(code, "HY000"), (Status::Unavailable, Recovery::Retry), "{code}");
        }
        assert_eq!(write(8004, "HY000"), (Status::Rejected, Recovery::Fatal));
        assert_eq!(write(8501, "HY000"), (Status::Unavailable, Recovery::Ambiguous));
        assert_eq!(write(1047, "08S01"), (Status::Unavailable, Recovery::Reconnect), "it was not executed");
        assert_eq!(write(1053, "08S01"), (Status::Unavailable, Recovery::Ambiguous));
        assert_eq!(read(1053, "08S01"), (Status::Unavailable, Recovery::Reconnect));
        assert_eq!(write(1406, "22001"), (Status::Rejected, Recovery::Fatal));
        assert_eq!(read(1146, "42S02"), (Status::Rejected, Recovery::Fatal));
        assert_eq!(read(1969, "70100"), (Status::Timeout, Recovery::Retry));
        assert_eq!(read(1105, "HY000"), (Status::Error, Recovery::Fatal));
    }
}
