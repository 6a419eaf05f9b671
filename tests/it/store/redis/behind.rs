//! What waits behind a call whose answer is lost: it is not sent after it on a connection that is known to be broken, and no
//! message gets in front of one that its caller keeps elsewhere meanwhile.

use std::net::SocketAddr;

use wecom_gateway::model::Secret;
use wecom_gateway::store::redis::RedisStore;

use super::*;
use crate::proxy::{Fault, Proxy};
use crate::redis_server::RedisServer;

/// More than one batch takes.
const MANY: usize = 65;

/// A server, a proxy that leads to it, and a store behind that, which is connected. The server knows its scripts.
async fn behind_a_proxy() -> (RedisServer, Proxy, SharedStore) {
    let server = RedisServer::spawn(&[]);
    let direct = open(&server, 1);
    whole_way(&direct, "warm").await;
    direct.note_change(changed("warm")).await.expect("note");
    let proxy = Proxy::to(address(&server)).await;
    let store: SharedStore = RedisStore::open(&Secret::new(format!("redis://{}", proxy.address())), 1).expect("open");
    store.ping().await.expect("it is there");
    (server, proxy, store)
}

fn address(server: &RedisServer) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}

/// The calls are applied, and no answer comes any more on the connection that carries the next one.
fn lose_answers(proxy: &Proxy) {
    proxy.arm(b"EVALSHA", Fault::SwallowAnswer);
}

/// Calls of one lane are one batch and what waits behind it. What was applied of the first is found by its repeat.
#[tokio::test]
async fn what_waits_behind_a_lost_enqueue_is_not_stored_in_front_of_it() {
    let (server, proxy, store) = behind_a_proxy().await;
    lose_answers(&proxy);
    let batch = (0..MANY).map(|n| arrival("chat", "u", &format!("m{n}"), &format!("r{n}"))).collect();
    let error = patiently(store.enqueue(batch)).await.expect_err("its answer is lost");
    assert!(error.is_transient(), "{error:?}");
    // Batches go one after the other: once this one is answered, whatever was asked before is over.
    patiently(async {
        while store.enqueue(vec![arrival("other", "u", "m", "last")]).await.is_err() {
            pass(Duration::from_millis(20)).await;
        }
    })
    .await;
    let stored = stages(&open(&server, 1), &format!("r{}", MANY - 1)).await;
    assert!(stored.is_empty(), "{stored:?}");
}

/// The caller that found the connection broken asks again at once.
#[tokio::test]
async fn a_call_after_a_lost_one_takes_another_connection() {
    let (old, proxy, store) = behind_a_proxy().await;
    let new = RedisServer::spawn(&[]);
    lose_answers(&proxy);
    proxy.lead_to(address(&new));
    let error = patiently(store.note_change(changed("lost"))).await.expect_err("its answer is lost");
    assert!(error.is_transient(), "{error:?}");
    // Where connecting takes too long it fails, and is on no server.
    let _ = patiently(store.note_change(changed("after"))).await;
    let told = stages(&open(&old, 1), "after").await;
    assert!(told.is_empty(), "{told:?}");
}
