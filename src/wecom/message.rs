//! Outgoing messages: WeCom's own robot message JSON, checked and cut to what a channel takes.
//!
//! WeCom refuses a whole message that is one byte too long (40058) or cuts it without a word, and refuses a missing
//! field only after it has cost one of the robot's 20 messages a minute. So both are settled before anything is
//! queued ("消息推送配置说明", developer.work.weixin.qq.com/document/path/99110).
//!
//! What always holds: limits are bytes; parts come in reading order and say all that the message said; a message
//! keeps its `msgtype` and that one body, nothing else: where it goes is never its own to say.

mod check;
mod harmless;
mod split;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use harmless::{defuse, escape_markdown};
use split::Markup;

/// Byte limits of a channel; 0 where the channel has no such type.
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

/// Why a message can't be sent. Fields are named as in the message, `news.articles`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not an object with a text `msgtype`.
    #[error("a message is an object with a text `msgtype`")]
    NoType,
    /// A `msgtype` that no robot knows.
    #[error("unknown msgtype `{0}`")]
    UnknownType(String),
    /// A `msgtype` that this channel doesn't take.
    #[error("this channel takes no msgtype `{0}`")]
    UnsupportedType(&'static str),
    /// What must be there is not there, or of another kind.
    #[error("`{field}` must be {expected}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A content without anything to read.
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// More than WeCom takes.
    #[error("`{field}` has {found} {unit}, at most {limit} are taken")]
    TooMuch {
        /// Which.
        field: &'static str,
        /// How many it has.
        found: usize,
        /// How many it may have.
        limit: usize,
        /// Of what.
        unit: &'static str,
    },
}

/// `{"msgtype":"text","text":{"content":…}}`
pub fn text(content: &str) -> Value {
    json!({"msgtype": "text", "text": {"content": content}})
}

/// Checks a message and cuts it into as many as the limits ask for, in order. Mentions stay with the first.
///
/// # Errors
/// [`MessageError`], naming the field.
pub fn fit(message: &Value, limits: &Limits) -> Result<Vec<Value>, MessageError> {
    let msgtype = message.get("msgtype").and_then(Value::as_str).ok_or(MessageError::NoType)?;
    let body = message.get(msgtype).and_then(Value::as_object);
    match msgtype {
        "text" => {
            check::mentions(body)?;
            content_parts("text", "text.content", body, limits.text, Markup::None)
        }
        "markdown" => content_parts("markdown", "markdown.content", body, limits.markdown, Markup::Markdown),
        "markdown_v2" => {
            content_parts("markdown_v2", "markdown_v2.content", body, limits.markdown_v2, Markup::Markdown)
        }
        "news" => check::news(body).map(|body| whole("news", body)),
        "image" => check::image(body).map(|body| whole("image", body)),
        "file" => check::media(body, "file.media_id").map(|body| whole("file", body)),
        "voice" => check::media(body, "voice.media_id").map(|body| whole("voice", body)),
        "template_card" => check::template_card(body).map(|body| whole("template_card", body)),
        other => Err(MessageError::UnknownType(other.chars().take(64).collect())),
    }
}

fn whole(msgtype: &str, body: &Map<String, Value>) -> Vec<Value> {
    vec![json!({"msgtype": msgtype, msgtype: body})]
}

/// The first part carries what else the body holds (mentions), the others their content alone.
fn content_parts(
    msgtype: &'static str,
    field: &'static str,
    body: Option<&Map<String, Value>>,
    limit: usize,
    markup: Markup,
) -> Result<Vec<Value>, MessageError> {
    if limit == 0 {
        return Err(MessageError::UnsupportedType(msgtype));
    }
    let (body, content) = body
        .and_then(|body| Some((body, body.get("content")?.as_str()?)))
        .ok_or(MessageError::Field { field, expected: "a text" })?;
    if content.trim().is_empty() {
        return Err(MessageError::Empty(field));
    }
    let mut parts = split::split(content, limit, markup).into_iter().map(|part| json!({ "content": part }));
    let mut first = body.clone();
    first.extend(parts.next().and_then(|part| part.as_object().cloned()).unwrap_or_default());
    let bodies = std::iter::once(Value::Object(first)).chain(parts);
    Ok(bodies.map(|body| json!({"msgtype": msgtype, msgtype: body})).collect())
}
