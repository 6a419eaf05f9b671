//! Pages against the code: every alarm, state, reason and error that the gateway can say, and every code of WeCom's that it
//! tells apart, is written down.
//!
//! The words are taken from the sources, where the compiler holds each `match` to its enum: a new one fails here until it is
//! written down.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;
use wecom_gateway::wecom::verdict::{ChannelKind, Reply, verdict};

use super::page::{Page, root};

/// What the gateway says outside its tests, file by file.
fn sources() -> Vec<(String, String)> {
    fn read(folder: &Path, into: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                // The load generator, and what only tests are made of.
                if !["src/sim"].contains(&name.as_str()) && !name.ends_with("/tests") {
                    read(&path, into);
                }
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
                into.push((name, code));
            }
        }
    }
    let mut all = Vec::new();
    read(&root().join("src"), &mut all);
    all
}

/// The words that a pattern finds in a file, from `marker` to the end of what begins there.
fn words(file: &str, marker: &str, pattern: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let part = text.split_once(marker).unwrap_or_else(|| panic!("{file} has no {marker}")).1;
    let end = if marker.starts_with("impl") { "\n}\n" } else { "\n    }\n" };
    let part = part.split(end).next().unwrap();
    let found: BTreeSet<String> = all(part, pattern);
    assert!(found.len() > 1, "{file}: {marker} says nothing");
    found
}

fn all(text: &str, pattern: &str) -> BTreeSet<String> {
    Regex::new(pattern).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
}

fn missing(page: &Page, words: impl IntoIterator<Item = String>) -> Vec<String> {
    words.into_iter().filter(|word| !page.text.contains(&format!("`{word}`"))).collect()
}

fn each_language(check: impl Fn(&Page)) {
    ["docs/operations.md", "docs/operations.zh-CN.md"].map(Page::read).iter().for_each(check);
}

const ARM: &str = r#"=> "([a-z_]+)""#;

#[test]
fn every_word_of_an_enum_is_explained() {
    let alarms = words("src/alarms/kind.rs", "fn as_str", ARM);
    let outcomes = words("src/model/mod.rs", "impl Outcome", ARM);
    let parked = words("src/store/outbound.rs", "impl ParkReason", ARM);
    let routes = words("src/sender/route.rs", "impl NoRoute", ARM);
    let stages = words("src/store/journal.rs", "impl Stage", ARM);
    let verdicts = words("src/wecom/verdict.rs", "impl Verdict", ARM);
    let kinds = words("src/store/changes.rs", "impl ChangeKind", ARM);
    let ways = words("src/store/changes.rs", "impl Via", ARM);
    each_language(|page| {
        for words in [&alarms, &outcomes, &parked, &routes, &stages, &verdicts, &kinds, &ways] {
            assert_eq!(missing(page, words.clone()), [""; 0], "{}", page.name);
        }
    });
}

#[test]
fn every_reason_of_a_message_or_a_delivery_is_explained() {
    let mut reasons = BTreeSet::new();
    for (name, code) in sources() {
        // Literals beside the word, in Rust and in the JSON of journal lines.
        reasons.extend(all(&code, r#"\breason"?\\?:\s*(?:Some\()?\\?"([a-z_]+)\\?""#));
        reasons.extend(all(&code, r#"let reason = Some\("([a-z_]+)""#));
        reasons.extend(all(&code, r#"Ignored, None, Some\("([a-z_]+)""#));
        reasons.extend(all(&code, r#"\.dropped\([^)]*"([a-z_]+)"\)"#));
        if name == "src/sender/fate.rs" {
            reasons.extend(all(&code, r#""([a-z_]+)""#));
        }
        if ["src/push/results.rs", "src/task.rs", "src/store/operators.rs"].contains(&name.as_str()) {
            reasons.extend(all(&code, r#"const [A-Z_]+: &str = "([a-z_]+)""#));
            reasons.extend(all(&code, r#"Outcome::Dead, Some\("([a-z_]+)""#));
        }
    }
    for known in
        ["too_old", "member_rate", "muted", "lane_full", "no_friend", "reached_nobody", "expired", "interrupted"]
    {
        assert!(reasons.contains(known), "{known} is not found any more: {reasons:?}");
    }
    each_language(|page| assert_eq!(missing(page, reasons.clone()), [""; 0], "{}", page.name));
}

#[test]
fn every_error_code_is_explained() {
    let mut codes = words("src/ingress/refusal.rs", "fn code", ARM);
    codes.extend(words("src/push/task.rs", "impl FaultKind", ARM));
    for (_, code) in sources() {
        codes.extend(all(&code, r#"(?:StatusCode::[A-Z_]+|status\(\)), *\n? *"([a-z_]+)""#));
        codes.extend(all(&code, r#"Refused\("([a-z_]+)"\)"#));
    }
    assert!(codes.len() > 40, "codes are not found any more: {codes:?}");
    each_language(|page| assert_eq!(missing(page, codes.clone()), [""; 0], "{}", page.name));
}

#[test]
fn every_metric_and_alert_rule_is_explained() {
    let metrics = std::fs::read_to_string(root().join("src/telemetry/metrics.rs")).unwrap();
    let metrics = all(&metrics, r#"r\.register\(\s*"([a-z_]+)""#);
    let rules = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let rules = all(&rules, r"alert: (\w+)");
    assert!(metrics.len() > 20 && rules.len() > 10, "{metrics:?} {rules:?}");
    each_language(|page| {
        let missing: Vec<&String> = metrics.iter().chain(&rules).filter(|name| !page.text.contains(*name)).collect();
        assert_eq!(missing, [""; 0], "{}", page.name);
    });
}

#[test]
fn every_fault_that_explain_finds_is_explained() {
    let source = std::fs::read_to_string(root().join("src/explain/mod.rs")).unwrap();
    let variants = source.split_once("pub enum Fault {").unwrap().1.split_once('}').unwrap().0;
    let faults = all(variants, r"(?m)^    ([A-Z]\w+),$").into_iter().map(|name| {
        let capital = Regex::new("([a-z])([A-Z])").unwrap();
        capital.replace_all(&name, "${1}_$2").to_lowercase()
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.len() > 20, "{faults:?}");
    for page in ["docs/explain.md", "docs/explain.zh-CN.md"].map(Page::read) {
        assert_eq!(missing(&page, faults.clone()), [""; 0], "{}", page.name);
    }
}

#[test]
fn every_code_of_wecom_has_the_verdict_that_is_written() {
    let source = std::fs::read_to_string(root().join("src/wecom/verdict.rs")).unwrap();
    let told_apart = source.split_once("fn by_errcode").unwrap().1.split_once("\n}\n").unwrap().0;
    let code = Regex::new(r"(?m)^\s+(?:-?\d+[ |]*)+").unwrap();
    let told_apart: BTreeSet<i64> = code
        .find_iter(told_apart)
        .flat_map(|arm| all(arm.as_str(), r"(-?\d+)"))
        .map(|code| code.parse().unwrap())
        .collect();
    assert!(told_apart.len() > 25, "{told_apart:?}");
    let row = Regex::new(r"(?m)^\| ([^|]*\d[^|]*) \| `(\w+)` \|").unwrap();
    for page in ["docs/protocol.md", "docs/protocol.zh-CN.md"].map(Page::read) {
        let mut written = BTreeSet::new();
        for found in row.captures_iter(&page.text) {
            let codes = found[1].replace("HTTP", ";HTTP");
            let codes = codes.split([';', '；']).filter(|part| !part.contains("HTTP"));
            for code in codes.flat_map(|part| all(part, r"(-?\d+)")).map(|code| code.parse().unwrap()) {
                let kind = if &found[2] == "token" { ChannelKind::AppMessage } else { ChannelKind::GroupRobot };
                let got = verdict(kind, &Reply::Http { status: 200, code: Some((code, String::new())) });
                assert_eq!(got.as_str(), &found[2], "{}: {code}", page.name);
                written.insert(code);
            }
        }
        assert_eq!(told_apart.difference(&written).collect::<Vec<_>>(), [&0; 0], "{}", page.name);
    }
}

#[test]
fn versions_of_what_is_stored_are_told() {
    let source = std::fs::read_to_string(root().join("src/store/embedded/mod.rs")).unwrap();
    let layout: u64 = all(&source, r"const LAYOUT: i64 = (\d+);").first().unwrap().parse().unwrap();
    let migrations = std::fs::read_dir(root().join("src/records/migrations/sqlite")).unwrap().count();
    let refused = format!("layout {}, this program knows {layout}", layout + 1);
    for (name, count) in
        [("upgrade.md", format!("({migrations} now)")), ("upgrade.zh-CN.md", format!("现在有 {migrations} 个"))]
    {
        let page = Page::read(&format!("docs/{name}"));
        assert!(page.text.contains(&refused) && page.text.contains(&count), "{name}: {refused}; {count}");
    }
}
