//! Pushes that ended unknown, looked after by the whole gateway: on the embedded store with SQLite, on Redis with MariaDB.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};
use tokio_util::sync::CancellationToken;
use wecom_gateway::hands::Hands;
use wecom_gateway::model::Delivery;
use wecom_gateway::push::{Compensator, Heard, Witness};
use wecom_gateway::records::Records;
use wecom_gateway::setup::InForce;
use wecom_gateway::sim::scenario::{api_app, json_app, robot_app};
use wecom_gateway::sim::wecom::{conversation, members};
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario};
use wecom_gateway::store::redis::RedisStore;
use wecom_gateway::telemetry::Telemetry;

use super::{push, task, to, until};
use crate::crash::process::Gateway;
use crate::mariadb_server::MariaDb;
use crate::on_both_stores;
use crate::world::{APP, On, TEST, World, key};

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;
/// Refused for good.
const REFUSED: Answer = Answer::Errcode(40008);

on_both_stores!(
    what_a_json_gateway_knows_is_sent_again_and_seen_once,
    what_the_duplicate_check_knows_is_sent_again_and_seen_once,
    a_repeat_that_is_refused_says_nothing_of_the_first,
    what_a_robot_left_open_is_a_persons_after_the_last_look,
    what_is_confirmed_meanwhile_is_looked_at_no_more,
    what_was_repeated_may_still_be_missed_by_its_producer,
    the_first_look_is_listed_at_its_time,
);

/// A gateway that looks soon, and its database where that is a server.
async fn world(
    on: On,
    chats: &[&str],
    looks: u32,
    shape: impl FnOnce(&FakeWeCom) -> Option<Value>,
) -> (World, Option<MariaDb>) {
    let database = match on {
        On::Embedded => None,
        On::Redis => Some(MariaDb::new().await),
    };
    let url = database.as_ref().map(MariaDb::url);
    let shape = |fake: &FakeWeCom, mut scenario: Scenario| {
        if let Some(url) = url {
            scenario = scenario.set("database", "url", url.expose());
        }
        if let Some(app) = shape(fake) {
            scenario = scenario.app(APP, app);
        }
        soon(scenario, looks)
    };
    (World::with(on, chats, Options::default(), shape).await, database)
}

fn soon(scenario: Scenario, looks: u32) -> Scenario {
    scenario.set("push", "compensate_after", "50ms").set("push", "compensate_looks", looks)
}

fn behind_json(fake: &FakeWeCom) -> Option<Value> {
    let mut app = json_app(fake, APP, &[], ("X-Token", "t"));
    app["gateway"] = json!({"url": fake.json_gateway(), "client_msg_id_window": "10m"});
    Some(app)
}

/// How the compensator's looks at a task went, of its one chat.
async fn looks(world: &World, id: &str) -> Vec<(String, i64)> {
    let trail = world.api(&format!("messages/{id}"), |found| found["items"][0].is_object()).await;
    let stages = trail["items"][0]["stages"].as_array().unwrap().iter().filter(|stage| stage["by"] == "compensator");
    stages.map(|stage| (stage["action"].as_str().unwrap().to_owned(), stage["looks"].as_i64().unwrap())).collect()
}

fn told(looks: &[(&str, i64)]) -> Vec<(String, i64)> {
    looks.iter().map(|(action, n)| (action.to_string(), *n)).collect()
}

async fn unknown(world: &World, kind: &str) -> u64 {
    world.metric(&format!("unknown_pushes{{kind=\"{kind}\"}}")).await
}

/// Waits until so many unknown pushes are in nobody's or somebody's hands.
async fn until_unknown(world: &World, kind: &str, count: u64) {
    while unknown(world, kind).await != count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn what_a_json_gateway_knows_is_sent_again_and_seen_once(on: On) {
    let (world, _database) = world(on, &[], 3, behind_json).await;
    let wr = conversation("wrJ");
    // Taken, and no answer; then its repeat is refused, which says nothing of the first.
    world.fake.script(&wr, [Answer::Cut.into(), REFUSED.into()]);
    push(&world, &task("t1", "wrJ", "hi")).await;
    let stands = until(&world, "t1", "delivered").await;
    assert!(stands["items"][0]["id"].as_str().unwrap().ends_with(".0.r1"), "{stands}");
    // The fake knows a repeat by its client_msg_id alone, and that it is not seen twice by nothing else.
    let sent = world.fake.arrived();
    assert_eq!((world.fake.posts(&wr), sent.len()), (3, 1));
    assert!(sent[0].body["client_msg_id"].as_str().unwrap().ends_with(".0"));
    world.ends("t1", "delivered").await;
    assert_eq!(looks(&world, "t1").await, told(&[("repeat", 1)]));
    assert_eq!(world.metric("compensations_total{kind=\"repeated\"}").await, 1);
    until_unknown(&world, "looked_after", 0).await;
    world.end().await;
}

async fn what_the_duplicate_check_knows_is_sent_again_and_seen_once(on: On) {
    let (world, _database) = world(on, &[], 3, |fake| Some(api_app(fake, APP, &[]))).await;
    let set = members("u1|u2", "", "");
    world.fake.script(&set, [Answer::Cut.into(), REFUSED.into()]);
    push(&world, &to("t1", json!({"users": ["u1", "u2"]}), "hi")).await;
    until(&world, "t1", "delivered").await;
    // The fake knows a repeat by its bytes alone.
    assert_eq!((world.fake.posts(&set), world.fake.arrived().len()), (3, 1));
    world.ends("t1", "delivered").await;
    assert_eq!(looks(&world, "t1").await, told(&[("repeat", 1)]));
    world.end().await;
}

async fn a_repeat_that_is_refused_says_nothing_of_the_first(on: On) {
    let (world, _database) = world(on, &[], 2, behind_json).await;
    let wr = conversation("wrJ");
    world.fake.script(&wr, [Answer::Cut.into(), REFUSED.into(), REFUSED.into(), REFUSED.into()]);
    push(&world, &task("t1", "wrJ", "hi")).await;
    until_unknown(&world, "for_a_person", 1).await;
    let stands = until(&world, "t1", "unknown").await;
    assert!(stands["items"][0]["id"].as_str().unwrap().ends_with(".0.r2"), "{stands}");
    assert_eq!(looks(&world, "t1").await, told(&[("repeat", 1), ("repeat", 2), ("gave_up", 3)]));
    assert_eq!((world.fake.posts(&wr), world.fake.arrived().len()), (4, 1));
    assert_eq!(world.metric("alarms_total{kind=\"push_unknown\"}").await, 1);
    world.end().await;
}

async fn the_first_look_is_listed_at_its_time(on: On) {
    let (world, _database) = world(on, &["c1"], 3, |_| None).await;
    let (world, status, _) = world.reload_as(|_, scenario| scenario.set("push", "compensate_after", "90s")).await;
    assert_eq!(status, 200);
    world.fake.script(&key("c1"), [Answer::Cut.into()]);
    push(&world, &task("t1", "c1", "hi")).await;
    let listed = world.api("deliveries?state=unknown", |listed| listed["items"][0]["id"].is_string()).await;
    let item = &listed["items"][0];
    let moment = |field: &str| item[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!((&item["looks"], moment("next_look") - moment("at")), (&json!(0), 90_000));
    world.end().await;
}

async fn what_a_robot_left_open_is_a_persons_after_the_last_look(on: On) {
    let (world, _database) = world(on, &["c1"], 3, |_| None).await;
    world.fake.script(&key("c1"), [Answer::Cut.into()]);
    push(&world, &task("t1", "c1", "hi")).await;
    until_unknown(&world, "for_a_person", 1).await;
    assert_eq!(looks(&world, "t1").await, told(&[("waits", 1), ("waits", 2), ("gave_up", 3)]));
    assert_eq!(until(&world, "t1", "unknown").await["items"][0]["reason"], "no_answer");
    let listed = world.api("deliveries?state=unknown", |_| true).await;
    let item = &listed["items"][0];
    assert_eq!((&item["task_id"], &item["looks"], &item["next_look"]), (&json!("t1"), &json!(3), &Value::Null));
    assert_eq!(world.metric("alarms_total{kind=\"push_unknown\"}").await, 1);
    assert_eq!(world.metric("alarms_total{kind=\"unknown\"}").await, 0, "a person is called once, in the end");
    // What is a person's, a word still settles.
    assert_eq!(world.post("push/t1/confirm", &json!({"arrived": true})).await.0, 200);
    until(&world, "t1", "delivered").await;
    until_unknown(&world, "for_a_person", 0).await;
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["hi"]);
    world.end().await;
}

async fn what_is_confirmed_meanwhile_is_looked_at_no_more(on: On) {
    // The first looks come at once, the later ones never in this test.
    let (world, _database) = world(on, &["c1"], 100, |_| None).await;
    world.fake.script(&key("c1"), [Answer::Cut.into()]);
    push(&world, &task("t1", "c1", "hi")).await;
    world.api("messages/t1", |found| found.to_string().contains("compensated")).await;
    assert_eq!(world.post("push/t1/confirm", &json!({"arrived": true})).await.0, 200);
    until(&world, "t1", "delivered").await;
    // Its row is gone, so nobody will ever look at it.
    world.ends("t1", "delivered").await;
    until_unknown(&world, "looked_after", 0).await;
    assert_eq!(unknown(&world, "for_a_person").await, 0);
    assert_eq!(world.metric("alarms_total{kind=\"push_unknown\"}").await, 0);
    let listed = world.api("deliveries?state=unknown", |_| true).await;
    assert_eq!(listed["items"], json!([]));
    world.end().await;
}

async fn what_was_repeated_may_still_be_missed_by_its_producer(on: On) {
    let (world, _database) = world(on, &[], 1, behind_json).await;
    let wr = conversation("wrJ");
    world.fake.script(&wr, [Answer::Cut.into(), REFUSED.into(), REFUSED.into()]);
    push(&world, &task("t1", "wrJ", "hi")).await;
    until_unknown(&world, "for_a_person", 1).await;
    let (status, answer) = world.post("push/t1/confirm", &json!({"arrived": false})).await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer["items"][0]["resent_as"].as_str().unwrap().ends_with(".0.r2"), "{answer}");
    until(&world, "t1", "delivered").await;
    assert_eq!(world.fake.posts(&wr), 4);
    world.end().await;
}

/// Two gateways on one store and one database: each row is looked at by one of them at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_gateways_one_takes_each_look() {
    const CHATS: usize = 20;
    let test = async {
        let chats: Vec<String> = (0..CHATS).map(|n| format!("c{n}")).collect();
        let names: Vec<&str> = chats.iter().map(String::as_str).collect();
        let (mut world, database) = world(On::Redis, &names, 3, |_| None).await;
        let url = database.as_ref().unwrap().url();
        let shape = |fake: &FakeWeCom, scenario: Scenario| {
            soon(scenario.app(APP, robot_app(fake, APP, &chats)), 3).set("database", "url", url.expose())
        };
        let (other, _files) = world.beside(shape).await;
        chats.iter().for_each(|chat| world.fake.script(&key(chat), [Answer::Cut.into()]));
        push(&world, &to("t1", json!({"chats": chats}), "hi")).await;
        until_unknown(&world, "for_a_person", CHATS as u64).await;
        let trail = world.api("messages/t1?limit=100", |_| true).await;
        for item in trail["items"].as_array().unwrap() {
            let stages = item["stages"].as_array().unwrap().iter().filter(|stage| stage["stage"] == "compensated");
            let looks: Vec<i64> = stages.map(|stage| stage["looks"].as_i64().unwrap()).collect();
            assert_eq!(looks, [1, 2, 3], "{item}");
        }
        assert_eq!(trail["items"].as_array().unwrap().len(), CHATS);
        other.stop().await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

/// Somebody outside who always says the same.
struct Says(Heard);

#[async_trait]
impl Witness for Says {
    async fn ask(&self, delivery: &Delivery) -> Heard {
        assert_eq!(delivery.push.as_ref().map(|push| push.task_id.as_str()), Some("t1"));
        self.0
    }
}

/// What a witness says is done, once, beside a gateway that waits.
async fn what_a_witness_says(heard: Heard, posts: usize, told_of: &[(&str, i64)]) {
    let test = async {
        let (mut world, database) = world(On::Redis, &["c1"], 3, |_| None).await;
        // The gateway's own looks come too late for this test.
        let (status, answer);
        (world, status, answer) = world.reload_as(|_, scenario| scenario.set("push", "compensate_after", "1h")).await;
        assert_eq!(status, 200, "{answer}");
        let file = world.folder().join("gateway.toml");
        let mut settings = wecom_gateway::config::load(&file).unwrap();
        settings.push.compensate_after = Duration::from_millis(1);
        let store = RedisStore::open(&world.redis().url(), settings.store_options()).unwrap();
        let records = Records::open(&database.as_ref().unwrap().url()).await.unwrap();
        let in_force = InForce::new(settings).unwrap();
        let hands = Arc::new(Hands::new(store, records.clone(), in_force.clone()));
        let witnesses: Vec<Arc<dyn Witness>> = vec![Arc::new(Says(Heard::Nothing)), Arc::new(Says(heard))];
        let compensator = Compensator::new(records, hands, in_force, witnesses, Telemetry::unheard());
        let stop = CancellationToken::new();
        let looks_on = tokio::spawn({
            let stop = stop.clone();
            async move { compensator.run(stop).await }
        });
        world.fake.script(&key("c1"), [Answer::Cut.into()]);
        push(&world, &task("t1", "c1", "hi")).await;
        until(&world, "t1", "delivered").await;
        world.ends("t1", "delivered").await;
        assert_eq!(looks(&world, "t1").await, told(told_of));
        assert_eq!(world.fake.posts(&key("c1")), posts);
        stop.cancel();
        looks_on.await.unwrap();
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_witness_saw_is_delivered() {
    what_a_witness_says(Heard::Arrived, 1, &[("delivered", 1)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_witness_missed_is_sent_again() {
    what_a_witness_says(Heard::Missed, 2, &[("resend", 1)]).await;
}

/// The process dies with rows in hand: they are free when their time is over, and what is sent again is sent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_in_the_middle_of_a_look_loses_nothing() {
    let test = async {
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let wr = conversation("wrJ");
        let scenario = soon(Scenario::new(&fake).unwrap().app(APP, behind_json(&fake).unwrap()), 3);
        let config = scenario.write().unwrap();
        let gateway = Gateway::start(&config, Some("looking")).await.unwrap_or_else(|ended| panic!("{ended:?}"));
        fake.script(&wr, [Answer::Cut.into(), REFUSED.into()]);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let pushed = http.post(format!("http://{}/api/v1/push", gateway.admin)).json(&task("t1", "wrJ", "hi"));
        assert_eq!(pushed.send().await.unwrap().status(), 202);
        let ended = gateway.ends().await;
        assert_eq!(ended.signal(), Some(SIGABRT), "{ended:?}");
        assert_eq!(fake.posts(&wr), 2, "it died before it did anything");

        let url = wecom_gateway::config::load(&config).unwrap().database.url;
        let mut records = SqliteConnection::connect(url.expose()).await.unwrap();
        let held: i64 =
            sqlx::query_scalar("SELECT held_until FROM unknown_pushes").fetch_one(&mut records).await.unwrap();
        assert!(held > wecom_gateway::model::now_ms(), "the dead one's still");
        // A minute passes.
        sqlx::query("UPDATE unknown_pushes SET held_until = 0").execute(&mut records).await.unwrap();
        records.close().await.unwrap();
        let gateway = Gateway::start(&config, None).await.unwrap_or_else(|ended| panic!("{ended:?}"));
        loop {
            let answer = http.get(format!("http://{}/api/v1/push/t1", gateway.admin)).send().await.unwrap();
            if answer.json::<Value>().await.unwrap()["state"] == "delivered" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!((fake.posts(&wr), fake.arrived().len()), (3, 1));
        gateway.kill();
        fake.stop().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
