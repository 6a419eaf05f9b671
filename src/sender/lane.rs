//! One claimed lane: its head is checked, begun, sent and settled, then the next, for as long as the store says so.
//!
//! What always holds:
//!
//! - The guard runs before every begin, and a request is written only right after `Go`.
//! - A head that was begun by an earlier process is never sent again: it ends as `unknown`.
//! - A settle that the store did not answer is repeated as it is for as long as the lease can be ours, so that a short
//!   outage makes no false `unknown`.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::config::settings;
use crate::model::{Delivery, now_ms};
use crate::sender::fate::{Decision, Tally, decide};
use crate::sender::held::{Held, Hold};
use crate::sender::outage::{Outage, Pause};
use crate::sender::route::{NoRoute, Route, Routes, guard};
use crate::sender::trail::{self, Sent};
use crate::store::{self, Begin, Begun, ClaimedReply, GoOn, Settle, Settled, SharedStore, Side, StoreError, Turn};
use crate::telemetry::metrics::Metrics;
use crate::wecom::verdict::{Verdict, verdict};

/// What the lanes of one sender share.
pub(super) struct Context {
    pub store: SharedStore,
    pub settings: settings::Sender,
    pub routes: Arc<Routes>,
    pub metrics: Arc<Metrics>,
    pub client: reqwest::Client,
    pub held: Held,
    pub outage: Outage,
    /// Nothing new is begun after it.
    pub stop: CancellationToken,
}

/// A head and, where its begin was fused with the settle before it, what that answered.
struct Head {
    reply: ClaimedReply,
    begun: Option<Begun>,
}

/// What to do with a head.
enum Ready {
    /// It is begun: write the request.
    Send(Arc<Route>),
    /// It ends without a request.
    End(Decision),
    /// The lease is not ours any more: nothing to do.
    Leave,
}

/// Works a claimed lane until it is given back.
pub(super) async fn work(context: Arc<Context>, claimed: ClaimedReply, _hold: Hold) {
    let mut next = Some(Head { reply: claimed, begun: None });
    while let Some(head) = next {
        next = context.step(head).await;
    }
}

impl Context {
    /// Does what is due for one head; the answer is the next one, where the lane goes on.
    async fn step(&self, head: Head) -> Option<Head> {
        let Head { reply: head, begun } = head;
        if begun.is_none() && self.stop.is_cancelled() {
            self.give_back(head).await;
            return None;
        }
        let delivery = &head.delivery;
        let route = guard(&delivery.route, &delivery.app, &delivery.chat_id, &self.routes).cloned();
        let (decision, sent) = match self.ready(&head, begun, &route).await {
            Ready::Send(route) => {
                let sent = self.send(delivery, &route).await;
                (decide(sent.verdict, Tally::from(&head), &route.digest, rand::random()), Some(sent))
            }
            Ready::End(decision) => (decision, None),
            Ready::Leave => return None,
        };
        trail::log_decision(delivery, &decision);
        self.settle(head, decision, sent, route.ok().as_deref()).await
    }

    async fn ready(&self, head: &ClaimedReply, begun: Option<Begun>, route: &Result<Arc<Route>, NoRoute>) -> Ready {
        if begun.is_none() {
            if head.begun {
                return Ready::End(Decision::interrupted());
            }
            if now_ms() > head.delivery.expires_at {
                return Ready::End(Decision::too_old());
            }
        }
        let route = match route {
            Ok(route) => route,
            Err(why) => return Ready::End(Decision::no_route(*why)),
        };
        let begun = match begun {
            Some(begun) => Some(begun),
            None => self.begin(head, route).await,
        };
        match begun {
            Some(Begun::Go) => Ready::Send(Arc::clone(route)),
            Some(Begun::ChatDead) => Ready::End(Decision::chat_dead()),
            Some(Begun::Paced(_) | Begun::Paused) => Ready::Leave,
            Some(Begun::Lost) | None => {
                tracing::debug!(delivery = head.delivery.id, "lease lost before begin");
                Ready::Leave
            }
        }
    }

    async fn begin(&self, head: &ClaimedReply, route: &Route) -> Option<Begun> {
        let begin = Begin {
            lease: head.lease.clone(),
            delivery_id: head.delivery.id.clone(),
            route: route.digest.clone(),
            pace: route.pace,
            lease_for: self.settings.lease,
        };
        self.insist("begin", || self.store.begin(vec![begin.clone()])).await
    }

    async fn send(&self, delivery: &Delivery, route: &Route) -> Sent {
        let channel = route.channel.kind();
        let start = Instant::now();
        let reply = route.channel.send(&self.client, &delivery.message).await;
        let sent = Sent { channel, verdict: verdict(channel, &reply), reply, elapsed: start.elapsed() };
        self.metrics.sent(channel.as_str(), trail::verdict_word(sent.verdict), sent.elapsed);
        if sent.verdict == Verdict::Delivered {
            let since_arrival = now_ms().saturating_sub(delivery.received_at);
            self.metrics.delivered(Duration::from_millis(u64::try_from(since_arrival).unwrap_or(0)));
        }
        trail::log_sent(delivery, &sent);
        sent
    }

    async fn settle(
        &self,
        head: ClaimedReply,
        decision: Decision,
        sent: Option<Sent>,
        route: Option<&Route>,
    ) -> Option<Head> {
        let goes_on = decision.lane_goes_on() && !self.stop.is_cancelled();
        let lease_for = self.settings.lease;
        let settle = Settle {
            lease: head.lease,
            delivery_id: head.delivery.id.clone(),
            last_error: trail::last_error(&decision, sent.as_ref()),
            lines: vec![trail::line(&head.delivery, &decision, sent.as_ref())],
            go_on: route.filter(|_| goes_on).map(|route| GoOn {
                route: route.digest.clone(),
                pace: route.pace,
                lease_for,
            }),
            turn: Turn { weight: route.map_or(1, |route| route.weight), head_start: self.settings.head_start },
            fate: decision.fate,
        };
        match self.insist("settle", || self.store.settle(vec![settle.clone()])).await {
            Some(Settled::Next(reply, begun)) => Some(Head { reply: *reply, begun }),
            Some(Settled::Released | Settled::Parked(_)) => None,
            Some(Settled::Lost) | None => {
                tracing::debug!(delivery = head.delivery.id, "lease lost before settle");
                None
            }
        }
    }

    /// Gives a lease back unworked. Where that fails it runs out by itself.
    async fn give_back(&self, head: ClaimedReply) {
        let result = self.store.release(Side::Out, vec![head.lease]).await;
        self.outage.note("release", &result, &self.metrics);
    }

    /// Repeats a call for one lane as it is until the store answers it, for as long as the lane's lease can be ours.
    async fn insist<T, F>(&self, verb: &'static str, call: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = store::Result<Vec<T>>>,
    {
        let give_up = Instant::now() + self.settings.lease;
        let mut pause = Pause::default();
        loop {
            let result = call().await.and_then(only);
            self.outage.note(verb, &result, &self.metrics);
            match result {
                Ok(answer) => return Some(answer),
                Err(error) if !error.is_transient() => return None,
                Err(_) => {}
            }
            let wait = pause.next();
            if Instant::now() + wait >= give_up {
                return None;
            }
            tokio::time::sleep(wait).await;
        }
    }
}

fn only<T>(mut answers: Vec<T>) -> store::Result<T> {
    answers.pop().ok_or_else(|| StoreError::Corrupt("a batch of one came back empty".to_owned()))
}
