//! WeCom's side of a callback: a payload in WeCom's own shape, encrypted anew for each post, signed, and posted again when
//! no answer comes in time.
//!
//! Source: wire shapes and the retry after 5 s as WeCom's pages on callbacks and group robots describe them.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use reqwest::header::CONTENT_TYPE;

use crate::http_client;
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

/// The decrypted XML of a text that a member sends to an app: a one-to-one chat, without a chat id.
pub fn app_text(sender: &str, msg_id: &str, text: &str) -> String {
    format!(
        "<xml><ToUserName>ww1</ToUserName><FromUserName><![CDATA[{sender}]]></FromUserName><CreateTime>{}</CreateTime>\
         <MsgType>text</MsgType><Content><![CDATA[{text}]]></Content><MsgId>{msg_id}</MsgId><AgentID>7</AgentID></xml>",
        now_ms() / 1000
    )
}

/// The decrypted JSON of a text to a smart robot in a group, with the address for the answer.
pub fn aibot_text(chat: &str, sender: &str, msg_id: &str, text: &str, response_url: &str) -> String {
    serde_json::json!({
        "msgid": msg_id, "aibotid": "AIBOT", "chatid": chat, "chattype": "group", "from": {"userid": sender},
        "response_url": response_url, "msgtype": "text", "text": {"content": text},
    })
    .to_string()
}

/// The same as JSON, for a robot whose callback URL asks for it (`robot_callback_format=json`).
pub fn robot_json(chat: &str, sender: &str, msg_id: &str, text: &str) -> String {
    serde_json::json!({
        "webhook_url": "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=never-a-route",
        "chatid": chat, "chattype": "group", "msgid": msg_id, "msgtype": "text", "text": {"content": text},
        "from": {"userid": sender, "name": sender, "alias": sender},
    })
    .to_string()
}

/// How a callback is written, outside and inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `<xml>…</xml>`
    #[default]
    Xml,
    /// `{…}`
    Json,
}

/// Why a caller can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// The HTTP client.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}

/// Why a gateway is not the one that callbacks are meant for.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Nobody is there.
    #[error("no gateway answers there ({0}): start it, or name another target")]
    NoAnswer(String),
    /// It can't read this app's callbacks.
    #[error(
        "the gateway refuses the URL verification (HTTP {0}): it must run with this app file, its name, token and          encoding_aes_key the same"
    )]
    Refused(u16),
}

/// What happened, rather than that something did.
fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// Posts callbacks of one app; cheap to clone.
#[derive(Clone, Debug)]
pub struct Caller {
    http: reqwest::Client,
    url: Arc<str>,
    crypto: CallbackCrypto,
    retry_after: Duration,
    format: Format,
}

impl Caller {
    /// `url` is the app's callback, `http://host:port/callback/{app}`.
    pub fn new(url: impl Into<Arc<str>>, crypto: CallbackCrypto) -> Result<Self, CallerError> {
        let http = http_client::built(|| reqwest::Client::builder().no_proxy())?;
        Ok(Self { http, url: url.into(), crypto, retry_after: RETRY_AFTER, format: Format::Xml })
    }

    /// Posts to this callback URL instead.
    pub fn at(mut self, url: impl Into<Arc<str>>) -> Self {
        self.url = url.into();
        self
    }

    /// Waits `retry_after` for an answer instead of WeCom's 5 s.
    pub fn patient_for(mut self, retry_after: Duration) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Writes callbacks in this format.
    pub fn in_format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// The decrypted payload of a text in a group with a robot, in this caller's format.
    pub fn text(&self, chat: &str, sender: &str, msg_id: &str, text: &str) -> String {
        match self.format {
            Format::Xml => robot_text(chat, sender, msg_id, text),
            Format::Json => robot_json(chat, sender, msg_id, text),
        }
    }

    /// WeCom's URL verification: whether a gateway is there and has this app with the same token and key.
    pub async fn verify(&self) -> Result<(), VerifyError> {
        let echo = rand::rng().random_range(10_u64.pow(15)..10_u64.pow(16)).to_string();
        let (url, cipher) = self.signed(&echo);
        let echostr = url::form_urlencoded::byte_serialize(cipher.as_bytes()).collect::<String>();
        let ask = self.http.get(format!("{url}&echostr={echostr}")).timeout(self.retry_after);
        let no_answer = |error: reqwest::Error| VerifyError::NoAnswer(innermost(&error));
        let answer = ask.send().await.map_err(no_answer)?;
        let status = answer.status().as_u16();
        match answer.text().await.map_err(no_answer)? == echo {
            true => Ok(()),
            false => Err(VerifyError::Refused(status)),
        }
    }

    /// Encrypts, signs and posts once; the status, or `None` where no answer came in time.
    pub async fn post(&self, payload: &str) -> Option<u16> {
        let (url, body) = self.sealed(payload);
        let kind = match self.format {
            Format::Xml => "text/xml",
            Format::Json => "application/json",
        };
        let post = self.http.post(url).header(CONTENT_TYPE, kind).body(body).send();
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

    /// The URL with its signature, and the ciphertext.
    fn signed(&self, payload: &str) -> (String, String) {
        let mut rng = rand::rng();
        let cipher = self.crypto.encrypt(payload.as_bytes(), rng.random());
        let timestamp = (now_ms() / 1000).to_string();
        let nonce = rng.random_range(1_000_000_000_u64..10_000_000_000).to_string();
        let signature = self.crypto.sign(&timestamp, &nonce, &cipher);
        let url = format!("{}?msg_signature={signature}&timestamp={timestamp}&nonce={nonce}", self.url);
        (url, cipher)
    }

    /// The URL and the body.
    fn sealed(&self, payload: &str) -> (String, String) {
        let (url, cipher) = self.signed(payload);
        let body = match self.format {
            Format::Xml => format!("<xml><Encrypt><![CDATA[{cipher}]]></Encrypt></xml>"),
            Format::Json => serde_json::json!({"encrypt": cipher}).to_string(),
        };
        (url, body)
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
