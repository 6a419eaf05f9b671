//! What the gateway writes: results of pushes, and batches handed over.

use std::collections::BTreeMap;

use rdkafka::Message;
use rdkafka::message::OwnedMessage;
use serde_json::{Value, json};
use wecom_gateway::sim::Options;
use wecom_gateway::sim::behaviour::Answer;
use wecom_gateway::sim::scenario::api_app;
use wecom_gateway::sim::wecom::customers;

use super::topics::Topics;
use super::{task, text_of};
use crate::kafka_broker::KafkaBroker;
use crate::on_both_stores;
use crate::pushes::command;
use crate::world::{APP, On, TEST, World, key};

on_both_stores!(
    every_end_is_told_to_the_results_topic,
    a_batch_is_handed_over_whole_or_not_at_all,
    what_each_customer_got_is_told_with_the_end,
);

/// As `GET` has it.
async fn what_each_customer_got_is_told_with_the_end(on: On) {
    let (_broker, topics) = Topics::new(1).await;
    let world = World::with(on, &[], Options::default(), |fake, scenario| {
        topics.read_by(scenario).set("push", "ask_after", "20ms").app(APP, api_app(fake, APP, &[]))
    })
    .await;
    let three = ["wm1", "wm2", "wm3"];
    world.fake.script(&customers(&three), [Answer::LeavesOut("fail_list", "wm3".into()).into()]);
    let mut offer = task("offer", "c1");
    (offer["target"], offer["message"]) = (json!({"customers": three}), json!({"text": {"content": "hi"}}));
    topics.write(0, &[offer]).await;
    world.api("push/offer", |task| task["items"][0]["reason"] == "awaiting_member").await;
    world.fake.confirm(&three, &[("wm1", 1), ("wm2", 3)]);
    let results = topics.read(topics.results(), 1).await;
    let told = value(&results[0]);
    let shown = world.api("push/offer", |task| task["state"] == "delivered").await["items"][0].clone();
    for field in ["state", "reason", "errcode", "msgid", "left_out", "recipients"] {
        assert_eq!(told[field], shown[field], "{field}: {told}");
    }
    assert_eq!((&told["errcode"], &told["left_out"]), (&json!(0), &json!("fail_list wm3")), "{told}");
    assert_eq!(told["recipients"][1]["reason"], "over_limit", "{told}");
    world.end().await;
}

/// What the topic is too small for is the caller's to mend; what only is too large together is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_the_topic_is_too_small_for_is_refused_by_its_place() {
    let test = async {
        let (broker, topics) = Topics::new(1).await;
        broker.limit_records(&topics.tasks, "1500").await;
        let world =
            World::with(On::Embedded, &["c1"], Options::default(), |_, scenario| topics.read_by(scenario)).await;
        // Noise, for records are compressed.
        let noise = |bytes: usize| (0..bytes / 2).map(|_| format!("{:02x}", rand::random::<u8>())).collect::<String>();
        let sized = |id: &str, bytes: usize| {
            let mut task = task(id, "c1");
            task["message"]["text"]["content"] = noise(bytes).into();
            task
        };
        let mut tasks: Vec<Value> = (0..5).map(|n| sized(&format!("t{n}"), 600)).collect();
        tasks.insert(3, sized("large", 1900));
        let (status, answer) = world.post("push", &json!({"via": "kafka", "tasks": tasks})).await;
        let error = &answer["error"];
        assert_eq!((status, &error["code"], &error["index"]), (400, &json!("bad_task"), &json!(3)), "{answer}");
        assert!(error["message"].as_str().unwrap().contains("larger than the topic takes"), "{answer}");
        assert_eq!(error["faults"].as_array().map(Vec::len), Some(1), "{answer}");
        let (status, answer) = world.post("push", &json!({"via": "kafka", "tasks": [tasks[3]]})).await;
        assert_eq!((status, &answer["error"]["index"]), (400, &json!(0)), "{answer}");
        tasks.remove(3);
        let (status, answer) = world.post("push", &json!({"via": "kafka", "tasks": tasks})).await;
        assert_eq!(status, 202, "{answer}");
        world.fake.until(|fake| fake.texts(&key("c1")).len() == 5).await;
        assert_eq!(world.api("push/t4", |task| task["state"] == "delivered").await["total"], 1);
        assert_eq!(world.fake.posts(&key("c1")), 5, "nothing of what was refused");
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

async fn every_end_is_told_to_the_results_topic(on: On) {
    let (_broker, topics) = Topics::new(1).await;
    let world = World::with(on, &["c1", "c2", "c3"], Options::default(), |_, scenario| topics.read_by(scenario)).await;
    world.fake.always(&key("c2"), Answer::Errcode(93000));
    world.fake.always(&key("c3"), Answer::Cut);
    topics.write(0, &[task("good", "c1"), task("dead", "c2"), task("cut", "c3")]).await;
    let mut both = task("both", "c1");
    both["target"] = json!({"chats": ["c1", "nowhere"]});
    let (status, answer) = world.post("push", &both).await;
    assert_eq!(status, 202, "{answer}");
    let results = by_delivery(&topics.read(topics.results(), 5).await);
    let ends: Vec<(&str, &str, &str)> =
        results.values().map(|told| (word(told, "task_id"), word(told, "chat"), word(told, "state"))).collect();
    let mut ends = ends;
    ends.sort_unstable();
    let want = [
        ("both", "c1", "delivered"),
        ("both", "nowhere", "dropped"),
        ("cut", "c3", "unknown"),
        ("dead", "c2", "dead"),
        ("good", "c1", "delivered"),
    ];
    assert_eq!(ends, want);
    for told in results.values() {
        assert!(told["app"] == APP && told["at"].as_str().is_some(), "{told}");
    }
    let dead = results.values().find(|told| told["task_id"] == "dead").unwrap();
    assert_eq!(dead["errcode"], 93000, "{dead}");
    // A word from outside is a second result of that delivery.
    let (status, answer) = world.post("push/cut/confirm", &json!({"arrived": true})).await;
    assert_eq!(status, 200, "{answer}");
    let all = topics.read(topics.results(), 6).await;
    let last: Value = serde_json::from_slice(all[5].payload().unwrap()).unwrap();
    assert_eq!((word(&last, "task_id"), word(&last, "state")), ("cut", "delivered"));
    assert!(all.iter().all(|record| record.key() == value(record)["task_id"].as_str().map(str::as_bytes)));
    world.end().await;
}

fn value(record: &OwnedMessage) -> Value {
    serde_json::from_slice(record.payload().unwrap()).unwrap()
}

fn by_delivery(records: &[OwnedMessage]) -> BTreeMap<String, Value> {
    records.iter().map(|record| (word(&value(record), "delivery").to_owned(), value(record))).collect()
}

fn word<'v>(told: &'v Value, name: &str) -> &'v str {
    told[name].as_str().unwrap_or_default()
}

async fn a_batch_is_handed_over_whole_or_not_at_all(on: On) {
    let (_broker, topics) = Topics::new(3).await;
    let world = World::with(on, &["c1", "c2"], Options::default(), |_, scenario| topics.read_by(scenario)).await;
    let ids: Vec<String> = (0..20).map(|n| format!("t{n}")).collect();
    let chat = |n: usize| if n.is_multiple_of(2) { "c1" } else { "c2" };
    let tasks: Vec<Value> = ids.iter().enumerate().map(|(n, id)| task(id, chat(n))).collect();
    // One faulty task, and nothing is written.
    let faulty = [tasks.as_slice(), &[json!({"app": APP})]].concat();
    let (status, answer) = world.post("push", &json!({"via": "kafka", "tasks": faulty})).await;
    assert_eq!((status, &answer["error"]["index"]), (400, &json!(20)), "{answer}");
    for _ in 0..2 {
        let (status, answer) = world.post("push", &json!({"via": "kafka", "tasks": tasks})).await;
        assert_eq!(
            (status, &answer[19]["task_id"], &answer[19]["state"]),
            (202, &json!("t19"), &json!("queued")),
            "{answer}"
        );
    }
    for (n, chat) in [(0, "c1"), (1, "c2")] {
        let want: Vec<String> = ids.iter().skip(n).step_by(2).map(|id| text_of(id)).collect();
        world.fake.until(|fake| fake.texts(&key(chat)).len() >= 10).await;
        assert_eq!(world.texts(chat), want);
    }
    let (status, answer) = world.post("push", &json!({"via": "pigeon", "tasks": tasks})).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("bad_body")), "{answer}");
    world.end().await;
}

/// `push --via kafka`: a file is a batch, and one faulty line hands nothing of it over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_goes_by_kafka_whole_or_not_at_all() {
    let test = async {
        let (_broker, topics) = Topics::new(1).await;
        let world =
            World::with(On::Embedded, &["c1"], Options::default(), |_, scenario| topics.read_by(scenario)).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tasks.jsonl");
        let mut lines: Vec<String> = (0..300).map(|n| task(&format!("t{n}"), "c1").to_string()).collect();
        lines.push(json!({"app": APP}).to_string());
        std::fs::write(&file, lines.join("\n")).unwrap();
        let (code, out, err) = command::run(&world, &file, &["--via", "kafka"]).await;
        assert_eq!(
            (code, out.as_str()),
            (1, "outcome          tasks\ntaken                0\nrefused              1\nnot handed over    300\n"),
            "{err}"
        );
        assert!(err.contains(":301: ") && err.contains("300 tasks of the same batch"), "{err}");
        lines.pop();
        std::fs::write(&file, lines.join("\n")).unwrap();
        let (code, out, err) = command::run(&world, &file, &["--via", "kafka"]).await;
        assert_eq!((code, out.as_str()), (0, "outcome  tasks\ntaken      300\n"), "{err}");
        world.fake.until(|fake| fake.texts(&key("c1")).len() == 300).await;
        assert_eq!(world.texts("c1"), (0..300).map(|n| text_of(&format!("t{n}"))).collect::<Vec<_>>());
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

/// While Kafka is away, a batch is refused with what to do, results wait, and both go on afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_waits_for_a_broker_that_is_away() {
    let test = async {
        let mut broker = KafkaBroker::alone().await;
        let topics = Topics::on(&broker, 1).await;
        let world =
            World::with(On::Embedded, &["c1"], Options::default(), |_, scenario| topics.read_by(scenario)).await;
        tokio::task::block_in_place(|| broker.kill());
        let tasks: Vec<Value> = (0..5).map(|n| task(&format!("t{n}"), "c1")).collect();
        let (status, _) = world.post("push", &tasks.clone().into()).await;
        assert_eq!(status, 202, "the lanes need no Kafka");
        world.fake.until(|fake| fake.texts(&key("c1")).len() == 5).await;
        let (status, answer) = world.post("push", &json!({"via": "kafka", "tasks": [task("late", "c1")]})).await;
        assert_eq!((status, answer["error"]["code"].as_str()), (503, Some("kafka_unavailable")), "{answer}");
        tokio::task::block_in_place(|| broker.start_again());
        let results = topics.read(topics.results(), 5).await;
        assert!(results.iter().all(|record| value(record)["state"] == "delivered"));
        let (status, answer) = world.post("push", &json!({"via": "kafka", "tasks": [task("late", "c1")]})).await;
        assert_eq!(status, 202, "{answer}");
        world.fake.until(|fake| fake.texts(&key("c1")).contains(&text_of("late"))).await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

/// Without the section there is no such way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_without_kafka_says_so() {
    let world = World::new(On::Embedded, &["c1"]).await;
    let (status, answer) = world.post("push", &json!({"via": "kafka", "tasks": [task("t", "c1")]})).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("no_kafka")), "{answer}");
    world.end().await;
}
