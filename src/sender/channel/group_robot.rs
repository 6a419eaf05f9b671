//! The group robot (群机器人, 消息推送): one webhook a group, no idempotency key, no message id in its answer.
//!
//! Source: developer.work.weixin.qq.com/document/path/91770. `POST <webhook>` with the message as JSON; the answer is
//! HTTP 200 with `errcode` and `errmsg` also where it failed. Nothing tells afterwards whether a request without
//! an answer was taken, so such a one ends as `unknown`. Files and voices are uploaded first ([`super::media`]).

use async_trait::async_trait;
use serde_json::Value;
use url::Url;

use super::{Channel, Wire, masked, media, wire};
use crate::model::Secret;
use crate::wecom::message::{GROUP_ROBOT, Limits};
use crate::wecom::verdict::{ChannelKind, Reply};

/// A media id that the robot does not know, or not any more.
const BAD_MEDIA_ID: i64 = 40007;

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

    /// Posts a message that needs no upload.
    pub async fn post(&self, client: &reqwest::Client, message: &Value) -> Reply {
        self.masked(wire::post(client, self.webhook.expose(), message).await)
    }

    fn masked(&self, reply: Reply) -> Reply {
        let Ok(url) = Url::parse(self.webhook.expose()) else { return reply };
        match url.query_pairs().find(|(name, _)| name == "key") {
            Some((_, key)) => masked(reply, &key),
            None => reply,
        }
    }

    async fn send_upload(&self, wire: &Wire, upload: &media::Upload) -> Reply {
        let mut is_fresh = false;
        loop {
            let media_id = match media::id(wire, &self.webhook, upload, is_fresh).await {
                Ok(media_id) => media_id,
                Err(reply) => return self.masked(reply),
            };
            let reply = self.post(&wire.client, &upload.message(&media_id)).await;
            let is_bad = matches!(reply, Reply::Http { code: Some((BAD_MEDIA_ID, _)), .. });
            if !is_bad || is_fresh {
                return reply;
            }
            is_fresh = true;
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

    fn is_bound(&self) -> bool {
        false
    }

    async fn send(&self, wire: &Wire, body: &Value) -> Reply {
        match media::Upload::of(body) {
            Some(upload) => self.send_upload(wire, &upload).await,
            None => self.post(&wire.client, body).await,
        }
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
