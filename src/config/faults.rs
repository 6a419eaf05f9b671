//! What was read of a configuration and what is wrong with it: every fault of every file, each with its file, its key and its mend.
//!
//! Reading never stops at the first fault: it notes it here, goes on with a stand-in value, and [`super::load`] gives
//! no settings out while anything stands here. No fault holds the value of a secret.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use url::Url;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file it is in.
    pub file: PathBuf,
    /// Dotted key, such as `chats[2].webhook`; empty when it is the file as a whole.
    pub key: String,
    /// What is wrong and what mends it, one line.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, key, message } = self;
        match key.as_str() {
            "" => write!(f, "{}: {message}", file.display()),
            key => write!(f, "{}: {key}: {message}", file.display()),
        }
    }
}

/// All faults of one run, in the order in which they were met; never empty. Displays one line a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// These, where there are any.
    pub(super) fn of(faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self(faults)) }
    }

    /// The faults, one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            let end_of_last = if i == 0 { "" } else { "\n" };
            write!(f, "{end_of_last}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

impl Reading {
    fn told(&self) -> FileRead {
        let mut values = toml::Value::Table(self.values.clone());
        blank(&mut values, "", &self.secrets);
        let digest = hex::encode(self.digest.clone().finalize());
        // Whatever was parsed can be written.
        FileRead { digest, shown: toml::to_string_pretty(&values).unwrap_or_default() }
    }
}

/// Blanks what stands at these paths, unless it only says where the secret is to be found.
fn blank(value: &mut toml::Value, path: &str, secrets: &BTreeSet<String>) {
    if secrets.contains(path) {
        return match value {
            toml::Value::String(text) if is_reference(text) => {}
            toml::Value::String(text) => *text = veiled(text),
            // A password may be written as a number.
            other => *other = toml::Value::String(BLANK.to_owned()),
        };
    }
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                blank(value, &path, secrets);
            }
        }
        toml::Value::Array(items) => {
            for (at, value) in items.iter_mut().enumerate() {
                blank(value, &format!("{path}[{at}]"), secrets);
            }
        }
        _ => {}
    }
}

/// Of an address, where it leads but nothing that opens it; of any other text nothing. A web address is cut behind its host: robots
/// and hooks have their keys in the path as well as in the query.
fn veiled(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return BLANK.to_owned() };
    // Refused where there is no host, and then no user either.
    let hides = |user: &str| if user.is_empty() { "" } else { BLANK };
    let (user, password) = (hides(url.username()), url.password().map(|_| BLANK));
    if url.set_username(user).is_err() | url.set_password(password).is_err() && url.has_host() {
        return BLANK.to_owned();
    }
    if matches!(url.scheme(), "http" | "https") {
        if url.path() != "/" || url.query().is_some() {
            url.set_path(BLANK);
        }
        url.set_query(None);
    } else if url.query().is_some() {
        url.set_query(Some(BLANK));
    }
    url.set_fragment(None);
    if url.cannot_be_a_base() { BLANK.to_owned() } else { url.to_string() }
}

/// `${NAME}` and nothing else.
fn is_reference(text: &str) -> bool {
    text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| !name.contains(['$', '}']))
}

/// Where readers leave the faults they meet, and what they read.
#[derive(Default)]
pub(super) struct Ledger {
    faults: RefCell<Vec<Fault>>,
    files: RefCell<BTreeMap<PathBuf, Reading>>,
    /// Every key that was asked for, in whatever file: what the reference is held against.
    #[cfg(test)]
    asked: RefCell<BTreeSet<String>>,
}

/// A file while it is read.
#[derive(Default)]
struct Reading {
    digest: Sha256,
    values: toml::Table,
    /// Paths of keys whose values nobody may see.
    secrets: BTreeSet<String>,
}

/// What a file says, as far as others may know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRead {
    /// Of all that it says, variables and named files too: another one says that something changed, and tells nothing of it.
    pub digest: String,
    /// Its keys as TOML, secrets blank.
    pub shown: String,
}

/// What stands for a secret.
const BLANK: &str = "***";

impl Ledger {
    /// Notes a fault. A key is blamed once: what a stand-in value breaks further on is not the user's to mend.
    pub(super) fn note(&self, file: &Path, key: &str, message: impl Into<String>) {
        let mut faults = self.faults.borrow_mut();
        if !key.is_empty() && faults.iter().any(|f| f.file == file && f.key == key) {
            return;
        }
        let message = message.into().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        faults.push(Fault { file: file.to_owned(), key: key.to_owned(), message });
    }

    /// Whether a key of a file, or anything beneath it, stands here.
    pub(super) fn blames(&self, file: &Path, key: &str) -> bool {
        let beneath = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        self.faults.borrow().iter().any(|f| f.file == file && f.key.strip_prefix(key).is_some_and(beneath))
    }

    /// Notes what a file says: its text, and the texts of what it names (variables, other files).
    pub(super) fn reads(&self, file: &Path, text: &str) {
        let mut files = self.files.borrow_mut();
        let reading = files.entry(file.to_owned()).or_default();
        reading.digest.update(text.len().to_le_bytes());
        reading.digest.update(text);
    }

    /// Notes the keys of a file.
    pub(super) fn holds(&self, file: &Path, values: &toml::Table) {
        self.files.borrow_mut().entry(file.to_owned()).or_default().values.clone_from(values);
    }

    /// Notes that a key was asked for.
    #[cfg(test)]
    pub(super) fn asks(&self, key: String) {
        self.asked.borrow_mut().insert(key);
    }

    /// Every key that was asked for.
    #[cfg(test)]
    pub(super) fn asked(&self) -> BTreeSet<String> {
        self.asked.borrow().clone()
    }

    /// Notes that nobody may see what a key of a file says.
    pub(super) fn hides(&self, file: &Path, key: String) {
        self.files.borrow_mut().entry(file.to_owned()).or_default().secrets.insert(key);
    }

    /// What was read of each file.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, FileRead> {
        let files = self.files.borrow();
        files.iter().map(|(file, reading)| (file.clone(), reading.told())).collect()
    }

    /// All that was noted, if anything was.
    pub(super) fn close(self) -> Result<(), Faults> {
        Faults::of(self.faults.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_address_only_the_way_is_shown() {
        for (text, shown) in [
            ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=abc", "https://qyapi.weixin.qq.com/***"),
            ("https://open.feishu.cn/open-apis/bot/v2/hook/0123-token", "https://open.feishu.cn/***"),
            ("https://gw:hunter2@orders.example:8443/?key=abc#x", "https://***:***@orders.example:8443/***"),
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/"),
            ("redis://:hunter2@10.0.0.1:6379", "redis://:***@10.0.0.1:6379"),
            ("mysql://gw:hunter2@db/records?ssl-mode=REQUIRED", "mysql://***:***@db/records?***"),
            ("sqlite://data/records.db", "sqlite://data/records.db"),
            ("0123-bare-key", "***"),
            ("mailto:x", "***"),
            ("Token1", "***"),
        ] {
            assert_eq!(veiled(text), shown);
        }
    }

    #[test]
    fn secrets_are_blank_wherever_they_stand_and_references_are_not() {
        let ledger = Ledger::default();
        let file = Path::new("gateway.toml");
        let values = "token = \"abc\"\npin = 4711\nother = \"abc\"\n[[chats]]\nwebhook = \"${HOOK}\"\n[[chats]]\nwebhook = \"x${HOOK}\"\n";
        ledger.reads(file, values);
        ledger.holds(file, &values.parse().unwrap());
        for key in ["token", "pin", "chats[0].webhook", "chats[1].webhook"] {
            ledger.hides(file, key.to_owned());
        }
        let shown: toml::Table = ledger.files()[file].shown.parse().unwrap();
        let expected: toml::Table =
            "token = \"***\"\npin = \"***\"\nother = \"abc\"\n[[chats]]\nwebhook = \"${HOOK}\"\n[[chats]]\nwebhook = \"***\"\n"
                .parse()
                .unwrap();
        assert_eq!(shown, expected);
    }
}
