//! Kafka: one more way in for push tasks, and the way out for what was refused.
//!
//! `consumer` reads the topic and shares its partitions with the other gateways of the group; `partition` holds what was read of one,
//! `worker` hands it over, `batch` says how far it is done. `producer` writes, `dead_letter` what it writes of a refused task. `client` is
//! what both ends are made with; `outage` says when trouble is an alarm, `unwritable` of which topic it is, `presence` whether that is
//! there; `retention` asks how long the topic keeps what we remember.
//!
//! Nothing here decides whether a task was sent before: that is the barrier's (`store/pushes.rs`). So whatever is read twice, by a
//! replay, a rebalance or a crash, goes out once.

mod batch;
mod client;
mod consumer;
mod dead_letter;
mod handover;
mod outage;
mod partition;
mod presence;
mod producer;
mod results;
mod retention;
mod unwritable;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::BaseProducer;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::error;

use self::consumer::Group;
use self::handover::HandOver;
use self::producer::Producer;
use self::results::Reporter;
use self::worker::Worker;
use super::{Desk, HandOverError, KafkaFault, Retention, Task};
use crate::config::{Settings, settings};
use crate::records::Records;
use crate::stop::Stop;
use crate::store::SharedStore;
use crate::telemetry::{KafkaView, Telemetry};

/// How long a consumer that can't go on stays away before another takes its place.
const ANEW: Duration = Duration::from_secs(5);

/// This gateway's side of a cluster.
pub struct Kafka {
    settings: settings::Kafka,
    /// How long a task is remembered.
    keep: Duration,
    worker: Worker,
    reporter: Reporter,
    hand_over: Arc<HandOver>,
    view: Arc<KafkaView>,
}

/// Without the value, which may be a secret.
fn fault(error: KafkaError) -> KafkaFault {
    match error {
        KafkaError::ClientConfig(_, _, name, _) => KafkaFault(format!("librdkafka does not take {name} as it is")),
        other => KafkaFault(other.to_string()),
    }
}

impl Kafka {
    /// What `[kafka]` says, where it is there. Connects by itself, now and whenever it must.
    ///
    /// # Errors
    /// What librdkafka does not take of the configuration.
    pub fn open(
        settings: &Settings,
        desk: Arc<Desk>,
        kept: (SharedStore, Records),
        telemetry: &Telemetry,
    ) -> Result<Option<Self>, KafkaFault> {
        let Some(kafka) = settings.kafka.clone() else { return Ok(None) };
        let producer = Arc::new(Producer::new(&kafka, &telemetry.alarms).map_err(fault)?);
        // A consumer refuses what is wrong as a producer does, but for what is its own.
        client::try_consumer(&kafka).map_err(fault)?;
        let dead_letter_topic = kafka.dead_letter_topic.as_str().into();
        let worker = Worker { desk, producer, dead_letter_topic, telemetry: telemetry.clone() };
        let (store, records) = kept;
        let reporter = Reporter { store, records, topic: kafka.results_topic.clone() };
        let hand_over = Arc::new(HandOver::new(&kafka));
        let (keep, view) = (settings.push.keep, Arc::default());
        Ok(Some(Self { settings: kafka, keep, worker, reporter, hand_over, view }))
    }

    /// Whether librdkafka takes what `[kafka]` says; asks no broker.
    ///
    /// # Errors
    /// What it does not take.
    pub fn check(settings: &Settings) -> Result<(), KafkaFault> {
        let Some(kafka) = &settings.kafka else { return Ok(()) };
        client::producer(kafka)
            .create::<BaseProducer>()
            .map(drop)
            .and_then(|()| client::try_consumer(kafka))
            .map_err(fault)
    }

    /// Asks the brokers how long they keep the tasks; `None` without `[kafka]`.
    ///
    /// # Errors
    /// They don't say, or nobody lets us ask.
    pub async fn retention(settings: &Settings) -> Option<Result<Retention, KafkaFault>> {
        Some(retention::ask(settings.kafka.as_ref()?, settings.push.keep).await)
    }

    /// How things stand, for `/readyz` and `/metrics`.
    pub fn view(&self) -> Arc<KafkaView> {
        self.view.clone()
    }

    /// Writes tasks, each with its JSON, to the topic: all of them or none.
    ///
    /// # Errors
    /// [`HandOverError`]; the same call again is no second send.
    pub async fn hand_over(&self, tasks: Vec<(Task, Vec<u8>)>) -> Result<(), HandOverError> {
        let hand_over = self.hand_over.clone();
        // Whoever asked may go: a transaction is seen through.
        let written = tokio::spawn(async move { hand_over.write(tasks).await }).await;
        written.unwrap_or_else(|error| Err(HandOverError::Unknown(error.to_string())))
    }

    /// Reads tasks and writes results until it is stopped.
    pub async fn run(&self, stop: Stop) {
        let ask = retention::warn_if_longer(&self.settings, self.keep);
        let Worker { producer, telemetry, .. } = &self.worker;
        let report = self.reporter.run(producer, &telemetry.metrics, &stop.draining);
        tokio::join!(stop.draining.run_until_cancelled(ask), self.read(&stop), report);
        self.worker.telemetry.health.done(consumer::NAME);
    }

    async fn read(&self, stop: &Stop) {
        while !stop.draining.is_cancelled() {
            let (settings, worker, view) = (self.settings.clone(), self.worker.clone(), self.view.clone());
            let runtime = Handle::current();
            let read = move |stop| {
                let health = worker.telemetry.health.clone();
                consumer::read(&settings, Group::new(&settings, worker, view, runtime, stop), &health)
            };
            match on_a_thread(stop, read).await {
                Ok(()) => {}
                Err(error) => {
                    error!(%error, "the Kafka consumer can't go on; another takes its place");
                    stop.draining.run_until_cancelled(tokio::time::sleep(ANEW)).await;
                }
            }
        }
    }
}

/// Reads on a thread that outlives nobody's patience: where it does not end in time, the process does not wait for it; and where nobody
/// waits for it any more, it is told to stop, for another may begin.
async fn on_a_thread(stop: &Stop, read: impl FnOnce(Stop) -> KafkaResult<()> + Send + 'static) -> KafkaResult<()> {
    let draining = stop.draining.child_token();
    let _unless_awaited = draining.clone().drop_guard();
    let its_stop = Stop { draining, cut: stop.cut.clone() };
    let (ended, end) = oneshot::channel();
    let thread = std::thread::Builder::new().name(consumer::NAME.into()).spawn(move || {
        // Nobody listens any more once the gateway has stopped waiting.
        let _ = ended.send(read(its_stop));
    });
    let failed = |why: String| KafkaError::ClientCreation(why);
    thread.map_err(|error| failed(format!("no thread for it: {error}")))?;
    end.await.unwrap_or_else(|_| Err(failed("its thread panicked".into())))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_nobody_waits_for_stops() {
        let (stop, runtime) = (Stop::default(), Handle::current());
        let (stops, stopped) = mpsc::channel();
        let read = move |stop: Stop| {
            runtime.block_on(stop.draining.cancelled());
            stops.send(()).unwrap();
            Ok(())
        };
        assert!(on_a_thread(&stop, read).now_or_never().is_none(), "it reads");
        stopped.recv_timeout(Duration::from_secs(60)).expect("it stops");
        assert!(!stop.draining.is_cancelled(), "the gateway does not");
    }
}
