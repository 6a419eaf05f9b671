//! What operators do to a store by hand. It stands beside the lane that it is about, so that it holds for every process at
//! once, and wins over the configuration until it is taken back.

use std::time::Duration;

use serde::Deserialize;
use utoipa::ToSchema;

use super::{ChildChange, Line, Turn};
use crate::model::{Delivery, Lane, Outcome};
use crate::task::EXPIRED;

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
    /// Whether a lane that a fault of the configuration set aside is looked at again at once.
    pub unhold: bool,
    /// Whether its members are not answered: claims tell so of its messages.
    pub muted: Option<bool>,
    /// The configured weight, and the head start. See [`super::Commit::turn`].
    pub turn: Turn,
    /// What the trail of changes says of it.
    pub change: Line,
}

/// What is done with a delivery that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ByHand {
    /// It is sent again, under an id of its own.
    Resend,
    /// It has arrived after all.
    Delivered,
    /// Nobody misses it.
    Discard,
    /// It did not arrive, and its task says that it is too late now.
    #[serde(skip_deserializing)]
    Expire,
    /// The same bytes are sent once more, because the far side knows the repeat.
    #[serde(skip_deserializing)]
    Repeat,
}

impl ByHand {
    /// Its word in trails and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resend => "resend",
            Self::Delivered => "delivered",
            Self::Discard => "discard",
            Self::Expire => "expire",
            Self::Repeat => "repeat",
        }
    }

    /// The reverse of [`ByHand::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Resend, Self::Delivered, Self::Discard, Self::Expire, Self::Repeat];
        all.into_iter().find(|action| action.as_str() == word)
    }

    /// The state that the delivery, or the one in its place, comes into.
    pub fn state(self) -> Outcome {
        match self {
            Self::Resend | Self::Repeat => Outcome::Queued,
            Self::Delivered => Outcome::Delivered,
            Self::Discard | Self::Expire => Outcome::Dropped,
        }
    }

    /// Why it is in that state.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Resend | Self::Repeat => None,
            Self::Delivered => Some(CONFIRMED),
            Self::Discard => Some(DISCARDED),
            Self::Expire => Some(EXPIRED),
        }
    }
}

/// Why a delivery counts as dropped that nobody misses: it waits for nobody any more.
pub const DISCARDED: &str = "discarded";
/// Why a delivery counts as delivered of which somebody said so.
pub const CONFIRMED: &str = "confirmed";

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
