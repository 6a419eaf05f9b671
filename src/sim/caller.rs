//! WeCom's side of a callback: a payload in WeCom's own shape, encrypted anew for each post, signed, and posted again when
//! no answer comes in time.
//!
//! Source: wire shapes and the retry after 5 s as WeCom's pages on callbacks and group robots describe them.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use reqwest::header::CONTENT_TYPE;

use crate::model::now_ms;
use crate::wecom::crypto::CallbackCrypto;

/// WeCom drops the connection after this and posts again.
pub const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Posts after the first one.
pub const RETRIES: u32 = 3;

/// The decrypted XML of a text in a group with a robot.
///
/// Its `WebhookUrl` leads to a robot that is nobody's route: a gateway that follows it is caught.
pub fn robot_text(chat: &str, sender: &str, msg_id: &str, text: &str) -> String {
    let cdata = |value: &str| format!("<![CDATA[{}]]>", value.replace("]]>", "]]]]><![CDATA[>"));
    format!(
        "<xml><WebhookUrl><![CDATA[https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=never-a-route]]></WebhookUrl>\
         <ChatId>{chat}</ChatId><ChatType>group</ChatType>\
         <From><UserId>{sender}</UserId><Name>{sender}</Name><Alias>{sender}</Alias></From>\
         <MsgType>text</MsgType><Text><Content>{text}</Content></Text><MsgId>{msg_id}</MsgId></xml>",
        chat = cdata(chat),
        sender = cdata(sender),
        text = cdata(text),
        msg_id = cdata(msg_id),
    )
}

/// Why a caller can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// The HTTP client.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}

/// Posts callbacks of one app; cheap to clone.
#[derive(Clone, Debug)]
pub struct Caller {
    http: reqwest::Client,
    url: Arc<str>,
    crypto: CallbackCrypto,
    retry_after: Duration,
}

impl Caller {
    /// `url` is the app's callback, `http://host:port/callback/{app}`.
    pub fn new(url: impl Into<Arc<str>>, crypto: CallbackCrypto) -> Result<Self, CallerError> {
        // An error says that the process has one already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { http, url: url.into(), crypto, retry_after: RETRY_AFTER })
    }

    /// Waits `retry_after` for an answer instead of WeCom's 5 s.
    pub fn patient_for(mut self, retry_after: Duration) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Encrypts, signs and posts once; the status, or `None` where no answer came in time.
    pub async fn post(&self, payload: &str) -> Option<u16> {
        let (url, body) = self.sealed(payload);
        let post = self.http.post(url).header(CONTENT_TYPE, "text/xml").body(body).send();
        self.status_of(post).await
    }

    /// Posts a plain JSON body, as a `json` app takes it, with one header.
    pub async fn post_json(&self, body: &serde_json::Value, header: (&str, &str)) -> Option<u16> {
        let post = self.http.post(&*self.url).header(header.0, header.1).json(body).send();
        self.status_of(post).await
    }

    /// Posts like WeCom: again, encrypted anew, while no 200 came; whether one came in the end. `before` is told of each post.
    pub async fn deliver(&self, payload: &str, mut before: impl FnMut()) -> bool {
        for _ in 0..=RETRIES {
            let next = tokio::time::Instant::now() + self.retry_after;
            before();
            if self.post(payload).await == Some(200) {
                return true;
            }
            tokio::time::sleep_until(next).await;
        }
        false
    }

    fn sealed(&self, payload: &str) -> (String, String) {
        let mut rng = rand::rng();
        let cipher = self.crypto.encrypt(payload.as_bytes(), rng.random());
        let timestamp = (now_ms() / 1000).to_string();
        let nonce = rng.random_range(1_000_000_000_u64..10_000_000_000).to_string();
        let signature = self.crypto.sign(&timestamp, &nonce, &cipher);
        let url = format!("{}?msg_signature={signature}&timestamp={timestamp}&nonce={nonce}", self.url);
        (url, format!("<xml><Encrypt><![CDATA[{cipher}]]></Encrypt></xml>"))
    }

    /// The status, once the whole answer is read, so that the connection can be used again.
    async fn status_of(&self, post: impl Future<Output = reqwest::Result<reqwest::Response>>) -> Option<u16> {
        let whole = async {
            let answer = post.await?;
            let status = answer.status().as_u16();
            answer.bytes().await.map(|_| status)
        };
        tokio::time::timeout(self.retry_after, whole).await.ok()?.ok()
    }
}
