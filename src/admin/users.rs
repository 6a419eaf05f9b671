//! `/api/v1/users/{app}/{sender_key}`: who a member is, for every chat of the app.
//!
//! This is also the way for a QR authorisation: the team's own web page, once the member has authorised it, puts the
//! `user_id` here. Phone numbers are shown in full to scope `admin` alone; no log line holds one.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use tracing::info;
use utoipa::ToSchema;

use super::auth::Operator;
use super::object::Object;
use super::{AdminState, Failure, whole_ms};
use crate::config::settings::{Scope, Terms};
use crate::config::units;
use crate::mask;
use crate::member::{
    BoundUser, Contact, MAX_FIELD, MAX_USER_ID, MemberKey, Profile, field_value, is_field_name, is_user_id,
};
use crate::model::{MessageKey, new_id};
use crate::store::{ChangeKind, FieldChange, Line, Note, ProfileChange, UserChange};

/// Most contact fields of a member, as far as they are set here; changes that meet may go beyond it by their own.
const MAX_FIELDS: usize = 32;
/// The longest that a user id may hold.
const MAX_TTL: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// How long it is known that a member was forgotten: longer than any message is worked on.
const FORGOTTEN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// A member as operators see them.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserItem {
    app: String,
    sender: String,
    /// Who the member is in the business system.
    user_id: Option<String>,
    /// How long the user id still holds.
    user_id_ttl_ms: Option<u64>,
    /// Whether each use makes it hold as long again.
    renew_on_use: bool,
    /// Contact fields: `name`, `phone`, …
    #[schema(value_type = BTreeMap<String, String>)]
    contact: Contact,
}

/// What is changed of a member. Null takes a value away; what is not there stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(min_properties = 1)]
pub(super) struct UserPut {
    /// Who the member is in the business system.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<String>, min_length = 1)]
    user_id: Option<Option<String>>,
    /// How long the user id holds; as in the configuration, such as `"7d"`.
    ttl: Option<String>,
    /// Whether each use makes it hold as long again.
    renew_on_use: Option<bool>,
    /// Contact fields: `name`, `phone`, …
    #[serde(default)]
    contact: BTreeMap<String, Option<String>>,
}

/// Tells a field that is null from one that is not there.
fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(field).map(Some)
}

type Who = Result<Path<(String, String)>, PathRejection>;

/// What is known of a member
///
/// In every chat of the app.
#[utoipa::path(
    get,
    path = "/users/{app}/{*sender}",
    operation_id = "getUser",
    tag = "members",
    params(("app" = String, Path, description = "App id"), ("sender" = String, Path, description = "Sender key")),
    responses(
        (status = 200, description = "The member; one of whom nothing is known has no fields", body = UserItem),
        (status = 400, description = "`bad_path`"),
        (status = 404, description = "`unknown_app`"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn get(
    State(state): State<AdminState>,
    Extension(operator): Extension<Operator>,
    who: Who,
) -> Result<Json<UserItem>, Failure> {
    let (app, sender) = known(&state, who)?;
    item(&state, app, sender, operator.scope).await.map(Json)
}

/// Changes what is known of a member
///
/// Answers it as it is then.
#[utoipa::path(
    put,
    path = "/users/{app}/{*sender}",
    operation_id = "changeUser",
    tag = "members",
    params(("app" = String, Path, description = "App id"), ("sender" = String, Path, description = "Sender key")),
    request_body = UserPut,
    responses(
        (status = 200, description = "The member", body = UserItem),
        (status = 400, description = "`bad_body`, `bad_path`"),
        (status = 404, description = "`unknown_app`"),
        (status = 413, description = "`bad_body`: too large"),
        (status = 415, description = "`bad_body`: not sent as JSON"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn put(
    State(state): State<AdminState>,
    Extension(operator): Extension<Operator>,
    who: Who,
    body: Result<Object<UserPut>, Failure>,
) -> Result<Json<UserItem>, Failure> {
    let ((app, sender), Object(put)) = (known(&state, who)?, body?);
    let member = MemberKey::new(&app, &sender);
    let known = state.store.members().read_profile(&member).await?;
    let (user, contact) = (put.user(known.user.as_ref())?, put.contact(&known.contact)?);
    let (binds, fields) = (matches!(user, Some(UserChange::Bind { .. })), contact.len());
    let of = MessageKey::new(&app, "", &sender, "");
    let change = Line::change(new_id(), ChangeKind::User, operator.who(), of, put.told());
    let change = ProfileChange { member, user, contact, upon: None, change: Some(change) };
    state.store.members().change_profile(change).await?;
    info!(by = operator.name, app, sender_key = sender, binds, fields, "an operator changed a member's profile");
    item(&state, app, sender, operator.scope).await.map(Json)
}

/// Forgets a member: user id and contact
///
/// What is under way meanwhile does not bring any of it back, nor where nothing was known: that is a 404, so the same again is one too.
#[utoipa::path(
    delete,
    path = "/users/{app}/{*sender}",
    operation_id = "forgetUser",
    tag = "members",
    params(("app" = String, Path, description = "App id"), ("sender" = String, Path, description = "Sender key")),
    responses(
        (status = 204, description = "Nothing is known any more"),
        (status = 400, description = "`bad_path`"),
        (status = 404, description = "`unknown_app`; `unknown_user`: nothing is known of this member, or nothing any more"),
        (status = 503, description = "`store_unavailable`")
    )
)]
pub(super) async fn delete(
    State(state): State<AdminState>,
    Extension(operator): Extension<Operator>,
    who: Who,
) -> Result<StatusCode, Failure> {
    let (app, sender) = known(&state, who)?;
    let (member, of) = (MemberKey::new(&app, &sender), MessageKey::new(&app, "", &sender, ""));
    let Profile { user, contact, .. } = state.store.members().read_profile(&member).await?;
    // That nothing was known is no change; forgotten it is all the same, for the sake of what is under way.
    let is_known = user.is_some() || !contact.is_empty();
    let change = is_known.then(|| Line::change(new_id(), ChangeKind::UserForgotten, operator.who(), of, json!({})));
    let was_known = state.store.members().forget_profile(&member, FORGOTTEN_FOR, change).await?;
    state.store.drop_note(&Note::contact(&app, &sender), None).await?;
    info!(by = operator.name, app, sender_key = sender, was_known, "an operator forgot a member");
    if is_known || was_known {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Failure::new(StatusCode::NOT_FOUND, "unknown_user", "nothing is known of this member, or nothing any more"))
}

fn known(state: &AdminState, who: Who) -> Result<(String, String), Failure> {
    let Path((app, sender)) = who?;
    if !state.settings().apps.contains_key(&app) {
        return Err(super::unknown_app());
    }
    Ok((app, sender))
}

async fn item(state: &AdminState, app: String, sender: String, scope: Scope) -> Result<UserItem, Failure> {
    let Profile { user, contact, .. } = state.store.members().read_profile(&MemberKey::new(&app, &sender)).await?;
    let user_id_ttl_ms = user.as_ref().map(|user| whole_ms(user.left));
    let renew_on_use = user.as_ref().is_some_and(|user| user.renew.is_some());
    let contact = if scope >= Scope::Admin { contact } else { mask::contact(&contact) };
    Ok(UserItem { app, sender, user_id: user.map(|user| user.id), user_id_ttl_ms, renew_on_use, contact })
}

fn fault<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(StatusCode::BAD_REQUEST, "bad_body", text))
}

impl UserPut {
    /// What of the binding is not written stays as it is `now`.
    fn user(&self, now: Option<&BoundUser>) -> Result<Option<UserChange>, Failure> {
        let ttl: Option<Duration> = match &self.ttl {
            None => None,
            Some(text) => match units::some_duration(text) {
                Ok(ttl) if ttl > MAX_TTL => return fault(format!("ttl: {text:?} is longer than 400d: shorten it")),
                Ok(ttl) => Some(ttl),
                Err(mend) => return fault(format!("ttl: {text:?} {mend}")),
            },
        };
        match &self.user_id {
            Some(Some(id)) if is_user_id(id) => {
                let default = Terms::default().ttl;
                let span = ttl.or(now.and_then(|now| now.renew));
                let renews = self.renew_on_use.unwrap_or(now.is_some_and(|now| now.renew.is_some()));
                let ttl = ttl.or(now.map(|now| now.left)).unwrap_or(default);
                Ok(Some(UserChange::Bind { id: id.clone(), ttl, renew: renews.then(|| span.unwrap_or(default)) }))
            }
            Some(Some(_)) => fault(format!("user_id: write a text of at most {MAX_USER_ID} bytes, or null for none")),
            _ if ttl.is_some() || self.renew_on_use.is_some() => {
                fault("ttl and renew_on_use are for a user_id: write it too, or remove them")
            }
            Some(None) => Ok(Some(UserChange::Unbind)),
            None if self.contact.is_empty() => fault("nothing to change: write user_id or contact"),
            None => Ok(None),
        }
    }

    /// What it changes, for the trail: never what anything says, which is to be gone once the member is forgotten.
    fn told(&self) -> Value {
        let mut told = Map::new();
        let word = |id: &Option<String>| if id.is_some() { "set" } else { "removed" };
        told.extend(self.user_id.as_ref().map(|id| ("user_id".to_owned(), word(id).into())));
        told.extend(self.contact.iter().map(|(field, value)| (format!("contact.{field}"), word(value).into())));
        Value::Object(told)
    }

    fn contact(&self, now: &Contact) -> Result<Vec<(String, FieldChange)>, Failure> {
        let new = self.contact.iter().filter(|(field, value)| value.is_some() && !now.contains_key(*field)).count();
        let gone = self.contact.iter().filter(|(field, value)| value.is_none() && now.contains_key(*field)).count();
        if new > 0 && now.len() + new > MAX_FIELDS + gone || self.contact.len() > 2 * MAX_FIELDS {
            let has = now.len();
            return fault(format!(
                "contact: a member has at most {MAX_FIELDS} fields, {has} of them are there: write fewer, or take some away"
            ));
        }
        let change = |(field, value): (&String, &Option<String>)| {
            if !is_field_name(field) {
                return fault("contact: a field's name is of a to z, 0 to 9 and _, at most 32 of them");
            }
            let change = match value {
                None => FieldChange::Remove,
                Some(text) => match field_value(text) {
                    Some(value) if value == *text => FieldChange::Set(value),
                    _ => {
                        return fault(format!(
                            "contact.{field}: write one line of at most {MAX_FIELD} characters, or null for none"
                        ));
                    }
                },
            };
            Ok((field.clone(), change))
        };
        self.contact.iter().map(change).collect()
    }
}
