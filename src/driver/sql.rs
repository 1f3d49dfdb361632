//! What the SQL drivers share: the text of a statement for a shape of operation, and the table that
//! finds the prepared statement of an operation. It knows no client and opens nothing.
//!
//! Identifiers are written without quotes, as YCSB and go-ycsb write them, so that each database
//! folds their case in its own way and finds tables that those tools have made.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{KEY, TableSpec};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::op::Op;
use crate::op::{Field, OpKind, Outcome, Recovery, Status};

/// How a database writes the parameters of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// `?`, by position.
    Question,
    /// `$1`, `$2`, …
    Dollar,
}

impl Placeholder {
    fn write(self, text: &mut String, number: usize) {
        match self {
            Placeholder::Question => text.push('?'),
            Placeholder::Dollar => write!(text, "${number}").expect("writing to a string"),
        }
    }
}

/// The words that differ between databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wording {
    /// How parameters are written.
    pub placeholder: Placeholder,
    /// The expression that a scan compares and orders by; it must order by bytes.
    pub scan_key: &'static str,
}

/// The statement for one shape. Its parameters are, in this order: read and delete (key), update
/// (values, key), insert (key, values), scan (start key, limit). A read answers the fields, a scan
/// the key and the fields; no fields means all of them.
///
/// # Errors
/// A sentence, if the table has no such field or an update has no fields.
pub fn statement(
    table: &TableSpec,
    wording: Wording,
    kind: OpKind,
    fields: &[u32],
) -> Result<String, String> {
    let mut names: Vec<&str> = Vec::with_capacity(fields.len());
    for number in fields {
        let name = table.fields.get(*number as usize);
        names.push(name.ok_or_else(|| {
            format!("field number {number} is beyond the {} fields of {}", table.fields.len(), table.name)
        })?);
    }
    if names.is_empty() && matches!(kind, OpKind::Read | OpKind::Scan) {
        names.extend(table.fields.iter().map(String::as_str));
    }
    let name = &table.name;
    let parameter = |number: usize| {
        let mut text = String::new();
        wording.placeholder.write(&mut text, number);
        text
    };
    Ok(match kind {
        OpKind::Read => {
            // A table without fields still has rows to find.
            let columns = if names.is_empty() { KEY.to_owned() } else { names.join(", ") };
            format!("SELECT {columns} FROM {name} WHERE {KEY} = {}", parameter(1))
        }
        OpKind::Scan => {
            let columns: String = names.iter().flat_map(|field| [", ", field]).collect();
            let key = wording.scan_key;
            let (start, limit) = (parameter(1), parameter(2));
            format!("SELECT {KEY}{columns} FROM {name} WHERE {key} >= {start} ORDER BY {key} LIMIT {limit}")
        }
        OpKind::Insert => {
            let columns: String = names.iter().flat_map(|field| [", ", field]).collect();
            let values: Vec<_> = (1..=names.len() + 1).map(parameter).collect();
            format!("INSERT INTO {name} ({KEY}{columns}) VALUES ({})", values.join(", "))
        }
        OpKind::Update => {
            if names.is_empty() {
                return Err("an update without fields changes nothing".to_owned());
            }
            let changes: Vec<_> = names
                .iter()
                .zip(1..)
                .map(|(field, number)| format!("{field} = {}", parameter(number)))
                .collect();
            let key = parameter(names.len() + 1);
            format!("UPDATE {name} SET {} WHERE {KEY} = {key}", changes.join(", "))
        }
        OpKind::Delete => format!("DELETE FROM {name} WHERE {KEY} = {}", parameter(1)),
        OpKind::ReadModifyWrite => return Err("a read-modify-write is two statements".to_owned()),
        _ => return Err(format!("{} has a text of its own", kind.name())),
    })
}

/// The statement that writes `rows` new rows. Its parameters are (key, values) of each row in turn.
///
/// # Errors
/// A sentence, if the table has no such field.
pub fn insert_rows(
    table: &TableSpec,
    wording: Wording,
    fields: &[u32],
    rows: usize,
) -> Result<String, String> {
    let one = statement(table, wording, OpKind::Insert, fields)?;
    let head = one.split(" VALUES ").next().unwrap_or_default();
    let per_row = fields.len() + 1;
    let mut text = format!("{head} VALUES ");
    for row in 0..rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..per_row {
            if column > 0 {
                text.push_str(", ");
            }
            wording.placeholder.write(&mut text, row * per_row + column + 1);
        }
        text.push(')');
    }
    Ok(text)
}

/// The parameters of [`insert_rows`].
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub fn insert_values<'a>(ops: &'a [Op<'a>]) -> impl Iterator<Item = &'a [u8]> + Clone {
    ops.iter()
        .flat_map(|op| std::iter::once(op.key.as_bytes()).chain(op.fields.iter().map(|field| field.value)))
}

/// The outcome of an operation on one row, by the number of rows it found.
#[inline]
pub fn found(rows: Result<u32, Outcome>) -> Outcome {
    match rows {
        Ok(0) => Outcome::bare(Status::NotFound),
        Ok(rows) => Outcome::ok(rows),
        Err(failure) => failure,
    }
}

/// What a lost connection means. `wrote`: the request may have had its effect.
pub const fn lost_connection(wrote: bool) -> (Status, Recovery) {
    (Status::Unavailable, if wrote { Recovery::Ambiguous } else { Recovery::Reconnect })
}

/// What is sent for each kind of operation in the trace, for the record: the statement of the first
/// of its shapes.
pub fn texts(table: &TableSpec, wording: Wording) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for (kind, fields) in shapes(table) {
        if let Ok(text) = statement(table, wording, kind, &fields) {
            texts.entry(kind.name().to_owned()).or_insert(text);
        }
    }
    texts
}

/// The statements that the trace's shapes need, each once. A read-modify-write needs two: it reads
/// the whole row, then updates.
pub fn shapes(table: &TableSpec) -> Vec<(OpKind, Vec<u32>)> {
    let mut shapes: Vec<(OpKind, Vec<u32>)> = Vec::new();
    let mut add = |kind, fields: &[u32]| {
        if !shapes.iter().any(|shape| shape.0 == kind && shape.1 == fields) {
            shapes.push((kind, fields.to_vec()));
        }
    };
    for (kind, fields) in &table.shapes {
        match kind {
            OpKind::ReadModifyWrite => {
                add(OpKind::Read, &[]);
                add(OpKind::Update, fields);
            }
            OpKind::Delete => add(OpKind::Delete, &[]),
            _ => add(*kind, fields),
        }
    }
    shapes
}

/// Prepared statements by shape. A trace has few shapes (tens at most), so a lookup compares them
/// in turn: it allocates nothing and costs less than hashing the field list.
#[derive(Debug)]
pub struct Statements<S> {
    by_kind: [Vec<(Vec<u32>, S)>; OpKind::ALL.len()],
}

impl<S> Statements<S> {
    /// None yet.
    pub fn new() -> Statements<S> {
        Statements { by_kind: std::array::from_fn(|_| Vec::new()) }
    }

    /// The statement for operations of this kind on these fields.
    #[inline]
    pub fn get(&self, kind: OpKind, fields: &[Field<'_>]) -> Option<&S> {
        let same = |numbers: &[u32]| {
            numbers.len() == fields.len()
                && numbers.iter().zip(fields).all(|(number, field)| *number == field.number)
        };
        self.by_kind[kind as usize].iter().find(|(numbers, _)| same(numbers)).map(|(_, statement)| statement)
    }

    /// Keeps the statement of a shape that has none yet.
    pub fn add(&mut self, kind: OpKind, fields: Vec<u32>, statement: S) {
        self.by_kind[kind as usize].push((fields, statement));
    }

    /// The statements for operations of this kind, with their fields.
    pub fn of(&self, kind: OpKind) -> &[(Vec<u32>, S)] {
        &self.by_kind[kind as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_kind.iter().map(Vec::len).sum()
    }
}

/// The numbers of an operation's fields.
pub fn numbers(fields: &[Field<'_>]) -> Vec<u32> {
    fields.iter().map(|field| field.number).collect()
}

/// The number in `table` of each field of an answer.
#[inline]
pub fn number_of(fields: &[Field<'_>], position: usize) -> u32 {
    fields.get(position).map_or(position as u32, |field| field.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableSpec {
        TableSpec {
            name: "usertable".to_owned(),
            fields: ["FIELD0", "FIELD1", "FIELD2"].map(str::to_owned).into(),
            field_length: 100,
            shapes: vec![],
        }
    }

    #[test]
    fn each_shape_has_its_statement() {
        let dollar = Wording { placeholder: Placeholder::Dollar, scan_key: KEY };
        let text = |kind, fields: &[u32]| statement(&table(), dollar, kind, fields).unwrap();
        assert_eq!(
            text(OpKind::Read, &[]),
            "SELECT FIELD0, FIELD1, FIELD2 FROM usertable WHERE YCSB_KEY = $1"
        );
        assert_eq!(text(OpKind::Read, &[1]), "SELECT FIELD1 FROM usertable WHERE YCSB_KEY = $1");
        assert_eq!(
            text(OpKind::Insert, &[0, 2]),
            "INSERT INTO usertable (YCSB_KEY, FIELD0, FIELD2) VALUES ($1, $2, $3)"
        );
        assert_eq!(
            text(OpKind::Update, &[2, 0]),
            "UPDATE usertable SET FIELD2 = $1, FIELD0 = $2 WHERE YCSB_KEY = $3"
        );
        let question = Wording { placeholder: Placeholder::Question, scan_key: "YCSB_KEY COLLATE \"C\"" };
        assert_eq!(
            statement(&table(), question, OpKind::Scan, &[1]).unwrap(),
            "SELECT YCSB_KEY, FIELD1 FROM usertable WHERE YCSB_KEY COLLATE \"C\" >= ? \
             ORDER BY YCSB_KEY COLLATE \"C\" LIMIT ?"
        );
    }

    #[test]
    fn several_rows_are_one_insert() {
        let dollar = Wording { placeholder: Placeholder::Dollar, scan_key: KEY };
        assert_eq!(
            insert_rows(&table(), dollar, &[0, 2], 2).unwrap(),
            "INSERT INTO usertable (YCSB_KEY, FIELD0, FIELD2) VALUES ($1, $2, $3), ($4, $5, $6)"
        );
    }

    #[test]
    fn a_field_the_table_lacks_and_an_empty_update_are_refused() {
        let wording = Wording { placeholder: Placeholder::Dollar, scan_key: KEY };
        let refusal = statement(&table(), wording, OpKind::Read, &[3]).unwrap_err();
        assert_eq!(refusal, "field number 3 is beyond the 3 fields of usertable");
        assert!(statement(&table(), wording, OpKind::Update, &[]).is_err());
    }

    #[test]
    fn a_read_modify_write_prepares_a_read_and_an_update_once() {
        let shapes = shapes(&TableSpec {
            shapes: vec![
                (OpKind::Read, vec![]),
                (OpKind::ReadModifyWrite, vec![1]),
                (OpKind::Update, vec![1]),
            ],
            ..table()
        });
        assert_eq!(shapes, [(OpKind::Read, vec![]), (OpKind::Update, vec![1])]);
    }
}
