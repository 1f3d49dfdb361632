//! What the two tools call things, and which of their settings have no effect here. Whatever is not
//! honoured is named in a warning; nothing is passed over in silence.

use std::path::Path;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::driver::{Driver, Kind, Session, Visitor, dispatch};
use crate::trace::meta::Phase;
use crate::workload::{Properties, table};

/// Whose command line it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Java's YCSB
    Ycsb,
    /// PingCAP's go-ycsb
    GoYcsb,
}

impl Form {
    /// Its report, in the table of formats.
    pub const fn report(self) -> &'static str {
        match self {
            Form::Ycsb => "ycsb",
            Form::GoYcsb => "go-ycsb",
        }
    }

    /// Whose it is: by the dashes of its options, else by the workload class it names, else by the
    /// tool that has this database.
    pub fn of(by_options: Option<Form>, properties: &Properties, db: &str) -> Form {
        if let Some(form) = by_options {
            return form;
        }
        match properties.get("workload").map(|setting| setting.value.trim()) {
            Some("core") => return Form::GoYcsb,
            Some(class) if class.contains("ycsb.workloads") => return Form::Ycsb,
            _ => {}
        }
        if matches!(db, "jdbc" | "riak" | "redis" | "sim") { Form::Ycsb } else { Form::GoYcsb }
    }
}

/// Our name for a database: what a person writes, or YCSB's class.
pub fn database(name: &str) -> &str {
    // site.ycsb.db.JdbcDBClient, com.yahoo.ycsb.db.JdbcDBClient
    match name.rsplit_once('.').map_or(name, |(_, class)| class) {
        "basic" | "BasicDB" => "sim",
        "JdbcDBClient" => "jdbc",
        "RiakKVClient" => "riak",
        "RedisClient" => "redis",
        _ => name,
    }
}

/// Where YCSB's own folder keeps the drivers of its JDBC binding, which its launcher finds without `-cp`:
/// in the release with all bindings, and in that with this one alone.
pub fn drivers(folder: &Path) -> Option<&'static str> {
    let holds = |name: &str, begin: &str| {
        let files = std::fs::read_dir(folder.join(name)).ok().into_iter().flatten().flatten();
        files
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .any(|file| file.starts_with(begin) && file.ends_with(".jar"))
    };
    if holds("jdbc-binding/lib", "") {
        Some("jdbc-binding/lib/*")
    } else {
        holds("lib", "jdbc-binding-").then_some("lib/*")
    }
}

/// go-ycsb's defaults where ours are those of the database.
pub fn go_defaults(db: &str) -> &'static [(&'static str, &'static str)] {
    match db {
        "pg" | "postgres" | "postgresql" | "cockroach" | "cdb" => &[
            ("pg.host", "127.0.0.1"),
            ("pg.port", "5432"),
            ("pg.user", "root"),
            ("pg.db", "test"),
            ("pg.sslmode", "disable"),
        ],
        _ => &[],
    }
}

/// Their settings that are understood and change nothing, with the reason.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("exporter", "the report is YCSB's text; --report json has everything"),
    ("measurement.raw.output_file", "the result file has every sample"),
    ("measurement.raw.no_summary", "the result file has every sample"),
    ("measurement.histogram.verbose", "the result file has every sample"),
    ("measurement.trackjvm", "this program has no JVM of its own"),
    ("hdrhistogram.fileoutput", "use `analyze --format hdr` on the result"),
    ("hdrhistogram.output.path", "use `analyze --format hdr` on the result"),
    ("histogram.buckets", "latencies are exact"),
    ("timeseries.granularity", "use `analyze --window` on the result"),
    ("reportlatencyforeacherror", "the result file has the status and latency of every operation"),
    ("latencytrackederrors", "the result file has the status and latency of every operation"),
    ("histogram.percentiles.export", "use `analyze --format hdr` on the result"),
    ("histogram.percentiles.export.filepath", "use `analyze --format hdr` on the result"),
    ("spin.sleep", "waits use a timer of the kernel"),
    ("core_workload_insertion_retry_interval", "tries follow each other after 20 ms to 1 s, doubling"),
    ("warmuptime", "everything is measured; `analyze` can leave the beginning out"),
    ("silence", "errors are counted and kept, and the first of each kind is shown"),
    ("verbose", "statements are in the result: `inspect` shows them"),
    ("debug.pprof", "there is no profiler to listen for"),
    ("basicdb.verbose", "operations are in the trace and the result, and are not printed"),
    ("columnfamily", "it belongs to a database that this program does not speak to"),
    ("clientbuffering", "it belongs to a database that this program does not speak to"),
    ("maxscanrate", "only YCSB's Bigtable binding reads it"),
    ("scanoptimelimit", "only YCSB's Bigtable binding reads it"),
    ("discardscannedrecord", "only YCSB's Bigtable binding reads it"),
];

/// Most rows of a request, as for `replay --load-batch`.
const MOST_ROWS: usize = 1_000;

/// Settings of batches, those of YCSB's JDBC binding among them.
const BATCHES: [&str; 4] = ["batch.size", "db.batchsize", "jdbc.batchupdateapi", "jdbc.autocommit"];

/// How many values a database takes in a request that writes several rows.
struct BatchValues;

impl Visitor for BatchValues {
    type Output = usize;

    fn visit<D: Driver>(self) -> usize {
        D::Session::BATCH_VALUES
    }
}

/// Rows that a load sends in one request, by the settings of both tools, and a sentence if it is not
/// what they say. go-ycsb's `batch.size` means all kinds of operations, here inserts of the load. YCSB's
/// `db.batchsize` has an effect with `jdbc.batchupdateapi` (rows of a request) or without
/// `jdbc.autocommit` (rows of a transaction); either is one request here. `values`: keys and fields of a row.
pub fn load_batch(
    properties: &Properties,
    db: &str,
    phase: Phase,
    values: usize,
) -> Result<(usize, Option<String>)> {
    let text = |name: &str| properties.get(name).map(|setting| setting.value.trim());
    let is = |name: &str, wanted: &str| text(name).is_some_and(|text| text.eq_ignore_ascii_case(wanted));
    let size = |name: &str| -> Result<Option<usize>> {
        let Some(text) = text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        match text.parse::<i64>() {
            // YCSB's default is -1.
            Ok(size) => Ok(usize::try_from(size).ok().filter(|size| *size > 1)),
            Err(_) => bail!("{name}={text:?} is not a number of rows"),
        }
    };
    let of_ycsb = is("jdbc.batchupdateapi", "true") || is("jdbc.autocommit", "false");
    let (name, asked) = match (size("batch.size")?, size("db.batchsize")?) {
        (Some(size), _) => ("batch.size", size),
        (None, Some(size)) if of_ycsb && phase == Phase::Load => ("db.batchsize", size),
        _ => return Ok((1, None)),
    };
    if phase == Phase::Run {
        return Ok((1, Some(format!("{name} has no effect: the operations of a run are sent one by one"))));
    }
    // Its driver has batches, which lock rows for ever if one fails.
    let herddb = db == "herddb" || text("db.url").is_some_and(|url| url.starts_with("jdbc:herddb"));
    let most = dispatch(db, BatchValues)?.div_euclid(values);
    if most == 0 || herddb {
        let db = if herddb { "herddb" } else { db };
        return Ok((1, Some(format!("{name} has no effect: {db} takes one row in a request here"))));
    }
    let size = asked.min(MOST_ROWS).min(most);
    let less = (size < asked).then(|| format!("{name}={asked}: a request takes {size} rows here"));
    Ok((size, less))
}

/// A sentence for every setting that has no effect on this database; `batched`: those of batches have one.
pub fn without_effect(properties: &Properties, kind: &Kind, batched: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, setting) in properties.iter() {
        if batched && BATCHES.contains(&name) {
            continue;
        }
        let value = setting.value.trim();
        let row = table::find(name);
        let reason = if let Some((_, reason)) = WITHOUT_EFFECT.iter().find(|(theirs, _)| *theirs == name) {
            let default = row.map_or("false", |row| row.default);
            (value != default).then(|| (*reason).to_owned())
        } else if name == "measurementtype" {
            (!matches!(value, "hdrhistogram" | "histogram"))
                .then(|| "the report is that of hdrhistogram; the result file has every sample".to_owned())
        } else if row.is_none() && table::is_known(name) {
            let known =
                kind.options.iter().any(|(option, ..)| *option == name) || name.starts_with("basicdb.");
            (!known).then(|| {
                format!("{} does not know it (`ycsb-trace databases {0}` lists its options)", kind.names[0])
            })
        } else {
            None
        };
        if let Some(reason) = reason {
            // Not the value: it may be a secret.
            sentences.push(format!("{name} ({}) has no effect: {reason}", setting.source));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_tools_are_understood() {
        for (theirs, ours) in [
            ("basic", "sim"),
            ("site.ycsb.BasicDB", "sim"),
            ("com.yahoo.ycsb.db.JdbcDBClient", "jdbc"),
            ("site.ycsb.db.riak.RiakKVClient", "riak"),
            ("cockroach", "cockroach"),
        ] {
            assert_eq!(database(theirs), ours);
        }
    }

    #[test]
    fn drivers_are_found_in_ycsbs_own_folders_and_in_no_other() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let found = || drivers(folder.path());
        for (file, expected) in [
            ("lib/some.jar", None),
            ("jdbc-binding/lib/README", None),
            ("lib/jdbc-binding-0.17.0.jar", Some("lib/*")),
            ("jdbc-binding/lib/postgresql.jar", Some("jdbc-binding/lib/*")),
        ] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, "").expect("a file");
            assert_eq!(found(), expected, "{file}");
        }
    }

    #[test]
    fn a_default_that_somebody_writes_down_is_no_news() {
        let kind = Kind {
            names: &["x"],
            about: "",
            default_address: "",
            options: &[("x.known", "", "")],
            example: "",
            defaults: &[],
            tested_against: "",
        };
        let mut properties = Properties::new();
        for setting in ["silence=true", "spin.sleep=true", "x.known=1", "pg.host=s3cret", "recordcount=5"] {
            properties.add_argument(setting).unwrap();
        }
        let sentences = without_effect(&properties, &kind, false);
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(sentences[0].starts_with("pg.host (-p) has no effect: x does not know it"), "{sentences:?}");
        assert!(sentences[1].starts_with("spin.sleep (-p)"), "{sentences:?}");
    }

    #[test]
    fn batches_are_as_large_as_both_tools_say_where_they_have_an_effect_there() {
        let batch = |settings: &[&str], phase| {
            let mut properties = Properties::new();
            settings.iter().for_each(|setting| properties.add_argument(setting).unwrap());
            load_batch(&properties, "sim", phase, 11).map_err(|error| error.to_string())
        };
        let one_row =
            |name| Ok((1, Some(format!("{name} has no effect: sim takes one row in a request here"))));
        assert_eq!(batch(&[], Phase::Load), Ok((1, None)));
        assert_eq!(batch(&["batch.size=1", "db.batchsize=-1"], Phase::Load), Ok((1, None)));
        assert_eq!(batch(&["batch.size=100"], Phase::Load), one_row("batch.size"));
        assert_eq!(batch(&["db.batchsize=100"], Phase::Load), Ok((1, None)), "none in YCSB either");
        for with in ["jdbc.batchupdateapi=true", "jdbc.autocommit=false"] {
            assert_eq!(batch(&["db.batchsize=100", with], Phase::Load), one_row("db.batchsize"));
        }
        let sentence = batch(&["batch.size=100"], Phase::Run).unwrap().1.unwrap();
        assert!(sentence.contains("the operations of a run are sent one by one"), "{sentence}");
        assert!(batch(&["batch.size=many"], Phase::Load).unwrap_err().contains("is not a number of rows"));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn batches_are_no_larger_than_the_database_takes_them() {
        let mut properties = Properties::new();
        properties.add_argument("batch.size=5000").unwrap();
        for (values, rows) in [(11, 1_000), (101, 324), (32_766, 1)] {
            let (size, sentence) = load_batch(&properties, "sqlite", Phase::Load, values).unwrap();
            assert_eq!(size, rows);
            assert_eq!(sentence, Some(format!("batch.size=5000: a request takes {rows} rows here")));
        }
    }
}
