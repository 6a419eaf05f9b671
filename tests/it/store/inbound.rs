//! Contract: enqueue, marks and the claim of messages.

use std::time::Duration;

use serde_json::json;
use wecom_gateway::model::{Lane, now_ms};
use wecom_gateway::store::*;

use super::*;

/// Takes the message that is there and commits it without replies.
async fn work(store: &SharedStore) -> String {
    let claimed = take(store).await;
    assert_eq!(finish(store, commit(&claimed, vec![])).await, Committed::Done);
    claimed.message.request_id
}

async fn nothing_waits(store: &SharedStore) {
    let claimed = store.claim_messages(10, LONG).await.expect("claim");
    assert!(claimed.items.is_empty(), "{:?}", claimed.items);
}

pub async fn a_message_is_claimed_as_it_came_in(fixture: &impl Fixture) {
    let store = fixture.store();
    let sent = arrival("chat", "u", "m1", "r1");
    enqueue(&store, sent.clone()).await;
    let claimed = take(&store).await;
    assert_eq!(claimed.message, sent.message);
    assert_eq!(claimed.lease.lane, sent.lane);
    assert_eq!(claimed.remembered, Default::default());
    assert!(!claimed.redelivered);
}

pub async fn a_lane_is_first_in_first_out(fixture: &impl Fixture) {
    let store = fixture.store();
    for i in 0..12 {
        enqueue(&store, arrival("chat", "u", &format!("m{i}"), &format!("r{i}"))).await;
    }
    for i in 0..12 {
        assert_eq!(work(&store).await, format!("r{i}"));
    }
    nothing_waits(&store).await;
}

pub async fn a_lane_is_worked_by_one_while_others_go_on(fixture: &impl Fixture) {
    let store = fixture.store();
    for (sender, msg) in [("a", "m1"), ("a", "m2"), ("b", "m3")] {
        enqueue(&store, arrival("chat", sender, msg, msg)).await;
    }
    let claimed = store.claim_messages(10, LONG).await.expect("claim");
    let mut ids: Vec<_> = claimed.items.iter().map(|c| c.message.request_id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["m1", "m3"]);
    assert_ne!(claimed.items[0].lease.id, claimed.items[1].lease.id);
    nothing_waits(&store).await;
    for item in &claimed.items {
        finish(&store, commit(item, vec![])).await;
    }
    assert_eq!(take(&store).await.message.request_id, "m2");
}

pub async fn a_claim_brings_no_more_than_wanted(fixture: &impl Fixture) {
    let store = fixture.store();
    for i in 0..5 {
        enqueue(&store, arrival(&format!("chat{i}"), "u", "m", &format!("r{i}"))).await;
    }
    let mut seen = Vec::new();
    for expected in [2, 2, 1, 0] {
        let claimed = store.claim_messages(2, LONG).await.expect("claim");
        assert_eq!(claimed.items.len(), expected);
        seen.extend(claimed.items.into_iter().map(|c| c.message.request_id));
    }
    seen.sort_unstable();
    assert_eq!(seen, ["r0", "r1", "r2", "r3", "r4"]);
}

/// A lane waits from the moment it can be worked: since its first message came, or since its last one was finished.
pub async fn lanes_that_wait_longest_come_first(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 3);
    for (chat, request) in [(2, "first"), (1, "second"), (0, "third"), (2, "fourth")] {
        enqueue(&store, arrival(&chats[chat], "u", request, request)).await;
        pass(Duration::from_millis(2)).await;
    }
    for expected in ["first", "second", "third", "fourth"] {
        assert_eq!(work(&store).await, expected);
    }
}

pub async fn a_copy_of_a_claimed_or_done_message_is_a_duplicate(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m", "r1")).await;
    let claimed = take(&store).await;
    assert_eq!(enqueue_one(&store, arrival("chat", "u", "m", "r2")).await, Enqueued::Duplicate);
    finish(&store, commit(&claimed, vec![])).await;
    assert_eq!(enqueue_one(&store, arrival("chat", "u", "m", "r3")).await, Enqueued::Duplicate);
    nothing_waits(&store).await;
    assert_eq!(stages(&store, "r1").await, [Stage::Accepted, Stage::Handled]);
    assert_eq!(stages(&store, "r2").await, [Stage::Duplicate]);
    assert_eq!(stages(&store, "r3").await, [Stage::Duplicate]);
}

pub async fn the_second_of_two_waiting_copies_is_dropped_at_its_claim(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m", "r1")).await;
    enqueue(&store, arrival("chat", "u", "m", "r2")).await;
    enqueue(&store, arrival("chat", "u", "other", "r3")).await;
    assert_eq!(work(&store).await, "r1");
    // The copy is passed over within the same claim.
    assert_eq!(work(&store).await, "r3");
    nothing_waits(&store).await;
    assert_eq!(stages(&store, "r2").await, [Stage::Accepted, Stage::Duplicate]);
    let copy = entries(&store).await.into_iter().rfind(|e| e.line.request_id == "r2").expect("a line");
    assert_eq!(copy.line.key, arrival("chat", "u", "m", "r2").message.key());
}

/// An enqueue whose answer was lost is repeated, perhaps long after. Its own message must not be told a duplicate of itself.
pub async fn a_repeat_under_the_same_request_id_is_handled_once_and_silently(fixture: &impl Fixture) {
    let store = fixture.store();
    let sent = arrival("chat", "u", "m", "r1");
    enqueue(&store, sent.clone()).await;
    let sent = Arrival { repeated: true, ..sent };
    enqueue(&store, sent.clone()).await;
    let claimed = take(&store).await;
    enqueue(&store, sent.clone()).await;
    finish(&store, commit(&claimed, vec![])).await;
    enqueue(&store, sent).await;
    nothing_waits(&store).await;
    let told = stages(&store, "r1").await;
    assert!(!told.contains(&Stage::Duplicate), "{told:?}");
    assert_eq!(told.iter().filter(|s| **s == Stage::Handled).count(), 1);
    assert_eq!(store.depth().await.expect("depth").in_lanes, 0);
}

pub async fn only_the_whole_triple_makes_two_messages_one(fixture: &impl Fixture) {
    let store = fixture.store();
    for (chat, sender, msg) in [("c1", "u1", "m1"), ("c1", "u1", "m2"), ("c1", "u2", "m1"), ("c2", "u1", "m1")] {
        enqueue(&store, arrival(chat, sender, msg, &format!("{chat}{sender}{msg}"))).await;
    }
    let mut done: Vec<String> = Vec::new();
    for _ in 0..4 {
        done.push(work(&store).await);
    }
    done.sort_unstable();
    assert_eq!(done, ["c1u1m1", "c1u1m2", "c1u2m1", "c2u1m1"]);
}

pub async fn a_full_lane_refuses_and_others_do_not(fixture: &impl Fixture) {
    let store = fixture.store();
    let with_room_for_two = |sender: &str, msg: &str| Arrival { depth_limit: 2, ..arrival("chat", sender, msg, msg) };
    enqueue(&store, with_room_for_two("u", "m1")).await;
    enqueue(&store, with_room_for_two("u", "m2")).await;
    assert_eq!(enqueue_one(&store, with_room_for_two("u", "m3")).await, Enqueued::LaneFull);
    enqueue(&store, with_room_for_two("v", "m4")).await;
    assert_eq!(stages(&store, "m3").await, []);
    assert_eq!(work(&store).await, "m1");
    enqueue(&store, with_room_for_two("u", "m3")).await;
}

pub async fn a_batch_is_answered_in_its_order(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("c1", "u", "known", "r1")).await;
    let claimed = take(&store).await;
    let batch = vec![
        arrival("c1", "u", "known", "r2"),
        arrival("c2", "u", "new", "r3"),
        Arrival { depth_limit: 0, ..arrival("c3", "u", "full", "r4") },
        arrival("c4", "u", "new", "r5"),
    ];
    let answers = store.enqueue(batch).await.expect("enqueue");
    assert_eq!(answers, [Enqueued::Duplicate, Enqueued::Stored, Enqueued::LaneFull, Enqueued::Stored]);
    let stale = Commit { lease: Lease { id: "none".into(), ..claimed.lease.clone() }, ..commit(&claimed, vec![]) };
    let committed = store.commit(vec![stale, commit(&claimed, vec![])]).await.expect("commit");
    assert_eq!(committed, [Committed::Lost, Committed::Done]);
}

pub async fn a_message_past_its_age_is_dropped_unhandled(fixture: &impl Fixture) {
    let store = fixture.store();
    let mut stale = arrival("chat", "u", "old", "r1");
    stale.message.received_at = now_ms() - 120_000;
    enqueue(&store, stale).await;
    enqueue(&store, arrival("chat", "u", "fresh", "r2")).await;
    assert_eq!(work(&store).await, "r2");
    assert_eq!(stages(&store, "r1").await, [Stage::Accepted, Stage::Expired]);
    let dropped = entries(&store).await.into_iter().find(|e| e.line.stage == Stage::Expired).expect("a line");
    assert_eq!(serde_json::Value::Object(dropped.line.detail), json!({"reason": "too_old"}));
    // It counts as done: a copy that comes now is stopped.
    assert_eq!(enqueue_one(&store, arrival("chat", "u", "old", "r3")).await, Enqueued::Duplicate);
}

pub async fn a_mark_ends_with_its_ttl(fixture: &impl Fixture) {
    let store = fixture.store();
    let copy = |request: &str| Arrival { mark_ttl: SHORT, ..arrival("chat", "u", "m", request) };
    enqueue(&store, copy("r1")).await;
    let claimed = take(&store).await;
    let done = Commit { mark_ttl: SHORT, ..commit(&claimed, vec![]) };
    assert_eq!(finish(&store, done).await, Committed::Done);
    pass(SHORT + Duration::from_millis(5)).await;
    enqueue(&store, copy("r2")).await;
    assert_eq!(work(&store).await, "r2");
}

pub async fn any_text_is_a_lawful_id(fixture: &impl Fixture) {
    let store = fixture.store();
    let ids = ["a:b", "{tag}", "群%3A", "'; DROP--\"", "tab\tnew\nline", "CAEQ/+=="];
    for id in ids {
        let sent = arrival(id, id, id, "request");
        enqueue(&store, sent.clone()).await;
        let claimed = take(&store).await;
        assert_eq!(claimed.message, sent.message);
        let answer = reply("request", id, 0, id);
        assert_eq!(finish(&store, commit(&claimed, vec![answer.clone()])).await, Committed::Done);
        let out = send(&store, Fate::Delivered).await;
        assert_eq!((out.delivery, out.lease.lane), (answer, Lane::of_chat(APP, id)));
    }
    assert!(entries(&store).await.iter().any(|e| e.line.key == arrival("a:b", "a:b", "a:b", "").message.key()));
}

pub async fn what_was_stored_is_there_from_elsewhere(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    enqueue(&store, arrival("chat", "u", "m2", "r2")).await;
    let elsewhere = fixture.reopen().await;
    let claimed = take(&elsewhere).await;
    assert_eq!(claimed.message.request_id, "r1");
    assert_eq!(enqueue_one(&store, arrival("chat", "u", "m1", "r3")).await, Enqueued::Duplicate);
    nothing_waits(&store).await;
    finish(&store, commit(&claimed, vec![reply("r1", "chat", 0, "hello")])).await;
    assert_eq!(text_of(&take_reply(&elsewhere).await), "hello");
}
