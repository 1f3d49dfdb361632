//! SQL as a trace tells it: named statements with their parameters, and the tables they work on.
//! Plain data that crosses every boundary (workload → trace → driver), and the one place that puts a
//! statement's text together, so that every database gets the same one in its own way of writing.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The type of a parameter. In a trace it is a text whatever its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamType {
    /// A whole number of up to 64 bits.
    Int,
    /// Characters.
    Text,
    /// Bytes of any kind.
    Bytes,
}

/// A part of a statement that is written as often as the call has groups of parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// One of them, e.g. `($1, $2)`; the numbers of the following ones go on.
    pub text: String,
    /// Between two of them, e.g. `, `.
    pub join: String,
}

/// One statement: what its name in a trace stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The value of the column `op`; in the footer the key of this entry.
    #[serde(skip)]
    pub name: String,
    /// The text, with `$1` … for parameters, `{table}` for the table and `{repeat}` for what is repeated.
    pub sql: String,
    /// The text where a family of databases (`postgres`, `mysql`, `sqlite`) needs another one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dialects: BTreeMap<String, String>,
    /// What `{repeat}` stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// Types of the parameters, of one group if there is a repeat.
    pub types: Vec<ParamType>,
    /// What `{table}` stands for: a row names its table by the position here, in the column `fields`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// Groups of parameters in most of its calls, to prepare for.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub groups: usize,
    /// Does it answer with rows, rather than with a number of changed ones?
    pub returns_rows: bool,
}

fn one() -> usize {
    1
}

fn is_one(groups: &usize) -> bool {
    *groups == 1
}

/// How a database writes parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameters {
    /// `$1`, `$2` …
    Dollar,
    /// `?1`, `?2` …
    NumberedQuestion,
    /// `?`, by position.
    Question,
}

impl Statement {
    /// The text for one table and a number of parameter groups, and which parameter (from 0) stands at
    /// each place.
    pub fn text(&self, family: &str, style: Parameters, table: usize, groups: usize) -> (String, Vec<usize>) {
        let sql = self.dialects.get(family).unwrap_or(&self.sql);
        let mut text = String::with_capacity(sql.len() + 32);
        let mut places = Vec::new();
        let table = self.tables.get(table).map_or("", String::as_str);
        for (number, part) in sql.split("{repeat}").enumerate() {
            if let (true, Some(repeat)) = (number > 0, &self.repeat) {
                for group in 0..groups {
                    text.push_str(if group == 0 { "" } else { &repeat.join });
                    write_parameters(&repeat.text, style, group * self.types.len(), &mut text, &mut places);
                }
            }
            write_parameters(&part.replace("{table}", table), style, 0, &mut text, &mut places);
        }
        (text, places)
    }

    /// Groups of parameters in a call with this many.
    #[inline]
    pub fn groups(&self, parameters: usize) -> usize {
        if self.types.is_empty() { 1 } else { parameters / self.types.len() }
    }
}

/// Copies a text, with its `$n` (outside quotes) in the style of the database.
fn write_parameters(sql: &str, style: Parameters, offset: usize, text: &mut String, places: &mut Vec<usize>) {
    let mut quoted = false;
    let mut rest = sql;
    while let Some(at) = rest.find(['$', '\'']) {
        text.push_str(&rest[..at]);
        let digits = rest[at + 1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - at - 1);
        let number: Option<usize> = rest[at + 1..at + 1 + digits].parse().ok().filter(|&number| number > 0);
        match number {
            Some(number) if !quoted && rest[at..].starts_with('$') => {
                let number = number + offset;
                places.push(number - 1);
                match style {
                    Parameters::Dollar => text.push_str(&format!("${number}")),
                    Parameters::NumberedQuestion => text.push_str(&format!("?{number}")),
                    Parameters::Question => text.push('?'),
                }
                rest = &rest[at + 1 + digits..];
            }
            _ => {
                quoted ^= rest[at..].starts_with('\'');
                text.push_str(&rest[at..at + 1]);
                rest = &rest[at + 1..];
            }
        }
    }
    text.push_str(rest);
}

/// The highest `$n` in a text.
pub fn parameters_in(sql: &str) -> usize {
    let mut places = Vec::new();
    write_parameters(sql, Parameters::Dollar, 0, &mut String::new(), &mut places);
    places.into_iter().map(|place| place + 1).max().unwrap_or(0)
}

/// Is `$number` in a text?
pub fn uses_parameter(sql: &str, number: usize) -> bool {
    let mut places = Vec::new();
    write_parameters(sql, Parameters::Dollar, 0, &mut String::new(), &mut places);
    places.contains(&(number - 1))
}

/// Statements in the order of their declaration. In a footer they are a map by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statements(pub Vec<Statement>);

impl Statements {
    /// No statements: the trace is one of YCSB operations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Statements {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for statement in &self.0 {
            map.serialize_entry(&statement.name, statement)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Statements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Statements, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Statements;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a map of statements by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Statements, A::Error> {
                let mut statements = Vec::new();
                while let Some((name, statement)) = map.next_entry::<String, Statement>()? {
                    statements.push(Statement { name, ..statement });
                }
                Ok(Statements(statements))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// `int`, `bigint`, `char(N)`, `varchar(N)`, `text` or `bytes`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The database numbers the rows that do not give a value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto: bool,
    /// The value of rows that do not give one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns; none of them holds nulls.
    pub columns: Vec<Column>,
    /// Columns of the primary key.
    pub primary_key: Vec<String>,
    /// Storage engine where there is a choice (MySQL, MariaDB); none: InnoDB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

/// A secondary index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// The table it belongs to.
    pub table: String,
    /// The columns it sorts by.
    pub columns: Vec<String>,
}

/// The tables of a statement trace, and the indexes that are made when the rows are there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Tables.
    pub tables: Vec<Table>,
    /// Secondary indexes.
    pub indexes: Vec<Index>,
}

/// Is this a name that needs no quotes in any database?
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> Statement {
        Statement {
            name: "s".to_owned(),
            sql: "INSERT INTO {table} VALUES {repeat} -- '$1' $ $9".to_owned(),
            dialects: [("mysql".to_owned(), "UPDATE {table} SET a=$2 WHERE b=$1".to_owned())].into(),
            repeat: Some(Repeat { text: "($1, $2)".to_owned(), join: ", ".to_owned() }),
            types: vec![ParamType::Int, ParamType::Text],
            tables: vec!["t1".to_owned(), "t2".to_owned()],
            groups: 1,
            returns_rows: false,
        }
    }

    #[test]
    fn a_text_names_its_table_repeats_its_groups_and_leaves_quotes_alone() {
        let (text, places) = statement().text("postgres", Parameters::Dollar, 1, 2);
        assert_eq!(text, "INSERT INTO t2 VALUES ($1, $2), ($3, $4) -- '$1' $ $9");
        assert_eq!(places, [0, 1, 2, 3, 8]);
        let (text, _) = statement().text("sqlite", Parameters::NumberedQuestion, 0, 1);
        assert_eq!(text, "INSERT INTO t1 VALUES (?1, ?2) -- '$1' $ ?9");
        let (text, places) = statement().text("mysql", Parameters::Question, 0, 1);
        assert_eq!((text.as_str(), places), ("UPDATE t1 SET a=? WHERE b=?", vec![1, 0]));
    }

    #[test]
    fn statements_keep_their_order_in_a_footer() {
        let named = |name: &str| Statement { name: name.to_owned(), ..statement() };
        let statements = Statements(vec![named("z"), named("a")]);
        let json = serde_json::to_string(&statements).unwrap();
        assert!(json.starts_with("{\"z\":{\"sql\":"), "{json}");
        assert_eq!(serde_json::from_str::<Statements>(&json).unwrap(), statements);
    }
}
