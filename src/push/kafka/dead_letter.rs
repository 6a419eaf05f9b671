//! What was refused for good, written to a topic of its own: the record as it came, and in its headers why and from where.
//!
//! A letter is acked by all replicas before its offset is stored. A crash in between writes it twice: the same source tells.

use rdkafka::Message;
use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};
use tracing::warn;

use super::producer::{Producer, Record, Unwritten};
use crate::push::TaskFault;

/// Writes the letter of one record; answers whether it is there.
pub(super) async fn write(producer: &Producer, topic: &str, record: &OwnedMessage, fault: &TaskFault) -> bool {
    let letter = |value| Record { topic, key: record.key(), value, headers: headers(record, fault) };
    let written = match producer.write(letter(record.payload())).await {
        // Its bytes are still at its source, for as long as that keeps them.
        Err(Unwritten::TooLarge) => producer.write(letter(None)).await,
        other => other,
    };
    if written.is_ok() {
        let (partition, offset) = (record.partition(), record.offset());
        warn!(partition, offset, field = fault.field, reason = fault.message, letter = topic, "a task was refused");
    }
    written.is_ok()
}

/// Its own headers, and ours behind them.
fn headers(record: &OwnedMessage, fault: &TaskFault) -> OwnedHeaders {
    let (partition, offset) = (record.partition().to_string(), record.offset().to_string());
    let ours = [
        ("dead.code", fault.kind.as_str()),
        ("dead.field", &fault.field),
        ("dead.reason", &fault.message),
        ("source.topic", record.topic()),
        ("source.partition", &partition),
        ("source.offset", &offset),
    ];
    let headers = record.headers().cloned().unwrap_or_default();
    ours.into_iter().fold(headers, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}
