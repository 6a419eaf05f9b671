//! The load: messages over many chats, from one seed, posted the way WeCom posts them.
//!
//! Two ways to post. Without a rate so many messages are kept under way (closed loop), and the first posts of one (chat, sender)
//! are awaited one after the other. With a rate each message is posted when its time has come, by a seeded Poisson
//! process, whatever became of those before it (open loop): a slow receiver can't slow the load down and so hide how long
//! members wait.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::arrivals::{Arrivals, Until};
use super::caller::Caller;
use super::ledger::Ledger;
use super::plan::{Copies, LanePlan, Planned};
use super::texts::TextMix;
use super::violation::Tag;

/// How much of what.
#[derive(Clone, Debug)]
pub struct Load {
    /// Messages in all, where no `duration` is set; copies come on top.
    pub messages: usize,
    /// For so long, however many messages that makes.
    pub duration: Option<Duration>,
    /// Chats that they are spread over, where no [`Target`] names them.
    pub chats: usize,
    /// Members who write in each chat; everybody is in several chats.
    pub members: usize,
    /// Same seed, same messages.
    pub seed: u64,
    /// Messages under way at once: posted and without their reply, or without `success` where they want none.
    pub under_way: usize,
    /// Messages a second instead, whatever is under way.
    pub rate: Option<f64>,
    /// The rate, or the number under way, rises to its full size within this.
    pub ramp: Duration,
    /// What members write.
    pub texts: TextMix,
    /// Share of messages that come twice at the same time.
    pub twins: f64,
    /// Share of messages that come again after later ones.
    pub late: f64,
    /// Share of messages that come [`STORM`] times at the same time.
    pub storms: f64,
    /// Serials begin after this, and ids are others: a second load on the same gateway must not look like the first.
    pub after_serial: u64,
}

/// Posts of a message in a retry storm.
pub const STORM: usize = 10;

impl Default for Load {
    fn default() -> Self {
        Self {
            messages: 5000,
            duration: None,
            chats: 50,
            members: 3,
            seed: 1,
            under_way: 64,
            rate: None,
            ramp: Duration::ZERO,
            texts: TextMix::default(),
            twins: 0.08,
            late: 0.07,
            storms: 0.0,
            after_serial: 0,
        }
    }
}

/// The chats of one app, and how its callbacks are posted.
#[derive(Clone, Debug)]
pub struct Target {
    /// Posts them.
    pub caller: Caller,
    /// What an @mention calls.
    pub bot: String,
    /// The chats' ids.
    pub chats: Vec<String>,
}

/// What one poster holds.
#[derive(Clone)]
struct Poster {
    caller: Caller,
    ledger: Arc<Ledger>,
    /// Of a closed loop.
    permits: Option<Arc<Semaphore>>,
}

impl Load {
    /// The chats' ids.
    pub fn chat_ids(&self) -> Vec<String> {
        (0..self.chats).map(|i| format!("wrDemo{i:04}")).collect()
    }

    /// Posts everything to one app with the load's own chats; see [`Load::run_on`].
    pub async fn run(&self, caller: &Caller, ledger: &Arc<Ledger>) {
        let target = Target { caller: caller.clone(), bot: "小助手".to_owned(), chats: self.chat_ids() };
        self.run_on(&[target], ledger).await;
    }

    /// Posts everything; ends when the last post was answered or given up, and in a closed loop never where replies are lost
    /// and nothing under way ends ([`Ledger::stalled`] tells). Dropping it ends the posts under way.
    pub async fn run_on(&self, targets: &[Target], ledger: &Arc<Ledger>) {
        let lanes = self.lanes(targets, ledger);
        if lanes.is_empty() {
            return;
        }
        match self.rate {
            Some(rate) => self.open_loop(lanes, rate).await,
            None => self.closed_loop(lanes).await,
        }
    }

    fn lanes(&self, targets: &[Target], ledger: &Arc<Ledger>) -> Vec<(LanePlan, Poster)> {
        let members = self.members.max(1);
        let chats: Vec<(&Target, &String)> =
            targets.iter().flat_map(|target| target.chats.iter().map(move |chat| (target, chat))).collect();
        let step = (chats.len() * members) as u64;
        let permits = self.rate.is_none().then(|| Arc::new(Semaphore::new(0)));
        let numbered = chats.iter().flat_map(|chat| (0..members).map(move |member| (chat, member)));
        let load = Arc::new(self.clone());
        let lane = |(number, ((target, chat), member)): (usize, (&(&Target, &String), usize))| {
            let plan = LanePlan::new(&load, (number as u64, step), chat, member, &target.bot);
            let (caller, ledger, permits) = (target.caller.clone(), Arc::clone(ledger), permits.clone());
            (plan, Poster { caller, ledger, permits })
        };
        numbered.enumerate().map(lane).collect()
    }

    async fn closed_loop(&self, lanes: Vec<(LanePlan, Poster)>) {
        let shares = self.shares(lanes.len());
        let end = self.duration.map(|duration| Instant::now() + duration);
        let permits = lanes.first().and_then(|(_, poster)| poster.permits.clone());
        let mut posting = JoinSet::new();
        for ((plan, poster), share) in lanes.into_iter().zip(shares) {
            match end {
                Some(end) => drop(posting.spawn(poster.run(plan, move |_| Instant::now() >= end))),
                None if share > 0 => drop(posting.spawn(poster.run(plan, move |posted| posted + 1 == share))),
                None => {}
            }
        }
        let posted = async { while posting.join_next().await.is_some() {} };
        let opened = async {
            if let Some(permits) = permits {
                self.open_up(&permits).await;
            }
            std::future::pending().await
        };
        tokio::select! {
            () = posted => {}
            () = opened => {}
        }
    }

    /// How many messages each lane of a closed loop has.
    pub(super) fn shares(&self, lanes: usize) -> Vec<u64> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut shares = vec![0; lanes];
        (0..self.messages).for_each(|_| shares[rng.random_range(0..lanes)] += 1);
        shares
    }

    /// Lets more and more messages be under way.
    async fn open_up(&self, permits: &Semaphore) {
        let under_way = u32::try_from(self.under_way.max(1)).unwrap_or(u32::MAX);
        let step = self.ramp / under_way;
        if step.is_zero() {
            return permits.add_permits(under_way as usize);
        }
        for _ in 0..under_way {
            permits.add_permits(1);
            tokio::time::sleep(step).await;
        }
    }

    async fn open_loop(&self, mut lanes: Vec<(LanePlan, Poster)>, rate: f64) {
        let until = self.duration.map_or(Until::Count(self.messages), Until::Time);
        let arrivals = Arrivals { seed: self.seed, rate, ramp: self.ramp, lanes: lanes.len() }.until(until);
        let start = Instant::now();
        let mut posting = JoinSet::new();
        for (at, lane) in arrivals {
            tokio::time::sleep_until(start + at).await;
            let (plan, poster) = &mut lanes[lane];
            let (message, poster) = (plan.message(), poster.clone());
            posting.spawn(async move {
                poster.first(&message).await;
                if let Copies::Late(seconds) = message.copies {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    poster.deliver(&message).await;
                }
            });
            while posting.try_join_next().is_some() {}
        }
        while posting.join_next().await.is_some() {}
    }
}

impl Poster {
    /// The messages of one (chat, sender) in a closed loop, then its fence; `is_last` is told how many were posted before.
    async fn run(self, mut plan: LanePlan, is_last: impl Fn(u64) -> bool) {
        let mut late: Vec<(u64, Planned)> = Vec::new();
        for posted in 0.. {
            let permit = self.permit().await;
            let last = is_last(posted);
            for (_, copy) in late.extract_if(.., |(due, _)| *due <= posted || last) {
                self.deliver(&copy).await;
            }
            let message = if last { plan.fence() } else { plan.message() };
            self.first(&message).await;
            if let Some(permit) = permit {
                self.ledger.until_replied(message.tag.serial, permit);
            }
            if last {
                return;
            }
            if let Copies::Late(after) = message.copies {
                late.push((posted + 1 + after, message));
            }
        }
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes the semaphore.
        Arc::clone(self.permits.as_ref()?).acquire_owned().await.ok()
    }

    /// A message for the first time, with the copies that come at the same time.
    async fn first(&self, message: &Planned) {
        self.ledger.expect(&message.tag, message.answered);
        let times = match message.copies {
            Copies::None | Copies::Late(_) => 1,
            Copies::Twin => 2,
            Copies::Storm => STORM,
        };
        join_all((0..times).map(|_| self.deliver(message))).await;
    }

    /// One post of a message, again where WeCom would.
    async fn deliver(&self, message: &Planned) {
        let Tag { chat, sender, serial } = &message.tag;
        let payload = self.caller.text(chat, sender, &message.msg_id, &message.text);
        if self.caller.deliver(&payload, || self.ledger.posted(*serial)).await {
            self.ledger.acked(*serial);
        }
    }
}
