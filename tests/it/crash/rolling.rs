//! Gateways come and go by SIGTERM, in turn and under load: nothing is lost, repeated, misplaced or left unknown, and each
//! ends with 0.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wecom_gateway::sim::{Options, WorkTime};

use super::fleet::{Fleet, Setup, chats};
use super::soak::seed;
use super::traffic::Traffic;
use super::verdict::judge;
use crate::world::{On, TEST};

const RESTARTS: u64 = 9;
const MESSAGES: u64 = 600;
const PATIENCE: Duration = Duration::from_secs(20);

async fn rolls(on: On, gateways: usize) {
    let seed = seed();
    let work = WorkTime { seed, from: Duration::from_millis(2), to: Duration::from_millis(60) };
    let fake = Options { latency: Duration::from_millis(8), work: Some(work), ..Options::default() };
    // Leases that outlast the test: nobody may have to wait for one.
    let lease = Duration::from_secs(120);
    let setup = Setup { gateways, chats: chats(12), fake, lease, ..Setup::new(on) };
    let mut fleet = Fleet::started(setup).await;
    let ledger = fleet.fake.ledger().clone();
    let traffic = Traffic { messages: MESSAGES, chats: chats(12), members: 2, seed, patience: PATIENCE, after: 0 };
    let traffic = tokio::spawn(traffic.begin(&fleet));
    let mut rng = StdRng::seed_from_u64(seed);
    for n in 0..RESTARTS {
        let from = n * MESSAGES / (RESTARTS + 1) + rng.random_range(1..20);
        fleet.fake.until(|_| ledger.progress().acked >= from).await;
        let place = n as usize % gateways;
        let ended = fleet.terminate(place).await;
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        fleet.start(place, None).await;
    }
    let posted = traffic.await.unwrap();
    let verdict = judge(&fleet, &posted, &[], PATIENCE).await;
    verdict.assert_clean();
    assert_eq!((verdict.unknown, verdict.asked_again), (0, 0), "{verdict}");
    // With one alone there is at times nobody whom WeCom could push to.
    assert!(gateways == 1 || verdict.acked == MESSAGES as usize, "{verdict}");
    for place in 0..gateways {
        assert_eq!(fleet.terminate(place).await.status.code(), Some(0));
    }
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_gateway_on_the_embedded_store() {
    tokio::time::timeout(TEST, rolls(On::Embedded, 1)).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_on_redis() {
    tokio::time::timeout(TEST, rolls(On::Redis, 2)).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_gateways_on_redis() {
    tokio::time::timeout(TEST, rolls(On::Redis, 3)).await.expect("within its time");
}
