//! Could the database keep the rate? When it cannot, lag grows for as long as the run lasts, and
//! response times say more about the length of the run than about the database. A run should say so
//! by itself.

use crate::slope::theil_sen;
use crate::trace::meta::SustainedMeta;

/// The lag at one moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagPoint {
    /// Nanoseconds since the run began.
    pub at_ns: u64,
    /// Median lag of the operations of the interval that ended then.
    pub median_lag_ns: u64,
    /// What the sessions spent on the operations that ended in that interval, all together: their
    /// service, retries included, and the waiting for operations that they had to follow.
    pub occupied_ns: u64,
    /// Time of that interval in which this process did not run although it wanted to: stopped, or
    /// without a processor.
    pub stalled_ns: u64,
}

/// What the machine had to offer, and what was used of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Connections.
    pub sessions: u64,
    /// Time that sessions spent without a connection, waiting for a new one, all together.
    pub reconnecting_ns: u64,
    /// Part of the machine's processor time that this process took.
    pub cpu_share: f64,
}

/// The server was the limit if at least this part of the sessions' time belonged to it: one that is
/// overloaded keeps nearly all of them, a client that comes too late leaves them idle.
const OCCUPIED: f64 = 0.5;

/// An answer that waits for a process that does not run looks like one that takes long: from this
/// part of the time on, nothing is said about the server.
const STALLED: f64 = 0.25;

/// Lag is worth a verdict when it exceeds this many median service times …
const SERVICE_TIMES: u64 = 10;

/// … and this: below it no user would notice.
const NOTICEABLE_NS: u64 = 10_000_000;

/// Judges a paced run; `None` if it was too short to tell (fewer than 3 intervals).
///
/// Not sustained: the lag of the last interval exceeds 10 median service times and 10 ms, and it
/// grew over the later half of the time since it did (a slope above 0). A stall that has been worked off is sustained: its lag went down again.
///
/// Whose fault it was is read from what the sessions did since then.
pub fn judge(points: &[LagPoint], median_service_ns: u64, capacity: &Capacity) -> Option<SustainedMeta> {
    if points.len() < 3 {
        return None;
    }
    let limit_ns = (SERVICE_TIMES * median_service_ns).max(NOTICEABLE_NS);
    let begin = points.iter().rposition(|point| point.median_lag_ns <= limit_ns).map_or(0, |last| last + 1);
    let late = &points[begin..];
    // Only the later half of that time counts: a backlog that shrinks at the end is being worked off.
    let growth = growth(&points[(begin + late.len() / 2).min(points.len() - 2)..]);
    let sustained = late.is_empty() || growth <= 0.0;
    let since_ns = if begin == 0 { 0 } else { points[begin - 1].at_ns };
    let late_ns = (points[points.len() - 1].at_ns - since_ns).max(1);
    let stalled_ns: u64 = late.iter().map(|point| point.stalled_ns).sum();
    let occupied_ns = late.iter().map(|point| point.occupied_ns).sum::<u64>() + capacity.reconnecting_ns;
    let occupied_share = occupied_ns as f64 / (late_ns * capacity.sessions.max(1)) as f64;
    let cause = if capacity.cpu_share >= 0.9 {
        "client: this process, with an embedded database if it is one, kept every CPU busy"
    } else if stalled_ns as f64 / late_ns as f64 >= STALLED {
        "client: this process was stopped or got no processor"
    } else if occupied_share >= OCCUPIED {
        "server: every session was busy"
    } else {
        "client: sessions were free, but late"
    };
    Some(SustainedMeta {
        sustained,
        since_ns: (!sustained).then(|| late[0].at_ns),
        lag_growth_ns_per_s: if sustained { 0 } else { (growth * 1e9) as u64 },
        cause: (!sustained).then(|| cause.to_owned()),
    })
}

/// ns of lag per ns of time. At most some 500 points are used, evenly spread.
fn growth(points: &[LagPoint]) -> f64 {
    let step = points.len().div_ceil(500).max(1);
    let point = |point: &LagPoint| (point.at_ns as f64, point.median_lag_ns as f64);
    theil_sen(&points.iter().step_by(step).map(point).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One a second, in each of which four sessions were busy for so many milliseconds each.
    fn occupied(lags_ms: &[u64], occupied_ms: u64) -> Vec<LagPoint> {
        let point = |(second, lag_ms): (usize, &u64)| LagPoint {
            at_ns: (second as u64 + 1) * 1_000_000_000,
            median_lag_ns: lag_ms * 1_000_000,
            occupied_ns: 4 * occupied_ms * 1_000_000,
            stalled_ns: 0,
        };
        lags_ms.iter().enumerate().map(point).collect()
    }

    fn points(lags_ms: &[u64]) -> Vec<LagPoint> {
        occupied(lags_ms, 950)
    }

    const QUIET: Capacity = Capacity { sessions: 4, reconnecting_ns: 0, cpu_share: 0.1 };

    #[test]
    fn a_lag_that_grows_to_the_end_is_not_sustained() {
        let verdict = judge(&points(&[0, 0, 100, 300, 500, 700]), 1_000_000, &QUIET).unwrap();
        assert!(!verdict.sustained);
        assert_eq!(verdict.since_ns, Some(3_000_000_000));
        assert_eq!(verdict.lag_growth_ns_per_s, 200_000_000);
        assert!(verdict.cause.unwrap().starts_with("server"));
    }

    #[test]
    fn a_stall_that_was_worked_off_is_sustained() {
        assert!(judge(&points(&[0, 900, 1800, 400, 0, 0]), 1_000_000, &QUIET).unwrap().sustained);
        assert!(judge(&points(&[0, 900, 1800, 1500, 1100, 700]), 1_000_000, &QUIET).unwrap().sustained);
    }

    #[test]
    fn free_sessions_that_are_late_are_the_clients_fault() {
        let verdict = judge(&occupied(&[20, 40, 60, 80], 100), 1_000, &QUIET).unwrap();
        assert_eq!(verdict.cause.unwrap(), "client: sessions were free, but late");
        let saturated = Capacity { cpu_share: 0.97, ..QUIET };
        let verdict = judge(&points(&[20, 40, 60, 80]), 1_000, &saturated).unwrap();
        assert!(verdict.cause.unwrap().contains("every CPU"));
    }

    #[test]
    fn a_process_that_does_not_run_says_nothing_about_the_server() {
        let mut late = points(&[20, 40, 60, 80]);
        late[1..].iter_mut().for_each(|point| point.stalled_ns = 800_000_000);
        let verdict = judge(&late, 1_000, &QUIET).unwrap();
        assert_eq!(verdict.cause.unwrap(), "client: this process was stopped or got no processor");
    }

    #[test]
    fn sessions_without_a_server_to_connect_to_are_not_free() {
        let away = Capacity { reconnecting_ns: 4 * 3_900_000_000, ..QUIET };
        let verdict = judge(&occupied(&[20, 40, 60, 80], 0), 1_000, &away).unwrap();
        assert!(verdict.cause.unwrap().starts_with("server"));
    }

    #[test]
    fn a_moment_is_too_short_for_a_verdict() {
        assert_eq!(judge(&points(&[0, 500]), 1_000, &QUIET), None);
    }
}
