//! A callback as it was received, step by step: what holds, what fails, and what would mend it.
//!
//! What always holds: nothing is sent and no store is touched. The answer is that of `judge`, the function that the
//! endpoint itself asks, and each step asks the function that the endpoint asks at that point: so the first step that
//! fails is the one that the answer is about. A step that fails does not end it: whatever can still be tried is tried,
//! because a key that opens what a token does not fit says which of the two is wrong. Reasons and mends are guesses upon
//! signs, made here alone. No secret and no decrypted byte is told but ids and names of fields; a member's text only
//! where it is asked for.
//!
//! - `outside`: path, app, method, body, and the header of a plain webhook;
//! - `sealed`: query, envelope, signature, clock, decryption, receive id;
//! - `rewritten`: the marks that proxies leave;
//! - `inside`: payload, ids, chat, rule, route.

mod inside;
mod outside;
mod rewritten;
mod sealed;

use std::borrow::Cow;
use std::path::Path;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use serde::Serialize;

use crate::config::Settings;
use crate::config::settings::{App, AppKind};
use crate::ingress::body;
use crate::ingress::judge::{self, Judged, Received, judge};
use crate::ingress::refusal::Refusal;
use crate::model::now_ms;
use outside::Target;

/// A callback to be explained.
pub struct Asked {
    /// The app that it was meant for.
    pub app: String,
    /// As it was received: a whole URL, path and query, a query alone, or the line of an access log.
    pub url: String,
    /// The body of a POST; `None`: a URL verification.
    pub body: Option<Bytes>,
    /// As far as they matter: a plain webhook's own.
    pub headers: HeaderMap,
    /// When it came, Unix ms; else when the log's line says that it was answered, else now.
    pub at: Option<i64>,
    /// Whether the member's text may be shown.
    pub show_text: bool,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The app that it was explained for.
    pub app: String,
    /// `GET` or `POST`.
    pub method: String,
    /// Whether the gateway would answer 200, and act (or the URL verification would pass).
    pub acts: bool,
    /// What it would answer, were it to come then.
    pub status: u16,
    /// The error's code, where it is refused.
    pub code: Option<&'static str>,
    /// The error's sentence in the log.
    pub reason: Option<String>,
    /// In the order in which the gateway takes them.
    pub steps: Vec<Step>,
    /// What the member wrote, where it was asked for and could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Explanation {
    /// Whether another app than the one that was asked about would have it.
    pub fn leads_elsewhere(&self) -> bool {
        self.has("path", Fault::WrongApp)
    }

    /// Whether only a body that was not given tells what it would come to.
    pub fn lacks_body(&self) -> bool {
        self.has("method", Fault::MissingBody)
    }

    fn has(&self, name: &str, fault: Fault) -> bool {
        self.steps.iter().any(|step| step.step == name && step.fault == Some(fault))
    }
}

/// One step.
#[derive(Debug, Serialize)]
pub struct Step {
    /// Its name.
    pub step: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub says: String,
    /// What is wrong, in a word for machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// What mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// How a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it must be.
    Holds,
    /// Taken, but worth a look.
    Note,
    /// Not as it must be.
    Fails,
    /// Out of reach behind what failed before.
    Skipped,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are the documentation; docs/explain.md lists them")]
pub enum Fault {
    WrongPath,
    WrongApp,
    UnknownApp,
    Method,
    MissingBody,
    TooLarge,
    MissingQuery,
    EncodedTwice,
    PlusBecameBlank,
    Rewritten,
    Truncated,
    NotEncrypted,
    WrongKind,
    Clock,
    WrongToken,
    WrongKey,
    ReceiveId,
    Unauthorized,
    Unreadable,
    MissingField,
    UnknownChat,
    Sensitive,
    NoRule,
    NoRoute,
}

/// A fault with its signs and its mend.
struct Diagnosis {
    fault: Fault,
    says: String,
    mend: String,
}

impl Diagnosis {
    fn new(fault: Fault, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { fault, says: says.into(), mend: mend.into() }
    }
}

/// The steps so far.
#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn add(&mut self, step: &'static str, state: State, says: impl Into<String>) {
        self.0.push(Step { step, state, says: says.into(), fault: None, mend: None });
    }

    fn holds(&mut self, step: &'static str, says: impl Into<String>) {
        self.add(step, State::Holds, says);
    }

    fn note(&mut self, step: &'static str, says: impl Into<String>) {
        self.add(step, State::Note, says);
    }

    fn skip(&mut self, step: &'static str, says: impl Into<String>) {
        self.add(step, State::Skipped, says);
    }

    fn fail(&mut self, step: &'static str, diagnosis: Diagnosis) {
        let Diagnosis { fault, says, mend } = diagnosis;
        self.0.push(Step { step, state: State::Fails, says, fault: Some(fault), mend: Some(mend) });
    }
}

/// What every step may look at.
struct Scene<'a> {
    settings: &'a Settings,
    /// The folder of the app files.
    apps: &'a Path,
    asked: &'a Asked,
    target: Target<'a>,
    arrival: Arrival,
    method: Method,
    body: &'a [u8],
}

/// When a callback came.
#[derive(Clone, Copy)]
struct Arrival {
    /// Unix ms.
    at: i64,
    /// Whose clock says so, in a sentence.
    clock: &'static str,
}

impl Arrival {
    fn of(asked: &Asked, target: &Target<'_>) -> Self {
        match (asked.at, target.at) {
            (Some(at), _) => Self { at, clock: "the time that you gave" },
            (None, Some(at)) => Self { at, clock: "the clock of the proxy, by its log" },
            (None, None) => Self { at: now_ms(), clock: Self::THIS_MACHINE },
        }
    }

    const THIS_MACHINE: &str = "this machine's clock";

    /// Whether nobody said when it came.
    fn is_now(self) -> bool {
        self.clock == Self::THIS_MACHINE
    }
}

impl Scene<'_> {
    /// Where an app's keys stand.
    fn file(&self, app: &str) -> String {
        self.apps.join(format!("{app}.toml")).display().to_string()
    }

    /// Apps other than this one.
    fn others<'s>(&'s self, app: &'s str) -> impl Iterator<Item = &'s App> {
        self.settings.apps.values().map(|other| &**other).filter(move |other| other.id != app)
    }

    /// The app whose callbacks the gateway would take this for.
    fn named(&self) -> Option<Cow<'_, str>> {
        match self.target.path {
            Some(path) => judge::app_id(path),
            None => Some(Cow::Borrowed(&self.asked.app)),
        }
    }

    /// The app whose token and key every step uses: the path's, where it is there, as the gateway itself would.
    fn subject(&self) -> &str {
        let Asked { app, .. } = self.asked;
        let named = self.target.path.and_then(judge::app_id);
        let known = named.and_then(|named| self.settings.apps.get(&*named));
        known.map_or(app, |known| &known.id)
    }

    /// What the gateway would make of it.
    async fn judged(&self) -> Result<Judged, Refusal> {
        let app = self.named().ok_or(Refusal::Nowhere)?;
        let server = &self.settings.server;
        let body = Body::from(self.asked.body.clone().unwrap_or_default());
        let body = body::read(body, server.max_body, Instant::now() + server.deadline).await?;
        let (headers, at) = (&self.asked.headers, self.arrival.at);
        let received = Received { method: &self.method, app: &app, query: self.target.query, headers, body: &body, at };
        judge(self.settings, &received, REQUEST)
    }
}

/// Stands where a request id would.
const REQUEST: &str = "explain";

/// Explains what `asked` would come to under `settings`, whose app files lie in the folder `apps`.
pub async fn explain(settings: &Settings, apps: &Path, asked: &Asked) -> Explanation {
    let target = Target::of(&asked.url);
    let scene = Scene {
        settings,
        apps,
        asked,
        arrival: Arrival::of(asked, &target),
        method: if asked.body.is_some() || target.is_of_message() { Method::POST } else { Method::GET },
        target,
        body: asked.body.as_deref().unwrap_or_default(),
    };
    let mut steps = Steps::default();
    let seen = walk(&mut steps, &scene);
    let (status, code, reason) = match scene.judged().await {
        Ok(Judged::Verification(_) | Judged::Message(..)) => (200, None, None),
        Err(refusal) => (refusal.status().as_u16(), Some(refusal.code()), Some(refusal.to_string())),
    };
    Explanation {
        app: asked.app.clone(),
        method: scene.method.to_string(),
        acts: status == 200 && seen.acts && scene.subject() == asked.app,
        status,
        code,
        reason,
        steps: steps.0,
        text: seen.text.filter(|_| asked.show_text),
    }
}

/// What the steps led to.
#[derive(Default)]
struct Seen {
    /// Something would be done upon the message, and its answer has a way out; or the verification would be answered.
    acts: bool,
    text: Option<String>,
}

fn walk(steps: &mut Steps, scene: &Scene<'_>) -> Seen {
    outside::path(steps, scene);
    let Some(app) = outside::app(steps, scene) else { return Seen::default() };
    outside::method(steps, scene, app);
    if scene.method == Method::POST && scene.asked.body.is_none() {
        if outside::crypto(app).is_some() {
            sealed::query(steps, scene);
        }
        ["envelope", "signature", "decryption", "payload"].iter().for_each(|step| steps.skip(step, "there is no body"));
        return Seen::default();
    }
    outside::size(steps, scene);
    let plain = match &app.kind {
        AppKind::Json(auth) => {
            outside::authorised(steps, scene, app, auth);
            Some(scene.body.to_vec())
        }
        AppKind::App(crypto) | AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto) => {
            sealed::open(steps, scene, app, crypto)
        }
    };
    if scene.method == Method::GET {
        return Seen { acts: plain.is_some(), text: None };
    }
    let Some(plain) = plain else {
        ["payload", "ids", "chat", "rule", "route"].iter().for_each(|step| steps.skip(step, "nothing was decrypted"));
        return Seen::default();
    };
    inside::read(steps, scene, app, &plain)
}
