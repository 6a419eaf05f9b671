//! A listener with a store and records behind it, and the steps of a message as workers and senders take them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use wecom_gateway::admin::{self, AdminState};
use wecom_gateway::alarms::Alarms;
use wecom_gateway::config;
use wecom_gateway::config::settings::Database;
use wecom_gateway::config::settings::{AdminToken, Scope};
use wecom_gateway::hands::Hands;
use wecom_gateway::model::{ChatKind, Delivery, Lane, Message, Outcome, Secret, SenderKind, delivery_id, now_ms};
use wecom_gateway::push;
use wecom_gateway::records::{Flusher, Records};
use wecom_gateway::sender::Holds;
use wecom_gateway::setup::{InForce, Reloader};
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::store::{Arrival, Begin, Begun, Commit, Committed, Enqueued, Fate, Line, Settle, Stage, Turn};
use wecom_gateway::telemetry::Telemetry;

const LEASE: Duration = Duration::from_secs(30);
const TURN: Turn = Turn { weight: 1, head_start: Duration::from_secs(5) };

const GATEWAY: &str = r#"
[server]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
"#;

const SUPPORT: &str = r#"
kind = "group_robot"
token = "token"
encoding_aes_key = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
[[chats]]
id = "wrA"
name = "VIP 群"
weight = 10
webhook = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k-a"
[[chats]]
id = "wrB"
webhook = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k-b"
"#;

/// A listener with everything behind it, but no loops: each step is taken by the test.
pub struct Desk {
    pub state: AdminState,
    pub folder: TempDir,
    pub address: SocketAddr,
    pub http: reqwest::Client,
}

impl Desk {
    pub async fn open() -> Self {
        Self::with_tokens(&[]).await
    }

    pub async fn with_tokens(secrets: &[&str]) -> Self {
        Self::with(secrets.iter().map(|secret| (*secret, Scope::Read)).collect()).await
    }

    /// With these tokens, each named by its secret.
    pub async fn with(tokens: Vec<(&str, Scope)>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = TempDir::new().expect("a folder");
        std::fs::create_dir(folder.path().join("apps")).expect("a folder");
        std::fs::write(folder.path().join("gateway.toml"), GATEWAY).expect("writes");
        std::fs::write(folder.path().join("apps/support.toml"), SUPPORT).expect("writes");
        let mut settings = config::load(&folder.path().join("gateway.toml")).expect("good settings");
        let token =
            |(secret, scope): (&str, Scope)| AdminToken { name: secret.into(), secret: Secret::new(secret), scope };
        settings.admin.tokens = tokens.into_iter().map(token).collect();
        let store = EmbeddedStore::open(&folder.path().join("store"), 1).expect("opens");
        let in_force = InForce::new(settings).expect("sound rules");
        let records = open_records(&folder).await;
        let state = AdminState {
            desk: Arc::new(push::Desk::new(store.clone(), in_force.clone(), Telemetry::unheard())),
            hands: Arc::new(Hands::new(store.clone(), records.clone(), in_force.clone())),
            holds: Arc::new(Holds::new(store.clone())),
            reloader: Arc::new(Reloader::new(in_force.clone(), None, store.clone(), Arc::default())),
            store,
            spool: None,
            records,
            in_force,
            recent: Arc::default(),
            alarms: Alarms::unheard(Arc::default()),
            metrics: Arc::default(),
            kafka: None,
            spans: Default::default(),
            health: Arc::default(),
            refusals: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        let service = admin::router(state.clone()).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { state, folder, address, http: reqwest::Client::new() }
    }

    pub async fn get(&self, path: &str) -> Response {
        self.http.get(format!("http://{}{path}", self.address)).send().await.expect("an answer")
    }

    /// Sends a body as it stands.
    pub async fn send_body(&self, method: Method, path: &str, body: &str) -> Response {
        let request = self.http.request(method, format!("http://{}{path}", self.address));
        let request = request.header("content-type", "application/json").bearer_auth("admin").body(body.to_owned());
        request.send().await.expect("an answer")
    }

    pub async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.expect("json")
    }

    /// The only item of a list.
    pub async fn only(&self, path: &str) -> Value {
        let list = self.json(path).await;
        assert_eq!((list["items"].as_array().map(Vec::len), &list["next"]), (Some(1), &Value::Null), "{list}");
        list["items"][0].clone()
    }

    pub fn flusher(&self, records: Records) -> Flusher {
        let AdminState { store, alarms, metrics, health, .. } = self.state.clone();
        let retain = Duration::from_secs(3600);
        let zone = records.zone().clone();
        let database = Database { url: Secret::default(), retain, journal_limit: 1000, zone, stats_retain: retain };
        Flusher::new(
            store,
            records,
            Arc::default(),
            Arc::default(),
            &database,
            Telemetry { alarms, metrics, health, spans: Default::default() },
        )
    }

    /// Carries what is in the journal now into the records: what a flusher does when it is told to stop.
    pub async fn flush(&self) {
        let stop = CancellationToken::new();
        stop.cancel();
        self.flusher(self.state.records.clone()).run(stop).await;
        assert_eq!(self.state.store.depth().await.expect("answers").journal, 0);
    }

    pub async fn accept(&self, chat: &str, msg_id: &str, request_id: &str) -> Enqueued {
        let message = message(chat, msg_id, request_id);
        let lane = Lane::of_sender("support", chat, "wmA");
        let age = Duration::from_secs(600);
        let arrival = Arrival { message, lane, max_age: age, mark_ttl: age, depth_limit: 100, repeated: false };
        self.state.store.enqueue(vec![arrival]).await.expect("stores")[0]
    }

    /// Handles the next message: its action gives one reply, for the route of its chat.
    pub async fn handle(&self) {
        let mut claimed = self.state.store.claim_messages(1, LEASE).await.expect("claims");
        let claimed = claimed.items.pop().expect("a message");
        let message = claimed.message;
        let id = delivery_id(&message.request_id, 0);
        let route = self.state.in_force.routes().of("support", &message.chat_id).expect("a route").digest.clone();
        let reply = Delivery {
            id: id.clone(),
            request_id: message.request_id.clone(),
            key: message.key(),
            app: message.app.clone(),
            chat_id: message.chat_id.clone(),
            reply_to: message.reply_to(),
            push: None,
            message: json!({"msgtype": "text", "text": {"content": "hi"}}),
            route,
            bound: false,
            repeat_until: None,
            expires_at: now_ms() + 600_000,
            received_at: message.received_at,
            queued_at: message.received_at,
            trace: None,
        };
        let detail = json!({"rule": "echo", "trigger": "command", "action": "reply", "outcome": "queued",
            "reason": null, "replies": [{"id": id, "digest": "d"}], "elapsed_ms": 1});
        let commit = Commit {
            lease: claimed.lease,
            key: message.key(),
            request_id: message.request_id.clone(),
            mark_ttl: Duration::from_secs(600),
            exchange: None,
            replies: vec![reply.clone()],
            turn: TURN,
            depth_limit: 100,
            await_late: None,
            lines: vec![line(Stage::Handled, &reply, detail)],
        };
        assert_eq!(self.state.store.commit(vec![commit]).await.expect("commits"), [Committed::Done]);
    }

    /// Sends the next reply, which ends as `state` by `fate`.
    pub async fn send(&self, state: Outcome, errcode: i64, fate: Fate) {
        let mut claimed = self.state.store.claim_replies(1, LEASE).await.expect("claims");
        let claimed = claimed.items.pop().expect("a reply");
        let pace = wecom_gateway::store::Pace { limit: 20, window: Duration::from_secs(60) };
        let delivery = claimed.delivery;
        let begin = Begin {
            lease: claimed.lease.clone(),
            delivery_id: delivery.id.clone(),
            merged: 1,
            route: delivery.route.clone(),
            pace,
            lease_for: LEASE,
        };
        assert_eq!(self.state.store.begin(vec![begin]).await.expect("begins"), [Begun::Go]);
        let detail = json!({"delivery": delivery.id, "state": state.as_str(), "reason": "said_so",
            "errcode": errcode, "elapsed_ms": 2, "latency_ms": 3});
        let settle = Settle {
            lease: claimed.lease,
            delivery_id: delivery.id.clone(),
            merged: 1,
            fate,
            last_error: Some("93000 gone".into()),
            lines: vec![line(Stage::Settled, &delivery, detail)],
            child: None,
            go_on: None,
            turn: TURN,
        };
        self.state.store.settle(vec![settle]).await.expect("settles");
    }

    /// One message on its whole way.
    pub async fn life(&self, msg_id: &str, request_id: &str, state: Outcome) {
        assert_eq!(self.accept("wrA", msg_id, request_id).await, Enqueued::Stored);
        self.handle().await;
        let fate =
            if state == Outcome::Delivered { Fate::Delivered } else { Fate::Ended { back_off: None, chat_dead: None } };
        self.send(state, 0, fate).await;
    }
}

pub async fn open_records(folder: &TempDir) -> Records {
    let url = format!("sqlite://{}", folder.path().join("records.db").display());
    Records::open(&Secret::new(url)).await.expect("opens")
}

fn message(chat: &str, msg_id: &str, request_id: &str) -> Message {
    Message {
        request_id: request_id.into(),
        app: "support".into(),
        chat_id: chat.into(),
        chat_kind: ChatKind::Group,
        msg_id: msg_id.into(),
        sender_key: "wmA".into(),
        sender_kind: SenderKind::External,
        sender_name: None,
        msg_type: "text".into(),
        text: "/echo hi".into(),
        sent_at: None,
        received_at: now_ms(),
        response_url: None,
        trace: None,
    }
}

fn line(stage: Stage, delivery: &Delivery, detail: Value) -> Line {
    let detail = detail.as_object().cloned().expect("an object");
    Line { stage, request_id: delivery.request_id.clone(), key: delivery.key.clone(), detail }
}
