//! What a callback is, decided before anything is stored: refused, the URL verification, or a message. Pure: the same
//! callback at the same time gets the same judgement, so `explain` asks this very function what the gateway would answer.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

use super::authentic;
use super::query::Query;
use super::refusal::Refusal;
use crate::config::Settings;
use crate::config::settings::{App, AppKind};
use crate::model::{ChatKind, Message, SenderKind, digest_id};
use crate::wecom::payload::{self, Payload};

/// A callback as it was received, its body within bounds.
pub(crate) struct Received<'a> {
    pub(crate) method: &'a Method,
    /// As the path names it, see [`app_id`].
    pub(crate) app: &'a str,
    /// As it stands behind the `?`.
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
    /// When, Unix ms.
    pub(crate) at: i64,
}

/// What it is.
pub(crate) enum Judged {
    /// A URL verification, to be answered with this.
    Verification(Vec<u8>),
    /// A message, to be stored before it is acked.
    Message(Arc<App>, Box<Message>),
}

/// The app that a path names: `/callback/{app}`, with or without a slash at its end. A name that is no UTF-8 is no app's.
pub(crate) fn app_id(path: &str) -> Option<Cow<'_, str>> {
    let name = path.strip_prefix("/callback/").filter(|name| !name.is_empty())?;
    let name = name.strip_suffix('/').unwrap_or(name);
    (!name.contains('/')).then(|| percent_decode_str(name).decode_utf8().unwrap_or_default())
}

/// Decides what `received` is.
pub(crate) fn judge(settings: &Settings, received: &Received<'_>, request_id: &str) -> Result<Judged, Refusal> {
    let Received { method, app, query, headers, body, at } = *received;
    let app = settings.apps.get(app).ok_or(Refusal::UnknownApp)?;
    let max_skew = settings.dedup.max_skew;
    match (method, &app.kind) {
        (&Method::GET, AppKind::Json(_)) => Err(Refusal::Method("POST")),
        (&Method::GET, AppKind::App(crypto) | AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto)) => {
            let query = Query::parse(query)?;
            authentic::url_verification(crypto, &query, at, max_skew).map(Judged::Verification)
        }
        (&Method::POST, kind) => {
            let plain = authentic::payload(kind, query, headers, body, at, max_skew)?;
            let payload = payload::parse(&plain, &app.fields)?;
            let message = message(app, payload, &plain, request_id, at)?;
            Ok(Judged::Message(app.clone(), Box::new(message)))
        }
        _ => Err(Refusal::Method("GET, POST")),
    }
}

/// Settles what a payload leaves open: the chat of a one-to-one message, who an app's sender is, the id of an event.
pub(crate) fn message(
    app: &App,
    payload: Payload,
    plain: &[u8],
    request_id: &str,
    at: i64,
) -> Result<Message, Refusal> {
    let event = payload.msg_type.starts_with("event");
    let missing = |field| Refusal::MissingField { field, msg_type: payload.msg_type.clone() };
    let (sender_key, sender_kind) = match payload.sender {
        // Whom WeCom lets write to an app is its member (document/path/90239); an event's may be `sys`, and what a field of
        // the operator's own holds nobody here knows.
        Some((member, SenderKind::Unknown))
            if matches!(app.kind, AppKind::App(_)) && !event && app.fields.sender.is_empty() =>
        {
            (member, SenderKind::Internal)
        }
        Some(sender) => sender,
        None if event => (String::new(), SenderKind::Unknown),
        None => return Err(missing("sender")),
    };
    let chat_id = match payload.chat_id {
        Some(chat) => chat,
        None if payload.chat_kind == ChatKind::Single || event => sender_key.clone(),
        None => return Err(missing("chat id")),
    };
    let msg_id = match payload.msg_id {
        Some(id) => id,
        None if event => digest_id(&payload::digest(plain)),
        None => return Err(missing("message id")),
    };
    Ok(Message {
        request_id: request_id.to_owned(),
        app: app.id.clone(),
        chat_id,
        chat_kind: payload.chat_kind,
        msg_id,
        sender_key,
        sender_kind,
        sender_name: payload.sender_name,
        msg_type: payload.msg_type,
        text: payload.text,
        sent_at: payload.sent_at,
        received_at: at,
        response_url: payload.response_url,
        trace: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::JsonAuth;
    use crate::model::Secret;
    use crate::wecom::crypto::{CallbackCrypto, ReceiveId};
    use crate::wecom::payload::Fields;

    /// The kind that the sender of `payload` gets in an app of this kind.
    fn sender_kind(kind: &AppKind, fields: &Fields, text: &str) -> SenderKind {
        let app = App { fields: fields.clone(), ..App::for_tests("support", kind.clone()) };
        let payload = payload::parse(text.as_bytes(), fields).expect(text);
        message(&app, payload, text.as_bytes(), "r", 0).expect(text).sender_kind
    }

    #[test]
    fn who_writes_to_an_app_is_its_member() {
        let crypto = CallbackCrypto::new(Secret::new("t"), &Secret::new("a".repeat(43)), ReceiveId::Any).expect("keys");
        let (app, robot) = (AppKind::App(crypto.clone()), AppKind::GroupRobot(crypto.clone()));
        let (aibot, json) = (AppKind::Aibot(crypto), AppKind::Json(JsonAuth::None));
        let xml =
            |inside: &str| format!("<xml>{inside}<MsgType>text</MsgType><Content>hi</Content><MsgId>1</MsgId></xml>");
        let from = xml("<FromUserName>zhangsan</FromUserName>");
        let none = Fields::default();
        let own = Fields { sender: vec!["talker".to_owned()], ..Fields::default() };
        assert_eq!(sender_kind(&app, &none, &from), SenderKind::Internal);
        let external = xml("<FromUserName>zhangsan</FromUserName><ExternalUserID>wmA</ExternalUserID>");
        assert_eq!(sender_kind(&app, &none, &external), SenderKind::External);
        // What a field of the operator's own holds only they know.
        assert_eq!(sender_kind(&app, &own, &xml("<talker>wmA</talker>")), SenderKind::Unknown);
        // An event's may be `sys`, which is nobody.
        let event = "<xml><FromUserName>sys</FromUserName><MsgType>event</MsgType><Event>change_contact</Event></xml>";
        assert_eq!(sender_kind(&app, &none, event), SenderKind::Unknown);
        for kind in [robot, aibot, json] {
            assert_eq!(sender_kind(&kind, &none, &from), SenderKind::Unknown, "{kind:?}");
            let member = xml("<From><UserId>zhangsan</UserId></From><ChatId>c</ChatId>");
            assert_eq!(sender_kind(&kind, &none, &member), SenderKind::Internal, "{kind:?}");
        }
    }

    #[test]
    fn a_path_names_one_app_or_nothing() {
        for path in ["/callback/support", "/callback/support/", "/callback/%73upport"] {
            assert_eq!(app_id(path).as_deref(), Some("support"), "{path}");
        }
        for path in ["/", "/callback", "/callback/", "/callback/a/b", "/callback/a//", "/x/callback/a"] {
            assert_eq!(app_id(path), None, "{path}");
        }
        for path in ["/callback//", "/callback/%ff"] {
            assert_eq!(app_id(path).as_deref(), Some(""), "{path}");
        }
        assert_eq!(app_id("/callback/a%2Fb").as_deref(), Some("a/b"));
    }
}
