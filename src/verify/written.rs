//! What traces write: the hashes of the values, row by row, and the set of all of them by which a
//! replay knows at once a value that nobody wrote.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

use crate::op::OpKind;
use crate::record::{append_value, fingerprint, key_hash, value_hash};
use crate::trace::FileError;
use crate::trace::meta::{Shape, TraceMeta};
use crate::trace::ops::{OpBlock, TraceReader};

/// The hashes of what a row's operation writes, as (field, hash), into `out`; an insert also makes
/// null of the fields that it does not name. Empty for an operation that writes nothing.
pub fn written_values(block: &OpBlock, row: usize, field_count: u32, out: &mut Vec<(u32, u64)>) {
    out.clear();
    if !block.kind(row).writes() {
        return;
    }
    let numbers = block.field_numbers(row).unwrap_or_default().iter().map(|&number| number as u32);
    if let Some(values) = block.inline_values(row) {
        out.extend(numbers.zip(values.map(|value| value_hash(Some(value)))));
    } else if let Some((seed, lens)) = block.seeded_values(row) {
        let mut bytes = Vec::new();
        for (number, &len) in numbers.zip(lens) {
            bytes.clear();
            append_value(seed, number, len as usize, &mut bytes);
            out.push((number, value_hash(Some(&bytes))));
        }
    }
    if block.kind(row) == OpKind::Insert && out.len() < field_count as usize {
        let unnamed = |field: &u32| out.iter().all(|(number, _)| number != field);
        let unnamed: Vec<u32> = (0..field_count).filter(unnamed).collect();
        out.extend(unnamed.into_iter().map(|field| (field, value_hash(None))));
    }
}

/// A 64-bit fingerprint of every (key, field, value) that traces write. A value that was never
/// written passes by chance once in 2⁶⁴ / size.
#[derive(Debug, Default)]
pub struct Fingerprints(HashSet<u64, BuildHasherDefault<Mixed>>);

/// Values that are checked exactly; beyond, a replay only logs them (1.2 GB of fingerprints).
pub const MOST_FINGERPRINTS: u64 = 64_000_000;

/// How many values a trace writes at most, by its footer.
pub fn values_written(trace: &TraceMeta) -> u64 {
    let widest = |kind: &str| {
        let shapes = trace.shapes.iter().filter(|shape| shape.op == kind);
        let fields = |shape: &Shape| match shape.fields.len() {
            0 => trace.field_names.len(),
            some => some,
        };
        shapes.map(fields).max().unwrap_or(trace.field_names.len()) as u64
    };
    let of_kind = |(kind, count): (&String, &u64)| match OpKind::from_name(kind) {
        Some(OpKind::Insert) => count * trace.field_names.len() as u64,
        Some(written) if written.writes() => count * widest(kind),
        _ => 0,
    };
    trace.op_counts.iter().map(of_kind).sum()
}

impl Fingerprints {
    /// Reads everything that these traces write.
    pub fn of(traces: &[&Path]) -> Result<Fingerprints, FileError> {
        let mut set = HashSet::default();
        for path in traces {
            let mut reader = TraceReader::open(path)?;
            let field_count = reader.meta().field_names.len() as u32;
            set.reserve(values_written(reader.meta()).min(MOST_FINGERPRINTS) as usize);
            let mut values = Vec::new();
            while let Some(block) = reader.next_block()? {
                for row in 0..block.len() {
                    written_values(&block, row, field_count, &mut values);
                    let key = key_hash(block.key(row));
                    set.extend(values.iter().map(|&(field, value)| fingerprint(key, field, value)));
                }
            }
        }
        Ok(Fingerprints(set))
    }

    /// Does an operation write this value to this field of this row?
    #[inline]
    pub fn contains(&self, key: u64, field: u32, value: u64) -> bool {
        self.0.contains(&fingerprint(key, field, value))
    }
}

/// Fingerprints are mixed already.
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("fingerprints are 64-bit numbers");
    }
    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}
