//! What is in force: the settings, and what is made of them, swapped as one when the configuration is read again.
//!
//! Whoever works on something (a callback, a message, a send) takes the setup once and keeps it to its end, so that nobody
//! meets half of an old one and half of a new one. What can't change while the gateway runs stays as it was at the start,
//! and is told ([`Reloaded::needs_restart`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::config::settings::{self, Settings};
use crate::config::{self, Files, Unfit};
use crate::model::{MessageKey, new_id, now_ms};
use crate::rules::{RuleError, RuleSet};
use crate::sender::route::Routes;
use crate::store::{ChangeKind, Line, SharedStore, Turn, Who};
use crate::telemetry::Metrics;

/// One configuration, ready to work by.
pub struct Setup {
    /// As it was read.
    pub settings: Arc<Settings>,
    /// How each chat is reached.
    pub routes: Arc<Routes>,
    /// The apps, by id.
    pub apps: BTreeMap<String, Arc<AppSetup>>,
    /// When its files were read, Unix ms.
    pub read_at: i64,
    /// Keys of `gateway.toml` that say something else there than what is in force, until the next start.
    pub needs_restart: Vec<&'static str>,
}

/// One app, ready to handle messages.
pub struct AppSetup {
    /// As it was read.
    pub settings: Arc<settings::App>,
    /// Its triggers, compiled.
    pub rules: RuleSet,
    /// Its share of the workers; the same over all setups, for what is under way counts on.
    pub permits: Arc<Semaphore>,
}

impl Setup {
    /// Compiles the rules of every app; `needs_restart` was put back to what `before` says.
    fn new(settings: Settings, needs_restart: Vec<&'static str>, before: Option<&Self>) -> Result<Self, RuleError> {
        let share = settings.workers.concurrency.div_ceil(2);
        let permits = |id: &str| {
            let app = before.and_then(|before| before.apps.get(id));
            app.map_or_else(|| Arc::new(Semaphore::new(share)), |app| app.permits.clone())
        };
        let ready = |(id, app): (&String, &Arc<settings::App>)| -> Result<_, RuleError> {
            let setup = AppSetup { settings: app.clone(), rules: RuleSet::compile(app)?, permits: permits(id) };
            Ok((id.clone(), Arc::new(setup)))
        };
        let apps = settings.apps.iter().map(ready).collect::<Result<_, _>>()?;
        let routes = Arc::new(Routes::new(&settings));
        Ok(Self { routes, settings: Arc::new(settings), apps, read_at: now_ms(), needs_restart })
    }

    /// The turn of a chat's lane, as it is configured.
    pub fn turn(&self, app: &str, chat: &str) -> Turn {
        let weight = self.routes.of(app, chat).map_or(1, |route| route.weight);
        Turn { weight, head_start: self.settings.sender.head_start }
    }
}

/// Where the setup in force is found.
pub struct InForce(ArcSwap<Setup>);

impl InForce {
    /// Puts the first one in force.
    ///
    /// # Errors
    /// [`RuleError`] of the first app whose rules don't compile.
    pub fn new(settings: Settings) -> Result<Arc<Self>, RuleError> {
        Ok(Arc::new(Self(ArcSwap::from_pointee(Setup::new(settings, Vec::new(), None)?))))
    }

    /// The one in force now, to be kept for as long as one thing is worked on.
    pub fn now(&self) -> Arc<Setup> {
        self.0.load_full()
    }

    /// Its settings, to be kept likewise.
    pub fn settings(&self) -> Arc<Settings> {
        self.0.load().settings.clone()
    }

    /// Its routes, to be kept likewise.
    pub fn routes(&self) -> Arc<Routes> {
        self.0.load().routes.clone()
    }
}

/// What came of reading the configuration again. Names of files and keys only.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Reloaded {
    /// Files that say something else than before; what they say is in force, but for what needs a restart.
    pub changed: Vec<String>,
    /// Files of apps that are new.
    pub added: Vec<String>,
    /// Files of apps that are gone: their callbacks are refused, their messages and replies wait.
    pub removed: Vec<String>,
    /// Keys that say something else than what is in force, until the next start.
    pub needs_restart: Vec<&'static str>,
}

impl Reloaded {
    /// Whether the files say what they said before.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The files have faults, by themselves or beside what can't change; the setup before stays in force.
    #[error(transparent)]
    Files(#[from] Unfit),
    /// Rules that the checks let through.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// It was not started from a file.
    #[error("this gateway was not started from a file, so there is nothing to read again")]
    NoFile,
    /// Reading them broke off: a fault of this program.
    #[error("reading the files broke off, which is a fault of this program; everything stays as it is")]
    Broken,
}

impl ReloadError {
    /// Its word in answers, metrics and changes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Files(Unfit::NeedsRestart { .. }) => "needs_restart",
            Self::Files(Unfit::Faulty(_)) | Self::Rules(_) => "configuration_faults",
            Self::NoFile => "no_file",
            Self::Broken => "internal",
        }
    }

    /// How many faults the files have, by themselves or beside what stands.
    fn faults(&self) -> usize {
        match self {
            Self::Files(Unfit::NeedsRestart { faults, .. } | Unfit::Faulty(faults)) => faults.iter().count(),
            Self::Rules(_) => 1,
            Self::NoFile | Self::Broken => 0,
        }
    }
}

/// Files that were not taken.
#[derive(Debug)]
pub struct Refusal {
    /// When, Unix ms.
    pub at: i64,
    /// Who had them read: a token's name, or `signal`, `watch`.
    pub by: String,
    /// How many faults they have.
    pub faults: usize,
    /// The faults, a line each.
    pub message: String,
}

/// Reads the configuration again and puts it in force: all of it, or nothing.
///
/// Who did stands in the trail of changes as far as the store takes the line: what is in force hangs on no store.
pub struct Reloader {
    in_force: Arc<InForce>,
    store: SharedStore,
    metrics: Arc<Metrics>,
    file: Option<PathBuf>,
    one_at_a_time: Mutex<()>,
    refused: ArcSwapOption<Refusal>,
}

impl Reloader {
    /// Of the setup that was read from `file`; what it takes is told in `store`'s journal.
    pub fn new(in_force: Arc<InForce>, file: Option<PathBuf>, store: SharedStore, metrics: Arc<Metrics>) -> Self {
        Self { in_force, store, metrics, file, one_at_a_time: Mutex::default(), refused: ArcSwapOption::default() }
    }

    /// The last files that were read, if they were not taken.
    pub fn refusal(&self) -> Option<Arc<Refusal>> {
        self.refused.load_full()
    }

    /// Reads the files every `server.watch`, and takes what they say when that changed; until `stop`.
    pub async fn watch(&self, stop: CancellationToken) {
        let Some(every) = self.in_force.settings().server.watch.filter(|_| self.file.is_some()) else {
            return stop.cancelled().await;
        };
        // Faulty files are told once, not at each look.
        let mut told = None;
        while stop.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            let looked = self.differs().await;
            if looked != told && looked.is_some() {
                let _ = self.reload(Who::WATCH).await;
            }
            told = looked;
        }
    }

    /// What the files say, where it is something else than what is in force.
    async fn differs(&self) -> Option<Files> {
        let file = self.file.clone()?;
        let now = tokio::task::spawn_blocking(move || config::look_at(&file)).await.ok()?;
        (now != self.in_force.settings().files).then_some(now)
    }

    /// Reads it now, because `who` asks for it.
    ///
    /// # Errors
    /// [`ReloadError`]; what was in force stays.
    pub async fn reload(&self, who: Who<'_>) -> Result<Reloaded, ReloadError> {
        let _one = self.one_at_a_time.lock().await;
        let by = who.by;
        let reloaded = self.read_and_swap().await;
        let refused = reloaded.as_ref().err().filter(|_| self.file.is_some());
        self.refused.store(refused.map(|error| Arc::new(refusal(by, error))));
        let (result, told) = match &reloaded {
            Ok((done, _)) if done.is_empty() => {
                info!(by, "the configuration was read again; nothing changed");
                ("unchanged", None)
            }
            Ok((Reloaded { changed, added, removed, needs_restart }, keys)) => {
                info!(by, ?changed, ?added, ?removed, ?needs_restart, %keys, "a new configuration is in force");
                let told = json!({"changed": changed, "added": added, "removed": removed,
                    "needs_restart": needs_restart, "keys": keys});
                ("taken", Some(told))
            }
            Err(error) => {
                error!(by, %error, "the configuration was not taken; what was in force stays");
                let told = json!({"refused": error.code(), "faults": error.faults()});
                ("refused", Some(told).filter(|_| self.file.is_some()))
            }
        };
        self.metrics.reloaded(result);
        if let Some(told) = told {
            self.tell(who, told).await;
        }
        reloaded.map(|(done, _)| done)
    }

    /// Leaves the line of what was taken or refused: of this process alone, each reads its own files.
    async fn tell(&self, who: Who<'_>, mut detail: Value) {
        detail["host"] = rustix::system::uname().nodename().to_string_lossy().into();
        detail["process"] = std::process::id().into();
        let id = new_id();
        let line = Line::change(id, ChangeKind::Configuration, who, MessageKey::new("", "", "", ""), detail);
        if let Err(error) = self.store.note_change(line).await {
            warn!(by = who.by, %error, "who changed the configuration stands in this log alone");
        }
    }

    /// Also answers which keys of which files say something else.
    async fn read_and_swap(&self) -> Result<(Reloaded, Value), ReloadError> {
        let file = self.file.clone().ok_or(ReloadError::NoFile)?;
        let before = self.in_force.now();
        let stands = before.settings.clone();
        // Files may lie on a slow disk.
        let read = tokio::task::spawn_blocking(move || config::load_beside(&file, &stands)).await;
        let Ok(read) = read else { return Err(ReloadError::Broken) };
        let (settings, needs_restart) = read?;
        let reloaded = Reloaded { needs_restart: needs_restart.clone(), ..compare(&before.settings, &settings) };
        let keys = keys(&reloaded.changed, &before.settings.files, &settings.files);
        self.in_force.0.store(Arc::new(Setup::new(settings, needs_restart, Some(&before))?));
        Ok((reloaded, keys))
    }
}

fn refusal(by: &str, error: &ReloadError) -> Refusal {
    Refusal { at: now_ms(), by: by.to_owned(), faults: error.faults(), message: error.to_string() }
}

/// Of each file that changed the keys that did; none where it was a secret, or what a variable or another file says.
fn keys(changed: &[String], before: &Files, now: &Files) -> Value {
    let of = |name: &String| Some((name.clone(), config::difference(before.get(name)?, now.get(name)?).into()));
    Value::Object(changed.iter().filter_map(of).collect::<Map<_, _>>())
}

/// Which files say something else.
fn compare(before: &Settings, now: &Settings) -> Reloaded {
    let mut reloaded = Reloaded::default();
    for (file, read) in &now.files {
        match before.files.get(file) {
            None => reloaded.added.push(file.clone()),
            Some(known) if known.digest != read.digest => reloaded.changed.push(file.clone()),
            Some(_) => {}
        }
    }
    reloaded.removed = before.files.keys().filter(|file| !now.files.contains_key(*file)).cloned().collect();
    reloaded
}
