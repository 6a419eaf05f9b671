//! Phone numbers, masked: `138****8000`. Pure, and the one place that says what a phone number is.
//!
//! Whole they go to the team's own services and to operators of scope `admin`, to nobody else: what others read passes
//! through here, be it an API answer, a log line, an alarm's text or a reply into a group. What is masked is a Chinese mobile
//! number: eleven digits of any width, `1` and 3 to 9 in front, also as 3, 4 and 4 digits with blanks, dashes, dots or brackets
//! between, also behind `0` or `+86`; a contact's `phone`, whatever it is; and what a sentence captured as that ([`captured`]). A longer run
//! of digits is another number, and ids in hex stay whole.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::member::{Contact, PHONE};

/// A mobile number, maybe behind its country or a zero, and what stands between its groups. What stands around it is looked at by
/// [`is_apart`], whether the two places agree by [`numbers`].
static MOBILE: LazyLock<Regex> = LazyLock::new(|| {
    // Blanks of any width, a few; one dash or dot between.
    let blanks = r"[\p{Zs}\t\x{200B}-\x{200D}\x{2060}\x{FEFF}]{0,2}";
    let between = format!(r"({blanks}[-.·－．‐‑‒–—−]?{blanks})");
    let country = format!(r"(?:(?:[+＋]|[0０]{{2}})?[8８][6６]{between})?[0０]?");
    #[allow(clippy::expect_used)] // a constant, and read by every test
    Regex::new(&format!(r"{country}([(（]?[1１][3-9３-９]\d[)）]?{between}\d{{4}}{between}\d{{4}})"))
        .expect("a pattern")
});

/// What may be a dot between digits: in a number both places have one, in a decimal fraction one.
const DOTS: [char; 3] = ['.', '．', '·'];

/// A hex text so long is an id or a digest, not prose around a number; …
const ID: usize = 16;
/// … in groups with dashes between, a UUID.
const UUID: usize = 32;

/// The contact with every phone number masked.
pub fn contact(contact: &Contact) -> Contact {
    let shown = |(field, value): (&String, &String)| {
        let value = if field == PHONE { phone(value) } else { phones_in(value).into_owned() };
        (field.clone(), value)
    };
    contact.iter().map(shown).collect()
}

/// A text that is known to be a phone number; of a short one nothing is left.
pub fn phone(phone: &str) -> String {
    let chars: Vec<char> = phone.chars().collect();
    if chars.len() < 8 {
        return "*".repeat(chars.len());
    }
    let (front, back) = (&chars[..3], &chars[chars.len() - 4..]);
    let hidden = "*".repeat(chars.len() - 7);
    front.iter().copied().chain(hidden.chars()).chain(back.iter().copied()).collect()
}

/// A text with each mobile number in it masked.
pub fn phones_in(text: &str) -> Cow<'_, str> {
    let (mut out, mut copied) = (String::new(), 0);
    for number in numbers(text) {
        let digits: String = text[number.clone()].chars().filter(|c| c.is_numeric()).collect();
        out.push_str(&text[copied..number.start]);
        out.push_str(&phone(&digits));
        copied = number.end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// A sentence by which somebody says who they are, as others see it: what it captured as the phone is masked whatever it is, a number
/// that is but a part of what stands there too.
pub fn captured(text: &str, captures: &Map<String, Value>) -> String {
    let mut shown = text.to_owned();
    for (name, value) in captures.iter().filter_map(|(name, value)| Some((name, value.as_str()?.trim()))) {
        let masked = if name == PHONE { Cow::Owned(phone(value)) } else { phones_in(value) };
        if !value.is_empty() && masked != value {
            shown = shown.replace(value, &masked);
        }
    }
    phones_in(&shown).into_owned()
}

/// The front of a text, `most` bytes of it at most: no number is cut in two, since its front would not look like one.
pub fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = text.floor_char_boundary(most);
    // Far enough for the longest number and for what tells an id.
    let seen = &text[..text.ceil_char_boundary(end.saturating_add(128))];
    let through = numbers(seen).find(|number| number.start < end && end < number.end);
    &text[..through.map_or(end, |number| number.start)]
}

/// Where mobile numbers stand, each without its country.
fn numbers(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(found) = MOBILE.captures_at(text, from) {
            let (whole, number) = (found.get(0)?, found.get(2)?);
            let dotted = |group| found.get(group).is_some_and(|between| between.as_str().contains(DOTS));
            if dotted(3) == dotted(4) && is_apart(text, whole.start(), whole.end()) {
                from = whole.end();
                return Some(number.range());
            }
            // The next one may begin within.
            from = whole.start() + text[whole.start()..].chars().next().map_or(1, char::len_utf8);
        }
        None
    })
}

/// Every text in it with its phone numbers masked, names of fields too. A number is masked below `vars` alone, where actions
/// keep what they like: elsewhere numbers are the gateway's own counts and times.
pub fn json(value: &mut Value) {
    json_in(value, false);
}

fn json_in(value: &mut Value, of_actions: bool) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = phones_in(text) {
                *text = masked;
            }
        }
        Value::Number(number) if of_actions => {
            if let Cow::Owned(masked) = phones_in(&number.to_string()) {
                *value = masked.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| json_in(item, of_actions)),
        Value::Object(fields) => {
            let masked = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                json_in(&mut value, of_actions || name == "vars");
                (phones_in(&name).into_owned(), value)
            });
            *fields = masked.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether what stands at this place is a number of its own: no digit beside it, and no part of an id.
fn is_apart(text: &str, start: usize, end: usize) -> bool {
    let (before, behind) = (&text[..start], &text[end..]);
    let (left, right) = (before.chars().next_back(), behind.chars().next());
    if left.into_iter().chain(right).any(char::is_numeric) {
        return false;
    }
    let word = |c: &char| c.is_ascii_alphanumeric();
    let in_groups = text[start..end].contains('-');
    if !in_groups && !text[start..end].chars().all(|c| word(&c)) {
        return true;
    }
    let piece = |c: &char| word(c) || in_groups && *c == '-';
    // Near by is enough: however long a text is, it is walked once.
    let (left, right) = (before.chars().rev().take(UUID), behind.chars().take(UUID));
    let around = left.take_while(piece).chain(right.take_while(piece));
    let own = text[start..end].chars().filter(word).count();
    let (digits, hex) = around.filter(word).fold((own, true), |(n, hex), c| (n + 1, hex && c.is_ascii_hexdigit()));
    !(hex && digits >= if in_groups { UUID } else { ID })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn phones_are_masked_and_other_digits_are_not() {
        for (text, want) in [
            ("13800138000", "138****8000"),
            ("我的手机号是13800138000，订单1001", "我的手机号是138****8000，订单1001"),
            ("+8613800138000 8613800138000", "+86138****8000 86138****8000"),
            ("+86 13800138000, +86-138-0013-8000", "+86 138****8000, +86-138****8000"),
            ("138 0013 8000 139-0013-9000", "138****8000 139****9000"),
            ("13800138000/13900139000", "138****8000/139****9000"),
            ("tel13800138000x", "tel138****8000x"),
            ("１３８００１３８０００", "１３８****８０００"),
            ("{\"key\":\"13800138000\"}", "{\"key\":\"138****8000\"}"),
            ("sender_key\u{1b}[0m=\u{1b}[0m13800138000 x", "sender_key\u{1b}[0m=\u{1b}[0m138****8000 x"),
            ("138.0013.8000 138－0013－8000 138–0013–8000", "138****8000 138****8000 138****8000"),
            ("138\u{a0}0013\u{a0}8000 138\u{2011}0013\u{2011}8000", "138****8000 138****8000"),
            ("138  0013  8000 138 - 0013 - 8000", "138****8000 138****8000"),
            ("(138)00138000、（138）0013-8000", "138****8000、138****8000"),
            ("013800138000 0086 138-0013-8000 (+86)13800138000", "0138****8000 0086 138****8000 (+86)138****8000"),
            ("１３８－００１３－８０００", "１３８****８０００"),
            ("138-0013-8000-5 tel138-0013-8000", "138****8000-5 tel138****8000"),
            ("电话138.0013.8000。", "电话138****8000。"),
            ("东经139.69171234度", "东经139.69171234度"),
            ("12800138000", "12800138000"),
            ("138001380001", "138001380001"),
            ("9913800138000", "9913800138000"),
            ("1380013800", "1380013800"),
            ("", ""),
            ("没有", "没有"),
        ] {
            assert_eq!(phones_in(text), want, "{text}");
        }
        for (number, want) in [("13800138000", "138****8000"), ("+1 555 0100", "+1 ****0100"), ("0101234", "*******")] {
            assert_eq!(phone(number), want);
        }
    }

    #[test]
    fn ids_stay_whole() {
        for id in [
            "019f8c13800138000abcdef012345678",
            "0198f2ab13800138000",
            "0198f2a3c4d57e6fa13800138000.0.r1",
            "a0eeb138-0013-8000-8abc-0123456789ab",
            "4523958235413800138000",
            "2026-11-30T12:00:00.138Z 1764504000000",
        ] {
            assert_eq!(phones_in(id), id);
        }
    }

    #[test]
    fn what_a_sentence_captured_as_the_phone_is_masked_whatever_it_is() {
        for (text, field, value, want) in [
            ("绑定手机号138001380001", "phone", "13800138000", "绑定手机号138****80001"),
            ("座机010-12345678，谢谢", "phone", "010-12345678", "座机010*****5678，谢谢"),
            ("绑定 138001380001", "mobile", "13800138000", "绑定 138****80001"),
            ("我叫王五，电话13900139000", "name", "王五", "我叫王五，电话139****9000"),
            ("空", "phone", "", "空"),
        ] {
            let captures = json!({field: value, "none": null}).as_object().cloned().unwrap();
            assert_eq!(captured(text, &captures), want);
        }
    }

    #[test]
    fn no_cut_goes_through_a_number() {
        let text = "电话13800138000。";
        for (most, want) in [(100, text), (17, "电话13800138000"), (16, "电话"), (7, "电话"), (6, "电话"), (5, "电")]
        {
            assert_eq!(cut(text, most), want, "{most}");
        }
        assert_eq!(cut(&format!("{} 13800138000 {}", "x".repeat(90), "y".repeat(5000)), 95).len(), 91);
        assert_eq!(cut("138001380001", 5), "13800");
    }

    #[test]
    fn a_masked_contact_keeps_everything_else() {
        let known = [("name", "王五"), ("phone", "13800138000"), ("mobile", "13900139000"), ("no", "1001")];
        let known: Contact = known.map(|(field, value)| (field.to_owned(), value.to_owned())).into();
        let shown: Vec<String> = contact(&known).into_values().collect();
        assert_eq!(shown, ["139****9000", "王五", "1001", "138****8000"]);
    }

    #[test]
    fn json_is_masked_in_its_texts_and_in_what_actions_keep() {
        let mut seen = json!({
            "user_id": "13800138000", "ttl_ms": 13_800_138_000_u64, "none": null,
            "turns": [{"text": "打 13800138000"}],
            "vars": {"n": 7, "phone": 13_800_138_000_u64, "of": {"13900139000": [13_900_139_000_u64, true]}},
        });
        json(&mut seen);
        let want = json!({
            "user_id": "138****8000", "ttl_ms": 13_800_138_000_u64, "none": null,
            "turns": [{"text": "打 138****8000"}],
            "vars": {"n": 7, "phone": "138****8000", "of": {"139****9000": ["139****9000", true]}},
        });
        assert_eq!(seen, want);
    }
}
