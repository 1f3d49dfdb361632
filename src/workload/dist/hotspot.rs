//! A share of the requests goes to a share of the records. The hot set is the *lowest* numbers:
//! neighbours as numbers, scattered in the table if keys are hashed.

use super::{Distribution, Horizon, Positions};
use crate::rng::Stream;

/// The request distribution `hotspot`: run-phase inserts are never drawn, as in YCSB.
pub struct Hotspot {
    positions: Positions,
    hot: u64,
    hot_op_fraction: f64,
}

impl Hotspot {
    /// `hot_data_fraction` of the loaded records get `hot_op_fraction` of the requests.
    pub fn new(positions: Positions, hot_data_fraction: f64, hot_op_fraction: f64) -> Hotspot {
        let hot = hot_records(positions.loaded, hot_data_fraction);
        Hotspot { positions, hot, hot_op_fraction }
    }

    /// The position for `u` in [0, 1); `below(n)` draws evenly from [0, n).
    #[inline]
    pub fn draw(&self, u: f64, below: impl FnOnce(u64) -> u64) -> u64 {
        if u < self.hot_op_fraction {
            below(self.hot)
        } else {
            self.hot + below(self.positions.loaded - self.hot)
        }
    }
}

/// How many of `records` are hot.
pub(in crate::workload) fn hot_records(records: u64, hot_data_fraction: f64) -> u64 {
    ((records as f64 * hot_data_fraction) as u64).min(records)
}

impl Distribution for Hotspot {
    fn next(&mut self, rng: &mut Stream, _horizon: Horizon) -> u64 {
        let u = rng.unit();
        self.positions.keynum(self.draw(u, |count| rng.below(count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_ycsbs() {
        for line in include_str!("../../../tests/golden/vectors/hotspot_u_raw_item.csv").lines().skip(2) {
            let row: Vec<&str> = line.split(',').collect();
            let (lower, upper): (u64, u64) = (row[2].parse().unwrap(), row[3].parse().unwrap());
            let positions = Positions { start: lower, loaded: upper - lower + 1, first_insert: upper + 1 };
            let hotspot = Hotspot::new(positions, row[4].parse().unwrap(), row[5].parse().unwrap());
            // YCSB's map from a raw number to a range, instead of our unbiased one.
            let raw: i64 = row[1].parse().unwrap();
            let ycsb_map = |count: u64| (raw.wrapping_abs() % count.cast_signed()).unsigned_abs();
            let item = positions.keynum(hotspot.draw(row[0].parse().unwrap(), ycsb_map));
            assert_eq!(item.to_string(), row[6], "{line}");
        }
    }
}
