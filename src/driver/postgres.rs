//! PostgreSQL and the databases that speak its protocol: CockroachDB and YugabyteDB. What differs
//! between them is data, in [`DIALECTS`]; the server that answers decides which row applies.
//!
//! Every operation is one prepared statement in its own (autocommit) transaction, one round trip.
//! Values travel as they are, in the protocol's binary format, which for text is the text: nothing
//! is copied into a `String` on the way. A value that is not text is refused by the server (22021).
//!
//! Scans must be in byte order. A table made here has a key column of collation "C", so that its
//! index is in that order; for an existing table with another collation the scan says
//! `COLLATE "C"`, and a setting of the run says that no index serves it.

mod statements;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use futures_util::TryStreamExt;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage, Statement};

use super::sql::{self, Placeholder, Statements, Wording};
use super::{Driver, KEY, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use super::statements::Call;
use crate::op::{Field, Op, OpKind, Outcome, Recovery, Status};
use crate::statement::{Schema, Table};

/// What differs between the databases that speak this protocol.
#[derive(Debug)]
struct Dialect {
    /// The product's name.
    product: &'static str,
    /// The first of its names for `--db`.
    db: &'static str,
    port: u16,
    user: &'static str,
    database: &'static str,
    /// `version()` of such a server contains one of these.
    marks: &'static [&'static str],
    /// Text of the key column's definition.
    key_column: &'static str,
    /// What follows the columns inside the parentheses.
    table_constraint: &'static str,
    /// What follows the parentheses.
    splits: fn() -> String,
    /// Text compares by bytes whatever the catalogue says about collations.
    orders_by_bytes: bool,
}

// The key is a VARCHAR without a length, as in YCSB's own table-creating helper: the lengths in its
// manual (255) and in go-ycsb (64) cost or save nothing here, but would turn a long key (zeropadding)
// into an error. Values are TEXT for the same reason.
static DIALECTS: [Dialect; 3] = [
    Dialect {
        product: "PostgreSQL",
        db: "postgres",
        port: 5432,
        user: "postgres",
        database: "postgres",
        marks: &[],
        key_column: "YCSB_KEY VARCHAR COLLATE \"C\" PRIMARY KEY",
        table_constraint: "",
        splits: String::new,
        orders_by_bytes: false,
    },
    Dialect {
        product: "CockroachDB",
        db: "cockroach",
        port: 26257,
        user: "root",
        database: "defaultdb",
        marks: &["CockroachDB"],
        // Its strings have no collation unless asked, and then another type and a slower index.
        key_column: "YCSB_KEY VARCHAR PRIMARY KEY",
        table_constraint: "",
        splits: String::new,
        orders_by_bytes: true,
    },
    Dialect {
        product: "YugabyteDB",
        db: "yugabyte",
        port: 5433,
        user: "yugabyte",
        database: "yugabyte",
        marks: &["YugabyteDB", "-YB-"],
        // Without ASC the key is hashed, and a scan reads the whole table.
        key_column: "YCSB_KEY VARCHAR",
        table_constraint: ", PRIMARY KEY (YCSB_KEY ASC)",
        splits: yugabyte_splits,
        orders_by_bytes: false,
    },
];

/// The split points of YugabyteDB's documentation for YCSB: user10, user14, … user98.
fn yugabyte_splits() -> String {
    let values: Vec<_> = (10..=98).step_by(4).map(|prefix| format!("('user{prefix}')")).collect();
    format!(" SPLIT AT VALUES ({})", values.join(", "))
}

impl Dialect {
    /// The dialect that `--db` asks for.
    fn named(db: &str) -> &'static Dialect {
        let kind = Postgres::KINDS.iter().position(|kind| kind.names.contains(&db));
        &DIALECTS[kind.unwrap_or(0)]
    }

    /// The dialect of the server with this `version()`.
    fn of_server(version: &str) -> &'static Dialect {
        let marked =
            DIALECTS.iter().find(|dialect| dialect.marks.iter().any(|mark| version.contains(mark)));
        marked.unwrap_or(&DIALECTS[0])
    }

    fn create_table(&self, table: &TableSpec) -> String {
        let fields: String = table.fields.iter().map(|field| format!(", {field} TEXT")).collect();
        let Dialect { key_column, table_constraint, splits, .. } = self;
        format!("CREATE TABLE {} ({key_column}{fields}{table_constraint}){}", table.name, splits())
    }
}

const OPTIONS: &[(&str, &str, &str)] = &[
    ("pg.host", "127.0.0.1", "host, or folder of the socket; several by commas are tried in turn; also $PGHOST"),
    ("pg.port", "5432, 26257, 5433", "port, or one for each host; also $PGPORT"),
    ("pg.user", "postgres, root, yugabyte", "user; also db.user, $PGUSER"),
    ("pg.password", "", "password, in any characters; also db.passwd, $PGPASSWORD"),
    ("pg.db", "postgres, defaultdb, yugabyte", "database; also $PGDATABASE"),
    ("pg.sslmode", "disable", "disable, allow or prefer: connections are not encrypted"),
    ("pg.options", "", "settings of every session, e.g. -c default_transaction_isolation=serializable"),
    ("pg.isolation", "serializable", "of --rmw transaction: read committed, repeatable read or serializable"),
    ("db.url", "", "YCSB's jdbc:postgresql://host:port/database, if there is no --url; else $DATABASE_URL"),
];

const UPDATE: (&str, &str) = ("an update", "UPDATE of the fields named; a missing row is NOT_FOUND");

/// A server of this family.
#[derive(Debug)]
pub struct Postgres {
    config: Config,
    dialect: &'static Dialect,
    /// Known after [`Driver::prepare`]: the key column is not in byte order.
    collate_scans: AtomicBool,
    begin: &'static str,
}

/// A connection to it.
#[derive(Debug)]
pub struct PostgresSession {
    client: Client,
    connection: Connected,
    table: TableSpec,
    wording: Wording,
    statements: Statements<Statement>,
    /// Those of a statement trace.
    calls: Option<statements::Calls>,
    /// Begins a transaction (`--rmw transaction`).
    begin: &'static str,
}

type Ending = Arc<Mutex<Option<String>>>;

/// The other half of a connection: the task that moves its bytes. It ends with the session; left to
/// itself, it would wait for the answer to a request that nobody waits for any more.
#[derive(Debug)]
struct Connected {
    /// Why the connection ended, once it has.
    ending: Ending,
    task: tokio::task::AbortHandle,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Driver for Postgres {
    const KINDS: &'static [Kind] = &[
        Kind {
            names: &["postgres", "pg", "postgresql"],
            about: "PostgreSQL; --url postgres://user:password@host:port/database",
            default_address: "127.0.0.1:5432",
            options: OPTIONS,
            example: "ycsb-trace replay --db postgres workloada --url postgres://me:secret@127.0.0.1:5432/test --threads 16",
            defaults: &[
                ("isolation", "the server's (read committed), each operation its own transaction"),
                ("durability", "the server's (synchronous_commit=on: an acknowledged write is on disk)"),
                UPDATE,
            ],
            tested_against: "a real PostgreSQL (15)",
        },
        Kind {
            names: &["cockroach", "cdb", "cockroachdb"],
            about: "CockroachDB, by PostgreSQL's protocol",
            default_address: "127.0.0.1:26257",
            options: OPTIONS,
            example: "ycsb-trace replay --db cockroach workloada --url postgres://root@127.0.0.1:26257/test?sslmode=disable --threads 96",
            defaults: &[
                ("isolation", "the server's (serializable), each operation its own transaction"),
                ("durability", "the server's: an acknowledged write is on a majority of its replicas"),
                UPDATE,
            ],
            tested_against: "PostgreSQL in its place, not CockroachDB itself",
        },
        Kind {
            names: &["yugabyte", "ysql", "yugabytedb"],
            about: "YugabyteDB's YSQL, by PostgreSQL's protocol; the table is sharded by ranges of keys",
            default_address: "127.0.0.1:5433",
            options: OPTIONS,
            example: "ycsb-trace replay --db yugabyte workloada --url postgres://yugabyte@127.0.0.1:5433/yugabyte --threads 96",
            defaults: &[
                ("isolation", "the server's (snapshot, or read committed by a flag of it), each operation its own transaction"),
                ("durability", "the server's: an acknowledged write is on a majority of its replicas"),
                UPDATE,
            ],
            tested_against: "PostgreSQL in its place, not YugabyteDB itself",
        },
    ];
    const BLOCKING: bool = false;
    type Session = PostgresSession;

    fn open(target: &Target) -> Result<Postgres, TargetError> {
        Postgres::understand(target, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    async fn prepare(&self, table: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        table.check_names(true)?;
        let (client, _connection) = self.client().await?;
        let doing = |what: &'static str| move |error: Error| self.refused(what, &error);
        let version: String = client
            .query_one("SELECT version()", &[])
            .await
            .and_then(|row| row.try_get(0))
            .map_err(doing("ask for the version"))?;
        let server = Dialect::of_server(&version);

        let drop = preparation == Preparation::DropAndCreate;
        if drop {
            let text = format!("DROP TABLE IF EXISTS {}", table.name);
            client.batch_execute(&text).await.map_err(doing("drop the table"))?;
        }
        let exists = !drop && self.table_exists(&client, table).await?;
        if preparation == Preparation::CreateIfEmpty && exists {
            let text = format!("SELECT EXISTS (SELECT 1 FROM {})", table.name);
            let row = client.query_one(&text, &[]).await.map_err(doing("look into the table"))?;
            if row.try_get(0).map_err(doing("look into the table"))? {
                return Err(TargetError::NotEmpty { table: table.name.clone(), address: self.address() });
            }
        }
        if preparation == Preparation::UseExisting && !exists {
            return Err(TargetError::Unusable(format!(
                "there is no table {} at {}; run the load phase first (--phase load), \
                 or name another table (-p table=…) or database",
                table.name,
                self.address()
            )));
        }
        if !exists {
            client.batch_execute(&server.create_table(table)).await.map_err(doing("create the table"))?;
        }

        let mut info = ServerInfo { address: self.address(), version, ..ServerInfo::default() };
        self.check_columns(&client, table, server, &mut info).await?;
        if server.product != self.dialect.product {
            let note =
                format!("{} was asked for, {} answered: the table is laid out for it", self.dialect.db, server.product);
            info.settings.insert("dialect_note".to_owned(), note);
        }
        info.statements = sql::texts(table, self.wording());
        self.note_settings(&client, &mut info).await;
        Ok(info)
    }

    async fn connect(&self, table: &TableSpec, _session: u32) -> Result<PostgresSession, TargetError> {
        table.check_names(true)?;
        let (client, connection) = self.client().await?;
        let wording = self.wording();
        let mut statements = Statements::new();
        for (kind, fields) in sql::shapes(table) {
            let text = sql::statement(table, wording, kind, &fields).map_err(TargetError::Request)?;
            let statement =
                client.prepare(&text).await.map_err(|error| self.refused("prepare a statement", &error))?;
            statements.add(kind, fields, statement);
        }
        let begin = self.begin;
        Ok(PostgresSession {
            client,
            connection,
            table: table.clone(),
            wording,
            statements,
            calls: None,
            begin,
        })
    }

    async fn prepare_schema(
        &self,
        schema: &Schema,
        preparation: Preparation,
    ) -> Result<ServerInfo, TargetError> {
        self.prepare_statement_trace(schema, preparation).await
    }

    async fn finish_table(&self, schema: &Schema, table: &Table) -> Result<(), TargetError> {
        let (client, _connection) = self.client().await?;
        self.finish(&client, schema, table).await
    }

    async fn connect_statements(
        &self,
        statements: &crate::statement::Statements,
        _session: u32,
    ) -> Result<PostgresSession, TargetError> {
        let (client, connection) = self.client().await?;
        let calls = self.prepare_statements(&client, statements).await?;
        Ok(PostgresSession {
            client,
            connection,
            table: TableSpec { name: String::new(), fields: Vec::new(), field_length: 0, shapes: Vec::new() },
            wording: self.wording(),
            statements: Statements::new(),
            calls: Some(calls),
            begin: self.begin,
        })
    }
}

/// What begins a transaction of this isolation level.
fn begin(isolation: &str) -> Result<&'static str, TargetError> {
    match isolation.trim().to_ascii_lowercase().replace(['-', '_'], " ").as_str() {
        "serializable" => Ok("BEGIN ISOLATION LEVEL SERIALIZABLE"),
        "repeatable read" => Ok("BEGIN ISOLATION LEVEL REPEATABLE READ"),
        "read committed" => Ok("BEGIN ISOLATION LEVEL READ COMMITTED"),
        other => Err(TargetError::Request(format!(
            "pg.isolation={other:?} is not known; use one of read committed, repeatable read, serializable"
        ))),
    }
}

/// Time to reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings that change results, or that a reader of a result asks for.
const SETTINGS: &[&str] = &[
    "server_version",
    "transaction_isolation",
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "shared_buffers",
    "max_connections",
    "server_encoding",
    "statement_timeout",
];

impl Postgres {
    /// The connection settings: of `--url` first, then of properties, then of the environment, and
    /// for the rest the dialect's defaults.
    fn understand(target: &Target, env: impl Fn(&str) -> Option<String>) -> Result<Postgres, TargetError> {
        let dialect = Dialect::named(&target.db);
        let property = |name: &str| target.property(name).map(str::to_owned);
        let (url, origin) = if let Some(url) = target.url.clone() {
            (Some(url), "--url")
        } else if let Some(url) = property("db.url") {
            (Some(url), "db.url")
        } else if target.property("pg.host").is_none() {
            (env("DATABASE_URL"), "DATABASE_URL")
        } else {
            (None, "")
        };
        // In this order, each fills what is still open.
        let first = |properties: &[&str], variable: &str| {
            properties.iter().find_map(|name| property(name)).or_else(|| env(variable))
        };
        let ports: Vec<u16> = match first(&["pg.port"], "PGPORT") {
            Some(text) => text
                .split(',')
                .map(|port| port.trim().parse())
                .collect::<Result<_, _>>()
                .map_err(|_| TargetError::Request(format!("pg.port={text:?} is not a port number")))?,
            None => vec![dialect.port],
        };
        let mut config = match &url {
            Some(url) => parse(url, origin, ports[0])?,
            None => Config::new(),
        };
        require_plaintext(target.property("pg.sslmode").unwrap_or("disable"), "pg.sslmode")?;
        config.ssl_mode(SslMode::Disable);

        if config.get_user().is_none() {
            config.user(first(&["pg.user", "db.user"], "PGUSER").unwrap_or_else(|| dialect.user.to_owned()));
        }
        if config.get_password().is_none()
            && let Some(password) = first(&["pg.password", "db.passwd"], "PGPASSWORD")
        {
            config.password(password);
        }
        if config.get_dbname().is_none() {
            let named = first(&["pg.db"], "PGDATABASE");
            // In a URL, no database means the server's own default, as everywhere else.
            let default = || url.is_none().then(|| dialect.database.to_owned());
            if let Some(database) = named.or_else(default) {
                config.dbname(database);
            }
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let hosts = first(&["pg.host"], "PGHOST").unwrap_or_else(|| "127.0.0.1".to_owned());
            for host in hosts.split(',').map(str::trim) {
                config.host(host);
            }
        }
        if config.get_ports().is_empty() {
            let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
            if ports.len() != 1 && ports.len() != hosts {
                return Err(TargetError::Request(format!(
                    "pg.port names {} ports for {hosts} host(s); give one for all, or one for each",
                    ports.len()
                )));
            }
            for port in ports {
                config.port(port);
            }
        }
        if let (None, Some(options)) = (config.get_options(), property("pg.options")) {
            config.options(options);
        }
        if config.get_application_name().is_none() {
            config.application_name("ycsb-trace");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let begin = begin(target.property("pg.isolation").unwrap_or("serializable"))?;
        Ok(Postgres { config, dialect, collate_scans: AtomicBool::new(false), begin })
    }

    /// `host:port/database`, as a person would say it.
    fn address(&self) -> String {
        let hosts = self.config.get_hosts();
        let mut names: Vec<String> = hosts
            .iter()
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(folder) => folder.display().to_string(),
            })
            .collect();
        if names.is_empty() {
            names.extend(self.config.get_hostaddrs().iter().map(ToString::to_string));
        }
        let ports = self.config.get_ports();
        for (position, name) in names.iter_mut().enumerate() {
            let port = ports.get(position).or(ports.first()).copied().unwrap_or(self.dialect.port);
            if name.contains(':') {
                *name = format!("[{name}]");
            }
            *name = format!("{name}:{port}");
        }
        let database = self.config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
        format!("{}{database}", names.join(","))
    }

    /// The settings of the server that change results.
    async fn note_settings(&self, client: &Client, info: &mut ServerInfo) {
        for name in SETTINGS {
            // A server that does not know the setting refuses; that is no news.
            if let Ok(answer) = client.simple_query(&format!("SHOW {name}")).await {
                let value = answer.iter().find_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                });
                info.settings.extend(value.map(|value| ((*name).to_owned(), value.to_owned())));
            }
        }
    }

    /// Opens a connection and lets the current runtime drive it.
    async fn client(&self) -> Result<(Client, Connected), TargetError> {
        // The client's own limit ends when TCP is connected, and a server may be silent after that.
        let hosts = self.config.get_hosts().len().max(self.config.get_hostaddrs().len()).max(1);
        let timeout = self.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        let limit = timeout.saturating_mul(hosts as u32).saturating_add(Duration::from_millis(100));
        let (client, connection) = match tokio::time::timeout(limit, self.config.connect(NoTls)).await {
            Ok(connected) => connected.map_err(|error| self.unusable(&error))?,
            Err(_) => {
                return Err(TargetError::Unusable(format!(
                    "{} accepts connections but does not answer; is it a PostgreSQL server, and is it well?",
                    self.address()
                )));
            }
        };
        let ending = Ending::default();
        let noted = Arc::clone(&ending);
        let task = tokio::spawn(async move {
            let mut connection = pin!(connection);
            let reason = match connection.as_mut().await {
                Ok(()) => None,
                Err(error) => Some(words(&error)),
            };
            // Before the connection is dropped, and with it the requests that wait for an answer.
            *noted.lock().expect("nobody panics holding it") = reason;
        });
        Ok((client, Connected { ending, task: task.abort_handle() }))
    }

    async fn table_exists(&self, client: &Client, table: &TableSpec) -> Result<bool, TargetError> {
        let answer = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table.name]).await;
        answer.and_then(|row| row.try_get(0)).map_err(|error| self.refused("look for the table", &error))
    }

    /// Checks that the columns are there and hold text, and in which order the key's index is.
    async fn check_columns(
        &self,
        client: &Client,
        table: &TableSpec,
        server: &Dialect,
        info: &mut ServerInfo,
    ) -> Result<(), TargetError> {
        let rows = client.query(COLUMNS, &[&table.name]).await;
        let columns: Result<Vec<(String, String, Option<String>)>, Error> = rows.and_then(|rows| {
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
        });
        let columns = columns.map_err(|error| self.refused("look at the table's columns", &error))?;
        let (name, address) = (&table.name, &info.address);
        for (needed, position) in std::iter::once(KEY).chain(table.fields.iter().map(String::as_str)).zip(0..) {
            let Some((_, kind, _)) = columns.iter().find(|column| column.0.eq_ignore_ascii_case(needed)) else {
                let existing: Vec<_> = columns.iter().map(|column| column.0.as_str()).collect();
                return Err(TargetError::Unusable(format!(
                    "table {name} at {address} has no column {needed} (it has {}); \
                     load it again with --drop, or name another table (-p table=…)",
                    existing.join(", ")
                )));
            };
            let is_text = matches!(kind.as_str(), "text" | "character varying")
                || position > 0 && matches!(kind.as_str(), "character" | "bytea");
            if !is_text && !server.orders_by_bytes {
                return Err(TargetError::Unusable(format!(
                    "column {needed} of table {name} at {address} is of type {kind}, not text; \
                     load it again with --drop, or name another table (-p table=…)"
                )));
            }
        }
        let collation = columns.iter().find(|column| column.0.eq_ignore_ascii_case(KEY));
        let collation = collation.and_then(|column| column.2.as_deref()).unwrap_or("C");
        let in_bytes = server.orders_by_bytes || orders_by_bytes(collation);
        self.collate_scans.store(!in_bytes, Ordering::Relaxed);
        let order = if in_bytes {
            "by the index of YCSB_KEY".to_owned()
        } else {
            format!("by sorting: the index of YCSB_KEY is in the order of {collation}, scans are in byte order")
        };
        info.settings.insert("scan_order".to_owned(), order);
        Ok(())
    }

    /// How statements are worded for the table that [`Driver::prepare`] found.
    fn wording(&self) -> Wording {
        let collate = self.collate_scans.load(Ordering::Relaxed);
        let scan_key = if collate { "YCSB_KEY COLLATE \"C\"" } else { KEY };
        Wording { placeholder: Placeholder::Dollar, scan_key }
    }

    /// Why there is no connection, and what to try.
    fn unusable(&self, error: &Error) -> TargetError {
        let (address, user) = (self.address(), self.config.get_user().unwrap_or(""));
        let words = words(error);
        let code = error.code().map_or("", |code| code.code());
        let io = io_kind(error);
        TargetError::Unusable(match code {
            "28P01" | "28000" => format!(
                "{address} refused user {user}: {words}; check -p pg.user=…, \
                 and -p pg.password=… or PGPASSWORD"
            ),
            "3D000" => format!(
                "there is no such database at {address}: {words}; create it, or name another one (-p pg.db=…)"
            ),
            "53300" => {
                format!("{address} has no connection left: {words}; open fewer sessions or raise max_connections")
            }
            "57P03" => format!("{address} is not serving yet: {words}; try again shortly"),
            "" if words.contains("password missing") => format!(
                "{address} asks for the password of user {user}; give -p pg.password=… or PGPASSWORD"
            ),
            "" if io == Some(std::io::ErrorKind::ConnectionRefused)
                || io == Some(std::io::ErrorKind::NotFound) =>
            {
                format!("nobody listens at {address}: {words}; is the server running at this host and port?")
            }
            "" if io == Some(std::io::ErrorKind::TimedOut) || words.contains("timed out") => format!(
                "{address} does not answer: {words}; is the host right, and does a firewall let us through?"
            ),
            "" if words.contains("lookup") => {
                format!("the host of {address} is unknown: {words}; check its name")
            }
            _ => format!("cannot connect to {address}: {words}"),
        })
    }

    /// The connection is there, but what we asked for was refused.
    fn refused(&self, doing: &str, error: &Error) -> TargetError {
        let code = error.code().map(|code| format!(" ({})", code.code())).unwrap_or_default();
        TargetError::Unusable(format!("{} refused to {doing}: {}{code}", self.address(), words(error)))
    }
}

/// Name, type and collation of a table's columns. `to_jsonb` reads a column of the catalogue that
/// servers before PostgreSQL 15 do not have.
const COLUMNS: &str = "
    SELECT a.attname::text, format_type(a.atttypid, NULL)::text,
           CASE WHEN c.collname <> 'default' THEN c.collname::text
                WHEN to_jsonb(d)->>'datlocprovider' = 'i' THEN 'the database, by ICU'
                ELSE d.datcollate::text END
    FROM pg_attribute a
    JOIN pg_database d ON d.datname = current_database()
    LEFT JOIN pg_collation c ON c.oid = a.attcollation
    WHERE a.attrelid = to_regclass($1)::oid AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum";

/// Does this collation compare by bytes? In UTF-8 the order of code points is the order of bytes.
fn orders_by_bytes(collation: &str) -> bool {
    matches!(collation, "C" | "POSIX" | "ucs_basic") || collation.starts_with("C.")
}

/// Understands a connection URL or a `key=value` string. It may hold a password, so a refusal
/// repeats nothing of it.
fn parse(text: &str, origin: &str, port: u16) -> Result<Config, TargetError> {
    let text = text.trim();
    let text = text.strip_prefix("jdbc:").unwrap_or(text);
    let wrong = || {
        TargetError::Request(format!(
            "{origin} is not a connection URL; write postgres://user:password@host:port/database or \
             \"host=… port=… user=… dbname=…\". In a URL, percent-encode the characters @ : / ? # % of a \
             password, or give it as -p pg.password=… or PGPASSWORD (it is not shown here)"
        ))
    };
    let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
    if !is_url && !text.contains('=') {
        return Err(wrong());
    }
    // We decide about encryption ourselves: the client knows three of the six modes, and none of
    // the certificate options.
    let mut sslmode = "disable".to_owned();
    let rest = if is_url {
        match text.split_once('?') {
            // A password with a bare ? in it is handled by the client, which looks for @ first.
            Some((base, query)) if !query.contains('@') => {
                let (ssl, kept): (Vec<_>, Vec<_>) = query.split('&').partition(|pair| is_ssl_option(pair));
                if let Some(mode) = ssl.iter().find_map(|pair| pair.strip_prefix("sslmode=")) {
                    sslmode = mode.to_owned();
                }
                format!("{base}?{}", kept.join("&"))
            }
            _ => text.to_owned(),
        }
    } else {
        let mut kept = Vec::new();
        for pair in pairs(text).ok_or_else(wrong)? {
            if let Some(mode) = pair.strip_prefix("sslmode=") {
                sslmode = mode.trim_matches('\'').to_owned();
            } else if !is_ssl_option(pair) {
                kept.push(pair);
            }
        }
        kept.join(" ")
    };
    require_plaintext(&sslmode, "sslmode")?;
    let rest = if is_url { with_port(&rest, port) } else { rest };
    let config: Config = rest.trim_end_matches('?').parse().map_err(|_| wrong())?;
    // A bare @ in the password puts the rest of it into the host name.
    let torn = |host: &Host| matches!(host, Host::Tcp(name) if name.contains(['@', '/', '%', ' ']));
    if config.get_hosts().iter().any(torn) {
        return Err(wrong());
    }
    Ok(config)
}

/// The URL with `port` where a host has none: the client would take PostgreSQL's for every dialect.
fn with_port(url: &str, port: u16) -> String {
    let scheme = url.find("://").map_or(0, |position| position + 3);
    // As the client does it: everything up to the first @ is user and password.
    let begin = url.find('@').map_or(scheme, |position| position + 1);
    let end = url[begin..].find(['/', '?']).map_or(url.len(), |length| begin + length);
    let with_port = |host: &str| {
        let after_address = host.rfind(']').unwrap_or(0);
        let open = !host.is_empty() && !host[after_address..].contains(':');
        if open { format!("{host}:{port}") } else { host.to_owned() }
    };
    let hosts: Vec<_> = url[begin..end].split(',').map(with_port).collect();
    format!("{}{}{}", &url[..begin], hosts.join(","), &url[end..])
}

fn is_ssl_option(pair: &str) -> bool {
    pair.starts_with("ssl") && !pair.starts_with("sslnegotiation")
}

/// The `key=value` pairs of a connection string, with quotes and escapes left as they are.
fn pairs(text: &str) -> Option<Vec<&str>> {
    let mut pairs = Vec::new();
    let (mut begin, mut quoted, mut escaped) = (None, false, false);
    for (position, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                pairs.extend(begin.take().map(|begin: usize| &text[begin..position]));
                continue;
            }
            _ => {}
        }
        begin.get_or_insert(position);
    }
    pairs.extend(begin.map(|begin| &text[begin..]));
    (!quoted && pairs.iter().all(|pair| pair.contains('='))).then_some(pairs)
}

fn require_plaintext(mode: &str, name: &str) -> Result<(), TargetError> {
    match mode {
        "disable" | "allow" | "prefer" => Ok(()),
        "require" | "verify-ca" | "verify-full" => Err(TargetError::Request(format!(
            "{name}={mode} asks for an encrypted connection, and this build has no TLS; \
             use {name}=disable on a network you trust"
        ))),
        _ => Err(TargetError::Request(format!("{name} is none of disable, allow, prefer, require, verify-ca, verify-full"))),
    }
}

/// The server's words, or the chain of causes of a failure on our side.
fn words(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

fn io_kind(error: &Error) -> Option<std::io::ErrorKind> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        cause = error.source();
    }
    None
}

impl PostgresSession {
    /// The statement for this shape; one that the trace did not announce is prepared now.
    #[inline]
    async fn statement(&mut self, kind: OpKind, fields: &[Field<'_>]) -> Result<Statement, Outcome> {
        if let Some(statement) = self.statements.get(kind, fields) {
            return Ok(statement.clone());
        }
        let numbers = sql::numbers(fields);
        let text = sql::statement(&self.table, self.wording, kind, &numbers)
            .map_err(|message| Outcome::failed(Status::Rejected, Recovery::Fatal, "", message))?;
        // Nothing of the operation has been sent yet, so a failure here is never ambiguous.
        let statement = self.client.prepare(&text).await.map_err(|error| self.failure(&error, false))?;
        self.statements.add(kind, numbers, statement.clone());
        Ok(statement)
    }

    async fn fetch<R: Rows>(&mut self, op: &Op<'_>, kind: OpKind, rows: &mut R) -> Result<u32, Outcome> {
        let statement = self.statement(kind, op.fields).await?;
        let scan = kind == OpKind::Scan;
        let parameters = [Parameter::Text(op.key.as_bytes()), Parameter::Count(i64::from(op.scan_len))];
        let parameters = parameters.into_iter().take(if scan { 2 } else { 1 });
        let fields = if op.fields.is_empty() { self.table.fields.len() } else { op.fields.len() };
        let first = usize::from(scan);
        let mut count = 0;
        let fetched = async {
            let mut answer = pin!(self.client.query_raw(&statement, parameters).await?);
            while let Some(row) = answer.try_next().await? {
                count += 1;
                rows.row(if scan { row.try_get(0)? } else { op.key });
                for position in 0..fields {
                    let value: Option<Raw<'_>> = row.try_get(first + position)?;
                    rows.field(sql::number_of(op.fields, position), value.map(|raw| raw.0));
                }
            }
            Ok(())
        };
        match fetched.await {
            Ok(()) => Ok(count),
            Err(error) => Err(self.failure(&error, false)),
        }
    }

    async fn change(&mut self, op: &Op<'_>, kind: OpKind, fields: &[Field<'_>]) -> Result<u32, Outcome> {
        let statement = self.statement(kind, fields).await?;
        // If the connection is known to be dead, nothing is sent, and the failure is not ambiguous.
        let sent = !self.client.is_closed();
        let key_position = if kind == OpKind::Insert { 0 } else { fields.len() };
        let parameters = (0..fields.len() + 1).map(|position| {
            Parameter::Text(match position {
                position if position == key_position => op.key.as_bytes(),
                position => fields[position - usize::from(position > key_position)].value,
            })
        });
        match self.client.execute_raw(&statement, parameters).await {
            Ok(rows) => Ok(rows as u32),
            Err(error) => Err(self.failure(&error, sent)),
        }
    }

    /// A failure of a request; `wrote` if it was a write that may have reached the server.
    #[cold]
    fn failure(&self, error: &Error, wrote: bool) -> Outcome {
        let message = words(error);
        let Some(code) = error.code() else {
            let ending = self.connection.ending.lock().expect("nobody panics holding it");
            let message = match &*ending {
                Some(reason) if *reason != message => format!("{message}: {reason}"),
                _ => message,
            };
            // Without a code it comes from our side: the connection, or an answer we cannot read.
            let lost = error.is_closed() || io_kind(error).is_some() || self.client.is_closed();
            if !lost {
                return Outcome::failed(Status::Error, Recovery::Fatal, "", message);
            }
            let (status, recovery) = lost_connection(wrote);
            return Outcome::failed(status, recovery, CONNECTION_FAILURE, message);
        };
        let (status, recovery) = classify(code.code(), &message, wrote);
        Outcome::failed(status, recovery, code.code(), message)
    }
}

/// SQL's code for it, which clients are to use for what they notice themselves.
const CONNECTION_FAILURE: &str = "08006";

const fn lost_connection(wrote: bool) -> (Status, Recovery) {
    (Status::Unavailable, if wrote { Recovery::Ambiguous } else { Recovery::Reconnect })
}

/// What an SQLSTATE means here. The specific codes come before their classes.
fn classify(code: &str, message: &str, wrote: bool) -> (Status, Recovery) {
    match code {
        "23505" => (Status::Duplicate, Recovery::Fatal),
        // Serialization failure, deadlock, lock timeout: the transaction had no effect.
        "40001" | "40P01" | "55P03" => (Status::Conflict, Recovery::Retry),
        // "Statement completion unknown": by CockroachDB, and by YugabyteDB as 08007.
        "40003" | "08007" => (Status::Unavailable, if wrote { Recovery::Ambiguous } else { Recovery::Retry }),
        "57014" => (Status::Timeout, Recovery::Retry),
        // Shutting down, crashed, starting up; CockroachDB's lost ranges and nodes.
        "57P01" | "57P02" | "57P03" | "58C00" | "58C01" => lost_connection(wrote),
        // YugabyteDB, when a table has just been changed or created.
        "XX000"
            if message.contains("schema version mismatch") || message.contains("Catalog Version Mismatch") =>
        {
            (Status::Conflict, Recovery::Retry)
        }
        _ => match &code[..2] {
            "08" => lost_connection(wrote),
            "53" => (Status::Unavailable, Recovery::Retry),
            "22" | "23" | "42" => (Status::Rejected, Recovery::Fatal),
            _ => (Status::Error, Recovery::Fatal),
        },
    }
}

impl Session for PostgresSession {
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

    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if let Err(error) = self.client.batch_execute(self.begin).await {
            return self.failure(&error, false);
        }
        let mut outcome = self.read_modify_write(op, rows).await;
        if outcome.status == Status::Ok {
            match self.client.batch_execute("COMMIT").await {
                Ok(()) => return outcome,
                Err(error) => outcome = self.failure(&error, true),
            }
        }
        // What broke before the COMMIT has changed nothing, even if the update was under way.
        // After a failed COMMIT this only earns a warning.
        let _ = self.client.batch_execute("ROLLBACK").await;
        outcome
    }

    async fn call<R: Rows>(&mut self, call: &Call<'_>, rows: &mut R) -> Outcome {
        self.execute_call(call, rows).await
    }
}

fn found(rows: Result<u32, Outcome>) -> Outcome {
    match rows {
        Ok(0) => Outcome::bare(Status::NotFound),
        Ok(rows) => Outcome::ok(rows),
        Err(failure) => failure,
    }
}

/// A parameter of a statement, sent without a copy of our own. The binary format of every text
/// type is its bytes; the server checks that they are text.
#[derive(Debug)]
enum Parameter<'a> {
    Text(&'a [u8]),
    Count(i64),
}

impl ToSql for Parameter<'_> {
    fn to_sql(
        &self,
        _ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Parameter::Text(bytes) => out.put_slice(bytes),
            Parameter::Count(count) => out.put_i64(*count),
        }
        Ok(IsNull::No)
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A value of an answer as it came.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_ty: &Type, raw: &'a [u8]) -> Result<Raw<'a>, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw))
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(db: &str, url: Option<&str>, properties: &[(&str, &str)]) -> Target {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Target {
            db: db.to_owned(),
            url: url.map(str::to_owned),
            properties: properties.iter().map(owned).collect(),
            ..Target::default()
        }
    }

    fn understand(target: &Target, env: &[(&str, &str)]) -> Result<Postgres, TargetError> {
        Postgres::understand(target, |name| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn summary(postgres: &Postgres) -> String {
        let password = postgres.config.get_password().map(|password| String::from_utf8_lossy(password));
        format!("{}:{}@{}", postgres.config.get_user().unwrap(), password.unwrap_or_default(), postgres.address())
    }

    #[test]
    fn each_dialect_has_its_defaults() {
        let defaults = |db| summary(&understand(&target(db, None, &[]), &[]).unwrap());
        assert_eq!(defaults("pg"), "postgres:@127.0.0.1:5432/postgres");
        assert_eq!(defaults("cdb"), "root:@127.0.0.1:26257/defaultdb");
        assert_eq!(defaults("ysql"), "yugabyte:@127.0.0.1:5433/yugabyte");
    }

    #[test]
    fn a_url_comes_before_properties_and_those_before_the_environment() {
        let properties = [("pg.user", "prop"), ("pg.password", "a@b/c?d#e%f' \\"), ("pg.port", "7")];
        let env = [("PGUSER", "env"), ("PGDATABASE", "envdb"), ("DATABASE_URL", "postgres://other/db")];
        let with = |url, properties: &[_]| summary(&understand(&target("pg", url, properties), &env).unwrap());
        assert_eq!(with(Some("postgres://u:p%40@h:9/d"), &properties), "u:p@@h:9/d");
        assert_eq!(with(Some("postgres://h"), &properties), "prop:a@b/c?d#e%f' \\@h:7/envdb");
        assert_eq!(with(Some("postgres://u:p@[::1],h:8/d"), &properties), "u:p@[::1]:7,h:8/d");
        assert_eq!(with(None, &[]), "env:@other:5432/db");
        assert_eq!(with(None, &[("pg.host", "h")]), "env:@h:5432/envdb");
        assert_eq!(
            with(None, &[("db.url", "jdbc:postgresql://h:8/d"), ("db.user", "j"), ("db.passwd", "k")]),
            "j:k@h:8/d"
        );
        assert_eq!(with(Some("host=/tmp user='a b' password='it\\'s'"), &[]), "a b:it's@/tmp:5432/envdb");
    }

    #[test]
    fn encryption_is_refused_by_name_and_what_falls_back_to_plain_text_is_not() {
        for mode in ["disable", "allow", "prefer"] {
            let url = format!("postgres://h/d?sslmode={mode}&sslrootcert=/x&application_name=me");
            assert!(understand(&target("pg", Some(&url), &[]), &[]).is_ok(), "{mode}");
            let words = format!("host=h sslmode={mode} sslcert='a b' user=u");
            assert!(understand(&target("pg", Some(&words), &[]), &[]).is_ok(), "{mode}");
        }
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://h/d?sslmode={mode}");
            let error = understand(&target("pg", Some(&url), &[]), &[]).unwrap_err();
            assert!(matches!(error, TargetError::Request(_)), "{error}");
            assert!(error.to_string().contains(&format!("sslmode={mode}")), "{error}");
            assert!(understand(&target("pg", None, &[("pg.sslmode", mode)]), &[]).is_err());
        }
    }

    #[test]
    fn a_url_that_is_not_understood_is_not_repeated() {
        for url in [
            "postgres://u:s3@cr3t@h/d",
            "postgres://u:s3cr3t@h:port/d",
            "postgres://u:s3cr3t@h/d?s3cr3t=1",
            "postgres://u@h/d?password=a&s3cr3t",
            "postgres:u:s3cr3t@h",
            "host=h password=x s3cr3t=y",
            "host=h password='s3cr3t",
            "mysql://u:s3cr3t@h/d",
            "s3cr3t",
        ] {
            let error = understand(&target("pg", Some(url), &[]), &[]).unwrap_err();
            assert!(matches!(error, TargetError::Request(_)), "{url}: {error}");
            assert!(!error.to_string().contains("cr3t"), "{error}");
        }
    }

    #[test]
    fn the_server_that_answers_decides_the_layout() {
        let table = TableSpec {
            name: "usertable".to_owned(),
            fields: vec!["FIELD0".to_owned()],
            field_length: 100,
            shapes: vec![],
        };
        let text = |version| Dialect::of_server(version).create_table(&table);
        assert_eq!(
            text("PostgreSQL 15.14 (Debian) on x86_64"),
            "CREATE TABLE usertable (YCSB_KEY VARCHAR COLLATE \"C\" PRIMARY KEY, FIELD0 TEXT)"
        );
        assert_eq!(
            text("CockroachDB CCL v24.1.0 (x86_64)"),
            "CREATE TABLE usertable (YCSB_KEY VARCHAR PRIMARY KEY, FIELD0 TEXT)"
        );
        let yugabyte = text("PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64");
        assert!(
            yugabyte.starts_with(
                "CREATE TABLE usertable (YCSB_KEY VARCHAR, FIELD0 TEXT, PRIMARY KEY (YCSB_KEY ASC)) \
                 SPLIT AT VALUES (('user10'), ('user14'), ('user18'), "
            ),
            "{yugabyte}"
        );
        assert!(yugabyte.ends_with("('user94'), ('user98'))"), "{yugabyte}");
    }

    #[test]
    fn an_sqlstate_says_what_can_be_done() {
        let read = |code| classify(code, "", false);
        let write = |code| classify(code, "", true);
        assert_eq!(write("23505"), (Status::Duplicate, Recovery::Fatal));
        assert_eq!(write("40001"), (Status::Conflict, Recovery::Retry));
        assert_eq!(write("40003"), (Status::Unavailable, Recovery::Ambiguous));
        assert_eq!(write("57P01"), (Status::Unavailable, Recovery::Ambiguous));
        assert_eq!(read("57P01"), (Status::Unavailable, Recovery::Reconnect));
        assert_eq!(read("08006"), (Status::Unavailable, Recovery::Reconnect));
        assert_eq!(read("53300"), (Status::Unavailable, Recovery::Retry));
        assert_eq!(read("57014"), (Status::Timeout, Recovery::Retry));
        assert_eq!(write("22021"), (Status::Rejected, Recovery::Fatal));
        assert_eq!(write("23514"), (Status::Rejected, Recovery::Fatal));
        assert_eq!(read("42P01"), (Status::Rejected, Recovery::Fatal));
        assert_eq!(read("XX000"), (Status::Error, Recovery::Fatal));
        assert_eq!(
            classify("XX000", "Query error: schema version mismatch for table", true),
            (Status::Conflict, Recovery::Retry)
        );
    }
}
