//! Settings of who may do what: rates, admins, audiences, bindings.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::store::Pace;

/// How a bot behaves towards members, beyond what triggers it.
#[derive(Clone, Debug, Default)]
pub struct Manners {
    /// How many messages of one member in one chat are handled; `None`: all.
    pub per_member: Option<Pace>,
    /// Sender keys of those who may mute a chat.
    pub admins: BTreeSet<String>,
    /// Names of the command that mutes a chat; it exists where there are admins.
    pub mute: Vec<String>,
    /// Names of the command that lets it speak again.
    pub unmute: Vec<String>,
}

impl Manners {
    /// What `mute` and `unmute` answer to where nothing else is said.
    pub fn default_names() -> (Vec<String>, Vec<String>) {
        (vec!["mute".into(), "静音".into()], vec!["unmute".into(), "取消静音".into()])
    }
}

/// Whom a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Members with a business user id.
    Bound,
    /// Members of the company.
    Internal,
    /// Contacts outside of it.
    External,
    /// [`Manners::admins`].
    Admin,
}

impl Audience {
    /// The reason in trails of those who are refused.
    pub fn refusal(self) -> &'static str {
        match self {
            Self::Bound => "not_bound",
            Self::Internal => "not_internal",
            Self::External => "not_external",
            Self::Admin => "not_admin",
        }
    }
}

/// A command that is not for everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    /// Whom it is for.
    pub audience: Audience,
    /// What the others get; `None`: a text of the gateway's own.
    pub text: Option<String>,
}

/// What a binding sentence does to its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// It ends a binding instead.
    pub unbind: bool,
    /// How long a business user id holds.
    pub ttl: Duration,
    /// Each use makes it hold as long again.
    pub renew_on_use: bool,
}

impl Default for Terms {
    /// Seven days.
    fn default() -> Self {
        Self { unbind: false, ttl: Duration::from_secs(7 * 24 * 60 * 60), renew_on_use: false }
    }
}
