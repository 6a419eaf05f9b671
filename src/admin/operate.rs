//! `PATCH /api/v1/chats/{app}/{chat}` and `POST /api/v1/deliveries/{id}`: the operators' hands.
//!
//! What is decided stands in the store, in the chat's own slot and in one step, so that it holds for every process and through
//! any crash. A delivery is ended by hand once ([`crate::hands`]): whoever comes second is told so (409).

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tracing::info;

use super::auth::Operator;
use super::chats::{ChatItem, known, shown};
use super::object::Object;
use super::{AdminState, Failure};
use crate::hands::Done;
use crate::model::Lane;
use crate::store::{ByHand, Tuning, Turn};

/// What is changed of a chat. Null takes it back to the configuration; what is not there stays as it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChatPatch {
    #[serde(default, deserialize_with = "said")]
    weight: Option<Option<u32>>,
    #[serde(default, deserialize_with = "said")]
    paused: Option<Option<bool>>,
    dead: Option<bool>,
    /// As the admins' commands do: whether its members are not answered.
    muted: Option<bool>,
}

/// Tells a field that is null from one that is not there.
fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(field).map(Some)
}

impl ChatPatch {
    fn checked(self) -> Result<Self, Failure> {
        let fault = |text: &str| Err(Failure::new(StatusCode::BAD_REQUEST, "bad_body", text));
        match &self {
            Self { weight: Some(Some(weight)), .. } if !(1..=100).contains(weight) => {
                fault("weight: write 1 to 100, or null for the configured one")
            }
            Self { dead: Some(true), .. } => fault("dead: only false can be set; a chat dies by what WeCom answers"),
            Self { weight: None, paused: None, dead: None, muted: None } => {
                fault("nothing to change: write weight, paused, dead or muted")
            }
            _ => Ok(self),
        }
    }
}

/// Changes a chat, and answers it as it is then.
pub(super) async fn chat(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Result<Object<ChatPatch>, Failure>,
) -> Result<Json<ChatItem>, Failure> {
    let (Path((app, chat)), Object(patch)) = (path?, body?);
    let ChatPatch { weight, paused, dead, muted } = patch.checked()?;
    known(&state, &app, &chat).await?;
    let lane = Lane::of_chat(&app, &chat);
    if let Some(muted) = muted {
        state.store.members().mute(&lane, muted).await?;
    }
    let tuning = Tuning {
        lane,
        weight,
        paused: paused.map(Option::unwrap_or_default),
        revive: dead == Some(false),
        turn: configured_turn(&state, &app, &chat),
    };
    state.store.tune(tuning).await?;
    info!(by = who.name, app, chat_id = chat, ?weight, ?paused, ?dead, ?muted, "an operator changed a chat");
    shown(&state, &app, &chat).await.map(Json)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeliveryAction {
    action: ByHand,
}

/// Ends a delivery by hand.
pub(super) async fn delivery(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Object<DeliveryAction>, Failure>,
) -> Result<Json<Value>, Failure> {
    let (Path(id), Object(DeliveryAction { action })) = (id?, body?);
    let Done { state: now, resent_as } = state.hands.end(&id, action, &who.name).await?;
    info!(by = who.name, delivery = id, action = action.as_str(), resent_as, "an operator ended a delivery");
    Ok(Json(json!({"id": id, "action": action.as_str(), "state": now.as_str(), "resent_as": resent_as})))
}

fn configured_turn(state: &AdminState, app: &str, chat: &str) -> Turn {
    let weight = state.routes().of(app, chat).map_or(1, |route| route.weight);
    Turn { weight, head_start: state.settings().sender.head_start }
}
