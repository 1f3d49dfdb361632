//! The columns of a trace's row group, in the form that Parquet's pages want: values without gaps, and a bit
//! for each row that has one. Nothing happens for a row without a value.

use parquet::basic::Encoding;
use parquet::errors::Result;
use parquet::schema::types::ColumnDescPtr;

use super::page::{self, Chunk};
use super::{Coder, Encoded, nulls, write_number, write_text};

/// A column in which rows may have no value.
#[derive(Debug)]
pub struct Sparse<T> {
    values: Vec<T>,
    /// A bit for each row, up to the last one with a value.
    valid: Vec<u64>,
}

impl<T: Copy> Sparse<T> {
    /// Without values.
    pub fn new() -> Sparse<T> {
        Sparse { values: Vec::new(), valid: Vec::new() }
    }

    /// The value of a row, which is after all those that have one.
    #[inline]
    pub fn push(&mut self, row: usize, value: T) {
        let word = row / 64;
        if word >= self.valid.len() {
            self.valid.resize(word + 1, 0);
        }
        self.valid[word] |= 1 << (row % 64);
        self.values.push(value);
    }

    /// Without values again.
    pub fn clear(&mut self) {
        self.values.clear();
        self.valid.clear();
    }

    /// Eight rows each.
    fn valid_bytes(&self, rows: usize) -> impl Iterator<Item = u8> {
        let bytes = self.valid.iter().flat_map(|word| word.to_le_bytes());
        bytes.chain(std::iter::repeat(0)).take(rows.div_ceil(8))
    }

    /// Rows in their order: their value, if they have one.
    fn rows(&self, rows: usize) -> impl Iterator<Item = Option<T>> {
        let mut values = self.values.iter().copied();
        (0..rows).map(move |row| {
            let word = self.valid.get(row / 64).copied().unwrap_or(0);
            if word >> (row % 64) & 1 == 1 { values.next() } else { None }
        })
    }
}

/// A column of lists, in which rows may have none. Their items are elsewhere, one after the other.
#[derive(Debug)]
pub struct Lists {
    lengths: Sparse<u32>,
    /// Has each list one item?
    single: bool,
}

impl Lists {
    /// Without lists.
    pub fn new() -> Lists {
        Lists { lengths: Sparse::new(), single: true }
    }

    /// The list of a row has so many items.
    #[inline]
    pub fn push(&mut self, row: usize, items: usize) {
        self.single &= items == 1;
        self.lengths.push(row, items as u32);
    }

    /// Without lists again.
    pub fn clear(&mut self) {
        self.lengths.clear();
        self.single = true;
    }

    /// A page that begins with the levels, and their number.
    fn levels(&self, rows: usize) -> (Vec<u8>, usize) {
        /// Repetition: a list begins here, or goes on.
        const BEGINS: u16 = 0;
        const GOES_ON: u16 = 1;
        /// Definition: no list, no item, an item.
        const NULL: u16 = 0;
        const EMPTY: u16 = 1;
        const ITEM: u16 = 2;
        let mut page = Vec::new();
        if self.single {
            page::levels(&mut page, |page| page::run(page, BEGINS, rows, 2));
            // Two bits a row: NULL, or ITEM.
            let definition =
                self.lengths.valid_bytes(rows).flat_map(|byte| (spread(byte) << 1).to_le_bytes());
            page::levels(&mut page, |page| page::packed_codes(page, rows, definition));
            return (page, rows);
        }
        let (mut repetition, mut definition) = (Vec::new(), Vec::new());
        for items in self.lengths.rows(rows) {
            repetition.push(BEGINS);
            match items {
                None => definition.push(NULL),
                Some(0) => definition.push(EMPTY),
                Some(items) => {
                    definition.extend(std::iter::repeat_n(ITEM, items as usize));
                    repetition.extend(std::iter::repeat_n(GOES_ON, items as usize - 1));
                }
            }
        }
        page::levels(&mut page, |page| page::codes(page, &repetition, 2));
        page::levels(&mut page, |page| page::codes(page, &definition, 3));
        (page, repetition.len())
    }
}

/// Bits 0, 1, 2 … at 0, 2, 4 …
fn spread(byte: u8) -> u16 {
    let bits = u16::from(byte);
    let bits = (bits | bits << 4) & 0x0f0f;
    let bits = (bits | bits << 2) & 0x3333;
    (bits | bits << 1) & 0x5555
}

/// Numbers that grow steadily, one in each row.
pub fn steady(description: &ColumnDescPtr, numbers: &[i64]) -> Result<Encoded> {
    let mut page = Vec::new();
    page::differences(&mut page, numbers.iter().copied());
    Chunk::plain(Encoding::DELTA_BINARY_PACKED, page, numbers.len()).close(description)
}

/// Numbers that grow steadily, or are small; 32 bits if the column has no more.
pub fn differences<T: Copy + Into<i64>>(
    description: &ColumnDescPtr,
    rows: usize,
    numbers: &Sparse<T>,
) -> Result<Encoded> {
    sparse(description, rows, numbers, Encoding::DELTA_BINARY_PACKED, |page, values| {
        page::differences(page, values.iter().map(|&number| number.into()));
    })
}

/// Numbers of random bits.
pub fn random(description: &ColumnDescPtr, rows: usize, numbers: &Sparse<i64>) -> Result<Encoded> {
    sparse(description, rows, numbers, Encoding::PLAIN, |page, values| {
        page.reserve_exact(values.len() * 8);
        values.iter().for_each(|number| page.extend_from_slice(&number.to_le_bytes()));
    })
}

/// A bit for each row, and then what `write` makes of the values.
fn sparse<T: Copy>(
    description: &ColumnDescPtr,
    rows: usize,
    numbers: &Sparse<T>,
    encoding: Encoding,
    write: impl FnOnce(&mut Vec<u8>, &[T]),
) -> Result<Encoded> {
    if numbers.values.is_empty() {
        return nulls(description, rows);
    }
    let mut page = Vec::new();
    page::levels(&mut page, |page| page::packed_codes(page, rows, numbers.valid_bytes(rows)));
    write(&mut page, &numbers.values);
    Chunk::plain(encoding, page, rows).close(description)
}

/// Names, one in each row, of which there are few; `numbers` says which.
pub fn names(
    description: &ColumnDescPtr,
    numbers: &[i32],
    name_of: impl Fn(i32) -> &'static str,
) -> Result<Encoded> {
    let mut coder = Coder::new();
    assert!(coder.push(numbers), "the numbers of names are small");
    let rows = numbers.len();
    let chunk = coder.chunk(Vec::new(), rows, rows, |out, number| write_text(out, name_of(number)));
    chunk.close(description)
}

/// Lists of numbers, small and few if it is to be short.
pub fn number_lists(
    description: &ColumnDescPtr,
    rows: usize,
    lists: &Lists,
    items: &[i32],
) -> Result<Encoded> {
    if lists.lengths.values.is_empty() {
        return nulls(description, rows);
    }
    let (mut page, levels) = lists.levels(rows);
    let mut coder = Coder::new();
    if coder.push(items) {
        return coder.chunk(page, rows, levels, write_number).close(description);
    }
    page::differences(&mut page, items.iter().map(|&item| item.into()));
    Chunk { levels, ..Chunk::plain(Encoding::DELTA_BINARY_PACKED, page, rows) }.close(description)
}

/// Lists of texts, all of which are `bytes` cut at `ends`.
pub fn text_lists(
    description: &ColumnDescPtr,
    rows: usize,
    lists: &Lists,
    ends: &[u32],
    bytes: &[u8],
    compressed: bool,
) -> Result<Encoded> {
    if lists.lengths.values.is_empty() {
        return nulls(description, rows);
    }
    let (page, levels) = lists.levels(rows);
    let page = cut(page, ends, bytes);
    let chunk = Chunk::plain(Encoding::DELTA_LENGTH_BYTE_ARRAY, page, rows);
    Chunk { levels, compressed, ..chunk }.close(description)
}

/// Texts, one in each row, which are `bytes` cut at `ends`: the lengths of all, then the bytes.
pub fn texts(description: &ColumnDescPtr, ends: &[u32], bytes: &[u8], compressed: bool) -> Result<Encoded> {
    let page = cut(Vec::new(), ends, bytes);
    let chunk = Chunk::plain(Encoding::DELTA_LENGTH_BYTE_ARRAY, page, ends.len());
    Chunk { compressed, ..chunk }.close(description)
}

/// A page that goes on with texts.
fn cut(mut page: Vec<u8>, ends: &[u32], bytes: &[u8]) -> Vec<u8> {
    page.reserve_exact(ends.len() * 4 + bytes.len());
    let begin = |at: usize| if at == 0 { 0 } else { ends[at - 1] };
    page::differences(&mut page, (0..ends.len()).map(|at| i64::from(ends[at] - begin(at))));
    page.extend_from_slice(bytes);
    page
}
