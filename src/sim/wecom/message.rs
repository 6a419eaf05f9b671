//! What WeCom takes as a message, by where it is sent.

use serde_json::Value;

/// Text and body of a message, or errcode and reason why there is none.
pub(super) type Read = Result<(String, Value), (i64, &'static str)>;

/// What a way of sending takes: byte limits of contents, and kinds without one.
#[derive(Clone, Copy)]
pub(super) struct Takes {
    text: usize,
    markdown: usize,
    markdown_v2: usize,
    others: &'static [&'static str],
    /// The errcode of a content that is too long.
    too_long: i64,
}

pub(super) const ROBOT: Takes = Takes {
    text: 2048,
    markdown: 4096,
    markdown_v2: 4096,
    others: &["image", "news", "file", "voice", "template_card"],
    too_long: 40058,
};
pub(super) const APP: Takes = Takes {
    text: 2048,
    markdown: 2048,
    markdown_v2: 0,
    others: &["image", "news", "file", "voice", "video", "textcard", "template_card"],
    too_long: 45002,
};
pub(super) const RESPONSE: Takes =
    Takes { text: 0, markdown: 20480, markdown_v2: 0, others: &["template_card"], too_long: 40058 };
pub(super) const GATEWAY: Takes = Takes { text: 2048, markdown: 0, markdown_v2: 0, others: &[], too_long: 45002 };

/// Reads a body.
pub(super) fn read(body: &[u8], takes: Takes) -> Read {
    let body: Value = serde_json::from_slice(body).map_err(|_| (40008, "no JSON"))?;
    let kind = body["msgtype"].as_str().ok_or((40008, "no msgtype"))?;
    let limit = match kind {
        "text" => takes.text,
        "markdown" => takes.markdown,
        "markdown_v2" => takes.markdown_v2,
        other if takes.others.contains(&other) && body[kind].is_object() => return Ok((String::new(), body)),
        _ => 0,
    };
    if limit == 0 {
        return Err((40008, "an unknown msgtype"));
    }
    let text = body[kind]["content"].as_str().ok_or((44004, "no content"))?;
    match text.len() {
        0 => Err((44004, "an empty content")),
        n if n > limit => Err((takes.too_long, "a content over its byte limit")),
        _ => Ok((text.to_owned(), body)),
    }
}
