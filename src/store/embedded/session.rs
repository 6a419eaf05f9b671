//! Sessions: read with a claim, written in a commit, forgotten on demand.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::step::Step;
use crate::model::SessionKey;
use crate::store::{Exchange, Line, Remembered, Result, Stage};

/// A session as its row has it.
#[derive(Default)]
pub(super) struct Kept {
    body: Option<String>,
    forgotten: i64,
}

impl Kept {
    /// Reads the JSON, outside of the writer.
    pub fn read(self) -> Result<Remembered> {
        let session = self.body.as_deref().map(super::from_json).transpose()?;
        let found = session.is_some();
        Ok(Remembered { session: session.unwrap_or_default(), found, forgotten: self.forgotten })
    }
}

/// The session of this name; one whose time is over is none.
pub(super) fn read(step: &Step<'_>, key: &str) -> Result<Kept> {
    let mut select =
        step.sql("SELECT iif(ends <= ?2, NULL, body), forgotten FROM sessions WHERE key = ?1 AND expires_at > ?2")?;
    let kept = |row: &rusqlite::Row| Ok(Kept { body: row.get(0)?, forgotten: row.get(1)? });
    Ok(select.query_row(params![key, step.now], kept).optional()?.unwrap_or_default())
}

/// Writes an exchange, unless the session was forgotten since it was read.
pub(super) fn write(step: &Step<'_>, exchange: &Exchange, body: &str) -> Result<()> {
    let Exchange { key, keep, forgotten, line, .. } = exchange;
    if read(step, key.as_str())?.forgotten > *forgotten {
        return Ok(());
    }
    // No REPLACE: that would move the row and write its index too. That a session was forgotten stays known for as long as
    // was said then; what was said since ends in its own time.
    let mut replace = step.sql(
        "INSERT INTO sessions (key, body, expires_at, forgotten, ends) VALUES (?1, ?2, ?3, ?4, iif(?4 > 0, ?3, NULL))
         ON CONFLICT (key) DO UPDATE
         SET body = excluded.body, ends = iif(forgotten > 0, excluded.expires_at, NULL),
             expires_at = CASE forgotten WHEN 0 THEN excluded.expires_at ELSE max(expires_at, excluded.expires_at) END",
    )?;
    replace.execute(params![key.as_str(), body, step.after(*keep), forgotten])?;
    step.journal(line)
}

/// Leaves nothing of it but when that was, a line that says so to the archive, and the `change`'s own, where there is one.
pub(super) fn forget(step: &Step<'_>, key: &SessionKey, keep: Duration, change: Option<&Line>) -> Result<()> {
    // Later than the time before even where the clock went back: whoever read it meanwhile must see that it changed.
    let mut replace = step.sql(
        "INSERT INTO sessions (key, body, expires_at, forgotten, ends) VALUES (?1, '{}', ?2, ?3, 0) ON CONFLICT (key) DO UPDATE
         SET body = excluded.body, expires_at = excluded.expires_at, ends = 0, forgotten = max(excluded.forgotten, forgotten + 1)",
    )?;
    replace.execute(params![key.as_str(), step.after(keep), step.now])?;
    step.note(Stage::Forgotten, "", key.line_key("").as_str(), "{}")?;
    step.journal(change)
}
