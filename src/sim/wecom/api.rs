//! An app's own API: `gettoken`, `agent/get`, `message/send`, `appchat/send`.
//!
//! A token is known for its time, and the last one of an app only: a new one ends those before it, the harder of WeCom's two
//! ways. `message/send` knows a repeat where the request asks it to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::desk::{Desk, Send, errcode};
use super::message::{APP, Read, read};
use super::{AGENT, GETTOKEN, app_chat, member, members};
use crate::sim::behaviour::Answer;
use crate::sim::wire::Scissors;

/// The apps that have an API side.
#[derive(Debug)]
pub(super) struct Apps {
    by_secret: HashMap<(String, String), App>,
    given: usize,
    pub lives: Duration,
    /// 1: an administrator has switched the apps off.
    pub closed: u8,
}

#[derive(Debug)]
struct App {
    agent_id: u64,
    token: Option<(String, Instant)>,
}

impl Default for Apps {
    fn default() -> Self {
        Self { by_secret: HashMap::new(), given: 0, lives: Duration::from_secs(7200), closed: 0 }
    }
}

impl Apps {
    pub fn insert(&mut self, corp: &str, secret: &str, agent_id: u64) {
        self.by_secret.insert((corp.to_owned(), secret.to_owned()), App { agent_id, token: None });
    }

    pub fn given(&self) -> usize {
        self.given
    }

    pub fn forget_tokens(&mut self) {
        self.by_secret.values_mut().for_each(|app| app.token = None);
    }

    pub fn end_tokens(&mut self) {
        let now = Instant::now();
        self.by_secret.values_mut().filter_map(|app| app.token.as_mut()).for_each(|(_, ends)| *ends = now);
    }

    fn give(&mut self, corp: &str, secret: &str) -> Option<String> {
        let app = self.by_secret.get_mut(&(corp.to_owned(), secret.to_owned()))?;
        self.given += 1;
        let token = format!("token-{}", self.given);
        app.token = Some((token.clone(), Instant::now() + self.lives));
        Some(token)
    }

    /// The app of a token, or why there is none.
    fn of_token(&self, token: Option<&str>) -> Result<u64, i64> {
        let token = token.ok_or(41001)?;
        let mut known = self.by_secret.values().filter_map(|app| Some((app, app.token.as_ref()?)));
        let (app, (_, ends)) = known.find(|(_, (known, _))| known == token).ok_or(40014)?;
        if Instant::now() >= *ends { Err(42001) } else { Ok(app.agent_id) }
    }
}

pub(super) fn router() -> Router<Arc<Desk>> {
    Router::new()
        .route("/cgi-bin/gettoken", get(gettoken))
        .route("/cgi-bin/agent/get", get(agent_get))
        .route("/cgi-bin/message/send", post(message_send))
        .route("/cgi-bin/appchat/send", post(appchat_send))
}

#[derive(Deserialize)]
struct Credentials {
    corpid: String,
    corpsecret: String,
}

async fn gettoken(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(asked): Query<Credentials>,
) -> Response {
    let mut behaviour = desk.outlets().behaviour(GETTOKEN);
    let mut more = json!({});
    {
        let mut outlets = desk.outlets();
        outlets.planned(GETTOKEN).posts += 1;
        if behaviour.answer == Answer::Taken {
            match outlets.apps.give(&asked.corpid, &asked.corpsecret) {
                Some(token) => more = json!({"access_token": token, "expires_in": outlets.apps.lives.as_secs()}),
                None => behaviour.answer = Answer::Errcode(40001),
            }
        }
    }
    desk.ledger.stir();
    desk.answer(&scissors, GETTOKEN, behaviour, more).await
}

#[derive(Deserialize)]
pub(super) struct Authorised {
    access_token: Option<String>,
}

/// Whose token it is, or what is said of it.
pub(super) fn app_of(desk: &Desk, asked: &Authorised) -> Result<u64, i64> {
    desk.outlets().apps.of_token(asked.access_token.as_deref())
}

#[derive(Deserialize)]
struct WhichAgent {
    access_token: Option<String>,
    agentid: u64,
}

/// What an app is (document/path/90227).
async fn agent_get(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(asked): Query<WhichAgent>,
) -> Response {
    let WhichAgent { access_token, agentid } = asked;
    match app_of(&desk, &Authorised { access_token }) {
        Err(code) => return errcode(code),
        Ok(agent_id) if agent_id != agentid => return errcode(301002),
        Ok(_) => {}
    }
    let behaviour = desk.outlets().behaviour(AGENT);
    desk.outlets().planned(AGENT).posts += 1;
    let more = json!({"agentid": agentid, "name": "fake", "close": desk.outlets().apps.closed});
    desk.answer(&scissors, AGENT, behaviour, more).await
}

async fn message_send(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(asked): Query<Authorised>,
    body: Bytes,
) -> Response {
    let agent_id = match app_of(&desk, &asked) {
        Ok(agent_id) => agent_id,
        Err(code) => return errcode(code),
    };
    let message: Read = read(&body, APP);
    let whole: Value = serde_json::from_slice(&body).unwrap_or_default();
    if whole["agentid"] != agent_id {
        return errcode(301002);
    }
    let [users, parties, tags] = ["touser", "toparty", "totag"].map(|list| whole[list].as_str().unwrap_or_default());
    let (key, chat) = match (users, parties, tags) {
        ("", "", "") => return errcode(82001),
        (user, "", "") if !user.contains('|') => (member(user), user.to_owned()),
        _ => (members(users, parties, tags), members(users, parties, tags)),
    };
    let repeat = (whole["enable_duplicate_check"] == 1).then(|| whole.to_string());
    let msgid = {
        let mut outlets = desk.outlets();
        outlets.open(&key, &chat);
        Some(format!("msg-{}", outlets.planned(&key).posts + 1))
    };
    let send = Send { key, message, repeat, once: false, msgid };
    desk.take(&scissors, send).await.unwrap_or_else(|| errcode(81013))
}

async fn appchat_send(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(asked): Query<Authorised>,
    body: Bytes,
) -> Response {
    if let Err(code) = app_of(&desk, &asked) {
        return errcode(code);
    }
    let whole: Value = serde_json::from_slice(&body).unwrap_or_default();
    let key = app_chat(whole["chatid"].as_str().unwrap_or_default());
    let send = Send { key, message: read(&body, APP), repeat: None, once: false, msgid: None };
    desk.take(&scissors, send).await.unwrap_or_else(|| errcode(86003))
}
