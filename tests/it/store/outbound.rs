//! Contract: begin, the pace window, dead chats and leases of replies.

use std::time::Instant;

use std::time::Duration;

use wecom_gateway::store::*;

use super::*;

async fn claim_for(store: &SharedStore, lease: Duration) -> ClaimedReply {
    let claimed = store.claim_replies(1, lease).await.expect("claim");
    claimed.items.into_iter().next().expect("a reply")
}

pub async fn a_window_takes_exactly_its_limit(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2", "3", "4"]).await;
    let pace = Pace { limit: 3, window: LONG };
    for _ in 0..3 {
        let head = take_reply(&store).await;
        assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
        settle(&store, settle_of(&head, Fate::Delivered)).await;
    }
    let head = take_reply(&store).await;
    let answer = begin(&store, Begin { pace, ..begin_of(&head) }).await;
    let Begun::Paced(remaining) = answer else { panic!("the window is full: {answer:?}") };
    assert!(remaining <= LONG && remaining > LONG / 2, "{remaining:?}");
    // The lease was given back, the lane waits for the window.
    let status = store.chats(vec![lane("chat")]).await.expect("chats").remove(0);
    let (why, left) = status.parked.expect("parked");
    assert_eq!((why.as_str(), status.leased, status.depth), ("paced", false, 1));
    assert!(left <= remaining && left > LONG / 2, "{left:?}");
    let settled = settle(&store, settle_of(&head, Fate::Delivered)).await;
    assert!(matches!(settled, Settled::Lost), "{settled:?}");
    // One chat's window is no other's.
    queue_texts(&store, "other", &["1"]).await;
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
}

pub async fn a_full_window_opens_again(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let pace = Pace { limit: 1, window: SHORT };
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
    settle(&store, settle_of(&head, Fate::Delivered)).await;
    let head = await_reply(&store).await;
    // On a slow day the window is open again by now; closed or open, the head must get through.
    let answer = begin(&store, Begin { pace, ..begin_of(&head) }).await;
    if let Begun::Paced(remaining) = answer {
        assert!(remaining <= SHORT);
        let head = await_reply(&store).await;
        assert_eq!((text_of(&head), head.attempts, head.refusals, head.begun), ("2", 0, 0, false));
        assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
    }
}

const HOURS: Duration = Duration::from_secs(8 * 3600);

/// Sends that lie ahead count from now: the window is never exceeded, and never closed for longer than it is.
pub async fn a_window_opens_although_the_clock_went_back(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2", "3", "4"]).await;
    let pace = Pace { limit: 2, window: SHORT };
    let begin_next = async || begin(&store, Begin { pace, ..begin_of(&await_reply(&store).await) }).await;
    for _ in 0..2 {
        let head = take_reply(&store).await;
        let begin_long = Begin { pace: Pace { limit: 2, window: LONG }, ..begin_of(&head) };
        assert_eq!(begin(&store, begin_long).await, Begun::Go);
        settle(&store, settle_of(&head, Fate::Delivered)).await;
    }
    fixture.turn_back(HOURS).await;
    assert_eq!(begin_next().await, Begun::Paced(SHORT));
    let head = await_reply(&store).await;
    assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
    settle(&store, settle_of(&head, Fate::Delivered)).await;
    // Both places were free.
    assert_eq!(begin_next().await, Begun::Go);
}

/// What nobody holds waits no longer than anything is set aside for; what somebody holds, as long as it is renewed.
pub async fn what_was_set_aside_comes_back_although_the_clock_went_back(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 3);
    for chat in &chats {
        queue_texts(&store, chat, &[chat]).await;
    }
    for chat in &chats {
        enqueue(&store, arrival(chat, "u", chat, chat)).await;
    }
    let fate = Fate::Again { park: LONG, why: ParkReason::Paced };
    let parked = send(&store, fate).await.delivery.chat_id;
    let (paused, held) = (take_reply(&store).await, take_reply(&store).await);
    store.release(Side::Out, vec![paused.lease.clone()], LONG).await.expect("release");
    let messages = store.claim_messages(2, LONG).await.expect("claim").items;
    store.release(Side::In, vec![messages[0].lease.clone()], LONG).await.expect("release");
    let third = take(&store).await;
    let claim = async || {
        let replies = store.claim_replies(9, LONG).await.expect("claim").items;
        let messages = store.claim_messages(9, LONG).await.expect("claim").items;
        let mut replies: Vec<_> = replies.into_iter().map(|reply| reply.delivery.chat_id).collect();
        replies.sort_unstable();
        (replies, messages.into_iter().map(|item| item.message.request_id).collect::<Vec<_>>())
    };
    assert_eq!(claim().await, (vec![], vec![]));
    fixture.turn_back(HOURS).await;
    let mut back = vec![parked, paused.delivery.chat_id];
    back.sort_unstable();
    assert_eq!(claim().await, (back, vec![messages[0].message.request_id.clone()]));
    assert_eq!(begin(&store, begin_of(&held)).await, Begun::Go);
    assert_eq!(finish(&store, commit(&third, vec![])).await, Committed::Done);
    assert_eq!(finish(&store, commit(&messages[1], vec![])).await, Committed::Done);
}

/// WeCom counts when the request arrives, which may be long after `begin`.
pub async fn a_place_in_the_window_counts_from_the_delivery(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let pace = Pace { limit: 1, window: LONG };
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
    pass(Duration::from_millis(300)).await;
    let before = Instant::now();
    settle(&store, settle_of(&head, Fate::Delivered)).await;
    let head = take_reply(&store).await;
    let Begun::Paced(remaining) = begin(&store, Begin { pace, ..begin_of(&head) }).await else { panic!("full") };
    let counted_from = LONG - remaining;
    assert!(counted_from <= before.elapsed() + Duration::from_millis(5), "counted since {counted_from:?}");
}

/// Whether WeCom counted it is not known, so it counts.
pub async fn a_failed_send_keeps_its_place_in_the_window(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    let pace = Pace { limit: 2, window: LONG };
    for expected_go in [true, true, false] {
        let head = take_reply(&store).await;
        let answer = begin(&store, Begin { pace, ..begin_of(&head) }).await;
        assert_eq!(answer == Begun::Go, expected_go, "{answer:?}");
        settle(&store, settle_of(&head, again(ParkReason::Transient))).await;
    }
}

pub async fn a_repeated_begin_takes_one_place(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let pace = Pace { limit: 2, window: LONG };
    let head = take_reply(&store).await;
    for _ in 0..3 {
        assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
    }
    settle(&store, settle_of(&head, Fate::Delivered)).await;
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
}

pub async fn begin_prolongs_the_lease(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    let head = claim_for(&store, LONG / 2).await;
    begin(&store, Begin { lease_for: LONG * 10, ..begin_of(&head) }).await;
    let idle = store.claim_replies(1, LONG).await.expect("claim");
    assert!(idle.items.is_empty() && idle.next_wake > Some(LONG * 9), "{idle:?}");
}

pub async fn begin_is_lost_once_the_lease_is_over(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    let slow = claim_for(&store, SHORT).await;
    pass(SHORT + Duration::from_millis(5)).await;
    assert_eq!(begin(&store, begin_of(&slow)).await, Begun::Lost, "over, although nobody else has it");
    let fast = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&slow)).await, Begun::Lost, "another's");
    assert!(!fast.begun);
    assert_eq!(begin(&store, begin_of(&fast)).await, Begun::Go);
    settle(&store, settle_of(&fast, Fate::Delivered)).await;
    assert_eq!(begin(&store, begin_of(&fast)).await, Begun::Lost, "given back");
}

pub async fn a_begun_head_without_a_settle_comes_back_as_begun(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let died = take_reply(&store).await;
    assert!(!died.begun);
    assert_eq!(begin(&store, Begin { lease_for: SHORT, ..begin_of(&died) }).await, Begun::Go);
    let found = await_reply(&store).await;
    assert!(found.begun);
    assert_eq!(found.delivery, died.delivery);
    let settled = settle(&store, settle_of(&found, ENDED)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    let next = take_reply(&store).await;
    assert_eq!((text_of(&next), next.begun), ("2", false));
}

pub async fn a_claimed_head_that_was_not_begun_comes_back_as_it_was(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    let died = claim_for(&store, SHORT).await;
    let found = await_reply(&store).await;
    assert_eq!((found.begun, found.attempts, found.refusals, found.failures), (false, 0, 0, 0));
    assert_eq!(found.delivery, died.delivery);
    // What was tried, settled as "again", is not begun either.
    begin(&store, begin_of(&found)).await;
    settle(&store, settle_of(&found, again(ParkReason::Held))).await;
    assert!(!take_reply(&store).await.begun);
}

async fn kill(store: &SharedStore) {
    let head = take_reply(store).await;
    begin(store, begin_of(&head)).await;
    let gone = Fate::Ended { back_off: None, chat_dead: Some(route("home")) };
    settle(store, Settle { last_error: Some("93000 gone".into()), ..settle_of(&head, gone) }).await;
}

async fn last_error(store: &SharedStore) -> Option<String> {
    store.chats(vec![lane("chat")]).await.expect("chats").remove(0).last_error
}

pub async fn a_dead_chat_is_dead_by_its_route_only(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2", "3", "4"]).await;
    kill(&store).await;
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::ChatDead);
    // The head is still ours, to be settled without a request.
    let settled = settle(&store, settle_of(&head, ENDED)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    let head = take_reply(&store).await;
    assert!(last_error(&store).await.is_some());
    assert_eq!(begin(&store, Begin { route: route("new"), ..begin_of(&head) }).await, Begun::Go);
    assert_eq!(last_error(&store).await, None, "it went with the mark");
    settle(&store, settle_of(&head, Fate::Delivered)).await;
    // Another route cleared the mark for good.
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Go);
}

pub async fn a_revived_chat_is_sent_to_again(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    kill(&store).await;
    store.revive(&lane("chat")).await.expect("revive");
    store.revive(&lane("never seen")).await.expect("revive");
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Go);
}

pub async fn a_released_reply_can_be_claimed_at_once(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    let first = take_reply(&store).await;
    store.release(Side::Out, vec![first.lease.clone()], Duration::ZERO).await.expect("release");
    let second = take_reply(&store).await;
    assert_eq!((&second.delivery, second.begun), (&first.delivery, false));
    store.release(Side::Out, vec![first.lease], Duration::ZERO).await.expect("release");
    assert_eq!(begin(&store, begin_of(&second)).await, Begun::Go);
}

pub async fn leases_of_replies_are_renewed_until_lost(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    let slow = claim_for(&store, LONG).await;
    assert_eq!(store.renew(Side::Out, vec![slow.lease.clone()], SHORT).await.expect("renew"), [true]);
    let fast = await_reply(&store).await;
    let renewed = store.renew(Side::Out, vec![slow.lease, fast.lease], LONG).await.expect("renew");
    assert_eq!(renewed, [false, true]);
}
