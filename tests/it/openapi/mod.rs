//! The description of the API: whole, sound, and true of what a running gateway answers. Every other test that asks a whole gateway
//! holds its answers against it too (`world.rs`).

mod described;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use wecom_gateway::admin;
use wecom_gateway::config::settings::Scope;
use wecom_gateway::sim::Answer;

pub use described::hold;

use crate::admin::desk::Desk;
use crate::world::{APP, On, TEST, World, key};

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// Method, path and description of every operation.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    let all = paths.flat_map(|(path, item)| {
        let methods = item.as_object().expect("an item").iter();
        methods.map(|(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
    });
    all.collect()
}

fn each(value: &Value, with: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            with(name, value);
            each(value, with);
        }),
        Value::Array(items) => items.iter().for_each(|value| each(value, with)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_operation_says_what_it_does_and_what_it_answers() {
    let document = admin::description();
    assert_eq!(
        (&document["openapi"], &document["info"]["version"]),
        (&json!("3.1.0"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let tags: BTreeSet<&str> =
        document["tags"].as_array().unwrap().iter().filter_map(|tag| tag["name"].as_str()).collect();
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().expect("a name");
        assert!(ids.insert(id.to_owned()), "{id} twice");
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{id}");
        assert!(
            operation["tags"].as_array().is_some_and(|all| all.len() == 1 && tags.contains(all[0].as_str().unwrap())),
            "{id}"
        );
        let named = |part: &str| part.strip_prefix('{').and_then(|part| part.strip_suffix('}')).map(str::to_owned);
        let in_path: BTreeSet<String> = path.split('/').filter_map(named).collect();
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let told = parameters.iter().filter(|one| one["in"] == "path");
        assert_eq!(told.map(|one| one["name"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>(), in_path, "{id}");
        let explained = |one: &Value| one["description"].is_string() || one["schema"]["description"].is_string();
        assert!(parameters.iter().all(explained), "{id}");
        for (status, answer) in operation["responses"].as_object().expect("answers") {
            assert!(
                answer["description"].is_string() && answer["headers"]["X-Request-Id"].is_object(),
                "{id} {status}"
            );
            assert_eq!(answer.get("content").is_none(), status == "204", "{id} {status}");
        }
        assert_eq!(
            operation.get("requestBody").is_some(),
            ["PUT", "PATCH"].contains(&method.as_str()) || method == "POST" && !["reload", "retryApp"].contains(&id)
        );
        let is_guarded = path.starts_with("/api/");
        assert_eq!(operation["security"][0]["token"][0].is_string(), is_guarded, "{id}");
        assert_eq!(operation["responses"].get("401").is_some(), is_guarded || id == "metrics", "{id}");
    }
}

#[test]
fn it_refers_to_nothing_that_is_not_there_and_holds_nothing_that_is_not_used() {
    let document = admin::description();
    let (mut used, mut texts) = (BTreeSet::new(), Vec::new());
    each(&document, &mut |name, value| match (name, value.as_str()) {
        ("$ref", Some(place)) => {
            assert!(document.pointer(place.trim_start_matches('#')).is_some(), "{place}");
            used.insert(place.trim_start_matches("#/components/schemas/").to_owned());
        }
        ("description" | "summary", Some(text)) => texts.push(text.to_owned()),
        _ => {}
    });
    let there: BTreeSet<String> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(used, there);
    // Links of the source's own documentation lead nowhere from here.
    assert!(texts.iter().all(|text| !text.contains("[`") && !text.contains("::")), "{texts:#?}");
}

/// Both ways: what is described is routed, by these methods and no others (at no route, no method is refused).
#[tokio::test]
async fn what_is_described_is_what_is_routed() {
    let desk = Desk::with(vec![("admin", Scope::Admin)]).await;
    let document = admin::description();
    let operations = operations(&document);
    for path in document["paths"].as_object().unwrap().keys() {
        // On `/push/{task_id}` and below it one route answers.
        let route = path.strip_suffix("/confirm").unwrap_or(path);
        let told = operations.iter().filter(|(_, other, _)| other.strip_suffix("/confirm").unwrap_or(other) == route);
        let told: BTreeSet<String> = told.map(|(method, ..)| method.to_lowercase()).collect();
        let mut routed = BTreeSet::new();
        for method in METHODS {
            let request = path.replace(['{', '}'], "");
            let answer =
                desk.send_body(Method::from_bytes(method.to_uppercase().as_bytes()).unwrap(), &request, "").await;
            if answer.status() != 405 {
                routed.insert(method.to_owned());
            }
        }
        assert_eq!(routed, told, "{path}");
    }
}

#[tokio::test]
async fn the_scope_that_is_told_is_the_one_that_is_needed() {
    let desk = Desk::with(vec![
        ("metrics", Scope::Metrics),
        ("read", Scope::Read),
        ("push", Scope::Push),
        ("admin", Scope::Admin),
    ])
    .await;
    let scopes = ["metrics", "read", "push", "admin"];
    for (method, path, operation) in operations(&admin::description()) {
        let Some(told) = operation["security"][0]["token"][0].as_str() else { continue };
        let needed = scopes.iter().position(|scope| *scope == told).expect("a scope");
        for (n, token) in scopes.iter().enumerate() {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let url = format!("http://{}{}", desk.address, path.replace(['{', '}'], ""));
            let answer = desk.http.request(method, url).bearer_auth(token).send().await.unwrap();
            assert_eq!(answer.status() == 403, n < needed, "{path} with {token}: {}", answer.status());
        }
    }
}

#[tokio::test]
async fn it_is_served_to_who_may_read() {
    let desk = Desk::with_tokens(&["eyes"]).await;
    assert_eq!(desk.get("/api/v1/openapi.json").await.status(), 401);
    let url = format!("http://{}/api/v1/openapi.json", desk.address);
    let answer = desk.http.get(url).bearer_auth("eyes").send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    assert_eq!(answer.json::<Value>().await.unwrap(), admin::description());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_gateway_answers_as_it_is_described() {
    let test = async {
        let world = World::new(On::Embedded, &["c1"]).await;
        world.fence("c1", "u1").await;
        world.fake.script(&key("c1"), [Answer::Errcode(40008).into()]);
        world.say("c1", "u1", "m1", "/echo hi").await;
        world.ends("m1", "dead").await;
        // Of what an action was asked a session is kept.
        world.say("c1", "u2", "m2", "/query 1").await;
        world.ends("m2", "delivered").await;
        let task = json!({"task_id": "t1", "app": APP, "target": {"chats": ["c1", "nowhere"]},
            "message": {"msgtype": "text", "text": {"content": "hi"}}});
        // Each of these holds the answer against the description.
        let asked = [
            (Method::GET, "messages/m1", Value::Null, 200),
            (Method::GET, "messages/none", Value::Null, 200),
            (Method::GET, "messages/m1?cursor=!", Value::Null, 400),
            (Method::GET, "deliveries", Value::Null, 200),
            (Method::GET, "deliveries?state=queued", Value::Null, 400),
            (Method::POST, "deliveries/none", json!({"action": "discard"}), 404),
            (Method::POST, "deliveries/none", json!({"action": "nothing"}), 400),
            (Method::GET, "chats", Value::Null, 200),
            (Method::GET, "chats/support/c1", Value::Null, 200),
            (Method::GET, "chats/support/none", Value::Null, 404),
            (Method::PATCH, "chats/support/c1", json!({"weight": 7, "muted": false}), 200),
            (Method::POST, "push", task.clone(), 202),
            (
                Method::POST,
                "push",
                json!([task, {"task_id": "t1", "app": APP, "target": {"chat": "c1"}, "message": task["message"]}]),
                409,
            ),
            (Method::POST, "push", json!({"app": APP}), 400),
            (Method::GET, "push/t1", Value::Null, 200),
            (Method::GET, "push/none", Value::Null, 404),
            (Method::POST, "push/none/confirm", json!({"arrived": true}), 404),
            (Method::PUT, "users/support/u1", json!({"user_id": "u-7", "contact": {"name": "王五"}}), 200),
            (Method::GET, "users/support/u1", Value::Null, 200),
            (Method::DELETE, "users/support/u1", Value::Null, 204),
            (Method::DELETE, "users/support/u1", Value::Null, 404),
            (Method::GET, "users/none/u1", Value::Null, 404),
            (Method::GET, "sessions/support/c1/u1", Value::Null, 200),
            (Method::DELETE, "sessions/support/c1/u2", Value::Null, 204),
            (Method::DELETE, "sessions/support/c1/u2", Value::Null, 404),
            (Method::GET, "chats?limit=1001", Value::Null, 400),
            (Method::PATCH, "chats/none/c1", json!({"weight": 7}), 404),
            (
                Method::POST,
                "replies",
                json!({"app": APP, "chat": "c1", "request_id": "r", "messages": [task["message"]]}),
                404,
            ),
            (Method::GET, "stats", Value::Null, 200),
            (Method::GET, "changes", Value::Null, 200),
            (Method::GET, "changes?from=yesterday", Value::Null, 400),
            (Method::GET, "apps", Value::Null, 200),
            (Method::GET, "configuration", Value::Null, 200),
            (Method::POST, "reload", Value::Null, 200),
            (Method::GET, "openapi.json", Value::Null, 200),
        ];
        for (method, path, body, expected) in asked {
            let (status, answer) = world.call(method.clone(), path, &body).await;
            assert_eq!(status, expected, "{method} {path}: {answer}");
        }
        assert_eq!(world.readyz().await.0, 200);
        world.end().await;
    };
    timeout(TEST, test).await.expect("within its time");
}

#[test]
#[should_panic(expected = "m0re")]
fn an_answer_that_is_not_as_described_is_noticed() {
    let fields = [
        "app",
        "chat",
        "name",
        "depth",
        "oldest_wait_ms",
        "waits_for",
        "wake_in_ms",
        "weight",
        "muted",
        "last_error",
        "hold",
    ];
    let chat = |more: Option<&str>| -> Value {
        let told = |name: &&str| match *name {
            "app" | "chat" => json!("x"),
            "depth" | "weight" => json!(1),
            "muted" => json!(false),
            _ => Value::Null,
        };
        let all = fields.iter().chain(more.iter()).map(|name| ((*name).to_owned(), told(name)));
        all.chain([("state".to_owned(), json!("active"))]).collect::<serde_json::Map<_, _>>().into()
    };
    hold("GET", "/api/v1/chats/x/x", 200, &chat(None));
    hold("GET", "/api/v1/chats/x/x", 200, &chat(Some("m0re")));
}
