//! The trail of changes over HTTP: each change of an operator is in it, with who; nothing of a member's is.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use wecom_gateway::config::settings::Scope;
use wecom_gateway::model::{Outcome, Role, SessionKey, SessionTurn};
use wecom_gateway::records::exchange;
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::store::{Line, Stage};

use super::code;
use super::desk::Desk;

async fn desk() -> Desk {
    Desk::with(vec![("admin", Scope::Admin), ("read", Scope::Read)]).await
}

async fn ask(desk: &Desk, token: &str, query: &str) -> Value {
    let asked = desk.http.get(format!("http://{}/api/v1/changes{query}", desk.address)).bearer_auth(token);
    let answer = asked.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK, "{query}");
    answer.json().await.expect("json")
}

/// What the list tells of each: kind, app, chat, sender, detail; newest first.
async fn told(desk: &Desk, query: &str) -> Vec<Value> {
    let list = ask(desk, "read", query).await;
    let items = list["items"].as_array().expect("a list");
    for item in items {
        assert_eq!((&item["by"], &item["via"]), (&json!("admin"), &json!("api")), "{item}");
    }
    items.iter().map(|i| json!([i["kind"], i["app"], i["chat"], i["sender"], i["detail"]])).collect()
}

#[tokio::test]
async fn every_change_is_told_with_who_made_it() {
    let desk = desk().await;
    let send = async |method: Method, path: &str, body: &str| {
        let answer = desk.send_body(method, &format!("/api/v1/{path}"), body).await;
        assert!(answer.status().is_success(), "{path} {body}");
    };
    send(Method::PATCH, "chats/support/wrA", r#"{"weight": 50, "paused": true}"#).await;
    send(Method::PATCH, "chats/support/wrA", r#"{"weight": null, "paused": null, "dead": false, "muted": true}"#).await;
    // It is so already: no change, no line.
    send(Method::PATCH, "chats/support/wrA", r#"{"weight": null, "paused": null, "dead": false, "muted": true}"#).await;
    let put = r#"{"user_id": "u-7", "contact": {"name": "王五", "phone": "13800138000", "remark": null}}"#;
    send(Method::PUT, "users/support/wmA", put).await;
    send(Method::PUT, "users/support/wmA", r#"{"user_id": null}"#).await;
    send(Method::DELETE, "users/support/wmA", "").await;
    let turn = SessionTurn { role: Role::User, text: "你好".into(), name: None };
    let key = SessionKey::of_sender("support", "wrA", "wmA").line_key("m");
    let line = Line { stage: Stage::Exchanged, request_id: "r".into(), key, detail: exchange(&[turn], None) };
    desk.state.records.write(vec![Recorded::parse(&format!("1\t{line}")).expect("a line")]).await.expect("writes");
    send(Method::DELETE, "sessions/support/wrA/wmA", "").await;
    // There is nothing any more: no change, no line.
    for (path, expected) in [("sessions/support/wrA/wmA", "unknown_session"), ("users/support/wmA", "unknown_user")] {
        let answer = desk.send_body(Method::DELETE, &format!("/api/v1/{path}"), "").await;
        assert_eq!(code(answer, StatusCode::NOT_FOUND).await, expected);
    }
    desk.life("m1", "r1", Outcome::Unknown).await;
    desk.flush().await;
    send(Method::POST, "deliveries/r1.0", r#"{"action": "discard"}"#).await;
    desk.flush().await;
    let both = json!({"weight": {"from": null, "to": 50}, "paused": {"from": false, "to": true}});
    let back = json!({"weight": {"from": 50, "to": null}, "paused": {"from": true, "to": false},
        "muted": {"from": false, "to": true}});
    let fields = json!({"user_id": "set", "contact.name": "set", "contact.phone": "set", "contact.remark": "removed"});
    let ended = json!({"delivery": "r1.0", "action": "discard", "resent_as": null});
    let expected = [
        json!(["delivery", "support", "wrA", "wmA", ended]),
        json!(["session_forgotten", "support", "wrA", "wmA", {}]),
        json!(["user_forgotten", "support", null, "wmA", {}]),
        json!(["user", "support", null, "wmA", {"user_id": "removed"}]),
        json!(["user", "support", null, "wmA", fields]),
        json!(["chat", "support", "wrA", null, back]),
        json!(["chat", "support", "wrA", null, both]),
    ];
    assert_eq!(told(&desk, "").await, expected);
    assert_eq!(told(&desk, "?app=support&chat=wrA").await.len(), 4);
    assert_eq!(told(&desk, "?sender=wmA&limit=2").await, expected[..2]);
    assert_eq!(told(&desk, "?by=read").await, [Value::Null; 0]);
    assert_eq!(told(&desk, "?from=2099-01-01T08:00:00%2B08:00").await, [Value::Null; 0]);
    assert_eq!(told(&desk, "?from=2020-01-01T00:00:00Z").await.len(), 7);
    // Nothing of what was said of the member.
    let whole = ask(&desk, "admin", "").await.to_string();
    assert!(!whole.contains("13800138000") && !whole.contains("王五") && !whole.contains("u-7"), "{whole}");
}

#[tokio::test]
async fn what_is_refused_changes_nothing_and_is_not_told() {
    let desk = desk().await;
    for (path, body) in [("chats/support/wrA", r#"{"weight": 0}"#), ("chats/support/nowhere", r#"{"weight": 7}"#)] {
        let answer = desk.send_body(Method::PATCH, &format!("/api/v1/{path}"), body).await;
        assert!(answer.status().is_client_error(), "{path}");
    }
    desk.send_body(Method::PUT, "/api/v1/users/support/wmA", r#"{"user_id": ""}"#).await;
    // It was not started from a file.
    desk.send_body(Method::POST, "/api/v1/reload", "").await;
    desk.flush().await;
    assert_eq!(ask(&desk, "read", "").await, json!({"items": [], "next": null}));
}

#[tokio::test]
async fn phone_numbers_are_whole_for_admins_alone() {
    let desk = desk().await;
    let path = "/api/v1/users/support/13800138000";
    assert_eq!(desk.send_body(Method::PUT, path, r#"{"user_id": "u-7"}"#).await.status(), StatusCode::OK);
    desk.flush().await;
    for (token, shown) in [("admin", "13800138000"), ("read", "138****8000")] {
        assert_eq!(ask(&desk, token, "").await["items"][0]["sender"], shown, "{token}");
    }
}

#[tokio::test]
async fn a_wrong_question_is_told_what_is_wrong() {
    let desk = Desk::open().await;
    for (query, expected) in [
        ("from=yesterday", "bad_query"),
        ("from=2026-11-29", "bad_query"),
        ("limit=0", "bad_query"),
        ("kind=chat", "bad_query"),
        ("cursor=!", "bad_cursor"),
    ] {
        let answer = desk.get(&format!("/api/v1/changes?{query}")).await;
        assert_eq!(code(answer, StatusCode::BAD_REQUEST).await, expected, "{query}");
    }
}
