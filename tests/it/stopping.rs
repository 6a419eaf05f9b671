//! Stopping a whole gateway: nothing new is begun, what is under way gets `server.drain`, what is left goes to the next at
//! once, and no promise is broken on the way.

use wecom_gateway::sim::{FakeWeCom, Options, Scenario, Tag, Violation};

use crate::on_both_stores;
use crate::world::{On, World, key};

on_both_stores!(
    an_action_that_outlasts_the_drain_is_asked_again_by_the_next,
    a_send_that_outlasts_the_drain_ends_as_unknown_and_the_lane_goes_on,
);

/// A short drain, and leases that nobody could wait for.
fn hasty(_: &FakeWeCom, scenario: Scenario) -> Scenario {
    scenario
        .set("server", "deadline", "500ms")
        .set("server", "drain", "500ms")
        .set("workers", "lease", "1h")
        .set("sender", "timeout", "20s")
        .set("sender", "lease", "1h")
}

async fn an_action_that_outlasts_the_drain_is_asked_again_by_the_next(on: On) {
    let world = World::with(on, &["c1"], Options::default(), hasty).await;
    world.fake.service().hold();
    world.say("c1", "u1", "m1", "/query 7").await;
    world.fake.until(|fake| fake.service().under_way() == 1).await;
    let world = world.restart_while(|_| {}).await;
    world.fake.until(|fake| fake.service().count() == 2).await;
    world.fake.service().release();
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["orders [c1 u1 7] {\"order_id\":7}"]);
    // The service knows a second call by its Idempotency-Key, and nothing else was wrong with it.
    let fake = world.stop_while(|_| {}).await;
    let twice = Violation::AskedTwice { chat: "c1".into(), sender: "u1".into(), msg_id: "m1".into() };
    assert_eq!(fake.ledger().violations(), [twice]);
}

async fn a_send_that_outlasts_the_drain_ends_as_unknown_and_the_lane_goes_on(on: On) {
    let world = World::with(on, &["c1"], Options::default(), hasty).await;
    world.fake.hold(&key("c1"));
    for n in 1..=2 {
        world.say("c1", "u1", &format!("s{n}"), &format!("/echo {}", Tag::new("c1", "u1", n))).await;
    }
    world.fake.until(|fake| fake.under_way(&key("c1")) == 1).await;
    let world = world.restart_while(|_| {}).await;
    world.ends("s1", "unknown").await;
    world.fake.release(&key("c1"));
    world.ends("s2", "delivered").await;
    world.fence("c1", "u1").await;
    let second = Tag::new("c1", "u1", 2).to_string();
    assert_eq!(world.texts("c1").iter().filter(|text| **text == second).count(), 1);
    assert_eq!(world.fake.posts(&key("c1")), 3);
    world.end().await;
}
