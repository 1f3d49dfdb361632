//! What the two tools call things, and which of their settings have no effect here. Whatever is not
//! honoured is named in a warning; nothing is passed over in silence.

use clap::ValueEnum;

use crate::driver::Kind;
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

/// A sentence for every setting that has no effect on this database.
pub fn without_effect(properties: &Properties, kind: &Kind) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, setting) in properties.iter() {
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
        let sentences = without_effect(&properties, &kind);
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(sentences[0].starts_with("pg.host (-p) has no effect: x does not know it"), "{sentences:?}");
        assert!(sentences[1].starts_with("spin.sleep (-p)"), "{sentences:?}");
    }
}
