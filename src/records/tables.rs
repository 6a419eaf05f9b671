//! The tables, brought up to date once, by the first call that reaches the database.
//!
//! What always holds: a change of the tables that began is never cut. Whoever waits for it may give up; it goes on, on a connection of
//! its own and without the time limits of others, because half of one would be a person's to mend.

use std::panic::resume_unwind;

use sqlx::migrate::{Migrate, Migrator};
use sqlx::{AnyConnection, Connection};

use super::connection::connect;
use super::dialect::Use;
use super::{Records, RecordsError};

/// Where sqlx keeps which changes were made.
const MADE: &str = "_sqlx_migrations";

impl Records {
    /// Brings the tables up to date, once.
    pub(super) async fn up_to_date(&self) -> Result<(), RecordsError> {
        let mut is_done = self.tables.clone().lock_owned().await;
        if *is_done {
            return Ok(());
        }
        let migrations = self.dialect.migrations();
        let mut connection = connect(self.dialect, &self.writer.connect_options(), Use::Shape).await?;
        if are_made(&mut connection, migrations).await {
            *is_done = true;
            drop(is_done);
            // Done is done, however long it takes to say goodbye.
            let _ = connection.close().await;
            return Ok(());
        }
        let change = async move {
            // As `run`, which the compiler can't tell to be of use in a task of its own.
            migrations.run_direct(None, &mut connection, false).await?;
            *is_done = true;
            drop(is_done);
            let _ = connection.close().await;
            Ok(())
        };
        match tokio::spawn(change).await {
            Ok(done) => done,
            Err(end) => end.try_into_panic().map_or(Err(RecordsError::Slow), |panic| resume_unwind(panic)),
        }
    }
}

/// Whether all changes were made, and no others: asked without the locks that making them takes, which a server may grant nobody now.
async fn are_made(connection: &mut AnyConnection, migrations: &Migrator) -> bool {
    let is_whole = matches!(connection.dirty_version(MADE).await, Ok(None));
    let made = connection.list_applied_migrations(MADE).await.unwrap_or_default();
    let made = made.iter().map(|made| (made.version, &made.checksum));
    is_whole && made.eq(migrations.iter().map(|change| (change.version, &change.checksum)))
}
