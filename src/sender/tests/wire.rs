//! What a channel says of each way in which a request can end.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::robot::{Answer, Robot};
use crate::config::settings;
use crate::model::Secret;
use crate::sender::channel::{Channel, GroupRobot, Wire, http_client};
use crate::store::embedded::EmbeddedStore;
use crate::wecom::message::text;
use crate::wecom::verdict::Reply;

const LONG: Duration = Duration::from_secs(30);

/// What a channel writes with; the folder of its store goes with it.
struct Line {
    wire: Wire,
    _folder: TempDir,
}

fn line(timeout: Duration) -> Line {
    let sender = settings::Sender { max_chats: 1, timeout, lease: LONG * 3, head_start: Duration::ZERO };
    let folder = TempDir::new().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 1).expect("a store");
    let api_base = "http://127.0.0.1/".parse().expect("a URL");
    let wire = Wire::new(http_client(&sender).expect("a client"), &api_base, store, timeout);
    Line { wire, _folder: folder }
}

/// Sends one text to `webhook` while `robot` does as told.
async fn answered_with(answer: Answer) -> Reply {
    let mut robot = Robot::start().await;
    let channel = GroupRobot::new(Secret::new(robot.webhook("k-e-y")));
    let (line, message) = (line(LONG), text("hi"));
    let (reply, ()) = tokio::join!(channel.send(&line.wire, &message), async {
        robot.call().await.answer(answer);
    });
    assert!(robot.is_quiet(), "one request, whatever comes of it");
    reply
}

#[tokio::test]
async fn the_message_goes_out_as_it_stands() {
    let mut robot = Robot::start().await;
    let channel = GroupRobot::new(Secret::new(robot.webhook("k-e-y")));
    let line = line(LONG);
    let message = json!({"msgtype": "markdown", "markdown": {"content": "<@u1> 订单 \"1\" & <b>\n"}});
    let (reply, call) = tokio::join!(channel.send(&line.wire, &message), async {
        let call = robot.call().await;
        let seen = (call.head.clone(), call.body.clone());
        call.code(0);
        seen
    });
    assert!(matches!(reply, Reply::Taken(_)), "{reply:?}");
    let (head, body) = call;
    assert!(head.starts_with("POST /cgi-bin/webhook/send?key=k-e-y HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "some read names literally: {head}");
    assert_eq!(body, r#"{"msgtype":"markdown","markdown":{"content":"<@u1> 订单 \"1\" & <b>\n"}}"#);
}

#[tokio::test]
async fn an_answer_is_read_whatever_its_status() {
    let reply = answered_with(Answer::Body(r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#.into())).await;
    assert_eq!(reply, Reply::Http { status: 200, code: Some((93000, "invalid webhook url".into())) });
    let reply = answered_with(Answer::Raw("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops".into())).await;
    assert_eq!(reply, Reply::Http { status: 502, code: None });
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let away = "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere?key=x\r\nContent-Length: 0\r\n\r\n";
    let reply = answered_with(Answer::Raw(away.into())).await;
    assert_eq!(reply, Reply::Http { status: 307, code: None });
}

#[tokio::test]
async fn an_endless_answer_is_cut_and_is_none_of_wecoms() {
    let body = format!(r#"{{"errmsg":"{}","errcode":0}}"#, "x".repeat(2 << 20));
    let reply = answered_with(Answer::Body(body)).await;
    assert_eq!(reply, Reply::Http { status: 200, code: None });
}

#[tokio::test]
async fn what_ends_after_the_request_was_written_has_no_answer() {
    let half_a_head = "HTTP/1.1 200 OK\r\nContent-Le";
    let half_a_body = "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{\"errcode\":0";
    for answer in [Answer::Cut, Answer::Raw(half_a_head.into()), Answer::Raw(half_a_body.into())] {
        let name = format!("{answer:?}");
        match answered_with(answer).await {
            Reply::NoAnswer(why) => assert!(!why.contains("k-e-y") && !why.contains("127.0.0.1"), "{name}: {why}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_none() {
    let mut robot = Robot::start().await;
    let channel = GroupRobot::new(Secret::new(robot.webhook("k-e-y")));
    let reply = channel.send(&line(Duration::from_millis(200)).wire, &text("hi")).await;
    match reply {
        // Whoever shows it says that it is an error.
        Reply::NoAnswer(why) => {
            assert!(
                why.starts_with("sending request: ") && why.contains("timed out") && !why.contains("k-e-y"),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
    robot.call().await.code(0);
    assert!(robot.is_quiet());
}

#[tokio::test]
async fn what_finds_no_connection_was_not_written() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let robot = Robot::start().await;
    let webhooks = [
        ("refused", format!("http://{free}/send?key=k-e-y")),
        ("no TLS there", robot.webhook("k-e-y").replace("http://", "https://")),
        ("no URL at all", "k-e-y".to_owned()),
    ];
    for (name, webhook) in webhooks {
        match GroupRobot::new(Secret::new(webhook)).send(&line(LONG).wire, &text("hi")).await {
            Reply::NotWritten(why) => assert!(!why.contains("k-e-y"), "{name}: {why}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_reused_connection_that_is_cut_is_not_written_to_again() {
    let mut robot = Robot::start().await;
    let channel = GroupRobot::new(Secret::new(robot.webhook("k-e-y")));
    let (line, message) = (line(LONG), text("hi"));
    let (first, ()) = tokio::join!(channel.send(&line.wire, &message), async { robot.call().await.code(0) });
    assert!(matches!(first, Reply::Taken(_)), "{first:?}");
    let (second, ()) = tokio::join!(channel.send(&line.wire, &message), async {
        robot.call().await.answer(Answer::Cut);
    });
    assert!(matches!(second, Reply::NoAnswer(_)), "{second:?}");
    assert!(robot.is_quiet());
}
