//! Contract: how lanes of pushes and lanes of replies share what is claimed. A lane is one of pushes while it holds nothing
//! else.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::operators::tuning;
use super::pushes::{new_push, queue_push, queue_pushes_to};
use super::*;

/// A turn that stands hours ahead.
fn weight(weight: u32) -> Turn {
    Turn { weight, head_start: Duration::from_secs(3600) }
}

/// Which of so many claimed lanes brought a push.
async fn claim(store: &SharedStore, want: usize) -> Vec<bool> {
    let claimed = store.claim_replies(want, LONG).await.expect("claim");
    claimed.items.iter().map(|item| item.delivery.push.is_some()).collect()
}

/// Claims one lane, and leaves it leased.
async fn next_chat(store: &SharedStore) -> String {
    take_reply(store).await.delivery.chat_id
}

/// A lane with its head begun.
async fn begun(store: &SharedStore) -> ClaimedReply {
    let head = take_reply(store).await;
    assert_eq!(begin(store, begin_of(&head)).await, Begun::Go);
    head
}

async fn goes_on(store: &SharedStore, head: &ClaimedReply) -> Option<ClaimedReply> {
    match settle(store, settle_and_go_on(head, Fate::Delivered)).await {
        Settled::Next(next, Some(Begun::Go)) => Some(*next),
        Settled::Released => None,
        other => panic!("{other:?}"),
    }
}

pub async fn every_fourth_lane_is_one_of_pushes_while_both_wait(fixture: &impl Fixture) {
    const LANES: usize = 100;
    let store = fixture.store();
    let names = |kind: &'static str| (0..LANES).map(move |n| format!("{kind}{n}"));
    store.enqueue(names("reply").map(|chat| arrival(&chat, "u", &chat, &chat)).collect()).await.expect("enqueue");
    let claimed = store.claim_messages(LANES, LONG).await.expect("claim").items;
    let answer = |claimed: &ClaimedMessage| {
        commit(claimed, vec![reply(&claimed.message.request_id, &claimed.message.chat_id, 0, "hi")])
    };
    store.commit(claimed.iter().map(answer).collect()).await.expect("commit");
    let pushes = names("push").enumerate().map(|(n, chat)| new_push("t", &chat, n)).collect();
    store.pushes().queue_pushes(pushes).await.expect("queue");
    let mut rng = StdRng::seed_from_u64(7);
    let mut kinds: Vec<bool> = Vec::new();
    while kinds.iter().filter(|is_push| !**is_push).count() < LANES {
        let want = rng.random_range(1..6);
        let claimed = claim(&store, want).await;
        assert_eq!(claimed.len(), want);
        kinds.extend(claimed);
    }
    let both = kinds.iter().rposition(|is_push| !is_push).expect("replies");
    for forty in kinds[..both].windows(40) {
        assert_eq!(forty.iter().filter(|is_push| **is_push).count(), 10, "{kinds:?}");
    }
    // From now on all.
    let pushes_left = 2 * LANES - kinds.len();
    assert_eq!(claim(&store, 2 * LANES).await, vec![true; pushes_left]);
}

pub async fn pushes_get_what_replies_leave(fixture: &impl Fixture) {
    let store = fixture.store();
    for chat in ["a", "b"] {
        queue_texts(&store, chat, &["hi"]).await;
    }
    for n in 0..9 {
        queue_push(&store, new_push("t", &format!("p{n}"), n)).await;
    }
    let mut claimed = claim(&store, 6).await;
    claimed.sort_unstable();
    assert_eq!(claimed, [false, false, true, true, true, true]);
    assert_eq!(claim(&store, 9).await, [true; 5]);
    assert!(claim(&store, 9).await.is_empty());
}

pub async fn heavy_chats_go_first_among_pushes_too(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 4);
    for (chat, of) in chats.iter().zip([1, 5, 30, 20]) {
        queue_pushes_to(&store, weight(of), chat, 1).await;
    }
    // Also what an operator says of what waits already.
    store.tune(Tuning { weight: Some(Some(99)), turn: weight(1), ..tuning(&chats[0]) }).await.expect("tune");
    for first in [0, 2, 3, 1] {
        assert_eq!(next_chat(&store).await, chats[first]);
    }
}

pub async fn a_paused_chat_keeps_its_pushes(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    let paused = |paused| Tuning { paused: Some(paused), ..tuning(&chats[0]) };
    queue_pushes_to(&store, LEVEL, &chats[0], 2).await;
    store.tune(paused(true)).await.expect("tune");
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Paused);
    queue_texts(&store, &chats[1], &["hi"]).await;
    store.tune(paused(false)).await.expect("tune");
    // Among the pushes, as before.
    assert_eq!((next_chat(&store).await, next_chat(&store).await), (chats[1].clone(), chats[0].clone()));
}

/// Every way in which a lane is put back finds its set.
pub async fn a_lane_of_pushes_waits_among_pushes_wherever_it_comes_from(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    queue_pushes_to(&store, weight(100), &chats[0], 5).await;
    for way in 0..5 {
        let head = take_reply(&store).await;
        assert_eq!(head.delivery.chat_id, chats[0]);
        match way {
            0 => store.release(Side::Out, vec![head.lease], Duration::ZERO).await.expect("release"),
            1 => store.release(Side::Out, vec![head.lease], Duration::from_millis(1)).await.expect("release"),
            2 => end_lease(&store, Side::Out, &head.lease, true).await,
            3 => drop(settle(&store, settle_of(&head, again(ParkReason::Held))).await),
            _ => drop(settle(&store, settle_of(&head, Fate::Delivered)).await),
        }
        pass(Duration::from_millis(3)).await;
        assert_eq!(store.busy_chats(5).await.expect("busy"), [lane(&chats[0])]);
        assert_eq!(store.depth().await.expect("depth").out_lanes, 1);
        let chat = format!("reply{way}-{}", chats[1]);
        let chat = (0..).map(|n| format!("{chat}-{n}")).find(|c| lane(c).shard(fixture.shards()) == 0).expect("one");
        queue_texts(&store, &chat, &["hi"]).await;
        // However heavy: replies are first.
        assert_eq!(send(&store, Fate::Delivered).await.delivery.chat_id, chat, "{way}");
    }
}

pub async fn a_lease_of_a_push_that_ended_still_finishes(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_pushes_to(&store, LEVEL, "chat", 3).await;
    queue_texts(&store, "other", &["hi"]).await;
    take_reply(&store).await;
    // It is over and passed over, with the lane back in its set: it can be renewed, gone on with, and parked.
    let head = begun(&store).await;
    for _ in 0..2 {
        end_lease(&store, Side::Out, &head.lease, true).await;
        assert!(claim(&store, 0).await.is_empty());
        assert_eq!(store.renew(Side::Out, vec![head.lease.clone()], LONG).await.expect("renew"), [true]);
        assert!(claim(&store, 5).await.is_empty());
    }
    end_lease(&store, Side::Out, &head.lease, true).await;
    let next = goes_on(&store, &head).await.expect("nothing else waits");
    assert!(claim(&store, 5).await.is_empty());
    end_lease(&store, Side::Out, &next.lease, true).await;
    assert!(claim(&store, 0).await.is_empty());
    settle(&store, settle_of(&next, Fate::Again { park: LONG, why: ParkReason::Held })).await;
    assert!(claim(&store, 5).await.is_empty());
    assert_eq!(store.depth().await.expect("depth").parked, 1);
}

pub async fn a_reply_behind_pushes_takes_its_lane_along(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 3);
    let [first, second, mixed] = [&chats[0], &chats[1], &chats[2]];
    queue_pushes_to(&store, weight(50), first, 1).await;
    queue_pushes_to(&store, LEVEL, mixed, 2).await;
    queue(&store, LEVEL, vec![reply("r1", mixed, 0, "1")]).await;
    // More pushes behind it take it nowhere; its lane keeps its order.
    queue_push(&store, new_push("more", mixed, 0)).await;
    pass(Duration::from_millis(2)).await;
    queue_texts(&store, second, &["2"]).await;
    let mut order: Vec<Delivery> = Vec::new();
    for _ in 0..3 {
        order.push(send(&store, Fate::Delivered).await.delivery);
    }
    let chat_of = |n: usize| order[n].chat_id.as_str();
    assert_eq!([chat_of(0), chat_of(1)], [mixed, second], "a lane with a reply goes among those");
    assert_eq!(order[0].id, format!("t-to-{mixed}.0"));
    assert_eq!(order[2].id, format!("t-to-{mixed}.1"));
    // Three of replies are over: a lane of pushes is due, then this one goes on with its reply.
    assert_eq!(&send(&store, Fate::Delivered).await.delivery.chat_id, first);
    assert_eq!(send(&store, Fate::Delivered).await.delivery.id, "r1.0");
    // With it gone, the lane holds pushes alone.
    queue_texts(&store, first, &["3"]).await;
    assert_eq!(text_of(&send(&store, Fate::Delivered).await), "3");
    assert_eq!(send(&store, Fate::Delivered).await.delivery.id, "t-more.0");
}

/// Where its reply would stand by itself, however heavy its pushes were.
pub async fn a_lane_taken_along_stands_where_its_reply_would(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    queue_pushes_to(&store, weight(100), &chats[1], 1).await;
    queue_texts(&store, &chats[0], &["hi"]).await;
    pass(Duration::from_millis(2)).await;
    queue_texts(&store, &chats[1], &["hi"]).await;
    assert_eq!((next_chat(&store).await, next_chat(&store).await), (chats[0].clone(), chats[1].clone()));
}

pub async fn no_lane_goes_on_with_a_push_while_a_reply_waits(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 3);
    queue_pushes_to(&store, weight(100), &chats[0], 5).await;
    let head = begun(&store).await;
    let next = goes_on(&store, &head).await.expect("nobody waits");
    // By its turn among pushes.
    queue_pushes_to(&store, LEVEL, &chats[1], 1).await;
    let heavy = Settle { turn: weight(100), ..settle_and_go_on(&next, Fate::Delivered) };
    let Settled::Next(next, Some(Begun::Go)) = settle(&store, heavy).await else { panic!("its turn is first") };
    queue_texts(&store, &chats[2], &["hi"]).await;
    let heavy = Settle { turn: weight(100), ..settle_and_go_on(&next, Fate::Delivered) };
    assert!(matches!(settle(&store, heavy).await, Settled::Released));
    let claimed = store.claim_replies(2, LONG).await.expect("claim").items;
    assert!(claimed.iter().any(|item| item.delivery.chat_id == chats[2]));
    let push = claimed.iter().find(|item| item.delivery.push.is_some()).expect("the other is a push");
    assert_eq!(push.delivery.chat_id, chats[0]);
    // A lane of pushes that waits longer is before it.
    assert_eq!(goes_on(&store, push).await.map(|next| next.delivery.id), None);
}

/// A lane with a backlog that never ends, and the only permit.
pub async fn a_lane_of_replies_leaves_pushes_their_share(fixture: &impl Fixture) {
    const REPLIES: usize = 30;
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    let replies = (0..REPLIES).map(|seq| reply("r", &chats[0], seq, "hi")).collect();
    queue(&store, LEVEL, replies).await;
    queue_pushes_to(&store, LEVEL, &chats[1], 20).await;
    let pace = Pace { limit: 1000, window: LONG };
    let mut kinds: Vec<bool> = Vec::new();
    while kinds.iter().filter(|is_push| !**is_push).count() < REPLIES {
        let claimed = take_reply(&store).await;
        assert_eq!(begin(&store, Begin { pace, ..begin_of(&claimed) }).await, Begun::Go);
        let mut head = Some(claimed);
        while let Some(sent) = head {
            kinds.push(sent.delivery.push.is_some());
            let mut call = settle_and_go_on(&sent, Fate::Delivered);
            call.go_on.as_mut().expect("go_on").pace = pace;
            head = match settle(&store, call).await {
                Settled::Next(next, Some(Begun::Go)) => Some(*next),
                Settled::Released => None,
                other => panic!("{other:?}"),
            };
        }
    }
    for forty in kinds.windows(REPLIES) {
        let pushes = forty.iter().filter(|is_push| **is_push).count();
        assert!((7..=8).contains(&pushes), "{kinds:?}");
    }
}

pub async fn pushes_wake_their_side(fixture: &impl Fixture) {
    let store = fixture.store();
    let long = Duration::from_secs(3600);
    // Whatever it said so far.
    store.wakeups().wait(Side::Out, Duration::from_millis(1)).await;
    queue_pushes_to(&store, LEVEL, "chat", 1).await;
    patiently(store.wakeups().wait(Side::Out, long)).await;
    assert_eq!(claim(&store, 1).await, [true]);
}
