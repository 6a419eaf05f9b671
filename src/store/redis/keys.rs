//! The keys in Redis (contract, section 6).
//!
//! Everything of one shard begins with `wg:{NN}:`: a script touches the keys of one hash tag alone, which is one slot where there is a
//! Cluster (no gateway speaks to one yet: `config` refuses its addresses). Scripts get that prefix as their only key and build the
//! names from it in `lua/shared/keys.lua`, the one place that spells them. `<lane>` and `<key>` come percent-encoded from
//! [`crate::model`].
//!
//! | key after `wg:{NN}:` | kind | holds |
//! | --- | --- | --- |
//! | `in:<lane>` | LIST | messages waiting: `request_id expires_ms mark_ttl_ms key`, newline, JSON |
//! | `out:<lane>` | LIST | deliveries waiting: `delivery_id expires_ms route_digest received_ms`, ` apart` where it is sent by itself, ` push` and a number where it is a push: so many in a row end with it, newline, JSON |
//! | `in:ready`, `out:ready`, `out:ready_push` | ZSET | lanes that can be worked now, by turn (ms, with fractions); outbound those with a reply, and those with pushes alone |
//! | `in:leases`, `out:leases` | ZSET | lanes in work, by lease end (ms) |
//! | `in:holders`, `out:holders` | HASH | lane → id of its last lease; inbound also `#`lane → `request_id crashes` of its head |
//! | `out:parked` | ZSET | lanes that wait, by wake time (ms) |
//! | `out:tries` | HASH | lane → `delivery_id lease attempts refusals` of its head, how many it carries where several; lease: begun and not settled, or `-` |
//! | `out:ahead` | HASH | lane → by how many ms its turn goes before others |
//! | `seen:<key>` | STRING PX | the request id that owns the message, then `done` |
//! | `in:finished` | ZSET | the last request ids whose mark became `done`: tells a repeated enqueue from a copy |
//! | `session:<app>:<chat>:<sender>` | HASH PX | `turns`, `vars` (JSON), `forgotten` (ms), `ends` (ms, where the two may end before that is to be known no longer); a chat's shared one has no sender |
//! | `chat:<lane>` | HASH | `weight`, `paused` (`1`), `dead` (route digest), `last_error`, `failures`, `why` (parked, until it is claimed), `muted` (`1`) |
//! | `chats` | SET | lanes of chats of which something was set: `weight`, `paused`, `dead`, `muted` |
//! | `rate:<app>:<chat>:<sender>` | ZSET PX | the request ids that count against the member's rate, by time (ms) |
//! | `rate:told:<app>:<chat>:<sender>` | STRING PX | the request that told the member to slow down, for a window |
//! | `pace:<lane>` | LIST PX | times of the last sends (ms), no more than the limit |
//! | `late:<request_id>` | HASH PX | `chat`, `key`, `received`, `expires`, `reply_to` (JSON), one `seq:<n>` per answer taken |
//! | `op:<delivery id>` | STRING PX | the operation that ended it by hand; kept as long as the records keep the delivery |
//! | `push:<task>` | HASH PX | the task's deliveries in this slot: delivery id → `at_ms TAB lane TAB state as JSON` |
//! | `waiting` | ZSET | its one member `n`: how many messages and deliveries wait (a ZSET because only its `ZADD XX INCR` leaves a missing count missing) |
//! | `waiting:recounted` | STRING PX | there while `waiting` is not to be counted anew |
//! | `journal` | LIST | lines for the records |
//! | `journal:base` | STRING | how many lines were trimmed so far |
//!
//! A note is a key of its own, `wg:{<name>}`, a STRING PX, and its lock `wg:{<name>}:lock` another; the name is one of
//! `token:<corp>:<secret digest>`, `no_token:…`, `hold:<app>`, `media:<robot digest>:<content digest>`,
//! `asked:contact:<app>:<sender>`, `asked:group:<app>:<chat>`, `asked:push:<delivery id>`.
//!
//! A push task is a key of its own too, `wg:{task:<task>}`, a HASH PX: `app`, `digest` of its content, `total`, `cursor` (so many
//! deliveries are in their lanes), `done` (`1`). No script touches it and a shard.
//!
//! Outside the shards, each on a slot of its own: `wg:user:<app>:<sender>` (STRING PX, the business user id) and
//! `wg:contact:<app>:<sender>` (HASH: `<field>` what was set, `?<field>` what the member said, `~<field>` what callbacks filled in;
//! `~renew` by how many ms a use renews the user id); where a member was forgotten, both tell when for a while (`!forgotten`, and
//! `\\1` and the time in place of the id); [`META`], a HASH with the shard count, and [`WAKE`], a channel that says `in` or `out` when a
//! ready set stops being empty.

use crate::member::MemberKey;
use crate::store::Note;

/// What holds for the whole store: field [`SHARDS`].
pub(super) const META: &str = "wg:meta";
/// Field of [`META`]: the shard count, fixed at first start.
pub(super) const SHARDS: &str = "shards";
/// Channel for wake-ups.
pub(super) const WAKE: &str = "wg:wake";

/// Where a member's business user id is kept.
pub(super) fn user(member: &MemberKey) -> String {
    format!("wg:user:{}", member.as_str())
}

/// Where a member's contact fields are kept.
pub(super) fn contact(member: &MemberKey) -> String {
    format!("wg:contact:{}", member.as_str())
}

/// What the names of a shard begin with.
pub(super) fn prefix(shard: u16) -> String {
    format!("wg:{{{shard:02}}}:")
}

/// Where a push task is kept, by its percent-encoded id.
pub(super) fn task(encoded: &str) -> String {
    format!("wg:{{task:{encoded}}}")
}

/// The key of a note.
pub(super) fn note(note: &Note) -> String {
    format!("wg:{{{}}}", note.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_where_the_contract_says() {
        assert_eq!(note(&Note::token("ww:1", "ab12")), "wg:{token:ww%3A1:ab12}");
    }

    #[test]
    fn a_task_stands_where_the_contract_says() {
        assert_eq!(task("crm%3A7"), "wg:{task:crm%3A7}");
    }

    #[test]
    fn a_shard_is_one_hash_tag() {
        assert_eq!(prefix(7), "wg:{07}:");
    }

    #[test]
    fn scripts_merge_as_many_as_we_say() {
        let most = format!("local MOST_MERGED = {}\n", crate::store::MOST_MERGED);
        assert!(include_str!("lua/shared/replies.lua").contains(&most));
    }

    #[test]
    fn scripts_drop_as_many_as_we_say() {
        let most = format!("local MOST_DROPPED = {}\n", crate::store::MOST_DROPPED);
        assert!(include_str!("lua/claim_messages.lua").contains(&most));
    }

    #[test]
    fn scripts_set_aside_for_as_long_as_we_say() {
        let longest = format!("local LONGEST_ASIDE_MS = {}\n", crate::store::LONGEST_ASIDE.as_millis());
        assert!(include_str!("lua/shared/lanes.lua").contains(&longest));
    }

    #[test]
    fn scripts_publish_where_we_subscribe() {
        assert!(include_str!("lua/shared/keys.lua").contains(&format!("local WAKE = '{WAKE}'")));
    }
}
