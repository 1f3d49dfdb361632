//! Statement traces through JDBC. Numbers are bound as numbers and the rest as strings; what comes back
//! is fetched whole, as text. Transactions have the isolation that the database gives a new connection.

use super::jvm::{Complaint, Helper, Request};
use super::{Deadline, Found, Jdbc, JdbcSession, LEVELS, ask, products};
use crate::driver::sql::Statements as Shapes;
use crate::driver::statements::{Action, Call, Family, Prepared};
use crate::driver::tables::{Tables, prepare_tables};
use crate::driver::{Preparation, ServerInfo, TableSpec, TargetError};
use crate::op::Outcome;
use crate::statement::{ParamType, Parameters, Schema, Statements, Table};

/// Numbers of prepared statements, and which parameter stands at each of their places.
pub type Calls = Prepared<(i32, Vec<usize>)>;

/// The family whose words this database takes.
fn family(found: Found) -> Family {
    match found.product.name {
        "PostgreSQL" | "CockroachDB" | "-YB-" => Family::Postgres,
        "MySQL" | "MariaDB" | "TiDB" => Family::Mysql,
        "SQLite" => Family::Sqlite,
        _ => Family::Standard,
    }
}

fn spec(name: &str) -> TableSpec {
    TableSpec { name: name.to_owned(), fields: Vec::new(), field_length: 0, shapes: Vec::new() }
}

/// A connection that tables are prepared on.
struct Asked<'a> {
    driver: &'a Jdbc,
    helper: &'a mut Helper,
}

impl Tables for Asked<'_> {
    async fn drop_table(&mut self, name: &str) -> Result<(), TargetError> {
        // Not every database knows IF EXISTS.
        match self.columns(name).await? {
            Some(_) => self.driver.execute(self.helper, "drop a table", &format!("DROP TABLE {name}")),
            None => Ok(()),
        }
    }

    async fn columns(&mut self, name: &str) -> Result<Option<Vec<String>>, TargetError> {
        let columns = self.driver.columns(self.helper, &spec(name))?;
        Ok(columns.map(|columns| columns.into_iter().map(|column| column.name).collect()))
    }

    async fn create(&mut self, text: &str) -> Result<(), TargetError> {
        self.driver.execute(self.helper, "create a table", text)
    }

    async fn has_rows(&mut self, name: &str) -> Result<bool, TargetError> {
        self.helper.begin();
        self.helper.text(products::any_row(&spec(name)).as_bytes());
        let rows = self.helper.call(Request::Ask, 1, None);
        Ok(rows.map_err(|error| self.driver.refused("look into a table", &error))? > 0)
    }
}

impl Jdbc {
    /// The one connection that a statement trace can have at a time.
    fn unsharded(&self) -> Result<Helper, TargetError> {
        if self.urls.len() > 1 {
            return Err(TargetError::Request(
                "statements cannot be spread over shards, because nobody knows which rows they touch; give one URL".to_owned(),
            ));
        }
        self.connected(0)
    }

    /// Creates or verifies the tables of a statement trace, and asks who answered.
    pub(super) async fn prepare_statement_trace(
        &self,
        schema: &Schema,
        preparation: Preparation,
    ) -> Result<ServerInfo, TargetError> {
        let mut helper = self.unsharded()?;
        let (found, mut info) = self.describe(&mut helper)?;
        let mut asked = Asked { driver: self, helper: &mut helper };
        prepare_tables(&mut asked, family(found), schema, preparation, &mut info).await?;
        Ok(info)
    }

    /// Indexes of a table whose rows are there, and the next number of its numbered columns.
    pub(super) fn finish(&self, schema: &Schema, table: &Table) -> Result<(), TargetError> {
        let mut helper = self.unsharded()?;
        let (found, _) = self.describe(&mut helper)?;
        let family = family(found);
        for text in family.create_indexes(schema, table) {
            self.execute(&mut helper, "create an index", &text)?;
        }
        for column in table.columns.iter().filter(|column| column.auto) {
            let (name, column) = (&table.name, &column.name);
            match family {
                Family::Postgres => {
                    let query = format!(
                        "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), greatest(max({column}), 1), \
                         count(*) > 0) FROM {name}"
                    );
                    let _ = ask(&mut helper, &query);
                }
                Family::Standard => {
                    let query = format!("SELECT coalesce(max({column}), 0) + 1 FROM {name}");
                    if let Ok(Some(next)) = ask(&mut helper, &query) {
                        let text = format!("ALTER TABLE {name} ALTER COLUMN {column} RESTART WITH {next}");
                        let _ = self.execute(&mut helper, "number new rows", &text);
                    }
                }
                Family::Mysql | Family::Sqlite => {}
            }
        }
        Ok(())
    }

    /// A connection with every statement prepared.
    pub(super) fn statement_session(&self, statements: &Statements) -> Result<JdbcSession, TargetError> {
        let mut helper = self.unsharded()?;
        let (found, info) = self.describe(&mut helper)?;
        let isolation = info.settings.get("isolation").map_or("", String::as_str);
        let isolation = LEVELS.iter().find(|level| level.0 == isolation).map_or(self.isolation, |level| level.1);
        let mut calls = Calls::new(statements);
        for (statement, table, groups) in calls.needed() {
            let prepared = prepare(&mut helper, &calls, family(found), statement, table, groups);
            let prepared = prepared.map_err(|error| {
                self.refused(&format!("prepare {}", calls.statements.0[statement].name), &error)
            })?;
            calls.add(statement, table, groups, prepared);
        }
        let began = std::time::Instant::now();
        Ok(JdbcSession {
            shards: vec![helper],
            table: spec(""),
            found,
            statements: Shapes::new(),
            calls: Some(calls),
            isolation,
            deadline: self.op_timeout.map(|timeout| Deadline { timeout, op_id: None, began }),
            password: self.password.clone(),
        })
    }
}

fn prepare(
    helper: &mut Helper,
    calls: &Calls,
    family: Family,
    statement: usize,
    table: usize,
    groups: usize,
) -> Result<(i32, Vec<usize>), Box<Complaint>> {
    let described = &calls.statements.0[statement];
    let (text, places) = described.text(family.name(), Parameters::Question, table, groups);
    helper.begin();
    helper.text(text.as_bytes());
    let number = helper.call(Request::Prepare, i32::from(described.returns_rows), None)? as i32;
    Ok((number, places))
}

impl JdbcSession {
    /// Executes one row of a statement trace.
    pub(super) fn execute_call(&mut self, call: &Call<'_>) -> Outcome {
        let left = self.deadline.as_mut().map(|deadline| deadline.left(call.id));
        let isolation = self.isolation;
        let (request, number) = match call.action {
            Action::Begin => (Request::Begin, isolation),
            Action::Commit => (Request::Commit, 0),
            Action::Rollback => (Request::Rollback, 0),
            Action::Statement { statement, table } => {
                return self.execute_statement(statement, table, call, left);
            }
        };
        let helper = &mut self.shards[0];
        helper.begin();
        match helper.call(request, number, left) {
            Ok(_) => Outcome::ok(0),
            Err(complaint) => self.failure(&complaint, call.action == Action::Commit),
        }
    }

    fn execute_statement(
        &mut self,
        statement: usize,
        table: usize,
        call: &Call<'_>,
        left: Option<std::time::Duration>,
    ) -> Outcome {
        let Some(calls) = &mut self.calls else { return Outcome::UNSUPPORTED };
        let helper = &mut self.shards[0];
        let groups = calls.statements.0[statement].groups(call.parameters.len());
        if calls.get(statement, table, groups).is_none() {
            // The last INSERT of a table has fewer rows than the others.
            match prepare(helper, calls, family(self.found), statement, table, groups) {
                Ok(prepared) => calls.add(statement, table, groups, prepared),
                Err(complaint) => return self.failure(&complaint, false),
            }
        }
        let described = &calls.statements.0[statement];
        let (number, places) = calls.get(statement, table, groups).expect("it was just prepared");
        helper.begin();
        for &place in places {
            let text = call.parameters[place];
            let value = match described.types[place % described.types.len()] {
                ParamType::Int => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
                ParamType::Text | ParamType::Bytes => None,
            };
            match value {
                Some(value) => helper.number(value),
                None => helper.text(text),
            }
        }
        let returns_rows = described.returns_rows;
        let request = if returns_rows { Request::Query } else { Request::Update };
        match helper.call(request, *number, left) {
            Ok(count) => Outcome::ok(count),
            Err(complaint) => self.failure(&complaint, !returns_rows),
        }
    }
}
