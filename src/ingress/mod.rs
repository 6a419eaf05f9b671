//! The callback endpoint: verify, decrypt, parse, enqueue, ack. Five things and nothing else; it never calls a
//! business service, so an answer leaves within microseconds of the store's ([`Intake`]), or of the spool's while Redis is
//! away.
//!
//! What always holds: `success` goes out only after the message is stored (P5); the body is capped before any crypto
//! and read to its end, within bounds, so that a refused client sees its answer; every answer carries `X-Request-Id`;
//! no answer holds a secret or a decrypted byte.

pub(crate) mod authentic;
pub(crate) mod body;
mod intake;
pub(crate) mod judge;
pub(crate) mod query;
pub(crate) mod refusal;
mod replay;
mod to_the_end;
mod turns;
mod window;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Request, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::{info, warn};

use crate::api_error::{ApiError, with_request_id};
use crate::config::Settings;
use crate::config::settings::{App, AppKind, Order};
use crate::model::{Lane, Message, new_id, now_ms};
use crate::records::Copies;
use crate::rush::Rush;
use crate::setup::InForce;
use crate::store::Arrival;
use crate::telemetry::{Metrics, Recent, Span, SpanOf, Spans, trace_of};
use intake::Taken;
use judge::{Judged, Received, judge};
use refusal::Refusal;
use to_the_end::{ToTheEnd, to_the_end};
use window::{Admission, Lead, Shared, Window};

pub use intake::Intake;
pub use replay::Replay;

/// The endpoint's state.
#[derive(Clone)]
pub struct Ingress(Arc<Inner>);

struct Inner {
    in_force: Arc<InForce>,
    intake: Arc<Intake>,
    copies: Arc<Copies>,
    metrics: Arc<Metrics>,
    recent: Arc<Recent>,
    spans: Spans,
    rush: Arc<Rush>,
    window: Arc<Window>,
}

impl Ingress {
    /// An endpoint for the apps that are in force, whose messages `intake` takes; the copies that never come so far are
    /// counted in `copies`.
    pub fn new(
        in_force: Arc<InForce>,
        intake: Intake,
        copies: Arc<Copies>,
        metrics: Arc<Metrics>,
        recent: Arc<Recent>,
        spans: Spans,
        rush: Arc<Rush>,
    ) -> Self {
        let (window, intake) = (Arc::new(Window::new(in_force.settings().dedup.window)), Arc::new(intake));
        Self(Arc::new(Inner { in_force, intake, copies, metrics, recent, spans, rush, window }))
    }

    /// `GET|POST /callback/{app}`, with or without a slash at its end; everything else is 404.
    pub fn router(self) -> Router {
        Router::new().fallback(callback).with_state(self)
    }
}

async fn callback(State(Ingress(ingress)): State<Ingress>, request: Request<Body>) -> Response {
    let (began, request_id) = (Instant::now(), new_id());
    let path = request.uri().path().to_owned();
    let Some(app_id) = judge::app_id(&path) else {
        let settings = ingress.in_force.settings();
        let server = &settings.server;
        body::drain(request.into_body(), server.max_body, began + server.deadline).await;
        return ingress.conclude("", &path, &request_id, began, Err(Refusal::Nowhere));
    };
    let answer = ingress.answer(&app_id, request, &request_id, began).await;
    ingress.conclude(&app_id, &path, &request_id, began, answer)
}

/// So much of a stranger's path is shown, in characters.
const MOST_OF_PATH: usize = 120;

/// A path as log and console may show it, percent-encoded as it came.
fn shown(path: &str) -> String {
    let mut shown: String = path.chars().filter(|c| !c.is_control()).take(MOST_OF_PATH).collect();
    if path.chars().count() > MOST_OF_PATH {
        shown.push('…');
    }
    shown
}

type Answer = Result<(Response, &'static str), Refusal>;

impl Inner {
    async fn answer(&self, app: &str, request: Request<Body>, request_id: &str, began: Instant) -> Answer {
        let settings = self.in_force.settings();
        let deadline = began + settings.server.deadline;
        let (parts, body) = request.into_parts();
        let body = body::read(body, settings.server.max_body, deadline).await?;
        let query = parts.uri.query().unwrap_or_default();
        let received =
            Received { method: &parts.method, app, query, headers: &parts.headers, body: &body, at: now_ms() };
        match judge(&settings, &received, request_id)? {
            Judged::Verification(plain) => Ok((plain_text(plain), "verified")),
            Judged::Message(app, mut message) => {
                let mut span = self.begin(&message, &parts.headers, began);
                message.trace = span.context();
                let answer = self.take(&settings, &app, *message, deadline).await;
                match &answer {
                    Ok((_, result)) => span.tell("result", *result),
                    Err(refusal) => span.failed(refusal.code()),
                }
                answer
            }
        }
    }

    /// The span of a callback that brought a message; a front of ours may have begun its trace.
    fn begin(&self, message: &Message, headers: &HeaderMap, began: Instant) -> Span {
        let mut span = self.spans.root(SpanOf::Callback, trace_of(headers), began.elapsed());
        span.tell("request_id", &message.request_id);
        span.tell("app", &message.app);
        span.tell("chat_id", &message.chat_id);
        span.tell("msg_id", &message.msg_id);
        span.tell("msg_type", &message.msg_type);
        span
    }

    /// Counts an answer and gives it its name; a refusal gets its shape.
    fn conclude(&self, app_id: &str, path: &str, request_id: &str, began: Instant, answer: Answer) -> Response {
        // The app's name in a label only where there is such an app: a stranger can't grow the metrics.
        let settings = self.in_force.settings();
        let app = settings.apps.get(app_id).map_or("", |app| app.id.as_str());
        let refusal = match answer {
            Ok((response, result)) => {
                self.metrics.callback(app, result, began.elapsed());
                self.recent.note(app, request_id, result, None);
                return with_request_id(response, request_id);
            }
            Err(refusal) => refusal,
        };
        let (status, code) = (refusal.status(), refusal.code());
        self.metrics.callback(app, code, began.elapsed());
        let (status_code, told) = (status.as_u16(), refusal.told());
        if app.is_empty() {
            let path = shown(path);
            warn!(request_id, app, path, code, status = status_code, reason = %refusal, "callback refused");
            self.recent.note_stranger(&path, request_id, code, told.clone());
        } else {
            warn!(request_id, app, code, status = status_code, reason = %refusal, "callback refused");
            self.recent.note(app, request_id, code, Some(told.clone()));
        }
        let mut response = ApiError::new(status, code, told).respond(request_id);
        if let Refusal::Method(allowed) = refusal {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }

    async fn take(&self, settings: &Settings, app: &App, message: Message, deadline: Instant) -> Answer {
        let (_waiting, mark_ttl) = (self.rush.enter(), app.mark_ttl(&message));
        let (taken, copy) = match self.window.admit(&message.key(), mark_ttl) {
            Admission::Known => (Taken::Duplicate, true),
            Admission::Follow(shared) => (by(deadline, told(shared)).await, true),
            Admission::Lead(lead) => {
                let arrival = arrival(settings, app, message.clone(), mark_ttl);
                (by(deadline, self.store(arrival, deadline, lead)).await, false)
            }
        };
        let result = match taken {
            Taken::Refused(code) => return Err(Refusal::Unavailable(code)),
            Taken::Stored if !copy => "stored",
            Taken::Spooled if !copy => "spooled",
            Taken::Stored | Taken::Spooled | Taken::Duplicate => "duplicate",
        };
        if copy {
            self.copies.stopped(&message.app, &message.chat_id);
        }
        info!(
            request_id = message.request_id, app = %app.id, chat_id = %message.chat_id, sender_key = %message.sender_key, msg_id = %message.msg_id,
            msg_type = %message.msg_type, result, "callback taken"
        );
        let text = if matches!(app.kind, AppKind::Aibot(_)) { "" } else { "success" };
        Ok((plain_text(text), result))
    }

    /// Stores to the end, whatever happens: a panic, a client that goes away, or the deadline, must not leave the copies without an answer.
    fn store(&self, arrival: Arrival, deadline: Instant, lead: Lead) -> ToTheEnd<Taken> {
        let intake = self.intake.clone();
        to_the_end(async move {
            let taken = AssertUnwindSafe(intake.take(arrival, deadline)).catch_unwind().await;
            let taken = taken.unwrap_or(Taken::UNAVAILABLE);
            lead.settle(taken);
            taken
        })
    }
}

fn arrival(settings: &Settings, app: &App, message: Message, mark_ttl: Duration) -> Arrival {
    Arrival {
        lane: match settings.workers.order {
            Order::Sender => Lane::of_sender(&message.app, &message.chat_id, &message.sender_key),
            Order::Chat => Lane::of_chat(&message.app, &message.chat_id),
        },
        max_age: app.max_reply_age,
        mark_ttl,
        message,
        depth_limit: settings.store.lane_depth,
        repeated: false,
    }
}

fn plain_text(text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// What the first of several copies is told, as the others hear of it.
async fn told(mut shared: Shared) -> Taken {
    shared.wait_for(Option::is_some).await.ok().and_then(|taken| *taken).unwrap_or(Taken::UNAVAILABLE)
}

async fn by(deadline: Instant, taken: impl Future<Output = Taken>) -> Taken {
    tokio::time::timeout_at(deadline.into(), taken).await.unwrap_or(Taken::LATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_path_is_shown_within_bounds() {
        assert_eq!(shown("/callback/sup%0Aport"), "/callback/sup%0Aport");
        assert_eq!(shown("/a\nb\u{1b}[31m"), "/ab[31m");
        let long = shown(&format!("/{}", "x".repeat(10_000)));
        assert_eq!((long.chars().count(), long.ends_with('…')), (MOST_OF_PATH + 1, true));
    }
}
