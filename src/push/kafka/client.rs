//! What every client of the cluster is made with, and how it tells of trouble.
//!
//! The order is: what we think good, what the operator wrote under `options`, what the promises stand on. librdkafka repeats itself
//! while brokers are away; here each change is said once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;
use tracing::{debug, info, warn};

use crate::config::settings::Kafka;

/// Between two looks at the state of connections and partitions.
const STATISTICS_MS: &str = "1000";

/// A client that reads tasks.
pub(super) fn consumer(kafka: &Kafka) -> ClientConfig {
    // What librdkafka reads ahead of us, in KiB: a task is small, and its own 64 MiB are much for a gateway. A topic that is made
    // later, or gets more partitions, is found within half a minute instead of five.
    // A process that dies without a word holds its partitions for one session: librdkafka's own 45 s are long for a push.
    let good = [
        ("queued.max.messages.kbytes", "16384"),
        ("topic.metadata.refresh.interval.ms", "30000"),
        ("session.timeout.ms", "15000"),
    ];
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

/// Whether librdkafka makes a consumer of this: some of what is wrong it says only then. It joins no group.
///
/// # Errors
/// What it does not take.
pub(super) fn try_consumer(kafka: &Kafka) -> KafkaResult<()> {
    consumer(kafka).create::<BaseConsumer>().map(drop)
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
    config.set("client.id", "wecom-gateway");
    // The OpenSSL within knows nothing of where this system keeps its certificates.
    config.set("ssl.ca.location", "probe");
    let options = kafka.options.iter().map(|(name, value)| (name.as_str(), value.expose()));
    for (name, value) in good.iter().copied().chain(options).chain(ours.iter().copied()) {
        config.set(name, value);
    }
    // Without them no outage would end ([`Link::look`]).
    config.set("statistics.interval.ms", STATISTICS_MS);
    config.set("bootstrap.servers", &kafka.brokers);
    config
}

/// What a client of ours is in trouble with, if it is.
#[derive(Debug)]
pub(super) struct Link {
    /// Which client, for logs.
    client: &'static str,
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// What was said last; `None`: all is well.
    said: Option<Kind>,
    /// What it is, in librdkafka's words.
    what: String,
    /// What librdkafka told of a single broker: the reason behind "all brokers are down".
    detail: String,
}

/// Troubles that last, by what ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// No broker lets us in: ends with a connection.
    Connection,
    /// The topic or the group is not there, or not for us: ends with partitions, a record, or one written.
    Access,
    /// What was to be written was not: ends with what is.
    Write,
}

impl Kind {
    /// Of what librdkafka reports by itself; `None`: it passes by itself.
    fn of(code: RDKafkaErrorCode) -> Option<Self> {
        use RDKafkaErrorCode as Code;
        match code {
            Code::AllBrokersDown | Code::Authentication | Code::SSL | Code::SaslAuthenticationFailed => {
                Some(Self::Connection)
            }
            Code::UnknownTopicOrPartition
            | Code::UnknownTopic
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed => Some(Self::Access),
            _ => None,
        }
    }
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

    /// What the trouble is now, or was last.
    pub(super) fn what(&self) -> String {
        self.lock().what.clone()
    }

    /// librdkafka reports an error.
    pub(super) fn fails(&self, error: &KafkaError, reason: &str) {
        match error.rdkafka_error_code().and_then(Kind::of) {
            Some(kind) => {
                let what = if is_missing(error) { format!("the topic is not there ({reason})") } else { words(error) };
                self.say(kind, error, reason, what);
            }
            None => {
                debug!(client = self.client, %error, reason, "Kafka");
                reason.clone_into(&mut self.lock().detail);
            }
        }
    }

    /// What was to be written to a topic was not.
    pub(super) fn write_fails(&self, error: &KafkaError, topic: &str, why: &str) {
        let kind = error.rdkafka_error_code().and_then(Kind::of).unwrap_or(Kind::Write);
        self.say(kind, error, topic, why.to_owned());
    }

    /// librdkafka tells of its connections.
    pub(super) fn look(&self, statistics: &Statistics) {
        if statistics.brokers.values().any(|broker| broker.nodeid >= 0 && broker.state == "UP") {
            self.ends(Kind::Connection);
        }
    }

    /// There are partitions for us, or a record.
    pub(super) fn reads(&self) {
        self.ends(Kind::Access);
    }

    /// Something was written.
    pub(super) fn writes(&self) {
        [Kind::Connection, Kind::Access, Kind::Write].into_iter().for_each(|kind| self.ends(kind));
    }

    fn say(&self, kind: Kind, error: &KafkaError, reason: &str, what: String) {
        let mut trouble = self.lock();
        if trouble.said.replace(kind) != Some(kind) {
            let detail = &trouble.detail;
            warn!(client = self.client, %error, reason, what, detail, "Kafka does not do as asked; trying on");
            trouble.what = what;
        }
    }

    fn ends(&self, kind: Kind) {
        let mut trouble = self.lock();
        if trouble.said == Some(kind) {
            let what = std::mem::take(&mut trouble.what);
            *trouble = Trouble { what, ..Trouble::default() };
            info!(client = self.client, "Kafka does as asked again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What it says, without where it happened.
pub(super) fn words(error: &KafkaError) -> String {
    error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string())
}

/// Whether there is no such topic.
pub(super) fn is_missing(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{UnknownTopic, UnknownTopicOrPartition};
    matches!(error.rdkafka_error_code(), Some(UnknownTopic | UnknownTopicOrPartition))
}

/// librdkafka's own log: what matters of it comes as errors, too.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, line: &str) {
    debug!(?level, facility, line, "librdkafka");
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::Secret;

    #[test]
    fn a_session_is_short_unless_the_operator_says_otherwise() {
        let session = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
            consumer(&Kafka { options, ..kafka() }).get("session.timeout.ms").map(str::to_owned)
        };
        assert_eq!(session(&[]).as_deref(), Some("15000"));
        assert_eq!(session(&[("session.timeout.ms", "45000")]).as_deref(), Some("45000"));
    }

    /// What `check` takes, `serve` can use.
    #[test]
    fn what_no_consumer_can_be_made_of_is_refused() {
        assert_eq!(try_consumer(&kafka()).map_err(|error| error.to_string()), Ok(()));
        for (name, value, says) in [
            ("ssl.ca.location", "/nowhere", "ssl.ca.location"),
            ("max.poll.interval.ms", "1", "max.poll.interval.ms"),
            ("sasl.mechanism", "GSSAPI", "GSSAPI"),
        ] {
            let protocol = if name.starts_with("sasl") { "sasl_ssl" } else { "ssl" };
            let options = [(name, value), ("security.protocol", protocol)];
            let options = options.map(|(name, value)| (name.to_owned(), Secret::new(value))).into_iter().collect();
            let told =
                try_consumer(&Kafka { options, ..kafka() }).map_err(super::super::fault).unwrap_err().to_string();
            assert!(told.contains(says) && !told.contains('\n'), "{told}");
        }
    }

    /// Nothing is set, and no broker there.
    pub fn kafka() -> Kafka {
        let name = |text: &str| text.to_owned();
        Kafka {
            brokers: name("127.0.0.1:1"),
            topic: name("t"),
            results_topic: name("r"),
            dead_letter_topic: name("d"),
            group: name("g"),
            in_flight: 1,
            options: Default::default(),
        }
    }

    #[test]
    fn trouble_lasts_until_what_ends_it() {
        let link = Link::new("test");
        let global = KafkaError::Global;
        link.fails(&global(RDKafkaErrorCode::BrokerTransportFailure), "one of three");
        assert!(!link.is_down(), "the others serve");
        link.fails(&global(RDKafkaErrorCode::AllBrokersDown), "3/3");
        link.reads();
        assert!(link.is_down(), "a record may have been read before");
        link.ends(Kind::Connection);
        assert!(!link.is_down());
        link.fails(&global(RDKafkaErrorCode::UnknownTopicOrPartition), "no such topic");
        link.ends(Kind::Connection);
        assert!(link.is_down(), "a connection makes no topic");
        link.reads();
        assert!(!link.is_down());
        link.write_fails(&KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut), "results", "timed out");
        assert!(link.is_down());
        link.writes();
        assert!(!link.is_down());
    }
}
