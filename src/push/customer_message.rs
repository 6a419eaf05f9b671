//! What is said to customers: WeCom's own JSON of `add_msg_template`, a text and attachments beside it (document/path/92135).
//!
//! `{"text":{"content":…},"attachments":[…]}`, one of the two at least; `"msgtype":"text"` may stand there, as in other
//! messages. Pure. What the gateway would leave out is refused, as in every task.

use serde_json::{Map, Value, json};

use super::read::unknown;
use super::task::TaskFault;
use crate::wecom::message::CUSTOMER_TASK;

/// Attachments of one message.
const MOST_ATTACHMENTS: usize = 9;
const FIELDS: [&str; 3] = ["msgtype", "text", "attachments"];

/// A field of an attachment.
struct Part {
    name: &'static str,
    /// Whether it must be there.
    needed: bool,
    /// Bytes.
    most: usize,
}

const fn needed(name: &'static str, most: usize) -> Part {
    Part { name, needed: true, most }
}

const fn optional(name: &'static str, most: usize) -> Part {
    Part { name, needed: false, most }
}

const URL: usize = 2048;
const MEDIA: &[Part] = &[needed("media_id", usize::MAX)];
/// Every kind of attachment. An image has one of its two: [`attachment`].
const KINDS: [(&str, &[Part]); 5] = [
    ("image", &[optional("media_id", usize::MAX), optional("pic_url", URL)]),
    ("link", &[needed("title", 128), optional("picurl", URL), optional("desc", 512), needed("url", URL)]),
    (
        "miniprogram",
        &[needed("title", 64), needed("pic_media_id", usize::MAX), needed("appid", usize::MAX), needed("page", URL)],
    ),
    ("video", MEDIA),
    ("file", MEDIA),
];

/// Checks a message to customers, and answers it as the request has it.
///
/// # Errors
/// The first fault.
pub(super) fn check(said: &Value) -> Result<Value, TaskFault> {
    let said = said.as_object().ok_or_else(|| TaskFault::new("message", "must be an object"))?;
    only(said, "message.", &FIELDS)?;
    if said.get("msgtype").is_some_and(|kind| kind != "text") {
        let why = "must be \"text\", or not there: customers get a text, and the rest as attachments";
        return Err(TaskFault::new("message.msgtype", why));
    }
    let mut message = json!({});
    if let Some(content) = said.get("text").map(content).transpose()? {
        message["text"] = json!({"content": content});
    }
    let attachments = said.get("attachments").map(attachments).transpose()?.unwrap_or_default();
    if !attachments.is_empty() {
        message["attachments"] = attachments.into();
    }
    match message.as_object().is_some_and(Map::is_empty) {
        true => Err(TaskFault::new("message.text.content", "is missing: write a text, or attachments")),
        false => Ok(message),
    }
}

fn content(text: &Value) -> Result<&str, TaskFault> {
    const FIELD: &str = "message.text.content";
    let text = text.as_object().ok_or_else(|| TaskFault::new("message.text", "must be an object"))?;
    only(text, "message.text.", &["content"])?;
    filled(text, "content", FIELD, CUSTOMER_TASK.text)?.ok_or_else(|| TaskFault::new(FIELD, "is missing"))
}

fn attachments(list: &Value) -> Result<Vec<Value>, TaskFault> {
    const FIELD: &str = "message.attachments";
    let list = list.as_array().ok_or_else(|| TaskFault::new(FIELD, "must be a list"))?;
    if list.len() > MOST_ATTACHMENTS {
        let why = format!("has {} entries, at most {MOST_ATTACHMENTS} are taken", list.len());
        return Err(TaskFault::new(FIELD, why));
    }
    list.iter().enumerate().map(|(n, one)| attachment(one, &format!("{FIELD}[{n}]"))).collect()
}

fn attachment(said: &Value, field: &str) -> Result<Value, TaskFault> {
    let said = said.as_object().ok_or_else(|| TaskFault::new(field, "must be an object"))?;
    let kind = said.get("msgtype").and_then(Value::as_str).unwrap_or_default();
    let Some((kind, parts)) = KINDS.into_iter().find(|(known, _)| *known == kind) else {
        let known = KINDS.map(|(kind, _)| kind).join(", ");
        return Err(TaskFault::new(format!("{field}.msgtype"), format!("must be one of {known}")));
    };
    only(said, &format!("{field}."), &["msgtype", kind])?;
    let of = format!("{field}.{kind}");
    let body = said.get(kind).and_then(Value::as_object);
    let body = body.ok_or_else(|| TaskFault::new(of.clone(), "must be an object"))?;
    only(body, &format!("{of}."), &parts.iter().map(|part| part.name).collect::<Vec<_>>())?;
    let mut found = false;
    for part in parts {
        let field = format!("{of}.{}", part.name);
        let there = filled(body, part.name, &field, part.most)?.is_some();
        if part.needed && !there {
            return Err(TaskFault::new(field, "is missing"));
        }
        found |= there;
    }
    if !found {
        return Err(TaskFault::new(format!("{of}.media_id"), "is missing: write this or pic_url"));
    }
    Ok(json!({"msgtype": kind, kind: body}))
}

/// A text with something in it, where it is there.
fn filled<'a>(of: &'a Map<String, Value>, name: &str, field: &str, most: usize) -> Result<Option<&'a str>, TaskFault> {
    let Some(value) = of.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let text = value.as_str().ok_or_else(|| TaskFault::new(field, "must be a text"))?;
    match text.len() {
        _ if text.trim().is_empty() => Err(TaskFault::new(field, "is empty")),
        bytes if bytes > most => {
            Err(TaskFault::new(field, format!("has {bytes} bytes, at most {most} are taken: shorten it")))
        }
        _ => Ok(Some(text)),
    }
}

fn only(of: &Map<String, Value>, within: &str, known: &[&str]) -> Result<(), TaskFault> {
    match of.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unknown(within, name, known)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_and_attachments_are_taken_as_wecom_has_them() {
        let link = json!({"msgtype": "link", "link": {"title": "新品", "url": "https://example.com/p", "desc": null}});
        let whole = json!({"text": {"content": "hi"}, "attachments": [
            link,
            {"msgtype": "image", "image": {"pic_url": "https://example.com/i.png"}},
            {"msgtype": "miniprogram", "miniprogram": {"title": "t", "pic_media_id": "m", "appid": "wx1", "page": "/p"}},
            {"msgtype": "video", "video": {"media_id": "m"}}, {"msgtype": "file", "file": {"media_id": "m"}},
        ]});
        assert_eq!(check(&whole).unwrap(), whole);
        let text = json!({"msgtype": "text", "text": {"content": "x".repeat(4000)}});
        assert_eq!(check(&text).unwrap(), json!({"text": text["text"]}));
        assert!(check(&json!({"attachments": [whole["attachments"][0]]})).is_ok());
    }

    #[test]
    fn every_fault_names_its_field() {
        let attached = |one: Value| json!({"attachments": [{"msgtype": "file", "file": {"media_id": "m"}}, one]});
        let rows = [
            (json!("hi"), "message", "an object"),
            (json!({}), "message.text.content", "is missing"),
            (json!({"attachments": []}), "message.text.content", "is missing"),
            (json!({"msgtype": "markdown", "text": {"content": "x"}}), "message.msgtype", "\"text\""),
            (json!({"text": {"content": "x"}, "safe": 1}), "message.safe", "no field here"),
            (json!({"text": {"content": " "}}), "message.text.content", "is empty"),
            (json!({"text": {"content": "x", "mentioned_list": []}}), "message.text.mentioned_list", "no field"),
            (json!({"text": {"content": "长".repeat(1334)}}), "message.text.content", "4002 bytes, at most 4000"),
            (json!({"attachments": vec![json!({}); 10]}), "message.attachments", "at most 9"),
            (attached(json!({"msgtype": "voice"})), "message.attachments[1].msgtype", "must be one of image, link"),
            (attached(json!({"msgtype": "video"})), "message.attachments[1].video", "an object"),
            (attached(json!({"msgtype": "image", "image": {}})), "message.attachments[1].image.media_id", "pic_url"),
            (
                attached(json!({"msgtype": "link", "link": {"title": "t"}})),
                "message.attachments[1].link.url",
                "is missing",
            ),
            (
                attached(json!({"msgtype": "link", "link": {"title": "t", "url": "u", "desc": "x".repeat(513)}})),
                "message.attachments[1].link.desc",
                "at most 512",
            ),
            (
                attached(json!({"msgtype": "file", "file": {"media_id": 7}})),
                "message.attachments[1].file.media_id",
                "text",
            ),
        ];
        for (said, field, words) in rows {
            let fault = check(&said).unwrap_err();
            assert!(fault.field == field && fault.message.contains(words), "{said}: {fault}");
        }
    }
}
