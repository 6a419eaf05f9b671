//! One gateway, put together: everything hangs off one [`App`], so two of them fit in one process.
//!
//! Every background loop has a name, a supervisor that starts it again should it panic, and a way to stop. At a stop
//! nothing new is begun, anywhere, from that moment on. What is under way (callbacks, messages, sends) has `server.drain` to
//! finish; then it is dropped and its leases are given back. The records and the operators' listener go last.

mod loops;
mod parts;
mod task;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::admin;
use crate::config::Settings;
use crate::listener;
use crate::push::KafkaFault;
use crate::records::RecordsError;
use crate::rules::RuleError;
use crate::setup::Reloader;
use crate::store::lock::{PathLock, lock_path};
use crate::store::{Depth, SharedStore, Spool, StoreError};
use crate::telemetry::Health;

use loops::Loops;
use parts::{Parts, Tellers};
use task::Task;

/// How long giving back takes at most, after `server.drain` is over.
const GIVING_BACK: Duration = Duration::from_secs(1);
/// How long the records' last flush and operators' requests are waited for after that. With the drain's default, a stop
/// ends within the 10 s that container engines grant.
const CLOSING: Duration = Duration::from_secs(2);
/// How long the store has to say what is left in it.
const LAST_WORD: Duration = Duration::from_millis(500);
/// Connections of operators at once.
const OPERATORS: usize = 64;
/// More open files than this are not asked for.
const MOST_FILES: u64 = 65_536;
/// What any system allows.
const FEW_FILES: u64 = 256;
/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The records.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// An app's rules.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// A listener.
    #[error("can't listen on {address} ({key}): {cause}; another process may have it")]
    Listen {
        /// The key in gateway.toml.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
        /// The system's word.
        cause: std::io::Error,
    },
    /// Kafka, as configured.
    #[error(transparent)]
    Kafka(#[from] KafkaFault),
    /// An HTTP client.
    #[error("no HTTP client: {0}")]
    Http(#[from] reqwest::Error),
}

/// A running gateway.
pub struct App {
    callback_addr: SocketAddr,
    admin_addr: SocketAddr,
    health: Arc<Health>,
    drain: Duration,
    store: SharedStore,
    spool: Option<Arc<Spool>>,
    reloader: Arc<Reloader>,
    /// Callbacks, messages, replies, and the spool where there is one.
    flow: Vec<Task>,
    /// Of alarms and spans.
    tellers: Vec<Task>,
    flusher: Task,
    admin: Task,
    _lock: PathLock,
}

impl App {
    /// Opens the store and the records, binds both listeners and starts every loop.
    ///
    /// # Errors
    /// [`AppError`]; nothing is left running then.
    pub async fn start(settings: Settings) -> Result<Self, AppError> {
        Self::start_of(settings, None).await
    }

    /// As [`App::start`], with settings that were read from `file`: they can be read again ([`App::reloader`]).
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn start_from(settings: Settings, file: PathBuf) -> Result<Self, AppError> {
        Self::start_of(settings, Some(file)).await
    }

    async fn start_of(settings: Settings, file: Option<PathBuf>) -> Result<Self, AppError> {
        // Fails only where another gateway of this process installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let lock = lock_path(&settings.store.path)?;
        let (parts, Tellers { notifier, exporter }) = Parts::open(settings, file).await?;
        let (loops, state) = Loops::new(&parts)?;
        let settings = parts.in_force.settings();
        // The rest is for robots, actions, the store and the records.
        let public = (open_files() / 2).saturating_sub(OPERATORS).max(1);
        let (callbacks, callback_addr) = listen("server.listen", settings.server.listen).await?;
        let (operators, admin_addr) = listen("admin.listen", settings.admin.listen).await?;
        info!(%callback_addr, %admin_addr, apps = settings.apps.len(), "the gateway takes callbacks");
        let (ingress, flusher) = (parts.ingress(), parts.flusher());
        let mut flow =
            vec![Task::spawn("ingress", |stop| listener::serve(callbacks, ingress.router(), public, stop.draining))];
        flow.extend(loops.spawn());
        let notifier = notifier.map(Arc::new).map(|notifier| {
            Task::supervise("alarms", notifier, |notifier, stop| async move { notifier.run(stop.draining).await })
        });
        let exporter = exporter.map(Arc::new).map(|exporter| {
            Task::supervise("spans", exporter, |exporter, stop| async move { exporter.run(stop.draining).await })
        });
        let tellers = notifier.into_iter().chain(exporter).collect();
        let flusher =
            Task::supervise("flusher", flusher, |flusher, stop| async move { flusher.run(stop.draining).await });
        let admin =
            Task::spawn("admin", |stop| listener::serve(operators, admin::router(state), OPERATORS, stop.draining));
        let Parts { store, spool, reloader, telemetry, .. } = parts;
        Ok(Self {
            callback_addr,
            admin_addr,
            health: telemetry.health,
            drain: settings.server.drain,
            store,
            spool,
            reloader,
            flow,
            tellers,
            flusher,
            admin,
            _lock: lock,
        })
    }

    /// Reads the configuration again.
    pub fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    /// Where callbacks are taken.
    pub fn callback_addr(&self) -> SocketAddr {
        self.callback_addr
    }

    /// Where operators are served.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Begins nothing more, finishes what is under way as far as `server.drain` goes, and answers when all is done. What
    /// has not begun stays in the store.
    pub async fn stop(self) {
        self.health.drain();
        let cut = Instant::now() + self.drain;
        self.flow.iter().for_each(|task| task.stop.draining.cancel());
        let mut late = Vec::new();
        for mut task in self.flow {
            if !task.ends_by(cut).await {
                late.push(task);
            }
        }
        late.iter().for_each(|task| task.stop.cut.cancel());
        for task in late {
            task.finish(cut + GIVING_BACK).await;
        }
        let end = Instant::now() + CLOSING;
        say_what_is_left(&self.store, self.spool.as_deref()).await;
        let last: Vec<Task> = [self.flusher, self.admin].into_iter().chain(self.tellers).collect();
        last.iter().for_each(|task| task.stop.draining.cancel());
        for task in last {
            task.finish(end).await;
        }
    }
}

/// Says what the next start, or another process, will find.
async fn say_what_is_left(store: &SharedStore, spool: Option<&Spool>) {
    let spooled = spool.map_or(0, Spool::depth);
    match timeout(LAST_WORD, store.depth()).await {
        Ok(Ok(Depth { in_lanes, out_lanes, journal, .. })) => {
            info!(in_lanes, out_lanes, journal, spooled, "what is left in the store");
        }
        Ok(Err(_)) | Err(_) => info!(spooled, "what is left in the store can't be told: it does not answer"),
    }
}

async fn listen(key: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), AppError> {
    let failed = |cause| AppError::Listen { key, address, cause };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// How many files (connections and all else) this process may have open; the soft limit is raised to the hard one.
fn open_files() -> usize {
    let limit = rlimit::increase_nofile_limit(MOST_FILES).unwrap_or_else(|error| {
        warn!(%error, "the limit of open files could not be read");
        FEW_FILES
    });
    usize::try_from(limit).unwrap_or(usize::MAX)
}
