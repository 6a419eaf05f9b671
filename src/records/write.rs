//! Writing the records: one transaction a flush, statements of many rows, each the same when it is repeated.

use std::collections::{BTreeMap, HashMap};

use sqlx::any::AnyRow;
use sqlx::{Any, AnyConnection, Encode, QueryBuilder, Row, Type};

use super::connection::in_time;
use super::dialect::Dialect;
use super::stats::{Changes, CopyBatch, Known};
use super::trail::{DECISIVE, DeliveryRow, Digest, MessageRow, Recorded, Step, fold};
use super::{Records, RecordsError, archive, care, changes, results};
use crate::model::{MessageKey, now_ms};
use crate::store::Stage;

/// Characters that the columns of reasons and rules take in a database that counts them.
pub(super) const WORDS: usize = 1024;
/// Rows a statement: past this size larger ones gain nothing, and a full one is prepared only once.
pub(super) const ROWS: usize = 500;

/// Bytes of texts a statement, where it may be more: servers refuse a packet that is too long (16 MiB by default).
const BYTES: usize = 2 << 20;

/// What a flush says of one message.
struct Trail<'l> {
    key: &'l MessageKey,
    steps: Vec<&'l Step>,
}

type Trails<'l> = BTreeMap<Digest, Trail<'l>>;
/// Of messages that the records know, by digest.
pub(super) type Numbers = HashMap<Digest, i64>;

impl Records {
    /// Writes journal lines, durably once this returns. The same lines again change nothing.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`]; nothing was written then.
    pub async fn write(&self, lines: Vec<Recorded>) -> Result<(), RecordsError> {
        self.write_with(lines, None).await
    }

    /// As [`Records::write`], and counts the copies that this process stopped by itself. The same batch again changes nothing.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`]; nothing was written then.
    pub async fn write_with(&self, lines: Vec<Recorded>, copies: Option<&CopyBatch>) -> Result<(), RecordsError> {
        if lines.is_empty() && copies.is_none() {
            return Ok(());
        }
        in_time(async {
            let mut tx = self.writing().await?;
            self.write_in(&mut tx, lines, copies).await?;
            tx.commit().await
        })
        .await
    }

    /// As [`Records::write_with`], within a transaction that writes.
    pub(super) async fn write_in(
        &self,
        tx: &mut AnyConnection,
        lines: Vec<Recorded>,
        copies: Option<&CopyBatch>,
    ) -> Result<(), sqlx::Error> {
        archive::write(tx, self.dialect, &lines).await?;
        changes::write(tx, self.dialect, &lines).await?;
        let lines: Vec<Recorded> = lines.into_iter().filter(|line| line.step.stage.is_of_message()).collect();
        let mut trails = Trails::new();
        for Recorded { message, key, step, .. } in &lines {
            let trail = trails.entry(*message).or_insert_with(|| Trail { key, steps: Vec::new() });
            trail.steps.push(step);
        }
        let mut numbers = numbers(tx, trails.keys()).await?;
        let known = known_steps(tx, &numbers).await?;

        let mut messages = Vec::with_capacity(trails.len());
        let mut deliveries = Vec::with_capacity(trails.len());
        let mut ends = Vec::new();
        let mut stats = Changes::new(&self.zone);
        stats.stopped(tx, &lines, &numbers).await?;
        for (digest, Trail { key, steps }) in trails {
            let before: Vec<&Step> = numbers.get(&digest).and_then(|id| known.get(id)).into_iter().flatten().collect();
            let after: Vec<&Step> = before.iter().copied().chain(steps).collect();
            let (_, replied) = fold(before.iter().copied());
            let (row, replies) = fold(after.iter().copied());
            let parts = key.parts();
            if let Some(task) = key.task_id().filter(|_| self.tells_results) {
                let ended = replies.iter().filter(|row| results::is_told(row.state));
                ends.extend(ended.map(|row| (task.clone(), parts.clone(), row.clone())));
            }
            let before = Known { steps: before, deliveries: &replied };
            stats.of_message(&parts[0], &parts[1], &before, &Known { steps: after, deliveries: &replies });
            deliveries.extend(replies.into_iter().map(|reply| (digest, parts.clone(), reply)));
            messages.push((digest, parts, row));
        }
        for rows in messages.chunks(ROWS) {
            upsert_messages(tx, self.dialect, rows).await?;
        }
        let new = messages.iter().map(|(digest, ..)| digest).filter(|digest| !numbers.contains_key(*digest));
        let new = self::numbers(tx, new).await?;
        numbers.extend(new);
        // Texts as keys, values read from JSON: writing it back can't fail.
        let details = lines.iter().map(|line| serde_json::to_string(&line.step.detail).unwrap_or_default());
        let rows: Vec<_> = lines.iter().zip(details).collect();
        for rows in pieces(&rows, |(_, detail)| detail.len()) {
            insert_stages(tx, self.dialect, rows, &numbers).await?;
        }
        for rows in deliveries.chunks(ROWS) {
            upsert_deliveries(tx, self.dialect, rows, &numbers).await?;
        }
        care::write(tx, self.dialect, &deliveries, &numbers).await?;
        results::insert(tx, self.dialect, &ends).await?;
        if let Some(copies) = copies {
            stats.batch(tx, self.dialect, copies, now_ms()).await?;
        }
        stats.write(tx, self.dialect).await
    }

    /// Forgets up to `limit` messages that were received before `before` (Unix ms), with all that hangs on them, and about
    /// as many exchanges, results that were told and changes of operators. Answers whether there may be more.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`].
    pub async fn prune(&self, before: i64, limit: u32) -> Result<bool, RecordsError> {
        in_time(async {
            let mut tx = self.writing().await?;
            let more_messages = prune(&mut tx, before, limit).await?;
            let more_exchanges = archive::prune(&mut tx, before, limit).await?;
            let more_results = results::prune(&mut tx, before, limit).await?;
            let more_changes = changes::prune(&mut tx, before, limit).await?;
            tx.commit().await?;
            Ok(more_messages || more_exchanges || more_results || more_changes)
        })
        .await
    }
}

/// Forgets messages with all that hangs on them; answers whether there may be more.
async fn prune(db: &mut AnyConnection, before: i64, limit: u32) -> Result<bool, sqlx::Error> {
    let old = sqlx::query_scalar("SELECT id FROM messages WHERE received_at < ? ORDER BY received_at LIMIT ?");
    let old: Vec<i64> = old.bind(before).bind(i64::from(limit)).fetch_all(&mut *db).await?;
    for ids in old.chunks(ROWS) {
        for of in
            ["stages WHERE message", "deliveries WHERE message", "unknown_pushes WHERE message", "messages WHERE id"]
        {
            let mut delete = QueryBuilder::new("DELETE FROM ");
            delete.push(of);
            push_in(&mut delete, ids.iter().copied());
            delete.build().execute(&mut *db).await?;
        }
    }
    Ok(old.len() == limit as usize)
}

/// Rows cut into statements: no more than [`ROWS`], and of [`BYTES`] where one has several.
pub(super) fn pieces<T>(rows: &[T], size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut pieces, mut from, mut sum) = (Vec::new(), 0, 0);
    for (at, row) in rows.iter().enumerate() {
        let size = size(row);
        if at > from && (at - from == ROWS || sum + size > BYTES) {
            pieces.push(&rows[from..at]);
            (from, sum) = (at, 0);
        }
        sum += size;
    }
    pieces.extend((from < rows.len()).then(|| &rows[from..]));
    pieces
}

/// As much of a text as its column takes, counted in characters: a server would refuse the whole flush for one too many.
pub(super) fn fitting(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// ` IN (?, ?, …)`
pub(super) fn push_in<'v, T>(sql: &mut QueryBuilder<Any>, values: impl Iterator<Item = T>)
where
    T: 'v + Encode<'v, Any> + Type<Any>,
{
    sql.push(" IN (");
    let mut list = sql.separated(", ");
    for value in values {
        list.push_bind(value);
    }
    sql.push(")");
}

/// The numbers of those messages that the records know.
async fn numbers(db: &mut AnyConnection, digests: impl Iterator<Item = &Digest>) -> Result<Numbers, sqlx::Error> {
    let digests: Vec<&Digest> = digests.collect();
    let mut numbers = Numbers::with_capacity(digests.len());
    for some in digests.chunks(ROWS) {
        let mut sql = QueryBuilder::new("SELECT id, digest FROM messages WHERE digest");
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
async fn known_steps(db: &mut AnyConnection, of: &Numbers) -> Result<HashMap<i64, Vec<Step>>, sqlx::Error> {
    let mut known: HashMap<i64, Vec<Step>> = HashMap::new();
    let ids: Vec<i64> = of.values().copied().collect();
    let decisive = DECISIVE.map(|stage| format!("'{}'", stage.as_str())).join(", ");
    for some in ids.chunks(ROWS) {
        let mut sql = QueryBuilder::new("SELECT message, at, request_id, stage, detail FROM stages WHERE message");
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
fn known_step(row: &AnyRow) -> Result<Option<Step>, sqlx::Error> {
    let Some(stage) = Stage::parse(row.try_get("stage")?) else { return Ok(None) };
    let detail = serde_json::from_str(row.try_get("detail")?).unwrap_or_default();
    Ok(Some(Step { at: row.try_get("at")?, stage, request_id: row.try_get("request_id")?, detail }))
}

/// App, chat, sender and msg_id.
pub(super) type Parts = [String; 4];

async fn upsert_messages(
    db: &mut AnyConnection,
    dialect: Dialect,
    rows: &[(Digest, Parts, MessageRow)],
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new(
        "INSERT INTO messages \
        (digest, app, chat, sender, msg_id, request_id, outcome, reason, rule, action, received_at) ",
    );
    sql.push_values(rows, |mut values, (digest, [app, chat, sender, msg_id], row)| {
        values.push_bind(&digest[..]).push_bind(app).push_bind(chat).push_bind(sender).push_bind(msg_id);
        values
            .push_bind(&row.request_id)
            .push_bind(row.outcome.as_str())
            .push_bind(row.reason.as_deref().map(|text| fitting(text, WORDS)));
        values
            .push_bind(row.rule.as_deref().map(|text| fitting(text, WORDS)))
            .push_bind(row.action.as_deref().map(|text| fitting(text, 64)))
            .push_bind(row.received_at);
    });
    sql.push(dialect.on_repeat(&["digest"], &["request_id", "outcome", "reason", "rule", "action"]));
    sql.build().execute(db).await.map(drop)
}

async fn insert_stages(
    db: &mut AnyConnection,
    dialect: Dialect,
    rows: &[(&Recorded, String)],
    numbers: &Numbers,
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new("INSERT INTO stages (message, line, at, request_id, stage, detail) ");
    sql.push_values(rows, |mut values, (Recorded { message, line, step, .. }, detail)| {
        values.push_bind(numbers.get(message)).push_bind(&line[..]).push_bind(step.at);
        values.push_bind(&step.request_id).push_bind(step.stage.as_str()).push_bind(detail.as_str());
    });
    sql.push(dialect.on_repeat(&["message", "line"], &[]));
    sql.build().execute(db).await.map(drop)
}

async fn upsert_deliveries(
    db: &mut AnyConnection,
    dialect: Dialect,
    rows: &[(Digest, Parts, DeliveryRow)],
    numbers: &Numbers,
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new(
        "INSERT INTO deliveries (id, message, request_id, app, chat, msg_id, state, reason, errcode, at) ",
    );
    sql.push_values(rows, |mut values, (message, [app, chat, _, msg_id], row)| {
        values.push_bind(&row.id).push_bind(numbers.get(message)).push_bind(&row.request_id);
        values.push_bind(app).push_bind(chat).push_bind(msg_id).push_bind(row.state.as_str());
        values
            .push_bind(row.reason.as_deref().map(|text| fitting(text, WORDS)))
            .push_bind(row.errcode)
            .push_bind(row.at);
    });
    sql.push(dialect.on_repeat(&["id"], &["state", "reason", "errcode", "at"]));
    sql.build().execute(db).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_bounded_in_rows_and_bytes() {
        let cut = |sizes: &[usize]| pieces(sizes, |size| *size).iter().map(|piece| piece.len()).collect::<Vec<_>>();
        assert_eq!(cut(&[]), [0; 0]);
        assert_eq!(cut(&vec![1; 2 * ROWS + 1]), [ROWS, ROWS, 1]);
        assert_eq!(cut(&[BYTES / 2, BYTES / 2, 1, 3 * BYTES, 1]), [2, 1, 1, 1]);
    }
}
