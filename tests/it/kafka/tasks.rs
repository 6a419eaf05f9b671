//! What comes of a task.

use rdkafka::Message;
use rdkafka::message::Headers;
use serde_json::json;
use wecom_gateway::sim::Options;

use super::topics::Topics;
use super::{task, text_of};
use crate::collector::Collector;
use crate::on_both_stores;
use crate::world::{On, World, key};

on_both_stores!(
    each_task_goes_out_once_and_in_order,
    what_is_refused_leaves_a_letter_and_the_partition_goes_on,
    what_a_letter_has_no_room_for_is_cut,
    a_topic_read_again_from_its_beginning_sends_nothing_again,
    the_same_task_by_http_and_kafka_goes_out_once,
    tasks_of_an_aborted_transaction_are_never_seen,
    a_stop_commits_what_is_done,
    a_task_by_way_of_the_topic_stays_in_its_trace,
);

/// A gateway with robots in these chats that reads the topics.
async fn reading(on: On, chats: &[&str], topics: &Topics) -> World {
    World::with(on, chats, Options::default(), |_, scenario| topics.read_by(scenario)).await
}

/// `a0`, `a1`, …
fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

/// Waits until a chat has so many texts, and says which.
async fn texts(world: &World, chat: &str, count: usize) -> Vec<String> {
    world.fake.until(|fake| fake.texts(&key(chat)).len() >= count).await;
    world.texts(chat)
}

async fn each_task_goes_out_once_and_in_order(on: On) {
    let (_broker, topics) = Topics::new(2).await;
    let (a, b) = (ids("a", 40), ids("b", 40));
    // Some before the gateway is there, and each twice: producers repeat themselves.
    for (partition, chat, ids) in [(0, "c1", &a), (1, "c2", &b)] {
        let tasks: Vec<_> = ids.iter().flat_map(|id| [task(id, chat), task(id, chat)]).collect();
        topics.write(partition, &tasks).await;
    }
    let world = reading(on, &["c1", "c2"], &topics).await;
    topics.write(0, &[task("a3", "c1"), task("last-a", "c1")]).await;
    topics.write(1, &[task("last-b", "c2")]).await;
    for (chat, ids, last) in [("c1", &a, "last-a"), ("c2", &b, "last-b")] {
        let want: Vec<String> = ids.iter().map(|id| text_of(id)).chain([text_of(last)]).collect();
        assert_eq!(texts(&world, chat, want.len()).await, want);
    }
    topics.until_done().await;
    let (_, body) = world.until_ready(|body| body["kafka"]["lag"] == 0 && body["kafka"]["partitions"] == 2).await;
    assert_eq!(body["kafka"], json!({"up": true, "partitions": 2, "lag": 0, "in_flight": 0}));
    let taken = world.metric("push_tasks_total{source=\"kafka\",result=\"taken\"}").await;
    let repeats = world.metric("push_tasks_total{source=\"kafka\",result=\"repeat\"}").await;
    assert_eq!(taken + repeats, 163, "every record has an owner");
    assert_eq!(world.metric("kafka{kind=\"partitions\"}").await, 2);
    world.end().await;
}

async fn what_is_refused_leaves_a_letter_and_the_partition_goes_on(on: On) {
    let (_broker, topics) = Topics::new(1).await;
    let world = reading(on, &["c1"], &topics).await;
    let mut other = task("t1", "c1");
    other["message"]["text"]["content"] = "another text".into();
    let records = [
        task("t1", "c1").to_string().into_bytes(),
        b"{\"task_id\": \"t2\", \xff".to_vec(),
        other.to_string().into_bytes(),
        json!({"task_id": "t3", "app": "nobody", "target": {"chat": "c1"}, "message": {}}).to_string().into_bytes(),
        Vec::new(),
        task("t4", "c1").to_string().into_bytes(),
    ];
    topics.write_bytes(0, &records).await;
    assert_eq!(texts(&world, "c1", 2).await, [text_of("t1"), text_of("t4")]);
    topics.until_done().await;
    let letters = topics.read(topics.dead(), 4).await;
    let mut told: Vec<_> = letters.iter().map(|letter| (header(letter, "source.offset"), letter)).collect();
    told.sort_by(|(a, _), (b, _)| a.cmp(b));
    let want =
        [("1", "bad_task", ""), ("2", "task_conflict", "task_id"), ("3", "bad_task", "app"), ("4", "bad_task", "")];
    for ((offset, letter), (want_offset, code, field)) in told.into_iter().zip(want) {
        assert_eq!((offset.as_str(), header(letter, "source.partition").as_str()), (want_offset, "0"));
        assert_eq!((header(letter, "dead.code").as_str(), header(letter, "dead.field").as_str()), (code, field));
        assert!(!header(letter, "dead.reason").is_empty() && header(letter, "source.topic") == topics.tasks);
        let original = &records[offset.parse::<usize>().unwrap()];
        assert_eq!((letter.payload().unwrap_or_default(), letter.key()), (original.as_slice(), Some(&b"key"[..])));
    }
    assert_eq!(world.metric("push_tasks_total{source=\"kafka\",result=\"dead_letter\"}").await, 4);
    world.end().await;
}

/// Whatever of a record leaves no room for ours, its partition goes on; what has room beside it stays whole.
async fn what_a_letter_has_no_room_for_is_cut(on: On) {
    /// Nearly what a topic takes; noise, for letters are compressed.
    const MOST: usize = 1_048_450;
    let (_broker, topics) = Topics::new(1).await;
    let noise: Vec<u8> = (0..MOST).map(|_| rand::random()).collect();
    for (key, header, value) in
        [(&b"k0"[..], &b"h0"[..], &noise[..]), (b"k1", &noise, b"v1"), (&noise, b"h2", b"v2"), (b"k3", b"h3", b"v3")]
    {
        topics.write_record(key, header, value).await;
    }
    let world = reading(on, &["c1"], &topics).await;
    topics.write(0, &[task("t1", "c1")]).await;
    texts(&world, "c1", 1).await;
    topics.until_done().await;
    let mut letters = topics.read(topics.dead(), 4).await;
    letters.sort_by_key(|letter| header(letter, "source.offset"));
    for (n, cut) in [Some("value"), Some("value,headers"), Some("value,headers,key"), None].into_iter().enumerate() {
        let letter = &letters[n];
        let told =
            |name: &str| letter.headers().unwrap().iter().find(|header| header.key == name).and_then(|h| h.value);
        assert_eq!(told("dead.cut"), cut.map(str::as_bytes), "letter {n}");
        let has = |part: &str| !cut.is_some_and(|cut| cut.split(',').any(|one| one == part));
        assert_eq!(letter.payload().is_some(), has("value"), "letter {n}");
        assert_eq!(told("theirs").is_some(), has("headers"), "letter {n}");
        assert_eq!(letter.key().is_some(), has("key"), "letter {n}");
        assert_eq!(header(letter, "dead.code"), "bad_task");
    }
    world.end().await;
}

fn header(record: &impl Message, name: &str) -> String {
    let headers = record.headers().expect("headers");
    let found = headers.iter().find(|header| header.key == name).unwrap_or_else(|| panic!("no {name}"));
    String::from_utf8(found.value.unwrap_or_default().to_vec()).unwrap()
}

async fn a_topic_read_again_from_its_beginning_sends_nothing_again(on: On) {
    let (_broker, topics) = Topics::new(1).await;
    let world = reading(on, &["c1"], &topics).await;
    let tasks: Vec<_> = ids("t", 30).iter().map(|id| task(id, "c1")).collect();
    topics.write(0, &tasks).await;
    let sent = texts(&world, "c1", 30).await;
    topics.until_done().await;
    let world = world.restart_after(topics.rewind()).await;
    topics.write(0, &[task("last", "c1")]).await;
    let want: Vec<String> = sent.into_iter().chain([text_of("last")]).collect();
    assert_eq!(texts(&world, "c1", 31).await, want);
    world.end().await;
}

async fn the_same_task_by_http_and_kafka_goes_out_once(on: On) {
    let (_broker, topics) = Topics::new(1).await;
    let world = reading(on, &["c1"], &topics).await;
    for id in ids("t", 10) {
        let (task, written) = (task(&id, "c1"), [task(&id, "c1")]);
        let ((status, answer), ()) = tokio::join!(world.post("push", &task), topics.write(0, &written));
        assert_eq!(status, 202, "{answer}");
    }
    topics.write(0, &[task("last", "c1")]).await;
    let want: Vec<String> = ids("t", 10).iter().chain(["last".to_owned()].iter()).map(|id| text_of(id)).collect();
    assert_eq!(texts(&world, "c1", 11).await, want);
    topics.until_done().await;
    world.end().await;
}

async fn tasks_of_an_aborted_transaction_are_never_seen(on: On) {
    let (_broker, topics) = Topics::new(1).await;
    let world = reading(on, &["c1"], &topics).await;
    topics.write_in_transaction(0, &[task("t1", "c1"), task("t2", "c1")], false).await;
    topics.write_in_transaction(0, &[task("t3", "c1"), task("t4", "c1")], true).await;
    assert_eq!(texts(&world, "c1", 2).await, [text_of("t3"), text_of("t4")]);
    world.until_ready(|body| body["kafka"]["lag"] == 0 && body["kafka"]["in_flight"] == 0).await;
    world.end().await;
}

/// Nothing but its stop would commit within this test.
async fn a_stop_commits_what_is_done(on: On) {
    let (_broker, topics) = Topics::new(2).await;
    let world = World::with(on, &["c1"], Options::default(), |_, scenario| {
        topics.read_by(scenario).set("kafka", "options", json!({"auto.commit.interval.ms": 3_600_000}))
    })
    .await;
    topics.write(0, &ids("t", 10).iter().map(|id| task(id, "c1")).collect::<Vec<_>>()).await;
    world.until_ready(|body| body["kafka"]["lag"] == 0 && body["kafka"]["partitions"] == 2).await;
    texts(&world, "c1", 10).await;
    assert!(!topics.is_done().await);
    let fake = world.stop_while(|_| {}).await;
    assert!(topics.is_done().await);
    fake.stop().await;
}

async fn a_task_by_way_of_the_topic_stays_in_its_trace(on: On) {
    let (_broker, topics) = Topics::new(1).await;
    let collector = Collector::start().await;
    let otlp = collector.url().to_owned();
    let shape = |_: &_, scenario| topics.read_by(scenario).set("telemetry", "otlp", otlp);
    let world = World::with(on, &["c1"], Options::default(), shape).await;
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7");
    let answer = reqwest::Client::new()
        .post(format!("http://{}/api/v1/push", world.app.admin_addr()))
        .header("traceparent", format!("00-{trace}-{span}-01"))
        .json(&json!({"via": "kafka", "tasks": [task("t1", "c1")]}))
        .send();
    assert_eq!(answer.await.unwrap().status(), 202);
    let spans = collector.until_spans(|spans| spans.iter().any(|span| span.name == "deliver")).await;
    assert!(spans.iter().all(|span| span.trace == trace), "{spans:#?}");
    let push = spans.iter().find(|span| span.name == "push").expect("its span at the desk");
    assert_eq!((push.parent.as_str(), push.says["source"].as_str()), (span, "kafka"));
    world.end().await;
}
