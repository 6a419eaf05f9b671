//! As much of a configuration as one app's callbacks need, for whoever looks at them in a shell of their own: what the gateway's
//! environment has (tokens, webhooks, keys of other apps) need not be there.

use std::collections::BTreeSet;
use std::path::Path;

use super::expand::{Environment, NEEDS};
use super::faults::{Fault, Faults, Ledger};
use super::settings::Settings;
use super::{named, read};

/// What opens an app's callbacks: keys of its file.
const OPENING: [&str; 6] = ["kind", "token", "encoding_aes_key", "receive_id", "corp_id", "auth"];

/// Reads all files as [`super::load`] does, but takes a stand-in for each variable and file that is not there, and passes over the
/// faults of other apps: those that can be read are there nevertheless. Also answers which keys have a stand-in.
///
/// # Errors
/// Faults of `gateway.toml` and of `app`'s own file; also what its token, key and receive id need and is not there.
pub fn load_around(path: &Path, app: &str) -> Result<(Settings, Vec<String>), Faults> {
    load_around_with(path, app, &|name| std::env::var(name).ok())
}

pub(super) fn load_around_with(
    path: &Path,
    app: &str,
    environment: &Environment,
) -> Result<(Settings, Vec<String>), Faults> {
    let own = path.with_file_name("apps").join(format!("{app}.toml"));
    let opens = |fault: &Fault| {
        let key = fault.key.split(['.', '[']).next().unwrap_or_default();
        fault.file == own && OPENING.contains(&key)
    };
    let strict = Ledger::default();
    read(path, environment, &strict, None);
    let missing = faults(strict).into_iter().filter(|fault| fault.message.starts_with(NEEDS));
    let (needed, missing): (Vec<Fault>, Vec<Fault>) = missing.partition(opens);
    let missing: BTreeSet<_> = missing.into_iter().map(|fault| (fault.file, fault.key)).collect();

    let ledger = Ledger::default();
    let stand_in = |name: &str| Some(environment(name).unwrap_or_else(|| stand_in(name)));
    let (settings, _) = read(path, if missing.is_empty() { environment } else { &stand_in }, &ledger, None);
    let files = named(path, &ledger);
    // What opens the callbacks has no stand-in that would do.
    let told = |fault: &Fault| needed.iter().any(|needed| (&needed.file, &needed.key) == (&fault.file, &fault.key));
    let mut wrong = faults(ledger);
    wrong.retain(|fault| {
        let is_missing = missing.contains(&(fault.file.clone(), fault.key.clone()));
        let is_stores = fault.file == path && fault.key == "store.path";
        !is_missing && !is_stores && !told(fault) && (fault.file == own || fault.file == path)
    });
    wrong.extend(needed.iter().cloned());
    Faults::of(wrong)?;
    let missing = missing.into_iter().map(|(file, key)| format!("{}: {key}", file.display())).collect();
    Ok((Settings { files, ..settings }, missing))
}

fn faults(ledger: Ledger) -> Vec<Fault> {
    ledger.close().err().map(|faults| faults.iter().cloned().collect()).unwrap_or_default()
}

/// Stands where a value would: letters, digits and `_`, so that it is taken for a webhook's key too.
fn stand_in(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
