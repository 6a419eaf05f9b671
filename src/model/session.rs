//! What is remembered of a member in a chat, or of a chat.
//!
//! Turns and vars are all there is; who may read them, and how much is kept, others decide.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What actions remember of one member in one chat: read at claim, written in the commit step only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The last turns, oldest first.
    #[serde(default)]
    pub turns: Vec<SessionTurn>,
    /// What actions set.
    #[serde(default)]
    pub vars: serde_json::Map<String, serde_json::Value>,
}

/// One side's words in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionTurn {
    /// Who spoke.
    pub role: Role,
    /// What was said.
    pub text: String,
    /// Who said it, where a chat shares its session and the callback carried a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub name: Option<String>,
}

/// The speaker of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The member.
    User,
    /// Us.
    Bot,
}
