//! How long? Lengths of values (bytes) and of scans (rows).

use super::{Histogram, Zipfian};
use crate::rng::Stream;

/// A rule that draws lengths.
#[derive(Debug, Clone)]
pub enum LengthDraw {
    /// Always the same; takes no random number.
    Constant(u32),
    /// Evenly from `low` to `high`, both inclusive.
    Uniform {
        /// Shortest.
        low: u32,
        /// Longest.
        high: u32,
    },
    /// From `low` to `high`, short ones favoured by YCSB's zipfian.
    Zipfian {
        /// Shortest and most frequent.
        low: u32,
        /// Longest.
        high: u32,
        /// Over `high - low + 1` ranks.
        ranks: Zipfian,
    },
    /// By a histogram file.
    Histogram(Histogram),
}

impl LengthDraw {
    /// The next length.
    #[inline]
    pub fn next(&self, rng: &mut Stream) -> u32 {
        match self {
            LengthDraw::Constant(length) => *length,
            LengthDraw::Uniform { low, high } => rng.between(u64::from(*low), u64::from(*high)) as u32,
            LengthDraw::Zipfian { low, high, ranks } => {
                let span = u64::from(high - low);
                low + ranks.draw(rng.unit(), span + 1).min(span) as u32
            }
            LengthDraw::Histogram(histogram) => histogram.length(rng.below(histogram.area())),
        }
    }

    /// The longest it can draw.
    pub fn longest(&self) -> u32 {
        match self {
            LengthDraw::Constant(length) => *length,
            LengthDraw::Uniform { high, .. } | LengthDraw::Zipfian { high, .. } => *high,
            LengthDraw::Histogram(histogram) => histogram.longest(),
        }
    }
}
