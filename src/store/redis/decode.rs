//! What the scripts answer, as each script's header says. Anything else is `Corrupt`.
//!
//! Values hold what members wrote: errors tell of which kind they are, and never what they say.

use std::any::type_name;
use std::time::Duration;

use ::redis::{FromRedisValue, Value, from_redis_value};
use serde::de::DeserializeOwned;

use super::connection::of_server;
use crate::model::{Delivery, Lane, Message, MessageKey, RouteDigest, Session};
use crate::store::json::from_json;
use crate::store::share::Due;
use crate::store::*;

/// One value of a plain kind.
pub(super) fn plain<T: FromRedisValue>(value: Value) -> Result<T> {
    let found = kind(&value);
    from_redis_value(value).map_err(|_| StoreError::Corrupt(format!("{found} that is no {}", type_name::<T>())))
}

/// An array.
pub(super) fn list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(values) => Ok(values),
        other => Err(StoreError::Corrupt(format!("{} instead of a list", kind(&other)))),
    }
}

/// An array of exactly so many values.
fn tuple<const N: usize>(value: Value) -> Result<[Value; N]> {
    let values = list(value)?;
    <[Value; N]>::try_from(values).map_err(|v| StoreError::Corrupt(format!("{} values instead of {N}", v.len())))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) => "a text",
        Value::Array(_) => "a list",
        _ => "something else",
    }
}

fn milliseconds(value: Value) -> Result<Duration> {
    Ok(Duration::from_millis(plain::<u64>(value)?))
}

/// The JSON behind an entry's header line.
fn body<T: DeserializeOwned>(entry: Value) -> Result<T> {
    let entry: String = plain(entry)?;
    let (_, text) = entry.split_once('\n').ok_or_else(|| StoreError::Corrupt("an entry without its header".into()))?;
    from_json(text)
}

/// An item's answer: a word, alone or with more behind it. An item that failed by itself says so here.
fn word(value: Value) -> Result<(String, Vec<Value>)> {
    let Value::Array(values) = value else { return Ok((plain(value)?, Vec::new())) };
    let mut values = values.into_iter();
    let word: String = plain(values.next().unwrap_or_default())?;
    if word == "error" {
        let text: String = plain(values.next().unwrap_or_default())?;
        let (code, detail) = text.split_once(' ').unwrap_or((&text, ""));
        return Err(of_server("script", code, detail));
    }
    Ok((word, values.collect()))
}

fn unexpected<T>(word: &str) -> Result<T> {
    Err(StoreError::Corrupt(format!("unexpected answer {word:?}")))
}

/// Of `enqueue.lua`.
pub(super) fn enqueued(value: Value) -> Result<Enqueued> {
    match word(value)?.0.as_str() {
        "stored" => Ok(Enqueued::Stored),
        "duplicate" => Ok(Enqueued::Duplicate),
        "full" => Ok(Enqueued::LaneFull),
        "store_full" => Ok(Enqueued::StoreFull),
        other => unexpected(other),
    }
}

/// Of `commit.lua`.
pub(super) fn committed(value: Value) -> Result<Committed> {
    match word(value)?.0.as_str() {
        "done" => Ok(Committed::Done),
        "lost" => Ok(Committed::Lost),
        "full" => Ok(Committed::LaneFull),
        other => unexpected(other),
    }
}

/// Of `admit.lua`.
pub(super) fn admitted(value: Value) -> Result<Admitted> {
    match word(value)?.0.as_str() {
        "yes" => Ok(Admitted::Yes),
        "first" => Ok(Admitted::TooFastFirst),
        "no" => Ok(Admitted::TooFast),
        other => unexpected(other),
    }
}

/// Of `answer_late.lua`.
pub(super) fn answered(value: Value) -> Result<Answered> {
    match word(value)?.0.as_str() {
        "queued" => Ok(Answered::Queued),
        "repeat" => Ok(Answered::Repeat),
        "not_waiting" => Ok(Answered::NotWaiting),
        "full" => Ok(Answered::LaneFull),
        other => unexpected(other),
    }
}

/// Of `queue_pushes.lua`.
pub(super) fn pushed(value: Value) -> Result<Pushed> {
    match word(value)?.0.as_str() {
        "queued" => Ok(Pushed::Queued),
        "known" => Ok(Pushed::Known),
        "full" => Ok(Pushed::LaneFull),
        "store_full" => Ok(Pushed::StoreFull),
        other => unexpected(other),
    }
}

/// Of `open_task.lua`.
pub(super) fn opened(value: Value) -> Result<Opened> {
    let (word, rest) = word(value)?;
    match word.as_str() {
        "open" => {
            let [cursor] = tuple(Value::Array(rest))?;
            Ok(Opened::Open(plain(cursor)?))
        }
        "done" => Ok(Opened::Done),
        "conflict" => Ok(Opened::Conflict),
        other => unexpected(other),
    }
}

/// Of `read_task.lua`.
pub(super) fn task(value: Value) -> Result<Option<TaskStatus>> {
    if value == Value::Nil {
        return Ok(None);
    }
    let [app, total, cursor, done] = tuple(value)?;
    let done = plain::<Option<String>>(done)?.is_some();
    Ok(Some(TaskStatus { app: plain(app)?, total: plain(total)?, cursor: plain(cursor)?, done, children: Vec::new() }))
}

/// Of `read_pushes.lua`.
pub(super) fn children(value: Value) -> Result<Vec<Child>> {
    let known: Vec<(String, String)> = plain(value)?;
    known.into_iter().map(|(delivery_id, text)| child(delivery_id, &text)).collect()
}

fn child(delivery_id: String, text: &str) -> Result<Child> {
    let mut parts = text.splitn(3, '\t');
    let mut part = || parts.next().ok_or_else(|| StoreError::Corrupt("a push without its state".into()));
    let (at, lane, state) = (part()?, part()?, part()?);
    let at = at.parse().map_err(|_| StoreError::Corrupt("a push without its time".into()))?;
    Ok(Child { delivery_id, lane: Lane::from_encoded(lane), state: from_json(state)?, at })
}

/// Of `operate.lua`.
pub(super) fn operated(value: Value) -> Result<Operated> {
    match word(value)?.0.as_str() {
        "done" => Ok(Operated::Done),
        "earlier" => Ok(Operated::Earlier),
        "full" => Ok(Operated::LaneFull),
        other => unexpected(other),
    }
}

/// Of `claim_replies.lua`: the claim, where the count stands, whether lanes of pushes are left.
pub(super) fn claimed_replies(value: Value) -> Result<(Claimed<ClaimedReply>, Due, bool)> {
    let [claim, replies, are_left] = tuple(value)?;
    Ok((claimed(claim, reply)?, Due(plain(replies)?), plain(are_left)?))
}

/// A claim. An item that can't be read is left leased and told in the log: it must not hold up the others.
pub(super) fn claimed<T>(value: Value, item: fn(Value) -> Result<T>) -> Result<Claimed<T>> {
    let [wake, items, poisoned] = tuple(value)?;
    let next_wake = u64::try_from(plain::<i64>(wake)?).ok().map(Duration::from_millis);
    let poisoned = plain::<Vec<String>>(poisoned)?.iter().filter_map(|text| self::poisoned(text)).collect();
    let mut claimed = Claimed { items: Vec::new(), poisoned, next_wake };
    for value in list(items)? {
        match item(value) {
            Ok(item) => claimed.items.push(item),
            Err(error) => {
                tracing::error!(%error, "the head of a lane can't be read; the lane stands still for a lease")
            }
        }
    }
    Ok(claimed)
}

/// `request_id key`; only the latter may hold spaces.
fn poisoned(text: &str) -> Option<Poisoned> {
    let (request_id, key) = text.split_once(' ')?;
    Some(Poisoned { request_id: request_id.to_owned(), key: MessageKey::from_encoded(key) })
}

/// An item of `claim_messages.lua`.
pub(super) fn message(value: Value) -> Result<ClaimedMessage> {
    let [lane, id, entry, again, muted, turns, vars, forgotten] = tuple(value)?;
    let remembered = remembered(turns, vars, forgotten)?;
    let message = body::<Message>(entry)?;
    Ok(ClaimedMessage {
        lease: lease(lane, id)?,
        message,
        remembered,
        redelivered: plain(again)?,
        muted: plain(muted)?,
    })
}

/// Of `session.lua`.
pub(super) fn session(value: Value) -> Result<Remembered> {
    let [turns, vars, forgotten] = tuple(value)?;
    remembered(turns, vars, forgotten)
}

fn remembered(turns: Value, vars: Value, forgotten: Value) -> Result<Remembered> {
    let part = |value| plain::<Option<String>>(value);
    let turns = part(turns)?;
    let found = turns.is_some();
    let session = Session {
        turns: turns.map_or_else(|| Ok(Vec::new()), |text| from_json(&text))?,
        vars: part(vars)?.map_or_else(|| Ok(Default::default()), |text| from_json(&text))?,
    };
    Ok(Remembered { session, found, forgotten: plain::<Option<i64>>(forgotten)?.unwrap_or(0) })
}

/// An item of `claim_replies.lua`.
pub(super) fn reply(value: Value) -> Result<ClaimedReply> {
    let [lane, id, entry, attempts, refusals, failures, begun, behind] = tuple(value)?;
    Ok(ClaimedReply {
        lease: lease(lane, id)?,
        delivery: body::<Delivery>(entry)?,
        attempts: plain(attempts)?,
        refusals: plain(refusals)?,
        failures: plain(failures)?,
        begun: plain(begun)?,
        behind: bodies(behind)?,
    })
}

fn bodies(entries: Value) -> Result<Vec<Delivery>> {
    list(entries)?.into_iter().map(body).collect()
}

fn lease(lane: Value, id: Value) -> Result<Lease> {
    Ok(Lease { lane: Lane::from_encoded(plain::<String>(lane)?), id: plain(id)? })
}

/// Of `begin.lua`.
pub(super) fn begun(value: Value) -> Result<Begun> {
    let (word, rest) = word(value)?;
    let [wait] = tuple(Value::Array(rest))?;
    begun_of(&word, milliseconds(wait)?)
}

fn begun_of(word: &str, wait: Duration) -> Result<Begun> {
    match word {
        "go" => Ok(Begun::Go),
        "paced" => Ok(Begun::Paced(wait)),
        "paused" => Ok(Begun::Paused),
        "dead" => Ok(Begun::ChatDead),
        "lost" => Ok(Begun::Lost),
        other => unexpected(other),
    }
}

/// Of `settle.lua`, for a settle under `lease`.
pub(super) fn settled(value: Value, lease: &Lease) -> Result<Settled> {
    let (word, rest) = word(value)?;
    match word.as_str() {
        "released" => Ok(Settled::Released),
        "lost" => Ok(Settled::Lost),
        "parked" => {
            let [word, wait] = tuple(Value::Array(rest))?;
            Ok(Settled::Parked(begun_of(&plain::<String>(word)?, milliseconds(wait)?)?))
        }
        "next" => {
            let [word, entry, attempts, refusals, failures, behind] = tuple(Value::Array(rest))?;
            let word: String = plain(word)?;
            let begun = if word.is_empty() { None } else { Some(begun_of(&word, Duration::ZERO)?) };
            let next = ClaimedReply {
                lease: lease.clone(),
                delivery: body::<Delivery>(entry)?,
                attempts: plain(attempts)?,
                refusals: plain(refusals)?,
                failures: plain(failures)?,
                // Only this lease can have begun it.
                begun: false,
                behind: bodies(behind)?,
            };
            Ok(Settled::Next(Box::new(next), begun))
        }
        other => unexpected(other),
    }
}

/// Of `renew.lua`, `tune.lua`, `note_change.lua`, `advance_task.lua` and `revise.lua`.
pub(super) fn yes_or_no(value: Value) -> Result<bool> {
    match value {
        Value::Int(1) => Ok(true),
        Value::Int(0) => Ok(false),
        other => unexpected(&word(other)?.0),
    }
}

/// Of `waiting.lua`.
pub(super) fn waiting(value: Value) -> Result<Option<Waiting>> {
    if value == Value::Nil {
        return Ok(None);
    }
    let (key, rest) = word(value)?;
    let [received, expires, reply_to, answers] = tuple(Value::Array(rest))?;
    Ok(Some(Waiting {
        key: MessageKey::from_encoded(key),
        received_at: plain(received)?,
        expires_at: plain(expires)?,
        reply_to: from_json(&plain::<String>(reply_to)?)?,
        answers: plain(answers)?,
    }))
}

/// Of `chats.lua`, for `lane`.
pub(super) fn chat(value: Value, lane: Lane) -> Result<ChatStatus> {
    if let Value::Array(values) = &value
        && values.len() == 2
    {
        return unexpected(&word(value)?.0);
    }
    let [depth, oldest, leased, why, still, paused, muted, dead, weight, last_error] = tuple(value)?;
    let (why, still): (Option<String>, _) = (plain(why)?, milliseconds(still)?);
    Ok(ChatStatus {
        lane,
        depth: plain(depth)?,
        oldest: plain(oldest)?,
        leased: plain(leased)?,
        parked: why.map(|why| (why, still)),
        paused: plain(paused)?,
        muted: plain(muted)?,
        dead: plain::<Option<String>>(dead)?.map(RouteDigest::from_encoded),
        weight: plain(weight)?,
        last_error: plain(last_error)?,
    })
}

/// Of `depth.lua`.
pub(super) fn depth(value: Value) -> Result<Depth> {
    let [waiting, in_lanes, out_lanes, parked, journal, in_leases, out_leases, oldest_message, oldest_reply, reasons] =
        tuple(value)?;
    let mut parked_for = ParkedFor::default();
    let reasons: Vec<(String, u64)> = plain(reasons)?;
    reasons.iter().for_each(|(reason, lanes)| parked_for.add(reason, *lanes));
    Ok(Depth {
        waiting: plain(waiting)?,
        in_lanes: plain(in_lanes)?,
        out_lanes: plain(out_lanes)?,
        parked: plain(parked)?,
        parked_for,
        in_leases: plain(in_leases)?,
        out_leases: plain(out_leases)?,
        oldest_message: plain(oldest_message)?,
        oldest_reply: plain(oldest_reply)?,
        journal: plain(journal)?,
    })
}

/// Of `read_journal.lua`, for `shard`.
pub(super) fn journal(value: Value, shard: u16) -> Result<Option<JournalBatch>> {
    let [from, lines] = tuple(value)?;
    let lines: Vec<String> = plain(lines)?;
    let batch = JournalBatch { shard, from: plain(from)?, count: lines.len(), lines };
    Ok((batch.count > 0).then_some(batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_cannot_be_read_is_not_quoted() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let head = |entry| {
            let fixed = [Value::Int(0), Value::Int(0), Value::Nil, Value::Nil, Value::Int(0)];
            Value::Array([text("shop:chat:u"), text("lease"), entry].into_iter().chain(fixed).collect())
        };
        let foreign = [
            text("hunter2"),
            text("r1 0 0 shop:chat:u:m\n\"hunter2\""),
            text("r1 0 0 shop:chat:u:m\n{\"request_id\":[\"hunter2\"]}"),
            Value::BulkString(b"hunter2\n\xff".to_vec()),
            Value::Array(vec![text("hunter2")]),
        ];
        for entry in foreign {
            let error = message(head(entry)).expect_err("it is none of ours");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let error = plain::<u64>(text("hunter2")).expect_err("no number");
        assert_eq!(error.to_string(), "the store answered nonsense: a text that is no u64");
    }
}
