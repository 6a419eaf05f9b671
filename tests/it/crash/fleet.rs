//! Gateways on one store, behind one address, between a fake WeCom that calls and sees everything.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use wecom_gateway::config::settings::AppKind;
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{Caller, FakeWeCom, Options, Scenario};

use super::front::Front;
use super::process::{Ended, Gateway};
use crate::redis_server::{DURABLE, RedisServer};
use crate::world::{APP, On};

/// How long WeCom waits in most of these tests before it pushes again; in truth 5 s.
pub const PUSH_AGAIN: Duration = Duration::from_secs(1);

/// What a fleet is made of.
pub struct Setup {
    pub on: On,
    pub gateways: usize,
    pub chats: Vec<String>,
    /// What each robot may send.
    pub pace: &'static str,
    pub fake: Options,
    /// Of messages and of replies: how long what a dead gateway held stays untouched on Redis.
    pub lease: Duration,
    /// WeCom's patience with a callback.
    pub push_again: Duration,
    /// `[log] level`
    pub log: &'static str,
    /// The robot of the fake that alarms are told by.
    pub alarm_robot: Option<&'static str>,
    /// What a mention does instead of asking the team's service.
    pub mention: Option<Value>,
    /// More of `gateway.toml`: sections, keys and values.
    pub more: Vec<(&'static str, &'static str, Value)>,
}

pub struct Fleet {
    pub fake: FakeWeCom,
    pub caller: Caller,
    pub front: Front,
    pub http: reqwest::Client,
    redis: Option<RedisServer>,
    places: Vec<Place>,
    _records: TempDir,
}

/// A gateway's folder and configuration, and the process that has it now.
struct Place {
    config: PathBuf,
    gateway: Option<Gateway>,
    _scenario: Scenario,
}

/// `c0`, `c1`, …
pub fn chats(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("c{n}")).collect()
}

impl Setup {
    /// One gateway, three chats; short leases where they must end, long ones where opening the store frees them.
    pub fn new(on: On) -> Self {
        Self {
            on,
            gateways: 1,
            chats: chats(3),
            pace: "100000/min",
            fake: Options::default(),
            lease: Duration::from_secs(if let On::Redis = on { 3 } else { 30 }),
            push_again: PUSH_AGAIN,
            log: "warn,wecom_gateway::app=info",
            alarm_robot: None,
            mention: None,
            more: Vec::new(),
        }
    }
}

impl Fleet {
    /// Folders and configuration files; no gateway runs yet.
    pub async fn new(setup: Setup) -> Self {
        let Setup { on, gateways, chats, pace, fake, lease, push_again, log, alarm_robot, mention, more } = setup;
        let fake = FakeWeCom::start(Options { action_secret: Some("s3cret".into()), ..fake }).await.unwrap();
        let redis = matches!(on, On::Redis).then(|| RedisServer::spawn(DURABLE));
        let records = tempfile::tempdir().unwrap();
        let (mut app, front) = (robot_app(&fake, APP, &chats), Front::start().await);
        app["chats_default"]["pace"] = pace.into();
        if let Some(action) = mention {
            app["mention"]["action"] = action;
        }
        let place = |_| {
            let mut scenario = Scenario::new(&fake).unwrap().app(APP, app.clone());
            if let Some(redis) = &redis {
                scenario = scenario.on_redis(redis.url().expose());
            }
            if let Some(robot) = alarm_robot {
                scenario = scenario.set("alarms", "webhook", fake.webhook(robot, "ops"));
            }
            let millis = |part: f64| format!("{}ms", lease.mul_f64(part).as_millis());
            let scenario = scenario
                .set("database", "url", format!("sqlite://{}", records.path().join("records.db").display()))
                .set("workers", "lease", millis(1.0))
                .set("sender", "lease", millis(1.0))
                .set("sender", "timeout", millis(0.48))
                .set("log", "level", log);
            let scenario = more.iter().fold(scenario, |s, (section, key, value)| s.set(section, key, value.clone()));
            Place { config: scenario.write().unwrap(), gateway: None, _scenario: scenario }
        };
        let places: Vec<Place> = (0..gateways).map(place).collect();
        let settings = wecom_gateway::config::load(&places[0].config).unwrap();
        let AppKind::GroupRobot(crypto) = settings.apps[APP].kind.clone() else { panic!("a group robot") };
        let caller = Caller::new(front.callback(APP), crypto).unwrap().patient_for(push_again);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { fake, caller, front, http, redis, places, _records: records }
    }

    /// As [`Fleet::new`], with all of its gateways.
    pub async fn started(setup: Setup) -> Self {
        let mut fleet = Self::new(setup).await;
        for place in 0..fleet.places.len() {
            fleet.start(place, None).await;
        }
        fleet
    }

    /// From now on WeCom calls at this address, whoever leads from there to the gateways.
    pub fn call_at(&mut self, address: SocketAddr) {
        self.caller = self.caller.clone().at(format!("http://{address}/callback/{APP}"));
    }

    pub fn size(&self) -> usize {
        self.places.len()
    }

    pub fn config(&self, place: usize) -> &PathBuf {
        &self.places[place].config
    }

    pub fn gateway(&self, place: usize) -> &Gateway {
        self.places[place].gateway.as_ref().expect("a gateway runs there")
    }

    /// Starts the gateway of this place, with a trap where one is named.
    pub async fn start(&mut self, place: usize, trap: Option<&str>) {
        let gateway = Gateway::start(self.config(place), trap).await;
        self.moves_in(place, gateway.unwrap_or_else(|ended| panic!("it ended: {ended:?}")));
    }

    /// Starts the gateway of this place and waits until it ends by itself: in a trap that what waits there may spring at any
    /// time, also before it takes callbacks.
    pub async fn starts_and_ends(&mut self, place: usize, trap: &str) -> Ended {
        match Gateway::start(self.config(place), Some(trap)).await {
            Ok(gateway) => self.moves_in(place, gateway),
            Err(ended) => return ended,
        }
        self.ends(place).await
    }

    fn moves_in(&mut self, place: usize, gateway: Gateway) {
        self.front.add(gateway.callbacks);
        self.places[place].gateway = Some(gateway);
    }

    /// Waits until the gateway of this place ends by itself.
    pub async fn ends(&mut self, place: usize) -> Ended {
        let gateway = self.places[place].gateway.take().expect("a gateway runs there");
        let address = gateway.callbacks;
        let ended = gateway.ends().await;
        self.front.remove(address);
        ended
    }

    /// `kill -9`
    pub fn kill(&mut self, place: usize) {
        let gateway = self.places[place].gateway.take().expect("a gateway runs there");
        let address = gateway.callbacks;
        gateway.kill();
        self.front.remove(address);
    }

    /// SIGTERM, and waits for its end.
    pub async fn terminate(&mut self, place: usize) -> Ended {
        let gateway = self.places[place].gateway.take().expect("a gateway runs there");
        let address = gateway.callbacks;
        let ended = gateway.terminate().await;
        self.front.remove(address);
        ended
    }

    /// `kill -9` of Redis, away for `outage`, and back on the same folder.
    pub async fn kill_redis(&mut self, outage: Duration) {
        self.take_redis_away();
        tokio::time::sleep(outage).await;
        self.bring_redis_back();
    }

    /// `kill -9` of Redis.
    pub fn take_redis_away(&mut self) {
        let redis = self.redis.as_mut().expect("a fleet on Redis");
        tokio::task::block_in_place(|| redis.kill());
    }

    /// Starts Redis again on the same folder.
    pub fn bring_redis_back(&mut self) {
        let redis = self.redis.as_mut().expect("a fleet on Redis");
        tokio::task::block_in_place(|| redis.restart());
    }

    /// `GET /api/v1/…` of the last gateway that runs.
    pub async fn api(&self, path: &str) -> Value {
        let gateway = self.places.iter().rev().find_map(|place| place.gateway.as_ref()).expect("a gateway runs");
        let answer = self.http.get(format!("http://{}/api/v1/{path}", gateway.admin)).send().await;
        let answer = answer.unwrap_or_else(|error| panic!("the operators' API: {error}"));
        answer.json().await.unwrap_or_default()
    }

    /// [`Fleet::api`], as often as it takes until the message of this id has ended; answers how, and why.
    pub async fn outcome(&self, id: &str) -> (String, Option<String>) {
        let mut again = tokio::time::interval(Duration::from_millis(20));
        loop {
            again.tick().await;
            let trail = self.api(&format!("messages/{id}")).await;
            let item = &trail["items"][0];
            if let Some(outcome) = item["outcome"].as_str().filter(|outcome| *outcome != "queued") {
                return (outcome.to_owned(), item["reason"].as_str().map(str::to_owned));
            }
        }
    }

    /// Ends all that still runs.
    pub async fn end(mut self) {
        for place in &mut self.places {
            place.gateway = None;
        }
        self.fake.stop().await;
    }
}
