//! `check`, as a process, against the fake WeCom: what `--online` says of tokens, addresses, hosts and stores, and that it sends
//! and changes nothing.

use std::path::Path;
use std::process::{Command, Output};

use axum::Router;
use axum::http::StatusCode;
use serde_json::json;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Executor};
use tokio::net::TcpListener;
use wecom_gateway::sim::scenario::{aibot_app, api_app, robot_app, robot_key};
use wecom_gateway::sim::wecom::{AGENT, GETTOKEN};
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario};
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::store::lock::lock_path;

use crate::kafka::topics::Topics;
use crate::mariadb_server::MariaDb;
use crate::redis_server::RedisServer;
use crate::world::{APP, TEST};

/// What it printed, and with what it ended.
struct Checked {
    code: i32,
    said: String,
}

impl Checked {
    fn says(&self, words: &str) {
        assert!(self.said.contains(words), "{words}: {}", self.said);
    }
}

async fn check(config: &Path) -> Checked {
    check_as(&["--online"], config).await
}

async fn check_as(flags: &[&str], config: &Path) -> Checked {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
    command.arg("check").args(flags).arg("--config").arg(config);
    let ended = tokio::task::spawn_blocking(move || command.output());
    let Output { status, stdout, stderr } =
        tokio::time::timeout(TEST, ended).await.expect("within its time").unwrap().unwrap();
    let said = String::from_utf8([stdout, stderr].concat()).unwrap();
    for secret in ["secret-of-", "token-1", "support-c1", "a-wrong-secret", "pass-word"] {
        assert!(!said.contains(secret), "{secret} in {said}");
    }
    Checked { code: status.code().expect("it ends by itself"), said }
}

/// A robot in a chat, and two apps with an API side.
async fn scene() -> (FakeWeCom, Scenario) {
    let fake = FakeWeCom::start(Options::default()).await.unwrap();
    let scenario = Scenario::new(&fake)
        .unwrap()
        .app(APP, robot_app(&fake, APP, &["c1".into()]))
        .app("hr", api_app(&fake, "hr", &[]))
        .app("it", api_app(&fake, "it", &[]));
    (fake, scenario)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_there_is_fine_and_gets_no_message() {
    let (fake, scenario) = scene().await;
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 0, "{}", checked.said);
    checked.says("✓ app \"hr\" (corp ww-hr): a token for 7200 s, and this machine's address may call the API");
    checked.says(&format!("✓ {} for webhooks of \"support\": answers (HTTP 404)", fake.base()));
    checked.says("actions of \"support\" (3)");
    assert_eq!((fake.posts(GETTOKEN), fake.posts(AGENT)), (2, 2));
    assert_eq!(fake.posts(&robot_key(APP, "c1")), 0);
    assert_eq!(fake.ledger().violations(), []);
    // Without --online nothing is asked.
    let mut command = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
    command.args(["check", "--config"]).arg(scenario.write().unwrap());
    let plain = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert_eq!((plain.status.code(), fake.posts(GETTOKEN)), (Some(0), 2));
    fake.stop().await;
}

/// What librdkafka says only when it makes a client, `check` says as `serve` would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_kafka_client_can_be_made_of_is_told() {
    let (fake, scenario) = scene().await;
    let options = json!({"security.protocol": "ssl", "ssl.ca.location": "/nowhere"});
    let scenario = scenario.set("kafka", "brokers", "127.0.0.1:1").set("kafka", "options", options);
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    checked.says("[kafka] can't be used as it stands: ");
    checked.says("ssl.ca.location");
    assert_eq!(fake.posts(GETTOKEN), 0);
    fake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_secret_is_asked_once() {
    let (fake, scenario) = scene().await;
    let wrong = |id: &str| {
        let mut app = api_app(&fake, id, &[]);
        (app["corp_id"], app["secret"]) = ("ww-hr".into(), "a-wrong-secret".into());
        app
    };
    let scenario = scenario.app("x1", wrong("x1")).app("x2", wrong("x2")).app("x3", wrong("x3"));
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    checked.says("✗ app \"x1\" (corp ww-hr): gettoken refuses: 40001");
    checked.says("apps/x1.toml: copy secret again");
    checked.says("✓ app \"it\"");
    checked.says("1 thing is at fault");
    assert_eq!(fake.posts(GETTOKEN), 3);
    fake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ban_is_not_made_worse() {
    let (fake, scenario) = scene().await;
    fake.always(GETTOKEN, Answer::Errcode(45009));
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!((checked.code, fake.posts(GETTOKEN)), (2, 1), "{}", checked.said);
    checked.says("✗ app \"it\" (corp ww-it): not asked, after 45009");
    fake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_not_allowed_is_told_with_where_to_enter_it() {
    let (fake, scenario) = scene().await;
    fake.script(AGENT, [Answer::Errcode(60020).into()]);
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    checked.says("✗ app \"hr\" (corp ww-hr): a token is given, but agent/get refuses: 60020");
    checked
        .says("enter 203.0.113.7, which is what WeCom saw, in WeCom's console under 应用管理 → the app → 企业可信IP");
    checked.says("✓ app \"it\"");
    fake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_apps_agent_id_and_a_closed_app_are_told() {
    let (fake, scenario) = scene().await;
    let mut stray = api_app(&fake, "stray", &[]);
    stray["agent_id"] = 8.into();
    let scenario = scenario.app("stray", stray);
    fake.switch_apps_off();
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    checked.says("agent/get refuses: 301002");
    checked.says("agent_id is not this secret's app");
    checked.says("✗ app \"hr\" (corp ww-hr): the app is switched off");
    checked.says("3 things are at fault");
    fake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_do_not_answer_are_told_apart() {
    let (fake, scenario) = scene().await;
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at_front = format!("http://{}/bot?key=k", front.local_addr().unwrap());
    let answers = tokio::spawn(async move {
        axum::serve(front, Router::new().fallback(async || StatusCode::BAD_GATEWAY)).await.unwrap();
    });
    // Bound and given up again: nobody listens there.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut app = robot_app(&fake, "more", &[]);
    let ask = |url: &str| json!({"type": "http", "url": url});
    app["keywords"] = json!([
        {"any": ["a"], "action": ask(&at_front)},
        {"any": ["b"], "action": ask(&format!("http://{closed}/bot"))},
        {"any": ["c"], "action": ask("http://nowhere.invalid/bot")},
        {"any": ["d"], "action": ask(&format!("{}/bot", fake.base().replace("http://", "https://")))},
    ]);
    let scenario = scenario.app("more", app);
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    for (host, mend) in [
        (at_front.split("/bot").next().unwrap(), "start the service behind it"),
        (&format!("http://{closed}"), "nothing listens there"),
        ("http://nowhere.invalid", "the name is not known here"),
        (&fake.base().replace("http://", "https://"), "is it plain http?"),
    ] {
        let lines: Vec<&str> = checked.said.lines().collect();
        let at = lines.iter().position(|line| line.starts_with(&format!("✗ {host} for actions of \"more\"")));
        let at = at.unwrap_or_else(|| panic!("{host}: {}", checked.said));
        assert!(lines[at + 1].contains(mend), "{host}: {}", checked.said);
    }
    assert!(!checked.said.contains("key=k") && !checked.said.contains("/bot"), "{}", checked.said);
    answers.abort();
    fake.stop().await;
}

/// A `response_url` there brings its own port and scheme: `https://127.0.0.1` is nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_machine_is_not_asked_for_addresses_that_no_message_has_brought() {
    let (fake, scenario) = scene().await;
    let checked = check(&scenario.app("bot", aibot_app(&fake, "bot")).write().unwrap()).await;
    assert_eq!(checked.code, 0, "{}", checked.said);
    assert!(!checked.said.contains("response_urls"), "{}", checked.said);
    fake.stop().await;
}

/// Without `--online` no broker is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_keeps_tasks_longer_than_they_are_remembered_is_a_hint() {
    let (_broker, topics) = Topics::new(1).await;
    let (fake, scenario) = scene().await;
    // As long as brokers keep a topic that says nothing of it.
    let scenario = topics.read_by(scenario).set("push", "keep", "7d");
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 0, "{}", checked.said);
    checked
        .says(&format!("✓ topic {:?} of {}: keeps tasks 7d, and they are remembered 7d", topics.tasks, topics.brokers));
    let shorter = scenario.set("push", "keep", "6d");
    let checked = check(&shorter.write().unwrap()).await;
    assert_eq!(checked.code, 0, "a hint is no fault: {}", checked.said);
    checked.says(&format!(
        "! topic {:?} of {}: the topic keeps tasks longer than [push] keep",
        topics.tasks, topics.brokers
    ));
    checked.says("(7d and 6d)");
    checked.says("mend: lengthen [push] keep, or shorten the topic's retention.ms");
    let nowhere = shorter.set("kafka", "topic", "no-such-topic");
    let checked = check(&nowhere.write().unwrap()).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    checked.says("✗ topic \"no-such-topic\"");
    fake.stop().await;
}

/// `serve` would not start; `check` says so beside the gateway that works with the store, and touches nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_store_with_other_shards_is_told() {
    let (fake, scenario) = scene().await;
    let config = scenario.write().unwrap();
    let data = config.with_file_name("data");
    assert_eq!(check_as(&[], &config).await.code, 0);
    assert!(!data.exists(), "nothing is made");
    let files = || {
        let entries = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().len())).collect();
        files.sort();
        files
    };
    let served = (lock_path(&data).unwrap(), EmbeddedStore::open(&data, 4).unwrap());
    let told =
        format!("{}: store.shards: is 1, but {} was set up with 4", config.display(), data.join("store.db").display());
    let before = files();
    let checked = check_as(&[], &config).await;
    assert_eq!((checked.code, files()), (2, before), "{}", checked.said);
    checked.says(&told);
    drop(served);
    let before = files();
    let checked = check_as(&[], &config).await;
    assert_eq!((checked.code, files()), (2, before), "{}", checked.said);
    checked.says(&told);
    let scenario = scenario.set("store", "shards", 4);
    assert_eq!(check_as(&[], &scenario.write().unwrap()).await.code, 0);
    fake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_asked_as_serve_would() {
    let (fake, scenario) = scene().await;
    let mut server = RedisServer::spawn(&["--requirepass", "pass-word"]);
    let _: u64 = server.command_as("pass-word", &["HSET", "wg:meta", "shards", "4"]).await;
    let at = format!("Redis at 127.0.0.1:{}", server.port());
    let with =
        |scenario: Scenario, user: &str| scenario.on_redis(&format!("redis://{user}127.0.0.1:{}", server.port()));
    let scenario = with(scenario, ":pass-word@");
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    checked.says(&format!("✗ {at}: store.shards is 1, but the data in redis was laid out for 4"));
    let scenario = scenario.set("store", "shards", 4);
    let config = scenario.write().unwrap();
    let checked = check(&config).await;
    assert_eq!(checked.code, 0, "{}", checked.said);
    checked.says(&format!("✓ {at}: answers, and what it holds is laid out for 4 shards"));
    let _: () = server.command_as("pass-word", &["FLUSHALL"]).await;
    check(&config).await.says(&format!("✓ {at}: answers, and holds nothing of a gateway yet"));
    let kept: u64 = server.command_as("pass-word", &["DBSIZE"]).await;
    assert_eq!(kept, 0, "it was left as it was");
    let scenario = with(scenario, "");
    let checked = check(&scenario.write().unwrap()).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    checked.says(&format!("✗ {at}: redis asks for another password"));
    checked.says(&format!("mend: {}: store.redis or store.shards", config.display()));
    server.kill();
    let checked = check(&config).await;
    assert_eq!(checked.code, 2, "{}", checked.said);
    checked.says(&format!("✗ {at}: the store can't be reached"));
    checked.says("start the server, or correct store.redis");
    // Without --online it is not asked.
    assert_eq!(check_as(&[], &config).await.code, 0);
    fake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_is_asked_and_left_as_it_is() {
    let (fake, scenario) = scene().await;
    let config = scenario.write().unwrap();
    let checked = check(&config).await;
    assert_eq!(checked.code, 0, "{}", checked.said);
    let file = config.with_file_name("records.db");
    checked.says(&format!("✓ database {}: is not there yet: serve makes it", file.display()));
    assert!(!file.exists());
    let database = MariaDb::new().await;
    let url = database.url().expose().to_owned();
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    connection.execute("CREATE USER looker@'127.0.0.1' IDENTIFIED BY 'pass-word'").await.unwrap();
    connection.execute("GRANT SELECT, INSERT ON *.* TO looker@'127.0.0.1'").await.unwrap();
    let mut scenario = scenario;
    for (user, code, says) in [
        ("root@", 0, ": answers and lets the user write"),
        (
            "looker:pass-word@",
            0,
            ": answers, but its user seems not to be granted UPDATE, DELETE, CREATE, ALTER, INDEX",
        ),
        ("looker:a-wrong-secret@", 2, ": can't be used: "),
    ] {
        scenario = scenario.set("database", "url", url.replace("root@", user));
        let checked = check(&scenario.write().unwrap()).await;
        assert_eq!(checked.code, code, "{user}: {}", checked.said);
        checked.says(says);
    }
    assert_eq!(connection.fetch_all("SHOW TABLES").await.unwrap().len(), 0, "no table is made");
    fake.stop().await;
}
