//! The sliding window in front of the store: copies of a message that arrive while it is being stored share that
//! write's answer (P5), and copies within the window afterwards need no store call at all.
//!
//! It only ever answers for what this process knows to be stored, so losing it (a restart) costs a store call, never
//! a message. So entries leave by time, and the oldest before its time where there are more than [`MOST`].

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::intake::Taken;
use crate::model::MessageKey;

/// Stored messages remembered at once, some 20 MB of keys; what is forgotten sooner costs a store call. Those that are being
/// stored are as many as there are connections.
const MOST: usize = 65_536;

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
    /// The first: it stores the message and says what came of it.
    Lead(Lead),
    /// A copy of one that is being stored: it waits.
    Follow(Shared),
    /// A copy of one that is stored.
    Known,
}

/// The duty to store a message. Dropped without [`Lead::settle`] (storing panicked), it tells the copies that the
/// message is not taken, and the next copy leads.
#[derive(Debug)]
pub(super) struct Lead {
    window: Arc<Window>,
    key: MessageKey,
    tell: watch::Sender<Option<Taken>>,
    remember: bool,
    taken: Taken,
}

impl Lead {
    /// Tells everybody who waits, and remembers the message if it is stored.
    pub(super) fn settle(mut self, taken: Taken) {
        self.taken = taken;
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.window.close(&self.key, self.remember && self.taken.is_kept());
        self.tell.send_replace(Some(self.taken));
    }
}

impl Window {
    /// A window over `span`; zero keeps only what is being stored.
    pub(super) fn new(span: Duration) -> Self {
        Self { span, inner: Mutex::default() }
    }

    /// Takes note of a callback, whose message the store knows for `mark_ttl`. Where that is less than the span, only
    /// the store remembers it: what comes after the mark is gone is another message.
    pub(super) fn admit(self: &Arc<Self>, key: &MessageKey, mark_ttl: Duration) -> Admission {
        let mut inner = self.lock();
        inner.forget_before(Instant::now(), self.span);
        match inner.entries.get(key) {
            Some(Entry::Stored) => Admission::Known,
            Some(Entry::Pending(shared)) => Admission::Follow(shared.clone()),
            None => {
                let (tell, shared) = watch::channel(None);
                inner.entries.insert(key.clone(), Entry::Pending(shared));
                Admission::Lead(Lead {
                    window: self.clone(),
                    key: key.clone(),
                    tell,
                    remember: !self.span.is_zero() && self.span <= mark_ttl,
                    taken: Taken::UNAVAILABLE,
                })
            }
        }
    }

    /// Storing `key` has ended.
    fn close(&self, key: &MessageKey, remember: bool) {
        let mut inner = self.lock();
        if remember {
            inner.remember(key, MOST);
        } else {
            inner.entries.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is whole in itself, so a panic elsewhere leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remember(&mut self, key: &MessageKey, most: usize) {
        self.entries.insert(key.clone(), Entry::Stored);
        self.stored.push_back((Instant::now(), key.clone()));
        while self.stored.len() > most {
            self.forget_oldest();
        }
    }

    fn forget_before(&mut self, now: Instant, span: Duration) {
        while self.stored.front().is_some_and(|(at, _)| now.duration_since(*at) >= span) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.stored.pop_front() {
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(10);
    const HOUR: Duration = Duration::from_secs(3600);

    fn key(id: &str) -> MessageKey {
        MessageKey::new("app", "chat", "user", id)
    }

    fn lead(window: &Arc<Window>, id: &str) -> Lead {
        let Admission::Lead(lead) = window.admit(&key(id), HOUR) else { panic!("{id} leads") };
        lead
    }

    #[test]
    fn copies_wait_for_the_first_and_share_its_answer() {
        let window = Arc::new(Window::new(SPAN));
        let first = lead(&window, "1");
        let Admission::Follow(shared) = window.admit(&key("1"), HOUR) else { panic!("the second waits") };
        lead(&window, "2");
        first.settle(Taken::Stored);
        assert_eq!(*shared.borrow(), Some(Taken::Stored));
        assert!(matches!(window.admit(&key("1"), HOUR), Admission::Known));
    }

    #[test]
    fn a_failed_write_is_not_remembered() {
        let window = Arc::new(Window::new(SPAN));
        lead(&window, "1").settle(Taken::Refused("lane_full"));
        lead(&window, "1").settle(Taken::Stored);
    }

    #[test]
    fn a_write_that_never_ends_well_sends_its_copies_off() {
        let window = Arc::new(Window::new(SPAN));
        let first = lead(&window, "1");
        let Admission::Follow(shared) = window.admit(&key("1"), HOUR) else { panic!("the second waits") };
        drop(first);
        assert_eq!(*shared.borrow(), Some(Taken::Refused("store_unavailable")));
        lead(&window, "1");
    }

    #[test]
    fn a_window_of_zero_remembers_nothing() {
        let window = Arc::new(Window::new(Duration::ZERO));
        let first = lead(&window, "1");
        assert!(matches!(window.admit(&key("1"), HOUR), Admission::Follow(_)));
        first.settle(Taken::Stored);
        lead(&window, "1");
    }

    #[test]
    fn what_the_store_forgets_sooner_is_not_remembered() {
        let window = Arc::new(Window::new(SPAN));
        for (mark_ttl, known) in [(SPAN / 2, false), (SPAN, true)] {
            let Admission::Lead(first) = window.admit(&key("1"), mark_ttl) else { panic!("the first leads") };
            first.settle(Taken::Stored);
            assert_eq!(matches!(window.admit(&key("1"), mark_ttl), Admission::Known), known);
        }
    }

    #[test]
    fn a_flood_costs_the_oldest_and_no_more_memory() {
        let mut inner = Inner::default();
        for n in 0..1000 {
            inner.remember(&key(&n.to_string()), 10);
        }
        assert_eq!((inner.entries.len(), inner.stored.len()), (10, 10));
        assert!(inner.entries.contains_key(&key("999")) && !inner.entries.contains_key(&key("989")));
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
