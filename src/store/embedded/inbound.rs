//! Messages: enqueue, claim, commit.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};

use super::outbound::{self, Outgoing};
use super::session;
use super::step::{Step, new_lease_id};
use crate::model::{Lane, MessageKey, millis};
use crate::store::{
    Arrival, Claimed, ClaimedMessage, Commit, Committed, Enqueued, LONGEST_ASIDE, Lease, MOST_DROPPED, Poisoned,
    Result, Side, Stage,
};

/// How many of a lane's last messages are looked at for a repeated one.
const LOOK_BACK: i64 = 8;

/// An [`Arrival`] as its row, written out before the writer is asked.
pub(super) struct NewMessage {
    pub request_id: String,
    pub key: MessageKey,
    pub lane: Lane,
    pub good_until: i64,
    pub mark_ttl: i64,
    pub depth_limit: u64,
    pub repeated: bool,
    pub body: String,
}

impl NewMessage {
    pub fn of(arrival: Arrival) -> Result<Self> {
        let Arrival { message, lane, max_age, mark_ttl, depth_limit, repeated } = arrival;
        Ok(Self {
            body: super::to_json(&message)?,
            key: message.key(),
            good_until: message.received_at.saturating_add(millis(max_age)),
            request_id: message.request_id,
            lane,
            mark_ttl: millis(mark_ttl),
            depth_limit,
            repeated,
        })
    }
}

/// A lane that holds something.
struct InLane {
    id: i64,
    lane: String,
    head: i64,
    tail: i64,
    /// How many leases of the head ended with neither a commit nor a release.
    crashes: u32,
}

impl InLane {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: row.get(0)?, lane: row.get(1)?, head: row.get(2)?, tail: row.get(3)?, crashes: row.get(4)? })
    }
    fn is_empty(&self) -> bool {
        self.head >= self.tail
    }
    fn drop_head(&mut self, step: &Step<'_>) -> Result<()> {
        step.sql("DELETE FROM messages WHERE lane = ?1 AND pos = ?2")?.execute(params![self.id, self.head])?;
        self.head += 1;
        self.crashes = 0;
        step.went();
        Ok(())
    }
    /// Makes it ready again, behind all that wait; an empty one goes.
    fn put_back(&self, step: &Step<'_>) -> Result<()> {
        if self.is_empty() {
            step.sql("DELETE FROM in_lanes WHERE id = ?1")?.execute([self.id])?;
            return Ok(());
        }
        step.sql("UPDATE in_lanes SET head = ?2, leased = 0, due = ?3, lease = NULL, crashes = ?4 WHERE id = ?1")?
            .execute(params![self.id, self.head, step.now, self.crashes])?;
        step.wake(Side::In);
        Ok(())
    }
}

/// The lane that is held by this lease: also past its end, until another claims it.
fn held(step: &Step<'_>, lease: &Lease) -> Result<Option<InLane>> {
    let mut select = step.sql("SELECT id, lane, head, tail, crashes FROM in_lanes WHERE lane = ?1 AND lease = ?2")?;
    Ok(select.query_row([lease.lane.as_str(), &lease.id], InLane::read).optional()?)
}

pub(super) fn enqueue(step: &Step<'_>, message: &NewMessage, max_waiting: u64) -> Result<Enqueued> {
    let key = message.key.as_str();
    if let Some(mark) = step.mark(key)? {
        // Its own mark: this call is a repeat, its message was claimed or even done.
        if mark.request_id == message.request_id {
            return Ok(Enqueued::Stored);
        }
        step.note(Stage::Duplicate, &message.request_id, key, "{}")?;
        return Ok(Enqueued::Duplicate);
    }
    let lane = lane_of(step, message)?;
    if message.repeated
        && let Some(lane) = &lane
        && waits_already(step, lane, message)?
    {
        return Ok(Enqueued::Stored);
    }
    let depth = lane.as_ref().map_or(0, |lane| u64::try_from(lane.tail - lane.head).unwrap_or(0));
    if depth >= message.depth_limit {
        return Ok(Enqueued::LaneFull);
    }
    if step.waiting() >= max_waiting {
        return Ok(Enqueued::StoreFull);
    }
    let (lane, pos) = place(step, lane, message)?;
    let mut insert = step.sql(
        "INSERT INTO messages (lane, pos, request_id, key, good_until, mark_ttl, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    insert.execute(params![lane, pos, message.request_id, key, message.good_until, message.mark_ttl, message.body])?;
    step.note(Stage::Accepted, &message.request_id, key, "{}")?;
    step.wake(Side::In);
    Ok(Enqueued::Stored)
}

fn lane_of(step: &Step<'_>, message: &NewMessage) -> Result<Option<InLane>> {
    let mut select = step.sql("SELECT id, lane, head, tail, crashes FROM in_lanes WHERE lane = ?1")?;
    Ok(select.query_row([message.lane.as_str()], InLane::read).optional()?)
}

/// Whether the same request stands among the lane's last messages: its enqueue is being repeated. A repeat that comes when
/// more have followed is stored twice, and its second copy is dropped silently at its claim.
fn waits_already(step: &Step<'_>, lane: &InLane, message: &NewMessage) -> Result<bool> {
    let mut exists = step
        .sql("SELECT EXISTS (SELECT 1 FROM messages WHERE lane = ?1 AND pos >= ?2 AND request_id = ?3 AND key = ?4)")?;
    let (from, key) = (lane.tail.saturating_sub(LOOK_BACK).max(lane.head), message.key.as_str());
    Ok(exists.query_row(params![lane.id, from, message.request_id, key], |row| row.get(0))?)
}

/// Takes the place at the end of the message's lane.
fn place(step: &Step<'_>, lane: Option<InLane>, message: &NewMessage) -> Result<(i64, i64)> {
    step.came(1);
    if let Some(lane) = lane {
        step.sql("UPDATE in_lanes SET tail = tail + 1 WHERE id = ?1")?.execute([lane.id])?;
        return Ok((lane.id, lane.tail));
    }
    step.sql("INSERT INTO in_lanes (lane, head, tail, leased, due) VALUES (?1, 0, 1, 0, ?2)")?
        .execute(params![message.lane.as_str(), step.now])?;
    Ok((step.last_id(), 0))
}

/// A leased head as it stands in its rows.
pub(super) struct HeadMessage {
    lease: Lease,
    body: String,
    session: session::Kept,
    redelivered: bool,
    muted: bool,
}

impl HeadMessage {
    /// Reads the JSON, outside of the writer.
    pub fn read(self) -> Result<ClaimedMessage> {
        let remembered = self.session.read()?;
        let message = super::from_json(&self.body)?;
        let Self { lease, redelivered, muted, .. } = self;
        Ok(ClaimedMessage { lease, message, remembered, redelivered, muted })
    }
}

struct Stored {
    request_id: String,
    key: MessageKey,
    good_until: i64,
    mark_ttl: i64,
    body: String,
}

pub(super) fn claim(step: &Step<'_>, want: usize, lease: Duration, poison_after: u32) -> Result<Claimed<HeadMessage>> {
    step.sql("UPDATE in_lanes SET leased = 0 WHERE leased = 1 AND due <= ?1")?.execute([step.now])?;
    // Set aside until a time so far off that the clock must have gone back since. Leases that somebody holds are left alone:
    // they are renewed.
    step.sql("UPDATE in_lanes SET leased = 0, due = ?1 WHERE leased = 1 AND due > ?2 AND lease IS NULL")?
        .execute([step.now, step.after(LONGEST_ASIDE)])?;
    let (mut items, mut poisoned, mut drops_left) = (Vec::new(), Vec::new(), MOST_DROPPED);
    while items.len() < want {
        let lanes = ready(step, want - items.len())?;
        if lanes.is_empty() {
            break;
        }
        for mut lane in lanes {
            match workable_head(step, &mut lane, poison_after, &mut poisoned, &mut drops_left)? {
                Some((stored, redelivered)) => items.push(take(step, lane, stored, redelivered, lease)?),
                None => lane.put_back(step)?,
            }
            if drops_left == 0 {
                return Ok(Claimed { items, poisoned, next_wake: Some(Duration::ZERO) });
            }
        }
    }
    let mut nearest = step.sql("SELECT min(due) FROM in_lanes WHERE leased = 1")?;
    let nearest: Option<i64> = nearest.query_row([], |row| row.get(0))?;
    Ok(Claimed { items, poisoned, next_wake: nearest.map(|due| step.until(due)) })
}

/// Lanes to claim, longest waiting first. The last lease stays on its lane until it is given back: one that is found here
/// ended with neither a commit nor a release.
fn ready(step: &Step<'_>, limit: usize) -> Result<Vec<InLane>> {
    let mut select = step.sql(
        "SELECT id, lane, head, tail, crashes + (lease IS NOT NULL) FROM in_lanes WHERE leased = 0 ORDER BY due, id LIMIT ?1",
    )?;
    let lanes = select.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], InLane::read)?;
    Ok(lanes.collect::<rusqlite::Result<_>>()?)
}

/// Drops heads that must not be handled until one may be, and sets its mark; as many as it may. Says whether the mark was its
/// own already.
fn workable_head(
    step: &Step<'_>,
    lane: &mut InLane,
    poison_after: u32,
    poisoned: &mut Vec<Poisoned>,
    drops_left: &mut usize,
) -> Result<Option<(Stored, bool)>> {
    while !lane.is_empty() && *drops_left > 0 {
        let head = head(step, lane)?;
        let key = head.key.as_str();
        let mark = step.mark(key)?;
        let own = mark.as_ref().is_some_and(|m| m.request_id == head.request_id);
        match mark {
            Some(_) if !own => step.note(Stage::Duplicate, &head.request_id, key, "{}")?,
            // A repeat of the call that brought the message, which is done: no word about it, its trail has ended.
            Some(mark) if mark.done => {}
            _ if step.now > head.good_until => give_up(step, &head, r#"{"reason":"too_old"}"#)?,
            _ if lane.crashes >= poison_after => {
                give_up(step, &head, r#"{"outcome":"dead","reason":"poison"}"#)?;
                poisoned.push(Poisoned { request_id: head.request_id.clone(), key: head.key.clone() });
            }
            _ => {
                step.set_mark(key, &head.request_id, false, head.mark_ttl)?;
                return Ok(Some((head, own)));
            }
        }
        lane.drop_head(step)?;
        *drops_left -= 1;
    }
    Ok(None)
}

/// Ends a message unhandled.
fn give_up(step: &Step<'_>, head: &Stored, detail: &str) -> Result<()> {
    let key = head.key.as_str();
    step.note(Stage::Expired, &head.request_id, key, detail)?;
    step.set_mark(key, &head.request_id, true, head.mark_ttl)
}

fn head(step: &Step<'_>, lane: &InLane) -> Result<Stored> {
    let mut select =
        step.sql("SELECT request_id, key, good_until, mark_ttl, body FROM messages WHERE lane = ?1 AND pos = ?2")?;
    Ok(select.query_row([lane.id, lane.head], |row| {
        Ok(Stored {
            request_id: row.get(0)?,
            key: MessageKey::from_encoded(row.get::<_, String>(1)?),
            good_until: row.get(2)?,
            mark_ttl: row.get(3)?,
            body: row.get(4)?,
        })
    })?)
}

fn take(step: &Step<'_>, lane: InLane, head: Stored, redelivered: bool, lease: Duration) -> Result<HeadMessage> {
    let id = new_lease_id();
    step.sql("UPDATE in_lanes SET head = ?2, leased = 1, due = ?3, lease = ?4, crashes = ?5 WHERE id = ?1")?
        .execute(params![lane.id, lane.head, step.after(lease), id, lane.crashes])?;
    let lease = Lease { lane: Lane::from_encoded(lane.lane), id };
    let muted = super::members::is_muted(step, &head.key.chat_lane())?;
    let session = session::read(step, head.key.session())?;
    Ok(HeadMessage { lease, session, body: head.body, redelivered, muted })
}

/// A [`Commit`] whose parts are written out before the writer is asked.
pub(super) struct Finish {
    commit: Commit,
    session: Option<String>,
    outgoing: Outgoing,
}

impl Finish {
    pub fn of(commit: Commit) -> Result<Self> {
        let session = commit.exchange.as_ref().map(|exchange| super::to_json(&exchange.session)).transpose()?;
        let [app, chat, ..] = commit.key.parts();
        let outgoing = Outgoing::of(Lane::of_chat(&app, &chat), &commit.replies, commit.turn, commit.depth_limit)?;
        Ok(Self { commit, session, outgoing })
    }
}

pub(super) fn commit(step: &Step<'_>, finish: &Finish) -> Result<Committed> {
    let Finish { commit, session, outgoing } = finish;
    let Some(mut lane) = held(step, &commit.lease)? else { return Ok(Committed::Lost) };
    if !outbound::push(step, outgoing)? {
        return Ok(Committed::LaneFull);
    }
    lane.drop_head(step)?;
    lane.put_back(step)?;
    step.set_mark(commit.key.as_str(), &commit.request_id, true, millis(commit.mark_ttl))?;
    if let (Some(exchange), Some(body)) = (&commit.exchange, session) {
        session::write(step, exchange, body)?;
    }
    if let Some(ticket) = &commit.await_late {
        super::late::open_ticket(step, outgoing.lane(), &commit.request_id, &commit.key, ticket)?;
    }
    step.journal(&commit.lines)?;
    Ok(Committed::Done)
}

pub(super) fn renew(step: &Step<'_>, lease: &Lease, span: Duration) -> Result<bool> {
    let mut update = step.sql("UPDATE in_lanes SET leased = 1, due = ?3 WHERE lane = ?1 AND lease = ?2")?;
    Ok(update.execute(params![lease.lane.as_str(), lease.id, step.after(span)])? > 0)
}

pub(super) fn release(step: &Step<'_>, lease: &Lease, pause: Duration) -> Result<()> {
    let Some(lane) = held(step, lease)? else { return Ok(()) };
    if pause.is_zero() {
        return lane.put_back(step);
    }
    // A lease that nobody holds: when it ends, the lane is ready again.
    step.sql("UPDATE in_lanes SET leased = 1, due = ?2, lease = NULL WHERE id = ?1")?
        .execute(params![lane.id, step.after(pause.min(LONGEST_ASIDE))])?;
    Ok(())
}
