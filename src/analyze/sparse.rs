//! Histograms so small that every window of a run can have one: what intervals and comparisons rest
//! on. Buckets are 1/512 of their value wide, nothing is clamped, and only buckets that hold
//! something take memory (6 bytes each).
//!
//! Exact percentiles come from `quantile`; where these histograms give a value, it is placed inside
//! its bucket in proportion, so errors are far below the width.

use std::cmp::Ordering;

/// Each power of two is cut into 2^9 = 512 buckets.
const SUB_BITS: u32 = 9;
/// Buckets over the whole range of `u64`.
pub const BINS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// The bucket of a value.
#[inline]
pub fn bin(value: u64) -> u16 {
    let octave = 63 - (value | (1 << SUB_BITS)).leading_zeros();
    let shift = octave - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as u16
}

/// The smallest value of a bucket, and how many values it has.
#[inline]
pub fn range(bin: u16) -> (u64, u64) {
    let shift = (u32::from(bin) >> SUB_BITS).saturating_sub(1);
    ((u64::from(bin) - (u64::from(shift) << SUB_BITS)) << shift, 1 << shift)
}

/// The value at a place (from 0 to 1) within a bucket.
pub fn value_within(bin: u16, place: f64) -> f64 {
    let (low, width) = range(bin);
    // Values are whole: the only one of a narrow bucket is its lower edge.
    low as f64 + (width - 1) as f64 * place
}

/// Counts per bucket, ascending, without the empty ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sparse {
    /// Bucket and count.
    pub bins: Vec<(u16, u32)>,
    /// All values.
    pub count: u64,
}

impl Sparse {
    /// Adds the values of another.
    pub fn merge(&mut self, other: &Sparse) {
        if other.bins.is_empty() {
            return;
        }
        self.count += other.count;
        if self.bins.last().is_none_or(|(last, _)| *last < other.bins[0].0) {
            self.bins.extend(&other.bins);
            return;
        }
        let ours = std::mem::take(&mut self.bins);
        let theirs = &other.bins;
        self.bins.reserve_exact(ours.len() + theirs.len());
        let (mut at, mut to) = (0, 0);
        while at < ours.len() && to < theirs.len() {
            let ((one, count), (another, more)) = (ours[at], theirs[to]);
            let (bin, sum) = match one.cmp(&another) {
                Ordering::Less => (one, count),
                Ordering::Equal => (one, count + more),
                Ordering::Greater => (another, more),
            };
            self.bins.push((bin, sum));
            at += usize::from(one <= another);
            to += usize::from(another <= one);
        }
        self.bins.extend_from_slice(&ours[at..]);
        self.bins.extend_from_slice(&theirs[to..]);
    }

    /// The values of all of them. Each bucket of each is looked at once, where merging one after the other
    /// would look at those of the sum again for every one.
    pub fn together<'a>(parts: impl Iterator<Item = &'a Sparse> + Clone) -> Sparse {
        let ends = parts.clone().filter_map(|part| Some((part.bins.first()?.0, part.bins.last()?.0)));
        let Some((first, last)) = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))) else {
            return Sparse::default();
        };
        let mut counts = vec![0u32; usize::from(last - first) + 1];
        let mut count = 0;
        for part in parts {
            count += part.count;
            part.bins.iter().for_each(|&(bin, more)| counts[usize::from(bin - first)] += more);
        }
        let bins = (first..=last).zip(counts).filter(|&(_, count)| count > 0).collect();
        Sparse { bins, count }
    }

    /// The value below which the share `q` of all lies; none without values.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let target = q * self.count as f64;
        let mut below = 0.0;
        for &(bin, count) in &self.bins {
            if below + f64::from(count) >= target {
                let place = (target - below - 0.5) / f64::from(count);
                return Some(value_within(bin, place.clamp(0.0, 1.0)).round() as u64);
            }
            below += f64::from(count);
        }
        self.bins.last().map(|(bin, _)| value_within(*bin, 1.0) as u64)
    }

    /// Sum of the natural logarithms of all values (a value of 0 counts as 1).
    pub fn sum_ln(&self) -> f64 {
        self.bins.iter().map(|&(bin, count)| f64::from(count) * value_within(bin, 0.5).max(1.0).ln()).sum()
    }
}

/// A histogram being filled: an array, and which of its places are in use.
#[derive(Default)]
pub struct Filling {
    /// Empty until the first value; then zeroed, so that pages nobody touches cost nothing.
    counts: Vec<u32>,
    used: Vec<u16>,
    total: u64,
}

impl Filling {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bin = bin(value);
        if self.counts.is_empty() {
            self.counts = vec![0; BINS];
        }
        let count = &mut self.counts[usize::from(bin)];
        if *count == 0 {
            self.used.push(bin);
        }
        *count += 1;
        self.total += 1;
    }

    /// What was counted; it is empty afterwards.
    pub fn take(&mut self) -> Sparse {
        self.used.sort_unstable();
        let counts = &mut self.counts;
        let bins =
            self.used.drain(..).map(|bin| (bin, std::mem::take(&mut counts[usize::from(bin)]))).collect();
        Sparse { bins, count: std::mem::take(&mut self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_everything_and_are_narrow() {
        let mut next = 0u64;
        for index in 0..BINS as u32 {
            let (low, width) = range(index as u16);
            assert_eq!(low, next, "bucket {index}");
            assert_eq!((bin(low), bin(low + (width - 1))), (index as u16, index as u16));
            assert!(width == 1 || low / width >= 512);
            next = low.wrapping_add(width);
        }
        assert_eq!(next, 0, "the last bucket ends at 2^64");
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let values: Vec<u64> = (0..5000u64).map(|index| (index * 7919) % 100_003 * 37).collect();
        let fill = |values: &[u64]| {
            let mut filling = Filling::default();
            values.iter().for_each(|&value| filling.record(value));
            filling.take()
        };
        let mut parts = Sparse::default();
        values.chunks(700).for_each(|part| parts.merge(&fill(part)));
        assert_eq!(parts, fill(&values));
        let pieces: Vec<Sparse> = values.chunks(700).map(fill).collect();
        assert_eq!(Sparse::together(pieces.iter()), parts);
        assert_eq!(Sparse::together(std::iter::empty()), Sparse::default());
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for q in [0.01, 0.5, 0.99] {
            let exact = sorted[(q * 5000.0) as usize - 1] as f64;
            let near = parts.quantile(q).unwrap() as f64;
            assert!((near / exact - 1.0).abs() < 1.0 / 500.0, "{q}: {near} {exact}");
        }
        assert_eq!(Sparse::default().quantile(0.5), None);
    }
}
