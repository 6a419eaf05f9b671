//! A smart robot's `response_url`: one call for all that is said to one message.

use std::time::Duration;

use serde_json::{Value, json};
use wecom_gateway::sim::scenario::aibot_app;
use wecom_gateway::sim::wecom::response;
use wecom_gateway::sim::{Answer, ServiceAnswer, aibot_text};

use super::world_of;
use crate::on_both_stores;
use crate::world::{APP, On, World};

on_both_stores!(
    all_that_is_said_is_one_call,
    a_late_answer_takes_the_one_call_and_no_second_one,
    an_address_elsewhere_is_not_called,
    a_call_without_an_answer_is_not_repeated,
    a_call_that_was_not_taken_is_tried_again,
    what_was_said_is_answered_as_what_was_written,
);

/// Asks the service once, which answers this.
async fn ask(world: &World, chat: &str, msg_id: &str, url: &str, answer: ServiceAnswer) {
    world.fake.service().script("orders", [answer.after(Duration::ZERO)]);
    world.post_callback(&aibot_text(chat, "u1", msg_id, "@小助手 /query 1", url)).await;
}

fn text(content: &str) -> Value {
    json!({"msgtype": "text", "text": {"content": content}})
}

async fn all_that_is_said_is_one_call(on: On) {
    let world = world_of(on, |fake| aibot_app(fake, APP)).await;
    let url = world.fake.response_url("R1", "c1");
    let card = json!({"msgtype": "template_card", "template_card": {"card_type": "text_notice"}});
    let messages = json!({"messages": [text("[c1 u1 1]"), text(&"长".repeat(1000)), card]});
    ask(&world, "c1", "m1", &url, ServiceAnswer::Json(messages)).await;
    assert_eq!(world.outcome("m1").await, ("delivered".into(), None));
    let sent = world.fake.arrived();
    let content = format!("[c1 u1 1]\n\n{}\n\n（卡片无法在此显示）", "长".repeat(1000));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].body, json!({"msgtype": "markdown", "markdown": {"content": content}}));
    // Each message has its own.
    let url = world.fake.response_url("R2", "c1");
    ask(&world, "c1", "m2", &url, ServiceAnswer::Json(json!({"text": "[c1 u1 2]"}))).await;
    world.ends("m2", "delivered").await;
    assert_eq!((world.fake.posts(&response("R1")), world.fake.posts(&response("R2"))), (1, 1));
    world.end().await;
}

async fn a_late_answer_takes_the_one_call_and_no_second_one(on: On) {
    let world = world_of(on, |fake| aibot_app(fake, APP)).await;
    let url = world.fake.response_url("R1", "c1");
    ask(&world, "c1", "m1", &url, ServiceAnswer::Status(202)).await;
    world.ends("m1", "waiting").await;
    let trail = world.api("messages/m1", |answer| answer["items"][0]["request_id"].is_string()).await;
    let request_id = trail["items"][0]["request_id"].clone();
    let late = |seq: u64, content: &str| json!({"app": APP, "chat": "c1", "request_id": request_id, "seq": seq, "messages": [text(content)]});
    assert_eq!(world.post("replies", &late(1, "[c1 u1 1]")).await, (200, json!({"state": "queued"})));
    assert_eq!(world.post("replies", &late(1, "[c1 u1 1]")).await, (200, json!({"state": "repeat"})));
    assert_eq!(world.post("replies", &late(2, "[c1 u1 2]")).await, (200, json!({"state": "dropped"})));
    let dropped = world.api("deliveries?state=dropped", |answer| answer["items"][0]["msg_id"] == "m1").await;
    assert_eq!(dropped["items"][0]["reason"], "response_url_used");
    world.fake.until(|fake| fake.arrived().len() == 1).await;
    assert_eq!((world.fake.texts(&response("R1")), world.fake.posts(&response("R1"))), (vec!["[c1 u1 1]".into()], 1));
    world.end().await;
}

async fn an_address_elsewhere_is_not_called(on: On) {
    let world = world_of(on, |fake| aibot_app(fake, APP)).await;
    let port = world.fake.base().rsplit_once(':').unwrap().1.to_owned();
    // The fake's own port, by a name that is not in webhook_hosts.
    let foreign = format!("http://localhost:{port}/cgi-bin/aibot/response?response_code=R1");
    world.fake.response_url("R1", "c1");
    for (msg_id, url) in [("m1", foreign.as_str()), ("m2", "ftp://127.0.0.1/x"), ("m3", "no url")] {
        world.post_callback(&aibot_text("c1", "u1", msg_id, "/echo [c1 u1 1]", url)).await;
        world.ends(msg_id, "dropped").await;
        let trail = world.api(&format!("messages/{msg_id}"), |_| true).await.to_string();
        assert!(trail.contains("response_url_host") && !trail.contains("response_code"), "{trail}");
    }
    assert_eq!(world.fake.posts(&response("R1")), 0);
    world.end().await;
}

async fn a_call_without_an_answer_is_not_repeated(on: On) {
    let world = world_of(on, |fake| aibot_app(fake, APP)).await;
    let url = world.fake.response_url("R1", "c1");
    world.fake.script(&response("R1"), [Answer::Cut.into()]);
    world.post_callback(&aibot_text("c1", "u1", "m1", "/echo [c1 u1 1]", &url)).await;
    world.ends("m1", "unknown").await;
    let url = world.fake.response_url("R2", "c1");
    world.post_callback(&aibot_text("c1", "u1", "m2", "/echo [c1 u1 2]", &url)).await;
    world.ends("m2", "delivered").await;
    assert_eq!(world.fake.posts(&response("R1")), 1);
    world.end().await;
}

/// An address that is used up refuses a second call: nothing can appear twice.
async fn a_call_that_was_not_taken_is_tried_again(on: On) {
    let world = world_of(on, |fake| aibot_app(fake, APP)).await;
    for (n, refusal) in [(1, Answer::Errcode(-1)), (2, Answer::Status(503))] {
        let code = &format!("R{n}");
        let url = world.fake.response_url(code, "c1");
        world.fake.script(&response(code), [refusal.into()]);
        world.post_callback(&aibot_text("c1", "u1", code, &format!("/echo [c1 u1 {n}]"), &url)).await;
        world.ends(code, "delivered").await;
        assert_eq!((world.fake.posts(&response(code)), world.fake.texts(&response(code)).len()), (2, 1));
    }
    world.end().await;
}

/// WeCom has put a voice message into words already.
async fn what_was_said_is_answered_as_what_was_written(on: On) {
    let world = world_of(on, |fake| aibot_app(fake, APP)).await;
    let spoken = |msg_id: &str, content: &str, group: bool| {
        let mut payload = json!({"msgid": msg_id, "aibotid": "AIBOT", "chattype": "single", "from": {"userid": "u1"},
            "response_url": world.fake.response_url(msg_id, if group { "c1" } else { "u1" }), "msgtype": "voice",
            "voice": {"content": content}, "quote": {"msgtype": "text", "text": {"content": "/query 2"}}});
        if group {
            (payload["chatid"], payload["chattype"]) = ("c1".into(), "group".into());
        }
        payload.to_string()
    };
    world.post_callback(&spoken("V1", "/query 1", false)).await;
    world.ends("V1", "delivered").await;
    world.post_callback(&spoken("V2", "@小助手 query 1", true)).await;
    world.ends("V2", "delivered").await;
    let asked: Vec<Value> = world.fake.service().calls().iter().map(|call| call.body.clone()).collect();
    let told = |call: &Value| (call["message"]["type"].clone(), call["command"]["args"]["order_id"].clone());
    assert_eq!(asked.iter().map(told).collect::<Vec<_>>(), [("voice".into(), 1.into()), ("voice".into(), 1.into())]);
    // In a group only what is said to the robot is for it, and an empty recording is nothing.
    world.post_callback(&spoken("V3", "那就这样", true)).await;
    assert_eq!(world.outcome("V3").await, ("ignored".into(), Some("chatter".into())));
    world.post_callback(&spoken("V4", "", false)).await;
    assert_eq!(world.outcome("V4").await, ("ignored".into(), Some("type:voice".into())));
    world.end().await;
}
