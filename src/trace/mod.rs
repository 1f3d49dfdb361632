//! What is on disk. Every column name, footer key, encoding and version of the two file formats is
//! defined here, once; `traces/README.md` and `analysis/README.md` describe them for readers.
//!
//! Both formats are Parquet that any tool can read: strings for kinds and statuses, signed 64-bit
//! nanoseconds for time, no 8- or 16-bit columns, our metadata as JSON under one footer key.
//!
//! Versions: a file carries `format_version`. A reader accepts its own version and every older one
//! (each has a small recorded file in `traces/golden/` that a test reads), and refuses newer ones.

pub mod chunk;
pub mod encode;
pub mod meta;
pub mod ops;
pub mod runs;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The one key in the Parquet footer that holds our metadata, as JSON.
pub const FOOTER_KEY: &str = "ycsb_trace";
/// Version of the trace format that this program writes.
pub const TRACE_VERSION: u32 = 1;
/// Version of the result format that this program writes.
pub const RESULT_VERSION: u32 = 2;
/// Who wrote a file, e.g. `ycsb-trace 0.1.0`.
pub const GENERATOR: &str = concat!("ycsb-trace ", env!("CARGO_PKG_VERSION"));

/// Column names of both formats, in file order within each.
pub mod column {
    /// Number of the operation in its trace.
    pub const OP_ID: &str = "op_id";
    /// Kind of the operation.
    pub const OP: &str = "op";
    /// Key as sent to the database.
    pub const KEY: &str = "key";
    /// Field numbers read or written; null = all.
    pub const FIELDS: &str = "fields";
    /// Bytes written, parallel to `fields` (inline traces).
    pub const VALUES: &str = "values";
    /// Key of the value stream (seeded traces).
    pub const VALUE_SEED: &str = "value_seed";
    /// Lengths of the values, parallel to `fields` (seeded traces).
    pub const VALUE_LENS: &str = "value_lens";
    /// Rows asked for.
    pub const SCAN_LEN: &str = "scan_len";
    /// Arrival offset from the start.
    pub const AT_NS: &str = "at_ns";
    /// The operation that must have completed before.
    pub const AFTER: &str = "after";
    /// Recorded session (trace), connection (result).
    pub const SESSION: &str = "session";
    /// Recorded transaction.
    pub const TXN: &str = "txn";
    /// When the operation should have started.
    pub const INTENDED_NS: &str = "intended_ns";
    /// When it started.
    pub const START_NS: &str = "start_ns";
    /// When it was answered.
    pub const END_NS: &str = "end_ns";
    /// Part of the lag spent waiting for `after`.
    pub const BLOCKED_NS: &str = "blocked_ns";
    /// How it ended.
    pub const STATUS: &str = "status";
    /// The database's own error code.
    pub const CODE: &str = "code";
    /// Tries, 1 without retries.
    pub const ATTEMPTS: &str = "attempts";
    /// Start of the last try.
    pub const LAST_START_NS: &str = "last_start_ns";
    /// Rows returned or changed.
    pub const ROWS: &str = "rows";
    /// Operations sent in one request share it.
    pub const BATCH: &str = "batch";
    /// Hash of each value that came back.
    pub const OBSERVED: &str = "observed";
    /// When the read of a read-modify-write had found its row.
    pub const READ_END_NS: &str = "read_end_ns";
}

/// A string column of few distinct values.
fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// A list whose items are never null.
fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, false)))
}

/// The columns of a trace.
pub fn trace_schema() -> SchemaRef {
    use column::*;
    Arc::new(Schema::new(vec![
        Field::new(OP_ID, DataType::Int64, false),
        Field::new(OP, dictionary(), false),
        Field::new(KEY, DataType::Utf8, false),
        Field::new(FIELDS, list(DataType::Int32), true),
        Field::new(VALUES, list(DataType::Binary), true),
        Field::new(VALUE_SEED, DataType::Int64, true),
        Field::new(VALUE_LENS, list(DataType::Int32), true),
        Field::new(SCAN_LEN, DataType::Int32, true),
        Field::new(AT_NS, DataType::Int64, true),
        Field::new(AFTER, DataType::Int64, true),
        Field::new(SESSION, DataType::Int32, true),
        Field::new(TXN, DataType::Int64, true),
    ]))
}

/// The columns of a result. What is null where an import does not know it: session, intended start,
/// attempts, rows.
pub fn result_schema() -> SchemaRef {
    use column::*;
    Arc::new(Schema::new(vec![
        Field::new(OP_ID, DataType::Int64, false),
        Field::new(OP, dictionary(), false),
        Field::new(SESSION, DataType::Int32, true),
        Field::new(INTENDED_NS, DataType::Int64, true),
        Field::new(START_NS, DataType::Int64, true),
        Field::new(END_NS, DataType::Int64, true),
        Field::new(BLOCKED_NS, DataType::Int64, true),
        Field::new(STATUS, dictionary(), false),
        Field::new(CODE, dictionary(), true),
        Field::new(ATTEMPTS, DataType::Int32, true),
        Field::new(LAST_START_NS, DataType::Int64, true),
        Field::new(ROWS, DataType::Int32, true),
        Field::new(TXN, DataType::Int64, true),
        Field::new(BATCH, DataType::Int64, true),
        Field::new(OBSERVED, list(DataType::Int64), true),
        Field::new(READ_END_NS, DataType::Int64, true),
    ]))
}

/// The columns of a result of an older version: 1 did not have `read_end_ns`.
pub fn result_schema_of(version: u32) -> SchemaRef {
    let all = result_schema();
    match version {
        1 => Arc::new(Schema::new(all.fields()[..all.fields().len() - 1].to_vec())),
        _ => all,
    }
}

/// zstd at its fastest level: both formats are written beside a running benchmark.
fn zstd() -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(1).expect("1 is a zstd level"))
}

/// Settings shared by both formats. Statistics would cost time and nobody asks for them: our
/// readers scan whole columns.
fn base_properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(GENERATOR.to_owned())
        .set_compression(zstd())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(false)
        // Row groups are closed by the writers, never by a row count.
        .set_max_row_group_row_count(None)
        .set_offset_index_disabled(true)
}

fn path(name: &str) -> ColumnPath {
    ColumnPath::from(name)
}

/// Settings of a trace; [`chunk`] says how each column is encoded.
pub fn trace_properties() -> WriterProperties {
    base_properties().build()
}

/// How a result is encoded, where [`encode`] leaves it to arrow. Measured on 8 million rows of 16 closed-loop sessions, per row:
/// defaults 250–285 ns and 11.7 bytes, delta encoding without a dictionary for the 64-bit columns
/// 133–150 ns and 8.8 bytes; zstd on top of the deltas gains nothing, so they stay uncompressed.
pub fn result_properties() -> WriterProperties {
    use column::*;
    let mut properties = base_properties();
    for name in [OP_ID, INTENDED_NS, START_NS, END_NS, BLOCKED_NS, LAST_START_NS, TXN, BATCH, READ_END_NS] {
        properties = properties
            .set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED)
            .set_column_compression(path(name), Compression::UNCOMPRESSED);
    }
    for name in [SESSION, ATTEMPTS, ROWS] {
        properties = properties.set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    for name in [OP, STATUS, CODE] {
        properties = properties.set_column_dictionary_enabled(path(name), true);
    }
    properties.build()
}

/// May a column of a row group have a value? Not if the file's own count of nulls says so.
fn has_value(group: &RowGroupMetaData, column: &ColumnChunkMetaData) -> bool {
    let nulls = column.statistics().and_then(Statistics::null_count_opt);
    nulls.is_none_or(|nulls| nulls < group.num_rows() as u64)
}

/// Why a file cannot be used. Messages say which file and what to try.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be opened or read.
    #[error("cannot read {path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        cause: std::io::Error,
    },
    /// It is not Parquet, or it is cut off.
    #[error(
        "{path} is not a complete Parquet file ({cause}). If it was cut off while copying, copy it again; \
         if a replay was killed, `ycsb-trace repair` makes a result from its segments"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The decoder's words.
        cause: String,
    },
    /// It is Parquet, but not ours.
    #[error(
        "{path} is a Parquet file, but neither a trace nor a result of ycsb-trace (no {FOOTER_KEY:?} in its footer)"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It is ours, but of the other kind.
    #[error("{path} is a {found}, but a {wanted} is needed here")]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// A newer program wrote it.
    #[error(
        "{path} has format version {found}; this program reads up to {supported}. It was written by {generator}: \
         use that version or a newer one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version this program reads.
        supported: u32,
        /// Who wrote it.
        generator: String,
    },
    /// Its metadata or columns are not what its version says.
    #[error("{path} is inconsistent: {what}")]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
}

/// Which of the two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Operations to execute.
    Trace,
    /// Operations executed.
    Result,
}

impl FileKind {
    /// As in the footer's `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            FileKind::Trace => "trace",
            FileKind::Result => "result",
        }
    }

    fn version(self) -> u32 {
        match self {
            FileKind::Trace => TRACE_VERSION,
            FileKind::Result => RESULT_VERSION,
        }
    }
}

/// An open file of ours with its decoded footer.
#[derive(Debug)]
pub struct Opened {
    /// Where it is.
    pub path: PathBuf,
    /// Trace or result.
    pub kind: FileKind,
    /// The JSON of the footer.
    pub footer: serde_json::Value,
    /// The Parquet metadata, decoded once.
    pub parquet: ArrowReaderMetadata,
    /// The file itself.
    pub file: File,
}

/// Opens a Parquet file and decides whether it is one of ours that this version can read.
pub fn open(path: &Path) -> Result<Opened, FileError> {
    let unreadable = |cause| FileError::Io { path: path.to_owned(), cause };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(unreadable(std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder")));
    }
    let parquet = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
        .map_err(|cause| FileError::Damaged { path: path.to_owned(), cause: cause.to_string() })?;
    let text = parquet
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == FOOTER_KEY))
        .and_then(|pair| pair.value.as_deref())
        .ok_or_else(|| FileError::Foreign { path: path.to_owned() })?;
    let footer: serde_json::Value = serde_json::from_str(text)
        .map_err(|cause| inconsistent(path, format!("its footer is not JSON ({cause})")))?;
    let kind = match footer["kind"].as_str() {
        Some("trace") => FileKind::Trace,
        Some("result") => FileKind::Result,
        other => return Err(inconsistent(path, format!("its footer says kind {other:?}"))),
    };
    let found = footer["format_version"].as_u64().unwrap_or(0);
    if found > u64::from(kind.version()) {
        let generator = footer["generator"].as_str().unwrap_or("an unknown program").to_owned();
        return Err(FileError::Newer { path: path.to_owned(), found, supported: kind.version(), generator });
    }
    Ok(Opened { path: path.to_owned(), kind, footer, parquet, file })
}

impl Opened {
    /// Insists on one kind of file.
    pub fn expect(self, wanted: FileKind) -> Result<Opened, FileError> {
        if self.kind == wanted {
            return Ok(self);
        }
        Err(FileError::WrongKind {
            path: self.path,
            found: self.kind.name().to_owned(),
            wanted: wanted.name(),
        })
    }

    /// The footer as the type of its kind.
    pub fn meta<M: DeserializeOwned>(&self) -> Result<M, FileError> {
        serde_json::from_value(self.footer.clone())
            .map_err(|cause| inconsistent(&self.path, format!("its footer lacks something: {cause}")))
    }

    /// Checks that the columns are those of the format, by name and type.
    pub fn check_columns(&self, wanted: &Schema) -> Result<(), FileError> {
        for field in wanted.fields() {
            let found = self.parquet.schema().field_with_name(field.name());
            match found {
                Ok(found) if found.data_type() == field.data_type() => {}
                Ok(found) => {
                    let what = format!(
                        "column {} has type {}, not {}",
                        field.name(),
                        found.data_type(),
                        field.data_type()
                    );
                    return Err(inconsistent(&self.path, what));
                }
                Err(_) => {
                    return Err(inconsistent(&self.path, format!("column {} is missing", field.name())));
                }
            }
        }
        Ok(())
    }
}

/// Says that a file is not what its version promises.
pub fn inconsistent(path: &Path, what: impl Into<String>) -> FileError {
    FileError::Inconsistent { path: path.to_owned(), what: what.into() }
}
