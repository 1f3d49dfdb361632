//! Column chunks, encoded. Those of a trace are made whole, by [`mod@column`]; those of a result grow batch
//! by batch. Most of them go through arrow's writer. Two sorts that make up half of them are written
//! here, in a page of their own, because arrow takes every row of them in hand: columns without any
//! value (one run of levels), and columns of few distinct values (a dictionary and packed positions in
//! it, where arrow hashes the value of every row again). Both are plain Parquet. A column begins as one
//! of these and goes over to arrow with the first batch that is neither.

pub(super) mod column;
mod page;

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, new_null_array};
use arrow_schema::{DataType, FieldRef, SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

use self::page::Chunk;

/// Dictionary keys and numbers below this can be coded.
const CODABLE: usize = 1024;

/// No position yet.
const NONE: u16 = u16::MAX;

/// The columns of a row group, being written.
pub struct Columns {
    columns: Vec<Column>,
    /// Rows so far.
    pub rows: usize,
}

struct Column {
    field: FieldRef,
    description: ColumnDescPtr,
    /// Used from the first batch on that cannot be written by hand.
    arrow: ArrowColumnWriter,
    held: Held,
}

/// What is not written yet.
enum Held {
    /// So many rows without a value.
    Nulls(usize),
    /// Rows of few distinct values.
    Codes(Codes),
    /// Arrow has it all.
    Nothing,
}

impl Held {
    fn insert(&mut self, codes: Codes) -> &mut Codes {
        *self = Held::Codes(codes);
        let Held::Codes(codes) = self else { unreachable!("just set") };
        codes
    }
}

/// An encoded column chunk.
pub enum Encoded {
    /// By arrow.
    Arrow(ArrowColumnChunk),
    /// Here.
    ByHand(Bytes, ColumnCloseResult),
}

impl Encoded {
    /// Appends it to a row group.
    pub fn append_to<W: Write + Send>(self, row_group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        match self {
            Encoded::Arrow(chunk) => chunk.append_to_row_group(row_group),
            Encoded::ByHand(bytes, close) => row_group.append_column(&bytes, close),
        }
    }
}

impl Columns {
    /// For a row group of a file with this schema, every field of which has one leaf.
    pub fn new(
        schema: &SchemaRef,
        parquet: &SchemaDescriptor,
        factory: &ArrowRowGroupWriterFactory,
    ) -> Result<Columns> {
        let writers = factory.create_column_writers(0)?;
        if writers.len() != schema.fields().len() {
            return Err(ParquetError::General("a field with several leaves".to_owned()));
        }
        let column = |((field, description), arrow): ((&FieldRef, &ColumnDescPtr), ArrowColumnWriter)| {
            Column { field: field.clone(), description: description.clone(), arrow, held: Held::Nulls(0) }
        };
        let columns = schema.fields().iter().zip(parquet.columns()).zip(writers).map(column).collect();
        Ok(Columns { columns, rows: 0 })
    }

    /// Appends a batch.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        self.columns.iter_mut().zip(batch.columns()).try_for_each(|(column, array)| column.write(array))
    }

    /// The column chunks, in order.
    pub fn close(self) -> Result<Vec<Encoded>> {
        self.columns.into_iter().map(Column::close).collect()
    }
}

impl Column {
    fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let held_back = match &mut self.held {
            Held::Nulls(rows) if array.null_count() == array.len() => {
                *rows += array.len();
                true
            }
            Held::Nulls(0) => match Codes::begin(array) {
                Some(codes) => {
                    let codes = self.held.insert(codes);
                    codes.push(array)
                }
                None => false,
            },
            Held::Codes(codes) => codes.push(array),
            Held::Nulls(_) | Held::Nothing => false,
        };
        if held_back {
            return Ok(());
        }
        self.hand_over()?;
        self.pass_on(array)
    }

    /// Gives arrow what was held back.
    fn hand_over(&mut self) -> Result<()> {
        let array = match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing => return Ok(()),
            Held::Nulls(0) => return Ok(()),
            Held::Nulls(rows) => new_null_array(self.field.data_type(), rows),
            Held::Codes(codes) if codes.coder.codes.is_empty() => return Ok(()),
            Held::Codes(codes) => codes.into_array(),
        };
        self.pass_on(&array)
    }

    fn pass_on(&mut self, array: &ArrayRef) -> Result<()> {
        for leaf in compute_leaves(&self.field, array)? {
            self.arrow.write(&leaf)?;
        }
        Ok(())
    }

    fn close(self) -> Result<Encoded> {
        match self.held {
            Held::Nothing => Ok(Encoded::Arrow(self.arrow.close()?)),
            Held::Nulls(rows) => nulls(&self.description, rows),
            Held::Codes(codes) => codes.encode(&self.description),
        }
    }
}

/// Few distinct numbers, none of them negative or large.
struct Coder {
    /// Those that occur, in the order of their first occurrence.
    distinct: Vec<i32>,
    /// Number → its position in `distinct`, or [`NONE`].
    positions: Box<[u16; CODABLE]>,
    /// Position of each row.
    codes: Vec<u16>,
}

impl Coder {
    fn new() -> Coder {
        Coder { distinct: Vec::new(), positions: Box::new([NONE; CODABLE]), codes: Vec::new() }
    }

    /// Appends numbers; false, and nothing is appended, if one cannot be coded.
    fn push(&mut self, numbers: &[i32]) -> bool {
        if numbers.iter().any(|&number| number as u32 as usize >= CODABLE) {
            return false;
        }
        self.codes.reserve(numbers.len());
        for &number in numbers {
            let position = &mut self.positions[number as usize];
            if *position == NONE {
                *position = self.distinct.len() as u16;
                self.distinct.push(number);
            }
            self.codes.push(*position);
        }
        true
    }

    /// A chunk of a page that begins with these levels, so many of them, and of the dictionary, in which
    /// `write` writes one number.
    fn chunk(
        &self,
        mut page: Vec<u8>,
        rows: usize,
        levels: usize,
        write: impl Fn(&mut Vec<u8>, i32),
    ) -> Chunk {
        let mut dictionary = Vec::new();
        self.distinct.iter().for_each(|&number| write(&mut dictionary, number));
        let distinct = self.distinct.len();
        page.push(page::width_of(distinct) as u8);
        page::codes(&mut page, &self.codes, distinct);
        let encoding = Encoding::RLE_DICTIONARY;
        Chunk { dictionary: Some((dictionary, distinct)), levels, ..Chunk::plain(encoding, page, rows) }
    }
}

/// A number in a dictionary.
fn write_number(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// A text in a dictionary.
fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// A column of few distinct values, none of them null.
struct Codes {
    /// The names that the keys of a dictionary column stand for; none for a column of numbers.
    names: Option<ArrayRef>,
    /// The keys or numbers.
    coder: Coder,
}

impl Codes {
    /// Without rows yet; `None` if columns of this type are not coded.
    fn begin(array: &ArrayRef) -> Option<Codes> {
        let names = match array.data_type() {
            DataType::Int32 => None,
            DataType::Dictionary(key, _) if **key == DataType::Int32 => {
                Some(array.as_dictionary::<Int32Type>().values().clone())
            }
            _ => return None,
        };
        Some(Codes { names, coder: Coder::new() })
    }

    /// Appends the rows of a batch; false, and nothing is appended, if it does not fit.
    fn push(&mut self, array: &ArrayRef) -> bool {
        if array.null_count() > 0 {
            return false;
        }
        let Some(names) = &self.names else {
            return self.coder.push(array.as_primitive::<Int32Type>().values());
        };
        let dictionary = array.as_dictionary::<Int32Type>();
        // The same names, not only equal ones: comparing them costs more than it saves.
        std::sync::Arc::ptr_eq(names, dictionary.values()) && self.coder.push(dictionary.keys().values())
    }

    /// As an array again.
    fn into_array(self) -> ArrayRef {
        let values = self.coder.codes.iter().map(|&code| self.coder.distinct[code as usize]);
        let values = Int32Array::from_iter_values(values);
        match self.names {
            None => std::sync::Arc::new(values),
            Some(names) => std::sync::Arc::new(DictionaryArray::<Int32Type>::new(values, names)),
        }
    }

    fn encode(self, description: &ColumnDescPtr) -> Result<Encoded> {
        let rows = self.coder.codes.len();
        let mut page = Vec::with_capacity(rows / 4 + 16);
        if let defined @ 1.. = description.max_def_level() as u16 {
            page::levels(&mut page, |page| page::run(page, defined, rows, defined as usize + 1));
        }
        let chunk = self.coder.chunk(page, rows, rows, |out, number| match &self.names {
            None => write_number(out, number),
            Some(names) => write_text(out, names.as_string::<i32>().value(number as usize)),
        });
        chunk.close(description)
    }
}

/// A chunk in which every row is null at the outermost level. It says so in its statistics, so that a
/// reader can do without it.
fn nulls(description: &ColumnDescPtr, rows: usize) -> Result<Encoded> {
    let mut page = Vec::new();
    for highest in [description.max_rep_level(), description.max_def_level()] {
        if highest > 0 {
            page::levels(&mut page, |page| page::run(page, 0, rows, highest as usize + 1));
        }
    }
    let count = Some(rows as u64);
    let statistics = match description.physical_type() {
        PhysicalType::INT32 => Statistics::int32(None, None, None, count, false),
        PhysicalType::INT64 => Statistics::int64(None, None, None, count, false),
        _ => Statistics::byte_array(None, None, None, count, false),
    };
    Chunk { statistics: Some(statistics), ..Chunk::plain(Encoding::PLAIN, page, rows) }.close(description)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, ListArray, StringArray};
    use arrow_schema::{Field, Schema};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
    use parquet::file::writer::SerializedFileWriter;

    use super::*;

    fn schema() -> SchemaRef {
        let names = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, false)));
        Arc::new(Schema::new(vec![
            Field::new("name", names, false),
            Field::new("small", DataType::Int32, true),
            Field::new("long", DataType::Int64, true),
            Field::new("list", list, true),
        ]))
    }

    fn names() -> ArrayRef {
        Arc::new(StringArray::from(vec!["zero", "one", "two", "", "four"]))
    }

    type Rows<'a> = (&'a [i32], &'a [Option<i32>], &'a [Option<i64>], &'a [Option<i64>]);

    fn batch((keys, small, long, list): Rows<'_>, names: &ArrayRef) -> RecordBatch {
        let keys = Int32Array::from(keys.to_vec());
        let lists = list.iter().map(|item| item.map(|item| vec![Some(item)]));
        let lists = ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(lists);
        let DataType::List(item) = schema().field(3).data_type().clone() else { unreachable!() };
        let (_, offsets, items, valid) = lists.into_parts();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(DictionaryArray::<Int32Type>::new(keys, names.clone())),
            Arc::new(Int32Array::from(small.to_vec())),
            Arc::new(Int64Array::from(long.to_vec())),
            Arc::new(ListArray::new(item, offsets, items, valid)),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    /// Writes the batches as one row group, and reads it as Parquet does; says which columns were
    /// written by hand.
    fn round_trip(batches: &[RecordBatch]) -> (RecordBatch, Vec<bool>) {
        let mut properties = crate::trace::result_properties();
        add_encoded_arrow_schema_to_metadata(&schema(), &mut properties);
        let parquet = ArrowSchemaConverter::new().convert(&schema()).unwrap();
        let mut file = Vec::new();
        let mut writer =
            SerializedFileWriter::new(&mut file, parquet.root_schema_ptr(), Arc::new(properties)).unwrap();
        let factory = ArrowRowGroupWriterFactory::new(&writer, schema());
        let mut columns = Columns::new(&schema(), &parquet, &factory).unwrap();
        batches.iter().for_each(|batch| columns.write(batch).unwrap());
        let encoded = columns.close().unwrap();
        let by_hand = encoded.iter().map(|chunk| matches!(chunk, Encoded::ByHand(..))).collect();
        let mut row_group = writer.next_row_group().unwrap();
        encoded.into_iter().for_each(|chunk| chunk.append_to(&mut row_group).unwrap());
        row_group.close().unwrap();
        writer.close().unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).unwrap();
        let rows = reader.with_batch_size(1 << 20).build().unwrap().next().unwrap().unwrap();
        (rows, by_hand)
    }

    fn texts(rows: &RecordBatch) -> Vec<String> {
        let plain = arrow_array::cast::downcast_array::<DictionaryArray<Int32Type>>(rows.column(0));
        let names = plain.values().as_string::<i32>().clone();
        plain.keys().values().iter().map(|&key| names.value(key as usize).to_owned()).collect()
    }

    #[test]
    fn what_is_written_by_hand_reads_back() {
        let names = names();
        for distinct in [1, 2, 3, 5] {
            // Not a multiple of eight, and more than one batch.
            let keys: Vec<i32> = (0..1003).map(|row| row * 7 % distinct).collect();
            let small: Vec<Option<i32>> = (0..1003).map(|row| Some(row % 201)).collect();
            let nulls = vec![None; 1003];
            let one = batch((&keys, &small, &nulls, &nulls), &names);
            let (rows, by_hand) = round_trip(&[one.clone(), one.slice(0, 500)]);
            assert_eq!(by_hand, [true; 4]);
            let expected = |row: usize| names.as_string::<i32>().value(keys[row % 1003] as usize).to_owned();
            assert_eq!(texts(&rows), (0..1503).map(expected).collect::<Vec<_>>());
            let numbers = rows.column(1).as_primitive::<Int32Type>();
            assert!((0..1503).all(|row| numbers.value(row) == (row % 1003) as i32 % 201));
            assert_eq!(
                (numbers.null_count(), rows.column(2).null_count(), rows.column(3).null_count()),
                (0, 1503, 1503)
            );
        }
    }

    #[test]
    fn a_column_that_turns_out_otherwise_goes_over_pass_on() {
        let (names, others) = (names(), names());
        let first = batch((&[1, 2], &[Some(3), Some(4)], &[None, None], &[None, None]), &names);
        let then = batch((&[4, 0], &[Some(5000), None], &[None, Some(9)], &[Some(8), None]), &others);
        let (rows, by_hand) = round_trip(&[first, then]);
        assert_eq!(by_hand, [false; 4]);
        assert_eq!(texts(&rows), ["one", "two", "four", "zero"]);
        let numbers = rows.column(1).as_primitive::<Int32Type>();
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [Some(3), Some(4), Some(5000), None]);
        let longs = rows.column(2).as_primitive::<arrow_array::types::Int64Type>();
        assert_eq!(longs.iter().collect::<Vec<_>>(), [None, None, None, Some(9)]);
        assert_eq!(
            (0..4).map(|row| rows.column(3).is_valid(row)).collect::<Vec<_>>(),
            [false, false, true, false]
        );
    }

    #[test]
    fn negative_numbers_are_not_coded() {
        let first = batch((&[1], &[Some(-1)], &[None], &[None]), &names());
        let (rows, by_hand) = round_trip(&[first]);
        assert_eq!(by_hand, [true, false, true, true]);
        assert_eq!(rows.column(1).as_primitive::<Int32Type>().value(0), -1);
    }
}
