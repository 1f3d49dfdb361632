//! The random numbers of sysbench (1.0, `sb_rand.c`): one rule for the whole workload, chosen by
//! `rand-type`, that draws from any range. Its formulas, over our pinned streams; a test compares what
//! they draw with what the real program draws.
//!
//! They are ranges, not popularity ranks: the hot rows of `special` and `gaussian` are in the middle
//! of a table, those of `pareto` and `zipfian` at its beginning, next to each other.

use super::options::Options;
use super::{Place, Trouble};
use crate::rng::Stream;
use crate::workload::dist::ZipfExact;

/// A rule that draws from a range.
#[derive(Debug, Clone)]
pub enum Rand {
    /// Every number alike.
    Uniform,
    /// The mean of several uniform numbers.
    Gaussian {
        /// How many (`rand-spec-iter`).
        iterations: u32,
    },
    /// A share of the draws falls on a small part in the middle, the rest is gaussian.
    Special {
        /// Iterations of the gaussian part (`rand-spec-iter`).
        iterations: u32,
        /// Size of the special part, percent of the range (`rand-spec-pct`).
        part_percent: f64,
        /// Draws that fall on it, percent (`rand-spec-res`).
        draws_percent: f64,
    },
    /// 80:20 and the like.
    Pareto {
        /// ln h / ln (1 − h) for `rand-pareto-h`.
        power: f64,
    },
    /// Zipf's law over the range, the lowest number first.
    Zipfian {
        /// `rand-zipfian-exp`.
        theta: f64,
    },
}

/// Names of the rules, for messages.
pub const RULES: &str = "uniform, gaussian, special, pareto or zipfian";

impl Rand {
    /// The rule that the options choose.
    pub fn of(options: &Options) -> Result<Rand, Trouble> {
        let percent = |name: &str, most: f64| -> Result<f64, Trouble> {
            let value = options.float(name)?;
            if (0.0..=most).contains(&value) {
                return Ok(value);
            }
            Err(options.wrong(name, &format!("a percentage from 0 to {most}")))
        };
        let iterations = || -> Result<u32, Trouble> {
            match options.int("rand-spec-iter")? {
                n @ 1..=1000 => Ok(n as u32),
                _ => Err(options.wrong("rand-spec-iter", "a number from 1 to 1000")),
            }
        };
        Ok(match options.text("rand-type").as_str() {
            "uniform" => Rand::Uniform,
            "gaussian" => Rand::Gaussian { iterations: iterations()? },
            "special" => Rand::Special {
                iterations: iterations()?,
                part_percent: percent("rand-spec-pct", 100.0)?,
                draws_percent: percent("rand-spec-res", 99.0)?,
            },
            "pareto" => {
                let h = options.float("rand-pareto-h")?;
                if !(h > 0.0 && h < 1.0) {
                    return Err(options.wrong("rand-pareto-h", "a number between 0 and 1, for instance 0.2"));
                }
                Rand::Pareto { power: libm::log(h) / libm::log(1.0 - h) }
            }
            "zipfian" => {
                let theta = options.float("rand-zipfian-exp")?;
                if !(0.0..=100.0).contains(&theta) {
                    return Err(options.wrong("rand-zipfian-exp", "a number from 0 to 100"));
                }
                Rand::Zipfian { theta }
            }
            _ => return Err(options.wrong("rand-type", RULES)),
        })
    }

    /// A number from `low` to `high`, both inclusive.
    pub fn draw(&self, rng: &mut Stream, low: i64, high: i64) -> i64 {
        let span = high.wrapping_sub(low) as u64;
        let width = span as f64;
        let mean = |rng: &mut Stream, iterations: u32| {
            let sum: f64 = (0..iterations).map(|_| rng.unit()).sum();
            sum / f64::from(iterations)
        };
        let offset = match self {
            Rand::Uniform => rng.between(0, span),
            Rand::Gaussian { iterations } => (mean(rng, *iterations) * (width + 1.0)) as u64,
            Rand::Special { iterations, part_percent, draws_percent } => {
                // One number decides which part it is, and where in the special one.
                let choice = rng.unit();
                if choice * (100.0 / (100.0 - draws_percent)) < 1.0 {
                    (mean(rng, *iterations) * width) as u64
                } else {
                    let part = width * part_percent / 100.0;
                    (choice * (part + 1.0) + width / 2.0 - part / 2.0) as u64
                }
            }
            Rand::Pareto { power } => (libm::pow(rng.unit(), *power) * (width + 1.0)) as u64,
            Rand::Zipfian { theta } => ZipfExact::new(span.saturating_add(1), *theta).rank(rng),
        };
        low.wrapping_add(offset.min(span) as i64)
    }
}

/// Nowhere in the file: for troubles of options that were set elsewhere.
pub const NOWHERE: Place = 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean, and share of the hottest percent around the middle, of many draws from 1..=10,000.
    fn moments(rand: &Rand) -> (f64, f64) {
        const DRAWS: u64 = 100_000;
        let mut rng = Stream::from_key(5);
        let draws: Vec<i64> = (0..DRAWS).map(|_| rand.draw(&mut rng, 1, 10_000)).collect();
        assert!(draws.iter().all(|draw| (1..=10_000).contains(draw)));
        let mean = draws.iter().sum::<i64>() as f64 / DRAWS as f64;
        let middle = draws.iter().filter(|draw| (4950..=5051).contains(*draw)).count();
        (mean, middle as f64 / DRAWS as f64)
    }

    #[test]
    fn each_rule_has_its_shape() {
        let (mean, middle) = moments(&Rand::Uniform);
        assert!((mean - 5000.5).abs() < 50.0 && (middle - 0.0102).abs() < 0.002, "{mean} {middle}");
        let (mean, middle) = moments(&Rand::Gaussian { iterations: 12 });
        // The standard deviation of the mean of 12 is 1/12 of the range: 833; density at the mean 0.00048.
        assert!((mean - 5000.5).abs() < 20.0 && (middle - 0.0488).abs() < 0.005, "{mean} {middle}");
        let special = Rand::Special { iterations: 12, part_percent: 1.0, draws_percent: 75.0 };
        let (_, middle) = moments(&special);
        assert!((middle - 0.7622).abs() < 0.01, "{middle}");
        let pareto = Rand::Pareto { power: libm::log(0.2) / libm::log(0.8) };
        let mut rng = Stream::from_key(9);
        let low = (0..50_000).filter(|_| pareto.draw(&mut rng, 1, 10_000) <= 2_000).count();
        assert!((low as f64 / 50_000.0 - 0.8).abs() < 0.01, "80 % of the draws in 20 %: {low}");
        let zipfian = Rand::Zipfian { theta: 0.8 };
        let first = (0..50_000).filter(|_| zipfian.draw(&mut rng, 1, 1_000) == 1).count();
        let share: f64 = (1..=1_000).map(|k| f64::from(k).powf(-0.8)).sum::<f64>().recip();
        assert!((first as f64 / 50_000.0 - share).abs() < 0.01, "{first} of {share}");
    }

    #[test]
    fn a_range_of_one_number_gives_it_and_ends_are_kept() {
        for rand in [
            Rand::Uniform,
            Rand::Gaussian { iterations: 12 },
            Rand::Special { iterations: 12, part_percent: 1.0, draws_percent: 75.0 },
            Rand::Pareto { power: 7.2 },
            Rand::Zipfian { theta: 0.8 },
        ] {
            let mut rng = Stream::from_key(1);
            assert!((0..1000).all(|_| rand.draw(&mut rng, 7, 7) == 7), "{rand:?}");
            assert!((0..1000).all(|_| (-3..=3).contains(&rand.draw(&mut rng, -3, 3))), "{rand:?}");
        }
    }
}
