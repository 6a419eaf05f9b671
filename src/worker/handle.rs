//! Handles one claimed message: rules, action, replies. It changes nothing outside itself; what it decides becomes
//! true in the commit step alone.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use tracing::{error, warn};

use super::recall::Recalled;
use super::reply::Origin;
use super::session::{self, After, Exchanged};
use super::{Context, Work, act::act, through_outages};
use crate::action;
use crate::alarms::{Alarm, Kind};
use crate::mask;
use crate::model::{Message, Outcome, ReplyTo, millis, now_ms};
use crate::records;
use crate::rules::{Action, Decision, texts};
use crate::setup::AppSetup;
use crate::store::{Admitted, ClaimedMessage, Commit, Exchange, Knock, LateTicket, Line, Stage, Turn};
use crate::wecom::message;

/// What handling decided, before it is a commit.
pub(super) struct Decided {
    pub rule: Option<String>,
    pub trigger: Option<&'static str>,
    pub action: Option<&'static str>,
    pub outcome: Outcome,
    pub reason: Option<String>,
    pub messages: Vec<Value>,
    /// What an action that sees the session said of it.
    pub said: Option<Said>,
    /// What a sentence captured: its words, and those of its answer, are shown to nobody and kept nowhere but masked by it.
    pub captures: Option<Map<String, Value>>,
}

/// An exchange: upon which session, the vars that the action set, and what the member is called.
pub(super) struct Said {
    pub upon: Recalled,
    pub vars: Option<Map<String, Value>>,
    pub name: Option<String>,
}

impl Decided {
    /// Nothing is said.
    pub fn ends(outcome: Outcome, rule: Option<String>, reason: Option<String>) -> Self {
        let (messages, said, captures) = (Vec::new(), None, None);
        Self { rule, trigger: None, action: None, outcome, reason, messages, said, captures }
    }

    /// The backend failed: the member gets one short apology, the reason goes to the log and the trail.
    pub fn failed(self, message: &Message, reason: String) -> Self {
        let Message { request_id, app, chat_id, sender_key, msg_id, .. } = message;
        error!(request_id, app, chat_id, sender_key, msg_id, rule = self.rule, %reason, "an action failed");
        let messages = vec![action::apology(request_id)];
        Self { outcome: Outcome::Queued, reason: Some(reason), messages, said: None, ..self }
    }

    /// Words of this exchange as they are kept and logged.
    fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.captures.as_ref().map_or(Cow::Borrowed(text), |captures| mask::captured(text, captures).into())
    }
}

/// What has to be committed, and what the log says of it.
pub(super) struct Handled {
    pub commit: Commit,
    pub outcome: Outcome,
    pub rule: Option<String>,
    pub action: Option<&'static str>,
    pub reason: Option<String>,
    /// `[{id, digest}]` of the replies.
    pub replies: Value,
    /// The member's words as logs may have them, where that is not as they are.
    pub text: Option<String>,
}

/// Handles `claimed`.
pub(super) async fn handle(context: &Context, work: Work<'_>, claimed: &ClaimedMessage) -> Handled {
    let began = Instant::now();
    let message = &claimed.message;
    // A panic in a rule or an action is that message's failure and nobody else's.
    let decided = match AssertUnwindSafe(decide(context, work, claimed)).catch_unwind().await {
        Ok(decided) => decided,
        Err(_) => Decided::ends(Outcome::Queued, None, None).failed(message, "panic".into()),
    };
    commit(context, work, claimed, decided, began)
}

async fn decide(context: &Context, work: Work<'_>, claimed: &ClaimedMessage) -> Decided {
    let (message, app) = (&claimed.message, work.app);
    let decision = app.rules.decide(message);
    let captures = match &decision {
        Decision::Run(run) => run.captures.clone(),
        Decision::Ignore { .. } | Decision::Block { .. } | Decision::Say { .. } => None,
    };
    let decided = match unheard(context, app, claimed, &decision).await {
        Some(unheard) => unheard,
        None => follow(context, work, claimed, decision).await,
    };
    Decided { captures, ..decided }
}

async fn follow(context: &Context, work: Work<'_>, claimed: &ClaimedMessage, decision: Decision) -> Decided {
    let message = &claimed.message;
    match decision {
        Decision::Ignore { reason } => Decided::ends(Outcome::Ignored, None, Some(reason)),
        Decision::Block { rule } => {
            warn!(request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
                sender_key = %message.sender_key, msg_id = %message.msg_id, "a word of the app's [rules] sensitive stands in it; not answered");
            Decided::ends(Outcome::Blocked, Some(rule), None)
        }
        Decision::Say { rule, text, reason } => {
            let messages = vec![message::text(&text)];
            Decided { messages, ..Decided::ends(Outcome::Queued, Some(rule), reason.map(str::to_owned)) }
        }
        Decision::Run(run) => act(context, work, claimed, &run).await,
    }
}

/// What would be answered, but in a muted chat or by a member who writes too fast, is not. Chatter counts for nobody.
async fn unheard(context: &Context, app: &AppSetup, claimed: &ClaimedMessage, decision: &Decision) -> Option<Decided> {
    let mutes = match decision {
        Decision::Ignore { .. } | Decision::Block { .. } => return None,
        Decision::Say { .. } => None,
        Decision::Run(run) => match *run.action {
            Action::Mute(muted) => Some(muted),
            Action::Reply(_) | Action::Help | Action::Http(_) | Action::Llm(_) => None,
        },
    };
    if claimed.muted && mutes != Some(false) {
        return Some(Decided::ends(Outcome::Ignored, None, Some("muted".to_owned())));
    }
    let rate = app.settings.rules.manners.per_member.filter(|_| mutes.is_none())?;
    let message = &claimed.message;
    let knock = || Knock { key: message.key(), request_id: message.request_id.clone(), rate };
    let reason = Some("member_rate".to_owned());
    // With the store away for good, the commit will say so.
    match through_outages(context, "admit", || context.store.members().admit(knock())).await.ok()? {
        Admitted::Yes => None,
        Admitted::TooFast => Some(Decided::ends(Outcome::Ignored, None, reason)),
        Admitted::TooFastFirst => {
            let messages = vec![message::text(texts::TOO_FAST)];
            Some(Decided { messages, ..Decided::ends(Outcome::Queued, None, reason) })
        }
    }
}

fn commit(
    context: &Context,
    Work { setup, app, trace }: Work<'_>,
    claimed: &ClaimedMessage,
    decided: Decided,
    began: Instant,
) -> Handled {
    let message = &claimed.message;
    let origin = Origin {
        key: message.key(),
        request_id: message.request_id.clone(),
        received_at: message.received_at,
        expires_at: message.received_at.saturating_add(millis(app.settings.max_reply_age)),
        reply_to: message.reply_to(),
        trace,
    };
    let found = setup.routes.find(origin.destination());
    let route = found.as_ref().map_err(|why| *why);
    let (mut decided, replies) = match origin.replies(route, &decided.messages, "") {
        Ok(replies) => (decided, replies),
        Err(error) => {
            let decided = decided.failed(message, format!("the answer can't be sent: {error}"));
            // The apology is short and plain: it fits every channel.
            let apology = origin.replies(route, &decided.messages, "").unwrap_or_default();
            (decided, apology)
        }
    };
    if let (Err(why), false) = (&found, replies.lines.is_empty()) {
        origin.log_dropped(&replies.lines, *why);
        context.alarms.raise(Alarm::of_chat(Kind::NoRoute, &message.app, &message.chat_id, why.as_str()));
    }
    let outcome = if replies.lines.is_empty() { decided.outcome } else { Outcome::Dropped };
    let said = decided.said.take();
    let exchange = said.map(|said| exchange(app, message, &decided, said));
    let text = decided.captures.is_some().then(|| decided.shown(&message.text).into_owned());
    let handled = json!({
        "rule": decided.rule, "trigger": decided.trigger, "action": decided.action, "outcome": decided.outcome.as_str(), "reason": decided.reason,
        "replies": &replies.summary, "elapsed_ms": millis(began.elapsed()), "redelivered": claimed.redelivered,
    });
    let mut lines = vec![origin.line(Stage::Handled, handled)];
    lines.extend(replies.lines);
    let ticket = LateTicket {
        ttl: Duration::from_millis(origin.expires_at.saturating_sub(now_ms()).try_into().unwrap_or(0)),
        received_at: origin.received_at,
        expires_at: origin.expires_at,
        reply_to: origin.reply_to.clone(),
    };
    let commit = Commit {
        lease: claimed.lease.clone(),
        key: origin.key,
        request_id: origin.request_id,
        mark_ttl: app.settings.mark_ttl(message),
        exchange,
        replies: replies.deliveries,
        turn: Turn {
            weight: found.as_ref().map_or(1, |route| route.weight),
            head_start: setup.settings.sender.head_start,
        },
        depth_limit: setup.settings.store.lane_depth,
        await_late: (outcome == Outcome::Waiting).then_some(ticket),
        lines,
    };
    let Decided { rule, action, reason, .. } = decided;
    Handled { commit, outcome, rule, action, reason, replies: replies.summary, text }
}

/// What the session is after this exchange.
fn exchange(app: &AppSetup, message: &Message, decided: &Decided, said: Said) -> Exchange {
    let (bounds, Said { upon, vars, name }) = (&app.settings.session, said);
    let Recalled { key, session: before, forgotten } = upon;
    let had_vars = !before.vars.is_empty();
    let shown = |text| decided.shown(text);
    let exchanged = Exchanged { text: &message.text, name, replies: &decided.messages, vars, shown: &shown };
    let After { session, turns, fits } = session::after(before, bounds, exchanged);
    if !fits {
        warn!(request_id = %message.request_id, "the action's vars are too large (session.max_vars); they stay as they were");
    }
    // Where older vars may be that we were not shown, none must not mean that there are none.
    let vars = (!session.vars.is_empty() || had_vars).then_some(&session.vars);
    let line = bounds.archive.then(|| Line {
        stage: Stage::Exchanged,
        request_id: message.request_id.clone(),
        key: key.line_key(&message.msg_id),
        detail: records::exchange(&turns, vars),
    });
    Exchange { key, session, keep: bounds.keep, forgotten, line }
}

/// The commit that takes the place of one whose replies found no room in the chat's out-lane.
pub(super) fn without_room(mut commit: Commit) -> Commit {
    let origin = Origin {
        key: commit.key.clone(),
        request_id: commit.request_id.clone(),
        received_at: 0,
        expires_at: 0,
        reply_to: ReplyTo::default(),
        trace: None,
    };
    let dropped: Vec<Line> = commit.replies.drain(..).map(|d| origin.dropped(&d.id, "lane_full")).collect();
    commit.lines.extend(dropped);
    commit
}
