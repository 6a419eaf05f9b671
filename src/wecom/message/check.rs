//! What each kind of message must hold (developer.work.weixin.qq.com/document/path/99110). A check answers the body
//! that it has seen whole.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::MessageError;

type Body = Map<String, Value>;

const MAX_ARTICLES: usize = 8;
/// Bytes of an image before base64.
const MAX_IMAGE: usize = 2 << 20;

fn must_be<T>(value: Option<T>, field: &'static str, expected: &'static str) -> Result<T, MessageError> {
    value.ok_or(MessageError::Field { field, expected })
}

/// A text with something in it.
fn filled<'a>(body: &'a Body, name: &str) -> Option<&'a str> {
    body.get(name)?.as_str().filter(|text| !text.trim().is_empty())
}

/// The text `name` within the object `within`.
fn filled_in<'a>(body: &'a Body, within: &str, name: &str) -> Option<&'a str> {
    filled(body.get(within)?.as_object()?, name)
}

fn at_most(found: usize, limit: usize, field: &'static str, unit: &'static str) -> Result<(), MessageError> {
    if found > limit { Err(MessageError::TooMuch { field, found, limit, unit }) } else { Ok(()) }
}

/// `mentioned_list` and `mentioned_mobile_list`, where they are there, are lists of texts.
pub(super) fn mentions(body: Option<&Body>) -> Result<(), MessageError> {
    for (name, field) in
        [("mentioned_list", "text.mentioned_list"), ("mentioned_mobile_list", "text.mentioned_mobile_list")]
    {
        let list = body.and_then(|body| body.get(name));
        let is_list = list.is_none_or(|list| list.as_array().is_some_and(|list| list.iter().all(Value::is_string)));
        must_be(is_list.then_some(()), field, "a list of texts")?;
    }
    Ok(())
}

/// 1..=8 articles with title and url. Longer titles and descriptions are cut by WeCom.
pub(super) fn news(body: Option<&Body>) -> Result<&Body, MessageError> {
    let articles = body.and_then(|body| Some((body, body.get("articles")?.as_array()?)));
    let (body, articles) = must_be(articles, "news.articles", "a list")?;
    if articles.is_empty() {
        return Err(MessageError::Empty("news.articles"));
    }
    at_most(articles.len(), MAX_ARTICLES, "news.articles", "articles")?;
    for article in articles {
        let article = must_be(article.as_object(), "news.articles", "a list of objects")?;
        must_be(filled(article, "title"), "news.articles.title", "a text")?;
        must_be(filled(article, "url"), "news.articles.url", "a text")?;
    }
    Ok(body)
}

/// base64 of at most 2 MB and the form of an MD5; whether that MD5 is the image's own, WeCom will say.
pub(super) fn image(body: Option<&Body>) -> Result<&Body, MessageError> {
    let image = body.and_then(|body| Some((body, filled(body, "base64")?)));
    let (body, base64) = must_be(image, "image.base64", "base64")?;
    // Told from its length, so that a huge one is not decoded first.
    at_most(base64::decoded_len_estimate(base64.len()).saturating_sub(2), MAX_IMAGE, "image.base64", "bytes")?;
    let raw = must_be(STANDARD.decode(base64).ok(), "image.base64", "base64")?;
    at_most(raw.len(), MAX_IMAGE, "image.base64", "bytes")?;
    let is_md5 = |md5: &&str| md5.len() == 32 && md5.bytes().all(|byte| byte.is_ascii_hexdigit());
    must_be(filled(body, "md5").filter(is_md5), "image.md5", "32 hex digits")?;
    Ok(body)
}

/// A `media_id` that this robot has uploaded.
pub(super) fn media<'a>(body: Option<&'a Body>, field: &'static str) -> Result<&'a Body, MessageError> {
    must_be(body.filter(|body| filled(body, "media_id").is_some()), field, "a text")
}

/// The two kinds of card that a robot may send.
pub(super) fn template_card(body: Option<&Body>) -> Result<&Body, MessageError> {
    let card = must_be(body, "template_card", "an object")?;
    match filled(card, "card_type") {
        Some("text_notice") => {
            let title = filled_in(card, "main_title", "title").or(filled(card, "sub_title_text"));
            must_be(title, "template_card.main_title.title", "a text where sub_title_text is none")?;
        }
        Some("news_notice") => {
            must_be(filled_in(card, "main_title", "title"), "template_card.main_title.title", "a text")?;
            let picture = filled_in(card, "card_image", "url").is_some() || card.contains_key("image_text_area");
            must_be(picture.then_some(()), "template_card.card_image.url", "a text where image_text_area is none")?;
        }
        _ => must_be(None, "template_card.card_type", "text_notice or news_notice")?,
    }
    card_action(card)?;
    card_list(card, "horizontal_content_list", 6, "template_card.horizontal_content_list")?;
    card_list(card, "jump_list", 3, "template_card.jump_list")?;
    card_list(card, "vertical_content_list", 4, "template_card.vertical_content_list")?;
    Ok(card)
}

/// Where a click leads: 1 an address, 2 a mini program.
fn card_action(card: &Body) -> Result<(), MessageError> {
    let action = must_be(card.get("card_action").and_then(Value::as_object), "template_card.card_action", "an object")?;
    match action.get("type").and_then(Value::as_u64) {
        Some(1) => must_be(filled(action, "url"), "template_card.card_action.url", "a text")?,
        Some(2) => must_be(filled(action, "appid"), "template_card.card_action.appid", "a text")?,
        _ => must_be(None, "template_card.card_action.type", "1 or 2")?,
    };
    Ok(())
}

fn card_list(card: &Body, name: &str, limit: usize, field: &'static str) -> Result<(), MessageError> {
    match card.get(name) {
        None => Ok(()),
        Some(list) => at_most(must_be(list.as_array(), field, "a list")?.len(), limit, field, "entries"),
    }
}
