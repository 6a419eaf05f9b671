//! Contract: leases of messages, and what a commit applies.

use std::time::Duration;

use serde_json::json;
use wecom_gateway::model::Session;
use wecom_gateway::store::*;

use super::*;

async fn claim_for(store: &SharedStore, lease: Duration) -> ClaimedMessage {
    let claimed = store.claim_messages(1, lease).await.expect("claim");
    claimed.items.into_iter().next().expect("a message")
}

pub async fn an_ended_lease_brings_the_same_message_again(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    enqueue(&store, arrival("chat", "u", "m2", "r2")).await;
    let first = claim_for(&store, SHORT).await;
    let second = await_message(&store).await;
    assert_eq!(second.message, first.message);
    assert!(second.redelivered && !first.redelivered);
    assert_ne!(second.lease.id, first.lease.id);
    finish(&store, commit(&second, vec![])).await;
    let next = take(&store).await;
    assert_eq!((next.message.request_id.as_str(), next.redelivered), ("r2", false));
}

pub async fn a_lost_lease_commits_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let slow = claim_for(&store, SHORT).await;
    let fast = await_message(&store).await;
    let session = Session { vars: vars("by", "slow"), ..Default::default() };
    let late = Commit {
        exchange: Some(said("u", session, LONG)),
        await_late: Some(LateTicket { ttl: LONG, received_at: 1, expires_at: 2, reply_to: Default::default() }),
        ..commit(&slow, vec![reply("r1", "chat", 0, "slow")])
    };
    assert_eq!(finish(&store, late).await, Committed::Lost);
    assert!(store.claim_replies(1, LONG).await.expect("claim").items.is_empty());
    assert_eq!(store.waiting(&lane("chat"), "r1").await.expect("waiting"), None);
    assert_eq!(stages(&store, "r1").await, [Stage::Accepted]);
    assert_eq!(finish(&store, commit(&fast, vec![reply("r1", "chat", 0, "fast")])).await, Committed::Done);
    assert_eq!(finish(&store, commit(&fast, vec![reply("r1", "chat", 0, "fast")])).await, Committed::Lost);
    assert_eq!(text_of(&send(&store, Fate::Delivered).await), "fast");
    enqueue(&store, arrival("chat", "u", "m2", "r2")).await;
    assert_eq!(take(&store).await.remembered, Remembered::default());
}

pub async fn an_ended_lease_that_nobody_took_still_commits(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let claimed = claim_for(&store, SHORT).await;
    pass(SHORT + Duration::from_millis(5)).await;
    assert_eq!(finish(&store, commit(&claimed, vec![])).await, Committed::Done);
    assert!(store.claim_messages(1, LONG).await.expect("claim").items.is_empty());
}

pub async fn a_renewed_lease_holds(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let claimed = claim_for(&store, LONG / 2).await;
    let renewed = store.renew(Side::In, vec![claimed.lease.clone()], LONG * 10).await.expect("renew");
    assert_eq!(renewed, [true]);
    let idle = store.claim_messages(1, LONG).await.expect("claim");
    assert!(idle.items.is_empty() && idle.next_wake > Some(LONG * 9));
    // It may be cut short as well.
    store.renew(Side::In, vec![claimed.lease.clone()], SHORT).await.expect("renew");
    assert!(await_message(&store).await.redelivered);
}

pub async fn a_lost_lease_is_not_renewed(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    enqueue(&store, arrival("other", "u", "m1", "r2")).await;
    let other = take(&store).await;
    let slow = claim_for(&store, SHORT).await;
    let fast = await_message(&store).await;
    let leases = vec![fast.lease.clone(), slow.lease.clone(), other.lease.clone()];
    assert_eq!(store.renew(Side::In, leases, LONG).await.expect("renew"), [true, false, true]);
    finish(&store, commit(&fast, vec![])).await;
    assert_eq!(store.renew(Side::In, vec![fast.lease], LONG).await.expect("renew"), [false]);
}

pub async fn a_released_message_can_be_claimed_at_once(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let first = take(&store).await;
    store.release(Side::In, vec![first.lease.clone()], Duration::ZERO).await.expect("release");
    let second = take(&store).await;
    assert_eq!(second.message, first.message);
    // The first holder has nothing to give back any more.
    store.release(Side::In, vec![first.lease.clone()], Duration::ZERO).await.expect("release");
    assert!(store.claim_messages(1, LONG).await.expect("claim").items.is_empty());
    assert_eq!(finish(&store, commit(&first, vec![])).await, Committed::Lost);
    assert_eq!(finish(&store, commit(&second, vec![])).await, Committed::Done);
}

pub async fn a_lane_given_back_for_a_while_waits_so_long(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let first = take(&store).await;
    store.release(Side::In, vec![first.lease.clone()], LONG).await.expect("release");
    let claimed = store.claim_messages(1, LONG).await.expect("claim");
    assert!(claimed.items.is_empty());
    let wait = claimed.next_wake.expect("a pause ends");
    assert!(wait <= LONG && wait > LONG / 2, "{wait:?}");
    // Nobody holds it meanwhile, and what comes in does not end the pause.
    assert_eq!(finish(&store, commit(&first, vec![])).await, Committed::Lost);
    enqueue(&store, arrival("chat", "u", "m2", "r2")).await;
    assert!(store.claim_messages(1, LONG).await.expect("claim").items.is_empty());

    enqueue(&store, arrival("other", "u", "m1", "r3")).await;
    let other = take(&store).await;
    store.release(Side::In, vec![other.lease], SHORT).await.expect("release");
    assert_eq!(await_message(&store).await.message.request_id, "r3");
}

pub async fn an_idle_store_has_nothing_to_wait_for(fixture: &impl Fixture) {
    let store = fixture.store();
    for _ in 0..3 {
        let messages = store.claim_messages(10, LONG).await.expect("claim");
        assert!(messages.items.is_empty() && messages.next_wake.is_none());
        let replies = store.claim_replies(10, LONG).await.expect("claim");
        assert!(replies.items.is_empty() && replies.next_wake.is_none());
    }
    assert_eq!(store.enqueue(vec![]).await.expect("enqueue"), []);
    assert!(store.claim_messages(0, LONG).await.expect("claim").items.is_empty());
    assert!(store.read_journal(10).await.expect("journal").is_empty());
    assert_eq!(store.depth().await.expect("depth"), Depth::default());
    store.ping().await.expect("ping");
}

pub async fn next_wake_is_the_nearest_end_of_a_lease(fixture: &impl Fixture) {
    let store = fixture.store();
    // A claim that got all it wanted need not have looked at the other shards.
    for chat in chats_of_one_shard(fixture, 3) {
        enqueue(&store, arrival(&chat, "u", "m", &chat)).await;
    }
    claim_for(&store, LONG * 3).await;
    claim_for(&store, LONG).await;
    let last = store.claim_messages(1, LONG * 2).await.expect("claim");
    let next_wake = last.next_wake.expect("leases end");
    assert!(next_wake <= LONG && next_wake > LONG / 2, "{next_wake:?}");
}

pub async fn new_work_wakes_its_side(fixture: &impl Fixture) {
    let store = fixture.store();
    let woken = async |side| {
        let long = Duration::from_secs(3600);
        patiently(store.wakeups().wait(side, long)).await;
    };
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    woken(Side::In).await;
    let claimed = take(&store).await;
    store.release(Side::In, vec![claimed.lease], Duration::ZERO).await.expect("release");
    woken(Side::In).await;
    let claimed = take(&store).await;
    let late = LateTicket { ttl: LONG, received_at: 1, expires_at: 2, reply_to: Default::default() };
    let done = Commit { await_late: Some(late), ..commit(&claimed, vec![reply("r1", "chat", 0, "now")]) };
    finish(&store, done).await;
    woken(Side::Out).await;
    let taken = take_reply(&store).await;
    store.release(Side::Out, vec![taken.lease], Duration::ZERO).await.expect("release");
    woken(Side::Out).await;
    send(&store, Fate::Delivered).await;
    store.answer_late(late::answer("r1", "chat", 1, "later")).await.expect("answer");
    woken(Side::Out).await;
}

pub async fn a_commit_leaves_replies_in_order(fixture: &impl Fixture) {
    let store = fixture.store();
    for (msg, request) in [("m1", "r1"), ("m2", "r2")] {
        enqueue(&store, arrival("chat", "u", msg, request)).await;
        let claimed = take(&store).await;
        let replies = vec![reply(request, "chat", 0, "first"), reply(request, "chat", 1, "second")];
        assert_eq!(finish(&store, commit(&claimed, replies)).await, Committed::Done);
    }
    for (request, seq, text) in [("r1", 0, "first"), ("r1", 1, "second"), ("r2", 0, "first"), ("r2", 1, "second")] {
        let sent = send(&store, Fate::Delivered).await;
        assert_eq!(sent.delivery.id, wecom_gateway::model::delivery_id(request, seq));
        assert_eq!(text_of(&sent), text);
    }
}

pub async fn a_commit_without_replies_leaves_none(fixture: &impl Fixture) {
    let store = fixture.store();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    finish(&store, commit(&take(&store).await, vec![])).await;
    let claimed = store.claim_replies(1, LONG).await.expect("claim");
    assert!(claimed.items.is_empty() && claimed.next_wake.is_none());
    assert_eq!(store.depth().await.expect("depth").out_lanes, 0);
}

fn vars(name: &str, value: &str) -> serde_json::Map<String, serde_json::Value> {
    [(name.to_owned(), json!(value))].into_iter().collect()
}

pub async fn a_full_out_lane_takes_nothing_of_a_commit(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["waits"]).await;
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let claimed = take(&store).await;
    let replies = vec![reply("r1", "chat", 0, "a"), reply("r1", "chat", 1, "b")];
    let exchange = Some(said("u", Session { vars: vars("k", "v"), ..Default::default() }, LONG));
    let full = Commit { depth_limit: 2, exchange, ..commit(&claimed, replies.clone()) };
    assert_eq!(finish(&store, full).await, Committed::LaneFull);
    assert_eq!(stages(&store, "r1").await, [Stage::Accepted]);
    // The lease still holds, and the same commit goes through once there is room.
    assert!(store.claim_messages(1, LONG).await.expect("claim").items.is_empty());
    let roomy = Commit { depth_limit: 3, ..commit(&claimed, replies) };
    assert_eq!(finish(&store, roomy).await, Committed::Done);
    for text in ["waits", "a", "b"] {
        assert_eq!(text_of(&send(&store, Fate::Delivered).await), text);
    }
    enqueue(&store, arrival("chat", "u", "m2", "r2")).await;
    assert_eq!(take(&store).await.remembered, Remembered::default());
}
