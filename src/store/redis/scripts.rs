//! The Lua scripts, one per verb: shared fragments in front, the verb's own file last.
//!
//! Each file's header says its purpose, arguments and answer. Scripts run by their digest; one that the server does not
//! know (a restart, a flush) is loaded and run again.

use std::sync::LazyLock;

use redis::Script;

/// A script, known by name to error messages.
pub(super) struct Verb {
    /// The verb.
    pub name: &'static str,
    /// Its code, hashed at first use.
    pub script: LazyLock<Script>,
    /// Whether its answer is a promise that an ack or a send stands on.
    pub waits_for_replicas: bool,
}

/// Joins fragments and the verb's file; a `safe` one waits for replicas where that is asked for.
macro_rules! verb {
    (safe $name:literal: $($fragment:literal)*) => { verb!(@ true, $name, $($fragment)*) };
    ($name:literal: $($fragment:literal)*) => { verb!(@ false, $name, $($fragment)*) };
    (@ $safe:literal, $name:literal, $($fragment:literal)*) => {
        Verb {
            name: $name,
            waits_for_replicas: $safe,
            script: LazyLock::new(|| Script::new(concat!(
                $(include_str!(concat!("lua/shared/", $fragment, ".lua")), "\n",)*
                include_str!(concat!("lua/", $name, ".lua")),
            ))),
        }
    };
}

pub(super) static ENQUEUE: Verb = verb!(safe "enqueue": "keys" "clock" "journal" "waiting" "batch" "lanes" "marks");
pub(super) static CLAIM_MESSAGES: Verb =
    verb!("claim_messages": "keys" "clock" "journal" "lanes" "claim" "marks" "session");
pub(super) static COMMIT: Verb = verb!("commit": "keys" "clock" "journal" "batch" "lanes" "marks" "replies" "queue");
pub(super) static CLAIM_REPLIES: Verb = verb!("claim_replies": "keys" "clock" "journal" "lanes" "claim" "replies");
pub(super) static BEGIN: Verb = verb!(safe "begin": "keys" "clock" "journal" "batch" "lanes" "replies" "begin");
pub(super) static SETTLE: Verb = verb!("settle": "keys" "clock" "journal" "batch" "lanes" "replies" "push" "begin");
/// A settle that may begin the next head.
pub(super) static SETTLE_AND_BEGIN: Verb =
    verb!(safe "settle": "keys" "clock" "journal" "batch" "lanes" "replies" "push" "begin");
pub(super) static RENEW: Verb = verb!("renew": "keys" "clock" "journal" "batch" "lanes");
pub(super) static RELEASE: Verb = verb!("release": "keys" "clock" "journal" "batch" "lanes");
pub(super) static WAITING: Verb = verb!("waiting": "keys" "clock" "journal" "batch");
pub(super) static SESSION: Verb = verb!("session": "keys" "clock" "journal" "batch" "session");
pub(super) static FORGET_SESSION: Verb = verb!("forget_session": "keys" "clock" "journal" "batch");
pub(super) static ANSWER_LATE: Verb = verb!("answer_late": "keys" "clock" "journal" "batch" "lanes" "replies" "queue");
pub(super) static REVIVE: Verb = verb!("revive": "keys" "clock" "journal" "batch" "lanes");
pub(super) static TUNE: Verb = verb!("tune": "keys" "clock" "journal" "batch" "lanes" "replies");
pub(super) static NOTE_CHANGE: Verb = verb!("note_change": "keys" "clock" "journal" "batch");
pub(super) static OPERATE: Verb = verb!("operate": "keys" "clock" "journal" "batch" "lanes" "replies" "push" "queue");
pub(super) static QUEUE_PUSHES: Verb =
    verb!(safe "queue_pushes": "keys" "clock" "journal" "waiting" "batch" "lanes" "replies" "push" "queue");
pub(super) static REVISE: Verb = verb!("revise": "keys" "clock" "journal" "batch" "push");
pub(super) static READ_PUSHES: Verb = verb!("read_pushes": "keys");
pub(super) static OPEN_TASK: Verb = verb!("open_task":);
pub(super) static ADVANCE_TASK: Verb = verb!("advance_task":);
pub(super) static READ_TASK: Verb = verb!("read_task":);
pub(super) static CHATS: Verb = verb!("chats": "keys" "clock" "journal" "batch" "replies");
pub(super) static BUSY_CHATS: Verb = verb!("busy_chats": "keys");
pub(super) static DEPTH: Verb = verb!("depth": "keys" "replies");
pub(super) static READ_USER: Verb = verb!("read_user":);
pub(super) static WRITE_USER: Verb = verb!("write_user": "clock");
pub(super) static READ_CONTACT: Verb = verb!("read_contact":);
pub(super) static WRITE_CONTACT: Verb = verb!("write_contact":);
pub(super) static FORGET_CONTACT: Verb = verb!("forget_contact": "clock");
pub(super) static ADMIT: Verb = verb!("admit": "keys" "clock" "journal" "batch");
pub(super) static READ_JOURNAL: Verb = verb!("read_journal": "keys");
pub(super) static TRIM_JOURNAL: Verb = verb!("trim_journal": "keys");
pub(super) static READ_NOTE: Verb = verb!("read_note":);
pub(super) static WRITE_NOTE: Verb = verb!("write_note":);
pub(super) static DROP_NOTE: Verb = verb!("drop_note":);
pub(super) static LOCK_NOTE: Verb = verb!("lock_note":);
pub(super) static UNLOCK_NOTE: Verb = verb!("unlock_note":);
