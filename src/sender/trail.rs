//! What is said of a delivery afterwards: its journal line, its chat's last error, its log lines.
//!
//! Contents are told by digest, in logs as `[log] content` says; what did not end well is kept to be sent again by hand, and never
//! shown. What WeCom and the network said comes cleaned from [`crate::wecom::verdict`] and [`super::channel`].

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Map, Value};
use tracing::{error, info, warn};

use crate::model::{Delivery, Outcome, ReplyTo, content_digest, first_id, millis, since};
use crate::sender::fate::Decision;
use crate::store::{CONTENT, ChildChange, Line, Stage};
use crate::task::{AWAITING_MEMBER, PushState, RecipientState, Who};
use crate::wecom::verdict::{ChannelKind, Receipt, Reply, Verdict, address_mend};

/// A larger delivery is not kept for an operator to send again, in bytes of JSON: the journal is no file store.
const MOST_KEPT: usize = 32 * 1024;

/// Why a recipient gets nothing of what WeCom took for the others.
const LEFT_OUT: &str = "left_out";

/// One request and what came of it.
#[derive(Debug)]
pub(super) struct Sent {
    /// By which channel.
    pub channel: ChannelKind,
    /// What came back.
    pub reply: Reply,
    /// What it means.
    pub verdict: Verdict,
    /// From before the request to its answer.
    pub elapsed: Duration,
}

impl Sent {
    /// `errcode`, where WeCom gave one.
    pub fn errcode(&self) -> Option<i64> {
        match &self.reply {
            Reply::Http { code: Some((errcode, _)), .. } => Some(*errcode),
            Reply::Taken(_) => Some(0),
            Reply::Http { code: None, .. } | Reply::NotTried(_) | Reply::NotWritten(_) | Reply::NoAnswer(_) => None,
        }
    }

    /// What came back, in words for an operator.
    pub fn in_words(&self) -> String {
        match &self.reply {
            Reply::NotTried(why) => format!("not tried: {why}"),
            Reply::NotWritten(why) => format!("not sent: {why}"),
            Reply::NoAnswer(why) => format!("no answer: {why}"),
            Reply::Taken(Receipt { left_out: Some(who), .. }) => format!("errcode 0, but left out: {who}"),
            Reply::Taken(Receipt { left_out: None, .. }) => "errcode 0".to_owned(),
            Reply::Http { code: Some((errcode, errmsg)), .. } => {
                let mend = address_mend(*errcode).map(|mend| format!("; {mend}"));
                format!("errcode {errcode}: {errmsg}{}", mend.unwrap_or_default())
            }
            Reply::Http { status, code: None } => format!("HTTP {status} without an errcode"),
        }
    }
}

/// The journal lines of settled (or retried) deliveries, one each; those that left as one message name its first.
pub(super) fn lines(deliveries: &[&Delivery], decision: &Decision, sent: Option<&Sent>) -> Vec<Line> {
    let mut lines: Vec<Line> = deliveries.iter().map(|delivery| line(delivery, decision, sent)).collect();
    if let [first, _, ..] = deliveries {
        for line in &mut lines {
            line.detail.insert("merged".to_owned(), deliveries.len().into());
            line.detail.insert("first".to_owned(), first.id.as_str().into());
        }
    }
    lines
}

/// What changes of a push's child with this decision.
pub(super) fn child(delivery: &Delivery, decision: &Decision, sent: Option<&Sent>) -> Option<ChildChange> {
    let receipt = sent.and_then(|sent| match &sent.reply {
        Reply::Taken(receipt) => Some(receipt.clone()),
        Reply::Http { .. } | Reply::NotTried(_) | Reply::NotWritten(_) | Reply::NoAnswer(_) => None,
    });
    let Receipt { msgid, left_out, failed } = receipt.unwrap_or_default();
    let awaits_member = decision.reason == Some(AWAITING_MEMBER);
    let state = PushState {
        state: decision.state.unwrap_or(Outcome::Queued),
        reason: decision.reason.map(str::to_owned),
        errcode: sent.and_then(Sent::errcode),
        msgid,
        left_out,
        sent_as: (first_id(&delivery.id) != delivery.id).then(|| delivery.id.clone()),
        is_repeat: delivery.is_repeat(),
        recipients: if awaits_member { recipients(delivery, &failed) } else { Vec::new() },
    };
    ChildChange::of(delivery, state)
}

/// Those of whom WeCom will tell, and those whom it left out at once.
fn recipients(delivery: &Delivery, failed: &[String]) -> Vec<RecipientState> {
    let failed: HashSet<&str> = failed.iter().map(String::as_str).collect();
    let state = |who: Who| {
        let (Who::Customer(id) | Who::Chat(id)) = &who;
        match failed.contains(id.as_str()) {
            true => RecipientState { state: Outcome::Dead, reason: Some(LEFT_OUT.into()), who, at: None },
            false => RecipientState::queued(who),
        }
    };
    delivery.push.iter().flat_map(|push| push.to.told_later()).map(state).collect()
}

fn line(delivery: &Delivery, decision: &Decision, sent: Option<&Sent>) -> Line {
    let mut detail = Map::new();
    let mut put = |key: &str, value: Value| detail.insert(key.to_owned(), value);
    put("delivery", delivery.id.as_str().into());
    if let Some(state) = decision.state {
        put("state", state.as_str().into());
    }
    if let Some(reason) = decision.reason {
        put("reason", reason.into());
    }
    if decision.state.is_some_and(|state| state != Outcome::Delivered) {
        match kept(delivery) {
            Ok(content) => put(CONTENT, content),
            Err(why) => put("not_kept", why.into()),
        };
    }
    put("digest", content_digest(&delivery.message).into());
    if let Some(sent) = sent {
        put("channel", sent.channel.as_str().into());
        match &sent.reply {
            Reply::Http { code: Some((errcode, errmsg)), .. } => {
                put("errcode", (*errcode).into());
                put("errmsg", errmsg.as_str().into());
            }
            Reply::Taken(Receipt { msgid, left_out, .. }) => {
                put("errcode", 0.into());
                for (name, told) in [("msgid", msgid), ("left_out", left_out)] {
                    told.iter().for_each(|told| drop(put(name, told.as_str().into())));
                }
            }
            Reply::Http { status, code: None } => {
                put("status", (*status).into());
            }
            Reply::NotTried(why) | Reply::NotWritten(why) | Reply::NoAnswer(why) => {
                put("error", why.as_str().into());
            }
        }
        put("elapsed_ms", millis(sent.elapsed).into());
    }
    put("latency_ms", millis(since(delivery.received_at)).into());
    let stage = if decision.state.is_some() { Stage::Settled } else { Stage::Retried };
    Line { stage, request_id: delivery.request_id.clone(), key: delivery.key.clone(), detail }
}

/// The delivery as it is kept for an operator to send again, or why it isn't. A `response_url` is a secret, which no record
/// holds; what was made for it alone can't be sent otherwise.
fn kept(delivery: &Delivery) -> Result<Value, &'static str> {
    if delivery.bound && delivery.reply_to.response_url.is_some() {
        return Err("single_use");
    }
    let reply_to = ReplyTo { response_url: None, ..delivery.reply_to.clone() };
    let content = serde_json::to_value(Delivery { reply_to, ..delivery.clone() }).map_err(|_| "unreadable")?;
    if content.to_string().len() > MOST_KEPT { Err("too_large") } else { Ok(content) }
}

/// What is shown as the chat's last error. What a dead chat drops leaves the error that killed it; that a member has to
/// confirm something is none.
pub(super) fn last_error(decision: &Decision, sent: Option<&Sent>) -> Option<String> {
    let reason = decision.reason.filter(|reason| !["chat_dead", AWAITING_MEMBER].contains(reason))?;
    Some(sent.map_or_else(|| reason.to_owned(), Sent::in_words))
}

/// Logs what came of the request that carried a delivery; `merged` left as one, as `content` tells.
pub(super) fn log_sent(delivery: &Delivery, merged: usize, content: Option<&str>, sent: &Sent) {
    let [app, chat_id, sender_key, msg_id] = delivery.key.parts();
    info!(
        request_id = delivery.request_id,
        app,
        chat_id,
        sender_key,
        msg_id,
        delivery = delivery.id,
        merged,
        content,
        channel = sent.channel.as_str(),
        verdict = sent.verdict.as_str(),
        errcode = sent.errcode(),
        answer = sent.in_words(),
        elapsed_ms = millis(sent.elapsed),
        "{}",
        if sent.verdict == Verdict::Transient { "not sent" } else { "sent" }
    );
}

/// Logs that a delivery was left as it stands.
pub(super) fn log_unfinished(delivery: &Delivery) {
    let [app, chat_id, sender_key, msg_id] = delivery.key.parts();
    warn!(
        request_id = delivery.request_id,
        app,
        chat_id,
        sender_key,
        msg_id,
        delivery = delivery.id,
        "not finished before the stop (server.drain); if its request was written, it ends as unknown"
    );
}

/// Logs how a delivery goes on where it was not simply delivered; what somebody has to know is an error.
pub(super) fn log_decision(delivery: &Delivery, decision: &Decision) {
    let Some(reason) = decision.reason else { return };
    let state = decision.state.map_or("retried", Outcome::as_str);
    let [app, chat_id, sender_key, msg_id] = delivery.key.parts();
    let (request_id, id) = (&delivery.request_id, &delivery.id);
    if reason == AWAITING_MEMBER {
        info!(
            request_id,
            app,
            chat_id,
            sender_key,
            msg_id,
            delivery = id,
            state,
            reason,
            "taken; a member has to send it"
        );
    } else if decision.state.is_none() {
        let what = "not sent yet, it will be tried again";
        warn!(request_id, app, chat_id, sender_key, msg_id, delivery = id, state, reason, "{what}");
    } else if decision.alarm.is_some() {
        error!(request_id, app, chat_id, sender_key, msg_id, delivery = id, state, reason, "alarm: not delivered");
    } else {
        let partly = decision.state == Some(Outcome::Delivered);
        let what = if partly { "delivered, but not to all" } else { "not delivered" };
        warn!(request_id, app, chat_id, sender_key, msg_id, delivery = id, state, reason, "{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_end_well_is_kept_within_bounds() {
        let mut delivery = Delivery {
            id: "r.0".into(),
            request_id: "r".into(),
            key: crate::model::MessageKey::new("a", "c", "u", "m"),
            app: "a".into(),
            chat_id: "c".into(),
            reply_to: Default::default(),
            bound: false,
            repeat_until: None,
            push: None,
            message: crate::wecom::message::text("hi"),
            route: crate::model::RouteDigest::of("group_robot", "A"),
            expires_at: 1,
            received_at: 2,
            queued_at: 0,
            trace: None,
        };
        let told = |delivery: &Delivery, decision: &Decision| lines(&[delivery], decision, None).remove(0).detail;
        let dropped = told(&delivery, &Decision::too_old());
        let kept: Delivery = serde_json::from_value(dropped[CONTENT].clone()).expect("the delivery");
        assert_eq!(kept, delivery);
        // The message's own address is a secret, and goes no further.
        delivery.reply_to.response_url = Some(crate::model::Secret::new("https://host/s3cret"));
        let dropped = told(&delivery, &Decision::too_old());
        assert!(dropped.contains_key(CONTENT) && !format!("{dropped:?}").contains("s3cret"), "{dropped:?}");
        delivery.bound = true;
        let dropped = told(&delivery, &Decision::too_old());
        assert_eq!((dropped.get(CONTENT), dropped["not_kept"].as_str()), (None, Some("single_use")));
        delivery.reply_to.response_url = None;
        delivery.message = crate::wecom::message::text(&"x".repeat(MOST_KEPT));
        let dropped = told(&delivery, &Decision::too_old());
        assert_eq!((dropped.get(CONTENT), dropped["not_kept"].as_str()), (None, Some("too_large")));
    }

    #[test]
    fn answers_are_told_in_words() {
        let told = |reply| {
            Sent { channel: ChannelKind::GroupRobot, reply, verdict: Verdict::Unknown, elapsed: Duration::ZERO }
                .in_words()
        };
        let code = Some((93000, "invalid webhook url".to_owned()));
        assert_eq!(told(Reply::Http { status: 200, code }), "errcode 93000: invalid webhook url");
        assert_eq!(told(Reply::Http { status: 502, code: None }), "HTTP 502 without an errcode");
        assert_eq!(told(Reply::NotWritten("refused".into())), "not sent: refused");
        assert_eq!(told(Reply::NoAnswer("timed out".into())), "no answer: timed out");
    }
}
