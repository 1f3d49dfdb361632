//! What the tests share: places for a table, sessions that are easy to call, the program, and
//! a real PostgreSQL.

#[cfg(feature = "tls")]
pub mod authority;
#[cfg(any(feature = "mysql", feature = "redis", feature = "postgres", feature = "jdbc", feature = "riak"))]
pub mod daemon;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod guarded;
#[cfg(feature = "jdbc")]
pub mod java;
mod machine;
#[cfg(feature = "mysql")]
pub mod mariadb;
#[cfg(all(feature = "mysql", feature = "jdbc", target_os = "linux", target_arch = "x86_64"))]
pub mod mysqld;
#[cfg(feature = "postgres")]
pub mod pgwire;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod program;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
pub mod relay;
#[cfg(feature = "analyze")]
pub mod reports;
#[cfg(feature = "riak")]
pub mod riak;
#[cfg(any(all(feature = "postgres", feature = "sqlite"), feature = "mysql"))]
#[cfg(any(all(feature = "postgres", feature = "sqlite"), feature = "mysql", feature = "redis"))]
pub mod together;

use ycsb_trace::driver::{self, Driver, Preparation, Rows, Session, TableSpec, Target, TargetError};
use ycsb_trace::op::{Field, Op, OpKind, Outcome};

/// A database of a test's own, with no table in it.
pub struct Place<D> {
    pub driver: D,
    pub target: Target,
    /// What goes with the place: the folder of an embedded database, or its turn on a shared one.
    _held: Option<Box<dyn std::any::Any>>,
}

impl<D: Driver> Place<D> {
    /// An embedded database in a folder of its own.
    pub fn in_folder(db: &str, file: &str) -> Place<D> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = folder.path().join(file).to_str().expect("a path in UTF-8").to_owned();
        Place::at(target(db, &url)).holding(folder)
    }

    /// The database that the target names.
    pub fn at(target: Target) -> Place<D> {
        Place { driver: open(&target), target, _held: None }
    }

    /// The same; `held` is dropped with it.
    pub fn holding(self, held: impl std::any::Any) -> Place<D> {
        Place { _held: Some(Box::new(held)), ..self }
    }

    /// Creates the table and opens a session.
    pub async fn filled(&self, table: &TableSpec, rows: &[(&str, [&str; 3])]) -> Calls<D::Session> {
        self.driver.prepare(table, Preparation::CreateIfEmpty).await.expect("the table is created");
        let mut session = self.session(table).await;
        for (key, values) in rows {
            assert_eq!(session.insert(key, values).await, Outcome::ok(1), "insert of {key:?}");
        }
        session
    }

    pub async fn session(&self, table: &TableSpec) -> Calls<D::Session> {
        Calls(self.driver.connect(table, 0).await.expect("a session opens"))
    }
}

/// The target with these properties on top.
#[cfg(any(feature = "mysql", feature = "redis", feature = "postgres", feature = "jdbc", feature = "riak"))]
pub fn with(mut target: Target, properties: &[(&str, &str)]) -> Target {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    target.properties.extend(properties.iter().map(owned));
    target
}

pub fn target(db: &str, url: &str) -> Target {
    Target { db: db.to_owned(), url: Some(url.to_owned()), sessions: 2, ..Target::default() }
}

pub fn open<D: Driver>(target: &Target) -> D {
    D::open(target).unwrap_or_else(|error| panic!("{}: {error}", target.db))
}

/// The error of a result that must be one.
pub fn refusal<T>(result: Result<T, TargetError>) -> TargetError {
    match result {
        Ok(_) => panic!("should have been refused"),
        Err(error) => error,
    }
}

/// A table of three fields, with some shapes announced and others not.
pub fn table() -> TableSpec {
    TableSpec {
        name: "usertable".to_owned(),
        fields: ["FIELD0", "FIELD1", "FIELD2"].map(str::to_owned).into(),
        field_length: 100,
        shapes: vec![
            (OpKind::Insert, vec![0, 1, 2]),
            (OpKind::Read, vec![]),
            (OpKind::Update, vec![1]),
            (OpKind::ReadModifyWrite, vec![2]),
            (OpKind::Scan, vec![]),
            (OpKind::Delete, vec![]),
        ],
    }
}

/// Runs a test's future as a lane would: on a runtime of this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// Rows as they came.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Collected(pub Vec<(String, Vec<NumberedValue>)>);

type NumberedValue = (u32, Option<Vec<u8>>);

impl Rows for Collected {
    fn row(&mut self, key: &str) {
        self.0.push((key.to_owned(), Vec::new()));
    }

    fn field(&mut self, number: u32, value: Option<&[u8]>) {
        let (_, fields) = self.0.last_mut().expect("a row comes before its fields");
        fields.push((number, value.map(<[u8]>::to_vec)));
    }
}

impl Collected {
    pub fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(key, _)| key.as_str()).collect()
    }

    /// The values of the only row, as text.
    pub fn values(&self) -> Vec<&str> {
        assert_eq!(self.0.len(), 1, "one row");
        self.0[0]
            .1
            .iter()
            .map(|(_, value)| value.as_deref().map_or("(null)", |value| str::from_utf8(value).expect("text")))
            .collect()
    }
}

/// A session whose operations are written in one line.
pub struct Calls<S>(pub S);

impl<S: Session> Calls<S> {
    async fn call(
        &mut self,
        kind: OpKind,
        key: &str,
        fields: &[(u32, &[u8])],
        scan_len: u32,
    ) -> (Outcome, Collected) {
        let fields: Vec<_> = fields.iter().map(|(number, value)| Field { number: *number, value }).collect();
        let op = Op { id: 0, kind, key, fields: &fields, scan_len };
        let mut rows = Collected::default();
        let outcome = driver::execute(&mut self.0, &op, &mut rows, || ()).await;
        (outcome, rows)
    }

    pub async fn insert(&mut self, key: &str, values: &[&str; 3]) -> Outcome {
        let fields: Vec<_> = (0..).zip(values.iter().map(|value| value.as_bytes())).collect();
        self.insert_fields(key, &fields).await
    }

    pub async fn insert_fields(&mut self, key: &str, fields: &[(u32, &[u8])]) -> Outcome {
        self.call(OpKind::Insert, key, fields, 0).await.0
    }

    pub async fn read(&mut self, key: &str) -> (Outcome, Collected) {
        self.read_fields(key, &[]).await
    }

    pub async fn read_fields(&mut self, key: &str, numbers: &[u32]) -> (Outcome, Collected) {
        let fields: Vec<_> = numbers.iter().map(|number| (*number, &b""[..])).collect();
        self.call(OpKind::Read, key, &fields, 0).await
    }

    pub async fn update(&mut self, key: &str, fields: &[(u32, &str)]) -> Outcome {
        let fields: Vec<_> = fields.iter().map(|(number, value)| (*number, value.as_bytes())).collect();
        self.call(OpKind::Update, key, &fields, 0).await.0
    }

    pub async fn read_modify_write(&mut self, key: &str, number: u32, value: &str) -> (Outcome, Collected) {
        self.call(OpKind::ReadModifyWrite, key, &[(number, value.as_bytes())], 0).await
    }

    pub async fn read_modify_write_transaction(
        &mut self,
        key: &str,
        number: u32,
        value: &str,
    ) -> (Outcome, Collected) {
        let fields = [Field { number, value: value.as_bytes() }];
        let mut rows = Collected::default();
        let op = Op { id: 0, kind: OpKind::ReadModifyWrite, key, fields: &fields, scan_len: 0 };
        (self.0.read_modify_write_transaction(&op, &mut rows).await, rows)
    }

    pub async fn scan(&mut self, key: &str, scan_len: u32) -> (Outcome, Collected) {
        self.call(OpKind::Scan, key, &[], scan_len).await
    }

    pub async fn scan_fields(&mut self, key: &str, scan_len: u32, numbers: &[u32]) -> (Outcome, Collected) {
        let fields: Vec<_> = numbers.iter().map(|number| (*number, &b""[..])).collect();
        self.call(OpKind::Scan, key, &fields, scan_len).await
    }

    pub async fn delete(&mut self, key: &str) -> Outcome {
        self.call(OpKind::Delete, key, &[], 0).await.0
    }

    /// New rows in one request.
    pub async fn insert_batch(&mut self, rows: &[(&str, [&str; 3])]) -> Outcome {
        let fields: Vec<Vec<Field<'_>>> = rows
            .iter()
            .map(|(_, values)| {
                (0..).zip(values).map(|(number, value)| Field { number, value: value.as_bytes() }).collect()
            })
            .collect();
        let ops: Vec<Op<'_>> = (0..)
            .zip(rows)
            .zip(&fields)
            .map(|((id, (key, _)), fields)| Op { id, kind: OpKind::Insert, key, fields, scan_len: 0 })
            .collect();
        self.0.insert_batch(&ops).await
    }
}
