//! One run over all tasks: they are written, consumers start, and everything is waited for; a rough one has blows in between.

use std::time::{Duration, Instant};

use anyhow::bail;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use wecom_gateway::sim::{FakeWeCom, Options, Rate};

use crate::consumers::{Consumers, Way};
use crate::kafka_broker::KafkaBroker;
use crate::process::{cpu_of, own_cpu};
use crate::tally::{Arrived, Tally, Told};
use crate::tasks::{chats, of_text, tasks};
use crate::topics::Topics;

/// Of the topic; the plain loop can have no more requests under way.
pub const PARTITIONS: usize = 8;
/// Of a rough run: each is killed once.
pub const PROCESSES: usize = 3;
/// How long a robot takes to answer.
pub const LATENCY: Duration = Duration::from_millis(20);
/// How long the broker is away.
pub const AWAY: Duration = Duration::from_secs(2);
/// Between two looks at what arrived.
const LOOK: Duration = Duration::from_millis(5);
/// No run takes longer.
const BOUND: Duration = Duration::from_secs(600);
/// What a robot may send.
const RATE: Rate = Rate { limit: 20, window: Duration::from_secs(60) };

/// Which run.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    pub way: Way,
    pub processes: usize,
    pub tasks: usize,
    pub is_rough: bool,
}

/// What it brought.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub tasks: usize,
    /// From the first arrival to the last of a calm run.
    pub took: Duration,
    /// Of consumers, Redis, broker, and the fake with what watches it: until everything was told and committed.
    pub cpu: Cpu,
    pub tally: Tally,
}

/// CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    pub consumers: Duration,
    pub redis: Duration,
    pub broker: Duration,
    pub fake: Duration,
}

impl Run {
    /// Tasks a second.
    pub fn rate(&self) -> f64 {
        self.tasks as f64 / self.took.as_secs_f64()
    }
}

/// What is done to a rough run, once so many hundredths of the tasks arrived.
const BLOWS: [(usize, Blow); 4] =
    [(20, Blow::Kill(0)), (40, Blow::RestartBroker), (60, Blow::Kill(1)), (80, Blow::Kill(2))];

#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill(usize),
    RestartBroker,
}

/// Runs it to its end.
pub async fn run(broker: &mut KafkaBroker, course: Course) -> anyhow::Result<Run> {
    match timeout(BOUND, runs(broker, course)).await {
        Ok(run) => run,
        Err(_) => bail!("not done in {} s", BOUND.as_secs()),
    }
}

async fn runs(broker: &mut KafkaBroker, course: Course) -> anyhow::Result<Run> {
    let Course { way, processes, tasks: count, is_rough } = course;
    let fake = FakeWeCom::start(Options { latency: LATENCY, rate: Some(RATE), ..Options::default() }).await?;
    let topics = Topics::on(broker, i32::try_from(PARTITIONS)?).await;
    for (partition, tasks) in (0..).zip(tasks(count, PARTITIONS)) {
        topics.write(partition, &tasks).await;
    }
    let (broker_before, own_before) = (broker_cpu(broker)?, own_cpu()?);
    let mut consumers = Consumers::start(way, processes, &fake, &chats(count), &topics)?;
    let took = watch(course, &fake, broker, &mut consumers).await?;
    let told = match way {
        Way::Plain { .. } => None,
        Way::Gateway { .. } => Some(told(&topics, count).await?),
    };
    topics.until_done().await;
    let cpu = Cpu {
        consumers: consumers.cpu()?,
        redis: consumers.redis_cpu()?,
        // One that was started anew counts from there.
        broker: if is_rough { Duration::ZERO } else { broker_cpu(broker)? - broker_before },
        fake: own_cpu()? - own_before,
    };
    drop(consumers);
    let mut arrived = Arrived::new();
    fake.arrived().iter().for_each(|sent| *arrived.entry(of_text(&sent.text).to_owned()).or_default() += 1);
    let tally = Tally::of(count, &arrived, told.as_ref());
    Ok(Run { tasks: count, took, cpu, tally })
}

/// Watches what arrives, and deals the blows; answers how long it took from the first to the last, or until no more was to be waited for here.
async fn watch(
    course: Course,
    fake: &FakeWeCom,
    broker: &mut KafkaBroker,
    consumers: &mut Consumers,
) -> anyhow::Result<Duration> {
    let blows: &[(usize, Blow)] = if course.is_rough { &BLOWS } else { &[] };
    // Duplicates arrive, too, and what is unknown need not: a rough run is over with its last blow, and what follows is waited for.
    let enough = if course.is_rough { course.tasks * 9 / 10 } else { course.tasks };
    let (mut blows, mut first) = (blows.iter().peekable(), None);
    loop {
        let arrived = fake.arrivals();
        if arrived > 0 {
            first.get_or_insert_with(Instant::now);
        }
        if let Some((_, blow)) = blows.next_if(|(share, _)| arrived * 100 >= share * course.tasks) {
            match blow {
                Blow::Kill(place) => consumers.kill(*place)?,
                Blow::RestartBroker => {
                    tokio::task::block_in_place(|| broker.kill());
                    sleep(AWAY).await;
                    tokio::task::block_in_place(|| broker.start_again());
                }
            }
        }
        if arrived >= enough {
            return Ok(first.map_or(Duration::ZERO, |first| first.elapsed()));
        }
        consumers.run_on()?;
        sleep(LOOK).await;
    }
}

/// What the topic of results tells of each task, once it tells of all.
async fn told(topics: &Topics, count: usize) -> anyhow::Result<Told> {
    let (brokers, topic) = (topics.brokers.clone(), topics.results());
    let read = move || -> anyhow::Result<Told> {
        // Only a member of some group may be given partitions.
        let config = ClientConfig::new().set("bootstrap.servers", brokers).set("group.id", "readers").clone();
        let consumer: BaseConsumer = config.create()?;
        let mut from = TopicPartitionList::new();
        from.add_partition_offset(&topic, 0, Offset::Beginning)?;
        consumer.assign(&from)?;
        let (mut told, began) = (Told::new(), Instant::now());
        while told.len() < count {
            if began.elapsed() > BOUND {
                bail!("{} of {count} tasks were told of", told.len());
            }
            let Some(Ok(record)) = consumer.poll(LOOK) else { continue };
            let result: Value = serde_json::from_slice(record.payload().unwrap_or_default())?;
            let word = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
            told.insert(word("task_id"), word("state"));
        }
        Ok(told)
    };
    tokio::task::spawn_blocking(read).await?
}

fn broker_cpu(broker: &KafkaBroker) -> anyhow::Result<Duration> {
    broker.pid().map_or(Ok(Duration::ZERO), |pid| cpu_of(&pid.to_string()))
}
