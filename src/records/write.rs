//! Writing the records: one transaction a flush, statements of many rows, each the same when it is repeated.

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection};

use super::trail::{DECISIVE, DeliveryRow, Digest, MessageRow, Recorded, Step, fold};
use super::{Records, RecordsError};
use crate::model::MessageKey;
use crate::store::Stage;

// The statements that differ between databases.

/// Takes the write lock at once: reading first and locking later would fail where another connection wrote in between.
const BEGIN: &str = "BEGIN IMMEDIATE";
const KEEP_STAGE: &str = " ON CONFLICT (message, line) DO NOTHING";
const RENEW_MESSAGE: &str = " ON CONFLICT (digest) DO UPDATE SET request_id = excluded.request_id, \
    outcome = excluded.outcome, reason = excluded.reason, rule = excluded.rule, action = excluded.action";
const RENEW_DELIVERY: &str = " ON CONFLICT (id) DO UPDATE SET state = excluded.state, reason = excluded.reason, \
    errcode = excluded.errcode, at = excluded.at";

/// Rows a statement: past this size larger ones gain nothing, and a full one is prepared only once.
const ROWS: usize = 500;

/// What is known of one message while a flush is written.
struct Trail {
    key: MessageKey,
    steps: Vec<Step>,
}

impl Records {
    /// Writes journal lines, durably once this returns. The same lines again change nothing.
    ///
    /// # Errors
    /// [`RecordsError::Sql`]; nothing was written then.
    pub async fn write(&self, lines: Vec<Recorded>) -> Result<(), RecordsError> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut tx = self.writer.begin_with(BEGIN).await?;
        for rows in lines.chunks(ROWS) {
            insert_stages(&mut tx, rows).await?;
        }
        let mut trails: BTreeMap<Digest, Trail> = BTreeMap::new();
        for Recorded { message, key, step, .. } in lines {
            trails.entry(message).or_insert_with(|| Trail { key, steps: Vec::new() }).steps.push(step);
        }
        add_known_steps(&mut tx, &mut trails).await?;

        let mut messages = Vec::with_capacity(trails.len());
        let mut deliveries = Vec::with_capacity(trails.len());
        for (message, Trail { key, steps }) in trails {
            let (row, replies) = fold(steps);
            let parts = key.parts();
            deliveries.extend(replies.into_iter().map(|reply| (message, parts.clone(), reply)));
            messages.push((message, parts, row));
        }
        for rows in messages.chunks(ROWS) {
            upsert_messages(&mut tx, rows).await?;
        }
        for rows in deliveries.chunks(ROWS) {
            upsert_deliveries(&mut tx, rows).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Forgets up to `limit` messages that were received before `before` (Unix ms), with all that hangs on them.
    /// Answers how many it forgot.
    ///
    /// # Errors
    /// [`RecordsError::Sql`].
    pub async fn prune(&self, before: i64, limit: u32) -> Result<usize, RecordsError> {
        let mut tx = self.writer.begin_with(BEGIN).await?;
        let old: Vec<Vec<u8>> =
            sqlx::query_scalar("SELECT digest FROM messages WHERE received_at < ? ORDER BY received_at LIMIT ?")
                .bind(before)
                .bind(limit)
                .fetch_all(&mut *tx)
                .await?;
        for digests in old.chunks(ROWS) {
            for of in ["stages WHERE message", "deliveries WHERE message", "messages WHERE digest"] {
                let mut delete = QueryBuilder::<Sqlite>::new("DELETE FROM ");
                delete.push(of);
                push_in(&mut delete, digests.iter().map(Vec::as_slice));
                delete.build().execute(&mut *tx).await?;
            }
        }
        tx.commit().await?;
        Ok(old.len())
    }
}

/// ` IN (?, ?, …)`
fn push_in<'d>(sql: &mut QueryBuilder<Sqlite>, digests: impl Iterator<Item = &'d [u8]>) {
    sql.push(" IN (");
    let mut list = sql.separated(", ");
    for digest in digests {
        list.push_bind(digest);
    }
    sql.push(")");
}

async fn insert_stages(db: &mut SqliteConnection, lines: &[Recorded]) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::<Sqlite>::new("INSERT INTO stages (message, line, at, request_id, stage, detail) ");
    sql.push_values(lines, |mut row, Recorded { message, line, step, .. }| {
        row.push_bind(&message[..])
            .push_bind(&line[..])
            .push_bind(step.at)
            .push_bind(&step.request_id)
            .push_bind(step.stage.as_str())
            .push_bind(Value::Object(step.detail.clone()).to_string());
    });
    sql.push(KEEP_STAGE);
    sql.build().execute(db).await.map(drop)
}

/// Adds to each trail the decisive steps that the records know of it. The flush's own are among them: a step twice in
/// a trail changes nothing.
async fn add_known_steps(db: &mut SqliteConnection, trails: &mut BTreeMap<Digest, Trail>) -> Result<(), sqlx::Error> {
    let digests: Vec<Digest> = trails.keys().copied().collect();
    let decisive = DECISIVE.map(|stage| format!("'{}'", stage.as_str())).join(", ");
    for some in digests.chunks(ROWS) {
        let mut sql =
            QueryBuilder::<Sqlite>::new("SELECT message, at, request_id, stage, detail FROM stages WHERE message");
        push_in(&mut sql, some.iter().map(Digest::as_slice));
        sql.push(" AND stage IN (").push(&decisive).push(")");
        for row in sql.build().fetch_all(&mut *db).await? {
            let Some((message, step)) = known_step(&row)? else { continue };
            if let Some(trail) = trails.get_mut(&message) {
                trail.steps.push(step);
            }
        }
    }
    Ok(())
}

/// `None` for a row that this program did not write.
fn known_step(row: &SqliteRow) -> Result<Option<(Digest, Step)>, sqlx::Error> {
    let message: &[u8] = row.try_get("message")?;
    let (Ok(message), Some(stage)) = (message.try_into(), Stage::parse(row.try_get("stage")?)) else {
        return Ok(None);
    };
    let detail = serde_json::from_str(row.try_get("detail")?).unwrap_or_default();
    Ok(Some((message, Step { at: row.try_get("at")?, stage, request_id: row.try_get("request_id")?, detail })))
}

type Parts = [String; 4];

async fn upsert_messages(db: &mut SqliteConnection, rows: &[(Digest, Parts, MessageRow)]) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::<Sqlite>::new(
        "INSERT INTO messages \
        (digest, app, chat, sender, msg_id, request_id, outcome, reason, rule, action, received_at) ",
    );
    sql.push_values(rows, |mut values, (digest, [app, chat, sender, msg_id], row)| {
        values.push_bind(&digest[..]).push_bind(app).push_bind(chat).push_bind(sender).push_bind(msg_id);
        values.push_bind(&row.request_id).push_bind(row.outcome.as_str()).push_bind(row.reason.as_ref());
        values.push_bind(row.rule.as_ref()).push_bind(row.action.as_ref()).push_bind(row.received_at);
    });
    sql.push(RENEW_MESSAGE);
    sql.build().execute(db).await.map(drop)
}

async fn upsert_deliveries(
    db: &mut SqliteConnection,
    rows: &[(Digest, Parts, DeliveryRow)],
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::<Sqlite>::new(
        "INSERT INTO deliveries (id, message, request_id, app, chat, msg_id, state, reason, errcode, at) ",
    );
    sql.push_values(rows, |mut values, (message, [app, chat, _, msg_id], row)| {
        values.push_bind(&row.id).push_bind(&message[..]).push_bind(&row.request_id);
        values.push_bind(app).push_bind(chat).push_bind(msg_id).push_bind(row.state.as_str());
        values.push_bind(row.reason.as_ref()).push_bind(row.errcode).push_bind(row.at);
    });
    sql.push(RENEW_DELIVERY);
    sql.build().execute(db).await.map(drop)
}
