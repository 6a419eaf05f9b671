//! One claimed lane: its head is checked, begun, sent and settled, then the next, for as long as the store says so.
//!
//! What always holds:
//!
//! - The guard runs before every begin, and a request is written only right after `Go`.
//! - A head whose earlier attempt has no answer (its process died, or WeCom said nothing), be it its own or that of the delivery
//!   that it repeats, is sent only while its channel knows the repeat; else it ends as `unknown`, with all that its request carried.
//! - While an app is held, its lanes are given back as they are.
//! - A settle that the store did not answer is repeated as it is for as long as the lease can be ours, so that a short
//!   outage makes no false `unknown`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::debug;

use crate::alarms::{Alarm, Alarms, Kind};
use crate::config::settings;
use crate::crash::{self, Point};
use crate::model::{Delivery, Outcome, now_ms, since};
use crate::sender::channel::Wire;
use crate::sender::coalesce::Parcel;
use crate::sender::fate::{AppState, Decision, Tally, app_state, decide_together};
use crate::sender::hold::{Holds, MaySend};
use crate::sender::route::{NoRoute, Route, guard};
use crate::sender::spans::Attempt;
use crate::sender::trail::{self, Sent};
use crate::setup::InForce;
use crate::stop::Stop;
use crate::store::{self, Begin, Begun, ClaimedReply, GoOn, HeldLeases, Settle, Settled, SharedStore, Side, Turn};
use crate::telemetry::{Health, Metrics, Spans};
use crate::wecom::verdict::{Verdict, verdict};

/// What the pool and its lanes share.
pub(super) struct Context {
    pub store: SharedStore,
    pub settings: settings::Sender,
    pub in_force: Arc<InForce>,
    pub wire: Wire,
    pub holds: Arc<Holds>,
    pub alarms: Alarms,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub spans: Spans,
    pub held: Arc<HeldLeases>,
}

/// A head and, where its begin was fused with the settle before it, what that answered.
struct Head {
    reply: ClaimedReply,
    begun: Option<Begun>,
}

/// What to do with a head.
enum Ready {
    /// It is begun: write the request.
    Send(Route),
    /// It ends without a request.
    End(Decision),
    /// Its app is held: nothing is begun for so long.
    Aside(Duration),
    /// The lease is not ours any more: nothing to do.
    Leave,
}

/// Works a claimed lane until it is given back; once it is stopped nothing new is begun, and at the cut the lane goes back
/// as it stands.
pub(super) async fn work(context: &Context, claimed: ClaimedReply, stop: &Stop) {
    let mut next = Some(Head { reply: claimed, begun: None });
    while let Some(head) = next {
        next = match stop.cut.run_until_cancelled(step(context, &head, stop)).await {
            Some(next) => next,
            None => {
                trail::log_unfinished(&head.reply.delivery);
                give_back(context, &head.reply, Duration::ZERO).await;
                None
            }
        };
    }
}

/// Does what is due for one head; the answer is the next one, where the lane goes on.
async fn step(context: &Context, head: &Head, stop: &Stop) -> Option<Head> {
    let Head { reply: head, begun } = head;
    if begun.is_none() && stop.draining.is_cancelled() {
        give_back(context, head, Duration::ZERO).await;
        return None;
    }
    let delivery = &head.delivery;
    let route = guard(delivery, &context.in_force.routes());
    let parcel = match &route {
        Ok(route) if route.coalesce && !head.begun => Parcel::of(head, route.channel.limits(), now_ms()),
        Ok(_) | Err(_) => Parcel::single(delivery),
    };
    let (decision, sent, spoken_of, attempt) = match ready(context, head, *begun, route.clone(), parcel.count).await {
        Ready::Send(route) => {
            crash::point(Point::Begun);
            let attempt = Attempt::begin(&context.spans, head, deliveries(head).take(parcel.count));
            let sent = send(context, head, &parcel, &route).await;
            let tally = Tally::of(head, now_ms());
            let (decision, spoken_of) =
                decide_together(sent.verdict, tally, &route.digest, rand::random(), parcel.count);
            let is_held = app_state(sent.channel, sent.verdict) == AppState::Held;
            let decision = if is_held { decision.held_with_its_app() } else { decision };
            (decision, Some(sent), spoken_of, attempt)
        }
        Ready::End(decision) => {
            let spoken_of = if head.begun { 1 + head.behind.len() } else { 1 };
            let attempt = Attempt::begin(&context.spans, head, deliveries(head).take(spoken_of));
            (decision, None, spoken_of, attempt)
        }
        Ready::Aside(pause) => {
            give_back(context, head, pause).await;
            return None;
        }
        Ready::Leave => return None,
    };
    let decision = if head.begun || delivery.is_repeat() { decision.after_unanswered() } else { decision };
    attempt.end(&decision, sent.as_ref());
    let settled: Vec<&Delivery> = deliveries(head).take(spoken_of).collect();
    settled.iter().for_each(|delivery| trail::log_decision(delivery, &decision));
    alarm(context, &settled, &decision, sent.as_ref());
    let ended = decision.state.filter(|state| *state != Outcome::Queued);
    if let Some(state) = ended.filter(|_| delivery.push.is_some()) {
        context.metrics.push_ended(&delivery.app, state);
    }
    let route = route.ok();
    let mut settle = settlement(context, head, &settled, decision, sent.as_ref(), route.as_ref());
    if stop.draining.is_cancelled() {
        settle.go_on = None;
    }
    finish(context, settle).await
}

/// What the store is told of `settled`, the head and those that went with it; and how the lane goes on.
fn settlement(
    context: &Context,
    head: &ClaimedReply,
    settled: &[&Delivery],
    decision: Decision,
    sent: Option<&Sent>,
    route: Option<&Route>,
) -> Settle {
    let go_on =
        |route: &Route| GoOn { route: route.digest.clone(), pace: route.pace, lease_for: context.settings.lease };
    Settle {
        lease: head.lease.clone(),
        delivery_id: head.delivery.id.clone(),
        merged: u32::try_from(settled.len()).unwrap_or(u32::MAX),
        last_error: trail::last_error(&decision, sent),
        child: trail::child(&head.delivery, &decision, sent),
        lines: trail::lines(settled, &decision, sent),
        go_on: route.filter(|_| decision.lane_goes_on()).map(go_on),
        turn: Turn { weight: route.map_or(1, |route| route.weight), head_start: context.settings.head_start },
        fate: decision.fate,
    }
}

/// The head's delivery and those behind it.
fn deliveries(head: &ClaimedReply) -> impl Iterator<Item = &Delivery> {
    std::iter::once(&head.delivery).chain(&head.behind)
}

/// Looks at a head before anything is written: what an earlier attempt left open, age, route, the app, then `begin` for as
/// many deliveries as the request carries.
async fn ready(
    context: &Context,
    head: &ClaimedReply,
    begun: Option<Begun>,
    route: Result<Route, NoRoute>,
    carried: usize,
) -> Ready {
    let was_sent = head.delivery.is_repeat() || (begun.is_none() && head.begun);
    let is_closed = || was_sent && !Tally::of(head, now_ms()).may_repeat;
    if is_closed() {
        return Ready::End(Decision::left_open(&head.delivery));
    }
    // One that was begun with the settle before it is so old by our clock, which the store's need not be.
    let may_be_sent = matches!(begun, None | Some(Begun::Go));
    if may_be_sent && now_ms() > head.delivery.expires_at {
        let is_push = head.delivery.push.is_some();
        return Ready::End(if is_push { Decision::expired() } else { Decision::too_old() });
    }
    let route = match route {
        Ok(route) => route,
        Err(why) => return Ready::End(Decision::no_route(why)),
    };
    let begun = match begun {
        Some(begun) => Some(begun),
        None => match begin_unless_held(context, head, &route, carried).await {
            Ok(begun) => begun,
            Err(pause) => return Ready::Aside(pause),
        },
    };
    match begun {
        // To begin may have taken an outage of the store.
        Some(Begun::Go) if is_closed() => Ready::End(Decision::left_open(&head.delivery)),
        Some(Begun::Go) => Ready::Send(route),
        Some(Begun::ChatDead) => Ready::End(Decision::chat_dead()),
        Some(Begun::Paced(_) | Begun::Paused) => Ready::Leave,
        Some(Begun::Lost) | None => {
            debug!(request_id = head.delivery.request_id, delivery = head.delivery.id, "lease lost before begin");
            Ready::Leave
        }
    }
}

/// Begins, unless the app is held: then the answer is how long the lane is to be set aside.
async fn begin_unless_held(
    context: &Context,
    head: &ClaimedReply,
    route: &Route,
    carried: usize,
) -> Result<Option<Begun>, Duration> {
    let app = &head.delivery.app;
    let may_send = if route.channel.kind().is_api() { context.holds.may_send(app).await } else { MaySend::Yes };
    if let MaySend::NotFor(pause) = may_send {
        return Err(pause);
    }
    let begun = begin(context, head, route, carried).await;
    if may_send == MaySend::AsTry && begun != Some(Begun::Go) {
        context.holds.was_not_tried(app).await;
    }
    Ok(begun)
}

async fn begin(context: &Context, head: &ClaimedReply, route: &Route, carried: usize) -> Option<Begun> {
    let begin = Begin {
        lease: head.lease.clone(),
        delivery_id: head.delivery.id.clone(),
        merged: u32::try_from(carried).unwrap_or(u32::MAX),
        route: route.digest.clone(),
        pace: route.pace,
        lease_for: context.settings.lease,
    };
    crash::point(Point::Beginning);
    insist(context, "begin", || context.store.begin(vec![begin.clone()])).await
}

async fn send(context: &Context, head: &ClaimedReply, parcel: &Parcel<'_>, route: &Route) -> Sent {
    let channel = route.channel.kind();
    if head.attempts == 0 && head.refusals == 0 && !head.begun {
        let waiting = deliveries(head).take(parcel.count).filter(|delivery| delivery.queued_at > 0);
        for delivery in waiting {
            context.metrics.begun(since(delivery.queued_at));
            drop(context.spans.waited(delivery.trace, delivery.queued_at));
        }
    }
    let start = Instant::now();
    let reply = route.channel.send(&context.wire, &parcel.message).await;
    let sent = Sent { channel, verdict: verdict(channel, &reply), reply, elapsed: start.elapsed() };
    context.metrics.sent(channel.as_str(), sent.verdict.as_str(), sent.elapsed);
    if sent.verdict == Verdict::Delivered {
        for delivery in deliveries(head).take(parcel.count).filter(|delivery| delivery.push.is_none()) {
            context.metrics.delivered(since(delivery.received_at));
        }
    }
    let content = context.in_force.settings().log.content.of_body(&parcel.message);
    deliveries(head).take(parcel.count).for_each(|each| trail::log_sent(each, parcel.count, content.as_deref(), &sent));
    match app_state(channel, sent.verdict) {
        AppState::Held => {
            let app = &head.delivery.app;
            context.alarms.raise(Alarm::of_app(Kind::Held, app, &sent.in_words()));
            context.holds.hold(app, &sent.in_words()).await;
        }
        AppState::Works => context.holds.lift(&head.delivery.app).await,
        AppState::Unsaid => {}
    }
    sent
}

/// Says what somebody has to know of deliveries, once for each. What holds a whole app is told where that is
/// found.
fn alarm(context: &Context, settled: &[&Delivery], decision: &Decision, sent: Option<&Sent>) {
    let Some(kind) = decision.alarm else { return };
    if kind == Kind::Held && sent.is_some_and(|sent| app_state(sent.channel, sent.verdict) == AppState::Held) {
        return;
    }
    let why = sent.map_or_else(|| decision.reason.unwrap_or_default().to_owned(), Sent::in_words);
    // A push that is unknown is the compensator's, which calls a person where nothing else is left.
    let is_compensators = |delivery: &Delivery| kind == Kind::Unknown && delivery.push.is_some();
    for delivery in settled.iter().filter(|delivery| !is_compensators(delivery)) {
        context.alarms.raise(if kind == Kind::NotTried {
            Alarm::of_process(kind, &why)
        } else {
            Alarm::of_chat(kind, &delivery.app, &delivery.chat_id, &format!("{why} ({})", delivery.id))
        });
    }
}

async fn finish(context: &Context, settle: Settle) -> Option<Head> {
    crash::point(Point::Settling);
    let settled = insist(context, "settle", || context.store.settle(vec![settle.clone()])).await;
    crash::point(Point::Settled);
    match settled {
        Some(Settled::Next(reply, begun)) => Some(Head { reply: *reply, begun }),
        Some(Settled::Released | Settled::Parked(_)) => None,
        Some(Settled::Lost) | None => {
            debug!(delivery = settle.delivery_id, "lease lost before settle");
            None
        }
    }
}

/// Gives a lease back, for nobody to take up for the length of `pause`; what was begun under it stays begun. Where that
/// fails it runs out by itself.
async fn give_back(context: &Context, head: &ClaimedReply, pause: Duration) {
    if let Err(error) = context.store.release(Side::Out, vec![head.lease.clone()], pause).await {
        context.metrics.store_error("release");
        debug!(%error, "a lane could not be given back");
    }
}

/// [`store::insist`], where nothing is left to do but to wait for the lease's end if even that fails.
async fn insist<T, F>(context: &Context, verb: &'static str, call: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = store::Result<Vec<T>>>,
{
    match store::insist(verb, context.settings.lease, &context.metrics, &context.alarms, call).await {
        Ok(mut answers) => answers.pop(),
        Err(error) => {
            tracing::error!(verb, %error, "the store did not answer while the lease could be ours");
            None
        }
    }
}
