//! Settings: what a property file means, which of several settings wins, and what is refused.

use std::time::Duration;

use crate::support::program::{Folder, Ran};

/// Each way of writing a setting, with the surprising ones. Lines end in CRLF.
const GRAMMAR: &str = "# comment
! also comment
recordcount=1000   
  operationcount : 20
fieldlength 7
table=user\\
    table
db.url=jdbc:postgresql://h:5432/x?a=b&c=d#frag
esc=caf\\u00e9
empty=
readproportion=0.5
readproportion=0.9
win=C:\\temp\\new
";

#[track_caller]
fn assert_shows(ran: &Ran, line: &str) {
    assert!(ran.out.lines().any(|shown| shown == line), "{line:?} is not a line of:\n{}", ran.out);
}

#[test]
fn a_property_file_is_read_as_java_reads_it_with_blanks_at_the_end_removed() {
    let folder = Folder::new();
    folder.write("g.properties", GRAMMAR.replace('\n', "\r\n"));
    let shown = folder.ok("gen -P g.properties --show-config");
    for line in [
        "recordcount=1000 (g.properties:3)",
        "operationcount=20 (g.properties:4)",
        "fieldlength=7 (g.properties:5)",
        "table=usertable (g.properties:6)",
        "db.url=jdbc:postgresql://h:5432/x?a=b&c=d#frag (g.properties:8)",
        "esc=café (g.properties:9)",
        "empty= (g.properties:10)",
        "readproportion=0.9 (g.properties:12)",
        "updateproportion=0.05 (default)",
        // A tab and a line feed, made visible.
        "win=C:␉emp␊ew (g.properties:13)",
    ] {
        assert_shows(&shown, line);
    }
    let warning = "warning: win (g.properties:13) was read as \"C:␉emp␊ew\"";
    assert!(shown.err.contains(warning), "{}", shown.err);
    assert!(folder.names("traces").is_empty());
}

#[test]
fn the_command_line_beats_every_file_wherever_it_stands_and_the_last_file_wins() {
    let folder = Folder::new();
    folder.write("a", "operationcount=7\nthreadcount=2\nrecordcount=10\n");
    folder.write("b", "operationcount=9\n");
    for arguments in [
        "gen -P a -P b -p operationcount=5 -p url=x=y --show-config",
        "gen -p operationcount=5 -p url=x=y -P a -P b --show-config",
    ] {
        let shown = folder.ok(arguments);
        for line in ["operationcount=5 (-p)", "url=x=y (-p)", "threadcount=2 (a:2)", "recordcount=10 (a:3)"] {
            assert_shows(&shown, line);
        }
    }
    let shown = folder.ok("gen -P a -P b --show-config");
    assert_shows(&shown, "operationcount=9 (b:1)");
}

#[test]
fn a_misspelled_setting_is_a_warning_with_the_right_name_and_an_error_if_strict() {
    let folder = Folder::new();
    folder.write("w", "recordcount=1000\noperationcount=10\n");
    let base = "gen w --phase run -p operations=10000";
    let lenient = folder.ok(base);
    assert!(lenient.err.contains("unknown property operations (-p)"), "{}", lenient.err);
    assert!(lenient.err.contains("did you mean operationcount?"), "{}", lenient.err);
    let strict = folder.run(&format!("{base} --strict -o strict")).expect_code(2);
    assert!(strict.err.contains("did you mean operationcount?"), "{}", strict.err);
    assert!(folder.names("strict").is_empty());
    // Also if the setting that was meant is missed.
    folder.write("v", "recordcount=1000\noperations=10000\n");
    let missed = folder.run("gen -P v --phase run -o missed").expect_code(2);
    assert!(missed.err.contains("operationcount is not set"), "{}", missed.err);
    assert!(missed.err.contains("did you mean operationcount?"), "{}", missed.err);
}

#[test]
fn an_impossible_setting_is_refused_at_once_by_name_and_value_and_nothing_is_written() {
    let all_zero = "readproportion=0 updateproportion=0 insertproportion=0 scanproportion=0 \
                    readmodifywriteproportion=0";
    let cases: &[(&str, &[&str])] = &[
        ("readproportion=abc", &["readproportion=abc"]),
        (
            "recordcount=100 insertstart=200 insertcount=50",
            &["recordcount=100", "insertstart=200", "insertcount=50"],
        ),
        ("recordcount=0", &["recordcount=0"]),
        (all_zero, &["readproportion=0", "readmodifywriteproportion=0"]),
        ("recordcount=-1", &["recordcount=-1"]),
        ("operationcount=1e5", &["operationcount=1e5"]),
        ("recordcount=99999999999999999999", &["recordcount=99999999999999999999"]),
        ("readproportion=-0.5", &["readproportion=-0.5"]),
        ("readproportion=NaN", &["readproportion=NaN"]),
        ("requestdistribution=pareto", &["requestdistribution=pareto", "zipfian"]),
        ("maxscanlength=0 minscanlength=5", &["minscanlength=5", "maxscanlength=0"]),
        ("readallfields=maybe", &["readallfields=maybe"]),
        ("fieldcount=0", &["fieldcount=0"]),
        (
            "fieldlengthdistribution=histogram fieldlengthhistogram=none.txt",
            &["fieldlengthhistogram=none.txt"],
        ),
        ("workload=com.example.Mine", &["workload=com.example.Mine"]),
        ("table=", &["table="]),
        ("zipfian.constant=1.2", &["zipfian.constant=1.2", "zipf=exact"]),
    ];
    for (settings, fragments) in cases {
        let folder = Folder::new();
        let mut arguments = "gen workloada -p recordcount=1000 -p operationcount=10000".to_owned();
        for setting in settings.split(' ').filter(|setting| !setting.is_empty()) {
            arguments += &format!(" -p {setting}");
        }
        let ran = folder.run(&arguments).expect_code(2);
        for fragment in *fragments {
            assert!(ran.err.contains(fragment), "{settings}: {fragment:?} is not in: {}", ran.err);
        }
        assert!(ran.err.starts_with("error: ") || ran.err.contains("\nerror: "), "{}", ran.err);
        assert!(ran.took < Duration::from_secs(2), "{settings}: {:?}", ran.took);
        assert!(folder.names(".").is_empty(), "{settings}: {:?}", folder.names("."));
    }
}

#[test]
fn an_option_without_its_value_is_refused_at_once() {
    let folder = Folder::new();
    for (arguments, fragments) in [
        ("replay --db sim --threads", ["--threads", "value"]),
        ("replay --db sim -threads", ["unexpected argument", "-t"]),
        ("replay --db sim --threads many", ["--threads", "many"]),
        ("gen workloada -p recordcount", ["-p recordcount", "name=value"]),
    ] {
        let ran = folder.run(arguments).expect_code(2);
        for fragment in fragments {
            assert!(ran.err.contains(fragment), "{arguments}: {}", ran.err);
        }
        assert!(ran.took < Duration::from_secs(2));
        assert!(folder.names(".").is_empty());
    }
}
