//! `completions SHELL`, `man DIR` and `reference`: what shells, manuals and readers want to know, made from the program itself.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

use super::voice::say;
use super::{Cli, Failure};
use crate::config::reference::{Language, markdown};

/// For which shell.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Completions {
    /// The shell that asks.
    #[arg(value_enum)]
    shell: Shell,
}

/// Where to.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Man {
    /// The folder to write into; it is made where it is not there.
    dir: PathBuf,
}

/// For whom.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Reference {
    /// The language it is written in.
    #[arg(long, value_enum, default_value = "en")]
    language: Language,
}

/// Prints the configuration reference, as Markdown.
pub(super) fn reference(options: Reference) -> Result<(), Failure> {
    Ok(say(markdown(options.language))?)
}

/// Prints what the shell reads.
pub(super) fn completions(options: Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(options.shell, &mut Cli::command(), "wecom-gateway", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let is_bash = options.shell == Shell::Bash;
    Ok(say(if is_bash { one_name_for_each_command(&script) } else { script })?)
}

/// clap_complete writes the name of a command in two ways where the program's own name holds a hyphen, so that nothing is completed
/// behind a subcommand (clap-rs/clap 6421): the loop that finds the command says `wecom__gateway__subcmd__demo`, the arms that
/// complete it `wecom__subcmd__gateway__subcmd__demo`. Once that is mended there, nothing is found to replace.
fn one_name_for_each_command(script: &str) -> String {
    script.replace("wecom__subcmd__gateway", "wecom__gateway")
}

/// Writes a page for the whole and one for each command.
pub(super) fn man(options: Man) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::running(format!(
            "can't write manual pages to {}: {error}; name a folder of yours",
            options.dir.display()
        ))
    };
    std::fs::create_dir_all(&options.dir).map_err(failed)?;
    clap_mangen::generate_to(described(), &options.dir).map_err(failed)
}

/// The commands, with what only a manual says.
fn described() -> Command {
    Cli::command().after_help("Exit codes: 0 done, 1 failed while running, 2 wrong usage or configuration.")
}
