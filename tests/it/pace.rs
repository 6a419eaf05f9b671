//! Pace on a whole gateway: no robot is sent to above its rate, over all processes; what it holds back leaves together, in
//! its order, and whatever comes of that is true of each reply.

use std::time::Duration;

use serde_json::{Value, json};
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{Answer, Behaviour, FakeWeCom, Options, Rate, Scenario, Tag};

use crate::on_both_stores;
use crate::world::{APP, On, World, key};

on_both_stores!(
    what_pace_holds_back_leaves_as_one_message,
    what_is_refused_together_is_sent_one_by_one,
    one_verdict_is_true_of_all_that_left_together,
    what_a_dead_gateway_sent_together_is_unknown_together,
    without_coalesce_each_reply_leaves_by_itself,
);

/// An app of these chats at `pace`.
fn paced(fake: &FakeWeCom, chats: &[&str], pace: &str) -> Value {
    let chats: Vec<String> = chats.iter().map(|chat| chat.to_string()).collect();
    let mut app = robot_app(fake, APP, &chats);
    app["chats_default"] = json!({"pace": pace});
    app
}

/// One send a second, so that everything behind a send that is under way is held back by it.
async fn slow(on: On) -> World {
    let rate = Rate { limit: 1, window: Duration::from_secs(1) };
    let options = Options { rate: Some(rate), ..Options::default() };
    // Long enough for a robot that holds its answer until a burst is in, on a slow machine too.
    let patient = |scenario: Scenario| scenario.set("sender", "timeout", "14s").set("server", "drain", "15s");
    World::with(on, &["c1"], options, |fake, scenario| patient(scenario).app(APP, paced(fake, &["c1"], "1/s"))).await
}

fn tag(n: u64) -> String {
    Tag::new("c1", "u1", n).to_string()
}

/// Posts messages `m<n>`, each answered by its tag, while the robot holds back its answer to the first.
async fn burst(world: &World, count: u64) {
    world.fake.hold(&key("c1"));
    for n in 1..=count {
        world.say("c1", "u1", &format!("m{n}"), &format!("/echo {}", tag(n))).await;
    }
    world.until_waiting("c1", count as usize).await;
    world.fake.until(|fake| fake.under_way(&key("c1")) == 1).await;
}

async fn what_pace_holds_back_leaves_as_one_message(on: On) {
    let world = slow(on).await;
    burst(&world, 12).await;
    world.fake.release(&key("c1"));
    world.fake.until(|fake| fake.texts(&key("c1")).len() == 2).await;
    let together: Vec<String> = (2..=12).map(tag).collect();
    assert_eq!(world.texts("c1"), [tag(1), together.join("\n")]);
    let settled = |trail: &Value| {
        let stages = trail["items"][0]["stages"].as_array().unwrap();
        stages.iter().find(|stage| stage["stage"] == "settled").cloned().unwrap_or_default()
    };
    let mut first = Vec::new();
    for n in 1..=12 {
        world.ends(&format!("m{n}"), "delivered").await;
        let end = settled(&world.api(&format!("messages/m{n}"), |_| true).await);
        assert_eq!(end["merged"].as_u64(), (n > 1).then_some(11), "{end}");
        first.extend(end["first"].as_str().map(str::to_owned));
    }
    first.dedup();
    assert_eq!(first.len(), 1, "all name the one that they left with: {first:?}");
    world.end().await;
}

async fn what_is_refused_together_is_sent_one_by_one(on: On) {
    let world = slow(on).await;
    let refused = || Behaviour::from(Answer::Errcode(40008));
    world.fake.script(&key("c1"), [Answer::Taken.into(), refused(), refused()]);
    burst(&world, 4).await;
    world.fake.release(&key("c1"));
    for (n, end) in [(1, "delivered"), (2, "dead"), (3, "delivered"), (4, "delivered")] {
        world.ends(&format!("m{n}"), end).await;
    }
    assert_eq!(world.texts("c1"), [tag(1), tag(3), tag(4)]);
    assert_eq!(world.fake.posts(&key("c1")), 5);
    world.end().await;
}

async fn one_verdict_is_true_of_all_that_left_together(on: On) {
    let world = slow(on).await;
    world.fake.script(&key("c1"), [Answer::Taken.into(), Answer::Cut.into()]);
    burst(&world, 4).await;
    world.fake.release(&key("c1"));
    for n in 2..=4 {
        assert_eq!(world.outcome(&format!("m{n}")).await, ("unknown".into(), Some("no_answer".into())));
    }
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), [tag(1), [2, 3, 4].map(tag).join("\n")], "once");
    world.end().await;
}

async fn what_a_dead_gateway_sent_together_is_unknown_together(on: On) {
    let hasty = |fake: &FakeWeCom, scenario: Scenario| {
        let scenario = scenario.set("server", "deadline", "500ms").set("server", "drain", "500ms");
        scenario.app(APP, paced(fake, &["c1"], "1/s"))
    };
    let world = World::with(on, &["c1"], Options::default(), hasty).await;
    burst(&world, 4).await;
    world.fake.release(&key("c1"));
    world.fake.until(|fake| fake.posts(&key("c1")) == 1 && fake.under_way(&key("c1")) == 0).await;
    world.fake.hold(&key("c1"));
    world.fake.until(|fake| fake.posts(&key("c1")) == 2).await;
    world.say("c1", "u1", "m5", &format!("/echo {}", tag(5))).await;
    world.until_waiting("c1", 4).await;
    let world = world.restart_while(|_| {}).await;
    for n in 2..=4 {
        assert_eq!(world.outcome(&format!("m{n}")).await, ("unknown".into(), Some("interrupted".into())));
    }
    world.fake.release(&key("c1"));
    world.ends("m5", "delivered").await;
    assert_eq!(world.texts("c1"), [tag(1), [2, 3, 4].map(tag).join("\n"), tag(5)]);
    world.app.stop().await;
}

/// A window of ten sends, many times as long as a send takes; nothing may leave together.
async fn without_coalesce_each_reply_leaves_by_itself(on: On) {
    let rate = Rate { limit: 10, window: Duration::from_secs(1) };
    let options = Options { rate: Some(rate), ..Options::default() };
    let apart = |fake: &FakeWeCom, scenario: Scenario| {
        let mut app = paced(fake, &["c1"], "10/s");
        app["chats_default"]["coalesce"] = false.into();
        scenario.app(APP, app)
    };
    let world = World::with(on, &["c1"], options, apart).await;
    burst(&world, 24).await;
    world.fake.release(&key("c1"));
    world.fake.until(|fake| fake.texts(&key("c1")).len() == 24).await;
    assert_eq!(world.texts("c1"), (1..=24).map(tag).collect::<Vec<_>>());
    world.end().await;
}

/// WeCom's own rate, by the clock on the wall, two gateways on one Redis: of 60 replies to one chat all are there within 65 s;
/// where nothing may leave together, 30 take a minute and not one send is above the rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_wecoms_own_pace() {
    let rate = Rate { limit: 20, window: Duration::from_secs(60) };
    let options = Options { rate: Some(rate), ..Options::default() };
    let wecoms = |fake: &FakeWeCom, scenario: Scenario| {
        let mut app = paced(fake, &["together", "apart"], "20/min");
        app["chats"][1]["coalesce"] = false.into();
        scenario.app(APP, app)
    };
    let mut world = World::with(On::Redis, &["together", "apart"], options, wecoms).await;
    let (other, _files) = world.beside(wecoms).await;
    let minute = async {
        for n in 1..=60 {
            for chat in ["together", "apart"].into_iter().take(if n > 30 { 1 } else { 2 }) {
                let text = format!("/echo {}", Tag::new(chat, "u1", n));
                world.say(chat, "u1", &format!("{chat}{n}"), &text).await;
            }
        }
        let came = |fake: &FakeWeCom, chat: &str| {
            fake.texts(&key(chat)).iter().map(|text| Tag::all(text).count()).sum::<usize>()
        };
        world.fake.until(|fake| came(fake, "together") == 60 && came(fake, "apart") == 30).await;
    };
    tokio::time::timeout(Duration::from_secs(65), minute).await.expect("within 65 s");
    assert!(world.texts("together").len() <= 40, "{:?}", world.texts("together"));
    assert_eq!(world.texts("apart").len(), 30);
    other.stop().await;
    world.end().await;
}
