//! How a task stands: the whole of it, from the states of its deliveries. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::model::Outcome;
use crate::records::rfc3339;
use crate::store::{Child, TaskStatus};
use crate::task::{RecipientState, Who};

/// What one recipient got.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecipientItem {
    #[serde(flatten)]
    who: Who,
    state: Outcome,
    reason: Option<String>,
    /// When it was sent, RFC 3339 with milliseconds.
    at: Option<String>,
}

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

/// What each recipient got, of a delivery of which WeCom tells that.
pub fn recipients(of: Vec<RecipientState>) -> Option<Vec<RecipientItem>> {
    let shown = |RecipientState { who, state, reason, at }| RecipientItem { who, state, reason, at: at.map(rfc3339) };
    (!of.is_empty()).then(|| of.into_iter().map(shown).collect())
}
