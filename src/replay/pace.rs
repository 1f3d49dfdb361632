//! When each operation should start. The intended time of an operation is computed from its index
//! (or taken from the trace), never by adding periods to the time before, so it neither drifts nor
//! forgives: a run that falls behind stays behind until it has caught up, and every operation's lag
//! says so.

/// The rule that gives each operation its intended start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As fast as the sessions can: intended = actual start.
    Unpaced,
    /// A fixed rate.
    Rate(Rate),
    /// The arrival times of the trace, divided by a speed.
    Arrivals(Speed),
}

/// Operations per second, kept in millionths so that the schedule is exact integer arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    per_megasecond: u64,
}

impl Rate {
    /// `None` unless positive and at most 10^12 operations per second.
    pub fn per_second(rate: f64) -> Option<Rate> {
        let scaled = (rate * 1e6).round();
        (1.0..=1e18).contains(&scaled).then_some(Rate { per_megasecond: scaled as u64 })
    }

    /// Nanoseconds from the start to operation `index`.
    #[inline]
    pub fn intended_ns(self, index: u64) -> u64 {
        (u128::from(index) * 1_000_000_000_000_000 / u128::from(self.per_megasecond)) as u64
    }

    /// Operations whose intended start is at or before `now_ns`.
    pub fn due(self, now_ns: u64) -> u64 {
        (u128::from(now_ns) * u128::from(self.per_megasecond) / 1_000_000_000_000_000) as u64 + 1
    }
}

/// A factor on the speed of a trace, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    millionths: u64,
}

impl Speed {
    /// As recorded.
    pub const ORIGINAL: Speed = Speed { millionths: 1_000_000 };

    /// `None` unless positive and at most a million.
    pub fn factor(factor: f64) -> Option<Speed> {
        let scaled = (factor * 1e6).round();
        (1.0..=1e12).contains(&scaled).then_some(Speed { millionths: scaled as u64 })
    }

    /// The arrival time `at_ns` at this speed.
    #[inline]
    pub fn scale_ns(self, at_ns: u64) -> u64 {
        (u128::from(at_ns) * 1_000_000 / u128::from(self.millionths)) as u64
    }
}

impl Pace {
    /// When operation `index` of the file, which arrives at `at_ns`, should start, in nanoseconds
    /// since the run began; `None` means now.
    #[inline]
    pub fn intended_ns(&self, index: u64, at_ns: Option<u64>) -> Option<u64> {
        match self {
            Pace::Unpaced => None,
            Pace::Rate(rate) => Some(rate.intended_ns(index)),
            Pace::Arrivals(speed) => at_ns.map(|at_ns| speed.scale_ns(at_ns)),
        }
    }

    /// The name in a result's footer.
    pub const fn name(&self) -> &'static str {
        match self {
            Pace::Unpaced => "unpaced",
            Pace::Rate(_) => "rate",
            Pace::Arrivals(_) => "arrivals",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_neither_drifts_nor_rounds_up() {
        let third = Rate::per_second(3.0).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|index| third.intended_ns(index)),
            [0, 333_333_333, 666_666_666, 1_000_000_000]
        );
        let fast = Rate::per_second(7e6).unwrap();
        assert_eq!(fast.intended_ns(7_000_000 * 86_400), 86_400 * 1_000_000_000, "exact after a day");
        let slow = Rate::per_second(0.1).unwrap();
        assert_eq!(slow.intended_ns(1), 10_000_000_000);
    }

    #[test]
    fn due_counts_the_operations_that_should_have_started() {
        let rate = Rate::per_second(1000.0).unwrap();
        assert_eq!(rate.due(0), 1);
        assert_eq!(rate.due(999_999), 1);
        assert_eq!(rate.due(1_000_000), 2);
    }

    #[test]
    fn speed_divides_arrival_times() {
        let double = Pace::Arrivals(Speed::factor(2.0).unwrap());
        assert_eq!(double.intended_ns(9, Some(1_000)), Some(500));
        assert_eq!(Pace::Arrivals(Speed::ORIGINAL).intended_ns(9, Some(1_000)), Some(1_000));
        assert_eq!(Pace::Unpaced.intended_ns(9, Some(1_000)), None);
    }

    #[test]
    fn impossible_rates_are_no_rates() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::per_second(rate), None);
            assert_eq!(Speed::factor(rate), None);
        }
    }
}
