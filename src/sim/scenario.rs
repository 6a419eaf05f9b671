//! The configuration of a gateway between a load and the fake WeCom: real files in a temporary folder, read the way
//! a user's are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand::distr::Alphanumeric;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::wecom::FakeWeCom;

/// A configuration in the making. Its folder, the store in it included, goes when it is dropped.
#[derive(Debug)]
pub struct Scenario {
    folder: TempDir,
    gateway: Value,
    apps: BTreeMap<String, Value>,
}

/// The robot key of `chat` in `app`, for [`FakeWeCom::script`] and its like.
pub fn robot_key(app: &str, chat: &str) -> String {
    format!("{app}-{chat}")
}

/// Which of its corp's apps every [`api_app`] is.
pub const AGENT_ID: u64 = 7;

fn random_text(length: usize) -> String {
    rand::rng().sample_iter(Alphanumeric).take(length).map(char::from).collect()
}

/// A group robot's app for [`super::Load`]: `/query`, `/echo`, a keyword, mentions, a forbidden word; a robot of the fake
/// for each chat; fresh token and key.
pub fn robot_app(fake: &FakeWeCom, app: &str, chats: &[String]) -> Value {
    let mut settings = rules(fake, app, chats);
    settings["kind"] = "group_robot".into();
    settings["token"] = random_text(16).into();
    settings["encoding_aes_key"] = random_text(43).into();
    settings
}

/// As [`robot_app`], as a self-built app that the fake knows, by `message/send` and, in groups that it made, `appchat/send`.
pub fn api_app(fake: &FakeWeCom, app: &str, groups: &[&str]) -> Value {
    let mut settings = robot_app(fake, app, &[]);
    let (corp, secret) = (format!("ww-{app}"), format!("secret-of-{app}"));
    fake.app(&corp, &secret, AGENT_ID);
    groups.iter().for_each(|group| fake.app_chat(group));
    settings["kind"] = "app".into();
    settings["corp_id"] = corp.into();
    settings["agent_id"] = AGENT_ID.into();
    settings["secret"] = secret.into();
    settings["chats"] = groups.iter().map(|group| json!({"id": group, "appchat": true})).collect();
    settings
}

/// As [`robot_app`], as a smart robot.
pub fn aibot_app(fake: &FakeWeCom, app: &str) -> Value {
    let mut settings = robot_app(fake, app, &[]);
    settings["kind"] = "aibot".into();
    settings
}

/// As [`robot_app`], behind a plain JSON webhook that a header opens.
pub fn json_app(fake: &FakeWeCom, app: &str, chats: &[String], header: (&str, &str)) -> Value {
    let mut settings = rules(fake, app, chats);
    settings["kind"] = "json".into();
    settings["auth"] = json!({"type": "header", "name": header.0, "value": header.1});
    settings
}

fn rules(fake: &FakeWeCom, app: &str, chats: &[String]) -> Value {
    let chats: Vec<Value> =
        chats.iter().map(|chat| json!({"id": chat, "webhook": fake.webhook(&robot_key(app, chat), chat)})).collect();
    let ask = |name: &str| {
        let url = format!("{}/action/{name}", fake.base());
        let mut action = json!({"type": "http", "url": url, "timeout": "10s"});
        if let Some(secret) = fake.action_secret() {
            action["secret"] = secret.into();
        }
        action
    };
    let order_id = json!({"name": "order_id", "label": "订单号", "type": "integer", "required": true});
    let words = json!({"name": "text", "label": "内容", "type": "rest", "required": true});
    json!({
        "bot_names": ["小助手"],
        "chats_default": {"pace": "100000/min"},
        "chats": chats,
        "rules": {"sensitive": ["违禁词"]},
        "commands": [
            {"name": "query", "aliases": ["查询订单"], "summary": "查询订单状态", "args": [order_id], "action": ask("orders")},
            {"name": "echo", "summary": "原样回复", "args": [words], "action": {"type": "reply", "text": "{{ args.text }}"}},
        ],
        "keywords": [{"any": ["优惠券"], "action": ask("coupon")}],
        "mention": {"action": ask("ask")},
    })
}

impl Scenario {
    /// Listeners on free loopback ports, the embedded store in the scenario's own folder, `fake` as WeCom.
    pub fn new(fake: &FakeWeCom) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("wecom-gateway-").tempdir()?;
        let data = folder.path().join("data");
        let gateway = json!({
            "server": {"listen": "127.0.0.1:0"},
            "admin": {"listen": "127.0.0.1:0"},
            "wecom": {"api_base": fake.base(), "webhook_hosts": ["127.0.0.1"]},
            "store": {"backend": "embedded", "path": data},
            "database": {"url": format!("sqlite://{}", folder.path().join("records.db").display())},
        });
        Ok(Self { folder, gateway, apps: BTreeMap::new() })
    }

    /// Adds an app.
    pub fn app(mut self, id: &str, settings: Value) -> Self {
        self.apps.insert(id.to_owned(), settings);
        self
    }

    /// Takes an app away, whose file is gone.
    pub fn without(mut self, id: &str) -> Self {
        self.apps.remove(id);
        self
    }

    /// Sets a key of `gateway.toml`.
    pub fn set(mut self, section: &str, key: &str, value: impl Into<Value>) -> Self {
        self.gateway[section][key] = value.into();
        self
    }

    /// Keeps lanes in this Redis instead.
    pub fn on_redis(self, url: &str) -> Self {
        self.set("store", "backend", "redis").set("store", "redis", url)
    }

    /// Writes the files; the path is `gateway.toml`'s.
    pub fn write(&self) -> io::Result<PathBuf> {
        let path = self.folder.path().join("gateway.toml");
        let apps = self.folder.path().join("apps");
        std::fs::create_dir_all(&apps)?;
        write_toml(&path, &self.gateway)?;
        for (id, app) in &self.apps {
            write_toml(&apps.join(format!("{id}.toml")), app)?;
        }
        Ok(path)
    }
}

fn write_toml(path: &Path, settings: &Value) -> io::Result<()> {
    std::fs::write(path, toml::to_string(settings).map_err(io::Error::other)?)
}
