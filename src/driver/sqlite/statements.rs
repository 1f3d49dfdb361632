//! Statement traces on SQLite. A transaction that writes begins with the write lock (BEGIN IMMEDIATE):
//! taken at its first write, it could be refused with SQLITE_BUSY_SNAPSHOT, whatever the time-out.

use rusqlite::types::ValueRef;

use super::{Sqlite, SqliteSession, Value, failure};
use crate::driver::sql::Statements as Shapes;
use crate::driver::statements::{Action, Call, Family, Prepared};
use crate::driver::tables::{Tables, prepare_tables};
use crate::driver::{Preparation, Rows, ServerInfo, TableSpec, TargetError};
use crate::op::Outcome;
use crate::statement::{ParamType, Parameters, Schema, Statements, Table};

/// The texts of a trace's statements. The prepared ones are in the connection's cache.
pub type Calls = Prepared<String>;

const FAMILY: Family = Family::Sqlite;

/// A connection that tables are prepared on.
struct Asked<'a> {
    driver: &'a Sqlite,
    connection: &'a rusqlite::Connection,
}

impl Tables for Asked<'_> {
    async fn drop_table(&mut self, name: &str) -> Result<(), TargetError> {
        self.driver.execute(self.connection, &format!("DROP TABLE IF EXISTS {name}"))
    }

    async fn columns(&mut self, name: &str) -> Result<Option<Vec<String>>, TargetError> {
        Ok(Some(self.driver.columns(self.connection, name)?).filter(|columns| !columns.is_empty()))
    }

    async fn create(&mut self, text: &str) -> Result<(), TargetError> {
        self.driver.execute(self.connection, text)
    }

    async fn has_rows(&mut self, name: &str) -> Result<bool, TargetError> {
        self.driver.has_rows(self.connection, name)
    }
}

impl Sqlite {
    /// Creates or verifies the tables of a statement trace.
    pub(super) async fn prepare_statement_trace(
        &self,
        schema: &Schema,
        preparation: Preparation,
    ) -> Result<ServerInfo, TargetError> {
        let may_create = self.mode == super::Mode::Create && preparation != Preparation::UseExisting;
        let connection = self.connection(may_create)?;
        let mut info = self.server_info(&connection)?;
        let mut asked = Asked { driver: self, connection: &connection };
        prepare_tables(&mut asked, FAMILY, schema, preparation, &mut info).await?;
        Ok(info)
    }

    /// Indexes of a table whose rows are there. SQLite numbers new rows after the highest one itself.
    pub(super) fn finish(&self, schema: &Schema, table: &Table) -> Result<(), TargetError> {
        let connection = self.connection(false)?;
        for text in FAMILY.create_indexes(schema, table) {
            self.execute(&connection, &text.replacen("CREATE INDEX ", "CREATE INDEX IF NOT EXISTS ", 1))?;
        }
        Ok(())
    }

    /// A connection with every statement prepared.
    pub(super) fn statement_session(&self, statements: &Statements) -> Result<SqliteSession, TargetError> {
        let (connection, deadline) = self.timed_connection()?;
        let mut calls = Calls::new(statements);
        let needed = calls.needed();
        connection.set_prepared_statement_cache_capacity(needed.len() + 16);
        for (statement, table, groups) in needed {
            let text = calls.text_of(statement, table, groups);
            connection.prepare_cached(&text).map_err(|error| {
                TargetError::Unusable(format!("cannot prepare {text:?} at {}: {error}", self.address))
            })?;
            calls.add(statement, table, groups, text);
        }
        let writes = statements.0.iter().any(|statement| !statement.returns_rows);
        Ok(SqliteSession {
            connection,
            busy_timeout: self.busy_timeout,
            deadline,
            table: TableSpec { name: String::new(), fields: Vec::new(), field_length: 0, shapes: Vec::new() },
            statements: Shapes::new(),
            batch_text: None,
            calls: Some(calls),
            begin: self.begin.unwrap_or(if writes { "BEGIN IMMEDIATE" } else { "BEGIN" }),
        })
    }
}

impl Calls {
    fn text_of(&self, statement: usize, table: usize, groups: usize) -> String {
        self.statements.0[statement].text(FAMILY.name(), Parameters::NumberedQuestion, table, groups).0
    }
}

impl SqliteSession {
    /// Executes one row of a statement trace.
    pub(super) fn execute_call<R: Rows>(&mut self, call: &Call<'_>, rows: &mut R) -> Outcome {
        let done = match call.action {
            Action::Begin => self.control(call, self.begin),
            Action::Commit => self.control(call, "COMMIT"),
            // Some errors have taken the transaction back already.
            Action::Rollback if self.connection.is_autocommit() => Ok(0),
            Action::Rollback => self.control(call, "ROLLBACK"),
            Action::Statement { statement, table } => self.execute_statement(statement, table, call, rows),
        };
        done.map_or_else(|error| failure(&error), Outcome::ok)
    }

    fn control(&mut self, call: &Call<'_>, text: &str) -> rusqlite::Result<u32> {
        self.limit(call.id)?;
        self.connection.prepare_cached(text)?.raw_execute()?;
        Ok(0)
    }

    fn execute_statement<R: Rows>(
        &mut self,
        statement: usize,
        table: usize,
        call: &Call<'_>,
        rows: &mut R,
    ) -> rusqlite::Result<u32> {
        self.limit(call.id)?;
        let calls = self.calls.as_mut().expect("a session of a statement trace");
        let groups = calls.statements.0[statement].groups(call.parameters.len());
        if calls.get(statement, table, groups).is_none() {
            // The last INSERT of a table has fewer rows than the others.
            let text = calls.text_of(statement, table, groups);
            calls.add(statement, table, groups, text);
        }
        let calls = &*calls;
        let described = &calls.statements.0[statement];
        let text = calls.get(statement, table, groups).expect("it was just added");
        let mut prepared = self.connection.prepare_cached(text)?;
        for (position, parameter) in call.parameters.iter().enumerate() {
            let number = match described.types[position % described.types.len()] {
                ParamType::Int => std::str::from_utf8(parameter).ok().and_then(|text| text.parse::<i64>().ok()),
                ParamType::Text | ParamType::Bytes => None,
            };
            match number {
                Some(number) => prepared.raw_bind_parameter(position + 1, number)?,
                None => prepared.raw_bind_parameter(position + 1, Value(parameter))?,
            }
        }
        if !described.returns_rows {
            return Ok(prepared.raw_execute()? as u32);
        }
        let columns = prepared.column_count();
        let mut answer = prepared.raw_query();
        let mut count = 0;
        while let Some(row) = answer.next()? {
            count += 1;
            rows.row("");
            for position in 0..columns {
                let number = position as u32;
                match row.get_ref(position)? {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => rows.field(number, Some(bytes)),
                    ValueRef::Null => rows.field(number, None),
                    ValueRef::Integer(value) => rows.field(number, Some(&value.to_be_bytes())),
                    ValueRef::Real(value) => rows.field(number, Some(&value.to_be_bytes())),
                }
            }
        }
        Ok(count)
    }
}
