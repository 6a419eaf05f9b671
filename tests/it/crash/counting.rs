//! Ten members of one chat, ten quick messages each, over two processes: each counts their own in `vars`, nobody loses a
//! step and nobody sees another's.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use wecom_gateway::sim::{ServiceAnswer, Tag};

use super::fleet::{Fleet, Setup};
use super::traffic::{Posted, WeCom, query};
use super::verdict::judge;
use crate::world::{On, TEST, key};

const MEMBERS: u64 = 10;
const MESSAGES: u64 = 10;
/// Long enough for the other process to find work meanwhile.
const WORK: Duration = Duration::from_millis(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_two_processes_loses_and_mixes_nothing() {
    let test = async {
        let fleet = Fleet::started(Setup { gateways: 2, ..Setup::new(On::Redis) }).await;
        fleet.fake.service().always("orders", ServiceAnswer::Counted.after(WORK));
        // A member writes again once the last message was acked, by whichever gateway: nobody waits for answers.
        let members = (0..MEMBERS).map(|member| {
            let wecom = WeCom::of(&fleet);
            async move {
                let mut posted = Vec::new();
                for n in 1..=MESSAGES {
                    posted.push(wecom.push(&query("c0", &format!("u{member}"), MESSAGES * member + n)).await);
                }
                posted
            }
        });
        let posted: Vec<Posted> = join_all(members).await.into_iter().flatten().collect();
        // Among others, that no call saw what is another member's.
        judge(&fleet, &posted, &[], TEST).await.assert_clean();

        let mut counts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for text in fleet.fake.texts(&key("c0")) {
            let n = text.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{text}"));
            counts.entry(Tag::of(&text).expect("a tag").sender).or_default().push(n);
        }
        assert_eq!(counts.len() as u64, MEMBERS);
        for (sender, counted) in counts {
            assert_eq!(counted, (1..=MESSAGES).collect::<Vec<_>>(), "{sender}");
        }
        for place in 0..2 {
            assert!(handled(&fleet, place).await > 0, "gateway {place} had a part in it");
        }
        fleet.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

/// How many messages the gateway of this place handled.
async fn handled(fleet: &Fleet, place: usize) -> u64 {
    let url = format!("http://{}/metrics", fleet.gateway(place).admin);
    let metrics = fleet.http.get(url).send().await.unwrap().text().await.unwrap();
    let counts =
        metrics.lines().filter_map(|line| line.strip_prefix("wecom_gateway_messages_total{")?.rsplit_once(' '));
    counts.map(|(_, n)| n.parse::<u64>().unwrap()).sum()
}
