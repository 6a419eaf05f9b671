//! `/api/v1/sessions/{app}/{chat}/{sender}`: the context that actions see. Forgetting it takes it out of the store and out
//! of the archive, and what was under way meanwhile does not bring it back.

use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::info;
use utoipa::ToSchema;

use super::auth::Operator;
use super::{AdminState, Failure, unknown_app};
use crate::config::settings;
use crate::model::{SessionKey, SessionTurn, new_id};
use crate::store::{ChangeKind, Line};

/// How long the store knows that a session was forgotten: longer than any message is worked on, and than the journal
/// takes to say it to the archive.
const FORGOTTEN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

type Named = Result<Path<(String, String, String)>, PathRejection>;

/// What is remembered of a member in a chat, or of a chat that shares it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionItem {
    app: String,
    chat: String,
    sender: String,
    /// Where it was found: `store` or `archive`; null where there is none.
    found: Option<&'static str>,
    /// The last turns, oldest first.
    turns: Vec<SessionTurn>,
    /// What actions set.
    #[schema(value_type = Object)]
    vars: Map<String, Value>,
}

/// The context that actions see
#[utoipa::path(
    get,
    path = "/sessions/{app}/{chat}/{sender}",
    operation_id = "getSession",
    tag = "members",
    params(
        ("app" = String, Path, description = "App id"),
        ("chat" = String, Path, description = "Chat id"),
        ("sender" = String, Path, description = "Sender key")
    ),
    responses(
        (status = 200, description = "Its turns and vars; empty where there are none", body = SessionItem),
        (status = 400, description = "`bad_path`"),
        (status = 404, description = "`unknown_app`"),
        (status = 503, description = "`store_unavailable`, `records_unavailable`")
    )
)]
pub(super) async fn get(State(state): State<AdminState>, named: Named) -> Result<Json<SessionItem>, Failure> {
    let Path((app, chat, sender)) = named?;
    let (bounds, key) = find(&state, &app, &chat, &sender)?;
    let remembered = state.store.session(&key).await?;
    let (session, found) = match remembered.found {
        true => (remembered.session, Some("store")),
        false => {
            let archived = state.records.archived(&key, remembered.forgotten, bounds.turns).await?;
            let found = archived.is_some().then_some("archive");
            (archived.unwrap_or_default(), found)
        }
    };
    Ok(Json(SessionItem { app, chat, sender, found, turns: session.turns, vars: session.vars }))
}

/// Forgets it
///
/// In the store and in the archive; what is under way meanwhile does not bring it back, nor where there was nothing to forget: that is a
/// 404, so the same again is one too.
#[utoipa::path(
    delete,
    path = "/sessions/{app}/{chat}/{sender}",
    operation_id = "forgetSession",
    tag = "members",
    params(
        ("app" = String, Path, description = "App id"),
        ("chat" = String, Path, description = "Chat id"),
        ("sender" = String, Path, description = "Sender key")
    ),
    responses(
        (status = 204, description = "It is forgotten"),
        (status = 400, description = "`bad_path`"),
        (status = 404, description = "`unknown_app`; `unknown_session`: there is none, or none any more"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn delete(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    named: Named,
) -> Result<StatusCode, Failure> {
    let Path((app, chat, sender)) = named?;
    let (bounds, key) = find(&state, &app, &chat, &sender)?;
    let is_there = is_there(&state, &key).await?;
    // A session that a chat shares is of no sender. That there was nothing to forget is no change, but it is forgotten all the same:
    // a line of it may be on its way to the archive.
    let change = || Line::change(new_id(), ChangeKind::SessionForgotten, who.who(), key.line_key(""), json!({}));
    let change = is_there.then(change);
    state.store.forget_session(&key, bounds.keep.max(FORGOTTEN_FOR), change).await?;
    info!(by = who.name, %app, chat_id = %chat, sender_key = %sender, is_there, "a session was forgotten on demand");
    if is_there {
        return Ok(StatusCode::NO_CONTENT);
    }
    let text = "nothing is remembered of this member in this chat; if there was a session, it is forgotten by now";
    Err(Failure::new(StatusCode::NOT_FOUND, "unknown_session", text))
}

/// Whether anything is remembered. With the archive away it is taken to be: that is no reason not to forget.
async fn is_there(state: &AdminState, key: &SessionKey) -> Result<bool, Failure> {
    let remembered = state.store.session(key).await?;
    if remembered.found {
        return Ok(true);
    }
    Ok(state.records.archived(key, remembered.forgotten, 1).await.map_or(true, |archived| archived.is_some()))
}

/// The app's bounds, and the session's name: in an app whose chats share theirs, every sender's is the chat's.
fn find(state: &AdminState, app: &str, chat: &str, sender: &str) -> Result<(settings::Session, SessionKey), Failure> {
    let bounds = state.settings().apps.get(app).ok_or_else(unknown_app)?.session.clone();
    let key = bounds.key(app, chat, sender);
    Ok((bounds, key))
}
