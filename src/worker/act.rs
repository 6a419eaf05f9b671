//! Runs the action that a rule decided on, and what it does besides answering: to bind a member, to keep what they said of
//! themselves, to mute their chat.
//!
//! What a member is told is stored first: the answer leaves by the commit behind it. A crash between the two repeats both,
//! which changes nothing.

use std::time::Instant;

use serde_json::json;
use tracing::info;

use super::handle::{Decided, Said};
use super::recall::recall;
use super::{Context, Work, profile, through_outages};
use crate::action::{self, Answer};
use crate::config::settings::Terms;
use crate::crash::{self, Point};
use crate::member::{NAME, Profile, field_value};
use crate::model::{Lane, Message, MessageKey, Outcome};
use crate::rules::{Action, Run, Trigger, texts};
use crate::setup::AppSetup;
use crate::store::{
    ChangeKind, ClaimedMessage, FieldChange, Line, ProfileChange, StoreError, Tuning, UserChange, Who, from_to,
};
use crate::telemetry::SpanOf;
use crate::wecom::message::text;

/// Acts on a message.
pub(super) async fn act(context: &Context, work: Work<'_>, claimed: &ClaimedMessage, run: &Run) -> Decided {
    let (message, app) = (&claimed.message, work.app);
    let decided = Decided {
        trigger: Some(run.trigger.as_str()),
        action: Some(run.action.as_str()),
        ..Decided::ends(Outcome::Silent, Some(run.rule.clone()), None)
    };
    let mut profile = match profile::of(context, message, run).await {
        Ok(profile) => profile,
        Err(error) => return decided.failed(message, format!("the member's profile: {error}")),
    };
    if let Some(instead) = run.unless_bound.as_ref().filter(|_| profile.user.is_none()) {
        let reason = Some("not_bound".to_owned());
        return Decided { outcome: Outcome::Queued, reason, messages: vec![text(instead)], action: None, ..decided };
    }
    // A reply to who the member says they are speaks of them as that.
    profile.contact.extend(kept(run));
    let sees_session = run.action.sees_session();
    let recalled = recall(context, app, claimed, sees_session).await;
    let named = context.directory.chat_name(&message.app, &message.chat_id);
    let configured = app.settings.chats.get(&message.chat_id).and_then(|chat| chat.name.as_deref());
    let name = profile.contact.get(NAME).or(message.sender_name.as_ref()).cloned();
    let mut span = context.spans.child(SpanOf::Action, work.trace);
    span.tell("action", run.action.as_str());
    span.tell("rule", &run.rule);
    let request = action::Request {
        message,
        chat_name: configured.or(named.as_deref()),
        run,
        session: &recalled.session,
        profile: &profile,
        rules: &app.rules,
        trace: span.context().or(work.trace),
    };
    let began = Instant::now();
    let answer = context.actions.run(request).await;
    crash::point(Point::Acted);
    context.metrics.action(began.elapsed());
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            span.failed(&error.to_string());
            return decided.failed(message, error.to_string());
        }
    };
    drop(span);
    match remember(context, work, claimed, run, (&profile, &answer)).await {
        Ok(confirmation) => {
            let upon = sees_session.then_some(Said { upon: recalled, vars: None, name });
            said(decided, upon, answer, confirmation)
        }
        Err(error) => decided.failed(message, format!("what was to be kept: {error}")),
    }
}

/// What the answer makes of the message.
fn said(decided: Decided, upon: Option<Said>, answer: Answer, confirmation: Option<&str>) -> Decided {
    let (mut messages, vars) = match answer {
        Answer::Later => return Decided { outcome: Outcome::Waiting, said: upon, ..decided },
        Answer::Silent => (Vec::new(), None),
        Answer::Say { messages, vars, .. } => (messages, vars),
    };
    if messages.is_empty() {
        messages.extend(confirmation.map(text));
    }
    let outcome = if messages.is_empty() { Outcome::Silent } else { Outcome::Queued };
    Decided { outcome, messages, said: upon.map(|said| Said { vars, ..said }), ..decided }
}

/// Stores what outlives the message; answers what the member is told of it where the action itself says nothing.
async fn remember(
    context: &Context,
    work: Work<'_>,
    claimed: &ClaimedMessage,
    run: &Run,
    (profile, answer): (&Profile, &Answer),
) -> Result<Option<&'static str>, StoreError> {
    let (members, message) = (context.store.members(), &claimed.message);
    if let Action::Mute(muted) = *run.action {
        mute(context, work, claimed, muted).await?;
    }
    let Some(change) = change(work.app, message, run, answer) else { return Ok(None) };
    let change = ProfileChange { upon: profile.forgotten, ..change };
    if !through_outages(context, "change_profile", || members.change_profile(change.clone())).await? {
        info!(request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
            sender_key = %message.sender_key, msg_id = %message.msg_id,
            "a member was forgotten while they said who they are: nothing is kept");
        return Ok(None);
    }
    let (word, confirmation) = match &change.user {
        Some(UserChange::Unbind) => ("unbound", Some(texts::UNBOUND)),
        Some(UserChange::Bind { .. } | UserChange::Renew(_)) => ("bound", Some(texts::BOUND)),
        None => ("noted", None),
    };
    info!(request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id, sender_key = %message.sender_key,
        msg_id = %message.msg_id, rule = run.rule, what = word, "a member said who they are");
    Ok(confirmation.filter(|_| run.trigger == Trigger::Binding))
}

/// Mutes a chat, or lets it speak again, on an admin's word. A message that is handled again makes the same change again.
async fn mute(context: &Context, work: Work<'_>, claimed: &ClaimedMessage, muted: bool) -> Result<(), StoreError> {
    let Message { request_id, app, chat_id, sender_key, msg_id, .. } = &claimed.message;
    let told = json!({"muted": from_to(claimed.muted, muted), "msg_id": msg_id});
    let of = MessageKey::new(app, chat_id, "", "");
    let tuning = Tuning {
        lane: Lane::of_chat(app, chat_id),
        weight: None,
        paused: None,
        revive: false,
        unhold: false,
        muted: Some(muted),
        turn: work.setup.turn(app, chat_id),
        change: Line::change(request_id, ChangeKind::Chat, Who::member(sender_key), of, told),
    };
    through_outages(context, "tune", || context.store.tune(tuning.clone())).await?;
    info!(%request_id, %app, %chat_id, %sender_key, %msg_id, muted, "an admin muted a chat, or let it speak again");
    Ok(())
}

/// What becomes of the member's profile. Any action may tell who the member is; a binding without a service keeps what was
/// captured.
fn change(app: &AppSetup, message: &Message, run: &Run, answer: &Answer) -> Option<ProfileChange> {
    let member = message.member();
    let terms = run.terms.as_deref().copied().unwrap_or_default();
    if terms.unbind {
        let contact = app.rules.kept_fields().into_iter().map(|field| (field.to_owned(), FieldChange::Unsay));
        let (user, contact) = (Some(UserChange::Unbind), contact.collect());
        return Some(ProfileChange { member, user, contact, upon: None, change: None });
    }
    let user_id = match answer {
        Answer::Say { user_id, .. } => user_id.clone(),
        Answer::Silent | Answer::Later => None,
    };
    let Terms { ttl, renew_on_use, .. } = terms;
    let user = user_id.map(|id| UserChange::Bind { id, ttl, renew: renew_on_use.then_some(ttl) });
    let contact: Vec<_> = kept(run).map(|(field, value)| (field, FieldChange::Say(value))).collect();
    (user.is_some() || !contact.is_empty()).then_some(ProfileChange { member, user, contact, upon: None, change: None })
}

/// What a binding captured for the contact book; a service keeps what it is told by itself.
fn kept(run: &Run) -> impl Iterator<Item = (String, String)> {
    let is_asked = matches!(*run.action, Action::Http(_));
    let ends = run.terms.as_ref().is_some_and(|terms| terms.unbind);
    let captures = run.captures.iter().flatten().filter(move |_| !is_asked && !ends);
    captures.filter_map(|(field, value)| Some((field.clone(), field_value(value.as_str()?)?)))
}
