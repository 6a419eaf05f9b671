//! A model behind an OpenAI-compatible API on a free port of 127.0.0.1: keeps what it is asked and says what it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What it does with one request.
#[derive(Clone, Debug)]
pub enum Reaction {
    /// Says this.
    Say(String),
    /// Refuses with this status; the caller may come back at once.
    Refuse(u16),
    /// Answers 200 with this.
    Nonsense(&'static str),
    /// Never answers.
    Hang,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub key: String,
    pub body: Value,
}

impl Asked {
    /// `role name: words` of each message.
    pub fn talk(&self) -> Vec<String> {
        let messages = self.body["messages"].as_array().expect("messages");
        let one = |message: &Value| {
            let name = message["name"].as_str().map(|name| format!(" {name}")).unwrap_or_default();
            format!("{}{name}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap())
        };
        messages.iter().map(one).collect()
    }
}

#[derive(Debug, Default)]
struct Desk {
    script: VecDeque<Reaction>,
    asked: Vec<Asked>,
}

/// The server; ends with the test's runtime.
#[derive(Clone, Debug)]
pub struct ModelServer {
    base_url: String,
    desk: Arc<Mutex<Desk>>,
    count: Arc<watch::Sender<usize>>,
}

impl ModelServer {
    /// One that repeats the last words it was told: `你说：…`.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let server = Self { base_url, desk: Arc::default(), count: Arc::default() };
        let app = Router::new().route("/v1/chat/completions", post(answer)).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    /// An action that asks it, with these keys beside.
    pub fn action(&self, keys: Value) -> Value {
        let mut action = json!({"type": "llm", "base_url": self.base_url, "model": "m1", "system": "你是客服"});
        action.as_object_mut().unwrap().extend(keys.as_object().cloned().unwrap_or_default());
        action
    }

    /// What it does with its next requests, in order.
    pub fn script(&self, reactions: impl IntoIterator<Item = Reaction>) {
        self.desk().script.extend(reactions);
    }

    /// What it was asked, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.desk().asked.clone()
    }

    /// Waits until it was asked so often.
    pub async fn until_asked(&self, times: usize) {
        // Fails only where the server is gone, and this is it.
        let _ = self.count.subscribe().wait_for(|count| *count >= times).await;
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(State(server): State<ModelServer>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let last = body["messages"].as_array().and_then(|all| all.last()).expect("a message")["content"].clone();
    let key = headers["idempotency-key"].to_str().expect("text").to_owned();
    let reaction = {
        let mut desk = server.desk();
        desk.asked.push(Asked { key, body });
        server.count.send_replace(desk.asked.len());
        desk.script.pop_front().unwrap_or_else(|| Reaction::Say(format!("你说：{}", last.as_str().unwrap())))
    };
    match reaction {
        Reaction::Say(words) => {
            Json(json!({"choices": [{"message": {"role": "assistant", "content": words}}]})).into_response()
        }
        Reaction::Refuse(status) => {
            (axum::http::StatusCode::from_u16(status).unwrap(), [("retry-after", "0")]).into_response()
        }
        Reaction::Nonsense(body) => body.into_response(),
        Reaction::Hang => std::future::pending().await,
    }
}
