//! `[alarms]`: who is told, and how often.

use std::time::Duration;

use super::Webhook;
use crate::model::Secret;

/// Who is told of what somebody has to know; nobody by default.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarms {
    /// A group, by a robot of its own.
    pub webhook: Option<Webhook>,
    /// A service.
    pub hook: Option<AlarmHook>,
    /// One alarm of a kind and subject in so long.
    pub window: Duration,
}

/// A service that takes alarms.
#[derive(Clone, Debug, PartialEq)]
pub struct AlarmHook {
    /// Where they are posted; may hold a key.
    pub url: Secret,
    /// What they are signed with.
    pub secret: Option<Secret>,
}
