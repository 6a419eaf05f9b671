//! Writing the records: one transaction a flush, statements of many rows, each the same when it is repeated.

use std::collections::{BTreeMap, HashMap};

use sqlx::sqlite::SqliteRow;
use sqlx::{Encode, QueryBuilder, Row, Sqlite, SqliteConnection, Type};

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

/// What a flush says of one message.
struct Trail<'l> {
    key: &'l MessageKey,
    steps: Vec<&'l Step>,
}

type Trails<'l> = BTreeMap<Digest, Trail<'l>>;
/// Of messages that the records know, by digest.
type Numbers = HashMap<Digest, i64>;

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
        let mut trails = Trails::new();
        for Recorded { message, key, step, .. } in &lines {
            let trail = trails.entry(*message).or_insert_with(|| Trail { key, steps: Vec::new() });
            trail.steps.push(step);
        }
        let mut numbers = numbers(&mut tx, trails.keys()).await?;
        let known = known_steps(&mut tx, &numbers).await?;

        let mut messages = Vec::with_capacity(trails.len());
        let mut deliveries = Vec::with_capacity(trails.len());
        for (digest, Trail { key, steps }) in trails {
            let before = numbers.get(&digest).and_then(|id| known.get(id)).into_iter().flatten();
            let (row, replies) = fold(before.chain(steps));
            let parts = key.parts();
            deliveries.extend(replies.into_iter().map(|reply| (digest, parts.clone(), reply)));
            messages.push((digest, parts, row));
        }
        for rows in messages.chunks(ROWS) {
            upsert_messages(&mut tx, rows).await?;
        }
        let new = messages.iter().map(|(digest, ..)| digest).filter(|digest| !numbers.contains_key(*digest));
        let new = self::numbers(&mut tx, new).await?;
        numbers.extend(new);
        for rows in lines.chunks(ROWS) {
            insert_stages(&mut tx, rows, &numbers).await?;
        }
        for rows in deliveries.chunks(ROWS) {
            upsert_deliveries(&mut tx, rows, &numbers).await?;
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
        let old: Vec<i64> =
            sqlx::query_scalar("SELECT id FROM messages WHERE received_at < ? ORDER BY received_at LIMIT ?")
                .bind(before)
                .bind(limit)
                .fetch_all(&mut *tx)
                .await?;
        for ids in old.chunks(ROWS) {
            for of in ["stages WHERE message", "deliveries WHERE message", "messages WHERE id"] {
                let mut delete = QueryBuilder::<Sqlite>::new("DELETE FROM ");
                delete.push(of);
                push_in(&mut delete, ids.iter().copied());
                delete.build().execute(&mut *tx).await?;
            }
        }
        tx.commit().await?;
        Ok(old.len())
    }
}

/// ` IN (?, ?, …)`
fn push_in<'v, T>(sql: &mut QueryBuilder<Sqlite>, values: impl Iterator<Item = T>)
where
    T: 'v + Encode<'v, Sqlite> + Type<Sqlite>,
{
    sql.push(" IN (");
    let mut list = sql.separated(", ");
    for value in values {
        list.push_bind(value);
    }
    sql.push(")");
}

/// The numbers of those messages that the records know.
async fn numbers(db: &mut SqliteConnection, digests: impl Iterator<Item = &Digest>) -> Result<Numbers, sqlx::Error> {
    let digests: Vec<&Digest> = digests.collect();
    let mut numbers = Numbers::with_capacity(digests.len());
    for some in digests.chunks(ROWS) {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT id, digest FROM messages WHERE digest");
        push_in(&mut sql, some.iter().map(|digest| digest.as_slice()));
        for row in sql.build().fetch_all(&mut *db).await? {
            let digest: &[u8] = row.try_get("digest")?;
            if let Ok(digest) = digest.try_into() {
                numbers.insert(digest, row.try_get("id")?);
            }
        }
    }
    Ok(numbers)
}

/// The decisive steps that the records know of these messages, by the message's number.
async fn known_steps(db: &mut SqliteConnection, of: &Numbers) -> Result<HashMap<i64, Vec<Step>>, sqlx::Error> {
    let mut known: HashMap<i64, Vec<Step>> = HashMap::new();
    let ids: Vec<i64> = of.values().copied().collect();
    let decisive = DECISIVE.map(|stage| format!("'{}'", stage.as_str())).join(", ");
    for some in ids.chunks(ROWS) {
        let mut sql =
            QueryBuilder::<Sqlite>::new("SELECT message, at, request_id, stage, detail FROM stages WHERE message");
        push_in(&mut sql, some.iter().copied());
        sql.push(" AND stage IN (").push(&decisive).push(")");
        for row in sql.build().fetch_all(&mut *db).await? {
            if let Some(step) = known_step(&row)? {
                known.entry(row.try_get("message")?).or_default().push(step);
            }
        }
    }
    Ok(known)
}

/// `None` for a stage that this program does not know.
fn known_step(row: &SqliteRow) -> Result<Option<Step>, sqlx::Error> {
    let Some(stage) = Stage::parse(row.try_get("stage")?) else { return Ok(None) };
    let detail = serde_json::from_str(row.try_get("detail")?).unwrap_or_default();
    Ok(Some(Step { at: row.try_get("at")?, stage, request_id: row.try_get("request_id")?, detail }))
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

async fn insert_stages(db: &mut SqliteConnection, lines: &[Recorded], numbers: &Numbers) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::<Sqlite>::new("INSERT INTO stages (message, line, at, request_id, stage, detail) ");
    sql.push_values(lines, |mut values, Recorded { message, line, step, .. }| {
        values.push_bind(numbers.get(message)).push_bind(&line[..]).push_bind(step.at);
        values.push_bind(&step.request_id).push_bind(step.stage.as_str());
        // Texts as keys, values read from JSON: writing it back can't fail.
        values.push_bind(serde_json::to_string(&step.detail).unwrap_or_default());
    });
    sql.push(KEEP_STAGE);
    sql.build().execute(db).await.map(drop)
}

async fn upsert_deliveries(
    db: &mut SqliteConnection,
    rows: &[(Digest, Parts, DeliveryRow)],
    numbers: &Numbers,
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::<Sqlite>::new(
        "INSERT INTO deliveries (id, message, request_id, app, chat, msg_id, state, reason, errcode, at) ",
    );
    sql.push_values(rows, |mut values, (message, [app, chat, _, msg_id], row)| {
        values.push_bind(&row.id).push_bind(numbers.get(message)).push_bind(&row.request_id);
        values.push_bind(app).push_bind(chat).push_bind(msg_id).push_bind(row.state.as_str());
        values.push_bind(row.reason.as_ref()).push_bind(row.errcode).push_bind(row.at);
    });
    sql.push(RENEW_DELIVERY);
    sql.build().execute(db).await.map(drop)
}
