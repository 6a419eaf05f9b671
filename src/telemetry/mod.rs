//! Logs and metrics.

pub mod metrics;
