//! Contacts and customer groups, asked of WeCom in the background: once, by one process, never on a message's way.

use reqwest::Method;
use serde_json::{Value, json};
use wecom_gateway::sim::scenario::api_app;
use wecom_gateway::sim::wecom::{CONTACT, CUSTOMER_GROUP, member};
use wecom_gateway::sim::{Answer, FakeWeCom};

use super::world_of;
use crate::on_both_stores;
use crate::world::{APP, On, World};

on_both_stores!(
    a_contact_is_asked_for_once,
    a_contact_that_was_forgotten_is_asked_for_again,
    an_answer_of_the_directory_holds_up_no_message,
    an_app_that_may_not_ask_is_left_alone,
    a_contact_that_wecom_does_not_know_is_no_fault,
    a_group_tells_its_name_and_its_members,
    an_app_can_be_told_not_to_ask,
);

/// What an external contact writes, one-to-one or in a chat.
fn text(chat: Option<&str>, sender: &str, msg_id: &str, text: &str) -> String {
    let chat = chat.map(|chat| format!("<ChatId>{chat}</ChatId><ChatType>group</ChatType>")).unwrap_or_default();
    format!(
        "<xml>{chat}<ExternalUserId>{sender}</ExternalUserId><MsgType>text</MsgType><Content>{text}</Content>\
         <MsgId>{msg_id}</MsgId></xml>"
    )
}

fn wang() -> Value {
    json!({
        "external_contact": {"external_userid": "wm1", "name": "王五", "type": 1},
        "follow_user": [{"userid": "zs", "remark": ""}, {"remark": "大客户", "remark_mobiles": ["13800138000"]}],
    })
}

async fn contact(world: &World, sender: &str) -> Value {
    world.call(Method::GET, &format!("users/{APP}/{sender}"), &Value::Null).await.1["contact"].clone()
}

async fn until_known(world: &World, sender: &str, contact: Value) {
    world.api(&format!("users/{APP}/{sender}"), |answer| answer["contact"] == contact).await;
}

async fn a_contact_is_asked_for_once(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &["g"])).await;
    world.fake.contact("wm1", wang());
    for n in 0..5 {
        world.post_callback(&text(None, "wm1", &format!("m{n}"), "违禁词")).await;
    }
    until_known(&world, "wm1", json!({"name": "王五", "remark": "大客户", "phone": "13800138000"})).await;
    let put = json!({"contact": {"name": "王总"}});
    assert_eq!(world.call(Method::PUT, &format!("users/{APP}/wm1"), &put).await.0, 200);
    // Neither this process nor the next one asks again.
    let world = world.restart_while(|_| {}).await;
    world.fake.contact("wm2", wang());
    world.post_callback(&text(None, "wm1", "m5", "违禁词")).await;
    world.post_callback(&text(None, "wm2", "m6", "违禁词")).await;
    until_known(&world, "wm2", json!({"name": "王五", "remark": "大客户", "phone": "13800138000"})).await;
    assert_eq!((world.fake.posts(CONTACT), contact(&world, "wm1").await["name"].clone()), (2, json!("王总")));
    world.end().await;
}

async fn a_contact_that_was_forgotten_is_asked_for_again(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    world.fake.contact("wm1", wang());
    let known = json!({"name": "王五", "remark": "大客户", "phone": "13800138000"});
    world.post_callback(&text(None, "wm1", "m1", "违禁词")).await;
    until_known(&world, "wm1", known.clone()).await;
    assert_eq!(world.delete(&format!("users/{APP}/wm1")).await, 204);
    // A process that was told nothing yet asks at once.
    let world = world.restart_while(|_| {}).await;
    world.post_callback(&text(None, "wm1", "m2", "违禁词")).await;
    until_known(&world, "wm1", known).await;
    assert_eq!(world.fake.posts(CONTACT), 2);
    world.end().await;
}

async fn an_answer_of_the_directory_holds_up_no_message(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    world.fake.contact("wm1", wang());
    world.fake.hold(CONTACT);
    for n in 1..=3 {
        world.post_callback(&text(None, "wm1", &format!("m{n}"), &format!("/echo [wm1 wm1 {n}]"))).await;
    }
    world.fake.until(|fake| fake.texts(&member("wm1")).len() == 3 && fake.posts(CONTACT) == 1).await;
    assert_eq!(contact(&world, "wm1").await, json!({}));
    world.fake.release(CONTACT);
    until_known(&world, "wm1", json!({"name": "王五", "remark": "大客户", "phone": "13800138000"})).await;
    world.end().await;
}

async fn an_app_that_may_not_ask_is_left_alone(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    world.fake.always(CONTACT, Answer::Errcode(48002));
    for n in 0..10 {
        world.post_callback(&text(None, &format!("wm{n}"), &format!("m{n}"), "违禁词")).await;
        world.fake.until(|fake| fake.posts(CONTACT) == 1).await;
    }
    world.post_callback(&text(None, "wm0", "m10", "/echo [wm0 wm0 1]")).await;
    world.fake.until(|fake| fake.texts(&member("wm0")).len() == 1).await;
    assert_eq!(world.fake.posts(CONTACT), 1);
    world.end().await;
}

async fn a_contact_that_wecom_does_not_know_is_no_fault(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    world.fake.contact("wm1", wang());
    world.post_callback(&text(None, "nobody", "m1", "违禁词")).await;
    world.fake.until(|fake| fake.posts(CONTACT) == 1).await;
    // A token that ended meanwhile is no fault either.
    world.fake.end_tokens();
    world.post_callback(&text(None, "wm1", "m2", "违禁词")).await;
    until_known(&world, "wm1", json!({"name": "王五", "remark": "大客户", "phone": "13800138000"})).await;
    assert_eq!((world.fake.posts(CONTACT), world.fake.tokens()), (3, 2));
    world.end().await;
}

async fn a_group_tells_its_name_and_its_members(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &["g"])).await;
    let members = json!([{"userid": "zs", "type": 1, "name": "张三"}, {"userid": "wm9", "type": 2, "name": "赵六"}]);
    world.fake.customer_group("g", json!({"chat_id": "g", "name": "VIP 客户群", "member_list": members}));
    world.post_callback(&text(Some("g"), "wm1", "m1", "违禁词")).await;
    until_known(&world, "wm9", json!({"name": "赵六"})).await;
    until_known(&world, "zs", json!({"name": "张三"})).await;
    until_called(&world, "VIP 客户群").await;
    // Another process is told by the first.
    let world = world.restart_while(|_| {}).await;
    until_called(&world, "VIP 客户群").await;
    assert_eq!(world.fake.posts(CUSTOMER_GROUP), 1);
    world.end().await;
}

/// Asks the service until it is told this name of the group; before, it is told none.
async fn until_called(world: &World, name: &str) {
    loop {
        let n = world.fake.service().count() + 1;
        world.post_callback(&text(Some("g"), "wm1", &format!("q{n}"), &format!("/query {n}"))).await;
        world.fake.until(|fake| fake.service().count() == n).await;
        let asked = world.fake.service().calls().pop().expect("a call").body;
        if asked["chat"]["name"] == name {
            return;
        }
        assert_eq!(asked["chat"]["name"], Value::Null);
    }
}

async fn an_app_can_be_told_not_to_ask(on: On) {
    let quiet = |fake: &FakeWeCom| {
        let mut app = api_app(fake, APP, &[]);
        app["ask_contacts"] = false.into();
        app
    };
    let world = world_of(on, quiet).await;
    world.post_callback(&text(None, "wm1", "m1", "/echo [wm1 wm1 1]")).await;
    world.fake.until(|fake| fake.texts(&member("wm1")).len() == 1).await;
    assert_eq!(world.fake.posts(CONTACT), 0);
    world.end().await;
}
