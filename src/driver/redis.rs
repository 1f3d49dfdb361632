//! Redis and the databases that speak its protocol (Valkey, KeyDB, Dragonfly), alone or as a cluster.
//!
//! A row is a hash, as in YCSB's binding. Redis keeps keys in no order, so a scan needs an index: a
//! sorted set of all keys. YCSB's has the hash code of a key as its score, and its scans come in that
//! order, which is none of the keys' own. Ours has the score 0 everywhere: Redis then sorts by bytes
//! (`ZRANGEBYLEX`), and scans are what every driver here promises. `redis.layout=ycsb` keeps and reads
//! YCSB's index instead, for comparing with it or for data that it has loaded.
//!
//! *An insert must not overwrite and an update must not create*, but HSET does both. Each is a Lua
//! script of a few lines, which Redis executes as one step: the check, the row and the index. In a
//! cluster, row and index are on different nodes: the script has the row alone, and the index follows
//! in a second request. A failure between the two leaves a row that scans do not find.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind,
    IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisError, TlsCertificates, Value, cmd,
};

use super::certificates;
use super::url::{self, Url};
use super::{Driver, KEY, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use crate::op::{Field, Op, Outcome, Recovery, Status};

/// A server, or a cluster of them.
pub struct Redis {
    nodes: Vec<(String, u16)>,
    user: Option<String>,
    password: Option<String>,
    database: i64,
    cluster: bool,
    /// The index is YCSB's, in the order of hash codes.
    ycsb: bool,
    tls: Option<Tls>,
    connect_timeout: Duration,
}

/// Encryption, and the files that go with it, as they are.
struct Tls {
    /// Nothing about the server's certificate is verified but that it has one.
    authority: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// A connection to it.
pub struct RedisSession {
    link: Link,
    keys: Keys,
    /// Names of the table's fields.
    fields: Vec<String>,
    /// Hashes of the scripts, by which the server knows them.
    scripts: Vec<String>,
    /// The connection is known to be dead: nothing is sent any more.
    dead: bool,
}

/// One server's connection, or those to every node of a cluster.
#[derive(Clone)]
enum Link {
    Single(MultiplexedConnection),
    Cluster(Box<ClusterConnection>),
}

impl Link {
    async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        match self {
            Link::Single(connection) => command.query_async(connection).await,
            Link::Cluster(connection) => command.query_async(&mut **connection).await,
        }
    }

    const fn is_cluster(&self) -> bool {
        matches!(self, Link::Cluster(_))
    }

    /// The answers of several commands: in one round trip, or where each belongs to another node of a
    /// cluster, all at once.
    async fn send_all(&mut self, commands: Vec<Cmd>) -> Result<Vec<Value>, RedisError> {
        match self {
            Link::Single(connection) => {
                let count = commands.len();
                let mut pipeline = Pipeline::with_capacity(count);
                for command in commands {
                    pipeline.add_command(command);
                }
                let answers = connection.req_packed_commands(&pipeline, 0, count).await?;
                answers.into_iter().map(Value::extract_error).collect()
            }
            Link::Cluster(connection) => {
                let ask = |command: Cmd| {
                    let mut connection = connection.clone();
                    tokio::spawn(async move { command.query_async::<Value>(&mut *connection).await })
                };
                let asked: Vec<_> = commands.into_iter().map(ask).collect();
                let mut answers = Vec::with_capacity(asked.len());
                for answer in asked {
                    answers.push(answer.await.expect("a request does not panic")?);
                }
                Ok(answers)
            }
        }
    }
}

/// Where rows and index of a table are.
#[derive(Debug, Clone)]
struct Keys {
    /// Before the key of a row.
    prefix: String,
    index: String,
    /// The names of the table's fields, in a list; with YCSB's layout there is none.
    catalogue: Option<String>,
}

impl Keys {
    fn new(table: &TableSpec, ycsb: bool) -> Keys {
        // Names of tables have no dot and no colon, and a row's has a colon first.
        let name = &table.name;
        if ycsb {
            Keys { prefix: String::new(), index: "_indices".to_owned(), catalogue: None }
        } else {
            Keys {
                prefix: format!("{name}:"),
                index: format!("{name}.keys"),
                catalogue: Some(format!("{name}.fields")),
            }
        }
    }

    fn row(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The score of a key in the index.
    fn score(&self, key: &str) -> i32 {
        if self.catalogue.is_some() { 0 } else { java_hash(key) }
    }
}

/// `hashCode` of Java's strings, which is the score in YCSB's index.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

const INSERT: usize = 0;
const UPDATE: usize = 1;
const MODIFY: usize = 2;

/// Each answers 0 if it did nothing.
const SCRIPTS: [&str; 3] = [
    // Keys: row, index (not in a cluster). Arguments: score, key, then fields and values in turn.
    "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
     redis.call('HSET', KEYS[1], unpack(ARGV, 3)) \
     if KEYS[2] then redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2]) end \
     return 1",
    // Key: row. Arguments: fields and values in turn.
    "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end \
     redis.call('HSET', KEYS[1], unpack(ARGV)) \
     return 1",
    // Key: row. Arguments: how many fields to read, those, then fields and values in turn. Answers the
    // row before.
    "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end \
     local n = tonumber(ARGV[1]) \
     local row = redis.call('HMGET', KEYS[1], unpack(ARGV, 2, n + 1)) \
     redis.call('HSET', KEYS[1], unpack(ARGV, n + 2)) \
     return row",
];

const OPTIONS: &[(&str, &str, &str)] = &[
    ("redis.host", "127.0.0.1", "host; several by commas, each with :port if need be, are tried in turn, or are nodes of the cluster"),
    ("redis.port", "6379", "port"),
    ("redis.addr", "", "go-ycsb's host:port, instead of the two"),
    ("redis.user", "", "user, where the server has several"),
    ("redis.password", "", "password, in any characters; also $REDISCLI_AUTH"),
    ("redis.db", "0", "number of the database; a cluster has only 0"),
    ("redis.cluster", "false", "the servers are a cluster; also redis.mode=cluster"),
    ("redis.layout", "table", "table: rows are TABLE:KEY, scans in the order of keys; ycsb: rows are KEY, scans in the order of YCSB's index"),
    ("redis.tls", "false", "encrypted, as with rediss:// in the URL; the server's certificate is verified"),
    ("redis.tls-ca", "", "certificates of the authorities to trust (PEM), instead of this machine's"),
    ("redis.tls-cert", "", "our certificate (PEM), if the server wants one; with redis.tls-key"),
    ("redis.tls-key", "", "its private key (PEM)"),
    ("redis.connect-timeout", "10", "seconds that a server has to let us in"),
];

impl Driver for Redis {
    const KINDS: &'static [Kind] = &[Kind {
        names: &["redis", "valkey"],
        about: "Redis and Valkey, also as a cluster; --url redis://user:password@host:port/0",
        default_address: "127.0.0.1:6379",
        options: OPTIONS,
        example: "ycsb-trace replay --db redis workloada --url redis://:secret@127.0.0.1:6379/0 --threads 16",
        defaults: &[
            ("isolation", "every operation but a scan is one step; a scan reads the index, then its rows"),
            ("durability", "the server's (appendonly=no: a crash loses what came after the last snapshot)"),
            ("an update", "HSET of the fields named, if the row exists, in one step; a missing row is NOT_FOUND"),
        ],
        tested_against: "a real Redis (7.0), and a real cluster of three",
    }];
    const BLOCKING: bool = false;
    type Session = RedisSession;

    fn open(target: &Target) -> Result<Redis, TargetError> {
        Redis::understand(target, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    async fn prepare(&self, table: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        table.check_names(false)?;
        let mut link = self.link().await?;
        let keys = Keys::new(table, self.ycsb);
        let doing = |what: &'static str| move |error: RedisError| self.refused(what, &error);
        if preparation == Preparation::DropAndCreate {
            drop_table(&mut link, &keys).await.map_err(doing("remove the table's rows"))?;
        }
        let exists = cmd("EXISTS").arg(keys.catalogue.as_ref().unwrap_or(&keys.index)).take();
        let exists = number(&link.send(&exists).await.map_err(doing("look for the table"))?) > 0;
        let rows = link.send(cmd("ZCARD").arg(&keys.index)).await.map_err(doing("count the table's rows"))?;
        if preparation == Preparation::CreateIfEmpty && number(&rows) > 0 {
            return Err(TargetError::NotEmpty { table: table.name.clone(), address: self.words() });
        }
        if preparation == Preparation::UseExisting {
            if !exists {
                return Err(TargetError::Unusable(format!(
                    "there is no table {} at {} ({} is missing); run the load phase first (--phase load), \
                     or name another table (-p table=…) or layout (-p redis.layout=…)",
                    table.name,
                    self.words(),
                    keys.catalogue.as_ref().unwrap_or(&keys.index)
                )));
            }
            self.check_fields(&mut link, table, &keys).await?;
        } else if let Some(catalogue) = &keys.catalogue {
            let mut names = cmd("RPUSH");
            names.arg(catalogue).arg(KEY).arg(&table.fields);
            let made = link.send_all(vec![cmd("DEL").arg(catalogue).take(), names]).await;
            made.map_err(doing("create the table"))?;
        }
        let mut info = ServerInfo { address: self.words(), ..ServerInfo::default() };
        self.who(&mut link, &mut info).await.map_err(doing("say who it is"))?;
        info.statements = statements(self.ycsb, self.cluster);
        Ok(info)
    }

    async fn connect(&self, table: &TableSpec, _session: u32) -> Result<RedisSession, TargetError> {
        table.check_names(false)?;
        let mut link = self.link().await?;
        let mut scripts = Vec::new();
        for script in SCRIPTS {
            let loaded = link.send(cmd("SCRIPT").arg("LOAD").arg(script)).await;
            scripts.push(text(&loaded.map_err(|error| self.refused("load a script", &error))?));
        }
        let keys = Keys::new(table, self.ycsb);
        Ok(RedisSession { link, keys, fields: table.fields.clone(), scripts, dead: false })
    }
}

/// What is sent for each kind of operation, for the record.
fn statements(ycsb: bool, cluster: bool) -> BTreeMap<String, String> {
    let row = if ycsb { "KEY" } else { "TABLE:KEY" };
    let also = if cluster { ", then ZADD to the index" } else { " and ZADD to the index" };
    let scan = if ycsb { "ZRANGEBYSCORE by Java's hash code" } else { "ZRANGEBYLEX" };
    [
        ("READ", format!("HMGET {row} fields")),
        ("UPDATE", format!("a script: if {row} exists, HSET it")),
        ("INSERT", format!("a script: unless {row} exists, HSET it{also}")),
        ("SCAN", format!("{scan} of the index, then HMGET of each row")),
        ("DELETE", format!("DEL {row}, ZREM from the index")),
    ]
    .map(|(kind, text)| (kind.to_owned(), text))
    .into()
}

/// Removes every row that the index knows, and the index.
async fn drop_table(link: &mut Link, keys: &Keys) -> Result<(), RedisError> {
    loop {
        let members = link.send(cmd("ZRANGE").arg(&keys.index).arg(0).arg(999)).await?;
        let members: Vec<String> = array(&members).iter().map(text).collect();
        if members.is_empty() {
            break;
        }
        let mut commands: Vec<Cmd> =
            members.iter().map(|member| cmd("DEL").arg(keys.row(member)).take()).collect();
        link.send_all(std::mem::take(&mut commands)).await?;
        link.send(cmd("ZREM").arg(&keys.index).arg(&members)).await?;
    }
    match &keys.catalogue {
        Some(catalogue) => link.send(cmd("DEL").arg(catalogue)).await.map(drop),
        None => Ok(()),
    }
}

impl Redis {
    fn understand(target: &Target, env: impl Fn(&str) -> Option<String>) -> Result<Redis, TargetError> {
        let property = |name: &str| target.property(name).map(str::to_owned);
        let url = match target.url.as_deref().or(target.property("db.url")) {
            Some(text) => url::parse(text, &["redis", "rediss", "valkey", "valkeys"]).map_err(wrong_url)?,
            None => Url { scheme: "redis", ..Url::default() },
        };
        let mut database = Some(url.path.clone()).filter(|path| !path.is_empty()).or_else(|| property("redis.db"));
        let of_url = |name: &str| {
            let found = url.options.iter().position(|(option, _)| option == name)?;
            Some(url.options[found].1.clone())
        };
        let (user, password) = (of_url("user"), of_url("password"));
        database = of_url("db").or(database);
        if url.options.iter().any(|(name, _)| !["user", "password", "db"].contains(&name.as_str())) {
            return Err(wrong_url("it has an option that is unknown here"));
        }
        let truth = |name: &str| match target.property(name) {
            None | Some("false" | "0" | "no") => Ok(false),
            Some("true" | "1" | "yes") => Ok(true),
            Some(other) => Err(TargetError::Request(format!("{name}={other:?} is neither true nor false"))),
        };
        let port = number_of(target, "redis.port", 6379)?;
        let mut nodes = url.hosts;
        if nodes.is_empty() {
            let text = property("redis.addr").or_else(|| property("redis.host"));
            for host in text.as_deref().unwrap_or("127.0.0.1").split(',') {
                let wrong = || TargetError::Request(format!("{:?} is not host or host:port", host.trim()));
                nodes.push(url::host_and_port(host.trim()).ok_or_else(wrong)?);
            }
        }
        let nodes = nodes.into_iter().map(|(host, own)| (host, own.unwrap_or(port))).collect();
        let database = database.unwrap_or_else(|| "0".to_owned());
        let database = database.parse().map_err(|_| {
            TargetError::Request("the database of a Redis URL, or redis.db, is a number".to_owned())
        })?;
        let ycsb = match target.property("redis.layout") {
            None | Some("table") => false,
            Some("ycsb") => true,
            Some(other) => {
                return Err(TargetError::Request(format!("redis.layout={other:?} is neither table nor ycsb")));
            }
        };
        let encrypted = url.scheme.ends_with('s') && url.scheme != "redis" || truth("redis.tls")?;
        let mode = target.property("redis.mode");
        if let Some(other) = mode.filter(|mode| !["single", "cluster"].contains(mode)) {
            return Err(TargetError::Request(format!("redis.mode={other:?} is neither single nor cluster")));
        }
        Ok(Redis {
            nodes,
            user: url.user.or(user).or_else(|| property("redis.user")).or_else(|| property("redis.username")),
            password: url
                .password
                .or(password)
                .or_else(|| property("redis.password"))
                .or_else(|| property("db.passwd"))
                .or_else(|| env("REDISCLI_AUTH")),
            database,
            cluster: truth("redis.cluster")? || mode == Some("cluster"),
            ycsb,
            tls: if encrypted { Some(Tls::understand(target)?) } else { None },
            connect_timeout: Duration::from_secs(number_of(target, "redis.connect-timeout", 10)?),
        })
    }

    /// All nodes, as a person would say them.
    fn words(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|(host, port)| url::words(host, *port)).collect();
        format!("{}/{}", nodes.join(","), self.database)
    }

    fn client_info(&self, host: &str, port: u16) -> Result<ConnectionInfo, RedisError> {
        let address = match &self.tls {
            _ if host.starts_with('/') => ConnectionAddr::Unix(host.into()),
            None => ConnectionAddr::Tcp(host.to_owned(), port),
            Some(_) => {
                ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure: false, tls_params: None }
            }
        };
        let mut settings = RedisConnectionInfo::default().set_db(self.database);
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        Ok(address.into_connection_info()?.set_redis_settings(settings))
    }

    /// A connection to the first node that lets us in, or to the cluster they belong to.
    async fn link(&self) -> Result<Link, TargetError> {
        if self.cluster {
            let words = self.words();
            return self.within(&words, self.cluster_link()).await;
        }
        let mut refusals = Vec::new();
        for (host, port) in &self.nodes {
            let words = url::words(host, *port);
            match self.within(&words, self.single_link(host, *port)).await {
                Ok(link) => return Ok(link),
                Err(refusal) => refusals.push(refusal.to_string()),
            }
        }
        Err(TargetError::Unusable(refusals.join("\n")))
    }

    async fn within(
        &self,
        node: &str,
        connecting: impl Future<Output = Result<Link, RedisError>>,
    ) -> Result<Link, TargetError> {
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected.map_err(|error| self.unusable(node, &error)),
            Err(_) => Err(TargetError::Unusable(format!(
                "{node} did not let us in within {} s; is it a Redis server, is it well, and does a firewall \
                 let us through?",
                self.connect_timeout.as_secs()
            ))),
        }
    }

    async fn single_link(&self, host: &str, port: u16) -> Result<Link, RedisError> {
        let info = self.client_info(host, port)?;
        let client = match &self.tls {
            Some(tls) => Client::build_with_tls(info, tls.certificates())?,
            None => Client::open(info)?,
        };
        // The client's own limits are half a second for an answer: how long one may take is decided
        // where operations are timed.
        let settings = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let mut connection = client.get_multiplexed_async_connection_with_config(&settings).await?;
        // Where a password is needed and none was given, this is what is refused.
        cmd("PING").query_async::<Value>(&mut connection).await?;
        Ok(Link::Single(connection))
    }

    async fn cluster_link(&self) -> Result<Link, RedisError> {
        let nodes: Result<Vec<_>, _> =
            self.nodes.iter().map(|(host, port)| self.client_info(host, *port)).collect();
        const NEVER: Duration = Duration::from_secs(24 * 3600);
        let mut builder = ClusterClientBuilder::new(nodes?)
            // Retries are the replay's business, and counted there.
            .retries(0)
            .connection_timeout(self.connect_timeout)
            .response_timeout(NEVER);
        if let Some(tls) = &self.tls {
            builder = builder.certs(tls.certificates());
        }
        let connection = builder.build()?.get_async_connection().await?;
        Ok(Link::Cluster(Box::new(connection)))
    }

    /// Checks that the table was made with these fields.
    async fn check_fields(
        &self,
        link: &mut Link,
        table: &TableSpec,
        keys: &Keys,
    ) -> Result<(), TargetError> {
        let doing = |error: RedisError| self.refused("tell the table's fields", &error);
        let existing: Vec<String> = match &keys.catalogue {
            Some(catalogue) => {
                let names = link.send(cmd("LRANGE").arg(catalogue).arg(1).arg(-1)).await.map_err(doing)?;
                array(&names).iter().map(text).collect()
            }
            // YCSB writes no catalogue: one of its rows tells.
            None => {
                let first = link.send(cmd("ZRANGE").arg(&keys.index).arg(0).arg(0)).await.map_err(doing)?;
                let Some(first) = array(&first).first().map(text) else { return Ok(()) };
                let names = link.send(cmd("HKEYS").arg(keys.row(&first))).await.map_err(doing)?;
                array(&names).iter().map(text).collect()
            }
        };
        match table.fields.iter().find(|field| !existing.contains(field)) {
            Some(field) => Err(TargetError::Unusable(format!(
                "the rows of table {} at {} have no field {field} (they have {}); \
                 load it again with --drop, or name another table (-p table=…)",
                table.name,
                self.words(),
                existing.join(", ")
            ))),
            None => Ok(()),
        }
    }

    /// Version and settings. A server that does not tell its settings (hosted ones often refuse
    /// CONFIG) is no worse for it.
    async fn who(&self, link: &mut Link, info: &mut ServerInfo) -> Result<(), RedisError> {
        let answer = match link {
            Link::Single(_) => link.send(cmd("INFO").arg("server")).await?,
            // Of a cluster, the node with the index answers.
            Link::Cluster(connection) => {
                let key = redis::cluster_routing::Route::new(0, redis::cluster_routing::SlotAddr::Master);
                let to = redis::cluster_routing::SingleNodeRoutingInfo::SpecificNode(key);
                let to = redis::cluster_routing::RoutingInfo::SingleNode(to);
                connection.route_command(cmd("INFO").arg("server").take(), to).await?
            }
        };
        let answer = text(&answer);
        let line = |name: &str| {
            let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim).filter(|value| !value.is_empty())
        };
        info.version = match line("valkey_version") {
            Some(version) => format!("valkey {version}"),
            None => format!("redis {}", line("redis_version").unwrap_or("of an unknown version")),
        };
        let layout = if self.ycsb { "ycsb" } else { "table" };
        let order = if self.ycsb { "of Java's hash codes, as YCSB's" } else { "of the bytes of the keys" };
        info.settings.insert("layout".to_owned(), layout.to_owned());
        info.settings.insert("scan_order".to_owned(), order.to_owned());
        info.settings.insert("mode".to_owned(), line("redis_mode").unwrap_or("unknown").to_owned());
        if let Link::Single(_) = link {
            for name in ["appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy", "io-threads"] {
                if let Ok(answer) = link.send(cmd("CONFIG").arg("GET").arg(name)).await
                    && let Some(value) = array(&answer).get(1).map(text)
                {
                    let value = if value.is_empty() { "none".to_owned() } else { value };
                    info.settings.insert(name.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// Why there is no connection, and what to try.
    fn unusable(&self, node: &str, error: &RedisError) -> TargetError {
        let words = error.to_string();
        let small = words.to_ascii_lowercase();
        let code = error.code().unwrap_or_default();
        let user = self.user.as_deref().unwrap_or("default");
        if let Some(complaint) = self.certificate_complaint(node, error) {
            return TargetError::Unusable(format!("cannot connect to {node}: {complaint}"));
        }
        TargetError::Unusable(if code == "NOAUTH" || small.contains("noauth") {
            format!("{node} asks for the password of user {user}; give -p redis.password=… or REDISCLI_AUTH")
        } else if error.kind() == ErrorKind::AuthenticationFailed || code == "WRONGPASS" {
            format!("{node} refused user {user}: {words}; check -p redis.user=… and -p redis.password=…")
        } else if error.is_connection_refusal() || small.contains("refused") {
            format!("nobody listens at {node}: {words}; is the server running at this host and port?")
        } else if small.contains("lookup") {
            format!("the host of {node} is unknown: {words}; check its name")
        } else if small.contains("certificate") || small.contains("tls") || small.contains("alert") {
            format!("the encrypted connection to {node} failed: {words}; check redis.tls-ca, redis.tls-cert and redis.tls-key")
        } else if small.contains("cluster support disabled") {
            format!("{node} is not a node of a cluster: {words}; leave redis.cluster out")
        } else {
            format!("cannot connect to {node}: {words}")
        })
    }

    /// What is wrong with a certificate, if that is why there is no connection.
    fn certificate_complaint(&self, node: &str, error: &RedisError) -> Option<String> {
        let (error, tls) = (certificates::of_words(&error.to_string())?, self.tls.as_ref()?);
        let words = certificates::Words {
            roots: tls.authority.as_ref().map_or("what this machine trusts", |_| "the file that was given"),
            roots_setting: "redis.tls-ca",
            identity_settings: ["redis.tls-cert", "redis.tls-key"],
            has_identity: tls.identity.is_some(),
            any_name: "",
        };
        certificates::complaint(&error, &words, node)
    }

    /// The connection is there, but what we asked for was refused.
    fn refused(&self, doing: &str, error: &RedisError) -> TargetError {
        if error.code() == Some("MOVED") {
            return TargetError::Unusable(format!(
                "{} is a node of a cluster: {error}; add -p redis.cluster=true",
                self.words()
            ));
        }
        TargetError::Unusable(format!("{} refused to {doing}: {error}", self.words()))
    }
}

fn wrong_url(what: &str) -> TargetError {
    TargetError::Request(format!(
        "--url (or db.url) is not a URL of a Redis server: {what}. Write redis://user:password@host:port/0, or \
         rediss:// for an encrypted connection. Percent-encode the characters @ : / ? # % of a password, or give \
         it as -p redis.password=… or REDISCLI_AUTH (it is not shown here)"
    ))
}

fn number_of<T: std::str::FromStr>(target: &Target, name: &str, default: T) -> Result<T, TargetError> {
    match target.property(name) {
        None => Ok(default),
        Some(text) => {
            text.parse().map_err(|_| TargetError::Request(format!("{name}={text:?} is not a number that it can be")))
        }
    }
}

impl Tls {
    fn understand(target: &Target) -> Result<Tls, TargetError> {
        let file = |name: &str| match target.property(name) {
            None => Ok(None),
            Some(path) => std::fs::read(path)
                .map(Some)
                .map_err(|cause| TargetError::Request(format!("cannot read {name}={path}: {cause}"))),
        };
        let identity = match (file("redis.tls-cert")?, file("redis.tls-key")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let both = "redis.tls-cert and redis.tls-key belong together; give both or none";
                return Err(TargetError::Request(both.to_owned()));
            }
        };
        Ok(Tls { authority: file("redis.tls-ca")?, identity })
    }

    fn certificates(&self) -> TlsCertificates {
        let identity = self.identity.clone();
        let client_tls =
            identity.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        TlsCertificates { client_tls, root_cert: self.authority.clone() }
    }
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        _ => 0,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

fn array(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        _ => &[],
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

/// Code of a connection that broke; Redis itself has none.
const LOST_CONNECTION: &str = "LOST";

/// What an error means here, by the word that begins it.
fn classify(code: &str) -> (Status, Recovery) {
    match code {
        // Starting up, its cluster is not complete, a script runs too long, slots on their way: nothing
        // was done. Memory, disk or replicas are missing: likewise.
        "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "BUSY" | "TRYAGAIN" | "OOM" | "MISCONF" | "NOREPLICAS" => {
            (Status::Unavailable, Recovery::Retry)
        }
        // Another server has the key or may write, and a new connection finds it.
        "READONLY" | "MOVED" | "ASK" | "UNBLOCKED" => (Status::Unavailable, Recovery::Reconnect),
        "NOPERM" | "NOAUTH" | "WRONGTYPE" | "CROSSSLOT" => (Status::Rejected, Recovery::Fatal),
        _ => (Status::Error, Recovery::Fatal),
    }
}

impl RedisSession {
    /// A failure of a request; `wrote` if it was a write that may have reached the server.
    #[cold]
    fn failure(&mut self, error: &RedisError, wrote: bool) -> Outcome {
        let message = error.to_string();
        if let Some(code) = error.code() {
            let (status, recovery) = classify(code);
            return Outcome::failed(status, recovery, code, message);
        }
        let sent = !self.dead && error.kind() != ErrorKind::ClusterConnectionNotFound;
        self.dead = true;
        let recovery = if wrote && sent { Recovery::Ambiguous } else { Recovery::Reconnect };
        let status = match error.kind() {
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => Status::Unavailable,
            // An answer that cannot be read: nobody knows where the next one begins.
            _ => Status::Error,
        };
        let code = if status == Status::Unavailable { LOST_CONNECTION } else { "" };
        Outcome::failed(status, recovery, code, message)
    }

    async fn request(&mut self, command: &Cmd, writes: bool) -> Result<Value, Outcome> {
        match self.link.send(command).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failure(&error, writes)),
        }
    }

    /// Executes a script; one that the server has forgotten (it was restarted) is loaded again.
    async fn run(
        &mut self,
        script: usize,
        keys: &[&str],
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Value, Outcome> {
        loop {
            let mut command = cmd("EVALSHA");
            command.arg(&self.scripts[script]).arg(keys.len()).arg(keys);
            arguments(&mut command);
            match self.link.send(&command).await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    // Nothing was done. The second time it is there.
                    self.request(cmd("SCRIPT").arg("LOAD").arg(SCRIPTS[script]), false).await?;
                }
                Err(error) => return Err(self.failure(&error, true)),
            }
        }
    }

    /// The name of a field of the table.
    fn name(&self, field: &Field<'_>) -> Result<&str, Outcome> {
        let name = self.fields.get(field.number as usize).map(String::as_str);
        name.ok_or_else(|| {
            Outcome::rejected(format!("field number {} is beyond the {} fields", field.number, self.fields.len()))
        })
    }

    fn check(&self, fields: &[Field<'_>]) -> Result<(), Outcome> {
        fields.iter().try_for_each(|field| self.name(field).map(drop))
    }

    /// The command that reads a row: these fields, or all.
    fn fetch(&self, key: &str, fields: &[Field<'_>]) -> Result<Cmd, Outcome> {
        let mut command = cmd("HMGET");
        command.arg(self.keys.row(key));
        if fields.is_empty() {
            command.arg(&self.fields);
        } else {
            for field in fields {
                command.arg(self.name(field)?);
            }
        }
        Ok(command)
    }

    /// HMGET answers nothing for every field of a row that is missing, and of one that has none of
    /// them: that is asked only then.
    async fn is_missing(&mut self, key: &str, values: &[Value]) -> Result<bool, Outcome> {
        if values.iter().any(|value| bytes(value).is_some()) {
            return Ok(false);
        }
        let command = cmd("EXISTS").arg(self.keys.row(key)).take();
        Ok(number(&self.request(&command, false).await?) == 0)
    }

    async fn read_row<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Result<u32, Outcome> {
        let command = self.fetch(op.key, op.fields)?;
        let answer = self.request(&command, false).await?;
        let values = array(&answer);
        if self.is_missing(op.key, values).await? {
            return Ok(0);
        }
        hand_over(op.key, values, op.fields, rows);
        Ok(1)
    }

    async fn scan_rows<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Result<u32, Outcome> {
        self.check(op.fields)?;
        let mut index = if self.keys.catalogue.is_some() { cmd("ZRANGEBYLEX") } else { cmd("ZRANGEBYSCORE") };
        index.arg(&self.keys.index);
        match self.keys.catalogue {
            Some(_) => index.arg(format!("[{}", op.key)).arg("+"),
            None => index.arg(self.keys.score(op.key)).arg("+inf"),
        };
        index.arg("LIMIT").arg(0).arg(op.scan_len);
        let found = self.request(&index, false).await?;
        let found = array(&found);
        let mut keys = Vec::with_capacity(found.len());
        let mut commands = Vec::with_capacity(found.len());
        for member in found {
            let key = bytes(member).and_then(|key| str::from_utf8(key).ok());
            let Some(key) = key else {
                let message = "a key in the index is not UTF-8";
                return Err(Outcome::failed(Status::Error, Recovery::Fatal, "", message));
            };
            commands.push(self.fetch(key, op.fields)?);
            keys.push(key);
        }
        if keys.is_empty() {
            return Ok(0);
        }
        let answers = match self.link.send_all(commands).await {
            Ok(answers) => answers,
            Err(error) => return Err(self.failure(&error, false)),
        };
        let mut count = 0;
        for (key, answer) in keys.into_iter().zip(&answers) {
            // Deleted since the index was read.
            if self.is_missing(key, array(answer)).await? {
                continue;
            }
            hand_over(key, array(answer), op.fields, rows);
            count += 1;
        }
        Ok(count)
    }

    async fn insert_row(&mut self, op: &Op<'_>) -> Result<bool, Outcome> {
        self.check(op.fields)?;
        if op.fields.is_empty() {
            return Err(Outcome::rejected("a hash without fields does not exist"));
        }
        let (row, index) = (self.keys.row(op.key), self.keys.index.clone());
        let score = self.keys.score(op.key);
        let cluster = self.link.is_cluster();
        let keys = [row.as_str(), index.as_str()];
        let fields = self.pairs(op.fields);
        let inserted = self
            .run(INSERT, if cluster { &keys[..1] } else { &keys }, |command| {
                command.arg(score).arg(op.key);
                add(command, &fields);
            })
            .await?;
        if number(&inserted) == 0 {
            return Ok(false);
        }
        if cluster {
            self.request(cmd("ZADD").arg(&index).arg(score).arg(op.key), true).await?;
        }
        Ok(true)
    }

    /// Names and values of fields that [`RedisSession::check`] has seen.
    fn pairs<'a>(&self, fields: &[Field<'a>]) -> Vec<(String, &'a [u8])> {
        fields.iter().map(|field| (self.fields[field.number as usize].clone(), field.value)).collect()
    }

    async fn update_row(&mut self, op: &Op<'_>) -> Result<bool, Outcome> {
        self.check(op.fields)?;
        if op.fields.is_empty() {
            return Err(Outcome::rejected("an update without fields changes nothing"));
        }
        let row = self.keys.row(op.key);
        let fields = self.pairs(op.fields);
        let updated = self.run(UPDATE, &[&row], |command| add(command, &fields)).await?;
        Ok(number(&updated) == 1)
    }

    async fn delete_row(&mut self, op: &Op<'_>) -> Result<bool, Outcome> {
        let mut row = cmd("DEL");
        row.arg(self.keys.row(op.key));
        let mut index = cmd("ZREM");
        index.arg(&self.keys.index).arg(op.key);
        let answer = match &mut self.link {
            Link::Single(connection) => {
                let mut both = Pipeline::with_capacity(2);
                both.atomic().add_command(row).add_command(index);
                both.query_async::<Vec<i64>>(connection).await.map(|answers| answers[0])
            }
            link @ Link::Cluster(_) => {
                async {
                    let deleted = number(&link.send(&row).await?);
                    link.send(&index).await?;
                    Ok(deleted)
                }
                .await
            }
        };
        match answer {
            Ok(deleted) => Ok(deleted == 1),
            Err(error) => Err(self.failure(&error, true)),
        }
    }

    async fn modify_row<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Result<bool, Outcome> {
        self.check(op.fields)?;
        if op.fields.is_empty() {
            return Err(Outcome::rejected("an update without fields changes nothing"));
        }
        let row = self.keys.row(op.key);
        let (names, fields) = (self.fields.clone(), self.pairs(op.fields));
        let before = self
            .run(MODIFY, &[&row], |command| {
                command.arg(names.len()).arg(&names);
                add(command, &fields);
            })
            .await?;
        match before {
            Value::Array(values) => {
                hand_over(op.key, &values, &[], rows);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

fn add(command: &mut Cmd, fields: &[(String, &[u8])]) {
    for (name, value) in fields {
        command.arg(name).arg(*value);
    }
}

/// Hands a row to the caller: the fields asked for, or all.
fn hand_over<R: Rows>(key: &str, values: &[Value], asked: &[Field<'_>], rows: &mut R) {
    rows.row(key);
    for (position, value) in values.iter().enumerate() {
        let number = asked.get(position).map_or(position as u32, |field| field.number);
        rows.field(number, bytes(value));
    }
}

fn outcome(done: Result<bool, Outcome>, otherwise: Status) -> Outcome {
    match done {
        Ok(true) => Outcome::ok(1),
        Ok(false) => Outcome::bare(otherwise),
        Err(failure) => failure,
    }
}

impl Session for RedisSession {
    async fn read<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        outcome(self.read_row(op, rows).await.map(|rows| rows == 1), Status::NotFound)
    }

    async fn update(&mut self, op: &Op<'_>) -> Outcome {
        outcome(self.update_row(op).await, Status::NotFound)
    }

    async fn insert(&mut self, op: &Op<'_>) -> Outcome {
        outcome(self.insert_row(op).await, Status::Duplicate)
    }

    async fn scan<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        self.scan_rows(op, rows).await.map_or_else(|failure| failure, Outcome::ok)
    }

    async fn delete(&mut self, op: &Op<'_>) -> Outcome {
        outcome(self.delete_row(op).await, Status::NotFound)
    }

    /// One script reads and writes: nothing comes between.
    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        outcome(self.modify_row(op, rows).await, Status::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(url: Option<&str>, properties: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Redis, TargetError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let target = Target {
            db: "redis".to_owned(),
            url: url.map(str::to_owned),
            properties: properties.iter().map(owned).collect(),
            ..Target::default()
        };
        let find = |name: &str| env.iter().find(|(known, _)| *known == name).map(|found| found.1.to_owned());
        Redis::understand(&target, find)
    }

    fn summary(url: Option<&str>, properties: &[(&str, &str)], env: &[(&str, &str)]) -> String {
        let Ok(redis) = redis(url, properties, env) else { panic!("{url:?} {properties:?}") };
        let (user, password) = (redis.user.as_deref(), redis.password.as_deref());
        let more = [(redis.cluster, " cluster"), (redis.ycsb, " ycsb"), (redis.tls.is_some(), " tls")];
        let more: String = more.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        format!("{}:{}@{}{more}", user.unwrap_or_default(), password.unwrap_or_default(), redis.words())
    }

    #[test]
    fn urls_and_the_properties_of_ycsb_and_go_ycsb_are_understood() {
        assert_eq!(summary(None, &[], &[]), ":@127.0.0.1:6379/0");
        assert_eq!(summary(None, &[], &[("REDISCLI_AUTH", "e")]), ":e@127.0.0.1:6379/0");
        let ycsb = [("redis.host", "h"), ("redis.port", "7"), ("redis.password", "a@b"), ("redis.cluster", "true")];
        assert_eq!(summary(None, &ycsb, &[]), ":a@b@h:7/0 cluster");
        let go = [("redis.addr", "h1:1,h2:2"), ("redis.mode", "cluster"), ("redis.db", "0")];
        assert_eq!(summary(None, &go, &[]), ":@h1:1,h2:2/0 cluster");
        assert_eq!(summary(Some("redis://u:p%40@h:8/3"), &ycsb[..2], &[]), "u:p@@h:8/3");
        assert_eq!(summary(Some("rediss://:p@h"), &[("redis.layout", "ycsb")], &[]), ":p@h:6379/0 ycsb tls");
        assert_eq!(summary(Some("redis://h"), &[("redis.tls", "true")], &[]), ":@h:6379/0 tls");
        for wrong in [
            ("redis.cluster", "maybe"),
            ("redis.layout", "none"),
            ("redis.port", "x"),
            ("redis.mode", "sentinel"),
            ("redis.db", "one"),
        ] {
            assert!(matches!(redis(None, &[wrong], &[]), Err(TargetError::Request(_))), "{wrong:?}");
        }
        for url in ["redis://u:s3@cr3t@h", "redis://u:s3cr3t@h:p", "http://s3cr3t", "redis://h?s3cr3t=1"] {
            let Err(error) = redis(Some(url), &[], &[]) else { panic!("{url} was understood") };
            assert!(!error.to_string().contains("cr3t"), "{error}");
        }
    }

    #[test]
    fn the_score_of_ycsbs_index_is_javas_hash_code() {
        // Known values of Java's; the last is the least there is.
        assert_eq!(java_hash("hello"), 99_162_322);
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
    }
}
