//! Encrypted connections to a real PostgreSQL with an authority of its own: libpq's six modes, client
//! certificates, and a message of its own for each way in which a certificate can be wrong.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ycsb_trace::driver::postgres::Postgres;
use ycsb_trace::driver::{Driver, Preparation, TargetError};

use crate::support::authority::Authority;
use crate::support::postgres::{Server, TRUSTED, belongs_to_the_server};
use crate::support::program::Folder;
use crate::support::{block_on, refusal, table, target};

/// Connects only with a certificate of its own.
const HOLDER: &str = "holder";
/// Is let in only when encrypted, and only when not.
const ENCRYPTED: &str = "encrypted";
const PLAIN: &str = "plain";

struct Encrypted {
    server: Server,
    /// Certificates and keys.
    folder: Folder,
}

impl Encrypted {
    fn file(&self, name: &str) -> String {
        self.folder.path(name).to_str().expect("a path in UTF-8").to_owned()
    }

    fn url(&self, user: &str, host: &str, settings: &str) -> String {
        let settings = settings.replace("DIR", &self.file(""));
        format!("postgres://{user}@{host}:{}/postgres?{settings}", self.server.port)
    }

    /// The server shows this certificate from now on.
    fn shows(&self, name: &str) {
        furnish(&self.server.folder.join("data"), &self.folder, name);
        block_on(async {
            let own = crate::support::postgres::connect(self.server.port, "postgres")
                .await
                .expect("the server answers");
            let before: String = own.query_one("SELECT pg_conf_load_time()::text", &[]).await.unwrap().get(0);
            own.batch_execute("SELECT pg_reload_conf()").await.expect("it reloads");
            let begin = Instant::now();
            while own.query_one("SELECT pg_conf_load_time()::text", &[]).await.unwrap().get::<_, String>(0)
                == before
            {
                assert!(begin.elapsed() < Duration::from_secs(30), "the server does not reload");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }
}

/// Puts a certificate where the server looks for it.
fn furnish(data: &Path, folder: &Folder, name: &str) {
    for (from, to) in [
        (format!("{name}.crt"), "server.crt"),
        (format!("{name}.key"), "server.key"),
        ("ca.crt".to_owned(), "ca.crt"),
    ] {
        let to = data.join(to);
        std::fs::copy(folder.path(&from), &to).expect("a certificate");
        belongs_to_the_server(&to);
    }
}

/// The server of these tests. They change its certificate, so they take turns.
fn encrypted() -> std::sync::MutexGuard<'static, Encrypted> {
    static SERVER: OnceLock<std::sync::Mutex<Encrypted>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let folder = Folder::new();
        let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
        folder.write("ca.crt", ours.pem());
        folder.write("foreign-ca.crt", foreign.pem());
        let local = ["localhost", "127.0.0.1"];
        for (name, (certificate, key)) in [
            ("good", ours.signs("server", &local, 2060)),
            ("expired", ours.signs("server", &local, 2021)),
            ("foreign", foreign.signs("server", &local, 2060)),
            ("elsewhere", ours.signs("server", &["db.example.com"], 2060)),
            (HOLDER, ours.signs(HOLDER, &[], 2060)),
            ("stranger", foreign.signs(HOLDER, &[], 2060)),
            ("somebody", ours.signs("somebody", &[], 2060)),
        ] {
            folder.write(&format!("{name}.crt"), certificate);
            let key_file = format!("{name}.key");
            folder.write(&key_file, key);
            only_for_us(&folder.path(&key_file));
        }
        let rules = format!(
            "hostssl all {HOLDER} 127.0.0.1/32 cert\nhostssl all {ENCRYPTED} 127.0.0.1/32 trust\n\
             hostnossl all {PLAIN} 127.0.0.1/32 trust\nhost all {HOLDER},{ENCRYPTED},{PLAIN} 127.0.0.1/32 reject\n"
        );
        let server = Server::start_with(&["ssl=on", "ssl_ca_file=ca.crt"], &rules, |data| furnish(data, &folder, "good"));
        block_on(async {
            let own = crate::support::postgres::connect(server.port, "postgres").await.expect("the server answers");
            let roles = format!("CREATE ROLE {HOLDER} LOGIN SUPERUSER; CREATE ROLE {ENCRYPTED} LOGIN SUPERUSER; CREATE ROLE {PLAIN} LOGIN SUPERUSER");
            own.batch_execute(&roles).await.expect("roles");
        });
        std::sync::Mutex::new(Encrypted { server, folder })
    });
    server.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn only_for_us(key: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
}

/// How the connection is encrypted, by the server, or why there is none.
fn outcome(url: &str) -> Result<String, TargetError> {
    let driver = Postgres::open(&target("pg", url))?;
    block_on(async {
        let prepared = driver.prepare(&table(), Preparation::CreateIfEmpty).await;
        prepared.map(|info| info.settings["encryption"].clone())
    })
}

#[track_caller]
fn succeeds(url: &str, expected: &str) {
    let found = outcome(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    assert!(found.starts_with(expected), "{url}: {found}, not {expected}");
}

#[track_caller]
fn fails(url: &str, expected: &str) {
    let error = outcome(url).map(|found| panic!("{url}: it must fail, and is {found}")).unwrap_err();
    assert!(matches!(error, TargetError::Unusable(_)), "exit code 3: {error}");
    assert!(error.to_string().contains(expected), "{url}: {expected:?} is not in: {error}");
}

#[test]
fn the_six_modes_encrypt_as_libpqs_do() {
    let tls = encrypted();
    for (mode, expected) in [
        ("disable", "none (sslmode disable)"),
        ("allow", "none (sslmode allow)"),
        ("prefer", "TLSv1.3 (sslmode prefer)"),
        ("require", "TLSv1.3 (sslmode require)"),
        ("verify-ca&sslrootcert=DIR/ca.crt", "TLSv1.3 (sslmode verify-ca)"),
        ("verify-full&sslrootcert=DIR/ca.crt", "TLSv1.3 (sslmode verify-full)"),
        ("require&sslrootcert=DIR/ca.crt", "TLSv1.3 (sslmode verify-ca)"),
        ("require&sslnegotiation=postgres", "TLSv1.3 (sslmode require)"),
    ] {
        for host in ["127.0.0.1", "localhost"] {
            succeeds(&tls.url(TRUSTED, host, &format!("sslmode={mode}")), expected);
        }
    }
    let socket = format!(
        "host={} port={} user={TRUSTED} dbname=postgres sslmode=require",
        tls.server.folder.display(),
        tls.server.port
    );
    assert!(outcome(&socket).is_ok(), "a socket is not encrypted, and that is no failure");
    // Where the server insists on one way, allow and prefer give in, and the others do not.
    for mode in ["allow", "prefer", "require"] {
        succeeds(&tls.url(ENCRYPTED, "127.0.0.1", &format!("sslmode={mode}")), "TLSv1.3");
    }
    fails(&tls.url(ENCRYPTED, "127.0.0.1", "sslmode=disable"), "refused user encrypted");
    for mode in ["disable", "allow", "prefer"] {
        succeeds(&tls.url(PLAIN, "127.0.0.1", &format!("sslmode={mode}")), "none");
    }
    fails(&tls.url(PLAIN, "127.0.0.1", "sslmode=require"), "refused user plain");
}

#[test]
fn each_wrong_certificate_of_a_server_has_its_own_message() {
    let tls = encrypted();
    let full =
        |roots: &str| tls.url(TRUSTED, "127.0.0.1", &format!("sslmode=verify-full&sslrootcert=DIR/{roots}"));
    let ca =
        |roots: &str| tls.url(TRUSTED, "127.0.0.1", &format!("sslmode=verify-ca&sslrootcert=DIR/{roots}"));
    fails(&full("foreign-ca.crt"), "is not signed by an authority in");
    fails(&ca("foreign-ca.crt"), "is that the right sslrootcert?");
    tls.shows("expired");
    fails(&full("ca.crt"), "has expired");
    fails(&ca("ca.crt"), "has expired");
    succeeds(&tls.url(TRUSTED, "127.0.0.1", "sslmode=require"), "TLSv1.3");
    tls.shows("foreign");
    fails(&full("ca.crt"), "is not signed by an authority in");
    succeeds(&full("foreign-ca.crt"), "TLSv1.3");
    tls.shows("elsewhere");
    fails(&full("ca.crt"), "is for another name");
    succeeds(&ca("ca.crt"), "TLSv1.3");
    tls.shows("good");
    succeeds(&full("ca.crt"), "TLSv1.3");
    // No TLS at all: the server of the other tests.
    let plain = crate::support::postgres::server().port;
    let url = |mode: &str| format!("postgres://{TRUSTED}@127.0.0.1:{plain}/postgres?sslmode={mode}");
    fails(&url("require"), "does not speak TLS, and sslmode=require insists on it");
    assert!(Postgres::open(&target("pg", &url("prefer"))).is_ok());
}

#[test]
fn a_client_certificate_opens_the_door_and_each_wrong_one_has_its_own_message() {
    let tls = encrypted();
    let with = |name: &str, mode: &str| {
        tls.url(
            HOLDER,
            "127.0.0.1",
            &format!("sslmode={mode}&sslrootcert=DIR/ca.crt&sslcert=DIR/{name}.crt&sslkey=DIR/{name}.key"),
        )
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        succeeds(&with(HOLDER, mode), "TLSv1.3");
    }
    fails(&tls.url(HOLDER, "127.0.0.1", "sslmode=require"), "give the certificate that belongs to this user");
    fails(&with("stranger", "verify-full"), "does not accept our certificate (sslcert)");
    fails(&with("somebody", "verify-full"), "refused user holder: certificate authentication failed");

    let refused = |url: &str, expected: &str| {
        let error = refusal(Postgres::open(&target("pg", url)));
        assert!(matches!(error, TargetError::Request(_)), "exit code 2: {error}");
        assert!(error.to_string().contains(expected), "{expected:?} is not in: {error}");
    };
    let mixed =
        tls.url(HOLDER, "127.0.0.1", "sslmode=require&sslcert=DIR/holder.crt&sslkey=DIR/somebody.key");
    refused(&mixed, "do they belong to each other?");
    refused(
        &tls.url(HOLDER, "h", "sslmode=require&sslcert=DIR/holder.key&sslkey=DIR/holder.key"),
        "holds no certificate",
    );
    refused(&tls.url(HOLDER, "h", "sslmode=require&sslcert=DIR/holder.crt&sslkey=DIR/holder.crt"), "sslkey");
    refused(
        &tls.url(HOLDER, "h", "sslmode=verify-full&sslrootcert=DIR/none.crt"),
        "cannot read the sslrootcert",
    );
    tls.folder.write(
        "locked.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    only_for_us(&tls.folder.path("locked.key"));
    refused(
        &tls.url(HOLDER, "h", "sslmode=require&sslcert=DIR/holder.crt&sslkey=DIR/locked.key"),
        "has a passphrase",
    );
    use std::os::unix::fs::PermissionsExt;
    let open_to_all = tls.folder.path("open.key");
    std::fs::copy(tls.folder.path("holder.key"), &open_to_all).unwrap();
    std::fs::set_permissions(&open_to_all, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(
        &tls.url(HOLDER, "h", "sslmode=require&sslcert=DIR/holder.crt&sslkey=DIR/open.key"),
        "chmod 600 it",
    );
}

#[test]
fn libpqs_variables_and_files_of_the_home_folder_are_read() {
    let tls = encrypted();
    let home = tls.folder.path("home");
    let dot: PathBuf = home.join(".postgresql");
    std::fs::create_dir_all(&dot).unwrap();
    for (from, to) in
        [("ca.crt", "root.crt"), ("holder.crt", "postgresql.crt"), ("holder.key", "postgresql.key")]
    {
        std::fs::copy(tls.folder.path(from), dot.join(to)).unwrap();
    }
    only_for_us(&dot.join("postgresql.key"));
    let port = tls.server.port.to_string();
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 10");
    let run = |variables: &[(&str, &str)]| {
        let mut command = folder.command(&["replay", "--db", "pg", "workloada", "--phase", "run"]);
        command.env("HOME", &home).envs(variables.iter().copied());
        crate::support::program::Ran::of(command)
    };
    let place = [("PGHOST", "localhost"), ("PGPORT", &port), ("PGDATABASE", "postgres")];
    let with = |more: &[(&'static str, &'static str)]| -> Vec<(&str, &str)> {
        place.iter().copied().chain(more.iter().copied()).collect()
    };
    let ran = run(&with(&[("PGUSER", HOLDER), ("PGSSLMODE", "verify-full")])).expect_code(3);
    assert!(ran.err.contains("table usertable"), "we got in: {}", ran.err);
    let ran = run(&with(&[("PGUSER", HOLDER), ("PGSSLMODE", "disable")])).expect_code(3);
    assert!(ran.err.contains("refused user holder"), "{}", ran.err);
    let ran = run(&with(&[("PGUSER", HOLDER), ("PGSSLMODE", "maybe")])).expect_code(2);
    assert!(ran.err.contains("sslmode is none of"), "{}", ran.err);
    let ran = run(&[("PGSERVICE", "mine")]).expect_code(2);
    assert!(ran.err.contains("PGSERVICE is set: service files are not read"), "{}", ran.err);

    // A user with a password: from the file that only its owner can read.
    use crate::support::postgres::{GUARDED, PASSWORD};
    use std::os::unix::fs::PermissionsExt;
    let escaped = PASSWORD.replace('\\', "\\\\").replace(':', "\\:");
    let file = home.join(".pgpass");
    std::fs::write(&file, format!("*:{port}:*:{GUARDED}:{escaped}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let ran = run(&with(&[("PGUSER", GUARDED)])).expect_code(3);
    assert!(ran.err.contains("table usertable"), "we got in: {}", ran.err);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = run(&with(&[("PGUSER", GUARDED)])).expect_code(3);
    assert!(
        ran.err.contains("asks for the password") && ran.err.contains("was not used: chmod 600 it"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("p@ss"), "{}", ran.err);
}

/// The same certificates, met by PostgreSQL's JDBC driver.
#[cfg(feature = "jdbc")]
#[test]
fn each_wrong_certificate_of_a_server_has_its_own_message_by_jdbc_too() {
    use ycsb_trace::driver::jdbc::Jdbc;
    let tls = encrypted();
    let outcome = |host: &str, roots: &str| {
        let settings =
            format!("user={TRUSTED}&password=s3cret&sslmode=verify-full&sslrootcert={}", tls.file(roots));
        let url = format!("jdbc:postgresql://{host}:{}/postgres?{settings}", tls.server.port);
        let driver =
            Jdbc::open(&crate::support::java::with_driver(&url, "postgresql.jar")).expect("understood");
        match block_on(driver.prepare(&table(), Preparation::DropAndCreate)) {
            Ok(_) => "connected".to_owned(),
            Err(error) => {
                assert!(matches!(error, TargetError::Unusable(_)), "exit code 3: {error}");
                assert!(!error.to_string().contains("s3cret"), "{error}");
                error.to_string()
            }
        }
    };
    for (certificate, roots, expected) in [
        ("good", "ca.crt", "connected"),
        ("good", "foreign-ca.crt", "is not signed by an authority that the driver trusts"),
        ("foreign", "ca.crt", "is not signed by an authority that the driver trusts"),
        ("expired", "ca.crt", "has expired; it has to be renewed there"),
        ("elsewhere", "ca.crt", "is for another name"),
    ] {
        tls.shows(certificate);
        let said = outcome("127.0.0.1", roots);
        assert!(said.contains(expected), "{certificate} {roots}\n{said}\nnot {expected:?}");
    }
    tls.shows("good");
}
