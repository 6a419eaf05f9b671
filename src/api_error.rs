//! The one shape of an error answer, on both listeners: `{"error":{"code","message","request_id"}}`, with
//! `X-Request-Id`; some errors say more beside it. The code is for programs, the message for people: one sentence that names the thing and the mend.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A refused request.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    more: Map<String, Value>,
}

/// An error answer's body.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

/// What went wrong; some errors have more fields, which name what they concern.
#[derive(Debug, Serialize, ToSchema)]
struct ErrorDetail {
    /// For programs; the same error has the same code always.
    code: &'static str,
    /// For people: what is wrong, and the mend.
    message: String,
    /// As in `X-Request-Id`.
    request_id: String,
    #[serde(flatten)]
    #[schema(value_type = HashMap<String, Value>)]
    more: Map<String, Value>,
}

impl ApiError {
    /// An error with a code for programs and a message for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), more: Map::new() }
    }

    /// With more fields of the error, an object.
    pub fn with(self, more: Value) -> Self {
        let more = if let Value::Object(more) = more { more } else { Map::new() };
        Self { more, ..self }
    }

    /// The answer.
    pub fn respond(self, request_id: &str) -> Response {
        let Self { status, code, message, more } = self;
        let error = ErrorDetail { code, message, request_id: request_id.to_owned(), more };
        with_request_id((status, Json(ErrorBody { error })).into_response(), request_id)
    }
}

/// Puts `X-Request-Id` on an answer.
pub fn with_request_id(mut response: Response, request_id: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    response
}
