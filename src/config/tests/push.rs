//! `[push]`: its default, and its fault.

use std::time::Duration;

use super::{Folder, each_gateway_fault};

#[test]
fn tasks_are_known_for_a_week_unless_said() {
    assert_eq!(Folder::new().settings().push.keep, Duration::from_secs(7 * 86_400));
    assert_eq!(Folder::new().gateway("push.keep = \"2d\"").settings().push.keep, Duration::from_secs(2 * 86_400));
}

#[test]
fn wecom_is_asked_after_a_minute_unless_said() {
    assert_eq!(Folder::new().settings().push.ask_after, Duration::from_secs(60));
    assert_eq!(Folder::new().gateway("push.ask_after = \"10s\"").settings().push.ask_after, Duration::from_secs(10));
}

#[test]
fn what_would_not_last_is_a_fault() {
    each_gateway_fault(&[
        ("push.keep = \"0s\"", "push.keep", &[]),
        ("push.ask_after = \"0s\"", "push.ask_after", &[]),
        ("push.keep = \"31d\"", "push.keep", &["31d", "[database] retain (30d)"]),
        ("push.compensate_after = \"0s\"", "push.compensate_after", &["longer"]),
        ("push.compensate_looks = 0", "push.compensate_looks", &["1 to 100"]),
        ("push.keeps = \"1d\"", "push.keeps", &["did you mean \"keep\"?"]),
    ]);
}

#[test]
fn unknown_pushes_are_looked_at_for_some_hours_unless_told_otherwise() {
    let looks = |text: &str| {
        let push = Folder::new().gateway(text).settings().push;
        (push.compensate_after, push.compensate_looks)
    };
    assert_eq!(looks(""), (Duration::from_secs(60), 7));
    let told = "push = { compensate_after = \"5m\", compensate_looks = 3 }";
    assert_eq!(looks(told), (Duration::from_secs(300), 3));
}
