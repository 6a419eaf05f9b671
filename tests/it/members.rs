//! Whole gateways and their members: who they are in every chat, what they may, and how fast.

use reqwest::Method;
use serde_json::{Value, json};
use wecom_gateway::sim::scenario::{json_app, robot_app};
use wecom_gateway::sim::{FakeWeCom, Options, Scenario, ServiceAnswer, robot_text};

use crate::on_both_stores;
use crate::world::{APP, On, World};

const PHONE: &str = "13800138000";

on_both_stores!(
    a_sentence_binds_a_member_for_every_chat,
    a_service_that_knows_nobody_says_why,
    a_binding_without_a_service_keeps_what_was_said,
    a_binding_that_replies_keeps_it_first,
    any_action_may_tell_who_the_member_is,
    a_name_that_a_callback_carries_is_kept,
    the_name_at_hand_is_the_one_that_counts,
    unbinding_leaves_what_others_said,
    what_was_said_to_be_a_phone_is_kept_masked_whatever_it_is,
    who_is_forgotten_while_they_bind_stays_forgotten,
    any_chat_can_be_muted_where_chats_need_no_entry,
    the_api_binds_and_forgets,
    a_flood_is_answered_once,
    a_muted_chat_hears_its_admins_alone,
    an_operator_mutes_a_chat_and_lets_it_speak_again,
    a_command_for_bound_members_asks_the_others_to_bind,
);

/// The usual robot app in two chats, with `shape` on its settings.
async fn world(on: On, shape: impl FnOnce(&FakeWeCom, &mut Value)) -> World {
    let chats = ["c1", "c2"];
    World::with(on, &chats, Options::default(), |fake, scenario: Scenario| {
        let mut app = robot_app(fake, APP, &chats.map(String::from));
        shape(fake, &mut app);
        scenario.app(APP, app)
    })
    .await
}

/// Binding sentences: one that a CRM answers, one whose captures are kept, one that ends it.
fn with_bindings(fake: &FakeWeCom, app: &mut Value) {
    let mut crm = app["mention"]["action"].clone();
    crm["url"] = format!("{}/action/crm", fake.base()).into();
    app["bindings"] = json!([
        {"pattern": r"绑定手机号\s*(?P<phone>1\d{10})", "action": crm},
        {"pattern": r"我叫(?P<name>\S+)，电话(?P<phone>1\d{10})"},
        {"pattern": "解绑", "unbind": true},
    ]);
}

/// Who the service was told that the last message's sender is.
fn last_sender(world: &World) -> Value {
    let mut last = world.fake.service().calls().pop().expect("a call").body;
    last["sender"].take()
}

async fn user(world: &World, sender: &str) -> Value {
    world.api(&format!("users/{APP}/{sender}"), |answer| answer["sender"] == sender).await
}

async fn a_sentence_binds_a_member_for_every_chat(on: On) {
    let world = world(on, with_bindings).await;
    world.fake.service().script("crm", [ServiceAnswer::Json(json!({"user_id": "u-7"})).after(Default::default())]);
    world.fake.service().always("orders", ServiceAnswer::Json(json!({"text": "好"})).after(Default::default()));
    world.say("c1", "u1", "b1", &format!("绑定手机号 {PHONE}")).await;
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["绑定成功。"]);
    let asked = world.fake.service().calls().pop().expect("a call").body;
    assert_eq!((&asked["trigger"], &asked["captures"]["phone"]), (&json!("binding"), &json!(PHONE)));

    // In another chat, also after a restart; nobody else is meant.
    let world = world.restart_while(|_| {}).await;
    world.say("c2", "u1", "q1", "/query 1").await;
    world.fence("c2", "u1").await;
    let sender = last_sender(&world);
    assert_eq!((&sender["user_id"], &sender["contact"]), (&json!("u-7"), &json!({"name": "u1"})));
    world.say("c1", "u2", "q2", "/query 2").await;
    world.fence("c1", "u2").await;
    assert_eq!(last_sender(&world)["user_id"], Value::Null);
    let known = user(&world, "u1").await;
    let week = 7 * 24 * 3_600_000;
    assert!(known["user_id_ttl_ms"].as_u64().is_some_and(|ms| ms > week - 600_000 && ms <= week), "{known}");
    // Not what was said, but whole in nobody's sight: the session holds it masked, the trail not at all.
    world.say("c1", "u1", "q3", "/query 3").await;
    world.fence("c1", "u1").await;
    let asked = world.fake.service().calls().pop().expect("a call").body["session"].to_string();
    assert!(asked.contains("138****8000") && !asked.contains(PHONE), "{asked}");
    let trail = world.api("messages/b1", |answer| answer["items"][0]["outcome"] == "delivered").await.to_string();
    assert!(!trail.contains(PHONE) && !trail.contains("****"), "{trail}");

    world.say("c2", "u1", "b2", "解绑").await;
    world.say("c2", "u1", "q4", "/query 4").await;
    world.fence("c2", "u1").await;
    assert!(world.texts("c2").contains(&"已解除绑定。".to_owned()), "{:?}", world.texts("c2"));
    assert_eq!(last_sender(&world)["user_id"], Value::Null);
    world.end().await;
}

async fn a_service_that_knows_nobody_says_why(on: On) {
    let world = world(on, with_bindings).await;
    let no = ServiceAnswer::Json(json!({"text": "查无此号"})).after(Default::default());
    let broken = ServiceAnswer::Status(500).after(Default::default());
    world.fake.service().script("crm", [no, broken]);
    for n in 1..=2 {
        world.say("c1", "u1", &format!("b{n}"), &format!("绑定手机号 {PHONE}")).await;
    }
    world.fence("c1", "u1").await;
    let texts = world.texts("c1");
    assert!(texts[0] == "查无此号" && texts[1].starts_with("抱歉"), "{texts:?}");
    let known = user(&world, "u1").await;
    assert_eq!((&known["user_id"], &known["contact"]), (&Value::Null, &json!({"name": "u1"})));
    world.end().await;
}

async fn a_binding_without_a_service_keeps_what_was_said(on: On) {
    let world = world(on, with_bindings).await;
    world.say("c1", "u1", "b1", &format!("我叫王五，电话{PHONE}")).await;
    world.say("c1", "u1", "q1", "/query 1").await;
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1")[0], "已记下您的信息。");
    let contact = json!({"name": "王五", "phone": PHONE});
    assert_eq!((&last_sender(&world)["contact"], &user(&world, "u1").await["contact"]), (&contact, &contact));
    // What they said of themselves goes with the binding; what the callback says of them comes back.
    world.say("c2", "u1", "b2", "解绑").await;
    world.fence("c2", "u1").await;
    assert_eq!(user(&world, "u1").await["contact"], json!({"name": "u1"}));
    world.end().await;
}

/// The reply speaks of the member as they said they are; in a group their number is masked.
async fn a_binding_that_replies_keeps_it_first(on: On) {
    let world = world(on, |_, app| {
        let hello = json!({"type": "reply", "text": "你好，{{ user.name }}（{{ user.phone }}，{{ args.phone }}）"});
        app["bindings"] = json!([{"pattern": r"我叫(?P<name>\S+)，电话(?P<phone>1\d{10})", "action": hello}]);
    })
    .await;
    world.say("c1", "u1", "b1", &format!("我叫王五，电话{PHONE}")).await;
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["你好，王五（138****8000，138****8000）"]);
    assert_eq!(user(&world, "u1").await["contact"], json!({"name": "王五", "phone": PHONE}));
    world.end().await;
}

async fn any_action_may_tell_who_the_member_is(on: On) {
    let world = world(on, with_bindings).await;
    let answer = ServiceAnswer::Json(json!({"text": "好", "user_id": "u-9"})).after(Default::default());
    world.fake.service().script("orders", [answer]);
    world.say("c1", "u1", "q1", "/query 1").await;
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["好"]);
    assert_eq!(user(&world, "u1").await["user_id"], "u-9");
    world.end().await;
}

async fn a_name_that_a_callback_carries_is_kept(on: On) {
    let world = world(on, |_, app| {
        let hi = json!({"type": "reply", "text": "你好，{{ user.name }}"});
        app["commands"].as_array_mut().expect("a list").push(json!({"name": "hi", "action": hi}));
    })
    .await;
    // Chatter tells names too.
    world.say("c1", "u1", "m1", "大家早").await;
    world.fence("c1", "u1").await;
    assert_eq!(user(&world, "u1").await["contact"], json!({"name": "u1"}));
    // What people set stands above what callbacks say.
    let put = json!({"contact": {"name": "王五", "remark": "大客户"}});
    assert_eq!(world.call(Method::PUT, &format!("users/{APP}/u1"), &put).await.0, 200);
    let world = world.restart_while(|_| {}).await;
    world.say("c2", "u1", "m2", "/hi").await;
    world.say("c2", "u1", "m3", "/query 1").await;
    world.fence("c2", "u1").await;
    assert_eq!(last_sender(&world)["contact"], json!({"name": "王五", "remark": "大客户"}));
    assert_eq!(world.texts("c2")[0], "你好，王五");
    world.end().await;
}

/// The callback's own name is younger than what is kept, and below what anybody set.
async fn the_name_at_hand_is_the_one_that_counts(on: On) {
    let world = world(on, |_, app| {
        let hi = json!({"type": "reply", "text": "你好，{{ user.name }}"});
        app["commands"].as_array_mut().expect("a list").push(json!({"name": "hi", "action": hi}));
    })
    .await;
    let say = async |msg_id: &str, name: &str| {
        let named = format!("<Name><![CDATA[{name}]]></Name>");
        let text = robot_text("c1", "u1", msg_id, "/hi").replace("<Name><![CDATA[u1]]></Name>", &named);
        world.post_callback(&text).await;
        world.ends(msg_id, "delivered").await;
    };
    say("m1", "甲").await;
    say("m2", "乙").await;
    let put = json!({"contact": {"name": "王五"}});
    assert_eq!(world.call(Method::PUT, &format!("users/{APP}/u1"), &put).await.0, 200);
    say("m3", "丙").await;
    assert_eq!(world.texts("c1"), ["你好，甲", "你好，乙", "你好，王五"]);
    world.end().await;
}

async fn unbinding_leaves_what_others_said(on: On) {
    let world = world(on, with_bindings).await;
    let path = format!("users/{APP}/u1");
    let put = json!({"user_id": "u-7", "contact": {"name": "乙", "remark": "大客户"}});
    assert_eq!(world.call(Method::PUT, &path, &put).await.0, 200);
    world.say("c1", "u1", "m1", &format!("我叫丙，电话{PHONE}")).await;
    world.fence("c1", "u1").await;
    assert_eq!(user(&world, "u1").await["contact"], json!({"name": "丙", "remark": "大客户", "phone": PHONE}));
    world.say("c1", "u1", "m2", "解绑").await;
    world.fence("c1", "u1").await;
    let known = user(&world, "u1").await;
    assert_eq!((&known["user_id"], &known["contact"]), (&Value::Null, &json!({"name": "乙", "remark": "大客户"})));
    world.end().await;
}

/// In the session, and so in the archive and in whatever is asked with it later.
async fn what_was_said_to_be_a_phone_is_kept_masked_whatever_it_is(on: On) {
    let world = world(on, |fake, app| {
        with_bindings(fake, app);
        let crm = app["bindings"][0]["action"].clone();
        let landline = json!({"pattern": r"座机(?P<phone>\S+)", "action": crm});
        app["bindings"].as_array_mut().expect("a list").push(landline);
    })
    .await;
    for number in ["138001380001", "010-12345678"] {
        world
            .fake
            .service()
            .script("crm", [ServiceAnswer::Json(json!({"text": format!("没有{number}")})).after(Default::default())]);
    }
    world.say("c1", "u1", "b1", "绑定手机号 138001380001").await;
    world.say("c1", "u1", "b2", "座机010-12345678").await;
    world.fence("c1", "u1").await;
    let four = |answer: &Value| answer["turns"].as_array().is_some_and(|turns| turns.len() >= 4);
    let session = world.api(&format!("sessions/{APP}/c1/u1"), four).await.to_string();
    for (shown, hidden) in [("138****80001", "13800138000"), ("010*****5678", "12345678")] {
        assert!(session.contains(shown) && !session.contains(hidden), "{session}");
    }
    world.end().await;
}

async fn who_is_forgotten_while_they_bind_stays_forgotten(on: On) {
    let world = world(on, with_bindings).await;
    let path = format!("users/{APP}/u1");
    let bound = ServiceAnswer::Json(json!({"user_id": "u-7"})).after(std::time::Duration::from_secs(1));
    world.fake.service().script("crm", [bound]);
    world.say("c1", "u1", "b1", &format!("绑定手机号 {PHONE}")).await;
    world.fake.until(|fake| fake.service().count() == 1).await;
    // Of their name something is known; then nothing is, and what is under way brings nothing.
    for expected in [204, 404] {
        assert_eq!(world.call(Method::DELETE, &path, &Value::Null).await.0, expected);
    }
    world.ends("b1", "silent").await;
    assert_eq!((user(&world, "u1").await["user_id"].clone(), world.texts("c1")), (Value::Null, Vec::<String>::new()));
    // Who says it again means it.
    world.fake.service().script("crm", [ServiceAnswer::Json(json!({"user_id": "u-7"})).after(Default::default())]);
    world.say("c1", "u1", "b2", &format!("绑定手机号 {PHONE}")).await;
    world.ends("b2", "delivered").await;
    assert_eq!(user(&world, "u1").await["user_id"], "u-7");
    world.end().await;
}

async fn any_chat_can_be_muted_where_chats_need_no_entry(on: On) {
    let world = World::with(on, &["c1"], Options::default(), |fake, scenario: Scenario| {
        scenario.app(APP, robot_app(fake, APP, &["c1".to_owned()])).app("j", json_app(fake, "j", &[], ("X-Token", "t")))
    })
    .await;
    let listed = async |world: &World| {
        let chats = world.call(Method::GET, "chats", &Value::Null).await.1;
        let items = chats["items"].as_array().expect("items").clone();
        items.into_iter().filter(|item| item["app"] == "j").map(|item| item["muted"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&world).await, Vec::<Value>::new());
    let (status, chat) = world.call(Method::PATCH, "chats/j/jc", &json!({"muted": true})).await;
    assert_eq!((status, &chat["muted"], listed(&world).await), (200, &json!(true), vec![json!(true)]));
    let (status, chat) = world.call(Method::PATCH, "chats/j/jc", &json!({"muted": false})).await;
    assert_eq!((status, &chat["muted"], listed(&world).await), (200, &json!(false), Vec::<Value>::new()));
    // A robot's chats have entries: another id is a mistyped one.
    assert_eq!(world.patch("nowhere", &json!({"muted": true})).await.0, 404);
    world.end().await;
}

async fn the_api_binds_and_forgets(on: On) {
    let world = world(on, |_, _| {}).await;
    let path = format!("users/{APP}/wm:u%2F1");
    let put = json!({"user_id": "u-7", "ttl": "1h", "renew_on_use": true, "contact": {"phone": PHONE}});
    let (status, known) = world.call(Method::PUT, &path, &put).await;
    let shown = |known: &Value| (known["user_id"].clone(), known["renew_on_use"].clone(), known["contact"].clone());
    assert_eq!((status, shown(&known)), (200, (json!("u-7"), json!(true), json!({"phone": PHONE}))));
    assert!(known["user_id_ttl_ms"].as_u64().is_some_and(|ms| ms > 3_000_000 && ms <= 3_600_000), "{known}");
    world.say("c1", "wm:u/1", "q1", "/query 1").await;
    world.fence("c1", "wm:u/1").await;
    assert_eq!(last_sender(&world)["user_id"], "u-7");
    let (status, known) = world.call(Method::PUT, &path, &json!({"user_id": null})).await;
    assert_eq!((status, &known["user_id"], &known["contact"]["phone"]), (200, &Value::Null, &json!(PHONE)));
    assert_eq!(world.call(Method::DELETE, &path, &Value::Null).await.0, 204);
    assert_eq!(world.call(Method::GET, &path, &Value::Null).await.1["contact"], json!({}));
    world.end().await;
}

async fn a_flood_is_answered_once(on: On) {
    let world = world(on, |_, app| app["rules"]["per_member"] = "2/h".into()).await;
    // Chatter counts for nobody.
    for n in 1..=3 {
        world.say("c1", "u1", &format!("t{n}"), "大家早").await;
    }
    for n in 1..=6 {
        world.say("c1", "u1", &format!("q{n}"), &format!("/query {n}")).await;
    }
    for (msg_id, end) in
        [("q1", "delivered"), ("q2", "delivered"), ("q3", "delivered"), ("q4", "ignored"), ("q6", "ignored")]
    {
        world.ends(msg_id, end).await;
    }
    assert_eq!(world.outcome("q5").await, ("ignored".into(), Some("member_rate".into())));
    // Others, and the same member elsewhere, are heard.
    world.fence("c1", "u2").await;
    world.fence("c2", "u1").await;
    let texts = world.texts("c1");
    assert!(texts.len() == 3 && texts[2].contains("太频繁"), "{texts:?}");
    assert_eq!(world.fake.service().count(), 2);
    world.end().await;
}

async fn a_muted_chat_hears_its_admins_alone(on: On) {
    let world = world(on, |fake, app| {
        with_bindings(fake, app);
        app["rules"]["admins"] = json!(["boss"]);
    })
    .await;
    world.say("c1", "u1", "m1", "/mute").await;
    world.fence("c1", "u1").await;
    world.say("c1", "boss", "m2", "@小助手 静音").await;
    world.ends("m2", "delivered").await;
    let list = world.api("changes?by=boss", |list| list["items"] != json!([])).await;
    let (item, told) = (&list["items"][0], json!({"muted": {"from": false, "to": true}, "msg_id": "m2"}));
    assert_eq!(
        (&item["via"], &item["chat"], &item["sender"], &item["detail"]),
        (&json!("command"), &json!("c1"), &Value::Null, &told)
    );
    for (msg_id, sender, text) in
        [("m3", "u1", "/query 1"), ("m4", "boss", "/help"), ("m5", "u1", "/unmute"), ("m5b", "boss", "/mute")]
    {
        world.say("c1", sender, msg_id, text).await;
        assert_eq!(world.outcome(msg_id).await, ("ignored".into(), Some("muted".into())), "{text}");
    }
    // Nothing is bound either, nor said of who they are.
    for (msg_id, text) in [("m6", format!("绑定手机号 {PHONE}")), ("m7", format!("我叫王五，电话{PHONE}"))]
    {
        world.say("c1", "u1", msg_id, &text).await;
        assert_eq!(world.outcome(msg_id).await, ("ignored".into(), Some("muted".into())), "{text}");
    }
    assert_eq!(user(&world, "u1").await["contact"], json!({"name": "u1"}));
    world.say("c1", "u1", "m8", "违禁词").await;
    world.ends("m8", "blocked").await;
    // Another chat is not meant, and a restart changes nothing.
    let world = world.restart_while(|_| {}).await;
    world.fence("c2", "u1").await;
    world.say("c1", "u1", "m9", "/query 1").await;
    world.ends("m9", "ignored").await;
    world.say("c1", "boss", "m10", "/取消静音").await;
    world.ends("m10", "delivered").await;
    world.fence("c1", "u1").await;
    let texts = world.texts("c1");
    assert!(texts.len() == 3 && texts[0].contains("管理员") && texts[1].contains("已静音"), "{texts:?}");
    assert_eq!((texts[2].as_str(), world.fake.service().count()), ("已取消静音。", 0));
    world.end().await;
}

/// Where nobody is an admin, or none is there: what operators see and do.
async fn an_operator_mutes_a_chat_and_lets_it_speak_again(on: On) {
    let world = world(on, |_, _| {}).await;
    let is_muted = async |chat: &str| world.api(&format!("chats/{APP}/{chat}"), |_| true).await["muted"].clone();
    let (status, chat) = world.patch("c1", &json!({"muted": true})).await;
    assert_eq!(
        (status, &chat["muted"], is_muted("c1").await, is_muted("c2").await),
        (200, &json!(true), json!(true), json!(false))
    );
    world.say("c1", "u1", "m1", "/query 1").await;
    assert_eq!(world.outcome("m1").await, ("ignored".into(), Some("muted".into())));
    assert_eq!(world.patch("c1", &json!({"muted": false})).await.1["muted"], false);
    world.fence("c1", "u1").await;
    assert_eq!(world.fake.service().count(), 0);
    world.end().await;
}

async fn a_command_for_bound_members_asks_the_others_to_bind(on: On) {
    let world = world(on, |_, app| app["commands"][0]["only"] = "bound".into()).await;
    world.say("c1", "u1", "m1", "/query 1").await;
    world.fence("c1", "u1").await;
    assert_eq!(
        (world.texts("c1"), world.fake.service().count()),
        (vec!["请先绑定身份，再使用这个命令。".to_owned()], 0)
    );
    let put = json!({"user_id": "u-7"});
    assert_eq!(world.call(Method::PUT, &format!("users/{APP}/u1"), &put).await.0, 200);
    world.say("c2", "u1", "m2", "/query 2").await;
    world.fence("c2", "u1").await;
    assert_eq!(world.fake.service().count(), 1);
    world.end().await;
}

/// Time passes by the server's own hand: its expiry is moved, nobody waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_use_renews_a_binding() {
    let test = async {
        let mut world = world(On::Redis, |_, _| {}).await;
        for (renew, sender) in [(true, "u1"), (false, "u2")] {
            let put = json!({"user_id": "u-7", "ttl": "1h", "renew_on_use": renew});
            assert_eq!(world.call(Method::PUT, &format!("users/{APP}/{sender}"), &put).await.0, 200);
            let name = format!("wg:user:{APP}:{sender}");
            let _: () = world.redis().command(&["PEXPIRE", &name, "600000"]).await;
            world.say("c1", sender, &format!("q-{sender}"), "/query 1").await;
            world.fence("c1", sender).await;
            let left: u64 = world.redis().command(&["PTTL", &name]).await;
            assert_eq!((last_sender(&world)["user_id"].clone(), left > 3_000_000), (json!("u-7"), renew), "{left}");
        }
        world.end().await;
    };
    tokio::time::timeout(crate::world::TEST, test).await.expect("within its time");
}
