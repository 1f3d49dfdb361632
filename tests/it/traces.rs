//! What is in a trace: large numbers, keys, skew, dependencies, and the same bytes every time.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use ycsb_trace::cli::inspect::realised_skew;
use ycsb_trace::op::OpKind;

use crate::support::program::{Folder, Generated, Running};

#[test]
fn record_numbers_beyond_32_bits_are_drawn_evenly_in_little_time_and_memory() {
    let folder = Folder::new();
    folder.write(
        "five_billion",
        "recordcount=5000000000\noperationcount=100000\nrequestdistribution=uniform\ninsertorder=ordered\n\
         zeropadding=12\nreadproportion=1\nupdateproportion=0\n",
    );
    let mut running = folder.start("gen five_billion --phase run -o .");
    let mut peak_kib = 0;
    while !running.has_ended() {
        peak_kib = peak_kib.max(memory_kib(&running));
        std::thread::sleep(Duration::from_millis(2));
    }
    let ran = running.wait().expect_code(0);
    assert!(ran.took < Duration::from_secs(10), "{:?}", ran.took);
    assert!(peak_kib > 0 && peak_kib < 512 * 1024, "{peak_kib} KiB");

    let trace = Generated::read(&folder.path("five_billion.run.parquet"));
    assert_eq!(trace.rows.len(), 100_000);
    let number = |key: &str| -> u64 {
        let digits = key.strip_prefix("user").filter(|digits| digits.len() == 12);
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        digits.unwrap_or_else(|| panic!("{key:?} is not user and 12 digits")).parse().expect("12 digits")
    };
    let numbers: Vec<u64> = trace.rows.iter().map(|row| number(&row.key)).collect();
    assert!(numbers.iter().all(|&number| number < 5_000_000_000));
    let high = numbers.iter().filter(|&&number| number >= 1 << 31).count() as f64 / 1e3;
    assert!((high - 57.05).abs() < 0.6, "{high} %");
    // 100,000 of 5·10⁹: about one pair is expected to collide, and no run of numbers may come back.
    let distinct = numbers.iter().collect::<HashSet<_>>().len();
    assert!(distinct > 99_980, "{distinct} distinct numbers");
    let pairs = numbers.windows(2).map(|pair| (pair[0], pair[1])).collect::<HashSet<_>>().len();
    assert_eq!(pairs, numbers.len() - 1);
}

/// The most memory it has had so far; 0 if it has just ended.
fn memory_kib(running: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

#[test]
fn keys_are_those_that_ycsb_writes() {
    let folder = Folder::new();
    folder.ok("gen workloada -p recordcount=5 --phase load");
    let trace = Generated::read(&folder.path("traces/workloada.load.parquet"));
    let keys: Vec<&str> = trace.rows.iter().map(|row| row.key.as_str()).collect();
    let expected = [
        "user6284781860667377211",
        "user8517097267634966620",
        "user1820151046732198393",
        "user4052466453699787802",
        "user3232700585171816769",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn the_skew_is_ycsbs_or_zipfs_own_as_asked_for() {
    let folder = Folder::new();
    for (options, [hottest, top_10, top_100], [off_1, off_10, off_100]) in
        [("", [3.86, 12.6, 29.0], [0.1, 0.3, 0.5]), (" --zipf exact", [12.94, 38.2, 68.5], [0.15, 0.3, 0.3])]
    {
        folder.ok(&format!(
            "gen workloadc --phase run --records 1000 --ops 1000000 -p requestdistribution=zipfian --force{options}"
        ));
        let path = folder.path("traces/workloadc.run.parquet");
        let skew = realised_skew(&path).expect("a valid trace").expect("reads choose");
        for (n, expected, off) in [(1, hottest, off_1), (10, top_10, off_10), (100, top_100, off_100)] {
            let share = skew.top(n);
            assert!((share - expected).abs() <= off, "{options} top {n}: {share} %, not {expected} %");
        }
    }
    let shown = folder.ok("inspect traces/workloadc.run.parquet").out;
    assert!(shown.contains("over 1,000,000 choices of 1,000 keys: hottest 12."), "{shown}");
}

#[test]
fn any_exponent_is_accepted_and_ten_billion_rows_need_no_preparation() {
    let folder = Folder::new();
    let base = "gen workloadc --phase run --ops 10 -p requestdistribution=zipfian --force";
    for theta in ["0", "0.5", "0.99", "1.0", "1.2", "3"] {
        folder.ok(&format!("{base} --records 1000 --zipf exact --theta {theta}"));
    }
    for options in ["", " --zipf exact", " --zipf exact --theta 1", " --zipf exact --theta 1.2"] {
        let ran = folder.ok(&format!("{base} --records 10000000000{options}"));
        assert!(ran.took < Duration::from_secs(1), "{options}: {:?}", ran.took);
    }
}

/// Ids, keys, bytes, arrivals and dependencies are a function of the workload and the seed alone.
#[test]
fn a_trace_is_the_same_whatever_makes_it_in_whatever_parts() {
    let folder = Folder::new();
    for workload in ["workloada", "workloadd", "workloade", "workloadf"] {
        // Rows so large that there are several chunks, so that jobs have something to share.
        let base = format!("gen {workload} --records 200 --ops 8000 -p fieldlength=2000");
        let read = |path: &str| Generated::read(&folder.path(path));
        folder.ok(&format!("{base} --seed 1 --jobs 1 -o one"));
        let files = ["load", "run"].map(|phase| format!("{workload}.{phase}.parquet"));
        let whole = files.each_ref().map(|file| read(&format!("one/{file}")));
        for (folder_name, jobs) in [("again", 1), ("eight", 8)] {
            folder.ok(&format!("{base} --seed 1 --jobs {jobs} -o {folder_name}"));
            for (file, whole) in files.iter().zip(&whole) {
                let other = read(&format!("{folder_name}/{file}"));
                assert_eq!(other.meta.content_hash, whole.meta.content_hash, "{file} {folder_name}");
                assert!(other.rows == whole.rows, "{file} {folder_name}");
            }
        }

        for shard in 0..3 {
            folder.ok(&format!("{base} --seed 1 --shard {shard}/3 -o shards"));
        }
        for (phase, whole) in ["load", "run"].into_iter().zip(&whole) {
            let shards =
                [0, 1, 2].map(|shard| read(&format!("shards/{workload}.{phase}.{shard}-of-3.parquet")));
            let hash = |text: &str| u128::from_str_radix(text, 16).expect("hexadecimal");
            let sum = shards.iter().fold(0, |sum: u128, one| sum.wrapping_add(hash(&one.meta.content_hash)));
            assert_eq!(sum, hash(&whole.meta.content_hash), "{workload} {phase}");
            let mut rows = Vec::new();
            for shard in shards {
                assert!(!shard.rows.is_empty());
                assert_eq!(shard.meta.first_op_id, rows.len() as u64);
                rows.extend(shard.rows);
            }
            assert!(rows == whole.rows, "{workload} {phase}");
            assert!(rows.iter().zip(0..).all(|(row, id)| row.id == id));
        }

        folder.ok(&format!("{base} --seed 1 --values seeded -o seeded"));
        for (file, whole) in files.iter().zip(&whole) {
            let seeded = read(&format!("seeded/{file}"));
            assert_eq!((seeded.meta.values.as_str(), whole.meta.values.as_str()), ("seeded", "inline"));
            assert!(seeded.rows == whole.rows, "{file}: other bytes than inline");
        }

        folder.ok(&format!("{base} --seed 2 -o two"));
        let [_, run] = &whole;
        let two = read(&format!("two/{}", files[1]));
        let differing = run.rows.iter().zip(&two.rows).filter(|(one, two)| one.key != two.key).count();
        assert!(differing * 10 > run.rows.len() * 9, "{workload}: {differing} keys differ");
    }
}

#[test]
fn every_read_of_the_latest_rows_names_the_insert_it_needs() {
    let folder = Folder::new();
    folder.ok("gen workloadd --records 1000 --ops 50000");
    let load = Generated::read(&folder.path("traces/workloadd.load.parquet"));
    let run = Generated::read(&folder.path("traces/workloadd.run.parquet"));
    assert_eq!(run.meta.load_hash.as_ref(), Some(&load.meta.content_hash));
    let loaded: HashSet<&str> = load.rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(loaded.len(), 1000);
    let mut inserted: HashMap<&str, u64> = HashMap::new();
    let mut dependent = 0;
    for row in &run.rows {
        if row.kind == OpKind::Insert {
            assert_eq!(row.after, None);
            assert!(!loaded.contains(row.key.as_str()), "{} is loaded and inserted", row.key);
            assert_eq!(inserted.insert(&row.key, row.id), None, "{} is inserted twice", row.key);
            continue;
        }
        assert_eq!(row.kind, OpKind::Read);
        if loaded.contains(row.key.as_str()) {
            assert_eq!(row.after, None, "operation {}", row.id);
        } else {
            assert!(row.after.is_some(), "operation {} reads a row that is not there", row.id);
            assert_eq!(row.after, inserted.get(row.key.as_str()).copied(), "operation {}", row.id);
            dependent += 1;
        }
    }
    assert!((2330..=2670).contains(&inserted.len()), "{} inserts", inserted.len());
    assert!(dependent > 10_000);
    assert_eq!(run.meta.dependent_ops, dependent);
}
