//! The row of an outbound lane, read whole, changed in memory, written back whole; and the head of its queue.

use std::time::Duration;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{OptionalExtension, Row, params};

use super::step::Step;
use crate::model::{Delivery, Lane};
use crate::store::{ClaimedReply, LONGEST_ASIDE, Lease, MOST_MERGED, ParkReason, Result, Side, StoreError, Turn};

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Empty.
    Idle,
    /// Waits for its turn.
    Ready,
    /// In work until `due`.
    Leased,
    /// Set aside until `due`.
    Parked,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Parked => "parked",
        }
    }
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word = value.as_str()?;
        [Self::Idle, Self::Ready, Self::Leased, Self::Parked]
            .into_iter()
            .find(|s| s.as_str() == word)
            .ok_or(FromSqlError::InvalidType)
    }
}

/// An outbound lane and what is known of its chat.
pub(super) struct Chat {
    pub id: i64,
    pub lane: String,
    pub head: i64,
    pub tail: i64,
    pub state: State,
    pub turn: i64,
    pub due: i64,
    /// The last lease; it still counts after its end, until another claims the lane.
    pub lease: Option<String>,
    pub parked_for: Option<String>,
    pub failures: u32,
    /// Sends so far, and when the last of them was; see [`super::pace`].
    pub sent: i64,
    pub last_send: i64,
    pub dead: Option<String>,
    pub last_error: Option<String>,
    pub weight: Option<u32>,
    pub paused: bool,
    /// The position of the last reply that came.
    pub last_reply: i64,
}

const COLUMNS: &str = "id, lane, head, tail, state, turn, due, lease, parked_for, failures, sent, last_send, dead, \
                       last_error, weight, paused, last_reply";

impl Chat {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            lane: row.get(1)?,
            head: row.get(2)?,
            tail: row.get(3)?,
            state: row.get(4)?,
            turn: row.get(5)?,
            due: row.get(6)?,
            lease: row.get(7)?,
            parked_for: row.get(8)?,
            failures: row.get(9)?,
            sent: row.get(10)?,
            last_send: row.get(11)?,
            dead: row.get(12)?,
            last_error: row.get(13)?,
            weight: row.get(14)?,
            paused: row.get(15)?,
            last_reply: row.get(16)?,
        })
    }

    /// The chat of a lane, where there is one.
    pub fn find(step: &Step<'_>, lane: &Lane) -> Result<Option<Self>> {
        let mut select = step.sql(&format!("SELECT {COLUMNS} FROM chats WHERE lane = ?1"))?;
        Ok(select.query_row([lane.as_str()], Self::read).optional()?)
    }

    /// The chat of a lane, made where it is missing.
    pub fn find_or_insert(step: &Step<'_>, lane: &Lane) -> Result<Self> {
        if let Some(chat) = Self::find(step, lane)? {
            return Ok(chat);
        }
        let mut insert = step.sql(&format!("INSERT INTO chats (lane) VALUES (?1) RETURNING {COLUMNS}"))?;
        Ok(insert.query_row([lane.as_str()], Self::read)?)
    }

    /// The chat whose lane is held by this lease.
    pub fn held(step: &Step<'_>, lease: &Lease) -> Result<Option<Self>> {
        Ok(Self::find(step, &lease.lane)?.filter(|chat| chat.is_held_by(lease)))
    }

    /// Up to `limit` ready chats of each kind, those of pushes last; within a kind, whose turn it is first.
    pub fn ready(step: &Step<'_>, limit: usize) -> Result<Vec<Self>> {
        let of_kind = |kind| {
            format!(
                "SELECT * FROM (SELECT {COLUMNS} FROM chats WHERE state = 'ready' AND last_reply {kind} head
                 ORDER BY turn, id LIMIT ?1)"
            )
        };
        let mut select = step.sql(&format!("{} UNION ALL {}", of_kind(">="), of_kind("<")))?;
        let chats = select.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], Self::read)?;
        Ok(chats.collect::<rusqlite::Result<_>>()?)
    }

    /// Writes it back.
    pub fn save(&self, step: &Step<'_>) -> Result<()> {
        let mut update = step.sql(
            "UPDATE chats SET head = ?2, tail = ?3, state = ?4, turn = ?5, due = ?6, lease = ?7, parked_for = ?8,
             failures = ?9, sent = ?10, last_send = ?11, dead = ?12, last_error = ?13, last_reply = ?14 WHERE id = ?1",
        )?;
        update.execute(params![
            self.id,
            self.head,
            self.tail,
            self.state.as_str(),
            self.turn,
            self.due,
            self.lease,
            self.parked_for,
            self.failures,
            self.sent,
            self.last_send,
            self.dead,
            self.last_error,
            self.last_reply,
        ])?;
        Ok(())
    }

    /// Clears its dead mark, and with it what it died of.
    pub fn revive(&mut self) {
        if self.dead.take().is_some() {
            self.last_error = None;
        }
    }

    /// Also past its end, until another claims the lane.
    pub fn is_held_by(&self, lease: &Lease) -> bool {
        self.lease.as_deref() == Some(&lease.id)
    }

    pub fn depth(&self) -> u64 {
        u64::try_from(self.tail - self.head).unwrap_or(0)
    }

    /// Whether all that it holds are pushes: a single reply makes it a reply's lane.
    pub fn is_of_pushes(&self) -> bool {
        self.last_reply < self.head
    }

    /// The turn of this lane if it became ready now; what an operator set wins over the configured weight.
    pub fn turn_now(&self, step: &Step<'_>, turn: Turn) -> i64 {
        step.now.saturating_sub(turn.ahead_ms(self.weight.unwrap_or(turn.weight)))
    }

    /// Whether pace held it back until now.
    pub fn was_paced(&self) -> bool {
        self.parked_for.as_deref() == Some(ParkReason::Paced.as_str())
    }

    /// Whether it is set aside for a fault of the configuration: parked, or given back for its app's hold (a lease that nobody holds).
    pub fn waits_for_a_hold(&self) -> bool {
        match self.state {
            State::Parked => self.parked_for.as_deref() == Some(ParkReason::Held.as_str()),
            State::Leased => self.lease.is_none(),
            State::Idle | State::Ready => false,
        }
    }

    /// Leases it for so long, under a new id or the same.
    pub fn lease_until(&mut self, due: i64, id: String) {
        self.state = State::Leased;
        self.due = due;
        self.lease = Some(id);
        self.parked_for = None;
    }

    /// Gives the lease back and waits for `turn`.
    pub fn make_ready(&mut self, step: &Step<'_>, turn: i64) {
        self.lease = None;
        self.turn = turn;
        self.parked_for = None;
        if self.depth() == 0 {
            self.state = State::Idle;
            return;
        }
        self.state = State::Ready;
        step.wake(Side::Out);
    }

    /// Gives the lease back and sets the lane aside. An empty lane too: what comes next must wait as well.
    pub fn park(&mut self, step: &Step<'_>, span: Duration, why: &str) {
        self.set_aside(step, span);
        self.state = State::Parked;
        self.parked_for = Some(why.to_owned());
    }

    /// A lease that nobody holds: when it ends, the lane is ready again.
    pub fn set_aside(&mut self, step: &Step<'_>, span: Duration) {
        self.lease = None;
        self.due = step.after(span.min(LONGEST_ASIDE));
    }

    /// The head of the queue.
    pub fn head(&self, step: &Step<'_>) -> Result<Option<Head>> {
        let mut select = step.sql(
            "SELECT id, route, received_at, expires_at, attempts, refusals, begun, merged, apart, body FROM deliveries
             WHERE chat = ?1 AND pos = ?2",
        )?;
        Ok(select.query_row([self.id, self.head], Head::read).optional()?)
    }

    /// Removes so many from the front of the queue.
    pub fn drop_heads(&mut self, step: &Step<'_>, count: u32) -> Result<()> {
        let end = self.tail.min(self.head + i64::from(count));
        step.sql("DELETE FROM deliveries WHERE chat = ?1 AND pos >= ?2 AND pos < ?3")?
            .execute([self.id, self.head, end])?;
        (self.head..end).for_each(|_| step.went());
        self.head = end;
        Ok(())
    }

    /// So many from the front of the queue are sent by themselves from now on.
    pub fn set_apart(&self, step: &Step<'_>, count: u32) -> Result<()> {
        step.sql("UPDATE deliveries SET apart = 1 WHERE chat = ?1 AND pos >= ?2 AND pos < ?3")?.execute([
            self.id,
            self.head,
            self.head + i64::from(count),
        ])?;
        Ok(())
    }

    /// Writes the head's counters back.
    pub fn save_head(&self, step: &Step<'_>, head: &Head) -> Result<()> {
        let mut update = step.sql(
            "UPDATE deliveries SET attempts = ?3, refusals = ?4, begun = ?5, merged = ?6 WHERE chat = ?1 AND pos = ?2",
        )?;
        update.execute(params![self.id, self.head, head.attempts, head.refusals, head.begun, head.merged])?;
        Ok(())
    }

    /// What a holder of `lease` gets to see of the head, and of what stands behind it where the lane may `merge`.
    pub fn claimed(&self, step: &Step<'_>, head: Head, lease: &str, merge: bool) -> Result<HeadReply> {
        // Its own attempt is no news to the holder.
        let begun = head.begun.as_deref().is_some_and(|by| by != lease);
        let behind = if begun {
            self.behind(step, head.merged)?
        } else if merge && head.begun.is_none() && !head.apart {
            self.behind(step, MOST_MERGED as u32)?.into_iter().take_while(|(_, apart)| !apart).collect()
        } else {
            Vec::new()
        };
        Ok(HeadReply {
            lease: Lease { lane: Lane::from_encoded(self.lane.as_str()), id: lease.to_owned() },
            bodies: std::iter::once(head.body).chain(behind.into_iter().map(|(body, _)| body)).collect(),
            attempts: head.attempts,
            refusals: head.refusals,
            failures: self.failures,
            begun,
        })
    }

    /// The bodies of the first `count` deliveries but the head's, and whether each is sent by itself.
    fn behind(&self, step: &Step<'_>, count: u32) -> Result<Vec<(String, bool)>> {
        if count <= 1 {
            return Ok(Vec::new());
        }
        let mut select =
            step.sql("SELECT body, apart FROM deliveries WHERE chat = ?1 AND pos > ?2 AND pos < ?3 ORDER BY pos")?;
        let rows = select
            .query_map([self.id, self.head, self.head + i64::from(count)], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// The head of a chat's queue.
pub(super) struct Head {
    pub id: String,
    pub route: String,
    pub received_at: i64,
    pub expires_at: i64,
    pub attempts: u32,
    pub refusals: u32,
    pub begun: Option<String>,
    /// How many deliveries that attempt carries.
    pub merged: u32,
    pub apart: bool,
    pub body: String,
}

impl Head {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            route: row.get(1)?,
            received_at: row.get(2)?,
            expires_at: row.get(3)?,
            attempts: row.get(4)?,
            refusals: row.get(5)?,
            begun: row.get(6)?,
            merged: row.get(7)?,
            apart: row.get(8)?,
            body: row.get(9)?,
        })
    }
}

/// A [`ClaimedReply`] whose deliveries are not read yet: that is done outside of the writer.
pub(super) struct HeadReply {
    lease: Lease,
    /// The head, and what stands behind it.
    bodies: Vec<String>,
    attempts: u32,
    refusals: u32,
    failures: u32,
    begun: bool,
}

impl HeadReply {
    pub fn read(self) -> Result<ClaimedReply> {
        let mut deliveries = self.bodies.iter().map(|body| super::from_json::<Delivery>(body));
        let delivery = deliveries.next().ok_or_else(|| StoreError::Corrupt("a claim without its head".into()))??;
        let behind = deliveries.collect::<Result<_>>()?;
        let Self { lease, attempts, refusals, failures, begun, .. } = self;
        Ok(ClaimedReply { lease, delivery, attempts, refusals, failures, begun, behind })
    }
}
