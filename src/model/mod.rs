//! The nouns that everything else speaks of: message, reply, delivery, lane, ids.
//!
//! What makes two callbacks the same message is the whole triple (chat_id, msg_id, sender_key) within one
//! app; ids are opaque text and are never trimmed, re-cased or rebuilt. This module knows nothing of stores,
//! HTTP or WeCom's wire formats.

mod names;
mod session;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::member::MemberKey;
use crate::task::PushOf;
use crate::trace_context::TraceContext;

pub(crate) use names::encode;
pub use names::{
    Lane, MessageKey, RouteDigest, SessionKey, content_digest, delivery_id, digest_id, first_id, resend_id, shard_of,
    task_msg_id,
};
pub use session::{Role, Session, SessionTurn};

/// Text that must not be seen: `Debug` is blank, there is no `Display`.
#[derive(Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Where a message was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatKind {
    /// A group chat.
    #[default]
    Group,
    /// A one-to-one chat; its chat_id is the sender where the callback carried none.
    Single,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SenderKind {
    /// A contact outside the company (`ExternalUserId`).
    External,
    /// A member of the company (`UserId`; `FromUserName` of what is written to a self-built app).
    Internal,
    /// The callback did not say (`FromUserName` elsewhere, a field that `[fields]` names).
    Unknown,
}

/// What a member wrote (or an event), as the gateway keeps it from ingress to commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Given at ingress; a repeat of the same store call keeps it.
    pub request_id: String,
    /// The app whose callback brought it.
    pub app: String,
    /// Chat id as it stands in the callback; the sender for a one-to-one chat; empty for an event without one.
    pub chat_id: String,
    /// Group or one-to-one.
    pub chat_kind: ChatKind,
    /// Message id as it stands, or `digest:<hex>` for a callback without one.
    pub msg_id: String,
    /// External contact's id where there is one, else the member's; empty for an event without one.
    pub sender_key: String,
    /// Which of the two it is.
    pub sender_kind: SenderKind,
    /// The name that the callback carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_name: Option<String>,
    /// `text`, `mixed`, `voice`, … or `event:<type>`, lower case.
    pub msg_type: String,
    /// Text content; text parts of a mixed message joined; empty for the rest.
    pub text: String,
    /// When it was sent by the callback's own account, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<i64>,
    /// When the gateway took it, Unix ms.
    pub received_at: i64,
    /// aibot's single-use answer address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_url: Option<Secret>,
    /// Its trace, where it is traced: that of the callback that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

impl Message {
    /// The message's name inside stores and journal lines.
    pub fn key(&self) -> MessageKey {
        MessageKey::new(&self.app, &self.chat_id, &self.sender_key, &self.msg_id)
    }
    /// Who wrote it.
    pub fn member(&self) -> MemberKey {
        MemberKey::new(&self.app, &self.sender_key)
    }
    /// Whether its id is a digest and its payload told no time: the digest of another such event may be the same.
    pub fn is_timeless(&self) -> bool {
        self.sent_at.is_none() && names::is_digest_id(&self.msg_id)
    }
    /// How it can be answered.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo { chat_kind: self.chat_kind, response_url: self.response_url.clone() }
    }
    /// Whether it is an event rather than something a member wrote.
    pub fn is_event(&self) -> bool {
        self.msg_type.starts_with("event")
    }
}

/// What a message says of how it can be answered, beside its key. Whatever was stored before this was known is a group's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyTo {
    /// Only a one-to-one chat may be answered by its member's id: a group must never be taken for a user.
    #[serde(default)]
    pub chat_kind: ChatKind,
    /// aibot's single-use answer address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_url: Option<Secret>,
}

impl ReplyTo {
    /// Whether it says nothing but what is taken for granted.
    fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}
/// One reply or push on its way: what one POST carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// `<request_id>.<seq>`, see [`delivery_id`] and [`resend_id`].
    pub id: String,
    /// The request it answers.
    pub request_id: String,
    /// The message it answers.
    pub key: MessageKey,
    /// The app that answers.
    pub app: String,
    /// The chat it answers into: always the message's own.
    pub chat_id: String,
    /// How the message it answers can be answered.
    #[serde(default, skip_serializing_if = "ReplyTo::is_plain")]
    pub reply_to: ReplyTo,
    /// Set where it answers no message: it is a push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Box<PushOf>>,
    /// The request's whole body, checked and within the channel's limits: every attempt writes these very bytes.
    pub message: serde_json::Value,
    /// Digest of the chat's route when the reply was queued; the route guard compares it before each send.
    pub route: RouteDigest,
    /// Whether the body was made for this one route. A robot's is not: it may also leave by another webhook of its chat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// An attempt without an answer is repeated until then, because the far side knows the repeat, Unix ms. `None`: never (P7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_until: Option<i64>,
    /// Not sent after this, Unix ms.
    pub expires_at: i64,
    /// When the message it answers was taken, Unix ms: latencies are counted from here.
    pub received_at: i64,
    /// When it was made, Unix ms; 0 where that was not written down.
    #[serde(default)]
    pub queued_at: i64,
    /// Its trace, where it is traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

impl Delivery {
    /// Whether it is the same bytes once more, of a delivery that ended without an answer: then only its own delivery tells what
    /// became of both (P7). What is sent again by somebody's word keeps no window.
    pub fn is_repeat(&self) -> bool {
        self.repeat_until.is_some() && first_id(&self.id) != self.id
    }
}

/// How a message (or one delivery of it) ended. Exactly one per message, see P8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Sent again by hand under another id, which speaks for it; only a delivery ends so.
    Resent,
    /// Replies wait to be sent.
    Queued,
    /// WeCom took it.
    Delivered,
    /// No rule matched, or a type that is only counted.
    Ignored,
    /// A sensitive word.
    Blocked,
    /// The action chose to say nothing.
    Silent,
    /// A late answer is due.
    Waiting,
    /// Another callback for the same triple.
    Duplicate,
    /// We chose not to send (too old, no route, chat dead, …).
    Dropped,
    /// Refused for good.
    Dead,
    /// May or may not have arrived.
    Unknown,
}

impl Outcome {
    /// The word used in journal lines, SQL, JSON and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resent => "resent",
            Self::Queued => "queued",
            Self::Delivered => "delivered",
            Self::Ignored => "ignored",
            Self::Blocked => "blocked",
            Self::Silent => "silent",
            Self::Waiting => "waiting",
            Self::Duplicate => "duplicate",
            Self::Dropped => "dropped",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
        }
    }
    /// The reverse of [`Outcome::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        use Outcome::*;
        [Resent, Queued, Delivered, Ignored, Blocked, Silent, Waiting, Duplicate, Dropped, Dead, Unknown]
            .into_iter()
            .find(|o| o.as_str() == word)
    }
}

/// Unix time now, in milliseconds.
pub fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, millis)
}

/// Unix ms as RFC 3339 in UTC, always with three digits of the second; `None` for a number that is no time.
pub fn rfc3339(ms: i64) -> Option<String> {
    Timestamp::from_millisecond(ms).ok().map(|time| format!("{time:.3}"))
}

/// A span as Unix times are counted: whole milliseconds.
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// How long it is since `at`, Unix ms; nothing where that is yet to come: clocks of several machines may differ a little.
pub fn since(at: i64) -> Duration {
    Duration::from_millis(u64::try_from(now_ms().saturating_sub(at)).unwrap_or(0))
}

/// A new id, of a request, a change, a process: hex, later ones behind earlier ones.
pub fn new_id() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_a_field_more_where_there_is_one_and_not_a_byte_where_there_is_none() {
        let stored = r#"{"request_id":"r","app":"a","chat_id":"c","chat_kind":"group","msg_id":"m","sender_key":"u","sender_kind":"external","msg_type":"text","text":"hi","received_at":1}"#;
        let mut message: Message = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), stored);
        message.trace = Some(TraceContext { trace: 1, span: 2, sampled: true });
        let traced = serde_json::to_string(&message).unwrap();
        let field = r#","trace":"00-00000000000000000000000000000001-0000000000000002-01"}"#;
        assert_eq!(traced, stored.replace('}', field));
        assert_eq!(serde_json::from_str::<Message>(&traced).unwrap(), message);

        let stored = r#"{"id":"r.0","request_id":"r","key":"a:c:u:m","app":"a","chat_id":"c","message":{},"route":"d","expires_at":1,"received_at":1,"queued_at":1}"#;
        let mut delivery: Delivery = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&delivery).unwrap(), stored);
        delivery.trace = message.trace;
        assert_eq!(serde_json::to_string(&delivery).unwrap(), stored.strip_suffix('}').unwrap().to_owned() + field);
    }

    #[test]
    fn secrets_do_not_print() {
        assert!(!format!("{:?}", Secret::new("hunter2")).contains("hunter2"));
    }
}
