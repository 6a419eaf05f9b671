//! Contract: random walks. The store and a small model of it take the same steps and must agree on every answer: which
//! lanes a claim brings and how their heads stand, what commit, begin and settle say, what the journal tells. Steps are
//! enqueue, repeat, claim, commit, begin, settle, release, the end of a worker's lease and its late return.
//!
//! Which lane comes first is the store's to say; the model knows which lanes may come, so each claim asks for all. Leases
//! end when a step says so, never by themselves: that is tried in `model`.

mod state;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wecom_gateway::store::*;

use self::state::{Chat, Member, Work};
use super::*;

const STEPS: usize = 300;
const DEPTH: usize = 6;

pub async fn random_walks_meet_no_surprise(fixture: &impl Fixture) {
    for seed in 0..4 {
        let mut walk = Walk::new(fixture.store(), seed);
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
    members: Vec<Member>,
    chats: Vec<Chat>,
    requests: usize,
    /// The stages that the journal must tell of each request.
    told: BTreeMap<String, Vec<Stage>>,
}

impl Walk {
    fn new(store: SharedStore, seed: u64) -> Self {
        let chat = |n: usize| Chat { name: format!("walk{seed}-{n}"), ..Chat::default() };
        let member = |n: usize| Member { chat: n % 2, name: format!("u{n}"), ..Member::default() };
        let (members, chats) = ((0..4).map(member).collect(), (0..2).map(chat).collect());
        Self { store, rng: StdRng::seed_from_u64(seed), seed, members, chats, requests: 0, told: BTreeMap::new() }
    }

    async fn step(&mut self) {
        let member = self.rng.random_range(0..self.members.len());
        let chat = self.rng.random_range(0..self.chats.len());
        match self.rng.random_range(0..20) {
            0..5 => self.enqueue(member).await,
            5 => self.enqueue_again(member).await,
            6..8 => self.claim_messages().await,
            8..11 => self.commit(member).await,
            11 => self.end_lease_in(member).await,
            12 => self.release_in(member).await,
            13 => self.claim_replies().await,
            14..16 => self.begin(chat).await,
            16..18 => self.settle(chat).await,
            18 => self.end_lease_out(chat).await,
            _ => self.look(chat).await,
        }
    }

    fn tell(&mut self, request_id: &str, stage: Stage) {
        self.told.entry(request_id.to_owned()).or_default().push(stage);
    }

    /// A message, often a copy of an earlier one.
    async fn enqueue(&mut self, member: usize) {
        self.requests += 1;
        let request = format!("w{}r{}", self.seed, self.requests);
        let msg_id = format!("m{}", self.rng.random_range(0..self.requests.min(40)));
        let lane = &mut self.members[member];
        let arrival = arrival(&self.chats[lane.chat].name, &lane.name, &msg_id, &request);
        let arrival = Arrival { depth_limit: DEPTH as u64, ..arrival };
        let (expected, stage) = if lane.marks.contains_key(&msg_id) {
            (Enqueued::Duplicate, Some(Stage::Duplicate))
        } else if lane.waiting.len() >= DEPTH {
            (Enqueued::LaneFull, None)
        } else {
            lane.waiting.push_back(arrival.clone());
            (Enqueued::Stored, Some(Stage::Accepted))
        };
        if let Some(stage) = stage {
            self.tell(&request, stage);
        }
        assert_eq!(enqueue_one(&self.store, arrival).await, expected, "{request} {msg_id}");
    }

    /// An enqueue whose answer was lost changes nothing, also when its message is in work by now.
    async fn enqueue_again(&mut self, member: usize) {
        let member = &self.members[member];
        let owner = |a: &Arrival| member.marks.get(&a.message.msg_id).map(|(owner, _)| owner);
        let own = member.waiting.iter().find(|a| owner(a) == Some(&a.message.request_id));
        if let Some(arrival) = own {
            enqueue(&self.store, arrival.clone()).await;
        }
    }

    async fn claim_messages(&mut self) {
        let claimed = self.store.claim_messages(100, LONG).await.expect("claim").items;
        let mut by_lane: HashMap<Lane, ClaimedMessage> =
            claimed.into_iter().map(|item| (item.lease.lane.clone(), item)).collect();
        for at in 0..self.members.len() {
            if !self.members[at].work.is_claimable() {
                continue;
            }
            for request in self.members[at].drop_copies() {
                self.tell(&request, Stage::Duplicate);
            }
            let member = &mut self.members[at];
            let Some(head) = member.waiting.front() else { continue };
            let item = by_lane.remove(&head.lane).expect("this lane may come, so it comes");
            assert_eq!(item.message, head.message);
            let mark = (head.message.request_id.clone(), false);
            let before = member.marks.insert(head.message.msg_id.clone(), mark);
            assert_eq!(item.redelivered, before.is_some());
            if let Work::Ended(late) = std::mem::replace(&mut member.work, Work::Held(item)) {
                member.late.push(late);
            }
        }
        assert!(by_lane.is_empty(), "these must not come: {:?}", by_lane.keys());
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
        assert_eq!(finish(&self.store, commit(item, replies.clone())).await, Committed::Done);
        member.waiting.pop_front();
        member.marks.insert(item.message.msg_id.clone(), (request.clone(), true));
        member.work = Work::Free;
        self.chats[member.chat].waiting.extend(replies);
        self.tell(&request, Stage::Handled);
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
        let member = &mut self.members[at];
        if let Work::Held(item) | Work::Ended(item) = std::mem::replace(&mut member.work, Work::Free) {
            self.store.release(Side::In, vec![item.lease.clone()], Duration::ZERO).await.expect("release");
            member.late.push(item);
        }
    }

    async fn claim_replies(&mut self) {
        let claimed = self.store.claim_replies(100, LONG).await.expect("claim").items;
        let mut by_lane: HashMap<Lane, ClaimedReply> =
            claimed.into_iter().map(|item| (item.lease.lane.clone(), item)).collect();
        for chat in &mut self.chats {
            if !chat.work.is_claimable() || chat.waiting.is_empty() {
                continue;
            }
            let item = by_lane.remove(&lane(&chat.name)).expect("this lane may come, so it comes");
            chat.agrees(&item, chat.begun);
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
            Work::Free => return,
            Work::Ended(_) => Begun::Lost,
            Work::Held(_) if chat.dead => Begun::ChatDead,
            Work::Held(_) => Begun::Go,
        };
        let item = chat.work.worker().expect("a worker");
        assert_eq!(begin(&self.store, quick(begin_of(item))).await, expected);
        chat.begun |= expected == Begun::Go;
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
        if let Some(go_on) = &mut call.go_on {
            go_on.pace = WIDE;
        }
        let settled = settle(&self.store, call).await;
        let may_go_on = chat.apply(&fate) && go_on && !chat.waiting.is_empty();
        match settled {
            Settled::Released => chat.work = Work::Free,
            Settled::Next(next, begun) if may_go_on => {
                chat.agrees(&next, false);
                assert_eq!(begun, Some(if chat.dead { Begun::ChatDead } else { Begun::Go }));
                chat.begun = !chat.dead;
                chat.work = Work::Held(*next);
            }
            other => panic!("{other:?} after {fate:?}"),
        }
        self.tell(&item.delivery.request_id, Stage::Settled);
    }

    fn fate(&mut self) -> Fate {
        match self.rng.random_range(0..9) {
            0..3 => Fate::Delivered,
            3 => ENDED,
            4 => Fate::Ended { back_off: Some(Duration::ZERO), chat_dead: None },
            5 => Fate::Ended { back_off: None, chat_dead: Some(route("home")) },
            6 => again(ParkReason::Transient),
            7 => again(ParkReason::Unanswered),
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
    }

    /// Works off what is left, then compares what the journal tells.
    async fn finish(mut self) {
        while self.members.iter().any(|m| !m.waiting.is_empty()) {
            self.claim_messages().await;
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

/// Lets a lease end now, which works as `is_held` says.
async fn end_lease(store: &SharedStore, side: Side, lease: &Lease, is_held: bool) {
    let renewed = store.renew(side, vec![lease.clone()], Duration::ZERO).await.expect("renew");
    assert_eq!(renewed, [is_held]);
    pass(Duration::from_millis(2)).await;
}
