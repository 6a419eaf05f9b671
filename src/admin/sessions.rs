//! `/api/v1/sessions/{app}/{chat}/{sender}`: the context that actions see. Forgetting it takes it out of the store and out
//! of the archive, and what was under way meanwhile does not bring it back.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value, json};
use tracing::info;

use super::{AdminState, Failure};
use crate::config::settings;
use crate::model::SessionKey;

/// How long the store knows that a session was forgotten: longer than any message is worked on, and than the journal
/// takes to say it to the archive.
const FORGOTTEN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

type Named = Result<Path<(String, String, String)>, PathRejection>;

/// Its turns and vars, and where they were found: `store`, `archive`, or nowhere (null).
pub(super) async fn get(State(state): State<AdminState>, named: Named) -> Result<Json<Value>, Failure> {
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
    let (turns, vars) = (session.turns, session.vars);
    Ok(Json(json!({"app": app, "chat": chat, "sender": sender, "found": found, "turns": turns, "vars": vars})))
}

/// Forgets it.
pub(super) async fn delete(State(state): State<AdminState>, named: Named) -> Result<StatusCode, Failure> {
    let Path((app, chat, sender)) = named?;
    let (bounds, key) = find(&state, &app, &chat, &sender)?;
    state.store.forget_session(&key, bounds.keep.max(FORGOTTEN_FOR)).await?;
    info!(%app, chat_id = %chat, sender_key = %sender, "a session was forgotten on demand");
    Ok(StatusCode::NO_CONTENT)
}

/// The app's bounds, and the session's name: in an app whose chats share theirs, every sender's is the chat's.
fn find(state: &AdminState, app: &str, chat: &str, sender: &str) -> Result<(settings::Session, SessionKey), Failure> {
    let missing = || Failure::new(StatusCode::NOT_FOUND, "unknown_app", "app: none of the configured ones");
    let bounds = state.settings().apps.get(app).ok_or_else(missing)?.session.clone();
    let key = bounds.key(app, chat, sender);
    Ok((bounds, key))
}
