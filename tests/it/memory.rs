//! A database in this process's memory: the smallest driver that keeps every promise, and the worked
//! example of CONTRIBUTING.md. The contract runs on it as on every other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ycsb_trace::driver::{
    Driver, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError,
};
use ycsb_trace::op::{Field, Op, Outcome, Recovery, Status};

/// Names of the fields, and the rows: key → the value of each field, or null.
#[derive(Default)]
pub struct Table {
    fields: Vec<String>,
    rows: BTreeMap<String, Vec<Option<Vec<u8>>>>,
}

/// The database: one value per run, shared by every lane.
pub struct Memory(Mutex<BTreeMap<String, Arc<Mutex<Table>>>>);

/// A connection: it stays on its lane.
pub struct MemorySession(Arc<Mutex<Table>>);

impl Driver for Memory {
    const KINDS: &'static [Kind] = &[Kind {
        names: &["memory"],
        about: "a map in this process, gone with it",
        default_address: "in this process",
        options: &[],
        example: "ycsb-trace replay --db memory workloada",
        defaults: &[("durability", "none")],
        tested_against: "itself",
    }];
    const BLOCKING: bool = false;
    type Session = MemorySession;

    fn open(_target: &Target) -> Result<Memory, TargetError> {
        Ok(Memory(Mutex::default()))
    }

    async fn prepare(&self, spec: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        spec.check_names(false)?;
        let (name, address) = (spec.name.clone(), Memory::KINDS[0].default_address.to_owned());
        let mut tables = self.0.lock().unwrap();
        let fresh = || Arc::new(Mutex::new(Table { fields: spec.fields.clone(), rows: BTreeMap::new() }));
        if preparation == Preparation::DropAndCreate {
            tables.remove(&name);
        }
        if preparation != Preparation::UseExisting {
            tables.entry(name.clone()).or_insert_with(fresh);
        }
        let Some(table) = tables.get(&name) else {
            return Err(TargetError::Unusable(format!(
                "there is no table {name}: replay --phase load first"
            )));
        };
        let table = table.lock().unwrap();
        if preparation == Preparation::CreateIfEmpty && !table.rows.is_empty() {
            return Err(TargetError::NotEmpty { table: name, address });
        }
        if let Some(field) = spec.fields.iter().find(|&field| !table.fields.contains(field)) {
            return Err(TargetError::Unusable(format!("table {name} has no field {field}")));
        }
        let settings = [("durability".to_owned(), "none".to_owned())].into();
        Ok(ServerInfo { address, version: "memory 1".to_owned(), settings, ..ServerInfo::default() })
    }

    async fn connect(&self, spec: &TableSpec, _session: u32) -> Result<MemorySession, TargetError> {
        match self.0.lock().unwrap().get(&spec.name) {
            Some(table) => Ok(MemorySession(table.clone())),
            None => Err(TargetError::Unusable(format!("there is no table {}", spec.name))),
        }
    }
}

/// Hands a row to the caller: the fields asked for, or all of them.
fn answer<R: Rows>(key: &str, row: &[Option<Vec<u8>>], asked: &[Field<'_>], rows: &mut R) {
    rows.row(key);
    let mut field = |number: usize| rows.field(number as u32, row[number].as_deref());
    match asked {
        [] => (0..row.len()).for_each(field),
        _ => asked.iter().for_each(|asked| field(asked.number as usize)),
    }
}

/// Failure is data; the code is the database's own.
fn no_such_field() -> Outcome {
    Outcome::failed(Status::Rejected, Recovery::Fatal, "NO_FIELD", "the table has no such field")
}

impl Table {
    fn has(&self, fields: &[Field<'_>]) -> bool {
        fields.iter().all(|field| (field.number as usize) < self.fields.len())
    }
}

impl Session for MemorySession {
    async fn read<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        let table = self.0.lock().unwrap();
        if !table.has(op.fields) {
            return no_such_field();
        }
        let Some(row) = table.rows.get(op.key) else { return Outcome::bare(Status::NotFound) };
        answer(op.key, row, op.fields, rows);
        Outcome::ok(1)
    }

    async fn update(&mut self, op: &Op<'_>) -> Outcome {
        let mut table = self.0.lock().unwrap();
        if op.fields.is_empty() || !table.has(op.fields) {
            return no_such_field();
        }
        let Some(row) = table.rows.get_mut(op.key) else { return Outcome::bare(Status::NotFound) };
        op.fields.iter().for_each(|field| row[field.number as usize] = Some(field.value.to_vec()));
        Outcome::ok(1)
    }

    async fn insert(&mut self, op: &Op<'_>) -> Outcome {
        let mut table = self.0.lock().unwrap();
        if !table.has(op.fields) {
            return no_such_field();
        }
        if table.rows.contains_key(op.key) {
            return Outcome::bare(Status::Duplicate);
        }
        let mut row = vec![None; table.fields.len()];
        op.fields.iter().for_each(|field| row[field.number as usize] = Some(field.value.to_vec()));
        table.rows.insert(op.key.to_owned(), row);
        Outcome::ok(1)
    }

    async fn scan<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        let table = self.0.lock().unwrap();
        if !table.has(op.fields) {
            return no_such_field();
        }
        let found = table.rows.range(op.key.to_owned()..).take(op.scan_len as usize);
        let count = found.map(|(key, row)| answer(key, row, op.fields, rows)).count();
        Outcome::ok(count as u32)
    }

    async fn delete(&mut self, op: &Op<'_>) -> Outcome {
        match self.0.lock().unwrap().rows.remove(op.key) {
            Some(_) => Outcome::ok(1),
            None => Outcome::bare(Status::NotFound),
        }
    }
}
