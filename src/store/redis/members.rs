//! Members: a key for the user id and one for the contact fields, on slots of their own; rates and mutes stand in the slot
//! of their chat's lanes.

use std::collections::BTreeMap;

use super::*;
use crate::member::{BoundUser, MemberKey, Profile};

/// Field of the contact hash that holds the binding's `renew` in ms. No contact field begins so.
const RENEW: &str = "~renew";

impl RedisStore {
    /// Runs a script on one key by its full name.
    async fn on_key(&self, verb: &'static Verb, key: String, args: &[String]) -> Result<Value> {
        self.link.run(verb, &key, args).await
    }

    async fn change_contact(&self, member: &MemberKey, args: Vec<String>) -> Result<()> {
        if args.is_empty() {
            return Ok(());
        }
        self.on_key(&scripts::WRITE_CONTACT, keys::contact(member), &args).await.map(drop)
    }

    async fn change_user(&self, member: &MemberKey, change: &UserChange) -> Result<()> {
        let args = match change {
            UserChange::Bind { id, ttl, .. } => vec!["bind".to_owned(), encode::ttl(*ttl), id.clone()],
            UserChange::Renew(ttl) => vec!["renew".to_owned(), encode::ttl(*ttl)],
            UserChange::Unbind => vec!["unbind".to_owned()],
        };
        self.on_key(&scripts::WRITE_USER, keys::user(member), &args).await.map(drop)
    }
}

#[async_trait]
impl Members for RedisStore {
    async fn read_profile(&self, member: &MemberKey) -> Result<Profile> {
        // Both travel at once.
        let (user, contact) = tokio::try_join!(
            self.on_key(&scripts::READ_USER, keys::user(member), &[]),
            self.on_key(&scripts::READ_CONTACT, keys::contact(member), &[]),
        )?;
        let mut contact: BTreeMap<String, String> = decode::plain(contact)?;
        let renew = contact.remove(RENEW).and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        contact.retain(|field, _| !field.starts_with('~'));
        let user = decode::plain::<Option<(String, u64)>>(user)?;
        Ok(Profile { user: user.map(|(id, left)| BoundUser { id, left: Duration::from_millis(left), renew }), contact })
    }

    async fn change_profile(&self, change: ProfileChange) -> Result<()> {
        let mut fields = Vec::new();
        for (field, change) in change.contact {
            let (word, value) = match change {
                FieldChange::Set(value) => ("set", value),
                FieldChange::Fill(value) => ("fill", value),
                FieldChange::Remove => ("remove", String::new()),
            };
            fields.extend([word.to_owned(), field, value]);
        }
        let renew = |word: &str, value: String| [word.to_owned(), RENEW.to_owned(), value];
        match &change.user {
            Some(UserChange::Bind { ttl, renew: true, .. }) => fields.extend(renew("set", encode::ms(*ttl))),
            Some(UserChange::Bind { .. } | UserChange::Unbind) => fields.extend(renew("remove", String::new())),
            Some(UserChange::Renew(_)) | None => {}
        }
        self.change_contact(&change.member, fields).await?;
        match &change.user {
            Some(user) => self.change_user(&change.member, user).await,
            None => Ok(()),
        }
    }

    async fn forget_profile(&self, member: &MemberKey) -> Result<bool> {
        let unbind = ["unbind".to_owned()];
        let (user, contact) = tokio::try_join!(
            self.on_key(&scripts::WRITE_USER, keys::user(member), &unbind),
            self.on_key(&scripts::WRITE_CONTACT, keys::contact(member), &[]),
        )?;
        Ok(decode::plain::<bool>(user)? | decode::plain::<bool>(contact)?)
    }

    async fn admit(&self, knock: Knock) -> Result<Admitted> {
        let lane = encode::chat_lane(&knock.key);
        decode::admitted(self.single(&scripts::ADMIT, &lane, encode::knock(&knock)).await?)
    }

    async fn mute(&self, chat: &Lane, muted: bool) -> Result<()> {
        let word = if muted { "1" } else { "" };
        decode::renewed(self.single(&scripts::MUTE, chat, vec![chat.as_str().to_owned(), word.to_owned()]).await?)
            .map(drop)
    }
}
