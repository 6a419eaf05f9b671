//! Pushes to customers and their groups: WeCom asks a member to send them, and who got them is asked for until it is known.

use std::time::Duration;

use serde_json::{Value, json};
use wecom_gateway::sim::scenario::api_app;
use wecom_gateway::sim::wecom::{SEND_RESULT, customers, member};
use wecom_gateway::sim::{Answer, Options, Scenario};

use super::{push, to, until};
use crate::on_both_stores;
use crate::world::{APP, On, World};

on_both_stores!(
    customers_have_it_once_the_member_sent_it,
    groups_of_customers_have_it_once_their_owner_sent_it,
    whom_wecom_leaves_out_is_told_at_once,
    a_restart_goes_on_asking,
    two_processes_ask_once,
    what_nobody_confirms_ends_as_unknown,
    what_a_hand_settles_keeps_who_got_it,
    a_task_without_an_answer_is_not_repeated,
    what_customers_are_not_for_leaves_members_alone,
);

const ONE: [&str; 1] = ["wm1"];
const THREE: [&str; 3] = ["wm1", "wm2", "wm3"];

async fn world(on: On, ask_after: &str) -> World {
    world_for(on, ask_after, "7d").await
}

async fn world_for(on: On, ask_after: &str, keep: &str) -> World {
    World::with(on, &[], Options::default(), |fake, scenario: Scenario| {
        let scenario = scenario.set("push", "ask_after", ask_after).set("push", "keep", keep);
        scenario.app(APP, api_app(fake, APP, &[]))
    })
    .await
}

/// Waits until WeCom has it and the member is asked; the delivery.
async fn awaits(world: &World, id: &str) -> Value {
    let awaits = |task: &Value| task["items"][0]["reason"] == "awaiting_member";
    world.api(&format!("push/{id}"), awaits).await["items"][0].clone()
}

/// The state of each recipient, once the task is in this one.
async fn recipients(world: &World, id: &str, state: &str) -> Value {
    let item = until(world, id, state).await["items"][0].clone();
    let all = item["recipients"].as_array().into_iter().flatten();
    all.map(|one| json!([one["customer"], one["state"], one["reason"]])).collect()
}

async fn customers_have_it_once_the_member_sent_it(on: On) {
    let world = world(on, "20ms").await;
    let task = to("t1", json!({"customers": THREE}), "hi");
    push(&world, &task).await;
    let item = awaits(&world, "t1").await;
    assert_eq!((&item["state"], &item["errcode"]), (&json!("queued"), &json!(0)), "{item}");
    assert!(item["msgid"].is_string() && item["at"].is_string(), "{item}");
    let trail = world.api("messages/t1", |found| found["items"][0]["reason"] == "awaiting_member").await;
    assert_eq!(trail["items"][0]["outcome"], "queued", "{trail}");
    // Its lane goes on meanwhile.
    push(&world, &to("t2", json!({"customers": THREE}), "more")).await;
    awaits(&world, "t2").await;

    world.fake.confirm(&THREE, &[("wm1", 1)]);
    let part = world.api("push/t1", |task| task["items"][0]["recipients"][0]["state"] == "delivered").await;
    assert_eq!((&part["state"], &part["items"][0]["reason"]), (&json!("queued"), &json!("awaiting_member")), "{part}");
    let first = &part["items"][0]["recipients"][0];
    assert_eq!((&first["customer"], &first["at"]), (&json!("wm1"), &json!("2027-01-15T08:00:00.000Z")), "{first}");
    assert_eq!(part["items"][0]["recipients"][1]["state"], "queued", "{part}");

    world.fake.confirm(&THREE, &[("wm2", 3), ("wm3", 1)]);
    let ends = json!([["wm1", "delivered", null], ["wm2", "dead", "over_limit"], ["wm3", "delivered", null]]);
    assert_eq!(recipients(&world, "t1", "delivered").await, ends);
    let trail = world.api("messages/t1", |found| found["items"][0]["outcome"] == "delivered").await;
    assert_eq!(trail["items"][0]["reason"], "partial", "{trail}");
    let last = trail["items"][0]["stages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["by"], &last["recipients"]), (&json!("wecom"), &json!({"dead": 1, "delivered": 2})), "{last}");
    assert_eq!(push(&world, &task).await[0]["repeat"], true);
    until(&world, "t2", "delivered").await;
    assert_eq!(world.fake.posts(&customers(&THREE)), 2);
    world.end().await;
}

async fn groups_of_customers_have_it_once_their_owner_sent_it(on: On) {
    let world = world(on, "20ms").await;
    let mut task = to("t1", json!({"customer_chats": ["wr1", "wr2"], "sender": "zhangsan"}), "hi");
    task["message"]["attachments"] =
        json!([{"msgtype": "link", "link": {"title": "t", "url": "https://example.com/"}}]);
    push(&world, &task).await;
    awaits(&world, "t1").await;
    let body = world.fake.arrived()[0].body.clone();
    assert_eq!((&body["chat_type"], &body["sender"]), (&json!("group"), &json!("zhangsan")), "{body}");
    assert_eq!(body["attachments"], task["message"]["attachments"]);
    world.fake.confirm(&["wr1", "wr2"], &[("wr1", 1)]);
    world.api("push/t1", |task| task["items"][0]["recipients"][0]["state"] == "delivered").await;
    world.fake.confirm(&["wr1", "wr2"], &[("wr2", 1)]);
    let item = until(&world, "t1", "delivered").await["items"][0].clone();
    assert_eq!((&item["reason"], &item["recipients"][1]["chat"]), (&Value::Null, &json!("wr2")), "{item}");
    world.end().await;
}

async fn whom_wecom_leaves_out_is_told_at_once(on: On) {
    let world = world(on, "20ms").await;
    world.fake.script(&customers(&THREE), [Answer::LeavesOut("fail_list", "wm2|wm3".into()).into()]);
    push(&world, &to("t1", json!({"customers": THREE, "sender": "zhangsan"}), "hi")).await;
    let item = awaits(&world, "t1").await;
    assert_eq!(item["left_out"], "fail_list wm2|wm3", "{item}");
    assert_eq!(item["recipients"][2], json!({"customer": "wm3", "state": "dead", "reason": "left_out", "at": null}));
    world.fake.confirm(&THREE, &[("wm1", 1)]);
    let ends = json!([["wm1", "delivered", null], ["wm2", "dead", "left_out"], ["wm3", "dead", "left_out"]]);
    assert_eq!(recipients(&world, "t1", "delivered").await, ends);
    world.end().await;
}

async fn a_restart_goes_on_asking(on: On) {
    let world = world(on, "20ms").await;
    push(&world, &to("t1", json!({"customers": ONE}), "hi")).await;
    awaits(&world, "t1").await;
    let world = world.restart_while(|fake| fake.confirm(&ONE, &[("wm1", 1)])).await;
    assert_eq!(recipients(&world, "t1", "delivered").await, json!([["wm1", "delivered", null]]));
    assert_eq!(world.fake.posts(&customers(&ONE)), 1);
    world.end().await;
}

/// On the embedded store, where a second process can't be, one asks once as well.
async fn two_processes_ask_once(on: On) {
    let world = world(on, "200ms").await;
    let second = match on {
        On::Redis => Some(world.second().await),
        On::Embedded => None,
    };
    let wait = Duration::from_secs(2);
    world.fake.script(SEND_RESULT, [Answer::Taken.after(wait), Answer::Taken.after(wait)]);
    let ids = ["t1", "t2", "t3"];
    for (n, id) in ids.iter().enumerate() {
        let customer = format!("wm{n}");
        push(&world, &to(id, json!({"customers": [customer]}), "hi")).await;
        awaits(&world, id).await;
        world.fake.confirm(&[&customer], &[(&customer, 1)]);
    }
    for id in ids {
        until(&world, id, "delivered").await;
    }
    assert_eq!(world.fake.posts(SEND_RESULT), 3, "each is asked about by one process");
    if let Some(second) = second {
        second.stop().await;
    }
    world.end().await;
}

async fn what_nobody_confirms_ends_as_unknown(on: On) {
    let world = world_for(on, "100ms", "4s").await;
    push(&world, &to("t1", json!({"customers": ["wm1", "wm2"]}), "hi")).await;
    awaits(&world, "t1").await;
    world.fake.confirm(&["wm1", "wm2"], &[("wm1", 1)]);
    let ends = json!([["wm1", "delivered", null], ["wm2", "unknown", "not_confirmed"]]);
    assert_eq!(recipients(&world, "t1", "unknown").await, ends);
    let listed = world.api("deliveries?state=unknown", |list| list["items"][0]["task_id"] == "t1").await;
    assert_eq!(listed["items"][0]["reason"], "not_confirmed", "{listed}");
    // WeCom may let the member send it still: it is not sent again, and what is known of it stays.
    let stands = until(&world, "t1", "unknown").await["items"][0].clone();
    let (status, answer) = world.post("push/t1/confirm", &json!({"arrived": false})).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("expired")), "{answer}");
    assert_eq!(until(&world, "t1", "unknown").await["items"][0], stands);
    let (status, answer) = world.post("push/t1/confirm", &json!({"arrived": true})).await;
    assert_eq!((status, &answer["items"][0]["state"]), (200, &json!("delivered")), "{answer}");
    assert_eq!(recipients(&world, "t1", "delivered").await, ends);
    assert_eq!(until(&world, "t1", "delivered").await["items"][0]["msgid"], stands["msgid"]);
    assert_eq!(world.fake.posts(&customers(&["wm1", "wm2"])), 1);
    world.end().await;
}

async fn what_a_hand_settles_keeps_who_got_it(on: On) {
    let world = world_for(on, "100ms", "4s").await;
    push(&world, &to("t1", json!({"customers": ONE}), "hi")).await;
    let ends = recipients(&world, "t1", "unknown").await;
    let listed = world.api("deliveries?state=unknown", |list| list["items"][0]["task_id"] == "t1").await;
    let id = listed["items"][0]["id"].as_str().unwrap();
    let (status, answer) = world.post(&format!("deliveries/{id}"), &json!({"action": "discard"})).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(recipients(&world, "t1", "dropped").await, ends);
    world.end().await;
}

async fn a_task_without_an_answer_is_not_repeated(on: On) {
    let world = world(on, "20ms").await;
    world.fake.script(&customers(&ONE), [Answer::Cut.into()]);
    push(&world, &to("t1", json!({"customers": ONE}), "hi")).await;
    let item = until(&world, "t1", "unknown").await["items"][0].clone();
    assert_eq!((&item["reason"], &item["recipients"]), (&json!("no_answer"), &Value::Null), "{item}");
    assert_eq!(world.fake.posts(&customers(&ONE)), 1);
    world.end().await;
}

async fn what_customers_are_not_for_leaves_members_alone(on: On) {
    let world = world(on, "20ms").await;
    world.fake.always(&customers(&ONE), Answer::Errcode(48002));
    push(&world, &to("t1", json!({"customers": ONE}), "hi")).await;
    world.api("push/t1", |task| task["items"][0]["errcode"] == 48002).await;
    push(&world, &to("t2", json!({"users": ["u1"]}), "hi")).await;
    until(&world, "t2", "delivered").await;
    assert_eq!((world.fake.posts(&customers(&ONE)), world.fake.posts(&member("u1"))), (1, 1));
    world.end().await;
}
