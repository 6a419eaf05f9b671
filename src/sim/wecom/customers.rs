//! What a member has to confirm: `externalcontact/add_msg_template`, and what is told of it later (document/path/92135, 93338).
//!
//! A task without a `sender` is shared among two members. Pages are of two rows, whatever they are asked to be, so that
//! whoever reads the first one alone is found out.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Query, State};
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};

use super::api::{Authorised, app_of};
use super::desk::{Desk, Send, errcode};
use super::{SEND_RESULT, customers};
use crate::sim::wire::Scissors;

const ROWS: usize = 2;
/// When everything is sent, Unix s.
const SENT_AT: i64 = 1_800_000_000;
const NO_SUCH_MESSAGE: i64 = 41047;

/// What members were asked to send, by its msgid.
#[derive(Debug, Default)]
pub(super) struct Asked(HashMap<String, Task>);

#[derive(Debug)]
struct Task {
    key: String,
    is_group: bool,
    /// Recipient, who sends to them, and the status.
    rows: Vec<(String, String, i64)>,
}

impl Asked {
    fn insert(&mut self, key: &str, ids: &[&str], sender: Option<&str>, is_group: bool) -> String {
        let msgid = format!("msg-of-customers-{}", self.0.len() + 1);
        let sends = |n: usize| sender.map_or_else(|| format!("member-{}", n % 2), str::to_owned);
        let rows = ids.iter().enumerate().map(|(n, id)| ((*id).to_owned(), sends(n), 0)).collect();
        self.0.insert(msgid.clone(), Task { key: key.to_owned(), is_group, rows });
        msgid
    }

    pub fn confirm(&mut self, key: &str, statuses: &[(&str, i64)]) {
        for (id, _, status) in self.0.values_mut().filter(|task| task.key == key).flat_map(|task| &mut task.rows) {
            if let Some((_, done)) = statuses.iter().find(|(named, _)| named == id) {
                *status = *done;
            }
        }
    }
}

impl Task {
    /// Each member who is asked, in order, with whether they did anything.
    fn senders(&self) -> Vec<Value> {
        let mut senders: Vec<&str> = self.rows.iter().map(|(_, sender, _)| sender.as_str()).collect();
        senders.sort_unstable();
        senders.dedup();
        let status =
            |sender: &str| if self.rows.iter().any(|(_, of, status)| of == sender && *status != 0) { 2 } else { 0 };
        senders.into_iter().map(|sender| json!({"userid": sender, "status": status(sender)})).collect()
    }

    /// What one of them did. Of groups only those are told that have it.
    fn results(&self, sender: &str) -> Vec<Value> {
        let told = |(_, of, status): &&(String, String, i64)| of == sender && (!self.is_group || *status == 1);
        let name = if self.is_group { "chat_id" } else { "external_userid" };
        let row = |(id, sender, status): &(String, String, i64)| {
            let mut row = json!({name: id, "userid": sender, "status": status});
            if *status == 1 {
                row["send_time"] = SENT_AT.into();
            }
            row
        };
        self.rows.iter().filter(told).map(row).collect()
    }
}

pub(super) fn router() -> Router<Arc<Desk>> {
    Router::new()
        .route("/cgi-bin/externalcontact/add_msg_template", post(add_msg_template))
        .route("/cgi-bin/externalcontact/get_groupmsg_task", post(get_groupmsg_task))
        .route("/cgi-bin/externalcontact/get_groupmsg_send_result", post(get_groupmsg_send_result))
}

/// A request's recipients, where it keeps WeCom's bounds.
fn read(body: &Value) -> Result<(bool, Vec<&str>), (i64, &'static str)> {
    let is_group = body["chat_type"] == "group";
    let (list, most) = if is_group { ("chat_id_list", 2000) } else { ("external_userid", 10_000) };
    let ids: Vec<&str> = body[list].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let (text, attachments) = (body["text"]["content"].as_str(), body["attachments"].as_array());
    if ids.is_empty() || ids.len() > most {
        return Err((40035, "nobody, or too many"));
    }
    if is_group && body["sender"].as_str().is_none() {
        return Err((40035, "groups without a sender"));
    }
    if text.is_some_and(|text| text.is_empty() || text.len() > 4000) {
        return Err((40058, "a content over its byte limit"));
    }
    if attachments.is_some_and(|all| all.is_empty() || all.len() > 9) || (text.is_none() && attachments.is_none()) {
        return Err((40058, "too many attachments, or nothing to say"));
    }
    Ok((is_group, ids))
}

async fn add_msg_template(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(token): Query<Authorised>,
    body: Bytes,
) -> Response {
    if let Err(code) = app_of(&desk, &token) {
        return errcode(code);
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (key, msgid, message) = match read(&body) {
        Ok((is_group, ids)) => {
            let key = customers(&ids);
            let msgid = desk.outlets().asked.insert(&key, &ids, body["sender"].as_str(), is_group);
            let text = body["text"]["content"].as_str().unwrap_or_default().to_owned();
            (key, Some(msgid), Ok((text, body)))
        }
        Err(fault) => (customers(&[]), None, Err(fault)),
    };
    desk.outlets().open(&key, &key);
    let send = Send { key, message, repeat: None, once: false, msgid };
    desk.take(&scissors, send).await.unwrap_or_else(|| errcode(40096))
}

async fn get_groupmsg_task(State(desk): State<Arc<Desk>>, Query(token): Query<Authorised>, body: Bytes) -> Response {
    if let Err(code) = app_of(&desk, &token) {
        return errcode(code);
    }
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let rows = desk.outlets().asked.0.get(asked["msgid"].as_str().unwrap_or_default()).map(Task::senders);
    match rows {
        Some(rows) => super::desk::answer(0, page("task_list", rows, &asked)),
        None => errcode(NO_SUCH_MESSAGE),
    }
}

async fn get_groupmsg_send_result(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(token): Query<Authorised>,
    body: Bytes,
) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let behaviour = {
        let mut outlets = desk.outlets();
        outlets.planned(SEND_RESULT).posts += 1;
        outlets.behaviour(SEND_RESULT)
    };
    desk.ledger.stir();
    if let Err(code) = app_of(&desk, &token) {
        return errcode(code);
    }
    let [msgid, sender] = ["msgid", "userid"].map(|name| asked[name].as_str().unwrap_or_default());
    let rows = desk.outlets().asked.0.get(msgid).map(|task| task.results(sender));
    match rows {
        Some(rows) => desk.answer(&scissors, SEND_RESULT, behaviour, page("send_list", rows, &asked)).await,
        None => errcode(NO_SUCH_MESSAGE),
    }
}

/// The page that the cursor names.
fn page(list: &str, rows: Vec<Value>, asked: &Value) -> Value {
    let from: usize = asked["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let more = rows.len() > from + ROWS;
    let next = if more { (from + ROWS).to_string() } else { String::new() };
    let rows: Vec<Value> = rows.into_iter().skip(from).take(ROWS).collect();
    json!({list: rows, "next_cursor": next})
}
