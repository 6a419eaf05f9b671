//! The store: lanes, marks, sessions, pace and the journal, behind one trait of domain verbs.
//!
//! Each verb is one atomic step per shard: one transaction (`embedded`) or one Lua script (`redis`). Both are
//! real and pass one contract suite. What always holds:
//!
//! - A lane is worked by one lease at a time. A lease is known by its id, new and random at each claim; every
//!   finish is compare-and-set on it, and a late worker is told `Lost`, which is normal.
//! - A head stays at the front of its lane until it is settled: an expired lease is the whole recovery.
//! - The mark of a message is set in the step that claims it and is never deleted, only left to expire.
//! - Time inside a step is the store's own.
//! - Any call may have been applied although it failed; each can be repeated as it is.
//!
//! Beside it stands the [`Spool`], which keeps messages that a store did not take yet.
//!
//! The store knows nothing of HTTP, rules or verdicts: those decide, it keeps.

mod changes;
pub mod embedded;
mod held;
mod inbound;
pub mod journal;
mod json;
mod late;
pub mod lock;
mod members;
mod notes;
mod operators;
mod options;
mod outage;
mod outbound;
mod pushes;
pub mod redis;
mod session;
mod share;
mod spool;
mod status;
mod wakeups;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{Lane, Secret, SessionKey};
pub use changes::{ChangeKind, Via, Who, from_to};
pub use held::{Held, HeldLeases};
pub use inbound::{Arrival, ClaimedMessage, Commit, Committed, Enqueued, MOST_DROPPED, Poisoned};
pub use journal::{CONTENT, Entry, JournalBatch, Line, Stage};
pub use late::{Answered, LateAnswer, LateTicket, Waiting};
pub use members::{Admitted, FieldChange, Knock, Members, ProfileChange, UserChange};
pub use notes::{Note, NoteWrite, Noted};
pub use operators::{ByHand, CONFIRMED, DISCARDED, Operated, Operation, Tuning};
pub use options::Options;
pub use outage::{Outage, insist};
pub use outbound::{Begin, Begun, ClaimedReply, Fate, GoOn, MOST_MERGED, Pace, ParkReason, Settle, Settled, Turn};
pub use pushes::{
    Child, ChildChange, NewPush, Opened, Pushed, Pushes, Revision, TaskOpening, TaskProgress, TaskStatus,
};
pub use session::{Exchange, Remembered};
pub use spool::{Appended, Spool, Spooled};
pub use status::{ChatStatus, Depth, LOOKED_AT, ParkedFor};
pub use wakeups::Wakeups;

/// Why a store call failed. In every case it may have been applied: repeat it as it is or not at all.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, did not answer in time, or refuses writes for now.
    #[error("the store can't be reached: {0}")]
    Unavailable(String),
    /// It answered what it must not: a bug, or foreign data under our keys.
    #[error("the store answered nonsense: {0}")]
    Corrupt(String),
    /// It was set up for something else (another shard count, a locked path, a missing folder).
    #[error("{0}")]
    Refused(String),
}

impl StoreError {
    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// What every verb answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Which lanes a verb speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Messages waiting to be handled.
    In,
    /// Deliveries waiting to be sent.
    Out,
}

/// The time-bounded right to work the head of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The lane.
    pub lane: Lane,
    /// Random, new at each claim.
    pub id: String,
}

/// No lane is set aside for longer (parked, or given back for a while): one that seems to be was so before the store's clock went
/// back, and is ready.
const LONGEST_ASIDE: Duration = Duration::from_secs(3600);

/// What a claim brought.
#[derive(Debug)]
pub struct Claimed<T> {
    /// Leased heads.
    pub items: Vec<T>,
    /// Messages that this claim ended as `poison`.
    pub poisoned: Vec<Poisoned>,
    /// When the next lane may become workable by time alone (lease end, wake time), if any waits for that; zero where the claim
    /// ended early ([`MOST_DROPPED`]).
    pub next_wake: Option<Duration>,
}

/// The verbs. All take batches; each batch is answered in its own order.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Puts messages at the end of their lanes, unless their mark says that they are known.
    async fn enqueue(&self, batch: Vec<Arrival>) -> Result<Vec<Enqueued>>;

    /// Leases up to `want` inbound lanes, longest waiting first, and sets the marks of their heads. Heads whose mark
    /// holds another id or `done` are dropped on the spot (`duplicate`), so are those past their age (`too_old`) and those
    /// that brought their worker down [`Options::poison_after`] times (`poison`). Once [`MOST_DROPPED`] were dropped the claim ends:
    /// their lane goes behind the others, and the next claim goes on.
    async fn claim_messages(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedMessage>>;

    /// Finishes handled messages.
    async fn commit(&self, batch: Vec<Commit>) -> Result<Vec<Committed>>;

    /// Leases up to `want` outbound lanes by turn, never one that is parked. While lanes of replies wait, every fourth is one of
    /// pushes alone; what they leave is for those.
    async fn claim_replies(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedReply>>;

    /// The step right before a request is written.
    async fn begin(&self, batch: Vec<Begin>) -> Result<Vec<Begun>>;

    /// Finishes begun deliveries and, where asked, goes on with the next of the lane: of replies, unless the turn of another is
    /// before its own or pushes are due for their share; of pushes, unless a reply waits or other pushes are before it.
    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Settled>>;

    /// Prolongs leases; `false` says lost.
    async fn renew(&self, side: Side, leases: Vec<Lease>, lease: Duration) -> Result<Vec<bool>>;

    /// Gives leases back, their heads untouched (a begun one stays begun); others may claim after `pause`. Lost ones are
    /// passed over.
    async fn release(&self, side: Side, leases: Vec<Lease>, pause: Duration) -> Result<()>;

    /// What the message that waits under `request_id` in this chat is, if one does.
    async fn waiting(&self, lane: &Lane, request_id: &str) -> Result<Option<Waiting>>;

    /// What is remembered under this name.
    async fn session(&self, key: &SessionKey) -> Result<Remembered>;

    /// Forgets a session: when that was is known for `keep`, so that nothing older is looked for, and a `forgotten` line is left
    /// for the archive beside the `change`'s own, where there is one to tell.
    async fn forget_session(&self, key: &SessionKey, keep: Duration, change: Option<Line>) -> Result<()>;

    /// Queues a late answer, once per seq.
    async fn answer_late(&self, answer: LateAnswer) -> Result<Answered>;

    /// Clears a chat's dead mark (an `add_to_chat` event).
    async fn revive(&self, lane: &Lane) -> Result<()>;

    /// Changes what operators set of a chat.
    async fn tune(&self, tuning: Tuning) -> Result<()>;

    /// Leaves the line of a change that was made elsewhere ([`Line::change`]).
    async fn note_change(&self, change: Line) -> Result<()>;

    /// Ends a delivery by hand, once.
    async fn operate(&self, operation: Operation) -> Result<Operated>;

    /// What the notes say, in their order.
    async fn read_notes(&self, notes: Vec<Note>) -> Result<Vec<Option<Noted>>>;

    /// Writes a note, over what stands there; `false` where it asks for the note's lock and that is another's by now.
    async fn write_note(&self, write: NoteWrite) -> Result<bool>;

    /// Drops a note, if it still says `seen` (`None`: whatever it says). Answers whether there was one to drop.
    async fn drop_note(&self, note: &Note, seen: Option<&Secret>) -> Result<bool>;

    /// Takes a note's lock for `owner`, for so long; `false` where somebody has it, `owner` too.
    async fn lock_note(&self, note: &Note, owner: &str, ttl: Duration) -> Result<bool>;

    /// Gives a note's lock back, if it is `owner`'s.
    async fn unlock_note(&self, note: &Note, owner: &str) -> Result<()>;

    /// Status of the given chats, in their order.
    async fn chats(&self, lanes: Vec<Lane>) -> Result<Vec<ChatStatus>>;

    /// Chats whose out-lane holds something now, or that are muted, paused, dead or have a weight of their own; `limit` at most.
    async fn busy_chats(&self, limit: usize) -> Result<Vec<Lane>>;

    /// The oldest journal lines, at most `max` a shard; one batch per shard that has any.
    async fn read_journal(&self, max: usize) -> Result<Vec<JournalBatch>>;

    /// Forgets a batch that is safe in the records. Compare-and-set: a batch that another process trimmed is passed over.
    async fn trim_journal(&self, batch: &JournalBatch) -> Result<()> {
        self.rotate_journal(batch, Vec::new()).await.map(drop)
    }

    /// As [`Store::trim_journal`], and in the same step puts `keep`, lines of the batch, at the journal's end. Answers whether
    /// the batch was still there.
    async fn rotate_journal(&self, batch: &JournalBatch, keep: Vec<String>) -> Result<bool>;

    /// How deep it is.
    async fn depth(&self) -> Result<Depth>;

    /// Answers when the store can take writes.
    async fn ping(&self) -> Result<()>;

    /// The barrier of pushes.
    fn pushes(&self) -> &dyn Pushes;

    /// What it keeps of members.
    fn members(&self) -> &dyn Members;

    /// Signals of new work.
    fn wakeups(&self) -> &Wakeups;
}

/// A store, shared.
pub type SharedStore = Arc<dyn Store>;
