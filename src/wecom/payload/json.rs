//! JSON payloads, walked without building them: values that don't count are skipped as raw text.
//!
//! Ids may be JSON numbers beyond 2^53, so a number's digits are taken as they are written; going through a number
//! type would lose some of them.
//!
//! Clients that cut a text at UTF-16 units leave half of a surrogate pair, which is no character: in what is for eyes
//! it is read as U+FFFD, and an id that holds one can't be read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::PayloadError;
use super::facts::{Facts, Place};

/// Reads one object, and nothing behind it.
pub(super) fn read(text: &str, facts: &mut Facts<'_>) -> Result<(), PayloadError> {
    walk(text, Place::Top, facts)
        .map_err(|error| PayloadError::Json { line: error.line().max(1), column: error.column().max(1) })
}

/// Recursion ends with the places that count: at most four levels, however deep the document.
fn walk(text: &str, place: Place, facts: &mut Facts<'_>) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_any(Walk { place, facts })?;
    json.end()
}

struct Walk<'f, 'a> {
    place: Place,
    facts: &'f mut Facts<'a>,
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let value = map.next_value::<&RawValue>()?.get();
            let inside = self.place.inside(&name.0);
            match value.as_bytes().first() {
                Some(b'{' | b'[') if inside != Place::Elsewhere => {
                    walk(value, inside, self.facts).map_err(serde::de::Error::custom)?;
                }
                Some(b'"' | b'-' | b'0'..=b'9') => {
                    if let Some(slot) = self.facts.slot(self.place, &name.0) {
                        let read = scalar(value).or_else(|error| match whole(value) {
                            Some(whole) if slot.is_for_eyes() => scalar(&whole),
                            _ => Err(error),
                        });
                        self.facts.set(slot, read.map_err(serde::de::Error::custom)?);
                    }
                }
                // Objects and lists that don't count, true, false, null.
                _ => {}
            }
        }
        Ok(())
    }

    /// The objects of a list stand where the list stands.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<&RawValue>()? {
            if value.get().starts_with('{') {
                walk(value.get(), self.place, self.facts).map_err(serde::de::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// A key, borrowed where it holds no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A string's text, or a number as it is written.
fn scalar(raw: &str) -> serde_json::Result<String> {
    if raw.starts_with('"') { serde_json::from_str(raw) } else { Ok(raw.to_owned()) }
}

/// The JSON with U+FFFD for each escaped surrogate that is not half of a pair; `None` where it holds none.
fn whole(json: &str) -> Option<String> {
    const REPLACEMENT: &str = "\\ufffd";
    let mut whole = String::new();
    let (mut rest, mut taken) = (json, 0);
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        let length = match unit(escape) {
            Some(0xD800..=0xDBFF) if matches!(escape.get(6..).and_then(unit), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                let start = json.len() - escape.len();
                whole.push_str(&json[taken..start]);
                whole.push_str(REPLACEMENT);
                taken = start + 6;
                6
            }
            Some(_) => 6,
            // `\\`, `\"` and their like, and what is no JSON: the next character is never the beginning of an escape.
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        rest = &escape[length..];
    }
    (taken > 0).then(|| whole + &json[taken..])
}

/// The UTF-16 unit that an escape at the beginning of `json` names.
fn unit(json: &str) -> Option<u16> {
    let digits = json.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_are_replaced_and_nothing_else() {
        for (json, want) in [
            (r#""好""#, None),
            (r#""\u4f60\n\"""#, None),
            (r#""\ud83d\ude00""#, None),
            (r#""\uD83D\uDE00\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""\\\\ud83d""#, None),
            (r#""\ud83d""#, Some(r#""\ufffd""#)),
            (r#""a\uD83D\uDE00b\uD83D""#, Some(r#""a\uD83D\uDE00b\ufffd""#)),
            (r#""\ude00\ud83d""#, Some(r#""\ufffd\ufffd""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ud83d\n\ude00""#, Some(r#""\ufffd\n\ufffd""#)),
            (r#""\ud83d\u0041""#, Some(r#""\ufffd\u0041""#)),
            (r#""\ud83d好\ude00""#, Some(r#""\ufffd好\ufffd""#)),
            (r#""\\\ud83d""#, Some(r#""\\\ufffd""#)),
            (r#""\ud83d\\ude00""#, Some(r#""\ufffd\\ude00""#)),
            // No JSON, so that nothing can be meant by it.
            (r"\", None),
            (r"\u", None),
            (r"\ud83", None),
            (r"\ud83好", None),
            (r"\u+d83", None),
            (r"\好", None),
            (r"\ud83d", Some(r"\ufffd")),
            (r"\ud83d\ude0", Some(r"\ufffd\ude0")),
        ] {
            assert_eq!(whole(json).as_deref(), want, "{json}");
        }
    }
}
