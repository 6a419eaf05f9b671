//! The embedded store with a gate before its `enqueue` and one behind its `claim_messages`, and an endpoint that has
//! nothing else behind it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use wecom_gateway::alarms::Alarms;
use wecom_gateway::ingress::{Ingress, Intake};
use wecom_gateway::model::{Lane, Secret, SessionKey};
use wecom_gateway::setup::InForce;
use wecom_gateway::sim::{FakeWeCom, Options, Scenario};
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::store::{
    Answered, Arrival, Begin, Begun, ChatStatus, Claimed, ClaimedMessage, ClaimedReply, Commit, Committed, Depth,
    Enqueued, JournalBatch, LateAnswer, Lease, Line, Members, Note, NoteWrite, Noted, Operated, Operation, Pushes,
    Remembered, Result, Settle, Settled, SharedStore, Side, Spool, Store, StoreError, Tuning, Waiting, Wakeups,
};
use wecom_gateway::telemetry::{Metrics, Spans};

use super::client::Client;
use super::endpoint::every_kind;
use crate::world::{APP, TEST};

/// What happens to those who come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    Open,
    /// They wait.
    Shut,
    /// The next call finds no room for its first message; then all is as with `Open`.
    Full,
    /// The store is away: they are sent off.
    Away,
    /// The store's own code fails.
    Broken,
}

/// See the module.
pub struct Gated {
    inner: SharedStore,
    gate: watch::Sender<Gate>,
    /// How many came, and how many of them were let through and are stored.
    came: watch::Sender<usize>,
    stored: watch::Sender<usize>,
    /// Whether claims that brought something are held back, and how many there were.
    claims_held: watch::Sender<bool>,
    claimed: watch::Sender<usize>,
}

impl Gated {
    /// Before this store.
    pub fn new(inner: SharedStore) -> Arc<Self> {
        let count = || watch::Sender::new(0);
        let (gate, claims_held) = (watch::Sender::new(Gate::Open), watch::Sender::new(false));
        Arc::new(Self { inner, gate, came: count(), stored: count(), claims_held, claimed: count() })
    }

    /// Holds the answers of claims back, or lets them go.
    pub fn hold_claims(&self, held: bool) {
        self.claims_held.send_replace(held);
    }

    /// Waits until so many claims brought something.
    pub async fn until_claimed(&self, number: usize) {
        reached(&self.claimed, number).await;
    }

    pub fn set(&self, gate: Gate) {
        self.gate.send_replace(gate);
    }

    pub fn came(&self) -> usize {
        *self.came.borrow()
    }

    /// Waits until so many came.
    pub async fn until_came(&self, number: usize) {
        reached(&self.came, number).await;
    }

    /// Waits until so many are stored.
    pub async fn until_stored(&self, number: usize) {
        reached(&self.stored, number).await;
    }
}

async fn reached(count: &watch::Sender<usize>, number: usize) {
    let mut count = count.subscribe();
    let reached = tokio::time::timeout(TEST, count.wait_for(|count| *count >= number)).await.is_ok();
    assert!(reached, "only {} of {number}", *count.borrow());
}

/// The endpoint alone: whatever is stored stays in its lane.
pub struct Bare {
    pub client: Client,
    pub store: Arc<Gated>,
    pub metrics: Arc<Metrics>,
    _fake: FakeWeCom,
    _scenario: Scenario,
}

impl Bare {
    pub async fn new() -> Self {
        Self::with(|scenario| scenario).await
    }

    pub async fn with(shape: impl FnOnce(Scenario) -> Scenario) -> Self {
        Self::beside(None, shape).await
    }

    /// With a spool that nothing replays.
    pub async fn beside(spool: Option<Arc<Spool>>, shape: impl FnOnce(Scenario) -> Scenario) -> Self {
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let scenario = shape(every_kind(&fake, Scenario::new(&fake).unwrap()));
        let settings = wecom_gateway::config::load(&scenario.write().unwrap()).unwrap();
        let inner = EmbeddedStore::open(&settings.store.path, settings.store_options()).unwrap();
        let store = Gated::new(inner);
        let metrics = Arc::new(Metrics::default());
        let alarms = Alarms::unheard(metrics.clone());
        let intake = Intake::new(store.clone(), spool, alarms, metrics.clone());
        let router = Ingress::new(
            InForce::new(settings).unwrap(),
            intake,
            Arc::default(),
            metrics.clone(),
            Arc::default(),
            Spans::default(),
            Arc::default(),
        )
        .router();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(listener.local_addr().unwrap());
        // Ends with the test's runtime.
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { client, store, metrics, _fake: fake, _scenario: scenario }
    }

    /// How many callbacks of the robot ended like this.
    pub fn counted(&self, result: &str) -> u64 {
        let name = format!("wecom_gateway_callbacks_total{{app=\"{APP}\",result=\"{result}\"}} ");
        let metrics = self.metrics.render();
        metrics.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
    }

    /// Messages that stand in lanes.
    pub async fn lanes(&self) -> u64 {
        self.store.depth().await.unwrap().in_lanes
    }
}

#[async_trait]
impl Store for Gated {
    async fn enqueue(&self, batch: Vec<Arrival>) -> Result<Vec<Enqueued>> {
        self.came.send_modify(|came| *came += 1);
        let gate = *self.gate.subscribe().wait_for(|gate| *gate != Gate::Shut).await.unwrap();
        match gate {
            Gate::Open | Gate::Shut => {
                let answers = self.inner.enqueue(batch).await;
                self.stored.send_modify(|stored| *stored += 1);
                answers
            }
            Gate::Full => {
                self.set(Gate::Open);
                let stored = self.inner.enqueue(batch[1..].to_vec()).await?;
                Ok([vec![Enqueued::LaneFull], stored].concat())
            }
            Gate::Away => Err(StoreError::Unavailable("as told".into())),
            Gate::Broken => panic!("as told"),
        }
    }
    async fn claim_messages(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedMessage>> {
        let claimed = self.inner.claim_messages(want, lease).await?;
        if !claimed.items.is_empty() {
            self.claimed.send_modify(|claimed| *claimed += 1);
            self.claims_held.subscribe().wait_for(|held| !held).await.unwrap();
        }
        Ok(claimed)
    }
    async fn commit(&self, batch: Vec<Commit>) -> Result<Vec<Committed>> {
        self.inner.commit(batch).await
    }
    async fn claim_replies(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedReply>> {
        self.inner.claim_replies(want, lease).await
    }
    async fn begin(&self, batch: Vec<Begin>) -> Result<Vec<Begun>> {
        self.inner.begin(batch).await
    }
    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Settled>> {
        self.inner.settle(batch).await
    }
    async fn renew(&self, side: Side, leases: Vec<Lease>, lease: Duration) -> Result<Vec<bool>> {
        self.inner.renew(side, leases, lease).await
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
