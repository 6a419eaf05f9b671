//! The reference against the readers: every key that they ask for stands in it and no other; each example is taken; each default is
//! what a file without the key gives; what must be written is missed.

use std::collections::BTreeSet;
use std::path::Path;

use toml::{Table, Value};

use super::{AES_KEY, Folder};
use crate::config::faults::Ledger;
use crate::config::reference::{FILES, Key, Language, Section, Without, markdown};
use crate::config::{Faults, Settings, read};

/// Files that hold every section, and no key that could be left out.
struct Base {
    gateway: &'static str,
    app: String,
}

const GATEWAY: &str = "[alarms]\n[kafka]\n[[admin.tokens]]\nname = \"a\"\nsecret = \"s\"\nscope = \"read\"\n";

fn robot(more: &str) -> String {
    format!("kind = \"group_robot\"\ntoken = \"Token1\"\nencoding_aes_key = \"{AES_KEY}\"\n{more}")
}

/// What the keys of a section are tried on.
fn base(section: &Section, key: &Key) -> Base {
    const RULES: &str = r#"
        [mention]
        action = { type = "help" }
        [[chats]]
        id = "wrA"
        [[commands]]
        name = "query"
        args = [{ name = "id" }]
        action = { type = "help" }
        [[keywords]]
        any = ["x"]
        action = { type = "help" }
        [[bindings]]
        pattern = '手机号是(?P<phone>1[3-9][0-9]{9})$'
    "#;
    let more = match (section.path, key.name) {
        ("rules", "mute" | "unmute") => format!("{RULES}[rules]\nadmins = [\"zhangsan\"]\n"),
        ("commands[]", "only_text") => RULES.replace("args =", "only = \"bound\"\nargs ="),
        ("commands[].args[]", "choices") => RULES.replace("{ name = \"id\" }", "{ name = \"id\", type = \"choice\" }"),
        ("bindings[]", "ttl" | "renew_on_use") => {
            format!("{RULES}\naction = {{ type = \"http\", url = \"http://127.0.0.1:1/\" }}\n")
        }
        ("action reply", _) => RULES.replacen("\"help\"", "\"reply\", text = \"x\"", 1),
        ("action http", _) => RULES.replacen("\"help\"", "\"http\", url = \"http://127.0.0.1:1/\"", 1),
        ("action llm", _) => {
            RULES.replacen("\"help\"", "\"llm\", base_url = \"http://127.0.0.1:1/v1\", model = \"m\"", 1)
        }
        _ => RULES.to_owned(),
    };
    let app = match (section.path, key.name) {
        ("auth", "header" | "secret") => json("{ type = \"hmac_sha256\", header = \"X-Signature\", secret = \"s\" }"),
        ("auth" | "gateway", _) => json("{ type = \"header\", name = \"X-Token\", value = \"v\" }"),
        ("", "corp_id" | "agent_id" | "secret" | "ask_contacts") | ("chats[]", "appchat") => {
            let api = "corp_id = \"ww1\"\nagent_id = 1\nsecret = \"s\"\n";
            format!("kind = \"app\"\ntoken = \"Token1\"\nencoding_aes_key = \"{AES_KEY}\"\n{api}{more}")
        }
        _ => robot(&more),
    };
    let gateway = match (section.path, key.name) {
        ("alarms", "secret") => "[alarms]\nurl = \"http://127.0.0.1:9000/alarms\"\n",
        ("telemetry", "sample") => "[telemetry]\notlp = \"http://127.0.0.1:4318\"\n",
        _ => GATEWAY,
    };
    Base { gateway, app }
}

fn json(auth: &str) -> String {
    format!("kind = \"json\"\nauth = {auth}\n[gateway]\nurl = \"http://127.0.0.1:9000/send\"\n")
}

/// Reads both files; whatever variable they name is there.
fn load(gateway: &str, app: &str, known: &mut BTreeSet<String>) -> Result<Settings, Faults> {
    let folder = Folder::new().gateway(gateway).app("a", app).file("apps/words.txt", "敏感\n");
    let ledger = Ledger::default();
    let (settings, _) = read(&folder.path("gateway.toml"), &|_| Some("variable".into()), &ledger, None);
    known.extend(ledger.asked());
    ledger.close()?;
    Ok(Settings { files: std::default::Default::default(), ..settings })
}

/// Where a section's keys stand in a file: an action's in `[mention]`, of several entries in the first.
fn place(section: &Section) -> Vec<&'static str> {
    let path = match section.path {
        action if action.starts_with("action") => "mention.action",
        path => path,
    };
    path.split('.').filter(|part| !part.is_empty()).collect()
}

/// The table there; it is made where it is not there.
fn table_at<'t>(file: &'t mut Table, place: &[&str]) -> &'t mut Table {
    place.iter().fold(file, |table, part| {
        let entry = match part.strip_suffix("[]") {
            Some(list) => &mut table.get_mut(list).unwrap_or_else(|| panic!("{list} is not in the base"))[0],
            None => table.entry(*part).or_insert_with(|| Value::Table(Table::new())),
        };
        entry.as_table_mut().unwrap()
    })
}

/// The path by which a fault names a key.
fn blamed(section: &Section, key: &Key) -> String {
    let parts = place(section).into_iter().chain([key.name]);
    parts.map(|part| part.replace("[]", "[0]")).collect::<Vec<_>>().join(".")
}

/// Each key once, with a way to load its base with the key set to a value, or without it.
fn each_key(mut judge: impl FnMut(&Section, &Key, &mut dyn FnMut(Option<&str>) -> Result<Settings, Faults>)) {
    let mut known = BTreeSet::new();
    for (at, file) in FILES.iter().enumerate() {
        for section in file.sections.iter().filter(|section| cfg!(feature = "kafka") || section.path != "kafka") {
            for key in section.keys {
                let Base { gateway, app } = base(section, key);
                let gateway = if cfg!(feature = "kafka") { gateway.to_owned() } else { gateway.replace("[kafka]", "") };
                judge(section, key, &mut |value| {
                    let (mut gateway, mut app): (Table, Table) = (gateway.parse().unwrap(), app.parse().unwrap());
                    let file = if at == 0 { &mut gateway } else { &mut app };
                    let table = table_at(file, &place(section));
                    match value {
                        Some(value) => {
                            let mut parsed: Table = format!("value = {value}").parse().unwrap();
                            table.insert(key.name.to_owned(), parsed.remove("value").unwrap());
                        }
                        None => drop(table.remove(key.name)),
                    }
                    load(&gateway.to_string(), &app.to_string(), &mut known)
                });
            }
        }
    }
}

#[test]
fn each_example_is_taken_and_each_default_is_what_holds_without_the_key() {
    each_key(|section, key, load| {
        let name = blamed(section, key);
        let taken = |result: Result<Settings, Faults>| result.unwrap_or_else(|faults| panic!("{name}:\n{faults}"));
        match key.without {
            Without::Is(value) => {
                let (with, without) = (taken(load(Some(value))), taken(load(None)));
                assert_eq!(format!("{with:#?}"), format!("{without:#?}"), "{name} = {value} is not its default");
            }
            Without::Said(_, value) | Without::Nothing(value) => {
                if name != "commands[0].args[0].choices" && !["corp_id", "agent_id", "secret"].contains(&key.name) {
                    taken(load(None));
                }
                taken(load(Some(value)));
            }
            Without::Needed(value) => {
                taken(load(Some(value)));
                let faults = load(None).expect_err(&format!("{name} is not missed"));
                assert!(faults.iter().any(|fault| fault.key == name), "{name}:\n{faults}");
            }
        }
    });
}

#[test]
fn every_key_that_is_read_stands_in_the_reference_and_no_other() {
    let mut read = BTreeSet::new();
    let mut told = BTreeSet::new();
    for file in &FILES {
        for section in file.sections {
            let path = section.path.split(' ').next().unwrap();
            told.extend(section.keys.iter().map(|key| match path {
                "" => key.name.to_owned(),
                path => format!("{path}.{}", key.name),
            }));
            for key in section.keys {
                let Base { gateway, app } = base(section, key);
                // Whether it loads is not asked here.
                let _ = load(gateway, &app, &mut read);
            }
        }
    }
    // An action's keys stand in several places, an entry's behind its number.
    let read: BTreeSet<String> = read.iter().map(|path| general(path)).collect();
    let is_section = |path: &str| {
        let within = |other: &String| other.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']));
        path == "mention" || read.iter().any(within)
    };
    let read: BTreeSet<&String> = read.iter().filter(|path| !is_section(path)).collect();
    let told: BTreeSet<&String> = told.iter().collect();
    let (missing, too_many): (Vec<_>, Vec<_>) = (read.difference(&told).collect(), told.difference(&read).collect());
    assert!(missing.is_empty() && too_many.is_empty(), "not told of: {missing:?}; no keys: {too_many:?}");
}

/// `commands[0].action.url` → `action.url`, `chats[0].id` → `chats[].id`.
fn general(path: &str) -> String {
    let mut within = false;
    let digits_gone: String = path
        .chars()
        .filter(|c| {
            within = matches!(c, '[') || within && *c != ']';
            !(within && c.is_ascii_digit())
        })
        .collect();
    match digits_gone.find(".action") {
        Some(at) => digits_gone[at + 1..].to_owned(),
        None => digits_gone,
    }
}

#[test]
fn the_documents_are_what_the_program_prints() {
    for (language, file) in [(Language::En, "configuration.md"), (Language::Zh, "configuration.zh-CN.md")] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file);
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let printed = markdown(language);
        assert!(written == printed, "docs/{file} is behind: write what `wecom-gateway reference` prints into it");
    }
}
