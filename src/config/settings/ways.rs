//! The ways out: what the configuration says of how an app's chats are answered.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{RouteDigest, Secret};
use crate::store::Pace;

/// The API side of a self-built app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// Whose it is.
    pub corp_id: String,
    /// Which of its apps.
    pub agent_id: u64,
    /// What its access tokens are got with.
    pub secret: Secret,
    /// Whether WeCom is asked who external contacts and customer groups are.
    pub ask_contacts: bool,
}

/// The send side of a plain JSON gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Where replies are posted; may hold a key.
    pub url: Secret,
    /// Which account sends, where the gateway has several.
    pub instance_guid: Option<String>,
    /// How long it remembers a `client_msg_id`.
    pub client_msg_id_window: Duration,
}

/// What happens to a reply that may or may not have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnknown {
    /// It ends as `unknown`, for a person to settle.
    Hold,
    /// The same bytes again, for as long as the far side knows them for a repeat.
    Retry,
}

/// A chat's entry.
#[derive(Clone, Debug)]
pub struct Chat {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// 1..=100.
    pub weight: u32,
    /// Rate of its robot.
    pub pace: Pace,
    /// Whether waiting replies may leave as one message while pace holds them back.
    pub coalesce: bool,
    /// By which channel it is reached. `None`: no route of its own.
    pub way: Option<ChatWay>,
}

impl Chat {
    /// Its robot's webhook, where it has one.
    pub fn webhook(&self) -> Option<&Webhook> {
        match &self.way {
            Some(ChatWay::Webhook(webhook)) => Some(webhook),
            Some(ChatWay::AppChat(_)) | None => None,
        }
    }
}

/// What an entry says of how its chat is reached.
#[derive(Clone, Debug)]
pub enum ChatWay {
    /// By its robot.
    Webhook(Webhook),
    /// By `appchat/send`: the app made this group itself.
    AppChat(Arc<Api>),
}

/// A robot's webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// The full URL; holds the key.
    pub url: Secret,
    /// Its digest.
    pub digest: RouteDigest,
}
