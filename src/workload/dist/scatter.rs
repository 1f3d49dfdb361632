//! Spreads popular ranks over the table: a bijection of [0, n) that looks random and depends on n
//! alone, so the hot records of a workload are the same under every seed.
//!
//! It is a small Feistel network on the bits of n − 1. A result beyond the range is sent through
//! again until it falls inside (cycle walking), which keeps it a bijection; fewer than two rounds
//! of that are expected.

use crate::rng::mix;

/// A fixed shuffle of [0, `items`).
#[derive(Debug, Clone)]
pub struct Scatter {
    items: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
}

impl Scatter {
    /// For `items` ≥ 1.
    pub fn new(items: u64) -> Scatter {
        let bits = (64 - (items - 1).leading_zeros()).max(2);
        let low_bits = bits / 2;
        let mask = |bits: u32| (1u64 << bits) - 1;
        Scatter { items, low_bits, low_mask: mask(low_bits), high_mask: mask(bits - low_bits) }
    }

    /// Where `rank` goes.
    #[inline]
    pub fn place(&self, rank: u64) -> u64 {
        let mut place = rank;
        loop {
            let (mut low, mut high) = (place & self.low_mask, place >> self.low_bits);
            for round in [1u64, 3] {
                low ^= mix(high ^ (round << 60)) & self.low_mask;
                high ^= mix(low ^ ((round + 1) << 60)) & self.high_mask;
            }
            place = high << self.low_bits | low;
            if place < self.items {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        for items in [1, 2, 3, 4, 5, 7, 8, 9, 1000, 1024, 1025, 65_537] {
            let scatter = Scatter::new(items);
            let mut places: Vec<u64> = (0..items).map(|rank| scatter.place(rank)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..items), "{items} items");
        }
    }

    #[test]
    fn neighbours_part() {
        let scatter = Scatter::new(1_000_000);
        let mut hot: Vec<u64> = (0..1000).map(|rank| scatter.place(rank)).collect();
        hot.sort_unstable();
        // 1,000 evenly random places of a million: about 1 % of 100 equal parts hold fewer than 2.
        let fullest = hot.chunk_by(|a, b| a / 10_000 == b / 10_000).map(<[u64]>::len).max().unwrap();
        assert!((11..30).contains(&fullest), "{fullest} of the hottest 1,000 in one hundredth of the table");
    }
}
