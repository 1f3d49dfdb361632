//! A proxy that speaks PostgreSQL's frames, between the program and a real PostgreSQL. It stands in for
//! the databases that speak this protocol and cannot be had here: it answers with their errors, cuts
//! connections before or after a statement has reached the server, has as many ports as there are nodes,
//! and understands CockroachDB's words by putting them into PostgreSQL's.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What happens to an operation instead of, or besides, its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not executed, and this comes back: SQLSTATE and message.
    Error(&'static str, &'static str),
    /// It is executed, and this comes back.
    ErrorAfter(&'static str, &'static str),
    /// Its connection is closed before the server has seen it.
    CutBefore,
    /// Its connection is closed when the server has executed it, before the answer.
    CutAfter,
}

/// CockroachDB's complaint about a transaction that lost against another.
pub const RESTART: Fault = Fault::Error(
    "40001",
    "restart transaction: TransactionRetryWithProtoRefreshError: WriteTooOldError: write at timestamp too old",
);
/// CockroachDB does not know whether a commit had its effect; it had.
pub const AMBIGUOUS: Fault = Fault::ErrorAfter("40003", "result is ambiguous: error=rpc error");
/// A node of CockroachDB is being drained.
pub const DRAINING: Fault = Fault::Error("57P01", "server is not accepting clients, try another node");
/// YugabyteDB has just changed its catalogue.
pub const CATALOG: Fault = Fault::Error(
    "XX000",
    "Query error: Catalog Version Mismatch: A DDL occurred while processing this query",
);

/// When an operation meets a fault: of those that execute a statement with `words`, each `every`th.
#[derive(Debug, Clone)]
pub struct Plan {
    pub words: &'static str,
    pub every: usize,
    /// At most so many times.
    pub most: usize,
    pub fault: Fault,
}

/// What a node does with new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Door {
    #[default]
    Open,
    /// It accepts and says nothing.
    Silent,
    /// It says that it is going down.
    Draining,
    /// It closes at once.
    Closed,
}

#[derive(Default)]
struct Shared {
    plans: Mutex<Vec<(Plan, usize, usize)>>,
    doors: Mutex<Vec<Door>>,
    accepted: Vec<AtomicUsize>,
    ended: AtomicBool,
    /// Every statement that was prepared or sent as a text, in CockroachDB's words.
    statements: Mutex<HashSet<String>>,
    open: Mutex<Vec<(usize, TcpStream)>>,
    version: Mutex<Option<&'static str>>,
}

pub struct Proxy {
    pub ports: Vec<u16>,
    shared: Arc<Shared>,
}

impl Proxy {
    /// So many nodes in front of the server at this port.
    pub fn new(nodes: usize, server: u16) -> Proxy {
        let shared = Arc::new(Shared {
            doors: Mutex::new(vec![Door::Open; nodes]),
            accepted: (0..nodes).map(|_| AtomicUsize::new(0)).collect(),
            ..Shared::default()
        });
        let mut ports = Vec::new();
        for node in 0..nodes {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            ports.push(listener.local_addr().expect("it is bound").port());
            let shared = shared.clone();
            std::thread::spawn(move || {
                for client in listener.incoming() {
                    if shared.ended.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(client) = client else { continue };
                    shared.accepted[node].fetch_add(1, Ordering::SeqCst);
                    let shared = shared.clone();
                    std::thread::spawn(move || {
                        let _ = serve(&shared, node, client, server);
                    });
                }
            });
        }
        Proxy { ports, shared }
    }

    /// `version()` answers this.
    pub fn calls_itself(&self, version: &'static str) {
        *self.shared.version.lock().expect("no panic") = Some(version);
    }

    pub fn plan(&self, plan: Plan) {
        self.shared.plans.lock().expect("no panic").push((plan, 0, 0));
    }

    /// How often the faults of each plan have happened.
    pub fn faults(&self) -> Vec<usize> {
        self.shared.plans.lock().expect("no panic").iter().map(|(_, _, done)| *done).collect()
    }

    pub fn door(&self, node: usize, door: Door) {
        self.shared.doors.lock().expect("no panic")[node] = door;
    }

    /// Closes every connection of a node.
    pub fn cut(&self, node: usize) {
        for (_, stream) in self.shared.open.lock().expect("no panic").iter().filter(|(at, _)| *at == node) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Connections so far, by node.
    pub fn accepted(&self) -> Vec<usize> {
        self.shared.accepted.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    pub fn has_seen(&self, words: &str) -> bool {
        self.shared.statements.lock().expect("no panic").iter().any(|text| text.contains(words))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        for port in &self.ports {
            let _ = TcpStream::connect(("127.0.0.1", *port));
        }
        for (_, stream) in self.shared.open.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A message: its type (0 for the first of a connection) and its body.
struct Frame {
    kind: u8,
    body: Vec<u8>,
}

impl Frame {
    fn read(stream: &mut impl Read, first: bool) -> std::io::Result<Frame> {
        let mut kind = [0];
        if !first {
            stream.read_exact(&mut kind)?;
        }
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut body)?;
        Ok(Frame { kind: kind[0], body })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.body.len() + 5);
        if self.kind != 0 {
            bytes.push(self.kind);
        }
        bytes.extend((self.body.len() as u32 + 4).to_be_bytes());
        bytes.extend(&self.body);
        bytes
    }

    fn error(code: &str, message: &str) -> Frame {
        let mut body = Vec::new();
        for (field, text) in [(b'S', "ERROR"), (b'V', "ERROR"), (b'C', code), (b'M', message)] {
            body.push(field);
            body.extend(text.bytes());
            body.push(0);
        }
        body.push(0);
        Frame { kind: b'E', body }
    }
}

/// The text at the beginning of some bytes, and what follows its 0.
fn text(bytes: &[u8]) -> (&str, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (std::str::from_utf8(&bytes[..end]).unwrap_or_default(), bytes.get(end + 1..).unwrap_or_default())
}

/// CockroachDB's words in PostgreSQL's.
fn in_words_of_postgres(statement: &str, version: Option<&str>) -> String {
    let mut statement = statement.to_owned();
    if let Some(at) = statement.find(" AS OF SYSTEM TIME ") {
        let end = statement[at..].find(" WHERE").map_or(statement.len(), |length| at + length);
        statement.replace_range(at..end, "");
    }
    if let Some(rest) = statement.strip_prefix("UPSERT ") {
        let columns = rest.split(['(', ')']).nth(1).unwrap_or_default();
        let changes = columns.split(", ").skip(1).map(|name| format!("{name} = EXCLUDED.{name}"));
        let changes = changes.collect::<Vec<_>>().join(", ");
        statement = format!("INSERT {rest} ON CONFLICT (YCSB_KEY) DO UPDATE SET {changes}");
    }
    if let Some(version) = version {
        match statement.trim() {
            "SELECT version()" => statement = format!("SELECT '{version}'"),
            "SHOW crdb_version" => statement = format!("SELECT '{version}' AS crdb_version"),
            _ => {}
        }
    }
    // Its splits are not PostgreSQL's.
    if let Some(at) = statement.find(" SPLIT AT VALUES") {
        statement.truncate(at);
        statement = statement.replace("YCSB_KEY ASC", "YCSB_KEY");
    }
    statement
}

fn serve(shared: &Arc<Shared>, node: usize, mut client: TcpStream, server: u16) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let door = shared.doors.lock().expect("no panic")[node];
    shared.open.lock().expect("no panic").push((node, client.try_clone()?));
    match door {
        Door::Open => {}
        Door::Closed => return client.shutdown(Shutdown::Both),
        Door::Silent => {
            let mut forgotten = [0; 1024];
            while client.read(&mut forgotten)? > 0 {}
            return Ok(());
        }
        Door::Draining => {
            let _first = Frame::read(&mut client, true)?;
            let Fault::Error(code, message) = DRAINING else { unreachable!() };
            client.write_all(&Frame::error(code, message).bytes())?;
            return client.shutdown(Shutdown::Both);
        }
    }
    let mut server = TcpStream::connect(("127.0.0.1", server))?;
    server.set_nodelay(true)?;
    shared.open.lock().expect("no panic").push((node, server.try_clone()?));
    // The request for encryption is answered by one byte, which is no frame: none of it here.
    let mut first = Frame::read(&mut client, true)?;
    while first.body == 80_877_103u32.to_be_bytes() {
        client.write_all(b"N")?;
        first = Frame::read(&mut client, true)?;
    }
    server.write_all(&first.bytes())?;
    // Whether the answers up to the next ReadyForQuery are replaced by an error, and whether the
    // connection is closed instead of them.
    let after: Arc<Mutex<Vec<Option<Fault>>>> = Arc::default();
    let downwards = {
        let (mut server, mut client, after) = (server.try_clone()?, client.try_clone()?, after.clone());
        std::thread::spawn(move || {
            let mut ready = false;
            let mut held: Vec<u8> = Vec::new();
            while let Ok(frame) = Frame::read(&mut server, false) {
                let fault =
                    if ready { after.lock().expect("no panic").first().copied().flatten() } else { None };
                held.extend(frame.bytes());
                if frame.kind == b'Z' {
                    if ready {
                        let mut after = after.lock().expect("no panic");
                        if !after.is_empty() {
                            after.remove(0);
                        }
                    }
                    ready = true;
                    match fault {
                        Some(Fault::CutAfter) => break,
                        Some(Fault::ErrorAfter(code, message)) => {
                            held = Frame::error(code, message).bytes();
                            held.extend(frame.bytes());
                        }
                        _ => {}
                    }
                }
                if fault.is_none() || frame.kind == b'Z' {
                    if client.write_all(&held).is_err() {
                        break;
                    }
                    held.clear();
                }
            }
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        })
    };
    let result = upwards(shared, &mut client, &mut server, &after);
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    let _ = downwards.join();
    result
}

/// Statements go up, one batch (up to its Sync) at a time.
fn upwards(
    shared: &Shared,
    client: &mut TcpStream,
    server: &mut TcpStream,
    after: &Mutex<Vec<Option<Fault>>>,
) -> std::io::Result<()> {
    let mut names: std::collections::HashMap<String, String> = std::collections::HashMap::new();
    let mut batch: Vec<u8> = Vec::new();
    let mut executes: Vec<String> = Vec::new();
    loop {
        let mut frame = Frame::read(client, false)?;
        let version = *shared.version.lock().expect("no panic");
        match frame.kind {
            b'P' => {
                let (name, rest) = text(&frame.body);
                let (statement, types) = text(rest);
                shared.statements.lock().expect("no panic").insert(statement.to_owned());
                names.insert(name.to_owned(), statement.to_owned());
                let mut body = name.as_bytes().to_vec();
                body.push(0);
                body.extend(in_words_of_postgres(statement, version).bytes());
                body.push(0);
                body.extend(types);
                frame.body = body;
            }
            b'B' => {
                let (_portal, rest) = text(&frame.body);
                let (name, _) = text(rest);
                executes.extend(names.get(name).cloned());
            }
            b'Q' => {
                let (statement, _) = text(&frame.body);
                shared.statements.lock().expect("no panic").insert(statement.to_owned());
                executes.push(statement.to_owned());
                let mut body = in_words_of_postgres(statement, version).into_bytes();
                body.push(0);
                frame.body = body;
            }
            _ => {}
        }
        // While the password is asked for there is no Sync.
        let ends = matches!(frame.kind, b'S' | b'Q' | b'p' | b'X');
        batch.extend(frame.bytes());
        if !ends {
            continue;
        }
        let fault = executes.iter().find_map(|statement| due(shared, statement));
        match fault {
            Some(Fault::CutBefore) => return Ok(()),
            Some(Fault::Error(code, message)) => {
                let mut answer = Frame::error(code, message).bytes();
                answer.extend(Frame { kind: b'Z', body: b"I".to_vec() }.bytes());
                client.write_all(&answer)?;
            }
            other => {
                if matches!(frame.kind, b'S' | b'Q') {
                    after.lock().expect("no panic").push(other);
                }
                server.write_all(&batch)?;
            }
        }
        batch.clear();
        executes.clear();
    }
}

/// The fault that this statement meets, if it is its turn.
fn due(shared: &Shared, statement: &str) -> Option<Fault> {
    let mut plans = shared.plans.lock().expect("no panic");
    for (plan, seen, done) in plans.iter_mut().filter(|(plan, ..)| statement.contains(plan.words)) {
        *seen += 1;
        if *seen % plan.every == 0 && *done < plan.most {
            *done += 1;
            return Some(plan.fault);
        }
    }
    None
}
