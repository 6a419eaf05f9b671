//! Access tokens: one refresh at a time over all processes, and what a refused one leads to.

use futures_util::future::join_all;
use wecom_gateway::sim::scenario::api_app;
use wecom_gateway::sim::wecom::{GETTOKEN, member};
use wecom_gateway::sim::{Answer, Options, app_text};

use super::world_of;
use crate::on_both_stores;
use crate::world::{APP, On, TEST, World};

on_both_stores!(
    a_refused_token_is_refreshed_once_for_everybody,
    a_token_that_is_refused_for_ever_holds_the_app,
    a_wrong_secret_is_asked_once,
);

/// So many messages of as many members, at once.
async fn say_all(world: &World, serial: u64, members: u64) {
    join_all((0..members).map(async |n| {
        let user = format!("u{n}");
        world
            .post_callback(&app_text(&user, &format!("m{serial}-{n}"), &format!("/echo [{user} {user} {serial}]")))
            .await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_sends_of_two_processes_ask_for_one_token() {
    let test = async {
        let many = |fake: &wecom_gateway::sim::FakeWeCom, scenario: wecom_gateway::sim::Scenario| {
            scenario.app(APP, api_app(fake, APP, &[])).set("sender", "max_chats", 50)
        };
        let world = World::with(On::Redis, &[], Options::default(), many).await;
        let second = world.second().await;
        world.fake.hold(GETTOKEN);
        say_all(&world, 1, 100).await;
        world.fake.until(|fake| fake.posts(GETTOKEN) == 1).await;
        world.fake.release(GETTOKEN);
        world.fake.until(|fake| fake.arrived().len() == 100).await;
        assert_eq!((world.fake.posts(GETTOKEN), world.fake.tokens()), (1, 1));
        // WeCom takes the token back.
        world.fake.forget_tokens();
        say_all(&world, 2, 100).await;
        world.fake.until(|fake| fake.arrived().len() == 200).await;
        assert_eq!(world.fake.tokens(), 2);
        second.stop().await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

async fn a_refused_token_is_refreshed_once_for_everybody(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    say_all(&world, 1, 1).await;
    world.fake.until(|fake| fake.arrived().len() == 1).await;
    world.fake.forget_tokens();
    say_all(&world, 2, 10).await;
    world.fake.until(|fake| fake.arrived().len() == 11).await;
    assert_eq!(world.fake.tokens(), 2, "40014");
    world.fake.end_tokens();
    say_all(&world, 3, 10).await;
    world.fake.until(|fake| fake.arrived().len() == 21).await;
    assert_eq!(world.fake.tokens(), 3, "42001");
    world.end().await;
}

async fn a_token_that_is_refused_for_ever_holds_the_app(on: On) {
    let world = world_of(on, |fake| api_app(fake, APP, &[])).await;
    // Each token is over as soon as it is given.
    world.fake.script(&member("u0"), [Answer::Errcode(42001).into(), Answer::Errcode(42001).into()]);
    say_all(&world, 1, 1).await;
    let held = world.api("chats", |answer| answer["items"][0]["hold"].is_string()).await;
    let item = &held["items"][0];
    assert_eq!((&item["state"], &item["waits_for"]), (&"backing_off".into(), &"hold".into()), "{held}");
    assert!(item["hold"].as_str().unwrap().contains("42001"), "{held}");
    assert_eq!((world.fake.posts(&member("u0")), world.fake.tokens()), (2, 2), "one refresh a message");
    world.end().await;
}

async fn a_wrong_secret_is_asked_once(on: On) {
    let app = |fake: &wecom_gateway::sim::FakeWeCom| {
        let mut app = api_app(fake, APP, &[]);
        app["secret"] = "not-the-secret".into();
        app["chats"] = serde_json::json!([{"id": "robots", "webhook": fake.webhook("robot", "robots")}]);
        app
    };
    let world = world_of(on, app).await;
    say_all(&world, 1, 30).await;
    let held = world.api("chats", |answer| {
        let items = answer["items"].as_array().map_or(&[] as &[_], Vec::as_slice);
        items.len() == 31 && items.iter().filter(|item| item["hold"].is_string()).count() == 30
    });
    let held = held.await.to_string();
    assert!(held.contains("40001") && held.contains("gettoken") && !held.contains("not-the-secret"), "{held}");
    assert_eq!(world.fake.posts(GETTOKEN), 1);
    // What leaves by a robot is not concerned.
    world.say("robots", "u1", "r1", "/echo [robots u1 1]").await;
    world.ends("r1", "delivered").await;
    assert_eq!((world.fake.posts(GETTOKEN), world.fake.arrived().len()), (1, 1));
    world.end().await;
}
