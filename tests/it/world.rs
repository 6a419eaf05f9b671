//! A whole gateway in this process between a caller and a fake WeCom, on either store.
//!
//! Nothing here looks inside the gateway. Where a test must know that something did *not* happen, it sends one more
//! message behind it ([`World::fence`]): lanes are first in, first out, so what has not come by then never will.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use wecom_gateway::app::App;
use wecom_gateway::config::settings::AppKind;
use wecom_gateway::model::Secret;
use wecom_gateway::sim::scenario::{robot_app, robot_key};
use wecom_gateway::sim::{Caller, FakeWeCom, Options, Scenario, Tag, robot_text};
use wecom_gateway::wecom::crypto::{CallbackCrypto, ReceiveId};

use crate::openapi;
use crate::redis_server::{DURABLE, RedisServer};

/// The app that most tests need.
pub const APP: &str = "support";
/// Serials of fences begin above those that tests give.
const FENCES: u64 = 1_000_000;
/// No test may take longer.
pub const TEST: Duration = Duration::from_secs(60);

/// Where lanes are kept.
#[derive(Clone, Copy, Debug)]
pub enum On {
    Embedded,
    Redis,
}

pub struct World {
    pub fake: FakeWeCom,
    pub app: App,
    pub caller: Caller,
    http: reqwest::Client,
    scenario: Scenario,
    redis: Option<RedisServer>,
    serial: AtomicU64,
}

/// `c1` of [`APP`] is the robot `support-c1`.
pub fn key(chat: &str) -> String {
    robot_key(APP, chat)
}

impl World {
    /// A gateway with one group robot app, with a robot in each of `chats`.
    pub async fn new(on: On, chats: &[&str]) -> Self {
        Self::with(on, chats, Options::default(), |_, scenario| scenario).await
    }

    /// As [`World::new`], with a fake and a configuration of its own.
    pub async fn with(
        on: On,
        chats: &[&str],
        options: Options,
        shape: impl FnOnce(&FakeWeCom, Scenario) -> Scenario,
    ) -> Self {
        let fake = FakeWeCom::start(Options { action_secret: Some("s3cret".into()), ..options }).await.unwrap();
        let redis = matches!(on, On::Redis).then(|| RedisServer::spawn(DURABLE));
        let chats: Vec<String> = chats.iter().map(|chat| chat.to_string()).collect();
        let mut scenario = Scenario::new(&fake).unwrap().app(APP, robot_app(&fake, APP, &chats));
        if let Some(redis) = &redis {
            scenario = scenario.on_redis(redis.url().expose());
        }
        let scenario = shape(&fake, scenario);
        let (app, caller) = start(&scenario).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { fake, app, caller, http, scenario, redis, serial: AtomicU64::new(FENCES) }
    }

    /// Another process on the same store, with a folder of its own.
    pub async fn second(&self) -> App {
        let mut settings = wecom_gateway::config::load(&self.scenario.write().unwrap()).unwrap();
        settings.store.path.push("second");
        App::start(settings).await.unwrap()
    }

    /// Posts what was decrypted, once; the gateway must take it.
    pub async fn post_callback(&self, payload: &str) {
        assert_eq!(self.caller.post(payload).await, Some(200), "{payload}");
    }

    /// Posts a text once; the gateway must take it.
    pub async fn say(&self, chat: &str, sender: &str, msg_id: &str, text: &str) {
        let status = self.caller.post(&robot_text(chat, sender, msg_id, text)).await;
        assert_eq!(status, Some(200), "{msg_id} from {sender} in {chat}");
    }

    /// A caller of another app.
    pub fn caller_of(&self, app: &str) -> Caller {
        caller(&self.app, &self.scenario, app)
    }

    /// Sends a message and waits for its reply: what that member was to get before it has come by then.
    pub async fn fence(&self, chat: &str, sender: &str) {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let tag = Tag::new(chat, sender, serial);
        self.say(chat, sender, &format!("fence-{serial}"), &format!("/echo {tag}")).await;
        let text = tag.to_string();
        self.fake.until(|fake| fake.texts(&key(chat)).contains(&text)).await;
    }

    /// Texts that arrived in a chat, without those of fences.
    pub fn texts(&self, chat: &str) -> Vec<String> {
        let fence = |text: &String| Tag::of(text).is_some_and(|tag| tag.serial >= FENCES);
        self.fake.texts(&key(chat)).into_iter().filter(|text| !fence(text)).collect()
    }

    /// `GET /api/v1/…`, as often as it takes until the answer holds.
    pub async fn api(&self, path: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let url = format!("http://{}/api/v1/{path}", self.app.admin_addr());
        let mut again = tokio::time::interval(Duration::from_millis(20));
        loop {
            again.tick().await;
            let answer = self.http.get(&url).send().await.unwrap();
            let (_, answer) = as_described("GET", answer).await;
            if holds(&answer) {
                return answer;
            }
        }
    }

    /// `POST /api/v1/…`: status and answer.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call(Method::POST, path, body).await
    }

    /// Any request to `/api/v1/…`: status and answer.
    pub async fn call(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("http://{}/api/v1/{path}", self.app.admin_addr());
        let answer = self.http.request(method.clone(), &url).json(body).send().await.unwrap();
        as_described(method.as_str(), answer).await
    }

    /// `DELETE /api/v1/…`: the status.
    pub async fn delete(&self, path: &str) -> u16 {
        let url = format!("http://{}/api/v1/{path}", self.app.admin_addr());
        as_described("DELETE", self.http.delete(&url).send().await.unwrap()).await.0
    }

    /// `PATCH /api/v1/chats/…`: status and answer.
    pub async fn patch(&self, chat: &str, body: &Value) -> (u16, Value) {
        let url = format!("http://{}/api/v1/chats/{APP}/{chat}", self.app.admin_addr());
        as_described("PATCH", self.http.patch(&url).json(body).send().await.unwrap()).await
    }

    /// Waits until so many replies stand in the lane of a chat.
    pub async fn until_waiting(&self, chat: &str, depth: usize) {
        self.api(&format!("chats/{APP}/{chat}"), |status| status["depth"] == depth).await;
    }

    /// Another gateway on the store of a world on Redis, with files of its own. It takes no callbacks of this world's caller.
    pub async fn beside(&mut self, shape: impl FnOnce(&FakeWeCom, Scenario) -> Scenario) -> (App, Scenario) {
        let url = self.redis().url();
        let scenario = shape(&self.fake, Scenario::new(&self.fake).unwrap().on_redis(url.expose()));
        let settings = wecom_gateway::config::load(&scenario.write().unwrap()).unwrap();
        (App::start(settings).await.unwrap(), scenario)
    }

    /// This gateway's `gateway.toml`.
    pub fn config(&self) -> PathBuf {
        self.scenario.write().unwrap()
    }

    /// `[database] url` of this gateway.
    pub fn records(&self) -> String {
        let settings = wecom_gateway::config::load(&self.scenario.write().unwrap()).unwrap();
        settings.database.url.expose().to_owned()
    }

    /// The server behind a world on Redis.
    pub fn redis(&mut self) -> &mut RedisServer {
        self.redis.as_mut().expect("this world is on Redis")
    }

    /// `GET /readyz`: status and body.
    pub async fn readyz(&self) -> (u16, Value) {
        as_described("GET", self.http.get(format!("http://{}/readyz", self.app.admin_addr())).send().await.unwrap())
            .await
    }

    /// `GET /livez`: status and body.
    pub async fn livez(&self) -> (u16, Value) {
        as_described("GET", self.http.get(format!("http://{}/livez", self.app.admin_addr())).send().await.unwrap())
            .await
    }

    /// Asks `/readyz` until its body holds.
    pub async fn until_ready(&self, mut holds: impl FnMut(&Value) -> bool) -> (u16, Value) {
        let mut again = tokio::time::interval(Duration::from_millis(20));
        loop {
            again.tick().await;
            let (status, body) = self.readyz().await;
            if holds(&body) {
                return (status, body);
            }
        }
    }

    /// `GET /metrics`
    pub async fn metrics(&self) -> String {
        self.metrics_of(&self.app).await
    }

    async fn metrics_of(&self, app: &App) -> String {
        let answer = self.http.get(format!("http://{}/metrics", app.admin_addr())).send().await.unwrap();
        answer.text().await.unwrap()
    }

    /// The value of a metric, by its name with its labels; 0 where it was not counted yet.
    pub async fn metric(&self, name: &str) -> u64 {
        self.metric_of(&self.app, name).await
    }

    /// … of this process.
    pub async fn metric_of(&self, app: &App, name: &str) -> u64 {
        let text = self.metrics_of(app).await;
        let name = format!("wecom_gateway_{name} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |value| value.parse().unwrap())
    }

    /// How many callbacks of [`APP`] ended like this.
    pub async fn callbacks(&self, result: &str) -> u64 {
        self.metric(&format!("callbacks_total{{app=\"{APP}\",result=\"{result}\"}}")).await
    }

    /// Waits until the trail of a message ends; its outcome and reason.
    pub async fn outcome(&self, msg_id: &str) -> (String, Option<String>) {
        let trail = self
            .api(&format!("messages/{msg_id}"), |answer| {
                answer["items"][0]["outcome"].as_str().is_some_and(|outcome| outcome != "queued")
            })
            .await;
        let item = &trail["items"][0];
        (item["outcome"].as_str().unwrap().to_owned(), item["reason"].as_str().map(str::to_owned))
    }

    /// Waits until the trail of a message ends as `outcome`.
    pub async fn ends(&self, msg_id: &str, outcome: &str) {
        self.api(&format!("messages/{msg_id}"), |answer| answer["items"][0]["outcome"] == outcome).await;
    }

    /// Stops the gateway; `during` runs once it takes no more callbacks. The fake stays.
    pub async fn stop_while(self, during: impl FnOnce(&FakeWeCom)) -> FakeWeCom {
        stop_while(self.app, &self.fake, during).await;
        self.fake
    }

    /// As [`World::stop_while`], then starts another gateway on the same files and store.
    pub async fn restart_while(self, during: impl FnOnce(&FakeWeCom)) -> Self {
        stop_while(self.app, &self.fake, during).await;
        let (app, caller) = start(&self.scenario).await;
        Self { app, caller, ..self }
    }

    /// Stops the gateway, then, once `between` is over, starts another one on the same files and store.
    pub async fn restart_after(self, between: impl Future<Output = ()>) -> Self {
        self.app.stop().await;
        between.await;
        let (app, caller) = start(&self.scenario).await;
        Self { app, caller, ..self }
    }

    /// Stops the gateway, then starts another one on the same store with a changed configuration.
    pub async fn restart_as(self, shape: impl FnOnce(&FakeWeCom, Scenario) -> Scenario) -> Self {
        self.app.stop().await;
        let scenario = shape(&self.fake, self.scenario);
        let (app, caller) = start(&scenario).await;
        Self { app, caller, scenario, ..self }
    }

    /// Writes a changed configuration and has it read; the answer to that. The caller is one of the new configuration, where
    /// that is sound.
    pub async fn reload_as(self, shape: impl FnOnce(&FakeWeCom, Scenario) -> Scenario) -> (Self, u16, Value) {
        let scenario = shape(&self.fake, self.scenario);
        scenario.write().unwrap();
        let world = Self { scenario, ..self };
        let (status, answer) = world.post("reload", &Value::Null).await;
        let caller = if status == 200 { world.caller_of(APP) } else { world.caller };
        (Self { caller, ..world }, status, answer)
    }

    /// The folder of its files.
    pub fn folder(&self) -> PathBuf {
        self.scenario.write().unwrap().parent().unwrap().to_owned()
    }

    /// Stops everything; whatever the fake saw must have been right.
    pub async fn end(self) {
        self.app.stop().await;
        assert_eq!(self.fake.ledger().violations(), []);
        self.fake.stop().await;
        drop(self.redis);
    }
}

/// Status and body of an answer of the admin listener, which are as the API describes them.
async fn as_described(method: &str, answer: reqwest::Response) -> (u16, Value) {
    let (status, path) = (answer.status().as_u16(), answer.url().path().to_owned());
    let body = answer.json().await.unwrap_or_default();
    openapi::hold(method, &path, status, &body);
    (status, body)
}

async fn stop_while(app: App, fake: &FakeWeCom, during: impl FnOnce(&FakeWeCom)) {
    let callbacks = app.callback_addr();
    let stopped = tokio::spawn(app.stop());
    while tokio::net::TcpStream::connect(callbacks).await.is_ok() {
        tokio::task::yield_now().await;
    }
    during(fake);
    stopped.await.unwrap();
}

/// Starts to stop a gateway that has something under way; answers once `/readyz` says so.
pub async fn draining(app: App) -> tokio::task::JoinHandle<()> {
    let readyz = format!("http://{}/readyz", app.admin_addr());
    let stopped = tokio::spawn(app.stop());
    let said = async {
        loop {
            let answer = reqwest::get(&readyz).await.unwrap();
            let (status, body) = (answer.status().as_u16(), answer.json::<Value>().await.unwrap());
            if body["draining"] == true {
                return assert!(status == 503 && body["ready"] == false && body["store"] == "up", "{status} {body}");
            }
        }
    };
    tokio::time::timeout(TEST, said).await.expect("it says that it drains");
    stopped
}

async fn start(scenario: &Scenario) -> (App, Caller) {
    let file = scenario.write().unwrap();
    let settings = wecom_gateway::config::load(&file).unwrap();
    let app = App::start_from(settings, file).await.unwrap();
    let caller = caller(&app, scenario, APP);
    (app, caller)
}

/// A caller of a gateway with this configuration.
pub fn caller(app: &App, scenario: &Scenario, id: &str) -> Caller {
    caller_at(app.callback_addr(), scenario, id)
}

/// As [`caller`], of a gateway that takes callbacks at this address.
pub fn caller_at(callbacks: SocketAddr, scenario: &Scenario, id: &str) -> Caller {
    let settings = wecom_gateway::config::load(&scenario.write().unwrap()).unwrap();
    let crypto = match &settings.apps[id].kind {
        AppKind::App(crypto) | AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto) => crypto.clone(),
        // Nothing is encrypted there; a caller has a key all the same.
        AppKind::Json(_) => {
            CallbackCrypto::new(Secret::new("t"), &Secret::new("a".repeat(43)), ReceiveId::Any).unwrap()
        }
    };
    Caller::new(format!("http://{callbacks}/callback/{id}"), crypto).unwrap()
}

/// Stamps each test on both stores, bounded in time.
#[macro_export]
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let test = super::$name($crate::world::On::Embedded);
                tokio::time::timeout($crate::world::TEST, test).await.expect("within its time");
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let test = super::$name($crate::world::On::Redis);
                tokio::time::timeout($crate::world::TEST, test).await.expect("within its time");
            })*
        }
    };
}
