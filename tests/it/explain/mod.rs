//! `explain`, as a process, beside a gateway that serves under the same files: it must answer what the gateway answers, and
//! name the fault that was put into the callback.

mod bench;

use jiff::Timestamp;
use jiff::tz::{self, TimeZone};
use serde_json::{Value, json};
use wecom_gateway::model::now_ms;
use wecom_gateway::sim::{aibot_text, app_text, robot_text};

use crate::callback::percent_encoded;
use crate::world::APP;
use bench::{Bench, CORP, Callback, HOOK, WORDS, bounded, other, posted, posted_at, random_text, verification};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_right_holds_at_each_step() {
    bounded(async {
        let bench = Bench::new().await;
        let crypto = bench.crypto(APP);
        let verified = bench.agrees(APP, &verification(&crypto, percent_encoded)).await;
        assert_eq!(verified.code, 0, "{:#}", verified.said);
        let raw_plus = bench.agrees(APP, &verification(&crypto, str::to_owned)).await;
        assert_eq!((raw_plus.code, raw_plus.step_that("note")["step"].as_str()), (0, Some("echostr")));

        let message = posted(&crypto, &robot_text("c1", "zhang", "m1", WORDS));
        let taken = bench.agrees(APP, &message).await;
        assert_eq!(taken.code, 0, "{:#}", taken.said);
        taken.says("rule", "command:echo sets off reply");
        taken.says("route", "group_robot");
        assert!(taken.said["text"].is_null());
        let printed = String::from_utf8(taken.output.stdout).unwrap();
        assert!(printed.contains(" 1 ✓ path") && printed.contains("200 and act"), "{printed}");
        let shown = bench.run(APP, &message, &["--show-text", "--format", "json"]).await;
        assert_eq!(serde_json::from_slice::<Value>(&shown.stdout).unwrap()["text"], WORDS);
        // A whole URL, and a query alone.
        for url in [format!("https://gw.example.com{}", message.url()), message.query.clone()] {
            let callback = Callback { query: url.split_once('?').map_or(url.clone(), |(_, query)| query.into()), ..message.clone() };
            assert_eq!(bench.explain(APP, &callback, &[]).await.code, 0);
        }

        let hook = json!({"msgid": "m2", "chatid": "h1", "chattype": "group", "from": {"userid": "li"}, "msgtype": "text", "text": {"content": WORDS}});
        let hook = Callback { app: "hook".into(), query: String::new(), body: Some(hook.to_string().into_bytes()) };
        let header = format!("{}: {}", HOOK.0, HOOK.1);
        let open = bench.explain("hook", &hook, &["--header", &header]).await;
        assert_eq!(open.code, 0, "{:#}", open.said);
        bench.finds(&hook, "unauthorized").await.says("auth", "is missing");
        let wrong = bench.explain("hook", &hook, &["--header", "X-Webhook-Token: x"]).await;
        wrong.says("auth", "is not what auth.value says");
        bench.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_key_and_receive_id_are_told_apart() {
    bounded(async {
        let bench = Bench::new().await;
        let (own, text) = (bench.file(APP), robot_text("c1", "zhang", "m1", WORDS));
        let token = other(&own, Some("AnotherToken0001"), None, "");
        for callback in [posted(&token, &text), verification(&token, percent_encoded)] {
            let wrong = bench.finds(&callback, "wrong_token").await;
            wrong.says("signature", "encoding_aes_key opens the ciphertext");
            assert_eq!(wrong.step("decryption")["state"], "holds");
        }
        let key = random_text(43);
        let key = other(&own, None, Some(&key), "");
        for callback in [posted(&key, &text), verification(&key, percent_encoded)] {
            let wrong = bench.finds(&callback, "wrong_key").await;
            assert_eq!(wrong.step("signature")["state"], "holds");
        }
        let both = other(&own, Some("AnotherToken0001"), Some(&random_text(43)), "");
        let wrong = bench.finds(&posted(&both, &text), "wrong_token").await;
        wrong.says("signature", "token and key are another callback's");
        assert_eq!(wrong.step("decryption")["fault"], "wrong_key");

        let other_corp = other(&own, None, None, "ww0000000000000001");
        let wrong = bench.finds(&posted(&other_corp, &text), "receive_id").await;
        wrong.says("receive_id", "made for \\\"ww0000000000000001\\\", and receive_id says \\\"\\\"");
        let nobody = other(&bench.file("corp"), None, None, "");
        let wrong = bench.finds(&posted(&nobody, &app_text("zhang", "1", "hi")).to("corp"), "receive_id").await;
        wrong.says("receive_id", CORP);

        // What was meant for another app, at this one's address.
        let hr = bench.crypto("hr");
        let wrong = bench.finds(&posted(&hr, &app_text("zhang", "1", "hi")), "wrong_app").await;
        wrong.says("signature", "\\\"hr\\\"");
        wrong.says("decryption", "\\\"hr\\\"");
        bench.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_proxies_do_is_seen() {
    bounded(async {
        let bench = Bench::new().await;
        let crypto = bench.crypto(APP);
        let message = || posted(&crypto, &robot_text("c1", "zhang", "m1", WORDS));
        let twice = |cipher: &str| percent_encoded(&percent_encoded(cipher));
        bench.finds(&verification(&crypto, twice), "encoded_twice").await;
        bench.finds(&message().with(|body| body.replace('+', " ")), "plus_became_blank").await;
        bench.finds(&message().with(|body| body.replace('+', "%2B")), "encoded_twice").await;
        let wrapped = |body: String| format!("{}\n{}", &body[..90], &body[90..]);
        bench.finds(&message().with(wrapped), "rewritten").await.says("signature", "broken into lines");
        let url_safe = |body: String| body.replace('+', "-").replace('/', "_").replace("<_", "</");
        bench.finds(&message().with(url_safe), "rewritten").await.says("signature", "other alphabet");
        bench.finds(&message().with(|body| body[..200].to_owned()), "truncated").await;
        bench.finds(&message().with(|_| String::new()), "truncated").await;
        bench
            .finds(&message().with(|_| "<!DOCTYPE html><html></html>".into()), "rewritten")
            .await
            .says("envelope", "web page");
        bench.finds(&message().with(|body| format!("xml={}", percent_encoded(&body))), "rewritten").await;
        bench.finds(&message().with(|body| serde_json::to_string(&body).unwrap()), "rewritten").await;
        bench.finds(&message().with(|body| body.replace("Encrypt", "encrypt")), "not_encrypted").await;
        let utf_16: Vec<u8> =
            String::from_utf8(message().body.unwrap()).unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
        bench.finds(&Callback { body: Some(utf_16), ..message() }, "rewritten").await.says("envelope", "UTF-16");
        // Cut inside the ciphertext, and closed again.
        let cut = |body: String| format!("{}</Encrypt></xml>", body[..101].replace("<![CDATA[", ""));
        bench.finds(&message().with(cut), "rewritten").await.says("signature", "not whole");

        // One character of the ciphertext, in its middle: the key still opens it, but to no message.
        let changed = |body: String| {
            let (head, tail) = body.split_at(150);
            let other = if tail.starts_with('A') { "B" } else { "A" };
            format!("{head}{other}{}", &tail[1..])
        };
        let changed = bench.finds(&message().with(changed), "rewritten").await;
        changed.says("signature", "changed on its way");

        let lost = Callback { query: String::new(), ..message() };
        bench.finds(&lost, "missing_query").await.says("decryption", "opens it");
        let renamed = Callback { query: message().query.replace('&', "&amp;"), ..message() };
        bench.finds(&renamed, "missing_query").await.says("query", "&amp;");
        bench.finds(&message().to("suport"), "unknown_app").await.says("app", "did you mean --app support?");
        let nobodys = bench.finds(&message().to("another"), "unknown_app").await;
        nobodys.says("app", "fits the token of app \\\"support\\\"");
        let whole = Callback { query: percent_encoded(&message().query), ..message() };
        let whole = bench.finds(&whole, "encoded_twice").await;
        whole.says("query", "percent-encoded");
        whole.says("method", "POST");
        let elsewhere = bench.explain(APP, &message().to("hr"), &[]).await;
        // One mend, said twice: nothing is to be copied anew.
        for step in ["signature", "decryption"] {
            elsewhere.says(step, "/callback/support");
        }
        assert_eq!((elsewhere.fault(), elsewhere.said["status"].as_u64()), ("wrong_app", Some(403)));
        // The gateway would look at it with that app's token, and so do the steps.
        elsewhere.says("signature", "fits that of app \\\"support\\\"");
        for asked in ["corp", "nobody"] {
            let taken = bench.explain(asked, &message(), &[]).await;
            assert_eq!(
                (taken.code, taken.fault(), taken.step("signature")["state"].as_str()),
                (1, "wrong_app", Some("holds"))
            );
            let printed = bench.run(asked, &message(), &[]).await;
            let printed = String::from_utf8(printed.stdout).unwrap();
            assert!(printed.contains("Nothing of it would reach app") && !printed.contains("answer 200"), "{printed}");
        }
        let nowhere = bench.explain(APP, &message().to("a/b"), &[]).await;
        assert_eq!((nowhere.fault(), nowhere.said["code"].as_str()), ("wrong_path", Some("not_found")));
        bench.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_that_is_wrong_is_named() {
    bounded(async {
        let bench = Bench::new().await;
        let (crypto, text) = (bench.crypto(APP), robot_text("c1", "zhang", "m1", WORDS));
        let old = posted_at(&crypto, &text, -2 * 3600 - 700);
        bench.finds(&old, "clock").await.says("clock", "2h 11m behind this machine's clock");
        let came = (now_ms() / 1000 - 7000).to_string();
        let then = bench.explain(APP, &old, &["--received-at", &came]).await;
        assert_eq!((then.code, then.step("clock")["state"].as_str()), (0, Some("holds")), "{:#}", then.said);
        // A line of the proxy's log says it by itself, in the proxy's own zone.
        for (seconds, code, says) in [(7000, 0, "from the time of arrival"), (600, 1, "behind the clock of the proxy")]
        {
            let at = Timestamp::from_millisecond(now_ms() - seconds * 1000).unwrap();
            let at = at.to_zoned_datetime(TimeZone::fixed(tz::offset(8))).strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
            let line = format!("10.0.0.7 - - [{at}] \"POST {} HTTP/1.1\" 403 98 \"-\" \"Mozilla/4.0\"", old.url());
            let output = bench.run_by(APP, &old, &line, &[]).await;
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.code() == Some(code) && said.contains(says), "{at}: {said}");
        }
        let slow = bench.finds(&posted_at(&crypto, &text, 8 * 3600 + 5), "clock").await;
        slow.says("clock", "so this one is slow, which is a time zone's worth");
        let ms = format!("{}000", now_ms() / 1000);
        let message = posted(&crypto, &text);
        let cipher = String::from_utf8(message.body.clone().unwrap()).unwrap();
        let cipher = cipher.split_once("<![CDATA[").unwrap().1.split_once("]]").unwrap().0;
        let query = format!("msg_signature={}&timestamp={ms}&nonce=1", crypto.sign(&ms, "1", cipher));
        bench.finds(&Callback { query, ..message }, "clock").await.says("clock", "in milliseconds");
        bench.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nothing_would_come_of_says_why() {
    bounded(async {
        let bench = Bench::new().await;
        let crypto = bench.crypto(APP);
        let says = |chat: &str, text: &str| posted(&crypto, &robot_text(chat, "zhang", &random_text(12), text));
        let unknown = bench.finds(&says("C1", WORDS), "unknown_chat").await;
        unknown.says("chat", "there is \\\"c1\\\", and ids are compared exactly");
        bench.finds(&says("h1", WORDS), "unknown_chat").await.says("chat", "app \\\"hook\\\" has it");
        for (text, why) in [
            ("大家好", "does not mention the bot"),
            ("@别人 你好", "none of bot_names (小助手)"),
            ("// 好", "no command's name follows"),
            ("", "text is empty"),
        ] {
            bench.finds(&says("c1", text), "no_rule").await.says("rule", why);
        }
        bench.finds(&says("c1", "违禁词"), "sensitive").await;
        let hint = bench.agrees(APP, &says("c1", "/nosuch")).await;
        assert_eq!(hint.code, 0, "{:#}", hint.said);
        let image = "<xml><ChatId>c1</ChatId><ChatType>group</ChatType><From><UserId>u</UserId></From><MsgType>image</MsgType>\
                     <Image><ImageUrl>x</ImageUrl></Image><MsgId>m9</MsgId></xml>";
        bench.finds(&posted(&crypto, image), "no_rule").await.says("rule", "only text is looked at");
        let no_id = robot_text("c1", "zhang", "m1", WORDS).replace("MsgId", "Nummer");
        bench.finds(&posted(&crypto, &no_id), "missing_field").await.says("ids", "Nummer");

        let corp = bench.crypto("corp");
        let private = posted(&corp, &app_text("zhang", "11", WORDS)).to("corp");
        bench.finds(&private, "no_route").await.says("route", "corp_id, agent_id and secret");
        let silent = posted(&corp, &robot_text("no-way", "zhang", "m1", WORDS)).to("corp");
        bench.finds(&silent, "no_route").await.says("route", "give the chat a webhook");
        // By the API there is a way; whether WeCom lets us is not to be seen here.
        let asked = bench.agrees("hr", &posted(&bench.crypto("hr"), &app_text("zhang", "12", WORDS)).to("hr")).await;
        assert_eq!(asked.code, 0, "{:#}", asked.said);
        asked.says("route", "check --online");
        bench.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_are_mixed_up_are_told() {
    bounded(async {
        let bench = Bench::new().await;
        let (crypto, bot) = (bench.crypto(APP), bench.crypto("bot"));
        let plain = Callback { app: APP.into(), ..posted(&crypto, "x") };
        let plain = plain.with(|_| aibot_text("c1", "zhang", "m1", WORDS, "http://127.0.0.1/r"));
        bench.finds(&plain, "wrong_kind").await.says("envelope", "write kind \\\"json\\\"");
        let encrypted = posted(&crypto, &robot_text("c1", "zhang", "m1", WORDS)).to("hook");
        bench.finds(&encrypted, "wrong_kind").await.says("auth", "the body is encrypted");
        let robot_at_bot = posted(&bot, &robot_text("c1", "zhang", "m1", WORDS)).to("bot");
        let mixed = bench.finds(&robot_at_bot, "wrong_kind").await;
        mixed.says("envelope", "smart robots (kind \\\"aibot\\\") post JSON");
        mixed.says("route", "bring a response_url, and this has none");
        let answer = "http://127.0.0.1/response?code=1";
        let bot_at_bot = posted(&bot, &aibot_text("c1", "zhang", "m2", WORDS, answer)).to("bot");
        let bot_at_bot = bot_at_bot.with(|body| {
            let cipher = body.split_once("<![CDATA[").unwrap().1.split_once("]]").unwrap().0;
            json!({"encrypt": cipher}).to_string()
        });
        let good = bench.agrees("bot", &bot_at_bot).await;
        assert_eq!(good.code, 0, "{:#}", good.said);
        let foreign = aibot_text("c1", "zhang", "m3", WORDS, "https://evil.example.com/r");
        bench.finds(&posted(&bot, &foreign).to("bot"), "no_route").await.says("route", "webhook_hosts");
        let verify = bench.explain("hook", &verification(&crypto, percent_encoded).to("hook"), &[]).await;
        assert_eq!((verify.fault(), verify.said["status"].as_u64()), ("method", Some(405)));
        bench.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_usage_ends_with_2() {
    bounded(async {
        let bench = Bench::new().await;
        let message = Callback { body: None, ..posted(&bench.crypto(APP), "x") };
        for args in [&["--body", "/no/such/file"][..], &["--received-at", "soon"], &["--header", "x"]] {
            let output = bench.run(APP, &message, args).await;
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            assert!(!output.stderr.is_empty());
        }
        let output = bench.run(APP, &message, &[]).await;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("✓ query") && told.contains("give what was posted with --body FILE"), "{told}");
        assert_eq!(output.status.code(), Some(1));
        bench.end().await;
    })
    .await;
}
