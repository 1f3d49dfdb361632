//! A real MySQL of Oracle's (8.0), which no Debian package has: from Maven's registry, where it is packed for
//! the tests of others. Started once for the test binary, and gone with it.

use std::path::Path;
use std::sync::OnceLock;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::daemon::{Daemon, command, folder, free_port};
use super::java::jars;
pub use super::mariadb::TRUSTED;
use super::mariadb::connect;

pub struct Server {
    pub port: u16,
    pub daemon: Daemon,
}

/// The server of this test binary.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(start)
}

/// A fresh database with this name, and its URL for the trusted user.
pub async fn database(name: &str) -> String {
    let port = server().port;
    client("mysql").await.query_drop(format!("CREATE DATABASE {name}")).await.expect("a database is created");
    format!("mysql://{TRUSTED}@127.0.0.1:{port}/{name}")
}

/// A connection of the test's own, as superuser.
pub async fn client(database: &str) -> Conn {
    connect(server().port, database).await.expect("the test's MySQL answers")
}

/// An empty table whose keys are bytes.
pub async fn make_binary_table(database: &str) {
    let text = "CREATE TABLE usertable (YCSB_KEY VARBINARY(512) PRIMARY KEY, FIELD0 LONGTEXT, FIELD1 LONGTEXT, \
                FIELD2 LONGTEXT) CHARACTER SET utf8mb4";
    client(database).await.query_drop(text).await.expect("a table is made");
}

fn start() -> Server {
    let (port, folder) = (free_port(), folder("ycsb-mysqld-"));
    // A copy that the server's user may read, wherever the repository is.
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .arg(jars().join("mysql"))
        .arg(folder.join("base"))
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "MySQL is copied");
    let users = folder.join("users.sql");
    std::fs::write(
        &users,
        format!("CREATE USER {TRUSTED}@'%' IDENTIFIED BY '';\nGRANT ALL ON *.* TO {TRUSTED}@'%' WITH GRANT OPTION;\n"),
    )
    .expect("a writable folder");
    let program = folder.join("base/bin/mysqld");
    let common = arguments(&folder);
    let made = command(&program, &folder)
        .args(&common)
        .arg("--initialize-insecure")
        .arg(format!("--init-file={}", users.display()))
        .output()
        .expect("setpriv or mysqld");
    let said = [made.stdout, made.stderr].concat();
    assert!(
        made.status.success(),
        "MySQL needs libaio and libnuma, as Debian's MariaDB does: {}",
        String::from_utf8_lossy(&said)
    );
    let more = [
        format!("--socket={}/socket", folder.display()),
        format!("--port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--mysqlx=OFF".to_owned(),
        "--skip-name-resolve".to_owned(),
        "--innodb-flush-log-at-trx-commit=0".to_owned(),
        "--skip-log-bin".to_owned(),
        "--performance-schema=OFF".to_owned(),
    ];
    let daemon = Daemon::start(&program, &[common, more.to_vec()].concat(), folder);
    daemon.wait_until("MySQL does not start", || {
        super::block_on(async { connect(port, "mysql").await.map(drop) })
    });
    Server { port, daemon }
}

/// The arguments of every run of the program.
fn arguments(folder: &Path) -> Vec<String> {
    let folder = folder.display();
    vec![
        "--no-defaults".to_owned(),
        format!("--basedir={folder}/base"),
        format!("--datadir={folder}/data"),
        format!("--lc-messages-dir={folder}/base/share"),
        format!("--pid-file={folder}/pid"),
        "--innodb-buffer-pool-size=32M".to_owned(),
        "--innodb-log-file-size=8M".to_owned(),
    ]
}
