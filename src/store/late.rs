//! Answers that come after their message was handled: the ticket that waits for them, and what became of one.

use std::time::Duration;

use super::{Line, Turn};
use crate::model::{Delivery, Lane, MessageKey, ReplyTo};

/// Kept for a message whose answer comes later by `POST /api/v1/replies`.
#[derive(Clone, Debug)]
pub struct LateTicket {
    /// How long it is waited for.
    pub ttl: Duration,
    /// When its message was taken and until when its replies may be sent, Unix ms.
    pub received_at: i64,
    /// See [`Delivery::expires_at`].
    pub expires_at: i64,
    /// See [`Delivery::reply_to`].
    pub reply_to: ReplyTo,
}

/// A late answer. Its deliveries are built by `seq` so that a repeat is recognised.
#[derive(Clone, Debug)]
pub struct LateAnswer {
    /// The request that waits.
    pub request_id: String,
    /// The chat it must belong to.
    pub lane: Lane,
    /// The caller's number of this answer.
    pub seq: u64,
    /// What to send; all of the chat.
    pub replies: Vec<Delivery>,
    /// See [`super::Commit::turn`].
    pub turn: Turn,
    /// See [`super::Commit::depth_limit`].
    pub depth_limit: u64,
    /// What the trail says of it.
    pub lines: Vec<Line>,
}

/// What a waiting message is, for building its late answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The message.
    pub key: MessageKey,
    /// See [`LateTicket::received_at`].
    pub received_at: i64,
    /// See [`LateTicket::expires_at`].
    pub expires_at: i64,
    /// See [`LateTicket::reply_to`].
    pub reply_to: ReplyTo,
    /// How many answers (by seq) it got already.
    pub answers: u64,
}

/// What became of a [`LateAnswer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Queued.
    Queued,
    /// This seq was taken before; nothing was done.
    Repeat,
    /// No message of that chat waits under this request id.
    NotWaiting,
    /// The out-lane is full; nothing was done.
    LaneFull,
}
