//! Random numbers that stay the same in five years and on every machine.
//!
//! A trace is a pure function of (seed, operation index). So there is no generator that lives from
//! one operation to the next: every draw comes from a short stream named by *purpose* and *index*,
//! and drawing once more for a key moves no value, no length and no arrival time. Threads and
//! shards cannot change the result, because nothing is shared.
//!
//! The generator is SplitMix64, which `rand_xoshiro` promises to keep value-stable; the maps from
//! bits to integers and floats are our own, because those of libraries change between versions.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What a stream of random numbers is for. The numbers are part of every trace's definition: never
/// reuse or change one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Which kind of operation.
    Kind = 1,
    /// Which record.
    Key = 2,
    /// Which field of a single-field read or write.
    Field = 3,
    /// Length of each value.
    Length = 4,
    /// Bytes of the values.
    Value = 5,
    /// Gap to the next arrival.
    Arrival = 6,
    /// Rows asked for by a scan.
    ScanLength = 7,
    /// Jitter of a back-off.
    Backoff = 8,
    /// Service times of the simulated database.
    Service = 9,
    /// Which transaction of a transactional workload.
    Transaction = 20,
    /// Numbers in the statements of a transaction: tables, rows, values.
    StatementNumber = 21,
    /// Texts in the statements of a transaction.
    StatementText = 22,
    /// Order of unique numbers.
    Unique = 23,
}

/// Mixes 64 bits so that every input bit moves half of the output bits (Stafford's variant 13 of
/// MurmurHash3's finaliser). A bijection.
#[inline]
pub const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The streams of one purpose under one seed, for whoever draws from many of them.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    key: u64,
}

impl Streams {
    /// Those of `purpose` under `seed`.
    #[inline]
    pub fn of(seed: u64, purpose: Purpose) -> Streams {
        Streams { key: mix(seed ^ (purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) }
    }

    /// The one for operation (or record, or session) `index`.
    #[inline]
    pub fn at(self, index: u64) -> Stream {
        Stream::from_key(mix(self.key.wrapping_add(mix(index))))
    }
}

/// A stream of random numbers for one purpose at one index.
#[derive(Debug, Clone)]
pub struct Stream(SplitMix64);

impl Stream {
    /// The stream of `purpose` for operation (or record, or session) `index` under `seed`.
    #[inline]
    pub fn at(seed: u64, purpose: Purpose, index: u64) -> Stream {
        Streams::of(seed, purpose).at(index)
    }

    /// The stream that a ready-mixed 64-bit key stands for, e.g. the `value_seed` of a trace row.
    #[inline]
    pub fn from_key(key: u64) -> Stream {
        Stream(SplitMix64::from_seed(key.to_le_bytes()))
    }

    /// 64 uniform bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform double in [0, 1): the upper 53 bits, as Java's and Go's generators do it.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform integer in [0, `bound`), without bias (Lemire's multiply-and-reject).
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random integer needs a non-empty range");
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// A uniform integer in [`low`, `high`], both inclusive.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match (high - low).checked_add(1) {
            Some(span) => low + self.below(span),
            None => self.bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These numbers are what "same seed" means. If this test fails, every trace changes.
    #[test]
    fn the_streams_are_pinned() {
        let mut stream = Stream::at(1, Purpose::Key, 0);
        let drawn = [stream.bits(), stream.bits(), stream.below(1000), stream.between(5, 9)];
        assert_eq!(drawn, [4968291016108700782, 9025214937573612735, 178, 6]);
        assert_eq!(Stream::at(1, Purpose::Key, 1).unit(), 0.20363986031685566);
    }

    #[test]
    fn purposes_indices_and_seeds_give_different_streams() {
        let first = Stream::at(1, Purpose::Key, 7).bits();
        assert_ne!(first, Stream::at(1, Purpose::Kind, 7).bits());
        assert_ne!(first, Stream::at(1, Purpose::Key, 8).bits());
        assert_ne!(first, Stream::at(2, Purpose::Key, 7).bits());
        assert_eq!(first, Stream::at(1, Purpose::Key, 7).bits());
    }

    #[test]
    fn integers_cover_their_range_evenly() {
        let mut counts = [0u32; 7];
        for index in 0..70_000 {
            counts[Stream::at(1, Purpose::Field, index).below(7) as usize] += 1;
        }
        // 10,000 expected each, standard deviation 93.
        assert!(counts.iter().all(|&count| (9_600..10_400).contains(&count)), "{counts:?}");
        assert_eq!(Stream::from_key(3).between(4, 4), 4);
        Stream::from_key(3).between(0, u64::MAX);
    }
}
