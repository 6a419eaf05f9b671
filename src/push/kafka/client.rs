//! What every client of the cluster is made with, and how it tells of trouble.
//!
//! The order is: what we think good, what the operator wrote under `options`, what the promises stand on. librdkafka repeats itself
//! while brokers are away; here each change is said once.

use std::sync::{Mutex, PoisonError};

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;
use tracing::{debug, info, warn};

use crate::config::settings::Kafka;

/// Between two looks at the state of connections and partitions.
const STATISTICS_MS: &str = "1000";

/// A client that reads tasks.
pub(super) fn consumer(kafka: &Kafka) -> ClientConfig {
    // What librdkafka reads ahead of us, in KiB: a task is small, and its own 64 MiB are much for a gateway. A topic that is made
    // later, or gets more partitions, is found within half a minute instead of five.
    let good = [("queued.max.messages.kbytes", "16384"), ("topic.metadata.refresh.interval.ms", "30000")];
    let ours = [
        ("group.id", kafka.group.as_str()),
        ("auto.offset.reset", "earliest"),
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("isolation.level", "read_committed"),
        // It commits what we stored, and we store what is owned.
        ("enable.auto.commit", "true"),
        ("enable.auto.offset.store", "false"),
    ];
    client(kafka, &good, &ours)
}

/// A client that writes: each record once and in order, on all replicas before it counts.
pub(super) fn producer(kafka: &Kafka) -> ClientConfig {
    // Letters are as large as what came, which was not our choice. What is not written soon is given back, to be tried anew
    // by whoever wants it written: nothing of this waits longer than a partition may take to change hands.
    let good = [
        ("message.max.bytes", "16777216"),
        ("message.timeout.ms", "5000"),
        // What a process that died left open holds up its readers for so long.
        ("transaction.timeout.ms", "10000"),
        ("compression.type", "lz4"),
    ];
    client(kafka, &good, &[("enable.idempotence", "true"), ("acks", "all")])
}

/// A client that only asks.
pub(super) fn inquirer(kafka: &Kafka) -> ClientConfig {
    client(kafka, &[], &[])
}

fn client(kafka: &Kafka, good: &[(&str, &str)], ours: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    config.set("client.id", "wecom-gateway").set("statistics.interval.ms", STATISTICS_MS);
    // The OpenSSL within knows nothing of where this system keeps its certificates.
    config.set("ssl.ca.location", "probe");
    let options = kafka.options.iter().map(|(name, value)| (name.as_str(), value.expose()));
    for (name, value) in good.iter().copied().chain(options).chain(ours.iter().copied()) {
        config.set(name, value);
    }
    config.set("bootstrap.servers", &kafka.brokers);
    config
}

/// What a client of ours is in trouble with.
#[derive(Debug)]
pub(super) struct Link {
    /// Which client, for logs.
    client: &'static str,
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// What was said last; `None`: all is well.
    said: Option<RDKafkaErrorCode>,
    /// What librdkafka told of a single broker: the reason behind "all brokers are down".
    detail: String,
}

impl Link {
    /// Of a client that has not tried yet.
    pub(super) fn new(client: &'static str) -> Self {
        Self { client, trouble: Mutex::default() }
    }

    /// Whether there is trouble now.
    pub(super) fn is_down(&self) -> bool {
        self.lock().said.is_some()
    }

    /// librdkafka reports an error.
    pub(super) fn fails(&self, error: &KafkaError, reason: &str) {
        let mut trouble = self.lock();
        let Some(code) = error.rdkafka_error_code() else { return };
        if is_of_one_broker(code) {
            debug!(client = self.client, %code, reason, "a Kafka broker");
            reason.clone_into(&mut trouble.detail);
        } else if trouble.said != Some(code) {
            trouble.said = Some(code);
            warn!(client = self.client, %code, reason, detail = trouble.detail, "Kafka does not do as asked; trying on");
        }
    }

    /// librdkafka tells of its connections: any that is up ends an outage; other trouble ends by what works.
    pub(super) fn look(&self, statistics: &Statistics) {
        if statistics.brokers.values().any(|broker| broker.nodeid >= 0 && broker.state == "UP") {
            self.ends(|code| code == RDKafkaErrorCode::AllBrokersDown);
        }
    }

    /// What was asked for works.
    pub(super) fn works(&self) {
        self.ends(|_| true);
    }

    fn ends(&self, is_over: impl Fn(RDKafkaErrorCode) -> bool) {
        let mut trouble = self.lock();
        if trouble.said.is_some_and(is_over) {
            *trouble = Trouble::default();
            info!(client = self.client, "Kafka does as asked again");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One broker may be away while the others serve: worth no word by itself.
fn is_of_one_broker(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::{BrokerTransportFailure, OperationTimedOut, Resolve};
    matches!(code, BrokerTransportFailure | OperationTimedOut | Resolve)
}

/// librdkafka's own log: what matters of it comes as errors, too.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, line: &str) {
    debug!(?level, facility, line, "librdkafka");
}
