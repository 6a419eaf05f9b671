//! What a decrypted callback, or a plain JSON webhook, says: who, where, what.
//!
//! WeCom's products name the same things differently: `ChatId`, `chatid`, `chat_id`; `Content`, `Text/Content`,
//! `text.content`; `Event`, `Event/EventType`, `event.eventtype`. The differences end here (`facts` holds the
//! table), so no later code guesses. The document is read in one pass, XML and JSON alike, and nothing is built
//! from it but the few values below.
//!
//! What always holds: ids are opaque text, kept byte for byte and digit for digit, never trimmed or re-cased, at
//! most 512 bytes, without control characters. Only what can't be read at all is an error; what is merely missing
//! is `None`, for the caller to judge.

mod facts;
mod json;
#[cfg(test)]
mod tests;

use sha2::{Digest, Sha256};

pub use super::xml::XmlError;
use super::{envelope, xml};
use crate::model::{ChatKind, Secret, SenderKind};
use facts::{Facts, Place};

/// Extra spellings of fields, on top of the built-in ones (`[fields]` of an app). They are compared exactly, and
/// where one is there it wins over the built-in ones: an operator who names a field means it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Chat id.
    pub chat_id: Vec<String>,
    /// Message id.
    pub msg_id: Vec<String>,
    /// Sender.
    pub sender: Vec<String>,
}

/// What a decrypted payload says, before it is decided whether that is enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    /// As it stands. `None` for a one-to-one chat that carries none (the sender is its id) and for many events.
    pub chat_id: Option<String>,
    /// Group or one-to-one. A group's message may lack its chat id: then nobody knows where to answer.
    pub chat_kind: ChatKind,
    /// As it stands; `None` for most events, see [`digest`].
    pub msg_id: Option<String>,
    /// As it stands, with its kind.
    pub sender: Option<(String, SenderKind)>,
    /// Display name, for eyes only: control characters dropped, at most 128 characters.
    pub sender_name: Option<String>,
    /// `text`, `mixed`, `image`, …, lower case; `event:add_to_chat`, `event:change_external_chat:update` for events,
    /// or `event` alone; `unknown` where the callback doesn't say and its content doesn't show it.
    pub msg_type: String,
    /// Content of a text; text parts of a mixed message joined by one blank; what was said where a voice message tells it; empty
    /// for the rest.
    pub text: String,
    /// When it was sent by the callback's own account, Unix ms.
    pub sent_at: Option<i64>,
    /// aibot's single-use answer address.
    pub response_url: Option<Secret>,
}

/// Why a payload can't be read. None of them shows any of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Neither `<` nor `{` at its beginning, or not UTF-8.
    #[error("the payload is neither XML nor JSON")]
    Unrecognised,
    /// XML that can't be read.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// JSON that can't be read.
    #[error("the payload is no JSON object (line {line}, column {column})")]
    Json {
        /// From 1, within the value that holds the fault.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A value that is used as a name is too long.
    #[error("the {field} is longer than {limit} bytes")]
    TooLong {
        /// Which.
        field: &'static str,
        /// What is taken.
        limit: usize,
    },
    /// A value that is used as a name holds line feeds, NULs or the like.
    #[error("the {field} holds a control character")]
    ControlCharacter {
        /// Which.
        field: &'static str,
    },
}

/// Reads a decrypted payload or a plain JSON webhook: XML or JSON, by its first byte.
///
/// # Errors
/// When it can't be read, or an id is no id (see [`PayloadError`]). A missing value is no error here.
pub fn parse(bytes: &[u8], fields: &Fields) -> Result<Payload, PayloadError> {
    let text = envelope::readable(bytes).ok_or(PayloadError::Unrecognised)?;
    let mut facts = Facts::new(fields);
    match dialect(bytes).ok_or(PayloadError::Unrecognised)? {
        Dialect::Xml => read_xml(text, &mut facts)?,
        Dialect::Json => json::read(text, &mut facts)?,
    }
    facts.into_payload()
}

/// How a text is written, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `<…`
    Xml,
    /// `{…`
    Json,
}

/// How a body or a payload is written; `None` where it is neither.
pub fn dialect(bytes: &[u8]) -> Option<Dialect> {
    match envelope::readable(bytes)?.as_bytes().first()? {
        b'<' => Some(Dialect::Xml),
        b'{' => Some(Dialect::Json),
        _ => None,
    }
}

/// The names at the top of a payload, without their values; none where it can't be read.
pub fn names(bytes: &[u8]) -> Vec<String> {
    let text = envelope::readable(bytes).unwrap_or_default();
    match dialect(bytes) {
        Some(Dialect::Xml) => xml_names(text).unwrap_or_default(),
        Some(Dialect::Json) => {
            let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
            object.into_iter().map(|(name, _)| name).collect()
        }
        None => Vec::new(),
    }
}

fn xml_names(text: &str) -> Result<Vec<String>, XmlError> {
    let mut document = xml::Document::new(text)?;
    let (mut names, mut depth) = (Vec::new(), 0);
    while let Some(node) = document.next()? {
        match node {
            xml::Node::Open(start) => {
                depth += 1;
                if depth == 2 {
                    names.push(start.name().0.to_owned());
                }
            }
            xml::Node::Text(_) => {}
            xml::Node::Close => depth -= 1,
        }
    }
    Ok(names)
}

/// Hex SHA-256 of a payload: names a callback that carries no id of its own. (WeCom's hint, sender and second, takes
/// two different events of the `sys` sender for one.)
pub fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// An element's text counts only where it has no child elements: `Event` is a word in one product's payload and a
/// folder in another's.
fn read_xml(text: &str, facts: &mut Facts<'_>) -> Result<(), PayloadError> {
    let mut document = xml::Document::new(text)?;
    let mut places = Vec::with_capacity(8);
    let mut leaf = None;
    let mut value = String::new();
    while let Some(node) = document.next()? {
        match node {
            xml::Node::Open(start) => {
                let name = start.name().0;
                let (slot, place) = match places.last() {
                    None => (None, if name == "xml" { Place::Top } else { Place::Elsewhere }),
                    Some(&place) => (facts.slot(place, name), Place::inside(place, name)),
                };
                places.push(place);
                leaf = slot;
                value.clear();
            }
            xml::Node::Text(text) if leaf.is_some() => value.push_str(&text),
            xml::Node::Text(_) => {}
            xml::Node::Close => {
                places.pop();
                if let Some(slot) = leaf.take() {
                    facts.set(slot, std::mem::take(&mut value));
                }
            }
        }
    }
    Ok(())
}
