//! How long an operator waits where the records hold 5,000,000 lines of trails, over 30 days.

use std::time::{Duration, Instant};

use serde_json::json;
use wecom_gateway::model::{MessageKey, Outcome, Secret};
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::records::{Records, Scope};
use wecom_gateway::store::{Line, Stage};
use wecom_gateway::zone::Zone;

use crate::mariadb_server::MariaDb;

const MESSAGES: usize = 1_666_667;
const CHATS: usize = 2_000;
const RULES: usize = 6;
const DAYS: usize = 30;
/// 2026-11-01T00:00:00Z
const FIRST_DAY: i64 = 1_793_491_200_000;

/// The three lines of the n-th message: they come evenly over the days, to each chat in its turn, with latencies of all sizes.
fn trail(n: usize) -> [Recorded; 3] {
    let at = FIRST_DAY + (n as i64 * (DAYS as i64 * 86_400_000)) / MESSAGES as i64;
    // Spread as real ones are: most within a second, some within a minute.
    let latency = 50 + (n * 7919 % 1_000) as i64 + if n.is_multiple_of(50) { (n * 104_729 % 60_000) as i64 } else { 0 };
    let request = format!("0198f2c0{n:024x}");
    let key = MessageKey::new(
        "support",
        &format!("wrOgAAAAgAAxxxxxx{:08}", n * 31 % CHATS),
        &format!("wm{}", n % 50_000),
        &format!("CAEQ{n}"),
    );
    let reply = format!("{request}.0");
    let state = if n.is_multiple_of(1_000) { "unknown" } else { "delivered" };
    let handled = json!({"rule": format!("command:query{}", n * 17 % RULES), "trigger": "command", "action": "http",
        "outcome": "queued", "reason": null, "replies": [{"id": reply, "digest": "0123456789abcdef"}], "elapsed_ms": 7,
        "redelivered": false});
    let settled = json!({"delivery": reply, "state": state, "digest": "0123456789abcdef", "channel": "group_robot",
        "errcode": 0, "errmsg": "ok", "elapsed_ms": 80, "latency_ms": latency});
    let line = |at: i64, stage, detail: serde_json::Value| {
        let detail = detail.as_object().cloned().unwrap_or_default();
        let line = Line { stage, request_id: request.clone(), key: key.clone(), detail };
        Recorded::parse(&format!("{at}\t{line}")).expect("a line")
    };
    [
        line(at, Stage::Accepted, json!({})),
        line(at + 9, Stage::Handled, handled),
        line(at + latency, Stage::Settled, settled),
    ]
}

/// The slowest of several tries, each of something else.
async fn slowest<F: Future<Output = ()>>(tries: usize, ask: impl Fn(usize) -> F) -> Duration {
    let mut slowest = Duration::ZERO;
    for n in 0..tries {
        let began = Instant::now();
        ask(n).await;
        slowest = slowest.max(began.elapsed());
    }
    slowest
}

async fn measure(name: &str, records: &Records) {
    let began = Instant::now();
    for from in (0..MESSAGES).step_by(667) {
        let lines = (from..(from + 667).min(MESSAGES)).flat_map(trail).collect();
        records.write(lines).await.expect("writes");
    }
    let filled = began.elapsed();
    let found = slowest(20, async |n| {
        let id = format!("CAEQ{}", n * 83_333);
        let page = records.messages_by_id(&id, None, 100).await.expect("reads");
        assert_eq!(page.items[0].stages.len(), 3);
    });
    let found = found.await;
    let day = slowest(5, async |n| {
        let day = Zone::default().day(FIRST_DAY + n as i64 * 6 * 86_400_000);
        let stats = records.stats(&Scope { day, app: None, chat: None }, None, 100).await.expect("reads");
        assert!(stats.total.messages > 50_000 && stats.rules.len() == RULES && stats.chats.items.len() == 100);
    });
    let day = day.await;
    let open = slowest(5, async |_| {
        let page = records.deliveries(&[Outcome::Unknown], None, 100).await.expect("reads");
        assert_eq!(page.items.len(), 100);
    });
    let open = open.await;
    println!(
        "{name}: {} lines written in {filled:.0?} ({:.0} a second); slowest answers: a message by its id {found:.1?}, \
         a day's statistics of {CHATS} chats {day:.1?}, 100 unknown deliveries {open:.1?}",
        MESSAGES * 3,
        (MESSAGES * 3) as f64 / filled.as_secs_f64()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement; takes some ten minutes"]
async fn five_million_lines_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("records.db");
    let records = Records::open(&Secret::new(format!("sqlite://{}", file.display()))).await.expect("opens");
    measure("sqlite", &records).await;
    records.close().await;
    println!("sqlite: {} MiB", std::fs::metadata(&file).expect("the file").len() >> 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement; takes some twenty minutes"]
async fn five_million_lines_in_mariadb() {
    let database = MariaDb::measured().await;
    let records = Records::open(&database.url()).await.expect("opens");
    measure("mariadb", &records).await;
    println!("mariadb: {} MiB", database.size() >> 20);
}
