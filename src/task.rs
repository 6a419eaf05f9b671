//! Push tasks: what goes out with no message before it, to whom, and by which key it is known.
//!
//! A task is known by one id over all apps, chats and ways in: however often it comes, by HTTP or Kafka, each of its
//! recipients gets it once. It becomes one delivery for each chat, or one for a set of members; each delivery has a state of its
//! own, its lane and its trail ([`MessageKey::of_push`]).

use serde::{Deserialize, Serialize};

use crate::model::Outcome;

/// What a delivery that answers no message belongs to, and how it is addressed. Stored with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PushOf {
    /// The task.
    pub task_id: String,
    /// To whom.
    pub to: Recipient,
}

/// To whom one delivery of a task goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// A chat, by its configured route.
    Chat,
    /// Members of the corp, by one `message/send`.
    Members(MemberSet),
}

/// Members of the corp, as `message/send` addresses them: each list may be empty, not all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemberSet {
    /// At most 1000 user ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// At most 100 departments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<String>,
    /// At most 100 tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// How far one delivery of a task has come, as it stands in its lane's slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushState {
    /// `queued`, `delivered`, `unknown`, `dead` or `dropped`.
    pub state: Outcome,
    /// Why, where there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// WeCom's, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errcode: Option<i64>,
}
