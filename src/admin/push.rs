//! `/api/v1/push`: push tasks handed over, how they stand, and what producers know of them.
//!
//! A call is all or nothing as far as faults go: one faulty task, and none of the call is taken (400). What was taken is
//! told for each task, also where the call as a whole came to 409 or 503; the same call again is no second send.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::info;

use super::auth::Operator;
use super::{AdminState, Failure, Part};
use crate::model::Outcome;
use crate::push::status::{counts, current_id, whole};
use crate::push::{self, ConfirmError, Confirmation, HandOverError, Source, Taken, Task, TaskFault};
use crate::records::{Page, rfc3339};
use crate::store::{Child, StoreError, TaskStatus};
use crate::task::{RecipientState, Who};
use crate::telemetry::trace_of;

/// Tasks of one call.
const MOST_TASKS: usize = 1000;
/// Bytes of one call.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// Tasks whose state is asked for at once.
const AT_ONCE: usize = 16;
/// What the path of a confirmation ends with.
const CONFIRM: &str = "/confirm";

/// Takes one task, or an array of them.
pub(super) async fn post(
    State(state): State<AdminState>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Vec<Value>>), Failure> {
    let body = body.map_err(|rejection| Failure::new(rejection.status(), "bad_body", rejection.body_text()))?;
    let Call { via, tasks: raw } = call(&body)?;
    let mut tasks = read(&state, &raw)?;
    let trace = trace_of(&headers);
    tasks.iter_mut().for_each(|task| task.trace = trace);
    let ids: Vec<String> = tasks.iter().map(|task| task.id.clone()).collect();
    if let Some(Via::Kafka) = via {
        let tasks = tasks.into_iter().zip(raw).map(|(task, raw)| (task, raw.get().as_bytes().to_vec())).collect();
        return by_kafka(&state, ids, tasks).await;
    }
    let taken = state.desk.take(tasks.into_iter().map(|task| (task, Source::Http)).collect()).await?;
    let items = items(&state, &ids, &taken).await?;
    let refused = taken.iter().enumerate().find_map(|(n, taken)| match taken {
        Taken::Refused(fault) => Some((n, fault)),
        Taken::Owned | Taken::Repeat | Taken::Full => None,
    });
    if let Some((n, fault)) = refused {
        return Err(
            faulty(StatusCode::CONFLICT, n, fault).with(json!({"index": n, "field": fault.field, "items": items}))
        );
    }
    if taken.contains(&Taken::Full) {
        let text = "too much waits already (store.lane_depth of a chat, or store.max_waiting); the same call again later goes on with what is not taken";
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "full", text).with(json!({"items": items})));
    }
    Ok((StatusCode::ACCEPTED, Json(items)))
}

/// What a call holds, not looked at yet.
struct Call<'b> {
    /// By which way, where it is not straight into the lanes.
    via: Option<Via>,
    tasks: Vec<&'b RawValue>,
}

/// Another way for tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Via {
    /// Into the topic, all of them or none; whichever gateway reads them hands them on.
    Kafka,
}

/// The form of a call that says by which way.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'b> {
    via: Via,
    #[serde(borrow)]
    tasks: Vec<&'b RawValue>,
}

/// Whether an object is a [`Batch`].
#[derive(Deserialize)]
struct HasVia {
    #[serde(default)]
    via: Option<IgnoredAny>,
}

fn call(body: &[u8]) -> Result<Call<'_>, Failure> {
    let bad = |text: String| Failure::new(StatusCode::BAD_REQUEST, "bad_body", text);
    let no_json = |error: serde_json::Error| bad(format!("no JSON: {error}; write a task, or an array of tasks"));
    let call = if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        Call { via: None, tasks: serde_json::from_slice(body).map_err(no_json)? }
    } else if serde_json::from_slice::<HasVia>(body).map_err(no_json)?.via.is_some() {
        let form = "write {\"via\": \"kafka\", \"tasks\": […]}";
        let Batch { via, tasks } = serde_json::from_slice(body).map_err(|error| bad(format!("{error}; {form}")))?;
        Call { via: Some(via), tasks }
    } else {
        Call { via: None, tasks: vec![serde_json::from_slice(body).map_err(no_json)?] }
    };
    if call.tasks.is_empty() || call.tasks.len() > MOST_TASKS {
        return Err(bad(format!("{} tasks: hand over 1 to {MOST_TASKS} in one call", call.tasks.len())));
    }
    Ok(call)
}

/// The tasks of a call, each without a fault.
fn read(state: &AdminState, raw: &[&RawValue]) -> Result<Vec<Task>, Failure> {
    let (mut tasks, mut faults) = (Vec::with_capacity(raw.len()), Vec::new());
    for (n, raw) in raw.iter().enumerate() {
        match state.desk.read(raw.get().as_bytes()) {
            Ok(task) => tasks.push(task),
            Err(fault) => faults.push((n, fault)),
        }
    }
    let Some((n, first)) = faults.first() else { return Ok(tasks) };
    faults.iter().for_each(|_| state.metrics.task("http", "faulty"));
    let all: Vec<Value> =
        faults.iter().map(|(n, fault)| json!({"index": n, "field": fault.field, "message": fault.message})).collect();
    Err(faulty(StatusCode::BAD_REQUEST, *n, first).with(json!({"index": n, "field": first.field, "faults": all})))
}

/// Writes tasks to the topic, in one transaction.
async fn by_kafka(
    state: &AdminState,
    ids: Vec<String>,
    tasks: Vec<(Task, Vec<u8>)>,
) -> Result<(StatusCode, Json<Vec<Value>>), Failure> {
    let Some(kafka) = &state.kafka else {
        let text = "this gateway has no Kafka: add [kafka] to gateway.toml, or leave \"via\" out";
        return Err(Failure::new(StatusCode::BAD_REQUEST, "no_kafka", text));
    };
    kafka.hand_over(tasks).await?;
    let item = |id| json!({"task_id": id, "state": Outcome::Queued.as_str(), "via": "kafka"});
    Ok((StatusCode::ACCEPTED, Json(ids.into_iter().map(item).collect())))
}

impl From<HandOverError> for Failure {
    fn from(error: HandOverError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "kafka_unavailable", error.to_string())
    }
}

fn faulty(status: StatusCode, index: usize, fault: &TaskFault) -> Failure {
    Failure::new(status, fault.kind.as_str(), format!("task {index}: {fault}"))
}

/// How each task of a call stands now.
async fn items(state: &AdminState, ids: &[String], taken: &[Taken]) -> Result<Vec<Value>, StoreError> {
    let item = async |(id, taken): (&String, &Taken)| {
        let repeat = match taken {
            Taken::Owned => false,
            Taken::Repeat => true,
            Taken::Full => return Ok(json!({"task_id": id, "state": "not_taken"})),
            Taken::Refused(TaskFault { field, message, .. }) => {
                return Ok(json!({"task_id": id, "state": "refused", "field": field, "message": message}));
            }
        };
        let task = state.store.pushes().task(id).await?;
        let stands = task.as_ref().map_or(Outcome::Queued, whole).as_str();
        Ok(json!({"task_id": id, "state": stands, "repeat": repeat, "counts": task.as_ref().map(counts)}))
    };
    stream::iter(ids.iter().zip(taken)).map(item).buffered(AT_ONCE).try_collect().await
}

/// Which deliveries of a task, and how much of them.
// Not flattened: serde would hand `limit` over as a text then.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    state: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A task as it stands, with a page of its deliveries.
pub(super) async fn get(
    State(state): State<AdminState>,
    id: Result<Path<String>, PathRejection>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Value>, Failure> {
    let (Path(id), Query(Which { state: wanted, limit, cursor })) = (id?, which?);
    let part = Part { limit, cursor };
    let task = known(&state, &id).await?;
    let from: usize = part.from().map_or(Ok(0), |cursor| cursor.place())?;
    let shown = task.children.iter().enumerate().skip(from);
    let shown = shown.filter(|(_, child)| wanted.as_ref().is_none_or(|word| child.state.state.as_str() == word));
    let some: Vec<(usize, &Child)> = shown.take(part.limit() as usize + 1).collect();
    let page = Page::cut(some, part.limit() as usize, |(n, _)| n + 1).map(|(_, child)| item(child));
    Ok(Json(json!({
        "task_id": id,
        "app": task.app,
        "state": whole(&task).as_str(),
        "total": task.total,
        "taken": task.cursor,
        "counts": counts(&task),
        "items": page.items,
        "next": page.next,
    })))
}

fn item(child: &Child) -> Value {
    let (_, chat) = child.lane.app_and_chat();
    let told = &child.state;
    json!({
        "id": current_id(child),
        "chat": chat,
        "state": told.state.as_str(),
        "reason": told.reason,
        "errcode": told.errcode,
        "msgid": told.msgid,
        "left_out": told.left_out,
        "at": rfc3339(child.at),
        "recipients": recipients(&told.recipients),
    })
}

/// What each recipient got, of a delivery of which WeCom tells that.
fn recipients(of: &[RecipientState]) -> Option<Vec<Value>> {
    let shown = |one: &RecipientState| {
        let (kind, id) = match &one.who {
            Who::Customer(id) => ("customer", id),
            Who::Chat(id) => ("chat", id),
        };
        json!({kind: id, "state": one.state.as_str(), "reason": one.reason, "at": one.at.map(rfc3339)})
    };
    (!of.is_empty()).then(|| of.iter().map(shown).collect())
}

async fn known(state: &AdminState, id: &str) -> Result<TaskStatus, Failure> {
    let text = "no push task of this id is known; tasks are known for [push] keep, their trails for [database] retain";
    let unknown = || Failure::new(StatusCode::NOT_FOUND, "unknown_task", text);
    state.store.pushes().task(id).await?.ok_or_else(unknown)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Word {
    arrived: bool,
    chat: Option<String>,
    delivery: Option<String>,
}

/// Takes a word on what is unknown of a task. The path is the task's id and `/confirm`.
pub(super) async fn confirm(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    path: Result<Path<String>, PathRejection>,
    body: Result<Json<Word>, JsonRejection>,
) -> Result<Json<Value>, Failure> {
    let Path(path) = path?;
    let id = path.strip_suffix(CONFIRM).ok_or_else(|| {
        Failure::new(StatusCode::NOT_FOUND, "not_found", "post to /api/v1/push/{task_id}/confirm, or to /api/v1/push")
    })?;
    let Json(Word { arrived, chat, delivery }) = body?;
    let task = known(&state, id).await?;
    let settled = push::confirm(&state.hands, id, &task, &Confirmation { arrived, chat, delivery }, &who.name).await?;
    info!(by = who.name, task_id = id, arrived, settled = settled.len(), "a push was confirmed from outside");
    let items: Vec<Value> = settled
        .iter()
        .map(|one| json!({"id": one.delivery, "state": one.done.state.as_str(), "resent_as": one.done.resent_as}))
        .collect();
    Ok(Json(json!({"task_id": id, "items": items})))
}

impl From<ConfirmError> for Failure {
    fn from(error: ConfirmError) -> Self {
        let (status, code) = match error {
            ConfirmError::Hand(error) => return error.into(),
            ConfirmError::NoSuchDelivery => (StatusCode::NOT_FOUND, "unknown_delivery"),
            ConfirmError::NotUnknown => (StatusCode::CONFLICT, "not_unknown"),
            ConfirmError::SentAgain => (StatusCode::CONFLICT, "sent_again"),
        };
        Self::new(status, code, error.to_string())
    }
}
