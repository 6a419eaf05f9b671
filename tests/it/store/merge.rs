//! Contract: deliveries that leave together while pace holds their lane back.

use wecom_gateway::store::*;

use super::*;

/// Parks the lane of the reply that is there now for pace, without a wait.
async fn hold_back(store: &SharedStore) {
    send(store, again(ParkReason::Paced)).await;
}

fn behind(claimed: &ClaimedReply) -> Vec<&str> {
    claimed.behind.iter().map(|delivery| delivery.message["text"]["content"].as_str().expect("a text")).collect()
}

fn ids(store: &[Entry], stage: Stage) -> usize {
    store.iter().filter(|entry| entry.line.stage == stage).count()
}

/// A claim after pace, begun with `merged` deliveries.
async fn begun_together(store: &SharedStore, texts: &[&str], merged: u32) -> ClaimedReply {
    queue_texts(store, "chat", texts).await;
    hold_back(store).await;
    let head = take_reply(store).await;
    assert_eq!(begin(store, Begin { merged, ..begin_of(&head) }).await, Begun::Go);
    head
}

async fn depth(store: &SharedStore) -> u64 {
    store.chats(vec![lane("chat")]).await.expect("chats")[0].depth
}

pub async fn only_what_pace_held_back_comes_with_its_followers(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2", "3"]).await;
    let head = take_reply(&store).await;
    assert_eq!(behind(&head), [""; 0], "nothing held it back");
    begin(&store, begin_of(&head)).await;
    settle(&store, settle_of(&head, again(ParkReason::Transient))).await;
    assert_eq!(behind(&send(&store, again(ParkReason::Held)).await), [""; 0], "after a failure");
    hold_back(&store).await;
    let held = take_reply(&store).await;
    assert_eq!((text_of(&held), behind(&held)), ("1", vec!["2", "3"]));
    // Once: whoever gives it back is held back no more.
    store.release(Side::Out, vec![held.lease], Duration::ZERO).await.expect("release");
    let again = take_reply(&store).await;
    assert_eq!((text_of(&again), behind(&again)), ("1", vec![]));
}

pub async fn a_full_window_holds_back_too(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2", "3"]).await;
    let pace = Pace { limit: 1, window: SHORT };
    let head = take_reply(&store).await;
    begin(&store, Begin { pace, ..begin_of(&head) }).await;
    let tight = GoOn { route: route("home"), pace, lease_for: LONG };
    let call = Settle { go_on: Some(tight), ..settle_of(&head, Fate::Delivered) };
    let settled = settle(&store, call).await;
    assert!(matches!(settled, Settled::Parked(Begun::Paced(_))), "{settled:?}");
    let next = await_reply(&store).await;
    assert_eq!((text_of(&next), behind(&next)), ("2", vec!["3"]));
}

pub async fn no_more_come_than_may_leave_together(fixture: &impl Fixture) {
    let store = fixture.store();
    let texts: Vec<String> = (0..MOST_MERGED + 5).map(|n| n.to_string()).collect();
    queue_texts(&store, "chat", &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    hold_back(&store).await;
    assert_eq!(behind(&take_reply(&store).await), texts[1..MOST_MERGED]);
}

pub async fn one_settle_ends_all_that_a_request_carried(fixture: &impl Fixture) {
    let store = fixture.store();
    let head = begun_together(&store, &["1", "2", "3", "4"], 3).await;
    // A repeat changes nothing of it.
    assert_eq!(begin(&store, Begin { merged: 3, ..begin_of(&head) }).await, Begun::Go);
    let lines = vec![line(Stage::Settled, "r-chat", &head.delivery.key); 3];
    let call = Settle { merged: 3, lines, ..settle_of(&head, Fate::Delivered) };
    let settled = settle(&store, call).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    assert_eq!((depth(&store).await, store.depth().await.expect("depth").waiting), (1, 1));
    assert_eq!(ids(&entries(&store).await, Stage::Settled), 4, "one for the refusal, one each");
    let last = take_reply(&store).await;
    assert_eq!((text_of(&last), last.refusals, behind(&last)), ("4", 0, vec![]));
}

pub async fn more_than_wait_are_not_begun(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, Begin { merged: 3, ..begin_of(&head) }).await, Begun::Lost);
    assert_eq!(begin(&store, Begin { merged: 2, ..begin_of(&head) }).await, Begun::Go);
}

/// All that a dead sender's request carried may have been sent: no more, no less.
pub async fn what_was_begun_together_comes_back_together(fixture: &impl Fixture) {
    let store = fixture.store();
    let died = begun_together(&store, &["1", "2", "3", "4"], 3).await;
    queue(&store, LEVEL, vec![reply("more", "chat", 0, "5")]).await;
    end_lease(&store, Side::Out, &died.lease, true).await;
    let store = fixture.reopen().await;
    let found = take_reply(&store).await;
    assert_eq!((text_of(&found), found.begun, behind(&found)), ("1", true, vec!["2", "3"]));
    settle(&store, Settle { merged: 3, ..settle_of(&found, ENDED) }).await;
    assert_eq!(text_of(&take_reply(&store).await), "4");
}

pub async fn what_was_refused_together_is_sent_apart(fixture: &impl Fixture) {
    let store = fixture.store();
    let head = begun_together(&store, &["1", "2", "3", "4"], 3).await;
    let refused = Settle { merged: 3, ..settle_of(&head, again(ParkReason::Apart)) };
    let settled = settle(&store, refused.clone()).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    assert!(matches!(settle(&store, refused).await, Settled::Lost), "its lease is given back");
    // Pace holds it back again and again, but these three stay apart, and nothing passes them.
    for text in ["1", "2", "3"] {
        hold_back(&store).await;
        let head = take_reply(&store).await;
        assert_eq!((text_of(&head), head.attempts, head.begun, behind(&head)), (text, 0, false, vec![]));
        assert_eq!(begin(&store, begin_of(&head)).await, Begun::Go);
        settle(&store, settle_of(&head, Fate::Delivered)).await;
    }
    queue(&store, LEVEL, vec![reply("more", "chat", 0, "5"), reply("more", "chat", 1, "6")]).await;
    hold_back(&store).await;
    let head = take_reply(&store).await;
    assert_eq!((text_of(&head), behind(&head)), ("4", vec!["5", "6"]));
}

/// A long queue leaves in large messages, not in one large one and then in single ones.
pub async fn going_on_after_several_brings_the_next_several(fixture: &impl Fixture) {
    let store = fixture.store();
    let head = begun_together(&store, &["1", "2", "3", "4"], 2).await;
    let call = Settle { merged: 2, ..settle_and_go_on(&head, Fate::Delivered) };
    for _ in 0..2 {
        // The second time as if the first answer was lost.
        let settled = settle(&store, call.clone()).await;
        let Settled::Next(next, None) = settled else { panic!("unbegun: {settled:?}") };
        assert_eq!((text_of(&next), behind(&next), &next.lease), ("3", vec!["4"], &head.lease));
    }
    assert_eq!(begin(&store, Begin { merged: 2, ..begin_of_next(&head, "r-chat.2") }).await, Begun::Go);
    assert_eq!(depth(&store).await, 2);
}

fn begin_of_next(head: &ClaimedReply, delivery: &str) -> Begin {
    Begin { delivery_id: delivery.into(), ..begin_of(head) }
}

/// 45009 closes the robot's window for every process, not only for the one that heard it.
pub async fn a_refusal_for_pace_closes_the_window_for_all(fixture: &impl Fixture) {
    let (store, other) = (fixture.store(), fixture.reopen().await);
    queue_texts(&store, "chat", &["1", "2"]).await;
    let head = send(&store, Fate::Again { park: LONG, why: ParkReason::Paced }).await;
    assert_eq!((head.refusals, head.attempts), (0, 0));
    queue(&other, LEVEL, vec![reply("more", "chat", 0, "3")]).await;
    for store in [&store, &other] {
        let claimed = store.claim_replies(5, LONG).await.expect("claim");
        assert!(claimed.items.is_empty() && claimed.next_wake > Some(LONG / 2), "{claimed:?}");
        let status = store.chats(vec![lane("chat")]).await.expect("chats").remove(0);
        assert_eq!((status.parked.expect("parked").0.as_str(), status.depth), ("paced", 3));
    }
}
