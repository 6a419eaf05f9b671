//! Keeping the roll-up in step: each flush adds the difference that it makes, in its own transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::{AnyConnection, QueryBuilder, Row as _};

use super::copies::CopyBatch;
use super::tally::{COLUMNS, Cell, Counts, day_number, number_of, tally};
use crate::records::connection::in_time;
use crate::records::dialect::Dialect;
use crate::records::trail::{DeliveryRow, Digest, Recorded, Step};
use crate::records::write::{Numbers, ROWS, fitting, push_in};
use crate::records::{Records, RecordsError};
use crate::store::Stage;
use crate::zone::Zone;

/// Characters that the column of rules takes.
const RULE: usize = 255;
/// The numbers of a process's batches are kept so long after its last one, in ms.
const NUMBERS_KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

/// What a flush changes, by cell.
pub(in crate::records) struct Changes<'z> {
    zone: &'z Zone,
    cells: BTreeMap<Cell, Counts>,
}

/// A message's steps and its deliveries, at one time.
pub(in crate::records) struct Known<'s> {
    pub steps: Vec<&'s Step>,
    pub deliveries: &'s [DeliveryRow],
}

impl<'z> Changes<'z> {
    pub fn new(zone: &'z Zone) -> Self {
        Self { zone, cells: BTreeMap::new() }
    }

    /// A message of this chat was known as `before`, and is known as `after` now.
    pub fn of_message(&mut self, app: &str, chat: &str, before: &Known<'_>, after: &Known<'_>) {
        for (Known { steps, deliveries }, times) in [(before, -1), (after, 1)] {
            for (cell, counts) in tally(self.zone, app, chat, steps.iter().copied(), deliveries) {
                self.cells.entry(cell).or_default().add(&counts, times);
            }
        }
    }

    /// Counts the copies that `lines` speak of, each request once: those that the records know already are no news.
    pub async fn stopped(
        &mut self,
        db: &mut AnyConnection,
        lines: &[Recorded],
        numbers: &Numbers,
    ) -> Result<(), sqlx::Error> {
        let mut copies: HashMap<(&Digest, &str), &Recorded> = HashMap::new();
        for line in lines.iter().filter(|line| line.step.stage == Stage::Duplicate) {
            copies.entry((&line.message, &line.step.request_id)).or_insert(line);
        }
        let requests: BTreeSet<&str> = copies.keys().map(|(_, request)| *request).collect();
        let requests: Vec<&str> = requests.into_iter().collect();
        let mut known: BTreeSet<(i64, String)> = BTreeSet::new();
        for some in requests.chunks(ROWS) {
            let mut sql = QueryBuilder::new("SELECT message, request_id FROM stages WHERE request_id");
            push_in(&mut sql, some.iter().copied());
            sql.push(" AND stage = ").push_bind(Stage::Duplicate.as_str());
            for row in sql.build().fetch_all(&mut *db).await? {
                known.insert((row.try_get("message")?, row.try_get("request_id")?));
            }
        }
        for ((message, request), line) in copies {
            let number = numbers.get(message).copied();
            if number.is_some_and(|number| known.contains(&(number, request.to_owned()))) {
                continue;
            }
            let [app, chat, ..] = line.key.parts();
            self.duplicates(Cell::of_chat(day_number(self.zone, line.step.at), &app, &chat), 1);
        }
        Ok(())
    }

    /// Counts what a process stopped by itself, unless the records have had that batch.
    pub async fn batch(
        &mut self,
        db: &mut AnyConnection,
        dialect: Dialect,
        batch: &CopyBatch,
        now: i64,
    ) -> Result<(), sqlx::Error> {
        let had = sqlx::query_scalar("SELECT number FROM copy_batches WHERE process = ?");
        let had: Option<i64> = had.bind(batch.process.as_str()).fetch_optional(&mut *db).await?;
        if had.is_some_and(|had| had >= batch.number) {
            return Ok(());
        }
        let mut sql = QueryBuilder::new("INSERT INTO copy_batches (process, number, at) VALUES (");
        sql.push_bind(batch.process.as_str()).push(", ").push_bind(batch.number).push(", ").push_bind(now).push(")");
        sql.push(dialect.on_repeat(&["process"], &["number", "at"]));
        sql.build().execute(db).await?;
        batch.counts.iter().for_each(|(cell, n)| self.duplicates(cell.clone(), *n));
        Ok(())
    }

    fn duplicates(&mut self, cell: Cell, n: i64) {
        self.cells.entry(cell).or_default().duplicates += n;
    }

    /// Adds all of it. What comes to nothing writes nothing.
    pub async fn write(self, db: &mut AnyConnection, dialect: Dialect) -> Result<(), sqlx::Error> {
        let changed = self.cells.into_iter().filter(|(_, counts)| counts.numbers().iter().any(|number| *number != 0));
        let changed = changed.map(|(cell, counts)| Change { name: cell.digest(), cell, counts });
        let changed: Vec<Change> = changed.collect();
        for rows in changed.chunks(ROWS) {
            add_counts(db, dialect, rows).await?;
        }
        let buckets = changed.iter().flat_map(|Change { cell, name, counts }| {
            let moved = counts.latencies.0.iter().filter(|(_, n)| **n != 0);
            moved.map(move |(bucket, n)| (cell.day, name, *bucket, *n))
        });
        let buckets: Vec<_> = buckets.collect();
        for rows in buckets.chunks(ROWS) {
            add_latencies(db, dialect, rows).await?;
        }
        Ok(())
    }
}

/// What a flush adds to a cell.
struct Change {
    cell: Cell,
    /// The cell's digest.
    name: Digest,
    counts: Counts,
}

async fn add_counts(db: &mut AnyConnection, dialect: Dialect, rows: &[Change]) -> Result<(), sqlx::Error> {
    let columns = COLUMNS.join(", ");
    let mut sql = QueryBuilder::new("INSERT INTO stats (day, cell, app, chat, hit, rule, ");
    sql.push(columns).push(") ");
    sql.push_values(rows, |mut values, Change { cell, name, counts }| {
        values.push_bind(cell.day).push_bind(&name[..]).push_bind(cell.app.as_str()).push_bind(cell.chat.as_str());
        values.push_bind(cell.hit).push_bind(fitting(&cell.rule, RULE));
        for number in counts.numbers() {
            values.push_bind(number);
        }
    });
    sql.push(dialect.on_repeat_add(&["day", "cell"], &COLUMNS));
    sql.build().execute(db).await.map(drop)
}

async fn add_latencies(
    db: &mut AnyConnection,
    dialect: Dialect,
    rows: &[(i64, &Digest, i64, i64)],
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new("INSERT INTO latencies (day, cell, bucket, n) ");
    sql.push_values(rows, |mut values, (day, name, bucket, n)| {
        values.push_bind(*day).push_bind(&name[..]).push_bind(*bucket).push_bind(*n);
    });
    sql.push(dialect.on_repeat_add(&["day", "cell", "bucket"], &["n"]));
    sql.build().execute(db).await.map(drop)
}

impl Records {
    /// Forgets the statistics of days that ended before `before` (Unix ms), one day at most; answers whether there may be more.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`].
    pub async fn prune_stats(&self, before: i64) -> Result<bool, RecordsError> {
        in_time(async {
            let oldest = self.ask(sqlx::query("SELECT day FROM stats ORDER BY day LIMIT 1")).await?.pop();
            let oldest: Option<i64> = oldest.map(|row| row.try_get("day")).transpose()?;
            let Some(day) = oldest.filter(|day| *day < number_of(self.zone.day(before))) else { return Ok(false) };
            let mut tx = self.writing().await?;
            for delete in ["DELETE FROM latencies WHERE day <= ?", "DELETE FROM stats WHERE day <= ?"] {
                sqlx::query(delete).bind(day).execute(&mut *tx).await?;
            }
            let batches = sqlx::query("DELETE FROM copy_batches WHERE at < ?");
            batches.bind(crate::model::now_ms().saturating_sub(NUMBERS_KEPT)).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(true)
        })
        .await
    }
}
