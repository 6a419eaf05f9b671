//! What every verb works with: one open transaction, its time, and the rows that several verbs share.

use std::cell::Cell;
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, ToSql, params};

use crate::model::millis;
use crate::store::{Line, Result, Side, Stage};

/// One atomic step: a transaction that the writer opened and will commit or roll back.
pub(in crate::store) struct Step<'c> {
    conn: &'c Connection,
    /// The store's time of the step, Unix ms.
    pub now: i64,
    inbound: Cell<bool>,
    outbound: Cell<bool>,
    /// Messages and deliveries that wait in the whole store.
    waiting: Cell<u64>,
}

/// Who owns a message.
pub(in crate::store) struct Mark {
    pub request_id: String,
    pub done: bool,
}

impl<'c> Step<'c> {
    /// `waiting` messages and deliveries stand in the store as it begins.
    pub fn new(conn: &'c Connection, now: i64, waiting: u64) -> Self {
        Self { conn, now, inbound: Cell::new(false), outbound: Cell::new(false), waiting: Cell::new(waiting) }
    }

    /// How many messages and deliveries wait by now.
    pub fn waiting(&self) -> u64 {
        self.waiting.get()
    }

    /// So many more wait.
    pub fn came(&self, more: u64) {
        self.waiting.set(self.waiting.get().saturating_add(more));
    }

    /// One of them went.
    pub fn went(&self) {
        self.waiting.set(self.waiting.get().saturating_sub(1));
    }

    /// A statement, compiled once per connection.
    pub fn sql(&self, text: &str) -> Result<CachedStatement<'_>> {
        Ok(self.conn.prepare_cached(text)?)
    }

    /// The id of the row that was just inserted.
    pub fn last_id(&self) -> i64 {
        self.conn.last_insert_rowid()
    }

    /// Signals new work on `side` once the step is committed.
    pub fn wake(&self, side: Side) {
        match side {
            Side::In => self.inbound.set(true),
            Side::Out => self.outbound.set(true),
        }
    }

    /// Which sides to signal.
    pub fn woken(&self) -> impl Iterator<Item = Side> {
        let inbound = self.inbound.get().then_some(Side::In);
        inbound.into_iter().chain(self.outbound.get().then_some(Side::Out))
    }

    /// When something that lasts `span` from now ends.
    pub fn after(&self, span: Duration) -> i64 {
        self.now.saturating_add(millis(span))
    }

    /// How long it is until `due`.
    pub fn until(&self, due: i64) -> Duration {
        Duration::from_millis(u64::try_from(due.saturating_sub(self.now)).unwrap_or(0))
    }

    /// Writes journal lines.
    pub fn journal<'l>(&self, lines: impl IntoIterator<Item = &'l Line>) -> Result<()> {
        for line in lines {
            self.append(format!("{}\t{line}", self.now))?;
        }
        Ok(())
    }

    /// Writes a line of the store's own; `detail` is a JSON object.
    pub fn note(&self, stage: Stage, request_id: &str, key: &str, detail: &str) -> Result<()> {
        self.append(format!("{}\t{}\t{request_id}\t{key}\t{detail}", self.now, stage.as_str()))
    }

    /// Puts a line at the journal's end as it is, under the number behind the last one, be that trimmed or not.
    pub fn append(&self, line: impl ToSql) -> Result<()> {
        let mut insert = self.sql(
            "INSERT INTO journal (seq, line) VALUES
             (1 + coalesce((SELECT max(seq) FROM journal), (SELECT value FROM meta WHERE name = 'trimmed'), 0), ?1)",
        )?;
        insert.execute([line])?;
        Ok(())
    }

    /// The mark of a message, where it has one.
    pub fn mark(&self, key: &str) -> Result<Option<Mark>> {
        let mut select = self.sql("SELECT request_id, done FROM marks WHERE key = ?1 AND expires_at > ?2")?;
        let mark = |row: &rusqlite::Row| Ok(Mark { request_id: row.get(0)?, done: row.get(1)? });
        Ok(select.query_row(params![key, self.now], mark).optional()?)
    }

    /// Sets the mark of a message for `ttl` ms from now.
    pub fn set_mark(&self, key: &str, request_id: &str, done: bool, ttl: i64) -> Result<()> {
        let mut replace = self.sql(
            "INSERT INTO marks (key, request_id, done, expires_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO UPDATE
             SET request_id = excluded.request_id, done = excluded.done, expires_at = excluded.expires_at",
        )?;
        replace.execute(params![key, request_id, done, self.now.saturating_add(ttl)])?;
        Ok(())
    }
}

/// A lease id: random, new at each claim.
pub(super) fn new_lease_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
