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
