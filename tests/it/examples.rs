//! The business services of `examples/`, started for real behind a gateway: they do what a member asks, believe nobody but the
//! gateway, do nothing by what they can't read, and nothing twice.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use futures_util::future::join_all;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use wecom_gateway::model::now_ms;
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{FakeWeCom, Options, Scenario};

use crate::world::{APP, On, TEST, World};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
const SECRET: &str = "orders-secret";

#[derive(Clone, Copy, Debug)]
enum Language {
    Python,
    Go,
}

/// A service as a process, and the folder that it keeps its orders in; gone with its handle.
struct Service {
    language: Language,
    child: Child,
    url: String,
    folder: TempDir,
}

impl Service {
    async fn start(language: Language) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, url, folder) = within(move || {
            if let Language::Go = language {
                let mut go = Command::new("go");
                go.current_dir(format!("{EXAMPLES}/go"))
                    .args(["build", "-buildvcs=false", "-o"])
                    .arg(folder.path().join("orders"));
                let built = go.arg(".").output().expect("go: scripts/test brings it");
                assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            }
            let (child, url) = spawn(language, folder.path());
            (child, url, folder)
        })
        .await;
        Self { language, child, url, folder }
    }

    /// `kill -9`, and again on the same file.
    async fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let (language, folder) = (self.language, self.folder.path().to_owned());
        (self.child, self.url) = within(move || spawn(language, &folder)).await;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs what blocks, not longer than a test may take.
async fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::time::timeout(TEST, tokio::task::spawn_blocking(work)).await.expect("within its time").unwrap()
}

/// Starts it and reads from its first line where it listens.
fn spawn(language: Language, folder: &Path) -> (Child, String) {
    let mut command = match language {
        Language::Python => {
            let mut python = Command::new("python3");
            python.arg(format!("{EXAMPLES}/python/orders.py"));
            python
        }
        Language::Go => Command::new(folder.join("orders")),
    };
    command.args(["--listen", "127.0.0.1:0", "--data"]).arg(folder.join("kept")).env("ORDERS_SECRET", SECRET);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.unwrap_or_else(|error| panic!("{language:?}: {error}: scripts/test brings it"));
    let (stdout, (tell, told)) = (child.stdout.take().unwrap(), mpsc::channel());
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = tell.send(line);
    });
    let line = told.recv_timeout(TEST).expect("it says where it listens");
    let url = line.trim().strip_prefix("orders at ").unwrap_or_else(|| panic!("{language:?}: {line:?}")).to_owned();
    (child, url)
}

/// An action request as the gateway would post it.
fn order(msg_id: &str, item: &str) -> Value {
    json!({"request_id": "r", "app": APP, "trigger": "command", "chat": {"id": "c1", "kind": "group", "name": null},
        "message": {"id": msg_id, "type": "text", "text": format!("/order {item}")},
        "sender": {"key": "u1", "kind": "external", "user_id": null, "contact": {"name": null}},
        "command": {"name": "order", "args": {"item": item}}, "session": {"turns": [], "vars": {}}})
}

/// As `Idempotency-Key` has it.
fn key(msg_id: &str) -> String {
    hex::encode(Sha256::digest([APP, "c1", "u1", msg_id].join("\0")))
}

fn signature(secret: &str, timestamp: &str, body: impl AsRef<[u8]>) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    let mac = mac.chain_update(timestamp).chain_update(".").chain_update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// Posts a body under these headers; status and text of the answer (all of it, where it is no JSON).
async fn post(url: &str, msg_id: &str, body: impl AsRef<[u8]>, timestamp: &str, signature: &str) -> (u16, String) {
    let post = reqwest::Client::builder().no_proxy().timeout(TEST).build().unwrap().post(url);
    let post = post.header("Idempotency-Key", key(msg_id)).header("X-Gateway-Timestamp", timestamp);
    let answer = post.header("X-Gateway-Signature", signature).body(body.as_ref().to_vec()).send().await.unwrap();
    let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
    let answer = serde_json::from_str::<Value>(&text);
    (status, answer.map_or(text, |answer| answer["text"].as_str().unwrap_or_default().to_owned()))
}

/// Seconds, so far from now.
fn at(seconds: i64) -> String {
    (now_ms() / 1000 + seconds).to_string()
}

async fn signed(url: &str, msg_id: &str, item: &str) -> (u16, String) {
    let (body, now) = (order(msg_id, item).to_string(), at(0));
    post(url, msg_id, &body, &now, &signature(SECRET, &now, &body)).await
}

/// What the gateway would never post, however well it is signed.
fn odd_bodies() -> Vec<Vec<u8>> {
    let with = |path: &str, value: Value| {
        let mut request = order("m4", "银");
        *request.pointer_mut(path).unwrap() = value;
        request
    };
    let mut bodies: Vec<Vec<u8>> = [
        with("/sender", Value::Null),
        with("/sender", json!({})),
        with("/sender/key", json!(7)),
        with("/command/args", Value::Null),
        with("/command/args", json!({})),
        with("/command/args/item", json!("")),
        with("/command/args/item", json!(["银"])),
    ]
    .map(|request| request.to_string().into_bytes())
    .into();
    let whole = order("m4", "银").to_string();
    let twice = whole.repeat(2);
    bodies.extend(["{", "[]", "null", "\"order\"", &whole[..whole.len() - 1], &twice].map(Into::into));
    // An item that is no UTF-8.
    let place = whole.find("银").unwrap();
    bodies.push([&whole.as_bytes()[..place + 1], &whole.as_bytes()[place + 2..]].concat());
    bodies
}

async fn orders_are_taken_once(language: Language) {
    let mut service = Service::start(language).await;
    let url = service.url.clone();
    let with_orders = |fake: &FakeWeCom, scenario: Scenario| {
        let mut app = robot_app(fake, APP, &["c1".to_owned()]);
        let action = json!({"type": "http", "url": url, "timeout": "10s", "secret": SECRET});
        let item = json!({"name": "item", "label": "商品", "type": "rest", "required": true});
        app["commands"].as_array_mut().unwrap().push(json!({"name": "order", "args": [item], "action": action}));
        app["mention"]["action"] = action;
        scenario.app(APP, app)
    };
    let world = World::with(On::Embedded, &["c1"], Options::default(), with_orders).await;
    world.say("c1", "u1", "m1", "/order 苹果 \"大\"").await;
    world.say("c1", "u1", "m2", "@小助手 在吗").await;
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), ["已下单：苹果 \"大\"，订单号 1", "请在 order 后面写上商品名。"]);
    let session = world.api(&format!("sessions/{APP}/c1/u1"), |session| session["vars"]["last_order"] == 1).await;
    assert_eq!(session["found"], "store");

    // The gateway asks again, as after a crash: also where the service died meanwhile.
    let first = (200, "已下单：苹果 \"大\"，订单号 1".to_owned());
    assert_eq!(signed(&service.url, "m1", "苹果 \"大\"").await, first);
    service.restart().await;
    assert_eq!(signed(&service.url, "m1", "苹果 \"大\"").await, first);
    let at_once = join_all((0..8).map(|_| signed(&service.url, "m3", "梨"))).await;
    assert_eq!(at_once, vec![(200, "已下单：梨，订单号 2".to_owned()); 8]);

    let (body, now, old) = (order("m4", "桃").to_string(), at(0), at(-3600));
    let right = signature(SECRET, &now, &body);
    for (timestamp, signature) in [
        (&now, signature("another secret", &now, &body)),
        (&now, signature(SECRET, &now, order("m4", "金").to_string())),
        (&now, right.replace("sha256=", "")),
        (&now, String::new()),
        (&at(1), right.clone()),
        (&old, signature(SECRET, &old, &body)),
    ] {
        assert_eq!(post(&service.url, "m4", &body, timestamp, &signature).await.0, 403, "{timestamp} {signature}");
    }
    for odd in odd_bodies() {
        let (status, why) = post(&service.url, "m4", &odd, &now, &signature(SECRET, &now, &odd)).await;
        let shown = String::from_utf8_lossy(&odd);
        assert!(status == 400 && why.contains("the "), "{language:?}: {shown}: {status} {why}");
    }
    // Nothing of that was done.
    let right = post(&service.url, "m4", &body, &now, &right).await;
    assert_eq!(right, (200, "已下单：桃，订单号 3".to_owned()));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python() {
    tokio::time::timeout(2 * TEST, orders_are_taken_once(Language::Python)).await.expect("within its time");
}

#[tokio::test]
async fn without_a_secret_it_says_what_to_set() {
    let mut python = Command::new("python3");
    python.arg(format!("{EXAMPLES}/python/orders.py")).args(["--listen", "127.0.0.1:0"]).env_remove("ORDERS_SECRET");
    let ended = within(move || python.output().expect("python3")).await;
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.lines().count() == 1 && said.contains("ORDERS_SECRET"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go() {
    tokio::time::timeout(2 * TEST, orders_are_taken_once(Language::Go)).await.expect("within its time");
}
