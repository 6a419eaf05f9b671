//! What a load came to, in figures, as the [`Ledger`](super::Ledger) counts them from outside.

use std::time::Duration;

/// How far a load is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages posted at least once.
    pub posted: u64,
    /// Of these, answered with `success`.
    pub acked: u64,
    /// Posts beyond the first of a message: doubles, late copies, retries.
    pub copies: u64,
    /// Acked messages that want a reply.
    pub wanted: u64,
    /// Acked messages that want a reply, have none yet, and may still get one.
    pub missing: u64,
    /// Messages with a reply, wherever it arrived.
    pub answered: u64,
    /// Tagged replies that arrived.
    pub replies: u64,
    /// Replies that name no message.
    pub untagged: u64,
}

/// How long one reply took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When its message was first posted, from the first post of all.
    pub posted: Duration,
    /// From there to the arrival of the reply.
    pub latency: Duration,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Counts.
    pub progress: Progress,
    /// Acked messages that want a reply and have none, although WeCom refused none.
    pub lost: u64,
    /// Acked messages without a reply because WeCom refused it, or everything for its chat.
    pub refused: u64,
    /// Replies in another chat than their message's.
    pub misrouted: u64,
    /// Replies beyond the first of a message.
    pub repeated: u64,
    /// Replies after the reply to a later message of the same member in the same chat.
    pub out_of_order: u64,
    /// Everything else that is recorded as a violation.
    pub other: u64,
    /// First post of a message to the arrival of its reply.
    pub mean: Duration,
    /// Half of the replies came within this.
    pub p50: Duration,
    /// 95 % of replies came within this.
    pub p95: Duration,
    /// 99 % of replies came within this.
    pub p99: Duration,
    /// The slowest reply.
    pub slowest: Duration,
    /// First post to last ack or reply.
    pub took: Duration,
}

impl Summary {
    /// Whether every promise that the ledger can see was kept.
    pub fn kept(&self) -> bool {
        let untaken = self.progress.posted - self.progress.acked;
        untaken + self.lost + self.misrouted + self.repeated + self.out_of_order + self.other == 0
    }
    /// Messages a second.
    pub fn throughput(&self) -> f64 {
        self.progress.acked as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }
}
