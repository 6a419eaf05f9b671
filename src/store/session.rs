//! What is remembered between two messages, as the store is asked and told.

use std::time::Duration;

use super::Line;
use crate::model::{Session, SessionKey};

/// What the store has of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remembered {
    /// Its turns and vars; empty where it has none.
    pub session: Session,
    /// Whether the store has it: one that it has hides what the archive may have.
    pub found: bool,
    /// When it was last forgotten on demand, by the store's clock in Unix ms; 0 where that is not known. What the archive
    /// has from before that is on its way out.
    pub forgotten: i64,
}

/// A session after an exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Its name.
    pub key: SessionKey,
    /// What is remembered from now on.
    pub session: Session,
    /// How long the store keeps it.
    pub keep: Duration,
    /// [`Remembered::forgotten`] as it was read: where the session was forgotten since, this exchange is not remembered.
    pub forgotten: i64,
    /// For the archive, where there is one.
    pub line: Option<Line>,
}
