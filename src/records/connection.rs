//! Connections of the records, each lent for one piece of work.
//!
//! What always holds: nobody waits for a database for longer than [`ANSWERS_WITHIN`], and whoever gives up holds nobody else up. A
//! connection whose work did not end well is closed: its server may be silent, and the pool would ask it whether it is there for as
//! long as TCP waits, and lend nobody its place meanwhile.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::any::{AnyArguments, AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AnyPool, ConnectOptions, Executor};
use tokio::time::timeout;

use super::dialect::{Dialect, Use};
use super::{Records, RecordsError};

/// How long a call has: a whole batch of the flusher's, and a question. Loops that use the records wait for no more between two of their
/// ticks, which `telemetry/health.rs` counts on.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// How long a caller waits for a connection, and a connection that is given back for a sign of life.
const WAIT: Duration = Duration::from_secs(5);

/// What a call does, given up when its time is over.
pub(super) async fn in_time<T>(work: impl Future<Output = Result<T, RecordsError>>) -> Result<T, RecordsError> {
    timeout(ANSWERS_WITHIN, work).await.unwrap_or(Err(RecordsError::Slow))
}

/// So many connections at most; each is made when it is needed.
pub(super) fn pool(dialect: Dialect, options: AnyConnectOptions, purpose: Use, most: u32) -> AnyPool {
    let pool = AnyPoolOptions::new().max_connections(most).acquire_timeout(WAIT).max_lifetime(None);
    let pool = pool.idle_timeout(dialect.idle_for());
    let greet = pool.after_connect(move |connection, _| Box::pin(greet(connection, dialect, purpose)));
    greet.connect_lazy_with(options)
}

/// A connection outside the pools.
pub(super) async fn connect(
    dialect: Dialect,
    options: &AnyConnectOptions,
    purpose: Use,
) -> Result<AnyConnection, RecordsError> {
    let connect = async {
        let mut connection = options.connect().await?;
        greet(&mut connection, dialect, purpose).await?;
        Ok(connection)
    };
    timeout(WAIT, connect).await.unwrap_or(Err(RecordsError::Slow))
}

/// Says what is said first on each connection.
async fn greet(connection: &mut AnyConnection, dialect: Dialect, purpose: Use) -> Result<(), sqlx::Error> {
    for statement in dialect.greeting(purpose) {
        connection.execute(*statement).await?;
    }
    Ok(())
}

/// A pool's connection. Closed at its end, unless its work ended well.
struct Lent {
    connection: PoolConnection<Any>,
    ended_well: bool,
}

/// A transaction that writes. Nothing was done where it ends without [`Writing::commit`].
pub(super) struct Writing(Lent);

impl Records {
    /// What a question brings.
    pub(super) async fn ask(&self, question: Query<'_, Any, AnyArguments>) -> Result<Vec<AnyRow>, RecordsError> {
        in_time(async {
            let mut lent = self.lend(&self.readers).await?;
            let rows = question.fetch_all(&mut *lent).await?;
            lent.ended_well = true;
            Ok(rows)
        })
        .await
    }

    /// A transaction that writes; no other gateway writes until its end.
    pub(super) async fn writing(&self) -> Result<Writing, RecordsError> {
        let mut tx = self.transaction().await?;
        if let Some(lock) = self.dialect.lock() {
            sqlx::query(lock).execute(&mut *tx).await?;
        }
        Ok(tx)
    }

    /// A transaction that writes, beside other gateways'.
    pub(super) async fn transaction(&self) -> Result<Writing, RecordsError> {
        let mut lent = self.lend(&self.writer).await?;
        lent.execute(self.dialect.begin()).await?;
        Ok(Writing(lent))
    }

    async fn lend(&self, pool: &AnyPool) -> Result<Lent, RecordsError> {
        self.up_to_date().await?;
        Ok(Lent { connection: pool.acquire().await?, ended_well: false })
    }
}

impl Writing {
    /// Ends it; durable once this returns.
    ///
    /// # Errors
    /// [`RecordsError::Sql`]; whether it was done is not known then.
    pub(super) async fn commit(mut self) -> Result<(), RecordsError> {
        self.0.execute("COMMIT").await?;
        self.0.ended_well = true;
        Ok(())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.ended_well {
            // As the pool takes it back by itself, but not for as long as its server likes.
            tokio::spawn(timeout(WAIT, self.connection.return_to_pool()));
        } else {
            self.connection.close_on_drop();
        }
    }
}

impl Deref for Lent {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.connection
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.connection
    }
}

impl Deref for Writing {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.0
    }
}

impl DerefMut for Writing {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.0
    }
}
