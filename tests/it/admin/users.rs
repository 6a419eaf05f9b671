//! The contact book over HTTP: who may look and who may change, what is refused and how it is said, and what is masked.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use wecom_gateway::config::settings::Scope;
use wecom_gateway::model::{Outcome, Role, SessionKey, SessionTurn};
use wecom_gateway::records::exchange;
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::store::{Line, Stage};

use super::code;
use super::desk::Desk;

const USER: &str = "/api/v1/users/support/wmA";

async fn desk() -> Desk {
    Desk::with(vec![("admin", Scope::Admin), ("push", Scope::Push), ("read", Scope::Read)]).await
}

/// What somebody with this token is answered.
async fn ask(desk: &Desk, token: &str, method: Method) -> reqwest::Response {
    let request = desk.http.request(method, format!("http://{}{USER}", desk.address)).bearer_auth(token);
    request.json(&json!({"user_id": "u-8"})).send().await.expect("an answer")
}

#[tokio::test]
async fn a_phone_is_whole_for_admins_alone() {
    let desk = desk().await;
    let body = r#"{"user_id": "u-7", "contact": {"name": "王五", "phone": "13800138000", "mobile": "+8613900139000"}}"#;
    let put = desk.send_body(Method::PUT, USER, body).await;
    assert_eq!(put.status(), StatusCode::OK);
    let whole = json!({"name": "王五", "phone": "13800138000", "mobile": "+8613900139000"});
    assert_eq!(put.json::<Value>().await.expect("json")["contact"], whole);
    let masked = json!({"name": "王五", "phone": "138****8000", "mobile": "+86139****9000"});
    for (token, contact) in [("admin", &whole), ("push", &masked), ("read", &masked)] {
        let known: Value = ask(&desk, token, Method::GET).await.json().await.expect("json");
        assert_eq!((&known["contact"], &known["user_id"]), (contact, &json!("u-7")), "{token}");
    }
}

/// A number in anything that an answer holds: in what a member wrote, in what an action kept, in ids. And no digest of a content, by
/// which what a mask hides is found by trying.
#[tokio::test]
async fn whatever_the_api_shows_is_masked_below_admin() {
    const PHONE: &str = "13800138000";
    let desk = desk().await;
    desk.life(PHONE, "019f8c13900139000abcdef012345678", Outcome::Unknown).await;
    desk.flush().await;
    let put = format!(r#"{{"user_id": "{PHONE}"}}"#);
    assert_eq!(desk.send_body(Method::PUT, USER, &put).await.status(), StatusCode::OK);
    let turn = SessionTurn { role: Role::User, text: format!("打+86 {PHONE}"), name: None };
    let vars = json!({"phone": 13_800_138_000_u64, "of": {(PHONE): "a"}});
    let detail = exchange(&[turn], vars.as_object());
    let key = SessionKey::of_sender("support", "wrA", PHONE).line_key("m");
    let line = Line { stage: Stage::Exchanged, request_id: "r".into(), key, detail };
    desk.state.records.write(vec![Recorded::parse(&format!("1\t{line}")).expect("a line")]).await.expect("writes");
    for path in [
        "users/support/wmA".to_owned(),
        format!("sessions/support/wrA/{PHONE}"),
        format!("messages/{PHONE}"),
        "deliveries?state=unknown".to_owned(),
    ] {
        for token in ["admin", "push", "read"] {
            let asked = desk.http.get(format!("http://{}/api/v1/{path}", desk.address)).bearer_auth(token);
            let answer = asked.send().await.expect("an answer").text().await.expect("a text");
            let whole = token == "admin";
            assert_eq!((answer.contains(PHONE), answer.contains("138****8000")), (whole, !whole), "{token}: {answer}");
            assert_eq!(answer.contains(r#""digest""#), whole && path.starts_with("messages"), "{token}: {answer}");
            let named = !path.starts_with("users") && !path.starts_with("sessions");
            assert_eq!(answer.contains("019f8c13900139000abcdef012345678"), named, "ids of ours stay whole: {answer}");
        }
    }
}

#[tokio::test]
async fn changing_a_member_needs_scope_admin() {
    let desk = desk().await;
    for token in ["read", "push"] {
        for method in [Method::PUT, Method::DELETE] {
            assert_eq!(code(ask(&desk, token, method).await, StatusCode::FORBIDDEN).await, "scope_too_small");
        }
    }
    assert_eq!(code(ask(&desk, "nobody", Method::GET).await, StatusCode::UNAUTHORIZED).await, "token_unknown");
    let known: Value = ask(&desk, "read", Method::GET).await.json().await.expect("json");
    let nothing = json!({"app": "support", "sender": "wmA", "user_id": null, "user_id_ttl_ms": null,
        "renew_on_use": false, "contact": {}});
    assert_eq!(known, nothing);
    assert_eq!(ask(&desk, "admin", Method::PUT).await.status(), StatusCode::OK);
    assert_eq!(ask(&desk, "admin", Method::DELETE).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(code(ask(&desk, "admin", Method::DELETE).await, StatusCode::NOT_FOUND).await, "unknown_user");
    assert_eq!(ask(&desk, "read", Method::GET).await.json::<Value>().await.expect("json"), nothing);
}

#[tokio::test]
async fn what_is_not_written_stays_as_it_is() {
    let desk = desk().await;
    let put = async |body: &str| {
        let answer = desk.send_body(Method::PUT, USER, body).await;
        assert_eq!(answer.status(), StatusCode::OK, "{body}");
        answer.json::<Value>().await.expect("json")
    };
    let holds = |known: &Value, hours: u64| {
        let left = known["user_id_ttl_ms"].as_u64().expect("a time");
        left > (hours - 1) * 3_600_000 && left <= hours * 3_600_000
    };
    assert!(holds(&put(r#"{"user_id": "u-7"}"#).await, 7 * 24), "a week by default");
    put(r#"{"user_id": "u-7", "ttl": "2h", "renew_on_use": true}"#).await;
    let known = put(r#"{"user_id": "u-8"}"#).await;
    assert!(known["user_id"] == "u-8" && known["renew_on_use"] == true && holds(&known, 2), "{known}");
    let known = put(r#"{"user_id": "u-8", "ttl": "5h"}"#).await;
    assert!(known["renew_on_use"] == true && holds(&known, 5), "{known}");
    let known = put(r#"{"user_id": "u-8", "renew_on_use": false}"#).await;
    assert!(known["renew_on_use"] == false && holds(&known, 5), "{known}");
    // Who is bound to nobody has nothing that could stay.
    put(r#"{"user_id": null}"#).await;
    let known = put(r#"{"user_id": "u-9"}"#).await;
    assert!(known["renew_on_use"] == false && holds(&known, 7 * 24), "{known}");
}

#[tokio::test]
async fn a_member_has_so_many_fields_however_many_changes_they_came_by() {
    let desk = desk().await;
    let fields = |from: usize, to: usize| {
        let fields: serde_json::Map<_, _> = (from..to).map(|n| (format!("f{n}"), json!("x"))).collect();
        json!({"contact": fields}).to_string()
    };
    for (body, status) in [
        (fields(0, 33), StatusCode::BAD_REQUEST),
        (fields(0, 20), StatusCode::OK),
        (fields(20, 33), StatusCode::BAD_REQUEST),
        (fields(10, 32), StatusCode::OK),
        (fields(0, 32), StatusCode::OK),
        (json!({"contact": {"f0": null, "name": "甲"}}).to_string(), StatusCode::OK),
        (json!({"contact": {"more": "乙"}}).to_string(), StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(desk.send_body(Method::PUT, USER, &body).await.status(), status, "{body}");
    }
}

#[tokio::test]
async fn what_can_not_be_kept_is_refused_whole() {
    let desk = desk().await;
    let long = format!(r#"{{"contact": {{"name": "{}"}}}}"#, "x".repeat(257));
    for body in [
        "{}",
        "[]",
        r#"["u-7", "1d"]"#,
        r#"{"user_id": ""}"#,
        r#"{"user_id": "a\nb"}"#,
        r#"{"user_id": "u", "ttl": "week"}"#,
        r#"{"user_id": "u", "ttl": "0s"}"#,
        r#"{"user_id": "u", "ttl": "401d"}"#,
        r#"{"user_id": null, "renew_on_use": false}"#,
        r#"{"ttl": "1d", "contact": {"name": "x"}}"#,
        r#"{"user_id": null, "renew_on_use": true}"#,
        r#"{"user_id": "u", "contact": {"~renew": "1"}}"#,
        r#"{"user_id": "u", "contact": {"": "1"}}"#,
        r#"{"user_id": "u", "contact": {"name": " x"}}"#,
        &long,
    ] {
        let answer = desk.send_body(Method::PUT, USER, body).await;
        assert_eq!(code(answer, StatusCode::BAD_REQUEST).await, "bad_body", "{body}");
    }
    let unknown = desk.send_body(Method::PUT, USER, r#"{"userid": "u"}"#).await;
    assert!(unknown.status().is_client_error());
    let foreign = desk.send_body(Method::PUT, "/api/v1/users/nobody/wmA", r#"{"user_id": "u"}"#).await;
    assert_eq!(code(foreign, StatusCode::NOT_FOUND).await, "unknown_app");
    assert_eq!(ask(&desk, "read", Method::GET).await.json::<Value>().await.expect("json")["user_id"], Value::Null);
}
