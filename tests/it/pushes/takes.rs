//! What a call takes: each task once however often it comes, all or nothing of a faulty call, and what is full, later.

use serde_json::{Value, json};

use super::{push, task, to, until};
use crate::on_both_stores;
use crate::world::{On, World, key};

on_both_stores!(
    a_task_is_sent_once_however_often_it_comes,
    one_faulty_task_and_nothing_is_taken,
    a_body_that_is_no_call_is_told_what_to_write,
    another_content_under_the_same_id_is_a_conflict,
    what_is_too_late_or_has_no_way_out_ends_at_the_door,
    a_full_lane_is_told_and_the_same_call_goes_on,
    a_push_that_ended_badly_is_settled_by_hand_as_a_reply_is,
);

async fn a_task_is_sent_once_however_often_it_comes(on: On) {
    let world = World::new(on, &["c1"]).await;
    let (id, message) = ("shop/订单:1001", json!({"type": "order_shipped", "created_at": "2026-01-01T08:00:00Z"}));
    let mut one = task(id, "c1", "发货了");
    one.as_object_mut().unwrap().extend(message.as_object().cloned().unwrap());
    one["created_at"] = jiff::Timestamp::now().to_string().into();
    let first = push(&world, &one).await;
    assert_eq!((&first[0]["task_id"], &first[0]["repeat"]), (&json!(id), &json!(false)), "{first}");
    let path: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    let stands = until(&world, &path, "delivered").await;
    assert_eq!(
        (&stands["total"], &stands["taken"], &stands["counts"]),
        (&json!(1), &json!(1), &json!({"delivered": 1}))
    );
    assert_eq!((&stands["items"][0]["chat"], &stands["items"][0]["errcode"]), (&json!("c1"), &json!(0)), "{stands}");
    for _ in 0..3 {
        let again = push(&world, &json!([one, one])).await;
        assert_eq!(again[0], json!({"task_id": id, "state": "delivered", "repeat": true, "counts": {"delivered": 1}}));
        assert_eq!(again[0], again[1]);
    }
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["发货了"]);
    // Its trail, by task, delivery and request.
    let item = world.api(&format!("messages/{path}"), |found| found["items"][0]["outcome"] == "delivered").await;
    let item = &item["items"][0];
    assert_eq!((&item["task_id"], &item["msg_id"], &item["sender"]), (&json!(id), &Value::Null, &json!("")), "{item}");
    let stages: Vec<&str> = item["stages"].as_array().unwrap().iter().filter_map(|s| s["stage"].as_str()).collect();
    assert_eq!(stages, ["pushed", "settled"], "{item}");
    let pushed = &item["stages"][0];
    assert_eq!(
        (&pushed["task"], &pushed["type"], &pushed["source"], &pushed["by"]),
        (&json!(id), &json!("order_shipped"), &json!("http"), &json!("loopback"))
    );
    let delivery = stands["items"][0]["id"].as_str().unwrap();
    for other in [delivery, item["request_id"].as_str().unwrap()] {
        let found = world.api(&format!("messages/{other}"), |_| true).await;
        assert_eq!(found["items"][0]["task_id"], id, "{found}");
    }
    world.end().await;
}

async fn a_body_that_is_no_call_is_told_what_to_write(on: On) {
    let world = World::new(on, &["c1"]).await;
    let url = format!("http://{}/api/v1/push", world.app.admin_addr());
    for (body, status, says) in [
        ("null".to_owned(), 400, "write a task {…}, or an array"),
        (" \"x\"".to_owned(), 400, "write a task {…}, or an array"),
        ("{\"tasks\": []}".to_owned(), 400, "\"via\" is missing"),
        ("nonsense".to_owned(), 400, "no JSON"),
        (" ".repeat(17 << 20), 413, "16 MiB"),
    ] {
        let start = body[..body.len().min(20)].to_owned();
        let answer = reqwest::Client::new()
            .post(&url)
            .header("Content-Type", "application/json")
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), status, "{start}");
        let answer: Value = answer.json().await.unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(says) && answer["error"]["code"] == "bad_body", "{start}: {answer}");
    }
    world.end().await;
}

async fn one_faulty_task_and_nothing_is_taken(on: On) {
    let world = World::new(on, &["c1"]).await;
    let bad = json!({"task_id": "t2", "app": "support", "target": {"chats": ["c1", "c1"]}, "message": {}});
    let (status, answer) = world.post("push", &json!([task("t1", "c1", "hi"), bad])).await;
    let error = &answer["error"];
    assert_eq!((status, &error["code"], &error["index"]), (400, &json!("bad_task"), &json!(1)), "{answer}");
    assert_eq!(error["field"], "target.chats[1]");
    assert!(
        error["message"].as_str().unwrap().contains("name each once") && error["request_id"].is_string(),
        "{answer}"
    );
    assert_eq!(world.call(reqwest::Method::GET, "push/t1", &Value::Null).await.0, 404);
    for nothing in [json!([]), json!("t1"), json!(vec![task("t1", "c1", "hi"); 1001])] {
        assert_eq!(world.post("push", &nothing).await.0, 400);
    }
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), [""; 0]);
    world.end().await;
}

async fn another_content_under_the_same_id_is_a_conflict(on: On) {
    let world = World::new(on, &["c1", "c2"]).await;
    push(&world, &task("t1", "c1", "one")).await;
    for other in [task("t1", "c1", "two"), task("t1", "c2", "one")] {
        let (status, answer) = world.post("push", &json!([task("t2", "c1", "three"), other])).await;
        let error = &answer["error"];
        assert_eq!((status, &error["code"], &error["index"]), (409, &json!("task_conflict"), &json!(1)), "{answer}");
        assert_eq!(error["field"], "task_id");
        let told = |n: usize, field: &str| error["items"][n][field].clone();
        assert_eq!((told(0, "task_id"), told(1, "state")), (json!("t2"), json!("refused")), "{answer}");
    }
    until(&world, "t2", "delivered").await;
    assert_eq!((world.texts("c1"), world.texts("c2")), (vec!["one".into(), "three".into()], vec![]));
    world.end().await;
}

async fn what_is_too_late_or_has_no_way_out_ends_at_the_door(on: On) {
    let world = World::new(on, &["c1"]).await;
    let mut late = task("late", "c1", "late");
    late["expires_at"] = "2026-01-01T00:00:00Z".into();
    let lost = to("lost", json!({"chats": ["nowhere", "c1"]}), "found");
    let taken = push(&world, &json!([late, lost])).await;
    assert_eq!(taken[0]["state"], "dropped", "{taken}");
    let item = world.api("push/late", |_| true).await["items"][0].clone();
    assert_eq!((&item["state"], &item["reason"]), (&json!("dropped"), &json!("expired")));
    let lost = until(&world, "lost", "dropped").await;
    assert_eq!(lost["counts"], json!({"delivered": 1, "dropped": 1}));
    assert_eq!(
        (&lost["items"][0]["reason"], &lost["items"][1]["state"]),
        (&json!("route_missing"), &json!("delivered"))
    );
    let dropped = world.api("push/lost?state=dropped", |_| true).await;
    assert_eq!(dropped["items"].as_array().unwrap().len(), 1, "{dropped}");
    world
        .api("deliveries?state=dropped", |list| {
            let of = |task: &str| {
                list["items"].as_array().unwrap().iter().any(|item| item["task_id"] == task && item["msg_id"].is_null())
            };
            of("late") && of("lost")
        })
        .await;
    assert_eq!(world.texts("c1"), ["found"]);
    world.end().await;
}

async fn a_full_lane_is_told_and_the_same_call_goes_on(on: On) {
    let shape = |_: &_, scenario: wecom_gateway::sim::Scenario| scenario.set("store", "lane_depth", 2);
    let world = World::with(on, &["c1", "c2"], Default::default(), shape).await;
    world.fake.hold(&key("c1"));
    let tasks: Vec<Value> = (1..=5).map(|n| task(&format!("t{n}"), "c1", &n.to_string())).collect();
    let tasks = json!([
        tasks[0],
        tasks[1],
        tasks[2],
        to("both", json!({"chats": ["c1", "c2"]}), "both"),
        tasks[3],
        task("o", "c2", "o"),
        tasks[4]
    ]);
    let (status, answer) = world.post("push", &tasks).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("full")), "{answer}");
    let states: Vec<&str> =
        answer["error"]["items"].as_array().unwrap().iter().filter_map(|item| item["state"].as_str()).collect();
    assert_eq!(states[..5], ["queued", "queued", "not_taken", "not_taken", "not_taken"], "{answer}");
    // A chat that is full costs the others nothing.
    until(&world, "o", "delivered").await;
    assert_eq!(world.texts("c2"), ["both", "o"]);
    let both = world.api("push/both", |_| true).await;
    assert_eq!((&both["state"], &both["total"], &both["taken"]), (&json!("queued"), &json!(2), &json!(0)), "{both}");
    world.fake.release(&key("c1"));
    while world.post("push", &tasks).await.0 != 202 {}
    until(&world, "t5", "delivered").await;
    assert_eq!(until(&world, "both", "delivered").await["taken"], 2);
    assert_eq!(world.texts("c1"), ["1", "2", "3", "both", "4", "5"], "in their order, each once");
    assert_eq!(world.texts("c2"), ["both", "o"]);
    world.end().await;
}

async fn a_push_that_ended_badly_is_settled_by_hand_as_a_reply_is(on: On) {
    let world = World::new(on, &["c1"]).await;
    world.fake.script(&key("c1"), [wecom_gateway::sim::Answer::Errcode(40008).into()]);
    push(&world, &task("t1", "c1", "hi")).await;
    let dead = until(&world, "t1", "dead").await["items"][0].clone();
    assert_eq!((&dead["reason"], &dead["errcode"]), (&json!("rejected"), &json!(40008)));
    let id = dead["id"].as_str().unwrap().to_owned();
    world
        .api("deliveries?state=dead", |list| list["items"][0]["id"] == id && list["items"][0]["task_id"] == "t1")
        .await;
    let (status, done) = world.post(&format!("deliveries/{id}"), &json!({"action": "resend"})).await;
    assert_eq!((status, &done["state"]), (200, &json!("queued")), "{done}");
    let sent = until(&world, "t1", "delivered").await;
    assert_eq!(sent["items"][0]["id"], format!("{id}.r1"), "{sent}");
    assert_eq!(world.post(&format!("deliveries/{id}"), &json!({"action": "resend"})).await.0, 409);
    // The task again is no third send.
    assert_eq!(push(&world, &task("t1", "c1", "hi")).await[0]["repeat"], true);
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["hi"]);
    world.end().await;
}
