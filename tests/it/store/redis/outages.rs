//! Servers that go away, fall silent, only read, are full or change places: calls fail in time as something that passes,
//! and the same store works again once the server does.

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wecom_gateway::model::Secret;
use wecom_gateway::store::redis::RedisStore;

use super::*;
use crate::redis_server::{DURABLE, RedisServer};

/// Asks until the store answers again.
pub async fn recovered(store: &SharedStore) {
    patiently(async {
        while store.ping().await.is_err() {
            pass(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// A call fails as something that may pass, well within the time that a callback has.
async fn is_unavailable(store: &SharedStore) {
    let answer = patiently(store.enqueue(vec![arrival("chat", "u", "lost", "lost")])).await;
    let error = answer.expect_err("nobody is there");
    assert!(error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn a_store_opens_before_its_server_is_there() {
    let mut server = RedisServer::spawn(&[]);
    server.kill();
    let store = open(&server, 1);
    is_unavailable(&store).await;
    server.restart();
    recovered(&store).await;
    whole_way(&store, "r1").await;
}

#[tokio::test]
async fn what_was_answered_survives_a_kill_of_the_server() {
    let mut server = RedisServer::spawn(DURABLE);
    let store = open(&server, 1);
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let claimed = take(&store).await;
    enqueue(&store, arrival("chat", "v", "m2", "r2")).await;
    server.kill();
    is_unavailable(&store).await;
    is_unavailable(&store).await;
    server.restart();
    recovered(&store).await;
    // The lease still holds, and the other message waits.
    assert_eq!(finish(&store, commit(&claimed, vec![reply("r1", "chat", 0, "hi")])).await, Committed::Done);
    assert_eq!(enqueue_one(&store, arrival("chat", "u", "m1", "r3")).await, Enqueued::Duplicate);
    assert_eq!(take(&store).await.message.request_id, "r2");
    assert_eq!(text_of(&send(&store, Fate::Delivered).await), "hi");
}

/// The socket is open and nobody answers, as with a hung master.
#[tokio::test]
async fn a_silent_server_is_given_up_and_found_again() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    whole_way(&store, "r1").await;
    let _: () = server.command(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
    is_unavailable(&store).await;
    is_unavailable(&store).await;
    let _: () = server.command(&["CLIENT", "UNPAUSE"]).await;
    recovered(&store).await;
    whole_way(&store, "r2").await;
}

/// The connection for wake-ups stays up, so only a command can find that the other one is gone.
#[tokio::test]
async fn a_cut_connection_is_remade() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    whole_way(&store, "r1").await;
    let _: u64 = server.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    recovered(&store).await;
    whole_way(&store, "r2").await;
}

/// After a failover the address leads to the new master, and our open connection to the old one.
#[tokio::test]
async fn a_failover_is_followed() {
    let (old, new) = (RedisServer::spawn(&[]), RedisServer::spawn(&[]));
    let address = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let url = Secret::new(format!("redis://{}", address.local_addr().expect("an address")));
    let (master, now) = watch::channel(old.port());
    tokio::spawn(async move {
        loop {
            let (mut near, _) = address.accept().await.expect("a connection");
            let port = *now.borrow();
            let mut far = TcpStream::connect(("127.0.0.1", port)).await.expect("a server");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    let store: SharedStore = RedisStore::open(&url, 1).expect("open");
    whole_way(&store, "r1").await;
    let _: () = old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).await;
    master.send_replace(new.port());
    // Also by a store that does nothing but enqueue.
    patiently(async {
        while store.enqueue(vec![arrival("chat", "u", "r2", "r2")]).await.is_err() {
            pass(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(take(&store).await.message.request_id, "r2");
}

/// As after a failover that left us on the old master.
#[tokio::test]
async fn a_server_that_only_reads_is_unavailable_until_it_writes() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    whole_way(&store, "r1").await;
    let _: () = server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    is_unavailable(&store).await;
    is_unavailable(&store).await;
    let _: () = server.command(&["REPLICAOF", "NO", "ONE"]).await;
    recovered(&store).await;
    whole_way(&store, "r2").await;
}

#[tokio::test]
async fn a_full_server_takes_nothing_more_and_can_be_drained() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    queue_texts(&store, "chat", &["a", "b"]).await;
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let _: () = server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    is_unavailable(&store).await;
    let claimed = take(&store).await;
    assert_eq!(finish(&store, commit(&claimed, vec![])).await, Committed::Done);
    let first = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&first)).await, Begun::Go);
    let settled = settle(&store, settle_and_go_on(&first, Fate::Delivered)).await;
    assert!(matches!(settled, Settled::Next(_, Some(Begun::Go))), "{settled:?}");
}

/// Also by whoever has to connect first, with scripts that the server does not know: nothing else would make room.
#[tokio::test]
async fn a_full_server_is_drained_over_new_connections_too() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    queue_texts(&store, "chat", &["a", "b"]).await;
    for n in 1..=2 {
        enqueue(&store, arrival("chat", &format!("u{n}"), &format!("m{n}"), &format!("r{n}"))).await;
    }
    for full in [&["CONFIG", "SET", "maxmemory", "1"][..], &["SCRIPT", "FLUSH"]] {
        let _: () = server.command(full).await;
    }
    let _: u64 = server.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    for store in [store.clone(), open(&server, 1)] {
        // The first call finds that its connection is gone.
        let claimed = patiently(async {
            loop {
                match store.claim_messages(1, LONG).await {
                    Ok(claimed) => return claimed,
                    Err(_) => pass(Duration::from_millis(20)).await,
                }
            }
        });
        let claimed = claimed.await.items.pop().expect("a message waits");
        assert_eq!(store.renew(Side::In, vec![claimed.lease.clone()], LONG).await.expect("renew"), [true]);
        assert_eq!(finish(&store, commit(&claimed, vec![])).await, Committed::Done);
        send(&store, Fate::Delivered).await;
        let head = store.claim_replies(1, LONG).await.expect("claim").items.pop();
        store
            .release(Side::Out, head.map(|head| head.lease).into_iter().collect(), Duration::ZERO)
            .await
            .expect("release");
        store.trim_journal(&store.read_journal(3).await.expect("journal").remove(0)).await.expect("trim");
        // Without a token some deliveries do not leave.
        let note = Note::token("ww", &claimed.message.request_id);
        assert!(store.lock_note(&note, "me", LONG).await.expect("lock"));
        let write = NoteWrite { note, value: Secret::new("token"), ttl: LONG, owner: Some("me".into()) };
        assert!(store.write_note(write).await.expect("write"));
        is_unavailable(&store).await;
        let error = store.ping().await.expect_err("it takes nothing new");
        assert!(error.is_transient(), "{error:?}");
    }
    assert_eq!(store.depth().await.expect("depth").waiting, 0);
    let _: () = server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    recovered(&store).await;
    whole_way(&store, "r3").await;
}

/// Answers within the limit, only late: nothing is given up, nothing done twice.
#[tokio::test]
async fn a_slow_server_is_waited_for() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    whole_way(&store, "r1").await;
    let _: () = server.command(&["CLIENT", "PAUSE", "400", "WRITE"]).await;
    enqueue(&store, arrival("chat", "u", "m2", "r2")).await;
    assert_eq!(take(&store).await.message.request_id, "r2");
    assert_eq!(stages(&store, "r2").await, [Stage::Accepted]);
}

/// As after a crash of a server that keeps nothing, or with another folder: what was in work is lost, and said to be.
#[tokio::test]
async fn a_server_that_comes_back_empty_is_worked_on() {
    let mut server = RedisServer::spawn(&[]);
    let store = open(&server, 4);
    queue_texts(&store, "chat", &["a", "b"]).await;
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let (claimed, head) = (take(&store).await, take_reply(&store).await);
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Go);
    server.restart();
    recovered(&store).await;
    assert_eq!(store.renew(Side::In, vec![claimed.lease.clone()], LONG).await.expect("renew"), [false]);
    assert_eq!(finish(&store, commit(&claimed, vec![reply("r1", "chat", 0, "hi")])).await, Committed::Lost);
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Lost);
    assert!(matches!(settle(&store, settle_and_go_on(&head, Fate::Delivered)).await, Settled::Lost));
    store.release(Side::In, vec![claimed.lease], LONG).await.expect("release");
    assert_eq!(store.depth().await.expect("depth"), Depth::default());
    let shards: u16 = server.command(&["HGET", "wg:meta", "shards"]).await;
    assert_eq!(shards, 4);
    // A copy that comes now is a new message.
    enqueue(&store, arrival("chat", "u", "m1", "r2")).await;
    let claimed = take(&store).await;
    assert_eq!(claimed.message.request_id, "r2");
    assert_eq!(finish(&store, commit(&claimed, vec![])).await, Committed::Done);
    whole_way(&store, "r3").await;
}

/// Foreign data under any of our keys: calls answer (rightly or by an error), and once it is gone all is well again.
#[tokio::test]
async fn any_one_key_may_be_broken_for_a_while() {
    let server = RedisServer::spawn(&[]);
    let store = open(&server, 1);
    queue_texts(&store, "first", &["a", "b"]).await;
    send(&store, Fate::Again { park: LONG, why: ParkReason::Held }).await;
    queue_texts(&store, "third", &["a"]).await;
    enqueue(&store, arrival("second", "u", "m", "r")).await;
    open_task(&store, opening("t", 2)).await;
    queue_push(&store, new_push("t", "fourth", 0)).await;
    let head = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Go);
    let mut keys: Vec<String> = server.command(&["KEYS", "wg:*"]).await;
    keys.push("wg:{00}:journal:base".to_owned());
    assert!(keys.len() > 15, "{keys:?}");
    for (n, key) in keys.iter().enumerate() {
        let id = format!("r{n}");
        let _: () = server.command(&["SET", key, "nonsense"]).await;
        patiently(every_verb(&store, &id)).await;
        let _: u64 = server.command(&["DEL", key]).await;
        recovered(&store).await;
        let (chat, fresh) = (format!("chat{n}"), format!("fresh{n}"));
        enqueue(&store, arrival(&chat, "u", "m", &fresh)).await;
        let mut claimed = store.claim_messages(100, LONG).await.expect("claim").items;
        claimed.retain(|item| item.message.request_id == fresh);
        let claimed = claimed.pop().unwrap_or_else(|| panic!("{key} is mended"));
        assert_eq!(finish(&store, commit(&claimed, vec![reply(&fresh, &chat, 0, "hi")])).await, Committed::Done);
        let mut heads = store.claim_replies(100, LONG).await.expect("claim").items;
        heads.retain(|head| head.delivery.request_id == fresh);
        let head = heads.pop().unwrap_or_else(|| panic!("{key} is mended"));
        assert_eq!(begin(&store, begin_of(&head)).await, Begun::Go, "{key}");
        assert!(matches!(settle(&store, settle_of(&head, Fate::Delivered)).await, Settled::Released), "{key}");
    }
}

/// Whatever they answer.
async fn every_verb(store: &SharedStore, id: &str) {
    let _ = store.enqueue(vec![arrival(id, "u", id, id)]).await;
    let claimed = store.claim_messages(10, SHORT).await;
    for item in claimed.into_iter().flat_map(|claimed| claimed.items) {
        let _ = store.renew(Side::In, vec![item.lease.clone()], SHORT).await;
        let replies = vec![reply(&item.message.request_id, &item.message.chat_id, 0, "hi")];
        let _ = store.commit(vec![commit(&item, replies)]).await;
    }
    let claimed = store.claim_replies(10, SHORT).await;
    for item in claimed.into_iter().flat_map(|claimed| claimed.items) {
        let _ = store.begin(vec![begin_of(&item)]).await;
        let _ = store.settle(vec![settle_and_go_on(&item, Fate::Delivered)]).await;
        let _ = store.release(Side::Out, vec![item.lease], Duration::ZERO).await;
    }
    let pushes = store.pushes();
    let progress = TaskProgress { task_id: "t".into(), cursor: 1, done: false };
    let _ = (pushes.open_tasks(vec![opening("t", 2)]).await, pushes.advance_tasks(vec![progress]).await);
    let _ = (pushes.queue_pushes(vec![new_push("t", "fourth", 1)]).await, pushes.task("t").await);
    let _ = (store.depth().await, store.busy_chats(10).await, store.chats(vec![lane(id)]).await);
    let _ = (store.revive(&lane(id)).await, store.waiting(&lane(id), id).await, store.ping().await);
    for batch in store.read_journal(100).await.unwrap_or_default() {
        let _ = store.trim_journal(&batch).await;
    }
}
