//! The commands. Exit codes: 0 done, 1 failed while running, 2 wrong usage or configuration. An error is one sentence
//! on stderr that names the thing and the mend.

mod compare;
mod demo;
mod empty_redis;
mod figures;
mod operator;
mod progress;
mod push;
mod report;
mod serve;
mod simulate;
mod stage;
mod table;
mod trace;
mod values;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::app::AppError;
use crate::config::settings::AppKind;
use crate::config::{self, Settings, settings};
use crate::store::StoreError;

/// Gateway between WeCom and a team's own services.
#[derive(Debug, Parser)]
#[command(name = "wecom-gateway", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway until SIGTERM or SIGINT.
    Serve(ConfigFile),
    /// Load and validate everything that `serve` would; prints each fault with file, key and mend.
    Check(ConfigFile),
    /// Everything in one process against a fake WeCom: a load with its result as a table.
    Demo(demo::Options),
    /// The same load and fake WeCom against a gateway that already runs.
    Simulate(Box<simulate::Options>),
    /// The whole way of a message, by msg_id, request_id, delivery id or task id, from a running gateway.
    Trace(trace::Options),
    /// A day's statistics, from a running gateway.
    Report(report::Options),
    /// Hand push tasks, one a line of a file, to a running gateway.
    Push(push::Options),
}

#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// The process's configuration; its apps are in `apps/` beside it.
    #[arg(long, default_value = "config/gateway.toml")]
    config: PathBuf,
}

const FAILED: u8 = 1;
const MISCONFIGURED: u8 = 2;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // clap ends wrong usage with 2 by itself.
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(file) => load(&file).and_then(|settings| serve::run(settings, file.config)),
        Command::Check(file) => load(&file).map(|settings| println!("{}", sound(&settings, &file.config))),
        Command::Demo(options) => demo::run(options),
        Command::Simulate(options) => simulate::run(*options),
        Command::Trace(options) => trace::run(options),
        Command::Report(options) => report::run(options),
        Command::Push(options) => push::run(options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.text.is_empty() {
                eprintln!("{}", failure.text.trim_end());
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Why a command ended badly.
#[derive(Debug)]
struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    fn running(text: impl ToString) -> Self {
        Self { code: FAILED, text: text.to_string() }
    }
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        // What the configuration says can't be had: wrong configuration, not bad luck.
        let code = match &error {
            AppError::Store(StoreError::Refused(_)) | AppError::Rules(_) => MISCONFIGURED,
            AppError::Store(_) | AppError::Records(_) | AppError::Listen { .. } | AppError::Http(_) => FAILED,
        };
        Self { code, text: error.to_string() }
    }
}

fn load(file: &ConfigFile) -> Result<Settings, Failure> {
    config::load(&file.config).map_err(|faults| Failure { code: MISCONFIGURED, text: faults.to_string() })
}

/// What `check` says of a configuration without a fault: what is in it, and what is sound but can hardly be meant.
fn sound(settings: &Settings, config: &Path) -> String {
    const NAMED: usize = 5;
    let folder = config.with_file_name("apps");
    if settings.apps.is_empty() {
        let mend = format!("write one, such as {}", folder.join("support.toml").display());
        return format!("The configuration is sound, but has 0 apps, so that no callback is taken: {mend}.");
    }
    let chats = || settings.apps.values().flat_map(|app| app.chats.values().map(move |chat| (app, chat)));
    let silent: Vec<String> = chats()
        .filter(|(app, chat)| chat.way.is_none() && !answers_everywhere(app))
        .map(|(app, chat)| format!("{:?} of app {:?}", chat.id, app.id))
        .collect();
    let (apps, all) = (counted(settings.apps.len(), "app"), counted(chats().count(), "chat"));
    let mut text = format!("The configuration is sound: {apps}, {all}, {} without a route.", silent.len());
    for id in settings
        .apps
        .iter()
        .filter(|(_, app)| matches!(app.kind, AppKind::App(_)) && app.api.is_none())
        .map(|(id, _)| id)
    {
        let mend = "write corp_id, agent_id and secret";
        text.push_str(&format!(
            "\nHint: app {id:?} can't answer its one-to-one chats, replies there are dropped: {mend}."
        ));
    }
    if silent.is_empty() {
        return text;
    }
    let named = silent[..silent.len().min(NAMED)].join(", ");
    let more = silent.len().checked_sub(NAMED).filter(|n| *n > 0).map(|n| format!(" and {n} more")).unwrap_or_default();
    format!("{text}\nHint: replies to a chat without a route are dropped; give it a webhook: {named}{more}.")
}

/// Whether every chat of the app can be answered without an entry of its own.
fn answers_everywhere(app: &settings::App) -> bool {
    match app.kind {
        AppKind::Json(_) => app.gateway.is_some(),
        AppKind::Aibot(_) => true,
        AppKind::App(_) | AppKind::GroupRobot(_) => false,
    }
}

/// `1 app`, `2 apps`.
fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::running)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `check` says of these `[[chats]]`, a list an app; each app is a JSON webhook that is good as it stands.
    fn said(apps: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("gateway.toml");
        std::fs::write(&config, "").unwrap();
        std::fs::create_dir(folder.path().join("apps")).unwrap();
        for (i, chats) in apps.iter().enumerate() {
            let auth = "auth = { type = \"header\", name = \"X-Token\", value = \"v\" }";
            let text = format!("kind = \"json\"\n{auth}\nchats = [{chats}]\n");
            std::fs::write(folder.path().join(format!("apps/a{i}.toml")), text).unwrap();
        }
        let settings = load(&ConfigFile { config: config.clone() }).unwrap();
        sound(&settings, &config)
    }

    #[test]
    fn check_counts_apps_chats_and_chats_without_a_route() {
        let none = said(&[]);
        assert!(none.contains("0 apps") && none.contains("apps/support.toml"), "{none}");
        let routed = "{ id = \"c\", webhook = \"k\" }";
        assert_eq!(said(&[routed]), "The configuration is sound: 1 app, 1 chat, 0 without a route.");
        let two = said(&[routed, "{ id = \"d\" }, { id = \"e\", webhook = \"k2\" }"]);
        assert!(two.starts_with("The configuration is sound: 2 apps, 3 chats, 1 without a route.\n"), "{two}");
        assert!(two.ends_with("give it a webhook: \"d\" of app \"a1\"."), "{two}");
    }

    #[test]
    fn check_names_five_chats_without_a_route_at_most() {
        let chats = |n: usize| (1..=n).map(|i| format!("{{ id = \"c{i}\" }}")).collect::<Vec<_>>().join(", ");
        let five = said(&[&chats(5)]);
        assert!(five.contains("\"c5\"") && !five.contains("more"), "{five}");
        let seven = said(&[&chats(7)]);
        assert!(seven.contains("7 without") && seven.ends_with("\"c5\" of app \"a0\" and 2 more."), "{seven}");
    }
}
