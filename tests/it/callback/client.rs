//! Asks the endpoint, and holds every answer to what all of them must be.

use std::fmt;
use std::net::SocketAddr;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::Value;

use super::seal::{CORP, Callback, KEY, TOKEN};
use crate::world::TEST;

/// Stands in texts and other decrypted values; no answer may hold it.
pub const INSIDE: &str = "only-inside";
/// What opens the plain webhooks.
pub const HEADER_VALUE: &str = "opens-the-webhook";
pub const HMAC_SECRET: &str = "signs-the-webhook";

/// What no answer and no log line may hold.
pub const UNSEEN: [&str; 5] = [TOKEN, KEY, INSIDE, HEADER_VALUE, HMAC_SECRET];

/// An answer of the endpoint.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.status, self.headers, String::from_utf8_lossy(&self.body))
    }
}

impl Answer {
    /// Checked for what holds of every answer: it is named, and it gives nothing away.
    pub fn new(status: u16, headers: HeaderMap, body: Vec<u8>) -> Self {
        let answer = Self { status, headers, body };
        let request_id = answer.header("x-request-id");
        assert!(request_id.len() == 32 && request_id.bytes().all(|b| b.is_ascii_hexdigit()), "not named: {answer:?}");
        let shown = format!("{answer:?}");
        for unseen in UNSEEN.into_iter().chain([CORP]) {
            assert!(!shown.contains(unseen), "{unseen} is shown: {shown}");
        }
        answer
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// It must be the ack of a message that is stored.
    pub fn taken(&self) {
        assert_eq!((self.status, self.body.as_slice()), (200, &b"success"[..]), "{self:?}");
        assert!(self.header("content-type").starts_with("text/plain"), "{self:?}");
    }

    /// It must be a refusal, in the one shape that refusals have; its sentence.
    pub fn refused(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            (names(&body), names(&body["error"])),
            (vec!["error".into()], ["code", "message", "request_id"].map(String::from).into())
        );
        let error = &body["error"];
        assert_eq!(error["code"], code, "{self:?}");
        assert_eq!(error["request_id"], self.header("x-request-id"));
        let sentence = error["message"].as_str().unwrap();
        assert!(sentence.len() > 10, "{self:?}");
        sentence.to_owned()
    }
}

/// Asks one endpoint.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    http: reqwest::Client,
}

impl Client {
    /// Of the endpoint at this address.
    pub fn new(address: SocketAddr) -> Self {
        // Fails only where another test installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(TEST);
        Self { address, http: http.build().unwrap() }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Any request.
    pub async fn ask(
        &self,
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let mut request = self.http.request(method, format!("http://{}{target}", self.address)).body(body.into());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer::new(status, headers, response.bytes().await.unwrap().to_vec())
    }

    /// The URL verification.
    pub async fn get(&self, target: &str) -> Answer {
        self.ask(Method::GET, target, &[], "").await
    }

    /// Posts a callback in its XML body.
    pub async fn post(&self, callback: &Callback) -> Answer {
        self.post_as(callback, callback.xml()).await
    }

    /// Posts a callback in a body of one's own.
    pub async fn post_as(&self, callback: &Callback, body: impl Into<Vec<u8>>) -> Answer {
        self.ask(Method::POST, &callback.target(), &[(CONTENT_TYPE.as_str(), "text/xml")], body).await
    }

    /// Posts a plain JSON body.
    pub async fn post_json(&self, app: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Answer {
        self.ask(Method::POST, &format!("/callback/{app}"), headers, body).await
    }
}
