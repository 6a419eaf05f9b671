//! The workers alone, on a store that holds back its answers.

use std::sync::Arc;

use wecom_gateway::action::{self, Actions};
use wecom_gateway::directory::Directory;
use wecom_gateway::externalcontact::ExternalContact;
use wecom_gateway::records::Records;
use wecom_gateway::setup::InForce;
use wecom_gateway::sim::{FakeWeCom, Options, Scenario};
use wecom_gateway::stop::Stop;
use wecom_gateway::store::SharedStore;
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::telemetry::Telemetry;
use wecom_gateway::worker::{Sources, Workers};

use crate::callback::gated::Gated;
use crate::store::{LONG, arrival, enqueue, patiently};

/// What was claimed while the stop came would else lie still for a lease.
#[tokio::test]
async fn a_stop_amid_a_claim_gives_the_lanes_back() {
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
    let actions = Actions::new(http);
    let directory = Directory::new(shared.clone(), in_force.clone(), wecom);
    let directory = Arc::new(directory);
    let sources = Sources { actions, directory, records };
    let workers = Workers::new(shared.clone(), in_force, sources, Telemetry::unheard());

    store.hold_claims(true);
    enqueue(&shared, arrival("c1", "u1", "m1", "r1")).await;
    let stop = Stop::default();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { workers.run(stop).await }
    });
    store.until_claimed(1).await;
    stop.draining.cancel();
    // On one thread: the workers see the stop before the claim's answer.
    tokio::task::yield_now().await;
    store.hold_claims(false);
    patiently(running).await.unwrap();
    let claimed = shared.claim_messages(1, LONG).await.unwrap();
    assert_eq!(claimed.items.len(), 1, "free at once: {claimed:?}");
}
