//! The operations of a run as the registers saw them: trace (what was asked for) and result (when,
//! how it ended, and what came back) joined, for one part of the keys at a time.

use std::collections::{HashMap, HashSet};

use super::Inputs;
use super::scans::Scans;
use super::written::written_values;
use crate::op::{NEVER_NS, OpKind, Status};
use crate::record::key_hash;
use crate::trace::FileError;
use crate::trace::ops::{OpBlock, TraceReader};
use crate::trace::runs::RunObservations;

/// The field number of the register that says whether the row is there.
pub const ROW: u32 = (1 << 30) - 1;
/// The value of a row that is there.
pub const PRESENT: u64 = 1;
/// The value of a row that is not, and of its fields.
pub const ABSENT: u64 = 0x61_6273_656e_7400;
/// The operation of a value that was there when the run began.
pub const LOADED: u32 = u32::MAX;

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It did what it was asked for.
    Done,
    /// Nobody knows whether it did.
    Unknown,
    /// It found its row there already; whoever wrote that may have written the same.
    ThereAlready,
    /// It did nothing.
    Nothing,
}

/// An operation of this part.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Its number in the trace.
    pub id: u64,
    key: u64,
    kind: OpKind,
    /// Which of the field lists.
    fields: u32,
    /// When it began, with 1 added: 0 is before the run.
    pub start: u64,
    /// When its last try began.
    pub last_start: u64,
    /// When it ended.
    pub end: u64,
    /// What became of it.
    pub fate: Fate,
}

impl Operation {
    /// Does it remove its row?
    pub fn is_delete(&self) -> bool {
        self.kind == OpKind::Delete
    }
}

/// What happened to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A value was written (or may have been).
    Write = 0,
    /// A value was seen.
    Read = 1,
    /// A value was seen by a read-modify-write that then wrote this register.
    ReadToWrite = 2,
}

/// One value at one register. 24 bytes, because there are many. Sorted, the events of a register lie
/// together, and within it those of a value, its writes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Hash of the key.
    pub key: u64,
    /// Hash of the value.
    pub value: u64,
    field_and_what: u32,
    /// Position among the operations, or [`LOADED`].
    pub op: u32,
}

impl Event {
    fn new(key: u64, field: u32, value: u64, what: What, op: u32) -> Event {
        Event { key, value, field_and_what: field << 2 | what as u32, op }
    }

    /// Field number, or [`ROW`].
    pub fn field(&self) -> u32 {
        self.field_and_what >> 2
    }

    /// What happened.
    pub fn what(&self) -> What {
        match self.field_and_what & 0b11 {
            0 => What::Write,
            1 => What::Read,
            _ => What::ReadToWrite,
        }
    }

    fn order(&self) -> (u64, u32, u64, u32, u32) {
        (self.key, self.field(), self.value, self.field_and_what, self.op)
    }
}

/// Everything that happened to one part of the keys.
pub struct Part {
    /// Its operations, ascending by id, then scans that saw rows of it.
    pub operations: Vec<Operation>,
    /// Sorted.
    pub events: Vec<Event>,
    /// Keys that operations of the run insert.
    pub inserted: HashSet<u64>,
    /// Text of every key of the part, if asked for.
    pub names: HashMap<u64, String>,
    /// Values that came back to operations of this part.
    pub observed: u64,
}

/// Which part of how many.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// 0-based.
    pub index: u64,
    /// How many there are.
    pub count: u64,
}

impl Share {
    fn has(self, key: u64) -> bool {
        // Not the low bits, by which the hash tables below spread.
        (key >> 32) % self.count == self.index
    }
}

/// The field lists of a trace, each once.
#[derive(Default)]
struct FieldLists {
    lists: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u32>,
}

impl FieldLists {
    fn number(&mut self, block: &OpBlock, row: usize, field_count: u32) -> u32 {
        let list: Vec<u32> = match block.field_numbers(row) {
            // A read-modify-write reads the whole row.
            Some(numbers) if !numbers.is_empty() => numbers.iter().map(|&number| number as u32).collect(),
            _ => (0..field_count).collect(),
        };
        if let Some(&number) = self.numbers.get(&list) {
            return number;
        }
        let number = self.lists.len() as u32;
        self.lists.push(list.clone());
        self.numbers.insert(list, number);
        number
    }
}

/// Reads one part, with the rows that `asked` scans left out. With `every_key`, also the keys that no operation of the run touches, and their
/// texts.
pub fn read(
    inputs: &Inputs,
    share: Share,
    asked: Option<&Scans>,
    every_key: bool,
) -> Result<Part, FileError> {
    let mut part = Part {
        operations: Vec::new(),
        events: Vec::new(),
        inserted: HashSet::new(),
        names: HashMap::new(),
        observed: 0,
    };
    let mut lists = FieldLists::default();
    // Scans of some fields only: what came back to them does not say which.
    let mut scans: HashMap<u64, u32> = HashMap::new();
    let mut reader = TraceReader::open(&inputs.trace)?;
    let field_count = reader.meta().field_names.len() as u32;
    let all: Vec<u32> = (0..field_count).collect();
    let mut values = Vec::new();
    while let Some(block) = reader.next_block()? {
        for row in 0..block.len() {
            let (id, kind) = (block.id(row), block.kind(row));
            if kind == OpKind::Scan {
                if block.field_numbers(row).is_some_and(|fields| !fields.is_empty()) {
                    scans.insert(id, lists.number(&block, row, field_count));
                }
                continue;
            }
            let key = key_hash(block.key(row));
            if !share.has(key) {
                continue;
            }
            if every_key {
                part.names.entry(key).or_insert_with(|| block.key(row).to_owned());
            }
            let op = part.operations.len() as u32;
            part.operations.push(Operation {
                id,
                key,
                kind,
                fields: lists.number(&block, row, field_count),
                // Until its row is found: it may have been in flight when the run was killed.
                start: 0,
                last_start: 0,
                end: NEVER_NS,
                fate: Fate::Unknown,
            });
            written_values(&block, row, field_count, &mut values);
            let mut write = |field, value| part.events.push(Event::new(key, field, value, What::Write, op));
            values.iter().for_each(|&(field, value)| write(field, value));
            match kind {
                OpKind::Insert => {
                    write(ROW, PRESENT);
                    part.inserted.insert(key);
                }
                OpKind::Delete => all.iter().chain([&ROW]).for_each(|&field| write(field, ABSENT)),
                _ => {}
            }
        }
    }
    debug_assert!(part.operations.is_sorted_by_key(|operation| operation.id));
    let of_trace = part.operations.len();
    for group in 0..inputs.result.row_groups() {
        inputs.result.scan_observations(group, |rows| {
            for row in 0..rows.columns.kinds.len() {
                let id = rows.columns.op_id[row] as u64;
                if rows.columns.kinds[row] == OpKind::Scan {
                    let fields = scans.get(&id).map_or(&all, |&list| &lists.lists[list as usize]);
                    part.add_scan(share, rows, row, fields, asked);
                } else if let Ok(op) = part.operations[..of_trace].binary_search_by_key(&id, |found| found.id)
                {
                    part.add_row(op, rows, row, &all, &lists);
                }
            }
        })?;
    }
    if let Some(load) = &inputs.load {
        let touched: HashSet<u64> = part.events.iter().map(|event| event.key).collect();
        let mut reader = TraceReader::open(load)?;
        while let Some(block) = reader.next_block()? {
            for row in 0..block.len() {
                let key = key_hash(block.key(row));
                if !share.has(key) || !(every_key || touched.contains(&key)) {
                    continue;
                }
                if every_key {
                    part.names.entry(key).or_insert_with(|| block.key(row).to_owned());
                }
                written_values(&block, row, field_count, &mut values);
                values.push((ROW, PRESENT));
                let written =
                    |&(field, value): &(u32, u64)| Event::new(key, field, value, What::Write, LOADED);
                part.events.extend(values.iter().map(written));
            }
        }
    }
    part.events.sort_unstable_by_key(Event::order);
    Ok(part)
}

/// The times of a row: 1 is added, because 0 is before the run.
fn times(rows: &RunObservations, row: usize) -> (u64, u64, u64) {
    let later = |ns: u64| if ns == NEVER_NS { NEVER_NS } else { ns + 1 };
    let start = later(rows.columns.start_ns[row]);
    let last = later(rows.last_start_ns[row]);
    (start, if last == NEVER_NS { start } else { last }, later(rows.columns.end_ns[row]))
}

impl Part {
    /// The result of an operation on one key.
    fn add_row(&mut self, op: usize, rows: &RunObservations, row: usize, all: &[u32], lists: &FieldLists) {
        let operation = &mut self.operations[op];
        (operation.start, operation.last_start, operation.end) = times(rows, row);
        operation.fate = match rows.columns.statuses[row] {
            Status::Ok | Status::Mismatch => Fate::Done,
            Status::Duplicate => Fate::ThereAlready,
            Status::NotFound | Status::Unsupported | Status::Dropped | Status::Unmet => Fate::Nothing,
            _ => Fate::Unknown,
        };
        let Operation { key, kind, fate, fields, .. } = *operation;
        match fate {
            // Then it began before everything: the row was there.
            Fate::ThereAlready => operation.start = 0,
            Fate::Nothing if rows.columns.statuses[row] == Status::NotFound => {
                self.events.push(Event::new(key, ROW, ABSENT, What::Read, op as u32));
            }
            // A value of it can only come from elsewhere.
            Fate::Nothing => (operation.start, operation.end) = (NEVER_NS, NEVER_NS),
            Fate::Done if matches!(kind, OpKind::Read | OpKind::Update | OpKind::ReadModifyWrite) => {
                self.events.push(Event::new(key, ROW, PRESENT, What::Read, op as u32));
            }
            Fate::Done | Fate::Unknown => {}
        }
        if fate != Fate::Done {
            return;
        }
        let written = &lists.lists[fields as usize];
        let read = if kind == OpKind::ReadModifyWrite { all } else { written };
        let observed = rows.observed(row);
        // Another number of values than was asked for cannot be told apart.
        if !observed.len().is_multiple_of(read.len().max(1)) {
            return;
        }
        self.observed += observed.len() as u64;
        for (&value, &field) in observed.iter().zip(read.iter().cycle()) {
            let writes_too = kind == OpKind::ReadModifyWrite && written.contains(&field);
            let what = if writes_too { What::ReadToWrite } else { What::Read };
            self.events.push(Event::new(key, field, value.cast_unsigned(), what, op as u32));
        }
    }

    /// What came back to a scan: each row is a read of its key, and so is each that should have come.
    fn add_scan(
        &mut self,
        share: Share,
        rows: &RunObservations,
        row: usize,
        fields: &[u32],
        asked: Option<&Scans>,
    ) {
        let observed = rows.observed(row);
        if !observed.len().is_multiple_of(fields.len() + 1) {
            return;
        }
        let id = rows.columns.op_id[row] as u64;
        let answers = observed.chunks_exact(fields.len() + 1);
        let mut op = None;
        let mut operation = |operations: &mut Vec<Operation>, key| {
            *op.get_or_insert_with(|| {
                let (start, last_start, end) = times(rows, row);
                let (kind, fate) = (OpKind::Scan, Fate::Done);
                operations.push(Operation { id, key, kind, fields: 0, start, last_start, end, fate });
                operations.len() as u32 - 1
            })
        };
        if let (Some(asked), Status::Ok) = (asked, rows.columns.statuses[row]) {
            let left_out = asked.left_out(id, answers.clone().map(|seen| seen[0].cast_unsigned()));
            for key in left_out.into_iter().filter(|&key| share.has(key)) {
                let op = operation(&mut self.operations, key);
                self.events.push(Event::new(key, ROW, ABSENT, What::Read, op));
            }
        }
        for seen in answers {
            let key = seen[0].cast_unsigned();
            if !share.has(key) {
                continue;
            }
            let op = operation(&mut self.operations, key);
            self.observed += fields.len() as u64;
            self.events.push(Event::new(key, ROW, PRESENT, What::Read, op));
            self.events.extend(
                fields
                    .iter()
                    .zip(&seen[1..])
                    .map(|(&field, &value)| Event::new(key, field, value.cast_unsigned(), What::Read, op)),
            );
        }
    }
}
