//! `/api/v1/messages/{id}` and `/api/v1/deliveries`: what became of messages and replies.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};

use super::apps::CallbackItem;
use super::{AdminState, Failure, Part};
use crate::model::Outcome;
use crate::records::{DeliveryItem, MessageItem, Page};

/// Without `state`: everything that did not end well.
const NOT_WELL: [Outcome; 3] = [Outcome::Unknown, Outcome::Dead, Outcome::Dropped];

/// The messages that an id names.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Found {
    #[serde(flatten)]
    page: Page<MessageItem>,
    /// Where the id is that of a callback which this process refused a little while ago: it left no trail.
    refused: Option<CallbackItem>,
}

/// The messages of an id
///
/// A msg_id, request id, delivery id or task id; an empty list where it names none. An item for each triple of chat, message and
/// sender, newest first. A refused callback is no message and leaves no trail; of the last ones that this process refused it says why.
#[utoipa::path(
    get,
    path = "/messages/{*id}",
    operation_id = "findMessages",
    tag = "messages",
    params(("id" = String, Path, description = "A msg_id, request id, delivery id or task id"), Part),
    responses(
        (status = 200, description = "A page of messages, each with its whole way", body = Found),
        (status = 400, description = "`bad_path`, `bad_query`, `bad_cursor`"),
        (status = 503, description = "`records_unavailable`")
    )
)]
pub(super) async fn messages(
    State(state): State<AdminState>,
    id: Result<Path<String>, PathRejection>,
    part: Result<Query<Part>, QueryRejection>,
) -> Result<Json<Found>, Failure> {
    let (Path(id), Query(part)) = (id?, part?);
    let page = state.records.messages_by_id(&id, part.from().as_ref(), part.limit()).await?;
    Ok(Json(Found { page, refused: state.recent.refused(&id).map(CallbackItem::from) }))
}

/// Which deliveries, and how much of them.
// Not flattened: serde would hand `limit` over as a text then.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    #[param(schema_with = not_well)]
    state: Option<String>,
    /// At most so many items.
    #[param(value_type = Option<i64>, minimum = 1, maximum = 1000, default = 100)]
    #[serde(default, deserialize_with = "super::some_items")]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// Deliveries that did not end well, newest first
///
/// But for those that an operator discarded.
#[utoipa::path(
    get,
    path = "/deliveries",
    operation_id = "listDeliveries",
    tag = "messages",
    params(Which),
    responses(
        (status = 200, description = "A page of deliveries", body = Page<DeliveryItem>),
        (status = 400, description = "`bad_query`, `bad_cursor`"),
        (status = 503, description = "`records_unavailable`")
    )
)]
pub(super) async fn deliveries(
    State(state): State<AdminState>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Page<DeliveryItem>>, Failure> {
    let Query(Which { state: wanted, limit, cursor }) = which?;
    let part = Part { limit, cursor };
    let states = states(wanted.as_deref())?;
    let page = state.records.deliveries(&states, part.from().as_ref(), part.limit()).await?;
    let first = state.settings().push.compensate_after;
    let shown = |ended| DeliveryItem { resendable: state.hands.may_send_again(&ended), ..ended.listed(first) };
    Ok(Json(page.map(shown)))
}

/// The schema of a state that is no good end.
fn not_well() -> ObjectBuilder {
    let words = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(NOT_WELL.map(Outcome::as_str)));
    words.description(Some("Those in this state alone."))
}

fn states(wanted: Option<&str>) -> Result<Vec<Outcome>, Failure> {
    let Some(word) = wanted else { return Ok(NOT_WELL.to_vec()) };
    let state = NOT_WELL.into_iter().find(|state| state.as_str() == word);
    let fault = || Failure::new(StatusCode::BAD_REQUEST, "bad_query", "state: write unknown, dead or dropped");
    state.map(|state| vec![state]).ok_or_else(fault)
}
