//! The pool: takes permits, claims lanes, works each in its own task, renews what is held.
//!
//! What always holds:
//!
//! - A permit comes before a claim, and no more lanes are claimed than permits are held: a lease never waits for its turn here.
//! - One lane's panic, dead robot or lost lease ends that lane's task and nothing else.
//! - A store that is away is asked again ever more seldom, and the loop goes on when it is back.
//! - Once it is stopped nothing is claimed or begun; what is under way is finished and settled, claimed but unbegun lanes go
//!   back. At the cut every lane goes back, a begun one as begun: whoever claims it next knows that its answer is missing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::sender::channel::Wire;
use crate::sender::hold::Holds;
use crate::sender::lane::{self, Context};
use crate::setup::InForce;
use crate::stop::Stop;
use crate::store::{Claimed, ClaimedReply, HeldLeases, Outage, SharedStore, Side};
use crate::telemetry::Telemetry;

/// The loop's name in `/livez`.
const LOOP: &str = "sender";
/// How long a sender that found nothing waits before it looks by itself.
const IDLE: Duration = Duration::from_secs(1);

/// Sends the replies of all chats.
pub struct Sender(Arc<Context>);

impl Sender {
    /// `client` is of [`super::channel::http_client`], no other: P7 hangs on its settings.
    pub fn new(store: SharedStore, in_force: Arc<InForce>, client: reqwest::Client, telemetry: Telemetry) -> Self {
        let settings = in_force.settings();
        let wire = Wire::new(client, &settings.wecom.api_base, store.clone(), settings.sender.timeout);
        let holds = Arc::new(Holds::new(store.clone()));
        let settings = settings.sender.clone();
        let held = HeldLeases::new(store.clone(), Side::Out, settings.lease);
        let Telemetry { alarms, metrics, health, spans } = telemetry;
        Self(Arc::new(Context { store, settings, in_force, wire, holds, alarms, metrics, health, spans, held }))
    }

    /// What holds apps up, for operators to see.
    pub fn holds(&self) -> Arc<Holds> {
        self.0.holds.clone()
    }

    /// Claims and sends until `stop`, see there.
    pub async fn run(&self, stop: Stop) {
        let permits = Arc::new(Semaphore::new(self.0.settings.max_chats));
        let mut pool = Pool { context: Arc::clone(&self.0), permits, stop, lanes: JoinSet::new() };
        let renewals = CancellationToken::new();
        let work = async {
            pool.claim_and_start().await;
            pool.finish().await;
            renewals.cancel();
        };
        tokio::join!(work, self.0.held.renew_until(&renewals), self.0.holds.watch_until(&self.0.in_force, &renewals));
        self.0.health.done(LOOP);
    }
}

struct Pool {
    context: Arc<Context>,
    permits: Arc<Semaphore>,
    stop: Stop,
    /// A task for each lane that is being worked; dropping the set aborts them.
    lanes: JoinSet<()>,
}

impl Pool {
    /// The claim loop. A claim under way is never cut off: its leases would be held by nobody.
    async fn claim_and_start(&mut self) {
        let context = Arc::clone(&self.context);
        let mut outage = Outage::new("claim_replies");
        while let Some(permits) = self.free_permits().await {
            match context.store.claim_replies(permits.len(), context.settings.lease).await {
                Ok(Claimed { items, next_wake, .. }) => {
                    outage.over();
                    let found = !items.is_empty();
                    self.start(items, permits);
                    if !found {
                        self.idle(next_wake.unwrap_or(IDLE).min(IDLE)).await;
                    }
                }
                Err(error) => {
                    let _ = self
                        .stop
                        .draining
                        .run_until_cancelled(outage.wait(&error, &context.metrics, &context.alarms))
                        .await;
                }
            }
        }
    }

    /// All permits that are free, at least one; `None` once stopped.
    async fn free_permits(&mut self) -> Option<Vec<OwnedSemaphorePermit>> {
        let first = loop {
            self.context.health.tick(LOOP);
            tokio::select! {
                biased;
                () = self.stop.draining.cancelled() => return None,
                Some(ended) = self.lanes.join_next() => report(ended),
                permit = Arc::clone(&self.permits).acquire_owned() => break permit.ok()?,
                // Only to tick: lanes that go on and on may keep their permits for long.
                () = tokio::time::sleep(IDLE) => {}
            }
        };
        let more = std::iter::from_fn(|| Arc::clone(&self.permits).try_acquire_owned().ok());
        Some(std::iter::once(first).chain(more).collect())
    }

    fn start(&mut self, claimed: Vec<ClaimedReply>, permits: Vec<OwnedSemaphorePermit>) {
        for (reply, permit) in claimed.into_iter().zip(permits) {
            let (context, stop) = (Arc::clone(&self.context), self.stop.clone());
            let held = context.held.hold(reply.lease.clone());
            self.lanes.spawn(async move {
                let _until_done = (held, permit);
                lane::work(&context, reply, &stop).await;
            });
        }
    }

    /// Waits for work, at most `limit`. A lane that ended may have been parked: only a new claim tells when it wakes.
    async fn idle(&mut self, limit: Duration) {
        let context = Arc::clone(&self.context);
        tokio::select! {
            () = self.stop.draining.cancelled() => {}
            Some(ended) = self.lanes.join_next() => report(ended),
            () = context.store.wakeups().wait(Side::Out, limit) => {}
        }
    }

    async fn finish(&mut self) {
        while let Some(ended) = self.lanes.join_next().await {
            report(ended);
        }
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        error!(%error, "a lane's task ended badly; its lease runs out by itself");
    }
}
