//! `[report]`, and what else tells of a day: `[database] zone`, `[log] content`.

use std::time::Duration;

use jiff::civil::time;

use super::{Folder, blames, each_gateway_fault, robot};
use crate::config;
use crate::telemetry::LogContent;

const HOOK: &str = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k-1";

#[test]
fn a_day_is_told_to_nobody_unless_the_section_says_whom() {
    let none = Folder::new().settings();
    assert_eq!((none.report.webhook, none.report.at), (None, time(9, 0, 0, 0)));
    assert_eq!((none.database.stats_retain, none.log.content), (Duration::from_secs(400 * 86_400), LogContent::Digest));
    let text = format!(
        "[report]\nwebhook = \"{HOOK}\"\nat = \"18:30\"\n[database]\nzone = \"Asia/Shanghai\"\n\
         stats_retain = \"90d\"\n[log]\ncontent = \"full\""
    );
    let some = Folder::new().gateway(&text).settings();
    assert_eq!((some.report.webhook.as_ref().unwrap().url.expose(), some.report.at), (HOOK, time(18, 30, 0, 0)));
    assert_eq!((some.database.zone.name().as_str(), some.log.content), ("Asia/Shanghai", LogContent::Full));
    assert!(!format!("{:?}", some.report).contains("k-1"));
}

#[test]
fn faults_of_a_day_name_their_key() {
    each_gateway_fault(&[
        ("report.webhook = \"https://evil.example/send?key=k\"", "report.webhook", &["evil.example"]),
        ("report.at = \"9:00\"", "report.at", &["\"9:00\"", "\"09:00\""]),
        ("report.at = \"24:00\"", "report.at", &["time of the day"]),
        ("report.at = \"09:00:00\"", "report.at", &["time of the day"]),
        ("report.at = 9", "report.at", &["a string"]),
        ("database.zone = \"Asia/Atlantis\"", "database.zone", &["Asia/Atlantis", "Asia/Shanghai"]),
        ("database.stats_retain = \"0s\"", "database.stats_retain", &[]),
        ("log.content = \"some\"", "log.content", &["\"none\", \"digest\", \"full\""]),
    ]);
}

#[test]
fn its_robot_is_no_chats_and_may_be_that_of_alarms() {
    let chat = robot(&format!("chats = [{{ id = \"c1\", webhook = \"{HOOK}\" }}]"));
    let faults = Folder::new().gateway("report.webhook = \"k-1\"").app("a", &chat).faults();
    assert!(blames(&faults, "gateway.toml", "report.webhook", &["[report]", "chat \"c1\""]), "{faults}");
    Folder::new().gateway("report.webhook = \"k-1\"\nalarms.webhook = \"k-1\"").settings();
}

#[test]
fn who_asks_a_gateway_needs_nothing_but_its_listener() {
    let text = "[admin]\nlisten = \"127.0.0.1:9\"\n[store]\nredis = \"${NOT_SET_ANYWHERE}\"\n[unknown]\nx = 1";
    let admin = config::admin(&Folder::new().gateway(text).path("gateway.toml")).unwrap();
    assert_eq!((admin.listen.port(), admin.tokens.len()), (9, 0));
    let folder = Folder::new().gateway("admin.listen = \"nowhere\"");
    assert!(blames(
        &config::admin(&folder.path("gateway.toml")).unwrap_err(),
        "gateway.toml",
        "admin.listen",
        &["nowhere"]
    ));
    assert!(config::admin(&folder.path("none.toml")).unwrap_err().to_string().contains("--config"));
}

#[test]
fn who_brings_a_token_needs_no_configured_one() {
    let token = "tokens = [{ name = \"ops\", secret = \"${NOT_SET_ANYWHERE}\", scope = \"push\" }]";
    let folder = Folder::new().gateway(&format!("[admin]\nlisten = \"10.0.0.5:9\"\n{token}\n"));
    assert!(config::admin(&folder.path("gateway.toml")).is_err());
    assert_eq!(config::admin_address(&folder.path("gateway.toml")).unwrap().to_string(), "10.0.0.5:9");
    let folder = Folder::new().gateway("admin.listen = \"nowhere\"");
    let faults = config::admin_address(&folder.path("gateway.toml")).unwrap_err();
    assert!(blames(&faults, "gateway.toml", "admin.listen", &["nowhere"]), "{faults}");
}
