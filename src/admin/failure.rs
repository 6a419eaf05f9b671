//! Why a request of an operator came to nothing.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tracing::warn;

use crate::api_error::ApiError;
use crate::hands::HandError;
use crate::records::RecordsError;
use crate::store::StoreError;

/// An [`ApiError`] on its way out. It waits in the response's extensions until the outermost layer, which knows the
/// request id, writes it.
#[derive(Debug)]
pub struct Failure(ApiError);

impl Failure {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self(ApiError::new(status, code, message))
    }

    /// With more fields of the error, an object.
    pub fn with(self, more: Value) -> Self {
        Self(self.0.with(more))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        warn!(%error, "an operator's question to the store failed");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", "the store can't answer now; ask again")
    }
}

impl From<RecordsError> for Failure {
    fn from(error: RecordsError) -> Self {
        if matches!(error, RecordsError::Cursor) {
            return Self::new(StatusCode::BAD_REQUEST, "bad_cursor", "cursor: take it from `next` of the page before");
        }
        warn!(%error, "an operator's question to the records failed");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "records_unavailable", "the records can't answer now; ask again")
    }
}

impl From<HandError> for Failure {
    fn from(error: HandError) -> Self {
        let (status, code) = match error {
            HandError::Store(error) => return error.into(),
            HandError::Records(error) => return error.into(),
            HandError::UnknownDelivery => (StatusCode::NOT_FOUND, "unknown_delivery"),
            HandError::SettledAlready => (StatusCode::CONFLICT, "settled_already"),
            HandError::NotOpen(_) => (StatusCode::CONFLICT, "not_open"),
            HandError::NotKept(_) => (StatusCode::CONFLICT, "not_kept"),
            HandError::UnknownApp => (StatusCode::CONFLICT, "unknown_app"),
            HandError::Expired => (StatusCode::CONFLICT, "expired"),
            HandError::LaneFull => (StatusCode::SERVICE_UNAVAILABLE, "lane_full"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<QueryRejection> for Failure {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_query", query_fault(&rejection.body_text()))
    }
}

/// What is wrong with which parameter; what stands in front of it is axum's, and how an unknown one is told serde's.
fn query_fault(text: &str) -> String {
    let text = text.split_once(": ").map_or(text, |(_, fault)| fault);
    let Some((_, told)) = text.split_once("unknown field ") else { return text.to_owned() };
    let mut names = told.split('`').skip(1).step_by(2);
    let unknown = names.next().unwrap_or_default();
    format!("{unknown}: no parameter of this path; write {}", names.collect::<Vec<_>>().join(", "))
}

impl From<JsonRejection> for Failure {
    fn from(rejection: JsonRejection) -> Self {
        // JSON that says the wrong thing is a bad request like any other.
        let status = Some(rejection.status()).filter(|status| *status != StatusCode::UNPROCESSABLE_ENTITY);
        let text = match &rejection {
            // Field, fault and place; what stands in front of it is axum's.
            JsonRejection::JsonDataError(error) => {
                let text = error.body_text();
                let fault = text.split_once(" type: ").map_or(text.as_str(), |(_, fault)| fault);
                format!("the body can't be used: {fault}")
            }
            other => other.body_text(),
        };
        Self::new(status.unwrap_or(StatusCode::BAD_REQUEST), "bad_body", text)
    }
}

impl From<PathRejection> for Failure {
    fn from(rejection: PathRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_path", rejection.body_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_query_is_one_sentence() {
        for (told, want) in [
            ("Failed to deserialize query string: limit: write 1 to 1000", "limit: write 1 to 1000"),
            (
                "Failed to deserialize query string: foo: unknown field `foo`, expected one of `state`, `limit`, `cursor`",
                "foo: no parameter of this path; write state, limit, cursor",
            ),
            (
                "Failed to deserialize query string: unknown field `a`, expected `limit` or `cursor`",
                "a: no parameter of this path; write limit, cursor",
            ),
        ] {
            assert_eq!(query_fault(told), want);
        }
    }
}
