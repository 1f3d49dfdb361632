//! Zipf's law by age: the newest record is the hottest, the next one half as hot.
//!
//! YCSB's generator asks for as many ranks as there are records *minus one*, so the oldest record is
//! never drawn. The sum under it grows with every insert; a chunk of a trace begins with the sum
//! made from the loaded count in one leap ([`Distribution::seek`]), so it does not matter who made
//! the chunk before.

use super::{Distribution, Horizon, Positions, ZipfExact, Zipfian};
use crate::rng::Stream;

/// The request distribution `latest` as YCSB has it.
pub struct Latest {
    positions: Positions,
    at_start: Zipfian,
    ages: Zipfian,
}

impl Latest {
    /// `ages` is the generator over the loaded records minus one.
    pub fn new(positions: Positions, ages: Zipfian) -> Latest {
        Latest { positions, at_start: ages.clone(), ages }
    }
}

impl Distribution for Latest {
    fn seek(&mut self, last: u64) {
        self.ages = self.at_start.clone();
        self.ages.grow_to(self.positions.existing(last) - 1);
    }

    fn next(&mut self, rng: &mut Stream, horizon: Horizon) -> u64 {
        let newest = self.positions.existing(horizon.last) - 1;
        self.ages.grow_to(newest);
        // A draw one past the end is the oldest record: it exists.
        self.positions.keynum(newest - self.ages.draw(rng.unit(), newest).min(newest))
    }
}

/// The request distribution `latest` by Zipf's law itself, over every record that exists.
pub struct LatestExact {
    positions: Positions,
    ages: ZipfExact,
}

impl LatestExact {
    /// With exponent `theta`.
    pub fn new(positions: Positions, theta: f64) -> LatestExact {
        LatestExact { positions, ages: ZipfExact::new(positions.loaded, theta) }
    }
}

impl Distribution for LatestExact {
    fn next(&mut self, rng: &mut Stream, horizon: Horizon) -> u64 {
        let existing = self.positions.existing(horizon.last);
        self.ages.resize(existing);
        self.positions.keynum(existing - 1 - self.ages.rank(rng))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::dist::zipfian::YCSB_THETA;

    #[test]
    fn items_are_ycsbs_while_the_table_grows() {
        let mut zipfian = Zipfian::new(1, YCSB_THETA);
        let mut construction = 0;
        for line in include_str!("../../../tests/golden/vectors/latest_u_item.csv").lines().skip(2) {
            let row: Vec<&str> = line.split(',').collect();
            let (initial, last): (u64, u64) = (row[1].parse().unwrap(), row[2].parse().unwrap());
            if initial != construction {
                zipfian = Zipfian::new(initial - 1, YCSB_THETA);
                construction = initial;
            }
            zipfian.grow_to(last);
            let item = last.cast_signed() - zipfian.draw(row[0].parse().unwrap(), last).cast_signed();
            assert_eq!(item.to_string(), row[3], "{line}");
        }
    }

    #[test]
    fn where_a_chunk_begins_does_not_depend_on_the_way_there() {
        let positions = Positions { start: 0, loaded: 1000, first_insert: 1000 };
        let mut walked = Latest::new(positions, Zipfian::new(999, YCSB_THETA));
        let mut leapt = Latest::new(positions, Zipfian::new(999, YCSB_THETA));
        for last in (999..200_000).step_by(7) {
            walked.next(&mut Stream::from_key(last), Horizon { choices: 0, last });
        }
        walked.seek(150_000);
        leapt.seek(150_000);
        for draw in 0..1000 {
            let horizon = Horizon { choices: draw, last: 150_000 + draw / 10 };
            let key = Stream::from_key(draw);
            assert_eq!(walked.next(&mut key.clone(), horizon), leapt.next(&mut key.clone(), horizon));
        }
    }

    #[test]
    fn tiny_tables_draw_what_exists() {
        for loaded in 1..5 {
            let positions = Positions { start: 10, loaded, first_insert: 10 + loaded };
            let rules: [Box<dyn Distribution>; 2] = [
                Box::new(Latest::new(positions, Zipfian::new(loaded - 1, YCSB_THETA))),
                Box::new(LatestExact::new(positions, 1.0)),
            ];
            for mut rule in rules {
                let mut oldest = 0;
                for draw in 0..10_000 {
                    let last = 10 + loaded - 1 + draw / 100;
                    let keynum = rule.next(&mut Stream::from_key(draw), Horizon { choices: draw, last });
                    assert!((10..=last).contains(&keynum), "{keynum} of 10..={last}");
                    oldest += u64::from(keynum == 10);
                }
                assert!(oldest < 1_000, "{oldest} draws of the oldest of up to 100 records");
            }
        }
    }
}
