//! Members: a row for the user id, one for each contact field, one for what counts against a rate.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row, params};

use super::EmbeddedStore;
use super::step::{Step, millis};
use crate::member::{BoundUser, Contact, MemberKey, Profile};
use crate::model::{Lane, MessageKey};
use crate::store::{Admitted, FieldChange, Knock, Members, ProfileChange, Result, UserChange};

#[async_trait]
impl Members for EmbeddedStore {
    async fn read_profile(&self, member: &MemberKey) -> Result<Profile> {
        let member = member.clone();
        self.db.step(move |step| read(step, &member)).await
    }

    async fn change_profile(&self, change: ProfileChange) -> Result<()> {
        self.db.step(move |step| self::change(step, &change)).await
    }

    async fn forget_profile(&self, member: &MemberKey) -> Result<bool> {
        let member = member.clone();
        self.db.step(move |step| forget(step, &member)).await
    }

    async fn admit(&self, knock: Knock) -> Result<Admitted> {
        self.db.step(move |step| self::admit(step, &knock)).await
    }

    async fn mute(&self, chat: &Lane, muted: bool) -> Result<()> {
        let chat = chat.clone();
        let text =
            if muted { "INSERT OR IGNORE INTO mutes (lane) VALUES (?1)" } else { "DELETE FROM mutes WHERE lane = ?1" };
        self.db.step(move |step| Ok(step.sql(text)?.execute([chat.as_str()]).map(drop)?)).await
    }
}

fn read(step: &Step<'_>, member: &MemberKey) -> Result<Profile> {
    let user = |row: &Row<'_>| {
        let (id, renew, until): (_, Option<i64>, _) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(BoundUser { id, left: step.until(until), renew: renew.map(|ms| Duration::from_millis(ms.unsigned_abs())) })
    };
    let mut select = step.sql("SELECT user_id, renew, expires_at FROM users WHERE key = ?1 AND expires_at > ?2")?;
    let user = select.query_row(params![member.as_str(), step.now], user).optional()?;
    let mut select = step.sql("SELECT field, value FROM contacts WHERE key = ?1")?;
    let fields = select.query_map([member.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Profile { user, contact: fields.collect::<rusqlite::Result<Contact>>()? })
}

fn change(step: &Step<'_>, change: &ProfileChange) -> Result<()> {
    let key = change.member.as_str();
    for (field, change) in &change.contact {
        change_field(step, key, field, change)?;
    }
    match &change.user {
        None => {}
        Some(UserChange::Bind { id, ttl, renew }) => {
            let renew = renew.then(|| millis(*ttl));
            step.sql("INSERT OR REPLACE INTO users (key, user_id, renew, expires_at) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![key, id, renew, step.after(*ttl)])?;
        }
        Some(UserChange::Renew(ttl)) => {
            step.sql("UPDATE users SET expires_at = ?2 WHERE key = ?1 AND expires_at > ?3")?.execute(params![
                key,
                step.after(*ttl),
                step.now
            ])?;
        }
        Some(UserChange::Unbind) => drop(step.sql("DELETE FROM users WHERE key = ?1")?.execute([key])?),
    }
    Ok(())
}

fn change_field(step: &Step<'_>, key: &str, field: &str, change: &FieldChange) -> Result<()> {
    let put = |value: &str, filled: bool, only: &str| -> Result<()> {
        let mut upsert = step.sql(&format!(
            "INSERT INTO contacts (key, field, value, filled) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key, field) DO UPDATE
             SET value = excluded.value, filled = excluded.filled{only}"
        ))?;
        upsert.execute(params![key, field, value, filled])?;
        Ok(())
    };
    match change {
        FieldChange::Set(value) => put(value, false, ""),
        FieldChange::Fill(value) => put(value, true, " WHERE contacts.filled = 1"),
        FieldChange::Remove => {
            step.sql("DELETE FROM contacts WHERE key = ?1 AND field = ?2")?.execute([key, field])?;
            Ok(())
        }
    }
}

fn forget(step: &Step<'_>, member: &MemberKey) -> Result<bool> {
    let user = step
        .sql("DELETE FROM users WHERE key = ?1 AND expires_at > ?2")?
        .execute(params![member.as_str(), step.now])?;
    let contact = step.sql("DELETE FROM contacts WHERE key = ?1")?.execute([member.as_str()])?;
    Ok(user + contact > 0)
}

/// What counts against a rate.
struct Counted {
    /// Request ids and when they were counted.
    requests: Vec<(String, i64)>,
    told: String,
    told_until: i64,
}

fn admit(step: &Step<'_>, knock: &Knock) -> Result<Admitted> {
    let window = millis(knock.rate.window);
    let mut counted = counted(step, &knock.key)?;
    counted.requests.retain(|(_, at)| at.saturating_add(window) > step.now);
    if counted.requests.iter().any(|(request, _)| *request == knock.request_id) {
        return Ok(Admitted::Yes);
    }
    let admitted = if counted.requests.len() < usize::try_from(knock.rate.limit).unwrap_or(usize::MAX) {
        counted.requests.push((knock.request_id.clone(), step.now));
        Admitted::Yes
    } else if counted.told_until <= step.now {
        (counted.told, counted.told_until) = (knock.request_id.clone(), step.now.saturating_add(window));
        Admitted::TooFastFirst
    } else if counted.told == knock.request_id {
        Admitted::TooFastFirst
    } else {
        return Ok(Admitted::TooFast);
    };
    step.sql("INSERT OR REPLACE INTO rates (key, counted, told, told_until, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            knock.key.session(),
            super::to_json(&counted.requests)?,
            counted.told,
            counted.told_until,
            step.now.saturating_add(window)
        ])?;
    Ok(admitted)
}

fn counted(step: &Step<'_>, key: &MessageKey) -> Result<Counted> {
    let mut select = step.sql("SELECT counted, told, told_until FROM rates WHERE key = ?1 AND expires_at > ?2")?;
    let row = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?));
    match select.query_row(params![key.session(), step.now], row).optional()? {
        Some((requests, told, told_until)) => Ok(Counted { requests: super::from_json(&requests)?, told, told_until }),
        None => Ok(Counted { requests: Vec::new(), told: String::new(), told_until: 0 }),
    }
}

/// Whether a chat is muted.
pub(super) fn is_muted(step: &Step<'_>, chat: &Lane) -> Result<bool> {
    let mut exists = step.sql("SELECT EXISTS (SELECT 1 FROM mutes WHERE lane = ?1)")?;
    Ok(exists.query_row([chat.as_str()], |row| row.get(0))?)
}
