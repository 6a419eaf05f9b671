//! `appchat/send`: one message into a group that the app itself made (developer.work.weixin.qq.com/document/path/90248).
//!
//! WeCom knows no repeat here and gives no message id, so a request without an answer ends as `unknown`. A member gets at
//! most 200 a minute (what is above is dropped without a word) and 10,000 a day, and the corp 20,000 person-times a minute:
//! the first is kept here, the others are WeCom's to refuse (45009).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Channel, Wire, api};
use crate::config::settings::Api;
use crate::model::RouteDigest;
use crate::store::Pace;
use crate::wecom::message::{APP_CHAT, Limits};
use crate::wecom::verdict::{ChannelKind, Reply};

const MOST: Pace = Pace { limit: 200, window: Duration::from_secs(60) };

/// A group, reached by the app that made it.
#[derive(Clone, Debug)]
pub struct AppChat {
    api: Arc<Api>,
    chat: String,
}

impl AppChat {
    /// The way to `chat`.
    pub fn new(api: Arc<Api>, chat: &str) -> Self {
        Self { api, chat: chat.to_owned() }
    }

    /// Names it without telling it.
    pub fn digest(&self) -> RouteDigest {
        let Api { corp_id, agent_id, .. } = &*self.api;
        RouteDigest::of(ChannelKind::AppChat.as_str(), &format!("{corp_id}\0{agent_id}\0{}", self.chat))
    }
}

#[async_trait]
impl Channel for AppChat {
    fn kind(&self) -> ChannelKind {
        ChannelKind::AppChat
    }

    fn limits(&self) -> &Limits {
        &APP_CHAT
    }

    fn body(&self, message: Value, _delivery_id: &str) -> Value {
        let mut body = json!({"chatid": self.chat});
        super::extend(&mut body, message);
        body
    }

    fn most(&self) -> Option<Pace> {
        Some(MOST)
    }

    async fn send(&self, wire: &Wire, body: &Value) -> Reply {
        api::post(wire, &self.api, "appchat/send", body).await
    }
}
