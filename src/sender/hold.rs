//! What holds a whole app up: a fault of its configuration, or a limit of its API, meets every chat that is answered by it.
//!
//! The first send that meets it writes a note that all processes read about once a second; while it stands, the app's lanes
//! are given back without a request and without a count, and one send a minute, of one lane of one process, tries whether
//! it is over. The first that gets through lifts the hold for everybody. Group robots are not concerned: a robot is its lane.

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
/// How often one send tries.
const PROBE: Duration = Duration::from_secs(60);
/// A note that nobody renews says nothing any more: nobody had anything to send.
const KEPT: Duration = Duration::from_secs(300);
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
    probe: Instant,
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
        match self.held().get_mut(app) {
            None => return None,
            Some(held) if now < held.probe => return Some(aside),
            // Others of this process need not ask meanwhile.
            Some(held) => held.probe = now + ASK_AGAIN,
        }
        match self.store.lock_note(&Note::hold(app), "probe", PROBE).await {
            Ok(true) => None,
            Ok(false) => Some(aside),
            Err(error) => {
                debug!(%error, app, "the right to try could not be asked for");
                Some(aside)
            }
        }
    }

    /// Holds the app up, or goes on to.
    pub(super) async fn hold(&self, app: &str, reason: &str) {
        let held = Held { reason: reason.to_owned(), probe: Instant::now() + PROBE };
        if self.held().insert(app.to_owned(), held).is_none() {
            error!(app, reason, "the app is held, nothing is sent by its API; one send a minute tries");
        }
        let note = Note::hold(app);
        let write = NoteWrite { note: note.clone(), value: Secret::new(reason), ttl: KEPT, owner: None };
        let told = async {
            self.store.write_note(write).await?;
            self.store.lock_note(&note, "probe", PROBE).await
        };
        if let Err(error) = told.await {
            debug!(%error, app, "other processes could not be told of a hold");
        }
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
                let reasons = noted.into_iter().map(|noted| noted.map(|noted| noted.value.expose().to_owned()));
                apps.iter().zip(reasons).for_each(|(app, reason)| self.learn(app, reason));
            }
            Err(error) => debug!(%error, "what holds the apps could not be read"),
        }
    }

    fn learn(&self, app: &str, reason: Option<String>) {
        let mut held = self.held();
        match (reason, held.get_mut(app)) {
            (None, Some(_)) => drop(held.remove(app)),
            (Some(reason), Some(known)) => known.reason = reason,
            (Some(reason), None) => drop(held.insert(app.to_owned(), Held { reason, probe: Instant::now() })),
            (None, None) => {}
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        // Every change under the lock is one insert or remove: nothing can be half done.
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
    async fn one_lane_of_one_process_tries_once_a_minute() {
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
