//! A request without an answer: the same bytes again where the far side knows a repeat and the app wants it, else `unknown`.

use serde_json::{Value, json};
use wecom_gateway::sim::scenario::{api_app, json_app};
use wecom_gateway::sim::wecom::{conversation, member};
use wecom_gateway::sim::{Answer, FakeWeCom, app_text};

use super::world_of;
use crate::on_both_stores;
use crate::world::{APP, On, World};

on_both_stores!(
    an_app_message_is_repeated_where_wecom_knows_the_repeat,
    equal_words_are_not_one_message,
    an_app_message_is_not_repeated_unasked,
    a_json_gateway_gets_the_same_id_again,
    a_json_gateway_is_not_asked_again_unasked,
);

fn with(mut app: Value, key: &str, value: Value) -> Value {
    app[key] = value;
    app
}

fn retrying(fake: &FakeWeCom) -> Value {
    with(api_app(fake, APP, &[]), "on_unknown", json!("retry"))
}

async fn an_app_message_is_repeated_where_wecom_knows_the_repeat(on: On) {
    let world = world_of(on, retrying).await;
    // Taken and cut; then not taken and cut off by a proxy; then answered.
    world.fake.script(&member("u1"), [Answer::Cut.into(), Answer::Status(500).into()]);
    world.post_callback(&app_text("u1", "m1", "/echo [u1 u1 1]")).await;
    world.post_callback(&app_text("u1", "m2", "/echo [u1 u1 2]")).await;
    world.ends("m1", "delivered").await;
    world.ends("m2", "delivered").await;
    // The member saw each once, and in order: the fake knew the repeats.
    assert_eq!(world.fake.texts(&member("u1")), ["[u1 u1 1]", "[u1 u1 2]"]);
    assert_eq!(world.fake.posts(&member("u1")), 4);
    let body = &world.fake.arrived()[0].body;
    assert_eq!(body["enable_duplicate_check"], 1, "from the first attempt on");
    world.end().await;
}

async fn equal_words_are_not_one_message(on: On) {
    let world = world_of(on, retrying).await;
    for msg_id in ["m1", "m2"] {
        world.post_callback(&app_text("u1", msg_id, "/echo ok")).await;
        world.ends(msg_id, "delivered").await;
    }
    assert_eq!(world.fake.texts(&member("u1")), ["ok", "ok"]);
    world.end().await;
}

async fn an_app_message_is_not_repeated_unasked(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    world.fake.script(&member("u1"), [Answer::Cut.into()]);
    world.post_callback(&app_text("u1", "m1", "/echo [u1 u1 1]")).await;
    world.post_callback(&app_text("u1", "m2", "/echo [u1 u1 2]")).await;
    world.ends("m1", "unknown").await;
    world.ends("m2", "delivered").await;
    assert_eq!(world.fake.posts(&member("u1")), 2);
    world.end().await;
}

fn gateway(fake: &FakeWeCom) -> Value {
    let gateway = json!({"url": fake.json_gateway(), "instance_guid": "inst_1", "client_msg_id_window": "10m"});
    with(json_app(fake, APP, &[], ("X-Token", "t")), "gateway", gateway)
}

async fn post(world: &World, msg_id: &str, text: &str) {
    let body = json!({"MsgType": "text", "roomType": 2, "ChatId": "wrJ", "FromUserName": "wmJ", "Content": text, "MsgId": msg_id});
    assert_eq!(world.caller.post_json(&body, ("X-Token", "t")).await, Some(200));
}

async fn a_json_gateway_gets_the_same_id_again(on: On) {
    let world = world_of(on, |fake| with(gateway(fake), "on_unknown", json!("retry"))).await;
    world.fake.script(&conversation("wrJ"), [Answer::Cut.into(), Answer::Cut.into()]);
    post(&world, "m1", "/echo [wrJ wmJ 1]").await;
    world.ends("m1", "delivered").await;
    let sent = world.fake.arrived();
    assert_eq!((sent.len(), world.fake.posts(&conversation("wrJ"))), (1, 3));
    let id = sent[0].body["client_msg_id"].clone();
    let text = json!({"content": "[wrJ wmJ 1]"});
    let body = json!({"conversationId": "wrJ", "client_msg_id": id, "instance_guid": "inst_1", "msgtype": "text", "text": text});
    assert_eq!(sent[0].body, body);
    assert!(id.as_str().is_some_and(|id| id.len() > 10), "{id}");
    world.end().await;
}

async fn a_json_gateway_is_not_asked_again_unasked(on: On) {
    let world = world_of(on, gateway).await;
    world.fake.script(&conversation("wrJ"), [Answer::Cut.into()]);
    post(&world, "m1", "/echo [wrJ wmJ 1]").await;
    post(&world, "m2", "/echo [wrJ wmJ 2]").await;
    world.ends("m1", "unknown").await;
    world.ends("m2", "delivered").await;
    assert_eq!(world.fake.posts(&conversation("wrJ")), 2);
    world.end().await;
}
