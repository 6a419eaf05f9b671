//! The workers: claim messages, handle them, commit what was decided.
//!
//! What always holds: a permit is taken before a claim, and no more lanes are claimed than there are permits; one app
//! holds at most half of them (P6); a message's effects exist only once its commit says `Done`; a worker that lost its
//! lease changes nothing. The loop outlives every store outage. Once it is stopped nothing is claimed; what is under way is
//! finished, or at the cut given back: what it did so far existed nowhere, and whoever claims it next starts over under
//! the same `Idempotency-Key`.

mod act;
mod handle;
mod profile;
mod recall;
pub mod reply;
mod session;
mod spans;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use crate::action::Actions;
use crate::alarms::{Alarm, Alarms, Kind};
use crate::crash::{self, Point};
use crate::directory::Directory;
use crate::model::{Lane, Outcome, millis, since};
use crate::records::Records;
use crate::rush::Rush;
use crate::setup::{AppSetup, InForce, Setup};
use crate::stop::Stop;
use crate::store::{
    self, Claimed, ClaimedMessage, Commit, Committed, Held, HeldLeases, Lease, Outage, Poisoned, SharedStore, Side,
    StoreError,
};
use crate::telemetry::{Health, Metrics, SpanOf, Spans, Telemetry};
use crate::trace_context::TraceContext;
use recall::Archive;

/// The loop's name in `/livez`.
const LOOP: &str = "workers";
/// How long a worker that found nothing waits before it looks by itself.
const IDLE: Duration = Duration::from_secs(1);
/// Lanes claimed in one step at most.
const CLAIM: usize = 64;
/// The same in a rush, and how long the next step waits then.
const CLAIM_IN_RUSH: usize = 16;
const STEP_IN_RUSH: Duration = Duration::from_millis(10);
/// How long a lane whose app has no permit left is set aside.
const APP_BUSY: Duration = Duration::from_millis(500);
/// The same where its app is not configured, up to twice.
const APP_GONE: Duration = Duration::from_secs(10);

/// What messages are answered from.
pub struct Sources {
    /// Runs actions.
    pub actions: Actions,
    /// Who asks WeCom about contacts.
    pub directory: Arc<Directory>,
    /// Older sessions.
    pub records: Records,
}

/// The claim loop and what its tasks share.
pub struct Workers(Arc<Context>);

struct Context {
    store: SharedStore,
    in_force: Arc<InForce>,
    actions: Actions,
    alarms: Alarms,
    archive: Archive,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    spans: Spans,
    held: Arc<HeldLeases>,
    names: profile::Names,
    directory: Arc<Directory>,
    rush: Arc<Rush>,
}

/// What one task holds while it works.
struct Job {
    claimed: ClaimedMessage,
    /// In force when it was claimed, and for it to its end.
    setup: Arc<Setup>,
    _held: Held,
    _permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

/// By what one message is handled.
#[derive(Clone, Copy)]
struct Work<'a> {
    setup: &'a Setup,
    app: &'a AppSetup,
    /// The span of its handling; where this process traces nothing, what its callback left.
    trace: Option<TraceContext>,
}

impl Workers {
    /// Works by what is in force when a message is claimed.
    pub fn new(
        store: SharedStore,
        in_force: Arc<InForce>,
        sources: Sources,
        rush: Arc<Rush>,
        telemetry: Telemetry,
    ) -> Self {
        let Sources { actions, directory, records } = sources;
        let archive = Archive::new(records);
        let held = HeldLeases::new(store.clone(), Side::In, in_force.settings().workers.lease);
        let Telemetry { alarms, metrics, health, spans } = telemetry;
        Self(Arc::new(Context {
            store,
            in_force,
            actions,
            archive,
            alarms,
            metrics,
            health,
            spans,
            held,
            names: profile::Names::default(),
            directory,
            rush,
        }))
    }

    /// Works until `stop`, see there.
    pub async fn run(&self, stop: Stop) {
        let context = &self.0;
        let tasks = TaskTracker::new();
        let renewals = CancellationToken::new();
        let renewing = tokio::spawn({
            let (held, renewals) = (context.held.clone(), renewals.clone());
            async move { held.renew_until(&renewals).await }
        });
        claim_loop(context, &tasks, &stop).await;
        context.health.done(LOOP);
        tasks.close();
        tasks.wait().await;
        renewals.cancel();
        let _ = renewing.await;
    }
}

/// Claims until `stop`. A claim under way is never cut off: its leases would be held by nobody.
async fn claim_loop(context: &Arc<Context>, tasks: &TaskTracker, stop: &Stop) {
    let workers = context.in_force.settings().workers.clone();
    let permits = Arc::new(Semaphore::new(workers.concurrency));
    let (mut outage, mut waited) = (Outage::new("claim_messages"), Duration::ZERO);
    while !stop.draining.is_cancelled() {
        context.health.tick(LOOP);
        let permit = tokio::time::timeout(IDLE, permits.clone().acquire_owned());
        let Some(Ok(Ok(first))) = stop.draining.run_until_cancelled(permit).await else { continue };
        let mut taken = vec![first];
        let most = if context.rush.goes_before(waited) { CLAIM_IN_RUSH } else { CLAIM };
        taken.extend(std::iter::from_fn(|| permits.clone().try_acquire_owned().ok()).take(most - 1));
        match context.store.claim_messages(taken.len(), workers.lease).await {
            Ok(Claimed { items, poisoned, next_wake }) => {
                outage.over();
                poisoned.iter().for_each(|message| give_up(context, message));
                let found = !items.is_empty();
                waited = items.iter().map(|claimed| since(claimed.message.received_at)).max().unwrap_or_default();
                if found {
                    crash::point(Point::Claimed);
                }
                start(context, tasks, items, taken, stop).await;
                if context.rush.goes_before(waited) {
                    stop.draining.run_until_cancelled(tokio::time::sleep(STEP_IN_RUSH)).await;
                }
                if !found {
                    let work = context.store.wakeups().wait(Side::In, next_wake.unwrap_or(IDLE).min(IDLE));
                    stop.draining.run_until_cancelled(work).await;
                }
            }
            Err(error) => {
                drop(taken);
                stop.draining.run_until_cancelled(outage.wait(&error, &context.metrics, &context.alarms)).await;
            }
        }
    }
}

/// Says that a message is dead: the store ended it.
fn give_up(context: &Context, Poisoned { request_id, key }: &Poisoned) {
    let [app, chat_id, sender_key, msg_id] = key.parts();
    context.metrics.handled(&app, Outcome::Dead);
    context.alarms.raise(Alarm::of_chat(Kind::Poison, &app, &chat_id, &msg_id));
    error!(
        %request_id, %app, %chat_id, %sender_key, %msg_id, reason = "poison",
        "message dead: whoever handled it never finished (workers.poison_after)"
    );
}

/// Starts a task for each claimed message whose app has a permit left; the other lanes go back for a while, and at once
/// where no more is begun.
async fn start(
    context: &Arc<Context>,
    tasks: &TaskTracker,
    items: Vec<ClaimedMessage>,
    mut permits: Vec<OwnedSemaphorePermit>,
    stop: &Stop,
) {
    if stop.draining.is_cancelled() {
        return give_back(context, items.into_iter().map(|claimed| claimed.lease).collect(), Duration::ZERO).await;
    }
    let (mut busy, mut gone, setup) = (Vec::new(), Vec::new(), context.in_force.now());
    for claimed in items {
        let app = setup.apps.get(&claimed.message.app);
        let (Some(permit), app_permit) = (permits.pop(), app.map(|app| app.permits.clone().try_acquire_owned())) else {
            break;
        };
        match app_permit {
            Some(Ok(app_permit)) => {
                let held = context.held.hold(claimed.lease.clone());
                let job = Job { claimed, setup: setup.clone(), _held: held, _permits: (permit, app_permit) };
                tasks.spawn(work_or_give_back(context.clone(), job, stop.cut.clone()));
            }
            Some(Err(_)) => busy.push(claimed.lease),
            None => {
                // Kept, not thrown away: the app's file may come back.
                let message = &claimed.message;
                error!(
                    request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
                    sender_key = %message.sender_key, msg_id = %message.msg_id, "a message waits for an app that is not configured"
                );
                gone.push(claimed.lease);
            }
        }
    }
    for (leases, pause) in [(busy, APP_BUSY), (gone, APP_GONE)] {
        give_back(context, leases, pause.mul_f64(rand::random_range(1.0..2.0))).await;
    }
}

async fn give_back(context: &Context, leases: Vec<Lease>, pause: Duration) {
    if leases.is_empty() {
        return;
    }
    if let Err(error) = context.store.release(Side::In, leases, pause).await {
        // Their leases end by themselves.
        debug!(%error, "lanes could not be given back");
    }
}

/// Works one message; at the cut it is dropped where it stands, and whoever comes next starts over at once.
async fn work_or_give_back(context: Arc<Context>, job: Job, cut: CancellationToken) {
    if cut.run_until_cancelled(work(&context, &job)).await.is_some() {
        return;
    }
    let message = &job.claimed.message;
    warn!(
        request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
        sender_key = %message.sender_key, msg_id = %message.msg_id,
        "not finished before the stop (server.drain); it will be handled again, under the same Idempotency-Key"
    );
    give_back(&context, vec![job.claimed.lease.clone()], Duration::ZERO).await;
}

async fn work(context: &Context, job: &Job) {
    let message = &job.claimed.message;
    let Some(app) = job.setup.apps.get(&message.app) else { return };
    let mut span = spans::handling(&context.spans, &job.claimed);
    let work = Work { setup: &job.setup, app, trace: span.context().or(message.trace) };
    let waited = since(message.received_at);
    context.metrics.started(waited);
    if message.msg_type == "event:add_to_chat" {
        let lane = Lane::of_chat(&message.app, &message.chat_id);
        if let Err(error) = through_outages(context, "revive", || context.store.revive(&lane)).await {
            error!(
                %error, request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
                sender_key = %message.sender_key, msg_id = %message.msg_id,
                "a chat could not be revived; the event will be handled again"
            );
            return give_back(context, vec![job.claimed.lease.clone()], Duration::ZERO).await;
        }
    }
    context.directory.hear(&app.settings, message);
    let began = Instant::now();
    let handling = handle::handle(context, work, &job.claimed);
    let (handled, ()) = tokio::join!(handling, profile::note_name(context, message));
    let content = job.setup.settings.log.content;
    let replies = content.of_replies(&handled.replies, &handled.commit.replies);
    spans::decided(&mut span, &handled);
    let commit = context.spans.child(SpanOf::Commit, work.trace);
    let committed = settle(context, handled.commit).await;
    spans::committed(commit, committed.as_ref().ok().copied());
    match committed {
        Ok(Committed::Done) => {
            crash::point(Point::Committed);
            context.metrics.handled(&message.app, handled.outcome);
            info!(
                request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
                sender_key = %message.sender_key, msg_id = %message.msg_id, rule = handled.rule, action = handled.action,
                outcome = handled.outcome.as_str(), reason = handled.reason, %replies, text = content.of_text(handled.text.as_deref().unwrap_or(&message.text)),
                waited_ms = millis(waited), elapsed_ms = began.elapsed().as_millis() as u64, "message handled"
            );
        }
        Ok(Committed::Lost) => {
            debug!(request_id = %message.request_id, "the lease was lost; another worker handles it")
        }
        Ok(Committed::LaneFull) | Err(_) => {
            let error = committed.err();
            let error = error.as_ref().map(tracing::field::display);
            error!(
                error, request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
                sender_key = %message.sender_key, msg_id = %message.msg_id, "not committed; it will be handled again"
            );
            // Where the store is back by now, nobody waits for the lease's end, and it counts as no crash.
            give_back(context, vec![job.claimed.lease.clone()], Duration::ZERO).await;
        }
    }
}

/// Commits, through store outages, while the lease may still be ours. A commit that was applied although its answer
/// was lost comes back as `Lost`, which is right.
async fn settle(context: &Context, mut commit: Commit) -> store::Result<Committed> {
    crash::point(Point::Committing);
    loop {
        let committed = through_outages(context, "commit", || context.store.commit(vec![commit.clone()])).await?;
        match committed.first().copied() {
            Some(Committed::LaneFull) if !commit.replies.is_empty() => {
                let [app, chat_id, sender_key, msg_id] = commit.key.parts();
                for delivery in commit.replies.iter().map(|reply| &reply.id) {
                    error!(request_id = %commit.request_id, %app, %chat_id, %sender_key, %msg_id, %delivery, state = "dropped",
                        reason = "lane_full", "alarm: the reply was dropped, too many wait for this chat (store.lane_depth)");
                }
                context.alarms.raise(Alarm::of_chat(Kind::LaneFull, &app, &chat_id, &msg_id));
                commit = handle::without_room(commit);
            }
            Some(answer) => return Ok(answer),
            None => return Err(StoreError::Corrupt("commit: no answer to a message".into())),
        }
    }
}

/// [`store::insist`], under a worker's lease.
async fn through_outages<T, F>(context: &Context, verb: &'static str, call: impl Fn() -> F) -> store::Result<T>
where
    F: Future<Output = store::Result<T>>,
{
    let lease = context.in_force.settings().workers.lease;
    store::insist(verb, lease, &context.metrics, &context.alarms, call).await
}
