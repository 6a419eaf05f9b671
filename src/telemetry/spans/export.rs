//! Spans on their way to a collector: a bounded queue, and the loop that posts what is in it, as OTLP over HTTP (protobuf,
//! opentelemetry.io/docs/specs/otlp).
//!
//! What a collector that is away, or slow, can't take is dropped and counted; an outage is told once. What is left at a stop goes out
//! last, as far as the collector takes it in time.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanProcessor};
use prost::Message;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::settings::Tracing;
use crate::model::Secret;
use crate::telemetry::Metrics;

/// As collectors know this gateway; processes differ in `service.instance.id`.
const SERVICE: &str = "wecom-gateway";
/// Ended spans that wait, at most: some megabytes.
const WAITING: usize = 8_192;
/// Spans of one request, at most.
const BATCH: usize = 512;
/// How long a span waits for others to go with it.
const LINGER: Duration = Duration::from_secs(1);
/// How long one request may take; at a stop there is less time.
const TIMEOUT: Duration = Duration::from_secs(10);
const LAST_TIMEOUT: Duration = Duration::from_secs(1);
/// Before what failed is tried again: doubled each time, up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A tracer whose spans go into the exporter's queue.
pub(super) fn open(tracing: &Tracing, client: reqwest::Client, metrics: Arc<Metrics>) -> (SdkTracer, Exporter) {
    let (queue, queued) = mpsc::channel(WAITING);
    // Empty: what is configured stands in the files alone, not in variables of the environment.
    let resource = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", SERVICE),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", uuid::Uuid::now_v7().to_string()),
        ])
        .build();
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(tracing.sample)));
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_span_processor(Queue { queue, metrics: metrics.clone() })
        .build();
    let exporter = Exporter {
        endpoint: Secret::new(format!("{}/v1/traces", tracing.otlp.expose())),
        resource: ResourceAttributesWithSchema::from(&resource),
        queued: Mutex::new(queued),
        client,
        metrics,
    };
    (provider.tracer(SERVICE), exporter)
}

/// Where ended spans wait.
#[derive(Debug)]
struct Queue {
    queue: mpsc::Sender<SpanData>,
    metrics: Arc<Metrics>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.queue.try_send(span).is_err() {
            self.metrics.spans("dropped", 1);
        }
    }

    /// The exporter's loop does that, at a stop.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Why spans were not taken.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("no answer: {0}")]
    NoAnswer(String),
    #[error("HTTP {0}")]
    Status(StatusCode),
}

impl ExportError {
    /// Whether the same request may be taken later (opentelemetry.io/docs/specs/otlp, "Retryable Response Codes").
    fn is_transient(&self) -> bool {
        match self {
            Self::NoAnswer(_) => true,
            Self::Status(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Exporter {
    /// May hold a password.
    endpoint: Secret,
    resource: ResourceAttributesWithSchema,
    queued: Mutex<mpsc::Receiver<SpanData>>,
    client: reqwest::Client,
    metrics: Arc<Metrics>,
}

impl Exporter {
    /// Posts what ends, until `stop`; then what is left.
    pub async fn run(&self, stop: CancellationToken) {
        let mut queued = self.queued.lock().await;
        let mut outage = Outage::default();
        let mut batch = Vec::new();
        while !stop.is_cancelled() {
            if batch.is_empty() {
                stop.run_until_cancelled(gather(&mut queued, &mut batch)).await;
            }
            // A stop in the middle of it repeats the batch, which collectors know by the ids of its spans.
            let exported = stop.run_until_cancelled(self.export(&mut batch, &mut outage, TIMEOUT)).await;
            if let Some(Some(pause)) = exported {
                stop.run_until_cancelled(sleep(pause)).await;
            }
        }
        loop {
            while batch.len() < BATCH
                && let Ok(span) = queued.try_recv()
            {
                batch.push(span);
            }
            // One that is not taken now is not tried again: there is no time for it.
            if batch.is_empty() || self.export(&mut batch, &mut outage, LAST_TIMEOUT).await.is_some() {
                break;
            }
        }
        self.metrics.spans("dropped", batch.len() + queued.len());
    }

    /// Posts a batch, which is empty afterwards where it is done with; else answers how long to wait with it.
    async fn export(&self, batch: &mut Vec<SpanData>, outage: &mut Outage, within: Duration) -> Option<Duration> {
        if batch.is_empty() {
            return None;
        }
        match self.post(batch, within).await {
            Ok(()) => {
                self.metrics.spans("exported", batch.len());
                batch.clear();
                outage.over();
                None
            }
            Err(error) => {
                let pause = outage.goes_on(&error);
                if error.is_transient() {
                    return Some(pause);
                }
                self.metrics.spans("dropped", batch.len());
                batch.clear();
                None
            }
        }
    }

    async fn post(&self, batch: &[SpanData], within: Duration) -> Result<(), ExportError> {
        let resource_spans = group_spans_by_resource_and_scope(batch.to_vec(), &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let post = self.client.post(self.endpoint.expose()).header(CONTENT_TYPE, "application/x-protobuf");
        let no_answer = |error: reqwest::Error| ExportError::NoAnswer(error.without_url().to_string());
        let answer = post.timeout(within).body(body).send().await.map_err(no_answer)?;
        if answer.status().is_success() { Ok(()) } else { Err(ExportError::Status(answer.status())) }
    }
}

/// Waits for a span, and a moment for others.
async fn gather(queued: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    let Some(first) = queued.recv().await else { return std::future::pending().await };
    batch.push(first);
    let until = Instant::now() + LINGER;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        if !matches!(timeout_at(until, queued.recv_many(batch, room)).await, Ok(1..)) {
            break;
        }
    }
}

/// How long the collector has not taken anything.
#[derive(Debug, Default)]
struct Outage {
    failures: u32,
}

impl Outage {
    /// One more request failed; the first one is told.
    fn goes_on(&mut self, error: &ExportError) -> Duration {
        if self.failures == 0 {
            warn!(%error, "the collector does not take spans ([telemetry] otlp); they wait, and are dropped where too many do");
        }
        let (first, longest) = PAUSES;
        let pause = first.saturating_mul(1 << self.failures.min(8)).min(longest);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    fn over(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            info!("the collector takes spans again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{SpanOf, Spans};
    use crate::trace_context::TraceContext;

    const PARENT: TraceContext = TraceContext { trace: 7, span: 8, sampled: true };

    fn open_at(otlp: &str) -> (Spans, Exporter, Arc<Metrics>) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (tracing, metrics) = (Tracing { otlp: Secret::new(otlp), sample: 1.0 }, Arc::<Metrics>::default());
        let (spans, exporter) = Spans::new(Some(&tracing), &reqwest::Client::new(), &metrics);
        (spans, exporter.expect("an exporter"), metrics)
    }

    #[test]
    fn a_span_says_what_it_is_told_without_phone_numbers() {
        let (spans, exporter, _) = open_at("http://127.0.0.1:1");
        let mut span = spans.child(SpanOf::Handle, Some(PARENT));
        let context = span.context().expect("a context");
        span.tell("chat_id", "13800138000");
        span.tell("attempt", 2_i64);
        span.tell("reason", None::<&str>);
        span.failed("13800138000 is not there");
        drop(span);
        let told = exporter.queued.blocking_lock().try_recv().expect("a span");
        assert_eq!((context.trace, context.sampled), (PARENT.trace, true));
        assert_eq!(u64::from_be_bytes(told.parent_span_id.to_bytes()), PARENT.span);
        let says: Vec<_> = told.attributes.iter().map(|said| (said.key.as_str(), said.value.to_string())).collect();
        assert_eq!(says, [("chat_id", "138****8000".to_owned()), ("attempt", "2".to_owned())]);
        assert!(format!("{:?}", told.status).contains("138****8000 is not there"), "{:?}", told.status);
        // What is not sampled makes none, and neither does what is not traced.
        drop(spans.child(SpanOf::Handle, Some(TraceContext { sampled: false, ..PARENT })));
        drop(spans.child(SpanOf::Handle, None));
        assert!(exporter.queued.blocking_lock().try_recv().is_err());
    }

    #[test]
    fn a_wait_is_as_long_as_it_was_and_never_shorter_than_nothing() {
        let (spans, exporter, _) = open_at("http://127.0.0.1:1");
        let now = crate::model::now_ms();
        for since in [now - 5_000, now + 60_000] {
            drop(spans.waited(Some(PARENT), since));
        }
        let mut queued = exporter.queued.blocking_lock();
        let mut took = || queued.try_recv().map(|span| span.end_time.duration_since(span.start_time)).expect("a span");
        assert!(took().is_ok_and(|time| time >= Duration::from_secs(5)));
        assert!(took().is_ok(), "another machine's clock is ahead");
    }

    #[tokio::test]
    async fn what_finds_no_room_and_what_a_stop_leaves_is_counted() {
        let (spans, exporter, metrics) = open_at("http://127.0.0.1:1");
        (0..WAITING + 3).for_each(|_| drop(spans.child(SpanOf::Commit, Some(PARENT))));
        let dropped = |metrics: &Metrics| {
            let text = metrics.render();
            let line = text.lines().find_map(|line| line.strip_prefix("wecom_gateway_spans_total{kind=\"dropped\"} "));
            line.and_then(|count| count.parse::<usize>().ok())
        };
        assert_eq!(dropped(&metrics), Some(3));
        let stop = CancellationToken::new();
        stop.cancel();
        exporter.run(stop).await;
        assert_eq!(dropped(&metrics), Some(WAITING + 3));
    }

    #[test]
    fn an_outage_is_waited_out_longer_each_time_and_what_is_refused_for_good_is_not() {
        let mut outage = Outage::default();
        let refused = ExportError::Status(StatusCode::SERVICE_UNAVAILABLE);
        let pauses: Vec<u64> = (0..7).map(|_| outage.goes_on(&refused).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        outage.over();
        assert_eq!(outage.goes_on(&refused).as_secs(), 1);
        let is_transient = |status| ExportError::Status(status).is_transient();
        assert!(is_transient(StatusCode::TOO_MANY_REQUESTS) && !is_transient(StatusCode::BAD_REQUEST));
        assert!(
            ExportError::NoAnswer(String::new()).is_transient() && !is_transient(StatusCode::INTERNAL_SERVER_ERROR)
        );
    }
}
