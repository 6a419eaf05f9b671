//! Whether the process is alive and wants traffic: the facts behind `/livez` and `/readyz`.
//!
//! Every loop ticks under its name each time round; one that stays away for longer than [`STALLED_AFTER`] is stuck.
//! A loop that ends on purpose says so, or its silence would look like a fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A loop that has not ticked for so long is stuck. Twice the longest that one waits between two ticks: for the records
/// (`records/connection.rs`), whose database may hang while messages flow.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The last tick of each loop, and whether the process is about to go.
#[derive(Debug, Default)]
pub struct Health {
    draining: AtomicBool,
    ticks: Mutex<BTreeMap<&'static str, Instant>>,
}

impl Health {
    /// `name` went round once more; its first tick registers it.
    pub fn tick(&self, name: &'static str) {
        self.ticks.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Instant::now());
    }

    /// `name` ended on purpose.
    pub fn done(&self, name: &str) {
        self.ticks.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// From here on the process wants no new callbacks.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether [`Health::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The loops that are stuck as of `now`.
    pub fn stalled(&self, now: Instant) -> Vec<&'static str> {
        let ticks = self.ticks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stalled = |last: Instant| now.saturating_duration_since(last) > STALLED_AFTER;
        ticks.iter().filter(|(_, last)| is_stalled(**last)).map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_loop_is_stalled_until_it_ticks_or_says_that_it_ended() {
        let health = Health::default();
        health.tick("sender");
        health.tick("worker");
        let later = Instant::now() + STALLED_AFTER + Duration::from_secs(1);
        assert!(health.stalled(Instant::now()).is_empty());
        assert_eq!(health.stalled(later), ["sender", "worker"]);
        health.done("worker");
        assert_eq!(health.stalled(later), ["sender"]);
    }
}
