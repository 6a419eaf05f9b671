//! Answers that come after their message was committed as `waiting`.

use rusqlite::{OptionalExtension, params};

use super::outbound::{self, Outgoing};
use super::step::Step;
use crate::model::{Lane, MessageKey};
use crate::store::{Answered, LateAnswer, LateTicket, Result, Waiting};

/// Keeps a place for the answer.
pub(super) fn open_ticket(
    step: &Step<'_>,
    lane: &Lane,
    request_id: &str,
    key: &MessageKey,
    ticket: &LateTicket,
) -> Result<()> {
    let mut replace = step.sql(
        "INSERT OR REPLACE INTO late (key, lane, message_key, received_at, send_until, seqs, expires_at, reply_to)
         VALUES (?1, ?2, ?3, ?4, ?5, '[]', ?6, ?7)",
    )?;
    replace.execute(params![
        request_id,
        lane.as_str(),
        key.as_str(),
        ticket.received_at,
        ticket.expires_at,
        step.after(ticket.ttl),
        super::to_json(&ticket.reply_to)?
    ])?;
    Ok(())
}

pub(super) fn waiting(step: &Step<'_>, lane: &Lane, request_id: &str) -> Result<Option<Waiting>> {
    let mut select = step.sql(
        "SELECT message_key, received_at, send_until, reply_to, json_array_length(seqs) FROM late
         WHERE key = ?1 AND lane = ?2 AND expires_at > ?3",
    )?;
    let mut rows = select.query(params![request_id, lane.as_str(), step.now])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Waiting {
        key: MessageKey::from_encoded(row.get::<_, String>(0)?),
        received_at: row.get(1)?,
        expires_at: row.get(2)?,
        reply_to: super::from_json(&row.get::<_, String>(3)?)?,
        answers: row.get::<_, u32>(4)?.into(),
    }))
}

/// A [`LateAnswer`] whose replies are written out before the writer is asked.
pub(super) struct NewAnswer {
    answer: LateAnswer,
    outgoing: Outgoing,
}

impl NewAnswer {
    pub fn of(answer: LateAnswer) -> Result<Self> {
        let outgoing = Outgoing::of(answer.lane.clone(), &answer.replies, answer.turn, answer.depth_limit)?;
        Ok(Self { answer, outgoing })
    }
}

pub(super) fn answer(step: &Step<'_>, new: &NewAnswer) -> Result<Answered> {
    let NewAnswer { answer, outgoing } = new;
    let mut select = step.sql("SELECT seqs FROM late WHERE key = ?1 AND lane = ?2 AND expires_at > ?3")?;
    let place = params![answer.request_id, answer.lane.as_str(), step.now];
    let Some(seqs) = select.query_row(place, |row| row.get::<_, String>(0)).optional()? else {
        return Ok(Answered::NotWaiting);
    };
    let mut seqs: Vec<u64> = super::from_json(&seqs)?;
    if seqs.contains(&answer.seq) {
        return Ok(Answered::Repeat);
    }
    if !outbound::push(step, outgoing)? {
        return Ok(Answered::LaneFull);
    }
    seqs.push(answer.seq);
    step.sql("UPDATE late SET seqs = ?2 WHERE key = ?1")?
        .execute([answer.request_id.as_str(), &super::to_json(&seqs)?])?;
    step.journal(&answer.lines)?;
    Ok(Answered::Queued)
}
