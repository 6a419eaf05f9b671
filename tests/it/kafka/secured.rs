//! Brokers that want TLS and a password.

use serde_json::json;
use wecom_gateway::sim::Options;

use super::topics::Topics;
use super::{task, text_of};
use crate::kafka_broker::{KafkaBroker, PASSWORD, USER};
use crate::world::{On, TEST, World, key};

/// Reads, writes letters and results and hands a batch over, by each mechanism; with a wrong password nothing comes, and it is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_and_passwords_of_both_kinds_work() {
    let test = async {
        let broker = KafkaBroker::secured().await;
        let topics = Topics::on(&broker, 1).await;
        let secured = |mechanism: &str, password: &str| {
            json!({
                "security.protocol": "sasl_ssl",
                "ssl.ca.location": broker.certificate(),
                "broker.address.family": "v4",
                "sasl.mechanism": mechanism,
                "sasl.username": USER,
                "sasl.password": password,
            })
        };
        let mut world = World::with(On::Embedded, &["c1"], Options::default(), |_, scenario| {
            let options = secured("SCRAM-SHA-512", "no idea");
            topics.read_by(scenario).set("kafka", "brokers", broker.secured_address()).set("kafka", "options", options)
        })
        .await;
        world.fence("c1", "u1").await;
        world.until_ready(|body| body["kafka"]["up"] == false).await;
        for (n, mechanism) in ["SCRAM-SHA-512", "PLAIN"].into_iter().enumerate() {
            let options = secured(mechanism, PASSWORD);
            world = world.restart_as(|_, scenario| scenario.set("kafka", "options", options)).await;
            let id = |kind: &str| format!("{kind}-{n}");
            topics.write(0, &[task(&id("read"), "c1"), json!("no task")]).await;
            let (status, answer) =
                world.post("push", &json!({"via": "kafka", "tasks": [task(&id("given"), "c1")]})).await;
            assert_eq!(status, 202, "{answer}");
            for kind in ["read", "given"] {
                world.fake.until(|fake| fake.texts(&key("c1")).contains(&text_of(&id(kind)))).await;
            }
            topics.read(topics.dead(), n + 1).await;
            topics.read(topics.results(), 2 * (n + 1)).await;
        }
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
