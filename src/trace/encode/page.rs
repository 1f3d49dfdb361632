//! Parquet's own encodings of a page, as far as columns are written by hand: levels, runs and packed
//! numbers, differences, and the chunk around a page. The names are those of Parquet's
//! [description](https://parquet.apache.org/docs/file-format/data-pages/encodings/).

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::Encoded;

/// The width of codes below `distinct`, in bits.
pub fn width_of(distinct: usize) -> u32 {
    (usize::BITS - distinct.saturating_sub(1).leading_zeros()).max(1)
}

/// Levels: their length in bytes, then what `encode` appends.
pub fn levels(page: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let begin = page.len();
    page.extend_from_slice(&[0; 4]);
    encode(page);
    let length = (page.len() - begin - 4) as u32;
    page[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

/// One code below `distinct`, `count` times.
pub fn run(out: &mut Vec<u8>, code: u16, count: usize, distinct: usize) {
    varint(out, (count as u64) << 1);
    out.extend_from_slice(&code.to_le_bytes()[..width_of(distinct).div_ceil(8) as usize]);
}

/// Codes below `distinct`: one run if all are the same, else packed in groups of eight.
pub fn codes(out: &mut Vec<u8>, codes: &[u16], distinct: usize) {
    match codes.first() {
        Some(&first) if codes.iter().all(|&code| code == first) => run(out, first, codes.len(), distinct),
        _ => {
            groups(out, codes.len());
            let padding = codes.len().next_multiple_of(8) - codes.len();
            let padded = codes.iter().copied().chain(std::iter::repeat_n(0, padding));
            packed(out, padded.map(u64::from), width_of(distinct));
        }
    }
}

/// Values of `width` bits one after the other, from the lowest bit on; in all a whole number of bytes.
fn packed(out: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: u32) {
    let (mut bits, mut held) = (0u128, 0u32);
    for value in values {
        bits |= u128::from(value) << held;
        held += width;
        if held >= 64 {
            out.extend_from_slice(&(bits as u64).to_le_bytes());
            bits >>= 64;
            held -= 64;
        }
    }
    out.extend_from_slice(&bits.to_le_bytes()[..(held / 8) as usize]);
}

/// Bytes of codes that are packed already.
pub fn packed_codes(out: &mut Vec<u8>, count: usize, bytes: impl Iterator<Item = u8>) {
    groups(out, count);
    out.extend(bytes);
}

/// Announces packed codes, in groups of eight.
fn groups(out: &mut Vec<u8>, count: usize) {
    varint(out, (count.div_ceil(8) as u64) << 1 | 1);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn zigzag(out: &mut Vec<u8>, number: i64) {
    varint(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// DELTA_BINARY_PACKED: the first number, then blocks of 128 differences, each less the smallest of its
/// block, in four parts with a width of their own.
pub fn differences(out: &mut Vec<u8>, mut numbers: impl ExactSizeIterator<Item = i64>) {
    const BLOCK: usize = 128;
    const PART: usize = 32;
    varint(out, BLOCK as u64);
    varint(out, (BLOCK / PART) as u64);
    varint(out, numbers.len() as u64);
    let mut before = numbers.next().unwrap_or(0);
    zigzag(out, before);
    while numbers.len() > 0 {
        let count = numbers.len().min(BLOCK);
        let mut deltas = [0i64; BLOCK];
        for (delta, number) in deltas.iter_mut().zip(numbers.by_ref().take(count)) {
            *delta = number.wrapping_sub(before);
            before = number;
        }
        let smallest = deltas[..count].iter().copied().min().expect("a block is not empty");
        let mut above = [0u64; BLOCK];
        for (above, delta) in above.iter_mut().zip(&deltas[..count]) {
            *above = delta.wrapping_sub(smallest) as u64;
        }
        let width_of = |part: &[u64]| 64 - part.iter().fold(0, |all, &value| all | value).leading_zeros();
        zigzag(out, smallest);
        out.extend(above.chunks(PART).map(|part| width_of(part) as u8));
        // A part without any number has width 0, and so no bytes.
        for part in above.chunks(PART) {
            packed(out, part.iter().copied(), width_of(part));
        }
    }
}

/// zstd at its fastest level.
const LEVEL: i32 = 1;

/// What a column chunk of one data page consists of.
pub struct Chunk {
    /// Values in a page before the data, by their codes; their number.
    pub dictionary: Option<(Vec<u8>, usize)>,
    /// Levels and values.
    pub page: Vec<u8>,
    /// How the values are encoded.
    pub encoding: Encoding,
    /// Compressed, or as it is?
    pub compressed: bool,
    /// Rows.
    pub rows: usize,
    /// Its levels: one for each row, in a list for each item, and one for each list without any.
    pub levels: usize,
    /// If a reader needs them.
    pub statistics: Option<Statistics>,
}

impl Chunk {
    /// Without dictionary, compression and statistics; a level for each row.
    pub fn plain(encoding: Encoding, page: Vec<u8>, rows: usize) -> Chunk {
        let (dictionary, compressed, statistics) = (None, false, None);
        Chunk { dictionary, page, encoding, compressed, rows, levels: rows, statistics }
    }

    /// The bytes, and what the footer says about them.
    pub fn close(self, description: &ColumnDescPtr) -> Result<Encoded> {
        let compress = |bytes: Vec<u8>| match self.compressed {
            true => Ok(zstd::bulk::compress(&bytes, LEVEL)?),
            false => Ok::<_, ParquetError>(bytes),
        };
        let mut sink = TrackedWrite::new(Vec::with_capacity(self.page.len() + 256));
        let mut writer = SerializedPageWriter::new(&mut sink);
        let mut uncompressed = 0;
        let mut dictionary_offset = None;
        if let Some((bytes, values)) = self.dictionary {
            let length = bytes.len();
            let buf = compress(bytes)?.into();
            let (num_values, encoding) = (values as u32, Encoding::PLAIN);
            let page = Page::DictionaryPage { buf, num_values, encoding, is_sorted: false };
            let written = writer.write_page(CompressedPage::new(page, length))?;
            uncompressed += written.uncompressed_size;
            dictionary_offset = Some(written.offset as i64);
        }
        let length = self.page.len();
        let page = Page::DataPage {
            buf: compress(self.page)?.into(),
            num_values: self.levels as u32,
            encoding: self.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let written = writer.write_page(CompressedPage::new(page, length))?;
        uncompressed += written.uncompressed_size;
        writer.close()?;
        let bytes = Bytes::from(sink.into_inner()?);
        let metadata = ColumnChunkMetaData::builder(description.clone());
        let metadata = match self.statistics {
            Some(statistics) => metadata.set_statistics(statistics),
            None => metadata,
        };
        let mut encodings = vec![Encoding::PLAIN, Encoding::RLE];
        if self.encoding != Encoding::PLAIN {
            encodings.push(self.encoding);
        }
        let metadata = metadata
            .set_compression(match self.compressed {
                true => Compression::ZSTD(ZstdLevel::try_new(LEVEL)?),
                false => Compression::UNCOMPRESSED,
            })
            .set_encodings(encodings)
            .set_num_values(self.levels as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_data_page_offset(written.offset as i64)
            .set_dictionary_page_offset(dictionary_offset)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok(Encoded::ByHand(bytes, close))
    }
}
