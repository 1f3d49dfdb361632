//! Ending a run early: the first request lets operations in flight finish, the second does not wait
//! for them.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// Shared by everything that can end a run and everything that must notice.
#[derive(Debug, Default)]
pub struct Stop {
    requests: AtomicU8,
    requested: Notify,
}

impl Stop {
    /// Asks for the end; returns how often that has been asked now.
    pub fn request(&self) -> u8 {
        let requests = self.requests.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        self.requested.notify_waiters();
        requests
    }

    /// Has anybody asked?
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Has somebody asked twice?
    pub fn is_insisted(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 1
    }

    /// Returns when somebody asks.
    pub async fn requested(&self) {
        let mut requested = std::pin::pin!(self.requested.notified());
        requested.as_mut().enable();
        if !self.is_requested() {
            requested.await;
        }
    }
}
