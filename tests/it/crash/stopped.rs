//! A process asleep past its leases: another one takes over, and the sleeper, once awake, finds them lost and sends nothing.

use std::time::Duration;

use wecom_gateway::sim::{Tag, Violation};

use super::fleet::{Fleet, Setup};
use super::traffic::{WeCom, query};
use super::verdict::judge;
use crate::world::{On, TEST, key};

const PATIENCE: Duration = Duration::from_secs(20);
/// Leaves a send time to be seen under way before its patience ends, which is half of this.
const LEASE: Duration = Duration::from_secs(5);
/// Tells when a lease is found lost.
const LOG: &str = "warn,wecom_gateway::app=info,wecom_gateway::worker=debug,wecom_gateway::sender=debug";

/// Two gateways on one Redis, of which the first runs.
async fn first_of_two(trap: Option<&str>) -> Fleet {
    let mut fleet = Fleet::new(Setup { gateways: 2, log: LOG, lease: LEASE, ..Setup::new(On::Redis) }).await;
    fleet.start(0, trap).await;
    fleet
}

/// How often the reply to this message arrived.
fn arrivals(fleet: &Fleet, serial: u64) -> usize {
    let of = |text: &String| Tag::of(text).is_some_and(|tag| tag.serial == serial);
    fleet.fake.texts(&key("c0")).iter().filter(|text| of(text)).count()
}

/// Waits until the records hold this stage of the first message: a sleeper amid a write to them would keep others out.
async fn is_recorded(fleet: &Fleet, stage: &str) {
    let mut again = tokio::time::interval(Duration::from_millis(20));
    loop {
        again.tick().await;
        let trail = fleet.api("messages/m%2F1%2B%3D").await;
        if trail["items"][0]["stages"].as_array().is_some_and(|steps| steps.iter().any(|step| step["stage"] == stage)) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_message_it_handles() {
    let test = async {
        let mut fleet = first_of_two(None).await;
        fleet.fake.service().hold();
        let mut posted = vec![WeCom::of(&fleet).push(&query("c0", "u1", 1)).await];
        fleet.fake.until(|fake| fake.service().count() == 1).await;
        fleet.gateway(0).sleep();
        fleet.gateway(0).is_asleep().await;
        fleet.start(1, None).await;
        // The other one asks the action once the lease is over.
        fleet.fake.until(|fake| fake.service().count() == 2).await;
        fleet.fake.service().release();
        fleet.fake.until(|_| arrivals(&fleet, 1) == 1).await;
        fleet.gateway(0).wake();
        fleet.gateway(0).says("the lease was lost; another worker handles it").await;
        posted.push(WeCom::of(&fleet).push(&query("c0", "u1", 2)).await);
        let mut verdict = judge(&fleet, &posted, &[], PATIENCE).await;
        // The sleeper's call was still open, as far as the service could see: that much is in the nature of it.
        let at_once = Violation::HandledAtOnce { chat: "c0".into(), sender: "u1".into() };
        assert_eq!(fleet.fake.ledger().violations().iter().filter(|found| **found == at_once).count(), 1);
        verdict.out_of_order -= 1;
        verdict.assert_clean();
        assert_eq!((verdict.answered, verdict.asked_again, arrivals(&fleet, 1)), (2, 1, 1), "{verdict}");
        fleet.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_reply_it_is_about_to_begin() {
    let test = async {
        let mut fleet = first_of_two(Some("beginning:1:stop")).await;
        let mut posted = vec![WeCom::of(&fleet).push(&query("c0", "u1", 1)).await];
        fleet.gateway(0).is_asleep().await;
        assert_eq!(arrivals(&fleet, 1), 0);
        fleet.start(1, None).await;
        fleet.fake.until(|_| arrivals(&fleet, 1) == 1).await;
        fleet.gateway(0).wake();
        fleet.gateway(0).says("lease lost before begin").await;
        posted.push(WeCom::of(&fleet).push(&query("c0", "u1", 2)).await);
        let verdict = judge(&fleet, &posted, &[], PATIENCE).await;
        verdict.assert_clean();
        assert_eq!((verdict.answered, verdict.unknown, arrivals(&fleet, 1)), (2, 0, 1), "{verdict}");
        fleet.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_send_under_way() {
    let test = async {
        let mut fleet = first_of_two(None).await;
        fleet.fake.hold(&key("c0"));
        let mut posted = vec![WeCom::of(&fleet).push(&query("c0", "u1", 1)).await];
        fleet.fake.until(|fake| fake.under_way(&key("c0")) == 1).await;
        is_recorded(&fleet, "handled").await;
        let asleep_since = [wecom_gateway::model::now_ms()];
        fleet.gateway(0).sleep();
        fleet.gateway(0).is_asleep().await;
        fleet.start(1, None).await;
        // The other one finds it begun and settles it, unsent, once the lease is over.
        let verdict = judge(&fleet, &posted, &asleep_since, PATIENCE).await;
        verdict.assert_clean();
        assert_eq!((verdict.unknown, fleet.fake.posts(&key("c0"))), (1, 1), "{verdict}");
        fleet.fake.release(&key("c0"));
        fleet.fake.until(|fake| fake.under_way(&key("c0")) == 0).await;
        fleet.gateway(0).wake();
        fleet.gateway(0).says("lease lost before settle").await;
        posted.push(WeCom::of(&fleet).push(&query("c0", "u1", 2)).await);
        let verdict = judge(&fleet, &posted, &asleep_since, PATIENCE).await;
        verdict.assert_clean();
        assert_eq!((verdict.answered, verdict.unknown, arrivals(&fleet, 1)), (1, 1, 1), "{verdict}");
        fleet.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
