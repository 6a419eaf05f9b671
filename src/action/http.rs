//! The `http` action: asks a service of the team's own what to say (contract, section 5).
//!
//! One POST, one answer, no retry: a message may be asked twice after a crash, and `Idempotency-Key` tells the service
//! so. The signature covers `{timestamp}.{body}`, so neither can be changed or replayed later unnoticed.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::{ActionError, Answer, Request};
use crate::config::settings::HttpAction;
use crate::member::{self, Contact, NAME};
use crate::model::{ChatKind, Message, Secret, SenderKind, Session, now_ms, rfc3339};
use crate::rules::{CommandCall, Trigger};
use crate::trace_context::TRACEPARENT;
use crate::wecom;

/// Most bytes that an answer may have.
pub(super) const MAX_ANSWER: usize = 1024 * 1024;

/// Asks the service.
pub(super) async fn ask(
    client: &reqwest::Client,
    action: &HttpAction,
    request: &Request<'_>,
) -> Result<Answer, ActionError> {
    let body = serde_json::to_string(&Body::of(request))?;
    let timestamp = (now_ms() / 1000).to_string();
    let mut call = client
        .post(action.url.clone())
        .timeout(action.timeout)
        .header(CONTENT_TYPE, "application/json")
        .header("X-Request-Id", &request.message.request_id)
        .header("Idempotency-Key", request.message.key().idempotency_key())
        .header("X-Gateway-Timestamp", &timestamp);
    if let Some(trace) = request.trace {
        call = call.header(TRACEPARENT, trace.to_string());
    }
    if let Some(secret) = &action.secret {
        call = call.header("X-Gateway-Signature", signature(secret, &timestamp, &body));
    }
    let response = call.body(body).send().await.map_err(failure)?;
    match response.status() {
        StatusCode::NO_CONTENT => Ok(Answer::Silent),
        StatusCode::ACCEPTED => Ok(Answer::Later),
        StatusCode::OK => answer(&read(response).await?),
        other => Err(ActionError::Status(other.as_u16())),
    }
}

/// `sha256=<hex hmac of "{timestamp}.{body}">`
pub(crate) fn signature(secret: &Secret, timestamp: &str, body: &str) -> String {
    #[allow(clippy::expect_used)] // HMAC hashes a key that is too long and pads one that is too short.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("a key of any length");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

#[derive(Serialize)]
struct Body<'a> {
    request_id: &'a str,
    app: &'a str,
    trigger: Trigger,
    chat: BodyChat<'a>,
    message: BodyMessage<'a>,
    sender: BodySender<'a>,
    command: Option<&'a CommandCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    captures: Option<&'a Map<String, Value>>,
    session: &'a Session,
}

#[derive(Serialize)]
struct BodyChat<'a> {
    id: &'a str,
    kind: ChatKind,
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct BodyMessage<'a> {
    id: &'a str,
    r#type: &'a str,
    text: &'a str,
    sent_at: Option<String>,
    received_at: Option<String>,
}

#[derive(Serialize)]
struct BodySender<'a> {
    key: &'a str,
    kind: SenderKind,
    user_id: Option<&'a str>,
    contact: BodyContact<'a>,
}

#[derive(Serialize)]
struct BodyContact<'a> {
    name: Option<&'a str>,
    /// The other fields, under their own names. The team's own service sees them whole.
    #[serde(flatten)]
    more: BTreeMap<&'a str, &'a str>,
}

impl<'a> BodyContact<'a> {
    fn of(message: &'a Message, contact: &'a Contact) -> Self {
        let mut more: BTreeMap<_, _> = contact.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
        Self { name: more.remove(NAME).or(message.sender_name.as_deref()), more }
    }
}

impl<'a> Body<'a> {
    fn of(request: &Request<'a>) -> Self {
        let Request { message, chat_name, run, session, profile, .. } = *request;
        Self {
            request_id: &message.request_id,
            app: &message.app,
            trigger: run.trigger,
            chat: BodyChat { id: &message.chat_id, kind: message.chat_kind, name: chat_name },
            message: BodyMessage {
                id: &message.msg_id,
                r#type: &message.msg_type,
                text: &message.text,
                sent_at: message.sent_at.and_then(rfc3339),
                received_at: rfc3339(message.received_at),
            },
            sender: BodySender {
                key: &message.sender_key,
                kind: message.sender_kind,
                user_id: profile.user_id(),
                contact: BodyContact::of(message, &profile.contact),
            },
            command: run.command.as_ref(),
            captures: run.captures.as_ref(),
            session,
        }
    }
}

/// Reads an answer's body up to its limit.
pub(super) async fn read(mut response: Response) -> Result<Vec<u8>, ActionError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failure)? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(ActionError::BadAnswer(format!("it is longer than {MAX_ANSWER} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What a 200 says. Other fields are passed over, beside one of these.
#[derive(Deserialize)]
struct Spoken {
    text: Option<String>,
    messages: Option<Vec<Map<String, Value>>>,
    vars: Option<Map<String, Value>>,
    user_id: Option<String>,
}

impl Spoken {
    fn is_empty(&self) -> bool {
        self.text.is_none() && self.messages.is_none() && self.vars.is_none() && self.user_id.is_none()
    }
}

/// A text, where there is one, goes before the messages.
fn answer(body: &[u8]) -> Result<Answer, ActionError> {
    // The parser's own words may quote the body; its place in the body says enough.
    let unreadable =
        |e: serde_json::Error| format!("it is not the agreed JSON (line {}, column {})", e.line(), e.column());
    let spoken: Spoken = serde_json::from_slice(body).map_err(|e| ActionError::BadAnswer(unreadable(e)))?;
    if spoken.is_empty() {
        let text = "it has none of text, messages, vars and user_id; to say nothing, answer 204";
        return Err(ActionError::BadAnswer(text.to_owned()));
    }
    if spoken.user_id.as_deref().is_some_and(|id| !member::is_user_id(id)) {
        return Err(ActionError::BadAnswer("its user_id is empty, too long, or holds control characters".to_owned()));
    }
    let mut messages: Vec<Value> = Vec::new();
    messages.extend(spoken.text.filter(|text| !text.trim().is_empty()).map(|text| wecom::message::text(&text)));
    for message in spoken.messages.unwrap_or_default() {
        if !message.get("msgtype").is_some_and(Value::is_string) {
            return Err(ActionError::BadAnswer("a message has no msgtype".to_owned()));
        }
        messages.push(message.into());
    }
    if messages.is_empty() && spoken.vars.is_none() && spoken.user_id.is_none() {
        return Ok(Answer::Silent);
    }
    Ok(Answer::Say { messages, vars: spoken.vars, user_id: spoken.user_id })
}

/// Sorts a failed call by what it means, keeping only its innermost cause: reqwest's own words hold the URL.
pub(super) fn failure(error: reqwest::Error) -> ActionError {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.to_string() {
        _ if error.is_timeout() => ActionError::Timeout,
        cause if error.is_connect() => ActionError::Connect(cause),
        cause => ActionError::Broken(cause),
    }
}
