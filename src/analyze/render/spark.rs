//! A run over time in one line of text: a bar for each stretch, on a logarithmic scale that all runs of a
//! table share. Where the terminal has no room for a chart, it still shows a stall.

use super::table::Block;
use super::units::{duration, exact};
use crate::analyze::report::{Report, RunReport};

/// Bars from the lowest to the highest value.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Bars in a line: with the label and two values they fit into 80 columns.
const MOST_BARS: u64 = 40;

/// The longest response of each stretch.
pub(super) fn over_time(report: &Report, runs: &[&RunReport]) -> Vec<Block> {
    let windows = runs.iter().flat_map(|run| &run.all.windows);
    let Some(last) = windows.clone().map(|window| window.start_ns / report.window_ns).max() else {
        return Vec::new();
    };
    let per_bar = (last + 1).div_ceil(MOST_BARS);
    let bars = (last / per_bar + 1) as usize;
    let highest = |run: &RunReport| -> Vec<Option<u64>> {
        let mut stretches = vec![None; bars];
        for window in &run.all.windows {
            let stretch = &mut stretches[(window.start_ns / report.window_ns / per_bar) as usize];
            *stretch = (*stretch).max(window.response_max_ns);
        }
        stretches
    };
    let of_runs: Vec<Vec<Option<u64>>> = runs.iter().map(|run| highest(run)).collect();
    let known = || of_runs.iter().flatten().flatten().copied();
    let (Some(low), Some(high)) = (known().min(), known().max()) else { return Vec::new() };
    let rows = runs.iter().zip(&of_runs).map(|(run, stretches)| {
        let line: String = stretches.iter().map(|value| value.map_or(' ', |ns| bar(ns, low, high))).collect();
        let of_run = || stretches.iter().flatten().copied();
        let value = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        vec![run.label.clone(), line, value(of_run().min()), value(of_run().max())]
    });
    let length = exact(per_bar * report.window_ns);
    vec![
        Block::Heading(format!("Over time: the longest response in every {length} (log scale)")),
        Block::Table { head: ["", "", "lowest", "highest"].map(str::to_owned).into(), rows: rows.collect() },
    ]
}

fn bar(ns: u64, low: u64, high: u64) -> char {
    let log = |ns: u64| (ns.max(1) as f64).ln();
    let span = log(high) - log(low);
    let share = if span > 0.0 { (log(ns) - log(low)) / span } else { 0.0 };
    // Three quarters are three quarters, whatever the last bits of the logarithms say.
    BARS[((share * BARS.len() as f64 + 1e-9) as usize).min(BARS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_power_has_its_bar() {
        let bars: String = [1, 10, 100, 1_000, 10_000].map(|ns| bar(ns, 1, 10_000)).iter().collect();
        assert_eq!(bars, "▁▃▅▇█");
        assert_eq!(bar(5, 5, 5), '▁');
    }
}
