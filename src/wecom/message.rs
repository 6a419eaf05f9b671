//! Outgoing messages: WeCom's own message JSON, checked and cut to what a channel takes.
//!
//! WeCom refuses a whole message that is one byte too long (40058, 45002) or cuts it without a word, and refuses a missing
//! field only after it has cost one of the robot's 20 messages a minute. So both are settled before anything is queued.
//! Sources, under developer.work.weixin.qq.com/document/path: 99110 (group robots), 90236 (`message/send`), 90248
//! (`appchat/send`), 92135 (`add_msg_template`), 101138 (an aibot's `response_url`).
//!
//! What always holds: limits are bytes; parts come in reading order and say all that the message said; a message
//! keeps its `msgtype` and that one body, nothing else: where it goes is never its own to say.

mod check;
mod harmless;
mod merge;
mod split;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use check::Check;
pub use harmless::{defuse, severed};
pub use merge::merge;
use split::Markup;

/// What a channel takes: byte limits of the contents that can be cut, 0 where it has no such type, and the types that go
/// out as they are, each with its check.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// text.content
    pub text: usize,
    /// markdown.content
    pub markdown: usize,
    /// markdown_v2.content
    pub markdown_v2: usize,
    whole: &'static [(&'static str, Check)],
}

/// A group robot's limits.
pub const GROUP_ROBOT: Limits = Limits {
    text: 2048,
    markdown: 4096,
    markdown_v2: 4096,
    whole: &[
        ("news", check::news),
        ("image", check::image),
        ("file", check::robot_file),
        ("voice", check::robot_voice),
        ("template_card", check::robot_card),
    ],
};

/// What `message/send` takes. Its markdown is half as long as a robot's.
pub const APP_MESSAGE: Limits = Limits {
    text: 2048,
    markdown: 2048,
    markdown_v2: 0,
    whole: &[
        ("news", check::news),
        ("image", check::app_image),
        ("file", check::app_file),
        ("voice", check::app_voice),
        ("video", check::app_video),
        ("textcard", check::textcard),
        ("template_card", check::app_card),
    ],
};

/// What `appchat/send` takes.
pub const APP_CHAT: Limits = Limits {
    text: 2048,
    markdown: 2048,
    markdown_v2: 0,
    whole: &[
        ("news", check::news),
        ("image", check::app_image),
        ("file", check::app_file),
        ("voice", check::app_voice),
        ("video", check::app_video),
        ("textcard", check::textcard),
    ],
};

/// What `externalcontact/add_msg_template` takes as its text; its attachments stand beside that.
pub const CUSTOMER_TASK: Limits = Limits { text: 4000, markdown: 0, markdown_v2: 0, whole: &[] };

/// What a plain JSON gateway takes: texts, as long as WeCom behind it lets them be.
pub const JSON_GATEWAY: Limits = Limits { text: 2048, markdown: 0, markdown_v2: 0, whole: &[] };

/// What can be [merged](merge()) into the one markdown that a `response_url` takes; cut only there.
pub const RESPONSE_URL: Limits = Limits {
    text: usize::MAX,
    markdown: usize::MAX,
    markdown_v2: usize::MAX,
    whole: &[
        ("news", check::news),
        ("textcard", check::textcard),
        ("image", check::object),
        ("file", check::object),
        ("voice", check::object),
        ("video", check::object),
        ("template_card", check::object),
    ],
};

/// Every type that some channel takes.
const TYPES: [&str; 10] =
    ["text", "markdown", "markdown_v2", "news", "image", "file", "voice", "video", "textcard", "template_card"];

/// Why a message can't be sent. Fields are named as in the message, `news.articles`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not an object with a text `msgtype`.
    #[error("a message is an object with a text `msgtype`")]
    NoType,
    /// A `msgtype` that no channel knows.
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

/// As [`fit`], for several.
///
/// # Errors
/// [`MessageError`] of the first that can't be sent.
pub fn fit_all(messages: &[Value], limits: &Limits) -> Result<Vec<Value>, MessageError> {
    let mut parts = Vec::new();
    for message in messages {
        parts.extend(fit(message, limits)?);
    }
    Ok(parts)
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
        other => match limits.whole.iter().find(|(kind, _)| *kind == other) {
            Some((kind, check)) => check(body).map(|body| whole(kind, body)),
            None => Err(not_taken(other)),
        },
    }
}

fn not_taken(msgtype: &str) -> MessageError {
    match TYPES.iter().find(|kind| **kind == msgtype) {
        Some(kind) => MessageError::UnsupportedType(kind),
        None => MessageError::UnknownType(msgtype.chars().take(64).collect()),
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
