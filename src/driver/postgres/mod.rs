//! PostgreSQL and the databases that speak its protocol: CockroachDB and YugabyteDB. What differs
//! between them is data, in [`DIALECTS`]; the server that answers decides which row applies.
//!
//! Every operation is one prepared statement in its own (autocommit) transaction, one round trip.
//! Values travel as they are, in the protocol's binary format, which for text is the text: nothing
//! is copied into a `String` on the way. A value that is not text is refused by the server (22021).
//!
//! tokio-postgres opens every connection (`dial.rs`) and looks after tables. The operations of a session
//! go by a wire of their own (`wire.rs`).
//!
//! Scans must be in byte order. A table made here has a key column of collation "C", so that its
//! index is in that order; for an existing table with another collation the scan says
//! `COLLATE "C"`, and a setting of the run says that no index serves it.

mod dial;
mod settings;
mod statements;
mod tls;
mod url;
mod wire;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio_postgres::config::SslMode;
use tokio_postgres::types::Type;
use tokio_postgres::{CancelToken, Client, Config, Error, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use self::dial::{Lending, Refused};
use self::settings::{Discovery, Place, Settings, Spread, Wanted};
use self::tls::Mode;
use self::wire::{Cause, Failure, Parameter, Prepared, Row, Wire};
use super::certificates;
use super::sql::{self, Placeholder, Statements, Wording, found, lost_connection};
use super::statements::Call;
use super::{Driver, KEY, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use crate::op::{Field, Op, OpKind, Outcome, Recovery, Status};
use crate::rng::{Purpose, Stream};
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
    ("pg.host", "127.0.0.1", "host, or folder of the socket; several by commas share the sessions; also $PGHOST"),
    ("pg.hostaddr", "", "address of each host, if its name is not to be looked up"),
    ("pg.port", "5432, 26257, 5433", "port, or one for each host; also $PGPORT"),
    ("pg.user", "postgres, root, yugabyte", "user; also db.user, $PGUSER"),
    ("pg.password", "", "password, in any characters; also db.passwd, $PGPASSWORD, ~/.pgpass"),
    ("pg.db", "postgres, defaultdb, yugabyte", "database; also $PGDATABASE"),
    ("pg.sslmode", "prefer", "disable, allow, prefer, require, verify-ca or verify-full, as libpq means them"),
    ("pg.sslrootcert", "~/.postgresql/root.crt", "certificates of the authorities that are believed, or system"),
    ("pg.sslcert", "~/.postgresql/postgresql.crt", "certificate of the client"),
    ("pg.sslkey", "~/.postgresql/postgresql.key", "its key, which nobody else may be able to read"),
    ("pg.sslnegotiation", "postgres", "postgres, or direct: TLS from the first byte"),
    ("pg.channel_binding", "prefer", "disable, prefer or require"),
    ("pg.options", "", "settings of every session, e.g. -c default_transaction_isolation=serializable"),
    ("pg.application_name", "ycsb-trace", "name of the sessions on the server"),
    ("pg.passfile", "~/.pgpass", "file of passwords; also $PGPASSFILE"),
    ("pg.connect_timeout", "10, or 2 of several hosts", "seconds to reach a host and be let in"),
    ("pg.target_session_attrs", "any", "any, read-write, read-only, primary, standby or prefer-standby"),
    ("pg.load_balance_hosts", "", "disable: every session begins with the first host; random: with any"),
    ("pg.load_balance", "false", "YugabyteDB: ask for all nodes; true, only-primary, only-rr, prefer-primary, prefer-rr"),
    ("pg.topology_keys", "", "YugabyteDB: use nodes at cloud.region.zone:priority, …; * is any zone"),
    ("pg.yb_servers_refresh_interval", "300", "seconds after which the nodes are asked for again"),
    ("pg.failed_host_reconnect_delay_secs", "5", "seconds for which a host that failed is tried last"),
    ("pg.keepalives", "1", "0: no TCP keepalives; also keepalives_idle, keepalives_interval, keepalives_count"),
    ("pg.keepalives_idle", "7200", "seconds"),
    ("pg.keepalives_interval", "", "seconds"),
    ("pg.keepalives_count", "", "lost keepalives after which a connection is dead"),
    ("pg.tcp_user_timeout", "0", "milliseconds after which unacknowledged data ends a connection"),
    ("pg.prepare", "named", "named, or unnamed for poolers that share server connections between transactions"),
    ("pg.insert", "insert", "insert, upsert (replaces an existing row) or ignore (leaves it, and is OK)"),
    ("pg.load", "insert", "with --load-batch: insert (of several rows) or copy"),
    ("pg.as_of", "", "CockroachDB: reads and scans AS OF SYSTEM TIME this, e.g. follower_read_timestamp() or -5s"),
    ("pg.isolation", "serializable", "of --rmw transaction: read committed, repeatable read or serializable"),
    ("db.url", "", "a connection URL or YCSB's jdbc:postgresql://host:port/database, if there is no --url; else $DATABASE_URL"),
    ("db.user", "", "YCSB's name of pg.user"),
    ("db.passwd", "", "YCSB's name of pg.password"),
];

const UPDATE: (&str, &str) = ("an update", "UPDATE of the fields named; a missing row is NOT_FOUND");

/// A server of this family, or several that are one database.
#[derive(Debug)]
pub struct Postgres {
    settings: Settings,
    dialect: &'static Dialect,
    /// Known after [`Driver::prepare`]: the key column is not in byte order.
    collate_scans: AtomicBool,
    nodes: Mutex<Nodes>,
    insert: Insert,
    load: Load,
    /// What follows the table's name in a read.
    as_of: String,
    seed: u64,
}

/// What is known about the servers.
#[derive(Debug, Default)]
struct Nodes {
    /// With their priorities: 1 comes first.
    places: Vec<(u32, Place)>,
    /// When the servers were asked for the list.
    asked: Option<Instant>,
    /// When a server did not let us in.
    failed: HashMap<String, Instant>,
}

/// What an insert does with a row that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Insert {
    /// It fails.
    Plain,
    /// It replaces the row.
    Upsert,
    /// It does nothing.
    Ignore,
}

/// How a batch of rows is written (`--load-batch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// An INSERT of several rows.
    Insert,
    /// COPY.
    Copy,
}

/// A connection to it.
#[derive(Debug)]
pub struct PostgresSession {
    wire: Wire,
    canceller: Canceller,
    table: TableSpec,
    texts: Texts,
    statements: Statements<Prepared>,
    /// Those of a statement trace.
    calls: Option<statements::Calls>,
    /// Begins a transaction (`--rmw transaction`).
    begin: &'static str,
    named_statements: bool,
    load: Load,
    /// Inserts so many rows.
    batch_statement: Option<(usize, Prepared)>,
}

/// What a request to cancel takes: a connection of its own to the server of the session.
#[derive(Clone)]
struct Canceller {
    config: Config,
    place: Place,
    connector: MakeRustlsConnect,
    token: CancelToken,
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Canceller of {}", self.place)
    }
}

/// How operations are put into words.
#[derive(Debug, Clone)]
struct Texts {
    wording: Wording,
    insert: Insert,
    /// The server has a word of its own for [`Insert::Upsert`].
    has_upsert: bool,
    as_of: String,
}

/// A connection that the library has opened, and the task that moves its bytes. The task ends with this;
/// left to itself, it would wait for the answer to a request that nobody waits for any more.
struct Connected {
    client: Client,
    task: tokio::task::AbortHandle,
    lending: Lending,
    canceller: Canceller,
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
            tested_against: "PostgreSQL behind a proxy with CockroachDB's errors and words, not CockroachDB itself",
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
            tested_against: "PostgreSQL behind a proxy with several nodes and yb_servers(), not YugabyteDB itself",
        },
    ];
    const BLOCKING: bool = false;
    type Session = PostgresSession;

    fn open(target: &Target) -> Result<Postgres, TargetError> {
        Postgres::understand(target, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    async fn prepare(&self, table: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        table.check_names(true)?;
        let connected = self.client(0).await?;
        let client = &connected.client;
        let doing = |what: &'static str| move |error: Error| self.refused(what, &error);
        let version = text_of(client, "SELECT version()").await.map_err(doing("ask for the version"))?;
        let version = version.unwrap_or_default();
        let server = Dialect::of_server(&version);

        let drop = preparation == Preparation::DropAndCreate;
        if drop {
            let text = format!("DROP TABLE IF EXISTS {}", table.name);
            client.batch_execute(&text).await.map_err(doing("drop the table"))?;
        }
        let exists = !drop && self.table_exists(client, table).await?;
        if preparation == Preparation::CreateIfEmpty && exists {
            let text = format!("SELECT EXISTS (SELECT 1 FROM {})", table.name);
            let answer = text_of(client, &text).await.map_err(doing("look into the table"))?;
            if answer.as_deref() == Some("t") {
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
        self.check_columns(client, table, server, &mut info).await?;
        if server.product != self.dialect.product {
            let note =
                format!("{} was asked for, {} answered: the table is laid out for it", self.dialect.db, server.product);
            info.settings.insert("dialect_note".to_owned(), note);
        }
        let texts = self.texts();
        for (kind, fields) in sql::shapes(table) {
            if let Ok(text) = texts.statement(table, kind, &fields) {
                info.statements.entry(kind.name().to_owned()).or_insert(text);
            }
        }
        self.note_settings(client, &mut info).await;
        info.settings.insert("encryption".to_owned(), self.encryption(client).await);
        if self.settings.discovery.is_some() {
            let note = self.discover(client).await;
            info.settings.insert("load_balance".to_owned(), note);
        }
        let places: Vec<_> = self.order(0).iter().map(Place::to_string).collect();
        if places.len() > 1 {
            info.settings.insert("hosts".to_owned(), format!("{} ({:?})", places.join(", "), self.settings.spread));
        }
        Ok(info)
    }

    async fn connect(&self, table: &TableSpec, session: u32) -> Result<PostgresSession, TargetError> {
        table.check_names(true)?;
        let connected = self.client(session).await?;
        if let Some(discovery) = &self.settings.discovery {
            let asked = self.nodes.lock().expect("nobody panics holding it").asked;
            if asked.is_some_and(|asked| asked.elapsed() > discovery.refresh) {
                self.discover(&connected.client).await;
            }
        }
        let mut session = self.session(connected, table.clone());
        for (kind, fields) in sql::shapes(table) {
            let text = session.texts.statement(table, kind, &fields).map_err(TargetError::Request)?;
            let statement =
                session.prepared(&text).await.map_err(|failure| self.declined("prepare a statement", failure))?;
            session.statements.add(kind, fields, statement);
        }
        Ok(session)
    }

    async fn prepare_schema(
        &self,
        schema: &Schema,
        preparation: Preparation,
    ) -> Result<ServerInfo, TargetError> {
        self.prepare_statement_trace(schema, preparation).await
    }

    async fn finish_table(&self, schema: &Schema, table: &Table) -> Result<(), TargetError> {
        self.finish(&self.client(0).await?.client, schema, table).await
    }

    async fn connect_statements(
        &self,
        statements: &crate::statement::Statements,
        session: u32,
    ) -> Result<PostgresSession, TargetError> {
        let no_table = TableSpec { name: String::new(), fields: Vec::new(), field_length: 0, shapes: Vec::new() };
        let mut session = self.session(self.client(session).await?, no_table);
        session.calls = Some(self.prepare_statements(&mut session.wire, statements).await?);
        Ok(session)
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

/// Settings that change results, or that a reader of a result asks for.
const SETTINGS: &[&str] = &[
    "server_version",
    "crdb_version",
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
    fn understand(target: &Target, env: impl Fn(&str) -> Option<String>) -> Result<Postgres, TargetError> {
        let dialect = Dialect::named(&target.db);
        let settings = Settings::of(target, dialect, &env)?;
        let insert = match target.property("pg.insert").unwrap_or("insert") {
            "insert" => Insert::Plain,
            "upsert" => Insert::Upsert,
            "ignore" => Insert::Ignore,
            _ => return Err(TargetError::Request("pg.insert is none of insert, upsert, ignore".to_owned())),
        };
        let load = match target.property("pg.load").unwrap_or("insert") {
            "insert" => Load::Insert,
            "copy" if insert == Insert::Plain => Load::Copy,
            "copy" => return Err(TargetError::Request("pg.load=copy knows only pg.insert=insert".to_owned())),
            _ => return Err(TargetError::Request("pg.load is none of insert, copy".to_owned())),
        };
        let as_of = match target.property("pg.as_of") {
            None => String::new(),
            Some(time) => as_of(time)?,
        };
        let nodes = Nodes { places: settings.places.iter().map(|place| (1, place.clone())).collect(), ..Nodes::default() };
        let (collate_scans, nodes) = (AtomicBool::new(false), Mutex::new(nodes));
        Ok(Postgres { settings, dialect, collate_scans, nodes, insert, load, as_of, seed: target.seed })
    }

    fn address(&self) -> String {
        self.settings.address()
    }

    /// A connection with nothing prepared on it.
    fn session(&self, connected: Connected, table: TableSpec) -> PostgresSession {
        let stream = connected.lending.take().expect("it was lent to nobody else");
        PostgresSession {
            wire: Wire::new(stream),
            canceller: connected.canceller.clone(),
            table,
            texts: self.texts(),
            statements: Statements::new(),
            calls: None,
            begin: self.settings.begin,
            named_statements: self.settings.named_statements,
            load: self.load,
            batch_statement: None,
        }
    }

    /// The settings of the server that change results.
    async fn note_settings(&self, client: &Client, info: &mut ServerInfo) {
        for name in SETTINGS {
            // A server that does not know the setting refuses; that is no news.
            if let Ok(value) = text_of(client, &format!("SHOW {name}")).await {
                info.settings.extend(value.map(|value| ((*name).to_owned(), value)));
            }
        }
    }

    /// The servers in the order in which this session tries them: those that have just failed come last.
    fn order(&self, session: u32) -> Vec<Place> {
        let nodes = self.nodes.lock().expect("nobody panics holding it");
        let count = nodes.places.len();
        let first = match self.settings.spread {
            Spread::InOrder => 0,
            Spread::RoundRobin => session as usize % count,
            Spread::Random => {
                let draw = Stream::at(self.seed, Purpose::Backoff, 1 << 63 | u64::from(session)).unit();
                (draw * count as f64) as usize % count
            }
        };
        let failed = |place: &Place| {
            let at = nodes.failed.get(&place.to_string());
            at.is_some_and(|at| at.elapsed() < self.settings.avoid)
        };
        let mut order: Vec<&(u32, Place)> = nodes.places[first..].iter().chain(&nodes.places[..first]).collect();
        order.sort_by_key(|(priority, place)| (failed(place), *priority));
        order.into_iter().map(|(_, place)| place.clone()).collect()
    }

    /// Opens a connection to a server of the list and lets the current runtime drive it.
    async fn client(&self, session: u32) -> Result<Connected, TargetError> {
        let rounds: &[Wanted] = match self.settings.wanted {
            Wanted::PreferStandby => &[Wanted::Standby, Wanted::Any],
            ref other => std::slice::from_ref(other),
        };
        let mut failures: Vec<String> = Vec::new();
        for &wanted in rounds {
            for place in self.order(session) {
                let mut attempt = Attempt { nodes: &self.nodes, place: &place, failed: true };
                // The client's own limit ends when TCP is connected, and a server may be silent after that.
                let limit = self.settings.timeout.saturating_add(Duration::from_millis(100));
                let connected = tokio::time::timeout(limit, self.open(&place, wanted)).await;
                let failure = match connected {
                    Ok(Ok(connected)) => {
                        attempt.failed = false;
                        return Ok(connected);
                    }
                    Ok(Err(failure)) => failure,
                    Err(_) => Refusal {
                        message: format!(
                            "{place} accepts connections but does not answer within {} s; is it a PostgreSQL server, \
                             and is it well?",
                            self.settings.timeout.as_secs_f64()
                        ),
                        everywhere: false,
                    },
                };
                if !failures.contains(&failure.message) {
                    failures.push(failure.message);
                }
                if failure.everywhere {
                    return Err(TargetError::Unusable(failures.pop().expect("it was just pushed")));
                }
            }
        }
        Err(TargetError::Unusable(failures.join("; ")))
    }

    /// Opens a connection to one server, as encrypted as the mode says.
    async fn open(&self, place: &Place, wanted: Wanted) -> Result<Connected, Refusal> {
        let Settings { tls, config, .. } = &self.settings;
        let modes: &[SslMode] = match tls.mode {
            // Nobody listens to a socket of this machine.
            _ if place.is_socket() => &[SslMode::Disable],
            Mode::Disable => &[SslMode::Disable],
            Mode::Allow => &[SslMode::Disable, SslMode::Require],
            Mode::Prefer => &[SslMode::Prefer, SslMode::Disable],
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => &[SslMode::Require],
        };
        let mut config = config.clone();
        config.host(&place.host).port(place.port).connect_timeout(self.settings.timeout);
        if let Some(address) = place.address {
            config.hostaddr(address);
        }
        let mut first_error = None;
        for mode in modes {
            config.ssl_mode(*mode);
            match dial::connect(&config, place, tls.connector.clone()).await {
                Ok((client, connection, lending)) => {
                    let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
                    let (connector, token) = (tls.connector.clone(), client.cancel_token());
                    let canceller = Canceller { config, place: place.clone(), connector, token };
                    let connected = Connected { client, task, lending, canceller };
                    self.check(&connected.client, place, wanted).await?;
                    return Ok(connected);
                }
                Err(refused) => {
                    // Only a server that would have it the other way is asked again.
                    let about_encryption = match &refused {
                        Refused::Io(_) => false,
                        Refused::Client(error) => {
                            error.code().is_some_and(|code| code.code() == "28000")
                                || tls_error(error).is_some()
                                || is_about_tls(error)
                        }
                    };
                    let first = first_error.get_or_insert(refused);
                    if !about_encryption {
                        return Err(self.unusable(place, first));
                    }
                }
            }
        }
        Err(self.unusable(place, &first_error.expect("there is at least one mode")))
    }

    /// Is it such a server as we want?
    async fn check(&self, client: &Client, place: &Place, wanted: Wanted) -> Result<(), Refusal> {
        let (text, expected) = match wanted {
            Wanted::Any | Wanted::PreferStandby => return Ok(()),
            Wanted::ReadWrite => ("SHOW transaction_read_only", "off"),
            Wanted::ReadOnly => ("SHOW transaction_read_only", "on"),
            Wanted::Primary => ("SELECT pg_is_in_recovery()", "f"),
            Wanted::Standby => ("SELECT pg_is_in_recovery()", "t"),
        };
        let answer = text_of(client, text).await.map_err(|error| self.unusable(place, &Refused::Client(error)))?;
        if answer.as_deref() == Some(expected) {
            return Ok(());
        }
        let what = format!("{place} is not such a server as target_session_attrs asks for ({text}: {})", answer.unwrap_or_default());
        Err(Refusal { message: what, everywhere: false })
    }

    /// Asks YugabyteDB's server for all of them; says what came of it.
    async fn discover(&self, client: &Client) -> String {
        let Some(discovery) = &self.settings.discovery else { return String::new() };
        let text = "SELECT host, port, node_type, cloud, region, zone, public_ip FROM yb_servers()";
        let answer = client.simple_query(text).await;
        self.nodes.lock().expect("nobody panics holding it").asked = Some(Instant::now());
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => return format!("sessions are spread over the hosts given: yb_servers(): {}", words(&error)),
        };
        let rows = rows.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let all: Vec<[String; 7]> =
            rows.map(|row| std::array::from_fn(|column| row.get(column).unwrap_or_default().to_owned())).collect();
        let places = chosen(discovery, &self.settings.places, &all);
        if places.is_empty() {
            return format!("sessions are spread over the hosts given: none of the {} nodes is asked for", all.len());
        }
        let list: Vec<_> = places.iter().map(|(priority, place)| format!("{place} ({priority})")).collect();
        self.nodes.lock().expect("nobody panics holding it").places = places;
        format!("by yb_servers(): {}", list.join(", "))
    }

    /// How this connection is encrypted, for the record.
    async fn encryption(&self, client: &Client) -> String {
        let mode = self.settings.tls.mode;
        let text = "SELECT CASE WHEN ssl THEN version ELSE 'none' END FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        match text_of(client, text).await {
            Ok(Some(version)) => format!("{version} (sslmode {})", mode.name()),
            _ if mode >= Mode::Require => format!("TLS (sslmode {})", mode.name()),
            _ => format!("unknown (sslmode {})", mode.name()),
        }
    }

    async fn table_exists(&self, client: &Client, table: &TableSpec) -> Result<bool, TargetError> {
        let answer =
            client.query_typed_one("SELECT to_regclass($1) IS NOT NULL", &[(&table.name, Type::TEXT)]).await;
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
        let rows = client.query_typed(COLUMNS, &[(&table.name, Type::TEXT)]).await;
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
    fn texts(&self) -> Texts {
        let collate = self.collate_scans.load(Ordering::Relaxed);
        let scan_key = if collate { "YCSB_KEY COLLATE \"C\"" } else { KEY };
        Texts {
            wording: Wording { placeholder: Placeholder::Dollar, scan_key },
            insert: self.insert,
            has_upsert: self.dialect.product == "CockroachDB",
            as_of: self.as_of.clone(),
        }
    }

    /// Why there is no connection, and what to try.
    fn unusable(&self, place: &Place, refused: &Refused) -> Refusal {
        let user = self.settings.config.get_user().unwrap_or("");
        let database = self.settings.config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
        let address = format!("{place}{database}");
        let (words, code, io, tls_error) = match refused {
            Refused::Io(error) => (format!("error connecting to server: {error}"), "", Some(error.kind()), None),
            Refused::Client(error) => {
                let code = error.code().map_or("", |code| code.code());
                (words(error), code, io_kind(error), tls_error(error))
            }
        };
        let everywhere = code.starts_with("28") || code == "3D000" || words.contains("password missing");
        let message = match code {
            "28000" if words.contains("certificate") => format!(
                "{address} refused user {user}: {words}; give the certificate that belongs to this user \
                 (sslcert=FILE, sslkey=FILE)"
            ),
            "28000" if words.contains("no encryption") => format!(
                "{address} refused user {user}: {words}; it may want an encrypted connection: sslmode=require or stronger"
            ),
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
            "57P01" => format!("{address} is going down: {words}; name another host"),
            "" if words.contains("password missing") => {
                let note = self.settings.passfile_note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
                format!("{address} asks for the password of user {user}; give -p pg.password=… or PGPASSWORD{note}")
            }
            "" if tls_error.is_some() => {
                let complaint = tls_error.and_then(|cause| tls::complaint(cause, &self.settings.tls, &place.host));
                match complaint {
                    Some(complaint) => format!("cannot connect to {address}: {complaint}"),
                    None => format!("cannot connect to {address}: {words}"),
                }
            }
            "" if words.contains("server does not support TLS") => format!(
                "{address} does not speak TLS, and sslmode={} insists on it; use sslmode=disable on a network you trust",
                self.settings.tls.mode.name()
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
        };
        Refusal { message, everywhere }
    }

    /// The connection is there, but what we asked for was refused.
    fn refused(&self, doing: &str, error: &Error) -> TargetError {
        let code = error.code().map(|code| format!(" ({})", code.code())).unwrap_or_default();
        TargetError::Unusable(format!("{} refused to {doing}: {}{code}", self.address(), words(error)))
    }

    /// The same on the wire of a session.
    fn declined(&self, doing: &str, failure: Failure) -> TargetError {
        let words = match failure.cause {
            Cause::Server(code, words) => format!("{words} ({code})"),
            Cause::Lost(words) | Cause::Request(words) => words,
        };
        TargetError::Unusable(format!("{} refused to {doing}: {words}", self.address()))
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

/// Why one server did not let us in.
struct Refusal {
    message: String,
    /// The others would say the same.
    everywhere: bool,
}

/// An attempt to connect; unless it succeeds, also when nobody waits for it any more, its server is
/// noted as one that failed.
struct Attempt<'a> {
    nodes: &'a Mutex<Nodes>,
    place: &'a Place,
    failed: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let Ok(mut nodes) = self.nodes.lock() else { return };
        let name = self.place.to_string();
        if self.failed {
            nodes.failed.insert(name, Instant::now());
        } else {
            nodes.failed.remove(&name);
        }
    }
}

/// The nodes of YugabyteDB's list that sessions may use, with their priorities. A row is host, port,
/// node type, cloud, region, zone, public address.
fn chosen(discovery: &Discovery, given: &[Place], rows: &[[String; 7]]) -> Vec<(u32, Place)> {
    // From outside its network a cluster is reached by its public addresses, as we just did.
    let is_given = |name: &String| given.iter().any(|place| place.host == *name);
    let outside = !rows.iter().any(|row| is_given(&row[0])) && rows.iter().any(|row| is_given(&row[6]));
    let mut places = Vec::new();
    for row in rows {
        let [host, port, node_type, cloud, region, zone, public] = row;
        let host = if outside && !public.is_empty() { public } else { host };
        let Ok(port) = port.parse() else { continue };
        let mut priority = 1;
        if !discovery.topology.is_empty() {
            let exact = format!("{cloud}.{region}.{zone}");
            let any_zone = format!("{cloud}.{region}.*");
            let keys = discovery.topology.iter();
            let found = keys.filter(|(key, _)| *key == exact || *key == any_zone).map(|(_, priority)| *priority).min();
            // Nodes elsewhere are the last resort.
            priority = found.unwrap_or(100);
        }
        match discovery.node_type {
            Some((wanted, only)) if wanted != node_type => {
                if only {
                    continue;
                }
                priority += 1000;
            }
            _ => {}
        }
        places.push((priority, Place { host: host.clone(), address: None, port }));
    }
    places.sort_by_key(|(priority, _)| *priority);
    // Only the best are used as long as they answer: the others come after those that have failed.
    places
}

/// `AS OF SYSTEM TIME` for this time: a function of CockroachDB, or a time as text.
fn as_of(time: &str) -> Result<String, TargetError> {
    let time = time.trim();
    let is_call = time.ends_with(')') && time.chars().all(|c| c.is_ascii_alphanumeric() || "_()'-".contains(c));
    if is_call {
        return Ok(format!(" AS OF SYSTEM TIME {time}"));
    }
    if time.is_empty() || !time.chars().all(|c| c.is_ascii_alphanumeric() || "-+:. ".contains(c)) {
        return Err(TargetError::Request(
            "pg.as_of: write a time such as -5s, or a function such as follower_read_timestamp()".to_owned(),
        ));
    }
    Ok(format!(" AS OF SYSTEM TIME '{time}'"))
}

impl Texts {
    /// The statement for one shape.
    fn statement(&self, table: &TableSpec, kind: OpKind, fields: &[u32]) -> Result<String, String> {
        Ok(self.adapted(sql::statement(table, self.wording, kind, fields)?, table, kind, fields))
    }

    /// The statement that writes so many new rows.
    fn insert_rows(&self, table: &TableSpec, fields: &[u32], rows: usize) -> Result<String, String> {
        Ok(self.adapted(sql::insert_rows(table, self.wording, fields, rows)?, table, OpKind::Insert, fields))
    }

    fn adapted(&self, text: String, table: &TableSpec, kind: OpKind, fields: &[u32]) -> String {
        match (kind, self.insert) {
            (OpKind::Read | OpKind::Scan, _) if !self.as_of.is_empty() => {
                let from = format!(" FROM {}", table.name);
                text.replacen(&from, &format!("{from}{}", self.as_of), 1)
            }
            (OpKind::Insert, Insert::Upsert) if self.has_upsert => text.replacen("INSERT", "UPSERT", 1),
            (OpKind::Insert, Insert::Upsert) => {
                let names = fields.iter().map(|&number| &table.fields[number as usize]);
                let changes: Vec<_> = names.map(|name| format!("{name} = EXCLUDED.{name}")).collect();
                format!("{text} ON CONFLICT ({KEY}) DO UPDATE SET {}", changes.join(", "))
            }
            (OpKind::Insert, Insert::Ignore) => format!("{text} ON CONFLICT DO NOTHING"),
            _ => text,
        }
    }
}

/// The first value of an answer, without a statement that the server would have to keep.
async fn text_of(client: &Client, text: &str) -> Result<Option<String>, Error> {
    let answer = client.simple_query(text).await?;
    let value = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(answer.iter().find_map(value))
}

/// The complaint of the TLS library in an error, if there is one.
fn tls_error(error: &Error) -> Option<&rustls::Error> {
    std::error::Error::source(error).and_then(certificates::cause)
}

/// Did the step before any authentication fail?
fn is_about_tls(error: &Error) -> bool {
    error.to_string().contains("TLS handshake")
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
    /// Makes a statement ready.
    async fn prepared(&mut self, text: &str) -> Result<Prepared, Failure> {
        match self.named_statements {
            true => self.wire.prepare(text).await,
            false => Ok(Prepared::Unnamed(text.into())),
        }
    }

    /// The statement for this shape; one that the trace did not announce is prepared now.
    #[inline]
    async fn statement(&mut self, kind: OpKind, fields: &[Field<'_>]) -> Result<Prepared, Outcome> {
        if let Some(statement) = self.statements.get(kind, fields) {
            return Ok(statement.clone());
        }
        let numbers = sql::numbers(fields);
        let text = self.texts.statement(&self.table, kind, &numbers).map_err(Outcome::rejected)?;
        // Nothing of the operation has been sent yet, so a failure here is never ambiguous.
        let statement = self.prepared(&text).await.map_err(|error| failure(error, false))?;
        self.statements.add(kind, numbers, statement.clone());
        Ok(statement)
    }

    async fn fetch<R: Rows>(&mut self, op: &Op<'_>, kind: OpKind, rows: &mut R) -> Result<u32, Outcome> {
        let statement = self.statement(kind, op.fields).await?;
        let scan = kind == OpKind::Scan;
        let parameters = [Parameter::Text(op.key.as_bytes()), Parameter::Count(i64::from(op.scan_len))];
        let parameters = parameters.into_iter().take(if scan { 2 } else { 1 });
        let fields = if op.fields.is_empty() { self.table.fields.len() } else { op.fields.len() };
        let (mut count, mut foreign) = (0, false);
        let take = |row: Row<'_>| {
            count += 1;
            let mut values = row.values();
            let key = if scan { values.next().flatten().and_then(|key| str::from_utf8(key).ok()) } else { Some(op.key) };
            foreign |= key.is_none();
            rows.row(key.unwrap_or_default());
            for position in 0..fields {
                let value = values.next();
                foreign |= value.is_none();
                rows.field(sql::number_of(op.fields, position), value.flatten());
            }
        };
        match self.wire.execute(&statement, parameters, take).await {
            Ok(_) if foreign => {
                let message = "a row of the answer has too few values, or a key that is not UTF-8";
                Err(Outcome::failed(Status::Error, Recovery::Fatal, "", message))
            }
            Ok(_) => Ok(count),
            Err(error) => Err(failure(error, false)),
        }
    }

    async fn change(&mut self, op: &Op<'_>, kind: OpKind, fields: &[Field<'_>]) -> Result<u32, Outcome> {
        let statement = self.statement(kind, fields).await?;
        let key_position = if kind == OpKind::Insert { 0 } else { fields.len() };
        let parameters = (0..fields.len() + 1).map(|position| {
            Parameter::Text(match position {
                position if position == key_position => op.key.as_bytes(),
                position => fields[position - usize::from(position > key_position)].value,
            })
        });
        self.wire.execute(&statement, parameters, |_| ()).await.map_err(|error| failure(error, true))
    }

    async fn insert_rows(&mut self, ops: &[Op<'_>]) -> Result<u32, Outcome> {
        let fields = ops.first().map_or(&[][..], |op| op.fields);
        let statement = match &self.batch_statement {
            // The last batch may be shorter.
            Some((rows, statement)) if *rows == ops.len() => statement.clone(),
            _ => {
                let text = self.texts.insert_rows(&self.table, &sql::numbers(fields), ops.len());
                let text = text.map_err(Outcome::rejected)?;
                let statement = self.prepared(&text).await.map_err(|error| failure(error, false))?;
                self.batch_statement = Some((ops.len(), statement.clone()));
                statement
            }
        };
        let parameters = sql::insert_values(ops).map(Parameter::Text);
        self.wire.execute(&statement, parameters, |_| ()).await.map_err(|error| failure(error, true))
    }

    /// By COPY in its text form, which every server of this family reads.
    async fn copy_rows(&mut self, ops: &[Op<'_>]) -> Result<u32, Outcome> {
        let names = ops.first().map_or(&[][..], |op| op.fields).iter();
        let names: String =
            names.filter_map(|field| self.table.fields.get(field.number as usize)).flat_map(|name| [", ", name]).collect();
        let mut text = Vec::new();
        for op in ops {
            copied(&mut text, op.key.as_bytes());
            for field in op.fields {
                text.push(b'\t');
                copied(&mut text, field.value);
            }
            text.push(b'\n');
        }
        let statement = format!("COPY {} ({KEY}{names}) FROM STDIN", self.table.name);
        self.wire.copy_in(&statement, &text).await.map_err(|error| failure(error, true))
    }
}

/// A failure of a request; `wrote` if it was a write.
#[cold]
fn failure(failure: Failure, wrote: bool) -> Outcome {
    // What was never sent is not ambiguous.
    let wrote = wrote && failure.sent;
    match failure.cause {
        Cause::Server(code, message) => {
            let (status, recovery) = classify(&code, &message, wrote);
            Outcome::failed(status, recovery, code, message)
        }
        Cause::Lost(message) => {
            let (status, recovery) = lost_connection(wrote);
            Outcome::failed(status, recovery, CONNECTION_FAILURE, message)
        }
        Cause::Request(message) => Outcome::rejected(message),
    }
}

/// A value in the text form of COPY.
fn copied(text: &mut Vec<u8>, value: &[u8]) {
    for &byte in value {
        match byte {
            b'\\' => text.extend(b"\\\\"),
            b'\t' => text.extend(b"\\t"),
            b'\n' => text.extend(b"\\n"),
            b'\r' => text.extend(b"\\r"),
            other => text.push(other),
        }
    }
}

/// SQL's code for it, which clients are to use for what they notice themselves.
const CONNECTION_FAILURE: &str = "08006";

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
        _ => match code.get(..2).unwrap_or_default() {
            "08" => lost_connection(wrote),
            "53" => (Status::Unavailable, Recovery::Retry),
            "22" | "23" | "42" => (Status::Rejected, Recovery::Fatal),
            _ => (Status::Error, Recovery::Fatal),
        },
    }
}

/// Time for the request to cancel a statement that was given up.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

impl Session for PostgresSession {
    /// The protocol counts parameters in 16 bits.
    const BATCH_VALUES: usize = 65_535;

    /// By one INSERT of several rows, or by COPY (`pg.load=copy`). Either is one transaction.
    async fn insert_batch(&mut self, ops: &[Op<'_>]) -> Outcome {
        let written = match self.load {
            Load::Insert => self.insert_rows(ops).await,
            Load::Copy => self.copy_rows(ops).await,
        };
        written.map_or_else(|failure| failure, Outcome::ok)
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

    /// By a connection of its own, as the protocol wants it. That connection may hang too.
    fn cancel(&mut self) -> impl Future<Output = ()> + 'static {
        let Canceller { config, place, connector, token } = self.canceller.clone();
        async move {
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, dial::cancel(&config, &place, connector, token)).await;
        }
    }

    async fn call<R: Rows>(&mut self, call: &Call<'_>, rows: &mut R) -> Outcome {
        self.execute_call(call, rows).await
    }

    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if let Err(error) = self.wire.simple(self.begin).await {
            return failure(error, false);
        }
        let mut outcome = self.read_modify_write(op, rows, || ()).await;
        if outcome.status == Status::Ok {
            match self.wire.simple("COMMIT").await {
                Ok(()) => return outcome,
                Err(error) => outcome = failure(error, true),
            }
        }
        // What broke before the COMMIT has changed nothing, even if the update was under way.
        // After a failed COMMIT this only earns a warning.
        let _ = self.wire.simple("ROLLBACK").await;
        outcome
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
        let config = &postgres.settings.config;
        let password = config.get_password().map(|password| String::from_utf8_lossy(password));
        format!("{}:{}@{}", config.get_user().unwrap(), password.unwrap_or_default(), postgres.address())
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
    fn sslmode_is_libpqs_and_what_cannot_be_is_refused() {
        let mode = |url: &str| understand(&target("pg", Some(url), &[]), &[]).map(|postgres| postgres.settings.tls.mode);
        assert_eq!(mode("postgres://h/d").unwrap(), Mode::Prefer);
        for (name, expected) in [("disable", Mode::Disable), ("allow", Mode::Allow), ("require", Mode::Require)] {
            assert_eq!(mode(&format!("postgres://h/d?sslmode={name}&application_name=me")).unwrap(), expected);
            assert_eq!(mode(&format!("host=h sslmode={name} user=u")).unwrap(), expected);
        }
        assert_eq!(mode("postgres://h/d?sslrootcert=system").unwrap(), Mode::VerifyFull, "as in libpq");
        for (url, complaint) in [
            ("postgres://h/d?sslmode=verify-full", "give sslrootcert=FILE"),
            ("postgres://h/d?sslmode=verify-ca&sslrootcert=/nonexistent", "cannot read the sslrootcert /nonexistent"),
            ("postgres://h/d?sslmode=require&sslrootcert=system", "use sslmode=verify-full"),
            ("postgres://h/d?sslmode=on", "sslmode is none of disable, allow"),
            ("postgres://h/d?sslcert=/nonexistent", "without its key"),
            ("postgres://h/d?sslcert=/nonexistent&sslkey=/nonexistent", "cannot read the sslcert /nonexistent"),
            ("postgres://h/d?sslmode=prefer&sslnegotiation=direct", "needs sslmode=require"),
            ("postgres://h/d?target_session_attrs=some", "target_session_attrs is none of any"),
            ("postgres://a,b/d?port=1,2,3", "3 ports for 2 host(s)"),
            ("postgres://h/d?gssencmode=require", "Kerberos"),
            ("postgres://h/d?load_balance=maybe", "load_balance is none of"),
            ("postgres://h/d?load_balance=true&topology_keys=a.b", "cloud.region.zone"),
        ] {
            let refusal = mode(url).unwrap_err();
            assert!(matches!(refusal, TargetError::Request(_)), "{url}: {refusal}");
            assert!(refusal.to_string().contains(complaint), "{url}: {refusal}");
        }
        let with_env = |env: &[_]| understand(&target("pg", None, &[]), env);
        assert_eq!(with_env(&[("PGSSLMODE", "require")]).unwrap().settings.tls.mode, Mode::Require);
        let refusal = with_env(&[("PGSERVICE", "x")]).unwrap_err().to_string();
        assert!(refusal.contains("PGSERVICE is set: service files are not read"), "{refusal}");
        assert!(understand(&target("pg", Some("postgres://h/d"), &[]), &[("PGSERVICE", "x")]).is_ok());
    }

    #[test]
    fn sessions_go_round_the_hosts_and_those_that_failed_come_last() {
        let postgres = understand(&target("ysql", Some("postgres://a,b,c/d"), &[]), &[]).unwrap();
        let order = |session| postgres.order(session).iter().map(|place| place.host.clone()).collect::<String>();
        assert_eq!([0, 1, 2, 3].map(order), ["abc", "bca", "cab", "abc"]);
        let b = postgres.settings.places[1].clone();
        drop(Attempt { nodes: &postgres.nodes, place: &b, failed: true });
        assert_eq!([0, 1, 2].map(order), ["acb", "cab", "cab"]);
        drop(Attempt { nodes: &postgres.nodes, place: &b, failed: false });
        assert_eq!(order(1), "bca");
        let in_order = understand(&target("pg", Some("postgres://a,b/d?load_balance_hosts=disable"), &[]), &[]).unwrap();
        assert_eq!(in_order.order(1)[0].host, "a");
    }

    #[test]
    fn nodes_are_chosen_by_type_and_place() {
        let rows = [
            ["n1", "5433", "primary", "aws", "us", "a", "p1"],
            ["n2", "5434", "primary", "aws", "us", "b", "p2"],
            ["n3", "5435", "read_replica", "aws", "eu", "a", "p3"],
        ]
        .map(|row| row.map(str::to_owned));
        let chosen = |url: &str| {
            let postgres = understand(&target("ysql", Some(url), &[]), &[]).unwrap();
            let discovery = postgres.settings.discovery.clone().unwrap();
            let places = chosen(&discovery, &postgres.settings.places, &rows);
            places.iter().map(|(priority, place)| format!("{}:{priority}", place.host)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(chosen("postgres://n1/d?load_balance=true"), "n1:1 n2:1 n3:1");
        assert_eq!(chosen("postgres://p1/d?load_balance=any"), "p1:1 p2:1 p3:1");
        assert_eq!(chosen("postgres://n1/d?load_balance=only-rr"), "n3:1");
        assert_eq!(chosen("postgres://n1/d?load_balance=prefer-rr"), "n3:1 n1:1001 n2:1001");
        assert_eq!(
            chosen("postgres://n1/d?load_balance=true&topology_keys=aws.us.b:1,aws.eu.*:2"),
            "n2:1 n3:2 n1:100"
        );
    }

    #[test]
    fn inserts_and_reads_have_the_words_that_were_asked_for() {
        let table = TableSpec {
            name: "usertable".to_owned(),
            fields: vec!["FIELD0".to_owned(), "FIELD1".to_owned()],
            field_length: 100,
            shapes: vec![],
        };
        let text = |db, properties: &[_], kind| {
            let postgres = understand(&target(db, None, properties), &[]).unwrap();
            postgres.texts().statement(&table, kind, &[0, 1]).unwrap()
        };
        assert_eq!(
            text("cdb", &[("pg.insert", "upsert")], OpKind::Insert),
            "UPSERT INTO usertable (YCSB_KEY, FIELD0, FIELD1) VALUES ($1, $2, $3)"
        );
        assert_eq!(
            text("pg", &[("pg.insert", "upsert")], OpKind::Insert),
            "INSERT INTO usertable (YCSB_KEY, FIELD0, FIELD1) VALUES ($1, $2, $3) ON CONFLICT (YCSB_KEY) DO UPDATE SET \
             FIELD0 = EXCLUDED.FIELD0, FIELD1 = EXCLUDED.FIELD1"
        );
        assert!(text("pg", &[("pg.insert", "ignore")], OpKind::Insert).ends_with(" ON CONFLICT DO NOTHING"));
        assert_eq!(
            text("cdb", &[("pg.as_of", "follower_read_timestamp()")], OpKind::Read),
            "SELECT FIELD0, FIELD1 FROM usertable AS OF SYSTEM TIME follower_read_timestamp() WHERE YCSB_KEY = $1"
        );
        assert!(text("cdb", &[("pg.as_of", "-5s")], OpKind::Scan).contains(" FROM usertable AS OF SYSTEM TIME '-5s' WHERE "));
        for bad in ["'; DROP TABLE x", "now();"] {
            assert!(understand(&target("cdb", None, &[("pg.as_of", bad)]), &[]).is_err(), "{bad}");
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
