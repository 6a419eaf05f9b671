//! The group robot (群机器人, 消息推送): one webhook a group, no idempotency key, no message id in its answer.
//!
//! Source: developer.work.weixin.qq.com/document/path/91770. `POST <webhook>` with the message as JSON; the answer is
//! HTTP 200 with `errcode` and `errmsg` also where it failed. Nothing tells afterwards whether a request without
//! an answer was taken, so such a one ends as `unknown`.

use async_trait::async_trait;
use serde_json::Value;

use super::{Channel, wire};
use crate::model::Secret;
use crate::wecom::message::{GROUP_ROBOT, Limits};
use crate::wecom::verdict::{ChannelKind, Reply};

/// A robot, known by its webhook.
#[derive(Clone, Debug)]
pub struct GroupRobot {
    webhook: Secret,
}

impl GroupRobot {
    /// `webhook` is the full URL, with its key.
    pub fn new(webhook: Secret) -> Self {
        Self { webhook }
    }
}

#[async_trait]
impl Channel for GroupRobot {
    fn kind(&self) -> ChannelKind {
        ChannelKind::GroupRobot
    }

    fn limits(&self) -> &Limits {
        &GROUP_ROBOT
    }

    async fn send(&self, client: &reqwest::Client, message: &Value) -> Reply {
        wire::post(client, self.webhook.expose(), message).await
    }
}
