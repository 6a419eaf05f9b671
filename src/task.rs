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

impl Recipient {
    /// Whether it is more than one: then some may get what others don't.
    pub fn is_several(&self) -> bool {
        match self {
            Self::Chat => false,
            Self::Members(set) => set.one().is_none(),
        }
    }
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

/// Why a delivery is not sent whose task says that it is too late.
pub const EXPIRED: &str = "expired";

/// Everybody who may see the app, among the user ids.
pub const EVERYBODY: &str = "@all";

impl MemberSet {
    /// The member, where it is one alone.
    pub fn one(&self) -> Option<&str> {
        match (self.users.as_slice(), self.parties.as_slice(), self.tags.as_slice()) {
            ([user], [], []) if user != EVERYBODY => Some(user),
            _ => None,
        }
    }
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
    /// WeCom's name of the message, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msgid: Option<String>,
    /// Who is left out by WeCom, in its words, where it took the message for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// What the delivery is called since it was sent again by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_as: Option<String>,
}

impl PushState {
    /// This state, and no more to say of it.
    pub fn plain(state: Outcome) -> Self {
        Self { state, reason: None, errcode: None, msgid: None, left_out: None, sent_as: None }
    }

    /// This state for this reason.
    pub fn because(state: Outcome, reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::plain(state) }
    }
}
