//! Unknown pushes on each real database: who holds a row, for how long, and when it is looked at next.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use wecom_gateway::model::{MessageKey, Outcome};
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::records::{Held, Records, Unknowns};
use wecom_gateway::store::{CONTENT, Line, Stage};

use super::{In, line, on_both_databases, records};

const FIRST: Duration = Duration::from_millis(100);
const HOLD: Duration = Duration::from_millis(1000);

on_both_databases!(
    a_row_is_due_some_time_after_its_end_and_held_by_one,
    of_many_that_ask_at_once_each_row_is_held_by_one,
    what_a_look_came_to_says_when_the_next_is_due,
    what_is_settled_or_forgotten_is_no_row,
);

fn push_key(n: i64) -> MessageKey {
    MessageKey::of_push("app", &format!("c{n}"), "t")
}

/// The `n`-th delivery of a task, which ended so at `at`.
pub(super) fn ended(n: i64, at: i64, state: &str) -> Vec<Recorded> {
    let id = format!("t.{n}");
    let queued = json!({"task": "t", "replies": [{"id": id, "digest": "d"}]});
    let content = json!({"repeat_until": at + 5000});
    let settled = json!({"delivery": id, "state": state, CONTENT: content});
    vec![line(at - 1, Stage::Pushed, "t", &push_key(n), queued), line(at, Stage::Settled, "t", &push_key(n), settled)]
}

pub(super) fn look(n: i64, detail: Value) -> Line {
    let mut detail = detail.as_object().cloned().unwrap_or_default();
    detail.insert("delivery".into(), format!("t.{n}").into());
    Line { stage: Stage::Compensated, request_id: "t".into(), key: push_key(n), detail }
}

async fn hold(records: &Records, now: i64, most: u32) -> Vec<Held> {
    records.hold_unknown(now, FIRST, HOLD, most).await.expect("holds")
}

fn ids(held: &[Held]) -> Vec<&str> {
    held.iter().map(|held| held.delivery.as_str()).collect()
}

async fn a_row_is_due_some_time_after_its_end_and_held_by_one(kind: In) {
    let (database, records) = records(kind).await;
    records.write([ended(0, 1000, "unknown"), ended(1, 1020, "unknown")].concat()).await.expect("writes");
    assert_eq!(ids(&hold(&records, 1099, 9).await), [""; 0]);
    let first = hold(&records, 1100, 9).await;
    let held = Held { delivery: "t.0".into(), looks: 0, repeat_until: Some(6000), until: 2100 };
    assert_eq!(first, [held]);
    let other = database.open().await;
    assert_eq!(ids(&hold(&other, 1500, 9).await), ["t.1"]);
    // The same lines again free nothing.
    records.write(ended(0, 1000, "unknown")).await.expect("writes");
    assert_eq!(ids(&hold(&other, 2099, 9).await), [""; 0]);
    assert_eq!(ids(&hold(&other, 2100, 9).await), ["t.0"], "its holder died");
}

async fn of_many_that_ask_at_once_each_row_is_held_by_one(kind: In) {
    const ROWS: i64 = 120;
    let (database, records) = records(kind).await;
    records.write((0..ROWS).flat_map(|n| ended(n, 1000, "unknown")).collect()).await.expect("writes");
    let all = async |records: Records| {
        let mut held = Vec::new();
        loop {
            let some = hold(&records, 2000, 7).await;
            if some.is_empty() {
                return held;
            }
            held.extend(some);
            tokio::task::yield_now().await;
        }
    };
    let others = [database.open().await, database.open().await, database.open().await];
    let held = futures_util::future::join_all(others.into_iter().chain([records]).map(all)).await.concat();
    let distinct: BTreeSet<&str> = ids(&held).into_iter().collect();
    assert_eq!((held.len(), distinct.len()), (ROWS as usize, ROWS as usize));
}

async fn what_a_look_came_to_says_when_the_next_is_due(kind: In) {
    let (database, records) = records(kind).await;
    records.write(ended(0, 1000, "unknown")).await.expect("writes");
    let first = hold(&records, 1100, 1).await.remove(0);
    records
        .looked(&first, 1150, &look(0, json!({"action": "waits", "looks": 1, "next_at": 1300})))
        .await
        .expect("writes");
    let waiting = Unknowns { looked_after: 1, for_a_person: 0, due: Some(1300) };
    assert_eq!(records.unknown_pushes().await.expect("reads"), waiting);
    assert_eq!(ids(&hold(&records, 1299, 1).await), [""; 0]);
    let second = hold(&records, 1300, 1).await.remove(0);
    assert_eq!(second.looks, 1);
    // Another took it over; who comes late lets nothing go that is not theirs.
    let other = database.open().await;
    let third = hold(&other, 2300, 1).await.remove(0);
    records
        .looked(&second, 2301, &look(0, json!({"action": "waits", "looks": 2, "next_at": 2302})))
        .await
        .expect("writes");
    assert_eq!(ids(&hold(&records, 2303, 1).await), [""; 0]);
    other.looked(&third, 2304, &look(0, json!({"action": "gave_up", "looks": 3}))).await.expect("writes");
    let called = Unknowns { looked_after: 0, for_a_person: 1, due: None };
    assert_eq!(records.unknown_pushes().await.expect("reads"), called);
    assert_eq!(ids(&hold(&records, i64::MAX / 2, 1).await), [""; 0]);
    let trail = records.messages_by_id("t", None, 1).await.expect("reads").items.remove(0);
    let stages: Vec<_> = trail.stages.iter().map(|stage| stage["stage"].as_str().unwrap_or_default()).collect();
    assert_eq!(stages, ["pushed", "settled", "compensated", "compensated", "compensated"]);
}

async fn what_is_settled_or_forgotten_is_no_row(kind: In) {
    let (_database, records) = records(kind).await;
    let states = ["unknown", "delivered", "dead", "unknown"];
    records.write((0..4).flat_map(|n| ended(n, 1000 + n, states[n as usize])).collect()).await.expect("writes");
    // A reply that is unknown is a person's from the beginning.
    records.write(super::life(5, "unknown")).await.expect("writes");
    let known = async || {
        let Unknowns { looked_after, for_a_person, .. } = records.unknown_pushes().await.expect("reads");
        (looked_after, for_a_person)
    };
    assert_eq!(known().await, (2, 0));
    let by_hand = json!({"delivery": "t.0", "action": "delivered", "by": "ops"});
    records.write(vec![line(1010, Stage::Operated, "t", &push_key(0), by_hand)]).await.expect("writes");
    assert_eq!(known().await, (1, 0));
    // Late lines of what is settled bring nothing back.
    records.write(ended(0, 1000, "unknown")).await.expect("writes");
    assert_eq!(known().await, (1, 0));
    let listed = records.deliveries(&[Outcome::Unknown], None, 9).await.expect("reads").items;
    let looks: Vec<_> = listed.iter().map(|ended| (ended.item.id.as_str(), ended.item.looks)).collect();
    assert_eq!(looks, [("t.3", Some(0)), ("r5.0", None)]);
    while records.prune(2000, 100).await.expect("prunes") {}
    assert_eq!(known().await, (0, 0));
}
