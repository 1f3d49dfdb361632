//! Numbers for people: three significant digits and the unit that fits. One place, so that the live line
//! of a replay, its summary and the reports say the same of the same number.

/// A duration: `873 ns`, `12.3 µs`, `1.00 ms`, `400 s`.
pub fn duration(ns: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    if ns < 1000 {
        return format!("{ns} ns");
    }
    if ns >= 1000 * SECOND - SECOND / 2 {
        return format!("{} s", grouped(ns / SECOND + u64::from(ns % SECOND >= SECOND / 2)));
    }
    // ns ≈ digits · 10^exponent with 100 ≤ digits ≤ 999, rounded before the unit is chosen:
    // 999.6 µs is 1.00 ms, not 1000 µs.
    let mut exponent = ns.ilog10() - 2;
    let scale = 10u64.pow(exponent);
    let mut digits = (ns + scale / 2) / scale;
    if digits == 1000 {
        (digits, exponent) = (100, exponent + 1);
    }
    let unit = exponent.div_ceil(3);
    let decimals = 3 * unit - exponent;
    let name = ["ns", "µs", "ms", "s"][unit as usize];
    if decimals == 0 {
        return format!("{digits} {name}");
    }
    let power = 10u64.pow(decimals);
    format!("{}.{:0width$} {name}", digits / power, digits % power, width = decimals as usize)
}

/// A duration that is round by nature, such as the start of a window: `4 s`, `1,500 ms`.
pub fn exact(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "µs"), (1, "ns")];
    let (unit_ns, name) =
        units.into_iter().find(|(unit_ns, _)| ns.is_multiple_of(*unit_ns)).expect("1 divides all");
    format!("{} {name}", grouped(ns / unit_ns))
}

/// A count with thousands separated: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Ops per second: whole from 100 on, otherwise three significant digits.
pub fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => "-".into(),
        Some(rate) if rate >= 99.95 => grouped(rate.round() as u64),
        Some(rate) if rate >= 9.995 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.2}"),
    }
}

/// A rate with its unit, e.g. `12,345/s`.
pub fn per_second(per_second: f64) -> String {
    format!("{}/s", rate(Some(per_second)))
}

/// Bytes with a decimal unit by magnitude.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A share in percent; a share that is not 0 is never shown as 0.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        percent if percent < 0.01 => "< 0.01 %".into(),
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_unit_that_fits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (1004, "1.00 µs"),
            (1005, "1.01 µs"),
            (12_345, "12.3 µs"),
            (123_456, "123 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (5_001_000, "5.00 ms"),
            (961_000_000, "961 ms"),
            (400_000_000_000, "400 s"),
            (999_499_999_999, "999 s"),
            (999_999_999_999, "1,000 s"),
            (1_234_567_890_123, "1,235 s"),
            (u64::MAX, "18,446,744,074 s"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn small_shares_do_not_become_nothing() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_01), "< 0.01 %");
        assert_eq!(percent(0.001), "0.10 %");
        assert_eq!(percent(0.03), "3.0 %");
        assert_eq!([exact(0), exact(60_000_000_000), exact(1_500_000_000)], ["0 s", "60 s", "1,500 ms"]);
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(rate(Some(1234.4)), "1,234");
        assert_eq!(rate(Some(12.34)), "12.3");
        assert_eq!([per_second(1234.4), per_second(0.5)], ["1,234/s", "0.50/s"]);
        assert_eq!([999, 5_700, 1_200_000].map(bytes), ["999 B", "5.7 kB", "1.2 MB"]);
    }
}
