//! Death over replies that left as one message: each of them ends as that one message did, whatever the next process finds.

use wecom_gateway::sim::Tag;

use super::fleet::{Fleet, Setup};
use super::traffic::{WeCom, query};
use crate::on_both_stores;
use crate::world::{APP, On, key};

on_both_stores!(before_they_were_written, after_they_were_written, before_they_were_settled, after_they_were_settled);

async fn before_they_were_written(on: On) {
    dies(on, "begun", 0, "unknown").await;
}

async fn after_they_were_written(on: On) {
    dies(on, "written", 1, "unknown").await;
}

async fn before_they_were_settled(on: On) {
    dies(on, "settling", 1, "unknown").await;
}

async fn after_they_were_settled(on: On) {
    dies(on, "settled", 1, "delivered").await;
}

/// Dies at `point` over the second send, which carries the replies to the second to fifth message.
async fn dies(on: On, point: &str, arrived: usize, outcome: &str) {
    let mut fleet = Fleet::new(Setup { pace: "1/s", ..Setup::new(on) }).await;
    fleet.start(0, Some(&format!("{point}:2"))).await;
    let wecom = WeCom::of(&fleet);
    fleet.fake.hold(&key("c0"));
    for serial in 1..=5 {
        assert!(wecom.push(&query("c0", "u1", serial)).await.acked);
    }
    while fleet.api(&format!("chats/{APP}/c0")).await["depth"] != 5 {}
    fleet.fake.until(|fake| fake.under_way(&key("c0")) == 1).await;
    fleet.fake.release(&key("c0"));
    fleet.ends(0).await;
    fleet.start(0, None).await;
    assert_eq!(fleet.outcome("m%2F1%2B%3D").await.0, "delivered");
    for serial in 2..=5 {
        assert_eq!(fleet.outcome(&format!("m%2F{serial}%2B%3D")).await.0, outcome, "{serial}");
    }
    // The lane goes on, and nothing comes again.
    assert!(wecom.push(&query("c0", "u1", 6)).await.acked);
    assert_eq!(fleet.outcome("m%2F6%2B%3D").await.0, "delivered");
    let tags: Vec<Vec<u64>> =
        fleet.fake.texts(&key("c0")).iter().map(|text| Tag::all(text).map(|tag| tag.serial).collect()).collect();
    let want = [vec![vec![1]], vec![vec![2, 3, 4, 5]; arrived], vec![vec![6]]].concat();
    assert_eq!((tags, fleet.fake.ledger().violations()), (want, vec![]));
    fleet.end().await;
}
