//! What was said before, from outside: a model that is asked with it, members who come back after the store forgot,
//! sessions that are forgotten on demand or shared in a chat.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use wecom_gateway::model::SessionKey;
use wecom_gateway::records::Records;
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{Options, Scenario, ServiceAnswer};

use crate::mariadb_server::MariaDb;
use crate::model_server::{ModelServer, Reaction};
use crate::on_both_stores;
use crate::world::{APP, On, TEST, World, key};

on_both_stores!(
    a_model_answers_with_what_was_said_before,
    copies_ask_a_model_once,
    a_refused_request_is_repeated_and_answered_once,
    a_model_that_fails_is_one_apology_and_not_remembered,
    members_never_see_each_others_words,
    a_chat_may_share_its_session,
    a_model_is_told_the_name_that_stands_in_the_contact_book,
    a_member_who_comes_back_is_remembered,
    a_forgotten_session_stays_forgotten,
    without_an_archive_nothing_outlives_the_store,
    only_an_action_that_sees_the_session_asks_the_archive,
    an_archive_that_was_turned_off_is_not_read,
);

/// A gateway whose mentions ask `model`, with these keys of the action and of `[session]`.
async fn world(on: On, model: &ModelServer, action: Value, session: Value) -> World {
    world_in(on, model, action, session, |scenario| scenario).await
}

async fn world_in(
    on: On,
    model: &ModelServer,
    action: Value,
    session: Value,
    shape: impl FnOnce(Scenario) -> Scenario,
) -> World {
    let action = model.action(action);
    World::with(on, &["c1"], Options::default(), |fake, scenario| {
        let mut app = robot_app(fake, APP, &["c1".to_owned()]);
        app["mention"] = json!({ "action": action });
        app["session"] = session;
        shape(scenario.app(APP, app))
    })
    .await
}

/// Says something to the bot and waits for its answer.
async fn ask(world: &World, sender: &str, msg_id: &str, words: &str) {
    world.say("c1", sender, msg_id, &format!("@小助手 {words}")).await;
    world.fence("c1", sender).await;
}

async fn a_model_answers_with_what_was_said_before(on: On) {
    let model = ModelServer::start().await;
    let world = world(on, &model, json!({}), json!({})).await;
    ask(&world, "u1", "m1", "一").await;
    ask(&world, "u1", "m2", "二").await;
    assert_eq!(world.texts("c1"), ["你说：@小助手 一", "你说：@小助手 二"]);
    let asked = model.asked();
    assert_eq!(asked[0].talk(), ["system: 你是客服", "user u1: @小助手 一"]);
    let second = ["system: 你是客服", "user: @小助手 一", "assistant: 你说：@小助手 一", "user u1: @小助手 二"];
    assert_eq!(asked[1].talk(), second);
    assert_eq!(asked[0].body["stream"], false);
    assert_eq!(world.outcome("m2").await, ("delivered".into(), None));
    let trail = world.api("messages/m2", |_| true).await;
    assert!(!trail.to_string().contains("二"), "no words in a trail: {trail}");
    world.end().await;
}

async fn copies_ask_a_model_once(on: On) {
    let model = ModelServer::start().await;
    let world = world(on, &model, json!({}), json!({})).await;
    join_all((0..20).map(|_| world.say("c1", "u1", "m1", "@小助手 一"))).await;
    world.fence("c1", "u1").await;
    world.say("c1", "u1", "m1", "@小助手 一").await;
    world.fence("c1", "u1").await;
    assert_eq!((model.asked().len(), world.texts("c1").len()), (1, 1));
    world.end().await;
}

async fn a_refused_request_is_repeated_and_answered_once(on: On) {
    let model = ModelServer::start().await;
    model.script([Reaction::Refuse(429), Reaction::Refuse(500)]);
    let world = world(on, &model, json!({}), json!({})).await;
    ask(&world, "u1", "m1", "一").await;
    assert_eq!(world.texts("c1"), ["你说：@小助手 一"]);
    let keys: Vec<_> = model.asked().into_iter().map(|asked| asked.key).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    world.end().await;
}

async fn a_model_that_fails_is_one_apology_and_not_remembered(on: On) {
    let model = ModelServer::start().await;
    let world = world(on, &model, json!({"timeout": "200ms"}), json!({})).await;
    let failures =
        [Reaction::Nonsense("words"), Reaction::Nonsense(r#"{"choices":[]}"#), Reaction::Hang, Reaction::Refuse(401)];
    for (n, failure) in failures.into_iter().enumerate() {
        model.script([failure]);
        ask(&world, "u1", &format!("m{n}"), "一").await;
        let texts = world.texts("c1");
        assert!(texts.len() == n + 1 && texts[n].contains("抱歉"), "{texts:?}");
        assert!(world.outcome(&format!("m{n}")).await.1.is_some(), "the trail says why");
    }
    ask(&world, "u1", "last", "二").await;
    let asked = model.asked();
    assert_eq!(asked.last().unwrap().talk(), ["system: 你是客服", "user u1: @小助手 二"]);
    assert_eq!(asked.len(), 5);
    world.end().await;
}

async fn members_never_see_each_others_words(on: On) {
    let model = ModelServer::start().await;
    let world = world(on, &model, json!({}), json!({})).await;
    for round in 0..2 {
        let asks = (0..8).map(|n| {
            let (world, sender) = (&world, format!("u{n}"));
            async move { ask(world, &sender, &format!("m{round}"), &format!("我是{sender}")).await }
        });
        join_all(asks).await;
    }
    let asked = model.asked();
    assert_eq!(asked.len(), 16);
    for asked in asked {
        let talk = asked.talk();
        let (_, who) = talk.last().unwrap().split_once("我是").unwrap();
        assert!(talk[1..].iter().all(|words| words.ends_with(&format!("我是{who}"))), "{talk:?}");
    }
    world.end().await;
}

async fn a_chat_may_share_its_session(on: On) {
    let model = ModelServer::start().await;
    let by_chat = |scenario: Scenario| scenario.set("workers", "order", "chat");
    let world = world_in(on, &model, json!({}), json!({"scope": "chat"}), by_chat).await;
    ask(&world, "u1", "m1", "一").await;
    ask(&world, "u2", "m2", "二").await;
    let second = model.asked()[1].talk();
    assert_eq!(second[1..], ["user u1: @小助手 一", "assistant: 你说：@小助手 一", "user u2: @小助手 二"]);
    // Whoever is named, it is the chat's.
    let seen = world.api("sessions/support/c1/anybody", |answer| answer["found"] == "store").await;
    assert_eq!(seen["turns"].as_array().map(Vec::len), Some(4));
    world.end().await;
}

/// What was set there stands above what callbacks say, in a shared session too.
async fn a_model_is_told_the_name_that_stands_in_the_contact_book(on: On) {
    let model = ModelServer::start().await;
    let by_chat = |scenario: Scenario| scenario.set("workers", "order", "chat");
    let world = world_in(on, &model, json!({}), json!({"scope": "chat"}), by_chat).await;
    let put = json!({"contact": {"name": "乙"}});
    assert_eq!(world.call(reqwest::Method::PUT, "users/support/u1", &put).await.0, 200);
    ask(&world, "u1", "m1", "一").await;
    ask(&world, "u2", "m2", "二").await;
    let second = model.asked()[1].talk();
    assert_eq!(second[1..], ["user 乙: @小助手 一", "assistant: 你说：@小助手 一", "user u2: @小助手 二"]);
    world.end().await;
}

async fn a_member_who_comes_back_is_remembered(on: On) {
    for database in [None, Some(MariaDb::new().await)] {
        let model = ModelServer::start().await;
        let in_database = |scenario: Scenario| match &database {
            Some(server) => scenario.set("database", "url", server.url().expose()),
            None => scenario,
        };
        // The store forgets at once.
        let world = world_in(on, &model, json!({}), json!({"keep": "1ms"}), in_database).await;
        ask(&world, "u1", "m1", "那个价格是 99").await;
        let seen = world.api("sessions/support/c1/u1", |answer| answer["found"] == "archive").await;
        assert_eq!(seen["turns"][0]["text"], "@小助手 那个价格是 99");
        // A fresh gateway too: nothing of it is in memory.
        let world = world.restart_while(|_| ()).await;
        ask(&world, "u1", "m2", "多少钱？").await;
        let talk = model.asked()[1].talk();
        let before = ["user: @小助手 那个价格是 99", "assistant: 你说：@小助手 那个价格是 99"];
        assert_eq!((&talk[1..3], talk.len()), (&before.map(String::from)[..], 4));
        world.end().await;
    }
}

async fn a_forgotten_session_stays_forgotten(on: On) {
    let (model, database) = (ModelServer::start().await, MariaDb::new().await);
    let in_database = |scenario: Scenario| scenario.set("database", "url", database.url().expose());
    let world = world_in(on, &model, json!({}), json!({"keep": "1ms"}), in_database).await;
    ask(&world, "u1", "m1", "秘密").await;
    ask(&world, "u2", "m1", "别人的").await;
    for sender in ["u1", "u2"] {
        world.api(&format!("sessions/support/c1/{sender}"), |answer| answer["found"] == "archive").await;
    }
    assert_eq!(world.delete("sessions/support/c1/u1").await, 204);
    let seen = world.api("sessions/support/c1/u1", |_| true).await;
    assert_eq!((&seen["found"], &seen["turns"], &seen["vars"]), (&Value::Null, &json!([]), &json!({})));
    ask(&world, "u1", "m2", "你还记得吗").await;
    assert_eq!(model.asked().last().unwrap().talk(), ["system: 你是客服", "user u1: @小助手 你还记得吗"]);
    // It is gone from both tiers, and nobody else lost a word.
    let two = |answer: &Value| answer["turns"].as_array().is_some_and(|turns| turns.len() == 2);
    let seen = world.api("sessions/support/c1/u1", two).await;
    assert_eq!(seen["found"], "archive", "what is said since ends in its own time: {seen}");
    let records = Records::open(&database.url()).await.unwrap();
    let member = SessionKey::of_sender(APP, "c1", "u1");
    let archived = async {
        loop {
            let turns =
                records.archived(&member, 0, 10).await.unwrap().map(|session| session.turns).unwrap_or_default();
            if turns.len() == 2 && turns[0].text.contains("你还记得吗") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TEST, archived).await.expect("the archive forgets what was before, and nothing else");
    let other = world.api("sessions/support/c1/u2", |_| true).await;
    assert!(other.to_string().contains("别人的"), "{other}");
    assert_eq!(world.delete("sessions/nobody/c1/u1").await, 404);
    world.end().await;
}

async fn without_an_archive_nothing_outlives_the_store(on: On) {
    let model = ModelServer::start().await;
    let world = world(on, &model, json!({}), json!({"keep": "1ms", "archive": false})).await;
    ask(&world, "u1", "m1", "一").await;
    world.ends("m1", "delivered").await;
    let seen = world.api("sessions/support/c1/u1", |_| true).await;
    assert_eq!((&seen["found"], &seen["turns"]), (&Value::Null, &json!([])));
    world.end().await;
}

/// A reply shows the vars that are at hand; what the store forgot is read back for those who are shown all of it.
async fn only_an_action_that_sees_the_session_asks_the_archive(on: On) {
    let world = World::with(on, &["c1"], Options::default(), |fake, scenario| {
        let mut app = robot_app(fake, APP, &["c1".to_owned()]);
        let count = json!({"type": "reply", "text": "[{{ session.vars.n }}]"});
        app["commands"].as_array_mut().expect("a list").push(json!({"name": "count", "action": count}));
        app["session"] = json!({"keep": "1ms"});
        scenario.app(APP, app)
    })
    .await;
    world.fake.service().always("orders", ServiceAnswer::Counted.after(Duration::ZERO));
    world.say("c1", "u1", "m1", "/query 1").await;
    world.api("sessions/support/c1/u1", |answer| answer["found"] == "archive").await;
    world.say("c1", "u1", "m2", "/count").await;
    world.say("c1", "u1", "m3", "/query 2").await;
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["[c1 u1 1] 1", "[]", "[c1 u1 2] 2"]);
    world.end().await;
}

async fn an_archive_that_was_turned_off_is_not_read(on: On) {
    let model = ModelServer::start().await;
    let mut app = Value::Null;
    let world = World::with(on, &["c1"], Options::default(), |fake, scenario| {
        app = robot_app(fake, APP, &["c1".to_owned()]);
        app["mention"] = json!({"action": model.action(json!({}))});
        app["session"] = json!({"keep": "1ms"});
        scenario.app(APP, app.clone())
    })
    .await;
    ask(&world, "u1", "m1", "一").await;
    world.api("sessions/support/c1/u1", |answer| answer["found"] == "archive").await;
    app["session"]["archive"] = false.into();
    let world = world.restart_as(|_, scenario| scenario.app(APP, app)).await;
    ask(&world, "u1", "m2", "二").await;
    assert_eq!(model.asked()[1].talk(), ["system: 你是客服", "user u1: @小助手 二"]);
    world.end().await;
}

/// SQL is away: messages are answered without their older turns, and what was said meanwhile is there once it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_holds_no_message_up() {
    let test = async {
        let mut database = MariaDb::alone().await;
        let model = ModelServer::start().await;
        let url = database.url();
        let in_database = |scenario: Scenario| scenario.set("database", "url", url.expose());
        let world = world_in(On::Embedded, &model, json!({}), json!({"keep": "1ms"}), in_database).await;
        ask(&world, "u1", "m1", "一").await;
        world.api("sessions/support/c1/u1", |answer| answer["found"] == "archive").await;
        tokio::task::block_in_place(|| database.kill());
        ask(&world, "u1", "m2", "二").await;
        assert_eq!(model.asked()[1].talk(), ["system: 你是客服", "user u1: @小助手 二"]);
        tokio::task::block_in_place(|| database.start());
        let seen =
            world.api("sessions/support/c1/u1", |answer| answer["turns"].as_array().is_some_and(|t| t.len() == 4));
        assert_eq!(seen.await["found"], "archive");
        world.ends("m2", "delivered").await;
        assert!(world.fake.texts(&key("c1")).len() >= 2);
        world.end().await;
    };
    tokio::time::timeout(TEST + Duration::from_secs(30), test).await.expect("within its time");
}
