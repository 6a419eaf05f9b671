//! `/api/v1/stats?date=`: a day's statistics, in all, by rule and by chat.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::civil::Date;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{AdminState, Failure, Part};
use crate::records::{Scope, Stats};

/// Which day, and of what.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// A day of the records' zone, such as `2026-11-29`; today where none is named.
    #[param(format = Date)]
    date: Option<String>,
    /// Of this app alone.
    app: Option<String>,
    /// Of the chats of this id alone.
    chat: Option<String>,
    /// At most so many items.
    #[param(value_type = Option<i64>, minimum = 1, maximum = 1000, default = 100)]
    #[serde(default, deserialize_with = "super::some_items")]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// A day's statistics
///
/// In all, by rule and by chat; the list that comes in pages is of chats.
#[utoipa::path(
    get,
    path = "/stats",
    operation_id = "getStats",
    tag = "gateway",
    params(Which),
    responses(
        (status = 200, description = "The day", body = Stats),
        (status = 400, description = "`bad_query`, `bad_cursor`"),
        (status = 503, description = "`records_unavailable`")
    )
)]
pub(super) async fn day(
    State(state): State<AdminState>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Stats>, Failure> {
    let Query(Which { date, app, chat, limit, cursor }) = which?;
    let part = Part { limit, cursor };
    let day = match date.as_deref() {
        Some(date) => read(date)?,
        None => state.records.zone().today(),
    };
    let mut stats = state.records.stats(&Scope { day, app, chat }, part.from().as_ref(), part.limit()).await?;
    let settings = state.settings();
    for item in &mut stats.chats.items {
        let chat = settings.apps.get(&item.app).and_then(|app| app.chats.get(&item.chat));
        item.name = chat.and_then(|chat| chat.name.clone());
    }
    Ok(Json(stats))
}

/// `2026-11-29`, and nothing behind it.
fn read(date: &str) -> Result<Date, Failure> {
    let fault = || Failure::new(StatusCode::BAD_REQUEST, "bad_query", "date: write a day, such as 2026-11-29");
    date.parse().ok().filter(|day: &Date| day.to_string() == date).ok_or_else(fault)
}
