//! `GET /apps`: of each app what WeCom was told to call, what came of it lately, and how its API side is: the page that answers
//! why a URL check does not pass. And `POST /apps/{app}/retry`: a held app is tried at once.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use super::auth::Operator;
use super::{AdminState, Failure, unknown_app, whole_ms};
use crate::config::settings::{App, AppKind};
use crate::model::{MessageKey, new_id};
use crate::records::rfc3339;
use crate::sender::token_state;
use crate::store::{ChangeKind, Line, from_to};
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
pub(super) struct AppItem {
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
    /// When one send tries whether that is over; 0 where it is due, and null where nothing holds it.
    wake_in_ms: Option<u64>,
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
pub(super) struct CallbackItem {
    /// RFC 3339 with milliseconds.
    at: String,
    request_id: String,
    /// `stored`, `duplicate`, `verified`, …, or the error's code.
    result: &'static str,
    /// What a refused caller was told: the reason and the mend.
    refusal: Option<String>,
    /// What it was posted to, where that is no app's; what is long is cut.
    path: Option<String>,
}

impl From<Callback> for CallbackItem {
    fn from(Callback { at, request_id, result, refusal, path }: Callback) -> Self {
        Self { at: rfc3339(at), request_id, result, refusal, path }
    }
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

/// Has a held app tried at once
///
/// By one send of one of its chats, within some twenty seconds: they look that often. Where it gets through, all go on.
#[utoipa::path(
    post,
    path = "/apps/{app}/retry",
    operation_id = "retryApp",
    tag = "gateway",
    params(("app" = String, Path, description = "App id")),
    responses(
        (status = 200, description = "The app", body = AppItem),
        (status = 400, description = "`bad_path`"),
        (status = 404, description = "`unknown_app`"),
        (status = 409, description = "`not_held`: nothing holds it; a robot's chat is tried by `{\"held\": false}`"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn retry(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<AppItem>, Failure> {
    let Path(id) = path?;
    let settings = state.settings();
    let Some(app) = settings.apps.get(&id) else {
        return Err(unknown_app());
    };
    let Some(api) = app.api.as_ref().filter(|_| state.holds.reason(&id).is_some()) else {
        let text =
            "nothing holds this app; what holds a robot's chat is tried by PATCH /chats/{app}/{chat} {\"held\": false}";
        return Err(Failure::new(StatusCode::CONFLICT, "not_held", text));
    };
    let (of, told) = (MessageKey::new(&id, "", "", ""), json!({"held": from_to(true, false)}));
    state.store.note_change(Line::change(new_id(), ChangeKind::App, who.who(), of, told)).await?;
    state.holds.retry(&id, api).await?;
    info!(by = who.name, app = id, "an operator has a held app tried at once");
    item(&state, app).await.map(Json)
}

async fn item(state: &AdminState, app: &App) -> Result<AppItem, Failure> {
    let token = match &app.api {
        Some(api) => {
            let (left, refused) = token_state(&state.store, api).await?;
            let left_ms = left.map(whole_ms);
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
        wake_in_ms: state.holds.next_try(&app.id).map(whole_ms),
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
    state.recent.of(app).into_iter().map(CallbackItem::from).collect()
}
