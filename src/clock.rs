//! Time is passed in: whatever waits or reads a clock takes a [`Clock`], so that a test can drive
//! it and the meaning of a latency can be checked to the nanosecond.
//!
//! The real clock never waits on the async runtime's timer wheel, whose granularity is a
//! millisecond: measured lateness, median / p99, is 1,010 / 1,900 µs for `tokio::time::sleep_until`
//! and 33 / 50 µs for a timerfd on the same reactor. Waiting is for an absolute time, so lateness
//! does not add up.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Reads and awaits time, in nanoseconds since an origin of its own (the start of the run).
pub trait Clock {
    /// Nanoseconds since the origin; 0 before it.
    fn now_ns(&self) -> u64;
    /// Returns at or after `at_ns`; at once if that is past.
    fn wait_until(&self, at_ns: u64) -> impl Future<Output = ()>;
}

/// The start of a run on the machine's monotonic clock. Copied to every lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    monotonic_ns: u64,
}

impl Origin {
    /// An origin this far in the future, so that every lane can be ready when time begins.
    pub fn after(delay: Duration) -> Origin {
        Origin { monotonic_ns: monotonic_now_ns() + delay.as_nanos() as u64 }
    }

    /// Nanoseconds since the origin; 0 before it.
    #[inline]
    pub fn elapsed_ns(self) -> u64 {
        monotonic_now_ns().saturating_sub(self.monotonic_ns)
    }

    /// Nanoseconds still to wait until the origin; 0 after it.
    pub fn remaining_ns(self) -> u64 {
        self.monotonic_ns.saturating_sub(monotonic_now_ns())
    }
}

#[inline]
fn monotonic_now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time that this process has taken so far, on all its threads together, ns.
pub fn process_cpu_ns() -> u64 {
    let taken = clock_gettime(ClockId::ProcessCPUTime);
    taken.tv_sec as u64 * 1_000_000_000 + taken.tv_nsec as u64
}

/// The machine's monotonic clock with timerfds on the current lane's reactor. One per lane.
#[derive(Debug)]
pub struct MonotonicClock {
    origin: Origin,
    /// Timers not in use. A lane needs as many as it has sessions waiting at once.
    idle_timers: RefCell<Vec<AsyncFd<OwnedFd>>>,
}

impl MonotonicClock {
    /// A clock for the current thread, whose time 0 is `origin`.
    pub fn new(origin: Origin) -> MonotonicClock {
        // The kernel may round a thread's wake-ups by 50 µs to save power; ask for exact ones.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        MonotonicClock { origin, idle_timers: RefCell::new(Vec::new()) }
    }

    // `new` is deprecated for types whose descriptor can change under the reactor; an `OwnedFd` that
    // never leaves its `AsyncFd` cannot, and the replacement is `unsafe`, which this crate forbids.
    #[allow(deprecated)]
    fn timer(&self) -> io::Result<AsyncFd<OwnedFd>> {
        if let Some(timer) = self.idle_timers.borrow_mut().pop() {
            return Ok(timer);
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.origin.elapsed_ns()
    }

    async fn wait_until(&self, at_ns: u64) {
        if self.now_ns() >= at_ns && self.origin.remaining_ns() == 0 {
            return;
        }
        let timer = self.timer().expect("a timerfd: is the limit of open files reached? (ulimit -n)");
        let absolute_ns = self.origin.monotonic_ns + at_ns;
        let expiry = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: (absolute_ns / 1_000_000_000) as i64,
                tv_nsec: (absolute_ns % 1_000_000_000) as i64,
            },
        };
        timerfd_settime(timer.get_ref(), TimerfdTimerFlags::ABSTIME, &expiry)
            .expect("a monotonic timerfd accepts every absolute time");
        loop {
            let mut ready = timer.readable().await.expect("the lane's reactor is running");
            let mut expirations = [0u8; 8];
            match rustix::io::read(timer.get_ref(), &mut expirations) {
                Ok(_) => break,
                Err(_) => ready.clear_ready(),
            }
        }
        self.idle_timers.borrow_mut().push(timer);
    }
}

/// A clock that only moves when told to, or when somebody waits for a later time.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: Cell<u64>,
}

impl ManualClock {
    /// Lets time pass, for instance while a scripted database "works".
    pub fn advance_ns(&self, by_ns: u64) {
        self.now_ns.set(self.now_ns.get() + by_ns);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    async fn wait_until(&self, at_ns: u64) {
        self.now_ns.set(self.now_ns.get().max(at_ns));
    }
}

impl<C: Clock> Clock for std::rc::Rc<C> {
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    async fn wait_until(&self, at_ns: u64) {
        (**self).wait_until(at_ns).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn waiting_never_returns_early_and_the_past_is_not_awaited() {
        let clock = MonotonicClock::new(Origin::after(Duration::from_millis(2)));
        clock.wait_until(0).await;
        assert_eq!(clock.origin.remaining_ns(), 0);
        clock.wait_until(3_000_000).await;
        assert!(clock.now_ns() >= 3_000_000);
        clock.wait_until(1_000_000).await;
        assert_eq!(clock.idle_timers.borrow().len(), 1, "a timer is used again");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_manual_clock_moves_only_forward() {
        let clock = ManualClock::default();
        clock.wait_until(10).await;
        clock.wait_until(5).await;
        assert_eq!(clock.now_ns(), 10);
        clock.advance_ns(7);
        assert_eq!(clock.now_ns(), 17);
    }
}
