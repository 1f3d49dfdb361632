//! Did the database keep its word? Decides afterwards, from the trace (what was written) and the
//! result of a replay with `--verify` (when, and what came back), whether every register could have
//! behaved as it did, and names the operations that show otherwise.
//!
//! Each field of each row is judged on its own, and so is the question whether the row is there. What
//! concerns several fields or rows at once (a transaction over two keys, the snapshot of a scan) is
//! not seen; that a scan leaves out a row is. What may be so is never reported: an operation that failed may have happened or not, at
//! any time after its start, and values that several writes share are left out and counted.
//!
//! Keys are taken in parts, so memory depends on the size of a part and not of the run.

pub mod history;
pub mod register;
pub mod scans;
pub mod written;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::history::{ABSENT, Event, Fate, LOADED, Operation, PRESENT, Part, ROW, Share, What};
use self::register::{Cluster, Span, Violation};
use self::scans::Scans;
use crate::op::{NEVER_NS, OpKind};
use crate::record::key_hash;
use crate::trace::FileError;
use crate::trace::ops::TraceReader;
use crate::trace::runs::RunFile;

/// What is compared.
pub struct Inputs {
    /// The result.
    pub result: RunFile,
    /// The trace that it replayed.
    pub trace: PathBuf,
    /// The trace that filled the table; without it, the first value seen counts as loaded.
    pub load: Option<PathBuf>,
    /// Events held in memory at once, about; 24 bytes each, and as much again while sorting.
    pub part_events: u64,
}

/// The usual [`Inputs::part_events`]: some 400 MB.
pub const PART_EVENTS: u64 = 8_000_000;

/// Findings of each category that are named one by one.
const NAMED: usize = 100;

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// A value came back that nobody wrote.
    Corrupt,
    /// A value came back that had been overwritten before the read began.
    Stale,
    /// A row was not found although its insert was confirmed before.
    Vanished,
    /// Two committed read-modify-writes saw the same version, so one overwrote the other unseen.
    LostUpdate,
    /// A value came back before the operation that writes it had begun.
    Future,
    /// Each value by itself was possible, but no order of the operations explains all of them.
    NotLinearizable,
}

impl Category {
    /// Every category, in the order of reports.
    pub const ALL: [Category; 6] = [
        Category::Corrupt,
        Category::Stale,
        Category::Vanished,
        Category::LostUpdate,
        Category::Future,
        Category::NotLinearizable,
    ];

    /// As in a report.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Corrupt => "corrupt",
            Category::Stale => "stale",
            Category::Vanished => "vanished",
            Category::LostUpdate => "lost update",
            Category::Future => "future",
            Category::NotLinearizable => "not linearizable",
        }
    }
}

/// One thing that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is wrong.
    pub category: Category,
    /// The operation that shows it.
    pub op_id: u64,
    /// The row.
    pub key: String,
    /// The field; none if it is about the row itself.
    pub field: Option<String>,
    /// In words.
    pub what: String,
    /// Every operation that it takes to see it.
    pub ops: Vec<u64>,
    #[serde(skip)]
    key_hash: u64,
}

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Operations of the result.
    pub operations: u64,
    /// Values that came back.
    pub values: u64,
    /// Fields of rows (and rows themselves) that were judged.
    pub registers: u64,
    /// Of these, those of which some values were left out because several writes share them.
    pub undecided: u64,
    /// Violations per category.
    pub violations: BTreeMap<String, u64>,
    /// Updates that another read-modify-write overwrote unseen, in a run that allows it.
    pub lost_updates_allowed: u64,
    /// The first of each category, by operation.
    pub findings: Vec<Finding>,
    /// What to keep in mind.
    pub notes: Vec<String>,
}

impl Report {
    /// Is nothing wrong?
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

/// How many parts keep a part within the limit: an estimate from the footers.
fn parts(inputs: &Inputs) -> Result<u64, FileError> {
    let trace = TraceReader::open(&inputs.trace)?.meta().clone();
    let fields = trace.field_names.len() as u64 + 1;
    let widest = |kind: &str| {
        let shapes = trace.shapes.iter().filter(|shape| shape.op == kind && !shape.fields.is_empty());
        shapes.map(|shape| shape.fields.len() as u64 + 1).max().unwrap_or(fields)
    };
    let of_kind = |(kind, count): (&String, &u64)| match OpKind::from_name(kind) {
        Some(OpKind::ReadModifyWrite) => count * (fields + widest(kind)),
        // The lengths of scans are not in the footer; they are 50 on average, unless set otherwise.
        Some(OpKind::Scan) => count * widest(kind) * 50,
        _ => count * widest(kind),
    };
    let mut events: u64 = trace.op_counts.iter().map(of_kind).sum();
    if let Some(load) = &inputs.load {
        events += TraceReader::open(load)?.meta().rows * fields;
    }
    Ok(events.div_ceil(inputs.part_events.max(1)).max(1))
}

/// Verifies a result. `on_part` is told how many of how many parts are done.
pub fn verify(inputs: &Inputs, mut on_part: impl FnMut(u64, u64)) -> Result<Report, FileError> {
    let trace = TraceReader::open(&inputs.trace)?.meta().clone();
    let transactional = inputs.result.meta.config.get("rmw").is_some_and(|mode| mode == "transaction");
    let mut judge = Judge {
        report: Report { operations: inputs.result.meta.rows, ..Report::default() },
        transactional,
        has_load: inputs.load.is_some(),
        field_names: &trace.field_names,
        reads: Vec::new(),
        clusters: Vec::new(),
    };
    let count = parts(inputs)?;
    let traces: Vec<&Path> = inputs.load.iter().chain([&inputs.trace]).map(PathBuf::as_path).collect();
    let mut scan_notes = Vec::new();
    let scans = Scans::read(&traces, |note| scan_notes.push(note))?;
    for index in 0..count {
        let part = history::read(inputs, Share { index, count }, scans.as_ref(), false)?;
        judge.report.values += part.observed;
        let same_register = |one: &Event, other: &Event| one.key == other.key && one.field() == other.field();
        for events in part.events.chunk_by(same_register) {
            judge.register(&part, events);
        }
        judge.thin_out();
        on_part(index + 1, count);
    }
    let mut report = judge.report;
    report.findings.sort_by_key(|finding| (finding.category, finding.op_id, finding.field.clone()));
    name_keys(inputs, &mut report.findings)?;
    report.notes = notes(inputs, &report);
    report.notes.append(&mut scan_notes);
    Ok(report)
}

fn notes(inputs: &Inputs, report: &Report) -> Vec<String> {
    let meta = &inputs.result.meta;
    let mut notes = Vec::new();
    if inputs.load.is_none() {
        notes.push(
            "without the load trace, the first value that was seen of a field counts as loaded".to_owned(),
        );
    }
    if !meta.complete {
        notes.push(format!(
            "the run did not end by itself ({}): operations without a row may have happened",
            meta.ended_because
        ));
    }
    let duplicates =
        meta.counts.get("INSERT").and_then(|counts| counts.get("DUPLICATE")).copied().unwrap_or(0);
    if duplicates > 0 || report.violations.contains_key(Category::Future.name()) {
        notes.push(
            "the table held values of this trace before the run: it was not loaded afresh, perhaps after an earlier \
             run. Then findings say nothing about the database; load it again (--drop) and repeat"
                .to_owned(),
        );
    }
    if report.undecided > 0 {
        notes.push(format!(
            "{} of {} registers have values that several writes share (short fields), which cannot be told apart",
            report.undecided, report.registers
        ));
    }
    if report.lost_updates_allowed > 0 {
        notes.push(format!(
            "{} updates were lost: another read-modify-write had read the same version. Without --rmw transaction \
             that is to be expected",
            report.lost_updates_allowed
        ));
    }
    notes
}

/// Finds the texts of the keys, which the judgement does without.
fn name_keys(inputs: &Inputs, findings: &mut [Finding]) -> Result<(), FileError> {
    let mut names: HashMap<u64, String> =
        findings.iter().map(|finding| (finding.key_hash, String::new())).collect();
    for path in inputs.load.iter().chain([&inputs.trace]) {
        if names.values().all(|name| !name.is_empty()) {
            break;
        }
        let mut reader = TraceReader::open(path)?;
        while let Some(block) = reader.next_block()? {
            for row in 0..block.len() {
                if let Some(name) = names.get_mut(&key_hash(block.key(row)))
                    && name.is_empty()
                {
                    block.key(row).clone_into(name);
                }
            }
        }
    }
    for finding in findings {
        finding.key.clone_from(&names[&finding.key_hash]);
        if finding.key.is_empty() {
            finding.key = format!("(a key of neither trace, hash {:016x})", finding.key_hash);
        }
    }
    Ok(())
}

/// Judges one register after the other.
struct Judge<'a> {
    report: Report,
    transactional: bool,
    has_load: bool,
    field_names: &'a [String],
    // Reused.
    reads: Vec<Span>,
    clusters: Vec<Cluster>,
}

/// What was there when the run began: written before everything.
const AT_FIRST: Span = Span { op: LOADED, start: 0, end: 0 };

/// The interval of a write, by what became of its operation.
fn write_span(part: &Part, op: u32) -> Span {
    if op == LOADED {
        return AT_FIRST;
    }
    let Operation { start, end, fate, .. } = part.operations[op as usize];
    match fate {
        Fate::Done => Span { op, start, end },
        Fate::Unknown | Fate::ThereAlready => Span { op, start, end: NEVER_NS },
        // It begins never, so whoever saw its value saw it before.
        Fate::Nothing => Span { op, start: NEVER_NS, end: NEVER_NS },
    }
}

fn read_span(part: &Part, op: u32) -> Span {
    let operation = &part.operations[op as usize];
    Span { op, start: operation.last_start, end: operation.end }
}

impl Judge<'_> {
    fn register(&mut self, part: &Part, events: &[Event]) {
        self.report.registers += 1;
        let (key, field) = (events[0].key, events[0].field());
        self.reads.clear();
        self.clusters.clear();
        let loaded = events.iter().any(|event| event.op == LOADED);
        let mut shared = false;
        // Values that no operation of the run writes, and the load trace neither.
        let mut unknown: Vec<&[Event]> = Vec::new();
        for of_value in events.chunk_by(|one, other| one.value == other.value) {
            let writes = of_value.iter().take_while(|event| event.what() == What::Write).count();
            let (written, seen) = of_value.split_at(writes);
            // A row that the run inserts is absent at first, if the load does not write it.
            let absent_at_first =
                of_value[0].value == ABSENT && field == ROW && !loaded && part.inserted.contains(&key);
            match (writes, absent_at_first) {
                (0, false) => unknown.push(seen),
                (0, true) => self.cluster(part, AT_FIRST, seen),
                (1, false) => self.cluster(part, write_span(part, written[0].op), seen),
                // Nobody can say which of them was seen. Without them, the rest is still a history.
                _ => shared |= !seen.is_empty(),
            }
        }
        if !unknown.is_empty() {
            self.unknown_values(part, &unknown, loaded || part.inserted.contains(&key));
        }
        self.report.undecided += u64::from(shared);
        let clusters = std::mem::take(&mut self.clusters);
        let reads = std::mem::take(&mut self.reads);
        for violation in register::decide(&clusters, &reads) {
            self.found(part, (key, field), loaded, violation);
        }
        (self.clusters, self.reads) = (clusters, reads);
    }

    fn cluster(&mut self, part: &Part, write: Span, seen: &[Event]) {
        let from = self.reads.len();
        self.reads.extend(seen.iter().map(|event| read_span(part, event.op)));
        self.clusters.push(Cluster { write, reads: from..self.reads.len() });
        self.lost_updates(part, seen);
    }

    /// Values that neither trace writes. If it is not known what the table held at first, one of
    /// them may be that.
    fn unknown_values(&mut self, part: &Part, unknown: &[&[Event]], first_is_known: bool) {
        let (key, field) = (unknown[0][0].key, unknown[0][0].field());
        let first = match (first_is_known, self.has_load) {
            (true, _) => None,
            // What the load does not write was not there.
            (false, true) => unknown.iter().position(|seen| field == ROW && seen[0].value == ABSENT),
            // A row that is there at some time, and that nobody inserts, was there at first.
            (false, false) => (0..unknown.len()).min_by_key(|&value| {
                let seen = unknown[value].iter().map(|event| read_span(part, event.op).start).min();
                (field == ROW && unknown[value][0].value == ABSENT, seen)
            }),
        };
        for (value, seen) in unknown.iter().enumerate() {
            if first == Some(value) {
                self.cluster(part, AT_FIRST, seen);
                continue;
            }
            for event in *seen {
                let id = part.operations[event.op as usize].id;
                if field == ROW && event.value == ABSENT {
                    let what = "not found, although the row was there and nobody deletes it".to_owned();
                    self.add(Category::Vanished, key, field, id, vec![id], what);
                } else if field == ROW {
                    let what = "a row that nobody inserts".to_owned();
                    self.add(Category::Corrupt, key, field, id, vec![id], what);
                } else {
                    let what = format!("a value that no operation writes (hash {:016x})", event.value);
                    self.add(Category::Corrupt, key, field, id, vec![id], what);
                }
            }
        }
    }

    /// Of read-modify-writes that saw the same version and wrote, all but one are lost.
    fn lost_updates(&mut self, part: &Part, seen: &[Event]) {
        let wrote = seen.iter().filter(|event| event.what() == What::ReadToWrite);
        let mut ids: Vec<u64> = wrote.map(|event| part.operations[event.op as usize].id).collect();
        if ids.len() < 2 {
            return;
        }
        ids.sort_unstable();
        if !self.transactional {
            self.report.lost_updates_allowed += ids.len() as u64 - 1;
            return;
        }
        for &id in &ids[1..] {
            let what = format!("read the same version as operation {}, and both wrote it", ids[0]);
            self.add(Category::LostUpdate, seen[0].key, seen[0].field(), id, vec![ids[0], id], what);
        }
    }

    fn found(&mut self, part: &Part, (key, field): (u64, u32), loaded: bool, violation: Violation) {
        let id = |op: u32| (op != LOADED).then(|| part.operations[op as usize].id);
        let text = |op: u32| id(op).map_or("the load".to_owned(), |id| format!("operation {id}"));
        // Does this write make the row absent (or is it the state before its insert)?
        let sees_absent = |write: u32| match write {
            LOADED => !loaded && part.inserted.contains(&key),
            op => part.operations[op as usize].is_delete(),
        };
        let (category, read, ops, what) = match violation {
            Violation::Future { read, write } => {
                let what = format!("read the value of {} before that began", text(write));
                (Category::Future, read, vec![Some(write), Some(read)], what)
            }
            Violation::Stale { read, write, overwritten_by } if field == ROW && sees_absent(write) => {
                let what =
                    format!("not found, although {} had inserted the row before", text(overwritten_by));
                (Category::Vanished, read, vec![Some(overwritten_by), Some(read)], what)
            }
            Violation::Stale { read, write, overwritten_by } => {
                let what = format!(
                    "read the value of {}, which {} had overwritten before",
                    text(write),
                    text(overwritten_by)
                );
                (Category::Stale, read, vec![Some(write), Some(overwritten_by), Some(read)], what)
            }
            Violation::Disordered { read, write, other_read, other_write } => {
                let what = format!(
                    "the values of {} and {} were seen in turns, the last times by {} and {}",
                    text(write),
                    text(other_write),
                    text(read),
                    text(other_read)
                );
                let ops = vec![Some(write), Some(other_write), Some(read), Some(other_read)];
                (Category::NotLinearizable, read, ops, what)
            }
        };
        let mut ids: Vec<u64> = ops.into_iter().flatten().filter_map(id).collect();
        ids.sort_unstable();
        ids.dedup();
        let shown = id(read).unwrap_or(ids.first().copied().unwrap_or(0));
        self.add(category, key, field, shown, ids, what);
    }

    fn add(&mut self, category: Category, key: u64, field: u32, op_id: u64, ops: Vec<u64>, what: String) {
        *self.report.violations.entry(category.name().to_owned()).or_default() += 1;
        let name = (field != ROW).then(|| {
            self.field_names.get(field as usize).cloned().unwrap_or_else(|| format!("field {field}"))
        });
        // The text of the key is looked up when it is known which findings are shown.
        let (field, key_hash, key) = (name, key, String::new());
        self.report.findings.push(Finding { category, op_id, key, field, what, ops, key_hash });
        if self.report.findings.len() > 64 * NAMED {
            self.thin_out();
        }
    }

    /// Keeps the first findings of each category.
    fn thin_out(&mut self) {
        self.report.findings.sort_by_key(|finding| (finding.category, finding.op_id));
        let mut kept: HashMap<u8, usize> = HashMap::new();
        self.report.findings.retain(|finding| {
            let count = kept.entry(finding.category as u8).or_default();
            *count += 1;
            *count <= NAMED
        });
    }
}

/// What a row may hold at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastState {
    /// The row.
    pub key: String,
    /// It may be there.
    pub may_be_present: bool,
    /// It may be missing.
    pub may_be_absent: bool,
    /// (field, hash of a value that it may have), sorted; a field that is not among them may hold
    /// anything.
    pub allowed: Vec<(u32, u64)>,
}

/// What every row of one part may hold at the end: of each register a value whose write was not
/// overwritten by a confirmed one that began after it had ended.
pub fn last_states(inputs: &Inputs, share: Share) -> Result<Vec<LastState>, FileError> {
    let part = history::read(inputs, share, None, true)?;
    let mut states = Vec::new();
    for events in part.events.chunk_by(|one, other| one.key == other.key) {
        let key = events[0].key;
        let Some(name) = part.names.get(&key) else { continue };
        let mut state =
            LastState { key: name.clone(), may_be_present: true, may_be_absent: true, allowed: Vec::new() };
        for register in events.chunk_by(|one, other| one.field() == other.field()) {
            let field = register[0].field();
            let mut writes: Vec<(u64, Span)> = register
                .iter()
                .filter(|event| event.what() == What::Write)
                .map(|event| (event.value, write_span(&part, event.op)))
                .filter(|(_, span)| span.start != NEVER_NS)
                .collect();
            let loaded = writes.iter().any(|(_, span)| span.op == LOADED);
            if field == ROW && !loaded && part.inserted.contains(&key) {
                writes.push((ABSENT, AT_FIRST));
            }
            let confirmed = writes.iter().filter(|(_, span)| span.end != NEVER_NS);
            let Some(latest) = confirmed.map(|(_, span)| span.start).max() else { continue };
            let allowed: HashSet<u64> =
                writes.iter().filter(|(_, span)| span.end >= latest).map(|(value, _)| *value).collect();
            if field == ROW {
                state.may_be_present = allowed.contains(&PRESENT);
                state.may_be_absent = allowed.contains(&ABSENT);
            } else {
                state.allowed.extend(allowed.into_iter().map(|value| (field, value)));
            }
        }
        state.allowed.sort_unstable();
        states.push(state);
    }
    Ok(states)
}

/// The parts of [`last_states`].
pub fn shares(inputs: &Inputs) -> Result<impl Iterator<Item = Share> + use<>, FileError> {
    let count = parts(inputs)?;
    Ok((0..count).map(move |index| Share { index, count }))
}
