//! Statement traces on MySQL, MariaDB and TiDB. A statement is prepared once for each table; numbers
//! are sent as numbers and the rest as bytes.

use super::wire::{Conn, Error, Parameter, Row, Statement, Value};
use super::{MySql, MySqlSession, failure};
use crate::driver::sql::Statements as Shapes;
use crate::driver::statements::{Action, Call, Family, Prepared};
use crate::driver::tables::{Tables, prepare_tables};
use crate::driver::{Preparation, Rows, ServerInfo, TableSpec, TargetError};
use crate::op::Outcome;
use crate::statement::{ParamType, Parameters, Schema, Statements, Table};

/// A prepared statement, and which parameter stands at each of its places.
type Placed = (Statement, Vec<usize>);

/// The statements of a trace on one connection.
pub type Calls = Prepared<Placed>;

const FAMILY: Family = Family::Mysql;

/// A connection that tables are prepared on.
struct Asked<'a> {
    driver: &'a MySql,
    conn: &'a mut Conn,
}

impl Tables for Asked<'_> {
    async fn drop_table(&mut self, name: &str) -> Result<(), TargetError> {
        let dropped = self.conn.run(&format!("DROP TABLE IF EXISTS {name}")).await;
        dropped.map_err(|error| self.driver.refused("drop a table", &error))
    }

    async fn columns(&mut self, name: &str) -> Result<Option<Vec<String>>, TargetError> {
        let text = "SELECT column_name FROM information_schema.columns \
                    WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position";
        let mut columns = Vec::new();
        let asked = async {
            let statement = self.conn.prepare(text).await?;
            let name = [Parameter::Bytes(name.as_bytes())];
            let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let column = |row: &mut Row<'_>| row.next().and_then(Value::bytes).map(text_of);
            self.conn.execute(statement, name.into_iter(), |row| columns.extend(column(row))).await?;
            self.conn.close(statement);
            Ok(())
        };
        asked.await.map_err(|error: Error| self.driver.refused("look at a table", &error))?;
        Ok(Some(columns).filter(|columns| !columns.is_empty()))
    }

    async fn create(&mut self, text: &str) -> Result<(), TargetError> {
        self.conn.run(text).await.map_err(|error| self.driver.refused("create a table", &error))
    }

    async fn has_rows(&mut self, name: &str) -> Result<bool, TargetError> {
        let text = format!("SELECT EXISTS (SELECT 1 FROM {name})");
        let found = self.conn.ask_one(&text).await;
        Ok(found.map_err(|error| self.driver.refused("look into a table", &error))?.as_deref() == Some("1"))
    }
}

impl MySql {
    /// Creates or verifies the tables of a statement trace, and asks who answered.
    pub(super) async fn prepare_tables(
        &self,
        schema: &Schema,
        preparation: Preparation,
    ) -> Result<ServerInfo, TargetError> {
        let mut conn = self.any_host(0, async |conn, _| Ok(conn)).await?;
        let version = conn.ask_one("SELECT version()").await;
        let version = version.map_err(|error| self.refused("ask for the version", &error))?.unwrap_or_default();
        let mut info = ServerInfo { address: self.address.words(), version, ..ServerInfo::default() };
        self.note_settings(&mut conn, &mut info).await?;
        prepare_tables(&mut Asked { driver: self, conn: &mut conn }, FAMILY, schema, preparation, &mut info).await?;
        Ok(info)
    }

    /// Indexes of a table whose rows are there. New rows are numbered after the highest one.
    pub(super) async fn finish(&self, schema: &Schema, table: &Table) -> Result<(), TargetError> {
        let mut conn = self.any_host(0, async |conn, _| Ok(conn)).await?;
        for text in FAMILY.create_indexes(schema, table) {
            match conn.run(&text).await {
                // A table that was there before, empty, may have its indexes already.
                Err(Error::Server { code: 1061, .. }) => {}
                done => done.map_err(|error| self.refused("create an index", &error))?,
            }
        }
        let _ = conn.run(&format!("ANALYZE TABLE {}", table.name)).await;
        Ok(())
    }

    /// A connection with every statement prepared for every table.
    pub(super) async fn statement_session(
        &self,
        statements: &Statements,
        first: usize,
    ) -> Result<MySqlSession, TargetError> {
        let opened = self.any_host(first, async |mut conn, host| {
            let mut calls = Calls::new(statements);
            for (statement, table, groups) in calls.needed() {
                let placed = prepare(&mut conn, &calls, statement, table, groups).await;
                let placed = placed.map_err(|error| self.unusable(host, &error))?;
                calls.add(statement, table, groups, placed);
            }
            let server = self.server(&mut conn).await;
            let login = self.address.login(host).map_err(|error| self.unusable(host, &error))?;
            Ok((conn, login, calls, server))
        });
        let (conn, login, calls, server) = opened.await?;
        Ok(MySqlSession {
            conn,
            login,
            table: TableSpec { name: String::new(), fields: Vec::new(), field_length: 0, shapes: Vec::new() },
            texts: self.texts(),
            statements: Shapes::new(),
            batch_statement: None,
            locking: None,
            calls: Some(calls),
            server,
        })
    }
}

async fn prepare(
    conn: &mut Conn,
    calls: &Calls,
    statement: usize,
    table: usize,
    groups: usize,
) -> Result<Placed, Error> {
    let (text, places) = calls.statements.0[statement].text(FAMILY.name(), Parameters::Question, table, groups);
    Ok((conn.prepare(&text).await?, places))
}

impl MySqlSession {
    /// Executes one row of a statement trace.
    pub(super) async fn execute_call<R: Rows>(&mut self, call: &Call<'_>, rows: &mut R) -> Outcome {
        let control = match call.action {
            Action::Begin => "BEGIN",
            Action::Commit => "COMMIT",
            Action::Rollback => "ROLLBACK",
            Action::Statement { statement, table } => {
                let done = self.execute_statement(statement, table, call, rows).await;
                return done.map_or_else(|failed| failed, Outcome::ok);
            }
        };
        match self.conn.run(control).await {
            Ok(()) => Outcome::ok(0),
            Err(error) => failure(&error, self.conn.sent() && call.action == Action::Commit),
        }
    }

    async fn execute_statement<R: Rows>(
        &mut self,
        statement: usize,
        table: usize,
        call: &Call<'_>,
        rows: &mut R,
    ) -> Result<u32, Outcome> {
        let Some(calls) = &mut self.calls else { return Err(Outcome::UNSUPPORTED) };
        let groups = calls.statements.0[statement].groups(call.parameters.len());
        if calls.get(statement, table, groups).is_none() {
            // The last INSERT of a table has fewer rows than the others.
            let placed = prepare(&mut self.conn, calls, statement, table, groups).await;
            calls.add(statement, table, groups, placed.map_err(|error| failure(&error, false))?);
        }
        let described = &calls.statements.0[statement];
        let (prepared, places) = calls.get(statement, table, groups).expect("it was just prepared");
        let returns_rows = described.returns_rows;
        let parameters = places.iter().map(|place| {
            let text = call.parameters[*place];
            let number = match described.types[place % described.types.len()] {
                ParamType::Int => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
                ParamType::Text | ParamType::Bytes => None,
            };
            number.map_or(Parameter::Bytes(text), Parameter::Int)
        });
        let mut count = 0;
        let done = self.conn.execute(*prepared, parameters, |row| {
            if !returns_rows {
                return;
            }
            count += 1;
            rows.row("");
            for (number, value) in (0..).zip(row) {
                match value {
                    Value::Bytes(bytes) => rows.field(number, Some(bytes)),
                    Value::Int(value) => rows.field(number, Some(&value.to_be_bytes())),
                    Value::Null => rows.field(number, None),
                }
            }
        });
        match done.await {
            Ok(_) if returns_rows => Ok(count),
            Ok(changed) => Ok(changed as u32),
            Err(error) => Err(failure(&error, self.conn.sent() && !returns_rows)),
        }
    }
}
