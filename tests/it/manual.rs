//! What a release carries besides the gateway: its version, what makes shells complete its commands, manual pages; and that a
//! reader who goes away ends no command badly.

use std::io::Write;
use std::process::{Command, Output, Stdio};

const COMMANDS: [&str; 11] =
    ["serve", "check", "explain", "demo", "simulate", "trace", "report", "push", "completions", "man", "reference"];

fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wecom-gateway"))
}

fn run(arguments: &[&str]) -> Output {
    binary().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What bash offers for the last of these words, a line each, as it asks a script itself.
fn offered(script: &str, words: &[&str]) -> String {
    let all = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let [.., before, last] = words else { panic!("a program, and a word to complete") };
    let asked = format!(
        "{script}\nCOMP_WORDS=({all})\nCOMP_CWORD={}\n_wecom__gateway '{}' '{last}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        words.len() - 1,
        words[0],
    );
    let mut bash = Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
    text(&bash.wait_with_output().unwrap().stdout)
}

#[test]
fn the_version_is_the_packages() {
    let said = text(&run(&["--version"]).stdout);
    let (name, version) = said.trim().split_once(' ').unwrap();
    assert_eq!(name, "wecom-gateway");
    assert_eq!(version.split(' ').next(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_shell_completes_every_command() {
    let script = text(&run(&["completions", "bash"]).stdout);
    let offered = offered(&script, &["wecom-gateway", ""]);
    for command in COMMANDS {
        assert!(offered.lines().any(|line| line == command), "{command} is not in {offered}");
    }
    for shell in ["zsh", "fish"] {
        let script = text(&run(&["completions", shell]).stdout);
        assert!(COMMANDS.iter().all(|command| script.contains(command)), "{shell} misses a command");
    }
}

#[test]
fn bash_completes_what_stands_behind_a_command() {
    let script = text(&run(&["completions", "bash"]).stdout);
    for (words, expected) in [
        (&["wecom-gateway", "demo", "--cha"][..], "--chats\n"),
        (&["wecom-gateway", "push", "--file", "f", "--via", ""], "kafka\n"),
        (&["wecom-gateway", "help", "tra"], "trace\n"),
    ] {
        assert_eq!(offered(&script, words), expected, "{words:?}");
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert!(run(&["man", pages.to_str().unwrap()]).status.success());
    let whole = std::fs::read_to_string(pages.join("wecom-gateway.1")).unwrap();
    for command in COMMANDS {
        let page = std::fs::read_to_string(pages.join(format!("wecom-gateway-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
        assert!(whole.contains(&format!("wecom\\-gateway\\-{command}(1)")), "{command} is not in {whole}");
    }
}

#[test]
fn a_folder_that_can_not_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = run(&["man", file.path().join("man1").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.starts_with("can't write manual pages to ") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_reader_who_goes_away_is_no_failure() {
    for arguments in [&["completions", "bash"][..], &["check", "--config", "config/gateway.toml"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = binary().args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        assert!(output.status.success(), "{arguments:?} ended with {}", output.status);
    }
}

#[test]
fn a_full_disk_is_a_failure_that_says_so() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = binary().args(["completions", "bash"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("can't write what there is to say: "), "{}", text(&output.stderr));
}
