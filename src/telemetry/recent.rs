//! The last callbacks of each app and what this process answered, for whoever asks why a callback does not pass.
//!
//! Nothing of what was said is kept: a result, and of a refusal the sentence that its caller was told.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::now_ms;

/// So many taken and so many refused ones of each app: traffic must not hide what is refused.
const KEPT: usize = 10;

/// A callback and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// When it was answered, Unix ms.
    pub at: i64,
    /// Its name in logs and trails.
    pub request_id: String,
    /// `stored`, `duplicate`, …, or the error's code.
    pub result: &'static str,
    /// What a refused caller was told.
    pub refusal: Option<String>,
    /// What it was posted to, where that is no app's.
    pub path: Option<String>,
}

/// The last callbacks, by app; under the empty name those of apps that don't exist.
#[derive(Debug, Default)]
pub struct Recent(Mutex<HashMap<String, Kept>>);

#[derive(Debug, Default)]
struct Kept {
    taken: VecDeque<Callback>,
    refused: VecDeque<Callback>,
}

impl Recent {
    /// Notes an answer.
    pub fn note(&self, app: &str, request_id: &str, result: &'static str, refusal: Option<String>) {
        self.keep(app, Callback { at: now_ms(), request_id: request_id.to_owned(), result, refusal, path: None });
    }

    /// Notes a refusal of what was posted to no app.
    pub fn note_stranger(&self, path: &str, request_id: &str, result: &'static str, refusal: String) {
        let (request_id, path) = (request_id.to_owned(), Some(path.to_owned()));
        self.keep("", Callback { at: now_ms(), request_id, result, refusal: Some(refusal), path });
    }

    fn keep(&self, app: &str, callback: Callback) {
        let mut apps = self.apps();
        if !apps.contains_key(app) {
            apps.insert(app.to_owned(), Kept::default());
        }
        let Some(kept) = apps.get_mut(app) else { return };
        let callbacks = if callback.refusal.is_some() { &mut kept.refused } else { &mut kept.taken };
        callbacks.truncate(KEPT - 1);
        callbacks.push_front(callback);
    }

    /// A refused one, by its request id: no trail knows it.
    pub fn refused(&self, request_id: &str) -> Option<Callback> {
        self.apps().values().flat_map(|kept| &kept.refused).find(|one| one.request_id == request_id).cloned()
    }

    /// Those of an app, newest first.
    pub fn of(&self, app: &str) -> Vec<Callback> {
        let apps = self.apps();
        let Some(Kept { taken, refused }) = apps.get(app) else { return Vec::new() };
        let mut callbacks: Vec<Callback> = taken.iter().chain(refused).cloned().collect();
        callbacks.sort_by_key(|callback| std::cmp::Reverse(callback.at));
        callbacks
    }

    fn apps(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        // Every change under the lock leaves whole callbacks.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_come_first_and_the_oldest_go() {
        let recent = Recent::default();
        recent.note("app", "refused", "bad_timestamp", Some("no number".into()));
        for n in 0..KEPT + 5 {
            recent.note("app", &n.to_string(), "stored", None);
        }
        recent.note("other", "x", "signature_mismatch", Some("check token".into()));
        let (refused, taken): (Vec<_>, Vec<_>) = recent.of("app").into_iter().partition(|one| one.refusal.is_some());
        let ids: Vec<String> = taken.into_iter().map(|callback| callback.request_id).collect();
        assert_eq!(ids, (5..KEPT + 5).rev().map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(refused[0].request_id, "refused", "traffic does not hide it");
        assert_eq!(recent.of("other")[0].refusal.as_deref(), Some("check token"));
        assert_eq!(recent.of("none"), []);
        recent.note_stranger("/callback/supprt", "s", "unknown_app", "no app has this name".into());
        assert_eq!(recent.of("")[0].path.as_deref(), Some("/callback/supprt"));
        assert_eq!(recent.refused("refused").map(|one| one.result), Some("bad_timestamp"));
        assert_eq!(recent.refused("s").map(|one| one.result), Some("unknown_app"));
        assert_eq!((recent.refused("6"), recent.refused("")), (None, None), "one that was taken has a trail");
    }
}
