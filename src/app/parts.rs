//! What the parts of one gateway share: the store and its spool, the records, what is in force, whom they tell, whom they ask.

use std::path::PathBuf;
use std::sync::Arc;

use tracing::warn;

use crate::action;
use crate::admin::AdminState;
use crate::alarms::{Clients, Notifier};
use crate::config::Settings;
use crate::config::settings::Backend;
use crate::hands::Hands;
use crate::ingress::{Ingress, Intake, Replay};
use crate::push::{Desk, Kafka};
use crate::records::{Copies, Flusher, Records};
use crate::rush::Rush;
use crate::sender::{self, Holds};
use crate::setup::{InForce, Reloader};
use crate::store::embedded::EmbeddedStore;
use crate::store::redis::RedisStore;
use crate::store::{SharedStore, Spool, StoreError};
use crate::telemetry::{Exporter, Health, Metrics, Recent, Spans, Telemetry};

use super::AppError;

/// One of each in a gateway; a clone is the same ones.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: SharedStore,
    /// Where there is one.
    pub(super) spool: Option<Arc<Spool>>,
    pub(super) records: Records,
    pub(super) copies: Arc<Copies>,
    pub(super) rush: Arc<Rush>,
    pub(super) in_force: Arc<InForce>,
    pub(super) reloader: Arc<Reloader>,
    pub(super) telemetry: Telemetry,
    /// What callbacks were taken and refused lately.
    pub(super) recent: Arc<Recent>,
    pub(super) clients: Clients,
}

/// What tells others of a gateway, where the configuration names anybody to tell.
pub(super) struct Tellers {
    /// Of alarms.
    pub(super) notifier: Option<Notifier>,
    /// Of spans.
    pub(super) exporter: Option<Exporter>,
}

impl Parts {
    /// Opens the store, the spool and the records; beside them what tells others of them.
    pub(super) async fn open(settings: Settings, file: Option<PathBuf>) -> Result<(Self, Tellers), AppError> {
        let store = open_store(&settings)?;
        refuse_foreign(&store).await?;
        let spool = open_spool(&settings)?;
        let records = Records::open(&settings.database.url).await?.in_zone(settings.database.zone.clone());
        let records = records.telling_results(settings.kafka.is_some());
        let copies = Arc::new(Copies::new(settings.database.zone.clone()));
        let in_force = InForce::new(settings)?;
        let settings = in_force.settings();
        let (metrics, health) = (Arc::new(Metrics::default()), Arc::new(Health::default()));
        let reloader = Arc::new(Reloader::new(in_force.clone(), file, store.clone(), metrics.clone()));
        let clients =
            Clients { robots: sender::channel::http_client(&settings.sender)?, actions: action::http_client()? };
        let (alarms, notifier) =
            Notifier::new(&settings.alarms, store.clone(), clients.clone(), metrics.clone(), health.clone());
        let (spans, exporter) = Spans::new(settings.telemetry.as_ref(), &clients.actions, &metrics);
        let telemetry = Telemetry { alarms, metrics, health, spans };
        let tellers = Tellers { notifier, exporter };
        let recent = Arc::new(Recent::default());
        let rush = Arc::default();
        let parts = Self { store, spool, records, copies, rush, in_force, reloader, telemetry, recent, clients };
        Ok((parts, tellers))
    }

    /// Where callbacks come in.
    pub(super) fn ingress(&self) -> Ingress {
        let Self { store, spool, copies, rush, in_force, telemetry, recent, .. } = self.clone();
        let intake = Intake::new(store, spool, telemetry.alarms, telemetry.metrics.clone());
        Ingress::new(in_force, intake, copies, telemetry.metrics, recent, telemetry.spans, rush)
    }

    /// What carries the spool into the store, where there is one.
    pub(super) fn replay(&self) -> Option<Replay> {
        let room = self.in_force.settings().store.lane_depth;
        let spool = self.spool.clone()?;
        Some(Replay::new(self.store.clone(), spool, room, self.telemetry.clone()))
    }

    /// What carries the journal into the records.
    pub(super) fn flusher(&self) -> Arc<Flusher> {
        let Self { store, records, copies, rush, in_force, telemetry, .. } = self.clone();
        Arc::new(Flusher::new(store, records, copies, rush, &in_force.settings().database, telemetry))
    }

    /// What operators see and change.
    pub(super) fn admin_state(
        &self,
        desk: Arc<Desk>,
        hands: Arc<Hands>,
        holds: Arc<Holds>,
        kafka: Option<Arc<Kafka>>,
    ) -> AdminState {
        let Self { store, spool, records, in_force, reloader, telemetry, recent, .. } = self.clone();
        let Telemetry { alarms, metrics, health, spans } = telemetry;
        AdminState {
            desk,
            hands,
            store,
            spool,
            records,
            in_force,
            reloader,
            recent,
            holds,
            alarms,
            metrics,
            kafka,
            spans,
            health,
            refusals: Arc::default(),
        }
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
