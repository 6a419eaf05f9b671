//! Notes: a key each, with its lock in the same slot, so that a script may look at both.

use std::time::Duration;

use super::connection::Link;
use super::{decode, encode, keys, scripts};
use crate::model::Secret;
use crate::store::{Note, NoteWrite, Noted, Result};

pub(super) async fn read(link: &Link, note: &Note) -> Result<Option<Noted>> {
    let answer = decode::plain::<Option<(String, u64)>>(link.run(&scripts::READ_NOTE, &keys::note(note), &[]).await?)?;
    Ok(answer.map(|(value, left)| Noted { value: Secret::new(value), left: Duration::from_millis(left) }))
}

pub(super) async fn write(link: &Link, write: &NoteWrite) -> Result<bool> {
    let args = [write.value.expose().to_owned(), encode::ttl(write.ttl), write.owner.clone().unwrap_or_default()];
    decode::plain(link.run(&scripts::WRITE_NOTE, &keys::note(&write.note), &args).await?)
}

pub(super) async fn forget(link: &Link, note: &Note, seen: Option<&Secret>) -> Result<bool> {
    let args = match seen {
        Some(seen) => vec!["1".to_owned(), seen.expose().to_owned()],
        None => vec!["0".to_owned()],
    };
    decode::plain(link.run(&scripts::DROP_NOTE, &keys::note(note), &args).await?)
}

pub(super) async fn lock(link: &Link, note: &Note, owner: &str, ttl: Duration) -> Result<bool> {
    let args = [owner.to_owned(), encode::ttl(ttl)];
    decode::plain(link.run(&scripts::LOCK_NOTE, &keys::note(note), &args).await?)
}

pub(super) async fn unlock(link: &Link, note: &Note, owner: &str) -> Result<()> {
    link.run(&scripts::UNLOCK_NOTE, &keys::note(note), &[owner.to_owned()]).await.map(drop)
}
