//! Members: a key for the user id and one for the contact fields, on slots of their own; rates stand in the slot of their chat's
//! lanes. An operator's change is noted before it is made, since no script reaches a member's slots and a journal's.

use std::collections::BTreeMap;

use super::*;
use crate::member::{BoundUser, MemberKey, Profile};

/// Field of the contact hash that holds the binding's `renew` in ms. No contact field begins so.
const RENEW: &str = "~renew";
/// … that says when the member was last forgotten.
const FORGOTTEN: &str = "!forgotten";

impl RedisStore {
    /// Runs a script on one key by its full name.
    async fn on_key(&self, verb: &'static Verb, key: String, args: &[String]) -> Result<Value> {
        self.link.run(verb, &key, args).await
    }

    /// Answers whether the member was not forgotten since.
    async fn change_contact(&self, member: &MemberKey, upon: &str, fields: Vec<String>) -> Result<bool> {
        let args = [vec![upon.to_owned()], fields].concat();
        decode::plain(self.on_key(&scripts::WRITE_CONTACT, keys::contact(member), &args).await?)
    }

    async fn change_user(&self, member: &MemberKey, upon: &str, change: &UserChange) -> Result<bool> {
        let args = match change {
            UserChange::Bind { id, ttl, .. } => {
                vec!["bind".to_owned(), encode::ttl(*ttl), id.clone(), upon.to_owned()]
            }
            UserChange::Renew(ttl) => vec!["renew".to_owned(), encode::ttl(*ttl)],
            UserChange::Unbind => vec!["unbind".to_owned()],
        };
        let done = decode::plain(self.on_key(&scripts::WRITE_USER, keys::user(member), &args).await?)?;
        // Nothing to renew or to end is no refusal.
        Ok(done || !matches!(change, UserChange::Bind { .. }))
    }
}

/// A contact's hash: who said what of which field.
fn contact(mut fields: BTreeMap<String, String>) -> (Profile, Option<Duration>) {
    let renew = fields.remove(RENEW).and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    let forgotten = fields.remove(FORGOTTEN).and_then(|ms| ms.parse().ok());
    let mut profile = Profile { forgotten: Some(forgotten.unwrap_or(0)), ..Profile::default() };
    let (mut set, mut said) = (Vec::new(), Vec::new());
    for (field, value) in fields {
        if let Some(field) = field.strip_prefix('~') {
            profile.told.insert(field.to_owned());
            profile.contact.insert(field.to_owned(), value);
        } else if let Some(field) = field.strip_prefix('?') {
            said.push((field.to_owned(), value));
        } else {
            set.push((field, value));
        }
    }
    for (field, value) in set.into_iter().chain(said) {
        profile.told.remove(&field);
        profile.contact.insert(field, value);
    }
    (profile, renew)
}

#[async_trait]
impl Members for RedisStore {
    async fn read_profile(&self, member: &MemberKey) -> Result<Profile> {
        // Both travel at once.
        let (user, fields) = tokio::try_join!(
            self.on_key(&scripts::READ_USER, keys::user(member), &[]),
            self.on_key(&scripts::READ_CONTACT, keys::contact(member), &[]),
        )?;
        let (profile, renew) = contact(decode::plain(fields)?);
        let (id, left, forgotten) = decode::plain::<(Option<String>, u64, Option<i64>)>(user)?;
        let user = id.map(|id| BoundUser { id, left: Duration::from_millis(left), renew });
        Ok(Profile { user, forgotten: profile.forgotten.max(forgotten), ..profile })
    }

    async fn change_profile(&self, change: ProfileChange) -> Result<bool> {
        if let Some(line) = change.change {
            self.note_change(line).await?;
        }
        let mut fields = Vec::new();
        for (field, change) in change.contact {
            let (word, value) = match change {
                FieldChange::Set(value) => ("set", value),
                FieldChange::Say(value) => ("say", value),
                FieldChange::Unsay => ("unsay", String::new()),
                FieldChange::Fill(value) => ("fill", value),
                FieldChange::Remove => ("remove", String::new()),
            };
            fields.extend([word.to_owned(), field, value]);
        }
        let renew = |word: &str, value: String| [word.to_owned(), RENEW.to_owned(), value];
        match &change.user {
            Some(UserChange::Bind { renew: Some(ttl), .. }) => fields.extend(renew("set", encode::ms(*ttl))),
            Some(UserChange::Bind { .. } | UserChange::Unbind) => fields.extend(renew("remove", String::new())),
            Some(UserChange::Renew(_)) | None => {}
        }
        let upon = change.upon.map(|upon| upon.to_string()).unwrap_or_default();
        if !fields.is_empty() && !self.change_contact(&change.member, &upon, fields).await? {
            return Ok(false);
        }
        match &change.user {
            Some(user) => self.change_user(&change.member, &upon, user).await,
            None => Ok(true),
        }
    }

    async fn forget_profile(&self, member: &MemberKey, keep: Duration, change: Option<Line>) -> Result<bool> {
        if let Some(change) = change {
            self.note_change(change).await?;
        }
        let forget = ["forget".to_owned(), encode::ttl(keep)];
        let (user, contact) = tokio::try_join!(
            self.on_key(&scripts::WRITE_USER, keys::user(member), &forget),
            self.on_key(&scripts::FORGET_CONTACT, keys::contact(member), &forget[1..]),
        )?;
        Ok(decode::plain::<bool>(user)? | decode::plain::<bool>(contact)?)
    }

    async fn admit(&self, knock: Knock) -> Result<Admitted> {
        let lane = knock.key.chat_lane();
        decode::admitted(self.single(&scripts::ADMIT, &lane, encode::knock(&knock)).await?)
    }
}
