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
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const NOBODY: u32 = 65534;

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

/// A port that nobody listens at, and that no outgoing connection is given before its server has begun: Linux takes
/// those from 32768 on.
pub fn free_port() -> u16 {
    const PORTS: std::ops::Range<u32> = 12_000..32_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Two runs of the tests at once begin at different places.
        let at = std::process::id().wrapping_mul(101).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + at % PORTS.len() as u32) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[test]
fn a_port_for_a_server_is_none_that_an_outgoing_connection_may_be_given() {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("this is Linux");
    let first: u16 =
        range.split_whitespace().next().and_then(|first| first.parse().ok()).expect("two numbers");
    let (one, other) = (free_port(), free_port());
    assert!(one < first && other < first && one != other, "{one} {other} {first}");
}

/// How a server is spoken to.
pub struct Habits {
    /// The signal at which it stops politely.
    pub stop: &'static str,
    /// That at which it leaves at once, and takes its own processes along.
    pub end: &'static str,
    /// The file, in its folder, that has its number when it has started; it is started again until it
    /// does, because the last processes of a killed server may be there still.
    pub pid_file: Option<&'static str>,
}

impl Daemon {
    /// Starts a program that stays in the foreground and stops at a SIGTERM.
    pub fn start<S: AsRef<str>>(program: &Path, arguments: &[S], folder: PathBuf) -> Daemon {
        Daemon::start_as(program, arguments, folder, &Habits { stop: "TERM", end: "KILL", pid_file: None })
    }

    /// Starts a program that stays in the foreground.
    pub fn start_as<S: AsRef<str>>(
        program: &Path,
        arguments: &[S],
        folder: PathBuf,
        habits: &Habits,
    ) -> Daemon {
        let script = r#"
            folder=$1 stop=$2 end=$3 pid_file=$4; shift 4
            start() { "$@" >>"$folder/log" 2>&1 & server=$!; }
            # The number of a server that has ended may be somebody else's by now.
            mine() { [ "$(cut -d ' ' -f 4 "/proc/$server/stat" 2>/dev/null)" = "$$" ]; }
            start "$@"
            while read -r word; do
                case $word in
                    kill) mine && kill -KILL $server; wait $server ;;
                    stop) mine && kill -$stop $server; wait $server ;;
                    start) for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
                        start "$@"
                        [ -z "$pid_file" ] && break
                        sleep 0.5
                        [ "$(head -n 1 "$folder/$pid_file")" = "$server" ] && break
                    done ;;
                esac
            done
            mine && kill -$end $server; wait $server; rm -rf "$folder""#;
        let mut shell = command(Path::new("sh"), &folder);
        shell.args(["-c", script, "sh"]).arg(&folder);
        shell.args([habits.stop, habits.end, habits.pid_file.unwrap_or("")]).arg(program);
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
