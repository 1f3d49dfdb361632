//! The rows of a trace on their way into a file: columns in memory, and the writer that encodes chunks of
//! them in parallel and appends them in order.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BufMut;
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use xxhash_rust::xxh3::xxh3_128;

use super::encode::Encoded;
use super::encode::column::{self, Lists, Sparse};
use super::meta::TraceMeta;
use super::{FOOTER_KEY, trace_properties, trace_schema};
use crate::op::OpKind;

/// The values of a written row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowValues<'a> {
    /// Nothing is written.
    None,
    /// The bytes themselves, one after the other; `lens` cuts them.
    Inline {
        /// Length of each value in bytes.
        lens: &'a [u32],
        /// All values, concatenated.
        bytes: &'a [u8],
    },
    /// The key of the stream they are made from.
    Seeded {
        /// See `record::append_value`.
        seed: u64,
        /// Length of each value in bytes.
        lens: &'a [u32],
    },
}

/// One row of a trace, on its way into a file.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Kind of the operation.
    pub kind: OpKind,
    /// Key text (UTF-8).
    pub key: &'a [u8],
    /// Field numbers; `None` = all.
    pub fields: Option<&'a [u32]>,
    /// Values, parallel to `fields`.
    pub values: RowValues<'a>,
    /// Rows asked for by a scan.
    pub scan_len: Option<u32>,
    /// Arrival offset from the start, ns.
    pub at_ns: Option<u64>,
    /// The operation that must have completed before this one.
    pub after: Option<u64>,
}

/// Builds a chunk of rows, column by column, and adds up the hashes of the rows.
#[derive(Debug)]
pub struct ChunkBuilder {
    ids: Vec<i64>,
    kinds: Vec<i32>,
    key_ends: Vec<u32>,
    key_bytes: Vec<u8>,
    fields: Lists,
    numbers: Vec<i32>,
    values: Lists,
    value_ends: Vec<u32>,
    value_bytes: Vec<u8>,
    seeds: Sparse<i64>,
    lens: Lists,
    len_items: Vec<i32>,
    scan_lens: Sparse<i32>,
    at_ns: Sparse<i64>,
    after: Sparse<i64>,
    txns: Sparse<i64>,
    hash: u128,
    hash_input: Vec<u8>,
}

impl ChunkBuilder {
    /// Room for this many rows.
    pub fn new(rows: usize) -> ChunkBuilder {
        ChunkBuilder {
            ids: Vec::with_capacity(rows),
            kinds: Vec::with_capacity(rows),
            key_ends: Vec::with_capacity(rows),
            key_bytes: Vec::with_capacity(rows * 24),
            fields: Lists::new(),
            numbers: Vec::new(),
            values: Lists::new(),
            value_ends: Vec::new(),
            value_bytes: Vec::new(),
            seeds: Sparse::new(),
            lens: Lists::new(),
            len_items: Vec::new(),
            scan_lens: Sparse::new(),
            at_ns: Sparse::new(),
            after: Sparse::new(),
            txns: Sparse::new(),
            hash: 0,
            hash_input: Vec::new(),
        }
    }

    /// Appends operation `id`.
    #[inline]
    pub fn push(&mut self, id: u64, row: &Row<'_>) {
        self.push_in(id, row, None);
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Appends operation `id`, a part of transaction `txn`.
    #[inline]
    pub fn push_in(&mut self, id: u64, row: &Row<'_>, txn: Option<u64>) {
        self.hash = self.hash.wrapping_add(row_hash(id, row, txn, &mut self.hash_input));
        let at = self.ids.len();
        self.ids.push(id as i64);
        self.kinds.push(row.kind as i32);
        self.key_bytes.extend_from_slice(row.key);
        self.key_ends.push(self.key_bytes.len() as u32);
        if let Some(fields) = row.fields {
            self.fields.push(at, fields.len());
            self.numbers.extend(fields.iter().map(|&number| number as i32));
        }
        match row.values {
            RowValues::None => {}
            RowValues::Inline { lens, bytes } => {
                self.values.push(at, lens.len());
                let mut end = self.value_bytes.len() as u32;
                self.value_ends.extend(lens.iter().map(|&len| {
                    end += len;
                    end
                }));
                self.value_bytes.extend_from_slice(bytes);
            }
            RowValues::Seeded { seed, lens } => {
                self.seeds.push(at, seed as i64);
                self.lens.push(at, lens.len());
                self.len_items.extend(lens.iter().map(|&len| len as i32));
            }
        }
        if let Some(scan_len) = row.scan_len {
            self.scan_lens.push(at, scan_len as i32);
        }
        for (column, number) in
            [(&mut self.at_ns, row.at_ns), (&mut self.after, row.after), (&mut self.txns, txn)]
        {
            if let Some(number) = number {
                column.push(at, number as i64);
            }
        }
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.kinds.clear();
        self.key_ends.clear();
        self.key_bytes.clear();
        [&mut self.fields, &mut self.values, &mut self.lens].into_iter().for_each(Lists::clear);
        self.numbers.clear();
        self.value_ends.clear();
        self.value_bytes.clear();
        let longs = [&mut self.seeds, &mut self.at_ns, &mut self.after, &mut self.txns];
        longs.into_iter().for_each(Sparse::clear);
        self.len_items.clear();
        self.scan_lens.clear();
        self.hash = 0;
    }

    /// The column chunks, in the order of the schema. Numbers that grow steadily are kept as differences.
    ///
    /// Keys and values are compressed unless they are random. Random digits shrink to half and random text by
    /// a quarter, and for that a generator would take twice the time, and every replay a part of it while
    /// it measures.
    fn encode(&self, parquet: &SchemaDescriptor, random: bool) -> Result<Vec<Encoded>> {
        let mut descriptions = parquet.columns().iter();
        let mut next = || descriptions.next().expect("a column for each of the schema");
        let rows = self.ids.len();
        let name_of = |kind: i32| OpKind::ALL[kind as usize].name();
        Ok(vec![
            column::steady(next(), &self.ids)?,
            column::names(next(), &self.kinds, name_of)?,
            column::texts(next(), &self.key_ends, &self.key_bytes, !random)?,
            column::number_lists(next(), rows, &self.fields, &self.numbers)?,
            column::text_lists(next(), rows, &self.values, &self.value_ends, &self.value_bytes, !random)?,
            column::random(next(), rows, &self.seeds)?,
            column::number_lists(next(), rows, &self.lens, &self.len_items)?,
            column::differences(next(), rows, &self.scan_lens)?,
            column::differences(next(), rows, &self.at_ns)?,
            column::differences(next(), rows, &self.after)?,
            // Recorded sessions: none yet.
            column::differences(next(), rows, &Sparse::<i32>::new())?,
            column::differences(next(), rows, &self.txns)?,
        ])
    }
}

/// The hash of one logical row; `room` is for its input. Every variable part is preceded by its length, so
/// that different rows cannot have the same input.
fn row_hash(id: u64, row: &Row<'_>, txn: Option<u64>, room: &mut Vec<u8>) -> u128 {
    const ABSENT: u64 = u64::MAX;
    fn put_list(out: &mut &mut [u8], items: &[u32]) {
        out.put_u32_le(items.len() as u32);
        items.iter().for_each(|&item| out.put_u32_le(item));
    }
    let (lens, bytes) = match row.values {
        RowValues::None => (0, 0),
        RowValues::Inline { lens, bytes } => (lens.len(), bytes.len()),
        RowValues::Seeded { lens, .. } => (lens.len(), 0),
    };
    let name = txn.map(|_| row.kind.name()).unwrap_or_default();
    // All that has a fixed length is shorter than 128 bytes.
    let most = 128 + name.len() + row.key.len() + 4 * (row.fields.map_or(0, <[u32]>::len) + lens) + bytes;
    if room.len() < most {
        room.resize(most, 0);
    }
    let mut out = &mut room[..];
    out.put_u64_le(id);
    match txn {
        None => out.put_u8(row.kind as u8),
        // A statement's number is this process's own: its name counts.
        Some(txn) => {
            out.put_slice(&[u8::MAX, name.len() as u8]);
            out.put_slice(name.as_bytes());
            out.put_u64_le(txn);
        }
    }
    out.put_u32_le(row.key.len() as u32);
    out.put_slice(row.key);
    match row.fields {
        None => out.put_u32_le(u32::MAX),
        Some(fields) => put_list(&mut out, fields),
    }
    match row.values {
        RowValues::None => out.put_u8(0),
        RowValues::Inline { lens, bytes } => {
            put_list(&mut out, lens);
            out.put_u8(1);
            out.put_slice(bytes);
        }
        RowValues::Seeded { seed, lens } => {
            put_list(&mut out, lens);
            out.put_u8(2);
            out.put_u64_le(seed);
        }
    }
    out.put_u64_le(row.scan_len.map_or(ABSENT, u64::from));
    out.put_u64_le(row.at_ns.unwrap_or(ABSENT));
    out.put_u64_le(row.after.unwrap_or(ABSENT));
    let left = out.len();
    xxh3_128(&room[..room.len() - left])
}

/// A chunk of rows, encoded and compressed: one row group of the file, not yet written.
pub struct EncodedChunk {
    /// Rows in it.
    pub rows: u64,
    /// Sum of the hashes of its rows.
    pub hash: u128,
    columns: Vec<Encoded>,
}

/// Encodes chunks on any thread; made by [`TraceWriter::encoder`].
pub struct ChunkEncoder {
    parquet: SchemaDescriptor,
    random: bool,
}

impl ChunkEncoder {
    /// Encodes the rows of `chunk`, which is empty then and keeps its memory for the next ones.
    pub fn encode(&self, chunk: &mut ChunkBuilder) -> Result<EncodedChunk> {
        let columns = chunk.encode(&self.parquet, self.random)?;
        let encoded = EncodedChunk { rows: chunk.ids.len() as u64, hash: chunk.hash, columns };
        chunk.clear();
        Ok(encoded)
    }
}

/// Writes a trace file: chunks in order, then the footer. The file appears under its name only when
/// it is complete.
pub struct TraceWriter {
    path: PathBuf,
    partial: PathBuf,
    writer: SerializedFileWriter<BufWriter<File>>,
    encoder: Arc<ChunkEncoder>,
    rows: u64,
    hash: u128,
}

impl TraceWriter {
    /// Begins `path`; until [`TraceWriter::finish`] the bytes are in `path` + `.partial`. Are keys and
    /// values random, so that compressing them is not worth the time?
    pub fn create(path: &Path, random: bool) -> Result<TraceWriter> {
        let partial = with_suffix(path, ".partial");
        let file = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
        let schema = trace_schema();
        let mut properties = trace_properties();
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let parquet = ArrowSchemaConverter::new().convert(&schema)?;
        let writer = SerializedFileWriter::new(file, parquet.root_schema_ptr(), Arc::new(properties))?;
        let encoder = Arc::new(ChunkEncoder { parquet, random });
        Ok(TraceWriter { path: path.to_owned(), partial, writer, encoder, rows: 0, hash: 0 })
    }

    /// Encodes chunks for this file; may be used from many threads.
    pub fn encoder(&self) -> Arc<ChunkEncoder> {
        self.encoder.clone()
    }

    /// Appends the next chunk.
    pub fn append(&mut self, chunk: EncodedChunk) -> Result<()> {
        self.rows += chunk.rows;
        self.hash = self.hash.wrapping_add(chunk.hash);
        let mut row_group = self.writer.next_row_group()?;
        for column in chunk.columns {
            column.append_to(&mut row_group)?;
        }
        row_group.close()?;
        Ok(())
    }

    /// Writes the footer, with the row count and content hash filled in, and gives the file its
    /// name. Returns the footer.
    pub fn finish(mut self, mut meta: TraceMeta) -> Result<TraceMeta> {
        meta.rows = self.rows;
        meta.content_hash = format!("{:032x}", self.hash);
        let json = serde_json::to_string(&meta).expect("a footer is plain data");
        self.writer.append_key_value_metadata(KeyValue::new(FOOTER_KEY.to_owned(), json));
        let TraceWriter { path, partial, writer, .. } = self;
        let complete = || -> Result<()> {
            writer.into_inner()?.flush()?;
            std::fs::rename(&partial, &path)?;
            Ok(())
        };
        complete().inspect_err(|_| drop(std::fs::remove_file(&partial)))?;
        Ok(meta)
    }

    /// Gives up and removes the unfinished file.
    pub fn abandon(self) {
        let _ = std::fs::remove_file(&self.partial);
    }
}

/// `path` with `suffix` after its whole name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind::{Insert, Read, Scan, Update};
    use crate::rng::{Purpose, Stream};
    use crate::trace::meta::Phase;
    use crate::trace::ops::TraceReader;

    /// What a row says, with memory of its own.
    #[derive(Debug, Clone, PartialEq)]
    struct Said {
        kind: OpKind,
        key: String,
        fields: Option<Vec<u32>>,
        inline: Option<Vec<Vec<u8>>>,
        seeded: Option<(u64, Vec<u32>)>,
        scan_len: Option<u32>,
        at_ns: Option<u64>,
        after: Option<u64>,
    }

    const BLANK: Said = Said {
        kind: Read,
        key: String::new(),
        fields: None,
        inline: None,
        seeded: None,
        scan_len: None,
        at_ns: None,
        after: None,
    };

    fn read_back(said: &[Said], random: bool) -> Vec<Said> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.run.parquet");
        let mut writer = TraceWriter::create(&path, random).unwrap();
        // More than one row group.
        for (number, rows) in said.chunks(700).enumerate() {
            let mut chunk = ChunkBuilder::new(0);
            for (id, said) in (700 * number as u64..).zip(rows) {
                let bytes = said.inline.iter().flatten().flatten().copied().collect::<Vec<u8>>();
                let lens: Vec<u32> = said.inline.iter().flatten().map(|value| value.len() as u32).collect();
                let values = match (&said.inline, &said.seeded) {
                    (Some(_), _) => RowValues::Inline { lens: &lens, bytes: &bytes },
                    (_, Some((seed, lens))) => RowValues::Seeded { seed: *seed, lens },
                    _ => RowValues::None,
                };
                let &Said { kind, scan_len, at_ns, after, .. } = said;
                let (key, fields) = (said.key.as_bytes(), said.fields.as_deref());
                chunk.push(id, &Row { kind, key, fields, values, scan_len, at_ns, after });
            }
            let encoded = writer.encoder().encode(&mut chunk).unwrap();
            writer.append(encoded).unwrap();
        }
        writer.finish(TraceMeta::empty("rows", Phase::Run)).unwrap();
        let mut reader = TraceReader::open(&path).unwrap();
        let mut found = Vec::new();
        while let Some(block) = reader.next_block().unwrap() {
            let numbers = |items: &[i32]| items.iter().map(|&item| item as u32).collect::<Vec<_>>();
            found.extend((0..block.len()).map(|row| Said {
                kind: block.kind(row),
                key: block.key(row).to_owned(),
                fields: block.field_numbers(row).map(numbers),
                inline: block.inline_values(row).map(|values| values.map(<[u8]>::to_vec).collect()),
                seeded: block.seeded_values(row).map(|(seed, lens)| (seed, numbers(lens))),
                scan_len: Some(block.scan_len(row)).filter(|&len| len > 0),
                at_ns: block.at_ns(row),
                after: block.after(row),
            }));
        }
        found
    }

    #[test]
    fn rows_read_back_as_they_were_written() {
        let seeded = |id: u64, lens: Vec<u32>| Said {
            kind: Update,
            key: format!("user{}", id.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            fields: Some((0..lens.len() as u32).collect()),
            seeded: Some((!id, lens)),
            ..BLANK
        };
        let inline = |id: u64, values: Vec<Vec<u8>>| Said {
            kind: Insert,
            key: format!("k{id}"),
            fields: Some((0..values.len() as u32).rev().collect()),
            inline: Some(values),
            ..BLANK
        };
        let mixed = |id: u64| match Stream::at(3, Purpose::Kind, id).below(6) {
            0 => BLANK,
            1 => seeded(id, vec![100]),
            2 => seeded(id, vec![7, 0, 5_000_000]),
            3 => inline(id, vec![vec![b'x'; id as usize % 40], Vec::new(), b"abc".to_vec()]),
            4 => Said { kind: Scan, scan_len: Some(1 + id as u32), key: "user".to_owned(), ..BLANK },
            _ => Said {
                at_ns: Some(id * 1_000_000_007 % 5_000_000_000_000),
                after: id.checked_sub(1 + id % 3),
                fields: Some(Vec::new()),
                key: format!("user{id}"),
                ..BLANK
            },
        };
        type Rows<'a> = &'a dyn Fn(u64) -> Said;
        let sorts: [(&str, Rows<'_>); 6] = [
            ("one field", &|id| {
                if id % 3 == 0 { seeded(id, vec![100]) } else { Said { key: "u".into(), ..BLANK } }
            }),
            ("all fields", &|id| seeded(id, vec![100; 10])),
            ("long values", &|id| seeded(id, vec![1024 + id as u32; 2])),
            ("inline", &|id| inline(id, vec![vec![b'0' + (id % 10) as u8; 100]; 3])),
            ("nothing but keys", &|id| Said { key: format!("{id}"), ..BLANK }),
            ("everything", &mixed),
        ];
        for (sort, row) in sorts {
            for (rows, random) in [(1, true), (63, false), (64, true), (129, false), (1403, true)] {
                let said: Vec<Said> = (0..rows).map(row).collect();
                let found = read_back(&said, random);
                let differs = said.iter().zip(&found).position(|(said, found)| said != found);
                assert_eq!((found.len(), differs), (said.len(), None), "{sort}, {rows} rows");
            }
        }
    }
}
