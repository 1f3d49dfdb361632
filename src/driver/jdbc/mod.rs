//! Any database with a JDBC driver, through a Java virtual machine in this process. Property names,
//! class path and sharding are those of YCSB's JDBC binding, so that its command lines and property
//! files work; HerdDB, which speaks no other protocol, is a kind of its own with its defaults.
//!
//! Every operation is one prepared statement and one call into Java, in autocommit mode, or with
//! `jdbc.autocommit=false` followed by a commit. Unlike YCSB's binding, a read names its columns and
//! fetches them all, and nothing counts as done that is not committed.
//!
//! A session has one connection for every shard, on the thread that opened it. A JDBC call blocks, so
//! deadlines are kept by a thread of the helper: it aborts the connection, or where the driver
//! cannot do that, cancels the statement and at last interrupts the thread.

mod classpath;
mod errors;
mod jvm;
mod products;
mod shards;
mod statements;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::errors::Certificate;
use self::jvm::{Complaint, Helper, NoMachine, Request};
use self::products::{Limit, Product};
use super::sql::{self, Placeholder, Statements, Wording, found};
use super::{Collector, Driver, KEY, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use super::statements::Call;
use crate::op::{Field, Op, OpKind, Outcome, Recovery, Status};
use crate::statement::{Schema, Table};

/// The name of the product.
const HERDDB: &str = "HerdDB";

const HERDDB_URL: &str = "jdbc:herddb:server:127.0.0.1:7000";

const OPTIONS: &[(&str, &str, &str)] = &[
    ("jdbc.classpath", "", "the driver's jars, as for java -cp: a.jar:folder/*:herddb-*.jar; else $CLASSPATH"),
    ("db.driver", "", "the driver's class; without it, the driver in the class path that takes the URL"),
    ("db.url", "", "jdbc:…; several separated by ; are shards, and a row is where its key's hash says"),
    ("db.urlsharddelim", ";", "what separates them instead"),
    ("db.user", "", "user (HerdDB: sa)"),
    ("db.passwd", "", "password (HerdDB: hdb)"),
    ("jdbc.schema", "", "schema of every connection (HerdDB: tablespace); without it, the database decides"),
    ("jdbc.fetchsize", "", "rows that a scan fetches at once; without it, the driver decides"),
    ("jdbc.autocommit", "true", "false: every operation is followed by a commit of its own"),
    ("jdbc.isolation", "serializable", "of --rmw transaction: read committed, repeatable read or serializable"),
    ("jdbc.jvmargs", "", "arguments of the Java machine, after -Xrs -Xmx512m"),
    ("jdbc.java_home", "", "where Java is; else $JAVA_HOME, the java on the PATH, /usr/lib/jvm"),
    ("db.batchsize", "", "rows that `load` sends in one request, as --load-batch does, if the next is true or jdbc.autocommit is false"),
    ("jdbc.batchupdateapi", "false", "as in YCSB, db.batchsize counts with it; the inserts of a run are always sent one by one"),
];

const UPDATE: (&str, &str) = ("an update", "UPDATE of the fields named; a missing row is NOT_FOUND");

const DEFAULTS: &[(&str, &str)] = &[
    ("isolation", "the database's own default, one transaction for every operation; of --rmw transaction: serializable"),
    ("durability", "the database's own default; nothing is OK before it is committed"),
    UPDATE,
];

const HERDDB_DEFAULTS: &[(&str, &str)] = &[
    ("isolation", "read committed; --rmw transaction is UNSUPPORTED, unless -p jdbc.isolation=read committed accepts lost updates"),
    ("durability", "every commit is synced to the server's log"),
    UPDATE,
];

/// A database, or several as shards.
pub struct Jdbc {
    /// Kept from messages: they may hold passwords.
    urls: Vec<String>,
    /// The URLs without what follows the database's name.
    address: String,
    class: String,
    user: String,
    password: String,
    schema: String,
    classpath: Vec<PathBuf>,
    fetch_size: i32,
    autocommit: bool,
    isolation: i32,
    jvm_arguments: String,
    java_home: Option<PathBuf>,
    op_timeout: Option<Duration>,
    load_batch: u32,
    warnings: Vec<String>,
    /// A connection has been opened: the driver's classes are loaded, which takes its time.
    warm: AtomicBool,
    /// Which database answered, and by what its scans order.
    found: Mutex<Option<Found>>,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    product: &'static Product,
    scan_key: &'static str,
}

/// Its connections, one for each shard.
#[derive(Debug)]
pub struct JdbcSession {
    shards: Vec<Helper>,
    table: TableSpec,
    found: Found,
    /// Numbers of prepared statements, the same on every shard.
    statements: Statements<i32>,
    /// Those of a statement trace.
    calls: Option<statements::Calls>,
    isolation: i32,
    deadline: Option<Deadline>,
    /// Replaced in messages.
    password: String,
}

/// The deadline of the operation under way: its statements and tries share it.
#[derive(Debug)]
struct Deadline {
    timeout: Duration,
    op_id: Option<u64>,
    began: Instant,
}

impl Deadline {
    /// The time left for operation `op_id`.
    #[inline]
    fn left(&mut self, op_id: u64) -> Duration {
        if self.op_id != Some(op_id) {
            self.op_id = Some(op_id);
            self.began = Instant::now();
            return self.timeout;
        }
        self.timeout.saturating_sub(self.began.elapsed())
    }
}

impl Driver for Jdbc {
    const KINDS: &'static [Kind] = &[
        Kind {
            names: &["jdbc"],
            about: "any database with a JDBC driver; --url jdbc:…, -p jdbc.classpath=driver.jar",
            default_address: "none",
            example: "ycsb-trace replay --db jdbc workloada --url jdbc:postgresql://127.0.0.1:5432/test -p jdbc.classpath=postgresql.jar -p db.user=me",
            defaults: DEFAULTS,
            tested_against: "the drivers of PostgreSQL (42.7.14), MariaDB (3.5.11) and H2 (2.4.240), with their real databases",
            options: OPTIONS,
        },
        Kind {
            names: &["herddb"],
            about: "HerdDB, by its JDBC driver; -p jdbc.classpath=herddb",
            default_address: HERDDB_URL,
            example: "ycsb-trace replay --db herddb workloada --threads 200 -p jdbc.classpath=herddb",
            defaults: HERDDB_DEFAULTS,
            tested_against: "a real HerdDB 0.29.0 server, over TCP",
            options: OPTIONS,
        },
    ];
    const BLOCKING: bool = true;
    type Session = JdbcSession;

    fn open(target: &Target) -> Result<Jdbc, TargetError> {
        Jdbc::understand(target, std::env::var("CLASSPATH").ok())
    }

    async fn prepare(&self, table: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        table.check_names(true)?;
        let mut info = None;
        for shard in 0..self.urls.len() {
            let mut helper = self.connected(shard)?;
            let described = self.describe(&mut helper)?;
            self.prepare_table(&mut helper, described.0.product, table, preparation)?;
            let (found, of_shard) = described;
            let found = self.scan_order(&mut helper, table, found);
            *self.found.lock().expect("nobody panics holding it") = Some(found);
            info.get_or_insert(of_shard);
        }
        let found = self.found.lock().expect("nobody panics holding it").expect("there is a shard");
        let mut info = info.expect("there is a shard");
        if self.urls.len() > 1 {
            info.settings.insert("shards".to_owned(), self.urls.len().to_string());
        }
        if found.scan_key != KEY {
            let order = "by sorting: the index of YCSB_KEY is in another order, scans are in byte order";
            info.settings.insert("scan_order".to_owned(), order.to_owned());
        }
        info.statements = sql::texts(table, wording(found));
        if let Some(scan) = info.statements.get_mut(OpKind::Scan.name()) {
            *scan = found.product.scan(scan);
        }
        info.warnings.clone_from(&self.warnings);
        if self.load_batch > 1 && found.product.name == HERDDB {
            // Seen in 0.29.0, with plain Java too.
            return Err(TargetError::Request(
                "--load-batch: when one row of a batch is there already, HerdDB keeps the others locked, even after a \
                 rollback; load row by row there"
                    .to_owned(),
            ));
        }
        Ok(info)
    }

    async fn connect(&self, table: &TableSpec, _session: u32) -> Result<JdbcSession, TargetError> {
        table.check_names(true)?;
        let mut shards = (0..self.urls.len()).map(|shard| self.connected(shard)).collect::<Result<Vec<_>, _>>()?;
        let known = *self.found.lock().expect("nobody panics holding it");
        let found = match known {
            Some(found) => found,
            None => {
                let (found, _) = self.describe(&mut shards[0])?;
                self.scan_order(&mut shards[0], table, found)
            }
        };
        let mut session = JdbcSession {
            shards,
            table: table.clone(),
            found,
            statements: Statements::new(),
            calls: None,
            isolation: self.isolation,
            deadline: self.op_timeout.map(|timeout| Deadline { timeout, op_id: None, began: Instant::now() }),
            password: self.password.clone(),
        };
        for (kind, fields) in sql::shapes(table) {
            let text = session.text(kind, &fields).map_err(TargetError::Request)?;
            session.prepare(kind, fields, &text).map_err(|error| self.refused("prepare a statement", &error))?;
        }
        Ok(session)
    }

    fn collections(&self) -> Vec<Collector> {
        let collector = |(name, count, time_ms)| Collector { name, count, time_ms };
        jvm::collections().into_iter().map(collector).collect()
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
    ) -> Result<JdbcSession, TargetError> {
        self.statement_session(statements)
    }
}

fn wording(found: Found) -> Wording {
    Wording { placeholder: Placeholder::Question, scan_key: found.scan_key }
}

/// Time for opening a connection: that of a replay.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Jdbc {
    fn understand(target: &Target, env_classpath: Option<String>) -> Result<Jdbc, TargetError> {
        let herddb = target.db == "herddb";
        let property = |name: &str| target.property(name).map(str::to_owned);
        let text = target.url.clone().or_else(|| property("db.url")).or(herddb.then(|| HERDDB_URL.to_owned()));
        let Some(text) = text else {
            return Err(TargetError::Request(
                "--db jdbc needs the database's URL: --url jdbc:… or -p db.url=jdbc:…".to_owned(),
            ));
        };
        let urls: Vec<String> =
            shards::urls(&text, target.property("db.urlsharddelim")).into_iter().map(str::to_owned).collect();
        if urls.is_empty() || urls.iter().any(|url| !url.starts_with("jdbc:")) {
            return Err(TargetError::Request(
                "the URL of a JDBC database begins with jdbc: (it is not shown here, it may hold a password)"
                    .to_owned(),
            ));
        }
        let classpath = property("jdbc.classpath").or(env_classpath).unwrap_or_default();
        let fetch_size = match target.property("jdbc.fetchsize") {
            // YCSB's own default, −1, means that the driver decides.
            Some(text) => text.parse::<i32>().map_err(|_| {
                TargetError::Request(format!("jdbc.fetchsize={text:?} is not a number of rows"))
            })?,
            None => 0,
        };
        let autocommit = truth(target, "jdbc.autocommit", true)?;
        let mut warnings = Vec::new();
        let batch_api = truth(target, "jdbc.batchupdateapi", false)?;
        if target.load_batch <= 1 {
            let size = target.property("db.batchsize").filter(|size| !["-1", "0", "1"].contains(size));
            let one_by_one = "every insert is sent and committed by itself (--load-batch loads several in one request)";
            warnings.extend(size.map(|size| format!("db.batchsize={size} has no effect: {one_by_one}")));
            warnings.extend(batch_api.then(|| format!("jdbc.batchupdateapi=true has no effect: {one_by_one}")));
        }
        let isolation = target.property("jdbc.isolation").unwrap_or("serializable");
        Ok(Jdbc {
            address: urls.iter().map(|url| address_of(url)).collect::<Vec<_>>().join(";"),
            urls,
            class: property("db.driver").or(herddb.then(|| "herddb.jdbc.Driver".to_owned())).unwrap_or_default(),
            user: property("db.user").or(herddb.then(|| "sa".to_owned())).unwrap_or_default(),
            password: property("db.passwd").or(herddb.then(|| "hdb".to_owned())).unwrap_or_default(),
            schema: property("jdbc.schema").unwrap_or_default(),
            classpath: classpath::expand(&classpath).map_err(TargetError::Request)?,
            fetch_size: fetch_size.max(0),
            autocommit,
            isolation: level(isolation)?,
            jvm_arguments: property("jdbc.jvmargs").unwrap_or_default(),
            java_home: property("jdbc.java_home").map(PathBuf::from),
            op_timeout: target.op_timeout,
            load_batch: target.load_batch,
            warnings,
            warm: AtomicBool::new(false),
            found: Mutex::new(None),
        })
    }

    /// Opens a connection to a shard.
    fn connected(&self, shard: usize) -> Result<Helper, TargetError> {
        let mut helper = Helper::new(&self.jvm_arguments, self.java_home.as_deref()).map_err(no_machine)?;
        // Whoever wants answers within a second does not wait ten for a connection that hangs.
        let limit = match self.op_timeout {
            Some(timeout) if self.warm.load(Ordering::Relaxed) => {
                timeout.clamp(Duration::from_secs(1), CONNECT_TIMEOUT)
            }
            _ => CONNECT_TIMEOUT,
        };
        helper.begin();
        helper.text(self.class.as_bytes());
        helper.text(self.urls[shard].as_bytes());
        helper.text(self.user.as_bytes());
        helper.text(self.password.as_bytes());
        helper.text(self.schema.as_bytes());
        helper.text(if self.autocommit { b"true" } else { b"false" });
        helper.text(limit.as_millis().to_string().as_bytes());
        helper.text(self.classpath.len().to_string().as_bytes());
        for jar in &self.classpath {
            helper.text(jar.as_os_str().as_encoded_bytes());
        }
        match helper.call(Request::Connect, self.fetch_size, None) {
            Ok(_) => {
                self.warm.store(true, Ordering::Relaxed);
                Ok(helper)
            }
            Err(complaint) => Err(self.unreachable(&complaint)),
        }
    }

    /// Why there is no connection, and what to try.
    fn unreachable(&self, complaint: &Complaint) -> TargetError {
        let address = &self.address;
        let words = self.without_secrets(errors::words(complaint));
        let code = errors::code(complaint);
        let is = |name: &str| complaint.classes.contains(name);
        let jars = match self.classpath.len() {
            0 => "no jar was given".to_owned(),
            1 => format!("not in {}", self.classpath[0].display()),
            count => format!("not in the {count} jars and folders of the class path"),
        };
        let how = "give the driver's jar as -cp driver.jar or -p jdbc.classpath=driver.jar";
        if is("java.util.NoSuchElementException") {
            return TargetError::Unusable(if self.class.is_empty() {
                format!("no JDBC driver for {address} was found ({jars}); {how}, and its class as -p db.driver=… if it is not announced in the jar")
            } else {
                format!("the driver {} does not accept the URL {address}; check both", self.class)
            });
        }
        if complaint.classes.starts_with("java.lang.ClassNotFoundException") {
            return TargetError::Unusable(format!(
                "the JDBC driver {} was not found: {jars}; {how}",
                self.class
            ));
        }
        if complaint.classes.starts_with("java.lang.ClassCastException") {
            return TargetError::Request(format!("db.driver={} is not a JDBC driver", self.class));
        }
        if complaint.classes.starts_with("java.lang.NoClassDefFoundError") {
            let herddb = "; herddb-jdbc-….jar without them is not enough, the jar with the ending -uber has all of them";
            let hint = if self.class.starts_with("herddb.") { herddb } else { "" };
            return TargetError::Unusable(format!(
                "the JDBC driver {} needs a class that is not in the class path: {words}; add the jars it depends on{hint}",
                self.class
            ));
        }
        if complaint.classes.starts_with("java.lang.UnsupportedClassVersionError") {
            return TargetError::Unusable(format!("the JDBC driver needs a newer Java: {words}"));
        }
        if let Some(wrong) = errors::certificate(complaint) {
            return TargetError::Unusable(match wrong {
                Certificate::Expired => format!("the certificate of {address} has expired; it has to be renewed there"),
                Certificate::NotYetValid => format!(
                    "the certificate of {address} is not valid yet; is the clock of one of the two machines wrong?"
                ),
                Certificate::Foreign => format!(
                    "the certificate of {address} is not signed by an authority that the driver trusts; name the right \
                     one in db.url (PostgreSQL: sslrootcert, MariaDB: serverSslCert), or add it to Java's own"
                ),
                Certificate::OtherName => format!(
                    "the certificate of {address} is for another name: {words}; call the host by a name in it"
                ),
            });
        }
        let login = is_login(complaint);
        let cause = ["UnknownHostException", "ConnectException", "SocketTimeoutException", "SQLTimeoutException"]
            .into_iter()
            .find(|name| is(name) || complaint.message.contains(name));
        TargetError::Unusable(match cause {
            // What was said is how the thread ended that we interrupted.
            _ if complaint.late => format!(
                "{address} did not answer within {} s; is the server running at this host and port?",
                CONNECT_TIMEOUT.as_secs()
            ),
            _ if login => {
                format!("{address} refused user {:?}: {words} ({code}); check db.user and db.passwd", self.user)
            }
            Some("UnknownHostException") => format!("the host of {address} is unknown: {words}; check its name"),
            Some("ConnectException") => {
                format!("nobody listens at {address}: {words}; is the server running at this host and port?")
            }
            Some(_) => format!(
                "{address} does not answer: {words}; is the host right, and does a firewall let us through?"
            ),
            None => format!("cannot connect to {address}: {words} ({code})"),
        })
    }

    /// The connection is there, but what we asked for was refused.
    fn refused(&self, doing: &str, complaint: &Complaint) -> TargetError {
        let words = self.without_secrets(errors::words(complaint));
        TargetError::Unusable(format!("{} refused to {doing}: {words} ({})", self.address, errors::code(complaint)))
    }

    /// Drivers like to repeat the URL.
    fn without_secrets(&self, words: String) -> String {
        let mut words = words;
        for url in &self.urls {
            words = words.replace(url.as_str(), &address_of(url));
        }
        hide(words, &self.password)
    }

    /// Who answered.
    fn describe(&self, helper: &mut Helper) -> Result<(Found, ServerInfo), TargetError> {
        helper.begin();
        let count = helper.call(Request::Describe, 0, None).map_err(|error| self.refused("say what it is", &error))?;
        let mut answer = helper.answer();
        let mut told = std::collections::BTreeMap::new();
        for _ in 0..count {
            let name = answer.text().unwrap_or_default().to_owned();
            told.insert(name, answer.text().unwrap_or_default().trim().to_owned());
        }
        let mut take = |name: &str| told.remove(name).unwrap_or_default();
        let (name, version) = (take("product"), take("version"));
        let mut product = Product::named(&name);
        let mut info = ServerInfo {
            address: self.address.clone(),
            // Some repeat their name in the version.
            version: if version.starts_with(&name) { version } else { format!("{name} {version}") },
            ..ServerInfo::default()
        };
        info.settings.insert("driver".to_owned(), format!("{} {}", take("driver"), take("driver_version")));
        let isolation = take("isolation");
        let isolation = LEVELS.iter().find(|level| level.1.to_string() == isolation).map_or("none", |level| level.0);
        info.settings.insert("isolation".to_owned(), isolation.to_owned());
        for name in ["autocommit", "java"] {
            info.settings.insert(name.to_owned(), take(name));
        }
        for (name, query) in product.settings {
            // What a server does not know is no news.
            if let Ok(Some(value)) = ask(helper, query) {
                info.settings.insert((*name).to_owned(), value);
            }
        }
        if let Some(version) = info.settings.remove("server_version") {
            // CockroachDB and YugabyteDB pass for PostgreSQL until asked.
            let relative = Product::named(&version);
            if ["CockroachDB", "-YB-"].contains(&relative.name) {
                product = relative;
            }
            info.version = version;
        }
        info.settings.retain(|_, value| !value.is_empty());
        Ok((Found { product, scan_key: KEY }, info))
    }

    /// By what a scan orders: for a table of another hand in PostgreSQL, perhaps not by the key itself.
    fn scan_order(&self, helper: &mut Helper, table: &TableSpec, found: Found) -> Found {
        if found.product.name != "PostgreSQL" {
            return found;
        }
        let query = format!(
            "SELECT CASE WHEN c.collname IN ('C', 'POSIX', 'ucs_basic') OR c.collname LIKE 'C.%' \
             OR c.collname = 'default' AND d.datcollate IN ('C', 'POSIX') \
             OR c.collname = 'default' AND d.datcollate LIKE 'C.%' THEN 'bytes' ELSE 'other' END \
             FROM pg_attribute a JOIN pg_database d ON d.datname = current_database() \
             JOIN pg_collation c ON c.oid = a.attcollation \
             WHERE a.attrelid = to_regclass('{}')::oid AND lower(a.attname) = 'ycsb_key'",
            table.name
        );
        match ask(helper, &query) {
            Ok(Some(order)) if order == "other" => Found { scan_key: "YCSB_KEY COLLATE \"C\"", ..found },
            _ => found,
        }
    }

    fn prepare_table(
        &self,
        helper: &mut Helper,
        product: &Product,
        table: &TableSpec,
        preparation: Preparation,
    ) -> Result<(), TargetError> {
        let mut columns = self.columns(helper, table)?;
        if preparation == Preparation::DropAndCreate && columns.is_some() {
            self.execute(helper, "drop the table", &format!("DROP TABLE {}", table.name))?;
            columns = None;
        }
        if preparation == Preparation::CreateIfEmpty && columns.is_some() {
            helper.begin();
            helper.text(products::any_row(table).as_bytes());
            let rows = helper.call(Request::Ask, 1, None).map_err(|error| self.refused("look into the table", &error))?;
            if rows > 0 {
                return Err(TargetError::NotEmpty { table: table.name.clone(), address: self.address.clone() });
            }
        }
        if columns.is_none() {
            if preparation == Preparation::UseExisting {
                return Err(TargetError::Unusable(format!(
                    "there is no table {} at {}; run the load phase first (--phase load), \
                     or name another table (-p table=…) or database",
                    table.name, self.address
                )));
            }
            self.execute(helper, "create the table", &product.create_table(table))?;
            columns = self.columns(helper, table)?;
        }
        self.check_columns(table, &columns.unwrap_or_default())
    }

    fn execute(&self, helper: &mut Helper, doing: &str, text: &str) -> Result<(), TargetError> {
        helper.begin();
        helper.text(text.as_bytes());
        helper.call(Request::Execute, 0, None).map(|_| ()).map_err(|error| self.refused(doing, &error))
    }

    /// Names and types of the table's columns; `None` if there is no such table.
    fn columns(&self, helper: &mut Helper, table: &TableSpec) -> Result<Option<Vec<Column>>, TargetError> {
        helper.begin();
        helper.text(products::look_at(table).as_bytes());
        // Some drivers connect only now, and try for minutes.
        let complaint = match helper.call(Request::Columns, 0, Some(CONNECT_TIMEOUT)) {
            Ok(count) => {
                let mut answer = helper.answer();
                let mut text = || answer.text().unwrap_or_default().to_owned();
                let column = |_| Column {
                    name: text(),
                    jdbc_type: text().parse().unwrap_or(0),
                    type_name: text(),
                };
                return Ok(Some((0..count).map(column).collect()));
            }
            Err(complaint) => complaint,
        };
        if complaint.closed {
            return Err(self.unreachable(&complaint));
        }
        // It failed because there is no table, or for another reason: the catalogue knows.
        let (schema, name) = table.name.split_once('.').unwrap_or(("", &table.name));
        helper.begin();
        helper.text(schema.as_bytes());
        helper.text(name.as_bytes());
        match helper.call(Request::Tables, 0, None) {
            Ok(0) => Ok(None),
            // HerdDB's driver knocks at the server only now.
            _ if is_login(&complaint) || errors::classify(&complaint, false).0 == Status::Unavailable => {
                Err(self.unreachable(&complaint))
            }
            _ => Err(self.refused("look at the table", &complaint)),
        }
    }

    fn check_columns(&self, table: &TableSpec, columns: &[Column]) -> Result<(), TargetError> {
        let (name, address) = (&table.name, &self.address);
        for needed in std::iter::once(KEY).chain(table.fields.iter().map(String::as_str)) {
            let Some(column) = columns.iter().find(|column| column.name.eq_ignore_ascii_case(needed)) else {
                let existing: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
                return Err(TargetError::Unusable(format!(
                    "table {name} at {address} has no column {needed} (it has {}); \
                     load it again with --drop, or name another table (-p table=…)",
                    existing.join(", ")
                )));
            };
            if !column.holds_text() {
                return Err(TargetError::Unusable(format!(
                    "column {needed} of table {name} at {address} is of type {}, not text; \
                     load it again with --drop, or name another table (-p table=…)",
                    column.type_name
                )));
            }
        }
        Ok(())
    }
}

/// Is it about the user or the password?
fn is_login(complaint: &Complaint) -> bool {
    complaint.sqlstate.starts_with("28")
        || complaint.vendor == 1045
        || complaint.classes.contains("SQLInvalidAuthorizationSpecException")
        || complaint.message.to_ascii_lowercase().contains("authentication")
}

/// A column of the table.
#[derive(Debug)]
struct Column {
    name: String,
    /// By the constants of `java.sql.Types`.
    jdbc_type: i32,
    type_name: String,
}

impl Column {
    fn holds_text(&self) -> bool {
        // Numbers and times; anything else (CHAR, VARCHAR, CLOB, BLOB, OTHER, …) may take a string.
        !matches!(self.jdbc_type, -7..=-5 | 2..=8 | 16 | 91..=93 | 2012..=2014)
    }
}

/// The only value of a query's answer.
fn ask(helper: &mut Helper, query: &str) -> Result<Option<String>, Box<Complaint>> {
    helper.begin();
    helper.text(query.as_bytes());
    let rows = helper.call(Request::Ask, 1, None)?;
    Ok(if rows == 0 { None } else { helper.answer().text().map(str::to_owned) })
}

fn no_machine(why: NoMachine) -> TargetError {
    TargetError::Unusable(match why {
        NoMachine::NotFound(places) => format!(
            "JDBC needs a Java runtime, and there is none (looked in {places}); install one, \
             e.g. apt-get install default-jre-headless, or say where it is: JAVA_HOME or -p jdbc.java_home=…"
        ),
        NoMachine::Broken(library, why) => format!(
            "the Java runtime {} does not start: {why}; check jdbc.jvmargs, and the memory that is free",
            library.display()
        ),
    })
}

/// Isolation levels, by the constants of `java.sql.Connection`.
const LEVELS: &[(&str, i32)] =
    &[("read uncommitted", 1), ("read committed", 2), ("repeatable read", 4), ("serializable", 8)];

fn level(text: &str) -> Result<i32, TargetError> {
    let wanted = text.trim().to_ascii_lowercase().replace(['-', '_'], " ");
    LEVELS[1..].iter().find(|level| level.0 == wanted).map(|level| level.1).ok_or_else(|| {
        TargetError::Request(format!(
            "jdbc.isolation={text:?} is not known; use one of read committed, repeatable read, serializable"
        ))
    })
}

fn truth(target: &Target, name: &str, default: bool) -> Result<bool, TargetError> {
    match target.property(name).map(str::to_ascii_lowercase).as_deref() {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(TargetError::Request(format!("{name}={other:?} is neither true nor false"))),
    }
}

/// The part of a URL that names the database, without user, password and options.
fn address_of(url: &str) -> String {
    let base = &url[..url.find(['?', ';', '&']).unwrap_or(url.len())];
    let Some(slashes) = base.find("//").filter(|slashes| !base[..*slashes].contains('@')) else {
        // Oracle's jdbc:oracle:thin:user/password@host.
        let Some((before, host)) = base.rsplit_once('@') else { return base.to_owned() };
        let scheme = before.split_once('/').map_or(before, |(user, _)| user);
        return format!("{}:{host}", scheme.rsplit_once(':').map_or(scheme, |(scheme, _)| scheme));
    };
    let (scheme, rest) = base.split_at(slashes + 2);
    if let Some((_, host)) = rest.rsplit_once('@') {
        return format!("{scheme}{host}");
    }
    // A password with one of the characters at which `base` ends: nothing of it is shown.
    let authority = rest.split('/').next().unwrap_or(rest);
    let torn = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.ends_with(']') && !port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if torn && url.contains('@') { format!("{scheme}…") } else { base.to_owned() }
}

fn hide(words: String, password: &str) -> String {
    if password.is_empty() || password == "hdb" { words } else { words.replace(password, "***") }
}

impl JdbcSession {
    fn text(&self, kind: OpKind, fields: &[u32]) -> Result<String, String> {
        let text = sql::statement(&self.table, wording(self.found), kind, fields)?;
        Ok(if kind == OpKind::Scan { self.found.product.scan(&text) } else { text })
    }

    /// Prepares a statement on every shard.
    fn prepare(&mut self, kind: OpKind, fields: Vec<u32>, text: &str) -> Result<i32, Box<Complaint>> {
        let mut number = 0;
        for helper in &mut self.shards {
            helper.begin();
            helper.text(text.as_bytes());
            number = helper.call(Request::Prepare, i32::from(kind == OpKind::Scan), None)? as i32;
        }
        self.statements.add(kind, fields, number);
        Ok(number)
    }

    /// The statement for this shape; one that the trace did not announce is prepared now.
    #[inline]
    fn statement(&mut self, kind: OpKind, fields: &[Field<'_>]) -> Result<i32, Outcome> {
        if let Some(number) = self.statements.get(kind, fields) {
            return Ok(*number);
        }
        let numbers = sql::numbers(fields);
        let text = self
            .text(kind, &numbers)
            .map_err(Outcome::rejected)?;
        self.prepare(kind, numbers, &text).map_err(|complaint| self.failure(&complaint, false))
    }

    #[inline]
    fn left(&mut self, op: &Op<'_>) -> Option<Duration> {
        self.deadline.as_mut().map(|deadline| deadline.left(op.id))
    }

    fn fetch<R: Rows>(&mut self, op: &Op<'_>, kind: OpKind, rows: &mut R) -> Result<u32, Outcome> {
        let statement = self.statement(kind, op.fields)?;
        let left = self.left(op);
        let scan = kind == OpKind::Scan;
        let fields = if op.fields.is_empty() { self.table.fields.len() } else { op.fields.len() };
        let top = self.found.product.limit == Limit::Top;
        let shard = shards::shard_of(op.key, self.shards.len());
        let helper = &mut self.shards[shard];
        helper.begin();
        if scan && top {
            helper.number(op.scan_len as i32);
        }
        helper.text(op.key.as_bytes());
        if scan && !top {
            helper.number(op.scan_len as i32);
        }
        let count = match helper.call(Request::Query, statement, left) {
            Ok(count) => count,
            Err(complaint) => return Err(self.failure(&complaint, false)),
        };
        let mut answer = helper.answer();
        for _ in 0..count {
            if scan {
                rows.row(answer.text().unwrap_or_default());
            } else {
                rows.row(op.key);
                if fields == 0 {
                    answer.value();
                }
            }
            for position in 0..fields {
                rows.field(sql::number_of(op.fields, position), answer.value());
            }
        }
        Ok(count)
    }

    /// Java's strings would turn other bytes into question marks.
    #[inline]
    fn is_text(&self, fields: &[Field<'_>]) -> Result<(), Outcome> {
        let Some(field) = fields.iter().find(|field| str::from_utf8(field.value).is_err()) else { return Ok(()) };
        let name = &self.table.fields[field.number as usize];
        let message = format!("the value of {name} is not text in UTF-8, and JDBC binds it as text");
        Err(Outcome::rejected(message))
    }

    fn change(&mut self, op: &Op<'_>, kind: OpKind, fields: &[Field<'_>]) -> Result<u32, Outcome> {
        let statement = self.statement(kind, fields)?;
        let left = self.left(op);
        self.is_text(fields)?;
        let shard = shards::shard_of(op.key, self.shards.len());
        let helper = &mut self.shards[shard];
        helper.begin();
        if kind == OpKind::Insert {
            helper.text(op.key.as_bytes());
        }
        for field in fields {
            helper.text(field.value);
        }
        if kind != OpKind::Insert {
            helper.text(op.key.as_bytes());
        }
        match helper.call(Request::Update, statement, left) {
            Ok(count) => Ok(count),
            Err(complaint) => Err(self.failure(&complaint, true)),
        }
    }

    #[cold]
    fn failure(&self, complaint: &Complaint, wrote: bool) -> Outcome {
        let mut outcome = errors::failure(complaint, wrote);
        if let Some(failure) = &mut outcome.failure {
            failure.message = hide(std::mem::take(&mut failure.message), &self.password);
        }
        outcome
    }
}

impl JdbcSession {
    /// Ends a transaction on one shard.
    fn end(&mut self, shard: usize, request: Request, left: Option<Duration>) -> Result<u32, Box<Complaint>> {
        let helper = &mut self.shards[shard];
        helper.begin();
        helper.call(request, 0, left)
    }

    /// Writes rows by JDBC's addBatch, in one transaction on every shard that has some of them.
    fn insert_rows(&mut self, ops: &[Op<'_>]) -> Result<u32, Outcome> {
        let fields = ops[0].fields;
        let statement = self.statement(OpKind::Insert, fields)?;
        ops.iter().try_for_each(|op| self.is_text(op.fields))?;
        let shard_of = |op: &Op<'_>| shards::shard_of(op.key, self.shards.len());
        let mut by_shard: Vec<Vec<&Op<'_>>> = vec![Vec::new(); self.shards.len()];
        ops.iter().for_each(|op| by_shard[shard_of(op)].push(op));
        let with_rows: Vec<usize> =
            (0..by_shard.len()).filter(|shard| !by_shard[*shard].is_empty()).collect();
        let mut rows = 0;
        let mut refused = None;
        for &shard in &with_rows {
            let left = self.left(&ops[0]);
            let helper = &mut self.shards[shard];
            helper.begin();
            helper.number(fields.len() as i32 + 1);
            for op in &by_shard[shard] {
                helper.text(op.key.as_bytes());
                op.fields.iter().for_each(|field| helper.text(field.value));
            }
            match helper.call(Request::Batch, statement, left) {
                Ok(count) => rows += count,
                Err(complaint) => {
                    refused = Some((shard, complaint));
                    break;
                }
            }
        }
        let Some((failed, complaint)) = refused else {
            for (position, &shard) in with_rows.iter().enumerate() {
                let left = self.left(&ops[0]);
                if let Err(complaint) = self.end(shard, Request::Commit, left) {
                    let mut outcome = self.failure(&complaint, true);
                    if let Some(failure) = outcome.failure.as_mut().filter(|_| position > 0) {
                        // The rows of the shards before are there.
                        failure.recovery = Recovery::Ambiguous;
                    }
                    for &shard in &with_rows[position..] {
                        let _ = self.end(shard, Request::Rollback, None);
                    }
                    return Err(outcome);
                }
            }
            return Ok(rows);
        };
        // Nothing is committed yet, so nothing of it has an effect.
        let outcome = self.failure(&complaint, false);
        for shard in with_rows.into_iter().take_while(|shard| *shard <= failed) {
            let _ = self.end(shard, Request::Rollback, None);
        }
        Err(outcome)
    }
}

impl Session for JdbcSession {
    /// As much as fits into memory: values go into Java's batch row by row.
    const BATCH_VALUES: usize = usize::MAX;

    async fn insert_batch(&mut self, ops: &[Op<'_>]) -> Outcome {
        if self.found.product.name == HERDDB {
            return Outcome::UNSUPPORTED;
        }
        self.insert_rows(ops).map_or_else(|failure| failure, Outcome::ok)
    }

    async fn read<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        found(self.fetch(op, OpKind::Read, rows))
    }

    async fn update(&mut self, op: &Op<'_>) -> Outcome {
        found(self.change(op, OpKind::Update, op.fields))
    }

    async fn insert(&mut self, op: &Op<'_>) -> Outcome {
        self.change(op, OpKind::Insert, op.fields).map_or_else(|failure| failure, Outcome::ok)
    }

    async fn scan<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        self.fetch(op, OpKind::Scan, rows).map_or_else(|failure| failure, Outcome::ok)
    }

    async fn delete(&mut self, op: &Op<'_>) -> Outcome {
        found(self.change(op, OpKind::Delete, &[]))
    }

    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        let shard = shards::shard_of(op.key, self.shards.len());
        let (isolation, left) = (self.isolation, self.left(op));
        let end = |session: &mut JdbcSession, request, number, left| {
            let helper = &mut session.shards[shard];
            helper.begin();
            helper.call(request, number, left)
        };
        if let Err(complaint) = end(self, Request::Begin, isolation, left) {
            return self.failure(&complaint, false);
        }
        let mut outcome = self.read_modify_write(op, rows, || ()).await;
        if outcome.status == Status::Ok {
            let left = self.left(op);
            match end(self, Request::Commit, 0, left) {
                Ok(_) => return outcome,
                Err(complaint) => outcome = self.failure(&complaint, true),
            }
        } else if let Some(failure) = &mut outcome.failure
            && failure.recovery == Recovery::Ambiguous
        {
            // What broke before the commit has changed nothing, even if the update was under way.
            failure.recovery = Recovery::Reconnect;
        }
        let _ = end(self, Request::Rollback, 0, None);
        outcome
    }

    async fn call<R: Rows>(&mut self, call: &Call<'_>, _rows: &mut R) -> Outcome {
        self.execute_call(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_secret_in_it() {
        for (url, shown) in [
            ("jdbc:postgresql://h:5432/d?user=u&password=s3@cr3t", "jdbc:postgresql://h:5432/d"),
            ("jdbc:mysql://u:s3cr3t@h:3306/d?x=y", "jdbc:mysql://h:3306/d"),
            ("jdbc:mysql://u:s3?cr3t@h/d", "jdbc:mysql://…"),
            ("jdbc:oracle:thin:u/s3cr3t@//h:1521/x", "jdbc:oracle:thin://h:1521/x"),
            ("jdbc:oracle:thin:u/s3cr3t@h:1521:x", "jdbc:oracle:thin:h:1521:x"),
            ("jdbc:sqlserver://h:1433;user=u;password=s3cr3t", "jdbc:sqlserver://h:1433"),
            ("jdbc:h2:mem:x;MODE=MySQL", "jdbc:h2:mem:x"),
            ("jdbc:herddb:server:127.0.0.1:7000?password=s3cr3t", "jdbc:herddb:server:127.0.0.1:7000"),
        ] {
            assert_eq!(address_of(url), shown);
        }
    }

    #[test]
    fn failures_are_sorted_by_state_number_class_and_name() {
        let complaint = |sqlstate: &str, vendor, standard: &str, classes: &str, message: &str| Complaint {
            vendor,
            sqlstate: sqlstate.to_owned(),
            standard: standard.to_owned(),
            classes: classes.to_owned(),
            message: message.to_owned(),
            closed: false,
            late: false,
        };
        let class = |complaint: &Complaint| errors::classify(complaint, true);
        let herd = complaint(
            "",
            0,
            "SQLIntegrityConstraintViolationException",
            "java.sql.SQLIntegrityConstraintViolationException herddb.client.HDBException",
            "herddb.model.DuplicatePrimaryKeyException: key 75",
        );
        assert_eq!(class(&herd), (Status::Duplicate, Recovery::Fatal));
        assert_eq!(errors::code(&herd), "SQLIntegrityConstraintViolationException");
        let mysql = complaint("23000", 1062, "SQLIntegrityConstraintViolationException", "x.Y", "Duplicate entry");
        assert_eq!((class(&mysql).0, errors::code(&mysql)), (Status::Duplicate, "23000/1062".to_owned()));
        let null = complaint("23502", 23502, "SQLIntegrityConstraintViolationException", "x.Y", "NULL not allowed");
        assert_eq!((class(&null).0, errors::code(&null)), (Status::Rejected, "23502".to_owned()));
        for (complaint, expected) in [
            (complaint("40001", 0, "SQLException", "", ""), (Status::Conflict, Recovery::Retry)),
            (complaint("HY000", 1205, "SQLException", "", ""), (Status::Conflict, Recovery::Retry)),
            (complaint("HYT00", 50200, "SQLTimeoutException", "", ""), (Status::Conflict, Recovery::Retry)),
            (complaint("08006", 0, "SQLException", "", ""), (Status::Unavailable, Recovery::Ambiguous)),
            (complaint("57P01", 0, "SQLException", "", ""), (Status::Unavailable, Recovery::Ambiguous)),
            (complaint("", 0, "SQLException", "a.B java.net.ConnectException", ""), (Status::Unavailable, Recovery::Ambiguous)),
            (complaint("42P01", 0, "SQLException", "", ""), (Status::Rejected, Recovery::Fatal)),
            (complaint("", 0, "SQLTransactionRollbackException", "", ""), (Status::Conflict, Recovery::Retry)),
            (complaint("", 0, "", "java.lang.IllegalStateException", ""), (Status::Error, Recovery::Fatal)),
        ] {
            assert_eq!(class(&complaint), expected, "{complaint:?}");
        }
        let late = Complaint { late: true, closed: true, ..Complaint::default() };
        assert_eq!(class(&late), (Status::Timeout, Recovery::Ambiguous));
        let gone = Complaint { closed: true, ..Complaint::default() };
        assert_eq!(errors::classify(&gone, false), (Status::Unavailable, Recovery::Reconnect));
    }
}
