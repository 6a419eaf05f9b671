//! `PATCH /api/v1/chats/{app}/{chat}` and `POST /api/v1/deliveries/{id}`: the operators' hands.
//!
//! What is decided stands in the store, in the chat's own slot and in one step, so that it holds for every process and through
//! any crash. A delivery is ended by hand once ([`crate::hands`]): whoever comes second is told so (409).

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tracing::info;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::auth::Operator;
use super::chats::{ChatItem, hold_of_app, known, own_hold, shown};
use super::object::Object;
use super::{AdminState, Failure};
use crate::hands::{Done, Hand};
use crate::model::{Lane, MessageKey, Outcome, new_id};
use crate::store::{ByHand, ChangeKind, ChatStatus, Line, Tuning, from_to};

/// What is changed of a chat. Null takes it back to the configuration; what is not there stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(min_properties = 1)]
pub(super) struct ChatPatch {
    /// By how much its deliveries come before those of others.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
    weight: Option<Option<u32>>,
    /// Whether its deliveries wait until it is taken back.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<bool>)]
    paused: Option<Option<bool>>,
    /// Only false can be set: it is sent to again.
    #[schema(schema_with = only_false, required = false)]
    dead: Option<bool>,
    /// Only false can be set: what holds it (and, by the API, its app) up is tried again at once.
    #[schema(schema_with = only_false, required = false)]
    held: Option<bool>,
    /// As the admins' commands do: whether its members are not answered.
    #[schema(value_type = bool, required = false)]
    muted: Option<bool>,
}

/// The schema of what can only be taken back.
fn only_false() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([false]))
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
            Self { held: Some(true), .. } => {
                fault("held: only false can be set; what holds a chat is what WeCom answers")
            }
            Self { weight: None, paused: None, dead: None, held: None, muted: None } => {
                fault("nothing to change: write weight, paused, dead, held or muted")
            }
            _ => Ok(self),
        }
    }

    /// What it changes of a chat, for the trail; nothing where it says what is so already.
    fn told(&self, before: &ChatStatus, was_held: bool) -> Map<String, Value> {
        let Self { weight, paused, dead, held, muted } = self;
        let told = [
            ("weight", weight.map(|to| from_to(before.weight, to))),
            ("paused", paused.map(|to| from_to(before.paused, to.unwrap_or_default()))),
            ("dead", dead.map(|to| from_to(before.dead.is_some(), to))),
            ("held", held.map(|to| from_to(was_held, to))),
            ("muted", muted.map(|to| from_to(before.muted, to))),
        ];
        let told = told.into_iter().filter_map(|(what, told)| Some((what.to_owned(), told?)));
        told.filter(|(_, told)| told["from"] != told["to"]).collect()
    }
}

/// Changes a chat
///
/// Answers it as it is then. Where it is so already nothing changes, and no change is told. What is set wins over the configuration until it is set back to null.
#[utoipa::path(
    patch,
    path = "/chats/{app}/{*chat}",
    operation_id = "changeChat",
    tag = "chats",
    params(("app" = String, Path, description = "App id"), ("chat" = String, Path, description = "Chat id")),
    request_body = ChatPatch,
    responses(
        (status = 200, description = "The chat", body = ChatItem),
        (status = 400, description = "`bad_body`, `bad_path`"),
        (status = 404, description = "`unknown_app`; `unknown_chat`: it is not configured and holds nothing"),
        (status = 413, description = "`bad_body`: too large"),
        (status = 415, description = "`bad_body`: not sent as JSON"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn chat(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Result<Object<ChatPatch>, Failure>,
) -> Result<Json<ChatItem>, Failure> {
    let (Path((app, chat)), Object(patch)) = (path?, body?);
    let patch = patch.checked()?;
    let (before, app_hold) = (known(&state, &app, &chat).await?, hold_of_app(&state, &app, &chat));
    let told = patch.told(&before, app_hold.is_some() || own_hold(&before).is_some());
    if told.is_empty() {
        return shown(&state, &app, &chat).await.map(Json);
    }
    let told = Value::Object(told);
    let of = MessageKey::new(&app, &chat, "", "");
    let ChatPatch { weight, paused, dead, held, muted } = patch;
    let tuning = Tuning {
        lane: Lane::of_chat(&app, &chat),
        weight,
        paused: paused.map(Option::unwrap_or_default),
        revive: dead == Some(false),
        unhold: held == Some(false),
        muted,
        turn: state.in_force.now().turn(&app, &chat),
        change: Line::change(new_id(), ChangeKind::Chat, who.who(), of, told.clone()),
    };
    let setup = state.in_force.settings();
    let api = setup.apps.get(&app).and_then(|app| app.api.as_ref());
    // Before the lane is looked at again, so that it finds the way free.
    if let Some(api) = api.filter(|_| tuning.unhold && app_hold.is_some()) {
        state.holds.retry(&app, api).await?;
    }
    state.store.tune(tuning).await?;
    info!(by = who.name, app, chat_id = chat, change = %told, "an operator changed a chat");
    shown(&state, &app, &chat).await.map(Json)
}

/// What is done with a delivery.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeliveryAction {
    action: ByHand,
}

/// A delivery that was ended by hand.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EndedByHand {
    id: String,
    #[schema(value_type = ByHand)]
    action: &'static str,
    /// The state that it, or the one in its place, is in now.
    state: Outcome,
    /// What the one in its place is called.
    resent_as: Option<String>,
}

/// Ends a delivery by hand
///
/// One that is `unknown`, `dead` or `dropped`, and once: whoever comes second is told so.
#[utoipa::path(
    post,
    path = "/deliveries/{*id}",
    operation_id = "endDelivery",
    tag = "messages",
    params(("id" = String, Path, description = "Delivery id")),
    request_body = DeliveryAction,
    responses(
        (status = 200, description = "It is done", body = EndedByHand),
        (status = 400, description = "`bad_body`, `bad_path`"),
        (status = 404, description = "`unknown_delivery`"),
        (status = 409, description = "`settled_already`, `not_open`; it can't be sent again: `not_kept`, `unknown_app`, `expired`"),
        (status = 413, description = "`bad_body`: too large"),
        (status = 415, description = "`bad_body`: not sent as JSON"),
        (status = 503, description = "`lane_full`, `store_unavailable`, `records_unavailable`; nothing was done")
    )
)]
pub(super) async fn delivery(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Object<DeliveryAction>, Failure>,
) -> Result<Json<EndedByHand>, Failure> {
    let (Path(id), Object(DeliveryAction { action })) = (id?, body?);
    let Done { request_id, key, state: now, resent_as } =
        state.hands.end(&id, action, Hand::Operator(&who.name)).await?;
    let [app, chat_id, sender_key, msg_id] = key.parts();
    let (by, word, state) = (&who.name, action.as_str(), now.as_str());
    info!(
        by,
        request_id,
        app,
        chat_id,
        sender_key,
        msg_id,
        delivery = id,
        action = word,
        state,
        resent_as,
        "an operator ended a delivery"
    );
    Ok(Json(EndedByHand { id, action: action.as_str(), state: now, resent_as }))
}
