//! Who can't go on holds up only itself, and loses nothing.

use std::time::Duration;

use serde_json::Value;
use wecom_gateway::sim::Options;

use super::topics::Topics;
use super::{task, text_of};
use crate::on_both_stores;
use crate::world::{On, TEST, World, key};

on_both_stores!(a_full_lane_holds_up_its_partition_alone);

fn texts_of(ids: impl IntoIterator<Item = String>) -> Vec<String> {
    ids.into_iter().map(|id| text_of(&id)).collect()
}

/// A lane takes three, its chat answers nothing: its partition waits, with no more read than its share.
async fn a_full_lane_holds_up_its_partition_alone(on: On) {
    let (_broker, topics) = Topics::new(2).await;
    let world = World::with(on, &["c1", "c2"], Options::default(), |_, scenario| {
        topics.read_by(scenario).set("store", "lane_depth", 3).set("kafka", "in_flight", 10)
    })
    .await;
    world.fake.hold(&key("c1"));
    let stuck: Vec<_> = (0..40).map(|n| format!("stuck{n}")).collect();
    let free: Vec<_> = (0..40).map(|n| format!("free{n}")).collect();
    topics.write(0, &stuck.iter().map(|id| task(id, "c1")).collect::<Vec<_>>()).await;
    topics.write(1, &free.iter().map(|id| task(id, "c2")).collect::<Vec<_>>()).await;
    world.fake.until(|fake| fake.texts(&key("c2")).len() == 40).await;
    assert_eq!(world.texts("c2"), texts_of(free));
    // The lane's three are owned, and nothing behind them is passed over; what is read of it is its share, and one more that came
    // before it was known that there is no room.
    topics.until_committed(0, 3).await;
    let stuck_with = |body: &Value| body["kafka"]["in_flight"].as_u64();
    world.until_ready(|body| stuck_with(body) >= Some(5)).await;
    topics.write(1, &[task("free40", "c2")]).await;
    topics.until_committed(1, 41).await;
    let (_, body) = world.until_ready(|body| body["kafka"]["lag"] == 37).await;
    assert!(stuck_with(&body) <= Some(6), "{body}");
    assert_eq!(topics.committed(0).await, Some(3));
    world.fake.release(&key("c1"));
    world.fake.until(|fake| fake.texts(&key("c1")).len() == 40).await;
    assert_eq!(world.texts("c1"), texts_of(stuck));
    topics.until_done().await;
    world.end().await;
}

/// What was paused when it was taken from a process is read on once it comes back, with room again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_partition_that_goes_and_comes_back_is_read_on() {
    let test = async {
        let (_broker, topics) = Topics::new(2).await;
        let chats = ["c1", "c2"];
        let world = World::with(On::Redis, &chats, Options::default(), |_, scenario| {
            topics.read_by(scenario).set("store", "lane_depth", 3).set("kafka", "in_flight", 10)
        })
        .await;
        chats.iter().for_each(|chat| world.fake.hold(&key(chat)));
        let ids = |chat: &str| -> Vec<String> { (0..40).map(|n| format!("{chat}-{n}")).collect() };
        for (partition, chat) in (0..).zip(chats) {
            topics.write(partition, &ids(chat).iter().map(|id| task(id, chat)).collect::<Vec<_>>()).await;
        }
        // Whichever goes is full, and paused.
        topics.until_committed(0, 3).await;
        topics.until_committed(1, 3).await;
        world.until_ready(|body| body["kafka"]["in_flight"].as_u64() >= Some(10)).await;
        let second = world.second().await;
        let mut again = tokio::time::interval(Duration::from_millis(20));
        while world.metric_of(&second, "kafka{kind=\"partitions\"}").await == 0 {
            again.tick().await;
        }
        second.stop().await;
        world.until_ready(|body| body["kafka"]["partitions"] == 2).await;
        for chat in chats {
            world.fake.release(&key(chat));
        }
        for chat in chats {
            world.fake.until(|fake| fake.texts(&key(chat)).len() == 40).await;
            assert_eq!(world.texts(chat), texts_of(ids(chat)));
        }
        topics.until_done().await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

/// A store that is away is no reason for a letter: the tasks wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_wait_for_a_store_that_is_away() {
    let test = async {
        let (_broker, topics) = Topics::new(1).await;
        let mut world =
            World::with(On::Redis, &["c1"], Options::default(), |_, scenario| topics.read_by(scenario)).await;
        topics.write(0, &[task("t0", "c1")]).await;
        world.fake.until(|fake| fake.texts(&key("c1")).len() == 1).await;
        tokio::task::block_in_place(|| world.redis().kill());
        topics.write(0, &(1..20).map(|n| task(&format!("t{n}"), "c1")).collect::<Vec<_>>()).await;
        world.until_ready(|body| body["kafka"]["in_flight"] == 19).await;
        tokio::task::block_in_place(|| world.redis().restart());
        world.fake.until(|fake| fake.texts(&key("c1")).len() == 20).await;
        assert_eq!(world.texts("c1"), texts_of((0..20).map(|n| format!("t{n}"))));
        topics.until_done().await;
        assert_eq!(world.metric("push_tasks_total{source=\"kafka\",result=\"dead_letter\"}").await, 0);
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
