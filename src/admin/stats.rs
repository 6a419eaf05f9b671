//! `/api/v1/stats?date=`: a day's statistics, in all, by rule and by chat.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::civil::Date;
use serde::Deserialize;

use super::{AdminState, Failure, Part};
use crate::records::{Scope, Stats};

/// Which day, and of what.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    date: Option<String>,
    app: Option<String>,
    chat: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A day's statistics; today's where none is named. The list is of chats.
pub(super) async fn day(
    State(state): State<AdminState>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Stats>, Failure> {
    let Query(Which { date, app, chat, limit, cursor }) = which?;
    let part = Part { limit, cursor };
    let day = match date.as_deref().filter(|date| !date.is_empty()) {
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
