//! The rush: so many callbacks at once that whoever can wait lets them go first.
//!
//! WeCom gives up on a callback after 5 s, while a reply may come later. So in a rush workers begin a few messages at a time, and
//! the records are written in long steps. What has waited long by itself waits for no rush: one that does not end is no rush but the
//! load, which all have to share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// So many callbacks that wait for the store are a rush: more than a machine that keeps up ever has.
const MANY: usize = 16;
/// What has waited so long has waited enough.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts the callbacks of one process that wait for the store. Only authentic ones: a stranger makes no rush.
#[derive(Debug, Default)]
pub struct Rush {
    callbacks: AtomicUsize,
}

/// A callback that waits, until it is dropped.
#[derive(Debug)]
pub struct Callback<'r>(&'r Rush);

impl Rush {
    /// A callback came.
    pub fn enter(&self) -> Callback<'_> {
        self.callbacks.fetch_add(1, Ordering::Relaxed);
        Callback(self)
    }

    /// Whether callbacks go before work that has `waited` so long.
    pub fn goes_before(&self, waited: Duration) -> bool {
        self.callbacks.load(Ordering::Relaxed) >= MANY && waited < PATIENCE
    }
}

impl Drop for Callback<'_> {
    fn drop(&mut self) {
        self.0.callbacks.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_while_many_callbacks_wait_and_holds_up_nobody_for_long() {
        let rush = Rush::default();
        let mut waiting: Vec<Callback> = (1..MANY).map(|_| rush.enter()).collect();
        assert!(!rush.goes_before(Duration::ZERO));
        waiting.push(rush.enter());
        assert!(rush.goes_before(PATIENCE / 2) && !rush.goes_before(PATIENCE));
        waiting.pop();
        assert!(!rush.goes_before(Duration::ZERO));
    }
}
