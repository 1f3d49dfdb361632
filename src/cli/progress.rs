//! What a person sees while something takes long: one live line on a terminal, plain lines now and
//! then elsewhere. Always on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::say::note;

/// Between plain lines, when nobody watches live and nobody asked for another interval.
pub const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// A bar with rate and ETA.
pub struct Progress {
    bar: ProgressBar,
    live: bool,
    what: String,
    total: u64,
    between_lines: Duration,
    began: Instant,
    last_line: Instant,
}

/// Does somebody watch?
pub fn is_live() -> bool {
    std::io::stderr().is_terminal()
}

impl Progress {
    /// Begins `what`, of `total` operations. Where nobody watches, at least `between_lines` passes
    /// from one plain line to the next.
    pub fn new(what: &str, total: u64, between_lines: Duration) -> Progress {
        let live = is_live();
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar:.cyan/dim} {human_pos}/{human_len} · {per_sec} · ETA {eta}{msg}",
        )
        .expect("a well-formed template");
        let bar = if live { ProgressBar::new(total) } else { ProgressBar::hidden() };
        bar.set_style(style);
        bar.set_prefix(what.to_owned());
        let now = Instant::now();
        Progress { bar, live, what: what.to_owned(), total, between_lines, began: now, last_line: now }
    }

    /// So many operations are done; `note` is shown after the figures.
    pub fn set(&mut self, done: u64, note: &str) {
        self.bar.set_position(done);
        self.bar.set_message(note.to_owned());
        if self.live || self.last_line.elapsed() < self.between_lines || done == self.total {
            return;
        }
        self.last_line = Instant::now();
        let rate = done as f64 / self.began.elapsed().as_secs_f64();
        let left = Duration::from_secs_f64((self.total.saturating_sub(done)) as f64 / rate.max(1e-9));
        note!("{} {done}/{} · {rate:.0}/s · ETA {} s{note}", self.what, self.total, left.as_secs());
    }

    /// Removes the live line.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Nanoseconds with a unit by magnitude and three significant digits.
pub fn duration_text(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

/// Bytes with a decimal unit by magnitude.
pub fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// 12345678 → `12,345,678`.
pub fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate with a unit, e.g. `12,345/s`.
pub fn rate_text(per_second: f64) -> String {
    if per_second < 100.0 {
        format!("{per_second:.1}/s")
    } else {
        format!("{}/s", count_text(per_second as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_magnitude() {
        assert_eq!(duration_text(999), "999 ns");
        assert_eq!(duration_text(1_500), "1.50 µs");
        assert_eq!(duration_text(12_340_000), "12.3 ms");
        assert_eq!(duration_text(400_000_000_000), "400 s");
        assert_eq!(count_text(1_234_567), "1,234,567");
        assert_eq!(count_text(12), "12");
    }
}
