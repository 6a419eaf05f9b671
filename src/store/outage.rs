//! How a loop lives through a store that is away: it waits a little longer each time, says so once when it begins and
//! once when it is over, and never ends or spins.

use std::time::Duration;

use rand::RngExt;
use tracing::{info, warn};

use super::StoreError;
use crate::telemetry::metrics::Metrics;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// The state of one loop.
#[derive(Debug)]
pub struct Outage {
    verb: &'static str,
    failures: u32,
    is_told: bool,
}

impl Outage {
    /// For a loop around `verb`.
    pub fn new(verb: &'static str) -> Self {
        Self { verb, failures: 0, is_told: true }
    }

    /// For one call among many, which is repeated until it is answered: the loops tell of the outage, once for all.
    pub fn of_one_call(verb: &'static str) -> Self {
        Self { is_told: false, ..Self::new(verb) }
    }

    /// The call worked.
    pub fn over(&mut self) {
        if self.failures > 0 && self.is_told {
            info!(verb = self.verb, failures = self.failures, "the store is back");
        }
        self.failures = 0;
    }

    /// The call failed; waits before the next one.
    pub async fn wait(&mut self, error: &StoreError, metrics: &Metrics) {
        metrics.store_error(self.verb);
        if self.failures == 0 && self.is_told {
            warn!(verb = self.verb, %error, "the store does not answer; trying on");
        }
        let pause = FIRST.saturating_mul(1 << self.failures.min(5)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // Drawn before the await: the generator must not be held across it, or no spawned task could wait here.
        let pause = pause.mul_f64(rand::rng().random_range(0.5..1.0));
        tokio::time::sleep(pause).await;
    }
}
