//! The broker goes and comes back; the gateway serves on.

use wecom_gateway::sim::Options;

use super::topics::Topics;
use super::{task, text_of};
use crate::kafka_broker::KafkaBroker;
use crate::world::{On, TEST, World, key};

/// Killed while tasks come, away at a start, back: nothing is lost, nothing goes out twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_and_comes_back_loses_nothing() {
    let test = async {
        let mut broker = KafkaBroker::alone().await;
        let topics = Topics::on(&broker, 1).await;
        let world =
            World::with(On::Embedded, &["c1"], Options::default(), |_, scenario| topics.read_by(scenario)).await;
        topics.write(0, &(0..20).map(|n| task(&format!("t{n}"), "c1")).collect::<Vec<_>>()).await;
        world.fake.until(|fake| fake.posts(&key("c1")) > 3).await;
        tokio::task::block_in_place(|| broker.kill());
        let (status, _) = world.until_ready(|body| body["kafka"]["up"] == false).await;
        assert_eq!(status, 200, "callbacks are taken without Kafka");
        world.fence("c1", "u1").await;
        // A gateway that starts without it comes up, too.
        let world = world.restart_while(|_| {}).await;
        world.fence("c1", "u1").await;
        tokio::task::block_in_place(|| broker.start_again());
        topics.write(0, &(20..30).map(|n| task(&format!("t{n}"), "c1")).collect::<Vec<_>>()).await;
        world.fake.until(|fake| fake.texts(&key("c1")).contains(&text_of("t29"))).await;
        let want: Vec<String> = (0..30).map(|n| text_of(&format!("t{n}"))).collect();
        assert_eq!(world.texts("c1"), want);
        topics.until_done().await;
        world.until_ready(|body| body["kafka"]["up"] == true && body["kafka"]["lag"] == 0).await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
