//! Real Redis servers: one for the whole test binary, a cluster of three, and others of a test's own.

use std::sync::{Mutex, MutexGuard, OnceLock};

use redis::{Client, Value, cmd};

use super::daemon::{Daemon, command, folder, free_port, program};

const MISSING: &str = "these tests need Redis (redis-server, redis-cli); \
                       install it, e.g. apt-get install redis-server";

pub struct Server {
    pub port: u16,
    pub daemon: Daemon,
}

/// The server of this test binary.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["--databases", "1000", "--save", ""]))
}

/// The number of the database that has this name, which is one of its own.
pub fn database(name: &str) -> usize {
    static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().expect("no panic");
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

/// The URL of a database on the shared server.
pub fn url(name: &str) -> String {
    format!("redis://127.0.0.1:{}/{}", server().port, database(name))
}

/// A command of the test's own; its words are separated by blanks.
pub fn ask(url: &str, words: &str) -> Value {
    let mut words = words.split(' ');
    let mut command = cmd(words.next().expect("a command"));
    words.for_each(|word| {
        command.arg(word);
    });
    let mut connection = Client::open(url).and_then(|client| client.get_connection()).expect("a connection");
    command.query(&mut connection).expect("an answer")
}

impl Server {
    /// A server of its own, for a test that ends it or needs other settings.
    pub fn start(settings: &[&str]) -> Server {
        let (port, folder) = (free_port(), folder("ycsb-redis-"));
        let text = port.to_string();
        let place = folder.to_str().expect("a path in UTF-8").to_owned();
        let base = ["--port", &text, "--bind", "127.0.0.1", "--dir", &place];
        let arguments = [&base[..], settings].concat();
        let daemon = Daemon::start(&program("redis-server").expect(MISSING), &arguments, folder);
        let server = Server { port, daemon };
        server.daemon.wait_until("Redis does not start", || {
            // Any answer will do, also that a password is needed.
            std::net::TcpStream::connect(("127.0.0.1", port)).map(drop)
        });
        server
    }
}

/// Three masters with a third of the slots each.
pub struct Cluster {
    pub nodes: Vec<Server>,
}

impl Cluster {
    pub fn start() -> Cluster {
        let settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--appendonly", "yes"];
        let more = ["--appendfsync", "always", "--cluster-require-full-coverage", "no"];
        let bus: Vec<String> = (0..3).map(|_| free_port().to_string()).collect();
        let start = |bus: &String| {
            let port = ["--cluster-port", bus.as_str()];
            Server::start(&[&settings[..], &more[..], &port[..]].concat())
        };
        let nodes: Vec<_> = bus.iter().map(start).collect();
        let place = nodes[0].daemon.folder.clone();
        let made = command(&program("redis-cli").expect(MISSING), &place)
            .args(["--cluster", "create"])
            .args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)))
            .args(["--cluster-replicas", "0", "--cluster-yes"])
            .output()
            .expect(MISSING);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let cluster = Cluster { nodes };
        for node in &cluster.nodes {
            node.daemon.wait_until("the cluster does not form", || {
                let info = ask(&format!("redis://127.0.0.1:{}", node.port), "CLUSTER INFO");
                let formed = format!("{info:?}").contains("cluster_state:ok");
                if formed { Ok(()) } else { Err(format!("{info:?}")) }
            });
        }
        cluster
    }

    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis://{}", nodes.join(","))
    }
}

/// The cluster of this test binary, empty; others wait for their turn.
pub fn cluster() -> (&'static Cluster, MutexGuard<'static, ()>) {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let cluster = CLUSTER.get_or_init(Cluster::start);
    let turn = TURN.lock().unwrap_or_else(|poison| poison.into_inner());
    for node in &cluster.nodes {
        ask(&format!("redis://127.0.0.1:{}", node.port), "FLUSHALL");
    }
    (cluster, turn)
}
