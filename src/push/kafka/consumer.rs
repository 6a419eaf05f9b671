//! The consumer: reads the topic on a thread of its own and gives each partition to a worker.
//!
//! What always holds:
//!
//! - An offset is stored only when its task and every earlier one of the partition is owned by its lanes, or refused for good with its
//!   letter written. librdkafka commits what is stored.
//! - A partition that is taken from us, and every one at a stop, first finishes the hand-over that is under way; then what
//!   is done is committed, and whoever has it next begins there.
//! - A worker that can't go on (a lane or the store is full, the store or the letters' topic is away) holds up its own partition
//!   alone. Once it holds its share of `in_flight`, nothing more of it is fetched until half of that is done.
//!
//! The thread is one because librdkafka calls back from within a poll when partitions change hands, and that call must wait for
//! workers: a task of the runtime would block it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::statistics::{self, Statistics};
use rdkafka::{Message, Offset, TopicPartitionList};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::client::{self, Link};
use super::outage::{News, Outage};
use super::partition::Partition;
use super::worker::Worker;
use crate::alarms::{Alarm, Kind};
use crate::config::settings::Kafka;
use crate::config::units::show;
use crate::stop::Stop;
use crate::telemetry::{Health, KafkaView};

/// Its name among the loops.
pub(super) const NAME: &str = "kafka";
/// Between two looks at partitions, and at whether to stop.
const TEND: Duration = Duration::from_millis(100);
/// How long a full partition is waited for before nothing more of it is fetched: what librdkafka read ahead is lost then.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a hand-over that is under way may take when its partition changes hands.
const LEAVING: Duration = Duration::from_secs(10);

/// Reads until it is stopped; ends early only where librdkafka says that this consumer can't go on.
pub(super) fn read(kafka: &Kafka, group: Group, health: &Health) -> KafkaResult<()> {
    let stop = group.stop.clone();
    let consumer: BaseConsumer<Group> = client::consumer(kafka).create_with_context(group)?;
    consumer.subscribe(&[&kafka.topic])?;
    let mut next_look = Instant::now();
    while !stop.draining.is_cancelled() {
        match consumer.poll(TEND) {
            Some(Ok(record)) => consumer.context().put(&consumer, &record),
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => return Err(error),
            // Told by `ClientContext::error`, too.
            Some(Err(_)) | None => {}
        }
        if Instant::now() >= next_look {
            next_look = Instant::now() + TEND;
            health.tick(NAME);
            consumer.context().tend(&consumer);
        }
    }
    // Closing it gives all partitions up, by way of `pre_rebalance`, and leaves the group.
    drop(consumer);
    Ok(())
}

/// The partitions that are ours, as the group's members share them.
pub(super) struct Group {
    topic: String,
    in_flight: usize,
    worker: Worker,
    view: Arc<KafkaView>,
    link: Link,
    outage: Mutex<Outage>,
    runtime: Handle,
    stop: Stop,
    ours: Mutex<BTreeMap<i32, Worked>>,
}

/// A partition and who works it.
struct Worked {
    partition: Arc<Partition>,
    stop: CancellationToken,
    worker: JoinHandle<()>,
}

impl Group {
    /// None is ours yet. Workers run on `runtime`.
    pub(super) fn new(kafka: &Kafka, worker: Worker, view: Arc<KafkaView>, runtime: Handle, stop: Stop) -> Self {
        Self {
            topic: kafka.topic.clone(),
            in_flight: kafka.in_flight,
            worker,
            view,
            link: Link::new("consumer"),
            outage: Mutex::default(),
            runtime,
            stop,
            ours: Mutex::default(),
        }
    }

    /// Each partition's share of what may be in flight.
    fn room(&self, partitions: usize) -> usize {
        (self.in_flight / partitions.max(1)).max(1)
    }

    /// Gives a record to its partition's worker.
    fn put(&self, consumer: &BaseConsumer<Self>, record: &BorrowedMessage<'_>) {
        let (partition, room) = {
            let ours = self.ours();
            // None: it was read before its partition was taken from us.
            let Some(worked) = ours.get(&record.partition()) else { return };
            (worked.partition.clone(), self.room(ours.len()))
        };
        self.link.reads();
        if !partition.put(record.detach(), room, PATIENCE) {
            debug!(partition = partition.number, "a partition waits for its worker");
            self.say("pause", consumer.pause(&self.list([(partition.number, None)])));
        }
    }

    /// Stores what is done, goes on with what has room again, and shows how things stand.
    fn tend(&self, consumer: &BaseConsumer<Self>) {
        let ours = self.ours();
        let room = self.room(ours.len());
        let again = ours.values().filter(|worked| worked.partition.goes_on(room));
        let again = self.list(again.map(|worked| (worked.partition.number, None)));
        if again.count() > 0 {
            self.say("resume", consumer.resume(&again));
        }
        self.store(consumer, ours.values());
        let in_flight = ours.values().map(|worked| worked.partition.in_flight()).sum();
        self.view.read(ours.len(), in_flight, !self.link.is_down());
        self.tell();
    }

    /// Raises alarms of an outage that lasts, and of its end. The producers' troubles are none: what they could not write waits, or
    /// whoever asked for it was told.
    fn tell(&self) {
        let news = self.outage.lock().unwrap_or_else(PoisonError::into_inner).look(self.link.is_down(), Instant::now());
        let whole = |lasted: Duration| show(Duration::from_secs(lasted.as_secs()));
        let (kind, detail) = match news {
            None => return,
            Some(News::Lasts(lasts)) => (Kind::KafkaAway, format!("{}, {}", self.link.what(), whole(lasts))),
            Some(News::Over(lasted)) => (Kind::KafkaBack, whole(lasted)),
        };
        self.worker.telemetry.alarms.raise(Alarm::of_process(kind, &detail));
    }

    fn store<'w>(&self, consumer: &BaseConsumer<Self>, worked: impl Iterator<Item = &'w Worked>) {
        let moved = worked.filter_map(|worked| Some((worked.partition.number, Some(worked.partition.moved()?))));
        let moved = self.list(moved);
        if moved.count() > 0 {
            self.say("store_offsets", consumer.store_offsets(&moved));
        }
    }

    /// Begins to work partitions.
    fn take_on(&self, partitions: &TopicPartitionList) {
        let mut ours = self.ours();
        for number in numbers(partitions) {
            let (partition, stop) = (Arc::new(Partition::new(number)), CancellationToken::new());
            let work = self.worker.clone().run(partition.clone(), stop.clone());
            let worker = self.runtime.spawn(work);
            ours.insert(number, Worked { partition, stop, worker });
        }
        if partitions.count() > 0 {
            self.link.reads();
            info!(topic = self.topic, given = ?numbers(partitions), ours = ours.len(), "partitions are ours");
        }
    }

    /// Lets the workers of partitions finish what is under way, and stores how far they came.
    fn leave(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        let mut ours = self.ours();
        debug!(topic = self.topic, given_up = ?numbers(partitions), "partitions go; what is under way is finished");
        let mut leaving: Vec<Worked> = numbers(partitions).iter().filter_map(|number| ours.remove(number)).collect();
        drop(ours);
        leaving.iter().for_each(|worked| worked.stop.cancel());
        let ends = async {
            for worked in &mut leaving {
                // No error: it outlives its panics, and nobody aborted it yet.
                let _ = (&mut worked.worker).await;
            }
        };
        let in_time = async { tokio::time::timeout(LEAVING, ends).await.is_ok() };
        let in_time = self.runtime.block_on(self.stop.cut.run_until_cancelled(in_time)).unwrap_or(false);
        if !in_time {
            warn!(topic = self.topic, "a hand-over did not end in time; what it left half done is read again");
        }
        leaving.iter().for_each(|worked| worked.worker.abort());
        self.store(consumer, leaving.iter());
        // librdkafka keeps a pause for as long as it knows the partition: it would come back with it, and be read no more. That is ended
        // here and not once it is ours again, where this could overtake the start of its reading, which would then be dropped.
        self.say("resume", consumer.resume(&self.list(leaving.iter().map(|worked| (worked.partition.number, None)))));
        if !leaving.is_empty() {
            info!(topic = self.topic, taken = ?numbers(partitions), "partitions are ours no more");
        }
    }

    fn list(&self, partitions: impl IntoIterator<Item = (i32, Option<i64>)>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (number, offset) in partitions {
            let mut element = list.add_partition(&self.topic, number);
            // Fails for offsets that can't be: ours are those of records.
            offset.into_iter().for_each(|offset| drop(element.set_offset(Offset::Offset(offset))));
        }
        list
    }

    fn say(&self, verb: &'static str, result: KafkaResult<()>) {
        if let Err(error) = result {
            debug!(verb, %error, "a partition is ours no more");
        }
    }

    fn ours(&self) -> MutexGuard<'_, BTreeMap<i32, Worked>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn numbers(partitions: &TopicPartitionList) -> Vec<i32> {
    partitions.elements().iter().map(|element| element.partition()).collect()
}

/// How many records of a partition of ours are not done, as far as librdkafka knows. Up to the first transaction that is not
/// over; offsets that a transaction took for itself hold no record, so once all is read, what was read is counted.
fn lag(partition: &statistics::Partition, in_flight: usize) -> Option<u64> {
    let statistics::Partition { next_offset, ls_offset, fetchq_cnt, .. } = *partition;
    if next_offset >= ls_offset {
        return u64::try_from(fetchq_cnt).ok()?.checked_add(in_flight as u64);
    }
    let done = partition.stored_offset.max(partition.committed_offset).max(partition.lo_offset);
    u64::try_from(ls_offset - done).ok().filter(|_| done >= 0)
}

impl ClientContext for Group {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        client::log(level, facility, line);
    }

    fn stats(&self, statistics: Statistics) {
        self.link.look(&statistics);
        let Some(topic) = statistics.topics.get(&self.topic) else { return };
        let ours = self.ours();
        let lag = |(number, worked): (&i32, &Worked)| lag(topic.partitions.get(number)?, worked.partition.in_flight());
        self.view.lags(ours.iter().filter_map(lag).sum());
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.link.fails(&error, reason);
    }
}

impl ConsumerContext for Group {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Revoke(partitions) => self.leave(consumer, partitions),
            Rebalance::Assign(_) | Rebalance::Error(_) => {}
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(partitions) => self.take_on(partitions),
            Rebalance::Revoke(_) | Rebalance::Error(_) => {}
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            debug!(%error, "offsets were not committed; what is done is read again and passed over");
        }
    }
}
