//! Replies: queue, claim, begin, settle.

use std::time::Duration;

use rusqlite::params;

use super::chat::{Chat, Head, HeadReply, State};
use super::operators::PAUSED;
use super::pace;
use super::pushes;
use super::step::{Step, new_lease_id};
use crate::model::{Delivery, Lane, RouteDigest};
use crate::store::share::Due;
use crate::store::{
    Begin, Begun, Fate, GoOn, LONGEST_ASIDE, Lease, ParkReason, Result, Settle, Settled, StoreError, Turn,
};

/// A paused chat is looked at again after this.
const PAUSED_FOR: Duration = Duration::from_secs(60);

/// Replies on their way into a lane, written out before the writer is asked.
pub(super) struct Outgoing {
    lane: Lane,
    rows: Vec<Row>,
    turn: Turn,
    depth_limit: u64,
}

struct Row {
    id: String,
    route: RouteDigest,
    received_at: i64,
    expires_at: i64,
    is_push: bool,
    body: String,
}

impl Outgoing {
    /// # Errors
    /// A reply of another chat than the lane's is refused: nothing may move a reply to another chat.
    pub fn of(lane: Lane, replies: &[Delivery], turn: Turn, depth_limit: u64) -> Result<Self> {
        if let Some(stray) = replies.iter().find(|r| Lane::of_chat(&r.app, &r.chat_id) != lane) {
            return Err(StoreError::Refused(format!("the reply {} is not for the chat of its message", stray.id)));
        }
        let row = |reply: &Delivery| {
            Ok(Row {
                id: reply.id.clone(),
                route: reply.route.clone(),
                received_at: reply.received_at,
                expires_at: reply.expires_at,
                is_push: reply.push.is_some(),
                body: super::to_json(reply)?,
            })
        };
        Ok(Self { lane, rows: replies.iter().map(row).collect::<Result<_>>()?, turn, depth_limit })
    }

    pub fn lane(&self) -> &Lane {
        &self.lane
    }
}

/// Puts replies at the end of their lane; `false` where there is no room for all of them.
pub(super) fn push(step: &Step<'_>, outgoing: &Outgoing) -> Result<bool> {
    if outgoing.rows.is_empty() {
        return Ok(true);
    }
    let mut chat = Chat::find_or_insert(step, &outgoing.lane)?;
    if chat.depth().saturating_add(outgoing.rows.len() as u64) > outgoing.depth_limit {
        return Ok(false);
    }
    let (was_of_pushes, turn) = (chat.is_of_pushes(), chat.turn_now(step, outgoing.turn));
    let mut insert = step.sql(
        "INSERT INTO deliveries (chat, pos, id, route, received_at, expires_at, apart, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for row in &outgoing.rows {
        insert.execute(params![
            chat.id,
            chat.tail,
            row.id,
            row.route.as_str(),
            row.received_at,
            row.expires_at,
            row.is_push,
            row.body
        ])?;
        if !row.is_push {
            chat.last_reply = chat.tail;
        }
        chat.tail += 1;
        step.came(1);
    }
    // A reply behind pushes takes its lane with it, to where it would stand by itself.
    let is_pulled = chat.state == State::Ready && was_of_pushes && !chat.is_of_pushes();
    if chat.state == State::Idle || is_pulled {
        chat.make_ready(step, turn);
    }
    chat.save(step)?;
    Ok(true)
}

const WAKE: &str = "UPDATE chats SET state = CASE WHEN tail > head THEN 'ready' ELSE 'idle' END
                    WHERE state IN ('leased', 'parked') AND";

/// Makes lanes ready whose lease or park is over.
fn wake_due(step: &Step<'_>) -> Result<()> {
    step.sql(&format!("{WAKE} due <= ?1"))?.execute([step.now])?;
    Ok(())
}

/// Makes lanes ready that are set aside until a time so far off that the clock must have gone back since. Leases that somebody
/// holds are left alone: they are renewed.
fn bring_back(step: &Step<'_>) -> Result<()> {
    step.sql(&format!("{WAKE} due > ?1 AND lease IS NULL"))?.execute([step.after(LONGEST_ASIDE)])?;
    Ok(())
}

pub(super) fn claim(
    step: &Step<'_>,
    want: usize,
    lease: Duration,
    mut share: Due,
) -> Result<(Vec<HeadReply>, Due, Option<Duration>)> {
    wake_due(step)?;
    bring_back(step)?;
    let mut items = Vec::new();
    for mut chat in share.pick(Chat::ready(step, want)?, Chat::is_of_pushes, want) {
        let head = head_of(step, &chat)?;
        let (id, merge) = (new_lease_id(), chat.was_paced());
        chat.lease_until(step.after(lease), id.clone());
        chat.save(step)?;
        items.push(chat.claimed(step, head, &id, merge)?);
    }
    let mut nearest = step.sql("SELECT min(due) FROM chats WHERE state IN ('leased', 'parked')")?;
    let nearest: Option<i64> = nearest.query_row([], |row| row.get(0))?;
    Ok((items, share, nearest.map(|due| step.until(due))))
}

fn head_of(step: &Step<'_>, chat: &Chat) -> Result<Head> {
    let missing = || StoreError::Corrupt(format!("the lane {} has lost the head of its queue", chat.lane));
    chat.head(step)?.ok_or_else(missing)
}

pub(super) fn begin(step: &Step<'_>, begin: &Begin) -> Result<Begun> {
    let Some(mut chat) = Chat::held(step, &begin.lease)? else { return Ok(Begun::Lost) };
    if chat.state != State::Leased || chat.due <= step.now {
        return Ok(Begun::Lost);
    }
    let mut head = head_of(step, &chat)?;
    if head.id != begin.delivery_id || chat.depth() < u64::from(begin.merged) {
        return Ok(Begun::Lost);
    }
    let go_on = GoOn { route: begin.route.clone(), pace: begin.pace, lease_for: begin.lease_for };
    begin_head(step, &mut chat, &mut head, begin.merged, &begin.lease.id, &go_on)
}

/// Asks whether the head may be sent now, and marks its attempt, which carries `merged` deliveries, where it may.
fn begin_head(step: &Step<'_>, chat: &mut Chat, head: &mut Head, merged: u32, lease: &str, by: &GoOn) -> Result<Begun> {
    let begun = if head.begun.as_deref() == Some(lease) {
        // A repeat of a call whose answer was lost.
        Begun::Go
    } else if chat.paused {
        Begun::Paused
    } else if chat.dead.as_deref() == Some(by.route.as_str()) {
        Begun::ChatDead
    } else {
        chat.revive();
        pace::take_place(step, chat, by.pace)?
    };
    match begun {
        Begun::Go => {
            if head.begun.as_deref() != Some(lease) {
                (head.begun, head.merged) = (Some(lease.to_owned()), merged);
                chat.save_head(step, head)?;
            }
            chat.lease_until(step.after(by.lease_for), lease.to_owned());
        }
        Begun::ChatDead => chat.lease_until(step.after(by.lease_for), lease.to_owned()),
        Begun::Paced(remaining) => chat.park(step, remaining, ParkReason::Paced.as_str()),
        Begun::Paused => chat.park(step, PAUSED_FOR, PAUSED),
        Begun::Lost => {}
    }
    chat.save(step)?;
    Ok(begun)
}

/// A [`Settled`] whose next delivery is not read yet.
pub(super) enum Outcome {
    Released,
    Next(Box<HeadReply>, Option<Begun>),
    Parked(Begun),
    Lost,
}

impl Outcome {
    pub fn read(self) -> Result<Settled> {
        Ok(match self {
            Self::Released => Settled::Released,
            Self::Next(head, begun) => Settled::Next(Box::new(head.read()?), begun),
            Self::Parked(begun) => Settled::Parked(begun),
            Self::Lost => Settled::Lost,
        })
    }
}

pub(super) fn settle(step: &Step<'_>, settle: &Settle, share: Due) -> Result<Outcome> {
    let Some(mut chat) = Chat::held(step, &settle.lease)? else { return Ok(Outcome::Lost) };
    let lease = settle.lease.id.as_str();
    let turn = chat.turn_now(step, settle.turn);
    let mut head = head_of(step, &chat)?;
    if head.id != settle.delivery_id {
        // A repeat: the first call went on with this head, and only its answer was lost.
        let begun = head.begun.as_deref() == Some(lease);
        let head = chat.claimed(step, head, lease, settle.merged > 1)?;
        return Ok(Outcome::Next(Box::new(head), begun.then_some(Begun::Go)));
    }
    step.journal(&settle.lines)?;
    pushes::change(step, settle.child.as_ref())?;
    if settle.last_error.is_some() {
        chat.last_error.clone_from(&settle.last_error);
    }
    // What was begun may have reached WeCom, whatever it answered, at any time until now.
    if head.begun.is_some() {
        pace::move_place(step, &mut chat);
    }
    match &settle.fate {
        Fate::Again { park, why } => {
            count(&mut chat, &mut head, *why);
            if *why != ParkReason::Unanswered {
                (head.begun, head.merged) = (None, 1);
            }
            chat.save_head(step, &head)?;
            if *why == ParkReason::Apart {
                chat.set_apart(step, settle.merged)?;
            }
            chat.park(step, *park, why.as_str());
        }
        Fate::Delivered => {
            chat.failures = 0;
            chat.drop_heads(step, settle.merged)?;
            return go_on(step, chat, turn, settle, share);
        }
        Fate::Ended { back_off, chat_dead } => {
            if let Some(route) = chat_dead {
                chat.dead = Some(route.as_str().to_owned());
            }
            chat.drop_heads(step, settle.merged)?;
            let Some(back_off) = back_off else { return go_on(step, chat, turn, settle, share) };
            chat.failures = chat.failures.saturating_add(1);
            chat.park(step, *back_off, ParkReason::Transient.as_str());
        }
    }
    chat.turn = turn;
    chat.save(step)?;
    Ok(Outcome::Released)
}

fn count(chat: &mut Chat, head: &mut Head, why: ParkReason) {
    match why {
        ParkReason::Paced => head.refusals = head.refusals.saturating_add(1),
        ParkReason::Transient | ParkReason::Unanswered => {
            head.attempts = head.attempts.saturating_add(1);
            chat.failures = chat.failures.saturating_add(1);
        }
        ParkReason::Held | ParkReason::Apart => {}
    }
}

/// After a head went: the next one, where that was asked for and nobody's turn is before this lane's; else its place.
fn go_on(step: &Step<'_>, mut chat: Chat, turn: i64, settle: &Settle, share: Due) -> Result<Outcome> {
    let Some(by) = settle.go_on.as_ref().filter(|_| chat.depth() > 0) else { return put_back(step, chat, turn) };
    if somebody_is_before(step, &chat, turn, share)? {
        return put_back(step, chat, turn);
    }
    let lease = settle.lease.id.as_str();
    let mut head = head_of(step, &chat)?;
    let merge = settle.merged > 1;
    if merge || head.route != by.route.as_str() || head.expires_at < step.now {
        chat.lease_until(step.after(by.lease_for), lease.to_owned());
        chat.save(step)?;
        return Ok(Outcome::Next(Box::new(chat.claimed(step, head, lease, merge)?), None));
    }
    chat.turn = turn;
    Ok(match begin_head(step, &mut chat, &mut head, 1, lease, by)? {
        begun @ (Begun::Paced(_) | Begun::Paused | Begun::Lost) => Outcome::Parked(begun),
        begun @ (Begun::Go | Begun::ChatDead) => {
            Outcome::Next(Box::new(chat.claimed(step, head, lease, false)?), Some(begun))
        }
    })
}

fn put_back(step: &Step<'_>, mut chat: Chat, turn: i64) -> Result<Outcome> {
    chat.make_ready(step, turn);
    chat.save(step)?;
    Ok(Outcome::Released)
}

/// Lanes of replies go by turn, and wait for pushes that are due for their share; lanes of pushes go by turn too, and wait for
/// any reply.
fn somebody_is_before(step: &Step<'_>, chat: &Chat, turn: i64, share: Due) -> Result<bool> {
    wake_due(step)?;
    // Where its lease is over, it is among the ready itself.
    let mut exists = step.sql(if chat.is_of_pushes() {
        "SELECT EXISTS (SELECT 1 FROM chats WHERE state = 'ready' AND last_reply >= head AND id <> ?2) OR
                EXISTS (SELECT 1 FROM chats WHERE state = 'ready' AND last_reply < head AND turn < ?1 AND id <> ?2)"
    } else if share.is_pushes() {
        "SELECT EXISTS (SELECT 1 FROM chats WHERE state = 'ready' AND last_reply < head) OR
                EXISTS (SELECT 1 FROM chats WHERE state = 'ready' AND last_reply >= head AND turn < ?1 AND id <> ?2)"
    } else {
        "SELECT EXISTS (SELECT 1 FROM chats WHERE state = 'ready' AND last_reply >= head AND turn < ?1 AND id <> ?2)"
    })?;
    Ok(exists.query_row([turn, chat.id], |row| row.get(0))?)
}

pub(super) fn renew(step: &Step<'_>, lease: &Lease, span: Duration) -> Result<bool> {
    let Some(mut chat) = Chat::held(step, lease)? else { return Ok(false) };
    chat.lease_until(step.after(span), lease.id.clone());
    chat.save(step)?;
    Ok(true)
}

pub(super) fn release(step: &Step<'_>, lease: &Lease, pause: Duration) -> Result<()> {
    let Some(mut chat) = Chat::held(step, lease)? else { return Ok(()) };
    if pause.is_zero() {
        let turn = chat.turn;
        chat.make_ready(step, turn);
    } else {
        chat.set_aside(step, pause);
    }
    chat.save(step)
}

pub(super) fn revive(step: &Step<'_>, lane: &Lane) -> Result<()> {
    step.sql("UPDATE chats SET dead = NULL, last_error = NULL WHERE lane = ?1 AND dead IS NOT NULL")?
        .execute([lane.as_str()])?;
    Ok(())
}
