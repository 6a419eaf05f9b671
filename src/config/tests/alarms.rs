//! `[alarms]`: its defaults, and what it may not share.

use std::time::Duration;

use super::{Folder, blames, each_gateway_fault, robot};

const HOOK: &str = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k-1";

#[test]
fn nobody_is_told_unless_the_section_says_who() {
    let none = Folder::new().settings().alarms;
    assert!(none.webhook.is_none() && none.hook.is_none());
    assert_eq!(none.window, Duration::from_secs(600));
    let text = format!(
        "[alarms]\nwebhook = \"{HOOK}\"\nurl = \"http://ops:9000/x?key=u-1\"\nsecret = \"${{OPS_TOKEN}}\"\nwindow = \"1m\""
    );
    let both = Folder::new().gateway(&text).settings().alarms;
    let hook = both.hook.clone().unwrap();
    assert_eq!((hook.url.expose(), hook.secret.unwrap().expose()), ("http://ops:9000/x?key=u-1", "ops-secret"));
    assert_eq!((both.webhook.as_ref().unwrap().url.expose(), both.window), (HOOK, Duration::from_secs(60)));
    let told = format!("{both:?}");
    assert!(!told.contains("k-1") && !told.contains("u-1") && !told.contains("ops-secret"), "{told}");
}

#[test]
fn faults_of_the_section_name_their_key() {
    each_gateway_fault(&[
        ("alarms.webhook = \"https://evil.example/send?key=k\"", "alarms.webhook", &["evil.example", "webhook_hosts"]),
        ("alarms.webhook = \"\"", "alarms.webhook", &["copy the whole URL"]),
        ("alarms.url = \"ftp://ops\"", "alarms.url", &["neither http:// nor https://"]),
        ("alarms.url = \"\"\nalarms.secret = \"s\"", "alarms.url", &["is no URL"]),
        ("alarms.secret = \"s\"", "alarms.secret", &["url", "add it"]),
        ("alarms.window = \"0s\"", "alarms.window", &[]),
        ("alarms.windows = \"1m\"", "alarms.windows", &["did you mean \"window\"?"]),
    ]);
}

#[test]
fn its_robot_is_no_chats() {
    let chat = robot(&format!("chats = [{{ id = \"c1\", webhook = \"{HOOK}&x=1\" }}]"));
    let faults = Folder::new().gateway("alarms.webhook = \"k-1\"").app("a", &chat).faults();
    let words = ["[alarms]", "has the webhook of chat \"c1\"", "apps/a.toml"];
    assert!(blames(&faults, "gateway.toml", "alarms.webhook", &words) && faults.iter().count() == 1, "{faults}");
    assert!(!faults.to_string().contains("k-1"), "{faults}");
}
