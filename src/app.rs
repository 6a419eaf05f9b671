//! One gateway, put together: everything hangs off one [`App`], so two of them fit in one process.
//!
//! Every background loop has a name, a supervisor that starts it again should it panic, and a way to stop. At a stop
//! nothing new is begun, anywhere, from that moment on. What is under way (callbacks, messages, sends) has `server.drain` to
//! finish; then it is dropped and its leases are given back. The records and the operators' listener go last.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{error, info, warn};

use crate::action::{self, Actions};
use crate::admin::{self, AdminState};
use crate::alarms::{Clients, Notifier};
use crate::config::Settings;
use crate::config::settings::Backend;
use crate::directory::Directory;
use crate::externalcontact::ExternalContact;
use crate::hands::Hands;
use crate::ingress::{Ingress, Intake, Replay};
use crate::listener;
use crate::push::{Awaiting, Compensator, Desk, Kafka, KafkaFault};
use crate::records::{Copies, Flusher, Records, RecordsError};
use crate::report::Reporter;
use crate::rules::RuleError;
use crate::sender::{self, Sender};
use crate::setup::{InForce, Reloader};
use crate::stop::Stop;
use crate::store::embedded::EmbeddedStore;
use crate::store::lock::{PathLock, lock_path};
use crate::store::redis::RedisStore;
use crate::store::{Depth, SharedStore, Spool, StoreError};
use crate::telemetry::{Health, Metrics, Recent, Spans, Telemetry};
use crate::worker::{Sources, Workers};

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
    notifier: Option<Task>,
    exporter: Option<Task>,
    flusher: Task,
    admin: Task,
    _lock: PathLock,
}

/// A background loop and its way to stop.
struct Task {
    name: &'static str,
    stop: Stop,
    handle: JoinHandle<()>,
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
        let store = open_store(&settings)?;
        refuse_foreign(&store).await?;
        let spool = open_spool(&settings)?;
        let records = Records::open(&settings.database.url).await?.in_zone(settings.database.zone.clone());
        let records = records.telling_results(settings.kafka.is_some());
        let copies = Arc::new(Copies::new(settings.database.zone.clone()));
        let in_force = InForce::new(settings)?;
        let reloader = Arc::new(Reloader::new(in_force.clone(), file));
        let settings = in_force.settings();
        let (metrics, health) = (Arc::new(Metrics::default()), Arc::new(Health::default()));
        let robots = sender::channel::http_client(&settings.sender)?;
        let http = action::http_client()?;
        let clients = Clients { robots: robots.clone(), actions: http.clone() };
        let (alarms, notifier) =
            Notifier::new(&settings.alarms, store.clone(), clients, metrics.clone(), health.clone());
        let (spans, exporter) = Spans::new(settings.telemetry.as_ref(), &http, &metrics);
        let telemetry = Telemetry {
            alarms: alarms.clone(),
            metrics: metrics.clone(),
            health: health.clone(),
            spans: spans.clone(),
        };
        let wecom = Arc::new(ExternalContact::new(store.clone(), &settings, robots.clone()));
        let directory = Arc::new(Directory::new(store.clone(), in_force.clone(), wecom.clone()));
        let awaiting =
            Arc::new(Awaiting::new(store.clone(), records.clone(), in_force.clone(), wecom, telemetry.clone()));
        let sources = Sources { actions: Actions::new(http), directory: directory.clone(), records: records.clone() };
        let workers = Arc::new(Workers::new(store.clone(), in_force.clone(), sources, telemetry.clone()));
        let report_client = robots.clone();
        let sender = Arc::new(Sender::new(store.clone(), in_force.clone(), robots, telemetry.clone()));
        let flusher = Arc::new(Flusher::new(
            store.clone(),
            records.clone(),
            copies.clone(),
            &settings.database,
            telemetry.clone(),
        ));
        let intake = Intake::new(store.clone(), spool.clone(), alarms.clone(), metrics.clone());
        let recent = Arc::new(Recent::default());
        let ingress = Ingress::new(in_force.clone(), intake, copies, metrics.clone(), recent.clone(), spans.clone());
        let replay = spool
            .clone()
            .map(|spool| Arc::new(Replay::new(store.clone(), spool, settings.store.lane_depth, telemetry.clone())));
        let reporter = Reporter::new(store.clone(), records.clone(), in_force.clone(), report_client, health.clone());
        let desk = Arc::new(Desk::new(store.clone(), in_force.clone(), telemetry.clone()));
        let kafka = Kafka::open(&settings, desk.clone(), (store.clone(), records.clone()), &telemetry)?.map(Arc::new);
        let hands = Arc::new(Hands::new(store.clone(), records.clone(), in_force.clone()));
        // Nobody outside can be asked yet: WeCom tells of no message that was sent by these channels.
        let witnesses = Vec::new();
        let compensator =
            Compensator::new(records.clone(), hands.clone(), in_force.clone(), witnesses, telemetry.clone());
        let state = AdminState {
            desk,
            hands,
            store: store.clone(),
            spool: spool.clone(),
            records,
            in_force,
            reloader: reloader.clone(),
            recent,
            holds: sender.holds(),
            spans,
            alarms,
            metrics,
            kafka: kafka.clone(),
            health: health.clone(),
        };

        // The rest is for robots, actions, the store and the records.
        let public = (open_files() / 2).saturating_sub(OPERATORS).max(1);
        let (callbacks, callback_addr) = listen("server.listen", settings.server.listen).await?;
        let (operators, admin_addr) = listen("admin.listen", settings.admin.listen).await?;
        info!(%callback_addr, %admin_addr, apps = settings.apps.len(), "the gateway takes callbacks");
        let mut flow = vec![
            Task::spawn("ingress", |stop| listener::serve(callbacks, ingress.router(), public, stop.draining)),
            Task::supervise("workers", workers, |workers, stop| async move { workers.run(stop).await }),
            Task::supervise("sender", sender, |sender, stop| async move { sender.run(stop).await }),
            Task::supervise("directory", directory, |asks, stop| async move { asks.run(stop.draining).await }),
            Task::supervise("report", Arc::new(reporter), |tells, stop| async move { tells.run(stop.draining).await }),
            Task::supervise("compensator", Arc::new(compensator), |looks, stop| async move {
                looks.run(stop.draining).await;
            }),
            Task::supervise("awaiting", awaiting, |asks, stop| async move { asks.run(stop).await }),
            Task::supervise("watch", reloader.clone(), |files, stop| async move { files.watch(stop.draining).await }),
        ];
        flow.extend(replay.map(|replay| {
            Task::supervise("replay", replay, |replay, stop| async move { replay.run(stop.draining).await })
        }));
        flow.extend(
            kafka.map(|kafka| Task::supervise("kafka", kafka, |kafka, stop| async move { kafka.run(stop).await })),
        );
        let notifier = notifier.map(Arc::new).map(|notifier| {
            Task::supervise("alarms", notifier, |notifier, stop| async move { notifier.run(stop.draining).await })
        });
        let flusher =
            Task::supervise("flusher", flusher, |flusher, stop| async move { flusher.run(stop.draining).await });
        let admin =
            Task::spawn("admin", |stop| listener::serve(operators, admin::router(state), OPERATORS, stop.draining));
        let exporter = exporter.map(Arc::new).map(|exporter| {
            Task::supervise("spans", exporter, |exporter, stop| async move { exporter.run(stop.draining).await })
        });
        let drain = settings.server.drain;
        Ok(Self {
            callback_addr,
            admin_addr,
            health,
            drain,
            store,
            spool,
            reloader,
            flow,
            notifier,
            exporter,
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
        let last: Vec<Task> =
            [self.flusher, self.admin].into_iter().chain(self.notifier).chain(self.exporter).collect();
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

fn open_spool(settings: &Settings) -> Result<Option<Arc<Spool>>, StoreError> {
    let path = &settings.store.path;
    match settings.store.spool_limit {
        Some(limit) => Ok(Some(Arc::new(Spool::open(path, limit)?))),
        None => {
            match Spool::left_behind(path)? {
                0 => {}
                messages => warn!(
                    messages,
                    "acked messages wait in the spool of {}: start once with [store] backend = \"redis\" and spool = true",
                    path.display()
                ),
            }
            Ok(None)
        }
    }
}

fn open_store(settings: &Settings) -> Result<SharedStore, StoreError> {
    let options = settings.store_options();
    Ok(match settings.store.backend {
        Backend::Embedded => EmbeddedStore::open(&settings.store.path, options)?,
        Backend::Redis => RedisStore::open(&settings.store.redis, options)?,
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
    fn spawn<F>(name: &'static str, make: impl FnOnce(Stop) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = Stop::default();
        let handle = tokio::spawn(make(stop.clone()));
        Self { name, stop, handle }
    }

    /// Runs a loop until it returns by itself; a panic is logged and it is started again.
    fn supervise<T, F>(name: &'static str, of: Arc<T>, run: impl Fn(Arc<T>, Stop) -> F + Send + 'static) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self::spawn(name, |stop| async move {
            while AssertUnwindSafe(run(of.clone(), stop.clone())).catch_unwind().await.is_err() {
                error!(name, "a loop panicked; it starts again");
                tokio::time::sleep(RESTART).await;
            }
        })
    }

    /// Waits for its end, at most until `limit`; answers whether it came.
    async fn ends_by(&mut self, limit: Instant) -> bool {
        timeout_at(limit, &mut self.handle).await.is_ok()
    }

    /// Waits for its end, at most until `limit`, and ends it then.
    async fn finish(mut self, limit: Instant) {
        if !self.ends_by(limit).await {
            warn!(name = self.name, "not finished in time; what is under way is left to its lease");
            self.handle.abort();
        }
    }
}
