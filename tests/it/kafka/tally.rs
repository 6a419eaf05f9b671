//! What came of the tasks, counted at the fake WeCom and held against what was told of each. Pure.

use std::collections::HashMap;

/// How often each task came.
pub type Arrived = HashMap<String, usize>;
/// What was told of the end of each task, by its id.
pub type Told = HashMap<String, String>;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Arrivals beyond the first of a task.
    pub duplicates: usize,
    /// Tasks that never arrived, and nobody said that they might not have.
    pub lost: usize,
    /// Tasks told as `unknown` that arrived, once.
    pub unknown_arrived: usize,
    /// … and those that did not.
    pub unknown_missing: usize,
    /// Tasks told to have ended some other way than they did.
    pub told_wrong: usize,
}

impl Tally {
    /// Of so many tasks; `told`: of a way that tells of each.
    pub fn of(tasks: usize, arrived: &Arrived, told: Option<&Told>) -> Self {
        let mut tally = Self { duplicates: arrived.values().map(|times| times - 1).sum(), ..Self::default() };
        let missing = tasks - arrived.len();
        let Some(told) = told else { return Self { lost: missing, ..tally } };
        for (id, state) in told {
            match (state.as_str(), arrived.contains_key(id)) {
                ("delivered", true) => {}
                ("unknown", true) => tally.unknown_arrived += 1,
                ("unknown", false) => tally.unknown_missing += 1,
                _ => tally.told_wrong += 1,
            }
        }
        tally.lost = missing.saturating_sub(tally.unknown_missing);
        tally
    }

    /// Whether each task came once, or was told of as one that nobody knows.
    pub fn is_kept(&self) -> bool {
        self.duplicates + self.lost + self.told_wrong == 0
    }
}
