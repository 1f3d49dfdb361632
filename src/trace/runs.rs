//! The rows of a result: the writer that a killed replay cannot hurt, and the reader.
//!
//! A Parquet file without its footer is lost, so a running replay writes small closed files
//! (*segments*) into a hidden folder beside the target. At the end their column chunks are copied,
//! undecoded, into one file that gets its name only when it is complete; after a kill, `repair`
//! does the same with the segments that were closed.

use std::fs::{File, TryLockError};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::arrow::{ArrowSchemaConverter, ProjectionMask, add_encoded_arrow_schema_to_metadata};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use super::chunk::with_suffix;
use super::encode::Columns;
use super::meta::RunMeta;
use super::{
    FOOTER_KEY, FileError, FileKind, Opened, column, has_value, inconsistent, result_properties,
    result_schema, result_schema_of,
};
use crate::op::{NEVER_NS, OpKind, Sample, Status, UNKNOWN};

/// Rows per row group: enough for good compression, few enough that a reader's memory stays small.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Writes the samples of one run.
pub struct RunWriter {
    target: PathBuf,
    folder: PathBuf,
    schema: SchemaRef,
    names: Names,
    current: Option<Segment>,
    segments: usize,
    /// `run.json`, locked as long as this run may write: so `repair` leaves it alone.
    _lock: File,
}

/// A segment being written.
struct Segment {
    writer: SerializedFileWriter<BufWriter<File>>,
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    parquet: SchemaDescriptor,
    /// The row group that is not written yet.
    columns: Option<Columns>,
}

impl Segment {
    fn create(path: &Path, schema: &SchemaRef) -> Result<Segment> {
        let file = BufWriter::with_capacity(1 << 18, File::create(path)?);
        let (writer, parquet) = file_writer(file, schema)?;
        let factory = ArrowRowGroupWriterFactory::new(&writer, schema.clone());
        Ok(Segment { writer, factory, schema: schema.clone(), parquet, columns: None })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = match &mut self.columns {
            Some(columns) => columns,
            none => none.insert(Columns::new(&self.schema, &self.parquet, &self.factory)?),
        };
        columns.write(batch)?;
        if columns.rows >= ROW_GROUP_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let Some(columns) = self.columns.take() else { return Ok(()) };
        let mut row_group = self.writer.next_row_group()?;
        for column in columns.close()? {
            column.append_to(&mut row_group)?;
        }
        row_group.close()?;
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        self.flush()?;
        self.writer.into_inner()?.flush()?;
        Ok(())
    }
}

/// A Parquet file with the columns of `schema`, encoded as a result is.
fn file_writer<W: Write + Send>(
    file: W,
    schema: &SchemaRef,
) -> Result<(SerializedFileWriter<W>, SchemaDescriptor)> {
    let mut properties = result_properties();
    add_encoded_arrow_schema_to_metadata(schema, &mut properties);
    let parquet = ArrowSchemaConverter::new().convert(schema)?;
    Ok((SerializedFileWriter::new(file, parquet.root_schema_ptr(), Arc::new(properties))?, parquet))
}

/// The dictionaries of the string columns, and the columns that are null in every row.
struct Names {
    ops: ArrayRef,
    statuses: ArrayRef,
}

/// The folder of the segments that will become `target`.
fn segment_folder(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.segments"))
}

impl RunWriter {
    /// Reserves a name in `folder` (`STEM.parquet`, or `STEM-2.parquet` … if that is taken) and
    /// begins. `meta` is kept with the segments, for `repair`.
    pub fn create(folder: &Path, meta: &mut RunMeta) -> Result<RunWriter> {
        let doing = || format!("cannot write results into the folder {}", folder.display());
        std::fs::create_dir_all(folder).with_context(doing)?;
        let stem = meta.run_id.clone();
        let mut number = 1;
        let (target, segments) = loop {
            let target = folder.join(format!("{}.parquet", meta.run_id));
            let segments = segment_folder(&target);
            if !target.exists() {
                match std::fs::create_dir(&segments) {
                    Ok(()) => break (target, segments),
                    Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => {}
                    Err(cause) => return Err(cause).with_context(doing),
                }
            }
            number += 1;
            meta.run_id = format!("{stem}-{number}");
        };
        let json = serde_json::to_string_pretty(meta).expect("a footer is plain data");
        let mut lock = File::create(segments.join("run.json")).with_context(doing)?;
        // A file system that cannot lock only loses the protection against an early repair.
        let _ = lock.try_lock();
        lock.write_all(json.as_bytes()).with_context(doing)?;
        let names = Names {
            ops: Arc::new(StringArray::from_iter_values(OpKind::ALL.iter().map(|kind| kind.name()))),
            statuses: Arc::new(StringArray::from_iter_values(Status::ALL.iter().map(|status| status.name()))),
        };
        Ok(RunWriter {
            target,
            folder: segments,
            schema: result_schema(),
            names,
            current: None,
            segments: 0,
            _lock: lock,
        })
    }

    /// The file that will hold the result.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Encodes samples; `codes[sample.code]` is the text of an error code, and `codes[0]` is unused.
    pub fn write(&mut self, samples: &[Sample], codes: &[String]) -> Result<()> {
        self.write_observed(samples, codes, &[])
    }

    /// Like [`write`](Self::write), with the hashes of what came back: each sample's `observed`, one
    /// after the other.
    pub fn write_observed(&mut self, samples: &[Sample], codes: &[String], observed: &[u64]) -> Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        let batch = self.batch(samples, codes, observed);
        let doing = || format!("cannot write to {}", self.folder.display());
        if self.current.is_none() {
            let path = self.segment_path(".open");
            self.current = Some(Segment::create(&path, &self.schema).with_context(doing)?);
        }
        let segment = self.current.as_mut().expect("just opened");
        segment.write(&batch).with_context(doing)
    }

    /// Closes the current segment, if there is one: its rows survive whatever happens next.
    pub fn close_segment(&mut self) -> Result<()> {
        let Some(segment) = self.current.take() else { return Ok(()) };
        let doing = || format!("cannot write to {}", self.folder.display());
        segment.close().with_context(doing)?;
        std::fs::rename(self.segment_path(".open"), self.segment_path("")).with_context(doing)?;
        self.segments += 1;
        Ok(())
    }

    fn segment_path(&self, suffix: &str) -> PathBuf {
        self.folder.join(format!("{:06}.parquet{suffix}", self.segments))
    }

    /// Joins the segments into the result file and removes them.
    pub fn finish(mut self, meta: &RunMeta) -> Result<PathBuf> {
        self.close_segment()?;
        join(&self.target, &self.folder, meta)?;
        Ok(self.target)
    }

    /// Gives up before the first row and frees the name.
    pub fn discard(self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// The folder of the segments, for messages.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn batch(&self, samples: &[Sample], codes: &[String], observed: &[u64]) -> RecordBatch {
        RecordBatch::try_new(
            self.schema.clone(),
            vec![
                longs(samples, |sample| sample.op_id),
                coded(samples, |sample| sample.kind as i32, &self.names.ops),
                integers(samples, |sample| sample.session),
                optional(samples, |sample| sample.intended_ns),
                optional(samples, |sample| sample.start_ns),
                optional(samples, |sample| sample.end_ns),
                optional(samples, |sample| sample.blocked_ns),
                coded(samples, |sample| sample.status as i32, &self.names.statuses),
                code_array(samples, codes),
                integers(samples, |sample| sample.attempts),
                optional(samples, |sample| sample.last_start_ns),
                integers(samples, |sample| sample.rows),
                optional(samples, |sample| sample.txn),
                optional(samples, |sample| sample.batch),
                self.observed_array(samples, observed),
                optional(samples, |sample| sample.read_end_ns),
            ],
        )
        .expect("the columns are those of the schema")
    }

    fn observed_array(&self, samples: &[Sample], observed: &[u64]) -> ArrayRef {
        let DataType::List(item) =
            self.schema.field_with_name(column::OBSERVED).expect("of the schema").data_type()
        else {
            unreachable!("observed is a list");
        };
        if observed.is_empty() {
            return Arc::new(ListArray::new_null(item.clone(), samples.len()));
        }
        let offsets = OffsetBuffer::from_lengths(samples.iter().map(|sample| sample.observed as usize));
        let items: Vec<i64> = observed.iter().map(|hash| hash.cast_signed()).collect();
        let valid = NullBuffer::from_iter(samples.iter().map(|sample| sample.observed > 0));
        Arc::new(ListArray::new(item.clone(), offsets, Arc::new(Int64Array::from(items)), Some(valid)))
    }
}

/// A column of numbers that always exist.
fn longs(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> ArrayRef {
    let values: Vec<i64> = samples.iter().map(|sample| of(sample) as i64).collect();
    Arc::new(Int64Array::new(ScalarBuffer::from(values), None))
}

/// A column in which [`NEVER_NS`] stands for null. Most of them have no value at all.
fn optional(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> ArrayRef {
    if samples.iter().all(|sample| of(sample) == NEVER_NS) {
        return Arc::new(Int64Array::new_null(samples.len()));
    }
    let values: Vec<i64> = samples.iter().map(|sample| of(sample) as i64).collect();
    let any_null = values.contains(&(NEVER_NS as i64));
    let valid =
        any_null.then(|| values.iter().map(|&value| value != NEVER_NS as i64).collect::<NullBuffer>());
    Arc::new(Int64Array::new(ScalarBuffer::from(values), valid))
}

/// A column of small numbers, in which [`UNKNOWN`] stands for null.
fn integers(samples: &[Sample], of: impl Fn(&Sample) -> u32) -> ArrayRef {
    let values: Vec<i32> = samples.iter().map(|sample| of(sample) as i32).collect();
    let any_null = values.contains(&(UNKNOWN as i32));
    let valid = any_null.then(|| values.iter().map(|&value| value != UNKNOWN as i32).collect::<NullBuffer>());
    Arc::new(Int32Array::new(ScalarBuffer::from(values), valid))
}

/// A string column of few distinct values, given by their positions in `names`.
fn coded(samples: &[Sample], of: impl Fn(&Sample) -> i32, names: &ArrayRef) -> ArrayRef {
    let keys = Int32Array::from_iter_values(samples.iter().map(of));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, names.clone()))
}

fn code_array(samples: &[Sample], codes: &[String]) -> ArrayRef {
    let rows = samples.len();
    let used = samples.iter().any(|sample| sample.code != 0);
    let keys = if used {
        Int32Array::from_iter(samples.iter().map(|sample| (sample.code != 0).then_some(sample.code as i32)))
    } else {
        Int32Array::new_null(rows)
    };
    let names = StringArray::from_iter_values(if used { codes } else { &[] });
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(names)))
}

/// The closed segments of a folder, in order.
fn closed_segments(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            segments.push(path);
        }
    }
    segments.sort();
    Ok(segments)
}

/// Makes `target` from the closed segments in `folder` and removes the folder. After a failure the
/// segments are there as before, and nothing else.
fn join(target: &Path, folder: &Path, meta: &RunMeta) -> Result<()> {
    let partial = with_suffix(target, ".partial");
    let joined = write_joined(&partial, folder, meta)
        .and_then(|()| std::fs::rename(&partial, target).map_err(Into::into))
        .with_context(|| {
            format!("cannot write {} from the segments in {}", target.display(), folder.display())
        });
    joined.inspect_err(|_| drop(std::fs::remove_file(&partial)))?;
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Copies the column chunks of the closed segments into a file of their own, and writes the footer.
fn write_joined(path: &Path, folder: &Path, meta: &RunMeta) -> Result<()> {
    let file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut writer, _) = file_writer(file, &result_schema_of(meta.format_version))?;
    for segment in closed_segments(folder)? {
        let file = File::open(&segment)?;
        let reader = SerializedFileReader::new(file.try_clone()?)
            .with_context(|| format!("{} is not a complete segment", segment.display()))?;
        for row_group in reader.metadata().row_groups() {
            let mut joined = writer.next_row_group()?;
            for column in row_group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size() as u64,
                    rows_written: row_group.num_rows() as u64,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                joined.append_column(&file, close)?;
            }
            joined.close()?;
        }
    }
    let json = serde_json::to_string(meta).expect("a footer is plain data");
    writer.append_key_value_metadata(KeyValue::new(FOOTER_KEY.to_owned(), json));
    let mut file = writer.into_inner()?;
    file.flush()?;
    file.get_ref().sync_all()?;
    Ok(())
}

/// A run whose replay did not end by itself: segments without a result.
pub struct Unfinished {
    /// The file that the segments will become.
    pub target: PathBuf,
    /// What was known when the run began.
    pub meta: RunMeta,
    /// Its replay (or another repair) is still at work: leave it alone.
    pub is_running: bool,
    folder: PathBuf,
    /// Locked, so that nobody else repairs it.
    _lock: File,
}

/// The unfinished runs in a results folder (or the one whose segment folder or target this is).
pub fn unfinished(path: &Path) -> Result<Vec<Unfinished>> {
    let is_segments = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with('.') && name.ends_with(".segments")
    };
    let mut folders = Vec::new();
    if is_segments(path) {
        folders.push(path.to_owned());
    } else if segment_folder(path).is_dir() {
        folders.push(segment_folder(path));
    } else {
        for entry in std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))? {
            let path = entry?.path();
            if is_segments(&path) && path.is_dir() {
                folders.push(path);
            }
        }
        folders.sort();
    }
    let mut found = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".segments")).unwrap_or(&name);
        let target = folder.with_file_name(name);
        let named = |file: &RunFile| target.file_stem().is_some_and(|stem| stem == file.meta.run_id.as_str());
        if RunFile::open(&target).is_ok_and(|file| named(&file)) {
            // It was cut off when the result was complete, and only its segments were still there.
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
            continue;
        }
        // Cut off before it began: there is nothing to lose.
        let is_known = std::fs::metadata(folder.join("run.json")).is_ok_and(|file| file.len() > 0);
        if !is_known && closed_segments(&folder).is_ok_and(|segments| segments.is_empty()) {
            continue;
        }
        let mut lock = File::open(folder.join("run.json"))
            .with_context(|| format!("{} holds no run.json, so it is no run of ours", folder.display()))?;
        let is_running = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
        let cannot_read = || format!("cannot read the run.json of {}", folder.display());
        let mut json = String::new();
        lock.read_to_string(&mut json).with_context(cannot_read)?;
        let meta = serde_json::from_str(&json).with_context(cannot_read)?;
        register(&target, &meta)?;
        found.push(Unfinished { target, meta, is_running, folder, _lock: lock });
    }
    Ok(found)
}

impl Unfinished {
    /// Every row of the closed segments.
    pub fn scan(&self, mut each: impl FnMut(&RunColumns)) -> Result<()> {
        for segment in closed_segments(&self.folder)? {
            let file = File::open(&segment)?;
            let parquet = ArrowReaderMetadata::load(&file, Default::default())
                .with_context(|| format!("{} is not a complete segment", segment.display()))?;
            let opened = Opened {
                path: segment.clone(),
                kind: FileKind::Result,
                footer: serde_json::Value::Null,
                parquet,
                file,
            };
            opened.check_columns(&result_schema_of(self.meta.format_version))?;
            for group in 0..opened.parquet.metadata().num_row_groups() {
                scan_row_group(&opened, group, &mut each)?;
            }
        }
        Ok(())
    }

    /// Makes the result with this footer.
    pub fn finish(self, meta: &RunMeta) -> Result<PathBuf> {
        if self.target.exists() {
            bail!("{} exists already; move it away to repair this run", self.target.display());
        }
        join(&self.target, &self.folder, meta)?;
        Ok(self.target)
    }
}

/// A batch of rows of a result, with the columns that every analysis needs. A time that does not
/// exist is [`NEVER_NS`].
#[derive(Debug, Clone)]
pub struct RunColumns {
    /// Number of the operation in its trace.
    pub op_id: ScalarBuffer<i64>,
    /// Kind of each row.
    pub kinds: Vec<OpKind>,
    /// Ending of each row.
    pub statuses: Vec<Status>,
    /// When it should have started, ns; its start where that is unknown.
    pub intended_ns: ScalarBuffer<i64>,
    /// When it started, ns.
    pub start_ns: Vec<u64>,
    /// When it was answered, ns.
    pub end_ns: Vec<u64>,
}

/// An open result.
pub struct RunFile {
    opened: Opened,
    /// What the result says about itself.
    pub meta: RunMeta,
}

impl RunFile {
    /// Opens a result and checks its footer and columns.
    pub fn open(path: &Path) -> Result<RunFile, FileError> {
        let opened = super::open(path)?.expect(FileKind::Result)?;
        let meta: RunMeta = opened.meta()?;
        register(path, &meta)?;
        opened.check_columns(&result_schema_of(meta.format_version))?;
        let rows = opened.parquet.metadata().file_metadata().num_rows();
        if rows != meta.rows as i64 {
            return Err(inconsistent(
                path,
                format!("it holds {rows} rows, but its footer says {}", meta.rows),
            ));
        }
        Ok(RunFile { opened, meta })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    /// Parts that can be scanned independently, e.g. by several threads.
    pub fn row_groups(&self) -> usize {
        self.opened.parquet.metadata().num_row_groups()
    }

    /// Hands the rows of one row group to `each`, batch by batch.
    pub fn scan(&self, row_group: usize, mut each: impl FnMut(&RunColumns)) -> Result<(), FileError> {
        scan_row_group(&self.opened, row_group, &mut each)
    }

    /// Numbers of the operations of one row group, and their intended starts (an empty list if they
    /// are not wanted), batch by batch.
    pub fn scan_ids(
        &self,
        row_group: usize,
        with_intended: bool,
        mut each: impl FnMut(&[i64], &[i64]),
    ) -> Result<(), FileError> {
        use column::*;
        let mut wanted = vec![OP_ID];
        wanted.extend(with_intended.then_some([INTENDED_NS, START_NS]).into_iter().flatten());
        for batch in batches(&self.opened, row_group, &wanted)? {
            let batch = batch.map_err(|cause| damaged(&self.opened, cause))?;
            let longs = |name| {
                let column = batch.column_by_name(name).expect("columns were checked at opening");
                column.as_primitive::<Int64Type>()
            };
            let intended_ns =
                if with_intended { intended(longs(INTENDED_NS), longs(START_NS)) } else { Vec::new().into() };
            each(longs(OP_ID).values(), &intended_ns);
        }
        Ok(())
    }

    /// Like [`scan`](Self::scan), with what a verification needs.
    pub fn scan_observations(
        &self,
        row_group: usize,
        mut each: impl FnMut(&RunObservations),
    ) -> Result<(), FileError> {
        use column::*;
        let leaf = format!("{OBSERVED}.list.item");
        let wanted =
            [OP_ID, OP, STATUS, INTENDED_NS, START_NS, END_NS, ATTEMPTS, LAST_START_NS, leaf.as_str()];
        for batch in batches(&self.opened, row_group, &wanted)? {
            let batch = batch.map_err(|cause| damaged(&self.opened, cause))?;
            let column = |name| batch.column_by_name(name).expect("columns were checked at opening");
            let observed = column(OBSERVED).as_list::<i32>().clone();
            each(&RunObservations {
                columns: columns(&self.opened.path, &batch)?,
                attempts: column(ATTEMPTS).as_primitive::<Int32Type>().values().clone(),
                last_start_ns: times(column(LAST_START_NS).as_primitive::<Int64Type>()),
                hashes: observed.values().as_primitive::<Int64Type>().values().clone(),
                observed,
            });
        }
        Ok(())
    }

    /// Like [`scan`](Self::scan), with what tells transactions.
    pub fn scan_transactions(
        &self,
        row_group: usize,
        mut each: impl FnMut(&RunTransactions),
    ) -> Result<(), FileError> {
        use column::*;
        let wanted = [OP_ID, OP, SESSION, STATUS, INTENDED_NS, START_NS, END_NS, ATTEMPTS, TXN];
        for batch in batches(&self.opened, row_group, &wanted)? {
            let batch = batch.map_err(|cause| damaged(&self.opened, cause))?;
            let column = |name| batch.column_by_name(name).expect("columns were checked at opening");
            each(&RunTransactions {
                columns: columns(&self.opened.path, &batch)?,
                attempts: column(ATTEMPTS).as_primitive::<Int32Type>().values().clone(),
                sessions: column(SESSION).as_primitive::<Int32Type>().values().clone(),
                txn: times(column(TXN).as_primitive::<Int64Type>()),
            });
        }
        Ok(())
    }

    /// Like [`scan`](Self::scan), with only the columns that latencies need; the database's codes,
    /// and who waited for what, are decoded if asked for.
    pub fn scan_times(
        &self,
        row_group: usize,
        with_codes: bool,
        with_sessions: bool,
        each: impl FnMut(&RunTimes),
    ) -> Result<(), FileError> {
        self.scan_requests(row_group, with_codes, with_sessions, false, each)
    }

    /// Is there a code in these rows? If the file says that there is none, a fifth of an analysis is saved.
    fn has_codes(&self, row_group: usize) -> bool {
        let group = self.opened.parquet.metadata().row_group(row_group);
        let codes = group.columns().iter().find(|one| one.column_path().string() == column::CODE);
        codes.is_none_or(|codes| has_value(group, codes))
    }

    /// Like [`scan_times`](Self::scan_times), also with what tells the requests of an operation and the
    /// rows of an answer.
    pub fn scan_requests(
        &self,
        row_group: usize,
        with_codes: bool,
        with_sessions: bool,
        with_requests: bool,
        mut each: impl FnMut(&RunTimes),
    ) -> Result<(), FileError> {
        use column::*;
        let path = &self.opened.path;
        let with_codes = with_codes && self.has_codes(row_group);
        let mut wanted = vec![OP, STATUS, INTENDED_NS, START_NS, END_NS];
        wanted.extend(with_codes.then_some(CODE));
        wanted.extend(with_sessions.then_some([SESSION, BLOCKED_NS]).into_iter().flatten());
        let has_read_ends = with_requests && self.meta.format_version > 1;
        wanted.extend(with_requests.then_some(ROWS));
        wanted.extend(has_read_ends.then_some(READ_END_NS));
        for batch in batches(&self.opened, row_group, &wanted)? {
            let batch = batch.map_err(|cause| damaged(&self.opened, cause))?;
            let column = |name| batch.column_by_name(name).expect("columns were checked at opening");
            let longs = |name| column(name).as_primitive::<Int64Type>();
            each(&RunTimes {
                kinds: decode(path, column(OP), OpKind::from_name)?,
                statuses: decode(path, column(STATUS), Status::from_name)?,
                intended_ns: intended(longs(INTENDED_NS), longs(START_NS)),
                start_ns: times(longs(START_NS)),
                end_ns: times(longs(END_NS)),
                codes: with_codes.then(|| column(CODE).as_dictionary::<Int32Type>().clone()),
                sessions: match with_sessions {
                    true => column(SESSION).as_primitive::<Int32Type>().values().clone(),
                    false => Vec::new().into(),
                },
                blocked_ns: if with_sessions { times(longs(BLOCKED_NS)) } else { Vec::new() },
                rows: match with_requests {
                    true => column(ROWS).as_primitive::<Int32Type>().values().clone(),
                    false => Vec::new().into(),
                },
                read_end_ns: if has_read_ends { times(longs(READ_END_NS)) } else { Vec::new() },
            });
        }
        Ok(())
    }
}

/// Makes the names of a result's statements known.
fn register(path: &Path, meta: &RunMeta) -> Result<(), FileError> {
    for name in &meta.statements {
        OpKind::register(name).ok_or_else(|| super::ops::too_many_statements(path))?;
    }
    Ok(())
}

/// A batch of rows of a result, with the columns that a verification needs.
#[derive(Debug, Clone)]
pub struct RunObservations {
    /// What every analysis needs.
    pub columns: RunColumns,
    /// Tries of each row.
    pub attempts: ScalarBuffer<i32>,
    /// When the last try started, if there was more than one.
    pub last_start_ns: Vec<u64>,
    observed: ListArray,
    hashes: ScalarBuffer<i64>,
}

impl RunObservations {
    /// Hashes of what came back to a row's operation, in order; empty if none were kept.
    pub fn observed(&self, row: usize) -> &[i64] {
        if self.observed.is_null(row) {
            return &[];
        }
        let offsets = self.observed.value_offsets();
        &self.hashes[offsets[row] as usize..offsets[row + 1] as usize]
    }
}

/// A batch of rows of a result, with what tells transactions.
#[derive(Debug, Clone)]
pub struct RunTransactions {
    /// What every analysis needs.
    pub columns: RunColumns,
    /// Tries of each row; 0 if it was never tried.
    pub attempts: ScalarBuffer<i32>,
    /// Connection of each row.
    pub sessions: ScalarBuffer<i32>,
    /// The transaction of each row; [`NEVER_NS`] if it belongs to none.
    pub txn: Vec<u64>,
}

/// A batch of rows of a result, with the columns that latencies need. A time that does not exist
/// is [`NEVER_NS`].
#[derive(Debug, Clone)]
pub struct RunTimes {
    /// Kind of each row.
    pub kinds: Vec<OpKind>,
    /// Ending of each row.
    pub statuses: Vec<Status>,
    /// When it should have started, ns; its start where that is unknown.
    pub intended_ns: ScalarBuffer<i64>,
    /// When it started, ns.
    pub start_ns: Vec<u64>,
    /// When it was answered, ns.
    pub end_ns: Vec<u64>,
    /// Which connection; empty if not asked for.
    pub sessions: ScalarBuffer<i32>,
    /// Part of the lag spent waiting for another op; empty if not asked for.
    pub blocked_ns: Vec<u64>,
    /// Rows returned or changed; empty if not asked for.
    pub rows: ScalarBuffer<i32>,
    /// When the read of a read-modify-write had found its row; empty if not asked for or not known.
    pub read_end_ns: Vec<u64>,
    codes: Option<DictionaryArray<Int32Type>>,
}

impl RunTimes {
    /// The database's code of a row; empty if it gave none or codes were not asked for.
    pub fn code(&self, row: usize) -> &str {
        let Some(codes) = &self.codes else { return "" };
        match codes.key(row) {
            Some(key) => codes.values().as_string::<i32>().value(key),
            None => "",
        }
    }
}

/// The batches of one row group with these columns. The file is opened anew: clones of one handle
/// share its position, so threads that scan row groups of one file would read each other's bytes.
fn batches(
    opened: &Opened,
    row_group: usize,
    wanted: &[&str],
) -> Result<ParquetRecordBatchReader, FileError> {
    let file =
        File::open(&opened.path).map_err(|cause| FileError::Io { path: opened.path.clone(), cause })?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, opened.parquet.clone());
    let mask = ProjectionMask::columns(builder.parquet_schema(), wanted.iter().copied());
    builder
        .with_projection(mask)
        .with_row_groups(vec![row_group])
        .with_batch_size(16_384)
        .build()
        .map_err(|cause| damaged(opened, cause))
}

fn damaged(opened: &Opened, cause: impl ToString) -> FileError {
    FileError::Damaged { path: opened.path.clone(), cause: cause.to_string() }
}

fn scan_row_group(
    opened: &Opened,
    row_group: usize,
    each: &mut impl FnMut(&RunColumns),
) -> Result<(), FileError> {
    use column::*;
    for batch in batches(opened, row_group, &[OP_ID, OP, STATUS, INTENDED_NS, START_NS, END_NS])? {
        let batch = batch.map_err(|cause| damaged(opened, cause))?;
        each(&columns(&opened.path, &batch)?);
    }
    Ok(())
}

fn columns(path: &Path, batch: &RecordBatch) -> Result<RunColumns, FileError> {
    use column::*;
    let column = |name| batch.column_by_name(name).expect("columns were checked at opening");
    let longs = |name| column(name).as_primitive::<Int64Type>();
    Ok(RunColumns {
        op_id: longs(OP_ID).values().clone(),
        kinds: decode(path, column(OP), OpKind::from_name)?,
        statuses: decode(path, column(STATUS), Status::from_name)?,
        intended_ns: intended(longs(INTENDED_NS), longs(START_NS)),
        start_ns: times(longs(START_NS)),
        end_ns: times(longs(END_NS)),
    })
}

/// Intended starts; where one is unknown (an imported result), the start, as in a run without a schedule.
fn intended(intended: &Int64Array, start: &Int64Array) -> ScalarBuffer<i64> {
    match intended.nulls() {
        None => intended.values().clone(),
        Some(known) => known
            .iter()
            .zip(intended.values().iter().zip(start.values()))
            .map(|(known, (&intended, &start))| if known { intended } else { start })
            .collect(),
    }
}

fn times(column: &Int64Array) -> Vec<u64> {
    match column.nulls() {
        None => column.values().iter().map(|&ns| ns as u64).collect(),
        Some(valid) => valid
            .iter()
            .zip(column.values())
            .map(|(valid, &ns)| if valid { ns as u64 } else { NEVER_NS })
            .collect(),
    }
}

fn decode<T: Copy>(
    path: &Path,
    column: &ArrayRef,
    from_name: fn(&str) -> Option<T>,
) -> Result<Vec<T>, FileError> {
    let column = column.as_dictionary::<Int32Type>();
    let names = column.values().as_string::<i32>();
    let unknown = || inconsistent(path, "an operation or status that this program does not know");
    let values: Option<Vec<T>> = names.iter().map(|name| name.and_then(from_name)).collect();
    let values = values.ok_or_else(unknown)?;
    let keys = column.keys().values();
    if keys.iter().any(|&key| key as usize >= values.len()) {
        return Err(unknown());
    }
    Ok(keys.iter().map(|&key| values[key as usize]).collect())
}
