//! The operations of a workload, one by one: a pure function of (seed, index) and of the number of
//! inserts before it. This file is the definition of what our traces contain; the order in which
//! YCSB draws is kept where it matters (kind, key, lengths), and every purpose has its own stream.

use super::inserts::{InsertCounts, InsertFinder, kind_of};
use super::{Arrival, Phase, ValueMode};
use crate::op::OpKind;
use crate::record::{self, KeyFormat};
use crate::rng::{Purpose, Streams, mix};
use crate::trace::chunk::{ChunkBuilder, Row, RowValues};
use crate::workload::{Distribution, Horizon, LengthDraw, OpChooser, WorkloadSpec};

/// State that grows with the trace is set afresh before every operation whose index is a multiple
/// of this, so that it does not depend on where a chunk or a shard begins.
pub const SEEK_OPS: u64 = 64;

/// What is known before a chunk: all that is carried from one chunk to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carry {
    /// Inserts of the run before this operation.
    pub inserts: u64,
    /// Sum of the arrival gaps before this operation, ns.
    pub arrival_ns: u64,
}

/// Counts of what was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Operations per kind.
    pub kinds: [u64; OpKind::YCSB.len()],
    /// Operations with an `after`.
    pub dependent: u64,
}

impl Counts {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Counts) {
        for (mine, theirs) in self.kinds.iter_mut().zip(other.kinds) {
            *mine += theirs;
        }
        self.dependent += other.dependent;
    }
}

/// The streams that an operation is drawn from.
struct Draws {
    kind: Streams,
    key: Streams,
    field: Streams,
    length: Streams,
    scan_length: Streams,
}

impl Draws {
    fn of(seed: u64) -> Draws {
        Draws {
            kind: Streams::of(seed, Purpose::Kind),
            key: Streams::of(seed, Purpose::Key),
            field: Streams::of(seed, Purpose::Field),
            length: Streams::of(seed, Purpose::Length),
            scan_length: Streams::of(seed, Purpose::ScanLength),
        }
    }
}

/// What an operation does and to which record, and what was before it.
struct Drawn {
    kind: OpKind,
    keynum: u64,
    inserts_before: u64,
    at_ns: Option<u64>,
    /// End of its key in the text of all keys.
    key_end: usize,
}

/// Makes operations. One per thread.
pub struct RowMaker<'a> {
    spec: &'a WorkloadSpec,
    phase: Phase,
    seed: u64,
    draws: u64,
    values: ValueMode,
    arrival: Option<Arrival>,
    kinds: &'a Option<OpChooser>,
    streams: Draws,
    keys: Box<dyn Distribution>,
    finder: Option<InsertFinder<'a>>,
    lengths: LengthDraw,
    scan_lengths: LengthDraw,
    key_format: KeyFormat,
    all_fields: Vec<u32>,
    /// A block of operations, being made.
    drawn: Vec<Drawn>,
    /// Their keys, one after the other.
    keys_text: Vec<u8>,
    // Reused from row to row.
    lens: Vec<u32>,
    bytes: Vec<u8>,
    /// Names of the fields, where values are made of them.
    names: Vec<String>,
}

/// The seed of a phase's own streams: a load row's lengths have nothing to do with those of the
/// operation with the same number in the run.
fn phase_seed(seed: u64, phase: Phase) -> u64 {
    match phase {
        Phase::Load => mix(seed ^ 0x4c4f_4144),
        Phase::Run => seed,
    }
}

impl<'a> RowMaker<'a> {
    /// For one phase of a workload; `kinds` is `None` in the load phase.
    pub fn new(
        spec: &'a WorkloadSpec,
        phase: Phase,
        seed: u64,
        values: ValueMode,
        arrival: Option<Arrival>,
        kinds: &'a Option<OpChooser>,
        counts: &'a InsertCounts,
    ) -> RowMaker<'a> {
        let draws = phase_seed(seed, phase);
        RowMaker {
            spec,
            phase,
            seed,
            draws,
            values,
            arrival,
            kinds,
            streams: Draws::of(draws),
            keys: spec.key_chooser(),
            finder: kinds.as_ref().map(|kinds| InsertFinder::new(counts, kinds, draws)),
            lengths: spec.field_lengths(),
            scan_lengths: spec.scan_lengths(),
            key_format: spec.key_format(),
            all_fields: (0..spec.field_count).collect(),
            drawn: Vec::with_capacity(SEEK_OPS as usize),
            keys_text: Vec::new(),
            lens: Vec::new(),
            bytes: Vec::new(),
            names: if spec.data_integrity { spec.field_names() } else { Vec::new() },
        }
    }

    /// Appends the operations `keep` to the chunk. `from` ≤ `keep.start` is a multiple of
    /// [`SEEK_OPS`], and `carry` is what is known before `from`.
    pub fn fill(
        &mut self,
        from: u64,
        keep: std::ops::Range<u64>,
        mut carry: Carry,
        chunk: &mut ChunkBuilder,
    ) -> Counts {
        let mut counts = Counts::default();
        let mut begin = from;
        while begin < keep.end {
            let end = (begin + SEEK_OPS).min(keep.end);
            self.draw(begin..end, &mut carry);
            if keep.start < end {
                self.write_keys();
                let (drawn, mut key_begin) = (std::mem::take(&mut self.drawn), 0);
                for (index, drawn) in (begin..).zip(&drawn) {
                    let key = key_begin..drawn.key_end;
                    key_begin = drawn.key_end;
                    if keep.contains(&index) {
                        self.push(index, drawn, key, chunk, &mut counts);
                    }
                }
                self.drawn = drawn;
            }
            begin = end;
        }
        counts
    }

    /// Draws what a block of operations does, step by step: what one operation draws hardly depends on another,
    /// so that in a loop which does nothing else a processor works on several at once.
    fn draw(&mut self, ops: std::ops::Range<u64>, carry: &mut Carry) {
        self.drawn.clear();
        let blank = Drawn { kind: OpKind::Insert, keynum: 0, inserts_before: 0, at_ns: None, key_end: 0 };
        self.drawn.extend(ops.clone().map(|index| match self.kinds {
            None => Drawn { ..blank },
            Some(kinds) => Drawn { kind: kind_of(kinds, self.streams.kind, index), ..blank },
        }));
        let last_before = self.spec.first_insert.wrapping_sub(1);
        if self.kinds.is_some() {
            self.keys.seek(last_before.wrapping_add(carry.inserts));
        }
        for (index, drawn) in ops.zip(&mut self.drawn) {
            drawn.keynum = match (self.phase, drawn.kind) {
                (Phase::Load, _) => self.spec.insert_start + index,
                (Phase::Run, OpKind::Insert) => self.spec.first_insert + carry.inserts,
                (Phase::Run, _) => {
                    let last = last_before.wrapping_add(carry.inserts);
                    let horizon = Horizon { choices: index - carry.inserts, last };
                    self.keys.next(&mut self.streams.key.at(index), horizon)
                }
            };
            drawn.inserts_before = carry.inserts;
            carry.inserts += u64::from(self.phase == Phase::Run && drawn.kind == OpKind::Insert);
            drawn.at_ns = self.arrival.map(|arrival| {
                carry.arrival_ns += arrival.gap_ns(self.draws, index);
                arrival.at_ns(index, carry.arrival_ns)
            });
        }
    }

    fn write_keys(&mut self) {
        self.keys_text.clear();
        for drawn in &mut self.drawn {
            self.key_format.write(drawn.keynum, &mut self.keys_text);
            drawn.key_end = self.keys_text.len();
        }
    }

    fn push(
        &mut self,
        index: u64,
        drawn: &Drawn,
        key: std::ops::Range<usize>,
        chunk: &mut ChunkBuilder,
        counts: &mut Counts,
    ) {
        let &Drawn { kind, keynum, inserts_before, at_ns, .. } = drawn;
        let key = &self.keys_text[key];
        let after = match keynum.checked_sub(self.spec.first_insert) {
            Some(ordinal) if kind != OpKind::Insert && ordinal < inserts_before => {
                self.finder.as_mut().map(|finder| finder.op_of(ordinal))
            }
            _ => None,
        };
        counts.kinds[kind as usize] += 1;
        counts.dependent += u64::from(after.is_some());

        let one_field;
        let fields: Option<&[u32]> = match kind {
            OpKind::Insert => Some(&self.all_fields),
            OpKind::Update | OpKind::ReadModifyWrite if self.spec.write_all_fields => Some(&self.all_fields),
            OpKind::Read if self.spec.read_all_fields && self.spec.read_all_fields_by_name => {
                Some(&self.all_fields)
            }
            OpKind::Read | OpKind::Scan if self.spec.read_all_fields => None,
            OpKind::Delete => None,
            _ => {
                let mut stream = self.streams.field.at(index);
                one_field = [stream.below(u64::from(self.spec.field_count)) as u32];
                Some(&one_field)
            }
        };
        let values = if kind.writes() {
            let stream_index = if self.phase == Phase::Load { keynum } else { index };
            let mut stream = self.streams.length.at(stream_index);
            let fields = fields.expect("a write names its fields");
            self.lens.clear();
            self.lens.extend(fields.iter().map(|_| self.lengths.next(&mut stream)));
            // Version 0 is the load's; an operation of the run writes version index + 1.
            let version = if self.phase == Phase::Load { 0 } else { index + 1 };
            let seed = record::value_seed(self.seed, keynum, version);
            match self.values {
                _ if self.spec.data_integrity => {
                    let key = str::from_utf8(key).expect("a text prefix and digits are a text");
                    self.bytes.clear();
                    for (&field, &len) in fields.iter().zip(&self.lens) {
                        let name = &self.names[field as usize];
                        record::append_integrity_value(
                            self.spec.tool,
                            key,
                            name,
                            len as usize,
                            &mut self.bytes,
                        );
                    }
                    RowValues::Inline { lens: &self.lens, bytes: &self.bytes }
                }
                ValueMode::Seeded => RowValues::Seeded { seed, lens: &self.lens },
                ValueMode::Inline => {
                    self.bytes.clear();
                    for (&field, &len) in fields.iter().zip(&self.lens) {
                        record::append_value(seed, field, len as usize, &mut self.bytes);
                    }
                    RowValues::Inline { lens: &self.lens, bytes: &self.bytes }
                }
            }
        } else {
            RowValues::None
        };
        let scan_len =
            (kind == OpKind::Scan).then(|| self.scan_lengths.next(&mut self.streams.scan_length.at(index)));
        chunk.push(index, &Row { kind, key, fields, values, scan_len, at_ns, after });
    }
}
