//! Riak KV, by its protocol-buffers interface. Properties, bucket and the packing of a record are those
//! of YCSB's binding, so that each reads what the other has written; where that binding keeps less
//! than an operation promises, the defaults here keep it, and an option does as YCSB does:
//! * its update replaces the record by the fields written; here the others stay (`riak.update`);
//! * its insert overwrites; here an existing record is DUPLICATE (`riak.insert`);
//! * its scan is in the order of the number in the key; here in byte order (`riak.scan`).
//!
//! Two modes, as there. *Strong*: buckets of a `consistent` type, where a write names the version it
//! replaces and fails if that is not the last. *Eventual*: a write wins or becomes a sibling; of
//! siblings the youngest is read, and the next update resolves them. There, Riak checks "was it
//! modified, does it exist" and writes in two steps, so that two clients at once may both pass.

mod record;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use self::record::{Record, append, key_number};
use self::wire::{Connection, Fields, Message, Trouble, code};
use super::certificates;
use super::sql::number_of;
use super::{Driver, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use crate::op::{Field, Op, Outcome, Recovery, Status};

const DEFAULT_PORT: u16 = 8087;

/// What an update does with the fields that it does not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Update {
    Merge,
    Replace,
}

/// What a scan goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    /// The built-in index of keys.
    Key,
    /// The secondary index of YCSB's binding.
    Number,
}

/// The nodes and how to use them.
pub struct Riak {
    settings: Arc<Settings>,
}

struct Settings {
    hosts: Vec<(String, u16)>,
    bucket_type: String,
    strong: bool,
    /// The type of the bucket that scans go by, in strong mode.
    scans_type: String,
    r: u64,
    w: u64,
    /// Reads of a record that is not found, at most, in eventual mode.
    reads: u32,
    wait: Duration,
    limit: Duration,
    update: Update,
    /// An insert asks for a record that is not there.
    checked_insert: bool,
    scan: Scan,
    user: Option<String>,
    password: String,
    tls: Option<Arc<ClientConfig>>,
    /// The authorities that are trusted, in words.
    roots: String,
    warnings: Vec<String>,
}

/// A connection to one of the nodes.
pub struct RiakSession {
    connection: Connection,
    settings: Arc<Settings>,
    table: TableSpec,
    /// Names of the fields as YCSB writes them.
    names: Vec<String>,
    request: Message,
    content: Message,
    pair: Message,
    /// The record that was read last, and its version.
    record: Vec<u8>,
    vclock: Vec<u8>,
    /// The record to write.
    fresh: Vec<u8>,
    /// The keys of a page of an index, one after the other, and where each ends.
    keys: Vec<u8>,
    ends: Vec<usize>,
    continuation: Vec<u8>,
}

impl Driver for Riak {
    const KINDS: &'static [Kind] = &[Kind {
        names: &["riak"],
        about: "Riak KV, by protocol buffers; --url riak://host:8087, or -p riak.hosts=a,b,c",
        default_address: "127.0.0.1:8087",
        example: "ycsb-trace replay --db riak workloada -p riak.hosts=127.0.0.1 -p riak.strong_consistency=false --threads 32",
        defaults: &[
            ("isolation", "single records; strong consistency (riak.strong_consistency=true) as in YCSB's binding"),
            ("durability", "the write quorum: riak.w_val=2 replicas have it"),
            ("an update", "reads the record, changes the fields named and writes it back with its version, again if it has changed; a missing record is NOT_FOUND (riak.update=replace: as YCSB, the fields written are all that is left)"),
        ],
        tested_against: "a stand-in in the tests that speaks the same frames, not Riak itself",
        options: &[
            ("riak.hosts", "127.0.0.1", "nodes, separated by commas, with or without a port; connections go to them in turn"),
            ("riak.port", "8087", "their port"),
            ("riak.bucket_type", "ycsb", "the bucket type, which must exist; the bucket is the table"),
            ("riak.strong_consistency", "true", "is the bucket type a consistent one?"),
            ("riak.strong_consistent_scans_bucket_type", "", "in strong mode, the type of a second bucket that scans go by; without it, there are no scans"),
            ("riak.r_val", "2", "read quorum (eventual mode)"),
            ("riak.w_val", "2", "write quorum (eventual mode)"),
            ("riak.read_retry_count", "5", "reads of a record that is not found, at most (eventual mode)"),
            ("riak.wait_time_before_retry", "200", "milliseconds between them"),
            ("riak.transaction_time_limit", "10", "seconds after which a request is given up"),
            ("riak.update", "merge", "merge: other fields stay; replace: they are lost, as with YCSB"),
            ("riak.insert", "check", "check: an existing record is DUPLICATE; put: it is replaced, as with YCSB (eventual mode)"),
            ("riak.scan", "key", "key: in byte order, by the built-in index $key; 2i: by the number in the key, as with YCSB"),
            ("riak.user", "", "user; asks for TLS"),
            ("riak.password", "", "password"),
            ("riak.tls", "with riak.user", "true or false"),
            ("riak.cacert", "", "PEM file of the authorities to trust; without it, the system's"),
        ],
    }];
    const BLOCKING: bool = false;
    type Session = RiakSession;

    fn open(target: &Target) -> Result<Riak, TargetError> {
        Ok(Riak { settings: Arc::new(understand(target)?) })
    }

    async fn prepare(&self, table: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        table.check_names(false)?;
        let settings = &*self.settings;
        let mut session = self.session(table, 0).await?;
        let mut info = session.server_info().await.map_err(|trouble| self.refused("say what it is", &trouble))?;
        session.check_type(&settings.bucket_type, settings.strong, &mut info).await?;
        if !settings.scans_type.is_empty() && settings.strong {
            session.check_type(&settings.scans_type, false, &mut ServerInfo::default()).await?;
        }
        let sample = match preparation {
            Preparation::DropAndCreate => {
                session.remove_all().await.map_err(|trouble| self.refused("remove the records", &trouble))?;
                Vec::new()
            }
            _ => session.sample().await.map_err(|trouble| self.refused("look into the bucket", &trouble))?,
        };
        let (name, address) = (&table.name, settings.address());
        if preparation == Preparation::CreateIfEmpty && !sample.is_empty() {
            return Err(TargetError::NotEmpty { table: name.clone(), address });
        }
        if preparation == Preparation::UseExisting {
            if sample.is_empty() {
                return Err(TargetError::Unusable(format!(
                    "there is no record in the bucket {name} of type {} at {address}; run the load phase first \
                     (--phase load), or name another table (-p table=…) or type (-p riak.bucket_type=…)",
                    settings.bucket_type
                )));
            }
            let holds = |field: &String| sample.iter().any(|record| Record(record).value(field).is_some());
            if let Some(missing) = table.fields.iter().find(|field| !holds(field)) {
                return Err(TargetError::Unusable(format!(
                    "no record of {name} at {address} that was looked at has a field {missing}; \
                     load it again with --drop, or name another table (-p table=…)"
                )));
            }
        }
        info.warnings.clone_from(&settings.warnings);
        Ok(info)
    }

    async fn connect(&self, table: &TableSpec, session: u32) -> Result<RiakSession, TargetError> {
        table.check_names(false)?;
        self.session(table, session).await
    }
}

/// Time to reach a node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

fn understand(target: &Target) -> Result<Settings, TargetError> {
    let number = |name: &str, default: u64| match target.property(name) {
        None => Ok(default),
        Some(text) => text
            .parse::<u64>()
            .map_err(|_| TargetError::Request(format!("{name}={text:?} is not a whole number"))),
    };
    let truth = |name: &str, default: bool| match target.property(name).map(str::to_ascii_lowercase).as_deref() {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(TargetError::Request(format!("{name}={other:?} is neither true nor false"))),
    };
    let choice = |name: &str, choices: [&str; 2]| {
        let text = target.property(name).unwrap_or(choices[0]);
        choices.iter().position(|choice| choice.eq_ignore_ascii_case(text)).ok_or_else(|| {
            TargetError::Request(format!("{name}={text:?} is not known; use {} or {}", choices[0], choices[1]))
        })
    };
    let port = number("riak.port", u64::from(DEFAULT_PORT))?;
    let hosts = match &target.url {
        Some(url) => url.strip_prefix("riak://").unwrap_or(url).trim_end_matches('/'),
        None => target.property("riak.hosts").unwrap_or("127.0.0.1"),
    };
    let host = |text: &str| -> Result<(String, u16), TargetError> {
        let wrong = || TargetError::Request(format!("{text:?} is not a host with a port (riak.hosts, --url)"));
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
                (name, port.parse().map_err(|_| wrong())?)
            }
            _ => (text, u16::try_from(port).map_err(|_| wrong())?),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if name.is_empty() || name.contains(['/', '@', ' ']) { Err(wrong()) } else { Ok((name.to_owned(), port)) }
    };
    let strong = truth("riak.strong_consistency", true)?;
    let scans_type = target.property("riak.strong_consistent_scans_bucket_type").unwrap_or("").to_owned();
    let user = target.property("riak.user").map(str::to_owned);
    let tls = match truth("riak.tls", user.is_some())? {
        true => Some(tls(target.property("riak.cacert"))?),
        false if user.is_some() => {
            return Err(TargetError::Request(
                "Riak takes a password over TLS only: leave out riak.tls=false, or riak.user".to_owned(),
            ));
        }
        false => None,
    };
    let limit = number("riak.transaction_time_limit", 10)?;
    if limit == 0 {
        return Err(TargetError::Request("riak.transaction_time_limit=0: nothing could be answered in time".to_owned()));
    }
    let mut warnings = Vec::new();
    if truth("riak.debug", false)? {
        warnings.push("riak.debug=true has no effect".to_owned());
    }
    if strong && scans_type.is_empty() {
        let scans = target.property("riak.scan").is_some();
        if scans {
            warnings.push(
                "riak.scan has no effect: without riak.strong_consistent_scans_bucket_type, there are no scans in strong mode"
                    .to_owned(),
            );
        }
    }
    Ok(Settings {
        hosts: hosts.split(',').map(str::trim).map(host).collect::<Result<_, _>>()?,
        bucket_type: target.property("riak.bucket_type").unwrap_or("ycsb").to_owned(),
        strong,
        scans_type,
        r: number("riak.r_val", 2)?,
        w: number("riak.w_val", 2)?,
        reads: number("riak.read_retry_count", 5)?.clamp(1, 1_000) as u32,
        wait: Duration::from_millis(number("riak.wait_time_before_retry", 200)?),
        limit: Duration::from_secs(limit),
        update: if choice("riak.update", ["merge", "replace"])? == 0 { Update::Merge } else { Update::Replace },
        checked_insert: choice("riak.insert", ["check", "put"])? == 0,
        scan: if choice("riak.scan", ["key", "2i"])? == 0 { Scan::Key } else { Scan::Number },
        user,
        password: target.property("riak.password").unwrap_or("").to_owned(),
        tls,
        roots: target.property("riak.cacert").unwrap_or("what this machine trusts").to_owned(),
        warnings,
    })
}

fn tls(authorities: Option<&str>) -> Result<Arc<ClientConfig>, TargetError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let unreadable =
                |why: String| TargetError::Request(format!("cannot read the certificates of riak.cacert={path:?}: {why}"));
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unreadable("there is none in it".to_owned()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| TargetError::Request(error.to_string()))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

impl Settings {
    fn address(&self) -> String {
        let host = |(name, port): &(String, u16)| {
            if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") }
        };
        self.hosts.iter().map(host).collect::<Vec<_>>().join(",")
    }
}

impl Riak {
    /// A session on the node whose turn it is, or on another one if that cannot be reached.
    async fn session(&self, table: &TableSpec, number: u32) -> Result<RiakSession, TargetError> {
        let settings = &self.settings;
        let mut why = Vec::new();
        for position in 0..settings.hosts.len() {
            let (host, port) = &settings.hosts[(number as usize + position) % settings.hosts.len()];
            match self.connection(host, *port).await {
                Ok(connection) => {
                    return Ok(RiakSession {
                        connection,
                        settings: settings.clone(),
                        names: table.fields.iter().map(|field| field.to_ascii_lowercase()).collect(),
                        table: table.clone(),
                        request: Message::new(),
                        content: Message::new(),
                        pair: Message::new(),
                        record: Vec::new(),
                        vclock: Vec::new(),
                        fresh: Vec::new(),
                        keys: Vec::new(),
                        ends: Vec::new(),
                        continuation: Vec::new(),
                    });
                }
                Err(reason) => why.push(reason),
            }
        }
        Err(TargetError::Unusable(why.join("; ")))
    }

    async fn connection(&self, host: &str, port: u16) -> Result<Connection, String> {
        let settings = &self.settings;
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((host, port)));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return Err(format!("nobody listens at {host}:{port}; is Riak running there, and is {port} its protocol-buffers port?"));
            }
            Ok(Err(error)) => return Err(format!("cannot connect to {host}:{port}: {error}; check the name and the network")),
            Err(_) => {
                return Err(format!(
                    "{host}:{port} does not answer; is the host right, and does a firewall let us through?"
                ));
            }
        };
        let _ = stream.set_nodelay(true);
        let mut connection = Connection::new(Box::new(stream), settings.limit);
        let said = |trouble: Trouble| match trouble {
            Trouble::Said(words) | Trouble::Broken(words) => words,
            Trouble::Late(limit) => format!("no answer within {} s", limit.as_secs()),
        };
        if let Some(config) = &settings.tls {
            connection.ask(code::START_TLS, &[], code::START_TLS).await.map_err(|trouble| {
                format!("{host}:{port} refuses TLS: {}; is Riak's security switched on?", said(trouble))
            })?;
            let name = ServerName::try_from(host.to_owned())
                .map_err(|_| format!("{host:?} is not a name that a certificate can have"))?;
            let connecting = TlsConnector::from(config.clone()).connect(name, connection.stream);
            let stream = tokio::time::timeout(settings.limit, connecting)
                .await
                .map_err(|_| format!("{host}:{port} does not finish the TLS handshake"))?
                .map_err(|error| {
                    let words = certificates::Words {
                        roots: &settings.roots,
                        roots_setting: "riak.cacert",
                        identity_settings: ["", ""],
                        has_identity: false,
                        any_name: "",
                    };
                    let complaint = certificates::cause(&error)
                        .and_then(|cause| certificates::complaint(cause, &words, &format!("{host}:{port}")));
                    complaint.unwrap_or_else(|| format!("{host}:{port} does not finish the TLS handshake: {error}"))
                })?;
            connection = Connection::new(Box::new(stream), settings.limit);
        }
        if let Some(user) = &settings.user {
            let mut message = Message::new();
            message.bytes(1, user.as_bytes()).bytes(2, settings.password.as_bytes());
            connection.ask(code::AUTH, message.as_bytes(), code::AUTHENTICATED).await.map_err(|trouble| {
                format!(
                    "{host}:{port} refused user {user}: {}; check riak.user and riak.password",
                    hide(&said(trouble), &settings.password)
                )
            })?;
        }
        Ok(connection)
    }

    fn refused(&self, doing: &str, trouble: &Trouble) -> TargetError {
        let address = self.settings.address();
        TargetError::Unusable(match trouble {
            Trouble::Said(words) if is_starting(words) => {
                format!("{address} is not serving yet: {words}; a node takes half a minute after its start")
            }
            Trouble::Said(words) => format!("{address} refused to {doing}: {words}"),
            Trouble::Broken(words) => format!("the connection to {address} broke: {words}"),
            Trouble::Late(limit) => format!("{address} did not answer within {} s", limit.as_secs()),
        })
    }
}

fn hide(words: &str, password: &str) -> String {
    if password.is_empty() { words.to_owned() } else { words.replace(password, "***") }
}

/// A real node says so for about 25 seconds after its start.
fn is_starting(words: &str) -> bool {
    words.contains("all_nodes_down") || words.contains("insufficient_vnodes")
}

/// What Riak's words mean; its codes say nothing. `wrote`: the request may have had an effect.
fn classify(words: &str, wrote: bool) -> (Status, Recovery) {
    let unsure = if wrote { Recovery::Ambiguous } else { Recovery::Retry };
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    if has(&["match_found"]) {
        (Status::Duplicate, Recovery::Fatal)
    } else if has(&["modified"]) || words.trim_matches(['"', '<', '>']) == "failed" {
        (Status::Conflict, Recovery::Retry)
    } else if is_starting(words) || has(&["overload", "too_many_requests"]) {
        (Status::Unavailable, Recovery::Retry)
    } else if has(&["val_unsatisfied", "too_many_fails", "node_confirms_unsatisfied"]) {
        (Status::Unavailable, unsure)
    } else if has(&["timeout"]) {
        (Status::Timeout, unsure)
    } else if has(&["ermission", "no_type", "bucket_type_unknown", "precommit_fail", "not_supported", "nvalid", "unauthorized"]) {
        (Status::Rejected, Recovery::Fatal)
    } else {
        (Status::Error, Recovery::Fatal)
    }
}

/// The first word of what Riak says, its own name of the failure.
fn code_of(words: &str) -> String {
    let begin = words.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let end = begin.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(begin.len());
    begin[..end].chars().take(40).collect()
}

#[cold]
fn failure(trouble: &Trouble, wrote: bool) -> Outcome {
    let lost = if wrote { Recovery::Ambiguous } else { Recovery::Reconnect };
    match trouble {
        Trouble::Said(words) => {
            let (status, recovery) = classify(words, wrote);
            let shown: String = words.chars().take(300).collect();
            Outcome::failed(status, recovery, code_of(words), shown)
        }
        Trouble::Broken(words) => Outcome::failed(Status::Unavailable, lost, "CONNECTION", words.clone()),
        Trouble::Late(limit) => Outcome::failed(
            Status::Timeout,
            lost,
            "CLIENT_TIMEOUT",
            format!("no answer within riak.transaction_time_limit ({} s)", limit.as_secs()),
        ),
    }
}

/// Keys of a page when a whole bucket is gone through.
const PAGE: u32 = 1_000;
/// Records looked at to know which fields there are.
const SAMPLE: usize = 10;

impl RiakSession {
    // ---- requests

    /// Reads an object: [`RiakSession::record`] and its version, the youngest of siblings. With `head`,
    /// only the version.
    async fn get(&mut self, bucket_type: &str, key: &str, head: bool) -> Result<bool, Trouble> {
        self.request.clear();
        self.request.bytes(1, self.table.name.as_bytes()).bytes(2, key.as_bytes());
        if !self.settings.strong {
            self.request.number(3, self.settings.r);
        }
        if head {
            self.request.number(8, 1);
        }
        self.request.number(10, self.settings.limit.as_millis() as u64).bytes(13, bucket_type.as_bytes());
        self.connection.ask(code::GET, self.request.as_bytes(), code::GOT).await?;
        self.record.clear();
        self.vclock.clear();
        let mut youngest = None;
        for (field, value) in Fields::of(self.connection.answer()) {
            match field {
                1 => {
                    let content = Fields::of(value.bytes());
                    let (mut age, mut deleted, mut bytes) = ((0, 0), false, &[][..]);
                    for (field, value) in content {
                        match field {
                            1 => bytes = value.bytes(),
                            7 => age.0 = value.number(),
                            8 => age.1 = value.number(),
                            11 => deleted = value.number() != 0,
                            _ => {}
                        }
                    }
                    if !deleted && youngest.is_none_or(|known| known < age) {
                        youngest = Some(age);
                        self.record.clear();
                        self.record.extend_from_slice(bytes);
                    }
                }
                2 => self.vclock.extend_from_slice(value.bytes()),
                _ => {}
            }
        }
        Ok(youngest.is_some())
    }

    /// Writes [`RiakSession::fresh`]. `version`: the object that it replaces is the one read last.
    async fn put(&mut self, key: &str, version: bool, only_new: bool, only_unmodified: bool) -> Result<(), Trouble> {
        let settings = &*self.settings;
        self.content.clear();
        self.content.bytes(1, &self.fresh).bytes(2, b"application/octet-stream");
        if !settings.strong {
            index_number(&mut self.content, &mut self.pair, key);
        }
        self.request.clear();
        self.request.bytes(1, self.table.name.as_bytes()).bytes(2, key.as_bytes());
        if version {
            self.request.bytes(3, &self.vclock);
        }
        self.request.bytes(4, self.content.as_bytes());
        if !settings.strong {
            self.request.number(5, settings.w);
        }
        if only_unmodified {
            self.request.number(9, 1);
        }
        if only_new {
            self.request.number(10, 1);
        }
        let limit_ms = settings.limit.as_millis() as u64;
        self.request.number(12, limit_ms).bytes(16, settings.bucket_type.as_bytes());
        self.connection.ask(code::PUT, self.request.as_bytes(), code::PUT_DONE).await
    }

    /// Makes the record known to scans, in strong mode with a second bucket.
    async fn put_for_scans(&mut self, key: &str) -> Result<(), Trouble> {
        let settings = &*self.settings;
        if !settings.strong || settings.scans_type.is_empty() {
            return Ok(());
        }
        self.content.clear();
        self.content.bytes(1, b"\0").bytes(2, b"application/octet-stream");
        index_number(&mut self.content, &mut self.pair, key);
        self.request.clear();
        self.request.bytes(1, self.table.name.as_bytes()).bytes(2, key.as_bytes()).bytes(4, self.content.as_bytes());
        let limit_ms = settings.limit.as_millis() as u64;
        self.request.number(5, settings.w).number(12, limit_ms).bytes(16, settings.scans_type.as_bytes());
        self.connection.ask(code::PUT, self.request.as_bytes(), code::PUT_DONE).await
    }

    async fn remove(&mut self, bucket_type: &str, key: &str) -> Result<(), Trouble> {
        self.request.clear();
        self.request.bytes(1, self.table.name.as_bytes()).bytes(2, key.as_bytes());
        if !self.vclock.is_empty() {
            self.request.bytes(4, &self.vclock);
        }
        let limit_ms = self.settings.limit.as_millis() as u64;
        self.request.number(10, limit_ms).bytes(13, bucket_type.as_bytes());
        self.connection.ask(code::DELETE, self.request.as_bytes(), code::DELETED).await
    }

    /// The next page of at most `count` keys, in order: from `start` on by the key, or from this number
    /// on; after the page before, if there is a continuation.
    async fn page(&mut self, bucket_type: &str, start: &str, number: Option<i64>, count: u32) -> Result<(), Trouble> {
        self.request.clear();
        self.request.bytes(1, self.table.name.as_bytes());
        match number {
            Some(number) => {
                let (from, to) = (number.to_string(), i64::MAX.to_string());
                self.request.bytes(2, b"key_int").number(3, 1).bytes(5, from.as_bytes()).bytes(6, to.as_bytes());
            }
            None => {
                // No key in UTF-8 begins with the byte 255; and an empty start is none.
                let from = if start.is_empty() { b"\0" } else { start.as_bytes() };
                self.request.bytes(2, b"$key").number(3, 1).bytes(5, from).bytes(6, b"\xff");
            }
        }
        self.request.number(9, u64::from(count));
        if !self.continuation.is_empty() {
            self.request.bytes(10, &self.continuation);
        }
        let limit_ms = self.settings.limit.as_millis() as u64;
        self.request.number(11, limit_ms).bytes(12, bucket_type.as_bytes()).number(14, 1);
        self.connection.ask(code::INDEX, self.request.as_bytes(), code::INDEXED).await?;
        self.keys.clear();
        self.ends.clear();
        self.continuation.clear();
        for (field, value) in Fields::of(self.connection.answer()) {
            match field {
                1 => {
                    self.keys.extend_from_slice(value.bytes());
                    self.ends.push(self.keys.len());
                }
                3 => self.continuation.extend_from_slice(value.bytes()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Key number `position` of the page.
    fn key(&self, position: usize) -> String {
        let begin = if position == 0 { 0 } else { self.ends[position - 1] };
        String::from_utf8_lossy(&self.keys[begin..self.ends[position]]).into_owned()
    }

    // ---- before a run

    async fn server_info(&mut self) -> Result<ServerInfo, Trouble> {
        self.connection.ask(code::SERVER_INFO, &[], code::SERVER_INFO_IS).await?;
        let answer = Fields::of(self.connection.answer());
        let text = |field| String::from_utf8_lossy(answer.clone().first(field).bytes()).into_owned();
        let settings = &*self.settings;
        let mut info = ServerInfo {
            address: settings.address(),
            version: format!("Riak {}", text(2)),
            ..ServerInfo::default()
        };
        let update = if settings.update == Update::Merge { "merge" } else { "replace" };
        let scan = match settings.scan {
            _ if settings.strong && settings.scans_type.is_empty() => "none",
            Scan::Key => "$key",
            Scan::Number => "key_int",
        };
        for (name, value) in [
            ("node", text(1)),
            ("consistency", if settings.strong { "strong" } else { "eventual" }.to_owned()),
            ("bucket_type", settings.bucket_type.clone()),
            ("update", update.to_owned()),
            ("scan", scan.to_owned()),
            ("r", settings.r.to_string()),
            ("w", settings.w.to_string()),
        ] {
            info.settings.insert(name.to_owned(), value);
        }
        Ok(info)
    }

    /// Checks that the bucket type is there and of the mode asked for.
    async fn check_type(&mut self, bucket_type: &str, strong: bool, info: &mut ServerInfo) -> Result<(), TargetError> {
        self.request.clear();
        self.request.bytes(1, self.table.name.as_bytes()).bytes(2, bucket_type.as_bytes());
        let address = self.settings.address();
        let props = if strong { "{\"props\":{\"consistent\":true}}" } else { "{\"props\":{\"allow_mult\":false}}" };
        if let Err(trouble) = self.connection.ask(code::BUCKET, self.request.as_bytes(), code::BUCKET_IS).await {
            let words = match trouble {
                Trouble::Said(words) | Trouble::Broken(words) => words,
                Trouble::Late(_) => "no answer in time".to_owned(),
            };
            return Err(TargetError::Unusable(if is_starting(&words) {
                format!("{address} is not serving yet: {words}; a node takes half a minute after its start")
            } else {
                format!(
                    "{address} has no bucket type {bucket_type}: {words}; make it with \
                     `riak-admin bucket-type create {bucket_type} '{props}'` and `riak-admin bucket-type activate {bucket_type}`, \
                     or name another one (-p riak.bucket_type=…)"
                )
            }));
        }
        let props = Fields::of(Fields::of(self.connection.answer()).first(1).bytes());
        let number = |field| props.clone().first(field).number();
        let consistent = number(27) != 0;
        if consistent != strong {
            return Err(TargetError::Request(format!(
                "the bucket type {bucket_type} at {address} is {}consistent; say so with riak.strong_consistency={consistent}, \
                 or name another one (-p riak.bucket_type=…)",
                if consistent { "" } else { "not " }
            )));
        }
        for (name, value) in [
            ("n_val", number(1).to_string()),
            ("allow_mult", (number(2) != 0).to_string()),
            ("last_write_wins", (number(3) != 0).to_string()),
        ] {
            info.settings.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// Some records of the bucket. In strong mode there are no indexes: then by its list of keys.
    async fn sample(&mut self) -> Result<Vec<Vec<u8>>, Trouble> {
        let settings = self.settings.clone();
        let mut records = Vec::new();
        let mut visit = Vec::new();
        if settings.strong {
            visit = self.list_keys().await?;
        }
        self.continuation.clear();
        loop {
            if !settings.strong {
                self.page(&settings.bucket_type, "", None, PAGE).await?;
                visit = (0..self.ends.len()).map(|position| self.key(position)).collect();
            }
            for key in &visit {
                if records.len() == SAMPLE {
                    return Ok(records);
                }
                if self.get(&settings.bucket_type, key, false).await? {
                    records.push(self.record.clone());
                }
            }
            if settings.strong || self.continuation.is_empty() {
                return Ok(records);
            }
        }
    }

    /// All keys of the bucket, by Riak's list, which goes through everything the node holds.
    async fn list_keys(&mut self) -> Result<Vec<String>, Trouble> {
        let bucket_type = self.settings.bucket_type.clone();
        self.request.clear();
        self.request.bytes(1, self.table.name.as_bytes()).bytes(3, bucket_type.as_bytes());
        let mut keys = Vec::new();
        self.connection.ask(code::LIST_KEYS, self.request.as_bytes(), code::KEYS).await?;
        loop {
            let mut done = false;
            for (field, value) in Fields::of(self.connection.answer()) {
                match field {
                    1 => keys.push(String::from_utf8_lossy(value.bytes()).into_owned()),
                    2 => done = value.number() != 0,
                    _ => {}
                }
            }
            if done {
                return Ok(keys);
            }
            self.connection.more(code::KEYS).await?;
        }
    }

    /// Removes every record, one by one: Riak has nothing faster.
    async fn remove_all(&mut self) -> Result<(), Trouble> {
        let settings = self.settings.clone();
        let scans = Some(&settings.scans_type).filter(|scans| settings.strong && !scans.is_empty());
        let mut keys = if settings.strong { self.list_keys().await? } else { Vec::new() };
        self.continuation.clear();
        loop {
            if !settings.strong {
                self.page(&settings.bucket_type, "", None, PAGE).await?;
                keys = (0..self.ends.len()).map(|position| self.key(position)).collect();
            }
            for key in &keys {
                if self.get(&settings.bucket_type, key, true).await? {
                    self.remove(&settings.bucket_type, key).await?;
                }
                if let Some(scans) = scans
                    && self.get(scans, key, true).await?
                {
                    self.remove(scans, key).await?;
                }
            }
            if settings.strong || self.continuation.is_empty() {
                return Ok(());
            }
        }
    }

    // ---- operations

    fn knows(&self, fields: &[Field<'_>]) -> Result<(), Outcome> {
        match fields.iter().find(|field| field.number as usize >= self.names.len()) {
            Some(field) => {
                let message = format!("field number {} is beyond the {} fields of {}", field.number, self.names.len(), self.table.name);
                Err(Outcome::rejected(message))
            }
            None => Ok(()),
        }
    }

    /// Reads a record; in eventual mode a few times, since its replicas may not have it yet.
    async fn fetch(&mut self, key: &str) -> Result<bool, Trouble> {
        let settings = self.settings.clone();
        let reads = if settings.strong { 1 } else { settings.reads };
        for read in 1..=reads {
            if self.get(&settings.bucket_type, key, false).await? {
                return Ok(true);
            }
            if read < reads {
                tokio::time::sleep(settings.wait).await;
            }
        }
        Ok(false)
    }

    /// Hands the record that was read last to the caller.
    fn answer<R: Rows>(&self, key: &str, asked: &[Field<'_>], rows: &mut R) {
        rows.row(key);
        let count = if asked.is_empty() { self.names.len() } else { asked.len() };
        for position in 0..count {
            let number = number_of(asked, position);
            rows.field(number, Record(&self.record).value(&self.names[number as usize]));
        }
    }

    /// Makes [`RiakSession::fresh`] of the fields written, and of those of the record read last if
    /// they are to stay.
    fn pack(&mut self, fields: &[Field<'_>], keep: bool) {
        self.fresh.clear();
        if keep {
            for (name, value) in Record(&self.record) {
                let written = fields.iter().any(|field| self.names[field.number as usize].as_bytes().eq_ignore_ascii_case(name));
                if !written {
                    append(&mut self.fresh, name, value);
                }
            }
        }
        for field in fields {
            append(&mut self.fresh, self.names[field.number as usize].as_bytes(), field.value);
        }
    }

    async fn update_record(&mut self, op: &Op<'_>) -> Result<bool, Trouble> {
        let settings = self.settings.clone();
        if settings.update == Update::Replace && !settings.strong {
            self.pack(op.fields, false);
            return self.put(op.key, false, false, false).await.map(|()| true);
        }
        let begin = tokio::time::Instant::now();
        let mut tries = 0u32;
        loop {
            if !self.fetch(op.key).await? {
                return Ok(false);
            }
            self.pack(op.fields, settings.update == Update::Merge);
            match self.put(op.key, true, false, !settings.strong).await {
                Err(Trouble::Said(words))
                    if classify(&words, true).0 == Status::Conflict && begin.elapsed() < settings.limit =>
                {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(u64::from(tries.min(20)))).await;
                }
                result => return result.map(|()| true),
            }
        }
    }

    async fn delete_record(&mut self, op: &Op<'_>) -> Result<bool, Trouble> {
        let settings = self.settings.clone();
        if !self.get(&settings.bucket_type, op.key, true).await? {
            return Ok(false);
        }
        self.remove(&settings.bucket_type, op.key).await?;
        if settings.strong && !settings.scans_type.is_empty() && self.get(&settings.scans_type, op.key, true).await? {
            self.remove(&settings.scans_type, op.key).await?;
        }
        Ok(true)
    }

    async fn insert_record(&mut self, op: &Op<'_>) -> Result<(), Outcome> {
        self.pack(op.fields, false);
        let settings = self.settings.clone();
        match self.put(op.key, false, settings.strong || settings.checked_insert, false).await {
            Ok(()) => {}
            // A consistent bucket says only that it failed: because there is one, or for another reason.
            Err(Trouble::Said(words)) if settings.strong && classify(&words, true).0 == Status::Conflict => {
                return match self.get(&settings.bucket_type, op.key, true).await {
                    Ok(true) => Err(Outcome::bare(Status::Duplicate)),
                    Ok(false) => Err(failure(&Trouble::Said(words), true)),
                    Err(trouble) => Err(failure(&trouble, true)),
                };
            }
            Err(trouble) => return Err(failure(&trouble, true)),
        }
        self.put_for_scans(op.key).await.map_err(|trouble| failure(&trouble, true))
    }

    async fn scan_records<R: Rows>(&mut self, op: &Op<'_>, number: Option<i64>, rows: &mut R) -> Result<u32, Trouble> {
        let settings = self.settings.clone();
        let indexed = if settings.strong { &settings.scans_type } else { &settings.bucket_type };
        self.continuation.clear();
        let mut count = 0;
        while count < op.scan_len {
            self.page(indexed, op.key, number, op.scan_len - count).await?;
            for position in 0..self.ends.len() {
                let key = self.key(position);
                // A key that was deleted meanwhile is still in the index for some seconds.
                if self.get(&settings.bucket_type, &key, false).await? {
                    self.answer(&key, op.fields, rows);
                    count += 1;
                }
            }
            if self.continuation.is_empty() {
                break;
            }
        }
        Ok(count)
    }
}

/// The secondary index that YCSB's scans go by.
fn index_number(content: &mut Message, pair: &mut Message, key: &str) {
    if let Some(number) = key_number(key) {
        pair.clear();
        pair.bytes(1, b"key_int").bytes(2, number.to_string().as_bytes());
        content.bytes(10, pair.as_bytes());
    }
}

impl Session for RiakSession {
    async fn read<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if let Err(refusal) = self.knows(op.fields) {
            return refusal;
        }
        match self.fetch(op.key).await {
            Ok(true) => {
                self.answer(op.key, op.fields, rows);
                Outcome::ok(1)
            }
            Ok(false) => Outcome::bare(Status::NotFound),
            Err(trouble) => failure(&trouble, false),
        }
    }

    async fn update(&mut self, op: &Op<'_>) -> Outcome {
        if let Err(refusal) = self.knows(op.fields) {
            return refusal;
        }
        if op.fields.is_empty() {
            return Outcome::rejected("an update without fields changes nothing");
        }
        match self.update_record(op).await {
            Ok(true) => Outcome::ok(1),
            Ok(false) => Outcome::bare(Status::NotFound),
            Err(trouble) => failure(&trouble, true),
        }
    }

    async fn insert(&mut self, op: &Op<'_>) -> Outcome {
        if let Err(refusal) = self.knows(op.fields) {
            return refusal;
        }
        self.insert_record(op).await.map_or_else(|failure| failure, |()| Outcome::ok(1))
    }

    async fn scan<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if let Err(refusal) = self.knows(op.fields) {
            return refusal;
        }
        if self.settings.strong && self.settings.scans_type.is_empty() {
            return Outcome::UNSUPPORTED;
        }
        let number = match self.settings.scan {
            Scan::Key => None,
            Scan::Number => match key_number(op.key) {
                Some(number) => Some(number),
                None => {
                    let message = format!("riak.scan=2i needs a key with a number at its end, not {:?}", op.key);
                    return Outcome::rejected(message);
                }
            },
        };
        match self.scan_records(op, number, rows).await {
            Ok(count) => Outcome::ok(count),
            Err(trouble) => failure(&trouble, false),
        }
    }

    async fn delete(&mut self, op: &Op<'_>) -> Outcome {
        match self.delete_record(op).await {
            Ok(true) => Outcome::ok(1),
            Ok(false) => Outcome::bare(Status::NotFound),
            Err(trouble) => failure(&trouble, true),
        }
    }

    /// In a consistent bucket, a write that names its version is a transaction of this one record.
    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        if !self.settings.strong {
            return Outcome::UNSUPPORTED;
        }
        if let Err(refusal) = self.knows(op.fields) {
            return refusal;
        }
        match self.fetch(op.key).await {
            Ok(true) => self.answer(op.key, &[], rows),
            Ok(false) => return Outcome::bare(Status::NotFound),
            Err(trouble) => return failure(&trouble, false),
        }
        self.pack(op.fields, self.settings.update == Update::Merge);
        match self.put(op.key, true, false, false).await {
            Ok(()) => Outcome::ok(1),
            Err(trouble) => failure(&trouble, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn riaks_words_say_what_can_be_done() {
        for (words, expected) in [
            ("all_nodes_down", (Status::Unavailable, Recovery::Retry)),
            ("{insufficient_vnodes,0,need,2}", (Status::Unavailable, Recovery::Retry)),
            ("{w_val_unsatisfied,2,1}", (Status::Unavailable, Recovery::Ambiguous)),
            ("timeout", (Status::Timeout, Recovery::Ambiguous)),
            ("match_found", (Status::Duplicate, Recovery::Fatal)),
            ("modified", (Status::Conflict, Recovery::Retry)),
            ("failed", (Status::Conflict, Recovery::Retry)),
            ("Permission denied: User 'a' does not have 'riak_kv.put'", (Status::Rejected, Recovery::Fatal)),
            ("something else", (Status::Error, Recovery::Fatal)),
        ] {
            assert_eq!(classify(words, true), expected, "{words}");
        }
        assert_eq!(classify("timeout", false), (Status::Timeout, Recovery::Retry));
        assert_eq!(code_of("{insufficient_vnodes,0,need,2}"), "insufficient_vnodes");
    }

    #[test]
    fn hosts_are_read_as_people_write_them() {
        let address = |url: Option<&str>, properties: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let target = Target {
                url: url.map(str::to_owned),
                properties: properties.iter().map(owned).collect(),
                ..Target::default()
            };
            understand(&target).map(|settings| settings.address())
        };
        assert_eq!(address(None, &[]).unwrap(), "127.0.0.1:8087");
        assert_eq!(address(None, &[("riak.hosts", "a, b:1,[::1]:2"), ("riak.port", "9")]).unwrap(), "a:9,b:1,[::1]:2");
        assert_eq!(address(Some("riak://h:1/"), &[("riak.hosts", "a")]).unwrap(), "h:1");
        for (name, value) in [
            ("riak.hosts", "a:port"),
            ("riak.port", "many"),
            ("riak.strong_consistency", "maybe"),
            ("riak.update", "upsert"),
            ("riak.transaction_time_limit", "0"),
            ("riak.cacert", "/nowhere.pem"),
        ] {
            let error = address(None, &[(name, value), ("riak.tls", "true")]).unwrap_err();
            assert!(matches!(error, TargetError::Request(_)) && error.to_string().contains(name), "{error}");
        }
        assert!(address(None, &[("riak.user", "u"), ("riak.tls", "false")]).is_err());
    }
}
