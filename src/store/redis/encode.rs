//! What the scripts get: each item's arguments, in the order that the script's header names.

use std::time::Duration;

use super::batch::Args;
use crate::model::{Delivery, Lane, encode as encoded, millis, since};
use crate::store::json::to_json;
use crate::store::share::{Due, REPLIES_A_PUSH};
use crate::store::*;

/// Durations are cut here: some thirty years, within what Redis takes as an expiry.
const FOREVER: Duration = Duration::from_secs(1_000_000_000);

/// Whole milliseconds.
pub(super) fn ms(duration: Duration) -> String {
    duration.min(FOREVER).as_millis().to_string()
}

/// Whole milliseconds, at least one: Redis refuses to keep something for no time.
pub(super) fn ttl(duration: Duration) -> String {
    ms(duration.max(Duration::from_millis(1)))
}

/// The side's word in key names and in wake-ups.
pub(super) fn side(side: Side) -> &'static str {
    match side {
        Side::In => "in",
        Side::Out => "out",
    }
}

/// For `enqueue.lua`. A message ages from when the gateway took it, by the gateway's clock; how much of its time is
/// left is then counted by the server's.
pub(super) fn arrival(arrival: &Arrival, shard_limit: u64) -> Result<Args> {
    let message = &arrival.message;
    let max_age = millis(arrival.max_age.min(FOREVER));
    let fresh_for = max_age - millis(since(message.received_at));
    Ok(vec![
        arrival.lane.as_str().into(),
        message.key().as_str().into(),
        message.request_id.clone(),
        fresh_for.to_string(),
        ttl(arrival.mark_ttl),
        arrival.depth_limit.to_string(),
        shard_limit.to_string(),
        flag(arrival.repeated).to_owned(),
        to_json(message)?,
    ])
}

/// For `claim_messages.lua`.
pub(super) fn claim_messages(want: usize, lease: Duration, poison_after: u32) -> Args {
    [ms(lease), poison_after.to_string()].into_iter().chain(lease_ids(want)).collect()
}

/// For `claim_replies.lua`. Pushes may or may not have what replies leave.
pub(super) fn claim_replies(want: usize, lease: Duration, due: Due, may_have_the_rest: bool) -> Args {
    let rest = flag(may_have_the_rest).to_owned();
    [ms(lease), due.0.to_string(), REPLIES_A_PUSH.to_string(), rest].into_iter().chain(lease_ids(want)).collect()
}

/// A fresh one for each lane wanted.
fn lease_ids(want: usize) -> impl Iterator<Item = String> {
    (0..want).map(|_| format!("{:016x}", rand::random::<u64>()))
}

fn flag(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

/// For `commit.lua`.
pub(super) fn commit(commit: &Commit) -> Result<Args> {
    let [session, keep, turns, vars, forgotten, line] = exchange(commit.exchange.as_ref())?;
    let late = commit.await_late.as_ref();
    let [late_ttl, late_received, late_expires, late_reply_to] = match late {
        Some(ticket) => {
            [ttl(ticket.ttl), ticket.received_at.to_string(), ticket.expires_at.to_string(), to_json(&ticket.reply_to)?]
        }
        None => Default::default(),
    };
    // P2 hangs on it that replies go nowhere else.
    let chat = commit.key.chat_lane();
    let mut args = vec![
        commit.lease.lane.as_str().into(),
        commit.lease.id.clone(),
        commit.key.as_str().into(),
        commit.request_id.clone(),
        ttl(commit.mark_ttl),
        session,
        keep,
        turns,
        vars,
        forgotten,
        line,
        chat.as_str().into(),
        commit.turn.weight.to_string(),
        ms(commit.turn.head_start),
        commit.depth_limit.to_string(),
        late_ttl,
        late_received,
        late_expires,
        late_reply_to,
    ];
    replies_and_lines(&mut args, &chat, &commit.replies, &commit.lines)?;
    Ok(args)
}

/// For `admit.lua`.
pub(super) fn knock(knock: &Knock) -> Args {
    let Knock { key, request_id, rate } = knock;
    vec![key.as_str().into(), request_id.clone(), rate.limit.to_string(), ttl(rate.window)]
}

/// Name, ttl, turns, vars, when it was forgotten, line; all blank where nothing was said.
fn exchange(exchange: Option<&Exchange>) -> Result<[String; 6]> {
    let Some(Exchange { key, session, keep, forgotten, line }) = exchange else { return Ok(Default::default()) };
    let line = line.as_ref().map(Line::to_string).unwrap_or_default();
    let (turns, vars) = (to_json(&session.turns)?, to_json(&session.vars)?);
    Ok([key.as_str().to_owned(), ttl(*keep), turns, vars, forgotten.to_string(), line])
}

/// For `forget_session.lua`.
pub(super) fn forgotten(key: &SessionKey, keep: Duration, change: Option<&Line>) -> Args {
    vec![key.as_str().to_owned(), ttl(keep), change.map(Line::to_string).unwrap_or_default()]
}

/// For `answer_late.lua`.
pub(super) fn late_answer(answer: &LateAnswer) -> Result<Args> {
    let mut args = vec![
        answer.request_id.clone(),
        answer.lane.as_str().into(),
        answer.seq.to_string(),
        answer.turn.weight.to_string(),
        ms(answer.turn.head_start),
        answer.depth_limit.to_string(),
    ];
    replies_and_lines(&mut args, &answer.lane, &answer.replies, &answer.lines)?;
    Ok(args)
}

/// For `tune.lua`.
pub(super) fn tuning(tuning: &Tuning) -> Args {
    let weight = tuning.weight.map(|weight| weight.map_or_else(|| "-".to_owned(), |weight| weight.to_string()));
    vec![
        tuning.lane.as_str().into(),
        weight.unwrap_or_default(),
        tuning.paused.map(flag).unwrap_or_default().into(),
        flag(tuning.revive).into(),
        flag(tuning.unhold).into(),
        tuning.muted.map(flag).unwrap_or_default().into(),
        tuning.turn.weight.to_string(),
        ms(tuning.turn.head_start),
        tuning.change.to_string(),
    ]
}

/// For `operate.lua`.
pub(super) fn operation(operation: &Operation) -> Result<Args> {
    let mut args = vec![
        operation.lane.as_str().into(),
        operation.delivery_id.clone(),
        operation.id.clone(),
        ttl(operation.keep),
        child(operation.child.as_ref())?,
        operation.turn.weight.to_string(),
        ms(operation.turn.head_start),
        operation.depth_limit.to_string(),
    ];
    replies_and_lines(&mut args, &operation.lane, operation.resend.as_slice(), &operation.lines)?;
    Ok(args)
}

/// Refuses a reply of another chat than the lane's: nothing may move a reply to another chat.
fn replies_and_lines(args: &mut Args, lane: &Lane, replies: &[Delivery], lines: &[Line]) -> Result<()> {
    if let Some(stray) = replies.iter().find(|reply| Lane::of_chat(&reply.app, &reply.chat_id) != *lane) {
        return Err(StoreError::Refused(format!("the reply {} is not for the chat of its message", stray.id)));
    }
    args.push(replies.len().to_string());
    for delivery in replies {
        let Delivery { id, expires_at, route, received_at, push, .. } = delivery;
        let push = if push.is_some() { " push" } else { "" };
        args.push(format!("{id} {expires_at} {} {received_at}{push}\n{}", route.as_str(), to_json(delivery)?));
    }
    args.extend(lines.iter().map(Line::to_string));
    Ok(())
}

/// For `begin.lua`.
pub(super) fn begin(begin: &Begin) -> Args {
    vec![
        begin.lease.lane.as_str().into(),
        begin.lease.id.clone(),
        begin.delivery_id.clone(),
        begin.merged.to_string(),
        begin.route.as_str().into(),
        begin.pace.limit.to_string(),
        ttl(begin.pace.window),
        ms(begin.lease_for),
    ]
}

/// For `queue_pushes.lua`.
pub(super) fn new_push(push: &NewPush, shard_limit: u64) -> Result<Args> {
    let (state, delivery) = push.taken();
    let mut args = vec![
        push.lane.as_str().into(),
        encoded(&push.task_id),
        push.delivery_id.clone(),
        to_json(&state)?,
        ttl(push.keep),
        push.turn.weight.to_string(),
        ms(push.turn.head_start),
        push.depth_limit.to_string(),
        shard_limit.to_string(),
    ];
    replies_and_lines(&mut args, &push.lane, delivery, &push.lines)?;
    Ok(args)
}

/// As `shared/push.lua` reads it; blank where nothing changes.
fn child(change: Option<&ChildChange>) -> Result<String> {
    let Some(ChildChange { task_id, delivery_id, state }) = change else { return Ok(String::new()) };
    Ok(format!("{}\t{delivery_id}\t{}", encoded(task_id), to_json(state)?))
}

/// For `revise.lua`.
pub(super) fn revision(revision: &Revision) -> Result<Args> {
    let Revision { lane, seen, change, lines } = revision;
    let mut args = vec![lane.as_str().into(), child(Some(change))?, seen.to_string()];
    args.extend(lines.iter().map(Line::to_string));
    Ok(args)
}

/// For `settle.lua`.
pub(super) fn settle(settle: &Settle, due: Due) -> Result<Args> {
    let (fate, first, second) = match &settle.fate {
        Fate::Delivered => ("delivered", String::new(), String::new()),
        Fate::Ended { back_off, chat_dead } => {
            let dead = chat_dead.as_ref().map(|route| route.as_str().to_owned());
            ("ended", back_off.map(ms).unwrap_or_default(), dead.unwrap_or_default())
        }
        Fate::Again { park, why } => ("again", ms(*park), why.as_str().to_owned()),
    };
    let go_on = match &settle.go_on {
        Some(go) => {
            let GoOn { route, pace, lease_for } = go;
            let due = flag(due.is_pushes()).into();
            ["1".into(), route.as_str().into(), pace.limit.to_string(), ttl(pace.window), ms(*lease_for), due]
        }
        None => Default::default(),
    };
    let mut args = vec![
        settle.lease.lane.as_str().into(),
        settle.lease.id.clone(),
        settle.delivery_id.clone(),
        settle.merged.max(1).to_string(),
        fate.into(),
        first,
        second,
        settle.last_error.clone().unwrap_or_default(),
        child(settle.child.as_ref())?,
        settle.turn.weight.to_string(),
        ms(settle.turn.head_start),
    ];
    args.extend(go_on);
    args.extend(settle.lines.iter().map(Line::to_string));
    Ok(args)
}

/// For `renew.lua` (how long it lasts) and `release.lua` (how long the lane waits).
pub(super) fn lease(of: Side, lease: &Lease, span: Duration) -> Args {
    vec![side(of).into(), lease.lane.as_str().into(), lease.id.clone(), ms(span)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stay_within_what_redis_takes() {
        assert_eq!(ms(Duration::MAX), "1000000000000");
        assert_eq!(ttl(Duration::ZERO), "1");
    }
}
