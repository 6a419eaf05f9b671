//! `/api/v1/chats`: what each chat's out-lane holds, and why it waits.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminState, Failure, Part, whole_ms};
use crate::config::settings::{App, AppKind};
use crate::model::{Lane, now_ms};
use crate::records::Page;
use crate::store::{ChatStatus, ParkReason};

/// Most chats without an entry in the configuration that a list shows.
const MOST_BUSY: usize = 10_000;

/// What a chat does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChatState {
    /// Sends when it has something.
    Active,
    /// Waits for its robot's window.
    Paced,
    /// Waits after a failure, or because a fault of its configuration holds it or its whole app.
    BackingOff,
    /// An operator paused it.
    Paused,
    /// Sends nothing by its route any more.
    Dead,
}

/// A chat as operators see it.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct ChatItem {
    app: String,
    chat: String,
    name: Option<String>,
    /// Deliveries waiting.
    depth: u64,
    /// How long the message behind the oldest of them waits.
    oldest_wait_ms: Option<i64>,
    /// `pace`, `back_off`, `hold`, `pause`, `answer` (of a request under way) or `turn`; null where nothing waits.
    waits_for: Option<&'static str>,
    /// When a parked lane goes on by itself, or one send of a held app tries; null for a paused one, which waits for an operator.
    wake_in_ms: Option<u64>,
    weight: u32,
    state: ChatState,
    /// Whether its members are not answered.
    muted: bool,
    last_error: Option<String>,
    /// What holds it up, by itself or with its whole app: WeCom's errcode and words.
    hold: Option<String>,
}

/// Configured chats, and those that hold something or of which something was set
///
/// Sorted by app and chat.
#[utoipa::path(
    get,
    path = "/chats",
    operation_id = "listChats",
    tag = "chats",
    params(Part),
    responses(
        (status = 200, description = "A page of chats", body = Page<ChatItem>),
        (status = 400, description = "`bad_query`, `bad_cursor`"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn list(
    State(state): State<AdminState>,
    part: Result<Query<Part>, QueryRejection>,
) -> Result<Json<Page<ChatItem>>, Failure> {
    let Query(part) = part?;
    let after: Option<(String, String)> = part.from().map(|cursor| cursor.place()).transpose()?;
    let mut known = configured(&state);
    known.extend(state.store.busy_chats(MOST_BUSY).await?.iter().map(Lane::app_and_chat));
    let limit = part.limit() as usize;
    let some = known.into_iter().filter(|chat| after.as_ref().is_none_or(|after| chat > after)).take(limit + 1);
    let Page { items, next } = Page::cut(some.collect(), limit, Clone::clone);
    let lanes = items.iter().map(|(app, chat)| Lane::of_chat(app, chat)).collect();
    let now = now_ms();
    let items = state.store.chats(lanes).await?.into_iter().map(|status| item(&state, status, now)).collect();
    Ok(Json(Page { items, next }))
}

/// One chat
#[utoipa::path(
    get,
    path = "/chats/{app}/{*chat}",
    operation_id = "getChat",
    tag = "chats",
    params(("app" = String, Path, description = "App id"), ("chat" = String, Path, description = "Chat id")),
    responses(
        (status = 200, description = "The chat", body = ChatItem),
        (status = 400, description = "`bad_path`"),
        (status = 404, description = "`unknown_app`; `unknown_chat`: it is not configured and holds nothing"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn one(
    State(state): State<AdminState>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<ChatItem>, Failure> {
    let Path((app, chat)) = path?;
    let status = known(&state, &app, &chat).await?;
    Ok(Json(item(&state, status, now_ms())))
}

/// A chat that is configured or holds something, or any of an app that needs no entries.
pub(super) async fn known(state: &AdminState, app: &str, chat: &str) -> Result<ChatStatus, Failure> {
    let settings = state.settings();
    let is_sure = settings.apps.get(app).is_some_and(|app| app.chats.contains_key(chat) || has_any_chat(app));
    let status = status(state, app, chat).await?.filter(|status| is_sure || leaves_a_trace(status));
    status.ok_or_else(|| if settings.apps.contains_key(app) { unknown_chat() } else { super::unknown_app() })
}

/// A chat that was known a moment ago, whatever is left of it.
pub(super) async fn shown(state: &AdminState, app: &str, chat: &str) -> Result<ChatItem, Failure> {
    let status = status(state, app, chat).await?;
    status.map(|status| item(state, status, now_ms())).ok_or_else(unknown_chat)
}

async fn status(state: &AdminState, app: &str, chat: &str) -> Result<Option<ChatStatus>, Failure> {
    Ok(state.store.chats(vec![Lane::of_chat(app, chat)]).await?.pop())
}

fn unknown_chat() -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "unknown_chat",
        "no such chat is configured or holds anything: see that app and chat id are as GET /chats lists them (ids are compared exactly)",
    )
}

fn configured(state: &AdminState) -> BTreeSet<(String, String)> {
    let settings = state.settings();
    let apps = settings.apps.values();
    apps.flat_map(|app| app.chats.keys().map(|chat| (app.id.clone(), chat.clone()))).collect()
}

/// Whether the app answers chats that have no entry, so that any id may be one of its chats.
fn has_any_chat(app: &App) -> bool {
    match app.kind {
        AppKind::Json(_) | AppKind::Aibot(_) => true,
        AppKind::App(_) => app.api.is_some(),
        AppKind::GroupRobot(_) => false,
    }
}

fn leaves_a_trace(status: &ChatStatus) -> bool {
    status.depth > 0 || status.paused || status.muted || status.dead.is_some() || status.weight.is_some()
}

fn item(state: &AdminState, status: ChatStatus, now: i64) -> ChatItem {
    let (app, chat) = status.lane.app_and_chat();
    let (routes, settings) = (state.routes(), state.settings());
    let route = routes.of(&app, &chat);
    let configured = settings.apps.get(&app).and_then(|app| app.chats.get(&chat));
    // Another route than the one it died by is another try.
    let is_dead = status.dead.is_some() && route.is_none_or(|route| status.dead.as_ref() == Some(&route.digest));
    let app_hold = hold_of_app(state, &app, &chat);
    let is_held = app_hold.is_some() && !is_dead && !status.paused;
    let wakes = if is_held { state.holds.next_try(&app) } else { wake_in(&status) };
    ChatItem {
        name: configured.and_then(|chat| chat.name.clone()),
        depth: status.depth,
        oldest_wait_ms: status.oldest.map(|oldest| now.saturating_sub(oldest).max(0)),
        waits_for: waits_for(&status).map(|waits| if is_held { "hold" } else { waits }),
        wake_in_ms: wakes.map(whole_ms),
        weight: status.weight.or(configured.map(|chat| chat.weight)).unwrap_or(1),
        state: if is_held { ChatState::BackingOff } else { chat_state(&status, is_dead) },
        muted: status.muted,
        hold: app_hold.or_else(|| own_hold(&status)),
        last_error: status.last_error,
        app,
        chat,
    }
}

/// What holds the whole app up, where this chat is reached by its API.
pub(super) fn hold_of_app(state: &AdminState, app: &str, chat: &str) -> Option<String> {
    let is_by_api = state.routes().of(app, chat).is_none_or(|route| route.channel.kind().is_api());
    state.holds.reason(app).filter(|_| is_by_api)
}

/// What holds this chat alone up: its robot, or what this machine can't do.
pub(super) fn own_hold(status: &ChatStatus) -> Option<String> {
    status.last_error.clone().filter(|_| is_parked(status, ParkReason::Held))
}

/// When it goes on by itself. A paused lane is parked too, but only to be looked at again.
fn wake_in(status: &ChatStatus) -> Option<Duration> {
    status.parked.as_ref().filter(|_| !status.paused).map(|(_, rest)| *rest)
}

fn is_parked(status: &ChatStatus, why: ParkReason) -> bool {
    status.parked.as_ref().is_some_and(|(word, _)| word == why.as_str())
}

fn is_backing_off(status: &ChatStatus) -> bool {
    [ParkReason::Transient, ParkReason::Unanswered, ParkReason::Held].into_iter().any(|why| is_parked(status, why))
}

fn chat_state(status: &ChatStatus, is_dead: bool) -> ChatState {
    if is_dead {
        ChatState::Dead
    } else if status.paused {
        ChatState::Paused
    } else if is_parked(status, ParkReason::Paced) {
        ChatState::Paced
    } else if is_backing_off(status) {
        ChatState::BackingOff
    } else {
        ChatState::Active
    }
}

fn waits_for(status: &ChatStatus) -> Option<&'static str> {
    if status.depth == 0 {
        None
    } else if status.paused {
        Some("pause")
    } else if is_parked(status, ParkReason::Held) {
        Some("hold")
    } else if is_parked(status, ParkReason::Paced) {
        Some("pace")
    } else if is_backing_off(status) {
        Some("back_off")
    } else if status.leased {
        Some("answer")
    } else {
        Some("turn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_says_what_it_does_and_what_it_waits_for() {
        let idle = ChatStatus {
            lane: Lane::of_chat("app", "chat"),
            depth: 0,
            oldest: None,
            leased: false,
            parked: None,
            paused: false,
            muted: false,
            dead: None,
            weight: None,
            last_error: None,
        };
        let busy = ChatStatus { depth: 3, ..idle.clone() };
        let parked = |why: ParkReason| {
            let parked = Some((why.as_str().to_owned(), Duration::from_secs(9)));
            ChatStatus { parked, ..busy.clone() }
        };
        let cases = [
            (idle, ChatState::Active, None),
            (ChatStatus { leased: true, ..busy.clone() }, ChatState::Active, Some("answer")),
            (ChatStatus { paused: true, ..parked(ParkReason::Held) }, ChatState::Paused, Some("pause")),
            (parked(ParkReason::Held), ChatState::BackingOff, Some("hold")),
            (parked(ParkReason::Paced), ChatState::Paced, Some("pace")),
            (parked(ParkReason::Transient), ChatState::BackingOff, Some("back_off")),
            (parked(ParkReason::Unanswered), ChatState::BackingOff, Some("back_off")),
            (busy, ChatState::Active, Some("turn")),
        ];
        for (status, state, waits) in cases {
            assert_eq!((chat_state(&status, false), waits_for(&status)), (state, waits), "{status:?}");
            assert_eq!(chat_state(&status, true), ChatState::Dead);
            let wakes = status.parked.is_some() && !status.paused;
            assert_eq!(wake_in(&status).is_some(), wakes, "{status:?}");
            let refused = ChatStatus { last_error: Some("errcode 60020: no".into()), ..status };
            assert_eq!(own_hold(&refused).is_some(), is_parked(&refused, ParkReason::Held), "{refused:?}");
        }
    }
}
