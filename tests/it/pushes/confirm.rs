//! A robot that gives no answer: `unknown`, until somebody outside says whether it arrived.

use serde_json::{Value, json};
use wecom_gateway::sim::Answer;

use super::{push, task, to, until};
use crate::on_both_stores;
use crate::world::{On, World, key};

on_both_stores!(
    what_has_no_answer_is_unknown_and_not_sent_again,
    what_arrived_is_delivered_once_somebody_says_so,
    what_did_not_arrive_is_sent_again_once,
    a_word_on_nothing_is_refused,
);

/// Tasks `t1` into `c1`, of which nobody knows whether it arrived.
async fn unknown(on: On) -> World {
    let world = World::new(on, &["c1", "c2"]).await;
    world.fake.script(&key("c1"), [Answer::Cut.into()]);
    push(&world, &to("t1", json!({"chats": ["c1", "c2"]}), "hi")).await;
    until(&world, "t1", "unknown").await;
    world
}

async fn confirm(world: &World, word: Value) -> (u16, Value) {
    world.post("push/t1/confirm", &word).await
}

async fn what_has_no_answer_is_unknown_and_not_sent_again(on: On) {
    let world = unknown(on).await;
    let stands = world.api("push/t1", |task| task["counts"] == json!({"delivered": 1, "unknown": 1})).await;
    assert_eq!(stands["items"][0]["reason"], "no_answer", "{stands}");
    let listed = world.api("deliveries?state=unknown", |list| list["items"][0]["task_id"] == "t1").await;
    assert_eq!((&listed["items"][0]["msg_id"], &listed["items"][0]["chat"]), (&Value::Null, &json!("c1")));
    assert_eq!(push(&world, &to("t1", json!({"chats": ["c1", "c2"]}), "hi")).await[0]["repeat"], true);
    push(&world, &task("t2", "c1", "next")).await;
    until(&world, "t2", "delivered").await;
    assert_eq!((world.fake.posts(&key("c1")), world.fake.posts(&key("c2"))), (2, 1));
    world.end().await;
}

async fn what_arrived_is_delivered_once_somebody_says_so(on: On) {
    let world = unknown(on).await;
    let (status, answer) = confirm(&world, json!({"arrived": true})).await;
    assert_eq!((status, answer["items"].as_array().map(Vec::len)), (200, Some(1)), "{answer}");
    assert_eq!(answer["items"][0]["state"], "delivered");
    let stands = until(&world, "t1", "delivered").await;
    assert_eq!(stands["items"][0]["reason"], "confirmed", "{stands}");
    // The same word again changes nothing; the other one comes too late.
    assert_eq!(confirm(&world, json!({"arrived": true})).await, (200, json!({"task_id": "t1", "items": []})));
    let (status, answer) = confirm(&world, json!({"arrived": false})).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("not_unknown")), "{answer}");
    let trail = world.api("messages/t1", |found| found.to_string().contains("operated")).await;
    let item = trail["items"].as_array().unwrap().iter().find(|item| item["chat"] == "c1").unwrap().clone();
    assert_eq!((&item["outcome"], &item["reason"]), (&json!("delivered"), &json!("confirmed")), "{item}");
    let operated = item["stages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&operated["action"], &operated["by"]), (&json!("delivered"), &json!("loopback")), "{operated}");
    assert_eq!(world.fake.posts(&key("c1")), 1);
    world.end().await;
}

async fn what_did_not_arrive_is_sent_again_once(on: On) {
    let world = unknown(on).await;
    let (status, answer) = confirm(&world, json!({"arrived": false, "chat": "c1"})).await;
    assert_eq!((status, &answer["items"][0]["state"]), (200, &json!("queued")), "{answer}");
    let resent = answer["items"][0]["resent_as"].as_str().unwrap().to_owned();
    let stands = until(&world, "t1", "delivered").await;
    assert_eq!(stands["items"][0]["id"], resent, "{stands}");
    assert_eq!(confirm(&world, json!({"arrived": false, "chat": "c1"})).await.0, 200, "the same word again");
    assert_eq!(world.fake.posts(&key("c1")), 2);
    world.end().await;

    // Unknown once more, it is for a person.
    let world = World::new(on, &["c1", "c2"]).await;
    world.fake.script(&key("c1"), [Answer::Cut.into(), Answer::Cut.into()]);
    push(&world, &task("t1", "c1", "hi")).await;
    until(&world, "t1", "unknown").await;
    assert_eq!(confirm(&world, json!({"arrived": false})).await.0, 200);
    let again = world
        .api("push/t1", |task| task["state"] == "unknown" && task["items"][0]["id"].as_str().unwrap().ends_with(".r1"))
        .await;
    let (status, answer) = confirm(&world, json!({"arrived": false})).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("sent_again")), "{answer}");
    let id = again["items"][0]["id"].clone();
    let (status, answer) = confirm(&world, json!({"arrived": true, "delivery": id})).await;
    assert_eq!((status, &answer["items"][0]["id"]), (200, &id), "{answer}");
    until(&world, "t1", "delivered").await;
    assert_eq!(world.fake.posts(&key("c1")), 2);
    world.end().await;
}

async fn a_word_on_nothing_is_refused(on: On) {
    let world = World::new(on, &["c1"]).await;
    let code = async |path: &str, word: Value| {
        let (status, answer) = world.post(path, &word).await;
        (status, answer["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(code("push/t1/confirm", json!({"arrived": true})).await, (404, "unknown_task".into()));
    push(&world, &task("t1", "c1", "hi")).await;
    until(&world, "t1", "delivered").await;
    for arrived in [true, false] {
        assert_eq!(code("push/t1/confirm", json!({"arrived": arrived})).await, (409, "not_unknown".into()));
    }
    assert_eq!(code("push/t1/confirm", json!({"arrived": true, "chat": "c9"})).await, (404, "unknown_delivery".into()));
    assert_eq!(code("push/t1/confirm", json!({"arrived": "yes"})).await, (400, "bad_body".into()));
    assert_eq!(code("push/t1", json!({"arrived": true})).await, (404, "not_found".into()));
    world.end().await;
}
