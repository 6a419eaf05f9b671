//! Files and voices of a robot: uploaded once, known by their id, uploaded again where that is over.

use std::time::Duration;

use serde_json::{Value, json};
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{Options, ServiceAnswer};

use crate::on_both_stores;
use crate::world::{APP, On, World, key};

on_both_stores!(a_file_is_uploaded_once_and_again_when_its_id_is_over, an_id_is_the_robots_own);

fn file(content: &str) -> Value {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD.encode(content);
    json!({"msgtype": "file", "file": {"base64": base64, "filename": "报表.csv"}})
}

async fn send(world: &World, chat: &str, msg_id: &str, message: Value) {
    let answer = ServiceAnswer::Json(json!({"messages": [message]}));
    world.fake.service().script("orders", [answer.after(Duration::ZERO)]);
    world.say(chat, "u1", msg_id, "/query 1").await;
    world.ends(msg_id, "delivered").await;
}

async fn a_file_is_uploaded_once_and_again_when_its_id_is_over(on: On) {
    let world = World::new(on, &["c1"]).await;
    send(&world, "c1", "m1", file("a,b,c,d")).await;
    send(&world, "c1", "m2", file("a,b,c,d")).await;
    assert_eq!(world.fake.uploads(), 1, "the same content has its id");
    send(&world, "c1", "m3", file("a,b,d,c")).await;
    assert_eq!(world.fake.uploads(), 2);
    world.fake.forget_media();
    send(&world, "c1", "m4", file("a,b,c,d")).await;
    send(&world, "c1", "m5", file("a,b,c,d")).await;
    assert_eq!(world.fake.uploads(), 3, "40007: once more");
    let ids: Vec<Value> = world.fake.arrived().iter().map(|sent| sent.body["file"].clone()).collect();
    let id = |n: usize| json!({"media_id": format!("media-{n}")});
    assert_eq!(ids, [id(1), id(1), id(2), id(3), id(3)]);
    world.end().await;
}

async fn an_id_is_the_robots_own(on: On) {
    let chats = ["c1".to_owned(), "c2".to_owned()];
    let world =
        World::with(on, &[], Options::default(), |fake, scenario| scenario.app(APP, robot_app(fake, APP, &chats)))
            .await;
    send(&world, "c1", "m1", file("a,b,c,d")).await;
    send(&world, "c2", "m2", file("a,b,c,d")).await;
    assert_eq!((world.fake.uploads(), world.fake.posts(&key("c1")), world.fake.posts(&key("c2"))), (2, 1, 1));
    world.end().await;
}
