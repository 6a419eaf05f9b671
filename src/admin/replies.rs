//! `POST /api/v1/replies`: the late answer of an action that said `202`. It is taken only for a message that waits for
//! one and only into that message's own chat; the same `seq` again changes nothing. A service may post it before what it said
//! with `202` is on record.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::info;
use utoipa::ToSchema;

use super::auth::Operator;
use super::object::Object;
use super::{AdminState, Failure};
use crate::alarms::{Alarm, Kind};
use crate::model::Lane;
use crate::sender::NoRoute;
use crate::store::{Answered, LateAnswer, SharedStore, Stage, Turn, Waiting};
use crate::telemetry::{SpanOf, trace_of};
use crate::worker::reply::{Origin, Replies};

/// When it is looked again whether a message waits, the first time; then each time after twice as long.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often at most: for a little more than a second.
const LOOKS: u32 = 6;

/// What became of an answer that the store took, unless its chat has no route.
const QUEUED: &str = "queued";

/// A late answer as it is posted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LateReply {
    app: String,
    chat: String,
    request_id: String,
    /// The caller's number of this answer: a repeat has the same.
    #[serde(default)]
    seq: u64,
    /// WeCom's own message JSON, in order.
    #[schema(min_items = 1, value_type = Vec<Object>)]
    messages: Vec<Value>,
}

/// What became of a late answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LateReplyTaken {
    /// `queued`; `dropped` where its chat has no route; `repeat` where this answer was posted before.
    state: &'static str,
}

/// Takes a late answer
///
/// Of an action that said `202`: only for a message that waits for one, and only into its own chat. The same `seq` again changes nothing.
#[utoipa::path(
    post,
    path = "/replies",
    operation_id = "answerLate",
    tag = "messages",
    request_body = LateReply,
    responses(
        (status = 200, description = "It is taken", body = LateReplyTaken),
        (status = 400, description = "`bad_body`, `bad_message`"),
        (status = 404, description = "`not_waiting`: no message of this chat waits for an answer under this request id"),
        (status = 413, description = "`bad_body`: too large"),
        (status = 415, description = "`bad_body`: not sent as JSON"),
        (status = 503, description = "`lane_full`, `store_unavailable`; nothing was queued")
    )
)]
pub(super) async fn post(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    headers: HeaderMap,
    body: Result<Object<LateReply>, Failure>,
) -> Result<Json<LateReplyTaken>, Failure> {
    let Object(late) = body?;
    if late.messages.is_empty() {
        let text = "messages: at least one; an answer that says nothing is not posted";
        return Err(Failure::new(StatusCode::BAD_REQUEST, "bad_message", text));
    }
    // The action was asked with the header of its span: a service that hands it back goes on with the message's trace.
    let mut span = state.spans.root(SpanOf::Answer, trace_of(&headers), Duration::ZERO);
    span.tell("request_id", &late.request_id);
    span.tell("app", &late.app);
    span.tell("chat_id", &late.chat);
    let lane = Lane::of_chat(&late.app, &late.chat);
    let waiting = awaited(&state.store, &lane, &late.request_id).await?;
    let origin = Origin {
        key: waiting.key,
        request_id: late.request_id.clone(),
        received_at: waiting.received_at,
        expires_at: waiting.expires_at,
        reply_to: waiting.reply_to,
        trace: span.context(),
    };
    let route = match state.routes().find(origin.destination()) {
        Ok(route) if route.is_single_use() && waiting.answers > 0 => Err(NoRoute::ResponseUrlUsed),
        other => other,
    };
    let replies = origin
        .replies(route.as_ref().map_err(|why| *why), &late.messages, &format!("{}.", late.seq))
        .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, "bad_message", format!("messages: {error}")))?;
    let Replies { deliveries, summary, lines: dropped } = replies;
    let mut lines = vec![origin.line(Stage::Answered, json!({"seq": late.seq, "by": who.name, "replies": summary}))];
    lines.extend(dropped.iter().cloned());
    let answer = LateAnswer {
        request_id: late.request_id,
        lane,
        seq: late.seq,
        replies: deliveries,
        turn: Turn {
            weight: route.as_ref().map_or(1, |route| route.weight),
            head_start: state.settings().sender.head_start,
        },
        depth_limit: state.settings().store.lane_depth,
        lines,
    };
    let mut word = queued(state.store.answer_late(answer).await?)?;
    if let (QUEUED, Err(why)) = (word, route) {
        origin.log_dropped(&dropped, why);
        state.alarms.raise(Alarm::of_chat(Kind::NoRoute, &late.app, &late.chat, why.as_str()));
        word = "dropped";
    }
    span.tell("result", word);
    let [app, chat_id, sender_key, msg_id] = origin.key.parts();
    let by = who.name;
    info!(by, request_id = origin.request_id, app, chat_id, sender_key, msg_id, seq = late.seq, word, "late answer");
    Ok(Json(LateReplyTaken { state: word }))
}

/// In a word, what the store made of an answer.
fn queued(answered: Answered) -> Result<&'static str, Failure> {
    match answered {
        Answered::Queued => Ok(QUEUED),
        Answered::Repeat => Ok("repeat"),
        Answered::NotWaiting => Err(not_waiting()),
        Answered::LaneFull => {
            let text = "too many replies wait for this chat (store.lane_depth); nothing was queued, post it again";
            Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "lane_full", text))
        }
    }
}

/// The message that waits, once it does: an answer may overtake the commit of the `202` that promised it.
async fn awaited(store: &SharedStore, lane: &Lane, request_id: &str) -> Result<Waiting, Failure> {
    for pause in (0..LOOKS).map(|looks| LOOK_AGAIN * 2_u32.pow(looks)) {
        if let Some(waiting) = store.waiting(lane, request_id).await? {
            return Ok(waiting);
        }
        tokio::time::sleep(pause).await;
    }
    store.waiting(lane, request_id).await?.ok_or_else(not_waiting)
}

fn not_waiting() -> Failure {
    let text = "no message of this chat waits for an answer under this request_id; it may have waited too long, or the gateway \
                ended before it noted the 202: then the action is asked again under the same Idempotency-Key";
    Failure::new(StatusCode::NOT_FOUND, "not_waiting", text)
}
