//! What holds a whole app up: a fault of its configuration, or a limit of its API, meets every chat that is answered by it.
//!
//! The first send that meets it writes a note that all processes read about once a second; while it stands, the app's lanes
//! are given back without a request and without a count, and one send, of one lane of one process, tries whether it is over:
//! after a minute, and after each try that failed twice as long again, ten minutes at most. The first that gets through lifts
//! the hold for everybody. Group robots are not concerned: a robot is its lane.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use crate::model::Secret;
use crate::setup::InForce;
use crate::store::{Note, NoteWrite, SharedStore};

/// How often the notes are read.
const LOOK: Duration = Duration::from_secs(1);
/// When the first send tries.
const PROBE: Duration = Duration::from_secs(60);
/// The longest between two tries.
const LONGEST_PROBE: Duration = Duration::from_secs(600);
/// A note that nobody renews for so long after the next try was due says nothing any more: nobody had anything to send.
const KEPT: Duration = Duration::from_secs(240);
/// How long a held lane is set aside, up to twice.
const ASIDE: Duration = Duration::from_secs(10);
/// When a process asks again for the right to try, after another had it.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The holds of all apps, as this process knows them.
pub struct Holds {
    store: SharedStore,
    held: Mutex<HashMap<String, Held>>,
}

struct Held {
    reason: String,
    /// From one try to the next.
    every: Duration,
    /// When this process may try.
    probe: Instant,
    /// Whether this process has the right to try, and nothing is known yet of what came of it.
    probing: bool,
}

impl Held {
    /// As the note has it: seconds between tries, and the reason.
    fn note(&self) -> Secret {
        Secret::new(format!("{} {}", self.every.as_secs(), self.reason))
    }

    /// What a note says: from one try to the next, and why.
    fn of_note(text: &str) -> (Duration, &str) {
        let (every, reason) = text.split_once(' ').unwrap_or_default();
        match every.parse() {
            Ok(seconds) => (Duration::from_secs(seconds).clamp(PROBE, LONGEST_PROBE), reason),
            Err(_) => (PROBE, text),
        }
    }
}

impl Holds {
    /// Nothing held yet, as far as is known.
    pub fn new(store: SharedStore) -> Self {
        Self { store, held: Mutex::default() }
    }

    /// Why this app is held, where it is.
    pub fn reason(&self, app: &str) -> Option<String> {
        self.held().get(app).map(|held| held.reason.clone())
    }

    /// How long a lane of this app is to be set aside; `None`: it may send, also because it is the one that tries.
    pub(super) async fn aside(&self, app: &str) -> Option<Duration> {
        let aside = ASIDE.mul_f64(rand::random_range(1.0..2.0));
        let now = Instant::now();
        let every = match self.held().get_mut(app) {
            None => return None,
            Some(held) if now < held.probe => return Some(aside),
            Some(held) => {
                // Others of this process need not ask meanwhile.
                held.probe = now + ASK_AGAIN;
                held.every
            }
        };
        match self.store.lock_note(&Note::hold(app), "probe", every).await {
            Ok(true) => {
                self.held().get_mut(app).into_iter().for_each(|held| held.probing = true);
                None
            }
            Ok(false) => Some(aside),
            Err(error) => {
                debug!(%error, app, "the right to try could not be asked for");
                Some(aside)
            }
        }
    }

    /// Holds the app up, or goes on to.
    pub(super) async fn hold(&self, app: &str, reason: &str) {
        let (note, value, every, tried) = self.grow(app, reason);
        let write = NoteWrite { note: note.clone(), value, ttl: every + KEPT, owner: None };
        let told = async {
            self.store.write_note(write).await?;
            if tried {
                // The right to try was for the time before this one.
                self.store.unlock_note(&note, "probe").await?;
            }
            self.store.lock_note(&note, "probe", every).await
        };
        if let Err(error) = told.await {
            debug!(%error, app, "other processes could not be told of a hold");
        }
    }

    /// Notes the failure: of a try, so that the next one is later; of what was under way when the hold began, or the first.
    /// Answers the note, what it says, the time between tries, and whether it was one.
    fn grow(&self, app: &str, reason: &str) -> (Note, Secret, Duration, bool) {
        let (mut all, now) = (self.held(), Instant::now());
        if !all.contains_key(app) {
            error!(
                app,
                reason, "the app is held, nothing is sent by its API; one send tries in a minute, then more rarely"
            );
        }
        let new = || Held { reason: String::new(), every: PROBE, probe: now, probing: false };
        let held = all.entry(app.to_owned()).or_insert_with(new);
        let tried = std::mem::take(&mut held.probing);
        if tried {
            held.every = (held.every * 2).min(LONGEST_PROBE);
        }
        reason.clone_into(&mut held.reason);
        held.probe = now + held.every;
        (Note::hold(app), held.note(), held.every, tried)
    }

    /// A send got through: nothing holds the app any more.
    pub(super) async fn lift(&self, app: &str) {
        if self.held().remove(app).is_none() {
            return;
        }
        info!(app, "the app is not held any more");
        let note = Note::hold(app);
        let told = async {
            self.store.drop_note(&note, None).await?;
            self.store.unlock_note(&note, "probe").await
        };
        if let Err(error) = told.await {
            debug!(%error, app, "other processes could not be told of the end of a hold");
        }
    }

    /// Reads the notes of the apps with an API side until `stop`.
    pub(super) async fn watch_until(&self, in_force: &InForce, stop: &CancellationToken) {
        loop {
            let settings = in_force.settings();
            let apps = settings.apps.values().filter(|app| app.api.is_some());
            let apps: Vec<&str> = apps.map(|app| app.id.as_str()).collect();
            if !apps.is_empty() {
                self.look(&apps).await;
            }
            if stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                return;
            }
        }
    }

    async fn look(&self, apps: &[&str]) {
        match self.store.read_notes(apps.iter().map(|app| Note::hold(app)).collect()).await {
            Ok(noted) => {
                let texts = noted.into_iter().map(|noted| noted.map(|noted| noted.value.expose().to_owned()));
                apps.iter().zip(texts).for_each(|(app, text)| self.learn(app, text));
            }
            Err(error) => debug!(%error, "what holds the apps could not be read"),
        }
    }

    fn learn(&self, app: &str, noted: Option<String>) {
        let mut held = self.held();
        match (noted.as_deref().map(Held::of_note), held.get_mut(app)) {
            (None, Some(_)) => drop(held.remove(app)),
            (Some((every, reason)), Some(known)) => {
                reason.clone_into(&mut known.reason);
                known.every = every;
            }
            (Some((every, reason)), None) => {
                let new = Held { reason: reason.to_owned(), every, probe: Instant::now(), probing: false };
                held.insert(app.to_owned(), new);
            }
            (None, None) => {}
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        // Nothing under the lock can stop half way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::EmbeddedStore;

    const APPS: [&str; 2] = ["app", "other"];

    /// Two processes, and the store that they share.
    fn two() -> (tempfile::TempDir, SharedStore, Holds, Holds) {
        let folder = tempfile::tempdir().unwrap();
        let store: SharedStore = EmbeddedStore::open(folder.path(), 1).unwrap();
        let holds = || Holds::new(store.clone());
        let (a, b) = (holds(), holds());
        (folder, store, a, b)
    }

    /// A minute goes by.
    async fn pass(store: &SharedStore, all: [&Holds; 2]) {
        store.unlock_note(&Note::hold("app"), "probe").await.unwrap();
        for holds in all {
            holds.held().values_mut().for_each(|held| held.probe = Instant::now());
        }
    }

    #[tokio::test]
    async fn one_lane_of_one_process_tries_at_its_time() {
        let (_folder, store, a, b) = two();
        assert_eq!(a.aside("app").await, None);
        a.hold("app", "errcode 60020").await;
        b.look(&APPS).await;
        for holds in [&a, &b] {
            assert_eq!(holds.reason("app").as_deref(), Some("errcode 60020"));
            let aside = holds.aside("app").await.expect("nobody tries in the first minute");
            assert!((ASIDE..ASIDE * 2).contains(&aside), "{aside:?}");
            assert_eq!(holds.aside("other").await, None);
        }
        for _ in 0..3 {
            pass(&store, [&a, &b]).await;
            let mut tries = 0;
            for _ in 0..10 {
                tries += usize::from(a.aside("app").await.is_none());
                tries += usize::from(b.aside("app").await.is_none());
            }
            assert_eq!(tries, 1);
        }
    }

    #[tokio::test]
    async fn tries_that_fail_come_more_rarely_in_every_process() {
        let (_folder, store, a, b) = two();
        let every = |holds: &Holds| holds.held().get("app").map(|held| held.every.as_secs() / 60);
        a.hold("app", "errcode 60020").await;
        // What was under way meanwhile is no try.
        a.hold("app", "errcode 60020").await;
        for (minutes, [trying, other]) in [(1, [&a, &b]), (2, [&b, &a]), (4, [&b, &a]), (8, [&a, &b]), (10, [&a, &b])] {
            other.look(&APPS).await;
            trying.look(&APPS).await;
            assert_eq!((every(trying), every(other)), (Some(minutes), Some(minutes)));
            // Not before its time, whoever asks.
            for holds in [trying, other] {
                holds.held().values_mut().for_each(|held| held.probe = Instant::now());
                assert!(holds.aside("app").await.is_some());
            }
            pass(&store, [&a, &b]).await;
            assert_eq!(trying.aside("app").await, None);
            trying.hold("app", "errcode 60020").await;
            assert_eq!(trying.reason("app").as_deref(), Some("errcode 60020"));
        }
        a.look(&APPS).await;
        assert_eq!(every(&a), Some(10));
        // Once it was lifted, it begins anew.
        a.lift("app").await;
        a.hold("app", "errcode 60020").await;
        assert_eq!(every(&a), Some(1));
    }

    #[tokio::test]
    async fn the_first_that_gets_through_lifts_it_for_all() {
        let (_folder, store, a, b) = two();
        a.hold("app", "errcode 45009").await;
        b.look(&APPS).await;
        pass(&store, [&a, &b]).await;
        assert_eq!(b.aside("app").await, None);
        b.lift("app").await;
        a.look(&APPS).await;
        for holds in [&a, &b] {
            assert_eq!((holds.reason("app"), holds.aside("app").await), (None, None));
        }
        // A hold that follows has its own first minute.
        a.hold("app", "errcode 60020").await;
        b.look(&APPS).await;
        assert!(a.aside("app").await.is_some() && b.aside("app").await.is_some());
    }
}
