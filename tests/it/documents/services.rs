//! The services that pages speak of (a team's own, a model, a JSON gateway): one listener that answers for all of them what
//! the page says, and keeps what it was asked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use regex::Regex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// An answer: status, and a body where it has one.
pub type Answer = (u16, Option<Value>);

#[derive(Debug, Default)]
struct Desk {
    answers: BTreeMap<String, VecDeque<Answer>>,
    asked: BTreeMap<String, Vec<Value>>,
}

/// See the module. Ends with the test's runtime.
#[derive(Clone)]
pub struct Services {
    address: String,
    desk: Arc<Mutex<Desk>>,
    changes: Arc<watch::Sender<()>>,
}

impl Services {
    /// Listens.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let services = Self { address, desk: Arc::default(), changes: Arc::new(watch::channel(()).0) };
        let router = Router::new().fallback(answer).with_state(services.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        services
    }

    /// `text` with its services' addresses led here.
    pub fn led_here(&self, text: &str) -> String {
        let address = Regex::new(r"http://([a-z]+:\d+|127\.0\.0\.1:9\d{3})").unwrap();
        address.replace_all(text, format!("http://{}/$1", self.address)).into_owned()
    }

    /// The next answer of a service, by its address.
    pub fn will_answer(&self, url: &str, answer: Answer) {
        self.desk().answers.entry(path(url).to_owned()).or_default().push_back(answer);
    }

    /// What a service was asked the `n`th time, once it was.
    pub async fn asked(&self, url: &str, n: usize) -> Value {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(asked) = self.desk().asked.get(path(url)).and_then(|all| all.get(n)) {
                return asked.clone();
            }
            changes.changed().await.unwrap();
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `http://orders:9000/bot` is `orders:9000/bot` here.
fn path(url: &str) -> &str {
    url.trim_start_matches("http://").trim_start_matches('/')
}

async fn answer(State(services): State<Services>, uri: Uri, body: Bytes) -> Response {
    let name = path(uri.path()).to_owned();
    let answer = services.desk().answers.get_mut(&name).and_then(VecDeque::pop_front);
    let asked = serde_json::from_slice(&body).unwrap_or(Value::Null);
    services.desk().asked.entry(name).or_default().push(asked);
    let _ = services.changes.send(());
    match answer {
        Some((status, Some(body))) => (StatusCode::from_u16(status).unwrap(), Json(body)).into_response(),
        Some((status, None)) => StatusCode::from_u16(status).unwrap().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
