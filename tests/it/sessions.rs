//! What a hundred thousand sessions and exchanges take, printed: run by hand, see docs/actions.md.
//!
//! `cargo test --test it -- --ignored --nocapture a_hundred_thousand`

use std::time::{Duration, Instant};

use serde_json::json;
use wecom_gateway::model::{ChatKind, Lane, Message, Role, SenderKind, Session, SessionKey, SessionTurn, now_ms};
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::records::{Records, exchange};
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::store::redis::RedisStore;
use wecom_gateway::store::*;

use crate::mariadb_server::MariaDb;
use crate::redis_server::RedisServer;

const SESSIONS: usize = 100_000;
/// Turns of each: 40 Chinese characters, 120 bytes.
const TURNS: usize = 20;
const EXCHANGES: usize = 100_000;
const AT_ONCE: usize = 500;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn session() -> Session {
    let turn =
        |n| SessionTurn { role: if n % 2 == 0 { Role::User } else { Role::Bot }, text: "价".repeat(40), name: None };
    Session {
        turns: (0..TURNS).map(turn).collect(), vars: [("city".to_owned(), json!("上海"))].into_iter().collect()
    }
}

fn sender(n: usize) -> (String, String) {
    (format!("wrChat{}", n % 1000), format!("wmMember{n}"))
}

fn arrival(n: usize) -> Arrival {
    let (chat, sender) = sender(n);
    let message = Message {
        request_id: format!("r{n}"),
        app: "support".into(),
        chat_id: chat.clone(),
        chat_kind: ChatKind::Group,
        msg_id: format!("m{n}"),
        sender_key: sender.clone(),
        sender_kind: SenderKind::External,
        sender_name: None,
        msg_type: "text".into(),
        text: "价格".into(),
        sent_at: None,
        received_at: now_ms(),
        response_url: None,
        trace: None,
    };
    Arrival {
        lane: Lane::of_sender("support", &chat, &sender),
        message,
        max_age: DAY,
        mark_ttl: Duration::from_millis(1),
        depth_limit: 10,
        repeated: false,
    }
}

/// One message of each member, each with a full session; what they leave in the journal is trimmed.
async fn fill(store: &SharedStore) -> Duration {
    let began = Instant::now();
    for from in (0..SESSIONS).step_by(AT_ONCE) {
        store.enqueue((from..from + AT_ONCE).map(arrival).collect()).await.expect("enqueue");
        let mut left = AT_ONCE;
        while left > 0 {
            let claimed = store.claim_messages(AT_ONCE, DAY).await.expect("claim").items;
            left -= claimed.len();
            let commits = claimed.into_iter().map(|claimed| {
                let key = SessionKey::of_sender("support", &claimed.message.chat_id, &claimed.message.sender_key);
                let exchange = Exchange { key, session: session(), keep: DAY, forgotten: 0, line: None };
                Commit {
                    lease: claimed.lease,
                    key: claimed.message.key(),
                    request_id: claimed.message.request_id.clone(),
                    mark_ttl: Duration::from_millis(1),
                    exchange: Some(exchange),
                    replies: Vec::new(),
                    turn: Turn { weight: 1, head_start: Duration::ZERO },
                    depth_limit: 100,
                    await_late: None,
                    lines: Vec::new(),
                }
            });
            store.commit(commits.collect()).await.expect("commit");
        }
        for batch in store.read_journal(10_000).await.expect("journal") {
            store.trim_journal(&batch).await.expect("trim");
        }
    }
    began.elapsed()
}

/// How long reading sessions takes, one after another.
async fn reading(store: &SharedStore) -> Duration {
    let began = Instant::now();
    for n in (0..SESSIONS).step_by(SESSIONS / 1000) {
        let (chat, sender) = sender(n);
        let remembered = store.session(&SessionKey::of_sender("support", &chat, &sender)).await.expect("reads");
        assert_eq!(remembered.session.turns.len(), TURNS);
    }
    began.elapsed() / 1000
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// This process's resident memory, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement; takes a minute"]
async fn a_hundred_thousand_sessions() {
    let each = serde_json::to_string(&session()).expect("json").len();
    println!("{SESSIONS} sessions of {TURNS} turns, {each} bytes each as JSON");

    let folder = tempfile::tempdir().expect("a folder");
    let before = resident();
    let store: SharedStore = EmbeddedStore::open(folder.path(), 1).expect("opens");
    let (took, read) = (fill(&store).await, reading(&store).await);
    let file = std::fs::metadata(folder.path().join("store.db")).expect("the file").len();
    let grown = resident().saturating_sub(before);
    println!(
        "embedded: store.db {} MiB, this process grew by {} MiB, filled in {took:.1?}, one read {read:.1?}",
        mib(file),
        mib(grown)
    );
    drop(store);

    let server = RedisServer::spawn(&[]);
    let empty: String = server.command(&["INFO", "memory"]).await;
    let store: SharedStore = RedisStore::open(&server.url(), 1).expect("opens");
    let (took, read) = (fill(&store).await, reading(&store).await);
    let full: String = server.command(&["INFO", "memory"]).await;
    let used = |info: &str| -> u64 {
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("used memory");
        line.trim().parse().expect("a number")
    };
    println!("redis: {} MiB of memory, filled in {took:.1?}, one read {read:.1?}", mib(used(&full) - used(&empty)));
}

/// A tenth of those sessions in the archive: ten exchanges each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement; takes a minute"]
async fn a_hundred_thousand_exchanges() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("records.db");
    let database = MariaDb::alone().await;
    let sqlite =
        Records::open(&wecom_gateway::model::Secret::new(format!("sqlite://{}", file.display()))).await.expect("opens");
    let mariadb = Records::open(&database.url()).await.expect("opens");
    for (name, records) in [("sqlite", &sqlite), ("mariadb", &mariadb)] {
        let began = Instant::now();
        for from in (0..EXCHANGES).step_by(2_000) {
            let lines = (from..from + 2_000).map(|n| {
                let (chat, sender) = sender(n % (EXCHANGES / 10));
                let key = SessionKey::of_sender("support", &chat, &sender).line_key(&format!("m{n}"));
                let detail = exchange(&session().turns[..2], Some(&session().vars));
                let line = Line { stage: Stage::Exchanged, request_id: format!("r{n}"), key, detail };
                Recorded::parse(&format!("{n}\t{line}")).expect("a line")
            });
            records.write(lines.collect()).await.expect("writes");
        }
        let took = began.elapsed();
        let began = Instant::now();
        for n in (0..EXCHANGES / 10).step_by(10) {
            let (chat, sender) = sender(n);
            let key = SessionKey::of_sender("support", &chat, &sender);
            let session = records.archived(&key, 0, TURNS).await.expect("reads").expect("there");
            assert_eq!(session.turns.len(), TURNS);
        }
        println!(
            "archive in {name}: {} exchanges written in {took:.1?}, one session read in {:.1?}",
            EXCHANGES,
            began.elapsed() / 1000
        );
    }
    sqlite.close().await;
    println!("archive in sqlite: {} MiB", mib(std::fs::metadata(&file).expect("the file").len()));
    println!("archive in mariadb: {} MiB", mib(database.size()));
}
