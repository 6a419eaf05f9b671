//! The endpoint on the wire: bodies of every size and pace, chunks, and connections that go on after a refusal.

use std::net::SocketAddr;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use wecom_gateway::sim::Scenario;

use super::client::Answer;
use super::endpoint::{CHAT, Endpoint, text};
use super::seal::Callback;
use crate::world::{APP, TEST, draining, key};

const CAP: usize = 64 << 10;

/// One connection, and nothing between it and the test.
struct Wire(BufStream<TcpStream>);

impl Wire {
    async fn to(address: SocketAddr) -> Self {
        Self(BufStream::new(TcpStream::connect(address).await.unwrap()))
    }

    async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    async fn head(&mut self) -> (u16, HeaderMap) {
        tokio::time::timeout(TEST, self.unbounded_head()).await.expect("an answer")
    }

    async fn unbounded_head(&mut self) -> (u16, HeaderMap) {
        let status = self.line().await.split(' ').nth(1).expect("a status line").parse().unwrap();
        let mut headers = HeaderMap::new();
        while let Some((name, value)) = self.line().await.split_once(": ") {
            headers.insert(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
        }
        (status, headers)
    }

    async fn answer(&mut self) -> Answer {
        let (status, headers) = self.head().await;
        let length = headers["content-length"].to_str().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        Answer::new(status, headers, body)
    }

    /// Whether the other side has closed.
    async fn is_over(&mut self) -> bool {
        let read = tokio::time::timeout(TEST, self.0.read(&mut [0])).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }
}

fn head(method: &str, target: &str, framing: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: gateway\r\n{framing}\r\n\r\n")
}

fn request(method: &str, target: &str, body: &str) -> String {
    head(method, target, &format!("Content-Length: {}", body.len())) + body
}

fn post(callback: &Callback) -> String {
    request("POST", &callback.target(), &callback.xml())
}

/// A callback whose body has so many bytes.
fn of_size(id: &str, bytes: usize) -> (Callback, String) {
    let callback = Callback::of(text(id, "hi"));
    let mut body = callback.xml();
    body.push_str(&" ".repeat(bytes - body.len()));
    (callback, body)
}

async fn small() -> Endpoint {
    Endpoint::with(|scenario| scenario.set("server", "max_body", "64KiB")).await
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused_and_the_connection_goes_on() {
    let endpoint = small().await;
    let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
    for (id, bytes, fits) in [
        ("cap", CAP, true),
        ("cap+1", CAP + 1, false),
        ("twice", 2 * CAP, false),
        ("8 MiB", 8 << 20, false),
        ("cap again", CAP, true),
    ] {
        let (callback, body) = of_size(id, bytes);
        wire.write(request("POST", &callback.target(), &body)).await;
        match (wire.answer().await, fits) {
            (answer, true) => answer.taken(),
            (answer, false) => drop(answer.refused(413, "body_too_large")),
        }
    }
    endpoint.nothing_of(&["cap+1", "twice", "8 MiB"]).await;
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_size_is_refused_before_anything_is_looked_at() {
    let endpoint = small().await;
    let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
    let large = "x".repeat(CAP + 1);
    for target in
        ["/callback/nobody", &format!("/callback/{APP}"), "/callback/support?msg_signature=1&timestamp=1&nonce=1"]
    {
        for method in ["POST", "GET", "DELETE"] {
            wire.write(request(method, target, &large)).await;
            wire.answer().await.refused(413, "body_too_large");
        }
    }
    endpoint.world.end().await;
}

#[tokio::test]
async fn chunks_are_a_body_like_any_other() {
    let endpoint = small().await;
    let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
    let callback = Callback::of(text("chunks", "hi"));
    let chunked = head("POST", &callback.target(), "Transfer-Encoding: chunked");
    let bytewise: String = callback.xml().chars().map(|byte| format!("1\r\n{byte}\r\n")).collect();
    wire.write(format!("{chunked}{bytewise}0\r\n\r\n")).await;
    wire.answer().await.taken();
    let whole = format!("{:x};note=1\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n", callback.xml().len(), callback.xml());
    wire.write(format!("{chunked}{whole}")).await;
    wire.answer().await.taken();
    wire.write(format!("{chunked}{}0\r\n\r\n", format!("400\r\n{}\r\n", "x".repeat(1024)).repeat(65))).await;
    wire.answer().await.refused(413, "body_too_large");
    wire.write(format!("{chunked}0\r\n\r\n")).await;
    wire.answer().await.refused(400, "bad_envelope");
    wire.write(format!("{chunked}5\r\nhello\r\nnot a size\r\n")).await;
    wire.answer().await.refused(400, "body_unreadable");
    endpoint.world.end().await;
}

#[tokio::test]
async fn no_body_is_an_answer_too() {
    let endpoint = small().await;
    let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
    let callback = Callback::of(text("nobody", "hi"));
    for framing in ["Content-Length: 0", "X-Nothing: said"] {
        wire.write(head("POST", &callback.target(), framing)).await;
        wire.answer().await.refused(400, "bad_envelope");
    }
    endpoint.nothing_of(&["nobody"]).await;
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up_at_the_deadline() {
    let hasty = |scenario: Scenario| scenario.set("server", "max_body", "64KiB").set("server", "deadline", "1s");
    let endpoint = Endpoint::with(hasty).await;
    let address = endpoint.world.app.callback_addr();
    let callback = Callback::of(text("slow", "hi"));
    let mut stalled = Wire::to(address).await;
    let promised = head("POST", &callback.target(), &format!("Content-Length: {}", callback.xml().len()));
    stalled.write(format!("{promised}{}", &callback.xml()[..20])).await;
    stalled.answer().await.refused(400, "body_unreadable");
    assert!(stalled.is_over().await);

    // Too large already: that is what is wrong with it, and what its sender must hear.
    let mut large = Wire::to(address).await;
    large.write(head("POST", &callback.target(), "Content-Length: 10000000")).await;
    large.write("x".repeat(CAP + 1)).await;
    large.answer().await.refused(413, "body_too_large");

    // Gone in the middle: nobody to answer, nothing stored, nothing broken.
    let mut gone = Wire::to(address).await;
    gone.write(format!("{promised}{}", &callback.xml()[..20])).await;
    drop(gone);
    endpoint.nothing_of(&["slow"]).await;
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_body_without_end_is_not_read_for_ever() {
    let endpoint = Endpoint::new().await;
    let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
    wire.write(head("POST", &format!("/callback/{APP}"), "Content-Length: 1000000000000")).await;
    let piece = vec![b'x'; 1 << 20];
    let mut taken = 0;
    while wire.0.write_all(&piece).await.is_ok() && wire.0.flush().await.is_ok() {
        taken += 1;
        assert!(taken < 200, "{taken} MiB were taken");
    }
    endpoint.nothing_of(&[]).await;
    endpoint.world.end().await;
}

#[tokio::test]
async fn requests_in_one_breath_are_answered_in_their_order() {
    let endpoint = small().await;
    let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
    let good = |id: &str| Callback::of(text(id, "hi"));
    let (large, body) = of_size("large", CAP + 1);
    let all = [
        post(&good("p1")),
        post(&good("p2").forged()),
        request("POST", &large.target(), &body),
        post(&good("p3")),
        request("GET", &Callback::of("123").verification(), ""),
        request("PUT", "/callback/nobody/else", "a body"),
        post(&good("p1")),
    ];
    wire.write(all.concat()).await;
    wire.answer().await.taken();
    wire.answer().await.refused(403, "signature_mismatch");
    wire.answer().await.refused(413, "body_too_large");
    wire.answer().await.taken();
    assert_eq!(wire.answer().await.body, b"123");
    wire.answer().await.refused(404, "not_found");
    wire.answer().await.taken();
    for id in ["p1", "p3"] {
        endpoint.trail(id).await;
    }
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_connection_goes_on_after_every_refusal() {
    let endpoint = small().await;
    let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
    let good = Callback::of(text("again", "hi"));
    let body = "x".repeat(CAP);
    let rows = [
        ("POST", "/elsewhere", 404, "not_found"),
        ("POST", "/callback/", 404, "not_found"),
        ("POST", "/callback/nobody?x=1", 404, "unknown_app"),
        ("POST", "/callback/%FF", 404, "unknown_app"),
        ("DELETE", "/callback/support", 405, "method_not_allowed"),
        ("POST", "/callback/support", 400, "missing_query"),
        ("POST", &Callback::of("x").target(), 400, "bad_envelope"),
        ("POST", "/callback/hook", 403, "unauthorized"),
    ];
    for (method, target, status, code) in rows {
        println!("{method} {target}");
        wire.write(request(method, target, &body)).await;
        wire.answer().await.refused(status, code);
        wire.write(post(&good)).await;
        wire.answer().await.taken();
    }
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let endpoint = small().await;
    let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
    let callback = Callback::of(text("expect", "hi"));
    let framing = format!("Content-Length: {}\r\nExpect: 100-continue", callback.xml().len());
    wire.write(head("POST", &callback.target(), &framing)).await;
    assert_eq!(wire.head().await.0, 100);
    wire.write(callback.xml()).await;
    wire.answer().await.taken();
    endpoint.world.end().await;
}

#[tokio::test]
async fn odd_request_lines_are_answered_too() {
    let endpoint = small().await;
    let callback = Callback::of("123");
    let absolute = format!("http://elsewhere{}", callback.verification());
    let rows = [
        ("GET", absolute.as_str(), 200),
        ("OPTIONS", "*", 404),
        ("CONNECT", "gateway:80", 404),
        ("BREW", &callback.target(), 405),
    ];
    for (method, target, status) in rows {
        println!("{method} {target}");
        let mut wire = Wire::to(endpoint.world.app.callback_addr()).await;
        wire.write(request(method, target, "")).await;
        assert_eq!(wire.answer().await.status, status);
    }
    endpoint.world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_under_way_at_a_stop_is_answered() {
    let Endpoint { world, client } = Endpoint::with(|scenario| scenario.set("server", "drain", "60s")).await;
    // Keeps the stop from ending before the rest was seen.
    world.fake.hold(&key(CHAT));
    world.say(CHAT, "u1", "m0", "/echo [c1 u1 1]").await;
    tokio::time::timeout(TEST, world.fake.until(|fake| fake.under_way(&key(CHAT)) == 1)).await.expect("a send");
    let (mut wire, callback) = (Wire::to(client.address()).await, Callback::of(text("m1", "hi")));
    let body = callback.xml();
    let framing = format!("Expect: 100-continue\r\nContent-Length: {}", body.len());
    wire.write(head("POST", &callback.target(), &framing)).await;
    assert_eq!(wire.head().await.0, 100);

    let stopped = draining(world.app).await;
    wire.write(body).await;
    wire.answer().await.taken();
    assert!(wire.is_over().await && TcpStream::connect(client.address()).await.is_err());
    world.fake.release(&key(CHAT));
    tokio::time::timeout(TEST, stopped).await.expect("it stops").unwrap();
    assert_eq!(world.fake.texts(&key(CHAT)), ["[c1 u1 1]"]);
}
