//! Every key there is, in words: what may stand there, what holds without it, what it does, in both languages of our users.
//!
//! `docs/configuration*.md` is what `wecom-gateway reference` prints. The tests hold each line against the readers of the two
//! files: no key is missing or too many, each example is taken, each default is what a file without the key gives.

mod actions;
mod app;
mod around;
mod gateway;

use std::fmt::Write;

/// For whom it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// English.
    En,
    /// Chinese.
    Zh,
}

/// The same in both languages.
#[derive(Clone, Copy)]
pub(super) struct Words {
    en: &'static str,
    zh: &'static str,
}

/// What holds where the key is not written.
#[derive(Clone, Copy)]
pub(super) enum Without {
    /// As if this TOML stood there.
    Is(&'static str),
    /// What can't be said as TOML; beside it an example.
    Said(Words, &'static str),
    /// Nothing; beside it an example.
    Nothing(&'static str),
    /// It must be written; beside it an example.
    Needed(&'static str),
}

/// One key.
pub(super) struct Key {
    /// Its name within its section.
    pub(super) name: &'static str,
    /// What may stand there.
    form: Words,
    pub(super) without: Without,
    does: Words,
}

/// A table of a file.
pub(super) struct Section {
    /// Its dotted path, `[]` behind what there may be several of; empty for the top of a file.
    pub(super) path: &'static str,
    does: Words,
    pub(super) keys: &'static [Key],
}

/// A file.
pub(super) struct File {
    name: &'static str,
    does: Words,
    pub(super) sections: &'static [Section],
}

/// Both files and, by themselves, the actions that stand in several places.
pub(super) const FILES: [File; 3] = [gateway::FILE, app::FILE, actions::FILE];

const fn words(en: &'static str, zh: &'static str) -> Words {
    Words { en, zh }
}

const fn key(name: &'static str, form: Words, without: Without, en: &'static str, zh: &'static str) -> Key {
    Key { name, form, without, does: words(en, zh) }
}

const fn section(path: &'static str, keys: &'static [Key], en: &'static str, zh: &'static str) -> Section {
    Section { path, does: words(en, zh), keys }
}

const TEXT: Words = words("text", "字符串");
const SECRET: Words = words("text, best as `\"${NAME}\"`", "字符串，建议写 `\"${变量}\"`");
const TEXTS: Words = words("list of texts", "字符串列表");
const SPAN: Words = words("duration", "时长");
const SPAN_OR_ZERO: Words = words("duration, or `\"0s\"`", "时长，可为 `\"0s\"`");
const SIZE: Words = words("size", "大小");
const RATE: Words = words("rate: `\"20/min\"`, `\"5/s\"`, `\"100/h\"`", "速率：`\"20/min\"`、`\"5/s\"`、`\"100/h\"`");
const FLAG: Words = words("`true` or `false`", "`true` 或 `false`");
const URL: Words = words("http or https URL", "http 或 https 地址");
const ADDRESS: Words = words("IP and port", "IP 和端口");
const WEBHOOK: Words = words("webhook URL, or its bare key", "webhook 完整地址，或其中的 key");

/// The reference as Markdown.
pub fn markdown(language: Language) -> String {
    let say = |words: Words| match language {
        Language::En => words.en,
        Language::Zh => words.zh,
    };
    let mut text = format!("{}\n", say(INTRODUCTION));
    for file in &FILES {
        // Writing to a String can't fail.
        let _ = write!(text, "\n## {}\n\n{}\n", file.name, say(file.does));
        for section in file.sections {
            let _ = write!(text, "\n### {}\n\n{}\n", heading(section.path), say(section.does));
            if !section.keys.is_empty() {
                let _ = write!(text, "\n{}\n", say(HEAD));
            }
            for key in section.keys {
                let without = match key.without {
                    Without::Is(toml) => format!("`{toml}`"),
                    Without::Said(words, example) => format!("{}; {} `{example}`", say(words), say(SUCH_AS)),
                    Without::Nothing(example) => format!("{}; {} `{example}`", say(NOTHING), say(SUCH_AS)),
                    Without::Needed(example) => format!("{}; {} `{example}`", say(NEEDED), say(SUCH_AS)),
                };
                let _ = writeln!(text, "| `{}` | {} | {without} | {} |", key.name, say(key.form), say(key.does));
            }
        }
    }
    text
}

/// As the table is headed in TOML.
fn heading(path: &str) -> String {
    match (path, path.split_once(' ')) {
        ("", _) => "`kind`, …".to_owned(),
        ("action", _) => "`action`".to_owned(),
        (_, Some((_, kind))) => format!("`action = {{ type = \"{kind}\" }}`"),
        (list, None) if list.ends_with("[]") => format!("`[[{}]]`", list.replace("[]", "")),
        (table, None) => format!("`[{table}]`"),
    }
}

const HEAD: Words = words(
    "| key | what may stand there | default | what it does |\n| --- | --- | --- | --- |",
    "| 键 | 可以写什么 | 默认值 | 作用 |\n| --- | --- | --- | --- |",
);
const NOTHING: Words = words("none", "无");
const SUCH_AS: Words = words("such as", "例如");
const NEEDED: Words = words("**must be written**", "**必须填写**");

const INTRODUCTION: Words = words(
    "# Configuration reference

[中文](configuration.zh-CN.md)

Printed by `wecom-gateway reference` from the program's own table; do not edit this file. `config/gateway.toml` is the process,
`config/apps/<id>.toml` is one WeCom app each: the file's name is the app's id (1 to 64 of `a-z`, `0-9`, `_`, `-`), which stands in its callback
URL, `https://<your host>/callback/<id>`. `wecom-gateway check` names every fault of every file, with its key and its mend. An unknown key is a
fault.

Any text may hold `${NAME}` (from the environment) or `${file:/path}` (the first line of a file: how containers get secrets). Durations are
texts: `\"500ms\"`, `\"30s\"`, `\"10m\"`, `\"1h\"`, `\"7d\"`. Sizes too: `\"1000000\"`, `\"64KiB\"`, `\"1MiB\"`. Relative paths are from the working directory,
except where said.

A running gateway reads its files again on `SIGHUP`, by `POST /api/v1/reload`, or by itself (`server.watch`): all of them or, on a fault, none.
What can't change while it runs is told as `needs_restart`: `server.listen`, `server.drain`, `server.watch`, `admin.listen`, `wecom.api_base`,
`store`, `database`, `dedup.window`, `workers`, `sender`, `alarms`, `kafka`, `log.format`, `log.level`.",
    "# 配置参考

[English](configuration.md)

本页由 `wecom-gateway reference --language zh` 从程序自身的表打印，请勿手工修改。`config/gateway.toml` 是进程配置；`config/apps/<id>.toml`
每个文件是一个企业微信应用，文件名就是应用 id（1 到 64 个 `a-z`、`0-9`、`_`、`-`），也就是回调地址 `https://<你的域名>/callback/<id>` 中的那一段。
`wecom-gateway check` 会列出所有文件的所有错误，指明键和改法。未知的键也是错误。

任何字符串都可以写 `${变量}`（环境变量）或 `${file:/路径}`（文件的第一行，容器的密钥就这样传入）。时长写成字符串：`\"500ms\"`、`\"30s\"`、`\"10m\"`、
`\"1h\"`、`\"7d\"`；大小也是：`\"1000000\"`、`\"64KiB\"`、`\"1MiB\"`。相对路径以工作目录为准，另有说明的除外。

运行中的网关在收到 `SIGHUP`、`POST /api/v1/reload` 时，或自行定期（`server.watch`）重新读取这些文件：要么全部生效，要么（有错时）全部不变。
运行中不能改的会以 `needs_restart` 告知：`server.listen`、`server.drain`、`server.watch`、`admin.listen`、`wecom.api_base`、
`store`、`database`、`dedup.window`、`workers`、`sender`、`alarms`、`kafka`、`log.format`、`log.level`。",
);
