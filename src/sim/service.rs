//! The team's own service, as contract section 5 describes it from the other side: it checks each action request
//! (signature, `Idempotency-Key`, whose words the session holds, one message of a member at a time) and answers with a
//! text that names the action, the message's [`Tag`] and the arguments.
//!
//! The serial of a tag is the command's first whole-number argument, else the `#17` in the text.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::behaviour::{Gate, Options, WorkTime};
use super::ledger::Ledger;
use super::violation::{Tag, Violation};
use super::wire::Scissors;

/// What the service does with one call.
#[derive(Clone, Debug)]
pub struct Reaction {
    /// Works so long first.
    pub delay: Duration,
    /// The answer.
    pub answer: ServiceAnswer,
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceAnswer {
    /// A text that names action, tag and arguments, and the tag again as a session variable.
    Tagged,
    /// The tag and how many calls this session has counted, which the session variable `n` keeps.
    Counted,
    /// This, with status 200.
    Json(Value),
    /// A bare status: 204 says nothing, 202 answers later, 500 is broken.
    Status(u16),
    /// The connection drops without an answer.
    Cut,
}

impl ServiceAnswer {
    /// This answer after `delay`.
    pub fn after(self, delay: Duration) -> Reaction {
        Reaction { delay, answer: self }
    }
}

/// An action request as it came.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name in its URL.
    pub action: String,
    /// Contract section 5.
    pub body: Value,
    /// The trace that it says it belongs to.
    pub traceparent: Option<String>,
}

impl Call {
    fn part<'a>(&'a self, object: &str, field: &str) -> &'a str {
        self.body[object][field].as_str().unwrap_or_default()
    }
    /// The message's chat.
    pub fn chat(&self) -> &str {
        self.part("chat", "id")
    }
    /// Who wrote it.
    pub fn sender(&self) -> &str {
        self.part("sender", "key")
    }
    /// Its id.
    pub fn msg_id(&self) -> &str {
        self.part("message", "id")
    }
    /// Its text.
    pub fn text(&self) -> &str {
        self.part("message", "text")
    }
    /// The tag that an answer to it carries; serial 0 where neither arguments nor text name one.
    pub fn tag(&self) -> Tag {
        let argument = || self.body["command"]["args"].as_object()?.values().find_map(Value::as_u64);
        let in_text = || {
            let digits = self.text().split_once('#')?.1;
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse().ok()
        };
        Tag::new(self.chat(), self.sender(), argument().or_else(in_text).unwrap_or_default())
    }
    fn lane(&self) -> (String, String, String) {
        let app = self.body["app"].as_str().unwrap_or_default();
        (app.to_owned(), self.chat().to_owned(), self.sender().to_owned())
    }
    /// Hex SHA-256 of app, chat, sender and message id joined by NUL.
    fn idempotency_key(&self) -> String {
        let (app, chat, sender) = self.lane();
        hex::encode(Sha256::digest([app.as_str(), &chat, &sender, self.msg_id()].join("\0")))
    }
}

#[derive(Debug, Default)]
struct Calls {
    scripts: HashMap<String, VecDeque<Reaction>>,
    always: HashMap<String, Reaction>,
    keys: HashSet<String>,
    under_way: HashSet<(String, String, String)>,
    kept: Vec<Call>,
    count: usize,
}

/// The team's service.
#[derive(Debug)]
pub struct Service {
    calls: Mutex<Calls>,
    work: Option<WorkTime>,
    secret: Option<String>,
    forget: bool,
    ledger: Arc<Ledger>,
    gate: Gate,
}

impl Service {
    pub(super) fn new(options: &Options, ledger: Arc<Ledger>) -> Self {
        let Options { work, forget, .. } = *options;
        let secret = options.action_secret.clone();
        Self { calls: Mutex::default(), work, secret, forget, ledger, gate: Gate::default() }
    }

    fn calls_now(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the action does with its next calls, in order.
    pub fn script(&self, action: &str, reactions: impl IntoIterator<Item = Reaction>) {
        self.calls_now().scripts.entry(action.to_owned()).or_default().extend(reactions);
    }

    /// What the action does with every call that no script names.
    pub fn always(&self, action: &str, reaction: Reaction) {
        self.calls_now().always.insert(action.to_owned(), reaction);
    }

    /// Holds all answers back until [`Service::release`].
    pub fn hold(&self) {
        self.gate.hold();
    }

    /// Lets them go.
    pub fn release(&self) {
        self.gate.release();
    }

    /// Calls that came, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.calls_now().kept.clone()
    }

    /// How many calls came, kept or not.
    pub fn count(&self) -> usize {
        self.calls_now().count
    }

    /// Calls that wait for their answer now.
    pub fn under_way(&self) -> usize {
        self.calls_now().under_way.len()
    }

    /// What is wrong with a request's headers.
    fn check_headers(&self, headers: &HeaderMap, body: &[u8], call: &Call) -> Result<(), &'static str> {
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
        if text("X-Request-Id") != call.body["request_id"].as_str() {
            return Err("X-Request-Id is not the body's request_id");
        }
        if text("Idempotency-Key") != Some(&call.idempotency_key()) {
            return Err("Idempotency-Key is not the digest of the message's key");
        }
        let Some(secret) = &self.secret else { return Ok(()) };
        let timestamp = text("X-Gateway-Timestamp").ok_or("no X-Gateway-Timestamp")?;
        let signature = text("X-Gateway-Signature").and_then(|v| v.strip_prefix("sha256=")).ok_or("no signature")?;
        let signature = hex::decode(signature).map_err(|_| "the signature is not hex")?;
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|_| "no key")?;
        mac.update(timestamp.as_bytes());
        mac.update(b".");
        mac.update(body);
        mac.verify_slice(&signature).map_err(|_| "the signature is wrong")
    }

    /// Takes a call in and decides what happens to it.
    fn take(&self, call: &Call) -> Reaction {
        let mut calls = self.calls_now();
        let (app, chat, sender) = call.lane();
        if !calls.keys.insert(call.idempotency_key()) {
            let msg_id = call.msg_id().to_owned();
            self.ledger.violate(Violation::AskedTwice { chat: chat.clone(), sender: sender.clone(), msg_id });
        }
        let session = call.body["session"].to_string();
        for foreign in Tag::all(&session).filter(|tag| (&tag.chat, &tag.sender) != (&chat, &sender)) {
            self.ledger.violate(Violation::MixedContext { chat: chat.clone(), sender: sender.clone(), foreign });
        }
        if !calls.under_way.insert((app, chat.clone(), sender.clone())) {
            self.ledger.violate(Violation::HandledAtOnce { chat, sender });
        }
        calls.count += 1;
        if !self.forget {
            calls.kept.push(call.clone());
        }
        let scripted = calls.scripts.get_mut(&call.action).and_then(VecDeque::pop_front);
        let reaction = scripted.or_else(|| calls.always.get(&call.action).cloned());
        self.ledger.stir();
        reaction.unwrap_or_else(|| {
            ServiceAnswer::Tagged.after(self.work.map(|work| work.of(call.tag().serial)).unwrap_or_default())
        })
    }
}

/// One call under way; ends when its answer is ready or its client has gone.
struct UnderWay<'a>(&'a Service, (String, String, String));

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.calls_now().under_way.remove(&self.1);
        self.0.ledger.stir();
    }
}

pub(super) fn router(service: Arc<Service>) -> Router {
    Router::new().route("/action/{name}", post(answer)).with_state(service)
}

async fn answer(
    State(service): State<Arc<Service>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Path(action): Path<String>,
    headers: HeaderMap,
    raw: Bytes,
) -> Response {
    let Ok(body) = serde_json::from_slice(&raw) else {
        service.ledger.violate(Violation::BadActionRequest("no JSON"));
        return StatusCode::BAD_REQUEST.into_response();
    };
    let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let call = Call { action, body, traceparent };
    if let Err(why) = service.check_headers(&headers, &raw, &call) {
        service.ledger.violate(Violation::BadActionRequest(why));
        return StatusCode::FORBIDDEN.into_response();
    }
    let reaction = service.take(&call);
    let _under_way = UnderWay(&service, call.lane());
    tokio::time::sleep(reaction.delay).await;
    service.gate.pass().await;
    match reaction.answer {
        ServiceAnswer::Tagged => axum::Json(tagged(&call)).into_response(),
        ServiceAnswer::Counted => axum::Json(counted(&call)).into_response(),
        ServiceAnswer::Json(body) => axum::Json(body).into_response(),
        ServiceAnswer::Status(status) => {
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response()
        }
        ServiceAnswer::Cut => {
            scissors.cut();
            StatusCode::OK.into_response()
        }
    }
}

fn counted(call: &Call) -> Value {
    let n = call.body["session"]["vars"]["n"].as_u64().unwrap_or_default() + 1;
    json!({"text": format!("{} {n}", call.tag()), "vars": {"n": n}})
}

fn tagged(call: &Call) -> Value {
    let tag = call.tag();
    let args = match &call.body["command"]["args"] {
        Value::Object(args) if !args.is_empty() => format!(" {}", json!(args)),
        _ => String::new(),
    };
    json!({"text": format!("{} {tag}{args}", call.action), "vars": {"last": tag.to_string()}})
}
