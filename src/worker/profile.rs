//! Profiles on a message's way: read before an action that speaks of the member, renewed by that use, and filled with the
//! names that callbacks carry.
//!
//! A name costs its message nothing: it is written while the message is handled, and only where this process has not just
//! written the same one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::{debug, warn};

use super::{Context, through_outages};
use crate::member::{BoundUser, MemberKey, NAME, Profile, field_value};
use crate::model::Message;
use crate::rules::Run;
use crate::store::{FieldChange, ProfileChange, StoreError, UserChange};

/// Names that one process remembers to have written.
const REMEMBERED: usize = 10_000;
/// A binding is renewed once it is older than this, or than a tenth of its time: not at every message.
const STALE: Duration = Duration::from_secs(3600);

/// The names that this process wrote last.
#[derive(Default)]
pub(super) struct Names(Mutex<HashMap<MemberKey, String>>);

impl Names {
    /// Whether it is not known to be written; taken for written from now on.
    fn is_news(&self, member: &MemberKey, name: &str) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.get(member).is_some_and(|known| known == name) {
            return false;
        }
        if names.len() >= REMEMBERED {
            names.clear();
        }
        names.insert(member.clone(), name.to_owned());
        true
    }

    /// Its name is news again.
    fn forget(&self, member: &MemberKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(member);
    }
}

/// Keeps the name that a callback carried. A failure is no message's trouble: the next message of the member tries again.
pub(super) async fn note_name(context: &Context, message: &Message) {
    let Some(name) = message.sender_name.as_deref().and_then(field_value) else { return };
    let member = message.member();
    if message.sender_key.is_empty() || !context.names.is_news(&member, &name) {
        return;
    }
    let contact = vec![(NAME.to_owned(), FieldChange::Fill(name))];
    let change = ProfileChange { member: member.clone(), user: None, contact, upon: None, change: None };
    if let Err(error) = context.store.members().change_profile(change).await {
        debug!(%error, request_id = %message.request_id, "a member's name was not kept");
        context.names.forget(&member);
    }
}

/// What is known of the member, where the run speaks of that.
pub(super) async fn of(context: &Context, message: &Message, run: &Run) -> Result<Profile, StoreError> {
    let is_used = run.action.speaks_of_user() || run.unless_bound.is_some();
    if !is_used && !run.action.calls_by_name() {
        return Ok(Profile::default());
    }
    let member = message.member();
    let mut profile =
        through_outages(context, "read_profile", || context.store.members().read_profile(&member)).await?;
    if let Some(name) = &message.sender_name {
        profile.hear_name(name);
    }
    if is_used {
        renew(context, message, &profile).await;
    }
    Ok(profile)
}

/// This was a use of the binding.
async fn renew(context: &Context, message: &Message, profile: &Profile) {
    let Some(ttl) = profile.user.as_ref().and_then(renewal) else { return };
    let user = Some(UserChange::Renew(ttl));
    let change = ProfileChange { member: message.member(), user, contact: Vec::new(), upon: None, change: None };
    if let Err(error) = context.store.members().change_profile(change).await {
        warn!(
            %error, request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
            sender_key = %message.sender_key, msg_id = %message.msg_id, "a binding could not be renewed; its next use tries again"
        );
    }
}

/// For how long a binding is to hold again, once it is worth a write.
fn renewal(user: &BoundUser) -> Option<Duration> {
    user.renew.filter(|ttl| user.left + STALE.min(*ttl / 10) < *ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_news_once_until_it_changes() {
        let names = Names::default();
        let (u, v) = (MemberKey::new("app", "u"), MemberKey::new("app", "v"));
        assert!(names.is_news(&u, "甲") && !names.is_news(&u, "甲") && names.is_news(&v, "甲"));
        assert!(names.is_news(&u, "乙") && names.is_news(&u, "甲"));
        names.forget(&u);
        assert!(names.is_news(&u, "甲"));
        for n in 0..REMEMBERED {
            assert!(names.is_news(&MemberKey::new("app", &n.to_string()), "x"));
        }
        assert!(names.0.lock().unwrap().len() <= REMEMBERED);
    }
    #[test]
    fn a_binding_is_renewed_once_it_is_stale() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let week = minutes(7 * 24 * 60);
        for (left, renew, want) in [
            (week, Some(week), None),
            (week - minutes(59), Some(week), None),
            (week - minutes(61), Some(week), Some(week)),
            (minutes(1), Some(week), Some(week)),
            (minutes(1), None, None),
            (minutes(56), Some(minutes(60)), None),
            (minutes(53), Some(minutes(60)), Some(minutes(60))),
            (week, Some(minutes(1)), None),
        ] {
            assert_eq!(renewal(&BoundUser { id: "u".into(), left, renew }), want, "{left:?} {renew:?}");
        }
    }
}
