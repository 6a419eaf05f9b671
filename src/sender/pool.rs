//! The pool: takes permits, claims lanes, works each in its own task, renews what is held.
//!
//! What always holds:
//!
//! - A permit comes before a claim, and no more lanes are claimed than permits are held: a lease never waits for its turn here.
//! - One lane's panic, dead robot or lost lease ends that lane's task and nothing else.
//! - A store that is away is asked again ever more seldom, and the loop goes on when it is back.
//! - After `stop` nothing is claimed or begun; what is under way is finished and settled, claimed but unbegun lanes go back.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::config::settings::{self, Settings};
use crate::sender::channel::{ClientError, http_client};
use crate::sender::held::Held;
use crate::sender::lane::{self, Context};
use crate::sender::outage::{Outage, Pause};
use crate::sender::route::Routes;
use crate::store::{ClaimedReply, SharedStore, Side};
use crate::telemetry::metrics::Metrics;

/// The store is asked at least so often, should a signal have been missed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Sends the replies of all chats.
pub struct Sender {
    store: SharedStore,
    settings: settings::Sender,
    routes: Arc<Routes>,
    metrics: Arc<Metrics>,
    client: reqwest::Client,
}

impl Sender {
    /// Fails only where no HTTP client can be made.
    pub fn new(
        store: SharedStore,
        settings: Arc<Settings>,
        routes: Arc<Routes>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ClientError> {
        let client = http_client(&settings.sender)?;
        Ok(Self { store, settings: settings.sender.clone(), routes, metrics, client })
    }

    /// Claims and sends until `stop`, then finishes what is under way. Dropping the future instead cuts that off: its
    /// deliveries end as `unknown`, by whoever claims their lanes next.
    pub async fn run(self, stop: CancellationToken) {
        let permits = Arc::new(Semaphore::new(self.settings.max_chats));
        let context = Arc::new(Context {
            store: self.store,
            settings: self.settings,
            routes: self.routes,
            metrics: self.metrics,
            client: self.client,
            held: Held::default(),
            outage: Outage::default(),
            stop,
        });
        let renewer = Arc::clone(&context);
        let mut pool = Pool { context, permits, lanes: JoinSet::new() };
        tokio::select! {
            () = pool.work() => {}
            never = renew(&renewer) => match never {},
        }
    }
}

struct Pool {
    context: Arc<Context>,
    permits: Arc<Semaphore>,
    /// A task for each lane that is being worked; dropping the set aborts them.
    lanes: JoinSet<()>,
}

impl Pool {
    async fn work(&mut self) {
        let mut pause = Pause::default();
        while let Some(permits) = self.free_permits().await {
            let result = self.context.store.claim_replies(permits.len(), self.context.settings.lease).await;
            self.context.outage.note("claim_replies", &result, &self.context.metrics);
            let idle = match result {
                Ok(claimed) if claimed.items.is_empty() => {
                    claimed.next_wake.map_or(LOOK_AGAIN, |wake| wake.min(LOOK_AGAIN))
                }
                Ok(claimed) => {
                    pause = Pause::default();
                    self.start(claimed.items, permits);
                    continue;
                }
                Err(_) => {
                    self.rest(pause.next()).await;
                    continue;
                }
            };
            pause = Pause::default();
            drop(permits);
            self.idle(idle).await;
        }
        while let Some(ended) = self.lanes.join_next().await {
            report(ended);
        }
    }

    /// All permits that are free, at least one; `None` once stopped.
    async fn free_permits(&mut self) -> Option<Vec<OwnedSemaphorePermit>> {
        let first = loop {
            tokio::select! {
                biased;
                () = self.context.stop.cancelled() => return None,
                Some(ended) = self.lanes.join_next() => report(ended),
                permit = Arc::clone(&self.permits).acquire_owned() => break permit.ok()?,
            }
        };
        let more = std::iter::from_fn(|| Arc::clone(&self.permits).try_acquire_owned().ok());
        Some(std::iter::once(first).chain(more).collect())
    }

    fn start(&mut self, claimed: Vec<ClaimedReply>, permits: Vec<OwnedSemaphorePermit>) {
        for (reply, permit) in claimed.into_iter().zip(permits) {
            let hold = self.context.held.hold(&reply.lease);
            let work = lane::work(Arc::clone(&self.context), reply, hold);
            self.lanes.spawn(async move {
                work.await;
                drop(permit);
            });
        }
    }

    /// Waits for work, at most `limit`. A lane that ended may have been parked: its wake time is known only to a new claim.
    async fn idle(&mut self, limit: Duration) {
        let wakeups = self.context.store.wakeups();
        tokio::select! {
            () = self.context.stop.cancelled() => {}
            Some(ended) = self.lanes.join_next() => report(ended),
            () = wakeups.wait(Side::Out, limit) => {}
        }
    }

    async fn rest(&mut self, pause: Duration) {
        tokio::select! {
            () = self.context.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a lane's task ended badly; its lease runs out by itself");
    }
}

/// Prolongs all held leases at a third of their length, in one call.
async fn renew(context: &Context) -> Infallible {
    let lease = context.settings.lease;
    let mut wait = lease / 3;
    let mut pause = Pause::default();
    loop {
        tokio::time::sleep(wait).await;
        wait = lease / 3;
        let leases = context.held.all();
        if leases.is_empty() {
            continue;
        }
        let result = context.store.renew(Side::Out, leases.clone(), lease).await;
        context.outage.note("renew", &result, &context.metrics);
        match result {
            Ok(kept) => {
                pause = Pause::default();
                for (lease, _) in leases.iter().zip(kept).filter(|(_, kept)| !kept) {
                    context.held.forget(lease);
                }
            }
            Err(_) => wait = pause.next().min(wait),
        }
    }
}
