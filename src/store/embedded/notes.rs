//! Notes: a row each, and one for its lock, whose key ends in `:lock`.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::step::Step;
use crate::model::Secret;
use crate::store::{Note, NoteWrite, Noted, Result};

fn lock_of(note: &Note) -> String {
    format!("{}:lock", note.as_str())
}

fn row(step: &Step<'_>, key: &str) -> Result<Option<(String, i64)>> {
    let mut select = step.sql("SELECT value, expires_at FROM notes WHERE key = ?1 AND expires_at > ?2")?;
    Ok(select.query_row(params![key, step.now], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn value(step: &Step<'_>, key: &str) -> Result<Option<String>> {
    Ok(row(step, key)?.map(|(value, _)| value))
}

fn set(step: &Step<'_>, key: &str, value: &str, ttl: Duration) -> Result<()> {
    let mut replace = step.sql("INSERT OR REPLACE INTO notes (key, value, expires_at) VALUES (?1, ?2, ?3)")?;
    replace.execute(params![key, value, step.after(ttl)])?;
    Ok(())
}

fn delete(step: &Step<'_>, key: &str) -> Result<()> {
    step.sql("DELETE FROM notes WHERE key = ?1")?.execute([key])?;
    Ok(())
}

pub(super) fn read(step: &Step<'_>, note: &Note) -> Result<Option<Noted>> {
    let noted = |(value, expires_at): (String, i64)| Noted { value: Secret::new(value), left: step.until(expires_at) };
    Ok(row(step, note.as_str())?.map(noted))
}

pub(super) fn write(step: &Step<'_>, write: &NoteWrite) -> Result<bool> {
    if let Some(owner) = &write.owner {
        let lock = lock_of(&write.note);
        if value(step, &lock)?.as_ref() != Some(owner) {
            return Ok(false);
        }
        delete(step, &lock)?;
    }
    set(step, write.note.as_str(), write.value.expose(), write.ttl)?;
    Ok(true)
}

pub(super) fn forget(step: &Step<'_>, note: &Note, seen: Option<&Secret>) -> Result<bool> {
    let Some(value) = value(step, note.as_str())? else { return Ok(false) };
    if seen.is_some_and(|seen| seen.expose() != value) {
        return Ok(false);
    }
    delete(step, note.as_str())?;
    Ok(true)
}

pub(super) fn lock(step: &Step<'_>, note: &Note, owner: &str, ttl: Duration) -> Result<bool> {
    let lock = lock_of(note);
    if value(step, &lock)?.is_some() {
        return Ok(false);
    }
    set(step, &lock, owner, ttl)?;
    Ok(true)
}

pub(super) fn unlock(step: &Step<'_>, note: &Note, owner: &str) -> Result<()> {
    let lock = lock_of(note);
    if value(step, &lock)?.as_deref() == Some(owner) {
        delete(step, &lock)?;
    }
    Ok(())
}
