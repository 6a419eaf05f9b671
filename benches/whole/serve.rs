//! What the gateway is measured against: servers that do less, each in a process of its own.
//!
//! A server tells its address on stdout and serves until it is killed. Their HTTP stack and runtime are the gateway's own.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use wecom_gateway::sim::scenario::robot_key;
use wecom_gateway::sim::{FakeWeCom, Options};
use wecom_gateway::wecom::crypto::CallbackCrypto;
use wecom_gateway::wecom::envelope;
use wecom_gateway::wecom::payload::{self, Fields};

use crate::process::Process;
use crate::requests::{APP, Spread, crypto};

/// What a server does.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Role {
    /// Reads the body and answers `success`.
    Plain,
    /// Verifies, decrypts and parses the callback, stores nothing, and answers `success`.
    Opened,
    /// The fake WeCom alone, which answers webhook posts at once.
    Robots,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Opened => "opened",
            Self::Robots => "robots",
        }
    }

    /// A process that does it, and where it listens.
    pub fn in_a_process(self) -> anyhow::Result<(Process, SocketAddr)> {
        let (process, said) = Process::of_this_program(&["--serve", self.as_str()])?;
        let address = said.parse().with_context(|| format!("the server {self:?} said {said:?}"))?;
        Ok((process, address))
    }
}

/// The robots' chats: many, because two posts at once to one robot are a broken promise to the fake.
pub const ROBOTS: Spread = Spread { chats: 4096, members: 1 };

/// Serves for ever.
pub async fn serve(role: Role) -> anyhow::Result<()> {
    let at = "/callback/{app}";
    match role {
        Role::Plain => listen(Router::new().route(at, post(|_: Bytes| async { "success" }))).await,
        Role::Opened => listen(Router::new().route(at, post(opened)).with_state(crypto()?)).await,
        Role::Robots => {
            let fake = FakeWeCom::start(Options { forget: true, ..Options::default() }).await?;
            ROBOTS.chat_ids().iter().for_each(|chat| drop(fake.webhook(&robot_key(APP, chat), chat)));
            println!("{}", fake.base().trim_start_matches("http://"));
            std::future::pending().await
        }
    }
}

async fn listen(router: Router) -> anyhow::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    println!("{}", listener.local_addr()?);
    // As the gateway: no waiting for more to say.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, router).await?)
}

async fn opened(State(crypto): State<CallbackCrypto>, RawQuery(query): RawQuery, body: Bytes) -> (StatusCode, String) {
    match open(&crypto, &query.unwrap_or_default(), &body) {
        Some(_) => (StatusCode::OK, "success".to_owned()),
        None => (StatusCode::BAD_REQUEST, String::new()),
    }
}

fn open(crypto: &CallbackCrypto, query: &str, body: &[u8]) -> Option<payload::Payload> {
    let (mut signature, mut timestamp, mut nonce) = (None, None, None);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match name.as_ref() {
            "msg_signature" => signature = Some(value),
            "timestamp" => timestamp = Some(value),
            "nonce" => nonce = Some(value),
            _ => {}
        }
    }
    let cipher = envelope::ciphertext(body).ok()?;
    let signed = crypto.verify(&signature?, &timestamp?, &nonce?, &cipher);
    let plain = signed.then(|| crypto.decrypt(&cipher))?.ok()?;
    payload::parse(&plain, &Fields::default()).ok()
}
