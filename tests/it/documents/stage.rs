//! What pages show happens: under each heading the gateway of its configuration runs (or one that fits, where there is none),
//! and what members say, services are asked and answer, chats hear, and commands bring is so, in the order of the page.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command as Process, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use wecom_gateway::app::App;
use wecom_gateway::config::Settings;
use wecom_gateway::config::settings::AppKind;
use wecom_gateway::sim::wecom::{member, response};
use wecom_gateway::sim::{Answer, Caller, FakeWeCom, Options, aibot_text, app_text, robot_text};

use super::expected::differs;
use super::files::{Files, value};
use super::page::Block;
use super::services::{self, Services};
use super::shell::{Command, commands};
use crate::mariadb_server::MariaDb;
use crate::redis_server::{DURABLE, RedisServer};

/// How long what was asked for may take to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway (or two, on one Redis) under one heading.
pub struct Stage {
    folder: TempDir,
    gateways: Vec<App>,
    /// With whether theirs is a smart robot.
    callers: Vec<(Caller, bool)>,
    fake: FakeWeCom,
    services: Services,
    /// Of the chats that have a robot, its key; of a smart robot's, where the last message is answered.
    robots: BTreeMap<String, String>,
    /// How many texts of an outlet, requests to a service and answers of it the page has shown.
    shown: BTreeMap<String, usize>,
    variables: BTreeMap<String, String>,
    /// What shell commands find set.
    prelude: String,
    said: usize,
    _servers: (Option<RedisServer>, Option<MariaDb>),
}

impl Stage {
    /// Sets up what these blocks show.
    pub async fn set(blocks: &[Block]) -> Self {
        let files = Files::shown(blocks);
        let folder = tempfile::tempdir().unwrap();
        let (fake, services) = (FakeWeCom::start(Options::default()).await.unwrap(), Services::start().await);
        let gateway = files.0["gateway.toml"].as_str();
        let redis = gateway.contains("backend = \"redis\"").then(|| RedisServer::spawn(DURABLE));
        let records = if gateway.contains("mysql://") { Some(MariaDb::new().await) } else { None };
        let mut settings = Vec::new();
        for n in 0..if redis.is_some() { 2 } else { 1 } {
            let folder = folder.path().join(format!("gateway-{n}"));
            settings.push(led(&files, &folder, &fake, &services, redis.as_ref(), records.as_ref()));
        }
        let mut robots = BTreeMap::new();
        let mut callers = Vec::new();
        let mut gateways = Vec::new();
        for (n, settings) in settings.into_iter().enumerate() {
            let apps = settings.apps.clone();
            let file = folder.path().join(format!("gateway-{n}/gateway.toml"));
            let gateway = App::start_from(settings, file).await.unwrap();
            for app in apps.values() {
                if n == 0 {
                    open(&fake, app, &mut robots);
                }
                if let AppKind::App(crypto) | AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto) = &app.kind {
                    let url = format!("http://{}/callback/{}", gateway.callback_addr(), app.id);
                    let is_aibot = matches!(app.kind, AppKind::Aibot(_));
                    callers.push((Caller::new(url, crypto.clone()).unwrap(), is_aibot));
                }
            }
            gateways.push(gateway);
        }
        let mut variables: BTreeMap<String, String> =
            files.variables().into_iter().map(|name| (name.clone(), value(&name))).collect();
        for name in ["OPS_TOKEN", "PUSH_TOKEN"] {
            variables.insert(name.to_owned(), value(name));
        }
        furnish_shell(folder.path(), &files, &gateways[0]);
        let (shown, prelude, said) = (BTreeMap::new(), String::new(), 0);
        let _servers = (redis, records);
        Self { folder, gateways, callers, fake, services, robots, shown, variables, prelude, said, _servers }
    }

    /// Lets everything happen that these blocks show.
    pub async fn play(&mut self, blocks: &[Block]) {
        for block in blocks {
            if let Some(url) = block.note("answers") {
                self.services.will_answer(url, answer(block));
            }
        }
        for block in blocks {
            self.one(block).await;
        }
    }

    /// Stops everything.
    pub async fn end(self) {
        for gateway in self.gateways {
            gateway.stop().await;
        }
        self.fake.stop().await;
    }

    async fn one(&mut self, block: &Block) {
        let words = block.body.trim_end();
        let happens = async {
            if let Some(sender) = block.note("says") {
                self.says(sender, block.note("in"), words).await;
            } else if let Some(chat) = block.note("hears") {
                self.hears(&block.place, chat, words).await;
            } else if let Some(url) = block.note("asks") {
                let asked = self.asked("asks", url).await;
                let shown = serde_json::from_str(words).unwrap();
                assert_eq!(differs(&shown, &asked), None, "{}", block.place);
            } else if let Some(url) = block.note("answers") {
                self.asked("answers", url).await;
            } else if block.happens() {
                if let Some(chat) = block.note("unanswered") {
                    self.fake.script(&self.robots[chat], [Answer::Cut.into()]);
                }
                for command in commands(&block.body) {
                    self.run(&block.place, &command).await;
                }
            }
        };
        tokio::time::timeout(2 * PATIENCE, happens).await.unwrap_or_else(|_| panic!("{}: it never comes", block.place));
    }

    async fn says(&mut self, sender: &str, chat: Option<&str>, text: &str) {
        self.said += 1;
        let id = format!("msg-{}", self.said);
        let (caller, is_aibot) = &self.callers[self.said % self.callers.len()];
        let payload = match chat {
            Some(chat) if *is_aibot => {
                self.robots.insert(chat.to_owned(), response(&id));
                aibot_text(chat, sender, &id, text, &self.fake.response_url(&id, chat))
            }
            Some(chat) => robot_text(chat, sender, &id, text),
            None => app_text(sender, &id, text),
        };
        assert_eq!(caller.post(&payload).await, Some(200), "{text}");
    }

    async fn hears(&mut self, place: &str, chat: &str, text: &str) {
        let key = self.robots.get(chat).cloned().unwrap_or_else(|| member(chat));
        let n = self.next(&key);
        self.fake.until(|fake| fake.texts(&key).len() > n).await;
        assert_eq!(self.fake.texts(&key)[n], text, "{place}");
    }

    /// The next request to a service that the page shows so.
    async fn asked(&mut self, shown: &str, url: &str) -> Value {
        let n = self.next(&format!("{shown} {url}"));
        let asked = self.services.asked(url, n).await;
        if let Some(id) = asked["request_id"].as_str() {
            self.variables.insert("REQUEST_ID".to_owned(), id.to_owned());
        }
        asked
    }

    fn next(&mut self, what: &str) -> usize {
        let n = self.shown.entry(what.to_owned()).or_default();
        *n += 1;
        *n - 1
    }

    async fn run(&mut self, place: &str, command: &Command) {
        if command.is_assignment() {
            self.prelude += &format!("{}\n", at(&self.gateways[0], &command.text));
            return;
        }
        // It runs already.
        if command.text.starts_with("wecom-gateway serve") {
            return;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let ended = self.shell(&command.text).await;
            let Some(why) = wrong(command, &ended) else { return };
            assert!(command.only_asks() && Instant::now() < until, "{place}: {}\n{why}", command.text);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn shell(&self, text: &str) -> Output {
        let script = format!("set -uo pipefail\n{}\n{}", self.prelude, at(&self.gateways[0], text));
        let path = format!("{}:{}", self.folder.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut bash = Process::new("bash");
        bash.arg("-c").arg(script).current_dir(self.folder.path().join("shell"));
        bash.env("PATH", path).env("CURL_HOME", self.folder.path().join("bin")).envs(&self.variables);
        tokio::task::spawn_blocking(move || bash.output()).await.unwrap().unwrap()
    }
}

/// What shell commands find: a folder whose files say where the gateway really listens, the binary, and a curl that tells the status.
fn furnish_shell(folder: &Path, files: &Files, gateway: &App) {
    let there = files.0.iter().map(|(name, text)| (name.clone(), at(gateway, text)));
    Files(there.collect()).write(&folder.join("shell/config"));
    let binaries = folder.join("bin");
    std::fs::create_dir(&binaries).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_wecom-gateway"), binaries.join("wecom-gateway")).unwrap();
    let curl = "silent\nshow-error\nnoproxy = \"*\"\nwrite-out = \"\\n%{http_code}\"\n";
    std::fs::write(binaries.join(".curlrc"), curl).unwrap();
}

/// What is wrong with how a command ended.
fn wrong(command: &Command, ended: &Output) -> Option<String> {
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let all = format!("{out}{err}");
    if ended.status.code() != Some(command.outcome.code) {
        return Some(format!("it ended with {:?}: {all}", ended.status.code()));
    }
    let wanted = command.outcome.status?;
    let (body, status) = out.trim_end().rsplit_once('\n').unwrap_or_default();
    if status != wanted.to_string() {
        return Some(format!("status {status}: {all}"));
    }
    let shown = command.outcome.answer.as_ref()?;
    match serde_json::from_str(body) {
        Ok(got) => differs(shown, &got),
        Err(_) => Some(format!("no JSON: {body}")),
    }
}

fn answer(block: &Block) -> services::Answer {
    match block.language.as_str() {
        "json" => (200, Some(serde_json::from_str(&block.body).unwrap())),
        _ => (block.body.trim().parse().unwrap(), None),
    }
}

/// `text` with the addresses that pages give a gateway led to this one.
fn at(gateway: &App, text: &str) -> String {
    let text = text.replace("127.0.0.1:8080", &gateway.callback_addr().to_string());
    text.replace("127.0.0.1:8081", &gateway.admin_addr().to_string())
}

/// The settings of these files in `folder`, with everything outside led to what stands in for it.
fn led(
    files: &Files,
    folder: &Path,
    fake: &FakeWeCom,
    services: &Services,
    redis: Option<&RedisServer>,
    records: Option<&MariaDb>,
) -> Settings {
    let said = files.0.iter().map(|(name, text)| {
        let mut text = services.led_here(text);
        for variable in files.variables() {
            text = text.replace(&format!("${{{variable}}}"), &value(&variable));
        }
        (name.clone(), text)
    });
    let mut files = Files(said.collect());
    let mut gateway: toml::Table = files.0["gateway.toml"].parse().unwrap();
    let mut set = |section: &str, key: &str, value: toml::Value| {
        let section = gateway.entry(section).or_insert_with(|| toml::Table::new().into());
        section.as_table_mut().unwrap().insert(key.to_owned(), value);
    };
    set("server", "listen", "127.0.0.1:0".into());
    set("admin", "listen", "127.0.0.1:0".into());
    set("wecom", "api_base", fake.base().into());
    set("wecom", "webhook_hosts", vec!["127.0.0.1"].into());
    set("store", "path", folder.join("data").display().to_string().into());
    let own = format!("sqlite://{}", folder.join("records.db").display());
    set("database", "url", records.map_or(own, |records| records.url().expose().to_owned()).into());
    if let Some(redis) = redis {
        set("store", "redis", redis.url().expose().into());
    }
    files.0.insert("gateway.toml".to_owned(), toml::to_string(&gateway).unwrap());
    files.write(folder);
    wecom_gateway::config::load(&folder.join("gateway.toml")).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Makes the fake know an app's robots and its API side.
fn open(fake: &FakeWeCom, app: &wecom_gateway::config::settings::App, robots: &mut BTreeMap<String, String>) {
    if let Some(api) = &app.api {
        fake.app(&api.corp_id, api.secret.expose(), api.agent_id);
    }
    for chat in app.chats.values() {
        let Some(webhook) = chat.webhook() else { continue };
        let key = webhook.url.expose().rsplit_once("key=").unwrap().1.to_owned();
        fake.webhook(&key, &chat.id);
        robots.insert(chat.id.clone(), key);
    }
}
