//! Callbacks as WeCom posts them, made before the clock runs: encrypted, signed with the time of making, each with a
//! message id of its own. A second copy of a message would be answered by the gateway's window filter and measure nothing.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rand::RngExt;
use serde_json::Value;
use wecom_gateway::model::{Secret, now_ms};
use wecom_gateway::sim::scenario::{robot_app, robot_key};
use wecom_gateway::sim::{FakeWeCom, Tag, robot_text};
use wecom_gateway::wecom::crypto::{CallbackCrypto, ReceiveId};

/// The one app of every measurement.
pub const APP: &str = "bench";
const TOKEN: &str = "BenchTokenOfNobody";
const AES_KEY: &str = "BenchKeyOfNobodyBenchKeyOfNobodyBenchKeyOfN";

/// What the members write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Words {
    /// Nothing for the bot: the gateway stores it, looks at it and ends it as `ignored`.
    Chatter,
    /// A command that is answered by a fixed text.
    Echo,
    /// A command that is answered by the team's service.
    Query,
}

/// Over how many lanes messages are spread, evenly.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub chats: usize,
    /// In each chat.
    pub members: usize,
}

impl Spread {
    pub fn chat_ids(self) -> Vec<String> {
        (0..self.chats).map(|n| format!("wrBench{n:05}")).collect()
    }
    /// The `n`-th message's place; the serial counts from 1.
    fn tag(self, n: usize) -> Tag {
        let (chat, member) = (n % self.chats, n / self.chats % self.members);
        Tag::new(&format!("wrBench{chat:05}"), &format!("wmMember{member:03}"), n as u64 + 1)
    }
}

/// One callback: which message it is, and the whole HTTP request.
pub struct Callback {
    pub tag: Tag,
    pub request: Vec<u8>,
}

/// What opens the callbacks of [`callbacks`].
pub fn crypto() -> anyhow::Result<CallbackCrypto> {
    Ok(CallbackCrypto::new(Secret::new(TOKEN), &Secret::new(AES_KEY), ReceiveId::Exactly(String::new()))?)
}

/// The app that takes the callbacks of [`callbacks`] and answers by a robot of the fake in each of these chats.
pub fn app(fake: &FakeWeCom, chats: &[String]) -> Value {
    let mut app = robot_app(fake, APP, chats);
    app["token"] = TOKEN.into();
    app["encoding_aes_key"] = AES_KEY.into();
    app
}

/// `count` distinct callbacks.
pub fn callbacks(crypto: CallbackCrypto, words: Words, spread: Spread, count: usize) -> impl Iterator<Item = Callback> {
    let timestamp = (now_ms() / 1000).to_string();
    let mut rng = rand::rng();
    (0..count).map(move |n| {
        let tag = spread.tag(n);
        let text = match words {
            Words::Chatter => format!("今天下午三点开会，大家把周报准备一下 #{}", tag.serial),
            Words::Echo => format!("/echo {tag}"),
            Words::Query => format!("/query {}", tag.serial),
        };
        let msg_id = format!("CAIQg/PK+xgYpcSEpYCA{:09}", tag.serial);
        let payload = robot_text(&tag.chat, &tag.sender, &msg_id, &text);
        let cipher = crypto.encrypt(payload.as_bytes(), rng.random());
        let nonce = rng.random_range(1_000_000_000_u64..10_000_000_000).to_string();
        let signature = crypto.sign(&timestamp, &nonce, &cipher);
        let path = format!("/callback/{APP}?msg_signature={signature}&timestamp={timestamp}&nonce={nonce}");
        let body = format!("<xml><Encrypt><![CDATA[{cipher}]]></Encrypt></xml>");
        Callback { tag, request: post(&path, "text/xml", &body) }
    })
}

/// A post to the robot of each of these chats.
pub fn webhook_posts(chats: &[String]) -> impl Iterator<Item = Vec<u8>> {
    chats.iter().map(|chat| {
        let path = format!("/cgi-bin/webhook/send?key={}", robot_key(APP, chat));
        let body = r#"{"msgtype":"text","text":{"content":"您的订单 1001 已发出，预计明天送达。"}}"#;
        post(&path, "application/json", body)
    })
}

fn post(path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A file of requests, as `callbacks.lua` reads it.
pub struct RequestFile {
    pub path: PathBuf,
    pub count: usize,
}

impl RequestFile {
    pub fn write(path: &Path, requests: impl Iterator<Item = Vec<u8>>) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("can't write {}", path.display()))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let mut count = 0;
        for request in requests {
            writeln!(file, "{}", request.len())?;
            file.write_all(&request)?;
            count += 1;
        }
        file.flush()?;
        Ok(Self { path: path.to_owned(), count })
    }
}
