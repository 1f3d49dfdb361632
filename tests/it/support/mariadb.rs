//! A real MariaDB, started once for the whole test binary and gone with it.

use std::sync::OnceLock;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};

use super::daemon::{Daemon, command, folder, free_port, program};
pub use super::guarded::{GUARDED, PASSWORD};

/// Connects without a password.
pub const TRUSTED: &str = "trusted";

const MISSING: &str = "these tests need MariaDB's server programs (mariadb-install-db, mariadbd); \
                       install them, e.g. apt-get install mariadb-server";

pub struct Server {
    pub port: u16,
    pub daemon: Daemon,
}

/// The server of this test binary.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&[]))
}

/// A fresh database with this name, and its URL for the trusted user.
pub async fn database(name: &str) -> String {
    let port = server().port;
    client("mysql").await.query_drop(format!("CREATE DATABASE {name}")).await.expect("a database is created");
    format!("mysql://{TRUSTED}@127.0.0.1:{port}/{name}")
}

/// A connection of the test's own, as superuser.
pub async fn client(database: &str) -> Conn {
    connect(server().port, database).await.expect("the test's MariaDB answers")
}

pub async fn connect(port: u16, database: &str) -> Result<Conn, mysql_async::Error> {
    let options = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(port).user(Some(TRUSTED));
    Conn::new(options.db_name(Some(database)).prefer_socket(false)).await
}

impl Server {
    /// A server of its own, for a test that ends it or needs other settings.
    pub fn start(settings: &[String]) -> Server {
        let (port, folder) = (free_port(), folder("ycsb-mariadb-"));
        initialise(&folder);
        let arguments = [arguments(&folder, port), settings.to_vec()].concat();
        let daemon = Daemon::start(&program("mariadbd").expect(MISSING), &arguments, folder);
        let server = Server { port, daemon };
        server.wait();
        server
    }

    /// Waits until it answers.
    pub fn wait(&self) {
        self.daemon.wait_until("MariaDB does not start", || {
            super::block_on(async { connect(self.port, "mysql").await.map(drop) })
        });
    }
}

/// Makes the folder's data, with the users of the tests.
pub fn initialise(folder: &std::path::Path) {
    let install = program("mariadb-install-db").expect(MISSING);
    let literal = PASSWORD.replace('\\', "\\\\").replace('\'', "''");
    // The server that reads them takes one statement a line.
    let users = format!(
        "FLUSH PRIVILEGES;\n\
         CREATE USER {TRUSTED}@'%';\nGRANT ALL ON *.* TO {TRUSTED}@'%' WITH GRANT OPTION;\n\
         CREATE USER {GUARDED}@'%' IDENTIFIED BY '{literal}';\nGRANT ALL ON *.* TO {GUARDED}@'%';\n"
    );
    let file = folder.join("users.sql");
    std::fs::write(&file, users).expect("a writable folder");
    let made = command(&install, folder)
        .arg("--no-defaults")
        .arg(format!("--datadir={}", folder.join("data").display()))
        .arg(format!("--extra-file={}", file.display()))
        // Several at once would take each other's temporary tables.
        .arg(format!("--tmpdir={}", folder.display()))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"])
        .output()
        .expect(MISSING);
    let said = [made.stdout, made.stderr].concat();
    assert!(made.status.success(), "mariadb-install-db: {}", String::from_utf8_lossy(&said));
}

/// The arguments of every server of the tests.
pub fn arguments(folder: &std::path::Path, port: u16) -> Vec<String> {
    let folder = folder.display();
    let more = ["--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"];
    let more = more.iter().chain(&["--innodb-buffer-pool-size=32M", "--max-connections=300"]);
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={folder}/data"),
        format!("--socket={folder}/socket"),
        format!("--pid-file={folder}/pid"),
        format!("--tmpdir={folder}"),
        format!("--port={port}"),
    ];
    arguments.extend(more.map(|&text| text.to_owned()));
    arguments
}
