//! Hands tasks over to the topic, a batch in one transaction: readers see all of it or nothing.
//!
//! Each task is keyed by whom it goes to, so what one chat gets keeps its order. The producer's `transactional.id` is of this process's
//! start alone: nobody can be fenced by it, and what a dead process left open ends by its time-out.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use rdkafka::util::Timeout;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tracing::warn;
use uuid::Uuid;

use super::client::{self, Link};
use super::presence::Presence;
use super::producer::{Context, is_too_large};
use crate::config::settings::Kafka;
use crate::model::Lane;
use crate::push::delivery::{chat_of, set_chat};
use crate::push::{HandOverError, Target, Task};
use crate::trace_context::TRACEPARENT;

/// How long each step of a transaction may take.
const STEP: Duration = Duration::from_secs(10);
/// How long a batch waits for the one before it.
const TURN: Duration = Duration::from_secs(15);

/// A task and its JSON, as its producer wrote it.
pub(super) type Outgoing = (Task, Vec<u8>);

/// See the module. One transaction at a time.
pub(super) struct HandOver {
    kafka: Kafka,
    link: Arc<Link>,
    presence: Presence,
    /// `None`: none was needed yet, or the last one can't be used any more.
    producer: Mutex<Option<Transactions>>,
}

type Transactions = FutureProducer<Context>;

/// How records travel to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    /// As many at once as there are.
    Together,
    /// Each by itself.
    Alone,
}

impl HandOver {
    /// Connects when it is first needed.
    pub(super) fn new(kafka: &Kafka) -> Self {
        let link = Arc::new(Link::new("transactions"));
        Self { kafka: kafka.clone(), link, presence: Presence::default(), producer: Mutex::default() }
    }

    /// Writes a batch, all or none of it.
    pub(super) async fn write(&self, batch: Vec<Outgoing>) -> Result<(), HandOverError> {
        let waited = tokio::time::timeout(TURN, self.producer.lock()).await;
        let mut current = waited.map_err(|_| HandOverError::NotTaken("others wait for it already".into()))?;
        match self.transact(&mut current, Packing::Together, &batch).await {
            // What goes to the broker together is refused together: alone, each speaks for itself.
            Err(HandOverError::TooLarge(_)) if batch.len() > 1 => {
                self.transact(&mut None, Packing::Alone, &batch).await
            }
            done => done,
        }
    }

    async fn transact(
        &self,
        current: &mut Option<Transactions>,
        packing: Packing,
        batch: &[Outgoing],
    ) -> Result<(), HandOverError> {
        let producer = match current.take() {
            Some(producer) => producer,
            None => self.connect(packing).await.map_err(|error| self.not_taken(&error, &error.to_string()))?,
        };
        producer.begin_transaction().map_err(|error| self.not_taken(&error, &error.to_string()))?;
        if let Err(fault) = self.fill(&producer, batch).await {
            // Where that fails too, it ends by its time-out; the next batch goes by another producer.
            if wait(&producer, |producer| producer.abort_transaction(STEP)).await.is_ok() {
                *current = Some(producer);
            }
            return Err(fault);
        }
        match wait(&producer, |producer| producer.commit_transaction(STEP)).await {
            Ok(()) => {
                self.link.writes();
                *current = Some(producer);
                Ok(())
            }
            Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => {
                if wait(&producer, |producer| producer.abort_transaction(STEP)).await.is_ok() {
                    *current = Some(producer);
                }
                let error = KafkaError::Transaction(error);
                Err(self.not_taken(&error, &error.to_string()))
            }
            Err(error) => {
                warn!(%error, tasks = batch.len(), "it is not known whether a batch of push tasks was handed over");
                Err(HandOverError::Unknown(error.to_string()))
            }
        }
    }

    async fn connect(&self, packing: Packing) -> KafkaResult<Transactions> {
        let mut config = client::producer(&self.kafka);
        if packing == Packing::Alone {
            config.set("batch.num.messages", "1");
        }
        config.set("transactional.id", format!("wecom-gateway-{}", Uuid::now_v7()));
        let producer: Transactions = config.create_with_context(Context(self.link.clone()))?;
        wait(&producer, |producer| producer.init_transactions(STEP)).await?;
        Ok(producer)
    }

    async fn fill(&self, producer: &Transactions, batch: &[Outgoing]) -> Result<(), HandOverError> {
        let keys: Vec<String> = batch.iter().map(|(task, _)| recipients(task)).collect();
        // Each is queued when it is first polled: in their order.
        let written = join_all(batch.iter().zip(&keys).map(|((task, value), key)| {
            let mut record = FutureRecord::to(&self.kafka.topic).key(key.as_str()).payload(value.as_slice());
            record.headers = task.trace.map(|trace| {
                let value = trace.to_string();
                OwnedHeaders::new().insert(Header { key: TRACEPARENT, value: Some(&value) })
            });
            producer.send(record, Timeout::After(STEP))
        }))
        .await;
        let failed = written.iter().enumerate().filter_map(|(n, written)| Some((n, &written.as_ref().err()?.0)));
        let failed: Vec<(usize, &KafkaError)> = failed.collect();
        // The others fail with it, each by a word of its own.
        let too_large: Vec<usize> = failed.iter().filter(|(_, error)| is_too_large(error)).map(|(n, _)| *n).collect();
        match failed.first() {
            None => Ok(()),
            Some(_) if !too_large.is_empty() => Err(HandOverError::TooLarge(too_large)),
            Some((_, error)) => {
                let why = self.presence.why(producer, error, &self.kafka.topic).await;
                Err(self.not_taken(error, &why))
            }
        }
    }

    fn not_taken(&self, error: &KafkaError, why: &str) -> HandOverError {
        self.link.write_fails(error, &self.kafka.topic, why);
        HandOverError::NotTaken(why.to_owned())
    }
}

/// To whom a task goes, in one word: the key of its record.
fn recipients(task: &Task) -> String {
    let whom = match &task.target {
        Target::Chats(chats) => match chats.as_slice() {
            [chat] => chat.clone(),
            chats => hex::encode(Sha256::digest(chats.join("\0"))),
        },
        Target::Members(set) => chat_of(set),
        Target::Customers(set) => set_chat(set),
    };
    Lane::of_chat(&task.app, &whom).as_str().to_owned()
}

/// librdkafka's calls about transactions wait on their thread.
async fn wait(
    producer: &Transactions,
    step: impl FnOnce(&Transactions) -> KafkaResult<()> + Send + 'static,
) -> KafkaResult<()> {
    let producer = producer.clone();
    let waited = tokio::task::spawn_blocking(move || step(&producer)).await;
    waited.unwrap_or_else(|error| Err(KafkaError::ClientCreation(error.to_string())))
}
