//! Copies that this process stopped by itself, in front of the store: they leave no journal line each, so they are counted here
//! until the flusher takes the counts along.
//!
//! A batch that was handed out stays as it is, under its number, until somebody says that it is written. So a write whose
//! answer was lost is repeated as it was, and the records know a number that they have had.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::tally::{Cell, day_number};
use crate::model::{new_id, now_ms};
use crate::zone::Zone;

/// The counter of one process.
#[derive(Debug, Default)]
pub struct Copies {
    process: String,
    zone: Zone,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<(i64, String, String), i64>,
    out: Option<Arc<CopyBatch>>,
    number: i64,
}

/// Counts on their way into the records.
#[derive(Debug)]
pub struct CopyBatch {
    /// Which process counted; a new one at each start.
    pub(super) process: String,
    /// Which of its batches, counting up from 1.
    pub(super) number: i64,
    /// How many in which chat.
    pub(super) counts: Vec<(Cell, i64)>,
}

impl Copies {
    /// Nothing counted yet.
    pub fn new(zone: Zone) -> Self {
        Self { process: new_id(), zone, inner: Mutex::default() }
    }

    /// A copy of a message of this chat was stopped.
    pub fn stopped(&self, app: &str, chat: &str) {
        let place = (day_number(&self.zone, now_ms()), app.to_owned(), chat.to_owned());
        *self.lock().open.entry(place).or_default() += 1;
    }

    /// What is to be written: the batch that nobody has called written, else what was counted since.
    pub fn batch(&self) -> Option<Arc<CopyBatch>> {
        let mut inner = self.lock();
        if inner.out.is_none() && !inner.open.is_empty() {
            inner.number += 1;
            let counts = mem::take(&mut inner.open).into_iter();
            let counts = counts.map(|((day, app, chat), n)| (Cell::of_chat(day, &app, &chat), n)).collect();
            inner.out = Some(Arc::new(CopyBatch { process: self.process.clone(), number: inner.number, counts }));
        }
        inner.out.clone()
    }

    /// The batch that was handed out is in the records.
    pub fn written(&self) {
        self.lock().out = None;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is whole in itself.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_stays_as_it_is_until_it_is_written() {
        let copies = Copies::new(Zone::default());
        assert!(copies.batch().is_none());
        copies.stopped("app", "chat");
        copies.stopped("app", "chat");
        let first = copies.batch().expect("a batch");
        copies.stopped("app", "chat");
        let again = copies.batch().expect("the same batch");
        assert_eq!((again.number, again.counts.len(), again.counts[0].1), (1, 1, 2));
        assert!(Arc::ptr_eq(&first, &again));
        copies.written();
        let second = copies.batch().expect("the next");
        assert_eq!((second.number, second.counts[0].1, &second.process), (2, 1, &first.process));
        copies.written();
        assert!(copies.batch().is_none());
    }
}
