//! The one shape of an error answer, on both listeners: `{"error":{"code","message","request_id"}}`, with
//! `X-Request-Id`; some errors say more beside it. The code is for programs, the message for people: one sentence that names the thing and the mend.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A refused request.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    more: Option<Value>,
}

impl ApiError {
    /// An error with a code for programs and a message for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), more: None }
    }

    /// With more fields of the error, an object.
    pub fn with(self, more: Value) -> Self {
        Self { more: Some(more), ..self }
    }

    /// The answer.
    pub fn respond(self, request_id: &str) -> Response {
        let mut error = json!({"code": self.code, "message": self.message, "request_id": request_id});
        if let (Some(error), Some(Value::Object(more))) = (error.as_object_mut(), self.more) {
            error.extend(more);
        }
        let body = json!({ "error": error });
        with_request_id((self.status, Json(body)).into_response(), request_id)
    }
}

/// Puts `X-Request-Id` on an answer.
pub fn with_request_id(mut response: Response, request_id: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    response
}
