//! What a person sees while something takes long: one live line on a terminal, plain lines now and
//! then elsewhere. Always on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::say::note;
pub use crate::units::{
    bytes as bytes_text, duration as duration_text, grouped as count_text, per_second as rate_text,
};

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
