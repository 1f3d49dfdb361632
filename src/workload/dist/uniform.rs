//! Every loaded record alike.
//!
//! YCSB takes |r| mod n of a signed 64-bit number, which favours small numbers by a part in 2⁶³ and
//! can fall below the range once in 2⁶⁴ draws. We use the unbiased map of [`Stream::below`], so its
//! vectors of raw numbers do not apply; the distribution is the same.

use super::{Distribution, Horizon, Positions};
use crate::rng::Stream;

/// The request distribution `uniform`: run-phase inserts are never drawn, as in YCSB.
pub struct Uniform(Positions);

impl Uniform {
    /// Over the loaded records.
    pub fn new(positions: Positions) -> Uniform {
        Uniform(positions)
    }
}

impl Distribution for Uniform {
    fn next(&mut self, rng: &mut Stream, _horizon: Horizon) -> u64 {
        self.0.keynum(rng.below(self.0.loaded))
    }
}
