//! Channels: the ways by which a chat can be reached, one file each.
//!
//! A channel is bound to one address and knows nothing of lanes, leases or retries of a lane: it writes one request, once,
//! and tells honestly what came back. What that means is for [`crate::wecom::verdict`] to say. The one thing that it does
//! twice is what certainly was refused for a token or a media id that is over, and that once more only.

mod api;
mod app_chat;
mod app_message;
mod customer_task;
mod group_robot;
mod json_gateway;
mod media;
mod response_url;
mod wire;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use url::Url;

use super::token::Tokens;
use crate::store::{Pace, SharedStore};
use crate::wecom::message::{self, Limits, MessageError};
use crate::wecom::verdict::{ChannelKind, Reply};
pub(crate) use api::refuses_token;
pub use app_chat::AppChat;
pub use app_message::AppMessage;
pub use customer_task::CustomerTask;
pub use group_robot::GroupRobot;
pub use json_gateway::JsonGateway;
pub use response_url::ResponseUrl;
pub(super) use wire::exchange;
pub(crate) use wire::get;
pub use wire::http_client;

/// A way to one chat. `Debug` must not tell the address: it may hold a key.
#[async_trait]
pub trait Channel: fmt::Debug + Send + Sync {
    /// Which of the channels it is: verdicts differ by it.
    fn kind(&self) -> ChannelKind;

    /// What one message may hold here.
    fn limits(&self) -> &Limits;

    /// All that is said in answer to one message, checked, as the messages that go out one by one.
    ///
    /// # Errors
    /// [`MessageError`] of the first that can't go out.
    fn fit(&self, messages: &[Value]) -> Result<Vec<Value>, MessageError> {
        message::fit_all(messages, self.limits())
    }

    /// The request's whole body for one of those. It is stored, and every attempt writes the same.
    fn body(&self, message: Value, delivery_id: &str) -> Value {
        let _ = delivery_id;
        message
    }

    /// Whether that body is for this address alone. A robot's names none: it may leave by another webhook of its chat.
    fn is_bound(&self) -> bool {
        true
    }

    /// For how long, from when the message was taken, the far side knows the same bytes for a repeat. `None`: it does not.
    fn knows_repeats_for(&self) -> Option<Duration> {
        None
    }

    /// WeCom's own limit for one chat, as far as one window can keep it.
    fn most(&self) -> Option<Pace> {
        None
    }

    /// Writes `body` once. The answer tells apart what certainly was not written from what may have been; no text in it
    /// holds the address.
    async fn send(&self, wire: &Wire, body: &Value) -> Reply;
}

/// What channels write with, shared by all of them.
#[derive(Clone)]
pub struct Wire {
    client: reqwest::Client,
    /// Without a trailing slash.
    api_base: String,
    tokens: Tokens,
    store: SharedStore,
}

impl Wire {
    /// `client` is of [`http_client`], no other: P7 hangs on its settings. `patience` bounds the wait for a token.
    pub fn new(client: reqwest::Client, api_base: &Url, store: SharedStore, patience: Duration) -> Self {
        let api_base = api_base.as_str().trim_end_matches('/').to_owned();
        let tokens = Tokens::new(store.clone(), client.clone(), &api_base, patience);
        Self { client, api_base, tokens, store }
    }
}

/// An answer may quote what was asked; a key must not come into trails that way.
fn masked(reply: Reply, secret: &str) -> Reply {
    match reply {
        Reply::Http { status, code: Some((errcode, errmsg)) } if !secret.is_empty() => {
            Reply::Http { status, code: Some((errcode, errmsg.replace(secret, "***"))) }
        }
        reply => reply,
    }
}

/// Puts a message into a body that says where it goes.
fn extend(body: &mut Value, message: Value) {
    if let (Some(body), Value::Object(message)) = (body.as_object_mut(), message) {
        body.extend(message);
    }
}
