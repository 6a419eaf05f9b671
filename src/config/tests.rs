//! The whole loader on files in a temporary folder: one test a class of fault, each looking for file, key and mend.

mod alarms;
mod apps;
mod around;
mod beside;
#[cfg(feature = "kafka")]
mod kafka;
mod process;
mod push;
mod reference;
mod report;
mod rules;
mod telemetry;
mod whole;

use std::path::PathBuf;

use tempfile::TempDir;

use super::{Faults, Settings, load_with};
use crate::rules::RuleSet;

/// The key that WeCom's own documents use: its last character carries bits that decode to nothing.
const AES_KEY: &str = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C";

/// A configuration folder; `OPS_TOKEN` is the one variable that is set.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(folder.0.path().join("apps")).unwrap();
        folder.file("gateway.toml", "")
    }
    fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.path(name), text).unwrap();
        self
    }
    fn gateway(self, text: &str) -> Self {
        self.file("gateway.toml", text)
    }
    fn app(self, id: &str, text: &str) -> Self {
        self.file(&format!("apps/{id}.toml"), text)
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn load(&self) -> Result<Settings, Faults> {
        load_with(&self.path("gateway.toml"), &|name| (name == "OPS_TOKEN").then(|| "ops-secret".into()))
    }
    /// What loads must also be usable: `serve` may not refuse what `check` takes.
    fn settings(&self) -> Settings {
        let settings = self.load().unwrap_or_else(|faults| panic!("should load:\n{faults}"));
        for app in settings.apps.values() {
            RuleSet::compile(app).unwrap();
        }
        settings
    }
    fn faults(&self) -> Faults {
        self.load().expect_err("should be refused")
    }
}

/// A group robot that is good as it stands, and more.
fn robot(more: &str) -> String {
    format!("kind = \"group_robot\"\ntoken = \"Token1\"\nencoding_aes_key = \"{AES_KEY}\"\n{more}")
}

/// A JSON app that is good as it stands, and more.
fn json(more: &str) -> String {
    format!("kind = \"json\"\nauth = {{ type = \"header\", name = \"X-Token\", value = \"v\" }}\n{more}")
}

/// Whether some fault is of this file and key and holds all these words.
fn blames(faults: &Faults, file: &str, key: &str, words: &[&str]) -> bool {
    faults.iter().any(|f| f.file.ends_with(file) && f.key == key && words.iter().all(|word| f.message.contains(word)))
}

/// Each text makes exactly one fault in `gateway.toml`: at this key, with these words.
fn each_gateway_fault(cases: &[(&str, &str, &[&str])]) {
    for (text, key, words) in cases {
        let faults = Folder::new().gateway(text).faults();
        assert!(blames(&faults, "gateway.toml", key, words) && faults.iter().count() == 1, "{text}\n→ {faults}");
    }
}

/// Each app file makes exactly one fault: at this key, with these words.
fn each_app_fault(cases: &[(String, &str, &[&str])]) {
    for (text, key, words) in cases {
        let faults = Folder::new().app("a", text).faults();
        assert!(blames(&faults, "apps/a.toml", key, words) && faults.iter().count() == 1, "{text}\n→ {faults}");
    }
}
