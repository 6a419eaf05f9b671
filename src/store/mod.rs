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
pub mod journal;
mod late;
pub mod lock;
mod members;
mod notes;
mod operators;
mod options;
mod outage;
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

use crate::model::{Delivery, Lane, Message, MessageKey, RouteDigest, Secret, SessionKey};
pub use changes::{ChangeKind, Via, Who, from_to};
pub use held::{Held, HeldLeases};
pub use journal::{CONTENT, Entry, JournalBatch, Line, Stage};
pub use late::{Answered, LateAnswer, LateTicket, Waiting};
pub use members::{Admitted, FieldChange, Knock, Members, ProfileChange, UserChange};
pub use notes::{Note, NoteWrite, Noted};
pub use operators::{ByHand, CONFIRMED, DISCARDED, Operated, Operation, Tuning};
pub use options::Options;
pub use outage::Outage;
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
}

/// What became of an [`Arrival`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It stands in its lane, durably (also when it was already there under the same request id).
    Stored,
    /// Its mark says that another request owns it or that it is done; a `duplicate` line is in the journal.
    Duplicate,
    /// The lane holds `depth_limit` messages; nothing was stored.
    LaneFull,
    /// The store holds [`Options::max_waiting`]; nothing was stored.
    StoreFull,
}

/// What a claim brought.
#[derive(Debug)]
pub struct Claimed<T> {
    /// Leased heads.
    pub items: Vec<T>,
    /// Messages that this claim ended as `poison`.
    pub poisoned: Vec<Poisoned>,
    /// When the next lane may become workable by time alone (lease end, wake time), if any waits for that.
    pub next_wake: Option<Duration>,
}

/// A message whose worker never finished, [`Options::poison_after`] times.
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
    /// See [`Commit::turn`].
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

/// The verbs. All take batches; each batch is answered in its own order.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Puts messages at the end of their lanes, unless their mark says that they are known.
    async fn enqueue(&self, batch: Vec<Arrival>) -> Result<Vec<Enqueued>>;

    /// Leases up to `want` inbound lanes, longest waiting first, and sets the marks of their heads. Heads whose mark
    /// holds another id or `done` are dropped on the spot (`duplicate`), so are those past their age (`too_old`) and those
    /// that brought their worker down [`Options::poison_after`] times (`poison`).
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
    /// for the archive beside the `change`'s own.
    async fn forget_session(&self, key: &SessionKey, keep: Duration, change: Line) -> Result<()>;

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
    async fn trim_journal(&self, batch: &JournalBatch) -> Result<()>;

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
