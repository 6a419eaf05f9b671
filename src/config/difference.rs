//! What a file of the configuration says otherwise than before, key by key: for the trail of changes, which more people read than the
//! files themselves. So of values only those are told that can hold nothing of anybody: numbers, yes and no, and the scope of a token.
//! Secrets are blank on both sides and make no difference here.

use serde_json::{Map, Value, json};

use super::FileRead;

/// Keys of one file that are told; the others are counted under `…`.
const MOST: usize = 50;
/// What entries of a list are told apart by, the first that they have.
const NAMES: [&str; 3] = ["name", "id", "pattern"];

/// Each key whose value differs, as its path (`admin.tokens[viewer].scope`), with `{from, to}`, or `added`, `removed`, `changed`.
pub fn difference(before: &FileRead, now: &FileRead) -> Map<String, Value> {
    let table = |read: &FileRead| toml::Value::Table(read.shown.parse().unwrap_or_default());
    let mut found = Vec::new();
    compare("", Some(&table(before)), Some(&table(now)), &mut found);
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if more > 0 {
        found.push(("…".to_owned(), more.into()));
    }
    found.into_iter().collect()
}

fn compare(path: &str, before: Option<&toml::Value>, now: Option<&toml::Value>, found: &mut Vec<(String, Value)>) {
    let (before, now) = match (before, now) {
        (before, now) if before == now => return,
        (None, _) => return found.push((path.to_owned(), "added".into())),
        (_, None) => return found.push((path.to_owned(), "removed".into())),
        (Some(before), Some(now)) => (before, now),
    };
    match (parts(before), parts(now)) {
        (Some(before), Some(now)) => {
            let gone = before.iter().filter(|(name, _)| value(&now, name).is_none());
            for (name, _) in gone.chain(&now) {
                let dot = if path.is_empty() || name.starts_with('[') { "" } else { "." };
                compare(&format!("{path}{dot}{name}"), value(&before, name), value(&now, name), found);
            }
        }
        _ => found.push((path.to_owned(), told(path, before, now))),
    }
}

/// The entries of a table, or of a list of tables, each with how it is called in a path.
fn parts(of: &toml::Value) -> Option<Vec<(String, &toml::Value)>> {
    match of {
        toml::Value::Table(table) => Some(table.iter().map(|(name, value)| (name.clone(), value)).collect()),
        toml::Value::Array(list) if !list.is_empty() && list.iter().all(toml::Value::is_table) => {
            let name = |at: usize, entry: &toml::Value| {
                let name = NAMES.iter().find_map(|key| entry.get(key)?.as_str());
                format!("[{}]", name.map_or_else(|| at.to_string(), str::to_owned))
            };
            Some(list.iter().enumerate().map(|(at, entry)| (name(at, entry), entry)).collect())
        }
        _ => None,
    }
}

fn value<'a>(parts: &[(String, &'a toml::Value)], name: &str) -> Option<&'a toml::Value> {
    parts.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
}

fn told(path: &str, before: &toml::Value, now: &toml::Value) -> Value {
    let is_scope = path.starts_with("admin.tokens[") && path.ends_with("].scope");
    let plain = |value: &toml::Value| match value {
        toml::Value::Integer(number) => Some(json!(number)),
        toml::Value::Float(number) => Some(json!(number)),
        toml::Value::Boolean(word) => Some(json!(word)),
        toml::Value::String(word) if is_scope => Some(json!(word)),
        _ => None,
    };
    match (plain(before), plain(now)) {
        (Some(from), Some(to)) => json!({"from": from, "to": to}),
        _ => "changed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(before: &str, now: &str) -> Value {
        let read = |shown: &str| FileRead { digest: String::new(), shown: shown.to_owned() };
        difference(&read(before), &read(now)).into()
    }

    #[test]
    fn keys_are_told_and_of_values_only_what_is_plain() {
        let before = r#"
            [admin]
            tokens = [{ name = "ops", secret = "***", scope = "admin" }, { name = "viewer", secret = "***", scope = "read" }]
            [workers]
            concurrency = 4
            [alarms]
            webhook = "https://a.example/***"
        "#;
        let now = r#"
            [admin]
            tokens = [{ name = "viewer", secret = "***", scope = "admin" }, { name = "new", secret = "***", scope = "read" }]
            [workers]
            concurrency = 8
            [alarms]
            webhook = "https://b.example/***"
            [report]
            at = "10:00"
        "#;
        let expected = json!({
            "admin.tokens[ops]": "removed", "admin.tokens[new]": "added",
            "admin.tokens[viewer].scope": {"from": "read", "to": "admin"},
            "workers.concurrency": {"from": 4, "to": 8}, "alarms.webhook": "changed", "report": "added",
        });
        assert_eq!(between(before, now), expected);
        assert_eq!(between(now, now), json!({}));
    }

    #[test]
    fn lists_without_names_go_by_their_place_and_a_long_list_of_keys_is_cut() {
        let two = |second: i32| format!("[[rules]]\nmost = 1\n[[rules]]\nmost = {second}\n");
        assert_eq!(between(&two(2), &two(3)), json!({"rules[1].most": {"from": 2, "to": 3}}));
        assert_eq!(between("admins = [\"a\"]", "admins = [\"a\", \"b\"]"), json!({"admins": "changed"}));
        let many: String = (0..60).map(|n| format!("k{n} = {n}\n")).collect();
        let told = between("", &many);
        assert_eq!((told.as_object().map(Map::len), &told["…"]), (Some(51), &json!(10)));
    }
}
