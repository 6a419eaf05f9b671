//! The spans of one attempt: one in the trace of each delivery that its request carries, with what came of it.

use super::fate::Decision;
use super::trail::Sent;
use crate::model::{Delivery, Outcome};
use crate::store::ClaimedReply;
use crate::telemetry::{Span, SpanOf, Spans};
use crate::wecom::verdict::Verdict;

/// See the module. Of deliveries that are not traced, nothing.
#[derive(Default)]
pub(super) struct Attempt(Vec<Span>);

impl Attempt {
    /// Begins now.
    pub fn begin<'d>(spans: &Spans, head: &ClaimedReply, carried: impl Iterator<Item = &'d Delivery>) -> Self {
        let traced = carried.filter(|delivery| delivery.trace.is_some());
        let spans = traced.map(|delivery| {
            let mut span = spans.child(SpanOf::Deliver, delivery.trace);
            span.tell("request_id", &delivery.request_id);
            span.tell("app", &delivery.app);
            span.tell("chat_id", &delivery.chat_id);
            span.tell("delivery", &delivery.id);
            span.tell("task_id", delivery.push.as_ref().map(|push| &push.task_id));
            span.tell("attempt", i64::from(head.attempts) + 1);
            span
        });
        Self(spans.collect())
    }

    /// Ends with what came back, where a request was written, and what becomes of the deliveries.
    pub fn end(mut self, decision: &Decision, sent: Option<&Sent>) {
        let carried = self.0.len();
        for span in &mut self.0 {
            if let Some(sent) = sent {
                span.tell("channel", sent.channel.as_str());
                span.tell("verdict", sent.verdict.as_str());
                span.tell("errcode", sent.errcode());
                span.tell("carried", carried);
            }
            span.tell("state", decision.state.map_or("retried", Outcome::as_str));
            span.tell("reason", decision.reason);
            match sent {
                Some(Sent { verdict: Verdict::Delivered, .. }) => {}
                Some(sent) => span.failed(sent.verdict.as_str()),
                None => span.failed(decision.reason.unwrap_or_default()),
            }
        }
    }
}
