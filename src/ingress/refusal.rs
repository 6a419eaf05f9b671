//! Why a callback is refused: status, code and one sentence with the mend. Never a secret; and what the caller is told
//! ([`Refusal::told`]) holds no decrypted byte either, while the log may name a type or show the ends of a receive id.

use axum::http::StatusCode;

use crate::wecom::crypto::CryptoError;
use crate::wecom::envelope::EnvelopeError;
use crate::wecom::payload::PayloadError;

/// A refused callback. Its `Display` is for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("nothing here; callbacks go to /callback/<app>")]
    Nowhere,
    #[error("no app has this name; the path is /callback/<app>, the app's file is config/apps/<app>.toml")]
    UnknownApp,
    /// Holds what is allowed, as in the header of that name.
    #[error("this address takes {0}")]
    Method(&'static str),
    #[error("the body is larger than server.max_body allows")]
    TooLarge,
    #[error("the body did not arrive whole: {0}")]
    Body(String),
    #[error("the query lacks `{0}`; it must reach the gateway as WeCom sent it")]
    MissingQuery(&'static str),
    #[error("the query's timestamp is not a number of seconds")]
    BadTimestamp,
    #[error("the timestamp is {0} s away from this machine's clock; see dedup.max_skew, and check the clock")]
    Skew(u64),
    #[error("msg_signature does not fit: check token, and that no proxy rewrites the query or the body")]
    Signature,
    #[error("the request is not authorised: check the app's auth and the sender's header")]
    Auth,
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("a message of type `{msg_type}` must have a {field}, and this one has none")]
    MissingField { field: &'static str, msg_type: String },
    #[error("{}", unavailable(.0))]
    Unavailable(&'static str),
}

fn unavailable(code: &str) -> &'static str {
    match code {
        "lane_full" => "too many messages of this sender wait already (store.lane_depth); nothing was stored",
        "store_full" => "too many messages wait already (store.max_waiting); nothing was stored",
        "spool_full" => "the store is away and the spool is full (store.spool_limit); nothing was stored",
        _ => "the message could not be stored in time: post it again (should it have been, the copy does no harm)",
    }
}

impl Refusal {
    /// The sentence for the caller.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Crypto(e) if e.is_receive_id_mismatch() => {
                "meant for another receiver: check the app's receive_id; the log shows the ends of both (of short ones the length), `explain` the whole".into()
            }
            Self::MissingField { field, .. } => {
                format!("a message of this type must have a {field}, and this one has none")
            }
            open => open.to_string(),
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Nowhere | Self::UnknownApp => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Skew(_) | Self::Signature | Self::Auth => StatusCode::FORBIDDEN,
            Self::Crypto(e) if e.is_receive_id_mismatch() => StatusCode::FORBIDDEN,
            Self::Body(_)
            | Self::MissingQuery(_)
            | Self::BadTimestamp
            | Self::Envelope(_)
            | Self::Crypto(_)
            | Self::Payload(_)
            | Self::MissingField { .. } => StatusCode::BAD_REQUEST,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The code in the error body, in logs and in metrics.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Nowhere => "not_found",
            Self::UnknownApp => "unknown_app",
            Self::Method(_) => "method_not_allowed",
            Self::TooLarge => "body_too_large",
            Self::Body(_) => "body_unreadable",
            Self::MissingQuery(_) => "missing_query",
            Self::BadTimestamp => "bad_timestamp",
            Self::Skew(_) => "timestamp_skew",
            Self::Signature => "signature_mismatch",
            Self::Auth => "unauthorized",
            Self::Envelope(_) => "bad_envelope",
            Self::Crypto(e) if e.is_receive_id_mismatch() => "receive_id_mismatch",
            Self::Crypto(_) => "decrypt_failed",
            Self::Payload(_) => "bad_payload",
            Self::MissingField { .. } => "missing_field",
            Self::Unavailable(code) => code,
        }
    }
}
