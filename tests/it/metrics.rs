//! What `/metrics` shows, and that dashboard and alert rules (`deploy/`) ask for nothing else. Prometheus's own tool reads both;
//! scripts/test brings it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::{Value, json};

use crate::world::{APP, On, TEST, World};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap()
}

/// Every name that `/metrics` can show, each with the labels of those that it does show.
fn exported(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                "gauge" => &[""],
                other => panic!("{name} is a {other}"),
            };
            names.extend(suffixes.iter().map(|suffix| (format!("{name}{suffix}"), BTreeSet::new())));
        }
        if let Some((name, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let labels = rest.split_once('}').expect("labels end").0.split("\",");
            let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            names.get_mut(name).expect("a type before its samples").extend(labels);
        }
    }
    names
}

/// The expressions of a Grafana dashboard, or of alert rules.
fn expressions(file: &str) -> Vec<String> {
    let text = read(file);
    if file.ends_with(".json") {
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
        return targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    }
    let expression = Regex::new(r"(?m)^\s+expr: (.+)$").unwrap();
    expression.captures_iter(&text).map(|found| found[1].to_owned()).collect()
}

/// Runs Prometheus's own tool; `Err` is what it says of a fault.
pub fn promtool(args: &[&str]) -> Result<(), String> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/promtool");
    let program = if fetched.exists() { fetched } else { PathBuf::from("promtool") };
    let output = Command::new(program).args(args).output().expect("promtool: scripts/test fetches it");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    if output.status.success() { Ok(()) } else { Err(said) }
}

const DASHBOARD: &str = "grafana/wecom-gateway.json";
const RULES: &str = "prometheus/alerts.yml";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dashboard_and_rules_ask_for_what_is_there() {
    let test = async {
        let world = World::new(On::Redis, &["c1"]).await;
        world.fence("c1", "zhang").await;
        // One that raises an alarm, so that there is such a counter.
        world.say("nowhere", "li", "m1", "/echo 1").await;
        world.ends("m1", "dropped").await;
        let text = world.metrics().await;
        let names = exported(&text);
        let asked = Regex::new(r"(wecom_gateway_\w+)(?:\{([^}]*)\})?").unwrap();
        let label = Regex::new(r"(\w+)(?:=~|!~|!=|=)").unwrap();
        for file in [DASHBOARD, RULES] {
            let mut count = 0;
            for expression in expressions(file) {
                for found in asked.captures_iter(&expression) {
                    let labels =
                        names.get(&found[1]).unwrap_or_else(|| panic!("{file}: {expression}: no {}", &found[1]));
                    count += 1;
                    let given = label.captures_iter(found.get(2).map_or("", |labels| labels.as_str()));
                    // Prometheus itself gives the first two.
                    for given in
                        given.map(|found| found[1].to_owned()).filter(|label| label != "job" && label != "instance")
                    {
                        assert!(labels.contains(&given), "{file}: {expression}: no label {given}: {labels:?}");
                    }
                }
            }
            assert!(count >= 15, "{file}: {count}");
        }
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

/// What is refused is told by one of two rules: what can't be stored now, and everything else.
#[test]
fn every_refusal_of_a_callback_raises_an_alert() {
    let expression = |alert: &str| {
        let rule = Regex::new(&format!(r"alert: {alert}\n\s+expr: (.+)")).unwrap();
        rule.captures(&read(RULES)).unwrap_or_else(|| panic!("no {alert}"))[1].to_owned()
    };
    let words = |expression: &str, matcher: &str| -> BTreeSet<String> {
        let listed = Regex::new(&format!(r#"result{matcher}"([a-z_|]+)""#)).unwrap();
        let listed = listed.captures(expression).unwrap_or_else(|| panic!("{expression}"))[1].to_owned();
        listed.split('|').map(str::to_owned).collect()
    };
    let left_out = words(&expression("WecomGatewayRefusesCallbacks"), "!~");
    let unavailable = words(&expression("WecomGatewayTakesNoMessages"), "=~");
    let taken = ["stored", "spooled", "duplicate", "verified"].map(str::to_owned).into();
    assert_eq!(left_out, unavailable.union(&taken).cloned().collect());
    let ingress = |file: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ingress").join(file);
        std::fs::read_to_string(file).unwrap()
    };
    let codes = ingress("refusal.rs").split_once("fn code").unwrap().1.to_owned();
    let codes = Regex::new(r#"=> "([a-z_]+)""#)
        .unwrap()
        .captures_iter(&codes)
        .map(|found| found[1].to_owned())
        .collect::<BTreeSet<_>>();
    assert!(codes.len() >= 15 && codes.contains("missing_field"), "codes are not found any more: {codes:?}");
    assert_eq!(codes.intersection(&left_out).collect::<Vec<_>>(), [""; 0]);
    let refused = Regex::new(r#"Refused\("([a-z_]+)"\)"#).unwrap();
    for file in ["mod.rs", "intake.rs"] {
        for found in refused.captures_iter(&ingress(file)) {
            assert!(unavailable.contains(&found[1]), "{file}: {}", &found[1]);
        }
    }
}

#[test]
fn prometheus_reads_rules_and_dashboard() {
    let path = |file| deploy(file).display().to_string();
    promtool(&["check", "rules", &path(RULES)]).unwrap();
    promtool(&["test", "rules", &path("prometheus/alerts.test.yml")]).unwrap();
    // A dashboard's expressions are read as rules, with values for what Grafana puts in.
    let rules: Vec<Value> = expressions(DASHBOARD)
        .into_iter()
        .enumerate()
        .map(|(n, expression)| {
            let expression = expression.replace("$__rate_interval", "1m").replace("$job", ".*");
            json!({"record": format!("panel:{n}"), "expr": expression})
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dashboard.yml");
    let write = |rules: &Value| {
        // JSON is YAML.
        std::fs::write(&file, json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string()).unwrap();
        promtool(&["check", "rules", file.to_str().unwrap()])
    };
    write(&rules.into()).unwrap();
    assert!(write(&json!([{"record": "panel:0", "expr": "sum(rate(x[5m])"}])).is_err(), "a fault is found");
}

#[test]
fn the_dashboard_is_whole() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for (x, y) in (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y))) {
            assert!(x < 24 && taken.insert((x, y)), "{} lies upon another", panel["title"]);
        }
        assert!(panel["type"] == "row" || panel["datasource"]["uid"] == "${datasource}", "{}", panel["title"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_are_measured_and_what_waits_is_shown() {
    let test = async {
        let world = World::new(On::Embedded, &["c1", "c2"]).await;
        world.fence("c1", "zhang").await;
        for kind in ["message", "reply"] {
            let count = world.metric(&format!("queue_wait_seconds_count{{kind=\"{kind}\"}}")).await;
            assert_eq!(count, 1, "{kind}");
        }
        for name in ["ack_seconds_count", "send_seconds_count", "end_to_end_seconds_count"] {
            assert_eq!(world.metric(name).await, 1, "{name}");
        }
        // A paused chat's reply waits: it is shown by its reason, and grows old.
        let (status, answer) = world.patch("c2", &json!({"paused": true})).await;
        assert_eq!(status, 200, "{answer}");
        world.say("c2", "li", "m1", "/echo [c2 li 1]").await;
        world.until_waiting("c2", 1).await;
        let mut again = tokio::time::interval(std::time::Duration::from_millis(50));
        loop {
            again.tick().await;
            let text = world.metrics().await;
            let is_old = |line: &str| {
                let age = line.strip_prefix("wecom_gateway_oldest_wait_seconds{kind=\"reply\"} ");
                age.is_some_and(|age| age.parse::<f64>().unwrap() > 0.5)
            };
            let is_parked = |line: &str| line == "wecom_gateway_parked_lanes{reason=\"paused\"} 1";
            if text.lines().any(is_old) && text.lines().any(is_parked) {
                break;
            }
        }
        assert!(!world.metrics().await.contains("c2"), "no id is a label");
        let (status, _) = world.patch("c2", &json!({"paused": false})).await;
        assert_eq!((status, world.callbacks("stored").await), (200, 2), "{APP}");
        world.fence("c2", "li").await;
        world.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
