//! SQLite, in this process. Every operation is one statement in its own (autocommit) transaction on
//! the session's own connection.
//!
//! The table is laid out as YCSB and go-ycsb do it, a plain table whose key is an ordinary primary
//! key: so a table that they loaded can be used, and results can be compared with theirs. WITHOUT
//! ROWID would save one of two b-tree descents, but SQLite advises against it for rows larger than
//! a twentieth of a page (200 bytes); a row of YCSB has 1,000.
//!
//! SQLite has one writer at a time. A session that finds the file locked sleeps and tries again, in
//! steps of 1, 2, 5, … 100 ms and in no fair order, until `sqlite.busy_timeout`: those steps are
//! visible in the latencies of concurrent writes, and they are SQLite's.

mod statements;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql, ffi};

use super::sql::{self, Placeholder, Statements, Wording, found};
use super::{Driver, KEY, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use self::statements::Calls;
use super::statements::Call;
use crate::op::{Field, Op, OpKind, Outcome, Recovery, Status};
use crate::statement::{Schema, Table};

const DEFAULT_PATH: &str = "/tmp/sqlite.db";

/// The default collation of a TEXT column, BINARY, compares bytes.
const WORDING: Wording = Wording { placeholder: Placeholder::Question, scan_key: KEY };

/// A database file.
#[derive(Debug)]
pub struct Sqlite {
    /// As the user names it.
    address: String,
    /// The file, or a `file:` URL, which SQLite parses itself.
    path: PathBuf,
    mode: Mode,
    shared_cache: bool,
    journal_mode: String,
    synchronous: String,
    busy_timeout: Duration,
    /// What begins a transaction of a statement trace; none is chosen by its statements.
    begin: Option<&'static str>,
    /// Deadline of an operation.
    op_timeout: Option<Duration>,
}

/// `sqlite.mode`, by SQLite's own names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// `ro`
    ReadOnly,
    /// `rw`
    Existing,
    /// `rwc`
    Create,
}

/// A connection to it, used by the thread that opened it.
#[derive(Debug)]
pub struct SqliteSession {
    connection: Connection,
    busy_timeout: Duration,
    deadline: Option<Deadline>,
    table: TableSpec,
    /// Statement texts. The prepared statements are in the connection's cache, because a statement
    /// borrows its connection; finding one there hashes its text.
    statements: Statements<String>,
    /// The INSERT of so many rows.
    batch_text: Option<(usize, String)>,
    /// Texts of a statement trace.
    calls: Option<Calls>,
    /// What begins its transactions.
    begin: &'static str,
}

impl Driver for Sqlite {
    const KINDS: &'static [Kind] = &[Kind {
        names: &["sqlite", "sqlite3"],
        about: "SQLite, built in; --url is the database file",
        default_address: DEFAULT_PATH,
        example: "ycsb-trace replay --db sqlite workloada --url test.db --threads 4",
        defaults: &[
            ("isolation", "serializable: one writer at a time, readers see the last commit"),
            ("durability", "synchronous=NORMAL in WAL mode: a crash of the process loses nothing, of the machine the last commits"),
            ("an update", "UPDATE of the fields named; a missing row is NOT_FOUND"),
        ],
        tested_against: "the SQLite that is built in",
        options: &[
            ("sqlite.db", DEFAULT_PATH, "the database file, if there is no --url"),
            ("sqlite.journalmode", "WAL", "WAL, DELETE, TRUNCATE, PERSIST, MEMORY or OFF"),
            ("sqlite.synchronous", "NORMAL", "when to wait for the disk: OFF, NORMAL, FULL or EXTRA"),
            (
                "sqlite.busy_timeout",
                "60000",
                "milliseconds to wait for another writer; 0 reports a CONFLICT at once",
            ),
            ("sqlite.begin", "immediate if the trace writes", "of statement traces: deferred or immediate"),
            ("sqlite.mode", "rwc", "ro, rw, or rwc: create the file if it is missing"),
            ("sqlite.cache", "private", "private, or shared: sessions share one page cache and lock tables"),
        ],
    }];
    const BLOCKING: bool = true;
    type Session = SqliteSession;

    fn open(target: &Target) -> Result<Sqlite, TargetError> {
        let address = target.url.as_deref().or(target.property("sqlite.db")).unwrap_or(DEFAULT_PATH).to_owned();
        let path = match address.strip_prefix("sqlite:") {
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            None => &address,
        };
        if path.is_empty() || path.starts_with(":memory:") || path.contains("mode=memory") {
            return Err(TargetError::Request(format!(
                "{address:?} is not a database that several sessions can share; \
                 give a file, for instance --url /dev/shm/ycsb.sqlite to keep it in memory"
            )));
        }
        if path.contains('\0') {
            return Err(TargetError::Request("the path of the database contains a NUL byte".to_owned()));
        }
        let timeout = target.property("sqlite.busy_timeout").unwrap_or("60000");
        let busy_timeout = timeout.parse::<u32>().ok().filter(|ms| *ms <= i32::MAX as u32);
        Ok(Sqlite {
            path: PathBuf::from(path),
            mode: match choice(target, "sqlite.mode", &["rwc", "rw", "ro"])?.as_str() {
                "ro" => Mode::ReadOnly,
                "rw" => Mode::Existing,
                _ => Mode::Create,
            },
            shared_cache: choice(target, "sqlite.cache", &["private", "shared"])? == "shared",
            journal_mode: choice(
                target,
                "sqlite.journalmode",
                &["WAL", "DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"],
            )?,
            synchronous: choice(target, "sqlite.synchronous", &["NORMAL", "OFF", "FULL", "EXTRA"])?,
            busy_timeout: Duration::from_millis(u64::from(busy_timeout.ok_or_else(|| {
                TargetError::Request(format!("sqlite.busy_timeout={timeout:?} is not a number of milliseconds"))
            })?)),
            begin: match target.property("sqlite.begin") {
                None => None,
                Some(_) => Some(match choice(target, "sqlite.begin", &["deferred", "immediate"])?.as_str() {
                    "deferred" => "BEGIN",
                    _ => "BEGIN IMMEDIATE",
                }),
            },
            op_timeout: target.op_timeout,
            address,
        })
    }

    async fn prepare(&self, table: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        table.check_names(false)?;
        let may_create = self.mode == Mode::Create && preparation != Preparation::UseExisting;
        let connection = self.connection(may_create)?;
        match preparation {
            Preparation::CreateIfEmpty => {
                if self.table_exists(&connection, table)? && self.has_rows(&connection, &table.name)? {
                    return Err(TargetError::NotEmpty {
                        table: table.name.clone(),
                        address: self.address.clone(),
                    });
                }
                self.execute(&connection, &create_table(table))?;
            }
            Preparation::DropAndCreate => {
                self.execute(&connection, &format!("DROP TABLE IF EXISTS {}", table.name))?;
                self.execute(&connection, &create_table(table))?;
            }
            Preparation::UseExisting => {}
        }
        self.check_columns(&connection, table)?;
        let statements = sql::texts(table, WORDING);
        Ok(ServerInfo { statements, ..self.server_info(&connection)? })
    }

    async fn connect(&self, table: &TableSpec, _session: u32) -> Result<SqliteSession, TargetError> {
        table.check_names(false)?;
        let (connection, deadline) = self.timed_connection()?;
        let mut session = SqliteSession {
            connection,
            busy_timeout: self.busy_timeout,
            deadline,
            table: table.clone(),
            statements: Statements::new(),
            batch_text: None,
            calls: None,
            begin: "BEGIN IMMEDIATE",
        };
        for (kind, fields) in sql::shapes(table) {
            let text = sql::statement(table, WORDING, kind, &fields).map_err(TargetError::Request)?;
            session.keep(kind, fields, text);
        }
        for kind in OpKind::ALL {
            for (_, text) in session.statements.of(kind) {
                session.connection.prepare_cached(text).map_err(|error| {
                    TargetError::Unusable(format!("cannot prepare {text:?} at {}: {error}", self.address))
                })?;
            }
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
        self.finish(schema, table)
    }

    async fn connect_statements(
        &self,
        statements: &crate::statement::Statements,
        _session: u32,
    ) -> Result<SqliteSession, TargetError> {
        self.statement_session(statements)
    }
}

impl Sqlite {
    /// Opens the file with the settings of this run.
    fn connection(&self, may_create: bool) -> Result<Connection, TargetError> {
        let access = match self.mode {
            Mode::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
            _ if may_create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            _ => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let cache = if self.shared_cache {
            OpenFlags::SQLITE_OPEN_SHARED_CACHE
        } else {
            OpenFlags::SQLITE_OPEN_PRIVATE_CACHE
        };
        let flags = access | cache | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(|error| self.unusable(&error))?;
        let set = || -> rusqlite::Result<()> {
            connection.busy_timeout(self.busy_timeout)?;
            connection.pragma_update(None, "synchronous", &self.synchronous)?;
            if self.mode != Mode::ReadOnly {
                // Answers with the mode that holds; `settings` reports that one.
                connection.pragma_update_and_check(None, "journal_mode", &self.journal_mode, |_| Ok(()))?;
            }
            // The first look at the file: is it a database?
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        };
        set().map_err(|error| self.unusable(&error))?;
        Ok(connection)
    }

    /// A connection whose operations have a deadline, if there is one.
    fn timed_connection(&self) -> Result<(Connection, Option<Deadline>), TargetError> {
        let mut connection = self.connection(false)?;
        let install = |timeout| Deadline::install(timeout, &mut connection);
        let deadline = self.op_timeout.map(install).transpose().map_err(|error| self.unusable(&error))?;
        Ok((connection, deadline))
    }

    fn execute(&self, connection: &Connection, text: &str) -> Result<(), TargetError> {
        connection.execute_batch(text).map_err(|error| self.unusable(&error))
    }

    fn table_exists(&self, connection: &Connection, table: &TableSpec) -> Result<bool, TargetError> {
        connection.table_exists(None, table.name.as_str()).map_err(|error| self.unusable(&error))
    }

    fn has_rows(&self, connection: &Connection, table: &str) -> Result<bool, TargetError> {
        let text = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        connection.query_row(&text, [], |row| row.get(0)).map_err(|error| self.unusable(&error))
    }

    /// The columns of a table; none if there is no such table.
    fn columns(&self, connection: &Connection, table: &str) -> Result<Vec<String>, TargetError> {
        let columns = || -> rusqlite::Result<Vec<String>> {
            let mut statement = connection.prepare(&format!("PRAGMA table_info({table})"))?;
            statement.query_map([], |row| row.get("name"))?.collect()
        };
        columns().map_err(|error| self.unusable(&error))
    }

    fn check_columns(&self, connection: &Connection, table: &TableSpec) -> Result<(), TargetError> {
        let columns = self.columns(connection, &table.name)?;
        let (name, address) = (&table.name, &self.address);
        if columns.is_empty() {
            return Err(TargetError::Unusable(format!(
                "there is no table {name} in {address}; run the load phase first (--phase load), \
                 or name another table (-p table=…)"
            )));
        }
        let missing = |column: &&str| !columns.iter().any(|existing| existing.eq_ignore_ascii_case(column));
        let mut needed = std::iter::once(KEY).chain(table.fields.iter().map(String::as_str));
        match needed.find(missing) {
            Some(column) => Err(TargetError::Unusable(format!(
                "table {name} in {address} has no column {column} (it has {}); \
                 load it again with --drop, or name another table (-p table=…)",
                columns.join(", ")
            ))),
            None => Ok(()),
        }
    }

    fn server_info(&self, connection: &Connection) -> Result<ServerInfo, TargetError> {
        let pragma = |name: &str| -> Result<String, TargetError> {
            connection
                .pragma_query_value(None, name, |row| row.get(0))
                .map_err(|error| self.unusable(&error))
                .map(|value: rusqlite::types::Value| match value {
                    rusqlite::types::Value::Text(text) => text.to_uppercase(),
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    other => format!("{other:?}"),
                })
        };
        let synchronous = match pragma("synchronous")?.as_str() {
            "0" => "OFF".to_owned(),
            "1" => "NORMAL".to_owned(),
            "2" => "FULL".to_owned(),
            "3" => "EXTRA".to_owned(),
            other => other.to_owned(),
        };
        let settings = [
            ("busy_timeout", format!("{} ms", self.busy_timeout.as_millis())),
            ("cache", if self.shared_cache { "shared" } else { "private" }.to_owned()),
            ("isolation", "serializable".to_owned()),
            ("journal_mode", pragma("journal_mode")?),
            ("page_size", pragma("page_size")?),
            ("synchronous", synchronous),
        ];
        Ok(ServerInfo {
            address: self.address.clone(),
            version: format!("SQLite {}", rusqlite::version()),
            settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
            ..ServerInfo::default()
        })
    }

    /// What went wrong with the file, and what to try.
    fn unusable(&self, error: &rusqlite::Error) -> TargetError {
        let address = &self.address;
        let file = !self.path.to_string_lossy().starts_with("file:");
        let folder = self.path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        TargetError::Unusable(match primary_code(error) {
            ffi::SQLITE_CANTOPEN if file && !folder.is_dir() => {
                format!("cannot open {address}: there is no folder {}; create it first", folder.display())
            }
            ffi::SQLITE_CANTOPEN if file && self.path.is_dir() => {
                format!("cannot open {address}: it is a folder; name a file")
            }
            ffi::SQLITE_CANTOPEN if file && !self.path.exists() => format!(
                "cannot open {address}: there is no such file; run the load phase first (--phase load), \
                 and check that the folder can be written to"
            ),
            ffi::SQLITE_NOTADB => {
                format!("{address} is not an SQLite database; name another file (--url)")
            }
            ffi::SQLITE_READONLY | ffi::SQLITE_PERM => format!(
                "{address} is read-only ({error}); allow writing to the file and its folder, \
                 or give -p sqlite.mode=ro for a trace that only reads"
            ),
            ffi::SQLITE_BUSY => format!("{address} is in use by another process ({error}); stop that one first"),
            _ => format!("cannot use {address}: {error}"),
        })
    }
}

fn create_table(table: &TableSpec) -> String {
    let fields: String = table.fields.iter().map(|field| format!(", {field} TEXT")).collect();
    format!("CREATE TABLE IF NOT EXISTS {} ({KEY} VARCHAR(255) PRIMARY KEY NOT NULL{fields})", table.name)
}

/// The property `name`: one of `choices` in any case, the first by default.
fn choice(target: &Target, name: &str, choices: &[&str]) -> Result<String, TargetError> {
    let Some(text) = target.property(name) else { return Ok(choices[0].to_owned()) };
    let known = choices.iter().find(|choice| choice.eq_ignore_ascii_case(text));
    known.map(|choice| (*choice).to_owned()).ok_or_else(|| {
        TargetError::Request(format!("{name}={text:?} is not known; use one of {}", choices.join(", ")))
    })
}

/// The deadline of the operation under way. Waiting for a lock is limited by the busy time-out, work
/// by a progress handler, which SQLite calls every thousand or so instructions.
#[derive(Debug)]
struct Deadline {
    timeout: Duration,
    began: Instant,
    /// The operation it belongs to: its statements and tries share one deadline.
    op_id: Option<u64>,
    /// Nanoseconds since `began`.
    at_ns: Arc<AtomicU64>,
}

impl Deadline {
    fn install(timeout: Duration, connection: &mut Connection) -> rusqlite::Result<Deadline> {
        let (began, at_ns) = (Instant::now(), Arc::new(AtomicU64::new(u64::MAX)));
        let limit = at_ns.clone();
        let is_over = move || began.elapsed().as_nanos() as u64 > limit.load(Ordering::Relaxed);
        connection.progress_handler(1_000, Some(is_over))?;
        Ok(Deadline { timeout, began, op_id: None, at_ns })
    }

    /// A statement of operation `op_id` begins; returns the time that is left for it.
    fn left(&mut self, op_id: u64) -> Duration {
        let now = self.began.elapsed();
        if self.op_id != Some(op_id) {
            self.op_id = Some(op_id);
            self.at_ns.store((now + self.timeout).as_nanos() as u64, Ordering::Relaxed);
        }
        Duration::from_nanos(self.at_ns.load(Ordering::Relaxed)).saturating_sub(now)
    }
}

impl SqliteSession {
    /// Sets the deadline of the operation's next statement.
    #[inline]
    fn limit(&mut self, op_id: u64) -> rusqlite::Result<()> {
        let Some(deadline) = &mut self.deadline else { return Ok(()) };
        // Whole milliseconds, and rather one too late: the operation is judged by the clock.
        let left = deadline.left(op_id) + Duration::from_millis(1);
        self.connection.busy_timeout(left.min(self.busy_timeout))
    }

    fn keep(&mut self, kind: OpKind, fields: Vec<u32>, text: String) {
        self.statements.add(kind, fields, text);
        self.connection.set_prepared_statement_cache_capacity(self.statements.len().max(16));
    }

    /// Makes sure that there is a statement for this shape.
    #[inline]
    fn ensure(&mut self, kind: OpKind, fields: &[Field<'_>]) -> Result<(), Outcome> {
        if self.statements.get(kind, fields).is_none() {
            let numbers = sql::numbers(fields);
            let text = sql::statement(&self.table, WORDING, kind, &numbers)
                .map_err(Outcome::rejected)?;
            self.keep(kind, numbers, text);
        }
        Ok(())
    }

    fn text(&self, kind: OpKind, fields: &[Field<'_>]) -> &str {
        self.statements.get(kind, fields).expect("ensure() made the statement")
    }

    fn fetch<R: Rows>(&mut self, op: &Op<'_>, kind: OpKind, rows: &mut R) -> rusqlite::Result<u32> {
        self.limit(op.id)?;
        let mut statement = self.connection.prepare_cached(self.text(kind, op.fields))?;
        let fields = if op.fields.is_empty() { self.table.fields.len() } else { op.fields.len() };
        statement.raw_bind_parameter(1, op.key)?;
        let first = if kind == OpKind::Scan {
            statement.raw_bind_parameter(2, op.scan_len)?;
            1
        } else {
            0
        };
        let mut answer = statement.raw_query();
        let mut count = 0;
        while let Some(row) = answer.next()? {
            count += 1;
            if kind == OpKind::Scan {
                rows.row(row.get_ref(0)?.as_str()?);
            } else {
                rows.row(op.key);
            }
            for position in 0..fields {
                let number = sql::number_of(op.fields, position);
                match row.get_ref(first + position)? {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => rows.field(number, Some(bytes)),
                    ValueRef::Null => rows.field(number, None),
                    // Only in a table that something else has filled.
                    ValueRef::Integer(value) => rows.field(number, Some(value.to_string().as_bytes())),
                    ValueRef::Real(value) => rows.field(number, Some(value.to_string().as_bytes())),
                }
            }
        }
        Ok(count)
    }

    fn change(&mut self, op: &Op<'_>, kind: OpKind, fields: &[Field<'_>]) -> rusqlite::Result<u32> {
        self.limit(op.id)?;
        let mut statement = self.connection.prepare_cached(self.text(kind, fields))?;
        let (key, first) = if kind == OpKind::Insert { (1, 2) } else { (fields.len() + 1, 1) };
        statement.raw_bind_parameter(key, op.key)?;
        for (field, parameter) in fields.iter().zip(first..) {
            statement.raw_bind_parameter(parameter, Value(field.value))?;
        }
        Ok(statement.raw_execute()? as u32)
    }

    /// One INSERT of several rows.
    fn insert_rows(&mut self, ops: &[Op<'_>]) -> rusqlite::Result<u32> {
        self.limit(ops[0].id)?;
        let (_, text) = self.batch_text.as_ref().expect("insert_batch() made the statement");
        let mut statement = self.connection.prepare_cached(text)?;
        let mut parameter = 1;
        for op in ops {
            statement.raw_bind_parameter(parameter, op.key)?;
            for (field, number) in op.fields.iter().zip(parameter + 1..) {
                statement.raw_bind_parameter(number, Value(field.value))?;
            }
            parameter += 1 + op.fields.len();
        }
        Ok(statement.raw_execute()? as u32)
    }

    fn update_or_delete(&mut self, op: &Op<'_>, kind: OpKind, fields: &[Field<'_>]) -> Outcome {
        if let Err(refusal) = self.ensure(kind, fields) {
            return refusal;
        }
        found(self.change(op, kind, fields).map_err(|error| failure(&error)))
    }
}

impl Session for SqliteSession {
    /// SQLITE_MAX_VARIABLE_NUMBER.
    const BATCH_VALUES: usize = 32_766;

    async fn insert_batch(&mut self, ops: &[Op<'_>]) -> Outcome {
        // The last batch may be shorter.
        if self.batch_text.as_ref().is_none_or(|(rows, _)| *rows != ops.len()) {
            let fields = ops.first().map_or(&[][..], |op| op.fields);
            match sql::insert_rows(&self.table, WORDING, &sql::numbers(fields), ops.len()) {
                Ok(text) => self.batch_text = Some((ops.len(), text)),
                Err(message) => return Outcome::rejected(message),
            }
        }
        self.insert_rows(ops).map_or_else(|error| failure(&error), Outcome::ok)
    }

    async fn read<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if let Err(refusal) = self.ensure(OpKind::Read, op.fields) {
            return refusal;
        }
        found(self.fetch(op, OpKind::Read, rows).map_err(|error| failure(&error)))
    }

    async fn update(&mut self, op: &Op<'_>) -> Outcome {
        self.update_or_delete(op, OpKind::Update, op.fields)
    }

    async fn insert(&mut self, op: &Op<'_>) -> Outcome {
        if let Err(refusal) = self.ensure(OpKind::Insert, op.fields) {
            return refusal;
        }
        match self.change(op, OpKind::Insert, op.fields) {
            Ok(rows) => Outcome::ok(rows),
            Err(error) => failure(&error),
        }
    }

    async fn scan<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if let Err(refusal) = self.ensure(OpKind::Scan, op.fields) {
            return refusal;
        }
        self.fetch(op, OpKind::Scan, rows).map_or_else(|error| failure(&error), Outcome::ok)
    }

    async fn delete(&mut self, op: &Op<'_>) -> Outcome {
        self.update_or_delete(op, OpKind::Delete, &[])
    }

    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        // The write lock first: taken after the read, it could be refused with SQLITE_BUSY_SNAPSHOT.
        if let Err(error) = self.connection.execute_batch("BEGIN IMMEDIATE") {
            return failure(&error);
        }
        let outcome = self.read_modify_write(op, rows, || ()).await;
        let end = if outcome.status == Status::Ok { "COMMIT" } else { "ROLLBACK" };
        match self.connection.execute_batch(end) {
            Err(error) if outcome.status == Status::Ok => {
                let _ = self.connection.execute_batch("ROLLBACK");
                failure(&error)
            }
            // Some errors have rolled back already.
            _ => outcome,
        }
    }

    async fn call<R: Rows>(&mut self, call: &Call<'_>, rows: &mut R) -> Outcome {
        self.execute_call(call, rows)
    }
}

/// A value to write: TEXT if it is text, otherwise a BLOB, which SQLite stores in any column.
struct Value<'a>(&'a [u8]);

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let is_text = std::str::from_utf8(self.0).is_ok();
        Ok(ToSqlOutput::Borrowed(if is_text { ValueRef::Text(self.0) } else { ValueRef::Blob(self.0) }))
    }
}

fn extended_code(error: &rusqlite::Error) -> i32 {
    error.sqlite_error().map_or(0, |error| error.extended_code)
}

fn primary_code(error: &rusqlite::Error) -> i32 {
    extended_code(error) & 0xff
}

#[cold]
fn failure(error: &rusqlite::Error) -> Outcome {
    let (status, recovery) = match (primary_code(error), extended_code(error)) {
        (_, ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_UNIQUE) => {
            (Status::Duplicate, Recovery::Fatal)
        }
        (ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED, _) => (Status::Conflict, Recovery::Retry),
        (ffi::SQLITE_INTERRUPT, _) => (Status::Timeout, Recovery::Retry),
        (
            ffi::SQLITE_ERROR
            | ffi::SQLITE_PERM
            | ffi::SQLITE_READONLY
            | ffi::SQLITE_TOOBIG
            | ffi::SQLITE_CONSTRAINT
            | ffi::SQLITE_MISMATCH
            | ffi::SQLITE_AUTH
            | ffi::SQLITE_RANGE,
            _,
        ) => (Status::Rejected, Recovery::Fatal),
        _ => (Status::Error, Recovery::Fatal),
    };
    Outcome::failed(status, recovery, code_name(extended_code(error)), error.to_string())
}

/// SQLite's name of a result: the extended one where it says more, otherwise the primary one.
fn code_name(extended: i32) -> &'static str {
    match extended {
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY => return "SQLITE_CONSTRAINT_PRIMARYKEY",
        ffi::SQLITE_CONSTRAINT_UNIQUE => return "SQLITE_CONSTRAINT_UNIQUE",
        ffi::SQLITE_CONSTRAINT_NOTNULL => return "SQLITE_CONSTRAINT_NOTNULL",
        ffi::SQLITE_CONSTRAINT_CHECK => return "SQLITE_CONSTRAINT_CHECK",
        ffi::SQLITE_BUSY_SNAPSHOT => return "SQLITE_BUSY_SNAPSHOT",
        ffi::SQLITE_BUSY_RECOVERY => return "SQLITE_BUSY_RECOVERY",
        _ => {}
    }
    match extended & 0xff {
        ffi::SQLITE_ERROR => "SQLITE_ERROR",
        ffi::SQLITE_INTERNAL => "SQLITE_INTERNAL",
        ffi::SQLITE_PERM => "SQLITE_PERM",
        ffi::SQLITE_ABORT => "SQLITE_ABORT",
        ffi::SQLITE_BUSY => "SQLITE_BUSY",
        ffi::SQLITE_LOCKED => "SQLITE_LOCKED",
        ffi::SQLITE_NOMEM => "SQLITE_NOMEM",
        ffi::SQLITE_READONLY => "SQLITE_READONLY",
        ffi::SQLITE_INTERRUPT => "SQLITE_INTERRUPT",
        ffi::SQLITE_IOERR => "SQLITE_IOERR",
        ffi::SQLITE_CORRUPT => "SQLITE_CORRUPT",
        ffi::SQLITE_FULL => "SQLITE_FULL",
        ffi::SQLITE_CANTOPEN => "SQLITE_CANTOPEN",
        ffi::SQLITE_PROTOCOL => "SQLITE_PROTOCOL",
        ffi::SQLITE_SCHEMA => "SQLITE_SCHEMA",
        ffi::SQLITE_TOOBIG => "SQLITE_TOOBIG",
        ffi::SQLITE_CONSTRAINT => "SQLITE_CONSTRAINT",
        ffi::SQLITE_MISMATCH => "SQLITE_MISMATCH",
        ffi::SQLITE_MISUSE => "SQLITE_MISUSE",
        ffi::SQLITE_AUTH => "SQLITE_AUTH",
        ffi::SQLITE_RANGE => "SQLITE_RANGE",
        ffi::SQLITE_NOTADB => "SQLITE_NOTADB",
        _ => "",
    }
}
