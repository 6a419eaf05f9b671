//! The configuration read again while the gateway runs: all of it or nothing, and no message is lost on the way.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::timeout;
use wecom_gateway::sim::scenario::{robot_app, robot_key};
use wecom_gateway::sim::{Caller, FakeWeCom, Options, Scenario, Tag, robot_text};

use crate::crash::process::Gateway;
use crate::on_both_stores;
use crate::world::{APP, On, TEST, World, caller_at, key};

on_both_stores!(
    rules_and_chats_change_under_what_waits,
    nothing_is_lost_while_it_changes_again_and_again,
    a_fault_leaves_everything_as_it_was,
    apps_come_and_go,
);

fn chats(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// An app whose `/echo` puts something in front.
fn echoing(fake: &FakeWeCom, words: &str, names: &[&str]) -> Value {
    let mut app = robot_app(fake, APP, &chats(names));
    app["commands"][1]["action"]["text"] = format!("{words}{{{{ args.text }}}}").into();
    app
}

/// As the app of before, with its secrets.
fn keeping_secrets(world: &World, mut app: Value) -> Value {
    let text = std::fs::read_to_string(world.folder().join(format!("apps/{APP}.toml"))).unwrap();
    let before: Value = toml::from_str(&text).unwrap();
    for key in ["token", "encoding_aes_key"] {
        app[key] = before[key].clone();
    }
    app
}

async fn rules_and_chats_change_under_what_waits(on: On) {
    let world = World::new(on, &["c1"]).await;
    world.fake.hold(&key("c1"));
    world.say("c1", "u1", "m1", "/echo before").await;
    world.say("c1", "u1", "m2", "/echo before").await;
    world.fake.until(|fake| fake.under_way(&key("c1")) == 1).await;
    world.until_waiting("c1", 2).await;
    let app = keeping_secrets(&world, echoing(&world.fake, "new: ", &["c1", "c2"]));
    let (world, status, answer) = world.reload_as(|_, scenario| scenario.app(APP, app)).await;
    let expected = json!({"changed": ["apps/support.toml"], "added": [], "removed": [], "needs_restart": []});
    assert_eq!((status, answer), (200, expected));
    world.say("c1", "u1", "m3", "/echo after").await;
    world.say("c2", "u1", "m4", "/echo after").await;
    world.fake.until(|fake| fake.texts(&key("c2")).len() == 1).await;
    world.fake.release(&key("c1"));
    world.fake.until(|fake| fake.texts(&key("c1")).len() == 3).await;
    assert_eq!(world.texts("c1"), ["before", "before", "new: after"]);
    assert_eq!(world.texts("c2"), ["new: after"]);
    // Read again as it is, it changes nothing.
    let (world, status, answer) = world.reload_as(|_, scenario| scenario).await;
    assert_eq!((status, &answer["changed"]), (200, &json!([])));
    world.end().await;
}

async fn nothing_is_lost_while_it_changes_again_and_again(on: On) {
    const MESSAGES: u64 = 200;
    let world = World::new(on, &["c1", "c2"]).await;
    let texts = |n: u64| Tag::new(["c1", "c2"][n as usize % 2], "u1", n);
    let talk = async {
        for n in 0..MESSAGES {
            let tag = texts(n);
            world.say(&tag.chat, "u1", &format!("m{n}"), &format!("/echo {tag}")).await;
        }
    };
    let app = keeping_secrets(&world, robot_app(&world.fake, APP, &chats(&["c1", "c2"])));
    let file = world.folder().join(format!("apps/{APP}.toml"));
    let change = async {
        for weight in 1..=30 {
            let mut app = app.clone();
            app["chats"][0]["weight"] = weight.into();
            std::fs::write(&file, toml::to_string(&app).unwrap()).unwrap();
            let (status, answer) = world.post("reload", &Value::Null).await;
            assert_eq!((status, &answer["changed"]), (200, &json!(["apps/support.toml"])), "{answer}");
        }
    };
    tokio::join!(talk, change);
    for (chat, first) in [("c1", 0), ("c2", 1)] {
        let expected: Vec<String> = (first..MESSAGES).step_by(2).map(|n| texts(n).to_string()).collect();
        world.fake.until(|fake| fake.texts(&key(chat)).len() >= expected.len()).await;
        assert_eq!(world.texts(chat), expected);
    }
    world.api(&format!("chats/{APP}/c1"), |chat| chat["weight"] == 30).await;
    world.end().await;
}

async fn a_fault_leaves_everything_as_it_was(on: On) {
    let world = World::new(on, &["c1"]).await;
    let mut app = keeping_secrets(&world, echoing(&world.fake, "new: ", &["c1"]));
    app["max_reply_age"] = "soon".into();
    let (world, status, answer) = world.reload_as(|_, scenario| scenario.app(APP, app)).await;
    let told = answer["error"]["message"].as_str().unwrap();
    assert_eq!((status, answer["error"]["code"].as_str()), (422, Some("configuration_faults")));
    assert!(told.contains("support.toml: max_reply_age: \"soon\""), "{told}");
    world.say("c1", "u1", "m1", "/echo as before").await;
    world.fake.until(|fake| fake.texts(&key("c1")).len() == 1).await;
    assert_eq!(world.texts("c1"), ["as before"]);
    world.end().await;
}

async fn apps_come_and_go(on: On) {
    let world = World::new(on, &["c1"]).await;
    let sales = robot_app(&world.fake, "sales", &chats(&["s1"]));
    let (world, status, answer) = world.reload_as(|_, scenario| scenario.app("sales", sales)).await;
    assert_eq!((status, &answer["added"], &answer["changed"]), (200, &json!(["apps/sales.toml"]), &json!([])));
    let caller = world.caller_of("sales");
    let text = |id: &str| robot_text("s1", "u1", id, "/echo hello");
    assert_eq!(caller.post(&text("m1")).await, Some(200));
    world.fake.until(|fake| fake.texts(&robot_key("sales", "s1")).len() == 1).await;
    std::fs::remove_file(world.folder().join("apps/sales.toml")).unwrap();
    let (status, answer) = world.post("reload", &Value::Null).await;
    assert_eq!((status, &answer["removed"]), (200, &json!(["apps/sales.toml"])));
    let list = world.api("changes", |list| list["items"].as_array().is_some_and(|items| items.len() == 2)).await;
    for (item, what) in [(&list["items"][0], "removed"), (&list["items"][1], "added")] {
        assert_eq!(
            (&item["kind"], &item["via"], &item["by"]),
            (&json!("configuration"), &json!("api"), &json!("loopback"))
        );
        assert_eq!((&item["app"], &item["detail"][what]), (&Value::Null, &json!(["apps/sales.toml"])));
        assert!(item["detail"]["host"].is_string() && item["detail"]["process"] == std::process::id(), "{item}");
    }
    assert_eq!(caller.post(&text("m2")).await, Some(404));
    // Another key is another caller's.
    let before = world.caller_of(APP);
    let (world, status, _) = world
        .reload_as(|fake, scenario| scenario.without("sales").app(APP, robot_app(fake, APP, &chats(&["c1"]))))
        .await;
    assert_eq!(status, 200);
    assert_eq!(before.post(&robot_text("c1", "u1", "m3", "/echo x")).await, Some(403));
    world.fence("c1", "u1").await;
    world.end().await;
}

#[tokio::test]
async fn what_cannot_change_says_so() {
    let world = World::new(On::Embedded, &["c1"]).await;
    let moved = |_: &FakeWeCom, scenario: Scenario| {
        scenario.set("server", "listen", "127.0.0.1:1").set("store", "lane_depth", 7).set("dedup", "max_skew", "20m")
    };
    let (world, status, answer) = world.reload_as(moved).await;
    let expected =
        json!({"changed": ["gateway.toml"], "added": [], "removed": [], "needs_restart": ["server.listen", "store"]});
    assert_eq!((status, answer), (200, expected));
    // And it goes on saying so, beside the files that say otherwise.
    let waits =
        |shown: &Value| shown["needs_restart"] == json!(["server.listen", "store"]) && shown["read_at"].is_string();
    world.api("configuration", waits).await;
    world.fence("c1", "u1").await;
    world.end().await;
}

/// By itself the configuration is sound, and it would be after a restart; beside what can't change it is not.
#[tokio::test]
async fn what_needs_a_restart_first_is_refused_whole() {
    let world = World::new(On::Embedded, &["c1"]).await;
    let mut app = keeping_secrets(&world, echoing(&world.fake, "new: ", &["c1"]));
    app["session"] = json!({"scope": "chat"});
    let shared = |_: &FakeWeCom, scenario: Scenario| scenario.app(APP, app).set("workers", "order", "chat");
    let (world, status, answer) = world.reload_as(shared).await;
    let told = answer["error"]["message"].as_str().unwrap();
    assert_eq!((status, answer["error"]["code"].as_str()), (409, Some("needs_restart")));
    assert!(told.contains("workers can't change before a restart") && told.contains("session.scope"), "{told}");
    world.say("c1", "u1", "m1", "/echo as before").await;
    world.fake.until(|fake| fake.texts(&key("c1")).len() == 1).await;
    assert_eq!(world.texts("c1"), ["as before"]);
    world.end().await;
}

/// A process of its own, and the app's file that it reads.
struct Served {
    fake: FakeWeCom,
    caller: Caller,
    file: PathBuf,
    gateway: Gateway,
    _files: Scenario,
}

impl Served {
    async fn start(shape: impl FnOnce(Scenario) -> Scenario) -> Self {
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let app = echoing(&fake, "old: ", &["c1"]);
        let scenario = shape(Scenario::new(&fake).unwrap().app(APP, app));
        let file = scenario.write().unwrap();
        let gateway = Gateway::start(&file, None).await.unwrap();
        let caller = caller_at(gateway.callbacks, &scenario, APP);
        Self { fake, caller, file: file.with_file_name(format!("apps/{APP}.toml")), gateway, _files: scenario }
    }

    /// Writes a word over another in the app's file.
    fn change(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.file).unwrap();
        assert!(text.contains(from));
        std::fs::write(&self.file, text.replace(from, to)).unwrap();
    }

    /// Waits until the trail of changes ends with so many, all of them this way; tells them.
    async fn tells_of(&self, via: &str, most: usize) -> Vec<Value> {
        let url = format!("http://{}/api/v1/changes", self.gateway.admin);
        let items = loop {
            let list: Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
            let items = list["items"].as_array().unwrap();
            if items.len() >= most {
                break items.clone();
            }
        };
        assert_eq!(items.len(), most, "{items:?}");
        for item in &items {
            assert_eq!((&item["kind"], &item["via"], &item["by"]), (&json!("configuration"), &json!(via), &json!(via)));
        }
        items.iter().map(|item| item["detail"].clone()).collect()
    }

    /// What `GET /configuration` tells of later files that were not taken.
    async fn refusal(&self) -> Value {
        let url = format!("http://{}/api/v1/configuration", self.gateway.admin);
        let shown: Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
        shown["last_refusal"].clone()
    }

    /// How often files were read again, by what came of it.
    async fn reloads(&self) -> [u64; 3] {
        let url = format!("http://{}/metrics", self.gateway.admin);
        let text = reqwest::get(&url).await.unwrap().text().await.unwrap();
        ["taken", "unchanged", "refused"].map(|result| {
            let name = format!("wecom_gateway_reloads_total{{result=\"{result}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
        })
    }

    async fn answers(&self, msg_id: &str, text: &str) {
        assert_eq!(self.caller.post(&robot_text("c1", "u1", msg_id, "/echo word")).await, Some(200));
        self.fake.until(|fake| fake.texts(&key("c1")).last().is_some_and(|last| last == text)).await;
    }
}

#[tokio::test]
async fn a_hangup_reads_it_again_and_a_fault_is_logged() {
    let test = async {
        let served = Served::start(|scenario| scenario).await;
        served.answers("m1", "old: word").await;
        served.change("old: ", "new: ");
        served.gateway.signal(Signal::HUP);
        served.gateway.says("a new configuration is in force").await;
        served.answers("m2", "new: word").await;
        let taken = &served.tells_of("signal", 1).await[0];
        assert_eq!(taken["changed"], json!(["apps/support.toml"]));
        assert_eq!(taken["keys"], json!({"apps/support.toml": {"commands[echo].action.text": "changed"}}));
        served.change("bot_names", "bot_nmaes");
        served.gateway.signal(Signal::HUP);
        served.gateway.says("did you mean").await;
        let refused = &served.tells_of("signal", 2).await[0];
        assert_eq!((&refused["refused"], &refused["faults"]), (&json!("configuration_faults"), &json!(1)), "{refused}");
        let refusal = served.refusal().await;
        assert_eq!((&refusal["by"], &refusal["faults"]), (&json!("signal"), &json!(1)));
        assert!(refusal["message"].as_str().unwrap().contains("did you mean \"bot_names\"?"), "{refusal}");
        assert_eq!(served.reloads().await, [1, 0, 1]);
        served.change("bot_nmaes", "bot_names");
        served.gateway.signal(Signal::HUP);
        served.gateway.says("nothing changed").await;
        assert_eq!((served.refusal().await, served.reloads().await), (Value::Null, [1, 1, 1]));
    };
    timeout(TEST, test).await.expect("within its time");
}

#[tokio::test]
async fn watched_files_are_taken_as_they_change() {
    let test = async {
        let served = Served::start(|scenario| scenario.set("server", "watch", "1s")).await;
        served.change("bot_names", "bot_nmaes");
        served.gateway.says("did you mean").await;
        served.change("bot_nmaes", "bot_names");
        served.change("old: ", "new: ");
        served.gateway.says("a new configuration is in force").await;
        served.answers("m1", "new: word").await;
        let told = served.tells_of("watch", 2).await;
        assert_eq!((&told[0]["changed"], &told[1]["faults"]), (&json!(["apps/support.toml"]), &json!(1)));
    };
    timeout(TEST, test).await.expect("within its time");
}
