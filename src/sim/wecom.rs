//! The fake WeCom on loopback: every way by which a gateway may send, as WeCom serves it, which checks what reaches it.
//!
//! - `webhook`: group robots, known by their keys, and their uploads;
//! - `api`: `gettoken`, `agent/get`, `message/send`, `appchat/send`;
//! - `contacts`: `externalcontact/get`, `externalcontact/groupchat/get`;
//! - `customers`: `externalcontact/add_msg_template`, and what is told of it;
//! - `once`: an aibot's `response_url`s, and a plain JSON gateway;
//! - `desk`: what all of them have in common.
//!
//! Each address that can be sent to is an outlet with a key: a robot's own, `message/send:<member>` (of several: `message/send:<users>;<parties>;<tags>`), `appchat/send:<chat>`, `add_msg_template:<ids>`,
//! `response:<code>`, `json:<conversation>`, and `gettoken`. It belongs to one chat. A send counts as arrived when WeCom would
//! have taken it: errcode 0, or an answer that was delayed or cut after the request was read; a refusal or a broken
//! gateway's 5xx is no arrival, nor is a repeat that its outlet knows. What the fake checks by itself goes to the [`Ledger`]:
//! one send at a time per outlet, the right chat, no repeat, order, rate and byte limits. The team's own service ([`Service`])
//! listens at the same address under `/action/{name}`.

mod api;
mod contacts;
mod customers;
mod desk;
mod message;
mod once;
mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::desk::{Desk, Outlet};
use super::behaviour::{Behaviour, Options};
use super::ledger::Ledger;
use super::service::{self, Service};
use super::wire::{Scissors, WireListener};

/// The outlet of `gettoken`.
pub const GETTOKEN: &str = "gettoken";
/// The outlet of `agent/get`.
pub const AGENT: &str = "agent/get";
/// The outlet of `externalcontact/get`.
pub const CONTACT: &str = "externalcontact/get";
/// The outlet of `externalcontact/groupchat/get`.
pub const CUSTOMER_GROUP: &str = "externalcontact/groupchat/get";

/// The outlet of a member, by `message/send`.
pub fn member(user: &str) -> String {
    format!("message/send:{user}")
}

/// The outlet of several members, as `touser`, `toparty` and `totag` name them.
pub fn members(users: &str, parties: &str, tags: &str) -> String {
    format!("message/send:{users};{parties};{tags}")
}

/// The outlet of a group that an app made, by `appchat/send`.
pub fn app_chat(chat: &str) -> String {
    format!("appchat/send:{chat}")
}

/// The outlet of `externalcontact/get_groupmsg_send_result`.
pub const SEND_RESULT: &str = "externalcontact/get_groupmsg_send_result";

/// The outlet of customers, or of their groups, by `externalcontact/add_msg_template`.
pub fn customers(ids: &[&str]) -> String {
    format!("add_msg_template:{}", ids.join("|"))
}

/// The outlet of a `response_url`.
pub fn response(code: &str) -> String {
    format!("response:{code}")
}

/// The outlet of a conversation behind the JSON gateway.
pub fn conversation(id: &str) -> String {
    format!("json:{id}")
}

/// A send that arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Key of the outlet.
    pub key: String,
    /// The outlet's chat.
    pub chat: String,
    /// Its text, whatever kind it is.
    pub text: String,
    /// The whole body.
    pub body: Value,
}

/// The fake WeCom. Stops when it is dropped.
pub struct FakeWeCom {
    addr: SocketAddr,
    desk: Arc<Desk>,
    service: Arc<Service>,
    closing: CancellationToken,
    server: Option<JoinHandle<()>>,
}

impl FakeWeCom {
    /// Listens on a free loopback port.
    pub async fn start(options: Options) -> std::io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), options).await
    }

    /// Listens at `addr`.
    pub async fn start_at(addr: SocketAddr, options: Options) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let service = Arc::new(Service::new(&options, Arc::clone(&ledger)));
        let desk = Arc::new(Desk::new(options, ledger));
        let router = webhook::router()
            .merge(api::router())
            .merge(contacts::router())
            .merge(customers::router())
            .merge(once::router())
            .with_state(Arc::clone(&desk))
            .merge(service::router(Arc::clone(&service)))
            .layer(DefaultBodyLimit::max(32 << 20));
        let closing = CancellationToken::new();
        let closed = closing.clone().cancelled_owned();
        let serve = axum::serve(WireListener(listener), router.into_make_service_with_connect_info::<Scissors>())
            .with_graceful_shutdown(closed);
        let server = tokio::spawn(async move {
            // `serve` has no way to fail.
            let _ = serve.await;
        });
        Ok(Self { addr, desk, service, closing, server: Some(server) })
    }

    /// `http://host:port`, for `[wecom] api_base` and action URLs.
    pub fn base(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What action requests are signed with, where they are.
    pub fn action_secret(&self) -> Option<&str> {
        self.desk.options.action_secret.as_deref()
    }

    /// Sets up the robot of `chat` and answers its webhook.
    pub fn webhook(&self, key: &str, chat: &str) -> String {
        self.desk.outlets().open(key, chat);
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("key", key).finish();
        format!("{}/cgi-bin/webhook/send?{query}", self.base())
    }

    /// Sets up an app of `corp`: what its tokens are got with, and its id.
    pub fn app(&self, corp: &str, secret: &str, agent_id: u64) {
        self.desk.outlets().apps.insert(corp, secret, agent_id);
    }

    /// Sets up a group that an app made.
    pub fn app_chat(&self, chat: &str) {
        self.desk.outlets().open(&app_chat(chat), chat);
    }

    /// A `response_url` for a message of `chat`, good for one call.
    pub fn response_url(&self, code: &str, chat: &str) -> String {
        self.desk.outlets().open(&response(code), chat);
        format!("{}/cgi-bin/aibot/response?response_code={code}", self.base())
    }

    /// Where the JSON gateway takes messages.
    pub fn json_gateway(&self) -> String {
        format!("{}/json/send", self.base())
    }

    /// Sets up an external contact: what `externalcontact/get` tells of them.
    pub fn contact(&self, external_userid: &str, told: Value) {
        self.desk.outlets().book.contacts.insert(external_userid.to_owned(), told);
    }

    /// Sets up a customer group: its `group_chat`.
    pub fn customer_group(&self, chat: &str, group: Value) {
        self.desk.outlets().book.groups.insert(chat.to_owned(), group);
    }

    /// The members who were asked to send something to these do what they do: each recipient with the status that
    /// WeCom tells of them (1 sent, 2 no friend, 3 over the limit).
    pub fn confirm(&self, ids: &[&str], statuses: &[(&str, i64)]) {
        self.desk.outlets().asked.confirm(&customers(ids), statuses);
    }

    /// How many tokens were given out.
    pub fn tokens(&self) -> usize {
        self.desk.outlets().apps.given()
    }

    /// Tokens that were given out are not known any more (40014).
    pub fn forget_tokens(&self) {
        self.desk.outlets().apps.forget_tokens();
    }

    /// Tokens that were given out are over (42001).
    pub fn end_tokens(&self) {
        self.desk.outlets().apps.end_tokens();
    }

    /// An administrator has switched all apps off, as far as `agent/get` tells.
    pub fn switch_apps_off(&self) {
        self.desk.outlets().apps.closed = 1;
    }

    /// How long tokens live from now on.
    pub fn tokens_live(&self, lives: Duration) {
        self.desk.outlets().apps.lives = lives;
    }

    /// How many files and voices were uploaded.
    pub fn uploads(&self) -> usize {
        self.desk.outlets().media.uploads()
    }

    /// What was uploaded is not known any more (40007).
    pub fn forget_media(&self) {
        self.desk.outlets().media.forget();
    }

    /// What the outlet does with its next sends, in order; after them it is ordinary again. It need not have been sent to yet.
    pub fn script(&self, key: &str, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.desk.outlets().planned(key).script.extend(behaviours);
    }

    /// What the outlet does with every send that no script names.
    pub fn always(&self, key: &str, behaviour: impl Into<Behaviour>) {
        self.desk.outlets().planned(key).always = Some(behaviour.into());
    }

    /// Once more as if nothing had been said of it by [`FakeWeCom::always`].
    pub fn ordinarily(&self, key: &str) {
        self.desk.outlets().planned(key).always = None;
    }

    /// Holds this outlet's answers back until [`FakeWeCom::release`].
    pub fn hold(&self, key: &str) {
        self.desk.gate(key).hold();
    }

    /// Lets them go.
    pub fn release(&self, key: &str) {
        self.desk.gate(key).release();
    }

    /// Sends that arrived, in order.
    pub fn arrived(&self) -> Vec<Arrived> {
        self.desk.outlets().arrived.clone()
    }

    /// How many of them there are.
    pub fn arrivals(&self) -> usize {
        self.desk.outlets().arrived.len()
    }

    /// Texts that arrived by this outlet, in order.
    pub fn texts(&self, key: &str) -> Vec<String> {
        self.desk.outlets().arrived.iter().filter(|a| a.key == key).map(|a| a.text.clone()).collect()
    }

    /// How many posts this outlet got, refused ones too.
    pub fn posts(&self, key: &str) -> usize {
        self.desk.outlets().by_key.get(key).map_or(0, |outlet| outlet.posts)
    }

    /// Posts to this outlet that wait for their answer now.
    pub fn under_way(&self, key: &str) -> usize {
        self.desk.outlets().by_key.get(key).map_or(0, Outlet::under_way)
    }

    /// The team's own service.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// What it saw.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.desk.ledger
    }

    /// Waits until `holds` of this fake; looks again at everything that reaches it.
    pub async fn until(&self, mut holds: impl FnMut(&Self) -> bool) {
        let mut changes = self.ledger().changes();
        while !holds(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Answers what is under way, then closes.
    pub async fn stop(mut self) {
        self.closing.cancel();
        if let Some(server) = self.server.take() {
            let _ = server.await;
        }
    }
}

impl Drop for FakeWeCom {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}
