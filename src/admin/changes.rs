//! `GET /api/v1/changes`: what operators changed, who did, and when.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{AdminState, Failure, Part};
use crate::records::{ChangeItem, Changes, Page};

/// Which changes, and how many of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// About this app alone.
    app: Option<String>,
    /// About the chats of this id alone.
    chat: Option<String>,
    /// About the members of this sender key alone.
    sender: Option<String>,
    /// By this token (or admin of a chat, by sender key) alone.
    by: Option<String>,
    /// Since then, such as `2026-11-29T08:00:00+08:00`.
    #[param(format = DateTime)]
    from: Option<String>,
    /// At most so many items.
    #[param(value_type = Option<i64>, minimum = 1, maximum = 1000, default = 100)]
    #[serde(default, deserialize_with = "super::some_items")]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// What operators changed, newest first
///
/// What is set of chats, what is known of members, sessions that were forgotten, deliveries that were ended by hand,
/// configurations that were taken.
#[utoipa::path(
    get,
    path = "/changes",
    operation_id = "listChanges",
    tag = "gateway",
    params(Which),
    responses(
        (status = 200, description = "A page of changes", body = Page<ChangeItem>),
        (status = 400, description = "`bad_query`, `bad_cursor`"),
        (status = 503, description = "`records_unavailable`")
    )
)]
pub(super) async fn list(
    State(state): State<AdminState>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Page<ChangeItem>>, Failure> {
    let Query(Which { app, chat, sender, by, from, limit, cursor }) = which?;
    let part = Part { limit, cursor };
    let from = from.as_deref().map(moment).transpose()?;
    let of = Changes { app, chat, sender, by, from };
    Ok(Json(state.records.changes(&of, part.from().as_ref(), part.limit()).await?))
}

/// Unix ms of a moment.
fn moment(text: &str) -> Result<i64, Failure> {
    let fault = || {
        let text = "from: write a time and its offset, such as 2026-11-29T08:00:00+08:00 (`+` in a URL is `%2B`)";
        Failure::new(StatusCode::BAD_REQUEST, "bad_query", text)
    };
    text.parse().map(|at: Timestamp| at.as_millisecond()).map_err(|_| fault())
}
