//! `/api/v1/push/{task_id}`: how a push task stands, and what producers know of it from outside.

use std::collections::BTreeMap;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use tracing::info;
use utoipa::{IntoParams, ToSchema};

use super::auth::Operator;
use super::{AdminState, Failure, Part};
use crate::hands::Done;
use crate::model::Outcome;
use crate::push::status::{RecipientItem, counts, current_id, recipients, whole};
use crate::push::{self, ConfirmError, Confirmation, Settled};
use crate::records::{Page, rfc3339};
use crate::store::{Child, TaskStatus};

/// What the path of a confirmation ends with.
const CONFIRM: &str = "/confirm";

/// Which deliveries of a task, and how much of them.
// Not flattened: serde would hand `limit` over as a text then.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Those in this state alone.
    #[param(value_type = Option<Outcome>)]
    state: Option<String>,
    /// At most so many items.
    #[param(value_type = Option<i64>, minimum = 1, maximum = 1000, default = 100)]
    #[serde(default, deserialize_with = "super::some_items")]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// A task as it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushedTask {
    task_id: String,
    app: String,
    /// `queued` until all its deliveries ended; the worst of them then.
    state: Outcome,
    /// How many deliveries it has.
    total: u64,
    /// How many of them are in their lanes, or ended.
    taken: u64,
    /// How many deliveries are in which state.
    counts: BTreeMap<&'static str, usize>,
    #[serde(flatten)]
    deliveries: Page<PushedDelivery>,
}

/// A delivery of a task.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushedDelivery {
    /// What it is called now.
    id: String,
    /// Its chat, or what stands for a set of members or customers.
    chat: String,
    state: Outcome,
    /// Why, where there is something to say.
    reason: Option<String>,
    /// WeCom's, where it gave one.
    errcode: Option<i64>,
    /// WeCom's name of the message.
    msgid: Option<String>,
    /// Who is left out by WeCom, in its words.
    left_out: Option<String>,
    /// Since when, RFC 3339 with milliseconds.
    at: String,
    /// What each of its customers or groups got; null where WeCom does not tell that.
    recipients: Option<Vec<RecipientItem>>,
}

/// A task as it stands, with a page of its deliveries
#[utoipa::path(
    get,
    path = "/push/{*task_id}",
    operation_id = "getTask",
    tag = "pushes",
    params(("task_id" = String, Path, description = "Task id"), Which),
    responses(
        (status = 200, description = "The task", body = PushedTask),
        (status = 400, description = "`bad_path`, `bad_query`, `bad_cursor`"),
        (status = 404, description = "`unknown_task`: tasks are known for `[push] keep`"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn get(
    State(state): State<AdminState>,
    id: Result<Path<String>, PathRejection>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<PushedTask>, Failure> {
    let (Path(id), Query(Which { state: wanted, limit, cursor })) = (id?, which?);
    let part = Part { limit, cursor };
    let task = known(&state, &id).await?;
    let from: usize = part.from().map_or(Ok(0), |cursor| cursor.place())?;
    let shown = task.children.iter().enumerate().skip(from);
    let shown = shown.filter(|(_, child)| wanted.as_ref().is_none_or(|word| child.state.state.as_str() == word));
    let some: Vec<(usize, &Child)> = shown.take(part.limit() as usize + 1).collect();
    let deliveries = Page::cut(some, part.limit() as usize, |(n, _)| n + 1).map(|(_, child)| item(child));
    let (state, counts) = (whole(&task), counts(&task));
    Ok(Json(PushedTask {
        task_id: id,
        app: task.app,
        state,
        total: task.total,
        taken: task.cursor,
        counts,
        deliveries,
    }))
}

fn item(child: &Child) -> PushedDelivery {
    let (_, chat) = child.lane.app_and_chat();
    let told = child.state.clone();
    PushedDelivery {
        id: current_id(child).to_owned(),
        chat,
        state: told.state,
        reason: told.reason,
        errcode: told.errcode,
        msgid: told.msgid,
        left_out: told.left_out,
        at: rfc3339(child.at),
        recipients: recipients(told.recipients),
    }
}

async fn known(state: &AdminState, id: &str) -> Result<TaskStatus, Failure> {
    let text = "no push task of this id is known; tasks are known for [push] keep, their trails for [database] retain";
    let unknown = || Failure::new(StatusCode::NOT_FOUND, "unknown_task", text);
    state.store.pushes().task(id).await?.ok_or_else(unknown)
}

/// A word from outside.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Word {
    /// Whether it arrived.
    arrived: bool,
    /// Of this chat's deliveries alone.
    chat: Option<String>,
    /// Of this delivery alone.
    delivery: Option<String>,
}

/// What a word did.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Confirmed {
    task_id: String,
    /// The deliveries that it settled; none where they were settled before.
    items: Vec<SettledItem>,
}

/// A delivery that is settled by a word.
#[derive(Debug, Serialize, ToSchema)]
struct SettledItem {
    id: String,
    /// The state that it, or the one in its place, is in now.
    state: Outcome,
    /// What the one in its place is called.
    resent_as: Option<String>,
}

/// Takes a word on what is unknown of a task
///
/// What has arrived is `delivered`; what has not is sent once more.
#[utoipa::path(
    post,
    path = "/push/{*task_id}",
    operation_id = "confirmTask",
    tag = "pushes",
    params(("task_id" = String, Path, description = "Task id")),
    request_body = Word,
    responses(
        (status = 200, description = "What it did", body = Confirmed),
        (status = 400, description = "`bad_body`, `bad_path`"),
        (status = 404, description = "`unknown_task`, `unknown_delivery`"),
        (status = 409, description = "`not_unknown`, `sent_again`; it can't be sent again: `not_kept`, `unknown_app`, `expired` (of customers: WeCom may let the member send it still)"),
        (status = 413, description = "`bad_body`: too large"),
        (status = 415, description = "`bad_body`: not sent as JSON"),
        (status = 503, description = "`lane_full`, `store_unavailable`, `records_unavailable`")
    ),
    extensions(("x-below" = json!(CONFIRM)))
)]
pub(super) async fn confirm(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    path: Result<Path<String>, PathRejection>,
    body: Result<Json<Word>, JsonRejection>,
) -> Result<Json<Confirmed>, Failure> {
    let Path(path) = path?;
    let id = path.strip_suffix(CONFIRM).ok_or_else(|| {
        Failure::new(StatusCode::NOT_FOUND, "not_found", "post to /api/v1/push/{task_id}/confirm, or to /api/v1/push")
    })?;
    let Json(Word { arrived, chat, delivery }) = body?;
    let task = known(&state, id).await?;
    let settled = push::confirm(&state.hands, id, &task, &Confirmation { arrived, chat, delivery }, &who.name).await?;
    info!(by = who.name, task_id = id, arrived, settled = settled.len(), "a push was confirmed from outside");
    let item =
        |Settled { delivery, done: Done { state, resent_as, .. } }| SettledItem { id: delivery, state, resent_as };
    Ok(Json(Confirmed { task_id: id.to_owned(), items: settled.into_iter().map(item).collect() }))
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
