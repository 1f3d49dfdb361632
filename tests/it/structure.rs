//! The architecture's rules, checked by reading the sources: which module may use which, where
//! third-party crates are at home, and that every file says why it exists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which modules of ours a module may use. Left out of the table: everything else is refused.
const MAY_USE: &[(&str, &[&str])] = &[
    ("main", &["cli"]),
    (
        "cli",
        &[
            "analyze",
            "clock",
            "driver",
            "exchange",
            "generate",
            "op",
            "record",
            "replay",
            "rng",
            "slope",
            "statement",
            "trace",
            "units",
            "verify",
            "workload",
        ],
    ),
    ("generate", &["op", "record", "rng", "statement", "trace", "workload"]),
    ("replay", &["clock", "driver", "op", "record", "rng", "slope", "statement", "trace", "verify"]),
    ("verify", &["op", "record", "trace"]),
    ("analyze", &["exchange", "op", "record", "rng", "slope", "trace", "units"]),
    ("exchange", &["op"]),
    ("driver", &["clock", "op", "rng", "statement"]),
    ("workload", &["op", "record", "rng", "statement"]),
    ("trace", &["op", "statement"]),
    ("record", &["rng"]),
    ("slope", &[]),
    ("statement", &[]),
    ("op", &[]),
    ("rng", &[]),
    ("clock", &[]),
    ("units", &[]),
];

/// Where the types of a crate are at home: modules, or files and folders of one.
const HOMES: &[(&str, &[&str])] = &[
    ("arrow_array", &["trace"]),
    ("arrow_buffer", &["trace"]),
    ("arrow_schema", &["trace"]),
    ("arrow_select", &["trace"]),
    ("parquet", &["trace"]),
    ("polars", &["analyze"]),
    ("tokio", &["clock", "driver", "replay"]),
    ("clap", &["cli", "main"]),
    ("toml", &["workload"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("indicatif", &["cli"]),
    ("tokio_postgres", &["driver/postgres"]),
    ("postgres_protocol", &["driver/postgres/wire.rs"]),
    ("socket2", &["driver/postgres/dial.rs"]),
    ("tokio_postgres_rustls", &["driver/postgres"]),
    ("rustls_native_certs", &["driver"]),
    ("rustls", &["driver"]),
    ("rusqlite", &["driver/sqlite.rs", "driver/sqlite/statements.rs"]),
    ("mysql_common", &["driver/mysql"]),
    // Also the name of our module.
    ("redis", &["driver/redis.rs", "driver/mod.rs"]),
    ("jni", &["driver/jdbc/jvm.rs"]),
    ("glob", &["driver/jdbc/classpath.rs"]),
    ("tokio_rustls", &["driver/riak/mod.rs", "driver/mysql"]),
    // Also the name of our module, which the table of drivers mentions.
    ("fjall", &["driver/fjall.rs", "driver/mod.rs"]),
    ("zstd", &["trace/encode/page.rs"]),
];

/// Printing happens where a person is spoken to.
const PRINTERS: &[&str] = &["cli", "main"];

/// A source file: its path below `src`, and its lines without comments and without tests.
struct Source {
    path: PathBuf,
    text: String,
    code: Vec<String>,
}

impl Source {
    /// `driver` for `driver/sqlite.rs` and `driver/mod.rs`, `op` for `op.rs`.
    fn module(&self) -> String {
        let first = self.path.iter().next().expect("a file name").to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }

    fn is_in(&self, homes: &[&str]) -> bool {
        homes.iter().any(|home| *home == self.module() || self.path.starts_with(home))
    }
}

fn sources() -> Vec<Source> {
    fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(root, &path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                let path = path.strip_prefix(root).expect("below the root").to_owned();
                // Unit tests are the last part of a file, or a file called tests.rs.
                let code = text
                    .lines()
                    .take_while(|line| !line.starts_with("#[cfg(test)]") && !path.ends_with("tests.rs"))
                    .map(|line| line.split("//").next().unwrap_or_default().to_owned())
                    .collect();
                found.push(Source { path, text, code });
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    collect(&root, &root, &mut found);
    assert!(found.len() > 40, "only {} sources were found", found.len());
    found
}

/// The names after every `crate::` of a line: one, or those of a `crate::{…}` list.
fn uses(line: &str) -> Vec<&str> {
    let name = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let mut found = Vec::new();
    for marker in ["crate::", "ycsb_trace::"] {
        for (at, _) in line.match_indices(marker) {
            // Not a part of another path such as `not_our_crate::`, and not a visibility.
            let before = line[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') || line[..at].ends_with("pub(in ") {
                continue;
            }
            let rest = &line[at + marker.len()..];
            match rest.strip_prefix('{') {
                Some(list) => {
                    let list = list.split('}').next().unwrap_or_default();
                    found.extend(list.split(',').map(str::trim).map(|item| &item[..name(item)]));
                }
                None => found.push(&rest[..name(rest)]),
            }
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// Is `name` used as a path in this line?
fn mentions(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        line[at + name.len()..].starts_with("::")
            && !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

#[test]
fn modules_use_only_what_the_architecture_says() {
    let rules: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.module() != "lib") {
        let module = source.module();
        let allowed = rules.get(module.as_str()).unwrap_or_else(|| panic!("module {module} has no rule"));
        for line in &source.code {
            for used in uses(line).into_iter().filter(|used| *used != module && !allowed.contains(used)) {
                broken.push(format!("{}: {module} may not use {used}", source.path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn third_party_types_stay_at_home() {
    let mut broken = Vec::new();
    for source in sources() {
        for (name, _) in HOMES.iter().filter(|(_, homes)| !source.is_in(homes)) {
            for line in source.code.iter().filter(|line| mentions(line, name)) {
                broken.push(format!("{}: {name} does not belong here: {line}", source.path.display()));
            }
        }
        // Reports are plain data: a renderer must not compute.
        if source.path.starts_with("analyze/render")
            && source.code.iter().any(|line| mentions(line, "polars"))
        {
            broken.push(format!("{}: a renderer uses polars", source.path.display()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn only_the_command_line_prints() {
    for source in sources().iter().filter(|source| !source.is_in(PRINTERS)) {
        for line in &source.code {
            let prints = ["println!", "eprintln!", "print!(", "eprint!(", "dbg!", "stdout()", "stderr()"];
            assert!(
                !prints.iter().any(|print| line.contains(print)),
                "{} prints: {line}",
                source.path.display()
            );
        }
    }
}

#[test]
fn every_file_says_why_it_exists() {
    for source in sources() {
        assert!(source.text.starts_with("//! "), "{} does not open with //!", source.path.display());
    }
}

#[test]
fn the_rules_are_read_from_the_lines_they_mean() {
    assert_eq!(uses("use crate::op::{Op, OpKind};"), ["op"]);
    assert_eq!(uses("use crate::{op, rng::Stream};"), ["op", "rng"]);
    assert_eq!(uses("let a: crate::op::Op = crate::rng::mix(1);"), ["op", "rng"]);
    assert_eq!(uses("pub(in crate::workload) fn a()"), [""; 0]);
    assert!(mentions("use tokio::sync::Notify;", "tokio"));
    assert!(mentions("use fjall::Database;", "fjall") && !mentions("use super::fjall::Fjall;", "fjall"));
    assert!(!mentions("use not_tokio::sync::Notify;", "tokio"));
}
