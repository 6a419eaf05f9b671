//! Push tasks: what goes out with no message before it, to whom, and by which key it is known.
//!
//! A task is known by one id over all apps, chats and ways in: however often it comes, by HTTP or Kafka, each of its
//! recipients gets it once. It becomes one delivery for each chat, or one for a set of members; each delivery has a state of its
//! own, its lane and its trail ([`crate::model::MessageKey::of_push`]).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    /// Customers or their groups, by one `externalcontact/add_msg_template`, which a member has to confirm.
    Customers(CustomerSet),
}

impl Recipient {
    /// Whether it is more than one: then some may get what others don't.
    pub fn is_several(&self) -> bool {
        match self {
            Self::Chat => false,
            Self::Members(set) => set.one().is_none(),
            Self::Customers(set) => set.ids.len() > 1,
        }
    }

    /// Those of whom WeCom tells later, each for themselves, what they got; empty where its answer says all.
    pub fn told_later(&self) -> Vec<Who> {
        match self {
            Self::Chat | Self::Members(_) => Vec::new(),
            Self::Customers(set) => set.ids.iter().map(|id| set.kind.who(id)).collect(),
        }
    }

    /// Whether an `errcode` 0 only says that a member is asked to send it.
    pub fn awaits_member(&self) -> bool {
        matches!(self, Self::Customers(_))
    }
}

/// Customers, or groups of customers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerSet {
    /// Which of the two.
    pub kind: CustomerKind,
    /// At most 10,000 external user ids, or 2000 ids of groups.
    pub ids: Vec<String>,
    /// The member who is asked to send it; groups have one always. `None`: for each customer the member who spoke with them last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

/// What a [`CustomerSet`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CustomerKind {
    /// Customers, each in their own chat with a member.
    Customer,
    /// Groups with customers.
    Chat,
}

impl CustomerKind {
    /// The one of this kind and id.
    pub fn who(self, id: &str) -> Who {
        match self {
            Self::Customer => Who::Customer(id.to_owned()),
            Self::Chat => Who::Chat(id.to_owned()),
        }
    }
}

/// One of those that a delivery is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// By their external user id.
    Customer(String),
    /// A customer group, by its id.
    Chat(String),
}

/// What one of those got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipientState {
    /// Of whom.
    #[serde(flatten)]
    pub who: Who,
    /// `queued`, `delivered`, `dead` or `unknown`.
    pub state: Outcome,
    /// Why, where there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was sent, by WeCom's clock, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<i64>,
}

impl RecipientState {
    /// Nothing is known yet.
    pub fn queued(who: Who) -> Self {
        Self { who, state: Outcome::Queued, reason: None, at: None }
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

/// Why a delivery is `queued` that has left its lane: WeCom took it, and a member has to confirm it.
pub const AWAITING_MEMBER: &str = "awaiting_member";

/// Why some of several have not got what the others have.
pub const PARTIAL: &str = "partial";

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
    /// What the delivery is called since it was sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_as: Option<String>,
    /// Whether that was a repeat that the far side knows, and not somebody's word that it did not arrive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_repeat: bool,
    /// What each of its recipients got, where WeCom tells that ([`Recipient::told_later`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<RecipientState>,
}

impl PushState {
    /// This state, and no more to say of it.
    pub fn plain(state: Outcome) -> Self {
        Self {
            state,
            reason: None,
            errcode: None,
            msgid: None,
            left_out: None,
            sent_as: None,
            is_repeat: false,
            recipients: Vec::new(),
        }
    }

    /// Whether WeCom has it, and a member has to confirm it.
    pub fn awaits_member(&self) -> bool {
        self.state == Outcome::Queued && self.reason.as_deref() == Some(AWAITING_MEMBER)
    }

    /// This state for this reason.
    pub fn because(state: Outcome, reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::plain(state) }
    }

    /// Whether somebody said that it did not arrive, so that it was sent again.
    pub fn was_missed(&self) -> bool {
        self.sent_as.is_some() && !self.is_repeat
    }
}
