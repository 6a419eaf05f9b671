//! A fault of the whole app is asked of WeCom once, by nobody else, in no process.

use futures_util::future::join_all;
use serde_json::{Value, json};
use wecom_gateway::sim::scenario::{AGENT_ID, api_app};
use wecom_gateway::sim::wecom::member;
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, app_text};

use crate::on_both_stores;
use crate::world::{APP, On, TEST, World, key};

on_both_stores!(
    a_fault_of_the_app_holds_all_its_lanes_and_nobody_elses,
    a_mended_fault_is_tried_at_once_where_an_operator_says_so
);

/// Two apps with an API side each.
async fn two_apps(on: On) -> World {
    let both = |fake: &FakeWeCom, scenario: Scenario| {
        scenario.app(APP, api_app(fake, APP, &[])).app("other", api_app(fake, "other", &[]))
    };
    World::with(on, &[], Options::default(), both).await
}

/// Sends to these members altogether, refused ones too.
fn posts(fake: &FakeWeCom, users: &[String]) -> usize {
    users.iter().map(|user| fake.posts(&member(user))).sum()
}

async fn a_fault_of_the_app_holds_all_its_lanes_and_nobody_elses(on: On) {
    for errcode in [60020, 48002, 45009] {
        let world = two_apps(on).await;
        world.fake.script(&member("first"), [Answer::Errcode(errcode).into()]);
        world.post_callback(&app_text("first", "m0", "/echo [first first 1]")).await;
        world.api("chats/support/first", |answer| answer["hold"].is_string()).await;
        let users: Vec<String> = (0..20).map(|n| format!("u{n}")).collect();
        join_all(users.iter().map(async |user| {
            world.post_callback(&app_text(user, &format!("m-{user}"), &format!("/echo [{user} {user} 1]"))).await;
        }))
        .await;
        for user in &users {
            let item = world.api(&format!("chats/support/{user}"), |answer| answer["depth"] == 1).await;
            assert_eq!((&item["state"], &item["waits_for"]), (&json!("backing_off"), &json!("hold")), "{item}");
            assert!(item["hold"].as_str().unwrap().contains(&errcode.to_string()), "{item}");
            assert!((1..=60_000).contains(&item["wake_in_ms"].as_i64().unwrap()), "{item}");
        }
        // The other app goes on, and by then the first one's lanes have been looked at.
        let other = world.caller_of("other");
        assert_eq!(other.post(&app_text("o1", "o1", "/echo [o1 o1 1]")).await, Some(200));
        world.fake.until(|fake| fake.texts(&member("o1")).len() == 1).await;
        assert_eq!((posts(&world.fake, &users), world.fake.posts(&member("first"))), (0, 1), "{errcode}");
        world.end().await;
    }
}

async fn a_mended_fault_is_tried_at_once_where_an_operator_says_so(on: On) {
    let world = two_apps(on).await;
    // The address is refused twice: at first, and at a first try by hand.
    world.fake.script(&member("first"), [Answer::Errcode(60020).into(), Answer::Errcode(60020).into()]);
    world.post_callback(&app_text("first", "m0", "/echo [first first 1]")).await;
    let chat = "chats/support/first";
    let item = world.api(chat, |item| item["hold"].is_string()).await;
    let (hold, address) = (item["hold"].as_str().unwrap(), "from ip: 203.0.113.7");
    assert!(hold.contains(address) && hold.contains("企业可信IP"), "{item}");
    assert_eq!(world.post("apps/other/retry", &Value::Null).await.0, 409, "nothing holds it");
    assert_eq!(world.post("apps/nobody/retry", &Value::Null).await.0, 404);
    // The first try by hand fails, the second gets through, and so does what waited behind it.
    assert_eq!(world.patch("first", &json!({"held": false})).await.0, 200);
    world.fake.until(|fake| fake.posts(&member("first")) == 2).await;
    world
        .api("apps", |apps| {
            apps["items"].as_array().unwrap().iter().any(|app| app["wake_in_ms"].as_i64() > Some(60_000))
        })
        .await;
    assert_eq!(world.patch("first", &json!({"held": false})).await.0, 200);
    world.fake.until(|fake| fake.texts(&member("first")).len() == 1).await;
    world.api("apps", |apps| apps["items"].as_array().unwrap().iter().all(|app| app["hold"].is_null())).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_robot_that_refuses_holds_its_chat_which_says_so_and_is_tried_again_by_hand() {
    let test = async {
        let world = World::new(On::Embedded, &["c1"]).await;
        world.fake.script(&key("c1"), [Answer::Errcode(60020).into()]);
        world.say("c1", "li", "m1", "/echo [c1 li 1]").await;
        let item = world.api("chats/support/c1", |item| item["waits_for"] == "hold").await;
        assert!(item["hold"].as_str().unwrap().contains("60020"), "{item}");
        assert_eq!(world.patch("c1", &json!({"held": false})).await.0, 200);
        world.ends("m1", "delivered").await;
        world.api("chats/support/c1", |item| item["hold"].is_null()).await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_app_that_is_configured_anew_is_tried_at_once() {
    let test = async {
        let world = two_apps(On::Embedded).await;
        world.fake.script(&member("first"), [Answer::Errcode(48002).into()]);
        world.post_callback(&app_text("first", "m0", "/echo [first first 1]")).await;
        world.api("chats/support/first", |item| item["hold"].is_string()).await;
        let file = world.folder().join(format!("apps/{APP}.toml"));
        let mut app: Value = toml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        world.fake.app(app["corp_id"].as_str().unwrap(), "a-new-secret", AGENT_ID);
        app["secret"] = "a-new-secret".into();
        let (world, status, _) = world.reload_as(|_, scenario| scenario.app(APP, app)).await;
        assert_eq!(status, 200);
        // Its lane looks again within 20 s, a minute before its time.
        world.fake.until(|fake| fake.texts(&member("first")).len() == 1).await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_learns_of_a_hold() {
    let test = async {
        let world = two_apps(On::Redis).await;
        world.fake.script(&member("first"), [Answer::Errcode(60020).into()]);
        world.post_callback(&app_text("first", "m0", "/echo [first first 1]")).await;
        world.api("chats/support/first", |answer| answer["hold"].is_string()).await;
        let second = world.second().await;
        let url = format!("http://{}/api/v1/chats/support/first", second.admin_addr());
        loop {
            let item: serde_json::Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
            if item["hold"].as_str().is_some_and(|why| why.contains("60020")) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        second.stop().await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
