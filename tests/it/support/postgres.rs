//! A real PostgreSQL, started once for the whole test binary and gone with it.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tokio_postgres::{Client, NoTls};

use super::daemon::{Daemon, Habits, NOBODY, command, folder, free_port};
pub use super::guarded::{GUARDED, PASSWORD};

/// Connects without a password.
pub const TRUSTED: &str = "trusted";

const MISSING: &str = "these tests need PostgreSQL's server programs (initdb, postgres); \
                       install them, e.g. apt-get install postgresql, or put their folder into PATH";

pub struct Server {
    pub port: u16,
    pub folder: PathBuf,
    daemon: Daemon,
}

/// The server of this test binary.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

/// A fresh database with this name, and its URL for the trusted user.
pub async fn database(name: &str) -> String {
    static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let port = server().port;
    // Two copies of the template at once would disturb each other.
    let _turn = ONE_AT_A_TIME.lock().await;
    let text = format!("CREATE DATABASE \"{name}\"");
    client("postgres").await.batch_execute(&text).await.expect("a database is created");
    format!("postgres://{TRUSTED}@127.0.0.1:{port}/{name}")
}

/// A connection of the test's own, as superuser.
pub async fn client(database: &str) -> Client {
    let port = server().port;
    connect(port, database).await.expect("the test's PostgreSQL answers")
}

pub async fn connect(port: u16, database: &str) -> Result<Client, tokio_postgres::Error> {
    let text = format!("host=127.0.0.1 port={port} user={TRUSTED} dbname={database}");
    let (client, connection) = tokio_postgres::connect(&text, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Server {
    /// A server of its own, for a test that ends it.
    pub fn start() -> Server {
        Server::start_with(&[], "", |_| {})
    }

    /// A server of its own with these settings, these lines at the head of pg_hba.conf, and whatever
    /// is put into its data folder.
    pub fn start_with(settings: &[&str], rules: &str, furnish: impl FnOnce(&Path)) -> Server {
        let programs = programs().expect(MISSING);
        let folder = folder("ycsb-pg-");
        let data = folder.join("data");
        let initdb = command(&programs.join("initdb"), &folder)
            .args(["--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust", "--username=trusted"])
            .arg("--pgdata")
            .arg(&data)
            .output()
            .expect(MISSING);
        assert!(initdb.status.success(), "initdb: {}", String::from_utf8_lossy(&initdb.stderr));
        let rules = format!(
            "{rules}local all all trust\nhost all {TRUSTED},root,yugabyte 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        );
        fs::write(data.join("pg_hba.conf"), rules).expect("writing pg_hba.conf");
        furnish(&data);

        let port = free_port();
        let mut arguments = vec!["-D".to_owned(), data.display().to_string()];
        arguments.extend(["-k".to_owned(), folder.display().to_string()]);
        arguments.extend(["-p", &port.to_string(), "-h", "127.0.0.1"].map(str::to_owned));
        let all = ["fsync=off", "max_connections=600", "log_statement=none"];
        for setting in all.iter().chain(settings) {
            arguments.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let habits = Habits { stop: "INT", end: "QUIT", pid_file: Some("data/postmaster.pid") };
        let daemon = Daemon::start_as(&programs.join("postgres"), &arguments, folder.clone(), &habits);
        let server = Server { port, folder, daemon };
        server.make_the_guarded_user();
        server
    }

    /// `kill` (as violently as that), `stop` (politely), or `start` again after one of them.
    pub fn tell(&self, word: &str) {
        self.daemon.tell(word);
    }

    /// Waits for the first connection, and makes the user with a password.
    fn make_the_guarded_user(&self) {
        self.daemon.wait_until("PostgreSQL does not start", || {
            super::block_on(async {
                let client = connect(self.port, "postgres").await?;
                let literal = PASSWORD.replace('\'', "''");
                client.batch_execute(&format!("CREATE ROLE {GUARDED} LOGIN PASSWORD '{literal}'")).await
            })
        });
    }
}

/// Gives a file to the user that the server runs as, and to nobody else.
pub fn belongs_to_the_server(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("its mode");
    if rustix::process::geteuid().is_root() {
        chown(file, Some(NOBODY), Some(NOBODY)).expect("giving a file away");
    }
}

/// The folder with `initdb` and `postgres`: on the PATH, by `pg_config`, or the newest of Debian's.
fn programs() -> Option<PathBuf> {
    let complete = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(complete);
    let by_config = || {
        let output = Command::new("pg_config").arg("--bindir").output().ok()?;
        let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        Some(folder).filter(complete)
    };
    let of_debian = || {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let number = |folder: &PathBuf| folder.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
        versions.map(|version| version.path().join("bin")).filter(complete).max_by_key(number)
    };
    on_path.or_else(by_config).or_else(of_debian)
}
