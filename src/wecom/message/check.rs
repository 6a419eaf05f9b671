//! What each kind of message must hold (the sources are those of [`super`]). A check answers the body that it has seen whole.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::MessageError;

pub(super) type Body = Map<String, Value>;

/// Looks at a body, where there is one.
pub(super) type Check = fn(Option<&Body>) -> Result<&Body, MessageError>;

const MAX_ARTICLES: usize = 8;
/// Bytes of an article's title and description; WeCom cuts what is longer without a word.
const ARTICLE: (usize, usize) = (128, 512);
/// Characters of a text card's title and description.
const TEXT_CARD: (usize, usize) = (128, 512);
const MAX_URL: usize = 2048;
/// Bytes before base64.
const MAX_IMAGE: usize = 2 << 20;
const MAX_FILE: usize = 20 << 20;
const MAX_VOICE: usize = 2 << 20;
/// An upload holds more bytes than this.
const TINY: usize = 5;

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

/// 1..=8 articles with title and url.
pub(super) fn news(body: Option<&Body>) -> Result<&Body, MessageError> {
    let articles = body.and_then(|body| Some((body, body.get("articles")?.as_array()?)));
    let (body, articles) = must_be(articles, "news.articles", "a list")?;
    if articles.is_empty() {
        return Err(MessageError::Empty("news.articles"));
    }
    at_most(articles.len(), MAX_ARTICLES, "news.articles", "articles")?;
    for article in articles {
        let article = must_be(article.as_object(), "news.articles", "a list of objects")?;
        let title = must_be(filled(article, "title"), "news.articles.title", "a text")?;
        must_be(filled(article, "url"), "news.articles.url", "a text")?;
        let description = article.get("description").and_then(Value::as_str).unwrap_or_default();
        at_most(title.len(), ARTICLE.0, "news.articles.title", "bytes")?;
        at_most(description.len(), ARTICLE.1, "news.articles.description", "bytes")?;
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

/// A `media_id` of this robot's own, or what is to be uploaded: `base64` and a `filename`.
pub(super) fn robot_file(body: Option<&Body>) -> Result<&Body, MessageError> {
    let Some(upload) = body.filter(|body| body.contains_key("base64")) else { return media(body, "file.media_id") };
    must_be(filled(upload, "filename"), "file.filename", "a text")?;
    upload_of(upload, MAX_FILE, "file.base64")
}

/// As [`robot_file`]; a voice needs no name.
pub(super) fn robot_voice(body: Option<&Body>) -> Result<&Body, MessageError> {
    let Some(upload) = body.filter(|body| body.contains_key("base64")) else { return media(body, "voice.media_id") };
    let voice = upload_of(upload, MAX_VOICE, "voice.base64")?;
    // "#!AMR", the only format that WeCom takes.
    let is_amr = filled(voice, "base64").is_some_and(|base64| base64.starts_with("IyFBTV"));
    must_be(is_amr.then_some(voice), "voice.base64", "an AMR file")
}

fn upload_of<'a>(body: &'a Body, limit: usize, field: &'static str) -> Result<&'a Body, MessageError> {
    let base64 = must_be(filled(body, "base64"), field, "base64")?;
    at_most(base64::decoded_len_estimate(base64.len()).saturating_sub(2), limit, field, "bytes")?;
    let raw = must_be(STANDARD.decode(base64).ok(), field, "base64")?;
    at_most(raw.len(), limit, field, "bytes")?;
    must_be((raw.len() > TINY).then_some(body), field, "more than 5 bytes")
}

/// An object, whatever it holds.
pub(super) fn object(body: Option<&Body>) -> Result<&Body, MessageError> {
    must_be(body, "the message's body", "an object")
}

/// A `media_id` that the same app has uploaded.
fn media<'a>(body: Option<&'a Body>, field: &'static str) -> Result<&'a Body, MessageError> {
    must_be(body.filter(|body| filled(body, "media_id").is_some()), field, "a text")
}

pub(super) fn app_image(body: Option<&Body>) -> Result<&Body, MessageError> {
    media(body, "image.media_id")
}

pub(super) fn app_file(body: Option<&Body>) -> Result<&Body, MessageError> {
    media(body, "file.media_id")
}

pub(super) fn app_voice(body: Option<&Body>) -> Result<&Body, MessageError> {
    media(body, "voice.media_id")
}

pub(super) fn app_video(body: Option<&Body>) -> Result<&Body, MessageError> {
    media(body, "video.media_id")
}

/// Title, description and address.
pub(super) fn textcard(body: Option<&Body>) -> Result<&Body, MessageError> {
    let card = must_be(body, "textcard", "an object")?;
    let title = must_be(filled(card, "title"), "textcard.title", "a text")?;
    let description = must_be(filled(card, "description"), "textcard.description", "a text")?;
    let url = must_be(filled(card, "url"), "textcard.url", "a text")?;
    at_most(title.chars().count(), TEXT_CARD.0, "textcard.title", "characters")?;
    at_most(description.chars().count(), TEXT_CARD.1, "textcard.description", "characters")?;
    at_most(url.len(), MAX_URL, "textcard.url", "bytes")?;
    Ok(card)
}

/// The two kinds of card that a robot may send.
pub(super) fn robot_card(body: Option<&Body>) -> Result<&Body, MessageError> {
    let card = must_be(body, "template_card", "an object")?;
    match filled(card, "card_type") {
        Some("text_notice") => text_notice(card)?,
        Some("news_notice") => news_notice(card)?,
        _ => must_be(None, "template_card.card_type", "text_notice or news_notice")?,
    }
    notice(card)
}

/// An app's cards may ask as well. What must be in those WeCom says best: they hold no more than a name and a task here.
pub(super) fn app_card(body: Option<&Body>) -> Result<&Body, MessageError> {
    const KINDS: &str = "text_notice, news_notice, button_interaction, vote_interaction or multiple_interaction";
    let card = must_be(body, "template_card", "an object")?;
    task_id(card)?;
    match filled(card, "card_type") {
        Some("text_notice") => text_notice(card)?,
        Some("news_notice") => news_notice(card)?,
        Some("button_interaction" | "vote_interaction" | "multiple_interaction") => {
            must_be(filled(card, "task_id"), "template_card.task_id", "a text where a card asks")?;
            return Ok(card);
        }
        _ => must_be(None, "template_card.card_type", KINDS)?,
    }
    notice(card)
}

/// At most 128 of `[0-9A-Za-z_\-@]`, where it is there.
fn task_id(card: &Body) -> Result<(), MessageError> {
    let fits = |id: &str| id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '@'));
    match filled(card, "task_id") {
        Some(id) => {
            at_most(id.len(), 128, "template_card.task_id", "bytes")?;
            must_be(fits(id).then_some(()), "template_card.task_id", "of letters, digits, _, - and @")
        }
        None => Ok(()),
    }
}

fn text_notice(card: &Body) -> Result<(), MessageError> {
    let title = filled_in(card, "main_title", "title").or(filled(card, "sub_title_text"));
    must_be(title, "template_card.main_title.title", "a text where sub_title_text is none").map(drop)
}

fn news_notice(card: &Body) -> Result<(), MessageError> {
    must_be(filled_in(card, "main_title", "title"), "template_card.main_title.title", "a text")?;
    let picture = filled_in(card, "card_image", "url").is_some() || card.contains_key("image_text_area");
    must_be(picture.then_some(()), "template_card.card_image.url", "a text where image_text_area is none")
}

/// What both kinds of notice hold.
fn notice(card: &Body) -> Result<&Body, MessageError> {
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
