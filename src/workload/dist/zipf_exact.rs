//! Zipf's law itself, for any exponent ≥ 0: rank r (from 1) has weight 1/r^theta, exactly.
//!
//! The method is rejection-inversion (Hörmann and Derflinger 1996, "Rejection-inversion to generate
//! variates from monotone discrete distributions"): invert the integral of the law, round, and
//! reject the little that lies outside. No table and no sum, so a table of 10¹⁰ rows starts as
//! quickly as one of ten. Popular ranks are then spread over the table by a [`Scatter`], a bijection:
//! unlike a hash it adds no collisions, so the k-th hottest record has exactly the k-th share.

use super::{Distribution, Horizon, Positions, Scatter};
use crate::rng::Stream;
use crate::workload::WorkloadSpec;

/// Draws ranks by Zipf's law.
#[derive(Debug, Clone)]
pub struct ZipfExact {
    items: u64,
    theta: f64,
    integral_first: f64,
    integral_last: f64,
    sure: f64,
}

impl ZipfExact {
    /// Over `items` ≥ 1 ranks with exponent `theta` ≥ 0; constant time.
    pub fn new(items: u64, theta: f64) -> ZipfExact {
        let mut zipf = ZipfExact { items, theta, integral_first: 0.0, integral_last: 0.0, sure: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(items as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// The same law over another number of ranks.
    #[inline]
    pub fn resize(&mut self, items: u64) {
        if items != self.items {
            self.items = items;
            self.integral_last = self.integral(items as f64 + 0.5);
        }
    }

    /// 0-based rank.
    #[inline]
    pub fn rank(&self, rng: &mut Stream) -> u64 {
        loop {
            let area = self.integral_last + rng.unit() * (self.integral_first - self.integral_last);
            let x = self.inverse(area);
            let rank = ((x + 0.5) as u64).clamp(1, self.items);
            let k = rank as f64;
            if k - x <= self.sure || area >= self.integral(k + 0.5) - self.weight(k) {
                return rank - 1;
            }
        }
    }

    /// x^−theta.
    #[inline]
    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// The integral of the weight from 1 to x: (x^(1−theta) − 1)/(1−theta), or ln x.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let scaled = (1.0 - self.theta) * log;
        // expm1(z)/z, by its series near 0 where the quotient loses everything.
        let ratio = if scaled.abs() > 1e-8 {
            libm::expm1(scaled) / scaled
        } else {
            1.0 + scaled * 0.5 * (1.0 + scaled / 3.0)
        };
        ratio * log
    }

    /// The x whose [`ZipfExact::integral`] this is.
    #[inline]
    fn inverse(&self, area: f64) -> f64 {
        // Rounding can put the argument a hair below the domain of the logarithm.
        let scaled = (area * (1.0 - self.theta)).max(-1.0);
        let ratio = if scaled.abs() > 1e-8 {
            libm::log1p(scaled) / scaled
        } else {
            1.0 - scaled * (0.5 - scaled / 3.0)
        };
        libm::exp(ratio * area)
    }
}

/// The request distribution `zipfian` with `zipf=exact`.
pub struct ExactZipfian {
    ranks: ZipfExact,
    scatter: Scatter,
    positions: Positions,
}

impl ExactZipfian {
    /// Over the loaded records and those expected to be inserted.
    pub fn new(spec: &WorkloadSpec) -> ExactZipfian {
        let positions = Positions::of(spec);
        let items = positions.loaded.saturating_add(spec.expected_new_keys());
        let ranks = ZipfExact::new(items, spec.zipfian_constant);
        ExactZipfian { ranks, scatter: Scatter::new(items), positions }
    }
}

impl Distribution for ExactZipfian {
    fn next(&mut self, rng: &mut Stream, horizon: Horizon) -> u64 {
        let draw = || self.scatter.place(self.ranks.rank(rng));
        self.positions.keynum(super::redraw_until_existing(self.positions.existing(horizon.last), draw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::dist::zeta;

    fn shares(items: u64, theta: f64, draws: u64) -> Vec<u64> {
        let zipf = ZipfExact::new(items, theta);
        let mut counts = vec![0u64; items as usize];
        let mut rng = Stream::from_key(11);
        for _ in 0..draws {
            counts[zipf.rank(&mut rng) as usize] += 1;
        }
        counts
    }

    #[test]
    fn shares_follow_the_law_for_every_exponent() {
        for theta in [0.0, 0.2, 0.5, 0.99, 1.0, 1.0 + 1e-10, 1.2, 2.0, 5.0] {
            let draws = 200_000;
            let total = zeta(100, theta);
            let mut chi_square = 0.0;
            let mut cells = 0;
            for (rank, &count) in shares(100, theta, draws).iter().enumerate() {
                let expected = draws as f64 / (rank as f64 + 1.0).powf(theta) / total;
                if expected >= 5.0 {
                    chi_square += (count as f64 - expected).powi(2) / expected;
                    cells += 1;
                }
            }
            let freedom = f64::from(cells - 1);
            assert!(
                chi_square < freedom + 4.5 * (2.0 * freedom).sqrt(),
                "theta {theta}: {chi_square} of {freedom}"
            );
        }
    }

    #[test]
    fn huge_and_tiny_ranges_stay_inside() {
        for items in [1, 2, 3, 10_000_000_000, 1 << 52] {
            for theta in [0.0, 0.99, 1.0, 1.2, 30.0] {
                let zipf = ZipfExact::new(items, theta);
                let mut rng = Stream::from_key(items);
                assert!((0..10_000).all(|_| zipf.rank(&mut rng) < items), "{items} {theta}");
            }
        }
    }
}
