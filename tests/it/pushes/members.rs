//! Pushes by an app's own API, and by a JSON gateway: to members, departments and tags, to groups that the app made; with what
//! WeCom tells of who got it, and repeated where it knows the repeat.

use serde_json::{Value, json};
use wecom_gateway::sim::scenario::{AGENT_ID, api_app, json_app};
use wecom_gateway::sim::wecom::{app_chat, conversation, member, members};
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, app_text};

use super::{push, to, until};
use crate::on_both_stores;
use crate::world::{APP, On, World};

on_both_stores!(
    members_are_reached_as_the_task_names_them,
    one_member_has_one_lane_for_pushes_and_replies,
    who_is_left_out_is_told_and_nobody_gets_it_twice,
    an_app_message_is_repeated_as_it_is_and_seen_once,
    what_holds_is_not_repeated,
    a_json_gateway_knows_the_push_by_its_id,
);

async fn world_of(on: On, app: impl FnOnce(&FakeWeCom) -> Value) -> World {
    World::with(on, &[], Options::default(), |fake, scenario: Scenario| scenario.app(APP, app(fake))).await
}

async fn members_are_reached_as_the_task_names_them(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &["made"])).await;
    let tasks = json!([
        to("one", json!({"users": ["u1"]}), "one"),
        to("set", json!({"users": ["u1", "u2"], "parties": [3], "tags": ["7", "8"]}), "set"),
        to("all", json!({"users": ["@all"]}), "all"),
        to("made", json!({"chat": "made"}), "made"),
    ]);
    push(&world, &tasks).await;
    for id in ["one", "set", "all", "made"] {
        until(&world, id, "delivered").await;
    }
    let arrived =
        |key: &str| world.fake.arrived().into_iter().find(|sent| sent.key == key).map(|sent| sent.body).unwrap();
    let set = arrived(&members("u1|u2", "3", "7|8"));
    assert_eq!((&set["agentid"], &set["text"]["content"]), (&json!(AGENT_ID), &json!("set")), "{set}");
    assert_eq!(arrived(&member("@all"))["touser"], "@all");
    assert_eq!(arrived(&member("u1")).get("toparty"), None);
    assert_eq!(arrived(&app_chat("made"))["chatid"], "made");
    let item = world.api("push/one", |_| true).await["items"][0].clone();
    assert!(item["msgid"].as_str().is_some_and(|msgid| msgid.starts_with("msg-")), "{item}");
    // In the trail too.
    world.api("messages/one", |found| found.to_string().contains("msg-")).await;
    assert_eq!(world.fake.arrived().len(), 4);
    world.end().await;
}

async fn one_member_has_one_lane_for_pushes_and_replies(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    // Only an address that was sent to can be held.
    push(&world, &to("t0", json!({"users": ["u1"]}), "0")).await;
    until(&world, "t0", "delivered").await;
    world.fake.hold(&member("u1"));
    push(&world, &to("t1", json!({"users": ["u1"]}), "1")).await;
    world.until_waiting("u1", 1).await;
    world.post_callback(&app_text("u1", "m1", "/echo 2")).await;
    world.until_waiting("u1", 2).await;
    push(&world, &to("t2", json!({"users": ["u1"]}), "3")).await;
    world.until_waiting("u1", 3).await;
    world.fake.release(&member("u1"));
    until(&world, "t2", "delivered").await;
    assert_eq!(world.fake.texts(&member("u1")), ["0", "1", "2", "3"]);
    world.end().await;
}

async fn who_is_left_out_is_told_and_nobody_gets_it_twice(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    let set = members("u1|u2", "9", "");
    world.fake.script(&set, [Answer::LeavesOut("invalidparty", "9".into()).into()]);
    world.fake.script(&member("u3"), [Answer::LeavesOut("unlicenseduser", "u3".into()).into()]);
    let task = to("set", json!({"users": ["u1", "u2"], "parties": ["9"]}), "set");
    push(&world, &json!([task, to("one", json!({"users": ["u3"]}), "one")])).await;
    let item = until(&world, "set", "delivered").await["items"][0].clone();
    assert_eq!((&item["reason"], &item["left_out"]), (&json!("partial"), &json!("invalidparty 9")), "{item}");
    assert!(item["msgid"].is_string(), "{item}");
    // The one that it was for has not got it.
    let one = until(&world, "one", "dead").await["items"][0].clone();
    assert_eq!((&one["reason"], &one["left_out"]), (&json!("partial"), &json!("unlicenseduser u3")), "{one}");
    let trail = world.api("messages/set", |found| found["items"][0]["outcome"] == "delivered").await;
    assert_eq!(trail["items"][0]["reason"], "partial");
    assert!(trail.to_string().contains("invalidparty 9"), "{trail}");
    push(&world, &task).await;
    push(&world, &to("next", json!({"users": ["u1", "u2"], "parties": ["9"]}), "next")).await;
    until(&world, "next", "delivered").await;
    assert_eq!((world.fake.posts(&set), world.fake.posts(&member("u3"))), (2, 1));
    world.end().await;
}

async fn an_app_message_is_repeated_as_it_is_and_seen_once(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    let set = members("u1|u2", "", "");
    // Taken and cut; then cut off by a proxy.
    world.fake.script(&set, [Answer::Cut.into(), Answer::Status(500).into()]);
    let task = |id: &str| to(id, json!({"users": ["u1", "u2"]}), "the same words");
    push(&world, &json!([task("t1"), task("t2")])).await;
    until(&world, "t1", "delivered").await;
    until(&world, "t2", "delivered").await;
    let sent = world.fake.arrived();
    // The fake knows a repeat by its bytes alone.
    assert_eq!((world.fake.posts(&set), sent.len()), (4, 2));
    let interval = |n: usize| sent[n].body["duplicate_check_interval"].as_u64().unwrap();
    assert!(interval(0) >= 3 * 3600 && interval(0) != interval(1), "equal words of two tasks are two messages");
    world.end().await;
}

async fn what_holds_is_not_repeated(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &["made"])).await;
    world.fake.script(&member("u1"), [Answer::Cut.into()]);
    world.fake.script(&app_chat("made"), [Answer::Cut.into()]);
    let mut hold = to("hold", json!({"users": ["u1"]}), "hold");
    hold["on_unknown"] = "hold".into();
    push(&world, &json!([hold, to("made", json!({"chat": "made"}), "made")])).await;
    until(&world, "hold", "unknown").await;
    until(&world, "made", "unknown").await;
    let body = &world.fake.arrived().into_iter().find(|sent| sent.key == member("u1")).unwrap().body;
    assert_eq!(body.get("enable_duplicate_check"), None);
    assert_eq!((world.fake.posts(&member("u1")), world.fake.posts(&app_chat("made"))), (1, 1));
    world.end().await;
}

async fn a_json_gateway_knows_the_push_by_its_id(on: On) {
    let app = |fake: &FakeWeCom| {
        let mut app = json_app(fake, APP, &[], ("X-Token", "t"));
        app["gateway"] = json!({"url": fake.json_gateway(), "client_msg_id_window": "10m"});
        app
    };
    let world = world_of(on, app).await;
    world.fake.script(&conversation("wrJ"), [Answer::Cut.into(), Answer::Cut.into()]);
    push(&world, &to("t1", json!({"chat": "wrJ"}), "hi")).await;
    let stands = until(&world, "t1", "delivered").await;
    let sent = world.fake.arrived();
    assert_eq!((sent.len(), world.fake.posts(&conversation("wrJ"))), (1, 3));
    assert_eq!(sent[0].body["client_msg_id"], stands["items"][0]["id"]);
    world.end().await;
}
