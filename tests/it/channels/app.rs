//! `message/send` and `appchat/send`.

use futures_util::future::join_all;
use serde_json::{Value, json};
use wecom_gateway::sim::scenario::{AGENT_ID, api_app};
use wecom_gateway::sim::wecom::{app_chat, member};
use wecom_gateway::sim::{Answer, FakeWeCom, ServiceAnswer, app_text, robot_text};

use super::world_of;
use crate::on_both_stores;
use crate::world::{APP, On};

on_both_stores!(
    a_member_is_answered_by_the_app_alone,
    a_group_is_answered_by_its_own_way_and_never_as_a_member,
    who_is_left_out_is_reported_and_nobody_gets_it_twice,
    content_that_the_app_does_not_take_is_one_apology,
    a_long_answer_is_cut_to_the_apps_own_limit,
);

async fn a_member_is_answered_by_the_app_alone(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    join_all((0..20).map(async |n| {
        let (user, id) = (format!("u{n}"), (4_561_255_354_251_345_929_i64 + n).to_string());
        world.post_callback(&app_text(&user, &id, &format!("/echo [{user} {user} 1]"))).await;
    }))
    .await;
    world.fake.until(|fake| fake.arrived().len() == 20).await;
    for sent in world.fake.arrived() {
        assert_eq!(sent.key, member(&sent.chat), "{sent:?}");
        let body = json!({"touser": sent.chat, "agentid": AGENT_ID, "msgtype": "text", "text": {"content": sent.text}});
        assert_eq!(sent.body, body);
    }
    assert_eq!(world.fake.tokens(), 1);
    world.end().await;
}

async fn a_group_is_answered_by_its_own_way_and_never_as_a_member(on: On) {
    let app = |fake: &FakeWeCom| {
        let mut app = api_app(fake, APP, &["made"]);
        let webhook = fake.webhook("robot", "hook");
        app["chats"].as_array_mut().unwrap().push(json!({"id": "hook", "webhook": webhook}));
        app
    };
    let world = world_of(on, app).await;
    for (n, chat) in ["made", "hook", "foreign"].into_iter().enumerate() {
        world.say(chat, "u1", &format!("m{n}"), &format!("/echo [{chat} u1 {n}]")).await;
    }
    // A group whose id is also the name of a member who wrote in it.
    world.post_callback(&robot_text("u1", "u1", "m3", "/echo [u1 u1 3]")).await;
    for id in ["m0", "m1"] {
        assert_eq!(world.outcome(id).await, ("delivered".into(), None));
    }
    for id in ["m2", "m3"] {
        assert_eq!(world.outcome(id).await.0, "dropped");
        let trail = world.api(&format!("messages/{id}"), |_| true).await;
        assert!(trail.to_string().contains("route_missing"), "{trail}");
    }
    assert_eq!(world.fake.texts(&app_chat("made")), ["[made u1 0]"]);
    assert_eq!(world.fake.texts("robot"), ["[hook u1 1]"]);
    assert_eq!((world.fake.posts(&member("u1")), world.fake.arrived().len()), (0, 2));
    let made = &world.fake.arrived().into_iter().find(|sent| sent.chat == "made").unwrap().body;
    assert_eq!(*made, json!({"chatid": "made", "msgtype": "text", "text": {"content": "[made u1 0]"}}));
    world.end().await;
}

async fn who_is_left_out_is_reported_and_nobody_gets_it_twice(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    world.fake.script(&member("u1"), [Answer::LeavesOut("invaliduser", "u1".into()).into()]);
    world.post_callback(&app_text("u1", "m1", "/echo [u1 u1 1]")).await;
    world.post_callback(&app_text("u1", "m2", "/echo [u1 u1 2]")).await;
    world.ends("m1", "dead").await;
    world.ends("m2", "delivered").await;
    let dead = world.api("deliveries?state=dead", |answer| answer["items"][0]["reason"] == "partial").await;
    assert_eq!(dead["items"][0]["msg_id"], "m1");
    assert_eq!(world.fake.posts(&member("u1")), 2);
    world.end().await;
}

async fn content_that_the_app_does_not_take_is_one_apology(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    let bad: [Value; 4] = [
        json!({"msgtype": "markdown_v2", "markdown_v2": {"content": "x"}}),
        json!({"msgtype": "image", "image": {"base64": "eA==", "md5": "d41d8cd98f00b204e9800998ecf8427e"}}),
        json!({"msgtype": "template_card", "template_card": {"card_type": "poster"}}),
        json!({"msgtype": "news", "news": {"articles": [{"title": "长".repeat(43), "url": "https://x"}]}}),
    ];
    for (n, message) in bad.into_iter().enumerate() {
        let answer = ServiceAnswer::Json(json!({"messages": [message]}));
        world.fake.service().script("orders", [answer.after(std::time::Duration::ZERO)]);
        world.post_callback(&app_text("u1", &format!("m{n}"), "/query 1")).await;
        world.fake.until(|fake| fake.arrived().len() == n + 1).await;
    }
    let texts = world.fake.texts(&member("u1"));
    assert!(texts.iter().all(|text| text.starts_with("抱歉")), "{texts:?}");
    let trail = world.api("messages/m3", |answer| answer["items"][0]["outcome"] == "delivered").await;
    assert!(trail.to_string().contains("`news.articles.title` has 129 bytes, at most 128 are taken"), "{trail}");
    world.end().await;
}

async fn a_long_answer_is_cut_to_the_apps_own_limit(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    let content = "你".repeat(1364);
    let answer = json!({"messages": [{"msgtype": "markdown", "markdown": {"content": content}}]});
    world.fake.service().script("orders", [ServiceAnswer::Json(answer).after(std::time::Duration::ZERO)]);
    world.post_callback(&app_text("u1", "m1", "/query 1")).await;
    world.ends("m1", "delivered").await;
    let texts = world.fake.texts(&member("u1"));
    // A robot would have taken it whole.
    assert_eq!((texts.len(), texts.concat()), (2, content));
    world.end().await;
}
