//! The loaded records one after the other. YCSB's threads share a counter; here the number of the
//! choice says it all, so chunks can be made in any order. The first is the first record loaded, as
//! in YCSB (go-ycsb begins with the second).

use super::{Distribution, Horizon, Positions};
use crate::rng::Stream;

/// The request distribution `sequential`.
pub struct Sequential(Positions);

impl Sequential {
    /// Over the loaded records.
    pub fn new(positions: Positions) -> Sequential {
        Sequential(positions)
    }
}

impl Distribution for Sequential {
    fn next(&mut self, _rng: &mut Stream, horizon: Horizon) -> u64 {
        self.0.keynum(horizon.choices % self.0.loaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_ycsbs_order() {
        let mut sequential = Sequential::new(Positions { start: 0, loaded: 5, first_insert: 5 });
        for line in include_str!("../../../tests/golden/vectors/sequential.csv").lines().skip(2) {
            let row: Vec<u64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
            let horizon = Horizon { choices: row[0], last: 4 };
            assert_eq!(sequential.next(&mut Stream::from_key(1), horizon), row[1]);
        }
    }
}
