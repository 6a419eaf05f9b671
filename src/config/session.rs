//! `[session]` of an app: whose words are remembered together, how much of them and for how long.

use super::reader::Table;
use super::settings::{Order, Session, SessionScope, Workers};
use super::units::{self, Mend};

/// Reads the section; messages are handled in the order of `workers`.
pub(super) fn session(t: &mut Table, workers: &Workers) -> Session {
    let default = Session::default();
    let scopes = [("sender", SessionScope::Sender), ("chat", SessionScope::Chat)];
    let scope = t.word("scope", &scopes).unwrap_or(default.scope);
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
        turns: whole(t.whole("turns", 2..=1000), default.turns),
        keep: t.span("keep", default.keep),
        max_turn: t.parsed("max_turn", bounded).unwrap_or(default.max_turn),
        max_vars: t.parsed("max_vars", bounded).unwrap_or(default.max_vars),
        archive: t.flag("archive", default.archive),
    }
}

/// The store reads a session with every message, and a database takes an exchange in one packet.
fn bounded(text: &str) -> Result<usize, Mend> {
    match units::size(text) {
        Ok(0) => Err("keeps nothing: write a larger size, such as \"4KiB\"".into()),
        Ok(bytes) if bytes > 1 << 20 => Err("is more than a session may hold: write at most \"1MiB\"".into()),
        other => other,
    }
}
