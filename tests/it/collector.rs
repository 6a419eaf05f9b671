//! A collector of spans on a free port of 127.0.0.1: takes OTLP over HTTP as protobuf, keeps what comes, and refuses while it is told to.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::world::TEST;

/// A span as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// `service.instance.id` of its process.
    pub process: String,
    pub trace: String,
    pub id: String,
    /// Empty where it is the first of its trace.
    pub parent: String,
    pub name: String,
    pub kind: SpanKind,
    /// Unix ns.
    pub from: u64,
    pub to: u64,
    pub failed: Option<String>,
    pub says: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Desk {
    spans: Vec<Seen>,
    refuses: bool,
    refused: usize,
}

/// The server; ends with the test's runtime.
#[derive(Clone)]
pub struct Collector {
    url: String,
    desk: Arc<watch::Sender<Desk>>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let collector = Self { url, desk: Arc::default() };
        let app = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        collector
    }

    /// `[telemetry] otlp`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it refuses from now on, for a while.
    pub fn refuse(&self, refuses: bool) {
        self.desk.send_modify(|desk| desk.refuses = refuses);
    }

    /// Waits until it has refused so often.
    pub async fn until_refused(&self, times: usize) {
        self.until(|desk| desk.refused >= times).await;
    }

    /// Waits until what came holds; answers it.
    pub async fn until_spans(&self, mut holds: impl FnMut(&[Seen]) -> bool) -> Vec<Seen> {
        self.until(|desk| holds(&desk.spans)).await;
        self.spans()
    }

    /// What came until now.
    pub fn spans(&self) -> Vec<Seen> {
        self.desk.borrow().spans.clone()
    }

    async fn until(&self, holds: impl FnMut(&Desk) -> bool) {
        let mut desk = self.desk.subscribe();
        let waited = tokio::time::timeout(TEST, desk.wait_for(holds)).await;
        if waited.is_err() {
            panic!("what it waits for does not come: {:#?}", self.spans());
        }
    }
}

async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok());
    if kind != Some("application/x-protobuf") {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let mut status = StatusCode::OK;
    collector.desk.send_modify(|desk| {
        if desk.refuses {
            desk.refused += 1;
            status = StatusCode::SERVICE_UNAVAILABLE;
        } else {
            desk.spans.extend(read(request));
        }
    });
    status
}

fn read(request: ExportTraceServiceRequest) -> Vec<Seen> {
    let of = |resource: opentelemetry_proto::tonic::trace::v1::ResourceSpans| {
        let about = attributes(&resource.resource.expect("a resource").attributes);
        assert_eq!(about["service.name"], "wecom-gateway");
        let process = about["service.instance.id"].clone();
        let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.map(move |span| seen(&process, span))
    };
    request.resource_spans.into_iter().flat_map(of).collect()
}

fn seen(process: &str, span: Span) -> Seen {
    let status = span.status.clone().unwrap_or_default();
    Seen {
        process: process.to_owned(),
        trace: hex::encode(&span.trace_id),
        id: hex::encode(&span.span_id),
        parent: hex::encode(&span.parent_span_id),
        kind: span.kind(),
        says: attributes(&span.attributes),
        failed: (status.code() == SpanStatus::Error).then_some(status.message),
        from: span.start_time_unix_nano,
        to: span.end_time_unix_nano,
        name: span.name,
    }
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    list.iter().map(|KeyValue { key, value, .. }| (key.clone(), text(value.as_ref()))).collect()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => panic!("no span says such a thing: {other:?}"),
    }
}
