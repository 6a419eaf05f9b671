//! Carries the spool into the store, in order, each message under its own request id.
//!
//! What always holds:
//!
//! - A message leaves the spool only after the store took it. A crash in between repeats the call, which the store knows
//!   by the request id.
//! - No message gets in front of an earlier one of its lane: one call never holds two of a lane, because the first might
//!   find no room and the second might; and what found none holds its lane back until the next pass.
//! - A lane that is full, or that the store can't work with, holds up no other.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::alarms::Alarms;
use crate::crash::{self, Point};
use crate::model::Lane;
use crate::store::{self, Arrival, Enqueued, Outage, SharedStore, Spool, Spooled, StoreError};
use crate::telemetry::{Health, Metrics, Telemetry};

/// The loop's name in `/livez`.
const LOOP: &str = "replay";
/// Messages read at once.
const BATCH: usize = 256;
/// How long a lane that had no room is left alone, and how long an empty spool is not looked at without a signal.
const PASS: Duration = Duration::from_secs(1);

/// See the module.
pub struct Replay {
    store: SharedStore,
    spool: Arc<Spool>,
    lane_depth: u64,
    alarms: Alarms,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

/// One walk through the spool, from its oldest message to its newest.
struct Pass {
    began: Instant,
    /// Up to where the walk came.
    at: i64,
    /// Lanes whose next message stays where it is, so those behind it stay too.
    held: HashSet<Lane>,
    /// The store as a whole had no room: the walk ends here.
    store_is_full: bool,
}

impl Pass {
    fn new() -> Self {
        Self { began: Instant::now(), at: 0, held: HashSet::new(), store_is_full: false }
    }
}

/// What was said already, and what the last line will say.
#[derive(Default)]
struct Told {
    replayed: u64,
    /// The places of messages that could not be enqueued for a fault of their own.
    faulty: HashSet<i64>,
}

impl Replay {
    /// From `spool` to `store`, whose lanes hold `lane_depth` messages at most.
    pub fn new(store: SharedStore, spool: Arc<Spool>, lane_depth: u64, telemetry: Telemetry) -> Self {
        let Telemetry { alarms, metrics, health, .. } = telemetry;
        Self { store, spool, lane_depth, alarms, metrics, health }
    }

    /// Replays until `stop`. It may be cut off at any point: what the store took is then offered to it once more.
    pub async fn run(&self, stop: CancellationToken) {
        stop.run_until_cancelled(self.replay()).await;
        self.health.done(LOOP);
    }

    async fn replay(&self) {
        let (mut pass, mut told) = (Pass::new(), Told::default());
        let mut outage = Outage::new("replay");
        if !self.spool.is_empty() {
            info!(messages = self.spool.depth(), "messages wait in the spool");
        }
        loop {
            self.health.tick(LOOP);
            match self.step(&mut pass, &mut told).await {
                Ok(true) => outage.over(),
                Ok(false) => {
                    self.spool.wait(PASS).await;
                    if pass.began.elapsed() >= PASS {
                        pass = Pass::new();
                    }
                }
                Err(error) => {
                    pass = Pass::new();
                    outage.wait(&error, &self.metrics, &self.alarms).await;
                }
            }
        }
    }

    /// Offers the next messages; `false` when the walk is at its end.
    async fn step(&self, pass: &mut Pass, told: &mut Told) -> store::Result<bool> {
        if pass.store_is_full {
            return Ok(false);
        }
        let batch = self.spool.after(pass.at, BATCH, self.lane_depth).await?;
        let Some(last) = batch.last().map(|spooled| spooled.seq) else { return Ok(false) };
        let mut done = Vec::new();
        let offered = self.offer(batch, pass, told, &mut done).await;
        if !done.is_empty() {
            crash::point(Point::Replayed);
        }
        // Also where the store went away half way: what it took goes.
        told.replayed += done.len() as u64;
        self.metrics.replayed(done.len());
        if !done.is_empty() && self.spool.remove(done).await? {
            info!(replayed = std::mem::take(&mut told.replayed), "the spool is empty again: the store has it all");
            told.faulty.clear();
        }
        offered?;
        pass.at = last;
        Ok(true)
    }

    /// Goes through a batch in rounds, the first message of each lane first; `done` is what the store has taken.
    async fn offer(
        &self,
        batch: Vec<Spooled>,
        pass: &mut Pass,
        told: &mut Told,
        done: &mut Vec<(i64, u64)>,
    ) -> store::Result<()> {
        let mut left = readable(batch, told);
        while !left.is_empty() && !pass.store_is_full {
            self.health.tick(LOOP);
            let mut lanes = HashSet::new();
            left.retain(|(_, arrival)| !pass.held.contains(&arrival.lane));
            let (round, later): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(_, arrival)| lanes.insert(arrival.lane.clone()));
            let arrivals = round.iter().map(|(_, arrival)| arrival.clone()).collect();
            for ((place, arrival), answer) in round.into_iter().zip(self.enqueue(arrivals).await?) {
                match answer {
                    Ok(Enqueued::Stored | Enqueued::Duplicate) => done.push(place),
                    Ok(Enqueued::LaneFull) => drop(pass.held.insert(arrival.lane)),
                    Ok(Enqueued::StoreFull) => {
                        pass.store_is_full = true;
                        pass.held.insert(arrival.lane);
                    }
                    Err(fault) => {
                        tell(told, place.0, &fault);
                        pass.held.insert(arrival.lane);
                    }
                }
            }
            left = later;
        }
        Ok(())
    }

    /// Enqueues a round. Where the store can't make sense of it, each message by itself: one's fault is not the others'.
    async fn enqueue(&self, round: Vec<Arrival>) -> store::Result<Vec<store::Result<Enqueued>>> {
        match self.store.enqueue(round.clone()).await {
            Ok(answers) => return Ok(answers.into_iter().map(Ok).collect()),
            Err(StoreError::Corrupt(_)) => {}
            Err(away) => return Err(away),
        }
        let mut answers = Vec::with_capacity(round.len());
        for arrival in round {
            answers.push(match self.store.enqueue(vec![arrival]).await {
                Ok(answer) => answer.first().copied().ok_or_else(|| StoreError::Corrupt("no answer".into())),
                Err(fault @ StoreError::Corrupt(_)) => Err(fault),
                Err(away) => return Err(away),
            });
        }
        Ok(answers)
    }
}

/// Those of a batch that can be read, each with its place and size. One that can't stays in the file, for a person.
fn readable(batch: Vec<Spooled>, told: &mut Told) -> Vec<((i64, u64), Arrival)> {
    let read = |Spooled { seq, size, arrival }| match arrival {
        Ok(arrival) => Some(((seq, size), arrival)),
        Err(fault) => {
            tell(told, seq, &fault);
            None
        }
    };
    batch.into_iter().filter_map(read).collect()
}

/// Says once why a message stays in the spool.
fn tell(told: &mut Told, seq: i64, fault: &StoreError) {
    if told.faulty.insert(seq) {
        error!(seq, %fault, "a spooled message can't be stored; it stays in the spool");
    }
}
