//! `/api/v1/messages/{id}` and `/api/v1/deliveries`: what became of messages and replies.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;

use super::{AdminState, Failure, Part};
use crate::model::Outcome;
use crate::records::{DeliveryItem, MessageItem, Page};

/// Without `state`: everything that did not end well.
const NOT_WELL: [Outcome; 3] = [Outcome::Unknown, Outcome::Dead, Outcome::Dropped];

/// The messages of an id; an empty list where it names none.
pub(super) async fn messages(
    State(state): State<AdminState>,
    id: Result<Path<String>, PathRejection>,
    part: Result<Query<Part>, QueryRejection>,
) -> Result<Json<Page<MessageItem>>, Failure> {
    let (Path(id), Query(part)) = (id?, part?);
    Ok(Json(state.records.messages_by_id(&id, part.from().as_ref(), part.limit()).await?))
}

/// Which deliveries, and how much of them.
// Not flattened: serde would hand `limit` over as a text then.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    state: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Deliveries that did not end well, newest first.
pub(super) async fn deliveries(
    State(state): State<AdminState>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Page<DeliveryItem>>, Failure> {
    let Query(Which { state: wanted, limit, cursor }) = which?;
    let part = Part { limit, cursor };
    let states = states(wanted.as_deref())?;
    Ok(Json(state.records.deliveries(&states, part.from().as_ref(), part.limit()).await?))
}

fn states(wanted: Option<&str>) -> Result<Vec<Outcome>, Failure> {
    let Some(word) = wanted else { return Ok(NOT_WELL.to_vec()) };
    let state = NOT_WELL.into_iter().find(|state| state.as_str() == word);
    let fault = || Failure::new(StatusCode::BAD_REQUEST, "bad_query", "state: write unknown, dead or dropped");
    state.map(|state| vec![state]).ok_or_else(fault)
}
