//! What a store keeps of members: the contact book, who is bound to which business user, and who writes too fast.
//!
//! A profile stands by itself, in no lane's slot: its two halves (user id, contact) are two steps, each atomic, and each knows when
//! the member was forgotten. All of it is best repeated: the same change twice is the same as once. An operator's change leaves its line in
//! the step of the change or, where no step reaches both (`redis`), in one before it: no change is without a line, and a line may be of a
//! change whose caller was told of a failure.

use std::time::Duration;

use async_trait::async_trait;

use super::{Line, Pace, Result};
use crate::member::{MemberKey, Profile};
use crate::model::MessageKey;

/// What is to change in a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileChange {
    /// Whose.
    pub member: MemberKey,
    /// The binding; `None` leaves it.
    pub user: Option<UserChange>,
    /// Contact fields.
    pub contact: Vec<(String, FieldChange)>,
    /// [`Profile::forgotten`] as it was read: where the member was forgotten since, nothing is changed. `None`: in any case.
    pub upon: Option<i64>,
    /// What the trail of changes says of it, where it is an operator's.
    pub change: Option<Line>,
}

/// What becomes of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserChange {
    /// It holds for `ttl` from now.
    Bind {
        /// The business system's id.
        id: String,
        /// How long it holds.
        ttl: Duration,
        /// Each use makes it hold for so long again.
        renew: Option<Duration>,
    },
    /// It holds for so long from now, where there is one.
    Renew(Duration),
    /// It is over.
    Unbind,
}

/// What becomes of a contact field. Each keeps a word of each of three: what callbacks (and WeCom) tell, what was set, and what the
/// member said; the last of them that there is shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// It says this, whatever the member said.
    Set(String),
    /// The member says this.
    Say(String),
    /// What the member said goes.
    Unsay,
    /// Callbacks tell this: it shows where nobody set or said anything.
    Fill(String),
    /// It goes, whoever said it.
    Remove,
}

/// A message that its member wants handled.
#[derive(Clone, Debug)]
pub struct Knock {
    /// The message.
    pub key: MessageKey,
    /// Its request: asked again, it is answered as before.
    pub request_id: String,
    /// How many messages of one member in one chat are handled.
    pub rate: Pace,
}

/// What becomes of a [`Knock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is handled; it counts.
    Yes,
    /// It came too fast and does not count; the first such of a window, so the member is told.
    TooFastFirst,
    /// It came too fast.
    TooFast,
}

/// The verbs about members.
#[async_trait]
pub trait Members: Send + Sync {
    /// What is known of a member; nothing is an empty profile.
    async fn read_profile(&self, member: &MemberKey) -> Result<Profile>;

    /// Changes a profile; `false` where it was forgotten meanwhile ([`ProfileChange::upon`]).
    async fn change_profile(&self, change: ProfileChange) -> Result<bool>;

    /// Forgets a member, whole; answers whether anything was known. That it was is known for `keep`, and told by the
    /// `change`'s line, where there is one.
    async fn forget_profile(&self, member: &MemberKey, keep: Duration, change: Option<Line>) -> Result<bool>;

    /// Counts a message of a member in a chat, over any window of the rate.
    async fn admit(&self, knock: Knock) -> Result<Admitted>;
}
