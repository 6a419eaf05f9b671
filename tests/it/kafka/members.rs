//! Processes that come, go and die while they share a topic.

use std::collections::BTreeMap;
use std::time::Duration;

use wecom_gateway::sim::Options;

use super::topics::{Topics, task, text_of};
use crate::crash::fleet::{Fleet, Setup, chats};
use crate::world::{On, key};

/// Chats, each in a partition of its own.
const CHATS: i32 = 4;
/// Tasks of each.
const TASKS: usize = 60;
/// The whole of it takes no longer.
const BOUND: Duration = Duration::from_secs(120);

/// Three members of the group: one joins late, two are killed, one is stopped in order and comes back. Every task goes out
/// once, or once and nobody knows; never twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_join_leave_and_die_send_each_task_once() {
    let test = async {
        let (_broker, topics) = Topics::new(CHATS).await;
        let latency = Duration::from_millis(5);
        let setup = Setup {
            gateways: 3,
            chats: chats(CHATS as usize),
            fake: Options { latency, ..Options::default() },
            more: topics.section().into_iter().map(|(key, value)| ("kafka", key, value)).collect(),
            ..Setup::new(On::Redis)
        };
        let mut fleet = Fleet::new(setup).await;
        fleet.start(0, None).await;
        fleet.start(1, None).await;
        let id = |chat: i32, n: usize| format!("c{chat}-{n}");
        let half = TASKS / 2;
        let write = async |from: usize, to: usize| {
            for chat in 0..CHATS {
                let tasks: Vec<_> = (from..to).map(|n| task(&id(chat, n), &format!("c{chat}"))).collect();
                topics.write(chat, &tasks).await;
            }
        };
        write(0, half).await;
        let sent =
            |fleet: &Fleet| -> usize { (0..CHATS).map(|chat| fleet.fake.posts(&key(&format!("c{chat}")))).sum() };
        let until = async |fleet: &Fleet, count: usize| fleet.fake.until(|_| sent(fleet) >= count).await;
        until(&fleet, 10).await;
        fleet.kill(0);
        until(&fleet, 20).await;
        fleet.start(2, None).await;
        write(half, TASKS).await;
        until(&fleet, sent(&fleet) + 10).await;
        let ended = fleet.terminate(1).await;
        assert!(ended.status.success(), "{ended:?}");
        fleet.start(0, None).await;
        until(&fleet, sent(&fleet) + 10).await;
        fleet.kill(2);
        fleet.start(1, None).await;
        topics.until_done().await;
        // What a dead process had begun is found, and ends as unknown.
        let deliveries = (CHATS as usize * TASKS) as u64;
        let mut known = BTreeMap::new();
        for chat in 0..CHATS {
            for n in 0..TASKS {
                let (outcome, _) = fleet.outcome(&id(chat, n)).await;
                known.insert(id(chat, n), outcome);
            }
        }
        assert_eq!(known.len() as u64, deliveries);
        for chat in 0..CHATS {
            let arrived = fleet.fake.texts(&key(&format!("c{chat}")));
            for n in 0..TASKS {
                let times = arrived.iter().filter(|text| **text == text_of(&id(chat, n))).count();
                match known[&id(chat, n)].as_str() {
                    "delivered" => assert_eq!(times, 1, "{}", id(chat, n)),
                    "unknown" => assert!(times <= 1, "{}: {times}", id(chat, n)),
                    other => panic!("{} ended as {other}", id(chat, n)),
                }
            }
        }
        assert_eq!(fleet.fake.ledger().violations(), []);
        fleet.end().await;
    };
    tokio::time::timeout(BOUND, test).await.expect("within its time");
}
