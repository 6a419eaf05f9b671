//! The ledger: what was posted, what came back, and everything that should not have happened.
//!
//! It sees the gateway from outside only. A reply is traced to its message by the [`Tag`] in its text, so the ledger can
//! say of each one whether it stands in the right chat, came once, and came in order. Always: a violation, once recorded,
//! stays; a message counts as lost only when WeCom got its `success` and no reply followed.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::summary::{Progress, Summary};
use super::violation::{Tag, Violation};

/// One message of a load.
#[derive(Debug)]
struct Message {
    chat: String,
    sender: String,
    answered: bool,
    posted: Option<Instant>,
    acked: bool,
    replied: bool,
    permit: Option<OwnedSemaphorePermit>,
}

impl Message {
    /// Whether `tag` names this message (the serial is known to fit).
    fn is(&self, tag: &Tag) -> bool {
        self.chat == tag.chat && self.sender == tag.sender
    }
}

#[derive(Debug)]
struct State {
    messages: HashMap<u64, Message>,
    replied: HashSet<Tag>,
    last_serial: HashMap<(String, String), u64>,
    violations: Vec<Violation>,
    latency: Histogram<u64>,
    progress: Progress,
    first_post: Option<Instant>,
    last_event: Option<Instant>,
}

/// Shared between the load, the fake WeCom and whoever watches.
#[derive(Debug)]
pub struct Ledger {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

/// Longest latency that is told apart; what is slower counts as this.
const SLOWEST: Duration = Duration::from_secs(3600);

impl Default for Ledger {
    fn default() -> Self {
        let slowest = u64::try_from(SLOWEST.as_micros()).unwrap_or(u64::MAX);
        let latency = Histogram::new_with_max(slowest, 3).unwrap_or_else(|_| unreachable!("3 digits are allowed"));
        let state = State {
            messages: HashMap::new(),
            replied: HashSet::new(),
            last_serial: HashMap::new(),
            violations: Vec::new(),
            latency,
            progress: Progress::default(),
            first_post: None,
            last_event: None,
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(0) }
    }
}

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everybody who waits for a change.
    pub fn stir(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    /// Announces a message before its first post; `answered`: it wants exactly one reply, else none.
    pub fn expect(&self, tag: &Tag, answered: bool) {
        let message = Message {
            chat: tag.chat.clone(),
            sender: tag.sender.clone(),
            answered,
            posted: None,
            acked: false,
            replied: false,
            permit: None,
        };
        self.state().messages.insert(tag.serial, message);
    }

    /// A post of this message begins now.
    pub fn posted(&self, serial: u64) {
        let mut state = self.state();
        let now = Instant::now();
        state.first_post.get_or_insert(now);
        let Some(message) = state.messages.get_mut(&serial) else { return };
        let first = message.posted.is_none();
        message.posted.get_or_insert(now);
        if first {
            state.progress.posted += 1;
        } else {
            state.progress.copies += 1;
        }
    }

    /// A post of this message was answered with 200.
    pub fn acked(&self, serial: u64) {
        let mut state = self.state();
        state.last_event = Some(Instant::now());
        let Some(message) = state.messages.get_mut(&serial) else { return };
        if std::mem::replace(&mut message.acked, true) {
            return;
        }
        let (wanted, missing) = (message.answered, message.answered && !message.replied);
        state.progress.acked += 1;
        state.progress.wanted += u64::from(wanted);
        state.progress.missing += u64::from(missing);
        drop(state);
        self.stir();
    }

    /// Gives `permit` back once this message has its reply; at once where it wants none.
    pub fn until_replied(&self, serial: u64, permit: OwnedSemaphorePermit) {
        if let Some(message) = self.state().messages.get_mut(&serial).filter(|m| m.answered && !m.replied) {
            message.permit = Some(permit);
        }
    }

    /// A reply arrived in `chat`: checks its place, its count and its order by the tag in its text. A text that was joined
    /// from several replies counts as each of them; one without a tag is passed over.
    pub fn replied(&self, chat: &str, text: &str) {
        let mut tags: Vec<Tag> = Vec::new();
        Tag::all(text).for_each(|tag| {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        });
        let mut state = self.state();
        let now = Instant::now();
        state.last_event = Some(now);
        for tag in tags {
            state.progress.replies += 1;
            let found = state.judge(chat, &tag);
            state.violations.extend(found);
            state.note_reply(&tag, now);
        }
        drop(state);
        self.stir();
    }

    /// Records what went wrong.
    pub fn violate(&self, violation: Violation) {
        self.state().violations.push(violation);
        self.stir();
    }

    /// Everything that went wrong so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.state().violations.clone()
    }

    /// How far the load is.
    pub fn progress(&self) -> Progress {
        self.state().progress
    }

    /// Wakes its receiver at everything that reaches the fake.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until every acked message that wants a reply has one; `false` when nothing moved for `patience`.
    pub async fn all_answered(&self, patience: Duration) -> bool {
        let answered = async {
            let mut changes = self.changes();
            while self.progress().missing > 0 && changes.changed().await.is_ok() {}
        };
        tokio::select! {
            () = answered => true,
            () = self.stalled(patience) => false,
        }
    }

    /// Ends when nothing moved for `patience`, or up to a tenth longer. Looks now and then instead of at every change: under load
    /// there are some ten thousand a second.
    pub async fn stalled(&self, patience: Duration) {
        let (mut seen, mut quiet) = (self.progress(), 0);
        while quiet < 10 {
            tokio::time::sleep(patience / 10).await;
            let now = self.progress();
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
        }
    }

    /// Acked messages whose reply is missing, at most `limit`, lowest serial first.
    pub fn lost(&self, limit: usize) -> Vec<Tag> {
        let state = self.state();
        let lost = state.messages.iter().filter(|(_, m)| m.answered && m.acked && !m.replied);
        let mut tags: Vec<Tag> = lost.map(|(serial, m)| Tag::new(&m.chat, &m.sender, *serial)).collect();
        tags.sort_by_key(|tag| tag.serial);
        tags.truncate(limit);
        tags
    }

    /// What it all came to.
    pub fn summary(&self) -> Summary {
        let state = self.state();
        let (mut misrouted, mut repeated, mut out_of_order, mut other) = (0, 0, 0, 0);
        for violation in &state.violations {
            match violation {
                Violation::WrongChat { .. } | Violation::ForeignWebhook => misrouted += 1,
                Violation::Repeated(_) => repeated += 1,
                Violation::OutOfOrder { .. } => out_of_order += 1,
                _ => other += 1,
            }
        }
        let span = state.first_post.zip(state.last_event);
        Summary {
            progress: state.progress,
            misrouted,
            repeated,
            out_of_order,
            other,
            mean: Duration::from_micros(state.latency.mean() as u64),
            p95: Duration::from_micros(state.latency.value_at_quantile(0.95)),
            p99: Duration::from_micros(state.latency.value_at_quantile(0.99)),
            took: span.map_or(Duration::ZERO, |(from, to)| to.duration_since(from)),
        }
    }
}

impl State {
    /// What is wrong with a reply to `tag` in `chat`.
    fn judge(&self, chat: &str, tag: &Tag) -> Vec<Violation> {
        let mut found = Vec::new();
        if tag.chat != chat {
            found.push(Violation::WrongChat { tag: tag.clone(), chat: chat.to_owned() });
        }
        if self.replied.contains(tag) {
            found.push(Violation::Repeated(tag.clone()));
            return found;
        }
        if let Some(after) = self.last_serial.get(&(tag.chat.clone(), tag.sender.clone())).filter(|n| **n > tag.serial)
        {
            found.push(Violation::OutOfOrder { tag: tag.clone(), after: *after });
        }
        if let Some(message) = self.messages.get(&tag.serial) {
            if !message.is(tag) {
                let foreign = Tag::new(&message.chat, &message.sender, tag.serial);
                let (chat, sender) = (tag.chat.clone(), tag.sender.clone());
                found.push(Violation::MixedContext { chat, sender, foreign });
            } else if !message.answered {
                found.push(Violation::Unasked(tag.clone()));
            }
        }
        found
    }

    fn note_reply(&mut self, tag: &Tag, now: Instant) {
        if !self.replied.insert(tag.clone()) {
            return;
        }
        let last = self.last_serial.entry((tag.chat.clone(), tag.sender.clone())).or_default();
        *last = tag.serial.max(*last);
        let Some(message) = self.messages.get_mut(&tag.serial).filter(|m| m.is(tag)) else { return };
        message.replied = true;
        message.permit = None;
        let (was_missing, posted) = (message.acked && message.answered, message.posted);
        self.progress.missing -= u64::from(was_missing);
        if let Some(posted) = posted {
            let micros = now.duration_since(posted).as_micros();
            self.latency.saturating_record(u64::try_from(micros).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    fn posted(ledger: &Ledger, serial: u64, answered: bool) -> Tag {
        let tag = Tag::new("c1", "u1", serial);
        ledger.expect(&tag, answered);
        ledger.posted(serial);
        ledger.acked(serial);
        tag
    }

    #[test]
    fn each_broken_promise_is_seen() {
        let ledger = Ledger::default();
        let tags: Vec<Tag> = (1..=5).map(|n| posted(&ledger, n, n != 4)).collect();
        ledger.posted(1);
        ledger.replied("c1", &tags[1].to_string());
        ledger.replied("c1", &tags[0].to_string());
        ledger.replied("c1", &tags[1].to_string());
        ledger.replied("c2", &tags[2].to_string());
        ledger.replied("c1", &tags[3].to_string());
        ledger.replied("c1", "[c1 u2 5]");
        assert_eq!(
            ledger.violations(),
            [
                Violation::OutOfOrder { tag: tags[0].clone(), after: 2 },
                Violation::Repeated(tags[1].clone()),
                Violation::WrongChat { tag: tags[2].clone(), chat: "c2".into() },
                Violation::Unasked(tags[3].clone()),
                Violation::MixedContext { chat: "c1".into(), sender: "u2".into(), foreign: tags[4].clone() },
            ]
        );
        assert_eq!(ledger.lost(9), [tags[4].clone()]);
        let summary = ledger.summary();
        let counts = [summary.misrouted, summary.repeated, summary.out_of_order, summary.other];
        assert_eq!((counts, summary.kept()), ([1, 1, 1, 2], false));
        assert_eq!(summary.progress, Progress { posted: 5, acked: 5, copies: 1, wanted: 4, missing: 1, replies: 6 });
    }

    #[tokio::test]
    async fn waiting_ends_with_the_last_reply_or_with_patience() {
        let ledger = Ledger::default();
        let tag = posted(&ledger, 1, true);
        assert!(!ledger.all_answered(Duration::from_millis(1)).await);
        let (done, ()) = tokio::join!(ledger.all_answered(Duration::from_secs(60)), async {
            tokio::task::yield_now().await;
            ledger.replied("c1", &tag.to_string());
        });
        assert!(done && ledger.summary().kept());
    }

    #[tokio::test]
    async fn latencies_run_from_the_first_post_and_permits_until_the_reply() {
        let (ledger, permits) = (Ledger::default(), Arc::new(Semaphore::new(10)));
        for serial in 1..=100 {
            let tag = posted(&ledger, serial, true);
            if serial <= 10 {
                ledger.until_replied(serial, Arc::clone(&permits).acquire_owned().await.unwrap());
            }
            let first = ledger.state().messages[&serial].posted.unwrap();
            ledger.posted(serial);
            ledger.state().note_reply(&tag, first + Duration::from_millis(10 * serial));
        }
        let summary = ledger.summary();
        let close = |got: Duration, want: u64| got.abs_diff(Duration::from_millis(want)) <= Duration::from_millis(2);
        assert!(close(summary.p95, 950) && close(summary.p99, 990) && close(summary.mean, 505), "{summary:?}");
        assert_eq!(permits.available_permits(), 10);
        posted(&ledger, 101, false);
        ledger.until_replied(101, Arc::clone(&permits).acquire_owned().await.unwrap());
        assert_eq!(permits.available_permits(), 10, "it wants no reply");
        posted(&ledger, 102, true);
        ledger.until_replied(102, Arc::clone(&permits).acquire_owned().await.unwrap());
        assert_eq!(permits.available_permits(), 9);
    }

    #[test]
    fn a_reply_that_outruns_its_ack_is_not_missing() {
        let ledger = Ledger::default();
        let tag = Tag::new("c1", "u1", 1);
        ledger.expect(&tag, true);
        ledger.posted(1);
        ledger.replied("c1", &tag.to_string());
        ledger.acked(1);
        assert_eq!(ledger.progress().missing, 0);
    }
}
