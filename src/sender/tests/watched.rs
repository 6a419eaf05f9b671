//! The embedded store with a window in it: tests see what the sender settles and renews, and make chosen calls fail.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::model::{Lane, Secret, SessionKey};
use crate::store::{
    Answered, Arrival, Begin, Begun, ChatStatus, Claimed, ClaimedMessage, ClaimedReply, Commit, Committed, Depth,
    Enqueued, JournalBatch, LateAnswer, Lease, Line, Members, Note, NoteWrite, Noted, Operated, Operation, Pushes,
    Remembered, Result, Settle, Settled, SharedStore, Side, Store, StoreError, Tuning, Waiting, Wakeups,
};

/// How one call goes wrong.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It fails and does nothing.
    Unapplied,
    /// It is applied, but its answer is lost.
    AnswerLost,
    /// Its caller panics.
    Panic,
}

/// What the sender did to the store.
#[derive(Debug)]
pub enum Event {
    /// A settle was answered otherwise than `Lost`.
    Settled(Box<Settle>),
    /// A settle was answered `Lost`.
    Lost,
    /// Leases were prolonged.
    Renewed,
    /// A call went wrong as the test wished.
    Failed,
}

/// See the module.
pub struct Watched {
    inner: SharedStore,
    /// Lanes that the sender holds now, and the most that it ever held.
    leased: AtomicUsize,
    most_leased: AtomicUsize,
    /// Cancelled by the next claim that brings something.
    at_claim: Mutex<Option<CancellationToken>>,
    faults: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    events: mpsc::UnboundedSender<Event>,
}

impl Watched {
    /// Watches `inner`.
    pub fn new(inner: SharedStore) -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, seen) = mpsc::unbounded_channel();
        let watched = Self {
            inner,
            leased: AtomicUsize::new(0),
            most_leased: AtomicUsize::new(0),
            at_claim: Mutex::default(),
            faults: Mutex::default(),
            events,
        };
        (watched, seen)
    }

    /// Cancels `token` between a claim and its use.
    pub fn cancel_at_claim(&self, token: CancellationToken) {
        *self.at_claim.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }

    /// The most lanes that were leased by the sender at once.
    pub fn most_leased(&self) -> usize {
        self.most_leased.load(Ordering::SeqCst)
    }

    fn given_back(&self, lanes: usize) {
        self.leased.fetch_sub(lanes, Ordering::SeqCst);
    }

    /// The next calls of `verb` go wrong like this.
    pub fn fail(&self, verb: &'static str, faults: &[Fault]) {
        self.lock().entry(verb).or_default().extend(faults);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<&'static str, VecDeque<Fault>>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<T>(&self, verb: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let fault = self.lock().get_mut(verb).and_then(VecDeque::pop_front);
        if fault.is_some() {
            let _ = self.events.send(Event::Failed);
        }
        match fault {
            None => call.await,
            Some(Fault::Panic) => panic!("as told"),
            Some(Fault::Unapplied) => Err(StoreError::Unavailable("as told".into())),
            Some(Fault::AnswerLost) => {
                call.await.expect("applied");
                Err(StoreError::Unavailable("as told".into()))
            }
        }
    }
}

#[async_trait]
impl Store for Watched {
    async fn enqueue(&self, batch: Vec<Arrival>) -> Result<Vec<Enqueued>> {
        self.inner.enqueue(batch).await
    }
    async fn claim_messages(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedMessage>> {
        self.inner.claim_messages(want, lease).await
    }
    async fn commit(&self, batch: Vec<Commit>) -> Result<Vec<Committed>> {
        self.inner.commit(batch).await
    }
    async fn claim_replies(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedReply>> {
        let claimed = self.call("claim_replies", self.inner.claim_replies(want, lease)).await?;
        let now = self.leased.fetch_add(claimed.items.len(), Ordering::SeqCst) + claimed.items.len();
        self.most_leased.fetch_max(now, Ordering::SeqCst);
        if !claimed.items.is_empty()
            && let Some(token) = self.at_claim.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            token.cancel();
        }
        Ok(claimed)
    }
    async fn begin(&self, batch: Vec<Begin>) -> Result<Vec<Begun>> {
        self.call("begin", self.inner.begin(batch)).await
    }
    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Settled>> {
        let settles = batch.clone();
        let answers = self.call("settle", self.inner.settle(batch)).await?;
        for (settle, answer) in settles.into_iter().zip(&answers) {
            let lost = matches!(answer, Settled::Lost);
            if !matches!(answer, Settled::Next(..)) {
                self.given_back(1);
            }
            let _ = self.events.send(if lost { Event::Lost } else { Event::Settled(Box::new(settle)) });
        }
        Ok(answers)
    }
    async fn renew(&self, side: Side, leases: Vec<Lease>, lease: Duration) -> Result<Vec<bool>> {
        let kept = self.inner.renew(side, leases, lease).await?;
        if kept.contains(&true) {
            let _ = self.events.send(Event::Renewed);
        }
        Ok(kept)
    }
    async fn release(&self, side: Side, leases: Vec<Lease>, pause: Duration) -> Result<()> {
        self.inner.release(side, leases, pause).await
    }
    async fn waiting(&self, lane: &Lane, request_id: &str) -> Result<Option<Waiting>> {
        self.inner.waiting(lane, request_id).await
    }
    async fn session(&self, key: &SessionKey) -> Result<Remembered> {
        self.inner.session(key).await
    }
    async fn forget_session(&self, key: &SessionKey, keep: Duration, change: Option<Line>) -> Result<()> {
        self.inner.forget_session(key, keep, change).await
    }
    async fn answer_late(&self, answer: LateAnswer) -> Result<Answered> {
        self.inner.answer_late(answer).await
    }
    async fn revive(&self, lane: &Lane) -> Result<()> {
        self.inner.revive(lane).await
    }
    async fn tune(&self, tuning: Tuning) -> Result<()> {
        self.inner.tune(tuning).await
    }
    async fn note_change(&self, change: Line) -> Result<()> {
        self.inner.note_change(change).await
    }
    async fn operate(&self, operation: Operation) -> Result<Operated> {
        self.inner.operate(operation).await
    }
    async fn read_notes(&self, notes: Vec<Note>) -> Result<Vec<Option<Noted>>> {
        self.inner.read_notes(notes).await
    }
    async fn write_note(&self, write: NoteWrite) -> Result<bool> {
        self.inner.write_note(write).await
    }
    async fn drop_note(&self, note: &Note, seen: Option<&Secret>) -> Result<bool> {
        self.inner.drop_note(note, seen).await
    }
    async fn lock_note(&self, note: &Note, owner: &str, ttl: Duration) -> Result<bool> {
        self.inner.lock_note(note, owner, ttl).await
    }
    async fn unlock_note(&self, note: &Note, owner: &str) -> Result<()> {
        self.inner.unlock_note(note, owner).await
    }
    async fn chats(&self, lanes: Vec<Lane>) -> Result<Vec<ChatStatus>> {
        self.inner.chats(lanes).await
    }
    async fn busy_chats(&self, limit: usize) -> Result<Vec<Lane>> {
        self.inner.busy_chats(limit).await
    }
    async fn read_journal(&self, max: usize) -> Result<Vec<JournalBatch>> {
        self.inner.read_journal(max).await
    }
    async fn trim_journal(&self, batch: &JournalBatch) -> Result<()> {
        self.inner.trim_journal(batch).await
    }
    async fn rotate_journal(&self, batch: &JournalBatch, keep: Vec<String>) -> Result<bool> {
        self.inner.rotate_journal(batch, keep).await
    }
    async fn depth(&self) -> Result<Depth> {
        self.inner.depth().await
    }
    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }
    fn pushes(&self) -> &dyn Pushes {
        self.inner.pushes()
    }
    fn members(&self) -> &dyn Members {
        self.inner.members()
    }
    fn wakeups(&self) -> &Wakeups {
        self.inner.wakeups()
    }
}
