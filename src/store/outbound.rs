//! What goes into and comes out of the verbs of outbound lanes: deliveries are claimed, begun and settled.

use std::time::Duration;

use super::{ChildChange, Lease, Line};
use crate::model::{Delivery, RouteDigest};

/// How far ahead of others a chat's lane stands.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// 1..=100.
    pub weight: u32,
    /// By how much one unit of weight lets a chat go ahead.
    pub head_start: Duration,
}

impl Turn {
    /// `weight × head_start` in ms, for a given weight (1 unit is the common ground and counts too).
    pub fn ahead_ms(self, weight: u32) -> i64 {
        i64::from(weight) * i64::try_from(self.head_start.as_millis()).unwrap_or(i64::MAX / 200)
    }
}

/// Most deliveries that leave as one message.
pub const MOST_MERGED: usize = 32;

/// The head of an outbound lane, leased.
#[derive(Clone, Debug)]
pub struct ClaimedReply {
    /// The right to work it.
    pub lease: Lease,
    /// What to send.
    pub delivery: Delivery,
    /// Attempts that failed and were counted, before this one.
    pub attempts: u32,
    /// Refusals for pace, before this one.
    pub refusals: u32,
    /// Failures of this lane in a row (of any delivery), for its back-off.
    pub failures: u32,
    /// An earlier lease began an attempt and never settled it, or settled it as [`ParkReason::Unanswered`]: it may have been
    /// sent (P7).
    pub begun: bool,
    /// What stands behind it, in order. Where it is `begun`: the rest of what that attempt carried. Else, where pace held the
    /// lane back: what may leave together with it, [`MOST_MERGED`] in all. Mostly nothing.
    pub behind: Vec<Delivery>,
}

/// The step right before a request is written.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The lease; an expired one counts as lost here.
    pub lease: Lease,
    /// The head it is for.
    pub delivery_id: String,
    /// How many deliveries from the head on the request carries, at least 1; kept until they are settled.
    pub merged: u32,
    /// The chat's route now.
    pub route: RouteDigest,
    /// Rate of the robot.
    pub pace: Pace,
    /// How long the lease lasts from now.
    pub lease_for: Duration,
}

/// At most `limit` sends within any `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Sends.
    pub limit: u32,
    /// Span.
    pub window: Duration,
}

/// What `begin` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The attempt is marked, its place in the window taken: write the request.
    Go,
    /// The window is full; the lane was parked until it opens and the lease given back.
    Paced(Duration),
    /// An operator paused the chat; the lane waits (is looked at again after a minute at most) and the lease was given back.
    Paused,
    /// The chat is dead by this very route: settle the head as dropped, without a request.
    ChatDead,
    /// The lease is another's or over: do nothing.
    Lost,
}

/// What became of a begun (or refused) delivery.
#[derive(Clone, Debug)]
pub struct Settle {
    /// The lease; settling works as long as nobody else claimed the lane.
    pub lease: Lease,
    /// The head it speaks of.
    pub delivery_id: String,
    /// How many deliveries from the head on it speaks of, at least 1.
    pub merged: u32,
    /// What happens to them.
    pub fate: Fate,
    /// Shown as the chat's last error; `None` leaves it.
    pub last_error: Option<String>,
    /// What changes of a push's child; a push is never carried together with others.
    pub child: Option<ChildChange>,
    /// What the trail says.
    pub lines: Vec<Line>,
    /// For the next head of the lane: the step that goes on with it if its turn is still the first. `None` gives the lease back.
    pub go_on: Option<GoOn>,
    /// See [`super::Commit::turn`].
    pub turn: Turn,
}

/// The `begin` that is fused with a settle. The next head is begun in the same step when its recorded route equals
/// `route` and it is not too old; else it comes back unbegun and the caller decides. So it does after several that left as
/// one message: more may leave together ([`ClaimedReply::behind`]).
#[derive(Clone, Debug)]
pub struct GoOn {
    /// The chat's route now.
    pub route: RouteDigest,
    /// Rate of the robot.
    pub pace: Pace,
    /// How long the lease lasts from now.
    pub lease_for: Duration,
}

/// The end, or the next try, of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It was delivered: the head goes, the lane's failures are forgotten. As after every begun attempt, the send's place in
    /// the pace window moves to now.
    Delivered,
    /// It ended otherwise (unknown, dead, dropped): the head goes.
    Ended {
        /// Counts as a failure of the lane: it parks for so long first.
        back_off: Option<Duration>,
        /// The chat is dead by this route until another route, an event or an operator says otherwise.
        chat_dead: Option<RouteDigest>,
    },
    /// The head stays and is tried again after `park`.
    Again {
        /// How long the lane is set aside.
        park: Duration,
        /// Why.
        why: ParkReason,
    },
}

/// Why a lane was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkReason {
    /// Our own window or a 45009: counts a refusal when WeCom said so.
    Paced,
    /// A failure that certainly did not send: counts an attempt.
    Transient,
    /// An attempt without an answer, which may have sent and is to be repeated: counts an attempt, and the head stays begun,
    /// so that whoever claims it next knows.
    Unanswered,
    /// Configuration or an operator: counts nothing.
    Held,
    /// Refused together with others: counts nothing, and each of them is sent by itself from now on.
    Apart,
}

impl ParkReason {
    /// The word in stores and in `GET /chats`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paced => "paced",
            Self::Transient => "backing_off",
            Self::Unanswered => "unanswered",
            Self::Held => "held",
            Self::Apart => "apart",
        }
    }
}

/// What a settle answers.
#[derive(Debug)]
pub enum Settled {
    /// Done; the lane went back to its place.
    Released,
    /// Done; the lane's next head is ours too, and this is what its `begin` answered (`None`: not begun).
    Next(Box<ClaimedReply>, Option<Begun>),
    /// Done, and the next head's fused begin gave the lease back (`Paced` or `Paused`).
    Parked(Begun),
    /// The lease was another's by then; nothing was applied.
    Lost,
}
