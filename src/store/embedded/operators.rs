//! What operators do by hand.

use rusqlite::{OptionalExtension, params};

use super::chat::{Chat, State};
use super::members;
use super::outbound::{self, Outgoing};
use super::pushes;
use super::step::Step;
use crate::store::{Operated, Operation, Result, Tuning};

/// Why a paused chat's lane is parked.
pub(super) const PAUSED: &str = "paused";

pub(super) fn tune(step: &Step<'_>, tuning: &Tuning) -> Result<()> {
    let mut chat = Chat::find_or_insert(step, &tuning.lane)?;
    if let Some(weight) = tuning.weight {
        let ahead = |weight: Option<u32>| tuning.turn.ahead_ms(weight.unwrap_or(tuning.turn.weight));
        let gain = ahead(weight).saturating_sub(ahead(chat.weight));
        chat.turn = chat.turn.saturating_sub(gain);
        chat.weight = weight;
    }
    if let Some(paused) = tuning.paused {
        chat.paused = paused;
        if !paused && chat.state == State::Parked && chat.parked_for.as_deref() == Some(PAUSED) {
            let turn = chat.turn;
            chat.make_ready(step, turn);
        }
    }
    if tuning.revive {
        chat.revive();
    }
    if tuning.unhold && chat.waits_for_a_hold() {
        let turn = chat.turn;
        chat.make_ready(step, turn);
    }
    step.sql("UPDATE chats SET weight = ?2, paused = ?3 WHERE id = ?1")?.execute(params![
        chat.id,
        chat.weight,
        chat.paused
    ])?;
    chat.save(step)?;
    if let Some(muted) = tuning.muted {
        members::mute(step, &tuning.lane, muted)?;
    }
    step.journal([&tuning.change])
}

/// An [`Operation`] whose delivery is written out before the writer is asked.
pub(super) struct NewOperation {
    operation: Operation,
    outgoing: Outgoing,
}

impl NewOperation {
    pub fn of(operation: Operation) -> Result<Self> {
        let Operation { lane, resend, turn, depth_limit, .. } = &operation;
        let outgoing = Outgoing::of(lane.clone(), resend.as_slice(), *turn, *depth_limit)?;
        Ok(Self { operation, outgoing })
    }
}

pub(super) fn operate(step: &Step<'_>, new: &NewOperation) -> Result<Operated> {
    let NewOperation { operation, outgoing } = new;
    let mut select = step.sql("SELECT operation FROM operations WHERE key = ?1 AND expires_at > ?2")?;
    let earlier: Option<String> =
        select.query_row(params![operation.delivery_id, step.now], |row| row.get(0)).optional()?;
    if let Some(earlier) = earlier {
        return Ok(if earlier == operation.id { Operated::Done } else { Operated::Earlier });
    }
    if !outbound::push(step, outgoing)? {
        return Ok(Operated::LaneFull);
    }
    step.sql("INSERT OR REPLACE INTO operations (key, operation, expires_at) VALUES (?1, ?2, ?3)")?
        .execute(params![operation.delivery_id, operation.id, step.after(operation.keep)])?;
    pushes::change(step, operation.child.as_ref())?;
    step.journal(&operation.lines)?;
    Ok(Operated::Done)
}
