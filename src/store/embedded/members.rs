//! Members: a row for the user id, one for what each source said of a contact field, one for what counts against a rate.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row, params};

use super::EmbeddedStore;
use super::step::Step;
use crate::member::{BoundUser, MemberKey, Profile};
use crate::model::{Lane, MessageKey, millis};
use crate::store::{Admitted, FieldChange, Knock, Line, Members, ProfileChange, Result, UserChange};

#[async_trait]
impl Members for EmbeddedStore {
    async fn read_profile(&self, member: &MemberKey) -> Result<Profile> {
        let member = member.clone();
        self.db.step(move |step| read(step, &member)).await
    }

    async fn change_profile(&self, change: ProfileChange) -> Result<bool> {
        self.db.step(move |step| self::change(step, &change)).await
    }

    async fn forget_profile(&self, member: &MemberKey, keep: Duration, change: Option<Line>) -> Result<bool> {
        let member = member.clone();
        self.db.step(move |step| step.journal(&change).and_then(|()| forget(step, &member, keep))).await
    }

    async fn admit(&self, knock: Knock) -> Result<Admitted> {
        self.db.step(move |step| self::admit(step, &knock)).await
    }
}

fn read(step: &Step<'_>, member: &MemberKey) -> Result<Profile> {
    let user = |row: &Row<'_>| {
        let (id, renew, until): (_, Option<i64>, _) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(BoundUser { id, left: step.until(until), renew: renew.map(|ms| Duration::from_millis(ms.unsigned_abs())) })
    };
    let mut select = step.sql("SELECT user_id, renew, expires_at FROM users WHERE key = ?1 AND expires_at > ?2")?;
    let user = select.query_row(params![member.as_str(), step.now], user).optional()?;
    let mut profile = Profile { user, forgotten: Some(forgotten(step, member)?), ..Profile::default() };
    let mut select = step.sql("SELECT field, value, source = 0 FROM contact_fields WHERE key = ?1 ORDER BY source")?;
    let mut rows = select.query([member.as_str()])?;
    while let Some(row) = rows.next()? {
        let field: String = row.get(0)?;
        match row.get(2)? {
            true => profile.told.insert(field.clone()),
            false => profile.told.remove(&field),
        };
        profile.contact.insert(field, row.get(1)?);
    }
    Ok(profile)
}

/// When the member was last forgotten; 0 where that is not known.
fn forgotten(step: &Step<'_>, member: &MemberKey) -> Result<i64> {
    let mut select = step.sql("SELECT at FROM forgotten_members WHERE key = ?1 AND expires_at > ?2")?;
    Ok(select.query_row(params![member.as_str(), step.now], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn change(step: &Step<'_>, change: &ProfileChange) -> Result<bool> {
    let key = change.member.as_str();
    if change.upon.is_some() && change.upon < Some(forgotten(step, &change.member)?) {
        return Ok(false);
    }
    for (field, what) in &change.contact {
        change_field(step, key, field, what)?;
    }
    match &change.user {
        None => {}
        Some(UserChange::Bind { id, ttl, renew }) => {
            let renew = renew.map(millis);
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
    step.journal(&change.change)?;
    Ok(true)
}

/// Who said what a field says; the highest shows.
#[derive(Clone, Copy)]
enum Source {
    Callback = 0,
    Set = 1,
    Member = 2,
}

fn change_field(step: &Step<'_>, key: &str, field: &str, change: &FieldChange) -> Result<()> {
    let put = |source: Source, value: &str| -> Result<()> {
        step.sql("INSERT OR REPLACE INTO contact_fields (key, field, source, value) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![key, field, source as i64, value])?;
        Ok(())
    };
    let drop_from = |source: Source| -> Result<()> {
        step.sql("DELETE FROM contact_fields WHERE key = ?1 AND field = ?2 AND source >= ?3")?.execute(params![
            key,
            field,
            source as i64
        ])?;
        Ok(())
    };
    match change {
        FieldChange::Set(value) => drop_from(Source::Member).and_then(|()| put(Source::Set, value)),
        FieldChange::Say(value) => put(Source::Member, value),
        FieldChange::Unsay => drop_from(Source::Member),
        FieldChange::Fill(value) => put(Source::Callback, value),
        FieldChange::Remove => drop_from(Source::Callback),
    }
}

fn forget(step: &Step<'_>, member: &MemberKey, keep: Duration) -> Result<bool> {
    let user = step
        .sql("DELETE FROM users WHERE key = ?1 AND expires_at > ?2")?
        .execute(params![member.as_str(), step.now])?;
    let contact = step.sql("DELETE FROM contact_fields WHERE key = ?1")?.execute([member.as_str()])?;
    // Later than the time before even where the clock went back: whoever read it meanwhile must see that it changed.
    let mut mark = step.sql(
        "INSERT INTO forgotten_members (key, at, expires_at) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE
         SET at = max(excluded.at, at + 1), expires_at = excluded.expires_at",
    )?;
    mark.execute(params![member.as_str(), step.now, step.after(keep)])?;
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

/// Mutes a chat, or lets it speak again.
pub(super) fn mute(step: &Step<'_>, chat: &Lane, muted: bool) -> Result<()> {
    let text =
        if muted { "INSERT OR IGNORE INTO mutes (lane) VALUES (?1)" } else { "DELETE FROM mutes WHERE lane = ?1" };
    Ok(step.sql(text)?.execute([chat.as_str()]).map(drop)?)
}

/// Whether a chat is muted.
pub(super) fn is_muted(step: &Step<'_>, chat: &Lane) -> Result<bool> {
    let mut exists = step.sql("SELECT EXISTS (SELECT 1 FROM mutes WHERE lane = ?1)")?;
    Ok(exists.query_row([chat.as_str()], |row| row.get(0))?)
}
