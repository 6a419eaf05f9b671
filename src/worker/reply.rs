//! From an action's messages to deliveries: checked, cut to the channel's limits, numbered, tied to the message that
//! they answer. What stands here is the only place where a delivery is made, so none can exist for another chat.

use serde_json::{Value, json};

use crate::model::{Delivery, MessageKey, Outcome, content_digest};
use crate::sender::route::Route;
use crate::store::{Line, Stage};
use crate::wecom::message::{self, MessageError};

/// What a reply answers.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The message.
    pub key: MessageKey,
    /// Its request.
    pub request_id: String,
    /// When it was taken, Unix ms.
    pub received_at: i64,
    /// Its replies are not sent after this, Unix ms.
    pub expires_at: i64,
}

/// Replies on their way, or, without a route, what they would have been.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    /// For the out-lane; empty where the chat has no route.
    pub deliveries: Vec<Delivery>,
    /// `[{id, digest}]`, for the trail.
    pub summary: Value,
    /// What ended before it began: dropped for want of a route.
    pub lines: Vec<Line>,
}

impl Origin {
    /// Makes the replies. `prefix` is put between the request id and the number of each part.
    pub fn replies(&self, route: Option<&Route>, messages: &[Value], prefix: &str) -> Result<Replies, MessageError> {
        let limits = route.map_or(&message::GROUP_ROBOT, |route| route.limits());
        let mut parts = Vec::new();
        for message in messages {
            parts.extend(message::fit(message, limits)?);
        }
        let id = |n| format!("{}.{prefix}{n}", self.request_id);
        let summary = parts.iter().enumerate().map(|(n, part)| json!({"id": id(n), "digest": content_digest(part)}));
        let summary = Value::Array(summary.collect());
        let Some(route) = route else {
            let lines = (0..parts.len()).map(|n| self.dropped(&id(n), "route_missing")).collect();
            return Ok(Replies { deliveries: Vec::new(), summary, lines });
        };
        let [app, chat_id, ..] = self.key.parts();
        let deliveries = parts.into_iter().enumerate().map(|(n, part)| Delivery {
            id: id(n),
            request_id: self.request_id.clone(),
            key: self.key.clone(),
            app: app.clone(),
            chat_id: chat_id.clone(),
            message: part,
            route: route.digest.clone(),
            expires_at: self.expires_at,
            received_at: self.received_at,
        });
        Ok(Replies { deliveries: deliveries.collect(), summary, lines: Vec::new() })
    }

    /// The line of a delivery that we chose not to send.
    pub fn dropped(&self, delivery: &str, reason: &str) -> Line {
        let detail = json!({"delivery": delivery, "state": Outcome::Dropped.as_str(), "reason": reason});
        self.line(Stage::Settled, detail)
    }

    /// A line of this message's trail; `detail` is a JSON object.
    pub fn line(&self, stage: Stage, detail: Value) -> Line {
        let Value::Object(detail) = detail else { return self.line(stage, json!({"detail": detail})) };
        Line { stage, request_id: self.request_id.clone(), key: self.key.clone(), detail }
    }
}
