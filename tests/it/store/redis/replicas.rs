//! `replicas = n`: an ack and a send wait until so many replicas have the write; while they don't, the store says that it
//! is unavailable, and nothing is begun that would end as unknown.

use std::net::SocketAddr;

use super::*;
use crate::proxy::Proxy;
use crate::redis_server::RedisServer;
use crate::store::pushes::{new_push, queue_push};

/// A server that its replicas need not wait for.
fn master() -> RedisServer {
    RedisServer::spawn(&["--repl-diskless-sync-delay", "0"])
}

fn replica_of(port: u16) -> RedisServer {
    RedisServer::spawn(&["--replicaof", "127.0.0.1", &port.to_string()])
}

/// Waits until the master counts so many replicas.
async fn has_replicas(master: &RedisServer, wanted: u64) {
    patiently(async { while master.command::<u64>(&["WAIT", &wanted.to_string(), "100"]).await < wanted {} }).await;
}

fn waiting_for(master: &RedisServer, replicas: u32) -> SharedStore {
    open(master, Options { replicas, ..Options::default() })
}

/// The call fails for now, and says why.
fn lacks_replicas<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.expect_err("too few replicas");
    assert!(error.is_transient() && error.to_string().contains("store.replicas"), "{error:?}");
}

/// Repeats a call until enough replicas are back.
async fn insist<T>(call: impl AsyncFn() -> Result<Vec<T>>) -> T {
    patiently(async {
        loop {
            match call().await {
                Ok(mut answers) => return answers.pop().expect("an answer"),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            pass(Duration::from_millis(20)).await;
        }
    })
    .await
}

#[tokio::test]
async fn what_was_answered_is_on_the_replica() {
    let master = master();
    let replica = replica_of(master.port());
    has_replicas(&master, 1).await;
    let store = waiting_for(&master, 1);
    whole_way(&store, "r1").await;
    queue_texts(&store, "other", &["1", "2"]).await;
    enqueue(&store, arrival("chat", "u", "m2", "r2")).await;
    let depth: u64 = replica.command(&["LLEN", "wg:{00}:in:shop:chat:u"]).await;
    assert_eq!(depth, 1);
    queue_push(&store, new_push("t", "chat", 0)).await;
    let known: u64 = replica.command(&["HLEN", "wg:{00}:push:t"]).await;
    assert_eq!(known, 1);
}

#[tokio::test]
async fn a_lost_replica_stops_acks_and_sends_until_it_is_back() {
    let master = master();
    let mut replica = replica_of(master.port());
    has_replicas(&master, 1).await;
    let store = waiting_for(&master, 1);
    queue_texts(&store, "chat", &["1", "2"]).await;
    queue_texts(&store, "other", &["1"]).await;
    let sent = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&sent)).await, Begun::Go);
    let head = take_reply(&store).await;
    replica.kill();

    let message = arrival("chat", "u", "m", "r");
    let again = async || patiently(store.enqueue(vec![message.clone()])).await;
    lacks_replicas(again().await);
    // It was applied, though; what comes now is not.
    lacks_replicas(store.enqueue(vec![arrival("chat", "v", "m", "other")]).await);
    lacks_replicas(store.pushes().queue_pushes(vec![new_push("t", "chat", 0)]).await);
    lacks_replicas(store.begin(vec![begin_of(&head)]).await);
    let tries: Option<String> = master.command(&["HGET", "wg:{00}:out:tries", head.lease.lane.as_str()]).await;
    assert_eq!(tries, None);
    assert_eq!(store.depth().await.expect("depth").waiting, 4);
    // What was sent is settled: it only makes room.
    assert!(matches!(settle(&store, settle_of(&sent, Fate::Delivered)).await, Settled::Released));
    let claimed = take(&store).await;
    assert_eq!(finish(&store, commit(&claimed, vec![])).await, Committed::Done);

    replica.restart();
    assert_eq!(insist(async || store.enqueue(vec![message.clone()]).await).await, Enqueued::Stored);
    assert_eq!(insist(async || store.begin(vec![begin_of(&head)]).await).await, Begun::Go);
    assert!(store.claim_messages(5, LONG).await.expect("claim").items.is_empty());
}

/// The replica is there and hears nothing. A repeat changes nothing more, and a new connection has written nothing: neither
/// makes the write safe.
#[tokio::test]
async fn a_repeat_is_as_unsafe_as_its_first_call() {
    let master = master();
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], master.port()))).await;
    let _replica = replica_of(proxy.address().port());
    has_replicas(&master, 1).await;
    let store = waiting_for(&master, 1);
    whole_way(&store, "r1").await;
    proxy.stall(true);
    let message = arrival("chat", "u", "m2", "r2");
    lacks_replicas(store.enqueue(vec![message.clone()]).await);
    let message = Arrival { repeated: true, ..message };
    lacks_replicas(waiting_for(&master, 1).enqueue(vec![message.clone()]).await);
    proxy.stall(false);
    assert_eq!(insist(async || store.enqueue(vec![message.clone()]).await).await, Enqueued::Stored);
    assert_eq!(store.depth().await.expect("depth").waiting, 1);
}

#[tokio::test]
async fn one_replica_is_not_two() {
    let master = master();
    let _replica = replica_of(master.port());
    has_replicas(&master, 1).await;
    let store = waiting_for(&master, 2);
    for _ in 0..2 {
        let error = store.enqueue(vec![arrival("chat", "u", "m", "r")]).await.expect_err("too few replicas");
        assert!(error.is_transient() && error.to_string().contains("1 of 2"), "{error:?}");
    }
}
