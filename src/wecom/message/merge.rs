//! All answers to one message as one markdown, for the one call that a `response_url` allows
//! (developer.work.weixin.qq.com/document/path/101138: at most 20480 bytes).
//!
//! What always holds: the parts stand in their order, a blank line between them; what can't be put into markdown is named
//! where it stood; a content that is too long is cut where a reader would, and says so.

use serde_json::{Map, Value, json};

use super::split::{Markup, split};
use super::{MessageError, RESPONSE_URL, fit};

/// Bytes of the one content.
const MAX_CONTENT: usize = 20480;
/// Stands at the end of what was cut.
const CUT: &str = "\n\n（内容过长，后面的部分已省略）";

/// The one message that says what `messages` say; `None` where there are none.
///
/// # Errors
/// [`MessageError`] of the first message that is none.
pub fn merge(messages: &[Value]) -> Result<Option<Value>, MessageError> {
    let mut parts = Vec::new();
    for message in messages {
        for whole in fit(message, &RESPONSE_URL)? {
            parts.push(markdown_of(&whole));
        }
    }
    if parts.is_empty() {
        return Ok(None);
    }
    let content = bounded(parts.join("\n\n"));
    Ok(Some(json!({"msgtype": "markdown", "markdown": {"content": content}})))
}

fn bounded(content: String) -> String {
    if content.len() <= MAX_CONTENT {
        return content;
    }
    let mut parts = split(&content, MAX_CONTENT - CUT.len(), Markup::Markdown).into_iter();
    parts.next().unwrap_or_default() + CUT
}

fn markdown_of(message: &Value) -> String {
    let kind = message["msgtype"].as_str().unwrap_or_default();
    let none = Map::new();
    let body = message[kind].as_object().unwrap_or(&none);
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    match kind {
        "text" => format!("{}{}", mentions(body), text("content")),
        "markdown" | "markdown_v2" => text("content").to_owned(),
        "news" => {
            let articles = body.get("articles").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
            articles.iter().map(link).collect::<Vec<_>>().join("\n\n")
        }
        "textcard" => link(&message[kind]),
        "image" => "（图片无法在此显示）".to_owned(),
        "file" => "（文件无法在此发送）".to_owned(),
        "voice" => "（语音无法在此发送）".to_owned(),
        "video" => "（视频无法在此发送）".to_owned(),
        _ => "（卡片无法在此显示）".to_owned(),
    }
}

/// Only ids can be named in markdown, not phone numbers.
fn mentions(body: &Map<String, Value>) -> String {
    let ids = body.get("mentioned_list").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    ids.iter().filter_map(Value::as_str).map(|id| format!("<@{}> ", id.trim_start_matches('@'))).collect()
}

fn link(card: &Value) -> String {
    let text = |name: &str| card[name].as_str().unwrap_or_default().trim();
    let (title, url, description) = (text("title"), text("url"), text("description"));
    let link = format!("[{title}]({url})");
    if description.is_empty() { link } else { format!("{link}\n{description}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(messages: &[Value]) -> String {
        merge(messages).unwrap().unwrap()["markdown"]["content"].as_str().unwrap().to_owned()
    }

    fn text(content: &str) -> Value {
        super::super::text(content)
    }

    #[test]
    fn everything_is_one_markdown_in_its_order() {
        let news =
            json!({"msgtype": "news", "news": {"articles": [{"title": "t", "url": "https://x", "description": "d"}]}});
        let card = json!({"msgtype": "template_card", "template_card": {"card_type": "text_notice"}});
        let called = json!({"msgtype": "text", "text": {"content": "hi", "mentioned_list": ["u1", "@all"]}});
        let markdown = json!({"msgtype": "markdown", "markdown": {"content": "**b**"}});
        assert_eq!(
            merged(&[text("a_b"), markdown, news, card, called]),
            "a_b\n\n**b**\n\n[t](https://x)\nd\n\n（卡片无法在此显示）\n\n<@u1> <@all> hi"
        );
        assert_eq!(merge(&[]).unwrap(), None);
    }

    #[test]
    fn what_is_too_long_says_that_it_was_cut() {
        let exact = "x".repeat(MAX_CONTENT);
        assert_eq!(merged(&[text(&exact)]), exact);
        let cut = merged(&[text(&"你".repeat(5000)), text(&"好".repeat(5000))]);
        assert!(cut.len() <= MAX_CONTENT && cut.len() > MAX_CONTENT / 2, "{}", cut.len());
        assert!(cut.starts_with("你你") && cut.ends_with(CUT), "{}", cut.len());
    }

    #[test]
    fn a_message_that_is_none_is_refused() {
        assert_eq!(merge(&[text("a"), text(" ")]), Err(MessageError::Empty("text.content")));
        assert_eq!(merge(&[json!({"msgtype": "x"})]), Err(MessageError::UnknownType("x".into())));
    }
}
