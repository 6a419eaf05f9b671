//! What operators do to a store by hand. It stands beside the lane that it is about, so that it holds for every process at
//! once, and wins over the configuration until it is taken back.

use std::time::Duration;

use super::{ChildChange, Line, Turn};
use crate::model::{Delivery, Lane};

/// What is changed of a chat; what is not said stays as it is.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The chat's lane.
    pub lane: Lane,
    /// 1..=100, or back to the configured one. Acts on what waits already.
    pub weight: Option<Option<u32>>,
    /// Whether nothing more is begun. Taken back, the lane goes on at once.
    pub paused: Option<bool>,
    /// Clears the chat's dead mark.
    pub revive: bool,
    /// The configured weight, and the head start. See [`super::Commit::turn`].
    pub turn: Turn,
}

/// The end by hand of a delivery that ended otherwise than delivered: once for each delivery, whoever asks.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Random; a repeat of the call keeps it.
    pub id: String,
    /// The chat's lane.
    pub lane: Lane,
    /// The delivery that ended.
    pub delivery_id: String,
    /// How long it is known that this was done: as long as anybody may ask for it again.
    pub keep: Duration,
    /// What changes of a push's child.
    pub child: Option<ChildChange>,
    /// To be sent in its place, under an id of its own; of the same chat.
    pub resend: Option<Delivery>,
    /// See [`super::Commit::turn`].
    pub turn: Turn,
    /// See [`super::Commit::depth_limit`].
    pub depth_limit: u64,
    /// What the trail says of it.
    pub lines: Vec<Line>,
}

/// What became of an [`Operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operated {
    /// It is done.
    Done,
    /// Another one was there before; nothing was done.
    Earlier,
    /// The out-lane is full; nothing was done.
    LaneFull,
}
