//! Statistics on each real database: what trails add up to, in whatever pieces and order their lines are written.

use serde_json::{Value, json};
use wecom_gateway::model::MessageKey;
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::records::{Copies, Cursor, Records, Scope};
use wecom_gateway::store::Stage;
use wecom_gateway::zone::Zone;

use super::{Database, In, line, on_both_databases};

on_both_databases!(
    a_day_adds_up_in_all_by_rule_and_by_chat,
    lines_in_any_cut_and_order_and_again_give_the_same_statistics,
    two_gateways_that_write_at_once_add_up_rightly,
    a_day_ends_at_midnight_in_its_zone,
    a_copy_counts_once_whoever_stopped_it,
    chats_come_page_by_page_and_by_filter,
    an_operators_word_moves_a_reply_and_pruning_takes_no_figure,
);

/// 2026-11-29T00:00:00Z
const DAY: i64 = 1_795_910_400_000;

async fn records(kind: In, zone: &str) -> (Database, Records) {
    let database = Database::new(kind).await;
    let records = database.open().await.in_zone(Zone::named(zone).expect("a zone"));
    (database, records)
}

/// A message `m<n>` in `chat` at `at` that sets off `rule` and whose one reply ends in `state` after `latency` ms.
fn hit(n: i64, at: i64, chat: &str, trigger: &str, rule: &str, state: &str, latency: i64) -> Vec<Recorded> {
    let (key, request) = (MessageKey::new("support", chat, "wmA", &format!("m{n}")), format!("r{n}"));
    let reply = format!("{request}.0");
    let handled = json!({"trigger": trigger, "rule": format!("{trigger}:{rule}"), "action": "http", "outcome": "queued",
        "replies": [{"id": reply, "digest": "d"}]});
    let settled = json!({"delivery": reply, "state": state, "latency_ms": latency});
    vec![
        line(at, Stage::Accepted, &request, &key, json!({})),
        line(at + 1, Stage::Handled, &request, &key, handled),
        line(at + latency, Stage::Settled, &request, &key, settled),
    ]
}

/// A message `m<n>` that set nothing off.
fn quiet(n: i64, at: i64, chat: &str, reason: &str) -> Vec<Recorded> {
    let (key, request) = (MessageKey::new("support", chat, "wmB", &format!("m{n}")), format!("r{n}"));
    let handled = json!({"rule": null, "outcome": "ignored", "reason": reason, "replies": []});
    vec![line(at, Stage::Accepted, &request, &key, json!({})), line(at + 1, Stage::Handled, &request, &key, handled)]
}

fn copy(n: i64, at: i64, request: &str, chat: &str) -> Recorded {
    line(at, Stage::Duplicate, request, &MessageKey::new("support", chat, "wmA", &format!("m{n}")), json!({}))
}

/// 60 messages in three chats.
fn a_day() -> Vec<Recorded> {
    let of = |n: i64| {
        let (at, chat) = (DAY + n * 1_000, ["wr甲", "wr乙", "wr丙"][n as usize % 3]);
        match n % 10 {
            0 => quiet(n, at, chat, "chatter"),
            1 => quiet(n, at, chat, "event:add_to_chat"),
            2 | 3 => hit(n, at, chat, "keyword", "价格", "delivered", 100),
            4 => hit(n, at, chat, "command", "query", "unknown", 5_000),
            5 => hit(n, at, chat, "command", "query", "dead", 50),
            _ => hit(n, at, chat, "command", "query", "delivered", 200 + n),
        }
    };
    let copies = (0..12).map(|n| copy(n, DAY + n, &format!("copy{n}"), ["wr甲", "wr乙", "wr丙"][n as usize % 3]));
    (0..60).flat_map(of).chain(copies).collect()
}

async fn stats(records: &Records, date: &str, app: Option<&str>, chat: Option<&str>) -> Value {
    let scope =
        Scope { day: date.parse().expect("a date"), app: app.map(str::to_owned), chat: chat.map(str::to_owned) };
    serde_json::to_value(records.stats(&scope, None, 100).await.expect("reads")).expect("json")
}

async fn of_day(records: &Records) -> Value {
    stats(records, "2026-11-29", None, None).await
}

async fn a_day_adds_up_in_all_by_rule_and_by_chat(kind: In) {
    let (_database, records) = records(kind, "UTC").await;
    records.write(a_day()).await.expect("writes");
    let stats = of_day(&records).await;
    let total = &stats["total"];
    assert_eq!((&stats["date"], &stats["zone"], &stats["next"]), (&json!("2026-11-29"), &json!("UTC"), &Value::Null));
    // Six of the sixty were events.
    assert_eq!((&total["messages"], &total["duplicates"]), (&json!(54), &json!(12)));
    let hits = json!({"binding": 0, "chatter": 6, "command": 36, "event": 6, "keyword": 12, "mention": 0, "other": 0,
        "sensitive": 0});
    assert_eq!(total["hits"], hits);
    let replies = ["replies", "delivered", "unknown", "dead", "dropped"].map(|field| total[field].as_i64().unwrap());
    assert_eq!((replies, &total["success_rate"]), ([48, 36, 6, 6, 0], &json!(0.75)));
    let rules: Vec<_> = stats["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (rule["trigger"].as_str().unwrap(), rule["rule"].as_str().unwrap(), rule["hits"].as_i64().unwrap()))
        .collect();
    assert_eq!(rules, [("command", "query", 36), ("keyword", "价格", 12)]);
    assert_eq!(stats["rules"][1]["hit_rate"], 0.2222);
    // All keywords took 100 ms.
    let latency = &stats["rules"][1]["latency_ms"];
    let near = |value: &Value, want: u64| value.as_u64().unwrap().abs_diff(want) * 32 <= want;
    assert!(latency["mean"] == 100 && near(&latency["p50"], 100) && near(&latency["p99"], 100), "{latency}");
    // Those of commands are 200 ms and the message's number, 6 to 59.
    let (latency, all) = (&stats["rules"][0]["latency_ms"], &total["latency_ms"]);
    assert!(near(&latency["p50"], 229) && near(&latency["p99"], 259), "{latency}");
    assert!(near(&all["p50"], 217) && near(&all["p95"], 258) && all["mean"] == 188, "{all}");
    let chats = stats["items"].as_array().unwrap();
    let sum = |field: &str| chats.iter().map(|chat| chat[field].as_i64().unwrap()).sum::<i64>();
    assert_eq!((chats.len(), sum("messages"), sum("delivered"), sum("duplicates")), (3, 54, 36, 12));
    assert_eq!((&chats[0]["app"], &chats[0]["name"]), (&json!("support"), &Value::Null));
    let other = self::stats(&records, "2026-11-28", None, None).await;
    assert_eq!(
        (&other["total"]["messages"], &other["total"]["latency_ms"], &other["items"]),
        (&json!(0), &Value::Null, &json!([]))
    );
}

async fn lines_in_any_cut_and_order_and_again_give_the_same_statistics(kind: In) {
    let (_one, at_once) = records(kind, "UTC").await;
    at_once.write(a_day()).await.expect("writes");
    let expected = of_day(&at_once).await;
    let lines = a_day();
    let (_two, forwards) = records(kind, "UTC").await;
    for part in lines.chunks(7) {
        forwards.write(part.to_vec()).await.expect("writes");
        forwards.write(part.to_vec()).await.expect("writes");
    }
    assert_eq!(of_day(&forwards).await, expected);
    let (_three, backwards) = records(kind, "UTC").await;
    for part in lines.chunks(5).rev().chain(lines.chunks(11)) {
        backwards.write(part.iter().rev().cloned().collect()).await.expect("writes");
    }
    assert_eq!(of_day(&backwards).await, expected);
}

async fn two_gateways_that_write_at_once_add_up_rightly(kind: In) {
    let (_one, alone) = records(kind, "UTC").await;
    alone.write(a_day()).await.expect("writes");
    let (database, first) = records(kind, "UTC").await;
    let second = database.open().await;
    let (odd, even): (Vec<_>, Vec<_>) = a_day().into_iter().partition(|line| line.line[0] % 2 == 1);
    for _ in 0..3 {
        let (one, other) = tokio::join!(first.write(odd.clone()), second.write(even.clone()));
        one.and(other).expect("writes");
        // As two that read the same journal do.
        let (one, other) = tokio::join!(first.write(a_day()), second.write(a_day()));
        one.and(other).expect("writes");
    }
    assert_eq!(of_day(&second).await, of_day(&alone).await);
}

async fn a_day_ends_at_midnight_in_its_zone(kind: In) {
    let (_database, records) = records(kind, "Asia/Shanghai").await;
    let midnight = DAY + 16 * 3_600_000;
    let mut lines = hit(1, midnight - 1, "wr甲", "command", "query", "delivered", 300);
    lines.extend(hit(2, midnight, "wr甲", "command", "query", "delivered", 300));
    lines.extend([
        copy(1, midnight - 1, "late", "wr甲"),
        copy(1, midnight, "later", "wr甲"),
        copy(1, midnight + 1, "last", "wr甲"),
    ]);
    for line in lines {
        records.write(vec![line]).await.expect("writes");
    }
    // What came before midnight and was answered after it belongs to the day on which it came.
    for (date, duplicates) in [("2026-11-29", 1), ("2026-11-30", 2)] {
        let total = &stats(&records, date, None, None).await["total"];
        let figures = ["messages", "delivered", "duplicates"].map(|field| total[field].as_i64().unwrap());
        assert_eq!(figures, [1, 1, duplicates], "{date}");
    }
}

async fn a_copy_counts_once_whoever_stopped_it(kind: In) {
    let (_database, records) = records(kind, "UTC").await;
    let today = records.zone().today().to_string();
    let duplicates = async || {
        let day = of_day(&records).await["total"]["duplicates"].as_i64().unwrap();
        (day, stats(&records, &today, None, None).await["total"]["duplicates"].as_i64().unwrap())
    };
    // Two lines of one request: its enqueue was repeated.
    let lines = vec![copy(1, DAY, "a", "wr甲"), copy(1, DAY + 9, "a", "wr甲"), copy(1, DAY, "b", "wr甲")];
    for _ in 0..2 {
        records.write(lines.clone()).await.expect("writes");
    }
    records.write(vec![copy(1, DAY + 20, "b", "wr甲"), copy(2, DAY, "b", "wr甲")]).await.expect("writes");
    assert_eq!(duplicates().await, (3, 0));
    // What two processes stop by themselves, one of which gets no answer to its first write.
    let (one, other) = (Copies::new(records.zone().clone()), Copies::new(records.zone().clone()));
    for n in 0..5 {
        one.stopped("support", "wr甲");
        other.stopped("support", &format!("wr{n}"));
    }
    for copies in [&one, &one, &other] {
        records.write_with(Vec::new(), copies.batch().as_deref()).await.expect("writes");
    }
    one.written();
    one.stopped("support", "wr甲");
    records.write_with(Vec::new(), one.batch().as_deref()).await.expect("writes");
    assert_eq!(duplicates().await, (3, 11));
}

async fn chats_come_page_by_page_and_by_filter(kind: In) {
    let (_database, records) = records(kind, "UTC").await;
    let chats: Vec<String> = (0..25).map(|n| format!("wr{n:02}")).collect();
    let lines =
        chats.iter().zip(0..).flat_map(|(chat, n)| hit(n, DAY, chat, "command", "query", "delivered", 10 * n + 10));
    records.write(lines.collect()).await.expect("writes");
    let scope = Scope { day: "2026-11-29".parse().unwrap(), app: None, chat: None };
    let (mut seen, mut from): (Vec<String>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = records.stats(&scope, from.as_ref(), 7).await.expect("reads");
        assert_eq!((page.total.messages, page.rules[0].hits), (25, 25), "the same on each page");
        for chat in page.chats.items {
            let n: u64 = chat.chat[2..].parse().unwrap();
            assert_eq!(chat.figures.replies.latency_ms.map(|latency| latency.mean), Some(10 * n + 10));
            seen.push(chat.chat);
        }
        from = page.chats.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen, chats);
    let one = stats(&records, "2026-11-29", Some("support"), Some("wr07")).await;
    assert_eq!((&one["total"]["messages"], &one["items"][0]["chat"]), (&json!(1), &json!("wr07")));
    assert_eq!(one["total"]["latency_ms"]["mean"], 80);
    let none = stats(&records, "2026-11-29", Some("sales"), None).await;
    assert_eq!((&none["total"]["messages"], &none["items"]), (&json!(0), &json!([])));
}

async fn an_operators_word_moves_a_reply_and_pruning_takes_no_figure(kind: In) {
    let (_database, records) = records(kind, "UTC").await;
    records.write(hit(1, DAY, "wr甲", "command", "query", "unknown", 5_000)).await.expect("writes");
    let ends = async || {
        let total = &of_day(&records).await["total"];
        ["messages", "replies", "delivered", "unknown"].map(|field| total[field].as_i64().unwrap())
    };
    assert_eq!(ends().await, [1, 1, 0, 1]);
    let key = MessageKey::new("support", "wr甲", "wmA", "m1");
    let word = json!({"delivery": "r1.0", "action": "delivered", "by": "ops", "resent_as": null});
    records.write(vec![line(DAY + 9_000, Stage::Operated, "r1", &key, word)]).await.expect("writes");
    assert_eq!(ends().await, [1, 1, 1, 0]);
    records.prune(DAY + 10_000, 10).await.expect("prunes");
    assert_eq!(ends().await, [1, 1, 1, 0]);
    assert!(!records.prune_stats(DAY + 10_000).await.expect("prunes"), "the day is not over");
    assert!(records.prune_stats(DAY + 24 * 3_600_000).await.expect("prunes"));
    assert_eq!(ends().await, [0; 4]);
}
