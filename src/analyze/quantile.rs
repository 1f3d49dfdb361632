//! How can a percentile of 10^8 latencies be exact in a few megabytes?
//!
//! By asking twice. The first scan counts every value in a log-linear histogram over the whole
//! range of `u64` (nothing is clamped): that is enough to know *in which bucket* the value of a
//! given rank lies. The second scan looks at those buckets only, and keeps their values, or, where
//! they hold more values than they are wide, one exact count per value. Buckets of width 1 (all
//! values below 4096 ns) need no second scan, and a bucket that is both wide and crowded is narrowed
//! once more instead of growing: no slot ever holds more than [`SLOT_ENTRIES`] numbers.
//!
//! The percentile is the *nearest rank*: x_q is the smallest value x such that at least the share q
//! of all values is ≤ x. Of n values sorted ascending it is number ⌈q·n⌉, counted from 1. It is
//! always a value that occurred, never an interpolation.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Each power of two is cut into 2^11 = 2048 buckets: relative width at most 1/2048.
const SUB_BITS: u32 = 11;
/// Values below 2^12 have a bucket each; the 52 octaves above have 2048 buckets each.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;
/// Most values, or counts, that are kept for one bucket of one distribution in one scan.
pub const SLOT_ENTRIES: u64 = 1 << 15;

/// A percentile such as 99.9, kept as the decimal number the user wrote: 0.999 has no exact
/// floating-point form, and ⌈0.999 · 1000⌉ must be 999.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percentile {
    text: String,
    numerator: u64,
    denominator: u64,
}

impl Percentile {
    /// The number without superfluous zeros, e.g. `99.9`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// ⌈q·count⌉: which of `count` ascending values it is, counted from 1. `count` must not be 0.
    pub fn rank(&self, count: u64) -> u64 {
        let product = u128::from(self.numerator) * u128::from(count);
        // q ≤ 1, so the rank is at most `count`; the minimum stands for percentile 0.
        (product.div_ceil(u128::from(self.denominator)) as u64).max(1)
    }

    /// From 0 to 1.
    pub fn share(&self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// Is its share of the values at least that of the other?
    pub fn at_least(&self, other: &Percentile) -> bool {
        u128::from(self.numerator) * u128::from(other.denominator)
            >= u128::from(other.numerator) * u128::from(self.denominator)
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for Percentile {
    type Err = String;

    fn from_str(text: &str) -> Result<Percentile, String> {
        let complaint =
            || format!("{text:?} is not a percentile: give numbers from 0 to 100, such as 50 or 99.9");
        let number = text.trim();
        let number = number.strip_prefix(['p', 'P']).unwrap_or(number);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let decimals = decimals.trim_end_matches('0');
        let all_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 3 || decimals.len() > 12 {
            return Err(complaint());
        }
        if !all_digits(whole) || !all_digits(decimals) {
            return Err(complaint());
        }
        let scale = 10u64.pow(decimals.len() as u32);
        let digits: u64 = format!("{whole}{decimals}").parse().map_err(|_| complaint())?;
        if digits > 100 * scale {
            return Err(complaint());
        }
        let whole: u64 = whole.parse().map_err(|_| complaint())?;
        let text = if decimals.is_empty() { whole.to_string() } else { format!("{whole}.{decimals}") };
        Ok(Percentile { text, numerator: digits, denominator: 100 * scale })
    }
}

/// The bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    let octave = 63 - (value | (1 << SUB_BITS)).leading_zeros();
    let shift = octave - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The values `low ..= low + (width − 1)`; the width is a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    low: u64,
    width: u64,
}

impl Range {
    fn of_bucket(bucket: usize) -> Range {
        let shift = ((bucket >> SUB_BITS) as u32).saturating_sub(1);
        let low = ((bucket - ((shift as usize) << SUB_BITS)) as u64) << shift;
        Range { low, width: 1 << shift }
    }

    /// Width of the parts that a full slot is cut into.
    fn part_width(self) -> u64 {
        (self.width / SLOT_ENTRIES).max(1)
    }

    fn parts(self) -> usize {
        (self.width / self.part_width()) as usize
    }

    fn part(self, index: usize) -> Range {
        let width = self.part_width();
        Range { low: self.low + index as u64 * width, width }
    }
}

/// How many values lie in each bucket, and the exact count, sum, smallest and largest of them.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// Empty until the first value; then zeroed, so that pages nobody touches cost nothing.
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        match self.buckets.get_mut(bucket(value)) {
            Some(bucket) => *bucket += 1,
            None => self.first(value),
        }
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    #[cold]
    fn first(&mut self, value: u64) {
        self.buckets = vec![0; BUCKETS];
        self.buckets[bucket(value)] = 1;
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        for index in bucket(other.min)..=bucket(other.max) {
            self.buckets[index] += other.buckets[index];
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    fn in_bucket(&self, index: usize) -> u64 {
        self.buckets.get(index).copied().unwrap_or(0)
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The value of a percentile, low by less than 1/2048 of itself: for judging, not for reporting.
    pub fn near(&self, percentile: &Percentile) -> Option<u64> {
        let rank = (self.count > 0).then(|| percentile.rank(self.count))?;
        let mut below = 0;
        let reaches = |index: &usize| {
            below += self.buckets[*index];
            below >= rank
        };
        (bucket(self.min)..=bucket(self.max)).find(reaches).map(|index| Range::of_bucket(index).low)
    }

    /// The values of ascending ranks (counted from 1, none beyond the count), as [`near`](Self::near) the
    /// exact ones; the smallest and the largest are exact.
    pub fn near_ranks(&self, ranks: &[u64]) -> Vec<u64> {
        let mut found = Vec::with_capacity(ranks.len());
        let (mut index, mut below) = (bucket(self.min.min(self.max)), 0);
        for &rank in ranks {
            while below + self.buckets[index] < rank {
                below += self.buckets[index];
                index += 1;
            }
            let low = Range::of_bucket(index).low;
            found.push(if rank == self.count { self.max } else { low.clamp(self.min, self.max) });
        }
        found
    }

    /// The bucket that holds the value of a rank (ascending, counted from 1): its smallest and largest
    /// value. None if there are not so many values.
    pub fn bounds(&self, rank: u64) -> Option<(u64, u64)> {
        if rank == 0 || rank > self.count {
            return None;
        }
        let mut below = 0;
        let reaches = |index: &usize| {
            below += self.buckets[*index];
            below >= rank
        };
        let range = Range::of_bucket((bucket(self.min)..=bucket(self.max)).find(reaches)?);
        Some((range.low.max(self.min), (range.low + (range.width - 1)).min(self.max)))
    }

    /// Sum over count, both exact, rounded to the nearest whole number.
    pub fn mean(&self) -> Option<u64> {
        let count = u128::from(self.count);
        (count > 0).then(|| ((self.sum + count / 2) / count) as u64)
    }
}

/// Values wanted from the union of some distributions: of its members, the values of these ranks
/// (ascending order, counted from 1, at most the number of values in all members).
#[derive(Debug, Clone)]
pub struct Request {
    /// Indices of the distributions.
    pub members: Vec<usize>,
    /// Which values.
    pub ranks: Vec<u64>,
}

/// One rank that is not known yet, and what is known about it.
struct Pending {
    request: usize,
    position: usize,
    range: Range,
    /// Rank among the values of the members that lie in the range.
    rank: u64,
    /// Values in the range, per member.
    counts: Vec<u64>,
}

/// Finds the values of the requested ranks in as many further scans as it takes: usually one.
pub struct Selector {
    requests: Vec<Request>,
    answers: Vec<Vec<u64>>,
    pending: Vec<Pending>,
    distributions: usize,
}

impl Selector {
    /// Looks up the buckets of the requested ranks. Every rank must lie within the count of values.
    pub fn new(histograms: &[Histogram], requests: Vec<Request>) -> Selector {
        let mut answers: Vec<Vec<u64>> = Vec::new();
        let mut pending = Vec::new();
        for (request, Request { members, ranks }) in requests.iter().enumerate() {
            answers.push(vec![0; ranks.len()]);
            let mut order: Vec<usize> = (0..ranks.len()).collect();
            order.sort_by_key(|&position| ranks[position]);
            let mut next = order.into_iter().peekable();
            let used = || members.iter().map(|&member| &histograms[member]).filter(|one| one.count > 0);
            let Some(first) = used().map(|one| bucket(one.min)).min() else {
                assert!(next.peek().is_none(), "a rank was requested of no values");
                continue;
            };
            let last = used().map(|one| bucket(one.max)).max().expect("there is a first one");
            let mut below = 0;
            for index in first..=last {
                let here: u64 = used().map(|one| one.buckets[index]).sum();
                while let Some(position) = next.next_if(|&position| ranks[position] <= below + here) {
                    let range = Range::of_bucket(index);
                    if range.width == 1 {
                        answers[request][position] = range.low;
                        continue;
                    }
                    let counts = members.iter().map(|&member| histograms[member].in_bucket(index)).collect();
                    let rank = ranks[position] - below;
                    pending.push(Pending { request, position, range, rank, counts });
                }
                below += here;
            }
            assert!(next.peek().is_none(), "a requested rank exceeds the number of values");
        }
        Selector { requests, answers, pending, distributions: histograms.len() }
    }

    /// Is every value known?
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// What the next scan has to collect; none when every value is known. Each thread of a scan
    /// takes its own.
    pub fn collector(&self) -> Option<Collector> {
        if self.pending.is_empty() {
            return None;
        }
        let mut wanted: Vec<BTreeMap<Range, u64>> = vec![BTreeMap::new(); self.distributions];
        for pending in &self.pending {
            for (&member, &count) in self.requests[pending.request].members.iter().zip(&pending.counts) {
                if count > 0 {
                    wanted[member].insert(pending.range, count);
                }
            }
        }
        Some(Collector { nets: wanted.into_iter().map(Net::new).collect() })
    }

    /// Takes what one scan collected and settles, or narrows down, every open rank. Fails if the
    /// values are not those of the first scan.
    pub fn absorb(&mut self, parts: Vec<Collector>) -> Result<(), ChangedBetweenScans> {
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else { return Ok(()) };
        parts.for_each(|part| all.merge(part));
        for pending in std::mem::take(&mut self.pending) {
            let members = &self.requests[pending.request].members;
            let range = pending.range;
            let part_width = range.part_width();
            let mut parts = vec![0u64; range.parts()];
            let mut values: Option<Vec<u64>> = Some(Vec::new());
            let mut per_member: Vec<Option<&Slot>> = Vec::new();
            for (&member, &count) in members.iter().zip(&pending.counts) {
                let slot = all.nets[member].slot(range).filter(|_| count > 0);
                if slot.map_or(0, Slot::count) != count {
                    return Err(ChangedBetweenScans);
                }
                match slot {
                    None => {}
                    Some(Slot::Values(some)) => {
                        some.iter().for_each(|value| parts[((value - range.low) / part_width) as usize] += 1);
                        if let Some(values) = &mut values {
                            values.extend(some);
                        }
                    }
                    Some(Slot::Counts(some)) => {
                        parts.iter_mut().zip(some).for_each(|(part, count)| *part += count);
                        values = None;
                    }
                }
                per_member.push(slot);
            }
            let answer = &mut self.answers[pending.request][pending.position];
            if let Some(mut values) = values {
                let index = (pending.rank - 1) as usize;
                *answer = *values.select_nth_unstable(index).1;
                continue;
            }
            let mut below = 0;
            let index = parts
                .iter()
                .position(|count| {
                    below += count;
                    below >= pending.rank
                })
                .ok_or(ChangedBetweenScans)?;
            if part_width == 1 {
                *answer = range.low + index as u64;
                continue;
            }
            let part = range.part(index);
            let counts = per_member.iter().map(|slot| slot.map_or(0, |slot| slot.count_in(index, part)));
            let rank = pending.rank - (below - parts[index]);
            self.pending.push(Pending { range: part, rank, counts: counts.collect(), ..pending });
        }
        Ok(())
    }

    /// The values, in the order of the requests and their ranks, once nothing is left to collect.
    pub fn answers(self) -> Vec<Vec<u64>> {
        assert!(self.pending.is_empty(), "there are ranks that need another scan");
        self.answers
    }
}

/// The second scan did not see the values of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedBetweenScans;

/// What a scan keeps: the values that lie in the wanted ranges of each distribution.
pub struct Collector {
    nets: Vec<Net>,
}

impl Collector {
    /// Keeps a value of a distribution if it is wanted.
    #[inline]
    pub fn offer(&mut self, distribution: usize, value: u64) {
        self.nets[distribution].offer(value);
    }

    fn merge(&mut self, other: Collector) {
        for (net, other) in self.nets.iter_mut().zip(other.nets) {
            for (slot, other) in net.slots.iter_mut().zip(other.slots) {
                match (slot, other) {
                    (Slot::Values(values), Slot::Values(more)) => values.extend(more),
                    (Slot::Counts(counts), Slot::Counts(more)) => {
                        counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
                    }
                    _ => unreachable!("collectors of one scan have the same slots"),
                }
            }
        }
    }

    /// The most numbers this collector can come to hold.
    #[cfg(test)]
    fn entries(&self) -> usize {
        let entries = |slot: &Slot| match slot {
            Slot::Values(values) => values.len(),
            Slot::Counts(counts) => counts.len(),
        };
        self.nets.iter().flat_map(|net| &net.slots).map(entries).sum()
    }
}

/// The wanted ranges of one distribution.
struct Net {
    /// Per bucket: 0, or 1 + position of its first range. Empty if nothing is wanted.
    first: Vec<u16>,
    ranges: Vec<Range>,
    slots: Vec<Slot>,
}

enum Slot {
    /// The values themselves, while they are few.
    Values(Vec<u64>),
    /// How many lie in each part of the range.
    Counts(Vec<u64>),
}

impl Slot {
    fn count(&self) -> u64 {
        match self {
            Slot::Values(values) => values.len() as u64,
            Slot::Counts(counts) => counts.iter().sum(),
        }
    }

    fn count_in(&self, index: usize, part: Range) -> u64 {
        match self {
            Slot::Values(values) => {
                values.iter().filter(|&&value| value >= part.low && value - part.low < part.width).count()
                    as u64
            }
            Slot::Counts(counts) => counts[index],
        }
    }
}

impl Net {
    fn new(wanted: BTreeMap<Range, u64>) -> Net {
        let mut net = Net { first: Vec::new(), ranges: Vec::new(), slots: Vec::new() };
        if !wanted.is_empty() {
            net.first = vec![0; BUCKETS];
        }
        for (range, count) in wanted {
            let bucket = bucket(range.low);
            if net.first[bucket] == 0 {
                net.first[bucket] =
                    u16::try_from(net.ranges.len() + 1).expect("fewer than 65,535 percentiles are asked for");
            }
            net.ranges.push(range);
            // Few values: keep them. Otherwise one count per part; a part is one value wide, unless
            // the range is wider than a slot.
            net.slots.push(if count <= range.width.min(SLOT_ENTRIES) {
                Slot::Values(Vec::new())
            } else {
                Slot::Counts(vec![0; range.parts()])
            });
        }
        net
    }

    #[inline]
    fn offer(&mut self, value: u64) {
        let Some(&first) = self.first.get(bucket(value)) else { return };
        if first != 0 {
            self.keep(first as usize - 1, value);
        }
    }

    fn keep(&mut self, first: usize, value: u64) {
        // Ranges ascend and do not overlap; those of one bucket are neighbours.
        let found = self.ranges[first..].partition_point(|range| range.low <= value);
        let Some(index) = (first + found).checked_sub(1).filter(|&index| index >= first) else { return };
        let range = self.ranges[index];
        if value - range.low >= range.width {
            return;
        }
        match &mut self.slots[index] {
            Slot::Values(values) => values.push(value),
            Slot::Counts(counts) => counts[((value - range.low) / range.part_width()) as usize] += 1,
        }
    }

    fn slot(&self, range: Range) -> Option<&Slot> {
        self.ranges.binary_search(&range).ok().map(|index| &self.slots[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64, enough to make test data.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Runs all scans over these distributions; returns the answers, the number of scans after the
    /// first, and the most numbers kept in one.
    fn select(distributions: &[Vec<u64>], requests: Vec<Request>) -> (Vec<Vec<u64>>, usize, usize) {
        let mut histograms = Vec::new();
        for values in distributions {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.record(value));
            histograms.push(histogram);
        }
        let mut selector = Selector::new(&histograms, requests);
        let (mut scans, mut entries) = (0, 0);
        while let Some(first) = selector.collector() {
            scans += 1;
            // Two collectors, as if two threads had shared the rows.
            let mut parts = vec![first, selector.collector().expect("still pending")];
            for (index, values) in distributions.iter().enumerate() {
                values.iter().enumerate().for_each(|(row, &value)| parts[row % 2].offer(index, value));
            }
            entries = entries.max(parts.iter().map(Collector::entries).sum());
            selector.absorb(parts).expect("the values did not change");
        }
        (selector.answers(), scans, entries)
    }

    #[test]
    fn percentiles_are_decimal_numbers() {
        let rank = |text: &str, count| text.parse::<Percentile>().unwrap().rank(count);
        assert_eq!(rank("99.9", 1000), 999);
        assert_eq!(rank("99.9", 1001), 1000);
        assert_eq!(rank("99.99", 10_001), 10_000);
        assert_eq!(rank("50", 10_001), 5001);
        assert_eq!(rank("50", 4), 2);
        assert_eq!(rank("0", 4), 1);
        assert_eq!(rank("100", 4), 4);
        assert_eq!(rank("99.999999999999", u64::MAX), u64::MAX - 184_467);
        let text = |text: &str| text.parse::<Percentile>().map(|one| one.text().to_owned());
        assert_eq!(text(" p99.90 ").unwrap(), "99.9");
        assert_eq!(text("099").unwrap(), "99");
        for wrong in ["", "x", "-1", "100.1", "101", "1e1", "9,9", ".5", "99.9.9", "50.0000000000001"] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
        let parse = |text: &str| text.parse::<Percentile>().unwrap();
        assert!(parse("99.9").at_least(&parse("99")) && !parse("99").at_least(&parse("99.9")));
    }

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_tile_the_whole_range() {
        let mut next = 0u64;
        for index in 0..BUCKETS {
            let range = Range::of_bucket(index);
            assert_eq!(range.low, next);
            assert_eq!(bucket(range.low), index);
            let last = range.low + (range.width - 1);
            assert_eq!(bucket(last), index);
            assert!(range.width == 1 || range.width <= range.low / 2048);
            next = last.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at u64::MAX");
    }

    #[test]
    fn selection_agrees_with_sorting() {
        let mut state = 1;
        for round in 0..60 {
            let distributions: Vec<Vec<u64>> = (0..3)
                .map(|_| {
                    let count = random(&mut state) % 3000;
                    let bits = random(&mut state) % 64;
                    let ties = 1 + random(&mut state) % 1000;
                    (0..count).map(|_| (random(&mut state) >> bits) / ties * ties).collect()
                })
                .collect();
            let mut requests = Vec::new();
            let mut expected = Vec::new();
            for members in [vec![0], vec![1], vec![0, 1, 2], vec![2, 0]] {
                let mut sorted: Vec<u64> =
                    members.iter().flat_map(|&one| distributions[one].clone()).collect();
                sorted.sort_unstable();
                let count = sorted.len() as u64;
                let ranks: Vec<u64> = if count == 0 {
                    Vec::new()
                } else {
                    ["99.9", "0", "50", "90", "100", "37.5", "99"]
                        .map(|text| text.parse::<Percentile>().unwrap().rank(count))
                        .to_vec()
                };
                expected.push(ranks.iter().map(|&rank| sorted[rank as usize - 1]).collect::<Vec<_>>());
                requests.push(Request { members, ranks });
            }
            let (answers, scans, _) = select(&distributions, requests);
            assert_eq!(answers, expected, "round {round}");
            assert!(scans <= 1);
        }
    }

    #[test]
    fn small_values_need_no_second_scan() {
        let values: Vec<u64> = (0..4096).collect();
        let (answers, scans, _) =
            select(&[values], vec![Request { members: vec![0], ranks: vec![1, 2048, 4096] }]);
        assert_eq!((answers, scans), (vec![vec![0, 2047, 4095]], 0));
    }

    #[test]
    fn memory_is_bounded_by_the_width_of_a_bucket() {
        // 100,000 latencies around 1 ms share few buckets, 512 ns wide: counted, not kept.
        let mut state = 2;
        let values: Vec<u64> = (0..100_000).map(|_| 1_000_000 + random(&mut state) % 400).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let (answers, scans, entries) =
            select(&[values], vec![Request { members: vec![0], ranks: vec![50_000, 99_000] }]);
        assert_eq!(answers, vec![vec![sorted[49_999], sorted[98_999]]]);
        assert_eq!(scans, 1);
        assert!(entries <= 2 * 2 * 512, "{entries}");
    }

    #[test]
    fn a_wide_and_crowded_bucket_is_narrowed_once_more() {
        // Around 400 s a bucket is 2^27 ns wide. A second distribution is sparse there.
        let mut state = 3;
        let crowded: Vec<u64> =
            (0..200_000).map(|_| 400_000_000_000 + random(&mut state) % 1_000_000).collect();
        let sparse: Vec<u64> = (0..1000).map(|_| 400_000_000_000 + random(&mut state) % 1_000_000).collect();
        let mut sorted = [crowded.clone(), sparse.clone()].concat();
        sorted.sort_unstable();
        let ranks = vec![1, 77_777, 150_000, 201_000];
        let expected = vec![ranks.iter().map(|&rank| sorted[rank as usize - 1]).collect::<Vec<_>>()];
        let (answers, scans, entries) =
            select(&[crowded, sparse], vec![Request { members: vec![0, 1], ranks }]);
        assert_eq!(answers, expected);
        assert_eq!(scans, 2);
        assert!(entries <= 2 * 2 * 4 * SLOT_ENTRIES as usize, "{entries}");
    }

    #[test]
    fn different_values_in_the_second_scan_are_noticed() {
        let mut histogram = Histogram::default();
        (0..100).for_each(|value| histogram.record(1_000_000 + value));
        let mut selector = Selector::new(&[histogram], vec![Request { members: vec![0], ranks: vec![50] }]);
        let collector = selector.collector().expect("wide bucket");
        assert_eq!(selector.absorb(vec![collector]), Err(ChangedBetweenScans));
    }

    #[test]
    fn the_mean_is_exact_where_sums_exceed_64_bits() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        histogram.record(u64::MAX - 2);
        assert_eq!(histogram.mean(), Some(u64::MAX - 1));
        assert_eq!((histogram.min(), histogram.max()), (Some(u64::MAX - 2), Some(u64::MAX)));
        assert_eq!(Histogram::default().mean(), None);
        assert_eq!(Histogram::default().near(&"50".parse().unwrap()), None);
        let near = histogram.near(&"50".parse().unwrap()).unwrap();
        assert!(near <= u64::MAX - 2 && u64::MAX - near < u64::MAX / 2048);
    }
}
