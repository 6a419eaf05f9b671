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
    /// Journal lines not yet written to the records.
    pub journal: u64,
}
