//! Actions against a service on loopback that keeps what it was asked.

mod llm;

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use url::Url;

use super::*;
use crate::config::settings::HttpAction;
use crate::member::BoundUser;
use crate::model::{ChatKind, Role, Secret, SenderKind, SessionTurn};
use crate::rules::{Action, CommandCall, Trigger, tests as fixture};

/// An answer that says nothing.
const NOTHING: &str = r#"{"text":""}"#;

fn message() -> Message {
    Message {
        request_id: "req-1".into(),
        app: "support".into(),
        chat_id: "wrVip".into(),
        chat_kind: ChatKind::Group,
        msg_id: "CAEQ/+==".into(),
        sender_key: "wmA".into(),
        sender_kind: SenderKind::External,
        sender_name: Some("王五<@all>".into()),
        msg_type: "text".into(),
        text: "@小助手 /query 1001".into(),
        sent_at: Some(1_796_025_600_000),
        received_at: 1_796_025_600_123,
        response_url: None,
        trace: None,
    }
}

fn session() -> Session {
    Session {
        turns: vec![
            SessionTurn { role: Role::User, text: "hi".into(), name: None },
            SessionTurn { role: Role::Bot, text: "yo".into(), name: None },
        ],
        vars: json!({"step": 2}).as_object().cloned().unwrap_or_default(),
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

fn run(action: Action) -> Run {
    Run {
        command: Some(CommandCall { name: "query".into(), args: object(json!({"order_id": 1001})) }),
        ..Run::new("command:query".into(), Trigger::Command, Arc::new(action))
    }
}

fn http(url: &str) -> HttpAction {
    HttpAction { url: Url::parse(url).expect("a URL"), timeout: Duration::from_secs(30), secret: None }
}

/// Runs one action for the message above.
async fn act(run: &Run) -> Result<Answer, ActionError> {
    act_for(run, &message(), &Profile::default()).await
}

async fn act_for(run: &Run, message: &Message, profile: &Profile) -> Result<Answer, ActionError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (session, rules) = (session(), fixture::set(|_| {}));
    let request =
        Request { message, chat_name: Some("VIP 群"), run, session: &session, profile, rules: &rules, trace: None };
    Actions::new(http_client().expect("a client")).run(request).await
}

async fn ask(action: HttpAction) -> Result<Answer, ActionError> {
    act(&run(Action::Http(action))).await
}

/// A service that answers everything with `answer`; its address, and what it is asked.
async fn service<F>(answer: F) -> (String, UnboundedReceiver<(HeaderMap, String)>)
where
    F: Fn() -> Response + Clone + Send + Sync + 'static,
{
    let (asked, seen) = unbounded_channel();
    let app = axum::Router::new().fallback(move |headers: HeaderMap, body: String| {
        let _ = asked.send((headers, body));
        let answer = answer.clone();
        async move { answer() }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    (format!("http://{address}/bot"), seen)
}

fn said(messages: Value) -> Answer {
    let messages = messages.as_array().cloned().expect("a list");
    Answer::Say { messages, vars: None, user_id: None }
}

#[tokio::test]
async fn a_reply_fills_in_plain_values_and_defuses_them() {
    let template = "{{ user.name }} 的订单 {{ args.order_id }}（{{ command.name }}，{{ chat.name }} {{ chat.id }}，{{ sender.key }}，\
                    {{ session.vars.step }}{{ user.id }}{{ args.phone }}）：{{ message.text }}";
    let answer = act(&run(Action::Reply(Template::compile(template).expect("a template")))).await.expect("an answer");
    let Answer::Say { messages, .. } = answer else { panic!("{answer:?}") };
    let text = messages[0]["text"]["content"].as_str().expect("a text");
    assert!(text.starts_with("王五") && !text.contains("<@all>"), "{text}");
    assert!(text.ends_with("的订单 1001（query，VIP 群 wrVip，wmA，2）：@小助手 /query 1001"), "{text}");
}

#[tokio::test]
async fn a_bindings_captures_are_its_arguments() {
    let template = Template::compile("{{ args.phone }}").expect("a template");
    let bound = Run { command: None, captures: Some(object(json!({"phone": "138"}))), ..run(Action::Reply(template)) };
    assert_eq!(act(&bound).await.expect("an answer"), said(json!([wecom::message::text("138")])));
}

fn profile() -> Profile {
    let contact = [("name", "王老五"), ("phone", "13800138000"), ("remark", "大客户"), ("mobile", "13900139000")];
    let user = BoundUser { id: "u-7".into(), left: Duration::from_secs(60), renew: None };
    let contact = contact.map(|(field, value)| (field.to_owned(), value.to_owned()));
    Profile { user: Some(user), contact: contact.into(), ..Profile::default() }
}

#[tokio::test]
async fn a_reply_knows_the_member_and_tells_no_phone_to_a_group() {
    let template =
        Template::compile("{{ user.name }} {{ user.id }} {{ user.phone }} {{ user.remark }}{{ user.email }}");
    let known = run(Action::Reply(template.expect("a template")));
    let heard = Template::compile("{{ args.phone }}").expect("a template");
    let captures = Some(object(json!({"phone": "13800138000", "none": null})));
    let heard = Run { command: None, captures, ..run(Action::Reply(heard)) };
    for (kind, phone) in [(ChatKind::Group, "138****8000"), (ChatKind::Single, "13800138000")] {
        let message = Message { chat_kind: kind, ..message() };
        let answer = act_for(&known, &message, &profile()).await.expect("an answer");
        assert_eq!(answer, said(json!([wecom::message::text(&format!("王老五 u-7 {phone} 大客户"))])));
        let answer = act_for(&heard, &message, &profile()).await.expect("an answer");
        assert_eq!(answer, said(json!([wecom::message::text(phone)])));
    }
    assert!(known.action.speaks_of_user() && !heard.action.speaks_of_user());
}

#[tokio::test]
async fn a_service_is_told_who_the_member_is() {
    let (url, mut seen) = service(|| NOTHING.into_response()).await;
    act_for(&run(Action::Http(http(&url))), &message(), &profile()).await.expect("an answer");
    let (_, body) = seen.recv().await.expect("a request");
    let sender = serde_json::from_str::<Value>(&body).expect("JSON")["sender"].take();
    let contact = json!({"name": "王老五", "phone": "13800138000", "remark": "大客户", "mobile": "13900139000"});
    assert_eq!(sender, json!({"key": "wmA", "kind": "external", "user_id": "u-7", "contact": contact}));
}

#[tokio::test]
async fn a_blank_reply_is_silence_and_help_lists_commands() {
    let blank = Template::compile("{{ args.none }} \n").expect("a template");
    assert_eq!(act(&run(Action::Reply(blank))).await.expect("an answer"), Answer::Silent);
    let Answer::Say { messages, .. } = act(&run(Action::Help)).await.expect("an answer") else { panic!("silent") };
    assert!(messages[0]["text"]["content"].as_str().is_some_and(|text| text.contains("/query <订单号>")));
}

#[tokio::test]
async fn a_service_is_asked_what_the_contract_says() {
    let (url, mut seen) = service(|| NOTHING.into_response()).await;
    let action = HttpAction { secret: Some(Secret::new("hmac-key")), ..http(&url) };
    assert_eq!(ask(action).await.expect("an answer"), Answer::Silent);

    let (headers, body) = seen.recv().await.expect("a request");
    let want = json!({
        "request_id": "req-1", "app": "support", "trigger": "command",
        "chat": {"id": "wrVip", "kind": "group", "name": "VIP 群"},
        "message": {"id": "CAEQ/+==", "type": "text", "text": "@小助手 /query 1001",
                    "sent_at": "2026-11-30T08:00:00.000Z", "received_at": "2026-11-30T08:00:00.123Z"},
        "sender": {"key": "wmA", "kind": "external", "user_id": null, "contact": {"name": "王五<@all>"}},
        "command": {"name": "query", "args": {"order_id": 1001}},
        "session": {"turns": [{"role": "user", "text": "hi"}, {"role": "bot", "text": "yo"}], "vars": {"step": 2}},
    });
    assert_eq!(serde_json::from_str::<Value>(&body).expect("JSON"), want);

    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("x-request-id"), "req-1");
    assert_eq!(header("idempotency-key"), message().key().idempotency_key());
    let mut mac = Hmac::<Sha256>::new_from_slice(b"hmac-key").expect("a key");
    mac.update(format!("{}.{body}", header("x-gateway-timestamp")).as_bytes());
    assert_eq!(header("x-gateway-signature"), format!("sha256={}", hex::encode(mac.finalize().into_bytes())));
}

/// HTTP takes names in any case, a service may look for them as the contract writes them.
#[tokio::test]
async fn headers_are_written_as_the_contract_spells_them() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/bot", listener.local_addr().expect("an address"));
    let read = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.expect("a byte of the head"));
        }
        String::from_utf8(head).expect("ASCII")
    });
    let action = HttpAction { secret: Some(Secret::new("hmac-key")), ..http(&url) };
    // The service hangs up behind the head: what became of the action is not asked here.
    let _ = ask(action).await;
    let head = read.await.expect("a head");
    for name in ["Content-Type", "X-Request-Id", "Idempotency-Key", "X-Gateway-Timestamp", "X-Gateway-Signature"] {
        assert!(head.contains(&format!("\r\n{name}: ")), "{name} in {head}");
    }
}

#[tokio::test]
async fn a_binding_sends_its_captures_and_what_is_missing_is_null() {
    let (url, mut seen) = service(|| NOTHING.into_response()).await;
    let run = Run {
        trigger: Trigger::Binding,
        command: None,
        captures: Some(object(json!({"phone": "13800138000"}))),
        ..run(Action::Http(http(&url)))
    };
    act(&run).await.expect("an answer");
    let (headers, body) = seen.recv().await.expect("a request");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&body["trigger"], &body["command"]), (&json!("binding"), &Value::Null));
    assert_eq!(body["captures"], json!({"phone": "13800138000"}));
    assert!(headers.get("x-gateway-signature").is_none(), "nothing to sign with");
}

#[tokio::test]
async fn what_answers_mean() {
    let markdown = json!({"msgtype": "markdown", "markdown": {"content": "**好**"}});
    let text = wecom::message::text("好");
    for (status, body, want) in [
        (204, String::new(), Some(Answer::Silent)),
        (202, "queued".to_owned(), Some(Answer::Later)),
        (200, json!({"text": "好"}).to_string(), Some(said(json!([text])))),
        (200, json!({"text": " "}).to_string(), Some(Answer::Silent)),
        (200, json!({"messages": []}).to_string(), Some(Answer::Silent)),
        (200, json!({"messages": [markdown, text], "more": 1}).to_string(), Some(said(json!([markdown, text])))),
        (200, json!({"text": "好", "messages": [markdown]}).to_string(), Some(said(json!([text, markdown])))),
        (
            200,
            json!({"text": null, "vars": {"a": 1}, "user_id": "u7"}).to_string(),
            Some(Answer::Say { messages: vec![], vars: Some(object(json!({"a": 1}))), user_id: Some("u7".into()) }),
        ),
        (200, json!({"user_id": " "}).to_string(), None),
        (200, json!({"user_id": "topsecret\n"}).to_string(), None),
        // A misspelt field is no silence.
        (200, json!({"Text": "topsecret"}).to_string(), None),
        (200, json!({}).to_string(), None),
        (200, String::new(), None),
        (200, "topsecret".to_owned(), None),
        (200, json!("topsecret").to_string(), None),
        (200, json!({"text": ["topsecret"]}).to_string(), None),
        (200, json!({"messages": ["topsecret"]}).to_string(), None),
        (200, json!({"messages": [{"topsecret": 1}]}).to_string(), None),
    ] {
        let answer = body.clone();
        let (url, _seen) = service(move || (status_of(status), answer.clone()).into_response()).await;
        match (ask(http(&url)).await, want) {
            (Ok(got), Some(want)) => assert_eq!(got, want, "{status} {body}"),
            (Err(e @ ActionError::BadAnswer(_)), None) => assert!(!e.to_string().contains("topsecret"), "{e}"),
            (got, _) => panic!("{status} {body}: {got:?}"),
        }
    }
}

fn status_of(code: u16) -> reqwest::StatusCode {
    reqwest::StatusCode::from_u16(code).expect("a status")
}

#[tokio::test]
async fn other_statuses_fail_and_no_redirect_is_followed() {
    for status in [201, 400, 401, 404, 429, 500, 503] {
        let (url, _seen) = service(move || (status_of(status), r#"{"text":"x"}"#).into_response()).await;
        let got = ask(http(&url)).await;
        assert!(matches!(got, Err(ActionError::Status(code)) if code == status), "{status}: {got:?}");
    }
    let (target, mut asked) = service(|| r#"{"text":"x"}"#.into_response()).await;
    let (url, _seen) = service(move || (status_of(307), [("location", target.clone())]).into_response()).await;
    assert!(matches!(ask(http(&url)).await, Err(ActionError::Status(307))));
    assert!(asked.try_recv().is_err(), "the redirect's target must not be asked");
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_limit_and_no_further() {
    for (len, fits) in [(http::MAX_ANSWER, true), (http::MAX_ANSWER + 1, false)] {
        let (url, _seen) =
            service(move || (NOTHING.to_owned() + &" ".repeat(len - NOTHING.len())).into_response()).await;
        let got = ask(http(&url)).await;
        assert_eq!(matches!(got, Ok(Answer::Silent)), fits, "{len}: {got:?}");
        assert_eq!(matches!(got, Err(ActionError::BadAnswer(_))), !fits, "{len}: {got:?}");
    }
}

#[tokio::test]
async fn a_silent_service_times_out_before_and_within_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port"); // accepts in the kernel, never answers
    let brief = |url: &str| HttpAction { timeout: Duration::from_millis(50), ..http(url) };
    let url = format!("http://{}/bot", listener.local_addr().expect("an address"));
    assert!(matches!(ask(brief(&url)).await, Err(ActionError::Timeout)));

    let (url, _seen) = service(|| {
        Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>()).into_response()
    })
    .await;
    assert!(matches!(ask(brief(&url)).await, Err(ActionError::Timeout)));
}

#[tokio::test]
async fn a_service_that_is_gone_or_hangs_up_is_told_apart_and_its_address_stays_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let url = format!("http://user:hunter2@{address}/bot?key=topsecret");
    let hang_up = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let _ = socket.read(&mut [0; 1]).await;
    });
    let broken = ask(http(&url)).await.expect_err("it hung up");
    hang_up.await.expect("hung up");
    assert!(matches!(broken, ActionError::Broken(_)), "{broken:?}");
    let gone = ask(http(&url)).await.expect_err("nobody listens");
    assert!(matches!(gone, ActionError::Connect(_)), "{gone:?}");
    for error in [broken, gone] {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2") && !text.contains("topsecret"), "{text}");
    }
}

#[test]
fn an_apology_holds_the_request_id() {
    assert!(apology("req-1")["text"]["content"].as_str().is_some_and(|text| text.contains("req-1")));
}
