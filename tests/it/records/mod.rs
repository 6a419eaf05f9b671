//! The records on each real database: lines in, rows and pages out.

mod archive;
mod away;
mod care;
mod changes;
mod results;
mod silent;
mod size;
mod stats;

use serde_json::{Value, json};
use sqlx::Executor;
use tempfile::TempDir;

use wecom_gateway::model::{MessageKey, Outcome, Secret};
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::records::{Cursor, Records, RecordsError};
use wecom_gateway::store::{Line, Stage};

use crate::mariadb_server::MariaDb;
use crate::world::TEST;

/// Where records are kept.
#[derive(Clone, Copy, Debug)]
pub enum In {
    Sqlite,
    MariaDb,
}

/// An empty database, gone with its handle.
pub enum Database {
    File(TempDir),
    Server(MariaDb),
}

impl Database {
    pub async fn new(kind: In) -> Self {
        match kind {
            In::Sqlite => Self::File(TempDir::new().expect("a folder")),
            In::MariaDb => Self::Server(MariaDb::new().await),
        }
    }

    pub fn url(&self) -> Secret {
        match self {
            Self::File(folder) => {
                Secret::new(format!("sqlite://{}", folder.path().join("new folder/records.db").display()))
            }
            Self::Server(server) => server.url(),
        }
    }

    pub async fn open(&self) -> Records {
        Records::open(&self.url()).await.expect("opens")
    }
}

/// Stamps each test on both databases, bounded in time.
macro_rules! on_both_databases {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let test = super::$name($crate::records::In::Sqlite);
                tokio::time::timeout($crate::world::TEST, test).await.expect("within its time");
            })*
        }
        mod mariadb {
            $(#[tokio::test]
            async fn $name() {
                let test = super::$name($crate::records::In::MariaDb);
                tokio::time::timeout($crate::world::TEST, test).await.expect("within its time");
            })*
        }
    };
}
use on_both_databases;

on_both_databases!(
    a_message_is_found_by_each_of_its_names_with_its_whole_trail,
    blanks_at_the_end_of_a_name_count,
    lines_written_again_in_any_cut_give_the_same_rows,
    two_gateways_that_write_at_once_give_the_same_rows,
    ended_deliveries_come_newest_first_page_by_page,
    messages_that_share_an_id_come_page_by_page,
    pruning_forgets_the_oldest_with_all_that_hangs_on_them,
    a_database_is_opened_again_with_what_it_held,
    what_is_too_long_for_a_column_is_cut,
);

async fn records(kind: In) -> (Database, Records) {
    let database = Database::new(kind).await;
    let records = database.open().await;
    (database, records)
}

fn line(at: i64, stage: Stage, request_id: &str, key: &MessageKey, detail: Value) -> Recorded {
    let detail = detail.as_object().cloned().unwrap_or_default();
    let line = Line { stage, request_id: request_id.into(), key: key.clone(), detail };
    Recorded::parse(&format!("{at}\t{line}")).expect("a line")
}

fn key(msg_id: &str) -> MessageKey {
    MessageKey::new("app", "群:1", "wmA", msg_id)
}

/// A message `m<n>`, taken at `n`, whose one reply ends in `state`.
fn life(n: i64, state: &str) -> Vec<Recorded> {
    let (key, request_id) = (key(&format!("m{n}")), format!("r{n}"));
    let reply = format!("{request_id}.0");
    let handled =
        json!({"rule": "query", "action": "http", "outcome": "queued", "replies": [{"id": reply, "digest": "d"}]});
    let settled = json!({"delivery": reply, "state": state, "reason": "because", "errcode": 93000});
    vec![
        line(n, Stage::Accepted, &request_id, &key, json!({})),
        line(n + 1, Stage::Handled, &request_id, &key, handled),
        line(n + 2, Stage::Settled, &request_id, &key, settled),
    ]
}

/// Everything that is in the tables, to be compared.
async fn dump(records: &Records) -> Vec<String> {
    let mut all = Vec::new();
    for n in 0..10 {
        let page = records.messages_by_id(&format!("m{n}"), None, 10).await.expect("reads");
        all.push(serde_json::to_string(&page).expect("json"));
    }
    let every = [Outcome::Queued, Outcome::Delivered, Outcome::Dropped, Outcome::Dead, Outcome::Unknown];
    let page = records.deliveries(&every, None, 1000).await.expect("reads").map(|ended| ended.item);
    all.push(serde_json::to_string(&page).expect("json"));
    all
}

async fn a_message_is_found_by_each_of_its_names_with_its_whole_trail(kind: In) {
    let (_folder, records) = records(kind).await;
    let mut lines = life(1_780_000_000_123, "dead");
    let key = lines[0].key.clone();
    lines.push(line(1_780_000_000_124, Stage::Duplicate, "copy", &key, json!({"at": "mine"})));
    records.write(lines).await.expect("writes");
    for id in ["m1780000000123", "r1780000000123", "r1780000000123.0", "copy"] {
        let page = records.messages_by_id(id, None, 10).await.expect("reads");
        let item = serde_json::to_value(&page.items[0]).expect("json");
        assert_eq!(page.items.len(), 1, "{id}");
        assert_eq!(item["chat"], "群:1");
        assert_eq!((&item["outcome"], &item["reason"]), (&json!("dead"), &json!("because")));
        let stages: Vec<_> = page.items[0].stages.iter().map(|stage| stage["stage"].clone()).collect();
        assert_eq!(stages, ["accepted", "duplicate", "handled", "settled"]);
        assert_eq!(item["stages"][0]["at"], "2026-05-28T20:26:40.123Z");
        assert_eq!(item["stages"][1]["at"], "2026-05-28T20:26:40.124Z", "a detail never hides the stage's own time");
        assert_eq!(item["stages"][3]["errcode"], 93000);
    }
    assert_eq!(records.messages_by_id("M1780000000123", None, 10).await.expect("reads").items, []);
}

/// Server's collations leave them out of a comparison.
async fn blanks_at_the_end_of_a_name_count(kind: In) {
    let (_folder, records) = records(kind).await;
    let (bare, blank, of_task) = (key("pad"), key("pad "), MessageKey::of_push("app", "群:1", "task "));
    let lines = [("r1", &bare), ("r2", &blank), ("r3", &of_task)];
    let lines = lines.map(|(request, key)| line(9, Stage::Accepted, request, key, json!({})));
    records.write(lines.to_vec()).await.expect("writes");
    for (id, found) in [
        ("pad", vec!["r1"]),
        ("pad ", vec!["r2"]),
        ("pad  ", vec![]),
        ("r1 ", vec![]),
        ("task", vec![]),
        ("task ", vec!["r3"]),
    ] {
        let page = records.messages_by_id(id, None, 10).await.expect("reads");
        let requests: Vec<String> = page.items.into_iter().map(|item| item.request_id).collect();
        assert_eq!(requests, found, "{id:?}");
    }
}

async fn lines_written_again_in_any_cut_give_the_same_rows(kind: In) {
    let lines: Vec<_> =
        (0..10).flat_map(|n| life(n * 3, ["delivered", "dropped", "unknown"][n as usize % 3])).collect();
    let (_one, at_once) = records(kind).await;
    at_once.write(lines.clone()).await.expect("writes");
    let expected = dump(&at_once).await;

    let (_two, by_parts) = records(kind).await;
    for part in lines.chunks(4) {
        by_parts.write(part.to_vec()).await.expect("writes");
    }
    assert_eq!(dump(&by_parts).await, expected);
    // What a second, slower process would write after all is done: each message's beginning comes last.
    for part in lines.chunks(4).rev() {
        by_parts.write(part.to_vec()).await.expect("writes");
    }
    assert_eq!(dump(&by_parts).await, expected);
}

async fn ended_deliveries_come_newest_first_page_by_page(kind: In) {
    let (_folder, records) = records(kind).await;
    let states = ["unknown", "dead", "delivered"];
    let lines: Vec<_> = (0..30).flat_map(|n| life(n, states[n as usize % 3])).collect();
    records.write(lines).await.expect("writes");
    let (mut seen, mut from): (Vec<String>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = records.deliveries(&[Outcome::Dead, Outcome::Unknown], from.as_ref(), 7).await.expect("reads");
        seen.extend(page.items.into_iter().map(|ended| ended.item.id));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..30).rev().filter(|n| n % 3 != 2).map(|n| format!("r{n}.0")).collect();
    assert_eq!(seen, expected);
    let junk = Cursor::from_text("junk");
    assert!(matches!(records.deliveries(&[Outcome::Dead], Some(&junk), 7).await, Err(RecordsError::Cursor)));
}

async fn messages_that_share_an_id_come_page_by_page(kind: In) {
    let (_folder, records) = records(kind).await;
    let chats = (0..5).map(|n| MessageKey::new("app", &format!("chat{n}"), "wmA", "7"));
    let lines = chats.map(|key| line(9, Stage::Accepted, "r", &key, json!({}))).collect();
    records.write(lines).await.expect("writes");
    let (mut seen, mut from) = (Vec::new(), None);
    for _ in 0..3 {
        let page = records.messages_by_id("7", from.as_ref(), 2).await.expect("reads");
        seen.extend(page.items.into_iter().map(|item| item.chat));
        from = page.next;
    }
    seen.sort();
    assert_eq!((seen, from), ((0..5).map(|n| format!("chat{n}")).collect(), None));
}

async fn pruning_forgets_the_oldest_with_all_that_hangs_on_them(kind: In) {
    let (_folder, records) = records(kind).await;
    records.write((0..9).flat_map(|n| life(n * 10, "dead")).collect()).await.expect("writes");
    assert!(records.prune(50, 3).await.expect("prunes"), "there is more");
    assert!(!records.prune(50, 3).await.expect("prunes"), "there is no more");
    let left = records.deliveries(&[Outcome::Dead], None, 100).await.expect("reads");
    assert_eq!(
        left.items.iter().map(|ended| ended.item.msg_id.as_deref().unwrap()).collect::<Vec<_>>(),
        ["m80", "m70", "m60", "m50"]
    );
    // By its request id too: no stage was left behind.
    assert_eq!(records.messages_by_id("r40", None, 1).await.expect("reads").items, []);
    assert_eq!(records.messages_by_id("r50", None, 1).await.expect("reads").items[0].stages.len(), 3);
}

async fn a_database_is_opened_again_with_what_it_held(kind: In) {
    let (database, records) = records(kind).await;
    records.write(life(1, "delivered")).await.expect("writes");
    let before = dump(&records).await;
    records.close().await;
    assert_eq!(dump(&database.open().await).await, before);
}

/// A flusher that is not alone: each has a part of every message's lines.
async fn two_gateways_that_write_at_once_give_the_same_rows(kind: In) {
    let lines: Vec<_> = (0..10).flat_map(|n| life(n * 3, ["delivered", "dead"][n as usize % 2])).collect();
    let (_one, alone) = records(kind).await;
    alone.write(lines.clone()).await.expect("writes");
    let (database, first) = records(kind).await;
    let second = database.open().await;
    let (odd, even): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.step.at % 2 == 1);
    for _ in 0..5 {
        let (one, other) = tokio::join!(first.write(odd.clone()), second.write(even.clone()));
        one.and(other).expect("writes");
    }
    assert_eq!(dump(&first).await, dump(&alone).await);
}

/// Two that judged one message at once would each know half of its lines: the second waits for the first.
#[tokio::test]
async fn on_a_server_one_gateway_writes_at_a_time() {
    let database = MariaDb::alone().await;
    let records = Records::open(&database.url()).await.expect("opens");
    let (mut another, mut observer) = (database.connect().await, database.connect().await);
    another.execute("START TRANSACTION").await.expect("begins");
    another.execute("SELECT id FROM writing WHERE id = 1 FOR UPDATE").await.expect("writes");
    let writing = tokio::spawn({
        let records = records.clone();
        async move { records.write(life(1, "delivered")).await }
    });
    // The server tells of waits from a copy, which it renews only for one who has not asked for a tenth of a second.
    let mut again = tokio::time::interval(std::time::Duration::from_millis(200));
    let waits = async {
        loop {
            again.tick().await;
            let waiting = sqlx::query_scalar("SELECT count(*) FROM information_schema.INNODB_LOCK_WAITS");
            let waiting: i64 = waiting.fetch_one(&mut observer).await.expect("an answer");
            assert!(!writing.is_finished(), "it did not wait");
            if waiting == 1 {
                return;
            }
        }
    };
    tokio::time::timeout(TEST, waits).await.expect("it waits");
    // Whoever only reads does not.
    assert_eq!(records.messages_by_id("m1", None, 1).await.expect("reads").items, []);
    another.execute("COMMIT").await.expect("ends");
    writing.await.expect("no panic").expect("writes");
    assert_eq!(records.messages_by_id("m1", None, 1).await.expect("reads").items.len(), 1);
}

async fn what_is_too_long_for_a_column_is_cut(kind: In) {
    let (_database, records) = records(kind).await;
    let detail = json!({"rule": "则".repeat(1100), "action": "a".repeat(100), "outcome": "dead", "reason": "因".repeat(1100),
        "words": "x".repeat(100_000)});
    let key = MessageKey::new("app", &"群".repeat(170), &"u".repeat(512), &"m".repeat(512));
    records.write(vec![line(1, Stage::Handled, "r1", &key, detail)]).await.expect("writes");
    let item = records.messages_by_id("r1", None, 1).await.expect("reads").items.remove(0);
    assert_eq!(item.reason, Some("因".repeat(1024)));
    assert_eq!(item.stages[0]["words"].as_str().map(str::len), Some(100_000));
}

#[tokio::test]
async fn an_address_of_another_kind_is_refused_without_its_password() {
    for url in ["postgres://u:p4ss@h/db", "nonsense", "sqlite", "mysql:/u:p4ss@h"] {
        let error = Records::open(&Secret::new(url)).await.expect_err("refused").to_string();
        assert!(error.contains("[database] url") && !error.contains("p4ss"), "{error}");
    }
}
