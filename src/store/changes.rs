//! What operators change, as the trail of changes tells it: who, by what way, of what.
//!
//! The line is made by whoever decides on a change, and left in the step that makes it. Its id names the change: the records know it by
//! that, so that a call that is repeated, and a line that is left twice, are one change.

use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{Line, Stage};
use crate::model::MessageKey;

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// What is set of a chat, `{what: {from, to}}`.
    Chat,
    /// What is set of an app, likewise.
    App,
    /// What is known of a member: which fields, never what they say.
    User,
    /// A member was forgotten.
    UserForgotten,
    /// A session was forgotten.
    SessionForgotten,
    /// A delivery was ended by hand: which, and how.
    Delivery,
    /// Another configuration is in force, or was refused: which files, in which process.
    Configuration,
}

impl ChangeKind {
    /// Its word in lines, rows and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::App => "app",
            Self::User => "user",
            Self::UserForgotten => "user_forgotten",
            Self::SessionForgotten => "session_forgotten",
            Self::Delivery => "delivery",
            Self::Configuration => "configuration",
        }
    }
}

/// By what way somebody changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The operators' API.
    Api,
    /// A command of an admin in a chat.
    Command,
    /// SIGHUP.
    Signal,
    /// The gateway's own look at its files.
    Watch,
}

impl Via {
    /// Its word in lines, rows and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Command => "command",
            Self::Signal => "signal",
            Self::Watch => "watch",
        }
    }
}

/// Who changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// By what way.
    pub via: Via,
    /// A token's name, a member's sender key; where the way names nobody, its own word.
    pub by: &'a str,
}

impl<'a> Who<'a> {
    /// Whoever may signal the process.
    pub const SIGNAL: Self = Self { via: Via::Signal, by: Via::Signal.as_str() };
    /// Whoever may write its files.
    pub const WATCH: Self = Self { via: Via::Watch, by: Via::Watch.as_str() };

    /// An operator, by the name of their token.
    pub fn operator(token: &'a str) -> Self {
        Self { via: Via::Api, by: token }
    }

    /// A member whom the configuration calls an admin.
    pub fn member(sender_key: &'a str) -> Self {
        Self { via: Via::Command, by: sender_key }
    }
}

impl Line {
    /// The line of a change. `id` names it: the same where the change is made again, else a new one. `of` says which app, chat and member
    /// it is about, as far as it is about any.
    pub fn change(id: impl Into<String>, kind: ChangeKind, who: Who<'_>, of: MessageKey, detail: Value) -> Self {
        let Who { via, by } = who;
        let detail =
            [("kind", kind.as_str().into()), ("via", via.as_str().into()), ("by", by.into()), ("detail", detail)];
        let detail: Map<String, Value> = detail.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        Self { stage: Stage::Changed, request_id: id.into(), key: of, detail }
    }
}

/// What something was, and what it is from now on.
pub fn from_to(from: impl Into<Value>, to: impl Into<Value>) -> Value {
    json!({"from": from.into(), "to": to.into()})
}
