//! Progress as the two tools print it: YCSB on standard error with `-s`, go-ycsb on standard output.

use jiff::Timestamp;

use crate::analyze::render::go_ycsb::Line;
use crate::replay::recorder::{Latency, Snapshot};

/// YCSB's line; `todo` is the number of operations of the run.
pub fn ycsb(label: &str, now: Timestamp, snapshot: &Snapshot, todo: u64) -> String {
    let date = now.strftime("%Y-%m-%d %H:%M:%S:%3f");
    let seconds = snapshot.at_ns / 1_000_000_000;
    let mut line = format!("{label}{date} {seconds} sec: {} operations; ", snapshot.rows);
    if snapshot.rows > 0 {
        let interval_ms = snapshot.interval_ns / 1_000_000;
        let current = snapshot.interval_rows as f64 * 1000.0 / interval_ms as f64;
        line += &format!("{} current ops/sec; ", two_decimals(current));
    }
    if todo > snapshot.rows {
        let average = snapshot.rows as f64 * 1e9 / snapshot.at_ns.max(1) as f64;
        let seconds = ((todo - snapshot.rows) as f64 / average).ceil();
        line += &format!("est completion in {}", remaining(seconds));
    }
    for kind in &snapshot.kinds {
        line += &item(&kind.kind.name().replace('_', "-"), kind.interval.as_ref());
    }
    line
}

/// `[READ: Count=911, Max=18191, …] `.
fn item(name: &str, latency: Option<&Latency>) -> String {
    let us = |ns: u64| ns / 1000;
    let zero = Latency { count: 0, min_ns: 0, max_ns: 0, mean_ns: 0.0, quantiles_ns: [0; 6] };
    let Latency { count, min_ns, max_ns, mean_ns, quantiles_ns } = latency.copied().unwrap_or(zero);
    let [p50, p90, _, p99, p999, p9999] = quantiles_ns.map(us);
    format!(
        "[{name}: Count={count}, Max={}, Min={}, Avg={}, 50={p50}, 90={p90}, 99={p99}, 99.9={p999}, 99.99={p9999}] ",
        us(max_ns),
        us(min_ns),
        two_decimals(mean_ns / 1000.0)
    )
}

/// Java's `#.##`.
fn two_decimals(value: f64) -> String {
    if value.is_infinite() {
        return "∞".to_owned();
    }
    let text = format!("{value:.2}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Seconds in YCSB's words, which end with a blank; with nothing done yet, its largest number.
fn remaining(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds as u64 } else { i64::MAX as u64 };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let some = |count: u64, unit: &str| match count {
        0 => String::new(),
        1 => format!("1 {unit} "),
        _ => format!("{count} {unit}s "),
    };
    let mut text = some(days, "day") + &some(hours, "hour");
    if days == 0 {
        text += &some(minutes, "minute");
    }
    if days == 0 && hours == 0 && minutes == 0 {
        // The plural begins with two digits there.
        let unit = if seconds < 10 { "second" } else { "seconds" };
        text += &format!("{seconds} {unit} ");
    }
    text
}

/// go-ycsb's lines: everything so far, one line a kind.
pub fn go_ycsb(snapshot: &Snapshot) -> String {
    let names = ["50", "90", "95", "99", "99.9", "99.99"];
    let us = |ns: u64| ns / 1000;
    let mut lines: Vec<Line> = Vec::new();
    let kinds = snapshot.kinds.iter().map(|kind| (kind.kind.name(), kind.total));
    for (name, latency) in kinds.chain(snapshot.requests.map(|requests| ("TOTAL", requests))) {
        let Latency { count, min_ns, max_ns, mean_ns, quantiles_ns } = latency;
        lines.push(Line {
            name: name.to_owned(),
            takes_s: snapshot.at_ns as f64 / 1e9,
            count,
            avg_min_max_us: [mean_ns as u64, min_ns, max_ns].map(us),
            percentiles_us: names.map(str::to_owned).into_iter().zip(quantiles_ns.map(us)).collect(),
        });
    }
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    lines.iter().map(Line::plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind;
    use crate::replay::recorder::KindSnapshot;

    fn snapshot(rows: u64) -> Snapshot {
        let latency = Latency {
            count: 911,
            min_ns: 1_024_900,
            max_ns: 18_191_000,
            mean_ns: 1_178_020.0,
            quantiles_ns: [1077, 1090, 1200, 3985, 18191, 18191].map(|us| us * 1000),
        };
        let kind = KindSnapshot { kind: OpKind::Read, interval: Some(latency), total: latency };
        Snapshot {
            at_ns: 1_000_000_000,
            interval_ns: 1_003_000_000,
            rows,
            interval_rows: 1911,
            failures: 0,
            p50_ns: None,
            p99_ns: None,
            kinds: if rows > 0 { vec![kind] } else { vec![] },
            requests: (rows > 0).then_some(latency),
        }
    }

    /// The line of a real run (spec/samples), its date but for the time zone.
    #[test]
    fn a_status_line_is_ycsbs() {
        let now: Timestamp = "2026-11-30T09:07:06.599Z".parse().unwrap();
        assert_eq!(
            ycsb("", now, &snapshot(1989), 5000),
            "2026-11-30 09:07:06:599 1 sec: 1989 operations; 1905.28 current ops/sec; est completion in 2 second \
             [READ: Count=911, Max=18191, Min=1024, Avg=1178.02, 50=1077, 90=1090, 99=3985, 99.9=18191, 99.99=18191] "
        );
        let begin = Snapshot { at_ns: 0, ..snapshot(0) };
        assert_eq!(
            ycsb("me ", now, &begin, 5000),
            "me 2026-11-30 09:07:06:599 0 sec: 0 operations; est completion in 106751991167300 days 15 hours "
        );
        assert!(!ycsb("", now, &snapshot(5000), 5000).contains("est completion"));
        assert_eq!(
            [1.0, 12.0, 60.0, 3700.0].map(remaining),
            ["1 second ", "12 seconds ", "1 minute ", "1 hour 1 minute "]
        );
        assert_eq!([2000.0, 0.5, 277.777, f64::INFINITY].map(two_decimals), ["2000", "0.5", "277.78", "∞"]);
    }

    #[test]
    fn an_interval_of_go_ycsb_is_cumulative() {
        let line = go_ycsb(&snapshot(911));
        assert!(
            line.starts_with("READ   - Takes(s): 1.0, Count: 911, OPS: 911.0, Avg(us): 1178, Min(us): 1024,"),
            "{line}"
        );
    }
}
