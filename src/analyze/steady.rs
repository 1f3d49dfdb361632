//! Is the run the same all the way? When does it settle (MSER-5, White 1997), when does it change for
//! good (E-divisive, Matteson and James 2014), does its lag grow (Theil–Sen)?
//!
//! All three look at one number per window.

use super::bootstrap::{block_length, circular_blocks, politis_white};
use crate::rng::{Stream, mix};
use crate::slope::theil_sen;

/// Fewer windows than this say nothing about settling or changing.
const ENOUGH_WINDOWS: usize = 20;

/// A slope needs fewer.
const ENOUGH_FOR_A_SLOPE: usize = 10;

/// Where MSER would cut: the number of windows at the start whose removal makes the mean of the others
/// most certain, at most half of them. None with too few windows.
pub fn mser(means: &[f64]) -> Option<usize> {
    let k = means.len();
    if k < ENOUGH_WINDOWS {
        return None;
    }
    // From the back: count, mean and sum of squares of what is left (Welford).
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (cut, &value) in means.iter().enumerate().rev() {
        count += 1.0;
        let off = value - mean;
        mean += off / count;
        squares += off * (value - mean);
        let score = squares / (count * count);
        // Going backwards, so that of equal scores the earlier cut wins.
        if cut <= k / 2 && score <= best.0 {
            best = (score, cut);
        }
    }
    Some(best.1)
}

/// A change is listed if chance shows one as clear less often than this.
const CHANGE_P: f64 = 0.01;
/// … and if the medians of both sides differ by this share.
pub const CHANGE_FLOOR: f64 = 0.05;
/// Orders that are tried to see what chance does.
const PERMUTATIONS: usize = 499;
/// Windows on each side of a change.
const SHORTEST_STRETCH: usize = 5;

/// A change between windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The first window after it.
    pub at: usize,
    /// How often chance alone shows one as clear.
    pub p: f64,
}

/// Where a series changes for good, ascending. Neighbouring windows are shuffled together, in blocks
/// as long as their dependence, so that slow swings are not taken for changes.
pub fn changes(values: &[f64], seed: u64) -> Vec<Change> {
    let mut found = Vec::new();
    if values.len() >= ENOUGH_WINDOWS {
        divide(values, 0, seed, &mut found);
    }
    found.sort_by_key(|change| change.at);
    found
}

fn divide(values: &[f64], offset: usize, seed: u64, found: &mut Vec<Change>) {
    let Some((at, score)) = best_split(values) else { return };
    let (before, after) = (median(&values[..at]), median(&values[at..]));
    if (after - before).abs() < CHANGE_FLOOR.ln_1p() {
        return;
    }
    let off: Vec<f64> = values
        .iter()
        .enumerate()
        .map(|(index, value)| value - if index < at { before } else { after })
        .collect();
    let block = shuffled_together(&off);
    let mut as_clear = 1;
    let mut order: Vec<usize> = (0..values.len().div_ceil(block)).collect();
    let mut shuffled = Vec::with_capacity(values.len());
    for permutation in 0..PERMUTATIONS {
        let mut random = Stream::from_key(mix(seed ^ mix((offset * PERMUTATIONS + permutation) as u64)));
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        shuffled.clear();
        for &index in &order {
            let from = index * block;
            shuffled.extend(&values[from..(from + block).min(values.len())]);
        }
        as_clear += usize::from(best_split(&shuffled).is_some_and(|(_, other)| other >= score));
        // It cannot become significant any more.
        if as_clear as f64 > CHANGE_P * (PERMUTATIONS + 1) as f64 {
            return;
        }
    }
    found.push(Change { at: offset + at, p: as_clear as f64 / (PERMUTATIONS + 1) as f64 });
    divide(&values[..at], offset, seed, found);
    divide(&values[at..], offset + at, seed, found);
}

/// Windows that are shuffled as one: as many as depend on each other by what is seen of it, and not fewer
/// than the cube root of all, unless that left fewer than 20 pieces: of 10 there are few orders, and none
/// is rare. Of steps by three standard deviations after 8 of 40 windows, 9 of 100 were found with pieces of
/// four windows, 97 with pieces of two. In exchange, a dependence that so few windows do not show makes more
/// false alarms: if neighbours are correlated by 0.3, in 4 of 100 runs instead of 3; by 0.5, in 9 instead of 4.
fn shuffled_together(off: &[f64]) -> usize {
    let k = off.len();
    let least = (k as f64).cbrt().min(k as f64 / 20.0);
    (politis_white(off).max(least).ceil() as usize).clamp(1, (k / 8).max(1))
}

/// The split with the largest energy distance between both sides: twice the mean distance across, minus
/// the mean distances within, weighted by both lengths.
fn best_split(values: &[f64]) -> Option<(usize, f64)> {
    let k = values.len();
    if k < 2 * SHORTEST_STRETCH {
        return None;
    }
    let distances = |of: usize, range: std::ops::Range<usize>| -> f64 {
        values[range].iter().map(|value| (value - values[of]).abs()).sum()
    };
    let mut left = 0.0;
    let mut right: f64 = (0..k).map(|index| distances(index, index + 1..k)).sum();
    let mut across = 0.0;
    let mut best = None;
    for at in 1..=k - SHORTEST_STRETCH {
        // The window before `at` moves from the right to the left.
        let moved = at - 1;
        let (to_left, to_right) = (distances(moved, 0..moved), distances(moved, at..k));
        left += to_left;
        right -= to_right;
        across += to_right - to_left;
        if at < SHORTEST_STRETCH {
            continue;
        }
        let (n, m) = (at as f64, (k - at) as f64);
        let energy = 2.0 * across / (n * m) - 2.0 * left / (n * (n - 1.0)) - 2.0 * right / (m * (m - 1.0));
        let score = n * m / (n + m) * energy;
        if best.is_none_or(|(_, highest)| score > highest) {
            best = Some((at, score));
        }
    }
    best
}

/// The median; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Per step.
fn slope_of(values: impl Iterator<Item = f64>) -> f64 {
    theil_sen(&values.enumerate().map(|(index, value)| (index as f64, value)).collect::<Vec<_>>())
}

/// The slope of a series per step, by Theil and Sen (median of the slopes of all pairs), and its 95 %
/// interval from a block bootstrap of what is off the line.
pub fn trend(values: &[f64], seed: u64) -> Option<[f64; 3]> {
    if values.len() < ENOUGH_FOR_A_SLOPE {
        return None;
    }
    // The pairs grow with the square of the points.
    let step = values.len().div_ceil(200);
    let values: Vec<f64> = values.iter().copied().step_by(step).collect();
    let slope = slope_of(values.iter().copied());
    let center = median(&values);
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let off: Vec<f64> = values
        .iter()
        .enumerate()
        .map(|(index, value)| value - center - slope * (index as f64 - middle))
        .collect();
    let block = block_length(&[&off]);
    let mut slopes: Vec<f64> = (0..200)
        .map(|resample| {
            let drawn = circular_blocks(off.len(), block, mix(seed ^ mix(resample)));
            slope_of(drawn.iter().enumerate().map(|(index, &from)| slope * index as f64 + off[from]))
        })
        .collect();
    slopes.sort_by(f64::total_cmp);
    let per_step = step as f64;
    Some([slope / per_step, slopes[4] / per_step, slopes[195] / per_step])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, count: usize) -> Vec<f64> {
        let mut random = Stream::from_key(seed);
        (0..count).map(|_| random.unit() - 0.5).collect()
    }

    #[test]
    fn a_slow_start_is_cut_where_it_ends() {
        // MSER cuts on as long as the next window is further from the mean of the rest than about 1.4 standard
        // deviations. Those of the rest are one away each, the last slow one is at least three away.
        let mut means: Vec<f64> = (0..100).map(|window| if window % 2 == 0 { 10.05 } else { 9.95 }).collect();
        for (window, mean) in means.iter_mut().take(15).enumerate() {
            *mean += 3.0 * (15 - window) as f64 / 15.0;
        }
        assert_eq!(mser(&means), Some(15));
        assert_eq!(mser(&[1.0; 40]), Some(0));
        assert_eq!(mser(&[1.0; 19]), None);
    }

    #[test]
    fn a_run_that_never_settles_is_cut_at_its_middle() {
        let falling: Vec<f64> = (0..60).map(|window| f64::from(60 - window)).collect();
        assert_eq!(mser(&falling), Some(30));
    }

    #[test]
    fn a_step_is_found_where_it_is_and_noise_is_not() {
        let mut values: Vec<f64> = noise(2, 120).iter().map(|off| 0.2 * off).collect();
        values[70..].iter_mut().for_each(|value| *value += 0.3);
        let found = changes(&values, 5);
        assert_eq!(found.len(), 1, "{found:?}");
        // Noise on both sides does not overlap, so the split is where the step is.
        assert!(found[0].at == 70 && found[0].p <= 0.01, "{found:?}");
        assert_eq!(changes(&values, 5), found, "the same seed, the same answer");
    }

    /// One in a hundred may be; more than three of forty happen by chance in one of a thousand such tests.
    #[test]
    fn noise_is_no_change_however_short_the_run() {
        for windows in [20, 40, 80] {
            let false_alarms = (0..40).filter(|&seed| {
                let quiet: Vec<f64> = noise(100 + seed, windows).iter().map(|off| 0.8 * off).collect();
                !changes(&quiet, seed).is_empty()
            });
            let count = false_alarms.count();
            assert!(count <= 3, "{count} of 40 with {windows} windows");
        }
    }

    /// Noise from −0.29 to 0.29 and a step of 0.5: three standard deviations. Of a hundred such runs 97 show it, so
    /// that fewer than 33 of 40 are no chance.
    #[test]
    fn a_clear_step_is_found_in_forty_windows_also_near_an_end() {
        for at in [8, 20, 32] {
            let found = (0..40).filter(|&seed| {
                let mut values: Vec<f64> = noise(300 + seed, 40).iter().map(|off| 0.577 * off).collect();
                values[at..].iter_mut().for_each(|value| *value += 0.5);
                let found = changes(&values, seed);
                found.len() == 1 && found[0].at.abs_diff(at) <= 2
            });
            let count = found.count();
            assert!(count >= 33, "{count} of 40 at window {at}");
        }
    }

    #[test]
    fn a_small_step_is_below_the_floor() {
        let mut values: Vec<f64> = noise(3, 100).iter().map(|off| 0.001 * off).collect();
        values[50..].iter_mut().for_each(|value| *value += 0.04);
        assert_eq!(changes(&values, 1), []);
    }

    #[test]
    fn a_growing_lag_has_a_slope_above_nothing() {
        let growing: Vec<f64> =
            noise(4, 60).iter().enumerate().map(|(index, off)| 2.0 * index as f64 + 10.0 * off).collect();
        let [slope, low, high] = trend(&growing, 1).unwrap();
        assert!(low < 2.0 && 2.0 < high && low > 1.0 && (slope - 2.0).abs() < 0.3, "{slope} {low} {high}");
        let [_, low, high] = trend(&noise(5, 60), 1).unwrap();
        assert!(low < 0.0 && 0.0 < high);
    }
}
