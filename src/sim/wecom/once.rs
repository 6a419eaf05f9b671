//! What takes a message once: an aibot's `response_url`, by its code, and a plain JSON gateway, by `client_msg_id`.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Query, State};
use axum::response::Response;
use axum::routing::post;
use serde::Deserialize;
use serde_json::Value;

use super::desk::{Desk, Send, errcode};
use super::message::{GATEWAY, RESPONSE, read};
use super::{conversation, response};
use crate::sim::wire::Scissors;

pub(super) fn router() -> Router<Arc<Desk>> {
    Router::new().route("/cgi-bin/aibot/response", post(respond)).route("/json/send", post(json_send))
}

#[derive(Deserialize)]
struct Code {
    response_code: String,
}

async fn respond(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(Code { response_code }): Query<Code>,
    body: Bytes,
) -> Response {
    let send =
        Send { key: response(&response_code), message: read(&body, RESPONSE), repeat: None, once: true, msgid: None };
    desk.take(&scissors, send).await.unwrap_or_else(|| errcode(40058))
}

async fn json_send(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    body: Bytes,
) -> Response {
    let whole: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |name: &str| whole[name].as_str().map(str::to_owned);
    let Some(id) = text("conversationId") else { return errcode(40035) };
    let key = conversation(&id);
    desk.outlets().open(&key, &id);
    let send = Send { key, message: read(&body, GATEWAY), repeat: text("client_msg_id"), once: false, msgid: None };
    desk.take(&scissors, send).await.unwrap_or_else(|| errcode(40035))
}
