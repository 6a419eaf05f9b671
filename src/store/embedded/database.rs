//! One SQLite file and its one writer: what the embedded store and the spool keep their things in.
//!
//! Write-ahead log, `synchronous = FULL` (but where the owner does not want it): what was answered is on the disk. Nothing of the state lives in memory: after a
//! crash the file is everything. Locking the folder is the caller's, see [`crate::store::lock`].

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction};
use tokio::runtime::Handle;

use super::checkpoint::{Checkpoints, LOG_KEPT};
use super::step::Step;
use super::sweep::Sweeper;
use super::writer::{Call, Work, Writer};
use crate::store::lock::create_file;
use crate::store::{Result, StoreError, Wakeups};

/// How long a statement waits for another connection's lock (the checkpoint's, or a shell's).
const BUSY: Duration = Duration::from_secs(5);

/// A file that one thread writes.
pub(in crate::store) struct Database {
    /// `None` once it is being dropped.
    work: Option<Sender<Box<dyn Work>>>,
    threads: Vec<JoinHandle<()>>,
    wakeups: Arc<Wakeups>,
}

impl Database {
    /// Starts the writer of `file`, whose connection this is and whose tables are laid out. `name` is what its threads are
    /// called; `waiting` is where [`Step::waiting`] begins.
    pub fn start(file: &Path, conn: Connection, name: &str, sweeper: Sweeper, waiting: u64) -> Result<Self> {
        let (work, incoming) = channel();
        let wakeups = Arc::new(Wakeups::default());
        let (checkpoints, copier) = Checkpoints::start(file, name, &conn)?;
        let runtime = Handle::try_current().ok();
        let writer = Writer { conn, work: incoming, wakeups: wakeups.clone(), runtime, checkpoints, sweeper, waiting };
        let writer = spawn(format!("{name}-writer"), move || writer.run())?;
        Ok(Self { work: Some(work), threads: vec![writer, copier], wakeups })
    }

    /// Runs `work` in a step of the writer and brings what it brought. Steps run in the order of these calls.
    pub async fn step<T: Send + 'static>(
        &self,
        work: impl FnMut(&Step<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let gone = || StoreError::Unavailable("its writer has ended".into());
        let (call, answer) = Call::prepare(work);
        self.work.as_ref().ok_or_else(gone)?.send(call).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Runs `verb` for each of a batch, as one step.
    pub async fn each<I, T>(
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

    /// What steps signalled.
    pub fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }
}

impl Drop for Database {
    /// Finishes what was handed in, and waits for it: the file is closed afterwards.
    fn drop(&mut self) {
        self.work = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// Opens (or makes) `file`. With `fsync` a commit returns once the disk has it.
pub(in crate::store) fn connect(file: &Path, fsync: bool) -> Result<Connection> {
    let fault = |error| StoreError::Refused(format!("{} can't be made: {error}", file.display()));
    create_file(file).map_err(fault)?;
    let conn = Connection::open(file)?;
    conn.busy_timeout(BUSY)?;
    // More than there are texts.
    conn.set_prepared_statement_cache_capacity(128);
    // Plans must not depend on bound values: else each `LIMIT ?` is planned anew whenever its value changes.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", if fsync { "FULL" } else { "OFF" })?;
    // Checkpoints are ours, and a log that grew too long once is cut back by them.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
    conn.pragma_update(None, "cache_size", -32_768)?;
    Ok(conn)
}

/// Makes the tables of `schema` where they are missing. A file of another layout is refused.
pub(in crate::store) fn lay_out(transaction: &Transaction<'_>, file: &Path, layout: i64, schema: &str) -> Result<()> {
    let found: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found != 0 && found != layout {
        let text = format!("{} has layout {found}, this program knows {layout}", file.display());
        return Err(StoreError::Refused(text));
    }
    transaction.execute_batch(schema)?;
    Ok(transaction.pragma_update(None, "user_version", layout)?)
}

pub(super) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name).spawn(body);
    thread.map_err(|e| StoreError::Unavailable(format!("its thread could not be started: {e}")))
}
