//! Every property a workload file may mention, in one list. Help, the workloads README, the
//! detection of misspelled names and the defaults all come from here.

use super::dist::DISTRIBUTIONS;

/// Who reads a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// It decides what is in a trace.
    Workload,
    /// YCSB's client reads it; a replay has flags of its own, named in the meaning.
    Client,
    /// YCSB's measurements read it; `analyze` keeps every sample instead.
    Measurement,
}

impl Group {
    /// The heading over the group's table.
    pub const fn title(self) -> &'static str {
        match self {
            Group::Workload => "Workload properties",
            Group::Client => "Client properties",
            Group::Measurement => "Measurement properties",
        }
    }
}

/// One property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PropertyRow {
    /// Its name, case-sensitive.
    pub name: &'static str,
    /// What applies if nobody sets it; empty if there is no default.
    pub default: &'static str,
    /// Unit and meaning.
    pub meaning: &'static str,
    /// Who reads it.
    pub group: Group,
}

const fn workload(name: &'static str, default: &'static str, meaning: &'static str) -> PropertyRow {
    PropertyRow { name, default, meaning, group: Group::Workload }
}

const fn client(name: &'static str, default: &'static str, meaning: &'static str) -> PropertyRow {
    PropertyRow { name, default, meaning, group: Group::Client }
}

const fn measurement(name: &'static str, default: &'static str, meaning: &'static str) -> PropertyRow {
    PropertyRow { name, default, meaning, group: Group::Measurement }
}

/// Every known property that is not a database's ([`DATABASE_PREFIXES`]). Defaults are YCSB's.
pub static PROPERTIES: &[PropertyRow] = &[
    workload(
        "workload",
        "site.ycsb.workloads.CoreWorkload",
        "class; only the core workload (`core` in go-ycsb) is supported",
    ),
    workload(
        "recordcount",
        "0",
        "rows in the table before the run phase; also the number of the first row the run inserts",
    ),
    workload("operationcount", "", "operations of the run phase; required for it"),
    workload("insertstart", "0", "number of the first row loaded"),
    workload(
        "insertcount",
        "",
        "rows loaded, and the rows the run chooses from; default recordcount − insertstart",
    ),
    workload("table", "usertable", "table name"),
    workload("keyprefix", "user", "text before the number in a key"),
    workload(
        "insertorder",
        "hashed",
        "`hashed`: the key shows a hash of the row's number; `ordered`: the number itself",
    ),
    workload("zeropadding", "1", "digits the number in a key has at least, up to 100"),
    workload(
        "keys",
        "ycsb",
        "our own: whose hash, `ycsb` or `go-ycsb`; tables loaded by one cannot be read by the other",
    ),
    workload("fieldcount", "10", "fields per row"),
    workload("fieldnameprefix", "field", "a field's name is this and its number from 0"),
    workload("fieldlength", "100", "bytes per value, or the most of them"),
    workload("minfieldlength", "1", "fewest bytes per value, for lengths that vary"),
    workload(
        "fieldlengthdistribution",
        "constant",
        "`constant`, `uniform`, `zipfian` (short ones favoured) or `histogram`",
    ),
    workload(
        "fieldlengthhistogram",
        "hist.txt",
        "file of the histogram: `BlockSize<TAB>bytes`, then `bucket<TAB>count`",
    ),
    workload("readallfields", "true", "boolean; false: a read or scan fetches one field, chosen at random"),
    workload(
        "readallfieldsbyname",
        "false",
        "boolean; true: a read names every field instead of asking for all",
    ),
    workload("writeallfields", "false", "boolean; true: an update writes every field instead of one"),
    workload(
        "dataintegrity",
        "false",
        "boolean; true: values follow from key, field and length, as in the tool that `keys` names; `run` and `replay --verify` check them without the load trace",
    ),
    workload("readproportion", "0.95", "weight of reads, relative to the sum of all proportions"),
    workload("updateproportion", "0.05", "weight of updates"),
    workload("insertproportion", "0", "weight of inserts"),
    workload("scanproportion", "0", "weight of scans"),
    workload("readmodifywriteproportion", "0", "weight of read-modify-writes"),
    workload(
        "requestdistribution",
        "uniform",
        "which rows: `uniform`, `zipfian`, `latest`, `hotspot`, `exponential` or `sequential`",
    ),
    workload(
        "zipf",
        "ycsb",
        "our own: `ycsb` as YCSB computes `zipfian` and `latest`, `exact` by Zipf's law",
    ),
    workload(
        "zipfian.constant",
        "0.99",
        "our own: exponent of Zipf's law, ≥ 0; other than 0.99 needs `zipf=exact`",
    ),
    workload("hotspotdatafraction", "0.2", "share of the rows that are hot, 0 to 1"),
    workload("hotspotopnfraction", "0.8", "share of the requests that go to hot rows, 0 to 1"),
    workload(
        "exponential.percentile",
        "95",
        "percent of the requests that fall on the newest `exponential.frac` of the rows",
    ),
    workload("exponential.frac", "0.8571428571", "share of the rows meant by `exponential.percentile`"),
    workload("minscanlength", "1", "fewest rows asked for by a scan"),
    workload("maxscanlength", "1000", "most rows asked for by a scan"),
    workload("scanlengthdistribution", "uniform", "`uniform` or `zipfian` (short ones favoured)"),
    client("threadcount", "1", "clients; here `replay --threads`"),
    client("target", "0", "operations per second over all clients, 0 for no limit; here `replay --target`"),
    client("maxexecutiontime", "0", "seconds after which the run ends; here `replay --duration`"),
    client("db", "", "binding class; here `replay --db`"),
    client("dotransactions", "true", "false for the load phase; here `--phase`"),
    client("command", "", "go-ycsb's name for the phase"),
    client("status", "false", "YCSB prints progress"),
    client("status.interval", "10", "seconds between YCSB's progress lines"),
    client("label", "", "text in YCSB's progress lines"),
    client("exporter", "", "class that writes YCSB's report"),
    client("exportfile", "", "file of YCSB's report"),
    client("core_workload_insertion_retry_limit", "0", "how often YCSB repeats a failed load insert"),
    client("core_workload_insertion_retry_interval", "3", "seconds between those"),
    client("core_workload_insertion_keep_going_on_error", "false", "YCSB goes on after a failed load insert"),
    client("batch.size", "1", "go-ycsb's rows per batch; here `replay --load-batch`, in a load"),
    client("spin.sleep", "false", "YCSB waits busily"),
    client("warmuptime", "0", "seconds go-ycsb runs before measuring"),
    client("silence", "true", "go-ycsb hides errors; here every one is kept"),
    client("verbose", "false", "go-ycsb's bindings print statements"),
    client("dropdata", "false", "go-ycsb's bindings drop the table first; here `replay --drop`"),
    client("debug.pprof", ":6060", "address of go-ycsb's profiler"),
    client("columnfamily", "", "column family of YCSB's HBase bindings"),
    client("clientbuffering", "false", "client-side buffering of YCSB's HBase bindings"),
    client("maxscanrate", "", "only in YCSB's template and Bigtable binding"),
    client("scanoptimelimit", "", "only in YCSB's template and Bigtable binding"),
    client("discardscannedrecord", "", "only in YCSB's template and Bigtable binding"),
    measurement("measurementtype", "hdrhistogram", "how YCSB keeps latencies; here every sample is kept"),
    measurement(
        "measurement.interval",
        "op",
        "YCSB: `op`, `intended` or `both`; go-ycsb: seconds between reports",
    ),
    measurement("measurement.raw.output_file", "", "file of YCSB's raw latencies"),
    measurement("measurement.raw.no_summary", "false", "no summary after raw latencies"),
    measurement("measurement.histogram.verbose", "false", "print every bucket"),
    measurement("measurement.trackjvm", "false", "statistics of YCSB's own JVM"),
    measurement("measurement.output_file", "", "file of go-ycsb's report"),
    measurement(
        "hdrhistogram.percentiles",
        "50,95,99",
        "percentiles in YCSB's report; here `analyze --percentiles`",
    ),
    measurement("hdrhistogram.fileoutput", "false", "YCSB writes `.hdr` files"),
    measurement("hdrhistogram.output.path", "", "prefix of those files"),
    measurement("histogram.buckets", "1000", "buckets of 1 ms in YCSB's old histogram"),
    measurement("histogram.percentiles.export", "false", "go-ycsb writes percentiles to files"),
    measurement("histogram.percentiles.export.filepath", "./", "prefix of those files"),
    measurement("timeseries.granularity", "1000", "milliseconds per point of YCSB's time series"),
    measurement("outputstyle", "plain", "style of go-ycsb's report; here `analyze --format`"),
    measurement("reportlatencyforeacherror", "false", "YCSB reports latencies by error"),
    measurement("latencytrackederrors", "", "errors YCSB reports latencies of"),
];

/// Beginnings of properties that belong to a database. Which of them exist is the driver's
/// knowledge, so none is ever called unknown.
pub static DATABASE_PREFIXES: &[&str] = &[
    "aerospike.",
    "arangodb.",
    "as.",
    "azure.",
    "azurecosmos.",
    "badger.",
    "basicdb.",
    "bolt.",
    "cassandra.",
    "cloudspanner.",
    "cockroach.",
    "couchbase.",
    "crdb.",
    "db.",
    "duckdb.",
    "dynamodb.",
    "es.",
    "etcd.",
    "fdb.",
    "fjall.",
    "foundationdb.",
    "geode.",
    "googlebigtable.",
    "googledatastore.",
    "hbase.",
    "ignite.",
    "jdbc.",
    "kudu.",
    "mariadb.",
    "memcached.",
    "minio.",
    "mongodb.",
    "mysql.",
    "orientdb.",
    "pegasus.",
    "pg.",
    "postgrenosql.",
    "redis.",
    "rest.",
    "riak.",
    "rocksdb.",
    "s3.",
    "scylla.",
    "seaweed.",
    "sim.",
    "solr.",
    "spanner.",
    "sqlite.",
    "tarantool.",
    "tidb.",
    "tikv.",
    "voltdb.",
    "yb.",
    "yugabyte.",
    "zookeeper.",
];

/// The row of a property.
pub fn find(name: &str) -> Option<&'static PropertyRow> {
    PROPERTIES.iter().find(|row| row.name == name)
}

/// Is it a property somebody may read?
pub fn is_known(name: &str) -> bool {
    find(name).is_some() || DATABASE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The property that was probably meant by an unknown name.
pub fn suggestion(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let similar = PROPERTIES.iter().map(|row| (strsim::jaro_winkler(&name, row.name), row.name));
    similar
        .filter(|candidate| candidate.0 >= 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|candidate| candidate.1)
}

/// Names of the request distributions, as a list for messages.
pub(super) fn distribution_names() -> Vec<&'static str> {
    DISTRIBUTIONS.iter().map(|row| row.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (index, row) in PROPERTIES.iter().enumerate() {
            assert_eq!(
                PROPERTIES.iter().position(|other| other.name == row.name),
                Some(index),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn misspelled_names_find_their_property() {
        for (wrong, right) in [
            ("operations", "operationcount"),
            ("recordCount", "recordcount"),
            ("requestdistributoin", "requestdistribution"),
            ("threads", "threadcount"),
        ] {
            assert_eq!(suggestion(wrong), Some(right), "{wrong}");
        }
        assert_eq!(suggestion("esc"), None);
        assert!(is_known("pg.host") && is_known("riak.r_val") && !is_known("deleteproportion"));
    }

    #[test]
    fn the_readme_explains_every_property_with_its_default() {
        let readme = include_str!("../../workloads/README.md");
        let mut wanted = String::new();
        for group in [Group::Workload, Group::Client, Group::Measurement] {
            wanted +=
                &format!("### {}\n\n| property | default | meaning |\n| --- | --- | --- |\n", group.title());
            for row in PROPERTIES.iter().filter(|row| row.group == group) {
                let default =
                    if row.default.is_empty() { "–".into() } else { format!("`{}`", row.default) };
                wanted += &format!("| `{}` | {default} | {} |\n", row.name, row.meaning);
            }
            wanted += "\n";
        }
        assert!(readme.contains(wanted.trim_end()), "workloads/README.md must contain:\n\n{wanted}");
    }

    #[test]
    fn the_list_of_distributions_in_the_help_is_complete() {
        let row = find("requestdistribution").unwrap();
        assert!(distribution_names().iter().all(|name| row.meaning.contains(&format!("`{name}`"))));
        assert!(distribution_names().contains(&row.default));
    }
}
