//! Channels: the ways by which a chat can be reached, one file each.
//!
//! A channel is bound to one address and knows nothing of lanes, leases or retries: it writes one request, once,
//! and tells honestly what came back. What that means is for [`crate::wecom::verdict`] to say.

mod group_robot;
mod wire;

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

use crate::wecom::message::Limits;
use crate::wecom::verdict::{ChannelKind, Reply};
pub use group_robot::GroupRobot;
pub use wire::http_client;

/// A way to one chat. `Debug` must not tell the address: it may hold a key.
#[async_trait]
pub trait Channel: fmt::Debug + Send + Sync {
    /// Which of the channels it is: verdicts differ by it.
    fn kind(&self) -> ChannelKind;

    /// What one message may hold here, in bytes.
    fn limits(&self) -> &Limits;

    /// Writes `message` once. The answer tells apart what certainly was not written from what may have been; no
    /// text in it holds the address.
    async fn send(&self, client: &reqwest::Client, message: &Value) -> Reply;
}
