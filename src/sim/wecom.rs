//! The fake WeCom: group robots' webhooks as WeCom serves them, on loopback, which checks what reaches it.
//!
//! A robot belongs to one chat and is known by its key. A send counts as arrived when WeCom would have taken it: errcode
//! 0, or an answer that was delayed or cut after the request was read; a refusal or a broken gateway's 5xx is no arrival. What it
//! checks by itself goes to the [`Ledger`]: one send at a time per robot, the right chat, no repeat, order, rate and byte limits.
//! The team's own service ([`Service`]) listens at the same address under `/action/{name}`.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::behaviour::{Answer, Behaviour, Gate, Options, Rate, Refusal};
use super::ledger::Ledger;
use super::service::{self, Service};
use super::violation::Violation;
use super::wire::{Scissors, WireListener};

/// A send that arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Key of the robot.
    pub key: String,
    /// The robot's chat.
    pub chat: String,
    /// Its text, whatever kind it is.
    pub text: String,
    /// The whole body.
    pub body: Value,
}

#[derive(Debug)]
struct Robot {
    chat: String,
    under_way: usize,
    posts: usize,
    script: VecDeque<Behaviour>,
    always: Option<Behaviour>,
    window: VecDeque<Instant>,
    gate: Gate,
}

#[derive(Debug)]
struct Robots {
    by_key: HashMap<String, Robot>,
    arrived: Vec<Arrived>,
    dice: Option<(StdRng, Vec<(f64, Behaviour)>)>,
}

struct Desk {
    robots: Mutex<Robots>,
    options: Options,
    ledger: Arc<Ledger>,
}

/// The fake WeCom. Stops when it is dropped.
pub struct FakeWeCom {
    addr: SocketAddr,
    desk: Arc<Desk>,
    service: Arc<Service>,
    closing: CancellationToken,
    server: Option<JoinHandle<()>>,
}

impl FakeWeCom {
    /// Listens on a free loopback port.
    pub async fn start(options: Options) -> std::io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), options).await
    }

    /// Listens at `addr`.
    pub async fn start_at(addr: SocketAddr, options: Options) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let dice = options.mix.as_ref().map(|mix| (StdRng::seed_from_u64(mix.seed), mix.of.clone()));
        let service = Arc::new(Service::new(&options, Arc::clone(&ledger)));
        let robots = Mutex::new(Robots { by_key: HashMap::new(), arrived: Vec::new(), dice });
        let desk = Arc::new(Desk { robots, options, ledger });
        let router = Router::new()
            .route("/cgi-bin/webhook/send", post(send))
            .with_state(Arc::clone(&desk))
            .merge(service::router(Arc::clone(&service)))
            .layer(DefaultBodyLimit::max(8 << 20));
        let closing = CancellationToken::new();
        let closed = closing.clone().cancelled_owned();
        let serve = axum::serve(WireListener(listener), router.into_make_service_with_connect_info::<Scissors>())
            .with_graceful_shutdown(closed);
        let server = tokio::spawn(async move {
            // `serve` has no way to fail.
            let _ = serve.await;
        });
        Ok(Self { addr, desk, service, closing, server: Some(server) })
    }

    /// `http://host:port`, for `[wecom] api_base` and action URLs.
    pub fn base(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What action requests are signed with, where they are.
    pub fn action_secret(&self) -> Option<&str> {
        self.desk.options.action_secret.as_deref()
    }

    /// Sets up the robot of `chat` and answers its webhook.
    pub fn webhook(&self, key: &str, chat: &str) -> String {
        self.desk.robots().by_key.entry(key.to_owned()).or_insert_with(|| Robot::new(chat));
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("key", key).finish();
        format!("{}/cgi-bin/webhook/send?{query}", self.base())
    }

    /// What the robot does with its next sends, in order; after them it is ordinary again.
    pub fn script(&self, key: &str, behaviours: impl IntoIterator<Item = Behaviour>) {
        if let Some(robot) = self.desk.robots().by_key.get_mut(key) {
            robot.script.extend(behaviours);
        }
    }

    /// What the robot does with every send that no script names.
    pub fn always(&self, key: &str, behaviour: impl Into<Behaviour>) {
        if let Some(robot) = self.desk.robots().by_key.get_mut(key) {
            robot.always = Some(behaviour.into());
        }
    }

    /// Holds this robot's answers back until [`FakeWeCom::release`].
    pub fn hold(&self, key: &str) {
        self.desk.gate(key).hold();
    }

    /// Lets them go.
    pub fn release(&self, key: &str) {
        self.desk.gate(key).release();
    }

    /// Sends that arrived, in order.
    pub fn arrived(&self) -> Vec<Arrived> {
        self.desk.robots().arrived.clone()
    }

    /// Texts that arrived by this robot, in order.
    pub fn texts(&self, key: &str) -> Vec<String> {
        self.desk.robots().arrived.iter().filter(|a| a.key == key).map(|a| a.text.clone()).collect()
    }

    /// How many posts this robot got, refused ones too.
    pub fn posts(&self, key: &str) -> usize {
        self.desk.robots().by_key.get(key).map_or(0, |robot| robot.posts)
    }

    /// Posts to this robot that wait for their answer now.
    pub fn under_way(&self, key: &str) -> usize {
        self.desk.robots().by_key.get(key).map_or(0, |robot| robot.under_way)
    }

    /// The team's own service.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// What it saw.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.desk.ledger
    }

    /// Waits until `holds` of this fake; looks again at everything that reaches it.
    pub async fn until(&self, mut holds: impl FnMut(&Self) -> bool) {
        let mut changes = self.ledger().changes();
        while !holds(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Answers what is under way, then closes.
    pub async fn stop(mut self) {
        self.closing.cancel();
        if let Some(server) = self.server.take() {
            let _ = server.await;
        }
    }
}

impl Drop for FakeWeCom {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl Robot {
    fn new(chat: &str) -> Self {
        let (chat, script, window) = (chat.to_owned(), VecDeque::new(), VecDeque::new());
        Self { chat, under_way: 0, posts: 0, script, always: None, window, gate: Gate::default() }
    }

    /// Whether one more send now stays within `rate`; takes its place if so.
    fn within(&mut self, rate: Rate, now: Instant) -> bool {
        while self.window.front().is_some_and(|first| now.duration_since(*first) >= rate.window) {
            self.window.pop_front();
        }
        let room = self.window.len() < rate.limit;
        if room {
            self.window.push_back(now);
        }
        room
    }
}

impl Robots {
    fn draw(&mut self) -> Option<Behaviour> {
        let (dice, faces) = self.dice.as_mut()?;
        let mut point: f64 = dice.random();
        faces.iter().find_map(|(chance, behaviour)| {
            point -= chance;
            (point < 0.0).then(|| behaviour.clone())
        })
    }

    /// What the robot of `key` does with the next send: script, then always, then the mix.
    fn behaviour(&mut self, key: &str) -> Behaviour {
        let own = self.by_key.get_mut(key).and_then(|r| r.script.pop_front().or_else(|| r.always.clone()));
        own.or_else(|| self.draw()).unwrap_or(Answer::Taken.into())
    }
}

impl Desk {
    fn robots(&self) -> MutexGuard<'_, Robots> {
        self.robots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate of a robot; one that nobody shuts where there is no such robot.
    fn gate(&self, key: &str) -> Gate {
        self.robots().by_key.get(key).map(|robot| robot.gate.clone()).unwrap_or_default()
    }

    /// Takes a send in: checks it, decides what happens to it, and records it if it arrives.
    fn arrive(&self, key: &str, body: &[u8]) -> Option<Behaviour> {
        let mut robots = self.robots();
        let Some(robot) = robots.by_key.get_mut(key) else {
            drop(robots);
            self.ledger.violate(Violation::ForeignWebhook);
            return None;
        };
        let chat = robot.chat.clone();
        (robot.under_way, robot.posts) = (robot.under_way + 1, robot.posts + 1);
        if robot.under_way > 1 {
            self.ledger.violate(Violation::SendsOverlap(chat.clone()));
        }
        let (text, body) = match read(body) {
            Ok(read) => read,
            Err((code, why)) => {
                self.ledger.violate(Violation::BadMessage { chat, why });
                return Some(Answer::Errcode(code).into());
            }
        };
        if self.options.rate.is_some_and(|rate| !robot.within(rate, Instant::now())) {
            self.ledger.refused(&chat, &text, Refusal::ForNow);
            self.ledger.violate(Violation::OverRate(chat));
            return Some(Answer::Errcode(45009).into());
        }
        let behaviour = robots.behaviour(key);
        // Under the lock, so that the ledger sees a chat's replies in the order in which they came.
        match behaviour.answer.refusal() {
            Some(refusal) => self.ledger.refused(&chat, &text, refusal),
            None => {
                self.ledger.replied(&chat, &text);
                if !self.options.forget {
                    robots.arrived.push(Arrived { key: key.to_owned(), chat, text, body });
                }
            }
        }
        self.ledger.stir();
        Some(behaviour)
    }
}

/// The text of a robot message; errcode and reason where no robot takes it.
fn read(body: &[u8]) -> Result<(String, Value), (i64, &'static str)> {
    let body: Value = serde_json::from_slice(body).map_err(|_| (40008, "no JSON"))?;
    let kind = body["msgtype"].as_str().ok_or((40008, "no msgtype"))?;
    let limit = match kind {
        "text" => 2048,
        "markdown" | "markdown_v2" => 4096,
        "image" | "news" | "file" | "voice" | "template_card" if body[kind].is_object() => {
            return Ok((String::new(), body));
        }
        _ => return Err((40008, "an unknown msgtype")),
    };
    let text = body[kind]["content"].as_str().ok_or((44004, "no content"))?;
    match text.len() {
        0 => Err((44004, "an empty content")),
        n if n > limit => Err((40058, "a content over its byte limit")),
        _ => Ok((text.to_owned(), body)),
    }
}

/// One send under way; ends when its answer is ready or its client has gone.
struct UnderWay {
    desk: Arc<Desk>,
    key: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(robot) = self.desk.robots().by_key.get_mut(&self.key) {
            robot.under_way -= 1;
        }
        self.desk.ledger.stir();
    }
}

#[derive(Deserialize)]
struct SendQuery {
    key: String,
}

async fn send(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(SendQuery { key }): Query<SendQuery>,
    body: Bytes,
) -> Response {
    let Some(behaviour) = desk.arrive(&key, &body) else {
        return errcode(93000);
    };
    let gate = desk.gate(&key);
    let _under_way = UnderWay { desk: Arc::clone(&desk), key };
    tokio::time::sleep(behaviour.delay.unwrap_or(desk.options.latency)).await;
    gate.pass().await;
    match behaviour.answer {
        Answer::Taken => errcode(0),
        Answer::Errcode(code) => errcode(code),
        Answer::Status(status) => {
            (StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY), "bad gateway").into_response()
        }
        Answer::Html => ([(header::CONTENT_TYPE, "text/html")], "<html><body>502</body></html>").into_response(),
        Answer::Cut => {
            scissors.cut();
            StatusCode::OK.into_response()
        }
    }
}

/// WeCom's way to answer: HTTP 200, and the truth in the body.
fn errcode(code: i64) -> Response {
    let errmsg = match code {
        0 => "ok",
        93000 => "invalid webhook url",
        45009 => "api freq out of limit",
        _ => "scripted",
    };
    axum::Json(json!({"errcode": code, "errmsg": errmsg})).into_response()
}
