//! How a loop is stopped, in two steps: first it takes nothing new and finishes what is under way; when the time for that
//! is over, what is still under way is dropped where it stands and given back.

use tokio_util::sync::CancellationToken;

/// The two signals; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// From here on nothing new is begun.
    pub draining: CancellationToken,
    /// From here on nothing is waited for.
    pub cut: CancellationToken,
}
