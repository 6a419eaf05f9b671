//! Whether topics are there, as far as the brokers say: a topic that is not only times out at first. Everything that is on its way times
//! out together, and an answer takes its time while brokers are away: so one asks for all, and what came of it holds for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, Producer as _};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::{is_missing, words};

/// How long the brokers have to say.
const METADATA: Duration = Duration::from_secs(2);
/// How long an answer holds, or that none came: longer than what is written at once takes to time out, one after the other.
const HOLDS: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// By topic: whether it is there, and until when that holds. Locked while the brokers are asked.
    known: Mutex<BTreeMap<String, (bool, Instant)>>,
}

impl Presence {
    /// Why nothing was written to a topic, in words.
    pub(super) async fn why<C: ClientContext + 'static>(
        &self,
        producer: &FutureProducer<C>,
        error: &KafkaError,
        topic: &str,
    ) -> String {
        let timed_out = error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageTimedOut);
        match is_missing(error) || timed_out && !self.is_there(topic, producer).await {
            true => format!("the topic {topic} is not there: make it"),
            false => words(error),
        }
    }

    /// Whether a topic is there; where nobody says, it is.
    async fn is_there<C: ClientContext + 'static>(&self, topic: &str, producer: &FutureProducer<C>) -> bool {
        let mut known = self.known.lock().await;
        match known.get(topic) {
            Some((is_there, until)) if Instant::now() < *until => *is_there,
            _ => {
                let is_there = ask(topic, producer).await;
                known.insert(topic.to_owned(), (is_there, Instant::now() + HOLDS));
                is_there
            }
        }
    }
}

async fn ask<C: ClientContext + 'static>(topic: &str, producer: &FutureProducer<C>) -> bool {
    let (producer, topic) = (producer.clone(), topic.to_owned());
    let ask = move || {
        let metadata = producer.client().fetch_metadata(Some(&topic), METADATA).ok()?;
        let error = metadata.topics().first()?.error()?;
        Some(RDKafkaErrorCode::from(error))
    };
    let said = tokio::task::spawn_blocking(ask).await.ok().flatten();
    said != Some(RDKafkaErrorCode::UnknownTopicOrPartition)
}
