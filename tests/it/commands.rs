//! What members are told of commands: in the form that the bot hears in their chat.

use serde_json::json;
use wecom_gateway::sim::Options;
use wecom_gateway::sim::app_text;
use wecom_gateway::sim::scenario::{api_app, json_app, robot_key};
use wecom_gateway::sim::wecom::member;

use crate::on_both_stores;
use crate::world::{On, World, key};

on_both_stores!(members_are_told_what_is_heard_in_their_chat);

const HEADER: (&str, &str) = ("X-Token", "opens-the-webhook");

/// What `query` without its argument is answered.
fn usage(command: &str) -> String {
    format!("缺少订单号。\n用法：{command} <订单号>\n例如：{command} 1001")
}

async fn members_are_told_what_is_heard_in_their_chat(on: On) {
    let world = World::with(on, &["c1"], Options::default(), |fake, scenario| {
        scenario.app("own", api_app(fake, "own", &[])).app("hook", json_app(fake, "hook", &["g1".into()], HEADER))
    })
    .await;
    // A group robot hears of a group what mentions it.
    world.say("c1", "u1", "m1", "@小助手 query").await;
    world.fake.until(|fake| fake.texts(&key("c1")) == [usage("@小助手 /query")]).await;
    world.say("c1", "u1", "m2", "@小助手 /nonsense").await;
    let hint = "没有“/nonsense”这个命令，发送 @小助手 /help 查看可用命令。";
    world.fake.until(|fake| fake.texts(&key("c1")).last().is_some_and(|text| text == hint)).await;
    world.say("c1", "u1", "m3", "@小助手 帮助").await;
    world.fake.until(|fake| fake.texts(&key("c1")).len() == 3).await;
    let help = &world.fake.texts(&key("c1"))[2];
    assert!(help.contains("\n@小助手 /query <订单号>：查询订单状态（也可用 @小助手 /查询订单）\n"), "{help}");

    // An app hears whatever a member writes to it.
    assert_eq!(world.caller_of("own").post(&app_text("u1", "1", "query")).await, Some(200));
    world.fake.until(|fake| fake.texts(&member("u1")) == [usage("/query")]).await;

    // What posts to a JSON webhook posts all of a group.
    let url = format!("http://{}/callback/hook", world.app.callback_addr());
    let message = json!({"MsgType": "text", "roomType": 2, "ChatId": "g1", "FromUserName": "u1", "Content": "@小助手 query", "MsgId": "1"});
    let posted = reqwest::Client::new().post(url).header(HEADER.0, HEADER.1).json(&message).send().await.unwrap();
    assert_eq!(posted.status(), 200);
    world.fake.until(|fake| fake.texts(&robot_key("hook", "g1")) == [usage("/query")]).await;
    world.end().await;
}
