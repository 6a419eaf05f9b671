//! The check behind "each message once": a message must be remembered for longer than anything could bring it back.
//!
//! A copy may arrive as late as its timestamp may be old (`max_skew`, and up to 5 minutes ahead), and may then still be
//! handled for `max_reply_age`; a worker that died in the middle is followed by a second one, each with its own action
//! and send. `dedup.ttl`, or an app's own `dedup_ttl`, must outlast both.

use std::cmp::Reverse;
use std::path::Path;
use std::time::Duration;

use super::app::AppFile;
use super::reader::Source;
use super::settings::Settings;
use super::units::show;

/// How far ahead of our clock a callback's timestamp may be, whatever `max_skew` says of its past.
pub(crate) const MAX_AHEAD: Duration = Duration::from_secs(5 * 60);

/// Something that a time to live must outlast.
struct Need<'a> {
    file: &'a Path,
    key: &'static str,
    ttl: Duration,
    least: Duration,
    why: String,
}

/// Blames each time to live that is too short, by the longest need it doesn't meet.
pub(super) fn check(gateway: &Source, settings: &Settings, apps: &[AppFile]) {
    let unsound = |file: &Path, keys: &[&str]| keys.iter().any(|key| gateway.ledger.blames(file, key));
    if unsound(&gateway.file, &["dedup.ttl", "dedup.max_skew"]) {
        return;
    }
    let mut needs = vec![of_process(gateway, settings)];
    for app in apps.iter().filter(|app| !unsound(&app.file, &["kind", "max_reply_age", "dedup_ttl"])) {
        needs.extend(of_app(gateway, settings, app));
    }
    needs.retain(|need| need.ttl < need.least);
    needs.sort_by_key(|need| Reverse(need.least));
    for need in needs {
        let (ttl, least) = (show(need.ttl), show(need.least));
        let message = format!(
            "{ttl} is below {least}, which is {}: a repeat could be handled twice; write at least \"{least}\"",
            need.why
        );
        gateway.ledger.note(need.file, need.key, message);
    }
}

/// `dedup.ttl` by itself, with no app yet.
fn of_process<'a>(gateway: &'a Source, settings: &Settings) -> Need<'a> {
    let skew = settings.dedup.max_skew.unwrap_or_default();
    let why = format!("[dedup] max_skew ({}) + 5m", show(skew));
    Need { file: &gateway.file, key: "dedup.ttl", ttl: settings.dedup.ttl, least: skew + MAX_AHEAD, why }
}

fn of_app<'a>(gateway: &'a Source, settings: &Settings, app: &'a AppFile) -> [Need<'a>; 2] {
    let (file, key) = if app.shares_ttl { (&gateway.file, "dedup.ttl") } else { (&app.file, "dedup_ttl") };
    let need = |least, why| Need { file, key, ttl: app.dedup_ttl, least, why };
    let age = app.max_reply_age;
    let (action, send) = (app.longest_action, settings.sender.timeout);
    let return_of_a_copy = match settings.dedup.max_skew.filter(|_| app.has_timestamps) {
        Some(skew) => {
            let why =
                format!("[dedup] max_skew ({}) + 5m + max_reply_age ({}) of app {:?}", show(skew), show(age), app.id);
            need(skew + MAX_AHEAD + age, why)
        }
        None => need(MAX_AHEAD + age, format!("5m + max_reply_age ({}) of app {:?}", show(age), app.id)),
    };
    let why = format!(
        "twice the longest action ({}) of app {:?} and [sender] timeout ({})",
        show(action),
        app.id,
        show(send)
    );
    [return_of_a_copy, need(2 * (action + send), why)]
}
