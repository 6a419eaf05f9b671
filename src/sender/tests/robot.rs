//! A fake robot that speaks HTTP/1.1 by hand, so that it can also cut a connection at a chosen byte.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

/// What the robot does with a request.
#[derive(Debug)]
pub enum Answer {
    /// HTTP 200 with this body; the connection stays.
    Body(String),
    /// As it stands; then the connection is closed.
    Raw(String),
    /// The connection is closed without a byte.
    Cut,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Call {
    /// `key` of its URL.
    pub key: String,
    /// The head, as it came.
    pub head: String,
    /// The body, as it came.
    pub body: String,
    answer: oneshot::Sender<Answer>,
}

impl Call {
    /// The text message's content.
    pub fn text(&self) -> String {
        let message: Value = serde_json::from_str(&self.body).expect("JSON");
        message["text"]["content"].as_str().expect("a text").to_owned()
    }

    /// Answers. The client may be gone by then.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }

    /// Answers with an errcode.
    pub fn code(self, errcode: i64) {
        self.answer(Answer::Body(json!({"errcode": errcode, "errmsg": "as told"}).to_string()));
    }
}

/// Ends a test that waits for what never comes.
pub async fn within_reason<F: Future>(event: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), event).await.expect("it comes in the end")
}

/// A listening robot.
pub struct Robot {
    address: SocketAddr,
    calls: mpsc::UnboundedReceiver<Call>,
}

impl Robot {
    /// Listens on a free port until the test's runtime ends.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (to_test, calls) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, to_test.clone()));
            }
        });
        Self { address, calls }
    }

    /// A webhook of this robot.
    pub fn webhook(&self, key: &str) -> String {
        format!("http://{}/cgi-bin/webhook/send?key={key}", self.address)
    }

    /// The next request.
    pub async fn call(&mut self) -> Call {
        within_reason(self.calls.recv()).await.expect("a call")
    }

    /// A request that waits already.
    pub fn try_call(&mut self) -> Option<Call> {
        self.calls.try_recv().ok()
    }

    /// Whether a request waits that the test did not ask for.
    pub fn is_quiet(&self) -> bool {
        self.calls.is_empty()
    }
}

async fn serve(stream: TcpStream, to_test: mpsc::UnboundedSender<Call>) {
    let mut stream = BufReader::new(stream);
    while let Some((head, body)) = read_request(&mut stream).await {
        let key = head.split_once("key=").and_then(|(_, rest)| rest.split([' ', '&']).next()).unwrap_or_default();
        let (answer, answered) = oneshot::channel();
        let call = Call { key: key.to_owned(), head, body, answer };
        if to_test.send(call).is_err() {
            return;
        }
        match answered.await.unwrap_or(Answer::Cut) {
            Answer::Body(body) => {
                let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(text.as_bytes()).await;
            }
            Answer::Raw(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                return;
            }
            Answer::Cut => return,
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.split_once("content-length:")?.1.split("\r\n").next()?.trim().parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).ok()?))
}
