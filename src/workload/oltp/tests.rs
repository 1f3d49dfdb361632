//! Workload files: what is understood, what is refused with its line, and what is drawn.

use super::known::KNOWN;
use super::*;
use crate::workload::Properties;
use crate::workload::builtin::TRANSACTIONAL;

fn settings(pairs: &[(&str, &str)]) -> Properties {
    let mut settings = Properties::new();
    pairs.iter().for_each(|(name, value)| settings.set(name, value));
    settings
}

fn builtin(name: &str, pairs: &[(&str, &str)]) -> Result<OltpSpec, OltpError> {
    let text = TRANSACTIONAL.iter().find(|row| row.0 == name).expect("a built-in workload").1;
    OltpSpec::parse(name, name, text.as_bytes(), &settings(pairs))
}

/// The rows of a transaction as text: `statement@table(parameters)`.
fn transaction(spec: &OltpSpec, seed: u64, number: u64) -> Vec<String> {
    let mut rows = Vec::new();
    Maker::new(spec, seed).run(number, |row, lens, bytes| {
        let mut rest = std::str::from_utf8(bytes).unwrap();
        let values: Vec<&str> = lens
            .iter()
            .map(|&len| {
                let (value, tail) = rest.split_at(len as usize);
                rest = tail;
                value
            })
            .collect();
        rows.push(match row {
            RowOf::Begin => "BEGIN".to_owned(),
            RowOf::Commit => "COMMIT".to_owned(),
            RowOf::Statement { statement, table } => {
                let statement = &spec.statements.0[statement];
                let table = table.map_or("", |table| &statement.tables[table as usize]);
                format!("{}@{table}({})", statement.name, values.join(","))
            }
        });
    });
    rows
}

#[test]
fn every_built_in_workload_is_accepted_without_a_doubt() {
    for (name, _) in TRANSACTIONAL {
        let spec = builtin(name, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(spec.warnings, [""; 0], "{name}");
        assert!(!transaction(&spec, 1, 0).is_empty(), "{name}");
    }
}

#[test]
fn lists_draw_from_segments_of_the_table_in_turn_as_sysbenchs_threads_do() {
    for test in ["select_random_points", "select_random_ranges"] {
        let pairs = [("table-size", "1000"), ("segments", "4"), ("delta", "0")];
        let pairs = if test.ends_with("points") { &pairs[..2] } else { &pairs[..] };
        let spec = builtin(test, pairs).unwrap();
        for number in 0..400 {
            let rows = transaction(&spec, 1, number);
            let drawn = rows[0]
                .split(['(', ')'])
                .nth(1)
                .unwrap()
                .split(',')
                .map(|value| value.parse::<u64>().unwrap());
            let from = number % 4 * 250;
            drawn.for_each(|value| assert!((from..=from + 250).contains(&value), "{test} {number}: {value}"));
        }
    }
    let refused = builtin("select_random_points", &[("table-size", "10"), ("segments", "16")]).unwrap_err();
    assert!(refused.to_string().contains("0 to 10 cannot be cut into 16 parts"), "{refused}");
}

#[test]
fn the_transactions_are_those_of_sysbench() {
    let names = |name: &str, pairs: &[(&str, &str)]| -> Vec<String> {
        let spec = builtin(name, pairs).unwrap();
        transaction(&spec, 1, 0).iter().map(|row| row.split('@').next().unwrap().to_owned()).collect()
    };
    let read = ["simple_range", "sum_range", "order_range", "distinct_range"];
    let write = ["index_update", "non_index_update", "delete", "insert"];
    let mut all = vec!["BEGIN"];
    all.extend(["point_select"; 10]);
    all.extend(read);
    all.extend(write);
    all.push("COMMIT");
    assert_eq!(names("oltp_read_write", &[]), all);
    assert_eq!(
        names("oltp_read_only", &[("range_selects", "off"), ("skip-trx", "on"), ("point-selects", "2")]),
        ["point_select"; 2]
    );
    assert_eq!(
        names("oltp_write_only", &[("index-updates", "0"), ("delete-inserts", "2")]),
        ["BEGIN", "non_index_update", "delete", "insert", "delete", "insert", "COMMIT"]
    );
    assert_eq!(names("oltp_insert", &[]), ["insert_numbered"]);
    assert_eq!(names("oltp_insert", &[("auto-inc", "off")]), ["insert"]);
    assert_eq!(builtin("oltp_insert", &[("auto-inc", "off")]).unwrap().table_rows(), 0);
}

#[test]
fn parameters_belong_together_as_in_sysbench() {
    let spec = builtin("oltp_read_write", &[("tables", "3"), ("table-size", "500")]).unwrap();
    for number in 0..50 {
        let rows = transaction(&spec, 7, number);
        let parts = |name: &str| -> Vec<(String, Vec<String>)> {
            let of_name = rows.iter().filter_map(|row| row.strip_prefix(name)?.strip_prefix('@'));
            of_name
                .map(|row| {
                    let (table, values) = row.trim_end_matches(')').split_once('(').unwrap();
                    (table.to_owned(), values.split(',').map(str::to_owned).collect())
                })
                .collect()
        };
        let points = parts("point_select");
        assert!(points.iter().all(|point| point.0 == points[0].0), "one table for all ten: {points:?}");
        let range = &parts("order_range")[0].1;
        assert_eq!(range[0].parse::<i64>().unwrap() + 99, range[1].parse::<i64>().unwrap());
        let (delete, insert) = (&parts("delete")[0], &parts("insert")[0]);
        assert_eq!(
            (&delete.0, &delete.1[0]),
            (&insert.0, &insert.1[0]),
            "the row that was deleted comes back"
        );
        assert_eq!((insert.1[2].len(), insert.1[3].len()), (119, 59));
        assert!((1..=500).contains(&insert.1[1].parse::<i64>().unwrap()));
    }
}

#[test]
fn lists_take_their_length_from_an_option() {
    let points = builtin("select_random_points", &[("random-points", "3")]).unwrap();
    assert_eq!(transaction(&points, 1, 4)[0].matches(',').count(), 2);
    let ranges = builtin("select_random_ranges", &[("number_of_ranges", "2"), ("delta", "7")]).unwrap();
    let row = transaction(&ranges, 1, 4)[0].clone();
    let numbers: Vec<i64> = row
        .trim_end_matches(')')
        .rsplit('(')
        .next()
        .unwrap()
        .split(',')
        .map(|number| number.parse().unwrap())
        .collect();
    assert_eq!((numbers[1] - numbers[0], numbers[3] - numbers[2]), (7, 7));
    let bulk = builtin("bulk_insert", &[("rows-per-statement", "3"), ("tables", "2")]).unwrap();
    assert_eq!(transaction(&bulk, 1, 1), ["bulk_insert@sbtest2(1,1,2,2,3,3)"]);
    assert_eq!(transaction(&bulk, 1, 2), ["bulk_insert@sbtest1(4,4,5,5,6,6)"]);
}

#[test]
fn a_transaction_depends_on_the_seed_and_its_number_alone() {
    let spec = builtin("oltp_read_write", &[]).unwrap();
    assert_eq!(transaction(&spec, 1, 5), transaction(&spec, 1, 5));
    assert_ne!(transaction(&spec, 1, 5), transaction(&spec, 1, 6));
    assert_ne!(transaction(&spec, 1, 5), transaction(&spec, 2, 5));
    let mut maker = Maker::new(&spec, 1);
    let mut twice = Vec::new();
    for number in [9, 5] {
        twice.clear();
        maker.run(number, |_, _, bytes| twice.extend_from_slice(bytes));
    }
    let mut once = Vec::new();
    Maker::new(&spec, 1).run(5, |_, _, bytes| once.extend_from_slice(bytes));
    assert_eq!(once, twice);
}

/// A workload with one thing replaced, and what is said about it.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("rows = \"size\"", "rows = \"sise\"", "mine.toml:6: there is no option \"sise\"; did you mean size?"),
    ("type = \"int\"", "type = \"number\"", "mine.toml:8: \"number\" is no type; write int, bigint, char(N)"),
    (
        "primary-key = [\"id\"]",
        "primary-key = [\"ib\"]",
        "mine.toml:11: the table has no column \"ib\"; did you mean id?",
    ),
    ("load = \"string v\"", "load = \"string w\"", "mine.toml:9: there is no string \"w\" in [strings]"),
    ("load = \"number\"", "load = \"numbr\"", "mine.toml:8: \"numbr\" is no draw; write row, value LOW HIGH"),
    ("draw = { id = \"row\" }", "draw = { id = \"value 5 4\" }", "mine.toml:19: the range 5 to 4 is empty"),
    ("read(id)", "raed(id)", "mine.toml:19: there is no statement \"raed\"; did you mean read?"),
    (
        "read(id)",
        "read(idd)",
        "mine.toml:19: \"idd\" is no number, no option and no draw of this step (it has id)",
    ),
    ("read(id)", "read(id, id)", "mine.toml:19: read has 1 parameters, but 2 are given"),
    ("read(id)", "read(id +)", "mine.toml:19: \"id +\": a term is missing at its end"),
    ("read(id)", "read(id", "mine.toml:19: \"read(id\": write statement(argument, …)"),
    ("run = [", "rum = [", "mine.toml:19: unknown field `rum`, expected one of"),
    ("[statements.read]", "[statements.READ]", "mine.toml:13: \"READ\" cannot be the name of a statement"),
    ("name = \"t\"", "name = \"t;drop\"", "mine.toml:5: \"t;drop\" cannot be a name"),
    ("weight = 1", "weight = -1", "mine.toml:16: weight = -1: a weight is a number ≥ 0"),
    ("weight = 1", "weight = 1 2", "mine.toml:17:"),
    ("weight = 1", "begin = \"sise\"", "mine.toml:17: there is no option \"sise\"; did you mean size?"),
    ("{table} WHERE", "{repeat} WHERE", "mine.toml:14: {repeat} needs repeat = \"…\" beside the sql"),
    (
        "weight = 1",
        "weight = \"1\"",
        "mine.toml:17: invalid type: string \"1\", expected f64: weight = \"1\"",
    ),
    ("name = \"v\", type", "name = \"id\", type", "mine.toml:9: there are two columns id"),
    ("type = \"varchar(10)\"", "type = \"bigint\"", "mine.toml:9: \"string v\" is no bigint"),
    (
        "size = 10",
        "size = 3_000_000_000",
        "mine.toml:8: 3000000000 rows, but id is an int, which ends at 2147483647",
    ),
    ("WHERE id = $1", "WHERE id = $2", "mine.toml:19: read has 2 parameters, but 1 are given"),
    (
        "primary-key = [\"id\"]",
        "primary-key = [\"id\"]\nindexes = [{ name = \"a\", columns = [\"v\"] }, { name = \"a\", columns = [\"id\"] }]",
        "mine.toml:12: there are two indexes a",
    ),
];

const MINE: &str = r#"[options]
size = 10
strange-name = true
[[tables]]
name = "t"
rows = "size"
columns = [
  { name = "id", type = "int", load = "number" },
  { name = "v", type = "varchar(10)", load = "string v" },
]
primary-key = ["id"]

[statements.read]
sql = "SELECT v FROM {table} WHERE id = $1"

[[transactions]]
weight = 1
steps = [
  { draw = { id = "row" }, run = ["read(id)"] },
]
[strings]
v = "@@##"
"#;

#[test]
fn mistakes_are_told_with_their_line() {
    let parse = |text: &str| OltpSpec::parse("mine", "mine.toml", text.as_bytes(), &Properties::new());
    parse(MINE).unwrap_or_else(|error| panic!("{error}"));
    for (good, bad, complaint) in MISTAKES {
        assert!(MINE.contains(good), "{good}");
        let error = parse(&MINE.replacen(good, bad, 1)).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(complaint), "{bad}:\n got  {error}\n want {complaint}");
    }
}

#[test]
fn a_parameter_that_the_sql_does_not_use_is_a_mistake() {
    let text = MINE.replace("WHERE id = $1", "WHERE id = $2").replace("read(id)", "read(id, id)");
    let error =
        OltpSpec::parse("mine", "mine.toml", text.as_bytes(), &Properties::new()).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "mine.toml:19: read has 2 parameters, but its sql does not use $1");
}

#[test]
fn options_are_checked_and_misspelt_ones_doubted() {
    for (name, value, complaint) in [
        ("rand-type", "zipf", "rand-type=zipf (-p): expected uniform, gaussian, special, pareto or zipfian"),
        ("table_size", "many", "table-size=many (-p): expected a whole number"),
        ("auto-inc", "maybe", "auto-inc=maybe (-p): expected on or off"),
        ("rand-pareto-h", "1", "rand-pareto-h=1 (-p): expected a number between 0 and 1"),
        ("tables", "0", "0 tables: there must be from 1 to 100,000"),
        ("point-selects", "-1", "point-selects is -1, and a count cannot be negative"),
        ("events", "x", "x (-p) is not a number of transactions"),
    ] {
        let mut pairs = vec![(name, value)];
        if name == "rand-pareto-h" {
            pairs.push(("rand-type", "pareto"));
        }
        let error = builtin("oltp_read_only", &pairs).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
    let spec =
        builtin("oltp_read_only", &[("table_sizes", "5"), ("pg.host", "h"), ("threadcount", "4")]).unwrap();
    assert_eq!(spec.warnings, ["unknown option table-sizes (-p) has no effect; did you mean table-size?"]);
}

#[test]
fn the_table_of_options_and_the_built_in_workloads_agree() {
    let specs: Vec<OltpSpec> = TRANSACTIONAL.iter().map(|(name, _)| builtin(name, &[]).unwrap()).collect();
    for spec in &specs {
        for (name, _) in spec.options.effective() {
            assert!(KNOWN.iter().any(|known| known.name == name), "{name} of {} has no row", spec.name);
        }
    }
    for known in KNOWN {
        let used = specs.iter().filter(|spec| spec.options.has(known.name)).count();
        let expected = if known.everywhere.is_some() { specs.len() } else { 1 };
        assert!(used >= expected, "{} is an option of {used} workloads", known.name);
    }
}

#[test]
fn a_flag_beats_a_property_and_a_property_a_file_however_they_are_spelt() {
    let text = TRANSACTIONAL.iter().find(|row| row.0 == "oltp_read_only").unwrap().1;
    let size = |settings: &Properties| {
        let spec = OltpSpec::parse("oltp_read_only", "file", text.as_bytes(), settings).unwrap();
        let found = spec.options.effective().find(|(name, _)| *name == "table-size").unwrap().1;
        (found.value, found.source.to_string())
    };
    let mut settings = Properties::new();
    settings.add_file("mine", b"table_size=1").unwrap();
    assert_eq!(size(&settings), ("1".to_owned(), "mine:1".to_owned()));
    settings.add_argument("table-size=2").unwrap();
    assert_eq!(size(&settings), ("2".to_owned(), "-p".to_owned()));
    settings.add_argument("table_size=3").unwrap();
    settings.set_flag("table-size", "4", "table-size");
    assert_eq!(size(&settings), ("4".to_owned(), "--table-size".to_owned()));
}

#[test]
fn a_storage_engine_is_a_name_and_innodb_is_not_worth_a_word() {
    let engine = |name: &str| -> Result<Option<String>, String> {
        let spec = builtin("oltp_insert", &[("mysql-storage-engine", name)]).map_err(|it| it.to_string())?;
        Ok(spec.schema.tables[0].engine.clone())
    };
    assert_eq!(engine("InnoDB"), Ok(None));
    assert_eq!(engine("Aria"), Ok(Some("Aria".to_owned())));
    let error = engine("a; DROP TABLE b").unwrap_err();
    assert!(error.contains("mysql-storage-engine=a; DROP TABLE b (-p): expected the name"), "{error}");
}
