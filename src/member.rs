//! Who a member is beyond one chat: contact fields and the business system's user id; and how much of it others may see.
//!
//! A profile belongs to one sender_key within one app: external ids differ from corp to corp, so nothing is joined across
//! apps. A phone number is shown in full to the team's own services and to operators of scope `admin`, to nobody else.

use std::collections::BTreeMap;
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
/// A phone number; never shown in full to others.
pub const PHONE: &str = "phone";
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
}

/// Whether a text can be a business user id.
pub fn is_user_id(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_USER_ID && !text.contains(char::is_control)
}

/// A contact field's value, cut to [`MAX_FIELD`]; `None` where nothing is left of it.
pub fn field_value(text: &str) -> Option<String> {
    let value: String = text.trim().chars().filter(|c| !c.is_control()).take(MAX_FIELD).collect();
    (!value.is_empty()).then_some(value)
}

/// The contact with every phone number masked.
pub fn masked(contact: &Contact) -> Contact {
    let shown = |(field, value): (&String, &String)| {
        let value = if field == PHONE { mask_phone(value) } else { mask_phones_in(value) };
        (field.clone(), value)
    };
    contact.iter().map(shown).collect()
}

/// `138****8000`; of a short number nothing is left.
pub fn mask_phone(phone: &str) -> String {
    let chars: Vec<char> = phone.chars().collect();
    if chars.len() < 8 {
        return "*".repeat(chars.len());
    }
    let (front, back) = (&chars[..3], &chars[chars.len() - 4..]);
    let hidden = "*".repeat(chars.len() - 7);
    front.iter().copied().chain(hidden.chars()).chain(back.iter().copied()).collect()
}

/// A text with each Chinese mobile number in it masked: eleven digits, `1` and 3 to 9 in front, no digit beside them but a
/// `86`.
pub fn mask_phones_in(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |len| at + len);
        out.push_str(&rest[..at]);
        out.push_str(&mask_digits(&rest[at..end]));
        rest = &rest[end..];
    }
    out + rest
}

fn mask_digits(digits: &str) -> String {
    let country = if digits.len() == 13 && digits.starts_with("86") { 2 } else { 0 };
    let number = &digits[country..];
    let mobile = number.len() == 11 && number.starts_with('1') && matches!(number.as_bytes()[1], b'3'..=b'9');
    if mobile { format!("{}{}", &digits[..country], mask_phone(number)) } else { digits.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phones_are_masked_and_other_digits_are_not() {
        for (text, want) in [
            ("13800138000", "138****8000"),
            ("我的手机号是13800138000，订单1001", "我的手机号是138****8000，订单1001"),
            ("+8613800138000 8613800138000", "+86138****8000 86138****8000"),
            ("13800138000/13900139000", "138****8000/139****9000"),
            ("12800138000", "12800138000"),
            ("138001380001", "138001380001"),
            ("1380013800", "1380013800"),
            ("", ""),
            ("没有", "没有"),
        ] {
            assert_eq!(mask_phones_in(text), want, "{text}");
        }
        for (phone, want) in [("13800138000", "138****8000"), ("+1 555 0100", "+1 ****0100"), ("0101234", "*******")] {
            assert_eq!(mask_phone(phone), want);
        }
    }

    #[test]
    fn a_masked_contact_keeps_everything_else() {
        let contact = [("name", "王五"), ("phone", "13800138000"), ("mobile", "13900139000"), ("no", "1001")];
        let contact: Contact = contact.map(|(field, value)| (field.to_owned(), value.to_owned())).into();
        let shown: Vec<String> = masked(&contact).into_values().collect();
        assert_eq!(shown, ["139****9000", "王五", "1001", "138****8000"]);
    }

    #[test]
    fn fields_are_short_and_of_one_line() {
        assert_eq!(field_value(" 王\n五 ").as_deref(), Some("王五"));
        assert_eq!(field_value(" \u{7}").as_deref(), None);
        assert_eq!(field_value(&"x".repeat(300)).map(|v| v.len()), Some(MAX_FIELD));
        assert!(is_user_id("u-7") && !is_user_id(" ") && !is_user_id(&"x".repeat(300)) && !is_user_id("a\nb"));
    }
}
