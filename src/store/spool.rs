//! The spool: messages that were acked while Redis did not take them, in a SQLite file of their own (`spool.db`) until it
//! does.
//!
//! It is written like the embedded store, by one thread, durably, many in one transaction. What always holds: a message
//! is in the file before [`Spool::append`] answers and until [`Spool::remove`] is called for it; messages come out in the order
//! of the appends; and the file never holds more than `limit` bytes of messages. It knows nothing of what a message waits for: that
//! is [`crate::ingress`]'s.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Row, TransactionBehavior, params};

use super::embedded::database::{Database, connect, lay_out};
use super::embedded::step::Step;
use super::embedded::sweep::Sweeper;
use super::json::{from_json, to_json};
use super::lock::create_folder;
use super::{Arrival, Result, Side};
use crate::model::{Lane, millis};

/// The file's name in `[store] path`.
const FILE: &str = "spool.db";
/// The layout of the table; raised when it changes.
const LAYOUT: i64 = 1;
/// AUTOINCREMENT: a number is never used again, so the order of the numbers is that of the appends for ever.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS spooled (
        seq      INTEGER PRIMARY KEY AUTOINCREMENT,
        lane     TEXT    NOT NULL,
        max_age  INTEGER NOT NULL,
        mark_ttl INTEGER NOT NULL,
        message  TEXT    NOT NULL
    ) STRICT;
";

/// Messages that wait for the store.
pub struct Spool {
    db: Database,
    limit: u64,
    load: Mutex<Load>,
}

/// What the file holds, what is on its way into it included.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    messages: u64,
    bytes: u64,
    /// A message found no room, and none has left since.
    is_full: bool,
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is on the disk, and was the first: the spool was empty before.
    First,
    /// It is on the disk, behind others.
    Behind,
    /// There is no room for it; nothing was written.
    Full,
}

/// One message of the spool.
#[derive(Debug)]
pub struct Spooled {
    /// Its place.
    pub seq: i64,
    /// How much of the spool it takes, in bytes.
    pub size: u64,
    /// What is to be enqueued; an error where the row can't be read.
    pub arrival: Result<Arrival>,
}

impl Spool {
    /// Opens (or makes) `spool.db` in the folder `path`, for at most `limit` bytes of messages. Blocks for a moment. Locking
    /// the folder is the caller's, see [`super::lock`].
    ///
    /// # Errors
    /// As [`super::embedded::EmbeddedStore::open`].
    pub fn open(path: &Path, limit: u64) -> Result<Self> {
        create_folder(path)?;
        let file = path.join(FILE);
        let mut conn = connect(&file, true)?;
        let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        lay_out(&transaction, &file, LAYOUT, SCHEMA)?;
        let count = "SELECT count(*), coalesce(sum(octet_length(message)), 0) FROM spooled";
        let number = |row: &Row<'_>, column| row.get::<_, i64>(column).map(|n| u64::try_from(n).unwrap_or(0));
        let load = transaction.query_row(count, [], |row| {
            Ok(Load { messages: number(row, 0)?, bytes: number(row, 1)?, is_full: false })
        })?;
        transaction.commit()?;
        let db = Database::start(&file, conn, "spool", Sweeper::idle(), 0)?;
        Ok(Self { db, limit, load: Mutex::new(load) })
    }

    /// How many messages wait in the file of a spool that is not in use; 0 where there is none.
    ///
    /// # Errors
    /// As [`Spool::open`].
    pub fn left_behind(path: &Path) -> Result<u64> {
        if !path.join(FILE).exists() {
            return Ok(0);
        }
        Ok(Self::open(path, 0)?.depth())
    }

    /// How many messages wait, those included that are just being written.
    pub fn depth(&self) -> u64 {
        self.load().messages
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.depth() == 0
    }

    /// Whether a message is likely to find room: some is left, and the last one that came was not refused.
    pub fn has_room(&self) -> bool {
        let load = self.load();
        load.bytes < self.limit && !load.is_full
    }

    /// How much of its room is taken, in percent.
    pub fn percent(&self) -> u64 {
        self.load().bytes.saturating_mul(100) / self.limit.max(1)
    }

    /// Writes a message behind all others. From this call on, not only from its answer on, the spool is not empty.
    pub async fn append(&self, arrival: &Arrival) -> Result<Appended> {
        let message = to_json(&arrival.message)?;
        let size = message.len() as u64;
        let appended = self.make_room(size);
        if appended == Appended::Full {
            return Ok(appended);
        }
        let (lane, max_age, mark_ttl) = (arrival.lane.clone(), millis(arrival.max_age), millis(arrival.mark_ttl));
        let written = self.db.step(move |step| {
            step.sql("INSERT INTO spooled (lane, max_age, mark_ttl, message) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![lane.as_str(), max_age, mark_ttl, message])?;
            step.wake(Side::In);
            Ok(())
        });
        written.await.inspect_err(|_| self.forget(1, size))?;
        Ok(appended)
    }

    /// The first messages behind `seq`, at most `most`. `depth_limit` is the one of lanes now, see [`Arrival::depth_limit`].
    pub async fn after(&self, seq: i64, most: usize, depth_limit: u64) -> Result<Vec<Spooled>> {
        let entries = self.db.step(move |step| entries(step, seq, most)).await?;
        // JSON is read here, not on the writer's thread.
        let spooled = entries.into_iter().map(|entry| Spooled {
            seq: entry.seq,
            size: entry.message.len() as u64,
            arrival: from_json(&entry.message).map(|message| Arrival {
                message,
                lane: Lane::from_encoded(entry.lane),
                max_age: entry.max_age,
                mark_ttl: entry.mark_ttl,
                depth_limit,
                repeated: true,
            }),
        });
        Ok(spooled.collect())
    }

    /// Forgets messages, each given by `seq` and `size`; the store has them. Answers whether nothing waits now.
    pub async fn remove(&self, done: Vec<(i64, u64)>) -> Result<bool> {
        let (messages, bytes) = (done.len() as u64, done.iter().map(|(_, size)| size).sum());
        if messages > 0 {
            let delete = |step: &Step<'_>, (seq, _): &(i64, u64)| {
                Ok(step.sql("DELETE FROM spooled WHERE seq = ?1")?.execute([seq])?)
            };
            self.db.each(done, delete).await?;
            self.forget(messages, bytes);
        }
        Ok(self.is_empty())
    }

    /// Answers when its disk takes writes: a row comes and goes.
    pub async fn ping(&self) -> Result<()> {
        let write = |step: &Step<'_>| {
            step.sql("INSERT INTO spooled (lane, max_age, mark_ttl, message) VALUES ('', 0, 0, '')")?.execute([])?;
            step.sql("DELETE FROM spooled WHERE seq = ?1")?.execute([step.last_id()]).map(drop)?;
            Ok(())
        };
        self.db.step(write).await
    }

    /// Waits until something was appended, at most `limit`. For one waiter.
    pub async fn wait(&self, limit: Duration) {
        self.db.wakeups().wait(Side::In, limit).await;
    }

    fn make_room(&self, size: u64) -> Appended {
        let mut load = self.load();
        if load.bytes.saturating_add(size) > self.limit {
            if !std::mem::replace(&mut load.is_full, true) {
                tracing::error!(messages = load.messages, bytes = load.bytes, "the spool is full (store.spool_limit)");
            }
            return Appended::Full;
        }
        let first = load.messages == 0;
        *load = Load { messages: load.messages + 1, bytes: load.bytes + size, is_full: false };
        if first { Appended::First } else { Appended::Behind }
    }

    /// Saturating: a write that failed may have been applied all the same, and is removed a second time then.
    fn forget(&self, messages: u64, bytes: u64) {
        let mut load = self.load();
        load.messages = load.messages.saturating_sub(messages);
        load.bytes = load.bytes.saturating_sub(bytes);
        load.is_full = false;
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        // Every change under the lock is whole in itself.
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Entry {
    seq: i64,
    lane: String,
    max_age: Duration,
    mark_ttl: Duration,
    message: String,
}

fn entries(step: &Step<'_>, seq: i64, most: usize) -> Result<Vec<Entry>> {
    let span = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    let mut select =
        step.sql("SELECT seq, lane, max_age, mark_ttl, message FROM spooled WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
    let rows = select.query_map(params![seq, most as i64], |row| {
        Ok(Entry {
            seq: row.get(0)?,
            lane: row.get(1)?,
            max_age: span(row.get(2)?),
            mark_ttl: span(row.get(3)?),
            message: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ChatKind, Message, SenderKind};

    const ROOM: u64 = 1 << 20;

    fn arrival(id: &str) -> Arrival {
        let message = Message {
            request_id: id.into(),
            app: "app".into(),
            chat_id: "群".into(),
            chat_kind: ChatKind::Group,
            msg_id: id.into(),
            sender_key: "u".into(),
            sender_kind: SenderKind::External,
            sender_name: None,
            msg_type: "text".into(),
            text: "好".into(),
            sent_at: None,
            received_at: 7,
            response_url: None,
            trace: None,
        };
        let lane = Lane::of_sender("app", "群", "u");
        let (max_age, mark_ttl) = (Duration::from_secs(600), Duration::from_secs(3600));
        Arrival { message, lane, max_age, mark_ttl, depth_limit: 1, repeated: false }
    }

    async fn ids(spool: &Spool, after: i64) -> Vec<String> {
        let spooled = spool.after(after, 100, 5).await.unwrap();
        spooled.into_iter().map(|one| one.arrival.unwrap().message.request_id).collect()
    }

    #[tokio::test]
    async fn messages_come_out_whole_and_in_order_also_after_a_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), ROOM).unwrap();
        assert_eq!(spool.append(&arrival("r1")).await.unwrap(), Appended::First);
        assert_eq!(spool.append(&arrival("r2")).await.unwrap(), Appended::Behind);
        drop(spool);
        let spool = Spool::open(folder.path(), ROOM).unwrap();
        assert_eq!(spool.depth(), 2);
        spool.append(&arrival("r3")).await.unwrap();
        assert_eq!(ids(&spool, 0).await, ["r1", "r2", "r3"]);
        let first = spool.after(0, 1, 5).await.unwrap().remove(0);
        let (got, sent) = (first.arrival.unwrap(), arrival("r1"));
        assert_eq!((got.message, got.lane, got.depth_limit), (sent.message, sent.lane, 5));
        assert_eq!((got.max_age, got.mark_ttl), (sent.max_age, sent.mark_ttl));
        assert_eq!(ids(&spool, first.seq).await, ["r2", "r3"]);
        assert!(!spool.remove(vec![(first.seq, first.size)]).await.unwrap());
        assert_eq!(ids(&spool, 0).await, ["r2", "r3"]);
    }

    /// As after a `kill -9`: nothing was closed, and what the files hold is all there is.
    #[tokio::test]
    async fn what_was_appended_is_in_the_files() {
        let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let spool = Spool::open(folder.path(), ROOM).unwrap();
        for id in ["r1", "r2"] {
            spool.append(&arrival(id)).await.unwrap();
        }
        for file in ["spool.db", "spool.db-wal"] {
            std::fs::copy(folder.path().join(file), copy.path().join(file)).unwrap();
        }
        assert_eq!(Spool::left_behind(copy.path()).unwrap(), 2);
        assert_eq!(ids(&Spool::open(copy.path(), ROOM).unwrap(), 0).await, ["r1", "r2"]);
    }

    #[tokio::test]
    async fn it_holds_no_more_than_its_limit_and_takes_more_once_some_went() {
        let folder = tempfile::tempdir().unwrap();
        let size = to_json(&arrival("r1").message).unwrap().len() as u64;
        let spool = Spool::open(folder.path(), 2 * size).unwrap();
        for (id, appended) in [("r1", Appended::First), ("r2", Appended::Behind), ("r3", Appended::Full)] {
            assert_eq!(spool.append(&arrival(id)).await.unwrap(), appended, "{id}");
        }
        assert!(!spool.has_room());
        drop(spool);
        let spool = Spool::open(folder.path(), 2 * size).unwrap();
        assert_eq!(spool.append(&arrival("r3")).await.unwrap(), Appended::Full);
        let all = spool.after(0, 9, 5).await.unwrap().into_iter().map(|one| (one.seq, one.size)).collect();
        assert!(spool.remove(all).await.unwrap() && spool.has_room());
        assert_eq!(spool.append(&arrival("r4")).await.unwrap(), Appended::First);
    }

    #[tokio::test]
    async fn a_row_that_cannot_be_read_stops_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), ROOM).unwrap();
        for id in ["r1", "r2"] {
            spool.append(&arrival(id)).await.unwrap();
        }
        let spoil = |step: &Step<'_>| Ok(step.sql("UPDATE spooled SET message = '{' WHERE seq = 1")?.execute([])?);
        spool.db.step(spoil).await.unwrap();
        let both = spool.after(0, 9, 5).await.unwrap();
        assert!(both[0].arrival.is_err() && both[1].arrival.is_ok());
    }
}
