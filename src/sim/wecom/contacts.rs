//! What WeCom tells of external contacts and customer groups, to apps that have a token.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Authorised, app_of};
use super::desk::{Desk, errcode};
use super::{CONTACT, CUSTOMER_GROUP};
use crate::sim::behaviour::Answer;
use crate::sim::wire::Scissors;

/// Contacts and customer groups, by id.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub contacts: HashMap<String, Value>,
    pub groups: HashMap<String, Value>,
}

pub(super) fn router() -> Router<Arc<Desk>> {
    Router::new()
        .route("/cgi-bin/externalcontact/get", get(contact))
        .route("/cgi-bin/externalcontact/groupchat/get", post(group))
}

#[derive(Deserialize)]
struct Asked {
    external_userid: String,
}

async fn contact(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(token): Query<Authorised>,
    Query(Asked { external_userid }): Query<Asked>,
) -> Response {
    let found = desk.outlets().book.contacts.get(&external_userid).cloned();
    answer(&desk, &scissors, &token, CONTACT, found.ok_or(84061)).await
}

async fn group(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(token): Query<Authorised>,
    body: Bytes,
) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let chat = asked["chat_id"].as_str().unwrap_or_default();
    let found = desk.outlets().book.groups.get(chat).map(|group| json!({"group_chat": group}));
    answer(&desk, &scissors, &token, CUSTOMER_GROUP, found.ok_or(40050)).await
}

/// As its outlet behaves; ordinarily with what was found.
async fn answer(
    desk: &Desk,
    scissors: &Scissors,
    token: &Authorised,
    key: &str,
    found: Result<Value, i64>,
) -> Response {
    let behaviour = {
        let mut outlets = desk.outlets();
        outlets.planned(key).posts += 1;
        outlets.behaviour(key)
    };
    desk.ledger.stir();
    if let Err(code) = app_of(desk, token) {
        return errcode(code);
    }
    match found {
        Err(code) if behaviour.answer == Answer::Taken => errcode(code),
        found => desk.answer(scissors, key, behaviour, found.unwrap_or_default()).await,
    }
}
