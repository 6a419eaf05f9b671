//! `[push]`: what holds for all push tasks.

use std::time::Duration;

/// How push tasks are kept and followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// How long a task is known, from when it was taken: it is not sent after that, and not again before.
    pub keep: Duration,
    /// How long after it ended a delivery that is unknown is looked at first; twice as long each time after that.
    pub compensate_after: Duration,
    /// How often it is, before a person is called.
    pub compensate_looks: u32,
    /// How soon WeCom is asked who got what a member had to confirm; later it is asked less often
    /// ([`crate::push::Awaiting`]).
    pub ask_after: Duration,
}
