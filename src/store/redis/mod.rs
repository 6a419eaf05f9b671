//! The Redis store: one Lua script per verb and shard, over one multiplexed connection to a server or a Cluster.
//!
//! Several gateways may share it: every step is atomic on the server, and the server's clock is the only one. What an
//! answer survives is up to the server: with AOF `always` it is on its disk. Keys may vanish at any time (an operator, an
//! eviction) and the next call still works: what they held is lost, nothing else. See `keys` for the layout and
//! `lua/` for the steps.
//!
//! The store does nothing by itself: no polling, no timer. Work wakes waiting loops by a channel (and locally); a signal
//! that is lost costs latency only, because a claim says when time alone makes a lane workable.

mod address;
mod batch;
mod connection;
mod decode;
mod encode;
mod keys;
mod members;
mod notes;
mod pushes;
mod replicas;
mod scripts;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::redis::Value;
use futures_util::future::try_join_all;

pub use self::address::{Address, NoAddress};
use self::batch::{Args, Batcher};
use self::connection::Link;
pub use self::connection::{laid_out_otherwise, shards_at};
use self::scripts::Verb;
use super::share::Share;
use super::*;
use crate::model::{Lane, Secret};

/// A store on a Redis server.
pub struct RedisStore {
    link: Arc<Link>,
    shards: Vec<Shard>,
    /// Most messages and deliveries that may wait in one shard.
    shard_limit: u64,
    poison_after: u32,
    /// Counts claims: each one begins at another shard.
    claims: AtomicUsize,
    share: Share,
    wakeups: Arc<Wakeups>,
}

/// One hash tag, and the verbs whose calls are batched there.
struct Shard {
    prefix: String,
    enqueue: Batcher,
    commit: Batcher,
    begin: Batcher,
    settle: Batcher,
    /// Settles that may begin the next delivery.
    go_on: Batcher,
}

impl Shard {
    fn start(link: &Arc<Link>, number: u16) -> Self {
        let prefix = keys::prefix(number);
        let batcher = |verb: &'static Verb| Batcher::start(link.clone(), verb, prefix.clone());
        Self {
            enqueue: batcher(&scripts::ENQUEUE),
            commit: batcher(&scripts::COMMIT),
            begin: batcher(&scripts::BEGIN),
            settle: batcher(&scripts::SETTLE),
            go_on: batcher(&scripts::SETTLE_AND_BEGIN),
            prefix,
        }
    }

    fn settles(&self, settle: &Settle) -> &Batcher {
        if settle.go_on.is_some() { &self.go_on } else { &self.settle }
    }
}

impl RedisStore {
    /// Opens the store; the server need not be up. Must be called within a Tokio runtime.
    ///
    /// Fails with [`StoreError::Refused`] when the URL can't be read. A shard count other than the one that the data was
    /// laid out for is known once the server answers, and refuses every call.
    pub fn open(url: &Secret, options: impl Into<Options>) -> Result<Arc<Self>> {
        let Options { shards, max_waiting, poison_after, replicas, fsync: _ } = options.into();
        let shards = shards.max(1);
        let wakeups = Arc::new(Wakeups::default());
        let link = Arc::new(Link::open(url, shards, replicas, wakeups.clone())?);
        let shard_limit = max_waiting.div_ceil(u64::from(shards));
        let shards = (0..shards).map(|number| Shard::start(&link, number)).collect();
        Ok(Arc::new(Self {
            link,
            shards,
            shard_limit,
            poison_after,
            claims: AtomicUsize::new(0),
            share: Share::default(),
            wakeups,
        }))
    }

    fn shard(&self, lane: &Lane) -> &Shard {
        let shards = u16::try_from(self.shards.len()).unwrap_or(u16::MAX);
        &self.shards[usize::from(lane.shard(shards))]
    }

    /// Lets each item join the batch of its lane's shard; answers in the order of the items.
    async fn batched<T>(
        &self,
        items: &[T],
        lane: fn(&T) -> &Lane,
        batcher: for<'s> fn(&'s Shard, &T) -> &'s Batcher,
        encode: impl Fn(&T) -> Result<Args>,
    ) -> Result<Vec<Value>> {
        let args: Vec<Args> = items.iter().map(encode).collect::<Result<_>>()?;
        let mut answers = Vec::with_capacity(items.len());
        for (item, args) in items.iter().zip(args) {
            answers.push(batcher(self.shard(lane(item)), item).submit(args).await);
        }
        try_join_all(answers.into_iter().map(|answer| answer.get())).await
    }

    /// Runs a batch script once on each shard that has items; answers in the order of the items.
    async fn grouped(&self, verb: &'static Verb, items: Vec<(&Lane, Args)>) -> Result<Vec<Value>> {
        let mut answers = vec![Value::Nil; items.len()];
        let mut groups: Vec<(&Shard, Vec<usize>, Vec<Args>)> = Vec::new();
        for (at, (lane, args)) in items.into_iter().enumerate() {
            let shard = self.shard(lane);
            let group = match groups.iter().position(|(known, ..)| std::ptr::eq(*known, shard)) {
                Some(group) => group,
                None => {
                    groups.push((shard, Vec::new(), Vec::new()));
                    groups.len() - 1
                }
            };
            groups[group].1.push(at);
            groups[group].2.push(args);
        }
        for (shard, places, args) in groups {
            let values = batch::call(&self.link, verb, &shard.prefix, args).await?;
            places.into_iter().zip(values).for_each(|(at, value)| answers[at] = value);
        }
        Ok(answers)
    }

    /// Runs a batch script for one item.
    async fn single(&self, verb: &'static Verb, lane: &Lane, args: Args) -> Result<Value> {
        Ok(self.grouped(verb, vec![(lane, args)]).await?.pop().unwrap_or_default())
    }

    /// Runs a script on every shard.
    async fn everywhere(&self, verb: &'static Verb, args: &[String]) -> Result<Vec<Value>> {
        try_join_all(self.shards.iter().map(|shard| self.link.run(verb, &shard.prefix, args))).await
    }

    /// All shards, another one first each time.
    fn in_turn(&self) -> impl Iterator<Item = &Shard> {
        let first = self.claims.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        self.shards[first..].iter().chain(&self.shards[..first])
    }
}

/// What shards bring to a claim, one after the other, until `want` is reached. Who got that asks again anyway, so that shards
/// not looked at have no say in `next_wake`.
struct Claims<T> {
    want: usize,
    claimed: Claimed<T>,
}

impl<T> Claims<T> {
    fn new(want: usize) -> Self {
        Self { want, claimed: Claimed { items: Vec::new(), poisoned: Vec::new(), next_wake: None } }
    }

    fn missing(&self) -> usize {
        self.want.saturating_sub(self.claimed.items.len())
    }

    /// Takes what a shard brought; `false` ends the claim. What is leased already must be worked although this shard
    /// failed: the next claim meets the error again.
    fn take(&mut self, brought: Result<Claimed<T>>) -> Result<bool> {
        match brought {
            Ok(more) => {
                self.claimed.items.extend(more.items);
                self.claimed.poisoned.extend(more.poisoned);
                self.claimed.next_wake = self.claimed.next_wake.into_iter().chain(more.next_wake).min();
                Ok(self.missing() > 0)
            }
            Err(_) if !self.claimed.items.is_empty() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn enqueue(&self, batch: Vec<Arrival>) -> Result<Vec<Enqueued>> {
        let answers =
            self.batched(&batch, |a| &a.lane, |s, _| &s.enqueue, |a| encode::arrival(a, self.shard_limit)).await?;
        self.wakeups.wake(Side::In);
        answers.into_iter().map(decode::enqueued).collect()
    }

    async fn claim_messages(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedMessage>> {
        let mut claims = Claims::new(want);
        for shard in self.in_turn() {
            let args = encode::claim_messages(claims.missing(), lease, self.poison_after);
            let answer = self.link.run(&scripts::CLAIM_MESSAGES, &shard.prefix, &args).await;
            if !claims.take(answer.and_then(|value| decode::claimed(value, decode::message)))? {
                break;
            }
        }
        Ok(claims.claimed)
    }

    async fn commit(&self, batch: Vec<Commit>) -> Result<Vec<Committed>> {
        let answers = self.batched(&batch, |c| &c.lease.lane, |s, _| &s.commit, encode::commit).await?;
        // The message's lane may hold another one.
        self.wakeups.wake(Side::In);
        if batch.iter().any(|commit| !commit.replies.is_empty()) {
            self.wakeups.wake(Side::Out);
        }
        answers.into_iter().map(decode::committed).collect()
    }

    async fn claim_replies(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedReply>> {
        let (mut claims, mut due) = (Claims::new(want), self.share.now());
        // What replies leave is known once the last shard was asked for them: those with pushes are asked again then.
        let mut visits: VecDeque<(&Shard, bool)> = self.in_turn().map(|shard| (shard, false)).collect();
        if let Some((_, may_have_the_rest)) = visits.back_mut() {
            *may_have_the_rest = true;
        }
        while let Some((shard, may_have_the_rest)) = visits.pop_front() {
            let args = encode::claim_replies(claims.missing(), lease, due, may_have_the_rest);
            let answer = self.link.run(&scripts::CLAIM_REPLIES, &shard.prefix, &args).await;
            let brought = answer.and_then(decode::claimed_replies).map(|(claimed, now_due, are_left)| {
                due = now_due;
                visits.extend((are_left && !may_have_the_rest).then_some((shard, true)));
                claimed
            });
            if !claims.take(brought)? {
                break;
            }
        }
        self.share.stands(due);
        Ok(claims.claimed)
    }

    async fn begin(&self, batch: Vec<Begin>) -> Result<Vec<Begun>> {
        let answers = self.batched(&batch, |b| &b.lease.lane, |s, _| &s.begin, |b| Ok(encode::begin(b))).await?;
        answers.into_iter().map(decode::begun).collect()
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Settled>> {
        let due = self.share.now();
        let answers = self.batched(&batch, |s| &s.lease.lane, Shard::settles, |s| encode::settle(s, due)).await?;
        let settled = answers.into_iter().zip(&batch).map(|(value, settle)| decode::settled(value, &settle.lease));
        let settled: Vec<Settled> = settled.collect::<Result<_>>()?;
        self.share.went_on(&settled);
        if settled.iter().any(|s| matches!(s, Settled::Released)) {
            self.wakeups.wake(Side::Out);
        }
        Ok(settled)
    }

    async fn renew(&self, side: Side, leases: Vec<Lease>, lease: Duration) -> Result<Vec<bool>> {
        let items = leases.iter().map(|l| (&l.lane, encode::lease(side, l, lease))).collect();
        self.grouped(&scripts::RENEW, items).await?.into_iter().map(decode::yes_or_no).collect()
    }

    async fn release(&self, side: Side, leases: Vec<Lease>, pause: Duration) -> Result<()> {
        let items = leases.iter().map(|l| (&l.lane, encode::lease(side, l, pause))).collect();
        self.grouped(&scripts::RELEASE, items).await?;
        self.wakeups.wake(side);
        Ok(())
    }

    async fn waiting(&self, lane: &Lane, request_id: &str) -> Result<Option<Waiting>> {
        let args = vec![request_id.to_owned(), lane.as_str().to_owned()];
        decode::waiting(self.single(&scripts::WAITING, lane, args).await?)
    }

    async fn session(&self, key: &SessionKey) -> Result<Remembered> {
        decode::session(self.single(&scripts::SESSION, &key.lane(), vec![key.as_str().to_owned()]).await?)
    }

    async fn forget_session(&self, key: &SessionKey, keep: Duration, change: Option<Line>) -> Result<()> {
        let args = encode::forgotten(key, keep, change.as_ref());
        self.single(&scripts::FORGET_SESSION, &key.lane(), args).await.map(drop)
    }

    async fn answer_late(&self, answer: LateAnswer) -> Result<Answered> {
        let args = encode::late_answer(&answer)?;
        let value = self.single(&scripts::ANSWER_LATE, &answer.lane, args).await?;
        self.wakeups.wake(Side::Out);
        decode::answered(value)
    }

    async fn revive(&self, lane: &Lane) -> Result<()> {
        self.single(&scripts::REVIVE, lane, vec![lane.as_str().to_owned()]).await?;
        Ok(())
    }

    async fn tune(&self, tuning: Tuning) -> Result<()> {
        let value = self.single(&scripts::TUNE, &tuning.lane, encode::tuning(&tuning)).await?;
        self.wakeups.wake(Side::Out);
        decode::yes_or_no(value).map(drop)
    }

    async fn note_change(&self, change: Line) -> Result<()> {
        let value = self.single(&scripts::NOTE_CHANGE, &change.key.chat_lane(), vec![change.to_string()]).await?;
        decode::yes_or_no(value).map(drop)
    }

    async fn operate(&self, operation: Operation) -> Result<Operated> {
        let args = encode::operation(&operation)?;
        let value = self.single(&scripts::OPERATE, &operation.lane, args).await?;
        self.wakeups.wake(Side::Out);
        decode::operated(value)
    }

    async fn read_notes(&self, notes: Vec<Note>) -> Result<Vec<Option<Noted>>> {
        try_join_all(notes.iter().map(|note| notes::read(&self.link, note))).await
    }

    async fn write_note(&self, write: NoteWrite) -> Result<bool> {
        notes::write(&self.link, &write).await
    }

    async fn drop_note(&self, note: &Note, seen: Option<&Secret>) -> Result<bool> {
        notes::forget(&self.link, note, seen).await
    }

    async fn lock_note(&self, note: &Note, owner: &str, ttl: Duration) -> Result<bool> {
        notes::lock(&self.link, note, owner, ttl).await
    }

    async fn unlock_note(&self, note: &Note, owner: &str) -> Result<()> {
        notes::unlock(&self.link, note, owner).await
    }

    async fn chats(&self, lanes: Vec<Lane>) -> Result<Vec<ChatStatus>> {
        let items = lanes.iter().map(|lane| (lane, vec![lane.as_str().to_owned()])).collect();
        let answers = self.grouped(&scripts::CHATS, items).await?;
        answers.into_iter().zip(lanes).map(|(value, lane)| decode::chat(value, lane)).collect()
    }

    async fn busy_chats(&self, limit: usize) -> Result<Vec<Lane>> {
        let mut lanes = Vec::new();
        for value in self.everywhere(&scripts::BUSY_CHATS, &[limit.to_string()]).await? {
            lanes.extend(decode::plain::<Vec<String>>(value)?.into_iter().map(Lane::from_encoded));
        }
        lanes.truncate(limit);
        Ok(lanes)
    }

    async fn read_journal(&self, max: usize) -> Result<Vec<JournalBatch>> {
        let answers = self.everywhere(&scripts::READ_JOURNAL, &[max.to_string()]).await?;
        (0..).zip(answers).filter_map(|(shard, value)| decode::journal(value, shard).transpose()).collect()
    }

    async fn rotate_journal(&self, batch: &JournalBatch, keep: Vec<String>) -> Result<bool> {
        let ends = batch.lines.first().zip(batch.lines.last());
        let Some((shard, (first, last))) = self.shards.get(usize::from(batch.shard)).zip(ends) else {
            return Ok(false);
        };
        let mut args = vec![batch.from.to_string(), batch.count.to_string(), first.clone(), last.clone()];
        args.extend(keep);
        decode::plain(self.link.run(&scripts::TRIM_JOURNAL, &shard.prefix, &args).await?)
    }

    async fn depth(&self) -> Result<Depth> {
        let mut sum = Depth::default();
        for value in self.everywhere(&scripts::DEPTH, &[LOOKED_AT.to_string()]).await? {
            sum = sum.and(decode::depth(value)?);
        }
        Ok(sum)
    }

    async fn ping(&self) -> Result<()> {
        self.link.ping().await
    }

    fn pushes(&self) -> &dyn Pushes {
        self
    }

    fn members(&self) -> &dyn Members {
        self
    }

    fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }
}
