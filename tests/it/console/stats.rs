//! The page of a day: the figures that stand there are those of the API, and so are those in the file that it saves.

use serde_json::{Value, json};
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, Tag, scenario::robot_app};

use super::browser::Browser;
use super::within;
use crate::stats::noon;
use crate::world::{APP, On, World, key};

/// What stands on the page, text by text.
const SHOWN: &str = "
    const text = (node) => node.innerText.trim();
    const rows = (table) => [...table.querySelectorAll('tbody tr')].map((row) => [...row.cells].map(text));
    return {
        tiles: [...document.querySelectorAll('.tile')].map((tile) => [...tile.children].slice(0, 2).map(text)),
        hits: Object.fromEntries([...document.querySelectorAll('[role=list] .soft')].map((label) => [text(label), text(label.nextSibling.nextSibling)])),
        tables: [...document.querySelectorAll('table')].map(rows),
    };";

/// What is to stand there, of the API's answer.
const WANTED: &str = "
    const share = (rate) => (rate === null ? '–' : `${(rate * 100).toFixed(1)}%`);
    const span = (ms) => (ms === undefined ? '–' : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);
    const replies = (one) => [`${one.replies}`, share(one.success_rate), ...['mean', 'p95', 'p99'].map((part) => span(one.latency_ms?.[part]))];
    const { total, rules, items } = day;
    return {
        tiles: [['Messages', `${total.messages}`], ['Replies', `${total.replies}`], ['Delivered', share(total.success_rate)],
            ['Copies stopped', `${total.duplicates}`], ['Arrival to delivery', span(total.latency_ms.mean)]],
        hits: Object.fromEntries(Object.entries(total.hits).filter(([, hits]) => hits > 0).map(([word, hits]) => [word, `${hits}`])),
        tables: [rules.map((one) => [`${one.rule}\\n${one.app} · ${one.trigger}`, `${one.hits} (${share(one.hit_rate)})`, ...replies(one)]),
            items.map((one) => [`${one.name ?? one.chat}\\n${one.app} / ${one.chat}`, `${one.messages}`, `${one.duplicates}`, ...replies(one)])],
    };";

/// A day with something of everything.
async fn day() -> (World, Value) {
    let shape = |fake: &FakeWeCom, scenario: Scenario| {
        let mut app = robot_app(fake, APP, &["c1".to_owned(), "c2".to_owned()]);
        app["chats"][0]["name"] = "华东区 VIP 客户服务群".into();
        scenario.app(APP, app).set("database", "zone", noon())
    };
    let world = World::with(On::Embedded, &[], Options::default(), shape).await;
    // The fake tells by their numbers that answers come in their order.
    let echo = format!("/echo {}", Tag::new("c1", "u1", 4));
    let texts =
        ["/query 1", "/query 2", "/query 3", &echo, "有优惠券吗 #5", "@小助手 介绍一下产品 #6", "违禁词", "随便聊聊"];
    for (n, text) in texts.iter().enumerate() {
        world.say("c1", "u1", &format!("m{n}"), text).await;
    }
    world.fake.script(&key("c2"), [Answer::Errcode(40008).into()]);
    world.say("c2", "u2", "n1", "/echo x").await;
    world.ends("n1", "dead").await;
    world.say("c2", "u2", "n2", "/echo y").await;
    for _ in 0..3 {
        world.say("c2", "u2", "n2", "/echo y").await;
    }
    let all = |stats: &Value| {
        let total = &stats["total"];
        (&total["messages"], &total["duplicates"], &total["delivered"], &total["dead"])
            == (&json!(10), &json!(3), &json!(7), &json!(1))
    };
    let stats = world.api("stats", all).await;
    (world, stats)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_in_figures_is_what_the_api_tells() {
    within(async {
        let (world, stats) = day().await;
        let browser = Browser::open("en-US").await;
        browser.resize(1200, 1400).await;
        browser.page(&world, "stats").await;
        browser.says("Copies stopped").await;
        let wanted = browser.run(&format!("const day = {stats};{WANTED}")).await;
        let shown = browser.run(SHOWN).await;
        assert_eq!(shown, wanted, "{stats:#}");
        assert_eq!(browser.run("return document.querySelector('input[type=date]').value").await, stats["date"]);

        browser.click("CSV").await;
        let csv = browser.saved(&format!("wecom-gateway-{}.csv", stats["date"].as_str().unwrap())).await;
        let csv = csv.strip_prefix('\u{feff}').expect("a mark for spreadsheets");
        held_against(&world, stats["date"].as_str().unwrap(), csv).await;
        assert_eq!(browser.complaints().await, [""; 0]);

        browser.picture("stats").await;
        browser.click("Theme").await;
        browser.picture("stats-dark").await;
        browser.click("中文").await;
        browser.resize(400, 2600).await;
        browser.says("拦下的重复").await;
        let fits = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        browser.until(fits, "within a phone's width").await;
        browser.picture("stats-phone-dark").await;
        browser.click("明暗").await;
        browser.picture("stats-phone").await;

        browser.page(&world, "stats/2026-01-01").await;
        browser.says("这一天没有消息").await;
        world.end().await;
    })
    .await;
}

/// The file is the one that the command line writes: what differs is only how a whole number is written, 1 or 1.0.
async fn held_against(world: &World, date: &str, csv: &str) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
    let admin = format!("http://{}", world.app.admin_addr());
    command.args(["report", "--format", "csv", "--date", date, "--admin", &admin]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let cells = |text: &str| -> Vec<Vec<String>> {
        let cell = |cell: &str| cell.strip_suffix(".0").unwrap_or(cell).to_owned();
        text.lines().map(|line| line.split(',').map(cell).collect()).collect()
    };
    assert!(told.lines().count() > 4, "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(cells(csv), cells(&told));
}
