//! The idempotent producer of this process: letters and results go by it. A record counts as written once all replicas in sync
//! have it; one whose answer got lost is repeated by librdkafka and stored once.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use rdkafka::statistics::Statistics;
use rdkafka::util::Timeout;

use super::client::{self, Link};
use crate::config::settings::Kafka;

/// See the module.
pub(super) struct Producer {
    kafka: Kafka,
    link: Arc<Link>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    /// The topic takes none so large.
    TooLarge,
    /// For now; the log says why.
    Trouble,
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
    pub(super) fn new(kafka: &Kafka) -> KafkaResult<Self> {
        let link = Arc::new(Link::new("producer"));
        Ok(Self { kafka: kafka.clone(), current: Mutex::new(connect(kafka, &link)?), link })
    }

    /// Writes a record; answers once it is there.
    pub(super) async fn write(&self, record: Record<'_>) -> Result<(), Unwritten> {
        let Record { topic, key, value, headers } = record;
        let mut record = FutureRecord::<[u8], [u8]>::to(topic).headers(headers);
        (record.key, record.payload) = (key, value);
        let producer = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match producer.send(record, Timeout::Never).await {
            Ok(_) => {
                self.link.works();
                Ok(())
            }
            Err((error, _)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
                Err(Unwritten::TooLarge)
            }
            Err((error, _)) => {
                self.link.fails(&error, topic);
                self.replace(&producer);
                Err(Unwritten::Trouble)
            }
        }
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

fn connect(kafka: &Kafka, link: &Arc<Link>) -> KafkaResult<FutureProducer<Context>> {
    client::producer(kafka).create_with_context(Context(link.clone()))
}
