//! `/livez`, `/readyz`, `/metrics`: what machines look at.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::time::timeout;

use super::{AdminState, auth};
use crate::model::now_ms;

/// How long a probe waits for the store: well below any prober's own patience.
const STORE_PATIENCE: Duration = Duration::from_secs(1);

/// 200 while every loop ticks.
pub(super) async fn livez(State(state): State<AdminState>) -> Response {
    let stalled = state.health.stalled(Instant::now());
    let status = if stalled.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({"alive": stalled.is_empty(), "stalled": stalled}))).into_response()
}

/// 200 while callbacks can be taken, by the store or by the spool, and the process is not about to go. While anything waits
/// in the spool, callbacks go there: then a store that is up does not help.
pub(super) async fn readyz(State(state): State<AdminState>) -> Response {
    let store_is_up = matches!(timeout(STORE_PATIENCE, state.store.ping()).await, Ok(Ok(())));
    let taken = match &state.spool {
        Some(spool) => spool.has_room() || store_is_up && spool.is_empty(),
        None => store_is_up,
    };
    let draining = state.health.is_draining();
    let ready = taken && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let store = if store_is_up { "up" } else { "unreachable" };
    let spool = state.spool.as_ref().map(|spool| json!({"depth": spool.depth(), "full": !spool.has_room()}));
    // Told, and no reason to send callbacks elsewhere.
    let kafka = state.kafka.as_ref().map(|kafka| kafka.view().stand());
    let body = json!({"ready": ready, "store": store, "spool": spool, "kafka": kafka, "draining": draining});
    (status, Json(body)).into_response()
}

/// All metrics. From this machine without a token: a scraper beside the gateway needs no secret.
pub(super) async fn metrics(State(state): State<AdminState>, request: Request) -> Response {
    let peer = auth::peer(request.extensions());
    if !auth::is_loopback(peer)
        && let Err(denied) = auth::admit(&state.settings().admin.tokens, request.headers(), peer)
    {
        return denied.into_response();
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
