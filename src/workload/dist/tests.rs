//! Draws of whole workloads against the exact probabilities of YCSB's algorithms, and the promises
//! every distribution makes.

use super::*;
use crate::record::Tool;
use crate::rng::Purpose;
use crate::workload::{Properties, WorkloadSpec};

const DRAWS: u64 = 1_000_000;

fn spec(settings: &str) -> WorkloadSpec {
    let mut properties = Properties::new();
    for setting in settings.split_whitespace() {
        properties.add_argument(setting).unwrap();
    }
    WorkloadSpec::from_properties("test", &properties, true, true).unwrap().0
}

/// A column of the table of exact probabilities for 1,000 rows; empty cells are left out.
fn probabilities(column: &str) -> Vec<f64> {
    let mut lines = include_str!("../../../tests/golden/vectors/expected_pmf_1000.csv").lines().skip(1);
    let at = lines.next().unwrap().split(',').position(|name| name == column).unwrap();
    let cells = lines.map(|line| line.split(',').nth(at).unwrap());
    cells.filter(|cell| !cell.is_empty()).map(|cell| cell.parse().unwrap()).collect()
}

/// Items that should be drawn with these probabilities.
fn assert_drawn_as(column: &str, mut draw: impl FnMut(u64) -> u64) {
    let expected = probabilities(column);
    let mut counts = vec![0u64; expected.len()];
    for index in 0..DRAWS {
        counts[draw(index) as usize] += 1;
    }
    let (mut chi_square, mut cells) = (0.0, 0);
    for (item, (&count, probability)) in counts.iter().zip(&expected).enumerate() {
        let wanted = probability * DRAWS as f64;
        if wanted == 0.0 {
            assert_eq!(count, 0, "{column}: item {item} cannot be drawn");
            continue;
        }
        chi_square += (count as f64 - wanted).powi(2) / wanted;
        cells += 1;
    }
    let freedom = f64::from(cells - 1);
    // Four standard deviations: the draws are pinned, so a right generator never fails by chance.
    assert!(
        (chi_square - freedom).abs() < 4.0 * (2.0 * freedom).sqrt(),
        "{column}: {chi_square} of {freedom}"
    );
}

fn assert_keys_drawn_as(column: &str, settings: &str) {
    let mut chooser = spec(&format!("recordcount=1000 operationcount=1000 {settings}")).key_chooser();
    chooser.seek(999);
    assert_drawn_as(column, |index| {
        chooser.next(&mut Stream::at(1, Purpose::Key, index), Horizon { choices: index, last: 999 })
    });
}

#[test]
fn keys_are_as_popular_as_in_ycsb() {
    assert_keys_drawn_as("core_zipfian_1000", "requestdistribution=zipfian");
    assert_keys_drawn_as("core_latest_1000", "requestdistribution=latest");
    assert_keys_drawn_as("core_hotspot_1000", "requestdistribution=hotspot");
    assert_keys_drawn_as("core_exponential_1000", "requestdistribution=exponential");
    assert_keys_drawn_as("core_uniform_1000", "requestdistribution=uniform");
}

#[test]
fn room_for_new_rows_moves_the_hot_keys_as_in_ycsb() {
    let settings = "requestdistribution=zipfian readproportion=0.95 updateproportion=0 insertproportion=0.05";
    assert_keys_drawn_as("core_zipfian_1000_insert5pct", settings);
}

#[test]
fn the_generators_under_the_choosers_are_as_skewed_as_in_ycsb() {
    let unit = |index| Stream::at(2, Purpose::Key, index).unit();
    let plain = Zipfian::new(1000, 0.99);
    assert_drawn_as("zipfian_1000", |index| plain.draw(unit(index), 1000));
    let ranks = Zipfian::scrambled_ranks();
    assert_drawn_as("scrambled_zipfian_1000", |index| scrambled(&ranks, unit(index), 0, 999, Tool::Ycsb));
    // go-ycsb without the redraw we add: record 1000 does not exist.
    assert_drawn_as("go_core_zipfian_1000", |index| scrambled(&ranks, unit(index), 0, 1000, Tool::GoYcsb));
}

#[test]
fn short_scans_are_as_frequent_as_in_ycsb() {
    let lengths = spec("recordcount=1 operationcount=1 maxscanlength=100 scanlengthdistribution=zipfian")
        .scan_lengths();
    assert_drawn_as("scanlength_zipfian_100", |index| {
        u64::from(lengths.next(&mut Stream::at(1, Purpose::ScanLength, index)))
    });
}

/// Shares of the 1, 10 and 100 hottest of 1,000 records.
fn hottest(settings: &str) -> [f64; 3] {
    let settings =
        format!("recordcount=1000 operationcount={DRAWS} readproportion=1 updateproportion=0 {settings}");
    let mut chooser = spec(&format!("requestdistribution=zipfian {settings}")).key_chooser();
    let mut counts = vec![0u64; 1000];
    for index in 0..DRAWS {
        let horizon = Horizon { choices: index, last: 999 };
        counts[chooser.next(&mut Stream::at(1, Purpose::Key, index), horizon) as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    [1, 10, 100].map(|most| counts[..most].iter().sum::<u64>() as f64 / DRAWS as f64 * 100.0)
}

#[test]
fn skew_is_ycsbs_or_zipfs() {
    for (settings, percent, tolerance) in [
        ("zipf=ycsb", [3.86, 12.6, 29.0], [0.1, 0.3, 0.5]),
        ("zipf=exact", [12.94, 38.2, 68.5], [0.15, 0.3, 0.3]),
        // The law itself: H(1), H(10) and H(100) over H(1000), of the generalised harmonic numbers.
        ("zipf=exact zipfian.constant=1.0", [13.36, 39.13, 69.30], [0.15, 0.3, 0.3]),
        ("zipf=exact zipfian.constant=1.2", [23.06, 56.92, 83.10], [0.15, 0.3, 0.3]),
    ] {
        let got = hottest(settings);
        for (index, share) in got.into_iter().enumerate() {
            assert!((share - percent[index]).abs() < tolerance[index], "{settings}: {got:?} for {percent:?}");
        }
    }
}

#[test]
fn exponent_zero_is_uniform() {
    assert_keys_drawn_as("core_uniform_1000", "requestdistribution=zipfian zipf=exact zipfian.constant=0");
}

#[test]
fn every_distribution_starts_at_once_on_ten_billion_rows() {
    for row in DISTRIBUTIONS {
        for zipf in ["ycsb", "exact"] {
            let name = row.name;
            let settings =
                format!("recordcount=10000000000 operationcount=1000 requestdistribution={name} zipf={zipf}");
            let mut chooser = spec(&settings).key_chooser();
            let last = 9_999_999_999;
            chooser.seek(last);
            let highest = (0..1000)
                .map(|index| chooser.next(&mut Stream::from_key(index), Horizon { choices: index, last }))
                .max()
                .unwrap();
            assert!(highest <= last, "{name}: {highest}");
            assert!(
                highest > u64::from(u32::MAX) || matches!(name, "sequential" | "hotspot"),
                "{name}: {highest}"
            );
        }
    }
}

#[test]
fn only_records_that_exist_are_drawn() {
    let mixes = "readproportion=0.5 updateproportion=0 insertproportion=0.5";
    for row in DISTRIBUTIONS {
        for modes in ["", "keys=go-ycsb", "zipf=exact", "zipf=exact zipfian.constant=0"] {
            for range in ["", "insertstart=300 insertcount=500", "insertstart=995", "insertcount=5"] {
                let name = row.name;
                let settings = format!(
                    "recordcount=1000 operationcount=500 {mixes} requestdistribution={name} {modes} {range}"
                );
                let spec = spec(&settings);
                let mut chooser = spec.key_chooser();
                chooser.seek(spec.first_insert - 1);
                let loaded = spec.insert_start..spec.insert_start + spec.insert_count;
                for index in 0..2000 {
                    let last = spec.first_insert - 1 + index / 8;
                    let horizon = Horizon { choices: index, last };
                    let keynum = chooser.next(&mut Stream::at(1, Purpose::Key, index), horizon);
                    assert!(
                        loaded.contains(&keynum) || (spec.first_insert..=last).contains(&keynum),
                        "{settings}: {keynum} does not exist when {last} is the last"
                    );
                }
            }
        }
    }
}

#[test]
fn rows_inserted_by_the_run_are_read_where_ycsb_reads_them() {
    for (name, reads_new) in [
        ("uniform", false),
        ("zipfian", true),
        ("latest", true),
        ("hotspot", false),
        ("exponential", true),
        ("sequential", false),
    ] {
        let settings =
            format!("recordcount=100 operationcount=1000 insertproportion=0.1 requestdistribution={name}");
        let mut chooser = spec(&settings).key_chooser();
        let fresh = (0..2000)
            .filter(|&index| {
                chooser.next(&mut Stream::from_key(index), Horizon { choices: index, last: 199 }) >= 100
            })
            .count();
        assert_eq!(fresh > 0, reads_new, "{name}: {fresh} of 2,000");
    }
}

/// These record numbers are what "same seed" means. If this test fails, every trace changes.
#[test]
fn draws_are_pinned() {
    let shown: Vec<String> = DISTRIBUTIONS
        .iter()
        .flat_map(|row| ["ycsb", "exact"].map(|zipf| (row.name, zipf)))
        .map(|(name, zipf)| {
            let settings = format!("recordcount=100000 operationcount=1000 insertproportion=0.1 requestdistribution={name} zipf={zipf}");
            let mut chooser = spec(&settings).key_chooser();
            chooser.seek(100_049);
            let drawn: Vec<String> = (0..6)
                .map(|index| {
                    let horizon = Horizon { choices: index, last: 100_049 + index };
                    chooser.next(&mut Stream::at(1, Purpose::Key, index), horizon).to_string()
                })
                .collect();
            format!("{name} {zipf}: {}", drawn.join(" "))
        })
        .collect();
    let expected = include_str!("pinned.txt").trim_end();
    assert_eq!(shown.join("\n"), expected);
}

#[test]
#[ignore = "prints a measurement: cargo test draws_per_second -- --ignored --nocapture"]
fn draws_per_second() {
    for row in DISTRIBUTIONS {
        for zipf in ["ycsb", "exact"] {
            let settings = format!(
                "recordcount=1000000 operationcount=1000 requestdistribution={} zipf={zipf}",
                row.name
            );
            let mut chooser = spec(&settings).key_chooser();
            let start = std::time::Instant::now();
            let draws = 2_000_000;
            let mut sum = 0u64;
            for index in 0..draws {
                let horizon = Horizon { choices: index, last: 999_999 };
                sum = sum.wrapping_add(chooser.next(&mut Stream::at(1, Purpose::Key, index), horizon));
            }
            let ns = start.elapsed().as_nanos() as f64 / draws as f64;
            println!("{} {zipf}: {ns:.1} ns a draw (checksum {sum})", row.name);
        }
    }
}
