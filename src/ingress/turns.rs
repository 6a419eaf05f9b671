//! Who came before whom in a lane, among messages that are on their way into the store or the spool.
//!
//! The store is called side by side, which keeps the order of a lane by itself. Who gets into the spool instead waits here until
//! those before are decided: else it would lie in front of one that still waits for the store and is spooled later.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::model::Lane;

/// The last that came of each lane, while it is on its way; told by the end of its channel.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<Lane, watch::Receiver<()>>>);

/// A message's place in its lane, until it is decided: dropped then.
pub(super) struct Place<'t> {
    turns: &'t Turns,
    lane: Lane,
    undecided: watch::Sender<()>,
    before: Option<watch::Receiver<()>>,
}

impl Turns {
    /// The place behind all that came so far.
    pub(super) fn take_place(&self, lane: &Lane) -> Place<'_> {
        let (undecided, me) = watch::channel(());
        let before = self.lock().insert(lane.clone(), me);
        Place { turns: self, lane: lane.clone(), undecided, before }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Lane, watch::Receiver<()>>> {
        // Every change under the lock is whole in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Waits until the one before is stored, spooled or refused.
    pub(super) async fn turn(&mut self) {
        if let Some(before) = &mut self.before {
            // Nothing is ever said there: this is its end.
            let _ = before.changed().await;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut last = self.turns.lock();
        if last.get(&self.lane).is_some_and(|last| last.same_channel(&self.undecided.subscribe())) {
            last.remove(&self.lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_turn_comes_once_those_before_are_decided() {
        let turns = Turns::default();
        let (lane, other) = (Lane::of_chat("app", "chat"), Lane::of_chat("app", "other"));
        let mut first = turns.take_place(&lane);
        let mut second = turns.take_place(&lane);
        let mut third = turns.take_place(&lane);
        assert!(first.turn().now_or_never().is_some());
        assert!(turns.take_place(&other).turn().now_or_never().is_some(), "no lane waits for another");
        assert!(second.turn().now_or_never().is_none());
        drop(first);
        assert!(second.turn().now_or_never().is_some() && third.turn().now_or_never().is_none());
        drop(second);
        assert!(third.turn().now_or_never().is_some());
        drop(third);
        assert!(turns.lock().is_empty(), "nothing is kept of who is gone");
        assert!(turns.take_place(&lane).turn().now_or_never().is_some());
    }
}
