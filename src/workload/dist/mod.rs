//! Which record does an operation touch? One file per answer, and one table of them all.
//!
//! Three rules hold for every distribution:
//! * Draws are pure: (numbers of the stream, horizon) decide, nothing is kept between operations
//!   except sums that [`Distribution::seek`] makes again from the horizon alone.
//! * Only records that exist are returned. Inserts count as done in trace order, so what exists is
//!   known when the trace is made; a draw beyond it is repeated. (go-ycsb does not repeat it and
//!   reads rows nobody wrote.)
//! * Distributions think in *positions*, the records of this trace by age: first the loaded range,
//!   then what the run inserted. With the whole table loaded a position is the record's number, as
//!   in YCSB; with a part of it (`insertstart`, `insertcount`) nothing outside is ever drawn.
//!
//! Powers and logarithms come from `libm`, not from `f64::powf`: the standard library calls the
//! system's, which rounds differently from one CPU to the next. Where the zipfian asks the system first,
//! the rounding cannot be seen.

mod exponential;
mod histogram;
mod hotspot;
mod latest;
mod length;
mod scatter;
mod sequential;
mod uniform;
mod zipf_exact;
mod zipfian;

pub use exponential::Exponential;
pub(super) use exponential::share_existing;
pub use histogram::Histogram;
pub use hotspot::Hotspot;
pub(super) use hotspot::hot_records;
pub use latest::{Latest, LatestExact};
pub use length::LengthDraw;
pub use scatter::Scatter;
pub use sequential::Sequential;
pub use uniform::Uniform;
pub use zipf_exact::{ExactZipfian, ZipfExact};
pub use zipfian::{SCRAMBLED_ITEMS, ScrambledZipfian, Zipfian, scrambled, zeta, zeta_between};

use super::{WorkloadSpec, ZipfMode};
use crate::rng::Stream;

/// What a draw may depend on besides its random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Keys chosen in this phase before this one.
    pub choices: u64,
    /// Highest record number that exists at this point of the trace; before the first insert of
    /// the run it is `first_insert - 1` (wrapped, if that is 0).
    pub last: u64,
}

/// A rule that chooses records.
pub trait Distribution: Send {
    /// Called at the start of every chunk, so that state which grows with `last` is a pure function
    /// of it.
    fn seek(&mut self, last: u64) {
        let _ = last;
    }

    /// The number of a record that exists at `horizon`.
    fn next(&mut self, rng: &mut Stream, horizon: Horizon) -> u64;
}

/// A distribution that `requestdistribution` can name.
#[derive(Debug)]
pub struct DistributionRow {
    /// The name in workload files.
    pub name: &'static str,
    /// One line on whom it favours.
    pub about: &'static str,
    /// Makes one for a checked workload.
    pub build: fn(&WorkloadSpec) -> Box<dyn Distribution>,
}

/// Every request distribution.
pub static DISTRIBUTIONS: &[DistributionRow] = &[
    DistributionRow {
        name: "uniform",
        about: "every loaded record alike",
        build: |spec| Box::new(Uniform::new(Positions::of(spec))),
    },
    DistributionRow {
        name: "zipfian",
        about: "a few records take most requests, scattered over the table",
        build: |spec| match spec.zipf {
            ZipfMode::Ycsb => Box::new(ScrambledZipfian::new(spec)),
            ZipfMode::Exact => Box::new(ExactZipfian::new(spec)),
        },
    },
    DistributionRow {
        name: "latest",
        about: "zipfian by age: the newest record is the hottest",
        build: |spec| match spec.zipf {
            ZipfMode::Ycsb => Box::new(Latest::new(Positions::of(spec), spec.latest_zipfian())),
            ZipfMode::Exact => Box::new(LatestExact::new(Positions::of(spec), spec.zipfian_constant)),
        },
    },
    DistributionRow {
        name: "hotspot",
        about: "a share of the requests goes to the oldest share of the loaded records",
        build: |spec| {
            Box::new(Hotspot::new(Positions::of(spec), spec.hotspot_data_fraction, spec.hotspot_op_fraction))
        },
    },
    DistributionRow {
        name: "exponential",
        about: "interest fades with age",
        build: |spec| {
            Box::new(Exponential::new(
                Positions::of(spec),
                spec.exponential_percentile,
                spec.exponential_frac,
            ))
        },
    },
    DistributionRow {
        name: "sequential",
        about: "the loaded records one after the other, again and again",
        build: |spec| Box::new(Sequential::new(Positions::of(spec))),
    },
];

/// The row of this name.
pub fn find(name: &str) -> Option<&'static DistributionRow> {
    DISTRIBUTIONS.iter().find(|row| row.name == name)
}

/// The records of a trace by age: position 0 is the first one loaded; after the loaded ones come
/// those the run inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions {
    /// First record loaded.
    pub start: u64,
    /// How many are loaded, at least 1.
    pub loaded: u64,
    /// First record the run inserts.
    pub first_insert: u64,
}

impl Positions {
    /// Those of a workload's trace. A run that only inserts may begin without a row; nothing is
    /// drawn for it, and one position keeps the arithmetic whole.
    pub fn of(spec: &WorkloadSpec) -> Positions {
        Positions {
            start: spec.insert_start,
            loaded: spec.insert_count.max(1),
            first_insert: spec.first_insert,
        }
    }

    /// How many records exist when `last` is the highest.
    #[inline]
    pub fn existing(self, last: u64) -> u64 {
        // Before the first insert into an empty table `last` is −1, wrapped.
        self.loaded + last.wrapping_add(1).saturating_sub(self.first_insert)
    }

    /// The record at a position.
    #[inline]
    pub fn keynum(self, position: u64) -> u64 {
        if position < self.loaded {
            self.start + position
        } else {
            self.first_insert + (position - self.loaded)
        }
    }
}

/// Repeats a draw until it falls on one of `existing` positions. A workload that will insert far
/// more rows than it has can miss for very long, so after 1,000 misses the position is folded into
/// the range: no loop without an end.
#[inline]
fn redraw_until_existing(existing: u64, mut draw: impl FnMut() -> u64) -> u64 {
    let mut position = draw();
    let mut misses = 0;
    while position >= existing {
        if misses == 1000 {
            return position % existing;
        }
        misses += 1;
        position = draw();
    }
    position
}

#[cfg(test)]
mod tests;
