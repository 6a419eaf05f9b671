//! JSON payloads, walked without building them: values that don't count are skipped as raw text.
//!
//! Ids may be JSON numbers beyond 2^53, so a number's digits are taken as they are written; going through a number
//! type would lose some of them.

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
                        self.facts.set(slot, scalar(value).map_err(serde::de::Error::custom)?);
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
