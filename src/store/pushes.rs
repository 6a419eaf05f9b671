//! The barrier of pushes: who may send a task, of two levels, because the chats of a task live in different slots.
//!
//! The parent stands in a slot of its own and says what the task is (a digest), how far its deliveries are handed to their lanes
//! (a cursor), and whether all are. The child stands in its lane's slot: it is set in the step that queues the delivery and changed in
//! the step that settles it, or that WeCom tells more in ([`Pushes::revise`]). A task that comes again finds its parent done and is passed over; one that stopped half-way queues
//! its children again, each at most once. Both are kept for the same time.

use std::time::Duration;

use async_trait::async_trait;

use super::{Line, Result, Turn};
use crate::model::{Delivery, Lane, Outcome, first_id};
use crate::task::PushState;

/// A task at the door.
#[derive(Clone, Debug)]
pub struct TaskOpening {
    /// Its id.
    pub task_id: String,
    /// Its app.
    pub app: String,
    /// Hex SHA-256 of what it says: another content under the same id is another task, and refused.
    pub digest: String,
    /// How many deliveries it has.
    pub total: u64,
    /// How long it is known.
    pub keep: Duration,
}

/// What the door says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Its deliveries are to be queued, from this one on (0 for a new task): those before are in their lanes.
    Open(u64),
    /// All are in their lanes.
    Done,
    /// Another task is known under this id.
    Conflict,
}

/// How far a task's deliveries are in their lanes.
#[derive(Clone, Debug)]
pub struct TaskProgress {
    /// The task.
    pub task_id: String,
    /// So many are; the cursor never goes back.
    pub cursor: u64,
    /// Whether these are all.
    pub done: bool,
}

/// A task's delivery on its way into its lane.
#[derive(Clone, Debug)]
pub struct NewPush {
    /// The task.
    pub task_id: String,
    /// The delivery's id: the same whenever its task comes again.
    pub delivery_id: String,
    /// Its lane.
    pub lane: Lane,
    /// What to send, or how it ended before it began (no route, expired).
    pub fate: std::result::Result<Delivery, PushState>,
    /// How long the child is known.
    pub keep: Duration,
    /// See [`super::Commit::turn`].
    pub turn: Turn,
    /// See [`super::Commit::depth_limit`].
    pub depth_limit: u64,
    /// What the trail says; left only where it is queued (or ended) by this call.
    pub lines: Vec<Line>,
}

impl NewPush {
    /// What its child says once it is taken, and what stands in the lane then.
    pub(super) fn taken(&self) -> (PushState, &[Delivery]) {
        match &self.fate {
            Ok(delivery) => (PushState::plain(Outcome::Queued), std::slice::from_ref(delivery)),
            Err(ended) => (ended.clone(), &[]),
        }
    }
}

/// What became of a [`NewPush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It stands in its lane, or its end is noted.
    Queued,
    /// It was known: nothing was done.
    Known,
    /// The lane holds `depth_limit` deliveries; nothing was done.
    LaneFull,
    /// The store holds [`super::Options::max_waiting`]; nothing was done.
    StoreFull,
}

/// What a settle or an operation changes of a child; nothing where none is known any more.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildChange {
    /// The task.
    pub task_id: String,
    /// The child's: as its delivery was called before any resend ([`crate::model::first_id`]).
    pub delivery_id: String,
    /// What is said of it now.
    pub state: PushState,
}

impl ChildChange {
    /// Of a push; `None` for a reply.
    pub fn of(delivery: &Delivery, state: PushState) -> Option<Self> {
        let push = delivery.push.as_ref()?;
        Some(Self { task_id: push.task_id.clone(), delivery_id: first_id(&delivery.id).to_owned(), state })
    }
}

/// What is heard of a delivery after it left its lane.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its lane.
    pub lane: Lane,
    /// [`Child::at`] as it was read: whoever changed the child since knows better.
    pub seen: i64,
    /// What changes of the child.
    pub change: ChildChange,
    /// What the trail says of it.
    pub lines: Vec<Line>,
}

/// A task and its deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatus {
    /// Its app.
    pub app: String,
    /// How many deliveries it has.
    pub total: u64,
    /// How many are in their lanes.
    pub cursor: u64,
    /// Whether all are.
    pub done: bool,
    /// Those that are known, in the order of their numbers.
    pub children: Vec<Child>,
}

/// One delivery of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Its id.
    pub delivery_id: String,
    /// Its lane.
    pub lane: Lane,
    /// How far it has come.
    pub state: PushState,
    /// Since when, Unix ms by the store's clock.
    pub at: i64,
}

/// Puts the deliveries of a task in the order of their numbers, which stand at the end of their ids.
pub(super) fn order(children: &mut [Child]) {
    let number = |id: &str| id.rsplit('.').next().and_then(|n| n.parse::<u64>().ok());
    children.sort_by(|a, b| (number(&a.delivery_id), &a.delivery_id).cmp(&(number(&b.delivery_id), &b.delivery_id)));
}

/// The verbs about pushes.
#[async_trait]
pub trait Pushes: Send + Sync {
    /// Opens tasks. Asked again, it answers as the task stands then.
    async fn open_tasks(&self, batch: Vec<TaskOpening>) -> Result<Vec<Opened>>;

    /// Queues deliveries, each once. Once a lane was full, what follows for it in the batch finds it so, that nothing gets in front
    /// of what was refused.
    async fn queue_pushes(&self, batch: Vec<NewPush>) -> Result<Vec<Pushed>>;

    /// Notes how far tasks have come.
    async fn advance_tasks(&self, batch: Vec<TaskProgress>) -> Result<()>;

    /// Changes what is said of a delivery; `false` where somebody did since it was read. Of one that is not known any more only
    /// the lines are left.
    async fn revise(&self, revision: Revision) -> Result<bool>;

    /// A task as it stands.
    async fn task(&self, task_id: &str) -> Result<Option<TaskStatus>>;
}
