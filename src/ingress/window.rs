//! The sliding window in front of the store: copies of a message that arrive while it is being stored share that
//! write's answer (P5), and copies within the window afterwards need no store call at all.
//!
//! It only ever answers for what this process knows to be stored, so losing it (a restart) costs a store call, never
//! a message. Entries leave by time alone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Taken;
use crate::model::MessageKey;

/// What the store said, shared by all who wait for it.
pub(super) type Shared = watch::Receiver<Option<Taken>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Window {
    span: Duration,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<MessageKey, Entry>,
    /// Stored keys, oldest first.
    stored: VecDeque<(Instant, MessageKey)>,
}

#[derive(Debug)]
enum Entry {
    Pending(Shared),
    Stored,
}

/// What a callback is, as far as this process knows.
pub(super) enum Admission {
    /// The first: it stores the message and then tells by [`Window::settle`] through this sender.
    Lead(watch::Sender<Option<Taken>>),
    /// A copy of one that is being stored: it waits.
    Follow(Shared),
    /// A copy of one that is stored.
    Known,
}

impl Window {
    /// A window over `span`; zero keeps only what is being stored.
    pub(super) fn new(span: Duration) -> Self {
        Self { span, inner: Mutex::default() }
    }

    /// Takes note of a callback.
    pub(super) fn admit(&self, key: &MessageKey) -> Admission {
        let mut inner = self.lock();
        inner.forget_before(Instant::now(), self.span);
        match inner.entries.get(key) {
            Some(Entry::Stored) => Admission::Known,
            Some(Entry::Pending(shared)) => Admission::Follow(shared.clone()),
            None => {
                let (tell, shared) = watch::channel(None);
                inner.entries.insert(key.clone(), Entry::Pending(shared));
                Admission::Lead(tell)
            }
        }
    }

    /// Tells everybody who waits for `key`, and remembers it if it is stored.
    pub(super) fn settle(&self, key: MessageKey, tell: &watch::Sender<Option<Taken>>, taken: Taken) {
        let mut inner = self.lock();
        if taken.is_stored() && !self.span.is_zero() {
            inner.entries.insert(key.clone(), Entry::Stored);
            inner.stored.push_back((Instant::now(), key));
        } else {
            inner.entries.remove(&key);
        }
        drop(inner);
        tell.send_replace(Some(taken));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is whole in itself, so a panic elsewhere leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget_before(&mut self, now: Instant, span: Duration) {
        while let Some((at, _)) = self.stored.front() {
            if now.duration_since(*at) < span {
                break;
            }
            if let Some((_, key)) = self.stored.pop_front() {
                self.entries.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> MessageKey {
        MessageKey::new("app", "chat", "user", id)
    }

    #[test]
    fn copies_wait_for_the_first_and_share_its_answer() {
        let window = Window::new(Duration::from_secs(10));
        let Admission::Lead(tell) = window.admit(&key("1")) else { panic!("the first leads") };
        let Admission::Follow(shared) = window.admit(&key("1")) else { panic!("the second waits") };
        assert!(matches!(window.admit(&key("2")), Admission::Lead(_)));
        window.settle(key("1"), &tell, Taken::Stored);
        assert_eq!(*shared.borrow(), Some(Taken::Stored));
        assert!(matches!(window.admit(&key("1")), Admission::Known));
    }

    #[test]
    fn a_failed_write_is_not_remembered() {
        let window = Window::new(Duration::from_secs(10));
        let Admission::Lead(tell) = window.admit(&key("1")) else { panic!("the first leads") };
        window.settle(key("1"), &tell, Taken::Refused("store_unavailable"));
        assert!(matches!(window.admit(&key("1")), Admission::Lead(_)));
    }

    #[test]
    fn a_window_of_zero_remembers_nothing() {
        let window = Window::new(Duration::ZERO);
        let Admission::Lead(tell) = window.admit(&key("1")) else { panic!("the first leads") };
        assert!(matches!(window.admit(&key("1")), Admission::Follow(_)));
        window.settle(key("1"), &tell, Taken::Stored);
        assert!(matches!(window.admit(&key("1")), Admission::Lead(_)));
    }

    #[test]
    fn entries_leave_by_time() {
        let mut inner = Inner::default();
        let start = Instant::now();
        for id in ["1", "2"] {
            inner.entries.insert(key(id), Entry::Stored);
        }
        inner.stored.push_back((start, key("1")));
        inner.stored.push_back((start + Duration::from_secs(5), key("2")));
        inner.forget_before(start + Duration::from_secs(12), Duration::from_secs(10));
        assert!(!inner.entries.contains_key(&key("1")) && inner.entries.contains_key(&key("2")));
    }
}
