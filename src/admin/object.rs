//! What an operator sends: one JSON object, read so that a fault names the field and never a type of ours.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Failure;

/// A body. Derived readers take a list for an object; this one does not.
#[derive(Debug)]
pub(super) struct Object<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Object<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let body: Result<Json<Box<RawValue>>, JsonRejection> = Json::from_request(request, state).await;
        let Json(body) = body?;
        if !body.get().starts_with('{') {
            let text = "the body is JSON, but no object: write its fields in braces, {…}";
            return Err(Failure::new(StatusCode::BAD_REQUEST, "bad_body", text));
        }
        let Json(object) = Json::from_bytes(body.get().as_bytes())?;
        Ok(Self(object))
    }
}
