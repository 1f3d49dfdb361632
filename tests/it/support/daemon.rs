//! A server program that tests start: in a folder of its own, as nobody if the tests run as root, and
//! gone with them.
//!
//! It is the child of a shell that waits for the end of its standard input, a pipe that this process
//! holds: however the tests end, also by a crash, the shell then stops the server and removes its
//! files.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;

pub struct Daemon {
    pub folder: PathBuf,
    /// Holds the pipe whose end ends the server.
    watchdog: Mutex<Child>,
}

/// An empty folder that the server may write to, and nobody else needs to.
pub fn folder(prefix: &str) -> PathBuf {
    let folder = tempfile::Builder::new().prefix(prefix).tempdir().expect("a temporary folder").keep();
    if rustix::process::geteuid().is_root() {
        chown(&folder, Some(NOBODY), Some(NOBODY)).expect("giving the folder away");
    }
    folder
}

/// A program that may write to this folder.
pub fn command(program: &Path, folder: &Path) -> Command {
    // Most servers refuse to run as root.
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
        command.arg("--clear-groups").arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(folder).env("LC_ALL", "C").env("HOME", folder);
    command
}

/// The program with this name: on the PATH, or where Debian keeps those of the administrator.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A port that nobody listens at.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port()
}

impl Daemon {
    /// Starts a program that stays in the foreground and stops at a SIGTERM.
    pub fn start<S: AsRef<str>>(program: &Path, arguments: &[S], folder: PathBuf) -> Daemon {
        let script = r#"
            folder=$1; shift
            start() { "$@" >>"$folder/log" 2>&1 & server=$!; }
            start "$@"
            while read -r word; do
                case $word in
                    kill) kill -KILL $server; wait $server ;;
                    stop) kill -TERM $server; wait $server ;;
                    start) start "$@" ;;
                esac
            done
            kill -KILL $server; wait $server; rm -rf "$folder""#;
        let mut shell = command(Path::new("sh"), &folder);
        shell.args(["-c", script, "sh"]).arg(&folder).arg(program);
        shell.args(arguments.iter().map(AsRef::as_ref)).stdin(Stdio::piped());
        // The shell itself only ever says that the server was killed.
        shell.stderr(Stdio::null()).process_group(0);
        let watchdog = Mutex::new(shell.spawn().expect("sh starts"));
        Daemon { folder, watchdog }
    }

    /// `kill` (as violently as that), `stop` (politely), or `start` again after one of them.
    pub fn tell(&self, word: &str) {
        let mut watchdog = self.watchdog.lock().expect("no panic");
        let stdin = watchdog.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{word}").expect("the server's shell listens");
    }

    /// Waits until `ready` says so, or shows the server's log. On a thread of its own, since the
    /// caller may be inside a runtime.
    pub fn wait_until<E: std::fmt::Display>(&self, what: &str, ready: impl Fn() -> Result<(), E> + Sync) {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let begin = Instant::now();
                while let Err(error) = ready() {
                    if begin.elapsed() > Duration::from_secs(120) {
                        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                        panic!("{what}: {error}\n{log}");
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            waiting.join().expect("the server gets ready");
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let mut watchdog = self.watchdog.lock().unwrap_or_else(|poison| poison.into_inner());
        drop(watchdog.stdin.take());
        let _ = watchdog.wait();
    }
}
