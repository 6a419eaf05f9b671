//! Notes: small values that all processes share for a while, each with a lock beside it.
//!
//! An access token, what holds an app up, an uploaded file's id: known by a name, forgotten by themselves, and written or
//! dropped by compare, so that who comes late changes nothing of those who came after. They are no part of any lane's step.

use std::time::Duration;

use crate::model::{Secret, encode};

/// The name of a note.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note(String);

impl Note {
    /// The access token of a corp's app; `secret_digest` tells its secrets apart. Its lock: who refreshes it.
    pub fn token(corp_id: &str, secret_digest: &str) -> Self {
        Self(format!("token:{}:{}", encode(corp_id), encode(secret_digest)))
    }
    /// Why there is no token to be had for now; named as [`Note::token`].
    pub fn no_token(corp_id: &str, secret_digest: &str) -> Self {
        Self(format!("no_token:{}:{}", encode(corp_id), encode(secret_digest)))
    }
    /// Why an app sends nothing by the API. Its lock: who may try whether that is over.
    pub fn hold(app: &str) -> Self {
        Self(format!("hold:{}", encode(app)))
    }
    /// The id under which a robot's own upload is known; `robot` and `content` are digests.
    pub fn media(robot: &str, content: &str) -> Self {
        Self(format!("media:{}:{}", encode(robot), encode(content)))
    }
    /// Its lock: whoever tells of an alarm for its window.
    pub fn alarm(kind: &str, subject: &str) -> Self {
        Self(format!("alarm:{}:{}", encode(kind), encode(subject)))
    }
    /// Its lock: whoever sends by the robot of alarms just now; `robot` is its digest.
    pub fn alarm_robot(robot: &str) -> Self {
        Self(format!("alarm_robot:{}", encode(robot)))
    }
    /// That a day's summary was told by a robot (its digest). Its lock: who prepares it.
    pub fn report(day: &str, robot: &str) -> Self {
        Self(format!("report:{}:{}", encode(day), encode(robot)))
    }
    /// Its lock: that somebody asked for a contact lately.
    pub fn contact(app: &str, sender: &str) -> Self {
        Self(format!("asked:contact:{}:{}", encode(app), encode(sender)))
    }
    /// What WeCom calls a group. Its lock: that somebody asked for it lately.
    pub fn group(app: &str, chat: &str) -> Self {
        Self(format!("asked:group:{}:{}", encode(app), encode(chat)))
    }
    /// That WeCom was asked who got a push, and is not to be asked again yet. Its lock: whoever asks.
    pub fn awaiting(delivery: &str) -> Self {
        Self(format!("asked:push:{}", encode(delivery)))
    }
    /// Its lock: whoever tells producers of push tasks how they ended, just now.
    pub fn results() -> Self {
        Self("results".to_owned())
    }
    /// The name as stores write it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a note says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Its value.
    pub value: Secret,
    /// How long it still stands.
    pub left: Duration,
}

/// A note to be written.
#[derive(Clone, Debug)]
pub struct NoteWrite {
    /// Which.
    pub note: Note,
    /// What it shall say.
    pub value: Secret,
    /// For how long.
    pub ttl: Duration,
    /// Only while the note's lock is this owner's, and the lock is given back in the same step.
    pub owner: Option<String>,
}
