//! Death at each step of a message's way: two messages go through, the process dies over the third, the next process
//! finds what it left. A small load from other members follows: nothing that died may stand in its way.

use std::time::Duration;

use wecom_gateway::sim::Tag;
use wecom_gateway::sim::plan::Planned;

use super::fleet::{Fleet, Setup};
use super::process::Gateway;
use super::traffic::{Posted, Traffic, WeCom, query};
use super::verdict::judge;
use crate::on_both_stores;
use crate::world::{On, key};

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;
/// The robot that alarms are told by.
const ALARMS: &str = "alarm-robot";
const PATIENCE: Duration = Duration::from_secs(20);
/// `[workers] poison_after` by default.
const POISON_AFTER: usize = 5;

/// What is left of the message over which the process died.
#[derive(Clone, Copy)]
struct Left {
    /// How often the action was asked.
    asked: usize,
    /// How often its reply reached WeCom.
    arrived: usize,
    outcome: &'static str,
}

const ONCE: Left = Left { asked: 1, arrived: 1, outcome: "delivered" };
const ASKED_AGAIN: Left = Left { asked: 2, ..ONCE };
const UNKNOWN: Left = Left { outcome: "unknown", ..ONCE };

on_both_stores!(
    after_enqueue_before_the_ack,
    after_claim,
    after_the_action,
    before_commit,
    after_commit,
    before_begin,
    after_begin,
    after_the_request_was_written,
    before_settle,
    after_settle,
    between_records_and_journal,
    a_message_that_kills_its_worker_is_poison,
);

async fn after_enqueue_before_the_ack(on: On) {
    dies(on, "enqueued", ONCE).await;
}

async fn after_claim(on: On) {
    dies(on, "claimed", ONCE).await;
}

async fn after_the_action(on: On) {
    dies(on, "acted", ASKED_AGAIN).await;
}

async fn before_commit(on: On) {
    dies(on, "committing", ASKED_AGAIN).await;
}

async fn after_commit(on: On) {
    dies(on, "committed", ONCE).await;
}

async fn before_begin(on: On) {
    dies(on, "beginning", ONCE).await;
}

async fn after_begin(on: On) {
    dies(on, "begun", Left { arrived: 0, ..UNKNOWN }).await;
}

async fn after_the_request_was_written(on: On) {
    dies(on, "written", UNKNOWN).await;
}

async fn before_settle(on: On) {
    dies(on, "settling", UNKNOWN).await;
}

async fn after_settle(on: On) {
    dies(on, "settled", ONCE).await;
}

/// Dies at `point` over the third message, whose fate must be `left`.
async fn dies(on: On, point: &str, left: Left) {
    let mut fleet = Fleet::new(Setup::new(on)).await;
    fleet.start(0, Some(&format!("{point}:3"))).await;
    let wecom = WeCom::of(&fleet);
    let mut posted = Vec::new();
    for serial in [1, 2] {
        posted.push(wecom.push(&query("c0", "u1", serial)).await);
        // So that nothing else is on its way when the third comes.
        judge(&fleet, &posted, &[], PATIENCE).await.assert_clean();
    }
    let third = query("c0", "u1", 3);
    let pushed = tokio::spawn({
        let (wecom, third) = (wecom.clone(), third.clone());
        async move { wecom.push(&third).await }
    });
    let ended = fleet.ends(0).await;
    let died = [wecom_gateway::model::now_ms()];
    assert_eq!(ended.signal(), Some(SIGABRT), "{ended:?}");
    fleet.start(0, None).await;
    posted.push(pushed.await.unwrap());
    assert!(posted[2].acked, "pushed again until it was taken");
    fleet.fake.until(|fake| fake.service().calls().iter().any(|call| call.msg_id() == third.msg_id)).await;
    judge(&fleet, &posted, &died, PATIENCE).await.assert_clean();
    meets(&fleet, &posted[2], left).await;

    posted.extend(load(&fleet, 30).await);
    let verdict = judge(&fleet, &posted, &died, PATIENCE).await;
    verdict.assert_clean();
    let want = (33, usize::from(left.outcome == "unknown"), left.asked - 1);
    assert_eq!((verdict.acked, verdict.unknown, verdict.asked_again), want, "{verdict}");
    fleet.end().await;
}

/// Compares what became of a message with what must have.
async fn meets(fleet: &Fleet, Posted { message, .. }: &Posted, left: Left) {
    // The fake compares each call's Idempotency-Key with the message's; a call that differs is a violation.
    let calls = fleet.fake.service().calls();
    let asked: Vec<_> = calls.iter().filter(|call| call.msg_id() == message.msg_id).collect();
    assert_eq!(asked.len(), left.asked, "{asked:?}");
    assert!(asked.iter().all(|call| call.body["request_id"] == asked[0].body["request_id"]), "{asked:?}");
    let texts = fleet.fake.texts(&key(&message.tag.chat));
    assert_eq!(
        texts.iter().filter(|text| Tag::of(text) == Some(message.tag.clone())).count(),
        left.arrived,
        "{texts:?}"
    );
    let trail = fleet.api(&format!("messages/{}", asked[0].body["request_id"].as_str().unwrap())).await;
    assert_eq!(trail["items"][0]["outcome"], left.outcome, "{trail}");
}

/// What other members write meanwhile and afterwards.
async fn load(fleet: &Fleet, messages: u64) -> Vec<Posted> {
    let chats = super::fleet::chats(3);
    Traffic { messages, chats, members: 2, seed: 7, patience: PATIENCE, after: 100 }.begin(fleet).await
}

/// The lines of a message that is being handled are written, and not yet taken from the journal.
async fn between_records_and_journal(on: On) {
    let mut fleet = Fleet::new(Setup::new(on)).await;
    fleet.fake.service().hold();
    fleet.start(0, Some("recorded")).await;
    let wecom = WeCom::of(&fleet);
    let posted = [wecom.push(&query("c0", "u1", 1)).await];
    let ended = fleet.ends(0).await;
    assert_eq!(ended.signal(), Some(SIGABRT), "{ended:?}");
    fleet.fake.service().release();
    fleet.start(0, None).await;
    judge(&fleet, &posted, &[], PATIENCE).await.assert_clean();
    let trail = fleet.api("messages/m%2F1%2B%3D").await;
    let stages: Vec<&str> =
        trail["items"][0]["stages"].as_array().unwrap().iter().filter_map(|step| step["stage"].as_str()).collect();
    assert_eq!(stages, ["accepted", "handled", "settled"]);
    fleet.end().await;
}

/// What brings its worker down again and again is given up and told, and the member is heard again.
async fn a_message_that_kills_its_worker_is_poison(on: On) {
    let mut fleet = Fleet::new(Setup { alarm_robot: Some(ALARMS), ..Setup::new(on) }).await;
    fleet.start(0, Some("claimed")).await;
    let wecom = WeCom::of(&fleet);
    let (poison, next) = (query("c0", "u1", 1), query("c0", "u1", 2));
    let pushed = tokio::spawn({
        let (wecom, poison) = (wecom.clone(), poison.clone());
        async move { wecom.push(&poison).await }
    });
    let mut ended = fleet.ends(0).await;
    for life in 2..=POISON_AFTER {
        assert_eq!(ended.signal(), Some(SIGABRT), "before life {life}: {ended:?}");
        ended = fleet.starts_and_ends(0, "claimed").await;
    }
    assert_eq!(ended.signal(), Some(SIGABRT), "{ended:?}");
    fleet.start(0, None).await;
    assert!(pushed.await.unwrap().acked);
    assert!(wecom.push(&next).await.acked);
    let ended = tokio::time::timeout(PATIENCE, async {
        let id = |message: &Planned| message.msg_id.replace('/', "%2F").replace('+', "%2B").replace('=', "%3D");
        (fleet.outcome(&id(&poison)).await, fleet.outcome(&id(&next)).await)
    });
    let want = (("dead".into(), Some("poison".into())), ("delivered".into(), None));
    assert_eq!(ended.await.expect("both end"), want);
    assert_eq!(fleet.fake.service().count(), 1, "the poison was never handled");
    let told = format!("support/c0：{}", poison.msg_id);
    let is_told = fleet.fake.until(|fake| fake.texts(ALARMS).iter().any(|text| text.contains(&told)));
    tokio::time::timeout(PATIENCE, is_told).await.expect("somebody is told");
    fleet.end().await;
}

/// Dies with a message in the spool; the next process starts with Redis still away.
#[tokio::test(flavor = "multi_thread")]
async fn after_spooling_before_the_ack() {
    let mut fleet = Fleet::new(Setup::new(On::Redis)).await;
    fleet.start(0, Some("spooled")).await;
    let wecom = WeCom::of(&fleet);
    fleet.take_redis_away();
    let pushed = tokio::spawn(async move { wecom.push(&query("c0", "u1", 1)).await });
    let ended = fleet.ends(0).await;
    assert_eq!(ended.signal(), Some(SIGABRT), "{ended:?}");
    fleet.start(0, None).await;
    let posted = [pushed.await.unwrap()];
    assert!(posted[0].acked, "pushed again until it was taken");
    assert_eq!(fleet.fake.service().count(), 0, "no Redis, no work");
    fleet.bring_redis_back();
    judge(&fleet, &posted, &[], PATIENCE).await.assert_clean();
    meets(&fleet, &posted[0], ONCE).await;
    fleet.end().await;
}

/// The store has what was spooled, and the spool has it too.
#[tokio::test(flavor = "multi_thread")]
async fn between_replay_and_spool() {
    let mut fleet = Fleet::new(Setup::new(On::Redis)).await;
    fleet.start(0, Some("replayed")).await;
    let wecom = WeCom::of(&fleet);
    fleet.take_redis_away();
    let mut posted = Vec::new();
    for serial in 1..=3 {
        posted.push(wecom.push(&query("c0", "u1", serial)).await);
        assert!(posted.last().is_some_and(|posted| posted.acked), "spooled");
    }
    fleet.bring_redis_back();
    let ended = fleet.ends(0).await;
    assert_eq!(ended.signal(), Some(SIGABRT), "{ended:?}");
    fleet.start(0, None).await;
    let verdict = judge(&fleet, &posted, &[wecom_gateway::model::now_ms()], PATIENCE).await;
    verdict.assert_clean();
    assert_eq!((verdict.acked, fleet.fake.service().count() - verdict.asked_again), (3, 3), "{verdict}");
    fleet.end().await;
}

#[tokio::test]
async fn a_point_that_does_not_exist_ends_the_start() {
    let fleet = Fleet::new(Setup::new(On::Embedded)).await;
    let ended = Gateway::start(fleet.config(0), Some("beginn:2")).await.err().expect("it does not start");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert_eq!(ended.said.lines().count(), 1, "{ended:?}");
    assert!(ended.said.contains("\"beginn:2\" is no crash point") && ended.said.contains("committing"), "{ended:?}");
}
