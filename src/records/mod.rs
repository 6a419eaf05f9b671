//! Records: what outlives the queue, in SQL: the trail of every message, the state of every delivery, statistics of each day, what operators
//! changed.
//!
//! They are filled from the journal by the [`Flusher`] and never stand in the way of a message: with SQL away the
//! journal waits. What always holds: a journal line is trimmed only after the transaction that wrote it is on disk; a
//! line written twice is one row; a message's outcome and its deliveries follow from the *set* of its lines
//! ([`trail`]), so neither a repeat nor another order changes them.
//!
//! SQLite by default, MySQL and MariaDB for several gateways; what differs stands in `dialect.rs`. A server may be away
//! when a gateway starts: its tables are brought up to date by the first call that reaches it (`tables.rs`). It may hang, too: no call
//! waits for it for ever (`connection.rs`).

mod archive;
mod care;
mod changes;
mod connection;
mod dialect;
mod flusher;
mod page;
mod query;
mod results;
mod stats;
mod tables;
mod thinning;
pub mod trail;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::AnyPool;
use sqlx::any::install_default_drivers;
use sqlx::migrate::MigrateError;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::warn;

use crate::model::Secret;
use crate::zone::Zone;
pub use archive::exchange;
pub use care::{Care, Held, Unknowns};
pub use changes::{ChangeItem, Changes};
use connection::pool;
use dialect::{Dialect, Use};
pub use flusher::Flusher;
pub use page::{Cursor, Page};
pub use query::{AwaitedPush, DeliveryItem, EndedDelivery, MessageItem, rfc3339};
pub use results::PushResult;
pub use stats::{ChatStats, Copies, CopyBatch, Figures, Hit, Latencies, Replies, RuleStats, Scope, Stats};

/// Connections for queries.
const READERS: u32 = 4;
/// How long a start waits for a server.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// Why the records failed. No text of it holds a password.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The address is of no database that is known here.
    #[error(
        "[database] url: no address of a database that is known here; write sqlite://<file> or mysql://<user>:<password>@<host>/<database>"
    )]
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
    /// The database, or who is in its way, took longer than a call waits.
    #[error("the records did not answer in time")]
    Slow,
    /// A list was asked to go on from a place that it never named.
    #[error("the cursor is none of ours")]
    Cursor,
}

impl RecordsError {
    /// Whether the same call may succeed later although nobody changes anything: the database is away.
    pub fn is_transient(&self) -> bool {
        let of_sql = |error: &sqlx::Error| match error {
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
            sqlx::Error::Database(error) => error.is_transient_in_connect_phase(),
            _ => false,
        };
        match self {
            Self::Sql(error) | Self::Migrate(MigrateError::Execute(error)) => of_sql(error),
            Self::Slow => true,
            Self::Url | Self::Folder { .. } | Self::Migrate(_) | Self::Cursor => false,
        }
    }
}

/// The records database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Records {
    dialect: Dialect,
    /// In which statistics' days begin.
    zone: Zone,
    /// One connection, the flusher's: no query of an operator can hold it up.
    writer: AnyPool,
    readers: AnyPool,
    /// Whether the tables are as this program wants them; locked by whoever sees to that.
    tables: Arc<Mutex<bool>>,
    /// Whether anybody is told how pushes ended.
    tells_results: bool,
}

impl Records {
    /// Opens the database, creating folder, file and tables where they are missing. A server that is away, or gives no answer, is
    /// reached for again by each call.
    ///
    /// # Errors
    /// Every variant of [`RecordsError`] but `Cursor`.
    pub async fn open(url: &Secret) -> Result<Self, RecordsError> {
        install_default_drivers();
        let (dialect, options) = Dialect::of(url)?;
        let writer = pool(dialect, options.clone(), Use::Write, 1);
        let readers = pool(dialect, options, Use::Read, READERS);
        let tables = Arc::default();
        let records = Self { dialect, zone: Zone::default(), writer, readers, tables, tells_results: false };
        match dialect {
            Dialect::Sqlite => records.up_to_date().await?,
            Dialect::MySql => {
                let tables = timeout(STARTS_WITHIN, records.up_to_date()).await.unwrap_or(Err(RecordsError::Slow));
                match tables {
                    Err(reason) if reason.is_transient() => {
                        warn!(%reason, "the records' database is away; the journal waits for it");
                    }
                    other => other?,
                }
            }
        }
        Ok(records)
    }

    /// Whether ends of pushes are kept until somebody is told of them ([`Records::untold`]).
    #[must_use]
    pub fn telling_results(self, tells_results: bool) -> Self {
        Self { tells_results, ..self }
    }

    /// With days of statistics that begin at midnight in `zone`; UTC where nothing is said.
    pub fn in_zone(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    /// The zone of the statistics' days.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Closes all connections, after the statements under way.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}
