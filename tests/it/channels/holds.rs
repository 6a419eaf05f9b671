//! A fault of the whole app is asked of WeCom once, by nobody else, in no process.

use futures_util::future::join_all;
use serde_json::json;
use wecom_gateway::sim::scenario::api_app;
use wecom_gateway::sim::wecom::member;
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, app_text};

use crate::on_both_stores;
use crate::world::{APP, On, TEST, World};

on_both_stores!(a_fault_of_the_app_holds_all_its_lanes_and_nobody_elses);

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
        }
        // The other app goes on, and by then the first one's lanes have been looked at.
        let other = world.caller_of("other");
        assert_eq!(other.post(&app_text("o1", "o1", "/echo [o1 o1 1]")).await, Some(200));
        world.fake.until(|fake| fake.texts(&member("o1")).len() == 1).await;
        assert_eq!((posts(&world.fake, &users), world.fake.posts(&member("first"))), (0, 1), "{errcode}");
        world.end().await;
    }
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
