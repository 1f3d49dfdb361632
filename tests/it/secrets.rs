//! A password is never printed and never stored, however it is given and whatever goes wrong.

use crate::support::block_on;
use crate::support::postgres::{GUARDED, PASSWORD, client, database, server};
use crate::support::program::{Folder, Ran};

/// Every byte but letters and digits, as %XX.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Parts that give it away, raw and encoded: a leak may be partial, or escaped in JSON.
fn needles() -> Vec<String> {
    let parts = [PASSWORD, "p@ss", "ss:w", "w/o", "o?r", "r#d", "d %41"];
    parts.iter().flat_map(|part| [(*part).to_owned(), encoded(part)]).collect()
}

#[track_caller]
fn assert_silent(what: &str, bytes: &[u8]) {
    for needle in needles() {
        let found = bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
        assert!(!found, "{what} contains {needle:?}:\n{}", String::from_utf8_lossy(bytes));
    }
}

/// Runs the program and looks through everything that it prints and writes.
#[track_caller]
fn run(folder: &Folder, arguments: &[String], environment: Option<&str>) -> Ran {
    let mut command = folder.command(arguments);
    if let Some(password) = environment {
        command.env("PGPASSWORD", password);
    }
    let ran = Ran::of(command);
    assert_silent("standard output", ran.out.as_bytes());
    assert_silent("standard error", ran.err.as_bytes());
    for path in ran.results(folder) {
        assert_silent("the result file", &std::fs::read(&path).expect("readable"));
        let path = path.display().to_string();
        assert_silent("inspect --json", folder.ok(&format!("inspect --json {path}")).out.as_bytes());
        assert_silent("inspect", folder.ok(&format!("inspect {path}")).out.as_bytes());
    }
    ran
}

#[test]
fn no_password_is_printed_or_stored_whether_it_works_or_not() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20 -p fieldcount=1");
    block_on(database("secrets"));
    block_on(async {
        let grant = format!("GRANT ALL ON SCHEMA public TO {GUARDED}");
        client("secrets").await.batch_execute(&grant).await.expect("granted");
    });
    let port = server().port;
    let escaped = PASSWORD.replace('\\', "\\\\");
    let words = |text: String| text.split('\t').map(str::to_owned).collect::<Vec<_>>();
    // Ways to give a password, for a database and a password.
    type Way = fn(port: u16, database: &str, password: &str) -> String;
    let ways: [(&str, Way); 6] = [
        ("url", |port, database, password| {
            format!("--url\tpostgres://{GUARDED}:{}@127.0.0.1:{port}/{database}", encoded(password))
        }),
        ("query", |port, database, password| {
            let password = encoded(password);
            format!("--url\tpostgres://127.0.0.1:{port}/{database}?user={GUARDED}&password={password}")
        }),
        ("connection string", |port, database, password| {
            let password = password.replace('\\', "\\\\").replace('\'', "\\'");
            format!(
                "--url\thost=127.0.0.1 port={port} user={GUARDED} dbname={database} password='{password}'"
            )
        }),
        ("pg.password", |port, database, password| {
            format!(
                "-p\tpg.host=127.0.0.1\t-p\tpg.port={port}\t-p\tpg.user={GUARDED}\t-p\tpg.db={database}\t\
                 -p\tpg.password={password}"
            )
        }),
        ("db.passwd", |port, database, password| {
            format!(
                "-p\tdb.url=jdbc:postgresql://127.0.0.1:{port}/{database}\t-p\tdb.user={GUARDED}\t\
                 -p\tdb.passwd={password}"
            )
        }),
        ("PGPASSWORD", |port, database, _| {
            format!("--url\tpostgres://{GUARDED}@127.0.0.1:{port}/{database}")
        }),
    ];
    let wrong_password = format!("{PASSWORD}x");
    for (name, way) in ways {
        for (database, password, code) in
            [("secrets", PASSWORD, 0), ("no_such_database", PASSWORD, 3), ("secrets", &wrong_password, 3)]
        {
            let mut arguments = words("replay\t--db\tpostgres\tworkloada\t--drop".to_owned());
            arguments.extend(words(way(port, database, password)));
            let environment = (name == "PGPASSWORD").then_some(password);
            let ran = run(&folder, &arguments, environment);
            assert_eq!(ran.code, Some(code), "{name} {database}: {}", ran.err);
        }
        // Nobody there to be told.
        let mut arguments = words("replay\t--db\tpostgres\tworkloada\t--drop".to_owned());
        arguments.extend(words(way(1, "secrets", PASSWORD)));
        let environment = (name == "PGPASSWORD").then_some(PASSWORD);
        assert_eq!(run(&folder, &arguments, environment).code, Some(3), "{name}");
    }

    // A URL that is no URL, because the password in it was not encoded.
    let raw = format!("postgres://{GUARDED}:{PASSWORD}@127.0.0.1:{port}/secrets");
    for url in
        [raw.clone(), raw.replace("postgres://", "postgres:/"), format!("mysql://{GUARDED}:{PASSWORD}@h/x")]
    {
        let arguments = words(format!("replay\t--db\tpostgres\tworkloada\t--drop\t--url\t{url}"));
        let ran = run(&folder, &arguments, None);
        assert!(matches!(ran.code, Some(2 | 3)), "{:?}: {}", ran.code, ran.err);
    }

    // Property files with passwords are also given to the other commands.
    folder.write("db.properties", format!("pg.password={escaped}\ndb.passwd={escaped}\n"));
    let shown = run(&folder, &words("gen\tworkloada\t-P\tdb.properties\t--show-config".to_owned()), None);
    assert!(shown.out.contains("pg.password=*** (db.properties:1)"), "{}", shown.out);
    let made = run(
        &folder,
        &words("gen\tworkloada\t-P\tdb.properties\t--records\t10\t--ops\t20\t-o\tmade".to_owned()),
        None,
    );
    assert_eq!(made.code, Some(0));
    for name in folder.names("made") {
        let bytes = std::fs::read(folder.path("made").join(name)).expect("readable");
        assert!(!String::from_utf8_lossy(&bytes).contains(PASSWORD));
        assert!(!String::from_utf8_lossy(&bytes).contains("passw"));
    }
}
