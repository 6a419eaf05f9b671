//! `POST /api/v1/push`: push tasks handed over. How they stand afterwards: [`super::pushed`].
//!
//! A call is all or nothing as far as faults go: one faulty task, and none of the call is taken (400). What was taken is
//! told for each task, also where the call as a whole came to 409 or 503; the same call again is no second send.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::{Extension, Json};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::info;
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::auth::Operator;
use super::{AdminState, Failure};
use crate::model::Outcome;
use crate::push::status::{counts, whole};
use crate::push::{FaultKind, HandOverError, Source, Taken, Task, TaskFault};
use crate::store::StoreError;
use crate::telemetry::trace_of;

/// Tasks of one call.
const MOST_TASKS: usize = 1000;
/// Bytes of one call.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// Tasks whose state is asked for at once.
const AT_ONCE: usize = 16;

/// What became of one task of a call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum TaskItem {
    /// It is known here.
    Known {
        task_id: String,
        /// `queued` until all its deliveries ended; the worst of them then.
        state: Outcome,
        /// Whether it was known before: then nothing was sent for this call.
        repeat: bool,
        /// How many deliveries are in which state.
        counts: Option<BTreeMap<&'static str, usize>>,
    },
    /// It is in the topic; whichever gateway reads it there hands it on.
    Written {
        task_id: String,
        /// `queued`
        state: Outcome,
        /// `kafka`
        via: &'static str,
    },
    /// There was no room for it.
    NotTaken {
        task_id: String,
        /// `not_taken`
        #[schema(pattern = "^not_taken$")]
        state: &'static str,
    },
    /// Another task is known under its id.
    Refused {
        task_id: String,
        /// `refused`
        #[schema(pattern = "^refused$")]
        state: &'static str,
        field: String,
        message: String,
    },
}

/// Takes one task, or an array of them
///
/// With a fault in one, none of the call is taken. The same `task_id` again is no second send. `{"via": "kafka", "tasks": […]}` puts them
/// into the topic instead, all of them or none.
#[utoipa::path(
    post,
    path = "/push",
    operation_id = "push",
    tag = "pushes",
    request_body(content = Posted, description = "A task, 1 to 1000 of them, or a batch by Kafka; at most 16 MiB"),
    responses(
        (status = 202, description = "How each task stands", body = Vec<TaskItem>),
        (status = 400, description = "`bad_task`, with `index`, `field` and all `faults`; `bad_body`; `no_kafka`"),
        (status = 409, description = "`task_conflict`: another task is known under this id; `items` says how each task stands"),
        (status = 413, description = "`bad_body`: too large"),
        (status = 415, description = "`bad_body`: not sent as JSON"),
        (status = 503, description = "`full`: `items` says which tasks are taken, the same call goes on with the others; `store_unavailable`, `kafka_unavailable`")
    )
)]
pub(super) async fn post(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Vec<TaskItem>>), Failure> {
    if !is_json(&headers) {
        let text = "send `Content-Type: application/json`";
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_body", text));
    }
    let body = body.map_err(|rejection| {
        let text = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                "the body has more than 16 MiB: hand the tasks over in several calls".to_owned()
            }
            _ => rejection.body_text(),
        };
        Failure::new(rejection.status(), "bad_body", text)
    })?;
    let Call { via, tasks: raw } = call(&body)?;
    let mut tasks = read(&state, &raw)?;
    let trace = trace_of(&headers);
    tasks.iter_mut().for_each(|task| task.trace = trace);
    let ids: Vec<String> = tasks.iter().map(|task| task.id.clone()).collect();
    if let Some(Via::Kafka) = via {
        let tasks = tasks.into_iter().zip(raw).map(|(task, raw)| (task, raw.get().as_bytes().to_vec())).collect();
        return by_kafka(&state, &who, ids, tasks).await;
    }
    let source = || Source::Http { by: who.name.clone() };
    let taken = state.desk.take(tasks.into_iter().map(|task| (task, source())).collect()).await?;
    let new = taken.iter().filter(|taken| **taken == Taken::Owned).count();
    info!(by = who.name, tasks = ids.len(), new, "push tasks were handed over");
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

/// Whether a body is said to be JSON, as everywhere in the API: a form of a web page can't say so.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
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

/// Whether an object is a [`Batch`], or meant to be one.
#[derive(Deserialize)]
struct Looks {
    #[serde(default)]
    via: Option<IgnoredAny>,
    #[serde(default)]
    tasks: Option<IgnoredAny>,
}

/// The schema of a call: [`call`] looks at it only as far as it must.
pub(super) struct Posted;

impl PartialSchema for Posted {
    fn schema() -> RefOr<Schema> {
        let task = || Ref::from_schema_name(Task::name());
        let tasks = || ArrayBuilder::new().items(task()).min_items(Some(1)).max_items(Some(MOST_TASKS));
        let batch = ObjectBuilder::new()
            .property("via", ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["kafka"])))
            .property("tasks", tasks())
            .required("via")
            .required("tasks")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        OneOfBuilder::new().item(task()).item(tasks()).item(batch).into()
    }
}

impl ToSchema for Posted {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Task::name().into(), Task::schema()));
    }
}

fn call(body: &[u8]) -> Result<Call<'_>, Failure> {
    let bad = |text: String| Failure::new(StatusCode::BAD_REQUEST, "bad_body", text);
    let no_json = |error: serde_json::Error| bad(format!("no JSON: {error}; write a task, or an array of tasks"));
    let form = "write {\"via\": \"kafka\", \"tasks\": […]}";
    let call = match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Call { via: None, tasks: serde_json::from_slice(body).map_err(no_json)? },
        Some(b'{') => match serde_json::from_slice::<Looks>(body).map_err(no_json)? {
            Looks { via: Some(_), .. } => {
                let batch = serde_json::from_slice(body).map_err(|error| bad(format!("{error}; {form}")))?;
                let Batch { via, tasks } = batch;
                Call { via: Some(via), tasks }
            }
            Looks { via: None, tasks: Some(_) } => {
                return Err(bad(format!("\"via\" is missing beside \"tasks\": {form}, or the array alone")));
            }
            Looks { via: None, tasks: None } => {
                Call { via: None, tasks: vec![serde_json::from_slice(body).map_err(no_json)?] }
            }
        },
        _ => {
            serde_json::from_slice::<IgnoredAny>(body).map_err(no_json)?;
            return Err(bad("the body is JSON, but no task: write a task {…}, or an array of tasks […]".into()));
        }
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
    if faults.is_empty() {
        return Ok(tasks);
    }
    faults.iter().for_each(|_| state.metrics.task("http", "faulty"));
    Err(refused(&faults))
}

/// A call of which nothing is taken, for these faults, each with the place of its task; at least one.
fn refused(faults: &[(usize, TaskFault)]) -> Failure {
    let all: Vec<Value> =
        faults.iter().map(|(n, fault)| json!({"index": n, "field": fault.field, "message": fault.message})).collect();
    let (n, first) = &faults[0];
    faulty(StatusCode::BAD_REQUEST, *n, first).with(json!({"index": n, "field": first.field, "faults": all}))
}

/// Writes tasks to the topic, in one transaction.
async fn by_kafka(
    state: &AdminState,
    who: &Operator,
    ids: Vec<String>,
    tasks: Vec<(Task, Vec<u8>)>,
) -> Result<(StatusCode, Json<Vec<TaskItem>>), Failure> {
    let Some(kafka) = &state.kafka else {
        let text = "this gateway has no Kafka: add [kafka] to gateway.toml, or leave \"via\" out";
        return Err(Failure::new(StatusCode::BAD_REQUEST, "no_kafka", text));
    };
    kafka.hand_over(tasks).await?;
    // The topic names nobody: this line is all that does.
    info!(by = who.name, tasks = ids.len(), first = ids.first(), "push tasks were written to the topic");
    let item = |task_id| TaskItem::Written { task_id, state: Outcome::Queued, via: "kafka" };
    Ok((StatusCode::ACCEPTED, Json(ids.into_iter().map(item).collect())))
}

impl From<HandOverError> for Failure {
    fn from(error: HandOverError) -> Self {
        match &error {
            HandOverError::TooLarge(which) => {
                let message = error.to_string();
                let fault = |n: &usize| {
                    let fault =
                        TaskFault { kind: FaultKind::Malformed, field: String::new(), message: message.clone() };
                    (*n, fault)
                };
                refused(&which.iter().map(fault).collect::<Vec<_>>())
            }
            HandOverError::NotTaken(_) | HandOverError::Unknown(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "kafka_unavailable", error.to_string())
            }
        }
    }
}

fn faulty(status: StatusCode, index: usize, fault: &TaskFault) -> Failure {
    Failure::new(status, fault.kind.as_str(), format!("task {index}: {fault}"))
}

/// How each task of a call stands now.
async fn items(state: &AdminState, ids: &[String], taken: &[Taken]) -> Result<Vec<TaskItem>, StoreError> {
    let item = async |(id, taken): (&String, &Taken)| {
        let task_id = id.clone();
        let repeat = match taken {
            Taken::Owned => false,
            Taken::Repeat => true,
            Taken::Full => return Ok(TaskItem::NotTaken { task_id, state: "not_taken" }),
            Taken::Refused(TaskFault { field, message, .. }) => {
                let (field, message) = (field.clone(), message.clone());
                return Ok(TaskItem::Refused { task_id, state: "refused", field, message });
            }
        };
        let task = state.store.pushes().task(id).await?;
        let stands = task.as_ref().map_or(Outcome::Queued, whole);
        Ok(TaskItem::Known { task_id, state: stands, repeat, counts: task.as_ref().map(counts) })
    };
    stream::iter(ids.iter().zip(taken)).map(item).buffered(AT_ONCE).try_collect().await
}
