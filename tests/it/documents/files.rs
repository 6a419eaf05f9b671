//! The configurations that pages show, as files: each is whole (a `gateway.toml`, its apps, what variables stand for), so
//! that what somebody copies loads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use regex::Regex;

use super::page::{Block, pages};

/// What stands in where a page shows no `gateway.toml`.
const GATEWAY: &str = r#"
[server]
listen = "127.0.0.1:8080"

[admin]
listen = "127.0.0.1:8081"
tokens = [
    { name = "ops", secret = "${OPS_TOKEN}", scope = "admin" },
    { name = "shop", secret = "${PUSH_TOKEN}", scope = "push" },
]
"#;

/// What stands in where a page shows no app, but for its kind.
const APP: &str = r#"
token = "${SUPPORT_TOKEN}"
encoding_aes_key = "${SUPPORT_AES_KEY}"
bot_names = ["小助手"]
"#;

/// Its chats.
const CHATS: &str = r#"
[[chats]]
id = "wrVip"
webhook = "${VIP_WEBHOOK}"

[[chats]]
id = "wrB"
webhook = "${B_WEBHOOK}"
"#;

/// Files by their names below `config/`.
#[derive(Clone, Debug)]
pub struct Files(pub BTreeMap<String, String>);

impl Files {
    /// The files that these blocks show whole, with what later blocks add to the end of them.
    pub fn shown<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Self {
        let mut whole: Vec<Block> = Vec::new();
        for block in blocks {
            match block.file() {
                Some((_, true)) => whole.push(block.clone()),
                Some((path, false)) => {
                    let added_to = whole.iter_mut().find(|whole| whole.file() == Some((path, true)));
                    added_to.into_iter().for_each(|whole| whole.body += &block.body);
                }
                None => {}
            }
        }
        Self::of(&whole)
    }

    /// What these blocks show of files, made whole.
    pub fn of<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Self {
        let mut files = BTreeMap::new();
        for block in blocks {
            let Some((path, is_whole)) = block.file() else { continue };
            let name = path.strip_prefix("config/").unwrap().to_owned();
            let whole = if is_whole { block.body.clone() } else { completed(&name, &block.body) };
            let twice = files.insert(name, whole).is_some();
            assert!(!twice, "{}: {path} is shown twice under one heading", block.place);
        }
        files.entry("gateway.toml".to_owned()).or_insert_with(|| GATEWAY.to_owned());
        if !files.keys().any(|name| name.starts_with("apps/")) {
            files.insert("apps/support.toml".to_owned(), completed("apps/support.toml", ""));
        }
        Self(files)
    }

    /// The names of the variables in them.
    pub fn variables(&self) -> BTreeSet<String> {
        let variable = Regex::new(r"\$\{([A-Z_]+)\}").unwrap();
        let names = self.0.values().flat_map(|text| variable.captures_iter(text));
        names.map(|found| found[1].to_owned()).collect()
    }

    /// Writes them into `folder`, and the secrets that they name as files.
    pub fn write(&self, folder: &Path) {
        let secret = Regex::new(r"\$\{file:/run/secrets/([a-z_]+)\}").unwrap();
        for (name, text) in &self.0 {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            for found in secret.captures_iter(text) {
                std::fs::write(folder.join(&found[1]), value(&found[1].to_uppercase())).unwrap();
            }
            let there = format!("$${{file:{}/$1}}", folder.display());
            std::fs::write(path, &*secret.replace_all(text, there.as_str())).unwrap();
        }
    }
}

/// A part of a file, with what it needs around it.
fn completed(name: &str, part: &str) -> String {
    match name {
        "gateway.toml" => part.to_owned(),
        _ => {
            let kind = if part.contains("\nkind = ") { "" } else { "kind = \"group_robot\"\n" };
            let token = if part.contains("kind = \"json\"") { "" } else { APP };
            let chats = if part.contains("chats = [") || part.contains("[[chats]]") { "" } else { CHATS };
            format!("{kind}{token}{part}{chats}")
        }
    }
}

/// What a variable stands for here.
pub fn value(name: &str) -> String {
    match name {
        _ if name.ends_with("AES_KEY") => format!("{:A<43}", name.replace('_', "")),
        // Tokens are letters and digits.
        _ => name.to_lowercase().replace('_', ""),
    }
}

#[test]
fn every_configuration_is_sound() {
    let mut shown = 0;
    for page in pages() {
        let sections: BTreeSet<&str> = page.blocks.iter().map(|block| block.section.as_str()).collect();
        for section in sections {
            let blocks: Vec<&Block> = page.blocks.iter().filter(|block| block.section == section).collect();
            let (whole, parts): (Vec<_>, Vec<_>) =
                blocks.into_iter().filter(|block| block.file().is_some()).partition(|block| block.file().unwrap().1);
            shown += whole.len() + parts.len();
            if !whole.is_empty() {
                sound(&page.name, section, &Files::of(whole.iter().copied()));
                sound(&page.name, section, &Files::shown(whole.iter().chain(&parts).copied()));
            }
            // Each part is a configuration of its own.
            parts.iter().for_each(|part| sound(&part.place, section, &Files::of([*part])));
        }
    }
    assert!(shown > 20, "{shown} blocks say which file they are");
}

fn sound(place: &str, section: &str, files: &Files) {
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let mut check = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
    check.arg("check").arg("--config").arg(folder.path().join("gateway.toml")).env_clear();
    check.envs(files.variables().iter().map(|name| (name, value(name))));
    let ended = check.output().unwrap();
    assert!(ended.status.success(), "{place}, {section}: {}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn every_block_of_toml_says_which_file_it_is() {
    for block in pages().iter().flat_map(|page| &page.blocks).filter(|block| block.language == "toml") {
        assert!(block.file().is_some(), "{}: its first line must be such as `# config/apps/support.toml`", block.place);
    }
}
