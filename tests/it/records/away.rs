//! A database server that is away: gateways start without it, and go on once it is back.

use std::time::Duration;

use wecom_gateway::model::Secret;
use wecom_gateway::records::{Records, RecordsError};
use wecom_gateway::sim::{Answer, Options};

use super::life;
use crate::mariadb_server::MariaDb;
use crate::on_both_stores;
use crate::redis_server::free_port;
use crate::world::{On, TEST, World, key};

on_both_stores!(a_journal_that_waits_is_bounded_and_keeps_what_did_not_end_well);

async fn a_journal_that_waits_is_bounded_and_keeps_what_did_not_end_well(on: On) {
    const LIMIT: u64 = 30;
    let mut database = MariaDb::alone().await;
    let world = World::with(on, &["c1", "c2"], Options::default(), |_, scenario| {
        scenario.set("database", "url", database.url().expose()).set("database", "journal_limit", LIMIT)
    })
    .await;
    tokio::task::block_in_place(|| database.kill());
    // Refused for its content.
    world.fake.script(&key("c2"), [Answer::Errcode(40008).into()]);
    world.say("c2", "u1", "refused", "/echo x").await;
    world.fence("c2", "u1").await;
    for n in 0..15 {
        world.say("c1", "u1", &format!("m{n}"), "/echo y").await;
        world.say("c1", "u1", &format!("chatter{n}"), "y").await;
    }
    world.fence("c1", "u1").await;
    let mut look = tokio::time::interval(Duration::from_millis(20));
    while world.metric("depth{kind=\"journal\"}").await > LIMIT {
        look.tick().await;
    }
    assert!(world.metric("journal_lines_total{kind=\"given_up\"}").await > 0);
    tokio::task::block_in_place(|| database.start());
    assert_eq!(world.outcome("refused").await.0, "dead");
    world.ends("refused", "dead").await;
    let oldest = world.api("messages/m0", |answer| answer["items"].is_array()).await;
    assert_eq!(oldest["items"], serde_json::json!([]), "the oldest that ended well are gone");
    world.end().await;
}

#[tokio::test]
async fn a_server_that_is_away_at_the_start_is_found_later() {
    let mut database = MariaDb::alone().await;
    database.kill();
    let records = Records::open(&database.url()).await.expect("opens without it");
    let error = records.write(life(1, "delivered")).await.expect_err("it is away");
    assert!(error.is_transient(), "{error}");
    database.start();
    let written = tokio::time::timeout(TEST, async {
        while records.write(life(1, "delivered")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    written.await.expect("it is found again");
    // Killed once more, with connections open.
    database.kill();
    assert!(records.write(life(4, "dead")).await.is_err());
    database.start();
    let read = tokio::time::timeout(TEST, async {
        loop {
            match records.messages_by_id("m1", None, 1).await {
                Ok(page) => break page,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    assert_eq!(read.await.expect("it is found again").items.len(), 1);
}

#[tokio::test]
async fn what_nobody_mends_by_waiting_is_told_at_the_start_without_the_password() {
    let database = MariaDb::new().await;
    let wrong = database.url().expose().replace("root@", "nobody:p4ss@");
    let error = Records::open(&Secret::new(wrong)).await.expect_err("a stranger");
    assert!(matches!(error, RecordsError::Sql(_)) && !error.to_string().contains("p4ss"), "{error}");
    let nowhere = format!("mysql://root:p4ss@127.0.0.1:{}/db", free_port());
    let records = Records::open(&Secret::new(nowhere)).await.expect("away");
    let error = records.write(life(1, "dead")).await.expect_err("away");
    assert!(!error.to_string().contains("p4ss"), "{error}");
}
