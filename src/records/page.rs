//! Pages of long lists: `{"items":[…],"next":null|"cursor"}`. A cursor names the last item that was given, not a count,
//! so a list that grows at its head meanwhile shows nothing twice.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::RecordsError;

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Page<T> {
    /// This part.
    pub items: Vec<T>,
    /// Where the next part begins, to be handed back as `cursor`; null at the end.
    #[schema(value_type = Option<String>)]
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// Of up to `limit + 1` items, the first `limit`; one more means that there is a next part, which begins after the
    /// place (`place_of`) of the last item given.
    pub fn cut<P: Serialize>(mut items: Vec<T>, limit: usize, place_of: impl Fn(&T) -> P) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|last| Cursor::at(&place_of(last)));
        Self { items, next }
    }

    /// The same part with other items.
    pub fn map<U>(self, with: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(with).collect(), next: self.next }
    }
}

/// A place in a list, opaque to callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// The cursor of a place.
    pub fn at(place: &impl Serialize) -> Self {
        // Places are tuples of texts and numbers: serializing them cannot fail.
        Self(URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).unwrap_or_default()))
    }

    /// Takes what a caller handed back.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The place.
    ///
    /// # Errors
    /// [`RecordsError::Cursor`] where it is none of ours.
    pub fn place<P: DeserializeOwned>(&self) -> Result<P, RecordsError> {
        let json = URL_SAFE_NO_PAD.decode(&self.0).map_err(|_| RecordsError::Cursor)?;
        serde_json::from_slice(&json).map_err(|_| RecordsError::Cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_where_it_says() {
        let page = Page::cut(vec![1, 2, 3], 2, |n| (*n, "x"));
        assert_eq!(page.items, [1, 2]);
        assert_eq!(page.next.expect("more").place::<(i32, String)>().expect("ours"), (2, "x".to_owned()));
        assert_eq!(Page::cut(vec![1, 2], 2, |n| *n).next, None);
        assert!(Cursor::from_text("junk").place::<(i32, String)>().is_err());
    }
}
