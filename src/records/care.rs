//! Pushes that ended `unknown`, and how they are looked after: when next, how often they were, whether a person was called.
//!
//! All of it follows from the set of a push's lines, as the other rows do; a table of its own, so that no other delivery pays
//! for it. What stands beside it and follows from nothing is who looks at a row now: it is held until a time, by
//! compare-and-set, and free again by itself where its holder died.

use std::time::Duration;

use serde_json::Value;
use sqlx::{AnyConnection, QueryBuilder, Row as _};

use super::connection::in_time;
use super::dialect::Dialect;
use super::trail::{DeliveryRow, Digest, Recorded, Step};
use super::write::{Numbers, Parts, ROWS, push_in};
use super::{Records, RecordsError};
use crate::model::{MessageKey, Outcome, first_id, millis};
use crate::store::{ByHand, CONTENT, Line, Stage};

/// How a delivery that ended `unknown` is looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Care {
    /// How often it was looked at, and what it repeats before it.
    pub looks: u32,
    /// When it may be looked at next, Unix ms; `None`: a person was called.
    pub due: Option<i64>,
    /// Until when the same bytes may be sent again, Unix ms.
    pub repeat_until: Option<i64>,
}

impl Care {
    /// Of a delivery that a step ended so.
    pub(super) fn of(step: &Step, state: Outcome) -> Option<Self> {
        let repeat_until = step.detail.get(CONTENT).and_then(|content| content.get("repeat_until")?.as_i64());
        (state == Outcome::Unknown).then_some(Self { looks: 0, due: Some(step.at), repeat_until })
    }
}

/// A look that left a line: at which delivery, the how manieth, and when the next one is due.
fn look(step: &Step) -> Option<(String, u32, Option<i64>)> {
    let number = |field: &str| step.detail.get(field).and_then(Value::as_i64);
    let is_look = match step.stage {
        Stage::Compensated => true,
        _ => step.text("action").as_deref() == Some(ByHand::Repeat.as_str()),
    };
    let looks = u32::try_from(number("looks").filter(|_| is_look)?).ok()?;
    Some((step.text("delivery")?, looks, number("next_at")))
}

impl DeliveryRow {
    /// Learns from the steps of its message how it was looked after.
    pub(super) fn look_back(&mut self, steps: &[&Step]) {
        let Some(care) = &mut self.care else { return };
        let looks = steps.iter().filter_map(|step| look(step));
        let of_chain = looks.filter(|(id, ..)| first_id(id) == first_id(&self.id));
        // The last one of its own counts more than those of what it repeats.
        let Some((id, looks, next_at)) = of_chain.max_by_key(|(id, looks, _)| (*looks, *id == self.id)) else { return };
        care.looks = looks;
        care.due = if id == self.id { next_at } else { care.due.max(next_at) };
    }
}

/// A push's delivery that is held to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The delivery.
    pub delivery: String,
    /// How often it was looked at.
    pub looks: u32,
    /// See [`Care::repeat_until`].
    pub repeat_until: Option<i64>,
    /// Nobody else looks at it before then, Unix ms.
    pub until: i64,
}

/// How many pushes are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknowns {
    /// That are looked after.
    pub looked_after: u64,
    /// That wait for a person.
    pub for_a_person: u64,
    /// When the first of them is due, Unix ms.
    pub due: Option<i64>,
}

impl Records {
    /// How many pushes are unknown now.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`], [`RecordsError::Migrate`].
    pub async fn unknown_pushes(&self) -> Result<Unknowns, RecordsError> {
        let row = sqlx::query("SELECT COUNT(*) AS known, COUNT(due) AS waiting, MIN(due) AS due FROM unknown_pushes");
        let row = self.ask(row).await?.pop().ok_or(sqlx::Error::RowNotFound)?;
        let count = |name| row.try_get::<i64, _>(name).map(|count| u64::try_from(count).unwrap_or(0));
        let (known, looked_after) = (count("known")?, count("waiting")?);
        Ok(Unknowns { looked_after, for_a_person: known.saturating_sub(looked_after), due: row.try_get("due")? })
    }

    /// Holds up to `most` unknown pushes that are due `now` (Unix ms), for so long; those that nobody looked at yet are due `first`
    /// after they ended. Whatever asks at once, from whatever process: each is held by one.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`], [`RecordsError::Migrate`].
    pub async fn hold_unknown(
        &self,
        now: i64,
        first: Duration,
        hold: Duration,
        most: u32,
    ) -> Result<Vec<Held>, RecordsError> {
        let ended_by = now.saturating_sub(millis(first));
        in_time(self.hold(now, ended_by, now.saturating_add(millis(hold)), most)).await
    }

    /// Holds, until `until`, those that are due, and ended by `ended_by` where nobody looked at them yet.
    async fn hold(&self, now: i64, ended_by: i64, until: i64, most: u32) -> Result<Vec<Held>, RecordsError> {
        // No lock of all who write: it is not about what follows from lines.
        let mut tx = self.transaction().await?;
        let mut due = QueryBuilder::new("SELECT delivery, looks, repeat_until FROM unknown_pushes WHERE due <= ");
        due.push_bind(now).push(" AND held_until <= ").push_bind(now).push(" AND (looks > 0 OR due <= ");
        due.push_bind(ended_by).push(") ORDER BY due LIMIT ").push_bind(i64::from(most));
        due.push(self.dialect.skip_locked());
        let rows = due.build().fetch_all(&mut *tx).await?;
        let held: Result<Vec<Held>, sqlx::Error> = rows
            .iter()
            .map(|row| {
                let looks = u32::try_from(row.try_get::<i64, _>("looks")?).unwrap_or(u32::MAX);
                Ok(Held {
                    delivery: row.try_get("delivery")?,
                    looks,
                    repeat_until: row.try_get("repeat_until")?,
                    until,
                })
            })
            .collect();
        let held = held?;
        if !held.is_empty() {
            let mut hold = QueryBuilder::new("UPDATE unknown_pushes SET held_until = ");
            hold.push_bind(until).push(" WHERE delivery");
            push_in(&mut hold, held.iter().map(|held| held.delivery.as_str()));
            hold.build().execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(held)
    }

    /// Writes what a look came to, and lets the row go.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`]; nothing was written then, and the row is free when its time is over.
    pub async fn looked(&self, held: &Held, at: i64, line: &Line) -> Result<(), RecordsError> {
        in_time(async {
            let mut tx = self.writing().await?;
            self.write_in(&mut tx, Recorded::parse(&format!("{at}\t{line}")).into_iter().collect(), None).await?;
            let free = sqlx::query("UPDATE unknown_pushes SET held_until = 0 WHERE delivery = ? AND held_until = ?");
            free.bind(&held.delivery).bind(held.until).execute(&mut *tx).await?;
            tx.commit().await
        })
        .await
    }
}

/// Writes how these deliveries are looked after; those that are replies are a person's from the beginning.
pub(super) async fn write(
    db: &mut AnyConnection,
    dialect: Dialect,
    rows: &[(Digest, Parts, DeliveryRow)],
    numbers: &Numbers,
) -> Result<(), sqlx::Error> {
    let cared = rows.iter().filter_map(|(message, [app, chat, sender, msg_id], row)| {
        let care = row.care.as_ref()?;
        MessageKey::new(app, chat, sender, msg_id).task_id()?;
        Some((*numbers.get(message)?, row, care))
    });
    let (open, closed): (Vec<_>, Vec<_>) = cared.partition(|(_, row, _)| row.state == Outcome::Unknown);
    for rows in open.chunks(ROWS) {
        let columns = "(delivery, message, looks, due, repeat_until, held_until) ";
        let mut sql = QueryBuilder::new(format!("INSERT INTO unknown_pushes {columns}"));
        sql.push_values(rows, |mut values, (message, row, care)| {
            values.push_bind(row.id.as_str()).push_bind(*message).push_bind(i64::from(care.looks));
            values.push_bind(care.due).push_bind(care.repeat_until).push_bind(0_i64);
        });
        sql.push(dialect.on_repeat(&["delivery"], &["looks", "due", "repeat_until"]));
        sql.build().execute(&mut *db).await?;
    }
    for rows in closed.chunks(ROWS) {
        let mut sql = QueryBuilder::new("DELETE FROM unknown_pushes WHERE delivery");
        push_in(&mut sql, rows.iter().map(|(_, row, _)| row.id.as_str()));
        sql.build().execute(&mut *db).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::trail::fold;
    use super::*;

    fn step(at: i64, stage: Stage, detail: Value) -> Step {
        Step { at, stage, request_id: "t".into(), detail: detail.as_object().cloned().unwrap_or_default() }
    }

    fn unknown(at: i64, id: &str, repeat_until: Option<i64>) -> Step {
        let content = json!({"repeat_until": repeat_until});
        step(at, Stage::Settled, json!({"delivery": id, "state": "unknown", CONTENT: content}))
    }

    fn looked(at: i64, id: &str, looks: u32, next_at: Option<i64>) -> Step {
        step(at, Stage::Compensated, json!({"delivery": id, "looks": looks, "next_at": next_at}))
    }

    fn repeated(at: i64, id: &str, as_id: &str, looks: u32, next_at: i64) -> Step {
        let told = json!({"delivery": id, "action": "repeat", "resent_as": as_id, "looks": looks, "next_at": next_at});
        step(at, Stage::Operated, told)
    }

    /// Of each delivery: state, looks, when the next is due.
    fn care(steps: &[Step]) -> Vec<(Outcome, u32, Option<i64>)> {
        let mut turned = steps.to_vec();
        turned.reverse();
        assert_eq!(fold(steps), fold(turned.iter().chain(steps)), "whatever the order, and twice");
        fold(steps)
            .1
            .iter()
            .map(|row| (row.state, row.care.clone().unwrap()))
            .map(|(s, c)| (s, c.looks, c.due))
            .collect()
    }

    #[test]
    fn what_is_looked_at_next_follows_from_the_lines() {
        let mut steps = vec![unknown(10, "t.0", Some(99))];
        assert_eq!(fold(&steps).1[0].care, Some(Care { looks: 0, due: Some(10), repeat_until: Some(99) }));
        steps.push(looked(20, "t.0", 1, Some(80)));
        steps.push(looked(80, "t.0", 2, Some(200)));
        assert_eq!(care(&steps), [(Outcome::Unknown, 2, Some(200))]);
        steps.push(looked(200, "t.0", 3, None));
        assert_eq!(care(&steps), [(Outcome::Unknown, 3, None)], "a person was called");
        steps.push(step(300, Stage::Operated, json!({"delivery": "t.0", "action": "delivered"})));
        assert_eq!(care(&steps)[0].0, Outcome::Delivered);
    }

    #[test]
    fn a_repeat_goes_on_counting_where_its_first_stood() {
        let mut steps = vec![unknown(10, "t.0", Some(99)), looked(20, "t.0", 1, Some(30))];
        steps.push(repeated(30, "t.0", "t.0.r1", 2, 70));
        assert_eq!(fold(&steps).1[1].care, None, "it is on its way");
        steps.push(unknown(40, "t.0.r1", Some(99)));
        assert_eq!(care(&steps)[1], (Outcome::Unknown, 2, Some(70)));
        steps.push(looked(70, "t.0.r1", 3, None));
        assert_eq!(care(&steps)[1], (Outcome::Unknown, 3, None));
        // Sent again by an operator's word, it is looked at once more.
        steps.push(step(80, Stage::Operated, json!({"delivery": "t.0.r1", "action": "resend", "resent_as": "t.0.r2"})));
        steps.push(unknown(90, "t.0.r2", None));
        let states = care(&steps);
        assert_eq!(states[0].0, Outcome::Resent);
        assert_eq!(states[2], (Outcome::Unknown, 3, Some(90)));
    }
}
