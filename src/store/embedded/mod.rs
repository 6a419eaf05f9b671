//! The embedded store: SQLite, one writer, group commit.
//!
//! One file `store.db` (`database`): what was answered is on the disk. All verbs run on the `writer` thread, many in one
//! transaction, so no two steps ever interleave and no lock is waited for. What can be done elsewhere (writing and
//! reading JSON) is done in the caller's task. Nothing of the state lives in memory: after a crash the file is everything.
//!
//! - `database`, `writer`: the file and its one writer, which the spool uses too.
//! - `inbound`, `outbound`, `pushes`, `session`, `late`, `members`, `notes`, `operators`, `observe`: the verbs, as functions
//!   of one `step::Step`.
//! - `chat`: the row of an outbound lane; `pace`: its window of sends.
//! - `look`: what the file says to whoever does not open it.
//! - `checkpoint`, `sweep`: what keeps the log and the file small.

mod chat;
mod checkpoint;
pub(super) mod database;
mod inbound;
mod late;
mod look;
mod members;
mod notes;
mod observe;
mod operators;
mod outbound;
mod pace;
mod pushes;
mod session;
pub(super) mod step;
pub(super) mod sweep;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};

use self::database::{Database, connect, lay_out};
pub use self::look::shards_of;
use self::sweep::Sweeper;
use super::json::{from_json, to_json};
use super::lock::create_folder;
use super::share::Share;
use super::{
    Answered, Arrival, Begin, Begun, ChatStatus, Claimed, ClaimedMessage, ClaimedReply, Commit, Committed, Depth,
    Enqueued, JournalBatch, LateAnswer, Lease, Line, Members, Note, NoteWrite, Noted, Operated, Operation, Options,
    Pushes, Remembered, Result, Settle, Settled, Side, Store, StoreError, Tuning, Waiting, Wakeups,
};
use crate::model::{Lane, Secret, SessionKey, now_ms};

/// The layout of the tables; raised when they change.
const LAYOUT: i64 = 9;
/// The oldest layout that is brought up to date, and what each later one changed in tables that were there.
const OLDEST: i64 = 2;
const CHANGES: [&str; (LAYOUT - OLDEST) as usize] = [
    "ALTER TABLE in_lanes ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE late ADD COLUMN reply_to TEXT NOT NULL DEFAULT '{}'",
    "ALTER TABLE deliveries ADD COLUMN merged INTEGER NOT NULL DEFAULT 1;
     ALTER TABLE deliveries ADD COLUMN apart INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE sessions ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE chats ADD COLUMN last_reply INTEGER NOT NULL DEFAULT -1;
     UPDATE chats SET last_reply = tail - 1;
     DROP INDEX out_ready",
    "ALTER TABLE sessions ADD COLUMN ends INTEGER;
     CREATE TABLE IF NOT EXISTS contacts (key TEXT, field TEXT, value TEXT, filled INTEGER);
     CREATE TABLE contact_fields (
         key TEXT NOT NULL, field TEXT NOT NULL, source INTEGER NOT NULL, value TEXT NOT NULL,
         PRIMARY KEY (key, field, source)
     ) STRICT, WITHOUT ROWID;
     INSERT INTO contact_fields SELECT key, field, 1 - filled, value FROM contacts;
     DROP TABLE contacts",
    include_str!("sql/layout_9.sql"),
];

/// SQLite in one file, written by one thread.
pub struct EmbeddedStore {
    db: Database,
    options: Options,
    share: Share,
}

impl EmbeddedStore {
    /// Opens (or makes) `store.db` in the folder `path`. Blocks for a moment. Locking the folder is the caller's, see
    /// [`super::lock`]. The disk is its only replica: [`Options::replicas`] says nothing here.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the folder can't be used or the store was set up with another number of shards;
    /// [`StoreError::Unavailable`] when the disk refuses.
    pub fn open(path: &Path, options: impl Into<Options>) -> Result<Arc<Self>> {
        let options = options.into();
        create_folder(path)?;
        let file = path.join("store.db");
        let mut conn = connect(&file, options.fsync)?;
        let waiting = set_up(&mut conn, &file, options.shards)?;
        if !options.fsync {
            tracing::warn!("[store] fsync = false: an ack survives a crash of this process, not one of the machine");
        }
        let db = Database::start(&file, conn, "store", Sweeper::of_the_store(), waiting)?;
        Ok(Arc::new(Self { db, options, share: Share::default() }))
    }
}

/// Brings the tables into shape; answers how many messages and deliveries wait.
fn set_up(conn: &mut Connection, file: &Path, shards: u16) -> Result<u64> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    upgrade(&transaction)?;
    lay_out(&transaction, file, LAYOUT, include_str!("sql/schema.sql"))?;
    let mut select = transaction.prepare("SELECT value FROM meta WHERE name = 'shards'")?;
    let kept: Option<u16> = select.query_row([], |row| row.get(0)).optional()?;
    drop(select);
    match kept {
        Some(kept) if kept != shards => {
            return Err(StoreError::Refused(format!(
                "{} was set up with shards = {kept}, the configuration says {shards}; the number is fixed at first start",
                file.display()
            )));
        }
        Some(_) => {}
        None => drop(transaction.execute("INSERT INTO meta (name, value) VALUES ('shards', ?1)", [shards])?),
    }
    free_leases(&transaction)?;
    let waiting: i64 = transaction.query_row(
        "SELECT (SELECT coalesce(sum(tail - head), 0) FROM in_lanes) + (SELECT coalesce(sum(tail - head), 0) FROM chats)",
        [],
        |row| row.get(0),
    )?;
    transaction.commit()?;
    Ok(u64::try_from(waiting).unwrap_or(0))
}

/// Brings a file of an earlier layout up to this one.
fn upgrade(transaction: &Transaction<'_>) -> Result<()> {
    let layout: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let done = usize::try_from(layout - OLDEST).ok();
    if let Some(changes) = done.and_then(|done| CHANGES.get(done..)) {
        changes.iter().try_for_each(|change| transaction.execute_batch(change))?;
        transaction.pragma_update(None, "user_version", LAYOUT)?;
    }
    Ok(())
}

/// The folder is ours alone ([`crate::store::lock`]), so whoever held these leases is gone: nobody has to wait for their end.
/// A worker that held one is known never to have finished, which counts against its message. An attempt that was begun
/// under one stays begun.
fn free_leases(transaction: &Transaction<'_>) -> Result<()> {
    transaction.execute(
        "UPDATE in_lanes SET crashes = crashes + (lease IS NOT NULL), leased = 0, lease = NULL,
                             due = CASE leased WHEN 1 THEN ?1 ELSE due END
         WHERE leased = 1 OR lease IS NOT NULL",
        [now_ms()],
    )?;
    transaction.execute(
        "UPDATE chats SET state = CASE WHEN tail > head THEN 'ready' ELSE 'idle' END, lease = NULL WHERE state = 'leased'",
        [],
    )?;
    Ok(())
}

impl From<rusqlite::Error> for StoreError {
    /// A disk that refuses may take the same call later; anything that is not SQLite's refusal is nonsense in the file.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => Self::Corrupt(error.to_string()),
            Some(_) => Self::Unavailable(error.to_string()),
        }
    }
}

/// Those of a claim that could be read. One that can't holds up its own lane and no other: a message until it is poison.
fn readable<T>(heads: impl Iterator<Item = Result<T>>) -> Vec<T> {
    heads
        .filter_map(|head| head.inspect_err(|error| tracing::error!(%error, "a stored head can't be read")).ok())
        .collect()
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn enqueue(&self, batch: Vec<Arrival>) -> Result<Vec<Enqueued>> {
        let batch = batch.into_iter().map(inbound::NewMessage::of).collect::<Result<Vec<_>>>()?;
        let max_waiting = self.options.max_waiting;
        self.db.each(batch, move |step, message| inbound::enqueue(step, message, max_waiting)).await
    }

    async fn claim_messages(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedMessage>> {
        let poison_after = self.options.poison_after;
        let claimed = self.db.step(move |step| inbound::claim(step, want, lease, poison_after)).await?;
        let Claimed { items, poisoned, next_wake } = claimed;
        Ok(Claimed { items: readable(items.into_iter().map(inbound::HeadMessage::read)), poisoned, next_wake })
    }

    async fn commit(&self, batch: Vec<Commit>) -> Result<Vec<Committed>> {
        let batch = batch.into_iter().map(inbound::Finish::of).collect::<Result<Vec<_>>>()?;
        self.db.each(batch, inbound::commit).await
    }

    async fn claim_replies(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedReply>> {
        let share = self.share.now();
        let (heads, share, next_wake) = self.db.step(move |step| outbound::claim(step, want, lease, share)).await?;
        self.share.stands(share);
        let items = readable(heads.into_iter().map(chat::HeadReply::read));
        Ok(Claimed { items, poisoned: Vec::new(), next_wake })
    }

    async fn begin(&self, batch: Vec<Begin>) -> Result<Vec<Begun>> {
        self.db.each(batch, outbound::begin).await
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Settled>> {
        let share = self.share.now();
        let outcomes = self.db.each(batch, move |step, settle| outbound::settle(step, settle, share)).await?;
        let settled: Vec<Settled> = outcomes.into_iter().map(outbound::Outcome::read).collect::<Result<_>>()?;
        self.share.went_on(&settled);
        Ok(settled)
    }

    async fn renew(&self, side: Side, leases: Vec<Lease>, lease: Duration) -> Result<Vec<bool>> {
        self.db
            .each(leases, move |step, held| match side {
                Side::In => inbound::renew(step, held, lease),
                Side::Out => outbound::renew(step, held, lease),
            })
            .await
    }

    async fn release(&self, side: Side, leases: Vec<Lease>, pause: Duration) -> Result<()> {
        let released = self.db.each(leases, move |step, held| match side {
            Side::In => inbound::release(step, held, pause),
            Side::Out => outbound::release(step, held, pause),
        });
        released.await.map(drop)
    }

    async fn waiting(&self, lane: &Lane, request_id: &str) -> Result<Option<Waiting>> {
        let (lane, request_id) = (lane.clone(), request_id.to_owned());
        self.db.step(move |step| late::waiting(step, &lane, &request_id)).await
    }

    async fn session(&self, key: &SessionKey) -> Result<Remembered> {
        let key = key.clone();
        self.db.step(move |step| session::read(step, key.as_str())).await?.read()
    }

    async fn forget_session(&self, key: &SessionKey, keep: Duration, change: Option<Line>) -> Result<()> {
        let key = key.clone();
        self.db.step(move |step| session::forget(step, &key, keep, change.as_ref())).await
    }

    async fn answer_late(&self, answer: LateAnswer) -> Result<Answered> {
        let answer = late::NewAnswer::of(answer)?;
        self.db.step(move |step| late::answer(step, &answer)).await
    }

    async fn revive(&self, lane: &Lane) -> Result<()> {
        let lane = lane.clone();
        self.db.step(move |step| outbound::revive(step, &lane)).await
    }

    async fn tune(&self, tuning: Tuning) -> Result<()> {
        self.db.step(move |step| operators::tune(step, &tuning)).await
    }

    async fn note_change(&self, change: Line) -> Result<()> {
        self.db.step(move |step| step.journal([&change])).await
    }

    async fn operate(&self, operation: Operation) -> Result<Operated> {
        let operation = operators::NewOperation::of(operation)?;
        self.db.step(move |step| operators::operate(step, &operation)).await
    }

    async fn read_notes(&self, notes: Vec<Note>) -> Result<Vec<Option<Noted>>> {
        self.db.each(notes, notes::read).await
    }

    async fn write_note(&self, write: NoteWrite) -> Result<bool> {
        self.db.step(move |step| notes::write(step, &write)).await
    }

    async fn drop_note(&self, note: &Note, seen: Option<&Secret>) -> Result<bool> {
        let (note, seen) = (note.clone(), seen.cloned());
        self.db.step(move |step| notes::forget(step, &note, seen.as_ref())).await
    }

    async fn lock_note(&self, note: &Note, owner: &str, ttl: Duration) -> Result<bool> {
        let (note, owner) = (note.clone(), owner.to_owned());
        self.db.step(move |step| notes::lock(step, &note, &owner, ttl)).await
    }

    async fn unlock_note(&self, note: &Note, owner: &str) -> Result<()> {
        let (note, owner) = (note.clone(), owner.to_owned());
        self.db.step(move |step| notes::unlock(step, &note, &owner)).await
    }

    async fn chats(&self, lanes: Vec<Lane>) -> Result<Vec<ChatStatus>> {
        self.db.each(lanes, observe::chat).await
    }

    async fn busy_chats(&self, limit: usize) -> Result<Vec<Lane>> {
        self.db.step(move |step| observe::busy_chats(step, limit)).await
    }

    async fn read_journal(&self, max: usize) -> Result<Vec<JournalBatch>> {
        self.db.step(move |step| observe::read_journal(step, max)).await
    }

    async fn rotate_journal(&self, batch: &JournalBatch, keep: Vec<String>) -> Result<bool> {
        let (from, count) = (batch.from, batch.count);
        self.db.step(move |step| observe::rotate_journal(step, from, count, &keep)).await
    }

    async fn depth(&self) -> Result<Depth> {
        self.db.step(observe::depth).await
    }

    async fn ping(&self) -> Result<()> {
        self.db.step(observe::ping).await
    }

    fn pushes(&self) -> &dyn Pushes {
        self
    }

    fn members(&self) -> &dyn Members {
        self
    }

    fn wakeups(&self) -> &Wakeups {
        self.db.wakeups()
    }
}
