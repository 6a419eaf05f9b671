//! A gateway with an app of each kind, callbacks that are spoilt in one way each, and `explain` beside it.

use std::process::{Command, Output};

use rand::RngExt;
use serde_json::{Value, json};
use wecom_gateway::config::settings::AppKind;
use wecom_gateway::model::{Secret, now_ms};
use wecom_gateway::sim::Options;
use wecom_gateway::sim::scenario::{aibot_app, api_app, json_app, robot_app};
use wecom_gateway::wecom::crypto::{CallbackCrypto, ReceiveId};

use crate::world::{APP, On, TEST, World};

pub const CORP: &str = "ww5e1f00c0ffee1234";
pub const HOOK: (&str, &str) = ("X-Webhook-Token", "hook-token-0001");
/// What members write in most tests: nobody but `--show-text` may show it.
pub const WORDS: &str = "/echo 只给我看";

/// A gateway with an app of each kind, and the same files for `explain`.
pub struct Bench {
    pub world: World,
    pub http: reqwest::Client,
}

/// What `explain` said, and with what it ended.
pub struct Explained {
    pub code: i32,
    pub said: Value,
    pub output: Output,
}

impl Explained {
    /// The fault of the first step that fails, or of the one that is only worth a look.
    pub fn fault(&self) -> &str {
        self.step_that("fails")["fault"].as_str().unwrap_or_default()
    }

    pub fn step_that(&self, state: &str) -> &Value {
        let steps = self.said["steps"].as_array().expect("steps");
        steps.iter().find(|step| step["state"] == state).unwrap_or(&Value::Null)
    }

    pub fn step(&self, name: &str) -> &Value {
        let steps = self.said["steps"].as_array().expect("steps");
        steps.iter().find(|step| step["step"] == name).unwrap_or(&Value::Null)
    }

    pub fn says(&self, step: &str, words: &str) {
        assert!(self.step(step).to_string().contains(words), "{step}: {words}: {:#}", self.said);
    }
}

/// A callback on its way: what it asks, and what it carries.
#[derive(Clone)]
pub struct Callback {
    pub app: String,
    pub query: String,
    pub body: Option<Vec<u8>>,
}

impl Callback {
    pub fn url(&self) -> String {
        format!("/callback/{}?{}", self.app, self.query)
    }

    pub fn to(self, app: &str) -> Self {
        Self { app: app.into(), ..self }
    }

    pub fn with(self, change: impl FnOnce(String) -> String) -> Self {
        let body = change(String::from_utf8(self.body.expect("a body")).expect("text")).into_bytes();
        Self { body: Some(body), ..self }
    }
}

pub fn random_text(length: usize) -> String {
    rand::rng().sample_iter(rand::distr::Alphanumeric).take(length).map(char::from).collect()
}

/// One more crypto of WeCom's side, with a value of its own in place of one of the app's.
pub fn other(settings: &Value, token: Option<&str>, key: Option<&str>, receive_id: &str) -> CallbackCrypto {
    let of = |key: &str, own: Option<&str>| Secret::new(own.unwrap_or(settings[key].as_str().unwrap()));
    let receive_id = ReceiveId::Exactly(receive_id.into());
    CallbackCrypto::new(of("token", token), &of("encoding_aes_key", key), receive_id).unwrap()
}

/// The query and the ciphertext of a payload, signed so many seconds from now; drawn until the ciphertext has a `+`.
pub fn sealed(crypto: &CallbackCrypto, payload: &str, seconds: i64) -> (String, String) {
    let cipher = loop {
        let cipher = crypto.encrypt(payload.as_bytes(), rand::rng().random());
        if cipher.contains('+') && cipher.contains('/') {
            break cipher;
        }
    };
    let (timestamp, nonce) = ((now_ms() / 1000 + seconds).to_string(), "1234567890");
    let signature = crypto.sign(&timestamp, nonce, &cipher);
    (format!("msg_signature={signature}&timestamp={timestamp}&nonce={nonce}"), cipher)
}

pub fn posted_at(crypto: &CallbackCrypto, payload: &str, seconds: i64) -> Callback {
    let (query, cipher) = sealed(crypto, payload, seconds);
    let body = format!("<xml><ToUserName>x</ToUserName><Encrypt><![CDATA[{cipher}]]></Encrypt></xml>");
    Callback { app: APP.into(), query, body: Some(body.into_bytes()) }
}

pub fn posted(crypto: &CallbackCrypto, payload: &str) -> Callback {
    posted_at(crypto, payload, 0)
}

/// A URL verification; `encode` writes its echostr.
pub fn verification(crypto: &CallbackCrypto, encode: impl FnOnce(&str) -> String) -> Callback {
    let (query, cipher) = sealed(crypto, "1616140317555161061", 0);
    Callback { app: APP.into(), query: format!("{query}&echostr={}", encode(&cipher)), body: None }
}

impl Bench {
    pub async fn new() -> Self {
        let world = World::with(On::Embedded, &["c1"], Options::default(), |fake, scenario| {
            let mut corp = robot_app(fake, "corp", &[]);
            (corp["kind"], corp["receive_id"]) = ("app".into(), CORP.into());
            corp["chats"] = json!([{"id": "no-way"}]);
            scenario
                .app("corp", corp)
                .app("hr", api_app(fake, "hr", &[]))
                .app("bot", aibot_app(fake, "bot"))
                .app("hook", json_app(fake, "hook", &["h1".into()], HOOK))
        })
        .await;
        Self { world, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    pub fn crypto(&self, app: &str) -> CallbackCrypto {
        let settings = wecom_gateway::config::load(&self.world.config()).unwrap();
        match &settings.apps[app].kind {
            AppKind::App(crypto) | AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto) => crypto.clone(),
            AppKind::Json(_) => panic!("nothing is encrypted there"),
        }
    }

    /// The file of an app, as written.
    pub fn file(&self, app: &str) -> Value {
        let path = self.world.config().with_file_name("apps").join(format!("{app}.toml"));
        toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    pub async fn run(&self, app: &str, callback: &Callback, more: &[&str]) -> Output {
        self.run_by(app, callback, &callback.url(), more).await
    }

    /// As the URL is written here.
    pub async fn run_by(&self, app: &str, callback: &Callback, url: &str, more: &[&str]) -> Output {
        let config = self.world.config();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
        command.arg("explain").arg("--config").arg(&config).args(["--app", app, "--url", url]).args(more);
        if let Some(body) = &callback.body {
            let file = config.with_file_name("body");
            std::fs::write(&file, body).unwrap();
            command.arg("--body").arg(file);
        }
        tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
    }

    /// Explains a callback. Nothing that must not be told is told, neither to eyes nor to machines.
    pub async fn explain(&self, app: &str, callback: &Callback, more: &[&str]) -> Explained {
        let output = self.run(app, callback, &[more, &["--format", "json"]].concat()).await;
        let code = output.status.code().expect("it ends by itself");
        let text = self.run(app, callback, more).await;
        assert_eq!(text.status.code(), Some(code));
        for output in [&output, &text] {
            let all = [&output.stdout[..], &output.stderr].concat();
            let all = String::from_utf8(all).unwrap();
            for secret in self.secrets() {
                assert!(!all.contains(&secret), "{secret} in {all}");
            }
        }
        let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        Explained { code, said, output: text }
    }

    pub fn secrets(&self) -> Vec<String> {
        let mut secrets =
            vec![WORDS.into(), "只给我看".into(), HOOK.1.into(), "secret-of-hr".into(), "161614031755".into()];
        for app in [APP, "corp", "hr", "bot"] {
            let file = self.file(app);
            secrets.extend(["token", "encoding_aes_key"].map(|key| file[key].as_str().unwrap().to_owned()));
        }
        secrets
    }

    /// Explains a callback that the gateway answers in the same way.
    pub async fn agrees(&self, app: &str, callback: &Callback) -> Explained {
        let explained = self.explain(app, callback, &[]).await;
        let url = format!("http://{}{}", self.world.app.callback_addr(), callback.url());
        let request = match &callback.body {
            Some(body) => self.http.post(url).body(body.clone()),
            None => self.http.get(url),
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let error: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default();
        let said = &explained.said;
        assert_eq!((&said["status"], &said["code"]), (&json!(status), &error["error"]["code"]), "{said:#}");
        assert_eq!(explained.code, i32::from(said["acts"] != true), "{said:#}");
        // Whatever is refused, a step says so; and none fails in front of an ack that is given.
        let before = [
            "path",
            "app",
            "method",
            "size",
            "auth",
            "query",
            "echostr",
            "envelope",
            "timestamp",
            "signature",
            "clock",
        ];
        let inside = ["base64", "decryption", "receive_id", "payload", "ids"];
        let mut steps = said["steps"].as_array().unwrap().iter().filter(|step| step["state"] == "fails");
        let refused = steps.any(|step| before.iter().chain(&inside).any(|name| step["step"] == *name));
        assert_eq!(refused, status != 200, "{said:#}");
        explained
    }

    /// As [`Bench::agrees`], for a callback with this fault.
    pub async fn finds(&self, callback: &Callback, fault: &str) -> Explained {
        let explained = self.agrees(&callback.app, callback).await;
        assert_eq!((explained.code, explained.fault()), (1, fault), "{:#}", explained.said);
        assert!(!explained.step_that("fails")["mend"].as_str().unwrap().is_empty());
        explained
    }

    pub async fn end(self) {
        self.world.end().await;
    }
}

/// A bounded test.
pub async fn bounded(test: impl Future<Output = ()>) {
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
