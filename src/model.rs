//! The nouns that everything else speaks of: message, reply, delivery, lane, ids.
//!
//! What makes two callbacks the same message is the whole triple (chat_id, msg_id, sender_key) within one
//! app; ids are opaque text and are never trimmed, re-cased or rebuilt. This module knows nothing of stores,
//! HTTP or WeCom's wire formats.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::task::PushOf;

use crate::member::MemberKey;

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
    /// A member of the company (`UserId`).
    Internal,
    /// The callback did not say (`FromUserName`).
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
        self.sent_at.is_none() && self.msg_id.starts_with(DIGEST_ID)
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

const DIGEST_ID: &str = "digest:";
const TASK_ID: &str = "task:";

/// The id of a callback that carries none, from the hex digest of its decrypted payload.
pub fn digest_id(digest: &str) -> String {
    format!("{DIGEST_ID}{digest}")
}

/// What stands for a message's id where a push task goes to a chat.
pub fn task_msg_id(task_id: &str) -> String {
    format!("{TASK_ID}{task_id}")
}

/// Percent-encodes what would break a key name: `%`, `:`, `{`, `}` (contract, section 6) and controls.
const PART: &AsciiSet = &CONTROLS.add(b'%').add(b':').add(b'{').add(b'}');

/// Encodes a part of a name that is joined by `:`.
pub(crate) fn encode(part: &str) -> String {
    // Only ASCII is encoded: key names keep other characters readable.
    part.split_inclusive(|c: char| !c.is_ascii()).fold(String::with_capacity(part.len()), |mut out, piece| {
        let ascii = piece.trim_end_matches(|c: char| !c.is_ascii());
        out.extend(utf8_percent_encode(ascii, PART));
        out.push_str(&piece[ascii.len()..]);
        out
    })
}

fn decode(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// `app:chat:sender:msg_id`, each part percent-encoded: the one name of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageKey(String);

impl MessageKey {
    /// Encodes the triple within its app.
    pub fn new(app: &str, chat: &str, sender: &str, msg_id: &str) -> Self {
        Self(format!("{}:{}:{}:{}", encode(app), encode(chat), encode(sender), encode(msg_id)))
    }
    /// What stands for a message where a push task goes to a chat: no message is without a sender and has such an id.
    pub fn of_push(app: &str, chat: &str, task_id: &str) -> Self {
        Self::new(app, chat, "", &task_msg_id(task_id))
    }
    /// The task, where this is a push's.
    pub fn task_id(&self) -> Option<String> {
        let [_, _, sender, msg_id] = self.parts();
        msg_id.strip_prefix(TASK_ID).filter(|_| sender.is_empty()).map(str::to_owned)
    }
    /// Takes an encoded key as it stands in a store or a journal line.
    pub fn from_encoded(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The encoded text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Decoded `[app, chat, sender, msg_id]`; missing parts are empty.
    pub fn parts(&self) -> [String; 4] {
        let mut parts = self.0.splitn(4, ':').map(decode);
        std::array::from_fn(|_| parts.next().unwrap_or_default())
    }
    /// The lane of its chat.
    pub fn chat_lane(&self) -> Lane {
        let [app, chat, ..] = self.parts();
        Lane::of_chat(&app, &chat)
    }
    /// `app:chat:sender`: the name of its sender's session in its chat.
    pub fn session(&self) -> &str {
        self.0.rsplit_once(':').map_or(self.0.as_str(), |(session, _)| session)
    }
    /// Hex SHA-256 of app, chat, sender, msg_id joined by NUL: the `Idempotency-Key` of contract section 5.
    pub fn idempotency_key(&self) -> String {
        hex::encode(Sha256::digest(self.parts().join("\0")))
    }
}

/// The FIFO of one key, percent-encoded: `app:chat:sender` (inbound, order `sender`) or `app:chat`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(String);

impl Lane {
    /// The lane of one member in one chat.
    pub fn of_sender(app: &str, chat: &str, sender: &str) -> Self {
        Self(format!("{}:{}:{}", encode(app), encode(chat), encode(sender)))
    }
    /// The lane of one chat.
    pub fn of_chat(app: &str, chat: &str) -> Self {
        Self(format!("{}:{}", encode(app), encode(chat)))
    }
    /// Takes an encoded lane as it stands in a store.
    pub fn from_encoded(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The encoded text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Decoded app and chat.
    pub fn app_and_chat(&self) -> (String, String) {
        let mut parts = self.0.split(':').map(decode);
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
    /// Which shard it lives in: CRC32(app NUL chat) mod `shards` (contract, section 6).
    pub fn shard(&self, shards: u16) -> u16 {
        if shards <= 1 {
            return 0;
        }
        let (app, chat) = self.app_and_chat();
        shard_of(&app, &chat, shards)
    }
}

/// CRC32(app NUL chat) mod `shards`.
pub fn shard_of(app: &str, chat: &str, shards: u16) -> u16 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(app.as_bytes());
    crc.update(&[0]);
    crc.update(chat.as_bytes());
    (crc.finalize() % u32::from(shards.max(1))) as u16
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
}

impl Delivery {
    /// Whether it is the same bytes once more, of a delivery that ended without an answer: then only its own delivery tells what
    /// became of both (P7). What is sent again by somebody's word keeps no window.
    pub fn is_repeat(&self) -> bool {
        self.repeat_until.is_some() && first_id(&self.id) != self.id
    }
}

/// The id of the `seq`-th delivery of a request.
pub fn delivery_id(request_id: &str, seq: usize) -> String {
    format!("{request_id}.{seq}")
}

/// The id under which a delivery is sent again by hand: `<id>.r1`, and after that `<id>.r2`, … Each is sent again once, so no
/// two are alike.
pub fn resend_id(id: &str) -> String {
    let before = id.rsplit_once(".r").and_then(|(first, n)| Some((first, n.parse::<u32>().ok()?)));
    let (first, n) = before.unwrap_or((id, 0));
    format!("{first}.r{}", n.saturating_add(1))
}

/// What a delivery was called before it was ever sent again.
pub fn first_id(id: &str) -> &str {
    match id.rsplit_once(".r") {
        Some((first, n)) if n.parse::<u32>().is_ok() => first,
        _ => id,
    }
}

/// The first 16 hex digits of the SHA-256 of a route's channel and address: names a route without telling it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RouteDigest(String);

impl RouteDigest {
    /// Digest of a channel's name and the address within it.
    pub fn of(channel: &str, address: &str) -> Self {
        let mut digest = hex::encode(Sha256::digest(format!("{channel}\0{address}")));
        digest.truncate(16);
        Self(digest)
    }
    /// Takes a digest as it stands in a store.
    pub fn from_encoded(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The hex text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Hex SHA-256 of a reply's content, shortened: what logs and trails show instead of the text.
pub fn content_digest(message: &serde_json::Value) -> String {
    let mut digest = hex::encode(Sha256::digest(message.to_string()));
    digest.truncate(16);
    digest
}

/// The name of a session, percent-encoded: `app:chat:sender`, or `app:chat:` for one that all members of a chat share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(String);

impl SessionKey {
    /// Of one member in one chat.
    pub fn of_sender(app: &str, chat: &str, sender: &str) -> Self {
        Self(format!("{}:{}:{}", encode(app), encode(chat), encode(sender)))
    }
    /// Shared in a chat. No message is without a sender, so that it is nobody's own.
    pub fn of_chat(app: &str, chat: &str) -> Self {
        Self::of_sender(app, chat, "")
    }
    /// The encoded text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Its chat's lane: sessions live in their chat's shard.
    pub fn lane(&self) -> Lane {
        let (app, chat) = Lane::from_encoded(&self.0).app_and_chat();
        Lane::of_chat(&app, &chat)
    }
    /// What names this session in a journal line, and a message in it.
    pub fn line_key(&self, msg_id: &str) -> MessageKey {
        MessageKey(format!("{}:{}", self.0, encode(msg_id)))
    }
}

/// What actions remember of one member in one chat: read at claim, written in the commit step only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The last turns, oldest first.
    #[serde(default)]
    pub turns: Vec<SessionTurn>,
    /// What actions set.
    #[serde(default)]
    pub vars: serde_json::Map<String, serde_json::Value>,
}

/// One side's words in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionTurn {
    /// Who spoke.
    pub role: Role,
    /// What was said.
    pub text: String,
    /// Who said it, where a chat shares its session and the callback carried a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub name: Option<String>,
}

/// The speaker of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The member.
    User,
    /// Us.
    Bot,
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
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_ids_apart_and_come_back_whole() {
        let tricky = ["a:b", "a%3Ab", "群{1}", "CAEQ/+==\n"];
        let key = MessageKey::new(tricky[0], tricky[1], tricky[2], tricky[3]);
        assert_eq!(key.parts(), tricky.map(String::from));
        assert_ne!(MessageKey::new("a", "b:c", "d", "e"), MessageKey::new("a", "b", "c:d", "e"));
        assert!(!key.as_str().contains(['{', '}', '\n']) && key.as_str().contains('群'));
    }

    #[test]
    fn each_resend_has_an_id_of_its_own() {
        let chain: Vec<String> =
            std::iter::successors(Some("req.0".to_owned()), |id| Some(resend_id(id))).take(4).collect();
        assert_eq!(chain, ["req.0", "req.0.r1", "req.0.r2", "req.0.r3"]);
        assert_eq!(resend_id("req.rx.0"), "req.rx.0.r1");
        assert!(chain.iter().all(|id| first_id(id) == "req.0"));
        assert_eq!(first_id("req.rx.0"), "req.rx.0");
    }

    #[test]
    fn both_lanes_of_a_chat_share_a_shard() {
        for i in 0..200 {
            let chat = format!("wr:{i}");
            assert_eq!(Lane::of_sender("app", &chat, "u").shard(16), Lane::of_chat("app", &chat).shard(16));
            assert_eq!(Lane::of_chat("app", &chat).shard(16), shard_of("app", &chat, 16));
        }
    }

    #[test]
    fn secrets_do_not_print() {
        assert!(!format!("{:?}", Secret::new("hunter2")).contains("hunter2"));
    }
}
