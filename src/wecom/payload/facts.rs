//! The table of names: which value of a callback means what, and what the values mean together.
//!
//! Names are compared without case and underscores, so one row covers `ChatId`, `ChatID`, `chatid` and `chat_id`.
//! Where a document gives a value twice, the first one counts. Sources: developer.work.weixin.qq.com/document/path
//! 90239 (apps), 92130 (contact events), 100719 and 101027 (smart robots), 91881 (group robots).

use super::{Fields, Payload, PayloadError};
use crate::model::{ChatKind, Secret, SenderKind};

/// Bytes of an id.
const MAX_ID: usize = 512;
/// Bytes of a `response_url`.
const MAX_URL: usize = 2048;
/// Characters of a display name.
const MAX_NAME: usize = 128;
/// Times above are milliseconds, below seconds: as seconds it would be the year 5138, as milliseconds March 1973.
const FIRST_MILLISECONDS: i64 = 100_000_000_000;

/// Where in a document a name stands. Whatever is not listed is passed over with all that is inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Directly below the root.
    Top,
    /// `From`: who wrote.
    From,
    /// `Text`: what was written.
    Text,
    /// `voice`: what was said.
    Voice,
    /// `Event`.
    Event,
    /// `MixedMessage`, `mixed`, `mixed_message`.
    Mixed,
    /// One part of a mixed message.
    MixedItem,
    /// Its text.
    MixedText,
    /// Anything else.
    Elsewhere,
}

impl Place {
    /// The place inside `name` as it stands in `self`.
    pub(super) fn inside(self, name: &str) -> Self {
        let mut buffer = [0; LONGEST_NAME];
        match (self, fold(name, &mut buffer)) {
            (Self::Top, "from") => Self::From,
            (Self::Top, "text") => Self::Text,
            (Self::Top, "voice") => Self::Voice,
            (Self::Top, "event") => Self::Event,
            (Self::Top, "mixed" | "mixedmessage") => Self::Mixed,
            (Self::Mixed, "msgitem") => Self::MixedItem,
            (Self::MixedItem, "text") => Self::MixedText,
            _ => Self::Elsewhere,
        }
    }
}

/// A value that counts. Spellings of one thing stand in the order in which they are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    OwnChatId,
    ChatId,
    RoomId,
    GroupId,
    ConversationId,
    OwnMsgId,
    MsgId,
    MessageId,
    OwnSender,
    ExternalUserId,
    UserId,
    FromUserName,
    Name,
    Alias,
    MsgType,
    ChatType,
    RoomType,
    CreateTime,
    Content,
    TextContent,
    /// A voice message in words, which WeCom heard itself.
    VoiceContent,
    /// Every text part, joined.
    MixedContent,
    Event,
    EventType,
    ChangeType,
    ResponseUrl,
}

impl Slot {
    /// Whether it is read and never compared, so that a character in it may be lost.
    pub(super) fn is_for_eyes(self) -> bool {
        matches!(
            self,
            Self::Name | Self::Alias | Self::Content | Self::TextContent | Self::VoiceContent | Self::MixedContent
        )
    }
}

const SLOTS: usize = Slot::ResponseUrl as usize + 1;

/// The values found so far.
pub(super) struct Facts<'a> {
    fields: &'a Fields,
    values: [Option<String>; SLOTS],
}

impl<'a> Facts<'a> {
    pub(super) fn new(fields: &'a Fields) -> Self {
        Self { fields, values: std::array::from_fn(|_| None) }
    }

    /// What the value of `name` at `place` means, if anything.
    pub(super) fn slot(&self, place: Place, name: &str) -> Option<Slot> {
        let mut buffer = [0; LONGEST_NAME];
        let folded = fold(name, &mut buffer);
        self.own_slot(place, name).or_else(|| match place {
            Place::Top => top_slot(folded),
            Place::From => match folded {
                "externaluserid" => Some(Slot::ExternalUserId),
                "userid" => Some(Slot::UserId),
                "name" => Some(Slot::Name),
                "alias" => Some(Slot::Alias),
                _ => None,
            },
            Place::Event if folded == "eventtype" => Some(Slot::EventType),
            Place::Text if folded == "content" => Some(Slot::TextContent),
            Place::Voice if folded == "content" => Some(Slot::VoiceContent),
            Place::MixedText if folded == "content" => Some(Slot::MixedContent),
            Place::Text
            | Place::Voice
            | Place::Event
            | Place::Mixed
            | Place::MixedItem
            | Place::MixedText
            | Place::Elsewhere => None,
        })
    }

    fn own_slot(&self, place: Place, name: &str) -> Option<Slot> {
        let among = |names: &[String]| names.iter().any(|own| own == name);
        match place {
            Place::Top if among(&self.fields.chat_id) => Some(Slot::OwnChatId),
            Place::Top if among(&self.fields.msg_id) => Some(Slot::OwnMsgId),
            Place::Top | Place::From if among(&self.fields.sender) => Some(Slot::OwnSender),
            _ => None,
        }
    }

    /// Keeps a value; an empty one is none, and of two the first counts.
    pub(super) fn set(&mut self, slot: Slot, value: String) {
        if value.is_empty() {
            return;
        }
        match &mut self.values[slot as usize] {
            Some(parts) if slot == Slot::MixedContent => {
                parts.push(' ');
                parts.push_str(&value);
            }
            Some(_) => {}
            empty => *empty = Some(value),
        }
    }

    fn get(&self, slot: Slot) -> Option<&str> {
        self.values[slot as usize].as_deref()
    }

    fn take(&mut self, slot: Slot) -> Option<String> {
        self.values[slot as usize].take()
    }

    fn take_first(&mut self, slots: &[Slot]) -> Option<String> {
        slots.iter().find_map(|&slot| self.take(slot))
    }

    /// What the values mean together.
    pub(super) fn into_payload(mut self) -> Result<Payload, PayloadError> {
        use Slot::*;
        let msg_type = checked("message type", Some(self.msg_type()), MAX_ID)?.unwrap_or_default();
        let chat_id = self.take_first(&[OwnChatId, ChatId, RoomId, GroupId, ConversationId]);
        let chat_id = checked("chat id", chat_id, MAX_ID)?;
        let sender = [
            (OwnSender, SenderKind::Unknown),
            (ExternalUserId, SenderKind::External),
            (UserId, SenderKind::Internal),
            (FromUserName, SenderKind::Unknown),
        ];
        let sender = sender.into_iter().find_map(|(slot, kind)| Some((self.take(slot)?, kind)));
        let (sender, kind) = sender.map_or((None, SenderKind::Unknown), |(id, kind)| (Some(id), kind));
        Ok(Payload {
            chat_kind: self.chat_kind(chat_id.is_some()),
            chat_id,
            msg_id: checked("message id", self.take_first(&[OwnMsgId, MsgId, MessageId]), MAX_ID)?,
            sender: checked("sender", sender, MAX_ID)?.map(|id| (id, kind)),
            sender_name: self.take_first(&[Name, Alias]).and_then(|name| displayable(&name)),
            text: self.text(&msg_type),
            msg_type,
            sent_at: self.get(CreateTime).and_then(milliseconds),
            response_url: checked("response_url", self.take(ResponseUrl), MAX_URL)?.map(Secret::new),
        })
    }

    /// What the content shows of a callback that names no type.
    fn shown_type(&self, event: Option<&str>) -> &'static str {
        if event.is_some() {
            "event"
        } else if self.get(Slot::MixedContent).is_some() {
            "mixed"
        } else if self.get(Slot::VoiceContent).is_some() {
            "voice"
        } else if self.get(Slot::TextContent).or(self.get(Slot::Content)).is_some() {
            "text"
        } else {
            "unknown"
        }
    }

    /// Lower case; an event's with what happened behind it.
    fn msg_type(&self) -> String {
        let word = |slot| self.get(slot).map(str::trim_ascii).filter(|word| !word.is_empty());
        let event = word(Slot::EventType).or(word(Slot::Event));
        let given = word(Slot::MsgType).unwrap_or_else(|| self.shown_type(event));
        let mut msg_type = given.to_ascii_lowercase();
        if msg_type == "event" {
            for word in [event, event.and(word(Slot::ChangeType))].into_iter().flatten() {
                msg_type.push(':');
                msg_type.push_str(&word.to_ascii_lowercase());
            }
        }
        msg_type
    }

    /// `ChatType` decides, else `roomType` (2 is a group), else whether there is a chat id.
    fn chat_kind(&self, has_chat_id: bool) -> ChatKind {
        let is_group = match (self.get(Slot::ChatType), self.get(Slot::RoomType)) {
            (Some(kind), _) if kind.trim_ascii().eq_ignore_ascii_case("group") => true,
            (Some(kind), _) if kind.trim_ascii().eq_ignore_ascii_case("single") => false,
            (None, Some(kind)) => kind.trim_ascii() == "2",
            // Nothing said, or one of the places around a chat, such as its blackboard.
            _ => has_chat_id,
        };
        if is_group { ChatKind::Group } else { ChatKind::Single }
    }

    fn text(&mut self, msg_type: &str) -> String {
        match msg_type {
            "text" => self.take_first(&[Slot::TextContent, Slot::Content]),
            "mixed" => self.take(Slot::MixedContent),
            "voice" => self.take(Slot::VoiceContent),
            _ => None,
        }
        .unwrap_or_default()
    }
}

fn top_slot(folded: &str) -> Option<Slot> {
    Some(match folded {
        "chatid" => Slot::ChatId,
        "roomid" => Slot::RoomId,
        "groupid" => Slot::GroupId,
        "conversationid" => Slot::ConversationId,
        "msgid" => Slot::MsgId,
        "messageid" => Slot::MessageId,
        "externaluserid" => Slot::ExternalUserId,
        "userid" => Slot::UserId,
        "fromusername" => Slot::FromUserName,
        "msgtype" => Slot::MsgType,
        "chattype" => Slot::ChatType,
        "roomtype" => Slot::RoomType,
        "createtime" => Slot::CreateTime,
        "content" => Slot::Content,
        "event" => Slot::Event,
        "changetype" => Slot::ChangeType,
        "responseurl" => Slot::ResponseUrl,
        _ => return None,
    })
}

/// Longer names are none of ours.
const LONGEST_NAME: usize = 16;

/// Lower case without underscores; empty for a name that is none of ours.
fn fold<'b>(name: &str, buffer: &'b mut [u8; LONGEST_NAME]) -> &'b str {
    let mut length = 0;
    for byte in name.bytes().filter(|&byte| byte != b'_') {
        match buffer.get_mut(length) {
            Some(place) => *place = byte.to_ascii_lowercase(),
            None => return "",
        }
        length += 1;
    }
    std::str::from_utf8(&buffer[..length]).unwrap_or("")
}

/// An id becomes part of keys, log lines and URLs: what would break them is refused, naming the field only.
fn checked(field: &'static str, value: Option<String>, limit: usize) -> Result<Option<String>, PayloadError> {
    match value {
        Some(value) if value.len() > limit => Err(PayloadError::TooLong { field, limit }),
        Some(value) if value.chars().any(char::is_control) => Err(PayloadError::ControlCharacter { field }),
        value => Ok(value),
    }
}

/// A name is for eyes, and members choose it: it is made presentable rather than refused.
fn displayable(name: &str) -> Option<String> {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    Some(shown).filter(|shown| !shown.is_empty())
}

fn milliseconds(time: &str) -> Option<i64> {
    match time.trim_ascii().parse().ok()? {
        seconds @ 0..=FIRST_MILLISECONDS => Some(seconds * 1000),
        milliseconds if milliseconds > 0 => Some(milliseconds),
        _ => None,
    }
}
