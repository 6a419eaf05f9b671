//! Contract: what a settle does to the head, its counters and its lane.

use std::time::Duration;

use wecom_gateway::store::*;

use super::*;

async fn status(store: &SharedStore, chat: &str) -> ChatStatus {
    store.chats(vec![lane(chat)]).await.expect("chats").remove(0)
}

pub async fn a_delivered_head_makes_room_for_the_next(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    assert_eq!(text_of(&send(&store, Fate::Delivered).await), "1");
    assert_eq!(text_of(&send(&store, Fate::Delivered).await), "2");
    let idle = store.claim_replies(1, LONG).await.expect("claim");
    assert!(idle.items.is_empty() && idle.next_wake.is_none(), "{idle:?}");
}

/// Also without a `begin`: what has no route is dropped right after its claim.
pub async fn an_ended_head_makes_room_for_the_next(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let head = take_reply(&store).await;
    let settled = settle(&store, settle_of(&head, ENDED)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    assert_eq!(text_of(&send(&store, ENDED).await), "2");
}

pub async fn attempts_and_refusals_belong_to_the_head(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let fates = [ParkReason::Transient, ParkReason::Paced, ParkReason::Held, ParkReason::Transient];
    let mut seen = Vec::new();
    for why in fates {
        let head = send(&store, again(why)).await;
        assert_eq!(text_of(&head), "1");
        seen.push((head.attempts, head.refusals));
    }
    let head = send(&store, Fate::Delivered).await;
    seen.push((head.attempts, head.refusals));
    assert_eq!(seen, [(0, 0), (1, 0), (1, 1), (1, 1), (2, 1)]);
    let next = take_reply(&store).await;
    assert_eq!((text_of(&next), next.attempts, next.refusals), ("2", 0, 0));
}

/// A transient "again" and an end with a back-off are failures; other ends are not, but only a delivery makes them forgotten.
pub async fn failures_belong_to_the_lane_until_a_delivery(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2", "3", "4", "5"]).await;
    let backing_off = Fate::Ended { back_off: Some(Duration::ZERO), chat_dead: None };
    let fates = [again(ParkReason::Transient), backing_off, again(ParkReason::Paced), ENDED, Fate::Delivered, ENDED];
    let mut seen = Vec::new();
    for fate in fates {
        let head = send(&store, fate).await;
        seen.push((text_of(&head).to_owned(), head.failures));
    }
    let expected = [("1", 0), ("1", 1), ("2", 2), ("2", 2), ("3", 2), ("4", 0)];
    assert_eq!(seen, expected.map(|(text, failures)| (text.to_owned(), failures)));
}

pub async fn a_retried_head_comes_back_after_its_park(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    for (why, word) in
        [(ParkReason::Paced, "paced"), (ParkReason::Transient, "backing_off"), (ParkReason::Held, "held")]
    {
        let head = await_reply(&store).await;
        assert_eq!(text_of(&head), "1");
        begin(&store, begin_of(&head)).await;
        // Its lease is given back, whatever `go_on` says.
        let settled = settle(&store, settle_and_go_on(&head, Fate::Again { park: SHORT, why })).await;
        assert!(matches!(settled, Settled::Released), "{settled:?}");
        // `None` on a machine so slow that the park is over.
        if let Some((reason, left)) = status(&store, "chat").await.parked {
            assert_eq!(reason, word);
            assert!(left <= SHORT, "{left:?}");
        }
    }
    assert_eq!(text_of(&await_reply(&store).await), "1");
}

pub async fn an_unanswered_head_comes_back_begun(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let mut seen = Vec::new();
    for why in [ParkReason::Unanswered, ParkReason::Unanswered, ParkReason::Transient] {
        let head = take_reply(&store).await;
        seen.push((text_of(&head).to_owned(), head.begun, head.attempts, head.failures));
        assert_eq!(begin(&store, begin_of(&head)).await, Begun::Go, "it may be begun again");
        settle(&store, settle_of(&head, again(why))).await;
    }
    // What certainly was not sent is no open attempt any more.
    let head = send(&store, Fate::Delivered).await;
    seen.push((text_of(&head).to_owned(), head.begun, head.attempts, head.failures));
    let next = take_reply(&store).await;
    seen.push((text_of(&next).to_owned(), next.begun, next.attempts, next.failures));
    let expected = [("1", false, 0, 0), ("1", true, 1, 1), ("1", true, 2, 2), ("1", false, 3, 3), ("2", false, 0, 0)];
    assert_eq!(seen, expected.map(|(text, begun, attempts, failures)| (text.to_owned(), begun, attempts, failures)));
}

pub async fn a_back_off_parks_the_lane_although_the_head_went(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let head = take_reply(&store).await;
    begin(&store, begin_of(&head)).await;
    let fate = Fate::Ended { back_off: Some(LONG), chat_dead: None };
    let settled = settle(&store, settle_and_go_on(&head, fate)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    assert!(store.claim_replies(1, LONG).await.expect("claim").items.is_empty());
    let status = status(&store, "chat").await;
    assert_eq!((status.depth, status.leased), (1, false));
    assert_eq!(status.parked.expect("parked").0, "backing_off");
}

/// A hanging robot can't hold the pool by a trickle of single replies.
pub async fn a_back_off_outlives_an_empty_lane(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    send(&store, Fate::Ended { back_off: Some(LONG), chat_dead: None }).await;
    queue(&store, LEVEL, vec![reply("more", "chat", 0, "2")]).await;
    let claimed = store.claim_replies(1, LONG).await.expect("claim");
    assert!(claimed.items.is_empty() && claimed.next_wake.is_some());
    assert_eq!(status(&store, "chat").await.parked.expect("parked").0, "backing_off");
}

pub async fn a_lost_lease_settles_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let slow = take_reply(&store).await;
    begin(&store, Begin { lease_for: SHORT, ..begin_of(&slow) }).await;
    let fast = await_reply(&store).await;
    let late = Settle { last_error: Some("late".into()), ..settle_and_go_on(&slow, Fate::Delivered) };
    let settled = settle(&store, late).await;
    assert!(matches!(settled, Settled::Lost), "{settled:?}");
    assert_eq!(stages(&store, &slow.delivery.request_id).await, [Stage::Accepted, Stage::Handled]);
    assert_eq!(status(&store, "chat").await.last_error, None);
    settle(&store, settle_of(&fast, ENDED)).await;
    assert_eq!(text_of(&take_reply(&store).await), "2");
}

/// The answer came late, but it came: better than unknown.
pub async fn an_ended_lease_that_nobody_took_still_settles(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let head = take_reply(&store).await;
    begin(&store, Begin { lease_for: SHORT, ..begin_of(&head) }).await;
    pass(SHORT + Duration::from_millis(5)).await;
    let settled = settle(&store, settle_of(&head, Fate::Delivered)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    assert_eq!(text_of(&take_reply(&store).await), "2");
}

/// Also when a claim saw that it ended, but took another lane: what is parked then is not claimable.
pub async fn an_ended_lease_that_was_passed_over_still_parks(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    queue_texts(&store, &chats[0], &["1"]).await;
    let slow = take_reply(&store).await;
    begin(&store, begin_of(&slow)).await;
    let heavy = Turn { weight: 100, head_start: LONG };
    queue(&store, heavy, vec![reply("other", &chats[1], 0, "other")]).await;
    store.renew(Side::Out, vec![slow.lease.clone()], Duration::ZERO).await.expect("renew");
    pass(Duration::from_millis(2)).await;
    assert_eq!(text_of(&take_reply(&store).await), "other");
    let settled = settle(&store, settle_of(&slow, Fate::Again { park: LONG, why: ParkReason::Held })).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    assert!(store.claim_replies(1, LONG).await.expect("claim").items.is_empty());
    assert_eq!(status(&store, &chats[0]).await.parked.expect("parked").0, "held");
}
