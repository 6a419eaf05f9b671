//! The gateway beside the plain consumer loop, under the same blows, with what comes twice or not at all counted at the fake WeCom:
//! the loop sends twice, which shows that a second send would be seen.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use wecom_gateway::sim::{FakeWeCom, Options};

use super::tally::{Arrived, Tally, Told};
use super::task;
use super::topics::Topics;
use crate::crash::fleet::{Fleet, Setup, chats};
use crate::kafka_broker::KafkaBroker;
use crate::plain_loop::PlainLoop;
use crate::world::{On, key};

const TASKS: usize = 400;
const CHATS: usize = 40;
const PARTITIONS: usize = 4;
/// Processes that share the partitions.
const PROCESSES: usize = 2;
/// Chats that each gateway sends to at once.
const AT_ONCE: usize = 4;
/// Kills of a run.
const KILLS: usize = 3;
/// Where a process of the plain loop finds what it is to do.
const PLAIN_LOOP: &str = "PLAIN_LOOP";
/// Neither takes longer.
const BOUND: Duration = Duration::from_secs(120);

fn id(n: usize) -> String {
    format!("t{n}")
}

/// Writes all tasks, those of a chat into one partition.
async fn write_all(topics: &Topics) {
    for partition in 0..PARTITIONS {
        let here = (0..TASKS).filter(|n| n % PARTITIONS == partition);
        let tasks: Vec<_> = here.map(|n| task(&id(n), &format!("c{}", n % CHATS))).collect();
        topics.write(partition as i32, &tasks).await;
    }
}

fn arrived(fake: &FakeWeCom) -> Arrived {
    let mut arrived = Arrived::new();
    for sent in fake.arrived() {
        *arrived.entry(sent.text.trim_start_matches("text of ").to_owned()).or_default() += 1;
    }
    arrived
}

/// The first task of this chat has arrived, and waits for its answer; others are on their way.
async fn until_one_hangs(fake: &FakeWeCom) {
    fake.until(|fake| fake.under_way(&key("c0")) == 1 && fake.arrivals() > TASKS / 8).await;
}

fn options() -> Options {
    Options { latency: Duration::from_millis(5), ..Options::default() }
}

/// Three kills, one with a request under way for certain, and a broker that is killed and comes back: each task goes out once, or once
/// at most and is told as unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_that_are_killed_send_each_task_once() {
    let test = async {
        let mut broker = KafkaBroker::alone().await;
        let topics = Topics::on(&broker, PARTITIONS as i32).await;
        write_all(&topics).await;
        let mut more: Vec<_> = topics.section().into_iter().map(|(key, value)| ("kafka", key, value)).collect();
        more.push(("sender", "max_chats", AT_ONCE.into()));
        let setup = Setup { gateways: PROCESSES, chats: chats(CHATS), fake: options(), more, ..Setup::new(On::Redis) };
        let mut fleet = Fleet::new(setup).await;
        fleet.fake.hold(&key("c0"));
        for place in 0..PROCESSES {
            fleet.start(place, None).await;
        }
        until_one_hangs(&fleet.fake).await;
        for place in 0..PROCESSES {
            fleet.kill(place);
        }
        tokio::task::block_in_place(|| broker.kill());
        fleet.fake.release(&key("c0"));
        tokio::task::block_in_place(|| broker.start_again());
        for place in 0..PROCESSES {
            fleet.start(place, None).await;
        }
        fleet.fake.until(|fake| fake.arrivals() > TASKS / 2).await;
        fleet.kill(0);
        fleet.start(0, None).await;
        topics.until_done().await;
        let mut told = Told::new();
        for n in 0..TASKS {
            told.insert(id(n), fleet.outcome(&id(n)).await.0);
        }
        let tally = Tally::of(TASKS, &arrived(&fleet.fake), Some(&told));
        assert!(tally.is_kept(), "{tally:?}");
        let unknown = tally.unknown_arrived + tally.unknown_missing;
        assert!((1..=KILLS * AT_ONCE).contains(&unknown), "what was under way, and no more: {tally:?}");
        assert_eq!(told["t0"], "unknown", "it hung");
        fleet.end().await;
    };
    tokio::time::timeout(BOUND, test).await.expect("within its time");
}

/// A process of the plain loop, gone with its handle.
struct Plain(Child);

impl Plain {
    fn start(settings: &PlainLoop) -> Self {
        let settings = serde_json::to_string(settings).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "kafka::versus::plain_loop", "--ignored"]).env(PLAIN_LOOP, settings);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test, but what [`Plain`] is: this binary with a task to do.
#[test]
#[ignore = "a process of the test below"]
fn plain_loop() {
    if let Ok(settings) = std::env::var(PLAIN_LOOP) {
        serde_json::from_str::<PlainLoop>(&settings).unwrap().run().unwrap();
    }
}

/// The same: what was posted and not committed is posted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_loops_that_are_killed_send_twice() {
    let test = async {
        let mut broker = KafkaBroker::alone().await;
        let topics = Topics::on(&broker, PARTITIONS as i32).await;
        write_all(&topics).await;
        let fake = FakeWeCom::start(options()).await.unwrap();
        chats(CHATS).iter().for_each(|chat| drop(fake.webhook(&key(chat), chat)));
        fake.hold(&key("c0"));
        let settings = PlainLoop {
            brokers: topics.brokers.clone(),
            topic: topics.tasks.clone(),
            group: topics.tasks.clone(),
            options: vec![("session.timeout.ms".into(), "2000".into()), ("heartbeat.interval.ms".into(), "300".into())],
            wecom: fake.base(),
            consumers: PARTITIONS / PROCESSES,
            commit_every: 1,
        };
        let mut processes: Vec<Plain> = (0..PROCESSES).map(|_| Plain::start(&settings)).collect();
        until_one_hangs(&fake).await;
        processes.clear();
        tokio::task::block_in_place(|| broker.kill());
        fake.release(&key("c0"));
        tokio::task::block_in_place(|| broker.start_again());
        processes.extend((0..PROCESSES).map(|_| Plain::start(&settings)));
        fake.until(|fake| fake.arrivals() > TASKS / 2).await;
        processes[0] = Plain::start(&settings);
        topics.until_done().await;
        let arrived = arrived(&fake);
        let tally = Tally::of(TASKS, &arrived, None);
        assert!(arrived["t0"] > 1 && tally.duplicates >= 1, "{tally:?}");
        assert_eq!(tally.lost, 0, "{tally:?}");
        drop(processes);
        fake.stop().await;
    };
    tokio::time::timeout(BOUND, test).await.expect("within its time");
}
