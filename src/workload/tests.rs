//! Settings in, specification or complaint out.

use super::*;

type Interpreted = Result<(WorkloadSpec, Vec<Warning>), SpecError>;

/// Interprets `name=value` lines as a file for the given phases.
fn interpret(text: &str, load: bool, run: bool) -> Interpreted {
    let mut properties = Properties::new();
    properties.add_file("w", text.as_bytes()).unwrap();
    WorkloadSpec::from_properties("w", &properties, load, run)
}

/// A load and a run with enough counts to be one.
fn run(text: &str) -> Interpreted {
    interpret(&format!("recordcount=1000\noperationcount=100\n{text}"), true, true)
}

#[test]
fn defaults_are_ycsbs() {
    let (spec, warnings) = run("").unwrap();
    assert_eq!(warnings, []);
    assert_eq!((spec.insert_start, spec.insert_count, spec.first_insert), (0, 1000, 1000));
    assert_eq!((spec.table.as_str(), spec.field_length), ("usertable", 100));
    assert_eq!(spec.field_names()[..2], ["field0", "field1"]);
    assert_eq!(spec.field_names().len(), 10);
    assert!(spec.read_all_fields && !spec.write_all_fields);
    assert_eq!(spec.request_distribution(), "uniform");
    assert_eq!(spec.op_chooser().shares(), [(OpKind::Read, 0.95), (OpKind::Update, 0.05)]);
    assert_eq!(spec.scan_lengths().longest(), 1000);
    assert_eq!(spec.key_format().to_string(1), "user8517097267634966620");
    assert_eq!(spec.insert_fraction(), 0.0);
}

#[test]
fn counts_beyond_32_bits_are_ordinary() {
    let text = "recordcount=5000000000\noperationcount=100000\ninsertorder=ordered\nzeropadding=12\n";
    let (spec, _) = interpret(text, false, true).unwrap();
    assert_eq!((spec.record_count, spec.insert_count), (5_000_000_000, 5_000_000_000));
    assert_eq!(spec.key_format().to_string(4_999_999_999), "user004999999999");
}

#[test]
fn blanks_around_numbers_and_booleans_do_not_matter() {
    let (spec, _) =
        interpret("recordcount=1000   \noperationcount=5\t\nreadallfields=No  \n", true, true).unwrap();
    assert_eq!((spec.record_count, spec.operation_count, spec.read_all_fields), (1000, 5, false));
    for (text, value) in
        [("TRUE", true), ("yes", true), ("1", true), ("on", true), ("Off", false), ("0", false)]
    {
        assert_eq!(run(&format!("writeallfields={text}")).unwrap().0.write_all_fields, value, "{text}");
    }
}

#[test]
fn a_misspelled_name_is_answered_with_the_right_one() {
    let (_, warnings) = run("operations=10000\nesc=x\ndeleteproportion=1\npg.hots=h\n").unwrap();
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown[0].starts_with("unknown property deleteproportion (w:5)"), "{}", shown[0]);
    assert_eq!(shown[1], "unknown property esc (w:4) has no effect");
    assert_eq!(shown[2], "unknown property operations (w:3) has no effect; did you mean operationcount?");
}

#[test]
fn proportions_left_at_their_defaults_are_pointed_out() {
    let (spec, warnings) = run("insertproportion=1").unwrap();
    assert_eq!(spec.insert_fraction(), 0.5);
    let expected = "the mix is READ 47.5000 %, UPDATE 2.5000 %, INSERT 50.0000 %; left at their defaults: \
                    readproportion = 0.95 and updateproportion = 0.05; set them to 0 if that is not \
                    meant";
    assert_eq!(warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    assert_eq!(run("readproportion=0.95\ninsertproportion=0").unwrap().1, []);
}

/// Settings (after `recordcount=1000`, `operationcount=100`) and what the complaint must say.
const MISTAKES: &[(&str, &str)] = &[
    ("readproportion=abc", "readproportion=abc (w:3): expected a number ≥ 0, such as 0.5"),
    ("readproportion=-1", "readproportion=-1 (w:3): expected a number ≥ 0"),
    ("readproportion=NaN", "readproportion=NaN (w:3): expected a number ≥ 0"),
    ("recordcount=1e6", "recordcount=1e6 (w:3): expected a whole number ≥ 0, such as 1000"),
    ("recordcount=-5", "recordcount=-5 (w:3): expected a whole number"),
    ("recordcount=0", "recordcount=0 (w:3): expected the number of rows in the table, at least 1"),
    (
        "recordcount=9223372036854775800",
        "recordcount=9223372036854775800 (w:3), operationcount=100 (w:2): record numbers would",
    ),
    (
        "recordcount=100\ninsertstart=200\ninsertcount=50",
        "recordcount=100 (w:3), insertstart=200 (w:4), insertcount=50 (w:5): insertstart + insertcount = 250 is beyond \
         recordcount = 100",
    ),
    ("insertstart=1001", "recordcount=1000 (w:1), insertstart=1001 (w:3): insertstart = 1001 is beyond"),
    (
        "insertstart=18446744073709551615\ninsertcount=2",
        "recordcount=1000 (w:1), insertstart=18446744073709551615",
    ),
    (
        "insertcount=0",
        "recordcount=1000 (w:1), insertstart=0 (default), insertcount=0 (w:3): no row is left to choose",
    ),
    (
        "readproportion=0\nupdateproportion=0",
        "readproportion=0 (w:3), updateproportion=0 (w:4), insertproportion=0 (default)",
    ),
    (
        "readproportion=1e308\nupdateproportion=1e308",
        "readproportion=1e308 (w:3), updateproportion=1e308 (w:4)",
    ),
    (
        "requestdistribution=zipf",
        "requestdistribution=zipf (w:3): expected uniform, zipfian, latest, hotspot, exponential or sequential",
    ),
    ("scanlengthdistribution=latest", "scanlengthdistribution=latest (w:3): expected uniform or zipfian"),
    (
        "fieldlengthdistribution=x",
        "fieldlengthdistribution=x (w:3): expected constant, uniform, zipfian or histogram",
    ),
    (
        "fieldlengthdistribution=histogram\nfieldlengthhistogram=no/such",
        "fieldlengthhistogram=no/such (w:4): expected a histogram file (cannot read it",
    ),
    ("hotspotdatafraction=1.5", "hotspotdatafraction=1.5 (w:3): expected a fraction from 0 to 1"),
    (
        "requestdistribution=hotspot\nhotspotdatafraction=0.0001",
        "hotspotdatafraction=0.0001 (w:4), hotspotopnfraction=0.8 (default): no row of 1000 is hot",
    ),
    (
        "requestdistribution=hotspot\nhotspotdatafraction=1",
        "hotspotdatafraction=1 (w:4), hotspotopnfraction=0.8 (default): all 1000 rows are hot",
    ),
    (
        "requestdistribution=exponential\nexponential.percentile=100",
        "exponential.percentile=100 (w:4): expected more than 0",
    ),
    ("requestdistribution=exponential\nexponential.frac=0", "exponential.frac=0 (w:4): expected more than 0"),
    (
        "requestdistribution=exponential\nexponential.percentile=0.001",
        "exponential.percentile=0.001 (w:4), exponential.frac=0.8571428571 (default): 99 of 100 draws",
    ),
    (
        "zipfian.constant=1.2",
        "zipfian.constant=1.2 (w:3): expected 0.99, which YCSB's generator is made for; add zipf=exact",
    ),
    ("zipf=exact\nzipfian.constant=-1", "zipfian.constant=-1 (w:4): expected a number ≥ 0"),
    (
        "minscanlength=10\nmaxscanlength=5",
        "minscanlength=10 (w:3), maxscanlength=5 (w:4): the shortest is longer",
    ),
    (
        "fieldlengthdistribution=uniform\nfieldlength=5\nminfieldlength=6",
        "minfieldlength=6 (w:5), fieldlength=5 (w:4): the shortest is longer",
    ),
    ("fieldcount=0", "fieldcount=0 (w:3): expected at least 1 field"),
    ("zeropadding=101", "zeropadding=101 (w:3): expected at most 100"),
    ("keys=java", "keys=java (w:3): expected ycsb or go-ycsb"),
    ("readallfields=maybe", "readallfields=maybe (w:3): expected true or false"),
    ("table=", "table= (w:3): expected a table name"),
    (
        "workload=site.ycsb.workloads.TimeSeriesWorkload",
        "workload=site.ycsb.workloads.TimeSeriesWorkload (w:3): expected the core",
    ),
];

#[test]
fn every_mistake_is_named_with_its_value_and_place() {
    for (text, complaint) in MISTAKES {
        let error = run(text).map(|_| ()).expect_err(text).to_string();
        assert!(error.starts_with(complaint), "{text}\n  says: {error}\nwanted: {complaint}");
    }
}

#[test]
fn what_a_phase_does_not_need_may_be_missing() {
    let error = |result: Interpreted| result.map(|_| ()).unwrap_err().to_string();
    assert!(error(interpret("recordcount=10", true, true)).starts_with("operationcount is not set"));
    assert!(error(interpret("operationcount=10", false, true)).starts_with("recordcount is not set"));
    assert!(error(interpret("", true, false)).starts_with("recordcount is not set"));
    assert_eq!(interpret("recordcount=10", true, false).unwrap().0.operation_count, 0);
    let part = interpret("insertstart=5\ninsertcount=3", true, false).unwrap().0;
    assert_eq!((part.insert_start, part.insert_count), (5, 3));
    // A run that only inserts needs no row to begin with, and a trace may have no operation.
    let only = "readproportion=0\nupdateproportion=0\ninsertproportion=1\noperationcount=7";
    for row in dist::DISTRIBUTIONS {
        for zipf in ["ycsb", "exact"] {
            let name = row.name;
            let text = format!("{only}\nrequestdistribution={name}\nzipf={zipf}");
            let spec = interpret(&text, false, true).unwrap().0;
            assert_eq!(spec.first_insert, 0);
            // Never drawn from, but whoever makes the trace may make one for every chunk.
            spec.key_chooser().seek(spec.first_insert.wrapping_sub(1));
            spec.key_chooser().seek(5);
        }
    }
    assert_eq!(interpret("recordcount=1\noperationcount=0", true, true).unwrap().0.operation_count, 0);
    // Proportions of a run are of no interest to a load.
    assert!(interpret("recordcount=1\nreadproportion=0\nupdateproportion=0", true, false).is_ok());
}

#[test]
fn values_of_no_length_are_legal() {
    assert_eq!(run("fieldlength=0").unwrap().0.field_lengths().longest(), 0);
    let spec = run("fieldlength=3\nfieldlengthdistribution=uniform\nminfieldlength=0").unwrap().0;
    let lengths: Vec<u32> =
        (0..100).map(|key| spec.field_lengths().next(&mut crate::rng::Stream::from_key(key))).collect();
    assert!((0..=3).all(|length| lengths.contains(&length)) && lengths.iter().all(|&length| length <= 3));
}

#[test]
fn keys_follow_the_tool_and_the_order() {
    let key = |text: &str| run(text).unwrap().0.key_format().to_string(754);
    assert_eq!(key("keys=ycsb"), "user4770627500614915475");
    assert_eq!(key("keys=go-ycsb"), "user6282602628620641459");
    assert_eq!(key("insertorder=ordered\nkeyprefix=k\nzeropadding=5"), "k00754");
    let (spec, warnings) = run("insertorder=random").unwrap();
    assert_eq!(spec.key_format().order, KeyOrder::Ordered);
    assert!(matches!(warnings[..], [Warning::ReadAsOrdered { .. }]));
}

#[test]
fn every_effective_value_has_a_source() {
    let mut properties = Properties::new();
    properties.add_file("a", b"recordcount=1000 \noperationcount=7\nthreadcount=2\n").unwrap();
    properties.add_argument("operationcount=5").unwrap();
    let (spec, _) = WorkloadSpec::from_properties("a", &properties, true, true).unwrap();
    let shown = |name: &str| {
        let (_, setting) = spec.effective().iter().find(|entry| entry.0 == name).unwrap();
        format!("{} {}", setting.value, setting.source)
    };
    assert_eq!(shown("recordcount"), "1000 a:1");
    assert_eq!(shown("operationcount"), "5 -p");
    assert_eq!(shown("insertcount"), "1000 default");
    assert_eq!(shown("zipfian.constant"), "0.99 default");
    let workload_rows = PROPERTIES.iter().filter(|row| row.group == Group::Workload);
    assert!(workload_rows.map(|row| row.name).eq(spec.effective().iter().map(|entry| entry.0)));
}
