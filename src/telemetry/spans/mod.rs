//! Spans: where the time of one message went, from its callback to its last delivery, over all processes that it met.
//!
//! A trace begins with a callback or a task and is carried in what is stored of it ([`TraceContext`]): whoever works on that later
//! goes on with it. What was not sampled at its beginning carries nothing, and costs nothing further on.
//!
//! Off (`[telemetry] otlp` not set), nothing here allocates, and there is no queue and no exporter. On, a span that ends goes into a
//! bounded queue or is counted as dropped: nothing waits for [`Exporter`].
//!
//! Spans say what log lines say, but never what members or bots said; phone numbers are masked.

mod export;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::HeaderMap;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
    Tracer,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::SdkTracer;

use super::Metrics;
use crate::config::settings::Tracing;
use crate::mask;
use crate::trace_context::{TRACEPARENT, TraceContext};
pub use export::Exporter;

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOf {
    /// A callback, from its arrival to its answer.
    Callback,
    /// A push task at the desk: by HTTP, or read from Kafka.
    Push,
    /// A late answer at the door.
    Answer,
    /// The time that a message, or a delivery, waited in its lane.
    Queue,
    /// A message in work: rules, action, commit.
    Handle,
    /// The action.
    Action,
    /// The step that makes it true.
    Commit,
    /// One attempt to send a delivery, or its end without one.
    Deliver,
}

impl SpanOf {
    /// The span's name.
    fn name(self) -> &'static str {
        match self {
            Self::Callback => "callback",
            Self::Push => "push",
            Self::Answer => "answer",
            Self::Queue => "queue",
            Self::Handle => "handle",
            Self::Action => "action",
            Self::Commit => "commit",
            Self::Deliver => "deliver",
        }
    }

    fn kind(self) -> SpanKind {
        match self {
            Self::Callback | Self::Push | Self::Answer => SpanKind::Server,
            Self::Handle => SpanKind::Consumer,
            Self::Action | Self::Deliver => SpanKind::Client,
            Self::Queue | Self::Commit => SpanKind::Internal,
        }
    }
}

/// Makes spans, or nothing. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Spans(Option<SdkTracer>);

impl Spans {
    /// With the end at which they leave the process; nothing where the configuration names no collector.
    pub fn new(
        tracing: Option<&Tracing>,
        client: &reqwest::Client,
        metrics: &Arc<Metrics>,
    ) -> (Self, Option<Exporter>) {
        let Some(tracing) = tracing else { return (Self::default(), None) };
        let (tracer, exporter) = export::open(tracing, client.clone(), metrics.clone());
        (Self(Some(tracer)), Some(exporter))
    }

    /// Whether there are any.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a trace, `ago` before now; or goes on with one that came with the request, and is not sampled if that is not.
    pub fn root(&self, of: SpanOf, parent: Option<TraceContext>, ago: Duration) -> Span {
        let Some(tracer) = &self.0 else { return Span::default() };
        let began = SystemTime::now().checked_sub(ago).unwrap_or_else(SystemTime::now);
        Span::begin(tracer, of, parent, began)
    }

    /// A span below what `after` names; none where that is not traced.
    pub fn child(&self, of: SpanOf, after: Option<TraceContext>) -> Span {
        match (&self.0, after) {
            (Some(tracer), Some(after)) => Span::begin(tracer, of, Some(after), SystemTime::now()),
            (None, _) | (_, None) => Span::default(),
        }
    }

    /// The span of a wait that began at `since`, Unix ms, and is over now.
    pub fn waited(&self, after: Option<TraceContext>, since: i64) -> Span {
        match (&self.0, after, u64::try_from(since)) {
            (Some(tracer), Some(after), Ok(since)) => {
                let now = SystemTime::now();
                // Clocks of several machines may differ a little: nothing waits for less than nothing.
                let began = (SystemTime::UNIX_EPOCH + Duration::from_millis(since)).min(now);
                Span::begin(tracer, SpanOf::Queue, Some(after), began)
            }
            _ => Span::default(),
        }
    }
}

/// A span under way, or nothing. It ends where it is dropped.
#[derive(Debug, Default)]
pub struct Span(Option<Box<opentelemetry_sdk::trace::Span>>);

impl Span {
    fn begin(tracer: &SdkTracer, of: SpanOf, parent: Option<TraceContext>, began: SystemTime) -> Self {
        let builder = SpanBuilder::from_name(of.name()).with_kind(of.kind()).with_start_time(began);
        let parent = parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(remote(parent)));
        let span = tracer.build_with_context(builder, &parent);
        Self(span.is_recording().then(|| Box::new(span)))
    }

    /// What is stored, or sent along, for whoever goes on from here.
    pub fn context(&self) -> Option<TraceContext> {
        let context = self.0.as_ref()?.span_context();
        let (trace, span) = (u128::from_be_bytes(context.trace_id().to_bytes()), context.span_id().to_bytes());
        Some(TraceContext { trace, span: u64::from_be_bytes(span), sampled: context.is_sampled() })
    }

    /// Says something of it; a text with its phone numbers masked.
    pub fn tell<'t>(&mut self, name: &'static str, told: impl Into<Told<'t>>) {
        let Some(span) = &mut self.0 else { return };
        let value: Value = match told.into() {
            Told::Text(text) => mask::phones_in(text).into_owned().into(),
            Told::Number(number) => number.into(),
            Told::Flag(flag) => flag.into(),
            Told::Nothing => return,
        };
        span.set_attribute(KeyValue::new(name, value));
    }

    /// It did not do what it was to do; `why` as for a log line.
    pub fn failed(&mut self, why: &str) {
        if let Some(span) = &mut self.0 {
            span.set_status(Status::Error { description: Cow::Owned(mask::phones_in(why).into_owned()) });
        }
    }
}

/// Something that a span says.
#[derive(Clone, Copy, Debug)]
pub enum Told<'t> {
    /// A text.
    Text(&'t str),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// Not this time.
    Nothing,
}

impl<'t> From<&'t str> for Told<'t> {
    fn from(text: &'t str) -> Self {
        Self::Text(text)
    }
}

impl<'t> From<&'t String> for Told<'t> {
    fn from(text: &'t String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Told<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Told<'_> {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Told<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl<'t, T: Into<Told<'t>>> From<Option<T>> for Told<'t> {
    fn from(told: Option<T>) -> Self {
        told.map_or(Self::Nothing, Into::into)
    }
}

/// What a request says of its trace, if that is well-formed.
pub fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    headers.get(TRACEPARENT)?.to_str().ok()?.parse().ok()
}

fn remote(context: TraceContext) -> SpanContext {
    let flags = if context.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let (trace, span) = (TraceId::from(context.trace), SpanId::from(context.span));
    SpanContext::new(trace, span, flags, true, TraceState::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: TraceContext = TraceContext { trace: 7, span: 8, sampled: true };

    #[test]
    fn off_there_are_no_spans_and_nothing_to_store() {
        let spans = Spans::new(None, &reqwest::Client::new(), &Arc::default()).0;
        for span in
            [spans.root(SpanOf::Callback, Some(PARENT), Duration::ZERO), spans.child(SpanOf::Handle, Some(PARENT))]
        {
            assert!(span.0.is_none() && span.context().is_none());
        }
        assert!(spans.waited(Some(PARENT), 1).0.is_none());
    }
}
