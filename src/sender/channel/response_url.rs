//! A smart robot's (智能机器人) `response_url`: it comes with a message, takes one call within an hour, and quotes the message
//! in its group (developer.work.weixin.qq.com/document/path/101138).
//!
//! What always holds: all that is said in answer to one message is one call, as markdown, that WeCom may have taken. A call
//! without an answer is not repeated, for the address may be used up, and no answer to a repeat would tell which of the two
//! arrived. A front's 502 or 503 and WeCom's -1 say that nothing was taken: that is tried again, as on every channel. Even
//! where they were wrong nothing appears twice: an address that is used up refuses the repeat, and the reply ends as `dead`.

use async_trait::async_trait;
use serde_json::Value;
use url::Url;

use super::{Channel, Wire, masked, wire};
use crate::model::{RouteDigest, Secret};
use crate::wecom::message::{self, Limits, MessageError, RESPONSE_URL};
use crate::wecom::verdict::{ChannelKind, Reply};

/// A message's own answer address.
#[derive(Clone, Debug)]
pub struct ResponseUrl {
    url: Secret,
}

impl ResponseUrl {
    /// The way that came with a message.
    pub fn new(url: Secret) -> Self {
        Self { url }
    }

    /// Names it without telling it.
    pub fn digest(&self) -> RouteDigest {
        RouteDigest::of(ChannelKind::ResponseUrl.as_str(), self.url.expose())
    }
}

#[async_trait]
impl Channel for ResponseUrl {
    fn kind(&self) -> ChannelKind {
        ChannelKind::ResponseUrl
    }

    fn limits(&self) -> &Limits {
        &RESPONSE_URL
    }

    fn fit(&self, messages: &[Value]) -> Result<Vec<Value>, MessageError> {
        Ok(message::merge(messages)?.into_iter().collect())
    }

    async fn send(&self, wire: &Wire, body: &Value) -> Reply {
        let reply = wire::post(&wire.client, self.url.expose(), body).await;
        let Ok(url) = Url::parse(self.url.expose()) else { return reply };
        url.query_pairs().fold(reply, |reply, (_, value)| masked(reply, &value))
    }
}
