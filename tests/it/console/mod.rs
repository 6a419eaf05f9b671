//! The console in a real browser: each page, each action, both languages, both themes, a phone's width.

mod browser;
mod stats;

use browser::Browser;
use serde_json::{Value, json};
use tokio::time::timeout;
use wecom_gateway::sim::{Answer, Options, Tag, robot_text};

use crate::world::{APP, On, TEST, World, key};

impl Browser {
    async fn page(&self, world: &World, page: &str) {
        self.go(&format!("http://{}/#/{page}", world.app.admin_addr())).await;
    }
}

async fn within(test: impl Future<Output = ()>) {
    timeout(TEST, test).await.expect("within its time");
}

fn echo(n: u64) -> String {
    format!("/echo {}", Tag::new("c1", "u1", n))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_it_and_no_other() {
    within(async {
        let tokens = json!([
            {"name": "ops", "secret": "right-token", "scope": "admin"},
            {"name": "eyes", "secret": "looking-token", "scope": "read"},
            {"name": "prometheus", "secret": "figures-token", "scope": "metrics"},
        ]);
        let world = World::with(On::Embedded, &["c1"], Options::default(), |_, scenario| {
            scenario.set("admin", "tokens", tokens)
        })
        .await;
        let browser = Browser::open("zh-CN").await;
        // Figures that are open to this machine are not shown before.
        browser.page(&world, "now").await;
        browser.says("登录").await;
        assert!(!browser.text().await.contains("可以接收回调"));
        browser.page(&world, "chats").await;
        browser.says("登录").await;
        browser.picture("login").await;
        browser.write("input[type=password]", "wrong-token").await;
        browser.click("登录").await;
        browser.says("令牌不对").await;
        browser.write("input[type=password]", "figures-token").await;
        browser.click("登录").await;
        browser.says("这个令牌的权限不够，控制台至少要 read").await;
        browser.write("input[type=password]", "looking-token").await;
        browser.click("登录").await;
        // Whoever may only look is offered nothing that would be refused, and is told why.
        browser.says("只读").await;
        browser.says("变更…").await;
        let hands = "return [...document.querySelectorAll('td button')].map((button) => button.textContent).join()";
        assert_eq!(browser.run(hands).await, "变更…");
        browser.picture("read-only").await;
        browser.page(&world, "config").await;
        browser.says("this needs a token of scope admin").await;
        assert!(!browser.text().await.contains("重新加载"));
        browser.page(&world, "chats").await;
        browser.click("退出").await;
        browser.write("input[type=password]", "right-token").await;
        browser.click("登录").await;
        browser.click_in("tr", "暂停").await;
        browser.click_in("dialog", "暂停").await;
        browser.says("已暂停 c1").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn now_moves_without_being_loaded_again() {
    within(async {
        let world = World::new(On::Embedded, &["c1"]).await;
        let browser = Browser::open("en-US").await;
        browser.page(&world, "now").await;
        browser.says("takes callbacks").await;
        browser.says("None since the start").await;
        browser.run("window.isTheSamePage = true").await;
        world.fence("c1", "u1").await;
        let drawn = "return document.querySelectorAll('.tile svg polyline').length === 8";
        browser.until(drawn, "eight lines").await;
        let moved = "return [...document.querySelectorAll('.tile polyline')].some((line) => new Set(line.getAttribute('points').split(' ').map((point) => point.split(',')[1])).size > 1)";
        browser.until(moved, "a line that goes up").await;
        browser.says("delivered").await;
        assert_eq!(browser.run("return window.isTheSamePage").await, true);
        browser.picture("now").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chats_are_paused_weighed_and_revived() {
    within(async {
        let world = World::new(On::Embedded, &["c1", "c2"]).await;
        world.fake.script(&key("c2"), [Answer::Errcode(93000).into()]);
        world.say("c2", "u1", "m1", "/echo x").await;
        world.ends("m1", "dead").await;
        let browser = Browser::open("zh-CN").await;
        browser.page(&world, "chats").await;
        browser.says("已失效").await;
        browser.picture("chats").await;
        browser.click_in("tr:has(td .tag.bad)", "解除失效").await;
        browser.says("c2 已解除失效").await;
        browser.until("return document.querySelectorAll('td .tag.good').length === 2", "two lively chats").await;
        browser.click_in("tbody tr:first-child", "权重…").await;
        browser.write("dialog input", "42").await;
        browser.click_in("dialog", "保存").await;
        browser.says("c1 的权重是 42").await;
        world.api(&format!("chats/{APP}/c1"), |chat| chat["weight"] == 42).await;
        browser.click_in("tbody tr:first-child", "暂停").await;
        browser.click_in("dialog", "暂停").await;
        browser.says("已暂停 c1").await;
        world.api(&format!("chats/{APP}/c1"), |chat| chat["state"] == "paused").await;
        browser.click_in("tbody tr:first-child", "恢复").await;
        browser.says("已恢复 c1").await;
        world.api(&format!("chats/{APP}/c1"), |chat| chat["state"] == "active").await;
        browser.write("input[type=search]", "no such chat").await;
        browser.says("没有符合的").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_operators_changed_is_told_with_who() {
    within(async {
        let world = World::new(On::Embedded, &["c1", "c2"]).await;
        let browser = Browser::open("zh-CN").await;
        browser.page(&world, "changes").await;
        browser.says("没有变更").await;
        // Of what an action was asked a session is kept.
        world.say("c1", "u1", "m1", "/query 1").await;
        world.ends("m1", "delivered").await;
        assert_eq!(world.patch("c1", &json!({"weight": 42, "muted": true})).await.0, 200);
        assert_eq!(world.patch("c2", &json!({"paused": true})).await.0, 200);
        let put = json!({"user_id": "u-7", "contact": {"name": "王五", "phone": null}});
        assert_eq!(world.call(reqwest::Method::PUT, &format!("users/{APP}/wmA"), &put).await.0, 200);
        assert_eq!(world.delete(&format!("sessions/{APP}/c1/u1")).await, 204);
        std::fs::write(world.folder().join("apps/more.toml"), app_file(&world)).unwrap();
        assert_eq!(world.post("reload", &Value::Null).await.0, 200);
        world.api("changes", |list| list["items"].as_array().is_some_and(|items| items.len() == 5)).await;
        browser.click("刷新").await;
        browser.until("return document.querySelectorAll('tbody tr').length === 5", "five changes").await;
        for words in [
            "loopback · 接口或控制台",
            "权重 配置的值 → 42",
            "静音 否 → 是",
            "设置: user_id, name · 删除: phone",
            "+ apps/more.toml",
            "清除会话",
        ] {
            browser.says(words).await;
        }
        browser.picture("changes").await;
        browser.write("input[type=search]", "nobody\n").await;
        browser.says("没有变更").await;
        browser.page(&world, "chats").await;
        browser.click_in("tbody tr:nth-child(2)", "变更…").await;
        browser.says("c1 最近的变更").await;
        browser.until("return document.querySelectorAll('dialog li').length === 2", "its own two").await;
        browser.picture("changes-of-chat").await;
        browser.click_in("dialog", "全部").await;
        browser.until("return document.querySelectorAll('tbody tr').length === 2", "its own two, on their page").await;
        browser.says("support / c1").await;
        browser.resize(400, 900).await;
        browser.click("English").await;
        browser.click("Theme").await;
        browser.says("by API or console").await;
        browser.picture("phone-changes-english").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

/// Another app's file.
fn app_file(world: &World) -> String {
    let app = wecom_gateway::sim::scenario::robot_app(&world.fake, "more", &["c3".to_owned()]);
    toml::to_string(&app).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_looks_through_all_chats() {
    within(async {
        let names: Vec<String> = (1000..1700).map(|n| format!("wrMany{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let world = World::new(On::Embedded, &names).await;
        let browser = Browser::open("zh-CN").await;
        browser.page(&world, "chats").await;
        browser.says("wrMany1499").await;
        assert!(!browser.text().await.contains("wrMany1699"));
        browser.write("input[type=search]", "many1699").await;
        browser.says("wrMany1699").await;
        browser.until("return document.querySelectorAll('tbody tr').length === 1", "one chat").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_id_leads_to_the_whole_way() {
    within(async {
        let world = World::new(On::Embedded, &["c1"]).await;
        // Ids are whatever WeCom says, and nothing in them is ever taken for markup.
        let id = "CAEQ/+==<b>%";
        world.say("c1", "u1", id, &echo(1)).await;
        world.fence("c1", "u1").await;
        let browser = Browser::open("zh-CN").await;
        browser.page(&world, "find").await;
        browser.says("一条消息的轨迹").await;
        browser.write("input[type=search]", id).await;
        browser.click_in("form", "查找").await;
        browser.until("return document.querySelectorAll('.timeline li').length >= 3", "a time line").await;
        for words in [id, "收到并存下", "处理完", "已送达"] {
            browser.says(words).await;
        }
        let replies = "return [...document.querySelectorAll('.timeline dd > div > div')].map((reply) => reply.textContent).join()";
        let replies = browser.run(replies).await;
        assert!(replies.as_str().unwrap().ends_with(".0 已送达"), "{replies}");
        browser.picture("find").await;
        browser.page(&world, "find/nothing").await;
        browser.says("没有 “nothing” 的记录").await;
        // No text is encoded so.
        browser.page(&world, "find/%E0").await;
        browser.says("没有 “%E0” 的记录").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_badly_is_settled_one_by_one_and_many_at_once() {
    within(async {
        let world = World::new(On::Embedded, &["c1"]).await;
        let browser = Browser::open("zh-CN").await;
        browser.page(&world, "settle").await;
        browser.says("没有待了结的").await;
        for n in 1..=4 {
            world.fake.script(&key("c1"), [Answer::Errcode(40008).into()]);
            world.say("c1", "u1", &format!("m{n}"), &echo(n)).await;
            world.ends(&format!("m{n}"), "dead").await;
        }
        browser.click("刷新").await;
        browser.until("return document.querySelectorAll('tbody tr').length === 4", "four deliveries").await;
        browser.picture("settle").await;
        browser.click_in("tbody tr:first-child", "重发").await;
        browser.click_in("dialog", "重发").await;
        browser.says("完成 1 条").await;
        world.ends("m4", "delivered").await;
        browser.until("return document.querySelectorAll('tbody tr').length === 3", "three deliveries").await;
        browser.click_in("tbody tr:first-child", "已送达").await;
        browser.click_in("dialog", "已送达").await;
        browser.until("return document.querySelectorAll('tbody tr').length === 2", "two deliveries").await;
        world.ends("m3", "delivered").await;
        browser.run("document.querySelector('tbody input[type=checkbox]').click()").await;
        browser.says("已选 1 条").await;
        browser.click("全选").await;
        browser.says("已选 2 条").await;
        browser.click_in("main > .row", "放弃").await;
        browser.click_in("dialog", "放弃").await;
        browser.says("完成 2 条").await;
        for id in ["m1", "m2"] {
            world.ends(id, "dropped").await;
        }
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apps_tell_why_a_callback_was_refused() {
    within(async {
        let world = World::new(On::Embedded, &["c1"]).await;
        world.fence("c1", "u1").await;
        let url = format!(
            "http://{}/callback/{APP}?msg_signature=0&timestamp=1&nonce=2&echostr=x",
            world.app.callback_addr()
        );
        assert_eq!(reqwest::get(url).await.unwrap().status(), 403);
        let browser = Browser::open("en-US").await;
        browser.page(&world, "apps").await;
        let stranger = format!("http://{}/callback/supprt", world.app.callback_addr());
        assert_eq!(reqwest::get(stranger).await.unwrap().status(), 404);
        browser.click("Refresh").await;
        for words in ["/callback/support", "stored", "refused: ", "check", "uses no API", "/callback/supprt", "by chat"]
        {
            browser.says(words).await;
        }
        browser.picture("apps").await;
        let apps = world.api("apps", |_| true).await;
        let refused = apps["strangers"][0]["request_id"].as_str().unwrap();
        browser.page(&world, &format!("find/{refused}")).await;
        browser.says("no app has this name").await;
        browser.says("has no trail").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_is_shown_without_secrets_and_read_again() {
    within(async {
        let world = World::new(On::Embedded, &["c1"]).await;
        let file = world.folder().join(format!("apps/{APP}.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        let app: Value = toml::from_str(&text).unwrap();
        let browser = Browser::open("en-US").await;
        browser.page(&world, "config").await;
        browser.says("apps/support.toml").await;
        browser.says("小助手").await;
        browser.picture("config").await;
        let shown = browser.text().await;
        for secret in ["token", "encoding_aes_key"] {
            assert!(!shown.contains(app[secret].as_str().unwrap()), "{secret}");
        }
        assert!(shown.contains("/***") && !shown.contains("webhook/send") && !shown.contains(&key("c1")), "{shown}");
        std::fs::write(&file, text.replace("bot_names", "bot_nmaes")).unwrap();
        browser.click("Reload").await;
        browser.click_in("dialog", "Reload").await;
        browser.says("did you mean \"bot_names\"?").await;
        browser.picture("config-fault").await;
        // Whoever comes later sees it too.
        browser.page(&world, "apps").await;
        browser.says("/callback/support").await;
        browser.page(&world, "config").await;
        browser.says("later changes were refused").await;
        browser.says("did you mean \"bot_names\"?").await;
        browser.picture("config-refused").await;
        std::fs::write(&file, text.replace("小助手", "大助手")).unwrap();
        browser.click("Reload").await;
        browser.click_in("dialog", "Reload").await;
        browser.says("Taken: apps/support.toml").await;
        browser.says("大助手").await;
        let text = std::fs::read_to_string(world.config()).unwrap();
        let mut process: Value = toml::from_str(&text).unwrap();
        process["workers"]["concurrency"] = 3.into();
        std::fs::write(world.config(), toml::to_string(&process).unwrap()).unwrap();
        browser.click("Reload").await;
        browser.click_in("dialog", "Reload").await;
        browser.says("workers: only after a restart").await;
        world.api("changes", |list| list["items"].as_array().is_some_and(|items| items.len() == 3)).await;
        browser.page(&world, "changes").await;
        for words in ["A configuration was refused, faults: 1", "apps/support.toml: bot_names changed", "workers added"]
        {
            browser.says(words).await;
        }
        browser.picture("changes-configuration").await;
        browser.page(&world, "apps").await;
        browser.says("/callback/support").await;
        browser.page(&world, "config").await;
        browser.says("not in force yet").await;
        browser.picture("config-restart").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

const PAGES: [&str; 8] = ["now", "chats", "find", "settle", "stats", "changes", "apps", "config"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_fits_a_phone_both_languages_and_both_themes() {
    within(async {
        let world = World::new(On::Embedded, &["c1"]).await;
        world.fence("c1", "u1").await;
        let browser = Browser::open("zh-CN").await;
        browser.resize(400, 800).await;
        for page in PAGES {
            browser.page(&world, page).await;
            browser
                .until("return !document.querySelector('[aria-busy]') && document.querySelector('h1') !== null", page)
                .await;
            let fits = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth";
            browser.until(fits, format!("{page} within a phone's width")).await;
            let tab = "const tab = document.querySelector('nav a[aria-current]').getBoundingClientRect(); return tab.left >= 0 && tab.right <= innerWidth";
            browser.until(tab, format!("the tab of {page}")).await;
            browser.picture(&format!("phone-{page}")).await;
        }
        browser.click("English").await;
        browser.says("Configuration").await;
        let ground = "return getComputedStyle(document.body).backgroundColor";
        let before = browser.run(ground).await;
        browser.click("Theme").await;
        assert_ne!(browser.run(ground).await, before);
        browser.picture("phone-other-theme").await;
        assert_eq!(browser.complaints().await, [""; 0]);
        world.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_went_away_is_told_and_tried_again() {
    within(async {
        let world = World::new(On::Embedded, &["c1"]).await;
        let browser = Browser::open("en-US").await;
        browser.page(&world, "chats").await;
        browser.says("c1").await;
        world.end().await;
        browser.click("Refresh").await;
        browser.says("can't be reached").await;
        browser.picture("away").await;
    })
    .await;
}

/// Whatever a member writes into a name or an id stays text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_shown_becomes_markup() {
    within(async {
        let world = World::with(On::Embedded, &["c1"], Options::default(), |fake, scenario| {
            let mut app = wecom_gateway::sim::scenario::robot_app(fake, APP, &["c1".to_owned()]);
            app["chats"][0]["name"] = "<img src=x onerror='window.broken=1'>".into();
            scenario.app(APP, app)
        })
        .await;
        let id = "<img src=x onerror='window.broken=1'>";
        assert_eq!(
            world.caller.post(&robot_text("c1", "u1", id, "/echo <script>window.broken=1</script>")).await,
            Some(200)
        );
        world.fence("c1", "u1").await;
        let browser = Browser::open("en-US").await;
        for page in ["chats", "apps", "config", "find/%3Cimg%20src%3Dx%20onerror%3D'window.broken%3D1'%3E"] {
            browser.page(&world, page).await;
            browser
                .until("return !document.querySelector('[aria-busy]') && document.querySelector('h1') !== null", page)
                .await;
            let broken =
                browser.run("return window.broken ?? document.querySelectorAll('main img, main script').length").await;
            assert_eq!(broken, 0, "{page}");
        }
        world.end().await;
    })
    .await;
}
