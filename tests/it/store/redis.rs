//! The contract on Redis, on one shard, on four and on a Cluster ([`cluster`]), and what only a server can do to a store: go away
//! ([`outages`]), keep their leases ([`leases`]), lose answers ([`lost`], [`behind`]), have replicas ([`replicas`]), change places
//! ([`sentinel`]), forget, hold foreign data, serve several gateways.

mod behind;
mod cluster;
mod leases;
mod lost;
mod outages;
mod replicas;
mod sentinel;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use wecom_gateway::model::Secret;
use wecom_gateway::store::redis::RedisStore;

use super::*;
use crate::redis_server::RedisServer;
use crate::store::pushes::{new_push, open_task, opening, queue_push};

/// A store on a server of its own.
struct OnRedis {
    store: SharedStore,
    server: RedisServer,
    shards: u16,
}

fn open(server: &RedisServer, options: impl Into<Options>) -> SharedStore {
    RedisStore::open(&server.url(), options).expect("open")
}

fn fixture(shards: u16) -> OnRedis {
    let server = RedisServer::spawn(&[]);
    OnRedis { store: open(&server, shards), server, shards }
}

#[async_trait]
impl Fixture for OnRedis {
    fn store(&self) -> SharedStore {
        self.store.clone()
    }
    async fn reopen_as(&self, options: Options) -> SharedStore {
        open(&self.server, Options { shards: self.shards, ..options })
    }
    async fn turn_back(&self, by: Duration) {
        let _: () = self.server.command(&["EVAL", TURN_BACK, "0", &by.as_millis().to_string()]).await;
    }
    fn shards(&self) -> u16 {
        self.shards
    }
}

/// Moves every time in a lane's sets and pace lists.
const TURN_BACK: &str = r#"
for _, key in ipairs(redis.call('KEYS', 'wg:*')) do
  if key:find(':leases$') or key:find(':parked$') then
    for _, lane in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, ARGV[1], lane) end
  elseif key:find(':pace:') then
    for i, at in ipairs(redis.call('LRANGE', key, 0, -1)) do
      redis.call('LSET', key, i - 1, string.format('%.0f', at + ARGV[1]))
    end
  end
end
"#;

mod one_shard {
    async fn make() -> super::OnRedis {
        super::fixture(1)
    }
    crate::store::suite::contract_suite!(make);
}

mod four_shards {
    async fn make() -> super::OnRedis {
        super::fixture(4)
    }
    crate::store::suite::contract_suite!(make);
}

/// Takes one message from enqueue to a delivered reply; nothing else may wait.
async fn whole_way(store: &SharedStore, request_id: &str) {
    queue(store, LEVEL, vec![reply(request_id, "chat", 0, "hi")]).await;
    assert_eq!(text_of(&send(store, Fate::Delivered).await), "hi");
}

#[tokio::test]
async fn a_server_that_forgot_everything_is_worked_on() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    let forget = async || {
        let _: () = server.command(&["FLUSHALL"]).await;
        let _: () = server.command(&["SCRIPT", "FLUSH"]).await;
    };
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let claimed = take(&store).await;
    forget().await;
    assert_eq!(finish(&store, commit(&claimed, vec![])).await, Committed::Lost);
    whole_way(&store, "r2").await;
    queue_texts(&store, "chat", &["a", "b"]).await;
    let head = take_reply(&store).await;
    forget().await;
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Lost);
    assert!(matches!(settle(&store, settle_and_go_on(&head, Fate::Delivered)).await, Settled::Lost));
    store.release(Side::Out, vec![head.lease], Duration::ZERO).await.expect("release");
    whole_way(&store, "r3").await;
}

/// Every single key is taken away at every point of a message's way; what comes next works all the same.
#[tokio::test]
async fn any_one_key_may_vanish() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    let keys = async || {
        let mut keys: Vec<String> = server.command(&["KEYS", "wg:*"]).await;
        keys.sort_unstable();
        keys
    };
    for point in 0..4 {
        let mut victim = 0;
        loop {
            let _: () = server.command(&["FLUSHALL"]).await;
            halfway(&store, point).await;
            let present = keys().await;
            let Some(key) = present.get(victim) else { break };
            let _: () = server.command(&["DEL", key]).await;
            assert_eq!(queue_push(&store, new_push("t2", "more", 0)).await, Pushed::Queued, "{key} at {point}");
            // What is left of the first message may be found or not; a second one in another chat must get through.
            enqueue(&store, arrival("other", "v", "m2", "r2")).await;
            let claimed = store.claim_messages(10, LONG).await.expect("claim").items;
            let fresh = claimed.iter().find(|c| c.message.request_id == "r2");
            let fresh = fresh.unwrap_or_else(|| panic!("{key} at {point}"));
            assert_eq!(finish(&store, commit(fresh, vec![reply("r2", "other", 0, "hi")])).await, Committed::Done);
            let replies = store.claim_replies(10, LONG).await.expect("claim").items;
            assert!(replies.iter().any(|r| r.delivery.chat_id == "more"), "{key} at {point}");
            let reply = replies.iter().find(|r| r.delivery.chat_id == "other");
            let reply = reply.unwrap_or_else(|| panic!("{key} at {point}"));
            assert_eq!(begin(&store, begin_of(reply)).await, Begun::Go, "{key} at {point}");
            assert!(matches!(settle(&store, settle_of(reply, Fate::Delivered)).await, Settled::Released));
            victim += 1;
        }
        assert!(victim >= 3, "nothing to take away at {point}");
    }
}

/// Brings a message so far: enqueued, claimed, committed, begun.
async fn halfway(store: &SharedStore, point: usize) {
    enqueue(store, arrival("chat", "u", "m1", "r1")).await;
    open_task(store, opening("t", 2)).await;
    queue_push(store, new_push("t", "pushes", 0)).await;
    if point >= 1 {
        let claimed = take(store).await;
        if point >= 2 {
            finish(store, commit(&claimed, vec![reply("r1", "chat", 0, "a"), reply("r1", "chat", 1, "b")])).await;
        }
    }
    if point >= 3 {
        let head = take_reply(store).await;
        assert_eq!(begin(store, begin_of(&head)).await, Begun::Go);
    }
}

#[tokio::test]
async fn a_broken_key_stops_its_own_lane_only() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    enqueue(&store, arrival("broken", "u", "m1", "r1")).await;
    enqueue(&store, arrival("chat", "u", "m2", "r2")).await;
    let _: () = server.command(&["SET", "wg:{00}:in:shop:broken:u", "nonsense"]).await;
    let error = store.enqueue(vec![arrival("broken", "u", "m3", "r3")]).await.expect_err("it can't be stored");
    assert!(!error.is_transient(), "{error:?}");
    let claimed = store.claim_messages(10, LONG).await.expect("claim");
    assert_eq!(claimed.items.len(), 1);
    assert_eq!(claimed.items[0].message.request_id, "r2");
}

#[tokio::test]
async fn another_shard_count_is_refused() {
    let server = RedisServer::spawn(&[]);
    whole_way(&open(&server, 4), "r1").await;
    let error = open(&server, 8).ping().await.expect_err("it holds 4");
    assert!(matches!(&error, StoreError::Refused(why) if why.contains('8') && why.contains('4')), "{error}");
    open(&server, 4).ping().await.expect("4 is right");
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_refused_without_its_password() {
    for url in ["redis://:hunter2@127.0.0.1:notaport", "http://:hunter2@127.0.0.1", "hunter2", ""] {
        let Err(error) = RedisStore::open(&Secret::new(url), 1) else { panic!("{url} can't be opened") };
        assert!(matches!(error, StoreError::Refused(_)));
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

/// Neither does an error of a server that asks for one.
#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let server = RedisServer::spawn(&["--requirepass", "right"]);
    let url = Secret::new(format!("redis://:hunter2@127.0.0.1:{}", server.port()));
    let error = RedisStore::open(&url, 1).expect("a URL").ping().await.expect_err("a wrong password");
    assert!(matches!(&error, StoreError::Refused(why) if why.contains("store.redis")), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_paused_chat_waits() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    queue_texts(&store, "chat", &["a"]).await;
    let _: () = server.command(&["HSET", "wg:{00}:chat:shop:chat", "paused", "1"]).await;
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Paused);
    assert!(matches!(settle(&store, settle_of(&head, Fate::Delivered)).await, Settled::Lost));
    let claimed = store.claim_replies(1, LONG).await.expect("claim");
    assert!(claimed.items.is_empty() && claimed.next_wake <= Some(Duration::from_secs(60)));
    let status = store.chats(vec![lane("chat")]).await.expect("chats").remove(0);
    assert!(status.paused && status.parked.is_some_and(|(why, _)| why == "paused"));
}

#[tokio::test]
async fn an_operators_weight_wins() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    let _: () = server.command(&["HSET", "wg:{00}:chat:shop:vip", "weight", "50"]).await;
    let turn = |weight| Turn { weight, head_start: Duration::from_secs(3600) };
    for (chat, weight) in [("a", 10), ("vip", 1), ("b", 20)] {
        queue(&store, turn(weight), vec![reply(&format!("r-{chat}"), chat, 0, "hi")]).await;
    }
    for chat in ["vip", "b", "a"] {
        assert_eq!(send(&store, Fate::Delivered).await.delivery.chat_id, chat);
    }
    let status = store.chats(vec![lane("vip")]).await.expect("chats").remove(0);
    assert_eq!(status.weight, Some(50));
}

#[tokio::test]
async fn a_pace_list_holds_no_more_than_the_limit() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    queue_texts(&store, "chat", &["1", "2", "3", "4", "5"]).await;
    let pace = Pace { limit: 2, window: Duration::from_millis(1) };
    for _ in 0..5 {
        let head = take_reply(&store).await;
        pass(Duration::from_millis(2)).await;
        assert_eq!(begin(&store, Begin { pace, ..begin_of(&head) }).await, Begun::Go);
        settle(&store, settle_of(&head, Fate::Delivered)).await;
    }
    let places: u64 = server.command(&["LLEN", "wg:{00}:pace:shop:chat"]).await;
    assert_eq!(places, 2);
}

/// Two gateways work one server; no lane is ever in two hands, nothing is lost, done twice or out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_share_lanes_without_meeting() {
    const LANES: usize = 12;
    const EACH: usize = 20;
    let server = RedisServer::spawn(&[]);
    let stores = [open(&server, 4), open(&server, 4)];
    for n in 0..EACH {
        let batch = (0..LANES).map(|l| arrival(&format!("c{l}"), "u", &format!("m{n}"), &format!("{l}-{n}"))).collect();
        stores[n % 2].enqueue(batch).await.expect("enqueue");
    }
    let held = Arc::new(Mutex::new(HashSet::new()));
    let done = Arc::new(Mutex::new(vec![Vec::new(); LANES]));
    let work = async |store: SharedStore, held: Arc<Mutex<HashSet<Lane>>>, done: Arc<Mutex<Vec<Vec<usize>>>>| loop {
        let claimed = store.claim_messages(3, LONG).await.expect("claim");
        if claimed.items.is_empty() {
            if done.lock().expect("done").iter().map(Vec::len).sum::<usize>() == LANES * EACH {
                return;
            }
            tokio::task::yield_now().await;
        }
        for item in claimed.items {
            let lane = item.lease.lane.clone();
            assert!(held.lock().expect("held").insert(lane.clone()), "{lane:?} is in two hands");
            let (l, n) = item.message.request_id.split_once('-').expect("lane and number");
            done.lock().expect("done")[l.parse::<usize>().expect("lane")].push(n.parse().expect("number"));
            held.lock().expect("held").remove(&lane);
            assert_eq!(finish(&store, commit(&item, vec![])).await, Committed::Done);
        }
    };
    let [a, b] = stores.map(|store| work(store, held.clone(), done.clone()));
    patiently(async { tokio::join!(a, b) }).await;
    let expected: Vec<usize> = (0..EACH).collect();
    assert!(done.lock().expect("done").iter().all(|numbers| *numbers == expected));
}

#[tokio::test]
async fn new_work_wakes_the_other_gateway() {
    let server = RedisServer::spawn(&[]);
    let (here, there) = (open(&server, 1), open(&server, 1));
    let long = Duration::from_secs(3600);
    let woken = async |side| patiently(there.wakeups().wait(side, long)).await;
    // A new connection looks at everything once.
    woken(Side::In).await;
    woken(Side::Out).await;
    enqueue(&here, arrival("chat", "u", "m1", "r1")).await;
    woken(Side::In).await;
    let claimed = take(&here).await;
    finish(&here, commit(&claimed, vec![reply("r1", "chat", 0, "hi")])).await;
    woken(Side::Out).await;
    queue_push(&here, new_push("t", "other", 0)).await;
    woken(Side::Out).await;
}

#[tokio::test]
async fn an_idle_store_asks_nothing() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 16);
    whole_way(&store, "r1").await;
    let _: () = server.command(&["CONFIG", "RESETSTAT"]).await;
    pass(Duration::from_millis(1500)).await;
    let stats: String = server.command(&["INFO", "commandstats"]).await;
    let by_us = stats.lines().filter(|line| line.starts_with("cmdstat_"));
    let asked: Vec<_> = by_us.filter(|l| !["config", "client", "info"].iter().any(|own| l.contains(own))).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

/// Calls that come at the same time are answered each by its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_get_their_own_answers() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    enqueue(&store, arrival("chat", "u", "known", "r0")).await;
    take(&store).await;
    let calls = (0..300).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let (msg_id, limit) = match n % 3 {
                0 => ("known".to_owned(), 100),
                1 => (format!("m{n}"), 0),
                _ => (format!("m{n}"), 1000),
            };
            let request_id = format!("r{n}x");
            let one = Arrival { depth_limit: limit, ..arrival("chat", "u", &msg_id, &request_id) };
            (n, enqueue_one(&store, one).await)
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (n, answer) = call.await.expect("a task");
        let expected = [Enqueued::Duplicate, Enqueued::LaneFull, Enqueued::Stored][n % 3];
        assert_eq!(answer, expected, "{n}");
    }
    assert_eq!(entries(&store).await.iter().filter(|e| e.line.stage == Stage::Accepted).count(), 101);
}

/// What waits is one number, counted from the lanes where it is missing, broken or too high.
#[tokio::test]
async fn the_count_of_what_waits_heals() {
    let server = RedisServer::spawn(&[]);
    let store: SharedStore = open(&server, Options { max_waiting: 2, ..Options::default() });
    let waiting = async || store.depth().await.expect("depth").waiting;
    let next = async |n: usize| enqueue_one(&store, arrival(&format!("c{n}"), "u", "m", &format!("r{n}"))).await;
    assert_eq!(
        (next(1).await, next(2).await, next(3).await),
        (Enqueued::Stored, Enqueued::Stored, Enqueued::StoreFull)
    );
    for broken in [&["DEL", "wg:{00}:waiting"][..], &["SET", "wg:{00}:waiting", "nonsense"]] {
        let _: ::redis::Value = server.command(broken).await;
        assert_eq!(next(3).await, Enqueued::StoreFull);
        assert_eq!(waiting().await, 2);
    }
    // Without a count nothing is made up by what goes.
    let _: u64 = server.command(&["DEL", "wg:{00}:waiting"]).await;
    let claimed = take(&store).await;
    finish(&store, commit(&claimed, vec![])).await;
    assert_eq!((next(3).await, waiting().await), (Enqueued::Stored, 2));
    // A lane that vanished is in the count until it is counted anew.
    let _: u64 = server.command(&["DEL", "wg:{00}:in:shop:c2:u"]).await;
    assert_eq!(next(4).await, Enqueued::StoreFull);
    let _: u64 = server.command(&["DEL", "wg:{00}:waiting:recounted"]).await;
    assert_eq!((next(4).await, next(5).await), (Enqueued::Stored, Enqueued::StoreFull));
}

/// As after a failover that lost the last lines: the first one is where it was, and others came in the place of the lost.
#[tokio::test]
async fn lines_in_the_place_of_lost_ones_are_not_trimmed() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    let accept = async |numbers: std::ops::Range<usize>| {
        for n in numbers {
            enqueue(&store, arrival("chat", "u", &format!("m{n}"), &format!("r{n}"))).await;
        }
    };
    accept(0..5).await;
    let read = store.read_journal(5).await.expect("journal").remove(0);
    let _: () = server.command(&["LTRIM", "wg:{00}:journal", "0", "2"]).await;
    accept(5..7).await;
    store.trim_journal(&read).await.expect("trim");
    assert!(!store.rotate_journal(&read, read.lines[..1].to_vec()).await.expect("rotate"));
    let left: Vec<String> = entries(&store).await.into_iter().map(|entry| entry.line.request_id).collect();
    assert_eq!(left, ["r0", "r1", "r2", "r5", "r6"]);
    // What is left is a batch as any other.
    let read = store.read_journal(5).await.expect("journal").remove(0);
    store.trim_journal(&read).await.expect("trim");
    assert_eq!(entries(&store).await, []);
}

/// What stands where our values should may be anything that a member wrote: errors tell its kind alone.
#[tokio::test]
async fn what_cannot_be_read_is_not_quoted() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    let foreign: [&[&str]; 5] = [
        &["HSET", "wg:{00}:session:shop:chat:u", "turns", r#"["hunter2"]"#],
        &["HSET", "wg:{00}:chat:shop:chat", "weight", "hunter2"],
        &["HSET", "wg:{task:t}", "app", "shop", "digest", "d", "total", "hunter2", "cursor", "0"],
        &["HSET", "wg:{00}:late:r1", "chat", "shop:chat", "key", "shop:chat:u:m", "received", "0", "expires", "0"],
        &["HSET", "wg:{00}:late:r1", "reply_to", r#"{"response_url":["hunter2"]}"#],
    ];
    for command in foreign {
        let _: ::redis::Value = server.command(command).await;
    }
    let answers = [
        store.session(&SessionKey::of_sender(APP, "chat", "u")).await.map(drop),
        store.chats(vec![lane("chat")]).await.map(drop),
        store.pushes().task("t").await.map(drop),
        store.waiting(&lane("chat"), "r1").await.map(drop),
    ];
    for answer in answers {
        let error = answer.expect_err("it is none of ours");
        assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}
