//! How certain is a ratio of percentiles of two runs?
//!
//! A run is cut into windows of neighbouring ops. Drawing blocks of windows with replacement gives runs
//! that might have been (circular block bootstrap, Politis and Romano 1992); the spread of the ratio over
//! 2000 of them is its uncertainty. Where both runs replayed one trace, the *same* windows are drawn for
//! both: what the ops themselves bring (cheap and expensive keys, bursts) then cancels out of the ratio,
//! which is why a shared trace finds differences that separate ones hide. With several runs a side, runs
//! are drawn first, windows within them second (Kalibera and Jones 2013).
//!
//! Every draw comes from a stream of its own index, so the outcome depends neither on threads nor on
//! order.

use std::ops::Range;
use std::thread;

use super::interval::{student_p, student_t};
use super::sparse::{BINS, Sparse, value_within};
use crate::rng::{Stream, mix};

/// Runs that might have been.
pub const RESAMPLES: usize = 2000;
/// Of these, for descriptions of a whole distribution.
const SHAPE_RESAMPLES: usize = 500;
/// Windows with slower ops that a percentile needs on each side.
const WINDOWS_TOUCHED: usize = 10;

/// The block length of Politis and White (2004, corrected 2009) for series over the same windows: the
/// largest of them, at least k^⅓ (a queue remembers), at most k/8 (or there is nothing to draw from).
pub fn block_length(series: &[&[f64]]) -> usize {
    let k = series.first().map_or(0, |one| one.len());
    let longest = (k / 8).max(1);
    let wanted = series.iter().map(|one| politis_white(one)).fold((k as f64).cbrt(), f64::max);
    (wanted.ceil() as usize).clamp(1, longest)
}

/// What they recommend for one series.
pub fn politis_white(series: &[f64]) -> f64 {
    let k = series.len();
    let mean = series.iter().sum::<f64>() / k.max(1) as f64;
    let covariance = |lag: usize| -> f64 {
        let ahead = series.iter().skip(lag);
        series.iter().zip(ahead).map(|(one, other)| (one - mean) * (other - mean)).sum::<f64>() / k as f64
    };
    let variance = covariance(0);
    if k < 8 || variance <= 0.0 {
        return 1.0;
    }
    let in_a_row = ((k as f64).log10().sqrt().ceil() as usize).max(5);
    let longest = (k as f64).sqrt().ceil() as usize + in_a_row;
    let covariances: Vec<f64> = (0..=(2 * longest).min(k - 1)).map(covariance).collect();
    let small = 2.0 * ((k as f64).log10() / k as f64).sqrt() * variance;
    let correlated = |lag: usize| covariances.get(lag).is_some_and(|one| one.abs() >= small);
    let last =
        (0..longest).find(|&lag| (1..=in_a_row).all(|next| !correlated(lag + next))).unwrap_or(longest);
    let bandwidth = (2 * last).clamp(1, covariances.len() - 1);
    // Flat-top weights.
    let weight = |lag: usize| (2.0 * (1.0 - lag as f64 / bandwidth as f64)).clamp(0.0, 1.0);
    let sum = |of: &dyn Fn(usize) -> f64| -> f64 {
        (1..=bandwidth).map(|lag| 2.0 * weight(lag) * of(lag) * covariances[lag]).sum()
    };
    let spectrum = variance + sum(&|_| 1.0);
    let slope = sum(&|lag| lag as f64);
    let scale = 4.0 / 3.0 * spectrum * spectrum;
    if scale <= 0.0 {
        return longest as f64;
    }
    (2.0 * slope * slope / scale).cbrt() * (k as f64).cbrt()
}

/// `k` windows drawn as blocks of neighbours, the last followed by the first: ranges of them, in the order
/// drawn. A block over the end is two.
fn blocks(k: usize, block: usize, key: u64) -> Vec<Range<usize>> {
    let mut random = Stream::from_key(key);
    let mut drawn = Vec::with_capacity(k / block + 8);
    let mut left = k;
    while left > 0 {
        let from = random.below(k as u64) as usize;
        let to = from + block.min(left);
        left -= to - from;
        drawn.push(from..to.min(k));
        if to > k {
            drawn.push(0..to - k);
        }
    }
    drawn
}

/// The same, window by window.
pub fn circular_blocks(k: usize, block: usize, key: u64) -> Vec<usize> {
    blocks(k, block, key).into_iter().flatten().collect()
}

/// The windows of one run, laid out for drawing: how many values a block of neighbours has up to a bucket
/// is one subtraction, however long the block.
pub struct Windows {
    bins: Vec<u16>,
    /// Per bucket: values up to and including it in the first 0, 1, 2 … k windows. Modulo 2^32: only
    /// differences count, and those of blocks are small.
    up_to: Vec<u32>,
    /// Per bucket: the same in all windows.
    whole: Vec<u64>,
    sparse: Vec<Sparse>,
}

impl Windows {
    /// From one histogram per window.
    pub fn new(sparse: Vec<Sparse>) -> Windows {
        let mut used = vec![false; BINS];
        for (bin, _) in sparse.iter().flat_map(|one| &one.bins) {
            used[usize::from(*bin)] = true;
        }
        let bins: Vec<u16> = (0..BINS).filter(|&bin| used[bin]).map(|bin| bin as u16).collect();
        let places = sparse.len() + 1;
        let mut up_to = vec![0u32; bins.len() * places];
        for (window, one) in sparse.iter().enumerate() {
            let mut row = 0;
            for &(bin, count) in &one.bins {
                while bins[row] != bin {
                    row += 1;
                }
                up_to[row * places + window + 1] = count;
            }
        }
        let mut of_window = vec![0u32; sparse.len()];
        let mut whole = Vec::with_capacity(bins.len());
        for row in up_to.chunks_exact_mut(places) {
            let (mut sum, mut all) = (0u32, 0u64);
            for (place, so_far) in row[1..].iter_mut().zip(&mut of_window) {
                *so_far += *place;
                sum = sum.wrapping_add(*so_far);
                all += u64::from(*so_far);
                *place = sum;
            }
            whole.push(all);
        }
        Windows { bins, up_to, whole, sparse }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.sparse.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.sparse.is_empty()
    }

    /// Values in all windows.
    pub fn count(&self) -> u64 {
        self.whole.last().copied().unwrap_or(0)
    }

    /// Each window once.
    fn once(&self) -> Vec<Range<usize>> {
        (0..self.len()).map(|window| window..window + 1).collect()
    }

    fn row(&self, row: usize) -> &[u32] {
        let places = self.len() + 1;
        &self.up_to[row * places..(row + 1) * places]
    }

    /// Values up to and including the bucket of this row in the windows drawn.
    fn drawn(&self, drawn: &[Range<usize>], row: usize) -> u64 {
        let row = self.row(row);
        let mut sum = 0;
        for block in drawn {
            sum += u64::from(row[block.end].wrapping_sub(row[block.start]));
        }
        sum
    }

    /// ln of the value below which the share `q` lies in the windows drawn; `guess` is the row to begin
    /// at, and becomes the row it was in. None without values.
    fn ln_quantile(&self, drawn: &[Range<usize>], q: f64, guess: &mut usize) -> Option<f64> {
        let last = self.bins.len().checked_sub(1)?;
        let total = self.drawn(drawn, last);
        if total == 0 {
            return None;
        }
        let target = q * total as f64;
        // The first row that reaches the target is one of these; so many values are below the first of them,
        // and up to the last of them.
        let (mut low, mut high) = (0, last);
        let (mut below, mut up_to) = (0, total);
        let mut next = (*guess).min(last);
        let mut tries = 0;
        while low < high {
            let next_up_to = self.drawn(drawn, next);
            let off = target - next_up_to as f64;
            if off <= 0.0 {
                (high, up_to) = (next, next_up_to);
            } else {
                (low, below) = (next + 1, next_up_to);
            }
            if low == high {
                break;
            }
            // As many values further as they are in the whole run: mostly exactly there. Halving ends
            // what that does not.
            let wanted = self.whole[next] as f64 + off;
            tries += 1;
            next = if tries > 8 {
                low.midpoint(high - 1)
            } else {
                let ahead = self.whole[low..high - 1].partition_point(|&up_to| (up_to as f64) < wanted);
                low + ahead
            };
        }
        *guess = high;
        let place = ((target - below as f64 - 0.5) / ((up_to - below) as f64).max(1.0)).clamp(0.0, 1.0);
        Some(value_within(self.bins[high], place).max(1.0).ln())
    }

    /// Per window: values at or below the percentile, and all.
    fn shares(&self, row: usize) -> impl Iterator<Item = (u32, u64)> {
        let below = self.row(row).windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        below.zip(self.sparse.iter().map(|one| one.count))
    }

    /// Per window: values at or below the percentile, minus the share `q` of the window's values.
    fn residuals(&self, q: f64, row: usize) -> Vec<f64> {
        let off: Vec<f64> = self.shares(row).map(|(below, all)| f64::from(below) - q * all as f64).collect();
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        off.into_iter().map(|one| one - mean).collect()
    }

    fn touched(&self, q: f64, row: usize) -> usize {
        let touched = |&(below, all): &(u32, u64)| if q >= 0.5 { u64::from(below) < all } else { below > 0 };
        self.shares(row).filter(touched).count()
    }
}

/// The runs of both sides over the same number of windows.
pub struct Sides<'a> {
    /// Runs of the baseline.
    pub baseline: &'a [Windows],
    /// Runs of the other side.
    pub other: &'a [Windows],
    /// The same operations in the same windows.
    pub paired: bool,
    /// Of the bootstrap.
    pub seed: u64,
}

/// ln(other / baseline) and what is known about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogRatio {
    /// The estimate.
    pub value: f64,
    /// 95 % interval.
    pub low: f64,
    /// 95 % interval.
    pub high: f64,
    /// Standard error, widened as the interval is.
    pub error: f64,
    /// Degrees of freedom that its size stands on.
    pub degrees: f64,
}

impl LogRatio {
    /// The smallest true ln ratio that would be seen four times in five.
    pub fn detectable(&self) -> f64 {
        (1.96 + 0.8416) * self.error
    }

    /// How likely it is to look at least this much above (below) a limit if the truth is at the limit;
    /// two-sided.
    pub fn p_beyond(&self, limit: f64, above: bool) -> f64 {
        let off = if above { self.value - limit } else { limit - self.value };
        if self.error <= 0.0 {
            return if off > 0.0 { 0.0 } else { 1.0 };
        }
        if off <= 0.0 { 1.0 } else { student_p(off / self.error, 1e6) }
    }
}

/// Runs a function for every index on all CPUs; the results are in order.
fn in_parallel<T: Send>(count: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
    let share = count.div_ceil(threads).max(1);
    let of = &of;
    thread::scope(|scope| {
        let parts: Vec<_> = (0..count)
            .step_by(share)
            .map(|from| scope.spawn(move || (from..(from + share).min(count)).map(of).collect::<Vec<T>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("a resample does not panic")).collect()
    })
}

impl Sides<'_> {
    fn windows(&self) -> usize {
        self.baseline[0].len().min(self.other[0].len())
    }

    /// The block length that the percentiles `qs` ask for.
    fn block(&self, qs: &[f64]) -> usize {
        let mut series = Vec::new();
        for run in self.baseline.iter().chain(self.other).filter(|run| run.count() > 0) {
            let once = run.once();
            for &q in qs {
                let mut row = run.bins.len() / 2;
                run.ln_quantile(&once, q, &mut row);
                series.push(run.residuals(q, row));
            }
        }
        // Sides of unequal length are drawn apart, each with this block.
        let blocks = series.iter().map(|one| block_length(&[one]));
        blocks.max().unwrap_or(1)
    }

    /// Mean over the runs of a side of ln of each percentile, in the resample of this number (none: as
    /// it was).
    fn ln_quantiles(
        &self,
        side: &[Windows],
        stream: u64,
        block: usize,
        qs: &[f64],
        resample: Option<usize>,
        rows: &mut [usize],
    ) -> Vec<f64> {
        let mut sums = vec![0.0; qs.len()];
        for index in 0..side.len() {
            let (run, key) = match resample {
                None => (index, 0),
                Some(resample) => {
                    let key = mix(self.seed ^ mix(resample as u64));
                    let which = mix(key ^ mix(1000 * (stream + 1) + index as u64));
                    // The same windows for every run of the trace; of each side its own if not paired.
                    let windows = if self.paired { key } else { mix(key ^ mix(stream + 7)) };
                    (if side.len() == 1 { 0 } else { (which % side.len() as u64) as usize }, windows)
                }
            };
            let run = &side[run];
            let drawn = resample.map_or_else(|| run.once(), |_| blocks(run.len(), block, key));
            for ((sum, &q), row) in sums.iter_mut().zip(qs).zip(rows.iter_mut()) {
                *sum += run.ln_quantile(&drawn, q, row).unwrap_or(f64::NAN) / side.len() as f64;
            }
        }
        sums
    }

    /// ln ratios of percentiles; none where a side has too few slow ops to say.
    pub fn ratios(&self, qs: &[f64]) -> Vec<Option<LogRatio>> {
        let runs = || self.baseline.iter().chain(self.other);
        if runs().any(|run| run.count() == 0 || run.len() < WINDOWS_TOUCHED) {
            return vec![None; qs.len()];
        }
        let mut can_say = vec![true; qs.len()];
        for run in runs() {
            let once = run.once();
            for (can_say, &q) in can_say.iter_mut().zip(qs) {
                let mut row = 0;
                run.ln_quantile(&once, q, &mut row);
                let beyond = run.count() as f64 * q.min(1.0 - q);
                *can_say &= run.touched(q, row) >= WINDOWS_TOUCHED && beyond >= 1.0;
            }
        }
        let block = self.block(qs);
        let guess = |side: &[Windows]| vec![side[0].bins.len() / 2; qs.len()];
        let (mut rows_a, mut rows_b) = (guess(self.baseline), guess(self.other));
        let a = self.ln_quantiles(self.baseline, 0, block, qs, None, &mut rows_a);
        let b = self.ln_quantiles(self.other, 1, block, qs, None, &mut rows_b);
        let resampled = in_parallel(RESAMPLES, |resample| {
            let (mut rows_a, mut rows_b) = (rows_a.clone(), rows_b.clone());
            let a = self.ln_quantiles(self.baseline, 0, block, qs, Some(resample), &mut rows_a);
            let b = self.ln_quantiles(self.other, 1, block, qs, Some(resample), &mut rows_b);
            a.iter().zip(&b).map(|(a, b)| b - a).collect::<Vec<f64>>()
        });
        let (widening, degrees) = self.widening(block);
        (0..qs.len())
            .map(|index| {
                let value = b[index] - a[index];
                let drawn: Vec<f64> = resampled.iter().map(|one| one[index]).collect();
                can_say[index].then(|| estimate(value, drawn, widening, degrees))
            })
            .collect()
    }

    /// By how much intervals are widened because few blocks, or few runs, were there to draw from.
    fn widening(&self, block: usize) -> (f64, f64) {
        let mut degrees = self.windows() as f64 / block as f64;
        let mut widening = of_few_blocks(degrees);
        let runs = self.baseline.len().min(self.other.len()) as f64;
        if runs >= 2.0 {
            let of_runs = (self.baseline.len() + self.other.len() - 2) as f64;
            // A bootstrap of n runs sees (n − 1)/n of their variance.
            widening = widening.max(student_t(of_runs) / 1.96 * (runs / (runs - 1.0)).sqrt());
            degrees = of_runs;
        }
        (widening, degrees)
    }

    /// The whole distributions of the first run of each side.
    pub fn shape(&self, percents: &[f64]) -> Option<ShapeEstimate> {
        let (a, b) = (&self.baseline[0], &self.other[0]);
        if a.count() == 0 || b.count() == 0 || self.windows() < WINDOWS_TOUCHED {
            return None;
        }
        let block = self.block(&[0.5, 0.9, 0.99]);
        let percents: Vec<f64> = percents
            .iter()
            .copied()
            .filter(|percent| a.count().min(b.count()) as f64 * (1.0 - percent / 100.0) >= 10.0)
            .collect();
        let mut bins: Vec<u16> = a.bins.iter().chain(&b.bins).copied().collect();
        bins.sort_unstable();
        bins.dedup();
        let place = |run: &Windows| -> Vec<Vec<(u32, u32)>> {
            let at = |bin: &u16| bins.binary_search(bin).expect("the union has it") as u32;
            let window = |one: &Sparse| one.bins.iter().map(|(bin, count)| (at(bin), *count)).collect();
            run.sparse.iter().map(window).collect()
        };
        let (placed_a, placed_b) = (place(a), place(b));
        let sum = |windows: &[Vec<(u32, u32)>], times: &[u32]| {
            let mut counts = vec![0u64; bins.len()];
            for (window, &times) in windows.iter().zip(times).filter(|(_, times)| **times > 0) {
                window.iter().for_each(|&(at, count)| counts[at as usize] += u64::from(times * count));
            }
            counts
        };
        let of = |resample: Option<usize>| {
            let draw = |k: usize, stream: u64| match resample {
                None => vec![1; k],
                Some(resample) => {
                    let key = mix(self.seed ^ mix(resample as u64));
                    let key = if self.paired { key } else { mix(key ^ mix(stream + 7)) };
                    let mut times = vec![0; k];
                    circular_blocks(k, block, key).into_iter().for_each(|window| times[window] += 1);
                    times
                }
            };
            describe(&bins, &sum(&placed_a, &draw(a.len(), 0)), &sum(&placed_b, &draw(b.len(), 1)), &percents)
        };
        let whole = of(None);
        let resampled = in_parallel(SHAPE_RESAMPLES, |resample| of(Some(resample)));
        let (widening, degrees) = self.widening(block);
        let single = |pick: &dyn Fn(&Description) -> f64| {
            estimate(pick(&whole), resampled.iter().map(pick).collect(), widening, degrees)
        };
        // How far off the worst percentile of a resample is, in standard errors: the band holds 95 %.
        let deviation = |index: usize, one: &Description| one.ratio(index) - whole.ratio(index);
        let error = |index: usize| {
            let squares: f64 = resampled.iter().map(|one| deviation(index, one).powi(2)).sum();
            (squares / SHAPE_RESAMPLES as f64).sqrt()
        };
        let errors: Vec<f64> = (0..percents.len()).map(error).collect();
        let worst = |one: &Description| {
            let off = |index: usize| deviation(index, one).abs() / errors[index].max(1e-12);
            (0..percents.len()).map(off).fold(0.0, f64::max)
        };
        let mut worst: Vec<f64> = resampled.iter().map(worst).collect();
        worst.sort_by(f64::total_cmp);
        let reach = widening * worst[SHAPE_RESAMPLES * 95 / 100 - 1];
        let points = (0..percents.len())
            .map(|index| {
                let value = whole.ratio(index);
                let half = reach * errors[index];
                (percents[index], whole.a[index], whole.b[index], [value, value - half, value + half])
            })
            .collect();
        Some(ShapeEstimate {
            points,
            ks: single(&|one| one.ks),
            wasserstein: single(&|one| one.wasserstein),
            a12: single(&|one| one.a12),
        })
    }
}

/// What [`Sides::shape`] finds.
pub struct ShapeEstimate {
    /// Percent, ln of both percentiles, ln ratio with the lower and upper end of the simultaneous band.
    pub points: Vec<(f64, f64, f64, [f64; 3])>,
    /// Kolmogorov–Smirnov distance.
    pub ks: LogRatio,
    /// 1-Wasserstein distance of the logarithms.
    pub wasserstein: LogRatio,
    /// Vargha–Delaney A.
    pub a12: LogRatio,
}

struct Description {
    a: Vec<f64>,
    b: Vec<f64>,
    ks: f64,
    wasserstein: f64,
    a12: f64,
}

impl Description {
    fn ratio(&self, index: usize) -> f64 {
        self.b[index] - self.a[index]
    }
}

fn describe(bins: &[u16], a: &[u64], b: &[u64], percents: &[f64]) -> Description {
    let ln_quantiles = |counts: &[u64]| -> Vec<f64> {
        let total: u64 = counts.iter().sum();
        let (mut below, mut row) = (0u64, 0);
        let of = |percent: &f64| {
            let target = percent / 100.0 * total as f64;
            while ((below + counts[row]) as f64) < target && row + 1 < counts.len() {
                below += counts[row];
                row += 1;
            }
            let place = (target - below as f64 - 0.5) / (counts[row] as f64).max(1.0);
            value_within(bins[row], place.clamp(0.0, 1.0)).max(1.0).ln()
        };
        percents.iter().map(of).collect()
    };
    let (all_a, all_b) = (a.iter().sum::<u64>() as f64, b.iter().sum::<u64>() as f64);
    let (mut up_to_a, mut up_to_b, mut ks, mut wasserstein, mut a12) = (0.0, 0.0, 0f64, 0.0, 0.0);
    let ln = |row: usize| value_within(bins[row], 0.5).max(1.0).ln();
    for row in 0..bins.len() {
        let (share_a, share_b) = (a[row] as f64 / all_a, b[row] as f64 / all_b);
        a12 += share_a * (up_to_b + share_b / 2.0);
        up_to_a += share_a;
        up_to_b += share_b;
        let apart = f64::abs(up_to_a - up_to_b);
        ks = ks.max(apart);
        if row + 1 < bins.len() {
            wasserstein += apart * (ln(row + 1) - ln(row));
        }
    }
    Description { a: ln_quantiles(a), b: ln_quantiles(b), ks, wasserstein, a12 }
}

/// A bootstrap of n independent blocks sees (n − 1)/n of their variance, and takes its own estimate of it
/// for the truth.
fn of_few_blocks(blocks: f64) -> f64 {
    if blocks >= 60.0 {
        return 1.0;
    }
    let blocks = blocks.max(2.0);
    student_t(blocks - 1.0) / 1.96 * (blocks / (blocks - 1.0)).sqrt()
}

/// The percentile interval of a bootstrap around its estimate, widened.
fn estimate(value: f64, mut drawn: Vec<f64>, widening: f64, degrees: f64) -> LogRatio {
    drawn.sort_by(f64::total_cmp);
    let n = drawn.len();
    let mean = drawn.iter().sum::<f64>() / n as f64;
    let variance = drawn.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let at = |share: f64| drawn[((share * n as f64) as usize).min(n - 1)];
    let (below, above) = ((value - at(0.025)).max(0.0), (at(0.975) - value).max(0.0));
    LogRatio {
        value,
        low: value - widening * below,
        high: value + widening * above,
        error: widening * variance.sqrt(),
        degrees,
    }
}

/// The Hodges–Lehmann pseudo-median of one number per window (the median of the means of all pairs),
/// with its interval by block bootstrap. None with too few windows.
pub fn pseudo_median(values: &[f64], seed: u64) -> Option<LogRatio> {
    let k = values.len();
    if k < WINDOWS_TOUCHED {
        return None;
    }
    let value = hodges_lehmann(values.to_vec());
    let block = block_length(&[values]);
    let drawn = in_parallel(RESAMPLES, |resample| {
        let drawn = circular_blocks(k, block, mix(seed ^ mix(resample as u64)));
        hodges_lehmann(drawn.into_iter().map(|index| values[index]).collect())
    });
    let blocks = k as f64 / block as f64;
    Some(estimate(value, drawn, of_few_blocks(blocks), blocks))
}

/// Found by halving: of k numbers there are k²/2 pairs, but counting those below a limit takes k steps.
fn hodges_lehmann(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let k = values.len();
    let wanted = (k * (k + 1) / 2).div_ceil(2);
    let pairs_up_to = |limit: f64| {
        let (mut count, mut partner) = (0, k);
        for (index, value) in values.iter().enumerate() {
            while partner > 0 && values[partner - 1] + value > 2.0 * limit {
                partner -= 1;
            }
            count += partner.saturating_sub(index);
        }
        count
    };
    let (mut low, mut high) = (values[0], values[k - 1]);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if high - low < 1e-9 || middle <= low || middle >= high {
            break;
        }
        if pairs_up_to(middle) >= wanted { high = middle } else { low = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::sparse::Filling;

    fn filled(windows: &[Vec<u64>]) -> Windows {
        let mut filling = Filling::default();
        let of = |values: &Vec<u64>| {
            values.iter().for_each(|&value| filling.record(value));
            filling.take()
        };
        Windows::new(windows.iter().map(of).collect())
    }

    fn exponential(seed: u64, windows: usize, per_window: usize, mean_ns: f64) -> Vec<Vec<u64>> {
        let mut random = Stream::from_key(seed);
        let mut one = || (-mean_ns * (1.0 - random.unit()).ln()) as u64;
        (0..windows).map(|_| (0..per_window).map(|_| one()).collect()).collect()
    }

    #[test]
    fn quantiles_of_drawn_windows_agree_with_sorting() {
        let values = exponential(1, 20, 50, 1e6);
        let windows = filled(&values);
        for key in 0..20 {
            let drawn = blocks(20, 3, key);
            let mut all: Vec<u64> =
                drawn.iter().cloned().flatten().flat_map(|at| values[at].clone()).collect();
            assert_eq!(all.len(), 20 * 50);
            all.sort_unstable();
            for (q, mut guess) in [(0.01, 0), (0.5, 3), (0.9, 900), (0.99, 1_000_000), (0.999, 0)] {
                let found = windows.ln_quantile(&drawn, q, &mut guess).unwrap().exp();
                let exact = all[(q * all.len() as f64).ceil() as usize - 1] as f64;
                assert!((found / exact - 1.0).abs() < 1.0 / 500.0, "{key} {q}: {found} {exact}");
            }
        }
    }

    #[test]
    fn a_shared_cost_cancels_out_of_the_ratio_when_paired() {
        // Both sides: the same cost per op; the other takes 3 % longer, and a little noise.
        let base = exponential(2, 60, 200, 1e6);
        let mut random = Stream::from_key(3);
        let mut noisy = |factor: f64| -> Vec<Vec<u64>> {
            let mut one = |value: &u64| (*value as f64 * factor * (0.97 + 0.06 * random.unit())) as u64;
            base.iter().map(|window| window.iter().map(&mut one).collect::<Vec<u64>>()).collect::<Vec<_>>()
        };
        let (a, b) = (filled(&noisy(1.0)), filled(&noisy(1.03)));
        let (a, b) = ([a], [b]);
        let of = |paired: bool| {
            let sides = Sides { baseline: &a, other: &b, paired, seed: 9 };
            sides.ratios(&[0.5, 0.99]).into_iter().map(Option::unwrap).collect::<Vec<_>>()
        };
        let (paired, apart) = (of(true), of(false));
        assert_eq!(of(true), paired, "the same seed, the same answer");
        assert!(paired[0].low > 0.02 && paired[0].high < 0.04, "{:?}", paired[0]);
        assert!(apart[0].low < 0.0 && 0.0 < apart[0].high, "{:?}", apart[0]);
    }

    #[test]
    fn too_few_slow_ops_have_no_ratio() {
        let windows = [filled(&exponential(4, 30, 20, 1e6))];
        let sides = Sides { baseline: &windows, other: &windows, paired: true, seed: 1 };
        let ratios = sides.ratios(&[0.5, 0.999]);
        assert_eq!(ratios[0].map(|one| (one.value, one.low, one.high)), Some((0.0, 0.0, 0.0)));
        assert_eq!(ratios[1], None);
    }

    #[test]
    fn the_pseudo_median_is_the_median_of_all_pairs() {
        let mut random = Stream::from_key(5);
        for k in [1, 2, 3, 10, 31] {
            let values: Vec<f64> = (0..k).map(|_| random.unit()).collect();
            let mut pairs: Vec<f64> = Vec::new();
            for (index, one) in values.iter().enumerate() {
                pairs.extend(values[index..].iter().map(|other| (one + other) / 2.0));
            }
            pairs.sort_by(f64::total_cmp);
            let expected = pairs[pairs.len().div_ceil(2) - 1];
            assert!((hodges_lehmann(values) - expected).abs() < 1e-8, "{k}");
        }
    }

    #[test]
    fn blocks_are_as_long_as_the_memory_of_a_series() {
        let mut random = Stream::from_key(6);
        let independent: Vec<f64> = (0..400).map(|_| random.unit()).collect();
        let mut state = 0.0;
        let remembering: Vec<f64> = (0..400)
            .map(|_| {
                state = 0.9 * state + random.unit() - 0.5;
                state
            })
            .collect();
        assert_eq!(block_length(&[&independent]), 8, "the floor");
        assert!(block_length(&[&remembering]) >= 15, "{}", block_length(&[&remembering]));
        assert_eq!(block_length(&[&[0.0; 4]]), 1);
        assert_eq!(circular_blocks(5, 3, 1).len(), 5);
    }

    #[test]
    fn identical_distributions_have_no_distance() {
        let a = [filled(&exponential(7, 40, 200, 1e6))];
        let b = [filled(&exponential(8, 40, 200, 2e6))];
        let sides = |other| Sides { baseline: &a, other, paired: false, seed: 1 };
        let same = sides(&a).shape(&[50.0, 99.0]).unwrap();
        assert_eq!((same.ks.value, same.wasserstein.value), (0.0, 0.0));
        assert!((same.a12.value - 0.5).abs() < 1e-9);
        let twice = sides(&b).shape(&[50.0, 99.0, 99.99]).unwrap();
        assert_eq!(twice.points.len(), 2, "p99.99 of 8000 ops is left out");
        // Exponential: F(x) and F(x/2) differ most by 1/4, and the mean ln ratio is ln 2.
        assert!((twice.ks.value - 0.25).abs() < 0.02);
        assert!((twice.wasserstein.value - 2f64.ln()).abs() < 0.04);
        // A random op of the baseline is the slower one in 1 of 3 cases.
        assert!((twice.a12.value - 1.0 / 3.0).abs() < 0.02);
        assert!(twice.points.iter().all(|(_, _, _, [_, low, high])| *low < 2f64.ln() && 2f64.ln() < *high));
    }
}
