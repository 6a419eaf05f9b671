//! How a loop lives through a store that is away: it waits a little longer each time, says so once when it begins and
//! once when it is over, and never ends or spins. And how a call for one lane does, which nobody else would repeat.

use std::time::{Duration, Instant};

use rand::RngExt;
use tracing::{info, warn};

use super::{Result, StoreError};
use crate::alarms::{Alarm, Alarms, Kind};
use crate::telemetry::metrics::Metrics;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);
/// Somebody has to know of one that lasts so long; a Redis that is started anew is back by then.
const ALARMING: Duration = Duration::from_secs(5);
/// … and once more whenever so much more has gone by.
const STILL: Duration = Duration::from_secs(60);

/// Repeats a call as it is until the store answers it, for as long as the lease that it is made under can be ours.
///
/// # Errors
/// Those of the last call.
pub async fn insist<T, F>(
    verb: &'static str,
    lease: Duration,
    metrics: &Metrics,
    alarms: &Alarms,
    call: impl Fn() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let give_up = Instant::now() + lease;
    let mut outage = Outage::of_one_call(verb);
    loop {
        match call().await {
            Err(error) if Instant::now() < give_up => outage.wait(&error, metrics, alarms).await,
            answer => return answer,
        }
    }
}

/// The state of one loop.
#[derive(Debug)]
pub struct Outage {
    verb: &'static str,
    failures: u32,
    is_told: bool,
    /// When an alarm is raised, if it lasts.
    alarm_at: Option<Instant>,
}

impl Outage {
    /// For a loop around `verb`.
    pub fn new(verb: &'static str) -> Self {
        Self { verb, failures: 0, is_told: true, alarm_at: None }
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
        self.alarm_at = None;
    }

    /// The call failed; waits before the next one.
    pub async fn wait(&mut self, error: &StoreError, metrics: &Metrics, alarms: &Alarms) {
        metrics.store_error(self.verb);
        if self.failures == 0 && self.is_told {
            warn!(verb = self.verb, %error, "the store does not answer; trying on");
        }
        self.raise(alarms);
        let pause = FIRST.saturating_mul(1 << self.failures.min(5)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // Drawn before the await: the generator must not be held across it, or no spawned task could wait here.
        let pause = pause.mul_f64(rand::rng().random_range(0.5..1.0));
        tokio::time::sleep(pause).await;
    }

    /// Raises an alarm when the outage has lasted long enough.
    fn raise(&mut self, alarms: &Alarms) {
        let now = Instant::now();
        let alarm_at = self.alarm_at.get_or_insert(now + ALARMING);
        if self.is_told && now >= *alarm_at {
            *alarm_at = now + STILL;
            alarms.raise(Alarm::of_process(Kind::StoreAway, self.verb));
        }
    }
}
