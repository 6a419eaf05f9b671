//! The whole gateway from outside, on both stores: each message once, each answer into its own chat, each member's
//! context their own; and what happens when WeCom refuses, hangs or cuts.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use wecom_gateway::sim::scenario::{json_app, robot_app};
use wecom_gateway::sim::{Answer, FakeWeCom, Load, Mix, Options, Scenario, ServiceAnswer, Tag, robot_text};

use crate::on_both_stores;
use crate::world::{APP, On, World, key};

on_both_stores!(
    a_command_is_answered_once_into_its_own_chat,
    fifty_copies_at_once_are_one_message,
    copies_during_the_work_are_the_same_message,
    one_id_in_two_chats_is_two_messages,
    contexts_of_members_never_mix,
    a_chat_is_answered_in_order_one_at_a_time,
    a_robot_that_hangs_holds_up_no_other_chat,
    a_hanging_action_holds_half_of_the_workers_at_most,
    a_flood_into_one_chat_is_refused_and_no_other,
    two_apps_answer_the_same_chat_by_their_own_robots,
    a_dead_chat_is_tried_once_and_its_lane_flows_on,
    a_refusal_for_pace_keeps_order_and_asks_no_further,
    a_rejected_reply_is_given_up_and_the_lane_goes_on,
    what_may_have_arrived_is_unknown_and_not_sent_again,
    a_message_that_waited_too_long_is_dropped,
    a_chat_without_a_route_gets_nothing,
    ten_json_posts_at_once_are_one_message,
    every_trail_ends_in_one_outcome,
    a_failing_action_is_one_apology,
    a_late_answer_reaches_its_own_chat_once,
    a_late_answer_may_overtake_its_promise,
    stopping_finishes_what_is_under_way,
    a_fresh_gateway_goes_on_where_the_first_stopped,
    a_load_with_copies_and_slow_robots_keeps_every_promise,
);

async fn a_command_is_answered_once_into_its_own_chat(on: On) {
    let world = World::new(on, &["c1", "c2"]).await;
    world.say("c2", "u1", "m1", "@小助手 /query 1001").await;
    world.fence("c2", "u1").await;
    assert_eq!(world.texts("c2"), ["orders [c2 u1 1001] {\"order_id\":1001}"]);
    assert_eq!(world.texts("c1"), [""; 0]);
    assert_eq!(world.outcome("m1").await, ("delivered".into(), None));
    world.end().await;
}

async fn fifty_copies_at_once_are_one_message(on: On) {
    let world = World::new(on, &["c1"]).await;
    join_all((0..50).map(|_| world.say("c1", "u1", "m1", "/query 7"))).await;
    world.say("c1", "u1", "m1", "/query 7").await;
    world.fence("c1", "u1").await;
    assert_eq!((world.fake.service().count(), world.texts("c1").len()), (1, 1));
    world.end().await;
}

async fn copies_during_the_work_are_the_same_message(on: On) {
    let no_window = |_: &FakeWeCom, scenario: Scenario| scenario.set("dedup", "window", "0s");
    let world = World::with(on, &["c1"], Options::default(), no_window).await;
    world.fake.service().hold();
    world.say("c1", "u1", "m1", "/query 7").await;
    world.fake.until(|fake| fake.service().under_way() == 1).await;
    join_all((0..20).map(|_| world.say("c1", "u1", "m1", "/query 7"))).await;
    world.fake.service().release();
    world.fence("c1", "u1").await;
    world.say("c1", "u1", "m1", "/query 7").await;
    world.fence("c1", "u1").await;
    assert_eq!((world.fake.service().count(), world.texts("c1").len()), (1, 1));
    world.end().await;
}

async fn one_id_in_two_chats_is_two_messages(on: On) {
    let world = World::new(on, &["c1", "c2"]).await;
    for (chat, sender, serial) in [("c1", "u1", 1), ("c2", "u1", 2), ("c1", "u2", 3)] {
        world.say(chat, sender, "CAEQ/x+y==", &format!("/echo {}", Tag::new(chat, sender, serial))).await;
    }
    for (chat, sender) in [("c1", "u1"), ("c2", "u1"), ("c1", "u2")] {
        world.fence(chat, sender).await;
    }
    let got: BTreeSet<String> = ["c1", "c2"].iter().flat_map(|chat| world.texts(chat)).collect();
    assert_eq!(got, ["[c1 u1 1]", "[c1 u2 3]", "[c2 u1 2]"].map(String::from).into());
    world.end().await;
}

async fn contexts_of_members_never_mix(on: On) {
    let chats: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = chats.iter().map(String::as_str).collect();
    let world = World::new(on, &names).await;
    // 70 members of chats, each three times; what is posted at once is of different ones, so that its order is nobody's.
    for round in 0..3 {
        let posts = (0..70).map(|n| {
            let (world, serial) = (&world, round * 70 + n + 1);
            let tag = Tag::new(&format!("c{}", n % 10), &format!("u{}", n % 7), serial);
            async move {
                let ledger = world.fake.ledger();
                ledger.expect(&tag, true);
                ledger.posted(serial);
                world.say(&tag.chat, &tag.sender, &format!("mix-{serial}"), &format!("/query {serial}")).await;
                ledger.acked(serial);
            }
        });
        join_all(posts).await;
        assert!(world.fake.ledger().all_answered(Duration::from_secs(20)).await);
    }
    // The fake compares each session with who asked; that must not have been empty talk.
    let calls = world.fake.service().calls();
    let remembered = calls.iter().filter(|call| Tag::of(&call.body["session"].to_string()).is_some()).count();
    assert!(calls.len() == 210 && remembered == 140, "{} calls, {remembered} with a context", calls.len());
    world.end().await;
}

async fn a_chat_is_answered_in_order_one_at_a_time(on: On) {
    let options = Options { latency: Duration::from_millis(5), ..Options::default() };
    let world = World::with(on, &["a", "b", "c"], options, |_, scenario| scenario).await;
    for serial in 1..=15 {
        for chat in ["a", "b", "c"] {
            let tag = Tag::new(chat, "u1", serial);
            world.say(chat, "u1", &format!("{chat}{serial}"), &format!("/echo {tag}")).await;
        }
    }
    for chat in ["a", "b", "c"] {
        world.fence(chat, "u1").await;
        let want: Vec<String> = (1..=15).map(|serial| Tag::new(chat, "u1", serial).to_string()).collect();
        assert_eq!(world.texts(chat), want);
    }
    world.end().await;
}

async fn a_robot_that_hangs_holds_up_no_other_chat(on: On) {
    let patient =
        |_: &FakeWeCom, scenario: Scenario| scenario.set("sender", "timeout", "14s").set("sender", "max_chats", 2);
    let world = World::with(on, &["hangs", "a", "b"], Options::default(), patient).await;
    world.fake.hold(&key("hangs"));
    world.say("hangs", "u1", "h1", "/echo [hangs u1 1]").await;
    world.fake.until(|fake| fake.under_way(&key("hangs")) == 1).await;
    for n in 0..5 {
        world.say("hangs", "u2", &format!("h2{n}"), "/echo more").await;
        world.fence("a", "u1").await;
        world.fence("b", "u1").await;
    }
    assert_eq!((world.fake.under_way(&key("hangs")), world.fake.posts(&key("hangs"))), (1, 1));
    world.fake.release(&key("hangs"));
    world.fence("hangs", "u2").await;
    assert_eq!(world.texts("hangs").len(), 6);
    world.end().await;
}

async fn a_hanging_action_holds_half_of_the_workers_at_most(on: On) {
    let two_apps = |fake: &FakeWeCom, scenario: Scenario| {
        let chats = ["s1".to_owned()];
        scenario.app("sales", robot_app(fake, "sales", &chats)).set("workers", "concurrency", 4)
    };
    let world = World::with(on, &["c1"], Options::default(), two_apps).await;
    world.fake.service().hold();
    let sales = world.caller_of("sales");
    for n in 1..=6 {
        let text = robot_text("s1", &format!("u{n}"), &format!("m{n}"), &format!("/query {n}"));
        assert_eq!(sales.post(&text).await, Some(200));
    }
    world.fake.until(|fake| fake.service().under_way() == 2).await;
    for _ in 0..5 {
        world.fence("c1", "u1").await;
    }
    assert_eq!((world.fake.service().under_way(), world.fake.service().count()), (2, 2));
    world.fake.service().release();
    world.fake.until(|fake| fake.texts("sales-s1").len() == 6).await;
    world.end().await;
}

async fn a_flood_into_one_chat_is_refused_and_no_other(on: On) {
    let shallow = |_: &FakeWeCom, scenario: Scenario| {
        scenario.set("store", "lane_depth", 5).set("workers", "order", "chat").set("dedup", "window", "0s")
    };
    let world = World::with(on, &["flooded", "calm"], Options::default(), shallow).await;
    world.fake.service().hold();
    world.say("flooded", "u0", "f0", "/query 30").await;
    world.fake.until(|fake| fake.service().under_way() == 1).await;
    let post = async |n: u64| {
        let tag = Tag::new("flooded", &format!("u{n}"), n);
        world.caller.post(&robot_text("flooded", &tag.sender, &format!("f{n}"), &format!("/echo {tag}"))).await
    };
    // The one that is being handled stands in its lane too.
    for n in 1..=4 {
        assert_eq!(post(n).await, Some(200));
    }
    assert_eq!(join_all((5..=25).map(post)).await, [Some(503); 21]);
    for _ in 0..5 {
        world.fence("calm", "u1").await;
    }
    assert_eq!(world.callbacks("lane_full").await, 21);
    world.fake.service().release();
    world.fake.until(|fake| fake.texts(&key("flooded")).len() == 5).await;
    assert_eq!(post(26).await, Some(200));
    world.fence("flooded", "u1").await;
    assert_eq!(world.texts("flooded").len(), 6);
    world.end().await;
}

async fn two_apps_answer_the_same_chat_by_their_own_robots(on: On) {
    let second =
        |fake: &FakeWeCom, scenario: Scenario| scenario.app("sales", robot_app(fake, "sales", &["c1".to_owned()]));
    let world = World::with(on, &["c1"], Options::default(), second).await;
    let sales = world.caller_of("sales");
    for serial in 1..=10 {
        let sold = format!("/echo [c1 u1 {}]", 100 + serial);
        assert_eq!(sales.post(&robot_text("c1", "u1", &format!("m{serial}"), &sold)).await, Some(200));
        world.say("c1", "u2", &format!("m{serial}"), &format!("/echo [c1 u2 {serial}]")).await;
    }
    world.fence("c1", "u2").await;
    world.fake.until(|fake| fake.texts("sales-c1").len() == 10).await;
    let of = |sender: &str, from: u64| -> Vec<String> {
        (1..=10).map(|n| Tag::new("c1", sender, from + n).to_string()).collect()
    };
    assert_eq!(world.fake.texts("sales-c1"), of("u1", 100));
    assert_eq!(world.texts("c1"), of("u2", 0));
    world.end().await;
}

async fn a_dead_chat_is_tried_once_and_its_lane_flows_on(on: On) {
    let world = World::new(on, &["gone", "well"]).await;
    world.fake.always(&key("gone"), Answer::Errcode(93000));
    for n in 1..=3 {
        world.say("gone", "u1", &format!("g{n}"), &format!("/echo [gone u1 {n}]")).await;
    }
    world.ends("g1", "dead").await;
    for n in 2..=3 {
        assert_eq!(world.outcome(&format!("g{n}")).await, ("dropped".into(), Some("chat_dead".into())));
    }
    world.fence("well", "u1").await;
    assert_eq!(world.fake.posts(&key("gone")), 1);
    world.api(&format!("chats/{APP}/gone"), |chat| chat["state"] == "dead").await;
    world.end().await;
}

async fn a_refusal_for_pace_keeps_order_and_asks_no_further(on: On) {
    let world = World::new(on, &["busy", "free"]).await;
    world.fake.script(&key("busy"), [Answer::Errcode(45009).into()]);
    for n in 1..=3 {
        world.say("busy", "u1", &format!("b{n}"), &format!("/echo [busy u1 {n}]")).await;
    }
    world.api(&format!("chats/{APP}/busy"), |chat| chat["state"] == "paced" && chat["depth"] == 3).await;
    world.fence("free", "u1").await;
    assert_eq!((world.fake.posts(&key("busy")), world.texts("busy").len()), (1, 0));
    world.end().await;
}

async fn a_rejected_reply_is_given_up_and_the_lane_goes_on(on: On) {
    let world = World::new(on, &["c1"]).await;
    world.fake.script(&key("c1"), [Answer::Errcode(40008).into()]);
    for n in 1..=3 {
        world.say("c1", "u1", &format!("r{n}"), &format!("/echo [c1 u1 {n}]")).await;
    }
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["[c1 u1 2]", "[c1 u1 3]"]);
    assert_eq!((world.outcome("r1").await.0.as_str(), world.outcome("r2").await.0.as_str()), ("dead", "delivered"));
    world.end().await;
}

async fn what_may_have_arrived_is_unknown_and_not_sent_again(on: On) {
    let hasty = |_: &FakeWeCom, scenario: Scenario| scenario.set("sender", "timeout", "500ms");
    let world = World::with(on, &["c1"], Options::default(), hasty).await;
    world.fake.script(&key("c1"), [Answer::Cut.into(), Answer::Taken.after(Duration::from_secs(3600))]);
    for n in 1..=3 {
        world.say("c1", "u1", &format!("t{n}"), &format!("/echo [c1 u1 {n}]")).await;
    }
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["[c1 u1 1]", "[c1 u1 2]", "[c1 u1 3]"]);
    for (id, outcome) in [("t1", "unknown"), ("t2", "unknown"), ("t3", "delivered")] {
        world.ends(id, outcome).await;
    }
    let rows =
        world.api("deliveries?state=unknown", |rows| rows["items"].as_array().is_some_and(|r| r.len() == 2)).await;
    assert!(rows["items"][0]["msg_id"] == "t2" && rows["items"][1]["msg_id"] == "t1", "newest first: {rows}");
    world.end().await;
}

async fn a_message_that_waited_too_long_is_dropped(on: On) {
    let impatient = |fake: &FakeWeCom, scenario: Scenario| {
        let mut app = robot_app(fake, APP, &["c1".to_owned()]);
        app["max_reply_age"] = "1s".into();
        app["commands"][0]["action"]["timeout"] = "1s".into();
        app["keywords"] = json!([]);
        app["mention"]["action"]["timeout"] = "1s".into();
        scenario.app(APP, app)
    };
    let world = World::with(on, &["c1"], Options::default(), impatient).await;
    world.fake.service().always("orders", ServiceAnswer::Tagged.after(Duration::from_millis(600)));
    for n in 1..=3 {
        world.say("c1", "u1", &format!("w{n}"), &format!("/query {n}")).await;
    }
    // The second is answered too late, the third not even asked about.
    for id in ["w2", "w3"] {
        assert_eq!(world.outcome(id).await, ("dropped".into(), Some("too_old".into())), "{id}");
    }
    world.fence("c1", "u1").await;
    assert!(world.fake.service().count() == 2 && world.texts("c1").len() <= 1, "{:?}", world.texts("c1"));
    world.end().await;
}

async fn a_chat_without_a_route_gets_nothing(on: On) {
    let world = World::new(on, &["known"]).await;
    world.say("stranger", "u1", "n1", "/echo [stranger u1 1]").await;
    world.fence("known", "u1").await;
    assert_eq!(world.outcome("n1").await, ("dropped".into(), Some("route_missing".into())));
    assert!(world.fake.arrived().iter().all(|sent| sent.chat == "known"));
    world.end().await;
}

async fn ten_json_posts_at_once_are_one_message(on: On) {
    let token = ("X-Webhook-Token", "tok");
    let hook = move |fake: &FakeWeCom, scenario: Scenario| {
        scenario.app("hook", json_app(fake, "hook", &["wrJ".to_owned()], token))
    };
    let world = World::with(on, &["c1"], Options::default(), hook).await;
    let caller = world.caller_of("hook");
    let message = |id: &str, text: &str| json!({"MsgType": "text", "roomType": 2, "ChatId": "wrJ", "FromUserName": "wmJ", "Content": text, "MsgId": id});
    let (first, last) = (message("msg_1", "/query 5"), message("msg_2", "/echo [wrJ wmJ 6]"));
    assert_eq!(caller.post_json(&first, (token.0, "wrong")).await, Some(403));
    let posts = join_all((0..10).map(|_| caller.post_json(&first, token))).await;
    assert_eq!(posts, [Some(200); 10]);
    assert_eq!(caller.post_json(&last, token).await, Some(200));
    world.fake.until(|fake| fake.texts("hook-wrJ").iter().any(|text| text == "[wrJ wmJ 6]")).await;
    assert_eq!(world.fake.texts("hook-wrJ"), ["orders [wrJ wmJ 5] {\"order_id\":5}", "[wrJ wmJ 6]"]);
    assert_eq!(world.fake.service().count(), 1);
    world.end().await;
}

async fn every_trail_ends_in_one_outcome(on: On) {
    let world = World::new(on, &["c1"]).await;
    world.fake.service().script("orders", [ServiceAnswer::Status(204).after(Duration::ZERO)]);
    let cases = [
        ("o1", "/echo [c1 u1 1]", "delivered"),
        ("o2", "今天天气不错啊", "ignored"),
        ("o3", "/echo 违禁词", "blocked"),
        ("o4", "/query 4", "silent"),
    ];
    for (id, text, _) in cases {
        world.say("c1", "u1", id, text).await;
    }
    for (id, _, outcome) in cases {
        assert_eq!(world.outcome(id).await.0, outcome, "{id}");
    }
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["[c1 u1 1]"]);
    world.end().await;
}

async fn a_failing_action_is_one_apology(on: On) {
    let world = World::new(on, &["c1"]).await;
    let broken = [ServiceAnswer::Status(500), ServiceAnswer::Cut, ServiceAnswer::Json(json!({"text": 7}))];
    let failures = broken.len();
    world.fake.service().script("orders", broken.map(|answer| answer.after(Duration::ZERO)));
    for n in 1..=failures {
        world.say("c1", "u1", &format!("f{n}"), &format!("/query {n}")).await;
    }
    world.fence("c1", "u1").await;
    assert_eq!((world.texts("c1").len(), world.fake.service().count()), (failures, failures));
    assert!(world.texts("c1").iter().all(|text| Tag::of(text).is_none()), "{:?}", world.texts("c1"));
    world.end().await;
}

async fn a_late_answer_reaches_its_own_chat_once(on: On) {
    let world = World::new(on, &["c1", "c2"]).await;
    world.fake.service().script("orders", [ServiceAnswer::Status(202).after(Duration::ZERO)]);
    world.say("c1", "u1", "l1", "/query 1").await;
    world.ends("l1", "waiting").await;
    let trail = world.api("messages/l1", |_| true).await;
    let request_id = trail["items"][0]["request_id"].as_str().unwrap().to_owned();
    let text = |n: u32| json!([{"msgtype": "text", "text": {"content": format!("[c1 u1 {n}] late")}}]);
    let post = async |chat: &str, seq: u32, messages: Value| {
        let late = json!({"app": APP, "chat": chat, "request_id": request_id, "seq": seq, "messages": messages});
        world.post("replies", &late).await
    };
    // Another chat, or a message that WeCom would refuse: nothing is taken.
    assert_eq!(post("c2", 0, text(1)).await.0, 404);
    assert_eq!(post("c1", 0, json!([{"msgtype": "text", "text": {"content": ""}}])).await.0, 400);
    for (seq, state) in [(0, "queued"), (0, "repeat"), (1, "queued"), (1, "repeat")] {
        assert_eq!(post("c1", seq, text(seq + 1)).await, (200, json!({"state": state})));
    }
    world.fence("c1", "u1").await;
    world.ends("l1", "delivered").await;
    let trail = world.api("messages/l1", |_| true).await;
    let stages = trail["items"][0]["stages"].as_array().unwrap();
    let by = stages.iter().filter(|stage| stage["stage"] == "answered").map(|stage| &stage["by"]);
    assert_eq!(by.collect::<Vec<_>>(), [&json!("loopback"); 2], "{trail}");
    assert_eq!(world.texts("c1"), ["[c1 u1 1] late", "[c1 u1 2] late"]);
    assert_eq!(world.texts("c2"), [""; 0]);
    world.end().await;
}

/// A service may be quicker with its answer than with the `202` that promises it.
async fn a_late_answer_may_overtake_its_promise(on: On) {
    let world = World::new(on, &["c1"]).await;
    let service = world.fake.service();
    service.script("orders", [ServiceAnswer::Status(202).after(Duration::ZERO)]);
    service.hold();
    world.say("c1", "u1", "l1", "/query 1").await;
    world.fake.until(|fake| fake.service().under_way() == 1).await;
    let request_id = service.calls()[0].body["request_id"].clone();
    let messages = json!([{"msgtype": "text", "text": {"content": "[c1 u1 1] late"}}]);
    let late = json!({"app": APP, "chat": "c1", "request_id": request_id, "messages": messages});
    let promise = async {
        // By then the answer was looked at.
        for _ in 0..3 {
            world.readyz().await;
        }
        service.release();
    };
    let (posted, ()) = tokio::join!(world.post("replies", &late), promise);
    assert_eq!(posted, (200, json!({"state": "queued"})));
    world.ends("l1", "delivered").await;
    assert_eq!(world.texts("c1"), ["[c1 u1 1] late"]);
    world.end().await;
}

async fn stopping_finishes_what_is_under_way(on: On) {
    let world = World::new(on, &["c1"]).await;
    world.fake.hold(&key("c1"));
    world.say("c1", "u1", "s1", "/echo [c1 u1 1]").await;
    world.fake.until(|fake| fake.under_way(&key("c1")) == 1).await;
    let fake = world.stop_while(|fake| fake.release(&key("c1"))).await;
    assert_eq!((fake.texts(&key("c1")), fake.under_way(&key("c1"))), (vec!["[c1 u1 1]".to_owned()], 0));
    assert_eq!(fake.ledger().violations(), []);
}

async fn a_fresh_gateway_goes_on_where_the_first_stopped(on: On) {
    let world = World::new(on, &["c1", "c2"]).await;
    world.fake.hold(&key("c1"));
    for n in 1..=5 {
        for chat in ["c1", "c2"] {
            let text = format!("/echo {}", Tag::new(chat, "u1", n));
            world.say(chat, "u1", &format!("{chat}-{n}"), &text).await;
        }
    }
    world.fence("c2", "u1").await;
    let world = world.restart_while(|fake| fake.release(&key("c1"))).await;
    // What was handled before the stop is a copy after it.
    for n in 1..=5 {
        world.say("c1", "u1", &format!("c1-{n}"), &format!("/echo {}", Tag::new("c1", "u1", n))).await;
    }
    for chat in ["c1", "c2"] {
        world.fence(chat, "u1").await;
        let want: Vec<String> = (1..=5).map(|n| Tag::new(chat, "u1", n).to_string()).collect();
        assert_eq!(world.texts(chat), want);
        assert_eq!(world.outcome(&format!("{chat}-5")).await.0, "delivered");
    }
    world.end().await;
}

async fn a_load_with_copies_and_slow_robots_keeps_every_promise(on: On) {
    let load = Load { messages: 600, chats: 20, seed: 11, ..Load::default() };
    let chats = load.chat_ids();
    let names: Vec<&str> = chats.iter().map(String::as_str).collect();
    let slow = Answer::Taken.after(Duration::from_millis(60));
    let mix = Mix { seed: 11, of: vec![(0.02, slow), (0.01, Answer::Errcode(-1).into())] };
    // Without the filter in front, every copy reaches the store's marks.
    let no_window = |_: &FakeWeCom, scenario: Scenario| scenario.set("dedup", "window", "0s");
    let world = World::with(on, &names, Options { mix: Some(mix), ..Options::default() }, no_window).await;
    load.run(&world.caller, world.fake.ledger()).await;
    assert!(world.fake.ledger().all_answered(Duration::from_secs(20)).await, "{:?}", world.fake.ledger().lost(5));
    let summary = world.fake.ledger().summary();
    assert!(summary.progress.acked == 600 && summary.progress.copies > 50, "{summary:?}");
    world.end().await;
}
