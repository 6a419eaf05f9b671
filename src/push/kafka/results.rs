//! Results: how each delivery of a push task ended, written to a topic, keyed by its task.
//!
//! They are read from the outbox of the records, so one waits there for as long as Kafka is away, and counts as told once all replicas
//! have it. A crash in between writes it again: whoever reads them knows it by `delivery`, `state` and `at`. One process at a time
//! writes, so that the results of one task come in their order.

use std::time::Duration;

use futures_util::future::join_all;
use rdkafka::message::{Header, OwnedHeaders};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::producer::{Producer, Record, Unwritten};
use crate::model::first_id;
use crate::push::delivery::is_set;
use crate::push::status::{RecipientItem, recipients};
use crate::records::{PushResult, Records, RecordsError, rfc3339};
use crate::store::{Note, SharedStore, StoreError};
use crate::task::PushState;
use crate::telemetry::Metrics;

/// Results written at once.
const BATCH: u32 = 500;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// After something was away.
const TROUBLE: Duration = Duration::from_secs(2);
/// How long a process that dies keeps the others from writing; longer than a round takes.
const LOCK: Duration = Duration::from_secs(30);

/// Writes results. One a gateway.
pub(super) struct Reporter {
    pub(super) store: SharedStore,
    pub(super) records: Records,
    pub(super) topic: String,
}

/// Why a round came to nothing.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Lock(#[from] StoreError),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error("Kafka does not take results: {0}")]
    Kafka(Unwritten),
}

impl Reporter {
    /// Writes until `stop`.
    pub(super) async fn run(&self, producer: &Producer, metrics: &Metrics, stop: &CancellationToken) {
        let owner = format!("{:016x}", rand::random::<u64>());
        let mut in_trouble = false;
        while !stop.is_cancelled() {
            let pause = match self.round(producer, metrics, &owner).await {
                Ok(true) => Duration::ZERO,
                Ok(false) => LOOK,
                Err(reason) if !in_trouble => {
                    warn!(%reason, "results of push tasks wait");
                    in_trouble = true;
                    TROUBLE
                }
                Err(reason) => {
                    debug!(%reason, "results of push tasks wait");
                    TROUBLE
                }
            };
            in_trouble &= pause == TROUBLE;
            stop.run_until_cancelled(sleep(pause)).await;
        }
    }

    /// Writes what waits, where nobody else does; answers whether there may be more.
    async fn round(&self, producer: &Producer, metrics: &Metrics, owner: &str) -> Result<bool, ReportError> {
        let waiting = self.records.untold(BATCH).await?;
        if waiting.is_empty() || !self.store.lock_note(&Note::results(), owner, LOCK).await? {
            return Ok(false);
        }
        let written = self.write(producer, metrics).await;
        self.store.unlock_note(&Note::results(), owner).await?;
        written
    }

    /// As [`Reporter::round`], with the lock: so what waits is looked at anew.
    async fn write(&self, producer: &Producer, metrics: &Metrics) -> Result<bool, ReportError> {
        let waiting = self.records.untold(BATCH).await?;
        let outcomes = join_all(waiting.iter().map(|result| self.tell(producer, result))).await;
        let count = waiting.len();
        let (mut told, mut failure) = (Vec::with_capacity(count), None);
        for (result, outcome) in waiting.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => told.push(result),
                Err(error) => failure = Some(error),
            }
        }
        self.records.told(&told).await?;
        told.iter().for_each(|_| metrics.result_told());
        failure.map_or(Ok(count == BATCH as usize), Err)
    }

    async fn tell(&self, producer: &Producer, result: &PushResult) -> Result<(), ReportError> {
        let known = self.known(result).await?;
        let recipients = known.as_ref().and_then(|known| recipients(known.recipients.clone()));
        match self.write_one(producer, result, known.as_ref(), recipients.as_deref(), None).await {
            // Whoever wants each of them asks for the task.
            Err(Unwritten::TooLarge) if recipients.is_some() => {
                match self.write_one(producer, result, known.as_ref(), None, Some("recipients")).await {
                    Err(Unwritten::TooLarge) => self.is_too_large(producer),
                    written => written.map_err(ReportError::Kafka),
                }
            }
            Err(Unwritten::TooLarge) => self.is_too_large(producer),
            written => written.map_err(ReportError::Kafka),
        }
    }

    fn is_too_large(&self, producer: &Producer) -> Result<(), ReportError> {
        producer.is_too_small(&self.topic);
        Err(ReportError::Kafka(Unwritten::TooLarge))
    }

    /// What its task says of a delivery to a set, which may be one of customers: what each got stands there alone. Nothing once the task is
    /// known no longer.
    async fn known(
        &self,
        PushResult { task_id, chat, delivery, .. }: &PushResult,
    ) -> Result<Option<PushState>, StoreError> {
        if !is_set(chat) {
            return Ok(None);
        }
        let children = self.store.pushes().task(task_id).await?.into_iter().flat_map(|task| task.children);
        Ok(children
            .map(|child| (child.delivery_id, child.state))
            .find(|(id, _)| id == first_id(delivery))
            .map(|(_, state)| state))
    }

    async fn write_one(
        &self,
        producer: &Producer,
        result: &PushResult,
        known: Option<&PushState>,
        recipients: Option<&[RecipientItem]>,
        cut: Option<&str>,
    ) -> Result<(), Unwritten> {
        let PushResult { task_id, app, chat, delivery, state, reason, errcode, msgid, left_out, at } = result;
        let errcode = errcode.or(known.and_then(|known| known.errcode));
        let msgid = msgid.as_ref().or(known.and_then(|known| known.msgid.as_ref()));
        let left_out = left_out.as_ref().or(known.and_then(|known| known.left_out.as_ref()));
        let at = rfc3339(*at);
        let value = json!({
            "task_id": task_id, "app": app, "chat": chat, "delivery": delivery, "state": state, "reason": reason,
            "errcode": errcode, "msgid": msgid, "left_out": left_out, "at": at, "recipients": recipients,
        });
        let value = value.to_string();
        let headers = OwnedHeaders::new();
        let headers = match cut {
            Some(_) => headers.insert(Header { key: "result.cut", value: cut }),
            None => headers,
        };
        let (key, value) = (Some(task_id.as_bytes()), Some(value.as_bytes()));
        let record = Record { topic: &self.topic, key, value, headers };
        producer.write(record).await
    }
}
