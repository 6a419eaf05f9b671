//! The command `simulate`, as a process, against gateways in this one: its exit code says whether promises were kept.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};

use axum::Router;
use axum::extract::Query;
use axum::routing::get;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use wecom_gateway::app::App;
use wecom_gateway::config::Settings;
use wecom_gateway::config::settings::AppKind;
use wecom_gateway::sim::synchronous::SynchronousBot;

use crate::world::TEST;

/// A port that no outgoing connection takes: below those that Linux gives out by itself.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    let mut free = (0..100).map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed) % 100);
    free.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

/// The configuration of a load test as it is shipped, on ports and a store of its own.
struct Shipped {
    folder: TempDir,
    fake: SocketAddr,
}

impl Shipped {
    fn new() -> Self {
        let fake = SocketAddr::from(([127, 0, 0, 1], port()));
        let folder = tempfile::tempdir().unwrap();
        let (path, shipped) = (folder.path(), Path::new(env!("CARGO_MANIFEST_DIR")).join("config/load"));
        let own = |text: String| text.replace("127.0.0.1:9800", &fake.to_string());
        std::fs::create_dir(path.join("apps")).unwrap();
        let app = std::fs::read_to_string(shipped.join("apps/load.toml")).unwrap();
        std::fs::write(path.join("apps/load.toml"), own(app)).unwrap();
        let gateway = own(std::fs::read_to_string(shipped.join("gateway.toml")).unwrap());
        let data = path.join("data").display().to_string();
        let listen = "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
        std::fs::write(path.join("gateway.toml"), gateway.replace("data/load", &data) + listen).unwrap();
        Self { folder, fake }
    }

    fn app_file(&self) -> PathBuf {
        self.folder.path().join("apps/load.toml")
    }

    fn settings(&self) -> Settings {
        wecom_gateway::config::load(&self.folder.path().join("gateway.toml")).unwrap()
    }

    /// Runs `simulate` against `target`.
    async fn simulate(&self, target: &str, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
        command.args(["simulate", "--target", target, "--listen", &self.fake.to_string(), "--app"]);
        command.arg(self.app_file()).args(args);
        let ended = tokio::task::spawn_blocking(move || command.output());
        tokio::time::timeout(TEST, ended).await.expect("within its time").unwrap().unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn figures(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

async fn gateway(shipped: &Shipped) -> (App, String) {
    let app = App::start(shipped.settings()).await.unwrap();
    let target = format!("http://{}", app.callback_addr());
    (app, target)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_promises_end_with_0() {
    let shipped = Shipped::new();
    let (app, target) = gateway(&shipped).await;
    let plot = shipped.folder.path().join("latency.svg");
    let mix = "commands=50,keywords=10,mentions=20,chatter=15,forbidden=5";
    // Twice with one seed: the second is another load to the gateway.
    for format in [&[][..], &["--json-format"]] {
        let args = ["--messages", "400", "--storm", "2", "--mix", mix, "--json", "--plot", plot.to_str().unwrap()];
        let output = shipped.simulate(&target, &[&args[..], format].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let figures = figures(&output);
        assert!(figures["messages"] == 400 && figures["taken"] == 400 && figures["kept"] == true, "{figures}");
        assert!(figures["copies"].as_u64() > Some(30) && figures["answered"] == figures["wanted"], "{figures}");
    }
    let svg = std::fs::read_to_string(&plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("P99"), "{svg}");
    let table = shipped.simulate(&target, &["--rate", "200", "--duration", "1s", "--ramp", "500ms"]).await;
    assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("replies lost") && !text.contains("must be 0"), "{text}");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_wecom_refused_is_told_and_no_loss() {
    let shipped = Shipped::new();
    let (app, target) = gateway(&shipped).await;
    let output = shipped.simulate(&target, &["--messages", "200", "--errcodes", "40008=20,-1=1", "--json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let figures = figures(&output);
    assert!(figures["refused"].as_u64() > Some(10) && figures["lost"] == 0, "{figures}");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_promises_end_with_1() {
    let shipped = Shipped::new();
    let settings = shipped.settings();
    let bot = SynchronousBot::start(&settings.apps["load"], &settings.sender).await.unwrap();
    let args = ["--messages", "200", "--rate", "400", "--action-ms", "5..50", "--json"];
    let output = shipped.simulate(&bot.base(), &args).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let figures = figures(&output);
    assert!(figures["misrouted"].as_u64() > Some(0) && figures["repeated"].as_u64() > Some(0), "{figures}");
    assert!(stderr(&output).contains("broken: the reply to ["), "{}", stderr(&output));
    bot.stop().await;
}

#[derive(Deserialize)]
struct Echo {
    echostr: String,
}

/// Takes everything and does nothing.
async fn deaf(settings: &Settings) -> String {
    let AppKind::GroupRobot(crypto) = settings.apps["load"].kind.clone() else { panic!("a group robot") };
    let verify = move |Query(Echo { echostr }): Query<Echo>| async move { crypto.decrypt(&echostr).unwrap() };
    let router = Router::new().route("/callback/load", get(verify).post(|| async { "success" }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    target
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_never_come_are_lost_after_the_patience() {
    let shipped = Shipped::new();
    let target = deaf(&shipped.settings()).await;
    let patience = ["--patience", "300ms", "--messages", "50", "--json"];
    for pace in [&["--under-way", "8"], &["--rate", "500"]] {
        let output = shipped.simulate(&target, &[&patience[..], pace].concat()).await;
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let figures = figures(&output);
        assert!(figures["lost"].as_u64() > Some(0) && figures["replies"] == 0, "{figures}");
        assert!(stderr(&output).contains("lost: no reply to [wrLoad"), "{}", stderr(&output));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_judged_is_refused_before_it_begins() {
    let shipped = Shipped::new();
    let (app, target) = gateway(&shipped).await;
    let refused = async |from: &str, to: &str, args: &[&str], code: i32, words: &[&str]| {
        let file = shipped.app_file();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let output = shipped.simulate(&target, args).await;
        std::fs::write(&file, text).unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
        assert!(!said.contains("load-001") && !said.contains("LoadTestKey"), "a secret: {said}");
    };
    let webhook = format!("http://{}/cgi-bin/webhook/send?key=load-001", shipped.fake);
    refused(&webhook, "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k1", &[], 2, &["wrLoad001", "qyapi"]).await;
    refused(&webhook, "load-001", &[], 2, &["chat wrLoad001", "qyapi", "--listen"]).await;
    refused("name = \"query\"", "name = \"ask\"", &[], 2, &["/query 17", "commands"]).await;
    refused("{{ args.text }}", "好的", &[], 2, &["/echo [", "without naming its message"]).await;
    refused("[\"违禁词\"]", "[]", &["--mix", "forbidden=1"], 2, &["should not be"]).await;
    refused("bot_names = [\"小助手\"]", "", &[], 2, &["bot_names", "mentions"]).await;
    refused("LoadTestToken", "AnotherToken", &[], 2, &["URL verification", "HTTP 403"]).await;
    refused("kind =", "colour =", &[], 2, &["load.toml"]).await;
    refused("kind =", "kind =", &["--duration", "5"], 2, &["--duration", "30s"]).await;
    refused("kind =", "kind =", &["--rate", "5", "--under-way", "5"], 2, &["cannot be used with"]).await;
    let taken = TcpListener::bind(shipped.fake).unwrap();
    refused("kind =", "kind =", &[], 1, &["can't listen", "--listen"]).await;
    drop(taken);
    app.stop().await;
    refused("kind =", "kind =", &[], 1, &["no gateway answers", "refused"]).await;
}
