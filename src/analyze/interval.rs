//! How far may the true percentile be from the one that was measured?
//!
//! Latencies come in clusters: one slow moment makes hundreds of neighbouring ops slow, so a million
//! ops can say as little as a thousand independent ones. An interval that ignores this holds the truth
//! 29 times in 100 where it promises 95 (measured on a queue at 70 % load, `docs/statistics.md`).
//!
//! Woodruff's interval (1952) turns the question around: how uncertain is the *share* of ops at or
//! below the measured percentile? The shares of windows are summed up, their variance allows for
//! dependence between windows (Newey and West 1987, Bartlett weights), and the shares at both ends are
//! turned back into latencies.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// How sure an interval is.
pub const CONFIDENCE: f64 = 0.95;

/// Windows that must hold slower ops (for percentiles below 50: faster ones).
const WINDOWS_TOUCHED: usize = 10;

/// Two-sided quantile of Student's t.
pub fn student_t(degrees: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees.max(1.0)).expect("positive degrees of freedom");
    t.inverse_cdf(0.5 + CONFIDENCE / 2.0)
}

/// Two-sided probability of a Student's t beyond `t`.
pub fn student_p(t: f64, degrees: f64) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, degrees.max(1.0)).expect("positive degrees of freedom");
    2.0 * distribution.cdf(-t.abs())
}

/// Variance of the sum of a series that is 0 on average, with dependence up to the lag that Newey and
/// West recommend for its length; never negative.
pub fn variance_of_sum(residuals: &[f64]) -> f64 {
    let k = residuals.len() as f64;
    let lags = (4.0 * (k / 100.0).powf(2.0 / 9.0)).floor() as usize;
    let product = |lag: usize| -> f64 {
        residuals.iter().zip(residuals.iter().skip(lag)).map(|(one, other)| one * other).sum()
    };
    let mut variance = product(0);
    for lag in 1..=lags.min(residuals.len().saturating_sub(1)) {
        variance += 2.0 * (1.0 - lag as f64 / (lags as f64 + 1.0)) * product(lag);
    }
    (variance * k / (k - 1.0).max(1.0)).max(0.0)
}

/// Ops of a window, and those of them at or below the percentile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Ops.
    pub ops: f64,
    /// At or below.
    pub below: f64,
}

/// The shares at which the ends of the interval are read off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ends {
    /// Share at the lower end, at least 0.
    pub low: f64,
    /// Share at the upper end, below 1.
    pub high: f64,
    /// Independent ops that would say as much, as a share of all.
    pub effective: f64,
}

/// The interval of a percentile from its windows; none if they cannot say.
pub fn woodruff(windows: &[Share]) -> Option<Ends> {
    let ops: f64 = windows.iter().map(|window| window.ops).sum();
    let q = windows.iter().map(|window| window.below).sum::<f64>() / ops;
    let touched = |window: &&Share| {
        let beyond = if q >= 0.5 { window.ops - window.below } else { window.below };
        beyond >= 1.0 - 1e-9
    };
    if windows.iter().filter(touched).count() < WINDOWS_TOUCHED {
        return None;
    }
    let residuals: Vec<f64> = windows.iter().map(|window| window.below - q * window.ops).collect();
    let independent = q * (1.0 - q) / ops;
    let variance = (variance_of_sum(&residuals) / (ops * ops)).max(independent);
    let reach = student_t(windows.len() as f64 - 1.0) * variance.sqrt();
    let (low, high) = (q - reach, q + reach);
    let beyond_the_data = if q >= 0.5 { high >= 1.0 - 1.0 / ops } else { low <= 1.0 / ops };
    (!beyond_the_data).then(|| Ends {
        low: low.max(0.0),
        high: high.min(1.0),
        effective: independent / variance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_of_t_are_those_of_the_tables() {
        for (degrees, t) in [(1.0, 12.706), (9.0, 2.262), (29.0, 2.045), (59.0, 2.001), (1e6, 1.96)] {
            assert!((student_t(degrees) - t).abs() < 1e-3, "{degrees}");
        }
        assert!((student_p(2.045, 29.0) - 0.05).abs() < 1e-3);
    }

    #[test]
    fn clustered_slowness_widens_the_interval() {
        // 1 % of the ops is slow: one in every window, or all of them in every tenth window.
        let even = vec![Share { ops: 1000.0, below: 990.0 }; 200];
        let clustered: Vec<Share> = (0..200)
            .map(|window| Share { ops: 1000.0, below: if window % 10 == 0 { 900.0 } else { 1000.0 } })
            .collect();
        let (even, clustered) = (woodruff(&even).unwrap(), woodruff(&clustered).unwrap());
        assert_eq!(even.effective, 1.0, "never better than independent ops");
        assert!(clustered.effective < 0.05, "{clustered:?}");
        assert!(clustered.high - clustered.low > 4.0 * (even.high - even.low));
    }

    #[test]
    fn what_the_data_cannot_say_has_no_interval() {
        // Slower ops in 9 windows only.
        let nine: Vec<Share> = (0..100)
            .map(|window| Share { ops: 1000.0, below: if window < 9 { 999.0 } else { 1000.0 } })
            .collect();
        assert_eq!(woodruff(&nine), None);
        // The upper end would lie beyond the slowest op.
        let few: Vec<Share> = (0..100)
            .map(|window| Share { ops: 10.0, below: if window % 10 == 0 { 9.0 } else { 10.0 } })
            .collect();
        assert!(woodruff(&few).is_some());
        let fewer: Vec<Share> =
            few.iter().map(|window| Share { ops: window.ops / 10.0, below: window.below / 10.0 }).collect();
        assert_eq!(woodruff(&fewer), None);
        assert_eq!(woodruff(&[]), None);
    }
}
