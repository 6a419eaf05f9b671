//! From an action's messages to deliveries: checked, cut to the channel's limits, written as the channel's requests, numbered,
//! tied to the message that they answer. What stands here is the only place where a reply is made, so none can exist for another chat.

use serde_json::{Value, json};
use tracing::error;

use crate::model::{Delivery, MessageKey, Outcome, ReplyTo, content_digest, millis, now_ms};
use crate::sender::route::{Destination, NoRoute, Route};
use crate::store::{Line, Stage};
use crate::trace_context::TraceContext;
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
    /// How it can be answered.
    pub reply_to: ReplyTo,
    /// The span that its deliveries come after.
    pub trace: Option<TraceContext>,
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
    /// What its replies are sent to.
    pub fn destination(&self) -> Destination<'_> {
        Destination { key: &self.key, reply_to: &self.reply_to, received_at: self.received_at }
    }

    /// Makes the replies. `prefix` is put between the request id and the number of each part.
    ///
    /// # Errors
    /// [`MessageError`] of the first message that the channel does not take.
    pub fn replies(
        &self,
        route: Result<&Route, NoRoute>,
        messages: &[Value],
        prefix: &str,
    ) -> Result<Replies, MessageError> {
        let id = |n| format!("{}.{prefix}{n}", self.request_id);
        let bodies: Vec<Value> = match route {
            Ok(Route { channel, .. }) => {
                let parts = channel.fit(messages)?.into_iter().enumerate();
                parts.map(|(n, part)| channel.body(part, &id(n))).collect()
            }
            Err(_) => message::fit_all(messages, &message::GROUP_ROBOT)?,
        };
        let summary = bodies.iter().enumerate().map(|(n, body)| json!({"id": id(n), "digest": content_digest(body)}));
        let summary = Value::Array(summary.collect());
        let deliveries = bodies.into_iter().enumerate();
        Ok(match route {
            Ok(route) => {
                let deliveries = deliveries.map(|(n, body)| self.delivery(id(n), body, route)).collect();
                Replies { deliveries, summary, lines: Vec::new() }
            }
            Err(why) => {
                let lines = deliveries.map(|(n, _)| self.dropped(&id(n), why.as_str())).collect();
                Replies { deliveries: Vec::new(), summary, lines }
            }
        })
    }

    fn delivery(&self, id: String, body: Value, route: &Route) -> Delivery {
        let [app, chat_id, ..] = self.key.parts();
        let known_for = route.channel.knows_repeats_for();
        Delivery {
            id,
            request_id: self.request_id.clone(),
            key: self.key.clone(),
            app,
            chat_id,
            reply_to: self.reply_to.clone(),
            push: None,
            message: body,
            route: route.digest.clone(),
            bound: route.channel.is_bound(),
            // Counted from before the first attempt: always within what the far side remembers.
            repeat_until: known_for.map(|span| self.received_at.saturating_add(millis(span))),
            expires_at: self.expires_at,
            received_at: self.received_at,
            queued_at: now_ms(),
            trace: self.trace,
        }
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

    /// Says of each reply that ended before it began that nobody will get it; `lines` are the trail's.
    pub fn log_dropped(&self, lines: &[Line], why: NoRoute) {
        let (request_id, [app, chat_id, sender_key, msg_id]) = (&self.request_id, self.key.parts());
        for delivery in lines.iter().map(|line| line.detail["delivery"].as_str()) {
            let (state, reason) = (Outcome::Dropped.as_str(), why.as_str());
            let what = "alarm: the reply was dropped, it has no way out";
            error!(request_id, app, chat_id, sender_key, msg_id, delivery, state, reason, "{what}");
        }
    }
}
