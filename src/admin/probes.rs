//! `/livez`, `/readyz`, `/metrics`: what machines look at.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::{AdminState, auth};
use crate::model::now_ms;
use crate::store::Spool;
use crate::telemetry::KafkaStand;

/// How long a probe waits for the store: well below any prober's own patience.
const STORE_PATIENCE: Duration = Duration::from_secs(1);

/// Whether the process lives.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Alive {
    alive: bool,
    /// Loops that do not tick.
    stalled: Vec<&'static str>,
}

/// Whether callbacks can be taken.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ready {
    ready: bool,
    /// `up` or `unreachable`
    store: &'static str,
    /// What waits for the store; null where there is no spool.
    spool: Option<SpoolStand>,
    /// Null where no Kafka is configured.
    kafka: Option<KafkaStand>,
    /// Whether the process is about to go.
    draining: bool,
}

/// How a spool stands.
#[derive(Debug, Serialize, ToSchema)]
struct SpoolStand {
    /// Callbacks in it.
    depth: u64,
    full: bool,
}

/// 200 while every loop ticks
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "livez",
    tag = "probes",
    responses(
        (status = 200, description = "Every loop ticks", body = Alive),
        (status = 503, description = "One does not", body = Alive)
    )
)]
pub(super) async fn livez(State(state): State<AdminState>) -> Response {
    let stalled = state.health.stalled(Instant::now());
    let status = if stalled.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Alive { alive: stalled.is_empty(), stalled })).into_response()
}

/// 200 while callbacks can be taken
///
/// By the store or by the spool, and by a process that is not about to go. While anything waits in the spool, callbacks go there:
/// then a store that is up does not help.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "probes",
    responses(
        (status = 200, description = "They can", body = Ready),
        (status = 503, description = "They can't", body = Ready)
    )
)]
pub(super) async fn readyz(State(state): State<AdminState>) -> Response {
    let store_is_up = matches!(timeout(STORE_PATIENCE, state.store.ping()).await, Ok(Ok(())));
    let taken = match &state.spool {
        Some(spool) => store_is_up && spool.is_empty() || takes(spool).await,
        None => store_is_up,
    };
    let draining = state.health.is_draining();
    let ready = taken && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let store = if store_is_up { "up" } else { "unreachable" };
    let spool = state.spool.as_ref().map(|spool| SpoolStand { depth: spool.depth(), full: !spool.has_room() });
    // Told, and no reason to send callbacks elsewhere.
    let kafka = state.kafka.as_ref().map(|kafka| kafka.view().stand());
    (status, Json(Ready { ready, store, spool, kafka, draining })).into_response()
}

/// Whether a message would find room there, and a disk that takes writes.
async fn takes(spool: &Spool) -> bool {
    spool.has_room() && matches!(timeout(STORE_PATIENCE, spool.ping()).await, Ok(Ok(())))
}

/// All metrics
///
/// From the gateway's own machine without a token: a scraper beside it needs no secret. Elsewhere with one of any scope.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "probes",
    security((), ("token" = ["metrics"])),
    responses(
        (status = 200, description = "OpenMetrics", body = String, content_type = "application/openmetrics-text"),
        (status = 401, description = "`token_required`: no token; `token_unknown`: none of the gateway's"),
        (status = 403, description = "`loopback_only`, `foreign_host`, `foreign_origin`: no token is configured, and the client is not on the gateway's machine, or may be a web page")
    )
)]
pub(super) async fn metrics(State(state): State<AdminState>, request: Request) -> Response {
    if let Err(denied) = auth::admit_scraper(&state.settings().admin.tokens, &request) {
        return auth::turn_away(&state, denied, &request, None);
    }
    // With the store away the gauges keep their last values; `store_errors` tells.
    if state.metrics.is_due(Instant::now()) {
        match timeout(STORE_PATIENCE, state.store.depth()).await {
            Ok(Ok(depth)) => state.metrics.depth(depth, now_ms()),
            Ok(Err(_)) | Err(_) => state.metrics.store_error("depth"),
        }
    }
    if let Some(spool) = &state.spool {
        state.metrics.spool(spool.depth(), spool.percent());
    }
    if let Some(kafka) = &state.kafka {
        state.metrics.kafka(kafka.view().stand());
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], state.metrics.render()).into_response()
}
