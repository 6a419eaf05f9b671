//! One task to many chats, from several sides at once.

use std::collections::HashMap;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{to, until};
use crate::on_both_stores;
use crate::world::{APP, On, TEST, World};

on_both_stores!(a_list_of_chats_is_a_delivery_for_each);

fn chats(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("c{n}")).collect()
}

/// How often each chat got something.
fn arrivals(world: &World) -> HashMap<String, usize> {
    let mut times = HashMap::new();
    for sent in world.fake.arrived() {
        *times.entry(sent.chat).or_default() += 1;
    }
    times
}

async fn a_list_of_chats_is_a_delivery_for_each(on: On) {
    let chats = chats(250);
    let names: Vec<&str> = chats.iter().map(String::as_str).collect();
    let world = World::new(on, &names).await;
    let task = to("t1", json!({"chats": chats}), "hi");
    let (status, answer) = world.post("push", &task).await;
    assert_eq!((status, &answer[0]["task_id"]), (202, &json!("t1")), "{answer}");
    let first = until(&world, "t1", "delivered").await;
    assert_eq!((&first["counts"], first["items"].as_array().map(Vec::len)), (&json!({"delivered": 250}), Some(100)));
    // Its pages, in the order of the task.
    let mut seen: Vec<Value> = Vec::new();
    let mut page = first;
    loop {
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["chat"].clone()));
        let Some(next) = page["next"].as_str().map(str::to_owned) else { break };
        page = world.api(&format!("push/t1?cursor={next}"), |page| page["items"].is_array()).await;
    }
    assert_eq!(seen, chats);
    assert!(chats.iter().all(|chat| arrivals(&world)[chat] == 1));
    let trails = world
        .api("messages/t1?limit=1000", |found| found["items"].as_array().is_some_and(|all| all.len() == 250))
        .await;
    assert_eq!(trails["items"][0]["app"], APP);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_hands_at_two_gateways_send_it_once() {
    let test = async {
        let chats = chats(220);
        let names: Vec<&str> = chats.iter().map(String::as_str).collect();
        let world = World::new(On::Redis, &names).await;
        let second = world.second().await;
        let task = to("t1", json!({"chats": chats}), "hi");
        let http = reqwest::Client::new();
        let at = [world.app.admin_addr(), second.admin_addr()];
        let posts = (0..10).map(async |n| {
            let answer = http.post(format!("http://{}/api/v1/push", at[n % 2])).json(&task).send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        });
        for (status, answer) in join_all(posts).await {
            assert_eq!(status, 202, "{answer}");
        }
        assert_eq!(until(&world, "t1", "delivered").await["counts"], json!({"delivered": 220}));
        assert!(chats.iter().all(|chat| arrivals(&world)[chat] == 1));
        assert_eq!(world.fake.arrived().len(), 220);
        second.stop().await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
