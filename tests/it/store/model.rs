//! Contract: everything at random, with workers that crash and answers that are lost, against a small model of what must
//! come out.
//!
//! The model knows which messages came in, which replies each chat still owes and which attempts are open. Every answer of
//! the store is held against it, and at the end everything must have come out: each message handled once, each reply
//! ended once and in its order, each accepted callback with one end of its trail. A message is given up as poison only
//! after so many of its claims were never finished.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wecom_gateway::model::MessageKey;
use wecom_gateway::store::*;

use super::*;

const SEEDS: u64 = 3;
const STEPS: usize = 1500;
/// Crashes that a message does not outlive.
const CRASHES: u32 = 3;
/// Outlives the test: who holds it never loses it.
const SURE: Duration = Duration::from_secs(3600);
/// May end at any moment.
const BRIEF: Duration = Duration::from_millis(25);
const FAST: Pace = Pace { limit: 100_000, window: LONG };

/// A claim in somebody's hands.
struct Held<T> {
    item: T,
    /// Its lease is [`SURE`].
    sure: bool,
    /// An attempt was begun under it.
    begun: bool,
}

struct World {
    store: SharedStore,
    rng: StdRng,
    seed: u64,
    requests: usize,
    last: Option<Arrival>,
    came_in: HashSet<MessageKey>,
    handled: HashSet<MessageKey>,
    /// Those that were given up instead.
    poisoned: HashSet<MessageKey>,
    /// By request: its claims that were neither finished nor given back.
    unfinished: HashMap<String, u32>,
    workers: Vec<Held<ClaimedMessage>>,
    /// Delivery ids that each chat still owes, in order.
    owed: HashMap<String, VecDeque<String>>,
    senders: Vec<Held<ClaimedReply>>,
    /// Delivery ids begun and not settled, and how many deliveries each attempt carries.
    open: HashMap<String, usize>,
}

pub async fn any_interleaving_keeps_the_promises(fixture: &impl Fixture) {
    let store = fixture.reopen_as(Options { poison_after: CRASHES, ..Options::default() }).await;
    for seed in 0..SEEDS {
        let mut world = World::new(store.clone(), seed);
        for _ in 0..STEPS {
            match world.rng.random_range(0..12) {
                0..3 => world.enqueue().await,
                3 => world.claim_messages().await,
                4 | 5 => world.finish_message().await,
                6 => world.claim_replies().await,
                7 | 8 => world.begin().await,
                9 | 10 => world.settle().await,
                _ => world.crash(),
            }
        }
        tokio::time::timeout(LONG, world.drain()).await.expect("it runs dry");
        world.check_trails().await;
    }
}

fn pick<T>(rng: &mut StdRng, from: &mut Vec<T>) -> Option<T> {
    if from.is_empty() {
        return None;
    }
    let i = rng.random_range(0..from.len());
    Some(from.swap_remove(i))
}

impl World {
    fn new(store: SharedStore, seed: u64) -> Self {
        Self {
            store,
            rng: StdRng::seed_from_u64(seed),
            seed,
            requests: 0,
            last: None,
            came_in: HashSet::new(),
            handled: HashSet::new(),
            poisoned: HashSet::new(),
            unfinished: HashMap::new(),
            workers: Vec::new(),
            owed: HashMap::new(),
            senders: Vec::new(),
            open: HashMap::new(),
        }
    }

    fn lease(&mut self) -> (Duration, bool) {
        let sure = self.rng.random_bool(0.6);
        (if sure { SURE } else { BRIEF }, sure)
    }

    async fn enqueue(&mut self) {
        if let Some(again) = self.last.clone().filter(|_| self.rng.random_bool(0.1)) {
            // Another copy may have got ahead of it.
            let answer = enqueue_one(&self.store, again).await;
            return assert!(matches!(answer, Enqueued::Stored | Enqueued::Duplicate), "{answer:?}");
        }
        self.requests += 1;
        let rng = &mut self.rng;
        let (chat, sender, msg) = (rng.random_range(0..3), rng.random_range(0..2), rng.random_range(0..15));
        let names = (format!("chat{}-{chat}", self.seed), format!("u{sender}"), format!("m{msg}"));
        let new = arrival(&names.0, &names.1, &names.2, &format!("r{}-{}", self.seed, self.requests));
        let key = new.message.key();
        let answer = enqueue_one(&self.store, new.clone()).await;
        if self.handled.contains(&key) || self.poisoned.contains(&key) {
            assert_eq!(answer, Enqueued::Duplicate, "{key:?} is done");
        }
        if answer == Enqueued::Stored {
            self.last = Some(new);
        }
        self.came_in.insert(key);
    }

    async fn claim_messages(&mut self) {
        let (lease, sure) = self.lease();
        let want = self.rng.random_range(1..4);
        let claimed = self.store.claim_messages(want, lease).await.expect("claim");
        assert!(claimed.items.len() <= want);
        for Poisoned { request_id, key } in claimed.poisoned {
            assert!(self.unfinished.remove(&request_id) >= Some(CRASHES), "{request_id} was given up early");
            assert!(!self.workers.iter().any(|w| w.sure && w.item.message.key() == key), "{key:?} is being worked");
            assert!(!self.handled.contains(&key) && self.poisoned.insert(key));
        }
        for item in claimed.items {
            let key = item.message.key();
            assert!(!self.handled.contains(&key) && !self.poisoned.contains(&key), "{item:?} has ended");
            let unfinished = self.unfinished.entry(item.message.request_id.clone()).or_default();
            *unfinished += 1;
            let stolen = self.workers.iter().find(|w| w.sure && w.item.lease.lane == item.lease.lane);
            assert!(stolen.is_none(), "{item:?} is being worked");
            self.workers.push(Held { item, sure, begun: false });
        }
    }

    async fn finish_message(&mut self) {
        let Some(worker) = pick(&mut self.rng, &mut self.workers) else { return };
        if self.rng.random_bool(0.15) {
            if worker.sure {
                self.unfinished.entry(worker.item.message.request_id.clone()).and_modify(|claims| *claims -= 1);
            }
            return self.store.release(Side::In, vec![worker.item.lease], Duration::ZERO).await.expect("release");
        }
        let (message, key) = (&worker.item.message, worker.item.message.key());
        let replies: Vec<_> = (0..self.rng.random_range(0..4))
            .map(|seq| reply(&message.request_id, &message.chat_id, seq, "text"))
            .collect();
        let ids: Vec<_> = replies.iter().map(|r| r.id.clone()).collect();
        let call = commit(&worker.item, replies);
        let committed = finish(&self.store, call.clone()).await;
        if self.rng.random_bool(0.2) {
            assert_eq!(finish(&self.store, call).await, Committed::Lost, "its answer was lost");
        }
        match committed {
            Committed::Done => {
                assert!(self.handled.insert(key.clone()), "{key:?} was handled twice");
                self.owed.entry(message.chat_id.clone()).or_default().extend(ids);
            }
            Committed::Lost => assert!(!worker.sure, "{key:?} was lost"),
            Committed::LaneFull => panic!("there is room"),
        }
    }

    fn owes(&self, claimed: &ClaimedReply) {
        let first = self.owed.get(&claimed.delivery.chat_id).and_then(VecDeque::front);
        assert_eq!(first, Some(&claimed.delivery.id));
    }

    async fn claim_replies(&mut self) {
        let (lease, sure) = self.lease();
        let want = self.rng.random_range(1..3);
        let claimed = self.store.claim_replies(want, lease).await.expect("claim");
        assert!(claimed.items.len() <= want);
        for item in claimed.items {
            self.owes(&item);
            assert_eq!(item.begun, self.open.contains_key(&item.delivery.id), "{item:?}");
            if let Some(carried) = self.open.get(&item.delivery.id) {
                let owed = self.owed[&item.delivery.chat_id].iter().skip(1).take(carried - 1);
                assert!(item.behind.iter().map(|delivery| &delivery.id).eq(owed), "{item:?}");
            }
            let stolen = self.senders.iter().find(|s| s.sure && s.item.lease.lane == item.lease.lane);
            assert!(stolen.is_none(), "{item:?} is being sent");
            self.senders.push(Held { item, sure, begun: false });
        }
    }

    async fn begin(&mut self) {
        let Some(mut sender) = pick(&mut self.rng, &mut self.senders) else { return };
        // What another began is settled, never begun again.
        if sender.item.begun || sender.begun {
            return self.senders.push(sender);
        }
        let (lease_for, sure) = self.lease();
        let carried = self.rng.random_range(1..=1 + sender.item.behind.len());
        let call = Begin { lease_for, pace: FAST, merged: carried as u32, ..begin_of(&sender.item) };
        match begin(&self.store, call).await {
            Begun::Go => {
                self.owes(&sender.item);
                self.open.insert(sender.item.delivery.id.clone(), carried);
                sender = Held { sure, begun: true, ..sender };
                self.senders.push(sender);
            }
            Begun::Lost => assert!(!sender.sure, "{:?} was lost", sender.item),
            other => panic!("neither paced nor paused nor dead: {other:?}"),
        }
    }

    async fn settle(&mut self) {
        let Some(sender) = pick(&mut self.rng, &mut self.senders) else { return };
        let fate = match self.rng.random_range(0..6) {
            0 => again(ParkReason::Transient),
            1 => ENDED,
            2 => again(ParkReason::Paced),
            3 if self.rng.random_bool(0.3) => again(ParkReason::Apart),
            _ if sender.begun => Fate::Delivered,
            _ => ENDED,
        };
        self.settle_as(sender, fate).await;
    }

    async fn settle_as(&mut self, sender: Held<ClaimedReply>, fate: Fate) {
        let stays = matches!(fate, Fate::Again { .. });
        let go_on = GoOn { route: route("home"), pace: FAST, lease_for: SURE };
        let go_on = Some(go_on).filter(|_| self.rng.random_bool(0.5));
        let delivery = &sender.item.delivery;
        let merged = match (sender.begun, sender.item.begun) {
            (true, _) => self.open.get(&delivery.id).copied().unwrap_or(1),
            (false, true) => 1 + sender.item.behind.len(),
            (false, false) => 1,
        };
        let call = Settle { go_on, merged: merged as u32, ..settle_of(&sender.item, fate) };
        let answer = settle(&self.store, call).await;
        if matches!(answer, Settled::Lost) {
            return assert!(!sender.sure, "{:?} was lost", sender.item);
        }
        self.owes(&sender.item);
        self.open.remove(&delivery.id);
        if !stays {
            self.owed.get_mut(&delivery.chat_id).expect("it owes").drain(..merged);
        }
        match answer {
            Settled::Released => {}
            Settled::Next(item, Some(Begun::Go)) => {
                self.owes(&item);
                self.open.insert(item.delivery.id.clone(), 1);
                self.senders.push(Held { item: *item, sure: true, begun: true });
            }
            Settled::Next(item, None) if merged > 1 => {
                self.owes(&item);
                self.senders.push(Held { item: *item, sure: true, begun: false });
            }
            other => panic!("{other:?}"),
        }
    }

    /// Somebody dies. Those with a sure lease don't: the test would wait for its end.
    fn crash(&mut self) {
        self.workers.retain(|worker| worker.sure || self.rng.random_bool(0.5));
        self.senders.retain(|sender| sender.sure || self.rng.random_bool(0.5));
    }

    async fn drain(&mut self) {
        loop {
            while !self.workers.is_empty() {
                self.finish_message().await;
            }
            while let Some(sender) = self.senders.pop() {
                self.settle_as(sender, ENDED).await;
            }
            let depth = self.store.depth().await.expect("depth");
            if (depth.in_lanes, depth.out_lanes) == (0, 0) {
                return;
            }
            self.claim_messages().await;
            self.claim_replies().await;
            if self.workers.is_empty() && self.senders.is_empty() {
                pass(BRIEF / 5).await;
            }
        }
    }

    async fn check_trails(&self) {
        assert_eq!(self.handled.union(&self.poisoned).cloned().collect::<HashSet<_>>(), self.came_in);
        assert!(self.owed.values().all(VecDeque::is_empty) && self.open.is_empty());
        let mut handled: HashMap<MessageKey, usize> = HashMap::new();
        let mut trails: HashMap<String, Vec<Stage>> = HashMap::new();
        let told = entries(&self.store).await;
        for batch in self.store.read_journal(told.len()).await.expect("journal") {
            self.store.trim_journal(&batch).await.expect("trim");
        }
        for Entry { line, .. } in told {
            if line.stage == Stage::Handled {
                *handled.entry(line.key).or_default() += 1;
            }
            trails.entry(line.request_id).or_default().push(line.stage);
        }
        assert!(handled.len() == self.handled.len() && handled.values().all(|n| *n == 1), "{handled:?}");
        assert_eq!(trails.len(), self.requests);
        for (request, trail) in trails {
            // A copy that was put in twice under one id is stopped twice, which is one outcome.
            let ends: HashSet<_> =
                trail.iter().filter(|s| matches!(s, Stage::Handled | Stage::Duplicate | Stage::Expired)).collect();
            assert_eq!(ends.len(), 1, "{request}: {trail:?}");
        }
    }
}
