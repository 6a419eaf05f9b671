//! Tells the binary which commit it is built of: `WECOM_GATEWAY_COMMIT` where that is set (an image is built without the
//! repository), else what git says. Release builds alone ask git, so that while one writes a commit costs no build.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=WECOM_GATEWAY_COMMIT");
    let given = std::env::var("WECOM_GATEWAY_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(commit_of_git).flatten());
    let version = env!("CARGO_PKG_VERSION");
    match commit {
        Some(commit) => println!("cargo:rustc-env=WECOM_GATEWAY_VERSION={version} ({})", commit.trim()),
        None => println!("cargo:rustc-env=WECOM_GATEWAY_VERSION={version}"),
    }
}

fn commit_of_git() -> Option<String> {
    // Moves with every commit, reset and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo:rerun-if-changed={log}");
    println!("cargo:rerun-if-changed=src");
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
