//! How the sender bears a store that is away: it says so once, counts every failed call, and asks again ever more seldom.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::store;
use crate::telemetry::metrics::Metrics;

/// Whether the store is away, as far as the last call could tell.
#[derive(Debug, Default)]
pub(super) struct Outage {
    on: AtomicBool,
}

impl Outage {
    /// Takes note of how a call went: each failure is counted, only the first and the recovery are logged.
    pub fn note<T>(&self, verb: &'static str, result: &store::Result<T>, metrics: &Metrics) {
        match result {
            Ok(_) => {
                if self.on.swap(false, Ordering::Relaxed) {
                    tracing::info!(verb, "the store answers the sender again");
                }
            }
            Err(error) => {
                metrics.store_error(verb);
                if !self.on.swap(true, Ordering::Relaxed) {
                    tracing::warn!(verb, %error, "the store fails the sender; asking again until it answers");
                }
            }
        }
    }
}

/// Waits between calls to a store that failed: 50 ms, doubling to 1 s, each shortened by up to half at random.
#[derive(Debug)]
pub(super) struct Pause(Duration);

impl Pause {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(1);

    /// As long as the next wait should be.
    pub fn next(&mut self) -> Duration {
        let plain = self.0;
        self.0 = (plain * 2).min(Self::LONGEST);
        plain.mul_f64(1.0 - rand::random::<f64>() / 2.0)
    }
}

impl Default for Pause {
    fn default() -> Self {
        Self(Self::FIRST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second_and_never_vanish() {
        let mut pause = Pause::default();
        for plain in [50, 100, 200, 400, 800, 1000, 1000].map(Duration::from_millis) {
            let got = pause.next();
            assert!(plain / 2 <= got && got <= plain, "{got:?} for {plain:?}");
        }
    }
}
