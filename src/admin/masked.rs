//! What operators of a scope below `admin` read of the API: every answer with its phone numbers masked.
//!
//! A layer, not a duty of each answer: what is added later is masked too. Error messages hold nothing of members.

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::Value;
use tracing::error;

use super::Failure;
use super::auth::Operator;
use crate::config::settings::Scope;
use crate::mask;

/// Hands the answer on, masked where whoever asked may not see all of it.
pub(super) async fn below_admin(
    Extension(operator): Extension<Operator>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let response = next.run(request).await;
    match operator.scope {
        Scope::Admin => Ok(response),
        Scope::Read | Scope::Push => masked(response).await,
    }
}

async fn masked(response: Response) -> Result<Response, Failure> {
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.map_err(|error| {
        error!(%error, "an answer could not be masked, and was not given");
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "not_masked", "the answer can't be given in full or masked")
    })?;
    if body.is_empty() {
        return Ok(Response::from_parts(parts, Body::empty()));
    }
    let text = String::from_utf8_lossy(&body);
    let text = match serde_json::from_str::<Value>(&text) {
        Ok(mut json) => {
            mask::json(&mut json);
            json.to_string()
        }
        Err(_) => mask::phones_in(&text).into_owned(),
    };
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    Ok(Response::from_parts(parts, Body::from(text)))
}
