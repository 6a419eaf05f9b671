//! The operators' hands over HTTP: who may, what is refused and how it is said, and who is told to have done it.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use wecom_gateway::config::settings::Scope;
use wecom_gateway::model::Outcome;
use wecom_gateway::store::{Enqueued, Fate};

use super::code;
use super::desk::Desk;

const CHAT: &str = "/api/v1/chats/support/wrA";

async fn patch(desk: &Desk, body: &str) -> (StatusCode, Value) {
    let response = desk.send_body(Method::PATCH, CHAT, body).await;
    (response.status(), response.json().await.expect("json"))
}

#[tokio::test]
async fn a_chat_keeps_what_it_is_told_until_it_is_told_otherwise() {
    let desk = Desk::open().await;
    let told = async |body: &str| {
        let (status, chat) = patch(&desk, body).await;
        assert_eq!(status, StatusCode::OK, "{body}: {chat}");
        assert_eq!(chat, desk.json(CHAT).await);
        (chat["weight"].as_u64().expect("a weight"), chat["state"].as_str().expect("a state").to_owned())
    };
    let active = |weight| (weight, "active".to_owned());
    let paused = |weight| (weight, "paused".to_owned());
    assert_eq!(told(r#"{"weight": 100}"#).await, active(100));
    assert_eq!(told(r#"{"paused": true}"#).await, paused(100));
    assert_eq!(told(r#"{"dead": false}"#).await, paused(100));
    assert_eq!(told(r#"{"weight": null}"#).await, paused(10), "as it is configured");
    assert_eq!(told(r#"{"paused": null, "weight": 1}"#).await, active(1));
    for muted in [true, false] {
        assert_eq!(told(&format!(r#"{{"muted": {muted}}}"#)).await, active(1));
        assert_eq!(desk.json(CHAT).await["muted"], muted);
    }
}

#[tokio::test]
async fn a_dead_chat_is_revived() {
    let desk = Desk::open().await;
    assert_eq!(desk.accept("wrA", "m1", "r1").await, Enqueued::Stored);
    desk.handle().await;
    let route = desk.state.in_force.routes().of("support", "wrA").expect("a route").digest.clone();
    desk.send(Outcome::Dead, 93000, Fate::Ended { back_off: None, chat_dead: Some(route) }).await;
    assert_eq!(desk.json(CHAT).await["state"], "dead");
    let (_, chat) = patch(&desk, r#"{"dead": false}"#).await;
    assert_eq!((&chat["state"], &chat["last_error"]), (&json!("active"), &Value::Null));
}

#[tokio::test]
async fn what_can_t_be_read_is_refused_with_the_field() {
    let desk = Desk::open().await;
    desk.life("m1", "r1", Outcome::Dead).await;
    desk.flush().await;
    let cases = [
        (CHAT, r#"{"weight": 0}"#, "weight"),
        (CHAT, r#"{"weight": 101}"#, "weight"),
        (CHAT, r#"{"weight": "7"}"#, "weight"),
        (CHAT, r#"{"paused": 1}"#, "paused"),
        (CHAT, r#"{"dead": true}"#, "dead"),
        (CHAT, r#"{"wieght": 7}"#, "wieght"),
        (CHAT, "{}", "weight, paused, dead, held or muted"),
        (CHAT, r#"{"held": true}"#, "held"),
        (CHAT, "[", "JSON"),
        (CHAT, "[]", "the body is JSON, but no object"),
        (CHAT, " [7, true, false]", "the body is JSON, but no object"),
        (CHAT, "7", "the body is JSON, but no object"),
        ("/api/v1/deliveries/r1.0", r#"{"action": "again"}"#, "action"),
        ("/api/v1/deliveries/r1.0", r#"{"action": "resend", "to": "wrB"}"#, "to"),
        ("/api/v1/deliveries/r1.0", "{}", "action"),
    ];
    for (path, body, field) in cases {
        let method = if path == CHAT { Method::PATCH } else { Method::POST };
        let response = desk.send_body(method, path, body).await;
        let (status, answer): (_, Value) = (response.status(), response.json().await.expect("json"));
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(answer["error"]["code"], "bad_body", "{body}");
        let text = answer["error"]["message"].as_str().expect("a sentence");
        assert!(text.contains(field) && !text.contains("struct") && !text.contains("target"), "{body}: {answer}");
    }
    assert_eq!(desk.json(CHAT).await["weight"], 10);
}

#[tokio::test]
async fn who_is_unknown_is_not_found() {
    let desk = Desk::open().await;
    let response = desk.send_body(Method::PATCH, "/api/v1/chats/support/wrX", r#"{"paused": true}"#).await;
    assert_eq!(code(response, StatusCode::NOT_FOUND).await, "unknown_chat");
    let response = desk.send_body(Method::PATCH, "/api/v1/chats/nope/wrA", r#"{"paused": true}"#).await;
    assert_eq!(code(response, StatusCode::NOT_FOUND).await, "unknown_app");
    let response = desk.send_body(Method::POST, "/api/v1/deliveries/r9.0", r#"{"action": "discard"}"#).await;
    assert_eq!(code(response, StatusCode::NOT_FOUND).await, "unknown_delivery");
}

#[tokio::test]
async fn hands_need_the_scope_admin_and_leave_their_name() {
    let desk = Desk::with(vec![("read", Scope::Read), ("push", Scope::Push), ("admin", Scope::Admin)]).await;
    desk.life("m1", "r1", Outcome::Unknown).await;
    desk.flush().await;
    let paths = [
        (Method::PATCH, CHAT, r#"{"paused": true}"#),
        (Method::POST, "/api/v1/deliveries/r1.0", r#"{"action": "discard"}"#),
    ];
    for (method, path, body) in paths {
        for token in ["read", "push"] {
            let request =
                desk.http.request(method.clone(), format!("http://{}{path}", desk.address)).bearer_auth(token);
            let refused =
                request.header("content-type", "application/json").body(body).send().await.expect("an answer");
            assert_eq!(code(refused, StatusCode::FORBIDDEN).await, "scope_too_small");
        }
        assert_eq!(desk.send_body(method, path, body).await.status(), StatusCode::OK);
    }
    desk.flush().await;
    let trail = desk.http.get(format!("http://{}/api/v1/messages/m1", desk.address)).bearer_auth("read").send().await;
    let trail: Value = trail.expect("an answer").json().await.expect("json");
    let stages = trail["items"][0]["stages"].as_array().expect("stages");
    let hand = stages.iter().find(|stage| stage["stage"] == "operated").expect("a hand");
    assert_eq!((&hand["by"], &hand["action"], &hand["resent_as"]), (&json!("admin"), &json!("discard"), &Value::Null));
    assert_eq!((&trail["items"][0]["outcome"], &trail["items"][0]["reason"]), (&json!("dropped"), &json!("discarded")));
}

#[tokio::test]
async fn only_what_did_not_end_well_is_settled_and_only_what_is_kept_is_sent_again() {
    let desk = Desk::open().await;
    let act = async |id: &str, action: &str| {
        let body = json!({"action": action}).to_string();
        desk.send_body(Method::POST, &format!("/api/v1/deliveries/{id}"), &body).await
    };
    desk.life("m1", "r1", Outcome::Delivered).await;
    desk.life("m2", "r2", Outcome::Unknown).await;
    desk.accept("wrA", "m3", "r3").await;
    desk.handle().await;
    desk.flush().await;
    for id in ["r1.0", "r3.0"] {
        assert_eq!(code(act(id, "discard").await, StatusCode::CONFLICT).await, "not_open");
    }
    // The desk's own lines hold no content.
    assert_eq!(code(act("r2.0", "resend").await, StatusCode::CONFLICT).await, "not_kept");
    assert_eq!(act("r2.0", "delivered").await.status(), StatusCode::OK);
    // Before the records know of it, and after.
    for _ in 0..2 {
        assert_eq!(code(act("r2.0", "discard").await, StatusCode::CONFLICT).await, "settled_already");
        desk.flush().await;
    }
    assert_eq!(desk.only("/api/v1/messages/m2").await["outcome"], "delivered");
}
