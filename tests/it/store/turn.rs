//! Contract: which chat is served next, and when a lane goes on by itself.

use std::time::Duration;

use wecom_gateway::model::now_ms;
use wecom_gateway::store::*;

use super::*;

/// A turn that stands `units` ms ahead of [`LEVEL`].
fn ahead(units: u32) -> Turn {
    Turn { weight: units, head_start: Duration::from_millis(1) }
}

async fn queue_with(store: &SharedStore, chat: &str, turn: Turn, texts: &[&str]) {
    let request_id = format!("r-{chat}");
    let replies = texts.iter().enumerate().map(|(seq, text)| reply(&request_id, chat, seq, text)).collect();
    queue(store, turn, replies).await;
}

async fn served(store: &SharedStore, n: usize) -> Vec<String> {
    let mut chats = Vec::new();
    for _ in 0..n {
        chats.push(send(store, Fate::Delivered).await.delivery.chat_id);
    }
    chats
}

pub async fn heavier_chats_go_first(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 3);
    let an_hour = Duration::from_secs(3600);
    for (chat, weight) in chats.iter().zip([1, 5, 100]) {
        queue_with(&store, chat, Turn { weight, head_start: an_hour }, &["hi"]).await;
    }
    assert_eq!(served(&store, 3).await, [chats[2].clone(), chats[1].clone(), chats[0].clone()]);
}

pub async fn chats_of_one_weight_go_by_age(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 3);
    for i in [2, 0, 1] {
        queue_with(&store, &chats[i], LEVEL, &["hi"]).await;
        pass(Duration::from_millis(2)).await;
    }
    assert_eq!(served(&store, 3).await, [chats[2].clone(), chats[0].clone(), chats[1].clone()]);
}

/// A head start is finite: who waits longer than that goes before any weight.
pub async fn a_light_chat_is_not_starved(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    queue_with(&store, &chats[1], ahead(1), &["light"]).await;
    pass(Duration::from_millis(60)).await;
    queue_with(&store, &chats[0], ahead(30), &["heavy"]).await;
    assert_eq!(served(&store, 2).await, [chats[1].clone(), chats[0].clone()]);
}

/// What is queued behind a head neither hurries its lane nor makes it claimable twice.
pub async fn a_lane_that_is_worked_keeps_its_order(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["a", "b"]).await;
    let head = take_reply(&store).await;
    queue(&store, LEVEL, vec![reply("more", "chat", 0, "c")]).await;
    assert!(store.claim_replies(5, LONG).await.expect("claim").items.is_empty());
    begin(&store, begin_of(&head)).await;
    settle(&store, settle_of(&head, Fate::Delivered)).await;
    for text in ["b", "c"] {
        assert_eq!(text_of(&send(&store, Fate::Delivered).await), text);
    }
}

pub async fn a_claim_of_replies_brings_no_more_than_wanted(fixture: &impl Fixture) {
    let store = fixture.store();
    for i in 0..5 {
        queue_texts(&store, &format!("c{i}"), &["a", "b"]).await;
    }
    let mut seen = Vec::new();
    for expected in [2, 2, 1, 0] {
        let claimed = store.claim_replies(2, LONG).await.expect("claim");
        assert_eq!(claimed.items.len(), expected);
        seen.extend(claimed.items.into_iter().map(|c| c.delivery.chat_id));
    }
    seen.sort_unstable();
    assert_eq!(seen, ["c0", "c1", "c2", "c3", "c4"]);
}

pub async fn a_parked_lane_is_not_claimed_before_its_time(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["a"]).await;
    send(&store, Fate::Again { park: LONG, why: ParkReason::Held }).await;
    // Neither more replies nor a claim make it go earlier.
    queue(&store, LEVEL, vec![reply("more", "chat", 0, "b")]).await;
    let claimed = store.claim_replies(5, LONG).await.expect("claim");
    assert!(claimed.items.is_empty());
    let next_wake = claimed.next_wake.expect("it wakes");
    assert!(next_wake <= LONG && next_wake > LONG / 2, "{next_wake:?}");
}

/// A lane with `texts`, its head begun.
async fn begun(store: &SharedStore, chat: &str, texts: &[&str]) -> ClaimedReply {
    queue_texts(store, chat, texts).await;
    let head = take_reply(store).await;
    assert_eq!(begin(store, begin_of(&head)).await, Begun::Go);
    head
}

pub async fn going_on_stays_with_the_lane_while_nobody_is_before_it(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    let first = begun(&store, &chats[0], &["a", "b", "c"]).await;
    // Another lane waits, and waits longer, but this one is heavier.
    queue_texts(&store, &chats[1], &["other"]).await;
    let heavy = Turn { weight: 100, head_start: LONG };
    let go_on = Settle { turn: heavy, ..settle_and_go_on(&first, Fate::Delivered) };
    let Settled::Next(second, Some(Begun::Go)) = settle(&store, go_on).await else { panic!("it goes on") };
    assert_eq!((text_of(&second), second.attempts, second.begun), ("b", 0, false));
    let go_on = Settle { turn: heavy, ..settle_and_go_on(&second, ENDED) };
    let Settled::Next(third, Some(Begun::Go)) = settle(&store, go_on).await else { panic!("it goes on") };
    assert_eq!(text_of(&third), "c");
    // Nothing is left to go on with.
    let last = settle(&store, settle_and_go_on(&third, Fate::Delivered)).await;
    assert!(matches!(last, Settled::Released), "{last:?}");
    assert_eq!(served(&store, 1).await, [chats[1].clone()]);
}

pub async fn going_on_yields_to_a_lane_whose_turn_is_before_ours(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    let first = begun(&store, &chats[1], &["a", "b"]).await;
    queue_with(&store, &chats[0], ahead(1000), &["other"]).await;
    let settled = settle(&store, settle_and_go_on(&first, Fate::Delivered)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    assert_eq!(served(&store, 2).await, chats);
}

pub async fn going_on_by_another_route_leaves_the_head_unbegun(fixture: &impl Fixture) {
    let store = fixture.store();
    let first = begun(&store, "chat", &["a", "b"]).await;
    let mut moved = settle_and_go_on(&first, Fate::Delivered);
    moved.go_on.as_mut().expect("go_on").route = route("moved");
    let Settled::Next(second, None) = settle(&store, moved).await else { panic!("the head, unbegun") };
    assert_eq!(text_of(&second), "b");
    // The lease is ours, and the caller decides: it may drop the head without a request.
    let settled = settle(&store, settle_of(&second, ENDED)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    assert_eq!(store.chats(vec![lane("chat")]).await.expect("chats")[0].depth, 0);
}

pub async fn going_on_leaves_a_head_past_its_age_unbegun(fixture: &impl Fixture) {
    let store = fixture.store();
    let mut stale = reply("r", "chat", 1, "b");
    stale.expires_at = now_ms() - 1;
    queue(&store, LEVEL, vec![reply("r", "chat", 0, "a"), stale]).await;
    let first = take_reply(&store).await;
    begin(&store, begin_of(&first)).await;
    let settled = settle(&store, settle_and_go_on(&first, Fate::Delivered)).await;
    let Settled::Next(second, None) = settled else { panic!("the head, unbegun: {settled:?}") };
    assert_eq!(text_of(&second), "b");
}

pub async fn going_on_stops_at_a_full_window(fixture: &impl Fixture) {
    let store = fixture.store();
    let first = begun(&store, "chat", &["a", "b"]).await;
    let mut tight = settle_and_go_on(&first, Fate::Delivered);
    tight.go_on.as_mut().expect("go_on").pace = Pace { limit: 1, window: SHORT };
    let settled = settle(&store, tight).await;
    let Settled::Parked(Begun::Paced(remaining)) = settled else { panic!("parked: {settled:?}") };
    assert!(remaining <= SHORT && remaining > Duration::ZERO, "{remaining:?}");
    let second = await_reply(&store).await;
    assert_eq!((text_of(&second), second.begun, second.refusals), ("b", false, 0));
}

pub async fn going_on_meets_a_dead_chat(fixture: &impl Fixture) {
    let store = fixture.store();
    let first = begun(&store, "chat", &["a", "b"]).await;
    let gone = Fate::Ended { back_off: None, chat_dead: Some(route("home")) };
    let settled = settle(&store, settle_and_go_on(&first, gone)).await;
    let Settled::Next(second, Some(Begun::ChatDead)) = settled else { panic!("dead: {settled:?}") };
    assert_eq!(text_of(&second), "b");
    let settled = settle(&store, settle_and_go_on(&second, ENDED)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
}

/// Otherwise the next head, begun and never sent, would be told unknown.
pub async fn a_settle_whose_answer_was_lost_can_be_repeated(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    let first = begun(&store, &chats[0], &["a", "b"]).await;
    let call = settle_and_go_on(&first, Fate::Delivered);
    let goes_on = async || {
        let settled = settle(&store, call.clone()).await;
        let Settled::Next(second, Some(Begun::Go)) = settled else { panic!("it goes on: {settled:?}") };
        assert_eq!(text_of(&second), "b");
    };
    goes_on().await;
    // Whoever's turn it is by now: what is begun is sent.
    queue_with(&store, &chats[1], ahead(1000), &["other"]).await;
    goes_on().await;
    let settled = stages(&store, &first.delivery.request_id).await;
    assert_eq!(settled.iter().filter(|s| **s == Stage::Settled).count(), 1);
}
