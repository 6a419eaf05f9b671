//! `[telemetry]`: where spans go.

use crate::model::Secret;

/// Tracing, where it is on.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// The collector's address for OTLP over HTTP, without a slash at its end; may hold a password.
    pub otlp: Secret,
    /// The share of traces that are kept, 0 to 1, of those that begin here.
    pub sample: f64,
}
