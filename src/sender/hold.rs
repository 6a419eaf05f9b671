//! What holds a whole app up: a fault of its configuration, or a limit of its API, meets every chat that is answered by it.
//!
//! The first send that meets it writes a note that all processes read about once a second; while it stands, the app's lanes
//! are given back without a request and without a count, and one send, of one lane of one process, tries whether it is over:
//! after a minute, and after each try that failed twice as long again, ten minutes at most; at once where an operator says so, or
//! where the app's API side is configured anew. The first that gets through lifts the hold for everybody. Group robots are not
//! concerned: a robot is its lane.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use super::token::forget_refusal;
use crate::config::settings::Api;
use crate::model::{Secret, millis, now_ms};
use crate::setup::InForce;
use crate::store::{self, Note, NoteWrite, SharedStore};

/// How often the notes are read.
const LOOK: Duration = Duration::from_secs(1);
/// When the first send tries.
const PROBE: Duration = Duration::from_secs(60);
/// The longest between two tries.
const LONGEST_PROBE: Duration = Duration::from_secs(600);
/// A note that nobody renews for so long after the next try was due says nothing any more: nobody had anything to send.
const KEPT: Duration = Duration::from_secs(240);
/// How long a held lane is set aside, up to twice.
pub(super) const ASIDE: Duration = Duration::from_secs(10);
/// When a process asks again for the right to try, after another had it.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Whether a lane of an app may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaySend {
    /// Nothing holds the app.
    Yes,
    /// The app is held, and this is the one send that tries whether that is over.
    AsTry,
    /// The app is held: the lane is to be set aside for so long.
    NotFor(Duration),
}

/// The holds of all apps, as this process knows them.
pub struct Holds {
    store: SharedStore,
    held: Mutex<HashMap<String, Held>>,
}

struct Held {
    reason: String,
    /// From one try to the next.
    every: Duration,
    /// When the next try is due, Unix ms, for all processes; whose it is the note's lock says.
    next: i64,
    /// When this process asks for the right to try.
    probe: Instant,
    /// Whether this process has the right to try, and nothing is known yet of what came of it.
    probing: bool,
}

impl Held {
    /// What the note is to say: seconds between tries, when the next is due, and the reason.
    fn note(&self, app: &str) -> NoteWrite {
        let value = Secret::new(format!("{} {} {}", self.every.as_secs(), self.next, self.reason));
        NoteWrite { note: Note::hold(app), value, ttl: self.every + KEPT, owner: None }
    }

    /// What a note says: from one try to the next, when that is due, and why. One of an earlier version names no time.
    fn of_note(text: &str) -> (Duration, i64, &str) {
        let (every, rest) = text.split_once(' ').unwrap_or_default();
        let Ok(seconds) = every.parse() else { return (PROBE, 0, text) };
        let every = Duration::from_secs(seconds).clamp(PROBE, LONGEST_PROBE);
        match rest.split_once(' ').and_then(|(next, reason)| Some((next.parse().ok()?, reason))) {
            Some((next, reason)) => (every, next, reason),
            None => (every, 0, rest),
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

    /// How long until one send of a held app tries; nothing for one that is overdue, because nobody had anything to send.
    pub fn next_try(&self, app: &str) -> Option<Duration> {
        let next = self.held().get(app).map(|held| held.next)?;
        Some(Duration::from_millis(u64::try_from(next.saturating_sub(now_ms())).unwrap_or(0)))
    }

    /// Has the next send of a held app try at once, in whichever process it is; a refused token is asked for again too. Answers
    /// whether the app was held.
    ///
    /// # Errors
    /// The store's: other processes may not have heard of it.
    pub async fn retry(&self, app: &str, api: &Api) -> store::Result<bool> {
        let write = match self.held().get_mut(app) {
            None => return Ok(false),
            Some(held) => {
                (held.every, held.next, held.probe) = (PROBE, now_ms(), Instant::now());
                held.note(app)
            }
        };
        forget_refusal(&self.store, api).await?;
        self.store.write_note(write).await?;
        self.store.unlock_note(&Note::hold(app), "probe").await?;
        Ok(true)
    }

    /// Whether a lane of this app may send now. Who may try and then doesn't says [`Holds::was_not_tried`].
    pub(super) async fn may_send(&self, app: &str) -> MaySend {
        let aside = MaySend::NotFor(ASIDE.mul_f64(rand::random_range(1.0..2.0)));
        let now = Instant::now();
        let every = match self.held().get_mut(app) {
            None => return MaySend::Yes,
            Some(held) if now < held.probe => return aside,
            Some(held) => {
                // Others of this process need not ask meanwhile.
                held.probe = now + ASK_AGAIN;
                held.every
            }
        };
        match self.store.lock_note(&Note::hold(app), "probe", every).await {
            Ok(true) => {
                self.held().get_mut(app).into_iter().for_each(|held| held.probing = true);
                MaySend::AsTry
            }
            Ok(false) => aside,
            Err(error) => {
                debug!(%error, app, "the right to try could not be asked for");
                aside
            }
        }
    }

    /// Nothing was written by the one that was to try: the right to is another's.
    pub(super) async fn was_not_tried(&self, app: &str) {
        self.held().get_mut(app).into_iter().for_each(|held| held.probing = false);
        if let Err(error) = self.store.unlock_note(&Note::hold(app), "probe").await {
            debug!(%error, app, "the right to try could not be passed on");
        }
    }

    /// Holds the app up, or goes on to.
    pub(super) async fn hold(&self, app: &str, reason: &str) {
        let (write, every, tried) = self.grow(app, reason);
        let note = write.note.clone();
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
    /// Answers the note, the time between tries, and whether it was one.
    fn grow(&self, app: &str, reason: &str) -> (NoteWrite, Duration, bool) {
        let (mut all, now) = (self.held(), Instant::now());
        if !all.contains_key(app) {
            error!(
                app,
                reason, "the app is held, nothing is sent by its API; one send tries in a minute, then more rarely"
            );
        }
        let new = || Held { reason: String::new(), every: PROBE, next: 0, probe: now, probing: false };
        let held = all.entry(app.to_owned()).or_insert_with(new);
        let tried = std::mem::take(&mut held.probing);
        if tried {
            held.every = (held.every * 2).min(LONGEST_PROBE);
        }
        reason.clone_into(&mut held.reason);
        held.probe = now + held.every;
        held.next = now_ms().saturating_add(millis(held.every));
        (held.note(app), held.every, tried)
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

    /// Reads the notes of the apps with an API side until `stop`; a held one that is configured anew is tried at once.
    pub(super) async fn watch_until(&self, in_force: &InForce, stop: &CancellationToken) {
        let mut known: HashMap<String, Api> = HashMap::new();
        loop {
            let settings = in_force.settings();
            let apps: Vec<(&str, &Api)> =
                settings.apps.values().filter_map(|app| Some((app.id.as_str(), &**app.api.as_ref()?))).collect();
            if !apps.is_empty() {
                self.look(&apps.iter().map(|(app, _)| *app).collect::<Vec<_>>()).await;
            }
            for (app, api) in apps {
                if known.get(app) != Some(api) && known.insert(app.to_owned(), api.clone()).is_some() {
                    self.configured_anew(app, api).await;
                }
            }
            if stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                return;
            }
        }
    }

    async fn configured_anew(&self, app: &str, api: &Api) {
        match self.retry(app, api).await {
            Ok(true) => info!(app, "the held app's API side is configured anew: one send tries at once"),
            Ok(false) => {}
            Err(error) => debug!(%error, app, "other processes could not be told to try a held app"),
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
            (Some((every, next, reason)), Some(known)) => {
                reason.clone_into(&mut known.reason);
                known.every = every;
                // Somebody wants it tried at once.
                if known.next != next && next <= now_ms() {
                    known.probe = Instant::now();
                }
                known.next = next;
            }
            (Some((every, next, reason)), None) => {
                let new = Held { reason: reason.to_owned(), every, next, probe: Instant::now(), probing: false };
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

    async fn is_set_aside(holds: &Holds) -> bool {
        matches!(holds.may_send("app").await, MaySend::NotFor(_))
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
        assert_eq!(a.may_send("app").await, MaySend::Yes);
        a.hold("app", "errcode 60020").await;
        b.look(&APPS).await;
        for holds in [&a, &b] {
            assert_eq!(holds.reason("app").as_deref(), Some("errcode 60020"));
            let MaySend::NotFor(aside) = holds.may_send("app").await else {
                panic!("nobody tries in the first minute")
            };
            assert!((ASIDE..ASIDE * 2).contains(&aside), "{aside:?}");
            assert_eq!(holds.may_send("other").await, MaySend::Yes);
        }
        for _ in 0..3 {
            pass(&store, [&a, &b]).await;
            let mut tries = 0;
            for _ in 0..10 {
                tries += usize::from(a.may_send("app").await == MaySend::AsTry);
                tries += usize::from(b.may_send("app").await == MaySend::AsTry);
            }
            assert_eq!(tries, 1);
        }
    }

    #[tokio::test]
    async fn who_may_try_and_does_not_leaves_it_to_another() {
        let (_folder, store, a, b) = two();
        a.hold("app", "errcode 60020").await;
        b.look(&APPS).await;
        pass(&store, [&a, &b]).await;
        assert_eq!(a.may_send("app").await, MaySend::AsTry);
        a.was_not_tried("app").await;
        assert!(is_set_aside(&a).await, "not at once, its lane may be the one that can't");
        assert_eq!(b.may_send("app").await, MaySend::AsTry);
        a.hold("app", "errcode 60020").await;
        assert_eq!(a.held().get("app").map(|held| held.every), Some(PROBE), "what came of it was no try");
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
                assert!(is_set_aside(holds).await);
            }
            pass(&store, [&a, &b]).await;
            assert_eq!(trying.may_send("app").await, MaySend::AsTry);
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
    async fn whoever_says_so_has_it_tried_at_once() {
        let (_folder, _store, a, b) = two();
        let api = Api { corp_id: "ww".into(), agent_id: 1, secret: Secret::new("s"), ask_contacts: false };
        assert!(!a.retry("app", &api).await.unwrap(), "nothing holds it");
        a.hold("app", "errcode 60020: not allowed").await;
        b.look(&APPS).await;
        for holds in [&a, &b] {
            let next = holds.next_try("app").unwrap();
            assert!(next <= PROBE && next > PROBE / 2 && holds.next_try("other").is_none(), "{next:?}");
            assert!(is_set_aside(holds).await);
        }
        assert!(b.retry("app", &api).await.unwrap());
        a.look(&APPS).await;
        assert_eq!(a.next_try("app"), Some(Duration::ZERO));
        assert_eq!(a.may_send("app").await, MaySend::AsTry, "one of them tries");
        assert!(is_set_aside(&b).await, "and no second");
    }

    #[test]
    fn a_note_of_an_earlier_version_is_read_too() {
        assert_eq!(Held::of_note("120 1700 errcode 60020: no"), (PROBE * 2, 1700, "errcode 60020: no"));
        assert_eq!(Held::of_note("120 errcode 60020: no"), (PROBE * 2, 0, "errcode 60020: no"));
        assert_eq!(Held::of_note("errcode"), (PROBE, 0, "errcode"));
    }

    #[tokio::test]
    async fn the_first_that_gets_through_lifts_it_for_all() {
        let (_folder, store, a, b) = two();
        a.hold("app", "errcode 45009").await;
        b.look(&APPS).await;
        pass(&store, [&a, &b]).await;
        assert_eq!(b.may_send("app").await, MaySend::AsTry);
        b.lift("app").await;
        a.look(&APPS).await;
        for holds in [&a, &b] {
            assert_eq!((holds.reason("app"), holds.may_send("app").await), (None, MaySend::Yes));
        }
        // A hold that follows has its own first minute.
        a.hold("app", "errcode 60020").await;
        b.look(&APPS).await;
        assert!(is_set_aside(&a).await && is_set_aside(&b).await);
    }
}
