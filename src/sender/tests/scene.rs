//! A stage for pool tests: a store with an app's chats, replies queued the way the workers queue them, a sender to start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::robot::{Robot, within_reason};
use super::watched::{Event, Watched};
use crate::config::{Settings, settings};
use crate::model::{ChatKind, Delivery, Lane, Message, RouteDigest, Secret, SenderKind, delivery_id, now_ms};
use crate::sender::Sender;
use crate::sender::channel::http_client;
use crate::setup::InForce;
use crate::stop::Stop;
use crate::store::embedded::EmbeddedStore;
use crate::store::{
    Arrival, Begin, Begun, ChatStatus, Commit, Enqueued, Entry, Line, Pace, Settle, SharedStore, Stage, Store, Turn,
};
use crate::telemetry::Telemetry;
use crate::wecom::message::text;

pub const APP: &str = "support";
const MINUTE: Duration = Duration::from_secs(60);

/// See the module.
pub struct Scene {
    pub store: Arc<Watched>,
    pub sender: settings::Sender,
    /// Of chats that are routed from now on.
    pub pace: Pace,
    events: mpsc::UnboundedReceiver<Event>,
    chats: BTreeMap<String, settings::Chat>,
    messages: AtomicUsize,
    _folder: TempDir,
}

/// A sender at work.
pub struct Running {
    pub stop: Stop,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it and waits until it has ended.
    pub async fn finish(self) {
        self.stop.draining.cancel();
        within_reason(self.task).await.expect("no panic");
    }
}

impl Scene {
    /// A chat for each name, reached by the webhook of the same name at `robot`.
    pub async fn new(robot: &Robot, chats: &[&str]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let inner: SharedStore = EmbeddedStore::open(folder.path(), 1).expect("a store");
        let (store, events) = Watched::new(inner);
        let sender = settings::Sender { max_chats: 4, timeout: MINUTE, lease: MINUTE * 3, head_start: Duration::ZERO };
        let mut scene = Self {
            store: Arc::new(store),
            sender,
            pace: Pace { limit: 1000, window: MINUTE },
            events,
            chats: BTreeMap::new(),
            messages: AtomicUsize::new(0),
            _folder: folder,
        };
        for chat in chats {
            scene.route(chat, &robot.webhook(chat));
        }
        scene
    }

    /// Gives `chat` this webhook.
    pub fn route(&mut self, chat: &str, webhook: &str) {
        let webhook = settings::Webhook { url: Secret::new(webhook), digest: RouteDigest::of("group_robot", webhook) };
        let chat = settings::Chat {
            id: chat.to_owned(),
            name: None,
            weight: 1,
            pace: self.pace,
            coalesce: true,
            way: Some(settings::ChatWay::Webhook(webhook)),
        };
        self.chats.insert(chat.id.clone(), chat);
    }

    /// The route of `chat` as it would be recorded now.
    pub fn digest(&self, chat: &str) -> RouteDigest {
        let webhook = self.chats.get(chat).and_then(|chat| chat.webhook());
        webhook.map_or_else(|| RouteDigest::from_encoded(""), |webhook| webhook.digest.clone())
    }

    /// Queues a text for each of `texts` as replies to one message of `chat`.
    pub async fn queue(&self, chat: &str, texts: &[&str]) {
        self.queue_with(chat, texts, |_| {}).await;
    }

    /// As [`Scene::queue`], with each delivery changed before.
    pub async fn queue_with(&self, chat: &str, texts: &[&str], change: impl Fn(&mut Delivery)) {
        let n = self.messages.fetch_add(1, Ordering::Relaxed);
        let message = message(chat, n);
        let arrival = Arrival {
            lane: Lane::of_sender(APP, chat, &message.sender_key),
            message: message.clone(),
            max_age: MINUTE * 10,
            mark_ttl: MINUTE * 60,
            depth_limit: 1000,
            repeated: false,
        };
        assert_eq!(self.store.enqueue(vec![arrival]).await.expect("stored"), [Enqueued::Stored]);
        let claimed = self.store.claim_messages(1, MINUTE).await.expect("claimed").items.remove(0);
        let replies = texts.iter().enumerate().map(|(seq, content)| {
            let mut delivery = Delivery {
                id: delivery_id(&message.request_id, seq),
                request_id: message.request_id.clone(),
                key: message.key(),
                app: APP.to_owned(),
                chat_id: chat.to_owned(),
                reply_to: message.reply_to(),
                push: None,
                message: text(content),
                route: self.digest(chat),
                bound: false,
                repeat_until: None,
                expires_at: now_ms() + 600_000,
                received_at: message.received_at,
                queued_at: message.received_at,
                trace: None,
            };
            change(&mut delivery);
            delivery
        });
        let commit = Commit {
            lease: claimed.lease,
            key: message.key(),
            request_id: message.request_id.clone(),
            mark_ttl: MINUTE * 60,
            exchange: None,
            replies: replies.collect(),
            turn: Turn { weight: 1, head_start: Duration::ZERO },
            depth_limit: 1000,
            await_late: None,
            lines: Vec::new(),
        };
        self.store.commit(vec![commit]).await.expect("committed");
    }

    /// A process begins the head of `chat`, the one lane that can be claimed, and dies.
    pub async fn begin_and_leave(&self, chat: &str) {
        let lease_for = Duration::from_millis(500);
        let claimed = self.store.claim_replies(1, lease_for).await.expect("claimed").items.remove(0);
        let begin = Begin {
            lease: claimed.lease,
            delivery_id: claimed.delivery.id,
            merged: 1,
            route: self.digest(chat),
            pace: Pace { limit: 20, window: MINUTE },
            lease_for,
        };
        assert_eq!(self.store.begin(vec![begin]).await.expect("begun"), [Begun::Go]);
    }

    /// Starts a sender.
    pub fn start(&self) -> Running {
        let in_force = InForce::new(self.settings()).expect("sound rules");
        let settings = in_force.settings();
        let sender = Sender::new(
            self.store.clone(),
            in_force,
            http_client(&settings.sender).expect("a client"),
            Telemetry::unheard(),
        );
        let stop = Stop::default();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { sender.run(stop).await }
        });
        Running { stop, task }
    }

    /// The next thing that the sender did to the store.
    pub async fn event(&mut self) -> Event {
        within_reason(self.events.recv()).await.expect("the store lives")
    }

    /// The next settle that was applied and answered.
    pub async fn settled(&mut self) -> Settle {
        loop {
            match self.event().await {
                Event::Settled(settle) => return *settle,
                Event::Lost | Event::Renewed | Event::Failed => {}
            }
        }
    }

    /// What the next settle's line says: state (or `retried`) and reason.
    pub async fn verdict(&mut self) -> (String, String) {
        let settle = self.settled().await;
        let line = settle.lines.first().expect("a line");
        let state = if line.stage == Stage::Settled { word(line, "state") } else { line.stage.as_str().to_owned() };
        (state, word(line, "reason"))
    }

    /// The state of each delivery that ended, as the journal has it.
    pub async fn ended(&self) -> Vec<(String, String)> {
        let batches = self.store.read_journal(1000).await.expect("the journal");
        let lines = batches.iter().flat_map(|batch| &batch.lines);
        let ends = lines.filter_map(|line| Entry::parse(line)).filter(|entry| entry.line.stage == Stage::Settled);
        ends.map(|entry| (word(&entry.line, "delivery"), word(&entry.line, "state"))).collect()
    }

    /// The chat as the store shows it.
    pub async fn status(&self, chat: &str) -> ChatStatus {
        self.store.chats(vec![Lane::of_chat(APP, chat)]).await.expect("status").remove(0)
    }

    fn settings(&self) -> Settings {
        let kind = settings::AppKind::Json(settings::JsonAuth::None);
        let app = settings::App { chats: self.chats.clone(), ..settings::App::for_tests(APP, kind) };
        let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        Settings {
            server: settings::Server {
                listen: nowhere,
                max_body: 1 << 20,
                deadline: Duration::from_secs(2),
                drain: MINUTE,
                watch: None,
            },
            admin: settings::Admin { listen: nowhere, tokens: Vec::new() },
            wecom: settings::WeCom {
                api_base: "http://127.0.0.1/".parse().expect("a URL"),
                webhook_hosts: vec!["127.0.0.1".to_owned()],
            },
            kafka: None,
            telemetry: None,
            store: settings::Store {
                backend: settings::Backend::Embedded,
                path: PathBuf::new(),
                redis: Secret::default(),
                shards: 1,
                replicas: 0,
                lane_depth: 1000,
                spool_limit: None,
                max_waiting: 1000,
                fsync: true,
            },
            database: settings::Database {
                url: Secret::default(),
                retain: MINUTE,
                journal_limit: 1000,
                zone: Default::default(),
                stats_retain: MINUTE,
            },
            dedup: settings::Dedup { ttl: MINUTE * 60, window: Duration::ZERO, max_skew: None },
            workers: settings::Workers {
                concurrency: 1,
                lease: MINUTE,
                order: settings::Order::Sender,
                poison_after: 5,
            },
            sender: self.sender.clone(),
            push: settings::Push { keep: MINUTE, ask_after: MINUTE, compensate_after: MINUTE, compensate_looks: 7 },
            alarms: settings::Alarms { webhook: None, hook: None, window: MINUTE },
            log: settings::Log {
                format: settings::LogFormat::Text,
                level: "info".to_owned(),
                content: crate::telemetry::LogContent::Digest,
            },
            report: settings::Report { webhook: None, at: jiff::civil::time(9, 0, 0, 0) },
            files: Default::default(),
            apps: BTreeMap::from([(APP.to_owned(), Arc::new(app))]),
        }
    }
}

fn word(line: &Line, key: &str) -> String {
    line.detail.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

fn message(chat: &str, n: usize) -> Message {
    Message {
        request_id: format!("r{n}"),
        app: APP.to_owned(),
        chat_id: chat.to_owned(),
        chat_kind: ChatKind::Group,
        msg_id: format!("m{n}"),
        sender_key: "u1".to_owned(),
        sender_kind: SenderKind::External,
        sender_name: None,
        msg_type: "text".to_owned(),
        text: String::new(),
        sent_at: None,
        received_at: now_ms(),
        response_url: None,
        trace: None,
    }
}
