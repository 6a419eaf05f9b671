//! The idempotent producer of this process: letters and results go by it. A record counts as written once all replicas in sync
//! have it; one whose answer got lost is repeated by librdkafka and stored once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use rdkafka::statistics::Statistics;
use rdkafka::util::Timeout;

use super::client::{self, Link};
use super::presence::Presence;
use super::unwritable::Unwritable;
use crate::alarms::Alarms;
use crate::config::settings::Kafka;

/// See the module.
pub(super) struct Producer {
    kafka: Kafka,
    link: Arc<Link>,
    unwritable: Unwritable,
    presence: Presence,
    current: Mutex<FutureProducer<Context>>,
}

/// A record to write.
pub(super) struct Record<'r> {
    /// Where.
    pub(super) topic: &'r str,
    /// What keeps its order.
    pub(super) key: Option<&'r [u8]>,
    /// What it says.
    pub(super) value: Option<&'r [u8]>,
    /// What else it says.
    pub(super) headers: OwnedHeaders,
}

/// Why a record was not written, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unwritten {
    /// The topic takes none so large.
    #[error("the topic takes no record so large (max.message.bytes)")]
    TooLarge,
    /// For now.
    #[error("{0}")]
    Trouble(String),
}

/// Tells of a producer's trouble.
pub(super) struct Context(pub(super) Arc<Link>);

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        client::log(level, facility, line);
    }

    fn stats(&self, statistics: Statistics) {
        self.0.look(&statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.fails(&error, reason);
    }
}

impl Producer {
    /// Connects by itself, now and whenever it must.
    ///
    /// # Errors
    /// What librdkafka does not take of the configuration.
    pub(super) fn new(kafka: &Kafka, alarms: &Alarms) -> KafkaResult<Self> {
        let unwritable = Unwritable::new(alarms.clone());
        let link = Arc::new(Link::new("producer"));
        let (current, presence) = (Mutex::new(connect(kafka, &link)?), Presence::default());
        Ok(Self { kafka: kafka.clone(), link, unwritable, presence, current })
    }

    /// Writes a record; answers once it is there.
    pub(super) async fn write(&self, record: Record<'_>) -> Result<(), Unwritten> {
        let Record { topic, key, value, headers } = record;
        let mut record = FutureRecord::<[u8], [u8]>::to(topic).headers(headers);
        (record.key, record.payload) = (key, value);
        let producer = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match producer.send(record, Timeout::Never).await {
            Ok(_) => {
                self.link.writes();
                self.unwritable.takes(topic, Instant::now());
                Ok(())
            }
            Err((error, _)) if is_too_large(&error) => Err(Unwritten::TooLarge),
            Err((error, _)) => {
                let why = self.presence.why(&producer, &error, topic).await;
                self.link.write_fails(&error, topic, &why);
                self.unwritable.fails(topic, &why, Instant::now());
                self.replace(&producer);
                Err(Unwritten::Trouble(why))
            }
        }
    }

    /// A topic takes not even the least that can be written to it.
    pub(super) fn is_too_small(&self, topic: &str) {
        self.unwritable.fails(topic, &Unwritten::TooLarge.to_string(), Instant::now());
    }

    /// One that lost its place in the sequence of what it wrote can't go on: another takes over.
    fn replace(&self, broken: &FutureProducer<Context>) {
        if broken.client().fatal_error().is_none() {
            return;
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = current.client().native_ptr() == broken.client().native_ptr();
        if is_current && let Ok(next) = connect(&self.kafka, &self.link) {
            *current = next;
        }
    }
}

/// Whether the same record would be refused again, because of its size.
pub(super) fn is_too_large(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{MessageBatchTooLarge, MessageSizeTooLarge};
    matches!(error.rdkafka_error_code(), Some(MessageSizeTooLarge | MessageBatchTooLarge))
}

fn connect(kafka: &Kafka, link: &Arc<Link>) -> KafkaResult<FutureProducer<Context>> {
    client::producer(kafka).create_with_context(Context(link.clone()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;
    use crate::model::Secret;
    use crate::telemetry::Metrics;

    /// What waits for an answer takes a thread of those that all of the process share.
    #[test]
    fn an_outage_takes_one_thread_however_much_is_to_be_written() {
        let threads = Arc::new(AtomicUsize::new(0));
        let count = threads.clone();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().on_thread_start(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        runtime.build().unwrap().block_on(async {
            let options = [("message.timeout.ms".to_owned(), Secret::new("100"))].into_iter().collect();
            let kafka = Kafka { options, ..client::tests::kafka() };
            let producer = Producer::new(&kafka, &Alarms::unheard(Arc::new(Metrics::default()))).unwrap();
            let record = || Record { topic: "t", key: None, value: Some(b"v"), headers: OwnedHeaders::new() };
            let written = join_all((0..50).map(|_| producer.write(record()))).await;
            assert!(written.iter().all(|written| matches!(written, Err(Unwritten::Trouble(_)))), "{written:?}");
        });
        assert_eq!(threads.load(Ordering::Relaxed), 1);
    }
}
