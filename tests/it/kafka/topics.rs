//! Topics of a test's own on a broker, and what producers and operators of Kafka do with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};
use wecom_gateway::sim::Scenario;

use crate::kafka_broker::KafkaBroker;

/// A broker has so long to answer.
const ANSWERS: Duration = Duration::from_secs(30);
/// Numbers topics.
static TOPICS: AtomicU32 = AtomicU32::new(0);

/// A topic of tasks and those beside it; its group is named after it.
pub struct Topics {
    pub brokers: String,
    pub tasks: String,
    partitions: i32,
}

impl Topics {
    /// With so many partitions of tasks, on the broker that all share.
    pub async fn new(partitions: i32) -> (Arc<KafkaBroker>, Self) {
        let broker = KafkaBroker::shared().await;
        let topics = Self::on(&broker, partitions).await;
        (broker, topics)
    }

    /// On this broker.
    pub async fn on(broker: &KafkaBroker, partitions: i32) -> Self {
        let tasks = format!("tasks{}", TOPICS.fetch_add(1, Ordering::Relaxed));
        let topics = Self { brokers: broker.address(), partitions, tasks };
        broker.create_topics(&[&topics.tasks], partitions).await;
        broker.create_topics(&[&topics.dead(), &topics.results()], 1).await;
        topics
    }

    /// Where refused tasks go.
    pub fn dead(&self) -> String {
        format!("{}.dead", self.tasks)
    }

    /// Where results go.
    pub fn results(&self) -> String {
        format!("{}.results", self.tasks)
    }

    /// A gateway that reads them; what dies is noticed within two seconds.
    pub fn read_by(&self, scenario: Scenario) -> Scenario {
        self.section().into_iter().fold(scenario, |scenario, (key, value)| scenario.set("kafka", key, value))
    }

    /// The keys of `[kafka]`.
    pub fn section(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("brokers", self.brokers.clone().into()),
            ("topic", self.tasks.clone().into()),
            ("results_topic", self.results().into()),
            ("group", self.tasks.clone().into()),
            (
                "options",
                json!({"session.timeout.ms": 2000, "heartbeat.interval.ms": 300, "auto.commit.interval.ms": 100}),
            ),
        ]
    }

    /// Writes tasks to a partition, in their order.
    pub async fn write(&self, partition: i32, tasks: &[Value]) {
        let bytes: Vec<Vec<u8>> = tasks.iter().map(|task| task.to_string().into_bytes()).collect();
        self.write_bytes(partition, &bytes).await;
    }

    /// Writes records to a partition, in their order.
    pub async fn write_bytes(&self, partition: i32, values: &[Vec<u8>]) {
        let producer: FutureProducer = self.client().set("enable.idempotence", "true").create().unwrap();
        self.write_by(&producer, partition, values).await;
    }

    /// Writes a record with a header to the first partition, as large as its topic takes.
    pub async fn write_record(&self, key: &[u8], header: &[u8], value: &[u8]) {
        let producer: FutureProducer = self.client().set("message.max.bytes", "2000000").create().unwrap();
        let headers = OwnedHeaders::new().insert(Header { key: "theirs", value: Some(header) });
        let record = FutureRecord::to(&self.tasks).partition(0).key(key).headers(headers).payload(value);
        producer.send(record, Timeout::Never).await.unwrap_or_else(|(error, _)| panic!("not written: {error}"));
    }

    /// Writes tasks in one transaction, and commits or aborts it.
    pub async fn write_in_transaction(&self, partition: i32, tasks: &[Value], commit: bool) {
        let producer: FutureProducer = self.client().set("transactional.id", &self.tasks).create().unwrap();
        let bytes: Vec<Vec<u8>> = tasks.iter().map(|task| task.to_string().into_bytes()).collect();
        blocking(&producer, |producer| producer.init_transactions(ANSWERS)).await;
        producer.begin_transaction().unwrap();
        self.write_by(&producer, partition, &bytes).await;
        match commit {
            true => blocking(&producer, |producer| producer.commit_transaction(ANSWERS)).await,
            false => blocking(&producer, |producer| producer.abort_transaction(ANSWERS)).await,
        }
    }

    async fn write_by(&self, producer: &FutureProducer, partition: i32, values: &[Vec<u8>]) {
        let send = |value| {
            let record = FutureRecord::to(&self.tasks).partition(partition).payload(value).key("key");
            producer.send(record, Timeout::Never)
        };
        // Each is queued when it is first polled: in order.
        for written in futures_util::future::join_all(values.iter().map(send)).await {
            written.unwrap_or_else(|(error, _)| panic!("not written: {error}"));
        }
    }

    /// The first `count` records of a topic with one partition; waits for them.
    pub async fn read(&self, topic: String, count: usize) -> Vec<OwnedMessage> {
        let mut config = self.client();
        let read = move || {
            // Only a member of some group may be given partitions.
            let consumer: BaseConsumer = config.set("group.id", "readers").create().unwrap();
            let mut from = TopicPartitionList::new();
            from.add_partition_offset(&topic, 0, Offset::Beginning).unwrap();
            consumer.assign(&from).unwrap();
            let next = || consumer.poll(ANSWERS).expect("a record").expect("no error").detach();
            (0..count).map(|_| next()).collect()
        };
        blocking_call(read).await
    }

    /// Whether the group has done everything that is written: nothing would be read again.
    pub async fn is_done(&self) -> bool {
        for partition in 0..self.partitions {
            let (config, tasks) = (self.client(), self.tasks.clone());
            let ends = blocking_call(move || {
                let consumer: BaseConsumer = config.create().unwrap();
                consumer.fetch_watermarks(&tasks, partition, ANSWERS).unwrap()
            });
            let (_, end) = ends.await;
            if end > 0 && self.committed(partition).await != Some(end) {
                return false;
            }
        }
        true
    }

    /// Where the group would begin in a partition; `None`: it has done nothing of it.
    pub async fn committed(&self, partition: i32) -> Option<i64> {
        let (config, tasks, partitions) = (self.of_group(), self.tasks.clone(), self.partitions);
        blocking_call(move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let committed = consumer.committed_offsets(all(&tasks, partitions, Offset::Invalid), ANSWERS).unwrap();
            committed.find_partition(&tasks, partition).unwrap().offset().to_raw().filter(|offset| *offset >= 0)
        })
        .await
    }

    /// Waits until that is so.
    pub async fn until_committed(&self, partition: i32, offset: i64) {
        let mut again = tokio::time::interval(Duration::from_millis(50));
        while self.committed(partition).await != Some(offset) {
            again.tick().await;
        }
    }

    /// Waits until [`Topics::is_done`].
    pub async fn until_done(&self) {
        let mut again = tokio::time::interval(Duration::from_millis(50));
        while !self.is_done().await {
            again.tick().await;
        }
    }

    /// Makes the group, which must have no member, begin at the first task again.
    pub async fn rewind(&self) {
        let (config, tasks, partitions) = (self.of_group(), self.tasks.clone(), self.partitions);
        blocking_call(move || {
            let consumer: BaseConsumer = config.create().unwrap();
            consumer.commit(&all(&tasks, partitions, Offset::Offset(0)), CommitMode::Sync).unwrap();
        })
        .await;
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    fn of_group(&self) -> ClientConfig {
        let mut config = self.client();
        config.set("group.id", &self.tasks).set("enable.auto.commit", "false");
        config
    }
}

fn all(topic: &str, partitions: i32, offset: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    (0..partitions).for_each(|partition| list.add_partition_offset(topic, partition, offset).unwrap());
    list
}

async fn blocking(
    producer: &FutureProducer,
    call: impl FnOnce(&FutureProducer) -> rdkafka::error::KafkaResult<()> + Send + 'static,
) {
    let producer = producer.clone();
    blocking_call(move || call(&producer).expect("the transaction's coordinator")).await;
}

/// librdkafka's own calls wait on the thread.
async fn blocking_call<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(call).await.expect("no panic")
}
