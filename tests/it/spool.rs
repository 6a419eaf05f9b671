//! The whole gateway while Redis is away, hangs or comes back with nothing: callbacks are acked all the same, and each is
//! handled once and in order when it is back.

use std::future::Future;
use std::time::Duration;

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wecom_gateway::ingress::Replay;
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{FakeWeCom, Load, Options, Scenario, Tag, robot_text};
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::store::{Entry, SharedStore, Spool};
use wecom_gateway::telemetry::Telemetry;

use crate::callback::endpoint::text;
use crate::callback::gated::{Bare, Gate, Gated};
use crate::callback::seal::Callback;
use crate::store::arrival;
use crate::world::{APP, On, TEST, World, key};

/// Bounds a test in time.
async fn bounded(test: impl Future<Output = ()>) {
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

/// A gateway on Redis, with a configuration of its own.
async fn world(chats: &[&str], shape: impl FnOnce(&FakeWeCom, Scenario) -> Scenario) -> World {
    World::with(On::Redis, chats, Options::default(), shape).await
}

fn as_it_is(_: &FakeWeCom, scenario: Scenario) -> Scenario {
    scenario
}

/// Leases that end soon: what a claim leased whose answer was lost with the server waits no longer.
fn short_leases(_: &FakeWeCom, scenario: Scenario) -> Scenario {
    scenario.set("sender", "timeout", "2s").set("sender", "lease", "5s").set("workers", "lease", "5s")
}

fn tags(chat: &str, sender: &str, serials: std::ops::RangeInclusive<u64>) -> Vec<String> {
    serials.map(|serial| Tag::new(chat, sender, serial).to_string()).collect()
}

/// Says `/echo` with these serials, one after the other.
async fn say(world: &World, chat: &str, sender: &str, serials: std::ops::RangeInclusive<u64>) {
    for serial in serials {
        let text = format!("/echo {}", Tag::new(chat, sender, serial));
        world.say(chat, sender, &format!("{chat}-{sender}-{serial}"), &text).await;
    }
}

/// What a member was answered, in order.
fn answered(world: &World, chat: &str, sender: &str) -> Vec<String> {
    let of = |text: &String| Tag::of(text).is_some_and(|tag| tag.sender == sender);
    world.texts(chat).into_iter().filter(of).collect()
}

/// Waits until the spool is empty and the store answers.
async fn until_replayed(world: &World) {
    let (status, _) = world.until_ready(|body| body["spool"]["depth"] == 0 && body["store"] == "up").await;
    assert_eq!(status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_while_redis_is_away_is_answered_once_and_in_order() {
    bounded(async {
        let mut world = world(&["c1", "c2"], as_it_is).await;
        let members = [("c1", "u1"), ("c1", "u2"), ("c2", "u1")];
        world.fence("c1", "u0").await;
        world.redis().kill();
        for (chat, sender) in members {
            say(&world, chat, sender, 1..=10).await;
        }
        let (status, body) = world.readyz().await;
        let want =
            json!({"ready": true, "store": "unreachable", "spool": {"depth": 30, "full": false}, "kafka": null, "draining": false});
        assert_eq!((status, body), (200, want));
        world.redis().restart();
        for (chat, sender) in members {
            world.fence(chat, sender).await;
            assert_eq!(answered(&world, chat, sender), tags(chat, sender, 1..=10));
        }
        until_replayed(&world).await;
        let fences = world.callbacks("spooled").await - 30;
        assert_eq!(world.metric("spooled_total").await, 30 + fences);
        assert_eq!((world.metric("replayed_total").await, world.metric("spool_depth").await), (30 + fences, 0));
        // From here on the way is the direct one again.
        world.fence("c1", "u1").await;
        assert_eq!(world.callbacks("spooled").await, 30 + fences);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_costs_no_ack() {
    bounded(async {
        let mut world = world(&["c1"], as_it_is).await;
        world.fence("c1", "u0").await;
        world.redis().hang();
        // The first of all wait for half of the deadline; these calls are applied all the same when the server goes on.
        let members: Vec<String> = (1..=12).map(|n| format!("u{n}")).collect();
        join_all(members.iter().map(|sender| say(&world, "c1", sender, 1..=1))).await;
        for sender in &members {
            say(&world, "c1", sender, 2..=3).await;
        }
        assert_eq!((world.callbacks("spooled").await, world.callbacks("store_timeout").await), (36, 0));
        world.redis().go_on();
        for sender in &members {
            world.fence("c1", sender).await;
            assert_eq!(answered(&world, "c1", sender), tags("c1", sender, 1..=3));
        }
        until_replayed(&world).await;
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_and_goes_under_load_breaks_no_promise() {
    bounded(async {
        let load = Load { messages: 600, chats: 10, seed: 5, rate: Some(150.0), ..Load::default() };
        let chats = load.chat_ids();
        let names: Vec<&str> = chats.iter().map(String::as_str).collect();
        let mut world = world(&names, short_leases).await;
        let (caller, ledger) = (world.caller.clone(), world.fake.ledger().clone());
        let running = tokio::spawn(async move { load.run(&caller, &ledger).await });
        for acked in [60, 200, 340] {
            world.fake.until(|fake| fake.ledger().progress().acked >= acked).await;
            world.redis().kill();
            // On a slow machine the load may be over before so many come.
            tokio::select! {
                _ = world.until_ready(|body| body["spool"]["depth"].as_u64() >= Some(20)) => {}
                () = world.fake.until(|fake| fake.ledger().progress().acked == 600) => {}
            }
            world.redis().restart();
            world.until_ready(|body| body["spool"]["depth"] == 0).await;
        }
        running.await.unwrap();
        assert!(world.fake.ledger().all_answered(Duration::from_secs(30)).await, "{:?}", world.fake.ledger().lost(5));
        let summary = world.fake.ledger().summary();
        assert_eq!(summary.progress.acked, 600, "{summary:?}");
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_starts_while_redis_is_away_goes_on_with_its_spool() {
    bounded(async {
        let mut world = world(&["c1"], as_it_is).await;
        world.redis().kill();
        say(&world, "c1", "u1", 1..=5).await;
        let mut world = world.restart_while(|_| {}).await;
        assert_eq!(world.readyz().await.1["spool"], json!({"depth": 5, "full": false}));
        say(&world, "c1", "u1", 6..=8).await;
        // A copy of what the process before this one acked.
        say(&world, "c1", "u1", 2..=2).await;
        world.redis().restart();
        world.fence("c1", "u1").await;
        assert_eq!(answered(&world, "c1", "u1"), tags("c1", "u1", 1..=8));
        until_replayed(&world).await;
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_spool_refuses_and_loses_nothing() {
    bounded(async {
        let small = |_: &FakeWeCom, scenario: Scenario| scenario.set("store", "spool_limit", "4KiB");
        let mut world = world(&["c1"], small).await;
        world.redis().kill();
        let mut acked = 0;
        loop {
            let text = format!("/echo {}", Tag::new("c1", "u1", acked + 1));
            match world.caller.post(&robot_text("c1", "u1", &format!("m{acked}"), &text)).await {
                Some(200) => acked += 1,
                refused => break assert_eq!(refused, Some(503)),
            }
        }
        assert!((2..100).contains(&acked), "{acked}");
        assert_eq!((world.callbacks("spooled").await, world.callbacks("spool_full").await), (acked, 1));
        assert_eq!(world.readyz().await.1["spool"]["depth"], acked);
        world.redis().restart();
        until_replayed(&world).await;
        world.fence("c1", "u1").await;
        assert_eq!(answered(&world, "c1", "u1"), tags("c1", "u1", 1..=acked));
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_spool_callbacks_are_refused_while_redis_is_away() {
    bounded(async {
        let bare = |_: &FakeWeCom, scenario: Scenario| scenario.set("store", "spool", false);
        let mut world = world(&["c1"], bare).await;
        let post = async |world: &World| world.caller.post(&robot_text("c1", "u1", "m1", "/echo [c1 u1 1]")).await;
        world.redis().kill();
        assert_eq!(post(&world).await, Some(503));
        let want = json!({"ready": false, "store": "unreachable", "spool": null, "kafka": null, "draining": false});
        assert_eq!(world.readyz().await, (503, want));
        world.redis().restart();
        world.until_ready(|body| body["ready"] == true).await;
        world.redis().hang();
        assert_eq!(post(&world).await, Some(503));
        world.redis().go_on();
        world.until_ready(|body| body["ready"] == true).await;
        assert_eq!(post(&world).await, Some(200));
        world.fence("c1", "u1").await;
        assert_eq!(answered(&world, "c1", "u1"), ["[c1 u1 1]"]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_back_empty_gets_the_spool() {
    bounded(async {
        let mut world = world(&["c1"], as_it_is).await;
        world.fence("c1", "u0").await;
        world.redis().kill();
        say(&world, "c1", "u1", 1..=5).await;
        world.redis().restart_empty();
        world.fence("c1", "u1").await;
        assert_eq!(answered(&world, "c1", "u1"), tags("c1", "u1", 1..=5));
        until_replayed(&world).await;
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_during_the_outage_are_one_message() {
    bounded(async {
        for window in ["0s", "10s"] {
            let shape = |fake: &FakeWeCom, scenario| short_leases(fake, scenario).set("dedup", "window", window);
            let mut world = world(&["c1"], shape).await;
            say(&world, "c1", "u1", 1..=1).await;
            world.redis().kill();
            join_all((0..5).map(|_| say(&world, "c1", "u1", 2..=2))).await;
            say(&world, "c1", "u1", 1..=3).await;
            world.redis().restart();
            say(&world, "c1", "u1", 1..=3).await;
            world.fence("c1", "u1").await;
            assert_eq!(answered(&world, "c1", "u1"), tags("c1", "u1", 1..=3), "{window}");
            world.end().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_ages_in_the_spool() {
    bounded(async {
        let impatient = |fake: &FakeWeCom, scenario: Scenario| {
            let mut app = robot_app(fake, APP, &["c1".to_owned()]);
            app["max_reply_age"] = "1s".into();
            app["commands"][0]["action"]["timeout"] = "1s".into();
            app["keywords"] = json!([]);
            app["mention"]["action"]["timeout"] = "1s".into();
            scenario.app(APP, app)
        };
        let mut world = world(&["c1"], impatient).await;
        world.redis().kill();
        say(&world, "c1", "u1", 1..=1).await;
        // Nothing but time makes it old.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        world.redis().restart();
        assert_eq!(world.outcome("c1-u1-1").await, ("dropped".into(), Some("too_old".into())));
        until_replayed(&world).await;
        world.fence("c1", "u1").await;
        assert_eq!(answered(&world, "c1", "u1"), [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_without_room_waits_in_the_spool_and_holds_up_no_other() {
    bounded(async {
        let shallow = |_: &FakeWeCom, scenario: Scenario| scenario.set("store", "lane_depth", 2);
        let mut world = world(&["c1", "c2"], shallow).await;
        world.fake.service().hold();
        let query = async |world: &World, n: u64| world.say("c1", "u1", &format!("q{n}"), &format!("/query {n}")).await;
        query(&world, 1).await;
        world.fake.until(|fake| fake.service().under_way() == 1).await;
        world.redis().kill();
        for n in 2..=6 {
            query(&world, n).await;
        }
        say(&world, "c2", "u2", 1..=2).await;
        world.redis().restart();
        world.fake.until(|fake| fake.texts(&key("c2")).len() == 2).await;
        world.until_ready(|body| body["spool"]["depth"] == 4).await;
        world.fake.service().release();
        world.fake.until(|fake| fake.texts(&key("c1")).len() == 6).await;
        let orders: Vec<u64> = world.fake.service().calls().iter().map(|call| call.tag().serial).collect();
        assert_eq!(orders, [1, 2, 3, 4, 5, 6]);
        until_replayed(&world).await;
        world.end().await;
    })
    .await;
}

/// Somebody wrote under our keys: one lane can't be worked, all others can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_lane_waits_in_the_spool_and_holds_up_no_other() {
    bounded(async {
        let mut world = world(&["c1"], as_it_is).await;
        let lane = format!("wg:{{00}}:in:{APP}:c1:broken");
        let _: () = world.redis().command(&["SET", &lane, "not ours"]).await;
        say(&world, "c1", "broken", 1..=3).await;
        for sender in ["u1", "u2"] {
            world.fence("c1", sender).await;
        }
        let (status, body) = world.until_ready(|body| body["spool"]["depth"] == 3).await;
        assert!(status == 200 && body["store"] == "up", "{body}");
        let _: u64 = world.redis().command(&["DEL", &lane]).await;
        world.fence("c1", "broken").await;
        assert_eq!(answered(&world, "c1", "broken"), tags("c1", "broken", 1..=3));
        until_replayed(&world).await;
        world.end().await;
    })
    .await;
}

/// A server that takes no writes is as good as away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_or_foreign_redis_counts_as_away() {
    bounded(async {
        let mut world = world(&["c1"], as_it_is).await;
        let _: () = world.redis().command(&["CONFIG", "SET", "maxmemory", "1"]).await;
        say(&world, "c1", "u1", 1..=2).await;
        let _: () = world.redis().command(&["CONFIG", "SET", "maxmemory", "0"]).await;
        until_replayed(&world).await;
        let _: () = world.redis().command(&["CONFIG", "SET", "requirepass", "secret"]).await;
        let _: u64 = world.redis().command_as("secret", &["CLIENT", "KILL", "TYPE", "normal"]).await;
        world.until_ready(|body| body["store"] == "unreachable").await;
        say(&world, "c1", "u1", 3..=4).await;
        let _: () = world.redis().command_as("secret", &["CONFIG", "SET", "requirepass", ""]).await;
        world.fence("c1", "u1").await;
        assert_eq!(answered(&world, "c1", "u1"), tags("c1", "u1", 1..=4));
        assert!(world.callbacks("spooled").await >= 4);
        until_replayed(&world).await;
        world.end().await;
    })
    .await;
}

/// The second finds that the spool is in use and need not ask the store, for which the first still waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_of_a_lane_does_not_come_into_the_spool_in_front_of_the_first() {
    bounded(async {
        let folder = tempfile::tempdir().unwrap();
        let spool = Arc::new(Spool::open(folder.path(), 1 << 20).unwrap());
        let bare = Bare::beside(Some(spool.clone()), |scenario| scenario).await;
        bare.store.set(Gate::Shut);
        let post = |id: &str| {
            let (client, callback) = (bare.client.clone(), Callback::of(text(id, "hi")));
            tokio::spawn(async move { client.post(&callback).await.taken() })
        };
        let first = post("m1");
        bare.store.until_came(1).await;
        spool.append(&arrival("other", "u", "m0", "r0")).await.unwrap();
        post("m2").await.unwrap();
        first.await.unwrap();
        assert_eq!(bare.store.came(), 1);
        let spooled = spool.after(0, 9, 100).await.unwrap().into_iter();
        let ids: Vec<String> = spooled.map(|one| one.arrival.unwrap().message.msg_id).collect();
        assert_eq!(ids, ["m0", "m1", "m2"]);
    })
    .await;
}

/// Whatever the store answers when: what found no room keeps those behind it in its lane back, and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_of_a_lane_does_not_slip_into_room_that_the_first_did_not_find() {
    bounded(async {
        let folder = tempfile::tempdir().unwrap();
        let gated = Gated::new(EmbeddedStore::open(folder.path(), 1).unwrap());
        let (store, spool): (SharedStore, _) = (gated.clone(), Arc::new(Spool::open(folder.path(), 1 << 20).unwrap()));
        for (sender, id) in [("u", "r1"), ("u", "r2"), ("v", "r3"), ("u", "r4")] {
            spool.append(&arrival("chat", sender, id, id)).await.unwrap();
        }
        gated.set(Gate::Full);
        let replay = Replay::new(store.clone(), spool.clone(), 100, Telemetry::unheard());
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let stop = stop.clone();
            async move { replay.run(stop).await }
        });
        while !spool.is_empty() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        running.await.unwrap();
        // The other member's went in first, and the lane kept its order.
        let journal = store.read_journal(100).await.unwrap().remove(0);
        let accepted: Vec<String> =
            journal.lines.iter().map(|line| Entry::parse(line).unwrap().line.request_id).collect();
        assert_eq!(accepted, ["r3", "r1", "r2", "r4"]);
    })
    .await;
}
