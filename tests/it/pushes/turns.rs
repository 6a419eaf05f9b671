//! Replies go before pushes, and pushes are not starved by them.

use serde_json::json;
use wecom_gateway::sim::{FakeWeCom, Options, Scenario};

use super::{push, to, until};
use crate::on_both_stores;
use crate::world::{On, World, key};

on_both_stores!(a_reply_does_not_wait_behind_a_load_of_pushes);

async fn a_reply_does_not_wait_behind_a_load_of_pushes(on: On) {
    let chats: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = chats.iter().map(String::as_str).chain(["talk"]).collect();
    // One send at a time.
    let shape = |_: &FakeWeCom, scenario: Scenario| scenario.set("sender", "max_chats", 1);
    let world = World::with(on, &names, Options::default(), shape).await;
    // The one permit stands at a robot that takes its time, and 39 pushes behind it.
    world.fake.hold(&key("c0"));
    push(&world, &to("load", json!({"chats": chats}), "hi")).await;
    world.fake.until(|fake| fake.under_way(&key("c0")) == 1).await;
    for n in 1..=3 {
        world.say("talk", "u1", &format!("m{n}"), &format!("/echo [talk u1 {n}]")).await;
    }
    world.until_waiting("talk", 3).await;
    let before = world.fake.arrived().len();
    world.fake.release(&key("c0"));
    until(&world, "load", "delivered").await;
    let order: Vec<String> = world.fake.arrived().into_iter().map(|sent| sent.chat).collect();
    let last = order.iter().rposition(|chat| chat == "talk").unwrap();
    assert_eq!(order.iter().filter(|chat| *chat == "talk").count(), 3);
    assert!(last <= before + 5, "a push at most came between: {order:?}");
    world.end().await;
}
