//! Alarms, told by the fake WeCom's robot and a hook on loopback: each kind once in a window, the rest counted, and nothing that
//! happens to an alarm touches a message.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::watch;
use wecom_gateway::sim::scenario::api_app;
use wecom_gateway::sim::wecom::{GETTOKEN, member};
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, Tag, app_text, robot_text};

use crate::kafka::topics::Topics;
use crate::kafka_broker::KafkaBroker;
use crate::mariadb_server::MariaDb;
use crate::on_both_stores;
use crate::world::{On, TEST, World, key};

/// The key of the robot that alarms are told by.
const ROBOT: &str = "alarm-robot-k-e-y";
const SECRET: &str = "hook-s3cret";

on_both_stores!(
    each_kind_is_told_once_in_its_window,
    what_was_held_back_is_counted_when_the_window_is_over,
    the_window_outlives_the_process,
    many_alarms_are_few_texts,
    a_hook_that_fails_is_tried_again_and_a_robot_that_does_not_answer_is_not,
    nothing_that_happens_to_alarms_touches_messages,
    a_lane_that_is_full_and_a_machine_that_can_not_try_are_told,
);

/// What the hook was posted.
#[derive(Clone, Default)]
struct Posted {
    body: Value,
    idempotency_key: String,
    is_signed: bool,
}

/// A hook, and what it answers: the statuses in order, then 204.
#[derive(Clone)]
struct Hook {
    posted: watch::Sender<Vec<Posted>>,
    answers: Arc<Mutex<Vec<u16>>>,
    url: String,
}

impl Hook {
    async fn start(answers: &[u16]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/alarms?key=url-k-e-y", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(answers.iter().rev().copied().collect()));
        let hook = Self { posted: watch::Sender::new(Vec::new()), answers, url };
        let router = Router::new().route("/alarms", post(take)).with_state(hook.clone());
        // Ends with the test's runtime.
        tokio::spawn(async move { axum::serve(listener, router).await });
        hook
    }

    /// What was posted, once it holds.
    async fn until(&self, mut holds: impl FnMut(&[Posted]) -> bool) -> Vec<Posted> {
        self.posted.subscribe().wait_for(|posted| holds(posted)).await.unwrap().clone()
    }

    /// What was posted of a kind, once there is something of it.
    async fn first(&self, kind: &str) -> Value {
        self.until(|posted| !of(posted, kind).is_empty()).await;
        of(&self.posted.borrow(), kind).remove(0)
    }
}

async fn take(State(hook): State<Hook>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{}.", header("X-Gateway-Timestamp")).as_bytes());
    mac.update(&body);
    let signature = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
    let posted = Posted {
        body: serde_json::from_slice(&body).unwrap(),
        idempotency_key: header("Idempotency-Key"),
        is_signed: header("X-Gateway-Signature") == signature,
    };
    let answer = hook.answers.lock().unwrap().pop().unwrap_or(204);
    hook.posted.send_modify(|all| all.push(posted));
    StatusCode::from_u16(answer).unwrap()
}

/// The alarms of a kind.
fn of(posted: &[Posted], kind: &str) -> Vec<Value> {
    posted.iter().map(|posted| posted.body.clone()).filter(|body| body["kind"] == kind).collect()
}

/// Of how many of a kind the alarms speak.
fn spoken_of(posted: &[Posted], kind: &str) -> u64 {
    of(posted, kind).iter().map(|body| body["count"].as_u64().unwrap()).sum()
}

/// A gateway that tells its alarms to the fake's robot and to `hook`.
async fn world(on: On, chats: &[&str], window: &str, hook: &Hook) -> World {
    let shape = |fake: &FakeWeCom, scenario: Scenario| {
        scenario
            .app("api", api_app(fake, "api", &[]))
            .set("alarms", "webhook", fake.webhook(ROBOT, "ops"))
            .set("alarms", "url", hook.url.as_str())
            .set("alarms", "secret", SECRET)
            .set("alarms", "window", window)
    };
    World::with(on, chats, Options::default(), shape).await
}

/// A message into a chat that has no route; its reply is dropped for that.
async fn without_route(world: &World, msg_id: &str) {
    world.say("nowhere", "u1", msg_id, "/echo 成员写的话").await;
    world.ends(msg_id, "dropped").await;
}

/// A message whose reply meets this.
async fn meets(world: &World, chat: &str, answers: &[Answer], outcome: &str) {
    world.fake.script(&key(chat), answers.iter().cloned().map(Into::into));
    let msg_id = format!("meets-{chat}");
    world.say(chat, "u1", &msg_id, "/echo 成员写的话").await;
    world.ends(&msg_id, outcome).await;
}

async fn each_kind_is_told_once_in_its_window(on: On) {
    let hook = Hook::start(&[]).await;
    let world = world(on, &["dead", "cut", "fast"], "10m", &hook).await;
    meets(&world, "dead", &[Answer::Errcode(93000)], "dead").await;
    meets(&world, "cut", &[Answer::Cut], "unknown").await;
    meets(&world, "fast", &[Answer::Errcode(45033), Answer::Errcode(45033), Answer::Errcode(45033)], "dropped").await;
    for n in 0..4 {
        without_route(&world, &format!("m{n}")).await;
    }
    world.fake.script(&member("u1"), [Answer::Errcode(60020).into()]);
    assert_eq!(world.caller_of("api").post(&app_text("u1", "held", "/echo 成员写的话")).await, Some(200));

    // The last that was raised: what is not there by then was held back.
    let held = hook.first("held").await;
    assert_eq!((&held["subject"], &held["app"], &held["chat"]), (&"api".into(), &"api".into(), &Value::Null));
    assert!(held["text"].as_str().unwrap().contains("errcode 60020"), "{held}");
    let posted = hook.posted.borrow().clone();
    for (kind, chat) in [("chat_dead", "dead"), ("unknown", "cut"), ("rate_limited", "fast"), ("no_route", "nowhere")] {
        let [body] = of(&posted, kind).try_into().unwrap_or_else(|all| panic!("{kind}: {all:?}"));
        assert_eq!((&body["subject"], &body["chat"]), (&format!("support/{chat}").into(), &chat.into()), "{body}");
        assert_eq!((&body["app"], &body["count"]), (&"support".into(), &1.into()), "{body}");
        assert!(body["at"].is_string() && !body["mend"].as_str().unwrap().is_empty(), "{body}");
    }
    assert_eq!(world.metric("alarms_total{kind=\"no_route\"}").await, 4);
    assert!(posted.iter().all(|posted| posted.is_signed));

    world.fake.until(|fake| fake.texts(ROBOT).concat().contains("60020")).await;
    let told = world.fake.texts(ROBOT).concat();
    for what in
        ["support/dead：errcode 93000", "support/cut：no answer", "support/fast：errcode 45033", "support/nowhere："]
    {
        assert_eq!(told.matches(what).count(), 1, "{what} in {told}");
    }
    for body in posted.iter().map(|posted| posted.body.to_string()).chain([told]) {
        for secret in ["成员写的话", "k-e-y", &key("dead"), SECRET, "secret-of-api"] {
            assert!(!body.contains(secret), "{secret} in {body}");
        }
    }
    world.end().await;
}

async fn what_was_held_back_is_counted_when_the_window_is_over(on: On) {
    let hook = Hook::start(&[]).await;
    let world = world(on, &[], "2s", &hook).await;
    for n in 0..5 {
        without_route(&world, &format!("m{n}")).await;
    }
    let posted = hook.until(|posted| spoken_of(posted, "no_route") >= 5).await;
    assert_eq!(spoken_of(&posted, "no_route"), 5);
    assert_eq!(of(&posted, "no_route")[0]["count"], 1);
    world.end().await;
}

async fn the_window_outlives_the_process(on: On) {
    let hook = Hook::start(&[]).await;
    let world = world(on, &["dead"], "10m", &hook).await;
    without_route(&world, "m1").await;
    hook.first("no_route").await;
    let world = world.restart_while(|_| {}).await;
    without_route(&world, "m2").await;
    meets(&world, "dead", &[Answer::Errcode(93000)], "dead").await;
    hook.first("chat_dead").await;
    assert_eq!(spoken_of(&hook.posted.borrow(), "no_route"), 1, "told by the process before");
    world.end().await;
}

async fn many_alarms_are_few_texts(on: On) {
    let hook = Hook::start(&[]).await;
    let chats: Vec<String> = (10..30).map(|n| format!("c{n}")).collect();
    let chats: Vec<&str> = chats.iter().map(String::as_str).collect();
    let world = world(on, &chats, "10m", &hook).await;
    for chat in &chats {
        world.fake.script(&key(chat), [Answer::Errcode(93000).into()]);
        world.say(chat, "u1", &format!("m-{chat}"), "/echo hi").await;
    }
    let posted = hook.until(|posted| of(posted, "chat_dead").len() == chats.len()).await;
    assert_eq!(spoken_of(&posted, "chat_dead"), chats.len() as u64);
    let is_told = |fake: &FakeWeCom, chat: &&str| fake.texts(ROBOT).concat().contains(&format!("support/{chat}"));
    world.fake.until(|fake| chats.iter().all(|chat| is_told(fake, chat))).await;
    assert!(world.fake.posts(ROBOT) <= 5, "{} texts", world.fake.posts(ROBOT));
    world.end().await;
}

async fn a_hook_that_fails_is_tried_again_and_a_robot_that_does_not_answer_is_not(on: On) {
    let hook = Hook::start(&[500, 302]).await;
    let world = world(on, &["dead"], "10m", &hook).await;
    world.fake.script(ROBOT, [Answer::Cut.into(), Answer::Errcode(-1).into()]);
    without_route(&world, "m1").await;
    let posted = hook.until(|posted| posted.len() == 3).await;
    assert!(posted.iter().all(|each| each.idempotency_key == posted[0].idempotency_key && each.body == posted[0].body));
    world.fake.until(|fake| fake.posts(ROBOT) == 1).await;
    // The second text was refused for now, and comes again; the first, which may have arrived, does not.
    meets(&world, "dead", &[Answer::Errcode(93000)], "dead").await;
    world.fake.until(|fake| fake.texts(ROBOT).len() == 2).await;
    let [first, second] = world.fake.texts(ROBOT).try_into().unwrap();
    assert!(first.contains("support/nowhere") && second.contains("support/dead"), "{first}\n{second}");
    assert!(!second.contains("support/nowhere"), "{second}");
    assert_eq!((world.fake.posts(ROBOT), world.metric("alarms_lost_total{kind=\"robot\"}").await), (3, 1));
    hook.first("chat_dead").await;
    assert_eq!(hook.posted.borrow().len(), 4);
    world.end().await;
}

async fn nothing_that_happens_to_alarms_touches_messages(on: On) {
    let hook = Hook::start(&[]).await;
    // Nobody listens there.
    let nowhere = Hook { url: "http://127.0.0.1:1/alarms".into(), ..hook };
    let world = world(on, &["c1"], "10m", &nowhere).await;
    world.fake.hold(ROBOT);
    for n in 0..20 {
        without_route(&world, &format!("m{n}")).await;
    }
    world.fake.until(|fake| fake.under_way(ROBOT) == 1).await;
    world.fence("c1", "u1").await;
    world.fake.release(ROBOT);
    world.end().await;
}

async fn a_lane_that_is_full_and_a_machine_that_can_not_try_are_told(on: On) {
    let hook = Hook::start(&[]).await;
    let shape = |fake: &FakeWeCom, scenario: Scenario| {
        let scenario = scenario.app("api", api_app(fake, "api", &[])).set("store", "lane_depth", 2);
        scenario.set("alarms", "url", hook.url.as_str())
    };
    let world = World::with(on, &["c1"], Options::default(), shape).await;
    world.patch("c1", &json!({"paused": true})).await;
    for n in 1..=2 {
        world.say("c1", "u1", &format!("m{n}"), "/echo hi").await;
        world.until_waiting("c1", n).await;
    }
    world.say("c1", "u1", "m3", "/echo hi").await;
    assert_eq!(world.outcome("m3").await, ("dropped".into(), Some("lane_full".into())));
    let full = hook.first("lane_full").await;
    assert_eq!((&full["subject"], &full["count"]), (&"support/c1".into(), &1.into()), "{full}");
    assert!(full["text"].as_str().unwrap().ends_with("support/c1：m3"), "{full}");

    // No token, and it is nobody's refusal.
    world.fake.always(GETTOKEN, Answer::Errcode(-1));
    assert_eq!(world.caller_of("api").post(&app_text("u1", "m4", "/echo hi")).await, Some(200));
    let not_tried = hook.first("not_tried").await;
    assert_eq!((&not_tried["subject"], &not_tried["app"]), (&"process".into(), &Value::Null), "{not_tried}");
    world.fake.ordinarily(GETTOKEN);
    world.ends("m4", "delivered").await;
    assert_eq!(world.patch("c1", &json!({"paused": false})).await.0, 200);
    world.ends("m2", "delivered").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_are_away_are_told() {
    let test = async {
        let (hook, mut database) = (Hook::start(&[]).await, MariaDb::alone().await);
        let url = database.url();
        let shape = |_: &FakeWeCom, scenario: Scenario| {
            scenario.set("database", "url", url.expose()).set("alarms", "url", hook.url.as_str())
        };
        let world = World::with(On::Embedded, &["c1"], Options::default(), shape).await;
        tokio::task::block_in_place(|| database.kill());
        world.say("c1", "u1", "m1", "/echo [c1 u1 1]").await;
        world.fence("c1", "u1").await;
        assert_eq!(hook.first("records_away").await["subject"], "records");
        tokio::task::block_in_place(|| database.start());
        world.ends("m1", "delivered").await;
        world.end().await;
    };
    tokio::time::timeout(TEST + Duration::from_secs(30), test).await.expect("within its time");
}

/// A broker that is away for long is told of once in a window, and that it is back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafka_that_is_away_and_back_is_told() {
    let test = async {
        let (hook, mut broker) = (Hook::start(&[]).await, KafkaBroker::alone().await);
        let topics = Topics::on(&broker, 1).await;
        let shape =
            |_: &FakeWeCom, scenario: Scenario| topics.read_by(scenario).set("alarms", "url", hook.url.as_str());
        let world = World::with(On::Embedded, &["c1"], Options::default(), shape).await;
        world.until_ready(|body| body["kafka"]["partitions"] == 1).await;
        tokio::task::block_in_place(|| broker.kill());
        let away = hook.first("kafka_away").await;
        assert_eq!(
            (&away["subject"], &away["app"], &away["count"]),
            (&"kafka".into(), &Value::Null, &1.into()),
            "{away}"
        );
        assert!(away["text"].as_str().unwrap().contains("All broker connections are down"), "{away}");
        tokio::task::block_in_place(|| broker.start_again());
        let back = hook.first("kafka_back").await;
        assert_eq!((&back["subject"], &back["count"]), (&"kafka".into(), &1.into()), "{back}");
        assert_eq!(spoken_of(&hook.posted.borrow(), "kafka_away"), 1);
        world.end().await;
    };
    // It waits for two starts of a JVM.
    tokio::time::timeout(3 * TEST, test).await.expect("within its time");
}

/// A letter that can't be written holds up its partition: what for is told, by the name of the topic, and that it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_not_there_is_told() {
    let test = async {
        let (hook, (broker, topics)) = (Hook::start(&[]).await, Topics::new(1).await);
        let missing = format!("{}.nowhere", topics.tasks);
        let shape = |_: &FakeWeCom, scenario: Scenario| {
            let scenario = topics.read_by(scenario).set("kafka", "dead_letter_topic", missing.as_str());
            scenario.set("alarms", "url", hook.url.as_str())
        };
        let world = World::with(On::Embedded, &["c1"], Options::default(), shape).await;
        topics.write_bytes(0, &[b"{".to_vec()]).await;
        let told = hook.first("kafka_unwritable").await;
        let text = told["text"].as_str().unwrap();
        assert!(text.contains(&format!("the topic {missing} is not there")), "{told}");
        broker.create_topics(&[&missing], 1).await;
        let back = hook.first("kafka_back").await;
        assert!(back["text"].as_str().unwrap().contains(&missing), "{back}");
        topics.until_done().await;
        world.end().await;
    };
    // It lasts ten seconds before it is told, and librdkafka looks for the topic now and then.
    tokio::time::timeout(3 * TEST, test).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_and_a_spool_that_fills_are_told() {
    let test = async {
        let hook = Hook::start(&[]).await;
        let shape = |fake: &FakeWeCom, scenario: Scenario| {
            scenario.set("store", "spool_limit", "4KiB").set("alarms", "webhook", fake.webhook(ROBOT, "ops")).set(
                "alarms",
                "url",
                hook.url.as_str(),
            )
        };
        let mut world = World::with(On::Redis, &["c1"], Options::default(), shape).await;
        world.redis().kill();
        for n in 1.. {
            let text = format!("/echo {}", Tag::new("c1", "u1", n));
            if world.caller.post(&robot_text("c1", "u1", &format!("m{n}"), &text)).await != Some(200) {
                break;
            }
        }
        let filling = hook.first("spool_filling").await;
        assert_eq!((&filling["subject"], &filling["app"]), (&"spool".into(), &Value::Null), "{filling}");
        assert_eq!(hook.first("store_away").await["subject"], "store");
        world.fake.until(|fake| fake.texts(ROBOT).concat().contains("存储无应答")).await;
        world.redis().restart();
        world.until_ready(|body| body["store"] == "up" && body["spool"]["depth"] == 0).await;
        world.fence("c1", "u1").await;
        world.end().await;
    };
    tokio::time::timeout(TEST + Duration::from_secs(10), test).await.expect("within its time");
}
