//! A stand-in for a Riak node, in memory: the same frames, and of its behaviour what the driver meets.
//! Siblings and vector clocks (a write that does not name a version it has seen becomes a sibling, or
//! the last one wins), consistent bucket types that refuse such a write, tombstones that stay in the
//! index, ranges of `$key` and of an integer index by pages, lists of keys in several frames, TLS and
//! passwords, and errors on request. It was written from Basho's protocol files and from what one real
//! node (3.2.1) answered to ping, put, get, both kinds of range, delete and a get of nothing; it has no
//! replicas, so quorums mean nothing here.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A version of an object.
#[derive(Debug, Clone)]
pub struct Content {
    pub value: Vec<u8>,
    pub indexes: Vec<(Vec<u8>, Vec<u8>)>,
    /// When it was written, as the vector clock counts.
    dot: u64,
}

/// No contents: a tombstone.
#[derive(Debug, Clone, Default)]
pub struct Object {
    pub contents: Vec<Content>,
    version: u64,
}

#[derive(Debug, Clone, Copy)]
struct BucketType {
    consistent: bool,
    allow_mult: bool,
}

type Bucket = BTreeMap<Vec<u8>, Object>;

#[derive(Default)]
struct State {
    /// By type and name.
    buckets: BTreeMap<(String, String), Bucket>,
    clock: u64,
    /// The bucket type `ycsb` is a consistent one.
    strong: bool,
    /// Said to every request about objects.
    failure: Option<String>,
    /// Connections to each node of the cluster, so far.
    sessions: Vec<usize>,
}

/// What a node asks of those who connect.
struct Security {
    config: Arc<ServerConfig>,
    user: String,
    password: String,
}

/// Where the nodes of a cluster listen, all at the same port.
pub const CLUSTER: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];

/// A node, or several that are one cluster: they share their objects.
pub struct Node {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

/// The bucket types of a node.
fn bucket_type(name: &str, strong: bool) -> Option<BucketType> {
    match name {
        "strong" => Some(BucketType { consistent: true, allow_mult: true }),
        "ycsb" if strong => Some(BucketType { consistent: true, allow_mult: true }),
        "ycsb" | "scans" => Some(BucketType { consistent: false, allow_mult: false }),
        "siblings" => Some(BucketType { consistent: false, allow_mult: true }),
        _ => None,
    }
}

impl Node {
    pub fn start() -> Node {
        Node::listening(None, &CLUSTER[..1])
    }

    /// A cluster whose bucket type `ycsb`, the one that YCSB takes by default, is a consistent one or not.
    pub fn cluster(consistent: bool) -> Node {
        let node = Node::listening(None, &CLUSTER);
        node.state.lock().expect("no panic").strong = consistent;
        node
    }

    /// Connections of clients to each of its nodes, so far.
    pub fn sessions(&self) -> Vec<usize> {
        self.state.lock().expect("no panic").sessions.clone()
    }

    /// A node that takes this user only, after TLS with this certificate and key (PEM).
    pub fn secure(user: &str, password: &str, (certificate, key): &(String, String)) -> Node {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a configuration");
        let security =
            Security { config: Arc::new(config), user: user.to_owned(), password: password.to_owned() };
        Node::listening(Some(security), &CLUSTER[..1])
    }

    fn listening(security: Option<Security>, hosts: &[&str]) -> Node {
        let mut listeners: Vec<TcpListener>;
        let port = loop {
            listeners = vec![TcpListener::bind((hosts[0], 0)).expect("a port")];
            let port = listeners[0].local_addr().expect("an address").port();
            // Somebody else may have it at the other addresses.
            let others: Result<Vec<_>, _> =
                hosts[1..].iter().map(|host| TcpListener::bind((*host, port))).collect();
            if let Ok(others) = others {
                listeners.extend(others);
                break port;
            }
        };
        let state = Arc::new(Mutex::new(State { sessions: vec![0; hosts.len()], ..State::default() }));
        let security = Arc::new(security);
        for (number, listener) in listeners.into_iter().enumerate() {
            let (shared, security) = (state.clone(), security.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    shared.lock().expect("no panic").sessions[number] += 1;
                    let (state, security) = (shared.clone(), security.clone());
                    std::thread::spawn(move || serve(stream, &state, security.as_ref().as_ref()));
                }
            });
        }
        Node { port, state }
    }

    /// From now on, every request about objects gets this answer; None ends it.
    pub fn fail(&self, words: Option<&str>) {
        self.state.lock().expect("no panic").failure = words.map(str::to_owned);
    }

    pub fn object(&self, bucket_type: &str, bucket: &str, key: &str) -> Option<Object> {
        let state = self.state.lock().expect("no panic");
        let found = state.buckets.get(&(bucket_type.to_owned(), bucket.to_owned()))?.get(key.as_bytes());
        found.filter(|object| !object.contents.is_empty()).cloned()
    }

    /// Every object that is there, by bucket type and key.
    pub fn count(&self, bucket_type: &str) -> usize {
        let state = self.state.lock().expect("no panic");
        let of_type = state.buckets.iter().filter(|((name, _), _)| name == bucket_type);
        of_type.flat_map(|(_, bucket)| bucket.values()).filter(|object| !object.contents.is_empty()).count()
    }
}

trait Duplex: Read + Write {}
impl<S: Read + Write> Duplex for S {}

fn serve(stream: TcpStream, state: &Mutex<State>, security: Option<&Security>) {
    let _ = stream.set_nodelay(true);
    let mut plain = Some(stream.try_clone().expect("a second handle"));
    let mut stream: Box<dyn Duplex> = Box::new(stream);
    let mut admitted = security.is_none();
    loop {
        let mut head = [0; 5];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        let length = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
        let mut message = vec![0; length - 1];
        if stream.read_exact(&mut message).is_err() {
            return;
        }
        let fields = fields(&message);
        let answers = match (head[4], security) {
            (255, Some(security)) => {
                let _ = stream.write_all(&[0, 0, 0, 1, 255]);
                let session = ServerConnection::new(security.config.clone()).expect("a session");
                stream = Box::new(StreamOwned::new(session, plain.take().expect("TLS starts once")));
                continue;
            }
            (255, None) => vec![error("Security not enabled")],
            (253, Some(security)) => {
                admitted = fields.bytes(1) == security.user.as_bytes()
                    && fields.bytes(2) == security.password.as_bytes();
                vec![if admitted { (254, Out::default()) } else { error("Authentication failed") }]
            }
            _ if !admitted => vec![error("Security is enabled, please STARTTLS first")],
            (code, _) => state.lock().expect("no panic").answer(code, &fields),
        };
        for (code, Out(body)) in answers {
            let mut frame = (body.len() as u32 + 1).to_be_bytes().to_vec();
            frame.push(code);
            frame.extend(body);
            if stream.write_all(&frame).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }
}

impl State {
    fn answer(&mut self, code: u8, fields: &In) -> Vec<(u8, Out)> {
        let text = |field| String::from_utf8(fields.bytes(field).to_vec()).expect("a name");
        if code == 7 {
            let mut out = Out::default();
            out.bytes(1, b"riak@127.0.0.1").bytes(2, b"3.2.1 (stand-in)");
            return vec![(8, out)];
        }
        // The field of the bucket type differs from message to message.
        let type_field = match code {
            9 | 13 => 13,
            11 => 16,
            17 => 3,
            19 => 2,
            25 => 12,
            _ => return vec![error(&format!("unknown message code {code}"))],
        };
        let name = text(type_field);
        let Some(kind) = bucket_type(&name, self.strong) else {
            return vec![error(&format!("No bucket-type named '{name}'"))];
        };
        if let Some(words) = self.failure.as_ref() {
            return vec![error(words)];
        }
        self.clock += 1;
        let clock = self.clock;
        let bucket = self.buckets.entry((name, text(1))).or_default();
        let key = fields.bytes(2);
        match code {
            19 => {
                let mut props = Out::default();
                props
                    .number(1, 3)
                    .number(2, kind.allow_mult.into())
                    .number(3, 0)
                    .number(27, kind.consistent.into());
                let mut out = Out::default();
                out.bytes(1, &props.0);
                vec![(20, out)]
            }
            9 => {
                let mut out = Out::default();
                if let Some(object) = bucket.get(key).filter(|object| !object.contents.is_empty()) {
                    let head = fields.number(8) != 0;
                    object.write(&mut out, head);
                }
                vec![(10, out)]
            }
            11 => {
                let object = bucket.entry(key.to_vec()).or_default();
                let exists = !object.contents.is_empty();
                let seen = fields
                    .get(3)
                    .map(|version| u64::from_be_bytes(version.try_into().expect("a clock of ours")));
                if kind.consistent {
                    // Only who knows the last version may replace it; without one, only a new object is made.
                    if exists && seen != Some(object.version) || !exists && seen.is_some() {
                        return vec![error("failed")];
                    }
                } else if fields.number(10) != 0 && exists {
                    return vec![error("match_found")];
                } else if fields.number(9) != 0 && (!exists || seen != Some(object.version)) {
                    return vec![error(if exists { "modified" } else { "notfound" })];
                }
                let content = self::fields(fields.bytes(4));
                let indexes = content.all(10).map(|pair| {
                    let pair = self::fields(pair);
                    (pair.bytes(1).to_vec(), pair.bytes(2).to_vec())
                });
                let fresh =
                    Content { value: content.bytes(1).to_vec(), indexes: indexes.collect(), dot: clock };
                if kind.allow_mult && !kind.consistent {
                    // What the writer has seen is replaced, the rest are siblings.
                    object.contents.retain(|known| seen.is_none_or(|seen| known.dot > seen));
                } else {
                    object.contents.clear();
                }
                object.contents.push(fresh);
                object.version = clock;
                vec![(12, Out::default())]
            }
            13 => {
                if let Some(object) = bucket.get_mut(key) {
                    object.contents.clear();
                    object.version = clock;
                }
                vec![(14, Out::default())]
            }
            17 => {
                // Tombstones are listed too, and the list comes in pieces.
                let keys: Vec<_> = bucket.keys().collect();
                let mut frames: Vec<_> = keys
                    .chunks(2)
                    .map(|chunk| {
                        let mut out = Out::default();
                        chunk.iter().for_each(|key| {
                            out.bytes(1, key);
                        });
                        (18, out)
                    })
                    .collect();
                let mut last = Out::default();
                last.number(2, 1);
                frames.push((18, last));
                frames
            }
            25 if kind.consistent => vec![error("indexes are not supported in consistent buckets")],
            25 => vec![(26, range(bucket, fields))],
            _ => unreachable!("codes were filtered above"),
        }
    }
}

/// A page of an index.
fn range(bucket: &Bucket, fields: &In) -> Out {
    let (index, from, to) = (fields.bytes(2), fields.bytes(5), fields.bytes(6));
    let number = |bytes: &[u8]| str::from_utf8(bytes).expect("digits").parse::<i64>().expect("a number");
    let mut terms: Vec<(i64, &Vec<u8>)> = Vec::new();
    for (key, object) in bucket {
        if index == b"$key" {
            // Tombstones too, for some seconds; here, for ever.
            if from <= key.as_slice() && key.as_slice() <= to {
                terms.push((0, key));
            }
        } else {
            for (name, value) in object.contents.iter().flat_map(|content| &content.indexes) {
                if name == index && (number(from)..=number(to)).contains(&number(value)) {
                    terms.push((number(value), key));
                }
            }
        }
    }
    terms.sort();
    let after =
        fields.get(10).map(|token| (i64::from_be_bytes(token[..8].try_into().unwrap()), token[8..].to_vec()));
    let rest = terms
        .iter()
        .filter(|(number, key)| after.as_ref().is_none_or(|after| (after.0, &after.1) < (*number, *key)));
    let most = fields.number(9) as usize;
    let page: Vec<_> = rest.take(most + 1).collect();
    let mut out = Out::default();
    page.iter().take(most).for_each(|(_, key)| {
        out.bytes(1, key);
    });
    if page.len() > most {
        let (number, key) = page[most - 1];
        out.bytes(3, &[&number.to_be_bytes()[..], key].concat());
    }
    out
}

impl Object {
    fn write(&self, out: &mut Out, head: bool) {
        for content in &self.contents {
            let mut inner = Out::default();
            inner.bytes(1, if head { b"" } else { &content.value });
            inner.number(7, content.dot / 1_000_000).number(8, content.dot % 1_000_000);
            out.bytes(1, &inner.0);
        }
        out.bytes(2, &self.version.to_be_bytes());
    }
}

fn error(words: &str) -> (u8, Out) {
    let mut out = Out::default();
    out.bytes(1, words.as_bytes()).number(2, 0);
    (0, out)
}

// Protocol buffers again, in a few lines of the stand-in's own: a mistake in the driver's must not
// be made on both sides.

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn varint(&mut self, mut value: u64) {
        loop {
            let low = (value % 128) as u8;
            value /= 128;
            self.0.push(if value == 0 { low } else { low + 128 });
            if value == 0 {
                return;
            }
        }
    }

    fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Out {
        self.varint(field * 8 + 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Out {
        self.varint(field * 8);
        self.varint(value);
        self
    }
}

/// Fields as numbers and bytes.
struct In<'a>(Vec<(u64, u64, &'a [u8])>);

fn fields(mut message: &[u8]) -> In<'_> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let mut varint = || {
            let length = message.iter().position(|byte| *byte < 128).expect("an end") + 1;
            let (bytes, rest) = message.split_at(length);
            message = rest;
            bytes.iter().rev().fold(0u64, |value, byte| value * 128 + u64::from(byte % 128))
        };
        let tag = varint();
        let number = varint();
        match tag % 8 {
            0 => found.push((tag / 8, number, &[][..])),
            2 => {
                let (bytes, rest) = message.split_at(number as usize);
                message = rest;
                found.push((tag / 8, 0, bytes));
            }
            other => panic!("wire type {other}"),
        }
    }
    In(found)
}

impl<'a> In<'a> {
    fn all(&self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |found| found.0 == field).map(|found| found.2)
    }

    fn get(&self, field: u64) -> Option<&'a [u8]> {
        self.all(field).next()
    }

    fn bytes(&self, field: u64) -> &'a [u8] {
        self.get(field).unwrap_or(&[])
    }

    fn number(&self, field: u64) -> u64 {
        self.0.iter().find(|found| found.0 == field).map_or(0, |found| found.1)
    }
}
