//! A plain JSON gateway: `{"instance_guid", "conversationId", "msgtype", "text": {"content"}, "client_msg_id"}`, answered by
//! `{"errcode": 0}`.
//!
//! It remembers each `client_msg_id` for a while and shows a message once, however often it comes. The id is the delivery's
//! own, so every repeat carries the same.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Channel, Wire, wire};
use crate::config::settings::{Gateway, OnUnknown};
use crate::model::RouteDigest;
use crate::wecom::message::{JSON_GATEWAY, Limits};
use crate::wecom::verdict::{ChannelKind, Reply};

/// A conversation behind a gateway.
#[derive(Clone, Debug)]
pub struct JsonGateway {
    gateway: Arc<Gateway>,
    conversation: String,
    on_unknown: OnUnknown,
}

impl JsonGateway {
    /// The way to `conversation`.
    pub fn new(gateway: Arc<Gateway>, conversation: &str, on_unknown: OnUnknown) -> Self {
        Self { gateway, conversation: conversation.to_owned(), on_unknown }
    }

    /// Names it without telling it.
    pub fn digest(&self) -> RouteDigest {
        let Gateway { url, instance_guid, .. } = &*self.gateway;
        let instance = instance_guid.as_deref().unwrap_or_default();
        let address = format!("{}\0{instance}\0{}", url.expose(), self.conversation);
        RouteDigest::of(ChannelKind::JsonGateway.as_str(), &address)
    }
}

#[async_trait]
impl Channel for JsonGateway {
    fn kind(&self) -> ChannelKind {
        ChannelKind::JsonGateway
    }

    fn limits(&self) -> &Limits {
        &JSON_GATEWAY
    }

    fn body(&self, message: Value, delivery_id: &str) -> Value {
        let mut body = json!({"conversationId": self.conversation, "client_msg_id": delivery_id});
        if let Some(instance) = &self.gateway.instance_guid {
            body["instance_guid"] = instance.as_str().into();
        }
        super::extend(&mut body, message);
        body
    }

    fn knows_repeats_for(&self) -> Option<Duration> {
        (self.on_unknown == OnUnknown::Retry).then_some(self.gateway.client_msg_id_window)
    }

    async fn send(&self, wire: &Wire, body: &Value) -> Reply {
        wire::post(&wire.client, self.gateway.url.expose(), body).await
    }
}
