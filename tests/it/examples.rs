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
/// What it says to a message that is neither an order nor a query.
const OTHER: &str = "下单：order 商品名；查询：query 订单号。";

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
    command.args(["--listen", "127.0.0.1:0", "--data"]).arg(folder.join("kept")).env("ORDERS_HMAC", SECRET);
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

/// A request for order 1001.
fn query() -> Value {
    let mut request = order("m4", "");
    request["command"] = json!({"name": "query", "args": {"order_id": 1001}});
    request
}

/// What the gateway would never post, however well it is signed.
fn odd_bodies() -> Vec<Vec<u8>> {
    let with = |mut request: Value, path: &str, value: Value| {
        *request.pointer_mut(path).unwrap() = value;
        request
    };
    let (item, number) = ("/command/args/item", "/command/args/order_id");
    let mut bodies: Vec<Vec<u8>> = [
        with(order("m4", "银"), "/sender", Value::Null),
        with(order("m4", "银"), "/sender", json!({})),
        with(order("m4", "银"), "/sender", json!({"KEY": "u1"})),
        with(order("m4", "银"), "/sender/key", json!(7)),
        with(order("m4", "银"), "/command/args", Value::Null),
        with(order("m4", "银"), "/command/args", json!({})),
        with(order("m4", "银"), item, json!("")),
        with(order("m4", "银"), item, json!(["银"])),
        with(query(), "/sender/key", json!("")),
        with(query(), "/command/args", json!({})),
        with(query(), number, json!("1001")),
        with(query(), number, json!(1001.0)),
        with(query(), number, json!(true)),
        with(query(), number, json!(u64::MAX)),
    ]
    .map(|request| request.to_string().into_bytes())
    .into();
    let whole = order("m4", "银").to_string();
    let twice = whole.repeat(2);
    let with_item = |raw: &str| whole.replace("\"银\"", raw);
    let texts = [
        "{",
        "[]",
        "null",
        "\"order\"",
        &whole[..whole.len() - 1],
        &twice,
        &format!("\u{feff}{whole}"),
        &with_item(r#""\ud800""#),
        &with_item(r#""\udC00\uD800""#),
        &with_item("NaN"),
    ];
    bodies.extend(texts.map(Into::into));
    // Half a character where nobody looks.
    bodies.push(whole.replace("\"r\"", r#""\uD83D""#).into_bytes());
    // An order of more digits than an integer has, an item that is no UTF-8, and all of it in another encoding.
    bodies.push(query().to_string().replace("1001", &"9".repeat(5000)).into_bytes());
    let place = whole.find("银").unwrap();
    bodies.push([&whole.as_bytes()[..place + 1], &whole.as_bytes()[place + 2..]].concat());
    bodies.push(whole.encode_utf16().flat_map(u16::to_le_bytes).collect());
    bodies
}

/// What has nothing to order or to look up, however odd the rest of it is.
fn other_bodies() -> Vec<String> {
    let other = |command: Value| {
        let mut request = order("m5", "银");
        request["command"] = command;
        request.to_string()
    };
    let digits = other(Value::Null).replace("null", &"9".repeat(5000));
    let commands = [Value::Null, json!(7), json!({"name": ["order"]}), json!({"name": "other", "args": {"item": 7}})];
    commands.map(other).into_iter().chain([digits]).collect()
}

async fn orders_are_taken_once(language: Language) {
    let mut service = Service::start(language).await;
    let url = service.url.clone();
    let with_orders = |fake: &FakeWeCom, scenario: Scenario| {
        let mut app = robot_app(fake, APP, &["c1".to_owned()]);
        let action = json!({"type": "http", "url": url, "timeout": "10s", "secret": SECRET});
        let item = json!({"name": "item", "label": "商品", "type": "rest", "required": true});
        let number = json!({"name": "order_id", "label": "订单号", "type": "integer"});
        let commands = app["commands"].as_array_mut().unwrap();
        commands.retain(|command| command["name"] != "query");
        for (name, arg) in [("order", item), ("query", number)] {
            commands.push(json!({"name": name, "args": [arg], "action": action}));
        }
        app["mention"]["action"] = action;
        scenario.app(APP, app)
    };
    let world = World::with(On::Embedded, &["c1"], Options::default(), with_orders).await;
    world.say("c1", "u1", "m1", "/order 苹果 \"大\"").await;
    world.say("c1", "u1", "m2", "@小助手 在吗").await;
    world.say("c1", "u1", "m2a", "/query 1001").await;
    world.say("c1", "u1", "m2b", "/query 1002").await;
    world.fence("c1", "u1").await;
    world.say("c1", "u2", "m2c", "/query 1001").await;
    world.fence("c1", "u2").await;
    let found = "订单 1001：苹果 \"大\"，已下单。";
    let said = ["已下单：苹果 \"大\"，订单号 1001", OTHER, found, "没有订单 1002。", "没有订单 1001。"];
    assert_eq!(world.texts("c1"), said);
    let session = world.api(&format!("sessions/{APP}/c1/u1"), |session| session["vars"]["last_order"] == 1001).await;
    assert_eq!(session["found"], "store");

    // The gateway asks again, as after a crash: also where the service died meanwhile.
    let first = (200, "已下单：苹果 \"大\"，订单号 1001".to_owned());
    assert_eq!(signed(&service.url, "m1", "苹果 \"大\"").await, first);
    service.restart().await;
    assert_eq!(signed(&service.url, "m1", "苹果 \"大\"").await, first);
    let at_once = join_all((0..8).map(|_| signed(&service.url, "m3", "梨"))).await;
    assert_eq!(at_once, vec![(200, "已下单：梨，订单号 1002".to_owned()); 8]);
    let (query, now) = (query().to_string(), at(0));
    let found = (200, found.to_owned());
    assert_eq!(post(&service.url, "m6", &query, &now, &signature(SECRET, &now, &query)).await, found);

    nothing_is_done_for_strangers(&service).await;
    // The next order has the next number.
    assert_eq!(signed(&service.url, "m4", "桃").await, (200, "已下单：桃，订单号 1003".to_owned()));
    world.end().await;
}

async fn nothing_is_done_for_strangers(service: &Service) {
    let language = service.language;
    let (body, now, old) = (order("m4", "桃").to_string(), at(0), at(-3600));
    let (digits, plus) = ("9".repeat(5000), format!("+{now}"));
    let right = signature(SECRET, &now, &body);
    for (timestamp, signature) in [
        (&now, signature("another secret", &now, &body)),
        (&now, signature(SECRET, &now, order("m4", "金").to_string())),
        (&now, right.replace("sha256=", "")),
        (&now, String::new()),
        (&at(1), right.clone()),
        (&digits, signature(SECRET, &digits, &body)),
        (&plus, signature(SECRET, &plus, &body)),
        (&old, signature(SECRET, &old, &body)),
    ] {
        assert_eq!(post(&service.url, "m4", &body, timestamp, &signature).await.0, 403, "{timestamp} {signature}");
    }
    for odd in odd_bodies() {
        let (status, why) = post(&service.url, "m4", &odd, &now, &signature(SECRET, &now, &odd)).await;
        let shown = String::from_utf8_lossy(&odd);
        assert!(status == 400 && why.contains("the "), "{language:?}: {shown}: {status} {why}");
    }
    for (n, other) in other_bodies().iter().enumerate() {
        let id = format!("m5-{n}");
        let answer = post(&service.url, &id, other, &now, &signature(SECRET, &now, other)).await;
        assert_eq!(answer, (200, OTHER.to_owned()), "{language:?}: {other}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python() {
    tokio::time::timeout(2 * TEST, orders_are_taken_once(Language::Python)).await.expect("within its time");
}

#[tokio::test]
async fn without_a_secret_it_says_what_to_set() {
    let mut python = Command::new("python3");
    python.arg(format!("{EXAMPLES}/python/orders.py")).args(["--listen", "127.0.0.1:0"]).env_remove("ORDERS_HMAC");
    let ended = within(move || python.output().expect("python3")).await;
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.lines().count() == 1 && said.contains("ORDERS_HMAC"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go() {
    tokio::time::timeout(2 * TEST, orders_are_taken_once(Language::Go)).await.expect("within its time");
}
