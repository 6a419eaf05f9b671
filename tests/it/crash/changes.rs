//! Death around an operator's change: what was answered is made and told, and told once.

use serde_json::{Value, json};
use tokio::time::timeout;

use super::fleet::{Fleet, Setup};
use crate::on_both_stores;
use crate::world::{APP, On, TEST};

on_both_stores!(right_after_it_was_answered, between_records_and_journal);

/// Pauses a chat; answers the status, where there was an answer.
async fn pause(fleet: &Fleet) -> Option<u16> {
    let url = format!("http://{}/api/v1/chats/{APP}/c0", fleet.gateway(0).admin);
    let asked = reqwest::Client::new().patch(url).json(&json!({"paused": true})).send().await;
    asked.ok().map(|answer| answer.status().as_u16())
}

/// The one change that there is, and that it was made.
async fn is_made_and_told_once(fleet: &Fleet) {
    let told = async {
        loop {
            let list: Value = fleet.api("changes").await;
            if list["items"] != json!([]) {
                return list;
            }
        }
    };
    let list = timeout(TEST, told).await.expect("it is told");
    let items = list["items"].as_array().expect("a list");
    assert_eq!((items.len(), &items[0]["by"]), (1, &json!("loopback")), "{list}");
    assert_eq!(items[0]["detail"], json!({"paused": {"from": false, "to": true}}));
    assert_eq!(fleet.api(&format!("chats/{APP}/c0")).await["state"], "paused");
}

async fn right_after_it_was_answered(on: On) {
    let mut fleet = Fleet::started(Setup::new(on)).await;
    assert_eq!(pause(&fleet).await, Some(200));
    fleet.kill(0);
    fleet.start(0, None).await;
    is_made_and_told_once(&fleet).await;
    fleet.end().await;
}

async fn between_records_and_journal(on: On) {
    let mut fleet = Fleet::new(Setup::new(on)).await;
    fleet.start(0, Some("recorded")).await;
    pause(&fleet).await;
    fleet.ends(0).await;
    fleet.start(0, None).await;
    is_made_and_told_once(&fleet).await;
    // The lines that were still in the journal are written again, and change nothing.
    fleet.terminate(0).await;
    fleet.start(0, None).await;
    is_made_and_told_once(&fleet).await;
    fleet.end().await;
}
