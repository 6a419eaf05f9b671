//! Spans: one trace from the callback to the last delivery, over processes that die; a collector that is away costs nobody anything.

use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};
use wecom_gateway::sim::scenario::json_app;
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, ServiceAnswer, robot_text};

use crate::collector::{Collector, Seen};
use crate::crash::fleet::{Fleet, Setup};
use crate::world::{APP, On, TEST, World, key};

/// Of a front, or of a producer.
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "00f067aa0ba902b7";

/// The spans of this name.
fn named<'s>(spans: &'s [Seen], name: &str) -> Vec<&'s Seen> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// The one span of this name.
fn one<'s>(spans: &'s [Seen], name: &str) -> &'s Seen {
    let [one] = named(spans, name)[..] else { panic!("one {name} of {spans:#?}") };
    one
}

async fn traced(on: On, collector: &Collector, chats: &[&str]) -> World {
    let otlp = collector.url().to_owned();
    World::with(on, chats, Options::default(), |_, scenario| scenario.set("telemetry", "otlp", otlp)).await
}

/// A gateway takes a message and dies while it is handled; another one, which has only what is stored, goes on with the same trace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_two_processes_worked_on_is_one_trace() {
    let collector = Collector::start().await;
    let more = vec![("telemetry", "otlp", json!(collector.url()))];
    let mut fleet = Fleet::new(Setup { gateways: 2, more, ..Setup::new(On::Redis) }).await;
    fleet.start(0, None).await;
    fleet.fake.service().hold();
    let said = robot_text("c0", "13800138000", "m1", "/query 42");
    assert_eq!(fleet.caller.post(&said).await, Some(200));
    fleet.fake.until(|fake| fake.service().under_way() == 1).await;
    collector.until_spans(|spans| !named(spans, "callback").is_empty()).await;
    fleet.kill(0);
    fleet.fake.until(|fake| fake.service().under_way() == 0).await;
    fleet.start(1, None).await;
    fleet.fake.until(|fake| fake.service().under_way() == 1).await;
    fleet.fake.service().release();
    let all =
        collector.until_spans(|spans| ["handle", "deliver"].iter().all(|name| named(spans, name).len() == 1)).await;

    let callback = one(&all, "callback");
    assert!(all.iter().all(|span| span.trace == callback.trace), "one trace: {all:#?}");
    let spans: Vec<Seen> = all.iter().filter(|span| span.process != callback.process).cloned().collect();
    let (handle, action, commit) = (one(&spans, "handle"), one(&spans, "action"), one(&spans, "commit"));
    let [waited, lay] = named(&spans, "queue")[..] else { panic!("two waits: {spans:#?}") };
    let deliver = one(&spans, "deliver");
    assert_eq!((spans.len(), callback.parent.as_str()), (6, ""));
    let parents = [waited, handle, action, commit, lay, deliver].map(|span| span.parent.as_str());
    let (callback_id, handle_id) = (callback.id.as_str(), handle.id.as_str());
    assert_eq!(parents, [callback_id, callback_id, handle_id, handle_id, handle_id, handle_id]);
    let kinds = [callback, handle, action, deliver].map(|span| span.kind);
    assert_eq!(kinds, [SpanKind::Server, SpanKind::Consumer, SpanKind::Client, SpanKind::Client]);
    // The wait of the message lasts until the second process had it; nothing ends before it begins.
    assert!(waited.to - waited.from >= 1_000_000_000 && all.iter().all(|span| span.from <= span.to), "{all:#?}");

    let calls = fleet.fake.service().calls();
    let told: Vec<Option<&str>> = calls.iter().map(|call| call.traceparent.as_deref()).collect();
    assert_eq!(told[1], Some(format!("00-{}-{}-01", action.trace, action.id).as_str()), "{told:?}");
    assert_eq!(callback.says["result"], "stored");
    assert_eq!((handle.says["outcome"].as_str(), handle.says["rule"].as_str()), ("queued", "command:query"));
    assert_eq!((handle.says["redelivered"].as_str(), commit.says["result"].as_str()), ("true", "done"));
    let sent = ["verdict", "errcode", "state", "attempt"].map(|name| deliver.says[name].as_str());
    assert_eq!(sent, ["delivered", "0", "delivered", "1"]);
    assert!([callback, handle, deliver].iter().all(|span| span.says["request_id"] == callback.says["request_id"]));
    let shown = format!("{all:?}");
    assert!(!shown.contains("13800138000") && !shown.contains("查询") && !shown.contains("/query"), "{shown}");
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_part_of_a_reply_is_sent_in_its_trace_and_what_fails_says_so() {
    let collector = Collector::start().await;
    let world = traced(On::Embedded, &collector, &["c1"]).await;
    let part = |n: usize| json!({"msgtype": "text", "text": {"content": format!("part {n}")}});
    let parts = ServiceAnswer::Json(json!({"messages": [part(1), part(2), part(3)]}));
    world.fake.service().script("orders", [parts.after(Duration::ZERO)]);
    world.fake.script(&key("c1"), [Answer::Taken.into(), Answer::Errcode(-1).into()]);
    world.say("c1", "u1", "m1", "/query 1").await;
    let spans = collector.until_spans(|spans| named(spans, "deliver").len() == 4).await;
    let handle = one(&spans, "handle");
    let sent = named(&spans, "deliver");
    assert!(sent.iter().all(|span| span.parent == handle.id && span.trace == handle.trace), "{spans:#?}");
    let told: Vec<[&str; 4]> = sent
        .iter()
        .map(|span| {
            [
                &span.says["delivery"][span.says["delivery"].len() - 2..],
                &span.says["attempt"],
                &span.says["errcode"],
                &span.says["state"],
            ]
        })
        .collect();
    let want = [
        [".0", "1", "0", "delivered"],
        [".1", "1", "-1", "retried"],
        [".1", "2", "0", "delivered"],
        [".2", "1", "0", "delivered"],
    ];
    assert_eq!(told, want);
    let failed: Vec<Option<&str>> = sent.iter().map(|span| span.failed.as_deref()).collect();
    assert_eq!(failed, [None, Some("transient"), None, None]);
    // A wait for each part, before its first attempt.
    assert_eq!(named(&spans, "queue").iter().filter(|span| span.parent == handle.id).count(), 3, "{spans:#?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_goes_on_with_the_trace_of_its_producer() {
    let collector = Collector::start().await;
    let world = traced(On::Embedded, &collector, &["c1", "c2"]).await;
    let task = json!({"task_id": "t1", "app": APP, "target": {"chats": ["c1", "c2"]},
        "message": {"msgtype": "text", "text": {"content": "shipped"}}});
    let push = async |traceparent: &str| {
        let url = format!("http://{}/api/v1/push", world.app.admin_addr());
        let answer =
            reqwest::Client::new().post(url).header("traceparent", traceparent).json(&task).send().await.unwrap();
        assert_eq!(answer.status(), 202);
    };
    push(PARENT).await;
    collector.until_spans(|spans| named(spans, "deliver").len() == 2).await;
    // A header that is none begins a trace of its own; the same task again sends nothing.
    push(&PARENT.to_uppercase()).await;
    let spans = collector.until_spans(|spans| named(spans, "push").len() == 2).await;
    let [first, again] = named(&spans, "push")[..] else { panic!("two: {spans:#?}") };
    assert_eq!((first.trace.as_str(), first.parent.as_str(), first.says["result"].as_str()), (TRACE, SPAN, "taken"));
    assert_eq!((again.parent.as_str(), again.says["result"].as_str()), ("", "repeat"));
    assert_ne!(again.trace, TRACE);
    let sent = named(&spans, "deliver");
    assert!(sent.len() == 2 && sent.iter().all(|span| span.trace == TRACE && span.parent == first.id), "{spans:#?}");
    assert!(sent.iter().all(|span| span.says["task_id"] == "t1" && span.says["state"] == "delivered"), "{spans:#?}");
    world.end().await;
}

/// A plain webhook without a lock, whose poster says which trace it belongs to.
fn hook(fake: &FakeWeCom, scenario: Scenario) -> Scenario {
    let mut app = json_app(fake, "hook", &["wrJ".to_owned()], ("X-Token", "t"));
    app["auth"] = json!({"type": "none"});
    scenario.app("hook", app)
}

fn posted(id: &str, text: &str) -> Value {
    json!({"MsgType": "text", "roomType": 2, "ChatId": "wrJ", "FromUserName": "wmJ", "Content": text, "MsgId": id})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_sampled_at_its_beginning_is_not_traced() {
    let collector = Collector::start().await;
    let otlp = collector.url().to_owned();
    let shape =
        |fake: &FakeWeCom, scenario| hook(fake, scenario).set("telemetry", "otlp", otlp).set("telemetry", "sample", 0);
    let world = World::with(On::Embedded, &["c1"], Options::default(), shape).await;
    let caller = world.caller_of("hook");
    // By our own share, then by a front's word, against it too.
    for (n, header) in [(1, ""), (2, &PARENT.replace("-01", "-00")), (3, PARENT)] {
        let message = posted(&format!("m{n}"), &format!("/query {n}"));
        assert_eq!(caller.post_json(&message, ("traceparent", header)).await, Some(200));
    }
    let spans = collector.until_spans(|spans| !named(spans, "deliver").is_empty()).await;
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    assert_eq!(one(&spans, "callback").says["msg_id"], "m3");
    let calls = world.fake.service().calls();
    let told: Vec<bool> = calls.iter().map(|call| call.traceparent.is_some()).collect();
    assert_eq!(told, [false, false, true]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn off_nothing_is_sent_stored_or_passed_on() {
    let collector = Collector::start().await;
    let mut world = World::with(On::Redis, &["c1"], Options::default(), hook).await;
    world.fake.hold("hook-wrJ");
    let caller = world.caller_of("hook");
    assert_eq!(caller.post_json(&posted("m1", "/query 1"), ("traceparent", PARENT)).await, Some(200));
    // While it is being sent, its delivery lies in the store.
    world.fake.until(|fake| fake.under_way("hook-wrJ") == 1).await;
    let stored = world.redis().written();
    assert!(stored.contains("wrJ") && !stored.contains("trace"), "{stored}");
    world.fake.release("hook-wrJ");
    world.fake.until(|fake| fake.texts("hook-wrJ").len() == 1).await;
    assert!(world.fake.service().calls()[0].traceparent.is_none() && collector.spans().is_empty());
    world.end().await;
}

/// While the collector refuses, messages are answered as ever; it is said once, and what waits comes when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_costs_nobody_anything_and_is_told_of_once() {
    let collector = Collector::start().await;
    collector.refuse(true);
    let more = vec![("telemetry", "otlp", json!(collector.url()))];
    let log = "warn,wecom_gateway::app=info,wecom_gateway::telemetry=info";
    let mut fleet = Fleet::started(Setup { more, log, ..Setup::new(On::Embedded) }).await;
    assert_eq!(fleet.caller.post(&robot_text("c0", "u1", "m1", "/query 1")).await, Some(200));
    fleet.fake.until(|fake| fake.texts(&key("c0")).len() == 1).await;
    collector.until_refused(2).await;
    assert_eq!(fleet.caller.post(&robot_text("c0", "u1", "m2", "/query 2")).await, Some(200));
    fleet.fake.until(|fake| fake.texts(&key("c0")).len() == 2).await;
    collector.refuse(false);
    let back = fleet.gateway(0).says("the collector takes spans again");
    tokio::time::timeout(TEST, back).await.expect("it says so");
    let spans = collector.until_spans(|spans| named(spans, "deliver").len() == 2).await;
    assert_eq!(named(&spans, "callback").len(), 2, "nothing was lost: {spans:#?}");
    let ended = fleet.terminate(0).await;
    assert_eq!(ended.said.matches("does not take spans").count(), 1, "{}", ended.said);
    fleet.end().await;
}

/// What ended just before the stop leaves with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_sends_what_is_left() {
    let collector = Collector::start().await;
    let world = traced(On::Embedded, &collector, &["c1"]).await;
    world.say("c1", "u1", "m1", "/query 1").await;
    world.fake.until(|fake| fake.texts(&key("c1")).len() == 1).await;
    world.end().await;
    let spans = collector.spans();
    assert_eq!((named(&spans, "callback").len(), named(&spans, "deliver").len()), (1, 1), "{spans:#?}");
}
