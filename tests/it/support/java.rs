//! Jars and servers of the JDBC tests: where scripts/setup has put them, and one HerdDB for the test
//! binary.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use ycsb_trace::driver::Target;

use super::daemon::free_port;
use super::target;

/// `target/java`, filled by scripts/setup.
pub fn jars() -> PathBuf {
    let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let jars = target.join("java");
    assert!(
        jars.join("pom.xml").is_file(),
        "these tests need the jars of tests/java/pom.xml in {}; run scripts/setup test",
        jars.display()
    );
    jars
}

/// A target for this URL, with one of the jars in target/java/drivers.
pub fn with_driver(url: &str, jar: &str) -> Target {
    let mut target = target("jdbc", url);
    let path = jars().join("drivers").join(jar).to_str().expect("a path in UTF-8").to_owned();
    target.properties.insert("jdbc.classpath".to_owned(), path);
    target
}

/// A HerdDB server, a process of its own.
pub struct Herd {
    pub port: u16,
    /// Its end ends the server.
    talk: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
    _process: Child,
}

/// The HerdDB of this test binary.
pub fn herd() -> &'static Herd {
    static HERD: OnceLock<Herd> = OnceLock::new();
    HERD.get_or_init(Herd::start)
}

/// The class path of HerdDB.
pub fn herd_jars() -> String {
    jars().join("herddb/*").to_str().expect("a path in UTF-8").to_owned()
}

/// HerdDB's driver and all that it needs in one jar.
pub fn herd_jar() -> PathBuf {
    let jar = jars().join("drivers/herddb-jdbc.jar");
    assert!(jar.is_file(), "{} is missing; run scripts/setup test", jar.display());
    jar
}

/// A target in a tablespace of its own on this test binary's HerdDB.
pub fn on_herd(tablespace: &str) -> Target {
    let herd = herd();
    herd.execute(&format!("CREATE TABLESPACE '{tablespace}'"));
    let mut target = target("herddb", &format!("jdbc:herddb:server:127.0.0.1:{}", herd.port));
    target.properties.insert("jdbc.classpath".to_owned(), herd_jars());
    target.properties.insert("jdbc.schema".to_owned(), tablespace.to_owned());
    target
}

impl Herd {
    fn start() -> Herd {
        let port = free_port();
        let folder =
            tempfile::Builder::new().prefix("ycsb-herd-").tempdir().expect("a temporary folder").keep();
        let main = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/HerdServer.java");
        // The server ends with its standard input, however the tests end; the shell then cleans up.
        let script = r#"cd "$1" && java -Xmx512m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$2" "$3" "$1/data" "$4" 2>"$1/log"; rm -rf "$1""#;
        let mut process = Command::new("sh")
            .args(["-c", script, "sh"])
            .args([folder.as_os_str(), herd_jars().as_ref(), main.as_ref(), port.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let input = process.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line == "ready"));
        assert!(ready.is_some(), "HerdDB does not start; see {}/log", folder.display());
        Herd { port, talk: Mutex::new((input, lines)), _process: process }
    }

    /// Lets the server execute a statement; returns its rows, one a line.
    pub fn execute(&self, statement: &str) -> Vec<String> {
        let mut talk = self.talk.lock().expect("no panic");
        writeln!(talk.0, "{statement}").expect("the server listens");
        let mut rows = Vec::new();
        loop {
            let line = talk.1.next().expect("an answer").expect("a line");
            match line.as_str() {
                "done" => return rows,
                line if line.starts_with("row ") => rows.push(line.to_owned()),
                line => assert!(!line.starts_with("failed"), "{statement}: {line}"),
            }
        }
    }
}
