//! `GET /apps`: of each app what WeCom was told to call, what came of it lately, and how its API side is: the page that answers
//! why a URL check does not pass.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminState, Failure};
use crate::config::settings::{App, AppKind};
use crate::records::rfc3339;
use crate::sender::token_state;
use crate::telemetry::Callback;

/// All apps.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AppList {
    items: Vec<AppItem>,
    /// Callbacks to apps that don't exist, newest first.
    strangers: Vec<CallbackItem>,
}

/// An app.
#[derive(Debug, Serialize, ToSchema)]
struct AppItem {
    id: String,
    /// `app`, `group_robot`, `aibot` or `json`
    kind: &'static str,
    /// Where its callbacks are taken, on the public listener.
    callback_path: String,
    /// How many chats its file names.
    chats: usize,
    /// Its access token; null where it uses no API.
    token: Option<TokenItem>,
    /// Why nothing is sent by its API.
    hold: Option<String>,
    /// The last callbacks that this process answered, newest first.
    recent: Vec<CallbackItem>,
}

/// An access token, without itself.
#[derive(Debug, Serialize, ToSchema)]
struct TokenItem {
    /// How long it is still good; null where there is none.
    left_ms: Option<u64>,
    /// Why WeCom gives none.
    refused: Option<String>,
}

/// A callback that was answered.
#[derive(Debug, Serialize, ToSchema)]
struct CallbackItem {
    /// RFC 3339 with milliseconds.
    at: String,
    request_id: String,
    /// `stored`, `duplicate`, `verified`, …, or the error's code.
    result: &'static str,
    /// What a refused caller was told: the reason and the mend.
    refusal: Option<String>,
}

/// All apps, by id
///
/// Of each: what WeCom was told to call, what came of it lately, and how its API side is.
#[utoipa::path(
    get,
    path = "/apps",
    operation_id = "listApps",
    tag = "gateway",
    responses(
        (status = 200, description = "The apps", body = AppList),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn list(State(state): State<AdminState>) -> Result<Json<AppList>, Failure> {
    let settings = state.settings();
    let mut items = Vec::with_capacity(settings.apps.len());
    for app in settings.apps.values() {
        items.push(item(&state, app).await?);
    }
    Ok(Json(AppList { items, strangers: recent(&state, "") }))
}

async fn item(state: &AdminState, app: &App) -> Result<AppItem, Failure> {
    let token = match &app.api {
        Some(api) => {
            let (left, refused) = token_state(&state.store, api).await?;
            let left_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            Some(TokenItem { left_ms, refused })
        }
        None => None,
    };
    Ok(AppItem {
        id: app.id.clone(),
        kind: kind(&app.kind),
        callback_path: format!("/callback/{}", app.id),
        chats: app.chats.len(),
        token,
        hold: state.holds.reason(&app.id),
        recent: recent(state, &app.id),
    })
}

fn kind(kind: &AppKind) -> &'static str {
    match kind {
        AppKind::App(_) => "app",
        AppKind::GroupRobot(_) => "group_robot",
        AppKind::Aibot(_) => "aibot",
        AppKind::Json(_) => "json",
    }
}

fn recent(state: &AdminState, app: &str) -> Vec<CallbackItem> {
    let item =
        |Callback { at, request_id, result, refusal }| CallbackItem { at: rfc3339(at), request_id, result, refusal };
    state.recent.of(app).into_iter().map(item).collect()
}
