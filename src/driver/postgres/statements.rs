//! Statement traces on PostgreSQL and the databases that speak its protocol. A statement is prepared
//! once for each table; its parameters travel as text, which the server reads as whatever type it
//! expects, so that one trace fits every schema.

use tokio_postgres::{Client, Error};

use super::wire::{self, Parameter, Row, Wire};
use super::{Postgres, PostgresSession, failure};
use crate::driver::statements::{Action, Call, Family, Prepared};
use crate::driver::tables::{Tables, prepare_tables};
use crate::driver::{Preparation, Rows, ServerInfo, TargetError};
use crate::op::Outcome;
use crate::statement::{ParamType, Parameters, Schema, Statements, Table};

/// The statements of a trace on one connection.
pub type Calls = Prepared<wire::Prepared>;

const FAMILY: Family = Family::Postgres;

/// A connection that tables are prepared on.
struct Asked<'a> {
    driver: &'a Postgres,
    client: &'a Client,
}

impl Tables for Asked<'_> {
    async fn drop_table(&mut self, name: &str) -> Result<(), TargetError> {
        let dropped = self.client.batch_execute(&format!("DROP TABLE IF EXISTS {name}")).await;
        dropped.map_err(|error| self.driver.refused("drop a table", &error))
    }

    async fn columns(&mut self, name: &str) -> Result<Option<Vec<String>>, TargetError> {
        let columns = self.client.query(COLUMNS, &[&name]).await;
        let columns = columns.map_err(|error| self.driver.refused("look at a table", &error))?;
        Ok(Some(columns.iter().map(|row| row.get(0)).collect::<Vec<_>>()).filter(|columns| !columns.is_empty()))
    }

    async fn create(&mut self, text: &str) -> Result<(), TargetError> {
        self.client.batch_execute(text).await.map_err(|error| self.driver.refused("create a table", &error))
    }

    async fn has_rows(&mut self, name: &str) -> Result<bool, TargetError> {
        let row = self.client.query_one(&format!("SELECT EXISTS (SELECT 1 FROM {name})"), &[]).await;
        Ok(row.map_err(|error| self.driver.refused("look into a table", &error))?.get(0))
    }
}

impl Postgres {
    /// Creates or verifies the tables of a statement trace, and asks who answered.
    pub(super) async fn prepare_statement_trace(
        &self,
        schema: &Schema,
        preparation: Preparation,
    ) -> Result<ServerInfo, TargetError> {
        let connected = self.client(0).await?;
        let client = &connected.client;
        let version = client.query_one("SELECT version()", &[]).await.and_then(|row| row.try_get(0));
        let version = version.map_err(|error| self.refused("ask for the version", &error))?;
        let mut info = ServerInfo { address: self.address(), version, ..ServerInfo::default() };
        let mut asked = Asked { driver: self, client };
        prepare_tables(&mut asked, FAMILY, schema, preparation, &mut info).await?;
        self.note_settings(client, &mut info).await;
        Ok(info)
    }

    /// Indexes of a table whose rows are there, and the next number of its numbered columns.
    pub(super) async fn finish(
        &self,
        client: &Client,
        schema: &Schema,
        table: &Table,
    ) -> Result<(), TargetError> {
        let refused = |error: Error| self.refused("create an index", &error);
        for text in FAMILY.create_indexes(schema, table) {
            // A table that was there before, empty, may have its indexes already.
            let text = text.replacen("CREATE INDEX ", "CREATE INDEX IF NOT EXISTS ", 1);
            client.batch_execute(&text).await.map_err(refused)?;
        }
        for column in table.columns.iter().filter(|column| column.auto) {
            let (name, column) = (&table.name, &column.name);
            // CockroachDB numbers rows without a sequence that could fall behind.
            let text = format!(
                "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), greatest(max({column}), 1), \
                 count(*) > 0) FROM {name} WHERE pg_get_serial_sequence('{name}', '{column}') IS NOT NULL"
            );
            let _ = client.batch_execute(&text).await;
        }
        // The rows of a table that was just filled are not yet in the planner's statistics.
        let _ = client.batch_execute(&format!("ANALYZE {}", table.name)).await;
        Ok(())
    }

    /// Prepares every statement for every table.
    pub(super) async fn prepare_statements(
        &self,
        wire: &mut Wire,
        statements: &Statements,
    ) -> Result<Calls, TargetError> {
        if !self.settings.named_statements {
            return Err(TargetError::Request(
                "pg.prepare=unnamed: the statements of this trace are prepared by name".to_owned(),
            ));
        }
        let mut calls = Calls::new(statements);
        for (statement, table, groups) in calls.needed() {
            let (text, _) =
                calls.statements.0[statement].text(FAMILY.name(), Parameters::Dollar, table, groups);
            let prepared = wire.prepare(&text).await.map_err(|failure| {
                let name = &calls.statements.0[statement].name;
                self.declined(&format!("prepare the statement {name} ({text})"), failure)
            })?;
            calls.add(statement, table, groups, prepared);
        }
        Ok(calls)
    }
}

/// The columns of a table.
const COLUMNS: &str = "
    SELECT attname::text FROM pg_attribute
    WHERE attrelid = to_regclass($1)::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum";

impl PostgresSession {
    /// Executes one row of a statement trace.
    pub(super) async fn execute_call<R: Rows>(&mut self, call: &Call<'_>, rows: &mut R) -> Outcome {
        let control = match call.action {
            Action::Begin => "BEGIN",
            Action::Commit => "COMMIT",
            Action::Rollback => "ROLLBACK",
            Action::Statement { statement, table } => {
                return match self.execute_statement(statement, table, call, rows).await {
                    Ok(count) => Outcome::ok(count),
                    Err(outcome) => outcome,
                };
            }
        };
        match self.wire.simple(control).await {
            Ok(()) => Outcome::ok(0),
            Err(error) => failure(error, call.action == Action::Commit),
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
            let (text, _) =
                calls.statements.0[statement].text(FAMILY.name(), Parameters::Dollar, table, groups);
            match self.wire.prepare(&text).await {
                Ok(prepared) => calls.add(statement, table, groups, prepared),
                Err(error) => return Err(failure(error, false)),
            }
        }
        let described = &calls.statements.0[statement];
        let prepared = calls.get(statement, table, groups).expect("it was just prepared");
        if let wire::Prepared::Named(_, takes) = prepared
            && *takes != call.parameters.len()
        {
            let (name, given) = (&described.name, call.parameters.len());
            return Err(Outcome::rejected(format!("{name} takes {takes} parameters, {given} were given")));
        }
        let types = &described.types;
        let parameters = call.parameters.iter().enumerate().map(|(position, text)| {
            match types[position % types.len()] {
                ParamType::Bytes => Parameter::Text(text),
                ParamType::Int | ParamType::Text => Parameter::Literal(text),
            }
        });
        let take = |row: Row<'_>| {
            rows.row("");
            for (value, position) in row.values().zip(0..) {
                rows.field(position, value);
            }
        };
        let done = self.wire.execute(prepared, parameters, take).await;
        done.map_err(|error| failure(error, !described.returns_rows))
    }
}
