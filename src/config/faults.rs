//! What was read of a configuration and what is wrong with it: every fault of every file, each with its file, its key and its mend.
//!
//! Reading never stops at the first fault: it notes it here, goes on with a stand-in value, and [`super::load`] gives
//! no settings out while anything stands here. No fault holds the value of a secret.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

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

/// Where readers leave the faults they meet, and a digest of what they read.
#[derive(Default)]
pub(super) struct Ledger {
    faults: RefCell<Vec<Fault>>,
    digests: RefCell<BTreeMap<PathBuf, Sha256>>,
}

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
        let mut digests = self.digests.borrow_mut();
        let digest = digests.entry(file.to_owned()).or_default();
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    }

    /// A hex digest of what each file says: another one says that something changed, and tells nothing of it.
    pub(super) fn digests(&self) -> BTreeMap<PathBuf, String> {
        let digests = self.digests.borrow();
        digests.iter().map(|(file, digest)| (file.clone(), hex::encode(digest.clone().finalize()))).collect()
    }

    /// All that was noted, if anything was.
    pub(super) fn close(self) -> Result<(), Faults> {
        let faults = self.faults.into_inner();
        if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
    }
}
