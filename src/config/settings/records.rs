//! `[database]` and `[report]`: what is kept of a day, and who is told of it.

use std::time::Duration;

use jiff::civil::Time;

use super::Webhook;
use crate::model::Secret;
use crate::zone::Zone;

/// The records.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    /// `sqlite://…` or `mysql://…`; may hold a password.
    pub url: Secret,
    /// How long records are kept.
    pub retain: Duration,
    /// Most journal lines that wait for the database.
    pub journal_limit: u64,
    /// In which days of statistics begin.
    pub zone: Zone,
    /// How long statistics are kept.
    pub stats_retain: Duration,
}

/// The daily summary; nobody gets one by default.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// A group, by a robot that no chat has; it may be that of alarms.
    pub webhook: Option<Webhook>,
    /// From when on, on each day, the day before is told, in the zone of `[database]`.
    pub at: Time,
}
