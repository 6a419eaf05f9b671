//! Journal lines: what atomic steps leave behind for the records (trails, statistics, deliveries).
//!
//! A line is one text, `at TAB stage TAB request_id TAB message key TAB detail`, so that a Lua script can write one by
//! joining strings. `at` (Unix ms) is put in front by the store, from its own clock. `detail` is a JSON object. Two equal
//! lines mean the same thing twice: the records know a line by its digest, so writing one again is no second entry.

use std::fmt;

use serde_json::{Map, Value};

use crate::model::MessageKey;

/// Which step left the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Stored in its lane, acked.
    Accepted,
    /// A push was queued (or ended before it began): `replies`, as in a handled line; `task`, `source`.
    Pushed,
    /// A copy was stopped.
    Duplicate,
    /// Given up at its claim: `reason`, and `outcome` where it is not `dropped`.
    Expired,
    /// Handled: `rule`, `trigger`, `action`, `outcome`, `reason`, `replies` (ids and digests), `elapsed_ms`.
    Handled,
    /// A late answer was queued: `replies`.
    Answered,
    /// A delivery was tried and will be tried again: `delivery`, `reason`, `errcode`, `elapsed_ms`.
    Retried,
    /// A delivery ended, or (`state` is `queued` then) left its lane while WeCom is still to tell who got it: `delivery`,
    /// `state`, `reason`, `errcode`, `elapsed_ms`, `latency_ms`; [`CONTENT`] where it may be sent again, or why that can't be:
    /// `not_kept`; `by`, where WeCom said so later.
    Settled,
    /// A push's delivery that ended unknown was looked at, and nothing could be done: `delivery`, `action` (`waits`, `gave_up`),
    /// `by`, `looks`, `next_at` (Unix ms).
    Compensated,
    /// A delivery was ended by hand: `delivery`, `action`, `by` (whose token, or `compensator`), `resent_as`; of a `repeat` also
    /// `looks` and `next_at`, as of a compensated one.
    Operated,
    /// Something was said in a session, for the archive: `turns`, and `vars` where it knows them. Its key names the session
    /// and the message.
    Exchanged,
    /// A session was forgotten on demand. Its key names the session, and no message.
    Forgotten,
    /// An operator changed something: `kind`, `via`, `by`, `detail` ([`Line::change`]). Its request is the change's id, its key names app, chat
    /// and member as far as it is about any.
    Changed,
}

impl Stage {
    /// The word in the line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Pushed => "pushed",
            Self::Duplicate => "duplicate",
            Self::Expired => "expired",
            Self::Handled => "handled",
            Self::Answered => "answered",
            Self::Retried => "retried",
            Self::Settled => "settled",
            Self::Compensated => "compensated",
            Self::Operated => "operated",
            Self::Exchanged => "exchanged",
            Self::Forgotten => "forgotten",
            Self::Changed => "changed",
        }
    }
    /// The reverse of [`Stage::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        use Stage::*;
        let sent = [Accepted, Pushed, Duplicate, Expired, Handled, Answered, Retried, Settled];
        let after = [Compensated, Operated, Exchanged, Forgotten, Changed];
        sent.into_iter().chain(after).find(|s| s.as_str() == word)
    }
    /// Whether its line is of a message's trail, and not of a session or of a change.
    pub fn is_of_message(self) -> bool {
        !matches!(self, Self::Exchanged | Self::Forgotten | Self::Changed)
    }
}

/// The detail of a settled line that holds the delivery itself. It is for sending it again alone, never shown.
pub const CONTENT: &str = "content";

/// A line before the store stamps it with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which step.
    pub stage: Stage,
    /// Whose request.
    pub request_id: String,
    /// Which message.
    pub key: MessageKey,
    /// The rest, as a JSON object.
    pub detail: Map<String, Value>,
}

impl fmt::Display for Line {
    /// The line without its time, as stores append it after `at TAB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = serde_json::to_string(&self.detail).map_err(|_| fmt::Error)?;
        write!(f, "{}\t{}\t{}\t{detail}", self.stage.as_str(), self.request_id, self.key.as_str())
    }
}

/// A stamped line, read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The store's time of the step, Unix ms.
    pub at: i64,
    /// The line.
    pub line: Line,
}

impl Entry {
    /// Reads a stored line; `None` where it is not one of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(5, '\t');
        let at = fields.next()?.parse().ok()?;
        let stage = Stage::parse(fields.next()?)?;
        let request_id = fields.next()?.to_owned();
        let key = MessageKey::from_encoded(fields.next()?);
        let detail = serde_json::from_str(fields.next()?).ok()?;
        Some(Self { at, line: Line { stage, request_id, key, detail } })
    }
}

/// The oldest lines of one shard.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalBatch {
    /// Which shard.
    pub shard: u16,
    /// Where the batch begins, for [`super::Store::trim_journal`].
    pub from: i64,
    /// How many raw lines it covers.
    pub count: usize,
    /// The raw lines, oldest first.
    pub lines: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_whole() {
        let detail = serde_json::json!({"reason": "a\tb\nc", "errcode": 93000});
        let line = Line {
            stage: Stage::Settled,
            request_id: "r1".into(),
            key: MessageKey::new("app", "chat", "u\t1", "m:1"),
            detail: detail.as_object().cloned().unwrap_or_default(),
        };
        let entry = Entry::parse(&format!("123\t{line}")).expect("a line");
        assert_eq!(entry, Entry { at: 123, line });
        assert_eq!(Entry::parse("123\tnonsense"), None);
    }
}
