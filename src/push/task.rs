//! A task that passed every check, and the fault of one that did not.

use std::fmt;

use serde_json::Value;

use crate::config::settings::OnUnknown;
use crate::task::{CustomerSet, MemberSet};
use crate::trace_context::TraceContext;

/// A push task, checked: what it says is within the limits of every channel it goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Given, or derived from what it says: 1 to 128 bytes, without control characters.
    pub id: String,
    /// The app that sends it.
    pub app: String,
    /// The producer's own word for what it is, such as `order_shipped`; for trails.
    pub kind: Option<String>,
    /// To whom.
    pub target: Target,
    /// What is sent: `msgtype` and that one body; to customers a text with attachments.
    pub(super) message: Value,
    /// How large that is, about.
    pub(super) bytes: usize,
    /// Hex SHA-256 of app, target and message: another one under the same id is a conflict.
    pub(super) digest: String,
    /// Not sent after this, Unix ms; no later than it is known for.
    pub expires_at: i64,
    /// What happens to a delivery whose outcome is unknown.
    pub(super) on_unknown: OnUnknown,
    /// Of whoever hands it over, where that is traced; at the desk its own span.
    pub trace: Option<TraceContext>,
}

impl Task {
    /// How many deliveries it becomes.
    pub fn total(&self) -> usize {
        match &self.target {
            Target::Chats(chats) => chats.len(),
            Target::Members(_) | Target::Customers(_) => 1,
        }
    }
}

/// To whom a task goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// Chats, each by its configured route: 1 to 10,000, no two alike.
    Chats(Vec<String>),
    /// Members of the corp, by one `message/send`.
    Members(MemberSet),
    /// Customers or their groups, by one task that a member confirms.
    Customers(CustomerSet),
}

impl Target {
    /// How many bytes of each delivery say whom it is for, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Chats(_) | Self::Members(_) => 0,
            Self::Customers(set) => set.ids.iter().map(String::len).sum(),
        }
    }
}

/// Why a task is refused for good: the same task again is refused again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFault {
    /// What sort of fault it is.
    pub kind: FaultKind,
    /// The field, as in `target.users[3]` or `message.text.content`; empty where it is the task as a whole.
    pub field: String,
    /// What is wrong with it, and the mend. Holds nothing of the message.
    pub message: String,
}

/// The sorts of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No JSON, or a field that can't be what it is.
    Malformed,
    /// Another content is known under this id.
    Conflict,
}

impl FaultKind {
    /// Its word in answers and dead letters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "bad_task",
            Self::Conflict => "task_conflict",
        }
    }
}

impl TaskFault {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: FaultKind::Malformed, field: field.into(), message: message.into() }
    }

    pub(super) fn conflict() -> Self {
        let message = "another task is known under this id, to other recipients or of another message: give this one an id of its own";
        Self { kind: FaultKind::Conflict, field: "task_id".into(), message: message.into() }
    }
}

impl fmt::Display for TaskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

impl std::error::Error for TaskFault {}
