//! What is remembered between two messages, as configured.

use std::time::Duration;

use crate::model::SessionKey;

/// `[session]`: what actions that see it remember between two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Whose words are remembered together.
    pub scope: SessionScope,
    /// Turns kept, both sides counted.
    pub turns: usize,
    /// How long the store keeps it after its last message.
    pub keep: Duration,
    /// Bytes kept of one turn.
    pub max_turn: usize,
    /// Bytes that `vars` may take as JSON.
    pub max_vars: usize,
    /// Whether what is said goes to the database too, for members who come back later.
    pub archive: bool,
}

/// Whose words are remembered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionScope {
    /// Each member's own in each chat.
    Sender,
    /// All of a chat's; only with [`super::Order::Chat`].
    Chat,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            scope: SessionScope::Sender,
            turns: 20,
            keep: Duration::from_secs(24 * 60 * 60),
            max_turn: 2048,
            max_vars: 16 * 1024,
            archive: true,
        }
    }
}

impl Session {
    /// The name of the session of this member in this chat.
    pub fn key(&self, app: &str, chat: &str, sender: &str) -> SessionKey {
        match self.scope {
            SessionScope::Sender => SessionKey::of_sender(app, chat, sender),
            SessionScope::Chat => SessionKey::of_chat(app, chat),
        }
    }
}
