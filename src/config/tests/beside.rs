//! The files read again while a gateway runs: what can't change meanwhile judges the rest.

use super::{Folder, blames, json, robot};
use crate::config::{Unfit, load_beside_with};

/// What a gateway that runs by the files of `before` makes of those of `now`.
fn beside(before: &Folder, now: &Folder) -> Result<Vec<&'static str>, Unfit> {
    let taken = load_beside_with(&now.path("gateway.toml"), &before.settings(), &|_| None);
    taken.map(|(_, keys)| keys)
}

#[test]
fn what_can_not_change_judges_the_rest() {
    let (usual, chat) = (robot(""), robot("[session]\nscope = \"chat\""));
    // What runs; what the files say now; what can't change; what does not go with it.
    let cases = [
        ("", "workers = { order = \"chat\" }", &chat, "workers", "apps/a.toml", "session.scope"),
        (
            "server = { drain = \"3s\" }",
            "server = { deadline = \"4s\", drain = \"5s\" }",
            &usual,
            "server.drain",
            "gateway.toml",
            "server.drain",
        ),
        (
            "",
            "database = { retain = \"60d\" }\npush = { keep = \"50d\" }",
            &usual,
            "database",
            "gateway.toml",
            "push.keep",
        ),
    ];
    for (before, process, app, stands, file, key) in cases {
        let before = Folder::new().gateway(before).app("a", &usual);
        match beside(&before, &Folder::new().gateway(process).app("a", app)) {
            Err(Unfit::NeedsRestart { keys, faults }) => {
                assert!(keys == [stands] && blames(&faults, file, key, &[]), "{process}: {keys:?} {faults}");
                let told = Unfit::NeedsRestart { keys, faults }.to_string();
                assert!(told.starts_with(&format!("{stands} can't change before a restart")), "{told}");
                assert_eq!(told.lines().count(), 1, "{told}");
            }
            other => panic!("{process}: {other:?}"),
        }
    }
}

#[test]
fn what_stands_is_judged_by_before_a_stranger_may_post() {
    let open = Folder::new().gateway("server = { listen = \"0.0.0.0:8080\" }").app("a", &json(""));
    let trusting = Folder::new().app("a", "kind = \"json\"\nauth = { type = \"none\" }");
    match beside(&open, &trusting) {
        Err(Unfit::NeedsRestart { faults, .. }) => {
            assert!(blames(&faults, "apps/a.toml", "auth.type", &[]), "{faults}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_next_start_would_refuse_is_refused_now() {
    let before =
        Folder::new().gateway("workers = { order = \"chat\" }").app("a", &robot("[session]\nscope = \"chat\""));
    let now = Folder::new().app("a", &robot("[session]\nscope = \"chat\""));
    match beside(&before, &now) {
        Err(Unfit::Faulty(faults)) => assert!(blames(&faults, "apps/a.toml", "session.scope", &[]), "{faults}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(beside(&before, &before).expect("as it was"), Vec::<&str>::new());
}
