//! The obvious way to write such a bot, to compare with: everything happens inside the callback.
//!
//! It stands for the way of public bots and of most tutorials: the handler decrypts, parses, dispatches the command and calls the
//! service while WeCom waits for its answer (`opencrust-org/opencrust`, `easy-wx/wecom-app-svr`, `mostlittlebee/chatgpt-on-wecom`,
//! each with reports of repeated answers); whom to answer is remembered in one place for the whole process
//! (`bot.last_message` of `lsdefine/GenericAgent`, the group id of `Kloping/qqpd-bot-java`, each with reports of answers in
//! other chats); answers go through one queue that one loop works off.
//!
//! Nothing is scripted to go wrong. It has the gateway's own parts wherever the design leaves a choice: crypto, parser, rules, the
//! HTTP client of its actions, the client, time-out and webhooks of its robots, and as many callbacks at once as come. What goes
//! wrong follows from three things that it does not do:
//!
//! - nobody remembers which messages were handled, so a copy, or WeCom's retry after 5 s, is handled again;
//! - the queue holds texts, and the sender asks for the current chat where to: the one of the message that came last;
//! - one sender sends to all chats, so a robot that takes its time, or more answers than one connection carries, hold up everybody.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::serve::ListenerExt;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::action::{self, Actions, Answer, Request};
use crate::config::settings::{self, AppKind};
use crate::member::Profile;
use crate::model::{Message, Session, new_id, now_ms};
use crate::rules::{Decision, RuleError, RuleSet, Run};
use crate::sender::channel::{self, GroupRobot};
use crate::wecom::crypto::CallbackCrypto;
use crate::wecom::payload::{self, Payload};
use crate::wecom::{envelope, message};

/// Why the bot does not start.
#[derive(Debug, thiserror::Error)]
pub enum SynchronousError {
    /// Only a group robot is compared.
    #[error("the app is no group robot")]
    Kind,
    /// Its rules.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// An HTTP client.
    #[error("no HTTP client: {0}")]
    Http(#[from] reqwest::Error),
    /// Its listener.
    #[error("can't listen on loopback: {0}")]
    Listen(#[from] std::io::Error),
}

/// A running bot.
pub struct SynchronousBot {
    addr: SocketAddr,
    closing: CancellationToken,
    server: JoinHandle<()>,
    sender: JoinHandle<()>,
}

/// What the callbacks share.
struct Bot {
    app: Arc<settings::App>,
    crypto: CallbackCrypto,
    rules: RuleSet,
    actions: Actions,
    /// The chat that is being answered, for the whole process: a global variable in the programs that this stands for.
    current: Arc<Mutex<String>>,
    queue: mpsc::UnboundedSender<Value>,
}

impl SynchronousBot {
    /// Answers the callbacks of `app` on a free loopback port; `sender` is what the gateway sends with.
    pub async fn start(app: &Arc<settings::App>, sender: &settings::Sender) -> Result<Self, SynchronousError> {
        let AppKind::GroupRobot(crypto) = &app.kind else { return Err(SynchronousError::Kind) };
        let client = channel::http_client(sender)?;
        let actions = Actions::new(action::http_client()?);
        let (queue, texts) = mpsc::unbounded_channel();
        let (app, crypto, current) = (Arc::clone(app), crypto.clone(), Arc::default());
        let rules = RuleSet::compile(&app)?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let addr = listener.local_addr()?;
        let closing = CancellationToken::new();
        let sender = tokio::spawn(send_all(texts, Arc::clone(&app), Arc::clone(&current), client));
        let bot = Arc::new(Bot { app, crypto, rules, actions, current, queue });
        let router = Router::new().route("/callback/{app}", get(verification).post(callback)).with_state(bot);
        // As the gateway's listener; where it can't be set, answers are only slower.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let serve = axum::serve(listener, router).with_graceful_shutdown(closing.clone().cancelled_owned());
        let server = tokio::spawn(async move {
            // `serve` has no way to fail.
            let _ = serve.await;
        });
        Ok(Self { addr, closing, server, sender })
    }

    /// `http://host:port`; callbacks go to `/callback/{app}`, whatever the app's name.
    pub fn base(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Takes no more callbacks; what is still in the queue is not sent, as when such a process ends.
    pub async fn stop(self) {
        self.closing.cancel();
        // The task has no way to fail either.
        let _ = self.server.await;
        self.sender.abort();
    }
}

/// The query of a callback.
#[derive(Deserialize)]
struct Signed {
    msg_signature: String,
    timestamp: String,
    nonce: String,
    echostr: Option<String>,
}

async fn verification(State(bot): State<Arc<Bot>>, Query(signed): Query<Signed>) -> Result<Vec<u8>, StatusCode> {
    let plain = signed.echostr.as_deref().and_then(|echostr| bot.decrypt(&signed, echostr));
    plain.ok_or(StatusCode::BAD_REQUEST)
}

async fn callback(
    State(bot): State<Arc<Bot>>,
    Query(signed): Query<Signed>,
    body: Bytes,
) -> Result<&'static str, StatusCode> {
    let message = bot.open(&signed, &body).ok_or(StatusCode::BAD_REQUEST)?;
    // A task of its own, because elsewhere (Flask, Spring, Go) a handler goes on although WeCom has hung up.
    tokio::spawn(handle(bot, message)).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok("success")
}

async fn handle(bot: Arc<Bot>, message: Message) {
    *bot.current.lock().unwrap_or_else(PoisonError::into_inner) = message.chat_id.clone();
    let answers = match bot.rules.decide(&message) {
        Decision::Ignore { .. } | Decision::Block { .. } => Vec::new(),
        Decision::Say { text, .. } => vec![message::text(&text)],
        Decision::Run(run) => bot.act(&message, &run).await,
    };
    for answer in answers {
        // Closed when the bot stops.
        let _ = bot.queue.send(answer);
    }
}

impl Bot {
    fn decrypt(&self, signed: &Signed, ciphertext: &str) -> Option<Vec<u8>> {
        let authentic = self.crypto.verify(&signed.msg_signature, &signed.timestamp, &signed.nonce, ciphertext);
        authentic.then(|| self.crypto.decrypt(ciphertext).ok()).flatten()
    }

    /// Verifies, decrypts and parses.
    fn open(&self, signed: &Signed, body: &[u8]) -> Option<Message> {
        let plain = self.decrypt(signed, &envelope::ciphertext(body).ok()?)?;
        let Payload { chat_id, chat_kind, msg_id, sender, sender_name, msg_type, text, sent_at, response_url } =
            payload::parse(&plain, &self.app.fields).ok()?;
        let (sender_key, sender_kind) = sender?;
        Some(Message {
            request_id: new_id(),
            app: self.app.id.clone(),
            chat_id: chat_id?,
            chat_kind,
            msg_id: msg_id?,
            sender_key,
            sender_kind,
            sender_name,
            msg_type,
            text,
            sent_at,
            received_at: now_ms(),
            response_url,
            trace: None,
        })
    }

    /// Calls the action and waits for it.
    async fn act(&self, message: &Message, run: &Run) -> Vec<Value> {
        let (session, profile) = (Session::default(), Profile::default());
        let request = Request {
            message,
            chat_name: None,
            run,
            session: &session,
            profile: &profile,
            rules: &self.rules,
            trace: None,
        };
        match self.actions.run(request).await {
            Ok(Answer::Say { messages, .. }) => messages,
            Ok(Answer::Silent | Answer::Later) => Vec::new(),
            Err(_) => vec![action::apology(&message.request_id)],
        }
    }
}

/// Sends what is in the queue, one by one, to the chat that is current then; what fails is gone.
async fn send_all(
    mut texts: mpsc::UnboundedReceiver<Value>,
    app: Arc<settings::App>,
    current: Arc<Mutex<String>>,
    client: reqwest::Client,
) {
    while let Some(text) = texts.recv().await {
        let chat = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(webhook) = app.chats.get(&chat).and_then(|chat| chat.webhook()) {
            GroupRobot::new(webhook.url.clone()).post(&client, &text).await;
        }
    }
}
