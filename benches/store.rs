//! What each verb of the store brings, on each store, over one lane, 64 and 4096.
//!
//! `cargo bench --bench store`, about a minute and a half; needs `redis-server` on the PATH (`scripts/test` installs it).
//! 64 tasks call at once, each with one item, as the gateway does; claims are asked for 64 at a time by one task, as its
//! loops do. A round takes messages through their whole life, so that every verb meets what the one before it left;
//! the figures are medians of the rounds. Over one lane there is one head at a time: what is measured there is the
//! time of one call after the other. The embedded store syncs its file in every group, Redis as its column says.

#![allow(clippy::expect_used, clippy::panic, reason = "without its set-up a bench has nothing to measure")]

#[path = "../tests/it/redis_server.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the tests need more of it")]
mod redis_server;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use redis_server::RedisServer;
use serde_json::{Map, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use wecom_gateway::model::{
    ChatKind, Delivery, Lane, Message, MessageKey, RouteDigest, SenderKind, delivery_id, now_ms,
};
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::store::redis::RedisStore;
use wecom_gateway::store::{
    Arrival, Begin, Begun, ClaimedMessage, ClaimedReply, Commit, Committed, Enqueued, Fate, Line, NewPush, Pace,
    Pushed, Settle, Settled, SharedStore, Side, Stage, Turn,
};
use wecom_gateway::task::{PushOf, Recipient};

/// The gateway's own.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Tasks that call at once, and lanes that a claim asks for.
const CALLERS: usize = 64;
const LANES: [usize; 3] = [1, 64, 4096];
/// Rounds; the median counts.
const ROUNDS: usize = 3;
/// Messages of a round; fewer over one lane, where nothing runs beside anything else.
const MESSAGES: usize = 4096;
const MESSAGES_ONE_LANE: usize = 512;
/// Nothing here lasts so long.
const LONG: Duration = Duration::from_secs(600);
const JOURNAL_BATCH: usize = 2000;

/// A verb's name as it is shown, in the order in which a message meets them.
const VERBS: [&str; 11] = [
    "enqueue",
    "enqueue, a copy",
    "claim_messages",
    "renew",
    "commit, one reply",
    "claim_replies",
    "begin",
    "settle",
    "queue_pushes",
    "read_journal",
    "trim_journal",
];

/// Items and time, by verb.
type Round = BTreeMap<&'static str, (usize, Duration)>;

/// A store with nothing in it; what it lives in goes with it.
struct Opened {
    store: SharedStore,
    _folder: Option<TempDir>,
    _server: Option<RedisServer>,
}

fn open(kind: &str) -> Opened {
    let redis = |fsync: &str| {
        let server = RedisServer::spawn(&["--appendonly", "yes", "--appendfsync", fsync]);
        let store = RedisStore::open(&server.url(), 1).expect("a store");
        Opened { store, _folder: None, _server: Some(server) }
    };
    match kind {
        "redis everysec" => redis("everysec"),
        "redis always" => redis("always"),
        _ => {
            let folder = tempfile::tempdir().expect("a folder");
            let store = EmbeddedStore::open(folder.path(), 1).expect("a store");
            Opened { store, _folder: Some(folder), _server: None }
        }
    }
}

fn arrival(n: usize, lanes: usize) -> Arrival {
    let (chat, sender, request) = (format!("wrBench{:05}", n % lanes), "wmBenchMember".to_owned(), format!("r{n:08}"));
    let message = Message {
        request_id: request.clone(),
        app: "bench".into(),
        chat_id: chat.clone(),
        chat_kind: ChatKind::Group,
        msg_id: format!("CAIQg/PK+xgYpcSEpYCA{n:08}"),
        sender_key: sender.clone(),
        sender_kind: SenderKind::External,
        sender_name: Some("小王".into()),
        msg_type: "text".into(),
        text: "/query 1001 麻烦看一下这个订单到哪了".into(),
        sent_at: None,
        received_at: now_ms(),
        response_url: None,
        trace: None,
    };
    let lane = Lane::of_sender("bench", &chat, &sender);
    Arrival { lane, message, max_age: LONG, mark_ttl: LONG, depth_limit: u64::MAX >> 1, repeated: false }
}

fn line(stage: Stage, request_id: &str, key: &MessageKey) -> Line {
    let detail = json!({"rule": "command:query", "trigger": "command", "outcome": "queued", "elapsed_ms": 3});
    let detail = detail.as_object().cloned().unwrap_or_else(Map::new);
    Line { stage, request_id: request_id.into(), key: key.clone(), detail }
}

const TURN: Turn = Turn { weight: 1, head_start: Duration::from_secs(5) };

fn commit(claimed: &ClaimedMessage) -> Commit {
    let (message, key) = (&claimed.message, claimed.message.key());
    let reply = Delivery {
        id: delivery_id(&message.request_id, 0),
        request_id: message.request_id.clone(),
        key: key.clone(),
        app: message.app.clone(),
        chat_id: message.chat_id.clone(),
        reply_to: Default::default(),
        push: None,
        message: json!({"msgtype": "text", "text": {"content": "您的订单 1001 已发出，预计明天送达。"}}),
        route: RouteDigest::of("group_robot", &message.chat_id),
        bound: false,
        repeat_until: None,
        expires_at: now_ms() + 600_000,
        received_at: message.received_at,
        queued_at: message.received_at,
        trace: None,
    };
    Commit {
        lease: claimed.lease.clone(),
        lines: vec![line(Stage::Handled, &message.request_id, &key)],
        key,
        request_id: message.request_id.clone(),
        mark_ttl: LONG,
        exchange: None,
        replies: vec![reply],
        turn: TURN,
        depth_limit: u64::MAX >> 1,
        await_late: None,
    }
}

/// A task of one delivery.
fn push(n: usize, lanes: usize) -> NewPush {
    let (chat, task_id, request_id) = (format!("wrBench{:05}", n % lanes), format!("crm-{n:08}"), format!("t{n:08}"));
    let key = MessageKey::of_push("bench", &chat, &task_id);
    let delivery = Delivery {
        id: delivery_id(&request_id, 0),
        request_id: request_id.clone(),
        key: key.clone(),
        app: "bench".into(),
        chat_id: chat.clone(),
        reply_to: Default::default(),
        push: Some(Box::new(PushOf { task_id: task_id.clone(), to: Recipient::Chat })),
        message: json!({"msgtype": "text", "text": {"content": "您的订单 1001 已发出，预计明天送达。"}}),
        route: RouteDigest::of("group_robot", &chat),
        bound: false,
        repeat_until: None,
        expires_at: now_ms() + 600_000,
        received_at: now_ms(),
        queued_at: now_ms(),
        trace: None,
    };
    NewPush {
        task_id,
        delivery_id: delivery.id.clone(),
        lane: Lane::of_chat("bench", &chat),
        fate: Ok(delivery),
        keep: LONG,
        turn: TURN,
        depth_limit: u64::MAX >> 1,
        lines: vec![line(Stage::Pushed, &request_id, &key)],
    }
}

fn begin(claimed: &ClaimedReply) -> Begin {
    Begin {
        lease: claimed.lease.clone(),
        delivery_id: claimed.delivery.id.clone(),
        merged: 1,
        route: claimed.delivery.route.clone(),
        pace: Pace { limit: 1_000_000, window: Duration::from_secs(60) },
        lease_for: LONG,
    }
}

fn settle(claimed: &ClaimedReply) -> Settle {
    Settle {
        lease: claimed.lease.clone(),
        delivery_id: claimed.delivery.id.clone(),
        merged: 1,
        fate: Fate::Delivered,
        last_error: None,
        child: None,
        lines: vec![line(Stage::Settled, &claimed.delivery.request_id, &claimed.delivery.key)],
        go_on: None,
        turn: TURN,
    }
}

/// Calls `verb` for every item, from [`CALLERS`] tasks; the time that it took.
async fn at_once<I, F>(store: &SharedStore, items: Vec<I>, verb: fn(SharedStore, I) -> F) -> (usize, Duration)
where
    I: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let count = items.len();
    let mut shares: Vec<Vec<I>> = (0..CALLERS.min(count)).map(|_| Vec::new()).collect();
    let places = shares.len().max(1);
    items.into_iter().enumerate().for_each(|(n, item)| shares[n % places].push(item));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for share in shares {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for item in share {
                verb(Arc::clone(&store), item).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("a verb that answers as it must");
    }
    (count, began.elapsed())
}

fn note(round: &mut Round, verb: &'static str, (items, took): (usize, Duration)) {
    let sum = round.entry(verb).or_default();
    *sum = (sum.0 + items, sum.1 + took);
}

/// Takes `messages` messages over `lanes` lanes from their arrival to the trimmed journal.
async fn round(store: &SharedStore, lanes: usize, messages: usize) -> Round {
    let mut round = Round::new();
    let arrivals: Vec<Arrival> = (0..messages).map(|n| arrival(n, lanes)).collect();
    let copies = (0..messages).map(|n| arrival(n, lanes)).collect();
    let stored = at_once(store, arrivals, |store, arrival| async move {
        assert_eq!(store.enqueue(vec![arrival]).await.expect("enqueue"), [Enqueued::Stored]);
    });
    note(&mut round, "enqueue", stored.await);
    handle_all(store, &mut round).await;
    // Handled by now: their marks know them, whatever request brings them.
    let known = at_once(store, copies, |store, mut copy| async move {
        copy.message.request_id.push_str("-copy");
        assert_eq!(store.enqueue(vec![copy]).await.expect("enqueue"), [Enqueued::Duplicate]);
    });
    note(&mut round, "enqueue, a copy", known.await);
    send_all(store, &mut round).await;
    let pushes = (0..messages).map(|n| push(n, lanes)).collect();
    let queued = at_once(store, pushes, |store, push| async move {
        assert_eq!(store.pushes().queue_pushes(vec![push]).await.expect("queue_pushes"), [Pushed::Queued]);
    });
    note(&mut round, "queue_pushes", queued.await);
    flush_all(store, &mut round).await;
    assert!(VERBS.iter().skip(1).all(|verb| round.contains_key(verb)), "every verb was measured");
    round
}

async fn handle_all(store: &SharedStore, round: &mut Round) {
    loop {
        let began = Instant::now();
        let claimed = store.claim_messages(CALLERS, LONG).await.expect("claim_messages").items;
        if claimed.is_empty() {
            return;
        }
        note(round, "claim_messages", (claimed.len(), began.elapsed()));
        let leases: Vec<_> = claimed.iter().map(|claimed| claimed.lease.clone()).collect();
        let began = Instant::now();
        let renewed = store.renew(Side::In, leases, LONG).await.expect("renew");
        note(round, "renew", (renewed.len(), began.elapsed()));
        let commits = claimed.iter().map(commit).collect();
        let committed = at_once(store, commits, |store, commit| async move {
            assert_eq!(store.commit(vec![commit]).await.expect("commit"), [Committed::Done]);
        });
        note(round, "commit, one reply", committed.await);
    }
}

async fn send_all(store: &SharedStore, round: &mut Round) {
    loop {
        let began = Instant::now();
        let claimed = store.claim_replies(CALLERS, LONG).await.expect("claim_replies").items;
        if claimed.is_empty() {
            return;
        }
        note(round, "claim_replies", (claimed.len(), began.elapsed()));
        let begun = at_once(store, claimed.iter().map(begin).collect(), |store, begin| async move {
            assert_eq!(store.begin(vec![begin]).await.expect("begin"), [Begun::Go]);
        });
        note(round, "begin", begun.await);
        let settled = at_once(store, claimed.iter().map(settle).collect(), |store, settle| async move {
            let settled = store.settle(vec![settle]).await.expect("settle");
            assert!(matches!(settled[..], [Settled::Released]), "{settled:?}");
        });
        note(round, "settle", settled.await);
    }
}

/// The items are lines here.
async fn flush_all(store: &SharedStore, round: &mut Round) {
    loop {
        let began = Instant::now();
        let batches = store.read_journal(JOURNAL_BATCH).await.expect("read_journal");
        let read: usize = batches.iter().map(|batch| batch.lines.len()).sum();
        if read == 0 {
            return;
        }
        note(round, "read_journal", (read, began.elapsed()));
        let began = Instant::now();
        for batch in &batches {
            store.trim_journal(batch).await.expect("trim_journal");
        }
        note(round, "trim_journal", (read, began.elapsed()));
    }
}

/// Items a second of each verb, the median of the rounds.
async fn measure(kind: &str, lanes: usize) -> BTreeMap<&'static str, f64> {
    let messages = if lanes == 1 { MESSAGES_ONE_LANE } else { MESSAGES };
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let opened = open(kind);
        opened.store.ping().await.expect("a store that is there");
        for (verb, (items, took)) in round(&opened.store, lanes, messages).await {
            rates.entry(verb).or_default().push(items as f64 / took.as_secs_f64());
        }
    }
    let median = |mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    rates.into_iter().map(|(verb, rates)| (verb, median(rates))).collect()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("Items a second, {CALLERS} callers, median of {ROUNDS}; one shard.\n");
    for kind in ["embedded", "redis everysec", "redis always"] {
        let columns: Vec<_> = LANES.iter().map(|lanes| runtime.block_on(measure(kind, *lanes))).collect();
        println!("| {kind} | 1 lane | 64 lanes | 4096 lanes |\n| --- | ---: | ---: | ---: |");
        for verb in VERBS {
            let cells: Vec<String> = columns.iter().map(|column| format!("{:.0}", column[verb])).collect();
            println!("| {verb} | {} |", cells.join(" | "));
        }
        println!();
    }
}
