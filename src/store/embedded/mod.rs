//! The embedded store: SQLite, one writer, group commit.
//!
//! One file `store.db`, write-ahead log, `synchronous = FULL`: what was answered is on the disk. All verbs run on the
//! `writer` thread, many in one transaction, so no two steps ever interleave and no lock is waited for. What can be
//! done elsewhere (writing and reading JSON) is done in the caller's task. Nothing of the state lives in memory: after a
//! crash the file is everything.
//!
//! - `inbound`, `outbound`, `late`, `notes`, `observe`: the verbs, as functions of one `step::Step`.
//! - `chat`: the row of an outbound lane; `pace`: its window of sends.
//! - `checkpoint`, `sweep`: what keeps the log and the file small.

mod chat;
mod checkpoint;
mod inbound;
mod late;
mod notes;
mod observe;
mod outbound;
mod pace;
mod step;
mod sweep;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::checkpoint::Checkpoints;
use self::step::Step;
use self::sweep::Sweeper;
use self::writer::{Call, Work, Writer};
use super::lock::create_folder;
use super::{
    Answered, Arrival, Begin, Begun, ChatStatus, Claimed, ClaimedMessage, ClaimedReply, Commit, Committed, Depth,
    Enqueued, JournalBatch, LateAnswer, Lease, Note, NoteWrite, Noted, Result, Settle, Settled, Side, Store,
    StoreError, Waiting, Wakeups,
};
use crate::model::{Lane, Secret, now_ms};

/// How long a statement waits for another connection's lock (the checkpoint's, or a shell's).
const BUSY: Duration = Duration::from_secs(5);
/// The layout of the tables; raised when they change.
const LAYOUT: i64 = 3;

/// SQLite in one file, written by one thread.
pub struct EmbeddedStore {
    /// `None` once it is being dropped.
    work: Option<Sender<Box<dyn Work>>>,
    threads: Vec<JoinHandle<()>>,
    wakeups: Arc<Wakeups>,
}

impl EmbeddedStore {
    /// Opens (or makes) `store.db` in the folder `path`. Blocks for a moment. Locking the folder is the caller's, see [`super::lock`].
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the folder can't be used or the store was set up with another number of shards;
    /// [`StoreError::Unavailable`] when the disk refuses.
    pub fn open(path: &Path, shards: u16) -> Result<Arc<Self>> {
        create_folder(path)?;
        let file = path.join("store.db");
        let mut conn = connect(&file)?;
        set_up(&mut conn, &file, shards)?;
        let (work, incoming) = channel();
        let wakeups = Arc::new(Wakeups::default());
        let (checkpoints, copier) = Checkpoints::start(&file)?;
        let sweeper = Sweeper::default();
        let writer = Writer { conn, work: incoming, wakeups: wakeups.clone(), checkpoints, sweeper };
        let writer = spawn("store-writer", move || writer.run())?;
        Ok(Arc::new(Self { work: Some(work), threads: vec![writer, copier], wakeups }))
    }

    /// Runs `work` in a step of the writer and brings what it brought.
    async fn step<T: Send + 'static>(&self, work: impl FnMut(&Step<'_>) -> Result<T> + Send + 'static) -> Result<T> {
        let gone = || StoreError::Unavailable("its writer has ended".into());
        let (call, answer) = Call::prepare(work);
        self.work.as_ref().ok_or_else(gone)?.send(call).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Runs `verb` for each of a batch, as one step.
    async fn each<I, T>(
        &self,
        batch: Vec<I>,
        verb: impl Fn(&Step<'_>, &I) -> Result<T> + Send + 'static,
    ) -> Result<Vec<T>>
    where
        I: Send + 'static,
        T: Send + 'static,
    {
        self.step(move |step| batch.iter().map(|item| verb(step, item)).collect()).await
    }
}

impl Drop for EmbeddedStore {
    /// Finishes what was handed in, and waits for it: the file is closed afterwards.
    fn drop(&mut self) {
        self.work = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

fn connect(file: &Path) -> Result<Connection> {
    let conn = Connection::open(file)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(64);
    // Plans must not depend on bound values: else each `LIMIT ?` is planned anew whenever its value changes.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    // Checkpoints are ours, and a log that grew once is cut back by them.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "journal_size_limit", checkpoint::LOG_BOUND as i64)?;
    conn.pragma_update(None, "cache_size", -32_768)?;
    Ok(conn)
}

fn set_up(conn: &mut Connection, file: &Path, shards: u16) -> Result<()> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let layout: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if layout == 2 {
        transaction.execute("ALTER TABLE late ADD COLUMN reply_to TEXT NOT NULL DEFAULT '{}'", [])?;
    } else if layout != 0 && layout != LAYOUT {
        let text = format!("{} has layout {layout}, this program knows {LAYOUT}", file.display());
        return Err(StoreError::Refused(text));
    }
    transaction.execute_batch(include_str!("sql/schema.sql"))?;
    transaction.pragma_update(None, "user_version", LAYOUT)?;
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
    Ok(transaction.commit()?)
}

/// The folder is ours alone ([`crate::store::lock`]), so whoever held these leases is gone: nobody has to wait for their end.
/// An attempt that was begun under one stays begun.
fn free_leases(transaction: &Transaction<'_>) -> Result<()> {
    transaction.execute("UPDATE in_lanes SET leased = 0, due = ?1, lease = NULL WHERE leased = 1", [now_ms()])?;
    transaction.execute(
        "UPDATE chats SET state = CASE WHEN tail > head THEN 'ready' ELSE 'idle' END, lease = NULL WHERE state = 'leased'",
        [],
    )?;
    Ok(())
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(body);
    thread.map_err(|e| StoreError::Unavailable(format!("its thread could not be started: {e}")))
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

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| StoreError::Corrupt(e.to_string()))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    // The error's text may quote what a member wrote; its place is enough.
    serde_json::from_str(text)
        .map_err(|e| StoreError::Corrupt(format!("JSON, {:?} at column {}", e.classify(), e.column())))
}

/// Those of a claim that could be read. One that can't holds up its own lane, again after each lease, and no other.
fn readable<T>(heads: impl Iterator<Item = Result<T>>) -> Vec<T> {
    heads
        .filter_map(|head| head.inspect_err(|error| tracing::error!(%error, "a stored head can't be read")).ok())
        .collect()
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn enqueue(&self, batch: Vec<Arrival>) -> Result<Vec<Enqueued>> {
        let batch = batch.into_iter().map(inbound::NewMessage::of).collect::<Result<Vec<_>>>()?;
        self.each(batch, inbound::enqueue).await
    }

    async fn claim_messages(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedMessage>> {
        let (heads, next_wake) = self.step(move |step| inbound::claim(step, want, lease)).await?;
        Ok(Claimed { items: readable(heads.into_iter().map(inbound::HeadMessage::read)), next_wake })
    }

    async fn commit(&self, batch: Vec<Commit>) -> Result<Vec<Committed>> {
        let batch = batch.into_iter().map(inbound::Finish::of).collect::<Result<Vec<_>>>()?;
        self.each(batch, inbound::commit).await
    }

    async fn claim_replies(&self, want: usize, lease: Duration) -> Result<Claimed<ClaimedReply>> {
        let (heads, next_wake) = self.step(move |step| outbound::claim(step, want, lease)).await?;
        Ok(Claimed { items: readable(heads.into_iter().map(chat::HeadReply::read)), next_wake })
    }

    async fn begin(&self, batch: Vec<Begin>) -> Result<Vec<Begun>> {
        self.each(batch, outbound::begin).await
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Settled>> {
        let outcomes = self.each(batch, outbound::settle).await?;
        outcomes.into_iter().map(outbound::Outcome::read).collect()
    }

    async fn renew(&self, side: Side, leases: Vec<Lease>, lease: Duration) -> Result<Vec<bool>> {
        self.each(leases, move |step, held| match side {
            Side::In => inbound::renew(step, held, lease),
            Side::Out => outbound::renew(step, held, lease),
        })
        .await
    }

    async fn release(&self, side: Side, leases: Vec<Lease>, pause: Duration) -> Result<()> {
        let released = self.each(leases, move |step, held| match side {
            Side::In => inbound::release(step, held, pause),
            Side::Out => outbound::release(step, held, pause),
        });
        released.await.map(drop)
    }

    async fn waiting(&self, lane: &Lane, request_id: &str) -> Result<Option<Waiting>> {
        let (lane, request_id) = (lane.clone(), request_id.to_owned());
        self.step(move |step| late::waiting(step, &lane, &request_id)).await
    }

    async fn answer_late(&self, answer: LateAnswer) -> Result<Answered> {
        let answer = late::NewAnswer::of(answer)?;
        self.step(move |step| late::answer(step, &answer)).await
    }

    async fn revive(&self, lane: &Lane) -> Result<()> {
        let lane = lane.clone();
        self.step(move |step| outbound::revive(step, &lane)).await
    }

    async fn read_notes(&self, notes: Vec<Note>) -> Result<Vec<Option<Noted>>> {
        self.each(notes, notes::read).await
    }

    async fn write_note(&self, write: NoteWrite) -> Result<bool> {
        self.step(move |step| notes::write(step, &write)).await
    }

    async fn drop_note(&self, note: &Note, seen: Option<&Secret>) -> Result<bool> {
        let (note, seen) = (note.clone(), seen.cloned());
        self.step(move |step| notes::forget(step, &note, seen.as_ref())).await
    }

    async fn lock_note(&self, note: &Note, owner: &str, ttl: Duration) -> Result<bool> {
        let (note, owner) = (note.clone(), owner.to_owned());
        self.step(move |step| notes::lock(step, &note, &owner, ttl)).await
    }

    async fn unlock_note(&self, note: &Note, owner: &str) -> Result<()> {
        let (note, owner) = (note.clone(), owner.to_owned());
        self.step(move |step| notes::unlock(step, &note, &owner)).await
    }

    async fn chats(&self, lanes: Vec<Lane>) -> Result<Vec<ChatStatus>> {
        self.each(lanes, observe::chat).await
    }

    async fn busy_chats(&self, limit: usize) -> Result<Vec<Lane>> {
        self.step(move |step| observe::busy_chats(step, limit)).await
    }

    async fn read_journal(&self, max: usize) -> Result<Vec<JournalBatch>> {
        self.step(move |step| observe::read_journal(step, max)).await
    }

    async fn trim_journal(&self, batch: &JournalBatch) -> Result<()> {
        let (from, count) = (batch.from, batch.count);
        self.step(move |step| observe::trim_journal(step, from, count)).await
    }

    async fn depth(&self) -> Result<Depth> {
        self.step(observe::depth).await
    }

    async fn ping(&self) -> Result<()> {
        self.step(observe::ping).await
    }

    fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Stage;

    const HOUR: i64 = 3_600_000;

    fn open() -> (tempfile::TempDir, Arc<EmbeddedStore>) {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), 4).unwrap();
        (folder, store)
    }

    #[test]
    fn a_store_of_other_shards_is_refused() {
        let (folder, store) = open();
        drop(store);
        let refused = EmbeddedStore::open(folder.path(), 5).err().unwrap();
        assert!(
            matches!(&refused, StoreError::Refused(text) if text.contains("shards = 4") && text.contains("says 5"))
        );
        EmbeddedStore::open(folder.path(), 4).unwrap();
    }

    #[test]
    fn a_foreign_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("store.db"), "no database at all, but long enough to be looked at").unwrap();
        let refused = EmbeddedStore::open(folder.path(), 4).err().unwrap();
        assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
    }

    /// Work that comes together in one group: the writer is held until all of it was handed in.
    #[tokio::test]
    async fn a_failure_in_a_group_is_nobody_elses() {
        let (_folder, store) = open();
        let (release, held) = channel::<()>();
        let hold = store.step(move |_| {
            let _ = held.recv();
            Ok(())
        });
        let write = |id: &'static str, fails: bool| {
            store.step(move |step| {
                step.set_mark(id, "r", false, HOUR)?;
                if fails { Err(StoreError::Refused(id.into())) } else { Ok(id) }
            })
        };
        let let_go = async { drop(release) };
        let (_, a, b, c, ()) = tokio::join!(hold, write("a", false), write("b", true), write("c", false), let_go);
        assert_eq!((a.unwrap(), c.unwrap()), ("a", "c"));
        assert!(matches!(b.unwrap_err(), StoreError::Refused(id) if id == "b"));
        let marked = async |id| store.step(move |step| Ok(step.mark(id)?.is_some())).await.unwrap();
        assert_eq!((marked("a").await, marked("b").await, marked("c").await), (true, false, true));
    }

    #[tokio::test]
    async fn a_full_disk_is_a_refusal_for_now() {
        let (_folder, store) = open();
        let fill = || store.step(|step| step.note(Stage::Accepted, "r", "k", &"x".repeat(1 << 20)));
        let limit = async |pages: &'static str| {
            let pragma = format!("PRAGMA max_page_count = {pages}");
            store.step(move |step| Ok(step.sql(&pragma)?.query_row([], |_| Ok(()))?)).await.unwrap();
        };
        limit("64").await;
        let error = fill().await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        store.ping().await.unwrap();
        limit("100000").await;
        fill().await.unwrap();
    }

    /// No test can cut the power, so this one looks at what SQLite was told.
    #[tokio::test]
    async fn the_writer_syncs_before_it_answers() {
        let (_folder, store) = open();
        let told = async |pragma: &'static str| {
            let read = move |step: &Step<'_>| {
                Ok(step.sql(pragma)?.query_row([], |row| row.get::<_, rusqlite::types::Value>(0))?)
            };
            store.step(read).await.unwrap()
        };
        assert_eq!(told("PRAGMA synchronous").await, 2.into());
        assert_eq!(told("PRAGMA journal_mode").await, "wal".to_owned().into());
    }

    /// What comes in meanwhile is bounded by the disk's speed, so only the end is looked at.
    #[tokio::test]
    async fn the_log_is_cut_back() {
        let (folder, store) = open();
        let log = || std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len();
        for _ in 0..18 {
            store.step(|step| step.note(Stage::Accepted, "r", "k", &"x".repeat(1 << 20))).await.unwrap();
        }
        let cut_back = async {
            while log() > checkpoint::LOG_BOUND / 2 {
                store.ping().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(30), cut_back).await.expect("the log stays long");
        assert_eq!(store.depth().await.unwrap().journal, 18);
    }
}
