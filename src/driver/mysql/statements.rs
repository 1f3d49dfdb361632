//! Statement traces on MySQL, MariaDB and TiDB. A statement is prepared once for each table; numbers
//! are sent as numbers and the rest as bytes.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Params, Row, Statement, Value};

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
        let dropped = self.conn.query_drop(format!("DROP TABLE IF EXISTS {name}")).await;
        dropped.map_err(|error| self.driver.refused("drop a table", &error))
    }

    async fn columns(&mut self, name: &str) -> Result<Option<Vec<String>>, TargetError> {
        let text = "SELECT column_name FROM information_schema.columns \
                    WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position";
        let columns: Result<Vec<String>, Error> = self.conn.exec(text, (name,)).await;
        let columns = columns.map_err(|error| self.driver.refused("look at a table", &error))?;
        Ok(Some(columns).filter(|columns| !columns.is_empty()))
    }

    async fn create(&mut self, text: &str) -> Result<(), TargetError> {
        self.conn.query_drop(text).await.map_err(|error| self.driver.refused("create a table", &error))
    }

    async fn has_rows(&mut self, name: &str) -> Result<bool, TargetError> {
        let text = format!("SELECT EXISTS (SELECT 1 FROM {name})");
        let rows: Result<Option<u8>, Error> = self.conn.query_first(text).await;
        Ok(rows.map_err(|error| self.driver.refused("look into a table", &error))? == Some(1))
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
        let version: Option<String> = conn
            .query_first("SELECT version()")
            .await
            .map_err(|error| self.refused("ask for the version", &error))?;
        let version = version.unwrap_or_default();
        let mut info = ServerInfo { address: self.address.words(), version, ..ServerInfo::default() };
        self.note_settings(&mut conn, &mut info).await?;
        prepare_tables(&mut Asked { driver: self, conn: &mut conn }, FAMILY, schema, preparation, &mut info).await?;
        let _ = conn.disconnect().await;
        Ok(info)
    }

    /// Indexes of a table whose rows are there. New rows are numbered after the highest one.
    pub(super) async fn finish(&self, schema: &Schema, table: &Table) -> Result<(), TargetError> {
        let mut conn = self.any_host(0, async |conn, _| Ok(conn)).await?;
        for text in FAMILY.create_indexes(schema, table) {
            match conn.query_drop(&text).await {
                // A table that was there before, empty, may have its indexes already.
                Err(Error::Server(error)) if error.code == 1061 => {}
                done => done.map_err(|error| self.refused("create an index", &error))?,
            }
        }
        let _ = conn.query_drop(format!("ANALYZE TABLE {}", table.name)).await;
        let _ = conn.disconnect().await;
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
            Ok((conn, calls, server))
        });
        let (conn, calls, server) = opened.await?;
        Ok(MySqlSession {
            conn,
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
    Ok((conn.prep(text).await?, places))
}

impl MySqlSession {
    /// Executes one row of a statement trace.
    pub(super) async fn execute_call<R: Rows>(&mut self, call: &Call<'_>, rows: &mut R) -> Outcome {
        let sent = !self.conn.is_disconnected();
        let control = match call.action {
            Action::Begin => "BEGIN",
            Action::Commit => "COMMIT",
            Action::Rollback => "ROLLBACK",
            Action::Statement { statement, table } => {
                let done = self.execute_statement(statement, table, call, rows, sent).await;
                return done.map_or_else(|failed| failed, Outcome::ok);
            }
        };
        match self.conn.query_drop(control).await {
            Ok(()) => Outcome::ok(0),
            Err(error) => failure(&error, sent && call.action == Action::Commit),
        }
    }

    async fn execute_statement<R: Rows>(
        &mut self,
        statement: usize,
        table: usize,
        call: &Call<'_>,
        rows: &mut R,
        sent: bool,
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
        let value = |place: &usize| {
            let text = call.parameters[*place];
            let number = match described.types[place % described.types.len()] {
                ParamType::Int => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
                ParamType::Text | ParamType::Bytes => None,
            };
            number.map_or_else(|| Value::Bytes(text.into()), Value::Int)
        };
        let parameters = match places.as_slice() {
            [] => Params::Empty,
            places => Params::Positional(places.iter().map(value).collect()),
        };
        let prepared = prepared.clone();
        let done = async {
            if !returns_rows {
                self.conn.exec_drop(prepared, parameters).await?;
                return Ok(self.conn.affected_rows() as u32);
            }
            let mut count = 0;
            let answer = self.conn.exec_iter(prepared, parameters).await?;
            answer
                .for_each_and_drop(|row: Row| {
                    count += 1;
                    rows.row("");
                    for position in 0..row.len() {
                        match row.as_ref(position) {
                            Some(Value::Bytes(bytes)) => rows.field(position as u32, Some(bytes)),
                            Some(Value::Int(number)) => {
                                rows.field(position as u32, Some(&number.to_be_bytes()));
                            }
                            _ => rows.field(position as u32, None),
                        }
                    }
                })
                .await?;
            Ok(count)
        };
        let wrote = sent && !returns_rows;
        done.await.map_err(|error: Error| failure(&error, wrote))
    }
}
