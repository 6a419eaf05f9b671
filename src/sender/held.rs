//! The leases that this process works under, so that one renewer can prolong them all in one call.
//!
//! A lease is in the set from its claim until the [`Hold`] on it is dropped: by its task's end, by a panic too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::Lease;

/// The set, shared by the pool, its lanes and the renewer.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    by_id: Arc<Mutex<HashMap<String, Lease>>>,
}

impl Held {
    /// Keeps `lease` in the set for as long as the answer lives.
    pub fn hold(&self, lease: &Lease) -> Hold {
        self.lock().insert(lease.id.clone(), lease.clone());
        Hold { held: self.clone(), id: lease.id.clone() }
    }

    /// All leases now.
    pub fn all(&self) -> Vec<Lease> {
        self.lock().values().cloned().collect()
    }

    /// Forgets a lease that turned out lost; whoever works under it finds out at its next step.
    pub fn forget(&self, lease: &Lease) {
        self.lock().remove(&lease.id);
    }

    /// Nothing panics while it holds the lock, and no entry is ever half written.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Lease>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes its lease out of the set when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    held: Held,
    id: String,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.held.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Lane;

    #[test]
    fn a_lease_is_held_until_its_hold_is_dropped_or_it_is_lost() {
        let held = Held::default();
        let lease = |id: &str| Lease { lane: Lane::of_chat("app", "chat"), id: id.to_owned() };
        let first = held.hold(&lease("1"));
        let _second = held.hold(&lease("2"));
        assert_eq!(held.all().len(), 2);
        drop(first);
        assert_eq!(held.all(), [lease("2")]);
        held.forget(&lease("2"));
        assert!(held.all().is_empty());
    }
}
