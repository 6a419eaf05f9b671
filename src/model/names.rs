//! What things are called: messages, lanes, deliveries, sessions, routes.
//!
//! A name is made of ids as they came, each percent-encoded, joined by `:`; so no two things share one, and each comes apart
//! again. A digest stands where the thing itself must not be told.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const DIGEST_ID: &str = "digest:";
const TASK_ID: &str = "task:";

/// The id of a callback that carries none, from the hex digest of its decrypted payload.
pub fn digest_id(digest: &str) -> String {
    format!("{DIGEST_ID}{digest}")
}

/// Whether an id is of [`digest_id`].
pub(super) fn is_digest_id(id: &str) -> bool {
    id.starts_with(DIGEST_ID)
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
    fn a_message_is_answered_in_its_own_chat() {
        for (chat, sender) in [("chat", "u"), ("a:b", "u:v"), ("", ""), ("群{1}", "u")] {
            assert_eq!(MessageKey::new("app", chat, sender, "m:1").chat_lane(), Lane::of_chat("app", chat));
        }
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
}
