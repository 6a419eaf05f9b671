//! Members who write: each waits for the answer to what they wrote, and asks the next thing when it is there, or when they
//! have waited long enough. WeCom pushes again what was not acknowledged, and now and then what was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wecom_gateway::sim::load::STORM;
use wecom_gateway::sim::plan::{Copies, LanePlan, Planned};
use wecom_gateway::sim::{Caller, Ledger, Load, Tag};

use super::fleet::Fleet;

/// A message that was pushed, and whether it was acknowledged in the end.
#[derive(Debug)]
pub struct Posted {
    pub message: Planned,
    pub acked: bool,
}

/// How much of it.
pub struct Traffic {
    pub messages: u64,
    pub chats: Vec<String>,
    pub members: usize,
    pub seed: u64,
    /// How long a member waits for an answer before the next question.
    pub patience: Duration,
    /// Serials begin after this.
    pub after: u64,
}

/// Pushes on behalf of WeCom.
#[derive(Clone)]
pub struct WeCom {
    caller: Caller,
    ledger: Arc<Ledger>,
}

/// A query that the team's service answers.
pub fn query(chat: &str, sender: &str, serial: u64) -> Planned {
    let (tag, msg_id) = (Tag::new(chat, sender, serial), format!("m/{serial}+="));
    Planned { tag, msg_id, text: format!("/query {serial}"), answered: true, copies: Copies::None }
}

impl Traffic {
    /// Begins; what was posted comes when the last member has ceased to wait.
    pub fn begin(self, fleet: &Fleet) -> impl Future<Output = Vec<Posted>> + use<> {
        let (members, seed, after_serial) = (self.members, self.seed, self.after);
        let load = Arc::new(Load { members, seed, after_serial, storms: 0.01, ..Load::default() });
        let numbered = self.chats.iter().flat_map(|chat| (0..self.members).map(move |member| (chat, member)));
        let step = (self.chats.len() * self.members) as u64;
        let (tickets, mut members) = (Arc::new(AtomicU64::new(self.messages)), JoinSet::new());
        for (number, (chat, member)) in (0..).zip(numbered) {
            let plan = LanePlan::new(&load, (number, step), chat, member, "小助手");
            members.spawn(WeCom::of(fleet).pushes(plan, Arc::clone(&tickets), self.patience));
        }
        async { members.join_all().await.into_iter().flatten().collect() }
    }
}

impl WeCom {
    pub fn of(fleet: &Fleet) -> Self {
        Self { caller: fleet.caller.clone(), ledger: Arc::clone(fleet.fake.ledger()) }
    }

    /// What one member writes, for as long as there are tickets.
    async fn pushes(self, mut plan: LanePlan, tickets: Arc<AtomicU64>, patience: Duration) -> Vec<Posted> {
        let (mut posted, mut late): (Vec<Posted>, Vec<(usize, Planned)>) = (Vec::new(), Vec::new());
        let ticket = |n: u64| n.checked_sub(1);
        while tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, ticket).is_ok() {
            let message = plan.message();
            posted.push(self.push(&message).await);
            self.answer(&message, patience).await;
            if let Copies::Late(after) = message.copies {
                late.push((posted.len() + after as usize, message));
            }
            for (_, copy) in late.extract_if(.., |(due, _)| *due <= posted.len()) {
                self.deliver(&copy).await;
            }
        }
        for (_, copy) in late {
            self.deliver(&copy).await;
        }
        posted
    }

    /// A message for the first time, with the copies that come at the same time.
    pub async fn push(&self, message: &Planned) -> Posted {
        self.ledger.expect(&message.tag, message.answered);
        let times = match message.copies {
            Copies::None | Copies::Late(_) => 1,
            Copies::Twin => 2,
            Copies::Storm => STORM,
        };
        let acks = join_all((0..times).map(|_| self.deliver(message))).await;
        Posted { message: message.clone(), acked: acks.contains(&true) }
    }

    async fn deliver(&self, message: &Planned) -> bool {
        let Tag { chat, sender, serial } = &message.tag;
        let payload = self.caller.text(chat, sender, &message.msg_id, &message.text);
        let acked = self.caller.deliver(&payload, || self.ledger.posted(*serial)).await;
        if acked {
            self.ledger.acked(*serial);
        }
        acked
    }

    /// Waits for the answer to an acknowledged message, not longer than `patience`.
    pub async fn answer(&self, message: &Planned, patience: Duration) {
        let waits = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&waits).acquire_owned().await.expect("nobody closes it");
        self.ledger.until_replied(message.tag.serial, permit);
        let _ = tokio::time::timeout(patience, waits.acquire()).await;
    }
}
