//! How replies and pushes share what is claimed: while both wait, every fourth lane is one of pushes; what replies leave free is
//! theirs too.
//!
//! Each process counts for itself the lanes of replies since its last one of pushes. What a lane goes on with counts as
//! claimed: else lanes with an endless backlog would hold every permit and never come to a claim.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Settled;

/// So many lanes of replies, then one of pushes.
pub(super) const REPLIES_A_PUSH: u8 = 3;

/// The count of a process.
#[derive(Default)]
pub(super) struct Share(AtomicU8);

impl Share {
    /// Where the count stands.
    pub fn now(&self) -> Due {
        Due(self.0.load(Ordering::Relaxed))
    }

    /// Where a claim left it. One that came meanwhile is forgotten, which makes one lane more of the other kind.
    pub fn stands(&self, due: Due) {
        self.0.store(due.0, Ordering::Relaxed);
    }

    /// Counts the lanes that went on.
    pub fn went_on(&self, settled: &[Settled]) {
        let on = settled.iter().filter(|settled| matches!(settled, Settled::Next(..))).count();
        let count = |replies: u8| u8::try_from(on).ok().map(|on| replies.saturating_add(on).min(REPLIES_A_PUSH));
        if on > 0 {
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        }
    }
}

/// Whose lane is next where both wait: lanes of replies since the last one of pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due(pub u8);

impl Due {
    /// Whether it is one of pushes.
    pub fn is_pushes(self) -> bool {
        self.0 >= REPLIES_A_PUSH
    }

    /// At most `want` of `ready`, in which each kind stands in its order.
    pub fn pick<T>(&mut self, ready: Vec<T>, is_of_pushes: impl Fn(&T) -> bool, want: usize) -> Vec<T> {
        let (mut pushes, mut replies): (VecDeque<T>, VecDeque<T>) = ready.into_iter().partition(is_of_pushes);
        let mut picked = Vec::new();
        while picked.len() < want {
            let push = if self.is_pushes() || replies.is_empty() { pushes.pop_front() } else { None };
            let replies_since = if push.is_some() { 0 } else { self.0.saturating_add(1).min(REPLIES_A_PUSH) };
            let Some(lane) = push.or_else(|| replies.pop_front()) else { break };
            picked.push(lane);
            self.0 = replies_since;
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes of replies are even, those of pushes odd.
    fn picked(due: &mut Due, replies: u8, pushes: u8, want: usize) -> Vec<u8> {
        let ready = (0..replies).map(|n| 2 * n).chain((0..pushes).map(|n| 2 * n + 1)).collect();
        due.pick(ready, |lane| lane % 2 == 1, want)
    }

    #[test]
    fn every_fourth_is_a_push_while_both_wait() {
        let mut due = Due::default();
        assert_eq!(picked(&mut due, 9, 9, 10), [0, 2, 4, 1, 6, 8, 10, 3, 12, 14]);
        assert_eq!(picked(&mut due, 9, 9, 3), [0, 1, 2], "it counts on from claim to claim");
    }

    #[test]
    fn what_one_kind_leaves_is_the_others() {
        let mut due = Due::default();
        assert_eq!(picked(&mut due, 1, 3, 10), [0, 1, 3, 5]);
        assert_eq!(picked(&mut due, 6, 0, 10), [0, 2, 4, 6, 8, 10]);
        assert_eq!(picked(&mut due, 2, 2, 1), [1], "nothing is saved up, and nothing lost");
        assert_eq!(picked(&mut due, 9, 9, 4), [0, 2, 4, 1]);
    }
}
