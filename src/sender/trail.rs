//! What is said of a delivery afterwards: its journal line, its chat's last error, its log lines.
//!
//! Contents are told by digest only; what WeCom and the network said comes cleaned from [`crate::wecom::verdict`] and
//! [`super::channel`].

use std::time::Duration;

use serde_json::{Map, Value};
use tracing::{error, info, warn};

use crate::model::{Delivery, Outcome, content_digest, now_ms};
use crate::sender::fate::Decision;
use crate::store::{Line, Stage};
use crate::wecom::verdict::{ChannelKind, Reply, Verdict};

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
            Reply::Partly(_) => Some(0),
            Reply::Http { code: None, .. } | Reply::NotTried(_) | Reply::NotWritten(_) | Reply::NoAnswer(_) => None,
        }
    }

    /// What came back, in words for an operator.
    pub fn in_words(&self) -> String {
        match &self.reply {
            Reply::NotTried(why) => format!("not tried: {why}"),
            Reply::NotWritten(why) => format!("not sent: {why}"),
            Reply::NoAnswer(why) => format!("no answer: {why}"),
            Reply::Partly(who) => format!("errcode 0, but left out: {who}"),
            Reply::Http { code: Some((errcode, errmsg)), .. } => format!("errcode {errcode}: {errmsg}"),
            Reply::Http { status, code: None } => format!("HTTP {status} without an errcode"),
        }
    }
}

/// The journal line of a settled (or retried) delivery.
pub(super) fn line(delivery: &Delivery, decision: &Decision, sent: Option<&Sent>) -> Line {
    let mut detail = Map::new();
    let mut put = |key: &str, value: Value| detail.insert(key.to_owned(), value);
    put("delivery", delivery.id.as_str().into());
    if let Some(state) = decision.state {
        put("state", state.as_str().into());
    }
    if let Some(reason) = decision.reason {
        put("reason", reason.into());
    }
    put("digest", content_digest(&delivery.message).into());
    if let Some(sent) = sent {
        put("channel", sent.channel.as_str().into());
        match &sent.reply {
            Reply::Http { code: Some((errcode, errmsg)), .. } => {
                put("errcode", (*errcode).into());
                put("errmsg", errmsg.as_str().into());
            }
            Reply::Partly(who) => {
                put("errcode", 0.into());
                put("errmsg", who.as_str().into());
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
    put("latency_ms", now_ms().saturating_sub(delivery.received_at).max(0).into());
    let stage = if decision.state.is_some() { Stage::Settled } else { Stage::Retried };
    Line { stage, request_id: delivery.request_id.clone(), key: delivery.key.clone(), detail }
}

/// What is shown as the chat's last error. What a dead chat drops leaves the error that killed it.
pub(super) fn last_error(decision: &Decision, sent: Option<&Sent>) -> Option<String> {
    let reason = decision.reason.filter(|reason| *reason != "chat_dead")?;
    Some(sent.map_or_else(|| reason.to_owned(), Sent::in_words))
}

/// Logs a request and what came of it.
pub(super) fn log_sent(delivery: &Delivery, sent: &Sent) {
    let [app, chat_id, sender_key, msg_id] = delivery.key.parts();
    info!(
        request_id = delivery.request_id,
        app,
        chat_id,
        sender_key,
        msg_id,
        delivery = delivery.id,
        channel = sent.channel.as_str(),
        verdict = sent.verdict.as_str(),
        errcode = sent.errcode(),
        answer = sent.in_words(),
        elapsed_ms = millis(sent.elapsed),
        "sent"
    );
}

/// Logs how a delivery goes on where it was not simply delivered; what somebody has to know is an error.
pub(super) fn log_decision(delivery: &Delivery, decision: &Decision) {
    let Some(reason) = decision.reason else { return };
    let state = decision.state.map_or("retried", Outcome::as_str);
    let [app, chat_id, sender_key, msg_id] = delivery.key.parts();
    let (request_id, id) = (&delivery.request_id, &delivery.id);
    if decision.alarm {
        error!(request_id, app, chat_id, sender_key, msg_id, delivery = id, state, reason, "alarm: not delivered");
    } else {
        warn!(request_id, app, chat_id, sender_key, msg_id, delivery = id, state, reason, "not delivered");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

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
