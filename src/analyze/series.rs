//! A run over time: windows for the report, and what follows from them: intervals of percentiles, when
//! it settled, when it changed, whether it kept its pace.
//!
//! Rows were counted in *fine* windows. The windows of the report and those that intervals rest on are
//! whole numbers of them.

use std::collections::BTreeMap;

use super::interval::{Ends, Share, woodruff};
use super::report::{ChangePoint, Estimate, LagCauses, Load, Moved, SustainedMeta, WarmUp, Window};
use super::scan::{Tally, WindowTally};
use super::sparse::Sparse;
use super::steady::{CHANGE_FLOOR, changes, median, mser, trend};
use crate::op::OpKind;

/// Windows that intervals should rest on, at least …
const ENOUGH_WINDOWS: u64 = 30;
/// … and ops in each.
const ENOUGH_OPS: u64 = 100;
/// Windows that a search for changes looks at.
const CHANGE_WINDOWS: usize = 200;
/// Below this nobody notices a lag.
pub const NOTICEABLE_LAG_NS: u64 = 10_000_000;
/// Longest gap between windows with rows that is filled with windows without.
const LONGEST_GAP: u64 = 1 << 20;

/// The windows of one kind, or several, by number.
pub type Series = BTreeMap<u64, WindowTally>;

/// How long windows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Those of the report, as asked for.
    pub shown_ns: u64,
    /// Those that intervals rest on: a multiple or a whole part of the ones shown, so that there are at
    /// least 30 with at least 100 ops each, if there can be.
    pub interval_ns: u64,
}

impl Lengths {
    /// For a run of this length.
    pub fn new(shown_ns: u64, elapsed_ns: u64, rows: u64) -> Lengths {
        let windows = |length_ns: u64| elapsed_ns.div_ceil(length_ns).max(1);
        let full = |length_ns: u64| rows / windows(length_ns) >= ENOUGH_OPS;
        let whole = |part: &u64| shown_ns.is_multiple_of(*part);
        let interval_ns = if windows(shown_ns) >= ENOUGH_WINDOWS {
            // As short as is full, unless too few would be left.
            let most = windows(shown_ns) / ENOUGH_WINDOWS;
            let mut multiples = (1..=most).map(|times| times * shown_ns);
            multiples.find(|&length| full(length)).unwrap_or(most * shown_ns)
        } else {
            let parts = [1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 40, 50, 80, 100, 125, 200, 250, 500, 1000];
            let lengths = parts.into_iter().filter(whole).map(|part| shown_ns / part);
            let mut kept = shown_ns;
            for length in lengths.take_while(|&length| length == shown_ns || full(length)) {
                kept = length;
                if windows(length) >= ENOUGH_WINDOWS {
                    break;
                }
            }
            kept
        };
        Lengths { shown_ns, interval_ns }
    }

    /// The length that both are multiples of.
    pub fn fine_ns(&self) -> u64 {
        self.shown_ns.min(self.interval_ns)
    }
}

/// The windows of these kinds together, `length_ns` long. Time in the database that the tally only noted
/// at its beginning and end is filled in between.
pub fn gather(tally: &Tally, kinds: &[OpKind], fine_ns: u64, length_ns: u64) -> Series {
    let times = length_ns / fine_ns;
    let mut series = Series::new();
    let mut throughout: BTreeMap<u64, i64> = BTreeMap::new();
    let mut numbers: Vec<&(u64, OpKind)> =
        tally.windows.keys().filter(|(_, kind)| kinds.contains(kind)).collect();
    numbers.sort_unstable();
    for (number, kind) in &numbers {
        *throughout.entry(*number).or_default() += tally.windows[&(*number, *kind)].throughout;
    }
    for together in numbers.chunk_by(|(one, _), (other, _)| one / times == other / times) {
        let parts: Vec<&WindowTally> = together.iter().map(|key| &tally.windows[key]).collect();
        series.insert(together[0].0 / times, WindowTally::together(&parts));
    }
    let mut inside = 0;
    let mut at = throughout.iter().peekable();
    while let Some((&number, change)) = at.next() {
        inside += change;
        let next = at.peek().map_or(number + 1, |(next, _)| **next);
        if inside > 0 && next - number <= LONGEST_GAP {
            for covered in number..next {
                series.entry(covered / times).or_default().busy_ns += inside as u64 * fine_ns;
            }
        }
    }
    series
}

/// The windows of a report.
pub fn windows(series: &Series, length_ns: u64, last_end_ns: Option<u64>) -> Vec<Window> {
    let window = |(number, tally): (&u64, &WindowTally)| {
        let start_ns = number * length_ns;
        let rest_ns = last_end_ns.unwrap_or(0).saturating_sub(start_ns);
        let length_ns = if rest_ns == 0 { length_ns } else { rest_ns.min(length_ns) };
        let per_second = |count: u64| count as f64 * 1e9 / length_ns as f64;
        let [response, service, lag] = &tally.histograms;
        let known = u128::from(response.count);
        Window {
            start_ns,
            length_ns,
            ops: tally.ops,
            ok: tally.ok,
            failed: tally.ops - tally.ok,
            completed: tally.completed,
            completed_ok: tally.completed_ok,
            rate: per_second(tally.completed),
            goodput: per_second(tally.completed_ok),
            in_flight: tally.busy_ns as f64 / length_ns as f64,
            response_mean_ns: (known > 0).then(|| ((tally.response_sum_ns + known / 2) / known) as u64),
            response_p50_ns: response.quantile(0.5),
            response_p90_ns: response.quantile(0.9),
            response_p99_ns: response.quantile(0.99),
            response_max_ns: (known > 0).then_some(tally.response_max_ns),
            service_p50_ns: service.quantile(0.5),
            lag_p50_ns: lag.quantile(0.5),
        }
    };
    series.iter().map(window).collect()
}

/// The windows that intervals rest on, as they are asked for many percentiles.
pub struct IntervalWindows<'a> {
    windows: Vec<&'a WindowTally>,
    totals: [Sparse; 2],
}

impl<'a> IntervalWindows<'a> {
    /// From the windows that begin at `from_ns` or later.
    pub fn new(series: &'a Series, length_ns: u64, from_ns: u64) -> IntervalWindows<'a> {
        let windows: Vec<&WindowTally> = series
            .iter()
            .filter(|(number, window)| **number * length_ns >= from_ns && window.ops > 0)
            .map(|(_, window)| window)
            .collect();
        let total = |series: usize| Sparse::together(windows.iter().map(|window| &window.histograms[series]));
        let totals = [total(0), total(1)];
        IntervalWindows { windows, totals }
    }

    /// The interval of the op of this rank among all answered ones: of the response (0) or service (1),
    /// with the ops that were never answered or without.
    pub fn ends(&self, series: usize, with_failures: bool, rank: u64) -> Option<Ends> {
        // The bucket of that op, and how much of it counts as at or below.
        let mut below = 0u64;
        let found = self.totals[series].bins.iter().find(|(_, count)| {
            below += u64::from(*count);
            below >= rank
        });
        let &(bin, count) = found?;
        let place = (rank - (below - u64::from(count))) as f64 / f64::from(count);
        let share = |window: &&WindowTally| {
            let histogram = &window.histograms[series];
            let whole = histogram.bins.partition_point(|(one, _)| *one < bin);
            let mut at_or_below: f64 =
                histogram.bins[..whole].iter().map(|(_, count)| f64::from(*count)).sum();
            if let Some((_, count)) = histogram.bins.get(whole).filter(|(one, _)| *one == bin) {
                at_or_below += place * f64::from(*count);
            }
            let ops = if with_failures { window.ops } else { histogram.count };
            Share { ops: ops as f64, below: at_or_below }
        };
        woodruff(&self.windows.iter().map(share).collect::<Vec<_>>())
    }
}

/// The windows that lie wholly within the schedule, from the first one with an op.
fn scheduled(series: &Series, length_ns: u64, last_intended_ns: u64) -> Vec<(u64, &WindowTally)> {
    let inside = |(number, _): &(&u64, &WindowTally)| (*number + 1) * length_ns <= last_intended_ns + 1;
    series.iter().filter(inside).map(|(number, tally)| (*number, tally)).collect()
}

/// A beginning that differs by less than this is like the rest.
const SMALLEST_WARM_UP: f64 = 0.01;

/// MSER always finds something to cut, in noise, too: 0 if the mean of what it cuts is within three
/// standard errors of that of the rest, or hardly differs.
fn worth_cutting(values: &[f64], cut: usize, floor: f64) -> usize {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (beginning, rest) = values.split_at(cut);
    let of_rest = mean(rest);
    let variance = rest.iter().map(|one| (one - of_rest).powi(2)).sum::<f64>() / rest.len().max(1) as f64;
    let error = (variance / beginning.len().max(1) as f64).sqrt();
    if cut > 0 && (mean(beginning) - of_rest).abs() > floor.max(3.0 * error) { cut } else { 0 }
}

/// Where MSER-5 would cut.
pub fn warm_up(series: &Series, length_ns: u64, last_intended_ns: u64) -> WarmUp {
    let windows = scheduled(series, length_ns, last_intended_ns);
    let start = |index: usize| windows.get(index).map_or(0, |(number, _)| number * length_ns);
    let answered: Vec<usize> =
        (0..windows.len()).filter(|&index| windows[index].1.histograms[0].count > 0).collect();
    let means: Vec<f64> = answered
        .iter()
        .map(|&index| &windows[index].1.histograms[0])
        .map(|response| response.sum_ln() / response.count as f64)
        .collect();
    let rates: Vec<f64> = windows.iter().map(|(_, window)| window.completed as f64).collect();
    let mean_rate = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let by_latency = mser(&means).map(|cut| worth_cutting(&means, cut, SMALLEST_WARM_UP));
    let by_rate = mser(&rates).map(|cut| worth_cutting(&rates, cut, SMALLEST_WARM_UP * mean_rate));
    let by_latency_ns = by_latency.map(|index| if index == 0 { 0 } else { start(answered[index]) });
    let by_rate_ns = by_rate.map(|index| if index == 0 { 0 } else { start(index) });
    WarmUp {
        asked: String::new(),
        cut_ns: 0,
        cut_ops: 0,
        suggested_ns: by_latency_ns.max(by_rate_ns),
        by_latency_ns,
        by_rate_ns,
        no_steady_state: by_latency.is_some_and(|cut| cut >= means.len() / 2)
            || by_rate.is_some_and(|cut| cut >= rates.len() / 2),
        lag_at_cut_ns: None,
    }
}

/// When latency changed for good, and what changed. `kinds` are the kinds with rows.
pub fn change_points(
    all: &Series,
    kinds: &[(String, &Series)],
    length_ns: u64,
    last_intended_ns: u64,
    seed: u64,
) -> Vec<ChangePoint> {
    let windows: Vec<(u64, &WindowTally)> = scheduled(all, length_ns, last_intended_ns)
        .into_iter()
        .filter(|(_, window)| window.histograms[0].count > 0)
        .collect();
    let together = windows.len().div_ceil(CHANGE_WINDOWS).max(1);
    let stretches: Vec<Vec<u64>> =
        windows.chunks(together).map(|chunk| chunk.iter().map(|(number, _)| *number).collect()).collect();
    let ln_median = |series: &Series, numbers: &[u64]| -> Option<f64> {
        let windows = numbers.iter().filter_map(|number| series.get(number));
        let response = Sparse::together(windows.map(|one| &one.histograms[0]));
        Some((response.quantile(0.5)? as f64).max(1.0).ln())
    };
    let medians: Vec<f64> = stretches.iter().filter_map(|numbers| ln_median(all, numbers)).collect();
    let found = changes(&medians, seed);
    let borders: Vec<usize> =
        std::iter::once(0).chain(found.iter().map(|one| one.at)).chain([stretches.len()]).collect();
    let typical = |series: &Series, from: usize, to: usize| -> Option<f64> {
        let medians: Vec<f64> =
            stretches[from..to].iter().filter_map(|numbers| ln_median(series, numbers)).collect();
        (!medians.is_empty()).then(|| median(&medians))
    };
    let everything = [("ALL".to_owned(), all)];
    let of = |(index, change): (usize, &super::steady::Change)| {
        let mut moved: Vec<(f64, Moved)> = everything
            .iter()
            .chain(if kinds.len() > 1 { kinds } else { &[] })
            .filter_map(|(op, series)| {
                let before = typical(series, borders[index], change.at)?;
                let after = typical(series, change.at, borders[index + 2])?;
                let by = (after - before).abs();
                let ns = |ln: f64| ln.exp().round() as u64;
                let moved = Moved { op: op.clone(), before_ns: ns(before), after_ns: ns(after) };
                (by >= CHANGE_FLOOR.ln_1p()).then_some((by, moved))
            })
            .collect();
        moved.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        ChangePoint {
            at_ns: stretches[change.at][0] * length_ns,
            p_value: change.p,
            moved: moved.into_iter().map(|(_, moved)| moved).collect(),
        }
    };
    found.iter().enumerate().map(of).collect()
}

/// Did the run keep its schedule? The replay's own verdict counts, where it gave one; otherwise the
/// windows': lag that grows to the end, and is more than ten median service times by then.
pub fn load(
    tally: &Tally,
    series: &Series,
    length_ns: u64,
    verdict: Option<&SustainedMeta>,
    seed: u64,
) -> Load {
    let last_intended_ns = tally.last_intended_ns.unwrap_or(0);
    let windows = scheduled(series, length_ns, last_intended_ns);
    let lags: Vec<(u64, f64)> = windows
        .iter()
        .filter_map(|(number, window)| Some((*number, window.histograms[2].quantile(0.5)? as f64)))
        .collect();
    let values: Vec<f64> = lags.iter().map(|(_, lag)| *lag).collect();
    let per_second = 1e9 / length_ns as f64;
    let slope = trend(&values, seed).map(|[value, low, high]| Estimate {
        value: value * per_second,
        low: low * per_second,
        high: high * per_second,
    });
    let services: Vec<f64> =
        windows.iter().filter_map(|(_, window)| Some(window.histograms[1].quantile(0.5)? as f64)).collect();
    let limit = (10.0 * median(&services)).max(NOTICEABLE_LAG_NS as f64);
    let grows = slope.map(|slope| slope.low > 0.0 && values.last().is_some_and(|&lag| lag > limit));
    let since = |sustained: bool| {
        let calm = lags.iter().rposition(|(_, lag)| *lag <= limit).map_or(0, |last| last + 1);
        (!sustained).then(|| lags.get(calm).map_or(0, |(number, _)| number * length_ns))
    };
    let sustained = verdict.map(|one| one.sustained).or(grows.map(|grows| !grows));
    let ops: u64 = series.values().map(|window| window.ops).sum();
    let in_time: u64 =
        series.range(..=last_intended_ns / length_ns).map(|(_, window)| window.completed).sum();
    let counted: u64 = tally.counts.iter().flatten().sum();
    let lag = tally.lag;
    let whole = (lag.server_ns + lag.order_ns + lag.client_ns) as f64;
    let part = |ns: u128| if whole > 0.0 { ns as f64 / whole } else { 0.0 };
    Load {
        sustained,
        since_ns: match verdict {
            Some(verdict) => verdict.since_ns,
            None => sustained.and_then(since),
        },
        lag_slope_ns_per_s: slope,
        kept_pace: if ops == 0 { 1.0 } else { in_time as f64 / ops as f64 },
        late_share: if counted == 0 { 0.0 } else { tally.late as f64 / counted as f64 },
        lag_causes: LagCauses {
            server: part(lag.server_ns),
            order: part(lag.order_ns),
            client: part(lag.client_ns),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn there_are_enough_windows_with_enough_ops_if_there_can_be() {
        let interval = |elapsed_ns, rows| Lengths::new(S, elapsed_ns, rows).interval_ns;
        assert_eq!(interval(60 * S, 42_000), S);
        assert_eq!(interval(3600 * S, 360_000), S, "100 ops each");
        assert_eq!(interval(3600 * S, 36_000), 10 * S, "10 a second: 10 s for 100");
        assert_eq!(interval(3600 * S, 360), 120 * S, "30 windows are worth more than 100 ops in each");
        assert_eq!(interval(10 * S, 10_000), S / 4, "40 windows of 250");
        assert_eq!(interval(10 * S, 2_000), S / 2, "20 windows of 100");
        assert_eq!(interval(10 * S, 100), S, "nothing can be done");
        assert_eq!(interval(0, 0), S);
    }
}
