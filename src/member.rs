//! Who a member is beyond one chat: contact fields and the business system's user id.
//!
//! A profile belongs to one sender_key within one app: external ids differ from corp to corp, so nothing is joined across
//! apps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::encode;

/// `app:sender`, each part percent-encoded: the one name of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberKey(String);

impl MemberKey {
    /// Encodes the sender_key within its app.
    pub fn new(app: &str, sender: &str) -> Self {
        Self(format!("{}:{}", encode(app), encode(sender)))
    }
    /// The encoded text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is known of a person, by field: [`NAME`], [`REMARK`], [`PHONE`], `email`, and whatever binding sentences capture.
pub type Contact = BTreeMap<String, String>;

/// What people call a member.
pub const NAME: &str = "name";
/// How colleagues call a member.
pub const REMARK: &str = "remark";
/// A phone number; never shown in full to others ([`crate::mask`]).
pub const PHONE: &str = "phone";
/// Most bytes of a contact field's name.
pub const MAX_FIELD_NAME: usize = 32;
/// Most characters of one contact field.
pub const MAX_FIELD: usize = 256;
/// Most bytes of a business user id.
pub const MAX_USER_ID: usize = 256;

/// What is known of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Who they are in the business system.
    pub user: Option<BoundUser>,
    /// Contact fields.
    pub contact: Contact,
    /// Those of them that nobody set: callbacks told them, or WeCom.
    pub told: BTreeSet<String>,
    /// When the member was last forgotten on demand, by the store's clock in Unix ms, 0 where that is not known; `None` where
    /// the store was not asked.
    pub forgotten: Option<i64>,
}

/// A binding: who a member is in the business system, and for how long that is taken for granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundUser {
    /// The business system's id.
    pub id: String,
    /// How long it still holds.
    pub left: Duration,
    /// Each use makes it hold for so long again.
    pub renew: Option<Duration>,
}

impl Profile {
    /// The business system's id.
    pub fn user_id(&self) -> Option<&str> {
        self.user.as_ref().map(|user| user.id.as_str())
    }

    /// Takes the name that a message itself carries: younger than what earlier ones told, and below what anybody set.
    pub fn hear_name(&mut self, name: &str) {
        let is_set = self.contact.contains_key(NAME) && !self.told.contains(NAME);
        if let Some(name) = field_value(name).filter(|_| !is_set) {
            self.contact.insert(NAME.to_owned(), name);
            self.told.insert(NAME.to_owned());
        }
    }
}

/// Whether a text can be a business user id.
pub fn is_user_id(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_USER_ID && !text.contains(char::is_control)
}

/// Whether a contact field may be called so: letters a to z, digits and `_`.
pub fn is_field_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (1..=MAX_FIELD_NAME).contains(&name.len()) && name.chars().all(word)
}

/// A contact field's value, cut to [`MAX_FIELD`]; `None` where nothing is left of it.
pub fn field_value(text: &str) -> Option<String> {
    let value: String = text.trim().chars().filter(|c| !c.is_control()).take(MAX_FIELD).collect();
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_short_and_of_one_line() {
        assert_eq!(field_value(" 王\n五 ").as_deref(), Some("王五"));
        assert_eq!(field_value(" \u{7}").as_deref(), None);
        assert_eq!(field_value(&"x".repeat(300)).map(|v| v.len()), Some(MAX_FIELD));
        assert!(is_user_id("u-7") && !is_user_id(" ") && !is_user_id(&"x".repeat(300)) && !is_user_id("a\nb"));
    }
}
