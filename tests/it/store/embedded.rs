//! The contract on the embedded store.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use wecom_gateway::member::MemberKey;
use wecom_gateway::store::embedded::EmbeddedStore;
use wecom_gateway::store::*;

use super::*;

const SHARDS: u16 = 16;

/// A store in a folder that goes with it.
struct Embedded {
    store: Arc<EmbeddedStore>,
    folder: tempfile::TempDir,
}

async fn open() -> Embedded {
    let folder = tempfile::tempdir().expect("a folder");
    Embedded { store: EmbeddedStore::open(folder.path(), SHARDS).expect("open"), folder }
}

#[async_trait]
impl Fixture for Embedded {
    fn store(&self) -> SharedStore {
        self.store.clone()
    }
    async fn reopen_as(&self, options: Options) -> SharedStore {
        EmbeddedStore::open(self.folder.path(), Options { shards: SHARDS, ..options }).expect("open again")
    }
    async fn turn_back(&self, by: Duration) {
        let conn = rusqlite::Connection::open(self.folder.path().join("store.db")).expect("open");
        conn.busy_timeout(LONG).expect("a timeout");
        let later =
            ["chats SET due = due", "chats SET last_send = last_send", "in_lanes SET due = due", "sends SET at = at"];
        for column in later {
            conn.execute(&format!("UPDATE {column} + ?1"), [by.as_millis() as i64]).expect("later");
        }
    }
    /// One file, one order of turns.
    fn shards(&self) -> u16 {
        1
    }
}

super::suite::contract_suite!(open);

/// What a crash of the process or the machine leaves of a store that is being written: the file as it was at the last
/// checkpoint, and the log up to some byte.
fn crashed_copy(live: &Path, torn: bool) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    fs::copy(live.join("store.db"), copy.path().join("store.db")).expect("the file");
    let mut log = fs::read(live.join("store.db-wal")).expect("the log");
    if torn {
        log.extend([0x5a; 3000]);
    }
    fs::write(copy.path().join("store.db-wal"), log).expect("the log");
    copy
}

/// Work goes on while the copies are made. Whatever was answered before a copy began must be in it, whole and once.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_a_crash() {
    let live = open().await;
    let store = live.store();
    queue_texts(&store, "sent", &["1", "2"]).await;
    send(&store, Fate::Delivered).await;
    let begun = take_reply(&store).await;
    assert_eq!(begin(&store, Begin { lease_for: SHORT, ..begin_of(&begun) }).await, Begun::Go);
    enqueue(&store, arrival("claimed", "u", "m", "claimed")).await;
    let claimed = store.claim_messages(1, SHORT).await.expect("claim");
    assert_eq!(claimed.items.len(), 1);

    let stop = Arc::new(AtomicBool::new(false));
    let (acked, mut acks) = tokio::sync::mpsc::unbounded_channel();
    let busy = tokio::spawn({
        let (store, stop) = (store.clone(), stop.clone());
        async move {
            for i in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let id = format!("m{i}");
                enqueue(&store, arrival("busy", &id, &id, &id)).await;
                acked.send(id).expect("the test listens");
            }
        }
    });
    let mut answered = vec!["claimed".to_owned()];
    for torn in [false, true] {
        answered.push(patiently(acks.recv()).await.expect("it goes on"));
        answered.extend(std::iter::from_fn(|| acks.try_recv().ok()));
        let copy = crashed_copy(live.folder.path(), torn);
        let found: SharedStore = EmbeddedStore::open(copy.path(), SHARDS).expect("it opens");
        let stored = found.chats(vec![lane("sent")]).await.expect("chats").remove(0);
        assert_eq!(stored.depth, 1);
        let head = await_reply(&found).await;
        assert_eq!((text_of(&head), head.begun), ("2", true));
        let mut waiting = std::collections::HashSet::new();
        while !answered.iter().all(|id| waiting.contains(id)) {
            let first = await_message(&found).await;
            let others = found.claim_messages(100_000, LONG).await.expect("claim");
            for message in others.items.into_iter().chain([first]) {
                let id = message.message.request_id;
                assert_eq!(message.redelivered, id == "claimed");
                assert!(waiting.insert(id), "twice");
            }
        }
        assert_eq!(enqueue_one(&found, arrival("claimed", "u", "m", "copy")).await, Enqueued::Duplicate);
    }
    stop.store(true, Ordering::Relaxed);
    busy.await.expect("no failure");
}

/// What operators set, for which there is no verb yet.
fn set(fixture: &Embedded, chat: &str, what: &str) {
    let conn = rusqlite::Connection::open(fixture.folder.path().join("store.db")).expect("open");
    conn.busy_timeout(LONG).expect("a timeout");
    let rows = conn.execute(&format!("UPDATE chats SET {what} WHERE lane = ?1"), [lane(chat).as_str()]).expect("set");
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn a_paused_chat_waits() {
    let fixture = open().await;
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let first = take_reply(&store).await;
    begin(&store, begin_of(&first)).await;
    set(&fixture, "chat", "paused = 1");
    let settled = settle(&store, settle_and_go_on(&first, Fate::Delivered)).await;
    assert!(matches!(settled, Settled::Parked(Begun::Paused)), "{settled:?}");
    assert!(store.claim_replies(1, LONG).await.expect("claim").items.is_empty());
    let status = store.chats(vec![lane("chat")]).await.expect("chats").remove(0);
    assert!(status.paused && !status.leased);
    assert_eq!(status.parked.expect("parked").0, "paused");
    set(&fixture, "chat", "due = 0");
    let second = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&second)).await, Begun::Paused);
    set(&fixture, "chat", "paused = 0, due = 0");
    let second = take_reply(&store).await;
    assert_eq!((text_of(&second), begin(&store, begin_of(&second)).await), ("2", Begun::Go));
}

#[tokio::test]
async fn an_operators_weight_wins() {
    let fixture = open().await;
    let store = fixture.store();
    queue_texts(&store, "light", &["0"]).await;
    send(&store, Fate::Delivered).await;
    set(&fixture, "light", "weight = 100");
    let turn = Turn { weight: 10, head_start: LONG };
    queue(&store, turn, vec![reply("heavy", "heavy", 0, "2")]).await;
    queue(&store, turn, vec![reply("again", "light", 0, "1")]).await;
    assert_eq!(store.chats(vec![lane("light")]).await.expect("chats")[0].weight, Some(100));
    for text in ["1", "2"] {
        assert_eq!(text_of(&send(&store, Fate::Delivered).await), text);
    }
}

/// Whoever held a lease as the file was opened is gone, which counts against its message, once.
#[tokio::test]
async fn a_worker_that_went_down_with_its_process_is_counted() {
    let Embedded { store, folder } = open().await;
    let options = Options { shards: SHARDS, poison_after: 2, ..Options::default() };
    enqueue(&(store.clone() as SharedStore), arrival("chat", "u", "m1", "r1")).await;
    assert_eq!(store.claim_messages(1, LONG).await.expect("claim").items.len(), 1);
    drop(store);
    drop(EmbeddedStore::open(folder.path(), options).expect("open again"));
    let store: SharedStore = EmbeddedStore::open(folder.path(), options).expect("open again");
    assert!(take(&store).await.redelivered);
    drop(store);
    let store: SharedStore = EmbeddedStore::open(folder.path(), options).expect("open again");
    let claimed = store.claim_messages(1, LONG).await.expect("claim");
    assert_eq!((claimed.items.len(), claimed.poisoned.len()), (0, 1));
}

/// Makes the tables of queues as they were up to layout 8, clustered by place, and the journal, numbered by SQLite and trimmed.
fn cluster(conn: &rusqlite::Connection) -> rusqlite::Result<()> {
    for table in ["messages", "deliveries", "journal"] {
        let now: String = conn.query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))?;
        let then = match table {
            "journal" => now.replace("PRIMARY KEY", "PRIMARY KEY AUTOINCREMENT"),
            _ => now.replace("UNIQUE (", "PRIMARY KEY (").replace(") STRICT", ") STRICT, WITHOUT ROWID"),
        };
        assert_ne!(now, then);
        conn.execute_batch(&format!(
            "ALTER TABLE {table} RENAME TO moved; {then}; INSERT INTO {table} SELECT * FROM moved; DROP TABLE moved"
        ))?;
    }
    conn.execute_batch("DELETE FROM journal; DELETE FROM meta WHERE name = 'trimmed'")
}

/// Files of the layouts before crashes were counted, before tickets knew how their message can be answered, before deliveries
/// were merged, before sessions could be forgotten, before there were pushes, before each source of a contact field had its own word, and
/// before queues stood in the order they came and the journal was numbered by its own last line.
#[tokio::test]
async fn stores_of_earlier_layouts_are_taken_over() {
    let sources = "DROP TABLE forgotten_members; ALTER TABLE sessions DROP COLUMN ends;
                   CREATE TABLE contacts (key TEXT, field TEXT, value TEXT, filled INTEGER, PRIMARY KEY (key, field));
                   INSERT INTO contacts SELECT key, field, value, 1 - source FROM contact_fields;
                   DROP TABLE contact_fields;";
    let forgotten = "ALTER TABLE sessions DROP COLUMN forgotten;";
    let merged = "ALTER TABLE deliveries DROP COLUMN merged; ALTER TABLE deliveries DROP COLUMN apart;";
    let reply_to = "ALTER TABLE late DROP COLUMN reply_to;";
    let crashes = "ALTER TABLE in_lanes DROP COLUMN crashes;";
    let pushes = "DROP TABLE tasks; DROP TABLE pushes; DROP INDEX out_ready; DROP INDEX out_ready_push;
                  ALTER TABLE chats DROP COLUMN last_reply;
                  CREATE INDEX out_ready ON chats (turn) WHERE state = 'ready';";
    let steps = [sources, pushes, forgotten, merged, reply_to, crashes];
    for (layout, lacks) in (2..=8).rev().zip(0..).map(|(layout, more)| (layout, &steps[..more])) {
        let Embedded { store, folder } = open().await;
        let shared: SharedStore = store.clone();
        queue_texts(&shared, "busy", &["1", "2"]).await;
        enqueue(&shared, arrival("chat", "u", "m1", "r1")).await;
        let member = MemberKey::new(APP, "u");
        let contact = |name: FieldChange, remark: FieldChange| {
            let contact = vec![("name".to_owned(), name), ("remark".to_owned(), remark)];
            ProfileChange { member: member.clone(), user: None, contact, upon: None, change: None }
        };
        let (set, told) = (FieldChange::Set("甲".into()), FieldChange::Fill("乙".into()));
        shared.members().change_profile(contact(set, told.clone())).await.expect("changes");
        let lines = store.read_journal(100).await.expect("journal").remove(0);
        drop((store, shared));
        let conn = rusqlite::Connection::open(folder.path().join("store.db")).expect("open");
        cluster(&conn).expect("the old tables");
        conn.execute_batch(&format!("{} PRAGMA user_version = {layout}", lacks.concat())).expect("the old layout");
        drop(conn);
        let store: SharedStore = EmbeddedStore::open(folder.path(), SHARDS).expect("it is taken over");
        assert_eq!(store.depth().await.expect("depth").waiting, 3);
        assert_eq!(text_of(&send(&store, Fate::Delivered).await), "1");
        let later = store.read_journal(100).await.expect("journal").remove(0);
        assert_eq!(later.from, lines.from + lines.count as i64, "its numbers go on");
        assert_eq!(take(&store).await.message.request_id, "r1");
        assert_eq!(store.waiting(&lane("chat"), "r1").await.expect("asked"), None);
        store.members().change_profile(contact(told.clone(), FieldChange::Fill("丙".into()))).await.expect("changes");
        let known = store.members().read_profile(&member).await.expect("reads").contact;
        assert_eq!(known.into_values().collect::<Vec<_>>(), ["甲", "丙"], "what was set was no callback's");
    }
}
