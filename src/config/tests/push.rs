//! `[push]`: its default, and its fault.

use std::time::Duration;

use super::{Folder, each_gateway_fault};

#[test]
fn tasks_are_known_for_a_week_unless_said() {
    assert_eq!(Folder::new().settings().push.keep, Duration::from_secs(7 * 86_400));
    assert_eq!(Folder::new().gateway("push.keep = \"2d\"").settings().push.keep, Duration::from_secs(2 * 86_400));
}

#[test]
fn what_would_not_last_is_a_fault() {
    each_gateway_fault(&[
        ("push.keep = \"0s\"", "push.keep", &[]),
        ("push.keep = \"31d\"", "push.keep", &["31d", "[database] retain (30d)"]),
        ("push.keeps = \"1d\"", "push.keeps", &["did you mean \"keep\"?"]),
    ]);
}
