//! `[session]` of an app: whose words are remembered together, how much of them and for how long.

use std::time::Duration;

use super::reader::Table;
use super::settings::{Order, Session, SessionScope, Workers};
use super::units;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the section; messages are handled in the order of `workers`.
pub(super) fn session(t: &mut Table, workers: &Workers) -> Session {
    let scopes = [("sender", SessionScope::Sender), ("chat", SessionScope::Chat)];
    let scope = t.word("scope", &scopes).unwrap_or(SessionScope::Sender);
    if scope == SessionScope::Chat && workers.order != Order::Chat {
        t.fault(
            "scope",
            "\"chat\" needs [workers] order = \"chat\" in gateway.toml: two members handled at once would overwrite each \
             other's words; write that, or scope = \"sender\"",
        );
    }
    let whole = |n: Option<u64>, default| n.and_then(|n| usize::try_from(n).ok()).unwrap_or(default);
    Session {
        scope,
        turns: whole(t.whole("turns", 2..=1000), 20),
        keep: t.span("keep", DAY),
        max_turn: t.parsed("max_turn", units::size).unwrap_or(2048),
        max_vars: t.parsed("max_vars", units::size).unwrap_or(16 * 1024),
        archive: t.flag("archive", true),
    }
}
