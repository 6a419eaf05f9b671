//! Processes that come, go and die while they share a topic.

use std::time::Duration;

use serde_json::json;
use wecom_gateway::sim::{FakeWeCom, Options};

use super::topics::Topics;
use super::{task, text_of};
use crate::crash::fleet::{Fleet, Setup, chats};
use crate::world::{On, TEST, World, key};

/// Chats, each in a partition of its own.
const CHATS: i32 = 4;
/// Tasks of each that are written at a time; more than a dying process can take with it.
const PART: usize = 15;
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
        // Writes the next tasks, and waits until some of them went out, or all before them did.
        let mut written = 0;
        let mut go_on = async |fleet: &Fleet| {
            for chat in 0..CHATS {
                let tasks: Vec<_> =
                    (written..written + PART).map(|n| task(&id(chat, n), &format!("c{chat}"))).collect();
                topics.write(chat, &tasks).await;
            }
            let sent = |fleet: &FakeWeCom| (0..CHATS).map(|chat| fleet.posts(&key(&format!("c{chat}")))).sum::<usize>();
            let enough = written * CHATS as usize + PART;
            fleet.fake.until(|fake| sent(fake) >= enough).await;
            written += PART;
        };
        go_on(&fleet).await;
        fleet.kill(0);
        go_on(&fleet).await;
        fleet.start(2, None).await;
        go_on(&fleet).await;
        let ended = fleet.terminate(1).await;
        assert!(ended.status.success(), "{ended:?}");
        fleet.start(0, None).await;
        go_on(&fleet).await;
        fleet.kill(2);
        fleet.start(1, None).await;
        topics.until_done().await;
        // What a dead process had begun is found, and ends as unknown.
        for (chat, n) in (0..CHATS).flat_map(|chat| (0..4 * PART).map(move |n| (chat, n))) {
            let id = id(chat, n);
            let (outcome, _) = fleet.outcome(&id).await;
            let arrived = fleet.fake.texts(&key(&format!("c{chat}")));
            let times = arrived.iter().filter(|text| **text == text_of(&id)).count();
            match outcome.as_str() {
                "delivered" => assert_eq!(times, 1, "{id}"),
                "unknown" => assert!(times <= 1, "{id}: {times}"),
                other => panic!("{id} ended as {other}"),
            }
        }
        assert_eq!(fleet.fake.ledger().violations(), []);
        fleet.end().await;
    };
    tokio::time::timeout(BOUND, test).await.expect("within its time");
}

/// What was handed over by the time that a partition goes is committed as it goes: its next owner begins behind it. Nothing else commits
/// within this test, and tasks come all the while, so some are always done and not yet committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_changes_hands_in_order_is_not_read_again() {
    let test = async {
        let (_broker, topics) = Topics::new(2).await;
        let chats = chats(40);
        let names: Vec<&str> = chats.iter().map(String::as_str).collect();
        let world = World::with(On::Redis, &names, Options::default(), |_, scenario| {
            let options = json!({"auto.commit.interval.ms": 3_600_000, "heartbeat.interval.ms": 300});
            topics.read_by(scenario).set("kafka", "options", options)
        })
        .await;
        let mut written = 0;
        let mut write = async || {
            for partition in 0..2 {
                let tasks: Vec<_> = (written..written + 20)
                    .map(|n| task(&format!("p{partition}-{n}"), names[n % 20 * 2 + partition as usize]))
                    .collect();
                topics.write(partition, &tasks).await;
            }
            written += 20;
        };
        write().await;
        world.fake.until(|fake| fake.arrivals() > 0).await;
        let second = world.second().await;
        while world.metric_of(&second, "kafka{kind=\"partitions\"}").await == 0 {
            write().await;
        }
        write().await;
        let count = |result: &str| format!("push_tasks_total{{source=\"kafka\",result=\"{result}\"}}");
        let (mut taken, mut again) = (0, tokio::time::interval(Duration::from_millis(20)));
        while taken < 2 * written as u64 {
            again.tick().await;
            taken = 0;
            for app in [&world.app, &second] {
                assert_eq!(world.metric_of(app, &count("repeat")).await, 0, "read again");
                taken += world.metric_of(app, &count("taken")).await;
            }
        }
        second.stop().await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
