//! What a store tells of itself.

use std::time::Duration;

use crate::model::{Lane, RouteDigest};

/// What an out-lane looks like from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatStatus {
    /// The chat's lane.
    pub lane: Lane,
    /// Deliveries waiting.
    pub depth: u64,
    /// When the oldest of them was taken as a message, Unix ms.
    pub oldest: Option<i64>,
    /// Whether it is being sent to right now.
    pub leased: bool,
    /// Why it is parked and for how long still.
    pub parked: Option<(String, Duration)>,
    /// An operator paused it.
    pub paused: bool,
    /// An admin or an operator muted it: no message of it is answered.
    pub muted: bool,
    /// The route by which it is dead.
    pub dead: Option<RouteDigest>,
    /// An operator's weight.
    pub weight: Option<u32>,
    /// The last failure since it was last revived, in words.
    pub last_error: Option<String>,
}

/// Where more lanes stand than this, a look at each of them would take too long for a scrape.
pub const LOOKED_AT: usize = 200;

/// So many outbound lanes are parked for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkedFor {
    by_word: [u64; PARKED_FOR.len()],
}

/// The words of reasons: those of [`ParkReason`](super::ParkReason), an operator's, and one for lanes that were not looked at.
const PARKED_FOR: [&str; 7] = ["paced", "backing_off", "unanswered", "held", "apart", "paused", "other"];

impl ParkedFor {
    /// So many more for this reason.
    pub fn add(&mut self, reason: &str, lanes: u64) {
        let at = PARKED_FOR.iter().position(|word| *word == reason).unwrap_or(PARKED_FOR.len() - 1);
        self.by_word[at] += lanes;
    }

    /// Every reason with its lanes.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PARKED_FOR.into_iter().zip(self.by_word)
    }
}

impl Depth {
    /// This shard's and another's.
    pub fn and(mut self, other: Self) -> Self {
        let earlier = |a: Option<i64>, b: Option<i64>| a.into_iter().chain(b).min();
        other.parked_for.iter().for_each(|(reason, lanes)| self.parked_for.add(reason, lanes));
        Self {
            waiting: self.waiting + other.waiting,
            in_lanes: self.in_lanes + other.in_lanes,
            out_lanes: self.out_lanes + other.out_lanes,
            parked: self.parked + other.parked,
            parked_for: self.parked_for,
            in_leases: self.in_leases + other.in_leases,
            out_leases: self.out_leases + other.out_leases,
            oldest_message: earlier(self.oldest_message, other.oldest_message),
            oldest_reply: earlier(self.oldest_reply, other.oldest_reply),
            journal: self.journal + other.journal,
        }
    }
}

/// How deep the store is, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages and deliveries that wait or are being worked; Redis may count a little wrong after keys vanished.
    pub waiting: u64,
    /// Lanes ready or leased, inbound.
    pub in_lanes: u64,
    /// Lanes ready, parked or leased, outbound.
    pub out_lanes: u64,
    /// Lanes parked, outbound.
    pub parked: u64,
    /// Why they are.
    pub parked_for: ParkedFor,
    /// Leases of inbound lanes; one that ended counts until its lane is claimed again.
    pub in_leases: u64,
    /// Leases of outbound lanes.
    pub out_leases: u64,
    /// When the message was taken that waits in front of the inbound lane whose turn is next, Unix ms.
    pub oldest_message: Option<i64>,
    /// When the oldest message (or push) was taken whose delivery waits or is being sent, Unix ms; of the lanes that were looked
    /// at, at most [`LOOKED_AT`] of a kind and shard.
    pub oldest_reply: Option<i64>,
    /// Journal lines not yet written to the records.
    pub journal: u64,
}
