//! The workers alone, on a store that holds back its answers.

use std::sync::Arc;

use tokio::task::JoinHandle;
use wecom_gateway::action::{self, Actions};
use wecom_gateway::directory::Directory;
use wecom_gateway::externalcontact::ExternalContact;
use wecom_gateway::records::Records;
use wecom_gateway::rush::Rush;
use wecom_gateway::setup::InForce;
use wecom_gateway::sim::{FakeWeCom, Options, Scenario};
use wecom_gateway::stop::Stop;
use wecom_gateway::store::SharedStore;
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::telemetry::Telemetry;
use wecom_gateway::worker::{Sources, Workers};

use crate::callback::gated::Gated;
use crate::store::{LONG, arrival, enqueue, patiently};

struct Scene {
    store: Arc<Gated>,
    shared: SharedStore,
    rush: Arc<Rush>,
    workers: Option<Workers>,
    stop: Stop,
    _scenario: (FakeWeCom, Scenario),
}

impl Scene {
    async fn new() -> Self {
        // An error says that another test installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let scenario = Scenario::new(&fake).unwrap();
        let settings = wecom_gateway::config::load(&scenario.write().unwrap()).unwrap();
        let store = Gated::new(EmbeddedStore::open(&settings.store.path, settings.store_options()).unwrap());
        let shared: SharedStore = store.clone();
        let records = Records::open(&settings.database.url).await.unwrap();
        let in_force = InForce::new(settings).unwrap();
        let http = action::http_client().unwrap();
        let wecom = Arc::new(ExternalContact::new(shared.clone(), &in_force.settings(), http.clone()));
        let directory = Arc::new(Directory::new(shared.clone(), in_force.clone(), wecom));
        let sources = Sources { actions: Actions::new(http), directory, records };
        let rush = Arc::<Rush>::default();
        let workers = Workers::new(shared.clone(), in_force, sources, rush.clone(), Telemetry::unheard());
        Self { store, shared, rush, workers: Some(workers), stop: Stop::default(), _scenario: (fake, scenario) }
    }

    fn run(&mut self) -> JoinHandle<()> {
        let (workers, stop) = (self.workers.take().expect("they run once"), self.stop.clone());
        tokio::spawn(async move { workers.run(stop).await })
    }
}

/// What was claimed while the stop came would else lie still for a lease.
#[tokio::test]
async fn a_stop_amid_a_claim_gives_the_lanes_back() {
    let mut scene = Scene::new().await;
    scene.store.hold_claims(true);
    enqueue(&scene.shared, arrival("c1", "u1", "m1", "r1")).await;
    let running = scene.run();
    scene.store.until_claimed(1).await;
    scene.stop.draining.cancel();
    // On one thread: the workers see the stop before the claim's answer.
    tokio::task::yield_now().await;
    scene.store.hold_claims(false);
    patiently(running).await.unwrap();
    let claimed = scene.shared.claim_messages(1, LONG).await.unwrap();
    assert_eq!(claimed.items.len(), 1, "free at once: {claimed:?}");
}

/// Of an app that is not configured, so that each goes back as soon as it is claimed.
async fn begun_at_once(callbacks_under_way: usize) -> u64 {
    let mut scene = Scene::new().await;
    for n in 0..100 {
        enqueue(&scene.shared, arrival("c1", &format!("u{n}"), "m", &format!("r{n}"))).await;
    }
    let rush = scene.rush.clone();
    let _under_way: Vec<_> = (0..callbacks_under_way).map(|_| rush.enter()).collect();
    scene.store.hold_claims(true);
    let running = scene.run();
    scene.store.until_claimed(1).await;
    let begun = scene.shared.depth().await.unwrap().in_leases;
    scene.store.hold_claims(false);
    // A rush that does not end stops nobody.
    scene.store.until_claimed(4).await;
    scene.stop.draining.cancel();
    patiently(running).await.unwrap();
    begun
}

#[tokio::test]
async fn few_messages_are_begun_at_once_while_many_callbacks_wait_for_their_acks() {
    assert_eq!((begun_at_once(15).await, begun_at_once(16).await), (64, 16));
}
