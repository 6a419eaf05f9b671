//! Contract: who waits how long under a backlog, by a simulated clock.
//!
//! Turns are times minus head starts. Here they are put in as head starts alone, so long that the store's own clock adds
//! nothing to them: a reply that came `t` into the simulation by a weight of `w` stands `w × 5 s − t` ahead, in units of a
//! tenth of a second that count as 100 s each.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wecom_gateway::store::*;

use super::*;

/// Simulated times are in tenths of a second: one send takes so long.
const SEND: u32 = 5;
/// Replies come for so long before sending begins, and for as long after that.
const MINUTE: u32 = 600;
/// So many chats of weight 1 get a reply in each of both, and so many of weight 10 in the second: as many as are sent.
const LIGHT: u32 = 96;
const HEAVY: u32 = 24;
/// One unit of weight.
const HEAD_START: u32 = 50;
/// Before everything.
const ZERO: u32 = 10_000;

fn turn(at: u32, weight: u32) -> Turn {
    Turn { weight: ZERO - at + weight * HEAD_START, head_start: Duration::from_secs(100) }
}

/// Who comes when and by which weight, each in a chat of its own.
fn arrivals(rng: &mut StdRng) -> Vec<(u32, u32)> {
    let mut arrivals = Vec::new();
    for (from, count, weight) in [(0, LIGHT, 1), (MINUTE, LIGHT, 1), (MINUTE, HEAVY, 10)] {
        let slot = MINUTE / count;
        arrivals.extend((0..count).map(|n| (from + n * MINUTE / count + rng.random_range(0..slot), weight)));
    }
    arrivals.sort_unstable();
    arrivals
}

/// Where chats of weight 1 wait for a minute, those of weight 10 wait 20 s at most; and weight 1 waits no longer than that
/// minute and what a head start of 45 s lets go before it.
pub async fn heavy_chats_wait_little_and_no_chat_for_ever(fixture: &impl Fixture) {
    let store = fixture.store();
    let arrivals = arrivals(&mut StdRng::seed_from_u64(4));
    let chats = chats_of_one_shard(fixture, arrivals.len());
    let came: HashMap<&str, (u32, u32)> = chats.iter().map(String::as_str).zip(arrivals.iter().copied()).collect();
    let mut coming = chats.iter().peekable();
    let mut longest: HashMap<u32, u32> = HashMap::new();
    for now in (MINUTE..).step_by(SEND as usize).take(arrivals.len()) {
        while let Some(chat) = coming.next_if(|chat| came[chat.as_str()].0 <= now) {
            let (at, weight) = came[chat.as_str()];
            queue(&store, turn(at, weight), vec![reply(chat, chat, 0, "hi")]).await;
        }
        let sent = send(&store, Fate::Delivered).await.delivery;
        let (at, weight) = came[sent.chat_id.as_str()];
        let wait = longest.entry(weight).or_default();
        *wait = (now - at).max(*wait);
    }
    assert!(coming.next().is_none() && is_empty(&store).await);
    assert!(longest[&10] <= 200, "weight 10 waited {} tenths", longest[&10]);
    assert!((550..=MINUTE + 9 * HEAD_START).contains(&longest[&1]), "weight 1 waited {} tenths", longest[&1]);
}

async fn is_empty(store: &SharedStore) -> bool {
    store.depth().await.expect("depth").waiting == 0
}
