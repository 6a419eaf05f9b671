//! The contract of a store, as tests: what `src/store/mod.rs` says of each verb, tried on whatever a [`Fixture`] opens.
//!
//! [`suite::contract_suite`] stamps every case as a test of its own. The store's clock is real, so time passes here too: leases
//! and windows are short where they must end, and their end is awaited by asking again when the store says to
//! (`next_wake`), never by guessing. [`pass`] only makes sure that *at least* so much time went by.

mod bounds;
mod embedded;
mod inbound;
mod journal;
mod late;
mod lease;
mod members;
mod merge;
mod model;
mod notes;
mod operators;
mod outbound;
mod pushes;
mod redis;
mod session;
mod settle;
mod share;
mod suite;
mod turn;
mod walk;
mod weights;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use wecom_gateway::model::{
    ChatKind, Delivery, Lane, Message, MessageKey, ReplyTo, RouteDigest, SenderKind, Session, SessionKey, delivery_id,
    now_ms,
};
use wecom_gateway::store::*;

/// A lease (or window) that no test outlives.
pub const LONG: Duration = Duration::from_secs(60);
/// A lease (or window) that a test waits out.
pub const SHORT: Duration = Duration::from_millis(120);
/// A rate that no test reaches by accident.
pub const PACE: Pace = Pace { limit: 20, window: LONG };
/// A turn without any head start.
pub const LEVEL: Turn = Turn { weight: 1, head_start: Duration::ZERO };
/// The app of every test.
pub const APP: &str = "shop";

/// A store with nothing in it, and a way to look at the same data from elsewhere.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The store.
    fn store(&self) -> SharedStore;
    /// Another handle on the same data, as another process or this one after a restart has it.
    async fn reopen(&self) -> SharedStore {
        self.reopen_as(Options::default()).await
    }
    /// As [`Fixture::reopen`], with the fixture's own shards and everything else as `options` says.
    async fn reopen_as(&self, options: Options) -> SharedStore;
    /// Has the store's clock go back by so much: what it wrote of its time lies that much later.
    async fn turn_back(&self, by: Duration);
    /// Its shards. Turns are kept within one, so cases about turns use chats of one shard.
    fn shards(&self) -> u16;
}

/// `n` chats of one shard, in ascending order of their names.
pub fn chats_of_one_shard(fixture: &dyn Fixture, n: usize) -> Vec<String> {
    let shards = fixture.shards();
    (0..).map(|i| format!("chat{i:05}")).filter(|c| Lane::of_chat(APP, c).shard(shards) == 0).take(n).collect()
}

/// The out-lane of a chat.
pub fn lane(chat: &str) -> Lane {
    Lane::of_chat(APP, chat)
}

/// The line of a change by the operator `ops`, about the chat.
pub fn changed(id: &str) -> Line {
    Line::change(id, ChangeKind::Chat, Who::operator("ops"), MessageKey::new(APP, "chat", "", ""), json!({}))
}

/// A message that just came in.
pub fn arrival(chat: &str, sender: &str, msg_id: &str, request_id: &str) -> Arrival {
    let message = Message {
        request_id: request_id.into(),
        app: APP.into(),
        chat_id: chat.into(),
        chat_kind: ChatKind::Group,
        msg_id: msg_id.into(),
        sender_key: sender.into(),
        sender_kind: SenderKind::External,
        sender_name: Some("小王".into()),
        msg_type: "text".into(),
        text: format!("查询 {msg_id}"),
        sent_at: None,
        received_at: now_ms(),
        response_url: None,
        trace: None,
    };
    let lane = Lane::of_sender(APP, chat, sender);
    Arrival { lane, message, max_age: LONG, mark_ttl: LONG, depth_limit: 100, repeated: false }
}

/// What a route of that name has as digest.
pub fn route(name: &str) -> RouteDigest {
    RouteDigest::of("group_robot", name)
}

/// A reply by the route `home`.
pub fn reply(request_id: &str, chat: &str, seq: usize, text: &str) -> Delivery {
    Delivery {
        id: delivery_id(request_id, seq),
        request_id: request_id.into(),
        key: MessageKey::new(APP, chat, "u", request_id),
        app: APP.into(),
        chat_id: chat.into(),
        reply_to: ReplyTo::default(),
        push: None,
        message: json!({"msgtype": "text", "text": {"content": text}}),
        route: route("home"),
        bound: false,
        repeat_until: None,
        expires_at: now_ms() + 60_000,
        received_at: now_ms(),
        queued_at: now_ms(),
        trace: None,
    }
}

/// A journal line.
pub fn line(stage: Stage, request_id: &str, key: &MessageKey) -> Line {
    Line { stage, request_id: request_id.into(), key: key.clone(), detail: serde_json::Map::new() }
}

/// The commit of a claimed message with these replies.
pub fn commit(claimed: &ClaimedMessage, replies: Vec<Delivery>) -> Commit {
    let key = claimed.message.key();
    Commit {
        lease: claimed.lease.clone(),
        lines: vec![line(Stage::Handled, &claimed.message.request_id, &key)],
        key,
        request_id: claimed.message.request_id.clone(),
        mark_ttl: LONG,
        exchange: None,
        replies,
        turn: LEVEL,
        depth_limit: 100,
        await_late: None,
    }
}

/// What `sender` said in `chat`: the session from now on, and its line.
pub fn said(sender: &str, session: Session, keep: Duration) -> Exchange {
    let key = SessionKey::of_sender(APP, "chat", sender);
    let line = Some(line(Stage::Exchanged, "r", &key.line_key("m")));
    Exchange { key, session, keep, forgotten: 0, line }
}

/// Puts one message in, which must be stored.
pub async fn enqueue(store: &SharedStore, arrival: Arrival) {
    assert_eq!(enqueue_one(store, arrival).await, Enqueued::Stored);
}

/// Puts one message in.
pub async fn enqueue_one(store: &SharedStore, arrival: Arrival) -> Enqueued {
    store.enqueue(vec![arrival]).await.expect("enqueue")[0]
}

/// Claims the one message that is there now, for [`LONG`].
pub async fn take(store: &SharedStore) -> ClaimedMessage {
    let claimed = store.claim_messages(1, LONG).await.expect("claim");
    claimed.items.into_iter().next().expect("a message")
}

/// Commits one message.
pub async fn finish(store: &SharedStore, commit: Commit) -> Committed {
    store.commit(vec![commit]).await.expect("commit")[0]
}

/// Claims the one reply that is there now, for [`LONG`].
pub async fn take_reply(store: &SharedStore) -> ClaimedReply {
    let claimed = store.claim_replies(1, LONG).await.expect("claim");
    claimed.items.into_iter().next().expect("a reply")
}

/// Queues replies in a chat by way of a message; nothing else may wait inbound.
pub async fn queue(store: &SharedStore, turn: Turn, replies: Vec<Delivery>) {
    let (chat, request_id) = (replies[0].chat_id.clone(), replies[0].request_id.clone());
    enqueue(store, arrival(&chat, "u", &request_id, &request_id)).await;
    let commit = Commit { turn, ..commit(&take(store).await, replies) };
    assert_eq!(finish(store, commit).await, Committed::Done);
}

/// Queues plain replies `texts` in a chat, under the request id `r-<chat>`.
pub async fn queue_texts(store: &SharedStore, chat: &str, texts: &[&str]) {
    let request_id = format!("r-{chat}");
    let replies = texts.iter().enumerate().map(|(seq, text)| reply(&request_id, chat, seq, text)).collect();
    queue(store, LEVEL, replies).await;
}

/// The text of a claimed reply.
pub fn text_of(claimed: &ClaimedReply) -> &str {
    claimed.delivery.message["text"]["content"].as_str().expect("a text")
}

/// Begins a claimed reply by the route `home` at [`PACE`].
pub fn begin_of(claimed: &ClaimedReply) -> Begin {
    Begin {
        lease: claimed.lease.clone(),
        delivery_id: claimed.delivery.id.clone(),
        merged: 1,
        route: route("home"),
        pace: PACE,
        lease_for: LONG,
    }
}

/// One `begin`.
pub async fn begin(store: &SharedStore, begin: Begin) -> Begun {
    store.begin(vec![begin]).await.expect("begin")[0]
}

/// A settle that gives the lease back.
pub fn settle_of(claimed: &ClaimedReply, fate: Fate) -> Settle {
    Settle {
        lease: claimed.lease.clone(),
        delivery_id: claimed.delivery.id.clone(),
        merged: 1,
        fate,
        last_error: None,
        child: None,
        lines: vec![line(Stage::Settled, &claimed.delivery.request_id, &claimed.delivery.key)],
        go_on: None,
        turn: LEVEL,
    }
}

/// A settle that goes on with the next head, by the route `home` at [`PACE`].
pub fn settle_and_go_on(claimed: &ClaimedReply, fate: Fate) -> Settle {
    let go_on = GoOn { route: route("home"), pace: PACE, lease_for: LONG };
    Settle { go_on: Some(go_on), ..settle_of(claimed, fate) }
}

/// One `settle`.
pub async fn settle(store: &SharedStore, settle: Settle) -> Settled {
    store.settle(vec![settle]).await.expect("settle").into_iter().next().expect("an answer")
}

/// Begins and settles the reply that is there now.
pub async fn send(store: &SharedStore, fate: Fate) -> ClaimedReply {
    let claimed = take_reply(store).await;
    assert_eq!(begin(store, begin_of(&claimed)).await, Begun::Go);
    let settled = settle(store, settle_of(&claimed, fate)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    claimed
}

/// `Ended` without consequences.
pub const ENDED: Fate = Fate::Ended { back_off: None, chat_dead: None };

/// The head comes again at once.
pub fn again(why: ParkReason) -> Fate {
    Fate::Again { park: Duration::ZERO, why }
}

/// Claims a message as soon as time alone makes one workable.
pub async fn await_message(store: &SharedStore) -> ClaimedMessage {
    patiently(async {
        loop {
            let claimed = store.claim_messages(1, LONG).await.expect("claim");
            if let Some(item) = claimed.items.into_iter().next() {
                return item;
            }
            tokio::time::sleep(claimed.next_wake.expect("something to wait for")).await;
        }
    })
    .await
}

/// Claims a reply as soon as time alone makes one workable.
pub async fn await_reply(store: &SharedStore) -> ClaimedReply {
    patiently(async {
        loop {
            let claimed = store.claim_replies(1, LONG).await.expect("claim");
            if let Some(item) = claimed.items.into_iter().next() {
                return item;
            }
            tokio::time::sleep(claimed.next_wake.expect("something to wait for")).await;
        }
    })
    .await
}

/// Lets a lease end now, which works as `is_held` says.
pub async fn end_lease(store: &SharedStore, side: Side, lease: &Lease, is_held: bool) {
    let renewed = store.renew(side, vec![lease.clone()], Duration::ZERO).await.expect("renew");
    assert_eq!(renewed, [is_held]);
    pass(Duration::ZERO).await;
}

/// Bounds a wait for something that must happen.
pub async fn patiently<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it never happened")
}

/// Lets more than this time go by: what ends after it is over then. Redis counts whole ms and still holds a key in the ms that it
/// ends in, on a clock that is not ours.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time + Duration::from_millis(2)).await;
}

/// All journal lines that wait, by shard and age.
pub async fn entries(store: &SharedStore) -> Vec<Entry> {
    let batches = store.read_journal(10_000).await.expect("journal");
    batches.iter().flat_map(|b| &b.lines).map(|l| Entry::parse(l).expect("a line")).collect()
}

/// The stages that the journal tells of one request, in order.
pub async fn stages(store: &SharedStore, request_id: &str) -> Vec<Stage> {
    entries(store).await.into_iter().filter(|e| e.line.request_id == request_id).map(|e| e.line.stage).collect()
}
