//! What was refused for good, written to a topic of its own: the record as it came, and in its headers why and from where.
//!
//! A letter is acked by all replicas before its offset is stored. A crash in between writes it twice: the same source tells. What the
//! topic is too small for is cut, its own headers too and then its key, so that no record can hold up its partition for ever; its bytes
//! are still at its source, for as long as that keeps them.

use futures_util::future::join_all;
use rdkafka::Message;
use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};
use tracing::warn;

use super::producer::{Producer, Record, Unwritten};
use crate::push::TaskFault;

/// What of a record its letter is without, from the least on; a header says it.
const CUTS: [&str; 4] = ["", "value", "value,headers", "value,headers,key"];
/// Bytes of a field's name and of a reason, which may quote what came.
const MOST_WORDS: usize = 512;

/// Writes the letters of these; what became of each.
pub(super) async fn write(
    producer: &Producer,
    topic: &str,
    refused: &[(&OwnedMessage, &TaskFault)],
) -> Vec<Result<(), Unwritten>> {
    let [whole, ..] = CUTS;
    let together = refused.iter().map(|(record, fault)| producer.write(letter(topic, record, fault, whole)));
    let mut written = join_all(together).await;
    for ((record, fault), written) in refused.iter().zip(&mut written) {
        // Whole once more: what goes together is refused together, where one of it is too large.
        for cut in CUTS {
            if *written != Err(Unwritten::TooLarge) {
                break;
            }
            *written = producer.write(letter(topic, record, fault, cut)).await;
        }
        match written {
            Ok(()) => {
                let (partition, offset) = (record.partition(), record.offset());
                warn!(
                    partition,
                    offset,
                    field = fault.field,
                    reason = fault.message,
                    letter = topic,
                    "a task was refused"
                );
            }
            Err(Unwritten::TooLarge) => producer.is_too_small(topic),
            Err(Unwritten::Trouble(_)) => {}
        }
    }
    written
}

/// The record without what is cut; its own headers, and ours behind them.
fn letter<'r>(topic: &'r str, record: &'r OwnedMessage, fault: &TaskFault, cut: &str) -> Record<'r> {
    let is_left = |part: &str| !cut.split(',').any(|one| one == part);
    let (partition, offset) = (record.partition().to_string(), record.offset().to_string());
    let ours = [
        ("dead.code", fault.kind.as_str()),
        ("dead.field", bounded(&fault.field)),
        ("dead.reason", bounded(&fault.message)),
        ("source.topic", record.topic()),
        ("source.partition", &partition),
        ("source.offset", &offset),
        ("dead.cut", cut),
    ];
    let theirs = record.headers().filter(|_| is_left("headers")).cloned().unwrap_or_default();
    let ours = ours.into_iter().filter(|(key, value)| *key != "dead.cut" || !value.is_empty());
    let headers: OwnedHeaders =
        ours.fold(theirs, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
    let (key, value) = (record.key().filter(|_| is_left("key")), record.payload().filter(|_| is_left("value")));
    Record { topic, key, value, headers }
}

fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_WORDS)]
}
