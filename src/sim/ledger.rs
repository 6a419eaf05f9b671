//! The ledger: what was posted, what came back, and everything that should not have happened.
//!
//! It sees the gateway from outside only. A reply is traced to its message by the [`Tag`] in its text, so the ledger can
//! say of each one whether it stands in the right chat, came once, and came in order. Always: a violation, once recorded,
//! stays; a message counts as lost only when WeCom got its `success`, no reply followed, and WeCom refused none either;
//! an order between two messages is owed only where the first was answered before the second was posted.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::behaviour::Refusal;
use super::summary::{Progress, Sample, Summary};
use super::violation::{Tag, Violation};

/// One message of a load.
#[derive(Debug)]
struct Message {
    chat: String,
    sender: String,
    answered: bool,
    posted: Option<Instant>,
    acked: Option<Instant>,
    replied: bool,
    /// WeCom's worst word on its reply so far.
    refused: Option<Refusal>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Message {
    /// Whether `tag` names this message (the serial is known to fit).
    fn is(&self, tag: &Tag) -> bool {
        self.chat == tag.chat && self.sender == tag.sender
    }
    /// Whether it was taken, wants a reply and has none.
    fn is_unanswered(&self) -> bool {
        self.answered && self.acked.is_some() && !self.replied
    }
    /// Whether its reply may still come.
    fn is_missing(&self) -> bool {
        self.is_unanswered() && !matches!(self.refused, Some(Refusal::ForGood | Refusal::ChatGone))
    }
}

#[derive(Debug)]
struct State {
    messages: HashMap<u64, Message>,
    replied: HashSet<Tag>,
    last_serial: HashMap<(String, String), u64>,
    violations: Vec<Violation>,
    /// Chats whose robot said that it is gone.
    gone: HashSet<String>,
    latency: Histogram<u64>,
    samples: Vec<Sample>,
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
            gone: HashSet::new(),
            latency,
            samples: Vec::new(),
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
            acked: None,
            replied: false,
            refused: None,
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
        let now = Instant::now();
        let mut state = self.state();
        state.last_event = Some(now);
        let Some(message) = state.messages.get(&serial) else { return };
        if message.acked.is_some() {
            return;
        }
        let (wanted, gone) = (message.answered, state.gone.contains(&message.chat));
        state.progress.acked += 1;
        state.progress.wanted += u64::from(wanted);
        state.change(serial, |message| {
            message.acked = Some(now);
            if gone {
                message.refused = Some(Refusal::ChatGone);
            }
        });
        drop(state);
        self.stir();
    }

    /// Gives `permit` back once this message has its reply; at once where it wants none.
    pub fn until_replied(&self, serial: u64, permit: OwnedSemaphorePermit) {
        if let Some(message) = self.state().messages.get_mut(&serial).filter(|m| m.is_missing()) {
            message.permit = Some(permit);
        }
    }

    /// A reply arrived in `chat`: checks its place, its count and its order by the tag in its text. A text that was joined
    /// from several replies counts as each of them; one without a tag is only counted.
    pub fn replied(&self, chat: &str, text: &str) {
        let tags = tags(text);
        let mut state = self.state();
        let now = Instant::now();
        state.last_event = Some(now);
        state.progress.untagged += u64::from(tags.is_empty());
        for tag in tags {
            state.progress.replies += 1;
            let found = state.judge(chat, &tag);
            state.violations.extend(found);
            state.note_reply(&tag, now);
        }
        drop(state);
        self.stir();
    }

    /// A reply was refused: its message is not lost, whatever becomes of the reply.
    pub fn refused(&self, chat: &str, text: &str, refusal: Refusal) {
        let mut state = self.state();
        for tag in tags(text) {
            state.change(tag.serial, |message| message.refused = message.refused.max(Some(refusal)));
        }
        if refusal == Refusal::ChatGone && state.gone.insert(chat.to_owned()) {
            state.give_up(chat);
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

    /// Latencies, in the order in which the replies came.
    pub fn samples(&self) -> Vec<Sample> {
        self.state().samples.clone()
    }

    /// Waits until every acked message whose reply may still come has one; `false` when nothing moved for `patience`.
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

    /// Acked messages that have neither a reply nor WeCom's refusal of one, at most `limit`, lowest serial first.
    pub fn lost(&self, limit: usize) -> Vec<Tag> {
        let state = self.state();
        let lost = state.messages.iter().filter(|(_, m)| m.is_unanswered() && m.refused.is_none());
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
        let unanswered = || state.messages.values().filter(|m| m.is_unanswered());
        let span = state.first_post.zip(state.last_event);
        let micros = |micros: u64| Duration::from_micros(micros);
        Summary {
            progress: state.progress,
            lost: unanswered().filter(|m| m.refused.is_none()).count() as u64,
            refused: unanswered().filter(|m| m.refused.is_some()).count() as u64,
            misrouted,
            repeated,
            out_of_order,
            other,
            mean: micros(state.latency.mean() as u64),
            p50: micros(state.latency.value_at_quantile(0.5)),
            p95: micros(state.latency.value_at_quantile(0.95)),
            p99: micros(state.latency.value_at_quantile(0.99)),
            slowest: micros(state.latency.max()),
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
        let last = self.last_serial.get(&(tag.chat.clone(), tag.sender.clone()));
        if let Some(after) = last.filter(|last| **last > tag.serial && self.is_ordered(tag.serial, **last)) {
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

    /// Whether `first` was taken before `second` was posted; so it is assumed of messages that nobody announced.
    fn is_ordered(&self, first: u64, second: u64) -> bool {
        let (Some(first), Some(second)) = (self.messages.get(&first), self.messages.get(&second)) else { return true };
        first.acked.zip(second.posted).is_some_and(|(acked, posted)| acked <= posted)
    }

    /// Changes a message and what is counted of it.
    fn change(&mut self, serial: u64, change: impl FnOnce(&mut Message)) {
        let Some(message) = self.messages.get_mut(&serial) else { return };
        let before = message.is_missing();
        change(message);
        let after = message.is_missing();
        if before && !after {
            message.permit = None;
        }
        self.progress.missing += u64::from(after);
        self.progress.missing -= u64::from(before);
    }

    /// No reply can reach this chat any more.
    fn give_up(&mut self, chat: &str) {
        let of_chat = self.messages.iter().filter(|(_, m)| m.chat == chat && m.is_missing());
        let serials: Vec<u64> = of_chat.map(|(serial, _)| *serial).collect();
        for serial in serials {
            self.change(serial, |message| message.refused = Some(Refusal::ChatGone));
        }
    }

    fn note_reply(&mut self, tag: &Tag, now: Instant) {
        if !self.replied.insert(tag.clone()) {
            return;
        }
        let last = self.last_serial.entry((tag.chat.clone(), tag.sender.clone())).or_default();
        *last = tag.serial.max(*last);
        let Some(posted) = self.messages.get(&tag.serial).filter(|m| m.is(tag)).map(|m| m.posted) else { return };
        self.change(tag.serial, |message| {
            message.replied = true;
            message.permit = None;
        });
        self.progress.answered += 1;
        if let Some((posted, first)) = posted.zip(self.first_post) {
            let latency = now.duration_since(posted);
            self.latency.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
            self.samples.push(Sample { posted: posted.duration_since(first), latency });
        }
    }
}

/// The tags of a text, each once.
fn tags(text: &str) -> Vec<Tag> {
    let mut tags: Vec<Tag> = Vec::new();
    Tag::all(text).for_each(|tag| {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    });
    tags
}

#[cfg(test)]
mod tests;
