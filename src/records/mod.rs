//! Records: what outlives the queue, in SQL: the trail of every message, the state of every delivery, statistics of each day, what operators
//! changed.
//!
//! They are filled from the journal by the [`Flusher`] and never stand in the way of a message: with SQL away the
//! journal waits. What always holds: a journal line is trimmed only after the transaction that wrote it is on disk; a
//! line written twice is one row; a message's outcome and its deliveries follow from the *set* of its lines
//! ([`trail`]), so neither a repeat nor another order changes them.
//!
//! SQLite by default, MySQL and MariaDB for several gateways; what differs stands in `dialect.rs`. A server may be away
//! when a gateway starts: its tables are brought up to date by the first call that reaches it.

mod archive;
mod care;
mod changes;
mod dialect;
mod flusher;
mod page;
mod query;
mod results;
mod stats;
mod thinning;
pub mod trail;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions, install_default_drivers};
use sqlx::migrate::MigrateError;
use sqlx::{Any, AnyPool, Executor, Transaction};
use tokio::sync::OnceCell;
use tracing::warn;

use crate::model::Secret;
use crate::zone::Zone;
pub use archive::exchange;
pub use care::{Care, Held, Unknowns};
pub use changes::{ChangeItem, Changes};
use dialect::{Dialect, Use};
pub use flusher::Flusher;
pub use page::{Cursor, Page};
pub use query::{AwaitedPush, DeliveryItem, EndedDelivery, MessageItem, rfc3339};
pub use results::PushResult;
pub use stats::{ChatStats, Copies, CopyBatch, Figures, Hit, Latencies, Replies, RuleStats, Scope, Stats};

/// How long a statement waits for another's lock, and a caller for a connection.
const WAIT: Duration = Duration::from_secs(5);
/// Connections for queries.
const READERS: u32 = 4;

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
    /// Set once the tables are as this program wants them.
    tables: Arc<OnceCell<()>>,
    /// Whether anybody is told how pushes ended.
    tells_results: bool,
}

impl Records {
    /// Opens the database, creating folder, file and tables where they are missing. A server that is away is reached for
    /// again by each call.
    ///
    /// # Errors
    /// Every variant of [`RecordsError`] but `Cursor`.
    pub async fn open(url: &Secret) -> Result<Self, RecordsError> {
        install_default_drivers();
        let (dialect, options) = Dialect::of(url)?;
        let writer = pool(dialect, options.clone(), Use::Write);
        let readers = pool(dialect, options, Use::Read);
        let tables = Arc::default();
        let records = Self { dialect, zone: Zone::default(), writer, readers, tables, tells_results: false };
        match records.up_to_date().await {
            Err(reason) if dialect == Dialect::MySql && reason.is_transient() => {
                warn!(%reason, "the records' database is away; the journal waits for it");
            }
            other => other?,
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

    /// Brings the tables up to date, once.
    async fn up_to_date(&self) -> Result<(), RecordsError> {
        let migrate = async || self.dialect.migrations().run(&self.writer).await;
        self.tables.get_or_try_init(migrate).await?;
        Ok(())
    }

    /// Connections for questions.
    async fn reading(&self) -> Result<&AnyPool, RecordsError> {
        self.up_to_date().await?;
        Ok(&self.readers)
    }

    /// A transaction that writes; no other gateway writes until its end.
    async fn writing(&self) -> Result<Transaction<'static, Any>, RecordsError> {
        self.up_to_date().await?;
        let mut tx = self.writer.begin_with(self.dialect.begin()).await?;
        if let Some(lock) = self.dialect.lock() {
            sqlx::query(lock).execute(&mut *tx).await?;
        }
        Ok(tx)
    }

    /// Closes all connections, after the statements under way.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// Connects when it is first asked.
fn pool(dialect: Dialect, options: AnyConnectOptions, purpose: Use) -> AnyPool {
    let most = match purpose {
        Use::Write => 1,
        Use::Read => READERS,
    };
    let pool = AnyPoolOptions::new().max_connections(most).acquire_timeout(WAIT).idle_timeout(None).max_lifetime(None);
    let greet = pool.after_connect(move |connection, _| {
        Box::pin(async move {
            for statement in dialect.greeting(purpose) {
                connection.execute(*statement).await?;
            }
            Ok(())
        })
    });
    greet.connect_lazy_with(options)
}
