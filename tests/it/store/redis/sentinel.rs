//! Sentinels that name the master: the store goes where they say, and follows when another takes its place.

use super::*;
use crate::redis_server::RedisServer;

/// Has a sentinel watch a master, which it gives up soon.
async fn watches(sentinel: &RedisServer, master: &RedisServer) {
    let port = master.port().to_string();
    let _: () = sentinel.command(&["SENTINEL", "MONITOR", "shop", "127.0.0.1", &port, "1"]).await;
    for (what, value) in [("down-after-milliseconds", "500"), ("failover-timeout", "3000")] {
        let _: () = sentinel.command(&["SENTINEL", "SET", "shop", what, value]).await;
    }
}

#[tokio::test]
async fn the_store_follows_the_master_that_sentinels_name() {
    let mut master = RedisServer::spawn(&["--repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::spawn(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let [sentinel, other] = [RedisServer::spawn_sentinel(), RedisServer::spawn_sentinel()];
    watches(&sentinel, &master).await;
    // The other one knows nothing of this master.
    let url = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/?master=shop", other.port(), sentinel.port());
    let store: SharedStore = RedisStore::open(&Secret::new(url), 1).expect("open");
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let has_it = async {
        loop {
            let depth: u64 = replica.command(&["LLEN", "wg:{00}:in:shop:chat:u"]).await;
            let known: Vec<Vec<String>> = sentinel.command(&["SENTINEL", "REPLICAS", "shop"]).await;
            if depth == 1 && !known.is_empty() {
                return;
            }
            pass(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, has_it).await.expect("the replica has it, and the sentinel knows of the replica");
    master.kill();
    let taken_over = async {
        while store.ping().await.is_err() {
            pass(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, taken_over).await.expect("the replica takes its place");
    assert_eq!(take(&store).await.message.request_id, "r1");
}

#[tokio::test]
async fn a_master_that_no_sentinel_knows_is_said() {
    let sentinel = RedisServer::spawn_sentinel();
    let url = format!("redis+sentinel://127.0.0.1:{}/?master=none", sentinel.port());
    let store = RedisStore::open(&Secret::new(url), 1).expect("open");
    let error = patiently(store.ping()).await.expect_err("there is none");
    assert!(error.to_string().contains("no master of this name"), "{error}");
}
