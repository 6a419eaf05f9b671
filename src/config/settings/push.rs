//! `[push]`: what holds for all push tasks.

use std::time::Duration;

/// How push tasks are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// How long a task is known, from when it was taken: it is not sent after that, and not again before.
    pub keep: Duration,
}
