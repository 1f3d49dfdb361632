//! From the text of a workload file to a checked [`OltpSpec`].

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::options::{Options, nearest};
use super::{
    Argument, Call, Choice, Draw, Group, OltpError, OltpSpec, Place, Rand, Step, Transaction, Trouble,
};
use crate::op::OpKind;
use crate::statement::{
    Column, Index, ParamType, Repeat, Schema, Statement, Statements, Table, is_name, parameters_in,
    uses_parameter,
};
use crate::workload::Properties;

type Text = Spanned<String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(rename = "about")]
    _about: Option<String>,
    #[serde(default)]
    options: BTreeMap<String, toml::Value>,
    #[serde(default)]
    strings: BTreeMap<String, String>,
    tables: Vec<Spanned<FileTable>>,
    statements: BTreeMap<String, Spanned<FileStatement>>,
    transactions: Vec<Spanned<FileTransaction>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileTable {
    name: Text,
    /// How many of them; `{n}` in the name is the number from 1.
    count: Option<Text>,
    rows: Text,
    /// Rows are loaded only if this holds.
    load_if: Option<Text>,
    columns: Vec<Spanned<FileColumn>>,
    /// Columns of the primary key; none if `primary-key-if` does not hold.
    primary_key: Vec<Text>,
    primary_key_if: Option<Text>,
    #[serde(default)]
    indexes: Vec<Spanned<FileIndex>>,
    rows_per_insert: Option<Text>,
    /// Storage engine, for MySQL: a name, or an option that holds one.
    engine: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileColumn {
    name: Text,
    #[serde(rename = "type")]
    kind: Text,
    auto: Option<Text>,
    default: Option<String>,
    load: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileIndex {
    name: Text,
    columns: Vec<Text>,
    #[serde(rename = "if")]
    condition: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileStatement {
    sql: Text,
    /// The tables that `{table}` stands for: the name of one of `tables`, if there are several.
    on: Option<Text>,
    repeat: Option<Text>,
    join: Option<String>,
    postgres: Option<Text>,
    mysql: Option<Text>,
    sqlite: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileTransaction {
    #[serde(rename = "name")]
    _name: Option<String>,
    weight: Option<f64>,
    begin: Option<Text>,
    steps: Vec<Spanned<FileStep>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileStep {
    #[serde(rename = "if")]
    condition: Option<Text>,
    times: Option<Text>,
    on: Option<Text>,
    table: Option<Text>,
    repeat: Option<Text>,
    #[serde(default)]
    draw: BTreeMap<String, Text>,
    run: Vec<Text>,
}

/// Everything that names are looked up in.
struct Context<'a> {
    text: &'a str,
    options: &'a Options,
    strings: &'a BTreeMap<String, String>,
}

impl Context<'_> {
    /// The line of something.
    fn line<T>(&self, of: &Spanned<T>) -> Place {
        let before = &self.text.as_bytes()[..of.span().start.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    fn trouble<T>(&self, at: &Spanned<T>, what: impl Into<String>) -> Trouble {
        Trouble { place: self.line(at), what: what.into() }
    }

    fn holds(&self, condition: &Option<Text>) -> Result<bool, Trouble> {
        condition
            .as_ref()
            .map_or(Ok(true), |condition| self.options.holds(condition.get_ref(), self.line(condition)))
    }

    fn count(&self, text: &Option<Text>, default: u64) -> Result<u64, Trouble> {
        text.as_ref().map_or(Ok(default), |text| self.options.count(text.get_ref(), self.line(text)))
    }

    fn name<'n>(&self, text: &'n Text) -> Result<&'n str, Trouble> {
        let name = text.get_ref();
        if is_name(name) {
            return Ok(name);
        }
        Err(self.trouble(text, format!("{name:?} cannot be a name here: use letters, digits and _")))
    }

    /// `row`, `value LOW HIGH`, `value LOW HIGH in PARTS`, `uniform LOW HIGH`, `string NAME`, `unique` or `sequence`.
    fn draw(&self, text: &Text) -> Result<Draw, Trouble> {
        let words: Vec<&str> = text.get_ref().split_whitespace().collect();
        let range = |low: &str, high: &str| -> Result<(i64, i64), Trouble> {
            let (low, high) = (self.number(text, low)?, self.number(text, high)?);
            if low > high {
                return Err(self.trouble(text, format!("the range {low} to {high} is empty")));
            }
            Ok((low, high))
        };
        match words.as_slice() {
            ["row"] => Ok(Draw::Row),
            ["unique"] => Ok(Draw::Unique),
            ["sequence"] => Ok(Draw::Sequence),
            ["value", low, high] => range(low, high).map(|(low, high)| Draw::Value { low, high, parts: 1 }),
            ["value", low, high, "in", parts] => {
                let (low, high) = range(low, high)?;
                match self.number(text, parts)? {
                    parts if parts >= 1 && parts <= high - low => Ok(Draw::Value { low, high, parts: parts as u64 }),
                    parts => Err(self.trouble(text, format!("{low} to {high} cannot be cut into {parts} parts"))),
                }
            }
            ["uniform", low, high] => range(low, high).map(|(low, high)| Draw::Uniform { low, high }),
            ["string", name] => match self.strings.get(*name) {
                Some(template) => Ok(Draw::Text(template.clone())),
                None => Err(self.trouble(text, format!("there is no string {name:?} in [strings]"))),
            },
            _ => Err(self.trouble(
                text,
                format!(
                    "{:?} is no draw; write row, value LOW HIGH (in PARTS), uniform LOW HIGH, string NAME, unique or sequence",
                    text.get_ref()
                ),
            )),
        }
    }

    /// A number, or an option that holds one.
    fn number(&self, at: &Text, word: &str) -> Result<i64, Trouble> {
        word.parse().or_else(|_| self.options.int(word).map_err(|trouble| trouble.at(self.line(at))))
    }
}

impl OltpSpec {
    /// Reads a workload file, with settings on top.
    pub fn parse(name: &str, path: &str, bytes: &[u8], settings: &Properties) -> Result<OltpSpec, OltpError> {
        let failed = |trouble| OltpError { path: path.to_owned(), trouble };
        let text =
            std::str::from_utf8(bytes).map_err(|_| failed(Trouble::nowhere("it is not UTF-8".to_owned())))?;
        let file: File = toml::from_str(text).map_err(|error| {
            let place = error.span().map_or(0, |span| 1 + text[..span.start].matches('\n').count());
            // The reader of TOML names types, not what is wrong with them: the line itself says that.
            let line = text.lines().nth(place.saturating_sub(1)).unwrap_or_default().trim();
            let shown =
                if error.message().starts_with("invalid type") { format!(": {line}") } else { String::new() };
            failed(Trouble { place, what: format!("{}{shown}", error.message()) })
        })?;
        interpret(name, text, file, settings).map_err(failed)
    }
}

fn interpret(name: &str, text: &str, file: File, settings: &Properties) -> Result<OltpSpec, Trouble> {
    let options = Options::new(file.options, settings)?;
    let context = Context { text, options: &options, strings: &file.strings };
    let mut schema = Schema::default();
    let mut groups = Vec::new();
    let mut names = Vec::new();
    let mut load_statements = Vec::new();
    for table in &file.tables {
        let group = read_group(&context, table, &mut schema)?;
        load_statements.push(load_statement(&group, &schema, groups.len(), file.tables.len()));
        names.push(table.get_ref().name.get_ref().clone());
        groups.push(group);
    }
    if groups.is_empty() {
        return Err(Trouble::nowhere("a workload needs at least one of [[tables]]".to_owned()));
    }
    let mut statements = Vec::new();
    let mut places = Vec::new();
    for (name, statement) in &file.statements {
        let (statement, group) = read_statement(&context, name, statement, &names, &groups)?;
        statements.push(statement);
        places.push(group);
    }
    let mut kinds = Vec::new();
    for transaction in &file.transactions {
        let kind = read_transaction(&context, transaction, &names, &mut statements, &places)?;
        if kind.weight > 0.0 {
            kinds.push(kind);
        }
    }
    if kinds.iter().all(|kind| kind.rows() == 0) {
        return Err(Trouble::nowhere("no transaction executes a statement".to_owned()));
    }
    if let Some(position) = kinds.iter().position(|kind| kind.rows() == 0) {
        kinds.remove(position);
    }
    // Statements that no transaction executes under these options are not in the trace.
    let used = |statement: usize| {
        let calls = kinds.iter().flat_map(|kind| &kind.steps).flat_map(|step| &step.calls);
        calls.into_iter().any(|call| call.statement == statement)
    };
    let kept: Vec<usize> = (0..statements.len()).filter(|&statement| used(statement)).collect();
    let order = in_order_of_use(&kinds, &kept);
    let statements: Vec<Statement> = order.iter().map(|&statement| statements[statement].clone()).collect();
    for call in kinds.iter_mut().flat_map(|kind| &mut kind.steps).flat_map(|step| &mut step.calls) {
        call.statement = order.iter().position(|&kept| kept == call.statement).expect("it is used");
    }
    let count = ["events", "operationcount"].iter().find_map(|name| settings.get(name));
    let transactions = match count {
        Some(setting) => setting.value.trim().parse().map_err(|_| {
            Trouble::nowhere(format!(
                "{} ({}) is not a number of transactions",
                setting.value, setting.source
            ))
        })?,
        None => 10_000,
    };
    let warnings = options.doubts();
    Ok(OltpSpec {
        name: name.to_owned(),
        rand: Rand::of(&options)?,
        schema,
        statements: Statements(statements),
        load_statements: Statements(load_statements),
        transactions,
        warnings,
        options,
        groups,
        kinds,
    })
}

/// Statements in the order in which a transaction first executes them.
fn in_order_of_use(kinds: &[Transaction], kept: &[usize]) -> Vec<usize> {
    let mut order = Vec::new();
    for call in kinds.iter().flat_map(|kind| &kind.steps).flat_map(|step| &step.calls) {
        if !order.contains(&call.statement) && kept.contains(&call.statement) {
            order.push(call.statement);
        }
    }
    order
}

const TYPES: &str = "int, bigint, char(N), varchar(N), text or bytes";

fn check_type(context: &Context<'_>, kind: &Text) -> Result<(), Trouble> {
    let text = kind.get_ref().as_str();
    let sized = |name: &str| {
        let size = text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
        size.parse::<u16>().ok().filter(|&size| size > 0)
    };
    let known = ["int", "bigint", "text", "bytes"].contains(&text);
    if known || sized("char").is_some() || sized("varchar").is_some() {
        return Ok(());
    }
    Err(context.trouble(kind, format!("{text:?} is no type; write {TYPES}")))
}

fn read_group(
    context: &Context<'_>,
    file: &Spanned<FileTable>,
    schema: &mut Schema,
) -> Result<Group, Trouble> {
    let table = file.get_ref();
    let count = context.count(&table.count, 1)?;
    let numbered = table.name.get_ref().contains("{n}");
    if count == 0 || count > 100_000 {
        return Err(context.trouble(file, format!("{count} tables: there must be from 1 to 100,000")));
    }
    if count > 1 && !numbered {
        return Err(context.trouble(&table.name, "several tables need {n} in their name"));
    }
    let rows = context.count(&Some(table.rows.clone()), 0)?;
    let mut columns: Vec<Column> = Vec::new();
    let mut load = Vec::new();
    for column in &table.columns {
        let column = column.get_ref();
        check_type(context, &column.kind)?;
        if columns.iter().any(|known| known.name == *column.name.get_ref()) {
            return Err(
                context.trouble(&column.name, format!("there are two columns {}", column.name.get_ref()))
            );
        }
        columns.push(Column {
            name: context.name(&column.name)?.to_owned(),
            kind: column.kind.get_ref().clone(),
            auto: match &column.auto {
                Some(_) => context.holds(&column.auto)?,
                None => false,
            },
            default: column.default.clone(),
        });
        let draw = match column.load.get_ref().as_str() {
            "number" => None,
            _ => Some(context.draw(&column.load)?),
        };
        let kind = column.kind.get_ref().as_str();
        if ["int", "bigint"].contains(&kind) && draw.as_ref().is_some_and(Draw::is_text) {
            return Err(context.trouble(&column.load, format!("{:?} is no {kind}", column.load.get_ref())));
        }
        if kind == "int" && draw.is_none() && rows > i32::MAX as u64 {
            let name = column.name.get_ref();
            let what =
                format!("{rows} rows, but {name} is an int, which ends at {}; make it a bigint", i32::MAX);
            return Err(context.trouble(&column.kind, what));
        }
        load.push(draw);
    }
    let known = |column: &Text| -> Result<String, Trouble> {
        if columns.iter().any(|known| known.name == *column.get_ref()) {
            return Ok(column.get_ref().clone());
        }
        let near = nearest(column.get_ref(), columns.iter().map(|column| column.name.as_str()));
        let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        Err(context.trouble(column, format!("the table has no column {:?}{hint}", column.get_ref())))
    };
    let key: Vec<String> = table.primary_key.iter().map(known).collect::<Result<_, _>>()?;
    let is_primary = context.holds(&table.primary_key_if)?;
    let engine = table.engine.as_ref().map(|engine| engine_of(context, engine)).transpose()?;
    let mut tables = Vec::new();
    for number in 1..=count {
        let named = |text: &Text| -> Result<String, Trouble> {
            let name = text.get_ref().replace("{n}", &number.to_string());
            if is_name(&name) {
                return Ok(name);
            }
            Err(context.trouble(text, format!("{name:?} cannot be a name: use letters, digits and _")))
        };
        let name = named(&table.name)?;
        if schema.tables.iter().any(|known| known.name == name) {
            return Err(context.trouble(&table.name, format!("there are two tables {name}")));
        }
        schema.tables.push(Table {
            name: name.clone(),
            columns: columns.clone(),
            primary_key: if is_primary { key.clone() } else { Vec::new() },
            engine: engine.clone().flatten(),
        });
        if !is_primary {
            let index = format!("xid_{name}");
            schema.indexes.push(Index { name: index, table: name.clone(), columns: key.clone() });
        }
        for index in &table.indexes {
            let index = index.get_ref();
            if context.holds(&index.condition)? {
                let index_name = named(&index.name)?;
                // Databases differ in whether two tables may each have one; we need one rule for all.
                if schema.indexes.iter().any(|known| known.name == index_name) {
                    let hint = if count > 1 { "; put {n} into its name" } else { "" };
                    return Err(
                        context.trouble(&index.name, format!("there are two indexes {index_name}{hint}"))
                    );
                }
                schema.indexes.push(Index {
                    name: index_name,
                    table: name.clone(),
                    columns: index.columns.iter().map(known).collect::<Result<_, _>>()?,
                });
            }
        }
        tables.push(name);
    }
    let rows_per_insert = context.count(&table.rows_per_insert, 100)?;
    if rows_per_insert == 0 || rows_per_insert * columns.len() as u64 > 32_000 {
        let most = 32_000 / columns.len().max(1);
        let at = table.rows_per_insert.as_ref().unwrap_or(&table.rows);
        return Err(context.trouble(at, format!("{rows_per_insert} rows an INSERT: from 1 to {most} here")));
    }
    let loads = context.holds(&table.load_if)?;
    Ok(Group {
        tables,
        load_rows: if loads { rows } else { 0 },
        drawn_rows: rows.max(1),
        load,
        rows_per_insert,
    })
}

/// The storage engine that a text names or that an option of its name holds; none is InnoDB.
fn engine_of(context: &Context<'_>, text: &Text) -> Result<Option<String>, Trouble> {
    let named = text.get_ref().as_str();
    if !context.options.has(named) {
        return context.name(text).map(|name| Some(name.to_owned()));
    }
    let engine = context.options.text(named);
    if !is_name(&engine) {
        return Err(context.options.wrong(named, "the name of a storage engine, for instance innodb"));
    }
    Ok(Some(engine).filter(|engine| !engine.eq_ignore_ascii_case("innodb")))
}

/// The INSERT that loads a group of tables.
fn load_statement(group: &Group, schema: &Schema, number: usize, groups: usize) -> Statement {
    let table = schema.tables.iter().find(|table| table.name == group.tables[0]).expect("just made");
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let parameters: Vec<String> = (1..=columns.len()).map(|number| format!("${number}")).collect();
    let is_text = |draw: &Option<Draw>| draw.as_ref().is_some_and(Draw::is_text);
    Statement {
        name: if groups == 1 { OpKind::Insert.name().to_owned() } else { format!("load_{number}") },
        sql: format!("INSERT INTO {{table}} ({}) VALUES {{repeat}}", columns.join(", ")),
        dialects: BTreeMap::new(),
        repeat: Some(Repeat { text: format!("({})", parameters.join(", ")), join: ", ".to_owned() }),
        types: group
            .load
            .iter()
            .map(|draw| if is_text(draw) { ParamType::Text } else { ParamType::Int })
            .collect(),
        tables: group.tables.clone(),
        groups: group.rows_per_insert.min(group.load_rows.max(1)) as usize,
        returns_rows: false,
    }
}

/// The group of tables that a name stands for; without a name the only one.
fn group_of(context: &Context<'_>, on: &Option<Text>, names: &[String]) -> Result<Option<usize>, Trouble> {
    let Some(on) = on else { return Ok((names.len() == 1).then_some(0)) };
    match names.iter().position(|name| name == on.get_ref()) {
        Some(position) => Ok(Some(position)),
        None => Err(context
            .trouble(on, format!("there are no tables {:?}; there are {}", on.get_ref(), names.join(", ")))),
    }
}

fn read_statement(
    context: &Context<'_>,
    name: &str,
    file: &Spanned<FileStatement>,
    names: &[String],
    groups: &[Group],
) -> Result<(Statement, Option<usize>), Trouble> {
    let statement = file.get_ref();
    let taken = OpKind::YCSB.iter().chain(&[OpKind::Begin, OpKind::Commit, OpKind::Rollback]);
    if !is_name(name) || name.len() > 60 || taken.into_iter().any(|kind| kind.name() == name) {
        let what = format!(
            "{name:?} cannot be the name of a statement: use letters, digits and _, and none of \
             INSERT, READ, UPDATE, SCAN, READ_MODIFY_WRITE, DELETE, BEGIN, COMMIT, ROLLBACK"
        );
        return Err(context.trouble(file, what));
    }
    let group = group_of(context, &statement.on, names)?;
    let sql = statement.sql.get_ref();
    let on_table = sql.contains("{table}");
    if on_table && group.is_none() {
        return Err(context.trouble(&statement.sql, "which tables is {table}? Say it with on = \"…\""));
    }
    match (&statement.repeat, sql.matches("{repeat}").count()) {
        (Some(_), 1) | (None, 0) => {}
        (Some(repeat), 0) => return Err(context.trouble(repeat, "the sql has no {repeat} for it")),
        (None, _) => {
            return Err(context.trouble(&statement.sql, "{repeat} needs repeat = \"…\" beside the sql"));
        }
        (Some(_), _) => return Err(context.trouble(&statement.sql, "{repeat} can be there once")),
    }
    if statement.repeat.is_some() && parameters_in(sql) > 0 {
        return Err(context.trouble(&statement.sql, "parameters are either in repeat or in the sql"));
    }
    let dialects =
        [("postgres", &statement.postgres), ("mysql", &statement.mysql), ("sqlite", &statement.sqlite)];
    let dialects = dialects
        .into_iter()
        .filter_map(|(family, text)| Some((family.to_owned(), text.as_ref()?.get_ref().clone())));
    let first = sql.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    let upper = sql.to_ascii_uppercase();
    let statement = Statement {
        name: name.to_owned(),
        sql: sql.clone(),
        dialects: dialects.collect(),
        repeat: statement.repeat.as_ref().map(|repeat| Repeat {
            text: repeat.get_ref().clone(),
            join: statement.join.clone().unwrap_or_else(|| ", ".to_owned()),
        }),
        // Known when a transaction calls it.
        types: Vec::new(),
        tables: group.filter(|_| on_table).map_or(Vec::new(), |group| groups[group].tables.clone()),
        groups: 1,
        returns_rows: ["SELECT", "WITH", "VALUES", "TABLE"].contains(&first.as_str())
            || upper.contains(" RETURNING "),
    };
    Ok((statement, group))
}

fn read_transaction(
    context: &Context<'_>,
    file: &Spanned<FileTransaction>,
    names: &[String],
    statements: &mut [Statement],
    places: &[Option<usize>],
) -> Result<Transaction, Trouble> {
    let transaction = file.get_ref();
    let weight = transaction.weight.unwrap_or(1.0);
    if !(weight.is_finite() && weight >= 0.0) {
        return Err(context.trouble(file, format!("weight = {weight}: a weight is a number ≥ 0")));
    }
    let mut steps = Vec::new();
    for step in &transaction.steps {
        let read = read_step(context, step, names, statements, places)?;
        if context.holds(&step.get_ref().condition)? && read.times > 0 {
            steps.push(read);
        }
    }
    Ok(Transaction { weight, begins: context.holds(&transaction.begin)?, steps })
}

fn read_step(
    context: &Context<'_>,
    file: &Spanned<FileStep>,
    names: &[String],
    statements: &mut [Statement],
    places: &[Option<usize>],
) -> Result<Step, Trouble> {
    let step = file.get_ref();
    let variables: Vec<&str> = step.draw.keys().map(String::as_str).collect();
    let draws: Vec<Draw> = step.draw.values().map(|draw| context.draw(draw)).collect::<Result<_, _>>()?;
    let mut calls = Vec::new();
    let mut group = group_of(context, &step.on, names)?;
    for run in &step.run {
        let (call, place) = read_call(context, run, &variables, &draws, statements, places)?;
        match (group, place) {
            (None, Some(place)) => group = Some(place),
            (Some(group), Some(place)) if group != place && call.on_table => {
                return Err(context.trouble(run, "the statements of a step work on the same tables"));
            }
            _ => {}
        }
        calls.push(call);
    }
    let choice = match step.table.as_ref().map(|table| (table, table.get_ref().as_str())) {
        None | Some((_, "uniform")) => Choice::Uniform,
        Some((_, "round-robin")) => Choice::RoundRobin,
        Some((table, other)) => {
            return Err(context.trouble(table, format!("table = {other:?}: write uniform or round-robin")));
        }
    };
    let repeat = context.count(&step.repeat, 1)?;
    let widest = calls.iter().map(|call| call.arguments.len() as u64).max().unwrap_or(0);
    if repeat == 0 || repeat * widest > 65_535 {
        let at = step.repeat.as_ref().map_or(context.line(file), |repeat| context.line(repeat));
        let what = format!("repeat = {repeat}: a statement takes from 1 to 65,535 parameters");
        return Err(Trouble { place: at, what });
    }
    if draws.contains(&Draw::Sequence) && choice != Choice::RoundRobin {
        return Err(context.trouble(file, "a sequence needs table = \"round-robin\""));
    }
    for call in calls.iter().filter(|call| call.repeats) {
        statements[call.statement].groups = repeat as usize;
    }
    let group = group.unwrap_or(0);
    Ok(Step { group, choice, times: context.count(&step.times, 1)?, repeat, draws, calls })
}

/// `name(argument, …)`.
fn read_call(
    context: &Context<'_>,
    run: &Text,
    variables: &[&str],
    draws: &[Draw],
    statements: &mut [Statement],
    places: &[Option<usize>],
) -> Result<(Call, Option<usize>), Trouble> {
    let text = run.get_ref().trim();
    let wrong = |what: String| context.trouble(run, what);
    let (name, rest) = text.split_once('(').unwrap_or((text, ")"));
    let Some(inside) = rest.strip_suffix(')') else {
        return Err(wrong(format!("{text:?}: write statement(argument, …)")));
    };
    let name = name.trim();
    let Some(position) = statements.iter().position(|statement| statement.name == name) else {
        let near = nearest(name, statements.iter().map(|statement| statement.name.as_str()));
        let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        return Err(wrong(format!("there is no statement {name:?}{hint}")));
    };
    let mut arguments = Vec::new();
    let mut types = Vec::new();
    for argument in inside.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
        let mut read = Argument { draws: Vec::new(), constant: 0 };
        let mut minus = false;
        let mut expects_term = true;
        for word in argument.split_whitespace() {
            match (word, expects_term) {
                ("+" | "-", false) => (minus, expects_term) = (word == "-", true),
                (term, true) => {
                    match variables.iter().position(|variable| *variable == term) {
                        Some(variable) => read.draws.push((variable, minus)),
                        None => {
                            let value = context.number(run, term).map_err(|_| {
                                wrong(format!(
                                    "{term:?} is no number, no option and no draw of this step (it has {})",
                                    variables.join(", ")
                                ))
                            })?;
                            read.constant += if minus { -value } else { value };
                        }
                    }
                    expects_term = false;
                }
                _ => return Err(wrong(format!("{argument:?}: put + or - with blanks between terms"))),
            }
        }
        if expects_term {
            return Err(wrong(format!("{argument:?}: a term is missing at its end")));
        }
        let is_text = read.draws.iter().any(|&(draw, _)| draws[draw].is_text());
        if is_text && (read.draws.len() > 1 || read.constant != 0) {
            return Err(wrong(format!("{argument:?}: a text cannot be added to")));
        }
        types.push(if is_text { ParamType::Text } else { ParamType::Int });
        arguments.push(read);
    }
    let statement = &mut statements[position];
    let source = statement.repeat.as_ref().map_or(&statement.sql, |repeat| &repeat.text);
    let wanted = parameters_in(source);
    for (family, text) in &statement.dialects {
        let found = parameters_in(text);
        if statement.repeat.is_none() && found > arguments.len() {
            return Err(wrong(format!(
                "{name} has {found} parameters for {family}, but {} are given",
                arguments.len()
            )));
        }
    }
    if wanted != arguments.len() {
        return Err(wrong(format!("{name} has {wanted} parameters, but {} are given", arguments.len())));
    }
    if let Some(unused) = (1..=wanted).find(|&number| !uses_parameter(source, number)) {
        return Err(wrong(format!("{name} has {wanted} parameters, but its sql does not use ${unused}")));
    }
    if !statement.types.is_empty() && statement.types != types {
        return Err(wrong(format!("{name} is called elsewhere with other types of parameters")));
    }
    statement.types = types;
    let call = Call {
        statement: position,
        arguments,
        on_table: !statement.tables.is_empty(),
        repeats: statement.repeat.is_some(),
    };
    Ok((call, places[position]))
}
