//! Log lines as machines read them: one flat JSON object each, and every line of a message says which message it is of, from its
//! callback to its last send.

use serde_json::{Value, json};
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, robot_text, scenario::robot_app};

use crate::crash::process::Gateway;
use crate::world::{APP, TEST, caller_at, key};

/// What names a message.
const NAMES: [&str; 5] = ["request_id", "app", "chat_id", "sender_key", "msg_id"];

/// A line that says this of the message, and all of `fields`.
fn line<'l>(lines: &[&'l Value], says: &str, fields: Value) -> &'l Value {
    let line = lines.iter().find(|line| line["message"] == says).unwrap_or_else(|| panic!("{says:?} of {lines:#?}"));
    for (name, value) in fields.as_object().unwrap() {
        assert_eq!(&line[name], value, "{name} of {line:#}");
    }
    line
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_of_a_message_names_it_from_its_callback_to_its_last_send() {
    let test = async {
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let scenario = Scenario::new(&fake).unwrap().app(APP, robot_app(&fake, APP, &["c1".into()]));
        let scenario = scenario.set("log", "format", "json").set("log", "level", "debug");
        let gateway = Gateway::start(&scenario.write().unwrap(), None).await.unwrap();
        let caller = caller_at(gateway.callbacks, &scenario, APP);
        let say = async |msg_id: &str| {
            assert_eq!(caller.post(&robot_text("c1", "u1", msg_id, "/echo 天机不可泄露")).await, Some(200));
        };
        say("m1").await;
        gateway.says(r#""message":"sent""#).await;
        say("m1").await;
        fake.script(&key("c1"), [Answer::Errcode(40008).into()]);
        say("m2").await;
        gateway.says(r#""message":"not delivered""#).await;
        let said = gateway.terminate().await.said;
        fake.stop().await;
        said
    };
    let said = tokio::time::timeout(TEST, test).await.expect("within its time");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "{field}: {line:#}");
        }
        let names = NAMES.iter().filter(|name| line[**name].is_string()).count();
        let is_of_a_message = line["request_id"].is_string() || line["msg_id"].is_string();
        assert!(!is_of_a_message || names == NAMES.len(), "{line:#}");
    }
    assert!(!said.contains("天机"), "contents are told by their digests");

    let of = |msg_id: &str| lines.iter().filter(|line| line["msg_id"] == msg_id).collect::<Vec<_>>();
    let (good, bad) = (of("m1"), of("m2"));
    let messages = |lines: &[&Value]| lines.iter().map(|line| line["message"].clone()).collect::<Vec<_>>();
    assert_eq!(messages(&good), ["callback taken", "message handled", "sent", "callback taken"]);
    assert_eq!(messages(&bad), ["callback taken", "message handled", "sent", "not delivered"]);
    for (lines, verdict, errcode) in [(&good, "delivered", 0), (&bad, "rejected", 40008)] {
        let request_id =
            line(lines, "callback taken", json!({"msg_type": "text", "result": "stored"}))["request_id"].clone();
        let handled = line(
            lines,
            "message handled",
            json!({"request_id": request_id, "rule": "command:echo", "action": "reply",
            "outcome": "queued", "reason": null}),
        );
        let delivery = format!("{}.0", request_id.as_str().unwrap());
        let replies: Value = serde_json::from_str(handled["replies"].as_str().unwrap()).unwrap();
        assert!(replies[0]["id"] == delivery.as_str() && replies[0]["digest"].is_string(), "{handled:#}");
        let sent = line(
            lines,
            "sent",
            json!({"request_id": request_id, "delivery": delivery, "channel": "group_robot",
            "verdict": verdict, "errcode": errcode, "merged": 1}),
        );
        for (line, field) in [(handled, "waited_ms"), (handled, "elapsed_ms"), (sent, "elapsed_ms")] {
            assert!(line[field].is_u64(), "{field}: {line:#}");
        }
        assert!(handled["text"].is_string() && sent["content"].is_string() && sent["answer"].is_string(), "{sent:#}");
    }
    line(
        &bad,
        "not delivered",
        json!({"request_id": bad[0]["request_id"], "state": "dead", "reason": "rejected",
        "delivery": bad[2]["delivery"]}),
    );
    // A copy is a request of its own.
    assert!(good[3]["result"] == "duplicate" && good[3]["request_id"] != good[0]["request_id"], "{:#}", good[3]);
}

/// What ends badly, or by hand, is told with all that a trail needs to be found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_delivered_names_message_delivery_and_reason() {
    let test = async {
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let mut app = robot_app(&fake, APP, &["c1".into(), "c2".into()]);
        app["chats"].as_array_mut().unwrap().push(json!({"id": "c3"}));
        app["commands"][0]["action"] = json!({"type": "http", "url": "http://127.0.0.1:9/"});
        let scenario = Scenario::new(&fake).unwrap().app(APP, app).set("log", "format", "json");
        let gateway = Gateway::start(&scenario.write().unwrap(), None).await.unwrap();
        let caller = caller_at(gateway.callbacks, &scenario, APP);
        let say = async |chat: &str, msg_id: &str, text: &str| {
            assert_eq!(caller.post(&robot_text(chat, "u1", msg_id, text)).await, Some(200));
        };
        say("c1", "m1", "/query 1").await;
        gateway.says("an action failed").await;
        say("c3", "m2", "/echo x").await;
        gateway.says("it has no way out").await;
        fake.script(&key("c2"), [Answer::Errcode(93004).into()]);
        say("c2", "m3", "/echo x").await;
        gateway.says("it will be tried again").await;
        let known = async |path: &str| {
            let answer = reqwest::get(format!("http://{}/api/v1/{path}", gateway.admin)).await.unwrap();
            answer.json::<Value>().await.unwrap()["items"][0].clone()
        };
        let dropped = loop {
            let item = known("deliveries?state=dropped").await;
            if item.is_object() {
                break item["id"].as_str().unwrap().to_owned();
            }
            tokio::task::yield_now().await;
        };
        let url = format!("http://{}/api/v1/deliveries/{dropped}", gateway.admin);
        let done = reqwest::Client::new().post(url).json(&json!({"action": "discard"})).send().await.unwrap();
        assert_eq!(done.status(), 200);
        let said = gateway.terminate().await.said;
        fake.stop().await;
        (said, dropped)
    };
    let (said, dropped) = tokio::time::timeout(TEST, test).await.expect("within its time");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (says, fields) in [
        ("an action failed", json!({"level": "ERROR", "chat_id": "c1", "msg_id": "m1"})),
        (
            "alarm: the reply was dropped, it has no way out",
            json!({"level": "ERROR", "chat_id": "c3", "msg_id": "m2", "delivery": dropped, "state": "dropped", "reason": "route_missing"}),
        ),
        (
            "not sent yet, it will be tried again",
            json!({"level": "WARN", "chat_id": "c2", "msg_id": "m3", "state": "retried", "reason": "configuration"}),
        ),
        (
            "an operator ended a delivery",
            json!({"chat_id": "c3", "msg_id": "m2", "delivery": dropped, "state": "dropped", "action": "discard"}),
        ),
    ] {
        let line = line(&lines.iter().collect::<Vec<_>>(), says, fields);
        assert!(NAMES.iter().all(|name| line[*name].is_string()), "{line:#}");
    }
    assert!(!said.contains("alarm: not delivered"), "what is tried again is no error");
}
