//! `[log]`: how lines look, and what they tell.

use crate::telemetry::LogContent;

/// Logging.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Text on a terminal, JSON otherwise, unless said.
    pub format: LogFormat,
    /// A `tracing` filter: `info`, `wecom_gateway=debug`, …
    pub level: String,
    /// What lines tell of what members and bots say.
    pub content: LogContent,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// JSON.
    Json,
    /// Text.
    Text,
}
