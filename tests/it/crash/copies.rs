//! Copies of a callback that arrive at several gateways at the same time.

use std::time::Duration;

use futures_util::future::join_all;
use wecom_gateway::sim::robot_text;

use super::fleet::{Fleet, Setup};
use super::traffic::{Posted, query};
use super::verdict::judge;
use crate::world::{On, TEST};

/// Copies of each message.
const COPIES: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_at_two_gateways_are_one_message() {
    let test = async {
        let fleet = Fleet::started(Setup { gateways: 2, ..Setup::new(On::Redis) }).await;
        let mut all = Vec::new();
        for serial in 1..=4 {
            let message = query("c0", "u1", serial);
            let payload = robot_text("c0", "u1", &message.msg_id, &message.text);
            fleet.fake.ledger().expect(&message.tag, true);
            fleet.fake.ledger().posted(serial);
            // Each under way on a connection of its own, by turn to the one and the other.
            let acks = join_all((0..COPIES).map(|_| fleet.caller.post(&payload))).await;
            assert!(acks.iter().all(|ack| *ack == Some(200)), "{acks:?}");
            fleet.fake.ledger().acked(serial);
            all.push(Posted { message, acked: true });
        }
        let verdict = judge(&fleet, &all, &[], Duration::from_secs(20)).await;
        verdict.assert_clean();
        assert_eq!((verdict.answered, fleet.fake.service().count()), (4, 4), "{verdict}");
        for place in 0..2 {
            let metrics =
                fleet.http.get(format!("http://{}/metrics", fleet.gateway(place).admin)).send().await.unwrap();
            let metrics = metrics.text().await.unwrap();
            let took_some = metrics.lines().any(|line| {
                line.starts_with("wecom_gateway_callbacks_total")
                    && line.contains("app=\"support\"")
                    && !line.ends_with(" 0")
            });
            assert!(took_some, "both were called: {metrics}");
        }
        fleet.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
