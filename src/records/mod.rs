//! Records: what outlives the queue, in SQL: the trail of every message and the state of every delivery.
//!
//! They are filled from the journal by the [`Flusher`] and never stand in the way of a message: with SQL away the
//! journal waits. What always holds: a journal line is trimmed only after the transaction that wrote it is on disk; a
//! line written twice is one row; a message's outcome and its deliveries follow from the *set* of its lines
//! ([`trail`]), so neither a repeat nor another order changes them.
//!
//! SQLite for now. The statements are plain SQL; what differs between databases stands at the top of `write.rs`.

mod flusher;
mod page;
mod query;
#[cfg(test)]
mod tests;
pub mod trail;
mod write;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use crate::model::Secret;
pub use flusher::Flusher;
pub use page::{Cursor, Page};
pub use query::{DeliveryItem, EndedDelivery, MessageItem};

/// Applied in order at each start; one that was applied is never edited.
static MIGRATIONS: Migrator = sqlx::migrate!("src/records/migrations");

/// How long a statement waits for another's lock, and a caller for a connection.
const WAIT: Duration = Duration::from_secs(5);
/// Connections for queries.
const READERS: u32 = 4;
/// Page cache of the writer, as SQLite wants it (negative: KiB). Two indices are by digest and msg_id: hit at random.
const WRITER_CACHE: &str = "-32768";

/// Why the records failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The address is of no database that is known here.
    #[error("[database] url: not a sqlite:// address; write sqlite://<path of the file>")]
    Url,
    /// The file's folder cannot be made.
    #[error("[database] url: can't create the folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The tables cannot be brought up to date.
    #[error("the records' tables can't be brought up to date: {0}")]
    Migrate(#[from] MigrateError),
    /// A statement failed.
    #[error("the records can't be reached: {0}")]
    Sql(#[from] sqlx::Error),
    /// A list was asked to go on from a place that it never named.
    #[error("the cursor is none of ours")]
    Cursor,
}

/// The records database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Records {
    /// One connection, the flusher's: no query of an operator can hold it up.
    writer: SqlitePool,
    readers: SqlitePool,
}

impl Records {
    /// Opens the database, creating folder, file and tables where they are missing.
    ///
    /// # Errors
    /// Every variant of [`RecordsError`] but `Cursor`.
    pub async fn open(url: &Secret) -> Result<Self, RecordsError> {
        if !url.expose().starts_with("sqlite:") {
            return Err(RecordsError::Url);
        }
        let options = SqliteConnectOptions::from_str(url.expose()).map_err(|_| RecordsError::Url)?;
        if let Some(folder) = options.get_filename().parent() {
            let fault = |source| RecordsError::Folder { path: folder.to_path_buf(), source };
            std::fs::create_dir_all(folder).map_err(fault)?;
        }
        // FULL, not NORMAL: in WAL mode NORMAL may lose the last transactions when the machine dies, and by then their
        // lines are trimmed from the journal. One sync a flush is cheap.
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(WAIT)
            .disable_statement_logging();
        let pool = || SqlitePoolOptions::new().acquire_timeout(WAIT).idle_timeout(None).max_lifetime(None);
        let writer = pool().max_connections(1).connect_with(options.clone().pragma("cache_size", WRITER_CACHE)).await?;
        MIGRATIONS.run(&writer).await?;
        let readers = pool().max_connections(READERS).connect_with(options.pragma("query_only", "ON")).await?;
        Ok(Self { writer, readers })
    }

    /// Closes all connections, after the statements under way.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}
