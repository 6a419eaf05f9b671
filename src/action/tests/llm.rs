//! The `llm` action against an API on loopback that keeps what it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;

use super::*;
use crate::config::settings::{AnswerFormat, LlmAction};
use crate::model::now_ms;

fn llm(url: &str) -> LlmAction {
    LlmAction {
        endpoint: Url::parse(url).expect("a URL"),
        model: "m1".into(),
        api_key: Some(Secret::new("k3y")),
        system: Some("你是客服 {{ user.name }}".into()),
        timeout: Duration::from_secs(30),
        max_age: Duration::from_secs(600),
        max_tokens: Some(300),
        temperature: Some(0.5),
        context: 1000,
        max_answer: 8192,
        format: AnswerFormat::Text,
    }
}

/// Longer than any of these takes, shorter than the timeout of [`llm`].
const BOUND: Duration = Duration::from_secs(10);

/// Asks for the message of this file's parent, as if it had come just now.
async fn ask(action: LlmAction) -> Result<Answer, ActionError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let message = Message { received_at: now_ms(), ..message() };
    let (session, rules, run) = (session(), fixture::set(|_| {}), run(Action::Llm(action)));
    let profile = Profile::default();
    let request = Request {
        message: &message,
        chat_name: None,
        run: &run,
        session: &session,
        profile: &profile,
        rules: &rules,
        trace: None,
    };
    let actions = Actions::new(http_client().expect("a client"));
    tokio::time::timeout(BOUND, actions.run(request)).await.expect("within its time")
}

fn completion(content: &str) -> Response {
    axum::Json(json!({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]}))
        .into_response()
}

#[tokio::test]
async fn a_model_is_asked_with_the_session_and_names_and_nothing_of_a_member_in_system() {
    let (url, mut asked) = service(|| completion(" 您好 <@all> ")).await;
    assert_eq!(ask(llm(&url)).await.expect("an answer"), said(json!([wecom::message::text("您好 <@\u{200b}all>")])));
    let (headers, body) = asked.recv().await.expect("a request");
    let body: Value = serde_json::from_str(&body).expect("json");
    let expected = json!({"model": "m1", "messages": [
        {"role": "system", "content": "你是客服 {{ user.name }}"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yo"},
        {"role": "user", "content": "@小助手 /query 1001", "name": "王五@all"},
    ], "max_tokens": 300, "temperature": 0.5, "stream": false});
    assert_eq!(body, expected);
    assert_eq!(headers["authorization"], "Bearer k3y");
    assert_eq!(headers["idempotency-key"], message().key().idempotency_key());
    assert_eq!(headers["x-request-id"], "req-1");
}

#[tokio::test]
async fn what_is_not_set_is_not_sent() {
    let (url, mut asked) = service(|| completion("ok")).await;
    let bare = LlmAction { api_key: None, system: None, max_tokens: None, temperature: None, context: 0, ..llm(&url) };
    ask(bare).await.expect("an answer");
    let (headers, body) = asked.recv().await.expect("a request");
    let body: Value = serde_json::from_str(&body).expect("json");
    let messages = json!([{"role": "user", "content": "@小助手 /query 1001", "name": "王五@all"}]);
    assert_eq!(body, json!({"model": "m1", "messages": messages, "stream": false}));
    assert!(!headers.contains_key("authorization"));
}

#[tokio::test]
async fn a_refused_request_is_repeated_as_the_api_asks_under_one_key() {
    for refusal in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let count = Arc::new(AtomicUsize::new(0));
        let (url, mut asked) = service(move || match count.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => (refusal, [("retry-after", "0")]).into_response(),
            _ => completion("ok"),
        })
        .await;
        assert_eq!(ask(llm(&url)).await.expect("an answer"), said(json!([wecom::message::text("ok")])));
        let mut keys = Vec::new();
        while let Ok((headers, _)) = asked.try_recv() {
            keys.push(headers["idempotency-key"].clone());
        }
        assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    }
}

#[tokio::test]
async fn it_is_given_up_at_once_where_a_repeat_would_come_too_late() {
    let (url, mut asked) = service(|| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "601")]).into_response()).await;
    assert!(matches!(ask(llm(&url)).await, Err(ActionError::Status(429))));
    asked.try_recv().expect("one request");
    asked.try_recv().expect_err("and no other");
}

#[tokio::test]
async fn it_is_given_up_after_a_few_tries() {
    let (url, mut asked) =
        service(|| (StatusCode::INTERNAL_SERVER_ERROR, [("retry-after", "0")]).into_response()).await;
    assert!(matches!(ask(llm(&url)).await, Err(ActionError::Status(500))));
    let mut tries = 0;
    while asked.try_recv().is_ok() {
        tries += 1;
    }
    assert_eq!(tries, 5);
}

#[tokio::test]
async fn what_is_no_answer_is_told_without_a_byte_of_it() {
    let bodies = [
        r#"s3cret"#,
        r#"{"choices":[]}"#,
        r#"{"choices":[{"message":{"content":"  "}}]}"#,
        r#"{"choices":[{"message":{"content":null}}]}"#,
        r#"{"error":"s3cret"}"#,
    ];
    for body in bodies {
        let (url, mut asked) = service(move || body.into_response()).await;
        let error = ask(llm(&url)).await.expect_err("no answer");
        assert!(matches!(error, ActionError::BadAnswer(_)) && !error.to_string().contains("s3cret"), "{error}");
        asked.try_recv().expect("one request");
        asked.try_recv().expect_err("and no other");
    }
    let (url, _asked) = service(|| StatusCode::UNAUTHORIZED.into_response()).await;
    assert!(matches!(ask(llm(&url)).await, Err(ActionError::Status(401))));
}

#[tokio::test]
async fn an_api_that_hangs_is_waited_for_once_and_within_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let hasty = LlmAction { timeout: Duration::from_millis(50), ..llm(&url) };
    assert!(matches!(ask(hasty).await, Err(ActionError::Timeout)));
    // Also where the timeout is longer than the message is worth an answer.
    let late = LlmAction { max_age: Duration::from_millis(50), ..llm(&url) };
    assert!(matches!(ask(late).await, Err(ActionError::Timeout)));
}

#[tokio::test]
async fn a_long_answer_is_cut_and_markdown_stays_markdown() {
    let (url, _asked) = service(|| completion(&"长".repeat(100))).await;
    let action = LlmAction { max_answer: 32, format: AnswerFormat::Markdown, ..llm(&url) };
    let content = format!("{}…", "长".repeat(9)); // 30 bytes of 32
    assert_eq!(
        ask(action).await.expect("an answer"),
        said(json!([{"msgtype": "markdown", "markdown": {"content": content}}]))
    );
}
