//! The operators' listener over real HTTP, on the embedded store and real records: what the steps of a message leave
//! in the journal is what an operator finds, whoever asks wrongly gets the one shape of error.

mod changes;
pub mod desk;
mod operate;
mod users;

use std::time::Duration;

use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use wecom_gateway::model::Outcome;
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::store::{Enqueued, Fate};

use crate::world::{On, World};
use desk::{Desk, open_records};

/// Checks the one shape of error, and answers its code.
pub(crate) async fn code(response: Response, status: StatusCode) -> String {
    assert_eq!(response.status(), status);
    let named = response.headers()["x-request-id"].to_str().expect("text").to_owned();
    let body: Value = response.json().await.expect("json");
    assert_eq!(body["error"]["request_id"], *named);
    assert!(body["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    body["error"]["code"].as_str().expect("a code").to_owned()
}

#[tokio::test]
async fn an_operator_finds_a_messages_whole_way_by_each_of_its_names() {
    let desk = Desk::open().await;
    let id = "CAEQ/+a=%== 7";
    desk.life(id, "r1", Outcome::Delivered).await;
    // A copy, stopped by the mark.
    assert_eq!(desk.accept("wrA", id, "r2").await, Enqueued::Duplicate);
    desk.flush().await;
    for name in ["CAEQ%2F%2Ba%3D%25%3D%3D%207", "CAEQ/+a=%25==%207", "r1", "r1.0", "r2"] {
        let item = desk.only(&format!("/api/v1/messages/{name}")).await;
        assert_eq!(item["msg_id"], id);
        assert_eq!((&item["app"], &item["chat"], &item["sender"]), (&json!("support"), &json!("wrA"), &json!("wmA")));
        assert_eq!((&item["request_id"], &item["outcome"]), (&json!("r1"), &json!("delivered")));
        let stages = item["stages"].as_array().expect("a list");
        // The copy may have come in the millisecond of the settle.
        let (copies, own): (Vec<_>, Vec<_>) = stages.iter().partition(|stage| stage["stage"] == "duplicate");
        let words: Vec<_> = own.iter().filter_map(|stage| stage["stage"].as_str()).collect();
        assert_eq!((words, copies.len()), (vec!["accepted", "handled", "settled"], 1));
        assert_eq!((&own[1]["rule"], &own[2]["errcode"]), (&json!("echo"), &json!(0)));
    }
    assert_eq!(desk.json("/api/v1/messages/nobody").await, json!({"items": [], "next": null, "refused": null}));
    // A refused callback has no trail, only a word of why.
    desk.state.recent.note("support", "r9", "signature_mismatch", Some("check token".into()));
    let refused = &desk.json("/api/v1/messages/r9").await["refused"];
    assert_eq!((&refused["result"], &refused["refusal"]), (&json!("signature_mismatch"), &json!("check token")));
}

#[tokio::test]
async fn a_message_is_queued_until_its_reply_ended() {
    let desk = Desk::open().await;
    desk.accept("wrA", "m1", "r1").await;
    desk.flush().await;
    assert_eq!(desk.only("/api/v1/messages/m1").await["outcome"], "queued");
    desk.handle().await;
    desk.flush().await;
    assert_eq!(desk.only("/api/v1/messages/m1").await["outcome"], "queued");
    desk.send(Outcome::Unknown, 0, Fate::Ended { back_off: None, chat_dead: None }).await;
    desk.flush().await;
    let item = desk.only("/api/v1/messages/m1").await;
    assert_eq!((&item["outcome"], &item["reason"]), (&json!("unknown"), &json!("said_so")));
}

#[tokio::test]
async fn a_crash_between_the_write_and_the_trim_changes_nothing() {
    let desk = Desk::open().await;
    desk.life("m1", "r1", Outcome::Dead).await;
    for batch in desk.state.store.read_journal(100).await.expect("reads") {
        let lines = batch.lines.iter().filter_map(|raw| Recorded::parse(raw)).collect();
        desk.state.records.write(lines).await.expect("writes");
    }
    let before = (desk.json("/api/v1/messages/m1").await, desk.json("/api/v1/deliveries").await);
    desk.flush().await;
    assert_eq!((desk.json("/api/v1/messages/m1").await, desk.json("/api/v1/deliveries").await), before);
    assert_eq!(before.0["items"][0]["outcome"], "dead");
}

#[tokio::test]
async fn a_running_flusher_shows_what_happens_and_ends_when_told() {
    let desk = Desk::open().await;
    let (stop, flusher) = (CancellationToken::new(), desk.flusher(desk.state.records.clone()));
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { flusher.run(stop).await }
    });
    desk.life("m1", "r1", Outcome::Delivered).await;
    let shown = async { while desk.json("/api/v1/messages/m1").await["items"][0]["outcome"] != "delivered" {} };
    tokio::time::timeout(Duration::from_secs(20), shown).await.expect("shown at last");
    desk.accept("wrA", "m2", "r2").await;
    stop.cancel();
    running.await.expect("ends");
    assert_eq!(desk.only("/api/v1/messages/m2").await["outcome"], "queued");
}

#[tokio::test]
async fn with_sql_away_the_journal_waits() {
    let desk = Desk::open().await;
    desk.life("m1", "r1", Outcome::Delivered).await;
    let away = open_records(&desk.folder).await;
    away.close().await;
    let stop = CancellationToken::new();
    stop.cancel();
    desk.flusher(away).run(stop).await;
    assert_eq!(desk.state.store.depth().await.expect("answers").journal, 3);
    desk.flush().await;
    assert_eq!(desk.only("/api/v1/messages/m1").await["outcome"], "delivered");
}

#[tokio::test]
async fn what_did_not_end_well_is_listed_newest_first_in_pages() {
    let desk = Desk::open().await;
    for (n, state) in [Outcome::Unknown, Outcome::Delivered, Outcome::Dead, Outcome::Dropped].into_iter().enumerate() {
        desk.life(&format!("m{n}"), &format!("r{n}"), state).await;
    }
    desk.flush().await;
    let unknown = desk.only("/api/v1/deliveries?state=unknown&limit=1000").await;
    let at = unknown["at"].as_str().expect("a time").to_owned();
    assert!(at.ends_with('Z') && at.len() == "2026-11-29T08:00:00.000Z".len(), "{at}");
    let expected = json!({"id": "r0.0", "app": "support", "chat": "wrA", "msg_id": "m0", "request_id": "r0",
        "task_id": null, "state": "unknown", "reason": "said_so", "errcode": 0, "at": at, "looks": null, "next_look": null, "resendable": false});
    assert_eq!(unknown, expected);

    let (mut seen, mut next) = (Vec::new(), Value::String(String::new()));
    while let Some(cursor) = next.as_str() {
        let page = desk.json(&format!("/api/v1/deliveries?limit=2&cursor={cursor}")).await;
        seen.extend(page["items"].as_array().expect("a list").iter().map(|item| item["id"].clone()));
        next = page["next"].clone();
    }
    seen.sort_by_key(Value::to_string);
    assert_eq!(seen, ["r0.0", "r2.0", "r3.0"]);
}

#[tokio::test]
async fn chats_say_what_they_hold_and_why_it_waits() {
    let desk = Desk::open().await;
    let idle = json!({"app": "support", "chat": "wrA", "name": "VIP 群", "depth": 0, "oldest_wait_ms": null,
        "waits_for": null, "wake_in_ms": null, "weight": 10, "state": "active", "muted": false, "last_error": null,
        "hold": null});
    assert_eq!(desk.json("/api/v1/chats/support/wrA").await, idle);
    desk.accept("wrB", "m1", "r1").await;
    desk.handle().await;
    let waiting = desk.json("/api/v1/chats/support/wrB").await;
    assert_eq!((&waiting["depth"], &waiting["waits_for"]), (&json!(1), &json!("turn")));
    assert!(waiting["oldest_wait_ms"].is_u64(), "{waiting}");

    let route = desk.state.in_force.routes().of("support", "wrB").expect("a route").digest.clone();
    desk.send(Outcome::Dead, 93000, Fate::Ended { back_off: None, chat_dead: Some(route) }).await;
    let first = desk.json("/api/v1/chats?limit=1").await;
    assert_eq!(first["items"], json!([idle]));
    let cursor = first["next"].as_str().expect("more");
    let last = desk.only(&format!("/api/v1/chats?limit=1&cursor={cursor}")).await;
    assert_eq!((&last["chat"], &last["state"]), (&json!("wrB"), &json!("dead")));
    assert_eq!(last["last_error"], "93000 gone");
    assert_eq!(code(desk.get("/api/v1/chats/support/wrC").await, StatusCode::NOT_FOUND).await, "unknown_chat");
}

#[tokio::test]
async fn wrong_questions_get_the_one_shape_of_error() {
    let desk = Desk::open().await;
    for path in ["/nowhere", "/api/v1/nowhere", "/api/v1/messages/"] {
        assert_eq!(code(desk.get(path).await, StatusCode::NOT_FOUND).await, "not_found", "{path}");
    }
    for (path, expected) in [
        ("/api/v1/deliveries?state=delivered", "bad_query"),
        ("/api/v1/deliveries?limit=many", "bad_query"),
        ("/api/v1/chats?limit=-1", "bad_query"),
        ("/api/v1/chats?limit=0", "bad_query"),
        ("/api/v1/deliveries?limit=0", "bad_query"),
        ("/api/v1/stats?limit=0", "bad_query"),
        ("/api/v1/stats?limit=1001", "bad_query"),
        ("/api/v1/chats?app=corp", "bad_query"),
        ("/api/v1/push/t1?limit=1.5", "bad_query"),
        ("/api/v1/messages/m1?foo=1", "bad_query"),
        ("/api/v1/stats?date=", "bad_query"),
        ("/api/v1/chats?cursor=!", "bad_cursor"),
        ("/api/v1/deliveries?cursor=bnVsbA", "bad_cursor"),
        ("/api/v1/messages/%FF", "bad_path"),
    ] {
        assert_eq!(code(desk.get(path).await, StatusCode::BAD_REQUEST).await, expected, "{path}");
    }
    for (query, told) in [
        ("foo=1", "foo: no parameter of this path; write state, limit, cursor"),
        ("limit=0", "limit: write 1 to 1000"),
        ("limit=1.5", "limit: write 1 to 1000"),
    ] {
        let answer: Value = desk.get(&format!("/api/v1/deliveries?{query}")).await.json().await.expect("json");
        assert_eq!(answer["error"]["message"], told);
    }
    for path in ["/livez", "/api/v1/chats"] {
        let response = desk.http.post(format!("http://{}{path}", desk.address)).send().await.expect("an answer");
        assert_eq!(response.headers()["allow"], "GET,HEAD");
        assert_eq!(code(response, StatusCode::METHOD_NOT_ALLOWED).await, "method_not_allowed");
    }
}

#[tokio::test]
async fn with_tokens_the_api_wants_one_and_probes_and_local_metrics_do_not() {
    let desk = Desk::with_tokens(&["one", "two"]).await;
    for path in ["/api/v1/chats", "/api/v1/nowhere"] {
        let response = desk.get(path).await;
        assert!(response.headers()["www-authenticate"].to_str().expect("text").starts_with("Bearer"));
        assert_eq!(code(response, StatusCode::UNAUTHORIZED).await, "token_required");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(desk.get(path).await.status(), StatusCode::OK, "{path}");
    }
    for (token, status) in [("two", StatusCode::OK), ("tw", StatusCode::UNAUTHORIZED)] {
        let request = desk.http.get(format!("http://{}/api/v1/chats", desk.address)).bearer_auth(token);
        assert_eq!(request.send().await.expect("an answer").status(), status, "{token}");
    }
    let counted = desk.get("/metrics").await.text().await.expect("a text");
    for (code, times) in [("token_required", 2), ("token_unknown", 1), ("scope_too_small", 0)] {
        let line = format!("wecom_gateway_api_refused_total{{code=\"{code}\"}} {times}\n");
        assert!(counted.contains(&line), "{line}: {counted}");
    }
}

#[tokio::test]
async fn without_tokens_no_web_page_can_ask_through_an_operators_browser() {
    let desk = Desk::open().await;
    let ask = async |method: Method, path: &str, headers: &[(&str, &str)]| {
        let request = desk.http.request(method, format!("http://{}{path}", desk.address)).body("{}");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.expect("an answer")
    };
    // A form or a script of another page, without a preflight.
    for foreign in
        [("origin", "http://evil.example.com"), ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site")]
    {
        for (method, path) in
            [(Method::POST, "push"), (Method::POST, "reload"), (Method::GET, "apps"), (Method::GET, "x")]
        {
            let answer = ask(method, &format!("/api/v1/{path}"), &[("content-type", "text/plain"), foreign]).await;
            assert_eq!(code(answer, StatusCode::FORBIDDEN).await, "foreign_origin", "{path} {foreign:?}");
        }
    }
    // A page whose name was made to lead here: one origin with this listener, as its browser sees it.
    let rebound =
        [("host", "evil.example.com:8081"), ("origin", "http://evil.example.com:8081"), ("authorization", "Bearer x")];
    for path in ["/api/v1/apps", "/metrics"] {
        let answer = ask(Method::GET, path, &rebound).await;
        assert_eq!(code(answer, StatusCode::FORBIDDEN).await, "foreign_host", "{path}");
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(ask(Method::GET, path, &rebound).await.status(), StatusCode::OK, "a probe asks by any name: {path}");
    }
    // The console, also at the near end of a tunnel.
    let own = [("host", "localhost:9000"), ("origin", "http://localhost:9000"), ("sec-fetch-site", "same-origin")];
    assert_eq!(ask(Method::GET, "/api/v1/apps", &own).await.status(), StatusCode::OK);
    assert_eq!(ask(Method::GET, "/metrics", &own).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_push_is_taken_as_json_alone() {
    let desk = Desk::open().await;
    let task = json!({"task_id": "t1", "app": "support", "target": {"chat": "wrA"},
        "message": {"msgtype": "text", "text": {"content": "hi"}}});
    for (kind, status) in [
        (Some("text/plain"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("application/x-www-form-urlencoded"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (None, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("Application/JSON; charset=utf-8"), StatusCode::ACCEPTED),
    ] {
        let request = desk.http.post(format!("http://{}/api/v1/push", desk.address)).body(task.to_string());
        let request = kind.into_iter().fold(request, |request, kind| request.header("content-type", kind));
        assert_eq!(request.send().await.expect("an answer").status(), status, "{kind:?}");
    }
}

#[tokio::test]
async fn probes_and_metrics_tell_how_it_stands() {
    let desk = Desk::open().await;
    desk.accept("wrA", "m1", "r1").await;
    assert_eq!(desk.json("/livez").await, json!({"alive": true, "stalled": []}));
    let response = desk.get("/readyz").await;
    assert!(response.headers().contains_key("x-request-id"));
    let ready: Value = response.json().await.expect("json");
    assert_eq!(ready, json!({"ready": true, "store": "up", "spool": null, "kafka": null, "draining": false}));

    let response = desk.get("/metrics").await;
    assert!(response.headers()["content-type"].to_str().expect("text").starts_with("application/openmetrics-text"));
    let text = response.text().await.expect("text");
    assert!(text.contains(r#"wecom_gateway_depth{kind="journal"} 1"#), "{text}");

    desk.state.health.drain();
    let response = desk.get("/readyz").await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.json::<Value>().await.expect("json")["draining"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_do_not_take_the_probes_away() {
    let world = World::new(On::Embedded, &["c1"]).await;
    let admin = world.app.admin_addr();
    // As many as the listener takes; none needs a token.
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(TcpStream::connect(admin).await.expect("connected"));
    }
    // Less than what a connection has for its later requests, so it is not that clock which makes room.
    let probe = Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().expect("a client");
    let answer = probe.get(format!("http://{admin}/livez")).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    drop(silent);
    world.end().await;
}
