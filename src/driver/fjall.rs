//! fjall, a log-structured store in this process: the stand-in for RocksDB and its kind, without a
//! C++ compiler. A table is a keyspace; a row is one value that holds all its fields, each as its
//! length (i32, little-endian, −1 for null) and its bytes.
//!
//! A store of this kind overwrites blindly, but an insert must see a duplicate and an update must
//! keep the fields it does not write. Both read before they write, under a lock chosen by the key's
//! hash, so that no other session comes between. fjall's own transactions would do it too: the
//! single-writer one lets one session write at a time, the optimistic one makes conflicts of its
//! own that a retry must hide. The lock costs tens of nanoseconds and makes only writers of the
//! same key (or, rarely, of the same stripe) wait.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use fjall::{Database, Error, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Discard, Driver, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use crate::op::{Field, Op, Outcome, Recovery, Status};

const DEFAULT_PATH: &str = "/tmp/fjall";

/// The keyspace that keeps each table's field names. No table can have this name.
const LAYOUTS: &str = "ycsb-trace.layouts";

/// The file that fjall puts into every database.
const MARKER: &str = "version";

/// Enough that two of a few hundred sessions rarely meet.
const STRIPES: usize = 1024;

/// When a write counts as done: `fjall.durability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// In memory; a crash of this process loses it.
    None,
    /// With the operating system; a power failure loses it.
    Buffer,
    /// On the disk.
    Fsync,
}

/// A database folder.
pub struct Fjall {
    path: PathBuf,
    durability: Durability,
    /// Opened by the first that needs it: a folder can be open only once.
    store: Mutex<Option<Arc<Store>>>,
}

struct Store {
    database: Database,
    stripes: Vec<Mutex<()>>,
}

/// One user of the open database.
pub struct FjallSession {
    store: Arc<Store>,
    keyspace: Keyspace,
    field_count: usize,
    durability: Durability,
    /// The row being written, kept to save an allocation.
    row: Vec<u8>,
}

impl Driver for Fjall {
    const KINDS: &'static [Kind] = &[Kind {
        names: &["fjall"],
        about: "fjall, a log-structured store, built in; --url is the database folder",
        default_address: DEFAULT_PATH,
        example: "ycsb-trace replay --db fjall workloada --url test.fjall --threads 4",
        defaults: &[
            ("isolation", "single rows are atomic; a scan sees one snapshot"),
            ("durability", "buffer: a crash of the process loses nothing, of the machine the last writes"),
            ("an update", "reads the row, changes the fields named and writes it back, under the lock of its key; a missing row is NOT_FOUND"),
        ],
        tested_against: "the fjall that is built in",
        options: &[
            ("fjall.dir", DEFAULT_PATH, "the database folder, if there is no --url"),
            (
                "fjall.durability",
                "buffer",
                "a write is done when it is in memory (none), with the operating system (buffer), or on disk (fsync)",
            ),
        ],
    }];
    const BLOCKING: bool = true;
    type Session = FjallSession;

    fn open(target: &Target) -> Result<Fjall, TargetError> {
        let url = target.url.as_deref().or(target.property("fjall.dir")).unwrap_or(DEFAULT_PATH);
        let path = url.strip_prefix("fjall:").unwrap_or(url);
        if path.is_empty() {
            return Err(TargetError::Request("the folder of the database has an empty name".to_owned()));
        }
        let durability = match target.property("fjall.durability").unwrap_or("buffer") {
            "none" => Durability::None,
            "buffer" => Durability::Buffer,
            "fsync" => Durability::Fsync,
            other => {
                return Err(TargetError::Request(format!(
                    "fjall.durability={other:?} is not known; use one of none, buffer, fsync"
                )));
            }
        };
        Ok(Fjall { path: PathBuf::from(path), durability, store: Mutex::new(None) })
    }

    async fn prepare(&self, table: &TableSpec, preparation: Preparation) -> Result<ServerInfo, TargetError> {
        table.check_names(false)?;
        let store = self.store(preparation != Preparation::UseExisting)?;
        self.prepare_table(&store, table, preparation)?;
        let durability = match self.durability {
            Durability::None => "none",
            Durability::Buffer => "buffer",
            Durability::Fsync => "fsync",
        };
        let settings = [
            ("cache_bytes", store.database.cache_capacity().to_string()),
            ("durability", durability.to_owned()),
            ("isolation", "single rows are atomic; a scan sees one snapshot".to_owned()),
        ];
        Ok(ServerInfo {
            address: self.path.display().to_string(),
            version: "fjall 3".to_owned(),
            settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
            ..ServerInfo::default()
        })
    }

    async fn connect(&self, table: &TableSpec, _session: u32) -> Result<FjallSession, TargetError> {
        table.check_names(false)?;
        let store = self.store(false)?;
        if !store.database.keyspace_exists(&table.name) {
            return Err(self.no_table(table));
        }
        let keyspace = self.keyspace(&store, &table.name)?;
        let field_count = table.fields.len();
        Ok(FjallSession { store, keyspace, field_count, durability: self.durability, row: Vec::new() })
    }
}

impl Fjall {
    fn store(&self, may_create: bool) -> Result<Arc<Store>, TargetError> {
        let mut store = self.store.lock().expect("nobody panics holding it");
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        let path = self.path.display();
        if !self.path.join(MARKER).is_file() {
            // A folder of something else must not be filled with our files.
            let holds_other = fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_some());
            if holds_other || self.path.is_file() {
                return Err(TargetError::Unusable(format!(
                    "{path} exists and is not a fjall database; name another folder (--url)"
                )));
            }
            if !may_create {
                return Err(TargetError::Unusable(format!(
                    "there is no fjall database in {path}; run the load phase first (--phase load)"
                )));
            }
        }
        let manual = self.durability == Durability::None;
        let opened = Database::builder(&self.path).manual_journal_persist(manual).open();
        let database = opened.map_err(|error| match error {
            Error::Locked => TargetError::Unusable(format!(
                "{path} is open in another process, and fjall lets only one have it; stop that one first"
            )),
            error => self.unusable("open the database", &error),
        })?;
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Ok(Arc::clone(store.insert(Arc::new(Store { database, stripes }))))
    }

    fn keyspace(&self, store: &Store, name: &str) -> Result<Keyspace, TargetError> {
        let manual = self.durability == Durability::None;
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(manual);
        store.database.keyspace(name, options).map_err(|error| self.unusable("open a keyspace", &error))
    }

    fn prepare_table(
        &self,
        store: &Store,
        table: &TableSpec,
        preparation: Preparation,
    ) -> Result<(), TargetError> {
        let wrong = |doing: &'static str| move |error: Error| self.unusable(doing, &error);
        let layouts = self.keyspace(store, LAYOUTS)?;
        let exists = store.database.keyspace_exists(&table.name);
        match preparation {
            Preparation::UseExisting => {
                let layout = layouts.get(&table.name).map_err(wrong("read the layout"))?;
                let Some(layout) = layout.filter(|_| exists) else { return Err(self.no_table(table)) };
                return self.check_layout(table, &String::from_utf8_lossy(&layout));
            }
            Preparation::CreateIfEmpty if exists => {
                let keyspace = self.keyspace(store, &table.name)?;
                if keyspace.first_key_value().is_some() {
                    let address = self.path.display().to_string();
                    return Err(TargetError::NotEmpty { table: table.name.clone(), address });
                }
            }
            Preparation::DropAndCreate if exists => {
                let keyspace = self.keyspace(store, &table.name)?;
                store.database.delete_keyspace(keyspace).map_err(wrong("drop the table"))?;
            }
            _ => {}
        }
        self.keyspace(store, &table.name)?;
        layouts.insert(&*table.name, table.fields.join(",")).map_err(wrong("write the layout"))?;
        store.database.persist(PersistMode::SyncAll).map_err(wrong("write to the disk"))
    }

    fn check_layout(&self, table: &TableSpec, layout: &str) -> Result<(), TargetError> {
        let stored: Vec<&str> = layout.split(',').filter(|name| !name.is_empty()).collect();
        if stored == table.fields {
            return Ok(());
        }
        let missing = table.fields.iter().find(|field| !stored.contains(&field.as_str()));
        let what = match missing {
            Some(field) => format!("has no field {field}"),
            None => format!("has other fields than the trace's {}", table.fields.len()),
        };
        Err(TargetError::Unusable(format!(
            "table {} in {} {what} (it has {}); load it again with --drop, or name another table (-p table=…)",
            table.name,
            self.path.display(),
            stored.join(", ")
        )))
    }

    fn no_table(&self, table: &TableSpec) -> TargetError {
        TargetError::Unusable(format!(
            "there is no table {} in {}; run the load phase first (--phase load), or name another table (-p table=…)",
            table.name,
            self.path.display()
        ))
    }

    fn unusable(&self, doing: &str, error: &Error) -> TargetError {
        TargetError::Unusable(format!("cannot {doing} in {}: {error}", self.path.display()))
    }
}

impl Store {
    fn lock(&self, key: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let stripe = &self.stripes[hasher.finish() as usize % STRIPES];
        stripe.lock().expect("nobody panics holding it")
    }
}

/// A stored row whose layout has been checked.
struct Row<'a>(&'a [u8]);

impl<'a> Row<'a> {
    fn parse(bytes: &'a [u8], field_count: usize) -> Result<Row<'a>, Outcome> {
        let mut rest = bytes;
        for _ in 0..field_count {
            let (_, after) = split_field(rest).ok_or_else(Row::of_other_layout)?;
            rest = after;
        }
        if rest.is_empty() { Ok(Row(bytes)) } else { Err(Row::of_other_layout()) }
    }

    #[cold]
    fn of_other_layout() -> Outcome {
        Outcome::rejected("the stored row does not have the fields of the table")
    }

    fn fields(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (value, after) = split_field(rest)?;
            rest = after;
            Some(value)
        })
    }

    fn answer<R: Rows>(&self, key: &str, wanted: &[Field<'_>], rows: &mut R) {
        rows.row(key);
        if wanted.is_empty() {
            (0..).zip(self.fields()).for_each(|(number, value)| rows.field(number, value));
        }
        for field in wanted {
            let value = self.fields().nth(field.number as usize).expect("the number was checked");
            rows.field(field.number, value);
        }
    }
}

/// The first field of `bytes` and what comes after it.
#[inline]
fn split_field(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    match i32::from_le_bytes(*length) {
        -1 => Some((None, rest)),
        length => {
            let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Some(value), rest))
        }
    }
}

fn push_field(row: &mut Vec<u8>, value: Option<&[u8]>) {
    let length = value.map_or(-1, |value| i32::try_from(value.len()).expect("a value is shorter than 2 GiB"));
    row.extend_from_slice(&length.to_le_bytes());
    row.extend_from_slice(value.unwrap_or(&[]));
}

fn written<'a>(fields: &[Field<'a>], number: usize) -> Option<&'a [u8]> {
    fields.iter().find(|field| field.number as usize == number).map(|field| field.value)
}

impl FjallSession {
    fn check_fields(&self, fields: &[Field<'_>]) -> Result<(), Outcome> {
        match fields.iter().find(|field| field.number as usize >= self.field_count) {
            None => Ok(()),
            Some(field) => Err(Outcome::rejected(format!(
                "field number {} is beyond the {} fields of the table",
                field.number, self.field_count
            ))),
        }
    }

    fn try_read<R: Rows>(&self, op: &Op<'_>, rows: &mut R) -> Result<Outcome, Outcome> {
        self.check_fields(op.fields)?;
        if !is_key(op.key) {
            return Ok(Outcome::bare(Status::NotFound));
        }
        let Some(value) = self.keyspace.get(op.key).map_err(failure)? else {
            return Ok(Outcome::bare(Status::NotFound));
        };
        Row::parse(&value, self.field_count)?.answer(op.key, op.fields, rows);
        Ok(Outcome::ok(1))
    }

    fn try_scan<R: Rows>(&self, op: &Op<'_>, rows: &mut R) -> Result<Outcome, Outcome> {
        self.check_fields(op.fields)?;
        if op.key.len() > *KEY_BYTES.end() {
            return Err(Outcome::rejected("the start key is longer than a key can be"));
        }
        let mut count = 0;
        for entry in self.keyspace.range(op.key..).take(op.scan_len as usize) {
            let (key, value) = entry.into_inner().map_err(failure)?;
            let key = str::from_utf8(&key).map_err(|_| Outcome::rejected("a stored key is not text"))?;
            Row::parse(&value, self.field_count)?.answer(key, op.fields, rows);
            count += 1;
        }
        Ok(Outcome::ok(count))
    }

    fn try_insert(&mut self, op: &Op<'_>) -> Result<Outcome, Outcome> {
        self.check_fields(op.fields)?;
        if !is_key(op.key) {
            return Err(Outcome::rejected(format!("a key has {KEY_BYTES:?} bytes, not {}", op.key.len())));
        }
        self.row.clear();
        for number in 0..self.field_count {
            push_field(&mut self.row, written(op.fields, number));
        }
        let alone = self.store.lock(op.key);
        if self.keyspace.contains_key(op.key).map_err(failure)? {
            return Ok(Outcome::bare(Status::Duplicate));
        }
        self.keyspace.insert(op.key, &*self.row).map_err(failure)?;
        drop(alone);
        self.written()
    }

    /// Overwrites fields; with `rows`, answers the row before. Nothing comes between.
    fn try_update<R: Rows>(&mut self, op: &Op<'_>, rows: Option<&mut R>) -> Result<Outcome, Outcome> {
        self.check_fields(op.fields)?;
        if op.fields.is_empty() {
            return Err(Outcome::rejected("an update without fields changes nothing"));
        }
        if !is_key(op.key) {
            return Ok(Outcome::bare(Status::NotFound));
        }
        let alone = self.store.lock(op.key);
        let Some(value) = self.keyspace.get(op.key).map_err(failure)? else {
            return Ok(Outcome::bare(Status::NotFound));
        };
        self.row.clear();
        let before = Row::parse(&value, self.field_count)?;
        if let Some(rows) = rows {
            before.answer(op.key, &[], rows);
        }
        for (number, old) in before.fields().enumerate() {
            push_field(&mut self.row, written(op.fields, number).or(old));
        }
        self.keyspace.insert(op.key, &*self.row).map_err(failure)?;
        drop(alone);
        self.written()
    }

    fn try_delete(&mut self, op: &Op<'_>) -> Result<Outcome, Outcome> {
        if !is_key(op.key) {
            return Ok(Outcome::bare(Status::NotFound));
        }
        let alone = self.store.lock(op.key);
        if !self.keyspace.contains_key(op.key).map_err(failure)? {
            return Ok(Outcome::bare(Status::NotFound));
        }
        self.keyspace.remove(op.key).map_err(failure)?;
        drop(alone);
        self.written()
    }

    /// Waits for the disk if asked to. Outside the lock: the row is in place, only not yet safe.
    fn written(&self) -> Result<Outcome, Outcome> {
        if self.durability == Durability::Fsync {
            self.store.database.persist(PersistMode::SyncAll).map_err(failure)?;
        }
        Ok(Outcome::ok(1))
    }
}

impl Session for FjallSession {
    async fn read<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        either(self.try_read(op, rows))
    }

    async fn update(&mut self, op: &Op<'_>) -> Outcome {
        either(self.try_update(op, None::<&mut Discard>))
    }

    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        either(self.try_update(op, Some(rows)))
    }

    async fn insert(&mut self, op: &Op<'_>) -> Outcome {
        either(self.try_insert(op))
    }

    async fn scan<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        either(self.try_scan(op, rows))
    }

    async fn delete(&mut self, op: &Op<'_>) -> Outcome {
        either(self.try_delete(op))
    }
}

fn either(result: Result<Outcome, Outcome>) -> Outcome {
    result.unwrap_or_else(|failure| failure)
}

/// fjall panics on keys outside these limits.
const KEY_BYTES: RangeInclusive<usize> = 1..=65_535;

/// Can there be such a row at all?
fn is_key(key: &str) -> bool {
    KEY_BYTES.contains(&key.len())
}

#[cold]
fn failure(error: Error) -> Outcome {
    let (status, code) = match &error {
        Error::Io(_) => (Status::Error, "Io"),
        Error::Storage(_) => (Status::Error, "Storage"),
        Error::Poisoned => (Status::Unavailable, "Poisoned"),
        Error::KeyspaceDeleted => (Status::Rejected, "KeyspaceDeleted"),
        _ => (Status::Error, ""),
    };
    Outcome::failed(status, Recovery::Fatal, code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_fields_with_their_lengths() {
        let mut bytes = Vec::new();
        for value in [Some(&b"ab"[..]), None, Some(b"")] {
            push_field(&mut bytes, value);
        }
        assert_eq!(bytes, [2, 0, 0, 0, b'a', b'b', 255, 255, 255, 255, 0, 0, 0, 0]);
        let row = Row::parse(&bytes, 3).unwrap_or_else(|outcome| panic!("{outcome:?}"));
        assert_eq!(row.fields().collect::<Vec<_>>(), [Some(&b"ab"[..]), None, Some(b"")]);
    }

    #[test]
    fn a_row_of_another_layout_is_rejected() {
        let mut bytes = Vec::new();
        push_field(&mut bytes, Some(b"ab"));
        for (bytes, field_count) in [(&bytes[..], 0), (&bytes, 2), (&bytes[..5], 1), (&[254, 255, 255, 255], 1)] {
            let outcome = Row::parse(bytes, field_count).err().expect("rejected");
            assert_eq!(outcome.status, Status::Rejected);
        }
    }
}
