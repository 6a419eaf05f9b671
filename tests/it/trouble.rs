//! A whole gateway whose Redis is in trouble: its loops wait without spinning, and go on by themselves once it is over.

use std::time::Duration;

use crate::redis_server::RedisServer;
use crate::world::{On, TEST, World};

/// More script calls in a second of trouble than loops make that wait between their tries.
const SPINNING: u64 = 200;

/// Commands that begin a trouble, and those that end it.
type Trouble = (&'static [&'static str], &'static [&'static str]);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_loop_waits_through_trouble_and_goes_on() {
    let troubles: [Trouble; 6] = [
        (&["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"]),
        (&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]),
        (&["SET", "wg:{00}:in:ready", "nonsense"], &["DEL", "wg:{00}:in:ready"]),
        (&["SET", "wg:{00}:out:leases", "nonsense"], &["DEL", "wg:{00}:out:leases"]),
        (&["SET", "wg:{00}:journal", "nonsense"], &["DEL", "wg:{00}:journal"]),
        (&["CLIENT", "PAUSE", "2500", "WRITE"], &["CLIENT", "UNPAUSE"]),
    ];
    let mut world = World::new(On::Redis, &["c1", "c2"]).await;
    for (begin, end) in troubles {
        world.fence("c1", "u1").await;
        let redis = world.redis();
        let _: redis::Value = redis.command(begin).await;
        let before = scripts_run(redis).await;
        // At least so long: a loop that spins makes thousands of calls by then.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let run = scripts_run(redis).await - before;
        assert!(run < SPINNING, "{run} calls under {begin:?}");
        let _: redis::Value = redis.command(end).await;
        tokio::time::timeout(TEST, resumes(&world)).await.unwrap_or_else(|_| panic!("nothing goes on after {begin:?}"));
    }
    world.end().await;
}

/// A message of another member in another chat comes through as soon as callbacks are taken again.
async fn resumes(world: &World) {
    world.until_ready(|body| body["store"] == "up").await;
    world.fence("c2", "u2").await;
}

/// How many scripts the server has run.
async fn scripts_run(redis: &RedisServer) -> u64 {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().expect("a number"))
}

/// What Redis held is gone, all of it: what was under way is lost, and everything that comes after works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_forgot_everything_is_worked_on() {
    let mut world = World::new(On::Redis, &["c1"]).await;
    world.fence("c1", "u1").await;
    let _: () = world.redis().command(&["FLUSHALL"]).await;
    let _: () = world.redis().command(&["SCRIPT", "FLUSH"]).await;
    tokio::time::timeout(TEST, world.fence("c1", "u1")).await.expect("it goes on");
    world.end().await;
}
