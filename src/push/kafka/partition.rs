//! One partition of the topic while it is ours: what was read of it and waits, and how far it is done.
//!
//! The consumer's thread fills it and stores its offset; its worker takes what waits, in order. Both only meet here.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::message::OwnedMessage;
use tokio::sync::Notify;

/// See the module.
#[derive(Debug)]
pub(super) struct Partition {
    /// Its number.
    pub(super) number: i32,
    state: Mutex<State>,
    filled: Notify,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arc<OwnedMessage>>,
    /// Taken by the worker, and not done, in order.
    in_work: Vec<Arc<OwnedMessage>>,
    /// The offset after the last task that is done, with all before it.
    done: Option<i64>,
    /// As much of `done` as was asked for already.
    told: Option<i64>,
    /// Nothing more is fetched until there is room; nothing was read since.
    paused: bool,
}

impl Partition {
    /// Nothing of it was read yet.
    pub(super) fn new(number: i32) -> Self {
        Self { number, state: Mutex::default(), filled: Notify::new(), emptied: Condvar::new() }
    }

    /// Adds what was read; answers whether it may be read on: it holds fewer than `room`, or did so within `patience`.
    pub(super) fn put(&self, message: OwnedMessage, room: usize, patience: Duration) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(Arc::new(message));
        self.filled.notify_one();
        let is_full = |state: &mut State| state.in_flight() >= room;
        let waited = self.emptied.wait_timeout_while(state, patience, is_full);
        let (mut state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        state.paused = outcome.timed_out();
        !state.paused
    }

    /// Whether it was full and has room again: it is to be read on. Said again until something of it is read, for librdkafka drops
    /// without a word what it is told while it begins to share partitions anew.
    pub(super) fn goes_on(&self, room: usize) -> bool {
        let state = self.lock();
        state.paused && state.in_flight() <= room / 2
    }

    /// Up to `most` tasks that wait; waits for the first.
    pub(super) async fn take(&self, most: usize) -> Vec<Arc<OwnedMessage>> {
        loop {
            let filled = self.filled.notified();
            {
                let mut state = self.lock();
                if !state.waiting.is_empty() {
                    let count = state.waiting.len().min(most);
                    state.in_work = state.waiting.drain(..count).collect();
                    return state.in_work.clone();
                }
            }
            filled.await;
        }
    }

    /// The worker is done with all before `next`; the last `left` of what it took are not.
    pub(super) fn done(&self, next: i64, left: usize) {
        let mut state = self.lock();
        let done = state.in_work.len().saturating_sub(left);
        state.in_work.drain(..done);
        state.done = Some(next);
        self.emptied.notify_one();
    }

    /// The worker is gone: what it took and was not done waits for another.
    pub(super) fn again(&self) {
        let mut state = self.lock();
        let in_work = std::mem::take(&mut state.in_work);
        in_work.into_iter().rev().for_each(|message| state.waiting.push_front(message));
    }

    /// The offset to store, where it has moved since the last time.
    pub(super) fn moved(&self) -> Option<i64> {
        let mut state = self.lock();
        let moved = state.done.filter(|_| state.done != state.told);
        state.told = state.done;
        moved
    }

    /// How many tasks were read of it and are not done.
    pub(super) fn in_flight(&self) -> usize {
        self.lock().in_flight()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is whole by itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn in_flight(&self) -> usize {
        self.waiting.len() + self.in_work.len()
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::Message as _;
    use rdkafka::message::Timestamp;

    use super::*;

    const NOT_LONG: Duration = Duration::from_millis(1);

    fn record(offset: i64) -> OwnedMessage {
        OwnedMessage::new(None, None, "t".into(), Timestamp::NotAvailable, 0, offset, None)
    }

    fn offsets(taken: &[Arc<OwnedMessage>]) -> Vec<i64> {
        taken.iter().map(|message| message.offset()).collect()
    }

    #[tokio::test]
    async fn it_is_read_on_until_it_is_full_and_again_when_half_is_done() {
        let partition = Partition::new(0);
        assert!((0..3).all(|offset| partition.put(record(offset), 4, NOT_LONG)));
        assert!(!partition.put(record(3), 4, NOT_LONG), "full");
        assert!(!partition.goes_on(4));
        let taken = offsets(&partition.take(3).await);
        assert_eq!((taken, partition.in_flight()), (vec![0, 1, 2], 4), "what is in work counts");
        partition.done(1, 2);
        assert!(!partition.goes_on(4), "three of four");
        partition.done(3, 0);
        assert!(partition.goes_on(4));
        assert!(partition.goes_on(4), "it may not have been heard");
        assert!(partition.put(record(4), 4, NOT_LONG));
        assert!(!partition.goes_on(4), "it is read");
    }

    #[tokio::test]
    async fn room_that_comes_soon_enough_is_waited_for() {
        let partition = Arc::new(Partition::new(0));
        let worker = partition.clone();
        let works = tokio::spawn(async move {
            worker.take(1).await;
            worker.done(1, 0);
        });
        let reader = partition.clone();
        let reads = tokio::task::spawn_blocking(move || reader.put(record(0), 1, Duration::from_secs(30)));
        assert!(reads.await.unwrap());
        works.await.unwrap();
    }

    #[tokio::test]
    async fn what_a_worker_leaves_another_takes_in_its_order() {
        let partition = Partition::new(0);
        assert!((0..5).all(|offset| partition.put(record(offset), 9, NOT_LONG)));
        partition.take(4).await;
        partition.done(2, 2);
        partition.again();
        assert_eq!((partition.in_flight(), partition.moved()), (3, Some(2)));
        assert_eq!(offsets(&partition.take(9).await), [2, 3, 4]);
    }

    #[test]
    fn an_offset_is_told_once() {
        let partition = Partition::new(0);
        assert_eq!(partition.moved(), None);
        partition.done(7, 0);
        assert_eq!((partition.moved(), partition.moved()), (Some(7), None));
        partition.done(7, 0);
        assert_eq!(partition.moved(), None);
        partition.done(9, 0);
        assert_eq!(partition.moved(), Some(9));
    }
}
