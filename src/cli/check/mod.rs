//! `check`: loads everything that `serve` would and says what is at fault; with `--online`, also whether WeCom, the team's own
//! services, Redis, the records' database and Kafka can be reached from here. Nothing is ever sent.

mod api;
mod hints;
mod online;
mod reach;
mod stores;

use std::path::Path;

use super::{ConfigFile, Failure, MISCONFIGURED, doors, load};
use crate::cli::voice::say;
use crate::config::settings::AppKind;
use crate::config::{Settings, settings};
use crate::push::Kafka;

/// What is checked.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    file: ConfigFile,
    /// Also ask WeCom for an access token of each app, see whether each host that is sent to or asked answers, connect to Redis and to the
    /// database as serve would, and ask Kafka's brokers how long the topic keeps tasks. Sends no message.
    #[arg(long)]
    online: bool,
}

pub(super) fn run(options: Options) -> Result<(), Failure> {
    let settings = load(&options.file)?;
    stores::set_up_alike(&settings, &options.file.config)?;
    Kafka::check(&settings).map_err(|fault| Failure { code: MISCONFIGURED, text: fault.to_string() })?;
    say(sound(&settings, &options.file.config))?;
    if options.online { online::run(&settings, &options.file.config) } else { Ok(()) }
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
    if let Some(why) = crate::config::alone(settings) {
        text.push_str(&format!("\nHint: {why}."));
    }
    let of_apps = settings.apps.values().flat_map(|app| hints::of_an_app(app));
    let of_process = hints::of_dedup(settings).into_iter().chain(hints::of_push(&settings.push));
    for hint in doors::open(settings).into_iter().chain(of_process).chain(of_apps) {
        text.push_str(&format!("\nHint: {hint}"));
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
            let auth = "auth = { type = \"header\", name = \"X-Token\", value = \"a-secret-of-length\" }";
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
        let routed = "{ id = \"c\", webhook = \"693a91f6-7aaa-4bc4-97a0-0ec2acfa5aaa\" }";
        assert_eq!(said(&[routed]), "The configuration is sound: 1 app, 1 chat, 0 without a route.");
        let two = said(&[routed, "{ id = \"d\" }, { id = \"e\", webhook = \"693a91f6-7aaa-4bc4-97a0-0ec2acfa5aab\" }"]);
        assert!(two.starts_with("The configuration is sound: 2 apps, 3 chats, 1 without a route.\n"), "{two}");
        assert!(two.ends_with("give it a webhook: \"d\" of app \"a1\"."), "{two}");
    }

    #[test]
    fn redis_beside_a_file_is_for_one_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("gateway.toml");
        std::fs::create_dir(folder.path().join("apps")).unwrap();
        let app = "kind = \"json\"\nauth = { type = \"header\", name = \"X-Token\", value = \"a-secret-of-length\" }";
        std::fs::write(folder.path().join("apps/a.toml"), app).unwrap();
        let said = |text: &str| {
            std::fs::write(&config, text).unwrap();
            sound(&load(&ConfigFile { config: config.clone() }).unwrap(), &config).contains("right for one gateway")
        };
        let redis = "[store]\nbackend = \"redis\"\n";
        assert!(said(redis) && !said(""));
        assert!(!said(&format!("{redis}[database]\nurl = \"mysql://gw:x@db/records\"\n")));
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
