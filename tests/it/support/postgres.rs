//! A real PostgreSQL, started once for the whole test binary and gone with it.
//!
//! The server is the child of a shell that waits for the end of its standard input, a pipe that
//! this process holds: however the tests end, also by a crash, the shell then stops the server and
//! removes its files.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

/// Connects without a password.
pub const TRUSTED: &str = "trusted";
/// Must give [`PASSWORD`].
pub const GUARDED: &str = "guarded";
pub const PASSWORD: &str = "p@ss:w/o?r#d %41'\"\\é";

const MISSING: &str = "these tests need PostgreSQL's server programs (initdb, postgres); \
                       install them, e.g. apt-get install postgresql, or put their folder into PATH";

pub struct Server {
    pub port: u16,
    pub folder: PathBuf,
    /// Holds the pipe whose end ends the server.
    watchdog: Mutex<Child>,
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
        let folder =
            tempfile::Builder::new().prefix("ycsb-pg-").tempdir().expect("a temporary folder").keep();
        // PostgreSQL refuses to run as root.
        let root = rustix::process::geteuid().is_root();
        if root {
            chown(&folder, Some(NOBODY), Some(NOBODY)).expect("giving the folder away");
        }
        let command = |program: &Path| {
            let mut command = if root {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
                command.arg("--clear-groups").arg(program);
                command
            } else {
                Command::new(program)
            };
            command.current_dir(&folder).env("LC_ALL", "C").env("HOME", &folder);
            command
        };
        let data = folder.join("data");
        let initdb = command(&programs.join("initdb"))
            .args(["--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust", "--username=trusted"])
            .arg("--pgdata")
            .arg(&data)
            .output()
            .expect(MISSING);
        assert!(initdb.status.success(), "initdb: {}", String::from_utf8_lossy(&initdb.stderr));
        let rules = format!(
            "{rules}local all all trust\nhost all {TRUSTED},root 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        );
        fs::write(data.join("pg_hba.conf"), rules).expect("writing pg_hba.conf");
        furnish(&data);

        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let script = r#"
            folder=$1; shift
            start() { "$@" >>"$folder/log" 2>&1 & server=$!; }
            # The number of a server that has ended may be somebody else's by now.
            mine() { [ "$(cut -d ' ' -f 4 "/proc/$server/stat" 2>/dev/null)" = "$$" ]; }
            start "$@"
            while read -r word; do
                case $word in
                    kill) mine && kill -KILL $server; wait $server ;;
                    stop) mine && kill -INT $server; wait $server ;;
                    # The last processes of a killed server may still be there: then it does not start.
                    start) for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
                        start "$@"
                        sleep 0.5
                        [ "$(head -n 1 "$folder/data/postmaster.pid")" = "$server" ] && break
                    done ;;
                esac
            done
            mine && kill -QUIT $server; wait $server; rm -rf "$folder""#;
        let watchdog = command(Path::new("sh"))
            .args(["-c", script, "sh"])
            .arg(&folder)
            .arg(programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&folder)
            .args(["-p", &port.to_string(), "-h", "127.0.0.1"])
            .args(["-c", "fsync=off", "-c", "max_connections=200", "-c", "log_statement=none"])
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        wait_until_ready(port, &folder);
        Server { port, folder, watchdog: Mutex::new(watchdog) }
    }

    /// `kill` (as violently as that), `stop` (politely), or `start` again after one of them.
    pub fn tell(&self, word: &str) {
        let mut watchdog = self.watchdog.lock().expect("no panic");
        let stdin = watchdog.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{word}").expect("the server's shell listens");
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

pub const NOBODY: u32 = 65534;

/// Waits for the first connection, and makes the user with a password. On a thread of its own,
/// since the caller may be inside a runtime.
fn wait_until_ready(port: u16, folder: &Path) {
    let ready = || {
        super::block_on(async {
            let client = connect(port, "postgres").await?;
            let literal = PASSWORD.replace('\'', "''");
            client.batch_execute(&format!("CREATE ROLE {GUARDED} LOGIN PASSWORD '{literal}'")).await
        })
    };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let begin = Instant::now();
            while let Err(error) = ready() {
                if begin.elapsed() > Duration::from_secs(60) {
                    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                    panic!("PostgreSQL does not start: {error}\n{log}");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        waiting.join().expect("PostgreSQL starts");
    });
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
