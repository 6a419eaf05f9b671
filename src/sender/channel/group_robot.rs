//! The group robot (群机器人, 消息推送): one webhook a group, no idempotency key, no message id in its answer.
//!
//! Source: developer.work.weixin.qq.com/document/path/91770. `POST <webhook>` with the message as JSON; the answer is
//! HTTP 200 with `errcode` and `errmsg` also where it failed. Nothing tells afterwards whether a request without
//! an answer was taken, so such a one ends as `unknown`.

use async_trait::async_trait;
use serde_json::Value;
use url::Url;

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

    /// An answer may quote what was asked; the key must not come into trails that way.
    fn masked(&self, reply: Reply) -> Reply {
        let Ok(url) = Url::parse(self.webhook.expose()) else { return reply };
        let key = url.query_pairs().find_map(|(name, key)| (name == "key" && !key.is_empty()).then_some(key));
        match (reply, key) {
            (Reply::Http { status, code: Some((errcode, errmsg)) }, Some(key)) => {
                Reply::Http { status, code: Some((errcode, errmsg.replace(key.as_ref(), "***"))) }
            }
            (reply, _) => reply,
        }
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
        self.masked(wire::post(client, self.webhook.expose(), message).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_quotes_the_key_is_masked() {
        let robot = GroupRobot::new(Secret::new("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k-e-y"));
        let answer = |errmsg: &str| Reply::Http { status: 200, code: Some((93000, errmsg.to_owned())) };
        assert_eq!(robot.masked(answer("invalid webhook url k-e-y")), answer("invalid webhook url ***"));
        assert_eq!(robot.masked(answer("ok")), answer("ok"));
    }
}
