//! Whose code the binary holds is told in THIRD-PARTY.txt, whole: a new dependency fails here until `scripts/notices` is run.

use std::path::Path;
use std::process::{Command, Output};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/notices");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/THIRD-PARTY.txt");

fn check(file: &Path) -> Output {
    Command::new("python3").arg(SCRIPT).arg("--check").arg(file).output().unwrap()
}

#[test]
fn every_crate_that_is_linked_stands_in_the_notices() {
    let ended = check(Path::new(FILE));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_crate_that_is_missing_is_named() {
    let known = std::fs::read_to_string(FILE).unwrap();
    let without: String = known.split_inclusive('\n').filter(|line| !line.starts_with("tokio ")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), without).unwrap();
    let ended = check(file.path());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("\ntokio 1."), "{said}");
}
