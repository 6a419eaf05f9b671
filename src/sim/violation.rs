//! What a gateway must never do, and the tag by which a reply is traced to its message.

use std::fmt;

/// Which message a text belongs to, written `[chat sender serial]`. None of the two ids holds a blank or a bracket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The message's chat.
    pub chat: String,
    /// Who wrote it.
    pub sender: String,
    /// Its number; rises within one (chat, sender).
    pub serial: u64,
}

impl Tag {
    /// Names a message.
    pub fn new(chat: &str, sender: &str, serial: u64) -> Self {
        Self { chat: chat.to_owned(), sender: sender.to_owned(), serial }
    }
    /// Every tag in a text, in order.
    pub fn all(text: &str) -> impl Iterator<Item = Self> {
        text.split('[').skip(1).filter_map(|rest| {
            let mut words = rest.split_once(']')?.0.split(' ');
            let (chat, sender, serial) = (words.next()?, words.next()?, words.next()?);
            let serial = serial.parse().ok()?;
            words.next().is_none().then(|| Self::new(chat, sender, serial))
        })
    }
    /// The first tag in a text.
    pub fn of(text: &str) -> Option<Self> {
        Self::all(text).next()
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} {} {}]", self.chat, self.sender, self.serial)
    }
}

/// What a gateway must never do, as WeCom or the team's service saw it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Two sends to one robot were under way at once (P3).
    #[error("two sends at once to the robot of chat {0}")]
    SendsOverlap(String),
    /// A reply arrived in a chat that its message did not come from (P2).
    #[error("the reply to {tag} arrived in chat {chat}")]
    WrongChat {
        /// Its message.
        tag: Tag,
        /// Where it arrived.
        chat: String,
    },
    /// A send came by a webhook that no route names (P2).
    #[error("a send by a webhook that is nobody's route")]
    ForeignWebhook,
    /// A message was answered again (P1).
    #[error("{0} was answered again")]
    Repeated(Tag),
    /// A reply came after the reply to a later message of the same (chat, sender) (P3).
    #[error("the reply to {tag} came after the one to {after}")]
    OutOfOrder {
        /// Its message.
        tag: Tag,
        /// The serial that was answered before it.
        after: u64,
    },
    /// A message that asks for nothing was answered.
    #[error("{0} asked for nothing and was answered")]
    Unasked(Tag),
    /// A robot was sent to above the rate that the fake enforces.
    #[error("too many sends to the robot of chat {0}")]
    OverRate(String),
    /// A send that is no message of a robot, or is over its byte limit.
    #[error("a send to chat {chat} that no robot takes: {why}")]
    BadMessage {
        /// Where it was sent.
        chat: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The action was asked twice for one message; after a crash that may happen, otherwise not.
    #[error("the action was asked twice about message {msg_id} of {sender} in {chat}")]
    AskedTwice {
        /// The message's chat.
        chat: String,
        /// Who wrote it.
        sender: String,
        /// Its id.
        msg_id: String,
    },
    /// Two messages of one (chat, sender) were being handled at once (P3).
    #[error("two messages of {sender} in {chat} were handled at once")]
    HandledAtOnce {
        /// The chat.
        chat: String,
        /// The member.
        sender: String,
    },
    /// The action request of one member held words of another (P4).
    #[error("the session of {sender} in {chat} holds {foreign}")]
    MixedContext {
        /// The chat.
        chat: String,
        /// The member.
        sender: String,
        /// Whose words they are.
        foreign: Tag,
    },
    /// An action request that contract section 5 forbids: signature, key or body.
    #[error("a bad action request: {0}")]
    BadActionRequest(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_in_any_text() {
        let tag = Tag::new("wr1", "m1", 17);
        assert_eq!(Tag::of(&format!("orders {tag} {{\"order_id\":17}} [x]")), Some(tag.clone()));
        assert_eq!(Tag::all(&format!("[a b] {tag}[wr2 m2 3]")).count(), 2);
        assert_eq!(Tag::of("[wr1 m1 x] [wr1 m1 1 2] [wr1"), None);
    }
}
