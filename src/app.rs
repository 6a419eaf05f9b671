//! One gateway, put together: everything hangs off one [`App`], so two of them fit in one process.
//!
//! Every background loop has a name, a supervisor that starts it again should it panic, and a way to stop. Stopping
//! goes with the flow: no new callbacks, then the workers, the senders and the records finish what is under way.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::action::{self, Actions};
use crate::admin::{self, AdminState};
use crate::config::Settings;
use crate::config::settings::Backend;
use crate::ingress::Ingress;
use crate::listener;
use crate::records::{Flusher, Records, RecordsError};
use crate::rules::RuleError;
use crate::sender::route::Routes;
use crate::sender::{self, Sender};
use crate::store::embedded::EmbeddedStore;
use crate::store::lock::{PathLock, lock_path};
use crate::store::redis::RedisStore;
use crate::store::{SharedStore, StoreError};
use crate::telemetry::{Health, Metrics};
use crate::worker::Workers;

/// How long stopping may take for what is under way, each of: callbacks, messages, replies, records.
const DRAIN: Duration = Duration::from_secs(8);
/// Connections of operators at once.
const OPERATORS: usize = 64;
/// More open files than this are not asked for.
const MOST_FILES: u64 = 65_536;
/// What any system allows.
const FEW_FILES: u64 = 256;
/// How long a loop that panicked stays down.
const RESTART: Duration = Duration::from_secs(1);

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
    /// An HTTP client.
    #[error("no HTTP client: {0}")]
    Http(#[from] reqwest::Error),
}

/// A running gateway.
pub struct App {
    callback_addr: SocketAddr,
    admin_addr: SocketAddr,
    health: Arc<Health>,
    ingress: Task,
    workers: Task,
    sender: Task,
    flusher: Task,
    admin: Task,
    _lock: PathLock,
}

/// A background loop and its way to stop.
struct Task {
    name: &'static str,
    stop: CancellationToken,
    handle: JoinHandle<()>,
}

impl App {
    /// Opens the store and the records, binds both listeners and starts every loop.
    pub async fn start(settings: Settings) -> Result<Self, AppError> {
        // Fails only where another gateway of this process installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let settings = Arc::new(settings);
        let lock = lock_path(&settings.store.path)?;
        let store = open_store(&settings)?;
        refuse_foreign(&store).await?;
        let records = Records::open(&settings.database.url).await?;
        let (metrics, health) = (Arc::new(Metrics::default()), Arc::new(Health::default()));
        let routes = Arc::new(Routes::new(&settings));
        let actions = Actions::new(action::http_client()?);
        let workers =
            Workers::new(store.clone(), settings.clone(), routes.clone(), actions, metrics.clone(), health.clone())?;
        let sender = Sender::new(
            store.clone(),
            settings.clone(),
            routes.clone(),
            sender::channel::http_client(&settings.sender)?,
            metrics.clone(),
            health.clone(),
        );
        let flusher =
            Flusher::new(store.clone(), records.clone(), settings.database.retain, metrics.clone(), health.clone());
        let ingress = Ingress::new(settings.clone(), store.clone(), metrics.clone());
        let holds = sender.holds();
        let state =
            AdminState { store, records, settings: settings.clone(), routes, holds, metrics, health: health.clone() };

        // The rest is for robots, actions, the store and the records.
        let public = (open_files() / 2).saturating_sub(OPERATORS).max(1);
        let (callbacks, callback_addr) = listen("server.listen", settings.server.listen).await?;
        let (operators, admin_addr) = listen("admin.listen", settings.admin.listen).await?;
        info!(%callback_addr, %admin_addr, apps = settings.apps.len(), "the gateway takes callbacks");
        let (workers, sender, flusher) = (Arc::new(workers), Arc::new(sender), Arc::new(flusher));
        Ok(Self {
            callback_addr,
            admin_addr,
            health,
            ingress: Task::spawn("ingress", |stop| listener::serve(callbacks, ingress.router(), public, stop)),
            workers: Task::supervise("workers", move |stop| {
                let workers = workers.clone();
                async move { workers.run(stop).await }
            }),
            sender: Task::supervise("sender", move |stop| {
                let sender = sender.clone();
                async move { sender.run(stop).await }
            }),
            flusher: Task::supervise("flusher", move |stop| {
                let flusher = flusher.clone();
                async move { flusher.run(stop).await }
            }),
            admin: Task::spawn("admin", |stop| listener::serve(operators, admin::router(state), OPERATORS, stop)),
            _lock: lock,
        })
    }

    /// Where callbacks are taken.
    pub fn callback_addr(&self) -> SocketAddr {
        self.callback_addr
    }

    /// Where operators are served.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Takes no more callbacks, finishes what is under way, and answers when all is done. What has not begun stays
    /// in the store.
    pub async fn stop(self) {
        self.health.drain();
        for task in [self.ingress, self.workers, self.sender, self.flusher, self.admin] {
            task.finish().await;
        }
    }
}

fn open_store(settings: &Settings) -> Result<SharedStore, StoreError> {
    Ok(match settings.store.backend {
        Backend::Embedded => EmbeddedStore::open(&settings.store.path, settings.store.shards)?,
        Backend::Redis => RedisStore::open(&settings.store.redis, settings.store.shards)?,
    })
}

/// A store that is away may come back; one that was set up for something else won't.
async fn refuse_foreign(store: &SharedStore) -> Result<(), StoreError> {
    match store.ping().await {
        Err(StoreError::Refused(why)) => Err(StoreError::Refused(why)),
        Ok(()) | Err(_) => Ok(()),
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

impl Task {
    fn spawn<F>(name: &'static str, make: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let handle = tokio::spawn(make(stop.clone()));
        Self { name, stop, handle }
    }

    /// Runs what `make` makes until it returns by itself; a panic is logged and it is made again.
    fn supervise<F>(name: &'static str, make: impl Fn(CancellationToken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::spawn(name, |stop| async move {
            while AssertUnwindSafe(make(stop.clone())).catch_unwind().await.is_err() {
                error!(name, "a loop panicked; it starts again");
                tokio::time::sleep(RESTART).await;
            }
        })
    }

    async fn finish(self) {
        self.stop.cancel();
        let abort = self.handle.abort_handle();
        if tokio::time::timeout(DRAIN, self.handle).await.is_err() {
            warn!(name = self.name, "not finished in time; what is under way is left to its lease");
            abort.abort();
        }
    }
}
