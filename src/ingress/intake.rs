//! Takes messages in: into the store, or, where Redis does not take one in time, into the spool.
//!
//! What always holds: `Stored`, `Duplicate` and `Spooled` are said only of what is on record (P5); and while anything waits
//! in the spool, what comes goes there too, so that no later message of a lane gets in front of an earlier one that was
//! acked; nor does one get into the spool in front of an earlier one of its lane that still waits for the store (`turns`). `replay`
//! carries the spool over once the store is back.
//!
//! A store that hangs costs one message half of its time and those behind it nothing. The attempt that was given up may
//! be applied all the same: its replay has the same request id, by which the store knows a repeat.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout;
use tracing::warn;

use super::turns::Turns;
use crate::alarms::{Alarm, Alarms, Kind};
use crate::crash::{self, Point};
use crate::store::{self, Appended, Arrival, Enqueued, SharedStore, Spool, StoreError};
use crate::telemetry::Metrics;

/// Somebody has to know of a spool that is so full, in percent.
const FILLING: u64 = 50;

/// What became of a message, shared by its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Stored,
    Duplicate,
    /// On the disk of this machine, to be replayed.
    Spooled,
    /// Not taken; the code for the 503.
    Refused(&'static str),
}

impl Taken {
    /// The store does not take it now.
    pub(super) const UNAVAILABLE: Self = Self::Refused("store_unavailable");
    /// The store did not say so in time.
    pub(super) const LATE: Self = Self::Refused("store_timeout");

    /// Whether the message is safe, so that its copies need no second word with the store.
    pub(super) fn is_kept(self) -> bool {
        match self {
            Self::Stored | Self::Duplicate | Self::Spooled => true,
            Self::Refused(_) => false,
        }
    }
}

/// See the module.
pub struct Intake {
    store: SharedStore,
    spool: Option<Arc<Spool>>,
    turns: Turns,
    alarms: Alarms,
    metrics: Arc<Metrics>,
}

impl Intake {
    /// Into `store`, with a spool beside it where there is one.
    pub fn new(store: SharedStore, spool: Option<Arc<Spool>>, alarms: Alarms, metrics: Arc<Metrics>) -> Self {
        Self { store, spool, turns: Turns::default(), alarms, metrics }
    }

    /// Takes a message whose answer is due at `deadline`.
    pub(super) async fn take(&self, arrival: Arrival, deadline: Instant) -> Taken {
        let Some(spool) = &self.spool else {
            let request_id = arrival.message.request_id.clone();
            return self.enqueue(arrival).await.unwrap_or_else(|error| {
                warn!(%error, request_id, "a message could not be stored");
                Taken::UNAVAILABLE
            });
        };
        let mut place = self.turns.take_place(&arrival.lane);
        let mut why = String::new();
        if spool.is_empty() {
            let share = deadline.saturating_duration_since(Instant::now()) / 2;
            match timeout(share, self.enqueue(arrival.clone())).await {
                Ok(Ok(taken)) => return taken,
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => {
                    self.metrics.store_error("enqueue");
                    why = format!("enqueue: no answer within {share:?}");
                }
            }
        }
        place.turn().await;
        self.append(spool, &arrival, &why).await
    }

    async fn enqueue(&self, arrival: Arrival) -> store::Result<Taken> {
        let answers = self.store.enqueue(vec![arrival]).await.inspect_err(|_| self.metrics.store_error("enqueue"))?;
        match answers.first() {
            Some(Enqueued::Stored) => {
                crash::point(Point::Enqueued);
                Ok(Taken::Stored)
            }
            Some(Enqueued::Duplicate) => Ok(Taken::Duplicate),
            Some(Enqueued::LaneFull) => Ok(Taken::Refused("lane_full")),
            Some(Enqueued::StoreFull) => Ok(Taken::Refused("store_full")),
            None => Err(StoreError::Corrupt("enqueue: no answer to a message".into())),
        }
    }

    async fn append(&self, spool: &Spool, arrival: &Arrival, why: &str) -> Taken {
        let appended = spool.append(arrival).await;
        if spool.percent() >= FILLING {
            self.alarms.raise(Alarm::of_process(Kind::SpoolFilling, &format!("{}%", spool.percent())));
        }
        match appended {
            Ok(Appended::Full) => return Taken::Refused("spool_full"),
            Ok(Appended::First) => warn!(why, "the store does not take messages: they are spooled until it does"),
            Ok(Appended::Behind) => {}
            Err(error) => {
                warn!(%error, request_id = %arrival.message.request_id, "a message could not be spooled");
                return Taken::UNAVAILABLE;
            }
        }
        crash::point(Point::Spooled);
        self.metrics.spooled();
        Taken::Spooled
    }
}
