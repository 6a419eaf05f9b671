//! Some tasks of one partition on their way to their owners, and how far they are done without a gap. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use rdkafka::Message;
use rdkafka::message::{Headers, OwnedMessage};

use crate::push::{Taken, Task, TaskFault};
use crate::trace_context::{TRACEPARENT, TraceContext};

/// See the module.
#[derive(Debug)]
pub(super) struct Batch {
    /// Those that are not done, and any behind the first of them, in order.
    items: VecDeque<Item>,
    /// The offset after the last one that is done with all before it.
    next: i64,
}

#[derive(Debug)]
struct Item {
    record: Arc<OwnedMessage>,
    stand: Stand,
}

/// Which trace its producer says that it belongs to.
fn trace(record: &OwnedMessage) -> Option<TraceContext> {
    let headers = record.headers()?;
    let header = headers.iter().find(|header| header.key == TRACEPARENT)?;
    std::str::from_utf8(header.value?).ok()?.parse().ok()
}

/// How far one record has come.
#[derive(Debug)]
enum Stand {
    /// It is to be handed to its lanes.
    Open(Box<Task>),
    /// It is refused for good, and a letter has to say so.
    Refused(TaskFault),
    /// It is owned, or its letter is written.
    Done,
}

impl Batch {
    /// Reads what came, in its order.
    pub(super) fn read(records: Vec<Arc<OwnedMessage>>, read: impl Fn(&[u8]) -> Result<Task, TaskFault>) -> Self {
        let next = records.first().map_or(0, |record| record.offset());
        let item = |record: Arc<OwnedMessage>| {
            let stand = match read(record.payload().unwrap_or_default()) {
                Ok(task) => Stand::Open(Box::new(Task { trace: trace(&record), ..task })),
                Err(fault) => Stand::Refused(fault),
            };
            Item { record, stand }
        };
        Self { items: records.into_iter().map(item).collect(), next }
    }

    /// What is to be handed over, each with its record.
    pub(super) fn open(&self) -> impl Iterator<Item = (&Task, &OwnedMessage)> {
        self.items.iter().filter_map(|Item { record, stand }| match stand {
            Stand::Open(task) => Some((task.as_ref(), record.as_ref())),
            Stand::Refused(_) | Stand::Done => None,
        })
    }

    /// Notes what became of [`Batch::open`], an answer each.
    pub(super) fn taken(&mut self, answers: Vec<Taken>) {
        let open = self.items.iter_mut().map(|item| &mut item.stand).filter(|stand| matches!(stand, Stand::Open(_)));
        for (stand, taken) in open.zip(answers) {
            match taken {
                Taken::Owned | Taken::Repeat => *stand = Stand::Done,
                Taken::Refused(fault) => *stand = Stand::Refused(fault),
                Taken::Full => {}
            }
        }
        self.advance();
    }

    /// What a letter has to be written of.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&OwnedMessage, &TaskFault)> {
        self.items.iter().filter_map(|Item { record, stand }| match stand {
            Stand::Refused(fault) => Some((record.as_ref(), fault)),
            Stand::Open(_) | Stand::Done => None,
        })
    }

    /// Notes which letters of [`Batch::refused`] are written.
    pub(super) fn written(&mut self, written: Vec<bool>) {
        let refused = self.items.iter_mut().map(|item| &mut item.stand);
        let refused = refused.filter(|stand| matches!(stand, Stand::Refused(_)));
        for (stand, _) in refused.zip(written).filter(|(_, is_written)| *is_written) {
            *stand = Stand::Done;
        }
        self.advance();
    }

    /// The offset after the last record that is done with all before it.
    pub(super) fn next(&self) -> i64 {
        self.next
    }

    /// How many records lie behind that.
    pub(super) fn left(&self) -> usize {
        self.items.len()
    }

    fn advance(&mut self) {
        while let Some(Item { record, .. }) = self.items.pop_front_if(|item| matches!(item.stand, Stand::Done)) {
            self.next = record.offset() + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::message::{Header, OwnedHeaders, Timestamp};

    use super::*;

    #[test]
    fn a_record_says_which_trace_it_belongs_to() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let record = |headers| OwnedMessage::new(None, None, "t".into(), Timestamp::NotAvailable, 0, 0, headers);
        let header = |key, value| Some(OwnedHeaders::new().insert(Header { key, value: Some(value) }));
        assert_eq!(trace(&record(header(TRACEPARENT, traceparent))), traceparent.parse().ok());
        assert!(trace(&record(header(TRACEPARENT, traceparent))).is_some());
        for none in [None, header("other", traceparent), header(TRACEPARENT, "x")] {
            assert_eq!(trace(&record(none)), None);
        }
    }
}
