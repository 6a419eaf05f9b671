//! What the model of a random walk knows of lanes, and what the steps do to them.

use std::collections::{HashMap, HashSet, VecDeque};

use super::*;

/// What a lane's worker holds.
#[derive(Default)]
pub enum Work<T> {
    /// Nobody has the lane.
    #[default]
    Free,
    /// A worker has it.
    Held(T),
    /// Its worker's lease is over, and nobody took it since: the worker may still finish.
    Ended(T),
    /// Its worker died before it knew what it had, and the lease is over.
    Orphaned,
}

impl<T> Work<T> {
    pub fn is_claimable(&self) -> bool {
        !matches!(self, Self::Held(_))
    }
    pub fn worker(&self) -> Option<&T> {
        match self {
            Self::Free | Self::Orphaned => None,
            Self::Held(item) | Self::Ended(item) => Some(item),
        }
    }
}

/// An inbound lane of the model.
#[derive(Default)]
pub struct Member {
    pub chat: usize,
    pub name: String,
    pub waiting: VecDeque<Arrival>,
    /// By message id: whose it is, and whether it is done.
    pub marks: HashMap<String, (String, bool)>,
    pub work: Work<ClaimedMessage>,
    /// Leases of its head that ended with neither a commit nor a release.
    pub crashes: u32,
    /// Workers that lost the lane.
    pub late: Vec<ClaimedMessage>,
}

/// An outbound lane of the model.
#[derive(Default)]
pub struct Chat {
    pub name: String,
    pub waiting: VecDeque<Delivery>,
    pub work: Work<ClaimedReply>,
    pub late: Vec<ClaimedReply>,
    /// How many deliveries the attempt carries that was begun and not settled; 0: none was.
    pub begun: usize,
    /// Pace held it back, and nobody claimed it since.
    pub held_back: bool,
    /// Those that were refused together.
    pub apart: HashSet<String>,
    pub attempts: u32,
    pub refusals: u32,
    pub failures: u32,
    pub dead: bool,
}

impl Member {
    /// The head is done.
    pub fn drop_head(&mut self) -> Option<String> {
        let message = self.waiting.pop_front()?.message;
        self.crashes = 0;
        self.marks.insert(message.msg_id, (message.request_id.clone(), true));
        Some(message.request_id)
    }
    /// What a claim finds that follows upon a crash; answers the request of a head that is given up for it.
    pub fn count_crash(&mut self) -> Option<String> {
        self.crashes += u32::from(matches!(self.work, Work::Ended(_) | Work::Orphaned));
        if self.crashes < CRASHES { None } else { self.drop_head() }
    }
    /// Drops the heads that a claim drops; answers their requests.
    pub fn drop_copies(&mut self) -> Vec<String> {
        let mut dropped = Vec::new();
        while let Some(head) = self.waiting.front() {
            match self.marks.get(&head.message.msg_id) {
                Some((owner, done)) if *done || *owner != head.message.request_id => {
                    dropped.push(head.message.request_id.clone());
                    self.waiting.pop_front();
                }
                _ => break,
            }
        }
        dropped
    }
}

impl Chat {
    pub fn drop_heads(&mut self, count: usize) {
        self.waiting.drain(..count);
        (self.begun, self.attempts, self.refusals) = (0, 0, 0);
    }
    /// The head as a claim must bring it, and what stands behind it: `begun` with it, or fit to `merge`.
    pub fn agrees(&self, claimed: &ClaimedReply, begun: bool, merge: bool) {
        assert_eq!(Some(&claimed.delivery), self.waiting.front());
        let is_single = |delivery: &&Delivery| !self.apart.contains(&delivery.id);
        let carried = if begun {
            self.begun
        } else if merge {
            MOST_MERGED
        } else {
            1
        };
        let behind = self.waiting.iter().take(carried);
        let behind: Vec<_> = if begun { behind.collect() } else { behind.take_while(is_single).collect() };
        assert_eq!(claimed.behind.iter().collect::<Vec<_>>(), behind.get(1..).unwrap_or_default());
        let counts = (claimed.attempts, claimed.refusals, claimed.failures, claimed.begun);
        assert_eq!(counts, (self.attempts, self.refusals, self.failures, begun), "{}", claimed.delivery.id);
    }
    /// Applies a fate to the first `merged`; answers whether the lane may be gone on with.
    pub fn apply(&mut self, fate: &Fate, merged: usize) -> bool {
        match fate {
            Fate::Delivered => {
                self.failures = 0;
                self.drop_heads(merged);
                true
            }
            Fate::Ended { back_off, chat_dead } => {
                self.failures += u32::from(back_off.is_some());
                self.dead |= chat_dead.is_some();
                self.drop_heads(merged);
                back_off.is_none()
            }
            Fate::Again { why, .. } => {
                if *why != ParkReason::Unanswered {
                    self.begun = 0;
                }
                self.held_back = *why == ParkReason::Paced;
                if *why == ParkReason::Apart {
                    self.apart.extend(self.waiting.iter().take(merged).map(|delivery| delivery.id.clone()));
                }
                let failed = matches!(why, ParkReason::Transient | ParkReason::Unanswered);
                self.attempts += u32::from(failed);
                self.failures += u32::from(failed);
                self.refusals += u32::from(*why == ParkReason::Paced);
                false
            }
        }
    }
}
