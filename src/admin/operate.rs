//! `PATCH /api/v1/chats/{app}/{chat}` and `POST /api/v1/deliveries/{id}`: the operators' hands.
//!
//! What is decided stands in the store, in the chat's own slot and in one step, so that it holds for every process and through
//! any crash; the records follow by the journal. A delivery is ended by hand once: whoever comes second is told so (409).

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tracing::info;

use super::auth::Operator;
use super::chats::{ChatItem, known, shown};
use super::{AdminState, Failure};
use crate::model::{Delivery, Lane, Outcome, now_ms, resend_id};
use crate::records::EndedDelivery;
use crate::store::{Line, Operated, Operation, Stage, Tuning, Turn};

/// What is changed of a chat. Null takes it back to the configuration; what is not there stays as it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChatPatch {
    #[serde(default, deserialize_with = "said")]
    weight: Option<Option<u32>>,
    #[serde(default, deserialize_with = "said")]
    paused: Option<Option<bool>>,
    dead: Option<bool>,
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
            Self { weight: None, paused: None, dead: None } => fault("nothing to change: write weight, paused or dead"),
            _ => Ok(self),
        }
    }
}

/// Changes a chat, and answers it as it is then.
pub(super) async fn chat(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Result<Json<ChatPatch>, JsonRejection>,
) -> Result<Json<ChatItem>, Failure> {
    let (Path((app, chat)), Json(patch)) = (path?, body?);
    let ChatPatch { weight, paused, dead } = patch.checked()?;
    known(&state, &app, &chat).await?;
    let tuning = Tuning {
        lane: Lane::of_chat(&app, &chat),
        weight,
        paused: paused.map(Option::unwrap_or_default),
        revive: dead == Some(false),
        turn: configured_turn(&state, &app, &chat),
    };
    state.store.tune(tuning).await?;
    info!(by = who.name, app, chat_id = chat, ?weight, ?paused, ?dead, "an operator changed a chat");
    shown(&state, &app, &chat).await.map(Json)
}

/// What an operator does with a delivery that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    /// It is sent again, under an id of its own.
    Resend,
    /// It has arrived after all.
    Delivered,
    /// Nobody misses it.
    Discard,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Resend => "resend",
            Self::Delivered => "delivered",
            Self::Discard => "discard",
        }
    }

    /// The state that the delivery, or the one in its place, comes into.
    fn state(self) -> Outcome {
        match self {
            Self::Resend => Outcome::Queued,
            Self::Delivered => Outcome::Delivered,
            Self::Discard => Outcome::Dropped,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeliveryAction {
    action: Action,
}

/// Ends a delivery by hand.
pub(super) async fn delivery(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Json<DeliveryAction>, JsonRejection>,
) -> Result<Json<Value>, Failure> {
    let (Path(id), Json(DeliveryAction { action })) = (id?, body?);
    let unknown = || Failure::new(StatusCode::NOT_FOUND, "unknown_delivery", "the records know no delivery of this id");
    let ended = state.records.delivery(&id).await?.ok_or_else(unknown)?;
    may_be_ended(&ended)?;
    let resend = match action {
        Action::Resend => Some(again(&state, &ended)?),
        Action::Delivered | Action::Discard => None,
    };
    let resent_as = resend.as_ref().map(|delivery| delivery.id.clone());
    let operation = operation(&state, &ended, resend, action, &who.name);
    match state.store.operate(operation).await? {
        Operated::Done => {}
        Operated::Earlier => return Err(settled_already()),
        Operated::LaneFull => {
            let text = "too many replies wait for this chat (store.lane_depth); nothing was done, try it again";
            return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "lane_full", text));
        }
    }
    info!(by = who.name, delivery = id, action = action.as_str(), resent_as, "an operator ended a delivery");
    Ok(Json(json!({"id": id, "action": action.as_str(), "state": action.state().as_str(), "resent_as": resent_as})))
}

fn operation(
    state: &AdminState,
    ended: &EndedDelivery,
    resend: Option<Delivery>,
    action: Action,
    by: &str,
) -> Operation {
    let item = &ended.item;
    let resent_as = resend.as_ref().map(|delivery| delivery.id.as_str());
    let detail = json!({"delivery": item.id, "action": action.as_str(), "by": by, "resent_as": resent_as});
    let line = Line {
        stage: Stage::Operated,
        request_id: item.request_id.clone(),
        key: ended.key.clone(),
        detail: detail.as_object().cloned().unwrap_or_default(),
    };
    Operation {
        id: uuid::Uuid::now_v7().simple().to_string(),
        lane: Lane::of_chat(&item.app, &item.chat),
        delivery_id: item.id.clone(),
        keep: state.settings().database.retain,
        child: None,
        resend,
        turn: configured_turn(state, &item.app, &item.chat),
        depth_limit: state.settings().store.lane_depth,
        lines: vec![line],
    }
}

/// Whether a delivery is one of those that wait for a person.
fn may_be_ended(ended: &EndedDelivery) -> Result<(), Failure> {
    if ended.operated {
        return Err(settled_already());
    }
    match Outcome::parse(&ended.item.state) {
        Some(Outcome::Unknown | Outcome::Dead | Outcome::Dropped) => Ok(()),
        _ => {
            let text =
                format!("this delivery is {}: only unknown, dead and dropped ones are settled", ended.item.state);
            Err(Failure::new(StatusCode::CONFLICT, "not_open", text))
        }
    }
}

/// The delivery once more, to be sent as any reply: by the guard, and not for longer than its app's replies may wait.
fn again(state: &AdminState, ended: &EndedDelivery) -> Result<Delivery, Failure> {
    let content = ended.content.clone().ok_or_else(|| {
        let why = ended.not_kept.as_deref().unwrap_or("it never became a delivery");
        let text =
            format!("its content is not kept ({why}), so it can't be sent again; settle it as delivered or discard");
        Failure::new(StatusCode::CONFLICT, "not_kept", text)
    })?;
    let settings = state.settings();
    let app = settings.apps.get(&ended.item.app).ok_or_else(|| {
        Failure::new(StatusCode::CONFLICT, "unknown_app", "its app is no longer configured, so it can't be sent again")
    })?;
    let now = now_ms();
    let age = i64::try_from(app.max_reply_age.as_millis()).unwrap_or(i64::MAX);
    let (id, expires_at) = (resend_id(&content.id), now.saturating_add(age));
    Ok(Delivery { id, received_at: now, expires_at, repeat_until: None, ..content })
}

fn settled_already() -> Failure {
    Failure::new(StatusCode::CONFLICT, "settled_already", "somebody settled this delivery before; its trail says who")
}

fn configured_turn(state: &AdminState, app: &str, chat: &str) -> Turn {
    let weight = state.routes().of(app, chat).map_or(1, |route| route.weight);
    Turn { weight, head_start: state.settings().sender.head_start }
}
