//! The outbox of results: how each delivery of a push task ended, to be told to whoever handed the task over.
//!
//! A row is written in the transaction that writes the delivery's own, so neither is there without the other. It counts as told only
//! after whoever was told has it for good; a crash in between tells it again, by the same identity (delivery, state, time).

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, QueryBuilder, Row};

use super::connection::in_time;
use super::dialect::Dialect;
use super::trail::DeliveryRow;
use super::write::{ROWS, WORDS, fitting};
use super::{Records, RecordsError};
use crate::model::Outcome;

/// How a delivery of a push task ended, or that nobody knows. One that is settled later on has a second one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushResult {
    /// Its task.
    pub task_id: String,
    /// Its app.
    pub app: String,
    /// Its chat, or what stands for a set of members.
    pub chat: String,
    /// The delivery, as it was called at its end.
    pub delivery: String,
    /// The word of its end.
    pub state: String,
    /// Why.
    pub reason: Option<String>,
    /// WeCom's.
    pub errcode: Option<i64>,
    /// WeCom's id of what was sent, where it gave one.
    pub msgid: Option<String>,
    /// Whom WeCom left out.
    pub left_out: Option<String>,
    /// When, Unix ms.
    pub at: i64,
}

/// Whether this is an end that is told.
pub(super) fn is_told(state: Outcome) -> bool {
    matches!(state, Outcome::Delivered | Outcome::Unknown | Outcome::Dead | Outcome::Dropped)
}

/// Writes ends of deliveries, each with its task, app and chat; those that are there already stay as they are.
pub(super) async fn insert(
    db: &mut AnyConnection,
    dialect: Dialect,
    ends: &[(String, [String; 4], DeliveryRow)],
) -> Result<(), sqlx::Error> {
    for some in ends.chunks(ROWS) {
        let mut sql = QueryBuilder::new(
            "INSERT INTO results (delivery, at, state, task, app, chat, reason, errcode, msgid, left_out, told) ",
        );
        sql.push_values(some, |mut values, (task, [app, chat, ..], row)| {
            values.push_bind(&row.id).push_bind(row.at).push_bind(row.state.as_str());
            values.push_bind(task).push_bind(app).push_bind(chat).push_bind(words(&row.reason));
            values.push_bind(row.errcode).push_bind(words(&row.msgid));
            values.push_bind(words(&row.left_out)).push_bind(0);
        });
        sql.push(dialect.on_repeat(&["delivery", "at", "state"], &[]));
        sql.build().execute(&mut *db).await?;
    }
    Ok(())
}

/// As much of a text as its column takes.
fn words(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(|text| fitting(text, WORDS))
}

/// Forgets up to `limit` that were told and happened before `before`. Answers whether there may be more.
pub(super) async fn prune(db: &mut AnyConnection, before: i64, limit: u32) -> Result<bool, sqlx::Error> {
    let old = sqlx::query("SELECT delivery, at, state FROM results WHERE told = 1 AND at < ? ORDER BY at LIMIT ?");
    let old = old.bind(before).bind(i64::from(limit)).fetch_all(&mut *db).await?;
    for row in &old {
        let delete = sqlx::query("DELETE FROM results WHERE delivery = ? AND at = ? AND state = ?");
        let delete = delete.bind(row.try_get::<String, _>("delivery")?).bind(row.try_get::<i64, _>("at")?);
        delete.bind(row.try_get::<String, _>("state")?).execute(&mut *db).await?;
    }
    Ok(old.len() == limit as usize)
}

impl Records {
    /// The oldest results that nobody was told of.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`].
    pub async fn untold(&self, limit: u32) -> Result<Vec<PushResult>, RecordsError> {
        let untold = sqlx::query("SELECT * FROM results WHERE told = 0 ORDER BY at LIMIT ?");
        let rows = self.ask(untold.bind(i64::from(limit))).await?;
        rows.iter().map(result).collect::<Result<_, _>>().map_err(RecordsError::Sql)
    }

    /// Somebody has these for good.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`]; they are told again then.
    pub async fn told(&self, results: &[PushResult]) -> Result<(), RecordsError> {
        in_time(async {
            let mut tx = self.writing().await?;
            for PushResult { delivery, at, state, .. } in results {
                let update = sqlx::query("UPDATE results SET told = 1 WHERE delivery = ? AND at = ? AND state = ?");
                update.bind(delivery).bind(at).bind(state).execute(&mut *tx).await?;
            }
            tx.commit().await
        })
        .await
    }
}

fn result(row: &AnyRow) -> Result<PushResult, sqlx::Error> {
    Ok(PushResult {
        task_id: row.try_get("task")?,
        app: row.try_get("app")?,
        chat: row.try_get("chat")?,
        delivery: row.try_get("delivery")?,
        state: row.try_get("state")?,
        reason: row.try_get("reason")?,
        errcode: row.try_get("errcode")?,
        msgid: row.try_get("msgid")?,
        left_out: row.try_get("left_out")?,
        at: row.try_get("at")?,
    })
}
