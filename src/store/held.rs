//! The leases that one process works on one side, renewed together in one batch at a third of their time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Lease, SharedStore, Side};
use crate::model::Lane;

/// See the module.
pub struct HeldLeases {
    store: SharedStore,
    side: Side,
    lease_for: Duration,
    held: Mutex<HashMap<Lane, String>>,
}

/// While it lives, its lease is renewed.
pub struct Held {
    of: Arc<HeldLeases>,
    lease: Lease,
}

impl HeldLeases {
    /// Nothing held yet.
    pub fn new(store: SharedStore, side: Side, lease_for: Duration) -> Arc<Self> {
        Arc::new(Self { store, side, lease_for, held: Mutex::default() })
    }

    /// Renews `lease` until the answer is dropped.
    pub fn hold(self: &Arc<Self>, lease: Lease) -> Held {
        self.lock().insert(lease.lane.clone(), lease.id.clone());
        Held { of: self.clone(), lease }
    }

    /// Renews until `stop`. A lease found lost is forgotten here; whoever works it finds out at its next step.
    pub async fn renew_until(&self, stop: &CancellationToken) {
        let every = self.lease_for / 3;
        while stop.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            let leases: Vec<Lease> =
                self.lock().iter().map(|(lane, id)| Lease { lane: lane.clone(), id: id.clone() }).collect();
            if leases.is_empty() {
                continue;
            }
            match self.store.renew(self.side, leases.clone(), self.lease_for).await {
                Ok(kept) => self.forget(leases.into_iter().zip(kept).filter(|(_, kept)| !kept).map(|(lease, _)| lease)),
                Err(error) => warn!(%error, side = ?self.side, "leases could not be renewed"),
            }
        }
    }

    fn forget(&self, lost: impl Iterator<Item = Lease>) {
        let mut held = self.lock();
        for lease in lost {
            if held.get(&lease.lane) == Some(&lease.id) {
                debug!(lane = lease.lane.as_str(), "a lease was lost");
                held.remove(&lease.lane);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Lane, String>> {
        // Every change under the lock is one insert or remove: nothing can be half done.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.of.lock();
        if held.get(&self.lease.lane) == Some(&self.lease.id) {
            held.remove(&self.lease.lane);
        }
    }
}
