//! Outgoing messages: kinds, limits, splitting, escaping (stub signatures).
use serde_json::Value;

/// Byte limits of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// text.content
    pub text: usize,
    /// markdown.content
    pub markdown: usize,
    /// markdown_v2.content; 0: the channel has no such type
    pub markdown_v2: usize,
}

/// A group robot's limits.
pub const GROUP_ROBOT: Limits = Limits { text: 2048, markdown: 4096, markdown_v2: 4096 };

/// Why a message can't be sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// stub
    #[error("stub")]
    Stub,
}

/// `{"msgtype":"text","text":{"content":…}}`
pub fn text(content: &str) -> Value {
    serde_json::json!({"msgtype": "text", "text": {"content": content}})
}

/// Checks a message and cuts it into as many as the limits ask for, in order.
pub fn fit(_message: &Value, _limits: &Limits) -> Result<Vec<Value>, MessageError> {
    Err(MessageError::Stub)
}
