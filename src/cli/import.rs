//! `import`: what another tool logged becomes a result that every command here can read. What the tool
//! did not log stays unknown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use xxhash_rust::xxh3::Xxh3;

use super::Verdict;
use super::progress::count_text;
use super::say::{note, say};
use crate::exchange::{ImportError, Measurement, Row, go_csv, hdr_log, ycsb_raw};
use crate::op::{NEVER_NS, OpKind, Sample, Status, UNKNOWN};
use crate::replay::recorder::Tally;
use crate::trace::meta::{HistogramMeta, HostMeta, OverheadMeta, PACE_UNKNOWN, Phase, RunMeta, ServerMeta};
use crate::trace::runs::RunWriter;
use crate::trace::{GENERATOR, RESULT_VERSION};

/// Rows encoded at once.
const BATCH_ROWS: usize = 8_192;

/// A format that can be imported.
struct FormatRow {
    name: &'static str,
    about: &'static str,
    import: fn(&ImportArgs) -> Result<Imported>,
}

/// Every format.
static FORMATS: &[FormatRow] = &[
    FormatRow {
        name: "ycsb-raw",
        about: "YCSB with measurementtype=raw: its raw output file, or its standard output",
        import: |args| import_rows(args, |file, each, other| ycsb_raw::read(file, each, other)),
    },
    FormatRow {
        name: "go-ycsb-csv",
        about: "go-ycsb with measurementtype=csv",
        import: |args| import_rows(args, |file, each, other| go_csv::read(file, each, other)),
    },
    FormatRow {
        name: "hdr",
        about: "HdrHistogram logs (histograms V2), as YCSB and `analyze --format hdr` write them",
        import: import_histograms,
    },
];

/// A unit of the values of an HdrHistogram log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// What the files are
    #[arg(value_name = "FORMAT", value_parser = formats())]
    pub format: String,
    /// Files of one run
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Name of the database that was measured, for reports
    #[arg(long, value_name = "NAME", default_value = "imported", value_parser = name_of_db)]
    pub db: String,
    /// The phase that was measured
    #[arg(long, value_name = "PHASE", default_value = "run", value_parser = ["load", "run"])]
    pub phase: String,
    /// Unit of the values of an HdrHistogram log whose writer is not known
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<Unit>,
    /// Folder for the result
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.about)))
}

/// It becomes part of a file name.
fn name_of_db(text: &str) -> Result<String, String> {
    let fits = |one: char| one.is_alphanumeric() || "-_.".contains(one);
    if !text.is_empty() && text.chars().all(fits) && !text.starts_with('.') {
        return Ok(text.to_owned());
    }
    Err("give letters, digits, - _ and .".to_owned())
}

/// What an import made.
struct Imported {
    path: PathBuf,
    meta: RunMeta,
    /// Measurements that are no operations, with the number of their rows.
    others: BTreeMap<String, u64>,
}

/// `import`.
pub fn run(args: &ImportArgs) -> Result<Verdict> {
    let format = FORMATS.iter().find(|format| format.name == args.format).expect("checked by the parser");
    let imported = (format.import)(args).context("cannot import")?;
    if !imported.others.is_empty() {
        let others = imported.others.iter().map(|(name, count)| format!("{name} ({})", count_text(*count)));
        note!("left out, because they are no operations: {}", others.collect::<Vec<_>>().join(", "));
    }
    let ops = imported.meta.rows;
    if ops > 0 {
        say!("{}: {} operations", imported.path.display(), count_text(ops))?;
    } else {
        say!(
            "{}: {} histograms, no rows (analyze --footers reads them)",
            imported.path.display(),
            imported.meta.histograms.len()
        )?;
    }
    Ok(Verdict::Done)
}

/// A footer that says where the result came from and nothing else.
fn begin_meta(args: &ImportArgs, began_ns: u64) -> Result<RunMeta> {
    let began = jiff::Timestamp::from_nanosecond(i128::from(began_ns))
        .context("the file begins at a time that cannot be")?;
    let stem = args.files[0].file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let files: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    Ok(RunMeta {
        kind: "result".to_owned(),
        format_version: RESULT_VERSION,
        generator: GENERATOR.to_owned(),
        run_id: format!("{stem}.{}-{}-{}", args.phase, args.db, began.strftime("%Y%m%dT%H%M%SZ")),
        trace: stem,
        // Not the trace of any other run: nobody knows which operations these were.
        trace_hash: hash(&args.files)?,
        phase: if args.phase == "load" { Phase::Load } else { Phase::Run },
        trace_rows: 0,
        shard: None,
        db: args.db.clone(),
        server: ServerMeta::default(),
        config: BTreeMap::from([
            ("imported_format".to_owned(), args.format.clone()),
            ("imported_from".to_owned(), files.join(", ")),
        ]),
        sessions: 0,
        lanes: 0,
        pace: PACE_UNKNOWN.to_owned(),
        target_per_second: None,
        speed: 1.0,
        order: "unknown".to_owned(),
        host: HostMeta::default(),
        started_at: began.to_string(),
        elapsed_ns: 0,
        ended_because: "imported".to_owned(),
        complete: true,
        interrupted: false,
        rows: 0,
        statements: Vec::new(),
        transactions: None,
        counts: BTreeMap::new(),
        errors: Vec::new(),
        overhead: OverheadMeta::default(),
        recorder_stalls: 0,
        sustained: None,
        closing_ns: Vec::new(),
        collections: Vec::new(),
        integrity: None,
        histograms: Vec::new(),
    })
}

/// XXH3 (128 bits) of the files' bytes, one after the other.
fn hash(files: &[PathBuf]) -> Result<String> {
    let mut hash = Xxh3::new();
    let mut part = vec![0; 1 << 18];
    for path in files {
        let cannot_read = || format!("cannot read {}", path.display());
        let mut file = std::fs::File::open(path).with_context(cannot_read)?;
        loop {
            let length = std::io::Read::read(&mut file, &mut part).with_context(cannot_read)?;
            if length == 0 {
                break;
            }
            hash.update(&part[..length]);
        }
    }
    Ok(format!("{:032x}", hash.digest128()))
}

/// Reads one file of rows: each operation, and the names of what is none.
type ReadRows =
    fn(&Path, &mut dyn FnMut(Row<'_>) -> Result<(), String>, &mut dyn FnMut(&str)) -> Result<(), ImportError>;

/// Rows, in two passes so that memory stays flat: the first finds the beginning of the run.
fn import_rows(args: &ImportArgs, read: ReadRows) -> Result<Imported> {
    let mut began_ns = None;
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    for file in &args.files {
        read(
            file,
            &mut |row| {
                began_ns = Some(began_ns.map_or(row.start_ns, |began: u64| began.min(row.start_ns)));
                Ok(())
            },
            &mut |name| *others.entry(name.to_owned()).or_default() += 1,
        )?;
    }
    let Some(began_ns) = began_ns else {
        bail!("{}: it holds no operation", args.files[0].display());
    };
    let mut meta = begin_meta(args, began_ns)?;
    let mut writer = RunWriter::create(&args.results, &mut meta)?;
    match write_rows(args, read, began_ns, &mut writer, &mut meta) {
        Ok(()) => Ok(Imported { path: writer.finish(&meta)?, meta, others }),
        Err(failure) => {
            writer.discard();
            Err(failure)
        }
    }
}

fn write_rows(
    args: &ImportArgs,
    read: ReadRows,
    began_ns: u64,
    writer: &mut RunWriter,
    meta: &mut RunMeta,
) -> Result<()> {
    let mut tally = Tally::default();
    let mut codes = vec![String::new()];
    let mut batch: Vec<Sample> = Vec::with_capacity(BATCH_ROWS);
    let mut rows = 0;
    let mut disk_failure = None;
    for file in &args.files {
        let mut each = |row: Row<'_>| -> Result<(), String> {
            let Measurement { kind, status, code } = row.measurement;
            let changed = || "it changed while it was read".to_owned();
            let start_ns = row.start_ns.checked_sub(began_ns).ok_or_else(changed)?;
            let end_ns = row.end_ns.checked_sub(began_ns).ok_or_else(changed)?;
            let code = codes.iter().position(|known| known == code).unwrap_or_else(|| {
                codes.push(code.to_owned());
                codes.len() - 1
            });
            tally.add(kind, status, start_ns, start_ns, end_ns);
            batch.push(Sample {
                op_id: rows,
                intended_ns: NEVER_NS,
                start_ns,
                end_ns,
                blocked_ns: NEVER_NS,
                last_start_ns: NEVER_NS,
                txn: NEVER_NS,
                session: UNKNOWN,
                rows: UNKNOWN,
                attempts: UNKNOWN,
                code: code as u32,
                read_end_ns: NEVER_NS,
                batch: NEVER_NS,
                observed: 0,
                kind,
                status,
            });
            rows += 1;
            if batch.len() == BATCH_ROWS {
                if disk_failure.is_none() {
                    disk_failure = writer.write(&batch, &codes).err();
                }
                batch.clear();
            }
            Ok(())
        };
        read(file, &mut each, &mut |_| ())?;
    }
    match disk_failure {
        Some(failure) => return Err(failure),
        None => writer.write(&batch, &codes)?,
    }
    tally.fill(meta);
    // Without due times there is only one series.
    meta.histograms.retain(|histogram| histogram.series == "service");
    meta.trace_rows = meta.rows;
    meta.elapsed_ns = tally.last_end_ns;
    Ok(())
}

/// The kind and the series that a tag names: `READ` and `Intended-READ` of YCSB, `READ.lag` of ours.
fn series_of(tag: &str) -> Option<(Measurement<'_>, &'static str)> {
    if let Some((op, series)) = tag.split_once('.') {
        let series = ["service", "response", "lag"].into_iter().find(|known| *known == series)?;
        return Some((Measurement::from_name(op)?, series));
    }
    match tag.strip_prefix("Intended-") {
        Some(op) => Some((Measurement::from_name(op)?, "response")),
        None => Some((Measurement::from_name(tag)?, "service")),
    }
}

/// Histograms: a result without rows. Counts per op and status belong to rows, so it has none.
fn import_histograms(args: &ImportArgs) -> Result<Imported> {
    let mut by_series: BTreeMap<(OpKind, &str), Histogram<u64>> = BTreeMap::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    let (mut began_ns, mut ended_ns) = (u64::MAX, 0);
    for file in &args.files {
        let log = hdr_log::read(file)?;
        let unit_ns = match (args.unit, log.unit_ns) {
            (Some(Unit::Ns), _) => 1,
            (Some(Unit::Us), _) => 1_000,
            (Some(Unit::Ms), _) => 1_000_000,
            (None, Some(unit_ns)) => unit_ns,
            (None, None) => bail!(
                "{}: nothing in it says what the unit of its values is; say --unit ns, us or ms",
                file.display()
            ),
        };
        for interval in &log.intervals {
            if interval.tag.is_empty() {
                bail!("{}: an interval has neither a tag nor the title of a log of YCSB", file.display());
            }
            let count = interval.histogram.len();
            let Some((measurement, series)) =
                series_of(&interval.tag).filter(|(measurement, _)| measurement.status == Status::Ok)
            else {
                *others.entry(interval.tag.clone()).or_default() += count;
                continue;
            };
            began_ns = began_ns.min(interval.start_ns);
            ended_ns = ended_ns.max(interval.start_ns.saturating_add(interval.length_ns));
            let all = by_series
                .entry((measurement.kind, series))
                .or_insert_with(|| Histogram::new(3).expect("3 digits are allowed"));
            add(all, &interval.histogram, unit_ns).with_context(|| format!("{}", file.display()))?;
        }
    }
    if by_series.is_empty() {
        let tags: Vec<&str> = others.keys().map(String::as_str).collect();
        bail!("{}: no tag names an operation ({})", args.files[0].display(), tags.join(", "));
    }
    let mut meta = begin_meta(args, began_ns)?;
    meta.ended_because = "imported; an HdrHistogram log has no rows".to_owned();
    meta.elapsed_ns = ended_ns - began_ns;
    for ((kind, series), histogram) in &by_series {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("writing to memory");
        meta.histograms.push(HistogramMeta {
            op: kind.name().to_owned(),
            series: (*series).to_owned(),
            hdr: base64::engine::general_purpose::STANDARD.encode(bytes),
        });
    }
    let writer = RunWriter::create(&args.results, &mut meta)?;
    Ok(Imported { path: writer.finish(&meta)?, meta, others })
}

/// Adds values in other units. A bucket is taken at its largest value, as HdrHistogram reports it.
fn add(all: &mut Histogram<u64>, more: &Histogram<u64>, unit_ns: u64) -> Result<()> {
    if unit_ns == 1 && all.sigfig() == more.sigfig() {
        return all.add(more).context("the histograms do not add up");
    }
    for bucket in more.iter_recorded() {
        let value = more.highest_equivalent(bucket.value_iterated_to());
        let value_ns = value.checked_mul(unit_ns).context("a latency beyond 584 years")?;
        all.record_n(value_ns, bucket.count_since_last_iteration())
            .context("a latency that cannot be kept")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_name_a_kind_and_a_series() {
        let read = |tag| series_of(tag).map(|(one, series)| (one.kind, one.status, series));
        assert_eq!(read("READ"), Some((OpKind::Read, Status::Ok, "service")));
        assert_eq!(read("Intended-UPDATE"), Some((OpKind::Update, Status::Ok, "response")));
        assert_eq!(read("READ_MODIFY_WRITE.lag"), Some((OpKind::ReadModifyWrite, Status::Ok, "lag")));
        assert_eq!(read("READ-FAILED"), Some((OpKind::Read, Status::Error, "service")));
        assert_eq!(read("READ.median"), None);
        assert_eq!(read("CLEANUP"), None);
    }
}
