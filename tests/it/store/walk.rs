//! Contract: random walks. The store and a small model of it take the same steps and must agree on every answer: which
//! lanes a claim brings and how their heads stand, what commit, begin and settle say, what the journal tells. Steps are
//! enqueue, push, claim, commit, begin, settle, release, the end of a worker's lease and its late return; a worker that dies,
//! with its claim's answer or after it; and after any step its repeat as it is, as if its answer had been lost. Lanes and store
//! are small enough to be full at times, messages are given up after two crashes.
//!
//! Which lane comes first is the store's to say; the model knows which lanes may come, so each claim asks for all. Leases
//! end when a step says so, never by themselves: that is tried in `model`.

mod state;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use wecom_gateway::model::Outcome;
use wecom_gateway::store::*;

use self::state::{Chat, Member, Work};
use super::pushes::{child, new_push, open_task, opening, queue_push, state};
use super::*;

const SEEDS: u64 = 12;
const STEPS: usize = 500;
/// Most messages in a lane.
const DEPTH: usize = 6;
/// Most messages and deliveries in a shard.
const WAITING: usize = 14;
/// Crashes that a message does not outlive.
const CRASHES: u32 = 2;

pub async fn random_walks_meet_no_surprise(fixture: &impl Fixture) {
    let shards = fixture.shards();
    let max_waiting = (WAITING * usize::from(shards)) as u64;
    let store = fixture.reopen_as(Options { max_waiting, poison_after: CRASHES, ..Options::default() }).await;
    for seed in 0..SEEDS {
        let mut walk = Walk::new(store.clone(), shards, seed);
        for _ in 0..STEPS {
            walk.step().await;
        }
        walk.finish().await;
    }
}

struct Walk {
    store: SharedStore,
    rng: StdRng,
    seed: u64,
    shards: u16,
    members: Vec<Member>,
    chats: Vec<Chat>,
    requests: usize,
    pushed: usize,
    /// What is said of each.
    tasks: BTreeMap<String, Outcome>,
    /// The stages that the journal must tell of each request.
    told: BTreeMap<String, Vec<Stage>>,
}

impl Walk {
    fn new(store: SharedStore, shards: u16, seed: u64) -> Self {
        let chat = |n: usize| Chat { name: format!("walk{seed}-{n}"), ..Chat::default() };
        let member = |n: usize| Member { chat: n % 2, name: format!("u{n}"), ..Member::default() };
        let (members, chats) = ((0..4).map(member).collect(), (0..2).map(chat).collect());
        let rng = StdRng::seed_from_u64(seed);
        let (tasks, told) = (BTreeMap::new(), BTreeMap::new());
        Self { store, rng, seed, shards, members, chats, requests: 0, pushed: 0, tasks, told }
    }

    async fn step(&mut self) {
        let member = self.rng.random_range(0..self.members.len());
        let chat = self.rng.random_range(0..self.chats.len());
        match self.rng.random_range(0..22) {
            0..5 => self.enqueue(member).await,
            5 => self.enqueue_again(member).await,
            6 => self.claim_messages(false).await,
            7 => {
                let dies = self.rng.random_bool(0.4);
                self.claim_messages(dies).await;
            }
            8..11 => self.commit(member).await,
            11 => self.end_lease_in(member).await,
            12 => self.release_in(member).await,
            13 => self.claim_replies().await,
            14..16 => self.begin(chat).await,
            16..18 => self.settle(chat).await,
            18 => self.end_lease_out(chat).await,
            19..21 => self.push(chat).await,
            _ => self.look(chat).await,
        }
    }

    /// Whether the answer to the step that was just made is lost, so that it is made again as it is.
    fn is_lost(&mut self) -> bool {
        self.rng.random_bool(0.2)
    }

    /// How many wait in the shard of a chat.
    fn waiting_beside(&self, chat: usize) -> usize {
        let shard = |at: usize| lane(&self.chats[at].name).shard(self.shards);
        let messages = self.members.iter().filter(|m| shard(m.chat) == shard(chat)).map(|m| m.waiting.len());
        let replies =
            (0..self.chats.len()).filter(|at| shard(*at) == shard(chat)).map(|at| self.chats[at].waiting.len());
        messages.chain(replies).sum()
    }

    fn tell(&mut self, request_id: &str, stage: Stage) {
        self.told.entry(request_id.to_owned()).or_default().push(stage);
    }

    /// A message, often a copy of an earlier one.
    async fn enqueue(&mut self, member: usize) {
        self.requests += 1;
        let request = format!("w{}r{}", self.seed, self.requests);
        let msg_id = format!("m{}", self.rng.random_range(0..self.requests.min(40)));
        let is_full = self.waiting_beside(self.members[member].chat) >= WAITING;
        let lane = &mut self.members[member];
        let arrival = arrival(&self.chats[lane.chat].name, &lane.name, &msg_id, &request);
        let arrival = Arrival { depth_limit: DEPTH as u64, ..arrival };
        let (expected, stage) = if lane.marks.contains_key(&msg_id) {
            (Enqueued::Duplicate, Some(Stage::Duplicate))
        } else if lane.waiting.len() >= DEPTH {
            (Enqueued::LaneFull, None)
        } else if is_full {
            (Enqueued::StoreFull, None)
        } else {
            lane.waiting.push_back(arrival.clone());
            (Enqueued::Stored, Some(Stage::Accepted))
        };
        if let Some(stage) = stage {
            self.tell(&request, stage);
        }
        assert_eq!(enqueue_one(&self.store, arrival.clone()).await, expected, "{request} {msg_id}");
        while self.is_lost() {
            let again = Arrival { repeated: true, ..arrival.clone() };
            assert_eq!(enqueue_one(&self.store, again).await, expected, "{request} {msg_id} again");
            // A copy is told of each time: it may be a copy indeed.
            if expected == Enqueued::Duplicate {
                self.tell(&request, Stage::Duplicate);
            }
        }
    }

    /// A push, sometimes one that came before.
    async fn push(&mut self, chat: usize) {
        if self.pushed == 0 || self.rng.random_bool(0.8) {
            self.pushed += 1;
        }
        // Each task has one chat alone.
        let n = self.pushed - self.pushed % self.chats.len() + chat;
        let task = format!("w{}p{n}", self.seed);
        let is_full = self.waiting_beside(chat) >= WAITING;
        let lane = &mut self.chats[chat];
        let call = NewPush { depth_limit: DEPTH as u64, ..new_push(&task, &lane.name, 0) };
        let expected = if self.tasks.contains_key(&task) {
            Pushed::Known
        } else if lane.waiting.len() >= DEPTH {
            Pushed::LaneFull
        } else if is_full {
            Pushed::StoreFull
        } else {
            let delivery = call.fate.clone().expect("a delivery");
            lane.apart.insert(delivery.id.clone());
            self.tasks.insert(task.clone(), Outcome::Queued);
            self.tell(&delivery.request_id, Stage::Pushed);
            self.chats[chat].waiting.push_back(delivery);
            Pushed::Queued
        };
        assert_eq!(queue_push(&self.store, call.clone()).await, expected, "{task}");
        open_task(&self.store, opening(&task, 1)).await;
        while self.is_lost() {
            let again = if expected == Pushed::Queued { Pushed::Known } else { expected };
            assert_eq!(queue_push(&self.store, call.clone()).await, again, "{task} again");
        }
    }

    /// An enqueue whose answer was lost changes nothing, also when its message is in work by now.
    async fn enqueue_again(&mut self, member: usize) {
        let member = &self.members[member];
        let owner = |a: &Arrival| member.marks.get(&a.message.msg_id).map(|(owner, _)| owner);
        let own = member.waiting.iter().find(|a| owner(a) == Some(&a.message.request_id));
        if let Some(arrival) = own {
            enqueue(&self.store, Arrival { repeated: true, ..arrival.clone() }).await;
        }
    }

    /// Claims all that may come. Where the worker dies with the answer, its leases end at once and nobody knows them.
    async fn claim_messages(&mut self, dies: bool) {
        let lease = if dies { Duration::from_millis(1) } else { LONG };
        let Claimed { items, poisoned, .. } = self.store.claim_messages(100, lease).await.expect("claim");
        let mut by_lane: HashMap<Lane, ClaimedMessage> =
            items.into_iter().map(|item| (item.lease.lane.clone(), item)).collect();
        let mut given_up = HashSet::new();
        for at in 0..self.members.len() {
            if !self.members[at].work.is_claimable() {
                continue;
            }
            if let Some(request) = self.members[at].count_crash() {
                self.tell(&request, Stage::Expired);
                given_up.insert(request);
            }
            for request in self.members[at].drop_copies() {
                self.tell(&request, Stage::Duplicate);
            }
            let member = &mut self.members[at];
            let late = std::mem::replace(&mut member.work, Work::Free);
            if let Work::Ended(late) = late {
                member.late.push(late);
            }
            let Some(head) = member.waiting.front() else { continue };
            let item = by_lane.remove(&head.lane).expect("this lane may come, so it comes");
            assert_eq!(item.message, head.message);
            let mark = (head.message.request_id.clone(), false);
            let before = member.marks.insert(head.message.msg_id.clone(), mark);
            assert_eq!(item.redelivered, before.is_some());
            member.work = if dies { Work::Orphaned } else { Work::Held(item) };
        }
        assert!(by_lane.is_empty(), "these must not come: {:?}", by_lane.keys());
        assert_eq!(poisoned.into_iter().map(|message| message.request_id).collect::<HashSet<_>>(), given_up);
        if dies {
            pass(Duration::from_millis(3)).await;
        }
    }

    async fn commit(&mut self, at: usize) {
        if let Some(late) = self.members[at].late.pop() {
            let late = commit(&late, vec![reply(&late.message.request_id, &late.message.chat_id, 0, "late")]);
            assert_eq!(finish(&self.store, late).await, Committed::Lost);
            return;
        }
        let member = &mut self.members[at];
        let Some(item) = member.work.worker() else { return };
        let request = item.message.request_id.clone();
        let replies: Vec<Delivery> =
            (0..self.rng.random_range(0..3)).map(|seq| reply(&request, &item.message.chat_id, seq, "hi")).collect();
        let call = commit(item, replies.clone());
        assert_eq!(finish(&self.store, call.clone()).await, Committed::Done);
        member.drop_head();
        member.work = Work::Free;
        self.chats[member.chat].waiting.extend(replies);
        self.tell(&request, Stage::Handled);
        while self.is_lost() {
            assert_eq!(finish(&self.store, call.clone()).await, Committed::Lost);
        }
    }

    async fn end_lease_in(&mut self, at: usize) {
        let member = &mut self.members[at];
        if let Some(late) = member.late.last() {
            end_lease(&self.store, Side::In, &late.lease, false).await;
        }
        match std::mem::replace(&mut member.work, Work::Free) {
            Work::Held(item) => {
                end_lease(&self.store, Side::In, &item.lease, true).await;
                member.work = Work::Ended(item);
            }
            other => member.work = other,
        }
    }

    async fn release_in(&mut self, at: usize) {
        let item = match std::mem::replace(&mut self.members[at].work, Work::Free) {
            Work::Held(item) | Work::Ended(item) => item,
            nobodys @ (Work::Free | Work::Orphaned) => return self.members[at].work = nobodys,
        };
        self.store.release(Side::In, vec![item.lease.clone()], Duration::ZERO).await.expect("release");
        while self.is_lost() {
            self.store.release(Side::In, vec![item.lease.clone()], Duration::ZERO).await.expect("release");
        }
        self.members[at].late.push(item);
    }

    async fn claim_replies(&mut self) {
        let claimed = self.store.claim_replies(100, LONG).await.expect("claim").items;
        let count = claimed.len();
        let mut by_lane: HashMap<Lane, ClaimedReply> =
            claimed.into_iter().map(|item| (item.lease.lane.clone(), item)).collect();
        assert_eq!(by_lane.len(), count, "no lane comes twice");
        for chat in &mut self.chats {
            if !chat.work.is_claimable() || chat.waiting.is_empty() {
                continue;
            }
            let item = by_lane.remove(&lane(&chat.name)).expect("this lane may come, so it comes");
            chat.agrees(&item, chat.begun > 0, chat.held_back);
            chat.held_back = false;
            if let Work::Ended(late) = std::mem::replace(&mut chat.work, Work::Held(item)) {
                chat.late.push(late);
            }
        }
        assert!(by_lane.is_empty(), "these must not come: {:?}", by_lane.keys());
    }

    async fn begin(&mut self, at: usize) {
        let chat = &mut self.chats[at];
        if let Some(late) = chat.late.last() {
            assert_eq!(begin(&self.store, quick(begin_of(late))).await, Begun::Lost);
        }
        let expected = match &chat.work {
            Work::Free | Work::Orphaned => return,
            Work::Ended(_) => Begun::Lost,
            // Several that another began together are settled, never begun again.
            Work::Held(item) if item.begun && chat.begun > 1 => return,
            Work::Held(_) if chat.dead => Begun::ChatDead,
            Work::Held(_) => Begun::Go,
        };
        let item = chat.work.worker().expect("a worker");
        let merged = if chat.begun > 0 { chat.begun } else { self.rng.random_range(1..=1 + item.behind.len()) };
        let call = Begin { merged: merged as u32, ..quick(begin_of(item)) };
        assert_eq!(begin(&self.store, call.clone()).await, expected);
        if expected == Begun::Go {
            chat.begun = merged;
        }
        while self.is_lost() {
            assert_eq!(begin(&self.store, call.clone()).await, expected);
        }
    }

    async fn settle(&mut self, at: usize) {
        let fate = self.fate();
        let go_on = self.rng.random_bool(0.5);
        let chat = &mut self.chats[at];
        if let Some(late) = chat.late.pop() {
            let settled = settle(&self.store, settle_of(&late, fate)).await;
            assert!(matches!(settled, Settled::Lost), "{settled:?}");
            return;
        }
        let Some(item) = chat.work.worker().cloned() else { return };
        let mut call = if go_on { settle_and_go_on(&item, fate.clone()) } else { settle_of(&item, fate.clone()) };
        call.turn = Turn { weight: 100, head_start: LONG };
        let said = if matches!(fate, Fate::Again { .. }) { Outcome::Queued } else { Outcome::Delivered };
        call.child = ChildChange::of(&item.delivery, state(said));
        let merged = chat.begun.max(1);
        call.merged = merged as u32;
        if let Some(go_on) = &mut call.go_on {
            go_on.pace = WIDE;
        }
        let settled = settle(&self.store, call.clone()).await;
        let may_go_on = chat.apply(&fate, merged) && go_on && !chat.waiting.is_empty();
        match settled {
            Settled::Released => chat.work = Work::Free,
            Settled::Next(next, begun) if may_go_on => {
                chat.agrees(&next, false, merged > 1);
                let single = Some(if chat.dead { Begun::ChatDead } else { Begun::Go });
                assert_eq!(begun, single.filter(|_| merged == 1));
                chat.begun = usize::from(begun == Some(Begun::Go));
                chat.work = Work::Held(*next);
            }
            other => panic!("{other:?} after {fate:?}"),
        }
        self.tell(&item.delivery.request_id, Stage::Settled);
        if let Some(push) = &item.delivery.push {
            self.tasks.insert(push.task_id.clone(), said);
        }
        while self.is_lost() {
            self.settle_again(at, call.clone()).await;
        }
    }

    /// A settle whose answer was lost: it went on with the next head, which is still its own, or its lease is given back.
    async fn settle_again(&mut self, at: usize, call: Settle) {
        let chat = &mut self.chats[at];
        let merged = call.merged;
        match (settle(&self.store, call).await, &chat.work) {
            (Settled::Lost, Work::Free) => {}
            (Settled::Next(next, begun), Work::Held(held)) => {
                assert_eq!((&next.lease, &next.delivery), (&held.lease, &held.delivery));
                match begun {
                    Some(Begun::Go) => assert!(chat.begun > 0),
                    // Not begun: the caller asks, and is told that the chat is dead, or how many leave together.
                    Some(Begun::ChatDead) | None => assert!((chat.dead || merged > 1) && chat.begun == 0),
                    Some(other) => panic!("{other:?}"),
                }
            }
            (other, _) => panic!("{other:?} again"),
        }
    }

    fn fate(&mut self) -> Fate {
        match self.rng.random_range(0..10) {
            0..3 => Fate::Delivered,
            3 => ENDED,
            4 => Fate::Ended { back_off: Some(Duration::ZERO), chat_dead: None },
            5 => Fate::Ended { back_off: None, chat_dead: Some(route("home")) },
            6 => again(ParkReason::Transient),
            7 => again(ParkReason::Unanswered),
            8 => again(ParkReason::Apart),
            _ => again(ParkReason::Paced),
        }
    }

    async fn end_lease_out(&mut self, at: usize) {
        let chat = &mut self.chats[at];
        match std::mem::replace(&mut chat.work, Work::Free) {
            Work::Held(item) => {
                end_lease(&self.store, Side::Out, &item.lease, true).await;
                chat.work = Work::Ended(item);
            }
            other => chat.work = other,
        }
    }

    /// What the store tells of a chat is what the model knows; sometimes a dead chat is revived.
    async fn look(&mut self, at: usize) {
        let chat = &mut self.chats[at];
        let status = self.store.chats(vec![lane(&chat.name)]).await.expect("chats").remove(0);
        assert_eq!(status.depth, chat.waiting.len() as u64);
        assert_eq!(status.leased, matches!(chat.work, Work::Held(_)));
        assert_eq!(status.dead.is_some(), chat.dead);
        if self.rng.random_bool(0.5) {
            self.store.revive(&lane(&chat.name)).await.expect("revive");
            chat.dead = false;
        }
        if let Some((task, said)) = self.tasks.iter().choose(&mut self.rng) {
            assert_eq!(child(&self.store, task).await, state(*said));
        }
        let waiting = self.members.iter().map(|m| m.waiting.len()).chain(self.chats.iter().map(|c| c.waiting.len()));
        assert_eq!(self.store.depth().await.expect("depth").waiting, waiting.sum::<usize>() as u64);
    }

    /// Works off what is left, then compares what the journal tells.
    async fn finish(mut self) {
        while self.members.iter().any(|m| !m.waiting.is_empty()) {
            self.claim_messages(false).await;
            for at in 0..self.members.len() {
                self.commit(at).await;
            }
        }
        while self.chats.iter().any(|c| !c.waiting.is_empty()) {
            self.claim_replies().await;
            for at in 0..self.chats.len() {
                self.settle(at).await;
            }
        }
        assert!(self.store.claim_messages(100, LONG).await.expect("claim").items.is_empty());
        assert!(self.store.claim_replies(100, LONG).await.expect("claim").items.is_empty());
        let mut told: BTreeMap<String, Vec<Stage>> = BTreeMap::new();
        for batch in self.store.read_journal(100_000).await.expect("journal") {
            for entry in batch.lines.iter().map(|l| Entry::parse(l).expect("a line")) {
                told.entry(entry.line.request_id).or_default().push(entry.line.stage);
            }
            self.store.trim_journal(&batch).await.expect("trim");
        }
        assert_eq!(told, self.told);
    }
}

/// A rate that no walk reaches.
const WIDE: Pace = Pace { limit: 100_000, window: LONG };

fn quick(begin: Begin) -> Begin {
    Begin { pace: WIDE, ..begin }
}
