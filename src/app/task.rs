//! A background loop: its name, its supervisor, its way to stop.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::{error, warn};

use crate::stop::Stop;

/// How long a loop that panicked stays down.
const RESTART: Duration = Duration::from_secs(1);

/// A background loop and its way to stop.
pub(super) struct Task {
    name: &'static str,
    /// What it is told to stop by.
    pub(super) stop: Stop,
    handle: JoinHandle<()>,
}

impl Task {
    /// Runs `make` to its end.
    pub(super) fn spawn<F>(name: &'static str, make: impl FnOnce(Stop) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = Stop::default();
        let handle = tokio::spawn(make(stop.clone()));
        Self { name, stop, handle }
    }

    /// Runs a loop until it returns by itself; a panic is logged and it is started again.
    pub(super) fn supervise<T, F>(
        name: &'static str,
        of: Arc<T>,
        run: impl Fn(Arc<T>, Stop) -> F + Send + 'static,
    ) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self::spawn(name, |stop| async move {
            while AssertUnwindSafe(run(of.clone(), stop.clone())).catch_unwind().await.is_err() {
                error!(name, "a loop panicked; it starts again");
                tokio::time::sleep(RESTART).await;
            }
        })
    }

    /// Waits for its end, at most until `limit`; answers whether it came.
    pub(super) async fn ends_by(&mut self, limit: Instant) -> bool {
        timeout_at(limit, &mut self.handle).await.is_ok()
    }

    /// Waits for its end, at most until `limit`, and ends it then.
    pub(super) async fn finish(mut self, limit: Instant) {
        if !self.ends_by(limit).await {
            warn!(name = self.name, "not finished in time; what is under way is left to its lease");
            self.handle.abort();
        }
    }
}
