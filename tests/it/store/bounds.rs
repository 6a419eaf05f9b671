//! Contract: what a store takes no more of. A message that brings its workers down ends as poison; a store that holds
//! too much takes nothing new, and finishes what it has.

use super::*;

/// A handle that gives a message up after so many crashes.
async fn giving_up_after(fixture: &impl Fixture, poison_after: u32) -> SharedStore {
    fixture.reopen_as(Options { poison_after, ..Options::default() }).await
}

/// Claims the one message that is there, and lets its worker go down with it.
async fn crash(store: &SharedStore, request_id: &str, redelivered: bool) {
    let claimed = take(store).await;
    assert_eq!((claimed.message.request_id.as_str(), claimed.redelivered), (request_id, redelivered));
    end_lease(store, Side::In, &claimed.lease, true).await;
}

/// The requests that a claim ends as poison; the others that it brings are kept for [`LONG`].
async fn poisoned(store: &SharedStore) -> Vec<String> {
    let claimed = store.claim_messages(10, LONG).await.expect("claim");
    claimed.poisoned.into_iter().map(|message| message.request_id).collect()
}

pub async fn a_message_whose_workers_never_finish_is_dead_as_poison(fixture: &impl Fixture) {
    let store = giving_up_after(fixture, 2).await;
    let poison = arrival("chat", "u", "m1", "r1");
    for arrival in [poison.clone(), arrival("chat", "u", "m2", "r2")] {
        enqueue(&store, arrival).await;
    }
    crash(&store, "r1", false).await;
    crash(&store, "r1", true).await;
    let claimed = store.claim_messages(10, LONG).await.expect("claim");
    assert_eq!(claimed.poisoned, [Poisoned { request_id: "r1".into(), key: poison.message.key() }]);
    // The lane goes on.
    assert_eq!(claimed.items.len(), 1);
    assert_eq!(claimed.items[0].message.request_id, "r2");
    assert_eq!(finish(&store, commit(&claimed.items[0], vec![])).await, Committed::Done);
    // It has one end, and is done.
    let told: Vec<Line> = entries(&store).await.into_iter().map(|e| e.line).filter(|l| l.request_id == "r1").collect();
    assert_eq!(told.iter().map(|line| line.stage).collect::<Vec<_>>(), [Stage::Accepted, Stage::Expired]);
    assert_eq!(serde_json::Value::from(told[1].detail.clone()), json!({"outcome": "dead", "reason": "poison"}));
    assert_eq!(enqueue_one(&store, poison).await, Enqueued::Stored);
    assert_eq!(enqueue_one(&store, arrival("chat", "u", "m1", "copy")).await, Enqueued::Duplicate);
    assert!(store.claim_messages(10, LONG).await.expect("claim").items.is_empty());
}

pub async fn a_release_is_no_crash(fixture: &impl Fixture) {
    let store = giving_up_after(fixture, 1).await;
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    for pause in [Duration::ZERO, Duration::from_millis(5), Duration::ZERO] {
        let claimed = await_message(&store).await;
        store.release(Side::In, vec![claimed.lease], pause).await.expect("release");
    }
    crash(&store, "r1", true).await;
    assert_eq!(poisoned(&store).await, ["r1"]);
}

pub async fn crashes_belong_to_one_message(fixture: &impl Fixture) {
    let store = giving_up_after(fixture, 2).await;
    for id in ["1", "2"] {
        enqueue(&store, arrival("chat", "u", id, id)).await;
    }
    crash(&store, "1", false).await;
    let first = take(&store).await;
    assert_eq!(finish(&store, commit(&first, vec![])).await, Committed::Done);
    crash(&store, "2", false).await;
    crash(&store, "2", true).await;
    assert_eq!(poisoned(&store).await, ["2"]);
}

/// Also those that a release comes between.
pub async fn crashes_are_counted_over_a_restart(fixture: &impl Fixture) {
    let store = giving_up_after(fixture, 2).await;
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    crash(&store, "r1", false).await;
    let store = giving_up_after(fixture, 2).await;
    let claimed = take(&store).await;
    store.release(Side::In, vec![claimed.lease], Duration::ZERO).await.expect("release");
    let store = giving_up_after(fixture, 2).await;
    crash(&store, "r1", true).await;
    let store = giving_up_after(fixture, 2).await;
    assert_eq!(poisoned(&store).await, ["r1"]);
}

/// `count` messages of a member that waited too long, then one that did not.
async fn enqueue_old_ones(store: &SharedStore, chat: &str, count: usize) {
    let message = |n: usize| {
        let id = format!("m{n}");
        let mut message = Arrival { depth_limit: u64::MAX, ..arrival(chat, "u", &id, &id) };
        if n < count {
            message.message.received_at -= 2 * LONG.as_millis() as i64;
        }
        message
    };
    let stored = store.enqueue((0..=count).map(message).collect()).await.expect("enqueue");
    assert_eq!(stored, vec![Enqueued::Stored; count + 1]);
    // Before whatever comes now.
    pass(Duration::ZERO).await;
}

/// As after a long downtime: what nobody wants any more takes many steps, and holds up neither other lanes nor its own.
pub async fn a_claim_drops_only_so_many_and_asks_for_the_next(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    enqueue_old_ones(&store, &chats[0], 3 * MOST_DROPPED).await;
    enqueue(&store, arrival(&chats[1], "u", "other", "other")).await;
    pass(Duration::ZERO).await;
    let mut waiting = 3 * MOST_DROPPED + 2;
    for brought in [&[][..], &["other"], &[], &[&format!("m{}", 3 * MOST_DROPPED)]] {
        let claimed = store.claim_messages(10, LONG).await.expect("claim");
        let ids: Vec<_> = claimed.items.iter().map(|item| item.message.request_id.as_str()).collect();
        assert_eq!((ids.as_slice(), claimed.poisoned.len()), (brought, 0), "{waiting} waited");
        let (left, next_wake) = (store.depth().await.expect("depth").waiting, claimed.next_wake.expect("leases end"));
        assert_eq!(next_wake.is_zero(), left < waiting as u64, "{left} wait after {next_wake:?}");
        waiting -= if next_wake.is_zero() { MOST_DROPPED } else { 0 };
        assert_eq!(left, waiting as u64);
    }
    let expired = entries(&store).await.into_iter().filter(|entry| entry.line.stage == Stage::Expired);
    assert_eq!((expired.count(), waiting), (3 * MOST_DROPPED, 2));
}

pub async fn crashes_stay_with_their_message_where_a_claim_ends_early(fixture: &impl Fixture) {
    let store = giving_up_after(fixture, 1).await;
    let chats = chats_of_one_shard(fixture, 1);
    enqueue(&store, arrival(&chats[0], "u", "poison", "poison")).await;
    crash(&store, "poison", false).await;
    enqueue_old_ones(&store, &chats[0], MOST_DROPPED - 1).await;
    let claimed = store.claim_messages(10, LONG).await.expect("claim");
    assert_eq!((claimed.items.len(), claimed.poisoned.len(), claimed.next_wake), (0, 1, Some(Duration::ZERO)));
    let claimed = store.claim_messages(10, LONG).await.expect("claim");
    assert_eq!((claimed.items.len(), claimed.poisoned.len()), (1, 0));
    assert!(!claimed.items[0].redelivered);
}

/// A handle that holds so many in the shard of [`chats_of_one_shard`].
pub async fn holding(fixture: &impl Fixture, most: u64) -> SharedStore {
    fixture.reopen_as(Options { max_waiting: most * u64::from(fixture.shards()), ..Options::default() }).await
}

pub async fn a_full_store_takes_nothing_new_and_finishes_what_it_has(fixture: &impl Fixture) {
    let store = holding(fixture, 2).await;
    let chats = chats_of_one_shard(fixture, 3);
    let message = |n: usize| arrival(&chats[n], "u", &format!("m{n}"), &format!("r{n}"));
    let waiting = async || store.depth().await.expect("depth").waiting;
    let batch = (0..3).map(message).collect();
    let answers = store.enqueue(batch).await.expect("enqueue");
    assert_eq!(answers, [Enqueued::Stored, Enqueued::Stored, Enqueued::StoreFull]);
    // What is known is answered as ever.
    assert_eq!(enqueue_one(&store, Arrival { repeated: true, ..message(0) }).await, Enqueued::Stored);
    assert_eq!(waiting().await, 2);
    let claimed = take(&store).await;
    let chat = claimed.message.chat_id.clone();
    assert_eq!(enqueue_one(&store, Arrival { ..arrival(&chat, "u", "m0", "copy") }).await, Enqueued::Duplicate);
    assert_eq!(enqueue_one(&store, message(2)).await, Enqueued::StoreFull);
    // Replies are taken, and wait in its place.
    let replies = (0..2).map(|seq| reply("r0", &chat, seq, "hi")).collect();
    assert_eq!(finish(&store, commit(&claimed, replies)).await, Committed::Done);
    assert_eq!(waiting().await, 3);
    assert_eq!(enqueue_one(&store, message(2)).await, Enqueued::StoreFull);
    send(&store, Fate::Delivered).await;
    assert_eq!(enqueue_one(&store, message(2)).await, Enqueued::StoreFull);
    send(&store, ENDED).await;
    assert_eq!(waiting().await, 1);
    assert_eq!(enqueue_one(&store, message(2)).await, Enqueued::Stored);
    assert_eq!(waiting().await, 2);
}

pub async fn a_late_answer_is_never_refused_by_a_full_store(fixture: &impl Fixture) {
    let store = holding(fixture, 1).await;
    let chat = &chats_of_one_shard(fixture, 1)[0];
    enqueue(&store, arrival(chat, "u", "r1", "r1")).await;
    let ticket =
        LateTicket { ttl: LONG, received_at: now_ms(), expires_at: now_ms() + 60_000, reply_to: Default::default() };
    let claimed = take(&store).await;
    let done = finish(&store, Commit { await_late: Some(ticket), ..commit(&claimed, vec![]) }).await;
    assert_eq!(done, Committed::Done);
    for seq in 0..2 {
        let answer = LateAnswer {
            request_id: "r1".into(),
            lane: lane(chat),
            seq,
            replies: vec![reply("r1", chat, seq as usize, "hi")],
            turn: LEVEL,
            depth_limit: 100,
            lines: vec![],
        };
        assert_eq!(store.answer_late(answer).await.expect("answer"), Answered::Queued);
    }
    assert_eq!(enqueue_one(&store, arrival(chat, "u", "m2", "r2")).await, Enqueued::StoreFull);
}
