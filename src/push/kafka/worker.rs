//! The worker of one partition: reads tasks, hands them to their lanes by the desk, writes letters for those that are refused.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rand::RngExt;
use rdkafka::Message;
use rdkafka::message::OwnedMessage;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::batch::Batch;
use super::dead_letter;
use super::partition::Partition;
use super::producer::Producer;
use crate::push::{Desk, Source};
use crate::store::{self, Outage};
use crate::telemetry::Telemetry;

/// Tasks that are handed over at once.
const BATCH: usize = 256;
/// The first pause of a partition that can't go on, and the longest.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// … and that of one whose worker panicked.
const ANEW: Duration = Duration::from_secs(5);

/// What the workers of all partitions share.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) desk: Arc<Desk>,
    pub(super) producer: Arc<Producer>,
    pub(super) dead_letter_topic: Arc<str>,
    pub(super) telemetry: Telemetry,
}

/// How long a partition has waited for room in a lane, or for its letters' topic.
#[derive(Debug, Default)]
struct Stuck {
    /// Rounds without progress.
    rounds: u32,
    /// What was left after the last one.
    left: usize,
}

impl Stuck {
    /// How long to wait, with `left` of a batch not done.
    fn pause(&mut self, partition: i32, left: usize) -> Duration {
        if self.left == 0 {
            info!(partition, left, "a partition waits: a lane or the store is full, or letters can't be written");
        }
        self.rounds = if self.left == left { self.rounds.saturating_add(1) } else { 0 };
        self.left = left;
        let pause = FIRST.saturating_mul(1 << self.rounds.min(6)).min(LONGEST);
        pause.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

/// Works until `stop`, over and over: a partition whose worker is gone would wait for ever, and nobody would know.
async fn anew_after_panics<F: Future<Output = ()>>(
    partition: &Partition,
    stop: &CancellationToken,
    work: impl Fn() -> F,
) {
    while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
        error!(partition = partition.number, "the worker of a partition panicked; it begins again at what is not done");
        partition.again();
        stop.run_until_cancelled(tokio::time::sleep(ANEW)).await;
    }
}

impl Worker {
    /// Works a partition until `stop`; what is handed over then is handed over whole. A panic ends only what was begun.
    pub(super) async fn run(self, partition: Arc<Partition>, stop: CancellationToken) {
        anew_after_panics(&partition, &stop, || self.work(&partition, &stop)).await;
    }

    async fn work(&self, partition: &Partition, stop: &CancellationToken) {
        while let Some(records) = stop.run_until_cancelled(partition.take(BATCH)).await {
            self.own(partition, records, stop).await;
        }
    }

    /// Sees to it that each record has an owner or a letter, as long as that takes.
    async fn own(&self, partition: &Partition, records: Vec<Arc<OwnedMessage>>, stop: &CancellationToken) {
        let mut batch = Batch::read(records, |json| self.desk.read(json));
        let (mut outage, mut stuck) = (Outage::new("push"), Stuck::default());
        while !stop.is_cancelled() {
            let taken = self.hand_over(&mut batch).await;
            self.write_letters(&mut batch, stuck.left == 0).await;
            partition.done(batch.next(), batch.left());
            let Telemetry { metrics, alarms, .. } = &self.telemetry;
            match taken {
                Err(error) => drop(stop.run_until_cancelled(outage.wait(&error, metrics, alarms)).await),
                Ok(()) if batch.left() == 0 => return outage.over(),
                Ok(()) => {
                    outage.over();
                    let pause = stuck.pause(partition.number, batch.left());
                    stop.run_until_cancelled(tokio::time::sleep(pause)).await;
                }
            }
        }
    }

    async fn hand_over(&self, batch: &mut Batch) -> store::Result<()> {
        let source = |record: &OwnedMessage| Source::Kafka {
            topic: record.topic().to_owned(),
            partition: record.partition(),
            offset: record.offset(),
        };
        let tasks: Vec<_> = batch.open().map(|(task, record)| (task.clone(), source(record))).collect();
        if !tasks.is_empty() {
            batch.taken(self.desk.take(tasks).await?);
        }
        Ok(())
    }

    /// `is_first`: what can't be written was not told of yet.
    async fn write_letters(&self, batch: &mut Batch, is_first: bool) {
        let refused: Vec<_> = batch.refused().collect();
        let written = dead_letter::write(&self.producer, &self.dead_letter_topic, &refused).await;
        let failed =
            refused.iter().zip(&written).find_map(|((record, _), written)| Some((record, written.as_ref().err()?)));
        if let Some((record, why)) = failed.filter(|_| is_first) {
            let (topic, partition, offset) = (record.topic(), record.partition(), record.offset());
            let letter = &*self.dead_letter_topic;
            warn!(topic, partition, offset, letter, %why, "the letter of a refused task can't be written, its partition waits");
        }
        let written: Vec<bool> = written.iter().map(Result::is_ok).collect();
        let letters = written.iter().filter(|is_written| **is_written);
        letters.for_each(|_| self.telemetry.metrics.task("kafka", "dead_letter"));
        batch.written(written);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rdkafka::message::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_worker_panicked_over_is_worked_again() {
        let (partition, stop) = (Partition::new(0), CancellationToken::new());
        for offset in 0..4 {
            let record = OwnedMessage::new(None, None, "t".into(), Timestamp::NotAvailable, 0, offset, None);
            partition.put(record, 9, Duration::from_millis(1));
        }
        let taken: Mutex<Vec<Vec<i64>>> = Mutex::default();
        anew_after_panics(&partition, &stop, || async {
            let records = partition.take(3).await;
            taken.lock().unwrap().push(records.iter().map(|record| record.offset()).collect());
            partition.done(1, 2);
            let is_first = taken.lock().unwrap().len() == 1;
            assert!(!is_first, "no input is known that does this");
        })
        .await;
        assert_eq!(*taken.lock().unwrap(), [[0, 1, 2], [1, 2, 3]]);
    }
}
