//! A day's statistics of a whole gateway, by its API and by the commands `report` and `trace`, run as processes of their own.

use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use wecom_gateway::model::{MessageKey, Secret, now_ms};
use wecom_gateway::records::Records;
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, robot_text};
use wecom_gateway::store::{Line, Stage};
use wecom_gateway::zone::Zone;

use crate::crash::process::Gateway;
use crate::mariadb_server::MariaDb;
use crate::on_both_stores;
use crate::world::{APP, On, TEST, World, caller, caller_at, key};

on_both_stores!(a_day_says_what_came_and_what_became_of_it);

/// A zone in which it is noon or a little later: no test meets midnight there.
pub fn noon() -> String {
    let hour = i64::from(Zone::default().at(now_ms()).hour());
    // These names count westwards.
    match hour - 12 {
        0 => "Etc/GMT".to_owned(),
        west => format!("Etc/GMT{west:+}"),
    }
}

async fn a_day_says_what_came_and_what_became_of_it(on: On) {
    let at_noon = |_: &FakeWeCom, scenario: Scenario| scenario.set("database", "zone", noon());
    let world = World::with(on, &["c1", "c2"], Options::default(), at_noon).await;
    world.say("c1", "u1", "m1", "/query 1").await;
    world.say("c1", "u2", "m2", "nothing in particular").await;
    // 40008: refused for its content.
    world.fake.script(&key("c2"), [Answer::Errcode(40008).into()]);
    world.say("c2", "u1", "m3", "/echo x").await;
    world.ends("m3", "dead").await;
    world.ends("m1", "delivered").await;
    world.ends("m2", "ignored").await;
    // Stopped by the window in front of the store: no line says so.
    for _ in 0..4 {
        world.say("c1", "u1", "m1", "/query 1").await;
    }
    let stats = world.api("stats", |stats| stats["total"]["duplicates"] == 4).await;
    let (total, items) = (&stats["total"], &stats["items"]);
    assert_eq!(
        (&total["messages"], &total["hits"]["command"], &total["hits"]["chatter"]),
        (&json!(3), &json!(2), &json!(1))
    );
    let replies = ["replies", "delivered", "dead", "unknown"].map(|field| total[field].as_i64().unwrap());
    assert_eq!((replies, &total["success_rate"]), ([2, 1, 1, 0], &json!(0.5)));
    assert!(total["latency_ms"]["p99"].as_u64().is_some_and(|ms| ms < 60_000), "{stats}");
    assert_eq!(
        (&items[0]["chat"], &items[0]["messages"], &items[0]["duplicates"]),
        (&json!("c1"), &json!(2), &json!(4))
    );
    assert_eq!((&items[1]["chat"], &items[1]["messages"], &items[1]["dead"]), (&json!("c2"), &json!(1), &json!(1)));
    let rules: Vec<_> = stats["rules"].as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["echo", "query"]);
    let one = world.api("stats?limit=1", |stats| stats["next"].is_string()).await;
    let rest =
        world.api(&format!("stats?cursor={}", one["next"].as_str().unwrap()), |stats| stats["next"].is_null()).await;
    assert_eq!([&one["items"][0], &rest["items"][0]], [&items[0], &items[1]]);
    let of = world.api("stats?app=support&chat=c2", |stats| stats["total"]["messages"] == 1).await;
    assert_eq!(of["items"], json!([items[1]]));
    for wrong in ["stats?date=29.11.2026", "stats?date=2026-13-01", "stats?cursor=junk", "stats?limit=x"] {
        let (status, body) = world.call(reqwest::Method::GET, wrong, &Value::Null).await;
        assert_eq!((status, body["error"]["message"].is_string()), (400, true), "{wrong}: {body}");
    }
    world.end().await;
}

/// Copies of one message that two gateways stop, each by itself and for each other, are counted each once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_count_into_the_same_day() {
    let database = MariaDb::new().await;
    let shape = |_: &FakeWeCom, scenario: Scenario| {
        scenario.set("database", "url", database.url().expose()).set("database", "zone", noon())
    };
    let mut world = World::with(On::Redis, &["c1"], Options::default(), shape).await;
    let (other, scenario) =
        world.beside(|fake, scenario| shape(fake, scenario.app(APP, robot_app(fake, APP, &["c1".into()])))).await;
    let there = caller(&other, &scenario, APP);
    let post = async |n: u64| {
        let (msg_id, text) = (format!("m{n}"), format!("/query {n}"));
        world.say("c1", "u1", &msg_id, &text).await;
        assert_eq!(there.post(&robot_text("c1", "u1", &msg_id, &text)).await, Some(200));
    };
    let counted = async {
        for n in 1..=20 {
            // The first is the message, the second is stopped by the store, the others by each gateway's own window.
            post(n).await;
            post(n).await;
        }
        world.api("stats", |stats| stats["total"]["duplicates"] == 60 && stats["total"]["delivered"] == 20).await
    };
    let stats = tokio::time::timeout(TEST, counted).await.expect("within its time");
    let total = &stats["total"];
    assert_eq!(
        (&total["messages"], &total["hits"]["command"], &total["replies"]),
        (&json!(20), &json!(20), &json!(20))
    );
    other.stop().await;
    world.end().await;
}

/// Runs a command of the real binary; `config` is its folder.
async fn run(config: &TempDir, args: &[&str], token: Option<&str>) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
    command.args(args).current_dir(config.path()).env("TZ", "Asia/Shanghai").env_remove("WECOM_GATEWAY_TOKEN");
    command.envs(token.map(|token| ("WECOM_GATEWAY_TOKEN", token)));
    let ended = tokio::task::spawn_blocking(move || command.output());
    let Output { status, stdout, stderr } = tokio::time::timeout(TEST, ended).await.expect("in time").unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an end"), text(stdout), text(stderr))
}

/// A world whose one message `m1` was delivered, and a folder from which commands find it.
async fn delivered() -> (World, TempDir) {
    let tokens = json!([{"name": "ops", "secret": "t0ken", "scope": "admin"}, {"name": "eye", "secret": "l00k", "scope": "read"}]);
    let shape = |_: &FakeWeCom, mut scenario: Scenario| {
        scenario = scenario.set("admin", "tokens", tokens).set("database", "zone", noon());
        scenario.set("log", "level", "off")
    };
    let world = World::with(On::Embedded, &["c1"], Options::default(), shape).await;
    world.say("c1", "u1", "CAEQ/+a=%== 7", "/query 1").await;
    world.fence("c1", "u1").await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    // Another section needs a variable that operators' shells do not have.
    let text = format!(
        "[admin]\nlisten = \"{}\"\ntokens = [{{ name = \"eye\", secret = \"l00k\", scope = \"read\" }}]\n\
         [store]\nredis = \"redis://:${{NOT_SET_HERE}}@redis:6379\"\n",
        world.app.admin_addr()
    );
    std::fs::write(folder.path().join("config/gateway.toml"), text).unwrap();
    (world, folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_tells_the_whole_way_of_a_message() {
    let (world, folder) = delivered().await;
    let mut again = tokio::time::interval(std::time::Duration::from_millis(50));
    let told = tokio::time::timeout(TEST, async {
        loop {
            again.tick().await;
            let (status, told, why) = run(&folder, &["trace", "CAEQ/+a=%== 7"], None).await;
            if told.contains("settled") {
                assert_eq!((status, why.as_str()), (0, ""));
                break told;
            }
        }
    });
    let told = told.await.expect("within its time");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!((lines[0], lines[1]), ("message   CAEQ/+a=%== 7", "chat      c1 of app support"));
    assert_eq!(lines[4], "outcome   delivered");
    let stages: Vec<&str> = lines.iter().filter(|line| line.starts_with("20")).copied().collect();
    assert!(stages.len() == 3 && stages[0].contains("accepted"), "{told}");
    assert!(stages[1].contains("handled") && stages[1].contains("rule command:query"), "{told}");
    assert!(stages[2].contains("channel group_robot") && stages[2].contains("errcode 0"), "{told}");
    // The gateway's, which is not that of whoever asks.
    assert!(told.ends_with(&format!("times in {}\n", noon())), "{told}");
    let (status, json, _) = run(&folder, &["trace", "CAEQ/+a=%== 7", "--format", "json"], None).await;
    let json: Value = serde_json::from_str(&json).expect("json");
    assert_eq!((status, &json["items"][0]["outcome"]), (0, &json!("delivered")));
    // By a reply's id, too.
    let reply = json["items"][0]["stages"][2]["delivery"].as_str().expect("an id").to_owned();
    assert_eq!(run(&folder, &["trace", &reply], None).await.0, 0);
    let (status, told, why) = run(&folder, &["trace", "nobody"], None).await;
    assert_eq!((status, told.as_str()), (1, ""));
    assert!(why.contains("nothing is known under the id \"nobody\""), "{why}");
    let (status, _, why) = run(&folder, &["trace", ""], None).await;
    assert!(status == 2 && why.contains("the id is empty"), "{why}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_tells_what_is_waited_for_and_why_there_is_nothing_to_tell() {
    let (world, folder) = delivered().await;
    let stranger = format!("http://{}/callback/supprt", world.app.callback_addr());
    let refused = reqwest::get(stranger).await.unwrap();
    let id = refused.headers()["x-request-id"].to_str().unwrap().to_owned();
    let (status, _, why) = run(&folder, &["trace", &id], None).await;
    assert!(status == 1 && why.contains("unknown_app: no app has this name") && why.contains("no trail"), "{why}");
    world.fake.script(&key("c1"), [Answer::Errcode(60020).into()]);
    world.say("c1", "u1", "held", "/query 1").await;
    let mut again = tokio::time::interval(std::time::Duration::from_millis(50));
    let told = tokio::time::timeout(TEST, async {
        loop {
            again.tick().await;
            let (_, told, _) = run(&folder, &["trace", "held"], None).await;
            if told.contains("its chat waits for hold") {
                break told;
            }
        }
    });
    let told = told.await.expect("within its time");
    let last = told.lines().last().unwrap();
    assert!(last.contains(", for another ") && last.contains(": errcode 60020: not allow"), "{told}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_tells_a_day_as_table_json_and_csv() {
    let (world, folder) = delivered().await;
    let address = format!("http://{}", world.app.admin_addr());
    let mut again = tokio::time::interval(std::time::Duration::from_millis(50));
    let json = tokio::time::timeout(TEST, async {
        loop {
            again.tick().await;
            let (status, told, why) = run(&folder, &["report", "--format", "json"], None).await;
            assert_eq!((status, why.as_str()), (0, ""));
            let json: Value = serde_json::from_str(&told).expect("json");
            if json["total"]["delivered"] == 2 {
                break json;
            }
        }
    });
    let json = json.await.expect("within its time");
    let date = json["date"].as_str().unwrap();
    let (status, table, _) = run(&folder, &["report", "--date", date], None).await;
    let (all, chat) = (table.lines().nth(3).unwrap(), table.lines().nth(4).unwrap());
    assert_eq!((status, table.lines().next()), (0, Some(format!("{date}, {}", noon()).as_str())));
    assert!(all.starts_with("all") && chat.starts_with("support  c1") && chat.contains("100.00%"), "{table}");
    let of = ["--admin", &address, "--token", "t0ken"];
    let (status, csv, _) = run(&folder, &[&["report", "--format", "csv"], &of[..]].concat(), None).await;
    assert_eq!((status, csv.lines().count()), (0, 5), "{csv}");
    let (status, yesterday, _) = run(&folder, &["report", "--date", "2026-01-01", "--format", "json"], None).await;
    let yesterday: Value = serde_json::from_str(&yesterday).expect("json");
    assert_eq!((status, &yesterday["total"]["messages"], &yesterday["items"]), (0, &json!(0), &json!([])));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_asked_is_one_sentence_and_its_code() {
    let (world, folder) = delivered().await;
    let address = format!("http://{}", world.app.admin_addr());
    let callbacks = format!("http://{}", world.app.callback_addr());
    for (args, token, code, word) in [
        (vec!["--admin", &address], None, 1, "--token"),
        (vec!["--admin", &address, "--token", "guess"], Some("l00k"), 1, "refuses (401)"),
        (vec!["--admin", &address], Some("l00k"), 0, ""),
        (vec!["--admin", "http://127.0.0.1:1"], None, 1, "no gateway answers at http://127.0.0.1:1/"),
        (vec!["--admin", &callbacks], None, 1, "--admin"),
        (vec!["--admin", "nonsense"], None, 2, "http://127.0.0.1:8081"),
        (vec!["--config", "nowhere.toml"], None, 2, "nowhere.toml"),
        (vec!["--date", "yesterday"], None, 2, "2026-11-29"),
    ] {
        let (status, _, why) = run(&folder, &[&["report"], &args[..]].concat(), token).await;
        assert_eq!(status, code, "{args:?}: {why}");
        assert!(why.contains(word) && !why.contains("guess\"") && !why.contains("l00k"), "{args:?}: {why}");
    }
    world.end().await;
}

/// The robot that the summary goes to.
const ROBOT: &str = "report-robot";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn yesterday_is_told_to_a_group() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("records.db").display());
    let records = Records::open(&Secret::new(&url)).await.unwrap().in_zone(Zone::named(&noon()).unwrap());
    let yesterday = now_ms() - 24 * 3_600_000;
    let line = |stage, detail: Value| {
        let detail = detail.as_object().cloned().unwrap_or_default();
        let line = Line { stage, request_id: "r1".into(), key: MessageKey::new(APP, "c1", "u1", "m1"), detail };
        Recorded::parse(&format!("{yesterday}\t{line}")).unwrap()
    };
    let handled = json!({"trigger": "command", "rule": "command:query", "replies": [{"id": "r1.0", "digest": "d"}]});
    let settled = json!({"delivery": "r1.0", "state": "delivered", "latency_ms": 320});
    let lines = [(Stage::Accepted, json!({})), (Stage::Handled, handled), (Stage::Settled, settled)];
    records.write(lines.map(|(stage, detail)| line(stage, detail)).to_vec()).await.unwrap();
    records.close().await;
    let shape = |fake: &FakeWeCom, scenario: Scenario| {
        let scenario = scenario.set("database", "url", url.as_str()).set("database", "zone", noon());
        scenario.set("report", "webhook", fake.webhook(ROBOT, "ops")).set("report", "at", "00:00")
    };
    let world = World::with(On::Embedded, &["c1"], Options::default(), shape).await;
    let told = world.fake.until(|fake| fake.texts(ROBOT).len() == 1);
    tokio::time::timeout(TEST, told).await.expect("within its time");
    let text = world.fake.texts(ROBOT).remove(0);
    assert!(
        text.contains("消息 1：命令 1") && text.contains("1. query（support）：1 次（100.00%），平均 320 毫秒"),
        "{text}"
    );
    // Another start tells it no second time, however long it is up.
    let world = world.restart_while(|_| {}).await;
    world.fence("c1", "u1").await;
    assert_eq!(world.fake.texts(ROBOT).len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_tell_of_contents_as_asked() {
    const WORDS: &str = "打13800138000找我";
    for (content, words, digest) in [("none", false, false), ("digest", false, true), ("full", true, false)] {
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let app = robot_app(&fake, APP, &["c1".into()]);
        let scenario = Scenario::new(&fake).unwrap().app(APP, app).set("log", "content", content);
        let gateway = Gateway::start(&scenario.write().unwrap(), None).await.unwrap();
        let caller = caller_at(gateway.callbacks, &scenario, APP);
        let said = async {
            assert_eq!(caller.post(&robot_text("c1", "u1", "m1", &format!("/echo {WORDS}"))).await, Some(200));
            fake.until(|fake| fake.texts(&key("c1")) == [WORDS]).await;
            gateway.terminate().await.said
        };
        let said = tokio::time::timeout(TEST, said).await.expect("within its time");
        assert!(!said.contains("13800138000"), "{said}");
        let lines: Vec<&str> =
            said.lines().filter(|line| line.contains("message handled") || line.contains("\"sent\"")).collect();
        assert_eq!(lines.len(), 2, "{said}");
        for line in lines {
            assert_eq!(line.contains("打138****8000找我"), words, "{content}: {line}");
        }
        assert_eq!(said.contains("digest"), digest, "{said}");
        fake.stop().await;
    }
}
