//! Several waiting replies as one message, while pace holds their chat back. Pure.
//!
//! What always holds: replies leave in their order, none passed over; only texts with texts and markdown with markdown, alike
//! in all but their content; none that calls somebody by a mention list, none that is to be repeated as it is, no push; nothing
//! over the channel's limit in bytes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::model::Delivery;
use crate::store::ClaimedReply;
use crate::wecom::message::Limits;

/// What one request carries.
#[derive(Debug, PartialEq)]
pub(super) struct Parcel<'a> {
    /// The message as it is written.
    pub message: Cow<'a, Value>,
    /// How many deliveries it says, from the head on.
    pub count: usize,
}

impl<'a> Parcel<'a> {
    /// The head by itself.
    pub fn single(delivery: &'a Delivery) -> Self {
        Self { message: Cow::Borrowed(&delivery.message), count: 1 }
    }

    /// The head and as many of those behind it as fit together. `now` is Unix ms: what is too old is not sent.
    pub fn of(head: &'a ClaimedReply, limits: &Limits, now: i64) -> Self {
        let first = &head.delivery;
        let single = Self::single(first);
        if first.repeat_until.is_some() || first.push.is_some() {
            return single;
        }
        let Some((kind, mut content)) = content(&first.message).map(|(kind, text)| (kind, text.to_owned())) else {
            return single;
        };
        let (limit, joint) = match kind {
            "text" => (limits.text, "\n"),
            "markdown" => (limits.markdown, "\n\n"),
            _ => (limits.markdown_v2, "\n\n"),
        };
        let mut count = 1;
        for next in &head.behind {
            let text = self::content(&next.message).filter(|_| may_join(first, next, now));
            let text = text.filter(|_| are_alike(&first.message, &next.message, kind)).map(|(_, text)| text);
            let Some(text) = text.filter(|text| content.len() + joint.len() + text.len() <= limit) else { break };
            content.push_str(joint);
            content.push_str(text);
            count += 1;
        }
        if count == 1 {
            return single;
        }
        let mut message = first.message.clone();
        message[kind]["content"] = content.into();
        Self { message: Cow::Owned(message), count }
    }
}

/// Whether a delivery goes the way of the first, now, and only once.
fn may_join(first: &Delivery, next: &Delivery, now: i64) -> bool {
    next.route == first.route && now <= next.expires_at && next.repeat_until.is_none() && next.push.is_none()
}

/// Kind and content of a message that may be carried together with others.
fn content(message: &Value) -> Option<(&str, &str)> {
    let kind = message.get("msgtype")?.as_str()?;
    let body = message.get(kind)?.as_object()?;
    let calls = ["mentioned_list", "mentioned_mobile_list"].iter().filter_map(|list| body.get(*list)?.as_array());
    let calls_nobody = calls.map(Vec::len).sum::<usize>() == 0;
    let is_mergeable = matches!(kind, "text" | "markdown" | "markdown_v2") && calls_nobody;
    is_mergeable.then_some(())?;
    Some((kind, body.get("content")?.as_str()?))
}

/// Whether two messages of one kind differ in their content alone.
fn are_alike(one: &Value, other: &Value, kind: &str) -> bool {
    let rest = |message: &Value| -> Option<(Map<String, Value>, Map<String, Value>)> {
        let mut outside = message.as_object()?.clone();
        let mut body = outside.remove(kind)?.as_object()?.clone();
        body.retain(|name, value| name != "content" && value.as_array().is_none_or(|list| !list.is_empty()));
        Some((outside, body))
    };
    rest(one) == rest(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{Lane, MessageKey, RouteDigest};
    use crate::store::Lease;
    use crate::wecom::message::{GROUP_ROBOT, text};

    fn delivery(message: Value) -> Delivery {
        Delivery {
            id: "r.0".into(),
            request_id: "r".into(),
            key: MessageKey::new("a", "c", "u", "m"),
            app: "a".into(),
            chat_id: "c".into(),
            reply_to: Default::default(),
            bound: false,
            repeat_until: None,
            push: None,
            message,
            route: RouteDigest::of("group_robot", "A"),
            expires_at: 1000,
            received_at: 0,
            queued_at: 0,
            trace: None,
        }
    }

    fn claimed(messages: Vec<Value>) -> ClaimedReply {
        let mut deliveries = messages.into_iter().map(delivery);
        ClaimedReply {
            lease: Lease { lane: Lane::of_chat("a", "c"), id: "l".into() },
            delivery: deliveries.next().unwrap(),
            attempts: 0,
            refusals: 0,
            failures: 0,
            begun: false,
            behind: deliveries.collect(),
        }
    }

    fn markdown(content: &str) -> Value {
        json!({"msgtype": "markdown", "markdown": {"content": content}})
    }

    fn calling(list: &str, whom: Value) -> Value {
        json!({"msgtype": "text", "text": {"content": "hi", list: whom}})
    }

    #[test]
    fn what_fits_together_leaves_together_in_order() {
        let full = "x".repeat(2047);
        let cases = [
            (vec![text("1"), text("2"), text("3")], 3, text("1\n2\n3")),
            (vec![markdown("a"), markdown("b")], 2, markdown("a\n\nb")),
            // Only up to what does not fit: nothing is passed over.
            (vec![text("1"), text("2"), markdown("a"), text("3")], 2, text("1\n2")),
            (vec![text("1"), json!({"msgtype": "image", "image": {}}), text("2")], 1, text("1")),
            (
                vec![json!({"msgtype": "news", "news": {"content": "x"}}), text("2")],
                1,
                json!({"msgtype": "news", "news": {"content": "x"}}),
            ),
            // In bytes, the joint included.
            (vec![text(&full), text("")], 2, text(&format!("{full}\n"))),
            (vec![text(&full), text("y")], 1, text(&full)),
            (vec![text(&"你".repeat(682)), text("好")], 1, text(&"你".repeat(682))),
            // Who is called by one is not called by the other.
            (vec![text("1"), calling("mentioned_list", json!(["u"])), text("2")], 1, text("1")),
            (
                vec![calling("mentioned_mobile_list", json!(["1"])), text("2")],
                1,
                calling("mentioned_mobile_list", json!(["1"])),
            ),
            (vec![text("1"), calling("mentioned_list", json!([]))], 2, text("1\nhi")),
            (vec![text("1"), json!({"msgtype": "text", "touser": "u", "text": {"content": "2"}})], 1, text("1")),
        ];
        for (messages, count, message) in cases {
            let head = claimed(messages.clone());
            let parcel = Parcel::of(&head, &GROUP_ROBOT, 1000);
            assert_eq!((parcel.count, parcel.message.as_ref()), (count, &message), "{messages:?}");
        }
    }

    #[test]
    fn neither_what_is_too_old_nor_what_went_by_another_route_joins() {
        let messages = || vec![text("1"), text("2"), text("3")];
        let mut head = claimed(messages());
        head.behind[1].expires_at = 999;
        assert_eq!(Parcel::of(&head, &GROUP_ROBOT, 1000).count, 2);
        let mut head = claimed(messages());
        head.behind[0].route = RouteDigest::of("group_robot", "B");
        assert_eq!(Parcel::of(&head, &GROUP_ROBOT, 1000).count, 1);
    }
}
