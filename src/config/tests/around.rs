//! As much as one app's callbacks need: what a gateway's environment has, and a shell has not.

use super::{Folder, blames, robot};
use crate::config::around::load_around_with;

/// What can be read of `app` where nothing is set but this variable.
fn around(folder: &Folder, set: &str) -> Result<(Vec<String>, Vec<String>), crate::config::Faults> {
    let read = load_around_with(&folder.path("gateway.toml"), "a", &|name| (name == set).then(|| "Token7".into()));
    read.map(|(settings, missing)| (settings.apps.into_keys().collect(), missing))
}

#[test]
fn what_opens_no_callback_need_not_be_there() {
    let chats =
        "[[chats]]\nid = \"c\"\nwebhook = \"${A_HOOK}\"\n[[chats]]\nid = \"d\"\nwebhook = \"${file:/nowhere/hook}\"\n";
    let action = "[mention]\naction = { type = \"http\", url = \"${ORDERS}\" }\n";
    let folder = Folder::new()
        .gateway("[admin]\ntokens = [{ name = \"ops\", secret = \"${OPS}\", scope = \"admin\" }]\n[database]\nurl = \"${DB}\"")
        .app("a", &robot(&format!("{chats}{action}")).replace("\"Token1\"", "\"${A_TOKEN}\""))
        .app("b", &robot("").replace("\"Token1\"", "\"${B_TOKEN}\""))
        .app("c", "kind = \"teapot\"")
        .app("d", &robot("").replace("Token1", "Token4"));
    let (apps, missing) = around(&folder, "A_TOKEN").unwrap();
    // The stand-in is no token of WeCom's, so `b` is not there; `d` is, for its token may be the one that fits.
    assert_eq!(apps, ["a", "d"]);
    assert_eq!(missing.len(), 6, "{missing:?}");
    assert!(missing.iter().any(|key| key.ends_with("apps/a.toml: chats[0].webhook")), "{missing:?}");
    let faults = around(&folder, "OPS").unwrap_err();
    assert!(blames(&faults, "apps/a.toml", "token", &["A_TOKEN"]) && faults.iter().count() == 1, "{faults}");
}

#[test]
fn what_is_wrong_in_its_own_files_is_told() {
    let folder = Folder::new().gateway("dedup = { max_skew = \"soon\" }").app("a", &robot("bot_nmaes = []"));
    let faults = around(&folder, "").unwrap_err();
    assert!(blames(&faults, "gateway.toml", "dedup.max_skew", &[]), "{faults}");
    assert!(blames(&faults, "apps/a.toml", "bot_nmaes", &[]) && faults.iter().count() == 2, "{faults}");
}
