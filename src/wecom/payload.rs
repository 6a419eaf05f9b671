//! Callback payloads (stub signatures).
use crate::model::{ChatKind, Secret, SenderKind};

/// Extra spellings of fields, on top of the built-in ones (`[fields]` of an app).
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
    /// As it stands.
    pub chat_id: Option<String>,
    /// Group or one-to-one.
    pub chat_kind: ChatKind,
    /// As it stands.
    pub msg_id: Option<String>,
    /// As it stands, with its kind.
    pub sender: Option<(String, SenderKind)>,
    /// Display name.
    pub sender_name: Option<String>,
    /// `text`, `mixed`, `event:add_to_chat`, … lower case.
    pub msg_type: String,
    /// Text parts joined.
    pub text: String,
    /// Unix ms.
    pub sent_at: Option<i64>,
    /// aibot.
    pub response_url: Option<Secret>,
}

/// Why a payload can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// stub
    #[error("stub")]
    Stub,
}

/// Reads a decrypted payload or a plain JSON webhook: XML or JSON, by its first byte.
pub fn parse(_bytes: &[u8], _fields: &Fields) -> Result<Payload, PayloadError> {
    Err(PayloadError::Stub)
}
