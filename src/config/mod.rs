//! TOML to checked settings: the process (`gateway.toml`) and its apps (`apps/<id>.toml` beside it).
//!
//! [`load`] reads all files, and either all of them are good or it tells every fault of every file in one run, each
//! with file, key and mend, and no secret. So the settings need no second look later on.
//!
//! - `faults`: what is wrong, and the ledger where readers leave it;
//! - `reader`: one table, key by key, unknown keys told at its end; `expand` and `units` read its strings, `files` what
//!   they name;
//! - `gateway`, `alarms`, `report`, `kafka`, `telemetry`, `app`, `kind`, `rules`, `action`, `route`: the parts of the files; `strength`: of secrets; `memory`: the check of P1 across them;
//! - `around`: as much as one app's callbacks need;
//! - `difference`: what a file says otherwise than before;
//! - [`mod@reference`]: every key, in words;
//! - [`settings`]: the result.

mod action;
mod alarms;
mod alone;
mod app;
mod around;
mod difference;
mod expand;
mod faults;
mod files;
mod gateway;
mod kafka;
mod kind;
mod llm;
mod manners;
mod memory;
mod reader;
pub mod reference;
mod report;
mod route;
mod rules;
mod session;
pub mod settings;
mod strength;
mod telemetry;
#[cfg(test)]
mod tests;
pub(crate) mod units;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use alone::alone;
use app::AppFile;
pub(crate) use app::ROBOT_PACE;
pub use around::load_around;
pub use difference::difference;
use expand::Environment;
use faults::Ledger;
pub use faults::{Fault, Faults, FileRead};
pub(crate) use memory::MAX_AHEAD;
use reader::Source;
pub(crate) use reader::nearest;
pub(crate) use route::{OFFICIAL_HOST, is_loopback};
pub use settings::Settings;
pub(crate) use strength::of_short;

/// Reads `gateway.toml` at `path` and the apps beside it.
///
/// # Errors
/// Every fault of every file, if there is any.
pub fn load(path: &Path) -> Result<Settings, Faults> {
    load_with(path, &|name| std::env::var(name).ok())
}

/// What each file of a configuration says, by its name: `gateway.toml` or `apps/<id>.toml`.
pub type Files = BTreeMap<String, FileRead>;

/// What the files say now, good or not.
pub fn look_at(path: &Path) -> Files {
    let ledger = Ledger::default();
    let _ = read(path, &|name| std::env::var(name).ok(), &ledger, None);
    named(path, &ledger)
}

/// Reads the configuration again while `before` is in force: what can't change meanwhile stays as it is there, and all else is
/// judged by that. Also answers the keys that want something else from the next start on.
///
/// # Errors
/// [`Unfit`]: the files have to be sound by themselves, and beside what stays.
pub fn load_beside(path: &Path, before: &Settings) -> Result<(Settings, Vec<&'static str>), Unfit> {
    load_beside_with(path, before, &|name| std::env::var(name).ok())
}

/// Why a running gateway can't take its files as they are now.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// They have faults.
    #[error("{0}")]
    Faulty(#[from] Faults),
    /// They are sound, but a restart is needed first.
    #[error(
        "{} can't change before a restart, and beside what stands until then the rest has faults: {}; restart the gateway, or \
         take these changes apart", keys.join(", "), faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    NeedsRestart {
        /// What can't change.
        keys: Vec<&'static str>,
        /// What does not go with it as it stands.
        faults: Faults,
    },
}

fn load_with(path: &Path, environment: &Environment) -> Result<Settings, Faults> {
    judged(path, environment, None).0
}

fn load_beside_with(
    path: &Path,
    before: &Settings,
    environment: &Environment,
) -> Result<(Settings, Vec<&'static str>), Unfit> {
    load_with(path, environment)?;
    match judged(path, environment, Some(before)) {
        (Ok(settings), keys) => Ok((settings, keys)),
        (Err(faults), keys) => Err(Unfit::NeedsRestart { keys, faults }),
    }
}

/// What the files say, where that is sound; and what of it was put back.
fn judged(
    path: &Path,
    environment: &Environment,
    before: Option<&Settings>,
) -> (Result<Settings, Faults>, Vec<&'static str>) {
    let ledger = Ledger::default();
    let (settings, kept) = read(path, environment, &ledger, before);
    let files = named(path, &ledger);
    (ledger.close().map(|()| Settings { files, ..settings }), kept)
}

/// What was read, by the names that operators are told.
fn named(gateway: &Path, ledger: &Ledger) -> Files {
    let folder = gateway.parent().unwrap_or(Path::new(""));
    let name = |file: PathBuf| file.strip_prefix(folder).unwrap_or(&file).display().to_string();
    ledger.files().into_iter().map(|(file, read)| (name(file), read)).collect()
}

/// Reads everything; what comes out is of use only while the ledger holds no fault. What stands of `before` is put back in front
/// of every check across sections and files; its keys are answered.
fn read(
    path: &Path,
    environment: &Environment,
    ledger: &Ledger,
    before: Option<&Settings>,
) -> (Settings, Vec<&'static str>) {
    let gateway = Source { file: path.to_owned(), ledger, environment };
    let read = gateway.read(gateway::settings);
    let readable = read.is_some();
    let mut settings = read.unwrap_or_else(|| unknown_settings(&gateway));
    let kept = before.filter(|_| readable).map(|before| settings.keep_what_stands(before)).unwrap_or_default();
    let apps = apps(&gateway, &settings);
    let alarms = alarms::robot(&gateway, &settings.alarms, &settings.wecom);
    let report = report::robot(&gateway, &settings.report, &settings.alarms, &settings.wecom);
    route::once_each(apps.iter().flat_map(|app| &app.webhooks).chain(&alarms).chain(&report), ledger);
    if readable {
        gateway::across(&gateway, &settings);
        memory::check(&gateway, &settings, &apps);
        folder(&gateway, &settings.store.path);
    }
    settings.apps = apps.into_iter().filter_map(|file| Some((file.id, Arc::new(file.app?)))).collect();
    (settings, kept)
}

/// Blames a `[store] path` that can't be used, the default one too.
fn folder(gateway: &Source, path: &Path) {
    if let Err(mend) = files::folder(path, files::may_write) {
        gateway.ledger.note(&gateway.file, "store.path", format!("{path:?} {mend}"));
    }
}

/// Reads only `[admin]` of the `gateway.toml` at `path`, so that nothing that the rest needs (variables, files) has to be there.
///
/// # Errors
/// Every fault of that section, or of the file as a whole.
pub fn admin(path: &Path) -> Result<settings::Admin, Faults> {
    admin_with(path, &|name| std::env::var(name).ok())
}

fn admin_with(path: &Path, environment: &Environment) -> Result<settings::Admin, Faults> {
    let ledger = Ledger::default();
    let gateway = Source { file: path.to_owned(), ledger: &ledger, environment };
    let admin = gateway.read(gateway::admin_alone).unwrap_or_else(|| gateway.defaults(gateway::admin_alone));
    ledger.close()?;
    Ok(admin)
}

/// As [`admin`], for who brings a token: only where it listens, so that no secret of a token has to be there either.
///
/// # Errors
/// A fault of that address, or of the file as a whole.
pub fn admin_address(path: &Path) -> Result<SocketAddr, Faults> {
    let ledger = Ledger::default();
    let environment = |name: &str| std::env::var(name).ok();
    let gateway = Source { file: path.to_owned(), ledger: &ledger, environment: &environment };
    let listen = gateway.read(gateway::admin_address).unwrap_or_else(|| gateway.defaults(gateway::admin_address));
    ledger.close()?;
    Ok(listen)
}

/// Reads app files without the `gateway.toml` that they belong to: every host is taken for a webhook's, and everything of
/// the process has its default.
///
/// # Errors
/// Every fault of every file, if there is any.
pub fn load_apps(files: &[PathBuf]) -> Result<Vec<Arc<settings::App>>, Faults> {
    let ledger = Ledger::default();
    let environment = |name: &str| std::env::var(name).ok();
    let source = |file: &Path| Source { file: file.to_owned(), ledger: &ledger, environment: &environment };
    let process = unknown_settings(&source(Path::new("")));
    let apps: Vec<AppFile> = files.iter().filter_map(|file| app(source(file), &process)).collect();
    route::once_each(apps.iter().flat_map(|app| &app.webhooks), &ledger);
    ledger.close()?;
    Ok(apps.into_iter().filter_map(|file| Some(Arc::new(file.app?))).collect())
}

/// What apps are checked against when `gateway.toml` can't be read: nothing in it may make a fault of theirs.
fn unknown_settings(gateway: &Source) -> Settings {
    let mut settings = gateway.defaults(gateway::settings);
    settings.wecom.webhook_hosts.clear();
    settings
}

/// Reads `apps/*.toml` beside `gateway.toml`, in the order of their names. Hidden files are left alone.
fn apps(gateway: &Source, process: &Settings) -> Vec<AppFile> {
    let folder = gateway.file.with_file_name("apps");
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(e) => {
            gateway.ledger.note(&folder, "", format!("can't be read ({e}): make it a folder that this user may list"));
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension() == Some(OsStr::new("toml")) && !is_hidden(file));
    files.sort();
    files.into_iter().filter_map(|file| app(Source { file, ..*gateway }, process)).collect()
}

fn is_hidden(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn app(source: Source, process: &Settings) -> Option<AppFile> {
    let id = source.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let may_stand = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if !(1..=64).contains(&id.len()) || !id.chars().all(may_stand) {
        let message = format!("{id:?} can't be an app's id: name the file with 1 to 64 of a-z, 0-9, \"_\" and \"-\"");
        source.ledger.note(&source.file, "", message);
    }
    app::read(&source, &id, process)
}
