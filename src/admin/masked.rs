//! What operators of a scope below `admin` read of the API: every answer with its phone numbers masked, and without digests of contents.
//!
//! A text whose digest is known is found by trying: the digits that a mask hides are a few thousand tries. A layer, not a duty of each answer: what is added later is masked too. Error messages hold nothing of members.

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
        Scope::Metrics | Scope::Read | Scope::Push => masked(response).await,
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
            drop_digests(&mut json);
            mask::json(&mut json);
            json.to_string()
        }
        Err(_) => mask::phones_in(&text).into_owned(),
    };
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    Ok(Response::from_parts(parts, Body::from(text)))
}

/// What trails call the digest of a content (`model::content_digest`).
const DIGEST: &str = "digest";
/// What members and actions name themselves: a `digest` in there is a word of theirs.
const OWN_NAMES: [&str; 2] = ["contact", "vars"];

/// Takes the digests of contents out, wherever they stand.
fn drop_digests(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_digests),
        Value::Object(fields) => {
            fields.retain(|name, value| !(name == DIGEST && value.is_string()));
            let ours = fields.iter_mut().filter(|(name, _)| !OWN_NAMES.contains(&name.as_str()));
            ours.for_each(|(_, value)| drop_digests(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digests_of_contents_go_and_what_others_call_so_stays() {
        let mut answer = json!({"stages": [
            {"stage": "handled", "replies": [{"id": "r.0", "digest": "0123456789abcdef"}]},
            {"stage": "settled", "delivery": "r.0", "digest": "0123456789abcdef"},
        ], "vars": {"digest": "weekly"}, "contact": {"digest": "yes"}, "properties": {"digest": {"type": "string"}}});
        drop_digests(&mut answer);
        let left = json!({"stages": [
            {"stage": "handled", "replies": [{"id": "r.0"}]},
            {"stage": "settled", "delivery": "r.0"},
        ], "vars": {"digest": "weekly"}, "contact": {"digest": "yes"}, "properties": {"digest": {"type": "string"}}});
        assert_eq!(answer, left);
    }
}
