//! How a task stands: the whole of it, from the states of its deliveries. Pure.

use std::collections::BTreeMap;

use crate::model::Outcome;
use crate::store::{Child, TaskStatus};

/// A task's whole state: `queued` while a delivery is on its way or not even in its lane, else the worst of them.
pub fn whole(task: &TaskStatus) -> Outcome {
    let states = || task.children.iter().map(|child| child.state.state);
    if !task.done || states().any(|state| state == Outcome::Queued) {
        return Outcome::Queued;
    }
    // The order of `Outcome` is from good to bad.
    states().max().unwrap_or(Outcome::Queued)
}

/// How many deliveries are in which state.
pub fn counts(task: &TaskStatus) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for child in &task.children {
        *counts.entry(child.state.state.as_str()).or_default() += 1;
    }
    counts
}

/// What a delivery is called now.
pub fn current_id(child: &Child) -> &str {
    child.state.sent_as.as_deref().unwrap_or(&child.delivery_id)
}
