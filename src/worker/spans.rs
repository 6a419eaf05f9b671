//! What the spans of a message in work say.

use super::handle::Handled;
use crate::store::{ClaimedMessage, Committed};
use crate::telemetry::{Span, SpanOf, Spans};

/// Begins the span of a message that was claimed; that of its wait is over.
pub(super) fn handling(spans: &Spans, claimed: &ClaimedMessage) -> Span {
    let message = &claimed.message;
    drop(spans.waited(message.trace, message.received_at));
    let mut span = spans.child(SpanOf::Handle, message.trace);
    span.tell("request_id", &message.request_id);
    span.tell("app", &message.app);
    span.tell("chat_id", &message.chat_id);
    span.tell("msg_id", &message.msg_id);
    span.tell("redelivered", claimed.redelivered);
    span
}

/// What was decided.
pub(super) fn decided(span: &mut Span, handled: &Handled) {
    span.tell("rule", handled.rule.as_ref());
    span.tell("action", handled.action);
    span.tell("outcome", handled.outcome.as_str());
    span.tell("reason", handled.reason.as_ref());
    span.tell("replies", handled.commit.replies.len());
}

/// What came of the commit; `None`: the store did not answer.
pub(super) fn committed(mut span: Span, committed: Option<Committed>) {
    match committed {
        Some(Committed::Done) => span.tell("result", "done"),
        Some(Committed::LaneFull) => span.tell("result", "lane_full"),
        Some(Committed::Lost) => span.tell("result", "lost"),
        None => span.failed("not committed; it will be handled again"),
    }
}
