//! What goes into and comes out of the verbs of inbound lanes: messages arrive, are claimed and committed.

use std::time::Duration;

use super::{Exchange, LateTicket, Lease, Line, Remembered, Turn};
use crate::model::{Delivery, Lane, Message, MessageKey};

/// A message on its way into its lane.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The message; its `request_id` stays the same when the call is repeated.
    pub message: Message,
    /// Its lane, by the configured order.
    pub lane: Lane,
    /// A message that was taken (`received_at`) longer ago than this at its claim is dropped unhandled (`too_old`).
    pub max_age: Duration,
    /// How long its mark lives once it is claimed, and again once it is done.
    pub mark_ttl: Duration,
    /// Most messages that may wait in the lane.
    pub depth_limit: u64,
    /// Whether this very call may have been made before and its answer was lost: only then it is looked for in its lane.
    pub repeated: bool,
}

/// What became of an [`Arrival`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It stands in its lane, durably (also when it was already, under the same request id).
    Stored,
    /// Its mark says that another request owns it or that it is done; a `duplicate` line is in the journal.
    Duplicate,
    /// The lane holds `depth_limit` messages; nothing was stored.
    LaneFull,
    /// The store holds [`super::Options::max_waiting`]; nothing was stored.
    StoreFull,
}

/// Most heads that one claim drops unhandled: whatever waited too long, no step takes long.
pub const MOST_DROPPED: usize = 256;

/// A message whose worker never finished, [`super::Options::poison_after`] times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poisoned {
    /// Its request.
    pub request_id: String,
    /// The message.
    pub key: MessageKey,
}

/// The head of an inbound lane, leased and marked.
#[derive(Debug)]
pub struct ClaimedMessage {
    /// The right to work it.
    pub lease: Lease,
    /// The message.
    pub message: Message,
    /// What is remembered of its sender in its chat.
    pub remembered: Remembered,
    /// Whether its mark already held its own id: it was claimed before, and its worker never finished.
    pub redelivered: bool,
    /// Whether an admin muted its chat.
    pub muted: bool,
}

/// What commits a handled message, as one step: head dropped, mark `done`, session written, replies queued in the
/// out-lane, that lane made ready, journal lines left.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The lease under which it was handled.
    pub lease: Lease,
    /// The message (its mark and session are named by this).
    pub key: MessageKey,
    /// Its request id.
    pub request_id: String,
    /// How long the mark lives from now.
    pub mark_ttl: Duration,
    /// What was said, where an action that sees the session said something.
    pub exchange: Option<Exchange>,
    /// Replies, in order; all of one chat. May be empty.
    pub replies: Vec<Delivery>,
    /// Turn of the out-lane: `now − weight × head_start`. An operator's weight in the store wins over `weight`.
    pub turn: Turn,
    /// Most deliveries that may wait in the out-lane.
    pub depth_limit: u64,
    /// Set where an action answered "later": how long `answer_late` is accepted.
    pub await_late: Option<LateTicket>,
    /// What the trail says of it.
    pub lines: Vec<Line>,
}

/// What became of a [`Commit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Applied.
    Done,
    /// The lease was another's by then; nothing was applied.
    Lost,
    /// The out-lane had no room for all replies; nothing was applied, the lease still holds.
    LaneFull,
}
