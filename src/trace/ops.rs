//! The rows of a trace on their way out of a file: the reader that decodes them ahead of the clock.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, new_null_array,
};
use arrow_buffer::ScalarBuffer;
use arrow_select::concat::concat_batches;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;

use super::meta::TraceMeta;
use super::{FileError, FileKind, Opened, inconsistent, trace_schema};
use crate::op::OpKind;
use crate::statement::{Statement, Statements, is_name, parameters_in};

/// A block of decoded operations. Keys and values are borrowed from it without copying.
#[derive(Debug, Clone)]
pub struct OpBlock {
    /// Rows before this block in the file.
    pub first_row: u64,
    ids: ScalarBuffer<i64>,
    kinds: Vec<OpKind>,
    keys: StringArray,
    fields: ListArray,
    numbers: ScalarBuffer<i32>,
    values: ListArray,
    value_items: BinaryArray,
    seeds: Int64Array,
    lens: ListArray,
    len_items: ScalarBuffer<i32>,
    scan_lens: Int32Array,
    at_ns: Int64Array,
    after: Int64Array,
    txns: Int64Array,
    /// The first row of each transaction, in a statement trace.
    transactions: Option<Vec<u32>>,
}

/// The range of a row's items in the child of a list column, or `None` for null.
fn items(list: &ListArray, row: usize) -> Option<std::ops::Range<usize>> {
    if list.is_null(row) {
        return None;
    }
    let offsets = list.value_offsets();
    Some(offsets[row] as usize..offsets[row + 1] as usize)
}

fn number(column: &Int64Array, row: usize) -> Option<u64> {
    column.is_valid(row).then(|| column.value(row) as u64)
}

impl OpBlock {
    /// Rows in the block.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Is there no row?
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Number of the operation in its trace.
    pub fn id(&self, row: usize) -> u64 {
        self.ids[row] as u64
    }

    /// Kind of the operation.
    pub fn kind(&self, row: usize) -> OpKind {
        self.kinds[row]
    }

    /// Key text.
    pub fn key(&self, row: usize) -> &str {
        self.keys.value(row)
    }

    /// Field numbers; `None` = all.
    pub fn field_numbers(&self, row: usize) -> Option<&[i32]> {
        Some(&self.numbers[items(&self.fields, row)?])
    }

    /// The values of an inline row, parallel to the field numbers.
    pub fn inline_values(&self, row: usize) -> Option<impl Iterator<Item = &[u8]>> {
        Some(items(&self.values, row)?.map(|item| self.value_items.value(item)))
    }

    /// Stream key and value lengths of a seeded row, parallel to the field numbers.
    pub fn seeded_values(&self, row: usize) -> Option<(u64, &[i32])> {
        let seed = number(&self.seeds, row)?;
        Some((seed, &self.len_items[items(&self.lens, row)?]))
    }

    /// Rows asked for by a scan, 0 for other kinds.
    pub fn scan_len(&self, row: usize) -> u32 {
        if self.scan_lens.is_valid(row) { self.scan_lens.value(row) as u32 } else { 0 }
    }

    /// Arrival offset from the start, ns.
    pub fn at_ns(&self, row: usize) -> Option<u64> {
        number(&self.at_ns, row)
    }

    /// The operation that must have completed before this one.
    pub fn after(&self, row: usize) -> Option<u64> {
        number(&self.after, row)
    }

    /// The transaction of a row of a statement trace.
    pub fn txn(&self, row: usize) -> Option<u64> {
        number(&self.txns, row)
    }

    /// What sessions claim: transactions in a statement trace, else rows.
    #[inline]
    pub fn units(&self) -> usize {
        self.transactions.as_ref().map_or(self.len(), Vec::len)
    }

    /// The rows of a transaction of this block.
    pub fn rows_of(&self, transaction: usize) -> std::ops::Range<usize> {
        let Some(starts) = &self.transactions else { return transaction..transaction + 1 };
        let end = starts.get(transaction + 1).map_or(self.len(), |&end| end as usize);
        starts[transaction] as usize..end
    }

    /// Finds the transactions, and checks their rows against the statements of the footer.
    fn find_transactions(&mut self, path: &Path, statements: &Statements) -> Result<(), FileError> {
        let mut starts: Vec<u32> = Vec::new();
        // By kind, looked up once: a name is behind a lock.
        let known: Vec<Option<&Statement>> = OpKind::ALL
            .iter()
            .map(|kind| statements.0.iter().find(|statement| statement.name == kind.name()))
            .collect();
        for row in 0..self.len() {
            let wrong = |what: String| inconsistent(path, format!("operation {} {what}", self.id(row)));
            let Some(txn) = self.txn(row) else { return Err(wrong("belongs to no transaction".to_owned())) };
            if row == 0 || self.txn(row - 1) != Some(txn) {
                if let Some(&start) = starts.last() {
                    self.check_ends(path, start as usize..row)?;
                }
                starts.push(row as u32);
            } else if self.kind(row) == OpKind::Begin {
                return Err(wrong(format!("is a BEGIN within transaction {txn}")));
            }
            let kind = self.kind(row);
            if matches!(kind, OpKind::Begin | OpKind::Commit | OpKind::Rollback) {
                continue;
            }
            let Some(statement) = known[kind as usize] else {
                return Err(wrong(format!("is {:?}, which the footer does not explain", kind.name())));
            };
            let parameters = items(&self.values, row).map_or(0, |range| range.len());
            let per_group = statement.types.len();
            let fits = match &statement.repeat {
                None => parameters == per_group,
                Some(_) => per_group > 0 && parameters > 0 && parameters.is_multiple_of(per_group),
            };
            if !fits {
                return Err(wrong(format!(
                    "has {parameters} parameters, but {} takes {per_group}",
                    kind.name()
                )));
            }
            let (table, tables) = (self.table(row), statement.tables.len());
            if table.map_or(tables > 0, |table| table >= tables.max(1)) {
                return Err(wrong(format!("names table {table:?} of {tables}")));
            }
        }
        if let Some(&start) = starts.last() {
            self.check_ends(path, start as usize..self.len())?;
        }
        self.transactions = Some(starts);
        Ok(())
    }

    /// The rows of a transaction end with COMMIT or ROLLBACK if they begin with BEGIN, and only then.
    fn check_ends(&self, path: &Path, rows: std::ops::Range<usize>) -> Result<(), FileError> {
        let ends = |row: usize| matches!(self.kind(row), OpKind::Commit | OpKind::Rollback);
        let (begins, last) = (self.kind(rows.start) == OpKind::Begin, rows.end - 1);
        let txn = self.txn(last).unwrap_or(0);
        let what = if begins && !ends(last) {
            format!("transaction {txn} ends with operation {} and without COMMIT or ROLLBACK", self.id(last))
        } else if let Some(row) = rows.clone().find(|&row| ends(row) && !(begins && row == last)) {
            format!("operation {} ends transaction {txn} where it cannot end", self.id(row))
        } else {
            return Ok(());
        };
        Err(inconsistent(path, what))
    }

    /// Position of a statement's table among its tables.
    #[inline]
    pub fn table(&self, row: usize) -> Option<usize> {
        self.field_numbers(row)?.first().map(|&table| table as usize)
    }

    /// Takes the columns of a decoded batch apart, checking what a hostile file could get wrong.
    fn from_batch(
        path: &Path,
        first_row: u64,
        batch: &RecordBatch,
        absent: &Absent,
        statements: &Statements,
    ) -> Result<OpBlock, FileError> {
        let absent = |name| absent.column(name, batch.num_rows());
        let column = |name| batch.column_by_name(name).cloned().unwrap_or_else(|| absent(name));
        use super::column::*;
        let kinds = decode_kinds(path, column(OP).as_dictionary::<Int32Type>())?;
        let (fields, values, lens) = (column(FIELDS), column(VALUES), column(VALUE_LENS));
        let (fields, values, lens) =
            (fields.as_list::<i32>(), values.as_list::<i32>(), lens.as_list::<i32>());
        let mut block = OpBlock {
            first_row,
            ids: column(OP_ID).as_primitive::<Int64Type>().values().clone(),
            kinds,
            keys: column(KEY).as_string::<i32>().clone(),
            numbers: fields.values().as_primitive::<Int32Type>().values().clone(),
            fields: fields.clone(),
            value_items: values.values().as_binary::<i32>().clone(),
            values: values.clone(),
            seeds: column(VALUE_SEED).as_primitive::<Int64Type>().clone(),
            len_items: lens.values().as_primitive::<Int32Type>().values().clone(),
            lens: lens.clone(),
            scan_lens: column(SCAN_LEN).as_primitive::<Int32Type>().clone(),
            at_ns: column(AT_NS).as_primitive::<Int64Type>().clone(),
            after: column(AFTER).as_primitive::<Int64Type>().clone(),
            txns: column(TXN).as_primitive::<Int64Type>().clone(),
            transactions: None,
        };
        block.check(path, !statements.is_empty())?;
        if !statements.is_empty() {
            block.find_transactions(path, statements)?;
        }
        Ok(block)
    }

    /// A write must say which fields it writes, and with what; operations are numbered one after the
    /// other, and wait only for earlier ones, so that every wait ends.
    fn check(&self, path: &Path, statements: bool) -> Result<(), FileError> {
        for row in 0..self.len() {
            if row > 0 && self.ids[row - 1].checked_add(1) != Some(self.ids[row]) {
                let (before, id) = (self.id(row - 1), self.id(row));
                return Err(inconsistent(path, format!("operation {id} follows operation {before}")));
            }
            if let Some(after) = self.after(row).filter(|&after| after >= self.id(row)) {
                let what = format!(
                    "operation {} waits for operation {after}, which does not precede it",
                    self.id(row)
                );
                return Err(inconsistent(path, what));
            }
            if statements || !self.kinds[row].writes() {
                continue;
            }
            let fields = self.field_numbers(row).map(<[i32]>::len);
            let inline = items(&self.values, row).map(|range| range.len());
            let seeded = self.seeded_values(row).map(|(_, lens)| lens.len());
            if fields.is_none() || (inline != fields && seeded != fields) {
                let what =
                    format!("operation {} writes, but its fields and values do not match", self.id(row));
                return Err(inconsistent(path, what));
            }
        }
        Ok(())
    }
}

fn decode_kinds(path: &Path, column: &DictionaryArray<Int32Type>) -> Result<Vec<OpKind>, FileError> {
    let names = column.values().as_string::<i32>();
    let kinds: Vec<Option<OpKind>> = names.iter().map(|name| name.and_then(OpKind::from_name)).collect();
    column
        .keys()
        .iter()
        .map(|key| {
            let key = key.ok_or_else(|| inconsistent(path, "an operation without a kind"))? as usize;
            let kind = kinds.get(key).ok_or_else(|| inconsistent(path, "a kind outside its dictionary"))?;
            kind.ok_or_else(|| {
                let name = names.value(key);
                inconsistent(path, format!("operations of kind {name:?} are unknown to this program"))
            })
        })
        .collect()
}

/// Reads a trace from the front to the back, in blocks.
pub struct TraceReader {
    path: PathBuf,
    meta: TraceMeta,
    batches: ParquetRecordBatchReader,
    absent: Absent,
    next_row: u64,
    last_id: Option<u64>,
    /// Transactions of the blocks so far.
    transactions: u64,
    /// The beginning of a transaction whose other rows are still to be read.
    carried: Option<RecordBatch>,
}

/// Decoded bytes per block: large enough to amortise decoding, small enough that a few blocks
/// ahead of the clock cost little memory.
const BLOCK_BYTES: i64 = 4 << 20;

/// Columns that have no value in any row, as the file's own counts of nulls say: they need no
/// decoding.
struct Absent(Vec<(String, ArrayRef)>);

impl Absent {
    /// Of this file, read in blocks of at most so many rows.
    fn of(parquet: &ParquetMetaData, block_rows: usize) -> Absent {
        let has_value = |leaf: usize| {
            parquet.row_groups().iter().any(|group| super::has_value(group, group.column(leaf)))
        };
        let mut absent = Vec::new();
        for field in trace_schema().fields().iter().filter(|field| field.is_nullable()) {
            let leaves = parquet.file_metadata().schema_descr().columns().iter().enumerate();
            let mut leaves = leaves.filter(|(_, leaf)| leaf.path().parts()[0] == *field.name());
            if leaves.all(|(leaf, _)| !has_value(leaf)) {
                absent.push((field.name().clone(), new_null_array(field.data_type(), block_rows)));
            }
        }
        Absent(absent)
    }

    fn column(&self, name: &str, rows: usize) -> ArrayRef {
        let (_, nulls) = self.0.iter().find(|(absent, _)| *absent == name).expect("read, or absent");
        // A block of whole transactions may be longer than what was read at once.
        if rows <= nulls.len() { nulls.slice(0, rows) } else { new_null_array(nulls.data_type(), rows) }
    }
}

impl TraceReader {
    /// Opens a trace and checks its footer and columns.
    pub fn open(path: &Path) -> Result<TraceReader, FileError> {
        let opened = super::open(path)?.expect(FileKind::Trace)?;
        let meta: TraceMeta = opened.meta()?;
        opened.check_columns(&trace_schema())?;
        for statement in &meta.statements.0 {
            OpKind::register(&statement.name).ok_or_else(|| too_many_statements(path))?;
            let texts = statement.dialects.values().chain([&statement.sql]);
            let texts = texts.chain(statement.repeat.as_ref().map(|repeat| &repeat.text));
            let used = texts.map(|text| parameters_in(text)).max().unwrap_or(0);
            if used > statement.types.len() {
                let what =
                    format!("{} uses ${used}, but has {} parameters", statement.name, statement.types.len());
                return Err(inconsistent(path, what));
            }
            // What is prepared for: text that long would be made before the first row is read.
            if statement.groups.saturating_mul(statement.types.len().max(1)) > MOST_PARAMETERS {
                let what = format!("{} has {} groups of parameters", statement.name, statement.groups);
                return Err(inconsistent(path, what));
            }
        }
        if !meta.statements.is_empty() {
            let lacking = match (&meta.schema, meta.transactions) {
                (None, _) => Some("its statements have no tables: its footer has no schema"),
                (_, None) => Some("its footer does not say how many transactions it holds"),
                _ => None,
            };
            if let Some(what) = lacking {
                return Err(inconsistent(path, what));
            }
        }
        check_names(path, &meta)?;
        let Opened { path, parquet, file, .. } = opened;
        let rows = parquet.metadata().file_metadata().num_rows();
        if rows != meta.rows as i64 {
            let what = format!("it holds {rows} rows, but its footer says {}", meta.rows);
            return Err(inconsistent(&path, what));
        }
        let bytes: i64 = parquet.metadata().row_groups().iter().map(|group| group.total_byte_size()).sum();
        let row_bytes = bytes / rows.max(1) + 32;
        let block_rows = (BLOCK_BYTES / row_bytes).clamp(16, 16_384) as usize;
        let absent = Absent::of(parquet.metadata(), block_rows);
        let is_read = |name: &str| absent.0.iter().all(|(other, _)| *other != name);
        let wanted = trace_schema();
        let wanted = wanted.fields().iter().map(|field| field.name().as_str()).filter(|name| is_read(name));
        let mask = ProjectionMask::columns(parquet.parquet_schema(), wanted);
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(file, parquet)
            .with_projection(mask)
            .with_batch_size(block_rows)
            .build()
            .map_err(|cause| FileError::Damaged { path: path.clone(), cause: cause.to_string() })?;
        Ok(TraceReader {
            path,
            meta,
            batches,
            absent,
            next_row: 0,
            last_id: None,
            transactions: 0,
            carried: None,
        })
    }

    /// What the trace says about itself.
    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// The next block, or `None` at the end.
    pub fn next_block(&mut self) -> Result<Option<OpBlock>, FileError> {
        let Some(batch) = self.next_batch()? else {
            let said = self.meta.transactions.filter(|&said| said != self.transactions);
            return match said {
                None => Ok(None),
                Some(said) => {
                    let what =
                        format!("it holds {} transactions, but its footer says {said}", self.transactions);
                    Err(inconsistent(&self.path, what))
                }
            };
        };
        let block =
            OpBlock::from_batch(&self.path, self.next_row, &batch, &self.absent, &self.meta.statements)?;
        if let (Some(before), false) = (self.last_id, block.is_empty())
            && block.id(0) != before + 1
        {
            let what = format!("operation {} follows operation {before}", block.id(0));
            return Err(inconsistent(&self.path, what));
        }
        self.last_id = block.len().checked_sub(1).map(|last| block.id(last)).or(self.last_id);
        self.next_row += block.len() as u64;
        self.transactions += block.transactions.as_ref().map_or(0, |starts| starts.len() as u64);
        Ok(Some(block))
    }

    /// The next rows; in a statement trace only whole transactions, because a session claims one whole.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, FileError> {
        let damaged = |cause: String| FileError::Damaged { path: self.path.clone(), cause };
        let mut carried = self.carried.take();
        loop {
            let Some(batch) = self.batches.next() else { return Ok(carried) };
            let batch = batch.map_err(|cause| damaged(cause.to_string()))?;
            if self.meta.statements.is_empty() {
                return Ok(Some(batch));
            }
            let batch = match carried.take() {
                None => batch,
                Some(before) => concat_batches(&batch.schema(), [&before, &batch])
                    .map_err(|cause| damaged(cause.to_string()))?,
            };
            let Some(txns) = batch.column_by_name(super::column::TXN) else {
                return Err(inconsistent(&self.path, "its statements belong to no transaction"));
            };
            let txns = txns.as_primitive::<Int64Type>();
            let same = |row: usize| number(txns, row - 1) == number(txns, row);
            match (1..batch.num_rows()).rev().find(|&row| !same(row)) {
                None => carried = Some(batch),
                Some(end) => {
                    self.carried = Some(batch.slice(end, batch.num_rows() - end));
                    return Ok(Some(batch.slice(0, end)));
                }
            }
        }
    }
}

/// Parameters of one statement: what the protocols of PostgreSQL and MySQL count in 16 bits.
const MOST_PARAMETERS: usize = 65_535;

/// Names of tables, columns and indexes stand in statements as they are.
fn check_names(path: &Path, meta: &TraceMeta) -> Result<(), FileError> {
    let tables = meta.schema.iter().flat_map(|schema| &schema.tables);
    let of_tables = tables.flat_map(|table| {
        let columns = table.columns.iter().map(|column| &column.name);
        columns.chain(&table.primary_key).chain([&table.name]).chain(&table.engine)
    });
    let indexes = meta.schema.iter().flat_map(|schema| &schema.indexes);
    let of_indexes = indexes.flat_map(|index| index.columns.iter().chain([&index.name, &index.table]));
    let named = meta.statements.0.iter().flat_map(|statement| &statement.tables);
    match of_tables.chain(of_indexes).chain(named).find(|name| !is_name(name)) {
        Some(name) => Err(inconsistent(path, format!("{name:?} cannot be the name of a table or column"))),
        None => Ok(()),
    }
}

/// No slot is left for a statement's name.
pub(super) fn too_many_statements(path: &Path) -> FileError {
    inconsistent(path, "it names more statements than this program can tell apart (55 over all open files)")
}
