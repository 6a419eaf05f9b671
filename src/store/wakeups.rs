//! Signals that a side has new work. A signal may be spurious or, from another process, missing: every waiter
//! also looks again by itself, seldom. One waiter a side and process.

use std::time::Duration;

use tokio::sync::Notify;

use super::Side;

/// One signal for each side.
#[derive(Debug, Default)]
pub struct Wakeups {
    inbound: Notify,
    outbound: Notify,
}

impl Wakeups {
    /// Says that `side` may have work.
    pub fn wake(&self, side: Side) {
        self.of(side).notify_one();
    }

    /// Waits for a signal, at most `limit`.
    pub async fn wait(&self, side: Side, limit: Duration) {
        let _ = tokio::time::timeout(limit, self.of(side).notified()).await;
    }

    fn of(&self, side: Side) -> &Notify {
        match side {
            Side::In => &self.inbound,
            Side::Out => &self.outbound,
        }
    }
}
